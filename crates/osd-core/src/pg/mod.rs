//! A placement group: the unit that orders, remembers and serves a share of a pool's objects.
//!
//! Holds the group as a value. A request passes these rooms, in this order:
//!
//! | room | holds |
//! |---|---|
//! | [`admit`] | what is asked of a request before its object is looked at; [`backoff`]: a group that can't serve for long |
//! | [`order`] | which requests on one object go on, and which wait; [`objects`]: every object's order and context |
//! | [`run`] | the object's context, the plan; [`wait`]: requests that wait for the store |
//! | [`submit`] | from the plan to the log and the store, and from the commit to the answer; [`replicate`]: writes in flight |
//! | [`account`] | what is counted of an answered request |
//!
//! Beside them: reads that a member serves which follows, in [`balanced`] by [`followed`]; how it peers in [`peering`] by the logs of members ([`logs`]), what it hears meanwhile in [`hear`], until when it may serve in [`lease`] and
//! [`leasing`], what it tells other members and hears of them as their primary in [`primary`], and as one that follows
//! a primary in [`replica`], how members get what they lack in [`recovery`] and [`backfill`] with the places of [`reserve`], what it remembers of requests in [`log`], watches in [`watch`] and [`watchers`], what it does by
//! itself in [`upkeep`], [`scrub`] and [`trim`], what is always true of it in [`invariants`],
//! what it reports in [`stats`], its part of the hashes in [`range`].

mod account;
mod admit;
mod at_store;
pub mod backfill;
mod backoff;
mod balanced;
mod followed;
mod hear;
mod invariants;
pub mod lease;
mod leasing;
pub mod lend;
pub mod log;
pub mod log_item;
pub mod logs;
pub(crate) mod notify_budget;
pub mod objects;
pub mod order;
pub mod peering;
mod primary;
pub mod range;
pub mod record;
mod recover;
pub mod recovery;
mod replica;
pub mod replicate;
pub mod reserve;
mod reserving;
mod run;
mod said;
pub(crate) mod scrub;
pub mod snaps;
pub mod split;
pub mod stats;
mod store_waiters;
mod submit;
mod tell;
mod trim;
mod trim_queue;
pub(crate) mod unfound;
pub mod upkeep;
mod wait;
pub mod watch;
mod watchers;

use crate::event::{ConnId, Effect};
use crate::planted::{Bug, planted};
use crate::request::ClientOp;
use crate::shared::Cx;
pub(crate) use at_store::slot_of;
use at_store::{AtStore, Submitted};
use base::Stamp;
use followed::Followed;
use lease::Lease;
use lend::Lender;
use maps::PgPool;
use objects::Objects;
use peering::{Mapping, PeerOut, Peering};
use record::Record;
use replicate::Replication;
use reserve::Reservation;
use said::Acknowledgement;
pub(crate) use said::{Said, Word};
use std::collections::VecDeque;
use std::rc::Rc;
use store::StoreError;
use store_waiters::StoreWaiters;
use tell::Tell;
use trim_queue::TrimQueue;
use types::{CollId, EVersion, Epoch, HObject, PastIntervals, PgShard, SnapContext, SpgId};

use watch::Watches;

/// One placement group on this OSD.
pub struct Pg {
    /// Its place among the OSD's groups: never given twice.
    pub slot: u32,
    pub pgid: SpgId,
    pub coll: CollId,
    pub pool: Rc<PgPool>,
    pub pool_name: Rc<str>,
    pool_snapc: SnapContext,
    pub record: Record,
    /// The newest map that the group has taken in. Behind the OSD's while a split or a merge waits for the group's store.
    pub(crate) epoch: Epoch,
    room: recovery::room::Room,
    pub peering: Peering,
    /// Until when the group may serve.
    pub lease: Lease,
    objects: Objects,
    inflight: Replication,
    at_store: AtStore,
    /// Writes of the primary that our store has and that are not acknowledged to it, in the order of their submission.
    to_acknowledge: VecDeque<Acknowledgement>,
    /// Writes of the primary that not every member may have.
    followed: Followed,
    /// What members said, while the first of it waits for the store.
    parked: VecDeque<(PgShard, Said)>,
    /// Requests that came before the group was active. Clients' are bounded by the OSD's budget; those of connections without a permit (metadata
    /// servers, managers, OSDs), and all of them where the budget has no bound, by `admit::WAITING_MAX`.
    waiting_active: VecDeque<Box<ClientOp>>,
    store_waiters: StoreWaiters,
    watches: Watches,
    pub(crate) trim: TrimQueue,
    pub(crate) scrubs: scrub::room::Room,
    /// Places for recovery and backfill, as the primary; and what we lend as another member.
    reservation: Reservation,
    lender: Lender,
    /// `PG_STATE_FORCED_*`: what an operator wants first.
    forced: u64,
}

