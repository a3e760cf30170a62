//! What the header's omap holds of snapshots and parents.

use crate::rest::{Rest, keeps, kept};
use denc::{Bytes, Decoder, Denc, DencError, Encoder, denc_struct, features};
use types::{CEPH_NOSNAP, SnapId, UTime};

/// `cls_rbd_parent`: the snapshot that an image was cloned from, and how much of it still shines through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    pub pool_id: i64,
    pub pool_namespace: String,
    pub image_id: String,
    pub snap_id: SnapId,
    /// Bytes of the parent under the image's head; None when only snapshots still have it.
    pub head_overlap: Option<u64>,
    pub rest: Rest,
}

impl Default for Parent {
    fn default() -> Self {
        Self {
            pool_id: -1,
            pool_namespace: String::new(),
            image_id: String::new(),
            snap_id: CEPH_NOSNAP,
            head_overlap: None,
            rest: Rest::default(),
        }
    }
}

impl Parent {
    pub fn exists(&self) -> bool {
        self.pool_id >= 0 && !self.image_id.is_empty() && self.snap_id != CEPH_NOSNAP
    }
    /// The same image and snapshot, whatever the overlap.
    pub fn same_image(&self, other: &Self) -> bool {
        (self.pool_id, &self.pool_namespace, &self.image_id, self.snap_id)
            == (other.pool_id, &other.pool_namespace, &other.image_id, other.snap_id)
    }
}

/// Version 2 has the namespace and an overlap that may be absent.
impl Denc for Parent {
    fn encode(&self, e: &mut Encoder) {
        let v = if e.has(features::SERVER_NAUTILUS) { 2 } else { 1 };
        let fields = |e: &mut Encoder| {
            e.i64(self.pool_id);
            if v >= 2 {
                self.pool_namespace.encode(e);
            }
            self.image_id.encode(e);
            e.u64(self.snap_id);
            if v >= 2 { self.head_overlap.encode(e) } else { e.u64(self.head_overlap.unwrap_or(0)) }
        };
        // An old reader is given what it knows.
        if v >= 2 { self.rest.frame(e, v, v, fields) } else { e.frame(v, v, fields) }
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Rest::read(d, "cls_rbd_parent", 2, |d, v| {
            Ok(Self {
                pool_id: d.i64()?,
                pool_namespace: if v >= 2 { d.string()? } else { String::new() },
                image_id: d.string()?,
                snap_id: d.u64()?,
                head_overlap: if v >= 2 { Denc::decode(d)? } else { Some(d.u64()?) },
                rest: Rest::default(),
            })
        })
        .map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(Parent, Parent::default());

/// `cls::rbd::ParentImageSpec`.
#[derive(Debug, Clone, Default)]
pub struct ParentSpec {
    pub pool_id: i64,
    pub pool_namespace: String,
    pub image_id: String,
    pub snap_id: SnapId,
    pub rest: Rest,
}
kept!(ParentSpec, v 1, compat 1, { pool_id, pool_namespace, image_id, snap_id });

/// Kinds of snapshots.
pub const NAMESPACE_USER: u32 = 0;
pub const NAMESPACE_TRASH: u32 = 2;
pub const NAMESPACE_MIRROR: u32 = 3;

/// `cls::rbd::SnapshotNamespace`: why a snapshot was made. What goes with the kind stays as it came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapNamespace {
    pub kind: u32,
    pub body: Bytes,
    pub rest: Rest,
}

impl Denc for SnapNamespace {
    fn encode(&self, e: &mut Encoder) {
        self.rest.frame(e, 1, 1, |e| {
            e.u32(self.kind);
            e.raw(&self.body);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let body = |d: &mut Decoder, _| Ok(Self { kind: d.u32()?, body: Bytes::copy_from_slice(&d.rest()), rest: Rest::default() });
        Rest::read(d, "cls::rbd::SnapshotNamespace", 1, body).map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(SnapNamespace, SnapNamespace { kind: 5, ..SnapNamespace::default() });

pub const UNPROTECTED: u8 = 0;
/// Protection states are below this.
pub const PROTECTION_END: u8 = 3;

/// `cls_rbd_snap`: a snapshot of an image. We read what any release wrote and write what Nautilus and later write (version 8), in which the
/// parent stands once in the header and only its overlap with each snapshot.
#[derive(Debug, Clone, Default)]
pub struct Snap {
    pub id: SnapId,
    pub name: String,
    pub image_size: u64,
    /// Only in records of releases before Nautilus.
    pub parent: Parent,
    pub protection: u8,
    pub flags: u64,
    pub namespace: SnapNamespace,
    pub timestamp: UTime,
    pub child_count: u32,
    pub parent_overlap: Option<u64>,
    pub rest: Rest,
}

impl Snap {
    /// True if a parent shines through this snapshot.
    pub fn has_parent(&self) -> bool {
        self.parent.pool_id != -1 || self.parent_overlap.is_some()
    }
}

impl Denc for Snap {
    fn encode(&self, e: &mut Encoder) {
        self.rest.frame(e, 8, 8, |e| {
            e.u64(self.id);
            self.name.encode(e);
            e.u64(self.image_size);
            e.u8(self.protection);
            e.u64(self.flags);
            self.namespace.encode(e);
            self.timestamp.encode(e);
            e.u32(self.child_count);
            self.parent_overlap.encode(e);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        // Which fields there are depends on the frame's compat, which a frame's body does not see.
        let (version, compat) = (d.u8()?, d.u8()?);
        if compat > 8 {
            return Err(DencError::Incompatible { what: "cls_rbd_snap", compat, known: 8 });
        }
        let old = compat < 8;
        d.sized(|d| {
            let (id, name, image_size) = (d.u64()?, d.string()?, d.u64()?);
            if old {
                d.skip(8)?;
            }
            let parent = if old && version >= 2 { Denc::decode(d)? } else { Parent::default() };
            Ok(Self {
                id,
                name,
                image_size,
                parent,
                protection: if version >= 3 { d.u8()? } else { UNPROTECTED },
                flags: if version >= 4 { d.u64()? } else { 0 },
                namespace: if version >= 5 { Denc::decode(d)? } else { SnapNamespace::default() },
                timestamp: if version >= 6 { Denc::decode(d)? } else { UTime::ZERO },
                child_count: if version >= 7 { d.u32()? } else { 0 },
                parent_overlap: if version >= 8 { Denc::decode(d)? } else { None },
                rest: Rest::of(d, version, compat, 8),
            })
        })
    }
}
keeps!(Snap, Snap::default());

/// `cls::rbd::SnapshotInfo`: what clients are told of a snapshot.
pub struct SnapInfo {
    pub id: SnapId,
    pub namespace: SnapNamespace,
    pub name: String,
    pub image_size: u64,
    pub timestamp: UTime,
    pub child_count: u32,
}
denc_struct!(SnapInfo, v 1, compat 1, { id, namespace, name, image_size, timestamp, child_count });

/// `cls::rbd::ChildImageSpec`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChildSpec {
    pub pool_id: i64,
    pub image_id: String,
    pub pool_namespace: String,
    pub rest: Rest,
}
kept!(ChildSpec, v 2, compat 1, { pool_id, image_id, [since 2] pool_namespace });

/// By pool, namespace, image: the order of `std::set<ChildImageSpec>`.
impl Ord for ChildSpec {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.pool_id, &self.pool_namespace, &self.image_id).cmp(&(other.pool_id, &other.pool_namespace, &other.image_id))
    }
}
impl PartialOrd for ChildSpec {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
