//! What each change of a transaction does.

use crate::MemStore;
use crate::coll::{Coll, Entry};
use crate::object::Object;
use disk::LargeMemory;
use store::{StoreError, StoreResult};
use types::transaction::{CollIx, ObjIx};
use types::{CollId, GHObject, Transaction, TxKind, TxOp};

/// Bytes that a transaction adds at most. Clones share, so they count nothing; what they cost is counted when they are overwritten.
pub fn growth_max(txn: &Transaction) -> u64 {
    let of = |op: &TxOp| match &op.kind {
        TxKind::Write { data, .. } => data.len(),
        TxKind::SetAttr { value, .. } => value.len(),
        TxKind::SetAttrs(attrs) => attrs.iter().map(|a| a.1.len()).sum(),
        TxKind::OmapSetKeys(keys) => keys.iter().map(|(k, v)| k.len() + v.len()).sum(),
        TxKind::OmapSetHeader(header) => header.len(),
        _ => 0,
    };
    txn.ops().iter().map(|op| of(op) as u64).sum()
}

impl MemStore {
    pub(crate) fn apply(&mut self, txn: Transaction) -> StoreResult<()> {
        let mut ops = txn.ops();
        while let [first, rest @ ..] = ops {
            // Most transactions change one object several times: it is looked for once.
            let alike = |op: &TxOp| op.coll == first.coll && op.obj == first.obj && in_object(&op.kind);
            if !matches!(first.kind, TxKind::Create | TxKind::Touch | TxKind::Write { .. } | TxKind::SetAllocHint { .. }) {
                self.apply_one(&txn, first)?;
                ops = rest;
                continue;
            }
            let (run, behind) = ops.split_at(1 + rest.iter().take_while(|op| alike(op)).count());
            for op in run {
                if let TxKind::Write { offset, data } = &op.kind {
                    range(*offset, data.len() as u64)?;
                }
            }
            let id = txn.coll(first.coll);
            let coll = self.colls.get_mut(&id).ok_or(StoreError::NoCollection(id))?;
            let memory = self.memory.as_deref();
            coll.change_or_make(txn.object(first.obj), |o| run.iter().for_each(|op| change(o, &op.kind, memory)));
            ops = behind;
        }
        Ok(())
    }

    fn coll_mut(&mut self, id: CollId) -> StoreResult<&mut Coll> {
        self.colls.get_mut(&id).ok_or(StoreError::NoCollection(id))
    }
    /// Changes an object that must be there.
    fn must(&mut self, txn: &Transaction, op: &TxOp, f: impl FnOnce(&mut Object)) -> StoreResult<()> {
        let (coll, obj) = (txn.coll(op.coll), txn.object(op.obj));
        self.coll_mut(coll)?.change(obj, f).ok_or_else(|| absent(coll, obj))
    }
    /// Changes an object if it is there.
    fn may(&mut self, txn: &Transaction, op: &TxOp, f: impl FnOnce(&mut Object)) -> StoreResult<()> {
        self.coll_mut(txn.coll(op.coll))?.change(txn.object(op.obj), f);
        Ok(())
    }
    /// Changes an object that is made if it is not there.
    fn make(&mut self, txn: &Transaction, op: &TxOp, f: impl FnOnce(&mut Object)) -> StoreResult<()> {
        self.coll_mut(txn.coll(op.coll))?.change_or_make(txn.object(op.obj), f);
        Ok(())
    }

    fn apply_one(&mut self, txn: &Transaction, op: &TxOp) -> StoreResult<()> {
        match &op.kind {
            TxKind::Nop | TxKind::CollHint { .. } => Ok(()),
            TxKind::Create | TxKind::Touch | TxKind::Write { .. } | TxKind::SetAllocHint { .. } => unreachable!("`apply` does it"),
            TxKind::Zero { offset, len } => {
                range(*offset, *len)?;
                self.make(txn, op, |o| o.zero(*offset, *len))
            }
            TxKind::Truncate { .. } => self.may(txn, op, |o| change(o, &op.kind, None)),
            TxKind::Remove => {
                self.coll_mut(txn.coll(op.coll))?.take(txn.object(op.obj));
                Ok(())
            }
            TxKind::SetAttr { .. } | TxKind::SetAttrs(_) | TxKind::RmAttr { .. } | TxKind::OmapSetKeys(_) | TxKind::OmapRmKeys(_) => {
                self.must(txn, op, |o| change(o, &op.kind, None))
            }
            TxKind::RmAttrs => self.may(txn, op, Object::rm_attrs),
            TxKind::Clone { to } => {
                let coll = txn.coll(op.coll);
                let from = txn.object(op.obj);
                let c = self.coll_mut(coll)?;
                let copy = c.get(from).ok_or_else(|| absent(coll, from))?.clone();
                c.put(txn.object(*to), copy);
                Ok(())
            }
            TxKind::CloneRange { to, src_offset, len, dst_offset } => self.clone_range(txn, op, *to, *src_offset, *len, *dst_offset),
            TxKind::OmapClear => self.may(txn, op, Object::omap_clear),
            TxKind::OmapRmKeyRange { first, last } => self.must(txn, op, |o| o.omap_rm_range(first, last)),
            TxKind::OmapSetHeader(header) => self.must(txn, op, |o| o.omap_set_header(header)),
            TxKind::MoveRename { to_coll, to } => self.move_rename(txn, op, *to_coll, *to),
            TxKind::TryRename { to } => {
                let c = self.coll_mut(txn.coll(op.coll))?;
                if let Some(object) = c.take(txn.object(op.obj)) {
                    c.put(txn.object(*to), object);
                }
                Ok(())
            }
            TxKind::MkColl { bits } => {
                let id = txn.coll(op.coll);
                if self.colls.contains_key(&id) {
                    return Err(broken(id, "the collection to be made is there"));
                }
                self.colls.insert(id, Coll::new(*bits));
                Ok(())
            }
            TxKind::RmColl => {
                let id = txn.coll(op.coll);
                if self.coll(id)?.len() > 0 {
                    return Err(broken(id, "the collection to be removed has objects"));
                }
                self.colls.remove(&id);
                Ok(())
            }
            TxKind::SplitColl { to, bits, rem } => {
                let to = txn.coll(*to);
                self.coll(to)?;
                let mask = if *bits >= 32 { u32::MAX } else { (1 << bits) - 1 };
                let from = self.coll_mut(txn.coll(op.coll))?;
                let moved = from.drain(|o| o.hobj.hash & mask == *rem);
                from.bits = *bits;
                self.fill(to, moved, *bits)
            }
            TxKind::MergeColl { to, bits } => {
                let to = txn.coll(*to);
                self.coll(to)?;
                let id = txn.coll(op.coll);
                if id == to {
                    return Err(broken(id, "a collection is merged into itself"));
                }
                let moved = self.coll_mut(id)?.drain(|_| true);
                self.colls.remove(&id);
                self.fill(to, moved, *bits)
            }
            TxKind::CollSetBits { bits } => {
                self.coll_mut(txn.coll(op.coll))?.bits = *bits;
                Ok(())
            }
        }
    }

