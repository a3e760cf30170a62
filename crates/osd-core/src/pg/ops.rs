//! The path of a client's request through its placement group.
//!
//! Checks (members, epoch, backoff, capabilities, names, blocklist, full pools), then duplicates, then the object's order, then the plan
//! (`crate::op`), then submission; [`Pg::finish`] answers when the entry is durable.

use super::replicate::InFlight;
use super::{Pg, StoreWaiter, Submitted};
use crate::copying::Fetch;
use crate::event::{ConnId, Effect, Level};
use crate::history::Done;
use crate::op::fetch::{Got, Wanted};
use crate::op::{self, ANY_TICKET, Awaited, Limits, ObjectContext, OpInfo, Plan, PlanCtx, PlanKind, PlanStop, WatchEffect, load_object};
use crate::perf::C;
use crate::pg::watch::{WatchKey, WatchOut};
use crate::request::{ClientOp, error_reply, plan_reply};
use crate::shared::Cx;
use base::Stamp;
use cephx::caps::{ClassCall, OsdRequest};
use denc::{Denc, Encoder};
use maps::{PgPool, pool_flags};
use messages::osd_client::{backoff_op, watch_event};
use messages::{MOSDBackoff, MOSDOp, MWatchNotify, Message};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use store::{FastInfo, InfoChange, LogDelta, StoreError};
use types::errno::{E2BIG, EBLOCKLISTED, EDQUOT, EINVAL, EIO, EMSGSIZE, ENAMETOOLONG, ENOENT, ENOSPC, EPERM, ETIMEDOUT};
use types::osd_op::{OpCode, osd_flag};
use types::{
    CEPH_NOSNAP, CEPH_SNAPDIR, EVersion, EntityKind, GHObject, HObject, PgLogEntry, ReqId, SnapContext, SpgId, Transaction, UTime, features,
};

/// The store has no room for a change, which is as if it had never been.
#[derive(Debug)]
pub(super) struct Refused(Box<InFlight>);

/// Why a request goes no further now.
enum Halt {
    /// Not for us, or to be sent again: no answer.
    Drop,
    Reply(i32),
}

impl Pg {
    /// Takes one request as far as it goes now: answered, submitted, waiting, or dropped.
    pub fn client_op(&mut self, mut op: Box<ClientOp>, cx: &mut Cx<'_>) {
        if let Some(fetches) = &mut op.fetches {
            fetches.waiting = false;
        }
        if self.is_stale(&op, cx) {
            return;
        }
        if !self.peering.is_active() {
            return self.not_active(op, cx);
        }
        match self.admit(&mut op, cx) {
            Ok(()) => {}
            Err(Halt::Drop) => return,
            Err(Halt::Reply(errno)) => return self.reply_error(&op, errno, cx),
        }
        let info = op.info.as_ref().expect("admission looks it up");
        if (info.may_write || info.may_cache)
            && let Some(done) = self.log.find(&op.reqid)
        {
            let (version, user_version, returned) = (done.version(), done.user_version(), done.returned());
            if op.unanswered.as_ref().is_some_and(|held| held.version == version) {
                return self.answer_requeued(op, cx);
            }
            cx.sh.perf.inc(C::op_dup);
            let reply = error_reply(&op.msg, returned.code, cx.sh.map.epoch, version, user_version, Some(&returned.ops));
            match self.inflight.get(version) {
                // Its entry isn't durable: the answer waits for it.
                Some(write) => write.dups.push((op, reply)),
                None => cx.send(op.conn, reply),
            }
            return;
        }
        if info.pg_op {
            return self.run_pg_op(op, cx);
        }
        self.run(op, cx);
    }

    /// Sent by a map of before this interval: the client sends it again by the new one.
    fn is_stale(&self, op: &ClientOp, cx: &Cx<'_>) -> bool {
        let Some(session) = cx.sh.sessions.get(&op.conn) else { return true };
        let epoch = op.msg.map_epoch;
        epoch < self.info.history.same_primary_since
            || epoch < self.pool.last_force_op_resend
            || (session.has(features::RESEND_ON_SPLIT) && epoch < self.info.history.last_epoch_split)
            || (op.msg.flags & (osd_flag::BALANCE_READS | osd_flag::LOCALIZE_READS) != 0
                && !self.peering.is_primary()
                && epoch < self.info.history.same_interval_since)
    }

    fn not_active(&mut self, mut op: Box<ClientOp>, cx: &mut Cx<'_>) {
        if !self.peering.is_primary() {
            return;
        }
        let held = self.peering.is_peered_only() || self.peering.state() == super::peering::State::Down;
        if held && self.back_off(op.conn, cx) {
            return;
        }
        op.waits_for = if held { "waiting for active" } else { "waiting for peered" };
        self.waiting_active.push_back(op);
    }

