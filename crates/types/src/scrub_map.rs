//! `ScrubMap`: what a member of a placement group has, for its primary to compare.

use crate::{ByteStr, Bytes, EVersion, HObject, SnapId};
use denc::{Decoder, Denc, DencError, Encoder};
use std::collections::{BTreeMap, BTreeSet};

/// `ScrubMap::object`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrubObject {
    pub attrs: BTreeMap<ByteStr, Bytes>,
    /// Bytes; `u64::MAX` if it can't be told.
    pub size: u64,
    pub negative: bool,
    pub digest: Option<u32>,
    pub omap_digest: Option<u32>,
    pub read_error: bool,
    pub stat_error: bool,
    pub ec_hash_mismatch: bool,
    pub ec_size_mismatch: bool,
    pub large_omap_object_found: bool,
    pub large_omap_object_key_count: u64,
    pub large_omap_object_value_size: u64,
    pub object_omap_bytes: u64,
    pub object_omap_keys: u64,
}

impl Default for ScrubObject {
    fn default() -> Self {
        Self {
            attrs: BTreeMap::new(),
            size: u64::MAX,
            negative: false,
            digest: None,
            omap_digest: None,
            read_error: false,
            stat_error: false,
            ec_hash_mismatch: false,
            ec_size_mismatch: false,
            large_omap_object_found: false,
            large_omap_object_key_count: 0,
            large_omap_object_value_size: 0,
            object_omap_bytes: 0,
            object_omap_keys: 0,
        }
    }
}

/// A digest and whether there is one.
fn put_digest(e: &mut Encoder, digest: Option<u32>) {
    e.u32(digest.unwrap_or(0));
    e.bool(digest.is_some());
}
fn get_digest(d: &mut Decoder) -> Result<Option<u32>, DencError> {
    let digest = d.u32()?;
    Ok(d.bool()?.then_some(digest))
}

impl Denc for ScrubObject {
    fn encode(&self, e: &mut Encoder) {
        e.frame(10, 7, |e| {
            e.u64(self.size);
            e.bool(self.negative);
            self.attrs.encode(e);
            put_digest(e, self.digest);
            e.u32(0); // links, of old
            e.u32(0); // collections of snapshots, of old
            put_digest(e, self.omap_digest);
            e.bool(self.read_error || self.ec_hash_mismatch || self.ec_size_mismatch);
            e.bool(self.stat_error);
            e.bool(self.read_error);
            e.bool(self.ec_hash_mismatch);
            e.bool(self.ec_size_mismatch);
            e.bool(self.large_omap_object_found);
            e.u64(self.large_omap_object_key_count);
            e.u64(self.large_omap_object_value_size);
            e.u64(self.object_omap_bytes);
            e.u64(self.object_omap_keys);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("ScrubMap::object", 10, |d, v| {
            let mut o = Self { size: d.u64()?, negative: d.bool()?, attrs: d.get()?, digest: get_digest(d)?, ..Self::default() };
            d.skip(4)?;
            d.ignore::<BTreeSet<SnapId>>()?;
            o.omap_digest = get_digest(d)?;
            let any_error = d.bool()?;
            o.stat_error = d.bool()?;
            if v >= 8 {
                (o.read_error, o.ec_hash_mismatch, o.ec_size_mismatch) = (d.bool()?, d.bool()?, d.bool()?);
            }
            o.read_error |= any_error && !o.ec_hash_mismatch && !o.ec_size_mismatch;
            if v >= 9 {
                o.large_omap_object_found = d.bool()?;
                (o.large_omap_object_key_count, o.large_omap_object_value_size) = (d.u64()?, d.u64()?);
            }
            if v >= 10 {
                (o.object_omap_bytes, o.object_omap_keys) = (d.u64()?, d.u64()?);
            }
            Ok(o)
        })
    }
}

/// `ScrubMap`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubMap {
    pub objects: BTreeMap<HObject, ScrubObject>,
    pub valid_through: EVersion,
    pub incr_since: EVersion,
}

impl Denc for ScrubMap {
    fn encode(&self, e: &mut Encoder) {
        e.frame(3, 2, |e| {
            self.objects.encode(e);
            e.u32(0); // attributes, of old
            e.u32(0); // the log, of old
            self.valid_through.encode(e);
            self.incr_since.encode(e);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("ScrubMap", 3, |d, _| {
            let objects = d.get()?;
            d.ignore::<BTreeMap<ByteStr, ByteStr>>()?;
            d.ignore::<Bytes>()?;
            Ok(Self { objects, valid_through: d.get()?, incr_since: d.get()? })
        })
    }
}
