//! `BlockStore`: the store as its owner sees it.

use crate::check::damaged::Damage;
use crate::check::fsck::FsckReport;
use crate::data::io::Wrote;
use crate::data::write::Target;
use crate::open::config::Config;
use crate::open::layout::{UNFINALIZED, VERSION};
#[cfg(test)]
use crate::open::layout::{WITH_ATTR_CELLS, WITH_INDEX_PARTS, WITH_PLACES};
use crate::open::recover::{self, OpenError};
use crate::place::give_back;
use crate::rows::attr_cells;
use crate::rows::key;
use crate::rows::objects;
use crate::rows::onode::{Onode, Usage};
use crate::state::{Core, ask};
use bytes::Bytes;
use disk::Disks;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::os::fd::RawFd;
use std::time::Duration;
use store::{AttrsMax, ListPage, LogDelta, ObjectStat, ObjectStore, OmapFrom, PgRecord, ReadData, StoreError, StoreHints, StoreResult};
use types::{ByteStr, CollId, EVersion, GHObject, HObject, IntervalSet, PgLogEntry, PoolId, SpgId, StoreStatfs, Transaction};

/// An object store on block devices.
///
/// It never waits: its owner calls [`BlockStore::poll`] (or [`ObjectStore::turn_end`], which does the same) when its descriptor is
/// readable and at the end of each turn; then what has completed is taken, and what was submitted is written.
#[derive(Debug)]
pub struct BlockStore(RefCell<Core>);

/// What a store is doing, for its owner and for tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks written since the store was opened.
    pub wrote: Wrote,
    /// Blocks of the log that are in use, and that there are.
    pub log_used: u64,
    pub log_blocks: u64,
    /// Superblocks that were ever written.
    pub generation: u64,
    /// True if nothing is under way and everything that was submitted is durable.
    pub idle: bool,
    pub memory: Memory,
}

/// Bytes of memory, by what has them, roughly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    pub objects: usize,
    pub leaves: usize,
    pub recent: usize,
    pub index: usize,
    pub overlay: usize,
    /// Blocks that were read.
    pub reads: usize,
    /// Allocator, shares, groups: in memory whole, as the index is.
    pub whole: usize,
}

impl Memory {
    pub fn total(&self) -> usize {
        self.objects + self.leaves + self.recent + self.index + self.overlay + self.reads + self.whole
    }
}

