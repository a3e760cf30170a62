//! An OSD's process as a value: the [`Osd`], its monitor client, its link to the manager and its lines for the cluster log take events and give
//! effects together.
//!
//! ```text
//!   sockets, timers, devices ── Event ──> Daemon ── Effect ──> dial, send, close, wake me, ...
//!                                           │
//!            register   `osd new`, with a key that may, before all that
//!            start      login, place in the CRUSH map, boot
//!            monitor    the session with a monitor        ─┐
//!            manager    the session with the manager       ├─ links: numbers of what was dialled; redial: when again
//!            dials      other OSDs                        ─┘
//!            tickets    sessions end when the tickets do that opened them
//!            lone_client  whether the thread may wait for the device by itself
//!            Osd        all the rest
//! ```
//! Connections are numbers: those of dials are the daemon's ([`ConnId::is_dialled`]), those of accepted ones the shell's. The shell `osd` and the
//! simulator drive the same value. Absent: sockets, clocks, devices; the messenger's own business, which is to keep a lossless session over its
//! transports.

pub(crate) mod blackhole;
mod cluster_log;
mod dials;
mod event;
mod links;
mod lone_client;
mod manager;
mod monitor;
mod presented;
mod redial;
mod register;
mod start;
mod tickets;

pub use event::{DialFailure, Effect, Event, Network};
pub use register::{Registration, Step};
pub use start::{Location, StartSetup};

use crate::event::{ConnId, Effect as OsdEffect, Event as OsdEvent, Level, Peer};
use crate::osd::Osd;
use crate::planted::{Bug, planted};
use base::{Clock, Rng, Stamp};
use cephx::Entropy;
use cluster_log::ClusterLog;
use links::{Link, Links, Role};
use lone_client::LoneClient;
use manager::Manager;
use messages::mon_client::LEAVES;
use messages::{MCommand, MCommandReply, Message, RawMessage};
use monitor::Monitor;
use objecter::MonClient;
use start::Start;
use std::collections::VecDeque;
use std::time::Duration;
use tickets::Tickets;
use types::{EntityKind, EntityName, Epoch, features};

/// Between two ticks.
const TICK: Duration = Duration::from_secs(1);
/// How long the monitor may take to confirm that we are down before we end without its word.
const GOODBYE: Duration = Duration::from_secs(3);
/// How long the thread waits for a device by itself, if it may at all.
const LINGER: Duration = Duration::from_millis(2);
/// What one request may bring of the store before its answer: its record and what is behind an earlier one.
const LINGERS: usize = 4;

/// See the module.
pub struct Daemon {
    osd: Osd,
    /// Room for the OSD's effects; empty between events.
    effects: Vec<OsdEffect>,
    /// Events for the OSD that came of effects: taken when those are carried out.
    later: VecDeque<OsdEvent>,
    monitor: Monitor,
    manager: Manager,
    links: Links,
    start: Start,
    log: ClusterLog,
    lone_client: LoneClient,
    tickets: Tickets,
    /// For secrets.
    entropy: Box<dyn Entropy>,
    /// For pauses.
    rng: Rng,
    /// The map by which links were looked at.
    seen_epoch: Epoch,
    tick_at: Stamp,
    /// We end then, whether or not the monitor has confirmed it.
    goodbye_at: Option<Stamp>,
    /// What the shell was told last.
    wake_at: Stamp,
    is_over: bool,
    /// Why it ends was sent to the monitor.
    leaves: bool,
}

impl Daemon {
    /// `client` has its identity and knows where monitors may be; `entropy` is for secrets.
    pub fn new(osd: Osd, mut client: MonClient, setup: StartSetup, mut entropy: Box<dyn Entropy>) -> Self {
        // Sent with the first session.
        client.subscribe_to("mgrmap", 0, 0, &mut Vec::new());
        Self {
            osd,
            effects: Vec::new(),
            later: VecDeque::new(),
            monitor: Monitor::new(client),
            manager: Manager::default(),
            links: Links::default(),
            start: Start::new(setup),
            log: ClusterLog::default(),
            lone_client: LoneClient::default(),
            tickets: Tickets::default(),
            rng: Rng::new(entropy.u64()),
            entropy,
            seen_epoch: 0,
            tick_at: Stamp(0),
            goodbye_at: None,
            wake_at: Stamp(0),
            is_over: false,
            leaves: false,
        }
    }
    pub fn osd(&self) -> &Osd {
        &self.osd
    }
    /// The daemon is over; its OSD's store may go on as another's.
    pub fn into_osd(self) -> Osd {
        self.osd
    }

