//! What shares a chunk: how many objects, by the chunk's place. A chunk of one object that was never cloned is not in it.
//!
//! One step for each question and each change, and a checkpoint takes one for each place that changed. Memory: an entry for each place that
//! is shared.

use crate::data::overlay::{NumberBuild, Numbers};
use crate::planted::{Bug, planted};
use crate::rows::key;
use crate::rows::meta::layer::Val;
use base::fixed::HashSet;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub struct Refs {
    counts: Numbers<u32>,
    /// Changed since the last checkpoint took them.
    dirty: HashSet<u64, NumberBuild>,
}

/// Of a place and its count in a hash table.
const COUNT_BYTES: usize = 20;

/// Places whose table is not worth being made smaller.
const FEW_PLACES: usize = 1024;

impl Refs {
    pub fn memory(&self) -> usize {
        self.counts.capacity() * COUNT_BYTES
    }
    /// How many share the chunk at a place, if it is shared.
    pub fn get(&self, place: u64) -> Option<u32> {
        self.counts.get(&place).copied()
    }
    pub fn iter(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.counts.iter().map(|(place, count)| (*place, *count))
    }

    /// Another object has the chunk. One that was not shared has two owners from now on.
    pub fn hold(&mut self, place: u64) {
        *self.counts.entry(place).or_insert(1) += 1;
        self.dirty.insert(place);
    }
    /// One of those that share a chunk has it no more: true if that was the last one.
    pub fn release(&mut self, place: u64) -> bool {
        let count = self.counts.get_mut(&place).expect("a shared place is counted");
        *count -= 1;
        self.dirty.insert(place);
        let is_last = *count == 0;
        if is_last {
            self.counts.remove(&place);
        }
        is_last
    }
    /// The chunk is its object's own from now on; how many had it until now.
    pub fn unshare(&mut self, place: u64) -> Option<u32> {
        self.dirty.insert(place);
        self.counts.remove(&place)
    }

    /// As it was at the last checkpoint.
    pub fn load(&mut self, place: u64, count: u32) {
        self.counts.insert(place, count);
    }
    /// Counted again, by the objects: at how many places that differs from what was known.
    pub fn recount(&mut self, counts: &BTreeMap<u64, u32>) -> usize {
        let mut places: BTreeSet<u64> = counts.keys().chain(self.counts.keys()).copied().collect();
        places.retain(|place| self.get(*place) != counts.get(place).copied());
        for place in &places {
            match counts.get(place) {
                Some(count) => drop(self.counts.insert(*place, *count)),
                None => drop(self.counts.remove(place)),
            }
        }
        let changed = places.len();
        self.dirty.extend(places);
        changed
    }
    /// Taken from the objects, since rows of it are damaged: all of it is written anew.
    pub fn rebuild(&mut self, counts: BTreeMap<u64, u32>) {
        self.dirty.extend(counts.keys().chain(self.counts.keys()));
        self.counts = counts.into_iter().collect();
    }
    /// Rows of what changed since they were taken last, ascending.
    pub fn take_dirty(&mut self) -> Vec<(Vec<u8>, Val)> {
        if planted(Bug::ForgetShares) {
            self.dirty.clear();
        }
        let mut places: Vec<u64> = std::mem::take(&mut self.dirty).into_iter().collect();
        places.sort_unstable();
        if planted(Bug::ForgetLastShare) {
            places.pop();
        }
        // Memory of clones that are gone is others' again.
        if self.counts.capacity() > FEW_PLACES.max(self.counts.len() * 4) {
            self.counts.shrink_to(self.counts.len() * 2);
        }
        let row = |place: u64| self.counts.get(&place).map_or(Val::Del, |count| Val::Row(count.to_le_bytes().to_vec().into()));
        places.into_iter().map(|place| (key::numbered(key::REFS, place), row(place))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Snapshots that are gone leave nothing behind that is held for what is in memory whole.
    #[test]
    fn what_is_shared_no_more_takes_no_memory() {
        let mut refs = Refs::default();
        (0..100_000).for_each(|place| refs.hold(place));
        let all = refs.take_dirty().len();
        let most = refs.memory();
        (0..100_000).for_each(|place| assert!(!refs.release(place) && refs.release(place)));
        assert_eq!((all, refs.take_dirty().len()), (100_000, 100_000));
        assert!(refs.memory() * 20 < most, "{} bytes of {most}", refs.memory());
    }
}
