//! Where a loop stands, written by it and read by another thread.
//!
//! Holds relaxed atomics: what the reader sees may be torn between two requests, and is meant for a line that a person reads. Absent: clocks;
//! the reader counts the time in which [`Breadcrumb::turns`] stays the same.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of an object's name that are kept.
const NAME: usize = 48;

/// What a loop is at.
#[derive(Debug, Default)]
pub struct Breadcrumb {
    turns: AtomicU64,
    /// What the event is, by the loop's own numbers; 0: none.
    event: AtomicU64,
    /// Placement group: pool and seed. The request's client and number.
    op: [AtomicU64; 4],
    /// The object's name: its length, then its first bytes.
    len: AtomicU64,
    name: [AtomicU64; NAME / 8],
    /// Milliseconds without a turn before a line says so, and before the process is ended; 0: never.
    warn_ms: AtomicU64,
    end_ms: AtomicU64,
}

/// A request as a [`Breadcrumb`] has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpCrumb {
    pub pool: i64,
    pub seed: u32,
    pub client: i64,
    pub tid: u64,
    /// Cut at 48 bytes.
    pub name: String,
}

impl Breadcrumb {
    /// The loop has turned.
    pub fn turn(&self) {
        self.turns.store(self.turns.load(Relaxed) + 1, Relaxed);
    }
    pub fn turns(&self) -> u64 {
        self.turns.load(Relaxed)
    }
    /// An event begins; 0: it is over.
    #[inline]
    pub fn event(&self, code: u64) {
        self.event.store(code, Relaxed);
    }
    /// The event that goes on now, or 0.
    pub fn current_event(&self) -> u64 {
        self.event.load(Relaxed)
    }
    /// A request is taken up.
    #[inline]
    pub fn op(&self, pool: i64, seed: u32, client: i64, tid: u64, name: &[u8]) {
        for (cell, n) in self.op.iter().zip([pool as u64, seed.into(), client as u64, tid]) {
            cell.store(n, Relaxed);
        }
        self.len.store(name.len() as u64, Relaxed);
        for (cell, part) in self.name.iter().zip(name.chunks(8)) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            cell.store(u64::from_le_bytes(word), Relaxed);
        }
    }
    /// The request that was taken up last; `None` before the first.
    pub fn last_op(&self) -> Option<OpCrumb> {
        let [pool, seed, client, tid] = self.op.each_ref().map(|cell| cell.load(Relaxed));
        let bytes: Vec<u8> = self.name.iter().flat_map(|cell| cell.load(Relaxed).to_le_bytes()).collect();
        let len = self.len.load(Relaxed) as usize;
        let name = String::from_utf8_lossy(&bytes[..len.min(NAME)]).into_owned();
        (client != 0 || tid != 0).then_some(OpCrumb { pool: pool as i64, seed: seed as u32, client: client as i64, tid, name })
    }
    /// Milliseconds; 0 is never.
    pub fn set_limits(&self, warn_ms: u64, end_ms: u64) {
        self.warn_ms.store(warn_ms, Relaxed);
        self.end_ms.store(end_ms, Relaxed);
    }
    /// As [`Breadcrumb::set_limits`] was told.
    pub fn limits(&self) -> (u64, u64) {
        (self.warn_ms.load(Relaxed), self.end_ms.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_thread_reads_where_the_loop_stands() {
        let crumb = Breadcrumb::default();
        assert_eq!((crumb.last_op(), crumb.current_event()), (None, 0));
        crumb.event(7);
        crumb.op(3, 0x1f, 4123, 9, b"rbd_data.10226b8b4567.0000000000000000");
        crumb.turn();
        let op = crumb.last_op().unwrap();
        assert_eq!((op.pool, op.seed, op.client, op.tid), (3, 0x1f, 4123, 9));
        assert_eq!((op.name.as_str(), crumb.current_event(), crumb.turns()), ("rbd_data.10226b8b4567.0000000000000000", 7, 1));
        crumb.op(3, 1, 1, 1, &[b'x'; 300]);
        assert_eq!(crumb.last_op().unwrap().name, "x".repeat(NAME));
    }
}
