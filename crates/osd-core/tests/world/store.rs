//! A store for tests: the memory store, which on request must fetch what it is asked for, keeps commits back, remembers what was submitted
//! (so that a crash can take away what was not committed), gives errors, or stops.

use base::Rng;
use bytes::Bytes;
use std::cell::Cell;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::rc::Rc;
use store::{ListPage, LogDelta, ObjectStat, ObjectStore, OmapFrom, PgRecord, ReadData, StoreError, StoreHints, StoreResult};
use store_mem::MemStore;
use types::{ByteStr, CollId, EVersion, GHObject, IntervalSet, PgLogEntry, PoolId, SpgId, StoreStatfs, Transaction};

/// What the test and the store share.
#[derive(Default)]
pub struct Control {
    /// With one, reads are answered with `Wait` now and then.
    fetches: Option<Rng>,
    /// What has been fetched and not been forgotten again.
    fetched: BTreeSet<String>,
    fetching: Vec<(u64, String)>,
    /// Reads of data that wait, and those whose tickets were given last: the bytes as they were when they were asked for.
    asked: BTreeMap<u64, ReadData>,
    given: BTreeMap<u64, ReadData>,
    /// Bytes that were read for a ticket are forgotten at once.
    pub keeps_nothing: bool,
    /// How often one was given by its ticket.
    pub given_by_ticket: Cell<u64>,
    tickets: u64,
    /// Commits are kept back; so many of them may go.
    pub holds_commits: bool,
    pub let_go: usize,
    held: Vec<u64>,
    /// Everything that was submitted, if it is wanted, and how much of it was told to be durable.
    pub journal: Option<Vec<(Transaction, Option<LogDelta>)>>,
    pub committed: usize,
    /// Objects with this in their names are damaged.
    pub damaged: Option<String>,
    /// The record of this group is damaged.
    pub damaged_group: Option<SpgId>,
    pub stopped: Option<String>,
    /// What happens to it with the next turn, and the OSD knows nothing of.
    pub behind: Vec<Transaction>,
    /// Changes are refused for want of room, whatever `statfs` says.
    pub refuses: bool,
    /// Bytes available less than there are.
    pub taken: u64,
    /// Compactions that it was asked for, and that have ended.
    pub compactions: u64,
    pub compacted: u64,
    waits: u64,
}

impl Control {
    pub fn is_fetching(&self) -> bool {
        !self.fetching.is_empty()
    }
    /// From now on reads must be fetched now and then.
    pub fn fetch(&mut self, seed: u64) {
        self.fetches = Some(Rng::new(seed));
    }
    /// How often a read had to wait.
    pub fn waits(&self) -> u64 {
        self.waits
    }
    pub fn held(&self) -> usize {
        self.held.len()
    }
}

pub struct TestStore {
    inner: MemStore,
    control: Rc<RefCell<Control>>,
}

impl TestStore {
    pub fn new(fetch_seed: Option<u64>) -> (Self, Rc<RefCell<Control>>) {
        let control = Control { fetches: fetch_seed.map(Rng::new), ..Control::default() };
        let control = Rc::new(RefCell::new(control));
        (Self { inner: MemStore::new(1 << 30), control: control.clone() }, control)
    }
    /// A store in which the first `count` of these changes happened.
    pub fn replay(journal: &[(Transaction, Option<LogDelta>)], fetch_seed: Option<u64>) -> (Self, Rc<RefCell<Control>>) {
        let (mut store, control) = Self::new(fetch_seed);
        for (txn, delta) in journal {
            store.inner.submit(txn.clone(), delta.clone(), 0).expect("it was taken before");
        }
        store.inner.take_commits(&mut Vec::new());
        control.borrow_mut().committed = journal.len();
        control.borrow_mut().journal = Some(journal.to_vec());
        (store, control)
    }
    /// Whether this can be answered now.
    fn gate(&self, coll: CollId, obj: &GHObject, what: &str) -> StoreResult<()> {
        let mut c = self.control.borrow_mut();
        if let Some(why) = &c.stopped {
            return Err(StoreError::Stopped(why.clone()));
        }
        let name = String::from_utf8_lossy(obj.hobj.oid.as_slice());
        if c.damaged.as_ref().is_some_and(|d| name.contains(d)) {
            return Err(StoreError::Damaged { coll, what: format!("{name}: crc") });
        }
        let key = format!("{coll} {obj:?} {what}");
        let Some(rng) = &mut c.fetches else { return Ok(()) };
        let lucky = rng.chance(1, 3);
        if lucky || c.fetched.contains(&key) {
            return Ok(());
        }
        c.tickets += 1;
        c.waits += 1;
        let ticket = c.tickets;
        c.fetching.push((ticket, key));
        Err(StoreError::Wait(ticket))
    }
}

