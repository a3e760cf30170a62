//! What a large omap costs others: `cargo run --release -p store-block --example large_omap -- FOLDER|mem [KEYS]`.
//!
//! It is written, cloned for snapshots, changed under them, listed and trimmed, while another client writes one block at a time. Printed: how long each
//! stage takes, the other's slowest write, the longest turn, and the memory.

#[path = "shared/mod.rs"]
mod shared;

use bytes::Bytes;
use shared::{ask, devices};
use std::time::{Duration, Instant};
use store::{ObjectStore, OmapQuery, StoreError, StoreHints, StoreResult};
use store_block::{BlockStore, Config};
use types::{ByteStr, CEPH_NOSNAP, CollId, GHObject, HObject, PgId, SpgId, Transaction};

const COLL: CollId = CollId::Pg(SpgId::whole(PgId { pool: 1, seed: 0 }));
const SNAPS: u64 = 30;

fn name(snap: u64) -> GHObject {
    GHObject::plain(HObject { oid: "an index".into(), pool: 1, hash: 7, snap, ..HObject::min() })
}
fn other() -> GHObject {
    GHObject::plain(HObject { oid: "another".into(), pool: 1, hash: 8, snap: CEPH_NOSNAP, ..HObject::min() })
}
fn rows(range: std::ops::Range<u64>) -> Vec<(ByteStr, Bytes)> {
    range.map(|n| (format!("an entry of a bucket's index {n:09}").as_str().into(), Bytes::from(vec![n as u8; 180]))).collect()
}

struct Load {
    store: BlockStore,
    token: u64,
    done: u64,
    /// The other's write that is under way.
    under_way: Option<(u64, Instant)>,
    writes: u64,
    slowest: Duration,
    longest_turn: Duration,
    memory: usize,
}

impl Load {
    fn submit(&mut self, fill: impl FnOnce(&mut Transaction)) {
        let mut txn = Transaction::new(COLL);
        fill(&mut txn);
        self.token += 1;
        self.store.submit(txn, None, self.token).expect("there is room");
    }
    fn turn(&mut self) {
        if self.under_way.is_none() {
            self.writes += 1;
            let at = self.writes % 64 * 4096;
            self.submit(|txn| txn.write(&other(), at, vec![3; 4096].into(), 0));
            self.under_way = Some((self.token, Instant::now()));
        }
        let start = Instant::now();
        self.store.turn_end();
        self.longest_turn = self.longest_turn.max(start.elapsed());
        let mut tokens = Vec::new();
        self.store.take_commits(&mut tokens);
        self.done = tokens.last().copied().unwrap_or(self.done);
        if let Some((_, at)) = self.under_way.take_if(|(token, _)| *token <= self.done) {
            self.slowest = self.slowest.max(at.elapsed());
        }
        assert_eq!(self.store.failure(), None);
        self.memory = self.memory.max(self.store.stats().memory.total());
        if tokens.is_empty() {
            self.store.linger(Duration::from_millis(1));
        }
    }
    /// Until so many transactions at most are not durable.
    fn wait(&mut self, behind: u64) {
        while self.done + behind < self.token {
            self.turn();
        }
    }
    fn ask<T>(&mut self, mut f: impl FnMut(&BlockStore) -> StoreResult<T>) -> T {
        loop {
            match f(&self.store) {
                Err(StoreError::Wait(_)) => {
                    self.turn();
                    self.store.take_ready(&mut Vec::new());
                }
                other => return other.expect("it is there"),
            }
        }
    }
    fn list(&mut self, snap: u64) -> u64 {
        let (mut n, mut after) = (0, Vec::new());
        loop {
            let page =
                self.ask(|s| s.omap_list(COLL, &name(snap), &OmapQuery { start_after: &after, entries_max: 1000, ..OmapQuery::default() }));
            n += page.entries.len() as u64;
            after = page.entries.last().map_or(after, |(key, _)| key.as_slice().to_vec());
            self.turn();
            if !page.more {
                return n;
            }
        }
    }
    fn stage(&mut self, what: &str, start: Instant) {
        self.wait(0);
        println!(
            "{what:34} {:7.2} s   other's slowest write {:6.1} ms of {:6}   longest turn {:6.1} ms   memory {:4} MiB",
            start.elapsed().as_secs_f64(),
            self.slowest.as_secs_f64() * 1e3,
            std::mem::take(&mut self.writes),
            self.longest_turn.as_secs_f64() * 1e3,
            self.memory >> 20
        );
        (self.slowest, self.longest_turn, self.memory) = Default::default();
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let folder = args.next().expect("a folder, or mem");
    let keys: u64 = args.next().map_or(1_000_000, |n| n.parse().expect("a number of keys"));
    let disks = BlockStore::mkfs(devices(&folder, [4 << 30, 256 << 20, 1 << 30]), [7; 16]).expect("a store");
    let store = BlockStore::open(Config::default(), disks).expect("it opens");
    let mut load =
        Load { store, token: 0, done: 0, under_way: None, writes: 0, slowest: Duration::ZERO, longest_turn: Duration::ZERO, memory: 0 };
    load.submit(|txn| {
        txn.create_collection(COLL, 0);
        txn.write(&other(), 0, vec![1; 64 * 4096].into(), 0);
    });
    load.wait(0);

    let start = Instant::now();
    for page in (0..keys).step_by(1000) {
        load.submit(|txn| {
            txn.touch(&name(CEPH_NOSNAP));
            txn.omap_set_keys(&name(CEPH_NOSNAP), rows(page..keys.min(page + 1000)));
        });
        load.wait(4);
    }
    load.stage("written, 1000 keys at a time", start);
    let start = Instant::now();
    for snap in 1..=SNAPS {
        load.submit(|txn| txn.clone_object(&name(CEPH_NOSNAP), &name(snap)));
        for n in 0..10 {
            load.submit(|txn| {
                txn.omap_set_keys(&name(CEPH_NOSNAP), rows((snap * 7919 + n * 104_729) % keys..(snap * 7919 + n * 104_729) % keys + 100))
            });
            load.wait(4);
        }
    }
    load.stage("30 snapshots, changed under each", start);
    let start = Instant::now();
    let listed = load.list(CEPH_NOSNAP);
    load.stage(&format!("listed: {listed} keys"), start);
    let start = Instant::now();
    for snap in 1..=SNAPS {
        load.submit(|txn| txn.remove(&name(snap)));
        load.wait(4);
    }
    load.stage("30 snapshots trimmed", start);
    let start = Instant::now();
    load.submit(|txn| txn.omap_set_keys(&name(CEPH_NOSNAP), rows(keys..keys + keys / 4)));
    load.stage("a quarter of it in one transaction", start);
    let start = Instant::now();
    load.submit(|txn| txn.remove(&name(CEPH_NOSNAP)));
    load.wait(0);
    load.store.checkpoint();
    while load.store.is_checkpointing() {
        load.turn();
    }
    load.stage("removed, and a checkpoint", start);
    assert!(!ask(&mut load.store, |s| s.exists(COLL, &name(CEPH_NOSNAP))));
    let report = load.store.fsck(false);
    assert!(report.is_clean() && report.omap_rows == 0, "{:?}", report.errors);
}
