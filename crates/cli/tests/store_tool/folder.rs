//! An OSD's folder with a store, for the length of a test.

use super::rows;
use bytes::Bytes;
use disk::{FileDisks, create_zeroed};
use osd::NewStore;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use store::{ObjectStore, StoreError};
use store_block::{BlockStore, Config};
use types::{CEPH_NOSNAP, CollId, GHObject, HObject, PgId, SpgId, Transaction, Uuid};

pub const OBJECTS: u32 = 20;
const UUID: [u8; 16] = [5; 16];
const DEVICES: [&str; 3] = ["data", "wal", "meta"];

pub struct Folder(PathBuf);

fn coll() -> CollId {
    CollId::Pg(SpgId::whole(PgId::new(1, 0)))
}
/// Object `n`: bytes of n + 1 from n * 5000 on.
fn object(n: u32) -> GHObject {
    let oid = format!("object {n}").into();
    GHObject::plain(HObject { oid, pool: 1, hash: n.wrapping_mul(0x9e37_79b9), snap: CEPH_NOSNAP, ..HObject::min() })
}

impl Folder {
    /// With an empty store.
    pub fn empty(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("humboldt-store-tool-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        // Smaller ones than it would make itself: they are compared often.
        std::fs::create_dir_all(dir.join("small")).expect("a folder");
        let small = ["wal", "meta"].map(|name| dir.join("small").join(name));
        small.iter().for_each(|path| create_zeroed(path, 4 << 20, 0).expect("a file"));
        let [wal, meta] = small.map(Some);
        let new = NewStore { size: 16 << 20, wal, meta, ..NewStore::default() };
        osd::store::mkfs(&dir, 0, Uuid(UUID), Uuid([6; 16]), &new, "").expect("a store");
        Self(dir)
    }
    /// With some objects in it.
    pub fn filled(name: &str) -> Self {
        let folder = Self::empty(name);
        let mut store = folder.open();
        let mut txn = Transaction::new(coll());
        txn.create_collection(coll(), 0);
        for n in 0..OBJECTS {
            store.submit(txn, None, u64::from(n)).expect("a transaction");
            store.poll();
            txn = Transaction::new(coll());
            txn.write(&object(n), u64::from(n) * 5000, vec![n as u8 + 1; 70_000].into(), 0);
            txn.set_attr(&object(n), "_", Bytes::from_static(b"info"));
            txn.omap_set_keys(&object(n), vec![("key".into(), Bytes::from_static(b"value"))]);
        }
        store.submit(txn, None, OBJECTS.into()).expect("a transaction");
        // A flipped bit in data that only the newest record knows would look as if that record had been torn.
        store.checkpoint();
        while store.is_checkpointing() {
            store.poll();
            store.wait();
        }
        folder
    }
    fn open(&self) -> BlockStore {
        let paths = DEVICES.map(|f| self.0.join(f));
        let disks = FileDisks::open(&paths.each_ref().map(PathBuf::as_path)).expect("devices");
        BlockStore::open(Config::default(), Box::new(disks)).expect("it opens")
    }
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("text").to_string()
    }
    pub fn tool(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_humboldt")).arg("store").arg("--dir").arg(&self.0).args(args).output().expect("the program runs")
    }
    pub fn ok(&self, args: &[&str]) -> String {
        let out = self.tool(args);
        assert!(out.status.success(), "{args:?}: {}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
    /// What `dump` shows of an object; nothing if it is not there.
    pub fn dump(&self, n: u32) -> String {
        String::from_utf8_lossy(&self.tool(&["dump", &format!("object {n}")]).stdout).into_owned()
    }
    /// An object's bytes.
    pub fn data(&self, n: u32) -> Vec<u8> {
        let mut store = self.open();
        loop {
            match store.read(coll(), &object(n), 0, u64::MAX) {
                Err(StoreError::Wait(_)) => {
                    store.poll();
                    store.wait();
                    store.poll();
                }
                other => return other.expect("bytes").flat().to_vec(),
            }
        }
    }
    /// The bytes of the devices.
    pub fn files(&self) -> [Vec<u8>; 3] {
        DEVICES.map(|name| std::fs::read(self.0.join(name)).expect("the file"))
    }
    pub fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.0.join(name);
        let mut bytes = std::fs::read(&path).expect("the file");
        change(&mut bytes);
        std::fs::write(&path, bytes).expect("the file");
    }
    /// Changes rows of the metadata behind everyone's back, with right checksums.
    pub fn change_rows(&self, change: impl FnMut(&[u8], &mut [u8])) {
        self.change("meta", |meta| rows::change(meta, &UUID, change));
    }
    pub fn remove_store(self) -> Self {
        DEVICES.iter().for_each(|name| std::fs::remove_file(Path::new(&self.path(name))).expect("it was there"));
        self
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
