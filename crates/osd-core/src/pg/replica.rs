//! A member that follows a primary: what it answers, how it is activated, the writes that it takes.
//!
//! What a primary did is never refused: a store that has no room for it ends the OSD. The index of snapshots follows from the log entries, as
//! the transaction is the same for every member.

use super::Pg;
use super::at_store::Submitted;
use super::followed::Followed;
use super::logs::PeerLog;
use super::peering::State;
use super::recovery::apply::temp_name;
use super::said::{Acknowledgement, Stop};
use super::snaps;
use crate::event::Effect;
use crate::planted::{Bug, planted};
use crate::shared::Cx;
use denc::Denc;
use messages::{MOSDPGInfo2, MOSDPGLog, MOSDPGUpdateLogMissing, MOSDRepOp, PgLease};
use store::LogDelta;
use types::{Bytes, CollId, Epoch, GHObject, HObject, PgInfo, PgLogEntry, PgShard, ReqId, SpgId, Transaction};

/// A write's data in one piece.
fn flat(pieces: &[Bytes]) -> Bytes {
    if let [one] = pieces { one.clone() } else { pieces.concat().into() }
}

/// True for a temporary object beside one of this group.
fn is_built_for(pgid: SpgId, temp: &HObject, obj: &HObject) -> bool {
    obj.pool == pgid.pgid.pool && (temp.pool, temp.hash) == (temp_name(obj).hobj.pool, obj.hash) && !temp.oid.is_empty()
}

