//! One setting bounds what a store keeps in memory, while it works and when it starts; the log's size bounds what a start reads.

use crate::{BlockStore, Config};
use base::Rng;
use disk::{MemDisks, Order};
use std::collections::HashMap;
use store::conformance::object_coll;
use store::{ObjectStore, StoreError, StoreHints};
use types::{CEPH_NOSNAP, GHObject, HObject, Transaction};

const MEMORY: usize = 16 << 20;
const OBJECTS: u64 = 20_000;
const LENS: [u64; 3] = [1 << 30, 16 << 20, 128 << 20];

fn name(n: u64) -> GHObject {
    let hash = (n as u32).wrapping_mul(0x9e37_79b9);
    GHObject::plain(HObject { oid: format!("an object with a name {n}").into(), pool: 1, hash, snap: CEPH_NOSNAP, ..HObject::min() })
}

struct Load {
    store: BlockStore,
    rng: Rng,
    token: u64,
    reads: HashMap<u64, (u64, u64)>,
    most: usize,
}

impl Load {
    fn new(config: Config, disks: &MemDisks) -> Self {
        let store = BlockStore::open(config, Box::new(disks.clone())).expect("it opens");
        Self { store, rng: Rng::new(7), token: 0, reads: HashMap::new(), most: 0 }
    }
    fn submit(&mut self, txn: Transaction) {
        self.token += 1;
        self.store.submit(txn, None, self.token).expect("it fits");
    }
    fn write(&mut self, n: u64, len: usize) {
        let mut txn = Transaction::new(object_coll(0));
        let mut data = vec![0; len];
        self.rng.fill(&mut data);
        txn.write(&name(n), 0, data.into(), 0);
        txn.set_attr(&name(n), "_", vec![n as u8; 250].into());
        txn.omap_set_keys(&name(n), vec![("key".into(), vec![1; 100].into())]);
        self.submit(txn);
    }
    fn read(&mut self, n: u64, len: u64) {
        match self.store.read(object_coll(0), &name(n), 0, len) {
            Ok(data) => assert!(data.len() >= 4096),
            Err(StoreError::Wait(ticket)) => drop(self.reads.insert(ticket, (n, len))),
            Err(e) => panic!("{e}"),
        }
    }
    fn turn(&mut self) {
        self.store.turn_end();
        self.store.take_commits(&mut Vec::new());
        let mut ready = Vec::new();
        self.store.take_ready(&mut ready);
        for (n, len) in ready.iter().filter_map(|ticket| self.reads.remove(ticket)).collect::<Vec<_>>() {
            self.read(n, len);
        }
        let stats = self.store.stats();
        self.most = self.most.max(stats.memory.total());
        assert!(stats.memory.total() <= MEMORY, "{} of {MEMORY}: {:?}", stats.memory.total(), stats.memory);
        assert!(stats.log_used <= stats.log_blocks);
    }
    fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.reads.is_empty() && self.store.stats().idle {
                return;
            }
            self.turn();
        }
        panic!("{} reads never come: {}", self.reads.len(), self.store.stand());
    }
}

