//! The encodings of [`OsdMap`] and [`Incremental`]: a frame around a part that clients read and a part for OSDs, and a crc over all.
//!
//! Source of the facts: Ceph 18.2 `src/osd/OSDMap.cc`. Versions depend on the features of the reader; forms older than Jewel's are refused.

use crate::Release;
use crate::osd_map::StretchMode;
use crate::{Incremental, OsdMap, flags, map_flags};
use base::crc32c;
use denc::{Bytes, Decoder, Denc, DencError, Encoder};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{EntityAddrVec, OsdId, features};

/// The outer frame's version and compat, of both.
const WRAPPER: (u8, u8) = (8, 7);

/// Fills the crc at `at` of the frame that starts at `start`: over all its bytes but the crc's own.
fn fill_crc(e: &mut Encoder, start: usize, at: usize) -> u32 {
    let bytes = e.as_slice();
    let crc = crc32c(crc32c(u32::MAX, &bytes[start..at]), &bytes[at + 4..]);
    e.patch_u32(at, crc);
    crc
}

/// Reads a wrapper frame; `body` also says where the crc stands in it and what it is. Checks the crc.
fn checked<T>(
    d: &mut Decoder,
    what: &'static str,
    body: impl FnOnce(&mut Decoder) -> Result<(T, usize, u32), DencError>,
) -> Result<T, DencError> {
    let mut whole = d.clone();
    let start = d.position();
    if d.peek_u8()? < WRAPPER.0 {
        return Err(DencError::TooOld { what, version: d.peek_u8()?, oldest: WRAPPER.0 });
    }
    let (value, crc_at, crc) = d.frame(what, WRAPPER.0, |d, _| body(d))?;
    let bytes = whole.raw(d.position() - start)?;
    let at = crc_at - start;
    if crc32c(crc32c(u32::MAX, &bytes[..at]), &bytes[at + 4..]) != crc {
        return Err(DencError::Invalid { at: crc_at, what: "the crc of a map is another one" });
    }
    Ok(value)
}

fn legacy_addrs<'a>(e: &mut Encoder, addrs: impl ExactSizeIterator<Item = (Option<OsdId>, &'a EntityAddrVec)>) {
    e.count(addrs.len());
    for (osd, addrs) in addrs {
        if let Some(osd) = osd {
            e.i32(osd);
        }
        e.put(&addrs.legacy_or_front());
    }
}
/// Address vectors by OSD, or for readers before Nautilus one address each.
fn put_addrs(e: &mut Encoder, vectors: bool, addrs: &[EntityAddrVec]) {
    if vectors { e.list(addrs.iter()) } else { legacy_addrs(e, addrs.iter().map(|a| (None, a))) }
}
fn put_addr_map(e: &mut Encoder, vectors: bool, addrs: &BTreeMap<OsdId, EntityAddrVec>) {
    if vectors { e.put(addrs) } else { legacy_addrs(e, addrs.iter().map(|(osd, a)| (Some(*osd), a))) }
}

impl OsdMap {
    /// The encoding that all daemons agree on, and its crc.
    pub fn encode_canonical(&self) -> (Bytes, u32) {
        self.encode_with(self.canonical_features())
    }
    /// The encoding for `features`, and its crc.
    pub fn encode_with(&self, features: u64) -> (Bytes, u32) {
        let mut e = Encoder::with_capacity(features, 4096);
        let crc = self.write(&mut e);
        (e.finish(), crc)
    }

    fn write(&self, e: &mut Encoder) -> u32 {
        let start = e.len();
        let mut crc_at = 0;
        e.frame(WRAPPER.0, WRAPPER.1, |e| {
            self.write_client(e);
            self.write_osd(e);
            crc_at = e.len();
            e.u32(0);
        });
        fill_crc(e, start, crc_at)
    }

