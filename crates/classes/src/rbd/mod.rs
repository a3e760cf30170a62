//! Class `rbd`: what librbd keeps in an image's header, a pool's directory and the objects beside them.
//!
//! One file a kind of object or concern; this one has what they share: features, keys, and values in an object's omap.
//!
//! Source of the formats, errnos and rules: Ceph 18.2 `src/cls/rbd/*`, `src/include/rbd/features.h`, `src/common/bit_vector.hpp`.

mod children;
mod copyup;
mod directory;
mod group;
mod image;
mod metadata;
mod migration;
mod mirror;
mod object_map;
mod old_header;
mod parent;
mod records;
mod snapshot;
mod trash;

use crate::registry::{Class, METHOD_RD, METHOD_WR, Method, MethodFn};
use crate::view::{ClsError, ClsResult, ObjectView};
use crate::wire::errno;
use bytes::Bytes;
use denc::{ByteStr, Denc, features};
use types::errno::{EIO, ENOENT, ENOEXEC, ENXIO};

pub static CLASS: Class = Class {
    name: "rbd",
    families: &[
        image::METHODS,
        snapshot::METHODS,
        parent::METHODS,
        children::METHODS,
        directory::METHODS,
        object_map::METHODS,
        metadata::METHODS,
        mirror::FAMILIES[0],
        mirror::FAMILIES[1],
        mirror::FAMILIES[2],
        mirror::FAMILIES[3],
        mirror::FAMILIES[4],
        mirror::FAMILIES[5],
        copyup::METHODS,
        trash::METHODS,
        group::METHODS,
        group::SNAPSHOT_METHODS,
        migration::METHODS,
        old_header::METHODS,
    ],
};

const fn reads(name: &'static str, call: MethodFn) -> Method {
    Method { name, flags: METHOD_RD, call }
}
const fn writes(name: &'static str, call: MethodFn) -> Method {
    Method { name, flags: METHOD_RD | METHOD_WR, call }
}

/// Features of an image.
mod feature {
    pub const LAYERING: u64 = 1;
    pub const STRIPINGV2: u64 = 1 << 1;
    pub const EXCLUSIVE_LOCK: u64 = 1 << 2;
    pub const OBJECT_MAP: u64 = 1 << 3;
    pub const FAST_DIFF: u64 = 1 << 4;
    pub const DEEP_FLATTEN: u64 = 1 << 5;
    pub const JOURNALING: u64 = 1 << 6;
    pub const DATA_POOL: u64 = 1 << 7;
    pub const OPERATIONS: u64 = 1 << 8;
    pub const MIGRATING: u64 = 1 << 9;
    pub const NON_PRIMARY: u64 = 1 << 10;
    pub const DIRTY_CACHE: u64 = 1 << 11;
    pub const ALL: u64 = (1 << 12) - 1;
    /// A client that does not know one of these can't even read the image.
    pub const INCOMPATIBLE: u64 = LAYERING | STRIPINGV2 | DATA_POOL | DIRTY_CACHE;
    /// A client that does not know one of these can't write it.
    pub const RW_INCOMPATIBLE: u64 =
        INCOMPATIBLE | EXCLUSIVE_LOCK | OBJECT_MAP | FAST_DIFF | DEEP_FLATTEN | JOURNALING | OPERATIONS | MIGRATING | NON_PRIMARY;
    /// May be switched on and off while the image lives.
    pub const MUTABLE: u64 = EXCLUSIVE_LOCK | OBJECT_MAP | FAST_DIFF | JOURNALING | NON_PRIMARY | DIRTY_CACHE;
    pub const DISABLE_ONLY: u64 = DEEP_FLATTEN;
    /// Set by the class itself, never by a client.
    pub const INTERNAL: u64 = OPERATIONS | MIGRATING;
}

/// Operations that an image's history obliges clients to know.
mod op_feature {
    pub const CLONE_PARENT: u64 = 1;
    pub const CLONE_CHILD: u64 = 1 << 1;
    pub const GROUP: u64 = 1 << 2;
    pub const SNAP_TRASH: u64 = 1 << 3;
    pub const ALL: u64 = (1 << 4) - 1;
}

/// Keys that a listing reads in one go.
const KEYS_PER_READ: u64 = 64;

/// Features that stored records are encoded with: every OSD of this cluster is of Nautilus or later.
const RECORD_FEATURES: u64 = features::SERVER_NAUTILUS;

/// The value under `key`: ENOENT without one, EIO if it is not a `T`.
fn load<T: Denc>(obj: &mut dyn ObjectView, key: &[u8]) -> ClsResult<T> {
    T::from_bytes(&obj.omap_val(key)?).map_err(|_| ClsError::Errno(EIO))
}

/// The value under `key`, None without one or without the object.
fn find<T: Denc>(obj: &mut dyn ObjectView, key: &[u8]) -> ClsResult<Option<T>> {
    match load(obj, key) {
        Err(e) if e.is(ENOENT) => Ok(None),
        other => other.map(Some),
    }
}

