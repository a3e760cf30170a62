//! What transactions add at most, counted before they are accepted: places, bytes of rows, changes that lie beside the record.

use super::Queue;
use crate::open::layout::{BLOCK, CHUNK, CHUNK_BLOCKS};
use crate::place::room::ROW_BYTES;
use crate::rows::attr_cells;
use crate::rows::key;
use crate::rows::layers::{DEPTH_MAX, Layers, SHARE_MIN};
use crate::rows::objects::Objects;
use crate::rows::onode::Chunk;
use bytes::Bytes;
use smallvec::SmallVec;
use store::LogDelta;
use types::transaction::{CollIx, ObjIx};
use types::{Transaction, TxKind, TxOp};

/// What transactions add at most.
#[derive(Debug, Clone, Copy, Default)]
pub struct Growth {
    /// Pieces of data, each of a chunk at most: so many empty chunks are enough, however scattered the rest of the free space is.
    pub pieces: u64,
    /// Blocks of the largest piece.
    pub largest: u64,
    /// Bytes of rows.
    pub bytes: u64,
    /// Rows, but for those of removals.
    pub rows: u64,
    /// Chunks for changes that lie beside the record.
    pub spilled: u64,
}

impl Growth {
    /// Chunks that it takes at most where each piece has one of its own.
    pub fn chunks(&self) -> u64 {
        self.pieces + self.spilled
    }
    /// Blocks that it takes at most, where pieces share chunks.
    pub fn blocks(&self) -> u64 {
        self.pieces * self.largest.min(CHUNK_BLOCKS) + self.spilled * CHUNK_BLOCKS
    }
}

