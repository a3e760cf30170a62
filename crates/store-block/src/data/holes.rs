//! Which bytes of an object's blocks nothing was written to: noted after a change that leaves some, so that holes are told to the byte.
//!
//! Holds no data and writes none: that is [`crate::data::write`]'s. Most changes leave no hole within a block, and cost a look at the first
//! and last cell.

use crate::data::ops::Op;
use crate::data::read::{blocks, extents};
use crate::open::layout::{BLOCK, CHUNK};
use crate::rows::onode::{Chunk, Onode, put_unwritten};
use crate::state::Core;
use std::ops::Range;
use store::{StoreResult, Unwritten, Written};
use types::IntervalSet;

/// What will be written in a part of an object when a change is made.
#[derive(Debug)]
pub struct Foreseen {
    area: Range<u64>,
    written: IntervalSet,
}

impl Core {
    /// Before a change of a range: what is written there afterwards. `None` if the change surely leaves no hole within a block, as there was none.
    pub fn foresee(&self, slot: u32, what: Written) -> Option<Foreseen> {
        let (Written::Data { offset, len } | Written::Zeros { offset, len }) = what;
        let node = self.objects.node(slot);
        let is_plain = node.is_none_or(|node| node.unwritten().is_none()) && leaves_none(node, what, self.queue.is_without_images());
        (len > 0 && !is_plain).then(|| {
            let mut foreseen = foreseen(node, offset, len);
            what.apply(&mut foreseen.written);
            foreseen
        })
    }
    /// The same before a range is copied from another object.
    pub fn foresee_clone(&self, from: u32, to: u32, src: u64, len: u64, dst: u64) -> Option<Foreseen> {
        let source = self.objects.node(from)?;
        let len = len.min(source.size.saturating_sub(src));
        (len > 0).then(|| {
            let mut foreseen = foreseen(self.objects.node(to), dst, len);
            foreseen.written.erase(dst, len);
            extents(source, src, len).iter().for_each(|(at, n)| foreseen.written.insert(at - src + dst, n));
            foreseen
        })
    }
    /// After the change: what was not written of the blocks that there are now is noted.
    pub fn note_unwritten(&mut self, slot: u32, foreseen: Option<Foreseen>) -> StoreResult<()> {
        let (Some(Foreseen { area, written }), Some(node)) = (foreseen, self.objects.node(slot)) else { return Ok(()) };
        let none = Unwritten::default();
        let before = node.unwritten().unwrap_or(&none);
        let after = before.after(area.clone(), blocks(node, area.start, area.end - area.start), &written);
        if after == *before {
            return Ok(());
        }
        let mut ranges = Vec::new();
        put_unwritten(&after, &mut ranges);
        self.change(slot, Op::Unwritten(&ranges[..]))
    }
}

/// Cells are moved whole, and what lies behind the object's end in its last block is within it if the object grows.
fn foreseen(node: Option<&Onode>, offset: u64, len: u64) -> Foreseen {
    let start = offset.min(node.map_or(0, |node| node.size)) / CHUNK * CHUNK;
    let area = start..(offset + len).next_multiple_of(CHUNK);
    Foreseen { written: node.map_or_else(IntervalSet::new, |node| extents(node, area.start, area.end - area.start)), area }
}

fn leaves_none(node: Option<&Onode>, what: Written, without_images: bool) -> bool {
    let size = node.map_or(0, |node| node.size);
    match what {
        Written::Data { offset, len } => {
            let end = offset + len;
            let is_exact = |cell: u64| {
                let (from, to) = (offset.saturating_sub(cell * CHUNK), (end - cell * CHUNK).min(CHUNK));
                part_is_exact(node.map_or(&[], |node| node.places(cell)), from, to, end >= size, without_images)
            };
            let (first, last) = (offset / CHUNK, (end.max(1) - 1) / CHUNK);
            offset <= size && is_exact(first) && (first == last || is_exact(last))
        }
        Written::Zeros { offset, len } => {
            let end = offset + len;
            let is_cut_off = offset < size && end == size;
            let goes_on = end <= size || offset <= size || size.is_multiple_of(BLOCK);
            offset.is_multiple_of(BLOCK) && (end.is_multiple_of(BLOCK) && goes_on || is_cut_off)
        }
    }
}
/// True if a write of a part of a cell leaves no byte of a block unwritten, but for those behind the object's end.
fn part_is_exact(places: &[Chunk], from: u64, to: u64, at_end: bool, without_images: bool) -> bool {
    let ends_exactly = to.is_multiple_of(BLOCK) || at_end;
    let is_replaced = from == 0 && ends_exactly;
    let chunk = match places {
        [] => return from.is_multiple_of(BLOCK) && ends_exactly,
        [chunk] if chunk.first == 0 => chunk,
        // Of several, it is looked at in full.
        _ => return false,
    };
    let (slots, has) = (chunk.slots(), |at: u64| chunk.has(at / BLOCK));
    let is_whole = u32::from(chunk.mask) == (1 << slots) - 1;
    let stays = !chunk.shared && !without_images && to <= slots * BLOCK;
    is_replaced && to >= slots * BLOCK
        || is_whole && from <= slots * BLOCK && (to <= slots * BLOCK || ends_exactly)
        || stays && (from.is_multiple_of(BLOCK) || has(from)) && (ends_exactly || has(to - 1))
}