    /// Asks a client to keep its requests to this group until we say otherwise. False if it doesn't know how to.
    fn back_off(&self, conn: ConnId, cx: &mut Cx<'_>) -> bool {
        let Some(session) = cx.sh.sessions.get_mut(&conn) else { return true };
        if !session.has(features::RADOS_BACKOFF) {
            return false;
        }
        if session.holds_back(self.pgid) {
            return true;
        }
        let id = session.next_backoff_id();
        let (begin, end) = pg_range(self.pgid, &self.pool);
        session.backoffs.push(crate::session::Backoff { pgid: self.pgid, id, begin: begin.clone(), end: end.clone() });
        let msg = MOSDBackoff { pgid: self.pgid, map_epoch: cx.sh.map.epoch, op: backoff_op::BLOCK, id, begin, end };
        let raw = msg.encode(session.peer.features);
        cx.send(conn, raw);
        true
    }
    /// Hands what waits back to those who can keep it themselves.
    pub(super) fn back_off_waiting(&mut self, cx: &mut Cx<'_>) {
        for op in std::mem::take(&mut self.waiting_active) {
            if !self.back_off(op.conn, cx) {
                self.waiting_active.push_back(op);
            }
        }
    }
    pub(super) fn release_backoffs(&self, cx: &mut Cx<'_>) {
        let (epoch, pgid) = (cx.sh.map.epoch, self.pgid);
        for (conn, session) in cx.sh.sessions.iter_mut().filter(|(_, s)| !s.backoffs.is_empty()) {
            let features = session.peer.features;
            session.backoffs.retain(|b| {
                if b.pgid == pgid {
                    let (begin, end) = (b.begin.clone(), b.end.clone());
                    let msg = MOSDBackoff { pgid, map_epoch: epoch, op: backoff_op::UNBLOCK, id: b.id, begin, end }.encode(features);
                    cx.out.push(Effect::Send { conn: *conn, msg });
                }
                b.pgid != pgid
            });
        }
    }

    /// Everything that is asked of a request before its object is looked at.
    fn admit(&mut self, op: &mut ClientOp, cx: &mut Cx<'_>) -> Result<(), Halt> {
        let session = cx.sh.sessions.get(&op.conn).ok_or(Halt::Drop)?;
        let m = &op.msg;
        if self.pool.fold(m.hobj.hash) != self.pgid.pgid.seed && m.flags & osd_flag::PGOP == 0 {
            return Err(Halt::Drop);
        }
        if !session.backoffs.is_empty() && session.holds_back(self.pgid) {
            return Err(Halt::Drop);
        }
        if m.has(osd_flag::PARALLELEXEC) {
            return Err(Halt::Reply(EINVAL));
        }
        if m.ops.len() > OPS_MAX || m.snapc.snaps.len() > SNAPS_MAX {
            return Err(Halt::Reply(E2BIG));
        }
        if op.info.is_none() {
            let ops = m.ops.iter().map(|o| (&o.op, &o.indata));
            op.info = Some(OpInfo::of(m.flags, ops, cx.sh.classes).map_err(Halt::Reply)?);
        }
        let info = op.info.as_ref().expect("set above");
        if !self.peering.is_primary() {
            return Err(Halt::Drop);
        }
        let limits = &cx.sh.limits;
        if info.called.iter().any(|c| !limits.classes_loaded.has(c.class)) {
            return Err(Halt::Reply(EPERM));
        }
        if let Some(cap) = &session.peer.cap {
            let listed = |class| limits.classes_by_default.has(class);
            let calls = info.called.iter().map(|c| (c, listed(c.class)));
            let classes: Vec<ClassCall<'_>> =
                calls.map(|(c, listed)| ClassCall { class: c.class, method: c.method, read: c.reads, write: c.writes, listed }).collect();
            let key = if m.hobj.key.is_empty() { &m.hobj.oid } else { &m.hobj.key };
            let wants = OsdRequest {
                pool: &self.pool_name,
                namespace: m.hobj.nspace.as_slice(),
                applications: &self.pool.application_metadata,
                object: key.as_slice(),
                read: info.plain_read || info.pg_op,
                write: info.plain_write,
                classes: &classes,
                addr: &session.peer.addr,
            };
            if !cap.allows(&wants) {
                return Err(Halt::Reply(EPERM));
            }
        }
        if info.pg_op {
            return Ok(());
        }
        check_names(m, info.may_write, op.bytes_in, &cx.sh.limits).map_err(Halt::Reply)?;
        if cx.sh.map.is_blocklisted(&session.peer.addr) {
            return Err(Halt::Reply(EBLOCKLISTED));
        }
        let bypass = m.flags & (osd_flag::FULL_TRY | osd_flag::FULL_FORCE) != 0;
        if info.write_ordered() && !bypass && self.info.history.last_epoch_marked_full > m.map_epoch {
            return Err(Halt::Drop);
        }
        if self.pool.has(pool_flags::EIO) {
            return Err(if m.has(osd_flag::SUPPORTSPOOLEIO) { Halt::Drop } else { Halt::Reply(EIO) });
        }
        Ok(())
    }

    /// Executes a request on an object, or puts it behind what the object's order demands.
    fn run(&mut self, mut op: Box<ClientOp>, cx: &mut Cx<'_>) {
        cx.sh.crumb.op(self.pgid.pgid.pool, self.pgid.pgid.seed, op.reqid.name.num, op.reqid.tid, op.msg.hobj.oid.as_ref());
        let info = op.info.as_ref().expect("admission looks it up");
        let writes = info.may_write || info.may_cache;
        let head = match op.msg.hobj.snap {
            CEPH_NOSNAP => None,
            _ => Some(op.msg.hobj.head()),
        };
        let head_name = head.as_ref().unwrap_or(&op.msg.hobj);
        if self.objects.peek(head_name).is_none() {
            if self.objects.is_loading(head_name) {
                let head_name = head_name.clone();
                return self.objects.wait_loading(head_name, op);
            }
            match load_object(&*cx.sh.store, self.coll, head_name) {
                // Nothing of it is under way, and nobody waits for it. What a write makes of it is kept.
                Ok(ctx) if ctx.info.watchers.is_empty() && writes && !self.objects.is_passing(head_name) => {
                    return self.execute(op, true, Some(ctx.detached()), cx);
                }
                Ok(ctx) if ctx.info.watchers.is_empty() && !writes && !self.objects.comes_again(head_name) => {
                    return self.execute(op, true, Some(ctx), cx);
                }
                Ok(ctx) => self.keep(ctx, cx),
                Err(PlanStop::Wait(ticket)) => {
                    op.waits_for = "waiting for the store";
                    let head_name = head_name.clone();
                    self.waiting_store.push((ticket, StoreWaiter::Record(head_name.clone())));
                    return self.objects.wait_loading(head_name, op);
                }
                Err(stop) => return self.stopped(op, stop, cx),
            }
        }
        let head_name = head.as_ref().unwrap_or(&op.msg.hobj);
        let passing = self.objects.is_passing(head_name);
        let slot = self.objects.get(head_name).expect("loaded above");
        let may_pass = op.msg.has(osd_flag::SKIPRWLOCKS);
        let for_a_copy = op.reqid.name.kind == EntityKind::OSD && !writes && slot.is_fetching() && slot.inflight == 0;
        let free = slot.waiters.is_empty() && slot.is_over_for(writes, passing);
        if !free && !for_a_copy && !may_pass {
            op.waits_for = "waiting for rw locks";
            slot.waiters.push_back(op);
            return;
        }
        self.execute(op, free, None, cx);
    }

