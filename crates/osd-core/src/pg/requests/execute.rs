//! A request that was admitted: its turn in its object's order, its object's context, its plan, and what it waits for.
//!
//! Which request may go on is [`super::order`]'s to say; what it does to the object, [`crate::op`]'s.

use super::account;
use super::admit::may_fetch;
use super::objects::head_name;
use super::order::{Entry, Hold, Turn};
use super::store_waiters::StoreWaiter;
use super::watch::WatchKey;
use crate::event::{Effect, Level};
use crate::fetch::Fetch;
use crate::op::fetch::{Got, Lack, Wanted};
use crate::op::{self, NEXT_TURN, ObjectContext, Plan, PlanCtx, PlanStop, load_object};
use crate::pg::group::Group;
use crate::pg::requests::Requests;
use crate::pg::work::Jobs;
use crate::request::{ClientOp, error_reply, plan_reply};
use crate::session::Session;
use crate::shared::{Cx, Shared};
use crate::work::Work;
use base::Clock;
use types::errno::{EIO, EPERM};
use types::osd_op::osd_flag;
use types::{Bytes, EVersion, EntityAddr, HObject, OpReturn, ReqId, SnapContext, UTime};

/// Says what a request waits for, and asks for the turn if it is that.
fn note_wait(op: &mut ClientOp, ticket: u64, cx: &mut Cx<'_>) {
    op.waits_for = if ticket == NEXT_TURN { "waiting for its next turn" } else { "waiting for the store" };
    if ticket == NEXT_TURN {
        cx.sh.turns.want(Work::Busy);
    }
}

static NO_SNAPS: SnapContext = SnapContext { seq: 0, snaps: Vec::new() };

impl Requests {
    /// A request comes in to its object.
    pub(in crate::pg) fn enter(&mut self, mut op: Box<ClientOp>, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        cx.sh.crumb.op(group.pgid.pgid.pool, group.pgid.pgid.seed, op.reqid.name.num, op.reqid.tid, op.msg.hobj.oid.as_ref());
        op.waits_for = "waiting for rw locks";
        match self.objects.enter(op) {
            (Entry::Go(op, turn), true) => self.execute(op, turn, None, work, group, cx),
            (Entry::Go(op, turn), false) => self.load(op, turn, work, group, cx),
            (Entry::Wait, _) => {}
        }
    }
    /// Requests that wait in an object's queue go on, as far as its order lets them.
    pub(in crate::pg) fn wake(&mut self, head: &HObject, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        while let Some((op, turn)) = self.objects.next(head) {
            // A resend may have been answered while this one waited, and the map may shut its client out by now.
            let is_barred = cx.sh.sessions.get(&op.conn).is_some_and(|session| session.is_blocklisted(&cx.sh.map));
            if is_barred || op.may_mutate() && group.record.is_known(&op.reqid) {
                self.client_op(op, work, group, cx)
            } else {
                self.run(op, turn, work, group, cx)
            }
        }
    }

    /// Executes a request whose turn it is.
    fn run(&mut self, op: Box<ClientOp>, turn: Turn, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        let is_at_hand = self.objects.context(&head_name(&op.msg.hobj)).is_some();
        if is_at_hand { self.execute(op, turn, None, work, group, cx) } else { self.load(op, turn, work, group, cx) }
    }
    /// The same, with a context that is not at hand.
    fn load(&mut self, mut op: Box<ClientOp>, turn: Turn, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        let loaded = load_object(group.source(cx.sh), &head_name(&op.msg.hobj));
        match loaded {
            // What a write makes of it is kept in any case, and few objects are read again soon.
            Ok(ctx) if ctx.info.watchers.is_empty() && op.may_mutate() => self.execute(op, turn, Some(ctx.detached()), work, group, cx),
            Ok(ctx) if ctx.info.watchers.is_empty() && !self.objects.asked_again(ctx.hobj()) => {
                self.execute(op, turn, Some(ctx), work, group, cx)
            }
            Ok(ctx) => {
                self.keep(ctx, cx);
                self.execute(op, turn, None, work, group, cx);
            }
            Err(PlanStop::Wait(ticket)) if turn == Turn::InOrder => {
                op.waits_for = "waiting for the store";
                self.hold_for_store(Hold::Loading, op, ticket);
            }
            Err(stop) => self.stopped(op, turn, stop, work, group, cx),
        }
    }

    /// An object that was loaded is at hand from now on.
    pub(in crate::pg) fn keep(&mut self, ctx: ObjectContext, cx: &Cx<'_>) {
        let ctx = Box::new(ctx.detached());
        self.restore_watches(&ctx, cx);
        self.objects.put(ctx);
    }

