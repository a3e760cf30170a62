//! Generations of changes: the one that is open, the one that a checkpoint writes, and those that the leaves have.
//!
//! ```text
//!   open ──(begin)──> frozen: its checkpoint is under way ──(done)──> saved; its rows are freed, some at a time
//! ```
//! Holds no row that counts: those of the open and the frozen generation are the table's ([`crate::rows::meta`]).

use super::{Checkpoint, Stage};
use crate::data::log::Log;
use crate::planted::{Bug, planted};
use crate::rows::meta::layer::{Key, Layer, Val};
use std::collections::btree_map::IntoIter;

#[derive(Debug)]
pub struct Generations {
    /// Changes belong to this generation.
    open: u32,
    /// Those up to this one are in leaves.
    saved: u32,
    /// Of objects that changed in the open generation, in bytes.
    changed_bytes: usize,
    /// The number of the next leaf that is made.
    next_leaf: u64,
    /// Leaves in front of this key were packed in this round.
    packed: Key,
    /// A checkpoint is to begin as soon as it can.
    is_wanted: bool,
    checkpoint: Option<Checkpoint>,
    /// Rows that the last checkpoints took.
    taken: Vec<IntoIter<Key, Val>>,
}

impl Generations {
    pub fn new(next_leaf: u64) -> Self {
        let packed = Key::default();
        Self { open: 1, saved: 0, changed_bytes: 0, next_leaf, packed, is_wanted: false, checkpoint: None, taken: Vec::new() }
    }
    pub fn open(&self) -> u32 {
        self.open
    }
    pub fn saved(&self) -> u32 {
        self.saved
    }
    /// Objects of the open generation take so much more.
    pub fn changed(&mut self, bytes: usize) {
        self.changed_bytes += bytes;
    }
    pub fn changed_bytes(&self) -> usize {
        self.changed_bytes
    }
    pub fn next_leaf(&self) -> u64 {
        self.next_leaf
    }
    /// The number of a leaf that is made now.
    pub fn make_leaf(&mut self) -> u64 {
        let id = self.next_leaf;
        self.next_leaf += 1;
        id
    }

    pub fn packed(&self) -> &Key {
        &self.packed
    }
    pub fn set_packed(&mut self, upto: Key) {
        self.packed = upto;
    }

    /// A checkpoint begins as soon as it can.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }
    /// The same, unless one is under way.
    pub fn want_if_idle(&mut self) {
        self.is_wanted |= self.checkpoint.is_none();
    }
    /// There is nothing that a checkpoint could write.
    pub fn want_none(&mut self) {
        self.is_wanted = false;
    }
    pub fn is_wanted(&self) -> bool {
        self.is_wanted
    }
    pub fn is_under_way(&self) -> bool {
        self.checkpoint.is_some()
    }
    /// True if no checkpoint is under way, and none is wanted.
    pub fn is_settled(&self) -> bool {
        self.checkpoint.is_none() && !self.is_wanted
    }
    pub fn under_way(&self) -> Option<&Checkpoint> {
        self.checkpoint.as_ref()
    }
    /// The checkpoint that is under way.
    pub fn checkpoint(&mut self) -> &mut Checkpoint {
        self.checkpoint.as_mut().expect("a checkpoint is under way")
    }

    /// The record that the checkpoint waits for to be drained, if it does.
    pub fn drain_to(&self) -> Option<u64> {
        self.checkpoint.as_ref().filter(|c| c.stage == Stage::Drain).map(|c| c.seq - 1)
    }
    /// What will be the log's tail when the checkpoint that is under way is done.
    pub fn tail_to_be(&self) -> Option<u64> {
        self.checkpoint.as_ref().filter(|_| !planted(Bug::TrimEarly)).map(|c| c.at)
    }
    /// True if the checkpoint waits for this record.
    pub fn is_barrier(&self, seq: u64) -> bool {
        self.checkpoint.as_ref().is_some_and(|c| c.stage != Stage::Drain && seq <= c.barrier)
    }

    /// The open generation is frozen, and this checkpoint writes it; another is open.
    pub fn begin(&mut self, checkpoint: Checkpoint) {
        assert!(self.checkpoint.is_none(), "one checkpoint is under way at a time");
        self.open += 1;
        self.changed_bytes = 0;
        self.is_wanted = false;
        self.checkpoint = Some(checkpoint);
    }
    /// The checkpoint is durable, and these rows, which it wrote, are of no use any more.
    pub fn done(&mut self, rows: Layer) -> Checkpoint {
        self.saved = self.open - 1;
        self.taken.push(rows.into_rows());
        self.checkpoint.take().expect("it is under way")
    }
    /// Some rows that checkpoints took are freed.
    pub fn free_some(&mut self, max: usize) {
        if let Some(rows) = self.taken.last_mut()
            && rows.take(max).count() < max
        {
            self.taken.pop();
        }
    }

    /// One generation is open, and one frozen while a checkpoint writes it.
    pub fn assert_invariants(&self, is_frozen: bool, log: &Log) {
        let is_under_way = self.checkpoint.is_some();
        assert_eq!(is_under_way, is_frozen, "a checkpoint has frozen rows, and nothing else does");
        assert_eq!(self.saved + 1 + u32::from(is_under_way), self.open, "one generation is open, and one frozen by a checkpoint");
        if let Some(c) = &self.checkpoint {
            c.assert_place(log.seq(), log.ring());
        }
    }
}
