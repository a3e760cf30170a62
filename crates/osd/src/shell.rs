//! What connects a [`Daemon`] with its messengers, timers and devices: what happens goes in, effects are carried out. Decides nothing.

use crate::devices::Machine;
use crate::unbroken::Unbroken;
use base::{Clock, Stamp};
use cephx::caps::OsdCap;
use messages::{MOSDOp, Message, RawMessage};
use msgr::Policy;
use net::admin_socket::AdminSocket;
use net::auth_cephx::PeerAuth;
use net::modes::{Modes, SharedModes};
use net::mon_session::clock;
use net::{Conn, DialError, Dispatcher, Messenger};
use osd_core::daemon::{DialFailure, Effect, Event, Network};
use osd_core::{ConnId, Daemon, DeviceQuestion, Level, Peer};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::{Rc, Weak};
use tokio::sync::Notify;
use types::{EntityAddrVec, EntityKind, Epoch, OsdId};

/// Accepted connections of four messengers have one space of numbers.
const NETWORK_SHIFT: u32 = 61;

/// What the loop is told.
#[derive(Debug, Clone)]
pub enum Status {
    Starting,
    Up(Epoch),
    /// Over, with a reason if it is a failure.
    Ended(Option<String>),
}

/// `osd_heartbeat_grace` where it is not set, milliseconds.
const GRACE_MS: u64 = 20_000;

/// Why an OSD ends whose core has panicked.
const BROKEN: &str = "a rule of its own is broken (the line of the panic is above): it ends before it does harm; please report that line";

/// The shell around one daemon.
pub struct Shell {
    pub daemon: RefCell<Daemon>,
    whoami: OsdId,
    messengers: [Messenger; 4],
    /// Connections by the numbers that the daemon gave to its dials. One that a peer dialled may be among them: its tag is the number of before.
    dialled: RefCell<BTreeMap<ConnId, Conn>>,
    effects: RefCell<Vec<Effect>>,
    /// The connection on which a sign of life was asked for last.
    keepalive: Cell<Option<ConnId>>,
    /// When the daemon wants to hear of the time.
    pub wake_at: Cell<Stamp>,
    /// [`Shell::wake_at`] has changed.
    pub rearmed: Notify,
    pub status: RefCell<Status>,
    /// [`Shell::status`] has changed.
    pub changed: Notify,
    /// Which connections are encrypted: as the monitor's options say each time it has come up.
    modes: SharedModes,
    quiet: bool,
    admin: RefCell<Option<Rc<AdminSocket>>>,
    /// What the store lies on.
    devices: BTreeSet<String>,
    /// A panic has passed through the core: nothing more is asked of it.
    broken: Cell<bool>,
    /// Its disk does not answer: nothing waits for the store any more.
    pub hangs: Cell<bool>,
    /// Requests are answered from what they say, and the core never sees them.
    null: Option<net::null::NullDispatcher>,
}

impl Shell {
    pub fn new(
        daemon: Daemon,
        messengers: [Messenger; 4],
        devices: BTreeSet<String>,
        modes: SharedModes,
        quiet: bool,
        null: bool,
    ) -> Rc<Self> {
        let shell = Rc::new(Self {
            whoami: daemon.osd().whoami(),
            daemon: RefCell::new(daemon),
            messengers,
            dialled: RefCell::default(),
            effects: RefCell::default(),
            keepalive: Cell::new(None),
            wake_at: Cell::new(Stamp(0)),
            rearmed: Notify::new(),
            status: RefCell::new(Status::Starting),
            changed: Notify::new(),
            modes,
            quiet,
            admin: RefCell::default(),
            devices,
            broken: Cell::new(false),
            hangs: Cell::new(false),
            null: null.then(net::null::NullDispatcher::default),
        });
        for network in Network::ALL {
            shell.messengers[network as usize].set_dispatcher(Rc::new(NetworkDispatcher { network, shell: Rc::downgrade(&shell) }));
        }
        shell
    }

