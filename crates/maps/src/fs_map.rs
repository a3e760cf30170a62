//! The map of file systems, as far as a cluster without any has one: what `ceph fs dump` and clients that ask get.
//!
//! Source of the encoding: Ceph 18.2 `src/mds/FSMap.cc` (version 7, compat 6), `src/include/CompatSet.h`, `src/mds/MDSMap.cc`.

use denc::{Decoder, Denc, DencError, Encoder};
use std::collections::BTreeMap;
use types::Epoch;

/// Features by number, with their names.
pub type FeatureSet = BTreeMap<u64, String>;

/// `CompatSet`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompatSet {
    pub compat: FeatureSet,
    pub ro_compat: FeatureSet,
    pub incompat: FeatureSet,
}
impl CompatSet {
    /// What a new file system gets.
    pub fn mds_default() -> Self {
        let incompat = [
            (1, "base v0.20"),
            (2, "client writeable ranges"),
            (3, "default file layouts on dirs"),
            (4, "dir inode in separate object"),
            (5, "mds uses versioned encoding"),
            (6, "dirfrag is stored in omap"),
            (8, "no anchor table"),
            (9, "file layout v2"),
            (10, "snaprealm v2"),
        ];
        Self { incompat: incompat.into_iter().map(|(n, name)| (n, name.into())).collect(), ..Self::default() }
    }
}
impl Denc for CompatSet {
    fn encode(&self, e: &mut Encoder) {
        for set in [&self.compat, &self.ro_compat, &self.incompat] {
            // A mask of the numbers (bit 0 is none), then the names.
            e.u64(set.keys().fold(0, |mask, n| mask | 1_u64.checked_shl(*n as u32).unwrap_or(0)));
            e.put(set);
        }
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let mut set = || -> Result<FeatureSet, DencError> {
            d.skip(8)?;
            d.get()
        };
        Ok(Self { compat: set()?, ro_compat: set()?, incompat: set()? })
    }
}

/// `FSMap` without file systems and metadata servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsMap {
    pub epoch: Epoch,
    pub next_filesystem_id: u64,
    /// The file system that old clients mount; -1: none.
    pub legacy_client_fscid: i32,
    pub default_compat: CompatSet,
    pub enable_multiple: bool,
    pub ever_enabled_multiple: bool,
}
impl Default for FsMap {
    fn default() -> Self {
        Self {
            epoch: 1,
            next_filesystem_id: 1,
            legacy_client_fscid: -1,
            default_compat: CompatSet::mds_default(),
            enable_multiple: true,
            ever_enabled_multiple: true,
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
            // File systems, roles of metadata servers, standbys and the epochs that those were last seen in: none of each.
            for _ in 0..4 {
                e.count(0);
            }
            e.bool(self.ever_enabled_multiple);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("FSMap", 7, |d, v| {
            let mut m = Self { epoch: d.u32()?, next_filesystem_id: d.u64()?, legacy_client_fscid: d.i32()?, ..Self::default() };
            m.default_compat = d.get()?;
            m.enable_multiple = d.bool()?;
            for _ in 0..4 {
                if d.u32()? != 0 {
                    return Err(d.invalid("an FSMap with file systems or metadata servers can't be read yet"));
                }
            }
            m.ever_enabled_multiple = if v >= 7 { d.bool()? } else { m.enable_multiple };
            Ok(m)
        })
    }
}