impl Pg {
    /// The primary says how the group stands. To a stray it is the word to serve: what that has beyond the primary's log does not count.
    pub(super) fn info_came(&mut self, from: PgShard, m: &MOSDPGInfo2, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let sent = m.epoch_sent.min(m.min_epoch);
        if self.peering.is_primary() {
            if let Some(ack) = m.lease_ack {
                self.lease_acknowledged(from.osd, sent, ack, cx);
            }
            self.member_info(from, sent, cx);
            return Ok(());
        }
        if !self.peering.is_of_primary(from, sent) {
            return Ok(());
        }
        match self.peering.state() {
            State::Stray => {
                if self.record.info().last_update > m.info.last_update {
                    self.rewind_log(&m.info, cx)?;
                }
                self.follow(&m.info, m.lease.as_ref(), cx)?;
            }
            State::ReplicaActive => {
                self.take_info(&m.info, cx);
                self.save_info(cx);
            }
            _ => {}
        }
        Ok(())
    }
    /// The primary's log, or what we lack of it: the word to serve.
    pub(super) fn log_of_primary(&mut self, from: PgShard, sent: Epoch, m: &MOSDPGLog, cx: &mut Cx<'_>) -> Result<(), Stop> {
        if !self.peering.is_of_primary(from, sent) || self.peering.state() != State::Stray {
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
    fn follow(&mut self, theirs: &PgInfo, lease: Option<&PgLease>, cx: &mut Cx<'_>) -> Result<(), Stop> {
        if self.record.info().last_update != theirs.last_update {
            return Err(Stop::Bad(format!("its log ends at {}, ours at {}", theirs.last_update, self.record.info().last_update)));
        }
        self.take_info(theirs, cx);
        self.lease.told(theirs.history.prior_readable_until_ub_ns, cx.clock.mono);
        if let Some(lease) = lease {
            self.take_lease(lease, cx);
        }
        self.peering.activate_replica(&mut self.record, theirs.last_epoch_started, cx.clock.mono);
        self.followed = Followed::since(self.record.info().last_update);
        self.record.note_complete();
        self.save_info_as(Submitted::Activation(self.peering.last_peering_reset), cx);
        Ok(())
    }
    /// What the primary knows of the group that is the same for every member.
    fn take_info(&mut self, theirs: &PgInfo, cx: &mut Cx<'_>) {
        self.peering.take_history(&theirs.history, &mut self.record);
        self.record.take_counts(theirs);
        let purged = self.record.take_purged(&theirs.purged_snaps);
        if !purged.is_empty() {
            // What the entries did not tell: the snapshots of clones that were removed.
            let forget = self.snap_range().forget(&*cx.sh.store, &purged);
            self.at_store.takes(forget, None, Submitted::Record, cx);
        }
    }
    /// A write of the primary. An error is one of the message: it changes nothing.
    pub(super) fn write_came(&mut self, m: &MOSDRepOp, cx: &mut Cx<'_>) -> Result<(), String> {
        if !self.peering.is_of_primary(m.from, m.map_epoch) {
            return Ok(());
        }
        if self.peering.state() != State::ReplicaActive {
            return Err("a write for a member that is not active".into());
        }
        let entries = Vec::<PgLogEntry>::from_bytes(&m.log).map_err(|e| e.to_string())?;
        let mut txn = Transaction::from_bytes(&flat(&m.transaction)).map_err(|e| e.to_string())?;
        if !txn.colls().all(|coll| coll == self.coll || coll == CollId::PgTemp(self.pgid)) {
            return Err("a write outside of its group".into());
        }
        if !self.holds_all(&txn) || !entries.iter().all(|entry| self.holds(&entry.soid)) {
            return Err("a write of objects of another group".into());
        }
        self.record.check_order(&entries)?;
        if txn.colls().next().is_none() {
            txn.set_home(self.coll);
        }
        // A member that does not have the object yet hears only of the entries.
        let index = if txn.is_empty() { Vec::new() } else { snaps::changes_of(&entries).map_err(|e| e.to_string())? };
        if !index.is_empty() {
            txn.append(snaps::note(&index));
        }
        if txn.is_empty() && is_built_for(self.pgid, &m.discard_temp_oid, &m.poid) {
            // What a copy was built as, here too, does not become the object. It need not be there.
            let temp = GHObject::plain(m.discard_temp_oid.clone());
            txn.touch(&temp);
            txn.remove(&temp);
        }
        txn = self.room.run().after_removals(self.coll, &entries, txn);
        // A stock primary does not wait for a member that lacks the object if it recovers that beside its writes: more is missing, or it is deleted.
        let lacks = self.record.missing().contains(&m.poid);
        entries.iter().for_each(|entry| self.followed.wrote(entry));
        self.followed.settled(m.min_last_complete_ondisk);
        let delta = self.record.follow(entries, lacks, m.pg_stats.clone(), m.pg_trim_to, cx.sh.log_bounds.dups);
        self.keep_for_primary(txn, delta, (m.tid, m.reqid, false), cx);
        Ok(())
    }
    /// What the primary did is done here, too, and acknowledged when it is durable.
    fn keep_for_primary(&mut self, txn: Transaction, delta: LogDelta, (number, reqid, is_bare): (u64, ReqId, bool), cx: &mut Cx<'_>) {
        let (since, complete) = (self.peering.last_peering_reset, self.record.info().last_complete);
        if planted(Bug::ReplicaAckEarly) {
            self.at_store.takes(txn, Some(delta), Submitted::Record, cx);
            self.tell().durable(&Acknowledgement { since, number, reqid, complete, is_bare }, cx);
        } else if self.at_store.takes(txn, Some(delta), Submitted::ReplicaWrite, cx) {
            self.to_acknowledge.push_back(Acknowledgement { since, number, reqid, complete, is_bare });
        } else {
            let why = format!("{}: the store has no room for a write that the primary has done", self.pgid);
            cx.out.push(Effect::Stop { why: Some(why) });
        }
        self.assert_invariants();
    }
    /// Entries of the primary's log alone: errors that clients were answered, and objects that were given up. We lack what they change, until the
    /// primary recovers it.
    pub(super) fn entries_came(&mut self, from: PgShard, m: &MOSDPGUpdateLogMissing, cx: &mut Cx<'_>) -> Result<(), String> {
        if !self.peering.is_of_primary(from, m.map_epoch) {
            return Ok(());
        }
        if self.peering.state() != State::ReplicaActive {
            return Err("entries for a member that is not active".into());
        }
        if !m.entries.iter().all(|entry| self.holds(&entry.soid)) {
            return Err("entries of objects of another group".into());
        }
        self.record.check_order(&m.entries)?;
        m.entries.iter().for_each(|entry| self.followed.wrote(entry));
        let delta = self.record.follow_entries(m.entries.clone());
        self.keep_for_primary(Transaction::new(self.coll), delta, (m.rep_tid, ReqId::default(), true), cx);
        Ok(())
    }
    /// The oldest write that is not acknowledged is durable.
    pub(super) fn replica_committed(&mut self, cx: &mut Cx<'_>) {
        let done = self.to_acknowledge.pop_front().expect("each write of a primary is acknowledged once");
        // Another interval: its primary asked anew what we have.
        if done.since == self.peering.last_peering_reset {
            self.tell().durable(&done, cx);
        }
    }
}
