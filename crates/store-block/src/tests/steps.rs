//! Cost does not grow, at the store as a whole: what a start has to replay, and pages of listings. Structures have such tests beside them.

use crate::open::layout::META;
use crate::{BlockStore, Config};
use base::Rng;
use disk::{MemDisks, Order, Slow};
use store::conformance::{object_coll, object_name};
use store::{ListPage, ObjectStore, StoreError};
use types::{CEPH_NOSNAP, GHObject, HObject, Transaction};

const REPLAY_MS: u64 = 12;
/// A record counts when it is sent: so much, in nanoseconds, may be in one.
const RECORD_NS: u64 = 2_000_000;

fn disks(wal: u64) -> MemDisks {
    let disks = MemDisks::new(&[64 << 20, wal, 16 << 20]);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    disks
}
fn open(disks: &MemDisks, order: Order, replay_ms: u64) -> BlockStore {
    disks.restart();
    disks.set_order(order, 1);
    let config = Config { memory: 64 << 20, replay_ms, ..Config::default() };
    BlockStore::open(config, Box::new(disks.clone())).expect("it opens")
}
fn make_coll(store: &mut BlockStore) {
    let mut txn = Transaction::new(object_coll(0));
    txn.create_collection(object_coll(0), 0);
    store.submit(txn, None, 1).expect("it fits");
}
/// A change of one of a few objects: rows don't grow, the log does.
fn change(store: &mut BlockStore, n: u64) {
    let mut txn = Transaction::new(object_coll(0));
    txn.touch(&object_name(2 * (n % 8)));
    txn.set_attr(&object_name(2 * (n % 8)), "a", n.to_le_bytes().to_vec().into());
    store.submit(txn, None, n + 2).expect("it fits");
}

/// A page of the objects from `at` on, and the steps that it took once all of it was in memory.
fn page(store: &mut BlockStore, at: &GHObject) -> (ListPage, u64) {
    loop {
        store.with_core(|core| core.table.take_steps());
        match store.list(object_coll(0), at, &GHObject::max(), 50) {
            Ok(page) => return (page, store.with_core(|core| core.table.take_steps())),
            Err(StoreError::Wait(_)) => store.turn_end(),
            Err(e) => panic!("{e}"),
        }
    }
}

/// Records that the next start would replay at any moment, and how long by estimate, at most: of processes that are killed now and then.
fn most_to_replay(wal: u64, replay_ms: u64) -> (u64, u64) {
    let disks = disks(wal);
    let mut store = open(&disks, Order::AtOnce, replay_ms);
    let to_replay = |store: &BlockStore| store.with_core(|core| (core.log.seq() - core.sb.wal_seq, core.replay.all()));
    make_coll(&mut store);
    let mut most = (0, 0);
    for n in 0..6000 {
        change(&mut store, n);
        store.turn_end();
        let (records, ns) = to_replay(&store);
        most = (most.0.max(records), most.1.max(ns));
        if n % 750 == 749 {
            drop(store);
            store = open(&disks, Order::AtOnce, replay_ms);
            assert_eq!(to_replay(&store).0, records, "a start replays what was estimated");
        }
    }
    most
}

#[test]
fn what_a_start_replays_does_not_grow_with_the_log() {
    let (few, many) = (most_to_replay(20 << 20, REPLAY_MS), most_to_replay(200 << 20, REPLAY_MS));
    assert!(few.0 > 100 && many.0 <= few.0 + few.0 / 10, "{few:?} to replay, {many:?} in a log of ten times the size");
    assert!(few.1.max(many.1) <= REPLAY_MS * 1_000_000 + RECORD_NS, "{few:?} to replay, {many:?} in a log of ten times the size");
    let unbounded = most_to_replay(200 << 20, u64::MAX);
    assert!(unbounded.0 > 3 * many.0, "without a bound the log is what it is: {unbounded:?}");
}

/// A checkpoint that gets on slowly: what comes meanwhile waits, before a start would have more to do than it may.
#[test]
fn a_slow_checkpoint_leaves_no_more_to_the_next_start() {
    let disks = disks(80 << 20);
    let mut store = open(&disks, Order::Held, REPLAY_MS);
    make_coll(&mut store);
    let (mut rng, mut most, mut was_crowded) = (Rng::new(3), 0, false);
    for n in 0..6000 {
        change(&mut store, n);
        store.turn_end();
        for _ in 0..3 {
            disks.complete_any_but(Slow::Device(META), 600, &mut rng);
        }
        store.with_core(|core| {
            most = most.max(core.replay.all());
            was_crowded |= core.is_crowded();
        });
    }
    assert!(was_crowded && most <= REPLAY_MS * 1_000_000 + RECORD_NS, "{most} ns to replay");
    // All of it comes to its end.
    for _ in 0..200_000 {
        if store.stats().idle && !store.is_checkpointing() {
            return;
        }
        store.turn_end();
        disks.complete_any(&mut rng);
    }
    panic!("it does not settle: {}", store.stand());
}

