//! Trimming: clones that only removed snapshots have go, a few a turn.
//!
//! Which clones a snapshot has is [`super::snaps`]' to say; what trimming makes of one, [`crate::op`]'s.

use super::Pg;
use super::at_store::Submitted;
use super::replicate::InFlight;
use super::snaps::SnapRange;
use crate::op::{ObjectContext, PlanStop, SnapIndexChange, TrimCtx, load_object, plan_trim};
use crate::shared::Cx;
use crate::work::{For, Work};
use store::StoreError;
use types::{HObject, IntervalSet};

/// Clones trimmed in one turn, so that clients have theirs in between.
const TRIMS_A_TURN: usize = 16;

impl Pg {
    /// Removed snapshots of the map that this group has not dealt with.
    pub(super) fn queue_snap_trims(&mut self, cx: &mut Cx<'_>) {
        if self.trim.work == Work::Waiting(For::Peer) {
            // For trims of an interval that may be over.
            self.trim.work = Work::Busy;
        }
        let queue = cx.sh.map.removed_snaps_queue.get(&self.pgid.pgid.pool);
        let mut todo = queue.cloned().unwrap_or_default();
        // What the map no longer has in its queue is purged everywhere: no need to go on saying so.
        self.record.keep_purged(&todo);
        todo.subtract(&self.record.info().purged_snaps);
        todo.union_with(&self.trim.missed);
        self.trim.queue = todo;
        self.purge_idle_snaps(cx);
        cx.sh.turns.want(self.work());
        cx.sh.report_soon |= self.record.is_dirty();
        if self.record.is_dirty() {
            self.save_info(cx);
            self.tell().info_to_all(cx);
        }
    }

    /// Snapshots of which nothing was cloned here are done at once.
    fn purge_idle_snaps(&mut self, cx: &mut Cx<'_>) {
        if !self.trim.work().is_busy() {
            return;
        }
        if self.peering.is_lacking(&self.record) {
            // A clone that a member lacks is in no index of it: which snapshots have none is known when all is recovered.
            return;
        }
        if self.inflight.iter().any(|write| write.request.is_none()) {
            // A trim that not every member has may be taken back by another interval: then the clone is here again.
            self.trim.work = Work::Waiting(For::Peer);
            return;
        }
        let range = self.snap_range();
        let mut left = IntervalSet::new();
        for (start, len) in self.trim.queue.as_slice().to_vec() {
            let end = start + len;
            let mut at = start;
            while at < end {
                // Whatever lies before the next snapshot with clones has none.
                let next = match range.next_snap(&*cx.sh.store, at) {
                    Ok(next) => next.unwrap_or(end).min(end),
                    Err(error) => return self.trim.stopped(self.pgid, &error, cx),
                };
                if next == end {
                    break;
                }
                match range.first(&*cx.sh.store, next) {
                    Ok(Some(_)) => left.insert(next, 1),
                    Ok(None) => {}
                    Err(error) => return self.trim.stopped(self.pgid, &error, cx),
                }
                at = next + 1;
            }
        }
        let mut done = std::mem::replace(&mut self.trim.queue, left);
        done.subtract(&self.trim.queue);
        if !done.is_empty() {
            self.trim.missed.subtract(&done);
            self.record.purged(&done);
        }
    }
    pub(super) fn snap_range(&self) -> SnapRange {
        SnapRange::of(self.pgid.pgid, self.pool.pg_num)
    }
    /// A change of our own is durable everywhere, or what recovery brought is here: it may be the last that trimming waits for.
    pub(super) fn own_is_durable(&mut self, cx: &mut Cx<'_>) {
        if self.trim.work == Work::Waiting(For::Peer) {
            self.trim.work = Work::Busy;
            cx.sh.turns.want(self.work());
        }
    }
    /// A few clones of removed snapshots go.
    pub(super) fn trim_turn(&mut self, cx: &mut Cx<'_>) {
        if !self.room.is_durable() {
            // As clients' writes do: see [`Pg::lacks_name`].
            self.trim.work = Work::Waiting(For::Peer);
            return;
        }
        let map = cx.sh.map.clone();
        let queue = map.removed_snaps_queue.get(&self.pgid.pgid.pool);
        let missed = self.trim.missed.clone();
        let removed = |snap: u64| queue.is_some_and(|q| q.contains_point(snap)) || missed.contains_point(snap);
        for _ in 0..TRIMS_A_TURN {
            if !self.trim.work().is_busy() {
                break;
            }
            let Some(snap) = self.trim.queue.start() else { break };
            let clone = match self.snap_range().first(&*cx.sh.store, snap) {
                Ok(Some(clone)) => clone,
                Ok(None) => {
                    self.purge_idle_snaps(cx);
                    continue;
                }
                Err(error) => {
                    self.trim.stopped(self.pgid, &error, cx);
                    break;
                }
            };
            let head = clone.head();
            let (clone_ctx, head_ctx) = match self.load_clone(&clone, &head, cx) {
                Ok(both) => both,
                Err(stop) => {
                    self.trim.work = Work::not_loaded(&stop);
                    break;
                }
            };
            let at_version = self.record.next_version(self.epoch);
            let trim = TrimCtx { pgid: self.pgid, at_version, snap, snap_removed: &removed, osd_features: cx.sh.osd_features };
            match plan_trim(&trim, &clone_ctx, &head_ctx) {
                None => {
                    let gone = SnapIndexChange { clone, old: vec![snap], new: Vec::new() };
                    if !self.at_store.takes(super::snaps::note(&[gone]), None, Submitted::Record, cx) {
                        self.trim.work = Work::stopped(&StoreError::Full);
                    }
                }
                Some(plan) => {
                    let reqid = cx.own_reqid();
                    let inflight = InFlight::own(&plan.log, self.peering.members().clone(), reqid, cx.clock.mono);
                    match self.submit_plan(plan, inflight, cx) {
                        Ok(()) => self.record.stats_mut().objects_trimmed += 1,
                        Err(_) => self.trim.work = Work::stopped(&StoreError::Full),
                    }
                }
            }
        }
        cx.sh.report_soon |= self.record.is_dirty();
        if self.record.is_dirty() {
            self.save_info(cx);
            self.tell().info_to_all(cx);
        }
    }

    /// A clone's context and its head's, which is at hand from then on.
    fn load_clone(&mut self, clone: &HObject, head: &HObject, cx: &Cx<'_>) -> Result<(ObjectContext, ObjectContext), PlanStop> {
        if self.objects.context(head).is_none() {
            let ctx = load_object(&*cx.sh.store, self.coll, head)?;
            self.keep(ctx, cx);
        }
        let clone_ctx = load_object(&*cx.sh.store, self.coll, clone)?;
        Ok((clone_ctx, self.objects.context(head).cloned().expect("kept above")))
    }
}
