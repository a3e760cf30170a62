//! What connects an [`Osd`] with its messengers: messages go in, effects are carried out.

use crate::devices::Machine;
use crate::solo::Solo;
use base::Clock;
use cephx::caps::OsdCap;
use denc::Denc;
use maps::MgrMap;
use messages::osd_client::MOSDMap;
use messages::{LogEntry, MCommand, MCommandReply, MLog, MMgrMap, MOSDOp, Message, Paxos, RawMessage};
use msgr::Policy;
use net::admin_socket::AdminSocket;
use net::auth_cephx::PeerAuth;
use net::mon_session::{MonSession, clock};
use net::{Conn, Dispatcher, Messenger};
use objecter::monc::{Answer, Effect as MonEffect, Request};
use osd_core::{ConnId, DeviceQuestion, Effect, Event, HbNet, Level, Osd, Peer};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use types::{EntityAddrVec, EntityKind, EntityName, EntityText, Epoch, OsdId, UTime, Uuid, features};

/// Which of the messengers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Clients, monitors, managers.
    Public = 0,
    /// Other OSDs.
    Cluster = 1,
    HbFront = 2,
    HbBack = 3,
}

impl Side {
    pub const ALL: [Side; 4] = [Side::Public, Side::Cluster, Side::HbFront, Side::HbBack];

    fn heartbeats(self) -> Option<HbNet> {
        match self {
            Self::HbFront => Some(HbNet::Front),
            Self::HbBack => Some(HbNet::Back),
            _ => None,
        }
    }
}

/// Connections of four messengers in one space of numbers; a fifth part is for commands by the admin socket.
const SIDE_SHIFT: u32 = 61;
const ADMIN_SIDE: u64 = 4;
/// How often a manager that does not answer is dialled again.
const REDIAL: Duration = Duration::from_secs(1);
/// How long the thread waits for a device by itself, if it may at all.
const LINGER: Duration = Duration::from_millis(2);
/// What one request may bring of the store before its answer: its record and what is behind an earlier one.
const LINGERS: usize = 4;

/// What the loop is told.
#[derive(Debug, Clone)]
pub enum Status {
    Starting,
    Up(Epoch),
    /// Over, with a reason if it is a failure.
    Ended(Option<String>),
}

/// The shell around one OSD.
pub struct Shell {
    pub osd: RefCell<Osd>,
    pub whoami: OsdId,
    sides: [Messenger; 4],
    pub mon: MonSession,
    mgr: RefCell<Option<Conn>>,
    mgr_addrs: RefCell<EntityAddrVec>,
    effects: RefCell<Vec<Effect>>,
    pub status: RefCell<Status>,
    pub changed: Notify,
    /// The first session with a monitor, and the cluster's name that it told.
    pub logged_in: Cell<bool>,
    asked_versions: Cell<u64>,
    /// Who waits for the answers to commands of our own.
    pub asked: RefCell<BTreeMap<u64, oneshot::Sender<(i32, String)>>>,
    log_seq: Cell<u64>,
    fsid: Cell<Uuid>,
    quiet: bool,
    admin: RefCell<Option<Rc<AdminSocket>>>,
    /// What the store lies on.
    pub devices: RefCell<BTreeSet<String>>,
    /// Requests are answered from what they say, and the core never sees them.
    null: Option<net::null::NullDispatcher>,
    solo: RefCell<Solo>,
}

impl Shell {
    pub fn new(osd: Osd, sides: [Messenger; 4], mon: MonSession, quiet: bool, null: bool) -> Rc<Self> {
        let shell = Rc::new(Self {
            whoami: osd.whoami(),
            osd: RefCell::new(osd),
            sides,
            null: null.then(net::null::NullDispatcher::default),
            mon,
            mgr: RefCell::new(None),
            mgr_addrs: RefCell::default(),
            effects: RefCell::default(),
            status: RefCell::new(Status::Starting),
            changed: Notify::new(),
            logged_in: Cell::new(false),
            asked_versions: Cell::new(0),
            asked: RefCell::default(),
            log_seq: Cell::new(0),
            fsid: Cell::new(Uuid::default()),
            quiet,
            admin: RefCell::default(),
            devices: RefCell::default(),
            solo: RefCell::default(),
        });
        for side in Side::ALL {
            shell.sides[side as usize].set_dispatcher(Rc::new(Ear { side, shell: shell.clone() }));
        }
        shell
    }

