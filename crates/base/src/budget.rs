//! One budget for what clients have under way: bytes and requests, from a message's first byte to its answer.
//!
//! Holds the counters, the queues of those that wait and the [`Permit`] that travels with a request. Absent: sockets, messages and clocks:
//! the caller says how long a message is, and is woken when it is its turn. All of it lives on one thread: cells, no locks.
//!
//! ```text
//!   bytes      | small | medium | huge |      common       |     of `bytes_max`
//!                 1/8     1/4     1/4      the rest, to whichever lane asks first
//!   requests   a slot each, of `messages_max`
//!   answers    what requests under way will be answered with, and what lies in the sockets' queues: half of `bytes_max`
//! ```
//! - A message takes all of its bytes or none, so messages that are here in part never wait for each other.
//! - Each lane has a share that no other lane uses, and admits one message whatever its length while it holds none. So large messages never
//!   block small ones, and the longest message gets its turn.
//! - Each queue is first come, first served. A release wakes the heads; one that is admitted wakes the next.
//! - A [`Permit`] gives back what it holds when it is dropped. A [`Turn`] gives up its place in the queue when it is dropped.
//! - A request that waits for something long holds nothing here: [`Permit::set_aside`] moves it to the pool of `aside`, [`Permit::go_on`] back.

use crate::aside::{self, Account, Pool};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

/// Messages up to this length in bytes wait for no memory before they are whole: a connection's read buffer holds them anyway.
pub const SMALL_MAX: u64 = 68 << 10;
/// The longest message of the middle lane, bytes: a 4 MiB write and what stands around it.
const MEDIUM_MAX: u64 = (4 << 20) + SMALL_MAX;
/// What a connection may have queued whatever the others have, bytes.
const ALLOWANCE_MIN: u64 = 64 << 10;

const LANES: usize = 3;
/// Shares of each lane, as divisors of the whole.
const SHARES: [u64; LANES] = [8, 4, 4];
/// Queues: one a lane, then requests that wait for a slot, then those that wait because their answers are long.
const SLOTS: usize = LANES;
const HEAVY: usize = LANES + 1;
const QUEUES: usize = LANES + 2;

fn lane(len: u64) -> usize {
    match len {
        0..=SMALL_MAX => 0,
        0..=MEDIUM_MAX => 1,
        _ => 2,
    }
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    waker: Waker,
}

/// What is under way, and how much may be.
#[derive(Debug, Default)]
pub struct Budget {
    /// 0: not bounded. The smaller one of what was set and the ceiling.
    bytes_max: Cell<u64>,
    /// As it was set last.
    bytes_set: Cell<u64>,
    /// The process has no more memory to give than this; 0: it is not bounded.
    ceiling: Cell<u64>,
    /// 0: not bounded.
    messages_max: Cell<u64>,
    held: [Cell<u64>; LANES],
    messages: Cell<u64>,
    answers: Cell<u64>,
    queues: RefCell<[VecDeque<Waiter>; QUEUES]>,
    waiting: Cell<usize>,
    ids: Cell<u64>,
    taken: Cell<u64>,
    waits: Cell<u64>,
    pool: Pool,
}

/// The caller's waker is in one of the budget's queues.
#[derive(Debug)]
pub struct Waits(());

/// What a budget counts, for `perf dump`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetStats {
    pub bytes: u64,
    pub bytes_max: u64,
    pub messages: u64,
    pub messages_max: u64,
    /// Bytes of answers that are expected or queued.
    pub answers: u64,
    /// Messages that were admitted so far.
    pub taken: u64,
    /// Times that one had to wait.
    pub waits: u64,
    /// Connections that wait now.
    pub waiting: u64,
    /// Bytes of requests that wait for something long, beside `bytes`.
    pub aside: u64,
}

