//! `humboldt store`: an OSD's block store looked at, checked, copied and damaged while no OSD uses it.
//!
//! What only looks works on a layer of memory over the devices: the store is left as it was found.

mod archive;
mod args;
mod group;
mod identity;
mod objects;

pub use args::StoreArgs;

use anyhow::{Context, Result, bail};
use args::{Action, StoreTool};
use disk::{Disks, ScratchDisks};
use std::path::Path;
use store::{LogDelta, ObjectStore, StoreError, StoreResult};
use store_block::{BlockStore, Config, FsckReport};
use types::Transaction;

/// The exit status of an export that left something out.
const PARTLY: i32 = 3;
/// Bytes of memory for caches.
const MEMORY: usize = 256 << 20;

/// How long a store that another process holds is asked for again.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// An open store, with no other process around.
pub struct Offline {
    store: BlockStore,
    last: u64,
}

impl Offline {
    /// The store in an OSD's folder. Without `write`, changes stay in memory.
    pub fn open(folder: &Path, write: bool) -> Result<Self> {
        Self::open_as(folder, write, Config::default())
    }
    /// The same for a repair: as far as it can be opened.
    fn salvage(folder: &Path, write: bool, cut_log: bool) -> Result<Self> {
        Self::open_as(folder, write, Config { salvage: true, cut_log, ..Config::default() })
    }
    fn open_as(folder: &Path, write: bool, config: Config) -> Result<Self> {
        // A server that just ended holds its files for a moment more.
        if !folder.join("data").exists() {
            bail!("{} is no folder of an OSD: give the one with data, wal and meta, such as humboldt-data/osd.0", folder.display());
        }
        let files = osd::store::disks(folder, PATIENCE).with_context(|| format!("opening the store in {}", folder.display()))?;
        let disks: Box<dyn Disks> = if write { Box::new(files) } else { Box::new(ScratchDisks::new(files)) };
        let config = Config { memory: MEMORY, folder: folder.display().to_string(), ..config };
        let store = BlockStore::open(config, disks).with_context(|| folder.display().to_string())?;
        Ok(Self { store, last: 0 })
    }
    /// Asks until everything that is needed has been read.
    pub fn ask<T>(&mut self, mut f: impl FnMut(&BlockStore) -> StoreResult<T>) -> Result<T> {
        loop {
            match f(&self.store) {
                Err(StoreError::Wait(_)) => {
                    self.store.poll();
                    self.store.wait();
                    self.store.poll();
                    self.store.take_ready(&mut Vec::new());
                }
                other => return Ok(other?),
            }
        }
    }
    /// Applies and waits until it is durable.
    pub fn commit(&mut self, txn: Transaction, log: Option<LogDelta>) -> Result<()> {
        self.last += 1;
        self.store.submit(txn, log, self.last)?;
        let mut done = Vec::new();
        while !done.contains(&self.last) {
            self.store.poll();
            if let Some(why) = self.store.failure() {
                bail!(why);
            }
            self.store.take_commits(&mut done);
            if !done.contains(&self.last) {
                self.store.wait();
            }
        }
        Ok(())
    }
    /// Brings everything to its place.
    pub fn checkpoint(&mut self) -> Result<()> {
        self.store.checkpoint();
        while self.store.is_checkpointing() {
            self.store.poll();
            if let Some(why) = self.store.failure() {
                bail!(why);
            }
            self.store.wait();
        }
        Ok(())
    }
}

