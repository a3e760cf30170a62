//! Which blocks of the data device are in use: 16 bits a chunk, in pages that are rows of the metadata.
//!
//! Freed blocks are not free at once: [`Alloc::free`] puts them aside until what freed them is durable and nothing is being written to them any more
//! ([`Alloc::release`]). A checkpoint stores them as free, since its own records freed them.
//!
//! Where the device is a file with holes, chunks that had data before are given first: to write into a hole is a change of the file system, which
//! costs a thread's hand-over and, when it must be durable, a commit of its journal. What had data before this start is not known.
//!
//! No search walks the device: that there is no place is known by counts ([`Gaps`]), and where there is one by trees of maxima ([`Maxima`]). To find
//! a place, to take and to free it takes steps in proportion to the logarithm of the device's size; to store pages, to their number.

use crate::open::layout::CHUNK_BLOCKS;
use crate::place::gaps::{Gaps, gap};
use crate::place::maxima::Maxima;
use crate::place::trim::Trim;
use crate::planted::{Bug, planted};
use crate::rows::codec::Corrupt;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Chunks of a page; a page is a row of 4 KiB.
const PAGE_CHUNKS: usize = 2048;
const FULL: u16 = u16::MAX;

/// Blocks that wait to be free.
#[derive(Debug, Clone, Copy)]
struct Aside {
    /// The record that freed them.
    seq: u64,
    place: u64,
    blocks: u64,
}

#[derive(Debug)]
pub struct Alloc {
    /// A chunk's blocks that are in use or aside. Chunks that the device does not have are in use.
    used: Vec<u16>,
    /// Chunks that the device has.
    chunks: usize,
    /// Chunks without any used block.
    empty: Maxima,
    /// Chunks in use by their longest runs of free blocks.
    fitting: Maxima,
    /// For a file with holes: which chunks had data and lost it.
    ripe: Option<Ripe>,
    free_blocks: u64,
    /// Blocks that data took since the start.
    taken_blocks: u64,
    empty_chunks: u64,
    /// Where the search for an empty chunk goes on.
    next: usize,
    /// The chunk that small pieces are put into, and where the search for another goes on.
    shelf: usize,
    aside: VecDeque<Aside>,
    aside_blocks: u64,
    /// Pages that changed since the last checkpoint took them.
    dirty: BTreeSet<usize>,
    /// Chunks that hold metadata. They are in use here, and free in what is stored: the index of the metadata names them.
    lent: BTreeSet<usize>,
    /// The most of them that there were: checkpoints lend and give back all the time, and only more of them are something that came.
    lent_most: usize,
    gaps: Gaps,
    /// Empty chunks that are kept for metadata.
    kept: u64,
    /// Where the device is to have room back: chunks that may go.
    trim: Option<Box<Trim>>,
    /// Empty chunks that are being discarded: in use here until that has ended, and free in what is stored.
    withheld: BTreeSet<usize>,
    /// What finds no run that is long enough is taken in pieces: all that is free is available.
    in_pieces: bool,
}

/// Chunks that were in use since the start, a bit for each, and those of them that are empty.
#[derive(Debug)]
struct Ripe {
    chunks: Vec<u64>,
    empty: Maxima,
}

impl Ripe {
    fn new(chunks: usize) -> Self {
        Self { chunks: vec![0; chunks / 64], empty: Maxima::new(chunks, |_| 0) }
    }
    /// An empty chunk has lost its data's room, too.
    fn forget(&mut self, chunk: usize, used: &[u16]) {
        self.chunks[chunk / 64] &= !(1 << (chunk % 64));
        let bits = &self.chunks;
        self.empty.changed(chunk, 1, used.len(), |chunk| u8::from(used[chunk] == 0 && Self::has(bits, chunk)));
    }
    fn has(chunks: &[u64], chunk: usize) -> bool {
        chunks[chunk / 64] & 1 << (chunk % 64) != 0
    }
}

