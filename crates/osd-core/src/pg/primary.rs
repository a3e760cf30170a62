//! A primary and its members: their activation, the writes that they get, what they say to them, and what is told to them all.
//!
//! Which members there are is [`super::peering`]'s to say; what a member does with it, [`super::replica`]'s. The lease by which the
//! primary serves goes with the activations sent here.

use super::Pg;
use super::backfill::run::Backfill;
use super::logs::member::Bring;
use super::logs::part;
use super::peering::State;
use super::replicate::InFlight;
use crate::event::Effect;
use crate::peers;
use crate::planted::{Bug, planted};
use crate::shared::Cx;
use denc::{Bytes, Denc};
use messages::{MOSDPGInfo2, MOSDPGLog, MOSDPGRemove, MOSDPGTemp, MOSDRepOp, MOSDRepOpReply, Message, Paxos, PgLease};
use types::osd_op::osd_flag;
use types::{EVersion, Epoch, HObject, ObjectStatSum, PgInfo, PgLog, PgLogEntry, PgMissing, PgShard, Pieces, SpgId, Transaction, features};

/// A write as other members get it, encoded.
pub(super) struct Payload {
    txn: Pieces,
    entries: Bytes,
    /// For a target that does not have the object yet: nothing is to be done.
    skipped: Option<Bytes>,
}

impl Pg {
    /// True if what was sent by this map belongs to a former interval, and means nothing any more.
    pub(super) fn is_old(&self, sent: Epoch) -> bool {
        sent < self.peering.last_peering_reset && !planted(Bug::AcceptOldInterval)
    }
    /// The group as another member names it.
    pub(super) fn pgid_at(&self, member: PgShard) -> SpgId {
        SpgId { shard: member.shard, ..self.pgid }
    }

