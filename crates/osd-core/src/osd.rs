//! One OSD: the door through which everything comes in, and what keeps its parts together.
//!
//! Requests find their group by the map of groups; the groups do the rest. What is submitted while a batch of messages is read becomes durable
//! together, and is answered at [`Event::TurnEnd`].

use crate::boot::BootState;
use crate::crumb::event_code;
use crate::event::{ConnId, Effect, Event, Level, Peer};
use crate::load::Loading;
use crate::map_cache::MapCache;
use crate::mgr::MgrSession;
use crate::pg::Pg;
use crate::pg::log::WordHash;
use crate::pg::recovery::host::{Pace, Slots};
use crate::remove::Removals;
use crate::request::{ClientOp, answer_bytes, error_reply};
use crate::reserver::Reserver;
use crate::session::Session;
use crate::shared::{EventCx, LogBounds, Shared};
use crate::work::Work;
use base::breadcrumb::Breadcrumb;
use base::fixed::HashMap;
use base::{Budget, Clock, Permit, Rng, Stamp};
use classes::Registry;
use maps::{OsdMap, Placement};
use messages::{
    MCommand, MConfig, MMonGetPurgedSnapsReply, MOSDBackoff, MOSDMap, MOSDMarkMeDown, MOSDOp, MOSDOpReply, MOSDPGCreate2, MOSDScrub2,
    Message, RawMessage,
};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use store::{ObjectStore, StoreError};
use types::{CollId, EntityKind, Epoch, OsdId, OsdSuperblock, PgId, SpgId, Uuid};

/// Requests that wait for maps or groups; more of them are dropped, and their clients send them again with the next map.
const WAITING_MAX: usize = 4096;
/// Requests of one turn that are looked for in the store together.
const ARRIVED_MAX: usize = 64;

/// What an OSD is told when it is made.
pub struct OsdSetup {
    pub whoami: OsdId,
    pub cluster_fsid: Uuid,
    pub osd_fsid: Uuid,
    /// Seed of everything random that is no secret.
    pub seed: u64,
    pub classes: &'static Registry,
    /// Options from a file, by name.
    pub config: Vec<(String, String)>,
}

/// An OSD as a value.
pub struct Osd {
    pub(crate) sh: Shared,
    pub(crate) cluster_fsid: Uuid,
    pub(crate) superblock: OsdSuperblock,
    pub(crate) maps: MapCache,
    pub(crate) placement: Placement,
    pub(crate) pgs: Vec<Option<Box<Pg>>>,
    pub(crate) index: HashMap<SpgId, u32, WordHash>,
    /// Messages of maps that came before everything was read that the store remembers.
    pub(crate) pending_maps: VecDeque<MOSDMap>,
    /// A whole map was asked for, of whatever epoch, since a change did not fit.
    pub(crate) asked_whole_map: bool,
    /// Groups that have not taken in the newest map.
    pub(crate) behind: crate::catch_up::Behind,
    /// Messages of other OSDs by a map that we don't have yet.
    pub(crate) ahead: Vec<crate::peers::Ahead>,
    /// Requests by a map that we don't have yet.
    waiting_map: VecDeque<Box<ClientOp>>,
    /// Requests to groups that are ours and not created yet.
    waiting_pg: BTreeMap<SpgId, VecDeque<Box<ClientOp>>>,
    /// Groups that the monitor wants and whose map we don't have yet.
    pub(crate) pending_creates: Vec<MOSDPGCreate2>,
    pub(crate) boot: BootState,
    /// Until everything is read that the store remembers.
    pub(crate) loading: Option<Loading>,
    pub(crate) removals: Removals,
    pub(crate) copying: crate::copying::Copying,
    pub(crate) merging: crate::merging::Merging,
    pub(crate) mgr: MgrSession,
    pub(crate) bench: Option<crate::bench::Bench>,
    pub(crate) heartbeats: crate::heartbeat::Heartbeats,
    commits: Vec<u64>,
    tickets: Vec<u64>,
    /// Requests of this turn, in order, that their groups don't have yet.
    arrived: Vec<Box<ClientOp>>,
    asked_maps_from: Epoch,
    pub(crate) started: Stamp,
    /// The first map knew us by this uuid and the store knew of no group.
    pub(crate) store_was_lost: bool,
    /// Groups whose records are damaged: neither loaded nor made anew.
    pub(crate) damaged_groups: std::collections::BTreeSet<SpgId>,
}

