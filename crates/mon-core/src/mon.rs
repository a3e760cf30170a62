//! [`Mon`]: what happens to the monitor goes in, what it wants done comes out.
//!
//! Events are handled one at a time. What an event changes is applied in memory at once and handed out as one batch **before** the answers
//! that rest on it: a shell that does the effects in their order never lets out an answer whose grounds a crash can take away.

use crate::auth::{AuthService, Endpoint, Handshake, Step};
use crate::cmd::{self, Args, CmdError, Ctx, Registry, Reply};
use crate::config::ConfigDb;
use crate::config_key::ConfigKeys;
use crate::fs::FsService;
use crate::health::HealthService;
use crate::kv::{Batch, Snapshot};
use crate::log::ClusterLog;
use crate::mgr::{Manager, MgrMapService, ServiceMapService};
use crate::monmap::MonMapService;
use crate::osd::OsdService;
use crate::planted::{Bug, planted};
use crate::session::{ConnId, PeerInfo, Session};
use base::{Clock, Stamp};
use bytes::Bytes;
use cephx::Entropy;
use cephx::caps::Perm;
use messages::mon_client::{MMonCommand, MMonCommandAck, MPoolOp, MPoolOpReply, log_level};
use messages::{MCommand, MCommandReply, MMgrCommand, MMgrCommandReply, Message, Paxos, RawMessage};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use types::{EntityAddrVec, EntityKind, EntityText, Epoch, UTime, Uuid, errno};

/// What the shell settles before the monitor starts.
#[derive(Debug, Clone)]
pub struct MonOptions {
    pub fsid: Uuid,
    /// Where the monitor and the manager endpoint listen.
    pub mon_addrs: EntityAddrVec,
    pub mgr_addrs: EntityAddrVec,
    /// `cephx` or `none`: what `ceph config` and messages say; the shell offers the method itself.
    pub cephx: bool,
    /// What `mon metadata` and `mgr metadata` show of this host.
    pub metadata: BTreeMap<String, String>,
}

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// A connection got through its handshake.
    Open {
        conn: ConnId,
        endpoint: Endpoint,
        peer: Box<PeerInfo>,
    },
    Message {
        conn: ConnId,
        message: RawMessage,
    },
    Closed {
        conn: ConnId,
    },
    /// A command of a program on this machine that the shell lets do everything (the admin socket), as JSON. Answered by
    /// [`Effect::LocalAnswer`] with its number.
    Local {
        id: u64,
        command: String,
    },
    /// The connection of [`Effect::DialManager`] is open.
    ManagerOpen,
    /// A message over it.
    ManagerMessage {
        message: RawMessage,
    },
    /// It was cut. A dial that fails is tried again by the shell, until [`Effect::HangUpManager`].
    ManagerClosed,
    /// A browser looks at the state of the cluster, or none does any more.
    Watched(bool),
    /// Time passed; to be said about once a second.
    Tick,
}

/// Something that the shell is to do, in order.
#[derive(Debug)]
pub enum Effect {
    /// To be made durable before anything behind it goes out.
    Persist(Batch),
    Send {
        conn: ConnId,
        message: RawMessage,
    },
    Close {
        conn: ConnId,
    },
    /// What a [`Event::Local`] gives: a negative errno or 0, a line, and output.
    LocalAnswer {
        id: u64,
        result: i32,
        status: String,
        output: Bytes,
    },
    /// Connect to the stock manager there, with [`Mon::manager_ticket`] where there are keys: the only connection that is dialled.
    DialManager {
        addrs: EntityAddrVec,
    },
    SendManager {
        message: RawMessage,
    },
    HangUpManager,
}

/// The session of commands that come by [`Event::Local`].
pub const LOCAL: ConnId = ConnId(u64::MAX);

/// Answers that name the epoch in which a change shows are built when that is known.
enum Answer {
    Raw(ConnId, RawMessage),
    Command { conn: ConnId, ack: Box<MMonCommandAck> },
    PoolOp { conn: ConnId, reply: MPoolOpReply },
    Close(ConnId),
    Local { id: u64, answer: (i32, String, Bytes) },
}