    /// An object that was loaded is at hand from now on.
    pub(super) fn keep(&mut self, ctx: ObjectContext, cx: &Cx<'_>) {
        let ctx = Box::new(ctx.detached());
        self.restore_watches(&ctx, cx);
        self.objects.put(ctx);
    }

    /// Plans a request and does what comes of it. `in_turn`: it is the first in its object's order and keeps that place if it must wait.
    /// `passing`: the head, if it is not at hand and need not be for a request that goes on at once.
    fn execute(&mut self, op: Box<ClientOp>, in_turn: bool, passing: Option<ObjectContext>, cx: &mut Cx<'_>) {
        let info = op.info.as_ref().expect("admission looks it up");
        let writes = info.may_write || info.may_cache;
        let removed_client_snaps;
        let snapc: &SnapContext = if !writes {
            &NO_SNAPS
        } else if self.pool.is_pool_snaps_mode() && !op.msg.has(osd_flag::ENFORCE_SNAPC) {
            &self.pool_snapc
        } else if op.msg.snapc.snaps.is_empty() {
            &op.msg.snapc
        } else {
            let gone = |s: &u64| self.snap_trimq.contains_point(*s) || self.info.purged_snaps.contains_point(*s);
            let snaps = op.msg.snapc.snaps.iter().copied().filter(|s| !gone(s)).collect();
            removed_client_snaps = SnapContext { seq: op.msg.snapc.seq, snaps };
            &removed_client_snaps
        };
        let at_version = self.next_version();
        let (session, sh) = match cx.sh.sessions.get(&op.conn) {
            Some(s) => (s, &*cx.sh),
            None => return,
        };
        let queue = sh.map.removed_snaps_queue.get(&self.pgid.pgid.pool);
        let watches = &self.watches;
        let (hobj, entity) = (&op.msg.hobj, session.peer.name);
        let entropy = sh.rng.clone().u64();
        let plan_cx = PlanCtx {
            pgid: self.pgid,
            pool: &self.pool,
            limits: &sh.limits,
            classes: sh.classes,
            reqid: op.reqid,
            mtime: op.msg.mtime,
            now: UTime::from_wall_ns(cx.clock.wall_ns),
            at_version,
            last_update: self.info.last_update,
            last_user_version: self.info.last_user_version,
            snapc,
            snap_removed: &|snap| queue.is_some_and(|q| q.contains_point(snap)),
            peer_addr: &session.peer.addr,
            peer_features: session.peer.features,
            peer_supported: session.peer.supported,
            osd_features: sh.osd_features,
            watch_connected: &|cookie| watches.is_connected(hobj, WatchKey { cookie, entity }),
            next_notify_id: (sh.map.epoch as u64) << 32 | sh.notify_ids as u64,
            fetched: op.fetches.as_ref().map_or(&[], |f| &f.got),
            entropy,
            min_compat_client: sh.map.require_min_compat_client.0,
            required_osd_release: sh.map.require_osd_release.0,
        };
        let head_ctx = match &passing {
            Some(ctx) => ctx,
            None => &self.objects.peek(&head_name(hobj)).expect("loaded before it is executed").ctx,
        };
        let plan = op::plan(&plan_cx, &*sh.store, self.coll, head_ctx, info, &op.msg);
        cx.sh.rng.u64();
        let mut passing = passing;
        let must_stay = |stop: &PlanStop| matches!(stop, PlanStop::Fetch(_)) || writes && matches!(stop, PlanStop::Wait(_));
        if plan.as_ref().map_or_else(must_stay, |plan| !plan.effects.is_empty())
            && let Some(ctx) = passing.take()
        {
            self.keep(ctx, cx);
        }
        match plan {
            Ok(plan) => self.take_plan(op, plan, cx),
            Err(PlanStop::Wait(ticket)) if in_turn => {
                let mut op = op;
                op.waits_for = "waiting for the store";
                let waiter = match passing {
                    _ if writes => {
                        let head = op.msg.hobj.head();
                        self.objects.stall(&head, op);
                        StoreWaiter::First(head)
                    }
                    Some(ctx) => {
                        self.objects.pass(ctx.hobj());
                        StoreWaiter::Passing(op, Box::new(ctx))
                    }
                    None => {
                        self.object_slot(&op).expect("loaded before it is executed").reading += 1;
                        StoreWaiter::Read(op)
                    }
                };
                self.waiting_store.push((ticket, waiter));
            }
            Err(PlanStop::Read(ticket, awaited)) if in_turn => {
                let mut op = op;
                op.waits_for = "waiting for the store";
                match &passing {
                    Some(ctx) => self.objects.pass(ctx.hobj()),
                    None => self.object_slot(&op).expect("loaded before it is executed").reading += 1,
                }
                self.waiting_store.push((ticket, StoreWaiter::Answer(op, awaited, passing.is_some())));
            }
            Err(stop) => self.stopped(op, stop, cx),
        }
    }

