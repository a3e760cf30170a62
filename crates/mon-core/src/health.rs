//! What is wrong with the cluster, as `ceph health` says it: checks by code, and which of them are muted.
//!
//! All checks together take a few steps for each group, OSD and pool; they are made once a second, and for each question.

use crate::Mon;
use crate::kv::{Batch, Snapshot};
use crate::mgr::DaemonState;
use crate::view::View;
use base::{Clock, Stamp};
use maps::{PgPool, map_flags, osd_state, pool_flags};
use messages::log_level;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;
use types::pg_stat::{PgStat, pg_state};
use types::{EntityKind, EntityText, PgId, UTime};

/// How bad a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Warn,
    Error,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Self::Warn => "HEALTH_WARN",
            Self::Error => "HEALTH_ERR",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub severity: Severity,
    pub summary: String,
    pub count: u64,
    pub detail: Vec<String>,
}

/// Checks by code: ours, and those that a stock manager found.
pub type Checks = BTreeMap<Cow<'static, str>, Check>;

/// A check that an operator doesn't want to hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mute {
    /// Ends then; zero never.
    pub until: UTime,
    /// Stays when the check is gone for a while.
    pub sticky: bool,
    pub summary: String,
    /// Ends when the count grows beyond this.
    pub count: u64,
}

/// How long groups of a pool may be unheard of before that is a warning.
const GRACE_S: u32 = 10;

/// How long a state must last that is worse than the one in the log, to be logged: a cluster that starts has no OSD for a moment.
const SETTLED: Duration = Duration::from_secs(2);

/// An OSD that reports every five seconds is not silent before this.
const SILENT_MIN_S: f64 = 15.0;

/// Seconds between two times.
fn age(since: UTime, now: UTime) -> u32 {
    now.sec.saturating_sub(since.sec)
}

#[derive(Debug, Default)]
pub struct HealthService {
    /// When each pool was first seen by this process.
    pools_since: BTreeMap<i64, UTime>,
    pub mutes: BTreeMap<String, Mute>,
    /// Checks that this process has found, with how bad they were last.
    seen: BTreeMap<String, Severity>,
    /// The state that the cluster log told last.
    last_status: &'static str,
    /// Since when it is another one.
    differs_since: Option<Stamp>,
}

impl HealthService {
    pub fn load(snapshot: &Snapshot) -> Self {
        let mut mutes = BTreeMap::new();
        for (code, value) in snapshot.below("health/mute/") {
            let text = String::from_utf8_lossy(value);
            let mut f = text.splitn(4, '|');
            let mut next = || f.next().unwrap_or_default().to_string();
            let (until, sticky, count, summary) = (next(), next(), next(), next());
            let until = UTime { sec: until.parse().unwrap_or(0), nsec: 0 };
            mutes.insert(code.to_string(), Mute { until, sticky: sticky == "1", summary, count: count.parse().unwrap_or(0) });
        }
        Self { mutes, last_status: "HEALTH_OK", ..Self::default() }
    }
    /// What was found since the start.
    pub fn seen(&self) -> impl Iterator<Item = (&str, Severity)> {
        self.seen.iter().map(|(code, severity)| (code.as_str(), *severity))
    }
    pub fn has_seen(&self, code: &str) -> bool {
        self.seen.contains_key(code)
    }
    /// True if the cluster log is to have this state now: at once when all is well, later when it has lasted.
    fn is_to_tell(&mut self, status: &str, now: Stamp) -> bool {
        if status == self.last_status {
            self.differs_since = None;
            return false;
        }
        let since = *self.differs_since.get_or_insert(now);
        status == "HEALTH_OK" || now.since(since) >= SETTLED
    }
    /// Reports begin anew: what was heard of before has its time again.
    pub(crate) fn await_reports(&mut self) {
        self.pools_since.clear();
    }
    /// Sets a mute, or takes it back.
    pub fn set_mute(&mut self, code: &str, mute: Option<Mute>, batch: &mut Batch) {
        let key = format!("health/mute/{code}");
        match mute {
            Some(m) => {
                batch.put_text(key, &format!("{}|{}|{}|{}", m.until.sec, u8::from(m.sticky), m.count, m.summary));
                self.mutes.insert(code.into(), m);
            }
            None => {
                batch.remove(key);
                self.mutes.remove(code);
            }
        }
    }
}

