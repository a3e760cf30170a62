//! What the store knows of one object besides its bytes: size, attributes, where its chunks are and the crc of each of their blocks.

use crate::open::layout::{CELLS_END, CHUNK_BLOCKS, OBJECT_MAX};
use crate::rows::attr_cells::Large;
use crate::rows::attrs::Attrs;
use crate::rows::codec::{Corrupt, Get, Put};
use smallvec::SmallVec;
use std::ops::Range;
use store::Unwritten;
use types::IntervalSet;

/// Crcs of a chunk that need no memory of their own.
const CRCS_HERE: usize = 4;

/// A place that a cell of an object's grid has. Most cells have one; one has several where a block was written beside what clones share, or where
/// no run of free blocks was long enough: each block is in one of them at most. Blocks without their bit in any `mask` are zeros, whatever is at the
/// places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Which cell of 64 KiB.
    pub cell: u64,
    /// Of its first block.
    pub place: u64,
    /// Which block of the cell that is.
    pub first: u8,
    /// Other objects may have the same place: it is not written to.
    pub shared: bool,
    /// By the cell's blocks.
    pub mask: u16,
    /// By the place's blocks; its length is how many there are. What is not in `mask` is 0. Here for small objects: memory that is read one piece
    /// after the other is most of what finding a block costs.
    pub crcs: SmallVec<[u32; CRCS_HERE]>,
}