    /// Takes one event: everything that happens comes in here.
    pub fn handle(&mut self, event: Event, now: Clock, out: &mut Vec<Effect>) {
        let from = out.len();
        if !self.is_swallowed(&event) {
            self.take(event, now, out);
        }
        self.name_next_time(now, out);
        self.swallow(from, out);
    }
    fn take(&mut self, event: Event, now: Clock, out: &mut Vec<Effect>) {
        match event {
            Event::Request { conn, msg, permit } => {
                self.lone_client.came(conn);
                self.osd_event(OsdEvent::Request { conn, msg, permit }, now, out);
            }
            Event::TurnEnd => self.osd_event(OsdEvent::TurnEnd, now, out),
            Event::Message { conn, network, msg } => self.message(conn, network, msg, now, out),
            Event::Accepted { conn, peer } => self.osd_event_alone(OsdEvent::Connected { conn, peer }, now, out),
            Event::TicketLasts { conn, kind, lasts } => self.ticket_lasts(conn, kind, lasts, now),
            Event::Opened { conn, peer } => self.opened(conn, peer, now, out),
            Event::Reset { conn } => self.reset(conn, now, out),
            Event::DialFailed { conn, why, attempts } => self.dial_failed(conn, why, attempts, now, out),
            Event::KeepaliveAcked { sent_wall_ns } => self.keepalive_acked(sent_wall_ns),
            Event::Time => self.time(now, out),
            Event::Continue => self.osd_event_alone(OsdEvent::Continue, now, out),
            Event::AdminCommand { id, command } => self.admin_command(id, command, now, out),
            Event::DevicesTold { conn, tid, told } => self.send(conn, crate::command_output(tid, &told), out),
            Event::Start => {
                self.start.begin(now.mono);
                self.tick_at = now.mono;
                self.monc(now, out, |client, effects| client.start(now, effects));
            }
            Event::Shutdown => {
                self.goodbye_at = Some(now.mono + GOODBYE);
                self.osd_event_alone(OsdEvent::Shutdown, now, out);
            }
            Event::SpareForCaches(bytes) => self.osd_event_alone(OsdEvent::SpareForCaches(bytes), now, out),
            Event::Seen { level, text } => self.cluster_log(level, text, now, out),
            Event::LastWords { why } => self.leave(&why, now, out),
        }
        while let Some(event) = self.later.pop_front() {
            self.osd_event_alone(event, now, out);
        }
    }
    /// Waits for the device where that keeps no other client waiting, at the end of a batch of requests and for the `round`th time since. True:
    /// [`Event::TurnEnd`] is due.
    pub fn linger(&mut self, round: usize) -> bool {
        if round >= LINGERS || !self.lone_client.may_wait() {
            return false;
        }
        if !self.osd.linger(LINGER) {
            self.lone_client.was_slow();
        }
        true
    }

    /// An event for the OSD, and what comes of it.
    fn osd_event(&mut self, event: OsdEvent, now: Clock, out: &mut Vec<Effect>) {
        let mut effects = std::mem::take(&mut self.effects);
        self.osd.handle(event, now, &mut effects);
        for effect in effects.drain(..) {
            self.osd_effect(effect, now, out);
        }
        self.effects = effects;
        if self.osd.map().epoch != self.seen_epoch {
            self.close_links_of_the_dead(out);
        }
    }
    /// An event that belongs to no batch: what it brings is committed and answered at once.
    fn osd_event_alone(&mut self, event: OsdEvent, now: Clock, out: &mut Vec<Effect>) {
        self.osd_event(event, now, out);
        self.osd_event(OsdEvent::TurnEnd, now, out);
    }

