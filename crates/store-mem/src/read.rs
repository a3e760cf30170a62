//! The store's answers.

use crate::MemStore;
use crate::log::Group;
use crate::object::Object;
use bytes::Bytes;
use std::ops::{Bound, ControlFlow};
use store::{ListPage, LogDelta, ObjectStat, ObjectStore, OmapFrom, PgRecord, ReadData, StoreError, StoreHints, StoreResult};
use types::{ByteStr, CollId, EVersion, GHObject, IntervalSet, PgLogEntry, PoolId, SpgId, StoreStatfs, Transaction};

impl MemStore {
    fn object(&self, coll: CollId, obj: &GHObject) -> StoreResult<&Object> {
        self.alive()?;
        self.coll(coll)?.get(obj).ok_or(StoreError::NoObject(coll))
    }
}

/// Everything lies in memory where it is looked for: there is nothing to be told.
impl StoreHints for MemStore {}

impl ObjectStore for MemStore {
    fn submit(&mut self, txn: Transaction, log: Option<LogDelta>, token: u64) -> StoreResult<()> {
        self.submit_all(txn, log, token)
    }
    fn take_commits(&mut self, tokens: &mut Vec<u64>) {
        tokens.append(&mut self.commits);
    }

    fn exists(&self, coll: CollId, obj: &GHObject) -> StoreResult<bool> {
        self.alive()?;
        Ok(self.coll(coll)?.get(obj).is_some())
    }
    fn stat(&self, coll: CollId, obj: &GHObject) -> StoreResult<ObjectStat> {
        let o = self.object(coll, obj)?;
        Ok(ObjectStat {
            size: o.size,
            expected_object_size: o.hint.object_size,
            expected_write_size: o.hint.write_size,
            alloc_hint_flags: o.hint.flags,
        })
    }
    fn read(&self, coll: CollId, obj: &GHObject, offset: u64, len: u64) -> StoreResult<ReadData> {
        let o = self.object(coll, obj)?;
        let len = len.min(o.size.saturating_sub(offset));
        Ok(if len == 0 { ReadData::new() } else { o.data.read(offset, len) })
    }
    fn read_ranges(&self, coll: CollId, obj: &GHObject, ranges: &IntervalSet) -> StoreResult<ReadData> {
        let mut all = ReadData::new();
        for (at, len) in ranges.iter() {
            self.read(coll, obj, at, len)?.into_pieces().into_iter().for_each(|piece| all.push(piece));
        }
        Ok(all)
    }
    fn extents(&self, coll: CollId, obj: &GHObject, offset: u64, len: u64) -> StoreResult<IntervalSet> {
        Ok(self.object(coll, obj)?.extents(offset, len))
    }
    fn attr(&self, coll: CollId, obj: &GHObject, name: &[u8]) -> StoreResult<Option<Bytes>> {
        Ok(self.object(coll, obj)?.attr(name))
    }
    fn two_attrs(&self, coll: CollId, obj: &GHObject, names: [&[u8]; 2]) -> StoreResult<[Option<Bytes>; 2]> {
        let object = self.object(coll, obj)?;
        Ok(names.map(|name| object.attr(name)))
    }
    fn attrs(&self, coll: CollId, obj: &GHObject) -> StoreResult<Vec<(ByteStr, Bytes)>> {
        Ok(self.object(coll, obj)?.attrs().collect())
    }
    fn omap_header(&self, coll: CollId, obj: &GHObject) -> StoreResult<Bytes> {
        Ok(self.object(coll, obj)?.omap().map_or_else(Bytes::new, |o| o.header.clone()))
    }
    fn omap_get(&self, coll: CollId, obj: &GHObject, keys: &[ByteStr]) -> StoreResult<Vec<(ByteStr, Bytes)>> {
        let Some(omap) = self.object(coll, obj)?.omap() else { return Ok(Vec::new()) };
        Ok(keys.iter().filter_map(|k| omap.keys.get(k.as_slice()).cloned()).collect())
    }
    fn omap_scan(
        &self,
        coll: CollId,
        obj: &GHObject,
        from: OmapFrom<'_>,
        visit: &mut dyn FnMut(&ByteStr, &Bytes) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        let Some(omap) = self.object(coll, obj)?.omap() else { return Ok(()) };
        let start: Bound<&[u8]> = match from {
            OmapFrom::Start => Bound::Unbounded,
            OmapFrom::At(key) => Bound::Included(key),
            OmapFrom::After(key) => Bound::Excluded(key),
        };
        for (key, value) in omap.keys.range(start) {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn list(&self, coll: CollId, start: &GHObject, end: &GHObject, max: usize) -> StoreResult<ListPage> {
        self.alive()?;
        let mut objects = self.coll(coll)?.from(start).take_while(|o| *o < end);
        Ok(ListPage { objects: objects.by_ref().take(max.max(1)).cloned().collect(), next: objects.next().cloned() })
    }
    fn collections(&self) -> StoreResult<Vec<CollId>> {
        self.alive()?;
        Ok(self.colls.keys().copied().collect())
    }
    fn collection_bits(&self, coll: CollId) -> StoreResult<Option<u32>> {
        self.alive()?;
        Ok(self.colls.get(&coll).map(|c| c.bits))
    }

    fn load_pg(&self, pg: SpgId) -> StoreResult<Option<PgRecord>> {
        self.alive()?;
        Ok(self.pgs.get(&pg).map(Group::record))
    }
    fn pg_log(&self, pg: SpgId, after: EVersion, max: usize) -> StoreResult<Vec<PgLogEntry>> {
        self.alive()?;
        Ok(self.pgs.get(&pg).map(|group| group.log(after, max)).unwrap_or_default())
    }
    fn pgs(&self) -> StoreResult<Vec<SpgId>> {
        self.alive()?;
        Ok(self.pgs.keys().copied().collect())
    }

    fn statfs(&self) -> StoreStatfs {
        let mut fs = self.usage_by(None);
        fs.total = self.capacity;
        fs.available = self.capacity.saturating_sub(self.used().max(0) as u64);
        fs
    }
    fn pool_statfs(&self, pool: PoolId) -> StoreStatfs {
        self.usage_by(Some(pool))
    }
    fn kind(&self) -> &'static str {
        "memstore"
    }
}
