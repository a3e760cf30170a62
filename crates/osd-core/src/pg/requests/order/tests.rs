//! The order of one object under random schedules, beside a plain list of what came.

use super::*;
use base::Rng;
use std::collections::BTreeSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Op {
    id: u64,
    access: Access,
}

impl Ordered for Op {
    fn access(&self) -> Access {
        self.access
    }
}

/// A write of the group's own, which asks no order.
const OWN: u64 = 0;

/// One object, and all that its requests wait for. Numbers of requests grow as they come.
struct Object {
    rng: Rng,
    order: ObjectOrder<Op>,
    came: u64,
    /// The model: writes in the order in which they came, without those that failed. A read sees the last one that came before it.
    list: BTreeSet<u64>,
    /// The last write that took effect, and writes that are not durable.
    value: u64,
    in_flight: VecDeque<u64>,
    reading: Vec<Op>,
    held: Option<Hold>,
    /// Went past the order, and wait for the store with no place in it.
    past: Vec<Op>,
    answered: u64,
    most_waiting: usize,
}

impl Object {
    fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            order: ObjectOrder::default(),
            came: 0,
            list: BTreeSet::new(),
            value: 0,
            in_flight: VecDeque::new(),
            reading: Vec::new(),
            held: None,
            past: Vec::new(),
            answered: 0,
            most_waiting: 0,
        }
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.rng.below(n) == 0
    }

    fn comes(&mut self) {
        let access = match self.rng.below(20) {
            0..9 => Access::Read,
            9..17 => Access::Write,
            17 | 18 => Access::CopyRead,
            _ => Access::Unordered,
        };
        self.came += 1;
        let op = Op { id: self.came, access };
        if access == Access::Write {
            self.list.insert(op.id);
        }
        self.enter(op);
    }
    fn enter(&mut self, op: Op) {
        if let Entry::Go(op, turn) = self.order.enter(op) {
            self.plan(op, turn);
        }
        self.let_go();
    }
    fn let_go(&mut self) {
        while let Some((op, turn)) = self.order.next() {
            self.plan(op, turn);
        }
        self.check();
    }
    fn hold(&mut self, hold: Hold, op: Op) {
        if self.order.hold(hold, op) {
            assert_eq!(self.held.replace(hold), None);
        }
    }

    /// What the group does with a request that goes on; what comes of it is a matter of chance.
    fn plan(&mut self, op: Op, turn: Turn) {
        if turn == Turn::Past {
            assert!(matches!(op.access, Access::CopyRead | Access::Unordered), "{op:?} passes others");
            return if self.one_in(3) { self.past.push(op) } else { self.pass(op) };
        }
        if self.one_in(8) {
            return self.hold(Hold::Loading, op);
        }
        if op.access != Access::CopyRead && self.one_in(8) {
            return self.hold(Hold::Fetching, op);
        }
        match (op.access, self.one_in(2)) {
            (Access::Write, true) => self.hold(Hold::Stalled, op),
            (Access::Write, false) => self.submit(op.id),
            (_, true) => {
                self.order.read_waits();
                self.reading.push(op);
            }
            (_, false) => self.answer(op),
        }
    }
    fn pass(&mut self, op: Op) {
        match op.access {
            Access::CopyRead => self.answer(op),
            // Half of them write, which no model orders.
            _ if self.one_in(2) => {
                self.order.submitted();
                self.in_flight.push_back(OWN);
                self.answered += 1;
            }
            _ => self.answered += 1,
        }
    }
    fn submit(&mut self, id: u64) {
        assert!(id > self.value, "writes take effect as they came: {id} behind {}", self.value);
        self.value = id;
        self.order.submitted();
        self.in_flight.push_back(id);
    }
    fn answer(&mut self, op: Op) {
        assert!(self.in_flight.is_empty(), "{op:?} sees {:?}, which may be rolled back", self.in_flight);
        if op.access == Access::Read {
            let sees = self.list.range(..op.id).next_back().copied().unwrap_or(0);
            assert_eq!(self.value, sees, "{op:?} sees what came before it, and nothing else");
        }
        self.answered += 1;
    }

    /// One thing that requests wait for happens, if there is any.
    fn happens(&mut self) -> bool {
        let kinds = [!self.in_flight.is_empty(), !self.reading.is_empty(), self.held.is_some(), !self.past.is_empty()];
        let possible: Vec<usize> = (0..4).filter(|kind| kinds[*kind]).collect();
        if possible.is_empty() {
            return false;
        }
        match possible[self.rng.below(possible.len() as u64) as usize] {
            0 => {
                let id = self.in_flight.pop_front().unwrap();
                self.order.committed();
                self.answered += u64::from(id != OWN);
            }
            1 => {
                let at = self.rng.below(self.reading.len() as u64) as usize;
                let op = self.reading.swap_remove(at);
                if let Some(op) = self.order.read_left(op) {
                    self.plan(op, Turn::InOrder);
                }
            }
            2 => match self.held.take().unwrap() {
                Hold::Loading | Hold::Stalled => self.order.store_ready(),
                Hold::Fetching if self.one_in(4) => {
                    let op = self.order.fetch_failed().unwrap();
                    self.list.remove(&op.id);
                    self.answered += 1;
                }
                Hold::Fetching => assert!(self.order.fetched().is_some()),
            },
            _ => {
                let op = self.past.pop().unwrap();
                self.enter(op);
            }
        }
        self.let_go();
        true
    }
    /// Each request that is not answered stands in one place.
    fn check(&mut self) {
        let waiting = self.order.waiters().count();
        let writes = self.in_flight.iter().filter(|id| **id != OWN).count();
        let live = waiting + self.reading.len() + self.past.len() + writes;
        assert_eq!(live as u64, self.came - self.answered, "a request is in one place");
        assert_eq!(self.held.is_some(), self.order.hold.is_some());
        assert_eq!(self.order.copy_reads as usize, self.order.waiters().filter(|op| op.access == Access::CopyRead).count());
        self.most_waiting = self.most_waiting.max(waiting);
    }
}

