//! `pg_stat_t` and `pool_stat_t`: what a primary tells the manager of its placement group, and what that sums up to.
//!
//! Source of the facts: Ceph 18.2 `src/osd/osd_types.cc` (`pg_stat_t` v29, `pool_stat_t` v7), `src/osd/osd_types.h` (`PG_STATE_*`).

use crate::object_stat::ObjectStatCollection;
use crate::osd_stat::StoreStatfs;
use crate::{EVersion, Epoch, IntervalSet, OsdId, PgId, PgShard, UTime};
use denc::{Decoder, Denc, DencError, Encoder};
use std::collections::{BTreeMap, BTreeSet};

/// Bits of [`PgStat::state`], and how they are printed.
pub mod pg_state {
    macro_rules! states {
        ($($name:ident = $bit:literal, $text:literal;)*) => {
            $( pub const $name: u64 = 1 << $bit; )*
            /// Name and bit.
            pub const TABLE: &[(&str, u64)] = &[ $( ($text, $name), )* ];
        };
    }
    states! {
        CREATING = 0, "creating";
        ACTIVE = 1, "active";
        CLEAN = 2, "clean";
        DOWN = 4, "down";
        RECOVERY_UNFOUND = 5, "recovery_unfound";
        BACKFILL_UNFOUND = 6, "backfill_unfound";
        PREMERGE = 7, "premerge";
        SCRUBBING = 8, "scrubbing";
        DEGRADED = 10, "degraded";
        INCONSISTENT = 11, "inconsistent";
        PEERING = 12, "peering";
        REPAIR = 13, "repair";
        RECOVERING = 14, "recovering";
        BACKFILL_WAIT = 15, "backfill_wait";
        INCOMPLETE = 16, "incomplete";
        STALE = 17, "stale";
        REMAPPED = 18, "remapped";
        DEEP_SCRUB = 19, "deep";
        BACKFILLING = 20, "backfilling";
        BACKFILL_TOOFULL = 21, "backfill_toofull";
        RECOVERY_WAIT = 22, "recovery_wait";
        UNDERSIZED = 23, "undersized";
        ACTIVATING = 24, "activating";
        PEERED = 25, "peered";
        SNAPTRIM = 26, "snaptrim";
        SNAPTRIM_WAIT = 27, "snaptrim_wait";
        RECOVERY_TOOFULL = 28, "recovery_toofull";
        SNAPTRIM_ERROR = 29, "snaptrim_error";
        FORCED_RECOVERY = 30, "forced_recovery";
        FORCED_BACKFILL = 31, "forced_backfill";
        FAILED_REPAIR = 32, "failed_repair";
        LAGGY = 33, "laggy";
        WAIT = 34, "wait";
    }

    /// The order in which names are printed, from `pg_state_string`.
    const PRINTED: &[u64] = &[
        STALE,
        CREATING,
        ACTIVE,
        ACTIVATING,
        CLEAN,
        RECOVERY_WAIT,
        RECOVERY_TOOFULL,
        RECOVERING,
        FORCED_RECOVERY,
        DOWN,
        RECOVERY_UNFOUND,
        BACKFILL_UNFOUND,
        UNDERSIZED,
        DEGRADED,
        REMAPPED,
        PREMERGE,
        SCRUBBING,
        DEEP_SCRUB,
        INCONSISTENT,
        PEERING,
        REPAIR,
        BACKFILL_WAIT,
        BACKFILLING,
        FORCED_BACKFILL,
        BACKFILL_TOOFULL,
        INCOMPLETE,
        PEERED,
        SNAPTRIM,
        SNAPTRIM_WAIT,
        SNAPTRIM_ERROR,
        FAILED_REPAIR,
        LAGGY,
        WAIT,
    ];

    /// `active+clean`; `unknown` for none.
    pub fn to_text(state: u64) -> String {
        let name = |bit: u64| TABLE.iter().find(|(_, b)| *b == bit).map_or("", |(name, _)| *name);
        let names: Vec<_> = PRINTED.iter().filter(|bit| state & **bit != 0).map(|bit| name(*bit)).collect();
        if names.is_empty() { "unknown".into() } else { names.join("+") }
    }
    /// A single name's bit.
    pub fn parse(name: &str) -> Option<u64> {
        match name {
            "unknown" => Some(0),
            "deep" | "deep_scrub" => Some(DEEP_SCRUB),
            _ => TABLE.iter().find(|(n, _)| *n == name).map(|(_, bit)| *bit),
        }
    }
}

