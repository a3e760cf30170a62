//! The map of services that are no Ceph daemons proper: gateways and mirrors that register with the manager (`rados_service_register`).
//!
//! Kept over a restart, since subscribers go by its epoch; a service that does not report again leaves it as a silent one does.

use crate::kv::{Batch, Snapshot};
use denc::Denc;
use maps::ServiceMap;
use maps::service_map::{Daemon, Service};
use std::collections::BTreeMap;
use types::{EntityAddr, EntityKind, EntityText, UTime, features};

/// Seconds without a report after which a daemon is gone (`mgr_service_beacon_grace`).
const GRACE_S: u32 = 60;
const KEY: &str = "servicemap";

/// Keys of metadata and what `ceph -s` calls what they count.
const GROUPINGS: [(&str, &str); 2] = [("hostname", "hosts"), ("zone_id", "zones")];

/// Rows that one entity may have, and all together: a gateway's key may serve many gateways, and a row is anybody's that has a key for managers.
const OWN_MAX: usize = 256;
const ALL_MAX: usize = 4096;
/// Bytes of what a daemon says of itself.
const METADATA_MAX: usize = 64 << 10;
/// Bytes of a name.
const NAME_MAX: usize = 256;

/// What this process heard of a row.
#[derive(Debug, Clone)]
struct Heard {
    at: UTime,
    /// Which key registered it; none for one that was there before this process started and has only been waited for.
    owner: Option<EntityText>,
}

/// The map, and when each of its daemons was last heard of.
///
/// What daemons say becomes an epoch with time, at most one a second, whatever they say in between.
#[derive(Debug, Default)]
pub struct ServiceMapService {
    pub map: ServiceMap,
    heard: BTreeMap<(String, String), Heard>,
    is_changed: bool,
}

/// True for what may name a service or one of its daemons. Kinds of daemons that have maps of their own are no services.
pub fn is_name(service: &str, daemon: &str) -> bool {
    let is_text = |text: &str| !text.is_empty() && text.len() <= NAME_MAX && !text.chars().any(char::is_control);
    is_text(service) && is_text(daemon) && !service.contains('.') && EntityKind::parse(service).is_none()
}
/// True if texts are no larger than what daemons say of themselves.
pub fn is_small(texts: &BTreeMap<String, String>) -> bool {
    texts.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>() <= METADATA_MAX
}

impl ServiceMapService {
    pub fn load(snapshot: &Snapshot) -> Self {
        let map = snapshot.get(KEY).and_then(|bytes| ServiceMap::from_bytes(bytes).ok());
        Self { map: map.unwrap_or(ServiceMap { epoch: 1, ..ServiceMap::default() }), ..Self::default() }
    }

    fn publish(&mut self, now: UTime, batch: &mut Batch) {
        self.is_changed = false;
        self.map.epoch += 1;
        self.map.modified = now;
        batch.put(KEY, self.map.to_bytes(features::SUPPORTED));
    }

    /// Takes over the map that a stock manager keeps: it counts the epochs.
    pub fn replace(&mut self, map: ServiceMap, batch: &mut Batch) {
        if map != self.map {
            batch.put(KEY, map.to_bytes(features::SUPPORTED));
            self.map = map;
            self.heard.clear();
            self.is_changed = false;
        }
    }