impl Osd {
    /// An OSD with this store, which is empty or that of an OSD of the same name. What it remembers is read with the first event.
    pub fn new(setup: OsdSetup, store: Box<dyn ObjectStore>) -> Self {
        let mut config = crate::config::Config::default();
        for (name, value) in &setup.config {
            config.set(name, value, crate::config::Source::File);
        }
        config.set("osd_objectstore", store.kind(), crate::config::Source::File);
        let (limits, log_bounds) = (config.limits(), LogBounds::of(&config));
        let superblock = OsdSuperblock {
            cluster_fsid: setup.cluster_fsid,
            osd_fsid: setup.osd_fsid,
            whoami: setup.whoami,
            compat_features: types::CompatSet::osd_initial(),
            ..OsdSuperblock::default()
        };
        let (recoveries, pace) = (Slots::max_of(&config), Pace::of(&config));
        let places = || Reserver::new(config.int("osd_max_backfills") as usize, config.int("osd_min_recovery_priority") as u32);
        let (local_places, remote_places) = (places(), places());
        Self {
            sh: Shared {
                whoami: setup.whoami,
                store,
                map: Rc::new(OsdMap::default()),
                sessions: HashMap::default(),
                classes: setup.classes,
                config,
                limits,
                log_bounds,
                perf: Default::default(),
                rng: Rng::new(setup.seed),
                turns: Default::default(),
                report_soon: false,
                merge_soon: false,
                num_pgs: 0,
                fetches: Vec::new(),
                own_answers: Vec::new(),
                notify_ids: 1,
                notify_room: Rc::default(),
                recovery_slots: Rc::new(Slots::new(recoveries, pace)),
                scrub_slots: Rc::default(),
                local_places,
                remote_places,
                internal_tids: 0,
                room: 0,
                budget: Rc::default(),
                crumb: Default::default(),
                fullness: Default::default(),
                damaged: 0,
                history: Default::default(),
                swallowed: Default::default(),
                perf_queries: Default::default(),
                clocks: Default::default(),
                lease_due: None,
                osd_features: types::features::SUPPORTED,
            },
            cluster_fsid: setup.cluster_fsid,
            superblock,
            maps: MapCache::default(),
            placement: Placement::default(),
            pgs: Vec::new(),
            index: HashMap::default(),
            pending_maps: VecDeque::new(),
            asked_whole_map: false,
            behind: Default::default(),
            ahead: Vec::new(),
            waiting_map: VecDeque::new(),
            waiting_pg: BTreeMap::new(),
            pending_creates: Vec::new(),
            boot: BootState::default(),
            loading: Some(Loading::default()),
            removals: Removals::default(),
            copying: Default::default(),
            merging: Default::default(),
            mgr: MgrSession::default(),
            bench: None,
            heartbeats: Default::default(),
            commits: Vec::new(),
            tickets: Vec::new(),
            arrived: Vec::new(),
            asked_maps_from: 0,
            started: Stamp(0),
            store_was_lost: false,
            damaged_groups: Default::default(),
        }
    }
    /// What clients may have under way: its bounds follow the options from now on.
    pub fn set_budget(&mut self, budget: Rc<Budget>) {
        self.sh.budget = budget;
        self.sh.reload_config();
    }
    /// Where the loop stands: to be watched by another thread, with limits that follow the options.
    pub fn breadcrumb(&self) -> Arc<Breadcrumb> {
        self.sh.reload_limits();
        self.sh.crumb.clone()
    }
    /// What `perf dump` shows.
    pub fn perf(&self) -> &crate::perf::Perf {
        &self.sh.perf
    }
    pub fn map(&self) -> &Rc<OsdMap> {
        &self.sh.map
    }
    pub fn whoami(&self) -> OsdId {
        self.sh.whoami
    }
    pub(crate) fn swallowed(&self) -> crate::daemon::blackhole::Swallowed {
        self.sh.swallowed
    }
    /// What kind of peer a connection that was accepted belongs to.
    pub(crate) fn peer_kind(&self, conn: ConnId) -> Option<types::EntityKind> {
        self.sh.sessions.get(&conn).map(|session| session.peer.name.kind)
    }
    /// True once a map shows us up where we listen.
    pub fn is_up(&self) -> bool {
        self.boot.is_active()
    }
    pub fn pgs(&self) -> impl Iterator<Item = &Pg> {
        self.pgs.iter().flatten().map(|pg| &**pg)
    }
    /// True if this OSD was up before with the same uuid, and its store remembers nothing of it.
    pub fn lost_its_store(&self) -> bool {
        self.store_was_lost
    }
    /// Groups of one copy that are ours by the map, and are not here.
    pub fn lost_groups(&mut self) -> Vec<PgId> {
        let map = self.sh.map.clone();
        let mut lost = Vec::new();
        for (id, pool) in map.pools.iter().filter(|(_, p)| p.size == 1 && self.store_was_lost) {
            for pgid in (0..pool.pg_num).map(|seed| PgId::new(*id, seed)) {
                let at = map.pg_to_up_acting(pgid, &mut self.placement);
                if at.acting == [self.sh.whoami] && !self.index.contains_key(&SpgId::whole(pgid)) {
                    lost.push(pgid);
                }
            }
        }
        lost
    }
    pub fn store(&self) -> &dyn ObjectStore {
        &*self.sh.store
    }
    /// Waits for the store: see [`ObjectStore::linger`].
    pub fn linger(&mut self, limit: Duration) -> bool {
        self.sh.store.linger(limit)
    }
    /// The OSD is over; its store may go on as another's.
    pub fn into_store(self) -> Box<dyn ObjectStore> {
        self.sh.store
    }
    /// What the store said of itself when the OSD was loaded, and what has changed since.
    pub fn superblock(&self) -> &OsdSuperblock {
        &self.superblock
    }
    /// When [`Event::Due`] is due, if that is before the next [`Event::Tick`].
    pub fn due_at(&self) -> Option<Stamp> {
        [self.sh.lease_due, self.silence_due_at()].into_iter().flatten().min()
    }

