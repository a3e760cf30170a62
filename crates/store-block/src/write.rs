//! From a transaction's changes to those of a record.
//!
//! Each change is looked at first: whatever it needs to read must be in memory, or it has not happened and is tried again. Then it is made.
//! How data of a cell (64 KiB) is written:
//!
//! | what there is | what is written | how |
//! |---|---|---|
//! | anything | the whole cell | a new place, directly |
//! | nothing | a part | a new place, directly; images if it is little and a hole |
//! | a place of its own | a part within it | images of the blocks, in place |
//! | places that clones share | a part that is much less than the cell has | one more place with the part's blocks, directly; images if it is little |
//! | a place that is shared or too short | a part otherwise | a new place with all of the cell's blocks, directly |
//!
//! A new place is one run of blocks, or, where no run is long enough, several.

use crate::apply::At;
use crate::codec::{Corrupt, Put};
use crate::layout::{BLOCK, CHUNK, CHUNK_BLOCKS, OBJECT_MAX, block_crc};
use crate::onode::Chunk;
use crate::ops::{self, Op};
use crate::planted::{Bug, planted};
use crate::state::Core;
use crate::wal::Batch;
use bytes::Bytes;
use smallvec::SmallVec;
use store::{StoreError, StoreResult};
use types::CollId;

/// An object that is being changed, and whose ticket waits for what must be read.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub coll: CollId,
    pub slot: u32,
    pub ticket: u64,
}

/// A part of a cell.
#[derive(Debug, Clone, Copy)]
struct Part {
    cell: u64,
    /// Bytes in the cell.
    from: u64,
    to: u64,
}

impl Part {
    /// It begins and ends with a block.
    fn is_aligned(self) -> bool {
        self.from.is_multiple_of(BLOCK) && self.to.is_multiple_of(BLOCK)
    }
}

fn parts(offset: u64, len: u64) -> impl Iterator<Item = Part> {
    let end = offset + len;
    let cells = if len == 0 { 0..0 } else { offset / CHUNK..end.div_ceil(CHUNK) };
    cells.map(move |cell| Part { cell, from: offset.max(cell * CHUNK) - cell * CHUNK, to: end.min((cell + 1) * CHUNK) - cell * CHUNK })
}

/// What is new and at least so many blocks goes directly to its place.
const DIRECT_BLOCKS: u64 = 8;
// And so does everything new that goes where there was something before, and into holes while many write.
const _: () = assert!(DIRECT_BLOCKS <= CHUNK_BLOCKS);

/// What is to be written.
#[derive(Debug, Clone, Copy)]
struct Data<'a> {
    bytes: &'a [u8],
    /// Whose bytes these are a part of, if they are to be had without a copy.
    shared: Option<&'a Bytes>,
}

/// A cell that clones share has at most so many places beside each other, of so many blocks together: then all that it has is moved to one. When the
/// clones are gone, what was replaced of their place is of no use to others, so it is bounded.
const PLACES_MAX: usize = 8;
const PLACES_BLOCKS: u64 = CHUNK_BLOCKS + CHUNK_BLOCKS / 2;
/// And it gets another only if that saves the copy of so many blocks.
const SAVED_MIN: u32 = 4;

/// How a part of a cell is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Images, into places that the cell has.
    InPlace,
    /// One more place, for these blocks.
    Beside { first: u64, slots: u64 },
    /// A place of so many blocks; the cell's old content is not needed.
    New { slots: u64 },
    /// A place of so many blocks, with what the cell has.
    Move { slots: u64 },
}

fn broken(e: Corrupt) -> StoreError {
    StoreError::Stopped(format!("a change can't be made: {e}"))
}

