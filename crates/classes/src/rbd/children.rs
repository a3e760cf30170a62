//! Which image was cloned from which: the pool's `rbd_children` of old, and the lists that a parent's header keeps for its snapshots.

use super::records::{ChildSpec, NAMESPACE_TRASH};
use super::{answer, find, forget, load, op_feature, reads, save, set_op_features, snapshot, writes};
use crate::registry::Method;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, errno};
use bytes::Bytes;
use denc::Encoder;
use std::collections::BTreeSet;
use types::SnapId;
use types::errno::{EEXIST, EINVAL, ENOENT};

pub const METHODS: &[Method] = &[
    writes("add_child", add_child),
    writes("remove_child", remove_child),
    reads("get_children", get_children),
    writes("child_attach", child_attach),
    writes("child_detach", child_detach),
    reads("children_list", children_list),
];

/// The key in `rbd_children`: the parent's pool, image and snapshot, encoded.
fn parent_key(input: &mut Input) -> ClsResult<Vec<u8>> {
    let (pool, image, snap): (u64, String, SnapId) = (input.get()?, input.get()?, input.get()?);
    let mut e = Encoder::new(0);
    e.u64(pool);
    e.put(&image);
    e.u64(snap);
    Ok(e.finish().to_vec())
}

fn add_child(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (key, child): (_, String) = (parent_key(&mut input)?, input.get()?);
    let mut children = find::<BTreeSet<String>>(obj, &key)?.unwrap_or_default();
    if !children.insert(child) {
        return errno(EEXIST);
    }
    save(obj, &key, &children)?;
    Ok(().into())
}

fn remove_child(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (key, child): (_, String) = (parent_key(&mut input)?, input.get()?);
    let mut children: BTreeSet<String> = load(obj, &key)?;
    if !children.remove(&child) {
        return errno(ENOENT);
    }
    if children.is_empty() {
        forget(obj, &key)?
    } else {
        save(obj, &key, &children)?
    }
    Ok(().into())
}

fn get_children(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let key = parent_key(&mut Input::new(&input))?;
    answer!(load::<BTreeSet<String>>(obj, &key)?)
}

fn key(id: SnapId) -> Vec<u8> {
    format!("snap_children_{id:016x}").into_bytes()
}

fn child_attach(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (id, child): (SnapId, ChildSpec) = (input.get()?, input.get()?);
    let mut snap = snapshot::get(obj, id)?;
    if snap.namespace.kind == NAMESPACE_TRASH {
        return errno(ENOENT);
    }
    let mut children = find::<BTreeSet<ChildSpec>>(obj, &key(id))?.unwrap_or_default();
    if !children.insert(child) {
        return errno(EEXIST);
    }
    save(obj, &key(id), &children)?;
    snap.child_count += 1;
    snapshot::put(obj, snap)?;
    set_op_features(obj, op_feature::CLONE_PARENT, op_feature::CLONE_PARENT)?;
    Ok(().into())
}

fn child_detach(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (id, child): (SnapId, ChildSpec) = (input.get()?, input.get()?);
    let mut snap = snapshot::get(obj, id)?;
    let mut children = find::<BTreeSet<ChildSpec>>(obj, &key(id))?.unwrap_or_default();
    if snap.child_count as usize != children.len() {
        return errno(EINVAL);
    }
    if !children.remove(&child) {
        return errno(ENOENT);
    }
    if children.is_empty() {
        forget(obj, &key(id))?
    } else {
        save(obj, &key(id), &children)?
    }
    snap.child_count -= 1;
    let was_last = snap.child_count == 0;
    snapshot::put(obj, snap)?;
    if was_last && !snapshot::all(obj)?.iter().any(|s| s.id != id && s.child_count > 0) {
        set_op_features(obj, 0, op_feature::CLONE_PARENT)?;
    }
    Ok(().into())
}

fn children_list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let id: SnapId = Input::new(&input).get()?;
    snapshot::get(obj, id)?;
    answer!(load::<BTreeSet<ChildSpec>>(obj, &key(id))?)
}