    /// The door.
    pub fn handle(&mut self, event: Event, clock: Clock, out: &mut Vec<Effect>) {
        self.sh.crumb.event(event_code(&event));
        let before = out.len();
        self.take_event(event, &mut EventCx { clock, out });
        if self.is_stopping() {
            Self::withhold_answers(before, out);
        }
        self.sh.crumb.event(0);
    }
    fn take_event(&mut self, event: Event, cx: &mut EventCx<'_>) {
        if self.loading.is_some() {
            self.load_some(cx);
        }
        match &event {
            Event::Request { .. } => {}
            Event::Message { msg, .. } if msg.kind == MOSDOp::KIND => {}
            _ => self.take_arrived(cx),
        }
        match event {
            Event::Message { conn, msg } if msg.kind == MOSDOp::KIND => self.client_op(conn, &msg, None, cx),
            Event::Request { conn, msg, permit } => self.client_op(conn, &msg, permit, cx),
            Event::Message { conn, msg } => self.message(conn, msg, cx),
            Event::Heartbeat { conn, net, msg } => self.heartbeat(conn, net, &msg, cx),
            Event::PeerRefused { addrs } => self.peer_refused(&addrs, cx),
            Event::HeartbeatCut { net, addrs } => self.heartbeat_cut(net, &addrs, cx),
            Event::TurnEnd => self.turn_end(cx),
            Event::Connected { conn, peer } => self.connected(conn, peer),
            Event::Reset { conn } => self.reset(conn, cx),
            Event::Mon(msg) => self.mon_message(msg, cx),
            Event::Mgr(msg) => self.mgr_message(&msg, cx),
            Event::MgrConnected => self.mgr_connected(cx),
            Event::Osd { osd, msg } => self.peer_message(osd, &msg, cx),
            Event::Tick => self.tick(cx),
            Event::Due => {
                self.leases_due(cx);
                self.report_silent(false, cx);
            }
            Event::Boot(info) => self.start_boot(*info, cx),
            Event::MapVersions { oldest, newest } => self.map_versions(oldest, newest, cx),
            Event::Continue => self.go_on(cx),
            Event::Config { name, value } => self.configure(&name, &value, crate::config::Source::Override, cx),
            Event::Shutdown => self.shutdown(cx),
            Event::MonConnected => self.mon_connected(cx),
            Event::MonConfig(config) => self.mon_config(MConfig { config }),
        }
    }

