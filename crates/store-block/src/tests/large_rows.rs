//! Rows of some hundred KiB each, which together are far more than the memory for leaves: attributes of objects, values of an omap. A check, a listing
//! and a read of many values come to their end.

use crate::planted::{Bug, with};
use crate::{BlockStore, Config, OpenError};
use bytes::Bytes;
use disk::{Disks, MemDisks, Order};
use std::ops::ControlFlow;
use store::conformance::object_coll;
use store::{ObjectStore, OmapFrom, StoreError, StoreResult};
use types::{ByteStr, CEPH_NOSNAP, GHObject, HObject, Transaction};

const KEYS: u32 = 40;
const VALUE: usize = 256 << 10;
/// Waits of one question: each leaf is read once, and some of them a few times.
const WAITS_MAX: u32 = 400;

pub fn name(n: u32) -> GHObject {
    let oid = format!("object {n}").as_str().into();
    GHObject::plain(HObject { oid, pool: 1, hash: n.wrapping_mul(0x9e37_79b9), snap: CEPH_NOSNAP, ..HObject::default() })
}

/// A store of little memory with one collection.
pub struct Subject {
    pub disks: MemDisks,
    pub store: BlockStore,
    token: u64,
}

/// Makes an empty store.
pub type Mkfs = fn(Box<dyn Disks>, [u8; 16]) -> Result<Box<dyn Disks>, OpenError>;

impl Subject {
    /// Of a version whose large attributes are in the rows.
    fn new() -> Self {
        Self::of(BlockStore::mkfs_before)
    }
    pub fn of(mkfs: Mkfs) -> Self {
        let disks = MemDisks::new(&[64 << 20, 16 << 20, 64 << 20]);
        mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
        disks.set_order(Order::AtOnce, 1);
        let mut subject = Self { store: Self::open(&disks), disks, token: 0 };
        subject.submit(|txn| txn.create_collection(object_coll(0), 0));
        subject
    }
    fn open(disks: &MemDisks) -> BlockStore {
        let config = Config { memory: 8 << 20, ..Config::default() };
        BlockStore::open(config, Box::new(disks.clone())).expect("it starts")
    }
    pub fn settle(&mut self) {
        while !self.store.stats().idle || self.store.is_checkpointing() {
            self.store.turn_end();
            assert_eq!(self.store.failure(), None);
        }
    }
    pub fn submit(&mut self, fill: impl FnOnce(&mut Transaction)) {
        let mut txn = Transaction::new(object_coll(0));
        fill(&mut txn);
        self.token += 1;
        self.store.submit(txn, None, self.token).expect("it is taken");
        self.settle();
    }
    /// The same store with all rows in leaves, and none of those in memory.
    pub fn forgotten(mut self) -> Self {
        self.store.checkpoint();
        self.settle();
        let Self { disks, store, token } = self;
        drop(store);
        disks.restart();
        let mut subject = Self { store: Self::open(&disks), disks, token };
        subject.settle();
        subject
    }
    /// Asks until it is answered, as a group does.
    pub fn ask<T>(&mut self, what: &str, mut f: impl FnMut(&BlockStore) -> StoreResult<T>) -> T {
        for _ in 0..WAITS_MAX {
            match f(&self.store) {
                Err(StoreError::Wait(_)) => {
                    self.store.turn_end();
                    self.settle();
                    self.store.take_ready(&mut Vec::new());
                }
                other => return other.expect(what),
            }
        }
        panic!("{what}: the same leaves are read for ever");
    }
}

/// Objects with so many attributes of 64 KiB, none of which is in memory.
fn with_attrs(objects: u32, attrs: u32) -> Subject {
    let mut subject = Subject::new();
    for attr in 0..attrs {
        for n in 0..objects {
            subject.submit(|txn| {
                txn.touch(&name(n));
                txn.set_attrs(&name(n), vec![(ByteStr::from(format!("_a{attr}").as_bytes()), Bytes::from(vec![attr as u8; 64 << 10]))]);
            });
        }
    }
    subject.forgotten()
}

/// One object with an omap of large values, none of which is in memory.
fn with_omap() -> (Subject, Vec<ByteStr>) {
    let mut subject = Subject::new();
    let keys: Vec<ByteStr> = (0..KEYS).map(|n| format!("key {n:03}").as_str().into()).collect();
    for (n, key) in keys.iter().enumerate() {
        subject.submit(|txn| {
            txn.touch(&name(0));
            txn.omap_set_keys(&name(0), vec![(key.clone(), Bytes::from(vec![n as u8; VALUE]))]);
        });
    }
    (subject.forgotten(), keys)
}

