//! The suite that all stores pass, on devices in memory.

use crate::{BlockStore, Config};
use disk::{MemDisks, Order};
use store::conformance::{Shape, Subject, Workload, list_all, object_coll, object_name, run};
use store::{ObjectStore, OmapQuery, StoreError, StoreHints};
use types::Transaction;

/// Makes stores, and has the devices of the one that is open.
struct Block {
    disks: Option<MemDisks>,
    order: Order,
    unpacked: [u64; 3],
    memory: usize,
    seed: u64,
    /// Drives since the last checkpoint was asked for.
    drives: u64,
}

impl Block {
    fn make(&mut self, unpacked: [u64; 3]) -> Box<dyn ObjectStore> {
        let disks = MemDisks::new(&unpacked);
        BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
        self.disks = Some(disks);
        self.open()
    }
    fn open(&mut self) -> Box<dyn ObjectStore> {
        let disks = self.disks.clone().expect("there are devices");
        self.seed += 1;
        disks.set_order(self.order, self.seed);
        let config = Config { memory: self.memory, ..Config::default() };
        Box::new(BlockStore::open(config, Box::new(disks)).expect("it opens"))
    }
}

impl Subject for Block {
    fn fresh(&mut self) -> Box<dyn ObjectStore> {
        self.make(self.unpacked)
    }
    fn small(&mut self, bytes: u64) -> Option<Box<dyn ObjectStore>> {
        Some(self.make([bytes, 8 << 20, 4 << 20]))
    }
    fn reopen(&mut self, store: Box<dyn ObjectStore>) -> Box<dyn ObjectStore> {
        drop(store);
        self.disks.as_ref().expect("there are devices").restart();
        self.open()
    }
    fn drive(&mut self, store: &mut dyn ObjectStore) {
        self.drives += 1;
        store.turn_end();
    }
}

#[test]
fn conforms() {
    run(
        &mut Block { disks: None, order: Order::AtOnce, unpacked: [256 << 20, 64 << 20, 64 << 20], memory: 32 << 20, seed: 0, drives: 0 },
        0..4,
    );
}

#[test]
fn conforms_in_little_room_and_any_order() {
    run(
        &mut Block { disks: None, order: Order::Shuffled, unpacked: [64 << 20, 8 << 20, 16 << 20], memory: 256 << 10, seed: 0, drives: 0 },
        4..8,
    );
}

/// Many objects over a small log and little memory: rows spread over many leaves, checkpoints overlap with everything else.
#[test]
fn a_long_life_in_little_room() {
    for seed in 0..3 {
        long_life(seed, 1200);
    }
}