#[test]
fn memory_keeps_to_its_setting() {
    let disks = MemDisks::new(&LENS);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    disks.set_order(Order::Shuffled, 1);
    let config = Config { memory: MEMORY, ..Config::default() };
    let mut load = Load::new(config.clone(), &disks);
    let mut txn = Transaction::new(object_coll(0));
    txn.create_collection(object_coll(0), 0);
    load.submit(txn);
    for n in 0..OBJECTS {
        load.write(n, if n % 16 == 0 { 65_536 } else { 4096 });
        if n % 8 == 0 {
            load.turn();
        }
    }
    load.settle();
    // Many reads at once, whole objects and blocks, among overwrites.
    for _ in 0..OBJECTS {
        let n = load.rng.below(OBJECTS);
        if load.rng.chance(1, 3) {
            load.write(n, 4096);
        } else if load.reads.len() < 512 {
            let n = if load.rng.chance(1, 2) { n / 16 * 16 } else { n };
            load.read(n, u64::MAX);
        }
        if load.rng.chance(1, 8) {
            load.turn();
        }
    }
    load.settle();
    // One after the other, each waited for: what is read and written so is kept, as far as there is room.
    let before = disks.traffic(disk::Dev(0)).read_bytes;
    for n in 0..OBJECTS / 4 {
        let n = load.rng.below(OBJECTS / 40) + if n > OBJECTS / 8 { OBJECTS / 2 } else { 0 };
        if load.rng.chance(1, 3) {
            load.write(n, 4096);
        } else {
            load.read(n, 4096);
        }
        load.settle();
    }
    let (kept, asked) = (load.store.stats().memory.reads, disks.traffic(disk::Dev(0)).read_bytes - before);
    println!("kept {kept} of {MEMORY}; {asked} bytes read from the device");
    // That there were many at once just before is soon forgotten.
    assert!(kept > MEMORY / 16 && asked < OBJECTS / 6 * 4096 / 2, "kept {kept}, read {asked}");
    println!("{} of {MEMORY} at most: {:?}", load.most, load.store.stats().memory);
    assert!(load.most > MEMORY / 2, "the load was too small to tell: {}", load.most);
    // Killed with much in the log.
    while load.store.stats().log_used < load.store.stats().log_blocks / 6 {
        let n = load.rng.below(OBJECTS);
        load.write(n, 4096);
        load.turn();
    }
    let log = load.store.stats().log_used * 4096;
    drop(load);

    // It reads no more of the log than there is, twice, and takes no more memory than before.
    disks.restart();
    disks.set_order(Order::AtOnce, 0);
    let before = [0, 1, 2].map(|n| disks.traffic(disk::Dev(n)).read_bytes);
    let mut load = Load::new(config, &disks);
    load.turn();
    let read: Vec<_> = (0..3).map(|n| disks.traffic(disk::Dev(n)).read_bytes - before[usize::from(n)]).collect();
    println!("{log} bytes of log: read {read:?}, {:?}", load.store.stats().memory);
    assert!(log > LENS[1] / 8 && read[1] <= 2 * LENS[1] && read[0] <= LENS[1], "{log} bytes of log: read {read:?}");
    assert!(load.store.fsck(false).is_clean());
}

/// What a lone client reads stays, soon after many asked at once; until a caller wants to see what lies on the device.
#[test]
fn a_crowd_is_soon_forgotten() {
    const CROWD: u64 = 400;
    /// Twice the reads of a span.
    const SOON: u64 = 128;
    let disks = MemDisks::new(&LENS);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    let mut load = Load::new(Config { memory: MEMORY, ..Config::default() }, &disks);
    let mut txn = Transaction::new(object_coll(0));
    txn.create_collection(object_coll(0), 0);
    load.submit(txn);
    for n in 0..2 * CROWD {
        load.write(n, 4096);
        load.store.turn_end();
    }
    load.store.checkpoint();
    load.settle();
    // Nothing of what was just written is in memory.
    let Load { rng, .. } = load;
    let mut load = Load { rng, ..Load::new(Config { memory: MEMORY, ..Config::default() }, &disks) };
    (0..CROWD).for_each(|n| load.read(n, 4096));
    assert!(load.reads.len() as u64 > CROWD / 2, "they are asked for together");
    load.settle();
    for n in CROWD..CROWD + SOON {
        load.read(n, 4096);
        load.settle();
    }
    let (last, asked) = (CROWD + SOON, || disks.traffic(disk::Dev(0)).read_bytes);
    load.read(last, 4096);
    load.settle();
    let before = asked();
    for n in CROWD + SOON / 2..CROWD + SOON {
        load.read(n, 4096);
        load.settle();
    }
    assert!(asked() - before <= SOON / 2 * 4096, "more was read than there is");
    let before = asked();
    load.read(last, 4096);
    load.settle();
    assert_eq!(asked(), before, "it was read a moment ago, and no other client asks");
    load.store.forget(object_coll(0), &name(last), 0, 4096);
    load.read(last, 4096);
    load.settle();
    assert_eq!(asked(), before + 4096, "it is read from the device");
}

