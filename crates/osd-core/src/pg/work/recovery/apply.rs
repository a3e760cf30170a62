//! Applying: pushes become transactions.
//!
//! ```text
//!   one push is all ───────────────────────────────────────────────▶ in place, at once
//!   first of several ──▶ a temporary object ── next push ──▶ … ──▶ the last one moves it to its name
//!                         with what the object here shares with it
//! ```
//!
//! So the object is as it was or as it shall be, whenever the process ends. What came is remembered by object until the last push ([`Incoming`]);
//! with the interval the temporary objects go. A push that does not fit to what came is refused: a peer's mistake is an error of the peer's.
//!
//! Source of the facts: Ceph 18.2 `src/osd/ReplicatedBackend.cc` (`submit_push_data`, `handle_push`, `handle_pull_response`).

use crate::op::SnapIndexChange;
use crate::pg::backend::copies::cut::is_complete;
use crate::pg::backend::copies::subset::SIZE_UNKNOWN;
use crate::pg::backend::name::name;
use crate::pg::range::temp_pool;
use crate::planted::{Bug, planted};
use denc::{Decoder, Denc};
use messages::{ObjectRecoveryInfo, ObjectRecoveryProgress, PushOp};
use std::collections::BTreeMap;
use store::{ObjectStore, StoreError};
use thiserror::Error;
use types::object_info::{OI_ATTR, SS_ATTR, oi_flag};
use types::osd_op::op_flag;
use types::{Bytes, CollId, EVersion, GHObject, HObject, IntervalSet, ObjectInfo, SnapId, SnapSet, Transaction};

/// Why a push is not applied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApplyStop {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What the peer sent can't be.
    #[error("a push of {0} {1}")]
    Bad(HObject, &'static str),
}

/// What a push does.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// In the group's collection.
    pub txn: Transaction,
    /// The object is here, whole.
    pub complete: bool,
    /// A clone's place in the index of snapshots.
    pub index: Option<SnapIndexChange>,
    /// How far it is.
    progress: ObjectRecoveryProgress,
    version: EVersion,
    soid: HObject,
    /// Bytes of data and number of keys that came.
    pub bytes: u64,
    pub keys: u64,
}

/// Objects of which some pushes came and more are to come.
#[derive(Debug, Default)]
pub struct Incoming {
    parts: BTreeMap<HObject, (EVersion, ObjectRecoveryProgress)>,
}

/// Where an object is built.
pub fn temp_name(coll: CollId, obj: &HObject) -> GHObject {
    name(coll, HObject { pool: temp_pool(obj.pool), ..obj.clone() })
}

/// What the first answer to a pull tells of the object goes into what was asked for.
pub fn agree(asked: &mut ObjectRecoveryInfo, push: &PushOp) {
    if asked.size == SIZE_UNKNOWN {
        asked.size = push.recovery_info.size;
        asked.copy_subset = asked.copy_subset.intersection(&push.recovery_info.copy_subset);
    }
    if asked.version == EVersion::ZERO {
        asked.version = push.version;
    }
}

/// Leftovers of a process that ended while objects were built: a page of names, with which it is to be asked again until there are none.
pub fn leftovers(store: &dyn ObjectStore, coll: CollId, max: usize) -> Result<Vec<GHObject>, StoreError> {
    let end = name(coll, HObject { pool: temp_pool(0) + 1, ..HObject::min() });
    Ok(store.list(coll, &GHObject::min(), &end, max)?.objects)
}

/// What of `data`, which is of the ranges `came`, is of the ranges `wanted`.
fn usable(wanted: &IntervalSet, came: &IntervalSet, data: &Bytes) -> Vec<(u64, Bytes)> {
    let (mut out, mut before) = (Vec::new(), 0);
    for (start, len) in came.iter() {
        for (at, n) in wanted.intersection(&IntervalSet::of(start, len)).iter() {
            let from = (before + at - start) as usize;
            out.push((at, data.slice(from..from + n as usize)));
        }
        before += len;
    }
    out
}