impl Budget {
    /// 0 is no bound.
    pub fn new(bytes_max: u64, messages_max: u64) -> Rc<Self> {
        let budget = Self::default();
        budget.set_limits(bytes_max, messages_max);
        Rc::new(budget)
    }
    /// New bounds; 0 is none. What is held already stays held.
    pub fn set_limits(&self, bytes_max: u64, messages_max: u64) {
        self.bytes_set.set(bytes_max);
        self.messages_max.set(messages_max);
        self.bound();
    }
    /// Bytes that the process has to give, whatever bound is set; 0 takes this away. Bytes that are held already stay held.
    pub fn set_ceiling(&self, bytes: u64) {
        self.ceiling.set(bytes);
        self.bound();
    }
    fn bound(&self) {
        self.bytes_max.set(match (self.bytes_set.get(), self.ceiling.get()) {
            (set, 0) => set,
            (0, ceiling) => ceiling,
            (set, ceiling) => set.min(ceiling),
        });
        self.wake_heads();
    }
    pub fn stats(&self) -> BudgetStats {
        BudgetStats {
            bytes: self.held.iter().map(Cell::get).sum(),
            bytes_max: self.bytes_max.get(),
            messages: self.messages.get(),
            messages_max: self.messages_max.get(),
            answers: self.answers.get(),
            taken: self.taken.get(),
            waits: self.waits.get(),
            waiting: self.waiting.get() as u64,
            aside: self.pool.held(),
        }
    }

    /// A connection's account of this budget.
    pub fn account(self: &Rc<Self>) -> Rc<Account> {
        Account::new(&self.pool)
    }
    /// True if so much of that connection waits for something long that its next request is not taken: the account's waker is woken when less does.
    pub fn is_full(&self, account: &Account) -> bool {
        account.is_full(self.aside_max())
    }
    /// Memory for a message of `len` bytes, all of it, or a place in the queue: `waker` is woken when it is worth asking again with the same
    /// `turn`.
    pub fn reserve(self: &Rc<Self>, len: u64, account: &Rc<Account>, turn: &mut Turn, waker: &Waker) -> Result<Permit, Waits> {
        let lane = lane(len);
        if !self.may_pass(lane, turn, self.fits(lane, len)) {
            return Err(self.wait(lane, turn, waker));
        }
        self.pass(turn);
        let (budget, account, state) = (self.clone(), account.clone(), State::Whole);
        let permit = Permit { budget, account, bytes: len, lane: lane as u8, state, is_request: false, answer: 0 };
        permit.take_all();
        Ok(permit)
    }
    fn fits(&self, lane: usize, len: u64) -> bool {
        let max = self.bytes_max.get();
        let used = self.held[lane].get();
        if max == 0 || used == 0 {
            return true;
        }
        let with = |i: usize| self.held[i].get() + if i == lane { len } else { 0 };
        (0..LANES).map(|i| with(i).max(max / SHARES[i])).sum::<u64>() <= max
    }
    fn answers_max(&self) -> u64 {
        match self.bytes_max.get() {
            0 => u64::MAX,
            max => max / 2,
        }
    }
    /// Bytes of requests that wait for something long.
    fn aside_max(&self) -> u64 {
        self.answers_max()
    }
    /// True while answers use most of what they may: then it is worth knowing how long a request's answer will be.
    pub fn is_tight(&self) -> bool {
        self.answers.get() >= self.answers_max() / 4 * 3
    }
    /// True while answers use all that they may: a connection whose peer takes nothing gives way.
    pub fn is_clogged(&self) -> bool {
        self.answers.get() >= self.answers_max()
    }
    /// True while a message waits for memory: one that is here in part and gets no further gives way.
    pub fn is_wanted(&self) -> bool {
        self.waiting.get() > 0 && self.queues.borrow()[..LANES].iter().any(|q| !q.is_empty())
    }
    /// Bytes that one connection may have queued before nothing more is taken from it: a part of what is free, so that however many take no
    /// answers, some room is left.
    pub fn allowance(&self) -> u64 {
        (self.answers_max().saturating_sub(self.answers.get()) / 2).max(ALLOWANCE_MIN)
    }
    /// A connection's queue has `now` bytes; it had `before` when this was called last.
    pub fn queued(&self, before: u64, now: u64) {
        self.answers.set(self.answers.get() - before + now);
        if now < before {
            self.wake_heads();
        }
    }