/// Each page of a listing takes as many steps in a collection of ten times the objects, though half of their rows are not in leaves.
#[test]
fn a_page_of_a_long_listing_costs_what_one_of_a_short_one_does() {
    let steps = |objects: u64| {
        let disks = disks(16 << 20);
        let mut store = open(&disks, Order::AtOnce, REPLAY_MS);
        make_coll(&mut store);
        let mut token = 2;
        for step in [1, 2] {
            for n in (0..objects).step_by(step) {
                let mut txn = Transaction::new(object_coll(0));
                txn.touch(&object_name(2 * n));
                txn.set_attr(&object_name(2 * n), "a", vec![step as u8; 50].into());
                token += 1;
                store.submit(txn, None, token).expect("it fits");
                if n % 8 == 0 {
                    store.turn_end();
                }
            }
            if step == 1 {
                store.checkpoint();
            }
            while store.is_checkpointing() || !store.stats().idle {
                store.turn_end();
            }
        }
        let (mut at, mut most, mut seen) = (GHObject::min(), 0, 0);
        loop {
            let (page, steps) = page(&mut store, &at);
            most = most.max(steps);
            seen += page.objects.len() as u64;
            match page.next {
                Some(next) => at = next,
                None => break,
            }
        }
        assert_eq!(seen, objects);
        most
    };
    let (few, many) = (steps(300), steps(3000));
    assert!(many <= few + few / 4 && many < 200, "{few} steps for a page, {many} of ten times as many objects");
}

/// A collection whose objects are removed page by page, from where the last page ended: what is removed already is not stepped over.
#[test]
fn a_page_of_a_removal_costs_what_the_first_did() {
    let steps = |objects: u64| {
        let disks = disks(16 << 20);
        let mut store = open(&disks, Order::AtOnce, u64::MAX);
        make_coll(&mut store);
        for n in 0..objects {
            let mut txn = Transaction::new(object_coll(0));
            txn.touch(&object_name(2 * n));
            store.submit(txn, None, n + 2).expect("it fits");
            if n % 8 == 0 {
                store.turn_end();
            }
        }
        let (mut at, mut most, mut removed) = (GHObject::min(), 0, 0);
        loop {
            let (page, steps) = page(&mut store, &at);
            most = most.max(steps);
            let mut txn = Transaction::new(object_coll(0));
            page.objects.iter().for_each(|object| txn.remove(object));
            removed += page.objects.len() as u64;
            store.submit(txn, None, objects + removed + 2).expect("it fits");
            match page.next {
                Some(next) => at = next,
                None => break,
            }
        }
        assert_eq!(removed, objects);
        let (page, _) = page(&mut store, &GHObject::min());
        assert!(page.objects.is_empty() && page.next.is_none());
        most
    };
    let (few, many) = (steps(300), steps(3000));
    assert!(many <= few + few / 4 && many < 200, "{few} steps for a page, {many} of ten times as many objects");
}

/// The index has a few bytes for each leaf, whatever objects are called.
#[test]
fn long_names_make_no_long_index() {
    let bytes_a_leaf = |name: usize| {
        let disks = disks(16 << 20);
        let mut store = open(&disks, Order::AtOnce, u64::MAX);
        make_coll(&mut store);
        for n in 0..3000 {
            let hash = (n as u32).wrapping_mul(0x9e37_79b9);
            let oid = format!("{n:0name$}").into();
            let name = GHObject::plain(HObject { oid, pool: 1, hash, snap: CEPH_NOSNAP, ..HObject::min() });
            let mut txn = Transaction::new(object_coll(0));
            txn.touch(&name);
            txn.set_attr(&name, "_", vec![7; 300].into());
            store.submit(txn, None, n + 2).expect("it fits");
            if n % 8 == 0 {
                store.turn_end();
            }
        }
        store.checkpoint();
        while store.is_checkpointing() || !store.stats().idle {
            store.turn_end();
        }
        let report = store.fsck(false);
        assert!(report.is_clean(), "{:?}", report.errors);
        store.with_core(|core| core.table.index().stored() / core.table.index().len())
    };
    let (short, long) = (bytes_a_leaf(10), bytes_a_leaf(200));
    assert!(short < 64 && long < 64, "{short} bytes for a leaf, {long} with long names");
}