    /// Plans a request and does what comes of it. `loaded`: the head's context, if it is not at hand.
    pub(in crate::pg) fn execute(
        &mut self,
        mut op: Box<ClientOp>,
        turn: Turn,
        mut loaded: Option<ObjectContext>,
        work: &mut Jobs,
        group: &mut Group,
        cx: &mut Cx<'_>,
    ) {
        let Some(session) = cx.sh.sessions.get(&op.conn) else { return };
        let plan = self.plan(&op, session, loaded.as_ref(), work, group, cx.sh, cx.clock);
        cx.sh.rng.u64();
        let writes = op.may_mutate();
        let is_kept = |stop: &PlanStop| matches!(stop, PlanStop::Fetch(_)) || writes && matches!(stop, PlanStop::Wait(_));
        if plan.as_ref().map_or_else(is_kept, |plan| !plan.effects.is_empty())
            && let Some(ctx) = loaded.take()
        {
            self.keep(ctx, cx);
        }
        match plan {
            Ok(plan) => self.take_plan(op, plan, work, group, cx),
            Err(PlanStop::Wait(ticket)) if turn == Turn::InOrder => {
                note_wait(&mut op, ticket, cx);
                if writes {
                    return self.hold_for_store(Hold::Stalled, op, ticket);
                }
                self.objects.read_waits(&op);
                self.store_waiters.push(ticket, StoreWaiter::Read(op, loaded.map(Box::new)));
            }
            Err(PlanStop::Read(ticket, awaited)) if turn == Turn::InOrder => {
                op.waits_for = "waiting for the store";
                self.objects.read_waits(&op);
                self.store_waiters.push(ticket, StoreWaiter::Bytes(op, awaited));
            }
            Err(stop) => self.stopped(op, turn, stop, work, group, cx),
        }
    }

    /// A request holds its object until the store has something.
    fn hold_for_store(&mut self, hold: Hold, op: Box<ClientOp>, ticket: u64) {
        let head = op.msg.hobj.head();
        if self.objects.hold(&head, hold, op) {
            self.store_waiters.push(ticket, StoreWaiter::Object(head));
        }
    }
    pub(in crate::pg) fn plan(
        &self,
        op: &ClientOp,
        session: &Session,
        loaded: Option<&ObjectContext>,
        work: &Jobs,
        group: &Group,
        sh: &Shared,
        clock: Clock,
    ) -> Result<Plan, PlanStop> {
        let (hobj, entity) = (&op.msg.hobj, session.peer.name);
        let removed_client_snaps;
        let snapc: &SnapContext = if !op.may_mutate() {
            &NO_SNAPS
        } else if group.pool.is_pool_snaps_mode() && !op.msg.has(osd_flag::ENFORCE_SNAPC) {
            &group.pool_snapc
        } else if op.msg.snapc.snaps.is_empty() {
            &op.msg.snapc
        } else {
            let gone = |s: &u64| work.trims().queue().contains_point(*s) || group.record.info().purged_snaps.contains_point(*s);
            let snaps = op.msg.snapc.snaps.iter().copied().filter(|s| !gone(s)).collect();
            removed_client_snaps = SnapContext { seq: op.msg.snapc.seq, snaps };
            &removed_client_snaps
        };
        let queue = sh.map.removed_snaps_queue.get(&group.pgid.pgid.pool);
        let cx = PlanCtx {
            mtime: op.msg.mtime,
            snapc,
            snap_removed: &|snap| queue.is_some_and(|q| q.contains_point(snap)),
            peer_features: session.peer.features,
            peer_supported: session.peer.supported,
            watch_connected: &|cookie| self.watches.is_connected(hobj, WatchKey { cookie, entity }),
            next_notify_id: (sh.map.epoch as u64) << 32 | sh.notify_ids as u64,
            notify_budget: sh.bounds.notify_budget.left(session.peer.global_id),
            fetched: op.fetches.as_ref().map_or(&[], |f| &f.got),
            passes: Some(&op.passes),
            entropy: sh.rng.clone().u64(),
            ..group.plan_cx(op.reqid, &session.peer.addr, sh, clock)
        };
        let head = loaded.unwrap_or_else(|| self.objects.context(&head_name(hobj)).expect("loaded before it is executed"));
        op::plan(&cx, group.source(sh), head, op.info.as_ref().expect("admission looks it up"), &op.msg)
    }
}

