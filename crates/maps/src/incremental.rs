//! The change from one epoch of the [`crate::OsdMap`] to the next.

use crate::osd_map::{Profile, StretchMode};
use crate::{OsdXInfo, PgPool, Release};
use denc::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use types::interval_set::IntervalSet;
use types::{EntityAddr, EntityAddrVec, Epoch, OsdId, PgId, PoolId, UTime, Uuid};

/// `OSDMap::Incremental`.
#[derive(Debug, Clone, PartialEq)]
pub struct Incremental {
    /// The feature bits that this was encoded with, and that the full map is to be encoded with. Set on decoding; an encoding states the
    /// encoder's.
    pub encode_features: u64,
    pub fsid: Uuid,
    /// The epoch that this leads to.
    pub epoch: Epoch,
    pub modified: UTime,
    /// -1: as it was.
    pub new_pool_max: i64,
    /// -1: as they were.
    pub new_flags: i32,
    /// A whole encoded map, in place of all that follows; empty nearly always.
    pub fullmap: Bytes,
    /// A whole encoded CRUSH map; empty: as it was.
    pub crush: Bytes,
    /// -1: as it was.
    pub new_max_osd: i32,
    pub new_pools: BTreeMap<PoolId, PgPool>,
    pub new_pool_names: BTreeMap<PoolId, String>,
    pub old_pools: BTreeSet<PoolId>,
    /// Public addresses of OSDs that come up.
    pub new_up_client: BTreeMap<OsdId, EntityAddrVec>,
    /// Bits that change ([`crate::osd_state`]); 0 stands for `UP`.
    pub new_state: BTreeMap<OsdId, u32>,
    pub new_weight: BTreeMap<OsdId, u32>,
    /// Empty: removed.
    pub new_pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// -1: removed.
    pub new_primary_temp: BTreeMap<PgId, OsdId>,
    pub new_primary_affinity: BTreeMap<OsdId, u32>,
    pub new_erasure_code_profiles: BTreeMap<String, Profile>,
    pub old_erasure_code_profiles: Vec<String>,
    pub new_pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    pub old_pg_upmap: BTreeSet<PgId>,
    pub new_pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    pub old_pg_upmap_items: BTreeSet<PgId>,
    pub new_removed_snaps: BTreeMap<PoolId, IntervalSet>,
    pub new_purged_snaps: BTreeMap<PoolId, IntervalSet>,
    /// Zero: as it was.
    pub new_last_up_change: UTime,
    pub new_last_in_change: UTime,
    pub new_pg_upmap_primary: BTreeMap<PgId, OsdId>,
    pub old_pg_upmap_primary: BTreeSet<PgId>,

    pub new_hb_back_up: BTreeMap<OsdId, EntityAddrVec>,
    pub new_up_thru: BTreeMap<OsdId, Epoch>,
    /// First epoch and one past the last.
    pub new_last_clean_interval: BTreeMap<OsdId, (Epoch, Epoch)>,
    pub new_lost: BTreeMap<OsdId, Epoch>,
    pub new_blocklist: BTreeMap<EntityAddr, UTime>,
    pub old_blocklist: Vec<EntityAddr>,
    pub new_up_cluster: BTreeMap<OsdId, EntityAddrVec>,
    pub cluster_snapshot: String,
    pub new_uuid: BTreeMap<OsdId, Uuid>,
    pub new_xinfo: BTreeMap<OsdId, OsdXInfo>,
    pub new_hb_front_up: BTreeMap<OsdId, EntityAddrVec>,
    /// Below 0: as it was; so the next two.
    pub new_nearfull_ratio: f32,
    pub new_full_ratio: f32,
    pub new_backfillfull_ratio: f32,
    /// [`Release::UNCHANGED`]: as it was; so the next one.
    pub new_require_min_compat_client: Release,
    pub new_require_osd_release: Release,
    /// 0: removed.
    pub new_crush_node_flags: BTreeMap<i32, u32>,
    pub new_device_class_flags: BTreeMap<i32, u32>,
    /// What stretch mode becomes, if it changes.
    pub new_stretch: Option<StretchMode>,
    pub new_range_blocklist: BTreeMap<EntityAddr, UTime>,
    pub old_range_blocklist: Vec<EntityAddr>,
    /// 0: as it was, 1: allowed, 2: no longer.
    pub mutate_allow_crimson: u8,

    /// The crc of the full map that results; goes on the wire as it stands here, so set it before encoding.
    pub full_crc: u32,
    /// The crc of this encoding. Set on decoding.
    pub inc_crc: u32,
}

impl Incremental {
    /// A change that changes nothing but the epoch.
    pub fn new(fsid: Uuid, epoch: Epoch, modified: UTime) -> Self {
        Self { fsid, epoch, modified, ..Self::default() }
    }
    /// The pool as this change leaves it, to be changed further; starts as a copy of `from`.
    pub fn pool_mut(&mut self, id: PoolId, from: &PgPool) -> &mut PgPool {
        self.new_pools.entry(id).or_insert_with(|| from.clone())
    }
}

impl Default for Incremental {
    fn default() -> Self {
        Self {
            encode_features: 0,
            fsid: Uuid::default(),
            epoch: 0,
            modified: UTime::ZERO,
            new_pool_max: -1,
            new_flags: -1,
            fullmap: Bytes::new(),
            crush: Bytes::new(),
            new_max_osd: -1,
            new_pools: BTreeMap::new(),
            new_pool_names: BTreeMap::new(),
            old_pools: BTreeSet::new(),
            new_up_client: BTreeMap::new(),
            new_state: BTreeMap::new(),
            new_weight: BTreeMap::new(),
            new_pg_temp: BTreeMap::new(),
            new_primary_temp: BTreeMap::new(),
            new_primary_affinity: BTreeMap::new(),
            new_erasure_code_profiles: BTreeMap::new(),
            old_erasure_code_profiles: Vec::new(),
            new_pg_upmap: BTreeMap::new(),
            old_pg_upmap: BTreeSet::new(),
            new_pg_upmap_items: BTreeMap::new(),
            old_pg_upmap_items: BTreeSet::new(),
            new_removed_snaps: BTreeMap::new(),
            new_purged_snaps: BTreeMap::new(),
            new_last_up_change: UTime::ZERO,
            new_last_in_change: UTime::ZERO,
            new_pg_upmap_primary: BTreeMap::new(),
            old_pg_upmap_primary: BTreeSet::new(),
            new_hb_back_up: BTreeMap::new(),
            new_up_thru: BTreeMap::new(),
            new_last_clean_interval: BTreeMap::new(),
            new_lost: BTreeMap::new(),
            new_blocklist: BTreeMap::new(),
            old_blocklist: Vec::new(),
            new_up_cluster: BTreeMap::new(),
            cluster_snapshot: String::new(),
            new_uuid: BTreeMap::new(),
            new_xinfo: BTreeMap::new(),
            new_hb_front_up: BTreeMap::new(),
            new_nearfull_ratio: -1.0,
            new_full_ratio: -1.0,
            new_backfillfull_ratio: -1.0,
            new_require_min_compat_client: Release::UNCHANGED,
            new_require_osd_release: Release::UNCHANGED,
            new_crush_node_flags: BTreeMap::new(),
            new_device_class_flags: BTreeMap::new(),
            new_stretch: None,
            new_range_blocklist: BTreeMap::new(),
            old_range_blocklist: Vec::new(),
            mutate_allow_crimson: 0,
            full_crc: 0,
            inc_crc: 0,
        }
    }
}
