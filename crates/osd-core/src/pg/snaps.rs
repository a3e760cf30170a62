//! Which clones hold which snapshot: the index by which removed snapshots are trimmed.
//!
//! Kept in the store, as keys of one object of `meta`, changed with the transaction that makes or changes a clone: nothing has to be counted
//! when an OSD starts, nothing is in memory, and a split or a merge moves nothing. A key is
//!
//! ```text
//! pool (8 bytes, sign turned)  snapshot (8)  hash, bits reversed (4)  the clone's name (hobject_t)
//! ```
//!
//! big-endian, so that a group's clones of one snapshot lie side by side.

use super::range::reversed_hashes;
use crate::op::SnapIndexChange;
use crate::persist::{SNAPMAPPER, own_object};
use denc::{Denc, DencError};
use std::ops::ControlFlow;
use store::{ObjectStore, OmapFrom, StoreError, StoreResult};
use types::{ByteStr, Bytes, CEPH_SNAPDIR, CollId, HObject, IntervalSet, PgId, PgLogEntry, PoolId, SnapId, Transaction};

/// Bytes before a clone's name.
const PREFIX: usize = 20;

/// A group's part of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapRange {
    pool: PoolId,
    /// Of hashes with their bits reversed; the end is exclusive.
    begin: u32,
    end: u64,
}

fn prefix(pool: PoolId, snap: SnapId, hash_reversed: u32) -> Vec<u8> {
    let mut key = Vec::with_capacity(PREFIX);
    key.extend_from_slice(&(pool as u64 ^ 1 << 63).to_be_bytes());
    key.extend_from_slice(&snap.to_be_bytes());
    key.extend_from_slice(&hash_reversed.to_be_bytes());
    key
}

fn key(snap: SnapId, clone: &HObject) -> ByteStr {
    let mut key = prefix(clone.pool, snap, clone.bitwise_key());
    key.extend_from_slice(&clone.to_bytes(0));
    key.into()
}

fn number(key: &[u8], at: usize) -> Option<u64> {
    key.get(at..at + 8).map(|b| u64::from_be_bytes(b.try_into().expect("eight bytes")))
}

/// The changes of a transaction to the index.
pub fn note(changes: &[SnapIndexChange]) -> Transaction {
    let mut txn = Transaction::new(CollId::Meta);
    let object = own_object(SNAPMAPPER, 0);
    for change in changes {
        let gone: Vec<ByteStr> = change.old.iter().filter(|s| !change.new.contains(s)).map(|s| key(*s, &change.clone)).collect();
        let new: Vec<_> = change.new.iter().filter(|s| !change.old.contains(s)).map(|s| (key(*s, &change.clone), Bytes::new())).collect();
        if !gone.is_empty() {
            txn.omap_rm_keys(&object, gone);
        }
        if !new.is_empty() {
            txn.omap_set_keys(&object, new);
        }
    }
    txn
}

/// What entries of the log say of the index: which snapshots a clone has. They don't say which ones it had: keys of those stay until their snapshot
/// is purged, and lead trimming to nothing.
pub fn changes_of(entries: &[PgLogEntry]) -> Result<Vec<SnapIndexChange>, DencError> {
    let clones = entries.iter().filter(|e| e.soid.snap < CEPH_SNAPDIR && e.is_update());
    clones.map(|e| Ok(SnapIndexChange { clone: e.soid.clone(), old: Vec::new(), new: e.clone_snaps()? })).collect()
}

/// Takes a pool that is no more out of the index.
pub fn forget_pool(pool: PoolId) -> Transaction {
    let mut txn = Transaction::new(CollId::Meta);
    let end = pool.checked_add(1).map_or_else(|| vec![0xff; PREFIX], |next| prefix(next, 0, 0));
    txn.omap_rm_key_range(&own_object(SNAPMAPPER, 0), prefix(pool, 0, 0), end);
    txn
}

/// The first key from `at` on.
fn first_key(store: &dyn ObjectStore, at: &[u8]) -> StoreResult<Option<ByteStr>> {
    let mut found = None;
    let scanned = store.omap_scan(CollId::Meta, &own_object(SNAPMAPPER, 0), OmapFrom::At(at), &mut |key, _| {
        found = Some(key.clone());
        ControlFlow::Break(())
    });
    match scanned {
        Ok(()) => Ok(found),
        Err(StoreError::NoObject(..) | StoreError::NoCollection(..)) => Ok(None),
        Err(other) => Err(other),
    }
}