    /// What clients asked is not answered by an OSD that is stopping: others serve its groups as soon as the map says that it is dead, and clients send
    /// to them what has no answer.
    fn withhold_answers(before: usize, out: &mut Vec<Effect>) {
        let mut at = 0;
        out.retain(|effect| {
            at += 1;
            at <= before || !matches!(effect, Effect::Send { msg, .. } if msg.kind == MOSDOpReply::KIND)
        });
    }
    /// Leases are renewed, and end.
    fn leases_due(&mut self, cx: &mut EventCx<'_>) {
        self.sh.lease_due = None;
        for pg in self.pgs.iter_mut().flatten() {
            pg.lease_due(&mut cx.with(&mut self.sh));
            pg.wake_recovery(&mut cx.with(&mut self.sh));
        }
    }

    fn connected(&mut self, conn: ConnId, peer: Peer) {
        self.sh.sessions.insert(conn, Session::new(peer));
    }

    fn reset(&mut self, conn: ConnId, cx: &mut EventCx<'_>) {
        if let Some(session) = self.sh.sessions.remove(&conn)
            && session.peer.name.kind == EntityKind::OSD
        {
            self.copy_reset(session.peer.name.num as OsdId, cx);
        }
        for pg in self.pgs.iter_mut().flatten() {
            pg.reset(conn, cx.clock.mono);
        }
        self.behind.requests.retain(|op| op.conn != conn);
        self.waiting_map.retain(|op| op.conn != conn);
        self.waiting_pg.values_mut().for_each(|ops| ops.retain(|op| op.conn != conn));
    }

