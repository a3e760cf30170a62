//! All that placement groups of a shard share, and what one event gives to work with.
//!
//! | file | holds |
//! |---|---|
//! | [`bounds`] | how much all groups of the OSD do together |
//! | [`wishes`] | what groups want of others |
//! | [`counters`] | what is counted for others to see |
//!
//! Here: the store, the map, sessions and options, which groups work with.

mod bounds;
mod counters;
mod wishes;

use crate::clocks::Clocks;
use crate::config::Config;
use crate::event::{ConnId, Effect, Level};
use crate::fetch::OWN_CONN;
use crate::map_cache::Maps;
use crate::op::Limits;
use crate::pg::record::log::WordHash;
use crate::request::{ClientOp, error_reply};
use crate::session::Session;
use crate::setup::OsdSetup;
use crate::timed_store::TimedStore;
use crate::work::Turns;
use base::breadcrumb::Breadcrumb;
use base::fixed::HashMap;
use base::{Clock, Rng};
use bounds::{Bounds, LogBounds};
use classes::Registry;
use counters::Counters;
use maps::{OsdMap, osd_state};
use messages::RawMessage;
use std::rc::Rc;
use std::sync::Arc;
use store::ObjectStore;
use types::{EVersion, EntityName, Epoch, OsdId, ReqId, SpgId, UTime, Uuid, features};
use wishes::Wishes;

/// One shard's common things. Of what Control has it holds copies, as Control told them last.
pub struct Shared {
    pub whoami: OsdId,
    pub store: TimedStore,
    /// The map in force; epoch 0 before the first.
    pub map: Rc<OsdMap>,
    /// Maps of before.
    pub(crate) maps: Maps,
    pub(crate) cluster_fsid: Uuid,
    /// The map has this OSD up where it listens.
    pub(crate) serves: bool,
    pub sessions: HashMap<ConnId, Session, WordHash>,
    pub classes: &'static Registry,
    pub config: Rc<Config>,
    /// Bytes that the process can spare for the store's caches, whatever options say.
    spare_for_caches: u64,
    pub limits: Limits,
    pub(crate) log_bounds: LogBounds,
    pub(crate) bounds: Bounds,
    pub(crate) wishes: Wishes,
    pub counters: Counters,
    pub rng: Rng,
    pub(crate) turns: Turns,
    pub(crate) notify_ids: u32,
    pub(crate) internal_tids: u64,
    /// Where the loop stands, for another thread.
    pub(crate) crumb: Arc<Breadcrumb>,
    /// How clocks of other OSDs differ from ours.
    pub(crate) clocks: Clocks,
    /// Features that every OSD of the map has: what is persisted is encoded with them.
    pub osd_features: u64,
}

/// What an OSD takes beside its store's caches and clients' messages: the program, connections, maps, logs of groups.
const MEMORY_BESIDES: u64 = 64 << 20;

