//! Requests that wait for something long (a map, a group, an object): what they hold beside the budget of those that go on.
//!
//! Holds each connection's [`Account`] and the [`Pool`] that all accounts share. Absent: what they wait for, and slots: `budget`.
//!
//! - A request that waits gives back its slot and what its answer would have, and takes the memory of its message along into the pool. So what waits
//!   keeps nothing from what goes on.
//! - A connection with a quarter of the pool is *full*: its next request is not taken until one of these has gone on.
//! - When the pool has no room, a request that waits stays where it was, in the budget. Only then, and only while others wait for the budget, the
//!   connection with the most that waits is ended. One at a time: the next when this one's requests are gone.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::task::Waker;

/// Memory that a request takes beside its bytes.
const REQUEST: u64 = 4 << 10;
/// A connection's part of the pool, as a divisor.
const PART: u64 = 4;

/// Memory of a waiting request.
pub(crate) fn weight(bytes: u64) -> u64 {
    bytes + REQUEST
}

/// What waits of all connections.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    ids: Cell<u64>,
    /// In the pool.
    held: Cell<u64>,
    /// Waits, and is held by the budget.
    stuck: Cell<u64>,
    /// Accounts by what waits of them.
    ranks: RefCell<BTreeMap<(u64, u64), Weak<Account>>>,
    /// An account that was ended and still holds something.
    is_ending: Cell<bool>,
}

impl Pool {
    pub fn held(&self) -> u64 {
        self.held.get()
    }
    /// Others wait for the budget: ends the account with the most that waits, if such requests are in the way.
    pub fn give_way(&self) {
        if self.stuck.get() == 0 || self.is_ending.get() {
            return;
        }
        let greediest = self.ranks.borrow().last_key_value().and_then(|(_, account)| account.upgrade());
        if let Some(account) = greediest {
            self.is_ending.set(true);
            account.is_ended.set(true);
            account.wake();
        }
    }
}

/// What waits of one connection.
#[derive(Debug)]
pub struct Account {
    id: u64,
    waiting: Cell<u64>,
    is_ended: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Account {
    pub(crate) fn new(pool: &Pool) -> Rc<Self> {
        pool.ids.set(pool.ids.get() + 1);
        let (waiting, is_ended, waker) = Default::default();
        Rc::new(Self { id: pool.ids.get(), waiting, is_ended, waker })
    }
    /// It holds more of what waits than any other, and is in the way: the connection is to be ended.
    pub fn is_ended(&self) -> bool {
        self.is_ended.get()
    }
    /// Whom to wake when the account has news.
    pub fn arm(&self, waker: &Waker) {
        let mut own = self.waker.borrow_mut();
        if !own.as_ref().is_some_and(|w| w.will_wake(waker)) {
            *own = Some(waker.clone());
        }
    }
    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
    /// True if no further request is to be taken. `max`: of the pool.
    pub(crate) fn is_full(&self, max: u64) -> bool {
        self.waiting.get() > max / PART
    }
    /// A request of this weight waits from now on. True if the pool has it, false if there is no room.
    pub(crate) fn put(self: &Rc<Self>, pool: &Pool, weight: u64, max: u64) -> bool {
        let fits = pool.held.get() + weight <= max;
        let count = if fits { &pool.held } else { &pool.stuck };
        count.set(count.get() + weight);
        self.rank(pool, self.waiting.get() + weight);
        fits
    }
    /// It no longer does.
    pub(crate) fn take(self: &Rc<Self>, pool: &Pool, weight: u64, is_pooled: bool) {
        let count = if is_pooled { &pool.held } else { &pool.stuck };
        count.set(count.get().checked_sub(weight).expect("what goes on has waited"));
        self.rank(pool, self.waiting.get() - weight);
        if self.is_ended.get() && self.waiting.get() == 0 {
            pool.is_ending.set(false);
        }
        self.wake();
    }
    fn rank(self: &Rc<Self>, pool: &Pool, now: u64) {
        let mut ranks = pool.ranks.borrow_mut();
        ranks.remove(&(self.waiting.replace(now), self.id));
        if now > 0 {
            ranks.insert((now, self.id), Rc::downgrade(self));
        }
    }
}
