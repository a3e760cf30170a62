//! What a member has of a range of objects: its `ScrubMap`, made some objects and bytes a turn, so that clients have theirs in between.
//!
//! ```text
//!   listing ──▶ record and attributes of the next ── deep ──▶ data, from the devices ──▶ omap ──┐
//!      ▲                     │                                                                  │
//!      └── none is listed ◀──┴───────────────────── shallow ────────────────────────────────────┘
//! ```
//!
//! What the store says of damage goes into the map; an object that went meanwhile is left out. Holds no message and compares nothing.
//!
//! Source of the facts: Ceph 18.2 `src/osd/PGBackend.cc` (`be_scan_list`), `src/osd/ReplicatedBackend.cc` (`be_deep_scrub`).

use crate::pg::backend::name::{first_of, name as name_in};
use base::crc32c;
use denc::Encoder;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use store::{ObjectStore, OmapFrom, StoreError};
use types::{ByteStr, CollId, GHObject, HObject, ScrubMap, ScrubObject};

/// Objects looked at in one turn, and bytes read in one.
const TURN_OBJECTS: usize = 128;
const TURN_BYTES: u64 = 8 << 20;
/// Names listed at a time.
const PAGE: usize = 128;
const _: () = assert!(PAGE <= TURN_OBJECTS);

/// Bounds, from the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `osd_deep_scrub_stride`: bytes of one read.
    pub stride: u64,
    /// `osd_deep_scrub_keys`: keys of one look at an omap.
    pub keys: u64,
    /// From how many keys or bytes on an omap counts as large.
    pub large_keys: u64,
    pub large_bytes: u64,
}

/// How far a deep look at an object is.
#[derive(Debug)]
enum Part {
    Data {
        offset: u64,
        /// What is read next is to come from the devices, and the store was told so.
        is_forgotten: bool,
        crc: u32,
    },
    Omap {
        after: Option<ByteStr>,
        crc: u32,
        keys: u64,
        bytes: u64,
    },
}

/// The object that is looked at.
#[derive(Debug)]
struct Current {
    name: HObject,
    object: ScrubObject,
    part: Part,
}

/// A map in the making.
#[derive(Debug)]
pub struct Scan {
    deep: bool,
    end: HObject,
    /// Where the listing goes on; nothing behind its end.
    listing: Option<GHObject>,
    names: VecDeque<HObject>,
    current: Option<Current>,
    map: ScrubMap,
    /// Bytes read so far.
    pub read: u64,
}

impl Scan {
    pub fn new(coll: CollId, start: HObject, end: HObject, deep: bool) -> Self {
        let listing = Some(first_of(coll, start));
        Self { deep, end, listing, names: VecDeque::new(), current: None, map: ScrubMap::default(), read: 0 }
    }

    /// A turn: the map, if it is whole. An error is [`StoreError::Wait`], or of the collection as a whole.
    pub fn turn(&mut self, store: &mut dyn ObjectStore, coll: CollId, limits: &Limits) -> Result<Option<ScrubMap>, StoreError> {
        let (mut objects, before) = (0, self.read);
        while objects < TURN_OBJECTS && self.read - before < TURN_BYTES {
            if self.current.is_some() {
                if self.look_deeper(store, coll, limits)? {
                    self.finish();
                }
            } else if let Some(name) = self.names.front().cloned() {
                self.begin(store, coll, name)?;
                self.names.pop_front();
                objects += 1;
            } else if let Some(from) = self.listing.clone() {
                let end = first_of(coll, self.end.clone());
                let page = store.list(coll, &from, &end, PAGE)?;
                let is_object = |obj: &HObject| !obj.oid.is_empty() && obj.pool >= 0;
                self.names.extend(page.objects.into_iter().map(|obj| obj.hobj).filter(is_object));
                self.listing = page.next;
            } else {
                return Ok(Some(std::mem::take(&mut self.map)));
            }
        }
        Ok(None)
    }