impl Chunk {
    /// Without data yet.
    pub fn new(cell: u64, place: u64, slots: u64) -> Self {
        Self { cell, place, first: 0, shared: false, mask: 0, crcs: SmallVec::from_elem(0, slots as usize) }
    }
    /// One more place of a cell, for its blocks from `first` on.
    pub fn part(cell: u64, first: u64, place: u64, slots: u64) -> Self {
        Self { first: first as u8, ..Self::new(cell, place, slots) }
    }
    pub fn slots(&self) -> u64 {
        self.crcs.len() as u64
    }
    pub fn has(&self, block: u64) -> bool {
        block < CHUNK_BLOCKS && self.mask & 1 << block != 0
    }
    /// The cell's blocks that the place is for.
    pub fn blocks(&self) -> Range<u64> {
        let first = u64::from(self.first);
        first..first + self.slots()
    }
    /// Where that block of the cell is, if the place is for it.
    pub fn at(&self, block: u64) -> u64 {
        debug_assert!(self.blocks().contains(&block));
        self.place + block - u64::from(self.first)
    }
    /// Of that block of the cell.
    pub fn crc(&self, block: u64) -> u32 {
        self.crcs[(block - u64::from(self.first)) as usize]
    }
    pub fn set(&mut self, block: u64, crc: u32) {
        self.mask |= 1 << block;
        self.crcs[(block - u64::from(self.first)) as usize] = crc;
    }
    /// Blocks of the cell are not here any more.
    pub fn clear(&mut self, mask: u16) {
        self.mask &= !mask;
        let first = self.first;
        self.crcs.iter_mut().zip(u32::from(first)..).filter(|(_, block)| mask & 1 << block != 0).for_each(|(crc, _)| *crc = 0);
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hint {
    pub object_size: u64,
    pub write_size: u64,
    pub flags: u32,
}

/// What few objects have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rare {
    hint: Hint,
    base: u64,
    unwritten: Unwritten,
    /// Ascending by name; none of them is among the object's `attrs`.
    large: Vec<Large>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Onode {
    /// What the rows of its omap are found by; stays when the object is renamed.
    pub nid: u64,
    pub size: u64,
    /// If there is something of it.
    rare: Option<Box<Rare>>,
    pub attrs: Attrs,
    /// Ascending by cell; places of one cell in the order in which it got them.
    pub chunks: SmallVec<[Chunk; 1]>,
    /// Blocks of all chunks' places.
    pub blocks: u64,
    /// False: there is no row of its omap, but for those of the layers that it stands on.
    pub omap: bool,
    /// Keys and values that were put, not less than there are: what was replaced is not subtracted.
    pub omap_bytes: u64,
}

// An allocation of its own for each object in memory.
const _: () = assert!(size_of::<Onode>() <= 128);

/// What an object takes, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of all of its chunks, also of those that other objects have too.
    pub data: i64,
    /// What of `data` is there once and counted more than once: of several objects together only, an object alone does not know.
    pub again: i64,
    pub stored: i64,
    pub omap: i64,
    pub objects: i64,
}

impl Usage {
    /// Replaces what an object took by what it takes.
    pub fn change(&mut self, before: Usage, after: Usage) {
        self.data += after.data - before.data;
        self.again += after.again - before.again;
        self.stored += after.stored - before.stored;
        self.omap += after.omap - before.omap;
        self.objects += after.objects - before.objects;
    }
}

impl Onode {
    pub fn new(nid: u64) -> Self {
        Self { nid, ..Self::default() }
    }
    /// One that has nothing but a number, and a layer to stand on.
    pub fn on(nid: u64, base: u64) -> Self {
        let mut node = Self::new(nid);
        node.set_base(base);
        node
    }
    pub fn hint(&self) -> Hint {
        self.rare.as_deref().map(|rare| rare.hint.clone()).unwrap_or_default()
    }
    pub fn set_hint(&mut self, hint: Hint) {
        self.change_rare(|rare| rare.hint = hint);
    }
    /// The layer that its omap stands on; 0: none.
    pub fn base(&self) -> u64 {
        self.rare.as_deref().map_or(0, |rare| rare.base)
    }
    pub fn set_base(&mut self, base: u64) {
        self.change_rare(|rare| rare.base = base);
    }
    /// Bytes of its blocks that nothing was written to.
    pub fn unwritten(&self) -> Option<&Unwritten> {
        self.rare.as_deref().map(|rare| &rare.unwritten).filter(|unwritten| !unwritten.is_empty())
    }
    pub fn set_unwritten(&mut self, unwritten: Unwritten) {
        self.change_rare(|rare| rare.unwritten = unwritten);
    }
    /// Attributes whose values lie in cells, ascending by name.
    pub fn large(&self) -> &[Large] {
        self.rare.as_deref().map_or(&[], |rare| &rare.large)
    }
    /// One of them is this from now on.
    pub fn set_large(&mut self, large: Large) {
        self.change_rare(|rare| match rare.large.binary_search_by(|known| known.name().cmp(large.name())) {
            Ok(at) => rare.large[at] = large,
            Err(at) => rare.large.insert(at, large),
        });
    }
    /// None has this name any more.
    pub fn forget_large(&mut self, name: &[u8]) {
        if self.large().iter().any(|large| large.name() == name) {
            self.change_rare(|rare| rare.large.retain(|large| large.name() != name));
        }
    }
    pub fn forget_all_large(&mut self) {
        if !self.large().is_empty() {
            self.change_rare(|rare| rare.large.clear());
        }
    }
    fn change_rare(&mut self, change: impl FnOnce(&mut Rare)) {
        let mut rare = self.rare.take().unwrap_or_default();
        change(&mut rare);
        self.rare = (*rare != Rare::default()).then_some(rare);
    }
    pub fn usage(&self) -> Usage {
        let data = (self.blocks * crate::open::layout::BLOCK) as i64;
        Usage { data, again: 0, stored: data.min(self.size as i64), omap: self.omap_bytes as i64, objects: 1 }
    }
    /// Which of the chunks are the cell's; none, at the place for one, if it has none.
    pub fn find(&self, cell: u64) -> Range<usize> {
        // Without holes in front, and with one place for each before it, a cell's number is its index.
        let guess = cell as usize;
        let first = match self.chunks.get(guess) {
            Some(c) if c.cell == cell && guess.checked_sub(1).is_none_or(|before| self.chunks[before].cell < cell) => guess,
            _ => self.chunks.partition_point(|c| c.cell < cell),
        };
        let places = self.chunks[first..].iter().take_while(|c| c.cell == cell).count();
        first..first + places
    }
    /// The cell has this place and no other, or none; gives back those that it had.
    pub fn replace(&mut self, cell: u64, with: Option<Chunk>) -> SmallVec<[Chunk; 1]> {
        let here = self.find(cell);
        let had = match with {
            // Most often, and of many cells: nothing behind it is moved.
            Some(chunk) if here.len() == 1 => {
                self.blocks += chunk.slots();
                SmallVec::from_elem(std::mem::replace(&mut self.chunks[here.start], chunk), 1)
            }
            with => {
                let had = self.chunks.drain(here.clone()).collect();
                if let Some(chunk) = with {
                    self.blocks += chunk.slots();
                    self.chunks.insert(here.start, chunk);
                }
                had
            }
        };
        self.blocks -= had.iter().map(Chunk::slots).sum::<u64>();
        had
    }
    /// The cell has one more place.
    pub fn add(&mut self, part: Chunk) {
        self.blocks += part.slots();
        self.chunks.insert(self.find(part.cell).end, part);
    }
    /// Blocks of a cell are not in its places any more, but for the one with this number. Places that have nothing then are given back, unless none of
    /// the cell's would be left.
    pub fn clear(&mut self, cell: u64, mask: u16, but: Option<usize>) -> SmallVec<[Chunk; 1]> {
        let (here, mut gone) = (self.find(cell), SmallVec::new());
        let mut left = here.len();
        for i in here.rev().filter(|i| Some(*i) != but) {
            let had = self.chunks[i].mask;
            self.chunks[i].clear(mask);
            if had & mask != 0 && self.chunks[i].mask == 0 && left > 1 {
                left -= 1;
                self.blocks -= self.chunks[i].slots();
                gone.push(self.chunks.remove(i));
            }
        }
        gone
    }
    /// Which of the cell's places has the block.
    pub fn holder(&self, cell: u64, block: u64) -> Option<&Chunk> {
        self.places(cell).iter().find(|chunk| chunk.has(block))
    }
    /// The places of a cell.
    pub fn places(&self, cell: u64) -> &[Chunk] {
        &self.chunks[self.find(cell)]
    }

