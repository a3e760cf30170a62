//! Cells of an object in several places: a block beside what clones share, and pieces where no run is long enough. Tests alone.

use crate::open::layout::{BLOCK, CHUNK, DATA, WAL};
use crate::{BlockStore, Config};
use base::Rng;
use disk::{MemDisks, Order};
use store::conformance::{object_coll, object_name};
use store::{ObjectStore, StoreError};
use types::{GHObject, Transaction};

const LENS: [u64; 3] = [32 << 20, 8 << 20, 4 << 20];

struct Subject {
    disks: MemDisks,
    store: BlockStore,
    token: u64,
}

fn open(disks: &MemDisks) -> BlockStore {
    disks.restart();
    disks.set_order(Order::AtOnce, 1);
    BlockStore::open(Config { memory: 8 << 20, ..Config::default() }, Box::new(disks.clone())).expect("it opens")
}
fn clone(n: u64) -> GHObject {
    object_name(100 + n)
}

impl Subject {
    fn new(is_final: bool) -> Self {
        let disks = MemDisks::new(&LENS);
        let make = if is_final { BlockStore::mkfs } else { BlockStore::mkfs_before };
        make(Box::new(disks.clone()), [7; 16]).expect("a store");
        let mut subject = Self { store: open(&disks), disks, token: 0 };
        assert_eq!(subject.store.is_final(), is_final);
        subject.submit(|txn| txn.create_collection(object_coll(0), 0)).expect("there is room");
        subject
    }
    fn submit(&mut self, fill: impl FnOnce(&mut Transaction)) -> Result<(), StoreError> {
        let mut txn = Transaction::new(object_coll(0));
        fill(&mut txn);
        self.token += 1;
        loop {
            match self.store.submit(txn.clone(), None, self.token) {
                Err(StoreError::Wait(_)) => self.store.turn_end(),
                other => break other?,
            }
        }
        self.settle();
        Ok(())
    }
    fn settle(&mut self) {
        while !self.store.stats().idle || self.store.is_checkpointing() {
            self.store.turn_end();
            assert_eq!(self.store.failure(), None);
        }
    }
    fn checkpoint(&mut self) {
        self.store.checkpoint();
        self.settle();
    }
    fn read(&mut self, name: &GHObject) -> Vec<u8> {
        loop {
            match self.store.read(object_coll(0), name, 0, u64::MAX) {
                Err(StoreError::Wait(_)) => self.store.turn_end(),
                other => break other.expect("it is there").flat().to_vec(),
            }
        }
    }
    fn check(&mut self, name: &GHObject, expected: &[u8]) {
        assert!(self.read(name) == expected, "{name:?}");
    }
    fn check_all(&mut self) {
        let report = self.store.fsck(true);
        assert!(report.is_clean(), "{:?}", report.errors);
    }
    /// Blocks that went to the data device and the log since.
    fn wrote(&self) -> u64 {
        (self.disks.traffic(DATA).written_bytes + self.disks.traffic(WAL).written_bytes) / BLOCK
    }
}

/// Snapshots come, each with a block written after it; then they go. What clones have stays, and a small write is a small write.
#[test]
fn a_block_beside_what_clones_share_is_all_that_is_written() {
    for is_final in [true, false] {
        let mut s = Subject::new(is_final);
        let mut head = vec![1; 2 * CHUNK as usize];
        s.submit(|txn| txn.write(&object_name(0), 0, head.clone().into(), 0)).expect("there is room");
        let (mut models, mut most) = (Vec::new(), 0);
        for n in 1..=20u64 {
            let (at, data) = ((n * 5 % 16) * BLOCK, vec![(n % 251) as u8 + 1; BLOCK as usize]);
            s.submit(|txn| txn.clone_object(&object_name(0), &clone(n))).expect("there is room");
            models.push(head.clone());
            s.checkpoint();
            let before = s.wrote();
            s.submit(|txn| txn.write(&object_name(0), at, data.clone().into(), 0)).expect("there is room");
            head[at as usize..(at + BLOCK) as usize].copy_from_slice(&data);
            // Until the cell has too many places; then it is moved to one.
            if n <= 7 {
                most = most.max(s.wrote() - before);
            }
            if n % 6 == 0 {
                s.store = open(&s.disks);
            }
        }
        assert!(most <= if is_final { 4 } else { 24 } && (is_final || most > 8), "{most} blocks for one, final: {is_final}");
        // Parts of blocks, zeros and a cut, over the edges of places.
        s.submit(|txn| {
            txn.write(&object_name(0), 3 * BLOCK + 100, vec![77; 3 * BLOCK as usize].into(), 0);
            txn.zero(&object_name(0), 9 * BLOCK, 2 * BLOCK);
            txn.truncate(&object_name(0), CHUNK + 5000);
        })
        .expect("there is room");
        head[3 * BLOCK as usize + 100..6 * BLOCK as usize + 100].fill(77);
        head[9 * BLOCK as usize..11 * BLOCK as usize].fill(0);
        head.truncate(CHUNK as usize + 5000);
        for _ in 0..2 {
            s.check(&object_name(0), &head);
            for (n, model) in (1..).zip(&models) {
                s.check(&clone(n), model);
            }
            s.check_all();
            s.store = open(&s.disks);
        }
        // The head is rolled back; then all clones go, in any order.
        s.submit(|txn| {
            txn.remove(&object_name(0));
            txn.clone_object(&clone(9), &object_name(0));
        })
        .expect("there is room");
        for n in [20, 1, 9, 3, 2, 19, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18] {
            s.submit(|txn| txn.remove(&clone(n))).expect("what removes is never refused");
        }
        s.checkpoint();
        s.check(&object_name(0), &models[8]);
        s.check_all();
        let used = s.store.statfs().allocated;
        assert!(used <= 2 * CHUNK as i64 * 3 / 2, "{used} bytes for two cells");
        s.submit(|txn| txn.remove(&object_name(0))).expect("what removes is never refused");
        assert_eq!(s.store.statfs().allocated, 0);
    }
}