/// The monitor, rank 0, named `a`, and the manager endpoint beside it.
pub struct Mon {
    pub options: MonOptions,
    pub sessions: BTreeMap<ConnId, Session>,
    pub auth: AuthService,
    pub config: ConfigDb,
    pub keys: ConfigKeys,
    pub log: ClusterLog,
    pub monmap: MonMapService,
    pub osd: OsdService,
    pub fs: FsService,
    pub mgrmap: MgrMapService,
    pub manager: Manager,
    pub health: HealthService,
    pub registry: Rc<Registry>,
    pub entropy: Box<dyn Entropy>,
    /// What the event at hand changed.
    pub batch: Batch,
    /// When this process started.
    pub started: UTime,
    answers: Vec<Answer>,
    /// Clients' snapshots that wait for their sessions' budgets, in the order in which they came.
    pub(crate) waiting_snaps: VecDeque<(ConnId, MPoolOp)>,
    /// For the manager's link.
    pub(crate) to_manager: Vec<Effect>,
    published: Versions,
    last_sample: Stamp,
}

/// What subscribers were last served from: publishing looks only when one moved.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Versions {
    osdmap: Epoch,
    monmap: Epoch,
    mgrmap: Epoch,
    fsmap: Epoch,
    config: u64,
    keys: u64,
    log: u64,
    creating: u64,
    services: Epoch,
}

impl Mon {
    /// `mon_client_bytes`: what clients' messages may take of memory, bytes; 0: no bound.
    /// An option as the monitor goes by it, or the manager endpoint.
    pub fn option(&self, endpoint: Endpoint, name: &str) -> &str {
        match endpoint {
            Endpoint::Mon => self.config.mon_value(name),
            Endpoint::Mgr => self.config.value(&EntityText::new(EntityKind::MGR, crate::mgr::NAME), name),
        }
    }
    pub fn client_bytes_max(&self) -> u64 {
        self.config.mon_number("mon_client_bytes") as u64
    }
    /// Starts from what the store holds. The store was filled by [`crate::mkfs`].
    pub fn load(snapshot: &Snapshot, options: MonOptions, entropy: Box<dyn Entropy>, clock: Clock) -> Result<Self, LoadError> {
        let now = UTime::from_wall_ns(clock.wall_ns);
        let fsid = snapshot.text("fsid").and_then(|s| Uuid::parse(&s)).ok_or(LoadError::Empty)?;
        if fsid != options.fsid {
            return Err(LoadError::OtherCluster { found: fsid, wanted: options.fsid });
        }
        let mut mon = Self {
            sessions: BTreeMap::new(),
            auth: AuthService::load(snapshot),
            config: ConfigDb::load(snapshot),
            keys: ConfigKeys::load(snapshot),
            log: ClusterLog::load(snapshot),
            monmap: MonMapService::load(snapshot)?,
            osd: OsdService::load(snapshot)?,
            fs: FsService::load(snapshot)?,
            mgrmap: MgrMapService::load(snapshot)?,
            manager: Manager { services: ServiceMapService::load(snapshot), ..Manager::default() },
            health: HealthService::load(snapshot),
            registry: Rc::new(Registry::default()),
            entropy,
            batch: Batch::default(),
            started: now,
            answers: Vec::new(),
            waiting_snaps: VecDeque::new(),
            to_manager: Vec::new(),
            published: Versions::default(),
            last_sample: clock.mono,
            options,
        };
        mon.start(clock);
        Ok(mon)
    }

    /// What changes with each start: addresses, secrets, the active manager.
    fn start(&mut self, clock: Clock) {
        let now = UTime::from_wall_ns(clock.wall_ns);
        self.configure_auth();
        self.auth.tick(now, self.entropy.as_mut(), &mut self.batch);
        self.monmap.set_addrs(&self.options.mon_addrs, now, &mut self.batch);
        self.osd.start(clock);
        self.manager.pgs.sync_pools(&self.osd.pg_nums());
        self.say(clock, log_level::INFO, "mon.a is new leader, mons a in quorum (ranks 0)");
        // A stock manager that was active goes on being it, unless it falls silent.
        if !self.mgrmap.is_stock() && !self.mgrmap.is_held_down() {
            self.activate_endpoint(clock);
        }
    }