    fn write_client(&self, e: &mut Encoder) {
        let v = if !e.has(features::SERVER_LUMINOUS) {
            3
        } else if !e.has(features::SERVER_MIMIC) {
            6
        } else if !e.has(features::SERVER_NAUTILUS) {
            7
        } else if !e.has(features::SERVER_REEF) {
            9
        } else {
            10
        };
        e.frame(v, 1, |e| {
            e.put(&self.fsid);
            e.u32(self.epoch);
            e.put(&self.created);
            e.put(&self.modified);
            e.put(&self.pools);
            e.put(&self.pool_names);
            e.i32(self.pool_max);
            e.u32(if v < 4 { self.legacy_flags() } else { self.flags });
            e.i32(self.max_osd);
            if v >= 5 {
                e.put(&self.osd_state);
            } else {
                e.count(self.osd_state.len());
                for state in &self.osd_state {
                    e.u8(*state as u8);
                }
            }
            e.put(&self.osd_weight);
            put_addrs(e, v >= 8, &self.client_addrs);
            e.put(&self.pg_temp);
            e.put(&self.primary_temp);
            e.put(&self.osd_primary_affinity);
            e.sized(|e| self.crush.encode(e));
            e.put(&self.erasure_code_profiles);
            if v >= 4 {
                e.put(&self.pg_upmap);
                e.put(&self.pg_upmap_items);
            }
            if v >= 6 {
                e.u32(self.crush_version);
            }
            if v >= 7 {
                e.put(&self.new_removed_snaps);
                e.put(&self.new_purged_snaps);
            }
            if v >= 9 {
                e.put(&self.last_up_change);
                e.put(&self.last_in_change);
            }
            if v >= 10 {
                e.put(&self.pg_upmap_primaries);
            }
        });
    }

    fn legacy_flags(&self) -> u32 {
        let more = match self.require_osd_release {
            r if r >= Release::LUMINOUS => map_flags::REQUIRE_LUMINOUS | map_flags::RECOVERY_DELETES,
            Release::KRAKEN => map_flags::REQUIRE_KRAKEN,
            Release::JEWEL => map_flags::REQUIRE_JEWEL,
            _ => 0,
        };
        self.flags | more
    }

    fn write_osd(&self, e: &mut Encoder) {
        let mut v = if !e.has(features::SERVER_LUMINOUS) {
            1
        } else if !e.has(features::SERVER_MIMIC) {
            5
        } else if !e.has(features::SERVER_NAUTILUS) {
            6
        } else {
            9
        };
        if self.stretch.enabled {
            v = v.max(10);
        }
        if !self.range_blocklist.is_empty() {
            v = v.max(11);
        }
        if self.allow_crimson {
            v = v.max(12);
        }
        e.frame(v, 1, |e| {
            put_addrs(e, v >= 7, &self.hb_back_addrs);
            e.put(&self.osd_info);
            e.put(&self.blocklist);
            put_addrs(e, v >= 7, &self.cluster_addrs);
            e.u32(self.cluster_snapshot_epoch);
            e.put(&self.cluster_snapshot);
            e.put(&self.osd_uuid);
            e.put(&self.osd_xinfo);
            put_addrs(e, v >= 7, &self.hb_front_addrs);
            if v >= 2 {
                e.put(&self.nearfull_ratio);
                e.put(&self.full_ratio);
                e.put(&self.backfillfull_ratio);
            }
            if v >= 5 {
                e.put(&self.require_min_compat_client);
                e.put(&self.require_osd_release);
            }
            if v >= 6 {
                e.put(&self.removed_snaps_queue);
            }
            if v >= 8 {
                e.put(&self.crush_node_flags);
            }
            if v >= 9 {
                e.put(&self.device_class_flags);
            }
            if v >= 10 {
                e.bool(self.stretch.enabled);
                e.u32(self.stretch.bucket_count);
                e.u32(self.stretch.degraded);
                e.u32(self.stretch.recovering);
                e.i32(self.stretch.bucket);
            }
            if v >= 11 {
                e.put(&self.range_blocklist);
            }
            if v >= 12 {
                e.bool(self.allow_crimson);
            }
        });
    }