    /// `turn` is the first of its queue, or nothing waits there; and what it wants is there.
    fn may_pass(&self, queue: usize, turn: &Turn, fits: bool) -> bool {
        if !fits {
            return false;
        }
        match &turn.0 {
            _ if self.waiting.get() == 0 => true,
            Some(place) if place.queue == queue => self.queues.borrow()[queue].front().is_none_or(|w| w.id == place.id),
            _ => self.queues.borrow()[queue].is_empty(),
        }
    }
    fn pass(&self, turn: &mut Turn) {
        self.taken.set(self.taken.get() + 1);
        // A place that is given up wakes the next of its queue.
        turn.0 = None;
    }
    fn wait(self: &Rc<Self>, queue: usize, turn: &mut Turn, waker: &Waker) -> Waits {
        self.pool.give_way();
        if let Some(place) = &turn.0
            && place.queue == queue
        {
            let mut queues = self.queues.borrow_mut();
            if let Some(waiter) = queues[queue].iter_mut().find(|w| w.id == place.id)
                && !waiter.waker.will_wake(waker)
            {
                waiter.waker = waker.clone();
            }
            return Waits(());
        }
        turn.0 = None;
        let id = self.ids.get();
        self.ids.set(id + 1);
        self.waits.set(self.waits.get() + 1);
        self.waiting.set(self.waiting.get() + 1);
        self.queues.borrow_mut()[queue].push_back(Waiter { id, waker: waker.clone() });
        turn.0 = Some(Place { budget: self.clone(), queue, id });
        Waits(())
    }
    fn wake_heads(&self) {
        if self.waiting.get() > 0 {
            for queue in self.queues.borrow().iter() {
                if let Some(waiter) = queue.front() {
                    waiter.waker.wake_by_ref();
                }
            }
        }
    }
}

#[derive(Debug)]
struct Place {
    budget: Rc<Budget>,
    queue: usize,
    id: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queues = self.budget.queues.borrow_mut();
        let queue = &mut queues[self.queue];
        let before = queue.len();
        queue.retain(|w| w.id != self.id);
        self.budget.waiting.set(self.budget.waiting.get() - (before - queue.len()));
        drop(queues);
        self.budget.wake_heads();
    }
}

/// A place in a queue of a budget, if its owner has to wait.
#[derive(Debug, Default)]
pub struct Turn(Option<Place>);

/// Where what a message holds is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Here.
    Whole,
    /// In the pool of what waits.
    Aside,
    /// It waits, and the pool has no room: its bytes and its slot are counted here, its answer is not.
    Stuck,
}

/// What one message holds of a budget; given back on drop.
#[derive(Debug)]
pub struct Permit {
    budget: Rc<Budget>,
    account: Rc<Account>,
    bytes: u64,
    lane: u8,
    state: State,
    is_request: bool,
    /// Bytes that its answer is expected to have.
    answer: u64,
}

