//! The map of OSDs and pools, and the questions that are asked of it.

use crate::{CrushMap, OsdInfo, OsdXInfo, PgPool, Release, flags, map_flags, osd_state};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use types::interval_set::IntervalSet;
use types::{AddrType, EntityAddr, EntityAddrVec, Epoch, OsdId, PgId, PoolId, UTime, Uuid, features};

/// A weight or affinity of one: 16.16 fixed point.
pub const ONE: u32 = 0x1_0000;

/// A profile of erasure coding: keys and values.
pub type Profile = BTreeMap<String, String>;

/// `OSDMap`. The `osd_*` and `*_addrs` vectors have `max_osd` elements each, by OSD.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OsdMap {
    pub fsid: Uuid,
    pub epoch: Epoch,
    pub created: UTime,
    pub modified: UTime,
    pub pools: BTreeMap<PoolId, PgPool>,
    pub pool_names: BTreeMap<PoolId, String>,
    /// The highest number that a pool ever had.
    pub pool_max: i32,
    /// [`map_flags`].
    pub flags: u32,
    pub max_osd: i32,
    /// [`osd_state`].
    pub osd_state: Vec<u32>,
    /// Reweights: [`ONE`] is in, 0 is out.
    pub osd_weight: Vec<u32>,
    pub client_addrs: Vec<EntityAddrVec>,
    pub cluster_addrs: Vec<EntityAddrVec>,
    pub hb_back_addrs: Vec<EntityAddrVec>,
    pub hb_front_addrs: Vec<EntityAddrVec>,
    pub osd_info: Vec<OsdInfo>,
    pub osd_xinfo: Vec<OsdXInfo>,
    pub osd_uuid: Vec<Uuid>,
    /// Empty while every OSD has affinity [`ONE`].
    pub osd_primary_affinity: Vec<u32>,
    /// Acting sets that stand in for CRUSH's choice.
    pub pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    pub primary_temp: BTreeMap<PgId, OsdId>,
    pub crush: Arc<CrushMap>,
    pub erasure_code_profiles: BTreeMap<String, Profile>,
    /// Whole up sets that stand in for CRUSH's choice, before OSDs that are down are taken out.
    pub pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    /// Single replacements: (from, to).
    pub pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    pub pg_upmap_primaries: BTreeMap<PgId, OsdId>,
    pub crush_version: u32,
    /// Snapshots removed in this epoch, by pool.
    pub new_removed_snaps: BTreeMap<PoolId, IntervalSet>,
    /// Snapshots whose removal was done in this epoch.
    pub new_purged_snaps: BTreeMap<PoolId, IntervalSet>,
    /// Snapshots that OSDs still have to trim.
    pub removed_snaps_queue: BTreeMap<PoolId, IntervalSet>,
    pub last_up_change: UTime,
    pub last_in_change: UTime,
    /// Who may not come back before when. Entries have type `any`; port and nonce 0 stand for the whole host.
    pub blocklist: BTreeMap<EntityAddr, UTime>,
    /// Networks: type `cidr`, the prefix length as nonce.
    pub range_blocklist: BTreeMap<EntityAddr, UTime>,
    pub cluster_snapshot_epoch: Epoch,
    pub cluster_snapshot: String,
    pub nearfull_ratio: f32,
    pub full_ratio: f32,
    pub backfillfull_ratio: f32,
    pub require_min_compat_client: Release,
    pub require_osd_release: Release,
    /// Flags of [`osd_state`] (`noout` ...) by CRUSH node.
    pub crush_node_flags: BTreeMap<i32, u32>,
    /// ... and by device class.
    pub device_class_flags: BTreeMap<i32, u32>,
    pub stretch: StretchMode,
    pub allow_crimson: bool,
    /// The crc of the encoding that this was decoded from; 0 if it never was.
    pub crc: u32,
}

/// Of clusters that span sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StretchMode {
    pub enabled: bool,
    pub bucket_count: u32,
    /// 0, or how many sites are up.
    pub degraded: u32,
    pub recovering: u32,
    /// The CRUSH type of a site.
    pub bucket: i32,
}