/// Whatever was removed, what is free takes what comes, and gives back what was put there.
#[test]
fn what_is_free_takes_any_size() {
    for seed in 0..4 {
        let (mut s, mut rng) = (Subject::new(true), Rng::new(seed));
        let (mut there, mut next) = (Vec::new(), 0u64);
        for round in 0..3 {
            let blocks_max = [4, 10, 40][(round + seed as usize) % 3];
            loop {
                let len = BLOCK * (1 + rng.below(blocks_max));
                let (name, byte) = (object_name(next), next as u8);
                match s.submit(|txn| txn.write(&name, 0, vec![byte; len as usize].into(), 0)) {
                    Ok(()) => there.push((next, len)),
                    Err(StoreError::Full) => break,
                    Err(e) => panic!("seed {seed}: {e}"),
                }
                next += 1;
            }
            let fs = s.store.statfs();
            let used = 1.0 - fs.available as f64 / fs.total as f64;
            assert!(used > 0.92, "seed {seed}, round {round}: refused at {used:.3}");
            s.store = open(&s.disks);
            let all = std::mem::take(&mut there);
            for (n, len) in all {
                if rng.chance(1, 2) {
                    s.check(&object_name(n), &vec![n as u8; len as usize]);
                    there.push((n, len));
                } else {
                    s.submit(|txn| txn.remove(&object_name(n))).expect("what removes is never refused");
                }
            }
            s.checkpoint();
            s.check_all();
        }
    }
}

/// Those that wait are promised what they need: by a chunk for each, a third of these would be refused by a store that is nearly empty.
#[test]
fn hundreds_of_small_ones_may_wait() {
    const WAITING: u64 = 1500;
    let (mut s, data) = (Subject::new(true), |n: u64| vec![(n % 251) as u8 + 1; BLOCK as usize]);
    s.submit(|txn| txn.write(&object_name(0), 0, data(0).into(), 0)).expect("there is room");
    s.checkpoint();
    s.store = open(&s.disks);
    s.disks.set_order(Order::Held, 1);
    for n in 0..WAITING {
        let mut txn = Transaction::new(object_coll(0));
        if n == 0 {
            // A part of a block: the rest is read, and the others wait behind it.
            txn.write(&object_name(n), 100, vec![1; 10].into(), 0);
        } else {
            txn.truncate(&object_name(n), 0);
            txn.write(&object_name(n), 0, data(n).into(), 0);
        }
        s.token += 1;
        s.store.submit(txn, None, s.token).unwrap_or_else(|e| panic!("{n} wait: {e}"));
    }
    assert_eq!(s.store.statfs().allocated, BLOCK as i64, "none of them is made");
    s.disks.set_order(Order::AtOnce, 1);
    s.settle();
    (0..WAITING).for_each(|n| s.check(&object_name(n), &data(n)));
    s.checkpoint();
    s.check_all();
}

