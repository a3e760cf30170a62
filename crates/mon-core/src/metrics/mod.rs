//! What Prometheus reads: the state of the cluster in its text format, under the names, types and labels of the `prometheus` module of Ceph's
//! manager and, for counters of daemons, of `ceph-exporter`.
//!
//! All of it comes from the maps and from what daemons reported. Holds the text format (here), what the maps say (`cluster`), pools and their
//! groups (`pools`), and the counters of daemons (`daemons`). Absent: HTTP; that is the shell's.
//!
//! Source of the names: the page of a manager of 16.2, and 18.2 `src/pybind/mgr/prometheus/module.py` (names and labels only).

mod cluster;
mod daemons;
mod pools;

use crate::view::View;
use base::Clock;
use std::collections::BTreeMap;
use std::fmt::Write;

/// How values of a name are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
    Untyped,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Untyped => "untyped",
        }
    }
}

/// The values of one name.
#[derive(Debug)]
struct Family {
    kind: Kind,
    help: String,
    rows: String,
}

/// All names, sorted.
#[derive(Debug, Default)]
struct Page(BTreeMap<String, Family>);

/// `{a="b",c="d"}`, or nothing.
fn labels_text(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

impl Page {
    /// Adds a value.
    fn put(&mut self, name: &str, kind: Kind, help: &str, labels: &[(&str, &str)], value: f64) {
        let row = format!("{name}{} {value:?}\n", labels_text(labels));
        self.family(name, kind, help).rows += &row;
    }
    fn family(&mut self, name: &str, kind: Kind, help: &str) -> &mut Family {
        self.0.entry(name.into()).or_insert_with(|| Family {
            kind,
            help: help.replace('\\', "\\\\").replace('\n', " "),
            rows: String::new(),
        })
    }
    /// Adds a histogram: its bounds with how many lie at or below each and above the one before, and the sum of all, in seconds.
    fn histogram(&mut self, name: &str, help: &str, labels: &[(&str, &str)], bins: &[(u64, u64)], sum_s: f64) {
        let mut rows = String::new();
        let mut below = 0;
        for (bound, n) in bins {
            below += n;
            let le = if *bound == u64::MAX { "+Inf".into() } else { format!("{:?}", *bound as f64 / 1e9) };
            let mut with = labels.to_vec();
            with.push(("le", &le));
            let _ = writeln!(rows, "{name}_bucket{} {:?}", labels_text(&with), below as f64);
        }
        let _ = writeln!(rows, "{name}_sum{} {sum_s:?}", labels_text(labels));
        let _ = writeln!(rows, "{name}_count{} {:?}", labels_text(labels), below as f64);
        self.family(name, Kind::Histogram, help).rows += &rows;
    }
    fn text(&self) -> String {
        let mut out = String::new();
        for (name, f) in &self.0 {
            // A name without values says that it has none.
            let _ = write!(out, "# HELP {name} {}\n# TYPE {name} {}\n{}", f.help, f.kind.name(), f.rows);
        }
        out
    }
}

/// A path of a counter as a name of Prometheus: `osd.op_w` is `ceph_osd_op_w`.
fn name_of(path: &str) -> String {
    let path = path.replace("::", "_").replace('+', "_plus");
    let path = path.strip_suffix('-').map_or(path.clone(), |p| format!("{p}_minus"));
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    format!("ceph_{}", path.chars().map(allowed).collect::<String>())
}

impl View<'_> {
    /// The page of metrics.
    pub fn metrics(&self, clock: Clock) -> String {
        let mut page = Page::default();
        self.health_metrics(&mut page);
        self.map_metrics(&mut page);
        self.service_metrics(&mut page);
        self.pool_metrics(&mut page);
        self.daemon_metrics(&mut page, clock);
        page.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let mut page = Page::default();
        page.put("ceph_b", Kind::Gauge, "of b", &[("x", "a\"b\\c\nd")], 1.0);
        page.put("ceph_a", Kind::Counter, "of a", &[], 2.5);
        page.histogram("ceph_h_seconds", "of h", &[("d", "osd.0")], &[(64_000, 1), (1_000_000, 2), (u64::MAX, 1)], 0.25);
        assert_eq!(
            page.text(),
            "# HELP ceph_a of a\n# TYPE ceph_a counter\nceph_a 2.5\n\
             # HELP ceph_b of b\n# TYPE ceph_b gauge\nceph_b{x=\"a\\\"b\\\\c\\nd\"} 1.0\n\
             # HELP ceph_h_seconds of h\n# TYPE ceph_h_seconds histogram\n\
             ceph_h_seconds_bucket{d=\"osd.0\",le=\"6.4e-5\"} 1.0\nceph_h_seconds_bucket{d=\"osd.0\",le=\"0.001\"} 3.0\n\
             ceph_h_seconds_bucket{d=\"osd.0\",le=\"+Inf\"} 4.0\nceph_h_seconds_sum{d=\"osd.0\"} 0.25\nceph_h_seconds_count{d=\"osd.0\"} 4.0\n"
        );
        assert_eq!(name_of("osd.op_w"), "ceph_osd_op_w");
        assert_eq!(name_of("throttle-osd_client_bytes.get"), "ceph_throttle_osd_client_bytes_get");
    }
}
