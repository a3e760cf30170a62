//! Leaves in memory.
//!
//! To find one, to put one in and to take one out takes one step. To let some go takes two looks at each that is here, at most; those that
//! were taken out are passed over once.

use super::leaf::Leaf;
use crate::data::overlay::{NumberBuild, Numbers};
use base::fixed::HashSet;
use std::cell::Cell;
use std::collections::VecDeque;

#[derive(Debug)]
struct Cached {
    leaf: Leaf,
    /// Of its entry in the order that counts.
    stamp: u64,
    used: Cell<bool>,
    /// The turn in which it was looked at last.
    turn: Cell<u32>,
}

/// Leaves in memory; those that were used since they were looked at last stay longer.
#[derive(Debug, Default)]
pub struct LeafCache {
    leaves: Numbers<Cached>,
    /// As they came, with stamps: an entry whose leaf was taken out since, or came again, counts for nothing.
    order: VecDeque<(u64, u64)>,
    stamp: u64,
    bytes: usize,
    /// Not on the device yet.
    pinned: HashSet<u64, NumberBuild>,
    turn: u32,
    /// Bytes of the leaves that were looked at in this turn.
    seen: Cell<usize>,
    /// Entries of the order that were looked at.
    #[cfg(test)]
    steps: u64,
}

/// Entries of the order that may count for nothing, beside as many as there are leaves.
const GONE_MAX: usize = 64;

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
        let stamp = self.leaves.get(&id).map_or(self.stamp + 1, |old| old.stamp);
        if let Some(old) = self.leaves.insert(id, Cached { leaf, stamp, used: Cell::new(true), turn: Cell::new(self.turn.wrapping_sub(1)) })
        {
            self.bytes -= old.leaf.memory();
        } else {
            self.stamp = stamp;
            self.order.push_back((id, stamp));
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
            self.step(1);
            let Some((id, stamp)) = self.order.pop_front() else { break };
            match self.leaves.get(&id).filter(|cached| cached.stamp == stamp) {
                Some(_) if self.pinned.contains(&id) => self.order.push_back((id, stamp)),
                Some(cached) if cached.used.replace(false) => self.order.push_back((id, stamp)),
                Some(_) => self.remove(id),
                None => {}
            }
        }
        // Checkpoints take leaves out and put others in; where all of them have room, nothing above passes over what is gone.
        if self.order.len() > 2 * self.leaves.len() + GONE_MAX {
            self.step(self.order.len() as u64);
            let Self { order, leaves, .. } = self;
            order.retain(|(id, stamp)| leaves.get(id).is_some_and(|cached| cached.stamp == *stamp));
        }
    }
    #[cfg(test)]
    fn step(&mut self, n: u64) {
        self.steps += n;
    }
    #[cfg(not(test))]
    fn step(&mut self, _n: u64) {}
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    #[cfg(test)]
    pub fn assert_counts(&self) {
        assert_eq!(self.bytes, self.leaves.values().map(|cached| cached.leaf.memory()).sum::<usize>());
        let count = |(id, stamp): &&(u64, u64)| self.leaves.get(id).is_some_and(|cached| cached.stamp == *stamp);
        assert_eq!(self.order.iter().filter(count).count(), self.leaves.len(), "each leaf has its turn");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::meta::leaf::LeafBuilder;

    fn leaf(n: u64) -> Leaf {
        let mut builder = LeafBuilder::default();
        builder.push(&n.to_be_bytes(), &[7; 100]);
        Leaf::made(&builder.cut(1, n))
    }

    /// Checkpoints replace leaves that all have room: what is remembered of them, and the steps for each, do not grow with how many there
    /// were.
    #[test]
    fn what_was_replaced_is_forgotten() {
        let steps = |replaced: u64| {
            let (mut cache, mut most) = (LeafCache::default(), 0);
            for n in 0..replaced {
                cache.put(n, leaf(n));
                if n >= 50 {
                    cache.remove(n - 50);
                }
                if n % 8 == 0 {
                    cache.shrink(1 << 20);
                }
                // One that comes again has one turn.
                if n % 16 == 3 {
                    cache.remove(n);
                    cache.put(n, leaf(n));
                }
                most = most.max(cache.order.len());
            }
            cache.shrink(1 << 20);
            cache.assert_counts();
            (cache.steps / replaced, most)
        };
        let (few, many) = (steps(2000), steps(20_000));
        assert!(many.0 <= few.0 + 1 && many.0 < 5, "{few:?} steps for a leaf, {many:?} of ten times as many");
        assert!(many.1 < 4 * 50 + 2 * GONE_MAX, "{} are remembered of 50", many.1);
    }
}