#[test]
fn fsck_ends() {
    let mut subject = with_attrs(16, 12);
    for deep in [false, true] {
        let report = subject.store.fsck(deep);
        assert!(report.is_clean(), "{:?}", report.errors);
    }
}

#[test]
fn objects_are_listed_page_by_page() {
    let mut subject = with_attrs(40, 8);
    let (mut from, mut seen) = (Some(GHObject::min()), 0);
    while let Some(at) = from {
        let page = subject.ask("a page", |s| s.list(object_coll(0), &at, &GHObject::max(), 1000));
        seen += page.objects.len();
        from = page.next;
    }
    assert_eq!(seen, 40);
}

#[test]
fn values_are_read_by_their_keys() {
    let (mut subject, keys) = with_omap();
    let is_right = |n: usize, value: &Bytes| value.len() == VALUE && value.iter().all(|b| *b == n as u8);
    let got = subject.ask("values by their keys", |s| s.omap_get(object_coll(0), &name(0), &keys));
    assert!(got.len() == keys.len() && got.iter().enumerate().all(|(n, (key, value))| *key == keys[n] && is_right(n, value)));
}

#[test]
fn keys_are_listed() {
    let (mut subject, keys) = with_omap();
    let listed = subject.ask("all keys", |s| {
        let mut found = Vec::new();
        s.omap_scan(object_coll(0), &name(0), OmapFrom::Start, &mut |key, _| {
            found.push(key.clone());
            ControlFlow::Continue(())
        })?;
        Ok(found)
    });
    assert_eq!(listed, keys);
}

/// Pages of one request: each is small, together they are more than there is room for leaves, and each wait begins with the first again.
#[test]
fn pages_of_one_request_come_together() {
    const PAGE: usize = 5;
    let (mut subject, keys) = with_omap();
    let pages = subject.ask("all pages", |s| {
        let mut pages = Vec::new();
        for first in keys.iter().step_by(PAGE) {
            let mut page = Vec::new();
            s.omap_scan(object_coll(0), &name(0), OmapFrom::At(first.as_slice()), &mut |key, value| {
                page.push((key.clone(), value.len()));
                if page.len() < PAGE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            pages.push(page);
        }
        Ok(pages)
    });
    let (listed, lens): (Vec<_>, Vec<_>) = pages.concat().into_iter().unzip();
    assert_eq!((listed, lens), (keys.clone(), vec![VALUE; keys.len()]));
    // The same by their keys.
    let (mut subject, keys) = with_omap();
    let got = subject.ask("all keys, some at a time", |s| {
        keys.chunks(PAGE).map(|some| s.omap_get(object_coll(0), &name(0), some)).collect::<StoreResult<Vec<_>>>()
    });
    assert_eq!(got.concat().len(), keys.len());
}

/// A small attribute beside many large ones, again and again: what is written is the attribute.
fn small_beside_large() {
    const TIMES: u64 = 100;
    let mut subject = with_attrs(1, 15);
    subject.ask("the object", |s| s.exists(object_coll(0), &name(0)));
    subject.disks.record();
    for n in 0..TIMES {
        let value = vec![n as u8; 10 + n as usize % 3];
        subject.submit(|txn| txn.set_attrs(&name(0), vec![("small".into(), value.into())]));
    }
    let written = subject.disks.take_recording().written_bytes();
    println!("{} bytes for each", written / TIMES);
    assert!((TIMES * 4096..=TIMES * 8192).contains(&written), "{} bytes for each", written / TIMES);
    // All of them are there, now and after a start.
    for _ in 0..2 {
        let attrs = subject.ask("its attributes", |s| s.attrs(object_coll(0), &name(0)));
        let large = attrs.iter().filter(|(_, value)| value.len() == 64 << 10).count();
        assert!(attrs.len() == 16 && large == 15, "{} attributes, {large} large ones", attrs.len());
        subject = subject.forgotten();
    }
}

#[test]
fn a_small_attribute_does_not_write_the_large_ones_again() {
    small_beside_large();
}
#[test]
fn attributes_that_are_written_again_are_noticed() {
    let noticed = std::panic::catch_unwind(|| with(Bug::RewriteAttrs, small_beside_large));
    assert!(noticed.is_err());
}
