//! What an image's or pool's mirroring is, as clients ask it of every image: the reading half, in the omap of `rbd_mirroring`.
//!
//! Nobody switches mirroring on here: the methods that write are not registered, and so are refused.

use super::{answer, each, find, load, reads};
use crate::registry::Method;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::Input;
use bytes::Bytes;
use denc::{ByteStr, denc_struct};
use std::collections::BTreeMap;
use types::UTime;

pub const METHODS: &[Method] = &[
    reads("mirror_uuid_get", uuid_get),
    reads("mirror_mode_get", mode_get),
    reads("mirror_peer_list", peer_list),
    reads("mirror_image_list", image_list),
    reads("mirror_image_get_image_id", image_id),
    reads("mirror_image_get", image_get),
];

/// `cls::rbd::MirrorImage`: 0 disabling, 1 enabled, 2 disabled; mode 0 by journal, 1 by snapshots.
#[derive(Debug, Clone, PartialEq, Default)]
struct MirrorImage {
    global_image_id: ByteStr,
    state: u8,
    mode: u8,
}
denc_struct!(MirrorImage, v 2, compat 1, { global_image_id, state, [since 2] mode });

/// `cls::rbd::MirrorPeer`.
#[derive(Debug, Clone, PartialEq, Default)]
struct MirrorPeer {
    uuid: ByteStr,
    site_name: ByteStr,
    client_name: ByteStr,
    pool_id: i64,
    direction: u8,
    mirror_uuid: ByteStr,
    last_seen: UTime,
}
denc_struct!(MirrorPeer, v 2, compat 1, { uuid, site_name, client_name, pool_id, [since 2] direction, [since 2] mirror_uuid, [since 2] last_seen });

fn uuid_get(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    // Kept bare, without a length.
    answer!(obj.omap_val(b"mirror_uuid")?)
}

fn mode_get(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    answer!(load::<u32>(obj, b"mirror_mode")?)
}

fn peer_list(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    let mut keys = Vec::new();
    each(obj, b"mirror_peer_", b"", |uuid, _| {
        keys.push([b"mirror_peer_", uuid].concat());
        Ok(true)
    })?;
    let mut peers: Vec<MirrorPeer> = Vec::new();
    for key in keys {
        peers.extend(find::<MirrorPeer>(obj, &key)?);
    }
    answer!(peers)
}

fn image_list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (after, max): (ByteStr, u64) = (input.get()?, input.get()?);
    let mut ids: Vec<Vec<u8>> = Vec::new();
    each(obj, b"image_", after.as_slice(), |id, _| {
        ids.push(id.to_vec());
        Ok((ids.len() as u64) < max)
    })?;
    let mut found: BTreeMap<ByteStr, ByteStr> = BTreeMap::new();
    for id in ids {
        let image: MirrorImage = load(obj, &[b"image_", &id[..]].concat())?;
        found.insert(id.into(), image.global_image_id);
    }
    answer!(found)
}

fn image_id(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let global: ByteStr = Input::new(&input).get()?;
    answer!(load::<ByteStr>(obj, &[b"global_", global.as_slice()].concat())?)
}

fn image_get(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let id: ByteStr = Input::new(&input).get()?;
    answer!(load::<MirrorImage>(obj, &[b"image_", id.as_slice()].concat())?)
}