impl View<'_> {
    /// All checks, muted ones too.
    pub fn health_checks(&self) -> Checks {
        let mut out = BTreeMap::new();
        self.osd_checks(&mut out);
        self.pool_checks(&mut out);
        self.fs_checks(&mut out);
        match &self.manager.stock {
            // What a manager finds is a stock one's to say while there is one.
            Some(report) => out.extend(report.checks.iter().map(|(code, check)| (code.clone().into(), check.clone()))),
            None => self.manager_checks(&mut out),
        }
        if self.mgrmap.map.active_gid == 0 && self.osd.map.num_osds() > 0 {
            out.insert("MGR_DOWN".into(), warn("no active mgr".into(), 0, Vec::new()));
        }
        out
    }

    /// What follows from reports of daemons to the manager.
    fn manager_checks(&self, out: &mut Checks) {
        self.pg_checks(out);
        self.alert_checks(out);
        self.slow_checks(out);
        self.application_checks(out);
    }

    /// What was said of an OSD's end or of why it can't start, as long as it has not been up since: the config-key `osd-down/N` has the epoch in
    /// which it came up last before that, a space, and the text.
    fn why_down(&self, osd: i32) -> String {
        let Some(note) = self.keys.entries.get(&format!("osd-down/{osd}")) else { return String::new() };
        let note = String::from_utf8_lossy(note);
        let text = note.split_once(' ').filter(|(up_from, _)| up_from.parse() == Ok(self.osd.map.osd_info[osd as usize].up_from));
        // It came by the network: nothing in it is to reach a terminal but text.
        text.map_or(String::new(), |(_, why)| format!(": {}", why.replace(|c: char| c.is_control(), " ")))
    }

    fn osd_checks(&self, out: &mut Checks) {
        let map = &self.osd.map;
        let down: Vec<i32> = map.osds().filter(|o| map.is_in(*o) && map.is_down(*o)).collect();
        if !down.is_empty() {
            let detail = down.iter().map(|o| format!("osd.{o} ({}) is down{}", location(map, *o), self.why_down(*o))).collect();
            out.insert("OSD_DOWN".into(), warn(format!("{} osds down", down.len()), down.len(), detail));
        }
        let flags = map.flags_text();
        let warn_flags = map_flags::PAUSERD
            | map_flags::PAUSEWR
            | map_flags::NOUP
            | map_flags::NODOWN
            | map_flags::NOIN
            | map_flags::NOOUT
            | map_flags::NOBACKFILL
            | map_flags::NORECOVER
            | map_flags::NOSCRUB
            | map_flags::NODEEP_SCRUB
            | map_flags::NOTIERAGENT
            | map_flags::NOSNAPTRIM
            | map_flags::NOREBALANCE
            | map_flags::FULL;
        if map.flags & warn_flags != 0 {
            out.insert("OSDMAP_FLAGS".into(), warn(format!("{flags} flag(s) set"), 1, Vec::new()));
        }
        for (bit, code, severity, text) in [
            (osd_state::FULL, "OSD_FULL", Severity::Error, "full osd(s)"),
            (osd_state::BACKFILLFULL, "OSD_BACKFILLFULL", Severity::Warn, "backfillfull osd(s)"),
            (osd_state::NEARFULL, "OSD_NEARFULL", Severity::Warn, "nearfull osd(s)"),
        ] {
            let osds: Vec<_> = map.osds().filter(|o| map.state(*o) & bit != 0).collect();
            if !osds.is_empty() {
                let how = match bit {
                    osd_state::NEARFULL => "near full",
                    osd_state::BACKFILLFULL => "backfill full",
                    _ => "full",
                };
                let detail = osds.iter().map(|o| format!("osd.{o} is {how}")).collect();
                out.insert(code.into(), Check { severity, summary: format!("{} {text}", osds.len()), count: osds.len() as u64, detail });
            }
        }
        self.flag_checks(out);
        let ratios =
            [("nearfull_ratio", map.nearfull_ratio), ("backfillfull_ratio", map.backfillfull_ratio), ("full_ratio", map.full_ratio)];
        let unordered: Vec<String> = ratios
            .windows(2)
            .filter(|w| w[0].1 > w[1].1)
            .map(|w| format!("{} ({}) < {} ({}), increased", w[1].0, w[1].1, w[0].0, w[0].1))
            .collect();
        if !unordered.is_empty() {
            let check = Check { severity: Severity::Error, summary: "full ratio(s) out of order".into(), count: 0, detail: unordered };
            out.insert("OSD_OUT_OF_ORDER_FULL".into(), check);
        }
        let default_size = self.config.mon_number("osd_pool_default_size") as usize;
        if map.num_osds() < default_size {
            let text = format!("OSD count {} < osd_pool_default_size {default_size}", map.num_osds());
            out.insert("TOO_FEW_OSDS".into(), warn(text, map.num_osds(), Vec::new()));
        }
    }

    fn slow_checks(&self, out: &mut Checks) {
        let slow = self.slow_daemons();
        if !slow.is_empty() {
            let (count, oldest) = slow.iter().fold((0, 0), |(n, age), (_, count, oldest_s)| (n + count, age.max(*oldest_s)));
            let names: Vec<_> = slow.iter().map(|(name, ..)| name.as_str()).collect();
            // The manager's prometheus module reads this text: its form is stock's, the dot of several included.
            let who = match &names[..] {
                [one] => format!("{one} has slow ops"),
                few if few.len() <= 10 => format!("daemons [{}] have slow ops.", few.join(",")),
                many => format!("daemons [{}]... have slow ops.", many[..10].join(",")),
            };
            out.insert(
                "SLOW_OPS".into(),
                warn(format!("{count} slow ops, oldest one blocked for {oldest} sec, {who}"), count as usize, Vec::new()),
            );
        }
    }

    /// Daemons with slow requests: name, how many, and the age of the oldest in seconds.
    pub fn slow_daemons(&self) -> Vec<(String, u32, u32)> {
        let all = self.manager.daemons.iter().map(|(name, d)| (name, self.slow_ops_of(name, d)));
        all.filter(|(_, s)| s.0 > 0).map(|(name, (count, oldest_s))| (name.clone(), count, oldest_s)).collect()
    }

    /// How many requests of a daemon are slow, and the age of the oldest in seconds. An OSD that is up, has a session with us and reports nothing
    /// for as long as a request may take stands in one: its loop, which would tell us, doesn't turn.
    pub(crate) fn slow_ops_of(&self, name: &str, daemon: &DaemonState) -> (u32, u32) {
        let Some(osd) = name.strip_prefix("osd.").and_then(|n| n.parse::<i32>().ok()) else { return daemon.slow_ops };
        let silent_s = age(daemon.last_seen, self.manager.pgs.stamp);
        let complaint_s =
            self.config.value(&EntityText::new(EntityKind::OSD, osd.to_string()), "osd_op_complaint_time").parse().unwrap_or(30.0);
        let has_session = || self.sessions.values().any(|s| s.mgr_name.as_deref() == Some(name));
        if f64::from(silent_s) < f64::max(complaint_s, SILENT_MIN_S) || !self.osd.map.is_up(osd) || !has_session() {
            return daemon.slow_ops;
        }
        (daemon.slow_ops.0.max(1), daemon.slow_ops.1.max(silent_s))
    }

    /// Flags of single OSDs, nodes and classes; flags of pools that keep scrubs away.
    fn flag_checks(&self, out: &mut Checks) {
        const GROUP: u32 = osd_state::NOUP | osd_state::NODOWN | osd_state::NOIN | osd_state::NOOUT;
        let map = &self.osd.map;
        let names = |bits: u32| -> String {
            let set: Vec<&str> = osd_state::NAMES.iter().filter(|(bit, _)| bits & GROUP & bit != 0).map(|(_, name)| *name).collect();
            set.join(",")
        };
        let mut detail: Vec<String> =
            map.osds().filter(|o| map.state(*o) & GROUP != 0).map(|o| format!("osd.{o} has flags {}", names(map.state(o)))).collect();
        for (id, bits) in &map.crush_node_flags {
            if let Some(name) = map.crush.item_name(*id) {
                let kind = map.crush.item_type(*id).and_then(|t| map.crush.type_name(t)).unwrap_or("node");
                detail.push(format!("{kind} {name} has flags {}", names(*bits)));
            }
        }
        for (id, bits) in &map.device_class_flags {
            if let Some(name) = map.crush.class_name(*id) {
                detail.push(format!("device class '{name}' has flags {}", names(*bits)));
            }
        }
        if !detail.is_empty() {
            let text = format!("{} OSDs or CRUSH {{nodes, device-classes}} have {{NOUP,NODOWN,NOIN,NOOUT}} flags set", detail.len());
            out.insert("OSD_FLAGS".into(), warn(text, detail.len(), detail));
        }
        let scrub_flags = [(pool_flags::NOSCRUB, "noscrub"), (pool_flags::NODEEP_SCRUB, "nodeep-scrub")];
        let mut detail = Vec::new();
        for (id, pool) in &map.pools {
            for (_, flag) in scrub_flags.iter().filter(|(bit, _)| pool.has(*bit)) {
                detail.push(format!("Pool {} has {flag} flag", map.pool_name(*id).unwrap_or_default()));
            }
        }
        if !detail.is_empty() {
            let set: Vec<&str> =
                scrub_flags.iter().filter(|(bit, _)| map.pools.values().any(|p| p.has(*bit))).map(|(_, name)| *name).collect();
            out.insert(
                "POOL_SCRUB_FLAGS".into(),
                warn(format!("Some pool(s) have the {} flag(s) set", set.join(", ")), detail.len(), detail),
            );
        }
    }

    /// What stores warn of, by the check's name.
    fn alert_checks(&self, out: &mut Checks) {
        const KNOWN: &[(&str, &str)] = &[("BLUESTORE_SPURIOUS_READ_ERRORS", "OSD(s) have spurious read errors")];
        for (code, text) in KNOWN {
            let alerts = self.manager.pgs.osds.values().flat_map(|stat| &stat.os_alerts);
            let detail: Vec<String> =
                alerts.filter_map(|(osd, alerts)| alerts.get(*code).map(|text| format!("osd.{osd} {text}"))).collect();
            if !detail.is_empty() {
                out.insert((*code).into(), warn(format!("{} {text}", detail.len()), detail.len(), detail));
            }
        }
    }

    fn pg_checks(&self, out: &mut Checks) {
        let pgs = &self.manager.pgs;
        let lines = |wanted: &dyn Fn(u64) -> bool| -> Vec<String> {
            let bad = pgs.pgs.iter().filter(|(_, s)| wanted(s.state));
            bad.map(|(pg, s)| format!("pg {pg} is {}, acting {:?}", pg_state::to_text(s.state), s.acting)).collect()
        };
        // A group that was just decided on, or that we know nothing of because we just started, is not missed yet.
        let young = |pool: i64| self.health.pools_since.get(&pool).is_none_or(|since| age(*since, self.manager.pgs.stamp) < GRACE_S);
        let missed = |pg: &PgId, s: &PgStat| match s.state {
            0 => !young(pg.pool) && !self.osd.creating.pgs.contains_key(pg),
            state => state & (pg_state::ACTIVE | pg_state::CREATING) == 0 || state & pg_state::STALE != 0,
        };
        let line = |(pg, s): (&PgId, &PgStat)| format!("pg {pg} is {}, acting {:?}", pg_state::to_text(s.state), s.acting);
        let inactive: Vec<String> = pgs.pgs.iter().filter(|(pg, s)| missed(pg, s)).map(line).collect();
        if !inactive.is_empty() {
            let n = inactive.len();
            let idle = pgs.pgs.iter().filter(|(pg, s)| missed(pg, s) && s.state & pg_state::ACTIVE == 0).count();
            let mut parts = Vec::new();
            if idle > 0 {
                parts.push(format!("{idle} pg{} inactive", if idle == 1 { "" } else { "s" }));
            }
            for (bit, name) in
                [(pg_state::PEERING, "peering"), (pg_state::DOWN, "down"), (pg_state::INCOMPLETE, "incomplete"), (pg_state::STALE, "stale")]
            {
                let count = pgs.count_state(bit);
                if count > 0 {
                    parts.push(format!("{count} pg{} {name}", if count == 1 { "" } else { "s" }));
                }
            }
            out.insert("PG_AVAILABILITY".into(), warn(format!("Reduced data availability: {}", parts.join(", ")), n, inactive));
        }
        let degraded = lines(&|s| s & (pg_state::DEGRADED | pg_state::UNDERSIZED) != 0);
        if !degraded.is_empty() {
            let total = pgs.total().stats;
            let (d, u) = (pgs.count_state(pg_state::DEGRADED), pgs.count_state(pg_state::UNDERSIZED));
            let mut parts = Vec::new();
            if total.num_objects_degraded > 0 {
                let pct = total.num_objects_degraded as f64 * 100.0 / total.num_object_copies.max(1) as f64;
                parts.push(format!("{}/{} objects degraded ({pct:.3}%)", total.num_objects_degraded, total.num_object_copies));
            }
            for (count, name) in [(d, "degraded"), (u, "undersized")] {
                if count > 0 {
                    parts.push(format!("{count} pg{} {name}", if count == 1 { "" } else { "s" }));
                }
            }
            out.insert("PG_DEGRADED".into(), warn(format!("Degraded data redundancy: {}", parts.join(", ")), degraded.len(), degraded));
        }
        let errors = pgs.total().stats.num_scrub_errors;
        if errors > 0 {
            let summary = format!("{errors} scrub errors");
            out.insert("OSD_SCRUB_ERRORS".into(), Check { severity: Severity::Error, summary, count: errors as u64, detail: Vec::new() });
        }
        let damaged = lines(&|s| s & (pg_state::INCONSISTENT | pg_state::SNAPTRIM_ERROR) != 0);
        if !damaged.is_empty() {
            let text = format!("Possible data damage: {} pg{} inconsistent", damaged.len(), if damaged.len() == 1 { "" } else { "s" });
            out.insert(
                "PG_DAMAGED".into(),
                Check { severity: Severity::Error, summary: text, count: damaged.len() as u64, detail: damaged },
            );
        }
    }

    fn pool_checks(&self, out: &mut Checks) {
        let map = &self.osd.map;
        let full: Vec<_> = map.pools.iter().filter(|(_, p)| p.has(pool_flags::FULL)).collect();
        if !full.is_empty() {
            let why = |p: &PgPool| if p.has(pool_flags::FULL_QUOTA) { "running out of quota" } else { "no space" };
            let detail =
                full.iter().map(|(id, p)| format!("pool '{}' is full ({})", map.pool_name(**id).unwrap_or_default(), why(p))).collect();
            out.insert("POOL_FULL".into(), warn(format!("{} pool(s) full", full.len()), full.len(), detail));
        }
        if self.config.mon_bool("mon_warn_on_pool_no_redundancy") {
            let bare: Vec<_> = map.pools.iter().filter(|(_, p)| p.size == 1).filter_map(|(id, _)| map.pool_name(*id)).collect();
            if !bare.is_empty() {
                let detail = bare.iter().map(|n| format!("pool '{n}' has no replicas configured")).collect();
                out.insert(
                    "POOL_NO_REDUNDANCY".into(),
                    warn(format!("{} pool(s) have no replicas configured", bare.len()), bare.len(), detail),
                );
            }
        }
    }

    fn application_checks(&self, out: &mut Checks) {
        let map = &self.osd.map;
        if self.config.mon_bool("mon_warn_on_pool_no_app") {
            let grace = 60.0;
            let used = |id: &i64| self.manager.pgs.pools.get(id).is_some_and(|s| s.stats.num_objects > 0);
            let now = self.manager.pgs.stamp;
            let bare: Vec<_> = map
                .pools
                .iter()
                .filter(|(id, p)| {
                    p.application_metadata.is_empty()
                        && !p.is_tier()
                        && (used(id) || now.as_secs_f64() - p.create_time.as_secs_f64() > grace)
                })
                .filter_map(|(id, _)| map.pool_name(*id))
                .collect();
            if !bare.is_empty() {
                let mut detail: Vec<String> = bare.iter().map(|n| format!("application not enabled on pool '{n}'")).collect();
                detail.push(
                    "use 'ceph osd pool application enable <pool-name> <app-name>', where <app-name> is 'cephfs', 'rbd', 'rgw', or freeform \
                     for custom applications."
                        .into(),
                );
                out.insert(
                    "POOL_APP_NOT_ENABLED".into(),
                    warn(format!("{} pool(s) do not have an application enabled", bare.len()), bare.len(), detail),
                );
            }
        }
    }

    /// `HEALTH_OK` or worse, mutes heeded, by [`Mon::health_checks`].
    pub fn health_status(&self, checks: &Checks) -> &'static str {
        let worst = checks.iter().filter(|(code, _)| !self.health.mutes.contains_key(&***code)).map(|(_, c)| c.severity).max();
        worst.map_or("HEALTH_OK", Severity::name)
    }

    /// What `health` and `status` show.
    pub fn health_json(&self, detail: bool) -> Value {
        let checks = self.health_checks();
        let status = self.health_status(&checks);
        let checks: serde_json::Map<String, Value> = checks
            .into_iter()
            .map(|(code, c)| {
                let mut v = json!({"severity": c.severity.name(), "summary": {"message": c.summary, "count": c.count}});
                if detail {
                    v["detail"] = c.detail.iter().map(|d| json!({"message": d})).collect();
                }
                v["muted"] = json!(self.health.mutes.contains_key(&*code));
                (code.to_string(), v)
            })
            .collect();
        let mutes: Vec<Value> = self
            .health
            .mutes
            .iter()
            .map(|(code, m)| {
                let mut v = json!({"code": code});
                if !m.until.is_zero() {
                    v["ttl"] = json!(m.until.to_string());
                }
                v["sticky"] = json!(m.sticky);
                v["summary"] = json!(m.summary);
                v["count"] = json!(m.count);
                v
            })
            .collect();
        json!({"status": status, "checks": checks, "mutes": mutes})
    }
}

