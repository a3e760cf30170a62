//! The memory store: objects as chunks of shared bytes, gone with the process. The model that other stores are compared with.
//!
//! What bounds its memory is the capacity that it is made with: a transaction that would pass it is refused with `Full`.

#![forbid(unsafe_code)]

mod apply;
mod attrs;
mod chunks;
mod coll;
mod homes;
mod log;
mod object;
mod pages;
mod read;
#[cfg(test)]
mod tests;

use coll::Coll;
use disk::LargeMemory;
use log::Group;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{LogDelta, PgRecord, StoreError, StoreResult};
use types::{CollId, PoolId, SpgId, StoreStatfs, Transaction};

/// An object store in memory. Everything is durable (as long as the process lives) as soon as it is submitted.
#[derive(Debug)]
pub struct MemStore {
    colls: BTreeMap<CollId, Coll>,
    pgs: BTreeMap<SpgId, Group>,
    /// Bytes.
    capacity: u64,
    /// What may be added before use is counted again.
    headroom: u64,
    commits: Vec<u64>,
    /// Where large writes arrive, if they may stay there.
    memory: Option<Arc<LargeMemory>>,
    /// Why it stopped.
    failed: Option<String>,
}

impl MemStore {
    /// A store that holds up to `capacity` bytes of data, omap and names.
    pub fn new(capacity: u64) -> Self {
        Self { colls: BTreeMap::new(), pgs: BTreeMap::new(), capacity, headroom: 0, commits: Vec::new(), memory: None, failed: None }
    }
    /// The same; writes that arrive in this memory stay in it. An object keeps at most twice as much of it as it has bytes there.
    pub fn with_memory(capacity: u64, memory: Arc<LargeMemory>) -> Self {
        Self { memory: Some(memory), ..Self::new(capacity) }
    }
    fn used(&self) -> i64 {
        self.colls.values().map(|c| c.usage.total()).sum()
    }
    fn alive(&self) -> StoreResult<()> {
        match &self.failed {
            None => Ok(()),
            Some(why) => Err(StoreError::Stopped(why.clone())),
        }
    }
    fn coll(&self, id: CollId) -> StoreResult<&Coll> {
        self.colls.get(&id).ok_or(StoreError::NoCollection(id))
    }
    /// True if what `txn` may add at most does not fit. What only removes always fits.
    fn overflows(&mut self, txn: &Transaction) -> bool {
        let growth = apply::growth_max(txn);
        if growth > self.headroom {
            self.headroom = self.capacity.saturating_sub(self.used().max(0) as u64);
        }
        if growth > self.headroom {
            return true;
        }
        self.headroom -= growth;
        false
    }
    fn submit_all(&mut self, txn: Transaction, log: Option<LogDelta>, token: u64) -> StoreResult<()> {
        self.alive()?;
        if self.overflows(&txn) {
            return Err(StoreError::Full);
        }
        if let Err(e) = self.apply(txn) {
            self.failed = Some(match &e {
                StoreError::Stopped(why) => why.clone(),
                other => other.to_string(),
            });
            return Err(e);
        }
        log.into_iter().flat_map(LogDelta::apart).for_each(|delta| self.apply_log(delta));
        self.commits.push(token);
        Ok(())
    }
    fn apply_log(&mut self, delta: LogDelta) {
        let pg = delta.pg;
        match self.pgs.get_mut(&pg) {
            Some(group) if !delta.reset => group.update(delta),
            _ => {
                self.pgs.remove(&pg);
                let mut record = None;
                PgRecord::apply(&mut record, delta);
                self.pgs.extend(record.map(|r| (pg, Group::new(r))));
            }
        }
    }
    fn usage_by(&self, pool: Option<PoolId>) -> StoreStatfs {
        let mut sum = StoreStatfs::default();
        for (id, coll) in &self.colls {
            if pool.is_none() || id.pg().map(|pg| pg.pgid.pool) == pool {
                coll.usage.add_to(&mut sum);
            }
        }
        sum
    }
}
