//! What an [`Incremental`] does to a map. The order of steps is part of the protocol: all must arrive at the same map.
//!
//! Source of the facts: Ceph 18.2 `OSDMap::apply_incremental`.

use crate::osd_map::ONE;
use crate::{CrushMap, Incremental, OsdInfo, OsdMap, OsdXInfo, Release, flags, map_flags, osd_state};
use denc::{Denc, DencError};
use std::sync::Arc;
use thiserror::Error;
use types::{EntityAddrVec, Epoch, OsdId, UTime, Uuid};

/// Why an Incremental does not fit a map. The map is as it was.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ApplyError {
    #[error("the change leads to epoch {change}, the map is at {map}")]
    Epoch { change: Epoch, map: Epoch },
    #[error("the change is of another cluster")]
    Fsid,
    #[error("the change names osd.{osd}, max_osd is {max_osd}")]
    Osd { osd: OsdId, max_osd: i32 },
    #[error("osd.{osd} comes up without heartbeat addresses")]
    NoHeartbeatAddress { osd: OsdId },
    #[error("max_osd {max_osd} is more than the change may ask for")]
    MaxOsd { max_osd: i32 },
    #[error("a map inside the change: {0}")]
    Decode(#[from] DencError),
    /// A map that we arrived at isn't the sender's.
    #[error("the map's crc is {ours:#x}, the sender's {theirs:#x}")]
    Crc { ours: u32, theirs: u32 },
}

/// How far one change may raise `max_osd`: a map's memory grows with it, and the wire has only the number.
pub const MAX_OSD_LIMIT: i32 = 1 << 20;

impl OsdMap {
    /// The map after `inc`.
    pub fn apply(&mut self, inc: &Incremental) -> Result<(), ApplyError> {
        if inc.epoch != self.epoch + 1 {
            return Err(ApplyError::Epoch { change: inc.epoch, map: self.epoch });
        }
        if inc.epoch != 1 && inc.fsid != self.fsid {
            return Err(ApplyError::Fsid);
        }
        if !inc.fullmap.is_empty() {
            *self = OsdMap::from_bytes(&inc.fullmap)?;
            return Ok(());
        }
        self.check_osds(inc)?;
        let crush = if inc.crush.is_empty() { None } else { Some(CrushMap::from_bytes(&inc.crush)?) };

        self.fsid = inc.fsid;
        self.epoch = inc.epoch;
        self.modified = inc.modified;
        if inc.new_flags >= 0 {
            self.flags = inc.new_flags as u32;
            let floor = match self.flags {
                f if f & map_flags::REQUIRE_KRAKEN != 0 => Release::KRAKEN,
                f if f & map_flags::REQUIRE_JEWEL != 0 => Release::JEWEL,
                _ => Release::UNKNOWN,
            };
            self.require_osd_release = self.require_osd_release.max(floor);
        }
        if inc.new_max_osd >= 0 {
            self.set_max_osd(inc.new_max_osd);
        }
        self.apply_pools(inc);
        self.apply_osds(inc);
        self.apply_placement(inc);
        self.apply_settings(inc);
        if let Some(crush) = crush {
            self.crush = Arc::new(crush);
            if self.require_osd_release >= Release::LUMINOUS {
                self.crush_version += 1;
            }
            let crush = &self.crush;
            self.device_class_flags.retain(|class, _| crush.class_name(*class).is_some());
        }
        if let Some(stretch) = inc.new_stretch {
            self.stretch = stretch;
        }
        match inc.mutate_allow_crimson {
            1 => self.allow_crimson = true,
            2 => self.allow_crimson = false,
            _ => {}
        }
        Ok(())
    }

    /// The map after `inc`, and its encoding: what an OSD keeps. The crc must be the sender's.
    pub fn apply_and_encode(&mut self, inc: &Incremental) -> Result<denc::Bytes, ApplyError> {
        self.apply(inc)?;
        let (bytes, crc) = self.encode_with(inc.encode_features);
        self.crc = crc;
        if inc.full_crc != 0 && crc != inc.full_crc {
            return Err(ApplyError::Crc { ours: crc, theirs: inc.full_crc });
        }
        Ok(bytes)
    }

