//! A pool: how its objects are hashed into placement groups, how many copies there are, its snapshots.
//!
//! Source of the encoding: Ceph 18.2 `src/osd/osd_types.cc` (`pg_pool_t`, versions 21 to 30 by features; 31 and 32 are later releases').

use crate::flags::bits;
use crate::pool_opts::PoolOpts;
use denc::{Decoder, Denc, DencError, Encoder, denc_struct};
use std::collections::{BTreeMap, BTreeSet};
use types::hash::{bins_mask, linux_dcache, rjenkins, stable_mod};
use types::interval_set::IntervalSet;
use types::{EVersion, Epoch, PgId, PoolId, SnapId, UTime, features};

bits! {
    /// Flags of a pool.
    pool_flags: u64 {
        HASHPSPOOL = 0, "hashpspool";
        FULL = 1, "full";
        EC_OVERWRITES = 2, "ec_overwrites";
        INCOMPLETE_CLONES = 3, "incomplete_clones";
        NODELETE = 4, "nodelete";
        NOPGCHANGE = 5, "nopgchange";
        NOSIZECHANGE = 6, "nosizechange";
        WRITE_FADVISE_DONTNEED = 7, "write_fadvise_dontneed";
        NOSCRUB = 8, "noscrub";
        NODEEP_SCRUB = 9, "nodeep-scrub";
        FULL_QUOTA = 10, "full_quota";
        NEARFULL = 11, "nearfull";
        BACKFILLFULL = 12, "backfillfull";
        SELFMANAGED_SNAPS = 13, "selfmanaged_snaps";
        POOL_SNAPS = 14, "pool_snaps";
        CREATING = 15, "creating";
        EIO = 16, "eio";
        BULK = 17, "bulk";
        CRIMSON = 18, "crimson";
        EC_OPTIMIZATIONS = 19, "ec_optimizations";
    }
}

/// `pool_snap_info_t`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolSnap {
    pub snapid: SnapId,
    pub stamp: UTime,
    pub name: String,
}
denc_struct!(PoolSnap, v 2, compat 2, { snapid, stamp, name });

/// `pg_merge_meta_t`: the last merge of two placement groups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MergeMeta {
    pub source_pgid: PgId,
    pub ready_epoch: Epoch,
    pub last_epoch_started: Epoch,
    pub last_epoch_clean: Epoch,
    pub source_version: EVersion,
    pub target_version: EVersion,
}
denc_struct!(MergeMeta, v 1, compat 1, { source_pgid, ready_epoch, last_epoch_started, last_epoch_clean, source_version, target_version });

