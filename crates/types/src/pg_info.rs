//! `pg_info_t` and `pg_history_t`: what a member of a placement group knows of it, and of its past.

use crate::pg_stat::PgStat;
use crate::{EVersion, Epoch, HObject, IntervalSet, PgId, SpgId, UTime};
use denc::{Decoder, Denc, DencError, Encoder, denc_struct};

/// `pg_history_t`: epochs at which things last happened to the group, as far as a member knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PgHistory {
    pub epoch_created: Epoch,
    pub epoch_pool_created: Epoch,
    pub last_epoch_started: Epoch,
    pub last_interval_started: Epoch,
    pub last_epoch_clean: Epoch,
    pub last_interval_clean: Epoch,
    pub last_epoch_split: Epoch,
    pub last_epoch_marked_full: Epoch,
    pub same_up_since: Epoch,
    pub same_interval_since: Epoch,
    pub same_primary_since: Epoch,
    pub last_scrub: EVersion,
    pub last_deep_scrub: EVersion,
    pub last_scrub_stamp: UTime,
    pub last_deep_scrub_stamp: UTime,
    pub last_clean_scrub_stamp: UTime,
    /// Nanoseconds: how much longer members of former intervals may serve reads.
    pub prior_readable_until_ub_ns: u64,
}

impl PgHistory {
    /// A group that was just created.
    pub fn created(epoch: Epoch, stamp: UTime) -> Self {
        Self {
            epoch_created: epoch,
            epoch_pool_created: epoch,
            same_up_since: epoch,
            same_interval_since: epoch,
            same_primary_since: epoch,
            last_scrub_stamp: stamp,
            last_deep_scrub_stamp: stamp,
            last_clean_scrub_stamp: stamp,
            ..Self::default()
        }
    }

    /// Takes over what another member knows better. True if anything changed.
    pub fn merge(&mut self, other: &PgHistory) -> bool {
        let before = *self;
        self.epoch_created = if self.epoch_created == 0 { other.epoch_created } else { self.epoch_created.max(other.epoch_created) };
        self.epoch_pool_created = self.epoch_pool_created.max(other.epoch_pool_created);
        self.last_epoch_started = self.last_epoch_started.max(other.last_epoch_started);
        self.last_interval_started = self.last_interval_started.max(other.last_interval_started);
        self.last_epoch_clean = self.last_epoch_clean.max(other.last_epoch_clean);
        self.last_interval_clean = self.last_interval_clean.max(other.last_interval_clean);
        self.last_epoch_split = self.last_epoch_split.max(other.last_epoch_split);
        self.last_epoch_marked_full = self.last_epoch_marked_full.max(other.last_epoch_marked_full);
        self.last_scrub = self.last_scrub.max(other.last_scrub);
        self.last_deep_scrub = self.last_deep_scrub.max(other.last_deep_scrub);
        self.last_scrub_stamp = self.last_scrub_stamp.max(other.last_scrub_stamp);
        self.last_deep_scrub_stamp = self.last_deep_scrub_stamp.max(other.last_deep_scrub_stamp);
        self.last_clean_scrub_stamp = self.last_clean_scrub_stamp.max(other.last_clean_scrub_stamp);
        *self != before
    }
}

impl Denc for PgHistory {
    fn encode(&self, e: &mut Encoder) {
        e.frame(10, 4, |e| {
            e.u32(self.epoch_created);
            e.u32(self.last_epoch_started);
            e.u32(self.last_epoch_clean);
            e.u32(self.last_epoch_split);
            e.u32(self.same_interval_since);
            e.u32(self.same_up_since);
            e.u32(self.same_primary_since);
            self.last_scrub.encode(e);
            self.last_scrub_stamp.encode(e);
            self.last_deep_scrub.encode(e);
            self.last_deep_scrub_stamp.encode(e);
            self.last_clean_scrub_stamp.encode(e);
            e.u32(self.last_epoch_marked_full);
            e.u32(self.last_interval_started);
            e.u32(self.last_interval_clean);
            e.u32(self.epoch_pool_created);
            e.u64(self.prior_readable_until_ub_ns);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("pg_history_t", 10, |d, v| {
            if v < 9 {
                return Err(DencError::TooOld { what: "pg_history_t", version: v, oldest: 9 });
            }
            Ok(Self {
                epoch_created: d.u32()?,
                last_epoch_started: d.u32()?,
                last_epoch_clean: d.u32()?,
                last_epoch_split: d.u32()?,
                same_interval_since: d.u32()?,
                same_up_since: d.u32()?,
                same_primary_since: d.u32()?,
                last_scrub: d.get()?,
                last_scrub_stamp: d.get()?,
                last_deep_scrub: d.get()?,
                last_deep_scrub_stamp: d.get()?,
                last_clean_scrub_stamp: d.get()?,
                last_epoch_marked_full: d.u32()?,
                last_interval_started: d.u32()?,
                last_interval_clean: d.u32()?,
                epoch_pool_created: d.u32()?,
                prior_readable_until_ub_ns: if v >= 10 { d.u64()? } else { 0 },
            })
        })
    }
}

/// `pg_hit_set_info_t`: only carried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HitSetInfo {
    pub begin: UTime,
    pub end: UTime,
    pub version: EVersion,
    pub using_gmt: bool,
}
denc_struct!(HitSetInfo, v 2, compat 1, { begin, end, version, [since 2] using_gmt });

/// `pg_hit_set_history_t`: only carried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HitSetHistory {
    pub current_last_update: EVersion,
    pub history: Vec<HitSetInfo>,
}

