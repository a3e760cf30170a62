//! The parent of a clone: a link in the header, and how far it shines through the head and each snapshot.

use super::records::{Parent, ParentSpec};
use super::{answer, feature, find, image, load, must_exist, must_have, op_feature, reads, save, set_op_features, snapshot, writes};
use crate::registry::Method;
use crate::rest::Rest;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, errno};
use bytes::Bytes;
use types::errno::{EEXIST, EINVAL, ENOENT, ENOEXEC, EXDEV};
use types::{CEPH_NOSNAP, SnapId};

pub const METHODS: &[Method] = &[
    reads("get_parent", get_parent),
    writes("set_parent", set_parent),
    writes("remove_parent", |obj, _| detach(obj, true)),
    reads("parent_get", parent_get),
    reads("parent_overlap_get", parent_overlap_get),
    writes("parent_attach", parent_attach),
    writes("parent_detach", |obj, _| detach(obj, false)),
];

/// True if the image can have a parent at all.
fn layered(obj: &mut dyn ObjectView) -> ClsResult<bool> {
    match must_have(obj, feature::LAYERING) {
        Ok(()) => Ok(true),
        Err(e) if e.is(ENOEXEC) => Ok(false),
        Err(e) => Err(e),
    }
}

/// The form of clients before Nautilus, which know no namespaces.
fn get_parent(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let id: SnapId = Input::new(&input).get()?;
    must_exist(obj)?;
    let mut parent = Parent::default();
    if layered(obj)? {
        parent = find(obj, b"parent")?.unwrap_or_default();
        if !parent.pool_namespace.is_empty() {
            return errno(EXDEV);
        }
        if id != CEPH_NOSNAP {
            let snap = match snapshot::get(obj, id) {
                Err(e) if e.is(ENOENT) => None,
                other => Some(other?),
            };
            parent = match snap {
                Some(snap) if snap.parent.exists() => snap.parent,
                Some(snap) if snap.parent_overlap.is_some() => {
                    if !parent.exists() {
                        return errno(EINVAL);
                    }
                    Parent { head_overlap: snap.parent_overlap, ..parent }
                }
                _ => Parent::default(),
            };
        }
    }
    answer!(parent.pool_id, parent.image_id, parent.snap_id, parent.head_overlap.unwrap_or(0))
}

fn set_parent(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let parent = Parent {
        pool_id: input.get()?,
        pool_namespace: String::new(),
        image_id: input.get()?,
        snap_id: input.get()?,
        head_overlap: Some(input.get()?),
        rest: Rest::default(),
    };
    attach(obj, parent, false)
}

fn parent_attach(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let spec: ParentSpec = input.get()?;
    let overlap: u64 = input.get()?;
    let again: bool = if input.is_empty() { false } else { input.get()? };
    let ParentSpec { pool_id, pool_namespace, image_id, snap_id, .. } = spec;
    attach(obj, Parent { pool_id, pool_namespace, image_id, snap_id, head_overlap: Some(overlap), rest: Rest::default() }, again)
}

/// Links the head to a parent. One that only snapshots still have may be linked again; `again` replaces any.
fn attach(obj: &mut dyn ObjectView, mut parent: Parent, again: bool) -> ClsResult<ClsReply> {
    must_exist(obj)?;
    must_have(obj, feature::LAYERING)?;
    let overlap = parent.head_overlap.unwrap_or(0);
    if !parent.exists() || overlap == 0 {
        return errno(EINVAL);
    }
    if let Some(old) = find::<Parent>(obj, b"parent")?
        && (old.head_overlap.is_some() || !old.same_image(&parent))
        && !again
    {
        return errno(EEXIST);
    }
    parent.head_overlap = Some(overlap.min(load(obj, b"size")?));
    save(obj, b"parent", &parent)?;
    Ok(().into())
}

/// Ends the head's link. Snapshots lose theirs too where the image has deep-flatten; otherwise they keep the parent alive.
fn detach(obj: &mut dyn ObjectView, legacy: bool) -> ClsResult<ClsReply> {
    must_exist(obj)?;
    let features = match find::<u64>(obj, b"features")? {
        Some(features) if features & feature::LAYERING != 0 => features,
        _ => return errno(ENOEXEC),
    };
    let mut parent: Parent = load(obj, b"parent")?;
    if legacy && !parent.pool_namespace.is_empty() {
        return errno(EXDEV);
    }
    if parent.head_overlap.is_none() {
        return errno(ENOENT);
    }
    let mut child_snaps = false;
    for mut snap in snapshot::all(obj)?.into_iter().filter(|s| s.has_parent()) {
        if features & feature::DEEP_FLATTEN == 0 {
            child_snaps = true;
            break;
        }
        snap.parent = Parent::default();
        snap.parent_overlap = None;
        snapshot::put(obj, snap)?;
    }
    if child_snaps {
        parent.head_overlap = None;
        save(obj, b"parent", &parent)?;
    } else {
        image::forget_parent(obj)?;
        set_op_features(obj, 0, op_feature::CLONE_CHILD)?;
    }
    Ok(().into())
}

fn parent_get(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    must_exist(obj)?;
    let mut parent = Parent::default();
    if layered(obj)? {
        parent = match find(obj, b"parent")? {
            Some(parent) => parent,
            // Records of releases before Nautilus have it in each snapshot.
            None => snapshot::all(obj)?.into_iter().map(|s| s.parent).rfind(Parent::exists).unwrap_or_default(),
        };
    }
    let Parent { pool_id, pool_namespace, image_id, snap_id, .. } = parent;
    answer!(ParentSpec { pool_id, pool_namespace, image_id, snap_id, rest: Rest::default() })
}

fn parent_overlap_get(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let id: SnapId = Input::new(&input).get()?;
    let mut overlap: Option<u64> = None;
    if layered(obj)? {
        if id == CEPH_NOSNAP {
            overlap = find::<Parent>(obj, b"parent")?.and_then(|p| p.head_overlap);
        } else {
            let snap = snapshot::get(obj, id)?;
            overlap = snap.parent_overlap.or(if snap.parent.exists() { snap.parent.head_overlap } else { None });
        }
    }
    answer!(overlap)
}
