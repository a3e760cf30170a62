//! What a store can be told.

use crate::open::recover::OpenError;

/// Settings of an open store; none of them is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Bytes of memory that the store may take, roughly. What must be in memory whole comes off first: the allocator's bits (2 bytes for each 64 KiB
    /// of data), the index (45 bytes for each 4 KiB of metadata), the counts of shared chunks, the groups' infos. Caches, recent changes and
    /// blocks on their way share the rest, but never less than a quarter: a device that needs more than that for its bits alone takes more than
    /// the setting. So does a request that reads more at once than there is room for, and a transaction that is larger than that; transactions that wait are
    /// their owner's.
    pub memory: usize,
    /// Milliseconds that a start may take to replay the log, by the estimate of `replay`: a checkpoint begins in time for that. A
    /// transaction that is larger by itself takes longer.
    pub replay_ms: u64,
    /// Records that may be under way at the same time.
    pub pipeline: usize,
    /// In-place writes that may be under way at the same time.
    pub in_place: usize,
    /// Bytes of changes of one transaction that a record may have: what is more lies beside it.
    pub spill_bytes: usize,
    /// The log is written with zeros ahead of its first lap: what it lies on has holes, and to fill one is a change of the file system with each
    /// record.
    pub zero_ahead: bool,
    /// Parts of what the data lie on were never written: data go there by the log while records are small, and to places that were written before
    /// directly.
    pub data_has_holes: bool,
    /// The store's folder, as messages that name a command call it.
    pub folder: String,
    /// For tools: opened as far as it can be, though damage has taken what can't be made good. See `BlockStore::repair_damage`.
    pub salvage: bool,
    /// A change goes on though a block that it needs can't be read, and the block is spoiled. Else such a change stops the store, since a device that is
    /// read wrong now may be read right by the next process: so this is for a store that has stopped for that reason before.
    pub spoils: bool,
    /// For tools: a damaged record is the log's end, whatever stands behind it.
    pub cut_log: bool,
}

/// [`Config::memory`] unless it is given.
pub const MEMORY_DEFAULT: usize = 128 << 20;

/// [`Config::replay_ms`] unless it is given: a start with ten million objects has as much to do besides, and is to be done in three
/// seconds.
pub const REPLAY_MS_DEFAULT: u64 = 1750;

/// Bytes that leaves may have at least, whatever the setting.
pub(crate) const LEAVES_MIN: usize = 1 << 20;

impl Default for Config {
    fn default() -> Self {
        Self {
            memory: MEMORY_DEFAULT,
            replay_ms: REPLAY_MS_DEFAULT,
            pipeline: 3,
            in_place: 64,
            spill_bytes: 256 << 10,
            zero_ahead: false,
            data_has_holes: false,
            folder: "DIR".into(),
            salvage: false,
            spoils: false,
            cut_log: false,
        }
    }
}

impl Config {
    /// A sentence that names the command that comes next.
    pub(crate) fn command(&self, verb: &str) -> String {
        format!("run `humboldt store --dir {} {verb}`", self.folder)
    }
    /// Where a device is, for people.
    pub(crate) fn place(&self, dev: disk::Dev) -> String {
        let name = ["data", "wal", "meta"].get(usize::from(dev.0)).copied().unwrap_or("?");
        format!("{}/{name}", self.folder)
    }
    /// The log is damaged, and going on without what is behind that is the only way.
    pub(crate) fn log_damaged(&self, what: String) -> OpenError {
        OpenError::Damaged { what, next: self.command("repair --discard-log-from-damage") }
    }
}