    /// A request: decoded, and taken with others of this turn.
    fn client_op(&mut self, conn: ConnId, raw: &RawMessage, mut permit: Option<Permit>, cx: &mut EventCx<'_>) {
        let Some(session) = self.sh.sessions.get_mut(&conn) else { return };
        let msg = match MOSDOp::decode(raw) {
            Ok(msg) => msg,
            Err(error) => {
                let text = format!("{}: a request that can't be read: {error}", session.peer.name);
                cx.out.push(Effect::Log { level: Level::Warn, text });
                cx.out.push(Effect::Close(conn));
                return;
            }
        };
        let reqid = msg.reqid_from(session.peer.name);
        let bytes_in = raw.data.iter().map(|d| d.len() as u64).sum();
        session.map_epoch = session.map_epoch.max(msg.map_epoch);
        let newest = self.sh.map.epoch;
        if session.map_epoch < newest && newest > 0 {
            // Whoever lags behind gets the maps with the answer.
            if let Some((maps, reached)) = self.maps.message(self.cluster_fsid, session.map_epoch, newest) {
                session.map_epoch = reached;
                cx.out.push(Effect::Send { conn, msg: maps });
            }
        }
        if let Some(permit) = &mut permit {
            permit.expect_answer(answer_bytes(&msg));
        }
        let (received, waits_for) = (cx.clock.mono, "");
        let op = Box::new(ClientOp {
            conn,
            msg,
            reqid,
            info: None,
            received,
            bytes_in,
            waits_for,
            fetches: None,
            unanswered: None,
            was_inspected: false,
            permit,
        });
        self.arrived.push(op);
        if self.arrived.len() == ARRIVED_MAX {
            self.take_arrived(cx);
        }
    }
    /// The requests that have come go to their groups, in order. Before anything else that happens, so nobody sees that they were gathered.
    fn take_arrived(&mut self, cx: &mut EventCx<'_>) {
        if self.arrived.is_empty() {
            return;
        }
        let mut arrived = std::mem::take(&mut self.arrived);
        if arrived.len() > 1 {
            self.sh.store.soon(&mut arrived.iter().map(|op| (CollId::Pg(op.msg.pgid), &op.msg.hobj)));
        }
        for op in arrived.drain(..) {
            self.place(op, cx);
        }
        self.arrived = arrived;
    }

    /// Gives a request to its group, or puts it where it waits.
    pub(crate) fn place(&mut self, mut op: Box<ClientOp>, cx: &mut EventCx<'_>) {
        let ahead = op.msg.map_epoch > self.sh.map.epoch || !self.boot.is_active();
        if ahead || (!self.waiting_map.is_empty() && self.waiting_map.iter().any(|w| w.conn == op.conn)) {
            if self.waiting_map.len() < WAITING_MAX {
                self.want_maps(cx);
                op.waits_for = "waiting for a map";
                self.waiting_map.push_back(op);
            }
            return;
        }
        if self.awaits_map(op.msg.pgid) {
            return self.hold_request(op);
        }
        let Some(slot) = self.index.get(&op.msg.pgid) else { return self.no_such_pg(op, cx) };
        let pg = self.pgs[*slot as usize].as_mut().expect("the index names groups that are here");
        pg.client_op(op, &mut cx.with(&mut self.sh));
    }

    /// A group that is ours by the map is being created; any other isn't our business, and the client finds out by the next map.
    fn no_such_pg(&mut self, mut op: Box<ClientOp>, cx: &mut EventCx<'_>) {
        let pgid = op.msg.pgid;
        let ours = self.sh.map.pool(pgid.pgid.pool).is_some_and(|p| pgid.pgid.seed < p.pg_num)
            && self.sh.map.pg_to_up_acting(pgid.pgid, &mut self.placement).acting_primary == self.sh.whoami;
        if ours && self.sh.map.pool(pgid.pgid.pool).is_some_and(|p| p.is_erasure()) {
            // No group of such a pool is made here: whoever asks is told so, rather than left waiting.
            let msg = error_reply(&op.msg, -types::errno::EOPNOTSUPP, self.sh.map.epoch, Default::default(), 0, None);
            cx.with(&mut self.sh).send(op.conn, msg);
            return;
        }
        let waiting: usize = self.waiting_pg.values().map(VecDeque::len).sum();
        if ours && waiting < WAITING_MAX {
            op.waits_for = "waiting for the group's creation";
            self.waiting_pg.entry(pgid).or_default().push_back(op);
        }
    }

    pub(crate) fn want_maps(&mut self, cx: &mut EventCx<'_>) {
        let from = self.sh.map.epoch + 1;
        if self.asked_maps_from != from {
            self.asked_maps_from = from;
            cx.out.push(Effect::SubscribeMaps { from });
        }
    }

