//! The state of the cluster for people who watch: one JSON object that the page, and whatever else draws it, is made of.
//!
//! Names are short and units last. Everything comes from the maps and from what daemons reported. Holds the whole (here), what to do about a
//! health check (`advice`), OSDs (`osds`) and placement groups (`groups`). Absent: any drawing.

mod advice;
mod groups;
mod osds;

use crate::Mon;
use crate::cmd::pool_df;
use crate::health::Severity;
use crate::mgr::past::{Point, STEP_S};
use base::Clock;
use messages::log_level;
use serde_json::{Value, json};
use std::ops::Deref;
use types::UTime;

/// Clients that are shown.
const CLIENTS: usize = 20;
/// Lines of the cluster log that are shown.
const LOG_LINES: usize = 60;

/// A figure with as many digits as mean something.
fn short(value: f64) -> Value {
    let scale = if value.abs() < 100.0 { 10.0 } else { 1.0 };
    json!((value * scale).round() / scale)
}

/// The monitor for those that only read: metrics, the page, what follows from reports. Nothing that it does changes the cluster.
#[derive(Clone, Copy)]
pub struct View<'a>(&'a Mon);

impl Deref for View<'_> {
    type Target = Mon;
    fn deref(&self) -> &Mon {
        self.0
    }
}

impl Mon {
    /// The monitor, to be read only.
    pub fn look(&self) -> View<'_> {
        View(self)
    }
}