    #[allow(clippy::vec_box)] // see `coll`
    fn fill(&mut self, id: CollId, entries: Vec<Box<Entry>>, bits: u32) -> StoreResult<()> {
        let coll = self.coll_mut(id)?;
        coll.bits = bits;
        coll.fill(entries);
        Ok(())
    }

    fn clone_range(&mut self, txn: &Transaction, op: &TxOp, to: ObjIx, src: u64, len: u64, dst: u64) -> StoreResult<()> {
        range(src, len)?;
        range(dst, len)?;
        let coll = txn.coll(op.coll);
        let from = txn.object(op.obj);
        let c = self.coll_mut(coll)?;
        let source = c.get(from).ok_or_else(|| absent(coll, from))?;
        // Cut at the source's end; holes stay holes.
        let len = len.min(source.size.saturating_sub(src));
        let pieces: Vec<_> = source.extents(src, len).iter().map(|(at, n)| (at, source.data.read(at, n))).collect();
        c.change_or_make(txn.object(to), |o| {
            o.zero(dst, len);
            for (at, piece) in pieces {
                let mut at = at - src + dst;
                for bytes in piece.pieces() {
                    o.write(at, bytes);
                    at += bytes.len() as u64;
                }
            }
        });
        Ok(())
    }

    fn move_rename(&mut self, txn: &Transaction, op: &TxOp, to_coll: CollIx, to: ObjIx) -> StoreResult<()> {
        let (from_coll, from, to_coll) = (txn.coll(op.coll), txn.object(op.obj), txn.coll(to_coll));
        self.coll(to_coll)?;
        let object = self.coll_mut(from_coll)?.take(from).ok_or_else(|| absent(from_coll, from))?;
        self.coll_mut(to_coll)?.put(txn.object(to), object);
        Ok(())
    }
}

/// What [`change`] can do.
fn in_object(kind: &TxKind) -> bool {
    use TxKind::*;
    matches!(
        kind,
        Create
            | Touch
            | Write { .. }
            | Truncate { .. }
            | SetAttr { .. }
            | SetAttrs(_)
            | RmAttr { .. }
            | OmapSetKeys(_)
            | OmapRmKeys(_)
            | SetAllocHint { .. }
    )
}

/// Writes of fewer bytes are copied without a look at where they are.
const KEEP_MIN: usize = 128 << 10;

/// A change within one object that is there; the range of a write was looked at. `memory`: where large writes may stay.
fn change(o: &mut Object, kind: &TxKind, memory: Option<&LargeMemory>) {
    match kind {
        TxKind::Create | TxKind::Touch => {}
        TxKind::Write { offset, data } if data.len() < KEEP_MIN => o.write(*offset, data),
        TxKind::Write { offset, data } => match memory.and_then(|memory| memory.holds(data)) {
            Some(kept) => o.keep(*offset, data, kept),
            None => o.write(*offset, data),
        },
        TxKind::Truncate { size } => o.truncate(*size),
        TxKind::SetAttr { name, value } => o.set_attr(name, value),
        TxKind::SetAttrs(attrs) => attrs.iter().for_each(|(name, value)| o.set_attr(name, value)),
        TxKind::RmAttr { name } => o.rm_attr(name),
        TxKind::OmapSetKeys(keys) => o.omap_set(keys),
        TxKind::OmapRmKeys(keys) => o.omap_rm(keys),
        TxKind::SetAllocHint { object_size, write_size, flags } => {
            o.hint = crate::object::AllocHint { object_size: *object_size, write_size: *write_size, flags: *flags };
        }
        other => unreachable!("{other:?} is no change within an object"),
    }
}

/// Offsets beyond this have no bytes: objects are bounded long before.
const OFFSET_MAX: u64 = 1 << 60;

fn range(offset: u64, len: u64) -> StoreResult<()> {
    match offset.checked_add(len) {
        Some(end) if end <= OFFSET_MAX => Ok(()),
        _ => Err(StoreError::Stopped("a range passes the end of what an object can be".into())),
    }
}

fn absent(coll: CollId, obj: &GHObject) -> StoreError {
    broken(coll, &format!("{obj} is not there"))
}

fn broken(coll: CollId, what: &str) -> StoreError {
    StoreError::Stopped(format!("{coll}: {what}"))
}