/// `HitSet::Params`: how a cache pool remembers what was used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum HitSetParams {
    #[default]
    None,
    ExplicitHash,
    ExplicitObject,
    /// False positives in a millionth, expected insertions, seed.
    Bloom {
        fpp_micro: u32,
        target_size: u64,
        seed: u64,
    },
}
impl Denc for HitSetParams {
    fn encode(&self, e: &mut Encoder) {
        e.frame(1, 1, |e| match self {
            Self::None => e.u8(0),
            // These two have no parameters, not even a frame.
            Self::ExplicitHash => e.u8(1),
            Self::ExplicitObject => e.u8(2),
            Self::Bloom { fpp_micro, target_size, seed } => {
                e.u8(3);
                e.frame(1, 1, |e| {
                    e.u32(*fpp_micro);
                    e.u64(*target_size);
                    e.u64(*seed);
                });
            }
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("HitSet::Params", 1, |d, _| match d.u8()? {
            0 => Ok(Self::None),
            1 => Ok(Self::ExplicitHash),
            2 => Ok(Self::ExplicitObject),
            3 => d.frame("BloomHitSet::Params", 1, |d, _| Ok(Self::Bloom { fpp_micro: d.u32()?, target_size: d.u64()?, seed: d.u64()? })),
            _ => Err(d.invalid("a hit set's type is unknown")),
        })
    }
}

/// The four fields of pools that span sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StretchPool {
    /// Peering needs members in this many buckets; 0: no such pool.
    pub bucket_count: u32,
    pub bucket_target: u32,
    /// ... of this CRUSH type ...
    pub bucket_barrier: u32,
    /// ... among them this one ([`crush::ITEM_NONE`]: any).
    pub mandatory_member: i32,
}
impl Default for StretchPool {
    fn default() -> Self {
        Self { bucket_count: 0, bucket_target: 0, bucket_barrier: 0, mandatory_member: crush::ITEM_NONE }
    }
}
denc_struct!(StretchPool, bare, { bucket_count, bucket_target, bucket_barrier, mandatory_member });

/// `pg_pool_t`. Ratios in a millionth, ages and periods in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct PgPool {
    pub create_time: UTime,
    /// [`pool_flags`].
    pub flags: u64,
    /// [`PgPool::REPLICATED`] or [`PgPool::ERASURE`].
    pub kind: u8,
    pub size: u8,
    pub min_size: u8,
    pub crush_rule: u8,
    /// [`PgPool::HASH_RJENKINS`] nearly always.
    pub object_hash: u8,
    /// 0 off, 1 warn, 2 on.
    pub pg_autoscale_mode: u8,
    pub pg_num: u32,
    pub pgp_num: u32,
    /// What `pg_num` is about to be merged down to.
    pub pg_num_pending: u32,
    pub pg_num_target: u32,
    pub pgp_num_target: u32,
    /// Without meaning since Jewel.
    pub properties: BTreeMap<String, String>,
    pub erasure_code_profile: String,
    pub last_change: Epoch,
    /// Clients resend what they sent before this epoch.
    pub last_force_op_resend: Epoch,
    /// The same for clients before Nautilus ...
    pub last_force_op_resend_prenautilus: Epoch,
    /// ... and before Luminous.
    pub last_force_op_resend_preluminous: Epoch,
    pub last_pg_merge_meta: MergeMeta,
    pub snap_seq: SnapId,
    pub snap_epoch: Epoch,
    pub auid: u64,
    /// 0: none.
    pub quota_max_bytes: u64,
    pub quota_max_objects: u64,
    /// Pool snapshots by number.
    pub snaps: BTreeMap<SnapId, PoolSnap>,
    /// Snapshots of clients that were removed; kept for clients before Octopus only.
    pub removed_snaps: IntervalSet,
    pub tiers: BTreeSet<u64>,
    /// -1: none; so the next two.
    pub tier_of: PoolId,
    pub read_tier: PoolId,
    pub write_tier: PoolId,
    /// 0 none, 1 writeback, 2 forward, 3 readonly, 4 readforward, 5 readproxy, 6 proxy.
    pub cache_mode: u8,
    pub target_max_bytes: u64,
    pub target_max_objects: u64,
    pub cache_target_dirty_ratio_micro: u32,
    pub cache_target_dirty_high_ratio_micro: u32,
    pub cache_target_full_ratio_micro: u32,
    pub cache_min_flush_age: u32,
    pub cache_min_evict_age: u32,
    pub hit_set_params: HitSetParams,
    pub hit_set_period: u32,
    pub hit_set_count: u32,
    pub use_gmt_hitset: bool,
    pub min_read_recency_for_promote: u32,
    pub min_write_recency_for_promote: u32,
    pub hit_set_grade_decay_rate: u32,
    pub hit_set_search_last_n: u32,
    /// Of erasure-coded pools, in bytes.
    pub stripe_width: u32,
    pub expected_num_objects: u64,
    pub fast_read: bool,
    pub opts: PoolOpts,
    /// Application to its keys and values (`rbd`, `rgw`, `cephfs`).
    pub application_metadata: BTreeMap<String, BTreeMap<String, String>>,
    pub stretch: StretchPool,
    /// Since Tentacle: shards that can't be primary, a bit each.
    pub nonprimary_shards: u128,
}

impl Default for PgPool {
    fn default() -> Self {
        Self {
            create_time: UTime::ZERO,
            flags: 0,
            kind: 0,
            size: 0,
            min_size: 0,
            crush_rule: 0,
            object_hash: 0,
            pg_autoscale_mode: 0xff,
            pg_num: 0,
            pgp_num: 0,
            pg_num_pending: 0,
            pg_num_target: 0,
            pgp_num_target: 0,
            properties: BTreeMap::new(),
            erasure_code_profile: String::new(),
            last_change: 0,
            last_force_op_resend: 0,
            last_force_op_resend_prenautilus: 0,
            last_force_op_resend_preluminous: 0,
            last_pg_merge_meta: MergeMeta::default(),
            snap_seq: 0,
            snap_epoch: 0,
            auid: 0,
            quota_max_bytes: 0,
            quota_max_objects: 0,
            snaps: BTreeMap::new(),
            removed_snaps: IntervalSet::new(),
            tiers: BTreeSet::new(),
            tier_of: -1,
            read_tier: -1,
            write_tier: -1,
            cache_mode: 0,
            target_max_bytes: 0,
            target_max_objects: 0,
            cache_target_dirty_ratio_micro: 0,
            cache_target_dirty_high_ratio_micro: 0,
            cache_target_full_ratio_micro: 0,
            cache_min_flush_age: 0,
            cache_min_evict_age: 0,
            hit_set_params: HitSetParams::None,
            hit_set_period: 0,
            hit_set_count: 0,
            use_gmt_hitset: true,
            min_read_recency_for_promote: 0,
            min_write_recency_for_promote: 0,
            hit_set_grade_decay_rate: 0,
            hit_set_search_last_n: 0,
            stripe_width: 0,
            expected_num_objects: 0,
            fast_read: false,
            opts: PoolOpts::default(),
            application_metadata: BTreeMap::new(),
            stretch: StretchPool::default(),
            nonprimary_shards: 0,
        }
    }
}

