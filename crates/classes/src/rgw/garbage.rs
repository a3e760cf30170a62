//! Garbage: data of removed objects, chains of RADOS objects under a tag, until their time has come. Each stands under its tag and under its time.

use super::change::{read, write};
use super::keys::ObjKey;
use super::record;
use crate::registry::Method;
use crate::rest::{Rest, kept};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, errno, reply, stored};
use denc::{ByteStr, Bytes, Decoder, Denc, DencError, Encoder, denc_struct};
use types::UTime;
use types::errno::ENOENT;

pub const METHODS: &[Method] = &[
    Method::writes("gc_set_entry", set),
    Method::writes("gc_defer_entry", defer),
    Method::reads("gc_list", list),
    Method::writes("gc_remove", remove),
];

/// Entries in an answer where the caller names no number.
pub const LIST_DEFAULT: u32 = 128;

const BY_TAG: &[u8] = b"0_";
const BY_TIME: &[u8] = b"1_";

/// `cls_rgw_obj`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Piece {
    pool: ByteStr,
    /// The same as in `key`.
    name: ByteStr,
    locator: ByteStr,
    key: ObjKey,
    pub rest: Rest,
}
kept!(Piece, v 2, compat 1, oldest 2, { pool, name, locator, key });

/// `cls_rgw_obj_chain`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    pieces: Vec<Piece>,
    pub rest: Rest,
}
kept!(Chain, v 1, compat 1, { pieces });

/// `cls_rgw_gc_obj_info`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Garbage {
    pub tag: ByteStr,
    pub chain: Chain,
    /// When it may go.
    pub due: UTime,
    pub rest: Rest,
}
kept!(Garbage, v 1, compat 1, { tag, chain, due });

/// `cls_rgw_gc_set_entry_op`, and `cls_rgw_gc_queue_defer_entry_op`.
pub struct SetOp {
    pub delay_s: u32,
    pub garbage: Garbage,
}
denc_struct!(SetOp, v 1, compat 1, { delay_s, garbage });

/// `cls_rgw_gc_defer_entry_op`.
pub struct DeferOp {
    delay_s: u32,
    tag: ByteStr,
}
denc_struct!(DeferOp, v 1, compat 1, { delay_s, tag });

/// `cls_rgw_gc_list_op`.
pub struct ListOp {
    pub marker: ByteStr,
    /// 0 for the default.
    entries_max: u32,
    /// Only what is due.
    pub due_only: DueOnly,
}
denc_struct!(ListOp, v 2, compat 1, { marker, entries_max, [since 2] due_only });

/// True where the caller does not say.
pub struct DueOnly(pub bool);

impl Default for DueOnly {
    fn default() -> Self {
        Self(true)
    }
}
impl Denc for DueOnly {
    fn encode(&self, e: &mut Encoder) {
        e.bool(self.0);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.bool().map(Self)
    }
}

impl ListOp {
    pub fn entries_max(&self) -> u64 {
        if self.entries_max == 0 { LIST_DEFAULT.into() } else { self.entries_max.into() }
    }
}

/// `cls_rgw_gc_list_ret`.
pub struct ListReply {
    pub entries: Vec<Garbage>,
    pub marker: ByteStr,
    pub truncated: bool,
}
record!(ListReply, v 2, compat 1, oldest 2, { entries, marker, truncated });

/// `cls_rgw_gc_remove_op`.
pub struct RemoveOp {
    tags: Vec<ByteStr>,
}
denc_struct!(RemoveOp, v 1, compat 1, { tags });

fn by_tag(tag: &ByteStr) -> ByteStr {
    [BY_TAG, tag.as_slice()].concat().into()
}

fn by_time(due: UTime) -> ByteStr {
    [BY_TIME, format!("{:011}.{:09}", due.sec, due.nsec).as_bytes()].concat().into()
}

/// The time so many seconds from now.
pub fn later(now: UTime, delay_s: u32) -> UTime {
    UTime { sec: now.sec.saturating_add(delay_s), ..now }
}

/// Writes both entries; what the tag had before goes.
fn put(obj: &mut dyn ObjectView, mut garbage: Garbage, before: Option<UTime>, delay_s: u32) -> ClsResult<ClsReply> {
    if let Some(due) = before {
        obj.omap_remove(vec![by_time(due)])?;
    }
    garbage.due = later(obj.now(), delay_s);
    write(obj, by_tag(&garbage.tag), &garbage)?;
    write(obj, by_time(garbage.due), &garbage)?;
    done()
}

fn set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: SetOp = decode(&input)?;
    let before: Option<Garbage> = read(obj, &by_tag(&op.garbage.tag))?;
    put(obj, op.garbage, before.map(|garbage| garbage.due), op.delay_s)
}

fn defer(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: DeferOp = decode(&input)?;
    let Some(garbage): Option<Garbage> = read(obj, &by_tag(&op.tag))? else { return errno(ENOENT) };
    let due = garbage.due;
    put(obj, garbage, Some(due), op.delay_s)
}

fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ListOp = decode(&input)?;
    let (mut page, mut truncated) = obj.omap_vals(op.marker.as_slice(), BY_TIME, op.entries_max())?;
    if op.due_only.0 {
        let end = by_time(obj.now());
        let due = page.partition_point(|(key, _)| *key < end);
        truncated &= due == page.len();
        page.truncate(due);
    }
    let entries = page.iter().map(|(_, value)| stored(value)).collect::<ClsResult<_>>()?;
    let marker = page.pop().map(|(last, _)| last).filter(|_| truncated).unwrap_or_default();
    reply(&ListReply { entries, marker, truncated })
}

/// Tags that are not there are no error.
fn remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: RemoveOp = decode(&input)?;
    for tag in op.tags {
        let at = by_tag(&tag);
        if let Some(garbage) = read::<Garbage>(obj, &at)? {
            obj.omap_remove(vec![by_time(garbage.due), at])?;
        }
    }
    done()
}