    /// The store has fetched what it was asked for by these tickets (ascending): who waits for one of them is tried again, each object's requests
    /// in their order. Who waits for another is not: with hundreds of reads under way, each would be tried hundreds of times.
    pub fn store_ready(&mut self, tickets: &[u64], cx: &mut Cx<'_>) {
        self.store_waits = false;
        if !self.waiting_store.is_empty() {
            let is_ready = |(ticket, _): &(u64, StoreWaiter)| *ticket == ANY_TICKET || tickets.binary_search(ticket).is_ok();
            let (ready, others) = std::mem::take(&mut self.waiting_store).into_iter().partition(is_ready);
            self.waiting_store = others;
            self.go_on_with(ready, cx);
        }
        cx.sh.turns_wanted |= self.wants_turns();
    }
    fn go_on_with(&mut self, ready: Vec<(u64, StoreWaiter)>, cx: &mut Cx<'_>) {
        for (ticket, waiter) in ready {
            match waiter {
                StoreWaiter::Record(head) => {
                    for op in self.objects.take_loading(&head).unwrap_or_default() {
                        // A resend may have been answered while this one waited.
                        let writes = op.info.as_ref().is_some_and(|i| i.may_write || i.may_cache);
                        if writes && self.log.find(&op.reqid).is_some() { self.client_op(op, cx) } else { self.run(op, cx) }
                    }
                }
                StoreWaiter::First(head) => {
                    self.objects.unstall(&head);
                    self.wake(&head, cx);
                }
                StoreWaiter::Answer(op, awaited, passing) => self.bytes_came(op, awaited, passing, ticket, cx),
                StoreWaiter::Read(op) => self.read_on(op, cx),
                StoreWaiter::Passing(op, ctx) => self.pass_on(op, *ctx, cx),
                StoreWaiter::Request(op) => self.client_op(op, cx),
            }
        }
    }
    /// The object's place among those at hand.
    fn object_slot(&mut self, op: &ClientOp) -> Option<&mut super::objects::Slot> {
        self.objects.get(&head_name(&op.msg.hobj))
    }
    /// A plain read whose bytes have come is answered. Nothing of the object was written since: writes wait for it.
    fn bytes_came(&mut self, op: Box<ClientOp>, awaited: Awaited, passing: bool, ticket: u64, cx: &mut Cx<'_>) {
        let bytes = match cx.sh.store.take_read(ticket) {
            Some(bytes) => Ok(bytes),
            None => {
                let name = GHObject::plain(op.msg.hobj.at_snap(awaited.snap));
                cx.sh.store.read(self.coll, &name, awaited.offset, awaited.length)
            }
        };
        if let Err(StoreError::Wait(ticket)) = bytes {
            return self.waiting_store.push((ticket, StoreWaiter::Answer(op, awaited, passing)));
        }
        let behind = self.read_is_over(&op.msg.hobj, passing);
        match bytes {
            Ok(bytes) => {
                let plan = op::answer_read(self.pgid, &op.msg, &awaited, bytes);
                self.take_plan(op, plan, cx);
            }
            Err(StoreError::NoObject(_)) => self.reply_error(&op, ENOENT, cx),
            Err(error) => self.stopped(op, error.into(), cx),
        }
        for head in behind {
            self.wake(&head, cx);
        }
    }
    /// A read no longer waits for the store. Those whose requests may have waited for it, to be woken after its answer.
    fn read_is_over(&mut self, obj: &HObject, passing: bool) -> SmallVec<[HObject; 1]> {
        let head = head_name(obj);
        if passing {
            self.objects.passed(&head);
            return self.objects.namesakes(&head);
        }
        let slot = self.objects.get(&head).expect("an object that is read stays at hand");
        slot.reading -= 1;
        if slot.reading == 0 && !slot.waiters.is_empty() { smallvec![head.into_owned()] } else { SmallVec::new() }
    }
    /// A read of something else is planned again.
    fn read_on(&mut self, op: Box<ClientOp>, cx: &mut Cx<'_>) {
        let behind = self.read_is_over(&op.msg.hobj, false);
        self.execute(op, true, None, cx);
        for head in behind {
            self.wake(&head, cx);
        }
    }
    /// The same for one whose object is not at hand, or was not when it began to wait.
    fn pass_on(&mut self, op: Box<ClientOp>, ctx: ObjectContext, cx: &mut Cx<'_>) {
        let behind = self.read_is_over(ctx.hobj(), true);
        let is_at_hand = self.objects.peek(ctx.hobj()).is_some();
        self.execute(op, true, (!is_at_hand).then_some(ctx), cx);
        for head in behind {
            self.wake(&head, cx);
        }
    }

