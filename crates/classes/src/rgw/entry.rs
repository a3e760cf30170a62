//! Entries of an index: what is known of an object or version without looking at it, and which changes of it are under way.

use super::keys::ObjKey;
use crate::rest::{Rest, keeps, kept};
use denc::{ByteStr, Decoder, Denc, DencError, Encoder};
use types::UTime;

/// The entry is of a version.
pub const VERSION: u16 = 1;
/// The entry is of the version that the object shows.
pub const CURRENT: u16 = 2;
/// The version is a delete marker.
pub const DELETE_MARKER: u16 = 4;
/// The object has versions: this entry only says so.
pub const VERSIONED: u16 = 8;
/// No entry, but what the names of several begin with up to the delimiter. In answers only.
pub const COMMON_PREFIX: u16 = 0x8000;

/// A number that is short if it is small: below 128 the byte itself, otherwise 0x80 + the bytes that follow (1, 2, 4 or 8).
///
/// Stock writes 65,536 in two bytes, and reads 0. Here it has four, which stock reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packed(pub u64);

impl Denc for Packed {
    fn encode(&self, e: &mut Encoder) {
        match self.0 {
            v @ ..0x80 => e.u8(v as u8),
            v @ ..0x100 => {
                e.u8(0x81);
                e.u8(v as u8);
            }
            v @ ..0x1_0000 => {
                e.u8(0x82);
                e.u16(v as u16);
            }
            v @ ..=0x100_0000 => {
                e.u8(0x84);
                e.u32(v as u32);
            }
            v => {
                e.u8(0x88);
                e.u64(v);
            }
        }
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Ok(Self(match d.u8()? {
            v @ 0..=0x7f => v.into(),
            0x81 => d.u8()?.into(),
            0x82 => d.u16()?.into(),
            0x84 => d.u32()?.into(),
            0x88 => d.u64()?,
            _ => return Err(d.invalid("a number of 1, 2, 4 or 8 bytes is meant")),
        }))
    }
}

/// `rgw_bucket_entry_ver`: the version of the object in its pool that an entry speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryVer {
    /// -1 for none.
    pub pool: i64,
    pub epoch: u64,
    pub rest: Rest,
}

impl Default for EntryVer {
    fn default() -> Self {
        Self { pool: -1, epoch: 0, rest: Rest::default() }
    }
}