    /// Bytes of its row that tell where its data are, roughly.
    pub fn places_bytes(&self) -> u64 {
        const PLACE_BYTES: u64 = 12;
        self.chunks.len() as u64 * PLACE_BYTES + self.blocks * 4
    }
    /// Bytes of memory, roughly.
    pub fn memory(&self) -> usize {
        let chunks = if self.chunks.spilled() { self.chunks.capacity() * size_of::<Chunk>() } else { 0 };
        let large = self.large().iter().map(Large::memory).sum::<usize>();
        self.attrs.memory() + large + chunks + if self.blocks as usize > CRCS_HERE { self.blocks as usize * 4 } else { 0 }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_var(self.nid);
        out.put_var(self.size);
        let (hint, base) = (self.rare.as_deref().map(|rare| &rare.hint).filter(|hint| **hint != Hint::default()), self.base());
        let unwritten = self.unwritten();
        out.put_u8(
            u8::from(self.omap)
                | u8::from(hint.is_some()) << 1
                | u8::from(base != 0) << 2
                | u8::from(unwritten.is_some()) << 3
                | u8::from(!self.large().is_empty()) << 4,
        );
        if let Some(hint) = hint {
            out.put_var(hint.object_size);
            out.put_var(hint.write_size);
            out.put_var(u64::from(hint.flags));
        }
        if base != 0 {
            out.put_var(base);
        }
        if self.omap || base != 0 {
            out.put_var(self.omap_bytes);
        }
        if let Some(unwritten) = unwritten {
            put_unwritten(unwritten, out);
        }
        if !self.large().is_empty() {
            out.put_var(self.large().len() as u64);
            self.large().iter().for_each(|large| large.encode(out));
        }
        self.attrs.encode(out);
        out.put_var(self.chunks.len() as u64);
        let (mut cell, mut last) = (0, None);
        for chunk in &self.chunks {
            out.put_var(chunk.cell - cell);
            cell = chunk.cell;
            out.put_var(chunk.place);
            // A first place that begins with the cell is as versions before 8 had it.
            let is_part = chunk.first != 0 || last == Some(chunk.cell);
            last = Some(chunk.cell);
            out.put_u8(chunk.slots() as u8 | u8::from(is_part) << 6 | u8::from(chunk.shared) << 7);
            if is_part {
                out.put_u8(chunk.first);
            }
            out.put_u16(chunk.mask);
            for block in chunk.blocks().filter(|b| chunk.has(*b)) {
                out.put_u32(chunk.crc(block));
            }
        }
    }

