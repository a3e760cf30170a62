//! Reservations: how many groups of this OSD are recovered or filled at a time, as their primary (local) and as another member (remote).
//!
//! ```text
//!              first by priority, and a place is free, or one of lower priority gives its own up
//!   waiting ─────────────────────────────────────────────────────────────────────────────────────▶ held
//!      ▲                                                                                            │
//!      └──────────── asks again ◀──────────────────────── preempted ◀───────────────────────────────┘
//! ```
//!
//! Of the same priority the one that asked first is first. What comes of it is told by [`Reserver::take_news`]. Holds no message and no group.
//!
//! Source of the facts: Ceph 18.2 `src/common/AsyncReserver.h`.

use crate::planted::{Bug, planted};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::SpgId;

/// What a group is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    Granted,
    /// Another one of higher priority has its place.
    Preempted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wish {
    priority: u32,
    number: u64,
}

/// One kind of places of an OSD.
#[derive(Debug, Default)]
pub struct Reserver {
    places: usize,
    /// Below this nothing is granted: `osd_min_recovery_priority`.
    priority_min: u32,
    next: u64,
    wishes: BTreeMap<SpgId, Wish>,
    /// The same in the order of their turn.
    queue: BTreeSet<(Reverse<u32>, u64, SpgId)>,
    held: BTreeMap<SpgId, u32>,
    news: VecDeque<(SpgId, News)>,
}

impl Reserver {
    pub fn new(places: usize, priority_min: u32) -> Self {
        Self { places, priority_min, ..Self::default() }
    }
    pub fn configure(&mut self, places: usize, priority_min: u32) {
        (self.places, self.priority_min) = (places, priority_min);
        self.grant();
    }
    /// A group wants a place. One that waits already gets this priority; one that holds its place keeps it.
    pub fn ask(&mut self, pgid: SpgId, priority: u32) {
        if let Some(held) = self.held.get_mut(&pgid) {
            *held = priority;
        } else {
            self.forget_wish(pgid);
            self.next += 1;
            self.wishes.insert(pgid, Wish { priority, number: self.next });
            self.queue.insert((Reverse(priority), self.next, pgid));
        }
        self.grant();
    }
    /// A group wants none, or gives its own back. What it was to be told is not told.
    pub fn cancel(&mut self, pgid: SpgId) {
        self.forget_wish(pgid);
        self.held.remove(&pgid);
        self.news.retain(|(group, _)| *group != pgid);
        self.grant();
    }
    fn forget_wish(&mut self, pgid: SpgId) {
        if let Some(wish) = self.wishes.remove(&pgid) {
            assert!(self.queue.remove(&(Reverse(wish.priority), wish.number, pgid)), "a wish stands in both orders");
        }
    }
    /// What came of it since it was asked last, in order.
    pub fn take_news(&mut self) -> Option<(SpgId, News)> {
        self.news.pop_front()
    }

    /// By stock's names: `queues` has what waits, by priority, and `in_progress` what has a place.
    pub fn dump(&self) -> Value {
        let item = |pgid: &SpgId, priority: u32| json!({ "item": pgid.to_string(), "prio": priority, "can_preempt": true });
        let mut queues: BTreeMap<u32, Vec<Value>> = BTreeMap::new();
        for (Reverse(priority), _, pgid) in &self.queue {
            queues.entry(*priority).or_default().push(item(pgid, *priority));
        }
        let queues: Vec<Value> = queues.iter().map(|(priority, items)| json!({ "priority": priority, "items": items })).collect();
        let held: Vec<Value> = self.held.iter().map(|(pgid, priority)| item(pgid, *priority)).collect();
        json!({ "max_allowed": self.places, "min_priority": self.priority_min, "queues": queues, "in_progress": held })
    }

