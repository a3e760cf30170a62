//! What a placement group does by itself: keeping its record, ending watches whose time is over, trimming removed snapshots.

use super::ops::send_watch_outs;
use super::replicate::InFlight;
use super::snaps::SnapRange;
use super::watch::WatchKey;
use super::{Pg, Submitted};
use crate::event::{Effect, Level};
use crate::op::{Plan, PlanCtx, PlanKind, SnapIndexChange, TrimCtx, WatchEffect, plan_trim};
use crate::shared::Cx;
use messages::{InOp, MOSDOp};
use store::{InfoChange, LogDelta, StoreError};
use types::osd_op::{OpCode, WatchArgs, watch_op};
use types::{EVersion, EntityName, HObject, IntervalSet, OsdOp, ReqId, SnapContext, Transaction, UTime};

/// Clones trimmed in one turn, so that clients have theirs in between.
const TRIMS_A_TURN: usize = 16;

impl Pg {
    /// Gives a transaction with its record to the store; false if that has no room for it, and nothing happened. A store that can't go on ends
    /// the OSD.
    pub(super) fn to_store(&mut self, txn: Transaction, delta: Option<LogDelta>, what: Submitted, cx: &mut Cx<'_>) -> bool {
        match cx.sh.store.submit(txn, delta, self.token()) {
            Ok(()) => {
                self.at_store.push_back(what);
                true
            }
            Err(StoreError::Full) => {
                cx.sh.fullness.refused();
                false
            }
            Err(error) => {
                cx.out.push(Effect::Stop { why: Some(format!("{}: {error}", self.pgid)) });
                true
            }
        }
    }

    /// Writes the whole info and the past intervals.
    pub(super) fn save_info(&mut self, cx: &mut Cx<'_>) {
        self.save_info_as(Submitted::Record, cx);
    }
    /// What there is no room for now is written by a later tick.
    pub(super) fn save_info_as(&mut self, what: Submitted, cx: &mut Cx<'_>) {
        self.info_dirty = false;
        let delta = LogDelta {
            epoch: Some(self.peering.mapping.epoch),
            info: InfoChange::Full(Box::new(self.info.clone())),
            past_intervals: Some(self.peering.past.clone()),
            ..LogDelta::new(self.pgid)
        };
        if self.to_store(Transaction::new(self.coll), Some(delta), what, cx) {
            self.saved_epoch = self.peering.mapping.epoch;
        } else if !matches!(self.unsaved, Some(Submitted::Activation(_))) {
            self.unsaved = Some(what);
        }
    }
    /// The record names a map that will soon be too old to start from.
    pub(crate) fn refresh_record(&mut self, cx: &mut Cx<'_>) {
        if self.saved_epoch + (crate::map_cache::FULLS_MAX as u32) / 2 < self.peering.mapping.epoch {
            self.save_info(cx);
        }
    }

    /// A request of our own.
    fn own_reqid(&self, cx: &mut Cx<'_>) -> ReqId {
        cx.sh.internal_tids += 1;
        ReqId { name: EntityName::osd(cx.sh.whoami.into()), tid: cx.sh.internal_tids, inc: cx.sh.map.epoch as i32 }
    }
    fn own_inflight(&self, plan: &Plan, reqid: ReqId, cx: &Cx<'_>) -> InFlight {
        InFlight {
            version: plan.log.last().map_or(EVersion::ZERO, |e| e.version),
            waiting: self.members(),
            obj: None,
            request: None,
            effects: Vec::new(),
            dups: Vec::new(),
            received: cx.clock.mono,
            bytes_out: 0,
            reqid,
        }
    }

    /// About once a second.
    pub fn tick(&mut self, cx: &mut Cx<'_>) {
        if let Some(what) = self.unsaved.take() {
            self.save_info_as(what, cx);
        }
        if !self.watches.is_empty() {
            let mut out = Vec::new();
            let over = self.watches.tick(cx.clock.mono, &mut out);
            send_watch_outs(out, cx);
            for (obj, key) in over {
                self.end_watch(obj, key, cx);
            }
        }
        // What waited for the store is tried now and then in any case.
        self.store_waits = false;
        self.start_scrub(cx);
        cx.sh.turns_wanted |= self.wants_turns();
    }

    /// A map bars addresses: watches of theirs end.
    pub fn end_blocklisted_watches(&mut self, cx: &mut Cx<'_>) {
        let map = cx.sh.map.clone();
        for (obj, key) in self.watches.with_address(|addr| map.is_blocklisted(addr)) {
            self.end_watch(obj, key, cx);
        }
    }

