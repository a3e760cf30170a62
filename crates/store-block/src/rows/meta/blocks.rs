//! Blocks that leaves have, as a checkpoint stores them with its index: a start takes them from there, and looks at no leaf for them.
//!
//! ```text
//!   behind a whole index    | words of the meta device: how many | empty, full, others: how many of each, bits u64 … | …
//!                           | lent chunks: how many | distance from the one in front, bits u16 | …
//!   with each change of it  | the blocks of the leaf that came, or of that which went      (`parts`)
//! ```
//! They lie in the index's own parts, and have no pages, places or checksums of their own: so the free space of one checkpoint never stands
//! beside the leaves of another, whatever a crash leaves and a device gives back. The index's pieces are not among them: where those are,
//! the superblock says. Nor is what the checkpoint replaced: it is free once the checkpoint counts.
//!
//! The words are a few bytes for each 256 KiB of metadata, a hundredth of the index. To store and to read them takes a step for each word
//! of the device and each lent chunk, a change one for each of its runs: **none for each leaf**. To take blocks from the leaves themselves,
//! which a store before version 11 needs, and a check and a repair do, takes one for each.

use super::index::Index;
use super::own::bits;
use super::space::{Run, mask};
use crate::open::layout::{CHUNK_BLOCKS, META_FIRST, ON_DATA};
use crate::planted::{Bug, planted};
use crate::rows::codec::{Corrupt, Get, Put};
use crate::rows::counter::Steps;
use std::collections::BTreeMap;

const WORD: u64 = 64;

/// Some blocks of the meta device and of chunks that may be lent.
#[derive(Debug, Clone)]
pub struct Blocks {
    /// A bit for each block of the meta device; those of superblocks are never set.
    own: Vec<u64>,
    own_blocks: u64,
    /// Bits of the blocks of a chunk; there is one at least.
    lent: BTreeMap<u64, u16>,
    chunks: u64,
    steps: Steps,
}

const WRONG: Corrupt = Corrupt("the blocks that leaves have are not on these devices");

impl Blocks {
    /// None, of devices with so many blocks and chunks.
    pub fn new(own_blocks: u64, chunks: u64) -> Self {
        let own = vec![0; own_blocks.div_ceil(WORD) as usize];
        Self { own, own_blocks, lent: BTreeMap::new(), chunks, steps: Steps::default() }
    }
    /// Those whose bits are set in these words and chunks.
    pub fn of(own: &[u64], own_blocks: u64, lent: &BTreeMap<u64, u16>, chunks: u64) -> Self {
        let mut blocks = Self::new(own_blocks, chunks);
        let words = blocks.own.len();
        blocks.own.copy_from_slice(&own[..words]);
        blocks.own[0] &= !bits(0, META_FIRST);
        if let Some(last) = blocks.own.last_mut().filter(|_| own_blocks % WORD != 0) {
            *last &= bits(0, own_blocks % WORD);
        }
        blocks.lent = lent.iter().filter(|(_, used)| **used != 0).map(|(chunk, used)| (*chunk, *used)).collect();
        blocks
    }
    /// Those that the leaves of an index have; or the first block that is not there, or that two of them have.
    pub fn of_leaves(mut self, index: &Index) -> Result<Self, u64> {
        for (_, leaf) in index.iter() {
            for run in leaf.runs() {
                self.take(run).then_some(()).ok_or(run.0)?;
            }
        }
        Ok(self)
    }
    /// Words of bits of the meta device.
    pub fn own(&self) -> &[u64] {
        &self.own
    }
    /// Chunks with some of the blocks, and the bits of those.
    pub fn lent(&self) -> &BTreeMap<u64, u16> {
        &self.lent
    }
    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// Puts blocks in; false if they are not there, or in already.
    pub fn take(&mut self, run: Run) -> bool {
        self.change(run, true)
    }
    /// Takes blocks out; false if they are not in.
    pub fn free(&mut self, run: Run) -> bool {
        self.change(run, false)
    }
    fn change(&mut self, (block, n): Run, takes: bool) -> bool {
        self.steps.add(1);
        let Some(end) = block.checked_add(n) else { return false };
        if block < ON_DATA { self.change_own(block, end, takes) } else { self.change_lent(block - ON_DATA, end - ON_DATA, takes) }
    }
    fn change_own(&mut self, mut at: u64, end: u64, takes: bool) -> bool {
        if at < META_FIRST || end > self.own_blocks {
            return false;
        }
        while at < end {
            let part = (end - at).min(WORD - at % WORD);
            let (word, bits) = (&mut self.own[(at / WORD) as usize], bits(at % WORD, part));
            if *word & bits != if takes { 0 } else { bits } {
                return false;
            }
            *word ^= bits;
            at += part;
        }
        true
    }
    fn change_lent(&mut self, mut at: u64, end: u64, takes: bool) -> bool {
        // The first chunk is the label's.
        if at < CHUNK_BLOCKS || end > self.chunks * CHUNK_BLOCKS {
            return false;
        }
        while at < end {
            let part = (end - at).min(CHUNK_BLOCKS - at % CHUNK_BLOCKS);
            let bits = mask(at % CHUNK_BLOCKS, part);
            let used = self.lent.entry(at / CHUNK_BLOCKS).or_default();
            if *used & bits != if takes { 0 } else { bits } {
                return false;
            }
            *used ^= bits;
            if *used == 0 {
                self.lent.remove(&(at / CHUNK_BLOCKS));
            }
            at += part;
        }
        true
    }
    /// A block that is here or there, and not in both; true if it is here.
    pub fn differs(&self, other: &Self) -> Option<(u64, bool)> {
        let words = self.own.iter().zip(&other.own).zip((0..).step_by(WORD as usize));
        let own = words.map(|((a, b), first): (_, u64)| (a & !b, a ^ b, first)).find(|(_, differ, _)| *differ != 0);
        if let Some((here, differ, first)) = own {
            let bit = differ.trailing_zeros();
            return Some((first + u64::from(bit), here & 1 << bit != 0));
        }
        let of = |blocks: &Self, chunk| blocks.lent.get(chunk).copied().unwrap_or(0);
        let chunk = self.lent.keys().chain(other.lent.keys()).find(|chunk| of(self, chunk) != of(other, chunk))?;
        let (here, there) = (of(self, chunk), of(other, chunk));
        let bit = (here ^ there).trailing_zeros();
        Some((ON_DATA + chunk * CHUNK_BLOCKS + u64::from(bit), here & 1 << bit != 0))
    }

