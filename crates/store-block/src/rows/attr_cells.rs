//! Large attributes: their values lie in cells behind the object's data, so that the object's row stays small, and nothing else
//! becomes slower.
//!
//! ```text
//! cell 0 ── the object's data ── OBJECT_MAX │ attribute 0: ATTR_ROOM bytes │ attribute 1 │ …
//! ```
//! A row has the name, the number of the room and the length of each; the rest are cells as others are. So clones share them, a removal
//! gives them back, and each block has its crc. A value is written anew as a whole: nothing of a former one is read.
//!
//! Holds what large attributes are, how one is set, freed and read, and what a check looks at. Absent: small ones ([`crate::rows::attrs`]).

use crate::data::ops::Op;
use crate::data::read::beyond;
use crate::data::write::Target;
use crate::open::layout::{ATTR_ROOM, ATTRS_MAX, BLOCK, CHUNK, CHUNK_BLOCKS, OBJECT_MAX};
use crate::planted::{Bug, planted};
use crate::rows::codec::{Corrupt, Get, Put};
use crate::rows::onode::Onode;
use crate::state::{Core, ask};
use bytes::Bytes;
use std::ops::Range;
use store::{AttrsMax, StoreResult};
use types::{ByteStr, CollId};

/// A longer value lies in cells.
const SMALL_MAX: usize = if cfg!(test) { 1000 } else { 64 << 10 };
/// Bytes of a row that a large attribute takes, roughly, beside its cells' places.
pub const ENTRY_BYTES: usize = 64;
/// The bounds of a store whose version has no such cells: there all is in the row.
pub const MAX_WITHOUT: AttrsMax = AttrsMax { one: 64 << 10, all: 1 << 20 };

/// True for a value that lies in cells, in a store that has them.
pub fn is_large(len: usize) -> bool {
    len > SMALL_MAX && len as u64 <= ATTR_ROOM
}

/// A large attribute, as the object's row has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Large {
    name: Box<[u8]>,
    /// Which room its value has.
    index: u64,
    len: u64,
}

impl Large {
    pub fn new(name: &[u8], index: u64, len: u64) -> Result<Self, Corrupt> {
        if index >= ATTRS_MAX || len > ATTR_ROOM {
            return Err(Corrupt("a large attribute is out of bounds"));
        }
        Ok(Self { name: name.into(), index, len })
    }
    pub fn name(&self) -> &[u8] {
        &self.name
    }
    /// Bytes of the value.
    #[allow(clippy::len_without_is_empty)] // none is empty
    pub fn len(&self) -> u64 {
        self.len
    }
    /// Bytes of memory, roughly.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.name.len()
    }
    fn start(&self) -> u64 {
        OBJECT_MAX + self.index * ATTR_ROOM
    }
    /// Where its value lies, in bytes.
    fn range(&self) -> Range<u64> {
        self.start()..self.start() + self.len
    }
    /// The cells of its room.
    fn cells(&self) -> Range<u64> {
        self.start() / CHUNK..(self.start() + ATTR_ROOM) / CHUNK
    }
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_blob(&self.name);
        out.put_var(self.index);
        out.put_var(self.len);
    }
    pub fn decode<B: AsRef<[u8]>>(get: &mut Get<B>) -> Result<Self, Corrupt> {
        let name: Box<[u8]> = get.slice()?.into();
        Self::new(&name, get.var()?, get.var()?)
    }
}

/// The first room that none of the object's attributes has.
fn free_index(node: &Onode, but: &[u8]) -> Option<u64> {
    let mut taken: Vec<u64> = node.large().iter().filter(|large| large.name() != but).map(|large| large.index).collect();
    taken.sort_unstable();
    let free = taken.iter().zip(0..).take_while(|(index, n)| *index == n).count() as u64;
    (free < ATTRS_MAX).then_some(free)
}

/// Faults of an object's large attributes, in sentences: rooms that two have, blocks without an owner, values with holes.
pub fn check(node: &Onode) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut rooms: Vec<u64> = node.large().iter().map(|large| large.index).collect();
    rooms.sort_unstable();
    rooms.windows(2).filter(|pair| pair[0] == pair[1]).for_each(|pair| wrong.push(format!("two large attributes have room {}", pair[0])));
    for large in node.large() {
        let has = |block: &u64| node.holder(block / CHUNK_BLOCKS, block % CHUNK_BLOCKS).is_some();
        let range = large.range();
        if !(range.start / BLOCK..range.end.div_ceil(BLOCK)).all(|block| has(&block)) {
            wrong.push(format!("the value of the large attribute in room {} has holes", large.index));
        }
    }
    let first = node.chunks.partition_point(|chunk| chunk.cell < OBJECT_MAX / CHUNK);
    let stray = node.chunks[first..].iter().find(|chunk| !node.large().iter().any(|large| large.cells().contains(&chunk.cell)));
    wrong.extend(stray.map(|chunk| format!("cell {} is of no attribute", chunk.cell)));
    wrong
}