impl View<'_> {
    /// The state of the cluster.
    pub fn state(&self, clock: Clock) -> Value {
        let map = &self.osd.map;
        let pgs = &self.manager.pgs;
        let (total, fs) = (pgs.total().stats, pgs.statfs());
        json!({
            "fsid": self.options.fsid.to_string(),
            "version": crate::CEPH_VERSION,
            "now_s": UTime::from_wall_ns(clock.wall_ns).sec,
            "epoch": map.epoch,
            "manager": self.mgrmap.map.active_name,
            "ours": self.mgrmap.is_endpoint(),
            "health": self.health_view(),
            "capacity": {"total": fs.total, "used": fs.used_raw(), "avail": fs.available, "stored": total.num_bytes.max(0), "objects": total.num_objects.max(0)},
            "osds": self.osds_view(),
            "up": map.num_up(), "in": map.num_in(),
            "groups": self.groups_view(),
            "pools": self.pools_view(),
            "io": self.io_view(),
            "clients": self.clients_view(clock),
            "recovery": self.recovery_view(),
            "slow": self.slow_daemons().iter().map(|(name, n, oldest_s)| json!({"daemon": name, "count": n, "oldest_s": oldest_s})).collect::<Vec<_>>(),
            "log": self.log_view(),
        })
    }

    /// The last hour, a column for each figure; `from_s` leaves out what is older.
    pub fn past_view(&self, from_s: u32) -> Value {
        let points: Vec<&Point> = self.manager.past.points.iter().filter(|p| p.at.sec > from_s).collect();
        let column = |of: fn(&Point) -> f64| Value::from(points.iter().map(|p| short(of(p))).collect::<Vec<_>>());
        json!({
            "step_s": STEP_S,
            "at_s": points.iter().map(|p| p.at.sec).collect::<Vec<_>>(),
            "read_ops": column(|p| p.read_ops), "write_ops": column(|p| p.write_ops),
            "read_bytes": column(|p| p.read_bytes), "write_bytes": column(|p| p.write_bytes),
            "read_us": column(|p| p.read_us), "write_us": column(|p| p.write_us),
            "recovered": column(|p| p.recovered),
        })
    }

    fn health_view(&self) -> Value {
        let checks = self.health_checks();
        let status = self.health_status(&checks);
        let mut checks: Vec<_> = checks.into_iter().collect();
        checks.sort_by_key(|(_, c)| std::cmp::Reverse(c.severity));
        let rows: Vec<Value> = checks
            .iter()
            .map(|(code, c)| {
                let shown: Vec<&String> = c.detail.iter().take(20).collect();
                json!({
                    "code": code, "error": c.severity == Severity::Error, "text": c.summary, "detail": shown,
                    "more": c.detail.len() - shown.len(), "muted": self.health.mutes.contains_key(&**code), "advice": advice::of(code),
                })
            })
            .collect();
        json!({"status": status, "checks": rows})
    }

    /// What clients do, per second, lately.
    fn io_view(&self) -> Value {
        let mut sum = crate::mgr::counters::DaemonRates::default();
        let up = self.manager.daemons.iter().filter(|(name, _)| self.is_up_osd(name));
        let (mut read_us, mut write_us) = (0.0, 0.0);
        for rates in up.map(|(_, d)| d.perf.rates) {
            sum.read_ops += rates.read_ops;
            sum.write_ops += rates.write_ops;
            sum.read_bytes += rates.read_bytes;
            sum.write_bytes += rates.write_bytes;
            read_us += rates.read_us * rates.read_ops;
            write_us += rates.write_us * rates.write_ops;
        }
        let mean = |weighted: f64, ops: f64| short(if ops > 0.0 { weighted / ops } else { 0.0 });
        json!({
            "read_ops": short(sum.read_ops), "write_ops": short(sum.write_ops),
            "read_bytes": short(sum.read_bytes), "write_bytes": short(sum.write_bytes),
            "read_us": mean(read_us, sum.read_ops), "write_us": mean(write_us, sum.write_ops),
        })
    }

    /// Clients, those that do most first.
    fn clients_view(&self, clock: Clock) -> Value {
        let row = |((name, addr), r): ((String, String), crate::mgr::counters::DaemonRates)| {
            json!({
                "name": name, "addr": addr, "read_ops": short(r.read_ops), "write_ops": short(r.write_ops),
                "read_bytes": short(r.read_bytes), "write_bytes": short(r.write_bytes), "read_us": short(r.read_us), "write_us": short(r.write_us),
            })
        };
        self.manager.clients.busiest(clock.mono).into_iter().take(CLIENTS).map(row).collect()
    }

    /// True for the name of an OSD that is up.
    fn is_up_osd(&self, name: &str) -> bool {
        name.strip_prefix("osd.").and_then(|id| id.parse().ok()).is_some_and(|id| self.osd.map.is_up(id))
    }

    /// What is to be made whole or moved, how fast that goes, and when it is done.
    fn recovery_view(&self) -> Value {
        let pgs = &self.manager.pgs;
        let (total, rates) = (pgs.total().stats, pgs.rates(None));
        let left = (total.num_objects_degraded + total.num_objects_misplaced).max(0);
        let eta_s = (rates.recovering_objects > 0 && left > 0).then(|| left as u64 / rates.recovering_objects);
        json!({
            "degraded": total.num_objects_degraded, "misplaced": total.num_objects_misplaced, "unfound": total.num_objects_unfound,
            "copies": total.num_object_copies, "objects_s": rates.recovering_objects, "bytes_s": rates.recovering_bytes, "eta_s": eta_s,
        })
    }

    fn pools_view(&self) -> Value {
        let per_pool = self.stores_count_by_pool();
        let map = &self.osd.map;
        let row = |(id, pool): (&i64, &maps::PgPool)| {
            let df = pool_df(self, *id, per_pool, false);
            let rates = self.manager.pgs.rates(Some(*id));
            json!({
                "id": id, "name": map.pool_name(*id).unwrap_or_default(), "size": pool.size, "pg_num": pool.pg_num,
                "kind": if pool.is_erasure() { "erasure" } else { "replicated" },
                "apps": pool.application_metadata.keys().collect::<Vec<_>>(),
                "stored": df["stored"], "objects": df["objects"], "used": df["bytes_used"], "avail": df["max_avail"], "share": df["percent_used"],
                "full": pool.has(maps::pool_flags::FULL),
                "read_ops": rates.read_ops, "write_ops": rates.write_ops, "read_bytes": rates.read_bytes, "write_bytes": rates.write_bytes,
            })
        };
        map.pools.iter().map(row).collect()
    }

    fn log_view(&self) -> Value {
        let from = self.log.last().saturating_sub(4 * LOG_LINES as u64);
        let lines: Vec<_> = self.log.since(from).filter(|e| e.channel != "audit").collect();
        let row = |e: &&messages::LogEntry| {
            let level = log_level::tag(e.level).trim_matches(['[', ']']);
            json!({"at_s": e.stamp.sec, "from": e.name.to_string(), "level": level, "text": e.text.to_lossy()})
        };
        lines.iter().rev().take(LOG_LINES).map(row).collect()
    }
}
