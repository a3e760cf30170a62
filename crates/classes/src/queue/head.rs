//! What stands at the start of a queue's object: where the entries begin and end, and some bytes of the class that builds on the queue.
//!
//! On the object: 0xDEAD (16 bits), the length of the encoded head (64 bits), the head. Entries start at `head_max`.

use super::InitOp;
use crate::rest::{Rest, kept};
use crate::view::{ClsResult, ObjectView};
use crate::wire::{encode, errno};
use denc::{ALL_FEATURES, Bytes, Decoder, Denc, Encoder, denc_struct};
use std::fmt;
use types::errno::{EEXIST, EINVAL, ENOENT};

const MAGIC: u16 = 0xdead;
/// Magic and length.
const PREAMBLE: u64 = 2 + 8;
/// Bytes kept for the head without the urgent data.
const HEAD_SIZE: u64 = 1024;
/// What is read before the head's length is known.
const PAGE: u64 = 4096;
/// A head is not longer: some thousand reservations. Source: ours; stock has no limit.
const HEAD_MAX: u64 = 1 << 20;
/// Queues end before this: places in them can be added up.
const END_MAX: u64 = 1 << 62;

/// `cls_queue_marker`: a place in the queue. The generation goes up each time that the end of the object is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marker {
    pub generation: u64,
    pub offset: u64,
}
denc_struct!(Marker, v 1, compat 1, { generation, offset });

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.generation, self.offset)
    }
}

impl Marker {
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (generation, offset) = std::str::from_utf8(text).ok()?.split_once('/')?;
        Some(Self { generation: generation.parse().ok()?, offset: offset.parse().ok()? })
    }
}

/// `cls_queue_head`.
#[derive(Debug, Clone, Default)]
pub struct Head {
    /// Where entries start.
    pub head_max: u64,
    pub front: Marker,
    pub tail: Marker,
    /// Where entries end: the queue's size with the head's.
    pub end: u64,
    pub urgent_max: u64,
    pub urgent: Bytes,
    pub rest: Rest,
}
kept!(Head, v 1, compat 1, { head_max, front, tail, end, urgent_max, urgent });

impl Head {
    /// EINVAL if there is none, or none that makes sense.
    pub fn load(obj: &mut dyn ObjectView) -> ClsResult<Self> {
        let page = obj.read(0, PAGE)?;
        let mut d = Decoder::new(page.clone());
        let (Ok(MAGIC), Ok(len)) = (d.u16(), d.u64()) else { return errno(EINVAL) };
        if len > HEAD_MAX {
            return errno(EINVAL);
        }
        let bytes = if PREAMBLE + len > PAGE { obj.read(0, PREAMBLE + len)? } else { page };
        match Self::from_bytes(&bytes.slice(PREAMBLE as usize..)) {
            Ok(head) if head.is_sound() => Ok(head),
            _ => errno(EINVAL),
        }
    }
    fn is_sound(&self) -> bool {
        let within = |m: &Marker| (self.head_max..self.end.max(self.head_max + 1)).contains(&m.offset);
        let ordered = HEAD_SIZE <= self.head_max && self.head_max <= self.end && self.end <= END_MAX;
        ordered && within(&self.front) && within(&self.tail) && self.distance(self.front, self.tail).is_some()
    }
    /// EINVAL if it is longer than the room kept for it.
    pub fn store(&self, obj: &mut dyn ObjectView) -> ClsResult<()> {
        let head = encode(self);
        let mut e = Encoder::new(ALL_FEATURES);
        e.u16(MAGIC);
        e.u64(head.len() as u64);
        e.raw(&head);
        if e.len() as u64 > self.head_max {
            return errno(EINVAL);
        }
        obj.write(0, e.finish())
    }
    /// Bytes for entries.
    pub fn capacity(&self) -> u64 {
        self.end - self.head_max
    }
    pub fn is_empty(&self) -> bool {
        self.front == self.tail
    }
    /// Bytes that entries take now.
    pub fn used(&self) -> u64 {
        self.distance(self.front, self.tail).unwrap_or(0)
    }
    pub fn free(&self) -> u64 {
        self.capacity() - self.used()
    }
    /// Bytes from one place to another that lies behind it, at most one round; None if it does not.
    pub fn distance(&self, from: Marker, to: Marker) -> Option<u64> {
        let sound = |m: Marker| m.offset >= self.head_max && m.offset <= self.end;
        if !sound(from) || !sound(to) {
            return None;
        }
        if from.generation == to.generation {
            to.offset.checked_sub(from.offset)
        } else if from.generation.checked_add(1) == Some(to.generation) && to.offset <= from.offset {
            Some(self.end - from.offset + (to.offset - self.head_max))
        } else {
            None
        }
    }
    /// The place so many bytes further, at most one round.
    pub fn advance(&self, from: Marker, bytes: u64) -> Marker {
        match from.offset + bytes {
            offset if offset < self.end => Marker { offset, ..from },
            offset => Marker { generation: from.generation.wrapping_add(1), offset: self.head_max + (offset - self.end) },
        }
    }
}

/// Makes an empty queue; EEXIST if there is one.
pub fn init(obj: &mut dyn ObjectView, op: InitOp) -> ClsResult<()> {
    match Head::load(obj) {
        Ok(_) => return errno(EEXIST),
        Err(e) if e.is(EINVAL) || e.is(ENOENT) => {}
        Err(e) => return Err(e),
    }
    if op.urgent_max > HEAD_MAX || op.queue_size > END_MAX - HEAD_SIZE - HEAD_MAX {
        return errno(EINVAL);
    }
    let head_max = HEAD_SIZE + op.urgent_max;
    let end = head_max + op.queue_size;
    let start = Marker { generation: 0, offset: head_max };
    Head { head_max, front: start, tail: start, end, urgent_max: op.urgent_max, urgent: op.urgent, rest: Rest::default() }.store(obj)
}
