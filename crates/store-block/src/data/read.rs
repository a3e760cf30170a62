//! Data and rows, from memory and from the devices.

use crate::data::io::{Asked, Extent};
use crate::data::overlay::Content;
use crate::data::write::Target;
use crate::open::layout::{BLOCK, CHUNK, CHUNK_BLOCKS, DATA, SPOILED, WAL, checked};
use crate::rows::key;
use crate::rows::meta::Row;
use crate::rows::meta::entry::LeafRef;
use crate::rows::onode::Onode;
use crate::state::{Core, OWN};
use bytes::Bytes;
use smallvec::SmallVec;
use std::ops::{ControlFlow, Range};
use store::{ListPage, ReadData, StoreError, StoreResult};
use types::{CollId, GHObject, IntervalSet};

/// A piece of what is read.
#[derive(Debug)]
enum Piece {
    Zeros,
    Here(Bytes),
    /// A block that was damaged when a part of it was written.
    Spoiled,
    /// Blocks to be read, and which of the crcs that were gathered are theirs.
    Device(Extent, Range<usize>),
}

/// Pieces with the blocks of each, and the crcs of those that are to be read.
struct Pieces {
    pieces: SmallVec<[(Piece, u64); 4]>,
    crcs: SmallVec<[u32; 16]>,
}

/// What was read of the device for a caller that asked again.
type Came = SmallVec<[Extent; 4]>;

/// Blocks of one read of the device at most.
const READ_BLOCKS: u32 = 256;
/// Leaves that a scan asks for at once.
pub const AHEAD: usize = 16;

/// Where something was written in the range, cut at the object's end.
pub fn extents(node: &Onode, offset: u64, len: u64) -> IntervalSet {
    let blocks = blocks(node, offset, len);
    match node.unwritten() {
        Some(unwritten) => unwritten.written(blocks),
        None => blocks,
    }
}

/// Where there are blocks in the range, cut at the object's end.
pub fn blocks(node: &Onode, offset: u64, len: u64) -> IntervalSet {
    let mut out = IntervalSet::new();
    let end = offset.saturating_add(len).min(node.size);
    let first = node.chunks.partition_point(|c| (c.cell + 1) * CHUNK <= offset);
    for chunk in node.chunks[first..].iter().take_while(|c| c.cell * CHUNK < end) {
        for block in chunk.blocks().filter(|b| chunk.has(*b)) {
            let at = chunk.cell * CHUNK + block * BLOCK;
            let (from, to) = (at.max(offset), (at + BLOCK).min(end));
            if from < to {
                out.insert(from, to - from);
            }
        }
    }
    out
}

/// Ranges behind an object's data, each into memory of its own: all of them, or what is missing is asked for at once.
pub fn beyond(core: &mut Core, t: &mut Target, ranges: &[Range<u64>]) -> StoreResult<Vec<Bytes>> {
    let (mut came, mut missing, mut all) = (Came::new(), Ok(()), Vec::with_capacity(ranges.len()));
    core.reads.asked(ranges.iter().map(|range| (range.end - range.start) as usize).sum());
    for range in ranges {
        let mut out = ReadData::new();
        match core.gather(t, range.clone(), false, &mut out, &mut came) {
            Ok(()) => all.push(out),
            Err(StoreError::Wait(n)) => missing = Err(StoreError::Wait(n)),
            other => return other.map(|()| Vec::new()),
        }
    }
    missing?;
    came.iter().for_each(|extent| core.reads.used(extent));
    // Copied once, when all of it is here.
    let flat = |data: &ReadData| data.pieces().map(|piece| &piece[..]).collect::<Vec<_>>().concat();
    Ok(all.iter().map(|data| Bytes::from(flat(data))).collect())
}

