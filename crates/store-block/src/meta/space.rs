//! Which blocks of the meta device are in use. Not stored: what the index of a checkpoint names is in use, nothing else.

/// Runs of blocks, given from a place that moves on.
#[derive(Debug)]
pub struct Space {
    used: Vec<u64>,
    blocks: u64,
    free: u64,
    next: u64,
    /// Pieces of the last checkpoint, which are free when the next one is durable.
    aside: Vec<(u64, u64)>,
    aside_blocks: u64,
}

impl Space {
    /// So many blocks, of which the first `taken` are never given.
    pub fn new(blocks: u64, taken: u64) -> Self {
        let mut space =
            Self { used: vec![0; blocks.div_ceil(64) as usize], blocks, free: blocks, next: taken, aside: Vec::new(), aside_blocks: 0 };
        space.mark(0, taken);
        space
    }
    fn is_used(&self, block: u64) -> bool {
        self.used[(block / 64) as usize] & 1 << (block % 64) != 0
    }
    /// True if all of these exist and are free.
    pub fn is_free(&self, block: u64, n: u64) -> bool {
        block.checked_add(n).is_some_and(|end| end <= self.blocks) && (block..block + n).all(|b| !self.is_used(b))
    }
    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.used.len() * 8 + self.aside.capacity() * 16
    }
    pub fn free(&self) -> u64 {
        self.free
    }
    pub fn blocks(&self) -> u64 {
        self.blocks
    }
    /// Blocks that are in use and will be after the checkpoint that is being written.
    pub fn live(&self) -> u64 {
        self.blocks - self.free - self.aside_blocks
    }
    /// Takes these, which are free.
    pub fn mark(&mut self, block: u64, n: u64) {
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
    /// Takes `n` blocks in a row; `None` if there are none.
    pub fn take(&mut self, n: u64) -> Option<u64> {
        if n > self.free {
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
            run = if self.is_used(at) { 0 } else { run + 1 };
            at += 1;
            seen += 1;
            if run == n {
                self.mark(at - n, n);
                self.next = at;
                return Some(at - n);
            }
        }
        None
    }
    /// Gives blocks back when the checkpoint that is being written is durable.
    pub fn put_aside(&mut self, block: u64, n: u64) {
        self.aside.push((block, n));
        self.aside_blocks += n;
    }
    /// The checkpoint is durable.
    pub fn release(&mut self) {
        self.aside_blocks = 0;
        for (block, n) in std::mem::take(&mut self.aside) {
            self.clear(block, n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_given_once() {
        let mut s = Space::new(1000, 2);
        let mut rng = base::Rng::new(1);
        let mut mine = Vec::new();
        for _ in 0..3000 {
            let n = 1 + rng.below(7);
            match s.take(n) {
                Some(at) => mine.push((at, n)),
                None => {
                    for _ in 0..20.min(mine.len()) {
                        let (at, n) = mine.swap_remove(rng.below(mine.len() as u64) as usize);
                        s.put_aside(at, n);
                    }
                    s.release();
                }
            }
            assert_eq!(s.free() + mine.iter().map(|m| m.1).sum::<u64>(), 998);
        }
    }
}
