//! A monitor client on a messenger: what OSDs and clients share of talking to their monitor.
//!
//! Whoever owns the messenger's dispatcher passes its calls on; what comes back is for the layers above, with dialling and sending done.

use crate::auth_cephx::{Dialer, entropy};
use crate::{Conn, Messenger};
use base::{Clock, Stamp};
use messages::RawMessage;
use msgr::Policy;
use objecter::monc::{Effect, MonClient};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use types::{EntityKind, errno};

/// The clocks of this process: monotonic time counts from the first call.
pub fn clock() -> Clock {
    thread_local!(static START: Instant = Instant::now());
    let mono = START.with(|start| start.elapsed());
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // 0 would look like "never".
    Clock { mono: Stamp(mono.as_nanos() as u64 + 1_000_000_000), wall_ns: wall.as_nanos() as u64 }
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct MonSession(Rc<Inner>);

struct Inner {
    messenger: Messenger,
    core: RefCell<MonClient>,
    conn: RefCell<Option<Conn>>,
    refused: Rc<Cell<i32>>,
}

impl MonSession {
    /// `dialer` is the one that the messenger dials with.
    pub fn new(messenger: Messenger, core: MonClient, dialer: &Dialer) -> Self {
        Self(Rc::new(Inner { messenger, core: RefCell::new(core), conn: RefCell::new(None), refused: dialer.refused.clone() }))
    }
    /// Calls the core and carries out what it wants of the network; the rest is returned.
    pub fn with<R>(&self, f: impl FnOnce(&mut MonClient, &mut Vec<Effect>) -> R) -> (R, Vec<Effect>) {
        let mut out = Vec::new();
        let r = f(&mut self.0.core.borrow_mut(), &mut out);
        (r, self.carry_out(out))
    }
    fn carry_out(&self, effects: Vec<Effect>) -> Vec<Effect> {
        let mut up = Vec::new();
        for effect in effects {
            match effect {
                Effect::Dial(addrs) => {
                    if let Some(old) = self.0.conn.take() {
                        old.close();
                    }
                    let conn = self.0.messenger.connect(EntityKind::MON, addrs, Policy::lossy_client());
                    *self.0.conn.borrow_mut() = Some(conn);
                }
                Effect::Send(message) => {
                    if let Some(conn) = &*self.0.conn.borrow() {
                        conn.send(message);
                    }
                }
                Effect::Keepalive => {
                    if let Some(conn) = &*self.0.conn.borrow() {
                        conn.keepalive();
                    }
                }
                other => up.push(other),
            }
        }
        up
    }
    pub fn start(&self) -> Vec<Effect> {
        self.with(|core, out| core.start(clock(), out)).1
    }
    /// To be called every second or so.
    pub fn tick(&self) -> Vec<Effect> {
        let ack = self.0.conn.borrow().as_ref().and_then(Conn::last_keepalive_ack).map(|d| d.as_nanos() as u64);
        self.with(|core, out| core.tick(clock(), ack, &mut entropy(), out)).1
    }
    /// True if this is the connection to our monitor.
    pub fn is_mine(&self, conn: &Conn) -> bool {
        self.0.conn.borrow().as_ref() == Some(conn)
    }
    /// The connection to our monitor.
    pub fn conn(&self) -> Option<Conn> {
        self.0.conn.borrow().clone()
    }
    /// The positive errno with which a monitor refused our last login; 0 if none did.
    pub fn refused(&self) -> i32 {
        self.0.refused.get()
    }
    /// From [`crate::Dispatcher::on_connect`], for this connection only.
    pub fn on_connect(&self) -> Vec<Effect> {
        let global_id = self.0.core.borrow().identity().borrow().global_id();
        let local = self.0.messenger.local();
        if local.kind == EntityKind::CLIENT {
            local.num.set(global_id as i64);
        }
        self.with(|core, out| core.on_open(clock(), out)).1
    }
    /// From [`crate::Dispatcher::on_reset`], for this connection only.
    pub fn on_reset(&self) -> Vec<Effect> {
        self.with(|core, out| core.on_lost(clock(), out)).1
    }
    /// From [`crate::Dispatcher::on_dial_failed`], for this connection only.
    pub fn on_dial_failed(&self) -> Vec<Effect> {
        if self.refused() == errno::EACCES {
            self.0.core.borrow_mut().on_refused();
        }
        self.with(|core, out| core.on_lost(clock(), out)).1
    }
    /// From [`crate::Dispatcher::on_message`], for this connection only; None: the message is for another.
    pub fn on_message(&self, message: &RawMessage) -> Option<Vec<Effect>> {
        let (mine, effects) = self.with(|core, out| core.on_message(message, clock(), &mut entropy(), out));
        mine.then_some(effects)
    }
}