fn mask(place: u64, blocks: u64) -> u16 {
    assert!(blocks > 0 && place % CHUNK_BLOCKS + blocks <= CHUNK_BLOCKS, "a piece lies within one chunk");
    ((((1u32 << blocks) - 1) << (place % CHUNK_BLOCKS)) & 0xffff) as u16
}

impl Alloc {
    /// For a device of so many blocks, which may have holes; its first chunk is the label's.
    pub fn new(blocks: u64, has_holes: bool) -> Self {
        let chunks = (blocks / CHUNK_BLOCKS) as usize;
        let pages = chunks.div_ceil(PAGE_CHUNKS);
        let mut used = vec![0; chunks];
        used.resize(pages * PAGE_CHUNKS, FULL);
        used[0] = FULL;
        let mut alloc = Self {
            used,
            chunks,
            empty: Maxima::default(),
            fitting: Maxima::default(),
            ripe: has_holes.then(|| Ripe::new(pages * PAGE_CHUNKS)),
            free_blocks: 0,
            taken_blocks: 0,
            empty_chunks: 0,
            next: 0,
            shelf: 0,
            aside: VecDeque::new(),
            aside_blocks: 0,
            dirty: BTreeSet::new(),
            lent: BTreeSet::new(),
            lent_most: 0,
            gaps: Gaps::default(),
            kept: 0,
            trim: None,
            withheld: BTreeSet::new(),
            in_pieces: false,
        };
        alloc.count();
        alloc
    }
    fn count(&mut self) {
        self.free_blocks = 0;
        let mut gaps = Gaps::new(self.chunks as u64 * CHUNK_BLOCKS);
        self.empty_chunks = 0;
        for used in &self.used[..self.chunks] {
            // Most are either: to count bits takes longer.
            self.free_blocks += match *used {
                0 => CHUNK_BLOCKS,
                FULL => 0,
                some => u64::from(some.count_zeros()),
            };
            gaps.load(*used);
            self.empty_chunks += u64::from(*used == 0);
        }
        self.gaps = gaps;
        self.ripe = self.ripe.take().map(|_| Ripe::new(self.used.len()));
        self.plant();
    }
    /// The trees, from the chunks.
    fn plant(&mut self) {
        self.empty = Maxima::new(self.used.len(), |chunk| u8::from(self.used[chunk] == 0));
        self.fitting = Maxima::new(self.used.len(), |chunk| gap(self.used[chunk]) as u8);
        if let Some(ripe) = &mut self.ripe {
            let (used, bits) = (&self.used, &ripe.chunks);
            ripe.empty = Maxima::new(used.len(), |chunk| u8::from(used[chunk] == 0 && Ripe::has(bits, chunk)));
        }
    }
    #[cfg(test)]
    pub fn assert_counts(&self) {
        let chunks = &self.used[..self.chunks];
        assert_eq!(self.free_blocks, chunks.iter().map(|used| u64::from(used.count_zeros())).sum::<u64>());
        assert_eq!(self.empty_chunks, chunks.iter().filter(|used| **used == 0).count() as u64);
        // Of small devices only: it is asked at each record.
        if self.chunks <= 2 * PAGE_CHUNKS {
            let of_empty = Maxima::new(self.used.len(), |chunk| u8::from(self.used[chunk] == 0));
            assert!(self.empty.is_same(&of_empty), "empty chunks are found");
            assert!(self.fitting.is_same(&Maxima::new(self.used.len(), |chunk| gap(self.used[chunk]) as u8)), "gaps are found");
        }
        assert_eq!(self.aside_blocks, self.aside.iter().map(|a| a.blocks).sum::<u64>());
        assert!(self.aside.iter().all(|a| self.is_used(a.place, a.blocks)), "what is aside is not free yet");
        assert!(self.lent.iter().all(|chunk| self.used[*chunk] == FULL), "what is lent is in use");
        assert!(self.withheld.iter().all(|chunk| self.used[*chunk] == FULL && !self.lent.contains(chunk)), "what is discarded is no one's");
    }
    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        let ripe = self.ripe.as_ref().map_or(0, |r| r.chunks.len() * 8 + r.empty.memory());
        let trim = self.trim.as_ref().map_or(0, |trim| trim.memory());
        self.used.len() * 2 + self.empty.memory() + self.fitting.memory() + ripe + trim + self.aside.capacity() * size_of::<Aside>()
    }
    /// Blocks that can be allocated now, if what needs them is small enough.
    #[cfg(test)]
    pub fn free_blocks(&self) -> u64 {
        self.free_blocks
    }
    /// Free blocks that are available to what comes.
    pub fn available_blocks(&self) -> u64 {
        if planted(Bug::CountGaps) {
            return self.free_blocks;
        }
        if self.in_pieces {
            return self.free_blocks;
        }
        self.empty_chunks * CHUNK_BLOCKS + self.gaps.available()
    }
    /// Free blocks of chunks that are in use.
    pub fn gap_blocks(&self) -> u64 {
        self.free_blocks - self.empty_chunks * CHUNK_BLOCKS
    }
    /// From here on, data are taken in pieces where no run is long enough.
    pub fn take_in_pieces(&mut self) {
        self.in_pieces = true;
    }

    /// Chunks without a block in use: as many pieces of any size can be allocated for certain.
    pub fn empty_chunks(&self) -> u64 {
        self.empty_chunks
    }

    /// Chunks in use that have `blocks` free blocks in a row: each takes a piece of that size.
    pub fn gaps(&self, blocks: u64) -> u64 {
        self.gaps.chunks_for(blocks)
    }

    /// Takes an empty chunk for metadata.
    pub fn lend(&mut self) -> Option<u64> {
        let chunk = self.find_empty()?;
        self.set(chunk, FULL);
        self.lent.insert(chunk);
        if self.lent.len() > self.lent_most {
            self.lent_most = self.lent.len();
            self.gaps.came(CHUNK_BLOCKS);
        }
        Some(chunk as u64)
    }
    /// The same for a chunk that metadata have already; false if data have it.
    pub fn lend_this(&mut self, chunk: u64) -> bool {
        let chunk = chunk as usize;
        let is_free = self.used.get(chunk) == Some(&0);
        if is_free {
            self.set(chunk, FULL);
            self.lent.insert(chunk);
            self.lent_most = self.lent_most.max(self.lent.len());
        }
        is_free
    }
    /// A chunk that was lent is free.
    pub fn take_back(&mut self, chunk: u64) {
        assert!(self.lent.remove(&(chunk as usize)), "chunk {chunk} was lent");
        self.set(chunk as usize, 0);
    }
    /// Chunks that are lent.
    pub fn lent_chunks(&self) -> u64 {
        self.lent.len() as u64
    }
    /// Chunks of the device.
    pub fn chunks(&self) -> u64 {
        self.chunks as u64
    }
    /// Pages that are stored.
    pub fn pages(&self) -> u64 {
        (self.used.len() / PAGE_CHUNKS) as u64
    }
    /// The device has become larger.
    pub fn grow(&mut self, blocks: u64) {
        let (before, chunks) = (self.chunks, (blocks / CHUNK_BLOCKS) as usize);
        assert!(chunks >= before, "devices don't shrink");
        let pages = chunks.div_ceil(PAGE_CHUNKS);
        self.used.resize(pages * PAGE_CHUNKS, FULL);
        if let Some(ripe) = &mut self.ripe {
            ripe.chunks.resize(pages * PAGE_CHUNKS / 64, 0);
        }
        self.chunks = chunks;
        for chunk in before..chunks {
            self.used[chunk] = 0;
            self.free_blocks += CHUNK_BLOCKS;
            self.empty_chunks += 1;
            self.dirty.insert(chunk / PAGE_CHUNKS);
        }
        self.plant();
    }

    fn set(&mut self, chunk: usize, to: u16) {
        let from = self.used[chunk];
        self.count_as(chunk, to);
        if to == 0
            && from != 0
            && let Some(trim) = &mut self.trim
        {
            trim.emptied(chunk as u64);
        }
        self.dirty.insert(chunk / PAGE_CHUNKS);
    }
    /// The chunk's blocks in use are others now; not what is stored of it.
    fn count_as(&mut self, chunk: usize, to: u16) {
        let from = std::mem::replace(&mut self.used[chunk], to);
        self.free_blocks = self.free_blocks + u64::from(from.count_ones()) - u64::from(to.count_ones());
        let (was, is) = self.gaps.change(from, to);
        if was != is {
            self.fitting.changed(chunk, was as u8, self.used.len(), |chunk| gap(self.used[chunk]) as u8);
        }
        let (was, is) = (from == 0, to == 0);
        if was != is {
            self.empty_chunks = self.empty_chunks + u64::from(is) - u64::from(was);
            self.empty.changed(chunk, u8::from(was), self.used.len(), |chunk| u8::from(self.used[chunk] == 0));
            if let Some(ripe) = &mut self.ripe {
                let was = u8::from(was && Ripe::has(&ripe.chunks, chunk));
                // It has had data.
                ripe.chunks[chunk / 64] |= u64::from(is) << (chunk % 64);
                let (used, bits) = (&self.used, &ripe.chunks);
                ripe.empty.changed(chunk, was, used.len(), |chunk| u8::from(used[chunk] == 0 && Ripe::has(bits, chunk)));
            }
        }
    }

    /// From here on, chunks are noted that the device may have back; or none is, and those are forgotten that were.
    pub fn note_emptied(&mut self, on: bool) {
        if on != self.trim.is_some() {
            self.trim = on.then(Box::default);
        }
    }
    /// The chunks that may go, if they are noted.
    pub fn trim(&mut self) -> Option<&mut Trim> {
        self.trim.as_deref_mut()
    }
    /// All empty chunks may go: for a tool that has seen to it that nothing stored names them.
    pub fn all_ready(&mut self) {
        let trim = self.trim.get_or_insert_default();
        (0..self.chunks).filter(|chunk| self.used[*chunk] == 0).for_each(|chunk| trim.put_ready(chunk as u64));
    }
    /// Takes a run of chunks to be discarded: no other has them until [`Alloc::discarded`].
    pub fn withhold(&mut self, min: u64, max: u64) -> Option<Range<u64>> {
        let (used, aside) = (&self.used, &self.aside);
        let is_early = |chunk: u64| {
            let of_chunk = aside.iter().filter(|a| a.place / CHUNK_BLOCKS == chunk);
            planted(Bug::DiscardFreedEarly) && of_chunk.fold(used[chunk as usize], |used, a| used & !mask(a.place, a.blocks)) == 0
        };
        let run = self.trim.as_mut()?.take_run(min, max, |chunk| used[chunk as usize] == 0 || is_early(chunk))?;
        for chunk in run.clone().filter(|_| !planted(Bug::GiveWhileDiscarding)) {
            if self.used[chunk as usize] == 0 {
                self.count_as(chunk as usize, FULL);
                self.withheld.insert(chunk as usize);
            }
        }
        Some(run)
    }
    /// The run is free again. The next write to it is one into a hole, where there are holes.
    pub fn discarded(&mut self, run: Range<u64>) {
        for chunk in run.map(|chunk| chunk as usize) {
            if self.withheld.remove(&chunk) {
                self.count_as(chunk, 0);
                if let Some(ripe) = &mut self.ripe {
                    ripe.forget(chunk, &self.used);
                }
            }
        }
    }
    /// Chunks that are being discarded.
    pub fn withheld(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.withheld.iter().map(|chunk| *chunk as u64)
    }

    /// The next empty chunk, from where the last one was found; neighbours follow each other where there are any.
    fn find_empty(&mut self) -> Option<usize> {
        if self.empty_chunks == 0 {
            return None;
        }
        let used = &self.used;
        let ripe = self.ripe.as_ref().and_then(|ripe| {
            let is_one = |chunk: usize| u8::from(used[chunk] == 0 && Ripe::has(&ripe.chunks, chunk));
            ripe.empty.find(self.next, 1, used.len(), is_one)
        });
        let found = ripe.or_else(|| self.empty.find(self.next, 1, used.len(), |chunk| u8::from(used[chunk] == 0)));
        let at = found.expect("there is an empty chunk");
        self.next = at + 1;
        Some(at)
    }
    /// The next gap for so many blocks, from the chunk on that small pieces are put into.
    fn find_gap(&self, blocks: u64) -> Option<usize> {
        // That there is none is known before anything is looked at.
        if self.gaps.chunks_for(blocks) == 0 {
            return None;
        }
        let found = self.fitting.find(self.shelf, blocks as u8, self.used.len(), |chunk| gap(self.used[chunk]) as u8);
        Some(found.expect("there is such a gap"))
    }

    /// So many empty chunks are kept for metadata: data don't take them where there are gaps.
    pub fn keep(&mut self, chunks: u64) {
        self.kept = chunks;
    }
    /// True if few chunks are empty: pieces go into gaps of others first.
    pub fn is_scarce(&self) -> bool {
        self.empty_chunks.saturating_sub(self.kept_with_gaps()) <= self.used.len() as u64 / 16
    }
    /// Empty chunks that are kept for metadata, with those of what will fill gaps.
    fn kept_with_gaps(&self) -> u64 {
        const ROWS_SHARE: u64 = 8;
        self.kept + if self.in_pieces { self.gap_blocks() / CHUNK_BLOCKS / ROWS_SHARE } else { 0 }
    }

    /// A place for so many blocks, at most a chunk; `None` if there is none.
    pub fn find(&mut self, blocks: u64) -> Option<u64> {
        if blocks == CHUNK_BLOCKS {
            return Some(self.find_empty_for(blocks)? as u64 * CHUNK_BLOCKS);
        }
        // Pieces that come together lie together: the shelf is filled from the front.
        let shelf = self.used[self.shelf];
        let behind = 16 - u64::from(shelf.leading_zeros());
        if shelf != 0 && behind + blocks <= CHUNK_BLOCKS {
            return Some(self.shelf as u64 * CHUNK_BLOCKS + behind);
        }
        // Gaps in chunks that are in use are looked for when empty ones get scarce.
        if !self.is_scarce()
            && let Some(chunk) = self.find_empty()
        {
            self.shelf = chunk;
            return Some(chunk as u64 * CHUNK_BLOCKS);
        }
        if let Some(place) = self.place_in_gap(blocks) {
            return Some(place);
        }
        let chunk = self.find_empty_for(blocks)?;
        self.shelf = chunk;
        Some(chunk as u64 * CHUNK_BLOCKS)
    }
    /// An empty chunk, but for those that are kept if gaps have room for so many blocks, in pieces.
    fn find_empty_for(&mut self, blocks: u64) -> Option<usize> {
        if self.in_pieces && self.empty_chunks <= self.kept_with_gaps() && self.gap_blocks() >= blocks {
            return None;
        }
        self.find_empty()
    }
    /// The longest run of fewer blocks that there is, of those in chunks that are in use.
    pub fn find_less(&mut self, blocks: u64) -> Option<(u64, u64)> {
        let blocks = (1..blocks).rev().find(|blocks| self.gaps.chunks_for(*blocks) > 0)?;
        Some((self.place_in_gap(blocks)?, blocks))
    }
    /// A place in the next gap for so many blocks, whose chunk is the shelf then.
    fn place_in_gap(&mut self, blocks: u64) -> Option<u64> {
        let chunk = self.find_gap(blocks)?;
        self.shelf = chunk;
        let at = (0..=CHUNK_BLOCKS - blocks).find(|at| self.used[chunk] & mask(*at, blocks) == 0).expect("the gap is large enough");
        Some(chunk as u64 * CHUNK_BLOCKS + at)
    }
    /// True if a write to the place may be one into a hole.
    pub fn may_be_hole(&self, place: u64) -> bool {
        self.ripe.as_ref().is_some_and(|ripe| !Ripe::has(&ripe.chunks, (place / CHUNK_BLOCKS) as usize))
    }
    /// True if all blocks of the piece exist and are free.
    pub fn is_free(&self, place: u64, blocks: u64) -> bool {
        self.used.get((place / CHUNK_BLOCKS) as usize).is_some_and(|used| used & mask(place, blocks) == 0)
    }
    /// True if all blocks of the piece exist and are in use.
    pub fn is_used(&self, place: u64, blocks: u64) -> bool {
        let m = mask(place, blocks);
        self.used.get((place / CHUNK_BLOCKS) as usize).is_some_and(|used| used & m == m)
    }
    /// Takes a piece that is free.
    pub fn take(&mut self, place: u64, blocks: u64) {
        assert!(self.is_free(place, blocks), "blocks {place}+{blocks} are taken once");
        let chunk = (place / CHUNK_BLOCKS) as usize;
        self.set(chunk, self.used[chunk] | mask(place, blocks));
        self.taken_blocks += blocks;
        self.gaps.came(blocks);
    }
    /// Blocks that data took since the start.
    pub fn taken_blocks(&self) -> u64 {
        self.taken_blocks
    }
    /// Puts a piece aside that the record `seq` freed.
    pub fn free(&mut self, seq: u64, place: u64, blocks: u64) {
        assert!(self.is_used(place, blocks), "blocks {place}+{blocks} that are freed were in use");
        self.aside.push_back(Aside { seq, place, blocks });
        self.gaps.came(blocks);
        self.aside_blocks += blocks;
        if planted(Bug::DiscardFreedEarly)
            && let Some(trim) = &mut self.trim
        {
            trim.put_ready(place / CHUNK_BLOCKS);
        }
        self.dirty.insert(place as usize / CHUNK_BLOCKS as usize / PAGE_CHUNKS);
    }
    /// Makes free what records up to `durable` freed, but what is `busy` (someone still writes to it).
    pub fn release(&mut self, durable: u64, busy: impl Fn(u64, u64) -> bool) {
        let mut later = Vec::new();
        while let Some(piece) = self.aside.front().copied().filter(|p| p.seq <= durable) {
            self.aside.pop_front();
            if busy(piece.place, piece.blocks) {
                later.push(piece);
                continue;
            }
            self.aside_blocks -= piece.blocks;
            let chunk = (piece.place / CHUNK_BLOCKS) as usize;
            self.set(chunk, self.used[chunk] & !mask(piece.place, piece.blocks));
        }
        later.into_iter().rev().for_each(|p| self.aside.push_front(p));
    }

    /// The pages that changed since they were asked for last, as they are when what is aside is free.
    pub fn take_dirty(&mut self) -> Vec<(u64, Vec<u8>)> {
        let mut aside: BTreeMap<usize, u16> = BTreeMap::new();
        let stored = self.aside.len() - usize::from(!self.aside.is_empty() && planted(Bug::LeakLastAside));
        for piece in self.aside.iter().take(stored).filter(|_| !planted(Bug::LeakAside)) {
            *aside.entry((piece.place / CHUNK_BLOCKS) as usize).or_default() |= mask(piece.place, piece.blocks);
        }
        let pages = std::mem::take(&mut self.dirty);
        let page = |page: usize| {
            let first = page * PAGE_CHUNKS;
            let mut chunks = self.used[first..first + PAGE_CHUNKS].to_vec();
            // What is lent or aside is free in what is stored: seldom more than some chunks of a page.
            aside.range(first..first + PAGE_CHUNKS).for_each(|(chunk, free)| chunks[chunk - first] &= !free);
            if !planted(Bug::StoreLent) {
                self.lent.range(first..first + PAGE_CHUNKS).for_each(|chunk| chunks[chunk - first] = 0);
            }
            self.withheld.range(first..first + PAGE_CHUNKS).for_each(|chunk| chunks[chunk - first] = 0);
            // All pages of a large device may have changed, and this is one step: it is to be as fast as memory is.
            let mut bytes = vec![0; 2 * PAGE_CHUNKS];
            bytes.chunks_exact_mut(2).zip(&chunks).for_each(|(to, used)| to.copy_from_slice(&used.to_le_bytes()));
            (page as u64, bytes)
        };
        pages.into_iter().map(page).collect()
    }
    /// Puts in a page as it was stored. [`Alloc::loaded`] comes after all.
    pub fn load(&mut self, page: u64, bytes: &[u8]) -> Result<(), Corrupt> {
        let first = usize::try_from(page).ok().and_then(|p| p.checked_mul(PAGE_CHUNKS)).filter(|f| *f < self.used.len());
        let (Some(first), true) = (first, bytes.len() == PAGE_CHUNKS * 2) else {
            return Err(Corrupt("a page of the allocator is not of this device"));
        };
        // What the device does not have stays in use.
        let end = self.chunks.min(first + PAGE_CHUNKS);
        for (to, b) in self.used[first..end.max(first)].iter_mut().zip(bytes.chunks_exact(2)) {
            *to = u16::from_le_bytes([b[0], b[1]]);
        }
        self.used[0] = FULL;
        Ok(())
    }
    pub fn loaded(&mut self) {
        self.count();
        self.dirty.clear();
    }
    /// Pieces that will be free when what freed them is durable, for tools.
    pub fn aside(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.aside.iter().map(|a| (a.place, a.blocks))
    }
    /// Sets all chunks as a repair has found them; nothing is aside then. Returns how many chunks change.
    pub fn set_all(&mut self, used: &[u16]) -> usize {
        self.aside.clear();
        self.aside_blocks = 0;
        let wrong: Vec<usize> = (0..self.used.len()).filter(|c| self.used[*c] != used[*c]).collect();
        wrong.iter().for_each(|c| self.set(*c, used[*c]));
        wrong.len()
    }
    /// The blocks of each chunk that are in use or aside, for tools.
    pub fn used_map(&self) -> &[u16] {
        &self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grab(a: &mut Alloc, blocks: u64) -> Option<u64> {
        let place = a.find(blocks)?;
        a.take(place, blocks);
        Some(place)
    }

    #[test]
    fn everything_is_given_once_and_comes_back_when_it_may() {
        let mut a = Alloc::new(100 * CHUNK_BLOCKS, false);
        let mut pieces = Vec::new();
        for n in (1..=16).cycle() {
            match grab(&mut a, n) {
                Some(place) => pieces.push((place, n)),
                None => break,
            }
        }
        while let Some(place) = grab(&mut a, 1) {
            pieces.push((place, 1));
        }
        assert_eq!((a.free_blocks(), a.empty_chunks), (0, 0));
        assert_eq!(pieces.iter().map(|p| p.1).sum::<u64>(), 99 * CHUNK_BLOCKS);
        for (i, (place, n)) in pieces.iter().enumerate() {
            a.free(i as u64, *place, *n);
        }
        assert_eq!(a.find(1), None);
        // A checkpoint has them as free.
        let pages = a.take_dirty();
        let mut b = Alloc::new(100 * CHUNK_BLOCKS, false);
        pages.iter().for_each(|(n, page)| b.load(*n, page).unwrap());
        b.loaded();
        assert_eq!(b.free_blocks(), 99 * CHUNK_BLOCKS);
        let last = pieces.len() as u64;
        a.release(last, |place, _| place == pieces[0].0);
        assert_eq!(a.free_blocks(), 99 * CHUNK_BLOCKS - 1);
        a.release(last, |_, _| false);
        assert_eq!((a.free_blocks(), a.aside_blocks), (99 * CHUNK_BLOCKS, 0));
    }

    #[test]
    fn small_pieces_lie_one_behind_the_other() {
        let mut a = Alloc::new(1000 * CHUNK_BLOCKS, false);
        let first = grab(&mut a, 1).unwrap();
        for i in 1..64 {
            assert_eq!(grab(&mut a, 1), Some(first + i));
        }
    }

    #[test]
    fn in_a_file_with_holes_what_had_data_is_given_first() {
        let mut a = Alloc::new(5000 * CHUNK_BLOCKS, true);
        let places: Vec<u64> = (0..40).map(|_| grab(&mut a, CHUNK_BLOCKS).unwrap()).collect();
        assert!(places.iter().all(|p| a.may_be_hole(*p)));
        for (i, place) in places.iter().enumerate().filter(|(i, _)| i % 3 == 0) {
            a.free(i as u64, *place, CHUNK_BLOCKS);
        }
        a.release(100, |_, _| false);
        let mut again: Vec<u64> = (0..14).map(|_| grab(&mut a, CHUNK_BLOCKS).unwrap()).collect();
        again.sort_unstable();
        assert_eq!(again, places.iter().copied().step_by(3).collect::<Vec<_>>());
        assert!(again.iter().all(|p| !a.may_be_hole(*p)));
        // None is left, and the rest of the device is there as ever.
        let mut rest = 0;
        while let Some(place) = grab(&mut a, CHUNK_BLOCKS) {
            assert!(a.may_be_hole(place));
            rest += 1;
        }
        assert_eq!(rest, 4999 - 40);
    }

    /// A device whose gaps are all too small but one, or but none: ten times the device is not ten times the steps.
    #[test]
    fn no_search_walks_the_device() {
        let steps = |chunks: u64, has_holes: bool| {
            let mut a = Alloc::new(chunks * CHUNK_BLOCKS, has_holes);
            let take_steps =
                |a: &Alloc| a.fitting.take_steps() + a.empty.take_steps() + a.ripe.as_ref().map_or(0, |r| r.empty.take_steps());
            for chunk in 1..chunks {
                a.take(chunk * CHUNK_BLOCKS, 9);
            }
            let (mut most, mut rng) = (0, base::Rng::new(2));
            let mut count = |a: &Alloc| most = most.max(take_steps(a));
            take_steps(&a);
            assert_eq!((a.find(9), take_steps(&a)), (None, 0), "that there is none is known");
            for seq in 0..2000 {
                // A place somewhere, in a gap or in an empty chunk, is found whatever the search was for last.
                let chunk = 1 + rng.below(chunks - 1);
                let (place, is_empty) = (chunk * CHUNK_BLOCKS, rng.chance(1, 2));
                a.free(seq, place, 9);
                if !is_empty {
                    a.take(place + 14, 2);
                }
                a.release(seq, |_, _| false);
                take_steps(&a);
                let found = a.find(9).expect("there is one");
                count(&a);
                assert_eq!(found, place);
                a.take(found, 9);
                count(&a);
                if !is_empty {
                    a.free(seq, place + 14, 2);
                    a.release(seq, |_, _| false);
                }
                assert_eq!(a.find(9), None);
            }
            a.assert_counts();
            most
        };
        for has_holes in [false, true] {
            let (few, many) = (steps(10_000, has_holes), steps(100_000, has_holes));
            assert!(many <= few + few / 2 && many < 300, "{few} steps for a piece, {many} on ten times the device");
        }
    }
}