pub fn run(args: &StoreArgs) -> Result<()> {
    let folder = &args.dir;
    match &args.action {
        StoreTool::Fsck { deep } => tell(&Offline::open(folder, false)?.store.fsck(*deep)),
        StoreTool::Repair { discard_log_from_damage } => repair(folder, *discard_log_from_damage),
        StoreTool::Stat => stat(&mut Offline::open(folder, false)?),
        StoreTool::Grow { size } => {
            if let (Some(size), Ok(now)) = (*size, std::fs::metadata(folder.join("data"))) {
                crate::stores::warn_of_room(folder, size.saturating_sub(now.len()));
            }
            let (data, meta) = osd::store::grow(folder, *size)?;
            say::println!("{data} bytes of data, {meta} of metadata");
            Ok(())
        }
        StoreTool::Trim => {
            let mut offline = Offline::open(folder, true)?;
            let bytes = offline.store.trim().map_err(anyhow::Error::msg).with_context(|| folder.display().to_string())?;
            say::println!("{bytes} bytes of free room given back");
            Ok(())
        }
        StoreTool::Finalize => {
            let said = match osd::store::finalize(folder)? {
                true => "it is of this version now: an older humboldt can't open it any more",
                false => "it was of this version already",
            };
            say::println!("{said}");
            Ok(())
        }
        StoreTool::List => objects::list(&mut Offline::open(folder, false)?),
        StoreTool::Dump { object } => objects::dump(&mut Offline::open(folder, false)?, object),
        StoreTool::Log { group } => group::log(&mut Offline::open(folder, false)?, group),
        StoreTool::Export { file, skip_damaged: false } => {
            archive::writable(file)?;
            let exported = archive::export(&mut Offline::open(folder, false)?, file, None);
            exported
                .with_context(|| format!("run `humboldt store --dir {} export --skip-damaged FILE` for what can be read", folder.display()))
        }
        StoreTool::Export { file, skip_damaged: true } => skip_damaged(folder, file),
        StoreTool::Import { file } => {
            let mut store = Offline::open(folder, true)?;
            archive::check(file)?;
            archive::import(&mut store, file)?;
            identity::settle(&mut store, folder)?;
            store.checkpoint()
        }
        StoreTool::Damage { object, action } => damage(&mut Offline::open(folder, true)?, object, action),
    }
}

fn repair(folder: &Path, cut_log: bool) -> Result<()> {
    let mut offline = Offline::salvage(folder, true, cut_log)?;
    let report = offline.store.repair();
    // Whatever starts its OSD opens its devices.
    drop(offline);
    osd::store::note_repair(folder);
    tell(&report)
}

/// Exports what is left of a store after a repair that stays in memory, but for objects with data that can't be read.
fn skip_damaged(folder: &Path, file: &Path) -> Result<()> {
    let mut offline = Offline::salvage(folder, false, true)?;
    let report = offline.store.repair();
    let mut left_out = report.lost;
    archive::export(&mut offline, file, Some(&mut left_out))?;
    left_out.iter().for_each(|what| say::eprintln!("left out: {what}"));
    // What fsck still has to say is no reason not to export the rest, and is told.
    report.errors.iter().for_each(|e| say::eprintln!("damaged: {e}"));
    if !left_out.is_empty() || !report.errors.is_empty() {
        say::eprintln!("exported all but {} things named above", left_out.len());
        std::process::exit(PARTLY);
    }
    Ok(())
}

fn damage(store: &mut Offline, object: &str, action: &Action) -> Result<()> {
    let (coll, name) = objects::find(store, object)?;
    objects::damage(store, coll, &name, action)?;
    store.checkpoint()
}

fn tell(report: &FsckReport) -> Result<()> {
    report.errors.iter().for_each(|e| say::println!("{e}"));
    report.repaired.iter().for_each(|r| say::println!("repaired: {r}"));
    report.lost.iter().for_each(|l| say::println!("lost: {l}"));
    say::println!(
        "{} objects, {} blocks of 4 KiB, {} shared chunks, {} omap rows, {} leaves of metadata; {} bytes read and checked",
        report.objects,
        report.blocks,
        report.shared_chunks,
        report.omap_rows,
        report.leaves,
        report.data_bytes
    );
    say::println!("{} blocks leaked, {} used twice", report.leaked_blocks, report.doubly_used_blocks);
    if !report.is_clean() {
        bail!("{} errors", report.errors_total);
    }
    say::println!("no errors");
    Ok(())
}

fn stat(offline: &mut Offline) -> Result<()> {
    let (fs, stats) = (offline.store.statfs(), offline.store.stats());
    let groups = offline.ask(|s| s.pgs())?.len();
    let colls = offline.ask(|s| s.collections())?.len();
    say::println!("total_bytes {}", fs.total);
    say::println!("available_bytes {}", fs.available);
    say::println!("allocated_bytes {}", fs.allocated);
    say::println!("stored_bytes {}", fs.data_stored);
    say::println!("omap_bytes {}", fs.omap_allocated);
    say::println!("collections {colls}");
    say::println!("groups {groups}");
    say::println!("log_blocks_used {}", stats.log_used);
    say::println!("log_blocks {}", stats.log_blocks);
    say::println!("superblock_generation {}", stats.generation);
    say::println!("final {}", offline.store.is_final());
    Ok(())
}