    /// Every OSD that the change names is one that the map will have.
    fn check_osds(&self, inc: &Incremental) -> Result<(), ApplyError> {
        let max_osd = if inc.new_max_osd >= 0 { inc.new_max_osd } else { self.max_osd };
        if max_osd > MAX_OSD_LIMIT.max(self.max_osd) {
            return Err(ApplyError::MaxOsd { max_osd });
        }
        let osds = (inc.new_weight.keys())
            .chain(inc.new_primary_affinity.keys())
            .chain(inc.new_state.keys())
            .chain(inc.new_up_client.keys())
            .chain(inc.new_up_cluster.keys())
            .chain(inc.new_up_thru.keys())
            .chain(inc.new_last_clean_interval.keys())
            .chain(inc.new_lost.keys())
            .chain(inc.new_xinfo.keys())
            .chain(inc.new_uuid.keys());
        for osd in osds {
            if !(0..max_osd).contains(osd) {
                return Err(ApplyError::Osd { osd: *osd, max_osd });
            }
        }
        for osd in inc.new_up_client.keys() {
            if !inc.new_hb_back_up.contains_key(osd) || !inc.new_hb_front_up.contains_key(osd) {
                return Err(ApplyError::NoHeartbeatAddress { osd: *osd });
            }
        }
        Ok(())
    }

    fn apply_pools(&mut self, inc: &Incremental) {
        if inc.new_pool_max != -1 {
            self.pool_max = inc.new_pool_max as i32;
        }
        for (id, pool) in &inc.new_pools {
            let mut pool = pool.clone();
            pool.last_change = self.epoch;
            self.pools.insert(*id, pool);
        }
        self.new_removed_snaps = inc.new_removed_snaps.clone();
        self.new_purged_snaps = inc.new_purged_snaps.clone();
        for (pool, snaps) in &inc.new_removed_snaps {
            self.removed_snaps_queue.entry(*pool).or_default().union_with(snaps);
        }
        for (pool, snaps) in &inc.new_purged_snaps {
            if let Some(queue) = self.removed_snaps_queue.get_mut(pool) {
                queue.subtract(snaps);
                if queue.is_empty() {
                    self.removed_snaps_queue.remove(pool);
                }
            }
        }
        if inc.new_last_up_change != UTime::ZERO {
            self.last_up_change = inc.new_last_up_change;
        }
        if inc.new_last_in_change != UTime::ZERO {
            self.last_in_change = inc.new_last_in_change;
        }
        for (id, name) in &inc.new_pool_names {
            self.pool_names.insert(*id, name.clone());
        }
        for id in &inc.old_pools {
            self.pools.remove(id);
            self.pool_names.remove(id);
        }
    }

    fn apply_osds(&mut self, inc: &Incremental) {
        for (osd, weight) in &inc.new_weight {
            let i = *osd as usize;
            self.osd_weight[i] = *weight;
            // An OSD has a weight only if it exists.
            if *weight != 0 {
                self.osd_state[i] |= osd_state::EXISTS;
                self.osd_state[i] &= !(osd_state::AUTOOUT | osd_state::NEW);
                self.osd_xinfo[i].old_weight = 0;
            }
        }
        for (osd, affinity) in &inc.new_primary_affinity {
            self.set_primary_affinity(*osd, *affinity);
        }
        for name in &inc.old_erasure_code_profiles {
            self.erasure_code_profiles.remove(name);
        }
        for (name, profile) in &inc.new_erasure_code_profiles {
            self.erasure_code_profiles.insert(name.clone(), profile.clone());
        }
        for (osd, bits) in &inc.new_state {
            self.toggle_state(*osd, if *bits == 0 { osd_state::UP } else { *bits });
        }
        for (osd, addrs) in &inc.new_up_client {
            let i = *osd as usize;
            self.osd_state[i] |= osd_state::EXISTS | osd_state::UP;
            self.osd_state[i] &= !osd_state::STOP;
            self.client_addrs[i] = addrs.clone();
            self.hb_back_addrs[i] = inc.new_hb_back_up[osd].clone();
            self.hb_front_addrs[i] = inc.new_hb_front_up[osd].clone();
            self.osd_info[i].up_from = self.epoch;
        }
        for (osd, addrs) in &inc.new_up_cluster {
            self.cluster_addrs[*osd as usize] = addrs.clone();
        }
        for (osd, epoch) in &inc.new_up_thru {
            self.osd_info[*osd as usize].up_thru = *epoch;
        }
        for (osd, (begin, end)) in &inc.new_last_clean_interval {
            self.osd_info[*osd as usize].last_clean_begin = *begin;
            self.osd_info[*osd as usize].last_clean_end = *end;
        }
        for (osd, epoch) in &inc.new_lost {
            self.osd_info[*osd as usize].lost_at = *epoch;
        }
        for (osd, xinfo) in &inc.new_xinfo {
            self.osd_xinfo[*osd as usize] = *xinfo;
        }
        for (osd, uuid) in &inc.new_uuid {
            self.osd_uuid[*osd as usize] = *uuid;
        }
    }

