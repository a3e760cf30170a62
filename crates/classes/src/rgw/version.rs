//! One version of an object, with the two entries that it has: by its name, and where it is listed.

use super::change::{Null, find, read};
use super::entry::{CURRENT, DELETE_MARKER, Entry, Meta, VERSION, VERSIONED};
use super::header::Header;
use super::keys::ObjKey;
use super::resharding::{put, remove};
use crate::view::{ClsResult, ObjectView};
use crate::wire::{errno, stored};
use denc::ByteStr;
use types::errno::ENOENT;

/// In requests, the null version's name. In an index it has none.
pub const NULL: &str = "null";

/// The first version of an object that had none before has this epoch; the next is 2.
pub const CONVERTED_EPOCH: u64 = 1;

/// The entry of the version of that name; None if it is not there.
pub fn read_version(obj: &mut dyn ObjectView, key: &ObjKey) -> ClsResult<Option<Entry>> {
    let key = if key.instance == NULL { key.plain() } else { key.clone() };
    read(obj, &key.instance_key(false))
}

pub struct Version {
    key: ObjKey,
    /// Where the entry by name stands.
    at: ByteStr,
    pub entry: Entry,
}

impl Version {
    /// The version, or None, and where its entry is or was looked for.
    pub fn look_for(obj: &mut dyn ObjectView, key: &ObjKey, null: Null) -> ClsResult<(ByteStr, Option<Self>)> {
        let null = if key.instance.is_empty() { null } else { Null::Version };
        let (at, entry) = find(obj, key, null)?;
        let version = entry.map(|entry| Self { key: key.clone(), at: at.clone(), entry });
        Ok((at, version))
    }
    /// The version as the index shows it; ENOENT if it is not there.
    pub fn load(obj: &mut dyn ObjectView, key: &ObjKey) -> ClsResult<Self> {
        match Self::look_for(obj, key, Null::MarkerFirst)?.1 {
            Some(version) => Ok(version),
            None => errno(ENOENT),
        }
    }
    /// A delete marker of that name, in the place of the version that there is, if any.
    pub fn marker(key: &ObjKey, at: ByteStr, before: Option<Self>, meta: Meta) -> Self {
        let before = before.map(|version| version.entry).unwrap_or_default();
        let entry = Entry { key: key.clone(), flags: DELETE_MARKER, meta, tag: "delete-marker".into(), ..before };
        Self { key: key.clone(), at, entry }
    }
    pub fn is_marker(&self) -> bool {
        self.entry.has(DELETE_MARKER)
    }
    pub fn unlist(&self, obj: &mut dyn ObjectView, header: &mut Header) -> ClsResult<()> {
        remove(obj, header, self.entry.list_key(), &self.entry.key)
    }
    /// Removes the entry by name.
    pub fn remove(&self, obj: &mut dyn ObjectView, header: &mut Header) -> ClsResult<()> {
        remove(obj, header, self.at.clone(), &self.key)
    }
    /// Writes both entries, with an epoch; the place in the listing that it had before goes.
    pub fn list_at(&mut self, obj: &mut dyn ObjectView, header: &mut Header, epoch: u64, current: bool) -> ClsResult<()> {
        if self.entry.versioned_epoch > 0 {
            self.unlist(obj, header)?;
        }
        self.entry.versioned_epoch = epoch;
        self.entry.flags |= VERSION | if current { CURRENT } else { 0 };
        self.store(obj, header)
    }
    /// The object shows it from now on. It stays where it is listed.
    pub fn promote(&mut self, obj: &mut dyn ObjectView, header: &mut Header) -> ClsResult<()> {
        self.entry.flags |= VERSION | CURRENT;
        self.store(obj, header)
    }
    pub fn demote(&mut self, obj: &mut dyn ObjectView, header: &mut Header) -> ClsResult<()> {
        self.entry.flags &= !CURRENT;
        self.store(obj, header)
    }
    fn store(&mut self, obj: &mut dyn ObjectView, header: &mut Header) -> ClsResult<()> {
        self.at = self.key.instance_key(self.is_marker() && self.entry.key.instance.is_empty());
        put(obj, header, self.at.clone(), &self.entry)?;
        put(obj, header, self.entry.list_key(), &self.entry)
    }
    /// The version that was made before this one.
    pub fn next(&self, obj: &mut dyn ObjectView) -> ClsResult<Option<ObjKey>> {
        let (page, _) = obj.omap_vals(self.entry.list_key().as_slice(), self.key.name.as_slice(), 1)?;
        let Some((_, value)) = page.first() else { return Ok(None) };
        let next: Entry = stored(value)?;
        Ok((next.key.name == self.key.name).then_some(next.key))
    }
}

/// The object gets versions: the entry that it has becomes its null version, and the name's own entry says so.
///
/// With `unlisted` the null version is not listed: the caller puts something in its place.
pub fn convert(obj: &mut dyn ObjectView, header: &mut Header, object: &ObjKey, demote: bool, unlisted: bool) -> ClsResult<()> {
    let object = object.plain();
    if let (_, Some(mut entry)) = find(obj, &object, Null::Version)? {
        entry.versioned_epoch = CONVERTED_EPOCH;
        entry.flags |= VERSION;
        if demote {
            entry.flags &= !CURRENT;
        }
        put(obj, header, object.instance_key(false), &entry)?;
        if !unlisted {
            put(obj, header, entry.list_key(), &entry)?;
        }
    }
    let name = object.name.clone();
    put(obj, header, name, &Entry { key: object, flags: VERSIONED, ..Entry::default() })
}
