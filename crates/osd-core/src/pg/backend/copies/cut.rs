//! Cutting: an object of the store becomes pushes, each with a part of it.
//!
//! The first push has the attributes. Omap goes before data, by pages; of the data only what is asked for and exists goes, so a hole costs nothing.
//! A push that is not enough takes the omap along though it did not change: the other member builds the object anew, beside the one it has.
//! Holds no state between pushes: how far they have come is in each of them.
//!
//! Source of the facts: Ceph 18.2 `src/osd/ReplicatedBackend.cc` (`build_push_op`, `handle_pull`) and `osd_types.h` (`ObjectRecoveryProgress`).

use super::subset::SIZE_UNKNOWN;
use crate::pg::backend::name::name;
use crate::planted::{Bug, planted};
use denc::Decoder;
use messages::{ObjectRecoveryInfo, ObjectRecoveryProgress, PullOp, PushOp};
use std::ops::ControlFlow;
use store::{ObjectStore, OmapFrom, StoreError, StoreResult};
use thiserror::Error;
use types::object_info::{OI_ATTR, oi_flag};
use types::{CollId, EVersion, GHObject, HObject, IntervalSet, ObjectInfo};

/// How much one push carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// `osd_recovery_max_chunk`: of omap and data.
    pub bytes_max: u64,
    /// `osd_recovery_max_omap_entries_per_chunk`; 0 for no bound but the bytes.
    pub omap_entries_max: u64,
}

/// Why there is no push.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CutStop {
    /// The store fetches, or can't read what it should have.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0} is here at {1}")]
    OtherVersion(HObject, EVersion),
    #[error("{0}: {1}")]
    Damaged(HObject, String),
}

/// What of `wanted` comes next: from `at` on, at most `len` bytes.
fn span(wanted: &IntervalSet, at: u64, mut len: u64) -> IntervalSet {
    let mut out = IntervalSet::new();
    for (start, n) in wanted.iter() {
        let (from, end) = (start.max(at), start + n);
        if from < end && len > 0 {
            let some = (end - from).min(len);
            out.insert(from, some);
            len -= some;
        }
    }
    out
}

/// True if this is all of an object.
pub fn is_complete(progress: &ObjectRecoveryProgress, info: &ObjectRecoveryInfo) -> bool {
    progress.omap_complete && progress.data_recovered_to >= info.copy_subset.end().unwrap_or(0)
}

/// The next push of an object, which is complete if [`PushOp::after_progress`] says so.
pub fn cut(
    store: &dyn ObjectStore,
    coll: CollId,
    info: &ObjectRecoveryInfo,
    from: &ObjectRecoveryProgress,
    chunk: &Chunk,
) -> Result<PushOp, CutStop> {
    let obj = name(coll, info.soid.clone());
    let mut push = PushOp { soid: info.soid.clone(), version: info.version, before_progress: from.clone(), ..PushOp::default() };
    let mut to = from.clone();
    let mut digest = None;
    if from.first {
        let oi = first_part(store, coll, &obj, &mut push)?;
        if push.version == EVersion::ZERO {
            push.version = oi.version;
        } else if oi.version != push.version && !planted(Bug::PullFromLacking) {
            return Err(CutStop::OtherVersion(obj.hobj, oi.version));
        }
        digest = oi.has(oi_flag::DATA_DIGEST).then_some((oi.size, oi.data_digest));
        // An object without an omap leaves none: stock's entry of a copy does not say that one went.
        push.before_progress.omap_complete &= oi.has(oi_flag::OMAP);
        to.first = false;
    }
    let mut left = chunk.bytes_max;
    if !push.before_progress.omap_complete {
        left = omap_part(store, coll, &obj, chunk, &mut to, &mut push)?;
    }
    let end = info.copy_subset.end().unwrap_or(0);
    if left > 0 && from.data_recovered_to < end {
        let at = from.data_recovered_to;
        let wanted = store.extents(coll, &obj, at, end - at)?.intersection(&info.copy_subset);
        push.data_included = span(&wanted, at, left);
        // Behind the last byte that exists there is nothing to wait for.
        let last = push.data_included.end();
        to.data_recovered_to = last.filter(|last| Some(*last) != wanted.end()).unwrap_or(end);
        push.data = store.read_ranges(coll, &obj, &push.data_included)?.flat();
        if let Some((size, digest)) = digest
            && push.data_included == IntervalSet::of(0, size)
            && base::crc32c(u32::MAX, &push.data) != digest
        {
            return Err(CutStop::Damaged(obj.hobj, "its data does not have its digest".into()));
        }
    }
    if is_complete(&to, info) {
        to.data_complete = true;
    } else if from.first && from.omap_complete {
        to.omap_complete = false;
    }
    push.after_progress = to;
    push.recovery_info = info.clone();
    Ok(push)
}

