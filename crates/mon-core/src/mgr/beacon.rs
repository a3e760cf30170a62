//! Managers come and go: a stock one's beacons, and what follows from their absence.
//!
//! Whoever stops being the active manager may still be writing: its address and those of its clients are put on the blocklist before
//! another becomes active. The endpoint of this process has no clients, and goes without.

use super::PgMap;
use crate::Mon;
use crate::auth::Endpoint;
use crate::session::ConnId;
use base::Clock;
use denc::{Denc, DencError};
use maps::MgrMap;
use maps::mgr_map::{ModuleInfo, StandbyInfo};
use messages::{MMgrBeacon, MMgrMap, Rest, log_level};
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, UTime};

impl Mon {
    pub(crate) fn on_mgr_beacon(&mut self, conn: ConnId, m: MMgrBeacon, clock: Clock) -> Result<(), DencError> {
        if m.fsid != self.options.fsid || m.gid == 0 || !self.is_manager(conn, m.gid, &m.name) {
            return Ok(());
        }
        let now = UTime::from_wall_ns(clock.wall_ns);
        let modules: Vec<ModuleInfo> = m.modules.iter().map(|f| f.open()).collect::<Result<_, _>>()?;
        let active = self.mgrmap.map.active_gid;
        if self.mgrmap.is_stock() && self.mgrmap.map.active_name == m.name && active != m.gid {
            self.say(clock, log_level::INFO, format!("Active manager daemon {} restarted", m.name));
            self.drop_active_manager(clock);
        }
        let old: Vec<u64> = self.mgrmap.map.standbys.values().filter(|s| s.name == m.name && s.gid != m.gid).map(|s| s.gid).collect();
        for gid in old {
            self.say(clock, log_level::DEBUG, format!("Standby manager daemon {} restarted", m.name));
            self.mgrmap.drop_standby(gid, &mut self.batch);
        }
        if self.mgrmap.map.active_gid == m.gid {
            self.mgrmap.beacons.insert(m.gid, clock.mono);
            self.beacon_of_active(m, modules, clock);
            return Ok(());
        }
        if m.available {
            // It doesn't know yet that it isn't the one: a map without a manager, newer than any that it has, makes it start over.
            let map = MgrMap { epoch: u32::MAX, ..MgrMap::default() };
            let map = Rest(map.to_bytes(self.features(conn)));
            self.send(conn, 0, &MMgrMap { map });
            return Ok(());
        }
        let one = StandbyInfo { gid: m.gid, name: m.name.clone(), available_modules: modules, mgr_features: m.mgr_features };
        if !self.mgrmap.is_stock() {
            if self.mgrmap.is_held_down() {
                return Ok(());
            }
            if self.mgrmap.is_endpoint() {
                self.stand_back(clock);
            }
            self.say(clock, log_level::INFO, format!("Activating manager daemon {}", m.name));
            self.mgrmap.choose(one, now, &mut self.batch);
        } else {
            match self.mgrmap.map.standbys.get(&m.gid) {
                Some(known) if *known == one => {
                    self.mgrmap.beacons.insert(m.gid, clock.mono);
                    return Ok(());
                }
                Some(_) => {}
                None => self.say(clock, log_level::DEBUG, format!("Standby manager daemon {} started", m.name)),
            }
            self.mgrmap.map.standbys.insert(m.gid, one);
            self.mgrmap.changed(&mut self.batch);
        }
        self.mgrmap.beacons.insert(m.gid, clock.mono);
        self.mgrmap.set_metadata(&m.name, Some(m.metadata), &mut self.batch);
        Ok(())
    }

    /// True if a session is that manager's: its key has the name, and a number that the map has for it; one that the map doesn't have is the
    /// session's own.
    fn is_manager(&self, conn: ConnId, gid: u64, name: &str) -> bool {
        let Some(session) = self.sessions.get(&conn) else { return false };
        let map = &self.mgrmap.map;
        let known = if map.active_gid == gid { Some(&map.active_name) } else { map.standbys.get(&gid).map(|s| &s.name) };
        session.is_of(EntityKind::MGR, name) && known.map_or(session.peer.global_id == gid, |known| known == name)
    }

    fn beacon_of_active(&mut self, m: MMgrBeacon, modules: Vec<ModuleInfo>, clock: Clock) {
        let clients: Vec<(String, EntityAddrVec)> = m.client_names.into_iter().zip(m.client_addrs).collect();
        let map = &mut self.mgrmap.map;
        let began = m.available && !map.available;
        let mut changed = map.available != m.available;
        map.available = m.available;
        macro_rules! take {
            ($field:ident, $new:expr) => {
                let new = $new;
                if map.$field != new {
                    map.$field = new;
                    changed = true;
                }
            };
        }
        take!(services, m.services);
        take!(active_addrs, m.server_addrs);
        take!(available_modules, modules);
        take!(clients, clients);
        if !changed {
            return;
        }
        if began {
            self.mgrmap.set_commands(m.commands, &mut self.batch);
            self.say(clock, log_level::INFO, format!("Manager daemon {} is now available", m.name));
        }
        self.mgrmap.changed(&mut self.batch);
    }

    /// The endpoint of this process ceases to be the manager: its sessions are to find the one that is.
    fn stand_back(&mut self, clock: Clock) {
        self.mgrmap.clear_active(UTime::from_wall_ns(clock.wall_ns), &mut self.batch);
        let conns: Vec<ConnId> = self.sessions.iter().filter(|(_, s)| s.endpoint == Endpoint::Mgr).map(|(c, _)| *c).collect();
        for conn in conns {
            self.close(conn);
        }
    }

