//! The checksums that the CHECKSUM operation offers: crc32c, and xxHash of 32 and 64 bits.
//!
//! Source of the facts: the xxHash specification (`doc/xxhash_spec.md` of its reference implementation); Ceph seeds both with the init value
//! of the request and writes each value little-endian.

const P32: [u32; 5] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D, 0x27D4_EB2F, 0x1656_67B1];
const P64: [u64; 5] = [0x9E37_79B1_85EB_CA87, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9, 0x85EB_CA77_C2B2_AE63, 0x27D4_EB2F_1656_67C5];

fn word32(b: &[u8]) -> u32 {
    u32::from_le_bytes(b[..4].try_into().expect("four bytes"))
}
fn word64(b: &[u8]) -> u64 {
    u64::from_le_bytes(b[..8].try_into().expect("eight bytes"))
}

/// xxHash of 32 bits.
pub fn xxhash32(seed: u32, data: &[u8]) -> u32 {
    let round = |acc: u32, lane: u32| acc.wrapping_add(lane.wrapping_mul(P32[1])).rotate_left(13).wrapping_mul(P32[0]);
    let mut stripes = data.chunks_exact(16);
    let mut hash = if data.len() >= 16 {
        let mut acc = [seed.wrapping_add(P32[0]).wrapping_add(P32[1]), seed.wrapping_add(P32[1]), seed, seed.wrapping_sub(P32[0])];
        for stripe in &mut stripes {
            for (lane, acc) in acc.iter_mut().enumerate() {
                *acc = round(*acc, word32(&stripe[lane * 4..]));
            }
        }
        acc[0].rotate_left(1).wrapping_add(acc[1].rotate_left(7)).wrapping_add(acc[2].rotate_left(12)).wrapping_add(acc[3].rotate_left(18))
    } else {
        seed.wrapping_add(P32[4])
    };
    hash = hash.wrapping_add(data.len() as u32);
    let mut words = stripes.remainder().chunks_exact(4);
    for word in &mut words {
        hash = hash.wrapping_add(word32(word).wrapping_mul(P32[2])).rotate_left(17).wrapping_mul(P32[3]);
    }
    for &byte in words.remainder() {
        hash = hash.wrapping_add((byte as u32).wrapping_mul(P32[4])).rotate_left(11).wrapping_mul(P32[0]);
    }
    hash = (hash ^ hash >> 15).wrapping_mul(P32[1]);
    hash = (hash ^ hash >> 13).wrapping_mul(P32[2]);
    hash ^ hash >> 16
}

/// xxHash of 64 bits.
pub fn xxhash64(seed: u64, data: &[u8]) -> u64 {
    let round = |acc: u64, lane: u64| acc.wrapping_add(lane.wrapping_mul(P64[1])).rotate_left(31).wrapping_mul(P64[0]);
    let mut stripes = data.chunks_exact(32);
    let mut hash = if data.len() >= 32 {
        let mut acc = [seed.wrapping_add(P64[0]).wrapping_add(P64[1]), seed.wrapping_add(P64[1]), seed, seed.wrapping_sub(P64[0])];
        for stripe in &mut stripes {
            for (lane, acc) in acc.iter_mut().enumerate() {
                *acc = round(*acc, word64(&stripe[lane * 8..]));
            }
        }
        let mut hash = acc[0]
            .rotate_left(1)
            .wrapping_add(acc[1].rotate_left(7))
            .wrapping_add(acc[2].rotate_left(12))
            .wrapping_add(acc[3].rotate_left(18));
        for acc in acc {
            hash = (hash ^ round(0, acc)).wrapping_mul(P64[0]).wrapping_add(P64[3]);
        }
        hash
    } else {
        seed.wrapping_add(P64[4])
    };
    hash = hash.wrapping_add(data.len() as u64);
    let mut rest = stripes.remainder();
    while rest.len() >= 8 {
        hash = (hash ^ round(0, word64(rest))).rotate_left(27).wrapping_mul(P64[0]).wrapping_add(P64[3]);
        rest = &rest[8..];
    }
    if rest.len() >= 4 {
        hash = (hash ^ (word32(rest) as u64).wrapping_mul(P64[0])).rotate_left(23).wrapping_mul(P64[1]).wrapping_add(P64[2]);
        rest = &rest[4..];
    }
    for &byte in rest {
        hash = (hash ^ (byte as u64).wrapping_mul(P64[4])).rotate_left(11).wrapping_mul(P64[0]);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(P64[1]);
    hash = (hash ^ hash >> 29).wrapping_mul(P64[2]);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_the_specification() {
        assert_eq!(xxhash32(0, b""), 0x02CC_5D05);
        assert_eq!(xxhash32(0, b"a"), 0x550D_7456);
        assert_eq!(xxhash32(0, b"abc"), 0x32D1_53FF);
        assert_eq!(xxhash64(0, b""), 0xEF46_DB37_51D8_E999);
        assert_eq!(xxhash64(0, b"a"), 0xD24E_C4F1_A98C_6E5B);
        assert_eq!(xxhash64(0, b"abc"), 0x44BC_2CF5_AD77_0999);
        let text = b"Nobody inspects the spammish repetition";
        assert_eq!(xxhash32(0, text), 0xE229_3B2F);
        assert_eq!(xxhash64(0, text), 0xFBCE_A83C_8A37_8BF1);
    }
}
