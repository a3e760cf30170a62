//! A placement group: the unit that orders, remembers and serves a share of a pool's objects.
//!
//! A group is five owners:
//!
//! | owner | holds |
//! |---|---|
//! | [`requests`] | clients' requests from admission to accounting, what is at hand of their objects, watches |
//! | [`record`] | info, log and missing objects; [`reconcile`]: how logs of several members become one |
//! | [`members`] | peering, what is heard of members and said to them, leases, what the group reports |
//! | [`backend`] | how objects lie on members, and writes in flight |
//! | [`work`] | what the group does by itself: recovery, backfill, scrub, trimming, and the places for it |
//!
//! Record, members and back end are one argument to the other two, the [`group`]; each of those has the other as an argument. Here: what an event means for
//! each of them, in order. What other members say comes in by [`hear`], splits and merges are in [`split`], what others want to know of the group is in
//! [`told`]. Beside them: what is always true of it in [`invariants`], its part of the hashes in [`range`], the index of its clones in [`snaps`].
//! Lists of objects have names as [`short_name`]s.

mod asked;
pub mod backend;
mod group;
mod hear;
mod invariants;
pub mod members;
pub mod range;
pub mod reconcile;
pub mod record;
pub mod requests;
mod short_name;
pub mod snaps;
pub mod split;
mod told;
pub mod work;

use crate::event::{ConnId, Effect};
use crate::planted::{Bug, planted};
use crate::shared::Cx;
use backend::Backend;
use backend::at_store::Submitted;
pub(crate) use backend::at_store::slot_of;
use backend::layout::Layout;
use base::Stamp;
use group::Group;
use maps::{OsdMap, PgPool, pool_flags};
use members::Members;
use members::peering::{Mapping, PeerOut, Peering};
pub(crate) use members::said::{InOrder, Said, Word};
use messages::{MOSDPGCreated, Message, Paxos};
use record::Record;
use requests::{Requests, backoff};
use std::rc::Rc;
use store::StoreError;
use types::{CollId, EVersion, Epoch, PastIntervals, PgShard, SpgId};
use work::Jobs;