    /// One event, with nothing else to come at once.
    pub fn event(self: &Rc<Self>, event: Event) {
        let now = clock();
        self.feed(event, now);
        self.feed(Event::TurnEnd, now);
    }
    /// The store may have something to say.
    pub fn turn_end(self: &Rc<Self>) {
        self.feed(Event::TurnEnd, clock());
    }
    fn feed(self: &Rc<Self>, event: Event, now: Clock) {
        let mut effects = self.effects.take();
        self.osd.borrow_mut().handle(event, now, &mut effects);
        for effect in effects.drain(..) {
            self.carry_out(effect);
        }
        self.effects.replace(effects);
    }

    /// A client's requests of this turn have all come.
    fn batch_end(self: &Rc<Self>) {
        self.feed(Event::TurnEnd, clock());
        for _ in 0..LINGERS {
            if !self.solo.borrow().may_wait() {
                return;
            }
            if !self.osd.borrow_mut().linger(LINGER) {
                self.solo.borrow_mut().was_slow();
            }
            self.feed(Event::TurnEnd, clock());
        }
    }

    fn conn_id(side: Side, conn: &Conn) -> ConnId {
        ConnId((side as u64) << SIDE_SHIFT | conn.id().0)
    }
    fn conn(&self, id: ConnId) -> Option<Conn> {
        let side = (id.0 >> SIDE_SHIFT) as usize;
        self.sides.get(side)?.get(net::ConnId(id.0 & ((1 << SIDE_SHIFT) - 1)))
    }

    fn carry_out(self: &Rc<Self>, effect: Effect) {
        match effect {
            Effect::Send { conn, msg } if conn.0 >> SIDE_SHIFT == ADMIN_SIDE => self.answer_admin(conn, &msg),
            Effect::Send { conn, msg } => {
                self.solo.borrow_mut().answered(conn);
                if let Some(conn) = self.conn(conn) {
                    conn.send(msg);
                }
            }
            Effect::SendMon(msg) => self.monc(|core, out| core.send(msg, out)),
            Effect::SendMgr(msg) => {
                if let Some(conn) = &*self.mgr.borrow() {
                    conn.send(msg);
                }
            }
            Effect::SendOsd { addrs, msg, .. } => {
                self.sides[Side::Cluster as usize].connect(EntityKind::OSD, addrs, Policy::lossless_peer()).send(msg)
            }
            Effect::SendHeartbeat { net, addrs, msg } => {
                let side = if net == HbNet::Front { Side::HbFront } else { Side::HbBack };
                self.sides[side as usize].connect(EntityKind::OSD, addrs, Policy::lossy_client()).send(msg)
            }
            Effect::Close(conn) => {
                if let Some(conn) = self.conn(conn) {
                    conn.close();
                }
            }
            Effect::SubscribeMaps { from } => self.monc(|core, out| core.resubscribe("osdmap", from.into(), 0, out)),
            Effect::SubscribeCreates { from } => self.monc(|core, out| core.subscribe_to("osd_pg_creates", from.into(), 0, out)),
            Effect::AskMapVersions => {
                let (tid, effects) = self.mon.with(|core, out| core.request(Request::Version("osdmap".into()), out));
                self.asked_versions.set(tid);
                self.mon_effects(effects);
            }
            Effect::Continue => {
                let shell = self.clone();
                tokio::task::spawn_local(async move {
                    tokio::task::yield_now().await;
                    shell.event(Event::Continue);
                });
            }
            Effect::Booted { epoch } => self.set_status(Status::Up(epoch)),
            Effect::Log { level, text } => self.say(level, &text),
            Effect::ClusterLog { level, text } => self.cluster_log(level, text),
            Effect::AskDevices { conn, tid, question } => self.ask_devices(conn, tid, question),
            Effect::Stop { why } => self.set_status(Status::Ended(why)),
        }
    }