impl Group {
    /// What the group tells of any operation; of a client, only its address.
    pub(in crate::pg) fn plan_cx<'a>(&'a self, reqid: ReqId, peer_addr: &'a EntityAddr, sh: &'a Shared, clock: Clock) -> PlanCtx<'a> {
        PlanCtx {
            pgid: self.pgid,
            pool: &self.pool,
            limits: &sh.limits,
            classes: sh.classes,
            reqid,
            mtime: UTime::ZERO,
            now: UTime::from_wall_ns(clock.wall_ns),
            at_version: self.record.next_version(self.epoch),
            last_update: self.record.info().last_update,
            last_user_version: self.record.info().last_user_version,
            snapc: &NO_SNAPS,
            snap_removed: &|_| false,
            peer_addr,
            peer_features: u64::MAX,
            peer_supported: u64::MAX,
            osd_features: sh.osd_features,
            watch_connected: &|_| false,
            next_notify_id: 0,
            notify_budget: 0,
            fetched: &[],
            passes: None,
            entropy: 0,
            min_compat_client: sh.map.require_min_compat_client.0,
            required_osd_release: sh.map.require_osd_release.0,
        }
    }
}

impl Requests {
    /// A request that can't go on now, or not at all.
    pub(in crate::pg) fn stopped(
        &mut self,
        mut op: Box<ClientOp>,
        turn: Turn,
        stop: PlanStop,
        work: &mut Jobs,
        group: &mut Group,
        cx: &mut Cx<'_>,
    ) {
        match stop {
            PlanStop::Wait(ticket) | PlanStop::Read(ticket, _) => {
                note_wait(&mut op, ticket, cx);
                self.store_waiters.push(ticket, StoreWaiter::Request(op));
            }
            PlanStop::Reply(errno) => cx.reply_error(&op, errno),
            PlanStop::Fetch(lack) => self.fetch(op, turn, *lack, work, group, cx),
            PlanStop::Ended(why) => cx.out.push(Effect::Stop { why: Some(why) }),
            PlanStop::Store(why) => {
                cx.sh.counters.damaged += 1;
                cx.sh.wishes.report_soon = true;
                cx.out.push(Effect::ClusterLog { level: Level::Error, text: format!("{}: {}: {why}", group.pgid, op.msg.hobj) });
                if let Some(op) = work.scrubbing(self, group, cx).met_damage(op) {
                    cx.reply_error(&op, EIO);
                }
            }
        }
    }

    /// A request that needs other objects holds its own until they are read.
    fn fetch(&mut self, mut op: Box<ClientOp>, turn: Turn, lack: Lack, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        let Lack { wanted, codes } = lack;
        if !may_fetch(&op, &wanted, cx) {
            return cx.reply_error(&op, EPERM);
        }
        op.fetches.get_or_insert_default().codes = codes;
        if turn == Turn::Past {
            return self.enter(op, work, group, cx);
        }
        op.set_aside("waiting for other objects");
        let (obj, reqid) = (op.msg.hobj.head(), op.reqid);
        if self.objects.hold(&obj, Hold::Fetching, op) {
            cx.sh.wishes.fetches.push(Fetch { pgid: group.pgid, obj, reqid, wanted });
        }
    }
    /// Whether that request still waits for other objects.
    pub(crate) fn wants_fetched(&self, obj: &HObject, reqid: ReqId) -> bool {
        self.objects.is_fetching(obj, reqid)
    }
    /// What was wanted of other objects has come, or can't be had.
    pub(crate) fn fetched(
        &mut self,
        obj: &HObject,
        reqid: ReqId,
        result: Result<(Wanted, Got), i32>,
        work: &mut Jobs,
        group: &mut Group,
        cx: &mut Cx<'_>,
    ) {
        if !self.wants_fetched(obj, reqid) {
            return;
        }
        match result {
            Ok(got) => {
                let op = self.objects.fetched(obj).expect("it holds the object");
                op.go_on();
                op.fetches.get_or_insert_default().got.push(got);
            }
            Err(errno) => {
                let op = self.objects.fetch_failed(obj).expect("it holds the object");
                let codes = op.fetches.as_ref().map_or(&[][..], |fetches| &fetches.codes);
                let returns: Vec<OpReturn> = codes.iter().map(|rval| OpReturn { rval: *rval, bl: Bytes::new() }).collect();
                let reply = error_reply(&op.msg, -errno, cx.sh.map.epoch, EVersion::ZERO, 0, Some(&returns));
                cx.send(op.conn, reply);
            }
        }
        self.wake(obj, work, group, cx);
    }

    /// A listing: reads the group's objects as they are now.
    pub(in crate::pg) fn run_pg_op(&mut self, op: Box<ClientOp>, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        let found = |arg: &_| work.scrubs().found(arg, group.record.info().history.same_interval_since);
        match op::plan_pg(group.source(cx.sh), group.pgid, &group.pool, &cx.sh.limits, &op.msg, &found) {
            Ok(mut plan) => {
                let reply = plan_reply(&op.msg, &mut plan, cx.sh.map.epoch, true);
                account::read_answered(group.pgid, &op, reply.data_len() as u64, cx);
                cx.send(op.conn, reply);
            }
            Err(stop) => self.stopped(op, Turn::Past, stop, work, group, cx),
        }
    }
}