    /// Handles one event; what is to be done for it is appended to `effects`.
    pub fn handle(&mut self, event: Event, clock: Clock, effects: &mut Vec<Effect>) {
        match event {
            Event::Open { conn, endpoint, peer } => {
                let session = Session::new(endpoint, *peer);
                session.osd().into_iter().for_each(|osd| self.osd.note_came(osd));
                self.sessions.insert(conn, session);
            }
            Event::Closed { conn } => {
                let ended = self.sessions.remove(&conn);
                self.osd.forget_reporter(conn);
                self.manager.proxy.forget(conn);
                if let Some(name) = ended.as_ref().and_then(|session| session.mgr_name.as_deref()) {
                    self.forget_daemon(conn, name);
                }
                if let Some(osd) = ended.and_then(|session| session.osd()) {
                    self.osd.note_left(osd);
                    self.check_failure(osd, clock);
                }
            }
            Event::Message { conn, message } => self.dispatch(conn, &message, clock),
            Event::Local { id, command } => self.on_local(id, command, clock),
            Event::ManagerOpen => self.on_manager_open(),
            Event::ManagerMessage { message } => self.on_manager_message(&message, clock),
            Event::ManagerClosed => self.on_manager_closed(clock),
            Event::Watched(watched) => self.set_viewers(watched, clock),
            Event::Tick => self.tick(clock),
        }
        self.finish(clock, effects);
    }

    #[allow(clippy::too_many_arguments)]
    /// A payload of a handshake. What lands in `effects` (a batch at most) must be done before the answer goes out.
    pub fn handshake(
        &mut self,
        endpoint: Endpoint,
        state: &mut Handshake,
        method: u32,
        payload: &Bytes,
        secret_len: usize,
        clock: Clock,
        effects: &mut Vec<Effect>,
    ) -> Step {
        let now = UTime::from_wall_ns(clock.wall_ns);
        let step = self.auth.handshake(endpoint, state, method, payload, secret_len, now, self.entropy.as_mut(), &mut self.batch);
        if !self.batch.is_empty() {
            effects.push(Effect::Persist(std::mem::take(&mut self.batch)));
        }
        step
    }

    /// Turns what an event left behind into effects: an epoch if the map is to change, the batch, the answers, and news for subscribers.
    fn finish(&mut self, clock: Clock, effects: &mut Vec<Effect>) {
        if self.auth.is_due() {
            self.auth.tick(UTime::from_wall_ns(clock.wall_ns), self.entropy.as_mut(), &mut self.batch);
        }
        self.drive_proxy(clock);
        // A commit may lead to another change (a pool whose groups all exist now loses its flag).
        while self.osd.has_pending() {
            self.commit_osdmap(clock);
        }
        let kept = self.config.mon_number("mon_max_mdsmap_epochs") as u32;
        self.fs.commit(UTime::from_wall_ns(clock.wall_ns), kept, &mut self.batch);
        self.publish();
        if !self.batch.is_empty() {
            self.look().assert_invariants();
            effects.push(Effect::Persist(std::mem::take(&mut self.batch)));
        }
        effects.append(&mut self.to_manager);
        self.close_ended();
        let epoch = self.osd.epoch();
        for answer in std::mem::take(&mut self.answers) {
            let (conn, message) = match answer {
                Answer::Raw(conn, message) => (conn, message),
                Answer::Command { conn, mut ack } => {
                    ack.paxos = Paxos::at(epoch.into());
                    (conn, ack.encode(self.features(conn)))
                }
                Answer::PoolOp { conn, mut reply } => {
                    reply.epoch = epoch;
                    reply.paxos = Paxos::at(epoch.into());
                    (conn, reply.encode(self.features(conn)))
                }
                Answer::Close(conn) => {
                    effects.push(Effect::Close { conn });
                    continue;
                }
                Answer::Local { id, answer: (result, status, output) } => {
                    effects.push(Effect::LocalAnswer { id, result, status, output });
                    continue;
                }
            };
            if self.sessions.contains_key(&conn) {
                effects.push(Effect::Send { conn, message });
            }
        }
    }

    /// Sends news to the sessions that subscribed, if there are any.
    fn publish(&mut self) {
        let now = Versions {
            osdmap: self.osd.epoch(),
            monmap: self.monmap.map.epoch,
            mgrmap: self.mgrmap.map.epoch,
            fsmap: self.fs.map.epoch,
            config: self.config.version,
            keys: self.keys.version,
            log: self.log.last(),
            creating: self.osd.creating.version(),
            services: self.manager.services.map.epoch,
        };
        if now == self.published {
            return;
        }
        self.published = now;
        let conns: Vec<_> = self.sessions.iter().filter(|(_, s)| !s.subs.is_empty()).map(|(c, _)| *c).collect();
        for conn in conns {
            self.serve_subscriptions(conn);
        }
        self.tell_osds();
        self.tell_clients_of_boots();
    }

