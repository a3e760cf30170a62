//! What users did, by hour and bucket: each record stands under two keys, one that begins with the hour and one that begins with the user.

use super::PAGE_MAX;
use super::change::{read, write};
use crate::pass::in_turns;
use crate::registry::{METHOD_WR, Method};
use crate::rest::{Rest, kept};
use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, errno, or_none, reply};
use denc::{ByteStr, Bytes, Decoder, Denc, DencError, Encoder, denc_struct};
use std::collections::BTreeMap;
use types::errno::{EINVAL, ENODATA};

pub const METHODS: &[Method] = &[
    Method::writes("user_usage_log_add", add),
    Method::reads("user_usage_log_read", read_log),
    Method::writes("user_usage_log_trim", trim),
    Method { name: "usage_log_clear", flags: METHOD_WR, call: clear },
];

/// `rgw_usage_data`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    bytes_sent: u64,
    bytes_received: u64,
    ops: u64,
    successful_ops: u64,
    pub rest: Rest,
}
kept!(Usage, v 1, compat 1, { bytes_sent, bytes_received, ops, successful_ops });

/// The same without a frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Total(Usage);

impl Denc for Total {
    fn encode(&self, e: &mut Encoder) {
        [self.0.bytes_sent, self.0.bytes_received, self.0.ops, self.0.successful_ops].into_iter().for_each(|v| e.u64(v));
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let [bytes_sent, bytes_received, ops, successful_ops] = [d.u64()?, d.u64()?, d.u64()?, d.u64()?];
        Ok(Self(Usage { bytes_sent, bytes_received, ops, successful_ops, rest: Rest::default() }))
    }
}

impl Usage {
    fn add(&mut self, other: &Self) {
        self.bytes_sent = self.bytes_sent.wrapping_add(other.bytes_sent);
        self.bytes_received = self.bytes_received.wrapping_add(other.bytes_received);
        self.ops = self.ops.wrapping_add(other.ops);
        self.successful_ops = self.successful_ops.wrapping_add(other.successful_ops);
    }
}

/// `rgw_s3select_usage_data`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Select {
    bytes_processed: u64,
    bytes_returned: u64,
    pub rest: Rest,
}
kept!(Select, v 1, compat 1, { bytes_processed, bytes_returned });

/// `rgw_usage_log_entry`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    owner: ByteStr,
    bucket: ByteStr,
    /// The hour's start, in seconds since 1970.
    epoch: u64,
    total: Total,
    by_category: BTreeMap<ByteStr, Usage>,
    /// Empty for the owner.
    payer: ByteStr,
    select: Select,
    pub rest: Rest,
}
kept!(Record, v 4, compat 1, oldest 2, { owner, bucket, epoch, total, [since 2] by_category, [since 3] payer, [since 4] select });

/// `rgw_usage_log_info`.
pub struct Records {
    records: Vec<Record>,
}
denc_struct!(Records, v 1, compat 1, { records });

/// `rgw_cls_usage_log_add_op`.
pub struct AddOp {
    info: Records,
    user: ByteStr,
}
denc_struct!(AddOp, v 2, compat 1, { info, [since 2] user });

/// `rgw_cls_usage_log_read_op`.
pub struct ReadOp {
    from: u64,
    /// Not included.
    to: u64,
    /// Empty for all.
    user: ByteStr,
    /// The key behind which to go on; empty for the start.
    marker: ByteStr,
    /// 0 for the default.
    entries_max: u32,
    /// Empty for all.
    bucket: ByteStr,
}
denc_struct!(ReadOp, v 2, compat 1, { from, to, user, marker, entries_max, [since 2] bucket });

/// `rgw_cls_usage_log_read_ret`: by user and bucket.
pub struct ReadReply {
    usage: BTreeMap<UserBucket, Record>,
    truncated: bool,
    marker: ByteStr,
}
denc_struct!(ReadReply, v 1, compat 1, { usage, truncated, marker });

/// `rgw_user_bucket`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserBucket {
    user: ByteStr,
    bucket: ByteStr,
}
denc_struct!(UserBucket, v 1, compat 1, { user, bucket });

/// `rgw_cls_usage_log_trim_op`.
pub struct TrimOp {
    from: u64,
    /// Not included.
    to: u64,
    user: ByteStr,
    bucket: ByteStr,
}
denc_struct!(TrimOp, v 3, compat 2, { from, to, user, [since 3] bucket });