impl Load {
    /// Reads a block as an OSD does for a client that waits for it.
    fn read_alone(&mut self, n: u64, block: u64) {
        let mut tickets = Vec::new();
        for _ in 0..1000 {
            let Err(e) = self.store.read(object_coll(0), &name(n), block * 4096, 4096) else { return };
            let StoreError::Wait(ticket) = e else { panic!("{e}") };
            while !tickets.contains(&ticket) {
                self.store.turn_end();
                self.store.take_ready(&mut tickets);
            }
            if self.store.take_read(ticket).is_some() {
                self.store.turn_end();
                return;
            }
        }
        panic!("it never comes");
    }
}

/// A reader of far more than there is room for, one block after the other, does not fill memory with it; what it comes to read often stays.
#[test]
fn what_is_read_once_passes() {
    const BLOCKS: u64 = 1024;
    let disks = MemDisks::new(&LENS);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    let mut load = Load::new(Config { memory: MEMORY, ..Config::default() }, &disks);
    let mut txn = Transaction::new(object_coll(0));
    txn.create_collection(object_coll(0), 0);
    load.submit(txn);
    (0..4).for_each(|n| load.write(n, BLOCKS as usize * 4096));
    load.store.checkpoint();
    load.settle();
    let asked = || disks.traffic(disk::Dev(0)).read_bytes / 4096;
    let before = asked();
    for block in 0..4 * BLOCKS {
        load.read_alone(block / BLOCKS, block * 7 % BLOCKS);
    }
    let kept = load.store.stats().memory.reads as u64 / 4096;
    assert_eq!(asked() - before, 4 * BLOCKS, "each was read from the device");
    assert!(kept < 2 * BLOCKS && kept > BLOCKS / 8, "{kept} blocks are kept of {}", 4 * BLOCKS);
    // A few of them, again and again.
    let few = |load: &mut Load| (0..100).for_each(|n| load.read_alone(n % 4, n * 7));
    (0..8).for_each(|_| few(&mut load));
    let before = asked();
    few(&mut load);
    assert_eq!(asked(), before, "they are here");
}

/// A client that waits for each write finds what it overwrote in memory when it reads it next, though it went to its place meanwhile.
#[test]
fn what_was_overwritten_alone_is_here() {
    const BLOCKS: u64 = 256;
    let disks = MemDisks::new(&LENS);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    let mut load = Load::new(Config { memory: MEMORY, ..Config::default() }, &disks);
    let mut txn = Transaction::new(object_coll(0));
    txn.create_collection(object_coll(0), 0);
    load.submit(txn);
    load.write(0, 4 << 20);
    load.settle();
    for n in 0..BLOCKS {
        let mut txn = Transaction::new(object_coll(0));
        txn.write(&name(0), n * 3 % 1024 * 4096, vec![n as u8; 4096].into(), 0);
        load.submit(txn);
        load.settle();
    }
    load.store.checkpoint();
    load.settle();
    let asked = || disks.traffic(disk::Dev(0)).read_bytes;
    let before = asked();
    for n in 0..BLOCKS {
        let data = load.store.read(object_coll(0), &name(0), n * 3 % 1024 * 4096, 4096).expect("it is here");
        assert_eq!(data.flat(), vec![n as u8; 4096]);
    }
    assert_eq!(asked(), before);
}