    fn configure_auth(&mut self) {
        for (name, life) in [("auth_mon_ticket_ttl", &mut self.auth.life.auth), ("auth_service_ticket_ttl", &mut self.auth.life.service)] {
            if self.config.mon_number(name) >= 1.0 {
                *life = self.config.mon_span(name, 1.0);
            }
        }
    }

    fn tick(&mut self, clock: Clock) {
        let now = UTime::from_wall_ns(clock.wall_ns);
        self.configure_auth();
        self.auth.tick(now, self.entropy.as_mut(), &mut self.batch);
        self.tick_osds(clock);
        self.tick_snaps(clock);
        self.tick_mds(clock);
        self.tick_manager(clock);
        if clock.mono.since(self.last_sample).as_millis() >= 900 {
            self.last_sample = clock.mono;
            self.manager.pgs.sample(clock.mono, now);
            self.manager.remember(clock.mono, now);
        }
        self.tick_health(clock);
    }

    /// Feature bits of the peer of a connection.
    pub fn features(&self, conn: ConnId) -> u64 {
        self.sessions.get(&conn).map_or(types::features::SUPPORTED, |s| s.peer.features)
    }

    /// Sends a message behind what this event changes.
    pub fn send<M: Message>(&mut self, conn: ConnId, tid: u64, message: &M) {
        let mut raw = message.encode(self.features(conn));
        raw.tid = tid;
        self.send_raw(conn, raw);
    }
    pub fn send_raw(&mut self, conn: ConnId, raw: RawMessage) {
        self.answers.push(Answer::Raw(conn, raw));
    }
    pub(crate) fn send_pool_op(&mut self, conn: ConnId, reply: MPoolOpReply) {
        self.answers.push(Answer::PoolOp { conn, reply });
    }
    pub fn close(&mut self, conn: ConnId) {
        self.answers.push(Answer::Close(conn));
    }
    /// Sessions of entities whose key is another one now, or gone, are over; not that of the asker, which hears the answer.
    fn close_ended(&mut self) {
        for name in std::mem::take(&mut self.auth.ended) {
            let is_reply = |message: &RawMessage| [MCommandReply::KIND, MMgrCommandReply::KIND].contains(&message.kind);
            let asks = |conn: &ConnId| {
                self.answers.iter().any(|answer| match answer {
                    Answer::Command { conn: of, .. } => of == conn,
                    Answer::Raw(of, message) => of == conn && is_reply(message),
                    _ => false,
                })
            };
            let of_name = self.sessions.iter().filter(|(_, s)| s.peer.entity == name).map(|(conn, _)| *conn);
            let ended: Vec<ConnId> = of_name.filter(|conn| !asks(conn)).collect();
            for conn in ended {
                self.close(conn);
            }
        }
    }
    /// A line of the cluster log.
    pub fn say(&mut self, clock: Clock, level: u16, text: impl Into<String>) {
        self.log.say("cluster", level, text.into(), UTime::from_wall_ns(clock.wall_ns), &mut self.batch);
    }

    /// True if the session may have `need` of `service`.
    pub fn may(&self, conn: ConnId, service: &str, need: Perm) -> bool {
        self.sessions.get(&conn).is_some_and(|s| s.caps.may(&s.peer.entity, &s.peer.from, service, need))
    }

    /// A command from whatever message brought it. The answer's form depends on the message.
    pub(crate) fn on_command(&mut self, conn: ConnId, raw: &RawMessage, clock: Clock) -> Result<(), denc::DencError> {
        match raw.kind {
            MMonCommand::KIND => {
                let m = MMonCommand::decode(raw)?;
                self.run_for(conn, raw.tid, m, clock);
            }
            MMgrCommand::KIND => {
                let m = MMgrCommand::decode(raw)?;
                let (result, status, data) = split(self.run_command(conn, &m.cmd, m.data, false, clock));
                self.send(conn, raw.tid, &MMgrCommandReply { tid: raw.tid, data, result, status });
            }
            _ => {
                let m = MCommand::decode(raw)?;
                // `ceph tell mon.a` and `ceph tell mgr` come so.
                let (result, status, data) = split(self.run_command(conn, &m.cmd, m.data, true, clock));
                self.send(conn, raw.tid, &MCommandReply { tid: raw.tid, data, result, status });
            }
        }
        Ok(())
    }

