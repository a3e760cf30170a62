//! Listening, dialling, and the connections that there are.

use crate::Dispatcher;
use crate::conn::{Closing, Conn, ConnId, Inner};
use crate::drive::{self, Start};
use crate::half_open::{HalfOpens, Source};
use crate::listen::listen;
use base::Budget;
use msgr::{Connection, Decision, Local, MsgrError, Policy, State};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};
use types::{EntityAddr, EntityAddrVec, EntityKind, EntityName};

/// Bounds and habits.
#[derive(Debug, Clone)]
pub struct Config {
    /// Sockets that were accepted and aren't a session yet; with one more, the oldest of the source that has the most is closed.
    pub half_open_max: usize,
    /// From an accepted socket to the peer's banner.
    pub banner_timeout: Duration,
    /// From the socket to the session, either way.
    pub handshake_timeout: Duration,
    /// Bytes waiting on one connection, above which nothing is read from it.
    pub out_max: usize,
    /// After something was read, the thread looks for more this long before it sleeps. 0: not at all.
    pub spin_us: u64,
    /// A connection that holds a part of the budget, moves fewer than [`MOVED_MIN`] bytes in this time and is in the way of others is cut.
    pub stall: Duration,
}

/// See [`Config::stall`].
pub const MOVED_MIN: u64 = 64 << 10;

impl Default for Config {
    fn default() -> Self {
        Self {
            half_open_max: 1024,
            banner_timeout: Duration::from_secs(2),
            handshake_timeout: Duration::from_secs(10),
            out_max: 32 << 20,
            spin_us: 0,
            stall: Duration::from_millis(500),
        }
    }
}

