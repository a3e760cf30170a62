//! What a new object costs among many:
//! `cargo run --release -p store-block --example many -- FOLDER|mem OBJECTS [OPS] [MEMORY_MIB] [DEPTH] [life]`.
//!
//! So many objects are made of rows alone (an object's info and its snapshots, as an OSD has them, and no data). Then the same new objects of
//! 4 KiB come, with the group's log, in a crowd of 256 or of DEPTH: device bytes for each, by what they are for, CPU with the checkpoints
//! that they bring, the slowest second, and how long they take. With `life` the store is opened again, with nothing in its log and once
//! more as a kill leaves it, all objects are removed, and the same new ones come into what is left. A tenth of the objects in a tenth of the
//! memory is what ten times as many are in all of it: leaves and rows of a checkpoint keep their proportion.

// As the program has it.
#[path = "../../cli/src/allocator.rs"]
mod allocator;
mod shared;

use bytes::Bytes;
use disk::Disks;
use shared::{ask, devices};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};
use store::{FastInfo, InfoChange, LogDelta, ObjectStore};
use store_block::{BlockStore, Config, Wrote};
use types::{
    CEPH_NOSNAP, CollId, EVersion, GHObject, HObject, LogOp, ModDesc, OI_ATTR, ObjectStatSum, PgId, PgInfo, PgLogEntry, ReqId, SS_ATTR,
    SpgId, Transaction, UTime,
};

const POOL: i64 = 1;
const PGS: u32 = 32;

fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0))
}
fn object(n: u64) -> GHObject {
    // A name's hash is like a number by chance.
    let hash = base::Rng::new(n).u64() as u32;
    let oid = format!("benchmark_data_host_12345_object{n}").into();
    GHObject::plain(HObject { oid, hash, pool: POOL, snap: CEPH_NOSNAP, ..HObject::min() })
}

struct Load {
    store: BlockStore,
    depth: u64,
    submitted: u64,
    committed: u64,
    trimmed: Vec<u64>,
    longest_turn: Duration,
    /// When those began that are under way, and how long each took that is done, with when that was.
    began: VecDeque<Instant>,
    took: Vec<(Instant, Duration)>,
}

