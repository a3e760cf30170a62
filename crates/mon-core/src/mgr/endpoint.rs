//! Messages at the manager's endpoint.

use super::services::{Registration, is_small};
use super::{DaemonState, clients};
use crate::Mon;
use crate::session::ConnId;
use base::Clock;
use denc::DencError;
use messages::*;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityKind, UTime};

/// How often daemons are to report.
const REPORT_PERIOD_S: u32 = 5;
/// The same while a browser looks.
const WATCHED_PERIOD_S: u32 = 1;
/// How long a browser looks that asked once.
const LOOK: Duration = Duration::from_secs(5);
/// Counters below this priority stay at home: histograms have it.
const REPORT_PRIORITY: u32 = 2;
/// Bytes of a daemon's configuration, encoded.
const CONFIG_MAX: usize = 256 << 10;
/// `DaemonHealthMetric::kind` of slow operations.
const SLOW_OPS: u8 = 0;
/// Of groups that are to be created.
const PENDING_CREATES: u8 = 1;

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
                if let (Some(name), Some((metadata, status))) = (name, m.service)
                    && is_small(&metadata)
                    && is_small(&status)
                    && self.register_service(conn, &m.service_name, &m.daemon_name, &metadata, now)
                {
                    let daemon = self.daemon(conn, name);
                    (daemon.metadata, daemon.status) = (metadata, status);
                }
            }
            MMgrReport::KIND => self.on_mgr_report(conn, MMgrReport::decode(raw)?, clock)?,
            MMgrClose::KIND => {
                let m = MMgrClose::decode(raw)?;
                if let Some(name) = self.daemon_name(conn, &m.service_name, &m.daemon_name) {
                    self.manager.daemons.remove(&name);
                    self.manager.services.remove(&m.service_name, &m.daemon_name);
                }
                self.send(conn, 0, &m);
            }
            MPGStats::KIND => self.on_pg_stats(conn, MPGStats::decode(raw)?),
            MCommand::KIND | MMgrCommand::KIND => self.on_command(conn, raw, clock)?,
            _ => {}
        }
        Ok(())
    }

    /// `osd.0`, if the session is that daemon; `rgw.a`, if it opened as that. No daemon reports for another.
    fn daemon_name(&self, conn: ConnId, service: &str, daemon: &str) -> Option<String> {
        let session = self.sessions.get(&conn)?;
        if session.peer.entity.kind == EntityKind::CLIENT {
            let name = format!("{service}.{daemon}");
            return (session.mgr_name.as_ref() == Some(&name)).then_some(name);
        }
        (session.peer.entity.id == daemon).then(|| session.peer.entity.to_string())
    }
    /// The row of a daemon that reports over this connection.
    fn daemon(&mut self, conn: ConnId, name: String) -> &mut DaemonState {
        if let Some(session) = self.sessions.get_mut(&conn).filter(|s| s.mgr_name.is_none()) {
            session.mgr_name = Some(name.clone());
        }
        let daemon = self.manager.daemons.entry(name).or_default();
        daemon.conn = Some(conn);
        daemon
    }
    /// A connection to the endpoint ended: so does what it reported. A service stays in its map for a while, since gateways come back.
    pub(crate) fn forget_daemon(&mut self, conn: ConnId, name: &str) {
        if self.manager.daemons.get(name).is_some_and(|daemon| daemon.conn == Some(conn)) {
            self.manager.daemons.remove(name);
        }
    }

    fn on_mgr_open(&mut self, conn: ConnId, m: MMgrOpen, now: UTime) {
        let (metadata, status) = m.service.unwrap_or_default();
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        let before = session.mgr_name.take();
        // A client is what it registers as, and nothing if it registers as nothing.
        let name = if session.peer.entity.kind == EntityKind::CLIENT {
            let registered = self.register_service(conn, &m.service_name, &m.daemon_name, &metadata, now);
            registered.then(|| format!("{}.{}", m.service_name, m.daemon_name))
        } else {
            self.daemon_name(conn, &m.service_name, &m.daemon_name)
        };
        if let Some(before) = before.filter(|before| Some(before) != name.as_ref()) {
            self.forget_daemon(conn, &before);
        }
        if let Some(name) = name.filter(|_| is_small(&metadata) && is_small(&status) && m.config.len() <= CONFIG_MAX) {
            let config = bytes::Bytes::copy_from_slice(&m.config);
            let daemon = DaemonState { metadata, status, config, last_seen: now, conn: Some(conn), ..DaemonState::default() };
            self.manager.daemons.insert(name.clone(), daemon);
            if let Some(session) = self.sessions.get_mut(&conn) {
                session.mgr_name = Some(name);
            }
        }
        self.configure_daemon(conn);
    }

    /// Tells a daemon how often to report, and what.
    fn configure_daemon(&mut self, conn: ConnId) {
        let stats_period_s = if self.manager.watched { WATCHED_PERIOD_S } else { REPORT_PERIOD_S };
        let osd_perf_queries = if self.manager.watched { vec![clients::query()] } else { Vec::new() };
        self.send(
            conn,
            0,
            &MMgrConfigure { stats_period_s, stats_threshold: REPORT_PRIORITY, osd_perf_queries, ..MMgrConfigure::default() },
        );
    }

    /// Viewers came or left.
    pub(crate) fn set_viewers(&mut self, viewers: bool, clock: Clock) {
        self.manager.viewers = viewers;
        self.tick_watched(clock);
    }
    /// The state was asked for, and will be again.
    pub(crate) fn looked_at(&mut self, clock: Clock) {
        self.manager.looked_until = clock.mono + LOOK;
        self.tick_watched(clock);
    }
    /// OSDs report each second while a browser looks.
    fn tick_watched(&mut self, clock: Clock) {
        let watched = self.manager.viewers || clock.mono < self.manager.looked_until;
        if std::mem::replace(&mut self.manager.watched, watched) == watched || !self.mgrmap.is_endpoint() {
            return;
        }
        self.manager.clients.clear();
        let osds = self.sessions.iter().filter(|(_, s)| s.mgr_name.as_deref().is_some_and(|name| name.starts_with("osd.")));
        for conn in osds.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            self.configure_daemon(conn);
        }
    }

    /// Clients that say what service they are show in the map of services. False if a client may not be that.
    fn register_service(&mut self, conn: ConnId, service: &str, name: &str, metadata: &BTreeMap<String, String>, now: UTime) -> bool {
        let Some(session) = self.sessions.get(&conn) else { return false };
        if session.peer.entity.kind != EntityKind::CLIENT {
            return true;
        }
        let (owner, gid, addr) = (&session.peer.entity, session.peer.global_id, session.peer.addrs.front());
        self.manager.services.register(Registration { owner, service, name, gid, addr, metadata }, now)
    }

    fn on_mgr_report(&mut self, conn: ConnId, m: MMgrReport, clock: Clock) -> Result<(), DencError> {
        let now = UTime::from_wall_ns(clock.wall_ns);
        let Some(name) = self.daemon_name(conn, &m.service_name, &m.daemon_name) else { return Ok(()) };
        self.manager.services.seen(&m.service_name, &m.daemon_name, m.task_status.as_ref(), now);
        if let (true, Some(osd), Some(report)) =
            (self.manager.watched, name.strip_prefix("osd.").and_then(|id| id.parse().ok()), &m.metric_report)
        {
            self.manager.clients.take(osd, report, clock.mono)?;
        }
        let daemon = self.daemon(conn, name);
        daemon.last_seen = now;
        if !m.config.is_empty() && m.config.len() <= CONFIG_MAX {
            // Cut out of the frame that brought it.
            daemon.config = bytes::Bytes::copy_from_slice(&m.config);
        }
        if let Some(status) = m.daemon_status.as_ref().filter(|status| is_small(status)) {
            daemon.status.clone_from(status);
        }
        let slow = m.health.iter().find(|h| h.kind == SLOW_OPS);
        daemon.slow_ops = slow.map_or((0, 0), |h| (h.value as u32, (h.value >> 32) as u32));
        daemon.pending_creates = m.health.iter().find(|h| h.kind == PENDING_CREATES).map_or(0, |h| h.value as u32);
        daemon.perf.take(&m, clock.mono)
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
            let mut may_purge = false;
            for (pg, stat) in m.pg_stat {
                // Groups of pools that are gone, or behind a pool's end after a merge, are no pool's.
                if map.pools.get(&pg.pool).is_some_and(|p| pg.seed < p.pg_num) {
                    may_purge |= self.manager.pgs.report_pg(pg, stat) && map.removed_snaps_queue.contains_key(&pg.pool);
                }
            }
            // To ask takes a look at each group of the pool; each tick asks once more.
            if may_purge {
                self.purge_snaps();
            }
        }
        self.send(conn, 0, &ack);
    }

    pub(crate) fn tick_manager(&mut self, clock: Clock) {
        self.tick_managers(clock);
        self.tick_watched(clock);
        if self.mgrmap.is_endpoint() {
            self.drive_pg_nums(clock);
            self.manager.services.tick(UTime::from_wall_ns(clock.wall_ns), &mut self.batch);
        }
        self.tick_digests(clock);
    }
}
