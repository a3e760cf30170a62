//! Hashes that place objects: names to 32 bits, and a pool's way of folding them into placement groups.
//!
//! `rjenkins` is Bob Jenkins' hash of 1996 (public domain, "evahash"). Sources of what is specific: Ceph 18.2 `src/common/ceph_hash.cc`,
//! `src/include/rados.h` (`ceph_stable_mod`), `src/osd/osd_types.cc` (`pg_pool_t::hash_key`: namespace, 0x1f, key).

use base::jenkins_mix;

/// `CEPH_STR_HASH_RJENKINS`: the hash of an object's name (or locator key).
pub fn rjenkins(data: &[u8]) -> u32 {
    let (mut a, mut b, mut c) = (0x9e37_79b9_u32, 0x9e37_79b9_u32, 0_u32);
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let (blocks, tail) = data.as_chunks::<12>();
    for block in blocks {
        a = a.wrapping_add(word(&block[..4]));
        b = b.wrapping_add(word(&block[4..8]));
        c = c.wrapping_add(word(&block[8..]));
        jenkins_mix(&mut a, &mut b, &mut c);
    }
    // The last block's lowest byte of c is the length; what remains of the key stands above it.
    let mut last = [0_u8; 12];
    let n = tail.len().min(8);
    last[..n].copy_from_slice(&tail[..n]);
    if tail.len() > 8 {
        last[9..tail.len() + 1].copy_from_slice(&tail[8..]);
    }
    a = a.wrapping_add(word(&last[..4]));
    b = b.wrapping_add(word(&last[4..8]));
    c = c.wrapping_add(word(&last[8..])).wrapping_add(data.len() as u32);
    jenkins_mix(&mut a, &mut b, &mut c);
    c
}

/// `CEPH_STR_HASH_LINUX`: the dcache's hash; pools may ask for it.
pub fn linux_dcache(data: &[u8]) -> u32 {
    data.iter().fold(0_u32, |hash, &c| {
        // Characters are signed where Ceph runs, but are read through an unsigned one here.
        let c = c as u32;
        hash.wrapping_add(c << 4).wrapping_add(c >> 4).wrapping_mul(11)
    })
}

/// `ceph_stable_mod`: folds `x` into `b` bins so that growing `b` moves only what it must. `mask` is one less than the power of two at or
/// above `b`.
#[inline]
pub fn stable_mod(x: u32, b: u32, mask: u32) -> u32 {
    if x & mask < b { x & mask } else { x & (mask >> 1) }
}

/// The mask for [`stable_mod`] over `n` bins: `pg_num_mask`.
pub fn bins_mask(n: u32) -> u32 {
    if n <= 1 { 0 } else { u32::MAX >> (n - 1).leading_zeros() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_mod_moves_only_what_splits() {
        assert_eq!(bins_mask(1), 0);
        assert_eq!(bins_mask(12), 15);
        assert_eq!(bins_mask(16), 15);
        for x in 0..1000 {
            let (before, after) = (stable_mod(x, 12, 15), stable_mod(x, 13, 15));
            assert!(after == before || after == 12);
        }
    }

    /// Stock 18.2.7: `ceph osd map POOL NAME` prints the hash as the group before it is folded.
    #[test]
    fn equals_what_stock_prints() {
        assert_eq!(rjenkins(b"foo"), 0x7fc1f406);
        assert_eq!(rjenkins(b"a"), 0x29eec818);
        assert_eq!(rjenkins(b"abcdefgh"), 0x53f775e);
        assert_eq!(rjenkins(b"abcdefghi"), 0x3a7b0a5f);
        assert_eq!(rjenkins(b"abcdefghijk"), 0xe52b8e4c);
        assert_eq!(rjenkins(b"abcdefghijkl"), 0xb1b3ea5);
        assert_eq!(rjenkins(b"benchmark_data_host_123_object42"), 0x2656c355);
        assert_eq!(rjenkins(b"rbd_header.0123456789ab"), 0xb62a5b5);
    }
}
