//! All that a group says to other members, as messages.
//!
//! A word goes to an OSD that the map has up, names the group as that member does, and says by which map it is said. When something is said, and what follows
//! from the answer, is the caller's: [`super::primary`] and [`super::replica`] for writes and peering, [`super::lease::duty`], [`crate::pg::work::places::claims`],
//! [`crate::pg::work::recovery::traffic`] and [`crate::pg::work::scrub`] for theirs. Changes nothing.

use super::lease::Lease;
use super::peering::Peering;
use super::said::Acknowledgement;
use crate::outbound::{notify_info, send};
use crate::pg::backend::Orders;
use crate::pg::backend::in_flight::InFlight;
use crate::pg::reconcile::member::Bring;
use crate::pg::reconcile::part;
use crate::pg::record::Record;
use crate::pg::work::places::lend::LISTS_WHEN_FULL;
use crate::pg::work::recovery::host::Part;
use crate::pg::work::recovery::wire::{self, Envelope};
use crate::planted::{Bug, planted};
use crate::shared::Cx;
use denc::Denc;
use messages::osd_peering::{backfill_reserve, query_kind};
use messages::{
    MBackfillReserve, MOSDPGInfo2, MOSDPGLease, MOSDPGLeaseAck, MOSDPGLog, MOSDPGPCT, MOSDPGQuery2, MOSDPGRemove, MOSDPGUpdateLogMissing,
    MOSDPGUpdateLogMissingReply, MOSDRepOp, MOSDRepOpReply, MOSDRepScrub, MOSDRepScrubMap, MOSDScrubReserve, MRecoveryReserve, Message,
    PgLease, PgLeaseAck, PgQuery,
};
use types::osd_op::osd_flag;
use types::{EVersion, Epoch, HObject, PgInfo, PgLog, PgLogEntry, PgMissing, PgShard, ScrubMap, SpgId, features};

/// The group as it speaks to others.
#[derive(Clone, Copy)]
pub(crate) struct Tell<'a> {
    pub(in crate::pg) pgid: SpgId,
    pub(in crate::pg) record: &'a Record,
    pub(in crate::pg) peering: &'a Peering,
    pub(in crate::pg) lease: &'a Lease,
}

