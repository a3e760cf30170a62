//! A change of a part of a damaged block: the store goes on, the block stays damaged until all of it is written, the rest is what it is to be.

use crate::open::layout::{BLOCK, DATA};
use crate::tests::crash::rot::{ask, checkpoint};
use crate::{BlockStore, Config};
use disk::MemDisks;
use store::conformance::{object_coll, object_name};
use store::{ObjectStore, StoreError};
use types::Transaction;

const LENS: [u64; 3] = [16 << 20, 8 << 20, 8 << 20];

fn open(disks: &MemDisks) -> BlockStore {
    disks.restart();
    BlockStore::open(Config { memory: 1 << 20, spoils: true, ..Config::default() }, Box::new(disks.clone())).expect("it opens")
}
/// Which blocks of an object can be read: their first bytes.
fn blocks(store: &mut BlockStore, n: u64) -> Vec<Option<u8>> {
    let (coll, name) = (object_coll(0), object_name(n));
    let read = |store: &mut BlockStore, block: u64| match ask(store, |s| s.read(coll, &name, block * BLOCK, BLOCK)) {
        Ok(data) => Some(data.flat()[0]),
        Err(StoreError::Damaged { .. }) => None,
        Err(e) => panic!("{e}"),
    };
    (0..4).map(|block| read(store, block)).collect()
}
fn change(store: &mut BlockStore, f: impl FnOnce(&mut Transaction)) {
    let mut txn = Transaction::new(object_coll(0));
    f(&mut txn);
    store.submit(txn, None, 1).expect("it is taken");
    for _ in 0..1000 {
        store.turn_end();
        store.take_ready(&mut Vec::new());
        assert_eq!(store.failure(), None);
        if store.stats().idle {
            return;
        }
    }
    panic!("it never comes to rest");
}
/// A store with one object of four blocks, the second of which is damaged; and where that is.
fn damaged(can_be_read: bool) -> (MemDisks, u64) {
    let disks = MemDisks::new(&LENS);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    let mut store = open(&disks);
    let data: Vec<u8> = (1..5).flat_map(|n| vec![n; BLOCK as usize]).collect();
    change(&mut store, |txn| {
        txn.create_collection(object_coll(0), 0);
        // As the device is to have it, not the log.
        txn.write(&object_name(0), 0, vec![9; 60_000].into(), 0);
    });
    change(&mut store, |txn| txn.truncate(&object_name(0), 4 * BLOCK));
    change(&mut store, |txn| txn.write(&object_name(0), 0, data.into(), 0));
    checkpoint(&mut store).expect("a checkpoint");
    drop(store);
    disks.restart();
    let image = disks.image();
    let of = |n: u8| disks.written(DATA).into_iter().find(|at| image.block(DATA, *at).is_some_and(|b| b.iter().all(|b| *b == n)));
    let at = of(2).expect("the second block lies on the device");
    match can_be_read {
        true => disks.damage(DATA, at * BLOCK, |bytes| bytes[7] ^= 1),
        false => disks.make_bad(DATA, at, u32::MAX),
    }
    (disks, at)
}

#[test]
fn a_part_of_a_damaged_block_is_written_and_the_block_stays_damaged() {
    for can_be_read in [true, false] {
        let (disks, _) = damaged(can_be_read);
        let mut store = open(&disks);
        assert_eq!(blocks(&mut store, 0), [Some(1), None, Some(3), Some(4)]);
        change(&mut store, |txn| txn.write(&object_name(0), BLOCK + 100, vec![8; 2 * BLOCK as usize].into(), 0));
        for round in 0..3 {
            assert_eq!(blocks(&mut store, 0), [Some(1), None, Some(8), Some(8)], "round {round}");
            if round == 1 {
                checkpoint(&mut store).expect("a checkpoint");
            }
            store = open(&disks);
        }
        change(&mut store, |txn| txn.write(&object_name(0), BLOCK, vec![5; BLOCK as usize].into(), 0));
        assert_eq!(blocks(&mut open(&disks), 0), [Some(1), Some(5), Some(8), Some(8)]);
    }
}

