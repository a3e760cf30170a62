//! How much memory notifies under way may hold: they are answered at once and kept until all watchers have, so no budget of requests bounds them.
//!
//! Holds the counters of one OSD, and the [`Share`] that travels with a notify and gives back what it holds when it is dropped. Absent: notifies
//! and watchers, see [`super`].
//!
//! - A client's notifies, whatever group they are in, hold at most half of what is left for all ([`CLIENTS_MAX`]), so that however many one sends, others'
//!   pass; a few small ones always pass ([`ALLOWANCE_MIN`]).
//! - No client waits for those of a client that has gone: they have a budget of their own ([`ORPHANS_MAX`]), and what does not fit ends.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes of all notifies whose clients are here. Source: ours; stock has no limit.
pub(in crate::pg) const CLIENTS_MAX: u64 = 64 << 20;
/// Bytes that a client's may hold whatever the others have: librbd's have a few KiB, one or two at a time.
const ALLOWANCE_MIN: u64 = 256 << 10;
/// Bytes of all notifies whose clients have gone.
const ORPHANS_MAX: u64 = 16 << 20;
const _: () = assert!(ALLOWANCE_MIN < CLIENTS_MAX / 2 && ORPHANS_MAX < CLIENTS_MAX);

/// What is held, by all and by each client.
#[derive(Debug, Default)]
pub struct NotifyBudget {
    used: Cell<u64>,
    orphans: Cell<u64>,
    by_client: RefCell<BTreeMap<u64, u64>>,
}

impl NotifyBudget {
    /// Bytes that further notifies of the client with that global_id may hold.
    pub fn left(&self, client: u64) -> u64 {
        let own = self.by_client.borrow().get(&client).copied().unwrap_or(0);
        let free = CLIENTS_MAX.saturating_sub(self.used.get());
        ALLOWANCE_MIN.max((free + own) / 2).saturating_sub(own)
    }
    /// Takes it, also if it is more than is left: what may be is settled when the request is planned.
    pub fn take(self: &Rc<Self>, client: u64, bytes: u64) -> Share {
        let mut share = Share { budget: self.clone(), client: Some(client), bytes: 0 };
        share.grow(bytes);
        share
    }
    /// Bytes that all notifies hold.
    #[cfg(test)]
    pub fn held(&self) -> u64 {
        self.used.get() + self.orphans.get()
    }
}

/// What one notify holds; given back on drop.
#[derive(Debug)]
pub struct Share {
    budget: Rc<NotifyBudget>,
    /// None: it has gone.
    client: Option<u64>,
    bytes: u64,
}

impl Share {
    /// So many bytes more.
    pub fn grow(&mut self, bytes: u64) {
        self.bytes += bytes;
        match self.client {
            Some(client) => {
                self.budget.used.set(self.budget.used.get() + bytes);
                *self.budget.by_client.borrow_mut().entry(client).or_default() += bytes;
            }
            None => self.budget.orphans.set(self.budget.orphans.get() + bytes),
        }
    }
    /// Its client has gone. False if there is no room for it any longer.
    pub fn orphan(&mut self) -> bool {
        let bytes = self.bytes;
        self.give_back();
        self.client = None;
        self.grow(bytes);
        self.budget.orphans.get() <= ORPHANS_MAX
    }
    fn give_back(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let Some(client) = self.client else { return self.budget.orphans.set(self.budget.orphans.get() - bytes) };
        self.budget.used.set(self.budget.used.get() - bytes);
        let mut by_client = self.budget.by_client.borrow_mut();
        let own = by_client.get_mut(&client).expect("it was counted");
        *own -= bytes;
        if *own == 0 {
            by_client.remove(&client);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_leaves_room_for_others_and_all_is_given_back() {
        let budget = Rc::new(NotifyBudget::default());
        assert_eq!(budget.left(1), CLIENTS_MAX / 2);
        let mut held = Vec::new();
        // However many clients take all that they may, the next has something left, and together they hold little more than the room.
        for client in 0..1000 {
            let left = budget.left(client);
            assert!(left >= ALLOWANCE_MIN.min(CLIENTS_MAX / 2));
            held.push(budget.take(client, left));
            assert!(budget.left(client) <= ALLOWANCE_MIN, "client {client} has its part");
        }
        assert!(budget.held() <= CLIENTS_MAX + 1000 * ALLOWANCE_MIN);
        // Those that go hold no more than their own room.
        held.retain_mut(|share| share.orphan());
        assert!(!held.is_empty() && budget.held() <= ORPHANS_MAX, "{} in {}", budget.held(), held.len());
        assert_eq!(budget.left(1), CLIENTS_MAX / 2);
        held.iter_mut().for_each(|share| share.grow(100));
        drop(held);
        assert_eq!((budget.held(), budget.by_client.borrow().len()), (0, 0));
    }
}
