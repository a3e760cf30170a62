//! One object: size, data, attributes, omap.

use crate::attrs::Attrs;
use crate::chunks::Chunks;
use crate::pages::Pages;
use bytes::Bytes;
use std::sync::Arc;
use types::ByteStr;

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
        if bytes.is_empty() {
            return;
        }
        self.data.write(offset, bytes);
        self.size = self.size.max(offset + bytes.len() as u64);
    }
    /// The same, in the memory of `bytes`, of which there is so much.
    pub fn keep(&mut self, offset: u64, bytes: &Bytes, memory: usize) {
        self.data.keep(offset, bytes, memory);
        self.size = self.size.max(offset + bytes.len() as u64);
    }
    pub fn zero(&mut self, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        self.data.zero(offset, len);
        self.size = self.size.max(offset.saturating_add(len));
    }
    pub fn truncate(&mut self, size: u64) {
        if size < self.size {
            self.data.zero(size, u64::MAX);
        }
        self.size = size;
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
