//! Snapshots: numbers given out and taken back, and removals that all placement groups have carried out.
//!
//! A number that was given out is never given again. A removed snapshot waits in the map's queue until every group of the pool says
//! that it has trimmed it; then it is purged.

use super::OsdService;
use crate::Mon;
use crate::cmd::CmdError;
use crate::kv::Batch;
use crate::planted::{Bug, planted};
use crate::session::ConnId;
use bytes::Bytes;
use denc::Denc;
use messages::{MMonGetPurgedSnaps, MMonGetPurgedSnapsReply, MPoolOp, Paxos, pool_op};
use std::collections::BTreeMap;
use types::interval_set::IntervalSet;
use types::{PoolId, SnapId, UTime, errno};

/// Epochs looked through for one answer.
const PURGED_EPOCHS_MAX: u32 = 1000;

impl Mon {
    /// Makes or removes a snapshot. The answer to a client's new one is its number.
    pub(super) fn snap_op(&mut self, m: &MPoolOp, now: UTime) -> Result<Option<Bytes>, CmdError> {
        let id = PoolId::from(m.pool);
        let Some(pool) = self.osd.map.pools.get(&id).cloned() else { return Err(CmdError::new(errno::ENOENT, "no such pool")) };
        let invalid = || Err(CmdError::new(errno::EINVAL, "the pool's snapshots are of the other kind"));
        let epoch = self.osd.map.epoch + 1;
        match m.op {
            pool_op::CREATE_SNAP => {
                if pool.is_unmanaged_snaps_mode() || pool.is_tier() {
                    return invalid();
                }
                if pool.snap_by_name(&m.name).is_none() {
                    let pool = self.osd.pool_mut(id).expect("we looked");
                    pool.add_snap(&m.name, now);
                    pool.snap_epoch = epoch;
                }
                Ok(None)
            }
            pool_op::DELETE_SNAP => {
                if pool.is_unmanaged_snaps_mode() {
                    return invalid();
                }
                if let Some(snap) = pool.snap_by_name(&m.name) {
                    self.osd.remove_pool_snap(id, snap);
                }
                Ok(None)
            }
            pool_op::CREATE_UNMANAGED_SNAP => {
                if pool.is_pool_snaps_mode() {
                    return invalid();
                }
                let pool = self.osd.pool_mut(id).expect("we looked");
                let mut snap = pool.add_unmanaged_snap();
                if planted(Bug::ReuseSnapId) && snap > 2 {
                    snap -= 1;
                }
                pool.snap_epoch = epoch;
                Ok(Some(snap.to_bytes(0)))
            }
            pool_op::DELETE_UNMANAGED_SNAP => {
                if pool.is_pool_snaps_mode() {
                    return invalid();
                }
                if self.osd.is_removed_snap(id, m.snapid) {
                    return Ok(None);
                }
                if !pool.is_unmanaged_snaps_mode() {
                    return Err(CmdError::new(errno::EOPNOTSUPP, "the pool has no snapshots that clients manage"));
                }
                if m.snapid > pool.snap_seq {
                    return Err(CmdError::new(errno::ENOENT, "there is no such snapshot yet"));
                }
                if m.snapid > 0 {
                    let pool = self.osd.pool_mut(id).expect("we looked");
                    pool.remove_unmanaged_snap();
                    pool.snap_epoch = epoch;
                    self.osd.pending().new_removed_snaps.entry(id).or_default().insert(m.snapid, 1);
                }
                Ok(None)
            }
            // Owners of pools are gone since Nautilus.
            pool_op::AUID_CHANGE => Err(CmdError::new(errno::EOPNOTSUPP, "owners of pools are no more")),
            _ => Err(CmdError::new(errno::EINVAL, "unknown pool operation")),
        }
    }