impl PgPool {
    pub const REPLICATED: u8 = 1;
    pub const ERASURE: u8 = 3;
    pub const HASH_LINUX: u8 = 1;
    pub const HASH_RJENKINS: u8 = 2;
    pub const AUTOSCALE_OFF: u8 = 0;
    pub const AUTOSCALE_WARN: u8 = 1;
    pub const AUTOSCALE_ON: u8 = 2;

    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
    pub fn is_replicated(&self) -> bool {
        self.kind == Self::REPLICATED
    }
    pub fn is_erasure(&self) -> bool {
        self.kind == Self::ERASURE
    }
    /// True where a missing OSD's place is filled by those behind it: replicated pools. In others a place has a meaning.
    pub fn can_shift_osds(&self) -> bool {
        self.is_replicated()
    }
    pub fn is_tier(&self) -> bool {
        self.tier_of >= 0
    }
    pub fn pg_num_mask(&self) -> u32 {
        bins_mask(self.pg_num)
    }
    pub fn pgp_num_mask(&self) -> u32 {
        bins_mask(self.pgp_num)
    }

    /// The hash of an object: of its locator key, or its name if that is empty, with the namespace in front.
    pub fn hash_key(&self, key: &[u8], nspace: &[u8]) -> u32 {
        let hash = match self.object_hash {
            Self::HASH_LINUX => linux_dcache,
            _ => rjenkins,
        };
        if nspace.is_empty() {
            return hash(key);
        }
        let mut joined = Vec::with_capacity(nspace.len() + 1 + key.len());
        joined.extend_from_slice(nspace);
        joined.push(0x1f);
        joined.extend_from_slice(key);
        hash(&joined)
    }
    /// A raw placement group (any 32-bit hash) folded to one that exists.
    #[inline]
    pub fn fold(&self, hash: u32) -> u32 {
        stable_mod(hash, self.pg_num, self.pg_num_mask())
    }
    #[inline]
    pub fn raw_pg_to_pg(&self, pg: PgId) -> PgId {
        PgId { seed: self.fold(pg.seed), ..pg }
    }
    /// The seed that CRUSH is asked with.
    #[inline]
    pub fn placement_seed(&self, pg: PgId) -> u32 {
        let folded = stable_mod(pg.seed, self.pgp_num, self.pgp_num_mask());
        if self.has(pool_flags::HASHPSPOOL) { crush::hash32_2(folded, pg.pool as u32) } else { folded.wrapping_add(pg.pool as u32) }
    }

    pub fn is_pool_snaps_mode(&self) -> bool {
        self.has(pool_flags::POOL_SNAPS)
    }
    pub fn is_unmanaged_snaps_mode(&self) -> bool {
        self.has(pool_flags::SELFMANAGED_SNAPS)
    }
    pub fn snap_by_name(&self, name: &str) -> Option<SnapId> {
        self.snaps.values().find(|s| s.name == name).map(|s| s.snapid)
    }
    /// True for pool snapshots that are gone, and for clients' ones as far as `removed_snaps` goes.
    pub fn is_removed_snap(&self, snap: SnapId) -> bool {
        if self.is_pool_snaps_mode() {
            snap <= self.snap_seq && !self.snaps.contains_key(&snap)
        } else {
            self.removed_snaps.contains_point(snap)
        }
    }
    /// Makes a pool snapshot; its number.
    pub fn add_snap(&mut self, name: &str, stamp: UTime) -> SnapId {
        assert!(!self.is_unmanaged_snaps_mode(), "a pool has snapshots of its own or clients' ones, not both");
        self.flags |= pool_flags::POOL_SNAPS;
        self.snap_seq += 1;
        self.snaps.insert(self.snap_seq, PoolSnap { snapid: self.snap_seq, stamp, name: name.into() });
        self.snap_seq
    }
    /// Gives out a number for a client's snapshot.
    pub fn add_unmanaged_snap(&mut self) -> SnapId {
        assert!(!self.is_pool_snaps_mode(), "a pool has snapshots of its own or clients' ones, not both");
        self.flags |= pool_flags::SELFMANAGED_SNAPS;
        self.snap_seq = self.snap_seq.max(1) + 1;
        self.snap_seq
    }
    /// Forgets a pool snapshot. The sequence moves on, so that clones are made anew.
    pub fn remove_snap(&mut self, snap: SnapId) {
        assert!(self.snaps.remove(&snap).is_some(), "only a snapshot that exists is removed");
        self.snap_seq += 1;
    }
    /// Notes that a client's snapshot is gone; which one stands in the map's removed snapshots.
    pub fn remove_unmanaged_snap(&mut self) {
        assert!(self.is_unmanaged_snaps_mode(), "the pool has no snapshots of clients");
        self.snap_seq += 1;
    }
    /// Pool snapshots, newest first: what a client without a context of its own writes with.
    pub fn snap_context(&self) -> types::SnapContext {
        types::SnapContext { seq: self.snap_seq, snaps: self.snaps.keys().rev().copied().collect() }
    }