    fn read_client(&mut self, d: &mut Decoder, v: u8) -> Result<(), DencError> {
        if v < 3 {
            return Err(DencError::TooOld { what: "OSDMap's client part", version: v, oldest: 3 });
        }
        self.fsid = d.get()?;
        self.epoch = d.u32()?;
        self.created = d.get()?;
        self.modified = d.get()?;
        self.pools = d.get()?;
        self.pool_names = d.get()?;
        self.pool_max = d.i32()?;
        self.flags = d.u32()?;
        self.max_osd = d.i32()?;
        self.osd_state = if v >= 5 { d.get()? } else { d.get::<Vec<u8>>()?.into_iter().map(u32::from).collect() };
        self.osd_weight = d.get()?;
        self.client_addrs = d.get()?;
        self.pg_temp = d.get()?;
        self.primary_temp = d.get()?;
        self.osd_primary_affinity = d.get()?;
        self.crush = Arc::new(d.sized(|d| d.get())?);
        self.erasure_code_profiles = d.get()?;
        if v >= 4 {
            self.pg_upmap = d.get()?;
            self.pg_upmap_items = d.get()?;
        }
        self.crush_version = if v >= 6 { d.u32()? } else { 1 };
        if v >= 7 {
            self.new_removed_snaps = d.get()?;
            self.new_purged_snaps = d.get()?;
        }
        if v >= 9 {
            self.last_up_change = d.get()?;
            self.last_in_change = d.get()?;
        }
        if v >= 10 {
            self.pg_upmap_primaries = d.get()?;
        }
        Ok(())
    }

    fn read_osd(&mut self, d: &mut Decoder, v: u8) -> Result<(), DencError> {
        self.hb_back_addrs = d.get()?;
        self.osd_info = d.get()?;
        self.blocklist = d.get()?;
        self.cluster_addrs = d.get()?;
        self.cluster_snapshot_epoch = d.u32()?;
        self.cluster_snapshot = d.string()?;
        self.osd_uuid = d.get()?;
        self.osd_xinfo = d.get()?;
        self.hb_front_addrs = d.get()?;
        if v >= 2 {
            self.nearfull_ratio = d.f32()?;
            self.full_ratio = d.f32()?;
        }
        if v >= 3 {
            self.backfillfull_ratio = d.f32()?;
        }
        if v == 4 {
            self.require_min_compat_client = Release::parse(&d.string()?).unwrap_or_default();
        }
        if v >= 5 {
            self.require_min_compat_client = d.get()?;
            self.require_osd_release = d.get()?;
            if self.require_osd_release >= Release::NAUTILUS {
                self.flags |= map_flags::PGLOG_HARDLIMIT;
            }
        } else {
            self.require_osd_release = match self.flags {
                f if f & map_flags::REQUIRE_LUMINOUS != 0 => Release::LUMINOUS,
                f if f & map_flags::REQUIRE_KRAKEN != 0 => Release::KRAKEN,
                f if f & map_flags::REQUIRE_JEWEL != 0 => Release::JEWEL,
                _ => Release::UNKNOWN,
            };
        }
        if self.require_osd_release >= Release::LUMINOUS {
            self.flags &= !flags::LEGACY_REQUIRE;
            self.flags |= map_flags::RECOVERY_DELETES;
        }
        if v >= 6 {
            self.removed_snaps_queue = d.get()?;
        }
        if v >= 8 {
            self.crush_node_flags = d.get()?;
        }
        if v >= 9 {
            self.device_class_flags = d.get()?;
        }
        if v >= 10 {
            self.stretch =
                StretchMode { enabled: d.bool()?, bucket_count: d.u32()?, degraded: d.u32()?, recovering: d.u32()?, bucket: d.i32()? };
        }
        if v >= 11 {
            self.range_blocklist = d.get()?;
        }
        if v >= 12 {
            self.allow_crimson = d.bool()?;
        }
        Ok(())
    }

