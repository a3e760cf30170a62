//! The root of a store: two slots on the meta device, written in turn, and labels in front of the other devices.
//!
//! ```text
//! 0 "HUMBOLDT BLOCK\0\n"   16 version u32   20 crc of bytes 24.. u32   24 role u8 (0 data, 1 wal, 2 meta)   25 uuid
//! then for the meta device's: counted fields as `Superblock` has them; zeros to the block's end
//! ```
//! An index that lies in more extents than a superblock has room for has a list of them in blocks of its own, and the superblock names those.

use crate::open::layout::{BLOCK, OLDEST, UNFINALIZED, VERSION, WITH_ATTR_CELLS, WITH_INDEX_BLOCKS, WITH_INDEX_PARTS, WITH_PLACES};
use crate::rows::codec::{Corrupt, Get, Put};
use crate::rows::meta::parts::Form;
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
    /// Of the layout: from [`UNFINALIZED`] to [`VERSION`]. Nothing of a later version is written into the store.
    pub version: u32,
    /// Counts superblocks; the slot is its remainder by 2.
    pub generation: u64,
    /// Blocks of the devices.
    pub data_blocks: u64,
    pub wal_blocks: u64,
    pub meta_blocks: u64,
    /// Larger with each opening of the store.
    pub epoch: u32,
    /// Records from this on belong to this epoch or a later one.
    pub epoch_seq: u64,
    /// The first record behind the checkpoint, and its position in the ring.
    pub wal_seq: u64,
    pub wal_at: u64,
    pub next_nid: u64,
    pub next_leaf: u64,
    /// Extents of the index (block, blocks) and its bytes. With a list, they are not stored here: see [`Superblock::take_list`].
    pub index: Vec<(u64, u64)>,
    pub index_len: u64,
    /// Extents of the list of the index's extents, if it has one, and the list's bytes.
    pub list: Vec<(u64, u64)>,
    pub list_len: u64,
    /// Of the index's last part; 0 if it has one alone.
    pub index_crc: u32,
}

/// Extents that a superblock has room for.
const ROOM: usize = 256;
// An extent takes 6 bytes for its first block and 3 for their number, at most, and the rest of a superblock less than 256.
const _: () = assert!(ROOM * 9 + 256 <= BLOCK as usize);
/// With more extents, the index has a list. Tests make one of the smallest indexes, so that all of them meet it.
pub const EXTENTS_MAX: usize = if cfg!(test) { 2 } else { ROOM };

/// In front of a list: crc u32 of all behind it, this, and how many extents there are.
const LIST_MAGIC: u32 = u32::from_le_bytes(*b"HXLS");

/// The list of an index's extents, as it is stored.
pub fn encode_list(index: &[(u64, u64)], seed: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + index.len() * 8);
    out.put_u32(0);
    out.put_u32(LIST_MAGIC);
    out.put_var(index.len() as u64);
    for (block, blocks) in index {
        out.put_var(*block);
        out.put_var(*blocks);
    }
    let crc = base::crc32c(seed, &out[4..]);
    out[..4].copy_from_slice(&crc.to_le_bytes());
    out
}

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

