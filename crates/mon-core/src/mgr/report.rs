//! What a stock manager that is active tells the monitor, and what the monitor tells it.
//!
//! While such a manager reports, its sums stand in place of what daemons reported to the endpoint: in `status`, `df`, quotas, purged
//! snapshots. Its warnings stand in place of those that the endpoint would find.

use crate::Mon;
use crate::health::{Check, Severity};
use crate::session::{ConnId, Sub};
use base::{Clock, Stamp};
use denc::{Denc, DencError};
use maps::ServiceMap;
use messages::{HealthCheck, MMgrDigest, MMonMgrReport, ProgressEvent};
use std::collections::BTreeMap;
use types::{EntityKind, PgMapDigest};

/// The last report of a stock manager, without its sums: those are in [`super::PgMap::digest`].
#[derive(Debug, Default)]
pub struct StockReport {
    pub checks: BTreeMap<String, Check>,
    pub progress: BTreeMap<String, ProgressEvent>,
}

/// What was last told to managers.
#[derive(Debug, Default)]
pub struct Digests {
    at: Stamp,
    health: String,
}

fn check(c: HealthCheck) -> Check {
    let severity = if c.severity == 0 { Severity::Error } else { Severity::Warn };
    Check { severity, summary: c.summary, count: c.count.max(0) as u64, detail: c.detail }
}

impl Mon {
    pub(crate) fn on_mgr_report_to_mon(&mut self, conn: ConnId, m: MMonMgrReport) -> Result<(), DencError> {
        let active = &self.mgrmap.map.active_name;
        if !self.sessions.get(&conn).is_some_and(|s| s.is_of(EntityKind::MGR, active)) {
            return Ok(());
        }
        if !self.mgrmap.is_stock() || (m.gid != 0 && m.gid != self.mgrmap.map.active_gid) {
            return Ok(());
        }
        let digest = PgMapDigest::from_bytes(&m.data)?;
        if !m.service_map.is_empty() {
            let services = ServiceMap::from_bytes(&m.service_map)?;
            self.manager.services.replace(services, &mut self.batch);
        }
        self.manager.pgs.version += 1;
        self.manager.pgs.digest = Some(Box::new(digest));
        let checks = m.health.checks.into_iter().filter(|(_, c)| c.severity < 2).map(|(code, c)| (code, check(c))).collect();
        self.manager.stock = Some(StockReport { checks, progress: m.progress });
        self.purge_snaps();
        Ok(())
    }

    /// The monitor's state and the cluster's health, to a session that subscribed to them.
    pub(crate) fn send_digest(&mut self, conn: ConnId, health: &str) {
        let mon_status_json = crate::cmd::mon_status(self).to_string().into();
        self.send(conn, 0, &MMgrDigest { mon_status_json, health_json: bytes::Bytes::copy_from_slice(health.as_bytes()) });
    }

    /// The same to all that subscribed, now and then and when the health has changed.
    pub(super) fn tick_digests(&mut self, clock: Clock) {
        let wants = |subs: &BTreeMap<String, Sub>| subs.contains_key("mgrdigest");
        let conns: Vec<ConnId> = self.sessions.iter().filter(|(_, s)| wants(&s.subs)).map(|(c, _)| *c).collect();
        if conns.is_empty() {
            return;
        }
        let health = self.look().health_json(true).to_string();
        let period_s = self.config.mon_number("mon_mgr_digest_period").max(1.0);
        let digests = &mut self.manager.digests;
        if digests.health == health && clock.mono.since(digests.at).as_secs_f64() < period_s {
            return;
        }
        digests.at = clock.mono;
        digests.health.clone_from(&health);
        for conn in conns {
            self.send_digest(conn, &health);
        }
    }
}
