//! What a placement group does by itself: keeping its record, ending watches whose time is over, trimming removed snapshots, scrubbing.

use super::ops::send_watch_outs;
use super::watch::WatchKey;
use super::{InFlight, Pg, TOKEN_INFO};
use crate::event::{Effect, Level};
use crate::op::{Plan, PlanCtx, PlanKind, TrimCtx, WatchEffect, plan_trim};
use crate::shared::Cx;
use messages::{InOp, MOSDOp};
use store::{InfoChange, LogDelta};
use types::osd_op::{OpCode, WatchArgs, watch_op};
use types::{EVersion, EntityName, GHObject, HObject, IntervalSet, OsdOp, ReqId, SnapContext, Transaction, UTime};

/// Clones trimmed in one turn, so that clients have theirs in between.
const TRIMS_A_TURN: usize = 16;
/// Objects looked at in one turn of a scrub.
const SCRUB_PAGE: usize = 512;

impl Pg {
    /// Gives a transaction with its record to the store; a store that can't take it any more ends the OSD.
    pub(super) fn to_store(&self, txn: Transaction, delta: Option<LogDelta>, token: u64, cx: &mut Cx<'_>) {
        if let Err(error) = cx.sh.store.submit(txn, delta, token) {
            cx.out.push(Effect::Stop { why: Some(format!("{}: the store refused a transaction: {error}", self.pgid)) });
        }
    }

    /// Writes the whole info and the past intervals.
    pub(super) fn save_info(&mut self, cx: &mut Cx<'_>) {
        self.save_info_as(TOKEN_INFO, cx);
    }
    pub(super) fn save_info_as(&mut self, token: u64, cx: &mut Cx<'_>) {
        self.info_dirty = false;
        let delta = LogDelta {
            epoch: Some(self.peering.mapping.epoch),
            info: InfoChange::Full(Box::new(self.info.clone())),
            past_intervals: Some(self.peering.past.clone()),
            ..LogDelta::new(self.pgid)
        };
        let token = self.token(token);
        self.to_store(Transaction::new(self.coll), Some(delta), token, cx);
    }

    /// A request of our own.
    fn own_reqid(&self, cx: &mut Cx<'_>) -> ReqId {
        cx.sh.internal_tids += 1;
        ReqId { name: EntityName::osd(cx.sh.whoami.into()), tid: cx.sh.internal_tids, inc: cx.sh.map.epoch as i32 }
    }
    fn own_inflight(&self, plan: &Plan, reqid: ReqId, cx: &Cx<'_>) -> InFlight {
        InFlight {
            version: plan.log.last().map_or(EVersion::ZERO, |e| e.version),
            committed: false,
            obj: None,
            reply: None,
            effects: Vec::new(),
            dups: Vec::new(),
            received: cx.clock.mono,
            bytes_in: 0,
            bytes_out: 0,
            reads: false,
            reqid,
        }
    }

    /// About once a second.
    pub fn tick(&mut self, cx: &mut Cx<'_>) {
        if !self.watches.is_empty() {
            let mut out = Vec::new();
            let over = self.watches.tick(cx.clock.mono, &mut out);
            send_watch_outs(out, cx);
            for (obj, key) in over {
                self.end_watch(obj, key, cx);
            }
        }
        if let Some(deep) = self.scrub_wanted.take() {
            if self.peering.is_active() {
                self.scrub(deep, cx);
            } else {
                self.scrub_wanted = Some(deep);
            }
        }
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
                    self.objects.put(ctx);
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
        let at_version = self.next_version(cx.sh.map.epoch);
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
            osd_features: cx.sh.osd_features,
            watch_connected: &|_| false,
            next_notify_id: 0,
            copied: None,
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
        self.submit_plan(plan, inflight, cx);
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
        self.snap_trimq = todo;
        self.purge_idle_snaps();
        cx.sh.turns_wanted |= self.wants_turns();
        cx.sh.report_soon |= self.info_dirty;
        if self.info_dirty {
            self.save_info(cx);
        }
    }

    /// Snapshots of which nothing was cloned here are done at once.
    fn purge_idle_snaps(&mut self) {
        if self.snap_trimq.is_empty() {
            return;
        }
        let mut left = IntervalSet::new();
        if !self.snaps.is_empty() {
            let snaps = self.snap_trimq.iter().flat_map(|(start, len)| start..start + len);
            snaps.filter(|s| self.snaps.first(*s).is_some()).for_each(|s| left.insert(s, 1));
        }
        let mut done = std::mem::replace(&mut self.snap_trimq, left);
        done.subtract(&self.snap_trimq);
        if !done.is_empty() {
            self.info.purged_snaps.union_with(&done);
            self.info_dirty = true;
        }
    }

    pub fn wants_turns(&self) -> bool {
        !self.snap_trimq.is_empty() && self.peering.is_active()
    }

