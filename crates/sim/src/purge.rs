//! When the monitor says that snapshots of a pool are purged, no member of its groups has a clone for them any more.
//!
//! Nothing would ever remove such a clone: OSDs that start forget what they were to trim once the map does. Looked at in the stores of members that serve
//! by the newest map or the one before, and lack nothing, when the snapshots leave the map's queue. A write that was under way may have named a snapshot that was purged meanwhile: what it keeps is no fault.

use crate::osd::OsdProcess;
use denc::{Decoder, Denc};
use osd_core::pg::members::peering::State;
use store::StoreError;
use types::object_info::SS_ATTR;
use types::{CollId, Epoch, GHObject, HObject, IntervalSet, PoolId, SnapId, SnapSet};

/// Snapshots that have left the map's queue.
#[derive(Debug, Clone)]
pub struct Purged {
    /// The map that says so.
    pub epoch: Epoch,
    pub pool: PoolId,
    pub snaps: IntervalSet,
}

/// Those that one queue of removed snapshots has and a later one has not.
pub fn between(epoch: Epoch, pool: PoolId, before: &IntervalSet, now: Option<&IntervalSet>) -> Option<Purged> {
    let mut snaps = before.clone();
    if let Some(now) = now {
        snaps.subtract(now);
    }
    (!snaps.is_empty()).then_some(Purged { epoch, pool, snaps })
}

/// Looks at one OSD. `may_keep`: whether an object may have a clone for a snapshot.
///
/// # Errors
/// A clone that is left.
pub fn check(osd: &OsdProcess, purged: &Purged, may_keep: &dyn Fn(&HObject, SnapId) -> bool) -> Result<(), String> {
    let store = osd.core().store();
    // One that hears of no maps may be in an interval that is long over.
    if osd.core().map().epoch + 1 < purged.epoch {
        return Ok(());
    }
    for pg in osd.core().pgs().filter(|pg| pg.pgid.pgid.pool == purged.pool) {
        let serves = matches!(pg.peering().state(), State::Active | State::ReplicaActive);
        let Ok(Some(record)) = store.load_pg(pg.pgid) else { continue };
        if !serves || !record.missing.is_empty() || record.info.is_incomplete() {
            continue;
        }
        let coll = CollId::Pg(pg.pgid);
        let Ok(page) = store.list(coll, &GHObject::min(), &GHObject::max(), 10_000) else { continue };
        for name in page.objects.iter().filter(|name| name.hobj.is_head() && name.hobj.pool == purged.pool) {
            let set = match store.attr(coll, name, SS_ATTR.as_bytes()) {
                Ok(Some(bytes)) => SnapSet::decode(&mut Decoder::new(bytes)).map_err(|e| format!("the snapshots of {name}: {e}"))?,
                Ok(None) | Err(StoreError::Wait(_)) => continue,
                Err(error) => return Err(format!("the snapshots of {name}: {error}")),
            };
            let left = set.clone_snaps.values().flatten().find(|snap| purged.snaps.contains_point(**snap) && !may_keep(&name.hobj, **snap));
            if let Some(snap) = left {
                return Err(format!("snapshot {snap} counts as purged, and osd.{} has a clone of {name} for it in {}", osd.id(), pg.pgid));
            }
        }
    }
    Ok(())
}