impl Pg {
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        slot: u32,
        pgid: SpgId,
        pool: Rc<PgPool>,
        pool_name: Rc<str>,
        record: Record,
        past: PastIntervals,
        mapping: Mapping,
        creating: bool,
        cx: &Cx<'_>,
    ) -> Self {
        let pool_snapc = pool.snap_context();
        let epoch = mapping.epoch;
        let peering = Peering::new(pgid, cx.sh.whoami, mapping, past, creating, cx.clock.mono);
        let mut pg = Self {
            slot,
            pgid,
            coll: CollId::Pg(pgid),
            pool,
            pool_name,
            pool_snapc,
            epoch,
            room: recovery::room::Room::new(&cx.sh.recovery_slots),
            record,
            peering,
            lease: Lease::default(),
            objects: Objects::new(cx.sh.config.int("osd_pg_object_context_cache_count").max(16) as usize),
            inflight: Replication::default(),
            at_store: AtStore::new(pgid, slot),
            to_acknowledge: VecDeque::new(),
            followed: Followed::default(),
            parked: VecDeque::new(),
            waiting_active: VecDeque::new(),
            store_waiters: StoreWaiters::default(),
            watches: Watches::new(&cx.sh.notify_budget),
            trim: TrimQueue::default(),
            scrubs: scrub::room::Room::default(),
            reservation: Reservation::default(),
            lender: Lender::default(),
            forced: 0,
        };
        pg.peering.mapping.note_in(pg.record.stats_mut());
        pg
    }

    /// Everything that the group gave to its own store is durable.
    pub(crate) fn is_settled(&self) -> bool {
        self.at_store.is_empty()
    }
    /// The same, and nothing waits for another member.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_settled() && self.inflight.is_empty()
    }
    /// The group as it speaks to other members.
    pub(crate) fn tell(&self) -> Tell<'_> {
        Tell { pgid: self.pgid, record: &self.record, peering: &self.peering, lease: &self.lease }
    }
    /// A new map: the pool as it is now and where the group lies now.
    pub fn advance(&mut self, pool: Rc<PgPool>, pool_name: Rc<str>, mapping: Mapping, before: &maps::OsdMap, cx: &mut Cx<'_>) {
        assert!(mapping.epoch > self.epoch, "a group takes in maps in order");
        // What was in maps that the monitor has no more can't be known: another interval begins.
        let is_gap = mapping.epoch > self.epoch + 1;
        self.epoch = mapping.epoch;
        self.pool_snapc = pool.snap_context();
        let was_full = self.pool.has(maps::pool_flags::FULL);
        if pool.has(maps::pool_flags::FULL) && !was_full {
            self.record.history_mut().last_epoch_marked_full = mapping.epoch;
        }
        (self.pool, self.pool_name) = (pool, pool_name);
        if !is_gap && !self.peering.is_new_interval(&mapping) {
            self.peering.keep_interval(mapping);
            return self.recovery_map(cx);
        }
        self.at_store.start_interval();
        self.lease.start_interval(&self.peering.mapping.acting, self.peering.is_primary(), cx.clock.mono);
        self.peering.start_interval(&mut self.record, mapping, before, cx.clock.mono);
        self.peering.mapping.note_in(self.record.stats_mut());
        self.record.forget_unsaved();
        cx.sh.report_soon = true;
        self.scrubs.end_interval();
        self.watches.clear();
        self.end_places(cx.sh);
        self.end_recovery(cx);
        if planted(Bug::AckAtIntervalEnd) {
            let held = self.inflight.end_interval().into_iter().filter_map(|mut op| Some((op.conn, op.unanswered.take()?.reply)));
            held.for_each(|(conn, reply)| cx.send(conn, reply));
        }
        self.requeue();
        backoff::release(self.pgid, cx);
    }

    /// The interval is over. Requests that are not answered wait until the group is active again, in their order on each object: writes in
    /// flight, reads that the store fetches for, then what waited behind them. If the group is elsewhere now, clients send them there.
    fn requeue(&mut self) {
        self.parked.clear();
        let mut requests = self.inflight.end_interval();
        requests.extend(self.store_waiters.end_interval());
        requests.extend(self.objects.end_interval());
        requests.extend(self.room.end_requests());
        requests.extend(self.scrubs.end_requests());
        if !self.peering.is_primary() {
            return self.waiting_active.clear();
        }
        requests.extend(self.waiting_active.drain(..));
        requests.sort_by_key(|op| op.received);
        for op in &mut requests {
            op.set_aside("waiting for peered");
            // The members of the next interval have not been asked for a good copy.
            op.was_inspected = false;
            op.passes.forget();
        }
        self.waiting_active = requests.into();
    }

    /// Peers as far as it goes; what others are to be told is returned.
    pub fn activate_map(&mut self, cx: &mut Cx<'_>) -> Vec<PeerOut> {
        if self.at_store.is_unsettled() {
            return Vec::new();
        }
        self.hear_parked(cx);
        let (mut out, mut entries) = (Vec::new(), None);
        let map = cx.sh.map.clone();
        loop {
            self.peering.step(&mut self.record, entries.is_some(), &*map, cx.clock.mono, &mut out);
            let Some(since) = self.peering.wants_log else { break };
            match cx.sh.store.pg_log(self.pgid, since, usize::MAX) {
                Ok(found) => entries = Some(found),
                Err(StoreError::Wait(_)) => break,
                Err(error) => {
                    cx.out.push(Effect::Stop { why: Some(format!("{}: its log: {error}", self.pgid)) });
                    break;
                }
            }
        }
        if out.contains(&PeerOut::Activate) {
            self.record.note_complete();
            let lease = self.grant_lease(cx);
            self.activate_members(&entries.unwrap_or_default(), lease, cx);
            self.save_info_as(Submitted::Activation(self.peering.last_peering_reset), cx);
        }
        if self.peering.is_active() {
            self.queue_snap_trims(cx);
            self.lease_due(cx);
        }
        if self.record.is_dirty() {
            self.save_info(cx);
        }
        if self.peering.is_stuck() {
            self.back_off_waiting(cx);
        }
        self.record.assert_agrees();
        self.assert_invariants();
        out
    }

    /// Something that this group gave to its own store is durable. True if peering waited for it.
    pub fn committed(&mut self, token: u64, cx: &mut Cx<'_>) -> bool {
        let was_unsettled = self.at_store.is_unsettled();
        match self.at_store.committed(token) {
            Submitted::Record => {}
            Submitted::Recovery => self.recovery_durable(cx),
            Submitted::Activation(since) => {
                if since == self.peering.last_peering_reset && self.peering.is_primary() {
                    self.member_activated(self.peering.whoami(), cx);
                } else if since == self.peering.last_peering_reset {
                    self.tell().activated(cx);
                }
            }
            Submitted::ReplicaWrite => self.replica_committed(cx),
            Submitted::Write(version) => self.arrived(self.peering.whoami(), version, cx),
        }
        self.assert_invariants();
        was_unsettled && !self.at_store.is_unsettled()
    }

    /// A member has committed a write: what every member has now is answered, in the order of versions.
    fn arrived(&mut self, from: PgShard, version: EVersion, cx: &mut Cx<'_>) {
        self.inflight.arrived(from, version);
        while let Some(done) = self.inflight.next_done() {
            let is_bare = done.request.is_none() && done.obj.is_none();
            self.finish(done, cx);
            if is_bare {
                self.go_on_with_given_up(cx);
            }
        }
    }

    fn on_active(&mut self, cx: &mut Cx<'_>) {
        cx.sh.report_soon = true;
        self.record.touch();
        self.save_info(cx);
        self.tell().info_to_all(cx);
        self.check_recovered(cx);
        cx.sh.merge_soon |= self.peering.is_premerge();
        self.begin_recovery(cx);
        if !self.peering.is_active() {
            return self.back_off_waiting(cx);
        }
        if self.pool.has(maps::pool_flags::CREATING) {
            let msg = messages::MOSDPGCreated { paxos: messages::Paxos::at(cx.sh.map.epoch.into()), pgid: self.pgid.pgid };
            cx.out.push(Effect::SendMon(messages::Message::encode(&msg, u64::MAX)));
        }
        backoff::release(self.pgid, cx);
        self.queue_snap_trims(cx);
        self.start_lease(cx);
        self.serve_waiting(cx);
    }

    /// The map has merged the group into one that is not here: it serves no longer.
    pub(crate) fn hold_for_merge(&mut self, epoch: Epoch, cx: &mut Cx<'_>) {
        self.epoch = epoch;
        self.requeue();
        self.waiting_active.clear();
        self.watches.clear();
        backoff::release(self.pgid, cx);
    }

    /// A connection is gone: watches wait for their clients, requests of it are dropped.
    pub fn reset(&mut self, conn: ConnId, now: Stamp) {
        self.watches.reset(conn, now);
        self.waiting_active.retain(|op| op.conn != conn);
        self.room.reset(conn);
        self.scrubs.reset(conn);
        self.inflight.reset(conn);
    }

    pub fn has_watches(&self) -> bool {
        !self.watches.is_empty()
    }
    /// Requests that are not answered: what each is and what it waits for.
    pub fn unanswered(&self) -> impl Iterator<Item = (&types::ReqId, &HObject, Stamp, &'static str)> {
        let waiting = self.waiting_active.iter().map(|op| &**op).chain(self.store_waiters.requests()).chain(self.objects.waiting());
        let waiting = waiting.chain(self.room.requests()).chain(self.scrubs.requests());
        let inflight = self.inflight.iter().filter_map(|f| Some((&f.reqid, f.obj.as_ref()?, f.received, "waiting for commit")));
        waiting.map(|op| (&op.reqid, &op.msg.hobj, op.received, op.waits_for)).chain(inflight)
    }
}