    /// A command to the monitor, which may be one to hand on to the manager.
    pub(crate) fn run_for(&mut self, conn: ConnId, tid: u64, m: MMonCommand, clock: Clock) {
        let answer = if m.fsid != self.options.fsid {
            Err(CmdError::new(errno::EPERM, "wrong fsid"))
        } else {
            match self.hand_to_manager(conn, tid, &m) {
                Ok(true) => return,
                Ok(false) => self.run_command(conn, &m.cmd, m.data, false, clock),
                Err(e) => Err(e),
            }
        };
        let (result, status, data) = split(answer);
        let ack = Box::new(MMonCommandAck { tid, data, paxos: Paxos::default(), result, status, cmd: m.cmd });
        self.answers.push(Answer::Command { conn, ack });
    }

    /// A command from this machine: its sender may do everything, and is gone with the answer.
    fn on_local(&mut self, id: u64, command: String, clock: Clock) {
        let peer = PeerInfo {
            entity: EntityText::new(EntityKind::CLIENT, "admin"),
            global_id: 0,
            caps: cephx::AuthCapsInfo::all(),
            addrs: EntityAddrVec::default(),
            from: Default::default(),
            features: types::features::SUPPORTED,
            handshake: Handshake::default(),
        };
        self.sessions.insert(LOCAL, Session::new(Endpoint::Mon, peer));
        let answer = split(self.run_command(LOCAL, &[command], Bytes::new(), true, clock));
        self.sessions.remove(&LOCAL);
        self.answers.push(Answer::Local { id, answer });
    }

    /// Finds, checks and runs a command.
    fn run_command(&mut self, conn: ConnId, words: &[String], input: Bytes, tell: bool, clock: Clock) -> cmd::CmdResult {
        let args = Args::parse(words)?;
        let endpoint = self.sessions.get(&conn).map_or(Endpoint::Mon, |s| s.endpoint);
        if args.prefix() == "get_command_descriptions" {
            let stock = &self.mgrmap.commands;
            return Ok(Reply::data(self.registry.describe(endpoint == Endpoint::Mgr, tell, stock, self.features(conn)).to_string()));
        }
        let registry = self.registry.clone();
        let Some((command, sig)) = registry.find(&args, endpoint == Endpoint::Mgr, tell) else {
            self.check_unknown(conn, endpoint, tell, &args)?;
            let absent = cmd::reason_of_absence(args.prefix()).filter(|_| self.mgrmap.is_endpoint());
            return Err(absent.unwrap_or_else(|| CmdError::new(errno::EINVAL, "command not known")));
        };
        if tell && command.flags & cmd::flag::TELL != 0 {
            self.check_told(conn, endpoint, &sig.prefix, &sig.names().collect::<Vec<_>>(), &args)?;
        } else {
            self.check_caps(conn, command.module, &sig.prefix, command.perm, &sig.names().collect::<Vec<_>>(), &args)?;
        }
        if command.flags & cmd::flag::MGR != 0 && !self.mgrmap.is_endpoint() {
            return Err(CmdError::new(errno::EOPNOTSUPP, format!("'{}' is a command of the manager: send it there", sig.prefix)));
        }
        if command.flags & cmd::flag::DEPRECATED != 0 && self.config.mon_bool("mon_debug_deprecated_as_obsolete") {
            return Err(CmdError::new(errno::EOPNOTSUPP, "command is obsolete; please check usage and/or man page"));
        }
        args.check(sig)?;
        let audit = command.perm != "r" && command.module != "log";
        let (prefix, text) = (sig.prefix.clone(), words.concat());
        let result = (command.run)(&mut Ctx { mon: self, clock, conn, args, input });
        // What can't be done is not answered as done.
        let result = result.and_then(|reply| {
            let tried = self.osd.try_pending(UTime::from_wall_ns(clock.wall_ns));
            tried.map(|()| reply).map_err(|why| CmdError::new(errno::EINVAL, why))
        });
        if audit && prefix != "auth import" && !prefix.starts_with("config-key") {
            self.audit(conn, &text, result.is_ok(), clock);
        }
        result
    }

