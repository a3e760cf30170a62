//! Making transactions: one change after the other, as far as everything that it needs is in memory.
//!
//! Each change becomes one or more of the record's ([`crate::data::write`]). A large transaction is made in steps: then it waits for the
//! store itself. Holds no order of transactions (`queue`) and no count of what they add ([`super::growth`]).

use super::growth::{self, images};
use super::{Made, Queued, Slots, of_coll};
use crate::data::log::Log;
use crate::data::ops::{self, Op};
use crate::data::write::{Target, check_range};
use crate::open::replay::Replay;
use crate::place::room;
use crate::planted::{Bug, planted};
use crate::rows::attr_cells;
use crate::rows::key;
use crate::rows::layers::{DEPTH_MAX, SHARE_MIN};
use crate::state::{Core, OWN};
use store::{LogDelta, StoreError, StoreResult, Written};
use types::transaction::ObjIx;
use types::{CollId, GHObject, Transaction, TxKind, TxOp};

/// Changes of a transaction whose objects and blocks are asked for together.
const AHEAD_OPS: usize = 512;

fn absent(coll: CollId, obj: &GHObject) -> StoreError {
    broken(coll, &format!("{obj} is not there"))
}
fn broken(coll: CollId, what: &str) -> StoreError {
    StoreError::Stopped(format!("{coll}: {what}"))
}

impl Core {
    pub fn submit(&mut self, txn: Transaction, log: Option<LogDelta>, token: u64) -> StoreResult<()> {
        self.alive()?;
        let in_cells = self.sb.has_attr_cells();
        let mut growth = growth::of(&txn, log.as_ref(), in_cells);
        let (copied, places) = growth::copied(&txn, &mut self.objects, &self.layers);
        growth.bytes += copied + places;
        if growth.pieces > 0 && room::are_places_scarce(self) {
            growth.largest = growth::largest(&txn, &mut self.objects, &mut self.queue);
        }
        if self.sb.has_places() {
            growth.bytes += growth.pieces * growth::in_pieces_bytes(growth.largest);
        }
        growth.spilled = self.chunks_to_spill(growth::changes(&txn, log.as_ref(), in_cells) + 2 * copied);
        if !self.has_room(&growth) && !planted(Bug::AcceptWithoutRoom) || (growth.pieces > 0 || growth.bytes > 0) && self.is_beside_full() {
            return Err(StoreError::Full);
        }
        self.queue.push(Queued::new(txn, log, token, growth));
        if self.queue.len() == 1 {
            return self.work_queue();
        }
        let last = self.queue.len() - 1;
        self.look_ahead(last);
        Ok(())
    }
    /// True while a checkpoint is under way and others change more than it gets done.
    pub fn is_crowded(&self) -> bool {
        let Some(checkpoint) = self.generations.under_way() else { return false };
        let changes = self.table.active().bytes() + self.generations.changed_bytes();
        let changes_max = self.recent_max() as u64 * 3 / 2;
        let replay = self.replay.since(self.log.open().changes_len());
        changes as u64 > checkpoint.allows(changes_max) || replay > checkpoint.allows(self.replay.later_max())
    }

    /// Makes what waits, as far as everything that it needs has come.
    pub fn work_queue(&mut self) -> StoreResult<()> {
        loop {
            let is_full =
                |log: &Log, replay: &Replay| log.open().bytes() > log.batch_max() || replay.fills_record(log.open().changes_len());
            if is_full(&self.log, &self.replay) && !self.queue.half {
                self.seal();
                if is_full(&self.log, &self.replay) {
                    // The log is full until a checkpoint has trimmed it.
                    return Ok(());
                }
            }
            if self.is_crowded() && !self.queue.half {
                // What changed since the checkpoint began has its bound, too: the checkpoint gets on first.
                return Ok(());
            }
            if !self.queue.half && self.queue.waiting.front().is_some_and(|first| self.is_tight(&first.growth)) {
                self.generations.want_if_idle();
                return Ok(());
            }
            let Some(mut first) = self.queue.waiting.pop_front() else { return Ok(()) };
            let (before, taken) = (self.log.open().changes_len(), self.alloc.taken_blocks());
            self.reads.turn(true);
            let done = self.make(&mut first);
            first.has_taken(self.alloc.taken_blocks() - taken);
            self.reads.turn(false);
            match done {
                Ok(()) => {
                    self.queue.half = false;
                    self.reads.let_go();
                    self.queue.made(&first);
                    self.log.open_mut().has_whole(first.token);
                }
                Err(StoreError::Wait(_)) => {
                    // A change, too, may wait when a part of it is made: what it needs is found by what there was before.
                    let part = self.log.open().changes_len() > before && !planted(Bug::HalfChange);
                    self.queue.half |= first.made.next > 0 || first.made.part > 0 || part;
                    self.queue.waiting.push_front(first);
                    return Ok(());
                }
                Err(e) => {
                    let why = match &e {
                        StoreError::Stopped(why) => why.clone(),
                        StoreError::Damaged { .. } => format!("a change needs what is damaged: {e}; {}", self.cfg.command("repair")),
                        other => other.to_string(),
                    };
                    let is_damage = matches!(e, StoreError::Damaged { .. });
                    if is_damage {
                        self.stop_at_damage(why.clone())
                    } else {
                        self.stop(why.clone())
                    }
                    return Err(StoreError::Stopped(why));
                }
            }
        }
    }
    /// Asks for what a transaction will need when its turn comes.
    fn look_ahead(&mut self, n: usize) {
        let queued = self.queue.waiting.remove(n).expect("it is there");
        let mut slots = Slots(vec![None; queued.txn.objects().count()]);
        // Whatever is wrong with it comes out when it is made.
        let _ = self.prepare(&queued.txn, 0, &mut slots);
        self.queue.waiting.insert(n, queued);
    }

