//! The order of requests on one object: the field's object context lock (`RWState`).
//!
//! A read waits for the object's writes that are not durable, so that it sees nothing that could still be rolled back. A write waits for the
//! reads before it that wait for the store, so that they see what was there before it. Reads don't wait for reads, nor writes for writes: writes
//! take effect in the order in which they are planned, and are answered in the order of the log. Requests that wait stand in one queue.
//!
//! ```text
//!                  read_waits                 submitted
//!     Reading n ◀────────────────  Free  ────────────────▶ Writing n
//!               ────────────────▶        ◀────────────────
//!                read_left, n = 0            committed, n = 0
//!
//!     At any of these, the first request may hold the object: it stands at the head of the queue, and none of the queue goes on.
//!
//!     Loading    the store fetches the object's record          ── store_ready ──▶  the holder is planned again
//!     Stalled    the store fetches what a write has to look at  ── store_ready ──▶  the holder is planned again
//!     Fetching   other objects are read (copy-from, gather)     ── fetched ──────▶  the holder is planned again, or fails
//! ```
//!
//! A request comes in by [`ObjectOrder::enter`]; those that wait come out by [`ObjectOrder::next`], which is to be called until it has none,
//! after each event that may let one go. The queue has no bound of its own: clients' requests are bounded by the OSD's budget, those of connections
//! without a permit (metadata servers, managers, OSDs) by what each of these has under way.
//! Holds no object, no ticket and no plan.

use crate::planted::{Bug, planted};
use std::collections::VecDeque;

/// What a request asks of its object's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    /// A read for a copy that another OSD makes of the object. It may pass a request that fetches: two objects may be copied to each other.
    CopyRead,
    /// `CEPH_OSD_FLAG_SKIPRWLOCKS`: goes on whatever the object's state is.
    Unordered,
}

/// A request that stands in an order.
pub trait Ordered {
    fn access(&self) -> Access;
}

/// How a request goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// In order: it may be counted as a read that waits, or hold the object.
    InOrder,
    /// Past the order. If it has to wait, it keeps no place and comes in again.
    Past,
}

/// What becomes of a request that comes in.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry<W> {
    Go(W, Turn),
    /// It stands in the queue.
    Wait,
}

/// What the head of the queue waits for, and all others behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    Loading,
    Stalled,
    Fetching,
}

/// One object's order.
#[derive(Debug)]
pub struct ObjectOrder<W> {
    /// Reads in order that wait for the store.
    reading: u32,
    /// Writes that are submitted and not durable.
    writing: u32,
    hold: Option<Hold>,
    /// How many of the queue are [`Access::CopyRead`].
    copy_reads: u32,
    /// In the order in which they came; the holder, if any, is the first.
    queue: VecDeque<W>,
}

impl<W> Default for ObjectOrder<W> {
    fn default() -> Self {
        Self { reading: 0, writing: 0, hold: None, copy_reads: 0, queue: VecDeque::new() }
    }
}

impl<W: Ordered> ObjectOrder<W> {
    /// A request comes in: it goes on, or waits behind others.
    #[inline]
    pub fn enter(&mut self, op: W) -> Entry<W> {
        let access = op.access();
        if access == Access::Unordered || self.lets_pass(access) {
            return Entry::Go(op, Turn::Past);
        }
        if self.queue.is_empty() && self.lets(access) {
            return Entry::Go(op, Turn::InOrder);
        }
        self.push_back(op);
        Entry::Wait
    }

    /// The next of the queue that may go on now.
    pub fn next(&mut self) -> Option<(W, Turn)> {
        if self.hold.is_none() && self.lets(self.queue.front()?.access()) {
            return self.take(0).map(|op| (op, Turn::InOrder));
        }
        if self.copy_reads > 0 && self.lets_pass(Access::CopyRead) {
            let at = self.queue.iter().skip(1).position(|op| op.access() == Access::CopyRead)?;
            return self.take(at + 1).map(|op| (op, Turn::Past));
        }
        None
    }

    /// A request that goes on in order must wait, and holds the object. False if another one does already, which happens to a read that waited for
    /// the store: it stands behind the holder then, and is planned again when that is gone.
    #[must_use]
    pub fn hold(&mut self, hold: Hold, op: W) -> bool {
        let is_first = self.hold.is_none();
        self.put_back(op);
        if is_first {
            self.hold = Some(hold);
        }
        is_first
    }
    /// The store has what the holder waits for.
    pub fn store_ready(&mut self) {
        assert!(matches!(self.hold, Some(Hold::Loading | Hold::Stalled)), "the store was asked for a holder");
        self.hold = None;
    }
    /// The request that holds the object until other objects are read.
    pub fn fetching(&self) -> Option<&W> {
        if self.hold == Some(Hold::Fetching) { self.queue.front() } else { None }
    }
    /// Other objects are read: that request is the first of the queue, to be given what was read.
    pub fn fetched(&mut self) -> Option<&mut W> {
        self.fetching()?;
        self.hold = None;
        self.queue.front_mut()
    }
    /// Other objects can't be read: that request is taken out, to be answered.
    pub fn fetch_failed(&mut self) -> Option<W> {
        self.fetching()?;
        self.hold = None;
        self.take(0)
    }

    /// A read that goes on in order waits for the store.
    pub fn read_waits(&mut self) {
        self.reading += 1;
    }
    /// The store has what a read waits for: it goes on. If a write passed it meanwhile, it goes back to the head of the queue, to be planned again
    /// when that write is durable.
    pub fn read_left(&mut self, op: W) -> Option<W> {
        assert!(self.reading > 0, "a read that waits is counted");
        self.reading -= 1;
        if self.writing == 0 {
            return Some(op);
        }
        self.put_back(op);
        None
    }

    /// A write is given to the members.
    pub fn submitted(&mut self) {
        self.writing += 1;
    }
    /// A write is durable.
    pub fn committed(&mut self) {
        assert!(self.writing > 0, "a write in flight is counted");
        self.writing -= 1;
    }

    /// True if nothing is under way or waits.
    pub fn is_free(&self) -> bool {
        self.reading == 0 && self.writing == 0 && self.queue.is_empty()
    }
    pub fn has_waiters(&self) -> bool {
        !self.queue.is_empty()
    }
    /// The queue, first come first.
    pub fn waiters(&self) -> impl Iterator<Item = &W> {
        self.queue.iter()
    }
    pub fn into_waiters(self) -> impl Iterator<Item = W> {
        self.queue.into_iter()
    }

    /// What is under way lets a request go on.
    fn lets(&self, access: Access) -> bool {
        if access == Access::Write { self.reading == 0 } else { self.writing == 0 || planted(Bug::ReadUncommitted) }
    }
    /// A holder lets a request pass.
    fn lets_pass(&self, access: Access) -> bool {
        access == Access::CopyRead && self.hold == Some(Hold::Fetching) && self.writing == 0
    }
    fn push_back(&mut self, op: W) {
        self.copy_reads += u32::from(op.access() == Access::CopyRead);
        self.queue.push_back(op);
    }
    /// A request that had its turn stands before all others, but for the holder.
    fn put_back(&mut self, op: W) {
        self.copy_reads += u32::from(op.access() == Access::CopyRead);
        self.queue.insert(usize::from(self.hold.is_some()), op);
    }
    fn take(&mut self, at: usize) -> Option<W> {
        let op = self.queue.remove(at)?;
        self.copy_reads -= u32::from(op.access() == Access::CopyRead);
        Some(op)
    }
}

#[cfg(test)]
mod tests;
