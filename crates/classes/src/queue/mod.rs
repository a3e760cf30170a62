//! Class `queue`: a first-in-first-out queue in the bytes of one object.
//!
//! This file has its methods; [`head`] what stands at the object's start, [`ring`] the entries behind. The class `2pc_queue` puts
//! reservations on top of the same.
//!
//! Source of the encodings, errnos and rules: Ceph 18.2 `src/cls/queue/*`; `end_marker` of a listing is of 20.2.

pub mod head;
pub mod ring;

use crate::registry::{Class, Method};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, reply};
use denc::{ByteStr, Bytes, denc_struct};
use head::Head;
use ring::Entry;

pub static CLASS: Class = Class {
    name: "queue",
    families: &[&[
        Method::writes("queue_init", init),
        Method::reads("queue_get_capacity", capacity),
        Method::writes("queue_enqueue", enqueue),
        Method::reads("queue_list_entries", list),
        Method::writes("queue_remove_entries", remove),
    ]],
};

/// `cls_queue_init_op`: sizes in bytes, the head's own not counted.
pub struct InitOp {
    pub queue_size: u64,
    pub urgent_max: u64,
    pub urgent: Bytes,
}
denc_struct!(InitOp, v 1, compat 1, { queue_size, urgent_max, urgent });

struct EnqueueOp {
    entries: Vec<Bytes>,
}
denc_struct!(EnqueueOp, v 1, compat 1, { entries });

/// `cls_queue_list_op`.
pub struct ListOp {
    pub entries_max: u64,
    /// Empty for the front.
    pub start_marker: ByteStr,
    /// Empty for none. That entry is not listed.
    pub end_marker: ByteStr,
}
denc_struct!(ListOp, v 2, compat 1, { entries_max, start_marker, [since 2] end_marker });

/// `cls_queue_list_ret`.
pub struct ListReply {
    pub truncated: bool,
    pub next_marker: ByteStr,
    pub entries: Vec<Entry>,
}
denc_struct!(ListReply, v 1, compat 1, { truncated, next_marker, entries });

struct RemoveOp {
    end_marker: ByteStr,
}
denc_struct!(RemoveOp, v 1, compat 1, { end_marker });

struct CapacityReply {
    bytes: u64,
}
denc_struct!(CapacityReply, v 1, compat 1, { bytes });

fn init(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: InitOp = decode(&input)?;
    head::init(obj, op)?;
    done()
}

/// The same method of both classes.
pub fn capacity(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    reply(&CapacityReply { bytes: Head::load(obj)?.capacity() })
}

fn enqueue(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: EnqueueOp = decode(&input)?;
    let mut head = Head::load(obj)?;
    ring::enqueue(obj, &mut head, &op.entries)?;
    head.store(obj)?;
    done()
}

/// The same method of both classes.
pub fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ListOp = decode(&input)?;
    let head = Head::load(obj)?;
    reply(&ring::list(obj, &head, &op)?)
}

fn remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: RemoveOp = decode(&input)?;
    let mut head = Head::load(obj)?;
    ring::remove(obj, &mut head, &op.end_marker)?;
    head.store(obj)?;
    done()
}
