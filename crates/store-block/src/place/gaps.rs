//! What gaps are worth: free blocks of chunks that are in use are available only as far as what comes fits into them.
//!
//! A piece of an object lies within one chunk, so a gap of seven blocks is of no use for objects of nine: a store of such objects refuses the next one
//! with almost half of its blocks free. Each gap counts by the share of the data that came or went lately in pieces which are no larger than it. So a store
//! says that it is full before it refuses, whatever it is filled with, and small objects find the gaps of removed small ones available.
//!
//! What came before the start is not known: the runs of blocks in use stand for it, but for those of full chunks, which may have small pieces or one.
//!
//! A few numbers for each length of a run, whatever the device's size: to follow a change and to answer takes as many steps as there are
//! lengths.

use crate::open::layout::CHUNK_BLOCKS;

const SIZES: usize = CHUNK_BLOCKS as usize + 1;
const FULL: u16 = u16::MAX;
/// What came lately is this share of the device, and so many blocks at least.
const LATELY_SHARE: u64 = 16;
const LATELY_MIN_BLOCKS: u64 = 4096;

#[derive(Debug, Default)]
pub struct Gaps {
    /// Chunks in use that are not full, and free blocks in them, by their longest run of free blocks.
    chunks: [u64; SIZES],
    blocks: [u64; SIZES],
    /// Blocks of what came lately, by the blocks of each piece, and of all pieces.
    came: [u64; SIZES],
    all: u64,
    /// When so many have come, they count half.
    lately: u64,
}

/// Blocks of a chunk's longest free run.
pub fn longest_run(used: u16) -> usize {
    let (mut free, mut n) = (!used, 0);
    while free != 0 {
        free &= free << 1;
        n += 1;
    }
    n
}
/// Lengths of a chunk's runs of blocks in use.
fn runs(used: u16) -> impl Iterator<Item = usize> {
    let mut rest = u32::from(used);
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        rest >>= rest.trailing_zeros();
        let n = rest.trailing_ones();
        rest >>= n;
        Some(n as usize)
    })
}
fn is_gap(used: u16) -> bool {
    used != 0 && used != FULL
}
/// Free blocks in a row that a piece finds in a chunk in use, at most; none in one that is empty.
pub fn gap(used: u16) -> usize {
    if is_gap(used) { longest_run(used) } else { 0 }
}

impl Gaps {
    /// For a device of so many blocks, nothing of which is known.
    pub fn new(blocks: u64) -> Self {
        Self { lately: (blocks / LATELY_SHARE).max(LATELY_MIN_BLOCKS), ..Self::default() }
    }
    /// A chunk that the device had at the start, as it is in use.
    pub fn load(&mut self, used: u16) {
        self.add(used);
        if is_gap(used) {
            runs(used).for_each(|n| self.came(n as u64));
        }
    }
    fn add(&mut self, used: u16) {
        let n = gap(used);
        if n > 0 {
            self.chunks[n] += 1;
            self.blocks[n] += u64::from(used.count_zeros());
        }
    }
    /// A chunk's blocks in use are others now; the blocks of its gap before and after.
    pub fn change(&mut self, from: u16, to: u16) -> (usize, usize) {
        let n = gap(from);
        if n > 0 {
            self.chunks[n] -= 1;
            self.blocks[n] -= u64::from(from.count_zeros());
        }
        self.add(to);
        (n, gap(to))
    }
    /// A piece of so many blocks was taken, or was there and is freed: what comes is like what went.
    pub fn came(&mut self, blocks: u64) {
        self.came[blocks as usize] += blocks;
        self.all += blocks;
        if self.all > self.lately {
            self.came.iter_mut().for_each(|came| *came /= 2);
            self.all = self.came.iter().sum();
        }
    }
    /// Chunks in use that have `blocks` free blocks in a row: each takes a piece of that size.
    pub fn chunks_for(&self, blocks: u64) -> u64 {
        self.chunks[(blocks as usize).min(SIZES)..].iter().sum()
    }
    /// Free blocks in gaps that are available.
    pub fn available(&self) -> u64 {
        if self.all == 0 {
            return self.blocks.iter().sum();
        }
        let (mut fits, mut sum) = (0, 0u128);
        for (came, blocks) in self.came.iter().zip(&self.blocks) {
            fits += came;
            sum += u128::from(*blocks) * u128::from(fits);
        }
        (sum / u128::from(self.all)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of a hundred chunks' blocks in use, in such runs.
    fn gaps(used: u16) -> Gaps {
        let mut gaps = Gaps::new(0);
        (0..100).for_each(|_| gaps.load(used));
        gaps
    }

    #[test]
    fn gaps_count_for_what_fits_into_them() {
        assert_eq!(gaps(0).available(), 0);
        assert_eq!(gaps(FULL).available(), 0);
        // Full chunks may be full of small pieces: when some of those are removed, others fit.
        let mut full = gaps(FULL);
        full.add(0x5555);
        assert_eq!(full.available(), 8);
        // Objects of nine blocks: seven are left of each chunk.
        let mut nine = gaps(0x01ff);
        assert_eq!((nine.available(), nine.chunks_for(7), nine.chunks_for(8)), (0, 100, 0));
        // As many blocks in pieces that fit: half of it counts.
        (0..900).for_each(|_| nine.came(1));
        assert_eq!(nine.available(), 350);
        // Now nothing else comes for a long time.
        (0..100_000).for_each(|_| nine.came(7));
        assert!((690..=700).contains(&nine.available()), "{}", nine.available());
        // Small objects, each second one removed: the next ones fit.
        assert_eq!(gaps(0x5555).available(), 800);
        // A gap goes with the last block in use.
        (0..100).for_each(|_| assert_eq!(nine.change(0x01ff, 0), (7, 0)));
        assert_eq!((nine.available(), nine.chunks_for(1)), (0, 0));
    }
    #[test]
    fn runs_are_counted() {
        assert_eq!(runs(0).count(), 0);
        assert_eq!(runs(FULL).collect::<Vec<_>>(), [16]);
        assert_eq!(runs(0b1011_0000_0000_1110).collect::<Vec<_>>(), [3, 2, 1]);
        assert_eq!((longest_run(0), longest_run(FULL), longest_run(0b1011_0000_0000_1110)), (16, 0, 8));
    }
}