/// The attributes and the omap's header; the object's record.
fn first_part(store: &dyn ObjectStore, coll: CollId, obj: &GHObject, push: &mut PushOp) -> Result<ObjectInfo, CutStop> {
    push.attrs = store.attrs(coll, obj)?.into_iter().collect();
    push.omap_header = store.omap_header(coll, obj)?;
    let Some(record) = push.attrs.get(OI_ATTR.as_bytes()) else {
        return Err(CutStop::Damaged(obj.hobj.clone(), "has no record".into()));
    };
    let record = ObjectInfo::decode_of(obj.hobj.clone(), &mut Decoder::new(record.clone()));
    record.map_err(|error| CutStop::Damaged(obj.hobj.clone(), format!("has a damaged record: {error}")))
}

/// A page of omap, from where the last one ended; the bytes that are left for data.
fn omap_part(
    store: &dyn ObjectStore,
    coll: CollId,
    obj: &GHObject,
    chunk: &Chunk,
    to: &mut ObjectRecoveryProgress,
    push: &mut PushOp,
) -> StoreResult<u64> {
    let mut left = chunk.bytes_max;
    let mut next = None;
    let start = to.omap_recovered_to.clone();
    let from = if start.is_empty() { OmapFrom::Start } else { OmapFrom::At(start.as_slice()) };
    store.omap_scan(coll, obj, from, &mut |key, value| {
        let bytes = (key.len() + value.len()) as u64;
        let is_full = chunk.omap_entries_max > 0 && push.omap_entries.len() as u64 >= chunk.omap_entries_max;
        if !push.omap_entries.is_empty() && (is_full || left <= bytes) {
            next = Some(key.clone());
            return ControlFlow::Break(());
        }
        left = left.saturating_sub(bytes);
        push.omap_entries.insert(key.clone(), value.clone());
        ControlFlow::Continue(())
    })?;
    match next {
        Some(key) => to.omap_recovered_to = key,
        None => to.omap_complete = true,
    }
    Ok(left)
}

/// The answer to a pull; [`PushOp::version`] is zero if the object can't be had here, and the reason comes beside it.
pub fn answer_pull(store: &dyn ObjectStore, coll: CollId, pull: &PullOp, chunk: &Chunk) -> Result<(PushOp, Option<CutStop>), StoreError> {
    let mut info = pull.recovery_info.clone();
    info.soid = pull.soid.clone();
    let is_unknown = pull.recovery_progress.first && info.size == SIZE_UNKNOWN;
    let cut = match store.stat(coll, &name(coll, pull.soid.clone())) {
        Ok(stat) => {
            if is_unknown {
                info.size = stat.size;
                info.copy_subset = info.copy_subset.intersection(&IntervalSet::of(0, stat.size));
            }
            cut(store, coll, &info, &pull.recovery_progress, chunk)
        }
        Err(error) => Err(error.into()),
    };
    match cut {
        Ok(push) => Ok((push, None)),
        Err(CutStop::Store(error @ (StoreError::Wait(_) | StoreError::Stopped(_)))) => Err(error),
        Err(stop) => Ok((PushOp { soid: pull.soid.clone(), ..PushOp::default() }, Some(stop))),
    }
}