impl BlockStore {
    /// Makes an empty store on the devices data, wal and meta (by index), whatever is on them, and gives them back.
    pub fn mkfs(disks: Box<dyn Disks>, uuid: [u8; 16]) -> Result<Box<dyn Disks>, OpenError> {
        recover::mkfs(disks, uuid, VERSION)
    }
    /// The same as a program of version 7 made it: for tests and the simulator.
    #[doc(hidden)]
    pub fn mkfs_before(disks: Box<dyn Disks>, uuid: [u8; 16]) -> Result<Box<dyn Disks>, OpenError> {
        recover::mkfs(disks, uuid, UNFINALIZED)
    }
    /// And as one of version 8.
    #[cfg(test)]
    pub(crate) fn mkfs_with_places(disks: Box<dyn Disks>, uuid: [u8; 16]) -> Result<Box<dyn Disks>, OpenError> {
        recover::mkfs(disks, uuid, WITH_PLACES)
    }
    /// And as one of version 9.
    #[cfg(test)]
    pub(crate) fn mkfs_with_attr_cells(disks: Box<dyn Disks>, uuid: [u8; 16]) -> Result<Box<dyn Disks>, OpenError> {
        recover::mkfs(disks, uuid, WITH_ATTR_CELLS)
    }
    /// And as one of version 10.
    #[cfg(test)]
    pub(crate) fn mkfs_with_index_parts(disks: Box<dyn Disks>, uuid: [u8; 16]) -> Result<Box<dyn Disks>, OpenError> {
        recover::mkfs(disks, uuid, WITH_INDEX_PARTS)
    }
    pub fn open(config: Config, disks: Box<dyn Disks>) -> Result<Self, OpenError> {
        recover::open(config, disks).map(|core| Self(RefCell::new(core)))
    }
    /// Readable when [`BlockStore::poll`] has something to do; `None` for devices in memory.
    pub fn event_fd(&self) -> Option<RawFd> {
        self.0.borrow().io.event_fd()
    }
    /// Takes what has completed, and starts what can be started.
    pub fn poll(&mut self) {
        self.0.get_mut().poll();
    }
    /// Blocks until something that is under way has completed: for tools, a reactor never waits.
    pub fn wait(&mut self) {
        self.0.get_mut().io.wait();
    }
    /// A checkpoint begins as soon as it can.
    pub fn checkpoint(&mut self) {
        self.0.get_mut().generations.want();
    }
    /// True while a checkpoint is under way or wanted.
    pub fn is_checkpointing(&self) -> bool {
        !self.0.borrow().generations.is_settled()
    }
    /// Checks that everything agrees; with `deep`, reads all data. Waits for its reads: for tools.
    pub fn fsck(&mut self, deep: bool) -> FsckReport {
        self.0.get_mut().fsck(deep)
    }
    /// Checks, and puts right what can be put right. Waits: for tools.
    pub fn repair(&mut self) -> FsckReport {
        self.0.get_mut().repair()
    }
    /// Takes what the devices have become larger by; how many bytes of data and metadata there are now. Waits: for tools, before anything is submitted.
    pub fn grow(&mut self) -> Result<(u64, u64), String> {
        self.0.get_mut().grow()
    }
    /// Gives all room that is free back to the data device: how many bytes. Waits: for tools, before anything is submitted.
    pub fn trim(&mut self) -> Result<u64, String> {
        give_back::all(self.0.get_mut())
    }
    /// Makes a store that an older program made one of this version, which that program can't read; false if it is one. Waits: for tools, before anything
    /// is submitted.
    pub fn finalize(&mut self) -> Result<bool, String> {
        crate::open::finalize::finalize(self.0.get_mut())
    }
    /// True if the store is of this version; false if it stays as an older program made it.
    pub fn is_final(&self) -> bool {
        self.0.borrow().sb.is_final()
    }
    /// Counters are written from here on as versions before wrote them.
    #[cfg(test)]
    pub(crate) fn write_old_counters(&mut self) {
        self.0.get_mut().counters.writes_old = true;
    }
    /// For tests that look inside.
    #[cfg(test)]
    pub(crate) fn with_core<T>(&self, look: impl FnOnce(&Core) -> T) -> T {
        look(&self.0.borrow())
    }
    /// Where the index is, and the list of its pieces.
    #[cfg(test)]
    pub(crate) fn index_runs(&self) -> [Vec<crate::rows::meta::space::Run>; 2] {
        let core = self.0.borrow();
        [core.sb.index.clone(), core.sb.list.clone()]
    }
    /// What the store waits for, in a line, for tests that find it waiting for ever.
    #[cfg(test)]
    pub fn stand(&self) -> String {
        let core = self.0.borrow();
        format!(
            "{} queued, half {}, record {} open with {} blocks, {} under way, {} in place, checkpoint {:?}, ring {:?}, overlay {} of {}",
            core.queue.len(),
            core.queue.is_half(),
            core.log.seq(),
            core.log.open().blocks(),
            core.log.under_way(),
            core.overlay.under_way(),
            core.generations.under_way(),
            core.log.ring(),
            core.overlay.bytes(),
            core.budget.overlay_max()
        )
    }
    /// What is known to be damaged: leaves that were asked for and could not be read.
    pub fn damage(&self) -> Damage {
        self.0.borrow().damage()
    }
    /// Why the store has stopped, if it has.
    pub fn failure(&self) -> Option<String> {
        self.0.borrow().stopped.why().cloned()
    }
    pub fn stats(&self) -> Stats {
        let core = self.0.borrow();
        Stats {
            wrote: core.io.wrote(),
            log_used: core.log.ring().used(),
            log_blocks: core.log.ring().blocks(),
            generation: core.sb.generation,
            idle: core.io.in_flight() == 0 && core.log.open().is_empty() && core.queue.is_empty(),
            memory: Memory {
                objects: core.objects.bytes(),
                leaves: core.table.leaves().bytes(),
                recent: core.table.recent_bytes(),
                index: core.table.index().memory(),
                overlay: core.overlay.memory(),
                reads: core.reads.bytes(),
                whole: core.whole(),
            },
        }
    }
    /// In how many pieces an object's data lie on the device; neighbours are one. For tools.
    pub fn pieces(&self, coll: CollId, obj: &GHObject) -> StoreResult<usize> {
        self.node(coll, obj, |o| {
            let gap = |pair: &&[crate::rows::onode::Chunk]| pair[0].place + pair[0].slots() != pair[1].place;
            o.chunks.windows(2).filter(gap).count() + usize::from(!o.chunks.is_empty())
        })
    }
    fn object<T>(&self, coll: CollId, obj: &GHObject, f: impl FnOnce(&mut Core, u32) -> StoreResult<T>) -> StoreResult<T> {
        let mut core = self.0.borrow_mut();
        let slot = core.object(coll, obj)?;
        f(&mut core, slot)
    }
    fn node<T>(&self, coll: CollId, obj: &GHObject, f: impl FnOnce(&Onode) -> T) -> StoreResult<T> {
        self.object(coll, obj, |core, slot| Ok(f(core.objects.node(slot).expect("it was found"))))
    }
    fn usage(&self, pool: Option<PoolId>) -> StoreStatfs {
        let core = self.0.borrow();
        let mut fs = StoreStatfs::default();
        for (_, u) in core.counters.iter().filter(|(p, _)| pool.is_none_or(|pool| *p == pool)) {
            fs.allocated += u.data - u.again;
            fs.data_stored += u.stored;
            fs.omap_allocated += u.omap;
            fs.internal_metadata += meta_bytes(u);
        }
        fs
    }
}

