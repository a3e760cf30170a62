//! The MgrMap's keeper: the active manager, and what stock managers said of themselves.
//!
//! ```text
//!                    beacon of a stock manager                it says that it serves
//!  endpoint active ───────────────────────────▶ stock chosen ───────────────────────▶ stock serves
//!         ▲                                          │                                     │
//!         └── no standby left ◀── silent for the grace, failed by command, restarted ──────┘
//! ```
//!
//! The endpoint of this process is a manager without modules: it serves while there is no stock one. What must be told to others when the
//! active one changes is in [`super::beacon`].

use crate::kv::{Batch, Snapshot};
use crate::mon::{LoadError, MonOptions};
use base::Stamp;
use denc::Denc;
use maps::mgr_map::{ModuleInfo, ModuleOption, StandbyInfo};
use maps::{MgrMap, Release};
use messages::MonCommand;
use std::collections::{BTreeMap, BTreeSet};
use types::{EntityAddrVec, UTime, features};

/// The name of the manager endpoint.
pub const NAME: &str = "x";

/// Modules that a stock manager runs whatever is enabled; the same in all releases from the first to the last of [`ALWAYS_ON_SINCE`]
/// (18.2 `src/mon/MgrMonitor.cc`). Later ones go by the last list.
const ALWAYS_ON: [&str; 10] =
    ["balancer", "crash", "devicehealth", "orchestrator", "pg_autoscaler", "progress", "rbd_support", "status", "telemetry", "volumes"];
const ALWAYS_ON_SINCE: std::ops::RangeInclusive<u32> = 15..=Release::REEF.0 as u32;

fn always_on() -> BTreeMap<u32, BTreeSet<String>> {
    let names: BTreeSet<String> = ALWAYS_ON.iter().map(ToString::to_string).collect();
    ALWAYS_ON_SINCE.map(|release| (release, names.clone())).collect()
}

const MAP: &str = "mgrmap";
const ENDPOINT: &str = "mgr/endpoint";
const COMMANDS: &str = "mgr/commands";
const METADATA: &str = "mgr/metadata/";

/// The map, and what is known of managers beside it.
#[derive(Debug)]
pub struct MgrMapService {
    pub map: MgrMap,
    /// The number under which the endpoint was active last.
    endpoint_gid: u64,
    /// When each stock manager was last heard of, by its number.
    pub(super) beacons: BTreeMap<u64, Stamp>,
    /// When time was last looked at.
    pub(super) last_tick: Stamp,
    /// The commands of the active stock manager; none while the endpoint is active.
    pub commands: Vec<MonCommand>,
    /// What stock managers run on, by name.
    pub metadata: BTreeMap<String, BTreeMap<String, String>>,
}

impl MgrMapService {
    pub fn load(snapshot: &Snapshot) -> Result<Self, LoadError> {
        let damaged = |what| move |error| LoadError::Damaged { what, error };
        let bytes = snapshot.get(MAP).ok_or(LoadError::Missing("the MgrMap"))?;
        let mut metadata = BTreeMap::new();
        for (name, value) in snapshot.below(METADATA) {
            metadata.insert(name.to_string(), Denc::from_bytes(value).map_err(damaged("a manager's metadata"))?);
        }
        Ok(Self {
            map: MgrMap::from_bytes(bytes).map_err(damaged("the MgrMap"))?,
            endpoint_gid: snapshot.number(ENDPOINT).unwrap_or(0),
            beacons: BTreeMap::new(),
            last_tick: Stamp::default(),
            commands: match snapshot.get(COMMANDS) {
                Some(bytes) => Denc::from_bytes(bytes).map_err(damaged("a manager's commands"))?,
                None => Vec::new(),
            },
            metadata,
        })
    }

    /// True if the endpoint of this process, or of the one before it, is the active manager.
    pub fn is_endpoint(&self) -> bool {
        self.map.active_gid != 0 && self.map.active_gid == self.endpoint_gid
    }
    /// True if a stock manager is the active one, serving or about to.
    pub fn is_stock(&self) -> bool {
        self.map.active_gid != 0 && self.map.active_gid != self.endpoint_gid
    }
    /// True if no manager may become active (`mgr set down true`).
    pub fn is_held_down(&self) -> bool {
        self.map.flags & MgrMap::FLAG_DOWN != 0
    }