impl Load {
    fn new(store: BlockStore, depth: u64) -> Self {
        Self {
            store,
            depth,
            submitted: 0,
            committed: 0,
            trimmed: vec![0; PGS as usize],
            longest_turn: Duration::ZERO,
            began: VecDeque::new(),
            took: Vec::new(),
        }
    }
    fn submit(&mut self, txn: Transaction, delta: Option<LogDelta>) {
        self.submitted += 1;
        self.began.push_back(Instant::now());
        self.store.submit(txn, delta, self.submitted).expect("it fits");
    }
    /// Goes on until fewer than so many are under way.
    fn settle(&mut self, depth: u64) {
        let mut tokens = Vec::new();
        loop {
            let turn = Instant::now();
            self.store.turn_end();
            self.longest_turn = self.longest_turn.max(turn.elapsed());
            self.store.take_commits(&mut tokens);
            self.store.take_ready(&mut Vec::new());
            let now = Instant::now();
            for _ in tokens.drain(..) {
                let began = self.began.pop_front().expect("it was submitted");
                self.took.push((now, now - began));
                self.committed += 1;
            }
            if self.submitted - self.committed < depth {
                return;
            }
            if let Some(why) = self.store.failure() {
                panic!("{why}");
            }
            self.store.wait();
        }
    }
    fn checkpointed(&mut self) {
        self.settle(1);
        self.store.checkpoint();
        while self.store.is_checkpointing() || !self.store.stats().idle {
            self.store.turn_end();
            if !self.store.stats().idle {
                self.store.wait();
            }
        }
    }
    fn make(&mut self, n: u64, data: Option<&Bytes>) {
        let obj = object(n);
        let pg = SpgId::whole(PgId::new(POOL, obj.hobj.hash & (PGS - 1)));
        let version = EVersion::new(20, self.submitted + 1);
        let mut txn = Transaction::new(CollId::Pg(pg));
        match data {
            Some(data) => txn.write(&obj, 0, data.clone(), 0),
            None => txn.touch(&obj),
        }
        let mut info = vec![0x5a; 250];
        info[60..68].copy_from_slice(&version.version.to_le_bytes());
        txn.set_attr(&obj, OI_ATTR, info.into());
        txn.set_attr(&obj, SS_ATTR, Bytes::from_static(&[7; 35]));
        let delta = data.map(|_| {
            let entry = PgLogEntry {
                op: LogOp::MODIFY,
                soid: obj.hobj.clone(),
                version,
                reqid: ReqId { tid: version.version, ..ReqId::default() },
                mtime: UTime { sec: 1_700_000_000, nsec: version.version as u32 },
                user_version: version.version,
                mod_desc: ModDesc::unrollbackable(),
                ..PgLogEntry::default()
            };
            let fast = FastInfo {
                last_update: version,
                last_complete: version,
                last_user_version: version.version,
                sum: ObjectStatSum::default(),
            };
            let mut delta = LogDelta { entries: vec![entry], info: InfoChange::Fast(fast), ..LogDelta::new(pg) };
            let trimmed = &mut self.trimmed[pg.pgid.seed as usize];
            *trimmed += 1;
            if *trimmed > 2000 {
                *trimmed -= 100;
                delta.trim_to = Some(EVersion::new(20, version.version.saturating_sub(1900 * u64::from(PGS))));
            }
            delta
        });
        self.submit(txn, delta);
        self.crowd();
    }
    fn crowd(&mut self) {
        if self.submitted.is_multiple_of(16) {
            self.settle(self.depth);
        }
    }
    /// The objects with these numbers come, and what they cost is said.
    fn come(&mut self, objects: Range<u64>, data: &Bytes, what: &str) {
        (self.longest_turn, self.took) = (Duration::ZERO, Vec::new());
        let (before, cpu_before, began, ops) = (self.store.stats(), cpu(), Instant::now(), objects.end - objects.start);
        objects.for_each(|n| self.make(n, Some(data)));
        let seconds = began.elapsed().as_secs_f64();
        self.checkpointed();
        let after = self.store.stats();
        let kib = |f: fn(&Wrote) -> u64| (f(&after.wrote) - f(&before.wrote)) as f64 * 4.0 / ops as f64;
        println!(
            "{ops} new objects of 4 KiB {what}: {:.2} KiB and {:.2} us of CPU each; log {:.2} data {:.2} metadata {:.2} read {:.2} KiB; \
             {} checkpoints, {:.0} a second, longest turn {} us",
            kib(|w| w.log + w.direct + w.in_place + w.meta),
            (cpu() - cpu_before).as_secs_f64() * 1e6 / ops as f64,
            kib(|w| w.log),
            kib(|w| w.direct + w.in_place),
            kib(|w| w.meta),
            kib(|w| w.reads),
            after.generation - before.generation,
            ops as f64 / seconds,
            self.longest_turn.as_micros()
        );
        let mut seconds: Vec<usize> = Vec::new();
        for (at, _) in &self.took {
            let second = (*at - began).as_secs() as usize;
            seconds.resize(seconds.len().max(second + 1), 0);
            seconds[second] += 1;
        }
        // The last one is none.
        seconds.pop();
        let mut took: Vec<u128> = self.took.iter().map(|(_, took)| took.as_micros()).collect();
        took.sort_unstable();
        let part = |of_thousand: usize| took[(took.len() * of_thousand / 1000).min(took.len() - 1)];
        if let Some(slowest) = seconds.iter().min() {
            let mean = seconds.iter().sum::<usize>() / seconds.len();
            println!("  {} seconds, the slowest {slowest} of {mean} in the mean: {seconds:?}", seconds.len());
        }
        println!("  a write takes {} us at p50, {} at p99, {} at p99.9, {} at most", part(500), part(990), part(999), part(1000));
        println!("  {:?}", after.memory);
    }
    /// Closed as a kill closes it, and opened.
    fn opened_again(self, config: &Config, disks: impl FnOnce() -> Box<dyn Disks>) -> Self {
        let Self { store, submitted, trimmed, depth, .. } = self;
        let log = store.stats().log_used;
        drop(store);
        let disks = disks();
        let (began, cpu_before) = (Instant::now(), cpu());
        let store = BlockStore::open(config.clone(), disks).expect("it opens again");
        let (all, cpu) = (began.elapsed().as_secs_f64(), (cpu() - cpu_before).as_secs_f64());
        println!("with {log} blocks in the log: open after {all:.3} s, {cpu:.3} of CPU; {:?}", store.stats().memory);
        Self { submitted, committed: submitted, trimmed, ..Self::new(store, depth) }
    }
    /// All of them are removed.
    fn go(&mut self, objects: Range<u64>) {
        let (cpu_before, began, ops) = (cpu(), Instant::now(), objects.end - objects.start);
        for n in objects {
            let obj = object(n);
            let pg = SpgId::whole(PgId::new(POOL, obj.hobj.hash & (PGS - 1)));
            let mut txn = Transaction::new(CollId::Pg(pg));
            txn.remove(&obj);
            self.submit(txn, None);
            self.crowd();
        }
        self.checkpointed();
        let us = |all: Duration| all.as_secs_f64() * 1e6 / ops as f64;
        println!(
            "{ops} objects are removed: {:.2} us each, {:.2} of CPU; {:?}",
            us(began.elapsed()),
            us(cpu() - cpu_before),
            self.store.stats().memory
        );
    }
}