impl Permit {
    /// Makes it a request under way, if there is a slot for one. `is_heavy`: its answer is known to be long, and waits until others have left.
    pub fn admit(&mut self, is_heavy: bool, turn: &mut Turn, waker: &Waker) -> Result<(), Waits> {
        assert!(!self.is_request, "a request takes one slot");
        let budget = &self.budget;
        let (messages, max) = (budget.messages.get(), budget.messages_max.get());
        let answers_max = budget.answers_max();
        let answers_fit = if is_heavy { budget.answers.get() < answers_max } else { budget.answers.get() / 2 <= answers_max };
        let queue = if is_heavy { HEAVY } else { SLOTS };
        if !budget.may_pass(queue, turn, (max == 0 || messages < max) && answers_fit) {
            return Err(budget.wait(queue, turn, waker));
        }
        budget.messages.set(messages + 1);
        self.is_request = true;
        turn.0 = None;
        Ok(())
    }
    /// Its answer will have about so many bytes: they count until the permit is dropped, but while the request is set aside.
    pub fn expect_answer(&mut self, bytes: u64) {
        self.answer += bytes;
        if self.state == State::Whole {
            self.budget.answers.set(self.budget.answers.get() + bytes);
        }
    }
    /// Bytes of the message.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    /// The request waits for something that may take long: it keeps nothing from others.
    pub fn set_aside(&mut self) {
        if self.state != State::Whole {
            return;
        }
        let budget = &self.budget;
        let is_pooled = self.account.put(&budget.pool, aside::weight(self.bytes), budget.aside_max());
        if is_pooled {
            self.give_all();
            self.state = State::Aside;
        } else {
            budget.answers.set(budget.answers.get() - self.answer);
            self.state = State::Stuck;
            if budget.waiting.get() > 0 {
                budget.pool.give_way();
            }
        }
        budget.wake_heads();
    }
    /// It waits no longer, and holds again what it held. That is there in any case: what waits is bounded by itself.
    pub fn go_on(&mut self) {
        let budget = &self.budget;
        match self.state {
            State::Whole => return,
            State::Aside => self.take_all(),
            State::Stuck => budget.answers.set(budget.answers.get() + self.answer),
        }
        self.account.take(&budget.pool, aside::weight(self.bytes), self.state == State::Aside);
        self.state = State::Whole;
    }
    fn take_all(&self) {
        let budget = &self.budget;
        let held = &budget.held[self.lane as usize];
        held.set(held.get() + self.bytes);
        budget.messages.set(budget.messages.get() + u64::from(self.is_request));
        budget.answers.set(budget.answers.get() + self.answer);
    }
    fn give_all(&self) {
        let budget = &self.budget;
        let held = &budget.held[self.lane as usize];
        held.set(held.get().checked_sub(self.bytes).expect("a permit gives back what it took"));
        budget.messages.set(budget.messages.get() - u64::from(self.is_request));
        budget.answers.set(budget.answers.get() - self.answer);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.go_on();
        self.give_all();
        self.budget.wake_heads();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicU64);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    const MIB: u64 = 1 << 20;

    #[test]
    fn partial_messages_hold_all_or_nothing_and_go_in_order() {
        let budget = Budget::new(64 * MIB, 0);
        let account = budget.account();
        let woken = [0; 3].map(|_| Arc::new(Count::default()));
        let wakers: Vec<Waker> = woken.iter().map(|w| w.clone().into()).collect();
        let mut turns: Vec<Turn> = (0..3).map(|_| Turn::default()).collect();
        // One that is longer than the whole gets in alone; the others wait, and small ones don't.
        let first = budget.reserve(80 * MIB, &account, &mut turns[0], &wakers[0]).expect("alone");
        assert!(budget.reserve(80 * MIB, &account, &mut turns[1], &wakers[1]).is_err());
        assert!(budget.reserve(5 * MIB, &account, &mut turns[2], &wakers[2]).is_err(), "behind the other, though shorter");
        assert!(budget.is_wanted());
        let small = budget.reserve(SMALL_MAX, &account, &mut Turn::default(), &wakers[0]).expect("its lane is free");
        let medium = budget.reserve(4 * MIB, &account, &mut Turn::default(), &wakers[0]).expect("its lane is free");
        drop(first);
        assert_eq!(woken.each_ref().map(|w| w.0.load(Ordering::Relaxed)), [0, 1, 0], "the head is woken");
        assert!(budget.reserve(5 * MIB, &account, &mut turns[2], &wakers[2]).is_err(), "not its turn");
        let second = budget.reserve(80 * MIB, &account, &mut turns[1], &wakers[1]).expect("its turn");
        assert!(woken[2].0.load(Ordering::Relaxed) > 0, "the next is woken");
        // One that leaves the queue lets the next pass.
        drop(second);
        let third = budget.reserve(5 * MIB, &account, &mut turns[2], &wakers[2]).expect("its turn");
        drop((small, medium, third));
        assert_eq!(BudgetStats { taken: 0, waits: 0, ..budget.stats() }, BudgetStats { bytes_max: 64 * MIB, ..Default::default() });
    }

