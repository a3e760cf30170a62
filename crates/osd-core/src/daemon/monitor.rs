//! The session with a monitor: the [`MonClient`], its connection, and what its effects mean to the rest of the daemon.

use super::Daemon;
use super::event::{DialFailure, Effect};
use super::links::Role;
use super::redial::Redial;
use crate::event::{ConnId, Event as OsdEvent, Level};
use base::Clock;
use denc::Denc;
use maps::MgrMap;
use messages::osd_client::MOSDMap;
use messages::{MLogAck, MMgrMap, Message, RawMessage};
use objecter::MonClient;
use objecter::monc::{Answer, Effect as MonEffect, Request};
use types::errno::EACCES;
use types::{EntityAddrVec, Epoch};

/// See the module.
pub(super) struct Monitor {
    pub client: MonClient,
    /// The dial that the client asked for last, unless it failed.
    pub conn: Option<ConnId>,
    addrs: EntityAddrVec,
    pub redial: Redial,
    /// The positive errno with which our last login was refused; 0 if it was not.
    pub denied: i32,
    /// When the keepalive was sent that was answered last, since 1970.
    acked_wall_ns: Option<u64>,
    /// The number of the last question for the monitors' range of maps.
    versions: u64,
    /// Feature bits of the monitor that we have, or had, a session with.
    pub supported: u64,
}

impl Monitor {
    pub fn new(client: MonClient) -> Self {
        Self {
            client,
            conn: None,
            addrs: EntityAddrVec::default(),
            redial: Redial::default(),
            denied: 0,
            acked_wall_ns: None,
            versions: 0,
            supported: 0,
        }
    }
}

impl Daemon {
    /// Calls the monitor client and does what comes of it.
    pub(super) fn monc(&mut self, now: Clock, out: &mut Vec<Effect>, f: impl FnOnce(&mut MonClient, &mut Vec<MonEffect>)) {
        let mut effects = Vec::new();
        f(&mut self.monitor.client, &mut effects);
        for effect in effects {
            self.mon_effect(effect, now, out);
        }
    }
    /// Asks the monitor something that has an answer; the question's number.
    pub(super) fn ask_monitor(&mut self, request: Request, now: Clock, out: &mut Vec<Effect>) -> u64 {
        let mut tid = 0;
        self.monc(now, out, |client, effects| tid = client.request(request, effects));
        tid
    }
    pub(super) fn ask_map_versions(&mut self, now: Clock, out: &mut Vec<Effect>) {
        self.monitor.versions = self.ask_monitor(Request::Version("osdmap".into()), now, out);
    }

    fn mon_effect(&mut self, effect: MonEffect, now: Clock, out: &mut Vec<Effect>) {
        match effect {
            MonEffect::Dial(addrs) => {
                self.monitor.redial.forget();
                self.dial_monitor(addrs, out);
            }
            MonEffect::Send(msg) => out.extend(self.monitor.conn.map(|conn| Effect::Send { conn, msg })),
            MonEffect::Keepalive => out.extend(self.monitor.conn.map(|conn| Effect::Keepalive { conn })),
            MonEffect::Connected => {
                self.later.push_back(OsdEvent::MonConnected);
                self.start.logged_in = true;
                self.ask_version(now, out);
                self.go_on_starting(now, out);
            }
            MonEffect::MonMap | MonEffect::Rotating => self.go_on_starting(now, out),
            MonEffect::Config(config) => self.later.push_back(OsdEvent::MonConfig(config)),
            MonEffect::Answer(Answer::Version { tid, newest, oldest })
                if tid == self.monitor.versions && !self.boot_waits_for_version() =>
            {
                self.later.push_back(OsdEvent::MapVersions { oldest: oldest as Epoch, newest: newest as Epoch });
            }
            MonEffect::Answer(Answer::Command { tid, result, status, output }) => {
                self.command_answered(tid, result, &status, &output, now, out);
            }
            MonEffect::Answer(_) => {}
        }
    }
    fn dial_monitor(&mut self, addrs: EntityAddrVec, out: &mut Vec<Effect>) {
        if let Some(old) = self.monitor.conn.take() {
            self.close_link(old, out);
        }
        self.tickets.has_monitor(None);
        self.monitor.acked_wall_ns = None;
        self.monitor.addrs = addrs.clone();
        self.monitor.conn = Some(self.links.dial(Role::Monitor, addrs, out));
    }

    pub(super) fn monitor_opened(&mut self, supported: u64, now: Clock, out: &mut Vec<Effect>) {
        self.monitor.denied = 0;
        self.monitor.supported = supported;
        self.tickets.has_monitor(Some(now.mono));
        self.monitor.redial.forget();
        self.monc(now, out, |client, effects| client.on_open(now, effects));
    }
    /// The session is cut, or could not be had: `failure` says why.
    pub(super) fn monitor_lost(&mut self, failure: Option<DialFailure>, now: Clock, out: &mut Vec<Effect>) {
        self.monitor.conn = None;
        self.tickets.has_monitor(None);
        if let Some(DialFailure::Denied(errno @ 1..)) = failure {
            self.monitor.denied = errno;
            if errno == EACCES {
                self.monitor.client.on_refused();
            }
        }
        self.monc(now, out, |client, effects| client.on_lost(now, effects));
        if self.monitor.conn.is_none() {
            // Its time is not up: the same one again.
            self.monitor.redial.failed(now.mono, &mut self.rng);
        }
    }
    pub(super) fn keepalive_acked(&mut self, sent_wall_ns: u64) {
        self.monitor.acked_wall_ns = Some(sent_wall_ns);
    }
    pub(super) fn monitor_tick(&mut self, now: Clock, out: &mut Vec<Effect>) {
        let (acked, mut effects) = (self.monitor.acked_wall_ns, Vec::new());
        self.monitor.client.tick(now, acked, &mut *self.entropy, &mut effects);
        for effect in effects {
            self.mon_effect(effect, now, out);
        }
    }
    pub(super) fn redial_monitor(&mut self, now: Clock, out: &mut Vec<Effect>) {
        if self.monitor.redial.is_due(now.mono) && self.monitor.conn.is_none() {
            self.dial_monitor(self.monitor.addrs.clone(), out);
        }
    }

    /// A message of our monitor.
    pub(super) fn from_monitor(&mut self, msg: RawMessage, now: Clock, out: &mut Vec<Effect>) {
        let mut effects = Vec::new();
        let taken = self.monitor.client.on_message(&msg, now, &mut *self.entropy, &mut effects);
        for effect in effects {
            self.mon_effect(effect, now, out);
        }
        if taken {
            return;
        }
        if msg.kind == MMgrMap::KIND {
            match MMgrMap::decode(&msg).and_then(|m| MgrMap::from_bytes(&m.map.0)) {
                Ok(map) => self.manager_map(map, out),
                Err(error) => {
                    out.push(Effect::Log { level: Level::Warn, text: format!("a manager map that can't be read: {error}") });
                }
            }
            return;
        }
        if msg.kind == MLogAck::KIND {
            self.log_acked(out);
        }
        let is_map = msg.kind == MOSDMap::KIND;
        self.osd_event_alone(OsdEvent::Mon(msg), now, out);
        if is_map {
            let epoch = self.osd.map().epoch;
            self.monitor.client.got("osdmap", epoch.into());
        }
    }
}