    /// After maps or groups came: what waited for them goes on.
    pub(crate) fn replay_waiting(&mut self, cx: &mut EventCx<'_>) {
        if self.boot.is_active() {
            self.replay_peers(cx);
            for op in std::mem::take(&mut self.waiting_map) {
                self.place(op, cx);
            }
        }
        for (_, ops) in std::mem::take(&mut self.waiting_pg) {
            for op in ops {
                self.place(op, cx);
            }
        }
    }

    /// Takes what is durable and what the store has fetched, until nothing more comes of it.
    fn turn_end(&mut self, cx: &mut EventCx<'_>) {
        self.sh.store.turn_end();
        loop {
            self.take_commits(cx);
            if self.tell_places(cx) || self.copy_some(cx) || self.take_maps(cx) || self.catch_up(cx) {
                self.sh.store.turn_end();
                continue;
            }
            // Until there are no more: what waits for just this ticket may be the only thing that would bring another turn.
            if !self.take_fetched(cx) {
                break;
            }
            self.sh.store.turn_end();
        }
        if std::mem::take(&mut self.sh.merge_soon) {
            self.tell_ready_to_merge(cx);
        }
        if self.sh.fullness.was_refused() {
            self.tell_fullness(cx);
        }
        self.want_turn(cx);
    }

    /// What waited for the store's tickets goes on. False if the store has no news.
    fn take_fetched(&mut self, cx: &mut EventCx<'_>) -> bool {
        let mut tickets = std::mem::take(&mut self.tickets);
        tickets.clear();
        self.sh.store.take_ready(&mut tickets);
        let any = !tickets.is_empty();
        if any {
            tickets.sort_unstable();
            self.load_some(cx);
            self.removals.work.store_ready(&tickets);
            for pg in self.pgs.iter_mut().flatten() {
                pg.store_ready(&tickets, &mut cx.with(&mut self.sh));
            }
            self.catch_up(cx);
            self.peer_waiting(cx);
        }
        self.tickets = tickets;
        any
    }

    pub(crate) fn take_commits(&mut self, cx: &mut EventCx<'_>) {
        loop {
            let mut commits = std::mem::take(&mut self.commits);
            self.sh.store.take_commits(&mut commits);
            let none = commits.is_empty();
            for token in commits.drain(..) {
                if let Some(Some(pg)) = self.pgs.get_mut(Pg::slot_of(token) as usize)
                    && pg.committed(token, &mut cx.with(&mut self.sh))
                {
                    let pgid = pg.pgid;
                    self.peer_on(pgid, cx);
                }
            }
            self.commits = commits;
            if none {
                return;
            }
        }
    }

    pub(crate) fn want_turn(&mut self, cx: &mut EventCx<'_>) {
        self.sh.turns.want(self.removals.work);
        if self.bench.is_some() {
            self.sh.turns.want(Work::Busy);
        }
        if self.sh.turns.ask() {
            cx.out.push(Effect::Continue);
        }
    }
    fn go_on(&mut self, cx: &mut EventCx<'_>) {
        self.sh.turns.begin();
        let behind = &self.behind;
        for pg in self.pgs.iter_mut().flatten().filter(|pg| pg.work().is_busy() && !behind.has(pg.slot as usize)) {
            pg.turn(&mut cx.with(&mut self.sh));
            self.sh.turns.want(pg.work());
        }
        self.remove_some(cx);
        self.bench_step(cx);
        self.turn_end(cx);
    }