    /// Answers a question about devices. Programs are waited for elsewhere.
    fn ask_devices(self: &Rc<Self>, conn: ConnId, tid: u64, question: DeviceQuestion) {
        let (shell, devices) = (self.clone(), self.devices.borrow().clone());
        tokio::task::spawn_local(async move {
            let told = tokio::task::spawn_blocking(move || match question {
                DeviceQuestion::List => Machine::this().list(&devices),
                DeviceQuestion::Smart { only, timeout_s } => Machine::this().smart(&devices, &only, timeout_s),
            });
            if let Ok(told) = told.await {
                shell.carry_out(Effect::Send { conn, msg: osd_core::command_output(tid, &told) });
            }
        });
    }
    /// What the monitor is told of them.
    pub fn device_metadata(&self) -> impl Iterator<Item = (String, String)> + use<> {
        Machine::this().metadata(&self.devices.borrow()).into_iter().map(|(name, value)| (name.to_string(), value))
    }

    /// Takes commands by a Unix socket: each is a session of its own that may do everything.
    pub fn listen_admin(self: &Rc<Self>, path: &Path) -> std::io::Result<()> {
        let shell = self.clone();
        let socket = AdminSocket::listen(path, move |id, command| {
            let conn = ConnId(ADMIN_SIDE << SIDE_SHIFT | id);
            let name = EntityName { kind: EntityKind::CLIENT, num: 0 };
            let peer = Peer {
                name,
                entity: "client.admin".into(),
                global_id: 0,
                features: features::SUPPORTED,
                supported: features::SUPPORTED,
                addr: Default::default(),
                cap: None,
            };
            let msg = MCommand { cmd: vec![command], ..MCommand::default() }.encode(features::SUPPORTED);
            shell.feed(Event::Connected { conn, peer }, clock());
            shell.event(Event::Message { conn, msg });
        })?;
        self.admin.replace(Some(socket));
        Ok(())
    }
    pub fn close_admin(&self) {
        self.admin.take();
    }
    fn answer_admin(self: &Rc<Self>, conn: ConnId, msg: &RawMessage) {
        let id = conn.0 & ((1 << SIDE_SHIFT) - 1);
        if let (Some(admin), Ok(reply)) = (&*self.admin.borrow(), MCommandReply::decode(msg)) {
            admin.answer(id, (reply.result, reply.status, reply.data.to_vec()));
        }
        self.later(Event::Reset { conn });
    }

    pub fn say(&self, level: Level, text: &str) {
        if !self.quiet && level <= Level::Info {
            eprintln!("osd.{}: {text}", self.whoami);
        }
    }

    pub fn set_status(&self, status: Status) {
        // What is over stays over.
        if !matches!(*self.status.borrow(), Status::Ended(_)) {
            self.status.replace(status);
        }
        self.changed.notify_one();
    }

    pub fn cluster_log(self: &Rc<Self>, level: Level, text: String) {
        use messages::mon_client::log_level;
        if level <= Level::Warn {
            self.say(level, &text);
        }
        self.log_seq.set(self.log_seq.get() + 1);
        let osd = self.whoami;
        let entry = LogEntry {
            name: EntityText::new(EntityKind::OSD, osd.to_string()),
            rank: EntityName::osd(osd.into()),
            addrs: self.sides[0].local().addrs.borrow().clone(),
            stamp: UTime::from_wall_ns(clock().wall_ns),
            seq: self.log_seq.get(),
            level: match level {
                Level::Error => log_level::ERROR,
                Level::Warn => log_level::WARN,
                Level::Info => log_level::INFO,
                Level::Debug => log_level::DEBUG,
            },
            text: text.into_bytes().into(),
            channel: "cluster".into(),
        };
        let msg = MLog { paxos: Paxos::default(), fsid: self.fsid.get(), entries: vec![entry] };
        self.monc(|core, out| core.send(msg.encode(features::SUPPORTED), out));
    }