/// Data of the log's last record lie beside it, and nothing says that they were durable: a start reads them. A block that can't be read is damaged,
/// while the record, the rest of its data and the store are not.
#[test]
fn data_of_the_last_record_that_cant_be_read_do_not_keep_the_store_from_opening() {
    for (in_a_row, times) in [(1, 1), (1, 3), (1, u32::MAX), (3, u32::MAX)] {
        let disks = MemDisks::new(&LENS);
        BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
        let mut store = open(&disks);
        change(&mut store, |txn| txn.create_collection(object_coll(0), 0));
        let data: Vec<u8> = (1..17).flat_map(|n| vec![n; BLOCK as usize]).collect();
        change(&mut store, |txn| txn.write(&object_name(0), 0, data.into(), 0));
        drop(store);
        disks.restart();
        let image = disks.image();
        let of = |n: u8| disks.written(DATA).into_iter().find(|at| image.block(DATA, *at).is_some_and(|b| b.iter().all(|b| *b == n)));
        let first = of(2).expect("the data lie at their place");
        (first..first + in_a_row).for_each(|at| disks.make_bad(DATA, at, times));
        let mut store = open(&disks);
        let wanted: Vec<Option<u8>> =
            (1..5).map(|n| (times < u32::MAX || !(2..2 + in_a_row).contains(&u64::from(n))).then_some(n)).collect();
        // What can be read at last is whole.
        let found = (0..4).map(|_| blocks(&mut store, 0)).last().expect("four looks");
        assert_eq!(found, wanted, "{in_a_row} blocks, for {times} times");
        change(&mut store, |txn| txn.write(&object_name(0), 0, vec![6; 4 * BLOCK as usize].into(), 0));
        assert_eq!(blocks(&mut open(&disks), 0), [Some(6); 4]);
    }
}

/// What was said of a block that could not be read for a while ends with a look at its object from the device, however many blocks are read at once there.
#[test]
fn a_verdict_on_a_block_ends_when_its_object_is_looked_at_anew() {
    for can_be_read in [true, false] {
        let (disks, at) = damaged(can_be_read);
        let mut store = open(&disks);
        assert_eq!(blocks(&mut store, 0), [Some(1), None, Some(3), Some(4)]);
        match can_be_read {
            true => disks.damage(DATA, at * BLOCK, |bytes| bytes[7] ^= 1),
            false => disks.make_bad(DATA, at, 0),
        }
        store.forget(object_coll(0), &object_name(0), 0, 4 * BLOCK);
        ask(&mut store, |s| s.read(object_coll(0), &object_name(0), 0, 4 * BLOCK)).expect("all of it");
        assert_eq!(blocks(&mut store, 0), [Some(1), Some(2), Some(3), Some(4)]);
    }
}

/// What is read wrong now may be read right by the next process: nothing is given up the first time.
#[test]
fn the_first_time_the_store_stops_and_nothing_is_spoiled() {
    let (disks, at) = damaged(false);
    let mut store = BlockStore::open(Config { memory: 1 << 20, ..Config::default() }, Box::new(disks.clone())).expect("it opens");
    let mut txn = Transaction::new(object_coll(0));
    txn.write(&object_name(0), BLOCK + 100, vec![8; 10].into(), 0);
    // Whether it is refused at once or the store stops later.
    let _ = store.submit(txn, None, 1);
    for _ in 0..100 {
        store.turn_end();
        store.take_ready(&mut Vec::new());
    }
    assert!(store.failure().is_some() && store.stopped_at_damage(), "{:?}", store.failure());
    drop(store);
    disks.make_bad(DATA, at, 0);
    assert_eq!(blocks(&mut open(&disks), 0), [Some(1), Some(2), Some(3), Some(4)]);
}

#[test]
fn what_shares_or_copies_a_damaged_block_has_it_damaged_too() {
    let (disks, _) = damaged(true);
    let mut store = open(&disks);
    let [a, b, c, d] = [0, 1, 2, 3].map(object_name);
    change(&mut store, |txn| txn.clone_object(&a, &b));
    // The place is shared: all of the cell moves.
    change(&mut store, |txn| txn.write(&a, 3 * BLOCK + 5, vec![6; 10].into(), 0));
    change(&mut store, |txn| txn.clone_range(&b, &c, 0, 4 * BLOCK, 0));
    change(&mut store, |txn| {
        txn.touch(&d);
        txn.clone_range(&b, &d, 0, 2 * BLOCK, 100);
    });
    store = open(&disks);
    for n in 0..3 {
        assert_eq!(blocks(&mut store, n), [Some(1), None, Some(3), Some(4)], "object {n}");
    }
    // What is copied to another offset is in two blocks.
    let read = |store: &mut BlockStore, at: u64| ask(store, |s| s.read(object_coll(0), &object_name(3), at, 10)).is_ok();
    assert_eq!([0, BLOCK, 2 * BLOCK].map(|at| read(&mut store, at)), [true, false, false]);
    change(&mut store, |txn| txn.write(&a, 0, vec![7; 4 * BLOCK as usize].into(), 0));
    assert_eq!(blocks(&mut store, 0), [Some(7); 4]);
}