    fn osd_effect(&mut self, effect: OsdEffect, now: Clock, out: &mut Vec<Effect>) {
        match effect {
            OsdEffect::Send { conn, msg } => {
                self.lone_client.answered(conn);
                self.send(conn, msg, out);
            }
            OsdEffect::SendMon(msg) => self.monc(now, out, |client, effects| client.send(msg, effects)),
            OsdEffect::SendMgr(msg) => out.extend(self.manager.conn.map(|conn| Effect::Send { conn, msg })),
            OsdEffect::SendOsd { osd, addrs, msg } => {
                let conn = self.links.osd(Network::Cluster, osd, addrs, out);
                out.push(Effect::Send { conn, msg });
            }
            OsdEffect::AskOsd { osd, addrs, msg } => {
                let conn = self.links.osd(Network::Public, osd, addrs, out);
                out.push(Effect::Send { conn, msg });
            }
            OsdEffect::SendHeartbeat { osd, net, addrs, msg } => {
                let conn = self.links.osd(dials::network(net), osd, addrs, out);
                out.push(Effect::Send { conn, msg });
            }
            OsdEffect::Close(conn) => {
                self.tickets.remove(conn);
                self.close_link(conn, out);
                self.later.push_back(OsdEvent::Reset { conn });
            }
            OsdEffect::RenewCluster { addrs } => {
                self.links.forget_network(Network::Cluster);
                out.push(Effect::RenewCluster { addrs });
            }
            OsdEffect::SubscribeMaps { from } => {
                self.monc(now, out, |client, effects| client.resubscribe("osdmap", from.into(), 0, effects));
            }
            OsdEffect::SubscribeCreates { from } => {
                self.monc(now, out, |client, effects| client.subscribe_to("osd_pg_creates", from.into(), 0, effects));
            }
            OsdEffect::AskMapVersions => self.ask_map_versions(now, out),
            OsdEffect::Continue => out.push(Effect::Continue),
            OsdEffect::Booted { epoch } => {
                out.push(Effect::Booted { epoch });
                self.booted(now, out);
            }
            OsdEffect::Log { level, text } => out.push(Effect::Log { level, text }),
            OsdEffect::ClusterLog { level, text } => self.cluster_log(level, text, now, out),
            OsdEffect::AskDevices { conn, tid, question } => out.push(Effect::AskDevices { conn, tid, question }),
            OsdEffect::Stop { why } => self.stop(why, out),
        }
    }
    #[inline]
    fn send(&mut self, conn: ConnId, msg: RawMessage, out: &mut Vec<Effect>) {
        match conn.admin_id() {
            None => out.push(Effect::Send { conn, msg }),
            Some(id) => {
                if let Ok(reply) = MCommandReply::decode(&msg) {
                    out.push(Effect::AnswerAdmin { id, result: reply.result, status: reply.status, data: reply.data.to_vec() });
                }
                self.later.push_back(OsdEvent::Reset { conn });
            }
        }
    }
    /// Ends a connection of whatever kind.
    fn close_link(&mut self, conn: ConnId, out: &mut Vec<Effect>) {
        self.links.remove(conn);
        out.push(Effect::Close { conn });
    }
    fn cluster_log(&mut self, level: Level, text: String, now: Clock, out: &mut Vec<Effect>) {
        if level <= Level::Warn {
            out.push(Effect::Log { level, text: text.clone() });
        }
        self.to_cluster_log(level, text, now, out);
    }
    fn to_cluster_log(&mut self, level: Level, text: String, now: Clock, out: &mut Vec<Effect>) {
        let fsid = self.monitor.client.fsid().unwrap_or_default();
        let msg = self.log.message(self.osd.whoami(), &self.start.setup.boot.public, fsid, level, text, now);
        self.monc(now, out, |client, effects| client.send(msg, effects));
    }
    /// The monitor hears why, and that the OSD is down. One that is not up in the map has only the first to say.
    fn leave(&mut self, why: &str, now: Clock, out: &mut Vec<Effect>) {
        (self.is_over, self.leaves) = (false, true);
        self.goodbye_at = Some(now.mono + GOODBYE);
        self.to_cluster_log(Level::Error, format!("{LEAVES}{why}"), now, out);
        if self.osd.is_active() {
            self.osd_event_alone(OsdEvent::Shutdown, now, out);
        }
    }
    /// The monitor has the last words.
    fn log_acked(&mut self, out: &mut Vec<Effect>) {
        if self.leaves && !self.osd.is_stopping() {
            self.stop(None, out);
        }
    }
    /// What is over stays over.
    fn stop(&mut self, why: Option<String>, out: &mut Vec<Effect>) {
        // The reason is known already, and comes again with every tick.
        if self.leaves && why.is_some() {
            return;
        }
        if !std::mem::replace(&mut self.is_over, true) {
            out.push(Effect::Stop { why });
        }
    }

