//! What clones take: chunks that several objects share count once, whatever changes. A store of before that was counted is counted when it is opened.

use crate::{BlockStore, Config};
use disk::{MemDisks, Order};
use store::ObjectStore;
use store::conformance::{object_coll, object_name};
use types::{GHObject, Transaction};

const CELL: i64 = 64 << 10;
const CELLS: i64 = 16;

struct Subject {
    disks: MemDisks,
    store: BlockStore,
    token: u64,
}

impl Subject {
    fn new() -> Self {
        let disks = MemDisks::new(&[64 << 20, 8 << 20, 4 << 20]);
        BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
        let mut subject = Self { store: Self::open(&disks), disks, token: 0 };
        subject.submit(|txn| {
            txn.create_collection(object_coll(0), 0);
            txn.write(&object_name(0), 0, vec![1; (CELLS * CELL) as usize].into(), 0);
        });
        subject
    }
    fn open(disks: &MemDisks) -> BlockStore {
        disks.set_order(Order::AtOnce, 1);
        BlockStore::open(Config { memory: 8 << 20, ..Config::default() }, Box::new(disks.clone())).expect("it opens")
    }
    fn reopen(&mut self) {
        self.disks.restart();
        self.store = Self::open(&self.disks);
    }
    fn submit(&mut self, fill: impl FnOnce(&mut Transaction)) {
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
    /// The head as it is now, and 4 KiB of it written.
    fn snapshot(&mut self, n: u64) {
        self.submit(|txn| {
            txn.clone_object(&object_name(0), &clone(n));
            txn.write(&object_name(0), (n as i64 % CELLS * CELL) as u64, vec![n as u8; 4096].into(), 0);
        });
    }
    /// Bytes that the pool takes, and bytes of its objects, each whole.
    fn used(&mut self) -> (i64, i64) {
        let report = self.store.fsck(false);
        assert!(report.is_clean(), "{:?}", report.errors);
        let (pool, all) = (self.store.pool_statfs(1), self.store.statfs());
        assert_eq!(pool.allocated, all.allocated);
        // What is allocated is what objects have of the device, each block once.
        assert!(all.total - all.available >= all.allocated as u64, "{all:?}");
        (pool.allocated, pool.data_stored)
    }
}

fn clone(n: u64) -> GHObject {
    object_name(100 + n)
}

#[test]
fn what_clones_share_counts_once() {
    let mut s = Subject::new();
    assert_eq!(s.used(), (CELLS * CELL, CELLS * CELL));
    for n in 1..=10 {
        s.snapshot(n);
        // A block of the head is its own again; the clones have the old one.
        let n = n as i64;
        assert_eq!(s.used(), (CELLS * CELL + n * 4096, (1 + n) * CELLS * CELL));
    }
    let full = s.used();
    // By the log, and by a checkpoint.
    for _ in 0..2 {
        s.reopen();
        assert_eq!(s.used(), full);
        s.store.checkpoint();
        s.settle();
    }
    // The first clone has nothing for itself: the head has the rest of the cells that were written.
    s.submit(|txn| txn.remove(&clone(1)));
    assert_eq!(s.used().0, full.0);
    s.submit(|txn| txn.remove(&object_name(0)));
    let left = s.used().0;
    assert!(left < full.0 && left >= CELLS * CELL, "{left} of {full:?}");
    (2..=10).for_each(|n| s.submit(|txn| txn.remove(&clone(n))));
    assert_eq!(s.used(), (0, 0));
    s.reopen();
    assert_eq!(s.used(), (0, 0));
}

#[test]
fn a_store_that_was_not_counted_is_counted_once() {
    let mut s = Subject::new();
    (1..=10).for_each(|n| s.snapshot(n));
    let full = s.used();
    // Versions before wrote rows that don't say what is shared, and read those that do.
    s.store.write_old_counters();
    s.store.checkpoint();
    s.settle();
    // More of it is in the log only.
    s.snapshot(11);
    let more = (full.0 + 4096, full.1 + CELLS * CELL);
    assert_eq!(s.used(), more);
    s.reopen();
    assert_eq!(s.used(), more, "the log goes on from what was counted");
    s.settle();
    s.reopen();
    assert_eq!(s.used(), more);
    s.submit(|txn| txn.remove(&object_name(0)));
    (1..=11).for_each(|n| s.submit(|txn| txn.remove(&clone(n))));
    assert_eq!(s.used(), (0, 0));
}
