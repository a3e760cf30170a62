//! The changes that records of the log are made of: small, absolute, and applied by one function when they happen and when they are replayed.
//!
//! A change of an object is to the object that the last [`Op::Object`] named.

use crate::rows::codec::{Corrupt, Get, Put};
use bytes::Bytes;
use types::CollId;

/// One change. `B` is how bytes are held: borrowed where it happens, shared where it is replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op<B> {
    /// The object that the following changes are to: its key.
    Object(B),
    /// It is there, if it was not: with this number.
    Create {
        nid: u64,
    },
    /// It and all that is its.
    Remove,
    Size(u64),
    /// The cell has an empty place; what it had is freed.
    Map {
        cell: u64,
        place: u64,
        slots: u64,
    },
    /// The cell has one more place, an empty one, for its blocks from `first` on.
    Part {
        cell: u64,
        first: u64,
        place: u64,
        slots: u64,
    },
    /// The cell has no place.
    Unmap {
        cell: u64,
    },
    /// The next image of the record is the block's content; `at` is its place.
    Image {
        cell: u64,
        block: u64,
        at: u64,
        crc: u32,
    },
    /// These blocks were written to `at`, which is in the cell's place: 4 bytes of crc for each.
    Direct {
        cell: u64,
        block: u64,
        at: u64,
        crcs: B,
    },
    /// These blocks are zeros.
    Clear {
        cell: u64,
        mask: u16,
    },
    /// Nothing shares the cell's place any more, the only one that it has.
    Unshare {
        cell: u64,
    },
    /// Nothing shares this one of the cell's places any more.
    UnsharePart {
        cell: u64,
        place: u64,
    },
    /// The block can't be read, whatever it has: it was damaged when a part of it was written.
    Spoil {
        cell: u64,
        block: u64,
    },
    /// All bytes of the object's blocks that nothing was written to, as in its row.
    Unwritten(B),
    SetAttr {
        name: B,
        value: B,
    },
    /// A value of the same length, of which these bytes change: runs of (distance, length, bytes).
    PatchAttr {
        name: B,
        runs: B,
    },
    /// The value lies in these cells: see `attr_cells`.
    LargeAttr {
        name: B,
        index: u64,
        len: u64,
    },
    RmAttr {
        name: B,
    },
    RmAttrs,
    Hint {
        object_size: u64,
        write_size: u64,
        flags: u32,
    },
    OmapSet {
        key: B,
        value: B,
    },
    OmapRm {
        key: B,
    },
    OmapRmRange {
        first: B,
        last: B,
    },
    OmapHeader(B),
    OmapClear,
    /// The object with this key shares all chunks, and has a copy of the rest but omap; what it was is removed.
    CloneTo {
        key: B,
        nid: u64,
    },
    /// The object with this key shares all chunks and omap, and has a copy of the rest; what it was is removed. Rows of the object's own omap are a
    /// layer from here on, and it goes on with this number; 0: it has none.
    ShareTo {
        key: B,
        nid: u64,
        own: u64,
    },
    /// The object has this key instead; what had it is removed.
    RenameTo(B),
    MkColl {
        coll: B,
        bits: u32,
    },
    RmColl {
        coll: B,
    },
    /// A change of a group's memory; see `pg`.
    Log(B),
    /// Changes that lie beside the record, in its order here: so many bytes with this crc, in these chunks of the data device, a number each. The next
    /// images of the record are theirs: 4 bytes of crc for each.
    Spill {
        len: u64,
        crc: u32,
        chunks: B,
        images: B,
    },
}

mod code {
    pub const OBJECT: u8 = 1;
    pub const CREATE: u8 = 2;
    pub const REMOVE: u8 = 3;
    pub const SIZE: u8 = 4;
    pub const MAP: u8 = 5;
    pub const UNMAP: u8 = 6;
    pub const IMAGE: u8 = 7;
    pub const DIRECT: u8 = 8;
    pub const CLEAR: u8 = 9;
    pub const UNSHARE: u8 = 10;
    pub const SET_ATTR: u8 = 11;
    pub const PATCH_ATTR: u8 = 12;
    pub const RM_ATTR: u8 = 13;
    pub const RM_ATTRS: u8 = 14;
    pub const HINT: u8 = 15;
    pub const OMAP_SET: u8 = 16;
    pub const OMAP_RM: u8 = 17;
    pub const OMAP_RM_RANGE: u8 = 18;
    pub const OMAP_HEADER: u8 = 19;
    pub const OMAP_CLEAR: u8 = 20;
    pub const CLONE_TO: u8 = 21;
    pub const RENAME_TO: u8 = 22;
    pub const MK_COLL: u8 = 23;
    pub const RM_COLL: u8 = 24;
    pub const LOG: u8 = 25;
    pub const SPILL: u8 = 26;
    pub const SHARE_TO: u8 = 27;
    pub const SPOIL: u8 = 28;
    pub const UNWRITTEN: u8 = 29;
    pub const PART: u8 = 30;
    pub const UNSHARE_PART: u8 = 31;
    pub const LARGE_ATTR: u8 = 32;
}

