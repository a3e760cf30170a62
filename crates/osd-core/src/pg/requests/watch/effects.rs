//! What requests, time and maps do to a group's watches and notifies, and what clients hear of it.
//!
//! The watches themselves, and which of them are over, are [`super`]'s.

use super::{WatchKey, WatchOut};
use crate::event::ConnId;
use crate::op::{self, ObjectContext, OpInfo, PlanKind, WatchEffect, load_object};
use crate::pg::backend::in_flight::InFlight;
use crate::pg::group::Group;
use crate::pg::requests::Requests;
use crate::pg::work::Jobs;
use crate::planted::{Bug, planted};
use crate::shared::Cx;
use messages::{InOp, MOSDOp};
use types::osd_op::{OpCode, WatchArgs, watch_op};
use types::{HObject, OsdOp, ReqId};

fn send_all(out: Vec<WatchOut>, cx: &mut Cx<'_>) {
    for out in out {
        let (conn, msg) = out.message();
        cx.send(conn, msg);
    }
}

impl Requests {
    /// Watches that stand in the record of an object, and of which nothing is known here.
    pub(in crate::pg) fn restore_watches(&mut self, ctx: &ObjectContext, cx: &Cx<'_>) {
        for ((cookie, entity), w) in ctx.info.watchers.iter().filter(|_| !planted(Bug::ForgetWatchers)) {
            let key = WatchKey { cookie: *cookie, entity: *entity };
            self.watches.restore(ctx.hobj(), key, w.addr, w.timeout_s, cx.clock.mono);
        }
    }

    /// What a request does to watches and notifies.
    pub(in crate::pg) fn apply_effects(&mut self, obj: &HObject, conn: Option<ConnId>, effects: Vec<WatchEffect>, cx: &mut Cx<'_>) {
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
                    if let Some(ctx) = self.objects.context(obj).cloned() {
                        self.restore_watches(&ctx, cx);
                    }
                }
                (WatchEffect::Ping { cookie }, _, Some((entity, ..))) => self.watches.ping(obj, WatchKey { cookie, entity }, now),
                (WatchEffect::Notify { id, cookie, timeout_s, payload }, Some(conn), Some((_, _, gid))) => {
                    let version = self.objects.context(obj).map_or(0, |ctx| ctx.info.user_version);
                    // It outlives the frame that brought it.
                    let payload = types::Bytes::copy_from_slice(&payload);
                    self.watches.notify(obj, id, conn, gid, cookie, version, timeout_s, payload, now, &mut out);
                }
                (WatchEffect::NotifyAck { id, cookie, payload }, _, Some((entity, ..))) => {
                    self.watches.ack(obj, entity, id, cookie, &payload, &mut out)
                }
                _ => {}
            }
        }
        send_all(out, cx);
    }

    /// Watches and notifies whose time is over end.
    pub(in crate::pg) fn tick_watches(&mut self, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        if self.watches.is_empty() {
            return;
        }
        let mut out = Vec::new();
        let over = self.watches.tick(cx.clock.mono, &mut out);
        send_all(out, cx);
        for (obj, key) in over {
            self.end_watch(obj, key, work, group, cx);
        }
    }

    /// A map bars addresses: watches of theirs end.
    pub fn end_blocklisted_watches(&mut self, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        if self.watches.is_empty() {
            return;
        }
        let map = cx.sh.map.clone();
        for (obj, key) in self.watches.with_address(|addr| map.is_blocklisted(addr)) {
            self.end_watch(obj, key, work, group, cx);
        }
    }

    /// Writes a watch out of its object's info, as an UNWATCH of that client would.
    fn end_watch(&mut self, obj: HObject, key: WatchKey, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        // What has to wait is asked again by the next tick.
        if !group.members.peering.is_active() || work.lacks_name(&obj, true, group) {
            return;
        }
        let Some(ctx) = self.objects.context(&obj).cloned() else {
            match load_object(group.source(cx.sh), &obj) {
                Ok(ctx) if ctx.exists => {
                    self.objects.put(Box::new(ctx.detached()));
                    return self.end_watch(obj, key, work, group, cx);
                }
                Ok(_) => self.watches.remove(&obj, key, false, &mut Vec::new()),
                // Asked again by the next tick.
                Err(_) => {}
            }
            return;
        };
        let Some(info) = ctx.info.watchers.get(&(key.cookie, key.entity)) else {
            let mut out = Vec::new();
            self.watches.remove(&obj, key, true, &mut out);
            return send_all(out, cx);
        };
        let reqid = cx.own_reqid();
        let args = WatchArgs { cookie: key.cookie, op: watch_op::UNWATCH, ..WatchArgs::default() };
        let mut msg = MOSDOp { hobj: obj.clone(), ..MOSDOp::default() };
        msg.ops.push(InOp { op: OsdOp::with_watch(OpCode::WATCH, args), ..InOp::default() });
        let Ok(what) = OpInfo::of(0, msg.ops.iter().map(|o| (&o.op, &o.indata)), cx.sh.classes) else { return };
        // UNWATCH speaks of the asker's own watch: ask in its name.
        let plan_cx = group.plan_cx(ReqId { name: key.entity, ..reqid }, &info.addr, cx.sh, cx.clock);
        let Ok(mut plan) = op::plan(&plan_cx, group.source(cx.sh), &ctx, &what, &msg) else { return };
        if plan.kind != PlanKind::Write {
            return;
        }
        plan.log.iter_mut().filter(|e| e.reqid.name == key.entity).for_each(|e| e.reqid = reqid);
        let mut inflight = InFlight::own(&plan.log, group.members.peering.members().clone(), reqid, cx.clock.mono);
        inflight.effects = vec![WatchEffect::Disconnect { cookie: key.cookie, entity: key.entity, send: true }];
        plan.effects.clear();
        // What there is no room for is tried again by the next tick.
        let _ = self.submit_plan(plan, inflight, work, group, cx);
    }
}