impl Denc for HitSetHistory {
    fn encode(&self, e: &mut Encoder) {
        e.frame(1, 1, |e| {
            self.current_last_update.encode(e);
            UTime::ZERO.encode(e);
            // What used to be the current set: a fresh one says that it counts in GMT.
            HitSetInfo { using_gmt: true, ..HitSetInfo::default() }.encode(e);
            self.history.encode(e);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("pg_hit_set_history_t", 1, |d, _| {
            let current_last_update = d.get()?;
            d.ignore::<UTime>()?;
            d.ignore::<HitSetInfo>()?;
            Ok(Self { current_last_update, history: d.get()? })
        })
    }
}

/// `pg_info_t`.
#[derive(Debug, Clone, PartialEq)]
pub struct PgInfo {
    pub pgid: SpgId,
    /// The newest entry of the log.
    pub last_update: EVersion,
    /// Everything up to here is in the store.
    pub last_complete: EVersion,
    pub last_epoch_started: Epoch,
    pub last_interval_started: Epoch,
    pub last_user_version: u64,
    /// The log holds entries above this.
    pub log_tail: EVersion,
    /// Objects below this are in the store; the maximum if there is nothing to backfill.
    pub last_backfill: HObject,
    pub purged_snaps: IntervalSet,
    pub stats: PgStat,
    pub history: PgHistory,
    pub hit_set: HitSetHistory,
}

impl Default for PgInfo {
    fn default() -> Self {
        Self::new(SpgId::default())
    }
}

impl PgInfo {
    /// A group of which nothing is known; complete as to backfill.
    pub fn new(pgid: SpgId) -> Self {
        Self {
            pgid,
            last_update: EVersion::ZERO,
            last_complete: EVersion::ZERO,
            last_epoch_started: 0,
            last_interval_started: 0,
            last_user_version: 0,
            log_tail: EVersion::ZERO,
            last_backfill: HObject::max(),
            purged_snaps: IntervalSet::new(),
            stats: PgStat::default(),
            history: PgHistory::default(),
            hit_set: HitSetHistory::default(),
        }
    }
    /// True if there is no write in it, as in one that was never seen.
    pub fn is_empty(&self) -> bool {
        self.last_update.version == 0
    }
    /// "Does not exist": an OSD that answers so has never heard of the group.
    pub fn dne(&self) -> bool {
        self.history.epoch_created == 0
    }
    pub fn is_incomplete(&self) -> bool {
        !self.last_backfill.max
    }
    pub fn has_missing(&self) -> bool {
        self.last_complete != self.last_update
    }
}

impl Denc for PgInfo {
    fn encode(&self, e: &mut Encoder) {
        e.frame(32, 26, |e| {
            self.pgid.pgid.encode(e);
            self.last_update.encode(e);
            self.last_complete.encode(e);
            self.log_tail.encode(e);
            HObject::min().encode(e); // last_backfill in the sort order of old
            self.stats.encode(e);
            self.history.encode(e);
            self.purged_snaps.encode(e);
            e.u32(self.last_epoch_started);
            e.u64(self.last_user_version);
            self.hit_set.encode(e);
            e.i8(self.pgid.shard);
            self.last_backfill.encode(e);
            e.bool(true);
            e.u32(self.last_interval_started);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("pg_info_t", 32, |d, v| {
            let pgid: PgId = d.get()?;
            let (last_update, last_complete, log_tail) = (d.get()?, d.get()?, d.get()?);
            d.ignore::<HObject>()?;
            let (stats, history, purged_snaps) = (d.get()?, d.get()?, d.get()?);
            let (last_epoch_started, last_user_version, hit_set) = (d.u32()?, d.u64()?, d.get()?);
            let (shard, last_backfill) = (d.i8()?, d.get()?);
            d.skip(1)?;
            let last_interval_started = if v >= 32 { d.u32()? } else { last_epoch_started };
            Ok(Self {
                pgid: SpgId { pgid, shard },
                last_update,
                last_complete,
                last_epoch_started,
                last_interval_started,
                last_user_version,
                log_tail,
                last_backfill,
                purged_snaps,
                stats,
                history,
                hit_set,
            })
        })
    }
}