impl Core {
    /// What a range within an object's size is made of.
    fn pieces(&self, node: &Onode, offset: u64, end: u64) -> Pieces {
        let mut pieces: SmallVec<[(Piece, u64); 4]> = SmallVec::new();
        let mut crcs: SmallVec<[u32; 16]> = SmallVec::new();
        let mut places = node.places(offset / CHUNK);
        for block in offset / BLOCK..end.div_ceil(BLOCK) {
            let (cell, within) = (block / CHUNK_BLOCKS, block % CHUNK_BLOCKS);
            if within == 0 {
                places = node.places(cell);
            }
            let piece = match places.iter().find(|chunk| chunk.has(within)) {
                Some(c) => {
                    let crc = c.crc(within);
                    if crc == SPOILED {
                        pieces.push((Piece::Spoiled, 1));
                        continue;
                    }
                    let mut device = |dev, block| {
                        crcs.push(crc);
                        Piece::Device(Extent { dev, block, blocks: 1 }, crcs.len() - 1..crcs.len())
                    };
                    match self.overlay.get(c.at(within), self.log.open()) {
                        None => device(DATA, c.at(within)),
                        Some(Content::Here(bytes)) => Piece::Here(bytes),
                        Some(Content::Wal(block, _)) => device(WAL, block + crate::open::layout::WAL_FIRST),
                    }
                }
                None => Piece::Zeros,
            };
            match (pieces.last_mut(), piece) {
                (Some((Piece::Zeros, n)), Piece::Zeros) => *n += 1,
                (Some((Piece::Device(e, theirs), n)), Piece::Device(next, crc))
                    if e.dev == next.dev && e.block + u64::from(e.blocks) == next.block && e.blocks < READ_BLOCKS =>
                {
                    e.blocks += 1;
                    theirs.end = crc.end;
                    *n += 1;
                }
                (_, piece) => pieces.push((piece, 1)),
            }
        }
        Pieces { pieces, crcs }
    }
    /// Drops what was read of a range before, so that it is read again.
    pub fn forget(&mut self, slot: u32, offset: u64, len: u64) {
        let Some(node) = self.objects.node(slot) else { return };
        let end = offset.saturating_add(len).min(node.size);
        if offset < end {
            for (piece, _) in self.pieces(node, offset, end).pieces {
                if let Piece::Device(extent, _) = piece {
                    self.reads.forget(&extent);
                }
            }
        }
    }

    /// Appends a range of an object's data, cut at its end. Everything that must be read for it is asked for at once.
    pub fn collect(&mut self, t: &mut Target, offset: u64, len: u64, out: &mut ReadData) -> StoreResult<()> {
        let mut came = Came::new();
        let end = offset.saturating_add(len).min(self.objects.size(t.slot));
        self.reads.asked(end.saturating_sub(offset) as usize);
        self.gather(t, offset..end, true, out, &mut came)?;
        came.iter().for_each(|extent| self.reads.used(extent));
        Ok(())
    }
    /// The same for several ranges. What has come of them counts as used when all of it has.
    pub fn collect_ranges(&mut self, t: &mut Target, ranges: &IntervalSet, out: &mut ReadData) -> StoreResult<()> {
        let (mut came, mut missing) = (Came::new(), Ok(()));
        self.reads.asked(ranges.size() as usize);
        for (offset, len) in ranges.iter() {
            let end = offset.saturating_add(len).min(self.objects.size(t.slot));
            match self.gather(t, offset..end, false, out, &mut came) {
                Err(StoreError::Wait(n)) => missing = Err(StoreError::Wait(n)),
                other => other?,
            }
        }
        missing?;
        came.iter().for_each(|extent| self.reads.used(extent));
        Ok(())
    }
    /// Appends a range, and notes what of it `came` from the device. `alone`: it is all that the caller asks for.
    fn gather(
        &mut self,
        t: &mut Target,
        Range { start: offset, end }: Range<u64>,
        alone: bool,
        out: &mut ReadData,
        came: &mut Came,
    ) -> StoreResult<()> {
        let Some(node) = self.objects.node(t.slot) else { return Ok(()) };
        if offset >= end {
            return Ok(());
        }
        let Pieces { pieces, crcs } = self.pieces(node, offset, end);
        let mut at = offset / BLOCK * BLOCK;
        let is_one = alone && pieces.len() == 1 && out.is_empty();
        let mut missing = Ok(());
        for (piece, blocks) in pieces {
            let stop = at + blocks * BLOCK;
            let (from, to) = (offset.max(at) - at, end.min(stop) - at);
            let range = from as usize..to as usize;
            match piece {
                Piece::Zeros => out.push_zeros(range.len()),
                Piece::Here(bytes) => out.push(bytes.slice(range)),
                Piece::Spoiled => {
                    let what = format!("a block at {at} was damaged when a part of it was written");
                    return Err(StoreError::Damaged { coll: t.coll, what });
                }
                Piece::Device(extent, theirs) => match self.fetch(extent, &crcs[theirs.clone()], t.coll, &mut t.ticket) {
                    Ok(bytes) => {
                        match t.ticket {
                            OWN => self.reads.hold(extent),
                            _ => came.push(extent),
                        }
                        match crcs[theirs] {
                            [crc] if is_one && range.len() == bytes.len() => *out = checked(bytes, crc),
                            _ => out.push(bytes.slice(range)),
                        }
                    }
                    Err(StoreError::Wait(n)) => {
                        if let [crc] = crcs[theirs]
                            && is_one
                        {
                            self.tickets.asked(n, Asked { extent, crc, from: from as u32, to: to as u32 });
                        }
                        missing = Err(StoreError::Wait(n));
                    }
                    Err(e) => return Err(e),
                },
            }
            at = stop;
        }
        missing
    }