    #[test]
    fn requests_have_slots_and_answers_count() {
        let budget = Budget::new(8 * MIB, 2);
        let account = budget.account();
        let waker = Waker::noop();
        let request = |heavy: bool, turn: &mut Turn| {
            let mut permit = budget.reserve(100, &account, &mut Turn::default(), waker).expect("there is memory");
            permit.admit(heavy, turn, waker).map(|()| permit)
        };
        let one = request(false, &mut Turn::default()).expect("a slot");
        let two = request(false, &mut Turn::default()).expect("a slot");
        let mut turn = Turn::default();
        assert!(request(false, &mut turn).is_err(), "no third slot");
        drop(one);
        assert!(request(false, &mut Turn::default()).is_err(), "one waits already");
        let mut three = request(false, &mut turn).expect("its turn");
        drop(two);
        three.expect_answer(5 * MIB);
        assert!(budget.is_clogged());
        assert!(request(true, &mut Turn::default()).is_err(), "long answers wait for others to leave");
        drop(request(false, &mut Turn::default()).expect("short ones don't"));
        budget.queued(0, 6 * MIB);
        assert!(request(false, &mut Turn::default()).is_err(), "there is an end to that, too");
        budget.queued(6 * MIB, 0);
        budget.set_limits(0, 0);
        three.expect_answer(1 << 40);
        let all: Vec<Permit> = (0..100).map(|_| request(true, &mut Turn::default()).expect("no bound")).collect();
        drop((all, three));
        assert_eq!((budget.stats().bytes, budget.stats().messages, budget.stats().answers), (0, 0, 0));
    }

    #[test]
    fn a_ceiling_counts_beside_the_option() {
        let budget = Budget::new(64 * MIB, 0);
        let max = |budget: &Budget| budget.stats().bytes_max;
        budget.set_ceiling(16 * MIB);
        assert_eq!(max(&budget), 16 * MIB);
        budget.set_limits(8 * MIB, 0);
        assert_eq!(max(&budget), 8 * MIB, "the option is smaller");
        budget.set_limits(0, 0);
        assert_eq!(max(&budget), 16 * MIB, "no option bounds it");
        budget.set_limits(64 * MIB, 0);
        let (account, woken) = (budget.account(), Arc::new(Count::default()));
        let waker: Waker = woken.clone().into();
        let held = budget.reserve(16 * MIB, &account, &mut Turn::default(), &waker).expect("alone");
        let mut turn = Turn::default();
        assert!(budget.reserve(16 * MIB, &account, &mut turn, &waker).is_err());
        budget.set_ceiling(0);
        assert_eq!((max(&budget), woken.0.load(Ordering::Relaxed)), (64 * MIB, 1), "it waits no longer");
        budget.reserve(16 * MIB, &account, &mut turn, &waker).expect("there is room");
        drop(held);
    }

