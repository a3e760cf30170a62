//! Transactions, one change after the other; those that must wait for bytes, and the order they keep.
//!
//! ```text
//!   submit ──> everything in memory ──> made, into the open record
//!      └────> something must be read ──> the queue ──(it has come)──> made
//! ```
//! Nothing overtakes in the queue. What reads an object that a waiting transaction names waits too: what was submitted is visible.

use crate::key;
use crate::layers::{DEPTH_MAX, SHARE_MIN};
use crate::layout::{BLOCK, CHUNK, CHUNK_BLOCKS};
use crate::ops::{self, Op};
use crate::planted::{Bug, planted};
use crate::room::ROW_BYTES;
use crate::state::{Core, OWN};
use crate::write::{Target, check_range};
use store::{LogDelta, StoreError, StoreResult};
use types::transaction::ObjIx;
use types::{CollId, GHObject, Transaction, TxKind, TxOp};

/// A transaction that waits.
#[derive(Debug)]
pub struct Queued {
    txn: Transaction,
    log: Option<LogDelta>,
    token: u64,
    growth: Growth,
    /// Some change is of a collection, not of an object in it.
    of_coll: bool,
    made: Made,
}

/// How far a transaction is made.
#[derive(Debug, Default)]
struct Made {
    /// Changes before this one are made, and so many parts of this one.
    next: usize,
    part: usize,
    /// Of a change that goes over keys of an omap: the key that it goes on with.
    key: Option<Vec<u8>>,
    /// Images of the open record that are others', and the change for which it was decided last whether it has images.
    images: u64,
    decided: Option<(usize, bool)>,
    /// They stay while the transaction is half made: nothing leaves memory then.
    slots: Slots,
    /// The first number that it gave to an object.
    first_new: u64,
}

/// The slots of a transaction's objects, found once.
#[derive(Debug, Default)]
struct Slots(Vec<Option<u32>>);

/// Changes of a transaction whose objects and blocks are asked for together.
const AHEAD_OPS: usize = 512;

fn absent(coll: CollId, obj: &GHObject) -> StoreError {
    broken(coll, &format!("{obj} is not there"))
}
fn broken(coll: CollId, what: &str) -> StoreError {
    StoreError::Stopped(format!("{coll}: {what}"))
}

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

impl Queued {
    pub fn growth(&self) -> &Growth {
        &self.growth
    }
}

