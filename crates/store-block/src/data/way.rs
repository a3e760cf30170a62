//! How a part of a cell is written, by what the cell has: see the table of [`crate::data::write`]. Changes nothing and reads no data.

use crate::open::layout::{BLOCK, CHUNK, CHUNK_BLOCKS};
use crate::place::refs::Refs;
use crate::rows::onode::{Chunk, Onode};

/// A part of a cell.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub cell: u64,
    /// Bytes in the cell.
    pub from: u64,
    pub to: u64,
}

impl Part {
    /// It begins and ends with a block.
    pub fn is_aligned(self) -> bool {
        self.from.is_multiple_of(BLOCK) && self.to.is_multiple_of(BLOCK)
    }
}

/// A range's parts, a cell each.
pub fn parts(offset: u64, len: u64) -> impl Iterator<Item = Part> {
    let end = offset + len;
    let cells = if len == 0 { 0..0 } else { offset / CHUNK..end.div_ceil(CHUNK) };
    cells.map(move |cell| Part { cell, from: offset.max(cell * CHUNK) - cell * CHUNK, to: end.min((cell + 1) * CHUNK) - cell * CHUNK })
}

/// What is new and at least so many blocks goes directly to its place.
const DIRECT_BLOCKS: u64 = 8;
// And so does everything new that goes where there was something before, and into holes while many write.
const _: () = assert!(DIRECT_BLOCKS <= CHUNK_BLOCKS);

/// A cell that clones share has at most so many places beside each other, of so many blocks together: then all that it has is moved to one. When the
/// clones are gone, what was replaced of their place is of no use to others, so it is bounded.
const PLACES_MAX: usize = 8;
const PLACES_BLOCKS: u64 = CHUNK_BLOCKS + CHUNK_BLOCKS / 2;
/// And it gets another only if that saves the copy of so many blocks.
const SAVED_MIN: u32 = 4;

/// How a part of a cell is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Images, into places that the cell has.
    InPlace,
    /// One more place, for these blocks.
    Beside { first: u64, slots: u64 },
    /// A place of so many blocks; the cell's old content is not needed.
    New { slots: u64 },
    /// A place of so many blocks, with what the cell has.
    Move { slots: u64 },
}

/// What decides it.
pub struct Ways<'a> {
    pub node: Option<&'a Onode>,
    pub refs: &'a Refs,
    /// The store's version has cells in several places.
    pub has_places: bool,
    /// The change puts no images into the record.
    pub without_images: bool,
    /// Many write.
    pub is_many: bool,
}

impl<'a> Ways<'a> {
    fn has(&self, cell: u64, block: u64) -> bool {
        self.node.is_some_and(|node| node.holder(cell, block).is_some())
    }
    /// Where a block of the cell may be written: in the place of the object's own that has it, or in the last one that has room for it.
    pub fn home(&self, cell: u64, block: u64) -> Option<&'a Chunk> {
        let own = |chunk: &&Chunk| chunk.blocks().contains(&block) && self.is_own(chunk);
        let places = self.node?.places(cell);
        match places {
            [chunk] => Some(chunk).filter(own),
            _ => places.iter().find(|chunk| chunk.has(block)).filter(own).or_else(|| places.iter().rev().find(own)),
        }
    }
    /// No clone has the place, though clones may have had it.
    fn is_own(&self, chunk: &Chunk) -> bool {
        !chunk.shared || self.refs.get(chunk.place) == Some(1)
    }
    /// How a part is written; `size_after` is the object's size when all is.
    pub fn way(&self, part: Part, size_after: u64) -> Way {
        let last_block = (part.to - 1) / BLOCK;
        // The object ends with this part, for all that is known: no more blocks than it needs.
        let tail = part.cell * CHUNK + part.to >= size_after;
        let exact = |from_start: bool| if tail && from_start { last_block + 1 } else { CHUNK_BLOCKS };
        let places = self.node.map_or(&[][..], |node| node.places(part.cell));
        let span = places.iter().map(|c| c.blocks().end).max().unwrap_or(0);
        let mut blocks = part.from / BLOCK..last_block + 1;
        match places {
            _ if part.from == 0 && part.to == CHUNK => Way::New { slots: CHUNK_BLOCKS },
            [] => Way::New { slots: exact(part.from < BLOCK) },
            _ if !self.without_images && blocks.all(|block| self.home(part.cell, block).is_some()) => Way::InPlace,
            // All that there is gets replaced.
            _ if part.from == 0 && part.to >= span * BLOCK => Way::New { slots: exact(true) },
            _ => self.beside(places, part, span).unwrap_or(Way::Move { slots: if last_block < span { span } else { CHUNK_BLOCKS } }),
        }
    }
    /// One more place, if that is worth it: what clones share is not copied then.
    fn beside(&self, places: &[Chunk], part: Part, span: u64) -> Option<Way> {
        let (first, end) = (part.from / BLOCK, part.to.div_ceil(BLOCK));
        let blocks = ((1u32 << end) - (1 << first)) as u16;
        let saved = places.iter().map(|c| (c.mask & !blocks).count_ones()).sum::<u32>();
        let may = self.has_places
            && end <= span
            && places.len() < PLACES_MAX
            && places.iter().map(Chunk::slots).sum::<u64>() + end - first <= PLACES_BLOCKS
            && saved >= SAVED_MIN
            && (part.is_aligned() || !self.without_images)
            && places.iter().any(|c| !self.is_own(c));
        may.then_some(Way::Beside { first, slots: end - first })
    }
    /// True if so many blocks are better written as images, where a place is a hole or others are near it.
    pub fn is_few(&self, blocks: u64) -> bool {
        blocks < DIRECT_BLOCKS && !self.is_many && !self.without_images
    }
    /// Blocks at the edges of a part that are written in part and have content.
    pub fn edges(&self, part: Part) -> Vec<(u64, u64)> {
        let (first, last) = (part.from / BLOCK, (part.to - 1) / BLOCK);
        let mut out = Vec::new();
        if !part.from.is_multiple_of(BLOCK) || part.to < (first + 1) * BLOCK {
            out.push(first);
        }
        if !part.to.is_multiple_of(BLOCK) && !out.contains(&last) {
            out.push(last);
        }
        out.retain(|b| self.has(part.cell, *b));
        out.into_iter().map(|b| (b * BLOCK, (b + 1) * BLOCK)).collect()
    }
    /// Parts of blocks with content at the edges of a range.
    pub fn zero_edges(&self, offset: u64, len: u64) -> Vec<(u64, u64)> {
        let end = offset + len;
        let has = |at: u64| self.has(at / CHUNK, at % CHUNK / BLOCK);
        let mut out = Vec::new();
        let head = offset.next_multiple_of(BLOCK).min(end);
        if head > offset && has(offset) {
            out.push((offset, head - offset));
        }
        let tail = (end / BLOCK * BLOCK).max(head);
        if end > tail && has(tail) {
            out.push((tail, end - tail));
        }
        out
    }
}