/// What the transaction adds, but for what clones copy and what lies beside the record. `in_cells`: large attributes lie in cells.
pub fn of(txn: &Transaction, log: Option<&LogDelta>, in_cells: bool) -> Growth {
    let (mut pieces, mut bytes) = (0, 0);
    let attr = |value: &Bytes| match value.len() {
        len if in_cells && attr_cells::is_large(len) => (cells(0, len as u64), attr_cells::ENTRY_BYTES),
        len => (0, len),
    };
    for op in txn.ops() {
        match &op.kind {
            TxKind::Write { offset, data } => {
                let (at, len) = (*offset, data.len() as u64);
                pieces += cells(at, len);
                bytes += UNWRITTEN_BYTES * edge(at) as usize;
            }
            // It is zeroed before; both may move a cell.
            TxKind::CloneRange { dst_offset, len, .. } => {
                pieces += cells(*dst_offset, *len) + 2;
                bytes += UNWRITTEN_BYTES;
            }
            TxKind::Zero { offset, len } if *len > 0 => pieces += edge(*offset) + edge(offset.saturating_add(*len)),
            TxKind::Truncate { size } => pieces += edge(*size),
            TxKind::SetAttr { value, .. } => {
                let (more, row) = attr(value);
                (pieces, bytes) = (pieces + more, bytes + row);
            }
            TxKind::SetAttrs(attrs) => {
                for (more, row) in attrs.iter().map(|(_, value)| attr(value)) {
                    (pieces, bytes) = (pieces + more, bytes + row);
                }
            }
            TxKind::OmapSetKeys(keys) => bytes += keys.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>(),
            TxKind::OmapSetHeader(header) => bytes += header.len(),
            _ => {}
        }
    }
    let keys = |op: &TxOp| if let TxKind::OmapSetKeys(keys) = &op.kind { keys.len() as u64 } else { 0 };
    let rows = txn.objects().count() as u64 + txn.ops().iter().map(keys).sum::<u64>();
    let mut growth = Growth { pieces, largest: CHUNK_BLOCKS, bytes: bytes as u64, rows, spilled: 0 };
    if pieces > 0 || bytes > 0 {
        growth.bytes += ROW_BYTES * (txn.objects().count() + log.map_or(0, entries)) as u64;
    }
    growth
}
/// A part of a block is zeroed by an image; its cell may have to move.
fn edge(at: u64) -> u64 {
    u64::from(!at.is_multiple_of(BLOCK))
}
/// Entries of groups' logs.
fn entries(log: &LogDelta) -> usize {
    log.entries.len() + log.with.iter().map(entries).sum::<usize>()
}
/// Bytes that the row of a piece of so many blocks may have beyond that of one run: as many runs as it has blocks.
pub fn in_pieces_bytes(blocks: u64) -> u64 {
    10 * blocks.saturating_sub(1)
}
/// Images that one change puts into the record at most: cells that are written whole go to their places.
pub fn images(kind: &TxKind) -> u64 {
    match kind {
        TxKind::Write { offset, data } => end_blocks(*offset, data.len() as u64),
        TxKind::CloneRange { dst_offset, len, .. } => end_blocks(*dst_offset, *len) + 2,
        TxKind::Zero { .. } | TxKind::Truncate { .. } => 2,
        TxKind::SetAttr { value, .. } => attr_images(value),
        TxKind::SetAttrs(attrs) => attrs.iter().map(|(_, value)| attr_images(value)).sum(),
        _ => 0,
    }
}
/// The last cell of a large attribute may be little.
fn attr_images(value: &Bytes) -> u64 {
    if attr_cells::is_large(value.len()) { end_blocks(0, value.len() as u64) } else { 0 }
}
/// Of an object's row, and of a change, roughly: ranges that nothing was written to, which are shorter than a cell.
const UNWRITTEN_BYTES: usize = 8 * store::UNWRITTEN_MAX;
/// Bytes of changes that a transaction is in the log, at most, roughly.
pub fn changes(txn: &Transaction, log: Option<&LogDelta>, in_cells: bool) -> u64 {
    const OP_BYTES: usize = 160; // of one change, with its object's key
    const CELL_BYTES: u64 = 128; // a place and the crcs of its blocks
    const ROW_BYTES: usize = 16; // beside key and value
    const ENTRY_BYTES: usize = 400;
    let attr = |value: &Bytes| match value.len() {
        len if in_cells && attr_cells::is_large(len) => (cells(0, len as u64) * CELL_BYTES) as usize,
        len => len,
    };
    let of = |op: &TxOp| match &op.kind {
        TxKind::Write { offset, data } => (cells(*offset, data.len() as u64) * CELL_BYTES) as usize + UNWRITTEN_BYTES,
        TxKind::CloneRange { dst_offset, len, .. } => (cells(*dst_offset, *len) * CELL_BYTES) as usize + UNWRITTEN_BYTES,
        TxKind::Zero { .. } | TxKind::Truncate { .. } => UNWRITTEN_BYTES,
        TxKind::SetAttr { name, value } => name.len() + attr(value),
        TxKind::SetAttrs(attrs) => attrs.iter().map(|(name, value)| name.len() + attr(value) + ROW_BYTES).sum(),
        TxKind::OmapSetKeys(keys) => keys.iter().map(|(key, value)| key.len() + value.len() + ROW_BYTES).sum(),
        TxKind::OmapRmKeys(keys) => keys.iter().map(|key| key.len() + ROW_BYTES).sum(),
        TxKind::OmapSetHeader(header) => header.len(),
        _ => 0,
    };
    let log = log.map_or(0, |log| log.rows() * ENTRY_BYTES);
    (txn.ops().iter().map(|op| of(op) + OP_BYTES).sum::<usize>() + log) as u64
}
/// Cells that a range touches: each may have to move.
fn cells(offset: u64, len: u64) -> u64 {
    if len == 0 { 0 } else { offset.saturating_add(len).div_ceil(CHUNK) - offset / CHUNK }
}
/// Blocks that a range touches in its first and its last cell; those between are written whole, beside the record.
fn end_blocks(offset: u64, len: u64) -> u64 {
    if len == 0 {
        return 0;
    }
    let (first, end) = (offset / BLOCK, offset.saturating_add(len).div_ceil(BLOCK));
    let (first_end, last) = ((first / CHUNK_BLOCKS + 1) * CHUNK_BLOCKS, (end - 1) / CHUNK_BLOCKS * CHUNK_BLOCKS);
    if end <= first_end { end - first } else { first_end - first + end - last }
}

/// Blocks of the place that a write beyond the place of a cell gets. Only one from the start needs no more than itself: see `Ways::way`.
fn place_of(offset: u64, end: u64) -> u64 {
    if offset == 0 && end <= CHUNK { end.div_ceil(BLOCK) } else { CHUNK_BLOCKS }
}
/// The object that a change may make larger, and the blocks of the largest place that it may leave it.
pub fn leaves(op: &TxOp) -> (ObjIx, u64) {
    match &op.kind {
        TxKind::Write { offset, data } => (op.obj, place_of(*offset, offset.saturating_add(data.len() as u64))),
        TxKind::Truncate { size } if *size > 0 => (op.obj, CHUNK_BLOCKS),
        TxKind::Zero { .. } => (op.obj, CHUNK_BLOCKS),
        TxKind::Clone { to } | TxKind::CloneRange { to, .. } | TxKind::TryRename { to } | TxKind::MoveRename { to, .. } => {
            (*to, CHUNK_BLOCKS)
        }
        _ => (op.obj, 0),
    }
}