    /// Refuses a session that may not give the daemon itself this command: at the monitor that is for whoever may do everything with it, or has
    /// a grant of the command; at the manager for `allow *`.
    fn check_told(&self, conn: ConnId, endpoint: Endpoint, prefix: &str, declared: &[&str], args: &Args) -> Result<(), CmdError> {
        if endpoint == Endpoint::Mon {
            return self.check_caps(conn, "mon", prefix, "rwx", declared, args);
        }
        let all = self.sessions.get(&conn).is_some_and(|s| s.caps.is_allow_all(&s.peer.from));
        if all { Ok(()) } else { Err(CmdError::new(errno::EACCES, "access denied")) }
    }
    /// Refuses a command that there isn't to a session that could not give it if there were: it learns nothing of what there is.
    fn check_unknown(&self, conn: ConnId, endpoint: Endpoint, tell: bool, args: &Args) -> Result<(), CmdError> {
        if tell {
            return self.check_told(conn, endpoint, args.prefix(), &[], args);
        }
        let may = self.sessions.get(&conn).is_some_and(|s| s.caps.may_ask_unknown(&s.peer.from));
        if may { Ok(()) } else { Err(CmdError::new(errno::EACCES, "access denied")) }
    }
    /// Refuses a session that may not give this command with these arguments. What a capability demands of arguments is asked of those that
    /// the command declares (`declared`): any other is never read.
    pub(crate) fn check_caps(
        &self,
        conn: ConnId,
        module: &str,
        prefix: &str,
        perms: &str,
        declared: &[&str],
        args: &Args,
    ) -> Result<(), CmdError> {
        let denied = || Err(CmdError::new(errno::EACCES, "access denied"));
        let Some(session) = self.sessions.get(&conn) else { return denied() };
        let mut texts = BTreeMap::new();
        for name in args.0.keys().filter(|name| declared.contains(&name.as_str()) || planted(Bug::TrustNamedCaps)) {
            // As texts, lists spread out: `caps` are pairs that become `caps_mon=...`.
            if name == "caps" {
                for pair in args.list("caps").chunks(2) {
                    texts.insert(format!("caps_{}", pair[0]), pair.get(1).cloned().unwrap_or_default());
                }
            } else if let Some(text) = args.text(name) {
                texts.insert(name.clone(), text);
            } else {
                texts.insert(name.clone(), args.list(name).join(" "));
            }
        }
        // Without capabilities these give out a key that is there: what it may do is what the asker may make.
        if matches!(prefix, "auth get-or-create" | "auth get-or-create-key")
            && args.list("caps").is_empty()
            && let Some(known) = texts.get("entity").and_then(|text| EntityText::parse(text)).and_then(|name| self.auth.entities.get(&name))
            && !planted(Bug::TrustNamedCaps)
        {
            texts.extend(known.caps.iter().map(|(service, text)| (format!("caps_{service}"), text.clone())));
        }
        let need = crate::caps::perm(perms);
        let addr = session.peer.from;
        if !session.caps.may_command(&session.peer.entity, &addr, module, prefix, &texts, need) {
            return denied();
        }
        // Said to those only that may give the command: others learn nothing of its parameters.
        match args.0.keys().find(|name| name.starts_with("caps_") && !declared.contains(&name.as_str())) {
            Some(name) if !planted(Bug::TrustNamedCaps) => {
                Err(CmdError::new(errno::EINVAL, format!("{name} is no parameter: capabilities are given as caps")))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn audit(&mut self, conn: ConnId, text: &str, ok: bool, clock: Clock) {
        let Some(session) = self.sessions.get(&conn) else { return };
        let line = format!(
            "from='{} {}' entity='{}' cmd={text}: {}",
            session.name,
            session.peer.addrs.front(),
            session.peer.entity,
            if ok { "finished" } else { "failed" }
        );
        self.log.say("audit", log_level::INFO, line, UTime::from_wall_ns(clock.wall_ns), &mut self.batch);
    }
}

/// Return code, status text and output.
fn split(result: cmd::CmdResult) -> (i32, String, Bytes) {
    match result {
        Ok(reply) => (-reply.errno, cmd::shown(reply.status), reply.data),
        Err(e) => (-e.errno, cmd::shown(e.text), Bytes::new()),
    }
}

/// Why a store can't be served from.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("the store holds no cluster")]
    Empty,
    #[error("the store is of cluster {found}, not {wanted}")]
    OtherCluster { found: Uuid, wanted: Uuid },
    #[error("{what} in the store can't be read: {error}")]
    Damaged { what: &'static str, error: denc::DencError },
    #[error("{0} is missing in the store")]
    Missing(&'static str),
}
