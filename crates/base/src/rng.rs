//! Chance as a value: a small seeded generator. Not for keys; those come from the operating system, through the shells.

/// SplitMix64: one word of state, every seed is a good one.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }
    pub fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// A number below `end`, which is above 0.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is no number below 0");
        ((self.u64() as u128 * end as u128) >> 64) as u64
    }
    /// True in `n` of `of` cases.
    pub fn chance(&mut self, n: u64, of: u64) -> bool {
        self.below(of) < n
    }
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let word = self.u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        assert!((0..100).all(|_| a.u64() == b.u64()));
        assert!((0..1000).all(|_| a.below(3) < 3));
    }
}
