//! A connection to a cluster.

use crate::daemons::Daemons;
use crate::{ClientError, Pool, setup};
use bytes::Bytes;
use cephx::Entropy;
use messages::RawMessage;
use msgr::{Local, Policy};
use net::auth_cephx::entropy;
use net::mon_session::{MonSession, clock};
use net::{Config, Conn, ConnId, Dispatcher, Messenger};
use objecter::monc::{self, Answer, MonClient, Request};
use objecter::objecter::{Effect, LingerEvent, Reply, Submit};
use objecter::{Conf, Objecter};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{AbortHandle, spawn_local};
use types::{AddrType, EntityAddr, EntityKind, OsdId, PoolId, Uuid, errno};

/// A monitor's answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// 0, a positive result, or a negative errno.
    pub result: i32,
    /// The line for people.
    pub status: String,
    pub output: Bytes,
}

/// Called for requests that were submitted with a `user` number other than 0.
pub(crate) type Sink = Rc<dyn Fn(u64, Reply)>;

/// A handle; clones are the same connection. It ends with [`Cluster::shutdown`].
#[derive(Clone)]
pub struct Cluster(pub(crate) Rc<Inner>);

pub(crate) struct Inner {
    pub(crate) messenger: Messenger,
    pub(crate) mon: MonSession,
    objecter: RefCell<Objecter>,
    /// Connections to OSDs, both ways.
    osds: RefCell<BTreeMap<OsdId, Conn>>,
    conn_osds: RefCell<HashMap<ConnId, OsdId>>,
    waiters: RefCell<HashMap<u64, oneshot::Sender<Reply>>>,
    /// Why a daemon can't be talked to, until something else is configured.
    no_mode: RefCell<Option<String>>,
    answers: RefCell<HashMap<u64, oneshot::Sender<Answer>>>,
    /// The question about the newest map, asked for the objecter.
    newest_tid: Cell<u64>,
    pub(crate) lingers: RefCell<BTreeMap<u64, mpsc::UnboundedSender<LingerEvent>>>,
    sink: RefCell<Option<Sink>>,
    /// Something happened that a waiter in [`Cluster::connect`] or for a map may wait for.
    pub(crate) changed: Notify,
    pub(crate) daemons: Daemons,
    timer: RefCell<Option<AbortHandle>>,
}

/// What the messenger calls: the messenger outlives nothing, so it holds us weakly.
struct Inbound(Weak<Inner>);

impl Cluster {
    /// Logs in and waits for the maps.
    pub async fn connect(conf: Conf, timeout: Duration) -> Result<Self, ClientError> {
        let cluster = Self::open(&conf)?;
        let name = conf.name.to_string();
        let ready = async {
            loop {
                let changed = cluster.0.changed.notified();
                if cluster.fsid().is_some() && cluster.0.objecter.borrow().epoch() > 0 {
                    return Ok(());
                }
                let refused = cluster.0.mon.refused();
                if let Some(why) = &*cluster.0.no_mode.borrow() {
                    return Err(ClientError::NoMode(why.clone()));
                }
                if refused != 0 {
                    return Err(ClientError::Refused { name: name.clone(), errno: refused });
                }
                changed.await;
            }
        };
        let late = || ClientError::Timeout { seconds: timeout.as_secs(), at: setup::monitors_text(&conf) };
        let result = tokio::time::timeout(timeout, ready).await.unwrap_or_else(|_| Err(late()));
        if let Err(error) = result {
            cluster.shutdown();
            return Err(error);
        }
        Ok(cluster)
    }