fn growth(txn: &Transaction, log: Option<&LogDelta>) -> Growth {
    let (mut pieces, mut bytes) = (0, 0);
    // A part of a block is zeroed by an image; its cell may have to move.
    let edge = |at: u64| u64::from(!at.is_multiple_of(BLOCK));
    for op in txn.ops() {
        match &op.kind {
            TxKind::Write { offset, data } => pieces += cells(*offset, data.len() as u64),
            // It is zeroed before; both may move a cell.
            TxKind::CloneRange { dst_offset, len, .. } => pieces += cells(*dst_offset, *len) + 2,
            TxKind::Zero { offset, len } if *len > 0 => pieces += edge(*offset) + edge(offset.saturating_add(*len)),
            TxKind::Truncate { size } => pieces += edge(*size),
            TxKind::SetAttr { value, .. } => bytes += value.len(),
            TxKind::SetAttrs(attrs) => bytes += attrs.iter().map(|a| a.1.len()).sum::<usize>(),
            TxKind::OmapSetKeys(keys) => bytes += keys.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>(),
            TxKind::OmapSetHeader(header) => bytes += header.len(),
            _ => {}
        }
    }
    let keys = |op: &TxOp| if let TxKind::OmapSetKeys(keys) = &op.kind { keys.len() as u64 } else { 0 };
    let rows = txn.objects().count() as u64 + txn.ops().iter().map(keys).sum::<u64>();
    let mut growth = Growth { pieces, largest: CHUNK_BLOCKS, bytes: bytes as u64, rows, spilled: 0 };
    if pieces > 0 || bytes > 0 {
        growth.bytes += ROW_BYTES * (txn.objects().count() + log.map_or(0, |log| log.entries.len())) as u64;
    }
    growth
}
/// Images that one change puts into the record at most: cells that are written whole go to their places.
fn images(kind: &TxKind) -> u64 {
    match kind {
        TxKind::Write { offset, data } => end_blocks(*offset, data.len() as u64),
        TxKind::CloneRange { dst_offset, len, .. } => end_blocks(*dst_offset, *len) + 2,
        TxKind::Zero { .. } | TxKind::Truncate { .. } => 2,
        _ => 0,
    }
}
/// Bytes of changes that a transaction is in the log, at most, roughly.
fn changes(txn: &Transaction, log: Option<&LogDelta>) -> u64 {
    const OP_BYTES: usize = 160; // of one change, with its object's key
    const CELL_BYTES: u64 = 128; // a place and the crcs of its blocks
    const ROW_BYTES: usize = 16; // beside key and value
    const ENTRY_BYTES: usize = 400;
    let of = |op: &TxOp| match &op.kind {
        TxKind::Write { offset, data } => (cells(*offset, data.len() as u64) * CELL_BYTES) as usize,
        TxKind::CloneRange { dst_offset, len, .. } => (cells(*dst_offset, *len) * CELL_BYTES) as usize,
        TxKind::SetAttr { name, value } => name.len() + value.len(),
        TxKind::SetAttrs(attrs) => attrs.iter().map(|(name, value)| name.len() + value.len() + ROW_BYTES).sum(),
        TxKind::OmapSetKeys(keys) => keys.iter().map(|(key, value)| key.len() + value.len() + ROW_BYTES).sum(),
        TxKind::OmapRmKeys(keys) => keys.iter().map(|key| key.len() + ROW_BYTES).sum(),
        TxKind::OmapSetHeader(header) => header.len(),
        _ => 0,
    };
    let log = log.map_or(0, |log| (log.entries.len() + log.dups.len() + log.missing.len()) * ENTRY_BYTES);
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

impl Core {
    pub fn submit(&mut self, txn: Transaction, log: Option<LogDelta>, token: u64) -> StoreResult<()> {
        self.alive()?;
        let mut growth = growth(&txn, log.as_ref());
        let copied = self.copied(&txn);
        growth.bytes += copied;
        if growth.pieces > 0 && self.alloc.is_scarce() {
            growth.largest = self.largest(&txn);
        }
        growth.spilled = self.chunks_to_spill(changes(&txn, log.as_ref()) + 2 * copied);
        let Growth { pieces, bytes, spilled, .. } = growth;
        if !self.has_room(&growth) && !planted(Bug::AcceptWithoutRoom) || (pieces > 0 || bytes > 0) && self.is_beside_full() {
            return Err(StoreError::Full);
        }
        self.queue_growth.pieces += pieces;
        self.queue_growth.spilled += spilled;
        self.queue_growth.bytes += bytes;
        let of_coll = txn.ops().iter().any(|op| of_coll(&op.kind));
        self.queue.push_back(Queued { txn, log, token, growth, of_coll, made: Made::default() });
        if self.queue.len() == 1 {
            return self.work_queue();
        }
        let last = self.queue.len() - 1;
        self.look_ahead(last);
        Ok(())
    }
    /// Blocks of the largest piece that writes may need: they may have to move what the object has there already.
    fn largest(&mut self, txn: &Transaction) -> u64 {
        let mut largest = 0;
        for op in txn.ops() {
            let (TxKind::Write { offset, .. } | TxKind::CloneRange { dst_offset: offset, .. } | TxKind::Zero { offset, .. }) = &op.kind
            else {
                continue;
            };
            let end = match &op.kind {
                TxKind::Write { data, .. } => offset.saturating_add(data.len() as u64),
                _ => u64::MAX,
            };
            let slot = self.objects.find(key::family(txn.coll(op.coll)), txn.object(op.obj));
            let known = match slot.filter(|slot| self.objects.look(*slot)).and_then(|slot| self.objects.node(slot)) {
                Some(node) => node.chunks.iter().map(|chunk| chunk.slots()).max().unwrap_or(0),
                // Not there, as it seems: what asks for an object has just looked for it. If not, the largest.
                None if slot.is_some() => 0,
                None => CHUNK_BLOCKS,
            };
            let new = if end > CHUNK { CHUNK_BLOCKS } else { end.div_ceil(BLOCK) };
            largest = largest.max(known).max(new);
        }
        if txn.ops().iter().any(|op| matches!(op.kind, TxKind::Truncate { .. } | TxKind::CloneRange { .. })) {
            CHUNK_BLOCKS
        } else {
            largest
        }
    }
    /// Bytes of rows that clones of objects copy at most. (Who makes a transaction of clones has just asked for the objects, so they are in memory.)
    fn copied(&mut self, txn: &Transaction) -> u64 {
        let mut bytes = 0;
        for op in txn.ops().iter().filter(|op| matches!(op.kind, TxKind::Clone { .. })) {
            let slot = self.objects.find(key::family(txn.coll(op.coll)), txn.object(op.obj));
            if let Some(slot) = slot.filter(|slot| self.objects.look(*slot)) {
                let node = self.objects.node(slot).expect("it was looked at");
                if node.omap_bytes < SHARE_MIN || self.layers.depth(node.base()) >= DEPTH_MAX {
                    bytes += node.omap_bytes;
                }
            }
        }
        bytes
    }
    /// An open record is not grown when it has so many bytes, until it is sealed.
    fn batch_max(&self) -> usize {
        (1 << 20).min((self.ring.blocks() * BLOCK / 32) as usize)
    }
    /// True while a checkpoint is under way and others change more than it gets done.
    pub fn is_crowded(&self) -> bool {
        self.changes_max().is_some_and(|max| self.table.active.bytes + self.changed_bytes > max)
    }
    /// Blocks that one transaction may put into its record: what is more lies beside it.
    pub fn txn_max(&self) -> u64 {
        4096.min(self.ring.blocks() / 8)
    }
    /// Blocks that a record may have.
    pub fn record_max(&self) -> u64 {
        self.batch_max() as u64 / BLOCK + self.txn_max() + 2
    }
    /// A record is sent while the log has at most so many blocks from the oldest one that is under way on.
    pub fn span_max(&self) -> u64 {
        2048.min(self.ring.blocks() / 8)
    }
    /// How far behind a record, at most, the first one is that was sent when that one was durable. Those between were sent while it was under way,
    /// so the last of them begins within the span, and ends a record later; once on the way, less than a record in front of the ring's end may
    /// have been skipped.
    pub fn voucher_max(&self) -> u64 {
        self.span_max() + 2 * self.record_max()
    }

    /// Makes what waits, as far as everything that it needs has come.
    pub fn work_queue(&mut self) -> StoreResult<()> {
        loop {
            if self.batch.bytes() > self.batch_max() && !self.half {
                self.seal();
                if self.batch.bytes() > self.batch_max() {
                    // The log is full until a checkpoint has trimmed it.
                    return Ok(());
                }
            }
            if self.is_crowded() && !self.half {
                // What changed since the checkpoint began has its bound, too: the checkpoint gets on first.
                return Ok(());
            }
            if !self.half && self.queue.front().is_some_and(|first| self.is_tight(first.growth())) {
                self.checkpoint_wanted |= self.checkpoint.is_none();
                return Ok(());
            }
            let Some(mut first) = self.queue.pop_front() else { return Ok(()) };
            let before = self.batch.meta.len();
            self.reads.turn(true);
            let done = self.make(&mut first);
            self.reads.turn(false);
            match done {
                Ok(()) => {
                    self.half = false;
                    self.reads.let_go();
                    self.queue_growth.pieces -= first.growth.pieces;
                    self.queue_growth.spilled -= first.growth.spilled;
                    self.queue_growth.bytes -= first.growth.bytes;
                    self.batch.tokens.push(first.token);
                }
                Err(StoreError::Wait(_)) => {
                    // A change, too, may wait when a part of it is made: what it needs is found by what there was before.
                    let part = self.batch.meta.len() > before && !planted(Bug::HalfChange);
                    self.half |= first.made.next > 0 || first.made.part > 0 || part;
                    self.queue.push_front(first);
                    return Ok(());
                }
                Err(e) => {
                    self.stop(match &e {
                        StoreError::Stopped(why) => why.clone(),
                        StoreError::Damaged { .. } => format!("a change needs what is damaged: {e}; {}", self.cfg.command("repair")),
                        other => other.to_string(),
                    });
                    return Err(e);
                }
            }
        }
    }
    /// Asks for what a transaction will need when its turn comes.
    fn look_ahead(&mut self, n: usize) {
        let queued = self.queue.remove(n).expect("it is there");
        let mut slots = Slots(vec![None; queued.txn.objects().count()]);
        // Whatever is wrong with it comes out when it is made.
        let _ = self.prepare(&queued.txn, 0, &mut slots);
        self.queue.insert(n, queued);
    }

    /// Makes a transaction, or a step of a large one: then it waits for the store itself, as if something had to be read.
    fn make(&mut self, q: &mut Queued) -> StoreResult<()> {
        let Queued { txn, made, .. } = q;
        if !self.half {
            let slots = Slots(vec![None; txn.objects().count()]);
            *made = Made { slots, first_new: self.next_nid, images: self.batch.images(), ..Made::default() };
            self.spill_from = self.batch.meta.len();
        }
        self.without_images = false;
        self.prepare(txn, made.next, &mut made.slots)?;
        for (i, op) in txn.ops().iter().enumerate().skip(made.next) {
            // As it was decided once: whoever tries again finds the same way.
            self.without_images = match made.decided {
                Some((of, without)) if of == i => without,
                _ => self.batch.images() - made.images + images(&op.kind) > self.images_max(),
            };
            made.decided = Some((i, self.without_images));
            self.make_one(txn, op, made)?;
            (made.next, made.part, made.key) = (i + 1, 0, None);
            if self.spill_if_many() {
                return Err(StoreError::Wait(OWN));
            }
        }
        for slot in std::mem::take(&mut made.slots).0.into_iter().flatten() {
            // What is written again and again stays as it is written; of what is new most is not asked for soon.
            if self.objects.get(slot).node.as_deref().is_some_and(|node| node.nid >= made.first_new) {
                self.objects.pack(slot);
            }
            self.recount(slot);
        }
        if let Some(delta) = q.log.take() {
            self.log_delta(&delta).map_err(|e| StoreError::Stopped(format!("a change of group {}: {e}", delta.pg)))?;
            self.spill_if_many();
        }
        Ok(())
    }
    /// Makes changes of rows one after the other, from where it was left.
    fn make_rows<T>(&mut self, rows: &[T], part: &mut usize, mut make: impl FnMut(&mut Self, &T) -> StoreResult<()>) -> StoreResult<()> {
        for row in rows.iter().skip(*part) {
            make(self, row)?;
            *part += 1;
            if *part < rows.len() && self.spill_if_many() {
                return Err(StoreError::Wait(OWN));
            }
        }
        Ok(())
    }

    /// Finds the objects, and asks for the blocks that writes will need, all at once.
    fn prepare(&mut self, txn: &Transaction, from: usize, slots: &mut Slots) -> StoreResult<()> {
        let mut missing = Ok(());
        let mut note = |done: StoreResult<()>| match done {
            Err(StoreError::Wait(n)) => {
                missing = Err(StoreError::Wait(n));
                Ok(())
            }
            other => other,
        };
        for op in txn.ops()[from..].iter().take(AHEAD_OPS) {
            if of_coll(&op.kind) {
                continue;
            }
            let coll = txn.coll(op.coll);
            note(self.find(txn, coll, op.obj, slots).map(drop))?;
            match &op.kind {
                TxKind::Clone { to } | TxKind::CloneRange { to, .. } | TxKind::TryRename { to } => {
                    note(self.find(txn, coll, *to, slots).map(drop))?
                }
                TxKind::MoveRename { to_coll, to } => note(self.find(txn, txn.coll(*to_coll), *to, slots).map(drop))?,
                TxKind::Write { offset, data } => {
                    check_range(*offset, data.len() as u64)?;
                    if let Some(slot) = slots.0[op.obj as usize] {
                        note(self.check_write(&mut Target { coll, slot, ticket: OWN }, *offset, data.len() as u64))?;
                    }
                }
                _ => {}
            }
        }
        missing
    }
    fn find(&mut self, txn: &Transaction, coll: CollId, obj: ObjIx, slots: &mut Slots) -> StoreResult<u32> {
        let name = txn.object(obj);
        if let Some(slot) = slots.0[obj as usize] {
            let known = self.objects.get(slot);
            // The same name in a collection of another kind is another object.
            if known.family() == key::family(coll) {
                return Ok(slot);
            }
        }
        let slot = self.slot(coll, name, &mut OWN.clone())?;
        self.objects.unpack(slot);
        slots.0[obj as usize] = Some(slot);
        Ok(slot)
    }
    /// The object's slot, in a collection that it belongs to.
    fn at(&mut self, txn: &Transaction, coll: CollId, obj: ObjIx, slots: &mut Slots) -> StoreResult<Target> {
        if !self.coll_has(coll, txn.object(obj))? {
            return Err(broken(coll, &format!("{} does not belong there", txn.object(obj))));
        }
        Ok(Target { coll, slot: self.find(txn, coll, obj, slots)?, ticket: OWN })
    }
    fn there(&self, slot: u32) -> bool {
        self.objects.get(slot).node.is_some()
    }

    fn make_one(&mut self, txn: &Transaction, op: &TxOp, made: &mut Made) -> StoreResult<()> {
        let Made { slots, part, key: at, .. } = made;
        let coll = txn.coll(op.coll);
        if of_coll(&op.kind) {
            return self.make_coll(txn, coll, &op.kind);
        }
        let name = txn.object(op.obj);
        let mut t = self.at(txn, coll, op.obj, slots)?;
        let slot = t.slot;
        let must = |core: &Self| if core.there(slot) { Ok(()) } else { Err(absent(coll, name)) };
        match &op.kind {
            TxKind::Create | TxKind::Touch => self.create(slot),
            TxKind::Write { offset, data } => {
                check_range(*offset, data.len() as u64)?;
                self.check_write(&mut t, *offset, data.len() as u64)?;
                self.create(slot)?;
                self.write(&mut t, *offset, data.len() as u64, Some(data))
            }
            TxKind::Zero { offset, len } => {
                check_range(*offset, *len)?;
                self.check_zero(&mut t, *offset, *len)?;
                self.create(slot)?;
                self.zero(&mut t, *offset, *len)?;
                if *len > 0 && self.objects.node(slot).is_some_and(|o| o.size < offset + len) {
                    self.change::<&[u8]>(slot, Op::Size(offset + len))?;
                }
                Ok(())
            }
            TxKind::Truncate { size } if self.there(slot) => self.truncate(&mut t, *size),
            TxKind::Remove if self.there(slot) => self.change::<&[u8]>(slot, Op::Remove),
            TxKind::SetAttr { name, value } => {
                must(self)?;
                self.set_attr(slot, name.as_slice(), value)
            }
            TxKind::SetAttrs(attrs) => {
                must(self)?;
                self.make_rows(attrs, part, |core, (name, value)| core.set_attr(slot, name.as_slice(), value))
            }
            TxKind::RmAttr { name } => {
                must(self)?;
                self.change(slot, Op::RmAttr { name: name.as_slice() })
            }
            TxKind::RmAttrs if self.there(slot) => self.change::<&[u8]>(slot, Op::RmAttrs),
            TxKind::Clone { to } => {
                must(self)?;
                let to = self.at(txn, coll, *to, slots)?.slot;
                if to == slot { Ok(()) } else { self.clone_object(coll, slot, to, part, at) }
            }
            TxKind::CloneRange { to, src_offset, len, dst_offset } => {
                check_range(*src_offset, *len)?;
                check_range(*dst_offset, *len)?;
                must(self)?;
                let mut to = self.at(txn, coll, *to, slots)?;
                self.clone_range(&mut t, &mut to, *src_offset, *len, *dst_offset)?;
                self.create(to.slot)
            }
            TxKind::OmapClear if self.there(slot) => self.change::<&[u8]>(slot, Op::OmapClear),
            TxKind::OmapSetKeys(keys) => {
                must(self)?;
                self.make_rows(keys, part, |core, (key, value)| core.change(slot, Op::OmapSet { key: key.as_slice(), value }))
            }
            TxKind::OmapRmKeys(keys) => {
                must(self)?;
                self.make_rows(keys, part, |core, key| core.change(slot, Op::OmapRm { key: key.as_slice() }))
            }
            TxKind::OmapRmKeyRange { first, last } => {
                must(self)?;
                self.omap_rm_range(coll, slot, (first.as_slice(), last.as_slice()), part, at)
            }
            TxKind::OmapSetHeader(header) => {
                must(self)?;
                self.change(slot, Op::OmapHeader(&header[..]))
            }
            TxKind::SetAllocHint { object_size, write_size, flags } => {
                self.create(slot)?;
                self.change::<&[u8]>(slot, Op::Hint { object_size: *object_size, write_size: *write_size, flags: *flags })
            }
            TxKind::MoveRename { to_coll, to } => {
                must(self)?;
                let to = self.at(txn, txn.coll(*to_coll), *to, slots)?.slot;
                self.rename(slot, to)
            }
            TxKind::TryRename { to } if self.there(slot) => {
                let to = self.at(txn, coll, *to, slots)?.slot;
                self.rename(slot, to)
            }
            _ => Ok(()),
        }
    }
    /// Clones an object with its omap: shared, if it is large, else copied. Where it has many layers, the clone stands on them, and the object gets rows of
    /// its own again.
    fn clone_object(&mut self, coll: CollId, from: u32, to: u32, part: &mut usize, at: &mut Option<Vec<u8>>) -> StoreResult<()> {
        let copy = match *part {
            0 => {
                let header = self.omap_row(from, None, coll, &mut OWN.clone())?;
                let node = self.objects.node(from).expect("the source is there");
                let (has, base, is_large) = (node.omap, node.base(), node.omap_bytes >= SHARE_MIN);
                let is_deep = self.layers.depth(base) >= DEPTH_MAX;
                let key: Box<[u8]> = Box::from(self.objects.get(to).key());
                let nid = self.next_nid;
                let copy = if !has && base == 0 {
                    self.change(from, Op::CloneTo { key: &key[..], nid })?;
                    None
                } else if is_large || is_deep {
                    self.change(from, Op::ShareTo { key: &key[..], nid, own: if has { nid + 1 } else { 0 } })?;
                    is_deep.then_some((to, from, 2))
                } else {
                    self.change(from, Op::CloneTo { key: &key[..], nid })?;
                    Some((from, to, 1))
                };
                let Some((_, target, n)) = copy else { return Ok(()) };
                if target == from {
                    self.change::<&[u8]>(from, Op::OmapClear)?;
                }
                if let Some(header) = header {
                    self.change(target, Op::OmapHeader(&header[..]))?;
                }
                (*part, *at) = (n, Some(Vec::new()));
                copy
            }
            1 => Some((from, to, 1)),
            _ => Some((to, from, 2)),
        };
        let Some((source, target, _)) = copy else { return Ok(()) };
        while let Some(first) = at {
            let (rows, next) = self.omap_some(source, first, coll, &mut OWN.clone())?;
            rows.iter().try_for_each(|(key, value)| self.change(target, Op::OmapSet { key: &key[..], value: &value[..] }))?;
            *at = next;
            if at.is_some() && self.spill_if_many() {
                return Err(StoreError::Wait(OWN));
            }
        }
        Ok(())
    }
    /// Removes a range of keys: at once, or one by one where what lies below may have any.
    fn omap_rm_range(
        &mut self,
        coll: CollId,
        slot: u32,
        (first, last): (&[u8], &[u8]),
        part: &mut usize,
        at: &mut Option<Vec<u8>>,
    ) -> StoreResult<()> {
        if self.objects.node(slot).is_some_and(|node| node.base() == 0) {
            return self.change(slot, Op::OmapRmRange { first, last });
        }
        if *part == 0 {
            *at = Some(first.to_vec());
        }
        while let Some(first) = at {
            let (rows, next) = self.omap_some(slot, first, coll, &mut OWN.clone())?;
            *part = 1;
            let within = rows.iter().take_while(|(key, _)| &key[..] < last);
            within.clone().try_for_each(|(key, _)| self.change(slot, Op::OmapRm { key: &key[..] }))?;
            *at = next.filter(|_| within.count() == rows.len());
            if at.is_some() && self.spill_if_many() {
                return Err(StoreError::Wait(OWN));
            }
        }
        Ok(())
    }
    fn rename(&mut self, from: u32, to: u32) -> StoreResult<()> {
        if from == to {
            return Ok(());
        }
        let key: Box<[u8]> = Box::from(self.objects.get(to).key());
        self.change(from, Op::RenameTo(&key[..]))
    }

    fn set_coll(&mut self, coll: CollId, bits: Option<u32>) -> StoreResult<()> {
        let name = ops::coll_bytes(coll);
        let op = match bits {
            Some(bits) => Op::MkColl { coll: &name[..], bits },
            None => Op::RmColl { coll: &name[..] },
        };
        op.encode(&mut self.batch.meta);
        let at = crate::apply::At { seq: self.batch.seq, slot: 0, images: 0, run: None };
        self.apply(at, &op).map_err(|e| broken(coll, &e.to_string()))
    }
    fn bits(&self, coll: CollId) -> StoreResult<u32> {
        self.colls.get(&coll).copied().ok_or(StoreError::NoCollection(coll))
    }
    fn make_coll(&mut self, txn: &Transaction, coll: CollId, kind: &TxKind) -> StoreResult<()> {
        match kind {
            TxKind::MkColl { bits } => {
                if self.colls.contains_key(&coll) {
                    return Err(broken(coll, "the collection to be made is there"));
                }
                self.set_coll(coll, Some(*bits))
            }
            TxKind::RmColl => {
                self.bits(coll)?;
                let some = self.list(coll, &GHObject::min(), &GHObject::max(), 1, &mut OWN.clone())?;
                if !some.objects.is_empty() {
                    return Err(broken(coll, "the collection to be removed has objects"));
                }
                self.set_coll(coll, None)
            }
            TxKind::SplitColl { to, bits, rem } => {
                let to = txn.coll(*to);
                (self.bits(coll)?, self.bits(to)?);
                if to.pg().is_none_or(|pg| pg.pgid.seed & crate::queue::hash_mask(*bits) != *rem) {
                    return Err(broken(to, "a collection is split into one that has not the remainder as its number"));
                }
                self.set_coll(coll, Some(*bits))?;
                self.set_coll(to, Some(*bits))
            }
            TxKind::MergeColl { to, bits } => {
                let to = txn.coll(*to);
                (self.bits(coll)?, self.bits(to)?);
                if coll == to {
                    return Err(broken(coll, "a collection is merged into itself"));
                }
                self.set_coll(coll, None)?;
                self.set_coll(to, Some(*bits))
            }
            TxKind::CollSetBits { bits } => {
                self.bits(coll)?;
                self.set_coll(coll, Some(*bits))
            }
            _ => Ok(()),
        }
    }

    /// While transactions wait: who asks for an object that one of them names waits too.
    pub fn busy(&mut self, coll: CollId, obj: Option<&GHObject>) -> StoreResult<()> {
        if self.queue.is_empty() {
            return Ok(());
        }
        let named = |q: &Queued| match obj {
            Some(obj) => q.of_coll || q.txn.objects().any(|o| o == obj),
            None => true,
        };
        if !self.queue.iter().any(named) {
            return Ok(());
        }
        let _ = coll;
        let ticket = self.tickets.make();
        self.queue_tickets.push(ticket);
        Err(StoreError::Wait(ticket))
    }
}

/// The lowest bits of a hash.
pub fn hash_mask(bits: u32) -> u32 {
    if bits >= 32 { u32::MAX } else { (1 << bits) - 1 }
}

fn of_coll(kind: &TxKind) -> bool {
    matches!(
        kind,
        TxKind::Nop
            | TxKind::MkColl { .. }
            | TxKind::RmColl
            | TxKind::SplitColl { .. }
            | TxKind::MergeColl { .. }
            | TxKind::CollSetBits { .. }
            | TxKind::CollHint { .. }
    )
}
