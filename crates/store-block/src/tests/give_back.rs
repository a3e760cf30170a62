//! Room that goes back to the device: which chunks, when, and that none of them is missed.

use crate::open::layout::{CHUNK, DATA};
use crate::{BlockStore, Config};
use disk::{Dev, Fault, FaultKind, MemDisks, Order};
use std::time::Duration;
use store::conformance::{object_coll, object_name};
use store::{ObjectStore, StoreError, StoreHints};
use types::Transaction;

const LENS: [u64; 3] = [32 << 20, 8 << 20, 4 << 20];
/// Each has a chunk.
const OBJECTS: u64 = 100;

struct Subject {
    disks: MemDisks,
    store: BlockStore,
    token: u64,
    now: Duration,
}

impl Subject {
    fn new(data_has_holes: bool) -> Self {
        let disks = MemDisks::new(&LENS);
        BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
        let config = Config { data_has_holes, ..Config::default() };
        let store = BlockStore::open(config, Box::new(disks.clone())).expect("it opens");
        let mut subject = Self { disks, store, token: 0, now: Duration::ZERO };
        subject.store.gives_back(true);
        subject.change(|txn| {
            txn.create_collection(object_coll(0), 0);
            (0..OBJECTS).for_each(|n| txn.write(&object_name(n), 0, vec![n as u8; CHUNK as usize].into(), 0));
        });
        subject
    }
    fn change(&mut self, fill: impl FnOnce(&mut Transaction)) {
        let mut txn = Transaction::new(object_coll(0));
        fill(&mut txn);
        self.token += 1;
        self.store.submit(txn, None, self.token).expect("there is room");
        self.settle();
    }
    fn settle(&mut self) {
        while !self.store.stats().idle || self.store.is_checkpointing() {
            self.store.turn_end();
            assert_eq!(self.store.failure(), None);
        }
    }
    fn remove(&mut self, objects: impl Iterator<Item = u64>) {
        self.change(|txn| objects.for_each(|n| txn.remove(&object_name(n))));
    }
    fn checkpoint(&mut self) {
        self.store.checkpoint();
        self.settle();
    }
    /// Time passes, without anything that is asked of the devices for the first while.
    fn pass(&mut self) {
        for _ in 0..200 {
            self.now += Duration::from_millis(100);
            self.store.give_back(self.now);
            self.store.turn_end();
            // It takes no time.
            self.store.give_back(self.now);
        }
    }
    fn chunks_gone(&self) -> u64 {
        assert_eq!(self.store.given_back(), self.disks.traffic(DATA).discarded_bytes);
        self.store.given_back() / CHUNK
    }
    fn first_byte(&mut self, n: u64) -> Option<u8> {
        loop {
            match self.store.read(object_coll(0), &object_name(n), 0, CHUNK) {
                Err(StoreError::Wait(_)) => self.store.turn_end(),
                Err(StoreError::NoObject(_)) => return None,
                other => return Some(other.expect("it is whole").pieces().next().expect("bytes")[0]),
            }
        }
    }
    fn assert_whole(&mut self, objects: impl Iterator<Item = u64>) {
        objects.for_each(|n| assert_eq!(self.first_byte(n), Some(n as u8), "object {n}"));
        let report = self.store.fsck(true);
        assert!(report.is_clean(), "{:?}", report.errors);
    }
}

#[test]
fn removed_objects_go_back_once_a_checkpoint_has_it() {
    let mut s = Subject::new(false);
    s.checkpoint();
    s.remove(10..50);
    let free = s.store.statfs().available;
    (0..20).for_each(|_| s.store.give_back(Duration::from_millis(1)));
    assert_eq!(s.chunks_gone(), 0, "no checkpoint has it");
    s.checkpoint();
    s.pass();
    assert!((40..60).contains(&s.chunks_gone()), "{} chunks", s.chunks_gone());
    assert!(s.store.statfs().available >= free - (1 << 20));
    s.assert_whole((0..10).chain(50..OBJECTS));
    // Others have the room again.
    s.change(|txn| (10..50).for_each(|n| txn.write(&object_name(n), 0, vec![n as u8; CHUNK as usize].into(), 0)));
    s.pass();
    s.assert_whole(0..OBJECTS);
}

