//! What of an OSD's store is durable: a store between the OSD and its own, which keeps a ledger of what was given and not yet said to be committed.
//!
//! ```text
//!   OSD ── submit ──▶ here ──▶ its store         what is visible at once is not durable yet
//!   OSD ◀── commit ── here ◀── its store         in the order of submission; a slow store's by and by
//! ```
//! The memory store commits at once. Where the ledger lags, its commits come as those of a device: some of them at a time, when [`Ledger::release`] says so.

use crate::crowd;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;
use store::{
    AttrsMax, ListPage, LogDelta, ObjectStat, ObjectStore, OmapFrom, OmapPage, OmapQuery, PgRecord, ReadData, StoreError, StoreHints,
    StoreResult,
};
use types::{ByteStr, CollId, EVersion, GHObject, HObject, IntervalSet, PgLogEntry, PoolId, SpgId, StoreStatfs, Transaction};

/// A log entry by its object's pool and hash, wherever a split puts it.
pub type Entry = (PoolId, u32, EVersion);

#[derive(Debug, Default)]
struct State {
    /// What was given and is not committed, oldest first: the token, and the entries that came with it.
    given: VecDeque<(u64, Vec<Entry>)>,
    /// Entries that were committed once: a log that is written anew gives them again.
    kept: BTreeSet<Entry>,
    /// Tokens that the store has said and the OSD has not heard.
    unheard: VecDeque<u64>,
    /// How many of them it may hear.
    released: usize,
    lags: bool,
    /// Nothing is taken any more, and since a write was refused: true.
    fails: Option<bool>,
    /// A change was refused for want of room that the store said to have.
    refused: Option<String>,
}

/// See the module. Copies are of the same one.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Rc<RefCell<State>>);

impl Ledger {
    /// Commits come by and by from now on, or at once.
    pub fn lag(&self, lags: bool) {
        self.0.borrow_mut().lags = lags;
    }
    /// True if there are commits that the OSD is to hear of later.
    pub fn waits(&self) -> bool {
        let state = self.0.borrow();
        state.lags && !state.given.is_empty()
    }
    /// The OSD may hear of so many more commits.
    pub fn release(&self, count: usize) {
        let mut state = self.0.borrow_mut();
        state.released = state.released.saturating_add(count);
    }
    /// The OSD is over, and what it had given is durable or gone.
    pub fn clear(&self) {
        let mut state = self.0.borrow_mut();
        state.given.clear();
        state.unheard.clear();
        state.released = 0;
    }
    /// The device fails from now on.
    pub fn fail(&self) {
        self.0.borrow_mut().fails.get_or_insert(false);
    }
    /// True if a write was refused.
    pub fn has_failed(&self) -> bool {
        self.0.borrow().fails == Some(true)
    }
    /// The fault of the last refusal, if it has one.
    pub fn refused(&self) -> Option<String> {
        self.0.borrow_mut().refused.take()
    }
    /// True if the OSD has not heard that this entry is durable.
    pub fn is_pending(&self, pool: PoolId, hash: u32, version: EVersion) -> bool {
        self.any_pending(|one| one == (pool, hash, version))
    }
    /// The same of any entry that is meant.
    pub fn any_pending(&self, is_meant: impl Fn(Entry) -> bool) -> bool {
        let state = self.0.borrow();
        state.given.iter().any(|(_, entries)| entries.iter().any(|entry| is_meant(*entry) && !state.kept.contains(entry)))
    }
}

/// See the module.
pub struct Watched {
    inner: Box<dyn ObjectStore>,
    ledger: Ledger,
}

impl Watched {
    pub fn new(inner: Box<dyn ObjectStore>, ledger: Ledger) -> Self {
        Self { inner, ledger }
    }
}

fn entries_of(delta: &LogDelta) -> Vec<Entry> {
    let all = std::iter::once(delta).chain(&delta.with).flat_map(|delta| &delta.entries);
    all.map(|e| (e.soid.pool, e.soid.hash, e.version)).collect()
}

impl StoreHints for Watched {
    fn linger(&mut self, limit: Duration) -> bool {
        self.inner.linger(limit)
    }
    fn soon(&self, names: &mut dyn Iterator<Item = (CollId, &HObject)>) {
        self.inner.soon(names);
    }
    fn compact(&mut self) -> u64 {
        self.inner.compact()
    }
    fn is_compacted(&self, compaction: u64) -> bool {
        self.inner.is_compacted(compaction)
    }
    fn take_read(&self, ticket: u64) -> Option<ReadData> {
        self.inner.take_read(ticket)
    }
    fn limit_memory(&mut self, bytes: usize) {
        self.inner.limit_memory(bytes);
    }
    fn gives_back(&mut self, on: bool) {
        self.inner.gives_back(on);
    }
    fn give_back(&mut self, now: Duration) {
        self.inner.give_back(now);
    }
    fn given_back(&self) -> u64 {
        self.inner.given_back()
    }
    fn memory(&self) -> Vec<(&'static str, usize)> {
        self.inner.memory()
    }
}