    fn open(conf: &Conf) -> Result<Self, ClientError> {
        let hosts = conf.mon_hosts();
        if hosts.is_empty() {
            let why =
                "ceph.conf's `mon host` has no address to dial: write `mon host = [v2:192.0.2.1:3300]`; names of hosts are not looked up";
            return Err(ClientError::Config(why.into()));
        }
        let dialer = setup::dialer(conf, setup::identity(conf)?)?;
        let seed = entropy().u64();
        // Where we are, the first server that we meet tells us; the nonce makes the address ours.
        let blank = EntityAddr { kind: AddrType::MSGR2, nonce: seed as u32, ..EntityAddr::default() };
        let local = Local::new(EntityKind::CLIENT, -1, blank.into(), Rc::new(dialer.clone()), seed);
        let messenger = Messenger::new(Rc::new(local), Config::default());
        let mut core = MonClient::new(dialer.identity.clone(), hosts, setup::hostname(), seed);
        core.subscribe_to("osdmap", 0, 0, &mut Vec::new());
        let mon = MonSession::new(messenger.clone(), core, &dialer);
        let inner = Rc::new(Inner {
            messenger,
            mon,
            objecter: RefCell::new(Objecter::new(0)),
            osds: RefCell::default(),
            conn_osds: RefCell::default(),
            waiters: RefCell::default(),
            no_mode: RefCell::default(),
            answers: RefCell::default(),
            newest_tid: Cell::new(0),
            lingers: RefCell::default(),
            sink: RefCell::new(None),
            changed: Notify::new(),
            daemons: Daemons::default(),
            timer: RefCell::new(None),
        });
        inner.messenger.set_dispatcher(Rc::new(Inbound(Rc::downgrade(&inner))));
        let weak = Rc::downgrade(&inner);
        let timer = spawn_local(async move {
            let mut interval = tokio::time::interval(Duration::from_secs(1));
            loop {
                interval.tick().await;
                let Some(inner) = weak.upgrade() else { return };
                inner.on_mon(inner.mon.tick());
                inner.objecter(|o, out| o.tick(clock(), out));
            }
        });
        *inner.timer.borrow_mut() = Some(timer.abort_handle());
        inner.on_mon(inner.mon.start());
        Ok(Self(inner))
    }

    /// Closes everything; what is under way ends with [`ClientError::Shutdown`].
    pub fn shutdown(&self) {
        if let Some(timer) = self.0.timer.borrow_mut().take() {
            timer.abort();
        }
        self.0.messenger.shutdown();
        self.0.waiters.borrow_mut().clear();
        self.0.answers.borrow_mut().clear();
        self.0.daemons.end();
        self.0.lingers.borrow_mut().clear();
    }
    pub fn fsid(&self) -> Option<Uuid> {
        self.0.mon.with(|core, _| core.fsid()).0
    }
    /// The number that the monitor gave us.
    pub fn global_id(&self) -> u64 {
        self.0.messenger.local().num.get() as u64
    }
    pub fn map(&self) -> Rc<maps::OsdMap> {
        self.0.objecter.borrow().map().cloned().unwrap_or_default()
    }
    /// Waits until our map is of this epoch at least.
    pub async fn wait_for_map(&self, epoch: u32) {
        loop {
            let changed = self.0.changed.notified();
            if self.0.objecter.borrow().epoch() >= epoch {
                return;
            }
            changed.await;
        }
    }
    /// Waits until our map is the newest one.
    pub async fn wait_for_newest_map(&self) -> Result<(), ClientError> {
        let Answer::Version { newest, .. } = self.ask(Request::Version("osdmap".into())).await? else { return Ok(()) };
        self.wait_for_map(newest as u32).await;
        Ok(())
    }
    /// A pool of the present map.
    pub fn pool(&self, name: &str) -> Result<Pool, ClientError> {
        let id = self.map().pool_by_name(name).ok_or_else(|| ClientError::NoPool(name.into()))?;
        Ok(self.pool_by_id(id))
    }
    pub fn pool_by_id(&self, id: PoolId) -> Pool {
        Pool::new(self.clone(), id)
    }

