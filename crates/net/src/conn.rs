//! The handle of a connection.

use crate::drive::Transport;
use crate::messenger::Shared;
use base::Permit;
use messages::RawMessage;
use msgr::{Connection, Peer, State};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::task::Waker;
use std::time::{SystemTime, UNIX_EPOCH};
use types::EntityAddr;

/// Names a connection for as long as the messenger lives: never given to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

pub(crate) struct Inner {
    pub id: ConnId,
    pub core: RefCell<Connection>,
    pub shared: Rc<Shared>,
    /// As it was when the session last opened; what is dialled, before.
    pub peer: RefCell<Rc<Peer>>,
    /// The daemon's own number for it; 0: none.
    pub tag: Cell<u64>,
    /// The key under which the messenger finds it, if it does.
    pub found_by: Cell<Option<EntityAddr>>,
    pub waker: RefCell<Option<Waker>>,
    /// The task will run, or is running, and will see what was queued.
    pub notified: Cell<bool>,
    /// A transport that a newer connection of the same peer has handed over.
    pub incoming: RefCell<Option<Transport>>,
    pub closing: Cell<Closing>,
    /// The dispatcher knows it.
    pub announced: Cell<bool>,
    /// Of the message that is being dispatched.
    pub permit: RefCell<Option<Permit>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    No,
    /// Once everything is with the socket.
    WhenSent,
    Now,
    /// By a newer connection of the same peer: the dispatcher is told of a reset.
    Replaced,
}

/// A connection. Clones are the same one; it lives until it is closed or reset, whether or not handles are kept.
#[derive(Clone)]
pub struct Conn(pub(crate) Rc<Inner>);

impl Conn {
    pub fn id(&self) -> ConnId {
        self.0.id
    }
    /// Queues a message; it leaves at the end of the present turn. Before the session is open it waits; after the end it is dropped.
    #[inline]
    pub fn send(&self, message: RawMessage) {
        self.0.core.borrow_mut().send(message);
        self.0.wake();
    }
    /// Ends the session now; what is queued is dropped, and the dispatcher hears no more of it.
    pub fn close(&self) {
        self.0.close(Closing::Now);
    }
    /// Ends the session once what is queued has left.
    pub fn close_when_sent(&self) {
        self.0.close(Closing::WhenSent);
    }
    pub fn is_closed(&self) -> bool {
        self.0.closing.get() != Closing::No || self.0.core.borrow().state() == State::Closed
    }
    /// True while messages can leave at once.
    pub fn is_open(&self) -> bool {
        self.0.core.borrow().state() == State::Ready
    }
    /// Name, addresses, features and what authentication found out.
    #[inline]
    pub fn peer(&self) -> Rc<Peer> {
        self.0.peer.borrow().clone()
    }
    /// The features that messages to this peer are encoded with.
    #[inline]
    pub fn features(&self) -> u64 {
        self.0.peer.borrow().features
    }
    /// The daemon's own number for it; 0: none.
    #[inline]
    pub fn tag(&self) -> u64 {
        self.0.tag.get()
    }
    pub fn set_tag(&self, tag: u64) {
        self.0.tag.set(tag);
    }
    /// What the message that is being dispatched holds of the budget, if it is a client's: it ends when the taker drops it, or with the
    /// dispatch if it is not taken.
    #[inline]
    pub fn take_permit(&self) -> Option<Permit> {
        self.0.permit.borrow_mut().take()
    }
    /// Bytes of memory that what waits for the socket keeps.
    pub fn queued_bytes(&self) -> usize {
        self.0.core.borrow_mut().out().held()
    }
    /// Asks for a sign of life, see [`Conn::last_keepalive_ack`].
    pub fn keepalive(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.0.core.borrow_mut().keepalive(now.as_secs() as u32, now.subsec_nanos());
        self.0.wake();
    }
    /// When the keepalive that the peer answered last was sent, since 1970.
    pub fn last_keepalive_ack(&self) -> Option<std::time::Duration> {
        self.0.core.borrow().last_keepalive_ack().map(|(s, ns)| std::time::Duration::new(s.into(), ns % 1_000_000_000))
    }
    /// The decision that an [`msgr::AuthStep::Later`] put off.
    pub fn auth_answer(&self, step: msgr::AuthStep) {
        self.0.core.borrow_mut().auth_answer(step);
        self.0.wake();
    }
}

impl Inner {
    #[inline]
    pub fn wake(&self) {
        if !self.notified.replace(true)
            && let Some(waker) = &*self.waker.borrow()
        {
            waker.wake_by_ref();
        }
    }
    pub fn close(&self, how: Closing) {
        if self.closing.get() != Closing::Now {
            self.closing.set(how);
        }
        self.wake();
    }
}

impl PartialEq for Conn {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = self.peer();
        write!(f, "Conn({} {} {})", self.0.id.0, peer.name, peer.addrs)
    }
}
