//! Snapshots that mirroring takes of an image: which peers still need them and how far they are copied, in the image's header.

use super::super::records::{NAMESPACE_MIRROR, Snap};
use super::super::{snapshot, writes};
use crate::registry::Method;
use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, errno};
use bytes::Bytes;
use denc::{ByteStr, Denc, denc_struct};
use std::collections::{BTreeMap, BTreeSet};
use types::SnapId;
use types::errno::{EINVAL, EIO, ENOENT};

pub const METHODS: &[Method] =
    &[writes("mirror_image_snapshot_unlink_peer", unlink_peer), writes("mirror_image_snapshot_set_copy_progress", set_copy_progress)];

/// States of a snapshot that came from another site; lower ones were taken here.
const NON_PRIMARY: u8 = 2;
const NON_PRIMARY_DEMOTED: u8 = 3;

/// `cls::rbd::MirrorSnapshotNamespace`, without its kind.
struct MirrorSnap {
    state: u8,
    complete: bool,
    mirror_peer_uuids: BTreeSet<ByteStr>,
    primary_mirror_uuid: ByteStr,
    primary_snap_id: SnapId,
    last_copied_object_number: u64,
    snap_seqs: BTreeMap<u64, u64>,
}
denc_struct!(MirrorSnap, bare, { state, complete, mirror_peer_uuids, primary_mirror_uuid, primary_snap_id, last_copied_object_number, snap_seqs });

/// EINVAL for a snapshot of another kind.
fn get(obj: &mut dyn ObjectView, id: SnapId) -> ClsResult<(Snap, MirrorSnap)> {
    let snap = snapshot::get(obj, id)?;
    if snap.namespace.kind != NAMESPACE_MIRROR {
        return errno(EINVAL);
    }
    let mirror = MirrorSnap::from_bytes(&snap.namespace.body).map_err(|_| ClsError::Errno(EIO))?;
    Ok((snap, mirror))
}

fn put(obj: &mut dyn ObjectView, mut snap: Snap, mirror: &MirrorSnap) -> ClsResult<ClsReply> {
    snap.namespace.body = mirror.to_bytes(0);
    snapshot::put(obj, snap)?;
    Ok(().into())
}

fn unlink_peer(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (id, peer): (SnapId, ByteStr) = (input.get()?, input.get()?);
    let (snap, mut mirror) = get(obj, id)?;
    if !mirror.mirror_peer_uuids.remove(&peer) {
        return errno(ENOENT);
    }
    put(obj, snap, &mirror)
}

fn set_copy_progress(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (id, complete, last_copied): (SnapId, bool, u64) = (input.get()?, input.get()?, input.get()?);
    let (snap, mut mirror) = get(obj, id)?;
    mirror.complete = complete;
    if matches!(mirror.state, NON_PRIMARY | NON_PRIMARY_DEMOTED) {
        mirror.last_copied_object_number = last_copied;
    }
    put(obj, snap, &mirror)
}
