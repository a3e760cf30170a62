//! Transactions and omaps that are far larger than a record, a log or the memory: they come to their end, all of them or nothing, and no turn does much.

use crate::{BlockStore, Config};
use bytes::Bytes;
use disk::{CrashStates, MemDisks, Order, Tear};
use store::conformance::{object_coll, object_name};
use store::{ObjectStore, OmapQuery, StoreError, StoreResult};
use types::{ByteStr, GHObject, IntervalSet, Transaction};

/// The log is smaller than what is written in one transaction.
const LENS: [u64; 3] = [128 << 20, 4 << 20, 64 << 20];
const MEMORY: usize = 8 << 20;
/// Blocks that are written in one turn beside objects' data, and bytes that rows grow by, at most: steps of a transaction, and of a checkpoint.
const TURN_BLOCKS: u64 = 1024;
const TURN_BYTES: usize = 8 << 20;

struct Subject {
    disks: MemDisks,
    store: BlockStore,
    token: u64,
    done: u64,
    turns: u64,
    wrote: u64,
    recent: usize,
}

fn open(disks: &MemDisks) -> BlockStore {
    disks.restart();
    disks.set_order(Order::AtOnce, 1);
    BlockStore::open(Config { memory: MEMORY, ..Config::default() }, Box::new(disks.clone())).expect("it opens")
}
fn key(n: usize) -> ByteStr {
    format!("key {n:07}").as_str().into()
}
fn value(n: usize) -> Bytes {
    format!("a value of some length that belongs to key {n} and to no other").into_bytes().into()
}
fn rows(range: std::ops::Range<usize>) -> Vec<(ByteStr, Bytes)> {
    range.map(|n| (key(n), value(n))).collect()
}
fn name(n: u64) -> GHObject {
    object_name(2 * n)
}

impl Subject {
    fn new() -> Self {
        let disks = MemDisks::new(&LENS);
        BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
        let mut subject = Self { store: open(&disks), disks, token: 0, done: 0, turns: 0, wrote: 0, recent: 0 };
        subject.submit(|txn| txn.create_collection(object_coll(0), 0));
        subject.settle();
        subject
    }
    fn submit(&mut self, fill: impl FnOnce(&mut Transaction)) {
        let mut txn = Transaction::new(object_coll(0));
        fill(&mut txn);
        self.token += 1;
        self.store.submit(txn, None, self.token).expect("it is taken");
    }
    /// A turn, which does little.
    fn turn(&mut self) {
        self.store.turn_end();
        assert_eq!(self.store.failure(), None);
        let mut tokens = Vec::new();
        self.store.take_commits(&mut tokens);
        self.done = tokens.last().copied().unwrap_or(self.done);
        let stats = self.store.stats();
        let wrote = stats.wrote.log + stats.wrote.in_place + stats.wrote.meta;
        assert!(wrote - self.wrote <= TURN_BLOCKS, "{} blocks in one turn", wrote - self.wrote);
        let recent = stats.memory.recent;
        assert!(recent.saturating_sub(self.recent) <= TURN_BYTES, "{recent} bytes of rows after one turn, {} before", self.recent);
        (self.turns, self.wrote, self.recent) = (self.turns + 1, wrote, recent);
    }
    fn settle(&mut self) {
        while self.done < self.token {
            self.turn();
        }
    }
    /// All of it durable, checked, and read by another process.
    fn restart(&mut self) {
        self.settle();
        while !self.store.stats().idle || self.store.is_checkpointing() {
            self.turn();
        }
        let report = self.store.fsck(false);
        assert!(report.is_clean(), "{:?}", report.errors);
        self.store = open(&self.disks);
        (self.wrote, self.recent) = (0, self.store.stats().memory.recent);
    }
    fn ask<T>(&mut self, mut f: impl FnMut(&BlockStore) -> StoreResult<T>) -> T {
        loop {
            match f(&self.store) {
                Err(StoreError::Wait(_)) => self.turn(),
                other => return other.expect("it is there"),
            }
        }
    }
    fn keys(&mut self, n: u64) -> Vec<(ByteStr, Bytes)> {
        let (mut all, mut after) = (Vec::new(), Vec::new());
        loop {
            let query = OmapQuery { entries_max: 1000, ..OmapQuery::default() };
            let page = self.ask(|s| s.omap_list(object_coll(0), &name(n), &OmapQuery { start_after: &after, ..query }));
            all.extend(page.entries);
            if !page.more {
                return all;
            }
            after = all.last().map(|(key, _)| key.as_slice().to_vec()).expect("a page has rows");
        }
    }
}