/// What an object's row takes, roughly.
const ROW_BYTES: i64 = 512;
fn meta_bytes(usage: &Usage) -> i64 {
    usage.objects * ROW_BYTES
}

impl StoreHints for BlockStore {
    fn linger(&mut self, limit: Duration) -> bool {
        self.0.get_mut().io.linger(limit)
    }
    fn soon(&self, names: &mut dyn Iterator<Item = (CollId, &HObject)>) {
        self.0.borrow().objects.warm(&mut names.map(|(coll, name)| objects::hash_of_head(key::family(coll), name)));
    }
    /// A checkpoint: what the log has goes into the metadata, and its room is free.
    fn compact(&mut self) -> u64 {
        self.checkpoint();
        let core = self.0.get_mut();
        // One that is under way has begun without the latest changes.
        core.sb.generation + 1 + u64::from(core.generations.is_under_way())
    }
    fn is_compacted(&self, compaction: u64) -> bool {
        let core = self.0.borrow();
        core.sb.generation >= compaction || core.generations.is_settled() || core.is_stopped()
    }
    fn take_read(&self, ticket: u64) -> Option<ReadData> {
        self.0.borrow_mut().take_read(ticket)
    }
    fn limit_memory(&mut self, bytes: usize) {
        let core = self.0.get_mut();
        core.budget.limit(bytes);
        core.share_memory();
    }
    fn gives_back(&mut self, on: bool) {
        give_back::set(self.0.get_mut(), on);
    }
    fn give_back(&mut self, now: Duration) {
        give_back::look(self.0.get_mut(), now);
    }
    fn given_back(&self) -> u64 {
        self.0.borrow().give_back.bytes()
    }
    fn oldest_io(&self) -> Option<u64> {
        self.0.borrow().io.oldest()
    }
    fn io_text(&self, io: u64) -> String {
        let core = self.0.borrow();
        core.io.describe(io).map_or_else(String::new, |(does, dev)| format!("{does} {}", core.cfg.place(dev)))
    }
    fn memory(&self) -> Vec<(&'static str, usize)> {
        let Memory { objects, leaves, recent, index, overlay, reads, whole } = self.stats().memory;
        // Names that tools for stock's stores know.
        vec![
            ("bluestore_alloc", whole),
            ("bluestore_cache_data", reads),
            ("bluestore_cache_meta", leaves),
            ("bluestore_cache_onode", objects),
            ("bluestore_cache_other", index),
            ("bluestore_txc", recent),
            ("bluestore_writing", overlay),
        ]
    }
}

