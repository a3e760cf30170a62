//! What an OSD's store lies on, between the OSD's lives.

use crate::durable::{Ledger, Watched};
use crate::plan::StoreKind;
use base::Rng;
use disk::{CrashStates, Dev, Fault, FaultKind, MemDisks, Order, Tear};
use store::ObjectStore;
use store_block::{BlockStore, Config};
use store_mem::MemStore;

/// Bytes of an ideal disk.
const IDEAL_BYTES: u64 = 1 << 30;
/// Bytes of the block store's devices: data, log, metadata.
const BLOCK_BYTES: [u64; 3] = [96 << 20, 8 << 20, 16 << 20];
/// What a block store that is only read keeps in memory.
const MEMORY_TO_READ: u64 = 4 << 20;
/// Of so many starts of an OSD on a store of the version before, one makes it one of this version.
const FINALIZED_EVERY: u64 = 6;
/// The device that objects' data lie on, the log's, and that of the metadata.
const DATA: Dev = Dev(0);
const WAL: Dev = Dev(1);
const META: Dev = Dev(2);

/// See the module.
pub enum Drive {
    /// The memory store itself, while no OSD has it.
    Ideal(Option<Box<dyn ObjectStore>>, Ledger),
    Block(MemDisks, Ledger),
}

impl Drive {
    pub fn new(kind: StoreKind, uuid: [u8; 16]) -> Self {
        Self::with_room(kind, uuid, 0, false)
    }
    /// The same, with so many bytes for data, unless 0. `is_older`: a block store is of the version before.
    pub fn with_room(kind: StoreKind, uuid: [u8; 16], bytes: u64, is_older: bool) -> Self {
        let ideal_bytes = if bytes == 0 { IDEAL_BYTES } else { bytes };
        match kind {
            StoreKind::Ideal => {
                let ledger = Ledger::default();
                Self::Ideal(Some(Box::new(Watched::new(Box::new(MemStore::new(ideal_bytes)), ledger.clone()))), ledger)
            }
            StoreKind::Block => {
                let data = if bytes == 0 { BLOCK_BYTES[0] } else { bytes };
                let disks = MemDisks::new(&[data, BLOCK_BYTES[1], BLOCK_BYTES[2]]);
                let make = if is_older { BlockStore::mkfs_before } else { BlockStore::mkfs };
                make(Box::new(disks.clone()), uuid).expect("new disks take a store");
                Self::Block(disks, Ledger::default())
            }
        }
    }
    /// What the OSD has given to its store and does not know to be durable.
    pub fn ledger(&self) -> &Ledger {
        match self {
            Self::Ideal(_, ledger) | Self::Block(_, ledger) => ledger,
        }
    }
    /// A store for the OSD's next life. `spoils`: the last one stopped at a change that needed what is damaged.
    /// `memory_bytes`: what a block store keeps in memory.
    ///
    /// # Errors
    /// The text of why a block store does not open: whatever happened to it here, it must.
    pub fn open(&mut self, spoils: bool, memory_bytes: u64, rng: &mut Rng) -> Result<Box<dyn ObjectStore>, String> {
        match self {
            Self::Ideal(store, _) => Ok(store.take().expect("the last OSD gave its store back")),
            Self::Block(disks, ledger) => {
                disks.set_order(Order::AtOnce, 0);
                disks.record_the_end();
                let order = if rng.chance(1, 2) { Order::Shuffled } else { Order::Held };
                let config = Config { memory: memory_bytes as usize, spoils, ..Config::default() };
                let mut store = BlockStore::open(config, Box::new(disks.clone())).map_err(|e| e.to_string())?;
                // An operator has it made one of this version at some start.
                if !store.is_final() && rng.chance(1, FINALIZED_EVERY) {
                    store.finalize()?;
                }
                disks.set_order(order, rng.u64());
                Ok(Box::new(Watched::new(Box::new(store), ledger.clone())))
            }
        }
    }
    /// The store of an OSD that was stopped, on a device that lags no more.
    ///
    /// # Errors
    /// As [`Drive::open`].
    pub fn open_to_read(&mut self) -> Result<Box<dyn ObjectStore>, String> {
        let store = self.open(false, MEMORY_TO_READ, &mut Rng::new(0))?;
        if let Self::Block(disks, _) = self {
            disks.set_order(Order::AtOnce, 0);
        }
        Ok(store)
    }
    /// A store's own check of one whose OSD was stopped: counters, and blocks without an owner or with two.
    ///
    /// # Errors
    /// As [`Drive::open`], or what is wrong.
    pub fn check(&mut self, rng: &mut Rng) -> Result<(), String> {
        let Self::Block(disks, _) = self else { return Ok(()) };
        disks.set_order(Order::AtOnce, 0);
        disks.record_the_end();
        let config = Config { memory: MEMORY_TO_READ as usize, ..Config::default() };
        let mut store = BlockStore::open(config, Box::new(disks.clone())).map_err(|e| e.to_string())?;
        let report = store.fsck(false);
        self.killed(Box::new(store), false, rng);
        match report.errors.first() {
            Some(first) => Err(format!("{} things are wrong: {first}", report.errors_total)),
            None => Ok(()),
        }
    }
    /// A write or a flush fails before long: what the store promises then is to stop.
    pub fn strike(&self, rng: &mut Rng) {
        let Self::Block(disks, _) = self else { return };
        let kind = [FaultKind::FlushError, FaultKind::NoSpace][rng.below(2) as usize];
        disks.add_fault(Fault { nth: disks.started() + rng.below(20), kind, sticky: false, dev: None });
    }
    /// Changes what lies on a device whose OSD was stopped.
    ///
    /// # Errors
    /// As [`Drive::open`].
    pub fn change<T>(&mut self, rng: &mut Rng, f: impl FnOnce(&mut dyn ObjectStore, &mut Rng) -> T) -> Result<T, String> {
        // The next start has it lag again.
        self.ledger().lag(false);
        let mut store = self.open_to_read()?;
        let done = f(&mut *store, rng);
        self.killed(store, false, rng);
        Ok(done)
    }
    /// Each write and each flush fails from now on.
    pub fn fail_for_good(&self) {
        match self {
            Self::Ideal(_, ledger) => ledger.fail(),
            Self::Block(disks, _) => {
                for kind in [FaultKind::Error, FaultKind::FlushError] {
                    disks.add_fault(Fault { nth: disks.started(), kind, sticky: true, dev: None });
                }
            }
        }
    }
    /// Something that lies on the device changes, or can't be read: told what. `None`: nothing lies there. `is_wide`: also of the log and the metadata.
    /// `spares_new`: not what was written just now.
    pub fn rot(&self, is_wide: bool, spares_new: bool, rng: &mut Rng) -> Option<String> {
        let Self::Block(disks, _) = self else { return None };
        let dev = if is_wide { [DATA, WAL, META, META][rng.below(4) as usize] } else { DATA };
        let written = disks.written(dev);
        // The first is the store's own.
        let block = written.get(1..)?.get(rng.below((written.len() as u64).saturating_sub(1).max(1)) as usize)?;
        if spares_new && disks.is_new(dev, *block) {
            return None;
        }
        let at = block * disk::BLOCK_BYTES as u64;
        let what = match rng.below(5) {
            0 => {
                disks.damage(dev, at, |bytes| bytes.fill(0));
                "is zeros".into()
            }
            1 | 2 => {
                let bit = rng.below(8 * disk::BLOCK_BYTES as u64) as usize;
                disks.damage(dev, at, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
                format!("has another bit {bit}")
            }
            3 => {
                disks.make_bad(dev, *block, u32::MAX);
                "can't be read any more".into()
            }
            _ => {
                let times = 1 + rng.below(3) as u32;
                disks.make_bad(dev, *block, times);
                format!("can't be read for {times} times")
            }
        };
        Some(format!("block {block} of device {} {what}", dev.0))
    }
    /// True if a write or a flush failed since the OSD's start.
    pub fn was_struck(&self) -> bool {
        match self {
            Self::Ideal(_, ledger) => ledger.has_failed(),
            Self::Block(disks, _) => disks.faults_fired() > 0,
        }
    }
    /// Completes some of what is under way; true if there is more.
    pub fn complete_some(&self, rng: &mut Rng) -> bool {
        let Self::Block(disks, _) = self else {
            self.ledger().release(1 + rng.below(4) as usize);
            return self.ledger().waits();
        };
        for _ in 0..1 + rng.below(4) {
            disks.complete_any(rng);
        }
        disks.under_way() > 0
    }
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Ideal(_, ledger) => ledger.waits(),
            Self::Block(disks, _) => disks.under_way() > 0,
        }
    }
    /// The OSD was killed. `power_cut`: what was not flushed is lost, torn or kept by chance; else it all lands.
    pub fn killed(&mut self, store: Box<dyn ObjectStore>, power_cut: bool, rng: &mut Rng) {
        match self {
            Self::Ideal(kept, ledger) => {
                let mut store = store;
                // No OSD is left to hear of these.
                ledger.release(usize::MAX);
                store.take_commits(&mut Vec::new());
                ledger.clear();
                *kept = Some(store);
            }
            Self::Block(disks, ledger) => {
                drop(store);
                ledger.clear();
                disks.clear_faults();
                if power_cut {
                    let recording = disks.take_recording();
                    let mut states = CrashStates::new(&recording);
                    while states.step().is_some() {}
                    let tear = [Tear::Never, Tear::Blocks, Tear::Sectors][rng.below(3) as usize];
                    let next = states.state(rng, tear);
                    next.go_on_from(disks);
                    *disks = next;
                } else {
                    disks.restart();
                    drop(disks.take_recording());
                    // As another set: what failed so far is not counted for the next life.
                    let next = disks.copy();
                    next.go_on_from(disks);
                    *disks = next;
                }
            }
        }
    }
}