impl<B: AsRef<[u8]>> Op<B> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Op::Object(key) => {
                out.put_u8(code::OBJECT);
                out.put_blob(key.as_ref());
            }
            Op::Create { nid } => {
                out.put_u8(code::CREATE);
                out.put_var(*nid);
            }
            Op::Remove => out.put_u8(code::REMOVE),
            Op::Size(size) => {
                out.put_u8(code::SIZE);
                out.put_var(*size);
            }
            Op::Map { cell, place, slots } => {
                out.put_u8(code::MAP);
                out.put_var(*cell);
                out.put_var(*place);
                out.put_u8(*slots as u8);
            }
            Op::Part { cell, first, place, slots } => {
                out.put_u8(code::PART);
                out.put_var(cell << 4 | first);
                out.put_var(*place);
                out.put_u8(*slots as u8);
            }
            Op::Unmap { cell } => {
                out.put_u8(code::UNMAP);
                out.put_var(*cell);
            }
            Op::Image { cell, block, at, crc } => {
                out.put_u8(code::IMAGE);
                out.put_var(cell << 4 | block);
                out.put_var(*at);
                out.put_u32(*crc);
            }
            Op::Direct { cell, block, at, crcs } => {
                out.put_u8(code::DIRECT);
                out.put_var(cell << 4 | block);
                out.put_var(*at);
                out.put_blob(crcs.as_ref());
            }
            Op::Clear { cell, mask } => {
                out.put_u8(code::CLEAR);
                out.put_var(*cell);
                out.put_u16(*mask);
            }
            Op::Unshare { cell } => {
                out.put_u8(code::UNSHARE);
                out.put_var(*cell);
            }
            Op::UnsharePart { cell, place } => {
                out.put_u8(code::UNSHARE_PART);
                out.put_var(*cell);
                out.put_var(*place);
            }
            Op::Spoil { cell, block } => {
                out.put_u8(code::SPOIL);
                out.put_var(cell << 4 | block);
            }
            Op::Unwritten(ranges) => {
                out.put_u8(code::UNWRITTEN);
                out.put_blob(ranges.as_ref());
            }
            Op::SetAttr { name, value } => {
                out.put_u8(code::SET_ATTR);
                out.put_blob(name.as_ref());
                out.put_blob(value.as_ref());
            }
            Op::PatchAttr { name, runs } => {
                out.put_u8(code::PATCH_ATTR);
                out.put_blob(name.as_ref());
                out.put_blob(runs.as_ref());
            }
            Op::LargeAttr { name, index, len } => {
                out.put_u8(code::LARGE_ATTR);
                out.put_blob(name.as_ref());
                out.put_var(*index);
                out.put_var(*len);
            }
            Op::RmAttr { name } => {
                out.put_u8(code::RM_ATTR);
                out.put_blob(name.as_ref());
            }
            Op::RmAttrs => out.put_u8(code::RM_ATTRS),
            Op::Hint { object_size, write_size, flags } => {
                out.put_u8(code::HINT);
                out.put_var(*object_size);
                out.put_var(*write_size);
                out.put_var(u64::from(*flags));
            }
            Op::OmapSet { key, value } => {
                out.put_u8(code::OMAP_SET);
                out.put_blob(key.as_ref());
                out.put_blob(value.as_ref());
            }
            Op::OmapRm { key } => {
                out.put_u8(code::OMAP_RM);
                out.put_blob(key.as_ref());
            }
            Op::OmapRmRange { first, last } => {
                out.put_u8(code::OMAP_RM_RANGE);
                out.put_blob(first.as_ref());
                out.put_blob(last.as_ref());
            }
            Op::OmapHeader(header) => {
                out.put_u8(code::OMAP_HEADER);
                out.put_blob(header.as_ref());
            }
            Op::OmapClear => out.put_u8(code::OMAP_CLEAR),
            Op::CloneTo { key, nid } => {
                out.put_u8(code::CLONE_TO);
                out.put_blob(key.as_ref());
                out.put_var(*nid);
            }
            Op::ShareTo { key, nid, own } => {
                out.put_u8(code::SHARE_TO);
                out.put_blob(key.as_ref());
                out.put_var(*nid);
                out.put_var(*own);
            }
            Op::RenameTo(key) => {
                out.put_u8(code::RENAME_TO);
                out.put_blob(key.as_ref());
            }
            Op::MkColl { coll, bits } => {
                out.put_u8(code::MK_COLL);
                out.put_blob(coll.as_ref());
                out.put_var(u64::from(*bits));
            }
            Op::RmColl { coll } => {
                out.put_u8(code::RM_COLL);
                out.put_blob(coll.as_ref());
            }
            Op::Log(delta) => {
                out.put_u8(code::LOG);
                out.put_blob(delta.as_ref());
            }
            Op::Spill { len, crc, chunks, images } => {
                out.put_u8(code::SPILL);
                out.put_var(*len);
                out.put_u32(*crc);
                out.put_blob(chunks.as_ref());
                out.put_blob(images.as_ref());
            }
        }
    }
}