fn save<T: Denc>(obj: &mut dyn ObjectView, key: &[u8], value: &T) -> ClsResult<()> {
    obj.omap_set(vec![(ByteStr::from(key), value.to_bytes(RECORD_FEATURES))])
}

/// Removing what is not there is no error.
fn forget(obj: &mut dyn ObjectView, key: &[u8]) -> ClsResult<()> {
    match obj.omap_remove(vec![ByteStr::from(key)]) {
        Err(e) if e.is(ENOENT) => Ok(()),
        other => other,
    }
}

/// True if there is anything under `key`.
fn has_key(obj: &mut dyn ObjectView, key: &[u8]) -> ClsResult<bool> {
    match obj.omap_val(key) {
        Err(e) if e.is(ENOENT) => Ok(false),
        other => other.map(|_| true),
    }
}

/// Which of the two formats of a header an object has.
enum ImageFormat {
    Old { migrating: bool },
    New { features: u64 },
}

/// ENXIO for an object that is no header at all.
fn image_format(obj: &mut dyn ObjectView) -> ClsResult<ImageFormat> {
    if let Some(features) = find::<u64>(obj, b"features")? {
        return Ok(ImageFormat::New { features });
    }
    must_exist(obj)?;
    match obj.read(0, old_header::TEXT.len() as u64)? {
        text if text == old_header::TEXT => Ok(ImageFormat::Old { migrating: false }),
        text if text == old_header::MIGRATING_TEXT => Ok(ImageFormat::Old { migrating: true }),
        _ => errno(ENXIO),
    }
}

/// ENOENT if there is no object.
fn must_exist(obj: &mut dyn ObjectView) -> ClsResult<()> {
    obj.stat().map(drop)
}

/// ENOEXEC unless the image has the features (an old-format image has none).
fn must_have(obj: &mut dyn ObjectView, need: u64) -> ClsResult<()> {
    match find::<u64>(obj, b"features")? {
        Some(has) if has & need == need => Ok(()),
        _ => errno(ENOEXEC),
    }
}

/// Sets the bits of `mask` to those of `value`, and the feature that tells clients to look at them.
fn set_op_features(obj: &mut dyn ObjectView, value: u64, mask: u64) -> ClsResult<()> {
    let features: u64 = load(obj, b"features")?;
    let before = find::<u64>(obj, b"op_features")?.unwrap_or(0);
    let after = before & !mask | value & mask;
    if after == before {
        return Ok(());
    }
    let with = if after == 0 {
        forget(obj, b"op_features")?;
        features & !feature::OPERATIONS
    } else {
        save(obj, b"op_features", &after)?;
        features | feature::OPERATIONS
    };
    if with != features {
        save(obj, b"features", &with)?;
    }
    Ok(())
}

/// Values one behind the other.
macro_rules! answer {
    ($($value:expr),* $(,)?) => {{
        let mut e = denc::Encoder::new($crate::rbd::RECORD_FEATURES);
        $( e.put(&$value); )*
        Ok($crate::view::ClsReply::from(e.finish()))
    }};
}
use answer;

/// Every entry whose key starts with `prefix` and sorts behind `prefix + after`, read in pages, until `visit` says to stop with false.
fn each(obj: &mut dyn ObjectView, prefix: &[u8], after: &[u8], mut visit: impl FnMut(&[u8], Bytes) -> ClsResult<bool>) -> ClsResult<()> {
    each_with(obj, prefix, after, |_, name, value| visit(name, value))
}

/// The same for a `visit` that looks at the object itself.
fn each_with(
    obj: &mut dyn ObjectView,
    prefix: &[u8],
    after: &[u8],
    mut visit: impl FnMut(&mut dyn ObjectView, &[u8], Bytes) -> ClsResult<bool>,
) -> ClsResult<()> {
    let mut last = after.into();
    while each_of_page(obj, prefix, &mut last, |obj, name, value| visit(obj, name, value.clone()))? {}
    Ok(())
}

/// One page of it, behind `prefix + last`. `last` goes along with what was visited, so that a pass goes on there. True if more follow and `visit`
/// has not said to stop.
fn each_of_page(
    obj: &mut dyn ObjectView,
    prefix: &[u8],
    last: &mut ByteStr,
    mut visit: impl FnMut(&mut dyn ObjectView, &[u8], &Bytes) -> ClsResult<bool>,
) -> ClsResult<bool> {
    let (page, more) = obj.omap_vals(&[prefix, last.as_slice()].concat(), prefix, KEYS_PER_READ)?;
    for (key, value) in &page {
        let name = key.as_slice().strip_prefix(prefix).unwrap_or_default();
        if !visit(obj, name, value)? {
            return Ok(false);
        }
        *last = name.into();
    }
    Ok(more && !page.is_empty())
}