    /// Writes a watch out of its object's info, as an UNWATCH of that client would.
    fn end_watch(&mut self, obj: HObject, key: WatchKey, cx: &mut Cx<'_>) {
        if !self.peering.is_active() {
            return;
        }
        let Some(slot) = self.objects.get(&obj) else {
            match crate::op::load_object(&*cx.sh.store, self.coll, &obj) {
                Ok(ctx) if ctx.exists => {
                    self.objects.put(Box::new(ctx.detached()));
                    return self.end_watch(obj, key, cx);
                }
                Ok(_) => self.watches.remove(&obj, key, false, &mut Vec::new()),
                // Asked again by the next tick.
                Err(_) => {}
            }
            return;
        };
        let ctx = slot.ctx.clone();
        let Some(info) = ctx.info.watchers.get(&(key.cookie, key.entity)) else {
            let mut out = Vec::new();
            self.watches.remove(&obj, key, true, &mut out);
            return send_watch_outs(out, cx);
        };
        let reqid = self.own_reqid(cx);
        let args = WatchArgs { cookie: key.cookie, op: watch_op::UNWATCH, ..WatchArgs::default() };
        let mut msg = MOSDOp { hobj: obj.clone(), ..MOSDOp::default() };
        msg.ops.push(InOp { op: OsdOp::with_watch(OpCode::WATCH, args), indata: Default::default() });
        let Ok(what) = crate::op::OpInfo::of(0, msg.ops.iter().map(|o| (&o.op, &o.indata)), cx.sh.classes) else { return };
        let at_version = self.next_version();
        let snapc = SnapContext::default();
        // UNWATCH speaks of the asker's own watch: ask in its name.
        let plan_cx = PlanCtx {
            pgid: self.pgid,
            pool: &self.pool,
            limits: &cx.sh.limits,
            classes: cx.sh.classes,
            reqid: ReqId { name: key.entity, ..reqid },
            mtime: UTime::ZERO,
            now: UTime::from_wall_ns(cx.clock.wall_ns),
            at_version,
            last_update: self.info.last_update,
            last_user_version: self.info.last_user_version,
            snapc: &snapc,
            snap_removed: &|_| false,
            peer_addr: &info.addr,
            peer_features: u64::MAX,
            peer_supported: u64::MAX,
            osd_features: cx.sh.osd_features,
            watch_connected: &|_| false,
            next_notify_id: 0,
            fetched: &[],
            entropy: 0,
            min_compat_client: cx.sh.map.require_min_compat_client.0,
            required_osd_release: cx.sh.map.require_osd_release.0,
        };
        let Ok(mut plan) = crate::op::plan(&plan_cx, &*cx.sh.store, self.coll, &ctx, &what, &msg) else { return };
        if plan.kind != PlanKind::Write {
            return;
        }
        plan.log.iter_mut().filter(|e| e.reqid.name == key.entity).for_each(|e| e.reqid = reqid);
        let mut inflight = self.own_inflight(&plan, reqid, cx);
        inflight.effects = vec![WatchEffect::Disconnect { cookie: key.cookie, entity: key.entity, send: true }];
        plan.effects.clear();
        // What there is no room for is tried again by the next tick.
        let _ = self.submit_plan(plan, inflight, cx);
    }

    /// Removed snapshots of the map that this group has not dealt with.
    pub(super) fn queue_snap_trims(&mut self, cx: &mut Cx<'_>) {
        let queue = cx.sh.map.removed_snaps_queue.get(&self.pgid.pgid.pool);
        let mut todo = queue.cloned().unwrap_or_default();
        // What the map no longer has in its queue is purged everywhere: no need to go on saying so.
        let purged = self.info.purged_snaps.intersection(&todo);
        if purged != self.info.purged_snaps {
            self.info.purged_snaps = purged;
            self.info_dirty = true;
        }
        todo.subtract(&self.info.purged_snaps);
        todo.union_with(&self.missed_purges);
        self.snap_trimq = todo;
        self.purge_idle_snaps(cx);
        cx.sh.turns_wanted |= self.wants_turns();
        cx.sh.report_soon |= self.info_dirty;
        if self.info_dirty {
            self.save_info(cx);
        }
    }

    /// Snapshots that are purged everywhere, as the monitor says, whatever the map's queue still has.
    pub fn missed_purges(&mut self, snaps: &IntervalSet) {
        self.missed_purges.union_with(snaps);
    }

