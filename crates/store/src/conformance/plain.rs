//! A store with its hints hidden: only what it owes gets through. What passes the suite so needs no hint to be right.

use super::Subject;
use crate::{LogDelta, ObjectStore, StoreHints, StoreResult};
use types::{CollId, GHObject, Transaction};

/// In an implementation of [`ObjectStore`]: everything that is asked of a store is asked of the one in this field. For stores that stand before another.
#[macro_export]
macro_rules! forward_reads {
    ($inner:tt) => {
        fn exists(&self, coll: $crate::__types::CollId, obj: &$crate::__types::GHObject) -> $crate::StoreResult<bool> {
            self.$inner.exists(coll, obj)
        }
        fn stat(&self, coll: $crate::__types::CollId, obj: &$crate::__types::GHObject) -> $crate::StoreResult<$crate::ObjectStat> {
            self.$inner.stat(coll, obj)
        }
        fn read(
            &self,
            coll: $crate::__types::CollId,
            obj: &$crate::__types::GHObject,
            offset: u64,
            len: u64,
        ) -> $crate::StoreResult<$crate::ReadData> {
            self.$inner.read(coll, obj, offset, len)
        }
        fn read_ranges(
            &self,
            coll: $crate::__types::CollId,
            obj: &$crate::__types::GHObject,
            ranges: &$crate::__types::IntervalSet,
        ) -> $crate::StoreResult<$crate::ReadData> {
            self.$inner.read_ranges(coll, obj, ranges)
        }
        fn extents(
            &self,
            coll: $crate::__types::CollId,
            obj: &$crate::__types::GHObject,
            offset: u64,
            len: u64,
        ) -> $crate::StoreResult<$crate::__types::IntervalSet> {
            self.$inner.extents(coll, obj, offset, len)
        }
        fn attr(
            &self,
            coll: $crate::__types::CollId,
            obj: &$crate::__types::GHObject,
            name: &[u8],
        ) -> $crate::StoreResult<Option<$crate::__types::Bytes>> {
            self.$inner.attr(coll, obj, name)
        }
        fn attrs(
            &self,
            coll: $crate::__types::CollId,
            obj: &$crate::__types::GHObject,
        ) -> $crate::StoreResult<Vec<($crate::__types::ByteStr, $crate::__types::Bytes)>> {
            self.$inner.attrs(coll, obj)
        }
        fn omap_header(
            &self,
            coll: $crate::__types::CollId,
            obj: &$crate::__types::GHObject,
        ) -> $crate::StoreResult<$crate::__types::Bytes> {
            self.$inner.omap_header(coll, obj)
        }
        fn omap_get(
            &self,
            coll: $crate::__types::CollId,
            obj: &$crate::__types::GHObject,
            keys: &[$crate::__types::ByteStr],
        ) -> $crate::StoreResult<Vec<($crate::__types::ByteStr, $crate::__types::Bytes)>> {
            self.$inner.omap_get(coll, obj, keys)
        }
        fn omap_scan(
            &self,
            coll: $crate::__types::CollId,
            obj: &$crate::__types::GHObject,
            from: $crate::OmapFrom<'_>,
            visit: &mut dyn FnMut(&$crate::__types::ByteStr, &$crate::__types::Bytes) -> std::ops::ControlFlow<()>,
        ) -> $crate::StoreResult<()> {
            self.$inner.omap_scan(coll, obj, from, visit)
        }
        fn list(
            &self,
            coll: $crate::__types::CollId,
            start: &$crate::__types::GHObject,
            end: &$crate::__types::GHObject,
            max: usize,
        ) -> $crate::StoreResult<$crate::ListPage> {
            self.$inner.list(coll, start, end, max)
        }
        fn collections(&self) -> $crate::StoreResult<Vec<$crate::__types::CollId>> {
            self.$inner.collections()
        }
        fn collection_bits(&self, coll: $crate::__types::CollId) -> $crate::StoreResult<Option<u32>> {
            self.$inner.collection_bits(coll)
        }
        fn load_pg(&self, pg: $crate::__types::SpgId) -> $crate::StoreResult<Option<$crate::PgRecord>> {
            self.$inner.load_pg(pg)
        }
        fn pg_log(
            &self,
            pg: $crate::__types::SpgId,
            after: $crate::__types::EVersion,
            max: usize,
        ) -> $crate::StoreResult<Vec<$crate::__types::PgLogEntry>> {
            self.$inner.pg_log(pg, after, max)
        }
        fn pgs(&self) -> $crate::StoreResult<Vec<$crate::__types::SpgId>> {
            self.$inner.pgs()
        }
        fn statfs(&self) -> $crate::__types::StoreStatfs {
            self.$inner.statfs()
        }
        fn pool_statfs(&self, pool: $crate::__types::PoolId) -> $crate::__types::StoreStatfs {
            self.$inner.pool_statfs(pool)
        }
        fn kind(&self) -> &'static str {
            self.$inner.kind()
        }
    };
}

/// The store inside, as if it implemented no hint and left to the trait what follows from other methods.
pub struct Plain(pub Box<dyn ObjectStore>);

impl StoreHints for Plain {}

impl ObjectStore for Plain {
    fn submit(&mut self, txn: Transaction, log: Option<LogDelta>, token: u64) -> StoreResult<()> {
        self.0.submit(txn, log, token)
    }
    fn take_commits(&mut self, tokens: &mut Vec<u64>) {
        self.0.take_commits(tokens);
    }
    fn turn_end(&mut self) {
        self.0.turn_end();
    }
    fn take_ready(&mut self, tickets: &mut Vec<u64>) {
        self.0.take_ready(tickets);
    }
    fn forget(&mut self, coll: CollId, obj: &GHObject, offset: u64, len: u64) {
        self.0.forget(coll, obj, offset, len);
    }
    fn damage(&self) -> Option<String> {
        self.0.damage()
    }
    fn stopped_at_damage(&self) -> bool {
        self.0.stopped_at_damage()
    }
    crate::forward_reads!(0);
}

/// A kind of store, each of which hides its hints.
pub struct Hiding<'a>(pub &'a mut dyn Subject);

impl Subject for Hiding<'_> {
    fn fresh(&mut self) -> Box<dyn ObjectStore> {
        Box::new(Plain(self.0.fresh()))
    }
    fn small(&mut self, bytes: u64) -> Option<Box<dyn ObjectStore>> {
        self.0.small(bytes).map(|store| Box::new(Plain(store)) as Box<dyn ObjectStore>)
    }
    fn reopen(&mut self, store: Box<dyn ObjectStore>) -> Box<dyn ObjectStore> {
        Box::new(Plain(self.0.reopen(store)))
    }
    fn drive(&mut self, store: &mut dyn ObjectStore) {
        self.0.drive(store);
    }
}
