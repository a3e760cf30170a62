//! Two records of one number in the log: one that a start did not count, at the ring's end, and the next epoch's, which did not fit there and lies
//! at the front. Starts that follow know of the one that did not count by nothing but the other.

use crate::open::layout::{BLOCK, DATA};
use crate::planted::{Bug, with};
use crate::{BlockStore, Config};
use disk::MemDisks;
use store::conformance::{object_coll, object_name};
use store::{ObjectStore, StoreError};
use types::Transaction;

fn open(disks: &MemDisks) -> BlockStore {
    disks.restart();
    BlockStore::open(Config::default(), Box::new(disks.clone())).expect("it opens")
}
/// One transaction, a record of its own.
fn add(store: &mut BlockStore, change: impl FnOnce(&mut Transaction)) {
    let mut txn = Transaction::new(object_coll(0));
    change(&mut txn);
    store.submit(txn, None, 1).expect("there is room");
    while !store.stats().idle || store.is_checkpointing() {
        store.turn_end();
    }
}
fn read(store: &mut BlockStore, n: u64) -> Option<Vec<u8>> {
    loop {
        match store.read(object_coll(0), &object_name(n), 0, 4096) {
            Err(StoreError::Wait(_)) => store.turn_end(),
            Err(StoreError::NoObject(_)) => return None,
            other => return Some(other.expect("it is whole").pieces().flat_map(|piece| piece.to_vec()).collect()),
        }
    }
}

/// What two starts in a row make of the later record.
fn two_starts() -> [Option<Vec<u8>>; 2] {
    let disks = MemDisks::new(&[4 << 20, 1 << 20, 1 << 20]);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    let mut store = open(&disks);
    add(&mut store, |txn| {
        txn.create_collection(object_coll(0), 0);
        txn.write(&object_name(0), 0, vec![1; 16 << 10].into(), 0);
    });
    // One block is left until the ring's end.
    let end = store.stats().log_blocks - 1;
    while store.stats().wrote.log < end {
        add(&mut store, |txn| txn.nop());
        if store.stats().wrote.log == end - 10 {
            store.checkpoint();
        }
    }
    let before = disks.image();
    add(&mut store, |txn| txn.write(&object_name(1), 0, vec![2; 4096].into(), 0));
    assert_eq!(store.stats().wrote.log, end + 1, "the record fits in");
    drop(store);
    // A power cut took the data beside it.
    let after = disks.image();
    let is_new = |block: &u64| before.block(DATA, *block) != after.block(DATA, *block);
    let block = (0..after.len_bytes(DATA) / BLOCK).find(is_new).expect("the data are there");
    disks.damage(DATA, block * BLOCK, |bytes| bytes.fill(0));
    let mut store = open(&disks);
    assert_eq!(read(&mut store, 1), None, "without its data, the record does not count");
    // An image is a block more than there is room for.
    add(&mut store, |txn| txn.write(&object_name(0), 0, vec![3; 4096].into(), 0));
    drop(store);
    [(); 2].map(|()| read(&mut open(&disks), 0))
}

#[test]
fn the_later_epochs_record_counts() {
    let now = Some(vec![3; 4096]);
    assert_eq!(two_starts(), [now.clone(), now.clone()]);
    assert_eq!(with(Bug::TakeLeftBehind, two_starts), [now, Some(vec![1; 4096])], "else what was acknowledged is lost at the second start");
}
