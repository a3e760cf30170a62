//! Submission: from a plan to the log and the store, and from the last member's commit to the answer.
//!
//! What is in flight is [`crate::pg::backend::in_flight`]'s; how an entry is kept, [`crate::pg::record::log`]'s.

use super::account;
use super::admit::Halt;
use crate::event::Level;
use crate::op::{Plan, PlanKind, WatchEffect};
use crate::pg::backend::at_store::Submitted;
use crate::pg::backend::in_flight::InFlight;
use crate::pg::group::Group;
use crate::pg::members::peering::Peering;
use crate::pg::record::LogBound;
use crate::pg::requests::Requests;
use crate::pg::work::Jobs;
use crate::planted::{Bug, planted};
use crate::request::{ClientOp, plan_reply};
use crate::shared::Cx;
use maps::{PgPool, pool_flags};
use messages::RawMessage;
use store::StoreError;
use types::errno::{EDQUOT, EINVAL, ENOSPC};
use types::osd_op::osd_flag;
use types::{EVersion, PgLogEntry, Transaction};

/// Our own store did not take a change, which is as if it had never been: it has no room, or it has stopped and the OSD ends. No other member hears of it.
#[derive(Debug)]
pub(in crate::pg) struct Refused(Box<InFlight>, StoreError);

/// A pool that is full takes nothing that makes it grow. A client that did not ask to hear of it is not answered: the map will say
/// so, and it sends its request again when there is room.
fn full(pool: &PgPool, op: &ClientOp, plan: &Plan, cx: &mut Cx<'_>) -> Option<Halt> {
    if plan.kind != PlanKind::Write {
        return None;
    }
    let no_room = !cx.sh.has_room(plan.txn.data_len());
    let full = no_room || pool.has(pool_flags::FULL) || cx.sh.map.has_flag(maps::map_flags::FULL);
    let grows = plan.stats.num_bytes > 0 || plan.stats.num_objects > 0 || no_room;
    if !full || !grows || (op.msg.has(osd_flag::FULL_FORCE) && !no_room) {
        return None;
    }
    if no_room {
        cx.sh.wishes.store_refused = true;
    }
    Some(if op.msg.flags & (osd_flag::FULL_TRY | osd_flag::FULL_FORCE) == 0 {
        Halt::Drop
    } else if pool.has(pool_flags::FULL_QUOTA) {
        Halt::Reply(EDQUOT)
    } else {
        Halt::Reply(ENOSPC)
    })
}
/// The store did not take a request's change. Where it has stopped, the OSD's next life answers.
fn answer_refused(Refused(write, error): Refused, cx: &mut Cx<'_>) {
    let Some((op, _)) = write.request.filter(|_| error == StoreError::Full) else { return };
    if op.msg.flags & (osd_flag::FULL_TRY | osd_flag::FULL_FORCE) != 0 {
        cx.reply_error(&op, ENOSPC);
    }
}

fn inflight_of(peering: &Peering, op: Box<ClientOp>, log: &[PgLogEntry], reply: RawMessage) -> InFlight {
    let bytes_out = reply.data_len() as u64;
    let mut waiting = peering.members().clone();
    if planted(Bug::AckBeforeReplica) {
        waiting.retain(|member| *member == peering.whoami());
    }
    if planted(Bug::ForgetMember) && waiting.len() > 1 {
        let last = waiting.iter().rposition(|member| *member != peering.whoami()).expect("there are others");
        waiting.remove(last);
    }
    InFlight { bytes_out, reqid: op.reqid, received: op.received, request: Some((op, reply)), ..InFlight::of(log, waiting) }
}

impl Requests {
    /// What a plan says is done: a read is answered, a change or an error is logged.
    pub(in crate::pg) fn take_plan(&mut self, op: Box<ClientOp>, mut plan: Plan, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        match full(&group.pool, &op, &plan, cx) {
            None => {}
            Some(Halt::Drop) => return,
            Some(Halt::Reply(errno)) => return cx.reply_error(&op, errno),
        }
        if plan.kind != PlanKind::Read && !(group.holds(&op.msg.hobj) && group.holds_all(&plan.txn)) {
            // A mistake of ours, which must not end this OSD and all others that would get it.
            cx.log(Level::Error, format!("{}: {} changes {}, which is not of the group", group.pgid, op.reqid, op.msg.hobj));
            return cx.reply_error(&op, EINVAL);
        }
        let notifies = plan.effects.iter().filter(|e| matches!(e, WatchEffect::Notify { .. })).count();
        cx.sh.notify_ids = cx.sh.notify_ids.wrapping_add(notifies as u32);
        let epoch = cx.sh.map.epoch;
        match plan.kind {
            PlanKind::Read => {
                group.record.stats_mut().stats.sum += &plan.stats;
                self.apply_effects(&op.msg.hobj, Some(op.conn), std::mem::take(&mut plan.effects), cx);
                let reply = plan_reply(&op.msg, &mut plan, epoch, true);
                account::read_answered(group.pgid, &op, reply.data_len() as u64, cx);
                cx.send(op.conn, reply);
            }
            PlanKind::LogOnly => {
                self.apply_effects(&op.msg.hobj, Some(op.conn), std::mem::take(&mut plan.effects), cx);
                let reply = plan_reply(&op.msg, &mut plan, epoch, true);
                let inflight = inflight_of(&group.members.peering, op, &plan.log, reply);
                if let Err(refused) = group.submit(Transaction::default(), None, plan.log, inflight, work, cx) {
                    answer_refused(refused, cx);
                }
            }
            PlanKind::Write => {
                let reply = plan_reply(&op.msg, &mut plan, epoch, true);
                let mut inflight = inflight_of(&group.members.peering, op, &plan.log, reply);
                inflight.effects = std::mem::take(&mut plan.effects);
                if let Err(refused) = self.submit_plan(plan, inflight, work, group, cx) {
                    answer_refused(refused, cx);
                }
            }
        }
    }

