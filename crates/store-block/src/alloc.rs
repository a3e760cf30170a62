//! Which blocks of the data device are in use: 16 bits a chunk, in pages that are rows of the metadata.
//!
//! Freed blocks are not free at once: [`Alloc::free`] puts them aside until what freed them is durable and nothing is being written to them any more
//! ([`Alloc::release`]). A checkpoint stores them as free, since its own records freed them.
//!
//! Where the device is a file with holes, chunks that had data before are given first: to write into a hole is a change of the file system, which
//! costs a thread's hand-over and, when it must be durable, a commit of its journal. What had data before this start is not known.

use crate::codec::Corrupt;
use crate::gaps::Gaps;
use crate::layout::CHUNK_BLOCKS;
use crate::planted::{Bug, planted};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
    /// Chunks without any used block, by page.
    empty: Vec<u16>,
    /// For a file with holes: which chunks had data and lost it, a bit for each, and how many of them are empty, by page.
    ripe: Option<Ripe>,
    free_blocks: u64,
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
}

/// Chunks that were in use since the start, and by page how many of them are empty.
#[derive(Debug)]
struct Ripe {
    chunks: Vec<u64>,
    empty: Vec<u16>,
    all: u64,
}

impl Ripe {
    fn has(&self, chunk: usize) -> bool {
        self.chunks[chunk / 64] & 1 << (chunk % 64) != 0
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
            empty: vec![0; pages],
            ripe: has_holes.then(|| Ripe { chunks: vec![0; pages * PAGE_CHUNKS / 64], empty: vec![0; pages], all: 0 }),
            free_blocks: 0,
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
        };
        alloc.count();
        alloc
    }
    fn count(&mut self) {
        self.free_blocks = 0;
        let mut gaps = Gaps::new(self.chunks as u64 * CHUNK_BLOCKS);
        for (page, chunks) in self.used[..self.chunks].chunks(PAGE_CHUNKS).enumerate() {
            let mut empty = 0;
            for used in chunks {
                // Most are either: to count bits takes longer.
                self.free_blocks += match *used {
                    0 => CHUNK_BLOCKS,
                    FULL => 0,
                    some => u64::from(some.count_zeros()),
                };
                gaps.load(*used);
                empty += u16::from(*used == 0);
            }
            self.empty[page] = empty;
        }
        self.gaps = gaps;
        self.empty_chunks = self.empty.iter().map(|n| u64::from(*n)).sum();
        if let Some(ripe) = &mut self.ripe {
            ripe.chunks.fill(0);
            ripe.empty.fill(0);
            ripe.all = 0;
        }
    }
    #[cfg(test)]
    pub fn assert_counts(&self) {
        let chunks = &self.used[..self.chunks];
        assert_eq!(self.free_blocks, chunks.iter().map(|used| u64::from(used.count_zeros())).sum::<u64>());
        assert_eq!(self.empty_chunks, chunks.iter().filter(|used| **used == 0).count() as u64);
        for (page, empty) in self.empty.iter().enumerate() {
            let from = page * PAGE_CHUNKS;
            let chunks = &self.used[from..self.chunks.min(from + PAGE_CHUNKS)];
            assert_eq!(usize::from(*empty), chunks.iter().filter(|used| **used == 0).count(), "page {page}");
        }
        assert_eq!(self.aside_blocks, self.aside.iter().map(|a| a.blocks).sum::<u64>());
        assert!(self.aside.iter().all(|a| self.is_used(a.place, a.blocks)), "what is aside is not free yet");
        assert!(self.lent.iter().all(|chunk| self.used[*chunk] == FULL), "what is lent is in use");
    }
    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        let ripe = self.ripe.as_ref().map_or(0, |r| r.chunks.len() * 8 + r.empty.len() * 2);
        self.used.len() * 2 + self.empty.len() * 2 + ripe + self.aside.capacity() * size_of::<Aside>()
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
        self.empty_chunks * CHUNK_BLOCKS + self.gaps.available()
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
        self.empty.len() as u64
    }
    /// The device has become larger.
    pub fn grow(&mut self, blocks: u64) {
        let (before, chunks) = (self.chunks, (blocks / CHUNK_BLOCKS) as usize);
        assert!(chunks >= before, "devices don't shrink");
        let pages = chunks.div_ceil(PAGE_CHUNKS);
        self.used.resize(pages * PAGE_CHUNKS, FULL);
        self.empty.resize(pages, 0);
        if let Some(ripe) = &mut self.ripe {
            ripe.chunks.resize(pages * PAGE_CHUNKS / 64, 0);
            ripe.empty.resize(pages, 0);
        }
        self.chunks = chunks;
        for chunk in before..chunks {
            self.used[chunk] = 0;
            self.free_blocks += CHUNK_BLOCKS;
            self.empty[chunk / PAGE_CHUNKS] += 1;
            self.empty_chunks += 1;
            self.dirty.insert(chunk / PAGE_CHUNKS);
        }
    }

    fn set(&mut self, chunk: usize, to: u16) {
        let from = std::mem::replace(&mut self.used[chunk], to);
        let page = chunk / PAGE_CHUNKS;
        self.free_blocks = self.free_blocks + u64::from(from.count_ones()) - u64::from(to.count_ones());
        self.gaps.remove(from);
        self.gaps.add(to);
        match (from == 0, to == 0) {
            (true, false) => {
                self.empty[page] -= 1;
                self.empty_chunks -= 1;
                if let Some(ripe) = self.ripe.as_mut().filter(|r| r.has(chunk)) {
                    (ripe.empty[page], ripe.all) = (ripe.empty[page] - 1, ripe.all - 1);
                }
            }
            (false, true) => {
                self.empty[page] += 1;
                self.empty_chunks += 1;
                if let Some(ripe) = &mut self.ripe {
                    ripe.chunks[chunk / 64] |= 1 << (chunk % 64);
                    (ripe.empty[page], ripe.all) = (ripe.empty[page] + 1, ripe.all + 1);
                }
            }
            _ => {}
        }
        self.dirty.insert(page);
    }

    /// The next empty chunk, from where the last one was found; neighbours follow each other where there are any.
    fn find_empty(&mut self) -> Option<usize> {
        if self.empty_chunks == 0 {
            return None;
        }
        let mut at = self.next;
        let ripe = self.ripe.as_ref().filter(|ripe| ripe.all > 0);
        let empty = ripe.map_or(&self.empty, |ripe| &ripe.empty);
        loop {
            if at >= self.used.len() {
                at = 0;
            }
            if empty[at / PAGE_CHUNKS] == 0 {
                at = (at / PAGE_CHUNKS + 1) * PAGE_CHUNKS;
                continue;
            }
            if self.used[at] == 0 && ripe.is_none_or(|ripe| ripe.has(at)) {
                self.next = at + 1;
                return Some(at);
            }
            at += 1;
        }
    }

    /// So many empty chunks are kept for metadata: data don't take them where there are gaps.
    pub fn keep(&mut self, chunks: u64) {
        self.kept = chunks;
    }
    /// True if few chunks are empty: pieces go into gaps of others first.
    pub fn is_scarce(&self) -> bool {
        self.empty_chunks.saturating_sub(self.kept) <= self.used.len() as u64 / 16
    }

    /// A place for so many blocks, at most a chunk; `None` if there is none.
    pub fn find(&mut self, blocks: u64) -> Option<u64> {
        if blocks == CHUNK_BLOCKS {
            return Some(self.find_empty()? as u64 * CHUNK_BLOCKS);
        }
        let fits = |used: u16| (0..=CHUNK_BLOCKS - blocks).find(|at| used & mask(*at, blocks) == 0);
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
        let n = self.used.len();
        let gap =
            (0..n).map(|i| (self.shelf + i) % n).find_map(|c| (self.used[c] != 0).then(|| fits(self.used[c])).flatten().map(|at| (c, at)));
        if let Some((chunk, at)) = gap {
            self.shelf = chunk;
            return Some(chunk as u64 * CHUNK_BLOCKS + at);
        }
        let chunk = self.find_empty()?;
        self.shelf = chunk;
        Some(chunk as u64 * CHUNK_BLOCKS)
    }
    /// True if a write to the place may be one into a hole.
    pub fn may_be_hole(&self, place: u64) -> bool {
        self.ripe.as_ref().is_some_and(|ripe| !ripe.has((place / CHUNK_BLOCKS) as usize))
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
        self.gaps.came(blocks);
    }
    /// Puts a piece aside that the record `seq` freed.
    pub fn free(&mut self, seq: u64, place: u64, blocks: u64) {
        assert!(self.is_used(place, blocks), "blocks {place}+{blocks} that are freed were in use");
        self.aside.push_back(Aside { seq, place, blocks });
        self.gaps.came(blocks);
        self.aside_blocks += blocks;
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
        for piece in self.aside.iter().filter(|_| !planted(Bug::LeakAside)) {
            *aside.entry((piece.place / CHUNK_BLOCKS) as usize).or_default() |= mask(piece.place, piece.blocks);
        }
        let pages = std::mem::take(&mut self.dirty);
        let page = |page: usize| {
            let mut out = Vec::with_capacity(PAGE_CHUNKS * 2);
            for chunk in page * PAGE_CHUNKS..(page + 1) * PAGE_CHUNKS {
                let free =
                    if self.lent.contains(&chunk) && !planted(Bug::StoreLent) { FULL } else { aside.get(&chunk).copied().unwrap_or(0) };
                let used = self.used[chunk] & !free;
                out.extend_from_slice(&used.to_le_bytes());
            }
            (page as u64, out)
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
}