impl Core {
    /// Writes a change to an object into the open record, and makes it.
    pub fn change<B: AsRef<[u8]>>(&mut self, slot: u32, op: Op<B>) -> StoreResult<()> {
        self.name(slot);
        self.log.put(&op);
        let at = At { seq: self.log.seq(), slot, images: 0, run: None };
        self.apply(at, &op).map_err(broken)
    }
    /// The record's next changes are to this object.
    fn name(&mut self, slot: u32) {
        if self.log.names(slot) {
            self.log.put(&Op::Object(self.objects.get(slot).key()));
        }
    }
    pub fn create(&mut self, slot: u32) -> StoreResult<()> {
        if self.objects.get(slot).node.is_some() {
            return Ok(());
        }
        let nid = self.objects.next_nid();
        self.change::<&[u8]>(slot, Op::Create { nid })
    }
    pub fn set_attr(&mut self, slot: u32, name: &[u8], value: &[u8]) -> StoreResult<()> {
        let mut scratch = self.log.take_scratch();
        let old = self.objects.node(slot).and_then(|o| o.attrs.get(name)).filter(|old| old.len() == value.len());
        let patched = old.and_then(|old| ops::runs(&old, value, &mut scratch)).is_some();
        if planted(Bug::RewriteAttrs) {
            let all: Vec<_> =
                self.objects.node(slot).into_iter().flat_map(|o| o.attrs.iter().map(|(n, v)| (n.to_vec(), v.to_vec()))).collect();
            all.iter().try_for_each(|(name, value)| self.change(slot, Op::SetAttr { name: &name[..], value: &value[..] }))?;
        }
        let done = if patched {
            // What is written down is short; what is applied is the value itself.
            self.name(slot);
            self.log.put(&Op::PatchAttr { name, runs: &scratch[..] });
            self.apply(At { seq: self.log.seq(), slot, images: 0, run: None }, &Op::SetAttr { name, value }).map_err(broken)
        } else {
            self.change(slot, Op::SetAttr { name, value })
        };
        self.log.put_scratch(scratch);
        done
    }

    /// Where a block of the cell may be written: in the place of the object's own that has it, or in the last one that has room for it.
    fn home(&self, slot: u32, cell: u64, block: u64) -> Option<&Chunk> {
        let own = |chunk: &&Chunk| chunk.blocks().contains(&block) && self.is_own(chunk);
        let places = self.objects.node(slot)?.places(cell);
        match places {
            [chunk] => Some(chunk).filter(own),
            _ => places.iter().find(|chunk| chunk.has(block)).filter(own).or_else(|| places.iter().rev().find(own)),
        }
    }
    /// No clone has the place, though clones may have had it.
    fn is_own(&self, chunk: &Chunk) -> bool {
        !chunk.shared || self.refs.get(chunk.place) == Some(1)
    }
    fn image(&mut self, slot: u32, cell: u64, block: u64, pieces: [&[u8]; 3]) -> StoreResult<()> {
        let place = self.home(slot, cell, block).expect("the cell has a place for the block").at(block);
        let n = self.log.open_mut().image(place, pieces);
        let op = Op::<&[u8]>::Image { cell, block, at: place, crc: block_crc(self.log.open().last_image()) };
        self.name(slot);
        self.log.put(&op);
        self.apply(At { seq: self.log.seq(), slot, images: n, run: None }, &op).map_err(broken)
    }
    /// Whole blocks, directly to places that the cell has just got.
    fn direct(&mut self, slot: u32, cell: u64, laid: &[Chunk], block: u64, before: &[u8], data: Data<'_>, behind: &[u8]) -> StoreResult<()> {
        let end = block + (before.len() + data.bytes.len() + behind.len()) as u64 / BLOCK;
        if let Some(one) = laid.iter().find(|chunk| chunk.blocks().contains(&block) && end <= chunk.blocks().end) {
            return self.direct_at(slot, cell, block, one.at(block), before, data, behind);
        }
        let all = [before, data.bytes, behind].concat();
        for chunk in laid {
            let (from, to) = (block.max(chunk.blocks().start), end.min(chunk.blocks().end));
            if from < to {
                let bytes = &all[((from - block) * BLOCK) as usize..((to - block) * BLOCK) as usize];
                self.direct_at(slot, cell, from, chunk.at(from), &[], Data { bytes, shared: None }, &[])?;
            }
        }
        Ok(())
    }
    /// The same in one of them. What is shared, and lies as devices want it, is not copied.
    #[allow(clippy::too_many_arguments)] // one call's words
    fn direct_at(&mut self, slot: u32, cell: u64, block: u64, at: u64, before: &[u8], data: Data<'_>, behind: &[u8]) -> StoreResult<()> {
        let given = data.shared.filter(|_| before.is_empty() && behind.is_empty() && Batch::can_be_given(data.bytes));
        let mut crcs = Vec::with_capacity((before.len() + data.bytes.len() + behind.len()) / 1024);
        let mut sum = |blocks: &[u8]| blocks.chunks_exact(BLOCK as usize).for_each(|b| crcs.put_u32(block_crc(b)));
        let run = match given {
            Some(all) => {
                sum(data.bytes);
                self.log.open_mut().give(at, all.slice_ref(data.bytes))
            }
            None => {
                let (run, first) = self.log.open_mut().run(at, [before, data.bytes, behind]);
                sum(self.log.open().run_from(run, first));
                (run, first)
            }
        };
        let op = Op::Direct { cell, block, at, crcs };
        self.name(slot);
        self.log.put(&op);
        self.apply(At { seq: self.log.seq(), slot, images: 0, run: Some(run) }, &op).map_err(broken)
    }