impl Op<Bytes> {
    pub fn decode(get: &mut Get) -> Result<Self, Corrupt> {
        let cell = |v: u64| (v < crate::open::layout::CELLS_END).then_some(v).ok_or(Corrupt("a cell is out of bounds"));
        Ok(match get.u8()? {
            code::OBJECT => Op::Object(get.blob()?),
            code::CREATE => Op::Create { nid: get.var()? },
            code::REMOVE => Op::Remove,
            code::SIZE => Op::Size(get.var()?),
            code::MAP => {
                let (cell, place, slots) = (cell(get.var()?)?, get.var()?, u64::from(get.u8()?));
                if slots == 0 || place % 16 + slots > 16 {
                    return Err(Corrupt("a place is malformed"));
                }
                Op::Map { cell, place, slots }
            }
            code::PART => {
                let v = get.var()?;
                let (cell, first, place, slots) = (cell(v >> 4)?, v & 15, get.var()?, u64::from(get.u8()?));
                if slots == 0 || place % 16 + slots > 16 || first + slots > 16 {
                    return Err(Corrupt("a place is malformed"));
                }
                Op::Part { cell, first, place, slots }
            }
            code::UNMAP => Op::Unmap { cell: cell(get.var()?)? },
            code::IMAGE => {
                let v = get.var()?;
                Op::Image { cell: cell(v >> 4)?, block: v & 15, at: get.var()?, crc: get.u32()? }
            }
            code::DIRECT => {
                let v = get.var()?;
                let (cell, block, at, crcs) = (cell(v >> 4)?, v & 15, get.var()?, get.blob()?);
                if crcs.is_empty() || !crcs.len().is_multiple_of(4) || block + crcs.len() as u64 / 4 > 16 {
                    return Err(Corrupt("blocks do not fit into their chunk"));
                }
                Op::Direct { cell, block, at, crcs }
            }
            code::CLEAR => Op::Clear { cell: cell(get.var()?)?, mask: get.u16()? },
            code::UNSHARE => Op::Unshare { cell: cell(get.var()?)? },
            code::UNSHARE_PART => Op::UnsharePart { cell: cell(get.var()?)?, place: get.var()? },
            code::SPOIL => {
                let v = get.var()?;
                Op::Spoil { cell: cell(v >> 4)?, block: v & 15 }
            }
            code::UNWRITTEN => Op::Unwritten(get.blob()?),
            code::SET_ATTR => Op::SetAttr { name: get.blob()?, value: get.blob()? },
            code::PATCH_ATTR => Op::PatchAttr { name: get.blob()?, runs: get.blob()? },
            code::LARGE_ATTR => Op::LargeAttr { name: get.blob()?, index: get.var()?, len: get.var()? },
            code::RM_ATTR => Op::RmAttr { name: get.blob()? },
            code::RM_ATTRS => Op::RmAttrs,
            code::HINT => Op::Hint { object_size: get.var()?, write_size: get.var()?, flags: get.var()? as u32 },
            code::OMAP_SET => Op::OmapSet { key: get.blob()?, value: get.blob()? },
            code::OMAP_RM => Op::OmapRm { key: get.blob()? },
            code::OMAP_RM_RANGE => Op::OmapRmRange { first: get.blob()?, last: get.blob()? },
            code::OMAP_HEADER => Op::OmapHeader(get.blob()?),
            code::OMAP_CLEAR => Op::OmapClear,
            code::CLONE_TO => Op::CloneTo { key: get.blob()?, nid: get.var()? },
            code::SHARE_TO => Op::ShareTo { key: get.blob()?, nid: get.var()?, own: get.var()? },
            code::RENAME_TO => Op::RenameTo(get.blob()?),
            code::MK_COLL => Op::MkColl { coll: get.blob()?, bits: get.var()? as u32 },
            code::RM_COLL => Op::RmColl { coll: get.blob()? },
            code::LOG => Op::Log(get.blob()?),
            code::SPILL => Op::Spill { len: get.var()?, crc: get.u32()?, chunks: get.blob()?, images: get.blob()? },
            _ => return Err(Corrupt("a change of no known kind")),
        })
    }
}

