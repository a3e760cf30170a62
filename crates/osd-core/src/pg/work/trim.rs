//! Trimming: clones that only removed snapshots have go, a few a turn.
//!
//! Which clones a snapshot has is [`crate::pg::snaps`]' to say; what trimming makes of one, [`crate::op`]'s.

use super::trim_queue::TrimQueue;
use crate::op::{ObjectContext, PlanStop, SnapIndexChange, TrimCtx, load_object, plan_trim};
use crate::pg::backend::at_store::Submitted;
use crate::pg::backend::in_flight::InFlight;
use crate::pg::group::Group;
use crate::pg::requests::Requests;
use crate::pg::snaps::SnapRange;
use crate::pg::work::Jobs;
use crate::shared::Cx;
use crate::work::{For, Work};
use store::StoreError;
use types::{HObject, IntervalSet};

/// Clones trimmed in one turn, so that clients have theirs in between.
const TRIMS_A_TURN: usize = 16;

impl Jobs {
    /// Removed snapshots of the map that this group has not dealt with.
    pub(in crate::pg) fn queue_snap_trims(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        if self.trim.work == Work::Waiting(For::Peer) {
            // For trims of an interval that may be over.
            self.trim.work = Work::Busy;
        }
        let queue = cx.sh.map.removed_snaps_queue.get(&group.pgid.pgid.pool);
        let mut todo = queue.cloned().unwrap_or_default();
        // What the map no longer has in its queue is purged everywhere: no need to go on saying so.
        group.record.keep_purged(&todo);
        todo.subtract(&group.record.info().purged_snaps);
        todo.union_with(&self.trim.missed);
        self.trim.queue = todo;
        self.trim.purge_idle(group, cx);
        cx.sh.turns.want(self.work(requests, group));
        cx.sh.wishes.report_soon |= group.record.is_dirty();
        if group.record.is_dirty() {
            group.save_info(cx);
            group.tell().info_to_all(cx);
        }
    }
}

impl Group {
    pub(in crate::pg) fn snap_range(&self) -> SnapRange {
        SnapRange::of(self.pgid.pgid, self.pool.pg_num)
    }
}

impl Jobs {
    /// A change of our own is durable everywhere, or what recovery brought is here: it may be the last that trimming waits for.
    pub(in crate::pg) fn own_is_durable(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        if self.trim.work == Work::Waiting(For::Peer) {
            self.trim.work = Work::Busy;
            cx.sh.turns.want(self.work(requests, group));
        }
    }
    /// A few clones of removed snapshots go.
    pub(in crate::pg) fn trim_turn(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        if !self.kept.is_durable() {
            // As clients' writes do: see [`Jobs::lacks_name`].
            self.trim.work = Work::Waiting(For::Peer);
            return;
        }
        let map = cx.sh.map.clone();
        let queue = map.removed_snaps_queue.get(&group.pgid.pgid.pool);
        let missed = self.trim.missed.clone();
        let removed = |snap: u64| queue.is_some_and(|q| q.contains_point(snap)) || missed.contains_point(snap);
        for _ in 0..TRIMS_A_TURN {
            if !self.trim.work().is_busy() {
                break;
            }
            let Some(snap) = self.trim.queue.start() else { break };
            let clone = match group.snap_range().first(&*cx.sh.store, snap) {
                Ok(Some(clone)) => clone,
                Ok(None) => {
                    self.trim.purge_idle(group, cx);
                    continue;
                }
                Err(error) => {
                    self.trim.stopped(group.pgid, &error, cx);
                    break;
                }
            };
            let head = clone.head();
            let (clone_ctx, head_ctx) = match load_clone(&clone, &head, requests, group, cx) {
                Ok(both) => both,
                Err(stop) => {
                    self.trim.work = Work::not_loaded(&stop);
                    break;
                }
            };
            let at_version = group.record.next_version(group.epoch);
            let trim = TrimCtx { pgid: group.pgid, at_version, snap, snap_removed: &removed, osd_features: cx.sh.osd_features };
            match plan_trim(&trim, &clone_ctx, &head_ctx) {
                None => {
                    let gone = SnapIndexChange { clone, old: vec![snap], new: Vec::new() };
                    if !group.backend.takes(crate::pg::snaps::note(&[gone]), None, Submitted::Record, cx) {
                        self.trim.work = Work::stopped(&StoreError::Full);
                    }
                }
                Some(plan) => {
                    let reqid = cx.own_reqid();
                    let inflight = InFlight::own(&plan.log, group.members.peering.members().clone(), reqid, cx.clock.mono);
                    match requests.submit_plan(plan, inflight, self, group, cx) {
                        Ok(()) => group.record.stats_mut().objects_trimmed += 1,
                        Err(_) => self.trim.work = Work::stopped(&StoreError::Full),
                    }
                }
            }
        }
        cx.sh.wishes.report_soon |= group.record.is_dirty();
        if group.record.is_dirty() {
            group.save_info(cx);
            group.tell().info_to_all(cx);
        }
    }
}

/// A clone's context and its head's, which is at hand from then on.
fn load_clone(
    clone: &HObject,
    head: &HObject,
    requests: &mut Requests,
    group: &Group,
    cx: &Cx<'_>,
) -> Result<(ObjectContext, ObjectContext), PlanStop> {
    requests.context(head, group, cx)?;
    let clone_ctx = load_object(group.source(cx.sh), clone)?;
    Ok((clone_ctx, requests.context(head, group, cx)?.clone()))
}

impl TrimQueue {
    /// Snapshots of which nothing was cloned here are done at once.
    fn purge_idle(&mut self, group: &mut Group, cx: &mut Cx<'_>) {
        if !self.work().is_busy() {
            return;
        }
        if group.members.peering.is_lacking(&group.record) {
            // A clone that a member lacks is in no index of it: which snapshots have none is known when all is recovered.
            return;
        }
        if group.backend.writes().any(|write| write.request.is_none()) {
            // A trim that not every member has may be taken back by another interval: then the clone is here again.
            self.work = Work::Waiting(For::Peer);
            return;
        }
        let range = group.snap_range();
        let mut left = IntervalSet::new();
        for (start, len) in self.queue.as_slice().to_vec() {
            let end = start + len;
            let mut at = start;
            while at < end {
                // Whatever lies before the next snapshot with clones has none.
                let next = match range.next_snap(&*cx.sh.store, at) {
                    Ok(next) => next.unwrap_or(end).min(end),
                    Err(error) => return self.stopped(group.pgid, &error, cx),
                };
                if next == end {
                    break;
                }
                match range.first(&*cx.sh.store, next) {
                    Ok(Some(_)) => left.insert(next, 1),
                    Ok(None) => {}
                    Err(error) => return self.stopped(group.pgid, &error, cx),
                }
                at = next + 1;
            }
        }
        let mut done = std::mem::replace(&mut self.queue, left);
        done.subtract(&self.queue);
        if !done.is_empty() {
            self.missed.subtract(&done);
            group.record.purged(&done);
        }
    }
}
