//! Leaves in memory.

use super::leaf::Leaf;
use crate::overlay::{NumberBuild, Numbers};
use base::fixed::HashSet;
use std::cell::Cell;
use std::collections::VecDeque;

#[derive(Debug)]
struct Cached {
    leaf: Leaf,
    used: Cell<bool>,
    /// The turn in which it was looked at last.
    turn: Cell<u32>,
}

/// Leaves in memory; those that were used since they were looked at last stay longer.
#[derive(Debug, Default)]
pub struct LeafCache {
    leaves: Numbers<Cached>,
    order: VecDeque<u64>,
    bytes: usize,
    /// Not on the device yet.
    pinned: HashSet<u64, NumberBuild>,
    turn: u32,
    /// Bytes of the leaves that were looked at in this turn.
    seen: Cell<usize>,
}

impl LeafCache {
    /// The leaf stays until it is unpinned.
    pub fn pin(&mut self, id: u64) {
        self.pinned.insert(id);
    }
    pub fn unpin(&mut self, id: u64) {
        self.pinned.remove(&id);
    }
    pub fn get(&self, id: u64) -> Option<&Leaf> {
        let cached = self.leaves.get(&id)?;
        cached.used.set(true);
        if cached.turn.replace(self.turn) != self.turn {
            self.seen.set(self.seen.get() + cached.leaf.memory());
        }
        Some(&cached.leaf)
    }
    /// Bytes of the leaves that were looked at since the last [`LeafCache::shrink`].
    pub fn seen(&self) -> usize {
        self.seen.get()
    }
    pub fn put(&mut self, id: u64, leaf: Leaf) {
        self.bytes += leaf.memory();
        if let Some(old) = self.leaves.insert(id, Cached { leaf, used: Cell::new(true), turn: Cell::new(self.turn.wrapping_sub(1)) }) {
            self.bytes -= old.leaf.memory();
        } else {
            self.order.push_back(id);
        }
    }
    pub fn remove(&mut self, id: u64) {
        if let Some(old) = self.leaves.remove(&id) {
            self.bytes -= old.leaf.memory();
        }
    }
    /// Lets leaves go until there are at most so many bytes. A turn ends.
    pub fn shrink(&mut self, max: usize) {
        self.turn = self.turn.wrapping_add(1);
        self.seen.set(0);
        let mut looks = self.order.len() * 2;
        // The last two stay, however large: something waits for them, and a scan goes on from the end of one to the next.
        while self.bytes > max && looks > 0 && self.leaves.len() > 2 {
            looks -= 1;
            let Some(id) = self.order.pop_front() else { break };
            match self.leaves.get(&id) {
                Some(_) if self.pinned.contains(&id) => self.order.push_back(id),
                Some(cached) if cached.used.replace(false) => self.order.push_back(id),
                Some(_) => self.remove(id),
                None => {}
            }
        }
    }
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    #[cfg(test)]
    pub fn assert_counts(&self) {
        assert_eq!(self.bytes, self.leaves.values().map(|cached| cached.leaf.memory()).sum::<usize>());
    }
}