/// A slot of a connection; `generation` counts its tenants.
#[derive(Default)]
struct Slot {
    generation: u32,
    conn: Option<Conn>,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

pub(crate) struct Shared {
    pub local: Rc<Local>,
    pub config: Config,
    pub dispatcher: RefCell<Option<Rc<dyn Dispatcher>>>,
    pub budget: RefCell<Option<Rc<Budget>>>,
    slots: RefCell<Slots>,
    /// Connections that are found by their peer's address: those that we dialled, and lossless ones.
    by_addr: RefCell<HashMap<EntityAddr, Conn>>,
    half_open: RefCell<HalfOpens<Conn>>,
    listeners: RefCell<Vec<AbortHandle>>,
    spinner: Notify,
    last_read: Cell<Option<Instant>>,
}

/// All connections of one daemon. Lives inside a tokio `LocalSet`.
#[derive(Clone)]
pub struct Messenger(pub(crate) Rc<Shared>);

impl Messenger {
    pub fn new(local: Rc<Local>, config: Config) -> Self {
        Self(Rc::new(Shared {
            local,
            config,
            dispatcher: RefCell::new(None),
            budget: RefCell::new(None),
            slots: RefCell::default(),
            by_addr: RefCell::default(),
            half_open: RefCell::default(),
            listeners: RefCell::default(),
            spinner: Notify::new(),
            last_read: Cell::new(None),
        }))
    }
    /// The part that hears of everything; to be set before anything else is done.
    pub fn set_dispatcher(&self, dispatcher: Rc<dyn Dispatcher>) {
        *self.0.dispatcher.borrow_mut() = Some(dispatcher);
        if self.0.config.spin_us > 0 {
            let shared = self.0.clone();
            self.0.listeners.borrow_mut().push(spawn_local(async move { shared.spin().await }).abort_handle());
        }
    }
    /// What clients that connect from now on may have under way, all together; without it there is no bound. Peers that logged in as something
    /// else are not behind it.
    pub fn set_budget(&self, budget: Rc<Budget>) {
        *self.0.budget.borrow_mut() = Some(budget);
    }
    pub fn local(&self) -> &Rc<Local> {
        &self.0.local
    }
    /// Listens; port 0 takes a free one. `Local::addrs` is for the caller to fill with what this returns, before peers learn of it.
    pub async fn bind(&self, addr: SocketAddr) -> io::Result<SocketAddr> {
        let listener = listen(addr)?;
        let bound = listener.local_addr()?;
        let shared = self.0.clone();
        self.0.listeners.borrow_mut().push(spawn_local(async move { shared.accept(listener).await }).abort_handle());
        Ok(bound)
    }
    /// As [`Messenger::bind`] for a msgr2 daemon with `nonce`: its own address is the one bound.
    pub async fn bind_as(&self, addr: SocketAddr, nonce: u32) -> io::Result<EntityAddr> {
        let bound = EntityAddr::msgr2(self.bind(addr).await?, nonce);
        self.0.local.addrs.borrow_mut().0.push(bound);
        Ok(bound)
    }
    /// The connection to the peer at `addrs`: the one that there is, or one that is dialled from now on.
    pub fn connect(&self, kind: EntityKind, addrs: EntityAddrVec, policy: Policy) -> Conn {
        self.connect_to(EntityName { kind, num: -1 }, addrs, policy)
    }
    /// As [`Messenger::connect`], where the number is known that must be there; -1: any. Another peer that named this address is cut off.
    pub fn connect_to(&self, name: EntityName, addrs: EntityAddrVec, policy: Policy) -> Conn {
        let key = address(&addrs);
        let existing = self.0.by_addr.borrow().get(&key).filter(|conn| !conn.is_closed()).cloned();
        if let Some(conn) = existing {
            let theirs = conn.0.core.borrow().peer().name;
            if theirs.kind == name.kind && (theirs.num == name.num || [theirs.num, name.num].contains(&-1)) {
                return conn;
            }
            conn.0.close(Closing::Replaced);
        }
        let conn = self.0.add(Connection::dial_to(self.0.local.clone(), policy, name, addrs));
        conn.0.announced.set(true);
        self.0.find_by(key, &conn);
        spawn_local(drive::drive(conn.clone(), Start::Dial));
        conn
    }
    /// The connection of that name, if it is still there.
    #[inline]
    pub fn get(&self, id: ConnId) -> Option<Conn> {
        let slots = self.0.slots.borrow();
        let slot = slots.slots.get(id.0 as u32 as usize)?;
        slot.conn.as_ref().filter(|conn| conn.id() == id).cloned()
    }
    /// All that are there, also half-open ones.
    pub fn conns(&self) -> Vec<Conn> {
        self.0.slots.borrow().slots.iter().filter_map(|s| s.conn.clone()).collect()
    }
    /// Stops listening and closes everything.
    pub fn shutdown(&self) {
        for listener in self.0.listeners.borrow_mut().drain(..) {
            listener.abort();
        }
        for conn in self.conns() {
            conn.close();
        }
    }
}

/// What a connection is found by.
pub(crate) fn address(addrs: &EntityAddrVec) -> EntityAddr {
    addrs.msgr2().unwrap_or_else(|| addrs.front())
}

/// Counts a handshake until it is dropped.
pub(crate) struct HalfOpen {
    shared: Rc<Shared>,
    source: Source,
    number: u64,
}
impl Drop for HalfOpen {
    fn drop(&mut self) {
        self.shared.half_open.borrow_mut().remove(self.source, self.number);
    }
}

impl Shared {
    pub fn add(self: &Rc<Self>, core: Connection) -> Conn {
        let mut slots = self.slots.borrow_mut();
        let index = slots.free.pop().unwrap_or_else(|| {
            slots.slots.push(Slot::default());
            (slots.slots.len() - 1) as u32
        });
        let slot = &mut slots.slots[index as usize];
        slot.generation += 1;
        let conn = Conn(Rc::new(Inner {
            id: ConnId(u64::from(slot.generation) << 32 | u64::from(index)),
            peer: RefCell::new(Rc::new(core.peer().clone())),
            core: RefCell::new(core),
            shared: self.clone(),
            tag: Cell::new(0),
            found_by: Cell::new(None),
            waker: RefCell::new(None),
            notified: Cell::new(false),
            incoming: RefCell::new(None),
            closing: Cell::new(Closing::No),
            announced: Cell::new(false),
            permit: RefCell::new(None),
        }));
        slot.conn = Some(conn.clone());
        conn
    }
    /// The end of a connection's task.
    pub fn remove(&self, conn: &Conn) {
        conn.0.core.borrow_mut().close();
        self.forget_addr(conn);
        let mut slots = self.slots.borrow_mut();
        let index = conn.id().0 as u32;
        slots.slots[index as usize].conn = None;
        slots.free.push(index);
        drop(slots);
        *conn.0.waker.borrow_mut() = None;
    }
    /// The connection is found by that address from now on, and by no other.
    fn find_by(&self, key: EntityAddr, conn: &Conn) {
        self.forget_addr(conn);
        conn.0.found_by.set(Some(key));
        self.by_addr.borrow_mut().insert(key, conn.clone());
    }
    fn forget_addr(&self, conn: &Conn) {
        let mut by_addr = self.by_addr.borrow_mut();
        if let Some(key) = conn.0.found_by.take()
            && by_addr.get(&key) == Some(conn)
        {
            by_addr.remove(&key);
        }
    }
    pub fn dispatcher(&self) -> Option<Rc<dyn Dispatcher>> {
        self.dispatcher.borrow().clone()
    }