    /// Snapshots of which nothing was cloned here are done at once.
    fn purge_idle_snaps(&mut self, cx: &mut Cx<'_>) {
        if self.snap_trimq.is_empty() || self.store_waits {
            return;
        }
        let range = self.snap_range();
        let mut left = IntervalSet::new();
        for (start, len) in self.snap_trimq.as_slice().to_vec() {
            let end = start + len;
            let mut at = start;
            while at < end {
                // Whatever lies before the next snapshot with clones has none.
                let next = match range.next_snap(&*cx.sh.store, at) {
                    Ok(next) => next.unwrap_or(end).min(end),
                    Err(error) => return self.snaps_stopped(error, cx),
                };
                if next == end {
                    break;
                }
                match range.first(&*cx.sh.store, next) {
                    Ok(Some(_)) => left.insert(next, 1),
                    Ok(None) => {}
                    Err(error) => return self.snaps_stopped(error, cx),
                }
                at = next + 1;
            }
        }
        let mut done = std::mem::replace(&mut self.snap_trimq, left);
        done.subtract(&self.snap_trimq);
        if !done.is_empty() {
            self.missed_purges.subtract(&done);
            self.info.purged_snaps.union_with(&done);
            self.info_dirty = true;
        }
    }
    fn snap_range(&self) -> SnapRange {
        SnapRange::of(self.pgid.pgid, self.pool.pg_num)
    }
    /// The index of snapshots can't be read now, or not at all: the group rests from it until the store has news or a tick comes.
    fn snaps_stopped(&mut self, error: StoreError, cx: &mut Cx<'_>) {
        self.store_waits = true;
        if !matches!(error, StoreError::Wait(_)) {
            self.snap_errors += 1;
            if self.snap_errors == 1 {
                cx.sh.damaged += 1;
                cx.out.push(Effect::ClusterLog { level: Level::Error, text: format!("{} snaptrim: {error}", self.pgid) });
            }
        }
    }

    pub fn wants_turns(&self) -> bool {
        let trims = !self.snap_trimq.is_empty() && !self.store_waits;
        let scrubs = self.scrub.as_ref().is_some_and(|s| !s.waits);
        (trims || scrubs) && self.peering.is_active()
    }
    pub fn is_trimming(&self) -> bool {
        !self.snap_trimq.is_empty() && self.peering.is_active()
    }

    /// A turn for what the group does by itself.
    pub fn turn(&mut self, cx: &mut Cx<'_>) {
        if !self.peering.is_active() {
            return;
        }
        self.scrub_some(cx);
        if !self.snap_trimq.is_empty() {
            self.trim_some(cx);
        }
    }

    /// A few clones of removed snapshots go.
    fn trim_some(&mut self, cx: &mut Cx<'_>) {
        let map = cx.sh.map.clone();
        let queue = map.removed_snaps_queue.get(&self.pgid.pgid.pool);
        let missed = self.missed_purges.clone();
        let removed = |snap: u64| queue.is_some_and(|q| q.contains_point(snap)) || missed.contains_point(snap);
        for _ in 0..TRIMS_A_TURN {
            if self.store_waits {
                break;
            }
            let Some(snap) = self.snap_trimq.start() else { break };
            let clone = match self.snap_range().first(&*cx.sh.store, snap) {
                Ok(Some(clone)) => clone,
                Ok(None) => {
                    self.purge_idle_snaps(cx);
                    continue;
                }
                Err(error) => {
                    self.snaps_stopped(error, cx);
                    break;
                }
            };
            let head = clone.head();
            if self.objects.peek(&head).is_none() {
                match crate::op::load_object(&*cx.sh.store, self.coll, &head) {
                    Ok(ctx) => self.keep(ctx, cx),
                    Err(_) => self.store_waits = true,
                }
            }
            let clone_ctx = crate::op::load_object(&*cx.sh.store, self.coll, &clone);
            self.store_waits |= clone_ctx.is_err();
            let (Ok(clone_ctx), Some(slot)) = (clone_ctx, self.objects.peek(&head)) else { break };
            let head_ctx = slot.ctx.clone();
            let at_version = self.next_version();
            let trim = TrimCtx { pgid: self.pgid, at_version, snap, snap_removed: &removed, osd_features: cx.sh.osd_features };
            match plan_trim(&trim, &clone_ctx, &head_ctx) {
                None => {
                    let gone = SnapIndexChange { clone, old: vec![snap], new: Vec::new() };
                    self.store_waits |= !self.to_store(super::snaps::note(&[gone]), None, Submitted::Record, cx);
                }
                Some(plan) => {
                    let reqid = self.own_reqid(cx);
                    let inflight = self.own_inflight(&plan, reqid, cx);
                    match self.submit_plan(plan, inflight, cx) {
                        Ok(()) => self.info.stats.objects_trimmed += 1,
                        Err(_) => self.store_waits = true,
                    }
                }
            }
        }
        cx.sh.report_soon |= self.info_dirty;
        if self.info_dirty {
            self.save_info(cx);
        }
    }
}