    /// The endpoint becomes the manager. It knows nothing until daemons report to it.
    pub(crate) fn activate_endpoint(&mut self, clock: Clock) {
        let now = UTime::from_wall_ns(clock.wall_ns);
        let gid = self.auth.fresh_id(&mut self.batch);
        self.mgrmap.activate(gid, &self.options, now, &mut self.batch);
        self.manager.stock = None;
        self.manager.daemons.clear();
        self.manager.pgs = PgMap::default();
        self.manager.pgs.sync_pools(&self.osd.pg_nums());
        self.manager.pgs.stamp = now;
        self.health.await_reports();
        self.say(clock, log_level::INFO, format!("Manager daemon {} is now available", super::NAME));
    }

    /// Ends what the active manager is, and fences it.
    fn drop_active_manager(&mut self, clock: Clock) {
        let now = UTime::from_wall_ns(clock.wall_ns);
        if self.mgrmap.is_stock() {
            let seconds = self.config.mon_number("mon_mgr_blocklist_interval").max(0.0);
            let until = UTime::from_wall_ns(clock.wall_ns.saturating_add((seconds * 1e9) as u64));
            let map = &self.mgrmap.map;
            let fenced: Vec<EntityAddr> =
                map.active_addrs.0.iter().chain(map.clients.iter().flat_map(|(_, a)| &a.0)).map(|a| a.with_kind(AddrType::ANY)).collect();
            if !fenced.is_empty() {
                self.mgrmap.map.last_failure_osd_epoch = self.osd.epoch() + 1;
                self.osd.pending().new_blocklist.extend(fenced.into_iter().map(|addr| (addr, until)));
            }
        }
        self.mgrmap.clear_active(now, &mut self.batch);
    }

    /// Finds an active manager if there is none: a standby, or else the endpoint. The name of a standby that was chosen.
    fn promote_manager(&mut self, clock: Clock) -> Option<String> {
        if self.mgrmap.map.active_gid != 0 || self.mgrmap.is_held_down() {
            return None;
        }
        let Some((_, standby)) = self.mgrmap.map.standbys.first_key_value() else {
            self.activate_endpoint(clock);
            return None;
        };
        let (standby, name) = (standby.clone(), standby.name.clone());
        self.mgrmap.choose(standby, UTime::from_wall_ns(clock.wall_ns), &mut self.batch);
        self.say(clock, log_level::INFO, format!("Activating manager daemon {name}"));
        Some(name)
    }

    /// Treats a manager, given by name or number, as failed; false if there is none such.
    pub(crate) fn fail_manager(&mut self, who: &str, clock: Clock) -> bool {
        let gid = who.parse::<u64>().ok();
        let map = &self.mgrmap.map;
        if map.active_gid != 0 && (map.active_name == who || gid == Some(map.active_gid)) {
            self.drop_active_manager(clock);
        } else if let Some(found) = map.standbys.values().find(|s| s.name == who || gid == Some(s.gid)).map(|s| s.gid) {
            self.mgrmap.drop_standby(found, &mut self.batch);
        } else {
            return false;
        }
        self.promote_manager(clock);
        true
    }

    /// Keeps every manager from being active, or lets them again.
    pub(crate) fn hold_managers_down(&mut self, down: bool, clock: Clock) {
        if self.mgrmap.is_held_down() == down {
            return;
        }
        self.mgrmap.map.flags ^= MgrMap::FLAG_DOWN;
        if down && self.mgrmap.is_endpoint() {
            self.stand_back(clock);
        } else if down && self.mgrmap.is_stock() {
            self.drop_active_manager(clock);
        } else {
            self.mgrmap.changed(&mut self.batch);
        }
        self.promote_manager(clock);
    }

    pub(super) fn tick_managers(&mut self, clock: Clock) {
        let seconds = |name: &str, least: f64| self.config.mon_span(name, least);
        let grace = seconds("mon_mgr_beacon_grace", 1.0);
        let quiet = grace.saturating_sub(seconds("mgr_tick_period", 0.0));
        let service = &mut self.mgrmap;
        // If it was we that didn't look, silence says nothing.
        if clock.mono.since(service.last_tick) > quiet {
            service.beacons.values_mut().for_each(|at| *at = clock.mono);
        }
        service.last_tick = clock.mono;
        let active = if service.is_stock() { Some(service.map.active_gid) } else { None };
        for gid in service.map.standbys.keys().copied().chain(active) {
            // Whoever was there before this process started has the whole time.
            service.beacons.entry(gid).or_insert(clock.mono);
        }
        let known = |gid: &u64| service.map.standbys.contains_key(gid) || Some(*gid) == active;
        let silent: Vec<u64> =
            service.beacons.iter().filter(|(gid, at)| known(gid) && clock.mono.since(**at) > grace).map(|(gid, _)| *gid).collect();
        for gid in silent.iter().filter(|gid| Some(**gid) != active) {
            self.mgrmap.drop_standby(*gid, &mut self.batch);
        }
        if active.is_some_and(|gid| silent.contains(&gid)) {
            let old = self.mgrmap.map.active_name.clone();
            self.drop_active_manager(clock);
            let text = match self.promote_manager(clock) {
                Some(new) => format!("Manager daemon {old} is unresponsive, replacing it with standby daemon {new}"),
                None => format!("Manager daemon {old} is unresponsive.  No standby daemons available."),
            };
            self.say(clock, log_level::INFO, text);
        }
        self.promote_manager(clock);
    }
}
