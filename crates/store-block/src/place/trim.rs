//! Chunks that are free and whose room the device may have back: which, and when.
//!
//! ```text
//!   emptied ──> fresh ──(a checkpoint begins)──> frozen ──(it is durable)──> ready ──> a run under way ──> given back
//!      ^                                                                       └─ taken again: forgotten when it is looked at
//! ```
//! A chunk is emptied when it may be given to others, so to write to it harms nothing. To discard it waits for more: a checkpoint that began
//! later is durable, and so neither the log nor the superblock before the newest one names it, whatever a repair has to go back to.
//! Neighbours are one run. A run that is too short waits for neighbours.
//!
//! To note a chunk takes steps in proportion to the logarithm of how many there are; to find a run takes one for each that is looked at, and
//! no more than [`LOOKS`] at a time. Memory: an entry for 64 chunks in a row.

use std::collections::BTreeMap;
use std::ops::Range;

/// Chunks that one search looks at.
const LOOKS: u64 = 4096;

/// A set of chunks: 64 of them are an entry.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Chunks(BTreeMap<u64, u64>);

impl Chunks {
    fn insert(&mut self, chunk: u64) {
        *self.0.entry(chunk / 64).or_default() |= 1 << (chunk % 64);
    }
    fn remove(&mut self, chunk: u64) {
        if let Some(bits) = self.0.get_mut(&(chunk / 64)) {
            *bits &= !(1 << (chunk % 64));
            if *bits == 0 {
                self.0.remove(&(chunk / 64));
            }
        }
    }
    fn has(&self, chunk: u64) -> bool {
        self.0.get(&(chunk / 64)).is_some_and(|bits| bits & 1 << (chunk % 64) != 0)
    }
    /// The first one from `from` on.
    fn from(&self, from: u64) -> Option<u64> {
        self.0.range(from / 64..).find_map(|(at, bits)| {
            let bits = if *at == from / 64 { bits & u64::MAX << (from % 64) } else { *bits };
            (bits != 0).then(|| at * 64 + u64::from(bits.trailing_zeros()))
        })
    }
    fn append(&mut self, others: &mut Self) {
        for (at, bits) in std::mem::take(&mut others.0) {
            *self.0.entry(at).or_default() |= bits;
        }
    }
    fn len(&self) -> u64 {
        self.0.values().map(|bits| u64::from(bits.count_ones())).sum()
    }
}

#[derive(Debug, Default)]
pub struct Trim {
    fresh: Chunks,
    frozen: Chunks,
    ready: Chunks,
    /// The search goes on here.
    next: u64,
    /// Nothing has become ready since a search found no run.
    is_searched: bool,
    /// Runs that this round of searches has found.
    found: u64,
}

impl Trim {
    /// No block of this chunk is in use any more.
    pub fn emptied(&mut self, chunk: u64) {
        // If it was before, it was another's since.
        self.frozen.remove(chunk);
        self.ready.remove(chunk);
        self.fresh.insert(chunk);
    }
    /// A checkpoint begins.
    pub fn freeze(&mut self) {
        self.frozen.append(&mut self.fresh);
    }
    /// The checkpoint that began last is durable.
    pub fn durable(&mut self) {
        if !self.frozen.0.is_empty() {
            self.ready.append(&mut self.frozen);
            self.search_all();
        }
    }
    /// This chunk may go without a wait: for a tool that has seen to that.
    pub fn put_ready(&mut self, chunk: u64) {
        self.ready.insert(chunk);
        self.search_all();
    }
    fn search_all(&mut self) {
        (self.next, self.found, self.is_searched) = (0, 0, false);
    }
    /// True if a search may find something.
    pub fn is_worth_a_search(&self) -> bool {
        !self.is_searched && !self.ready.0.is_empty()
    }
    /// The next run of `min` to `max` chunks that are ready and still free; they are ready no more.
    pub fn take_run(&mut self, min: u64, max: u64, is_free: impl Fn(u64) -> bool) -> Option<Range<u64>> {
        for _ in 0..LOOKS {
            let Some(first) = self.ready.from(self.next) else {
                // A round is over. Where it has found none, the next one would find none.
                self.is_searched = self.found == 0;
                (self.next, self.found) = (0, 0);
                return None;
            };
            if !is_free(first) {
                self.ready.remove(first);
                self.next = first + 1;
                continue;
            }
            let end = (first..first + max).find(|chunk| !self.ready.has(*chunk) || !is_free(*chunk)).unwrap_or(first + max);
            self.next = end;
            if end - first >= min {
                (first..end).for_each(|chunk| self.ready.remove(chunk));
                self.found += 1;
                return Some(first..end);
            }
        }
        None
    }
    /// Chunks that wait for the next checkpoint.
    pub fn fresh(&self) -> u64 {
        self.fresh.len()
    }
    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        const ENTRY: usize = 24;
        (self.fresh.0.len() + self.frozen.0.len() + self.ready.0.len()) * ENTRY
    }
    /// Chunks that wait: for a checkpoint, for neighbours or for their turn.
    #[cfg(test)]
    pub fn waiting(&self) -> u64 {
        self.fresh.len() + self.frozen.len() + self.ready.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emptied(chunks: impl IntoIterator<Item = u64>) -> Trim {
        let mut trim = Trim::default();
        chunks.into_iter().for_each(|chunk| trim.emptied(chunk));
        trim
    }

    #[test]
    fn a_chunk_waits_for_a_checkpoint_that_began_later() {
        let mut trim = emptied(10..20);
        // The one that is durable now began before.
        trim.durable();
        assert_eq!(trim.take_run(1, 100, |_| true), None);
        trim.freeze();
        trim.emptied(20);
        trim.emptied(12);
        assert_eq!(trim.take_run(1, 100, |_| true), None);
        trim.durable();
        // One was another's meanwhile, and one came too late for it.
        assert_eq!(trim.take_run(1, 100, |_| true), Some(10..12));
        assert_eq!(trim.take_run(1, 100, |_| true), Some(13..20));
        assert_eq!((trim.take_run(1, 100, |_| true), trim.waiting()), (None, 2));
    }

    #[test]
    fn neighbours_are_one_run_and_short_ones_wait_for_more() {
        let mut trim = emptied((60..140).chain([200, 300, 301]));
        trim.freeze();
        trim.durable();
        assert_eq!(trim.take_run(2, 50, |_| true), Some(60..110));
        assert_eq!(trim.take_run(2, 50, |chunk| chunk != 120), Some(110..120));
        assert_eq!(trim.take_run(2, 50, |chunk| chunk != 120), Some(121..140));
        assert_eq!(trim.take_run(2, 50, |_| true), Some(300..302));
        // 120 has an owner, 200 has no neighbour; and that is known until something comes.
        while trim.is_worth_a_search() {
            assert_eq!(trim.take_run(2, 50, |_| true), None);
        }
        assert_eq!(trim.waiting(), 1);
        trim.emptied(201);
        trim.freeze();
        trim.durable();
        assert!(trim.is_worth_a_search());
        assert_eq!(trim.take_run(2, 50, |_| true), Some(200..202));
        assert_eq!((trim.waiting(), trim.is_worth_a_search()), (0, false));
    }

    #[test]
    fn a_search_ends() {
        // Each second chunk of a large device: no run at all.
        let mut trim = emptied((0..100_000).step_by(2));
        trim.freeze();
        trim.durable();
        let mut searches = 0;
        while trim.is_worth_a_search() {
            assert_eq!(trim.take_run(16, 64, |_| true), None);
            searches += 1;
        }
        assert!((2..40).contains(&searches), "{searches}");
    }
}