    /// Whatever comes and goes: the bound holds but for one message a lane, nothing waits for ever, all is given back.
    #[test]
    fn nothing_starves_under_any_order() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let max = 16 * MIB;
            let budget = Budget::new(max, 8);
            let account = budget.account();
            let mut held: Vec<Permit> = Vec::new();
            let mut waiting: Vec<(u64, Turn, u32)> = Vec::new();
            for step in 0..400 {
                if step < 300 && rng.below(2) == 0 {
                    let len = [1000, 60_000, MIB, 4 * MIB, 12 * MIB, 80 * MIB][rng.below(6) as usize];
                    waiting.push((len, Turn::default(), 0));
                } else if !held.is_empty() {
                    let gone = rng.below(held.len() as u64) as usize;
                    held.swap_remove(gone);
                }
                for (len, mut turn, age) in std::mem::take(&mut waiting) {
                    match budget.reserve(len, &account, &mut turn, Waker::noop()) {
                        Ok(permit) => held.push(permit),
                        Err(_) => waiting.push((len, turn, age + 1)),
                    }
                }
                let bounded: u64 = budget.held.iter().map(Cell::get).filter(|h| *h <= max).sum();
                assert!(bounded <= max + 80 * MIB, "seed {seed}: {bounded}");
            }
            let mut rounds = 0;
            while !waiting.is_empty() {
                held.pop();
                for (len, mut turn, age) in std::mem::take(&mut waiting) {
                    match budget.reserve(len, &account, &mut turn, Waker::noop()) {
                        Ok(permit) => held.push(permit),
                        Err(_) => waiting.push((len, turn, age)),
                    }
                }
                rounds += 1;
                assert!(rounds < 2000, "seed {seed}: {} wait for ever", waiting.len());
            }
            held.clear();
            let end = budget.stats();
            assert_eq!((end.bytes, end.messages, end.waiting), (0, 0, 0));
        }
    }

    /// Requests of one connection that wait keep nothing from another's, and are bounded; the one with the most gives way when there is no other room.
    #[test]
    fn what_waits_for_long_keeps_nothing_from_others() {
        let budget = Budget::new(64 * MIB, 4);
        let woken = Arc::new(Count::default());
        let (greedy, modest, good) = (budget.account(), budget.account(), budget.account());
        greedy.arm(&woken.clone().into());
        let request = |account: &Rc<Account>, len: u64| {
            let mut permit = budget.reserve(len, account, &mut Turn::default(), Waker::noop()).expect("there is memory");
            permit.admit(false, &mut Turn::default(), Waker::noop()).expect("a slot");
            permit.expect_answer(4 * MIB);
            permit
        };
        let mut waiting = Vec::new();
        for n in 0..8 {
            assert_eq!(budget.is_full(&greedy), n > 2, "a quarter of the pool, and the one that filled it");
            waiting.push(request(&greedy, 4 * MIB - 4096));
            waiting.last_mut().unwrap().set_aside();
            let now = budget.stats();
            assert_eq!((now.bytes, now.messages, now.answers, now.aside), (0, 0, 0, (n + 1) * 4 * MIB));
        }
        assert!(!budget.is_full(&modest));
        // The pool is full: from here on they hold their slots, but no answers; and nobody is in need of these.
        for _ in 0..4 {
            waiting.push(request(&modest, 100));
            waiting.last_mut().unwrap().set_aside();
        }
        let now = budget.stats();
        assert_eq!((now.bytes, now.messages, now.answers), (400, 4, 0));
        assert!(!greedy.is_ended() && !modest.is_ended());
        // Now one is: the greediest goes, and no other before it has gone.
        let mut turn = Turn::default();
        let mut wanted = budget.reserve(100, &good, &mut Turn::default(), Waker::noop()).expect("there is memory");
        assert!(wanted.admit(false, &mut turn, Waker::noop()).is_err());
        assert!(greedy.is_ended() && woken.0.load(Ordering::Relaxed) > 0 && !modest.is_ended());
        waiting.truncate(10);
        wanted.admit(false, &mut turn, Waker::noop()).expect("there is a slot");
        waiting.drain(..8).for_each(drop);
        // Others go on where they were.
        waiting.iter_mut().for_each(Permit::go_on);
        assert_eq!((budget.stats().messages, budget.stats().answers), (3, 8 * MIB));
        drop((waiting, wanted));
        let end = budget.stats();
        assert_eq!((end.bytes, end.messages, end.answers, end.aside, end.waiting), (0, 0, 0, 0, 0));
    }
}