#[test]
fn random_schedules_agree_with_a_list() {
    let (mut most, mut held) = (0, [0; 3]);
    for seed in 0..3000 {
        let mut object = Object::new(seed);
        for _ in 0..60 {
            let live = object.came - object.answered;
            match object.rng.below(8) {
                // The budget lets no more in.
                0..4 if live < 16 => object.comes(),
                4 => {
                    object.order.submitted();
                    object.in_flight.push_back(OWN);
                }
                _ => drop(object.happens()),
            }
            if let Some(hold) = object.held {
                held[hold as usize] += 1;
            }
        }
        let mut left = 0;
        while object.happens() {
            left += 1;
            assert!(left < 10_000, "seed {seed}: something waits for ever");
        }
        assert_eq!(object.came, object.answered, "seed {seed}: a request is forgotten");
        assert!(object.order.is_free(), "seed {seed}");
        assert_eq!(object.value, object.list.last().copied().unwrap_or(0), "seed {seed}: each write takes effect");
        assert!(object.most_waiting <= 16);
        most = most.max(object.most_waiting);
    }
    assert!(most >= 10 && held.iter().all(|n| *n > 1000), "the schedules reach every state: {most} {held:?}");
}

fn op(id: u64, access: Access) -> Op {
    Op { id, access }
}
fn goes(order: &mut ObjectOrder<Op>, id: u64, access: Access) -> Option<Turn> {
    match order.enter(op(id, access)) {
        Entry::Go(_, turn) => Some(turn),
        Entry::Wait => None,
    }
}

#[test]
fn reads_wait_for_writes_in_flight_and_writes_for_reads_that_wait() {
    let mut order = ObjectOrder::default();
    assert_eq!(goes(&mut order, 1, Access::Write), Some(Turn::InOrder));
    order.submitted();
    assert_eq!(goes(&mut order, 2, Access::Write), Some(Turn::InOrder));
    order.submitted();
    assert_eq!(goes(&mut order, 3, Access::Read), None);
    assert_eq!(goes(&mut order, 4, Access::Write), None, "behind the read");
    assert_eq!(goes(&mut order, 5, Access::Unordered), Some(Turn::Past));
    order.committed();
    assert_eq!(order.next(), None);
    order.committed();
    assert_eq!(order.next(), Some((op(3, Access::Read), Turn::InOrder)));
    order.read_waits();
    assert_eq!(order.next(), None, "the write waits for the read");
    assert_eq!(order.read_left(op(3, Access::Read)), Some(op(3, Access::Read)));
    assert_eq!(order.next(), Some((op(4, Access::Write), Turn::InOrder)));
    assert!(order.is_free());
}

#[test]
fn a_copy_passes_what_fetches_and_nothing_else() {
    let mut order = ObjectOrder::default();
    assert_eq!(goes(&mut order, 1, Access::Write), Some(Turn::InOrder));
    order.submitted();
    assert_eq!(goes(&mut order, 2, Access::CopyRead), None);
    assert_eq!(goes(&mut order, 3, Access::Write), None);
    assert_eq!(goes(&mut order, 4, Access::CopyRead), None);
    assert!(order.hold(Hold::Fetching, op(0, Access::Write)));
    assert_eq!(order.next(), None, "the write in flight may be rolled back");
    order.committed();
    assert_eq!(order.next(), Some((op(2, Access::CopyRead), Turn::Past)));
    assert_eq!(order.next(), Some((op(4, Access::CopyRead), Turn::Past)));
    assert_eq!(order.next(), None);
    assert_eq!(goes(&mut order, 5, Access::CopyRead), Some(Turn::Past));
    assert_eq!(order.fetch_failed(), Some(op(0, Access::Write)));
    assert_eq!(order.next(), Some((op(3, Access::Write), Turn::InOrder)));
}

#[test]
fn a_read_that_a_write_passed_sees_it_when_it_is_durable() {
    let mut order = ObjectOrder::default();
    assert_eq!(goes(&mut order, 1, Access::Read), Some(Turn::InOrder));
    order.read_waits();
    order.submitted();
    assert_eq!(order.read_left(op(1, Access::Read)), None);
    assert_eq!(order.next(), None);
    order.committed();
    assert_eq!(order.next(), Some((op(1, Access::Read), Turn::InOrder)));
}

#[test]
fn an_object_has_one_holder() {
    let mut order = ObjectOrder::default();
    assert_eq!(goes(&mut order, 1, Access::Read), Some(Turn::InOrder));
    order.read_waits();
    assert_eq!(goes(&mut order, 2, Access::Read), Some(Turn::InOrder));
    assert!(order.hold(Hold::Fetching, op(2, Access::Read)));
    assert_eq!(goes(&mut order, 3, Access::Write), None);
    assert_eq!(order.read_left(op(1, Access::Read)), Some(op(1, Access::Read)));
    assert!(!order.hold(Hold::Fetching, op(1, Access::Read)), "it stands behind the holder");
    assert_eq!(order.fetched(), Some(&mut op(2, Access::Read)));
    assert_eq!(order.next(), Some((op(2, Access::Read), Turn::InOrder)));
    assert_eq!(order.next(), Some((op(1, Access::Read), Turn::InOrder)));
    assert_eq!(order.next(), Some((op(3, Access::Write), Turn::InOrder)));
}
