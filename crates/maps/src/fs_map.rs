//! The map of file systems: each with its [`MdsMap`], which daemon serves which, and which stand by.
//!
//! Holds the encodings. What moves daemons between ranks is in [`crate::fs_roles`].
//! Source of the facts: Ceph 18.2 `src/mds/FSMap.{h,cc}` (version 7, compat 6), `src/mds/FSMapUser.cc`.

use crate::mds_map::{FsId, MdsGid, MdsInfo, MdsMap, NO_FS};
use denc::{Decoder, Denc, DencError, Encoder, denc_struct};
use std::collections::{BTreeMap, BTreeSet};
use types::{CompatSet, Epoch};

/// `ClusterInfo`: the file system that one is copied to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct MirrorTarget {
    pub client_name: String,
    pub cluster_name: String,
    pub fs_name: String,
}
denc_struct!(MirrorTarget, v 1, compat 1, { client_name, cluster_name, fs_name });

/// `Peer`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct MirrorPeer {
    pub uuid: String,
    pub remote: MirrorTarget,
}
denc_struct!(MirrorPeer, v 1, compat 1, { uuid, remote });

/// `MirrorInfo`: what cephfs-mirror is to do with a file system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MirrorInfo {
    pub mirrored: bool,
    /// By their ids.
    pub peers: BTreeSet<MirrorPeer>,
}
denc_struct!(MirrorInfo, v 1, compat 1, { mirrored, peers });

/// `Filesystem`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filesystem {
    pub fscid: FsId,
    pub mds: MdsMap,
    pub mirror: MirrorInfo,
}
impl Denc for Filesystem {
    fn encode(&self, e: &mut Encoder) {
        e.frame(2, 1, |e| {
            e.i32(self.fscid);
            e.sized(|e| e.put(&self.mds));
            e.put(&self.mirror);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("Filesystem", 2, |d, v| {
            let (fscid, mds) = (d.i32()?, MdsMap::from_bytes(&d.blob()?)?);
            Ok(Self { fscid, mds, mirror: if v >= 2 { d.get()? } else { MirrorInfo::default() } })
        })
    }
}

/// `FSMap`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsMap {
    pub epoch: Epoch,
    pub next_filesystem_id: u64,
    /// The file system that clients get that don't name one.
    pub legacy_client_fscid: FsId,
    /// What new file systems get.
    pub default_compat: CompatSet,
    pub enable_multiple: bool,
    pub ever_enabled_multiple: bool,
    pub filesystems: BTreeMap<FsId, Filesystem>,
    /// Which file system each daemon serves; [`NO_FS`] for standbys.
    pub roles: BTreeMap<MdsGid, FsId>,
    pub standbys: BTreeMap<MdsGid, MdsInfo>,
    /// The epoch in which each standby changed last.
    pub standby_epochs: BTreeMap<MdsGid, Epoch>,
}
impl Default for FsMap {
    fn default() -> Self {
        Self {
            epoch: 1,
            next_filesystem_id: 1,
            legacy_client_fscid: NO_FS,
            default_compat: CompatSet::mds_default(),
            enable_multiple: true,
            ever_enabled_multiple: true,
            filesystems: BTreeMap::new(),
            roles: BTreeMap::new(),
            standbys: BTreeMap::new(),
            standby_epochs: BTreeMap::new(),
        }
    }
}
impl Denc for FsMap {
    fn encode(&self, e: &mut Encoder) {
        e.frame(7, 6, |e| {
            e.u32(self.epoch);
            e.u64(self.next_filesystem_id);
            e.i32(self.legacy_client_fscid);
            e.put(&self.default_compat);
            e.bool(self.enable_multiple);
            e.list(self.filesystems.values());
            e.put(&self.roles);
            e.put(&self.standbys);
            e.put(&self.standby_epochs);
            e.bool(self.ever_enabled_multiple);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("FSMap", 7, |d, v| {
            let mut m = Self { epoch: d.u32()?, next_filesystem_id: d.u64()?, legacy_client_fscid: d.i32()?, ..Self::default() };
            (m.default_compat, m.enable_multiple) = (d.get()?, d.bool()?);
            let filesystems: Vec<Filesystem> = d.get()?;
            m.filesystems = filesystems.into_iter().map(|fs| (fs.fscid, fs)).collect();
            (m.roles, m.standbys, m.standby_epochs) = (d.get()?, d.get()?, d.get()?);
            m.ever_enabled_multiple = if v >= 7 { d.bool()? } else { m.enable_multiple };
            Ok(m)
        })
    }
}

/// `FSMapUser`: what clients need to find a file system by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FsMapUser {
    pub epoch: Epoch,
    pub legacy_client_fscid: FsId,
    pub filesystems: Vec<FsName>,
}
denc_struct!(FsMapUser, v 1, compat 1, { epoch, legacy_client_fscid, filesystems });

/// A file system's number and name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FsName {
    pub fscid: FsId,
    pub name: String,
}
denc_struct!(FsName, v 1, compat 1, { fscid, name });

impl From<&FsMap> for FsMapUser {
    fn from(m: &FsMap) -> Self {
        let filesystems = m.filesystems.values().map(|fs| FsName { fscid: fs.fscid, name: fs.mds.fs_name.clone() }).collect();
        Self { epoch: m.epoch, legacy_client_fscid: m.legacy_client_fscid, filesystems }
    }
}