impl Incoming {
    /// What a push does here. `info` is what was agreed: the push's own on a member that was pushed to, the puller's where it was pulled.
    /// `has`: whether we have this object, whole. Nothing is remembered before [`Incoming::took`].
    pub fn apply(
        &self,
        store: &dyn ObjectStore,
        coll: CollId,
        info: &ObjectRecoveryInfo,
        push: &PushOp,
        has: &dyn Fn(&HObject) -> bool,
    ) -> Result<Applied, ApplyStop> {
        let after = &push.after_progress;
        let complete = after.omap_complete && (after.data_complete || is_complete(after, info));
        self.check(info, push)?;
        let obj = name(coll, info.soid.clone());
        let in_place = push.before_progress.first && complete;
        let target = if in_place { obj.clone() } else { temp_name(coll, &info.soid) };
        let mut txn = Transaction::new(coll);
        if push.before_progress.first {
            begin(store, coll, info, push, in_place, &target, &mut txn)?;
        }
        let data = usable(&info.copy_subset, &push.data_included, &push.data);
        if in_place && info.object_exist {
            // Where the object has changed and nothing came there is a hole.
            let (from, to) = (push.before_progress.data_recovered_to, push.after_progress.data_recovered_to);
            let mut holes = IntervalSet::of(from, to.saturating_sub(from)).intersection(&info.copy_subset);
            holes.subtract(&push.data_included);
            holes.iter().for_each(|(at, len)| txn.zero(&target, at, len));
        }
        let bytes = data.iter().map(|(_, piece)| piece.len() as u64).sum();
        for (at, piece) in data {
            txn.write(&target, at, piece, op_flag::FADVISE_SEQUENTIAL);
        }
        if !push.omap_entries.is_empty() {
            txn.omap_set_keys(&target, push.omap_entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect());
        }
        if !push.attrs.is_empty() {
            txn.set_attrs(&target, push.attrs.iter().map(|(name, value)| (name.clone(), value.clone())).collect());
        }
        if complete && !in_place {
            txn.remove(&obj);
            txn.move_rename(coll, &target, coll, &obj);
        }
        let mut index = None;
        if complete {
            copy_shared(store, coll, info, &obj, has, &mut txn)?;
            index = index_change(store, coll, info)?;
        }
        Ok(Applied {
            txn,
            complete,
            index,
            progress: push.after_progress.clone(),
            version: push.version,
            soid: info.soid.clone(),
            bytes,
            keys: push.omap_entries.len() as u64,
        })
    }

    /// The store has taken the transaction.
    pub fn took(&mut self, applied: &Applied) {
        if applied.complete {
            self.parts.remove(&applied.soid);
        } else {
            self.parts.insert(applied.soid.detach(), (applied.version, applied.progress.clone()));
        }
    }
    /// The rest of an object won't come: what came of it goes.
    pub fn dropped(&mut self, coll: CollId, obj: &HObject, txn: &mut Transaction) {
        if self.parts.remove(obj).is_some() {
            txn.remove(&temp_name(coll, obj));
        }
    }
    /// The interval is over: nothing more comes of what has begun, and what came goes.
    pub fn end_interval(&mut self, coll: CollId, txn: &mut Transaction) {
        for obj in std::mem::take(&mut self.parts).into_keys() {
            txn.remove(&temp_name(coll, &obj));
        }
    }
    /// Objects that are being built.
    pub fn len(&self) -> usize {
        self.parts.len()
    }
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Everything that a peer may get wrong and that the store would stop for.
    fn check(&self, info: &ObjectRecoveryInfo, push: &PushOp) -> Result<(), ApplyStop> {
        let bad = |what| Err(ApplyStop::Bad(info.soid.clone(), what));
        let (before, after) = (&push.before_progress, &push.after_progress);
        if push.soid != info.soid {
            return bad("is of another object");
        }
        if push.data_included.size() != push.data.len() as u64 {
            return bad("has more or fewer bytes than it says");
        }
        if info.size > SIZE_MAX || info.copy_subset.end().is_some_and(|end| end > info.size) {
            return bad("has ranges behind the object's end");
        }
        if after.data_recovered_to < before.data_recovered_to || after.first {
            return bad("goes backwards");
        }
        if before.first {
            let record = push.attrs.get(OI_ATTR.as_bytes()).map(|record| ObjectInfo::decode(&mut Decoder::new(record.clone())));
            let Some(Ok(record)) = record else { return bad("has no record of it") };
            let is_other = record.version != push.version && !planted(Bug::PullFromLacking);
            if record.soid != info.soid || is_other || record.size != info.size {
                return bad("has the record of another one");
            }
            if push.attrs.iter().any(|(name, value)| name.is_empty() || value.len() > ATTR_MAX) {
                return bad("has attributes that can't be");
            }
            return Ok(());
        }
        match self.parts.get(&info.soid) {
            Some((version, progress)) if *version == push.version && progress == before => Ok(()),
            Some(_) => bad("is not the next one"),
            None => bad("is not the first one"),
        }
    }
}

/// What an object may be long, in bytes, and an attribute: beyond what any store here takes in normal use, and below what it stops for.
const SIZE_MAX: u64 = 1 << 46;
const ATTR_MAX: usize = 16 << 20;