    /// One event, and all that comes of it.
    pub fn event(self: &Rc<Self>, event: Event) {
        self.event_at(event, clock());
    }
    fn event_at(self: &Rc<Self>, event: Event, now: Clock) {
        if self.broken.get() {
            return;
        }
        // A rule of ours that is broken is a panic, and its task's executor would go on with the next event.
        let _unbroken = Unbroken(|| {
            self.broken.set(true);
            self.set_status(Status::Ended(Some(BROKEN.into())));
        });
        let mut effects = self.effects.take();
        self.daemon.borrow_mut().handle(event, now, &mut effects);
        for effect in effects.drain(..) {
            self.carry_out(effect);
        }
        self.effects.replace(effects);
    }
    /// An event that follows from carrying out an effect: after the others.
    fn event_later(self: &Rc<Self>, event: Event) {
        let shell = self.clone();
        tokio::task::spawn_local(async move { shell.event(event) });
    }
    /// What was read at once has all been handed in.
    fn batch_end(self: &Rc<Self>) {
        self.event(Event::TurnEnd);
        let mut round = 0;
        while !self.broken.get() && self.daemon.borrow_mut().linger(round) {
            self.event(Event::TurnEnd);
            round += 1;
        }
    }
    /// The time that the daemon named has come.
    pub fn time(self: &Rc<Self>) {
        let acked = self.keepalive.get().and_then(|id| self.conn(id)).and_then(|conn| conn.last_keepalive_ack());
        if let Some(sent) = acked {
            self.event(Event::KeepaliveAcked { sent_wall_ns: sent.as_nanos() as u64 });
        }
        self.event(Event::Time);
    }

    /// The store's operation that is under way for longest, and what it does.
    pub fn oldest_io(&self) -> (Option<u64>, String) {
        let daemon = self.daemon.borrow();
        let store = daemon.osd().store();
        let oldest = store.oldest_io();
        (oldest, oldest.map_or_else(String::new, |io| store.io_text(io)))
    }
    /// How long an operation may be under way before that is said, and before the OSD leaves, milliseconds; 0 is never.
    pub fn io_limits(&self) -> (u64, u64) {
        let daemon = self.daemon.borrow();
        let osd = daemon.osd();
        let (warn_ms, end_ms) = osd.breadcrumb().limits();
        let grace_ms = osd.option("osd_heartbeat_grace").and_then(|s| s.parse().ok()).map_or(GRACE_MS, |s: f64| (s * 1000.0) as u64);
        let leaves_ms = if warn_ms > 0 { warn_ms.saturating_add(grace_ms) } else { end_ms };
        (warn_ms, end_ms.min(leaves_ms))
    }

    /// True once a panic has passed through the core.
    pub fn is_broken(&self) -> bool {
        self.broken.get()
    }

    fn conn(&self, id: ConnId) -> Option<Conn> {
        if id.is_dialled() {
            return self.dialled.borrow().get(&id).cloned();
        }
        let network = (id.0 >> NETWORK_SHIFT) as usize;
        self.messengers.get(network)?.get(net::ConnId(id.0 & ((1 << NETWORK_SHIFT) - 1)))
    }
    /// The connection is over: all numbers that it had. One step for each connection that was dialled: those to the monitor, the manager
    /// and other OSDs.
    fn forget(&self, conn: &Conn) -> Vec<ConnId> {
        let mut names = vec![ConnId(conn.tag())];
        self.dialled.borrow_mut().retain(|id, other| {
            if other == conn && !names.contains(id) {
                names.push(*id);
            }
            other != conn
        });
        names
    }

