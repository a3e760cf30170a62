//! The map of one file system's metadata servers: which holds which rank, in which state, and the settings that clients go by.
//!
//! Holds the encodings. What moves daemons between ranks is in [`crate::fs_roles`].
//! Source of the facts: Ceph 18.2 `src/mds/MDSMap.{h,cc}`, `src/include/ceph_fs.h`.

use denc::{Decoder, Denc, DencError, Encoder};
use std::collections::{BTreeMap, BTreeSet};
use types::{CompatSet, EntityAddrVec, Epoch, UTime, features};

/// A daemon's number: its global_id.
pub type MdsGid = u64;
/// A place among a file system's servers, from 0; [`NO_RANK`] for standbys.
pub type MdsRank = i32;
pub const NO_RANK: MdsRank = -1;
/// A file system's number; [`NO_FS`]: none.
pub type FsId = i32;
pub const NO_FS: FsId = -1;
/// The most ranks that a file system may have.
pub const MAX_RANKS: i64 = 0x100;

/// What a daemon does, or says that it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MdsState(pub i32);

#[rustfmt::skip]
impl MdsState {
    pub const DNE: Self = Self(0);
    pub const STOPPED: Self = Self(-1);
    pub const BOOT: Self = Self(-4);
    pub const STANDBY: Self = Self(-5);
    pub const CREATING: Self = Self(-6);
    pub const STARTING: Self = Self(-7);
    pub const STANDBY_REPLAY: Self = Self(-8);
    pub const REPLAY: Self = Self(8);
    pub const RESOLVE: Self = Self(9);
    pub const RECONNECT: Self = Self(10);
    pub const REJOIN: Self = Self(11);
    pub const CLIENTREPLAY: Self = Self(12);
    pub const ACTIVE: Self = Self(13);
    pub const STOPPING: Self = Self(14);
    /// The rank can't be replayed: it waits for `mds repaired`.
    pub const DAMAGED: Self = Self(15);
}

impl MdsState {
    pub fn name(self) -> &'static str {
        match self {
            Self::DNE => "down:dne",
            Self::STOPPED => "down:stopped",
            Self::DAMAGED => "down:damaged",
            Self::BOOT => "up:boot",
            Self::STANDBY => "up:standby",
            Self::STANDBY_REPLAY => "up:standby-replay",
            Self(-9) => "up:oneshot-replay",
            Self::CREATING => "up:creating",
            Self::STARTING => "up:starting",
            Self::REPLAY => "up:replay",
            Self::RESOLVE => "up:resolve",
            Self::RECONNECT => "up:reconnect",
            Self::REJOIN => "up:rejoin",
            Self::CLIENTREPLAY => "up:clientreplay",
            Self::ACTIVE => "up:active",
            Self::STOPPING => "up:stopping",
            Self(-10) => "null",
            _ => "???",
        }
    }
    /// On the way from a failure back to active.
    pub fn is_degraded(self) -> bool {
        (Self::REPLAY..=Self::CLIENTREPLAY).contains(&self)
    }
    /// True if a daemon that is in this state may say that it is in `next` now. Standbys are moved by the monitor alone.
    pub fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (a, b) if a == b => true,
            (Self::STANDBY_REPLAY, Self::DAMAGED) => true,
            (Self::STANDBY | Self::STANDBY_REPLAY, _) => false,
            (_, Self::DAMAGED) => true,
            (Self::CREATING | Self::STARTING, b) => b == Self::ACTIVE,
            (Self::REPLAY, b) => b == Self::RESOLVE || b == Self::RECONNECT,
            (Self::REJOIN, Self::ACTIVE | Self::STOPPED) => true,
            (Self::RESOLVE | Self::RECONNECT | Self::REJOIN | Self::CLIENTREPLAY, b) => b.0 == self.0 + 1,
            (Self::ACTIVE, b) => b == Self::STOPPING,
            (Self::STOPPING, b) => b == Self::STOPPED,
            _ => false,
        }
    }
}
impl Denc for MdsState {
    fn encode(&self, e: &mut Encoder) {
        e.i32(self.0);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Ok(Self(d.i32()?))
    }
}

/// `MDSMap::mds_info_t`: one daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdsInfo {
    pub gid: MdsGid,
    pub name: String,
    pub rank: MdsRank,
    /// The epoch in which it got its rank.
    pub inc: i32,
    pub state: MdsState,
    /// The number of the beacon that brought the state.
    pub state_seq: u64,
    pub addrs: EntityAddrVec,
    /// Since when nothing was heard of it; zero: it is well.
    pub laggy_since: UTime,
    pub export_targets: BTreeSet<MdsRank>,
    pub mds_features: u64,
    /// The file system that it would rather serve.
    pub join_fscid: FsId,
    /// Bit 0: frozen ([`MdsInfo::FROZEN`]).
    pub flags: u64,
    pub compat: CompatSet,
}

