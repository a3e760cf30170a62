//! The logarithm that straw2 draws with: integers only, so that every machine draws the same.
//!
//! Source of the facts: Ceph 18.2 `src/crush/mapper.c` (input is 16 bits wide; the result is 2^44 * log2(input + 1)).

use crate::ln_table::{LOG_FINE, RECIPROCAL_AND_LOG};

/// 2^44 * log2(x + 1) for a 16-bit `x`.
#[inline]
fn log2_fixed(x: u32) -> u64 {
    let x = x + 1;
    // Shifted until bit 15 or 16 is the highest; the shift is the exponent's complement.
    let shift = if x & 0x1_8000 == 0 { x.leading_zeros() - 16 } else { 0 };
    let normal = x << shift;
    let (reciprocal, log) = RECIPROCAL_AND_LOG[(normal >> 8) as usize - 128];
    let fine = LOG_FINE[((normal as u64).wrapping_mul(reciprocal) >> 48 & 0xff) as usize];
    ((15 - shift as u64) << 44) + ((log + fine) >> 4)
}

/// The straw of an item: an exponentially distributed draw, negative, scaled by the weight (16.16, not 0). The longest straw wins.
#[inline]
pub fn straw2_draw(hash: u32, weight: u32) -> i64 {
    let ln = log2_fixed(hash & 0xffff) as i64 - 0x1_0000_0000_0000;
    // The weight is taken as a signed number, as Ceph takes it.
    ln / i64::from(weight as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_grows_and_meets_its_ends() {
        assert_eq!(log2_fixed(0), 0);
        // The table's last entry is a little short of 2^48.
        assert_eq!(log2_fixed(0xffff), 0xffff_f000_0000);
        assert!((0..0xffff).all(|x| log2_fixed(x) <= log2_fixed(x + 1) + (1 << 33)));
    }
}