fn long_life(seed: u64, steps: u64) {
    let mut subject =
        Block { disks: None, order: Order::Shuffled, unpacked: [512 << 20, 16 << 20, 64 << 20], memory: 2 << 20, seed, drives: 0 };
    let shape = Shape { names: 3000, offset_max: 200_000, changes_max: 40 };
    let mut store = subject.fresh();
    let (mut load, first) = Workload::new(seed, shape);
    store.submit(first, None, 0).expect("a collection");
    let mut committed = 0;
    let mut tokens = Vec::new();
    for step in 1..=steps {
        let (home, txn) = load.next_txn();
        let touched: Vec<_> = txn.objects().take(2).cloned().collect();
        store.submit(txn, None, step).unwrap_or_else(|e| panic!("seed {seed}, step {step}: {e}"));
        store.turn_end();
        if step % 16 == 0 && load.model().colls.contains_key(&home) {
            touched.iter().for_each(|name| load.model().check_object(&mut subject, &mut *store, home, name));
        }
        if step % 400 == 0 {
            while committed < step {
                store.turn_end();
                store.take_commits(&mut tokens);
                for token in tokens.drain(..) {
                    assert!(token == committed || token == committed + 1, "in order");
                    committed = token;
                }
            }
            for again in [false, true] {
                if again {
                    store = subject.reopen(store);
                }
                for (id, coll) in &load.model().colls {
                    let names: Vec<_> = coll.objects.keys().cloned().collect();
                    let listed = list_all(&mut subject, &mut *store, *id, usize::MAX).expect("a listing");
                    let differs = (0..names.len().max(listed.len())).find(|i| names.get(*i) != listed.get(*i));
                    if let Some(i) = differs {
                        let there: std::collections::BTreeSet<_> = listed.iter().collect();
                        let missing: Vec<_> = names.iter().filter(|n| !there.contains(n)).take(5).collect();
                        let disorder: Vec<_> = listed.windows(2).filter(|w| w[0] >= w[1]).take(5).collect();
                        let around: Vec<_> = listed.iter().skip(i.saturating_sub(3)).take(8).collect();
                        println!("{around:?}\nmissing {missing:?}\ndisorder {disorder:?}");
                    }
                    assert!(
                        differs.is_none(),
                        "seed {seed}, step {step}, {id}: {} listed of {}; at {differs:?}: {:?}, not {:?}; reopened: {again}",
                        listed.len(),
                        names.len(),
                        differs.and_then(|i| listed.get(i)),
                        differs.and_then(|i| names.get(i))
                    );
                }
            }
            load.model().check(&mut subject, &mut *store);
        }
    }
}

/// What groups remember fills leaves of its own, and all of it is there after a checkpoint and a restart.
#[test]
fn many_groups_come_back() {
    use store::{InfoChange, LogDelta};
    use types::{PgId, PgInfo, SpgId, Transaction};
    for reset in [false, true] {
        let disks = MemDisks::new(&[16 << 20, 8 << 20, 8 << 20]);
        BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
        let mut store = BlockStore::open(Config::default(), Box::new(disks.clone())).expect("it opens");
        for seed in 0..100 {
            let pg = SpgId::whole(PgId::new(1, seed));
            let info = InfoChange::Full(Box::new(PgInfo::new(pg)));
            let delta = LogDelta { reset, epoch: Some(3), info, ..LogDelta::new(pg) };
            store.submit(Transaction::default(), Some(delta), u64::from(seed)).expect("a delta");
            store.turn_end();
        }
        store.checkpoint();
        while store.is_checkpointing() {
            store.turn_end();
        }
        drop(store);
        disks.restart();
        let store = BlockStore::open(Config::default(), Box::new(disks)).expect("it opens again");
        assert_eq!(store.pgs().map(|all| all.len()), Ok(100), "reset: {reset}");
    }
}

/// A change that must wait for bytes when a part of it is made is in no record before all of it is.
#[test]
fn a_range_is_copied_whole_or_not_at_all() {
    use store::conformance::{object_coll, object_name};
    use types::Transaction;
    let (coll, from, to) = (object_coll(0), object_name(0), object_name(2));
    let disks = MemDisks::new(&[16 << 20, 8 << 20, 8 << 20]);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    let open = |disks: &MemDisks| BlockStore::open(Config::default(), Box::new(disks.clone())).expect("it opens");
    let mut store = open(&disks);
    let mut txn = Transaction::new(coll);
    txn.create_collection(coll, 0);
    txn.write(&from, 0, vec![1; 100_000].into(), 0);
    // Twelve blocks: what goes beyond them has the cell moved.
    txn.write(&to, 0, vec![2; 12 * 4096].into(), 0);
    store.submit(txn, None, 1).expect("a transaction");
    store.checkpoint();
    while !store.stats().idle || store.is_checkpointing() {
        store.turn_end();
    }
    drop(store);

    let read = |store: &mut BlockStore| loop {
        match store.read(coll, &to, 0, u64::MAX) {
            Err(StoreError::Wait(_)) => store.turn_end(),
            other => break other.expect("bytes").flat(),
        }
    };
    let before = vec![2; 12 * 4096];
    let mut after = before.clone();
    after.resize(28_572 + 40_000, 0);
    after[28_572..].fill(1);
    disks.set_order(Order::Held, 0);
    let mut store = open(&disks);
    let mut txn = Transaction::new(coll);
    txn.clone_range(&from, &to, 5, 40_000, 28_572);
    store.submit(txn, None, 2).expect("a transaction");
    let mut seen = [false; 2];
    for _ in 0..100 {
        store.turn_end();
        let now = read(&mut open(&disks.copy()));
        assert!(now == before || now == after, "half a copy after a crash");
        seen[usize::from(now == after)] = true;
        disks.complete(1);
    }
    assert_eq!(seen, [true; 2]);
    disks.set_order(Order::AtOnce, 0);
    assert!(read(&mut store) == after);
}

