//! Our side, shared by all connections of one messenger.

use crate::{AuthClients, AuthServer, Limits, Policy, ReceiveBuffers};
use base::Rng;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use types::{EntityAddr, EntityAddrVec, EntityKind, features};

/// msgr2 feature bit: msgr2.1 framing. The only one that we ask for, and we do require it: every release since 15.2.9 has it.
pub const REVISION_1: u64 = 1;
/// msgr2 feature bit: a round of questions about compression before the session.
pub const COMPRESSION: u64 = 2;

/// Our identity, and what we do.
pub struct Local {
    pub kind: EntityKind,
    /// Our number: an OSD's id, a client's global_id (-1 before it has one).
    pub num: Cell<i64>,
    /// What we tell peers. A client's are learnt from the first server that it meets.
    pub addrs: RefCell<EntityAddrVec>,
    pub supported: u64,
    /// What the banner says: [`REVISION_1`], with [`COMPRESSION`] if the question is to be answered (with no).
    pub msgr_features: u64,
    pub limits: Limits,
    /// For sockets that are accepted; without it none can be.
    pub auth_server: Option<Rc<dyn AuthServer>>,
    pub auth_clients: Rc<dyn AuthClients>,
    /// Treatment of peers that dial us, by kind.
    pub accept_policy: fn(EntityKind) -> Policy,
    /// Memory for large data segments; without it they come by the buffer.
    pub receive_buffers: Option<Rc<dyn ReceiveBuffers>>,
    global_seq: Cell<u64>,
    rng: RefCell<Rng>,
}

impl Local {
    /// `seed` makes the sessions' cookies: any bytes from the operating system.
    pub fn new(kind: EntityKind, num: i64, addrs: EntityAddrVec, auth_clients: Rc<dyn AuthClients>, seed: u64) -> Self {
        Self {
            kind,
            num: Cell::new(num),
            addrs: RefCell::new(addrs),
            supported: features::SUPPORTED,
            msgr_features: REVISION_1,
            limits: Limits::default(),
            auth_server: None,
            auth_clients,
            accept_policy: |_| Policy::stateless_server(),
            receive_buffers: None,
            global_seq: Cell::new(0),
            rng: RefCell::new(Rng::new(seed)),
        }
    }
    /// A number above all that were given out before and above `seen`.
    pub(crate) fn next_global_seq(&self, seen: u64) -> u64 {
        let next = self.global_seq.get().max(seen).saturating_add(1);
        self.global_seq.set(next);
        next
    }
    /// Never 0: that stands for "no session".
    pub(crate) fn cookie(&self) -> u64 {
        self.rng.borrow_mut().u64().max(1)
    }
    /// A peer says where it sees us. Fills in what we don't know of ourselves: a client's whole address, or a daemon's wildcard IP.
    pub(crate) fn learn(&self, seen: EntityAddr) {
        let mut addrs = self.addrs.borrow_mut();
        for addr in &mut addrs.0 {
            if addr.is_blank_ip() {
                addr.ip = seen.ip;
            }
        }
    }
}