    /// As they are stored.
    pub fn encode(mut self) -> Vec<u8> {
        if planted(Bug::LoseLastBlock) {
            self.lose_last();
        }
        let mut out = Vec::new();
        let words = self.own.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        out.put_var(words as u64);
        let mut rest = &self.own[..words];
        while !rest.is_empty() {
            for of_kind in [|word: u64| word == 0, |word: u64| word == u64::MAX, |word: u64| word != 0 && word != u64::MAX] {
                let n = rest.iter().take_while(|word| of_kind(**word)).count();
                out.put_var(n as u64);
                let (some, behind) = rest.split_at(n);
                some.iter().filter(|word| !matches!(**word, 0 | u64::MAX)).for_each(|word| out.put_u64(*word));
                rest = behind;
            }
        }
        out.put_var(self.lent.len() as u64);
        let mut before = 0;
        for (chunk, used) in &self.lent {
            out.put_var(chunk - before);
            out.put_u16(*used);
            before = *chunk;
        }
        out
    }
    fn lose_last(&mut self) {
        if let Some(word) = self.own.iter_mut().rfind(|word| **word != 0) {
            *word &= !(1 << (WORD - 1 - u64::from(word.leading_zeros())));
        }
    }
    /// Those that are stored, of devices like these.
    pub fn read(mut self, get: &mut Get) -> Result<Self, Corrupt> {
        let (words, mut at) = (get.var()?, 0);
        if words > self.own.len() as u64 {
            return Err(WRONG);
        }
        let all = words as usize;
        while at < all {
            let left = |at: usize, n: u64| usize::try_from(n).ok().filter(|n| *n <= all - at).ok_or(WRONG);
            let before = at;
            at += left(at, get.var()?)?;
            let full = left(at, get.var()?)?;
            self.own[at..at + full].fill(u64::MAX);
            at += full;
            let others = left(at, get.var()?)?;
            for word in &mut self.own[at..at + others] {
                *word = get.u64()?;
            }
            at += others;
            if at == before {
                return Err(WRONG);
            }
        }
        let lent = get.count(3)?;
        let mut chunk: u64 = 0;
        for _ in 0..lent {
            let (distance, used) = (get.var()?, get.u16()?);
            chunk = chunk.checked_add(distance).filter(|chunk| distance > 0 && *chunk < self.chunks && used != 0).ok_or(WRONG)?;
            self.lent.insert(chunk, used);
        }
        self.steps.add(all + lent);
        // None of the superblocks', and none behind the device's end.
        let is_outside = |block: u64| self.own.get((block / WORD) as usize).is_some_and(|word| word & 1 << (block % WORD) != 0);
        let mut outside = (0..META_FIRST).chain(self.own_blocks..self.own_blocks.next_multiple_of(WORD));
        if outside.any(is_outside) || !get.is_empty() { Err(WRONG) } else { Ok(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn again(blocks: &Blocks) -> Blocks {
        let none = Blocks::new(blocks.own_blocks, blocks.chunks);
        none.read(&mut Get::new(blocks.clone().encode().into())).expect("it is whole")
    }

    /// They are a set of blocks, and are read as they were stored.
    #[test]
    fn blocks_are_a_set_and_come_back() {
        let mut rng = base::Rng::new(3);
        for own_blocks in [64, 700, 9000] {
            const CHUNKS: u64 = 50;
            let (mut blocks, mut model) = (Blocks::new(own_blocks, CHUNKS), BTreeSet::new());
            for step in 0..6000_u64 {
                let most = if step % 50 == 0 { 300 } else { 5 };
                let n = 1 + rng.below(most);
                let block = if rng.chance(1, 3) { ON_DATA + rng.below(CHUNKS * CHUNK_BLOCKS + 20) } else { rng.below(own_blocks + 20) };
                let (first, behind) =
                    if block < ON_DATA { (META_FIRST, own_blocks) } else { (ON_DATA + CHUNK_BLOCKS, ON_DATA + CHUNKS * CHUNK_BLOCKS) };
                let is_there = block >= first && block + n <= behind;
                let known = (block..block + n).filter(|block| model.contains(block)).count() as u64;
                let takes = rng.chance(2, 3);
                let may = is_there && known == if takes { 0 } else { n };
                // A refusal ends the use of what refused.
                assert_eq!(blocks.clone().change((block, n), takes), may);
                if may {
                    assert!(blocks.change((block, n), takes));
                    (block..block + n).for_each(|block| assert!(if takes { model.insert(block) } else { model.remove(&block) }));
                }
                if step % 100 == 0 {
                    let again = again(&blocks);
                    assert_eq!((again.differs(&blocks), blocks.differs(&again)), (None, None));
                    assert_eq!((&again.own, &again.lent), (&blocks.own, &blocks.lent));
                    if let Some(block) = model.iter().nth(rng.below(model.len().max(1) as u64) as usize) {
                        let mut other = again;
                        assert!(other.free((*block, 1)));
                        assert_eq!((blocks.differs(&other), other.differs(&blocks)), (Some((*block, true)), Some((*block, false))));
                    }
                }
            }
            assert!(model.len() > 50);
        }
    }

    #[test]
    fn what_can_not_be_is_refused() {
        let mut blocks = Blocks::new(1000, 40);
        [(2, 130), (200, 1), (400, 3), (999, 1), (ON_DATA + 16, 20), (ON_DATA + 100, 1)]
            .into_iter()
            .for_each(|run| assert!(blocks.take(run)));
        let bytes = blocks.clone().encode();
        let read = |(own, chunks): (u64, u64), bytes: &[u8]| Blocks::new(own, chunks).read(&mut Get::new(bytes.to_vec().into()));
        assert!(read((1000, 40), &bytes).is_ok());
        for (own, chunks) in [(999, 40), (900, 40), (1000, 6)] {
            assert!(read((own, chunks), &bytes).is_err(), "of larger devices than {own} and {chunks}");
        }
        (0..bytes.len()).for_each(|n| assert!(read((1000, 40), &bytes[..n]).is_err(), "the first {n} bytes"));
        assert!(read((1000, 40), &[&bytes[..], &[0]].concat()).is_err(), "something behind it");
        assert!(read((1000, 40), &[1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]).is_err(), "a superblock's");
        assert!(read((1000, 40), &[1, 0, 0, 0]).is_err(), "nothing, for ever");
        // A wrong bit is read or refused.
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                let _ = read((1000, 40), &other);
            }
        }
    }

    /// On the same device, those of ten times the leaves are read in as many steps.
    #[test]
    fn steps_follow_the_device() {
        const OWN: u64 = 1 << 20;
        let steps = |leaves: u64| {
            let mut blocks = Blocks::new(OWN, 4);
            (0..leaves).for_each(|n| assert!(blocks.take((2 + n * ((OWN - 3) / leaves), 1))));
            let taken = blocks.steps.take();
            (taken, again(&blocks).steps.take())
        };
        let (few, many) = (steps(50_000), steps(500_000));
        assert_eq!((few.0, many.0), (50_000, 500_000), "to ask leaves is a step for each");
        assert!(few.1 > OWN / WORD * 9 / 10 && many.1 <= OWN / WORD, "{few:?}, {many:?} steps");
    }

    /// A store of a hundred million objects has ten million leaves on 40 GiB: so much is stored of them.
    #[test]
    fn they_take_a_hundredth_of_the_index() {
        let mut blocks = Blocks::new(262_144, 700_000);
        let mut rng = base::Rng::new(7);
        let mut leaves = 0;
        for block in (META_FIRST..262_144).chain(ON_DATA + CHUNK_BLOCKS..ON_DATA + 600_000 * CHUNK_BLOCKS) {
            if !rng.chance(1, 20) {
                leaves += 1;
                assert!(blocks.take((block, 1)));
            }
        }
        let stored = blocks.encode().len();
        assert!(leaves > 9_000_000 && stored < leaves * 45 / 100, "{stored} bytes for {leaves} leaves");
    }
}
