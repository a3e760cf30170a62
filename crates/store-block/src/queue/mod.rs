//! Transactions that wait for bytes, and the order they keep.
//!
//! ```text
//!   submit ──> everything in memory ──> made, into the open record
//!      └────> something must be read ──> the queue ──(it has come)──> made
//! ```
//! Nothing overtakes in the queue. What reads an object that a waiting transaction names waits too: what was submitted is visible. Here is the order,
//! what was promised to those that wait, and how far the first one is; [`make`] makes them, [`growth`] counts what they add.

pub mod growth;
mod make;

use crate::state::Core;
use growth::Growth;
use std::collections::VecDeque;
use store::{LogDelta, StoreError, StoreResult};
use types::{GHObject, Transaction, TxKind};

/// A transaction that waits.
#[derive(Debug)]
pub struct Queued {
    txn: Transaction,
    /// What changes in groups' memory, each of one group, as far as it is not made.
    log: VecDeque<LogDelta>,
    token: u64,
    growth: Growth,
    /// Some change is of a collection, not of an object in it.
    of_coll: bool,
    made: Made,
}

/// How far a transaction is made.
#[derive(Debug, Default)]
struct Made {
    /// Changes before this one are made, and so many parts of this one.
    next: usize,
    part: usize,
    /// Of a change that goes over keys of an omap: the key that it goes on with.
    key: Option<Vec<u8>>,
    /// Images of the open record that are others', and the change for which it was decided last whether it has images.
    images: u64,
    decided: Option<(usize, bool)>,
    /// They stay while the transaction is half made: nothing leaves memory then.
    slots: Slots,
    /// The first number that it gave to an object.
    first_new: u64,
}

/// The slots of a transaction's objects, found once.
#[derive(Debug, Default)]
struct Slots(Vec<Option<u32>>);

impl Queued {
    fn new(txn: Transaction, log: Option<LogDelta>, token: u64, growth: Growth) -> Self {
        let of_coll = txn.ops().iter().any(|op| of_coll(&op.kind));
        Self { txn, log: log.into_iter().flat_map(LogDelta::apart).collect(), token, growth, of_coll, made: Made::default() }
    }
}

#[derive(Debug, Default)]
pub struct Queue {
    /// The first may be half done.
    waiting: VecDeque<Queued>,
    /// What they add together, at most.
    promised: Growth,
    /// Waiters for what a waiting transaction names.
    tickets: Vec<u64>,
    /// True while the open record holds a part of a transaction.
    half: bool,
    /// Of the transaction that is being made: where in the open record's changes those begin that may be spilled next, and whether the change that is
    /// being made puts no images into the record.
    spill_from: usize,
    without_images: bool,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
    /// True while the open record holds a part of a transaction.
    pub fn is_half(&self) -> bool {
        self.half
    }
    /// What those that wait add together, at most: chunks, and bytes of rows.
    pub fn promised_chunks(&self) -> u64 {
        self.promised.pieces + self.promised.spilled
    }
    pub fn promised_bytes(&self) -> u64 {
        self.promised.bytes
    }
    /// Blocks of the largest piece that one of them may need.
    pub fn largest(&self) -> u64 {
        self.waiting.iter().map(|q| q.growth.largest).max().unwrap_or(0)
    }
    fn push(&mut self, queued: Queued) {
        self.promised.pieces += queued.growth.pieces;
        self.promised.spilled += queued.growth.spilled;
        self.promised.bytes += queued.growth.bytes;
        self.waiting.push_back(queued);
    }
    /// One that was taken out is made: what was promised to it is used.
    fn made(&mut self, queued: &Queued) {
        self.promised.pieces -= queued.growth.pieces;
        self.promised.spilled -= queued.growth.spilled;
        self.promised.bytes -= queued.growth.bytes;
    }
    /// True if one of them names the object; without one, if any waits.
    fn names(&self, obj: Option<&GHObject>) -> bool {
        let names = |q: &Queued| obj.is_none_or(|obj| q.of_coll || q.txn.objects().any(|o| o == obj));
        self.waiting.iter().any(names)
    }
    /// Those that wait for the queue are to ask again.
    pub fn take_tickets(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.tickets)
    }

    /// Where in the open record's changes those begin that may be spilled next.
    pub fn spill_from(&self) -> usize {
        self.spill_from
    }
    pub fn set_spill_from(&mut self, at: usize) {
        self.spill_from = at;
    }
    /// True if the change that is being made puts no images into the record.
    pub fn is_without_images(&self) -> bool {
        self.without_images
    }

    pub fn assert_invariants(&self) {
        let Growth { pieces, bytes, spilled, .. } = self.promised;
        assert!((pieces, bytes, spilled) == (0, 0, 0) || !self.is_empty(), "promises are to transactions that wait");
        assert!(!self.half || !self.is_empty(), "what is half made waits in front");
    }
    #[cfg(test)]
    pub fn assert_counts(&self) {
        let sum = |of: fn(&Growth) -> u64| self.waiting.iter().map(|q| of(&q.growth)).sum::<u64>();
        let Growth { pieces, bytes, spilled, .. } = self.promised;
        assert_eq!((pieces, bytes, spilled), (sum(|g| g.pieces), sum(|g| g.bytes), sum(|g| g.spilled)), "each was promised what it adds");
    }
}

impl Core {
    /// While transactions wait: a question about an object that one of them names waits too.
    pub fn busy(&mut self, obj: Option<&GHObject>) -> StoreResult<()> {
        if self.queue.is_empty() || !self.queue.names(obj) {
            return Ok(());
        }
        let ticket = self.tickets.make();
        self.queue.tickets.push(ticket);
        Err(StoreError::Wait(ticket))
    }
}

fn of_coll(kind: &TxKind) -> bool {
    matches!(
        kind,
        TxKind::Nop
            | TxKind::MkColl { .. }
            | TxKind::RmColl
            | TxKind::SplitColl { .. }
            | TxKind::MergeColl { .. }
            | TxKind::CollSetBits { .. }
            | TxKind::CollHint { .. }
    )
}
