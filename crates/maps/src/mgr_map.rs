//! The map of managers: which is active, where it listens, what modules there are.
//!
//! Source of the encodings: Ceph 18.2 `src/mon/MgrMap.h`.

use denc::{Decoder, Denc, DencError, Encoder, denc_struct};
use std::collections::{BTreeMap, BTreeSet};
use types::{EntityAddrVec, Epoch, UTime, features};

/// `MgrMap::ModuleOption`. `kind`, `level` and `flags` are those of configuration options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModuleOption {
    pub name: String,
    pub kind: u8,
    pub level: u8,
    pub flags: u32,
    pub default_value: String,
    pub min: String,
    pub max: String,
    pub enum_allowed: BTreeSet<String>,
    pub desc: String,
    pub long_desc: String,
    pub tags: BTreeSet<String>,
    pub see_also: BTreeSet<String>,
}
denc_struct!(ModuleOption, v 1, compat 1, {
    name, kind, level, flags, default_value, min, max, enum_allowed, desc, long_desc, tags, see_also
});

/// `MgrMap::ModuleInfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleInfo {
    pub name: String,
    pub can_run: bool,
    /// Why it can't.
    pub error_string: String,
    pub options: BTreeMap<String, ModuleOption>,
}
impl Default for ModuleInfo {
    fn default() -> Self {
        Self { name: String::new(), can_run: true, error_string: String::new(), options: BTreeMap::new() }
    }
}
denc_struct!(ModuleInfo, v 2, compat 1, { name, can_run, error_string, [since 2] options });

/// `MgrMap::StandbyInfo`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StandbyInfo {
    pub gid: u64,
    pub name: String,
    pub available_modules: Vec<ModuleInfo>,
    pub mgr_features: u64,
}
impl Denc for StandbyInfo {
    fn encode(&self, e: &mut Encoder) {
        e.frame(4, 1, |e| {
            e.u64(self.gid);
            e.put(&self.name);
            e.put(&names(&self.available_modules));
            e.put(&self.available_modules);
            e.u64(self.mgr_features);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("MgrMap::StandbyInfo", 4, |d, v| {
            let mut s = Self { gid: d.u64()?, name: d.string()?, ..Self::default() };
            if v >= 2 {
                let names: BTreeSet<String> = d.get()?;
                s.available_modules = if v >= 3 { d.get()? } else { from_names(names) };
            }
            if v >= 4 {
                s.mgr_features = d.u64()?;
            }
            Ok(s)
        })
    }
}

fn names(modules: &[ModuleInfo]) -> BTreeSet<String> {
    modules.iter().map(|m| m.name.clone()).collect()
}
fn from_names(names: BTreeSet<String>) -> Vec<ModuleInfo> {
    names.into_iter().map(|name| ModuleInfo { name, ..ModuleInfo::default() }).collect()
}

/// `MgrMap`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MgrMap {
    pub epoch: Epoch,
    /// The osdmap epoch that blocklists the last active one that failed.
    pub last_failure_osd_epoch: Epoch,
    /// Bit 0: clients shall not wait for a manager ([`MgrMap::FLAG_DOWN`]).
    pub flags: u64,
    /// global_id of the active manager; 0: none.
    pub active_gid: u64,
    pub active_addrs: EntityAddrVec,
    /// True once the active one serves.
    pub available: bool,
    pub active_name: String,
    pub active_change: UTime,
    pub active_mgr_features: u64,
    /// Connections of the active manager's own clients, by name: to be blocklisted with it. Sorted by name.
    pub clients: Vec<(String, EntityAddrVec)>,
    pub standbys: BTreeMap<u64, StandbyInfo>,
    /// Modules that are enabled.
    pub modules: BTreeSet<String>,
    /// Modules that can't be disabled, by release.
    pub always_on_modules: BTreeMap<u32, BTreeSet<String>>,
    pub available_modules: Vec<ModuleInfo>,
    /// Module to URI.
    pub services: BTreeMap<String, String>,
}

impl MgrMap {
    pub const FLAG_DOWN: u64 = 1;
}

impl Denc for MgrMap {
    fn encode(&self, e: &mut Encoder) {
        if !e.has(features::SERVER_NAUTILUS) {
            e.frame(5, 1, |e| {
                e.u32(self.epoch);
                e.put(&self.active_addrs.legacy_or_front());
                e.u64(self.active_gid);
                e.bool(self.available);
                e.put(&self.active_name);
                e.put(&self.standbys);
                e.put(&self.modules);
                e.put(&names(&self.available_modules));
                e.put(&self.services);
                e.put(&self.available_modules);
            });
            return;
        }
        e.frame(13, 6, |e| {
            e.u32(self.epoch);
            e.put(&self.active_addrs);
            e.u64(self.active_gid);
            e.bool(self.available);
            e.put(&self.active_name);
            e.put(&self.standbys);
            e.put(&self.modules);
            e.put(&self.services);
            e.put(&self.available_modules);
            e.put(&self.active_change);
            e.put(&self.always_on_modules);
            e.u64(self.active_mgr_features);
            e.u32(self.last_failure_osd_epoch);
            e.count(self.clients.len());
            for (_, addrs) in &self.clients {
                e.put(addrs);
            }
            e.count(self.clients.len());
            for (name, _) in &self.clients {
                e.put(name);
            }
            e.u64(self.flags);
        });
    }

    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        // 14 is Tentacle's; what it adds is skipped.
        d.frame("MgrMap", 13, |d, v| {
            let mut m = MgrMap { epoch: d.u32()?, active_addrs: d.get()?, active_gid: d.u64()?, available: d.bool()?, ..MgrMap::default() };
            m.active_name = d.string()?;
            m.standbys = d.get()?;
            if v >= 2 {
                m.modules = d.get()?;
                if v < 6 {
                    m.available_modules = from_names(d.get()?);
                }
            }
            if v >= 3 {
                m.services = d.get()?;
            }
            if v >= 4 {
                m.available_modules = d.get()?;
            }
            if v >= 7 {
                m.active_change = d.get()?;
            }
            if v >= 8 {
                m.always_on_modules = d.get()?;
            }
            if v >= 9 {
                m.active_mgr_features = d.u64()?;
            }
            if v >= 10 {
                m.last_failure_osd_epoch = d.u32()?;
            }
            if v >= 11 {
                let addrs: Vec<EntityAddrVec> = d.get()?;
                let names: Vec<String> = if v >= 12 { d.get()? } else { vec![String::new(); addrs.len()] };
                if names.len() != addrs.len() {
                    return Err(d.invalid("a manager's clients have other names than addresses"));
                }
                m.clients = names.into_iter().zip(addrs).collect();
            }
            if v >= 13 {
                m.flags = d.u64()?;
            }
            Ok(m)
        })
    }
}