    /// Asks a monitor; asked again if the session breaks.
    pub async fn ask(&self, request: Request) -> Result<Answer, ClientError> {
        let (sender, receiver) = oneshot::channel();
        let (tid, effects) = self.0.mon.with(|core, out| core.request(request, out));
        self.0.answers.borrow_mut().insert(tid, sender);
        self.0.on_mon(effects);
        receiver.await.map_err(|_| ClientError::Shutdown)
    }
    /// A command as JSON: `{"prefix": "osd pool ls"}`.
    pub async fn mon_command(&self, json: &str, input: Bytes) -> Result<CommandOutput, ClientError> {
        match self.ask(Request::Command { cmd: vec![json.into()], input }).await? {
            Answer::Command { result, status, output, .. } => Ok(CommandOutput { result, status, output }),
            _ => Err(ClientError::Shutdown),
        }
    }

    /// Sends a request on an object.
    pub async fn operate(&self, submit: Submit) -> Result<Reply, ClientError> {
        let (sender, receiver) = oneshot::channel();
        let waiters = &self.0.waiters;
        self.0.objecter(|o, out| {
            let tid = o.submit(submit, clock(), out);
            waiters.borrow_mut().insert(tid, sender);
        });
        let reply = receiver.await.map_err(|_| self.0.no_mode.borrow().clone().map_or(ClientError::Shutdown, ClientError::NoMode))?;
        if reply.result < 0 { Err(ClientError::Errno(-reply.result)) } else { Ok(reply) }
    }
    /// Sends a request whose reply goes to the sink under `submit.user`, which is not 0.
    pub(crate) fn submit(&self, submit: Submit) -> u64 {
        assert!(submit.user != 0, "0 is for requests that are awaited");
        self.0.objecter(|o, out| o.submit(submit, clock(), out))
    }
    /// Forgets a request; the OSD may carry it out all the same.
    pub(crate) fn cancel(&self, tid: u64) {
        self.0.objecter(|o, _| o.cancel(tid));
    }
    pub(crate) fn set_sink(&self, sink: Option<Sink>) {
        *self.0.sink.borrow_mut() = sink;
    }
    pub(crate) async fn unwatch(&self, cookie: u64) -> Result<(), ClientError> {
        self.0.lingers.borrow_mut().remove(&cookie);
        let (sender, receiver) = oneshot::channel();
        let waiters = &self.0.waiters;
        self.0.objecter(|o, out| {
            if let Some(tid) = o.unwatch(cookie, clock(), out) {
                waiters.borrow_mut().insert(tid, sender);
            }
        });
        match receiver.await {
            Ok(Reply { result: ..0, .. }) | Ok(_) => Ok(()),
            Err(_) => Err(ClientError::Errno(errno::ENOENT)),
        }
    }
}

