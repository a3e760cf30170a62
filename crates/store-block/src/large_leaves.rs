//! Leaves of some hundred KiB each, of objects with as many attributes as clients may set: a check with far less memory than those take comes to
//! its end.

use crate::{BlockStore, Config};
use bytes::Bytes;
use disk::{MemDisks, Order};
use store::ObjectStore;
use store::conformance::object_coll;
use types::{ByteStr, CEPH_NOSNAP, GHObject, HObject, Transaction};

const OBJECTS: u32 = 16;
const ATTRS: u32 = 12;

fn open(disks: &MemDisks) -> BlockStore {
    let config = Config { memory: 8 << 20, ..Config::default() };
    BlockStore::open(config, Box::new(disks.clone())).expect("it starts")
}
fn settle(store: &mut BlockStore) {
    while !store.stats().idle || store.is_checkpointing() {
        store.turn_end();
        assert_eq!(store.failure(), None);
    }
}

#[test]
fn fsck_ends_with_leaves_larger_than_its_memory() {
    let disks = MemDisks::new(&[24 << 20, 16 << 20, 64 << 20]);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    disks.set_order(Order::AtOnce, 1);
    let mut store = open(&disks);
    let mut txn = Transaction::new(object_coll(0));
    txn.create_collection(object_coll(0), 0);
    store.submit(txn, None, 1).expect("it is taken");
    for n in 0..OBJECTS * ATTRS {
        let (object, attr) = (n % OBJECTS, n / OBJECTS);
        let oid = format!("object {object}").as_str().into();
        let name = GHObject::plain(HObject { oid, pool: 1, hash: object.wrapping_mul(0x9e37_79b9), snap: CEPH_NOSNAP, ..HObject::default() });
        let mut txn = Transaction::new(object_coll(0));
        txn.touch(&name);
        txn.set_attrs(&name, vec![(ByteStr::from(format!("_a{attr}").as_bytes()), Bytes::from(vec![attr as u8; 64 << 10]))]);
        store.submit(txn, None, 2 + u64::from(n)).expect("it is taken");
        settle(&mut store);
    }
    store.checkpoint();
    settle(&mut store);
    drop(store);
    disks.restart();
    let mut store = open(&disks);
    settle(&mut store);
    for deep in [false, true] {
        let report = store.fsck(deep);
        assert!(report.is_clean(), "{:?}", report.errors);
    }
}