/// Of an object in pieces, a part is in memory, and there is no room for all: that part does not go while the rest is fetched, and the rest while that
/// is fetched again.
#[test]
fn ranges_of_an_object_come_together() {
    const PIECES: u64 = 16;
    const PIECE: u64 = 700_000;
    let mut subject = Subject::new();
    subject.submit(|txn| (0..PIECES).for_each(|n| txn.write(&name(0), n << 20, vec![n as u8 + 1; PIECE as usize].into(), 0)));
    subject.restart();
    for n in 0..PIECES / 2 {
        let piece = subject.ask(|s| s.read(object_coll(0), &name(0), n << 20, PIECE));
        assert_eq!(piece.len() as u64, PIECE);
    }
    let ranges: IntervalSet = (0..PIECES).map(|n| (n << 20, PIECE)).collect();
    let mut asked = 0;
    let all = subject.ask(|s| {
        asked += 1;
        assert!(asked < 1000, "it is asked for without end");
        s.read_ranges(object_coll(0), &name(0), &ranges)
    });
    assert_eq!(all.len() as u64, PIECES * PIECE);
    assert!(all.flat().chunks(PIECE as usize).zip(1..).all(|(piece, n)| piece.iter().all(|byte| *byte == n)));
}

#[test]
fn a_transaction_may_be_larger_than_the_log() {
    const KEYS: usize = 100_000;
    const BLOCKS: usize = 500;
    let mut subject = Subject::new();
    subject.submit(|txn| txn.write(&name(5), 0, vec![1; BLOCKS * 4096].into(), 0));
    subject.settle();
    let before = subject.turns;
    subject.submit(|txn| {
        txn.touch(&name(0));
        txn.omap_set_keys(&name(0), rows(0..KEYS));
        // More images than a record may have.
        (0..BLOCKS as u64).for_each(|n| txn.write(&name(5), n * 4096 + 5, vec![2; 100].into(), 0));
        txn.omap_set_keys(&name(0), vec![("large".into(), vec![3; 2 << 20].into())]);
        txn.set_attr(&name(5), "a", Bytes::from_static(b"value"));
    });
    // Others are served meanwhile.
    subject.turn();
    assert!(subject.done < subject.token && subject.store.exists(object_coll(0), &name(7)) == Ok(false));
    subject.submit(|txn| txn.touch(&name(6)));
    subject.settle();
    assert!(subject.turns - before > 10, "{} turns", subject.turns - before);
    for _ in 0..2 {
        let mut keys = subject.keys(0);
        let large = keys.pop().expect("the last");
        assert!(large.0.as_slice() == b"large" && large.1[..] == vec![3; 2 << 20][..] && keys == rows(0..KEYS));
        let data = subject.ask(|s| s.read(object_coll(0), &name(5), 0, u64::MAX)).flat();
        let is_new = |at: usize| (5..105).contains(&(at % 4096));
        assert!(data.len() == BLOCKS * 4096 && data.iter().enumerate().all(|(at, b)| *b == if is_new(at) { 2 } else { 1 }));
        subject.restart();
    }
    // What removes as much, in a log that has this only.
    subject.submit(|txn| txn.omap_rm_keys(&name(0), (0..KEYS).filter(|n| n % 10 > 0).map(key).collect()));
    subject.settle();
    subject.restart();
    assert_eq!(subject.keys(0).len(), KEYS / 10 + 1);
}

/// At each moment of a large transaction a power cut leaves all of it or nothing.
#[test]
fn a_large_transaction_is_there_or_not() {
    const KEYS: usize = 6000;
    let mut subject = Subject::new();
    subject.disks.record();
    subject.submit(|txn| {
        txn.touch(&name(0));
        txn.omap_set_keys(&name(0), rows(0..KEYS));
    });
    subject.settle();
    subject.submit(|txn| txn.clone_object(&name(0), &name(1)));
    subject.settle();
    subject.submit(|txn| {
        txn.omap_rm_key_range(&name(0), key(10), key(KEYS - 10));
        txn.omap_set_keys(&name(1), rows(KEYS..2 * KEYS));
    });
    subject.settle();
    let recording = subject.disks.take_recording();
    let (mut states, mut rng, mut seen) = (CrashStates::new(&recording), base::Rng::new(5), std::collections::BTreeMap::new());
    while states.step().is_some() {
        for _ in 0..3 {
            let disks = states.state(&mut rng, Tear::Sectors);
            let mut after = Subject { store: open(&disks), disks, token: 0, done: 0, turns: 0, wrote: 0, recent: 0 };
            let is_there = |s: &mut Subject, n| s.ask(|store| store.exists(object_coll(0), &name(n)));
            let made = [0, 1].map(|n| if is_there(&mut after, n) { after.keys(n).len() } else { 0 });
            *seen.entry(made).or_insert(0) += 1;
        }
    }
    let all = [[0, 0], [KEYS, 0], [KEYS, KEYS], [20, 2 * KEYS]];
    assert!(seen.keys().all(|state| all.contains(state)) && seen.len() == 4, "{seen:?}");
}

