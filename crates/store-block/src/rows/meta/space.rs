//! Where pages of the metadata lie: blocks of the meta device, and behind those chunks that the data device lends. Blocks that leaves and
//! index of a checkpoint have are in use, nothing else: those of leaves are stored with the index ([`super::blocks`]).
//!
//! ```text
//!   take ──> a run on the meta device ──> a run in a lent chunk ──> another chunk is lent ──> pieces, wherever there is a block
//!   put_aside ──(the checkpoint is durable)──> free ──(nothing in the chunk for a whole checkpoint)──> the chunk goes back
//! ```
//! A page of any size finds room as long as that many blocks are free, however scattered: it is cut into pieces then. Which chunks may be lent is
//! decided by [`crate::place::room`].
//!
//! To take a run and to give it back takes steps in proportion to the logarithm of how many blocks there are; to release takes that for
//! each run that was put aside, and one for each lent chunk that is empty.

use super::blocks::Blocks;
use super::own::Own;
use crate::open::layout::{CHUNK_BLOCKS, ON_DATA};
use crate::place::alloc::Alloc;
use crate::place::gaps::longest_run;
use crate::planted::{Bug, planted};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Neighbouring blocks: the first one and how many. Numbers from [`ON_DATA`] on are those of the data device.
pub type Run = (u64, u64);
/// A page's blocks in their order: nearly always one run.
pub type Runs = SmallVec<[Run; 1]>;

#[derive(Debug)]
pub struct Space {
    own: Own,
    /// Chunks of the data device that are lent, and which of their blocks are in use.
    lent: BTreeMap<u64, u16>,
    lent_used: u64,
    open: Open,
    /// Those that were empty when the last checkpoint was done: they go back with the next one, unless something comes into them.
    idle: BTreeSet<u64>,
    /// The chunk that a run was found in last.
    shelf: u64,
    /// Pieces of the last checkpoint, which are free when the next one is durable.
    aside: Vec<Run>,
    aside_blocks: u64,
}

pub(super) fn mask(at: u64, n: u64) -> u16 {
    ((((1u32 << n) - 1) << at) & 0xffff) as u16
}
/// Where `n` free blocks in a row begin.
fn fits(used: u16, n: u64) -> Option<u64> {
    (0..=CHUNK_BLOCKS - n).find(|at| used & mask(*at, n) == 0)
}

/// Lent chunks that are not full, by the free blocks in a row that each has at most: to find one takes a look into each of these sets.
#[derive(Debug, Default)]
struct Open {
    by_run: [BTreeSet<u64>; CHUNK_BLOCKS as usize + 1],
}

impl Open {
    /// The chunk's blocks in use are others now; `None`: it is, or was, not there.
    fn change(&mut self, chunk: u64, from: Option<u16>, to: Option<u16>) {
        let run = |used: Option<u16>| used.map(longest_run).filter(|run| *run > 0);
        let (was, is) = (run(from), run(to));
        if was != is {
            if let Some(run) = was {
                self.by_run[run].remove(&chunk);
            }
            if let Some(run) = is {
                self.by_run[run].insert(chunk);
            }
        }
    }
    /// A chunk with `n` free blocks in a row: the next one from `from` on, or the first.
    fn with_run(&self, n: u64, from: u64) -> Option<u64> {
        let sets = || self.by_run[n as usize..].iter();
        sets().filter_map(|set| set.range(from..).next()).min().or_else(|| sets().filter_map(BTreeSet::first).min()).copied()
    }
    /// Those without a block in use.
    fn empty(&self) -> &BTreeSet<u64> {
        &self.by_run[CHUNK_BLOCKS as usize]
    }
}

