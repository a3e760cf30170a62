//! Class `rgw_gc`: garbage in a queue, in the order in which it came. Tags that were deferred since stand in the queue's head, and those that have
//! no room there in an attribute: an entry of such a tag, from before, is none any more.

use super::garbage::{Garbage, LIST_DEFAULT, ListOp, ListReply, SetOp, later};
use crate::queue::head::{self, Head};
use crate::queue::{self, InitOp, ring};
use crate::registry::{Class, Method};
use crate::rest::{Rest, kept};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, encode, errno, or_none, reply};
use denc::{ByteStr, Bytes, denc_struct};
use std::collections::BTreeMap;
use types::UTime;
use types::errno::ENOSPC;

pub static CLASS: Class = Class {
    name: "rgw_gc",
    families: &[&[
        Method::writes("rgw_gc_queue_init", init),
        Method::writes("rgw_gc_queue_enqueue", enqueue),
        Method::reads("rgw_gc_queue_list_entries", list),
        Method::writes("rgw_gc_queue_remove_entries", remove),
        Method::writes("rgw_gc_queue_update_entry", defer),
    ]],
};

/// Room for deferred tags in the head, bytes. Source: Ceph 18.2's default of `rgw_gc_max_deferred_entries_size`.
const URGENT_MAX: u64 = 3 << 10;
/// Holds the deferred tags that the head has no room for.
const ATTRIBUTE: &[u8] = b"cls_queue_urgent_data";
/// An answer ends behind the page of the queue that passes this, bytes.
const LIST_MAX_BYTES: usize = 32 << 20;

/// `cls_rgw_gc_queue_init_op`.
pub struct GcInitOp {
    size: u64,
    deferred_max: u64,
}
denc_struct!(GcInitOp, v 1, compat 1, { size, deferred_max });

/// `cls_rgw_gc_queue_remove_entries_op`.
pub struct GcRemoveOp {
    /// 0 for the default.
    entries: u64,
}
denc_struct!(GcRemoveOp, v 1, compat 1, { entries });

type Tags = BTreeMap<ByteStr, UTime>;

/// `cls_rgw_gc_urgent_data`: what the queue's head carries for us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Urgent {
    deferred: Tags,
    /// Tags that may be deferred at a time.
    deferred_max: u32,
    in_head: u32,
    in_attribute: u32,
    pub rest: Rest,
}
kept!(Urgent, v 1, compat 1, { deferred, deferred_max, in_head, in_attribute });

/// The queue with its deferred tags.
struct Queue {
    head: Head,
    urgent: Urgent,
    more: Tags,
    more_changed: bool,
}

impl Queue {
    fn load(obj: &mut dyn ObjectView) -> ClsResult<Self> {
        let head = Head::load(obj)?;
        let urgent: Urgent = if head.urgent.is_empty() { Urgent::default() } else { decode(&head.urgent)? };
        let more = or_none(obj.getxattr(ATTRIBUTE))?.map_or_else(|| Ok(Tags::new()), |bytes| decode(&bytes))?;
        Ok(Self { head, urgent, more, more_changed: false })
    }
    fn store(mut self, obj: &mut dyn ObjectView) -> ClsResult<()> {
        if self.more_changed {
            obj.setxattr(ATTRIBUTE, encode(&self.more))?;
        }
        self.head.urgent = encode(&self.urgent);
        self.head.store(obj)
    }
    /// True if the entry's tag was deferred to a later time.
    fn is_overtaken(&self, garbage: &Garbage) -> bool {
        self.urgent.deferred.get(&garbage.tag).or_else(|| self.more.get(&garbage.tag)).is_some_and(|due| *due > garbage.due)
    }
    /// Forgets a tag whose entry of just that time goes.
    fn forget(&mut self, garbage: &Garbage) {
        let same = |due: Option<&UTime>| due == Some(&garbage.due);
        if same(self.urgent.deferred.get(&garbage.tag)) {
            self.urgent.deferred.remove(&garbage.tag);
            self.urgent.in_head = self.urgent.in_head.saturating_sub(1);
        } else if same(self.more.get(&garbage.tag)) {
            self.more.remove(&garbage.tag);
            self.more_changed = true;
            self.urgent.in_attribute = self.urgent.in_attribute.saturating_sub(1);
        }
    }
    /// Up to `max` entries from a marker on.
    fn page(&self, obj: &mut dyn ObjectView, marker: &ByteStr, max: u64) -> ClsResult<queue::ListReply> {
        let op = queue::ListOp { entries_max: max, start_marker: marker.clone(), end_marker: ByteStr::new() };
        ring::list(obj, &self.head, &op)
    }
}