impl ObjectStore for BlockStore {
    fn submit(&mut self, txn: Transaction, log: Option<LogDelta>, token: u64) -> StoreResult<()> {
        self.0.get_mut().submit(txn, log, token)
    }
    fn take_commits(&mut self, tokens: &mut Vec<u64>) {
        self.0.get_mut().log.take_commits(tokens);
    }
    fn turn_end(&mut self) {
        self.poll();
    }
    fn take_ready(&mut self, tickets: &mut Vec<u64>) {
        self.0.get_mut().tickets.give(tickets);
    }
    fn forget(&mut self, coll: CollId, obj: &GHObject, offset: u64, len: u64) {
        let core = self.0.get_mut();
        // Whoever can't be found is in no cache either, and reading it says why.
        if let Ok(slot) = core.object(coll, obj) {
            core.forget(slot, offset, len);
        }
    }
    fn damage(&self) -> Option<String> {
        let core = self.0.borrow();
        let Damage { leaves, rows, objects } = core.damage();
        let what = format!("{leaves} leaves of metadata can't be read, with {rows} rows, {objects} objects among them at most");
        (leaves > 0).then(|| format!("{what}: the rest is served. Stop the OSD, then: {}", core.cfg.command("repair")))
    }
    fn stopped_at_damage(&self) -> bool {
        self.0.borrow().stopped.at_damage()
    }

    fn exists(&self, coll: CollId, obj: &GHObject) -> StoreResult<bool> {
        match self.object(coll, obj, |_, _| Ok(())) {
            Ok(()) => Ok(true),
            Err(StoreError::NoObject(_)) => Ok(false),
            Err(e) => Err(e),
        }
    }
    fn stat(&self, coll: CollId, obj: &GHObject) -> StoreResult<ObjectStat> {
        self.node(coll, obj, |o| {
            let crate::rows::onode::Hint { object_size, write_size, flags } = o.hint();
            ObjectStat { size: o.size, expected_object_size: object_size, expected_write_size: write_size, alloc_hint_flags: flags }
        })
    }
    fn read(&self, coll: CollId, obj: &GHObject, offset: u64, len: u64) -> StoreResult<ReadData> {
        self.object(coll, obj, |core, slot| {
            let mut out = ReadData::new();
            core.collect(&mut Target { coll, slot, ticket: ask() }, offset, len, &mut out)?;
            Ok(out)
        })
    }
    fn read_ranges(&self, coll: CollId, obj: &GHObject, ranges: &IntervalSet) -> StoreResult<ReadData> {
        self.object(coll, obj, |core, slot| {
            let mut out = ReadData::new();
            core.collect_ranges(&mut Target { coll, slot, ticket: ask() }, ranges, &mut out)?;
            Ok(out)
        })
    }
    fn extents(&self, coll: CollId, obj: &GHObject, offset: u64, len: u64) -> StoreResult<IntervalSet> {
        self.node(coll, obj, |o| crate::data::read::extents(o, offset, len))
    }
    fn attr(&self, coll: CollId, obj: &GHObject, name: &[u8]) -> StoreResult<Option<Bytes>> {
        self.object(coll, obj, |core, slot| attr_cells::get(core, coll, slot, name))
    }
    fn two_attrs(&self, coll: CollId, obj: &GHObject, names: [&[u8]; 2]) -> StoreResult<[Option<Bytes>; 2]> {
        self.object(coll, obj, |core, slot| {
            let two = core.objects.node(slot).expect("it was found").attrs.two(names);
            // No large one is read together with another: what an object keeps of itself is small.
            let [a, b] = two;
            let or = |core: &mut Core, found: Option<Bytes>, name| {
                if found.is_some() { Ok(found) } else { attr_cells::get(core, coll, slot, name) }
            };
            Ok([or(core, a, names[0])?, or(core, b, names[1])?])
        })
    }
    fn attrs_bytes(&self, coll: CollId, obj: &GHObject) -> StoreResult<u64> {
        self.node(coll, obj, |o| {
            let small: usize = o.attrs.iter().map(|(_, value)| value.len()).sum();
            small as u64 + o.large().iter().map(attr_cells::Large::len).sum::<u64>()
        })
    }
    fn attrs(&self, coll: CollId, obj: &GHObject) -> StoreResult<Vec<(ByteStr, Bytes)>> {
        self.object(coll, obj, |core, slot| attr_cells::all(core, coll, slot))
    }
    fn omap_header(&self, coll: CollId, obj: &GHObject) -> StoreResult<Bytes> {
        self.object(coll, obj, |core, slot| {
            let row = core.omap_row(slot, None, coll, &mut ask())?;
            Ok(row.map_or_else(Bytes::new, |row| Bytes::copy_from_slice(&row)))
        })
    }
    fn omap_get(&self, coll: CollId, obj: &GHObject, keys: &[ByteStr]) -> StoreResult<Vec<(ByteStr, Bytes)>> {
        self.object(coll, obj, |core, slot| {
            let (mut out, mut missing) = (Vec::new(), None);
            for k in keys {
                match core.omap_row(slot, Some(k.as_slice()), coll, &mut ask()) {
                    Ok(row) => out.extend(row.map(|row| (k.clone(), Bytes::copy_from_slice(&row)))),
                    // One ticket is as good as another: a caller that comes back asks for the rest.
                    Err(StoreError::Wait(n)) => missing = Some(n),
                    Err(e) => return Err(e),
                }
            }
            let Some(ticket) = missing else { return Ok(out) };
            let leaves = core.omap_leaves(slot, keys);
            core.hold_leaves(leaves);
            Err(StoreError::Wait(ticket))
        })
    }
    fn omap_scan(
        &self,
        coll: CollId,
        obj: &GHObject,
        from: OmapFrom<'_>,
        visit: &mut dyn FnMut(&ByteStr, &Bytes) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.object(coll, obj, |core, slot| {
            let first = match from {
                OmapFrom::Start => Vec::new(),
                OmapFrom::At(k) => k.to_vec(),
                OmapFrom::After(k) => [k, &[0]].concat(),
            };
            core.omap_rows(slot, &first, coll, &mut ask(), &mut |key, row| visit(&ByteStr::from(key), &Bytes::copy_from_slice(row)))
        })
    }