    fn stopped(&mut self, mut op: Box<ClientOp>, stop: PlanStop, cx: &mut Cx<'_>) {
        match stop {
            PlanStop::Wait(ticket) | PlanStop::Read(ticket, _) => {
                op.waits_for = "waiting for the store";
                self.waiting_store.push((ticket, StoreWaiter::Request(op)));
            }
            PlanStop::Reply(errno) => self.reply_error(&op, errno, cx),
            PlanStop::Fetch(wanted) => self.fetch(op, *wanted, cx),
            PlanStop::Ended(why) => cx.out.push(Effect::Stop { why: Some(why) }),
            PlanStop::Store(why) => {
                cx.sh.damaged += 1;
                cx.sh.report_soon = true;
                cx.out.push(Effect::ClusterLog { level: Level::Error, text: format!("{}: {}: {why}", self.pgid, op.msg.hobj) });
                self.reply_error(&op, EIO, cx);
            }
        }
    }

    /// A request that needs other objects waits for it, and what comes behind waits too.
    fn fetch(&mut self, mut op: Box<ClientOp>, wanted: Wanted, cx: &mut Cx<'_>) {
        op.waits_for = "waiting for other objects";
        op.fetches.get_or_insert_default().waiting = true;
        let obj = op.msg.hobj.head();
        cx.sh.fetches.push(Fetch { pgid: self.pgid, obj: obj.clone(), reqid: op.reqid, wanted });
        self.objects.get(&obj).expect("loaded before it was planned").waiters.push_front(op);
    }
    /// Whether that request still waits for other objects.
    pub(crate) fn wants_fetched(&self, obj: &HObject, reqid: ReqId) -> bool {
        self.objects.peek(obj).is_some_and(|slot| slot.is_fetching() && slot.waiters[0].reqid == reqid)
    }
    /// What was wanted of other objects has come, or can't be had.
    pub(crate) fn fetched(&mut self, obj: &HObject, reqid: ReqId, result: Result<(Wanted, Got), i32>, cx: &mut Cx<'_>) {
        if !self.wants_fetched(obj, reqid) {
            return;
        }
        let mut op = self.objects.get(obj).and_then(|slot| slot.waiters.pop_front()).expect("it waits there");
        match result {
            Ok(got) => {
                let fetches = op.fetches.get_or_insert_default();
                fetches.waiting = false;
                fetches.got.push(got);
                self.execute(op, true, None, cx);
            }
            Err(errno) => self.reply_error(&op, errno, cx),
        }
        self.wake(obj, cx);
    }

    /// A listing: reads the group's objects as they are now.
    fn run_pg_op(&mut self, op: Box<ClientOp>, cx: &mut Cx<'_>) {
        match op::plan_pg(&*cx.sh.store, self.coll, self.pgid, &self.pool, &cx.sh.limits, &op.msg) {
            Ok(mut plan) => {
                let reply = plan_reply(&op.msg, &mut plan, cx.sh.map.epoch, true);
                self.count(&op, 0, reply.data_len() as u64, cx);
                cx.send(op.conn, reply);
            }
            Err(stop) => self.stopped(op, stop, cx),
        }
    }

    /// A pool that is full takes nothing that makes it grow. Whoever doesn't want to hear of it is not answered: the map will say so, and the
    /// client sends its request again when there is room.
    fn full(&self, op: &ClientOp, plan: &Plan, cx: &mut Cx<'_>) -> Option<Halt> {
        if plan.kind != PlanKind::Write {
            return None;
        }
        let no_room = !cx.sh.has_room(plan.txn.data_len());
        let full = no_room || self.pool.has(pool_flags::FULL) || cx.sh.map.has_flag(maps::map_flags::FULL);
        let grows = plan.stats.num_bytes > 0 || plan.stats.num_objects > 0 || no_room;
        if !full || !grows || (op.msg.has(osd_flag::FULL_FORCE) && !no_room) {
            return None;
        }
        if no_room {
            cx.sh.fullness.refused();
        }
        Some(if op.msg.flags & (osd_flag::FULL_TRY | osd_flag::FULL_FORCE) == 0 {
            Halt::Drop
        } else if self.pool.has(pool_flags::FULL_QUOTA) {
            Halt::Reply(EDQUOT)
        } else {
            Halt::Reply(ENOSPC)
        })
    }
    /// The store did not take a request's change.
    fn refused(&self, refused: Refused, cx: &mut Cx<'_>) {
        cx.sh.fullness.refused();
        let Some((op, _)) = &refused.0.request else { return };
        if op.msg.flags & (osd_flag::FULL_TRY | osd_flag::FULL_FORCE) != 0 {
            self.reply_error(op, ENOSPC, cx);
        }
    }

    fn take_plan(&mut self, op: Box<ClientOp>, mut plan: Plan, cx: &mut Cx<'_>) {
        match self.full(&op, &plan, cx) {
            None => {}
            Some(Halt::Drop) => return,
            Some(Halt::Reply(errno)) => return self.reply_error(&op, errno, cx),
        }
        let notifies = plan.effects.iter().filter(|e| matches!(e, WatchEffect::Notify { .. })).count();
        cx.sh.notify_ids = cx.sh.notify_ids.wrapping_add(notifies as u32);
        let epoch = cx.sh.map.epoch;
        match plan.kind {
            PlanKind::Read => {
                self.info.stats.stats.sum += &plan.stats;
                self.apply_effects(&op.msg.hobj, Some(op.conn), std::mem::take(&mut plan.effects), cx);
                let reply = plan_reply(&op.msg, &mut plan, epoch, true);
                self.count(&op, 0, reply.data_len() as u64, cx);
                cx.send(op.conn, reply);
            }
            PlanKind::LogOnly => {
                self.apply_effects(&op.msg.hobj, Some(op.conn), std::mem::take(&mut plan.effects), cx);
                let reply = plan_reply(&op.msg, &mut plan, epoch, true);
                let inflight = self.inflight_of(op, &plan.log, reply);
                if let Err(refused) = self.submit(Transaction::default(), plan.log, inflight, cx) {
                    self.refused(refused, cx);
                }
            }
            PlanKind::Write => {
                let reply = plan_reply(&op.msg, &mut plan, epoch, true);
                let mut inflight = self.inflight_of(op, &plan.log, reply);
                inflight.effects = std::mem::take(&mut plan.effects);
                if let Err(refused) = self.submit_plan(plan, inflight, cx) {
                    self.refused(refused, cx);
                }
            }
        }
    }

