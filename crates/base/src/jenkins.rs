//! The step of Bob Jenkins' hash of 1996 ("evahash", public domain): object names and CRUSH both hash with it.

/// Three words stirred into each other: the step of both the string hash and CRUSH's hash.
#[inline]
pub fn jenkins_mix(a: &mut u32, b: &mut u32, c: &mut u32) {
    // Each line: this word less the two others, then xored with a shifted neighbour. Positive shifts go right.
    #[inline(always)]
    fn step(x: &mut u32, y: u32, z: u32, shift: i32) {
        let shifted = if shift > 0 { z >> shift } else { z << -shift };
        *x = x.wrapping_sub(y).wrapping_sub(z) ^ shifted;
    }
    for [i, j, k] in [[13, -8, 13], [12, -16, 5], [3, -10, 15]] {
        step(a, *b, *c, i);
        step(b, *c, *a, j);
        step(c, *a, *b, k);
    }
}