impl Record {
    /// Whose record it is.
    fn user(&self) -> &ByteStr {
        // A tenant's name and `$` are no user yet.
        let nobody = self.payer.is_empty() || self.payer.as_slice().ends_with(b"$");
        if nobody { &self.owner } else { &self.payer }
    }
    fn keys(&self) -> [ByteStr; 2] {
        let (hour, user, bucket) = (format!("{:011}", self.epoch).into_bytes(), self.user().as_slice(), self.bucket.as_slice());
        [[&hour, b"_".as_slice(), user, b"_", bucket].concat().into(), [user, b"_", &hour, b"_", bucket].concat().into()]
    }
    /// Adds the other's usage, and takes its names if it has none.
    fn add(&mut self, other: &Self) {
        if self.owner.is_empty() {
            (self.owner, self.bucket) = (other.owner.clone(), other.bucket.clone());
            (self.epoch, self.payer) = (other.epoch, other.payer.clone());
        }
        for (category, usage) in &other.by_category {
            self.by_category.entry(category.clone()).or_default().add(usage);
            self.total.0.add(usage);
        }
        self.select.bytes_processed = self.select.bytes_processed.wrapping_add(other.select.bytes_processed);
        self.select.bytes_returned = self.select.bytes_returned.wrapping_add(other.select.bytes_returned);
    }
}

fn add(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: AddOp = decode(&input)?;
    for mut record in op.info.records {
        let [by_hour, by_user] = record.keys();
        let before: Option<Record> = read(obj, &by_hour).map_err(|e| if e == ClsError::Wait { e } else { ClsError::Errno(EINVAL) })?;
        if let Some(before) = before {
            record.add(&before);
        }
        write(obj, by_hour, &record)?;
        write(obj, by_user, &record)?;
    }
    done()
}

/// What to go through: hours, a user or all, a bucket or all.
struct Wanted<'a> {
    from: u64,
    to: u64,
    user: &'a ByteStr,
    bucket: &'a ByteStr,
}

impl Wanted<'_> {
    /// Up to `max` records behind a key; if more follow, the key of the last.
    fn page(&self, obj: &mut dyn ObjectView, marker: &ByteStr, max: u64) -> ClsResult<(Vec<Record>, Option<ByteStr>)> {
        let of_user = if self.user.is_empty() { Vec::new() } else { [self.user.as_slice(), b"_"].concat() };
        let end = format!("{:011}", self.to).into_bytes();
        let start = match (marker.is_empty(), self.user.is_empty()) {
            (false, _) => marker.as_slice().to_vec(),
            (true, true) => format!("{:011}", self.from).into_bytes(),
            (true, false) => [&of_user[..], format!("{:011}_", self.from).as_bytes()].concat(),
        };
        let (page, mut more) = obj.omap_vals(&start, &of_user, max)?;
        let (mut found, mut last) = (Vec::new(), None);
        for (key, value) in page {
            if self.user.is_empty() && key.as_slice() >= &end[..] {
                more = false;
                break;
            }
            let record: Record = decode(&value)?;
            last = Some(key);
            // `a_` is what keys of the user `a_b` begin with, too.
            let of_another = !self.user.is_empty() && record.user() != self.user;
            if of_another || (!self.bucket.is_empty() && record.bucket != *self.bucket) || record.epoch < self.from {
                continue;
            }
            // Keys sort by the hour.
            if record.epoch >= self.to {
                more = false;
                break;
            }
            found.push(record);
        }
        Ok((found, last.filter(|_| more)))
    }
}

fn read_log(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ReadOp = decode(&input)?;
    let max = if op.entries_max == 0 { PAGE_MAX } else { op.entries_max.into() };
    let wanted = Wanted { from: op.from, to: op.to, user: &op.user, bucket: &op.bucket };
    let (records, next) = wanted.page(obj, &op.marker, max)?;
    let mut usage: BTreeMap<UserBucket, Record> = BTreeMap::new();
    for record in records {
        let whose = UserBucket { user: record.user().clone(), bucket: record.bucket.clone() };
        usage.entry(whose).or_default().add(&record);
    }
    reply(&ReadReply { usage, truncated: next.is_some(), marker: next.unwrap_or_default() })
}

/// A page at a time: callers repeat it until ENODATA, which says that nothing is left. (Stock looks for the payer's records under the owner's
/// name and does not find them.)
fn trim(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    obj.stat()?;
    let op: TrimOp = decode(&input)?;
    let wanted = Wanted { from: op.from, to: op.to, user: &op.user, bucket: &op.bucket };
    let (_, gone) = in_turns(obj, |obj, (marker, gone): &mut (ByteStr, Vec<ByteStr>)| {
        let (records, next) = wanted.page(obj, marker, PAGE_MAX)?;
        gone.extend(records.iter().flat_map(Record::keys));
        *marker = next.unwrap_or_default().detach();
        Ok(!marker.is_empty() && gone.is_empty())
    })?;
    if gone.is_empty() {
        return errno(ENODATA);
    }
    obj.omap_remove(gone)?;
    done()
}

fn clear(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    or_none(obj.omap_clear())?;
    done()
}
