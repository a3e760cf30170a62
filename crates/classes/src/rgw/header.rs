//! The header of an index: sums by category, versions, and whether the index is moving.

use super::entry::{Entry, Meta};
use crate::rest::{Rest, keeps};
use crate::view::{ClsResult, ObjectView};
use crate::wire::{encode, stored};
use denc::{ByteStr, Decoder, Denc, DencError, Encoder};
use std::collections::BTreeMap;

/// Sizes are also added up in whole blocks of so many bytes.
const BLOCK: u64 = 4096;

/// `rgw_bucket_category_stats`. Sums wrap, as stock's do: what is taken away twice comes back when it is counted again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    pub size: u64,
    pub size_rounded: u64,
    pub entries: u64,
    /// Bytes as stored, after compression.
    pub actual_size: u64,
    pub rest: Rest,
}

impl Denc for Sums {
    fn encode(&self, e: &mut Encoder) {
        self.rest.frame(e, 3, 2, |e| {
            for v in [self.size, self.size_rounded, self.entries, self.actual_size] {
                e.u64(v);
            }
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Rest::read(d, "Sums", 3, |d, v| {
            if v < 2 {
                return Err(DencError::TooOld { what: "Sums", version: v, oldest: 2 });
            }
            let (size, size_rounded, entries) = (d.u64()?, d.u64()?, d.u64()?);
            Ok(Self { size, size_rounded, entries, actual_size: if v >= 3 { d.u64()? } else { size }, rest: Rest::default() })
        })
        .map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(Sums, Sums::default());

impl Sums {
    pub fn of(meta: &Meta) -> Self {
        let size = meta.accounted_size;
        let size_rounded = size.wrapping_add(BLOCK - 1) & !(BLOCK - 1);
        Self { size, size_rounded, entries: 1, actual_size: meta.size, rest: Rest::default() }
    }
    fn each(&mut self, other: &Self, op: fn(u64, u64) -> u64) {
        self.size = op(self.size, other.size);
        self.size_rounded = op(self.size_rounded, other.size_rounded);
        self.entries = op(self.entries, other.entries);
        self.actual_size = op(self.actual_size, other.actual_size);
    }
    pub fn add(&mut self, other: &Self) {
        self.each(other, u64::wrapping_add);
    }
    pub fn take(&mut self, other: &Self) {
        self.each(other, u64::wrapping_sub);
    }
}

/// Sums by category.
pub type Stats = BTreeMap<u8, Sums>;

/// `cls_rgw_bucket_instance_entry`: 0 is not moving, 1 in progress, 2 done, 3 in progress while changes are noted (see `resharding`). What stood behind once, the new index, is written empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resharding {
    pub status: u8,
    pub rest: Rest,
}

impl Denc for Resharding {
    fn encode(&self, e: &mut Encoder) {
        self.rest.frame(e, 3, 1, |e| {
            e.u8(self.status);
            e.blob(b"");
            e.i32(-1);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Rest::read(d, "Resharding", 3, |d, v| {
            let status = d.u8()?;
            if v != 2 {
                d.skip_blob()?;
                d.i32()?;
            }
            Ok(Self { status, rest: Rest::default() })
        })
        .map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(Resharding, Resharding::default());

/// `rgw_bucket_dir_header`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    pub stats: Stats,
    /// How long an announced change is waited for, in seconds; 0 for the default.
    pub tag_timeout_s: u64,
    /// Goes up with each change.
    pub ver: u64,
    pub master_ver: u64,
    /// The last place of the log.
    pub max_marker: ByteStr,
    pub resharding: Resharding,
    /// Nothing is logged.
    pub sync_stopped: bool,
    /// Changes noted since the mover last removed notes.
    pub notes: u32,
    pub rest: Rest,
}

/// Without notes it is written as 18.2 writes it, whose OSDs may be in the same cluster.
impl Denc for Header {
    fn encode(&self, e: &mut Encoder) {
        let is_noted = self.notes > 0 || self.rest.version() > 0;
        self.rest.frame(e, if is_noted { 8 } else { 7 }, 2, |e| {
            e.put(&self.stats);
            for v in [self.tag_timeout_s, self.ver, self.master_ver] {
                e.u64(v);
            }
            e.put(&self.max_marker);
            e.put(&self.resharding);
            e.bool(self.sync_stopped);
            if is_noted {
                e.u32(self.notes);
            }
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Rest::read(d, "Header", 8, |d, v| {
            if v < 2 {
                return Err(DencError::TooOld { what: "Header", version: v, oldest: 2 });
            }
            let mut header = Self { stats: d.get()?, ..Self::default() };
            header.tag_timeout_s = if v >= 3 { d.u64()? } else { 0 };
            if v >= 4 {
                (header.ver, header.master_ver) = (d.u64()?, d.u64()?);
            }
            if v >= 5 {
                header.max_marker = d.get()?;
            }
            if v >= 6 {
                header.resharding = d.get()?;
            }
            header.sync_stopped = v >= 7 && d.bool()?;
            header.notes = if v >= 8 { d.u32()? } else { 0 };
            Ok(header)
        })
        .map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(Header, Header { notes: 1, ..Header::default() });

impl Header {
    /// EIO if it is garbage; an empty one if there is none.
    pub fn load(obj: &mut dyn ObjectView) -> ClsResult<Self> {
        let bytes = obj.omap_header()?;
        if bytes.is_empty() { Ok(Self::default()) } else { stored(&bytes) }
    }
    /// Writes it down as changed.
    pub fn store(&mut self, obj: &mut dyn ObjectView) -> ClsResult<()> {
        self.ver = self.ver.wrapping_add(1);
        obj.omap_set_header(encode(self))
    }
    pub fn sums(&mut self, category: u8) -> &mut Sums {
        self.stats.entry(category).or_default()
    }
    pub fn count(&mut self, meta: &Meta) {
        self.sums(meta.category).add(&Sums::of(meta));
    }
    /// Takes an entry out of the sums, if it is in them.
    pub fn discount(&mut self, entry: &Entry) {
        if entry.exists {
            self.sums(entry.meta.category).take(&Sums::of(&entry.meta));
        }
    }
}