    /// Submits a change: its contexts are what readers see from now on, once it is durable.
    pub(in crate::pg) fn submit_plan(
        &mut self,
        plan: Plan,
        mut inflight: InFlight,
        work: &mut Jobs,
        group: &mut Group,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        group.record.stats_mut().stats.sum += &plan.stats;
        let index = (!plan.snap_index.is_empty()).then(|| crate::pg::snaps::note(&plan.snap_index));
        // Readers of clones wait for their head too; clones' records are not kept.
        let head = plan.changed.into_iter().find(|ctx| ctx.hobj().is_head()).expect("a change is one of a head");
        inflight.obj = Some(head.hobj().clone());
        let fills = !group.members.peering.targets().is_empty();
        if fills {
            work.count_at_targets(head.hobj(), |sum| *sum += &plan.stats, group);
        }
        if let Err(refused) = group.submit(plan.txn, index, plan.log, inflight, work, cx) {
            group.record.stats_mut().stats.sum -= &plan.stats;
            if fills {
                work.count_at_targets(head.hobj(), |sum| *sum -= &plan.stats, group);
            }
            return Err(refused);
        }
        work.scrubs_mut().changed(head.hobj(), &plan.stats, head.exists.then_some(head.info.version));
        self.objects.submitted(head);
        Ok(())
    }
}

impl Group {
    /// Appends entries to the log and gives them to the store with their transaction, and then to the other members. `ours`: what only our own store
    /// is to do besides. What our store refuses has not happened, and goes to nobody.
    pub(in crate::pg) fn submit(
        &mut self,
        mut txn: Transaction,
        ours: Option<Transaction>,
        mut entries: Vec<PgLogEntry>,
        inflight: InFlight,
        work: &mut Jobs,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        assert!(!entries.is_empty(), "a change has an entry");
        txn.set_home(self.coll);
        self.backend.layout().seal(&mut entries);
        let for_others = self.backend.orders(&txn, &entries, self.coll, &self.members.peering, cx.sh.osd_features);
        let noted = (!self.members.peering.targets().is_empty()).then(|| entries.clone());
        if let Some(ours) = ours {
            txn.append(ours);
        }
        self.backend.follows(self.record.info().last_update);
        let b = cx.sh.log_bounds;
        let bound = LogBound { target: cx.sh.log_target(), trim_min: b.trim_min, trim_max: b.trim_max, dups: b.dups };
        let (backend, peering, what) = (&mut self.backend, &self.members.peering, Submitted::Write(inflight.version));
        let mut everywhere = EVersion::ZERO;
        let complete = |ours| {
            everywhere = peering.complete_everywhere(ours);
            everywhere
        };
        if let Err(error) =
            self.record.append(entries, &bound, backend.layout(), complete, |delta| backend.give(txn, Some(delta), what, cx))
        {
            return Err(Refused(Box::new(inflight), error));
        }
        if let Some(orders) = for_others {
            let (number, everywhere) = (self.backend.next_number(), everywhere.min(self.backend.everywhere()));
            self.tell().write(orders, &inflight, number, everywhere, |target, head| work.has_got_to(target, head, self), cx);
            self.members.peering.sent_to_members(self.record.info().last_update);
        }
        if let Some(noted) = noted {
            work.logged(&noted);
        }
        self.backend.submitted(inflight);
        self.assert_invariants();
        Ok(())
    }
}

impl Requests {
    /// Every member has a write: watches take effect, the answer goes out, requests that waited for it go on.
    pub(in crate::pg) fn finish(&mut self, done: InFlight, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        let (conn, is_own) = (done.request.as_ref().map(|(op, _)| op.conn), done.request.is_none());
        if let Some((op, reply)) = done.request {
            account::write_answered(group.pgid, &op, done.bytes_out, cx);
            cx.send(op.conn, reply);
        }
        if !done.effects.is_empty() {
            let obj = done.obj.clone().unwrap_or_default();
            self.apply_effects(&obj, conn, done.effects, cx);
        }
        for (op, reply) in done.dups {
            cx.send(op.conn, reply);
        }
        if let Some(obj) = done.obj
            && self.objects.committed(&obj)
        {
            self.wake(&obj, work, group, cx);
        }
        if !group.members.peering.targets().is_empty() {
            work.is_free_again();
            cx.sh.turns.want(work.work(self, group));
        }
        if is_own {
            work.own_is_durable(self, group, cx);
        }
    }

    /// A write whose interval ended before it was answered, and which the log still has: all members have it since the group is active again.
    #[cold]
    pub(in crate::pg) fn answer_requeued(&mut self, mut op: Box<ClientOp>, group: &mut Group, cx: &mut Cx<'_>) {
        let held = *op.unanswered.take().expect("asked for by the caller");
        account::write_answered(group.pgid, &op, held.bytes_out, cx);
        cx.send(op.conn, held.reply);
        if !held.effects.is_empty() {
            let obj = held.obj.unwrap_or_default();
            self.apply_effects(&obj, Some(op.conn), held.effects, cx);
        }
    }
}