    /// Makes a transaction, or a step of a large one: then it waits for the store itself, as if something had to be read.
    fn make(&mut self, q: &mut Queued) -> StoreResult<()> {
        let Queued { txn, made, .. } = q;
        if !self.queue.half {
            let slots = Slots(vec![None; txn.objects().count()]);
            *made = Made { slots, first_new: self.objects.next_nid(), images: self.log.open().images(), ..Made::default() };
            self.queue.spill_from = self.log.open().changes_len();
        }
        self.queue.without_images = false;
        self.prepare(txn, made.next, &mut made.slots)?;
        for (i, op) in txn.ops().iter().enumerate().skip(made.next) {
            // As it was decided once: another attempt finds the same way.
            self.queue.without_images = match made.decided {
                Some((of, without)) if of == i => without,
                _ => self.log.open().images() - made.images + images(&op.kind) > self.log.images_max(),
            };
            made.decided = Some((i, self.queue.without_images));
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
        while let Some(delta) = q.log.pop_front() {
            self.log_delta(&delta).map_err(|e| StoreError::Stopped(format!("a change of group {}: {e}", delta.pg)))?;
            if self.spill_if_many() && !q.log.is_empty() {
                return Err(StoreError::Wait(OWN));
            }
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
        if !self.colls.has(coll, txn.object(obj))? {
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
                let foreseen = self.foresee(slot, Written::Data { offset: *offset, len: data.len() as u64 });
                self.write(&mut t, *offset, data.len() as u64, Some(data))?;
                self.note_unwritten(slot, foreseen)
            }
            TxKind::Zero { offset, len } => {
                check_range(*offset, *len)?;
                self.check_zero(&mut t, *offset, *len)?;
                self.create(slot)?;
                let foreseen = self.foresee(slot, Written::Zeros { offset: *offset, len: *len });
                self.zero(&mut t, *offset, *len)?;
                if *len > 0 && self.objects.node(slot).is_some_and(|o| o.size < offset + len) {
                    self.change::<&[u8]>(slot, Op::Size(offset + len))?;
                }
                self.note_unwritten(slot, foreseen)
            }
            TxKind::Truncate { size } if self.there(slot) => {
                let now = self.objects.size(slot);
                let foreseen = self.foresee(slot, Written::Zeros { offset: now.min(*size), len: now.abs_diff(*size) });
                self.truncate(&mut t, *size)?;
                self.note_unwritten(slot, foreseen)
            }
            TxKind::Remove if self.there(slot) => self.change::<&[u8]>(slot, Op::Remove),
            TxKind::SetAttr { name, value } => {
                must(self)?;
                attr_cells::put(self, &mut t, name.as_slice(), value)
            }
            TxKind::SetAttrs(attrs) => {
                must(self)?;
                self.make_rows(attrs, part, |core, (name, value)| attr_cells::put(core, &mut t.clone(), name.as_slice(), value))
            }
            TxKind::RmAttr { name } => {
                must(self)?;
                attr_cells::free(self, slot, |large| large.name() == name.as_slice())?;
                self.change(slot, Op::RmAttr { name: name.as_slice() })
            }
            TxKind::RmAttrs if self.there(slot) => {
                attr_cells::free(self, slot, |_| true)?;
                self.change::<&[u8]>(slot, Op::RmAttrs)
            }
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
                let foreseen = self.foresee_clone(slot, to.slot, *src_offset, *len, *dst_offset);
                self.clone_range(&mut t, &mut to, *src_offset, *len, *dst_offset)?;
                self.create(to.slot)?;
                self.note_unwritten(to.slot, foreseen)
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
                let nid = self.objects.next_nid();
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
        self.log.put(&op);
        let at = crate::data::apply::At { seq: self.log.seq(), slot: 0, images: 0, run: None };
        self.apply(at, &op).map_err(|e| broken(coll, &e.to_string()))
    }
    fn make_coll(&mut self, txn: &Transaction, coll: CollId, kind: &TxKind) -> StoreResult<()> {
        match kind {
            TxKind::MkColl { bits } => {
                if self.colls.bits(coll).is_some() {
                    return Err(broken(coll, "the collection to be made is there"));
                }
                self.set_coll(coll, Some(*bits))
            }
            TxKind::RmColl => {
                self.colls.need(coll)?;
                let some = self.list(coll, &GHObject::min(), &GHObject::max(), 1, &mut OWN.clone())?;
                if !some.objects.is_empty() {
                    return Err(broken(coll, "the collection to be removed has objects"));
                }
                self.set_coll(coll, None)
            }
            TxKind::SplitColl { to, bits, rem } => {
                let to = txn.coll(*to);
                (self.colls.need(coll)?, self.colls.need(to)?);
                if to.pg().is_none_or(|pg| pg.pgid.seed & hash_mask(*bits) != *rem) {
                    return Err(broken(to, "a collection is split into one that has not the remainder as its number"));
                }
                self.set_coll(coll, Some(*bits))?;
                self.set_coll(to, Some(*bits))
            }
            TxKind::MergeColl { to, bits } => {
                let to = txn.coll(*to);
                (self.colls.need(coll)?, self.colls.need(to)?);
                if coll == to {
                    return Err(broken(coll, "a collection is merged into itself"));
                }
                self.set_coll(coll, None)?;
                self.set_coll(to, Some(*bits))
            }
            TxKind::CollSetBits { bits } => {
                self.colls.need(coll)?;
                self.set_coll(coll, Some(*bits))
            }
            _ => Ok(()),
        }
    }
}

/// The lowest bits of a hash.
fn hash_mask(bits: u32) -> u32 {
    if bits >= 32 { u32::MAX } else { (1 << bits) - 1 }
}