impl Mon {
    /// Ends mutes whose time is up or whose reason has changed, and writes a change of the whole into the cluster log.
    pub(crate) fn tick_health(&mut self, clock: Clock) {
        let now = UTime::from_wall_ns(clock.wall_ns);
        let map = &self.osd.map;
        self.health.pools_since.retain(|id, _| map.pools.contains_key(id));
        for id in map.pools.keys() {
            self.health.pools_since.entry(*id).or_insert(now);
        }
        let checks = self.look().health_checks();
        self.health.seen.extend(checks.iter().map(|(code, c)| (code.to_string(), c.severity)));
        let over: Vec<String> = self
            .health
            .mutes
            .iter()
            .filter(|(code, m)| {
                let check = checks.get(code.as_str());
                (!m.until.is_zero() && m.until <= now) || (!m.sticky && check.is_none_or(|c| c.count > m.count))
            })
            .map(|(code, _)| code.clone())
            .collect();
        for code in over {
            self.health.set_mute(&code, None, &mut self.batch);
        }
        let status = self.look().health_status(&checks);
        if self.health.is_to_tell(status, clock.mono) {
            let (level, text) = match status {
                "HEALTH_OK" => (log_level::INFO, "Cluster is now healthy".to_string()),
                _ => {
                    let summaries: Vec<_> = checks.iter().map(|(code, c)| format!("{} ({code})", c.summary)).collect();
                    (log_level::WARN, format!("overall {status} {}", summaries.join("; ")))
                }
            };
            self.health.last_status = status;
            self.health.differs_since = None;
            self.say(clock, level, text);
        }
    }
}