/// Who waited for a block or a part of one gets it by his ticket, with the crc that a whole block has; once, and not if it is not what was written.
#[test]
fn what_was_waited_for_is_given_by_its_ticket() {
    let (coll, name, disks) = (object_coll(0), object_name(1), MemDisks::new(&[16 << 20, 8 << 20, 8 << 20]));
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    let open = || BlockStore::open(Config::default(), Box::new(disks.clone())).expect("it opens");
    let content: Vec<u8> = (0..3 * 4096_u32).map(|n| (n % 251) as u8).collect();
    let mut store = open();
    let mut txn = Transaction::new(coll);
    txn.create_collection(coll, 0);
    txn.write(&name, 0, content.clone().into(), 0);
    store.submit(txn, None, 1).expect("a transaction");
    store.checkpoint();
    while !store.stats().idle || store.is_checkpointing() {
        store.turn_end();
    }
    for (offset, len, is_given) in [(4096, 4096, true), (5000, 100, true), (8192, 10_000, true), (0, 8192, false)] {
        for is_damaged in [false, true] {
            if is_damaged {
                (1..4096).for_each(|block| disks.damage(crate::open::layout::DATA, block * 4096, |b| b[100] ^= 1));
            }
            let mut store = open();
            // First the object's record, then its bytes.
            let (mut tickets, mut data) = (Vec::new(), None);
            while data.is_none() {
                match store.read(coll, &name, offset, len) {
                    Err(StoreError::Wait(ticket)) => {
                        while !tickets.contains(&ticket) {
                            store.turn_end();
                            store.take_ready(&mut tickets);
                        }
                        data = store.take_read(ticket);
                    }
                    Ok(asked) if !is_given => data = Some(asked),
                    other => {
                        assert!(is_damaged && matches!(other, Err(StoreError::Damaged { .. })), "{other:?}");
                        break;
                    }
                }
                if is_damaged && is_given {
                    assert!(data.is_none(), "damage is not given");
                } else if is_damaged {
                    break;
                }
            }
            store.take_ready(&mut Vec::new());
            assert!(tickets.iter().all(|ticket| store.take_read(*ticket).is_none()), "each is given until the next are");
            if is_damaged {
                (1..4096).for_each(|block| disks.damage(crate::open::layout::DATA, block * 4096, |b| b[100] ^= 1));
                continue;
            }
            let expected = &content[offset as usize..content.len().min((offset + len) as usize)];
            let data = data.expect("it came");
            assert_eq!(data.flat(), expected);
            let crc = (expected.len() == 4096).then(|| base::crc32c(u32::MAX, expected));
            assert_eq!(data.crc(), crc);
            assert_eq!(store.read(coll, &name, offset, len).expect("it is here").crc(), crc, "and asked for again");
        }
    }
}

