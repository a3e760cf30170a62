//! What each thread of an OSD would have: its groups, their requests and sessions, its counters, its part of the store. Today an OSD has one.
//!
//! A shard is told what happens as [`ToShard`] and acts by itself: it answers clients and other OSDs, and wants of Control only what
//! [`crate::joint::ToControl`] names. Its fields are its own; groups work with [`Shared`], which is the shard's part that they have in common.
//!
//! | room | holds |
//! |---|---|
//! | [`requests`], [`waiting`] | requests on their way to their groups; those that wait before |
//! | [`peers`] | messages of other OSDs on theirs |
//! | [`advance`], [`catch_up`] | what maps change; groups that are behind the newest one |
//! | [`turns`] | commits, what the store has fetched, work, leases |
//! | [`copying`] | what requests want of objects of other groups |
//! | [`remove`], [`bench`], [`compact`] | work of the shard's own |
//! | [`read_store`], [`raise`] | how groups become what the store remembers |
//! | [`told`], [`parts`], [`pg_commands`] | what it tells of itself |

pub(crate) mod advance;
pub(crate) mod bench;
pub(crate) mod catch_up;
mod compact;
pub(crate) mod copying;
mod parts;
pub(crate) mod peers;
mod pg_commands;
pub(crate) mod raise;
mod read_store;
pub(crate) mod remove;
mod requests;
pub(crate) mod told;
mod turns;
pub(crate) mod waiting;

use crate::config::Config;
use crate::joint::{ToControl, ToShard};
use crate::map_cache::Maps;
use crate::pg::Pg;
use crate::pg::record::log::WordHash;
use crate::request::ClientOp;
use crate::setup::OsdSetup;
use crate::shared::{EventCx, Shared};
use base::Stamp;
use base::breadcrumb::Breadcrumb;
use base::fixed::HashMap;
use catch_up::Behind;
use maps::Placement;
use messages::{MOSDForceRecovery, MOSDPGCreate2, MOSDScrub2};
use read_store::Loading;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use store::ObjectStore;
use types::{PoolId, SpgId};
use waiting::Waiting;

/// See the module.
pub(crate) struct Shard {
    sh: Shared,
    placement: Placement,
    pgs: Vec<Option<Box<Pg>>>,
    index: HashMap<SpgId, u32, WordHash>,
    /// Groups that have not taken in the newest map.
    behind: Behind,
    /// Messages of other OSDs by a map that we don't have yet.
    ahead: Vec<peers::Ahead>,
    /// Requests by a map that we don't have yet, and those behind them.
    waiting_map: Waiting,
    /// Requests to groups that are ours and not created yet.
    waiting_pg: BTreeMap<SpgId, Waiting>,
    /// The monitors were asked for their newest map, since requests wait for one.
    epochs_asked: Option<Stamp>,
    /// Groups that the monitor wants and whose map we don't have yet.
    pending_creates: Vec<MOSDPGCreate2>,
    removals: remove::Removals,
    copying: copying::Copying,
    bench: Option<bench::Bench>,
    compactions: compact::Compactions,
    commits: Vec<u64>,
    tickets: Vec<u64>,
    /// Requests of this turn, in order, that their groups don't have yet.
    arrived: Vec<Box<ClientOp>>,
    /// Groups whose records are damaged: neither loaded nor made anew.
    damaged_groups: BTreeSet<SpgId>,
    /// Until everything is read that the store remembers.
    loading: Option<Loading>,
    /// Groups that were read and are not made yet, oldest map first.
    raising: VecDeque<read_store::Loaded>,
    /// Groups that are made when the maps have come that their records name.
    unraised: Vec<read_store::Loaded>,
    /// A group was raised with another number of groups than the map's.
    is_late: bool,
    /// Pools with erasure codes of which a group should have been made here, each said once.
    coded_pools: BTreeSet<PoolId>,
}

impl Shard {
    pub fn new(setup: &OsdSetup, config: Rc<Config>, store: Box<dyn ObjectStore>, maps: Maps, crumb: Arc<Breadcrumb>) -> Self {
        Self {
            sh: Shared::new(setup, config, store, maps, crumb),
            placement: Placement::default(),
            pgs: Vec::new(),
            index: HashMap::default(),
            behind: Behind::default(),
            ahead: Vec::new(),
            waiting_map: Waiting::default(),
            waiting_pg: BTreeMap::new(),
            epochs_asked: None,
            pending_creates: Vec::new(),
            removals: Default::default(),
            copying: Default::default(),
            bench: None,
            compactions: compact::Compactions::default(),
            commits: Vec::new(),
            tickets: Vec::new(),
            arrived: Vec::new(),
            damaged_groups: BTreeSet::new(),
            loading: Some(Loading::default()),
            raising: VecDeque::new(),
            unraised: Vec::new(),
            is_late: false,
            coded_pools: BTreeSet::new(),
        }
    }

