//! Messages at the manager's door.

use super::DaemonState;
use crate::Mon;
use crate::session::ConnId;
use base::Clock;
use denc::DencError;
use messages::*;
use std::collections::BTreeMap;
use types::{EntityKind, UTime};

/// How often daemons are to report.
const REPORT_PERIOD_S: u32 = 5;
/// Counters below this priority stay at home.
const REPORT_PRIORITY: u32 = 5;
/// `DaemonHealthMetric::kind` of slow operations.
const SLOW_OPS: u8 = 0;

impl Mon {
    pub(crate) fn dispatch_mgr(&mut self, conn: ConnId, raw: &RawMessage, clock: Clock) -> Result<(), DencError> {
        if !self.mgrmap.is_endpoint() {
            // Another one is the manager: the map says where.
            self.close(conn);
            return Ok(());
        }
        let now = UTime::from_wall_ns(clock.wall_ns);
        match raw.kind {
            MMgrOpen::KIND => self.on_mgr_open(conn, MMgrOpen::decode(raw)?, now),
            MMgrUpdate::KIND => {
                let m = MMgrUpdate::decode(raw)?;
                let name = self.daemon_name(conn, &m.service_name, &m.daemon_name);
                if let (Some(name), Some((metadata, status))) = (name, m.service) {
                    self.register_service(conn, &m.service_name, &m.daemon_name, &metadata, now);
                    let daemon = self.manager.daemons.entry(name).or_default();
                    (daemon.metadata, daemon.status) = (metadata, status);
                }
            }
            MMgrReport::KIND => self.on_mgr_report(conn, MMgrReport::decode(raw)?, now),
            MMgrClose::KIND => {
                let m = MMgrClose::decode(raw)?;
                if let Some(name) = self.daemon_name(conn, &m.service_name, &m.daemon_name) {
                    self.manager.daemons.remove(&name);
                    self.manager.services.remove(&m.service_name, &m.daemon_name, now, &mut self.batch);
                }
                self.send(conn, 0, &m);
            }
            MPGStats::KIND => self.on_pg_stats(conn, MPGStats::decode(raw)?),
            MCommand::KIND | MMgrCommand::KIND => self.on_command(conn, raw, clock)?,
            _ => {}
        }
        Ok(())
    }

    /// `osd.0`, if the session is that daemon. Nobody reports for another.
    fn daemon_name(&self, conn: ConnId, service: &str, daemon: &str) -> Option<String> {
        let session = self.sessions.get(&conn)?;
        let kind = session.peer.entity.kind;
        if kind == EntityKind::CLIENT {
            return (!service.is_empty()).then(|| format!("{service}.{daemon}"));
        }
        (session.peer.entity.id == daemon).then(|| session.peer.entity.to_string())
    }

    fn on_mgr_open(&mut self, conn: ConnId, m: MMgrOpen, now: UTime) {
        if let Some(name) = self.daemon_name(conn, &m.service_name, &m.daemon_name) {
            if let Some((metadata, _)) = &m.service {
                self.register_service(conn, &m.service_name, &m.daemon_name, metadata, now);
            }
            let (metadata, status) = m.service.unwrap_or_default();
            self.manager.daemons.insert(name.clone(), DaemonState { metadata, status, config: m.config, last_seen: now, slow_ops: (0, 0) });
            if let Some(session) = self.sessions.get_mut(&conn) {
                session.mgr_name = Some(name);
            }
        }
        let configure = MMgrConfigure { stats_period_s: REPORT_PERIOD_S, stats_threshold: REPORT_PRIORITY, ..MMgrConfigure::default() };
        self.send(conn, 0, &configure);
    }

    /// Clients that say what service they are show in the map of services.
    fn register_service(&mut self, conn: ConnId, service: &str, name: &str, metadata: &BTreeMap<String, String>, now: UTime) {
        let Some(session) = self.sessions.get(&conn).filter(|s| s.peer.entity.kind == EntityKind::CLIENT) else { return };
        let (gid, addr) = (session.peer.global_id, session.peer.addrs.front());
        if !service.is_empty() {
            self.manager.services.register(service, name, gid, addr, metadata.clone(), now, &mut self.batch);
        }
    }

    fn on_mgr_report(&mut self, conn: ConnId, m: MMgrReport, now: UTime) {
        let Some(name) = self.daemon_name(conn, &m.service_name, &m.daemon_name) else { return };
        self.manager.services.seen(&m.service_name, &m.daemon_name, m.task_status.as_ref(), now, &mut self.batch);
        let daemon = self.manager.daemons.entry(name).or_default();
        daemon.last_seen = now;
        if !m.config.is_empty() {
            // Cut out of the frame that brought it.
            daemon.config = bytes::Bytes::copy_from_slice(&m.config);
        }
        if let Some(status) = m.daemon_status {
            daemon.status = status;
        }
        let slow = m.health.iter().find(|h| h.kind == SLOW_OPS);
        daemon.slow_ops = slow.map_or((0, 0), |h| (h.value as u32, (h.value >> 32) as u32));
    }

    fn on_pg_stats(&mut self, conn: ConnId, m: MPGStats) {
        let Some(osd) = self.sessions.get(&conn).and_then(|s| s.osd()) else { return };
        if m.fsid != self.options.fsid {
            return;
        }
        let ack = MPGStatsAck { pg_stat: m.pg_stat.iter().map(|(pg, s)| (*pg, (s.reported_seq, s.reported_epoch))).collect() };
        let map = &self.osd.map;
        if map.is_up(osd) {
            self.manager.pgs.report_osd(osd, m.osd_stat, m.pool_stat.into_iter());
            for (pg, stat) in m.pg_stat {
                // Groups of pools that are gone, or behind a pool's end after a merge, are nobody's.
                if map.pools.get(&pg.pool).is_some_and(|p| pg.seed < p.pg_num) {
                    self.manager.pgs.report_pg(pg, stat);
                }
            }
            self.purge_snaps();
        }
        self.send(conn, 0, &ack);
    }

    pub(crate) fn tick_manager(&mut self, clock: Clock) {
        self.tick_managers(clock);
        if self.mgrmap.is_endpoint() {
            self.drive_pg_nums(clock);
            self.manager.services.tick(UTime::from_wall_ns(clock.wall_ns), &mut self.batch);
        }
        self.tick_digests(clock);
    }
}