impl Tell<'_> {
    /// The group as another member names it.
    fn pgid_at(self, member: PgShard) -> SpgId {
        SpgId { shard: member.shard, ..self.pgid }
    }
    /// The record for another member: how long former intervals may be served is as of now.
    pub(in crate::pg) fn our_info(self, cx: &Cx<'_>) -> PgInfo {
        let mut info = self.record.info().clone();
        info.history.prior_readable_until_ub_ns = self.lease.remaining_ns(cx.clock.mono);
        if planted(Bug::ForgetToTellLease) {
            info.history.prior_readable_until_ub_ns = 0;
        }
        info
    }

    /// Asks for a member's info.
    pub(crate) fn query(self, to: PgShard, cx: &mut Cx<'_>) {
        self.send_query(to, query_kind::INFO, EVersion::ZERO, cx);
    }
    /// Asks for a member's log, above a version or all of it.
    pub(crate) fn query_log(self, to: PgShard, since: Option<EVersion>, cx: &mut Cx<'_>) {
        let kind = if since.is_some() { query_kind::LOG } else { query_kind::FULLLOG };
        self.send_query(to, kind, since.unwrap_or_default(), cx);
    }
    fn send_query(self, to: PgShard, kind: i32, since: EVersion, cx: &mut Cx<'_>) {
        let history = self.record.info().history;
        let query = PgQuery { kind, since, history, epoch_sent: cx.sh.map.epoch, to: to.shard, from: self.pgid.shard };
        send(to.osd, MOSDPGQuery2 { pgid: self.pgid_at(to), query }.encode(features::SUPPORTED), cx);
    }
    /// Says what we have.
    pub(crate) fn notify(self, to: PgShard, query_epoch: Epoch, cx: &mut Cx<'_>) {
        notify_info(self.our_info(cx), self.peering.past.clone(), to, query_epoch, cx);
    }

    /// The word to start the interval, with what the member lacks. `entries` are those of our log above what the last member has.
    pub(in crate::pg) fn start(self, to: PgShard, bring: Bring, entries: &[PgLogEntry], lease: Option<PgLease>, cx: &mut Cx<'_>) {
        let tracked = cx.sh.log_bounds.dups as u64;
        let since = self.peering.last_peering_reset;
        match bring {
            Bring::Log(above) => {
                let log = part::after(self.record.log(), entries.iter().filter(|e| e.version > above), above, tracked);
                self.send_log(to, self.our_info(cx), log, PgMissing::default(), lease, since, cx);
            }
            Bring::Info => self.info(to, lease, cx),
            Bring::Backfill => {
                // The info is the target's from now on.
                let mut info = self.peering.peers()[&to].member.info.clone();
                let log = part::newest(self.record.log(), entries, cx.sh.log_bounds.min, tracked);
                info.history = self.our_info(cx).history;
                self.send_log(to, info, log, PgMissing::default(), lease, since, cx);
            }
        }
    }
    /// A part of our log, and what we lack. `asked`: the epoch that it answers to.
    pub(in crate::pg) fn log(self, to: PgShard, log: PgLog, asked: Epoch, cx: &mut Cx<'_>) {
        self.send_log(to, self.our_info(cx), log, self.record.missing().to_wire(), None, asked, cx);
    }
    #[allow(clippy::too_many_arguments)]
    fn send_log(self, to: PgShard, info: PgInfo, log: PgLog, missing: PgMissing, lease: Option<PgLease>, asked: Epoch, cx: &mut Cx<'_>) {
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
        send(to.osd, msg.encode(features::SUPPORTED), cx);
    }
    fn info(self, to: PgShard, lease: Option<PgLease>, cx: &mut Cx<'_>) {
        let epoch = cx.sh.map.epoch;
        let info = self.our_info(cx);
        let msg = MOSDPGInfo2 { pgid: self.pgid_at(to), epoch_sent: epoch, min_epoch: epoch, info, lease, ..MOSDPGInfo2::default() };
        send(to.osd, msg.encode(features::SUPPORTED), cx);
    }
    /// Every member hears how the group stands.
    pub(in crate::pg) fn info_to_all(self, cx: &mut Cx<'_>) {
        self.peering.others().for_each(|member| self.info(member, None, cx));
    }
    /// A member of past intervals may let go of the group.
    pub(in crate::pg) fn remove(self, stray: PgShard, cx: &mut Cx<'_>) {
        let msg = MOSDPGRemove { epoch: cx.sh.map.epoch, pgs: vec![self.pgid_at(stray)] };
        send(stray.osd, msg.encode(features::SUPPORTED), cx);
    }
    /// Our activation is durable: the primary waits for that.
    pub(in crate::pg) fn activated(self, cx: &mut Cx<'_>) {
        let mut info = self.our_info(cx);
        info.history.last_epoch_started = info.last_epoch_started;
        info.history.last_interval_started = info.history.same_interval_since;
        let (to, epoch) = (self.peering.primary(), cx.sh.map.epoch);
        let lease_ack = self.lease.acknowledgement();
        let msg = MOSDPGInfo2 { pgid: self.pgid_at(to), epoch_sent: epoch, min_epoch: epoch, info, lease: None, lease_ack };
        send(to.osd, msg.encode(features::SUPPORTED), cx);
    }

    /// Gives members a write by this number. `everywhere`: what every member has on disk, ourselves too: replicas may serve reads of it. `gets`: whether a
    /// target has an object, or will have it by what is on its way.
    pub(in crate::pg) fn write(
        self,
        orders: Orders,
        write: &InFlight,
        number: u64,
        everywhere: EVersion,
        gets: impl Fn(PgShard, &HObject) -> bool,
        cx: &mut Cx<'_>,
    ) {
        let Orders::Copies(payload) = orders;
        let msg = MOSDRepOp {
            tid: number,
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
            from: self.peering.whoami(),
            min_last_complete_ondisk: everywhere,
            transaction: payload.txn.bytes,
            data_off: payload.txn.data_off,
            ..MOSDRepOp::default()
        };
        // Members of a replicated group have the same shard, and get the same bytes.
        let raw = msg.encode(features::SUPPORTED);
        for member in self.peering.others().filter(|member| !self.peering.targets().contains(member)) {
            send(member.osd, raw.clone(), cx);
        }
        let Some(skipped) = payload.skipped else { return };
        for target in self.peering.targets() {
            let gets = write.obj.as_ref().is_none_or(|head| gets(*target, head));
            let (transaction, data_off) = if gets { (msg.transaction.clone(), msg.data_off) } else { (vec![skipped.clone()], 0) };
            // Its counts are of what it has.
            let pg_stats = self.peering.judged_member(*target).map_or_else(|| msg.pg_stats.clone(), |known| known.info.stats.clone());
            let msg = MOSDRepOp { transaction, data_off, pg_stats, ..msg.clone() };
            send(target.osd, msg.encode(features::SUPPORTED), cx);
        }
    }
    /// Gives members entries without a write, by this number.
    pub(in crate::pg) fn entries(self, entries: Vec<PgLogEntry>, number: u64, everywhere: EVersion, cx: &mut Cx<'_>) {
        let msg = MOSDPGUpdateLogMissing {
            map_epoch: cx.sh.map.epoch,
            pgid: self.pgid,
            from: self.pgid.shard,
            rep_tid: number,
            entries,
            min_epoch: self.peering.last_peering_reset,
            pg_trim_to: self.record.log().tail(),
            pg_roll_forward_to: everywhere,
        };
        for member in self.peering.others() {
            let msg = MOSDPGUpdateLogMissing { pgid: self.pgid_at(member), ..msg.clone() };
            send(member.osd, msg.encode(features::SUPPORTED), cx);
        }
    }
    /// A write of the primary is durable here.
    pub(in crate::pg) fn durable(self, done: &Acknowledgement, cx: &mut Cx<'_>) {
        let to = self.peering.primary();
        if done.is_bare {
            let msg = MOSDPGUpdateLogMissingReply {
                map_epoch: cx.sh.map.epoch,
                pgid: self.pgid_at(to),
                from: self.pgid.shard,
                rep_tid: done.number,
                min_epoch: done.since,
                last_complete_ondisk: done.complete,
            };
            return send(to.osd, msg.encode(features::SUPPORTED), cx);
        }
        let msg = MOSDRepOpReply {
            tid: done.number,
            map_epoch: cx.sh.map.epoch,
            min_epoch: done.since,
            reqid: done.reqid,
            pgid: self.pgid_at(to),
            ack_type: osd_flag::ONDISK as u8,
            last_complete_ondisk: done.complete,
            from: self.peering.whoami(),
            ..MOSDRepOpReply::default()
        };
        send(to.osd, msg.encode(features::SUPPORTED), cx);
    }

    /// Members hear of a lease.
    pub(in crate::pg) fn lease(self, lease: PgLease, cx: &mut Cx<'_>) {
        let epoch = cx.sh.map.epoch;
        for member in self.peering.others() {
            let msg = MOSDPGLease { epoch, pgid: self.pgid_at(member), lease };
            send(member.osd, msg.encode(features::SUPPORTED), cx);
        }
    }
    /// Members hear up to where every one of them has the log: they may serve reads of it. A write says it, too; no OSD before 20.2 knows the message
    /// without one but ours.
    pub(in crate::pg) fn everywhere(self, committed_to: EVersion, cx: &mut Cx<'_>) {
        let (map_epoch, min_epoch) = (cx.sh.map.epoch, self.peering.last_peering_reset);
        for member in self.peering.others() {
            let features = cx.sh.map.osd_xinfo.get(member.osd as usize).map_or(0, |known| known.features);
            if features::has(features, features::SERVER_TENTACLE) {
                let msg = MOSDPGPCT { map_epoch, min_epoch, pgid: self.pgid_at(member), committed_to };
                send(member.osd, msg.encode(features::SUPPORTED), cx);
            }
        }
    }
    /// The primary hears that we have heard of its lease.
    pub(in crate::pg) fn lease_heard(self, ack: PgLeaseAck, cx: &mut Cx<'_>) {
        let (to, epoch) = (self.peering.primary(), cx.sh.map.epoch);
        send(to.osd, MOSDPGLeaseAck { epoch, pgid: self.pgid_at(to), ack }.encode(features::SUPPORTED), cx);
    }

    /// Something of recovery. `asked_by`: the epoch that the primary's last question to us as a backfill target named.
    pub(in crate::pg) fn part(self, to: PgShard, part: Part, asked_by: Epoch, cx: &mut Cx<'_>) {
        let min_epoch = if part.is_of_target() { asked_by } else { self.peering.last_peering_reset };
        let envelope = Envelope { pgid: self.pgid_at(to), from: self.peering.whoami(), map_epoch: cx.sh.map.epoch, min_epoch };
        send(to.osd, wire::encode(envelope, part), cx);
    }
    /// A place for recovery: of which kind the word is, `recovery_reserve` says.
    pub(in crate::pg) fn recovery_place(self, to: PgShard, kind: u32, priority: u32, cx: &mut Cx<'_>) {
        let msg = MRecoveryReserve { pgid: self.pgid_at(to), query_epoch: cx.sh.map.epoch, kind, priority };
        send(to.osd, msg.encode(features::SUPPORTED), cx);
    }
    /// A place for a backfill: of which kind the word is, `backfill_reserve` says. A refusal says that we list what we have.
    pub(in crate::pg) fn backfill_place(self, to: PgShard, kind: u32, priority: u32, cx: &mut Cx<'_>) {
        let bytes = |info: &PgInfo| info.stats.stats.sum.num_bytes;
        let theirs = self.peering.peers().get(&to).map_or(0, |peer| bytes(&peer.member.info));
        let is_too_full = matches!(kind, backfill_reserve::REJECT_TOOFULL | backfill_reserve::REVOKE_TOOFULL);
        let shard_num_bytes = if is_too_full { LISTS_WHEN_FULL } else { theirs };
        let primary_num_bytes = bytes(self.record.info());
        let (pgid, query_epoch) = (self.pgid_at(to), cx.sh.map.epoch);
        let msg = MBackfillReserve { pgid, query_epoch, kind, priority, primary_num_bytes, shard_num_bytes };
        send(to.osd, msg.encode(features::SUPPORTED), cx);
    }

    /// A slot for a scrub: of which kind the word is, `scrub_reserve` says. `nonce`: the request's that it answers.
    pub(in crate::pg) fn scrub_slot(self, to: PgShard, kind: i32, nonce: u32, cx: &mut Cx<'_>) {
        let (pgid, map_epoch, from) = (self.pgid_at(to), cx.sh.map.epoch, self.peering.whoami());
        let msg = MOSDScrubReserve { pgid, map_epoch, kind, from, nonce, waits: false };
        send(to.osd, msg.encode(features::SUPPORTED), cx);
    }
    /// Asks for a member's map of a range of objects.
    pub(in crate::pg) fn scrub_range(self, to: PgShard, start: HObject, end: HObject, deep: bool, cx: &mut Cx<'_>) {
        let msg = MOSDRepScrub {
            pgid: self.pgid_at(to),
            scrub_from: EVersion::ZERO,
            scrub_to: self.record.info().last_update,
            map_epoch: cx.sh.map.epoch,
            chunky: true,
            start,
            end,
            deep,
            min_epoch: self.peering.last_peering_reset,
            allow_preemption: false,
            priority: 0,
            high_priority: false,
        };
        send(to.osd, msg.encode(features::SUPPORTED), cx);
    }
    /// Our map of a range, as it was asked for by this epoch.
    pub(in crate::pg) fn scrub_map(self, to: PgShard, map: &ScrubMap, asked: Epoch, cx: &mut Cx<'_>) {
        let msg = MOSDRepScrubMap {
            pgid: self.pgid_at(to),
            map_epoch: asked,
            from: self.peering.whoami(),
            preempted: false,
            data: map.to_bytes(features::SUPPORTED),
        };
        send(to.osd, msg.encode(features::SUPPORTED), cx);
    }
}
