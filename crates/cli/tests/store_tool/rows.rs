//! Rows of a store's metadata, found and changed as its layout is written down (`store-block`'s `meta::leaf`): independently of the code that
//! reads and writes them.
//!
//! ```text
//! 0 crc u32 (of what follows, to `len`)   4 "HLEF"   8 id u64   16 rows u32   20 len u32   24 offsets u32 × rows
//! each row: key length u32, value length u32, key, value
//! ```

const BLOCK: usize = 4096;

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

/// Where leaves begin, those that were replaced included.
pub fn leaves(meta: &[u8]) -> Vec<usize> {
    (0..meta.len()).step_by(BLOCK).filter(|at| meta[at + 4..at + 8] == *b"HLEF").collect()
}

/// Shows all rows, keys and values, to be changed; gives their leaves right checksums again.
pub fn change(meta: &mut [u8], uuid: &[u8; 16], mut change: impl FnMut(&[u8], &mut [u8])) {
    let seed = base::crc32c(u32::MAX, uuid);
    for leaf in leaves(meta) {
        let len = u32_at(meta, leaf + 20);
        let leaf = &mut meta[leaf..leaf + len];
        for row in 0..u32_at(leaf, 16) {
            let at = u32_at(leaf, 24 + 4 * row);
            let (key_len, value_len) = (u32_at(leaf, at), u32_at(leaf, at + 4));
            let (key, value) = leaf[at + 8..at + 8 + key_len + value_len].split_at_mut(key_len);
            change(key, value);
        }
        let crc = base::crc32c(seed, &leaf[4..]);
        leaf[..4].copy_from_slice(&crc.to_le_bytes());
    }
}