    /// True if this group has a place.
    #[cfg(test)]
    pub fn has(&self, pgid: SpgId) -> bool {
        self.held.contains_key(&pgid)
    }
    /// True if no group has a place or waits for one.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.wishes.is_empty()
    }

    fn grant(&mut self) {
        while let Some((Reverse(priority), number, pgid)) = self.queue.first().copied() {
            if priority < self.priority_min {
                return;
            }
            if self.held.len() >= self.places.max(1) + usize::from(planted(Bug::GrantTwice)) {
                let lowest =
                    self.held.iter().min_by_key(|(pgid, priority)| (**priority, **pgid)).map(|(pgid, priority)| (*pgid, *priority));
                let Some((other, _)) = lowest.filter(|(_, held)| *held < priority) else { return };
                self.held.remove(&other);
                self.news.retain(|(group, _)| *group != other);
                self.news.push_back((other, News::Preempted));
            }
            self.queue.remove(&(Reverse(priority), number, pgid));
            self.wishes.remove(&pgid);
            self.held.insert(pgid, priority);
            self.news.push_back((pgid, News::Granted));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted;
    use base::Rng;
    use std::panic::catch_unwind;
    use types::PgId;

    fn group(seed: u32) -> SpgId {
        SpgId::whole(PgId::new(1, seed))
    }
    fn news(reserver: &mut Reserver) -> Vec<(u32, News)> {
        std::iter::from_fn(|| reserver.take_news()).map(|(pgid, news)| (pgid.pgid.seed, news)).collect()
    }

    #[test]
    fn the_highest_priority_has_the_place_and_the_first_of_equals() {
        let mut r = Reserver::new(1, 0);
        r.ask(group(1), 100);
        r.ask(group(3), 180);
        assert_eq!(news(&mut r), [(1, News::Preempted), (3, News::Granted)], "of what was not told yet only the end is");
        let mut r = Reserver::new(1, 0);
        r.ask(group(1), 100);
        assert_eq!(news(&mut r), [(1, News::Granted)]);
        r.ask(group(2), 100);
        r.ask(group(3), 180);
        assert_eq!(news(&mut r), [(1, News::Preempted), (3, News::Granted)]);
        r.ask(group(1), 100);
        r.cancel(group(3));
        assert_eq!(news(&mut r), [(2, News::Granted)], "it asked before");
        r.cancel(group(2));
        assert_eq!(news(&mut r), [(1, News::Granted)]);
        r.configure(2, 110);
        r.ask(group(4), 100);
        assert_eq!(news(&mut r), [], "below the least priority");
        r.configure(2, 0);
        assert_eq!(news(&mut r), [(4, News::Granted)]);
    }

    #[test]
    fn what_waits_is_shown_by_priority_and_what_has_a_place_beside_it() {
        let mut r = Reserver::new(1, 0);
        [(1, 180), (2, 100), (3, 100), (4, 140)].into_iter().for_each(|(seed, priority)| r.ask(group(seed), priority));
        let shown = r.dump();
        let items = |list: &Value| list.as_array().unwrap().iter().map(|i| i["item"].as_str().unwrap().to_string()).collect::<Vec<_>>();
        assert_eq!((&shown["max_allowed"], &shown["min_priority"]), (&json!(1), &json!(0)));
        assert_eq!(items(&shown["in_progress"]), ["1.1"]);
        let queues = shown["queues"].as_array().unwrap();
        assert_eq!(queues.iter().map(|q| q["priority"].as_u64()).collect::<Vec<_>>(), [Some(100), Some(140)]);
        assert_eq!(queues.iter().map(|q| items(&q["items"])).collect::<Vec<_>>(), [vec!["1.2", "1.3"], vec!["1.4"]]);
    }

    /// Whatever is asked and given back, no more hold a place than there are, and none waits while one is free.
    fn run(seed: u64) {
        let mut rng = Rng::new(seed);
        let places = 1 + rng.below(3) as usize;
        let mut r = Reserver::new(places, 0);
        let mut held = BTreeSet::new();
        let mut waiting = BTreeSet::new();
        for _ in 0..200 {
            let pgid = rng.below(8) as u32;
            if rng.chance(1, 2) {
                r.ask(group(pgid), 100 + 40 * rng.below(3) as u32);
                if !held.contains(&pgid) {
                    waiting.insert(pgid);
                }
            } else {
                r.cancel(group(pgid));
                held.remove(&pgid);
                waiting.remove(&pgid);
            }
            for (pgid, what) in news(&mut r) {
                match what {
                    News::Granted => assert!(waiting.remove(&pgid) && held.insert(pgid)),
                    News::Preempted => assert!(held.remove(&pgid) || waiting.remove(&pgid)),
                }
            }
            assert!(held.len() <= places, "{} hold {places} places", held.len());
            assert!(waiting.is_empty() || held.len() == places, "one waits for a free place");
        }
    }
    #[test]
    fn places_are_neither_given_twice_nor_left_free() {
        (0..200).for_each(run);
        let found = planted::with(Bug::GrantTwice, || (0..200).any(|seed| catch_unwind(|| run(seed)).is_err()));
        assert!(found, "a place given twice is not noticed");
    }
}
