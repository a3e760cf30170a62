//! One OSD: the entry through which everything comes in, and what carries messages between its two halves.
//!
//! An OSD is [`Control`] and, today, one [`Shard`]. What happens goes to the half that it concerns. What that half wants of the other is handed over
//! before anything else happens, as the messages of [`crate::joint`]; figures that one half tells the other are values. What is submitted while a batch of
//! messages is read becomes durable together, and is answered at [`Event::TurnEnd`].

use crate::connections::{Connection, Connections};
use crate::control::Control;
use crate::crumb::event_code;
use crate::event::{BootInfo, ConnId, Effect, Event, HbNet, Level, Network};
use crate::figures::Question;
use crate::joint::{Came, ToControl, ToShard};
use crate::late::Late;
use crate::load::Loading;
use crate::pg::Pg;
use crate::planted::{Bug, planted};
use crate::setup::OsdSetup;
use crate::shard::Shard;
use crate::shared::EventCx;
use base::breadcrumb::Breadcrumb;
use base::{Budget, Clock, Stamp};
use maps::OsdMap;
use messages::{
    By, MCommand, MConfig, MMgrConfigure, MMonGetPurgedSnapsReply, MOSDBackoff, MOSDForceRecovery, MOSDMap, MOSDMarkMeDown, MOSDOp,
    MOSDOpReply, MOSDPGCreate2, MOSDScrub2, Message, RawMessage,
};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use store::ObjectStore;
use types::{EntityAddr, EntityKind, OsdId, OsdSuperblock, PgId};

/// An OSD as a value.
pub struct Osd {
    pub(crate) control: Control,
    pub(crate) shard: Shard,
    /// Until everything is read that the store remembers.
    pub(crate) loading: Option<Loading>,
    pub(crate) connections: Connections,
    /// Answers of the shard that Control has not heard.
    late: Late,
}