/// What the first push does before its data.
fn begin(
    store: &dyn ObjectStore,
    coll: CollId,
    info: &ObjectRecoveryInfo,
    push: &PushOp,
    in_place: bool,
    target: &GHObject,
    txn: &mut Transaction,
) -> Result<(), ApplyStop> {
    let obj = name(coll, info.soid.clone());
    let here = match store.stat(coll, &obj) {
        Ok(stat) => Some(stat),
        Err(StoreError::NoObject(_)) => None,
        Err(other) => return Err(other.into()),
    };
    if info.object_exist && here.is_none() {
        return Err(ApplyStop::Bad(info.soid.clone(), "builds on an object that is not here"));
    }
    let record = push.attrs.get(OI_ATTR.as_bytes()).and_then(|record| ObjectInfo::decode(&mut Decoder::new(record.clone())).ok());
    let record = record.expect("a first push was looked at");
    if in_place && info.object_exist {
        txn.rm_attrs(target);
        // Stock's entry of a copy says that the omap did not change, also where the copied object has none and took one away.
        if !push.before_progress.omap_complete || !record.has(oi_flag::OMAP) {
            txn.omap_clear(target);
        }
    } else {
        txn.remove(target);
        txn.touch(target);
        txn.set_alloc_hint(target, record.expected_object_size, record.expected_write_size, record.alloc_hint_flags);
    }
    txn.truncate(target, info.size);
    if !push.omap_header.is_empty() {
        txn.omap_set_header(target, push.omap_header.clone());
    }
    if let (false, true, Some(here)) = (in_place, info.object_exist, here) {
        let mut kept = IntervalSet::of(0, here.size.min(info.size));
        kept.subtract(&info.copy_subset);
        kept.iter().for_each(|(at, len)| txn.clone_range(&obj, target, at, len, at));
    }
    Ok(())
}

/// What the object shares with others of its name that are here.
fn copy_shared(
    store: &dyn ObjectStore,
    coll: CollId,
    info: &ObjectRecoveryInfo,
    obj: &GHObject,
    has: &dyn Fn(&HObject) -> bool,
    txn: &mut Transaction,
) -> Result<(), ApplyStop> {
    for (from, ranges) in &info.clone_subset {
        if *from == info.soid || from.head() != info.soid.head() {
            return Err(ApplyStop::Bad(info.soid.clone(), "copies from an object of another name"));
        }
        if ranges.end().is_some_and(|end| end > info.size) {
            return Err(ApplyStop::Bad(info.soid.clone(), "copies behind its end"));
        }
        let from = name(coll, from.clone());
        if !has(&from.hobj) || !store.exists(coll, &from)? {
            return Err(ApplyStop::Bad(info.soid.clone(), "copies from an object that is not here"));
        }
        ranges.iter().for_each(|(at, len)| txn.clone_range(&from, obj, at, len, at));
    }
    Ok(())
}

/// The snapshots that a clone has by the head that is here.
fn snaps_here(store: &dyn ObjectStore, coll: CollId, clone: &HObject) -> Result<Vec<SnapId>, StoreError> {
    let set = match store.attr(coll, &name(coll, clone.head()), SS_ATTR.as_bytes()) {
        Ok(set) => set.and_then(|bytes| SnapSet::decode(&mut Decoder::new(bytes)).ok()),
        Err(StoreError::NoObject(_)) => None,
        Err(other) => return Err(other),
    };
    Ok(set.and_then(|mut set| set.clone_snaps.remove(&clone.snap)).unwrap_or_default())
}

/// A clone is found by the snapshots that it has now.
fn index_change(store: &dyn ObjectStore, coll: CollId, info: &ObjectRecoveryInfo) -> Result<Option<SnapIndexChange>, StoreError> {
    if info.soid.is_head() {
        return Ok(None);
    }
    let old = snaps_here(store, coll, &info.soid)?;
    let new = info.ss.clone_snaps.get(&info.soid.snap).cloned().unwrap_or_else(|| old.clone());
    // What the index has is not known: what it should have is put there once more.
    let gone: Vec<SnapId> = old.into_iter().filter(|snap| !new.contains(snap)).collect();
    Ok(Some(SnapIndexChange { clone: info.soid.clone(), old: gone, new }))
}

/// An object that was deleted while we were away goes.
pub fn removal(store: &dyn ObjectStore, coll: CollId, obj: &HObject) -> Result<(Transaction, Option<SnapIndexChange>), StoreError> {
    let mut txn = Transaction::new(coll);
    txn.remove(&name(coll, obj.clone()));
    if obj.is_head() {
        return Ok((txn, None));
    }
    let old = snaps_here(store, coll, obj)?;
    Ok((txn, Some(SnapIndexChange { clone: obj.clone(), old, new: Vec::new() })))
}