    fn toggle_state(&mut self, osd: OsdId, bits: u32) {
        let i = osd as usize;
        let both = self.osd_state[i] & bits;
        if both & osd_state::UP != 0 {
            self.osd_info[i].down_at = self.epoch;
            self.osd_xinfo[i].down_stamp = self.modified;
        }
        if both & osd_state::EXISTS == 0 {
            self.osd_state[i] ^= bits;
            return;
        }
        // It exists no longer: nothing of it stays.
        self.osd_uuid[i] = Uuid::default();
        self.osd_info[i] = OsdInfo::default();
        self.osd_xinfo[i] = OsdXInfo::default();
        self.set_primary_affinity(osd, ONE);
        for addrs in [&mut self.client_addrs, &mut self.cluster_addrs, &mut self.hb_front_addrs, &mut self.hb_back_addrs] {
            addrs[i] = EntityAddrVec::default();
        }
        self.osd_state[i] = 0;
    }

    fn apply_placement(&mut self, inc: &Incremental) {
        for (pg, osds) in &inc.new_pg_temp {
            if osds.is_empty() {
                self.pg_temp.remove(pg);
            } else {
                self.pg_temp.insert(*pg, osds.clone());
            }
        }
        for (pg, osd) in &inc.new_primary_temp {
            if *osd == -1 {
                self.primary_temp.remove(pg);
            } else {
                self.primary_temp.insert(*pg, *osd);
            }
        }
        self.pg_upmap.extend(inc.new_pg_upmap.iter().map(|(pg, osds)| (*pg, osds.clone())));
        self.pg_upmap.retain(|pg, _| !inc.old_pg_upmap.contains(pg));
        self.pg_upmap_items.extend(inc.new_pg_upmap_items.iter().map(|(pg, items)| (*pg, items.clone())));
        self.pg_upmap_items.retain(|pg, _| !inc.old_pg_upmap_items.contains(pg));
        self.pg_upmap_primaries.extend(inc.new_pg_upmap_primary.iter().map(|(pg, osd)| (*pg, *osd)));
        self.pg_upmap_primaries.retain(|pg, _| !inc.old_pg_upmap_primary.contains(pg));
    }

    fn apply_settings(&mut self, inc: &Incremental) {
        // An entry that exists keeps its time: Ceph inserts, it does not overwrite.
        for (addr, until) in &inc.new_blocklist {
            self.blocklist.entry(*addr).or_insert(*until);
        }
        for addr in &inc.old_blocklist {
            self.blocklist.remove(addr);
        }
        for (addr, until) in &inc.new_range_blocklist {
            self.range_blocklist.entry(*addr).or_insert(*until);
        }
        for addr in &inc.old_range_blocklist {
            self.range_blocklist.remove(addr);
        }
        for (mine, changes) in
            [(&mut self.crush_node_flags, &inc.new_crush_node_flags), (&mut self.device_class_flags, &inc.new_device_class_flags)]
        {
            mine.extend(changes);
            mine.retain(|_, flags| *flags != 0);
        }
        self.cluster_snapshot = inc.cluster_snapshot.clone();
        self.cluster_snapshot_epoch = if inc.cluster_snapshot.is_empty() { 0 } else { inc.epoch };
        if inc.new_nearfull_ratio >= 0.0 {
            self.nearfull_ratio = inc.new_nearfull_ratio;
        }
        if inc.new_backfillfull_ratio >= 0.0 {
            self.backfillfull_ratio = inc.new_backfillfull_ratio;
        }
        if inc.new_full_ratio >= 0.0 {
            self.full_ratio = inc.new_full_ratio;
        }
        let changed = |r: Release| r != Release::UNCHANGED;
        if changed(inc.new_require_min_compat_client) && inc.new_require_min_compat_client != Release::UNKNOWN {
            self.require_min_compat_client = inc.new_require_min_compat_client;
        }
        if changed(inc.new_require_osd_release) {
            self.require_osd_release = inc.new_require_osd_release;
            if self.require_osd_release >= Release::LUMINOUS {
                self.flags &= !flags::LEGACY_REQUIRE;
                self.flags |= map_flags::RECOVERY_DELETES;
            }
            if self.require_osd_release >= Release::NAUTILUS {
                self.flags |= map_flags::PGLOG_HARDLIMIT;
            }
        }
    }
}
