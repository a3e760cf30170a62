//! Reads that a member serves which follows its primary: balanced and localized ones.
//!
//! Such a member answers what its primary would. It has every write that a client was told of, as that waits for all members; it must not show one that
//! a new interval may undo, nor go on when another interval may serve. So it serves an object while its primary may serve ([`Lease::may_read`]), if it has
//! the object and no write of it is in flight. Anything else it answers EAGAIN: the client asks the primary.
//!
//! Contexts that are at hand here are forgotten with the next transaction of the group, whatever it changes: the primary's writes come as those.
//!
//! Source of the facts: Ceph 18.2 `src/osd/PrimaryLogPG.cc` (`do_op`), `PeeringState.h` (`can_serve_replica_read`).
//!
//! [`Lease::may_read`]: crate::pg::members::lease::Lease::may_read

use super::account;
use super::admit::{Halt, admit};
use super::objects::head_name;
use super::order::Turn;
use super::store_waiters::StoreWaiter;
use crate::event::{Effect, Level};
use crate::op::{Awaited, NEXT_TURN, ObjectContext, Plan, PlanKind, PlanStop, answer_read, load_object};
use crate::pg::group::Group;
use crate::pg::members::peering::State;
use crate::pg::requests::Requests;
use crate::pg::work::Jobs;
use crate::planted::{Bug, planted};
use crate::request::{ClientOp, plan_reply};
use crate::shared::Cx;
use types::errno::EAGAIN;
use types::osd_op::{OpCode, osd_flag};

impl Requests {
    /// A request comes to a member that follows. What is no balanced read came to the wrong OSD: its client hears of the map, and sends it again.
    pub(in crate::pg) fn balanced_read(&mut self, mut op: Box<ClientOp>, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        let is_balanced = op.msg.flags & (osd_flag::BALANCE_READS | osd_flag::LOCALIZE_READS) != 0;
        if !is_balanced || !group.members.peering.acting().any(|member| member == group.members.peering.whoami()) {
            return;
        }
        match admit(&mut op, group, cx) {
            Ok(()) => {}
            Err(Halt::Drop) => return,
            Err(Halt::Reply(errno)) => return cx.reply_error(&op, errno),
        }
        if !may_answer(&op, group, cx) {
            return cx.reply_error(&op, EAGAIN);
        }
        let changes = group.backend.changes();
        if self.followed_at != changes && !planted(Bug::ReplicaKeepsContexts) {
            self.objects.forget_contexts();
        }
        self.followed_at = changes;
        let loaded = match self.follow_context(&op, group, cx) {
            Ok(loaded) => loaded,
            Err(stop) => return self.followed_stops(op, stop, work, group, cx),
        };
        let Some(session) = cx.sh.sessions.get(&op.conn) else { return };
        let plan = self.plan(&op, session, loaded.as_ref(), work, group, cx.sh, cx.clock);
        cx.sh.rng.u64();
        match plan {
            Ok(plan) if plan.kind == PlanKind::Read && plan.effects.is_empty() => answer(&op, plan, group, cx),
            Ok(_) => cx.reply_error(&op, EAGAIN),
            Err(stop) => self.followed_stops(op, stop, work, group, cx),
        }
    }
    /// The head's context, unless it is at hand: that of an object which is read again and again is.
    fn follow_context(&mut self, op: &ClientOp, group: &Group, cx: &Cx<'_>) -> Result<Option<ObjectContext>, PlanStop> {
        let head = head_name(&op.msg.hobj);
        if self.objects.is_at_hand(&head) {
            return Ok(None);
        }
        let ctx = load_object(group.source(cx.sh), &head)?;
        if !self.objects.asked_again(&head) {
            return Ok(Some(ctx));
        }
        self.objects.put(Box::new(ctx.detached()));
        Ok(None)
    }
    fn followed_stops(&mut self, mut op: Box<ClientOp>, stop: PlanStop, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        match stop {
            PlanStop::Read(ticket, awaited) if ticket != NEXT_TURN => {
                op.waits_for = "waiting for the store";
                self.store_waiters.push(ticket, StoreWaiter::Followed(op, awaited));
            }
            // Writes don't wait for it: when the store has what it needs, everything is asked anew.
            PlanStop::Wait(ticket) if ticket != NEXT_TURN => self.stopped(op, Turn::Past, stop, work, group, cx),
            PlanStop::Reply(_) | PlanStop::Ended(_) => self.stopped(op, Turn::Past, stop, work, group, cx),
            PlanStop::Store(why) => {
                cx.sh.counters.damaged += 1;
                cx.sh.wishes.report_soon = true;
                cx.out.push(Effect::ClusterLog { level: Level::Error, text: format!("{}: {}: {why}", group.pgid, op.msg.hobj) });
                cx.reply_error(&op, EAGAIN);
            }
            _ => cx.reply_error(&op, EAGAIN),
        }
    }

    /// The bytes of a balanced read have come: those of the moment when they were asked for, and when everything else was. It is answered with
    /// them, whatever was written since. If the store has them no more, everything is asked anew.
    pub(super) fn followed_came(
        &mut self,
        op: Box<ClientOp>,
        awaited: Awaited,
        ticket: u64,
        work: &mut Jobs,
        group: &mut Group,
        cx: &mut Cx<'_>,
    ) {
        match group.source(cx.sh).as_asked(ticket).map(|bytes| answer_read(group.pgid, &op.msg, &awaited, bytes)) {
            Some(Ok(plan)) => answer(&op, plan, group, cx),
            Some(Err(stop)) => self.followed_stops(op, stop, work, group, cx),
            None => self.client_op(op, work, group, cx),
        }
    }
}

/// Answers a read. Statistics of the group are its primary's to count.
fn answer(op: &ClientOp, mut plan: Plan, group: &Group, cx: &mut Cx<'_>) {
    let reply = plan_reply(&op.msg, &mut plan, cx.sh.map.epoch, true);
    account::read_answered(group.pgid, op, reply.data_len() as u64, cx);
    cx.send(op.conn, reply);
}

/// Whether the object can be read here now, by a request that does nothing else.
fn may_answer(op: &ClientOp, group: &Group, cx: &Cx<'_>) -> bool {
    let info = op.info.as_ref().expect("admission looks it up");
    let watches = |code| matches!(code, OpCode::WATCH | OpCode::NOTIFY | OpCode::NOTIFY_ACK | OpCode::LIST_WATCHERS);
    let is_read = info.may_read && !info.write_ordered() && !info.pg_op && !op.msg.ops.iter().any(|op| watches(op.op.code));
    let obj = &op.msg.hobj;
    let history = &group.record.info().history;
    // The primary has said that every member has begun, so what its log had then can't be undone.
    let has_begun = group.members.peering.state() == State::ReplicaActive && history.last_epoch_started >= history.same_interval_since;
    let missing = group.record.missing();
    let has_own = || missing.is_empty() || missing.of_name(&head_name(obj)).next().is_none() || planted(Bug::ReplicaReadsMissing);
    is_read
        && has_begun
        && group.members.lease.may_read(cx.clock.mono)
        && !group.record.info().is_incomplete()
        && group.backend.layout().is_readable(has_own())
        && (group.backend.is_settled(obj) || planted(Bug::ReplicaReadsInFlight))
}
