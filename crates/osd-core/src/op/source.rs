//! The one door by which operations read objects.
//!
//! A read is answered from our store, or stops with its ticket. A back end whose bytes lie on other members stops the plan as a copy from
//! another object does ([`super::fetch`]). Holds no rule of how objects lie on members, but for their names ([`crate::pg::backend::name`]).

use crate::pg::backend::name::name;
use std::ops::ControlFlow;
use store::{AttrsMax, ListPage, ObjectStore, OmapFrom, ReadData, StoreResult};
use types::{ByteStr, Bytes, CollId, GHObject, HObject, IntervalSet, SnapId};

/// A group's objects, as plans read them.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    store: &'a dyn ObjectStore,
    coll: CollId,
}

impl<'a> Source<'a> {
    pub fn new(store: &'a dyn ObjectStore, coll: CollId) -> Self {
        Self { store, coll }
    }
    pub fn coll(self) -> CollId {
        self.coll
    }
    /// An object's name here.
    pub fn name(self, obj: HObject) -> GHObject {
        name(self.coll, obj)
    }
    pub fn read(self, obj: &GHObject, offset: u64, length: u64) -> StoreResult<ReadData> {
        self.store.read(self.coll, obj, offset, length)
    }
    /// Several ranges, one after the other.
    pub fn read_ranges(self, obj: &GHObject, ranges: &IntervalSet) -> StoreResult<ReadData> {
        self.store.read_ranges(self.coll, obj, ranges)
    }
    /// The ranges that hold something.
    pub fn extents(self, obj: &GHObject, offset: u64, length: u64) -> StoreResult<IntervalSet> {
        self.store.extents(self.coll, obj, offset, length)
    }
    /// The bytes that a READ waited for by this ticket, of a head or the clone that serves it.
    pub fn awaited(self, ticket: u64, obj: &HObject, snap: SnapId, offset: u64, length: u64) -> StoreResult<ReadData> {
        match self.store.take_read(ticket) {
            Some(bytes) => Ok(bytes),
            None => self.read(&self.name(obj.at_snap(snap)), offset, length),
        }
    }
    /// The same as they were when they were asked for, whatever was written since; `None`: the store has them no more.
    pub fn as_asked(self, ticket: u64) -> Option<ReadData> {
        self.store.take_read(ticket)
    }
    pub fn attr(self, obj: &GHObject, stored_name: &[u8]) -> StoreResult<Option<Bytes>> {
        self.store.attr(self.coll, obj, stored_name)
    }
    pub fn two_attrs(self, obj: &GHObject, stored_names: [&[u8]; 2]) -> StoreResult<[Option<Bytes>; 2]> {
        self.store.two_attrs(self.coll, obj, stored_names)
    }
    /// How large attributes may become.
    pub fn attrs_max(self) -> AttrsMax {
        self.store.attrs_max()
    }
    pub fn attrs(self, obj: &GHObject) -> StoreResult<Vec<(ByteStr, Bytes)>> {
        self.store.attrs(self.coll, obj)
    }
    pub fn omap_header(self, obj: &GHObject) -> StoreResult<Bytes> {
        self.store.omap_header(self.coll, obj)
    }
    pub fn omap_get(self, obj: &GHObject, keys: &[ByteStr]) -> StoreResult<Vec<(ByteStr, Bytes)>> {
        self.store.omap_get(self.coll, obj, keys)
    }
    /// Shows pairs in order until `visit` has enough.
    pub fn omap_scan(
        self,
        obj: &GHObject,
        from: OmapFrom<'_>,
        visit: &mut dyn FnMut(&ByteStr, &Bytes) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.store.omap_scan(self.coll, obj, from, visit)
    }
    /// A page of objects from a name on.
    pub fn list(self, from: &GHObject, max: usize) -> StoreResult<ListPage> {
        self.store.list(self.coll, from, &GHObject::max(), max)
    }
}
