//! A placement group: the unit that orders, remembers and serves a share of a pool's objects.
//!
//! Holds the group as a value; how it peers is in [`peering`], what it remembers of requests in [`log`], objects at hand in [`objects`], watches
//! in [`watch`], the path of a request in [`ops`], what it does by itself in [`upkeep`], what it reports in [`stats`].

pub mod log;
pub mod objects;
pub mod ops;
pub mod peering;
mod scrub;
pub mod snaps;
pub mod split;
pub mod stats;
pub mod upkeep;
pub mod watch;

use crate::event::{ConnId, Effect};
use crate::op::{Awaited, ObjectContext, WatchEffect};
use crate::request::ClientOp;
use crate::shared::Cx;
use base::Stamp;
use log::Log;
use maps::PgPool;
use messages::RawMessage;
use objects::Objects;
use peering::{Mapping, PeerOut, Peering};
use scrub::Scrub;
use std::collections::VecDeque;
use std::rc::Rc;
use types::{CollId, EVersion, Epoch, HObject, IntervalSet, PastIntervals, PgInfo, SnapContext, SpgId};
use watch::Watches;

/// A write that is submitted and not yet answered.
#[derive(Debug)]
pub struct InFlight {
    pub version: EVersion,
    /// True when our own store has it; other members will have their own mark.
    committed: bool,
    /// Whose writes readers wait for; `None` for entries that change nothing.
    obj: Option<HObject>,
    /// The answer; `None` for what the group does by itself, or when the client is gone.
    reply: Option<(ConnId, RawMessage)>,
    effects: Vec<WatchEffect>,
    /// Resends that came meanwhile: each with its answer.
    dups: Vec<(ConnId, RawMessage)>,
    received: Stamp,
    bytes_in: u64,
    bytes_out: u64,
    reads: bool,
    /// For `dump_ops_in_flight`.
    reqid: types::ReqId,
    /// What the request holds of the OSD's budget.
    #[expect(dead_code, reason = "what counts is when it is dropped")]
    permit: Option<base::Permit>,
}

/// What a store's completion means besides the version of an entry: the group's record; an activation.
const TOKEN_INFO: u64 = (1 << 40) - 1;
const TOKEN_ACTIVATION: u64 = TOKEN_INFO - 1;

/// One placement group on this OSD.
pub struct Pg {
    /// Its place among the OSD's groups: never given twice.
    pub slot: u32,
    pub pgid: SpgId,
    pub coll: CollId,
    pub pool: Rc<PgPool>,
    pub pool_name: Rc<str>,
    pool_snapc: SnapContext,
    pub info: PgInfo,
    pub log: Log,
    pub peering: Peering,
    objects: Objects,
    inflight: VecDeque<InFlight>,
    /// Requests that came before the group was active.
    waiting_active: VecDeque<Box<ClientOp>>,
    /// What the store fetches bytes for: the ticket, and who waits for it.
    waiting_store: Vec<(u64, StoreWaiter)>,
    watches: Watches,
    /// Removed snapshots whose clones are still here.
    snap_trimq: IntervalSet,
    /// Snapshots purged everywhere while this OSD was away, and not yet looked for here.
    missed_purges: IntervalSet,
    /// An activation whose record isn't durable yet.
    activating: u32,
    info_dirty: bool,
    /// The map that the record in the store names.
    saved_epoch: Epoch,
    /// A record that the store had no room for, as what it was to be committed.
    unsaved: Option<u64>,
    /// What the group does by itself waits for the store, or for room in it.
    store_waits: bool,
    /// How often the index of snapshots could not be read.
    snap_errors: u32,
    scrub_wanted: Option<bool>,
    scrub: Option<Scrub>,
}

/// Who waits until the store has fetched something.
#[derive(Debug)]
enum StoreWaiter {
    /// Requests on an object whose record is not at hand.
    Record(HObject),
    /// The first request in the order of an object at hand.
    First(HObject),
    /// A read of an object at hand, which counts it.
    Read(Box<ClientOp>),
    /// A read of an object that is not at hand, with its head's record; nothing of it is under way, and writes that come wait for the read.
    Passing(Box<ClientOp>, Box<ObjectContext>),
    /// One of these two of which only the bytes are missing: the second, if `true`.
    Answer(Box<ClientOp>, Awaited, bool),
    /// A request that has no place in an order.
    Request(Box<ClientOp>),
}