/// Sets an attribute, small or large.
pub fn put(core: &mut Core, t: &mut Target, name: &[u8], value: &Bytes) -> StoreResult<()> {
    let goes_to_cells = is_large(value.len()) && core.sb.has_attr_cells();
    let room = core.objects.node(t.slot).filter(|_| goes_to_cells).and_then(|node| free_index(node, name));
    free(core, t.slot, |large| large.name() == name)?;
    match room {
        None => core.set_attr(t.slot, name, value),
        Some(index) => {
            let len = value.len() as u64;
            core.write_fresh(t, OBJECT_MAX + index * ATTR_ROOM, value)?;
            core.change(t.slot, Op::LargeAttr { name, index, len })
        }
    }
}
/// Frees the cells of some of an object's large attributes. A change that takes their names away, or sets them anew, follows.
pub fn free(core: &mut Core, slot: u32, which: impl Fn(&Large) -> bool) -> StoreResult<()> {
    let Some(node) = core.objects.node(slot).filter(|node| !node.large().is_empty()) else { return Ok(()) };
    let gone: Vec<Range<u64>> = node.large().iter().filter(|large| which(large)).map(Large::cells).collect();
    let mut cells: Vec<u64> =
        node.chunks.iter().map(|chunk| chunk.cell).filter(|cell| gone.iter().any(|range| range.contains(cell))).collect();
    cells.dedup();
    if planted(Bug::KeepLargeAttr) {
        cells.pop();
    }
    cells.into_iter().try_for_each(|cell| core.change::<&[u8]>(slot, Op::Unmap { cell }))
}
/// An attribute of an object that is in memory.
pub fn get(core: &mut Core, coll: CollId, slot: u32, name: &[u8]) -> StoreResult<Option<Bytes>> {
    let node = core.objects.node(slot).expect("it was found");
    if let Some(value) = node.attrs.get(name) {
        return Ok(Some(Bytes::copy_from_slice(value)));
    }
    let Some(range) = node.large().iter().find(|large| large.name() == name).map(Large::range) else { return Ok(None) };
    Ok(beyond(core, &mut Target { coll, slot, ticket: ask() }, &[range])?.pop())
}
/// All of them, ascending by name.
pub fn all(core: &mut Core, coll: CollId, slot: u32) -> StoreResult<Vec<(ByteStr, Bytes)>> {
    let node = core.objects.node(slot).expect("it was found");
    let mut all: Vec<(ByteStr, Bytes)> =
        node.attrs.iter().map(|(name, value)| (ByteStr::from(name), Bytes::copy_from_slice(value))).collect();
    if node.large().is_empty() {
        return Ok(all);
    }
    let names: Vec<ByteStr> = node.large().iter().map(|large| ByteStr::from(large.name())).collect();
    let ranges: Vec<Range<u64>> = node.large().iter().map(Large::range).collect();
    let values = beyond(core, &mut Target { coll, slot, ticket: ask() }, &ranges)?;
    all.extend(names.into_iter().zip(values));
    all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(rooms: &[(&str, u64)]) -> Onode {
        let mut node = Onode::new(1);
        rooms.iter().for_each(|(name, index)| node.set_large(Large::new(name.as_bytes(), *index, 5000).expect("within bounds")));
        node
    }

    #[test]
    fn rooms_are_given_once_and_again_when_they_are_free() {
        assert_eq!(free_index(&node(&[]), b"a"), Some(0));
        assert_eq!(free_index(&node(&[("a", 0), ("c", 1)]), b"b"), Some(2));
        assert_eq!(free_index(&node(&[("a", 0), ("c", 2)]), b"b"), Some(1));
        assert_eq!(free_index(&node(&[("a", 0), ("c", 1)]), b"a"), Some(0), "what is replaced gives its own back");
        assert!(Large::new(b"a", ATTRS_MAX, 1).is_err() && Large::new(b"a", 0, ATTR_ROOM + 1).is_err());
    }

    #[test]
    fn a_value_with_holes_and_a_cell_of_no_attribute_are_told() {
        use crate::rows::onode::Chunk;
        let mut one = node(&[("a", 1)]);
        assert!(check(&one)[0].contains("room 1 has holes"), "{:?}", check(&one));
        let cell = (OBJECT_MAX + ATTR_ROOM) / CHUNK;
        let mut chunk = Chunk::new(cell, 32, 2);
        (0..2).for_each(|block| chunk.set(block, 7));
        one.replace(cell, Some(chunk.clone()));
        assert!(check(&one).is_empty(), "{:?}", check(&one));
        let mut row = Vec::new();
        one.encode(&mut row);
        assert_eq!(Onode::decode(row), Ok(one.clone()));
        one.forget_large(b"a");
        assert!(check(&one)[0].contains("of no attribute"), "{:?}", check(&one));
        let two = node(&[("a", 3), ("b", 3)]);
        assert!(check(&two)[0].contains("two large attributes have room 3"), "{:?}", check(&two));
    }
}
