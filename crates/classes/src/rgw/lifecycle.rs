//! Buckets that have rules for the life of their objects, by name; and how far a round over them has come.

use super::change::{read, write};
use crate::registry::Method;
use crate::rest::{Rest, kept};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, encode, errno, reply, stored};
use denc::{ByteStr, Bytes, Decoder, Denc, DencError, Encoder, denc_struct};
use types::errno::{EINVAL, EIO, ENOENT};

pub const METHODS: &[Method] = &[
    Method::reads("lc_get_entry", get),
    Method::writes("lc_set_entry", set),
    Method::writes("lc_rm_entry", remove),
    Method::reads("lc_get_next_entry", next),
    Method::writes("lc_put_head", put_head),
    Method::reads("lc_get_head", get_head),
    Method::reads("lc_list_entries", list),
];

/// `cls_rgw_lc_entry`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bucket {
    name: ByteStr,
    /// When its round began, in seconds since 1970.
    started: u64,
    status: u32,
    pub rest: Rest,
}
kept!(Bucket, v 1, compat 1, { name, started, status });

/// `cls_rgw_lc_obj_head`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// When the round began, in seconds since 1970.
    started: u64,
    marker: ByteStr,
    rolled_over: u64,
    pub rest: Rest,
}
kept!(Head, v 2, compat 2, oldest 1, { started, marker, [since 2] rolled_over });

/// `cls_rgw_lc_get_entry_op` and `cls_rgw_lc_get_next_entry_op`.
pub struct MarkerOp {
    marker: ByteStr,
}
denc_struct!(MarkerOp, v 1, compat 1, { marker });

/// `cls_rgw_lc_set_entry_op`, `_rm_entry_op`, `_get_entry_ret` and `_get_next_entry_ret`. In version 1 the entry is a name and a status.
pub struct One {
    bucket: Bucket,
}

impl Denc for One {
    fn encode(&self, e: &mut Encoder) {
        e.frame(2, 2, |e| e.put(&self.bucket));
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("One", 2, |d, v| Ok(Self { bucket: if v < 2 { old_bucket(d)? } else { d.get()? } }))
    }
}

/// `cls_rgw_lc_put_head_op` and `cls_rgw_lc_get_head_ret`.
pub struct HeadOp {
    head: Head,
}
denc_struct!(HeadOp, v 1, compat 1, { head });

/// `cls_rgw_lc_list_entries_op`: the answer has the version of the question.
pub struct ListOp {
    version: u8,
    marker: ByteStr,
    entries_max: u32,
}

impl Denc for ListOp {
    fn encode(&self, e: &mut Encoder) {
        e.frame(self.version, 1, |e| {
            e.put(&self.marker);
            e.u32(self.entries_max);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("ListOp", 3, |d, version| Ok(Self { version: version.min(3), marker: d.get()?, entries_max: d.u32()? }))
    }
}

fn old_bucket(d: &mut Decoder) -> Result<Bucket, DencError> {
    Ok(Bucket { name: d.get()?, status: d.u32()?, ..Bucket::default() })
}

/// An entry as it may stand there, from old releases without a frame too; EIO if it is garbage.
fn bucket(value: &Bytes) -> ClsResult<Bucket> {
    match Bucket::from_bytes(value) {
        Ok(bucket) => Ok(bucket),
        Err(_) => old_bucket(&mut Decoder::new(value.clone())).or_else(|_| errno(EIO)),
    }
}

fn get(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: MarkerOp = decode(&input)?;
    match read(obj, &op.marker)? {
        Some(bucket) => reply(&One { bucket }),
        None => errno(ENOENT),
    }
}

fn set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: One = decode(&input)?;
    write(obj, op.bucket.name.clone(), &op.bucket)?;
    done()
}

fn remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: One = decode(&input)?;
    obj.omap_remove(vec![op.bucket.name])?;
    done()
}

/// The entry behind a name; one without a name if there is none.
fn next(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: MarkerOp = decode(&input)?;
    let (page, _) = obj.omap_vals(op.marker.as_slice(), b"", 1)?;
    reply(&One { bucket: page.first().map_or_else(|| Ok(Bucket::default()), |(_, value)| stored(value))? })
}

fn put_head(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: HeadOp = decode(&input)?;
    obj.omap_set_header(encode(&op.head))?;
    done()
}

fn get_head(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    let bytes = obj.omap_header()?;
    let head = if bytes.is_empty() { Head::default() } else { Head::from_bytes(&bytes).or_else(|_| errno(EINVAL))? };
    reply(&HeadOp { head })
}

fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ListOp = decode(&input)?;
    let (page, truncated) = obj.omap_vals(op.marker.as_slice(), b"", op.entries_max.into())?;
    let buckets: Vec<Bucket> = page.iter().map(|(_, value)| bucket(value)).collect::<ClsResult<_>>()?;
    let mut e = Encoder::new(denc::ALL_FEATURES);
    e.frame(op.version, 1, |e| {
        if op.version < 3 {
            e.count(buckets.len());
            for bucket in &buckets {
                e.put(&bucket.name);
                e.u32(bucket.status);
            }
        } else {
            e.put(&buckets);
        }
        e.bool(truncated);
    });
    Ok(e.finish().into())
}
