//! The monitor's thread: events are collected, handled together, made durable together, and then answered.

use crate::auth_server::{EndpointAuth, LoggedIn};
use crate::manager::{ManagerAuth, ManagerLink};
use crate::{AuthMode, Cluster, HttpConfig, Store, http};
use anyhow::{Context, Result, anyhow};
use base::{Budget, Clock, Permit, Stamp};
use bytes::Bytes;
use messages::RawMessage;
use mon_core::{Batch, ConnId, Effect, Endpoint, Event, Handshake, Mon, MonOptions, PeerInfo, Step};
use msgr::{ConMode, Local, Policy};
use net::admin_socket::AdminSocket;
use net::modes::Modes;
use net::{Conn, Dispatcher, Messenger};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};
use types::{EntityAddr, EntityAddrVec, EntityKind, Uuid};

/// How often time is told.
const TICK: Duration = Duration::from_secs(1);

/// What a monitor needs to start.
pub struct MonConfig {
    pub cluster: Cluster,
    /// Port 0 takes a free one.
    pub listen: SocketAddr,
    /// The manager endpoint's port; 0 takes a free one.
    pub mgr_port: u16,
    /// Where to take commands of this machine (`ceph daemon mon.a`), if at all.
    pub admin_socket: Option<PathBuf>,
    /// The web address, if there is to be one.
    pub http: Option<HttpConfig>,
}

/// A running monitor.
pub struct MonHandle {
    pub fsid: Uuid,
    pub mon_addr: SocketAddr,
    pub mgr_addr: SocketAddr,
    /// Where metrics and the page are.
    pub http_addr: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl MonHandle {
    /// Ends the monitor and waits until it has.
    pub fn stop(mut self) -> Result<()> {
        drop(self.stop.take());
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(anyhow!("the monitor's thread panicked")),
            None => Ok(()),
        }
    }
    /// True once the thread has ended by itself: its store failed, or it panicked.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// Starts the monitor and the manager endpoint on a thread of their own; returns when both listen.
pub fn start(config: MonConfig) -> Result<MonHandle> {
    let fsid = config.cluster.fsid;
    let (ready_tx, ready_rx) = std::sync::mpsc::channel();
    let (stop_tx, stop_rx) = oneshot::channel();
    let thread = std::thread::Builder::new().name("mon".into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, serve(config, ready_tx, stop_rx))
    })?;
    match ready_rx.recv() {
        Ok((mon_addr, mgr_addr, http_addr)) => {
            Ok(MonHandle { fsid, mon_addr, mgr_addr, http_addr, stop: Some(stop_tx), thread: Some(thread) })
        }
        Err(_) => match thread.join() {
            Ok(result) => Err(result.err().unwrap_or_else(|| anyhow!("the monitor ended before it began"))),
            Err(_) => Err(anyhow!("the monitor's thread panicked")),
        },
    }
}

/// What the listeners, the handshakes and the loop share.
pub struct Shared {
    mon: RefCell<Option<Mon>>,
    store: Store,
    pub auth: AuthMode,
    started: Instant,
    queue: RefCell<Vec<Event>>,
    /// What clients have under way: the messages of the queue, and what comes in.
    budget: Rc<Budget>,
    permits: RefCell<Vec<Permit>>,
    wake: Notify,
    /// Why the store can't be written any more: then nothing is answered.
    failed: RefCell<Option<anyhow::Error>>,
    ended: Cell<bool>,
    admin: RefCell<Option<Rc<AdminSocket>>>,
    manager: ManagerLink,
}

impl Shared {
    fn clock(&self) -> Clock {
        Clock { mono: Stamp(self.started.elapsed().as_nanos() as u64), wall_ns: net::auth_cephx::now().wall_ns() }
    }
    fn push(&self, event: Event) {
        self.queue.borrow_mut().push(event);
        self.wake.notify_one();
    }
    fn persist(&self, batch: &Batch) -> bool {
        match self.store.apply(batch) {
            Ok(()) => true,
            Err(e) => {
                *self.failed.borrow_mut() =
                    Some(e.context("the monitor's store can't be written (if its file system is full, make room there, and start again)"));
                self.ended.set(true);
                self.wake.notify_one();
                false
            }
        }
    }
    pub fn handshake(&self, endpoint: Endpoint, state: &mut Handshake, method: u32, payload: &Bytes, secret_len: usize) -> Step {
        let mut mon = self.mon.borrow_mut();
        let Some(mon) = mon.as_mut() else { return Step::Bad(types::errno::EAGAIN) };
        let mut effects = Vec::new();
        let step = mon.handshake(endpoint, state, method, payload, secret_len, self.clock(), &mut effects);
        for effect in effects {
            if let Effect::Persist(batch) = effect
                && !self.persist(&batch)
            {
                return Step::Bad(types::errno::EIO);
            }
        }
        step
    }
    /// The modes of a connection with a peer of this kind, as they are set now.
    pub fn modes(&self, endpoint: Endpoint, peer: EntityKind) -> Vec<ConMode> {
        let us = if endpoint == Endpoint::Mon { EntityKind::MON } else { EntityKind::MGR };
        let mon = self.mon.borrow();
        let set = Modes::of(|name| mon.as_ref().map(|mon| mon.option(endpoint, name).to_string()));
        // What a store of before has wrongly demands nothing.
        set.unwrap_or_default().between(us, peer).to_vec()
    }
    /// What Prometheus reads; `None` before the monitor has started, as below.
    pub fn metrics(&self) -> Option<String> {
        Some(self.mon.borrow().as_ref()?.look().metrics(self.clock()))
    }
    /// The state of the cluster as JSON.
    pub fn view(&self) -> Option<String> {
        Some(self.mon.borrow().as_ref()?.look().state(self.clock()).to_string())
    }
    /// The last hour behind that second, as JSON.
    pub fn past(&self, from_s: u32) -> Option<String> {
        Some(self.mon.borrow().as_ref()?.look().past_view(from_s).to_string())
    }
    /// The second of the newest point of the past.
    pub fn newest_point_s(&self) -> u32 {
        self.mon.borrow().as_ref().and_then(|mon| mon.manager.past.points.back().map(|p| p.at.sec)).unwrap_or(0)
    }
    /// A browser looks, or none does any more.
    pub fn watched(&self, watched: bool) {
        self.push(Event::Watched(watched));
    }
    /// What shows a manager that we are the monitor; None before the monitor has started.
    pub fn manager_ticket(&self) -> Option<Result<cephx::Authorizer, cephx::Refusal>> {
        Some(self.mon.borrow_mut().as_mut()?.manager_ticket(self.clock()))
    }
}

