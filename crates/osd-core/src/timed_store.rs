//! The store, and how long it takes to make a change last: what `ceph osd perf` shows.
//!
//! One change is timed at a time: the next one that is given once that has lasted. Under a load that is several hundred a second, and the others cost
//! nothing. Times are those of events, which a change is given in and found durable in. Absent: what a client waits for, which is an operation's counters'.

use base::Stamp;
use std::ops::{Deref, DerefMut};
use store::{LogDelta, ObjectStore, StoreResult};
use types::Transaction;

/// A shard's store.
pub struct TimedStore {
    store: Box<dyn ObjectStore>,
    now: Stamp,
    /// The token of the change that is timed, and when it was given.
    timed: Option<(u64, Stamp)>,
    sum_ns: u64,
    count: u64,
    /// The store gives room back to its devices: it is told the time.
    gives_back: bool,
}

impl TimedStore {
    pub fn new(store: Box<dyn ObjectStore>) -> Self {
        Self { store, now: Stamp(0), timed: None, sum_ns: 0, count: 0, gives_back: false }
    }
    pub fn into_inner(self) -> Box<dyn ObjectStore> {
        self.store
    }
    /// An event has come.
    #[inline]
    pub fn set_time(&mut self, now: Stamp) {
        self.now = now;
    }
    /// [`store::StoreHints::gives_back`].
    pub fn gives_back(&mut self, on: bool) {
        self.gives_back = on;
        self.store.gives_back(on);
    }
    /// [`store::StoreHints::give_back`], if it does.
    #[inline]
    pub fn give_back(&mut self) {
        if self.gives_back {
            self.store.give_back(self.now.since(Stamp(0)));
        }
    }
    /// [`ObjectStore::submit`].
    #[inline]
    pub fn submit(&mut self, txn: Transaction, log: Option<LogDelta>, token: u64) -> StoreResult<()> {
        let given = self.store.submit(txn, log, token);
        if self.timed.is_none() && given.is_ok() {
            self.timed = Some((token, self.now));
        }
        given
    }
    /// [`ObjectStore::take_commits`].
    #[inline]
    pub fn take_commits(&mut self, tokens: &mut Vec<u64>) {
        let before = tokens.len();
        self.store.take_commits(tokens);
        if let Some((token, given)) = self.timed
            && tokens[before..].contains(&token)
        {
            self.sum_ns += self.now.since(given).as_nanos() as u64;
            self.count += 1;
            self.timed = None;
        }
    }
    /// The mean of those that were timed since this was asked last; 0 without any.
    pub fn take_latency_ns(&mut self) -> u64 {
        let (sum_ns, count) = (std::mem::take(&mut self.sum_ns), std::mem::take(&mut self.count));
        sum_ns.checked_div(count).unwrap_or(0)
    }
}

impl Deref for TimedStore {
    type Target = dyn ObjectStore;
    #[inline]
    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}
impl DerefMut for TimedStore {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.store
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::CollId;

    #[test]
    fn a_change_takes_from_the_event_that_gave_it_to_the_one_that_found_it_durable() {
        let ms = |ms: u64| Stamp(ms * 1_000_000);
        let mut store = TimedStore::new(Box::new(store_mem::MemStore::new(1 << 20)));
        let mut give = |token: u64, given, found| {
            let mut txn = Transaction::new(CollId::Meta);
            if token == 1 {
                txn.create_collection(CollId::Meta, 0);
            }
            store.set_time(ms(given));
            store.submit(txn, None, token).expect("there is room");
            store.turn_end();
            store.set_time(ms(found));
            let mut tokens = Vec::new();
            store.take_commits(&mut tokens);
            assert_eq!(tokens, [token]);
        };
        give(1, 10, 13);
        give(2, 20, 25);
        assert_eq!(store.take_latency_ns(), 4_000_000, "the mean of both");
        assert_eq!(store.take_latency_ns(), 0, "nothing since");
    }
}