/// Blocks of the largest piece that a transaction may need: a write to an object may have to move the object's cell, as it is when those
/// that wait are made.
pub fn largest(txn: &Transaction, objects: &mut Objects, queue: &mut Queue) -> u64 {
    let mut largest = 0;
    // The object that is emptied just before: it has nothing to move.
    let mut emptied = None;
    // Objects that get another's content, or another size, before they are written to.
    let mut others: SmallVec<[ObjIx; 2]> = SmallVec::new();
    // Objects that are gone before they are written to: a new one has nothing to move.
    let mut gone: SmallVec<[(CollIx, ObjIx); 2]> = SmallVec::new();
    for op in txn.ops() {
        let before = emptied.take().filter(|before| *before == (op.coll, op.obj));
        let (offset, end) = match &op.kind {
            TxKind::Write { offset, data } => (*offset, offset.saturating_add(data.len() as u64)),
            TxKind::Truncate { size: 0 } => {
                emptied = Some((op.coll, op.obj));
                continue;
            }
            TxKind::Truncate { size } if edge(*size) == 0 => {
                others.push(op.obj);
                continue;
            }
            TxKind::Clone { to } => {
                others.push(*to);
                continue;
            }
            TxKind::TryRename { to } | TxKind::MoveRename { to, .. } => {
                others.push(*to);
                gone.push((op.coll, op.obj));
                continue;
            }
            TxKind::Remove => {
                gone.push((op.coll, op.obj));
                continue;
            }
            TxKind::Zero { .. } | TxKind::CloneRange { .. } | TxKind::Truncate { .. } => return CHUNK_BLOCKS,
            TxKind::SetAttr { value, .. } if attr_cells::is_large(value.len()) => return CHUNK_BLOCKS,
            TxKind::SetAttrs(attrs) if attrs.iter().any(|(_, value)| attr_cells::is_large(value.len())) => return CHUNK_BLOCKS,
            _ => continue,
        };
        let new = place_of(offset, end);
        largest = largest.max(match before {
            Some(_) => new,
            None if others.contains(&op.obj) => CHUNK_BLOCKS,
            None if gone.contains(&(op.coll, op.obj)) => new,
            None => moved(txn, op, (end, new), objects, queue.leaves(txn.object(op.obj))),
        });
        if largest >= CHUNK_BLOCKS {
            break;
        }
    }
    largest
}
/// Blocks of the largest piece of a write up to `end`, which gets `new` blocks in a cell without a place. `waits`: blocks that those which
/// wait leave the object, if any of them names it.
fn moved(txn: &Transaction, op: &TxOp, (end, new): (u64, u64), objects: &mut Objects, waits: Option<u64>) -> u64 {
    let slot = objects.find(key::family(txn.coll(op.coll)), txn.object(op.obj));
    let known = match slot.filter(|slot| objects.look(*slot)).and_then(|slot| objects.node(slot)) {
        Some(node) => {
            let most = |chunks: &[Chunk]| chunks.iter().map(|chunk| chunk.blocks().end).max().unwrap_or(0);
            // Within the cell's place a write moves no more than that.
            if waits.is_none() && end <= CHUNK && end <= most(node.places(0)) * BLOCK {
                return most(&node.chunks);
            }
            if end < node.size {
                return CHUNK_BLOCKS;
            }
            most(&node.chunks)
        }
        // Not there, as it seems: what asks for an object has just looked for it. If not, the largest.
        None if slot.is_some() => 0,
        None => CHUNK_BLOCKS,
    };
    new.max(known).max(waits.unwrap_or(0))
}
/// Bytes of rows that clones of objects copy at most. (Who makes a transaction of clones has just asked for the objects, so they are in memory.)
/// The first figure is of what the record has, too: omaps; the second one tells where data are.
pub fn copied(txn: &Transaction, objects: &mut Objects, layers: &Layers) -> (u64, u64) {
    let (mut bytes, mut rows) = (0, 0);
    for op in txn.ops().iter().filter(|op| matches!(op.kind, TxKind::Clone { .. })) {
        let slot = objects.find(key::family(txn.coll(op.coll)), txn.object(op.obj));
        if let Some(slot) = slot.filter(|slot| objects.look(*slot)) {
            let node = objects.node(slot).expect("it was looked at");
            rows += node.places_bytes();
            if node.omap_bytes < SHARE_MIN || layers.depth(node.base()) >= DEPTH_MAX {
                bytes += node.omap_bytes;
            }
        }
    }
    (bytes, rows)
}
