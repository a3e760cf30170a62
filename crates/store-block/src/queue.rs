//! Transactions, one change after the other; those that must wait for bytes, and the order they keep.
//!
//! ```text
//!   submit ──> everything in memory ──> made, into the open record
//!      └────> something must be read ──> the queue ──(it has come)──> made
//! ```
//! Nothing overtakes in the queue. What reads an object that a waiting transaction names waits too: what was submitted is visible.

use crate::key;
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
    /// Changes before this one are made.
    next: usize,
}

/// The slots of a transaction's objects, found once.
struct Slots(Vec<Option<u32>>);

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
    /// Blocks of data that are images in the log: cells that are written whole go to their places.
    images: u64,
    /// Bytes of rows.
    pub bytes: u64,
    /// Rows, but for those of removals.
    pub rows: u64,
}

impl Queued {
    pub fn growth(&self) -> &Growth {
        &self.growth
    }
}

fn growth(txn: &Transaction, log: Option<&LogDelta>) -> Growth {
    let (mut pieces, mut images, mut bytes) = (0, 0, 0);
    // A part of a block is zeroed by an image; its cell may have to move.
    let edge = |at: u64| u64::from(!at.is_multiple_of(BLOCK));
    for op in txn.ops() {
        match &op.kind {
            TxKind::Write { offset, data } => {
                pieces += cells(*offset, data.len() as u64);
                images += end_blocks(*offset, data.len() as u64);
            }
            // It is zeroed before; both may move a cell.
            TxKind::CloneRange { dst_offset, len, .. } => {
                pieces += cells(*dst_offset, *len) + 2;
                images += end_blocks(*dst_offset, *len) + 2;
            }
            TxKind::Zero { offset, len } if *len > 0 => {
                let edges = edge(*offset) + edge(offset.saturating_add(*len));
                (pieces, images) = (pieces + edges, images + edges);
            }
            TxKind::Truncate { size } => (pieces, images) = (pieces + edge(*size), images + edge(*size)),
            TxKind::SetAttr { value, .. } => bytes += value.len(),
            TxKind::SetAttrs(attrs) => bytes += attrs.iter().map(|a| a.1.len()).sum::<usize>(),
            TxKind::OmapSetKeys(keys) => bytes += keys.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>(),
            TxKind::OmapSetHeader(header) => bytes += header.len(),
            _ => {}
        }
    }
    let keys = |op: &TxOp| if let TxKind::OmapSetKeys(keys) = &op.kind { keys.len() as u64 } else { 0 };
    let rows = txn.objects().count() as u64 + txn.ops().iter().map(keys).sum::<u64>();
    let mut growth = Growth { pieces, largest: CHUNK_BLOCKS, images, bytes: bytes as u64, rows };
    if pieces > 0 || bytes > 0 {
        growth.bytes += ROW_BYTES * (txn.objects().count() + log.map_or(0, |log| log.entries.len())) as u64;
    }
    growth
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
        growth.bytes += self.copied(&txn);
        if growth.pieces > 0 && self.alloc.is_scarce() {
            growth.largest = self.largest(&txn);
        }
        let Growth { pieces, images, bytes, .. } = growth;
        if images + bytes / BLOCK > self.txn_max()
            || !self.has_room(&growth) && !planted(Bug::AcceptWithoutRoom)
            || (pieces > 0 || bytes > 0) && self.is_beside_full()
        {
            return Err(StoreError::Full);
        }
        self.queue_growth.pieces += pieces;
        self.queue_growth.bytes += bytes;
        self.queue.push_back(Queued { txn, log, token, growth, next: 0 });
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
    /// Bytes of rows that clones of objects add at most. (Who makes a transaction of clones has just asked for the objects, so they are in memory.)
    fn copied(&mut self, txn: &Transaction) -> u64 {
        let mut bytes = 0;
        for op in txn.ops().iter().filter(|op| matches!(op.kind, TxKind::Clone { .. })) {
            let slot = self.objects.find(key::family(txn.coll(op.coll)), txn.object(op.obj));
            if let Some(slot) = slot.filter(|slot| self.objects.look(*slot)) {
                let node = self.objects.node(slot).expect("it was looked at");
                bytes += node.omap_bytes.min(self.copy_max());
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
    /// Blocks of the log that one transaction may need.
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
                    self.queue_growth.bytes -= first.growth.bytes;
                    self.batch.tokens.push(first.token);
                }
                Err(StoreError::Wait(_)) => {
                    // A change, too, may wait when a part of it is made: what it needs is found by what there was before.
                    let part = self.batch.meta.len() > before && !planted(Bug::HalfChange);
                    self.half |= first.next > 0 || part;
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

    fn make(&mut self, q: &mut Queued) -> StoreResult<()> {
        let mut slots = Slots(vec![None; q.txn.objects().count()]);
        let first_new = self.next_nid;
        self.prepare(&q.txn, q.next, &mut slots)?;
        for (i, op) in q.txn.ops().iter().enumerate().skip(q.next) {
            self.make_one(&q.txn, op, &mut slots)?;
            q.next = i + 1;
        }
        for slot in slots.0.into_iter().flatten() {
            // What is written again and again stays as it is written; of what is new most is not asked for soon.
            if self.objects.get(slot).node.as_deref().is_some_and(|node| node.nid >= first_new) {
                self.objects.pack(slot);
            }
            self.recount(slot);
        }
        if let Some(delta) = q.log.take() {
            self.log_delta(&delta).map_err(|e| StoreError::Stopped(format!("a change of group {}: {e}", delta.pg)))?;
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
        for op in &txn.ops()[from..] {
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

    fn make_one(&mut self, txn: &Transaction, op: &TxOp, slots: &mut Slots) -> StoreResult<()> {
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
                attrs.iter().try_for_each(|(name, value)| self.set_attr(slot, name.as_slice(), value))
            }
            TxKind::RmAttr { name } => {
                must(self)?;
                self.change(slot, Op::RmAttr { name: name.as_slice() })
            }
            TxKind::RmAttrs if self.there(slot) => self.change::<&[u8]>(slot, Op::RmAttrs),
            TxKind::Clone { to } => {
                must(self)?;
                let to = self.at(txn, coll, *to, slots)?.slot;
                if to == slot { Ok(()) } else { self.clone_object(coll, slot, to, &mut OWN.clone()) }
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
                keys.iter().try_for_each(|(key, value)| self.change(slot, Op::OmapSet { key: key.as_slice(), value }))
            }
            TxKind::OmapRmKeys(keys) => {
                must(self)?;
                keys.iter().try_for_each(|key| self.change(slot, Op::OmapRm { key: key.as_slice() }))
            }
            TxKind::OmapRmKeyRange { first, last } => {
                must(self)?;
                self.change(slot, Op::OmapRmRange { first: first.as_slice(), last: last.as_slice() })
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
            Some(obj) => q.txn.objects().any(|o| o == obj) || q.txn.ops().iter().any(|op| of_coll(&op.kind)),
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
