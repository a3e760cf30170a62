//! Submission: from a plan to the log and the store, and from the last member's commit to the answer.
//!
//! What is in flight is [`super::replicate`]'s; how an entry is kept, [`super::log`]'s.

use super::Pg;
use super::account;
use super::admit::Halt;
use super::range;
use super::replicate::InFlight;
use crate::event::{Effect, Level};
use crate::op::{Plan, PlanKind, WatchEffect};
use crate::planted::{Bug, planted};
use crate::request::{ClientOp, plan_reply};
use crate::shared::Cx;
use maps::pool_flags;
use messages::RawMessage;
use std::collections::VecDeque;
use store::{FastInfo, InfoChange, LogDelta, StoreError, StoreResult};
use types::errno::{EDQUOT, EINVAL, ENOSPC};
use types::osd_op::osd_flag;
use types::{EVersion, Epoch, HObject, PgLogEntry, Transaction};

/// What a group has given to its own store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Submitted {
    /// The group's record, or what it does by itself without an entry.
    Record,
    /// The record with which the group becomes active in the interval that began at this epoch.
    Activation(Epoch),
    /// Something of recovery.
    Recovery,
    /// Entries of the log up to this one.
    Write(EVersion),
    /// What the primary wrote.
    ReplicaWrite,
}

/// The part of a token that numbers a group's transactions.
const TOKEN_NUMBER: u64 = (1 << 40) - 1;

/// What the group's own store has not committed, of this interval and of earlier ones, in the order in which the store commits it.
#[derive(Debug)]
pub(super) struct AtStore {
    /// The group's place among the OSD's groups.
    slot: u32,
    /// The number of the first.
    first: u64,
    submitted: VecDeque<Submitted>,
    /// Numbers below it are of former intervals.
    since: u64,
}

impl AtStore {
    pub fn new(slot: u32) -> Self {
        Self { slot, first: 0, submitted: VecDeque::new(), since: 0 }
    }
    pub fn is_empty(&self) -> bool {
        self.submitted.is_empty()
    }
    /// An interval begins.
    pub fn start_interval(&mut self) {
        self.since = self.first + self.submitted.len() as u64;
    }
    /// True while something of a former interval is not durable. The group says nothing of its log until then: another member would go by entries
    /// that are gone if this OSD dies now, and lack objects that no member has.
    pub fn is_unsettled(&self) -> bool {
        self.first < self.since
    }
    /// What the store is to say when the next transaction is durable: the group's place and the transaction's number.
    fn token(&self) -> u64 {
        u64::from(self.slot) << 40 | (self.first + self.submitted.len() as u64) & TOKEN_NUMBER
    }
    fn gave(&mut self, what: Submitted) {
        self.submitted.push_back(what);
    }
    /// What is durable when the store says this token.
    pub fn committed(&mut self, token: u64) -> Submitted {
        let Some(what) = self.submitted.pop_front() else { panic!("group {}: the store commits what it was not given", self.slot) };
        assert!(token & TOKEN_NUMBER == self.first & TOKEN_NUMBER, "a store commits in the order of submission");
        self.first += 1;
        what
    }
}

/// Our own store did not take a change, which is as if it had never been: it has no room, or it has stopped and the OSD ends. No other member hears of it.
#[derive(Debug)]
pub(super) struct Refused(Box<InFlight>, StoreError);

impl Pg {
    /// The group's place out of a token.
    pub fn slot_of(token: u64) -> u32 {
        (token >> 40) as u32
    }

    /// True if an object of this name lies in the group. A store ends at a change to any other, so it is asked of all that comes from outside.
    pub(super) fn holds(&self, obj: &HObject) -> bool {
        range::holds(self.pgid.pgid, &self.pool, obj)
    }
    /// The same of everything that a transaction changes.
    pub(super) fn holds_all(&self, txn: &Transaction) -> bool {
        txn.objects().all(|obj| !obj.max && obj.shard == self.pgid.shard && self.holds(&obj.hobj))
    }