    /// Calls the monitor client; what comes of it is carried out.
    pub fn monc(self: &Rc<Self>, f: impl FnOnce(&mut objecter::MonClient, &mut Vec<MonEffect>)) {
        let (_, effects) = self.mon.with(f);
        self.mon_effects(effects);
    }

    pub fn mon_effects(self: &Rc<Self>, effects: Vec<MonEffect>) {
        for effect in effects {
            match effect {
                MonEffect::Connected => {
                    self.logged_in.set(true);
                    self.changed.notify_one();
                    // Whoever is in the middle of handling an event hears of it afterwards.
                    self.later(Event::MonConnected);
                }
                MonEffect::MonMap => {
                    let (fsid, _) = self.mon.with(|core, _| core.fsid());
                    self.fsid.set(fsid.unwrap_or_default());
                    self.changed.notify_one();
                }
                MonEffect::Config(config) => self.later(Event::MonConfig(config)),
                MonEffect::Answer(Answer::Version { tid, newest, oldest }) if tid == self.asked_versions.get() => {
                    self.later(Event::MapVersions { oldest: oldest as Epoch, newest: newest as Epoch });
                }
                MonEffect::Answer(Answer::Command { tid, result, status, .. }) => {
                    if let Some(asker) = self.asked.borrow_mut().remove(&tid) {
                        let _ = asker.send((result, status));
                    }
                }
                MonEffect::Rotating => self.changed.notify_one(),
                _ => {}
            }
        }
    }
    fn later(self: &Rc<Self>, event: Event) {
        let shell = self.clone();
        tokio::task::spawn_local(async move { shell.event(event) });
    }
    pub fn fsid(&self) -> Option<Uuid> {
        Some(self.fsid.get()).filter(|f| !f.is_zero())
    }

    fn from_mon(self: &Rc<Self>, msg: RawMessage) {
        if let Some(effects) = self.mon.on_message(&msg) {
            return self.mon_effects(effects);
        }
        if msg.kind == MMgrMap::KIND {
            match MMgrMap::decode(&msg).and_then(|m| MgrMap::from_bytes(&m.map.0)) {
                Ok(map) => self.mgr_map(map),
                Err(error) => self.say(Level::Warn, &format!("a manager map that can't be read: {error}")),
            }
            return;
        }
        let is_map = msg.kind == MOSDMap::KIND;
        self.event(Event::Mon(msg));
        if is_map {
            let epoch = self.osd.borrow().map().epoch;
            self.monc(|core, _| core.got("osdmap", epoch.into()));
        }
    }

    fn mgr_map(self: &Rc<Self>, map: MgrMap) {
        self.monc(|core, _| core.got("mgrmap", map.epoch.into()));
        let addrs = if map.available { map.active_addrs } else { EntityAddrVec::default() };
        if *self.mgr_addrs.borrow() == addrs {
            return;
        }
        self.mgr_addrs.replace(addrs);
        if let Some(old) = self.mgr.take() {
            old.close();
        }
        self.dial_mgr();
    }
    fn dial_mgr(&self) {
        let addrs = self.mgr_addrs.borrow().clone();
        if addrs.msgr2().is_some() {
            let conn = self.sides[0].connect(EntityKind::MGR, addrs, Policy::lossy_client());
            self.mgr.replace(Some(conn));
        }
    }
    fn is_mgr(&self, conn: &Conn) -> bool {
        self.mgr.borrow().as_ref() == Some(conn)
    }

    /// Who is there, as the core wants to know it.
    fn peer(conn: &Conn) -> Peer {
        let peer = conn.peer();
        let auth = peer.user.as_ref().and_then(|u| u.downcast_ref::<PeerAuth>());
        let mut name = peer.name;
        if name.kind == EntityKind::CLIENT && name.num <= 0 {
            name.num = peer.global_id as i64;
        }
        let mut addr = peer.addrs.front();
        if addr.is_blank_ip() {
            addr.ip = peer.target.ip;
        }
        Peer {
            name,
            entity: peer.auth_name.to_string(),
            global_id: peer.global_id,
            features: peer.features,
            supported: peer.supported,
            addr,
            cap: auth.map(|a| OsdCap::from_info(&a.caps)),
        }
    }

