//! Reads of the store as the operations want them: a missing object has nothing, what must be fetched stops the plan.

use super::exec::{Exec, Step, Stop};
use super::plan::OutData;
use std::ops::ControlFlow;
use store::{OmapFrom, StoreError, StoreResult};
use types::{ByteStr, Bytes, GHObject};

/// What the store gave; the default for an object that it does not have (this request has just made it, or will).
fn given<T: Default>(result: StoreResult<T>) -> Step<T> {
    match result {
        Ok(value) => Ok(value),
        Err(StoreError::NoObject(..)) => Ok(T::default()),
        Err(other) => Err(Stop::Plan(other.into())),
    }
}

impl Exec<'_> {
    pub fn store_read(&self, obj: &GHObject, offset: u64, length: u64) -> Step<OutData> {
        given(self.store.read(self.coll, obj, offset, length))
    }
    /// Several ranges, one after the other.
    pub fn store_read_ranges(&self, obj: &GHObject, ranges: &[(u64, u64)]) -> Step<OutData> {
        given(self.store.read_ranges(self.coll, obj, &ranges.iter().copied().collect()))
    }
    pub fn store_extents(&self, obj: &GHObject, offset: u64, length: u64) -> Step<Vec<(u64, u64)>> {
        Ok(given(self.store.extents(self.coll, obj, offset, length))?.as_slice().to_vec())
    }
    pub fn store_attr(&self, obj: &GHObject, stored_name: &ByteStr) -> Step<Option<Bytes>> {
        given(self.store.attr(self.coll, obj, stored_name.as_slice()))
    }
    pub fn store_attrs(&self, obj: &GHObject) -> Step<Vec<(ByteStr, Bytes)>> {
        given(self.store.attrs(self.coll, obj))
    }
    pub fn store_omap_header(&self, obj: &GHObject) -> Step<Bytes> {
        given(self.store.omap_header(self.coll, obj))
    }
    pub fn store_omap_get(&self, obj: &GHObject, keys: &[ByteStr]) -> Step<Vec<(ByteStr, Bytes)>> {
        given(self.store.omap_get(self.coll, obj, keys))
    }
    /// Shows pairs in order until `visit` has enough (false).
    pub fn store_omap_scan(&self, obj: &GHObject, from: OmapFrom<'_>, visit: &mut dyn FnMut(&ByteStr, &Bytes) -> bool) -> Step<()> {
        let mut visit = |key: &ByteStr, value: &Bytes| if visit(key, value) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        given(self.store.omap_scan(self.coll, obj, from, &mut visit))
    }
}
