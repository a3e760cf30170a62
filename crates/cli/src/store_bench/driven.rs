//! The stores that a load drives: made for it, and gone with it.

use crate::args::{Bench, StoreKind};
use anyhow::{Context, Result, bail};
use disk::FileDisks;
use osd::NewStore;
use osd::store::CACHE_DEFAULT;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use store::ObjectStore;
use store_block::{BlockStore, Config};
use store_mem::MemStore;
use types::Uuid;

/// Bytes of a block.
const BLOCK: u64 = 4096;
/// What `osd::store::mkfs` wants to be zeros at the front of a device that it is given.
const LABEL_BYTES: u64 = 64 << 10;

/// A store, with the means to wait for it.
pub struct Driven {
    kind: Kind,
    /// The folder of a store on disk.
    folder: PathBuf,
    /// Given by name: those that were there, and those that were made for it.
    found: Vec<PathBuf>,
    made: Vec<PathBuf>,
}

enum Kind {
    Mem(MemStore),
    Block(Box<BlockStore>),
}

impl Driven {
    pub fn make(args: &Bench, kind: StoreKind, size: u64) -> Result<Self> {
        let given: Vec<PathBuf> =
            [&args.devices.data, &args.devices.parts.wal, &args.devices.parts.meta].into_iter().flatten().cloned().collect();
        if kind == StoreKind::Mem {
            if !given.is_empty() {
                bail!("--data, --wal and --meta are a block store's");
            }
            return Ok(Self { kind: Kind::Mem(MemStore::new(size)), folder: PathBuf::new(), found: Vec::new(), made: Vec::new() });
        }
        let folder = args.dir.clone();
        if folder.exists() {
            bail!("{} is there already: name a folder that is not, with --dir, or remove this one", folder.display());
        }
        let (found, made) = given.into_iter().partition(|path| path.exists());
        let Bench { devices, memory, .. } = args;
        let (wal, meta) = (devices.parts.wal.clone(), devices.parts.meta.clone());
        let new = NewStore { data: devices.data.clone(), wal, meta, size, ..NewStore::default() };
        let mut fresh = [0; 16];
        cephx::Entropy::fill(&mut net::auth_cephx::entropy(), &mut fresh);
        let uuid = Uuid::from_random(fresh);
        osd::store::mkfs(&folder, 0, uuid, uuid, &new, "").context("making a store")?;
        let paths = ["data", "wal", "meta"].map(|name| folder.join(name));
        let disks = FileDisks::open(&paths.each_ref().map(PathBuf::as_path))?;
        let memory = memory.unwrap_or(CACHE_DEFAULT).try_into().unwrap_or(usize::MAX);
        let [data_has_holes, zero_ahead] = [&paths[0], &paths[1]].map(|path| osd::store::has_holes(path));
        let config = Config { memory, zero_ahead, data_has_holes, ..Config::default() };
        let store = BlockStore::open(config, Box::new(disks)).with_context(|| folder.display().to_string())?;
        Ok(Self { kind: Kind::Block(Box::new(store)), folder, found, made })
    }
    pub fn store(&mut self) -> &mut dyn ObjectStore {
        match &mut self.kind {
            Kind::Mem(store) => store,
            Kind::Block(store) => &mut **store,
        }
    }
    /// Sleeps until something that is under way has completed.
    pub fn wait(&mut self) {
        if let Kind::Block(store) = &mut self.kind {
            store.wait();
        }
    }
    /// An error if the store has stopped.
    pub fn check(&self) -> Result<()> {
        match &self.kind {
            Kind::Block(store) => store.failure().map_or(Ok(()), |why| bail!(why)),
            Kind::Mem(_) => Ok(()),
        }
    }
    /// Bytes that the store wrote so far: log, beside the log, to their places, metadata; `None` for one in memory.
    pub fn wrote(&self) -> Option<[u64; 4]> {
        let Kind::Block(store) = &self.kind else { return None };
        let w = store.stats().wrote;
        Some([w.log, w.direct, w.in_place, w.meta].map(|blocks| blocks * BLOCK))
    }
    /// Until nothing is under way and everything is checkpointed.
    pub fn come_to_rest(&mut self) -> Result<()> {
        let Kind::Block(store) = &mut self.kind else { return Ok(()) };
        store.checkpoint();
        loop {
            store.poll();
            if let Some(why) = store.failure() {
                bail!(why);
            }
            if store.stats().idle && !store.is_checkpointing() {
                return Ok(());
            }
            store.wait();
        }
    }
    /// What was made for the load goes, unless it is to be kept; devices and files that were there begin with zeros again.
    pub fn remove(self, keep: bool) -> Result<()> {
        let Self { kind, folder, found, made } = self;
        if matches!(kind, Kind::Mem(_)) || keep {
            return Ok(());
        }
        drop(kind);
        for path in &found {
            clear(path).with_context(|| format!("clearing {}", path.display()))?;
        }
        for path in made.iter().chain([&folder]) {
            let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
            removed.with_context(|| format!("removing {}", path.display()))?;
        }
        Ok(())
    }
}

fn clear(path: &Path) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
    std::io::copy(&mut std::io::repeat(0).take(LABEL_BYTES), &mut file)?;
    file.flush()?;
    file.sync_all()
}
