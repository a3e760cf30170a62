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

use crate::data::apply::At;
use crate::data::ops::{self, Op};
use crate::data::wal::Batch;
use crate::data::way::{Part, Way, Ways, parts};
use crate::open::layout::{BLOCK, CHUNK, CHUNK_BLOCKS, OBJECT_MAX, block_crc};
use crate::planted::{Bug, planted};
use crate::rows::codec::{Corrupt, Put};
use crate::rows::onode::Chunk;
use crate::state::Core;
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

/// What is to be written.
#[derive(Debug, Clone, Copy)]
struct Data<'a> {
    bytes: &'a [u8],
    /// Whose bytes these are a part of, if they are to be had without a copy.
    shared: Option<&'a Bytes>,
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

    fn ways(&self, slot: u32) -> Ways<'_> {
        Ways {
            node: self.objects.node(slot),
            refs: &self.refs,
            has_places: self.sb.has_places(),
            without_images: self.queue.is_without_images(),
            is_many: self.log.load_before().is_many(),
        }
    }
    fn image(&mut self, slot: u32, cell: u64, block: u64, pieces: [&[u8]; 3]) -> StoreResult<()> {
        let place = self.ways(slot).home(cell, block).expect("the cell has a place for the block").at(block);
        let n = self.log.open_mut().image(place, pieces);
        let op = Op::<&[u8]>::Image { cell, block, at: place, crc: block_crc(self.log.open().last_image()) };
        self.name(slot);
        self.log.put(&op);
        self.apply(At { seq: self.log.seq(), slot, images: n, run: None }, &op).map_err(broken)
    }
    /// Whole blocks, directly to places that the cell has just got.
    fn direct(
        &mut self,
        slot: u32,
        cell: u64,
        laid: &[Chunk],
        block: u64,
        before: &[u8],
        data: Data<'_>,
        behind: &[u8],
    ) -> StoreResult<()> {
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
            let need = match self.ways(t.slot).way(part, after) {
                Way::New { .. } => continue,
                Way::Move { slots } => vec![(0, slots * BLOCK)],
                Way::InPlace | Way::Beside { .. } => self.ways(t.slot).edges(part),
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
    /// Writes behind an object's data, where its cells have nothing: its size stays, and nothing is read.
    pub fn write_fresh(&mut self, t: &mut Target, offset: u64, data: &Bytes) -> StoreResult<()> {
        let after = offset + data.len() as u64;
        for part in parts(offset, data.len() as u64) {
            let at = (part.cell * CHUNK + part.from - offset) as usize;
            let bytes = &data[at..at + (part.to - part.from) as usize];
            self.write_part(t, part, Data { bytes, shared: Some(data) }, after)?;
        }
        Ok(())
    }
    fn write_part(&mut self, t: &mut Target, part: Part, data: Data<'_>, after: u64) -> StoreResult<()> {
        static ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];
        let (slot, cell) = (t.slot, part.cell);
        let zeros = |n: u64| &ZEROS[..n as usize];
        match self.ways(slot).way(part, after) {
            Way::InPlace => {
                self.unshare_homes(slot, part)?;
                self.write_blocks(t, part, data.bytes)
            }
            Way::Beside { first, slots } => {
                let laid = self.lay(slot, cell, first, slots, true)?;
                if part.is_aligned() && !self.ways(slot).is_few(slots) {
                    return self.direct(slot, cell, &laid, first, &[], data, &[]);
                }
                self.unshare_homes(slot, part)?;
                self.write_blocks(t, part, data.bytes)
            }
            Way::New { slots } => {
                let (first, end) = (part.from / BLOCK, part.to.div_ceil(BLOCK));
                let laid = self.lay(slot, cell, 0, slots, false)?;
                if self.ways(slot).is_few(end - first) && self.alloc.may_be_hole(laid[0].place) {
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
    /// Places of the part's blocks that clones had are the object's alone.
    fn unshare_homes(&mut self, slot: u32, part: Part) -> StoreResult<()> {
        for block in part.from / BLOCK..part.to.div_ceil(BLOCK) {
            let home = self.ways(slot).home(part.cell, block).expect("the way is in place");
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
            let whole = end - at;
            // A run of so many blocks, or the longest that there is.
            let run = self
                .alloc
                .find(whole)
                .map(|place| (place, whole))
                .or_else(|| self.sb.has_places().then(|| self.alloc.find_less(whole)).flatten());
            let no_run = || StoreError::Stopped("space that was set aside for a transaction is not there".into());
            let (place, slots) = run.ok_or_else(no_run)?;
            let op = if laid.is_empty() && !beside { Op::Map { cell, place, slots } } else { Op::Part { cell, first: at, place, slots } };
            self.change::<&[u8]>(slot, op)?;
            laid.push(Chunk::part(cell, at, place, slots));
            at += slots;
        }
        Ok(laid)
    }
    /// All that zeroing needs to know is in memory; otherwise it is asked for.
    pub fn check_zero(&mut self, t: &mut Target, offset: u64, len: u64) -> StoreResult<()> {
        let mut missing = Ok(());
        for (at, n) in self.ways(t.slot).zero_edges(offset, len) {
            match self.check_write(t, at, n) {
                Ok(()) => {}
                Err(StoreError::Wait(n)) => missing = Err(StoreError::Wait(n)),
                Err(e) => return Err(e),
            }
        }
        missing
    }
    /// Zeros a range; the object's size stays.
    pub fn zero(&mut self, t: &mut Target, offset: u64, len: u64) -> StoreResult<()> {
        self.check_zero(t, offset, len)?;
        let size = self.objects.size(t.slot);
        for (at, n) in self.ways(t.slot).zero_edges(offset, len) {
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
        let extents = crate::data::read::blocks(node, src, len);
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