    /// Everything but requests.
    fn message(&mut self, conn: ConnId, msg: RawMessage, cx: &mut EventCx<'_>) {
        let Some(session) = self.sh.sessions.get(&conn) else { return };
        let peer = session.peer.name;
        let result = match msg.kind {
            MCommand::KIND => MCommand::decode(&msg).map(|m| self.command(Some(conn), &m, cx)),
            // Another OSD holds back what we ask of it.
            MOSDBackoff::KIND if peer.kind == EntityKind::OSD => {
                self.copy_answer(peer.num as OsdId, &msg, cx);
                Ok(())
            }
            // The client has understood; the block itself is remembered by its session.
            MOSDBackoff::KIND => MOSDBackoff::decode(&msg).map(drop),
            MOSDMap::KIND if peer.kind != EntityKind::CLIENT => MOSDMap::decode(&msg).map(|m| self.maps_came(m, cx)),
            MOSDScrub2::KIND if peer.kind != EntityKind::CLIENT => MOSDScrub2::decode(&msg).map(|m| self.scrub_wanted(&m)),
            _ if peer.kind == EntityKind::OSD => {
                self.peer_message(peer.num as OsdId, &msg, cx);
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = result {
            let text = format!("{peer}: {} that can't be read: {error}", messages::kind_name(msg.kind));
            cx.out.push(Effect::Log { level: Level::Warn, text });
            cx.out.push(Effect::Close(conn));
        }
    }

    fn mon_message(&mut self, msg: RawMessage, cx: &mut EventCx<'_>) {
        let result = match msg.kind {
            MOSDMap::KIND => MOSDMap::decode(&msg).map(|m| self.maps_came(m, cx)),
            MOSDPGCreate2::KIND => MOSDPGCreate2::decode(&msg).map(|m| self.creates_came(m, cx)),
            MConfig::KIND => MConfig::decode(&msg).map(|m| self.mon_config(m)),
            MMonGetPurgedSnapsReply::KIND => MMonGetPurgedSnapsReply::decode(&msg).map(|m| self.purged_snaps(&m, cx)),
            MOSDMarkMeDown::KIND => MOSDMarkMeDown::decode(&msg).map(|_| self.marked_down(cx)),
            MOSDScrub2::KIND => MOSDScrub2::decode(&msg).map(|m| self.scrub_wanted(&m)),
            MCommand::KIND => MCommand::decode(&msg).map(|m| self.command(None, &m, cx)),
            _ => Ok(()),
        };
        if let Err(error) = result {
            let text = format!("monitor: {} that can't be read: {error}", messages::kind_name(msg.kind));
            cx.out.push(Effect::Log { level: Level::Warn, text });
        }
    }

    fn mon_config(&mut self, m: MConfig) {
        self.sh.config.clear(crate::config::Source::Mon);
        for (name, value) in &m.config {
            self.sh.config.set(name, value, crate::config::Source::Mon);
        }
        self.sh.reload_config();
    }
    pub(crate) fn configure(&mut self, name: &str, value: &str, source: crate::config::Source, cx: &mut EventCx<'_>) {
        if self.sh.config.set(name, value, source) {
            self.sh.reload_config();
        } else {
            cx.out.push(Effect::Log { level: Level::Warn, text: format!("no option {name} or no value for it: {value}") });
        }
    }

    pub(crate) fn scrub_wanted(&mut self, m: &MOSDScrub2) {
        for pgid in &m.pgs {
            if let Some(slot) = self.index.get(pgid) {
                self.pgs[*slot as usize].as_mut().expect("the index names groups that are here").want_scrub(m.deep, m.repair);
            }
        }
    }

    fn tick(&mut self, cx: &mut EventCx<'_>) {
        if self.started == Stamp(0) {
            self.started = cx.clock.mono;
        }
        self.leases_due(cx);
        for pg in self.pgs.iter_mut().flatten() {
            pg.tick(&mut cx.with(&mut self.sh));
        }
        if let Err(StoreError::Stopped(why)) = self.sh.store.collection_bits(CollId::Meta) {
            cx.out.push(Effect::Stop { why: Some(why) });
        }
        self.removals.work.tick();
        self.replay_peers(cx);
        self.peer_waiting(cx);
        self.tell_fullness(cx);
        self.boot_tick(cx);
        self.mgr_tick(cx);
        self.heartbeat_tick(cx);
        self.copy_tick(cx);
        self.turn_end(cx);
    }
}
