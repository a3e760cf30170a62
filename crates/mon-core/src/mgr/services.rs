//! The map of services that are no Ceph daemons proper: gateways and mirrors that register with the manager (`rados_service_register`).
//!
//! Kept over a restart, since subscribers go by its epoch; a service that does not report again leaves it as a silent one does.

use crate::kv::{Batch, Snapshot};
use denc::Denc;
use maps::ServiceMap;
use maps::service_map::{Daemon, Service};
use std::collections::BTreeMap;
use types::{EntityAddr, UTime, features};

/// Seconds without a report after which a daemon is gone (`mgr_service_beacon_grace`).
const GRACE_S: u32 = 60;
const KEY: &str = "servicemap";

/// Keys of metadata and what `ceph -s` calls what they count.
const GROUPINGS: [(&str, &str); 2] = [("hostname", "hosts"), ("zone_id", "zones")];

/// The map, and when each of its daemons was last heard of.
#[derive(Debug, Default)]
pub struct ServiceMapService {
    pub map: ServiceMap,
    last_seen: BTreeMap<(String, String), UTime>,
}

impl ServiceMapService {
    pub fn load(snapshot: &Snapshot) -> Self {
        let map = snapshot.get(KEY).and_then(|bytes| ServiceMap::from_bytes(bytes).ok());
        Self { map: map.unwrap_or(ServiceMap { epoch: 1, ..ServiceMap::default() }), last_seen: BTreeMap::new() }
    }

    fn changed(&mut self, now: UTime, batch: &mut Batch) {
        self.map.epoch += 1;
        self.map.modified = now;
        batch.put(KEY, self.map.to_bytes(features::SUPPORTED));
    }

    /// Takes over the map that a stock manager keeps: it counts the epochs.
    pub fn replace(&mut self, map: ServiceMap, batch: &mut Batch) {
        if map != self.map {
            batch.put(KEY, map.to_bytes(features::SUPPORTED));
            self.map = map;
            self.last_seen.clear();
        }
    }

    /// A daemon says what it is. Nothing changes if it says so again.
    #[allow(clippy::too_many_arguments)]
    pub fn register(
        &mut self,
        service: &str,
        name: &str,
        gid: u64,
        addr: EntityAddr,
        metadata: BTreeMap<String, String>,
        now: UTime,
        batch: &mut Batch,
    ) {
        self.last_seen.insert((service.into(), name.into()), now);
        let start_epoch = self.map.epoch + 1;
        let daemons = &mut self.map.services.entry(service.into()).or_default().daemons;
        if daemons.get(name).is_none_or(|d| d.gid != gid || d.metadata != metadata) {
            daemons.insert(name.into(), Daemon { gid, addr, start_epoch, start_stamp: now, metadata, ..Daemon::default() });
            self.changed(now, batch);
        }
    }
    /// It is alive; with a status of its tasks if that is what it tells.
    pub fn seen(&mut self, service: &str, name: &str, tasks: Option<&BTreeMap<String, String>>, now: UTime, batch: &mut Batch) {
        let Some(daemon) = self.map.services.get_mut(service).and_then(|s| s.daemons.get_mut(name)) else { return };
        self.last_seen.insert((service.into(), name.into()), now);
        if let Some(tasks) = tasks.filter(|t| **t != daemon.task_status) {
            daemon.task_status.clone_from(tasks);
            self.changed(now, batch);
        }
    }
    /// It said farewell.
    pub fn remove(&mut self, service: &str, name: &str, now: UTime, batch: &mut Batch) {
        let Some(s) = self.map.services.get_mut(service) else { return };
        if s.daemons.remove(name).is_none() {
            return;
        }
        if s.daemons.is_empty() {
            self.map.services.remove(service);
        }
        self.last_seen.remove(&(service.to_string(), name.to_string()));
        self.changed(now, batch);
    }
    /// Removes services that fell silent.
    pub fn tick(&mut self, now: UTime, batch: &mut Batch) {
        let mut silent = Vec::new();
        for (service, s) in &self.map.services {
            for name in s.daemons.keys() {
                let key = (service.clone(), name.clone());
                // Whoever was there before this process started has the whole time to report.
                let seen = *self.last_seen.entry(key.clone()).or_insert(now);
                if now.sec.saturating_sub(seen.sec) > GRACE_S {
                    silent.push(key);
                }
            }
        }
        for (service, name) in silent {
            self.remove(&service, &name, now, batch);
        }
    }
}

/// A service in a line: `3 portals active (3 hosts, 1 zones)`. The daemons' own word for themselves is in their metadata.
pub fn summary(service: &Service) -> String {
    if !service.summary.is_empty() {
        return service.summary.clone();
    }
    let count = service.daemons.len();
    let values = |key: &str| service.daemons.values().filter_map(|d| d.metadata.get(key)).collect::<std::collections::BTreeSet<_>>();
    let kind = service.daemons.values().rev().find_map(|d| d.metadata.get("daemon_type")).map_or("daemon", String::as_str);
    let groups: Vec<String> = GROUPINGS
        .iter()
        .map(|(key, what)| (values(key).len(), what))
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
    let groups = if groups.is_empty() { String::new() } else { format!(" ({})", groups.join(", ")) };
    format!("{count} {kind}{} active{groups}", if count > 1 { "s" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_come_and_fall_silent() {
        let (mut s, mut batch) = (ServiceMapService::load(&Snapshot::default()), Batch::default());
        let at = |sec| UTime { sec, nsec: 0 };
        let about = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect::<BTreeMap<_, _>>();
        let gw = |zone| about(&[("daemon_type", "portal"), ("hostname", "h"), ("zone_id", zone)]);
        s.register("gw", "a", 1, EntityAddr::default(), gw("z1"), at(1), &mut batch);
        s.register("gw", "b", 2, EntityAddr::default(), gw("z2"), at(1), &mut batch);
        assert_eq!((s.map.epoch, summary(&s.map.services["gw"]).as_str()), (3, "2 portals active (1 hosts, 2 zones)"));
        s.register("gw", "a", 1, EntityAddr::default(), gw("z1"), at(30), &mut batch);
        assert_eq!(s.map.epoch, 3);
        s.tick(at(80), &mut batch);
        assert_eq!(summary(&s.map.services["gw"]), "1 portal active (1 hosts, 1 zones)");
        let mut stored = Snapshot::default();
        stored.apply(&batch);
        assert_eq!(ServiceMapService::load(&stored).map, s.map);
        s.remove("gw", "a", at(81), &mut batch);
        assert!(s.map.services.is_empty());
    }
}
