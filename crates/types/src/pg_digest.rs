//! What a manager tells the monitors of all placement groups and OSDs together: sums, not single reports.
//!
//! Source of the encodings: Ceph 18.2 `src/mon/PGMap.{h,cc}` (`PGMapDigest`).

use crate::interval_set::IntervalSet;
use crate::osd_stat::OsdStat;
use crate::pg_stat::PoolStat;
use crate::{OsdId, PoolId, UTime};
use denc::denc_struct;
use std::collections::BTreeMap;

/// How many groups an OSD has (`PGMapDigest::pg_count`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PgCount {
    pub acting: i32,
    pub up_not_acting: i32,
    pub primary: i32,
}
denc_struct!(PgCount, bare, { acting, up_not_acting, primary });

/// `PGMapDigest`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PgMapDigest {
    pub num_pg: i64,
    pub num_pg_active: i64,
    pub num_pg_unknown: i64,
    pub num_osd: i64,
    /// By pool; the key is narrower than a pool's number.
    pub pg_pool_sum: BTreeMap<i32, PoolStat>,
    pub pg_sum: PoolStat,
    pub osd_sum: OsdStat,
    /// Bits of [`crate::pg_stat::pg_state`].
    pub num_pg_by_state: BTreeMap<u64, i32>,
    pub num_pg_by_osd: BTreeMap<OsdId, PgCount>,
    pub num_pg_by_pool: BTreeMap<PoolId, i64>,
    /// Sequence number of each OSD's last report, by its number.
    pub osd_last_seq: Vec<u64>,
    /// What changed lately, and over how long.
    pub per_pool_sum_delta: BTreeMap<PoolId, (PoolStat, UTime)>,
    pub per_pool_sum_deltas_stamps: BTreeMap<PoolId, UTime>,
    pub pg_sum_delta: PoolStat,
    pub stamp_delta: UTime,
    /// Bytes, copies not yet counted.
    pub avail_space_by_rule: BTreeMap<i32, i64>,
    pub purged_snaps: BTreeMap<PoolId, IntervalSet>,
    pub osd_sum_by_class: BTreeMap<String, OsdStat>,
}
denc_struct!(PgMapDigest, v 4, compat 1, {
    num_pg, num_pg_active, num_pg_unknown, num_osd, pg_pool_sum, pg_sum, osd_sum, num_pg_by_state, num_pg_by_osd, num_pg_by_pool,
    osd_last_seq, per_pool_sum_delta, per_pool_sum_deltas_stamps, pg_sum_delta, stamp_delta, avail_space_by_rule, purged_snaps,
    osd_sum_by_class
});