/// `pg_scrubbing_status_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubStatus {
    pub scheduled_at: UTime,
    pub duration_s: i32,
    /// `pg_scrub_sched_status_t`: 0 unknown, 1 not queued, 2 active, 3 scheduled, 4 queued, 5 blocked.
    pub sched_status: u16,
    pub is_active: bool,
    pub is_deep: bool,
    pub is_periodic: bool,
}
impl Default for ScrubStatus {
    fn default() -> Self {
        Self { scheduled_at: UTime::ZERO, duration_s: 0, sched_status: 0, is_active: false, is_deep: false, is_periodic: true }
    }
}
impl Denc for ScrubStatus {
    fn encode(&self, e: &mut Encoder) {
        self.scheduled_at.encode(e);
        e.i32(self.duration_s);
        e.u16(self.sched_status);
        e.bool(self.is_active);
        e.bool(self.is_deep);
        e.bool(self.is_periodic);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Ok(Self {
            scheduled_at: d.get()?,
            duration_s: d.i32()?,
            sched_status: d.u16()?,
            is_active: d.bool()?,
            is_deep: d.bool()?,
            is_periodic: d.bool()?,
        })
    }
}

/// `pg_stat_t`.
#[derive(Debug, Clone, PartialEq)]
pub struct PgStat {
    pub version: EVersion,
    /// Counts reports of one epoch.
    pub reported_seq: u64,
    pub reported_epoch: Epoch,
    /// [`pg_state`] bits.
    pub state: u64,
    pub log_start: EVersion,
    pub ondisk_log_start: EVersion,
    pub created: Epoch,
    pub last_epoch_clean: Epoch,
    pub parent: PgId,
    pub parent_split_bits: u32,
    pub last_scrub: EVersion,
    pub last_scrub_stamp: UTime,
    pub last_deep_scrub: EVersion,
    pub last_deep_scrub_stamp: UTime,
    pub last_clean_scrub_stamp: UTime,
    pub last_scrub_duration_s: i32,
    pub stats: ObjectStatCollection,
    /// Entries.
    pub log_size: i64,
    pub log_dups_size: i64,
    pub ondisk_log_size: i64,
    pub up: Vec<OsdId>,
    pub acting: Vec<OsdId>,
    pub up_primary: OsdId,
    pub acting_primary: OsdId,
    pub last_fresh: UTime,
    pub last_change: UTime,
    pub last_active: UTime,
    pub last_peered: UTime,
    pub last_clean: UTime,
    pub last_unstale: UTime,
    pub last_undegraded: UTime,
    pub last_fullsized: UTime,
    pub last_became_active: UTime,
    pub last_became_peered: UTime,
    pub mapping_epoch: Epoch,
    pub stats_invalid: bool,
    pub dirty_stats_invalid: bool,
    pub omap_stats_invalid: bool,
    pub hitset_stats_invalid: bool,
    pub hitset_bytes_stats_invalid: bool,
    pub pin_stats_invalid: bool,
    pub manifest_stats_invalid: bool,
    /// OSDs that hold up peering.
    pub blocked_by: Vec<OsdId>,
    pub snaptrimq_len: u32,
    pub purged_snaps: IntervalSet,
    pub avail_no_missing: Vec<PgShard>,
    pub object_location_counts: BTreeMap<BTreeSet<PgShard>, i32>,
    pub scrub_sched_status: ScrubStatus,
    pub objects_scrubbed: i64,
    pub scrub_duration_s: f64,
    pub objects_trimmed: i64,
    pub snaptrim_duration_s: f64,
}