    fn message(&mut self, conn: ConnId, network: Network, msg: RawMessage, now: Clock, out: &mut Vec<Effect>) {
        let event = match (network.heartbeats(), self.links.role(conn)) {
            (None, Some(Role::Monitor)) => return self.from_monitor(msg, now, out),
            (None, Some(Role::Manager)) => return self.osd_event_alone(OsdEvent::Mgr(msg), now, out),
            (None, _) => OsdEvent::Message { conn, msg },
            (Some(net), _) => OsdEvent::Heartbeat { conn, net, msg },
        };
        self.osd_event(event, now, out);
    }
    fn opened(&mut self, conn: ConnId, peer: Peer, now: Clock, out: &mut Vec<Effect>) {
        match self.links.role(conn) {
            Some(Role::Monitor) => self.monitor_opened(peer.supported, now, out),
            Some(Role::Manager) => self.manager_opened(now, out),
            Some(Role::Osd(_)) | None => self.osd_event_alone(OsdEvent::Connected { conn, peer }, now, out),
        }
    }
    fn reset(&mut self, conn: ConnId, now: Clock, out: &mut Vec<Effect>) {
        self.tickets.remove(conn);
        let link = self.links.remove(conn);
        match link.as_ref().map(|link| link.role) {
            Some(Role::Monitor) => self.monitor_lost(None, now, out),
            Some(Role::Manager) => self.manager_cut(now),
            Some(Role::Osd(_)) | None => self.osd_event_alone(OsdEvent::Reset { conn }, now, out),
        }
        if let Some(Link { role: Role::Osd(network), addrs }) = link
            && let Some(net) = network.heartbeats()
        {
            self.osd_event_alone(OsdEvent::HeartbeatCut { net, addrs }, now, out);
        }
    }
    /// Lossy dials are given up each time, and made again when their side thinks fit.
    fn dial_failed(&mut self, conn: ConnId, why: DialFailure, attempts: u32, now: Clock, out: &mut Vec<Effect>) {
        match self.links.role(conn) {
            Some(Role::Monitor) => {
                self.close_link(conn, out);
                self.monitor_lost(Some(why), now, out);
            }
            Some(Role::Manager) => {
                self.close_link(conn, out);
                self.manager_dial_failed(now);
            }
            Some(Role::Osd(_)) | None => self.osd_dial_failed(conn, why, attempts, now, out),
        }
    }

    fn time(&mut self, now: Clock, out: &mut Vec<Effect>) {
        // Also if it came early: the shell waits for nothing now.
        self.wake_at = Stamp(0);
        self.redial_monitor(now, out);
        self.redial_manager(now, out);
        if self.tick_at <= now.mono {
            self.tick_at = now.mono + TICK;
            self.monitor_tick(now, out);
            self.end_old_sessions(now, out);
            self.osd_event_alone(OsdEvent::Tick, now, out);
        }
        if self.osd.due_at().is_some_and(|at| at <= now.mono) {
            self.osd_event_alone(OsdEvent::Due, now, out);
        }
        self.start_tick(now, out);
        if self.goodbye_at.take_if(|at| *at <= now.mono).is_some() {
            self.stop(None, out);
        }
    }
    fn name_next_time(&mut self, now: Clock, out: &mut Vec<Effect>) {
        let others = [self.monitor.redial.at(), self.manager.redial.at(), self.start.wake_at(), self.goodbye_at, self.osd.due_at()];
        let at = others.into_iter().flatten().fold(self.tick_at, Stamp::min);
        let at = if planted(Bug::WakeAtOnce) { at.min(now.mono + Duration::from_millis(10)) } else { at };
        if at != self.wake_at {
            self.wake_at = at;
            out.push(Effect::WakeAt(at));
        }
    }

    fn admin_command(&mut self, id: u64, command: String, now: Clock, out: &mut Vec<Effect>) {
        let conn = ConnId::admin(id);
        let peer = Peer {
            name: EntityName { kind: EntityKind::CLIENT, num: 0 },
            entity: "client.admin".into(),
            global_id: 0,
            features: features::SUPPORTED,
            supported: features::SUPPORTED,
            addr: Default::default(),
            from: Default::default(),
            network: Network::Public,
            cap: None,
        };
        let msg = MCommand { cmd: vec![command], ..MCommand::default() }.encode(features::SUPPORTED);
        self.osd_event(OsdEvent::Connected { conn, peer }, now, out);
        self.osd_event_alone(OsdEvent::Message { conn, msg }, now, out);
    }
}
