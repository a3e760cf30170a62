//! Counters of daemons, by the paths under which they report them; latencies of our OSDs as histograms, too.

use super::{Kind, Page, name_of};
use crate::mgr::counters::{Counter, HISTOGRAM};
use crate::view::View;
use base::Clock;
use messages::mgr::perf_counter::{self, COUNTER, LONGRUNAVG, TIME};

/// Counters below this priority are shown nowhere.
const PRIORITY_MIN: u8 = perf_counter::PRIO_USEFUL;

/// A value in the unit that is shown: seconds for times.
fn shown(counter: &Counter, value: u64) -> f64 {
    if counter.kind & TIME != 0 { value as f64 / 1e9 } else { value as f64 }
}

impl View<'_> {
    pub(super) fn daemon_metrics(&self, page: &mut Page, _: Clock) {
        let help = "Health metrics for Ceph daemons";
        page.family("ceph_daemon_health_metrics", Kind::Gauge, help);
        for (name, daemon) in &self.manager.daemons {
            let label = [("ceph_daemon", name.as_str())];
            if name.starts_with("osd.") {
                let slow = self.slow_ops_of(name, daemon).0;
                page.put("ceph_daemon_health_metrics", Kind::Gauge, help, &[("type", "SLOW_OPS"), ("ceph_daemon", name)], slow.into());
                let pending = [("type", "PENDING_CREATING_PGS"), ("ceph_daemon", name.as_str())];
                page.put("ceph_daemon_health_metrics", Kind::Gauge, help, &pending, daemon.pending_creates.into());
            }
            let histogram = |path: &str| path.strip_prefix("osd.").is_some_and(|p| p.starts_with(HISTOGRAM));
            for (path, c) in daemon.perf.iter().filter(|(path, c)| c.priority >= PRIORITY_MIN && !histogram(path)) {
                let metric = name_of(path);
                if c.kind & LONGRUNAVG != 0 {
                    let help = format!("{} Total", c.description);
                    page.put(&format!("{metric}_sum"), Kind::Counter, &help, &label, shown(c, c.value));
                    page.put(&format!("{metric}_count"), Kind::Counter, &format!("{} Count", c.description), &label, c.count as f64);
                } else {
                    let kind = if c.kind & COUNTER != 0 { Kind::Counter } else { Kind::Gauge };
                    page.put(&metric, kind, &c.description, &label, shown(c, c.value));
                }
            }
            for (name, bins) in daemon.perf.histograms() {
                // The sum is the counter's of the same latency.
                let totals = daemon.perf.totals();
                let sum_ns = if name.contains("read") { totals.read.latency_ns } else { totals.write.latency_ns };
                let help = format!("Distribution of {} (Humboldt's OSDs only)", name.replace('_', " "));
                page.histogram(&format!("ceph_osd_{name}_seconds"), &help, &label, &bins, sum_ns as f64 / 1e9);
            }
        }
    }
}