impl Default for PgStat {
    fn default() -> Self {
        Self {
            version: EVersion::ZERO,
            reported_seq: 0,
            reported_epoch: 0,
            state: 0,
            log_start: EVersion::ZERO,
            ondisk_log_start: EVersion::ZERO,
            created: 0,
            last_epoch_clean: 0,
            parent: PgId::default(),
            parent_split_bits: 0,
            last_scrub: EVersion::ZERO,
            last_scrub_stamp: UTime::ZERO,
            last_deep_scrub: EVersion::ZERO,
            last_deep_scrub_stamp: UTime::ZERO,
            last_clean_scrub_stamp: UTime::ZERO,
            last_scrub_duration_s: 0,
            stats: ObjectStatCollection::default(),
            log_size: 0,
            log_dups_size: 0,
            ondisk_log_size: 0,
            up: Vec::new(),
            acting: Vec::new(),
            up_primary: -1,
            acting_primary: -1,
            last_fresh: UTime::ZERO,
            last_change: UTime::ZERO,
            last_active: UTime::ZERO,
            last_peered: UTime::ZERO,
            last_clean: UTime::ZERO,
            last_unstale: UTime::ZERO,
            last_undegraded: UTime::ZERO,
            last_fullsized: UTime::ZERO,
            last_became_active: UTime::ZERO,
            last_became_peered: UTime::ZERO,
            mapping_epoch: 0,
            stats_invalid: false,
            dirty_stats_invalid: false,
            omap_stats_invalid: false,
            hitset_stats_invalid: false,
            hitset_bytes_stats_invalid: false,
            pin_stats_invalid: false,
            manifest_stats_invalid: false,
            blocked_by: Vec::new(),
            snaptrimq_len: 0,
            purged_snaps: IntervalSet::new(),
            avail_no_missing: Vec::new(),
            object_location_counts: BTreeMap::new(),
            scrub_sched_status: ScrubStatus::default(),
            objects_scrubbed: 0,
            scrub_duration_s: 0.0,
            objects_trimmed: 0,
            snaptrim_duration_s: 0.0,
        }
    }
}

