//! What can't be read when a store is opened: a superblock, a block of the log or beside it.

use crate::data::io::Io;
use crate::open::layout::{META, WAL};
use crate::open::recover::superblock;
use crate::tests::crash::rot::ask;
use crate::{BlockStore, Config};
use disk::MemDisks;
use store::ObjectStore;
use store::conformance::{object_coll, object_name};

/// A superblock that can't be read is as one that is torn: the store opens with the other one. With neither, the device is named.
#[test]
fn one_superblock_that_can_not_be_read_keeps_no_store_away() {
    let disks = MemDisks::new(&[16 << 20, 8 << 20, 8 << 20]);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    // Opening writes one of the two, in turn: each is the newest one once.
    for round in 0..4u64 {
        let mut store = BlockStore::open(Config::default(), Box::new(disks.clone())).expect("it opens");
        let mut txn = types::Transaction::new(object_coll(0));
        if round == 0 {
            txn.create_collection(object_coll(0), 0);
        }
        txn.write(&object_name(round), 0, vec![1; 10_000].into(), 0);
        store.submit(txn, None, 1).expect("a transaction");
        store.turn_end();
        drop(store);
        disks.restart();
        let epoch = |disks: &MemDisks| superblock(&mut Io::new(Box::new(disks.clone()))).expect("a root")[0].epoch;
        // For good, or just once: what opening has read counts, not what could be read later.
        for (slot, times) in [(0, u32::MAX), (1, u32::MAX), (0, 1), (1, 1)] {
            let other = disks.copy();
            other.make_bad(META, slot, times);
            let mut store =
                BlockStore::open(Config::default(), Box::new(other.clone())).unwrap_or_else(|e| panic!("round {round}, slot {slot}: {e}"));
            assert!(epoch(&other) > epoch(&disks), "round {round}, slot {slot}: the epoch of a lost superblock comes again");
            let there = ask(&mut store, |s| s.exists(object_coll(0), &object_name(round)));
            assert!(there.expect("an answer"), "round {round}, slot {slot}: the newest object is gone");
            assert!(store.fsck(false).is_clean(), "round {round}, slot {slot}");
        }
        let other = disks.copy();
        [0, 1].into_iter().for_each(|slot| other.make_bad(META, slot, u32::MAX));
        let error = BlockStore::open(Config::default(), Box::new(other)).expect_err("there is no root");
        assert!(error.to_string().contains("device 2: reading"), "{error}");
    }
}

/// A block of the log that can't be read may be a record's: that is no end of the log, and what to do is said. Elsewhere it keeps nothing away.
#[test]
fn a_log_that_can_not_be_read_does_not_just_end() {
    let disks = MemDisks::new(&[16 << 20, 8 << 20, 8 << 20]);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    let mut store = BlockStore::open(Config::default(), Box::new(disks.clone())).expect("it opens");
    let before = disks.traffic(WAL).written_bytes;
    for n in 0..3u64 {
        let mut txn = types::Transaction::new(object_coll(0));
        if n == 0 {
            txn.create_collection(object_coll(0), 0);
        }
        txn.write(&object_name(n), 0, vec![1; 100].into(), 0);
        store.submit(txn, None, n + 1).expect("a transaction");
        store.turn_end();
    }
    assert!(disks.traffic(WAL).written_bytes > before, "the log has them");
    drop(store);
    disks.restart();
    let (mut refused, mut repaired) = (0, 0);
    for block in disks.written(WAL).into_iter().skip(1) {
        let other = disks.copy();
        other.make_bad(WAL, block, u32::MAX);
        let open = |cut_log| BlockStore::open(Config { cut_log, salvage: cut_log, ..Config::default() }, Box::new(other.clone()));
        match open(false) {
            Ok(mut store) => {
                let there = |n| ask(&mut store, |s| s.exists(object_coll(0), &object_name(n))).expect("an answer");
                assert!((0..3).map(there).all(|there| there), "block {block}: it opens without what it had");
            }
            Err(error) => {
                refused += 1;
                let said = error.to_string();
                assert!(said.contains("the log is damaged") && said.contains("repair --discard-log-from-damage"), "{said}");
                drop(open(true).unwrap_or_else(|e| panic!("block {block}: it is not repaired: {e}")));
                open(false).unwrap_or_else(|e| panic!("block {block}: it does not open when it is repaired: {e}"));
                repaired += 1;
            }
        }
    }
    assert!(refused >= 3 && refused == repaired, "{refused} refused, {repaired} repaired");
}