/// A large omap is cloned again and again, changed on both sides, listed, rolled back and trimmed.
#[test]
fn clones_of_a_large_omap_share_it() {
    const KEYS: usize = 30_000;
    const SNAPS: u64 = 9;
    let mut subject = Subject::new();
    for page in (0..KEYS).step_by(1000) {
        subject.submit(|txn| {
            txn.touch(&name(0));
            txn.omap_set_keys(&name(0), rows(page..page + 1000));
        });
        subject.turn();
    }
    subject.submit(|txn| txn.omap_set_header(&name(0), Bytes::from_static(b"header 0")));
    subject.settle();
    let mut model = std::collections::BTreeMap::from_iter(rows(0..KEYS));
    let mut models = vec![model.clone()];
    for snap in 1..=SNAPS {
        let turns = subject.turns;
        let changed = (0..100).map(|n| (key(n * 7 * snap as usize), value(n))).collect::<Vec<_>>();
        let gone: Vec<ByteStr> = (0..50).map(|n| key(n * 11 + snap as usize)).collect();
        subject.submit(|txn| {
            txn.clone_object(&name(0), &name(snap));
            txn.omap_set_keys(&name(0), changed.clone());
            txn.omap_rm_keys(&name(0), gone.clone());
            txn.omap_rm_key_range(&name(0), key(20_000 + 100 * snap as usize), key(20_050 + 100 * snap as usize));
            txn.omap_set_header(&name(0), format!("header {snap}").into());
        });
        subject.settle();
        model.extend(changed);
        let range = key(20_000 + 100 * snap as usize)..key(20_050 + 100 * snap as usize);
        model.retain(|key, _| !gone.contains(key) && !range.contains(key));
        models.push(model.clone());
        if snap <= 2 {
            assert!(subject.turns - turns < 24, "a clone takes {} turns", subject.turns - turns);
        }
        if snap % 4 == 0 {
            subject.store.checkpoint();
            subject.restart();
        }
    }
    let check = |subject: &mut Subject, n: u64, state: usize| {
        assert!(subject.keys(n).into_iter().eq(models[state].clone()), "object {n}");
        let some: Vec<ByteStr> = [3, 7, 12, 77, 20_110, 25_000].map(key).into();
        let found = subject.ask(|s| s.omap_get(object_coll(0), &name(n), &some));
        assert!(found.into_iter().eq(some.iter().filter_map(|key| models[state].get_key_value(key)).map(|(k, v)| (k.clone(), v.clone()))));
        let header = subject.ask(|s| s.omap_header(object_coll(0), &name(n)));
        assert_eq!(header, format!("header {state}").as_bytes());
    };
    (1..=SNAPS).for_each(|n| check(&mut subject, n, n as usize - 1));
    check(&mut subject, 0, SNAPS as usize);
    // Rolled back, and trimmed: those in the middle first.
    subject.submit(|txn| {
        txn.remove(&name(0));
        txn.clone_object(&name(3), &name(0));
    });
    for n in [4, 5, 1, 9, 3, 2] {
        subject.submit(|txn| txn.remove(&name(n)));
        subject.restart();
        check(&mut subject, 0, 2);
        check(&mut subject, 6, 5);
    }
    let used = subject.store.pool_statfs(1).omap_allocated;
    subject.submit(|txn| [0, 6, 7, 8].iter().for_each(|n| txn.remove(&name(*n))));
    subject.store.checkpoint();
    subject.restart();
    let report = subject.store.fsck(false);
    assert!(used > 0 && report.omap_rows == 0 && subject.store.pool_statfs(1).omap_allocated == 0, "{report:?}");
}