    /// Starts the interval at each other member: those that have the log hear so, others get what they lack of it. `entries` are those of our log
    /// above what the last of them has.
    pub(super) fn activate_members(&mut self, entries: &[PgLogEntry], lease: Option<PgLease>, cx: &mut Cx<'_>) {
        let ours = self.record.info();
        for member in self.peering.others().collect::<Vec<_>>() {
            let bring = self.peering.bring(member, ours);
            let peer = self.peering.peer_mut(member).expect("a member is chosen by its info");
            peer.brought = Some(bring);
            match bring {
                Bring::Log(since) => peer.member.send_log(entries.iter().filter(|e| e.version > since), ours),
                Bring::Info => {}
                Bring::Backfill => {
                    peer.member.send_backfill(part::newest_tail(self.record.log(), cx.sh.log_bounds.min), ours);
                    peer.complete_on_disk = EVersion::ZERO;
                }
            }
            self.send_start(member, bring, entries, lease, cx);
        }
    }
    /// The word to start the interval, with what the member lacks.
    fn send_start(&self, member: PgShard, bring: Bring, entries: &[PgLogEntry], lease: Option<PgLease>, cx: &mut Cx<'_>) {
        let tracked = cx.sh.log_bounds.dups as u64;
        match bring {
            Bring::Log(since) => {
                let log = part::after(self.record.log(), entries.iter().filter(|e| e.version > since), since, tracked);
                self.send_log(member, log, PgMissing::default(), lease, self.peering.last_peering_reset, cx);
            }
            Bring::Info => self.send_info(member, lease, cx),
            Bring::Backfill => {
                let info = self.peering.peers()[&member].member.info.clone();
                let log = part::newest(self.record.log(), entries, cx.sh.log_bounds.min, tracked);
                self.send_log_as(member, info, log, lease, cx);
            }
        }
    }
    /// Tells members that have not answered to start the interval once more, if the map is a newer one by now. A new member drops a log whose map is
    /// older than all that it keeps: it can't know that the interval of that map is the present one. A member that has started ignores it.
    pub(super) fn activate_again(&mut self, cx: &mut Cx<'_>) {
        let late = self.peering.told_by_older_map();
        if late.is_empty() {
            return;
        }
        // What the store has to fetch is there at a later tick.
        let Ok(entries) = cx.sh.store.pg_log(self.pgid, EVersion::ZERO, usize::MAX) else { return };
        let lease = self.renew_lease(cx);
        for (member, bring) in late {
            self.send_start(member, bring, &entries, lease, cx);
        }
        self.peering.told_again();
    }
    /// Sends a part of our log. `asked`: the epoch that it answers to.
    pub(super) fn send_log(&self, to: PgShard, log: PgLog, missing: PgMissing, lease: Option<PgLease>, asked: Epoch, cx: &mut Cx<'_>) {
        self.send_log_message(to, self.info_to_tell(cx), log, missing, lease, asked, cx);
    }
    /// Begins a backfill: the info is the target's from now on.
    fn send_log_as(&self, to: PgShard, mut info: PgInfo, log: PgLog, lease: Option<PgLease>, cx: &mut Cx<'_>) {
        info.history = self.info_to_tell(cx).history;
        self.send_log_message(to, info, log, PgMissing::default(), lease, self.peering.last_peering_reset, cx);
    }
    #[allow(clippy::too_many_arguments)]
    fn send_log_message(
        &self,
        to: PgShard,
        info: PgInfo,
        log: PgLog,
        missing: PgMissing,
        lease: Option<PgLease>,
        asked: Epoch,
        cx: &mut Cx<'_>,
    ) {
        let msg = MOSDPGLog {
            epoch: cx.sh.map.epoch,
            info,
            log,
            lease,
            missing,
            query_epoch: asked,
            past_intervals: self.peering.past.clone(),
            to: to.shard,
            from: self.pgid.shard,
            ..MOSDPGLog::default()
        };
        peers::send(to.osd, msg.encode(features::SUPPORTED), cx);
    }
    fn send_info(&self, to: PgShard, lease: Option<PgLease>, cx: &mut Cx<'_>) {
        let epoch = cx.sh.map.epoch;
        let info = self.info_to_tell(cx);
        let msg = MOSDPGInfo2 { pgid: self.pgid_at(to), epoch_sent: epoch, min_epoch: epoch, info, lease, ..MOSDPGInfo2::default() };
        peers::send(to.osd, msg.encode(features::SUPPORTED), cx);
    }
    /// Every member hears how the group stands.
    pub(super) fn share_info(&self, cx: &mut Cx<'_>) {
        self.peering.others().for_each(|member| self.send_info(member, None, cx));
    }
    /// A group of which no member lacks an object is recovered. It then forgets former intervals, so it is not while their members may still
    /// serve: the next primary has to know of them. Nor is it before what recovery brought is durable here: former members let go of theirs.
    pub(crate) fn check_recovered(&mut self, cx: &mut Cx<'_>) {
        let waits_for_store = !self.room.is_durable() && !planted(Bug::CleanBeforeDurable);
        if waits_for_store || (self.peering.is_active() && self.lease.waits()) {
            return;
        }
        if self.peering.is_recovered() || self.is_lacking() || !matches!(self.peering.state(), State::Active | State::Peered) {
            return;
        }
        self.forced = 0;
        self.peering.recovered(&mut self.record);
        self.save_info(cx);
        self.share_info(cx);
        self.remove_strays(cx);
        cx.sh.report_soon = true;
        cx.sh.merge_soon |= self.peering.is_premerge();
        if self.peering.gives_back_pg_temp() {
            let msg = MOSDPGTemp {
                paxos: Paxos::at(cx.sh.map.epoch.into()),
                map_epoch: cx.sh.map.epoch,
                pg_temp: [(self.pgid.pgid, Vec::new())].into(),
                forced: false,
            };
            cx.out.push(Effect::SendMon(msg.encode(features::SUPPORTED)));
        }
    }
    /// Members of past intervals may let go of a group that is clean.
    pub(super) fn remove_strays(&mut self, cx: &mut Cx<'_>) {
        if !self.peering.is_clean() {
            return;
        }
        let map = cx.sh.map.clone();
        for stray in self.peering.take_strays(&*map) {
            let msg = MOSDPGRemove { epoch: cx.sh.map.epoch, pgs: vec![self.pgid_at(stray)] };
            peers::send(stray.osd, msg.encode(features::SUPPORTED), cx);
        }
    }

    /// A member's activation is durable there; with the last, the group serves.
    pub(super) fn member_activated(&mut self, from: PgShard, cx: &mut Cx<'_>) {
        if self.peering.activated(from, &mut self.record, cx.clock.mono) {
            self.on_active(cx);
        }
    }
    /// A member says how it stands: the first word of each is that its activation is durable.
    pub(crate) fn member_info(&mut self, from: PgShard, sent: Epoch, cx: &mut Cx<'_>) {
        if !self.is_old(sent) && self.peering.state() == State::Activating {
            self.member_activated(from, cx);
        }
    }
    /// A member of this interval or of another says what it has.
    pub(crate) fn notified(&mut self, from: PgShard, query_epoch: Epoch, theirs: PgInfo, cx: &mut Cx<'_>) {
        if !self.peering.is_primary() || self.is_old(query_epoch) {
            return;
        }
        self.lease.heard(theirs.history.prior_readable_until_ub_ns, cx.clock.mono);
        self.peering.heard(from, theirs, &mut self.record, cx.clock.mono);
        self.ask_former(cx);
        self.remove_strays(cx);
    }