/// One request that is larger than anything that is to stay in memory has all of its bytes together at some time.
#[test]
fn a_large_request_is_answered() {
    const LEN: usize = 24 << 20;
    let disks = MemDisks::new(&LENS);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    let config = Config { memory: 4 << 20, ..Config::default() };
    let mut load = Load::new(config.clone(), &disks);
    let mut txn = Transaction::new(object_coll(0));
    txn.create_collection(object_coll(0), 0);
    load.submit(txn);
    for at in (0..LEN).step_by(1 << 20) {
        let mut txn = Transaction::new(object_coll(0));
        txn.write(&name(1), at as u64, vec![at as u8 ^ 5; 1 << 20].into(), 0);
        load.submit(txn);
        load.store.turn_end();
    }
    disks.set_order(Order::Shuffled, 3);
    for _ in 0..2000 {
        match load.store.read(object_coll(0), &name(1), 0, u64::MAX) {
            Ok(data) => return assert_eq!(data.len(), LEN),
            Err(StoreError::Wait(_)) => load.store.turn_end(),
            Err(e) => panic!("{e}"),
        }
    }
    panic!("it is read again and again");
}

/// A device whose bits alone take all of the setting: caches have a quarter, and everything works.
#[test]
fn a_large_device_leaves_a_quarter() {
    let disks = MemDisks::new(&[64 << 30, 16 << 20, 64 << 20]);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    let config = Config { memory: 2 << 20, ..Config::default() };
    let mut load = Load::new(config, &disks);
    let mut txn = Transaction::new(object_coll(0));
    txn.create_collection(object_coll(0), 0);
    load.submit(txn);
    for n in 0..2000 {
        load.write(n, 4096);
        load.store.turn_end();
    }
    let memory = load.store.stats().memory;
    assert!(memory.whole >= 2 << 20 && memory.total() < memory.whole + (4 << 20), "{memory:?}");
    for n in 0..2000 {
        load.read(n, u64::MAX);
        load.turn();
    }
    load.settle();
}

/// Devices that have done everything at once: a checkpoint still takes many turns, each of which does a little of it.
#[test]
fn no_turn_does_much_of_a_checkpoint() {
    const TURN_BLOCKS: u64 = 256;
    let disks = MemDisks::new(&LENS);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    disks.set_order(Order::AtOnce, 1);
    let mut load = Load::new(Config { memory: 8 * MEMORY, ..Config::default() }, &disks);
    let mut txn = Transaction::new(object_coll(0));
    txn.create_collection(object_coll(0), 0);
    load.submit(txn);
    for round in 0..2 {
        for n in 0..5000 {
            load.write(n * 2 + round, 4096);
            if n % 8 == 0 {
                load.store.turn_end();
            }
        }
        load.store.checkpoint();
        let (mut turns, mut wrote) = (0, load.store.stats().wrote.meta);
        let before = wrote;
        while load.store.is_checkpointing() {
            load.store.turn_end();
            let now = load.store.stats().wrote.meta;
            assert!(now - wrote < TURN_BLOCKS, "{} blocks in one turn", now - wrote);
            (turns, wrote) = (turns + 1, now);
        }
        assert!(wrote - before > 2 * TURN_BLOCKS && turns > 8, "{} blocks in {turns} turns", wrote - before);
    }
}

/// A limit that comes while the store runs is kept to, and what it was given is not exceeded when the limit goes up again.
#[test]
fn a_limit_that_comes_later_is_kept_to() {
    const LIMIT: usize = MEMORY / 2;
    let disks = MemDisks::new(&LENS);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    let mut load = Load::new(Config { memory: MEMORY, ..Config::default() }, &disks);
    let mut txn = Transaction::new(object_coll(0));
    txn.create_collection(object_coll(0), 0);
    load.submit(txn);
    let fill = |load: &mut Load| {
        for n in 0..OBJECTS {
            load.write(n, 4096);
            if n % 8 == 0 {
                load.turn();
            }
        }
        load.settle();
    };
    fill(&mut load);
    load.store.limit_memory(LIMIT);
    fill(&mut load);
    // Each turn lets some of it go.
    for _ in 0..10_000 {
        if load.store.stats().memory.total() <= LIMIT {
            break;
        }
        load.turn();
    }
    let total = load.store.stats().memory.total();
    assert!(total <= LIMIT, "{total} of {LIMIT}: {:?}", load.store.stats().memory);
    load.store.limit_memory(usize::MAX);
    fill(&mut load);
}