impl Denc for PgStat {
    fn encode(&self, e: &mut Encoder) {
        e.frame(29, 22, |e| {
            self.version.encode(e);
            e.u64(self.reported_seq);
            e.u32(self.reported_epoch);
            e.u32(self.state as u32); // the upper half comes further down
            self.log_start.encode(e);
            self.ondisk_log_start.encode(e);
            e.u32(self.created);
            e.u32(self.last_epoch_clean);
            self.parent.encode(e);
            e.u32(self.parent_split_bits);
            self.last_scrub.encode(e);
            self.last_scrub_stamp.encode(e);
            self.stats.encode(e);
            e.i64(self.log_size);
            e.i64(self.ondisk_log_size);
            self.up.encode(e);
            self.acting.encode(e);
            for stamp in [self.last_fresh, self.last_change, self.last_active, self.last_clean, self.last_unstale] {
                stamp.encode(e);
            }
            e.u32(self.mapping_epoch);
            self.last_deep_scrub.encode(e);
            self.last_deep_scrub_stamp.encode(e);
            e.bool(self.stats_invalid);
            self.last_clean_scrub_stamp.encode(e);
            self.last_became_active.encode(e);
            e.bool(self.dirty_stats_invalid);
            e.i32(self.up_primary);
            e.i32(self.acting_primary);
            e.bool(self.omap_stats_invalid);
            e.bool(self.hitset_stats_invalid);
            self.blocked_by.encode(e);
            self.last_undegraded.encode(e);
            self.last_fullsized.encode(e);
            e.bool(self.hitset_bytes_stats_invalid);
            self.last_peered.encode(e);
            self.last_became_peered.encode(e);
            e.bool(self.pin_stats_invalid);
            e.u32(self.snaptrimq_len);
            e.u32((self.state >> 32) as u32);
            self.purged_snaps.encode(e);
            e.bool(self.manifest_stats_invalid);
            self.avail_no_missing.encode(e);
            self.object_location_counts.encode(e);
            e.i32(self.last_scrub_duration_s);
            self.scrub_sched_status.encode(e);
            e.i64(self.objects_scrubbed);
            e.f64(self.scrub_duration_s);
            e.i64(self.objects_trimmed);
            e.f64(self.snaptrim_duration_s);
            e.i64(self.log_dups_size);
        });
    }

    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("pg_stat_t", 29, |d, v| {
            if v < 22 {
                return Err(DencError::TooOld { what: "pg_stat_t", version: v, oldest: 22 });
            }
            let mut s = Self::default();
            (s.version, s.reported_seq, s.reported_epoch) = (d.get()?, d.u64()?, d.u32()?);
            s.state = d.u32()?.into();
            (s.log_start, s.ondisk_log_start) = (d.get()?, d.get()?);
            (s.created, s.last_epoch_clean, s.parent, s.parent_split_bits) = (d.u32()?, d.u32()?, d.get()?, d.u32()?);
            (s.last_scrub, s.last_scrub_stamp, s.stats) = (d.get()?, d.get()?, d.get()?);
            (s.log_size, s.ondisk_log_size, s.up, s.acting) = (d.i64()?, d.i64()?, d.get()?, d.get()?);
            (s.last_fresh, s.last_change, s.last_active, s.last_clean, s.last_unstale) = (d.get()?, d.get()?, d.get()?, d.get()?, d.get()?);
            (s.mapping_epoch, s.last_deep_scrub, s.last_deep_scrub_stamp) = (d.u32()?, d.get()?, d.get()?);
            (s.stats_invalid, s.last_clean_scrub_stamp, s.last_became_active) = (d.bool()?, d.get()?, d.get()?);
            (s.dirty_stats_invalid, s.up_primary, s.acting_primary) = (d.bool()?, d.i32()?, d.i32()?);
            (s.omap_stats_invalid, s.hitset_stats_invalid, s.blocked_by) = (d.bool()?, d.bool()?, d.get()?);
            (s.last_undegraded, s.last_fullsized, s.hitset_bytes_stats_invalid) = (d.get()?, d.get()?, d.bool()?);
            (s.last_peered, s.last_became_peered, s.pin_stats_invalid) = (d.get()?, d.get()?, d.bool()?);
            if v >= 23 {
                s.snaptrimq_len = d.u32()?;
            }
            if v >= 24 {
                s.state |= u64::from(d.u32()?) << 32;
                s.purged_snaps = d.get()?;
            }
            s.manifest_stats_invalid = if v >= 25 { d.bool()? } else { true };
            if v >= 26 {
                (s.avail_no_missing, s.object_location_counts) = (d.get()?, d.get()?);
            }
            if v >= 27 {
                (s.last_scrub_duration_s, s.scrub_sched_status, s.objects_scrubbed) = (d.i32()?, d.get()?, d.i64()?);
            }
            if v >= 28 {
                (s.scrub_duration_s, s.objects_trimmed, s.snaptrim_duration_s) = (d.f64()?, d.i64()?, d.f64()?);
            }
            if v >= 29 {
                s.log_dups_size = d.i64()?;
            }
            Ok(s)
        })
    }
}

/// `pool_stat_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolStat {
    pub stats: ObjectStatCollection,
    pub store_stats: StoreStatfs,
    pub log_size: i64,
    pub ondisk_log_size: i64,
    /// How many up and acting members the groups have together.
    pub up: i32,
    pub acting: i32,
    /// How many OSDs gave `store_stats`.
    pub num_store_stats: i32,
}

impl Denc for PoolStat {
    fn encode(&self, e: &mut Encoder) {
        e.frame(7, 5, |e| {
            self.stats.encode(e);
            e.i64(self.log_size);
            e.i64(self.ondisk_log_size);
            e.i32(self.up);
            e.i32(self.acting);
            self.store_stats.encode(e);
            e.i32(self.num_store_stats);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("pool_stat_t", 7, |d, v| {
            let mut s = Self { stats: d.get()?, log_size: d.i64()?, ondisk_log_size: d.i64()?, ..Self::default() };
            if v >= 6 {
                (s.up, s.acting) = (d.i32()?, d.i32()?);
            }
            if v >= 7 {
                (s.store_stats, s.num_store_stats) = (d.get()?, d.i32()?);
            }
            Ok(s)
        })
    }
}