    /// Looks at what groups have trimmed: what all of a pool have, and is waited for, is purged.
    pub(crate) fn purge_snaps(&mut self) {
        if self.osd.map.removed_snaps_queue.is_empty() {
            return;
        }
        let waiting: Vec<PoolId> = self.osd.map.removed_snaps_queue.keys().copied().collect();
        for pool in waiting {
            // Set whenever the number of groups changes, by the map that has it.
            let Some((pg_num, since)) = self.osd.map.pools.get(&pool).map(|p| (p.pg_num, p.last_force_op_resend_prenautilus)) else {
                continue;
            };
            let Some(done) = self.manager.pgs.purged_in_all(pool, pg_num, since) else { continue };
            let done = done.intersection(&self.osd.map.removed_snaps_queue[&pool]);
            if !done.is_empty() {
                self.osd.purge(pool, done, &mut self.batch);
            }
        }
    }

    pub(crate) fn on_get_purged_snaps(&mut self, conn: ConnId, m: &MMonGetPurgedSnaps) {
        let last = m.last.min(self.osd.map.epoch).min(m.start.saturating_add(PURGED_EPOCHS_MAX));
        let purged: BTreeMap<_, _> = if m.start > last { BTreeMap::new() } else { self.osd.purged_between(m.start, last) };
        self.send(conn, 0, &MMonGetPurgedSnapsReply { paxos: Paxos::default(), start: m.start, last, purged });
    }
}

impl OsdService {
    /// Removes a snapshot of a pool's own.
    pub fn remove_pool_snap(&mut self, id: PoolId, snap: SnapId) {
        let epoch = self.map.epoch + 1;
        let pool = self.pool_mut(id).expect("the pool exists");
        pool.remove_snap(snap);
        pool.snap_epoch = epoch;
        self.pending().new_removed_snaps.entry(id).or_default().insert(snap, 1);
    }

    /// Those numbers of snapshots between `first` and `end`, which is not among them, that no purge is known of.
    pub fn unpurged_snaps(&self, id: PoolId, first: SnapId, end: SnapId) -> IntervalSet {
        let mut snaps = IntervalSet::new();
        if first < end {
            snaps.insert(first, end - first);
        }
        if let Some(purged) = self.all_purged.get(&id) {
            snaps.subtract(purged);
        }
        snaps
    }

    /// Removes snapshots whatever refers to them: OSDs trim them, also a second time.
    pub fn force_remove_snaps(&mut self, id: PoolId, snaps: &IntervalSet) {
        let epoch = self.map.epoch + 1;
        let pool = self.pool_mut(id).expect("the pool exists");
        // A pool's own snapshots go by name: none may be left of what is trimmed.
        let own: Vec<SnapId> = pool.snaps.keys().copied().filter(|snap| snaps.contains_point(*snap)).collect();
        own.into_iter().for_each(|snap| pool.remove_snap(snap));
        pool.snap_epoch = epoch;
        self.pending().new_removed_snaps.entry(id).or_default().union_with(snaps);
    }

    /// True if a client's snapshot was removed: it waits for its purge, or was purged.
    pub fn is_removed_snap(&self, pool: PoolId, snap: SnapId) -> bool {
        let has = |sets: &BTreeMap<PoolId, IntervalSet>| sets.get(&pool).is_some_and(|set| set.contains_point(snap));
        has(&self.map.removed_snaps_queue) || has(&self.all_purged) || self.peek_pending().is_some_and(|inc| has(&inc.new_removed_snaps))
    }

    fn purge(&mut self, pool: PoolId, snaps: IntervalSet, batch: &mut Batch) {
        let all = self.all_purged.entry(pool).or_default();
        all.union_with(&snaps);
        batch.put(format!("osd/purged/{pool}"), all.to_bytes(0));
        self.pending().new_purged_snaps.insert(pool, snaps);
    }

    fn purged_between(&self, start: u32, last: u32) -> BTreeMap<u32, BTreeMap<PoolId, IntervalSet>> {
        self.purged.range(start..=last).map(|(e, p)| (*e, p.clone())).collect()
    }
}