    /// A daemon says what it is. Nothing changes if it says so again. False if it may not: the name is another key's, or there are too many.
    pub fn register(&mut self, row: Registration<'_>, now: UTime) -> bool {
        let Registration { owner, service, name, gid, addr, metadata } = row;
        if !is_name(service, name) || !is_small(metadata) {
            return false;
        }
        let key = (service.to_string(), name.to_string());
        match self.heard.get(&key).map(|heard| &heard.owner) {
            Some(Some(known)) if known != owner => return false,
            Some(Some(_)) => {}
            _ => {
                let own = self.heard.values().filter(|heard| heard.owner.as_ref() == Some(owner)).count();
                if own >= OWN_MAX || self.heard.len() >= ALL_MAX {
                    return false;
                }
            }
        }
        self.heard.insert(key, Heard { at: now, owner: Some(owner.clone()) });
        let start_epoch = self.map.epoch + 1;
        let daemons = &mut self.map.services.entry(service.into()).or_default().daemons;
        if daemons.get(name).is_none_or(|d| d.gid != gid || d.metadata != *metadata) {
            daemons
                .insert(name.into(), Daemon { gid, addr, start_epoch, start_stamp: now, metadata: metadata.clone(), ..Daemon::default() });
            self.is_changed = true;
        }
        true
    }
    /// It is alive; with a status of its tasks if that is what it tells.
    pub fn seen(&mut self, service: &str, name: &str, tasks: Option<&BTreeMap<String, String>>, now: UTime) {
        let Some(daemon) = self.map.services.get_mut(service).and_then(|s| s.daemons.get_mut(name)) else { return };
        if let Some(heard) = self.heard.get_mut(&(service.into(), name.into())) {
            heard.at = now;
        }
        if let Some(tasks) = tasks.filter(|t| **t != daemon.task_status && is_small(t)) {
            daemon.task_status.clone_from(tasks);
            self.is_changed = true;
        }
    }
    /// It said farewell.
    pub fn remove(&mut self, service: &str, name: &str) {
        let Some(s) = self.map.services.get_mut(service) else { return };
        if s.daemons.remove(name).is_none() {
            return;
        }
        if s.daemons.is_empty() {
            self.map.services.remove(service);
        }
        self.heard.remove(&(service.to_string(), name.to_string()));
        self.is_changed = true;
    }
    /// Removes services that fell silent, and makes an epoch of what changed.
    pub fn tick(&mut self, now: UTime, batch: &mut Batch) {
        let mut silent = Vec::new();
        for (service, s) in &self.map.services {
            for name in s.daemons.keys() {
                let key = (service.clone(), name.clone());
                // Whoever was there before this process started has the whole time to report.
                let seen = self.heard.entry(key.clone()).or_insert(Heard { at: now, owner: None }).at;
                if now.sec.saturating_sub(seen.sec) > GRACE_S {
                    silent.push(key);
                }
            }
        }
        for (service, name) in silent {
            self.remove(&service, &name);
        }
        if self.is_changed {
            self.publish(now, batch);
        }
    }
}

/// What a daemon of a service says of itself.
#[derive(Debug, Clone, Copy)]
pub struct Registration<'a> {
    /// The key that it has.
    pub owner: &'a EntityText,
    pub service: &'a str,
    pub name: &'a str,
    pub gid: u64,
    pub addr: EntityAddr,
    pub metadata: &'a BTreeMap<String, String>,
}

/// True for kinds of daemons that have lines of their own: a stock manager keeps what tasks they do in rows of the map of services.
pub fn is_kind_of_daemon(service: &str) -> bool {
    EntityKind::parse(service).is_some_and(|kind| kind != EntityKind::AUTH)
}