fn warn(summary: String, count: usize, detail: Vec<String>) -> Check {
    Check { severity: Severity::Warn, summary, count: count as u64, detail }
}

/// `root=default,host=a` of an OSD.
fn location(map: &maps::OsdMap, osd: i32) -> String {
    let mut at = map.crush.full_location(osd);
    at.reverse();
    at.iter().map(|(kind, name)| format!("{kind}={name}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_is_worse_is_told_once_it_has_lasted() {
        let at = |ms: u64| Stamp(0) + Duration::from_millis(ms);
        let mut health = HealthService { last_status: "HEALTH_OK", ..HealthService::default() };
        assert!(!health.is_to_tell("HEALTH_WARN", at(0)));
        assert!(!health.is_to_tell("HEALTH_WARN", at(1900)));
        assert!(!health.is_to_tell("HEALTH_OK", at(1950)), "the log says so still");
        assert!(!health.is_to_tell("HEALTH_WARN", at(2000)), "it begins anew");
        assert!(!health.is_to_tell("HEALTH_ERR", at(3000)));
        assert!(health.is_to_tell("HEALTH_ERR", at(4000)));
        health.last_status = "HEALTH_ERR";
        assert!(health.is_to_tell("HEALTH_OK", at(4001)), "good news at once");
    }
}