/// One placement group on this OSD.
pub struct Pg {
    /// Its place among the OSD's groups: never given twice.
    pub slot: u32,
    pub pgid: SpgId,
    group: Group,
    requests: Requests,
    work: Jobs,
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
        let (pool_snapc, epoch) = (pool.snap_context(), mapping.epoch);
        let backend = Backend::new(pgid, slot, Layout::of(&pool));
        let members = Members::new(Peering::new(pgid, backend.layout(), cx.sh.whoami, mapping, past, creating, cx.clock.mono));
        let mut group = Group { pgid, coll: CollId::Pg(pgid), pool, pool_name, pool_snapc, epoch, record, members, backend };
        group.members.peering.mapping.note_in(group.record.stats_mut());
        Self { slot, pgid, group, requests: Requests::new(cx.sh), work: Jobs::new(cx.sh) }
    }

    /// A new map: the pool as it is now and where the group lies now.
    pub fn advance(&mut self, pool: Rc<PgPool>, pool_name: Rc<str>, mapping: Mapping, before: &OsdMap, cx: &mut Cx<'_>) {
        assert!(mapping.epoch > self.group.epoch, "a group takes in maps in order");
        // What was in maps that the monitor has no more can't be known: another interval begins.
        let is_gap = mapping.epoch > self.group.epoch + 1;
        self.group.epoch = mapping.epoch;
        self.group.pool_snapc = pool.snap_context();
        let was_full = self.group.pool.has(pool_flags::FULL);
        if pool.has(pool_flags::FULL) && !was_full {
            self.group.record.history_mut().last_epoch_marked_full = mapping.epoch;
        }
        (self.group.pool, self.group.pool_name) = (pool, pool_name);
        if !is_gap && !self.group.members.peering.is_new_interval(&mapping) {
            self.group.members.peering.keep_interval(mapping);
            return self.work.recovery_map(&mut self.requests, &mut self.group, cx);
        }
        self.group.backend.start_interval();
        let (served, led) =
            (self.group.members.peering.acting().map(|member| member.osd).collect::<Vec<_>>(), self.group.members.peering.is_primary());
        self.group.members.lease.start_interval(&served, led, cx.clock.mono);
        self.group.members.peering.start_interval(&mut self.group.record, mapping, before, cx.clock.mono);
        self.group.members.peering.mapping.note_in(self.group.record.stats_mut());
        self.group.record.forget_unsaved();
        cx.sh.wishes.report_soon = true;
        self.work.scrubs_mut().end_interval();
        self.requests.forget_watches();
        self.work.end_places(&self.group, cx.sh);
        self.work.end_recovery(&mut self.requests, &mut self.group, cx);
        if planted(Bug::AckAtIntervalEnd) {
            let held = self.group.backend.end_writes().into_iter().filter_map(|mut op| Some((op.conn, op.unanswered.take()?.reply)));
            held.for_each(|(conn, reply)| cx.send(conn, reply));
        }
        self.requests.requeue(&mut self.work, &mut self.group);
        backoff::release(self.group.pgid, cx);
    }

    /// Peers as far as it goes; what the monitor is to be told is returned.
    pub fn activate_map(&mut self, cx: &mut Cx<'_>) -> Vec<PeerOut> {
        if self.group.backend.is_unsettled() {
            return Vec::new();
        }
        self.hear_parked(cx);
        let (mut out, mut entries) = (Vec::new(), None);
        let map = cx.sh.map.clone();
        loop {
            self.group.members.peering.step(&mut self.group.record, entries.is_some(), &*map, cx.clock.mono, &mut out);
            let Some(since) = self.group.members.peering.wants_log else { break };
            match cx.sh.store.pg_log(self.group.pgid, since, usize::MAX) {
                Ok(found) => entries = Some(found),
                Err(StoreError::Wait(_)) => break,
                Err(error) => {
                    cx.out.push(Effect::Stop { why: Some(format!("{}: its log: {error}", self.group.pgid)) });
                    break;
                }
            }
        }
        if out.contains(&PeerOut::Activate) {
            self.group.record.note_complete();
            let lease = self.group.members.grant_lease(&self.group.pool, cx);
            self.group.members.activate_members(&entries.unwrap_or_default(), lease, &self.group.record, cx);
            self.group.save_info_as(Submitted::Activation(self.group.members.peering.last_peering_reset), cx);
        }
        if self.group.members.peering.is_active() {
            self.work.queue_snap_trims(&mut self.requests, &mut self.group, cx);
            self.lease_due(cx);
        }
        if self.group.record.is_dirty() {
            self.group.save_info(cx);
        }
        if self.group.members.peering.is_stuck() {
            self.requests.back_off_waiting(&self.group, cx);
        }
        self.group.record.assert_agrees();
        self.group.assert_invariants();
        out.retain(|one| self.group.members.is_for_monitor(one, &self.group.record, cx));
        out
    }

    /// Something that this group gave to its own store is durable. True if peering waited for it.
    pub fn committed(&mut self, token: u64, cx: &mut Cx<'_>) -> bool {
        let was_unsettled = self.group.backend.is_unsettled();
        match self.group.backend.committed(token) {
            Submitted::Record => {}
            Submitted::Recovery => self.work.recovery_durable(&mut self.requests, &mut self.group, cx),
            Submitted::Activation(since) => {
                if since == self.group.members.peering.last_peering_reset && self.group.members.peering.is_primary() {
                    self.member_activated(self.group.members.peering.whoami(), cx);
                } else if since == self.group.members.peering.last_peering_reset {
                    self.group.tell().activated(cx);
                }
            }
            Submitted::ReplicaWrite => self.group.replica_committed(cx),
            Submitted::Write(version) => self.arrived(self.group.members.peering.whoami(), version, cx),
        }
        self.group.assert_invariants();
        was_unsettled && !self.group.backend.is_unsettled()
    }

    /// A member has committed a write: what every member has now is answered, in the order of versions.
    fn arrived(&mut self, from: PgShard, version: EVersion, cx: &mut Cx<'_>) {
        self.group.backend.arrived(from, version);
        while let Some(done) = self.group.backend.next_done() {
            let is_bare = done.request.is_none() && done.obj.is_none();
            self.requests.finish(done, &mut self.work, &mut self.group, cx);
            if is_bare {
                self.work.go_on_with_given_up(&mut self.requests, &mut self.group, cx);
            }
        }
    }
    fn on_active(&mut self, cx: &mut Cx<'_>) {
        cx.sh.wishes.report_soon = true;
        self.group.record.touch();
        self.group.save_info(cx);
        self.group.tell().info_to_all(cx);
        self.work.check_recovered(&mut self.group, cx);
        cx.sh.wishes.merge_soon |= self.group.members.peering.is_premerge();
        self.work.begin_recovery(&mut self.requests, &mut self.group, cx);
        if !self.group.members.peering.is_active() {
            return self.requests.back_off_waiting(&self.group, cx);
        }
        if self.group.pool.has(pool_flags::CREATING) {
            let msg = MOSDPGCreated { paxos: Paxos::at(cx.sh.map.epoch.into()), pgid: self.group.pgid.pgid };
            cx.out.push(Effect::SendMon(msg.encode(u64::MAX)));
        }
        backoff::release(self.group.pgid, cx);
        self.work.queue_snap_trims(&mut self.requests, &mut self.group, cx);
        self.group.members.start_lease(&self.group.pool, &self.group.record, cx);
        self.requests.serve_waiting(&mut self.work, &mut self.group, cx);
    }

    /// The map has merged the group into one that is not here: it serves no longer.
    pub(crate) fn hold_for_merge(&mut self, epoch: Epoch, cx: &mut Cx<'_>) {
        self.group.epoch = epoch;
        self.requests.requeue(&mut self.work, &mut self.group);
        self.requests.drop_all();
        backoff::release(self.group.pgid, cx);
    }

    /// A connection is gone: watches wait for their clients, requests of it are dropped.
    pub fn reset(&mut self, conn: ConnId, now: Stamp) {
        self.requests.reset(conn, now);
        self.work.reset(conn);
        self.group.backend.reset(conn);
    }
    /// About once a second.
    pub fn tick(&mut self, cx: &mut Cx<'_>) {
        if let Some(what) = self.group.record.take_unsaved() {
            self.group.save_info_as(what, cx);
        }
        self.group.members.activate_again(&self.group.pool, &self.group.record, cx);
        self.requests.tick_watches(&mut self.work, &mut self.group, cx);
        self.work.tick(&mut self.requests, &mut self.group, cx);
    }
    /// The store has what these tickets (ascending) stand for.
    pub fn store_ready(&mut self, tickets: &[u64], cx: &mut Cx<'_>) {
        self.requests.store_ready(tickets, &mut self.work, &mut self.group, cx);
        self.work.wake_work(|work| work.store_ready(tickets), &mut self.requests, &mut self.group, cx);
    }
    /// Time passes, or another map came.
    pub(crate) fn lease_due(&mut self, cx: &mut Cx<'_>) {
        if !self.group.members.peering.is_active() {
            return;
        }
        let before = self.group.members.lease.bits();
        let is_over = self.group.members.settle_lease(cx);
        if self.group.members.lease.pass(cx.clock.mono) || is_over {
            self.requests.serve_waiting(&mut self.work, &mut self.group, cx);
        }
        // It may have waited for the lease alone.
        self.work.check_recovered(&mut self.group, cx);
        if self.group.members.lease.is_due(cx.clock.mono) || planted(Bug::RenewAlways) {
            self.group.members.renew_lease(&self.group.pool, &self.group.record, cx);
            // Members go on to serve what was written last, though no write follows.
            if let Some(upto) = self.group.backend.untold() {
                self.group.tell().everywhere(upto, cx);
            }
        }
        cx.sh.wishes.report_soon |= self.group.members.lease.bits() != before;
        self.group.members.note_deadline(cx);
    }
}
