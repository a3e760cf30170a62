//! What the store costs without a network: `cargo run --release -p store-block --example cost -- FOLDER|mem [SECONDS] [CASE]`.
//!
//! Transactions look like an OSD's: data, the object's info, and a log entry with the group's statistics.

#[path = "shared/mod.rs"]
mod shared;

use bytes::Bytes;
use shared::{ask, devices};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use store::{FastInfo, InfoChange, LogDelta, ObjectStore, StoreError};
use store_block::{BlockStore, Config};
use types::{
    CEPH_NOSNAP, CollId, EVersion, GHObject, HObject, LogOp, ModDesc, OI_ATTR, ObjectStatSum, PgId, PgInfo, PgLogEntry, ReqId, SS_ATTR,
    SpgId, Transaction, UTime,
};

const POOL: i64 = 1;
const PGS: u32 = 32;

struct Load {
    store: BlockStore,
    version: u64,
    next: u64,
    rng: base::Rng,
    /// Outstanding writes: when each was submitted.
    started: VecDeque<(u64, Instant)>,
    slowest: Duration,
    longest_turn: Duration,
    times: Vec<u32>,
    trimmed: Vec<u64>,
    sums: Vec<ObjectStatSum>,
}

fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0))
}
fn rss_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 4096 >> 20
}

fn object(n: u64, image: bool) -> GHObject {
    let name = if image { format!("rbd_data.1234567890ab.{n:016x}") } else { format!("benchmark_data_host_12345_object{n}") };
    let hash = (n as u32).wrapping_mul(0x9e37_79b9).rotate_left(7) ^ n as u32;
    GHObject::plain(HObject { oid: name.into(), hash, pool: POOL, snap: CEPH_NOSNAP, ..HObject::min() })
}
fn pg_of(obj: &GHObject) -> SpgId {
    SpgId::whole(PgId::new(POOL, obj.hobj.hash & (PGS - 1)))
}

