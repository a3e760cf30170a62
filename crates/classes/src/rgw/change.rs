//! Changes of entries, in two steps: announced before the object is written, completed after. A step that never comes is found by the next
//! listing (see `suggest`).

use super::entry::{COMPLETE, Entry, EntryVer, Meta, PENDING, Pending, VERSION, VERSIONED, op};
use super::header::Header;
use super::keys::ObjKey;
use super::log::{self, Logged};
use super::record;
use super::resharding::{put, remove};
use crate::registry::Method;
use crate::rest::Rest;
use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, encode, errno, stored};
use denc::{ByteStr, Bytes, Denc};
use types::errno::{EINVAL, ENOENT};

pub const METHODS: &[Method] = &[Method::writes("bucket_prepare_op", prepare), Method::writes("bucket_complete_op", complete)];

/// `rgw_cls_obj_prepare_op`.
pub struct PrepareOp {
    op: u8,
    tag: ByteStr,
    locator: ByteStr,
    log_op: bool,
    key: ObjKey,
    log_flags: u16,
    zones: Vec<ByteStr>,
}
record!(PrepareOp, v 7, compat 5, oldest 5, { op, tag, locator, log_op, key, [since 6] log_flags, [since 7] zones });

/// `rgw_cls_obj_complete_op`.
pub struct CompleteOp {
    op: u8,
    /// The same as in `ver`.
    epoch: u64,
    meta: Meta,
    tag: ByteStr,
    locator: ByteStr,
    /// Further objects whose entries go: the parts of an upload that is complete.
    also_remove: Vec<ObjKey>,
    ver: EntryVer,
    log_op: bool,
    key: ObjKey,
    log_flags: u16,
    zones: Vec<ByteStr>,
}
record!(CompleteOp, v 9, compat 7, oldest 7, {
    op, epoch, meta, tag, locator, also_remove, ver, log_op, key, [since 8] log_flags, [since 9] zones,
});

/// A value of the omap; None if there is none, EIO if it is garbage.
pub fn read<T: Denc>(obj: &mut dyn ObjectView, key: &ByteStr) -> ClsResult<Option<T>> {
    match obj.omap_val(key.as_slice()) {
        Err(e) if e.is(ENOENT) => Ok(None),
        other => stored(&other?).map(Some),
    }
}

pub fn write<T: Denc>(obj: &mut dyn ObjectView, key: ByteStr, value: &T) -> ClsResult<()> {
    obj.omap_set(vec![(key, encode(value))])
}

/// Which entry of an object without an instance is meant, where it has versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Null {
    /// The null version.
    Version,
    /// Its delete marker, or the null version if there is none.
    MarkerFirst,
}

/// The entry of an object or version, and where it stands, or would.
pub fn find(obj: &mut dyn ObjectView, key: &ObjKey, null: Null) -> ClsResult<(ByteStr, Option<Entry>)> {
    let at = key.index_key();
    let found: Option<Entry> = read(obj, &at)?;
    if !key.instance.is_empty() || found.as_ref().is_none_or(|entry| !entry.has(VERSIONED)) {
        return Ok((at, found));
    }
    if null == Null::MarkerFirst {
        let at = key.instance_key(true);
        if let Some(entry) = read(obj, &at)? {
            return Ok((at, Some(entry)));
        }
    }
    let at = key.instance_key(false);
    let found = read(obj, &at)?;
    Ok((at, found))
}

fn prepare(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: PrepareOp = decode(&input)?;
    if op.tag.is_empty() {
        return errno(EINVAL);
    }
    let mut header = Header::load_to_write(obj)?;
    let (at, found) = find(obj, &op.key, Null::Version)?;
    let mut entry = found.unwrap_or_else(|| Entry { key: op.key, locator: op.locator, ..Entry::default() });
    entry.announce(op.tag, Pending { state: PENDING, since: obj.now(), op: op.op, rest: Rest::default() });
    // The header stays as it is on disk: completing the change counts both.
    put(obj, &mut header, at, &entry)?;
    done()
}

fn complete(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut op: CompleteOp = decode(&input)?;
    let mut header = Header::load(obj).map_err(|e| if e == ClsError::Wait { e } else { ClsError::Errno(EINVAL) })?;
    header.guard()?;
    let (at, found) = find(obj, &op.key, Null::Version)?;
    let stands = found.is_some();
    let mut entry = found.unwrap_or_else(|| Entry {
        key: op.key.clone(),
        ver: op.ver.clone(),
        meta: op.meta.clone(),
        locator: op.locator.clone(),
        ..Entry::default()
    });
    entry.index_ver = header.ver;
    // It may have been a delete marker.
    entry.flags &= VERSION;
    if !op.tag.is_empty() && !entry.settle(&op.tag) {
        return errno(EINVAL);
    }
    let is_old = op.ver.pool == entry.ver.pool && op.ver.epoch != 0 && op.ver.epoch <= entry.ver.epoch;
    if is_old {
        op.op = op::CANCEL;
    }
    entry.ver = op.ver.clone();
    let mut logs = op.log_op && !header.sync_stopped;
    match op.op {
        op::CANCEL => {
            logs = false;
            if !op.tag.is_empty() {
                keep_or_remove(obj, &mut header, at, &entry)?;
            }
        }
        op::DEL => {
            logs &= stands;
            header.discount(&entry);
            entry.meta = op.meta.clone();
            entry.exists = false;
            if stands {
                keep_or_remove(obj, &mut header, at, &entry)?;
            }
        }
        op::ADD => {
            header.discount(&entry);
            header.count(&op.meta);
            (entry.meta, entry.key, entry.tag, entry.exists) = (op.meta.clone(), op.key.clone(), op.tag.clone(), true);
            put(obj, &mut header, at, &entry)?;
        }
        _ => {}
    }
    if logs {
        let ver = entry.ver.clone();
        let what = Logged { op: op.op, state: COMPLETE, tag: op.tag, at: entry.meta.mtime, ver, flags: op.log_flags, ..Logged::default() };
        log::append(obj, &mut header, Logged { object: op.key.name, instance: op.key.instance, zones: op.zones, ..what })?;
    }
    remove_others(obj, &mut header, &op.also_remove)?;
    header.store(obj)?;
    done()
}

/// An entry that says nothing any more goes.
fn keep_or_remove(obj: &mut dyn ObjectView, header: &mut Header, at: ByteStr, entry: &Entry) -> ClsResult<()> {
    if entry.exists || !entry.pending.is_empty() { put(obj, header, at, entry) } else { remove(obj, header, at, &entry.key) }
}

/// Removes entries. Those that are not there, or are garbage, hold nothing up.
fn remove_others(obj: &mut dyn ObjectView, header: &mut Header, keys: &[ObjKey]) -> ClsResult<()> {
    for key in keys {
        match find(obj, key, Null::Version) {
            Ok((at, Some(entry))) => {
                header.discount(&entry);
                remove(obj, header, at, key)?;
            }
            Err(ClsError::Wait) => return Err(ClsError::Wait),
            Ok((_, None)) | Err(ClsError::Errno(_)) => {}
        }
    }
    Ok(())
}