/// The differences of two values of the same length, as [`Op::PatchAttr`] has them; `None` if telling them takes more than half the value.
pub fn runs(old: &[u8], new: &[u8], out: &mut Vec<u8>) -> Option<()> {
    debug_assert_eq!(old.len(), new.len());
    out.clear();
    let (mut at, mut end) = (0, 0);
    while at < new.len() {
        // Skip what is equal, eight bytes at a time.
        while at + 8 <= new.len() && old[at..at + 8] == new[at..at + 8] {
            at += 8;
        }
        while at < new.len() && old[at] == new[at] {
            at += 1;
        }
        if at == new.len() {
            break;
        }
        // A run ends where three bytes are equal: starting another costs two.
        let (start, mut last) = (at, at);
        while at < new.len() && at - last < 3 {
            if old[at] != new[at] {
                last = at;
            }
            at += 1;
        }
        out.put_var((start - end) as u64);
        out.put_blob(&new[start..=last]);
        end = last + 1;
        at = end;
        if out.len() > new.len() / 2 {
            return None;
        }
    }
    Some(())
}

/// Puts differences into the old value.
pub fn patch(value: &mut [u8], runs: &[u8]) -> Result<(), Corrupt> {
    const OUTSIDE: Corrupt = Corrupt("a difference lies outside its value");
    let (mut get, mut at) = (Get::new(runs), 0usize);
    while !get.is_empty() {
        at = at.saturating_add(usize::try_from(get.var()?).map_err(|_| OUTSIDE)?);
        let bytes = get.slice()?;
        let end = at.saturating_add(bytes.len());
        value.get_mut(at..end).ok_or(OUTSIDE)?.copy_from_slice(bytes);
        at = end;
    }
    Ok(())
}

pub fn coll_bytes(coll: CollId) -> Bytes {
    denc::Denc::to_bytes(&coll, denc::ALL_FEATURES)
}
pub fn parse_coll(bytes: &Bytes) -> Result<CollId, Corrupt> {
    denc::Denc::from_bytes(bytes).map_err(|_| Corrupt("no collection's name"))
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back() {
        let b = Bytes::from_static;
        let all = [
            Op::Object(b(b"key")),
            Op::Create { nid: 5 },
            Op::Map { cell: 3, place: 33, slots: 15 },
            Op::Part { cell: 3, first: 5, place: 32, slots: 11 },
            Op::UnsharePart { cell: 1 << 20, place: 1 << 40 },
            Op::Image { cell: 7, block: 15, at: 300, crc: 9 },
            Op::Direct { cell: 7, block: 14, at: 300, crcs: b(b"12345678") },
            Op::Clear { cell: 1, mask: 0xfff0 },
            Op::Spoil { cell: 9, block: 15 },
            Op::Unwritten(b(&[1, 5, 6])),
            Op::PatchAttr { name: b(b"_"), runs: b(b"") },
            Op::OmapRmRange { first: b(b"a"), last: b(b"b") },
            Op::CloneTo { key: b(b"k"), nid: 1 << 50 },
            Op::MkColl { coll: b(b"c"), bits: 3 },
            Op::ShareTo { key: b(b"k"), nid: 7, own: 8 },
            Op::Spill { len: 1 << 33, crc: 7, chunks: b(&[5, 6]), images: b(b"1234") },
        ];
        let mut out = Vec::new();
        all.iter().for_each(|op| op.encode(&mut out));
        let mut get = Get::new(out.into());
        for op in &all {
            assert_eq!(&Op::decode(&mut get).unwrap(), op);
        }
        assert!(get.is_empty());
        assert!(Op::decode(&mut Get::new(b(&[5, 0, 15, 2]))).is_err());
    }

    #[test]
    fn differences_make_the_new_value() {
        let mut rng = base::Rng::new(3);
        for _ in 0..2000 {
            let mut old = vec![0; rng.below(300) as usize];
            rng.fill(&mut old);
            let mut new = old.clone();
            for _ in 0..rng.below(8) {
                if !new.is_empty() {
                    let at = rng.below(new.len() as u64) as usize;
                    new[at] = rng.u64() as u8;
                }
            }
            let mut out = Vec::new();
            if runs(&old, &new, &mut out).is_some() {
                let mut value = old.clone();
                patch(&mut value, &out).unwrap();
                assert_eq!(value, new);
            }
        }
        assert!(patch(&mut [0; 4], &[3, 2, 1, 1]).is_err());
    }
}