/// The core's number of a connection: which messenger, and the messenger's number.
fn conn_id(endpoint: Endpoint, conn: &Conn) -> ConnId {
    ConnId(conn.id().0 << 1 | u64::from(endpoint == Endpoint::Mgr))
}

struct Listener {
    shared: Rc<Shared>,
    endpoint: Endpoint,
}

impl Dispatcher for Listener {
    fn on_accept(&self, conn: &Conn) {
        let peer = conn.peer();
        let Some(logged_in) = peer.user.as_ref().and_then(|u| u.downcast_ref::<LoggedIn>()) else { return conn.close() };
        // Whoever has no address of its own is known by where its socket comes from.
        let mut addrs = peer.addrs.clone();
        for addr in &mut addrs.0 {
            if addr.is_blank_ip() {
                addr.ip = peer.from.ip;
            }
        }
        let info = PeerInfo {
            entity: logged_in.login.name.clone(),
            global_id: logged_in.login.global_id,
            caps: logged_in.login.caps.clone(),
            addrs,
            from: peer.from,
            features: peer.features,
            handshake: logged_in.handshake.take(),
        };
        self.shared.push(Event::Open { conn: conn_id(self.endpoint, conn), endpoint: self.endpoint, peer: Box::new(info) });
    }
    fn on_connect(&self, conn: &Conn) {
        if self.shared.manager.is(conn) {
            self.shared.push(Event::ManagerOpen);
        }
    }
    fn on_message(&self, conn: &Conn, message: RawMessage) {
        if self.shared.manager.is(conn) {
            return self.shared.push(Event::ManagerMessage { message });
        }
        // Held until the queue has been handled.
        self.shared.permits.borrow_mut().extend(conn.take_permit());
        self.shared.push(Event::Message { conn: conn_id(self.endpoint, conn), message });
    }
    fn on_reset(&self, conn: &Conn) {
        if self.shared.manager.lost(conn) {
            return self.shared.push(Event::ManagerClosed);
        }
        self.shared.push(Event::Closed { conn: conn_id(self.endpoint, conn) });
    }
}

/// Where a monitor, the manager endpoint and the page listen.
type Addrs = (SocketAddr, SocketAddr, Option<SocketAddr>);