    fn carry_out(self: &Rc<Self>, effect: Effect) {
        match effect {
            Effect::Send { conn, msg } => {
                if let Some(conn) = self.conn(conn) {
                    conn.send(msg);
                }
            }
            Effect::Dial { conn: id, network, name, addrs, lossless } => {
                let policy = if lossless { Policy::lossless_peer() } else { Policy::lossy_client() };
                let conn = self.messengers[network as usize].connect_to(name, addrs, policy);
                if conn.tag() == 0 {
                    conn.set_tag(id.0);
                }
                self.dialled.borrow_mut().insert(id, conn);
            }
            Effect::Close { conn: id } => {
                if let Some(conn) = self.conn(id) {
                    conn.close();
                    for other in self.forget(&conn).into_iter().filter(|other| *other != id) {
                        self.event_later(Event::Reset { conn: other });
                    }
                }
            }
            Effect::RenewCluster { addrs } => self.renew_cluster(addrs),
            Effect::Keepalive { conn: id } => {
                self.keepalive.set(Some(id));
                if let Some(conn) = self.conn(id) {
                    conn.keepalive();
                }
            }
            Effect::WakeAt(at) => {
                self.wake_at.set(at);
                self.rearmed.notify_one();
            }
            Effect::Continue => {
                let shell = self.clone();
                tokio::task::spawn_local(async move {
                    tokio::task::yield_now().await;
                    shell.event(Event::Continue);
                });
            }
            Effect::Booted { epoch } => {
                self.renew_modes();
                self.set_status(Status::Up(epoch));
            }
            Effect::Log { level, text } => self.say(level, &text),
            Effect::AskDevices { conn, tid, question } => self.ask_devices(conn, tid, question),
            Effect::AnswerAdmin { id, result, status, data } => {
                if let Some(admin) = &*self.admin.borrow() {
                    admin.answer(id, (result, status, data));
                }
            }
            Effect::Stop { why } => self.set_status(Status::Ended(why)),
        }
    }

    /// As in Ceph these options are heeded when a daemon starts: clients find it from here on.
    fn renew_modes(&self) {
        let daemon = self.daemon.borrow();
        match Modes::of(|name| daemon.osd().option(name).map(String::from)) {
            Ok(modes) => drop(self.modes.replace(modes)),
            Err(why) => self.say(Level::Warn, &format!("{why}; it goes on as it was started")),
        }
    }

    fn renew_cluster(self: &Rc<Self>, addrs: EntityAddrVec) {
        let side = &self.messengers[Network::Cluster as usize];
        side.local().addrs.replace(addrs);
        for conn in side.conns() {
            conn.close();
            // Those that are half open have no number yet.
            for id in self.forget(&conn).into_iter().filter(|id| id.0 != 0) {
                self.event_later(Event::Reset { conn: id });
            }
        }
    }

    /// Answers a question about devices. Programs are waited for elsewhere.
    fn ask_devices(self: &Rc<Self>, conn: ConnId, tid: u64, question: DeviceQuestion) {
        let (shell, devices) = (self.clone(), self.devices.clone());
        tokio::task::spawn_local(async move {
            let told = tokio::task::spawn_blocking(move || match question {
                DeviceQuestion::List => Machine::this().list(&devices),
                DeviceQuestion::Smart { only, timeout_s } => Machine::this().smart(&devices, &only, timeout_s),
            });
            if let Ok(told) = told.await {
                shell.event(Event::DevicesTold { conn, tid, told });
            }
        });
    }

    /// Takes commands by a Unix socket.
    pub fn listen_admin(self: &Rc<Self>, path: &Path) -> std::io::Result<()> {
        let shell = Rc::downgrade(self);
        let socket = AdminSocket::listen(path, move |id, command| {
            if let Some(shell) = shell.upgrade() {
                shell.event(Event::AdminCommand { id, command });
            }
        })?;
        self.admin.replace(Some(socket));
        Ok(())
    }
    pub fn close_admin(&self) {
        self.admin.take();
    }

    pub fn say(&self, level: Level, text: &str) {
        if !self.quiet && level <= Level::Info {
            say::eprintln!("osd.{}: {text}", self.whoami);
        }
    }

    /// The monitor hears why the OSD ends: its status is "ended" again when that has heard it, or has not for a while.
    pub fn last_words(self: &Rc<Self>, why: String) {
        self.status.replace(Status::Starting);
        self.event(Event::LastWords { why });
    }

    pub fn set_status(&self, status: Status) {
        // What is over stays over.
        if !matches!(*self.status.borrow(), Status::Ended(_)) {
            self.status.replace(status);
        }
        self.changed.notify_one();
    }

