//! A member that follows a primary: what it answers, how it is activated, the writes that it takes.
//!
//! What a primary did is never refused: a store that has no room for it ends the OSD.

use super::peering::State;
use super::said::{Acknowledgement, Stop};
use crate::event::Effect;
use crate::pg::backend::at_store::Submitted;
use crate::pg::backend::copies::write::came;
use crate::pg::group::Group;
use crate::pg::reconcile::PeerLog;
use crate::pg::work::Jobs;
use crate::planted::{Bug, planted};
use crate::shared::Cx;
use messages::{MOSDPGLog, MOSDPGUpdateLogMissing, MOSDRepOp, PgLease};
use store::LogDelta;
use types::{Epoch, PgInfo, PgShard, ReqId, Transaction};

impl Group {
    /// The primary's log, or what we lack of it: the word to serve.
    pub(in crate::pg) fn log_of_primary(&mut self, from: PgShard, sent: Epoch, m: &MOSDPGLog, cx: &mut Cx<'_>) -> Result<(), Stop> {
        if !self.members.peering.is_of_primary(from, sent) || self.members.peering.state() != State::Stray {
            return Ok(());
        }
        if m.info.last_backfill.is_min() {
            self.start_anew(PeerLog::check(m.log.clone())?, &m.info, cx)?;
        } else {
            self.merge_log(PeerLog::check(m.log.clone())?, &m.info, cx)?;
        }
        self.follow(&m.info, m.lease.as_ref(), cx)
    }
    /// Follows the primary from now on, once that is durable.
    pub(in crate::pg) fn follow(&mut self, theirs: &PgInfo, lease: Option<&PgLease>, cx: &mut Cx<'_>) -> Result<(), Stop> {
        if self.record.info().last_update != theirs.last_update {
            return Err(Stop::Bad(format!("its log ends at {}, ours at {}", theirs.last_update, self.record.info().last_update)));
        }
        self.take_info(theirs, cx);
        self.members.lease.told(theirs.history.prior_readable_until_ub_ns, cx.clock.mono);
        if let Some(lease) = lease {
            self.members.take_lease(lease, cx);
        }
        self.members.peering.activate_replica(&mut self.record, theirs.last_epoch_started, cx.clock.mono);
        self.backend.follow_since(self.record.info().last_update);
        self.record.note_complete();
        self.save_info_as(Submitted::Activation(self.members.peering.last_peering_reset), cx);
        Ok(())
    }
    /// What the primary knows of the group that is the same for every member.
    pub(in crate::pg) fn take_info(&mut self, theirs: &PgInfo, cx: &mut Cx<'_>) {
        self.members.peering.take_history(&theirs.history, &mut self.record);
        self.record.take_counts(theirs);
        let purged = self.record.take_purged(&theirs.purged_snaps);
        if !purged.is_empty() {
            // What the entries did not tell: the snapshots of clones that were removed.
            let forget = self.snap_range().forget(&*cx.sh.store, &purged);
            self.backend.takes(forget, None, Submitted::Record, cx);
        }
    }
    /// A write of the primary. An error is one of the message: it changes nothing.
    pub(in crate::pg) fn write_came(&mut self, m: &MOSDRepOp, work: &mut Jobs, cx: &mut Cx<'_>) -> Result<(), String> {
        if !self.members.peering.is_of_primary(m.from, m.map_epoch) {
            return Ok(());
        }
        if self.members.peering.state() != State::ReplicaActive {
            return Err("a write for a member that is not active".into());
        }
        let (entries, txn) = came(m, self.pgid, |obj| self.holds(obj))?;
        self.record.check_order(&entries)?;
        let txn = work.after_removals(self.coll, &entries, txn);
        // A stock primary does not wait for a member that lacks the object if it recovers that beside its writes: more is missing, or it is deleted.
        let lacks = self.record.missing().contains(&m.poid);
        self.backend.primary_wrote(&entries);
        self.backend.settled(m.min_last_complete_ondisk);
        let forward = self.backend.layout().roll_forward(m.min_last_complete_ondisk);
        let delta = self.record.follow(entries, lacks, m.pg_stats.clone(), forward, m.pg_trim_to, cx.sh.log_bounds.dups);
        self.keep_for_primary(txn, delta, (m.tid, m.reqid, false), cx);
        Ok(())
    }
    /// What the primary did is done here, too, and acknowledged when it is durable.
    fn keep_for_primary(&mut self, txn: Transaction, delta: LogDelta, (number, reqid, is_bare): (u64, ReqId, bool), cx: &mut Cx<'_>) {
        let (since, complete) = (self.members.peering.last_peering_reset, self.record.info().last_complete);
        if planted(Bug::ReplicaAckEarly) {
            self.backend.takes(txn, Some(delta), Submitted::Record, cx);
            self.tell().durable(&Acknowledgement { since, number, reqid, complete, is_bare }, cx);
        } else if self.backend.takes(txn, Some(delta), Submitted::ReplicaWrite, cx) {
            self.backend.owes(Acknowledgement { since, number, reqid, complete, is_bare });
        } else {
            let why = format!("{}: the store has no room for a write that the primary has done", self.pgid);
            cx.out.push(Effect::Stop { why: Some(why) });
        }
        self.assert_invariants();
    }
    /// Entries of the primary's log alone: errors that clients were answered, and objects that were given up. We lack what they change, until the
    /// primary recovers it.
    pub(in crate::pg) fn entries_came(&mut self, from: PgShard, m: &MOSDPGUpdateLogMissing, cx: &mut Cx<'_>) -> Result<(), String> {
        if !self.members.peering.is_of_primary(from, m.map_epoch) {
            return Ok(());
        }
        if self.members.peering.state() != State::ReplicaActive {
            return Err("entries for a member that is not active".into());
        }
        if !m.entries.iter().all(|entry| self.holds(&entry.soid)) {
            return Err("entries of objects of another group".into());
        }
        self.record.check_order(&m.entries)?;
        self.backend.primary_wrote(&m.entries);
        let forward = self.backend.layout().roll_forward(m.pg_roll_forward_to);
        let delta = self.record.follow_entries(m.entries.clone(), forward);
        self.keep_for_primary(Transaction::new(self.coll), delta, (m.rep_tid, ReqId::default(), true), cx);
        Ok(())
    }
    /// The oldest write that is not acknowledged is durable.
    pub(in crate::pg) fn replica_committed(&mut self, cx: &mut Cx<'_>) {
        let done = self.backend.next_acknowledgement();
        // Another interval: its primary asked anew what we have.
        if done.since == self.members.peering.last_peering_reset {
            self.tell().durable(&done, cx);
        }
    }
}
