//! Where pages of the metadata lie: blocks of the meta device, and behind those chunks that the data device lends. Not stored: what the index of a
//! checkpoint names is in use, nothing else.
//!
//! ```text
//!   take ──> a run on the meta device ──> a run in a lent chunk ──> another chunk is lent ──> pieces, wherever there is a block
//!   put_aside ──(the checkpoint is durable)──> free ──(nothing in the chunk for a whole checkpoint)──> the chunk goes back
//! ```
//! A page of any size finds room as long as that many blocks are free, however scattered: it is cut into pieces then. Which chunks may be lent is
//! decided by [`crate::room`].

use crate::alloc::Alloc;
use crate::layout::{CHUNK_BLOCKS, ON_DATA};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Neighbouring blocks: the first one and how many. Numbers from [`ON_DATA`] on are those of the data device.
pub type Run = (u64, u64);
/// A page's blocks in their order: nearly always one run.
pub type Runs = SmallVec<[Run; 1]>;

const FULL: u16 = u16::MAX;
/// Lent chunks that are looked at for a run before another chunk is lent.
const TRIES: usize = 32;

#[derive(Debug)]
pub struct Space {
    own: Own,
    /// Chunks of the data device that are lent, and which of their blocks are in use.
    lent: BTreeMap<u64, u16>,
    lent_used: u64,
    /// Those that are not full.
    open: BTreeSet<u64>,
    /// Those that were empty when the last checkpoint was done: they go back with the next one, unless something comes into them.
    idle: BTreeSet<u64>,
    /// The chunk that a run was found in last.
    shelf: u64,
    /// Pieces of the last checkpoint, which are free when the next one is durable.
    aside: Vec<Run>,
    aside_blocks: u64,
}

/// The blocks of the meta device.
#[derive(Debug)]
struct Own {
    used: Vec<u64>,
    blocks: u64,
    free: u64,
    next: u64,
}

fn mask(at: u64, n: u64) -> u16 {
    ((((1u32 << n) - 1) << at) & 0xffff) as u16
}
/// Where `n` free blocks in a row begin.
fn fits(used: u16, n: u64) -> Option<u64> {
    (0..=CHUNK_BLOCKS - n).find(|at| used & mask(*at, n) == 0)
}

impl Own {
    fn is_used(&self, block: u64) -> bool {
        self.used[(block / 64) as usize] & 1 << (block % 64) != 0
    }
    fn mark(&mut self, block: u64, n: u64) {
        for b in block..block + n {
            assert!(!self.is_used(b), "block {b} of the metadata is taken once");
            self.used[(b / 64) as usize] |= 1 << (b % 64);
        }
        self.free -= n;
    }
    fn clear(&mut self, block: u64, n: u64) {
        for b in block..block + n {
            assert!(self.is_used(b), "block {b} of the metadata that is freed was in use");
            self.used[(b / 64) as usize] &= !(1 << (b % 64));
        }
        self.free += n;
    }
    /// Takes blocks in a row from where the last one was found: `n` of them, or, if there is no such run and fewer will do, the first that are free.
    fn take(&mut self, n: u64, fewer: bool) -> Option<Run> {
        if self.free == 0 || n > self.free && !fewer {
            return None;
        }
        let (mut at, mut run, mut seen) = (self.next, 0, 0);
        while seen < self.blocks + n {
            if at >= self.blocks {
                (at, run) = (0, 0);
            }
            if run == 0 && at.is_multiple_of(64) && self.used[(at / 64) as usize] == u64::MAX {
                (at, seen) = (at + 64, seen + 64);
                continue;
            }
            let is_used = self.is_used(at);
            if fewer && run > 0 && (is_used || at == 0) {
                break;
            }
            run = if is_used { 0 } else { run + 1 };
            at += 1;
            seen += 1;
            if run == n {
                break;
            }
        }
        if run == 0 || run < n && !fewer {
            return None;
        }
        self.mark(at - run, run);
        self.next = at;
        Some((at - run, run))
    }
}