async fn serve(config: MonConfig, ready: std::sync::mpsc::Sender<Addrs>, mut stop: oneshot::Receiver<()>) -> Result<()> {
    let Cluster { fsid, store, auth, .. } = config.cluster;
    let shared = Rc::new(Shared {
        mon: RefCell::new(None),
        store,
        auth,
        started: Instant::now(),
        queue: RefCell::default(),
        budget: Rc::default(),
        permits: RefCell::default(),
        wake: Notify::new(),
        failed: RefCell::new(None),
        ended: Cell::new(false),
        admin: RefCell::new(None),
        manager: ManagerLink::default(),
    });
    let (mon_net, mon_addr) = listen(&shared, Endpoint::Mon, config.listen, 0).await?;
    let mut nonce = [0; 4];
    aws_lc_rs::rand::fill(&mut nonce).map_err(|_| anyhow!("the system has no random bytes"))?;
    let nonce = u32::from_le_bytes(nonce).max(1);
    let (mgr_net, mgr_addr) = listen(&shared, Endpoint::Mgr, SocketAddr::new(config.listen.ip(), config.mgr_port), nonce).await?;
    let options = MonOptions {
        fsid,
        mon_addrs: EntityAddrVec::one(mon_addr),
        mgr_addrs: EntityAddrVec::one(mgr_addr),
        cephx: auth == AuthMode::Cephx,
        metadata: net::host::metadata(),
    };
    let mon = Mon::load(&shared.store.snapshot()?, options, Box::new(net::auth_cephx::entropy()), shared.clock())?;
    *shared.mon.borrow_mut() = Some(mon);
    // Half of what a start changes is in the core's batch: it goes out with the first event.
    shared.push(Event::Tick);
    run_queue(&shared, &mon_net, &mgr_net);
    if let Some(path) = &config.admin_socket {
        let asked = shared.clone();
        match AdminSocket::listen(path, move |id, command| asked.push(Event::Local { id, command })) {
            Ok(socket) => *shared.admin.borrow_mut() = Some(socket),
            Err(e) => say::eprintln!("mon.a: no admin socket at {}: {e}", path.display()),
        }
    }
    let http_addr = match &config.http {
        Some(http) => Some(http::serve(shared.clone(), http).await?),
        None => None,
    };
    let socket = |a: EntityAddr| a.socket().expect("a bound address is one");
    // The program that started us may be gone already: then it need not know.
    let _ = ready.send((socket(mon_addr), socket(mgr_addr), http_addr));

    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !shared.ended.get() {
        tokio::select! {
            _ = shared.wake.notified() => {}
            _ = ticks.tick() => {
                shared.queue.borrow_mut().push(Event::Tick);
                let max = shared.mon.borrow().as_ref().map_or(0, Mon::client_bytes_max);
                shared.budget.set_limits(max, 0);
            }
            _ = &mut stop => break,
        }
        run_queue(&shared, &mon_net, &mgr_net);
    }
    shared.admin.take();
    mon_net.shutdown();
    mgr_net.shutdown();
    // A turn for what was on its way out.
    tokio::time::sleep(Duration::from_millis(10)).await;
    match shared.failed.take() {
        Some(e) => Err(e),
        None => Ok(()),
    }
}

/// Handles what has come in since the last time: one write to the store for all of it, then the answers.
fn run_queue(shared: &Shared, mon_net: &Messenger, mgr_net: &Messenger) {
    loop {
        let events = std::mem::take(&mut *shared.queue.borrow_mut());
        let permits = std::mem::take(&mut *shared.permits.borrow_mut());
        if events.is_empty() || shared.ended.get() {
            return;
        }
        let mut effects = Vec::new();
        {
            let mut mon = shared.mon.borrow_mut();
            let Some(mon) = mon.as_mut() else { return };
            for event in events {
                let clock = shared.clock();
                mon.handle(event, clock, &mut effects);
            }
        }
        drop(permits);
        let mut batch = Batch::default();
        for effect in &mut effects {
            if let Effect::Persist(b) = effect {
                batch.append(std::mem::take(b));
            }
        }
        if !batch.is_empty() && !shared.persist(&batch) {
            return;
        }
        for effect in effects {
            match effect {
                Effect::Persist(_) => {}
                Effect::Send { conn, message } => {
                    if let Some(conn) = find(conn, mon_net, mgr_net) {
                        conn.send(message);
                    }
                }
                Effect::Close { conn: id } => {
                    if let Some(conn) = find(id, mon_net, mgr_net) {
                        conn.close();
                        // The messenger says nothing of what we end ourselves.
                        shared.push(Event::Closed { conn: id });
                    }
                }
                Effect::DialManager { addrs } => shared.manager.dial(mon_net, addrs),
                Effect::SendManager { message } => shared.manager.send(message),
                Effect::HangUpManager => shared.manager.hang_up(),
                Effect::LocalAnswer { id, result, status, output } => {
                    if let Some(admin) = &*shared.admin.borrow() {
                        admin.answer(id, (result, status, output.to_vec()));
                    }
                }
            }
        }
    }
}

fn find(conn: ConnId, mon_net: &Messenger, mgr_net: &Messenger) -> Option<Conn> {
    let net = if conn.0 & 1 == 1 { mgr_net } else { mon_net };
    net.get(net::ConnId(conn.0 >> 1))
}

async fn listen(shared: &Rc<Shared>, endpoint: Endpoint, addr: SocketAddr, nonce: u32) -> Result<(Messenger, EntityAddr)> {
    let kind = if endpoint == Endpoint::Mon { EntityKind::MON } else { EntityKind::MGR };
    let mut seed = [0; 8];
    aws_lc_rs::rand::fill(&mut seed).map_err(|_| anyhow!("the system has no random bytes"))?;
    let clients = Rc::new(ManagerAuth(Rc::downgrade(shared)));
    let mut local = Local::new(kind, 0, EntityAddrVec::default(), clients, u64::from_le_bytes(seed));
    local.auth_server = Some(Rc::new(EndpointAuth { shared: shared.clone(), endpoint }));
    local.accept_policy = |_| Policy::stateless_server();
    let net = Messenger::new(Rc::new(local), net::Config::default());
    net.set_dispatcher(Rc::new(Listener { shared: shared.clone(), endpoint }));
    net.set_budget(shared.budget.clone());
    let bound = net.bind_as(addr, nonce).await.with_context(|| format!("can't listen on {addr}"))?;
    Ok((net, bound))
}