    /// The record and attributes of an object.
    fn begin(&mut self, store: &dyn ObjectStore, coll: CollId, name: HObject) -> Result<(), StoreError> {
        let obj = name_in(coll, name.clone());
        let found = store.stat(coll, &obj).and_then(|stat| Ok((stat.size, store.attrs(coll, &obj)?)));
        let mut object = ScrubObject::default();
        match found {
            Ok((size, attrs)) => {
                object.size = size;
                object.attrs = attrs.into_iter().collect();
            }
            Err(StoreError::NoObject(_)) => return Ok(()),
            Err(StoreError::Damaged { .. }) => {
                object.stat_error = true;
                self.map.objects.insert(name, object);
                return Ok(());
            }
            Err(other) => return Err(other),
        }
        if self.deep {
            self.current = Some(Current { name, object, part: Part::Data { offset: 0, is_forgotten: false, crc: u32::MAX } });
        } else {
            self.map.objects.insert(name, object);
        }
        Ok(())
    }
    fn finish(&mut self) {
        let done = self.current.take().expect("an object that is done was looked at");
        self.map.objects.insert(done.name, done.object);
    }

    /// The next read of the object at hand. True with the last one.
    fn look_deeper(&mut self, store: &mut dyn ObjectStore, coll: CollId, limits: &Limits) -> Result<bool, StoreError> {
        let current = self.current.as_mut().expect("asked for by the caller");
        let obj = name_in(coll, current.name.clone());
        let result = match &mut current.part {
            Part::Data { offset, is_forgotten, crc } if *offset < current.object.size => {
                let len = (current.object.size - *offset).min(limits.stride);
                if !std::mem::replace(is_forgotten, true) {
                    store.forget(coll, &obj, *offset, len);
                }
                store.read(coll, &obj, *offset, len).map(|data| {
                    *crc = data.pieces().fold(*crc, |crc, piece| crc32c(crc, piece));
                    // What the store leaves out at the end are zeros.
                    *crc = base::crc32c_zeros(*crc, (len as usize).saturating_sub(data.len()));
                    (*offset, *is_forgotten) = (*offset + len, false);
                    self.read += len;
                    false
                })
            }
            Part::Data { crc, .. } => {
                current.object.digest = Some(*crc);
                store.omap_header(coll, &obj).map(|header| {
                    let crc = crc32c(u32::MAX, &header);
                    current.part = Part::Omap { after: None, crc, keys: 0, bytes: 0 };
                    false
                })
            }
            Part::Omap { after, crc, keys, bytes } => look_at_omap(store, coll, &obj, after, limits.keys).map(|page| {
                *crc = page.parts.iter().fold(*crc, |crc, part| crc32c(crc, part));
                (*keys, *bytes) = (*keys + page.keys, *bytes + page.bytes);
                self.read += page.bytes;
                *after = page.last;
                if page.is_more {
                    return false;
                }
                let object = &mut current.object;
                object.omap_digest = Some(*crc);
                (object.object_omap_keys, object.object_omap_bytes) = (*keys, *bytes);
                if *keys > limits.large_keys || *bytes > limits.large_bytes {
                    object.large_omap_object_found = true;
                    (object.large_omap_object_key_count, object.large_omap_object_value_size) = (*keys, *bytes);
                }
                true
            }),
        };
        match result {
            Err(StoreError::Damaged { .. }) => {
                current.object.read_error = true;
                Ok(true)
            }
            // It went meanwhile: the chunk is taken again.
            Err(StoreError::NoObject(_)) => {
                self.current = None;
                Ok(false)
            }
            other => other,
        }
    }
}

/// Some keys and values of an omap, as its digest is taken of them.
struct OmapPart {
    parts: Vec<denc::Bytes>,
    keys: u64,
    bytes: u64,
    last: Option<ByteStr>,
    is_more: bool,
}

fn look_at_omap(store: &dyn ObjectStore, coll: CollId, obj: &GHObject, after: &Option<ByteStr>, max: u64) -> Result<OmapPart, StoreError> {
    let mut page = OmapPart { parts: Vec::new(), keys: 0, bytes: 0, last: after.clone(), is_more: false };
    let from = after.as_ref().map_or(OmapFrom::Start, |key| OmapFrom::After(key.as_slice()));
    store.omap_scan(coll, obj, from, &mut |key, value| {
        if page.keys >= max.max(1) {
            page.is_more = true;
            return ControlFlow::Break(());
        }
        let mut e = Encoder::new(0);
        e.put(key);
        e.put(value);
        page.parts.push(e.finish());
        (page.keys, page.bytes, page.last) = (page.keys + 1, page.bytes + value.len() as u64, Some(key.clone()));
        ControlFlow::Continue(())
    })?;
    Ok(page)
}