    pub fn decode(bytes: impl AsRef<[u8]>) -> Result<Self, Corrupt> {
        if bytes.as_ref() == crate::check::damaged::LOST {
            return Err(Corrupt("it changed while what the metadata said of it could not be read: it is lost"));
        }
        let mut get = Get::new(bytes);
        let mut o = Self { nid: get.var()?, size: get.var()?, ..Self::default() };
        let flags = get.u8()?;
        o.omap = flags & 1 != 0;
        if flags & 2 != 0 {
            o.set_hint(Hint { object_size: get.var()?, write_size: get.var()?, flags: get.var()? as u32 });
        }
        if flags & 4 != 0 {
            o.set_base(get.var()?);
        }
        if o.omap || flags & 4 != 0 {
            o.omap_bytes = get.var()?;
        }
        if flags & 8 != 0 {
            o.set_unwritten(get_unwritten(&mut get)?);
        }
        if flags & 16 != 0 {
            for _ in 0..get.count(3)? {
                let large = Large::decode(&mut get)?;
                if o.large().last().is_some_and(|before| before.name() >= large.name()) {
                    return Err(Corrupt("an object's large attributes are not in order"));
                }
                o.set_large(large);
            }
        }
        o.attrs = Attrs::decode(&mut get)?;
        let (mut cell, mut here) = (0u64, 0);
        let chunks = get.count(5)?;
        o.chunks.reserve_exact(chunks);
        for i in 0..chunks {
            let step = get.var()?;
            cell = cell.checked_add(step).filter(|c| *c < CELLS_END).ok_or(Corrupt("a chunk is out of bounds"))?;
            let (place, slots) = (get.var()?, get.u8()?);
            let is_part = slots & 0x40 != 0;
            if i > 0 && step == 0 && !is_part {
                return Err(Corrupt("a cell has two chunks"));
            }
            let (n, first) = (u64::from(slots & 0x3f), if is_part { u64::from(get.u8()?) } else { 0 });
            let mask = get.u16()?;
            if n == 0
                || place % CHUNK_BLOCKS + n > CHUNK_BLOCKS
                || first + n > CHUNK_BLOCKS
                || u64::from(mask) & !(((1 << n) - 1) << first) != 0
            {
                return Err(Corrupt("a chunk's place is malformed"));
            }
            here = if i > 0 && step == 0 { here } else { 0 };
            if here & mask != 0 {
                return Err(Corrupt("a block of a cell has two places"));
            }
            here |= mask;
            let mut chunk = Chunk { shared: slots & 0x80 != 0, ..Chunk::part(cell, first, place, n) };
            for block in chunk.blocks().filter(|b| mask & 1 << b != 0) {
                chunk.set(block, get.u32()?);
            }
            o.blocks += n;
            o.chunks.push(chunk);
        }
        if !get.is_empty() {
            return Err(Corrupt("an object's row goes on behind its end"));
        }
        Ok(o)
    }
}

/// How many ranges, and each by its distance to the one before and its length.
pub fn put_unwritten(unwritten: &Unwritten, out: &mut Vec<u8>) {
    out.put_var(unwritten.iter().len() as u64);
    let mut end = 0;
    for (start, len) in unwritten.iter() {
        out.put_var(start - end);
        out.put_var(len);
        end = start + len;
    }
}
pub fn get_unwritten<B: AsRef<[u8]>>(get: &mut Get<B>) -> Result<Unwritten, Corrupt> {
    const OUTSIDE: Corrupt = Corrupt("an unwritten range is out of bounds");
    let (mut ranges, mut end) = (IntervalSet::new(), 0u64);
    for _ in 0..get.count(2)? {
        let start = end.checked_add(get.var()?).ok_or(OUTSIDE)?;
        let len = get.var()?;
        end = start.checked_add(len).filter(|end| *end <= OBJECT_MAX).ok_or(OUTSIDE)?;
        ranges.insert(start, len);
    }
    Ok(Unwritten::of(ranges))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_as_it_went() {
        let mut o = Onode { nid: 7, size: 1 << 40, omap: true, omap_bytes: 5, blocks: 19, ..Onode::default() };
        o.set_hint(Hint { object_size: 1 << 22, write_size: 4096, flags: 3 });
        o.set_base(1 << 20);
        o.set_unwritten(Unwritten::of([(5, 10), (4000, 96)].into_iter().collect()));
        assert!((o.hint().flags, o.base()) == (3, 1 << 20));
        for (name, index) in [(b"big", 3), (b"all", 0)] {
            o.set_large(Large::new(name, index, 70_000).unwrap());
        }
        o.attrs.set(b"_", b"info");
        o.attrs.set(b"Z", b"");
        o.chunks = smallvec::smallvec![Chunk::new(0, 32, 16), Chunk { shared: true, ..Chunk::new(9, 51, 3) }, Chunk::part(9, 5, 80, 7)];
        o.blocks += 7;
        o.chunks[0].set(0, 5);
        o.chunks[0].set(15, 6);
        o.chunks[1].set(2, 7);
        o.chunks[2].set(11, 8);
        assert_eq!((o.find(0), o.find(1), o.find(9), o.find(10)), (0..1, 1..1, 1..3, 3..3));
        let mut out = Vec::new();
        o.encode(&mut out);
        assert_eq!(Onode::decode(&out).unwrap(), o);
        for end in 0..out.len() {
            assert!(Onode::decode(&out[..end]).is_err());
        }
    }
}
