//! What list operations answer: objects of a placement group, watchers of an object, its snapshots.
//!
//! Source of the facts: Ceph 18.2 `src/osd/osd_types.h` (`pg_nls_response_t`, `watch_item_t`, `obj_list_watch_response_t`, `clone_info`,
//! `obj_list_snap_response_t`).

use crate::{ByteStr, CEPH_NOSNAP, EntityAddr, EntityName, HObject, SnapId};
use denc::{Decoder, Denc, DencError, Encoder, denc_struct};

/// `librados::ListObjectImpl`: one object as a listing names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ListObject {
    pub nspace: ByteStr,
    pub oid: ByteStr,
    /// The locator key; empty unless it differs from the name.
    pub locator: ByteStr,
}
denc_struct!(ListObject, bare, { nspace, oid, locator });

/// `pg_nls_response_t`: a page of a placement group's objects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NlsResponse {
    /// Where the next page starts; the maximum if there is none.
    pub handle: HObject,
    pub entries: Vec<ListObject>,
}
denc_struct!(NlsResponse, v 1, compat 1, { handle, entries });

/// `watch_item_t`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatchItem {
    pub name: EntityName,
    pub cookie: u64,
    /// Seconds.
    pub timeout_s: u32,
    pub addr: EntityAddr,
}
denc_struct!(WatchItem, v 2, compat 1, { name, cookie, timeout_s, [since 2] addr });

/// `obj_list_watch_response_t`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListWatchers {
    pub entries: Vec<WatchItem>,
}
denc_struct!(ListWatchers, v 1, compat 1, { entries });

/// `clone_info`: the head has [`CEPH_NOSNAP`] for a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneInfo {
    pub cloneid: SnapId,
    /// Ascending.
    pub snaps: Vec<SnapId>,
    /// Ranges shared with the next newer clone or the head: offset, length.
    pub overlap: Vec<(u64, u64)>,
    /// Bytes.
    pub size: u64,
}
denc_struct!(CloneInfo, v 1, compat 1, { cloneid, snaps, overlap, size });

impl Default for CloneInfo {
    fn default() -> Self {
        Self { cloneid: CEPH_NOSNAP, snaps: Vec::new(), overlap: Vec::new(), size: 0 }
    }
}

/// `obj_list_snap_response_t`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListSnaps {
    /// Ascending.
    pub clones: Vec<CloneInfo>,
    pub seq: SnapId,
}

impl Denc for ListSnaps {
    fn encode(&self, e: &mut Encoder) {
        e.frame(2, 1, |e| {
            self.clones.encode(e);
            e.u64(self.seq);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("obj_list_snap_response_t", 2, |d, v| Ok(Self { clones: d.get()?, seq: if v >= 2 { d.u64()? } else { CEPH_NOSNAP } }))
    }
}
