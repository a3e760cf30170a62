//! Snapshots of an image: records `snapshot_ID` in the header's omap, ID as 16 hexadecimal digits.

use super::records::PROTECTION_END;
use super::records::{NAMESPACE_MIRROR, NAMESPACE_TRASH, NAMESPACE_USER, Parent, Snap, SnapInfo, SnapNamespace, UNPROTECTED};
use super::{
    KEYS_PER_READ, answer, each, feature, find, forget, image, load, must_exist, must_have, old_header, op_feature, reads, save,
    set_op_features, writes,
};
use crate::registry::Method;
use crate::rest::Rest;
use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, errno};
use bytes::Bytes;
use denc::{Denc, Encoder};
use types::errno::{EBUSY, EDQUOT, EEXIST, EINVAL, EIO, ERANGE, ESTALE};
use types::{CEPH_MAXSNAP, CEPH_NOSNAP, SnapId, Uuid};

pub const METHODS: &[Method] = &[
    reads("get_snapcontext", get_snapcontext),
    reads("get_snapshot_name", |obj, input| answer!(named(obj, &input)?.name)),
    reads("get_snapshot_timestamp", |obj, input| answer!(named(obj, &input)?.timestamp)),
    reads("snapshot_get", snapshot_get),
    writes("snapshot_add", add),
    writes("snapshot_remove", remove),
    writes("snapshot_rename", rename),
    writes("snapshot_trash_add", trash_add),
    reads("get_protection_status", get_protection_status),
    writes("set_protection_status", set_protection_status),
    reads("snapshot_get_limit", |obj, _| answer!(find::<u64>(obj, b"snap_limit")?.unwrap_or(u64::MAX))),
    writes("snapshot_set_limit", set_limit),
];

const PREFIX: &[u8] = b"snapshot_";

fn key(id: SnapId) -> Vec<u8> {
    format!("snapshot_{id:016x}").into_bytes()
}

/// ENOENT if there is no such snapshot.
pub fn get(obj: &mut dyn ObjectView, id: SnapId) -> ClsResult<Snap> {
    load(obj, &key(id))
}

/// Writes a record in today's form: a parent in it moves to the header, where it stands once for all.
pub fn put(obj: &mut dyn ObjectView, mut snap: Snap) -> ClsResult<()> {
    if snap.parent.exists() {
        if !find::<Parent>(obj, b"parent")?.is_some_and(|p| p.exists()) {
            save(obj, b"parent", &Parent { head_overlap: None, ..snap.parent.clone() })?;
        }
        snap.parent_overlap = snap.parent.head_overlap;
        snap.parent = Parent::default();
    }
    save(obj, &key(snap.id), &snap)
}

/// Every snapshot, in order of ids.
pub fn all(obj: &mut dyn ObjectView) -> ClsResult<Vec<Snap>> {
    let mut snaps = Vec::new();
    each(obj, PREFIX, b"", |_, value| {
        snaps.push(Snap::from_bytes(&value).map_err(|_| ClsError::Errno(EIO))?);
        Ok(true)
    })?;
    Ok(snaps)
}

/// The snapshot that the input names; the head is none.
fn named(obj: &mut dyn ObjectView, input: &Bytes) -> ClsResult<Snap> {
    match Input::new(input).get()? {
        CEPH_NOSNAP => errno(EINVAL),
        id => get(obj, id),
    }
}

/// Newest first, with the newest id ever: what a client writes with.
fn get_snapcontext(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    let mut ids: Vec<SnapId> = Vec::new();
    let mut last = PREFIX.to_vec();
    'pages: loop {
        let (keys, more) = obj.omap_keys(&last, KEYS_PER_READ)?;
        for name in &keys {
            let Some(hex) = name.as_slice().strip_prefix(PREFIX) else { break 'pages };
            let id = std::str::from_utf8(hex).ok().and_then(|hex| SnapId::from_str_radix(hex, 16).ok());
            ids.push(id.ok_or(ClsError::Errno(EIO))?);
        }
        match keys.last() {
            Some(name) if more => last = name.as_slice().to_vec(),
            _ => break,
        }
    }
    ids.reverse();
    let seq: u64 = load(obj, b"snap_seq")?;
    answer!(seq, ids)
}

fn snapshot_get(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let Snap { id, name, image_size, namespace, timestamp, child_count, .. } = named(obj, &input)?;
    answer!(SnapInfo { id, namespace, name, image_size, timestamp, child_count })
}