impl Space {
    /// A meta device of so many blocks, of which the first `taken` are never given.
    pub fn new(blocks: u64, taken: u64) -> Self {
        let mut own = Own { used: vec![0; blocks.div_ceil(64) as usize], blocks, free: blocks, next: taken };
        own.mark(0, taken);
        Self {
            own,
            lent: BTreeMap::new(),
            lent_used: 0,
            open: BTreeSet::new(),
            idle: BTreeSet::new(),
            shelf: 0,
            aside: Vec::new(),
            aside_blocks: 0,
        }
    }
    /// The meta device has become larger.
    pub fn grow(&mut self, blocks: u64) {
        assert!(blocks >= self.own.blocks, "devices don't shrink");
        self.own.used.resize(blocks.div_ceil(64) as usize, 0);
        self.own.free += blocks - self.own.blocks;
        self.own.blocks = blocks;
    }
    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.own.used.len() * 8 + self.lent.len() * 64 + self.aside.capacity() * 16
    }
    /// Blocks of the meta device.
    pub fn own_blocks(&self) -> u64 {
        self.own.blocks
    }
    /// Blocks of chunks that are lent.
    pub fn lent_blocks(&self) -> u64 {
        self.lent.len() as u64 * CHUNK_BLOCKS
    }
    /// Chunks that are lent.
    pub fn lent_chunks(&self) -> u64 {
        self.lent.len() as u64
    }
    #[cfg(test)]
    pub fn assert_counts(&self) {
        let used = (0..self.own.blocks).filter(|block| self.own.is_used(*block)).count() as u64;
        assert_eq!(self.own.blocks - self.own.free, used);
        assert_eq!(self.lent_used, self.lent.values().map(|used| u64::from(used.count_ones())).sum::<u64>());
        assert!(self.lent.iter().all(|(chunk, used)| self.open.contains(chunk) != (*used == FULL)), "open chunks have room");
        assert_eq!(self.aside_blocks, self.aside.iter().map(|run| run.1).sum::<u64>());
    }
    /// Chunks that go back with the next checkpoint, as it looks now.
    pub fn idle_chunks(&self) -> u64 {
        self.idle.len() as u64
    }
    /// Chunks that are lent.
    pub fn lent(&self) -> impl Iterator<Item = u64> + '_ {
        self.lent.keys().copied()
    }
    /// Blocks that are in use, also those that are free after the checkpoint that is being written.
    pub fn taken(&self) -> u64 {
        self.own.blocks - self.own.free + self.lent_used
    }
    /// Blocks that are in use and will be after the checkpoint that is being written.
    pub fn live(&self) -> u64 {
        self.taken() - self.aside_blocks
    }

    /// Takes blocks that a stored index names; false if they are not there, or in use. `data_chunks`: chunks of the data device.
    pub fn mark(&mut self, (block, n): Run, data_chunks: u64) -> bool {
        let Some(end) = block.checked_add(n) else { return false };
        if block < ON_DATA {
            let is_free = end <= self.own.blocks && (block..end).all(|b| !self.own.is_used(b));
            if is_free {
                self.own.mark(block, n);
            }
            return is_free;
        }
        let (mut at, end) = (block - ON_DATA, end - ON_DATA);
        // The first chunk is the label's.
        if at < CHUNK_BLOCKS || end > data_chunks * CHUNK_BLOCKS {
            return false;
        }
        while at < end {
            let part = (end - at).min(CHUNK_BLOCKS - at % CHUNK_BLOCKS);
            let used = self.lent.entry(at / CHUNK_BLOCKS).or_default();
            if *used & mask(at % CHUNK_BLOCKS, part) != 0 {
                return false;
            }
            *used |= mask(at % CHUNK_BLOCKS, part);
            if *used == FULL {
                self.open.remove(&(at / CHUNK_BLOCKS))
            } else {
                self.open.insert(at / CHUNK_BLOCKS)
            };
            self.lent_used += part;
            at += part;
        }
        true
    }

    /// Takes `n` blocks, in as few pieces as it can; `None` if so many are not there. So many chunks of `alloc` may be lent.
    pub fn take(&mut self, n: u64, alloc: &mut Alloc, may_lend: u64) -> Option<Runs> {
        if let Some(run) = self.own.take(n, false) {
            return Some(SmallVec::from_elem(run, 1));
        }
        if n <= CHUNK_BLOCKS
            && let Some(run) = self.in_lent(n)
        {
            return Some(SmallVec::from_elem(run, 1));
        }
        let mut runs = Runs::new();
        let (mut left, mut may_lend) = (n, may_lend);
        while left > 0 {
            let run = if may_lend > 0
                && let Some(chunk) = alloc.lend()
            {
                may_lend -= 1;
                self.lent.insert(chunk, 0);
                self.open.insert(chunk);
                self.take_in(chunk, 0, left.min(CHUNK_BLOCKS))
            } else if let Some(run) = self.own.take(left, true) {
                run
            } else if let Some(chunk) = self.open.first().copied() {
                let used = self.lent[&chunk];
                let at = u64::from((!used).trailing_zeros());
                let free = u64::from((used >> at).trailing_zeros()).min(CHUNK_BLOCKS - at);
                self.take_in(chunk, at, free.min(left))
            } else {
                runs.into_iter().for_each(|run| self.clear(run));
                return None;
            };
            left -= run.1;
            match runs.last_mut() {
                Some(last) if last.0 + last.1 == run.0 => last.1 += run.1,
                _ => runs.push(run),
            }
        }
        Some(runs)
    }
    /// A run of blocks in a chunk that is lent already, near where the last one was.
    fn in_lent(&mut self, n: u64) -> Option<Run> {
        let near = self.open.range(self.shelf..).chain(self.open.range(..self.shelf)).take(TRIES);
        let (chunk, at) = near.copied().find_map(|chunk| fits(self.lent[&chunk], n).map(|at| (chunk, at)))?;
        Some(self.take_in(chunk, at, n))
    }
    fn take_in(&mut self, chunk: u64, at: u64, n: u64) -> Run {
        let used = self.lent.get_mut(&chunk).expect("the chunk is lent");
        assert!(*used & mask(at, n) == 0, "block {at} of chunk {chunk} is taken once");
        *used |= mask(at, n);
        if *used == FULL {
            self.open.remove(&chunk);
        }
        self.lent_used += n;
        self.shelf = chunk;
        (ON_DATA + chunk * CHUNK_BLOCKS + at, n)
    }
    fn clear(&mut self, (block, n): Run) {
        if block < ON_DATA {
            return self.own.clear(block, n);
        }
        let (mut at, end) = (block - ON_DATA, block - ON_DATA + n);
        while at < end {
            let (chunk, first) = (at / CHUNK_BLOCKS, at % CHUNK_BLOCKS);
            let part = (end - at).min(CHUNK_BLOCKS - first);
            let used = self.lent.get_mut(&chunk).expect("the chunk is lent");
            assert!(*used & mask(first, part) == mask(first, part), "block {at} of lent chunks that is freed was in use");
            *used &= !mask(first, part);
            self.open.insert(chunk);
            self.lent_used -= part;
            at += part;
        }
    }
    /// Gives blocks back when the checkpoint that is being written is durable.
    pub fn put_aside(&mut self, run: Run) {
        self.aside.push(run);
        self.aside_blocks += run.1;
    }
    /// The checkpoint is durable. What was free for all of it may go back to data: the checkpoint before it has nothing there either.
    pub fn release(&mut self, alloc: &mut Alloc) {
        for chunk in std::mem::take(&mut self.idle) {
            if self.lent.get(&chunk) == Some(&0) {
                self.lent.remove(&chunk);
                self.open.remove(&chunk);
                alloc.take_back(chunk);
            }
        }
        self.aside_blocks = 0;
        for run in std::mem::take(&mut self.aside) {
            self.clear(run);
        }
        self.idle = self.open.iter().copied().filter(|chunk| self.lent[chunk] == 0).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(runs: &Runs) -> u64 {
        runs.iter().map(|r| r.1).sum()
    }

    #[test]
    fn blocks_are_given_once_and_chunks_go_back() {
        let mut alloc = Alloc::new(60 * CHUNK_BLOCKS, false);
        let mut s = Space::new(300, 2);
        let mut rng = base::Rng::new(1);
        let mut mine: Vec<Runs> = Vec::new();
        for round in 0..6000 {
            let most = if rng.chance(1, 20) { 60 } else { 5 };
            let n = 1 + rng.below(most);
            match s.take(n, &mut alloc, u64::MAX) {
                Some(runs) => {
                    assert_eq!(blocks(&runs), n);
                    mine.push(runs);
                }
                None => {
                    // None is refused while there are so many blocks.
                    assert!(298 + 59 * CHUNK_BLOCKS < s.taken() - 2 + n);
                    for _ in 0..mine.len() / 2 {
                        let runs = mine.swap_remove(rng.below(mine.len() as u64) as usize);
                        runs.into_iter().for_each(|run| s.put_aside(run));
                    }
                    s.release(&mut alloc);
                }
            }
            assert_eq!(s.taken(), 2 + mine.iter().map(blocks).sum::<u64>());
            assert_eq!(alloc.empty_chunks() + s.lent().count() as u64, 59);
            if round % 1000 == 0 {
                // What an index names is found again, and no block twice.
                let mut again = Space::new(300, 2);
                assert!(mine.iter().flatten().all(|run| again.mark(*run, 60)));
                assert!(mine.iter().flatten().all(|run| !again.mark(*run, 60)));
                assert_eq!(again.taken(), s.taken());
            }
        }
        mine.drain(..).flatten().for_each(|run| s.put_aside(run));
        s.release(&mut alloc);
        assert!(s.lent_blocks() > 0, "the checkpoint before may still be needed");
        s.release(&mut alloc);
        assert_eq!((s.lent_blocks(), alloc.empty_chunks(), s.live()), (0, 59, 2));
    }

    #[test]
    fn a_page_is_cut_where_no_run_is_left() {
        let mut alloc = Alloc::new(2 * CHUNK_BLOCKS, false);
        let mut s = Space::new(64, 2);
        let all: Vec<Run> = (0..62).map(|_| s.take(1, &mut alloc, 0).expect("free")[0]).collect();
        all.iter().step_by(2).for_each(|run| s.put_aside(*run));
        s.release(&mut alloc);
        let runs = s.take(20, &mut alloc, 0).expect("31 are free");
        assert!(blocks(&runs) == 20 && runs.len() == 20);
        assert!(s.take(12, &mut alloc, 0).is_none());
        let runs = s.take(12, &mut alloc, 1).expect("a chunk is lent");
        assert_eq!(runs[..], [(ON_DATA + CHUNK_BLOCKS, 12)]);
    }
}
