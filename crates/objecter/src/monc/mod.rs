//! The session with a monitor: finding one, logging in, subscribing, asking, keeping tickets and secrets fresh.
//!
//! One monitor is tried at a time. When the session is lost another one is found, everything that is subscribed to is subscribed to
//! again from where it stood, and every question without an answer is asked again. For clients and OSDs alike.
//!
//! In: [`MonClient::start`], [`MonClient::on_open`], [`MonClient::on_lost`], [`MonClient::on_message`], [`MonClient::tick`] (every second or
//! so). Out: [`Effect`]s, in order.
//!
//! Source of the facts: Ceph 18.2 `src/mon/MonClient.{h,cc}`, `src/mon/MonSub.cc` (behaviour only).

mod requests;
mod subs;

pub use requests::{Answer, Request};
pub use subs::Subs;

use base::{Clock, Rng, Stamp};
use bytes::Bytes;
use cephx::client::Progress;
use cephx::{Entropy, Identity, RotatingSecrets};
use denc::Denc;
use maps::MonMap;
use messages::{
    MAuth, MAuthReply, MConfig, MGetPoolStatsReply, MMonCommandAck, MMonGetVersionReply, MMonMap, MMonSubscribe, MMonSubscribeAck,
    MPoolOpReply, MStatfsReply, Message, Paxos, RawMessage,
};
use requests::Requests;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use types::{EntityAddrVec, EntityKind, UTime, Uuid, features};

/// How long one monitor is tried; after a round without success the time grows to ten times that.
const HUNT: Duration = Duration::from_secs(3);
const HUNT_MAX: Duration = Duration::from_secs(30);
const PING: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two questions for tickets or secrets.
const RENEW_PAUSE: Duration = Duration::from_secs(5);
/// Secrets are asked for this long before the current one runs out.
const ROTATING_AHEAD: Duration = Duration::from_secs(30);

/// What the shell is to do, or the layer above is to hear.
#[derive(Debug)]
pub enum Effect {
    /// Dial this monitor, lossy, and forget the previous connection.
    Dial(EntityAddrVec),
    /// Send on the connection dialled last.
    Send(RawMessage),
    /// Ask for a sign of life on the connection dialled last.
    Keepalive,
    /// A session is open; messages of the last one that had no answer are to be sent again by their senders.
    Connected,
    MonMap,
    /// The configuration that the monitors have for us, whole.
    Config(BTreeMap<String, String>),
    Answer(Answer),
    /// Our service's secrets are here, or newer ones.
    Rotating,
}

/// Identity shared with what dials.
pub type SharedIdentity = Rc<RefCell<Identity>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// Dialled, not open yet.
    Hunting {
        until: Stamp,
    },
    Open,
}

/// See the module.
pub struct MonClient {
    identity: SharedIdentity,
    /// Present for daemons, whose service has secrets.
    rotating: Option<Rc<RefCell<RotatingSecrets>>>,
    /// Set by our service's side when a ticket names a secret that we don't have.
    missing: Rc<Cell<bool>>,
    hostname: String,
    bootstrap: Vec<EntityAddrVec>,
    monmap: Option<MonMap>,
    state: State,
    /// The monitors in the order in which they are tried, the next one last.
    queue: Vec<EntityAddrVec>,
    patience: Duration,
    subs: Subs,
    requests: Requests,
    /// Messages for whichever monitor comes, kept while there is none.
    waiting: Vec<RawMessage>,
    last_ping: Stamp,
    opened_at: Stamp,
    last_renewal: Stamp,
    last_rotating: Stamp,
    rng: Rng,
}