    fn inflight_of(&self, op: Box<ClientOp>, log: &[PgLogEntry], reply: messages::RawMessage) -> InFlight {
        InFlight {
            version: log.last().map_or(EVersion::ZERO, |e| e.version),
            waiting: self.members(),
            obj: None,
            bytes_out: reply.data_len() as u64,
            effects: Vec::new(),
            dups: Vec::new(),
            received: op.received,
            reqid: op.reqid,
            request: Some((op, reply)),
        }
    }

    /// Submits a change: its contexts are what readers see from now on, once it is durable.
    pub(super) fn submit_plan(&mut self, mut plan: Plan, mut inflight: InFlight, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.info.stats.stats.sum += &plan.stats;
        if !plan.snap_index.is_empty() {
            plan.txn.append(super::snaps::note(&plan.snap_index));
        }
        // Readers of clones wait for their head too; clones' records are not kept.
        let head = plan.changed.into_iter().find(|ctx| ctx.hobj().is_head()).expect("a change is one of a head");
        inflight.obj = Some(head.hobj().clone());
        if let Err(refused) = self.submit(plan.txn, plan.log, inflight, cx) {
            self.info.stats.stats.sum -= &plan.stats;
            return Err(refused);
        }
        if let Some(scrub) = &mut self.scrub {
            scrub.changed(head.hobj(), &plan.stats);
        }
        self.objects.put(head).inflight += 1;
        Ok(())
    }

    /// Appends entries to the log and gives them to the store with their transaction. What a store without room refuses has not happened.
    pub(super) fn submit(
        &mut self,
        mut txn: Transaction,
        entries: Vec<PgLogEntry>,
        inflight: InFlight,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        assert!(!entries.is_empty(), "a change has an entry");
        txn.set_home(self.coll);
        let (mark, i) = (self.log.mark(), &self.info);
        let before = (i.last_update, i.last_complete, i.last_user_version, i.log_tail);
        for e in &entries {
            self.log.push(e);
            self.info.last_user_version = self.info.last_user_version.max(e.user_version);
        }
        self.info.last_update = self.log.head();
        self.note_complete();
        let target = cx.sh.log_target();
        let bounds = cx.sh.log_bounds;
        let trim = self.log.trim_to(target, bounds.trim_min, bounds.trim_max, self.info.last_complete);
        let mut delta = LogDelta { entries, trim_to: trim, ..LogDelta::new(self.pgid) };
        if let Some(to) = trim {
            (delta.dups, delta.trim_dups_to) = self.log.trim(to, bounds.dups);
            self.info.log_tail = self.log.tail();
        }
        delta.info = InfoChange::Fast(FastInfo::of(&self.info));
        if !self.to_store(txn, Some(delta), Submitted::Write(inflight.version), cx) {
            self.log.rewind(mark);
            let i = &mut self.info;
            (i.last_update, i.last_complete, i.last_user_version, i.log_tail) = before;
            return Err(Refused(Box::new(inflight)));
        }
        self.inflight.submitted(inflight);
        Ok(())
    }

    /// Every member has a write: watches take effect, the answer goes out, readers of the object go on.
    pub(super) fn finish(&mut self, done: InFlight, cx: &mut Cx<'_>) {
        let conn = done.request.as_ref().map(|(op, _)| op.conn);
        if let Some((op, reply)) = done.request {
            self.count_write(&op, done.obj.as_ref(), done.bytes_out, cx);
            cx.send(op.conn, reply);
        }
        if !done.effects.is_empty() {
            let obj = done.obj.clone().unwrap_or_default();
            self.apply_effects(&obj, conn, done.effects, cx);
        }
        for (op, reply) in done.dups {
            cx.send(op.conn, reply);
        }
        if let Some(obj) = done.obj {
            self.write_done(&obj, cx);
        }
    }

    /// A write whose interval ended before it was answered, and which the log still has: all members have it since the group is active again.
    #[cold]
    fn answer_requeued(&mut self, mut op: Box<ClientOp>, cx: &mut Cx<'_>) {
        let held = *op.unanswered.take().expect("asked for by the caller");
        self.count_write(&op, held.obj.as_ref(), held.bytes_out, cx);
        cx.send(op.conn, held.reply);
        if !held.effects.is_empty() {
            let obj = held.obj.unwrap_or_default();
            self.apply_effects(&obj, Some(op.conn), held.effects, cx);
        }
    }

