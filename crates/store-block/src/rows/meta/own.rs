//! The meta device's blocks: a bit for each, and above the bits a tree of the longest free runs, so that no search walks what is in use.
//!
//! ```text
//!   node     front, back, longest: free blocks in a row at its ends, and the most of them anywhere
//!    ├ node       ...
//!    └ line     512 blocks, eight words of bits
//! ```
//! To find a run, to take it and to free it takes steps in proportion to the logarithm of the device's size, however scattered its free blocks are.
//! Memory: one bit a block, and a third of that for the tree.

use super::space::Run;
use crate::rows::counter::Steps;

const WORD: u64 = 64;
/// Words below a leaf of the tree.
const LINE_WORDS: usize = 8;
const LINE: u64 = LINE_WORDS as u64 * WORD;

/// Free blocks in a row within a node's blocks. What does not fit counts as less, which no search needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Free {
    front: u32,
    back: u32,
    longest: u32,
}

fn short(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Free {
    fn of_line(words: &[u64]) -> Self {
        let (mut front, mut run, mut longest) = (None, 0, 0);
        for word in words {
            match *word {
                0 => run += WORD,
                u64::MAX => {
                    front.get_or_insert(run);
                    run = 0;
                }
                used => {
                    let at_front = u64::from(used.trailing_zeros());
                    front.get_or_insert(run + at_front);
                    longest = longest.max(run + at_front).max(u64::from(longest_in(used)));
                    run = u64::from(used.leading_zeros());
                }
            }
            longest = longest.max(run);
        }
        Self { front: short(front.unwrap_or(run)), back: short(run), longest: short(longest) }
    }
    /// Of two neighbours of `len` blocks each.
    fn of_both(left: Self, right: Self, len: u64) -> Self {
        let is_all = |node: Self| u64::from(node.front) == len;
        let front = if is_all(left) { short(len + u64::from(right.front)) } else { left.front };
        let back = if is_all(right) { short(len + u64::from(left.back)) } else { right.back };
        let across = short(u64::from(left.back) + u64::from(right.front));
        Self { front, back, longest: left.longest.max(right.longest).max(across) }
    }
}

/// The most blocks in a row that are free in a word.
fn longest_in(used: u64) -> u32 {
    let (mut free, mut n) = (!used, 0);
    while free != 0 {
        free &= free << 1;
        n += 1;
    }
    n
}
/// Bits of a word from `at` on.
pub(super) fn bits(at: u64, n: u64) -> u64 {
    (u64::MAX >> (WORD - n)) << at
}

/// The blocks of the meta device.
#[derive(Debug)]
pub struct Own {
    /// Bits of what is in use. Blocks that the device does not have are.
    used: Vec<u64>,
    /// The tree: the root is the first one, and the second has no use; the two below `n` are `2 n` and `2 n + 1`.
    tree: Vec<Free>,
    blocks: u64,
    free: u64,
    /// Where the search goes on.
    next: u64,
    steps: Steps,
}

impl Own {
    /// So many blocks, the first `taken` of which are never given.
    pub fn new(blocks: u64, taken: u64) -> Self {
        let mut own = Self { used: Vec::new(), tree: Vec::new(), blocks: 0, free: 0, next: taken, steps: Steps::default() };
        own.grow(blocks);
        own.mark(0, taken);
        own
    }
    /// There are so many blocks now, not fewer than before.
    pub fn grow(&mut self, blocks: u64) {
        assert!(blocks >= self.blocks, "devices don't shrink");
        let lines = blocks.div_ceil(LINE).next_power_of_two();
        self.used.resize(blocks.div_ceil(LINE) as usize * LINE_WORDS, u64::MAX);
        self.each_word(self.blocks, blocks - self.blocks, |word, bits| *word &= !bits);
        self.tree = vec![Free::default(); 2 * lines as usize];
        (self.free, self.blocks) = (self.free + blocks - self.blocks, blocks);
        self.count();
    }
    pub fn blocks(&self) -> u64 {
        self.blocks
    }
    pub fn free(&self) -> u64 {
        self.free
    }
    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.used.len() * size_of::<u64>() + self.tree.len() * size_of::<Free>()
    }
    #[cfg(test)]
    pub fn is_used(&self, block: u64) -> bool {
        self.used[(block / WORD) as usize] & 1 << (block % WORD) != 0
    }
    /// Bits of what is in use; those behind the device's end are set.
    pub fn words(&self) -> &[u64] {
        &self.used
    }
    /// Takes all blocks whose bits are set, which are free.
    pub fn load(&mut self, words: &[u64], steps: &Steps) {
        for (used, more) in self.used.iter_mut().zip(words) {
            assert!(*used & more == 0, "blocks of the metadata are taken once");
            *used |= more;
            self.free -= u64::from(more.count_ones());
        }
        self.steps.add_all(steps);
        self.count();
    }
    #[cfg(test)]
    pub fn assert_counts(&mut self) {
        let used: u64 = self.used.iter().map(|word| u64::from(word.count_ones())).sum();
        assert_eq!(self.used.len() as u64 * WORD - self.free, used);
        let tree = self.tree.clone();
        self.count();
        assert!(tree == self.tree, "the tree follows the bits");
    }
    #[cfg(test)]
    pub fn take_steps(&self) -> u64 {
        self.steps.take()
    }

    /// Shows the words of these blocks, each with its bits of them.
    fn each_word(&mut self, block: u64, n: u64, mut visit: impl FnMut(&mut u64, u64)) {
        let (mut at, end) = (block, block + n);
        while at < end {
            let part = (end - at).min(WORD - at % WORD);
            visit(&mut self.used[(at / WORD) as usize], bits(at % WORD, part));
            at += part;
        }
    }
    /// Leaves of the tree.
    fn lines(&self) -> usize {
        self.tree.len() / 2
    }
    fn count_line(&mut self, line: usize) {
        let lines = self.lines();
        if let Some(words) = self.used.get(line * LINE_WORDS..(line + 1) * LINE_WORDS) {
            self.tree[lines + line] = Free::of_line(words);
        }
    }
    /// The tree, from the bits.
    fn count(&mut self) {
        (0..self.used.len() / LINE_WORDS).for_each(|line| self.count_line(line));
        let (mut at, mut len) = (self.lines() / 2, LINE);
        while at > 0 {
            for node in at..2 * at {
                self.tree[node] = Free::of_both(self.tree[2 * node], self.tree[2 * node + 1], len);
            }
            (at, len) = (at / 2, len * 2);
        }
    }
    /// The tree above these blocks, from the bits.
    fn count_from(&mut self, block: u64, n: u64) {
        let (first, last) = ((block / LINE) as usize, ((block + n - 1) / LINE) as usize);
        (first..=last).for_each(|line| self.count_line(line));
        let (mut first, mut last, mut len) = ((self.lines() + first) / 2, (self.lines() + last) / 2, LINE);
        while first > 0 {
            for node in first..=last {
                self.steps.add(1);
                self.tree[node] = Free::of_both(self.tree[2 * node], self.tree[2 * node + 1], len);
            }
            (first, last, len) = (first / 2, last / 2, len * 2);
        }
    }

    /// Takes blocks that are free.
    pub fn mark(&mut self, block: u64, n: u64) {
        if n == 0 {
            return;
        }
        self.each_word(block, n, |word, bits| {
            assert!(*word & bits == 0, "blocks {block}+{n} of the metadata are taken once");
            *word |= bits;
        });
        self.free -= n;
        self.count_from(block, n);
    }
    fn clear_bits(&mut self, block: u64, n: u64) {
        self.each_word(block, n, |word, bits| {
            assert!(*word & bits == bits, "blocks {block}+{n} of the metadata that are freed were in use");
            *word &= !bits;
        });
        self.free += n;
    }
    /// Frees blocks that are in use.
    pub fn clear(&mut self, block: u64, n: u64) {
        self.clear_bits(block, n);
        self.count_from(block, n);
    }
    /// The same for many runs at once.
    pub fn clear_all(&mut self, runs: &[Run]) {
        if runs.len() < self.lines() / 8 {
            return runs.iter().for_each(|run| self.clear(run.0, run.1));
        }
        runs.iter().for_each(|run| self.clear_bits(run.0, run.1));
        self.count();
    }

    /// Takes blocks in a row, the first from where the last one was found: `n` of them, or, if fewer will do, those of the first free ones.
    pub fn take(&mut self, n: u64, fewer: bool) -> Option<Run> {
        if self.free == 0 || n > self.free && !fewer {
            return None;
        }
        let least = if fewer { 1 } else { n };
        // That there is no such run anywhere is known at the root.
        if u64::from(self.tree[1].longest) < least {
            return None;
        }
        let start = self.find(least, self.next).or_else(|| self.find(least, 0))?;
        let run = if fewer { self.free_from(start, n) } else { n };
        self.mark(start, run);
        self.next = start + run;
        Some((start, run))
    }
    /// The first `n` free blocks in a row from `from` on.
    fn find(&self, n: u64, from: u64) -> Option<u64> {
        self.seek(1, 0, self.lines() as u64 * LINE, n, from, &mut 0)
    }
    /// The same within a node of `len` blocks from `start` on; in front of it are `run` free ones that count.
    fn seek(&self, node: usize, start: u64, len: u64, n: u64, from: u64, run: &mut u64) -> Option<u64> {
        self.steps.add(1);
        if start + len <= from {
            return None;
        }
        if start >= from {
            let free = self.tree[node];
            if *run + u64::from(free.front) >= n {
                return Some(start - *run);
            }
            if u64::from(free.longest) < n {
                *run = if u64::from(free.front) == len { *run + len } else { u64::from(free.back) };
                return None;
            }
        }
        if len == LINE {
            return self.seek_line(start, n, from, run);
        }
        let half = len / 2;
        self.seek(2 * node, start, half, n, from, run).or_else(|| self.seek(2 * node + 1, start + half, half, n, from, run))
    }
    fn seek_line(&self, start: u64, n: u64, from: u64, run: &mut u64) -> Option<u64> {
        let mut at = start.max(from);
        let end = (start + LINE).min(self.used.len() as u64 * WORD);
        while at < end {
            self.steps.add(1);
            let (word, left) = (self.used[(at / WORD) as usize] >> (at % WORD), WORD - at % WORD);
            let free = u64::from(word.trailing_zeros()).min(left);
            if *run + free >= n {
                return Some(at - *run);
            }
            if free == left {
                (at, *run) = (at + left, *run + free);
            } else {
                (at, *run) = (at + free + u64::from((word >> free).trailing_ones()), 0);
            }
        }
        None
    }
    /// Free blocks in a row from here on, `most` at most.
    fn free_from(&self, start: u64, most: u64) -> u64 {
        let mut n = 0;
        while n < most && start + n < self.blocks {
            let at = start + n;
            let left = WORD - at % WORD;
            let free = u64::from((self.used[(at / WORD) as usize] >> (at % WORD)).trailing_zeros()).min(left);
            n += free;
            if free < left {
                break;
            }
        }
        n.min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the tree finds is what a walk over all bits finds.
    #[test]
    fn the_first_run_that_fits_is_found() {
        let mut rng = base::Rng::new(5);
        for blocks in [3, 64, 511, 512, 700, 5000, 40_000] {
            let mut own = Own::new(blocks, 2);
            let mut taken: Vec<Run> = Vec::new();
            for step in 0..3000 {
                let most = if rng.chance(1, 10) { 900 } else { 6 };
                let (n, from) = (1 + rng.below(most), rng.below(blocks));
                let walk = (from..blocks.saturating_sub(n - 1)).find(|at| (*at..at + n).all(|b| !own.is_used(b)));
                if step % 16 == 0 {
                    assert_eq!(own.find(n, from), walk, "{n} of {blocks} from {from} on");
                }
                if rng.chance(3, 5) {
                    taken.extend(own.take(n, rng.chance(1, 3)).inspect(|run| assert!(run.1 <= n)));
                } else if rng.chance(1, 200) {
                    let some = taken.split_off(taken.len() / 3);
                    own.clear_all(&some);
                } else if !taken.is_empty() {
                    let (block, n) = taken.swap_remove(rng.below(taken.len() as u64) as usize);
                    own.clear(block, n);
                }
                if step % 200 == 0 {
                    own.assert_counts();
                    assert_eq!(blocks - own.free(), 2 + taken.iter().map(|run| run.1).sum::<u64>());
                }
            }
            own.clear_all(&taken);
            let before = own.blocks();
            own.grow(before + 3000);
            own.assert_counts();
            assert_eq!((own.free(), own.find(before + 2998, 0)), (before + 2998, Some(2)));
        }
    }
}