    /// What a plan says is done: a read is answered, a change or an error is logged.
    pub(super) fn take_plan(&mut self, op: Box<ClientOp>, mut plan: Plan, cx: &mut Cx<'_>) {
        match self.full(&op, &plan, cx) {
            None => {}
            Some(Halt::Drop) => return,
            Some(Halt::Reply(errno)) => return self.reply_error(&op, errno, cx),
        }
        if plan.kind != PlanKind::Read && !(self.holds(&op.msg.hobj) && self.holds_all(&plan.txn)) {
            // A mistake of ours, which must not end this OSD and all others that would get it.
            cx.log(Level::Error, format!("{}: {} changes {}, which is not of the group", self.pgid, op.reqid, op.msg.hobj));
            return self.reply_error(&op, EINVAL, cx);
        }
        let notifies = plan.effects.iter().filter(|e| matches!(e, WatchEffect::Notify { .. })).count();
        cx.sh.notify_ids = cx.sh.notify_ids.wrapping_add(notifies as u32);
        let epoch = cx.sh.map.epoch;
        match plan.kind {
            PlanKind::Read => {
                self.info.stats.stats.sum += &plan.stats;
                self.apply_effects(&op.msg.hobj, Some(op.conn), std::mem::take(&mut plan.effects), cx);
                let reply = plan_reply(&op.msg, &mut plan, epoch, true);
                account::read_answered(self.pgid, &op, reply.data_len() as u64, cx);
                cx.send(op.conn, reply);
            }
            PlanKind::LogOnly => {
                self.apply_effects(&op.msg.hobj, Some(op.conn), std::mem::take(&mut plan.effects), cx);
                let reply = plan_reply(&op.msg, &mut plan, epoch, true);
                let inflight = self.inflight_of(op, &plan.log, reply);
                if let Err(refused) = self.submit(Transaction::default(), None, plan.log, inflight, cx) {
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

    /// A pool that is full takes nothing that makes it grow. A client that did not ask to hear of it is not answered: the map will say
    /// so, and it sends its request again when there is room.
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
            cx.sh.store_refused = true;
        }
        Some(if op.msg.flags & (osd_flag::FULL_TRY | osd_flag::FULL_FORCE) == 0 {
            Halt::Drop
        } else if self.pool.has(pool_flags::FULL_QUOTA) {
            Halt::Reply(EDQUOT)
        } else {
            Halt::Reply(ENOSPC)
        })
    }
    /// The store did not take a request's change. Where it has stopped, the OSD's next life answers.
    fn refused(&self, Refused(write, error): Refused, cx: &mut Cx<'_>) {
        let Some((op, _)) = write.request.filter(|_| error == StoreError::Full) else { return };
        if op.msg.flags & (osd_flag::FULL_TRY | osd_flag::FULL_FORCE) != 0 {
            self.reply_error(&op, ENOSPC, cx);
        }
    }

    fn inflight_of(&self, op: Box<ClientOp>, log: &[PgLogEntry], reply: RawMessage) -> InFlight {
        let bytes_out = reply.data_len() as u64;
        let mut waiting = self.members();
        if planted(Bug::AckBeforeReplica) {
            waiting.retain(|member| *member == self.ourselves());
        }
        if planted(Bug::ForgetMember) && waiting.len() > 1 {
            let last = waiting.iter().rposition(|member| *member != self.ourselves()).expect("there are others");
            waiting.remove(last);
        }
        InFlight { bytes_out, reqid: op.reqid, received: op.received, request: Some((op, reply)), ..InFlight::of(log, waiting) }
    }

    /// Submits a change: its contexts are what readers see from now on, once it is durable.
    pub(super) fn submit_plan(&mut self, plan: Plan, mut inflight: InFlight, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.info.stats.stats.sum += &plan.stats;
        let index = (!plan.snap_index.is_empty()).then(|| super::snaps::note(&plan.snap_index));
        // Readers of clones wait for their head too; clones' records are not kept.
        let head = plan.changed.into_iter().find(|ctx| ctx.hobj().is_head()).expect("a change is one of a head");
        inflight.obj = Some(head.hobj().clone());
        let fills = !self.peering.targets().is_empty();
        if fills {
            self.count_at_targets(head.hobj(), |sum| *sum += &plan.stats);
        }
        if let Err(refused) = self.submit(plan.txn, index, plan.log, inflight, cx) {
            self.info.stats.stats.sum -= &plan.stats;
            if fills {
                self.count_at_targets(head.hobj(), |sum| *sum -= &plan.stats);
            }
            return Err(refused);
        }
        self.scrubs.changed(head.hobj(), &plan.stats, head.exists.then_some(head.info.version));
        self.objects.submitted(head);
        Ok(())
    }

    /// Appends entries to the log and gives them to the store with their transaction, and then to the other members. `ours`: what only our own store
    /// is to do besides. What our store refuses has not happened, and goes to nobody.
    pub(super) fn submit(
        &mut self,
        mut txn: Transaction,
        ours: Option<Transaction>,
        entries: Vec<PgLogEntry>,
        inflight: InFlight,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        assert!(!entries.is_empty(), "a change has an entry");
        txn.set_home(self.coll);
        let for_others = self.for_others(&txn, &entries, cx);
        let noted = (!self.peering.targets().is_empty()).then(|| entries.clone());
        if let Some(ours) = ours {
            txn.append(ours);
        }
        self.inflight.follows(self.info.last_update);
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
        let everywhere = self.peering.complete_everywhere(self.info.last_complete);
        let limit = if planted(Bug::TrimTooFar) { self.log.head() } else { everywhere };
        let trim = self.log.trim_to(target, bounds.trim_min, bounds.trim_max, limit);
        let mut delta = LogDelta { entries, trim_to: trim, ..LogDelta::new(self.pgid) };
        if let Some(to) = trim {
            (delta.dups, delta.trim_dups_to) = self.log.trim(to, bounds.dups);
            self.info.log_tail = self.log.tail();
        }
        delta.info = InfoChange::Fast(FastInfo::of(&self.info));
        if let Err(error) = self.give(txn, Some(delta), Submitted::Write(inflight.version), cx) {
            self.log.rewind(mark);
            let i = &mut self.info;
            (i.last_update, i.last_complete, i.last_user_version, i.log_tail) = before;
            return Err(Refused(Box::new(inflight), error));
        }
        if let Some(payload) = for_others {
            self.send_write(payload, &inflight, everywhere.min(self.inflight.settled()), cx);
            self.peering.sent_to_members(self.info.last_update);
        }
        if let (Some(noted), Some(backfill)) = (noted, self.room.run().backfill_mut()) {
            backfill.logged(&noted);
        }
        self.inflight.submitted(inflight);
        self.assert_invariants();
        Ok(())
    }

    /// Gives a transaction with its record to the store; false if that has no room for it, and nothing happened. A store that can't go on ends
    /// the OSD.
    pub(super) fn to_store(&mut self, txn: Transaction, delta: Option<LogDelta>, what: Submitted, cx: &mut Cx<'_>) -> bool {
        self.give(txn, delta, what, cx) != Err(StoreError::Full)
    }
    /// The same. What the store did not take has not happened, whatever the reason.
    fn give(&mut self, txn: Transaction, delta: Option<LogDelta>, what: Submitted, cx: &mut Cx<'_>) -> StoreResult<()> {
        let given = cx.sh.store.submit(txn, delta, self.at_store.token());
        match &given {
            Ok(()) => self.at_store.gave(what),
            Err(StoreError::Full) => cx.sh.store_refused = true,
            Err(error) => cx.out.push(Effect::Stop { why: Some(format!("{}: {error}", self.pgid)) }),
        }
        given
    }

    /// Every member has a write: watches take effect, the answer goes out, requests that waited for it go on.
    pub(super) fn finish(&mut self, done: InFlight, cx: &mut Cx<'_>) {
        let (conn, is_own) = (done.request.as_ref().map(|(op, _)| op.conn), done.request.is_none());
        if let Some((op, reply)) = done.request {
            account::write_answered(self.pgid, &op, done.bytes_out, cx);
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
            self.wake(&obj, cx);
        }
        if !self.peering.targets().is_empty() {
            self.room.run().is_free_again();
            cx.sh.turns.want(self.work());
        }
        if is_own {
            self.own_is_durable(cx);
        }
    }

    /// A write whose interval ended before it was answered, and which the log still has: all members have it since the group is active again.
    #[cold]
    pub(super) fn answer_requeued(&mut self, mut op: Box<ClientOp>, cx: &mut Cx<'_>) {
        let held = *op.unanswered.take().expect("asked for by the caller");
        account::write_answered(self.pgid, &op, held.bytes_out, cx);
        cx.send(op.conn, held.reply);
        if !held.effects.is_empty() {
            let obj = held.obj.unwrap_or_default();
            self.apply_effects(&obj, Some(op.conn), held.effects, cx);
        }
    }
}