    fn count_write(&mut self, op: &ClientOp, obj: Option<&HObject>, bytes_out: u64, cx: &mut Cx<'_>) {
        let reads = op.info.as_ref().is_some_and(|i| i.may_read);
        let name = || obj.cloned().unwrap_or_default();
        cx.sh.perf.inc(C::op);
        cx.sh.perf.add(C::op_in_bytes, op.bytes_in);
        cx.sh.perf.add(C::op_out_bytes, bytes_out);
        let ns = cx.clock.mono.0.saturating_sub(op.received.0);
        if cx.sh.history.wants(ns) {
            self.remember(op.reqid, name(), op.received, ns, true, cx);
        }
        if !cx.sh.perf_queries.is_empty() {
            self.count_by_query(&op.reqid, op.conn, &name(), (reads, true), (op.bytes_in, bytes_out), ns, cx);
        }
        cx.sh.perf.time(C::op_latency, ns);
        cx.sh.perf.time(C::op_process_latency, ns);
        if reads {
            cx.sh.perf.inc(C::op_rw);
            cx.sh.perf.add(C::op_rw_in_bytes, op.bytes_in);
            cx.sh.perf.add(C::op_rw_out_bytes, bytes_out);
            cx.sh.perf.time(C::op_rw_latency, ns);
            cx.sh.perf.time(C::op_rw_process_latency, ns);
        } else {
            cx.sh.perf.inc(C::op_w);
            cx.sh.perf.add(C::op_w_in_bytes, op.bytes_in);
            cx.sh.perf.time(C::op_w_latency, ns);
            cx.sh.perf.time(C::op_w_process_latency, ns);
        }
    }

    fn write_done(&mut self, obj: &HObject, cx: &mut Cx<'_>) {
        let Some(slot) = self.objects.get(obj) else { return };
        slot.inflight = slot.inflight.saturating_sub(1);
        self.wake(obj, cx);
    }

    /// Lets go on what waits for an object, as far as its order allows.
    fn wake(&mut self, obj: &HObject, cx: &mut Cx<'_>) {
        loop {
            let passing = self.objects.is_passing(obj);
            let Some(slot) = self.objects.get(obj) else { return };
            let writes = match slot.waiters.front().map(|op| op.info.as_ref()) {
                Some(info) => info.is_some_and(|i| i.may_write || i.may_cache),
                None => return,
            };
            if !slot.is_over_for(writes, passing) || slot.is_held() {
                return;
            }
            let op = slot.waiters.pop_front().expect("looked at above");
            // A resend may have been answered while this one waited.
            if writes && self.log.find(&op.reqid).is_some() { self.client_op(op, cx) } else { self.execute(op, true, None, cx) }
        }
    }

    /// One of the slowest requests of late.
    #[cold]
    fn remember(&self, reqid: ReqId, obj: HObject, received: Stamp, took_ns: u64, writes: bool, cx: &mut Cx<'_>) {
        let took = std::time::Duration::from_nanos(took_ns);
        cx.sh.history.put(Done { reqid, pgid: self.pgid, obj: obj.detach(), received, took, writes });
    }
    fn count(&self, op: &ClientOp, bytes_in: u64, bytes_out: u64, cx: &mut Cx<'_>) {
        let ns = cx.clock.mono.0.saturating_sub(op.received.0);
        if cx.sh.history.wants(ns) {
            self.remember(op.reqid, op.msg.hobj.clone(), op.received, ns, false, cx);
        }
        if !cx.sh.perf_queries.is_empty() {
            self.count_by_query(&op.reqid, op.conn, &op.msg.hobj, (true, false), (bytes_in, bytes_out), ns, cx);
        }
        let perf = &mut cx.sh.perf;
        perf.inc(C::op);
        perf.add(C::op_in_bytes, bytes_in);
        perf.add(C::op_out_bytes, bytes_out);
        perf.time(C::op_latency, ns);
        perf.time(C::op_process_latency, ns);
        perf.inc(C::op_r);
        perf.add(C::op_r_out_bytes, bytes_out);
        perf.time(C::op_r_latency, ns);
        perf.time(C::op_r_process_latency, ns);
    }

    #[cold]
    #[allow(clippy::too_many_arguments)]
    fn count_by_query(
        &self,
        reqid: &ReqId,
        conn: ConnId,
        hobj: &HObject,
        (reads, writes): (bool, bool),
        (bytes_in, bytes_out): (u64, u64),
        took_ns: u64,
        cx: &mut Cx<'_>,
    ) {
        let client = cx.sh.sessions.get(&conn).map(|s| s.peer.addr);
        let pgid = self.pgid.pgid;
        let seen = crate::perf_queries::Seen { reqid, client, pgid, hobj, reads, writes, bytes_in, bytes_out, took_ns };
        cx.sh.perf_queries.count(cx.sh.whoami, &seen);
    }

    pub(super) fn reply_error(&self, op: &ClientOp, errno: i32, cx: &mut Cx<'_>) {
        let reply = error_reply(&op.msg, -errno, cx.sh.map.epoch, EVersion::ZERO, 0, None);
        cx.send(op.conn, reply);
    }

    pub(super) fn restore_watches(&mut self, ctx: &ObjectContext, cx: &Cx<'_>) {
        for ((cookie, entity), w) in &ctx.info.watchers {
            let key = WatchKey { cookie: *cookie, entity: *entity };
            self.watches.restore(ctx.hobj(), key, w.addr, w.timeout_s, cx.clock.mono);
        }
    }