/// A store of an older or newer layout, or one of whose devices is of another, is refused in words, and left as it is.
#[test]
fn another_version_of_the_layout_is_refused() {
    use crate::open::layout::{DATA, META, OLDEST, VERSION, WAL};
    use disk::{BLOCK_BYTES, Dev};
    const LENS: [u64; 3] = [16 << 20, 8 << 20, 8 << 20];
    let disks = MemDisks::new(&LENS);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    let mut store = BlockStore::open(Config::default(), Box::new(disks.clone())).expect("it opens");
    let mut txn = types::Transaction::new(store::conformance::object_coll(0));
    txn.create_collection(store::conformance::object_coll(0), 0);
    txn.write(&store::conformance::object_name(0), 0, vec![1; 100_000].into(), 0);
    store.submit(txn, None, 1).expect("a transaction");
    store.turn_end();
    drop(store);
    disks.restart();
    let blocks = |disks: &MemDisks| -> Vec<_> {
        let image = disks.image();
        let of = |n: u8| (0..LENS[usize::from(n)] / BLOCK_BYTES as u64).map(move |b| (Dev(n), b));
        (0..3).flat_map(of).map(|(dev, block)| image.block(dev, block).cloned()).collect()
    };
    // Everything, one of the two superblocks as a program of that version left it, or a device that is not this store's.
    let everything = [(DATA, 0), (WAL, 0), (META, 0), (META, 1)];
    for slots in [&everything[..], &everything[2..3], &everything[3..], &everything[..1], &everything[1..2]] {
        for version in [OLDEST - 1, VERSION + 1, u32::MAX] {
            let other = disks.copy();
            for (dev, block) in slots {
                other.damage(*dev, block * BLOCK_BYTES as u64, |b| b[16..20].copy_from_slice(&version.to_le_bytes()));
            }
            let before = blocks(&other);
            let error = BlockStore::open(Config::default(), Box::new(other.clone())).expect_err("it is refused");
            assert!(matches!(error, crate::OpenError::Version(v) if v == version), "{error}");
            let said = error.to_string();
            assert!(said.contains(&format!("version {version}")) && said.contains(&format!("versions {OLDEST} to {VERSION}")), "{said}");
            assert!(blocks(&other) == before && other.traffic(META).writes == 0, "version {version} at {slots:?}: something was written");
        }
    }
    BlockStore::open(Config::default(), Box::new(disks)).expect("it opens where nothing was changed");
}