fn main() {
    allocator::tune();
    let args: Vec<String> = std::env::args().collect();
    let number = |n: usize, otherwise: u64| args.get(n).map_or(otherwise, |s| s.parse().expect("a number"));
    let (folder, objects, ops) = (args.get(1).map_or("mem", |s| s.as_str()), number(2, 0), number(3, 200_000));
    let config = Config { memory: (number(4, 128) << 20) as usize, ..Config::default() };
    let uuid = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |t| t.as_nanos()).to_le_bytes();
    let lens = [(2 << 30) + objects * 2048 + ops * 8192, 256 << 20, 1 << 30];
    let disks = BlockStore::mkfs(devices(folder, lens.map(|len: u64| len.next_multiple_of(1 << 20))), uuid).expect("a store");
    let mut load = Load::new(BlockStore::open(config.clone(), disks).expect("it opens"), number(5, 256));
    for seed in 0..PGS {
        let pg = SpgId::whole(PgId::new(POOL, seed));
        let mut txn = Transaction::new(CollId::Pg(pg));
        txn.create_collection(CollId::Pg(pg), PGS.trailing_zeros());
        load.submit(txn, Some(LogDelta { epoch: Some(1), info: InfoChange::Full(Box::new(PgInfo::new(pg))), ..LogDelta::new(pg) }));
    }
    let began = Instant::now();
    (0..objects).for_each(|n| load.make(n, None));
    load.checkpointed();
    println!("{objects} objects in {:.1} s, {:?}", began.elapsed().as_secs_f64(), load.store.stats().memory);
    let mut data = vec![0; 4096];
    base::Rng::new(9).fill(&mut data);
    let data = Bytes::from(data);
    load.come(objects..objects + ops, &data, &format!("among {objects}"));
    if args.get(6).is_some_and(|word| word == "life") {
        load = load.opened_again(&config, || devices(folder, lens));
        // Much is in the log, and nothing ends in order.
        (objects + ops..objects + ops + ops / 8).for_each(|n| load.make(n, Some(&data)));
        load = load.opened_again(&config, || devices(folder, lens));
        load.go(0..objects + ops + ops / 8);
        load.come(objects..objects + ops, &data, "where all were removed");
    }
    assert_eq!(ask(&mut load.store, |s| s.collections()).len(), PGS as usize);
}