/// Objects that those which wait make larger are written to by others that wait: each is promised what it takes when its turn comes, though
/// the object has a block now, and will lie in as many places as a cell can have. ([`crate::data::queue`] looks at each that is made.)
#[test]
fn what_waits_counts_with_what_waits_before_it() {
    for seed in 0..6 {
        let (mut s, mut rng) = (Subject::new(true), Rng::new(seed));
        let data = |byte: u64, blocks: u64| vec![(byte % 251) as u8 + 1; (blocks * BLOCK) as usize];
        // A full store, then gaps of a few blocks.
        let mut there = Vec::new();
        for n in 10.. {
            let blocks = 1 + rng.below(3);
            match s.submit(|txn| txn.write(&object_name(n), 0, data(n, blocks).into(), 0)) {
                Ok(()) => there.push(n),
                Err(e) => {
                    assert!(matches!(e, StoreError::Full), "seed {seed}: {e}");
                    break;
                }
            }
        }
        there.retain(|n| rng.chance(3, 4) || s.submit(|txn| txn.remove(&object_name(*n))).is_err());
        let mut models: Vec<Vec<u8>> = (0..4).map(|n| data(n, 1)).collect();
        for (n, model) in (0..).zip(&models) {
            s.submit(|txn| txn.write(&object_name(n), 0, model.clone().into(), 0)).expect("there is room");
        }
        s.checkpoint();
        s.store = open(&s.disks);
        (0..4).for_each(|n| s.check(&object_name(n), &models[n as usize]));
        // A part of a block that is not in memory: the others wait behind it.
        s.disks.set_order(Order::Held, 1);
        let mut first = Transaction::new(object_coll(0));
        first.write(&object_name(there[0]), 100, vec![1; 10].into(), 0);
        s.token += 1;
        s.store.submit(first, None, s.token).expect("there is room");
        let (mut waiting, mut is_full) = (0, false);
        while !is_full && waiting < 4000 {
            let n = rng.below(4);
            let (at, blocks) = if rng.chance(1, 12) { (0, 16) } else { (rng.below(if waiting < 20 { 1 } else { 16 }), 1) };
            let bytes = data(waiting, blocks);
            let mut txn = Transaction::new(object_coll(0));
            txn.write(&object_name(n), at * BLOCK, bytes.clone().into(), 0);
            s.token += 1;
            match s.store.submit(txn, None, s.token) {
                Ok(()) => {
                    let (model, end) = (&mut models[n as usize], ((at + blocks) * BLOCK) as usize);
                    model.resize(model.len().max(end), 0);
                    model[(at * BLOCK) as usize..end].copy_from_slice(&bytes);
                    waiting += 1;
                }
                Err(StoreError::Full) => is_full = true,
                Err(e) => panic!("seed {seed}: {e}"),
            }
        }
        assert!(is_full && waiting > 40, "seed {seed}: {waiting} wait");
        s.disks.set_order(Order::AtOnce, 1);
        s.settle();
        (0..4).for_each(|n| s.check(&object_name(n), &models[n as usize]));
        s.checkpoint();
        s.check_all();
    }
}

/// An object that is removed, or renamed away, before the same transaction writes to its name has no cell to write within: what comes gets
/// a whole one.
#[test]
fn what_goes_before_it_is_written_to_is_promised_a_new_cell() {
    let (mut s, data) = (Subject::new(true), |n: u64, blocks: u64| vec![(n % 251) as u8 + 1; (blocks * BLOCK) as usize]);
    // A store with a little room: promises are by blocks there.
    let mut there = Vec::new();
    for n in 10.. {
        match s.submit(|txn| txn.write(&object_name(n), 0, data(n, 15).into(), 0)) {
            Ok(()) => there.push(n),
            Err(e) => {
                assert!(matches!(e, StoreError::Full), "{e}");
                break;
            }
        }
    }
    let (few, rest) = there.split_at(there.len() / 8);
    few.iter().for_each(|n| s.submit(|txn| txn.remove(&object_name(*n))).expect("what removes is never refused"));
    s.checkpoint();
    let at = 5 * BLOCK + 100;
    let removed = object_name(rest[0]);
    s.submit(|txn| {
        txn.remove(&removed);
        txn.write(&removed, at, vec![7; 10].into(), 0);
    })
    .expect("there is room");
    let (from, to) = (object_name(rest[1]), object_name(1));
    s.submit(|txn| {
        txn.try_rename(&from, &to);
        txn.write(&from, at, vec![7; 10].into(), 0);
    })
    .expect("there is room");
    let written = [vec![0; at as usize], vec![7; 10]].concat();
    s.check(&removed, &written);
    s.check(&from, &written);
    s.check(&to, &data(rest[1], 15));
    s.check_all();
}