impl MdsInfo {
    /// The monitor leaves it alone, whatever happens.
    pub const FROZEN: u64 = 1;

    pub fn is_laggy(&self) -> bool {
        !self.laggy_since.is_zero()
    }
    pub fn is_frozen(&self) -> bool {
        self.flags & Self::FROZEN != 0
    }
}
impl Default for MdsInfo {
    fn default() -> Self {
        Self {
            gid: 0,
            name: String::new(),
            rank: NO_RANK,
            inc: 0,
            state: MdsState::STANDBY,
            state_seq: 0,
            addrs: EntityAddrVec::default(),
            laggy_since: UTime::ZERO,
            export_targets: BTreeSet::new(),
            mds_features: 0,
            join_fscid: NO_FS,
            flags: 0,
            compat: CompatSet::default(),
        }
    }
}
impl Denc for MdsInfo {
    fn encode(&self, e: &mut Encoder) {
        let v = if e.has(features::SERVER_NAUTILUS) { 10 } else { 7 };
        e.frame(v, 4, |e| {
            e.u64(self.gid);
            e.put(&self.name);
            e.i32(self.rank);
            e.i32(self.inc);
            e.put(&self.state);
            e.u64(self.state_seq);
            if v >= 8 {
                e.put(&self.addrs)
            } else {
                e.put(&self.addrs.legacy_or_front())
            }
            e.put(&self.laggy_since);
            // What rank and name it once stood by for.
            e.i32(NO_RANK);
            e.count(0);
            e.put(&self.export_targets);
            e.u64(self.mds_features);
            e.i32(self.join_fscid);
            e.bool(false);
            if v >= 9 {
                e.u64(self.flags);
            }
            if v >= 10 {
                e.put(&self.compat);
            }
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("mds_info_t", 10, |d, v| {
            let mut m = Self { gid: d.u64()?, name: d.string()?, rank: d.i32()?, inc: d.i32()?, state: d.get()?, ..Self::default() };
            (m.state_seq, m.addrs, m.laggy_since) = (d.u64()?, d.get()?, d.get()?);
            d.skip(4)?;
            d.skip_blob()?;
            m.export_targets = d.get()?;
            if v >= 5 {
                m.mds_features = d.u64()?;
            }
            if v >= 6 {
                m.join_fscid = d.i32()?;
            }
            if v >= 7 {
                d.bool()?;
            }
            if v >= 9 {
                m.flags = d.u64()?;
            }
            m.compat = if v >= 10 { d.get()? } else { CompatSet::mds_unsaid() };
            Ok(m)
        })
    }
}

/// Bits of [`MdsMap::flags`], with the names that commands show.
pub mod mds_flags {
    pub const NOT_JOINABLE: u32 = 1;
    pub const ALLOW_SNAPS: u32 = 1 << 1;
    pub const ALLOW_MULTIMDS_SNAPS: u32 = 1 << 4;
    pub const ALLOW_STANDBY_REPLAY: u32 = 1 << 5;
    pub const REFUSE_CLIENT_SESSION: u32 = 1 << 6;
    pub const REFUSE_STANDBY_FOR_ANOTHER_FS: u32 = 1 << 7;
    pub const BALANCE_AUTOMATE: u32 = 1 << 8;
    pub const DEFAULTS: u32 = ALLOW_SNAPS | ALLOW_MULTIMDS_SNAPS;
    /// In the order in which they are shown. The first is shown when its bit is not set.
    pub const NAMES: [(u32, &str); 7] = [
        (NOT_JOINABLE, "joinable"),
        (ALLOW_SNAPS, "allow_snaps"),
        (ALLOW_MULTIMDS_SNAPS, "allow_multimds_snaps"),
        (ALLOW_STANDBY_REPLAY, "allow_standby_replay"),
        (REFUSE_CLIENT_SESSION, "refuse_client_session"),
        (REFUSE_STANDBY_FOR_ANOTHER_FS, "refuse_standby_for_another_fs"),
        (BALANCE_AUTOMATE, "balance_automate"),
    ];
}

/// `feature_bitset_t`: bits in blocks of 64, without blocks of nothing at the end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeatureBits(pub Vec<u64>);

impl FeatureBits {
    pub fn test(&self, bit: usize) -> bool {
        self.0.get(bit / 64).is_some_and(|block| block >> (bit % 64) & 1 != 0)
    }
    pub fn insert(&mut self, bit: usize) {
        if self.0.len() <= bit / 64 {
            self.0.resize(bit / 64 + 1, 0);
        }
        self.0[bit / 64] |= 1 << (bit % 64);
    }
    pub fn remove(&mut self, bit: usize) {
        if let Some(block) = self.0.get_mut(bit / 64) {
            *block &= !(1 << (bit % 64));
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}
impl Denc for FeatureBits {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.0.len() as u32 * 8);
        for block in &self.0 {
            e.u64(*block);
        }
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let bytes = d.blob()?;
        let block = |part: &[u8]| {
            let mut whole = [0; 8];
            whole[..part.len()].copy_from_slice(part);
            u64::from_le_bytes(whole)
        };
        Ok(Self(bytes.chunks(8).map(block).collect()))
    }
}

/// `MDSMap`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdsMap {
    /// The FSMap's epoch in which this one changed last.
    pub epoch: Epoch,
    pub enabled: bool,
    pub fs_name: String,
    /// Bits of [`mds_flags`].
    pub flags: u32,
    pub last_failure: Epoch,
    /// Servers that replay wait for this osdmap: it fences those before them.
    pub last_failure_osd_epoch: Epoch,
    pub created: UTime,
    pub modified: UTime,
    pub tableserver: MdsRank,
    pub root: MdsRank,
    pub session_timeout_s: u32,
    pub session_autoclose_s: u32,
    pub max_file_size: u64,
    pub max_xattr_size: u64,
    pub required_client_features: FeatureBits,
    /// The first is the default one.
    pub data_pools: Vec<i64>,
    pub cas_pool: i64,
    pub metadata_pool: i64,
    pub max_mds: i32,
    /// What [`MdsMap::max_mds`] was before it was set to 0.
    pub old_max_mds: i32,
    /// -1: not decided yet.
    pub standby_count_wanted: i32,
    pub balancer: String,
    pub bal_rank_mask: String,
    /// Ranks that exist: each is up, failed or damaged.
    pub in_ranks: BTreeSet<MdsRank>,
    pub failed: BTreeSet<MdsRank>,
    pub stopped: BTreeSet<MdsRank>,
    pub damaged: BTreeSet<MdsRank>,
    pub up: BTreeMap<MdsRank, MdsGid>,
    /// Daemons that hold ranks, and those that follow them.
    pub info: BTreeMap<MdsGid, MdsInfo>,
    pub ever_allowed_features: u8,
    pub explicitly_allowed_features: u8,
    pub inline_data_enabled: bool,
    pub compat: CompatSet,
}

impl Default for MdsMap {
    fn default() -> Self {
        Self {
            epoch: 0,
            enabled: false,
            fs_name: "cephfs".into(),
            flags: mds_flags::DEFAULTS,
            last_failure: 0,
            last_failure_osd_epoch: 0,
            created: UTime::ZERO,
            modified: UTime::ZERO,
            tableserver: 0,
            root: 0,
            session_timeout_s: 60,
            session_autoclose_s: 300,
            max_file_size: 1 << 40,
            max_xattr_size: 1 << 16,
            required_client_features: FeatureBits::default(),
            data_pools: Vec::new(),
            cas_pool: -1,
            metadata_pool: -1,
            max_mds: 1,
            old_max_mds: 0,
            standby_count_wanted: -1,
            balancer: String::new(),
            bal_rank_mask: "-1".into(),
            in_ranks: BTreeSet::new(),
            failed: BTreeSet::new(),
            stopped: BTreeSet::new(),
            damaged: BTreeSet::new(),
            up: BTreeMap::new(),
            info: BTreeMap::new(),
            ever_allowed_features: 0,
            explicitly_allowed_features: 0,
            inline_data_enabled: false,
            compat: CompatSet::default(),
        }
    }
}

impl MdsMap {
    /// A map newer than any, with no daemon in it: a daemon that gets it and finds itself missing starts over.
    pub fn null() -> Self {
        Self { epoch: u32::MAX, ..Self::default() }
    }
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
    pub fn count_in(&self, state: MdsState) -> usize {
        self.info.values().filter(|i| i.state == state).count()
    }
    /// Some rank is not served as it should be.
    pub fn is_degraded(&self) -> bool {
        !self.failed.is_empty() || !self.damaged.is_empty() || self.info.values().any(|i| i.state.is_degraded())
    }
    /// Ranks may be added and taken away now.
    pub fn is_resizeable(&self) -> bool {
        !self.is_degraded() && [MdsState::CREATING, MdsState::STARTING, MdsState::STOPPING].iter().all(|s| self.count_in(*s) == 0)
    }
    /// The holder of a rank.
    pub fn holder(&self, rank: MdsRank) -> Option<&MdsInfo> {
        self.info.get(self.up.get(&rank)?)
    }
    /// The followers of a rank.
    pub fn follower(&self, rank: MdsRank) -> Option<&MdsInfo> {
        self.info.values().find(|i| i.rank == rank && i.state == MdsState::STANDBY_REPLAY)
    }
    /// Some pool of it.
    pub fn uses(&self, pool: i64) -> bool {
        self.metadata_pool == pool || self.data_pools.contains(&pool)
    }
}

/// The version of the part that kernels skip.
const EXTENDED: u16 = 18;

impl Denc for MdsMap {
    fn encode(&self, e: &mut Encoder) {
        e.frame(5, 4, |e| {
            e.u32(self.epoch);
            e.u32(self.flags);
            e.u32(self.last_failure);
            e.i32(self.root);
            e.u32(self.session_timeout_s);
            e.u32(self.session_autoclose_s);
            e.u64(self.max_file_size);
            e.i32(self.max_mds);
            e.put(&self.info);
            e.put(&self.data_pools);
            e.i64(self.cas_pool);
            e.u16(EXTENDED);
            e.put(&self.compat);
            e.i64(self.metadata_pool);
            e.put(&self.created);
            e.put(&self.modified);
            e.i32(self.tableserver);
            e.put(&self.in_ranks);
            // Incarnations once stood here by rank; readers drop them.
            e.count(self.in_ranks.len());
            for rank in &self.in_ranks {
                e.i32(*rank);
                e.u32(self.epoch);
            }
            e.put(&self.up);
            e.put(&self.failed);
            e.put(&self.stopped);
            e.u32(self.last_failure_osd_epoch);
            e.u8(self.ever_allowed_features);
            e.u8(self.explicitly_allowed_features);
            e.bool(self.inline_data_enabled);
            e.bool(self.enabled);
            e.put(&self.fs_name);
            e.put(&self.damaged);
            e.put(&self.balancer);
            e.i32(self.standby_count_wanted);
            e.i32(self.old_max_mds);
            // A release once stood here for what the features below say.
            e.u8(0);
            e.put(&self.required_client_features);
            e.put(&self.bal_rank_mask);
            e.u64(self.max_xattr_size);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("MDSMap", 5, |d, v| {
            if v < 5 {
                return Err(DencError::TooOld { what: "MDSMap", version: v, oldest: 5 });
            }
            let mut m = Self { epoch: d.u32()?, flags: d.u32()?, last_failure: d.u32()?, root: d.i32()?, ..Self::default() };
            (m.session_timeout_s, m.session_autoclose_s, m.max_file_size, m.max_mds) = (d.u32()?, d.u32()?, d.u64()?, d.i32()?);
            (m.info, m.data_pools, m.cas_pool) = (d.get()?, d.get()?, d.i64()?);
            let ev = d.u16()?;
            if ev < 12 {
                return Err(d.invalid("an MDSMap of before Luminous"));
            }
            (m.compat, m.metadata_pool, m.created, m.modified) = (d.get()?, d.i64()?, d.get()?, d.get()?);
            (m.tableserver, m.in_ranks) = (d.i32()?, d.get()?);
            d.ignore::<BTreeMap<MdsRank, u32>>()?;
            (m.up, m.failed, m.stopped, m.last_failure_osd_epoch) = (d.get()?, d.get()?, d.get()?, d.u32()?);
            (m.ever_allowed_features, m.explicitly_allowed_features) = (d.u8()?, d.u8()?);
            (m.inline_data_enabled, m.enabled, m.fs_name) = (d.bool()?, d.bool()?, d.string()?);
            (m.damaged, m.balancer, m.standby_count_wanted) = (d.get()?, d.string()?, d.i32()?);
            if ev >= 13 {
                m.old_max_mds = d.i32()?;
            }
            if ev >= 14 {
                d.skip(1)?;
            }
            if ev >= 16 {
                m.required_client_features = d.get()?;
            }
            if ev >= 17 {
                m.bal_rank_mask = d.string()?;
            }
            if ev >= 18 {
                m.max_xattr_size = d.u64()?;
            }
            Ok(m)
        })
    }
}