    /// What a change needs of an object's data, and the numbers of blocks that are damaged: zeros stand for those. Where the store
    /// spoils, a change does not stop at damage: of such a block what is not replaced is gone, the rest of the object is what it is to be.
    pub fn collect_old(&mut self, t: &mut Target, offset: u64, len: u64) -> StoreResult<(Bytes, Vec<u64>)> {
        let mut out = ReadData::new();
        match self.collect(t, offset, len, &mut out) {
            Err(StoreError::Damaged { .. }) => {}
            other => return other.map(|()| (out.flat(), Vec::new())),
        }
        let end = offset.saturating_add(len).min(self.objects.node(t.slot).map_or(0, |node| node.size));
        let (mut all, mut bad, mut missing, mut at) = (Vec::new(), Vec::new(), Ok(()), offset);
        while at < end {
            let next = end.min((at / BLOCK + 1) * BLOCK);
            let mut part = ReadData::new();
            match self.collect(t, at, next - at, &mut part) {
                Ok(()) => all.extend_from_slice(&part.flat()),
                Err(StoreError::Wait(n)) => missing = Err(StoreError::Wait(n)),
                Err(StoreError::Damaged { .. }) if self.cfg.spoils || self.objects.is_spoiled(t.slot, at / BLOCK) => bad.push(at / BLOCK),
                Err(e) => return Err(e),
            }
            all.resize((next - offset) as usize, 0);
            at = next;
        }
        missing.map(|()| (all.into(), bad))
    }

    /// The block that was read for a ticket, or its part.
    pub fn take_read(&mut self, ticket: u64) -> Option<ReadData> {
        let asked = self.tickets.given(ticket)?;
        let bytes = self.reads.here(&asked.extent, &[asked.crc]).filter(|_| !self.is_stopped())?;
        let data = match bytes.slice(asked.from as usize..asked.to as usize) {
            all if all.len() == bytes.len() => checked(all, asked.crc),
            part => part.into(),
        };
        self.reads.taken(&asked.extent);
        Some(data)
    }