/// A store as version 1 left it, with a checkpoint and a log behind that: it opens, has what it had, and is of this version once it is finalized.
#[test]
fn a_store_of_version_1_goes_on_and_is_one_of_this_version_when_it_is_asked_for() {
    use crate::open::layout::{DATA, META, OLDEST, UNFINALIZED, VERSION, WAL};
    use disk::BLOCK_BYTES;
    use store::{InfoChange, LogDelta};
    use types::{EVersion, LogOp, OpReturn, PgId, PgInfo, PgLogDup, PgLogEntry, SpgId};
    let disks = MemDisks::new(&[16 << 20, 8 << 20, 8 << 20]);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    let pg = SpgId::whole(PgId::new(1, 3));
    let (mut token, mut log, mut dups) = (0, Vec::new(), Vec::new());
    // What an op of a vector returned is in no short row: these are as version 1 has all.
    let mut add = |store: &mut BlockStore, returned: Vec<OpReturn>| {
        token += 1;
        let version = EVersion::new(1, token);
        let soid = object_name(token).hobj;
        let entry = PgLogEntry { op: LogOp::MODIFY, soid, version, user_version: token, op_returns: returned, ..PgLogEntry::default() };
        let dup = PgLogDup { op_returns: entry.op_returns.clone(), ..entry.to_dup() };
        let info = if token > 1 { InfoChange::Same } else { InfoChange::Full(Box::new(PgInfo::new(pg))) };
        let delta = LogDelta { epoch: Some(1), info, entries: vec![entry.clone()], dups: vec![dup.clone()], ..LogDelta::new(pg) };
        store.submit(Transaction::new(object_coll(0)), Some(delta), token).expect("a transaction");
        store.turn_end();
        log.push(entry);
        dups.push(dup);
        (log.clone(), dups.clone())
    };
    let long = || vec![OpReturn { rval: 3, bl: vec![5; 20].into() }];
    let has = |store: &mut BlockStore, (log, dups): &(Vec<PgLogEntry>, Vec<PgLogDup>)| {
        let record = loop {
            match store.load_pg(pg) {
                Err(StoreError::Wait(_)) => store.turn_end(),
                other => break other.expect("it is whole").expect("there is one"),
            }
        };
        assert!(record.log.iter().eq(log) && record.dups.iter().eq(dups), "{:?} {:?}", record.log, record.dups);
    };
    let open = || {
        disks.restart();
        BlockStore::open(Config::default(), Box::new(disks.clone())).expect("it opens")
    };
    let mut store = open();
    (0..40).for_each(|_| drop(add(&mut store, long())));
    store.checkpoint();
    while store.is_checkpointing() {
        store.turn_end();
    }
    let expected = (0..40).map(|_| add(&mut store, long())).last().expect("there are some");
    drop(store);
    for (dev, block) in [(DATA, 0), (WAL, 0), (META, 0), (META, 1)] {
        disks.damage(dev, block * BLOCK_BYTES as u64, |b| b[16..20].copy_from_slice(&OLDEST.to_le_bytes()));
    }
    let mut store = open();
    let versions = || {
        let image = disks.image();
        [(WAL, 0), (META, 0), (META, 1)].map(|(dev, block)| image.block(dev, block).map_or(0, |b| u32::from(b[16])))
    };
    let now = versions();
    assert!(now[0] == OLDEST && now[1..].contains(&UNFINALIZED) && !store.is_final(), "{now:?}");
    has(&mut store, &expected);
    let expected = (0..40).map(|_| add(&mut store, Vec::new())).last().expect("there are some");
    has(&mut store, &expected);
    store = open();
    has(&mut store, &expected);
    store.checkpoint();
    while store.is_checkpointing() {
        store.turn_end();
    }
    has(&mut store, &expected);
    store = open();
    has(&mut store, &expected);
    assert!(store.finalize() == Ok(true) && store.finalize() == Ok(false) && store.is_final());
    assert_eq!(versions()[1..], [VERSION; 2], "either superblock may be lost");
    has(&mut store, &expected);
    assert!(open().is_final());
    has(&mut open(), &expected);
}

/// Behind a record that was acknowledged come two of the largest ones, and then the first that knows that it was durable. When it is damaged,
/// that is not the log's end.
#[test]
fn damage_in_front_of_giant_records_is_damage() {
    /// Images of the largest record, and of one that is nearly as large as a record that is not gathered any more.
    const GIANT: u64 = 3584;
    const LARGE: u64 = 250;
    let disks = MemDisks::new(&[16 << 30, 256 << 20, 512 << 20]);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    let config = Config { memory: 1 << 30, pipeline: 16, ..Config::default() };
    let mut store = BlockStore::open(config.clone(), Box::new(disks.clone())).expect("it opens");
    disks.set_order(Order::Held, 0);
    let coll = object_coll(0);
    // The first record of all: where it is, is known.
    let mut first = Transaction::new(coll);
    first.create_collection(coll, 0);
    first.write(&object_name(0), 0, vec![1; GIANT as usize * 4096].into(), 0);
    let mut token = 0;
    let mut submit = |store: &mut BlockStore, txn: Transaction| {
        token += 1;
        store.submit(txn, None, token).expect("there is room");
        token
    };
    let blocks = |fill: u8, blocks: u64| {
        let mut txn = Transaction::new(coll);
        (0..blocks).for_each(|n| txn.write(&object_name(0), n * 4096, vec![fill; 4096].into(), 0));
        txn
    };
    submit(&mut store, first);
    store.turn_end();
    for giant in 0..2 {
        // A record is gathered until it has a MiB; the transaction that comes then may be as large as any.
        submit(&mut store, blocks(2 * giant, LARGE));
        submit(&mut store, blocks(2 * giant + 1, GIANT));
        store.turn_end();
    }
    let settle = |store: &mut BlockStore, last: u64| {
        let mut tokens = Vec::new();
        while tokens.last() != Some(&last) {
            disks.complete(1);
            store.turn_end();
            store.take_commits(&mut tokens);
        }
    };
    settle(&mut store, 5);
    let last = submit(&mut store, blocks(9, 1));
    settle(&mut store, last);
    drop(store);
    disks.restart();
    disks.set_order(Order::AtOnce, 0);
    let whole = BlockStore::open(config.clone(), Box::new(disks.copy())).expect("it opens");
    assert!(whole.stats().log_used > 2 * (GIANT + LARGE), "the records were not as large as they could be");
    disks.damage(crate::open::layout::WAL, 4096, |block| block[100] ^= 1);
    let error = BlockStore::open(config, Box::new(disks.clone())).expect_err("an acknowledged record is damaged");
    assert!(error.to_string().contains("record 1 is missing"), "{error}");
}