#[test]
fn a_store_at_rest_asks_for_the_checkpoint_itself() {
    let mut s = Subject::new(true);
    s.checkpoint();
    s.remove(0..OBJECTS);
    s.pass();
    s.settle();
    s.pass();
    assert!(s.chunks_gone() >= OBJECTS, "{} chunks", s.chunks_gone());
    let generation = s.store.stats().generation;
    (0..4).for_each(|_| s.pass());
    assert!(s.store.stats().generation <= generation + 1, "and for few of them");
}

#[test]
fn nothing_goes_unless_it_was_asked_for() {
    let mut s = Subject::new(false);
    s.store.gives_back(false);
    s.remove(0..OBJECTS);
    s.checkpoint();
    s.pass();
    assert_eq!((s.chunks_gone(), s.store.stats().wrote.discarded), (0, 0));
}

#[test]
fn chunks_that_are_under_way_are_no_others() {
    let mut s = Subject::new(false);
    s.remove(0..OBJECTS);
    s.checkpoint();
    let available = s.store.statfs().available;
    s.disks.set_order(Order::Held, 1);
    s.store.give_back(s.now);
    let withheld = s.store.with_core(|core| core.alloc.withheld().collect::<Vec<_>>());
    assert!(withheld.len() > 16, "{withheld:?}");
    assert_eq!(s.store.statfs().available, available, "they count as free");
    // Writes go elsewhere: the devices assert that no two are under way at one place.
    let mut txn = Transaction::new(object_coll(0));
    (0..200).for_each(|n| txn.write(&object_name(n), 0, vec![n as u8; CHUNK as usize].into(), 0));
    s.store.submit(txn, None, 99).expect("there is room");
    s.store.turn_end();
    s.disks.set_order(Order::AtOnce, 1);
    while s.disks.under_way() > 0 {
        s.disks.complete(1);
        s.store.turn_end();
    }
    s.settle();
    assert_eq!(s.store.with_core(|core| core.alloc.withheld().len()), 0);
    s.assert_whole(0..200);
}

#[test]
fn a_device_that_does_not_discard_is_not_asked_again() {
    let mut s = Subject::new(false);
    s.remove(0..50);
    s.checkpoint();
    s.disks.add_fault(Fault { nth: 0, kind: FaultKind::DiscardError, sticky: true, dev: Some(Dev(0)) });
    s.pass();
    assert_eq!((s.disks.faults_fired(), s.store.given_back(), s.store.failure()), (1, 0, None));
    s.remove(50..60);
    s.checkpoint();
    s.pass();
    assert_eq!(s.disks.faults_fired(), 1);
    s.assert_whole(60..OBJECTS);
    assert!(s.store.trim().is_err_and(|why| why.contains("discarding")));
}

#[test]
fn a_tool_gives_all_back() {
    let mut s = Subject::new(false);
    s.remove(0..90);
    drop(s.store);
    s.disks.restart();
    s.store = BlockStore::open(Config::default(), Box::new(s.disks.clone())).expect("it opens");
    let bytes = s.store.trim().expect("it can");
    let used = (OBJECTS - 90 + 1) * CHUNK;
    assert!(bytes <= LENS[0] - used && bytes + (4 << 20) > LENS[0] - used, "{bytes} bytes");
    assert_eq!(s.disks.traffic(DATA).discarded_bytes, bytes);
    s.assert_whole(90..OBJECTS);
    s.store = BlockStore::open(Config::default(), Box::new(s.disks.copy())).expect("it opens again");
    s.assert_whole(90..OBJECTS);
}
