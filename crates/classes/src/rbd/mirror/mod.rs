//! Mirroring: a pool's `rbd_mirroring` object and the snapshots that mirroring takes of images.
//!
//! One file a kind of key; this one has the pool's own: its id among mirrored pools, its mode, the namespace it goes to elsewhere.

mod daemon;
mod image;
mod peer;
mod snapshot;
mod status;

use super::{answer, find, forget, load, reads, save, writes};
use crate::registry::Method;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, errno};
use bytes::Bytes;
use denc::ByteStr;
use types::errno::{EBUSY, EINVAL, ENOENT};

pub const FAMILIES: [&[Method]; 6] = [METHODS, peer::METHODS, image::METHODS, status::METHODS, daemon::METHODS, snapshot::METHODS];

const METHODS: &[Method] = &[
    reads("mirror_uuid_get", |obj, _| answer!(uuid(obj)?)),
    writes("mirror_uuid_set", uuid_set),
    reads("mirror_mode_get", |obj, _| answer!(load::<u32>(obj, MODE)?)),
    writes("mirror_mode_set", mode_set),
    reads("mirror_remote_namespace_get", |obj, _| answer!(load::<ByteStr>(obj, REMOTE_NAMESPACE)?)),
    writes("mirror_remote_namespace_set", remote_namespace_set),
];

const UUID: &[u8] = b"mirror_uuid";
const MODE: &[u8] = b"mirror_mode";
const REMOTE_NAMESPACE: &[u8] = b"remote_namespace";

/// `cls::rbd::MirrorMode`; 1 is chosen image by image, 2 every image with a journal.
const DISABLED: u32 = 0;
const MODE_MAX: u32 = 2;

/// Kept bare, without a length. ENOENT if there is none.
fn uuid(obj: &mut dyn ObjectView) -> ClsResult<ByteStr> {
    Ok(ByteStr::from(&obj.omap_val(UUID)?[..]))
}

fn enabled(obj: &mut dyn ObjectView) -> ClsResult<bool> {
    Ok(find::<u32>(obj, MODE)?.is_some_and(|mode| mode != DISABLED))
}

fn uuid_set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let uuid: ByteStr = Input::new(&input).get()?;
    if uuid.is_empty() || enabled(obj)? {
        return errno(EINVAL);
    }
    obj.omap_set(vec![(UUID.into(), uuid.into_bytes())])?;
    Ok(().into())
}

fn mode_set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    match Input::new(&input).get::<u32>()? {
        DISABLED => {
            if !peer::all(obj)?.is_empty() {
                return errno(EBUSY);
            }
            for key in [MODE, UUID, REMOTE_NAMESPACE] {
                forget(obj, key)?;
            }
        }
        mode if mode <= MODE_MAX => {
            match uuid(obj) {
                Err(e) if e.is(ENOENT) => return errno(EINVAL),
                other => other?,
            };
            save(obj, MODE, &mode)?;
        }
        _ => return errno(EINVAL),
    }
    Ok(().into())
}

fn remote_namespace_set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let namespace: ByteStr = Input::new(&input).get()?;
    if enabled(obj)? {
        return errno(EINVAL);
    }
    save(obj, REMOTE_NAMESPACE, &namespace)?;
    Ok(().into())
}