impl SnapRange {
    /// The part of group `pgid` of a pool with `pg_num` groups.
    pub fn of(pgid: PgId, pg_num: u32) -> Self {
        let (begin, end) = reversed_hashes(pgid.seed, pg_num);
        Self { pool: pgid.pool, begin, end }
    }
    /// A clone that a snapshot still has here.
    pub fn first(&self, store: &dyn ObjectStore, snap: SnapId) -> StoreResult<Option<HObject>> {
        let Some(key) = first_key(store, &prefix(self.pool, snap, self.begin))? else { return Ok(None) };
        let key = key.as_slice();
        let head = prefix(self.pool, snap, 0);
        let hash = key.get(16..PREFIX).map(|b| u32::from_be_bytes(b.try_into().expect("four bytes")));
        if !key.starts_with(&head[..16]) || hash.is_none_or(|h| u64::from(h) >= self.end) {
            return Ok(None);
        }
        let clone = HObject::from_bytes(&Bytes::copy_from_slice(&key[PREFIX..]));
        clone.map(Some).map_err(|e| StoreError::Damaged { coll: CollId::Meta, what: format!("a key of the index of snapshots: {e}") })
    }
    /// Takes snapshots that are purged out of this part of the index, as far as the store can say now which of them are in it: a key that stays only
    /// takes room.
    pub fn forget(&self, store: &dyn ObjectStore, purged: &IntervalSet) -> Transaction {
        let mut txn = Transaction::new(CollId::Meta);
        for (start, len) in purged.iter() {
            let mut at = start;
            while let Ok(Some(snap)) = self.next_snap(store, at)
                && snap - start < len
            {
                let end = u32::try_from(self.end).map_or_else(|_| prefix(self.pool, snap + 1, 0), |end| prefix(self.pool, snap, end));
                txn.omap_rm_key_range(&own_object(SNAPMAPPER, 0), prefix(self.pool, snap, self.begin), end);
                at = snap + 1;
            }
        }
        txn
    }
    /// The first snapshot from `snap` on that has a clone in the pool, be it in another group.
    pub fn next_snap(&self, store: &dyn ObjectStore, snap: SnapId) -> StoreResult<Option<SnapId>> {
        let key = first_key(store, &prefix(self.pool, snap, 0))?;
        let pool = prefix(self.pool, 0, 0);
        Ok(key.and_then(|key| {
            let key = key.as_slice();
            if key.starts_with(&pool[..8]) { number(key, 8) } else { None }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;
    use std::collections::BTreeSet;
    use store_mem::MemStore;

    #[test]
    fn a_group_finds_its_own_clones_whatever_pg_num_is() {
        let mut store = MemStore::new(1 << 30);
        let mut txn = Transaction::new(CollId::Meta);
        txn.create_collection(CollId::Meta, 0);
        txn.create(&own_object(SNAPMAPPER, 0));
        store.submit(txn, None, 0).unwrap();
        let mut rng = Rng::new(5);
        let mut clones = Vec::new();
        for i in 0..300_u64 {
            let hash = rng.u64() as u32;
            let pool = 1 + (i % 2) as i64;
            let clone = HObject { oid: format!("o{i}").into_bytes().into(), hash, pool, snap: 4, ..HObject::min() };
            let snaps = vec![2 + rng.below(3), 9];
            store.submit(note(&[SnapIndexChange { clone: clone.clone(), old: Vec::new(), new: snaps.clone() }]), None, 0).unwrap();
            clones.push((clone, snaps));
        }
        for pg_num in [1, 3, 8, 13] {
            let mask = types::hash::bins_mask(pg_num);
            for (seed, snap) in (0..pg_num).flat_map(|seed| (0..12).map(move |snap| (seed, snap))) {
                let range = SnapRange::of(PgId::new(1, seed), pg_num);
                let here = |c: &HObject| c.pool == 1 && types::hash::stable_mod(c.hash, pg_num, mask) == seed;
                let wanted: BTreeSet<_> = clones.iter().filter(|(c, s)| here(c) && s.contains(&snap)).map(|(c, _)| c.clone()).collect();
                assert_eq!(range.first(&store, snap).unwrap(), wanted.first().cloned(), "pg {seed} of {pg_num}, snap {snap}");
            }
        }
        let range = SnapRange::of(PgId::new(1, 0), 1);
        assert_eq!((range.next_snap(&store, 5).unwrap(), range.next_snap(&store, 10).unwrap()), (Some(9), None));
        store.submit(forget_pool(1), None, 0).unwrap();
        assert_eq!(range.next_snap(&store, 0).unwrap(), None);
        assert_eq!(SnapRange::of(PgId::new(2, 0), 1).next_snap(&store, 5).unwrap(), Some(9));
    }
}
