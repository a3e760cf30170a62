//! `osd_stat_t` and `store_statfs_t`: what an OSD tells the manager of itself and its store.
//!
//! Source of the facts: Ceph 18.2 `src/osd/osd_types.cc` (`osd_stat_t` v14).

use crate::features;
use crate::{Epoch, OsdId};
use denc::{Decoder, Denc, DencError, Encoder, denc_struct};
use std::collections::BTreeMap;

/// `store_statfs_t`: bytes, all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreStatfs {
    pub total: u64,
    pub available: u64,
    pub internally_reserved: u64,
    pub allocated: i64,
    pub data_stored: i64,
    pub data_compressed: i64,
    pub data_compressed_allocated: i64,
    pub data_compressed_original: i64,
    pub omap_allocated: i64,
    pub internal_metadata: i64,
}
denc_struct!(StoreStatfs, v 1, compat 1, {
    total, available, internally_reserved, allocated, data_stored, data_compressed, data_compressed_allocated, data_compressed_original,
    omap_allocated, internal_metadata
});

impl StoreStatfs {
    /// Used by what is stored, without what the store keeps for itself.
    pub fn used(&self) -> u64 {
        self.total.saturating_sub(self.available).saturating_sub(self.internally_reserved)
    }
    pub fn used_raw(&self) -> u64 {
        self.total.saturating_sub(self.available)
    }
    pub fn add(&mut self, o: &StoreStatfs) {
        self.total = self.total.wrapping_add(o.total);
        self.available = self.available.wrapping_add(o.available);
        self.internally_reserved = self.internally_reserved.wrapping_add(o.internally_reserved);
        self.allocated = self.allocated.wrapping_add(o.allocated);
        self.data_stored = self.data_stored.wrapping_add(o.data_stored);
        self.data_compressed = self.data_compressed.wrapping_add(o.data_compressed);
        self.data_compressed_allocated = self.data_compressed_allocated.wrapping_add(o.data_compressed_allocated);
        self.data_compressed_original = self.data_compressed_original.wrapping_add(o.data_compressed_original);
        self.omap_allocated = self.omap_allocated.wrapping_add(o.omap_allocated);
        self.internal_metadata = self.internal_metadata.wrapping_add(o.internal_metadata);
    }
}

/// `objectstore_perf_stat_t`. Milliseconds for peers without `OS_PERF_STAT_NS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorePerfStat {
    pub commit_latency_ns: u64,
    pub apply_latency_ns: u64,
}

impl Denc for StorePerfStat {
    fn encode(&self, e: &mut Encoder) {
        if e.has(features::OS_PERF_STAT_NS) {
            e.frame(2, 2, |e| {
                e.u64(self.commit_latency_ns);
                e.u64(self.apply_latency_ns);
            });
        } else {
            e.frame(1, 1, |e| {
                e.u32((self.commit_latency_ns / 1_000_000) as u32);
                e.u32((self.apply_latency_ns / 1_000_000) as u32);
            });
        }
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("objectstore_perf_stat_t", 2, |d, v| {
            if v >= 2 {
                return Ok(Self { commit_latency_ns: d.u64()?, apply_latency_ns: d.u64()? });
            }
            let ms = 1_000_000;
            Ok(Self { commit_latency_ns: u64::from(d.u32()?) * ms, apply_latency_ns: u64::from(d.u32()?) * ms })
        })
    }
}

/// `pow2_hist_t`: bin n counts values of n bits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pow2Hist {
    pub bins: Vec<i32>,
}
denc_struct!(Pow2Hist, v 1, compat 1, { bins });

/// Ping times to a peer over one network, microseconds: averages, minima and maxima over 1, 5 and 15 minutes, and the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PingTimes {
    pub avg_us: [u32; 3],
    pub min_us: [u32; 3],
    pub max_us: [u32; 3],
    pub last_us: u32,
}

impl Denc for PingTimes {
    fn encode(&self, e: &mut Encoder) {
        for us in [self.avg_us, self.min_us, self.max_us].as_flattened() {
            e.u32(*us);
        }
        e.u32(self.last_us);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let mut three = || Ok([d.u32()?, d.u32()?, d.u32()?]);
        Ok(Self { avg_us: three()?, min_us: three()?, max_us: three()?, last_us: d.u32()? })
    }
}

/// `osd_stat_t::Interfaces`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PeerPings {
    /// Seconds since 1970.
    pub last_update_s: u32,
    pub back: PingTimes,
    pub front: PingTimes,
}
denc_struct!(PeerPings, bare, { last_update_s, back, front });

/// `osd_stat_t`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OsdStat {
    pub statfs: StoreStatfs,
    pub snap_trim_queue_len: i32,
    pub num_snap_trimming: i32,
    pub hb_peers: Vec<OsdId>,
    pub op_queue_age_hist: Pow2Hist,
    pub os_perf_stat: StorePerfStat,
    pub up_from: Epoch,
    pub seq: u64,
    pub num_pgs: u32,
    pub os_alerts: BTreeMap<OsdId, BTreeMap<String, String>>,
    pub num_shards_repaired: u64,
    /// 1 in an OSD's own report; adds up in sums.
    pub num_osds: u32,
    pub num_per_pool_osds: u32,
    pub num_per_pool_omap_osds: u32,
    pub hb_pingtime: BTreeMap<OsdId, PeerPings>,
}

impl Denc for OsdStat {
    fn encode(&self, e: &mut Encoder) {
        e.frame(14, 2, |e| {
            let fs = &self.statfs;
            // In KiB for readers of old.
            e.u64(fs.total >> 10);
            e.u64(fs.used_raw() >> 10);
            e.u64(fs.available >> 10);
            e.i32(self.snap_trim_queue_len);
            e.i32(self.num_snap_trimming);
            self.hb_peers.encode(e);
            e.u32(0);
            self.op_queue_age_hist.encode(e);
            self.os_perf_stat.encode(e);
            e.u32(self.up_from);
            e.u64(self.seq);
            e.u32(self.num_pgs);
            e.i64(fs.allocated >> 10);
            e.i64(fs.omap_allocated >> 10);
            e.i64(fs.internal_metadata >> 10);
            fs.encode(e);
            self.os_alerts.encode(e);
            e.u64(self.num_shards_repaired);
            e.u32(self.num_osds);
            e.u32(self.num_per_pool_osds);
            e.u32(self.num_per_pool_omap_osds);
            self.hb_pingtime.encode(e);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("osd_stat_t", 14, |d, v| {
            if v < 9 {
                return Err(DencError::TooOld { what: "osd_stat_t", version: v, oldest: 9 });
            }
            let mut s = Self::default();
            d.skip(3 * 8)?;
            (s.snap_trim_queue_len, s.num_snap_trimming, s.hb_peers) = (d.i32()?, d.i32()?, d.get()?);
            d.ignore::<Vec<i32>>()?;
            (s.op_queue_age_hist, s.os_perf_stat) = (d.get()?, d.get()?);
            (s.up_from, s.seq, s.num_pgs) = (d.u32()?, d.u64()?, d.u32()?);
            d.skip(3 * 8)?;
            s.statfs = d.get()?;
            if v >= 10 {
                s.os_alerts = d.get()?;
            }
            if v >= 11 {
                s.num_shards_repaired = d.u64()?;
            }
            if v >= 12 {
                (s.num_osds, s.num_per_pool_osds) = (d.u32()?, d.u32()?);
            }
            if v >= 13 {
                s.num_per_pool_omap_osds = d.u32()?;
            }
            if v >= 14 {
                s.hb_pingtime = d.get()?;
            }
            Ok(s)
        })
    }
}