    /// Everything by OSD is as long as `max_osd` says: later code indexes with an OSD that exists.
    fn check_lengths(&self, d: &Decoder) -> Result<(), DencError> {
        let n = self.max_osd.max(0) as usize;
        let lengths = [
            self.osd_state.len(),
            self.osd_weight.len(),
            self.client_addrs.len(),
            self.cluster_addrs.len(),
            self.hb_back_addrs.len(),
            self.hb_front_addrs.len(),
            self.osd_info.len(),
            self.osd_xinfo.len(),
            self.osd_uuid.len(),
        ];
        let affinity = self.osd_primary_affinity.len();
        if self.max_osd < 0 || lengths.iter().any(|len| *len != n) || (affinity != 0 && affinity != n) {
            return Err(d.invalid("a map has other than max_osd elements an OSD"));
        }
        Ok(())
    }
}

impl Denc for OsdMap {
    fn encode(&self, e: &mut Encoder) {
        self.write(e);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        checked(d, "OSDMap", |d| {
            let mut map = OsdMap::default();
            d.frame("OSDMap's client part", 10, |d, v| map.read_client(d, v))?;
            d.frame("OSDMap's OSD part", 12, |d, v| map.read_osd(d, v))?;
            map.check_lengths(d)?;
            let at = d.position();
            map.crc = d.u32()?;
            let crc = map.crc;
            Ok((map, at, crc))
        })
    }
}

impl Incremental {
    /// The encoding for `features`, and its crc. [`Incremental::full_crc`] must have been set.
    pub fn encode_with(&self, features: u64) -> (Bytes, u32) {
        let mut e = Encoder::with_capacity(features, 512);
        let crc = self.write(&mut e);
        (e.finish(), crc)
    }

    /// The encoding for a peer that has not all the features that this change was made with: what it has of them, also for the maps inside.
    pub fn encode_for_peer(&self, peer: u64) -> Result<Bytes, DencError> {
        let features = peer & self.encode_features;
        let mut inc = self.clone();
        if !inc.fullmap.is_empty() {
            inc.fullmap = OsdMap::from_bytes(&inc.fullmap)?.encode_with(features).0;
        }
        if !inc.crush.is_empty() {
            inc.crush = crate::CrushMap::from_bytes(&inc.crush)?.to_bytes(features);
        }
        Ok(inc.encode_with(features).0)
    }

    fn write(&self, e: &mut Encoder) -> u32 {
        let start = e.len();
        let mut crc_at = 0;
        e.frame(WRAPPER.0, WRAPPER.1, |e| {
            self.write_client(e);
            self.write_osd(e);
            crc_at = e.len();
            e.u32(0);
            e.u32(self.full_crc);
        });
        fill_crc(e, start, crc_at)
    }

    fn write_client(&self, e: &mut Encoder) {
        let v = if !e.has(features::SERVER_LUMINOUS) {
            3
        } else if !e.has(features::SERVER_MIMIC) {
            5
        } else if !e.has(features::SERVER_NAUTILUS) {
            6
        } else if !e.has(features::SERVER_REEF) {
            8
        } else {
            9
        };
        e.frame(v, 1, |e| {
            e.put(&self.fsid);
            e.u32(self.epoch);
            e.put(&self.modified);
            e.i64(self.new_pool_max);
            e.i32(self.new_flags);
            e.put(&self.fullmap);
            e.put(&self.crush);
            e.i32(self.new_max_osd);
            e.put(&self.new_pools);
            e.put(&self.new_pool_names);
            e.put(&self.old_pools);
            put_addr_map(e, v >= 7, &self.new_up_client);
            if v >= 5 {
                e.put(&self.new_state);
            } else {
                // A byte each; what has only bits above it would read as "toggle up" and is left out.
                let narrow = || self.new_state.iter().filter(|(_, s)| **s == 0 || **s as u8 != 0);
                e.count(narrow().count());
                for (osd, state) in narrow() {
                    e.i32(*osd);
                    e.u8(*state as u8);
                }
            }
            e.put(&self.new_weight);
            e.put(&self.new_pg_temp);
            e.put(&self.new_primary_temp);
            e.put(&self.new_primary_affinity);
            e.put(&self.new_erasure_code_profiles);
            e.put(&self.old_erasure_code_profiles);
            if v >= 4 {
                e.put(&self.new_pg_upmap);
                e.put(&self.old_pg_upmap);
                e.put(&self.new_pg_upmap_items);
                e.put(&self.old_pg_upmap_items);
            }
            if v >= 6 {
                e.put(&self.new_removed_snaps);
                e.put(&self.new_purged_snaps);
            }
            if v >= 8 {
                e.put(&self.new_last_up_change);
                e.put(&self.new_last_in_change);
            }
            if v >= 9 {
                e.put(&self.new_pg_upmap_primary);
                e.put(&self.old_pg_upmap_primary);
            }
        });
    }