    /// Makes this process's endpoint the active manager: each time it is another one, with a number of its own.
    pub(super) fn activate(&mut self, gid: u64, options: &MonOptions, now: UTime, batch: &mut Batch) {
        let map = &mut self.map;
        map.active_gid = gid;
        map.active_name = NAME.into();
        map.active_addrs = options.mgr_addrs.clone();
        map.active_change = now;
        map.active_mgr_features = features::SUPPORTED;
        map.available = true;
        // It has no modules. Those that a stock manager would always run stay named: it starts over when the list changes under it.
        map.always_on_modules = always_on();
        map.available_modules.clear();
        self.endpoint_gid = gid;
        batch.put_text(ENDPOINT, &gid.to_string());
        self.changed(batch);
    }
    /// Makes a stock manager the active one. It serves once it says so.
    pub(super) fn choose(&mut self, one: StandbyInfo, now: UTime, batch: &mut Batch) {
        let map = &mut self.map;
        map.standbys.remove(&one.gid);
        map.active_gid = one.gid;
        map.active_name = one.name;
        map.active_addrs = EntityAddrVec::default();
        map.active_change = now;
        map.active_mgr_features = one.mgr_features;
        map.available_modules = one.available_modules;
        map.available = false;
        map.always_on_modules = always_on();
        self.changed(batch);
    }
    /// Leaves the map without an active manager.
    pub(super) fn clear_active(&mut self, now: UTime, batch: &mut Batch) {
        self.beacons.remove(&self.map.active_gid);
        if self.is_stock() {
            let name = self.map.active_name.clone();
            self.set_metadata(&name, None, batch);
            self.set_commands(Vec::new(), batch);
        }
        let map = &mut self.map;
        map.active_name.clear();
        map.active_gid = 0;
        map.active_change = now;
        map.active_mgr_features = 0;
        map.available = false;
        map.active_addrs = EntityAddrVec::default();
        map.services.clear();
        map.clients.clear();
        self.changed(batch);
    }
    /// Forgets a standby.
    pub(super) fn drop_standby(&mut self, gid: u64, batch: &mut Batch) {
        if let Some(gone) = self.map.standbys.remove(&gid) {
            self.beacons.remove(&gid);
            self.set_metadata(&gone.name, None, batch);
            self.changed(batch);
        }
    }

    pub(super) fn set_metadata(&mut self, name: &str, metadata: Option<BTreeMap<String, String>>, batch: &mut Batch) {
        match metadata {
            Some(m) => {
                batch.put(format!("{METADATA}{name}"), m.to_bytes(0));
                self.metadata.insert(name.into(), m);
            }
            None => {
                batch.remove(format!("{METADATA}{name}"));
                self.metadata.remove(name);
            }
        }
    }
    pub(super) fn set_commands(&mut self, commands: Vec<MonCommand>, batch: &mut Batch) {
        if self.commands != commands {
            batch.put(COMMANDS, commands.to_bytes(0));
            self.commands = commands;
        }
    }

    /// Counts a change of the map and keeps it.
    pub(crate) fn changed(&mut self, batch: &mut Batch) {
        self.map.epoch += 1;
        batch.put(MAP, self.map.to_bytes(features::SUPPORTED));
    }

    /// Modules that run in the active manager without being enabled; the endpoint runs none.
    pub fn always_on(&self) -> BTreeSet<String> {
        if !self.is_stock() {
            return BTreeSet::new();
        }
        self.map.always_on_modules.get(&u32::from(Release::REEF.0)).cloned().unwrap_or_default()
    }
    /// An option of a module of the active manager, by its whole name: `mgr/MODULE/OPTION`, or `mgr/MODULE/MANAGER/OPTION` for one manager.
    pub fn module_option(&self, name: &str) -> Option<&ModuleOption> {
        let mut parts = name.strip_prefix("mgr/")?.splitn(3, '/');
        let (module, first, second) = (parts.next()?, parts.next()?, parts.next());
        let module = self.map.available_modules.iter().find(|m| m.name == module)?;
        module.options.get(second.unwrap_or(first))
    }
    /// What the active manager and the standbys say of a module; a manager that doesn't know it is left out.
    pub fn module(&self, name: &str) -> (usize, Option<&ModuleInfo>) {
        let of = |list: &'_ [ModuleInfo]| list.iter().any(|m| m.name == name);
        let standbys = self.map.standbys.values().filter(|s| of(&s.available_modules)).count();
        let active = self.map.available_modules.iter().find(|m| m.name == name);
        (standbys, active)
    }
}