impl StoreWaiter {
    fn op(&self) -> Option<&Box<ClientOp>> {
        if let Self::Request(op) | Self::Read(op) | Self::Passing(op, _) | Self::Answer(op, ..) = self { Some(op) } else { None }
    }
    fn into_op(self) -> Option<Box<ClientOp>> {
        if let Self::Request(op) | Self::Read(op) | Self::Passing(op, _) | Self::Answer(op, ..) = self { Some(op) } else { None }
    }
}

impl Pg {
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        slot: u32,
        pgid: SpgId,
        pool: Rc<PgPool>,
        pool_name: Rc<str>,
        info: PgInfo,
        past: PastIntervals,
        mapping: Mapping,
        creating: bool,
        cx: &Cx<'_>,
    ) -> Self {
        let pool_snapc = pool.snap_context();
        let peering = Peering::new(pgid, cx.sh.whoami, mapping, past, creating, cx.clock.mono);
        let mut pg = Self {
            slot,
            pgid,
            coll: CollId::Pg(pgid),
            pool,
            pool_name,
            pool_snapc,
            log: Log::default(),
            info,
            peering,
            objects: Objects::new(cx.sh.config.int("osd_pg_object_context_cache_count").max(16) as usize),
            inflight: VecDeque::new(),
            waiting_active: VecDeque::new(),
            waiting_store: Vec::new(),
            watches: Watches::default(),
            snap_trimq: IntervalSet::new(),
            missed_purges: IntervalSet::new(),
            activating: 0,
            info_dirty: true,
            saved_epoch: 0,
            unsaved: None,
            store_waits: false,
            snap_errors: 0,
            scrub_wanted: None,
            scrub: None,
        };
        pg.note_mapping();
        pg
    }

    /// What the store is to say when a transaction is durable: the group's place and the log's version, or [`TOKEN_INFO`].
    fn token(&self, version: u64) -> u64 {
        (self.slot as u64) << 40 | version & TOKEN_INFO
    }
    /// The group's place out of a token.
    pub fn slot_of(token: u64) -> u32 {
        (token >> 40) as u32
    }
    pub fn next_version(&self, epoch: Epoch) -> EVersion {
        EVersion::new(epoch, self.log.head().version + 1)
    }
    /// Nothing is submitted that isn't durable.
    pub fn is_idle(&self) -> bool {
        self.inflight.is_empty() && self.activating == 0
    }

    /// A new map: the pool as it is now and where the group lies now.
    pub fn advance(&mut self, pool: Rc<PgPool>, pool_name: Rc<str>, mapping: Mapping, before: &maps::OsdMap, cx: &mut Cx<'_>) {
        self.pool_snapc = pool.snap_context();
        let was_full = self.pool.has(maps::pool_flags::FULL);
        if pool.has(maps::pool_flags::FULL) && !was_full {
            self.info.history.last_epoch_marked_full = mapping.epoch;
        }
        (self.pool, self.pool_name) = (pool, pool_name);
        if !self.peering.is_new_interval(&mapping) {
            self.peering.keep_interval(mapping);
            return;
        }
        self.peering.start_interval(&mut self.info, mapping, before, cx.clock.mono);
        self.note_mapping();
        self.info_dirty = true;
        cx.sh.report_soon = true;
        self.activating = 0;
        (self.unsaved, self.scrub) = (None, None);
        self.watches.clear();
        // What waited is looked at again when the group is active; if that is elsewhere now, clients send it there.
        let waiters = self.objects.clear();
        let stored = std::mem::take(&mut self.waiting_store).into_iter().filter_map(|(_, waiter)| waiter.into_op());
        if self.peering.is_primary() {
            self.waiting_active.extend(waiters.into_iter().chain(stored));
            self.waiting_active.make_contiguous().sort_by_key(|op| op.received);
        } else {
            self.waiting_active.clear();
            self.inflight.iter_mut().for_each(|f| f.reply = None);
        }
        self.release_backoffs(cx);
    }

    fn note_mapping(&mut self) {
        let (m, s) = (&self.peering.mapping, &mut self.info.stats);
        if s.up != m.up || s.acting != m.acting || s.up_primary != m.up_primary || s.acting_primary != m.acting_primary {
            s.up.clone_from(&m.up);
            s.acting.clone_from(&m.acting);
            (s.up_primary, s.acting_primary, s.mapping_epoch) = (m.up_primary, m.acting_primary, m.epoch);
        }
    }

    /// Peers as far as it goes; what others are to be told is returned.
    pub fn activate_map(&mut self, cx: &mut Cx<'_>) -> Vec<PeerOut> {
        let mut out = Vec::new();
        let map = cx.sh.map.clone();
        self.peering.step(&mut self.info, &*map, cx.clock.mono, &mut out);
        if out.contains(&PeerOut::Activate) {
            self.activating += 1;
            self.save_info_as(TOKEN_ACTIVATION, cx);
        }
        if self.peering.is_active() {
            self.queue_snap_trims(cx);
        }
        if self.info_dirty {
            self.save_info(cx);
        }
        if self.peering.is_peered_only() || self.peering.state() == peering::State::Down {
            self.back_off_waiting(cx);
        }
        out
    }

    /// Something that this group submitted is durable.
    pub fn committed(&mut self, token: u64, cx: &mut Cx<'_>) {
        let version = token & TOKEN_INFO;
        if version == TOKEN_INFO {
            return;
        }
        if version == TOKEN_ACTIVATION {
            if self.activating > 0 {
                self.activating -= 1;
                if self.activating == 0 {
                    self.peering.activated(&mut self.info, cx.clock.mono);
                    self.on_active(cx);
                }
            }
            return;
        }
        if let Some(f) = self.inflight.iter_mut().find(|f| f.version.version & TOKEN_INFO == version) {
            f.committed = true;
        }
        while self.inflight.front().is_some_and(|f| f.committed) {
            let done = self.inflight.pop_front().expect("looked at above");
            self.finish(done, cx);
        }
    }

    fn on_active(&mut self, cx: &mut Cx<'_>) {
        cx.sh.report_soon = true;
        self.info_dirty = true;
        self.save_info(cx);
        cx.sh.merge_soon |= self.peering.is_premerge();
        if !self.peering.is_active() {
            return self.back_off_waiting(cx);
        }
        if self.pool.has(maps::pool_flags::CREATING) {
            let msg = messages::MOSDPGCreated { paxos: messages::Paxos::at(cx.sh.map.epoch.into()), pgid: self.pgid.pgid };
            cx.out.push(Effect::SendMon(messages::Message::encode(&msg, u64::MAX)));
        }
        self.release_backoffs(cx);
        self.queue_snap_trims(cx);
        for op in std::mem::take(&mut self.waiting_active) {
            self.client_op(op, cx);
        }
    }

    /// After a start: the log as the store has it, and the map that its record names.
    pub(crate) fn take_log(&mut self, log: Log, saved_epoch: Epoch) {
        (self.log, self.saved_epoch, self.info_dirty) = (log, saved_epoch, false);
    }

    /// A connection is gone: watches wait for their clients, requests of it are dropped.
    pub fn reset(&mut self, conn: ConnId, now: Stamp) {
        self.watches.reset(conn, now);
        self.waiting_active.retain(|op| op.conn != conn);
    }

    /// Removed snapshots whose clones are still here.
    pub fn trim_queue(&self) -> &IntervalSet {
        &self.snap_trimq
    }
    pub fn has_watches(&self) -> bool {
        !self.watches.is_empty()
    }
    /// Requests that are not answered: what each is and what it waits for.
    pub fn unanswered(&self) -> impl Iterator<Item = (&types::ReqId, &HObject, Stamp, &'static str)> {
        let waiting = self
            .waiting_active
            .iter()
            .chain(self.waiting_store.iter().filter_map(|(_, w)| w.op()))
            .map(|op| &**op)
            .chain(self.objects.waiting());
        let inflight = self.inflight.iter().filter_map(|f| Some((&f.reqid, f.obj.as_ref()?, f.received, "waiting for commit")));
        waiting.map(|op| (&op.reqid, &op.msg.hobj, op.received, op.waits_for)).chain(inflight)
    }
}