    fn write_osd(&self, e: &mut Encoder) {
        let mut v = if !e.has(features::SERVER_LUMINOUS) {
            2
        } else if !e.has(features::SERVER_NAUTILUS) {
            6
        } else {
            9
        };
        if self.new_stretch.is_some() {
            v = v.max(10);
        }
        if !self.new_range_blocklist.is_empty() || !self.old_range_blocklist.is_empty() {
            v = v.max(11);
        }
        if self.mutate_allow_crimson != 0 {
            v = v.max(12);
        }
        e.frame(v, 1, |e| {
            put_addr_map(e, v >= 7, &self.new_hb_back_up);
            e.put(&self.new_up_thru);
            e.put(&self.new_last_clean_interval);
            e.put(&self.new_lost);
            e.put(&self.new_blocklist);
            e.put(&self.old_blocklist);
            put_addr_map(e, v >= 7, &self.new_up_cluster);
            e.put(&self.cluster_snapshot);
            e.put(&self.new_uuid);
            e.put(&self.new_xinfo);
            put_addr_map(e, v >= 7, &self.new_hb_front_up);
            e.u64(e.features());
            if v >= 3 {
                e.put(&self.new_nearfull_ratio);
                e.put(&self.new_full_ratio);
                e.put(&self.new_backfillfull_ratio);
            }
            if v >= 6 {
                e.put(&self.new_require_min_compat_client);
                e.put(&self.new_require_osd_release);
            }
            if v >= 8 {
                e.put(&self.new_crush_node_flags);
            }
            if v >= 9 {
                e.put(&self.new_device_class_flags);
            }
            if v >= 10 {
                let s = self.new_stretch.unwrap_or_default();
                e.bool(self.new_stretch.is_some());
                e.u32(s.bucket_count);
                e.u32(s.degraded);
                e.u32(s.recovering);
                e.i32(s.bucket);
                e.bool(s.enabled);
            }
            if v >= 11 {
                e.put(&self.new_range_blocklist);
                e.put(&self.old_range_blocklist);
            }
            if v >= 12 {
                e.u8(self.mutate_allow_crimson);
            }
        });
    }

    fn read_client(&mut self, d: &mut Decoder, v: u8) -> Result<(), DencError> {
        if v < 3 {
            return Err(DencError::TooOld { what: "Incremental's client part", version: v, oldest: 3 });
        }
        self.fsid = d.get()?;
        self.epoch = d.u32()?;
        self.modified = d.get()?;
        self.new_pool_max = d.i64()?;
        self.new_flags = d.i32()?;
        self.fullmap = d.blob()?;
        self.crush = d.blob()?;
        self.new_max_osd = d.i32()?;
        self.new_pools = d.get()?;
        self.new_pool_names = d.get()?;
        self.old_pools = d.get()?;
        self.new_up_client = d.get()?;
        self.new_state =
            if v >= 5 { d.get()? } else { d.get::<BTreeMap<OsdId, u8>>()?.into_iter().map(|(osd, state)| (osd, state.into())).collect() };
        self.new_weight = d.get()?;
        self.new_pg_temp = d.get()?;
        self.new_primary_temp = d.get()?;
        self.new_primary_affinity = d.get()?;
        self.new_erasure_code_profiles = d.get()?;
        self.old_erasure_code_profiles = d.get()?;
        if v >= 4 {
            self.new_pg_upmap = d.get()?;
            self.old_pg_upmap = d.get()?;
            self.new_pg_upmap_items = d.get()?;
            self.old_pg_upmap_items = d.get()?;
        }
        if v >= 6 {
            self.new_removed_snaps = d.get()?;
            self.new_purged_snaps = d.get()?;
        }
        if v >= 8 {
            self.new_last_up_change = d.get()?;
            self.new_last_in_change = d.get()?;
        }
        if v >= 9 {
            self.new_pg_upmap_primary = d.get()?;
            self.old_pg_upmap_primary = d.get()?;
        }
        Ok(())
    }

