//! CRUSH's hash: one to four words to 32 bits, Jenkins' mix over them and two constants.
//!
//! Source of the facts: Ceph 18.2 `src/crush/hash.c` (`rjenkins1`, the only hash that exists: type 0; others hash to 0).

use base::jenkins_mix as mix;

const SEED: u32 = 1_315_423_911;
const X: u32 = 231_232;
const Y: u32 = 1232;

pub fn hash32(a: u32) -> u32 {
    let (mut h, mut a, mut b, mut x, mut y) = (SEED ^ a, a, a, X, Y);
    mix(&mut b, &mut x, &mut h);
    mix(&mut y, &mut a, &mut h);
    h
}

#[inline]
pub fn hash32_2(a: u32, b: u32) -> u32 {
    let (mut h, mut a, mut b, mut x, mut y) = (SEED ^ a ^ b, a, b, X, Y);
    mix(&mut a, &mut b, &mut h);
    mix(&mut x, &mut a, &mut h);
    mix(&mut b, &mut y, &mut h);
    h
}

#[inline]
pub fn hash32_3(a: u32, b: u32, c: u32) -> u32 {
    let (mut h, mut a, mut b, mut c, mut x, mut y) = (SEED ^ a ^ b ^ c, a, b, c, X, Y);
    mix(&mut a, &mut b, &mut h);
    mix(&mut c, &mut x, &mut h);
    mix(&mut y, &mut a, &mut h);
    mix(&mut b, &mut x, &mut h);
    mix(&mut y, &mut c, &mut h);
    h
}

#[inline]
pub fn hash32_4(a: u32, b: u32, c: u32, d: u32) -> u32 {
    let (mut h, mut a, mut b, mut c, mut d, mut x, mut y) = (SEED ^ a ^ b ^ c ^ d, a, b, c, d, X, Y);
    mix(&mut a, &mut b, &mut h);
    mix(&mut c, &mut d, &mut h);
    mix(&mut a, &mut x, &mut h);
    mix(&mut y, &mut b, &mut h);
    mix(&mut c, &mut x, &mut h);
    mix(&mut y, &mut d, &mut h);
    h
}