impl StoreHints for TestStore {
    fn compact(&mut self) -> u64 {
        let mut c = self.control.borrow_mut();
        c.compactions += 1;
        c.compactions
    }
    fn is_compacted(&self, compaction: u64) -> bool {
        self.control.borrow().compacted >= compaction
    }
    fn take_read(&self, ticket: u64) -> Option<ReadData> {
        let c = self.control.borrow();
        let data = c.given.get(&ticket)?;
        c.given_by_ticket.set(c.given_by_ticket.get() + 1);
        Some(data.clone())
    }
}

impl ObjectStore for TestStore {
    fn submit(&mut self, txn: Transaction, log: Option<LogDelta>, token: u64) -> StoreResult<()> {
        let mut c = self.control.borrow_mut();
        if let Some(why) = &c.stopped {
            return Err(StoreError::Stopped(why.clone()));
        }
        if c.refuses {
            return Err(StoreError::Full);
        }
        if let Some(journal) = &mut c.journal {
            journal.push((txn.clone(), log.clone()));
        }
        drop(c);
        self.inner.submit(txn, log, token)
    }
    fn take_commits(&mut self, tokens: &mut Vec<u64>) {
        let c = &mut *self.control.borrow_mut();
        self.inner.take_commits(&mut c.held);
        for txn in std::mem::take(&mut c.behind) {
            self.inner.submit(txn, None, 0).expect("what is damaged is there");
            self.inner.take_commits(&mut Vec::new());
        }
        let count = if c.holds_commits { std::mem::take(&mut c.let_go).min(c.held.len()) } else { c.held.len() };
        c.committed += count;
        tokens.extend(c.held.drain(..count));
    }
    fn take_ready(&mut self, tickets: &mut Vec<u64>) {
        let c = &mut *self.control.borrow_mut();
        let Some(rng) = &mut c.fetches else { return };
        // Forgets some, so that what was fetched may have to be fetched again.
        c.fetched.retain(|_| !rng.chance(1, 16));
        let (ready, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut c.fetching).into_iter().partition(|_| rng.chance(1, 2));
        c.fetching = rest;
        c.given.clear();
        for (ticket, key) in ready {
            tickets.push(ticket);
            // Now and then it has been forgotten.
            let keeps_nothing = c.keeps_nothing;
            let kept = c.asked.remove(&ticket).filter(|_| rng.chance(3, 4) && !keeps_nothing);
            c.given.extend(kept.map(|data| (ticket, data)));
            c.fetched.insert(key);
        }
    }
    fn exists(&self, coll: CollId, obj: &GHObject) -> StoreResult<bool> {
        self.gate(coll, obj, "exists")?;
        self.inner.exists(coll, obj)
    }
    fn stat(&self, coll: CollId, obj: &GHObject) -> StoreResult<ObjectStat> {
        self.gate(coll, obj, "stat")?;
        self.inner.stat(coll, obj)
    }
    fn read(&self, coll: CollId, obj: &GHObject, offset: u64, len: u64) -> StoreResult<ReadData> {
        self.gate(coll, obj, &format!("read {offset} {len}")).inspect_err(|error| {
            if let (StoreError::Wait(ticket), Ok(now)) = (error, self.inner.read(coll, obj, offset, len)) {
                self.control.borrow_mut().asked.insert(*ticket, now);
            }
        })?;
        self.inner.read(coll, obj, offset, len)
    }
    fn read_ranges(&self, coll: CollId, obj: &GHObject, ranges: &IntervalSet) -> StoreResult<ReadData> {
        self.gate(coll, obj, &format!("read {ranges:?}"))?;
        self.inner.read_ranges(coll, obj, ranges)
    }
    fn extents(&self, coll: CollId, obj: &GHObject, offset: u64, len: u64) -> StoreResult<IntervalSet> {
        self.gate(coll, obj, "extents")?;
        self.inner.extents(coll, obj, offset, len)
    }
    fn attr(&self, coll: CollId, obj: &GHObject, name: &[u8]) -> StoreResult<Option<Bytes>> {
        self.gate(coll, obj, "attr")?;
        self.inner.attr(coll, obj, name)
    }
    fn attrs(&self, coll: CollId, obj: &GHObject) -> StoreResult<Vec<(ByteStr, Bytes)>> {
        self.gate(coll, obj, "attr")?;
        self.inner.attrs(coll, obj)
    }
    fn omap_header(&self, coll: CollId, obj: &GHObject) -> StoreResult<Bytes> {
        self.gate(coll, obj, "omap header")?;
        self.inner.omap_header(coll, obj)
    }
    fn omap_get(&self, coll: CollId, obj: &GHObject, keys: &[ByteStr]) -> StoreResult<Vec<(ByteStr, Bytes)>> {
        self.gate(coll, obj, &format!("omap {keys:?}"))?;
        self.inner.omap_get(coll, obj, keys)
    }
    fn omap_scan(
        &self,
        coll: CollId,
        obj: &GHObject,
        from: OmapFrom<'_>,
        visit: &mut dyn FnMut(&ByteStr, &Bytes) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.gate(coll, obj, &format!("omap {from:?}"))?;
        self.inner.omap_scan(coll, obj, from, visit)
    }
    fn list(&self, coll: CollId, start: &GHObject, end: &GHObject, max: usize) -> StoreResult<ListPage> {
        self.gate(coll, start, "list")?;
        self.inner.list(coll, start, end, max)
    }
    fn collections(&self) -> StoreResult<Vec<CollId>> {
        self.inner.collections()
    }
    fn collection_bits(&self, coll: CollId) -> StoreResult<Option<u32>> {
        if let Some(why) = &self.control.borrow().stopped {
            return Err(StoreError::Stopped(why.clone()));
        }
        self.inner.collection_bits(coll)
    }
    fn load_pg(&self, pg: SpgId) -> StoreResult<Option<PgRecord>> {
        if self.control.borrow().damaged_group == Some(pg) {
            return Err(StoreError::Damaged { coll: CollId::Pg(pg), what: "its log: crc".into() });
        }
        self.gate(CollId::Pg(pg), &GHObject::min(), "load")?;
        self.inner.load_pg(pg)
    }
    fn pg_log(&self, pg: SpgId, after: EVersion, max: usize) -> StoreResult<Vec<PgLogEntry>> {
        if self.control.borrow().damaged_group == Some(pg) {
            return Err(StoreError::Damaged { coll: CollId::Pg(pg), what: "its log: crc".into() });
        }
        self.gate(CollId::Pg(pg), &GHObject::min(), "log")?;
        self.inner.pg_log(pg, after, max)
    }
    fn pgs(&self) -> StoreResult<Vec<SpgId>> {
        self.inner.pgs()
    }
    fn statfs(&self) -> StoreStatfs {
        let mut fs = self.inner.statfs();
        fs.available = fs.available.saturating_sub(self.control.borrow().taken);
        fs
    }
    fn pool_statfs(&self, pool: PoolId) -> StoreStatfs {
        self.inner.pool_statfs(pool)
    }
    fn kind(&self) -> &'static str {
        "memstore"
    }
}