    /// A write for the other members, if there are any.
    pub(super) fn for_others(&self, txn: &Transaction, entries: &Vec<PgLogEntry>, cx: &Cx<'_>) -> Option<Payload> {
        let features = cx.sh.osd_features;
        self.peering.others().next()?;
        let skipped = (!self.peering.targets().is_empty()).then(|| Transaction::new(self.coll).to_bytes(features));
        Some(Payload { txn: txn.to_pieces(features), entries: entries.to_bytes(features), skipped })
    }
    /// True if a target has this object, or will have it by what is on its way.
    fn has_got_to(&self, target: PgShard, head: &HObject) -> bool {
        let backfill = self.room.recovery().and_then(|recovery| recovery.backfill());
        self.peering.judged_member(target).is_some_and(|known| Backfill::reaches(backfill, &known.info.last_backfill, head))
    }
    /// What a write changes of the counts goes to those of targets that have its object.
    pub(super) fn count_at_targets(&mut self, head: &HObject, by: impl Fn(&mut ObjectStatSum)) {
        let mut is_untold = false;
        for target in self.peering.targets().iter().copied().collect::<Vec<_>>() {
            let Some(peer) = self.peering.peer_mut(target) else { continue };
            match *head <= peer.member.info.last_backfill {
                true => by(&mut peer.member.info.stats.stats.sum),
                false => is_untold = true,
            }
        }
        if is_untold && let Some(sum) = self.room.run().backfill_mut().and_then(|backfill| backfill.untold(head)) {
            by(sum);
        }
    }
    /// Gives it to them. `everywhere`: what every member has on disk, ourselves too: replicas may serve reads of it.
    pub(super) fn send_write(&self, payload: Payload, write: &InFlight, everywhere: EVersion, cx: &mut Cx<'_>) {
        let msg = MOSDRepOp {
            tid: self.inflight.next_number(),
            map_epoch: cx.sh.map.epoch,
            min_epoch: self.peering.last_peering_reset,
            reqid: write.reqid,
            pgid: self.pgid,
            poid: write.obj.clone().unwrap_or_default(),
            acks_wanted: (osd_flag::ACK | osd_flag::ONDISK) as u8,
            version: write.version,
            log: payload.entries,
            pg_stats: self.record.info().stats.clone(),
            pg_trim_to: self.record.log().tail(),
            from: self.ourselves(),
            min_last_complete_ondisk: everywhere,
            transaction: payload.txn.bytes,
            data_off: payload.txn.data_off,
            ..MOSDRepOp::default()
        };
        // Members of a replicated group have the same shard, and get the same bytes.
        let raw = msg.encode(features::SUPPORTED);
        for member in self.peering.others().filter(|member| !self.peering.targets().contains(member)) {
            peers::send(member.osd, raw.clone(), cx);
        }
        let Some(skipped) = payload.skipped else { return };
        for target in self.peering.targets() {
            let gets = write.obj.as_ref().is_none_or(|head| self.has_got_to(*target, head));
            let (transaction, data_off) = if gets { (msg.transaction.clone(), msg.data_off) } else { (vec![skipped.clone()], 0) };
            // Its counts are of what it has.
            let pg_stats = self.peering.judged_member(*target).map_or_else(|| msg.pg_stats.clone(), |known| known.info.stats.clone());
            let msg = MOSDRepOp { transaction, data_off, pg_stats, ..msg.clone() };
            peers::send(target.osd, msg.encode(features::SUPPORTED), cx);
        }
    }
    /// A member has a write on disk.
    pub(crate) fn write_acknowledged(&mut self, m: &MOSDRepOpReply, cx: &mut Cx<'_>) {
        self.acknowledged(m.from, m.map_epoch, m.tid, m.last_complete_ondisk, cx);
    }
    pub(crate) fn acknowledged(&mut self, from: PgShard, epoch: Epoch, number: u64, complete: EVersion, cx: &mut Cx<'_>) {
        if !self.peering.is_primary() || self.is_old(epoch) {
            return;
        }
        self.peering.complete_on_disk(from, complete);
        if let Some(version) = self.inflight.version_of(number) {
            self.arrived(from, version, cx);
        }
    }
}