    /// Shows rows, or says that they must be read first.
    pub fn rows_for(
        &mut self,
        first: &[u8],
        last: &[u8],
        coll: CollId,
        ticket: &mut u64,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.rows_ahead(first, last, AHEAD, coll, ticket, visit)
    }
    /// The same for a read that wants all rows at once: up to so many leaves are asked for together.
    pub fn rows_ahead(
        &mut self,
        first: &[u8],
        last: &[u8],
        ahead: usize,
        coll: CollId,
        ticket: &mut u64,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        match self.table.scan(first, last, ahead, visit) {
            Ok(passed) => {
                self.table.sweep(first, last, &passed);
                Ok(())
            }
            Err(missing) => Err(self.want_from(first, &missing, coll, ticket)),
        }
    }
    /// Leaves that a scan misses.
    pub fn want_leaves(&mut self, missing: &[LeafRef], coll: CollId, ticket: &mut u64) -> StoreError {
        let mut wait = None;
        for leaf in missing {
            match self.want_leaf(leaf, coll, ticket) {
                StoreError::Wait(n) => wait = Some(StoreError::Wait(n)),
                e => return e,
            }
        }
        wait.expect("a scan that stops says what it misses")
    }

    /// The same for a scan that begins anew at `first` when they have come: what it has read by then stays.
    fn want_from(&mut self, first: &[u8], missing: &[LeafRef], coll: CollId, ticket: &mut u64) -> StoreError {
        if let Some(last) = missing.last() {
            let before = self.table.index().leaves_from(first).map(|(_, leaf)| leaf).take_while(|leaf| leaf.id != last.id);
            let blocks: u64 = before.map(|leaf| u64::from(leaf.blocks)).sum();
            self.hold_leaves(((blocks + u64::from(last.blocks)) * BLOCK) as usize);
        }
        self.want_leaves(missing, coll, ticket)
    }

    /// Objects of a collection, ascending; fewer than `max` where their rows are large, one at least.
    pub fn list(&mut self, coll: CollId, start: &GHObject, end: &GHObject, max: usize, ticket: &mut u64) -> StoreResult<ListPage> {
        let bits = self.colls.need(coll)?;
        let family = key::family(coll);
        let mut page = ListPage::default();
        let bound = |obj: &GHObject| {
            if obj.max || obj.hobj.max {
                return key::kind_end(key::OBJECT);
            }
            let mut out = Vec::new();
            key::object(family, obj, &mut out);
            out
        };
        let (from, to) = (bound(start), bound(end));
        // A page begins anew after each wait: its leaves must find room together, and rows with many attributes are large.
        let (mut bytes, bytes_max) = (0, self.budget.leaves_max() / 2);
        for (first, last) in key::coll_ranges(coll, bits) {
            let (first, last) = (first.max(from.clone()), last.min(to.clone()));
            if first >= last {
                continue;
            }
            let mut bad = None;
            // The objects are looked at while the table is shown: both stay as they are.
            let (table, objects) = (&self.table, &self.objects);
            let shown = table.scan(&first, &last, AHEAD, &mut |key, row| {
                let name = match row {
                    Row::Obj(slot) => match objects.name(slot) {
                        Some(name) => name,
                        None => return ControlFlow::Continue(()),
                    },
                    Row::Bytes(_) => match key::parse_object(key) {
                        Ok((_, name)) => name,
                        Err(e) => {
                            bad = Some(e);
                            return ControlFlow::Break(());
                        }
                    },
                };
                if page.objects.len() >= max.max(1) || bytes > bytes_max {
                    page.next = Some(name);
                    return ControlFlow::Break(());
                }
                page.objects.push(name);
                bytes += if let Row::Bytes(row) = row { row.len() } else { 0 };
                ControlFlow::Continue(())
            });
            if let Err(missing) = shown {
                return Err(self.want_from(&first, &missing, coll, ticket));
            }
            if let Some(e) = bad {
                return Err(StoreError::Damaged { coll, what: e.to_string() });
            }
            if page.next.is_some() {
                break;
            }
        }
        Ok(page)
    }
}

impl Core {
    /// One row.
    pub fn row_for(&mut self, key: &[u8], coll: CollId, ticket: &mut u64) -> StoreResult<Option<Bytes>> {
        match self.table.get(&key.into()) {
            crate::rows::meta::Found::Row(row) => Ok(Some(row)),
            crate::rows::meta::Found::Absent | crate::rows::meta::Found::Obj => Ok(None),
            crate::rows::meta::Found::Read(leaf) => Err(self.want_leaf(&leaf, coll, ticket)),
        }
    }
}