    /// What a request does to watches and notifies.
    fn apply_effects(&mut self, obj: &HObject, conn: Option<ConnId>, effects: Vec<WatchEffect>, cx: &mut Cx<'_>) {
        if effects.is_empty() {
            return;
        }
        let now = cx.clock.mono;
        let peer = conn.and_then(|c| cx.sh.sessions.get(&c)).map(|s| (s.peer.name, s.peer.addr, s.peer.global_id));
        let mut out = Vec::new();
        for effect in effects {
            match (effect, conn, peer) {
                (WatchEffect::Disconnect { cookie, entity, send }, ..) => {
                    self.watches.remove(obj, WatchKey { cookie, entity }, send, &mut out)
                }
                (WatchEffect::Connect { info, will_ping }, Some(conn), Some((entity, addr, _))) => {
                    let key = WatchKey { cookie: info.cookie, entity };
                    self.watches.connect(obj, key, addr, info.timeout_s, conn, will_ping, now, &mut out);
                }
                // The client went before its watch was durable: it has its timeout to come back.
                (WatchEffect::Connect { .. }, ..) => {
                    if let Some(slot) = self.objects.peek(obj) {
                        let ctx = slot.ctx.clone();
                        self.restore_watches(&ctx, cx);
                    }
                }
                (WatchEffect::Ping { cookie }, _, Some((entity, ..))) => self.watches.ping(obj, WatchKey { cookie, entity }, now),
                (WatchEffect::Notify { id, cookie, timeout_s, payload }, Some(conn), Some((_, _, gid))) => {
                    let version = self.objects.peek(obj).map_or(0, |s| s.ctx.info.user_version);
                    self.watches.notify(obj, id, conn, gid, cookie, version, timeout_s, payload, now, &mut out);
                }
                (WatchEffect::NotifyAck { id, cookie, payload }, _, Some((entity, ..))) => {
                    self.watches.ack(obj, entity, id, cookie, &payload, &mut out)
                }
                _ => {}
            }
        }
        send_watch_outs(out, cx);
    }
}

/// The head of an object, which most names are.
fn head_name(obj: &HObject) -> Cow<'_, HObject> {
    if obj.snap == CEPH_NOSNAP { Cow::Borrowed(obj) } else { Cow::Owned(obj.head()) }
}

/// What is wrong with a request whatever its object is like; the errno to answer with.
/// Operations of one request: its log entry has a result for each, and some look at what those before them did. Source: ours; stock has
/// no limit, and a kernel client sends 16 at most.
const OPS_MAX: usize = 8192;
/// Snapshots of one request's context. Source: ours; stock has no limit.
const SNAPS_MAX: usize = 1 << 16;

fn check_names(m: &MOSDOp, may_write: bool, bytes: u64, limits: &Limits) -> Result<(), i32> {
    let hobj = &m.hobj;
    if hobj.oid.len() > limits.object_name_max || hobj.key.len() > limits.object_name_max || hobj.nspace.len() > limits.namespace_max {
        return Err(ENAMETOOLONG);
    }
    if hobj.oid.is_empty() || (may_write && hobj.snap != CEPH_NOSNAP) {
        return Err(EINVAL);
    }
    if may_write && bytes > limits.write_size_max {
        return Err(EMSGSIZE);
    }
    // LIST_SNAPS goes with the snapdir, and nothing else does.
    let snapdir = hobj.snap == CEPH_SNAPDIR;
    if m.ops.iter().any(|op| (op.op.code == OpCode::LIST_SNAPS) != snapdir) { Err(EINVAL) } else { Ok(()) }
}

static NO_SNAPS: SnapContext = SnapContext { seq: 0, snaps: Vec::new() };

/// Sends what watches and notifies have to say.
pub(super) fn send_watch_outs(outs: Vec<WatchOut>, cx: &mut Cx<'_>) {
    for out in outs {
        let (conn, msg) = match out {
            WatchOut::Notify { conn, cookie, version, id, payload, notifier_gid } => (
                conn,
                MWatchNotify {
                    cookie,
                    ver: version,
                    notify_id: id,
                    event: watch_event::NOTIFY,
                    payload,
                    return_code: 0,
                    notifier_gid,
                    ..MWatchNotify::default()
                },
            ),
            WatchOut::Disconnect { conn, cookie } => {
                (conn, MWatchNotify { cookie, event: watch_event::DISCONNECT, ..MWatchNotify::default() })
            }
            WatchOut::Complete { conn, cookie, version, id, notifier_gid, replies, missed, timed_out } => {
                let mut e = Encoder::new(0);
                e.count(replies.len());
                for (gid, watcher, payload) in &replies {
                    e.u64(*gid);
                    e.u64(*watcher);
                    e.blob(payload);
                }
                missed.encode(&mut e);
                let return_code = if timed_out { -ETIMEDOUT } else { 0 };
                let event = watch_event::NOTIFY_COMPLETE;
                let data = vec![e.finish()];
                let msg = MWatchNotify { cookie, ver: version, notify_id: id, event, return_code, notifier_gid, ..MWatchNotify::default() };
                let mut raw = msg.encode(0);
                raw.data = data;
                cx.send(conn, raw);
                continue;
            }
        };
        cx.send(conn, msg.encode(0));
    }
}

/// How many low bits of a hash the objects of a group have in common.
pub fn split_bits(seed: u32, pg_num: u32) -> u32 {
    if pg_num <= 1 {
        return 0;
    }
    let p = 32 - pg_num.leading_zeros();
    let half = 1_u32 << (p - 1);
    if seed % half < pg_num % half { p } else { p - 1 }
}

/// The first object of a group, and the first behind it.
pub fn pg_range(pgid: SpgId, pool: &PgPool) -> (HObject, HObject) {
    let begin = HObject::pgmeta(pgid.pgid);
    let bits = split_bits(pgid.pgid.seed, pool.pg_num);
    let first = pgid.pgid.seed.reverse_bits() as u64;
    let behind = (first | (0xffff_ffff_u64 >> bits)) + 1;
    if behind > u32::MAX as u64 {
        return (begin, HObject::max());
    }
    let end = HObject { hash: (behind as u32).reverse_bits(), pool: pgid.pgid.pool, snap: CEPH_NOSNAP, ..HObject::min() };
    (begin, end)
}