fn close_block(role: u8, version: u32, uuid: &[u8; 16], body: &[u8]) -> Bytes {
    let mut out = disk::AlignedBuf::with_capacity(BLOCK as usize);
    out.push(MAGIC);
    out.push(&version.to_le_bytes());
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
    close_block(role, VERSION, uuid, &[])
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
    /// The store is of this program's version.
    pub fn is_final(&self) -> bool {
        self.version == VERSION
    }
    /// Its cells may have several places.
    pub fn has_places(&self) -> bool {
        self.version >= WITH_PLACES
    }
    /// Its large attributes lie in cells.
    pub fn has_attr_cells(&self) -> bool {
        self.version >= WITH_ATTR_CELLS
    }
    /// The form in which its index is stored.
    pub fn index_form(&self) -> Form {
        match self.version {
            WITH_INDEX_BLOCKS.. => Form::Blocks,
            WITH_INDEX_PARTS.. => Form::Changes,
            _ => Form::Alone,
        }
    }
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        let index = if self.list.is_empty() { &self.index[..] } else { &[] };
        for v in [self.generation, self.data_blocks, self.wal_blocks, self.meta_blocks, u64::from(self.epoch), self.epoch_seq] {
            out.put_var(v);
        }
        for v in [self.wal_seq, self.wal_at, self.next_nid, self.next_leaf, self.index_len, index.len() as u64] {
            out.put_var(v);
        }
        for (block, blocks) in index {
            out.put_var(*block);
            out.put_var(*blocks);
        }
        out.put_var(self.list_len);
        out.put_var(self.list.len() as u64);
        for (block, blocks) in &self.list {
            out.put_var(*block);
            out.put_var(*blocks);
        }
        out.put_var(u64::from(self.index_crc));
        close_block(2, self.version, &self.uuid, &out)
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
            ..Self::default()
        };
        for _ in 0..get.count(2)? {
            sb.index.push((get.var()?, get.var()?));
        }
        // Zeros, before version 5.
        sb.list_len = get.var()?;
        for _ in 0..get.count(2)? {
            sb.list.push((get.var()?, get.var()?));
        }
        // Zero, before version 10.
        sb.index_crc = get.var()? as u32;
        Ok(sb)
    }
    /// Takes the index's extents from their list.
    pub fn take_list(&mut self, bytes: Bytes, seed: u32) -> Result<(), Corrupt> {
        let bytes = bytes.slice(..bytes.len().min(usize::try_from(self.list_len).unwrap_or(usize::MAX)));
        let mut get = Get::new(bytes.clone());
        if get.u32()? != base::crc32c(seed, bytes.get(4..).unwrap_or_default()) || get.u32()? != LIST_MAGIC {
            return Err(Corrupt("the list of the index's pieces has not its magic and crc"));
        }
        self.index = (0..get.count(2)?).map(|_| Ok((get.var()?, get.var()?))).collect::<Result<_, Corrupt>>()?;
        Ok(())
    }
    pub fn decode(block: &Bytes) -> Label<Self> {
        match open_block(block, 2) {
            Label::Ours(get) => Self::fields(get).map_or(Label::None, |sb| {
                let version = u32::from_le_bytes([block[16], block[17], block[18], block[19]]);
                Label::Ours(Self { version: version.max(UNFINALIZED), ..sb })
            }),
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
        let extents = vec![(1 << 40, 3); ROOM];
        let listed = Superblock { uuid: [3; 16], version: UNFINALIZED, list: extents.clone(), list_len: 1 << 30, ..Superblock::default() };
        assert_eq!(Superblock::decode(&listed.encode()), Label::Ours(listed));
        let sb =
            Superblock { uuid: [3; 16], version: VERSION, generation: 9, index: extents, index_crc: u32::MAX, ..Superblock::default() };
        let block = sb.encode();
        assert_eq!(Superblock::decode(&block), Label::Ours(sb));
        for at in [0, 21, 24, 30, 100, 4095] {
            let mut bad = block.to_vec();
            bad[at] ^= 1;
            assert_eq!(Superblock::decode(&bad.into()), Label::None);
        }
        let mut other = block.to_vec();
        other[16] = VERSION as u8 + 1;
        assert_eq!(Superblock::decode(&other.into()), Label::Version(VERSION + 1));
        assert_eq!(read_label(&label(1, &[4; 16]), 1), Label::Ours([4; 16]));
        assert_eq!(read_label(&label(1, &[4; 16]), 0), Label::None);
    }

    #[test]
    fn a_list_has_any_number_of_pieces() {
        for n in [0, 1, ROOM as u64 + 1, 150_000] {
            let index: Vec<(u64, u64)> = (0..n).map(|i| (i * 7919 % (1 << 41), 1 + i % 20)).collect();
            let mut bytes = encode_list(&index, 5);
            let mut sb = Superblock { list: vec![(9, 1)], list_len: bytes.len() as u64, ..Superblock::default() };
            // As it is read: to the end of its last block.
            bytes.resize(bytes.len().next_multiple_of(BLOCK as usize), 0);
            sb.take_list(bytes.clone().into(), 5).expect("it is whole");
            assert_eq!(sb.index, index);
            assert!(sb.take_list(bytes.clone().into(), 6).is_err(), "of another store");
            for at in [0, 5, 8, sb.list_len as usize - 1] {
                let mut bad = bytes.clone();
                bad[at] ^= 1;
                assert!(sb.take_list(bad.into(), 5).is_err(), "{n} pieces, byte {at}");
            }
        }
        assert!(Superblock::default().take_list(Bytes::new(), 5).is_err());
    }
}