    fn way(&self, slot: u32, part: Part, size_after: u64) -> Way {
        let last_block = (part.to - 1) / BLOCK;
        // The object ends with this part, for all that is known: no more blocks than it needs.
        let tail = part.cell * CHUNK + part.to >= size_after;
        let exact = |from_start: bool| if tail && from_start { last_block + 1 } else { CHUNK_BLOCKS };
        let places = self.objects.node(slot).map_or(&[][..], |o| o.places(part.cell));
        let span = places.iter().map(|c| c.blocks().end).max().unwrap_or(0);
        let mut blocks = part.from / BLOCK..last_block + 1;
        match places {
            _ if part.from == 0 && part.to == CHUNK => Way::New { slots: CHUNK_BLOCKS },
            [] => Way::New { slots: exact(part.from < BLOCK) },
            _ if !self.queue.is_without_images() && blocks.all(|block| self.home(slot, part.cell, block).is_some()) => Way::InPlace,
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
        let may = self.sb.is_final
            && end <= span
            && places.len() < PLACES_MAX
            && places.iter().map(Chunk::slots).sum::<u64>() + end - first <= PLACES_BLOCKS
            && saved >= SAVED_MIN
            && (part.is_aligned() || !self.queue.is_without_images())
            && places.iter().any(|c| !self.is_own(c));
        may.then_some(Way::Beside { first, slots: end - first })
    }
    /// What a cell has, and the numbers of its blocks that are damaged.
    fn old(&mut self, t: &mut Target, cell: u64, from: u64, to: u64) -> StoreResult<(Bytes, Vec<u64>)> {
        let (bytes, mut bad) = self.collect_old(t, cell * CHUNK + from, to - from)?;
        bad.iter_mut().for_each(|block| *block %= CHUNK_BLOCKS);
        Ok((bytes, bad))
    }
    /// A block that was damaged stays it, though a part of it was written.
    fn spoil(&mut self, slot: u32, cell: u64, block: u64) -> StoreResult<()> {
        self.change::<&[u8]>(slot, Op::Spoil { cell, block })
    }

    /// All that a write needs to know is in memory; otherwise it is asked for.
    pub fn check_write(&mut self, t: &mut Target, offset: u64, len: u64) -> StoreResult<()> {
        let after = self.objects.size(t.slot).max(offset + len);
        let mut missing = Ok(());
        for part in parts(offset, len) {
            let need = match self.way(t.slot, part, after) {
                Way::New { .. } => continue,
                Way::Move { slots } => vec![(0, slots * BLOCK)],
                Way::InPlace | Way::Beside { .. } => self.edges(t.slot, part),
            };
            for (from, to) in need {
                match self.old(t, part.cell, from, to) {
                    Ok(_) => {}
                    Err(StoreError::Wait(n)) => missing = Err(StoreError::Wait(n)),
                    Err(e) => return Err(e),
                }
            }
        }
        missing
    }
    /// Blocks at the edges of a part that are written in part and have content.
    fn edges(&self, slot: u32, part: Part) -> Vec<(u64, u64)> {
        let node = self.objects.node(slot);
        let (first, last) = (part.from / BLOCK, (part.to - 1) / BLOCK);
        let mut out = Vec::new();
        if !part.from.is_multiple_of(BLOCK) || part.to < (first + 1) * BLOCK {
            out.push(first);
        }
        if !part.to.is_multiple_of(BLOCK) && !out.contains(&last) {
            out.push(last);
        }
        out.retain(|b| node.is_some_and(|node| node.holder(part.cell, *b).is_some()));
        out.into_iter().map(|b| (b * BLOCK, (b + 1) * BLOCK)).collect()
    }

    /// Writes; `None` for zeros, which are only put where there is something else.
    pub fn write(&mut self, t: &mut Target, offset: u64, len: u64, data: Option<&Bytes>) -> StoreResult<()> {
        if len == 0 {
            return Ok(());
        }
        self.check_write(t, offset, len)?;
        let before = self.objects.size(t.slot);
        let after = before.max(offset + len);
        static ZEROS: [u8; CHUNK as usize] = [0; CHUNK as usize];
        for part in parts(offset, len) {
            let at = part.cell * CHUNK + part.from - offset;
            let n = part.to - part.from;
            let bytes = data.map_or(&ZEROS[..n as usize], |d| &d[at as usize..(at + n) as usize]);
            let data = Data { bytes, shared: data };
            self.write_part(t, part, data, after)?;
        }
        if after > before {
            self.change::<&[u8]>(t.slot, Op::Size(after))?;
        }
        Ok(())
    }
    fn write_part(&mut self, t: &mut Target, part: Part, data: Data<'_>, after: u64) -> StoreResult<()> {
        static ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];
        let (slot, cell) = (t.slot, part.cell);
        let zeros = |n: u64| &ZEROS[..n as usize];
        match self.way(slot, part, after) {
            Way::InPlace => {
                self.unshare_homes(slot, part)?;
                self.write_blocks(t, part, data.bytes)
            }
            Way::Beside { first, slots } => {
                let laid = self.lay(slot, cell, first, slots, true)?;
                if part.is_aligned() && !self.is_few(slots) {
                    return self.direct(slot, cell, &laid, first, &[], data, &[]);
                }
                self.unshare_homes(slot, part)?;
                self.write_blocks(t, part, data.bytes)
            }
            Way::New { slots } => {
                let (first, end) = (part.from / BLOCK, part.to.div_ceil(BLOCK));
                let laid = self.lay(slot, cell, 0, slots, false)?;
                if self.is_few(end - first) && self.alloc.may_be_hole(laid[0].place) {
                    return self.write_blocks(t, part, data.bytes);
                }
                self.direct(slot, cell, &laid, first, zeros(part.from % BLOCK), data, zeros(end * BLOCK - part.to))
            }
            Way::Move { slots } => {
                let (old, bad) = self.old(t, cell, 0, slots * BLOCK)?;
                let laid = self.lay(slot, cell, 0, slots, false)?;
                let (from, to) = (part.from as usize, part.to as usize);
                // The old content ends at the object's old end.
                let len = old.len().max(to).next_multiple_of(BLOCK as usize);
                let mut all = Vec::with_capacity(len);
                all.extend_from_slice(&old[..from.min(old.len())]);
                all.resize(from, 0);
                all.extend_from_slice(data.bytes);
                if old.len() > to {
                    all.extend_from_slice(&old[to..]);
                }
                all.resize(len, 0);
                self.direct(slot, cell, &laid, 0, &[], Data { bytes: &all, shared: None }, &[])?;
                let is_replaced = |block: &u64| part.from <= block * BLOCK && part.to >= (block + 1) * BLOCK;
                bad.into_iter().filter(|block| !is_replaced(block)).try_for_each(|block| self.spoil(slot, cell, block))
            }
        }
    }
    /// Images of a part's blocks, into the cell's place.
    fn write_blocks(&mut self, t: &mut Target, part: Part, mut data: &[u8]) -> StoreResult<()> {
        static ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];
        let mut at = part.from;
        while at < part.to {
            let (block, within) = (at / BLOCK, at % BLOCK);
            let n = (BLOCK - within).min(part.to - at);
            let (now, rest) = data.split_at(n as usize);
            let has = self.objects.node(t.slot).is_some_and(|o| o.holder(part.cell, block).is_some());
            if n == BLOCK {
                self.image(t.slot, part.cell, block, [now, &[], &[]])?;
            } else if has {
                let (old, bad) = self.old(t, part.cell, block * BLOCK, (block + 1) * BLOCK)?;
                let mut old = old.to_vec();
                // What the object has of the block; zeros behind its end.
                old.resize(BLOCK as usize, 0);
                self.image(t.slot, part.cell, block, [&old[..within as usize], now, &old[(within + n) as usize..]])?;
                if !bad.is_empty() {
                    self.spoil(t.slot, part.cell, block)?;
                }
            } else {
                self.image(t.slot, part.cell, block, [&ZEROS[..within as usize], now, &ZEROS[(within + n) as usize..]])?;
            }
            (at, data) = (at + n, rest);
        }
        Ok(())
    }
    /// True if so many blocks are better written as images, where a place is a hole or others are near it.
    fn is_few(&self, blocks: u64) -> bool {
        blocks < DIRECT_BLOCKS && !self.log.load_before().is_many() && !self.queue.is_without_images()
    }
    /// Places of the part's blocks that clones had are the object's alone.
    fn unshare_homes(&mut self, slot: u32, part: Part) -> StoreResult<()> {
        for block in part.from / BLOCK..part.to.div_ceil(BLOCK) {
            let home = self.home(slot, part.cell, block).expect("the way is in place");
            let (is_shared, place, cell) = (home.shared, home.place, part.cell);
            if is_shared {
                let is_one = self.objects.node(slot).is_some_and(|o| o.places(cell).len() == 1);
                let op = if is_one { Op::Unshare { cell } } else { Op::UnsharePart { cell, place } };
                self.change::<&[u8]>(slot, op)?;
            }
        }
        Ok(())
    }
    /// Gives the cell places for blocks from `first` on: one, or as many as it takes where no run is long enough. Those that it has stay, with `beside`.
    fn lay(&mut self, slot: u32, cell: u64, first: u64, slots: u64, beside: bool) -> StoreResult<SmallVec<[Chunk; 1]>> {
        let (mut at, end, mut laid) = (first, first + slots, SmallVec::new());
        while at < end {
            let (place, slots) = self.place(end - at)?;
            let op = if laid.is_empty() && !beside { Op::Map { cell, place, slots } } else { Op::Part { cell, first: at, place, slots } };
            self.change::<&[u8]>(slot, op)?;
            laid.push(Chunk::part(cell, at, place, slots));
            at += slots;
        }
        Ok(laid)
    }
    /// A run of so many blocks, or the longest that there is.
    fn place(&mut self, slots: u64) -> StoreResult<(u64, u64)> {
        let run = self.alloc.find(slots).map(|place| (place, slots)).or_else(|| self.sb.is_final.then(|| self.alloc.find_less(slots)).flatten());
        run.ok_or_else(|| StoreError::Stopped("space that was set aside for a transaction is not there".into()))
    }

    /// All that zeroing needs to know is in memory; otherwise it is asked for.
    pub fn check_zero(&mut self, t: &mut Target, offset: u64, len: u64) -> StoreResult<()> {
        let mut missing = Ok(());
        for (at, n) in self.zero_edges(t.slot, offset, len) {
            match self.check_write(t, at, n) {
                Ok(()) => {}
                Err(StoreError::Wait(n)) => missing = Err(StoreError::Wait(n)),
                Err(e) => return Err(e),
            }
        }
        missing
    }
    /// Parts of blocks with content at the edges of a range.
    fn zero_edges(&self, slot: u32, offset: u64, len: u64) -> Vec<(u64, u64)> {
        let end = offset + len;
        let has = |at: u64| self.objects.node(slot).is_some_and(|o| o.holder(at / CHUNK, at % CHUNK / BLOCK).is_some());
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
    /// Zeros a range; the object's size stays.
    pub fn zero(&mut self, t: &mut Target, offset: u64, len: u64) -> StoreResult<()> {
        self.check_zero(t, offset, len)?;
        let size = self.objects.size(t.slot);
        for (at, n) in self.zero_edges(t.slot, offset, len) {
            // Behind the object's end there is nothing but zeros already.
            let n = n.min(size.saturating_sub(at));
            if n > 0 {
                self.write(t, at, n, None)?;
            }
        }
        let (from, to) = (offset.div_ceil(BLOCK), (offset + len) / BLOCK);
        if from >= to {
            return Ok(());
        }
        let Some(node) = self.objects.node(t.slot) else { return Ok(()) };
        let first = node.chunks.partition_point(|c| (c.cell + 1) * CHUNK_BLOCKS <= from);
        let mut clear = Vec::new();
        for places in node.chunks[first..].chunk_by(|a, b| a.cell == b.cell).take_while(|places| places[0].cell * CHUNK_BLOCKS < to) {
            let (cell, has) = (places[0].cell, places.iter().fold(0, |has, chunk| has | chunk.mask));
            let base = cell * CHUNK_BLOCKS;
            let (a, b) = (from.max(base) - base, to.min(base + CHUNK_BLOCKS) - base);
            let mask = (((1u32 << b) - (1u32 << a)) & 0xffff) as u16;
            if has & !mask == 0 {
                clear.push((cell, None));
            } else if has & mask != 0 {
                clear.push((cell, Some(has & mask)));
            }
        }
        for (cell, mask) in clear {
            match mask {
                None => self.change::<&[u8]>(t.slot, Op::Unmap { cell })?,
                Some(mask) => self.change::<&[u8]>(t.slot, Op::Clear { cell, mask })?,
            }
        }
        Ok(())
    }
    pub fn truncate(&mut self, t: &mut Target, size: u64) -> StoreResult<()> {
        let now = self.objects.size(t.slot);
        if size < now {
            // Through the last block's end, so that nothing of what is cut off is left.
            self.zero(t, size, now.next_multiple_of(BLOCK) - size)?;
        }
        if size != now {
            self.change::<&[u8]>(t.slot, Op::Size(size))?;
        }
        Ok(())
    }

    /// Copies a range of another object.
    pub fn clone_range(&mut self, from: &mut Target, to: &mut Target, src: u64, len: u64, dst: u64) -> StoreResult<()> {
        let len = len.min(self.objects.size(from.slot).saturating_sub(src));
        if len == 0 {
            return Ok(());
        }
        if from.slot == to.slot {
            // What is zeroed may be what is copied.
            let (data, bad) = self.collect_old(from, src, len)?;
            self.write(to, dst, len, Some(&data))?;
            return self.spoil_cloned(to, &bad, src, len, dst);
        }
        // Everything is in memory before anything is changed. Zeroing can change what a write must read: then it is read when a part is made, and
        // all is done again, from a source that is what it was.
        let mut missing = Ok(());
        let (mut pieces, mut damaged) = (Vec::new(), Vec::new());
        let node = self.objects.node(from.slot).expect("the source is there");
        let extents = crate::read::blocks(node, src, len);
        for (at, n) in extents.iter() {
            match self.collect_old(from, at, n) {
                Ok((data, bad)) => {
                    pieces.push((at - src + dst, data));
                    damaged.extend(bad);
                }
                Err(StoreError::Wait(n)) => missing = Err(StoreError::Wait(n)),
                Err(e) => return Err(e),
            }
        }
        missing?;
        let pieces = whole_cells(pieces, dst, len);
        let mut missing = Ok(());
        for (at, data) in &pieces {
            match self.check_write(to, *at, data.len() as u64) {
                Err(StoreError::Wait(n)) => missing = Err(StoreError::Wait(n)),
                other => other?,
            }
        }
        match self.check_zero(to, dst, len) {
            Err(StoreError::Wait(n)) => missing = Err(StoreError::Wait(n)),
            other => other?,
        }
        missing?;
        self.create(to.slot)?;
        self.zero(to, dst, len)?;
        for (at, data) in pieces {
            self.write(to, at, data.len() as u64, Some(&data))?;
        }
        if self.objects.size(to.slot) < dst + len {
            self.change::<&[u8]>(to.slot, Op::Size(dst + len))?;
        }
        self.spoil_cloned(to, &damaged, src, len, dst)
    }
    /// Blocks that have something of damaged ones of the source are damaged, too.
    fn spoil_cloned(&mut self, to: &Target, damaged: &[u64], src: u64, len: u64, dst: u64) -> StoreResult<()> {
        for block in damaged {
            let (from, end) = ((block * BLOCK).max(src), ((block + 1) * BLOCK).min(src + len));
            for block in (from - src + dst) / BLOCK..(end - src + dst).div_ceil(BLOCK) {
                self.spoil(to.slot, block / CHUNK_BLOCKS, block % CHUNK_BLOCKS)?;
            }
        }
        Ok(())
    }
}