/// Omaps are cloned that are far larger than memory, and than any transaction was allowed to be once.
#[test]
fn omaps_of_any_size_are_cloned() {
    let mut subject =
        Block { disks: None, order: Order::Shuffled, unpacked: [16 << 20, 8 << 20, 64 << 20], memory: 64 << 10, seed: 1, drives: 0 };
    let mut store = subject.fresh();
    let coll = object_coll(0);
    let settle = |store: &mut dyn ObjectStore| {
        let mut done = Vec::new();
        while done.is_empty() {
            store.turn_end();
            store.take_commits(&mut done);
        }
    };
    let mut first = Transaction::new(coll);
    first.create_collection(coll, 0);
    store.submit(first, None, 0).expect("a collection");
    settle(&mut *store);
    let sizes = [(0, 15_000_u32), (1, 40_000)];
    for (n, keys) in sizes {
        for page in 0..keys / 500 {
            let mut txn = Transaction::new(coll);
            txn.touch(&object_name(n));
            let row = |i: u32| (format!("key {i:08}").into(), vec![i as u8; 180].into());
            txn.omap_set_keys(&object_name(n), (page * 500..(page + 1) * 500).map(row).collect());
            store.submit(txn, None, 0).expect("there is room");
            settle(&mut *store);
        }
    }
    let before = store.compact();
    let behind = store.compact();
    assert!(!store.is_compacted(before), "what changed is not in the metadata yet");
    let mut turns = 0;
    while !store.is_compacted(behind) {
        store.turn_end();
        turns += 1;
        assert!(turns < 1_000_000, "it ends by itself");
    }
    assert!(store.is_compacted(before));
    let mut store = subject.reopen(store);
    for (n, _) in sizes {
        let mut txn = Transaction::new(coll);
        txn.clone_object(&object_name(n), &object_name(n + 2));
        txn.omap_rm_keys(&object_name(n), vec!["key 00000007".into()]);
        store.submit(txn, None, 0).expect("there is room");
        settle(&mut *store);
    }
    let mut store = subject.reopen(store);
    let count = |store: &mut dyn ObjectStore, n: u64| {
        let (mut seen, mut after) = (0, Vec::new());
        loop {
            match store.omap_list(coll, &object_name(n), &OmapQuery { start_after: &after, entries_max: 500, ..OmapQuery::default() }) {
                Err(StoreError::Wait(_)) => store.turn_end(),
                page => {
                    let page = page.expect("it is whole");
                    seen += page.entries.len() as u32;
                    after = page.entries.last().map_or(after, |(key, _)| key.as_slice().to_vec());
                    if !page.more {
                        return seen;
                    }
                }
            }
        }
    };
    for (n, keys) in sizes {
        assert_eq!((count(&mut *store, n), count(&mut *store, n + 2)), (keys - 1, keys), "keys of object {n} and its clone");
    }
}