impl Shared {
    pub(crate) fn new(setup: &OsdSetup, config: Rc<Config>, store: Box<dyn ObjectStore>, maps: Maps, crumb: Arc<Breadcrumb>) -> Self {
        Self {
            whoami: setup.whoami,
            store: TimedStore::new(store),
            map: Rc::default(),
            maps,
            cluster_fsid: setup.cluster_fsid,
            serves: false,
            sessions: HashMap::default(),
            classes: setup.classes,
            limits: config.limits(),
            log_bounds: LogBounds::of(&config),
            bounds: Bounds::new(&config),
            config,
            spare_for_caches: u64::MAX,
            wishes: Wishes::default(),
            counters: Counters::default(),
            rng: Rng::new(setup.seed),
            turns: Turns::default(),
            notify_ids: 1,
            internal_tids: 0,
            crumb,
            clocks: Clocks::default(),
            osd_features: features::SUPPORTED,
        }
    }
    /// Why an OSD ends that has lost sight of what it has of a group: one that is up keeps the group's other members and clients waiting for ever.
    pub(crate) fn why_it_ends(&self, pgid: SpgId, what: &str) -> String {
        let how = self.store.damage().unwrap_or_else(|| "run `humboldt store --dir DIR repair`".into());
        format!("group {pgid} {what}. OSDs with other copies of it serve while this one is down; {how}, and start it again")
    }
    /// Options have changed: what is asked for with each request is looked up once.
    pub(crate) fn take_config(&mut self, config: Rc<Config>) {
        self.config = config;
        self.limits = self.config.limits();
        self.log_bounds = LogBounds::of(&self.config);
        self.bounds.configure(&self.config);
        self.bound_caches();
        self.store.gives_back(self.config.get("bdev_enable_discard") == Some("true"));
        self.counters.history.configure(&self.config);
    }
    /// The process can spare so many bytes for the store's caches from now on.
    pub(crate) fn take_spare(&mut self, bytes: u64) {
        self.spare_for_caches = bytes;
        self.bound_caches();
    }
    fn bound_caches(&mut self) {
        // What clients have under way is bounded by itself; the store's caches give way to all the rest.
        let besides = self.config.int("osd_client_message_size_cap") + MEMORY_BESIDES;
        let caches = self.config.int("osd_memory_target").saturating_sub(besides).min(self.spare_for_caches);
        self.store.limit_memory(usize::try_from(caches).unwrap_or(usize::MAX));
    }
    /// How many entries a group's log shall have.
    pub fn log_target(&self) -> usize {
        self.log_bounds.target(self.bounds.num_pgs)
    }
    /// True if the store takes this many bytes of data, see [`Bounds::has_room`].
    pub fn has_room(&mut self, bytes: u64) -> bool {
        self.bounds.has_room(bytes, || self.store.statfs())
    }
    /// True if the store is as full as the map lets it get, or our OSD is marked so; `came`: bytes that recovery has brought since.
    pub fn is_full(&mut self, came: u64) -> bool {
        let is_full = self.bounds.is_full(came, self.map.full_ratio, || self.store.statfs());
        is_full || self.map.state(self.whoami) & osd_state::FULL != 0
    }
    pub fn epoch(&self) -> Epoch {
        self.map.epoch
    }
}

/// What one event gives: when it is, and where its effects go.
pub struct EventCx<'a> {
    pub clock: Clock,
    pub out: &'a mut Vec<Effect>,
}

impl EventCx<'_> {
    /// With what groups share: a group's context.
    #[inline]
    pub fn with<'b>(&'b mut self, sh: &'b mut Shared) -> Cx<'b> {
        Cx { sh, clock: self.clock, out: self.out }
    }
}

/// What one event gives a group.
pub struct Cx<'a> {
    pub sh: &'a mut Shared,
    pub clock: Clock,
    pub out: &'a mut Vec<Effect>,
}

impl Cx<'_> {
    #[inline]
    pub fn send(&mut self, conn: ConnId, msg: RawMessage) {
        if conn == OWN_CONN {
            self.sh.wishes.own_answers.push(msg);
            return;
        }
        self.out.push(Effect::Send { conn, msg });
    }
    /// Answers a request with an error.
    pub fn reply_error(&mut self, op: &ClientOp, errno: i32) {
        let reply = error_reply(&op.msg, -errno, self.sh.map.epoch, EVersion::ZERO, 0, None);
        self.send(op.conn, reply);
    }
    /// A name for a request of the OSD's own.
    pub fn own_reqid(&mut self) -> ReqId {
        self.sh.internal_tids += 1;
        ReqId { name: EntityName::osd(self.sh.whoami.into()), tid: self.sh.internal_tids, inc: self.sh.map.epoch as i32 }
    }
    pub fn log(&mut self, level: Level, text: String) {
        self.out.push(Effect::Log { level, text });
    }
    pub fn now(&self) -> UTime {
        UTime::from_wall_ns(self.clock.wall_ns)
    }
}
