//! What a scrub found, as `rados list-inconsistent-obj` and `list-inconsistent-snapset` ask for it (the operation SCRUBLS).
//!
//! Holds records and their bits; comparing is the OSD's. Source of the facts: Ceph 18.2 `src/include/rados/rados_types.hpp`,
//! `src/common/scrub_types.cc`.

use crate::{ByteStr, Bytes, Epoch, HObject, PgShard, SnapId};
use denc::{Decoder, Denc, DencError, Encoder, denc_struct};
use std::collections::BTreeMap;

/// `err_t`: what is wrong with one member's copy.
pub mod shard_error {
    pub const MISSING: u64 = 1 << 1;
    pub const STAT: u64 = 1 << 2;
    pub const READ: u64 = 1 << 3;
    pub const DATA_DIGEST_INFO: u64 = 1 << 9;
    pub const OMAP_DIGEST_INFO: u64 = 1 << 10;
    pub const SIZE_INFO: u64 = 1 << 11;
    pub const INFO_MISSING: u64 = 1 << 14;
    pub const INFO_CORRUPTED: u64 = 1 << 15;
    pub const SNAPSET_MISSING: u64 = 1 << 16;
    pub const SNAPSET_CORRUPTED: u64 = 1 << 17;
    pub const OBJ_SIZE_INFO: u64 = 1 << 18;
    /// Found without reading data.
    pub const SHALLOW: u64 =
        MISSING | STAT | SIZE_INFO | INFO_MISSING | INFO_CORRUPTED | SNAPSET_MISSING | SNAPSET_CORRUPTED | OBJ_SIZE_INFO;
    /// Found by a deep scrub only.
    pub const DEEP: u64 = READ | DATA_DIGEST_INFO | OMAP_DIGEST_INFO;
}

/// `obj_err_t`: how copies of an object differ.
pub mod object_error {
    pub const INFO: u64 = 1 << 1;
    pub const DATA_DIGEST: u64 = 1 << 4;
    pub const OMAP_DIGEST: u64 = 1 << 5;
    pub const SIZE: u64 = 1 << 6;
    pub const ATTR_VALUE: u64 = 1 << 7;
    pub const ATTR_NAME: u64 = 1 << 8;
    pub const SNAPSET: u64 = 1 << 9;
    pub const SIZE_TOO_LARGE: u64 = 1 << 11;
    /// Found without reading data.
    pub const SHALLOW: u64 = INFO | SIZE | ATTR_VALUE | ATTR_NAME | SNAPSET | SIZE_TOO_LARGE;
    /// Found by a deep scrub only.
    pub const DEEP: u64 = DATA_DIGEST | OMAP_DIGEST;
}

/// `inconsistent_snapset_t`: what is wrong with a head and its clones.
pub mod snapset_error {
    pub const SNAPSET_MISSING: u64 = 1 << 0;
    pub const SNAPSET_CORRUPTED: u64 = 1 << 1;
    pub const CLONE_MISSING: u64 = 1 << 2;
    pub const SNAP_ERROR: u64 = 1 << 3;
    pub const HEADLESS: u64 = 1 << 5;
    pub const SIZE: u64 = 1 << 6;
    pub const INFO_MISSING: u64 = 1 << 7;
    pub const INFO_CORRUPTED: u64 = 1 << 8;
    pub const EXTRA_CLONES: u64 = 1 << 9;
}

/// `object_id_t`: an object as librados names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct FoundObject {
    pub nspace: ByteStr,
    pub name: ByteStr,
    pub snap: SnapId,
    pub locator: ByteStr,
}
denc_struct!(FoundObject, v 1, compat 1, { name, nspace, locator, snap });

impl From<&HObject> for FoundObject {
    fn from(obj: &HObject) -> Self {
        Self { nspace: obj.nspace.detach(), name: obj.oid.detach(), snap: obj.snap, locator: obj.key.detach() }
    }
}

/// `shard_info_t`: one member's copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundShard {
    /// [`shard_error`]s.
    pub errors: u64,
    pub attrs: BTreeMap<ByteStr, Bytes>,
    /// Bytes; `u64::MAX` if it can't be told.
    pub size: u64,
    pub omap_digest: Option<u32>,
    pub data_digest: Option<u32>,
    /// The others are held against this one's object_info.
    pub selected_oi: bool,
    pub primary: bool,
}

impl Default for FoundShard {
    fn default() -> Self {
        Self { errors: 0, attrs: BTreeMap::new(), size: u64::MAX, omap_digest: None, data_digest: None, selected_oi: false, primary: false }
    }
}

fn put_digest(e: &mut Encoder, digest: Option<u32>) {
    e.bool(digest.is_some());
    e.u32(digest.unwrap_or(0));
}
fn get_digest(d: &mut Decoder) -> Result<Option<u32>, DencError> {
    let (is_there, digest) = (d.bool()?, d.u32()?);
    Ok(is_there.then_some(digest))
}

impl Denc for FoundShard {
    fn encode(&self, e: &mut Encoder) {
        e.frame(3, 3, |e| {
            e.u64(self.errors);
            e.bool(self.primary);
            if self.errors & shard_error::MISSING == 0 {
                e.put(&self.attrs);
                e.u64(self.size);
                put_digest(e, self.omap_digest);
                put_digest(e, self.data_digest);
                e.bool(self.selected_oi);
            }
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("shard_info_t", 3, |d, _| {
            let mut shard = Self { errors: d.u64()?, primary: d.bool()?, ..Self::default() };
            if shard.errors & shard_error::MISSING == 0 {
                (shard.attrs, shard.size) = (d.get()?, d.u64()?);
                (shard.omap_digest, shard.data_digest, shard.selected_oi) = (get_digest(d)?, get_digest(d)?, d.bool()?);
            }
            Ok(shard)
        })
    }
}

/// `inconsistent_obj_t`: an object whose copies are not all the same, or not what its record says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InconsistentObj {
    /// [`object_error`]s.
    pub errors: u64,
    pub object: FoundObject,
    /// The user version of the copy that the others are held against.
    pub version: u64,
    pub shards: BTreeMap<PgShard, FoundShard>,
    /// All [`shard_error`]s of `shards`.
    pub union_errors: u64,
}
denc_struct!(InconsistentObj, v 2, compat 2, { errors, object, version, shards, union_errors });

/// `inconsistent_snapset_t`: a head whose clones are not those that it names, or a clone that no head names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InconsistentSnapset {
    /// [`snapset_error`]s.
    pub errors: u64,
    pub object: FoundObject,
    /// Clones that should not be there.
    pub clones: Vec<SnapId>,
    pub missing: Vec<SnapId>,
    /// The head's snapset as it is stored.
    pub snapset: Bytes,
}
denc_struct!(InconsistentSnapset, v 2, compat 1, { errors, object, clones, missing, snapset });

/// `scrub_ls_arg_t`: a page of what was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubLsArg {
    /// The interval that the page before was of; 0 for the first page.
    pub interval: Epoch,
    /// Not 0: what is wrong with snapsets; else with objects.
    pub get_snapsets: u32,
    pub name: ByteStr,
    pub nspace: ByteStr,
    pub snap: SnapId,
    pub max_return: u64,
}
denc_struct!(ScrubLsArg, v 1, compat 1, { interval, get_snapsets, name, nspace, snap, max_return });

/// `scrub_ls_result_t`: each value is an encoded [`InconsistentObj`] or [`InconsistentSnapset`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubLsResult {
    pub interval: Epoch,
    pub vals: Vec<Bytes>,
}
denc_struct!(ScrubLsResult, v 1, compat 1, { interval, vals });
