//! What the examples share: devices to measure on, and reads that wait for them. No measuring.

use disk::{Disks, FileDisks, MemDisks, create_zeroed};
use std::path::Path;
use store::{ObjectStore, StoreError};
use store_block::BlockStore;

/// Devices for data, log and metadata of so many bytes: files in a folder, made and written with zeros if they are missing, or `mem`.
pub fn devices(folder: &str, lens: [u64; 3]) -> Box<dyn Disks> {
    if folder == "mem" {
        return Box::new(MemDisks::new(&lens));
    }
    let folder = Path::new(folder);
    std::fs::create_dir_all(folder).expect("a folder");
    let names = ["data", "wal", "meta"];
    let paths: [_; 3] = std::array::from_fn(|n| {
        let path = folder.join(names[n]);
        if !path.exists() {
            create_zeroed(&path, lens[n], lens[n]).expect("a file");
        }
        path
    });
    Box::new(FileDisks::open(&[&paths[0], &paths[1], &paths[2]]).expect("they open"))
}

/// Asks until the store has what it takes.
pub fn ask<T>(store: &mut BlockStore, f: impl Fn(&BlockStore) -> Result<T, StoreError>) -> T {
    loop {
        match f(store) {
            Ok(v) => return v,
            Err(StoreError::Wait(_)) => {
                store.turn_end();
                store.take_ready(&mut Vec::new());
                if !store.stats().idle {
                    store.wait();
                }
            }
            Err(e) => panic!("{e}"),
        }
    }
}