impl OsdMap {
    pub fn pool(&self, id: PoolId) -> Option<&PgPool> {
        self.pools.get(&id)
    }
    pub fn pool_name(&self, id: PoolId) -> Option<&str> {
        self.pool_names.get(&id).map(String::as_str)
    }
    pub fn pool_by_name(&self, name: &str) -> Option<PoolId> {
        self.pool_names.iter().find(|(_, n)| *n == name).map(|(id, _)| *id)
    }
    pub fn has_flag(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub fn state(&self, osd: OsdId) -> u32 {
        self.osd_state.get(osd as usize).copied().unwrap_or(0)
    }
    #[inline]
    pub fn exists(&self, osd: OsdId) -> bool {
        self.state(osd) & osd_state::EXISTS != 0
    }
    #[inline]
    pub fn is_up(&self, osd: OsdId) -> bool {
        const BOTH: u32 = osd_state::EXISTS | osd_state::UP;
        self.state(osd) & BOTH == BOTH
    }
    pub fn is_down(&self, osd: OsdId) -> bool {
        !self.is_up(osd)
    }
    pub fn is_destroyed(&self, osd: OsdId) -> bool {
        self.exists(osd) && self.state(osd) & osd_state::DESTROYED != 0
    }
    pub fn weight(&self, osd: OsdId) -> u32 {
        self.osd_weight.get(osd as usize).copied().unwrap_or(0)
    }
    pub fn is_in(&self, osd: OsdId) -> bool {
        self.exists(osd) && self.weight(osd) != 0
    }
    pub fn is_out(&self, osd: OsdId) -> bool {
        !self.is_in(osd)
    }
    pub fn primary_affinity(&self, osd: OsdId) -> u32 {
        self.osd_primary_affinity.get(osd as usize).copied().unwrap_or(ONE)
    }
    pub fn set_primary_affinity(&mut self, osd: OsdId, affinity: u32) {
        if self.osd_primary_affinity.is_empty() {
            self.osd_primary_affinity = vec![ONE; self.osd_state.len()];
        }
        self.osd_primary_affinity[osd as usize] = affinity;
    }
    /// OSDs that exist, ascending.
    pub fn osds(&self) -> impl Iterator<Item = OsdId> + '_ {
        (0..self.max_osd).filter(|osd| self.exists(*osd))
    }
    pub fn num_osds(&self) -> usize {
        self.osds().count()
    }
    pub fn num_up(&self) -> usize {
        self.osds().filter(|osd| self.is_up(*osd)).count()
    }
    pub fn num_in(&self) -> usize {
        self.osds().filter(|osd| self.is_in(*osd)).count()
    }
    pub fn osd_by_uuid(&self, uuid: &Uuid) -> Option<OsdId> {
        self.osds().find(|osd| self.osd_uuid[*osd as usize] == *uuid)
    }
    /// Feature bits that all OSDs that are up have; all bits if none is.
    pub fn up_osd_features(&self) -> u64 {
        let known = self.osds().filter(|osd| self.is_up(*osd)).map(|osd| self.osd_xinfo[osd as usize].features);
        known.filter(|f| *f != 0).fold(u64::MAX, |all, f| all & f)
    }

    /// Grows or shrinks everything that has an element an OSD. New OSDs are out, don't exist and have no address.
    pub fn set_max_osd(&mut self, max: i32) {
        let n = max.max(0) as usize;
        self.max_osd = max.max(0);
        self.osd_state.resize(n, 0);
        self.osd_weight.resize(n, 0);
        self.osd_info.resize(n, OsdInfo::default());
        self.osd_xinfo.resize(n, OsdXInfo::default());
        self.osd_uuid.resize(n, Uuid::default());
        for addrs in [&mut self.client_addrs, &mut self.cluster_addrs, &mut self.hb_back_addrs, &mut self.hb_front_addrs] {
            addrs.resize(n, EntityAddrVec::default());
        }
        if !self.osd_primary_affinity.is_empty() {
            self.osd_primary_affinity.resize(n, ONE);
        }
    }

    /// True if the map bars this address: this instance, its whole host, or its network.
    pub fn is_blocklisted(&self, addr: &EntityAddr) -> bool {
        if self.blocklist.is_empty() && self.range_blocklist.is_empty() {
            return false;
        }
        let kind = if self.require_osd_release < Release::NAUTILUS { AddrType::LEGACY } else { AddrType::ANY };
        let instance = addr.with_kind(kind);
        let host = EntityAddr { port: 0, nonce: 0, ..instance };
        self.blocklist.contains_key(&instance)
            || self.blocklist.contains_key(&host)
            || addr.ip.is_some_and(|ip| self.range_blocklist.keys().any(|range| in_network(range, ip)))
    }
    /// The same for any of a daemon's addresses.
    pub fn is_any_blocklisted(&self, addrs: &EntityAddrVec) -> bool {
        addrs.0.iter().any(|addr| self.is_blocklisted(addr))
    }

