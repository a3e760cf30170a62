//! Changes of an index while it moves to other shards: each is noted under keys of its own, so that writers may go on, and the mover applies what
//! was noted before it stops them for the end.
//!
//! Holds the ways by which every method writes and removes an entry of an index, the guard in front of them, and the removal of what was noted.
//! Moving itself is radosgw's.
//!
//! Source of the keys, states and limits: Ceph 20.2 `src/cls/rgw/cls_rgw.cc`. 18.2 notes nothing, and stops writers for all the time; its gateways
//! never ask for notes.

use super::header::Header;
use super::keys::{NOTES, NOTES_END, ObjKey};
use super::raw::{Raw, kind};
use crate::registry::Method;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{done, encode, errno};
use denc::{ByteStr, Bytes, Denc, denc_struct};
use types::errno::ENODATA;

pub const METHODS: &[Method] = &[Method::writes("reshard_log_trim", trim)];

/// `CLS_RGW_ERR_BUSY_RESHARDING`: an errno of this class' own.
pub const BUSY: i32 = 2300;

/// `cls_rgw_reshard_status`: writers are stopped.
const IN_PROGRESS: u8 = 1;
/// `cls_rgw_reshard_status`: writers go on, and what they change is noted.
const IN_LOGRECORD: u8 = 3;
/// So many notes, and writers wait until the mover has seen to them. Source: Ceph 20.2's default of `rgw_reshardlog_threshold`.
const NOTES_MAX: u32 = 30_000;

/// `rgw_bucket_deleted_entry`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    pub key: ObjKey,
}
denc_struct!(Deleted, v 1, compat 1, { key });

impl Header {
    fn is_noted(&self) -> bool {
        self.resharding.status == IN_LOGRECORD
    }
    /// True if no client may write to the index now.
    pub fn stops_writers(&self) -> bool {
        self.resharding.status == IN_PROGRESS || self.is_noted() && self.notes >= NOTES_MAX
    }
    /// The header for a method that changes the index; [`BUSY`] if no client may now.
    pub fn load_to_write(obj: &mut dyn ObjectView) -> ClsResult<Self> {
        let header = Self::load(obj)?;
        header.guard()?;
        Ok(header)
    }
    pub fn guard(&self) -> ClsResult<()> {
        if self.stops_writers() { errno(BUSY) } else { Ok(()) }
    }
    /// For methods that change nothing in it otherwise: the number of notes.
    pub fn store_if_noted(&mut self, obj: &mut dyn ObjectView) -> ClsResult<()> {
        if self.is_noted() { self.store(obj) } else { Ok(()) }
    }
    fn note(&mut self, obj: &mut dyn ObjectView, at: ByteStr, kind: u8, value: Bytes) -> ClsResult<()> {
        if !self.is_noted() {
            return Ok(());
        }
        self.notes = self.notes.saturating_add(1);
        let under: ByteStr = [NOTES, at.as_slice()].concat().into();
        obj.omap_set(vec![(under, encode(&Raw { kind, key: at, value }))])
    }
}

/// Writes what stands at a key of the index.
pub fn put<T: Denc>(obj: &mut dyn ObjectView, header: &mut Header, at: ByteStr, value: &T) -> ClsResult<()> {
    let bytes = encode(value);
    obj.omap_set(vec![(at.clone(), bytes.clone())])?;
    // Readers tell by the key which kind of entry it is.
    header.note(obj, at, kind::NONE, bytes)
}

/// Removes what stands at a key of the index. `key` tells the object or version that it was of.
pub fn remove(obj: &mut dyn ObjectView, header: &mut Header, at: ByteStr, key: &ObjKey) -> ClsResult<()> {
    obj.omap_remove(vec![at.clone()])?;
    header.note(obj, at, kind::DELETED, encode(&Deleted { key: key.clone() }))
}

/// ENODATA if nothing was noted: callers repeat it until then.
fn trim(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    let mut header = Header::load(obj)?;
    let (page, _) = obj.omap_keys(NOTES, 1)?;
    let Some(first) = page.first().filter(|first| first.as_slice() < NOTES_END) else { return errno(ENODATA) };
    obj.omap_remove_range(first.as_slice(), NOTES_END)?;
    header.notes = 0;
    header.store(obj)?;
    done()
}