    /// A few clones of removed snapshots go.
    pub fn trim_some(&mut self, cx: &mut Cx<'_>) {
        if !self.peering.is_active() {
            return;
        }
        let map = cx.sh.map.clone();
        let queue = map.removed_snaps_queue.get(&self.pgid.pgid.pool);
        let removed = |snap: u64| queue.is_some_and(|q| q.contains_point(snap));
        for _ in 0..TRIMS_A_TURN {
            let Some(snap) = self.snap_trimq.start() else { break };
            let Some(clone) = self.snaps.first(snap).cloned() else {
                self.purge_idle_snaps();
                continue;
            };
            let head = clone.head();
            if self.objects.peek(&head).is_none() {
                match crate::op::load_object(&*cx.sh.store, self.coll, &head) {
                    Ok(ctx) => drop(self.objects.put(ctx)),
                    Err(_) => return,
                }
            }
            let Ok(clone_ctx) = crate::op::load_object(&*cx.sh.store, self.coll, &clone) else { return };
            let head_ctx = self.objects.peek(&head).expect("loaded above").ctx.clone();
            let at_version = self.next_version(map.epoch);
            let trim = TrimCtx { pgid: self.pgid, at_version, snap, snap_removed: &removed, osd_features: cx.sh.osd_features };
            match plan_trim(&trim, &clone_ctx, &head_ctx) {
                None => self.snaps.forget(snap, &clone),
                Some(plan) => {
                    let reqid = self.own_reqid(cx);
                    let inflight = self.own_inflight(&plan, reqid, cx);
                    self.info.stats.objects_trimmed += 1;
                    self.submit_plan(plan, inflight, cx);
                }
            }
        }
        cx.sh.report_soon |= self.info_dirty;
        if self.info_dirty {
            self.save_info(cx);
        }
    }

    /// Somebody asks for a scrub: done by the next tick.
    pub fn want_scrub(&mut self, deep: bool) {
        self.scrub_wanted = Some(self.scrub_wanted.unwrap_or(false) || deep);
    }

    /// Compares what the records say of each object with what the store has, and counts anew; a deep one reads every byte.
    fn scrub(&mut self, deep: bool, cx: &mut Cx<'_>) {
        if !self.inflight.is_empty() {
            self.scrub_wanted = Some(deep);
            return;
        }
        let started = cx.clock.wall_ns;
        let (mut errors, mut objects, mut bytes) = (0_i64, 0_i64, 0_i64);
        let mut at = GHObject::min();
        loop {
            let page = match cx.sh.store.list(self.coll, &at, &GHObject::max(), SCRUB_PAGE) {
                Ok(page) => page,
                Err(error) => {
                    let text = format!("{} scrub: {error}", self.pgid);
                    cx.out.push(Effect::ClusterLog { level: Level::Error, text });
                    return;
                }
            };
            for obj in &page.objects {
                objects += 1;
                let ctx = crate::op::load_object(&*cx.sh.store, self.coll, &obj.hobj);
                let size = cx.sh.store.stat(self.coll, obj).map(|s| s.size);
                let good = match (&ctx, &size) {
                    (Ok(ctx), Ok(size)) => ctx.exists && ctx.info.size == *size,
                    _ => false,
                };
                let readable = !deep || size.as_ref().is_ok_and(|len| cx.sh.store.read(self.coll, obj, 0, *len).is_ok());
                if let Ok(ctx) = &ctx {
                    // A clone counts as what it doesn't share; its head knows.
                    bytes += if ctx.hobj.is_head() {
                        let clones: u64 = ctx.snapset.clones.iter().map(|c| ctx.snapset.clone_bytes(*c)).sum();
                        (ctx.info.size + clones) as i64
                    } else {
                        0
                    };
                }
                if !good || !readable {
                    errors += 1;
                    let text = format!("{} {}scrub : {} has damage", self.pgid, if deep { "deep-" } else { "" }, obj.hobj);
                    cx.out.push(Effect::ClusterLog { level: Level::Error, text });
                }
            }
            match page.next {
                Some(next) => at = next,
                None => break,
            }
        }
        let sum = &mut self.info.stats.stats.sum;
        let counted = (sum.num_objects, sum.num_bytes) == (objects, bytes);
        if !counted {
            let text = format!(
                "{} scrub : stat mismatch, got {}/{} objects, {}/{} bytes.",
                self.pgid, sum.num_objects, objects, sum.num_bytes, bytes
            );
            cx.out.push(Effect::ClusterLog { level: if self.info.stats.stats_invalid { Level::Info } else { Level::Error }, text });
            (sum.num_objects, sum.num_bytes) = (objects, bytes);
        }
        sum.num_scrub_errors = errors;
        if deep {
            sum.num_deep_scrub_errors = errors;
        } else {
            sum.num_shallow_scrub_errors = errors;
        }
        self.info.stats.stats_invalid = false;
        let (now, h) = (cx.now(), &mut self.info.history);
        (h.last_scrub, h.last_scrub_stamp) = (self.info.last_update, now);
        if deep {
            (h.last_deep_scrub, h.last_deep_scrub_stamp) = (self.info.last_update, now);
        }
        if errors == 0 {
            h.last_clean_scrub_stamp = now;
        }
        self.info.stats.objects_scrubbed = objects;
        self.info.stats.last_scrub_duration_s = 1;
        self.info.stats.scrub_duration_s = cx.clock.wall_ns.saturating_sub(started) as f64 * 1e-9;
        let name = if deep { "deep-scrub" } else { "scrub" };
        let text = format!("{} {name} {}", self.pgid, if errors == 0 { "ok".into() } else { format!("{errors} errors") });
        cx.out.push(Effect::ClusterLog { level: if errors == 0 { Level::Debug } else { Level::Error }, text });
        self.save_info(cx);
    }
}