    fn read_osd(&mut self, d: &mut Decoder, v: u8) -> Result<(), DencError> {
        if v < 2 {
            return Err(DencError::TooOld { what: "Incremental's OSD part", version: v, oldest: 2 });
        }
        self.new_hb_back_up = d.get()?;
        self.new_up_thru = d.get()?;
        self.new_last_clean_interval = d.get()?;
        self.new_lost = d.get()?;
        self.new_blocklist = d.get()?;
        self.old_blocklist = d.get()?;
        self.new_up_cluster = d.get()?;
        self.cluster_snapshot = d.string()?;
        self.new_uuid = d.get()?;
        self.new_xinfo = d.get()?;
        self.new_hb_front_up = d.get()?;
        self.encode_features = d.u64()?;
        if v >= 3 {
            self.new_nearfull_ratio = d.f32()?;
            self.new_full_ratio = d.f32()?;
        }
        if v >= 4 {
            self.new_backfillfull_ratio = d.f32()?;
        }
        if v == 5 {
            self.new_require_min_compat_client = Release::parse(&d.string()?).unwrap_or(Release::UNCHANGED);
        }
        if v >= 6 {
            self.new_require_min_compat_client = d.get()?;
            self.new_require_osd_release = d.get()?;
        } else if self.new_flags >= 0 {
            let f = self.new_flags as u32;
            self.new_require_osd_release = if f & map_flags::REQUIRE_LUMINOUS != 0 {
                self.new_flags &= !(flags::LEGACY_REQUIRE as i32);
                Release::LUMINOUS
            } else if f & map_flags::REQUIRE_KRAKEN != 0 {
                Release::KRAKEN
            } else if f & map_flags::REQUIRE_JEWEL != 0 {
                Release::JEWEL
            } else {
                Release::UNKNOWN
            };
        }
        if v >= 8 {
            self.new_crush_node_flags = d.get()?;
        }
        if v >= 9 {
            self.new_device_class_flags = d.get()?;
        }
        if v >= 10 {
            let change = d.bool()?;
            let (bucket_count, degraded, recovering, bucket) = (d.u32()?, d.u32()?, d.u32()?, d.i32()?);
            let mode = StretchMode { enabled: d.bool()?, bucket_count, degraded, recovering, bucket };
            self.new_stretch = change.then_some(mode);
        }
        if v >= 11 {
            self.new_range_blocklist = d.get()?;
            self.old_range_blocklist = d.get()?;
        }
        if v >= 12 {
            self.mutate_allow_crimson = d.u8()?;
        }
        Ok(())
    }
}

impl Denc for Incremental {
    fn encode(&self, e: &mut Encoder) {
        self.write(e);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        checked(d, "OSDMap::Incremental", |d| {
            let mut inc = Incremental::default();
            d.frame("Incremental's client part", 9, |d, v| inc.read_client(d, v))?;
            d.frame("Incremental's OSD part", 12, |d, v| inc.read_osd(d, v))?;
            let at = d.position();
            inc.inc_crc = d.u32()?;
            inc.full_crc = d.u32()?;
            let crc = inc.inc_crc;
            Ok((inc, at, crc))
        })
    }
}
