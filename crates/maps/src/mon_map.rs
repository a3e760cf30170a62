//! The map of monitors.
//!
//! Source of the encodings: Ceph 18.2 `src/mon/MonMap.cc`.

use crate::Release;
use denc::{Decoder, Denc, DencError, Encoder};
use std::collections::{BTreeMap, BTreeSet};
use types::{AddrType, EntityAddr, EntityAddrVec, Epoch, UTime, Uuid, features};

/// `mon_info_t`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MonInfo {
    pub name: String,
    pub public_addrs: EntityAddrVec,
    /// Lower is asked first.
    pub priority: u16,
    pub weight: u16,
    /// Where it stands, CRUSH type to bucket.
    pub crush_loc: BTreeMap<String, String>,
}
impl MonInfo {
    /// What a reader that knows one msgr1 address is told: that one, or the first as if it were one.
    fn legacy_addr(&self) -> EntityAddr {
        let legacy = self.public_addrs.legacy_or_front();
        if legacy != EntityAddr::default() { legacy } else { self.public_addrs.front().with_kind(AddrType::LEGACY) }
    }
}
impl Denc for MonInfo {
    fn encode(&self, e: &mut Encoder) {
        let nautilus = e.has(features::SERVER_NAUTILUS);
        e.frame(if nautilus { 5 } else { 2 }, 1, |e| {
            e.put(&self.name);
            if nautilus {
                e.put(&self.public_addrs)
            } else {
                e.put(&self.legacy_addr())
            }
            e.u16(self.priority);
            e.u16(self.weight);
            e.put(&self.crush_loc);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("mon_info_t", 5, |d, v| {
            let mut m = Self { name: d.string()?, public_addrs: d.get()?, ..Self::default() };
            if v >= 2 {
                m.priority = d.u16()?;
            }
            if v >= 4 {
                m.weight = d.u16()?;
            }
            if v >= 5 {
                m.crush_loc = d.get()?;
            }
            Ok(m)
        })
    }
}

/// `mon_feature_t`: bits of their own, one a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MonFeatures(pub u64);
impl Denc for MonFeatures {
    fn encode(&self, e: &mut Encoder) {
        e.frame(1, 1, |e| e.u64(self.0));
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("mon_feature_t", 1, |d, _| Ok(Self(d.u64()?)))
    }
}

impl MonFeatures {
    pub const KRAKEN: u64 = 1 << 0;
    pub const LUMINOUS: u64 = 1 << 1;
    pub const MIMIC: u64 = 1 << 2;
    pub const OSDMAP_PRUNE: u64 = 1 << 3;
    pub const NAUTILUS: u64 = 1 << 4;
    pub const OCTOPUS: u64 = 1 << 5;
    pub const PACIFIC: u64 = 1 << 6;
    pub const PINGING: u64 = 1 << 7;
    pub const QUINCY: u64 = 1 << 8;
    pub const REEF: u64 = 1 << 9;
    /// What a Reef monitor sets once all are Reef.
    pub const PERSISTENT_REEF: Self = Self(0x3ff);
    /// Names of the bits, ascending.
    pub const NAMES: &[&str] =
        &["kraken", "luminous", "mimic", "osdmap-prune", "nautilus", "octopus", "pacific", "elector-pinging", "quincy", "reef"];
}

/// `MonMap`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonMap {
    pub fsid: Uuid,
    pub epoch: Epoch,
    pub last_changed: UTime,
    pub created: UTime,
    pub persistent_features: MonFeatures,
    pub optional_features: MonFeatures,
    /// By name.
    pub mons: BTreeMap<String, MonInfo>,
    /// Names by rank: a monitor's number is its place here.
    pub ranks: Vec<String>,
    pub min_mon_release: Release,
    pub removed_ranks: BTreeSet<u32>,
    /// 1 classic, 2 disallow, 3 connectivity.
    pub strategy: u8,
    pub disallowed_leaders: BTreeSet<String>,
    pub stretch_mode_enabled: bool,
    pub tiebreaker_mon: String,
    pub stretch_marked_down_mons: BTreeSet<String>,
}
impl Default for MonMap {
    fn default() -> Self {
        Self {
            fsid: Uuid::default(),
            epoch: 0,
            last_changed: UTime::ZERO,
            created: UTime::ZERO,
            persistent_features: MonFeatures(0),
            optional_features: MonFeatures(0),
            mons: BTreeMap::new(),
            ranks: Vec::new(),
            min_mon_release: Release::UNKNOWN,
            removed_ranks: BTreeSet::new(),
            strategy: 1,
            disallowed_leaders: BTreeSet::new(),
            stretch_mode_enabled: false,
            tiebreaker_mon: String::new(),
            stretch_marked_down_mons: BTreeSet::new(),
        }
    }
}

impl MonMap {
    /// Adds a monitor behind the last rank.
    pub fn add(&mut self, name: &str, addrs: EntityAddrVec) {
        self.mons.insert(name.into(), MonInfo { name: name.into(), public_addrs: addrs, ..MonInfo::default() });
        if !self.ranks.iter().any(|n| n == name) {
            self.ranks.push(name.into());
        }
    }
    pub fn rank(&self, name: &str) -> Option<usize> {
        self.ranks.iter().position(|n| n == name)
    }
    pub fn by_rank(&self, rank: usize) -> Option<&MonInfo> {
        self.mons.get(self.ranks.get(rank)?)
    }
    fn legacy_addrs(&self) -> BTreeMap<String, EntityAddr> {
        self.mons.iter().map(|(name, m)| (name.clone(), m.legacy_addr())).collect()
    }
    /// Ranks of maps that have none: by address.
    fn rank_by_address(&mut self) {
        let mut mons: Vec<&MonInfo> = self.mons.values().collect();
        mons.sort_by(|a, b| (&a.public_addrs, &a.name).cmp(&(&b.public_addrs, &b.name)));
        self.ranks = mons.into_iter().map(|m| m.name.clone()).collect();
    }
}

impl Denc for MonMap {
    fn encode(&self, e: &mut Encoder) {
        if !e.has(features::MONENC) {
            // Readers from before 2013: no frame, no features, addresses only.
            e.u16(2);
            e.put(&self.fsid);
            e.u32(self.epoch);
            e.put(&self.legacy_addrs());
            e.put(&self.last_changed);
            e.put(&self.created);
            return;
        }
        let nautilus = e.has(features::SERVER_NAUTILUS);
        let (v, compat) = if nautilus { (9, 6) } else { (5, 3) };
        e.frame(v, compat, |e| {
            e.put(&self.fsid);
            e.u32(self.epoch);
            if !nautilus {
                e.put(&self.legacy_addrs());
            }
            e.put(&self.last_changed);
            e.put(&self.created);
            e.put(&self.persistent_features);
            e.put(&self.optional_features);
            e.put(&self.mons);
            if nautilus {
                e.put(&self.ranks);
                e.put(&self.min_mon_release);
                e.put(&self.removed_ranks);
                e.u8(self.strategy);
                e.put(&self.disallowed_leaders);
                e.bool(self.stretch_mode_enabled);
                e.put(&self.tiebreaker_mon);
                e.put(&self.stretch_marked_down_mons);
            }
        });
    }

    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("MonMap", 9, |d, v| {
            if v < 5 {
                return Err(DencError::TooOld { what: "MonMap", version: v, oldest: 5 });
            }
            let mut m = MonMap { fsid: d.get()?, epoch: d.u32()?, ..MonMap::default() };
            if v < 6 {
                d.ignore::<BTreeMap<String, EntityAddr>>()?;
            }
            m.last_changed = d.get()?;
            m.created = d.get()?;
            m.persistent_features = d.get()?;
            m.optional_features = d.get()?;
            m.mons = d.get()?;
            if v >= 6 {
                m.ranks = d.get()?;
                if m.ranks.iter().any(|name| !m.mons.contains_key(name)) {
                    return Err(d.invalid("a rank names a monitor that the map lacks"));
                }
            } else {
                m.rank_by_address();
            }
            if v >= 7 {
                m.min_mon_release = d.get()?;
            }
            if v >= 8 {
                m.removed_ranks = d.get()?;
                m.strategy = d.u8()?;
                m.disallowed_leaders = d.get()?;
            }
            if v >= 9 {
                m.stretch_mode_enabled = d.bool()?;
                m.tiebreaker_mon = d.string()?;
                m.stretch_marked_down_mons = d.get()?;
            }
            Ok(m)
        })
    }
}