    fn list(&self, coll: CollId, start: &GHObject, end: &GHObject, max: usize) -> StoreResult<ListPage> {
        let mut core = self.0.borrow_mut();
        core.alive()?;
        core.busy(None)?;
        core.list(coll, start, end, max, &mut ask())
    }
    fn collections(&self) -> StoreResult<Vec<CollId>> {
        let mut core = self.0.borrow_mut();
        core.alive()?;
        core.busy(None)?;
        Ok(core.colls.iter().map(|(coll, _)| coll).collect())
    }
    fn collection_bits(&self, coll: CollId) -> StoreResult<Option<u32>> {
        let mut core = self.0.borrow_mut();
        core.alive()?;
        core.busy(None)?;
        Ok(core.colls.bits(coll))
    }

    fn load_pg(&self, pg: SpgId) -> StoreResult<Option<PgRecord>> {
        let mut core = self.0.borrow_mut();
        core.alive()?;
        core.busy(None)?;
        core.load_pg(pg)
    }
    fn pg_log(&self, pg: SpgId, after: EVersion, max: usize) -> StoreResult<Vec<PgLogEntry>> {
        let mut core = self.0.borrow_mut();
        core.alive()?;
        core.busy(None)?;
        core.pg_log(pg, after, max)
    }
    fn pgs(&self) -> StoreResult<Vec<SpgId>> {
        let mut core = self.0.borrow_mut();
        core.alive()?;
        core.busy(None)?;
        Ok(core.groups.ids().collect())
    }

    fn attrs_max(&self) -> AttrsMax {
        if self.0.borrow().sb.has_attr_cells() { AttrsMax::default() } else { attr_cells::MAX_WITHOUT }
    }
    fn statfs(&self) -> StoreStatfs {
        let mut fs = self.usage(None);
        self.0.borrow().fill(&mut fs);
        fs
    }
    fn pool_statfs(&self, pool: PoolId) -> StoreStatfs {
        self.usage(Some(pool))
    }
    fn kind(&self) -> &'static str {
        "block"
    }
}