impl Load {
    fn write(&mut self, obj: &GHObject, offset: u64, data: Bytes, new: bool) {
        let pg = pg_of(obj);
        self.version += 1;
        let version = EVersion::new(20, self.version);
        let mut txn = Transaction::new(CollId::Pg(pg));
        let len = data.len() as i64;
        txn.write(obj, offset, data, 0);
        let mut info = vec![0x5a; 250];
        info[60..68].copy_from_slice(&self.version.to_le_bytes());
        info[80..88].copy_from_slice(&self.version.to_le_bytes());
        info[140..148].copy_from_slice(&self.rng.u64().to_le_bytes());
        txn.set_attr(obj, OI_ATTR, info.into());
        if new {
            txn.set_attr(obj, SS_ATTR, Bytes::from_static(&[7; 35]));
        }
        let entry = PgLogEntry {
            op: LogOp::MODIFY,
            soid: obj.hobj.clone(),
            version,
            prior_version: EVersion::new(20, self.version - 1),
            reqid: ReqId { tid: self.version, ..ReqId::default() },
            mtime: UTime { sec: 1_700_000_000, nsec: self.version as u32 },
            user_version: self.version,
            mod_desc: ModDesc::unrollbackable(),
            ..PgLogEntry::default()
        };
        let seed = pg.pgid.seed as usize;
        let sum = &mut self.sums[seed];
        sum.num_bytes += len;
        sum.num_wr += 1;
        sum.num_wr_kb += len / 1024;
        let fast = FastInfo { last_update: version, last_complete: version, last_user_version: self.version, sum: *sum };
        let mut delta = LogDelta { entries: vec![entry], info: InfoChange::Fast(fast), ..LogDelta::new(pg) };
        // Trimmed a hundred at a time.
        self.trimmed[seed] += 1;
        if self.trimmed[seed] > 2000 {
            self.trimmed[seed] -= 100;
            delta.trim_to = Some(EVersion::new(20, self.version.saturating_sub(1900 * u64::from(PGS))));
        }
        self.next += 1;
        self.store.submit(txn, Some(delta), self.next).expect("it fits");
        self.started.push_back((self.next, Instant::now()));
    }
    fn settle(&mut self, depth: usize) {
        let mut tokens = Vec::new();
        loop {
            let turn = Instant::now();
            self.store.turn_end();
            self.longest_turn = self.longest_turn.max(turn.elapsed());
            self.store.take_commits(&mut tokens);
            self.store.take_ready(&mut Vec::new());
            let now = Instant::now();
            for token in tokens.drain(..) {
                let (submitted, at) = self.started.pop_front().expect("it was submitted");
                assert_eq!(submitted, token);
                self.times.push((now - at).as_micros() as u32);
                self.slowest = self.slowest.max(now - at);
            }
            if self.started.len() < depth || self.started.is_empty() {
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
        loop {
            self.store.turn_end();
            if !self.store.is_checkpointing() && self.store.stats().idle {
                return;
            }
            if !self.store.stats().idle {
                self.store.wait();
            }
        }
    }

    fn case(&mut self, name: &str, depth: usize, seconds: f64, bytes: u64, mut op: impl FnMut(&mut Self)) {
        self.checkpointed();
        (self.slowest, self.longest_turn, self.times) = (Duration::ZERO, Duration::ZERO, Vec::new());
        let (began, cpu_before, before) = (Instant::now(), cpu(), self.store.stats());
        let mut ops = 0u64;
        while began.elapsed().as_secs_f64() < seconds {
            while self.started.len() < depth {
                op(self);
                ops += 1;
            }
            self.settle(depth);
        }
        self.settle(1);
        let (took, used) = (began.elapsed(), cpu() - cpu_before);
        self.checkpointed();
        let (all, after) = (cpu() - cpu_before, self.store.stats());
        let w = |f: fn(&store_block::Wrote) -> u64| (f(&after.wrote) - f(&before.wrote)) as f64 * 4096.0 / (ops * bytes) as f64;
        self.times.sort_unstable();
        let at = |q: f64| self.times.get((self.times.len() as f64 * q) as usize).copied().unwrap_or(0);
        println!(
            "{name:26} {:>8.0} op/s  CPU {:>5.2} us/op ({:>5.2} with checkpoint)  p50 {} p99 {} p99.99 {} max {} us; longest turn {} us",
            ops as f64 / took.as_secs_f64(),
            used.as_secs_f64() * 1e6 / ops as f64,
            all.as_secs_f64() * 1e6 / ops as f64,
            at(0.5),
            at(0.99),
            at(0.9999),
            self.slowest.as_micros(),
            self.longest_turn.as_micros()
        );
        println!(
            "{:26} amplification {:.2}: log {:.2} direct {:.2} in place {:.2} meta {:.2}; flushes {}, checkpoints {}, RSS {} MiB, {:?}",
            "",
            w(|w| w.log + w.direct + w.in_place + w.meta),
            w(|w| w.log),
            w(|w| w.direct),
            w(|w| w.in_place),
            w(|w| w.meta),
            after.wrote.flushes - before.wrote.flushes,
            after.generation - before.generation,
            rss_mib(),
            after.memory
        );
    }
}

/// Bytes of data, log and metadata.
const LENS: [u64; 3] = [6 << 30, 256 << 20, 1 << 30];

fn collections(load: &mut Load) {
    for seed in 0..PGS {
        let pg = SpgId::whole(PgId::new(POOL, seed));
        let mut txn = Transaction::new(CollId::Pg(pg));
        txn.create_collection(CollId::Pg(pg), PGS.trailing_zeros());
        let delta = LogDelta { epoch: Some(1), info: InfoChange::Full(Box::new(PgInfo::new(pg))), ..LogDelta::new(pg) };
        load.next += 1;
        load.store.submit(txn, Some(delta), load.next).expect("a collection");
        load.started.push_back((load.next, Instant::now()));
    }
}

/// Reads of 4 KiB anywhere in the image's objects.
fn reads(load: &mut Load, image_objects: u64, seconds: f64) {
    for depth in [64usize, 1] {
        let (began, cpu_before) = (Instant::now(), cpu());
        let mut ops = 0u64;
        let mut waiting: Vec<(GHObject, u64)> = Vec::new();
        while began.elapsed().as_secs_f64() < seconds {
            while waiting.len() < depth {
                waiting.push((object(load.rng.below(image_objects), true), load.rng.below(1024) * 4096));
            }
            let before = waiting.len();
            waiting.retain(|(obj, at)| match load.store.read(CollId::Pg(pg_of(obj)), obj, *at, 4096) {
                Ok(data) => data.len() != 4096,
                Err(StoreError::Wait(_)) => true,
                Err(e) => panic!("{e}"),
            });
            ops += (before - waiting.len()) as u64;
            load.store.turn_end();
            if waiting.len() == depth && !load.store.stats().idle {
                load.store.wait();
            }
        }
        let (took, used) = (began.elapsed(), cpu() - cpu_before);
        println!(
            "4 KiB read, depth {depth:9} {:>8.0} op/s  CPU {:>5.2} us/op",
            ops as f64 / took.as_secs_f64(),
            used.as_secs_f64() * 1e6 / ops as f64
        );
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let folder = args.get(1).map_or("mem", |s| s.as_str()).to_string();
    let seconds: f64 = args.get(2).map_or(3.0, |s| s.parse().expect("seconds"));
    let only = args.get(3).cloned().unwrap_or_default();
    // A store's name is its own: the log of another one on the same devices is none of its.
    let uuid = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |t| t.as_nanos()).to_le_bytes();
    let disks = BlockStore::mkfs(devices(&folder, LENS), uuid).expect("a store");
    let store = BlockStore::open(Config::default(), disks).expect("it opens");
    let mut load = Load {
        store,
        version: 0,
        next: 0,
        rng: base::Rng::new(1),
        started: VecDeque::new(),
        slowest: Duration::ZERO,
        longest_turn: Duration::ZERO,
        times: Vec::new(),
        trimmed: vec![0; PGS as usize],
        sums: vec![ObjectStatSum::default(); PGS as usize],
    };
    collections(&mut load);
    load.settle(1);
    let data = |n: usize| {
        let mut v = vec![0; n];
        base::Rng::new(9).fill(&mut v);
        Bytes::from(v)
    };
    let (small, medium, large) = (data(4096), data(65536), data(4 << 20));
    let wanted = |name: &str| only.is_empty() || name.contains(&only);
    let image_objects = 256;
    if wanted("overwrite") || wanted("read") {
        for n in 0..image_objects {
            load.write(&object(n, true), 0, large.clone(), true);
            load.settle(4);
        }
    }
    for depth in [64, 1] {
        let name = format!("4 KiB overwrite, depth {depth}");
        if wanted(&name) {
            load.case(&name, depth, seconds, 4096, |l| {
                let (n, block) = (l.rng.below(image_objects), l.rng.below(1024));
                l.write(&object(n, true), block * 4096, small.clone(), false);
            });
        }
    }
    let mut names = 0;
    for depth in [256, 16, 1] {
        let name = format!("4 KiB new objects, depth {depth}");
        if wanted(&name) {
            load.case(&name, depth, seconds, 4096, |l| {
                names += 1;
                l.write(&object(names, false), 0, small.clone(), true);
            });
        }
    }
    let name = "64 KiB new objects, depth 16";
    if wanted(name) {
        load.case(name, 16, seconds, 65536, |l| {
            names += 1;
            if names.is_multiple_of(2000) {
                l.checkpointed();
            }
            l.write(&object(names % 20_000 + (1 << 40), false), 0, medium.clone(), true);
        });
    }
    if wanted("read") {
        load.checkpointed();
        reads(&mut load, image_objects, seconds);
    }
    load.checkpointed();
    let last = load.version;
    drop(load.store);
    if folder != "mem" {
        let began = Instant::now();
        let mut store = BlockStore::open(Config::default(), devices(&folder, LENS)).expect("it opens");
        println!("opened in {:?} after {last} writes", began.elapsed());
        assert_eq!(ask(&mut store, |s| s.collections()).len(), PGS as usize);
    }
}