impl Inner {
    /// Calls the objecter and carries out what it wants.
    pub(crate) fn objecter<R>(&self, f: impl FnOnce(&mut Objecter, &mut Vec<Effect>) -> R) -> R {
        let mut out = Vec::new();
        let r = f(&mut self.objecter.borrow_mut(), &mut out);
        for effect in out {
            self.carry_out(effect);
        }
        r
    }
    fn carry_out(&self, effect: Effect) {
        match effect {
            Effect::Send { osd, message } => {
                if let Some(conn) = self.osds.borrow().get(&osd) {
                    conn.send(message);
                }
            }
            Effect::Done { tid, user: 0, reply } => {
                if let Some(waiter) = self.waiters.borrow_mut().remove(&tid) {
                    // Whoever waited may have gone.
                    let _ = waiter.send(reply);
                }
            }
            Effect::Done { user, reply, .. } => {
                let sink = self.sink.borrow().clone();
                if let Some(sink) = sink {
                    sink(user, reply);
                }
            }
            Effect::Open { osd, addrs } => {
                self.close_osd(osd);
                let conn = self.messenger.connect(EntityKind::OSD, addrs, Policy::lossy_client());
                self.conn_osds.borrow_mut().insert(conn.id(), osd);
                self.osds.borrow_mut().insert(osd, conn);
            }
            Effect::Close { osd } => self.close_osd(osd),
            Effect::Linger { cookie, event } => {
                if let Some(sender) = self.lingers.borrow().get(&cookie) {
                    let _ = sender.send(event);
                }
            }
            Effect::Map(epoch) => {
                let (_, effects) = self.mon.with(|core, _| core.got("osdmap", epoch.into()));
                self.on_mon(effects);
                self.changed.notify_waiters();
            }
            Effect::WantMap(start) => {
                let (_, effects) = self.mon.with(|core, out| core.resubscribe("osdmap", start.into(), 0, out));
                self.on_mon(effects);
            }
            Effect::WantNewest => {
                let (tid, effects) = self.mon.with(|core, out| core.request(Request::Version("osdmap".into()), out));
                self.newest_tid.set(tid);
                self.on_mon(effects);
            }
        }
    }
    fn close_osd(&self, osd: OsdId) {
        let conn = self.osds.borrow_mut().remove(&osd);
        if let Some(conn) = conn {
            self.conn_osds.borrow_mut().remove(&conn.id());
            conn.close();
        }
    }
    /// What the session with the monitor brought.
    pub(crate) fn on_mon(&self, effects: Vec<monc::Effect>) {
        for effect in effects {
            match effect {
                monc::Effect::Answer(Answer::Version { tid, newest, .. }) if tid == self.newest_tid.get() => {
                    self.objecter(|o, out| o.on_newest(newest as u32, out));
                }
                monc::Effect::Answer(answer) => {
                    if let Some(waiter) = self.answers.borrow_mut().remove(&answer.tid()) {
                        let _ = waiter.send(answer);
                    }
                }
                monc::Effect::MonMap | monc::Effect::Connected => self.changed.notify_waiters(),
                // Options of clients that the monitors keep don't concern this one.
                monc::Effect::Config(_) | monc::Effect::Rotating => {}
                monc::Effect::Dial(_) | monc::Effect::Send(_) | monc::Effect::Keepalive => {}
            }
        }
    }
    fn osd_of(&self, conn: &Conn) -> Option<OsdId> {
        self.conn_osds.borrow().get(&conn.id()).copied()
    }
}

impl Dispatcher for Inbound {
    fn on_message(&self, conn: &Conn, message: RawMessage) {
        let Some(inner) = self.0.upgrade() else { return };
        if inner.daemons.on_reply(&message) {
            return;
        }
        if let Some(osd) = inner.osd_of(conn) {
            inner.objecter(|o, out| o.on_message(osd, &message, clock(), out));
        } else if inner.mon.is_mine(conn) {
            match inner.mon.on_message(&message) {
                Some(effects) => inner.on_mon(effects),
                None if inner.on_news(&message) => {}
                None => drop(inner.objecter(|o, out| o.on_message(-1, &message, clock(), out))),
            }
        }
    }
    fn on_connect(&self, conn: &Conn) {
        let Some(inner) = self.0.upgrade() else { return };
        if inner.mon.is_mine(conn) {
            inner.on_mon(inner.mon.on_connect());
        }
    }
    fn on_reset(&self, conn: &Conn) {
        let Some(inner) = self.0.upgrade() else { return };
        inner.daemons.on_lost(conn);
        if inner.mon.is_mine(conn) {
            inner.on_mon(inner.mon.on_reset());
        } else if let Some(osd) = inner.osd_of(conn) {
            inner.osds.borrow_mut().remove(&osd);
            inner.conn_osds.borrow_mut().remove(&conn.id());
            inner.objecter(|o, out| o.on_reset(osd, clock(), out));
        }
    }
    fn on_dial_failed(&self, conn: &Conn, why: &net::DialError, _: u32) {
        let Some(inner) = self.0.upgrade() else { return };
        inner.daemons.on_lost(conn);
        if let net::DialError::NoMode(why) = why {
            // Another try would meet the same: what waits hears of it.
            inner.no_mode.replace(Some(why.clone()));
            inner.waiters.borrow_mut().clear();
            inner.changed.notify_waiters();
        }
        if inner.mon.is_mine(conn) {
            inner.on_mon(inner.mon.on_dial_failed());
            inner.changed.notify_waiters();
        }
    }
}
