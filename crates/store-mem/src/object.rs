//! One object: size, data, attributes, omap.

use crate::attrs::Attrs;
use crate::chunks::{CHUNK, Chunks};
use crate::pages::Pages;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use store::{Unwritten, Written};
use types::{ByteStr, IntervalSet};

/// What an object costs besides what it holds, roughly: its name and bookkeeping.
const OBJECT_BYTES: u64 = 512;

#[derive(Debug, Clone, Default)]
pub struct Omap {
    pub header: Bytes,
    pub keys: Pages,
    /// Bytes of keys, values and the header.
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct AllocHint {
    pub object_size: u64,
    pub write_size: u64,
    pub flags: u32,
}

/// Cloning one shares its data and omap.
#[derive(Debug, Clone, Default)]
pub struct Object {
    pub size: u64,
    pub data: Chunks,
    unwritten: Unwritten,
    attrs: Attrs,
    omap: Option<Arc<Omap>>,
    pub hint: AllocHint,
}

/// What objects take, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Buffers of data.
    pub data: i64,
    /// Sizes of objects without holes: what was stored, as far as it is known.
    pub stored: i64,
    pub omap: i64,
    pub meta: i64,
}

impl Object {
    pub fn usage(&self) -> Usage {
        let omap = self.omap.as_ref().map_or(0, |o| o.bytes) as i64;
        let data = self.data.allocated() as i64;
        Usage { data, stored: data.min(self.size as i64), omap, meta: (OBJECT_BYTES + self.attrs.bytes()) as i64 }
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let len = bytes.len() as u64;
        self.change(Written::Data { offset, len }, |o| o.data.write(offset, bytes));
    }
    /// The same, in the memory of `bytes`, of which there is so much.
    pub fn keep(&mut self, offset: u64, bytes: &Bytes, memory: usize) {
        let len = bytes.len() as u64;
        self.change(Written::Data { offset, len }, |o| o.data.keep(offset, bytes, memory));
    }
    pub fn zero(&mut self, offset: u64, len: u64) {
        // Behind the object's end there are zeros already: buffers that reach there end before the range.
        let behind = if offset.saturating_add(len) >= self.size { u64::MAX } else { len };
        self.change(Written::Zeros { offset, len }, |o| o.data.zero(offset, behind));
    }
    pub fn truncate(&mut self, size: u64) {
        if size < self.size {
            let behind = Written::Zeros { offset: size, len: self.size - size };
            self.change(behind, |o| o.data.zero(size, u64::MAX));
            self.size = size;
        } else {
            self.change(Written::Zeros { offset: self.size, len: size - self.size }, |_| ());
        }
    }
    /// Makes a change of a range and grows to its end. What it leaves unwritten of the buffers is noted.
    fn change(&mut self, what: Written, make: impl FnOnce(&mut Self)) {
        let (Written::Data { offset, len } | Written::Zeros { offset, len }) = what;
        if len == 0 {
            return;
        }
        let end = offset.saturating_add(len);
        let size = self.size.max(end);
        // Buffers are changed in whole cells, and what lay behind the end lies within it if the object grows.
        let area = offset.min(self.size) / CHUNK * CHUNK..end.checked_next_multiple_of(CHUNK).unwrap_or(u64::MAX);
        if !self.unwritten.touches(&area) && self.leaves_none(what) {
            make(self);
            self.size = size;
            return;
        }
        let mut written = self.extents_in(&area);
        what.apply(&mut written);
        make(self);
        self.size = size;
        let allocated = self.data.extents(area.start, area.end.min(size).saturating_sub(area.start));
        self.unwritten.note(area, allocated, &written);
    }
    /// True if a change surely leaves no hole within a buffer, if there was none.
    fn leaves_none(&self, what: Written) -> bool {
        match what {
            Written::Data { offset, len } => offset <= self.size && self.data.is_written_exactly(offset, len, offset + len >= self.size),
            // What is cut off at the end.
            Written::Zeros { offset, len } => offset < self.size && offset.saturating_add(len) == self.size,
        }
    }
    fn extents_in(&self, area: &Range<u64>) -> IntervalSet {
        self.extents(area.start, area.end - area.start)
    }
    /// Where something was written in the range.
    pub fn extents(&self, offset: u64, len: u64) -> IntervalSet {
        self.unwritten.written(self.data.extents(offset, len.min(self.size.saturating_sub(offset))))
    }

    pub fn set_attr(&mut self, name: &ByteStr, value: &[u8]) {
        self.attrs.set(name.as_slice(), value);
    }
    pub fn rm_attr(&mut self, name: &ByteStr) {
        self.attrs.remove(name.as_slice());
    }
    pub fn rm_attrs(&mut self) {
        self.attrs.clear();
    }
    pub fn attr(&self, name: &[u8]) -> Option<Bytes> {
        self.attrs.get(name).map(Bytes::copy_from_slice)
    }
    pub fn attrs(&self) -> impl Iterator<Item = (ByteStr, Bytes)> + '_ {
        self.attrs.iter()
    }

    pub fn omap(&self) -> Option<&Omap> {
        self.omap.as_deref()
    }
    pub fn omap_clear(&mut self) {
        self.omap = None;
    }
    fn omap_mut(&mut self) -> &mut Omap {
        Arc::make_mut(self.omap.get_or_insert_default())
    }
    pub fn omap_set_header(&mut self, header: &[u8]) {
        let omap = self.omap_mut();
        omap.bytes = omap.bytes - omap.header.len() as u64 + header.len() as u64;
        omap.header = Bytes::copy_from_slice(header);
    }
    pub fn omap_set(&mut self, pairs: &[(ByteStr, Bytes)]) {
        if pairs.is_empty() {
            return;
        }
        let omap = self.omap_mut();
        for (key, value) in pairs {
            omap.bytes += value.len() as u64;
            match omap.keys.insert(key, Bytes::copy_from_slice(value)) {
                Some(old) => omap.bytes -= old.len() as u64,
                None => omap.bytes += key.len() as u64,
            }
        }
    }
    pub fn omap_rm(&mut self, keys: &[ByteStr]) {
        if self.omap.is_none() || keys.is_empty() {
            return;
        }
        let omap = self.omap_mut();
        for key in keys {
            if let Some(value) = omap.keys.remove(key.as_slice()) {
                omap.bytes -= (key.len() + value.len()) as u64;
            }
        }
    }
    /// `first` is in the range, `last` is not.
    pub fn omap_rm_range(&mut self, first: &ByteStr, last: &ByteStr) {
        if self.omap.is_none() || first >= last {
            return;
        }
        let omap = self.omap_mut();
        omap.bytes -= omap.keys.remove_range(first.as_slice(), last.as_slice());
    }
}

impl Usage {
    pub fn total(&self) -> i64 {
        self.data + self.omap + self.meta
    }
    /// Replaces what an object took by what it takes.
    pub fn change(&mut self, before: Usage, after: Usage) {
        self.data += after.data - before.data;
        self.stored += after.stored - before.stored;
        self.omap += after.omap - before.omap;
        self.meta += after.meta - before.meta;
    }
    pub fn add_to(&self, fs: &mut types::StoreStatfs) {
        fs.allocated += self.data;
        fs.data_stored += self.stored;
        fs.omap_allocated += self.omap;
        fs.internal_metadata += self.meta;
    }
}
