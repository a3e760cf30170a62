//! A queue's entries: each is 0xBEEF (16 bits), a length (64 bits) and that many bytes, and goes on at the start where it meets the end.
//!
//! ```text
//!   0     head_max    front               tail             end
//!   +------+------------+-------------------+---------------+      one round
//!   | head |   free     |  entries          |   free        |
//!   +------+------------+-------------------+---------------+
//!
//!   0     head_max    tail                front            end
//!   +------+------------+-------------------+---------------+      tail is one generation ahead
//!   | head |  entries   |   free            |   entries     |
//!   +------+------------+-------------------+---------------+
//! ```

use super::head::{Head, Marker};
use super::{ListOp, ListReply};
use crate::view::{ClsResult, ObjectView};
use crate::wire::errno;
use denc::{ALL_FEATURES, ByteStr, Bytes, BytesMut, Encoder, denc_struct};
use types::errno::{EINVAL, ENOSPC};

const MAGIC: u16 = 0xbeef;
/// Magic and length.
pub const ENTRY_OVERHEAD: u64 = 2 + 8;
/// Read at a time.
const CHUNK: u64 = 4 << 20;
/// A listing's answer ends behind the entry that passes this.
const LIST_MAX_BYTES: u64 = 32 << 20;

/// `cls_queue_entry`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub data: Bytes,
    /// Where it starts.
    pub marker: ByteStr,
}
denc_struct!(Entry, v 1, compat 1, { data, marker });

/// Puts entries behind the last; ENOSPC if one does not fit. The head is not stored.
pub fn enqueue(obj: &mut dyn ObjectView, head: &mut Head, entries: &[Bytes]) -> ClsResult<()> {
    if head.free() == 0 {
        return errno(ENOSPC);
    }
    for data in entries {
        let mut e = Encoder::with_capacity(ALL_FEATURES, ENTRY_OVERHEAD as usize + data.len());
        e.u16(MAGIC);
        e.u64(data.len() as u64);
        e.raw(data);
        let mut bytes = e.finish();
        let len = bytes.len() as u64;
        if len > head.free() {
            return errno(ENOSPC);
        }
        let before_end = (head.end - head.tail.offset).min(len) as usize;
        let behind = bytes.split_off(before_end);
        obj.write(head.tail.offset, bytes)?;
        if !behind.is_empty() {
            obj.write(head.head_max, behind)?;
        }
        head.tail = head.advance(head.tail, len);
    }
    Ok(())
}

/// Reads the queue's bytes in order, over its end.
struct Cursor<'a> {
    head: &'a Head,
    /// Of the next byte taken.
    at: Marker,
    /// Up to the tail.
    left: u64,
    /// Read, not taken yet.
    ahead: BytesMut,
}

impl Cursor<'_> {
    /// EINVAL if so much is not in the queue.
    fn take(&mut self, obj: &mut dyn ObjectView, bytes: u64) -> ClsResult<Bytes> {
        if bytes > self.left {
            return errno(EINVAL);
        }
        while (self.ahead.len() as u64) < bytes {
            let have = self.ahead.len() as u64;
            let from = self.head.advance(self.at, have);
            let want = (self.left - have).min(CHUNK).min(self.head.end - from.offset);
            let got = obj.read(from.offset, want)?;
            if got.len() as u64 != want {
                return errno(EINVAL);
            }
            self.ahead.extend_from_slice(&got);
        }
        self.at = self.head.advance(self.at, bytes);
        self.left -= bytes;
        Ok(self.ahead.split_to(bytes as usize).freeze())
    }
    fn entry(&mut self, obj: &mut dyn ObjectView) -> ClsResult<Entry> {
        let marker = self.at.to_string().into();
        let frame = self.take(obj, ENTRY_OVERHEAD)?;
        let (magic, len) = frame.split_at(2);
        if magic != MAGIC.to_le_bytes() {
            return errno(EINVAL);
        }
        let len = u64::from_le_bytes(len.try_into().expect("eight of ten bytes"));
        Ok(Entry { data: self.take(obj, len)?, marker })
    }
}

/// Entries from a marker on.
pub fn list(obj: &mut dyn ObjectView, head: &Head, op: &ListOp) -> ClsResult<ListReply> {
    let at = Marker::parse(op.start_marker.as_slice()).filter(|m| m.offset != 0).unwrap_or(head.front);
    // A place that is not in the queue has nothing behind it.
    let left = if head.distance(head.front, at).is_some() { head.distance(at, head.tail).unwrap_or(0) } else { 0 };
    let mut cursor = Cursor { head, at, left, ahead: BytesMut::new() };
    let (mut entries, mut bytes) = (Vec::new(), 0);
    let mut ended = false;
    while cursor.left > 0 && (entries.len() as u64) < op.entries_max && bytes < LIST_MAX_BYTES {
        let before = cursor.at;
        if !op.end_marker.is_empty() && before.to_string().as_bytes() == op.end_marker.as_slice() {
            ended = true;
            break;
        }
        let entry = cursor.entry(obj)?;
        // An empty entry takes room in the answer, too.
        bytes += ENTRY_OVERHEAD + (entry.marker.len() + entry.data.len()) as u64;
        entries.push(entry);
    }
    let next = if cursor.left == 0 { head.tail } else { cursor.at };
    Ok(ListReply { truncated: cursor.left > 0 && !ended, next_marker: next.to_string().into(), entries })
}

/// Removes the entries before a marker; EINVAL if it is not in the queue. The head is not stored.
///
/// A marker that lies before the front has nothing left to remove: another consumer was quicker. (Stock refuses it, and its own test of
/// several consumers fails by chance for that.)
pub fn remove(obj: &mut dyn ObjectView, head: &mut Head, end_marker: &ByteStr) -> ClsResult<()> {
    if head.is_empty() {
        return Ok(());
    }
    let Some(end) = Marker::parse(end_marker.as_slice()) else { return errno(EINVAL) };
    let in_the_object = (head.head_max..=head.end).contains(&end.offset);
    if in_the_object && (end.generation, end.offset) < (head.front.generation, head.front.offset) {
        return Ok(());
    }
    let (Some(gone), Some(_)) = (head.distance(head.front, end), head.distance(end, head.tail)) else { return errno(EINVAL) };
    // The room goes back to the store.
    let before_end = gone.min(head.end - head.front.offset);
    if before_end > 0 {
        obj.zero(head.front.offset, before_end)?;
    }
    if gone > before_end {
        obj.zero(head.head_max, gone - before_end)?;
    }
    head.front = head.advance(head.front, gone);
    Ok(())
}
