//! Indexes that move to more (or fewer) shards: the queue of those that are to, and the sign in a header that stops writers meanwhile.

use super::PAGE_MAX;
use super::change::{read, write};
use super::header::{Header, Resharding};
use crate::registry::Method;
use crate::rest::{Rest, keeps};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{NoArgs, decode, done, errno, reply, stored};
use denc::{ByteStr, Bytes, Decoder, Denc, DencError, Encoder, denc_struct};
use types::UTime;
use types::errno::ENOENT;

pub const METHODS: &[Method] = &[
    Method::writes("reshard_add", add),
    Method::reads("reshard_list", list),
    Method::reads("reshard_get", get),
    Method::writes("reshard_remove", remove),
    Method::writes("set_bucket_resharding", set),
    Method::writes("clear_bucket_resharding", clear),
    Method::reads("guard_bucket_resharding", guard),
    Method::reads("get_bucket_resharding", get_status),
];

/// `cls_rgw_reshard_entry`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Job {
    at: UTime,
    tenant: ByteStr,
    bucket: ByteStr,
    bucket_id: ByteStr,
    shards_before: u32,
    shards: u32,
    pub rest: Rest,
}

impl Denc for Job {
    fn encode(&self, e: &mut Encoder) {
        self.rest.frame(e, 2, 1, |e| {
            e.put(&self.at);
            for text in [&self.tenant, &self.bucket, &self.bucket_id] {
                e.put(text);
            }
            e.u32(self.shards_before);
            e.u32(self.shards);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Rest::read(d, "Job", 2, |d, v| {
            let (at, tenant, bucket, bucket_id) = (d.get()?, d.get()?, d.get()?, d.get()?);
            if v < 2 {
                // The new index's id.
                d.skip_blob()?;
            }
            Ok(Self { at, tenant, bucket, bucket_id, shards_before: d.u32()?, shards: d.u32()?, rest: Rest::default() })
        })
        .map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(Job, Job::default());

/// `cls_rgw_reshard_add_op`, `_get_op` (which says by its names which job it wants) and `_get_ret`.
pub struct One {
    job: Job,
}
denc_struct!(One, v 1, compat 1, { job });

/// `cls_rgw_reshard_list_op`.
pub struct ListOp {
    entries_max: u32,
    marker: ByteStr,
}
denc_struct!(ListOp, v 1, compat 1, { entries_max, marker });

/// `cls_rgw_reshard_list_ret`.
pub struct ListReply {
    jobs: Vec<Job>,
    truncated: bool,
}
denc_struct!(ListReply, v 1, compat 1, { jobs, truncated });

/// `cls_rgw_reshard_remove_op`.
pub struct RemoveOp {
    tenant: ByteStr,
    bucket: ByteStr,
    /// Another job of that bucket stays; empty for any.
    bucket_id: ByteStr,
}
denc_struct!(RemoveOp, v 1, compat 1, { tenant, bucket, bucket_id });

/// `cls_rgw_set_bucket_resharding_op` and `cls_rgw_get_bucket_resharding_ret`.
pub struct Status {
    entry: Resharding,
}
denc_struct!(Status, v 1, compat 1, { entry });

/// `cls_rgw_guard_bucket_resharding_op`.
pub struct GuardOp {
    /// What is answered while the index moves.
    code: i32,
}
denc_struct!(GuardOp, v 1, compat 1, { code });

fn key(tenant: &ByteStr, bucket: &ByteStr) -> ByteStr {
    [tenant.as_slice(), b":", bucket.as_slice()].concat().into()
}

/// A job of that bucket; ENOENT if there is none.
fn job(obj: &mut dyn ObjectView, key: &ByteStr) -> ClsResult<Job> {
    match read(obj, key)? {
        Some(job) => Ok(job),
        None => errno(ENOENT),
    }
}

fn add(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: One = decode(&input)?;
    write(obj, key(&op.job.tenant, &op.job.bucket), &op.job)?;
    done()
}

fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ListOp = decode(&input)?;
    // None are asked for by 0, and then whether more follow is said of a whole page.
    let page_max = if op.entries_max == 0 { PAGE_MAX } else { PAGE_MAX.min(op.entries_max.into()) };
    let (page, truncated) = obj.omap_vals(op.marker.as_slice(), b"", page_max)?;
    let jobs = page.iter().take(op.entries_max as usize).map(|(_, value)| stored(value)).collect::<ClsResult<_>>()?;
    reply(&ListReply { jobs, truncated })
}

fn get(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: One = decode(&input)?;
    let job = job(obj, &key(&op.job.tenant, &op.job.bucket))?;
    reply(&One { job })
}

fn remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: RemoveOp = decode(&input)?;
    let key = key(&op.tenant, &op.bucket);
    let job = job(obj, &key)?;
    if op.bucket_id.is_empty() || op.bucket_id == job.bucket_id {
        obj.omap_remove(vec![key])?;
    }
    done()
}

fn store_status(obj: &mut dyn ObjectView, resharding: Resharding) -> ClsResult<ClsReply> {
    let mut header = Header::load(obj)?;
    header.resharding = resharding;
    header.store(obj)?;
    done()
}

fn set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: Status = decode(&input)?;
    store_status(obj, op.entry)
}

fn clear(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    decode::<NoArgs>(&input)?;
    store_status(obj, Resharding::default())
}

/// Ends the whole operation in front of which it stands, with the caller's own code, while no client may write to the index.
fn guard(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: GuardOp = decode(&input)?;
    let moves = Header::load(obj)?.stops_writers();
    // The least number has no positive one, which errnos are kept as.
    Ok(ClsReply { code: if moves { op.code.max(-i32::MAX) } else { 0 }, data: Bytes::new() })
}

fn get_status(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    decode::<NoArgs>(&input)?;
    reply(&Status { entry: Header::load(obj)?.resharding })
}
