//! An OSD's file of data, on a real file system: it becomes thinner when objects are removed and their room is given back.

use osd::store::{NewStore, disks, mkfs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use store::conformance::{object_coll, object_name};
use store::{ObjectStore, StoreError, StoreHints};
use store_block::{BlockStore, Config};
use types::{Transaction, Uuid};

const OBJECT: usize = 1 << 20;
const OBJECTS: u64 = 40;

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("humboldt-thin-{name}-{}", std::process::id()));
        let new = NewStore { size: 128 << 20, ..NewStore::default() };
        mkfs(&path, 0, Uuid([1; 16]), Uuid([2; 16]), &new, "ssd").expect("a store");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(dir: &Path) -> BlockStore {
    let disks = disks(dir, Duration::from_secs(5)).expect("the devices");
    BlockStore::open(Config { data_has_holes: true, ..Config::default() }, Box::new(disks)).expect("it opens")
}
/// Bytes that the file of data takes of its file system.
fn taken(dir: &Path) -> u64 {
    std::fs::metadata(dir.join("data")).expect("it is there").blocks() * 512
}
fn change(store: &mut BlockStore, token: u64, fill: impl FnOnce(&mut Transaction)) {
    let mut txn = Transaction::new(object_coll(0));
    fill(&mut txn);
    store.submit(txn, None, token).expect("there is room");
    settle(store);
}
fn settle(store: &mut BlockStore) {
    while !store.stats().idle || store.is_checkpointing() {
        store.turn_end();
        assert_eq!(store.failure(), None);
        store.wait();
    }
}
/// Objects, of which all but the first ten are removed again; bytes that the file took before.
fn fill_and_remove(store: &mut BlockStore, dir: &Path) -> u64 {
    change(store, 1, |txn| txn.create_collection(object_coll(0), 0));
    for n in 0..OBJECTS {
        change(store, 2 + n, |txn| txn.write(&object_name(n), 0, vec![n as u8 + 1; OBJECT].into(), 0));
    }
    store.checkpoint();
    settle(store);
    let full = taken(dir);
    assert!(full >= OBJECTS * OBJECT as u64);
    change(store, 100, |txn| (10..OBJECTS).for_each(|n| txn.remove(&object_name(n))));
    full
}
fn assert_whole(store: &mut BlockStore) {
    for n in 0..10 {
        let data = loop {
            match store.read(object_coll(0), &object_name(n), 0, OBJECT as u64) {
                Err(StoreError::Wait(_)) => {
                    store.turn_end();
                    store.wait();
                }
                other => break other.expect("it is whole"),
            }
        };
        assert!(data.pieces().all(|piece| piece.iter().all(|b| *b == n as u8 + 1)), "object {n}");
    }
    let report = store.fsck(true);
    assert!(report.is_clean(), "{:?}", report.errors);
}

#[test]
fn a_file_becomes_thinner_while_its_store_serves() {
    let folder = Folder::new("online");
    let mut store = open(&folder.0);
    store.gives_back(true);
    let full = fill_and_remove(&mut store, &folder.0);
    let (start, gone) = (Instant::now(), (OBJECTS - 10) * OBJECT as u64);
    while store.given_back() < gone && start.elapsed() < Duration::from_secs(60) {
        store.turn_end();
        store.give_back(start.elapsed() + Duration::from_secs(1));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(store.given_back() >= gone, "{} bytes given back", store.given_back());
    assert!(taken(&folder.0) + gone <= full + (1 << 20), "{full} bytes became {}", taken(&folder.0));
    assert_whole(&mut store);
    drop(store);
    assert_whole(&mut open(&folder.0));
}

#[test]
fn a_tool_makes_it_as_thin_as_it_can_be() {
    let folder = Folder::new("tool");
    let mut store = open(&folder.0);
    let full = fill_and_remove(&mut store, &folder.0);
    store.checkpoint();
    settle(&mut store);
    assert_eq!(taken(&folder.0), full, "nothing goes by itself");
    drop(store);
    let given = open(&folder.0).trim().expect("it can");
    assert!(given >= (OBJECTS - 10) * OBJECT as u64);
    assert!(taken(&folder.0) <= 12 * OBJECT as u64, "{full} bytes became {}", taken(&folder.0));
    assert_whole(&mut open(&folder.0));
}
