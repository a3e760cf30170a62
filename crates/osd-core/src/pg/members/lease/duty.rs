//! A group's lease on its OSD: when it is granted, what members say to each other of it, and the requests that wait for it.
//!
//! The rules are [`super`]'s; when they are looked at is said here. Requests that came while the lease had lapsed, or while former
//! intervals might still be served, wait where those wait that came before the group was active.

use crate::pg::members::Members;
use crate::pg::members::peering::State;
use crate::pg::record::Record;
use crate::planted::{Bug, planted};
use crate::shared::Cx;
use maps::{OptKey, OsdMap, PgPool};
use messages::{MOSDPGLease, PgLease};
use std::time::Duration;
use types::{OsdId, PgShard};

/// True if the map shows that this life of an OSD, or one after it, was over: it serves nothing.
fn is_dead(map: &OsdMap, osd: OsdId) -> bool {
    let (info, xinfo) = (map.osd_info.get(osd as usize), map.osd_xinfo.get(osd as usize));
    let is_over = info.zip(xinfo).is_some_and(|(info, xinfo)| xinfo.dead_epoch > info.up_from);
    map.exists(osd) && !map.is_up(osd) && (is_over || planted(Bug::TakeDownForDead))
}

/// The pool's `read_lease_interval`, or the heartbeats' grace times `osd_pool_default_read_lease_ratio`.
fn lease_interval(pool: &PgPool, cx: &Cx<'_>) -> Duration {
    let config = &cx.sh.config;
    let grace_s = config.num("osd_heartbeat_grace") * config.num("osd_pool_default_read_lease_ratio");
    let interval_s = pool.opts.double(OptKey::READ_LEASE_INTERVAL).unwrap_or(grace_s);
    Duration::from_secs_f64(interval_s.clamp(0.001, 86_400.0))
}

impl Members {
    /// The OSD starts with this group. Another member may serve still, by what an earlier life of ours granted or acknowledged.
    pub(crate) fn resume_lease(&mut self, pool: &PgPool, cx: &Cx<'_>) {
        if (pool.size > 1 || self.peering.mapping.serving() > 1) && !planted(Bug::ForgetLeaseAtStart) {
            self.lease.resumed(lease_interval(pool, cx), cx.clock.mono);
        }
    }
    /// True if the group serves clients now.
    #[inline]
    pub(in crate::pg) fn serves(&self, cx: &Cx<'_>) -> bool {
        self.peering.is_active() && self.lease.may_serve(cx.clock.mono)
    }
    /// What the group is to be told of at the latest.
    pub(in crate::pg) fn note_deadline(&self, cx: &mut Cx<'_>) {
        if let Some(at) = self.lease.deadline().filter(|_| self.peering.is_active()) {
            cx.sh.wishes.wake_at(at);
        }
    }
    /// The interval starts: what members are told with it. None if there are no others, or the group is to serve nothing.
    pub(in crate::pg) fn grant_lease(&mut self, pool: &PgPool, cx: &Cx<'_>) -> Option<PgLease> {
        self.settle_lease(cx);
        if !self.peering.mapping.may_serve() || self.peering.pending_merge().is_some() {
            return None;
        }
        let others = self.peering.others().map(|member| member.osd);
        self.lease.grant(others, lease_interval(pool, cx), cx.clock.mono)
    }
    /// Looks whether former intervals are over because each of their members is dead or follows this one.
    pub(in crate::pg) fn settle_lease(&mut self, cx: &Cx<'_>) -> bool {
        if !self.lease.waits() {
            return false;
        }
        let (map, peering) = (&cx.sh.map, &self.peering);
        // An interval is forgotten when all members of a later one are of it. Others of it may still serve, so every participant counts.
        let is_counted = |member: &PgShard| {
            !planted(Bug::CountKnownIntervals) || peering.past.intervals.iter().any(|interval| interval.acting.contains(member))
        };
        let past = peering.past.all_participants.iter().filter(|member| is_counted(member)).map(|member| member.osd);
        let has_answered = |osd| peering.peers().keys().chain(peering.members()).any(|member| member.osd == osd);
        self.lease.settle(past, |osd| osd == peering.whoami().osd || has_answered(osd) || is_dead(map, osd))
    }
    /// The group serves from now on.
    pub(in crate::pg) fn start_lease(&mut self, pool: &PgPool, record: &Record, cx: &mut Cx<'_>) {
        // Activation took its time.
        if self.lease.is_worn(cx.clock.mono) {
            self.renew_lease(pool, record, cx);
        }
        self.note_deadline(cx);
    }
    /// Members hear of a lease that ends later, if there is one.
    pub(in crate::pg) fn renew_lease(&mut self, pool: &PgPool, record: &Record, cx: &mut Cx<'_>) -> Option<PgLease> {
        let lease = self.lease.renew(lease_interval(pool, cx), cx.clock.mono)?;
        self.tell(record).lease(lease, cx);
        Some(lease)
    }

    /// The primary's lease, in a message of its own.
    pub(crate) fn lease_came(&mut self, from: PgShard, m: &MOSDPGLease, record: &Record, cx: &mut Cx<'_>) {
        if !self.peering.is_of_primary(from, m.epoch) || self.peering.state() != State::ReplicaActive {
            return;
        }
        self.take_lease(&m.lease, cx);
        if let Some(ack) = self.lease.acknowledgement() {
            self.tell(record).lease_heard(ack, cx);
        }
    }
    /// The primary's lease, wherever it came from.
    pub(in crate::pg) fn take_lease(&mut self, lease: &PgLease, cx: &Cx<'_>) {
        let primary = self.peering.primary().osd;
        let up_from = cx.sh.map.osd_info.get(primary as usize).map_or(0, |i| i.up_from);
        let ahead_ns = (cx.sh.clocks.least_ns(primary, up_from), cx.sh.clocks.most_ns(primary, up_from));
        self.lease.granted(lease, ahead_ns, cx.clock.mono);
    }
}