    fn version(&self, e: &Encoder) -> u8 {
        if !e.has(features::NEW_OSDOP_ENCODING) {
            21
        } else if !e.has(features::SERVER_LUMINOUS) {
            24
        } else if !e.has(features::SERVER_MIMIC) {
            26
        } else if !e.has(features::SERVER_NAUTILUS) {
            27
        } else if e.has(features::SERVER_TENTACLE) {
            32
        } else if self.stretch.bucket_count == 0 {
            29
        } else {
            30
        }
    }
}

impl Denc for PgPool {
    fn encode(&self, e: &mut Encoder) {
        let v = self.version(e);
        e.frame(v, 5, |e| {
            e.u8(self.kind);
            e.u8(self.size);
            e.u8(self.crush_rule);
            e.u8(self.object_hash);
            e.u32(self.pg_num);
            e.u32(self.pgp_num);
            e.u64(0); // localized placement groups: two words, of old
            e.u32(self.last_change);
            e.u64(self.snap_seq);
            e.u32(self.snap_epoch);
            e.put(&self.snaps);
            e.put(&self.removed_snaps);
            e.u64(self.auid);
            let hidden = pool_flags::SELFMANAGED_SNAPS | pool_flags::POOL_SNAPS | pool_flags::CREATING;
            e.u64(if v >= 27 { self.flags } else { self.flags & !hidden });
            e.u32(0); // crash_replay_interval, of old
            e.u8(self.min_size);
            e.u64(self.quota_max_bytes);
            e.u64(self.quota_max_objects);
            e.put(&self.tiers);
            e.i64(self.tier_of);
            e.u8(self.cache_mode);
            e.i64(self.read_tier);
            e.i64(self.write_tier);
            e.put(&self.properties);
            e.put(&self.hit_set_params);
            e.u32(self.hit_set_period);
            e.u32(self.hit_set_count);
            e.u32(self.stripe_width);
            e.u64(self.target_max_bytes);
            e.u64(self.target_max_objects);
            e.u32(self.cache_target_dirty_ratio_micro);
            e.u32(self.cache_target_full_ratio_micro);
            e.u32(self.cache_min_flush_age);
            e.u32(self.cache_min_evict_age);
            e.put(&self.erasure_code_profile);
            e.u32(self.last_force_op_resend_preluminous);
            e.u32(self.min_read_recency_for_promote);
            e.u64(self.expected_num_objects);
            e.u32(self.cache_target_dirty_high_ratio_micro);
            e.u32(self.min_write_recency_for_promote);
            e.bool(self.use_gmt_hitset);
            if v >= 22 {
                e.bool(self.fast_read);
            }
            if v >= 23 {
                e.u32(self.hit_set_grade_decay_rate);
                e.u32(self.hit_set_search_last_n);
            }
            if v >= 24 {
                e.put(&self.opts);
            }
            if v >= 25 {
                e.u32(self.last_force_op_resend_prenautilus);
            }
            if v >= 26 {
                e.put(&self.application_metadata);
            }
            if v >= 27 {
                e.put(&self.create_time);
            }
            if v >= 28 {
                e.u32(self.pg_num_target);
                e.u32(self.pgp_num_target);
                e.u32(self.pg_num_pending);
                e.u64(0); // two epochs of 14.1
                e.u32(self.last_force_op_resend);
                e.u8(self.pg_autoscale_mode);
            }
            if v >= 29 {
                e.put(&self.last_pg_merge_meta);
            }
            if v >= 32 {
                e.put(&(self.stretch.bucket_count != 0).then_some(self.stretch));
                e.varint(self.nonprimary_shards as u64);
                e.varint((self.nonprimary_shards >> 64) as u64);
            } else if v >= 30 {
                e.put(&self.stretch);
            }
        });
    }

    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("pg_pool_t", 32, |d, v| {
            // Below this no peer writes that we speak with: 21 is what peers before Jewel are sent.
            if v < 21 {
                return Err(DencError::TooOld { what: "pg_pool_t", version: v, oldest: 21 });
            }
            let mut p = PgPool { kind: d.u8()?, size: d.u8()?, crush_rule: d.u8()?, object_hash: d.u8()?, ..PgPool::default() };
            p.pg_num = d.u32()?;
            p.pgp_num = d.u32()?;
            d.skip(8)?;
            p.last_change = d.u32()?;
            p.snap_seq = d.u64()?;
            p.snap_epoch = d.u32()?;
            p.snaps = d.get()?;
            p.removed_snaps = d.get()?;
            p.auid = d.u64()?;
            p.flags = d.u64()?;
            d.skip(4)?;
            if p.snap_seq > 0 && !p.is_pool_snaps_mode() && !p.is_unmanaged_snaps_mode() {
                p.flags |= if p.removed_snaps.is_empty() { pool_flags::POOL_SNAPS } else { pool_flags::SELFMANAGED_SNAPS };
            }
            p.min_size = d.u8()?;
            p.quota_max_bytes = d.u64()?;
            p.quota_max_objects = d.u64()?;
            p.tiers = d.get()?;
            p.tier_of = d.i64()?;
            p.cache_mode = d.u8()?;
            p.read_tier = d.i64()?;
            p.write_tier = d.i64()?;
            p.properties = d.get()?;
            p.hit_set_params = d.get()?;
            p.hit_set_period = d.u32()?;
            p.hit_set_count = d.u32()?;
            p.stripe_width = d.u32()?;
            p.target_max_bytes = d.u64()?;
            p.target_max_objects = d.u64()?;
            p.cache_target_dirty_ratio_micro = d.u32()?;
            p.cache_target_full_ratio_micro = d.u32()?;
            p.cache_min_flush_age = d.u32()?;
            p.cache_min_evict_age = d.u32()?;
            p.erasure_code_profile = d.string()?;
            p.last_force_op_resend_preluminous = d.u32()?;
            p.min_read_recency_for_promote = d.u32()?;
            p.expected_num_objects = d.u64()?;
            p.cache_target_dirty_high_ratio_micro = d.u32()?;
            p.min_write_recency_for_promote = d.u32()?;
            p.use_gmt_hitset = d.bool()?;
            if v >= 22 {
                p.fast_read = d.bool()?;
            }
            if v >= 23 {
                p.hit_set_grade_decay_rate = d.u32()?;
                p.hit_set_search_last_n = d.u32()?;
            } else {
                p.hit_set_search_last_n = 1;
            }
            if v >= 24 {
                p.opts = d.get()?;
            }
            p.last_force_op_resend_prenautilus = if v >= 25 { d.u32()? } else { p.last_force_op_resend_preluminous };
            if v >= 26 {
                p.application_metadata = d.get()?;
            }
            if v >= 27 {
                p.create_time = d.get()?;
            }
            if v >= 28 {
                p.pg_num_target = d.u32()?;
                p.pgp_num_target = d.u32()?;
                p.pg_num_pending = d.u32()?;
                let (started, clean) = (d.u32()?, d.u32()?);
                p.last_force_op_resend = d.u32()?;
                p.pg_autoscale_mode = d.u8()?;
                if v >= 29 {
                    p.last_pg_merge_meta = d.get()?;
                } else {
                    p.last_pg_merge_meta.last_epoch_started = started;
                    p.last_pg_merge_meta.last_epoch_clean = clean;
                }
            } else {
                p.pg_num_target = p.pg_num;
                p.pgp_num_target = p.pgp_num;
                p.pg_num_pending = p.pg_num;
                p.last_force_op_resend = p.last_force_op_resend_prenautilus;
                p.pg_autoscale_mode = Self::AUTOSCALE_WARN;
            }
            if v >= 31 {
                p.stretch = d.get::<Option<StretchPool>>()?.unwrap_or_default();
            } else if v >= 30 {
                p.stretch = d.get()?;
            }
            if v >= 32 {
                p.nonprimary_shards = u128::from(d.varint()?) | u128::from(d.varint()?) << 64;
            }
            Ok(p)
        })
    }
}