impl Denc for EntryVer {
    fn encode(&self, e: &mut Encoder) {
        self.rest.frame(e, 1, 1, |e| {
            e.put(&Packed(self.pool.cast_unsigned()));
            e.put(&Packed(self.epoch));
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Rest::read(d, "EntryVer", 1, |d, _| {
            let (pool, epoch): (Packed, Packed) = (d.get()?, d.get()?);
            Ok(Self { pool: pool.0.cast_signed(), epoch: epoch.0, rest: Rest::default() })
        })
        .map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(EntryVer, EntryVer::default());

/// `rgw_bucket_dir_entry_meta`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meta {
    /// `RGWObjCategory`: the sums are kept apart by it.
    pub category: u8,
    /// Bytes as stored.
    pub size: u64,
    pub mtime: UTime,
    pub etag: ByteStr,
    pub owner: ByteStr,
    pub owner_display_name: ByteStr,
    pub content_type: ByteStr,
    /// Bytes before compression: what the user sees.
    pub accounted_size: u64,
    pub user_data: ByteStr,
    pub storage_class: ByteStr,
    pub appendable: bool,
    pub rest: Rest,
}

impl Denc for Meta {
    fn encode(&self, e: &mut Encoder) {
        self.rest.frame(e, 7, 3, |e| {
            e.u8(self.category);
            e.u64(self.size);
            e.put(&self.mtime);
            for text in [&self.etag, &self.owner, &self.owner_display_name, &self.content_type] {
                e.put(text);
            }
            e.u64(self.accounted_size);
            e.put(&self.user_data);
            e.put(&self.storage_class);
            e.bool(self.appendable);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Rest::read(d, "Meta", 7, |d, v| {
            if v < 3 {
                return Err(DencError::TooOld { what: "Meta", version: v, oldest: 3 });
            }
            let (category, size) = (d.u8()?, d.u64()?);
            Ok(Self {
                category,
                size,
                mtime: d.get()?,
                etag: d.get()?,
                owner: d.get()?,
                owner_display_name: d.get()?,
                content_type: d.get()?,
                accounted_size: if v >= 4 { d.u64()? } else { size },
                user_data: if v >= 5 { d.get()? } else { ByteStr::new() },
                storage_class: if v >= 6 { d.get()? } else { ByteStr::new() },
                appendable: v >= 7 && d.bool()?,
                rest: Rest::default(),
            })
        })
        .map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(Meta, Meta::default());

/// `RGWModifyOp`.
pub mod op {
    pub const ADD: u8 = 0;
    pub const DEL: u8 = 1;
    pub const CANCEL: u8 = 2;
    pub const LINK_OLH: u8 = 4;
    pub const LINK_OLH_MARKER: u8 = 5;
    pub const UNLINK_INSTANCE: u8 = 6;
    pub const SYNC_STOP: u8 = 7;
    pub const RESYNC: u8 = 8;
}

/// `RGWPendingState`: a change is under way.
pub const PENDING: u8 = 0;
/// `RGWPendingState`: a change is done.
pub const COMPLETE: u8 = 1;

/// `rgw_bucket_pending_info`: a change that was announced.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pending {
    pub state: u8,
    pub since: UTime,
    pub op: u8,
    pub rest: Rest,
}
kept!(Pending, v 2, compat 2, oldest 2, { state, since, op });

/// `rgw_bucket_dir_entry`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    pub key: ObjKey,
    pub ver: EntryVer,
    pub locator: ByteStr,
    pub exists: bool,
    pub meta: Meta,
    /// Changes under way by their tags, sorted by them; a tag may come twice.
    pub pending: Vec<(ByteStr, Pending)>,
    /// The header's version when the entry was last changed.
    pub index_ver: u64,
    pub tag: ByteStr,
    pub flags: u16,
    /// In which change of the object's versions this one was made; 0 if it has none.
    pub versioned_epoch: u64,
    pub rest: Rest,
}

impl Denc for Entry {
    fn encode(&self, e: &mut Encoder) {
        self.rest.frame(e, 8, 3, |e| {
            e.put(&self.key.name);
            e.u64(self.ver.epoch);
            e.bool(self.exists);
            e.put(&self.meta);
            e.put(&self.pending);
            e.put(&self.locator);
            e.put(&self.ver);
            e.put(&Packed(self.index_ver));
            e.put(&self.tag);
            e.put(&self.key.instance);
            e.u16(self.flags);
            e.u64(self.versioned_epoch);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Rest::read(d, "Entry", 8, |d, v| {
            if v < 3 {
                return Err(DencError::TooOld { what: "Entry", version: v, oldest: 3 });
            }
            let (name, epoch) = (d.get()?, d.u64()?);
            let mut entry = Self { exists: d.bool()?, meta: d.get()?, pending: d.get()?, locator: d.get()?, ..Self::default() };
            entry.pending.sort_by(|a, b| a.0.cmp(&b.0));
            entry.key.name = name;
            entry.ver = if v >= 4 { d.get()? } else { EntryVer { epoch, ..EntryVer::default() } };
            if v >= 5 {
                entry.index_ver = d.get::<Packed>()?.0;
                entry.tag = d.get()?;
            }
            if v >= 6 {
                entry.key.instance = d.get()?;
            }
            entry.flags = if v >= 7 { d.u16()? } else { 0 };
            entry.versioned_epoch = if v >= 8 { d.u64()? } else { 0 };
            Ok(entry)
        })
        .map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(Entry, Entry::default());

impl Entry {
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
    /// True if the object shows it: an object without versions does, of versions the current one unless it is a delete marker.
    pub fn is_visible(&self) -> bool {
        (!self.has(VERSION) || self.has(CURRENT)) && !self.has(DELETE_MARKER)
    }
    /// Where it is listed.
    pub fn list_key(&self) -> ByteStr {
        self.key.list_key(self.versioned_epoch)
    }
    /// Announces a change.
    pub fn announce(&mut self, tag: ByteStr, change: Pending) {
        let at = self.pending.partition_point(|(other, _)| *other <= tag);
        self.pending.insert(at, (tag, change));
    }
    /// Ends the change of that tag; false if there is none.
    pub fn settle(&mut self, tag: &ByteStr) -> bool {
        let found = self.pending.iter().position(|(other, _)| other == tag);
        if let Some(at) = found {
            self.pending.remove(at);
        }
        found.is_some()
    }
}