impl ObjectStore for Watched {
    fn submit(&mut self, txn: Transaction, log: Option<LogDelta>, token: u64) -> StoreResult<()> {
        if let Some(refused) = &mut self.ledger.0.borrow_mut().fails {
            *refused = true;
            return Err(StoreError::Stopped("its device fails".into()));
        }
        let (entries, wanted) = (log.as_ref().map_or_else(Vec::new, entries_of), txn.data_len());
        let taken = self.inner.submit(txn, log, token);
        if taken == Err(StoreError::Full) {
            self.ledger.0.borrow_mut().refused = crowd::refused(wanted, &self.inner.statfs());
        }
        taken?;
        self.ledger.0.borrow_mut().given.push_back((token, entries));
        Ok(())
    }
    fn take_commits(&mut self, tokens: &mut Vec<u64>) {
        let mut said = Vec::new();
        self.inner.take_commits(&mut said);
        let state = &mut *self.ledger.0.borrow_mut();
        state.unheard.extend(said);
        let count = if state.lags { state.released.min(state.unheard.len()) } else { state.unheard.len() };
        state.released = 0;
        for token in state.unheard.drain(..count) {
            let (given, entries) = state.given.pop_front().expect("a store commits what it was given");
            assert_eq!(given, token, "a store commits in the order of submission");
            state.kept.extend(entries);
            tokens.push(token);
        }
    }
    fn attrs_bytes(&self, coll: CollId, obj: &GHObject) -> StoreResult<u64> {
        self.inner.attrs_bytes(coll, obj)
    }
    fn attrs_max(&self) -> AttrsMax {
        self.inner.attrs_max()
    }
    fn turn_end(&mut self) {
        self.inner.turn_end();
    }
    fn take_ready(&mut self, tickets: &mut Vec<u64>) {
        self.inner.take_ready(tickets);
    }
    fn forget(&mut self, coll: CollId, obj: &GHObject, offset: u64, len: u64) {
        self.inner.forget(coll, obj, offset, len);
    }
    fn damage(&self) -> Option<String> {
        self.inner.damage()
    }
    fn stopped_at_damage(&self) -> bool {
        self.inner.stopped_at_damage()
    }
    fn exists(&self, coll: CollId, obj: &GHObject) -> StoreResult<bool> {
        self.inner.exists(coll, obj)
    }
    fn stat(&self, coll: CollId, obj: &GHObject) -> StoreResult<ObjectStat> {
        self.inner.stat(coll, obj)
    }
    fn read(&self, coll: CollId, obj: &GHObject, offset: u64, len: u64) -> StoreResult<ReadData> {
        self.inner.read(coll, obj, offset, len)
    }
    fn read_ranges(&self, coll: CollId, obj: &GHObject, ranges: &IntervalSet) -> StoreResult<ReadData> {
        self.inner.read_ranges(coll, obj, ranges)
    }
    fn extents(&self, coll: CollId, obj: &GHObject, offset: u64, len: u64) -> StoreResult<IntervalSet> {
        self.inner.extents(coll, obj, offset, len)
    }
    fn attr(&self, coll: CollId, obj: &GHObject, name: &[u8]) -> StoreResult<Option<Bytes>> {
        self.inner.attr(coll, obj, name)
    }
    fn two_attrs(&self, coll: CollId, obj: &GHObject, names: [&[u8]; 2]) -> StoreResult<[Option<Bytes>; 2]> {
        self.inner.two_attrs(coll, obj, names)
    }
    fn attrs(&self, coll: CollId, obj: &GHObject) -> StoreResult<Vec<(ByteStr, Bytes)>> {
        self.inner.attrs(coll, obj)
    }
    fn omap_header(&self, coll: CollId, obj: &GHObject) -> StoreResult<Bytes> {
        self.inner.omap_header(coll, obj)
    }
    fn omap_get(&self, coll: CollId, obj: &GHObject, keys: &[ByteStr]) -> StoreResult<Vec<(ByteStr, Bytes)>> {
        self.inner.omap_get(coll, obj, keys)
    }
    fn omap_scan(
        &self,
        coll: CollId,
        obj: &GHObject,
        from: OmapFrom<'_>,
        visit: &mut dyn FnMut(&ByteStr, &Bytes) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.inner.omap_scan(coll, obj, from, visit)
    }
    fn omap_list(&self, coll: CollId, obj: &GHObject, query: &OmapQuery<'_>) -> StoreResult<OmapPage> {
        self.inner.omap_list(coll, obj, query)
    }
    fn list(&self, coll: CollId, start: &GHObject, end: &GHObject, max: usize) -> StoreResult<ListPage> {
        self.inner.list(coll, start, end, max)
    }
    fn collections(&self) -> StoreResult<Vec<CollId>> {
        self.inner.collections()
    }
    fn collection_bits(&self, coll: CollId) -> StoreResult<Option<u32>> {
        self.inner.collection_bits(coll)
    }
    fn load_pg(&self, pg: SpgId) -> StoreResult<Option<PgRecord>> {
        self.inner.load_pg(pg)
    }
    fn pg_log(&self, pg: SpgId, after: EVersion, max: usize) -> StoreResult<Vec<PgLogEntry>> {
        self.inner.pg_log(pg, after, max)
    }
    fn pgs(&self) -> StoreResult<Vec<SpgId>> {
        self.inner.pgs()
    }
    fn statfs(&self) -> StoreStatfs {
        self.inner.statfs()
    }
    fn pool_statfs(&self, pool: PoolId) -> StoreStatfs {
        self.inner.pool_statfs(pool)
    }
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }
}
