//! Where the next record goes, and how full the ring is. A record is never cut by the ring's end: what does not fit goes to the front.

/// Positions are blocks, counted on without end; the block in the ring is the remainder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    blocks: u64,
    /// The oldest record that is still needed.
    pub tail: u64,
    /// Where the next record goes.
    pub head: u64,
}

impl Ring {
    pub fn new(blocks: u64, at: u64) -> Self {
        Self { blocks, tail: at, head: at }
    }
    pub fn blocks(&self) -> u64 {
        self.blocks
    }
    /// The position of a record of `n` blocks that goes to `at` or, if the ring's end is in the way, to the front of the next lap.
    pub fn fit(&self, at: u64, n: u64) -> u64 {
        let left = self.blocks - at % self.blocks;
        if n <= left { at } else { at + left }
    }
    /// Takes room for a record; `None` if what is still needed is in the way, or less than `kept` would be left.
    pub fn take(&mut self, n: u64, kept: u64) -> Option<u64> {
        if !self.has_room(self.tail, n, kept) {
            return None;
        }
        let at = self.fit(self.head, n);
        self.head = at + n;
        Some(at)
    }
    /// True if a record of `n` blocks would leave `kept` blocks if the tail were there.
    pub fn has_room(&self, tail: u64, n: u64, kept: u64) -> bool {
        self.fit(self.head, n) + n + kept - tail <= self.blocks
    }
    pub fn used(&self) -> u64 {
        self.head - self.tail
    }
    pub fn lap(&self, at: u64) -> u32 {
        (at / self.blocks) as u32
    }
    pub fn block(&self, at: u64) -> u64 {
        at % self.blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_never_meet_nor_wrap() {
        let mut ring = Ring::new(100, 250);
        let mut rng = base::Rng::new(4);
        let mut live = std::collections::VecDeque::new();
        for _ in 0..5000 {
            let n = 1 + rng.below(30);
            match ring.take(n, 0) {
                Some(at) => {
                    assert!(at % 100 + n <= 100);
                    assert!(live.iter().all(|(b, m)| at >= b + m && at + n - b <= 100));
                    live.push_back((at, n));
                }
                None => {
                    live.pop_front();
                    ring.tail = live.front().map_or(ring.head, |(at, _)| *at);
                }
            }
        }
    }
}
