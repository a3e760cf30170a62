//! An index that lies in more pieces than a superblock has room for has a list of them: it is found again, freed when it isn't needed any more, and
//! its damage is told.
//!
//! Every store of the tests meets such lists, since there two pieces are too many
//! ([`crate::open::superblock::EXTENTS_MAX`]): crash states and rot, too.

use crate::open::layout::{META, ON_DATA};
use crate::open::superblock::EXTENTS_MAX;
use crate::{BlockStore, Config};
use bytes::Bytes;
use disk::{MemDisks, Order};
use store::conformance::{object_coll, object_name};
use store::{ObjectStore, StoreError};
use types::Transaction;

const OBJECTS: u64 = 6000;

struct Subject {
    disks: MemDisks,
    store: BlockStore,
    token: u64,
}

impl Subject {
    fn new() -> Self {
        let disks = MemDisks::new(&[48 << 20, 8 << 20, 1 << 20]);
        BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
        disks.set_order(Order::AtOnce, 1);
        let mut subject = Self { store: Self::open(&disks).expect("it opens"), disks, token: 0 };
        subject.submit(|txn| txn.create_collection(object_coll(0), 0));
        subject
    }
    fn open(disks: &MemDisks) -> Result<BlockStore, String> {
        disks.restart();
        let store = BlockStore::open(Config { memory: 8 << 20, ..Config::default() }, Box::new(disks.clone()));
        disks.set_order(Order::AtOnce, 1);
        store.map_err(|e| e.to_string())
    }
    fn submit(&mut self, fill: impl FnOnce(&mut Transaction)) {
        let mut txn = Transaction::new(object_coll(0));
        fill(&mut txn);
        self.token += 1;
        self.store.submit(txn, None, self.token).expect("there is room");
        if self.token.is_multiple_of(16) {
            self.settle();
        }
    }
    fn settle(&mut self) {
        loop {
            self.store.turn_end();
            assert_eq!(self.store.failure(), None);
            if self.store.stats().idle && !self.store.is_checkpointing() {
                return;
            }
        }
    }
    fn checkpoint(&mut self) {
        self.settle();
        self.store.checkpoint();
        self.settle();
    }
    /// Pieces of the index, and of their list.
    fn pieces(&self) -> (usize, usize) {
        let [index, list] = self.store.index_runs();
        (index.len(), list.len())
    }
    fn value(n: u64) -> Bytes {
        vec![n as u8; 300 + (n % 700) as usize].into()
    }
    fn check(&mut self, range: std::ops::Range<u64>) {
        let report = self.store.fsck(false);
        assert!(report.is_clean(), "{:?}", report.errors);
        for n in range {
            let attr = loop {
                match self.store.attr(object_coll(0), &object_name(n), b"a") {
                    Err(StoreError::Wait(_)) => self.settle(),
                    other => break other,
                }
            };
            assert_eq!(attr, Ok(Some(Self::value(n))), "object {n}");
        }
    }
}

#[test]
fn an_index_in_many_pieces_has_a_list() {
    let mut subject = Subject::new();
    subject.checkpoint();
    assert_eq!(subject.pieces(), (1, 0));
    for n in 0..OBJECTS {
        subject.submit(|txn| {
            txn.touch(&object_name(n));
            txn.set_attr(&object_name(n), "a", Subject::value(n));
        });
    }
    for _ in 0..4 {
        subject.checkpoint();
        let (pieces, listed) = subject.pieces();
        assert!(pieces > EXTENTS_MAX && listed > 0, "{pieces} pieces of the index, {listed} of their list");
        subject.check(0..OBJECTS);
        subject.store = Subject::open(&subject.disks).expect("it starts");
        assert_eq!(subject.pieces(), (pieces, listed), "as it was stored");
        subject.check(0..OBJECTS);
        subject.submit(|txn| txn.set_attr(&object_name(0), "a", Subject::value(0)));
    }
    // A damaged list is a damaged index: what was there before it is not taken in silence.
    subject.checkpoint();
    let list = subject.store.index_runs()[1][0].0;
    let (dev, block) = if list < ON_DATA { (META, list) } else { (crate::open::layout::DATA, list - ON_DATA) };
    let disks = subject.disks.copy();
    disks.damage(dev, block * crate::open::layout::BLOCK, |block| block[20] ^= 4);
    let error = Subject::open(&disks).expect_err("its list is damaged");
    assert!(error.contains("list of the index's pieces"), "{error}");
    // A small index has none again, and nothing of the old one stays taken.
    for n in 1..OBJECTS {
        subject.submit(|txn| txn.remove(&object_name(n)));
    }
    // Some checkpoints on, it is written whole.
    for _ in 0..6 {
        subject.checkpoint();
        subject.submit(|txn| txn.set_attr(&object_name(0), "a", Subject::value(0)));
        if subject.pieces().0 <= EXTENTS_MAX {
            break;
        }
    }
    let (pieces, listed) = subject.pieces();
    assert!(pieces <= EXTENTS_MAX && listed == 0, "{pieces} pieces of the index, {listed} of their list");
    subject.check(0..1);
}