fn init(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: GcInitOp = decode(&input)?;
    // The record has 32 bits.
    let urgent = Urgent { deferred_max: op.deferred_max as u32, ..Urgent::default() };
    head::init(obj, InitOp { queue_size: op.size, urgent_max: URGENT_MAX, urgent: encode(&urgent) })?;
    done()
}

fn enqueue(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut op: SetOp = decode(&input)?;
    op.garbage.due = later(obj.now(), op.delay_s);
    let mut head = Head::load(obj)?;
    ring::enqueue(obj, &mut head, &[encode(&op.garbage)])?;
    head.store(obj)?;
    done()
}

/// What is not due yet counts among the entries that were asked for.
fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ListOp = decode(&input)?;
    let queue = Queue::load(obj)?;
    let (now, mut left, mut bytes) = (obj.now(), op.entries_max(), 0);
    let mut answer = ListReply { entries: Vec::new(), marker: op.marker.clone(), truncated: true };
    while answer.truncated && left > 0 && bytes < LIST_MAX_BYTES {
        let page = queue.page(obj, &answer.marker, left)?;
        for entry in &page.entries {
            bytes += entry.data.len();
            let garbage: Garbage = decode(&entry.data)?;
            if queue.is_overtaken(&garbage) {
                continue;
            }
            left -= 1;
            if !op.due_only.0 || garbage.due <= now {
                answer.entries.push(garbage);
            }
        }
        (answer.marker, answer.truncated) = (page.next_marker, page.truncated);
    }
    if !answer.truncated {
        answer.marker = ByteStr::new();
    }
    reply(&answer)
}

/// Removes so many entries from the front, and with them those between that were overtaken.
fn remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: GcRemoveOp = decode(&input)?;
    let mut queue = Queue::load(obj)?;
    let mut left = if op.entries == 0 { LIST_DEFAULT.into() } else { op.entries };
    let mut end = None;
    let (mut marker, mut truncated) = (ByteStr::new(), true);
    while truncated && end.is_none() {
        // One more than go: where it begins, the others end.
        let page = queue.page(obj, &marker, left.saturating_add(1))?;
        for entry in &page.entries {
            let garbage: Garbage = decode(&entry.data)?;
            if queue.is_overtaken(&garbage) {
                continue;
            }
            if left == 0 {
                end = Some(entry.marker.clone());
                break;
            }
            left -= 1;
            queue.forget(&garbage);
        }
        (marker, truncated) = (page.next_marker, page.truncated);
    }
    ring::remove(obj, &mut queue.head, &end.unwrap_or(marker))?;
    queue.store(obj)?;
    done()
}

/// Notes the tag's new time. (Since 18.2.1 stock does not put the garbage into the queue again: it could be of an object that is not removed.)
fn defer(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: SetOp = decode(&input)?;
    let (tag, due) = (op.garbage.tag, later(obj.now(), op.delay_s));
    let mut queue = Queue::load(obj)?;
    if let Some(at) = queue.urgent.deferred.get_mut(&tag) {
        *at = due;
    } else if let Some(at) = queue.more.get_mut(&tag) {
        *at = due;
        queue.more_changed = true;
    } else {
        queue.urgent.deferred.insert(tag.clone(), due);
        queue.urgent.in_head = queue.urgent.in_head.saturating_add(1);
        if encode(&queue.urgent).len() as u64 > queue.head.urgent_max {
            queue.urgent.deferred.remove(&tag);
            queue.urgent.in_head -= 1;
            queue.more.insert(tag, due);
            queue.more_changed = true;
            queue.urgent.in_attribute = queue.urgent.in_attribute.saturating_add(1);
        }
    }
    if queue.urgent.in_head.saturating_add(queue.urgent.in_attribute) > queue.urgent.deferred_max {
        return errno(ENOSPC);
    }
    queue.store(obj)?;
    done()
}