    /// About once a second.
    pub fn tick(self: &Rc<Self>) {
        let effects = self.mon.tick();
        self.mon_effects(effects);
        self.event(Event::Tick);
    }
}

/// One messenger's dispatcher.
struct Ear {
    side: Side,
    shell: Rc<Shell>,
}

impl Ear {
    fn opened(&self, conn: &Conn) {
        let id = Shell::conn_id(self.side, conn);
        self.shell.event(Event::Connected { conn: id, peer: Shell::peer(conn) });
    }
}

impl Dispatcher for Ear {
    fn on_message(&self, conn: &Conn, msg: RawMessage) {
        let shell = &self.shell;
        if let Some(null) = &shell.null
            && null.answer(conn, &msg)
        {
            return;
        }
        if msg.kind != MOSDOp::KIND && self.side == Side::Public {
            if shell.mon.is_mine(conn) {
                return shell.from_mon(msg);
            }
            if shell.is_mgr(conn) {
                return shell.event(Event::Mgr(msg));
            }
        }
        let id = Shell::conn_id(self.side, conn);
        let event = match self.side.heartbeats() {
            Some(net) => Event::Heartbeat { conn: id, net, msg },
            None => {
                if msg.kind == MOSDOp::KIND {
                    shell.solo.borrow_mut().came(id);
                    Event::Request { conn: id, msg, permit: conn.take_permit() }
                } else {
                    Event::Message { conn: id, msg }
                }
            }
        };
        shell.feed(event, clock());
    }
    /// Commands and acknowledgements get through while requests that wait for a group hold all slots.
    fn is_request(&self, msg: &RawMessage) -> bool {
        msg.kind == MOSDOp::KIND
    }
    fn answer_bytes(&self, msg: &RawMessage) -> u64 {
        MOSDOp::decode(msg).map_or(0, |msg| osd_core::answer_bytes(&msg))
    }
    fn on_batch(&self, _: &Conn) {
        self.shell.batch_end();
    }
    fn on_connect(&self, conn: &Conn) {
        let shell = &self.shell;
        if shell.mon.is_mine(conn) {
            return shell.mon_effects(shell.mon.on_connect());
        }
        if shell.is_mgr(conn) {
            return shell.event(Event::MgrConnected);
        }
        self.opened(conn);
    }
    fn on_accept(&self, conn: &Conn) {
        self.opened(conn);
    }
    fn on_reset(&self, conn: &Conn) {
        let shell = &self.shell;
        if shell.mon.is_mine(conn) {
            return shell.mon_effects(shell.mon.on_reset());
        }
        if shell.is_mgr(conn) {
            shell.mgr.take();
            let shell = shell.clone();
            tokio::task::spawn_local(async move {
                tokio::time::sleep(REDIAL).await;
                if shell.mgr.borrow().is_none() {
                    shell.dial_mgr();
                }
            });
            return;
        }
        shell.event(Event::Reset { conn: Shell::conn_id(self.side, conn) });
    }
    fn on_dial_failed(&self, conn: &Conn, reason: &str, attempts: u32) {
        let shell = &self.shell;
        if shell.mon.is_mine(conn) {
            return shell.mon_effects(shell.mon.on_dial_failed());
        }
        if self.side.heartbeats().is_some() && reason.contains("refused") {
            // Not tried again by itself: the next ping dials, if the map still has it there.
            conn.close();
            return shell.event(Event::HeartbeatRefused { addrs: conn.peer().addrs.clone() });
        }
        // Another OSD that is gone will be dialled at its new address; its old one is given up.
        if self.side != Side::Public && attempts > 60 {
            shell.say(Level::Info, &format!("{} doesn't answer: {reason}", conn.peer().addrs));
            conn.close();
        }
    }
}