impl MonClient {
    /// `bootstrap`: where monitors may be, as configured. `seed` shuffles them and need not be secret.
    pub fn new(identity: SharedIdentity, bootstrap: Vec<EntityAddrVec>, hostname: String, seed: u64) -> Self {
        let mut subs = Subs::default();
        for what in ["monmap", "config"] {
            subs.want(what, 0, 0);
        }
        Self {
            identity,
            rotating: None,
            missing: Rc::default(),
            hostname,
            bootstrap,
            monmap: None,
            state: State::Idle,
            queue: Vec::new(),
            patience: HUNT,
            subs,
            requests: Requests::default(),
            waiting: Vec::new(),
            last_ping: Stamp(0),
            opened_at: Stamp(0),
            last_renewal: Stamp(0),
            last_rotating: Stamp(0),
            rng: Rng::new(seed),
        }
    }
    /// Keeps these secrets fresh: for OSDs, managers and MDSs, which read tickets with them.
    ///
    /// They are asked for ahead of their time, and when `missing` says that a ticket came which none of them reads.
    pub fn keep_rotating(&mut self, secrets: Rc<RefCell<RotatingSecrets>>, missing: Rc<Cell<bool>>) {
        self.rotating = Some(secrets);
        self.missing = missing;
    }
    pub fn identity(&self) -> &SharedIdentity {
        &self.identity
    }
    pub fn monmap(&self) -> Option<&MonMap> {
        self.monmap.as_ref()
    }
    pub fn fsid(&self) -> Option<Uuid> {
        self.monmap.as_ref().map(|m| m.fsid)
    }
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }
    /// True if the secrets of our service are good, or none are needed.
    pub fn has_rotating(&self, now: UTime) -> bool {
        let needed = self.identity.borrow().rotating_request().is_some();
        !needed || self.rotating.as_ref().is_none_or(|r| !r.borrow().need_new(now))
    }

    /// Starts looking for a monitor.
    pub fn start(&mut self, clock: Clock, out: &mut Vec<Effect>) {
        self.hunt(clock, out);
    }
    fn hunt(&mut self, clock: Clock, out: &mut Vec<Effect>) {
        if self.queue.is_empty() {
            self.queue = match &self.monmap {
                Some(map) => map.ranks.iter().filter_map(|n| map.mons.get(n)).map(|m| m.public_addrs.clone()).collect(),
                None => self.bootstrap.clone(),
            };
            self.queue.retain(|a| a.msgr2().is_some());
            if self.queue.is_empty() {
                self.queue = self.bootstrap.clone();
            }
            for i in (1..self.queue.len()).rev() {
                let j = self.rng.below(i as u64 + 1) as usize;
                self.queue.swap(i, j);
            }
            if self.state != State::Idle {
                self.patience = (self.patience * 3 / 2).min(HUNT_MAX);
            }
        }
        self.state = State::Hunting { until: clock.mono + self.patience };
        if let Some(addrs) = self.queue.pop() {
            out.push(Effect::Dial(addrs));
        }
    }
    /// The connection dialled last is open, which means that we are logged in.
    pub fn on_open(&mut self, clock: Clock, out: &mut Vec<Effect>) {
        self.state = State::Open;
        self.queue.clear();
        self.patience = HUNT;
        self.opened_at = clock.mono;
        self.last_ping = clock.mono;
        self.subs.renew();
        out.push(Effect::Connected);
        self.subscribe(out);
        self.ask_rotating(clock, out);
        out.extend(self.waiting.drain(..).map(Effect::Send));
        if let Some(fsid) = self.fsid() {
            out.extend(self.requests.all(fsid).map(Effect::Send));
        }
    }
    /// The connection dialled last is lost, or could not be opened.
    pub fn on_lost(&mut self, clock: Clock, out: &mut Vec<Effect>) {
        if let State::Hunting { until } = self.state {
            // A refused dial takes no time: the next monitor at once, but a new round only when this one's time is up.
            if self.queue.is_empty() && clock.mono < until {
                return;
            }
        }
        self.hunt(clock, out);
    }
    /// The monitor refused our login: with its ticket lost a number can't be claimed back, so the next login asks for a new one.
    pub fn on_refused(&mut self) {
        self.identity.borrow_mut().forget();
    }

    /// Sends to whichever monitor there is, or will be. Lost with the session: a caller that needs an answer sends again on
    /// [`Effect::Connected`].
    pub fn send(&mut self, message: RawMessage, out: &mut Vec<Effect>) {
        match self.state {
            State::Open => out.push(Effect::Send(message)),
            _ => self.waiting.push(message),
        }
    }
    /// Asks something that has an answer; asked again in each new session until [`Effect::Answer`] brings it, with this number.
    pub fn request(&mut self, request: Request, out: &mut Vec<Effect>) -> u64 {
        let tid = self.requests.add(request);
        if let (State::Open, Some(fsid)) = (self.state, self.fsid()) {
            out.extend(self.requests.one(tid, fsid).map(Effect::Send));
        }
        tid
    }
    /// Forgets a request: its asker has given up.
    pub fn cancel(&mut self, tid: u64) {
        self.requests.remove(tid);
    }

    /// Subscribes to `what` from version `start` on (0: the newest); `flags` as in [`messages::SubscribeItem`].
    pub fn subscribe_to(&mut self, what: &str, start: u64, flags: u8, out: &mut Vec<Effect>) {
        if self.subs.want(what, start, flags) {
            self.subscribe(out);
        }
    }
    /// Asks for `what` from version `start` on even if that is what was asked for last: something in between did not come.
    ///
    /// A monitor that has sent a version does not send it again unasked, so an OSD that met a gap would wait for ever.
    pub fn resubscribe(&mut self, what: &str, start: u64, flags: u8, out: &mut Vec<Effect>) {
        self.subs.unwant(what);
        self.subscribe_to(what, start, flags, out);
    }
    pub fn unsubscribe(&mut self, what: &str) {
        self.subs.unwant(what);
    }
    /// Version `have` of something subscribed to has come: a new session asks for what follows.
    pub fn got(&mut self, what: &str, have: u64) {
        self.subs.got(what, have);
    }
    fn subscribe(&mut self, out: &mut Vec<Effect>) {
        if self.state != State::Open {
            return;
        }
        let what = self.subs.take_new();
        if !what.is_empty() {
            let message = MMonSubscribe { what, hostname: self.hostname.clone() };
            out.push(Effect::Send(message.encode(features::SUPPORTED)));
        }
    }

    /// A message from the connection dialled last. False: it is for another.
    pub fn on_message(&mut self, raw: &RawMessage, clock: Clock, entropy: &mut dyn Entropy, out: &mut Vec<Effect>) -> bool {
        match raw.kind {
            MMonMap::KIND => self.on_monmap(raw, out),
            MConfig::KIND => {
                if let Ok(m) = MConfig::decode(raw) {
                    out.push(Effect::Config(m.config));
                }
            }
            MAuthReply::KIND => self.on_auth_reply(raw, clock, entropy, out),
            MMonSubscribeAck::KIND => {}
            MMonCommandAck::KIND | MPoolOpReply::KIND | MStatfsReply::KIND | MGetPoolStatsReply::KIND | MMonGetVersionReply::KIND => {
                return match self.requests.answer(raw) {
                    Some(answer) => {
                        out.push(Effect::Answer(answer));
                        true
                    }
                    None => false,
                };
            }
            _ => return false,
        }
        true
    }
    fn on_monmap(&mut self, raw: &RawMessage, out: &mut Vec<Effect>) {
        let Ok(map) = MMonMap::decode(raw).and_then(|m| MonMap::from_bytes(&m.monmap)) else { return };
        let first = self.monmap.is_none();
        self.subs.got("monmap", map.epoch.into());
        let fsid = map.fsid;
        self.monmap = Some(map);
        out.push(Effect::MonMap);
        if first && self.state == State::Open {
            // Questions name the cluster, so they waited for this.
            out.extend(self.requests.all(fsid).map(Effect::Send));
        }
    }
    fn on_auth_reply(&mut self, raw: &RawMessage, clock: Clock, entropy: &mut dyn Entropy, out: &mut Vec<Effect>) {
        let Ok(reply) = MAuthReply::decode(raw) else { return };
        let now = UTime::from_wall_ns(clock.wall_ns);
        let progress = match reply.result {
            result if result < 0 => None,
            _ => self.identity.borrow_mut().handle_reply(&reply.payload, now, entropy).ok(),
        };
        match progress {
            // Tickets can't be renewed here: a new login.
            None => self.hunt(clock, out),
            Some(Progress::Done) => {}
            Some(Progress::Ask(payload)) => self.auth(payload, out),
            Some(Progress::Rotating(secrets)) => {
                if let Some(ours) = &self.rotating {
                    *ours.borrow_mut() = secrets;
                    out.push(Effect::Rotating);
                }
            }
        }
    }
    fn auth(&self, payload: Bytes, out: &mut Vec<Effect>) {
        let message = MAuth { paxos: Paxos::default(), protocol: self.identity.borrow().method(), payload, monmap_epoch: 0 };
        out.push(Effect::Send(message.encode(features::SUPPORTED)));
    }
    fn ask_rotating(&mut self, clock: Clock, out: &mut Vec<Effect>) {
        let Some(secrets) = &self.rotating else { return };
        let ahead = UTime::from_wall_ns(clock.wall_ns + ROTATING_AHEAD.as_nanos() as u64);
        let due = secrets.borrow().need_new(ahead) || self.missing.get();
        if !due || clock.mono.since(self.last_rotating) < Duration::from_secs(1) && self.last_rotating.0 != 0 {
            return;
        }
        let request = self.identity.borrow().rotating_request();
        if let Some(payload) = request {
            self.last_rotating = clock.mono;
            self.missing.set(false);
            self.auth(payload, out);
        }
    }

    /// Time passes. `last_ack_ns`: when the keepalive that the monitor answered last was sent, on the wall clock.
    pub fn tick(&mut self, clock: Clock, last_ack_ns: Option<u64>, entropy: &mut dyn Entropy, out: &mut Vec<Effect>) {
        match self.state {
            State::Idle => {}
            State::Hunting { until } if clock.mono >= until => self.hunt(clock, out),
            State::Hunting { .. } => {}
            State::Open => {
                self.ask_rotating(clock, out);
                if clock.mono.since(self.last_renewal) >= RENEW_PAUSE {
                    let now = UTime::from_wall_ns(clock.wall_ns);
                    let renewal = self.identity.borrow().renewal(now, entropy);
                    match renewal {
                        Ok(Some(payload)) => {
                            self.last_renewal = clock.mono;
                            self.auth(payload, out);
                        }
                        Ok(None) => {}
                        Err(_) => return self.hunt(clock, out),
                    }
                }
                let silent = match last_ack_ns {
                    Some(ack) => Duration::from_nanos(clock.wall_ns.saturating_sub(ack)),
                    None => clock.mono.since(self.opened_at),
                };
                if silent > PING_TIMEOUT {
                    return self.hunt(clock, out);
                }
                if clock.mono.since(self.last_ping) >= PING {
                    self.last_ping = clock.mono;
                    out.push(Effect::Keepalive);
                }
            }
        }
    }
}

/// The services whose tickets clients and OSDs need.
pub const TICKETS: [EntityKind; 3] = [EntityKind::MON, EntityKind::OSD, EntityKind::MGR];

#[cfg(test)]
mod tests;