impl Space {
    /// A meta device of so many blocks, of which the first `taken` are never given.
    pub fn new(blocks: u64, taken: u64) -> Self {
        Self {
            own: Own::new(blocks, taken),
            lent: BTreeMap::new(),
            lent_used: 0,
            open: Open::default(),
            idle: BTreeSet::new(),
            shelf: 0,
            aside: Vec::new(),
            aside_blocks: 0,
        }
    }
    /// The meta device has become larger.
    pub fn grow(&mut self, blocks: u64) {
        self.own.grow(blocks);
    }
    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.own.memory() + self.lent.len() * 64 + self.aside.capacity() * 16
    }
    /// Blocks of the meta device.
    pub fn own_blocks(&self) -> u64 {
        self.own.blocks()
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
    pub fn take_steps(&self) -> u64 {
        self.own.take_steps()
    }
    #[cfg(test)]
    pub fn assert_counts(&self) {
        assert_eq!(self.lent_used, self.lent.values().map(|used| u64::from(used.count_ones())).sum::<u64>());
        let is_open = |(chunk, used): (&u64, &u16)| *used == u16::MAX || self.open.by_run[longest_run(*used)].contains(chunk);
        assert!(self.lent.iter().all(is_open), "chunks with room are found by it");
        let open = self.lent.values().filter(|used| **used != u16::MAX).count();
        assert_eq!(self.open.by_run.iter().map(BTreeSet::len).sum::<usize>(), open);
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
        self.own.blocks() - self.own.free() + self.lent_used
    }
    /// Blocks that are in use and will be after the checkpoint that is being written.
    pub fn live(&self) -> u64 {
        self.taken() - self.aside_blocks
    }

    /// Takes all blocks that a checkpoint has.
    pub fn load(&mut self, blocks: &Blocks) {
        self.own.load(blocks.own(), blocks.steps());
        for (chunk, used) in blocks.lent() {
            self.lent_used += u64::from(used.count_ones());
            self.set(*chunk, Some(*used));
        }
    }
    /// Blocks that are in use and will be after the checkpoint that is being written. `data_chunks`: chunks of the data device.
    pub fn kept(&self, data_chunks: u64) -> Blocks {
        let mut blocks = Blocks::of(self.own.words(), self.own.blocks(), &self.lent, data_chunks);
        for run in self.aside.iter().filter(|_| !planted(Bug::StoreAside)) {
            assert!(blocks.free(*run), "blocks {run:?} of the metadata that are put aside were in use");
        }
        blocks
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
                self.set(chunk, Some(0));
                self.take_in(chunk, 0, left.min(CHUNK_BLOCKS))
            } else if let Some(run) = self.own.take(left, true) {
                run
            } else if let Some(chunk) = self.open.with_run(1, 0) {
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
    /// Takes some blocks in a row, at most `n`, for pages of one each that are written together; `None` where only single ones are left.
    /// Lends no chunk.
    pub fn take_row(&mut self, n: u64) -> Option<Run> {
        let most = n.min(CHUNK_BLOCKS);
        [most, most / 2, most / 4].into_iter().filter(|n| *n > 1).find_map(|n| self.own.take(n, false).or_else(|| self.in_lent(n)))
    }
    /// Gives blocks back that nothing was written to.
    pub fn give_back(&mut self, run: Run) {
        if run.1 > 0 {
            self.clear(run);
        }
    }
    /// A run of blocks in a chunk that is lent already, near where the last one was.
    fn in_lent(&mut self, n: u64) -> Option<Run> {
        let chunk = self.open.with_run(n, self.shelf)?;
        let at = fits(self.lent[&chunk], n).expect("the chunk has such a run");
        Some(self.take_in(chunk, at, n))
    }
    /// The chunk's blocks in use; `None`: it is not lent.
    fn set(&mut self, chunk: u64, used: Option<u16>) {
        let before = match used {
            Some(used) => self.lent.insert(chunk, used),
            None => self.lent.remove(&chunk),
        };
        self.open.change(chunk, before, used);
    }
    fn take_in(&mut self, chunk: u64, at: u64, n: u64) -> Run {
        let used = *self.lent.get(&chunk).expect("the chunk is lent");
        assert!(used & mask(at, n) == 0, "block {at} of chunk {chunk} is taken once");
        self.set(chunk, Some(used | mask(at, n)));
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
            let used = *self.lent.get(&chunk).expect("the chunk is lent");
            assert!(used & mask(first, part) == mask(first, part), "block {at} of lent chunks that is freed was in use");
            self.set(chunk, Some(used & !mask(first, part)));
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
                self.set(chunk, None);
                alloc.take_back(chunk);
            }
        }
        self.aside_blocks = 0;
        let (own, lent): (Vec<Run>, Vec<Run>) = std::mem::take(&mut self.aside).into_iter().partition(|run| run.0 < ON_DATA);
        self.own.clear_all(&own);
        lent.into_iter().for_each(|run| self.clear(run));
        self.idle = self.open.empty().clone();
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
                let mut blocks = Blocks::new(300, 60);
                assert!(mine.iter().flatten().all(|run| blocks.take(*run)));
                assert!(mine.iter().flatten().all(|run| !blocks.clone().take(*run)));
                assert_eq!(blocks.differs(&s.kept(60)), None);
                let mut again = Space::new(300, 2);
                again.load(&blocks);
                again.assert_counts();
                assert_eq!((again.taken(), again.kept(60).differs(&blocks)), (s.taken(), None));
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

    /// A meta device whose free blocks are crumbs is asked for each leaf: ten times the device is not ten times the steps.
    #[test]
    fn crumbs_cost_no_search() {
        const LEAVES: u64 = 100_000;
        let steps = |blocks: u64| {
            let mut alloc = Alloc::new((LEAVES / 8 + 100) * CHUNK_BLOCKS, false);
            let mut s = Space::new(blocks, 2);
            let all: Vec<Run> = (2..blocks).map(|_| s.take(1, &mut alloc, 0).expect("free")[0]).collect();
            all.iter().step_by(2).for_each(|run| s.put_aside(*run));
            s.release(&mut alloc);
            s.own.take_steps();
            let mut most = 0;
            for n in 0..LEAVES {
                assert_eq!(s.take(2, &mut alloc, u64::MAX).expect("a chunk is lent").len(), 1);
                // Now and then there is room, somewhere.
                if n % 100 == 0 {
                    s.own.clear(all[(n * 7919 % (blocks - 4) | 1) as usize].0, 1);
                }
                most = most.max(s.own.take_steps());
            }
            s.assert_counts();
            most
        };
        let (few, many) = (steps(25_000), steps(250_000));
        assert!(many < few + few / 2 && many < 1000, "{few} steps for a leaf, {many} on a device of ten times the size");
    }
}
