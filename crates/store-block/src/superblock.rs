//! The root of a store: two slots on the meta device, written in turn, and labels in front of the other devices.
//!
//! ```text
//! 0 "HUMBOLDT BLOCK\0\n"   16 version u32   20 crc of bytes 24.. u32   24 role u8 (0 data, 1 wal, 2 meta)   25 uuid
//! then for the meta device's: counted fields as `Superblock` has them; zeros to the block's end
//! ```

use crate::codec::{Corrupt, Get, Put};
use crate::layout::{BLOCK, OLDEST, VERSION};
use bytes::Bytes;

const MAGIC: &[u8; 16] = b"HUMBOLDT BLOCK\0\n";

/// What a label or superblock turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label<T> {
    Ours(T),
    /// Another version of the layout.
    Version(u32),
    /// No magic, or a wrong crc.
    None,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Superblock {
    pub uuid: [u8; 16],
    /// Counts superblocks; the slot is its remainder by 2.
    pub generation: u64,
    /// Blocks of the devices.
    pub data_blocks: u64,
    pub wal_blocks: u64,
    pub meta_blocks: u64,
    /// How often the store was opened.
    pub epoch: u32,
    /// Records from this on belong to this epoch or a later one.
    pub epoch_seq: u64,
    /// The first record behind the checkpoint, and its position in the ring.
    pub wal_seq: u64,
    pub wal_at: u64,
    pub next_nid: u64,
    pub next_leaf: u64,
    /// Extents of the index (block, blocks) and its bytes.
    pub index: Vec<(u64, u64)>,
    pub index_len: u64,
}

/// A superblock must not need more: the index is stored in pieces of a size that keeps to it.
pub const EXTENTS_MAX: usize = 256;

fn open_block(block: &Bytes, role: u8) -> Label<Get> {
    if block.len() < 64 || block[..16] != MAGIC[..] {
        return Label::None;
    }
    let u32_at = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
    if !(OLDEST..=VERSION).contains(&u32_at(16)) {
        return Label::Version(u32_at(16));
    }
    if base::crc32c(u32::MAX, &block[24..]) != u32_at(20) || block[24] != role {
        return Label::None;
    }
    Label::Ours(Get::new(block.slice(25..)))
}

fn close_block(role: u8, uuid: &[u8; 16], body: &[u8]) -> Bytes {
    let mut out = disk::AlignedBuf::with_capacity(BLOCK as usize);
    out.push(MAGIC);
    out.push(&VERSION.to_le_bytes());
    out.push(&[0; 4]);
    out.push(&[role]);
    out.push(uuid);
    out.push(body);
    out.pad();
    assert_eq!(out.len() as u64, BLOCK, "a superblock is one block");
    let crc = base::crc32c(u32::MAX, &out[24..]);
    out[20..24].copy_from_slice(&crc.to_le_bytes());
    out.freeze()
}

fn take_uuid(get: &mut Get) -> Result<[u8; 16], Corrupt> {
    Ok((*get.raw(16)?).try_into().expect("16 bytes"))
}

/// The label of a data or wal device.
pub fn label(role: u8, uuid: &[u8; 16]) -> Bytes {
    close_block(role, uuid, &[])
}
/// The uuid that the label names.
pub fn read_label(block: &Bytes, role: u8) -> Label<[u8; 16]> {
    match open_block(block, role) {
        Label::Ours(mut get) => take_uuid(&mut get).map_or(Label::None, Label::Ours),
        Label::Version(v) => Label::Version(v),
        Label::None => Label::None,
    }
}

impl Superblock {
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        for v in [self.generation, self.data_blocks, self.wal_blocks, self.meta_blocks, u64::from(self.epoch), self.epoch_seq] {
            out.put_var(v);
        }
        for v in [self.wal_seq, self.wal_at, self.next_nid, self.next_leaf, self.index_len, self.index.len() as u64] {
            out.put_var(v);
        }
        for (block, blocks) in &self.index {
            out.put_var(*block);
            out.put_var(*blocks);
        }
        close_block(2, &self.uuid, &out)
    }
    fn fields(mut get: Get) -> Result<Self, Corrupt> {
        let uuid = take_uuid(&mut get)?;
        let mut sb = Self {
            uuid,
            generation: get.var()?,
            data_blocks: get.var()?,
            wal_blocks: get.var()?,
            meta_blocks: get.var()?,
            epoch: get.var()? as u32,
            epoch_seq: get.var()?,
            wal_seq: get.var()?,
            wal_at: get.var()?,
            next_nid: get.var()?,
            next_leaf: get.var()?,
            index_len: get.var()?,
            index: Vec::new(),
        };
        for _ in 0..get.count(2)? {
            sb.index.push((get.var()?, get.var()?));
        }
        Ok(sb)
    }
    pub fn decode(block: &Bytes) -> Label<Self> {
        match open_block(block, 2) {
            Label::Ours(get) => Self::fields(get).map_or(Label::None, Label::Ours),
            Label::Version(v) => Label::Version(v),
            Label::None => Label::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_and_refuses_others() {
        let sb = Superblock { uuid: [3; 16], generation: 9, index: vec![(1 << 40, 3); EXTENTS_MAX], ..Superblock::default() };
        let block = sb.encode();
        assert_eq!(Superblock::decode(&block), Label::Ours(sb));
        for at in [0, 21, 24, 30, 100, 4095] {
            let mut bad = block.to_vec();
            bad[at] ^= 1;
            assert_eq!(Superblock::decode(&bad.into()), Label::None);
        }
        let mut other = block.to_vec();
        other[16] = 7;
        assert_eq!(Superblock::decode(&other.into()), Label::Version(7));
        assert_eq!(read_label(&label(1, &[4; 16]), 1), Label::Ours([4; 16]));
        assert_eq!(read_label(&label(1, &[4; 16]), 0), Label::None);
    }
}