    /// Takes one message: everything that Control says comes in here.
    #[inline]
    pub fn take(&mut self, msg: ToShard, cx: &mut EventCx<'_>) {
        self.sh.store.set_time(cx.clock.mono);
        match msg {
            ToShard::Request { conn, msg, permit } => self.client_op(conn, &msg, permit, cx),
            ToShard::Gathered => self.take_arrived(cx),
            ToShard::TurnEnd => self.turn_end(cx),
            other => self.take_other(other, cx),
        }
    }
    fn take_other(&mut self, msg: ToShard, cx: &mut EventCx<'_>) {
        match msg {
            ToShard::Request { .. } | ToShard::Gathered | ToShard::TurnEnd => unreachable!("taken by their own entries"),
            ToShard::Load(ours) => self.load(ours),
            ToShard::Raise { map, cluster_fsid } => self.raise_to(map, cluster_fsid, cx),
            ToShard::Raised => self.raised(cx),
            ToShard::Turn => self.turn(cx),
            ToShard::TurnOver => self.want_turn(cx),
            ToShard::Connected { conn, peer } => self.connected(conn, peer),
            ToShard::Reset { conn } => self.reset(conn, cx),
            ToShard::Osd(came) => self.peer_message(&came, cx),
            ToShard::Answer { osd, msg } => self.copy_answer(osd, &msg, cx),
            ToShard::Map(next) => self.take_map(*next, cx),
            ToShard::Keep(txn) => self.keep_own(txn, cx),
            ToShard::RefreshRecords { lag } => self.refresh_records(lag, cx),
            ToShard::MapsEnd => self.maps_end(cx),
            ToShard::GoOn => self.go_on(cx),
            ToShard::NewestMap(newest) => self.newest_map(newest, cx),
            ToShard::Serves(serves) => self.sh.serves = serves,
            ToShard::Creates(m) => self.creates_came(m, cx),
            ToShard::Purged { pool, snaps } => {
                self.pgs.iter_mut().flatten().filter(|pg| pg.pgid.pgid.pool == pool).for_each(|pg| pg.purged(&snaps));
            }
            ToShard::MonConnected => self.ask_again(cx),
            ToShard::Scrub(m) => self.scrub_wanted(&m),
            ToShard::ForceRecovery(m) => self.force_recovery(&m, cx),
            ToShard::PerfQueries(queries) => self.sh.counters.perf_queries.set(&queries),
            ToShard::Config(config) => self.sh.take_config(config),
            ToShard::SpareForCaches(bytes) => self.sh.take_spare(bytes),
            ToShard::Clock { osd, up_from, sent, most, now } => {
                self.sh.clocks.heard(osd, up_from, sent, now);
                most.into_iter().for_each(|most| self.sh.clocks.told(osd, up_from, most));
            }
            ToShard::BackfillFull(is_full) => self.sh.bounds.is_backfillfull = is_full,
            ToShard::Compact { asked } => self.compactions.begin(&mut *self.sh.store, asked, cx),
            ToShard::Count(c, by) => self.sh.counters.perf.add(c, by),
            ToShard::Ask(question) => self.asked(question, cx),
            ToShard::Inquire(inquiry) => self.inquired(*inquiry, cx),
            ToShard::Tick => self.tick(cx),
            ToShard::AskAnew => self.copy_tick(cx),
            ToShard::LeasesDue => self.leases_due(cx),
        }
    }
    /// What Control is to hear, one after the other.
    #[inline]
    pub fn next_for_control(&mut self) -> Option<ToControl> {
        self.sh.wishes.next_for_control()
    }

    pub fn pgs(&self) -> impl Iterator<Item = &Pg> {
        self.pgs.iter().flatten().map(|pg| &**pg)
    }
    pub fn store(&self) -> &dyn ObjectStore {
        &*self.sh.store
    }
    pub fn into_store(self) -> Box<dyn ObjectStore> {
        self.sh.store.into_inner()
    }
    /// Waits for the store: see [`ObjectStore::linger`].
    pub fn linger(&mut self, limit: Duration) -> bool {
        self.sh.store.linger(limit)
    }

    fn scrub_wanted(&mut self, m: &MOSDScrub2) {
        for pgid in &m.pgs {
            if let Some(slot) = self.index.get(pgid) {
                self.pgs[*slot as usize].as_mut().expect("the index names groups that are here").want_scrub(m.deep, m.repair);
            }
        }
    }
    /// An operator wants groups recovered or filled first.
    fn force_recovery(&mut self, m: &MOSDForceRecovery, cx: &mut EventCx<'_>) {
        for pgid in &m.pgs {
            if let Some(pg) = self.index.get(pgid).and_then(|slot| self.pgs[*slot as usize].as_mut())
                && pg.peering().is_primary()
            {
                pg.force(m.options, &mut cx.with(&mut self.sh));
            }
        }
    }
}
