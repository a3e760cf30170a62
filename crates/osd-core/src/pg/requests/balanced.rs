//! Reads that a member serves which follows its primary: balanced and localized ones.
//!
//! Such a member answers what its primary would. It has every write that a client was told of, as that waits for all members; it must not show one that
//! a new interval may undo, nor go on when another interval may serve. So it serves an object while its primary may serve ([`Lease::may_read`]), if it has
//! the object and no write of it is in flight. Anything else it answers EAGAIN: the client asks the primary.
//!
//! Holds no object's context: writes come as transactions, and nothing that was kept of an object would be true for long.
//!
//! Source of the facts: Ceph 18.2 `src/osd/PrimaryLogPG.cc` (`do_op`), `PeeringState.h` (`can_serve_replica_read`).
//!
//! [`Lease::may_read`]: crate::pg::members::lease::Lease::may_read

use super::account;
use super::admit::{Halt, admit};
use super::objects::head_name;
use super::order::Turn;
use crate::event::{Effect, Level};
use crate::op::{NEXT_TURN, PlanKind, PlanStop, load_object};
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
        let loaded = load_object(group.source(cx.sh), &head_name(&op.msg.hobj));
        let Some(session) = cx.sh.sessions.get(&op.conn) else { return };
        let plan = loaded.and_then(|ctx| self.plan(&op, session, Some(&ctx), work, group, cx.sh, cx.clock));
        cx.sh.rng.u64();
        match plan {
            Ok(mut plan) if plan.kind == PlanKind::Read && plan.effects.is_empty() => {
                let reply = plan_reply(&op.msg, &mut plan, cx.sh.map.epoch, true);
                account::read_answered(group.pgid, &op, reply.data_len() as u64, cx);
                cx.send(op.conn, reply);
            }
            Err(PlanStop::Wait(ticket) | PlanStop::Read(ticket, _)) if ticket != NEXT_TURN => {
                // Writes don't wait for it: when the bytes have come, everything is asked anew.
                self.stopped(op, Turn::Past, PlanStop::Wait(ticket), work, group, cx);
            }
            Err(stop @ (PlanStop::Reply(_) | PlanStop::Ended(_))) => self.stopped(op, Turn::Past, stop, work, group, cx),
            Err(PlanStop::Store(why)) => {
                cx.sh.counters.damaged += 1;
                cx.sh.wishes.report_soon = true;
                cx.out.push(Effect::ClusterLog { level: Level::Error, text: format!("{}: {}: {why}", group.pgid, op.msg.hobj) });
                cx.reply_error(&op, EAGAIN);
            }
            Ok(_) | Err(_) => cx.reply_error(&op, EAGAIN),
        }
    }
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
    let has_own = || group.record.missing().of_name(&head_name(obj)).next().is_none() || planted(Bug::ReplicaReadsMissing);
    is_read
        && has_begun
        && group.members.lease.may_read(cx.clock.mono)
        && !group.record.info().is_incomplete()
        && group.backend.layout().is_readable(has_own())
        && (group.backend.is_settled(obj) || planted(Bug::ReplicaReadsInFlight))
}