impl Osd {
    /// An OSD with this store, which is empty or that of an OSD of the same name. What it remembers is read with the first event.
    pub fn new(setup: OsdSetup, store: Box<dyn ObjectStore>) -> Self {
        let mut config = crate::config::Config::default();
        for (name, value) in &setup.config {
            config.set(name, value, crate::config::Source::File);
        }
        config.set("osd_objectstore", store.kind(), crate::config::Source::File);
        let (config, crumb) = (Rc::new(config), Arc::<Breadcrumb>::default());
        let control = Control::new(&setup, config.clone(), store.kind(), crumb.clone());
        let shard = Shard::new(&setup, config, store, control.maps_to_read(), crumb);
        Self { control, shard, loading: Some(Loading::default()), connections: Connections::default(), late: Late::default() }
    }
    /// Answers of the shard reach Control later than they are asked for from now on, as chance has it: for the simulator.
    pub fn delay_answers(&mut self, seed: u64) {
        self.late.delay(seed);
    }
    /// What clients may have under way: its bounds follow the options from now on.
    pub fn set_budget(&mut self, budget: Rc<Budget>) {
        self.control.set_budget(budget);
    }
    /// Where the loop stands: to be watched by another thread, with limits that follow the options.
    pub fn breadcrumb(&self) -> Arc<Breadcrumb> {
        self.control.reload_limits();
        self.control.crumb().clone()
    }
    /// What `perf dump` shows.
    pub fn perf(&self) -> &crate::perf::Perf {
        self.shard.told().perf()
    }
    /// True while the map has it up, by the OSD's own account.
    pub(crate) fn is_active(&self) -> bool {
        self.control.is_active()
    }
    /// True once the monitor was told that it is dead.
    pub(crate) fn is_stopping(&self) -> bool {
        self.control.is_stopping()
    }
    /// True if it ends since what its store keeps can't be used: another start finds the same.
    pub fn is_unusable(&self) -> bool {
        self.loading.as_ref().is_some_and(Loading::has_failed)
    }
    pub fn map(&self) -> &Rc<OsdMap> {
        self.control.map()
    }
    pub fn whoami(&self) -> OsdId {
        self.control.whoami()
    }
    /// An option as it is in force, for what the shell goes by.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.control.config().get(name)
    }
    pub(crate) fn swallowed(&self) -> crate::control::blackhole::Swallowed {
        self.control.swallowed()
    }
    /// What kind of peer a connection that was accepted belongs to.
    pub(crate) fn peer_kind(&self, conn: ConnId) -> Option<EntityKind> {
        self.connections.get(conn).map(|one| one.peer.kind)
    }
    /// True once a map shows us up where we listen.
    pub fn is_up(&self) -> bool {
        self.control.is_active()
    }
    pub fn pgs(&self) -> impl Iterator<Item = &Pg> {
        self.shard.pgs()
    }
    /// True if this OSD was up before with the same uuid, and its store remembers nothing of it.
    pub fn lost_its_store(&self) -> bool {
        self.control.lost_its_store()
    }
    /// Groups of one copy that are ours by the map, and are not here.
    pub fn lost_groups(&self) -> Vec<PgId> {
        if self.lost_its_store() { self.shard.told().lost_groups() } else { Vec::new() }
    }
    pub fn store(&self) -> &dyn ObjectStore {
        self.shard.store()
    }
    /// Waits for the store: see [`ObjectStore::linger`].
    pub fn linger(&mut self, limit: Duration) -> bool {
        self.shard.linger(limit)
    }
    /// The OSD is over; its store may go on as another's.
    pub fn into_store(self) -> Box<dyn ObjectStore> {
        self.shard.into_store()
    }
    /// What the store said of itself when the OSD was loaded, and what has changed since.
    pub fn superblock(&self) -> &OsdSuperblock {
        self.control.superblock()
    }
    /// When [`Event::Due`] is due, if that is before the next [`Event::Tick`].
    pub fn due_at(&self) -> Option<Stamp> {
        [self.shard.told().lease_due_at(), self.control.heartbeats_due_at()].into_iter().flatten().min()
    }

    /// Takes one event: everything that happens comes in here.
    pub fn handle(&mut self, event: Event, clock: Clock, out: &mut Vec<Effect>) {
        self.control.crumb().event(event_code(&event));
        let before = out.len();
        self.take_event(event, &mut EventCx { clock, out });
        if self.control.is_stopping() {
            Self::withhold_answers(before, out);
        }
        self.control.crumb().event(0);
    }
    fn take_event(&mut self, event: Event, cx: &mut EventCx<'_>) {
        if self.loading.is_some() {
            self.deliver(cx);
            self.load_some(cx);
        }
        if !self.late.is_empty() {
            self.hear_late(cx);
        }
        match event {
            Event::Request { conn, msg, permit } => return self.tell_shard(ToShard::Request { conn, msg, permit }, cx),
            Event::Message { conn, msg } if msg.kind == MOSDOp::KIND => {
                return self.tell_shard(ToShard::Request { conn, msg, permit: None }, cx);
            }
            _ => self.tell_shard(ToShard::Gathered, cx),
        }
        match event {
            Event::Request { .. } => unreachable!("taken above"),
            Event::Message { conn, msg } => self.message(conn, msg, cx),
            Event::Heartbeat { conn, net, msg } => self.heartbeat(conn, net, &msg, cx),
            Event::PeerRefused { addrs } => self.control.peer_refused(&addrs, cx),
            Event::HeartbeatCut { net, addrs } => self.control.heartbeat_cut(net, &addrs, cx),
            Event::TurnEnd => self.turn_end(cx),
            Event::Connected { conn, peer } => {
                self.connections.connected(conn, &peer);
                self.tell_shard(ToShard::Connected { conn, peer }, cx);
            }
            Event::Reset { conn } => {
                self.connections.reset(conn);
                self.tell_shard(ToShard::Reset { conn }, cx);
            }
            Event::Mon(msg) => self.mon_message(msg, cx),
            Event::Mgr(msg) => self.mgr_message(&msg, cx),
            Event::MgrConnected => self.control.mgr_connected(cx),
            Event::Osd { osd, msg } => self.osd_message(osd, msg, cx),
            Event::Tick => self.tick(cx),
            Event::Due => {
                self.tell_shard(ToShard::LeasesDue, cx);
                self.control.dial_cut(cx);
                self.control.report_silent(false, cx);
            }
            Event::Boot(info) => self.start_boot(*info, cx),
            Event::MapVersions { oldest, newest } => self.control.map_versions(oldest, newest, cx),
            Event::Continue => {
                self.tell_shard(ToShard::Turn, cx);
                self.turn_end(cx);
            }
            Event::Config { name, value } => self.control.configure(&name, &value, crate::config::Source::Override, cx),
            Event::SpareForCaches(bytes) => self.tell_shard(ToShard::SpareForCaches(bytes), cx),
            Event::Shutdown => self.control.shutdown(cx),
            Event::MonConnected => self.mon_connected(cx),
            Event::MonConfig(config) => self.control.mon_config(&config),
        }
        self.deliver(cx);
    }

    /// Tells the shard something, and Control what the shard says to that.
    #[inline]
    pub(crate) fn tell_shard(&mut self, msg: ToShard, cx: &mut EventCx<'_>) {
        self.shard.take(msg, cx);
        self.hear_shard(cx);
    }
    #[inline]
    pub(crate) fn hear_shard(&mut self, cx: &mut EventCx<'_>) {
        while let Some(msg) = self.shard.next_for_control() {
            if let Some(msg) = self.late.pass(msg) {
                self.hear(msg, cx);
            }
        }
    }
    fn hear(&mut self, msg: ToControl, cx: &mut EventCx<'_>) {
        match msg {
            ToControl::Said(said) => self.finish_command(*said, cx),
            ToControl::Loaded(result) => self.loaded(*result, cx),
            ToControl::Unusable => self.end_unusable(None, cx),
            msg => self.control.take(msg, cx),
        }
    }
    /// Answers that were late have come, as chance has it.
    #[cold]
    fn hear_late(&mut self, cx: &mut EventCx<'_>) {
        while let Some(msg) = self.late.next() {
            let again = self.late.asked_again(&msg);
            self.hear(msg, cx);
            self.deliver(cx);
            again.into_iter().for_each(|question| self.ask(question, cx));
        }
    }
    /// Asks the shard something for Control; once an answer to that has come which is on its way.
    fn ask(&mut self, question: Question, cx: &mut EventCx<'_>) {
        if self.late.is_asked(question) {
            self.late.ask_again(question);
        } else {
            self.tell_shard(ToShard::Ask(question), cx);
        }
    }
    /// Tells the shard what Control has to say. To be called before anything else happens that concerns the shard.
    pub(crate) fn deliver(&mut self, cx: &mut EventCx<'_>) {
        while let Some(said) = self.control.next_for_shards() {
            said.into_iter().for_each(|msg| self.tell_shard(msg, cx));
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

    /// Takes what is durable and what the store has fetched, until nothing more comes of it.
    fn turn_end(&mut self, cx: &mut EventCx<'_>) {
        let was_loading = self.loading.is_some();
        self.tell_shard(ToShard::TurnEnd, cx);
        if was_loading || self.control.has_pending_maps() {
            self.turn_end_at_start(was_loading, cx);
        }
        if self.control.take_merge_soon() {
            self.tell_ready_to_merge(cx);
        }
        if self.control.was_refused() {
            self.tell_fullness(cx);
        }
        self.tell_shard(ToShard::TurnOver, cx);
    }
    /// The same while the store is being read: groups that are there by now have their turn, and maps that waited for it are taken.
    #[cold]
    fn turn_end_at_start(&mut self, was_loading: bool, cx: &mut EventCx<'_>) {
        if was_loading && self.loading.is_none() {
            self.tell_shard(ToShard::TurnEnd, cx);
        }
        while self.take_maps(cx) {
            self.tell_shard(ToShard::TurnEnd, cx);
        }
    }
    fn tick(&mut self, cx: &mut EventCx<'_>) {
        self.control.tick(cx.clock.mono);
        self.tell_shard(ToShard::Tick, cx);
        self.tell_fullness(cx);
        self.boot_tick(cx);
        if self.control.mgr_tick(cx.clock.mono) {
            self.report_now(cx);
        }
        self.ping(cx);
        self.tell_shard(ToShard::AskAnew, cx);
        self.turn_end(cx);
    }

    pub(crate) fn start_boot(&mut self, info: BootInfo, cx: &mut EventCx<'_>) {
        match &mut self.loading {
            Some(loading) => loading.boot = Some(Box::new(info)),
            None => self.control.start_boot(info, cx),
        }
    }
    fn boot_tick(&mut self, cx: &mut EventCx<'_>) {
        if self.control.boot_tick(cx) {
            self.ask(Question::Primaries, cx);
        }
        self.deliver(cx);
    }
    fn mon_connected(&mut self, cx: &mut EventCx<'_>) {
        if self.control.mon_connected(cx) {
            self.tell_ready_to_merge(cx);
            self.tell_shard(ToShard::MonConnected, cx);
            self.boot_tick(cx);
        }
    }
    /// Pings other OSDs, when it is time.
    fn ping(&mut self, cx: &mut EventCx<'_>) {
        if self.control.wants_to_ping(cx.clock.mono) {
            self.ask(Question::Members, cx);
        }
    }
    fn tell_ready_to_merge(&mut self, cx: &mut EventCx<'_>) {
        self.ask(Question::Merges, cx);
    }
    /// Tells the monitor when the map doesn't show how full we are; again until it does.
    fn tell_fullness(&mut self, cx: &mut EventCx<'_>) {
        if self.control.is_active() {
            self.ask(Question::Fullness, cx);
            self.deliver(cx);
        }
    }
    /// `injectfull`: pretends.
    pub(crate) fn inject_full(&mut self, kind: &str, count: Option<i64>, cx: &mut EventCx<'_>) -> crate::answer::Answer {
        let answer = self.control.inject_full(kind, count);
        if answer.0 == 0 {
            self.tell_fullness(cx);
        }
        answer
    }
    fn report_now(&mut self, cx: &mut EventCx<'_>) {
        self.ask(Question::Report { pinged: self.control.pinged() }, cx);
    }

    /// Maps of the monitor.
    fn maps_came(&mut self, m: MOSDMap, cx: &mut EventCx<'_>) {
        let is_new = self.control.maps_came(m);
        self.take_new_maps(is_new, cx);
    }
    /// Maps of another OSD, which has this address by its own word.
    fn peer_maps_came(&mut self, osd: OsdId, at: Option<&EntityAddr>, m: MOSDMap, cx: &mut EventCx<'_>) {
        let is_new = self.control.peer_maps_came(osd, at, m, cx);
        self.take_new_maps(is_new, cx);
    }
    /// Maps are taken in at once, whatever is in flight; before the store is read they wait.
    fn take_new_maps(&mut self, is_new: bool, cx: &mut EventCx<'_>) {
        self.deliver(cx);
        if is_new {
            self.take_maps(cx);
        }
    }
    /// Takes in every map that waits. False if there is none.
    fn take_maps(&mut self, cx: &mut EventCx<'_>) -> bool {
        if self.loading.is_some() || !self.control.has_pending_maps() {
            return false;
        }
        let before = self.control.map().epoch;
        loop {
            self.ask(Question::OldestRecord, cx);
            if !self.control.next_map(cx) {
                break;
            }
            self.deliver(cx);
            // A group that is behind may keep them for long: the others' records are not written with each map.
            if self.control.maps().is_crowded() {
                let lag = self.control.maps().fulls() / 2;
                self.tell_shard(ToShard::RefreshRecords { lag }, cx);
            }
        }
        if self.control.map().epoch == before {
            return true;
        }
        self.tell_shard(ToShard::MapsEnd, cx);
        if self.control.check_ourselves(cx) {
            self.ping(cx);
            self.control.boot_if_healthy(cx);
        }
        self.deliver(cx);
        self.tell_shard(ToShard::GoOn, cx);
        true
    }

    /// A message of a connected peer; anything but a request. Who may send it is said by [`messages::senders`].
    fn message(&mut self, conn: ConnId, msg: RawMessage, cx: &mut EventCx<'_>) {
        let Some(Connection { peer, network, addr, .. }) = self.connections.get(conn).copied() else { return };
        let (kind, osd) = (msg.kind, peer.num as OsdId);
        let is_osd = peer.kind == EntityKind::OSD || planted(Bug::BelieveKind);
        let is_at_home = network == Network::Cluster || planted(Bug::BelieveNetwork);
        let result = match messages::senders(kind).map_or(By::Nobody, |row| row.osd) {
            By::Capable => MCommand::decode(&msg).map(|m| self.command(Some(conn), &m, cx)),
            By::PeerOsd if is_osd && is_at_home => {
                self.tell_shard(ToShard::Osd(Came { from: osd, at: Some(addr), msg }), cx);
                Ok(())
            }
            By::MapHolder if is_osd => MOSDMap::decode(&msg).map(|m| self.peer_maps_came(osd, Some(&addr), m, cx)),
            By::AskedOsd if is_osd && network == Network::Public => {
                self.tell_shard(ToShard::Answer { osd, msg }, cx);
                Ok(())
            }
            // The client has understood; the block itself is remembered by its session.
            By::AskedOsd if kind == MOSDBackoff::KIND => MOSDBackoff::decode(&msg).map(drop),
            _ => Ok(()),
        };
        if let Err(error) = result {
            unreadable(&peer.to_string(), kind, &error, cx);
            cx.out.push(Effect::Close(conn));
        }
    }
    /// A message on a network of heartbeats.
    fn heartbeat(&mut self, conn: ConnId, net: HbNet, msg: &RawMessage, cx: &mut EventCx<'_>) {
        let Some(peer) = self.connections.get(conn).map(|one| one.peer) else { return };
        let by = messages::senders(msg.kind).map_or(By::Nobody, |row| row.osd);
        if by == By::Pinger && (peer.kind == EntityKind::OSD || planted(Bug::BelieveKind)) {
            self.control.heartbeat(conn, peer, net, msg, cx);
        }
    }
    /// A message of another OSD, whose address the caller knows.
    fn osd_message(&mut self, osd: OsdId, msg: RawMessage, cx: &mut EventCx<'_>) {
        match msg.kind {
            MOSDMap::KIND => match MOSDMap::decode(&msg) {
                Ok(m) => self.peer_maps_came(osd, None, m, cx),
                Err(error) => unreadable(&format!("osd.{osd}"), msg.kind, &error, cx),
            },
            MOSDOpReply::KIND => self.tell_shard(ToShard::Answer { osd, msg }, cx),
            _ => self.tell_shard(ToShard::Osd(Came { from: osd, at: None, msg }), cx),
        }
    }
    fn mon_message(&mut self, msg: RawMessage, cx: &mut EventCx<'_>) {
        let result = match msg.kind {
            MOSDMap::KIND => MOSDMap::decode(&msg).map(|m| self.maps_came(m, cx)),
            MOSDPGCreate2::KIND => MOSDPGCreate2::decode(&msg).map(|m| self.tell_shard(ToShard::Creates(m), cx)),
            MConfig::KIND => MConfig::decode(&msg).map(|m| self.control.mon_config(&m.config)),
            MMonGetPurgedSnapsReply::KIND => MMonGetPurgedSnapsReply::decode(&msg).map(|m| self.control.purged_snaps(&m, cx)),
            MOSDMarkMeDown::KIND => MOSDMarkMeDown::decode(&msg).map(|_| self.control.marked_down(cx)),
            MOSDScrub2::KIND => MOSDScrub2::decode(&msg).map(|m| self.tell_shard(ToShard::Scrub(m), cx)),
            MCommand::KIND => MCommand::decode(&msg).map(|m| self.command(None, &m, cx)),
            _ => Ok(()),
        };
        if let Err(error) = result {
            unreadable("monitor", msg.kind, &error, cx);
        }
    }
    fn mgr_message(&mut self, msg: &RawMessage, cx: &mut EventCx<'_>) {
        let result = match msg.kind {
            MMgrConfigure::KIND => MMgrConfigure::decode(msg).map(|m| {
                let wants_report = self.control.configure_reports(m);
                self.deliver(cx);
                if wants_report {
                    self.report_now(cx);
                }
            }),
            MOSDScrub2::KIND => MOSDScrub2::decode(msg).map(|m| self.tell_shard(ToShard::Scrub(m), cx)),
            MOSDForceRecovery::KIND => MOSDForceRecovery::decode(msg).map(|m| self.tell_shard(ToShard::ForceRecovery(m), cx)),
            MCommand::KIND => MCommand::decode(msg).map(|m| self.command(None, &m, cx)),
            _ => Ok(()),
        };
        if let Err(error) = result {
            unreadable("manager", msg.kind, &error, cx);
        }
    }
}

fn unreadable(whose: &str, kind: u16, error: &denc::DencError, cx: &mut EventCx<'_>) {
    let text = format!("{whose}: {} that can't be read: {error}", messages::kind_name(kind));
    cx.out.push(Effect::Log { level: Level::Warn, text });
}
