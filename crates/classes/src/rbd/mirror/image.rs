//! Mirrored images: keys `image_ID` and, back from the id that all sites share, `global_ID`.

use super::super::{answer, each, find, load, reads, save, writes};
use super::{forget, status};
use crate::registry::Method;
use crate::rest::{Rest, kept};
use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, errno};
use bytes::Bytes;
use denc::{ByteStr, Denc};
use std::collections::BTreeMap;
use types::errno::{EBUSY, EEXIST, EINVAL, EIO, ENOENT};

pub const METHODS: &[Method] = &[
    reads("mirror_image_list", list),
    reads("mirror_image_get_image_id", |obj, input| answer!(id_of(obj, &Input::new(&input).get()?)?)),
    reads("mirror_image_get", |obj, input| answer!(get(obj, &Input::new(&input).get()?)?)),
    writes("mirror_image_set", set),
    writes("mirror_image_remove", remove),
];

pub const IMAGES: &[u8] = b"image_";

/// States of a mirrored image.
pub const DISABLING: u8 = 0;
pub const ENABLED: u8 = 1;

/// `cls::rbd::MirrorImage`; mode 0 is by journal, 1 by snapshots.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MirrorImage {
    pub global_image_id: ByteStr,
    pub state: u8,
    mode: u8,
    pub rest: Rest,
}
kept!(MirrorImage, v 2, compat 1, { global_image_id, state, [since 2] mode });

impl MirrorImage {
    /// EIO if the stored bytes are none.
    pub fn stored(bytes: &Bytes) -> ClsResult<Self> {
        Self::from_bytes(bytes).map_err(|_| ClsError::Errno(EIO))
    }
}

fn key(id: &ByteStr) -> Vec<u8> {
    [IMAGES, id.as_slice()].concat()
}
fn global_key(id: &ByteStr) -> Vec<u8> {
    [b"global_", id.as_slice()].concat()
}

/// ENOENT for an image that is not mirrored.
pub fn get(obj: &mut dyn ObjectView, id: &ByteStr) -> ClsResult<MirrorImage> {
    load(obj, &key(id))
}

/// The image's id here.
pub fn id_of(obj: &mut dyn ObjectView, global_id: &ByteStr) -> ClsResult<ByteStr> {
    load(obj, &global_key(global_id))
}

fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (after, max): (ByteStr, u64) = (input.get()?, input.get()?);
    let mut found: BTreeMap<ByteStr, ByteStr> = BTreeMap::new();
    if max > 0 {
        each(obj, IMAGES, after.as_slice(), |id, image| {
            found.insert(id.into(), MirrorImage::stored(&image)?.global_image_id);
            Ok((found.len() as u64) < max)
        })?;
    }
    answer!(found)
}

fn set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (id, image): (ByteStr, MirrorImage) = (input.get()?, input.get()?);
    match find::<MirrorImage>(obj, &key(&id))? {
        Some(old) if old.global_image_id != image.global_image_id => return errno(EINVAL),
        Some(_) => {}
        None if find::<ByteStr>(obj, &global_key(&image.global_image_id))?.is_some() => return errno(EEXIST),
        // Somebody else has ended it already.
        None if image.state == DISABLING => return errno(ENOENT),
        None => {}
    }
    save(obj, &key(&id), &image)?;
    save(obj, &global_key(&image.global_image_id), &id)?;
    Ok(().into())
}

fn remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let id: ByteStr = Input::new(&input).get()?;
    let image = get(obj, &id)?;
    if image.state != DISABLING {
        return errno(EBUSY);
    }
    forget(obj, &key(&id))?;
    forget(obj, &global_key(&image.global_image_id))?;
    status::remove(obj, &image.global_image_id)?;
    Ok(().into())
}