    async fn accept(self: Rc<Self>, listener: TcpListener) {
        loop {
            let Ok((stream, from)) = listener.accept().await else {
                // Out of descriptors, most likely: what is open goes on, and some of it will close.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let conn = self.add(Connection::accept(self.local.clone(), EntityAddr::msgr2(from, 0)));
            let guard = self.note_half_open(from, &conn);
            spawn_local(drive::drive(conn, Start::Accepted(stream, guard)));
        }
    }

    /// Counts a handshake that begins. If there are too many, another ends.
    fn note_half_open(self: &Rc<Self>, from: SocketAddr, conn: &Conn) -> HalfOpen {
        let source = Source::of(from.ip());
        let mut all = self.half_open.borrow_mut();
        if all.len() >= self.config.half_open_max
            && let Some(other) = all.evict()
        {
            other.close();
        }
        let number = all.add(source, conn.clone());
        HalfOpen { shared: self.clone(), source, number }
    }
    /// Looks for another connection of the same peer and lets the cores decide. The other one, if it takes over the transport.
    pub fn decide(&self, conn: &Conn) -> Result<Option<Conn>, MsgrError> {
        let key = address(&conn.0.core.borrow().peer().addrs);
        let existing = self.by_addr.borrow().get(&key).cloned().filter(|e| e != conn && !e.is_closed());
        let mut core = conn.0.core.borrow_mut();
        let decision = match &existing {
            None => core.decide(None)?,
            Some(existing) => core.decide(Some(&mut existing.0.core.borrow_mut()))?,
        };
        match (decision, existing) {
            (Decision::TakeOver, Some(existing)) => return Ok(Some(existing)),
            (Decision::Told, Some(existing)) => {
                // If it lost against a dial of ours, that one must get through, also if we have nothing to say.
                existing.0.core.borrow_mut().wake();
                existing.0.wake();
            }
            (Decision::Told, None) => {}
            (_, existing) => {
                if let Some(existing) = existing {
                    existing.0.close(Closing::Replaced);
                }
                self.find_by(key, conn);
            }
        }
        Ok(None)
    }

    #[inline]
    pub fn note_read(&self) {
        if self.config.spin_us > 0 {
            if self.last_read.get().is_none() {
                self.spinner.notify_one();
            }
            self.last_read.set(Some(Instant::now()));
        }
    }
    /// Keeps the thread from sleeping for a while after each read.
    async fn spin(self: Rc<Self>) {
        let limit = Duration::from_micros(self.config.spin_us);
        loop {
            self.spinner.notified().await;
            while self.last_read.get().is_some_and(|at| at.elapsed() < limit) {
                tokio::task::yield_now().await;
            }
            self.last_read.set(None);
        }
    }
}

/// True if a connection in this state has given up its transport for good or for now.
pub(crate) fn without_transport(state: State) -> bool {
    matches!(state, State::Idle | State::Standby | State::Closed)
}
