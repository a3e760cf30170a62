//! The suite that all stores pass.

use crate::MemStore;
use disk::LargeMemory;
use store::ObjectStore;
use store::conformance::{Subject, run};
use types::{CollId, GHObject, HObject, Transaction};

struct Memory;

impl Subject for Memory {
    fn fresh(&mut self) -> Box<dyn ObjectStore> {
        Box::new(MemStore::new(1 << 30))
    }
    fn small(&mut self, bytes: u64) -> Option<Box<dyn ObjectStore>> {
        Some(Box::new(MemStore::new(bytes)))
    }
    /// An OSD that starts again in the same process finds its store as it was.
    fn reopen(&mut self, store: Box<dyn ObjectStore>) -> Box<dyn ObjectStore> {
        store
    }
}

#[test]
fn conforms() {
    run(&mut Memory, 0..6);
}

#[test]
fn a_large_write_stays_in_the_memory_that_it_arrived_in() {
    const LEN: u64 = 4 << 20;
    let (coll, name) = (CollId::Meta, GHObject::plain(HObject::default()));
    let memory = LargeMemory::new(0);
    let mut store = MemStore::with_memory(1 << 30, memory.clone());
    let mut submit = |change: &dyn Fn(&mut Transaction)| {
        let mut txn = Transaction::new(coll);
        change(&mut txn);
        store.submit(txn, None, 1).unwrap();
        let fs = store.statfs();
        (fs.allocated, store.read(coll, &name, 0, LEN).map(|data| data.flat()).unwrap_or_default())
    };
    submit(&|txn| txn.create_collection(coll, 0));
    let arrived = |byte| {
        let mut buf = memory.take(LEN as usize).unwrap();
        buf.fill(byte);
        buf.freeze()
    };
    for byte in 1..4 {
        let data = arrived(byte);
        let (used, read) = submit(&|txn| txn.write(&name, 0, data.clone(), 0));
        assert_eq!((used, read.as_ptr(), read == data), (LEN as i64, data.as_ptr(), true));
    }
    // Copied as soon as more than half is gone; then nothing keeps the memory.
    let (used, read) = submit(&|txn| txn.truncate(&name, LEN / 2 - 1));
    assert_eq!((used, memory.holds(&read), read.len()), (LEN as i64 / 2 - 1, None, LEN as usize / 2 - 1));
    assert!(read.iter().all(|byte| *byte == 3));
}