fn add(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (name, id): (String, SnapId) = (input.get()?, input.get()?);
    let namespace: SnapNamespace = if input.is_empty() { SnapNamespace::default() } else { input.get()? };
    if namespace.kind > NAMESPACE_MIRROR || id > CEPH_MAXSNAP {
        return errno(EINVAL);
    }
    if id < load::<u64>(obj, b"snap_seq")? {
        return errno(ESTALE);
    }
    let image_size: u64 = load(obj, b"size")?;
    let flags = find(obj, b"flags")?.unwrap_or(0);
    let limit = find(obj, b"snap_limit")?.unwrap_or(u64::MAX);
    for (n, old) in all(obj)?.iter().enumerate() {
        if n as u64 + 1 >= limit {
            return errno(EDQUOT);
        }
        if old.id == id || (old.name == name && old.namespace == namespace) {
            return errno(EEXIST);
        }
    }
    let parent = find::<Parent>(obj, b"parent")?.unwrap_or_default();
    if namespace.kind == NAMESPACE_TRASH {
        set_op_features(obj, op_feature::SNAP_TRASH, op_feature::SNAP_TRASH)?;
    }
    save(obj, b"snap_seq", &id)?;
    let timestamp = obj.now();
    let snap = Snap {
        id,
        name,
        image_size,
        parent,
        protection: UNPROTECTED,
        flags,
        namespace,
        timestamp,
        child_count: 0,
        parent_overlap: None,
        rest: Rest::default(),
    };
    put(obj, snap)?;
    Ok(().into())
}

fn rename(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (id, name): (SnapId, String) = (input.get()?, input.get()?);
    if all(obj)?.iter().any(|s| s.namespace.kind == NAMESPACE_USER && s.name == name) {
        return errno(EEXIST);
    }
    let mut snap = get(obj, id)?;
    if snap.namespace.kind != NAMESPACE_USER {
        return errno(EINVAL);
    }
    snap.name = name;
    put(obj, snap)?;
    Ok(().into())
}

fn remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let id: SnapId = Input::new(&input).get()?;
    let snap = get(obj, id)?;
    if snap.protection != UNPROTECTED || snap.child_count > 0 {
        return errno(EBUSY);
    }
    forget(obj, &key(id))?;
    // Without the last snapshot of its kind, the image no longer obliges clients to know it.
    let others: Vec<Snap> = all(obj)?.into_iter().filter(|s| s.id != id).collect();
    let child_snaps = others.iter().any(Snap::has_parent);
    let trash_snaps = others.iter().any(|s| s.namespace.kind == NAMESPACE_TRASH);
    let parent = find::<Parent>(obj, b"parent")?.filter(Parent::exists);
    let head_is_child = parent.as_ref().is_some_and(|p| p.head_overlap.is_some());
    if parent.is_some() && !head_is_child && !child_snaps {
        image::forget_parent(obj)?;
    }
    let mut off = 0;
    if !child_snaps && !head_is_child {
        off |= op_feature::CLONE_CHILD;
    }
    if !trash_snaps {
        off |= op_feature::SNAP_TRASH;
    }
    if off != 0 {
        set_op_features(obj, 0, off)?;
    }
    Ok(().into())
}

/// The snapshot stays for its clones' sake, under a name that no other has.
fn trash_add(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut snap = get(obj, Input::new(&input).get()?)?;
    if snap.protection != UNPROTECTED {
        return errno(EBUSY);
    }
    if snap.namespace.kind == NAMESPACE_TRASH {
        return errno(EEXIST);
    }
    set_op_features(obj, op_feature::SNAP_TRASH, op_feature::SNAP_TRASH)?;
    let mut body = Encoder::new(0);
    snap.name.encode(&mut body);
    body.u32(snap.namespace.kind);
    snap.namespace = SnapNamespace { kind: NAMESPACE_TRASH, body: body.finish(), rest: Rest::default() };
    let mut random = [0; 16];
    obj.random(&mut random);
    snap.name = Uuid::from_random(random).to_string();
    put(obj, snap)?;
    Ok(().into())
}

fn get_protection_status(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let id: SnapId = Input::new(&input).get()?;
    must_exist(obj)?;
    if id == CEPH_NOSNAP {
        return errno(EINVAL);
    }
    match get(obj, id)?.protection {
        status if status < PROTECTION_END => answer!(status),
        _ => errno(EIO),
    }
}

fn set_protection_status(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (id, status): (SnapId, u8) = (input.get()?, input.get()?);
    must_exist(obj)?;
    must_have(obj, feature::LAYERING)?;
    if id == CEPH_NOSNAP || status >= PROTECTION_END {
        return errno(EINVAL);
    }
    let mut snap = get(obj, id)?;
    snap.protection = status;
    put(obj, snap)?;
    Ok(().into())
}

fn set_limit(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let limit: u64 = Input::new(&input).get()?;
    if limit == u64::MAX {
        obj.omap_remove(vec!["snap_limit".into()])?;
        return Ok(().into());
    }
    let snaps_len = match old_header::read(obj) {
        Ok(header) => header.snaps_len(),
        Err(e) if e.is(EINVAL) => all(obj)?.len(),
        Err(e) => return Err(e),
    };
    if limit < snaps_len as u64 {
        return errno(ERANGE);
    }
    save(obj, b"snap_limit", &limit)?;
    Ok(().into())
}
