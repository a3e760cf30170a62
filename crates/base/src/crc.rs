//! Ceph's crc32c: Castagnoli's polynomial with the register given and taken as it is, no inversion at either end.

/// Goes on from `seed` over `data`. Messages start with `u32::MAX` or 0, as each format says.
///
/// Source of the fact: Ceph `src/include/crc32c.h` and its unit tests' vectors.
#[inline]
pub fn crc32c(seed: u32, data: &[u8]) -> u32 {
    if data.is_empty() {
        return seed;
    }
    let mut digest = crc_fast::Digest::new_with_init_state(crc_fast::CrcAlgorithm::Crc32Iscsi, seed as u64);
    digest.update(data);
    !(digest.finalize() as u32)
}

/// The crc of `len` zero bytes: object digests are taken over holes too.
pub fn crc32c_zeros(mut seed: u32, mut len: usize) -> u32 {
    const ZEROS: [u8; 4096] = [0; 4096];
    while len > 0 {
        let n = len.min(ZEROS.len());
        seed = crc32c(seed, &ZEROS[..n]);
        len -= n;
    }
    seed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_vectors_of_ceph() {
        assert_eq!(crc32c(0, b"foo bar baz"), 4119623852);
        assert_eq!(crc32c(1234, b"foo bar baz"), 881700046);
        assert_eq!(crc32c(crc32c(0, b"foo "), b"bar baz"), 4119623852);
        assert_eq!(crc32c_zeros(5, 5000), crc32c(5, &[0; 5000]));
    }
}