    /// The feature bits that this map and its Incremental are encoded with, whatever reads them: what all OSDs of the required release
    /// agree on, so that all have the same crc.
    pub fn canonical_features(&self) -> u64 {
        let mut f = features::MAP_ENCODING | features::SERVER_TENTACLE;
        // Only the bit itself is taken away, not the markers that other bits share.
        let drops = [
            (Release::TENTACLE, features::SERVER_TENTACLE & !MARKERS),
            (Release::REEF, features::SERVER_REEF & !MARKERS),
            (Release::OCTOPUS, features::SERVER_OCTOPUS & !MARKERS),
            (Release::NAUTILUS, features::SERVER_NAUTILUS & !MARKERS),
            (Release::MIMIC, features::SERVER_MIMIC & !INCARNATION_2),
            (Release::LUMINOUS, features::SERVER_LUMINOUS & !MARKERS),
            (Release::KRAKEN, features::SERVER_KRAKEN & !MARKERS | features::MSG_ADDR2),
            (Release::JEWEL, features::SERVER_JEWEL | features::NEW_OSDOP_ENCODING | features::CRUSH_TUNABLES5),
        ];
        for (release, bits) in drops {
            if self.require_osd_release < release {
                f &= !bits;
            }
        }
        f
    }
    /// The feature bits to encode with for a peer: what it has of the canonical ones.
    pub fn features_for_peer(&self, peer: u64) -> u64 {
        peer & self.canonical_features()
    }
    /// Flags as `ceph` prints them, without those that every cluster has had for years.
    pub fn flags_text(&self) -> String {
        map_flags::text(self.flags & !flags::SEMIHIDDEN)
    }
}

const INCARNATION_2: u64 = 1 << 57;
const MARKERS: u64 = 1 << 57 | 1 << 28;

/// True if `ip` is in `range`, whose nonce is the prefix length.
fn in_network(range: &EntityAddr, ip: IpAddr) -> bool {
    fn same<const N: usize>(a: [u8; N], b: [u8; N], prefix: u32) -> bool {
        (0..N).all(|i| {
            let bits = prefix.saturating_sub(8 * i as u32).min(8);
            let mask = !(0xff_u16 >> bits) as u8;
            a[i] & mask == b[i] & mask
        })
    }
    match (range.ip, ip) {
        (Some(IpAddr::V4(net)), IpAddr::V4(ip)) => same(net.octets(), ip.octets(), range.nonce),
        (Some(IpAddr::V6(net)), IpAddr::V6(ip)) => same(net.octets(), ip.octets(), range.nonce),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(s: &str) -> EntityAddr {
        EntityAddr::parse(s, AddrType::ANY).unwrap()
    }

    #[test]
    fn a_blocklist_bars_instances_hosts_and_networks() {
        let mut map = OsdMap { require_osd_release: Release::REEF, ..OsdMap::default() };
        map.blocklist.insert(addr("any:10.0.0.1:6800/5"), UTime::ZERO);
        map.blocklist.insert(addr("any:10.0.0.2:0/0"), UTime::ZERO);
        map.range_blocklist.insert(EntityAddr { kind: AddrType::CIDR, nonce: 20, ..addr("10.1.16.0:0/0") }, UTime::ZERO);
        assert!(map.is_blocklisted(&addr("v2:10.0.0.1:6800/5")));
        assert!(!map.is_blocklisted(&addr("v2:10.0.0.1:6800/6")));
        assert!(map.is_blocklisted(&addr("v1:10.0.0.2:1234/99")));
        assert!(map.is_blocklisted(&addr("v2:10.1.31.255:0/1")));
        assert!(!map.is_blocklisted(&addr("v2:10.1.32.0:0/1")));
    }

    #[test]
    fn canonical_features_follow_the_required_release() {
        let reef = OsdMap { require_osd_release: Release::REEF, ..OsdMap::default() }.canonical_features();
        let pacific = OsdMap { require_osd_release: Release::PACIFIC, ..OsdMap::default() }.canonical_features();
        assert_eq!(reef, features::MAP_ENCODING);
        assert_eq!(reef & !pacific, 1 << 31);
    }
}