/// Pieces of a range, ascending; of a cell that lies within the range, all pieces are one with zeros between them: it is written whole, and
/// takes no images, however many holes it has.
fn whole_cells(pieces: Vec<(u64, Bytes)>, offset: u64, len: u64) -> Vec<(u64, Bytes)> {
    let whole = offset.div_ceil(CHUNK)..(offset + len) / CHUNK;
    let (mut out, mut open): (Vec<(u64, Bytes)>, Option<(u64, Vec<u8>)>) = (Vec::new(), None);
    for (at, data) in pieces {
        for part in parts(at, data.len() as u64) {
            let start = part.cell * CHUNK + part.from;
            let bytes = data.slice((start - at) as usize..(start - at + part.to - part.from) as usize);
            if open.as_ref().is_some_and(|(cell, _)| *cell != part.cell) {
                out.extend(open.take().map(|(cell, all)| (cell * CHUNK, all.into())));
            }
            if !whole.contains(&part.cell) || part.to - part.from == CHUNK {
                out.push((start, bytes));
                continue;
            }
            let (_, all) = open.get_or_insert_with(|| (part.cell, vec![0; CHUNK as usize]));
            all[part.from as usize..part.to as usize].copy_from_slice(&bytes);
        }
    }
    out.extend(open.map(|(cell, all)| (cell * CHUNK, all.into())));
    out
}

/// Ranges that no object reaches.
pub fn check_range(offset: u64, len: u64) -> StoreResult<()> {
    match offset.checked_add(len) {
        Some(end) if end <= OBJECT_MAX => Ok(()),
        _ => Err(StoreError::Stopped("a range passes the end of what an object can be".into())),
    }
}
