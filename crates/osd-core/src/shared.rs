//! What all placement groups of a shard share, and what one event gives to work with.

use crate::config::Config;
use crate::event::{ConnId, Effect, Level};
use crate::joint::ToControl;
use crate::map_cache::Maps;
use crate::op::Limits;
use crate::perf::Perf;
use crate::pg::log::WordHash;
use crate::pg::work::recovery::host::{Pace, Slots};
use crate::request::{ClientOp, error_reply};
use crate::reserver::Reserver;
use crate::session::Session;
use crate::timed_store::TimedStore;
use base::breadcrumb::Breadcrumb;
use base::fixed::HashMap;
use base::{Clock, Rng};
use classes::Registry;
use maps::OsdMap;
use messages::RawMessage;
use std::rc::Rc;
use std::sync::Arc;
use types::{EVersion, EntityName, Epoch, OsdId, ReqId, SpgId, UTime, Uuid};

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
    pub limits: Limits,
    pub log_bounds: LogBounds,
    pub perf: Perf,
    pub rng: Rng,
    pub(crate) turns: crate::work::Turns,
    /// Some group's state changed: the manager hears of it before its period is over.
    pub(crate) report_soon: bool,
    /// Some group got quiet for a merge.
    pub(crate) merge_soon: bool,
    /// Something names a map that is not here.
    pub(crate) wants_maps: bool,
    /// The store had no room for a change.
    pub(crate) store_refused: bool,
    /// There was no group in the store when the first map came.
    pub(crate) found_no_group: bool,
    /// Backfill must not make the store fuller.
    pub(crate) is_backfillfull: bool,
    /// Placement groups here: the log's length goes by it.
    pub num_pgs: usize,
    /// What groups want of others.
    pub(crate) fetches: Vec<crate::fetch::Fetch>,
    /// Answers to questions that we asked ourselves.
    pub(crate) own_answers: Vec<RawMessage>,
    pub(crate) notify_ids: u32,
    /// What notifies of all groups hold.
    pub(crate) notify_budget: Rc<crate::pg::requests::watch::budget::NotifyBudget>,
    /// Objects that groups recover at a time.
    pub(crate) recovery_slots: Rc<Slots>,
    /// Scrubs that it takes part in.
    pub(crate) scrub_slots: Rc<crate::pg::work::scrub::slots::ScrubSlots>,
    /// Groups that are recovered or filled at a time, of which we are the primary.
    pub(crate) local_places: Reserver,
    /// The same of which another OSD is.
    pub(crate) remote_places: Reserver,
    pub(crate) internal_tids: u64,
    /// Bytes that the store surely takes; counted down and asked for again when it is used up.
    pub(crate) room: u64,
    /// The store was at the map's full_ratio when that was looked at last, and so many bytes may come until the next look.
    pub(crate) full: (bool, u64),
    /// Where the loop stands, for another thread.
    pub(crate) crumb: Arc<Breadcrumb>,
    /// Reads that the store could not answer because of damage.
    pub(crate) damaged: u64,
    /// Requests that took longest.
    pub(crate) history: crate::history::History,
    /// What the manager wants counted by client, image and the like.
    pub(crate) perf_queries: crate::perf_queries::PerfQueries,
    /// How clocks of other OSDs differ from ours.
    pub(crate) clocks: crate::clocks::Clocks,
    /// When a lease is to be renewed, or ends, first. Asked for anew by [`crate::Event::Due`].
    pub(crate) lease_due: Option<base::Stamp>,
    /// Features that every OSD of the map has: what is persisted is encoded with them.
    pub osd_features: u64,
}

/// How long logs get, in entries.
#[derive(Debug, Clone, Copy)]
pub struct LogBounds {
    /// A group's, whatever its share is.
    pub min: usize,
    pub max: usize,
    /// Of all groups together.
    pub all: usize,
    /// Trimmed at once, at least and at most.
    pub trim_min: usize,
    pub trim_max: usize,
    /// Duplicates that outlive them.
    pub dups: usize,
}

impl LogBounds {
    pub fn of(config: &Config) -> Self {
        let int = |name| config.int(name) as usize;
        Self {
            min: int("osd_min_pg_log_entries"),
            max: int("osd_max_pg_log_entries"),
            all: int("osd_target_pg_log_entries_per_osd"),
            trim_min: int("osd_pg_log_trim_min"),
            trim_max: int("osd_pg_log_trim_max"),
            dups: int("osd_pg_log_dups_tracked"),
        }
    }
}

/// What an OSD takes beside its store's caches and clients' messages: the program, connections, maps, logs of groups.
const MEMORY_BESIDES: u64 = 64 << 20;

impl Shared {
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
        self.recovery_slots.set(Slots::max_of(&self.config), Pace::of(&self.config));
        // What clients have under way is bounded by itself; the store's caches give way to all the rest.
        let besides = self.config.int("osd_client_message_size_cap") + MEMORY_BESIDES;
        let caches = self.config.int("osd_memory_target").saturating_sub(besides);
        self.store.limit_memory(usize::try_from(caches).unwrap_or(usize::MAX));
        let (places, priority_min) = (self.config.int("osd_max_backfills") as usize, self.config.int("osd_min_recovery_priority") as u32);
        self.local_places.configure(places, priority_min);
        self.remote_places.configure(places, priority_min);
        self.history.configure(&self.config);
    }
    /// What Control is to hear, one after the other.
    #[inline]
    pub(crate) fn next_for_control(&mut self) -> Option<ToControl> {
        let flags = [
            (&mut self.wants_maps, ToControl::WantMaps),
            (&mut self.store_refused, ToControl::StoreRefused),
            (&mut self.report_soon, ToControl::ReportSoon),
            (&mut self.merge_soon, ToControl::MergeSoon),
            (&mut self.found_no_group, ToControl::FoundNoGroup),
        ];
        flags.into_iter().find_map(|(flag, msg)| std::mem::take(flag).then_some(msg))
    }
    /// How many entries a group's log shall have.
    pub fn log_target(&self) -> usize {
        let b = &self.log_bounds;
        (b.all / self.num_pgs.max(1)).clamp(b.min, b.max.max(b.min))
    }
    /// True if the store takes this many bytes of data. What a change writes besides, and a reserve, counts too.
    pub fn has_room(&mut self, bytes: u64) -> bool {
        const BESIDES: u64 = 4096;
        let wanted = bytes + BESIDES;
        if self.room < wanted {
            let fs = self.store.statfs();
            // A part at a time, so that what others use is noticed.
            self.room = fs.available.saturating_sub(fs.total / 64) / 4;
        }
        let fits = self.room >= wanted || bytes == 0;
        self.room = self.room.saturating_sub(wanted);
        fits
    }
    /// True if the store is as full as the map lets it get, or our OSD is marked so; `came`: bytes that recovery has brought since.
    pub fn is_full(&mut self, came: u64) -> bool {
        self.full.1 = self.full.1.saturating_sub(came);
        if self.full.1 == 0 {
            let (fs, ratio) = (self.store.statfs(), f64::from(self.map.full_ratio));
            let (used, bound) = (fs.total.saturating_sub(fs.available) as f64, ratio * fs.total as f64);
            // Often enough to notice it before a hundredth more has come.
            self.full = (ratio > 0.0 && used >= bound, (fs.total / 256).max(1));
        }
        self.full.0 || self.map.state(self.whoami) & maps::osd_state::FULL != 0
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
        if conn == crate::fetch::OWN_CONN {
            self.sh.own_answers.push(msg);
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