    /// The peer, as the core wants to know it.
    fn peer(conn: &Conn, network: Network) -> Peer {
        let peer = conn.peer();
        let auth = peer.user.as_ref().and_then(|u| u.downcast_ref::<PeerAuth>());
        let mut name = peer.name;
        if name.kind == EntityKind::CLIENT && name.num <= 0 {
            name.num = peer.global_id as i64;
        }
        // The map compares OSDs by their msgr2 addresses, whatever else they listen on.
        let of_osd = peer.addrs.msgr2().filter(|_| name.kind == EntityKind::OSD);
        let mut addr = of_osd.unwrap_or_else(|| peer.addrs.front());
        if addr.is_blank_ip() {
            addr.ip = peer.from.ip;
        }
        Peer {
            name,
            entity: peer.auth_name.to_string(),
            global_id: peer.global_id,
            features: peer.features,
            supported: peer.supported,
            addr,
            from: peer.from,
            network,
            cap: auth.map(|a| OsdCap::from_info(&a.caps)),
        }
    }
}

/// One messenger's dispatcher. The shell holds the messengers, so they hold it weakly: when it ends, however that comes, its store is closed with it.
struct NetworkDispatcher {
    network: Network,
    shell: Weak<Shell>,
}

impl Dispatcher for NetworkDispatcher {
    fn on_message(&self, conn: &Conn, msg: RawMessage) {
        let (Some(shell), network) = (self.shell.upgrade(), self.network) else { return };
        if let Some(null) = &shell.null
            && null.answer(conn, &msg)
        {
            return;
        }
        let id = ConnId(conn.tag());
        let event = match msg.kind == MOSDOp::KIND && matches!(network, Network::Public | Network::Cluster) {
            true => Event::Request { conn: id, msg, permit: conn.take_permit() },
            false => Event::Message { conn: id, network, msg },
        };
        shell.event(event);
    }
    /// Commands and acknowledgements get through while requests that wait for a group hold all slots.
    fn is_request(&self, msg: &RawMessage) -> bool {
        msg.kind == MOSDOp::KIND
    }
    fn answer_bytes(&self, msg: &RawMessage) -> u64 {
        MOSDOp::decode(msg).map_or(0, |msg| osd_core::answer_bytes(&msg))
    }
    fn on_batch(&self, _: &Conn) {
        if let Some(shell) = self.shell.upgrade() {
            shell.batch_end();
        }
    }
    fn on_connect(&self, conn: &Conn) {
        if let Some(shell) = self.shell.upgrade() {
            shell.event(Event::Opened { conn: ConnId(conn.tag()), peer: Shell::peer(conn, self.network) });
        }
    }
    fn on_accept(&self, conn: &Conn) {
        if conn.tag() == 0 {
            conn.set_tag((self.network as u64) << NETWORK_SHIFT | conn.id().0);
        }
        if let Some(shell) = self.shell.upgrade() {
            let id = ConnId(conn.tag());
            shell.event(Event::Accepted { conn: id, peer: Shell::peer(conn, self.network) });
            let peer = conn.peer();
            if let Some(lasts) = peer.user.as_ref().and_then(|u| u.downcast_ref::<PeerAuth>()).and_then(|auth| auth.ticket_lasts) {
                shell.event(Event::TicketLasts { conn: id, kind: peer.name.kind, lasts });
            }
        }
    }
    fn on_reset(&self, conn: &Conn) {
        let Some(shell) = self.shell.upgrade() else { return };
        for id in shell.forget(conn) {
            shell.event(Event::Reset { conn: id });
        }
    }
    fn on_dial_failed(&self, conn: &Conn, why: &DialError, attempts: u32) {
        let why = match why {
            DialError::Refused(_) => DialFailure::Refused,
            DialError::Denied { errno, .. } => DialFailure::Denied(*errno),
            DialError::NoMode(_) => DialFailure::Denied(types::errno::EOPNOTSUPP),
            DialError::Other(_) => DialFailure::Other,
        };
        if let Some(shell) = self.shell.upgrade() {
            shell.event(Event::DialFailed { conn: ConnId(conn.tag()), why, attempts });
        }
    }
}