/// What daemons say of their tasks, as `ceph -s` shows it; nothing if none does any.
pub fn task_text(map: &ServiceMap) -> String {
    let mut out = String::new();
    for (name, service) in &map.services {
        let mut tasks: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (id, daemon) in &service.daemons {
            for (task, status) in &daemon.task_status {
                tasks.entry(task).or_default().push(format!("        {name}.{id}: {status}\n"));
            }
        }
        for (task, lines) in tasks {
            out += &format!("    {task}:\n{}", lines.concat());
        }
    }
    if out.is_empty() { out } else { format!(" \n  task status:\n{out}") }
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

    fn about(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }
    fn at(sec: u32) -> UTime {
        UTime { sec, nsec: 0 }
    }
    fn row<'a>(owner: &'a EntityText, service: &'a str, name: &'a str, metadata: &'a BTreeMap<String, String>) -> Registration<'a> {
        Registration { owner, service, name, gid: 1, addr: EntityAddr::default(), metadata }
    }
    fn client(id: &str) -> EntityText {
        EntityText::new(EntityKind::CLIENT, id)
    }

    #[test]
    fn tasks_of_daemons_are_shown_by_task() {
        let daemon = |tasks| Daemon { task_status: about(tasks), ..Daemon::default() };
        let mut map = ServiceMap::default();
        assert_eq!(task_text(&map), "");
        let service = map.services.entry("mds".into()).or_default();
        service.daemons.insert("a".into(), daemon(&[("scrub status", "idle")]));
        service.daemons.insert("b".into(), daemon(&[("scrub status", "busy")]));
        assert_eq!(task_text(&map), " \n  task status:\n    scrub status:\n        mds.a: idle\n        mds.b: busy\n");
        assert!(is_kind_of_daemon("mds") && is_kind_of_daemon("client") && !is_kind_of_daemon("rgw") && !is_kind_of_daemon("rbd-mirror"));
    }

    #[test]
    fn daemons_come_and_fall_silent() {
        let (mut s, mut batch) = (ServiceMapService::load(&Snapshot::default()), Batch::default());
        let gw = |zone| about(&[("daemon_type", "portal"), ("hostname", "h"), ("zone_id", zone)]);
        let owner = client("gw");
        assert!(s.register(row(&owner, "gw", "a", &gw("z1")), at(1)) && s.register(row(&owner, "gw", "b", &gw("z2")), at(1)));
        assert_eq!((s.map.epoch, summary(&s.map.services["gw"]).as_str()), (1, "2 portals active (1 hosts, 2 zones)"));
        assert!(batch.is_empty(), "nothing is written for each that comes");
        s.tick(at(2), &mut batch);
        assert_eq!(s.map.epoch, 2, "both are one change");
        s.register(row(&owner, "gw", "a", &gw("z1")), at(30));
        s.tick(at(80), &mut batch);
        assert_eq!((s.map.epoch, summary(&s.map.services["gw"]).as_str()), (3, "1 portal active (1 hosts, 1 zones)"));
        let mut stored = Snapshot::default();
        stored.apply(&batch);
        assert_eq!(ServiceMapService::load(&stored).map, s.map);
        s.remove("gw", "a");
        s.tick(at(81), &mut batch);
        assert!(s.map.services.is_empty() && s.map.epoch == 4);
    }

    #[test]
    fn rows_are_their_keys_own_and_bounded() {
        let (mut s, mut batch) = (ServiceMapService::load(&Snapshot::default()), Batch::default());
        let (own, other, none) = (client("a"), client("b"), about(&[]));
        assert!(s.register(row(&own, "gw", "a", &none), at(1)));
        assert!(!s.register(row(&other, "gw", "a", &about(&[("x", "y")])), at(1)), "another key's row");
        for (service, name) in
            [("osd", "0"), ("mds", "a"), ("mon", "a"), ("mgr", "x"), ("", "a"), ("gw", ""), ("g.w", "a"), ("gw", "\u{1b}[2J")]
        {
            assert!(!s.register(row(&own, service, name, &none), at(1)), "{service:?} {name:?}");
        }
        assert!(!s.register(row(&own, "gw", &"n".repeat(NAME_MAX + 1), &none), at(1)));
        assert!(!s.register(row(&own, "gw", "b", &about(&[("k", &"v".repeat(METADATA_MAX))])), at(1)));
        let taken = (0..2 * ALL_MAX).filter(|i| s.register(row(&other, "gw", &format!("n{i}"), &none), at(1))).count();
        assert_eq!(taken, OWN_MAX);
        // What fell silent makes room.
        s.tick(at(100), &mut batch);
        assert!(s.map.services.is_empty() && s.register(row(&other, "gw", "a", &none), at(101)));
    }
}
