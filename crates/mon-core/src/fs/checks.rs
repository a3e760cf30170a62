//! What is wrong with file systems and their servers, for `ceph health`.

use crate::health::{Check, Checks, Severity};
use crate::view::View;
use maps::{Filesystem, MdsState};

/// What servers find wrong, by number: the check's name, and what it says of so many.
const METRICS: [(&str, &str); 15] = [
    ("MDS_TRIM", "server(s) behind on trimming their journals"),
    ("MDS_CLIENT_RECALL", "client(s) failing to respond to cache pressure"),
    ("MDS_CLIENT_LATE_RELEASE", "client(s) failing to respond to capability release"),
    ("MDS_CLIENT_RECALL_MANY", "server(s) with many clients failing to respond to cache pressure"),
    ("MDS_CLIENT_LATE_RELEASE_MANY", "server(s) with many clients failing to respond to capability release"),
    ("MDS_CLIENT_OLDEST_TID", "client(s) failing to advance their oldest request"),
    ("MDS_CLIENT_OLDEST_TID_MANY", "server(s) with clients failing to advance their oldest request"),
    ("MDS_DAMAGE", "server(s) report damaged metadata"),
    ("MDS_READ_ONLY", "server(s) are read only"),
    ("MDS_SLOW_REQUEST", "server(s) report slow requests"),
    ("MDS_CACHE_OVERSIZED", "server(s) report an oversized cache"),
    ("MDS_SLOW_METADATA_IO", "server(s) report slow metadata IOs"),
    ("MDS_CLIENTS_LAGGY", "client(s) laggy due to laggy OSDs"),
    ("MDS_CLIENTS_LAGGY_MANY", "server(s) with clients laggy due to laggy OSDs"),
    ("MDS_CLIENTS_BROKEN_ROOTSQUASH", "server(s) report clients that don't heed root_squash"),
];
/// A metric that is there for tests.
const DUMMY: u16 = 16;

/// `1 file system is` or `2 file systems are`.
fn file_systems(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 filesystem {one}") } else { format!("{n} filesystems {many}") }
}

impl View<'_> {
    pub(crate) fn fs_checks(&self, out: &mut Checks) {
        let map = &self.fs.map;
        let all: Vec<&Filesystem> = map.filesystems.values().collect();
        let mut add = |code: &'static str, severity, detail: Vec<String>, summary: &dyn Fn(usize) -> String| {
            if !detail.is_empty() {
                out.insert(code.into(), Check { severity, summary: summary(detail.len()), count: detail.len() as u64, detail });
            }
        };
        let lines = |wrong: &dyn Fn(&Filesystem) -> Option<String>| -> Vec<String> {
            all.iter().filter_map(|fs| wrong(fs).map(|text| format!("fs {} {text}", fs.mds.fs_name))).collect()
        };

        let damaged = all.iter().flat_map(|fs| fs.mds.damaged.iter().map(|rank| format!("fs {} mds.{rank} is damaged", fs.mds.fs_name)));
        add("MDS_DAMAGE", Severity::Error, damaged.collect(), &|n| format!("{n} mds daemon{} damaged", if n == 1 { "" } else { "s" }));
        let degraded = lines(&|fs| fs.mds.is_degraded().then(|| "is degraded".into()));
        add("FS_DEGRADED", Severity::Warn, degraded, &|n| file_systems(n, "is degraded", "are degraded"));
        let stuck = lines(&|fs| {
            let n = fs.mds.failed.iter().filter(|rank| map.replacement_for(fs, **rank).is_none()).count();
            (n > 0).then(|| format!("has {n} failed mds{}", if n == 1 { "" } else { "s" }))
        });
        add("FS_WITH_FAILED_MDS", Severity::Warn, stuck, &|n| file_systems(n, "has a failed mds daemon", "have a failed mds daemon"));
        let few = lines(&|fs| {
            let (have, want) = (fs.mds.in_ranks.len(), fs.mds.max_mds);
            ((have as i64) < i64::from(want)).then(|| format!("has {have} of {want} ranks online"))
        });
        add("MDS_UP_LESS_THAN_MAX", Severity::Warn, few, &|n| {
            file_systems(n, "has fewer ranks than max_mds", "have fewer ranks than max_mds")
        });
        let down = lines(&|fs| (fs.mds.up.is_empty() && fs.mds.max_mds > 0).then(|| "is offline: no MDS serves it".into()));
        add("MDS_ALL_DOWN", Severity::Error, down, &|n| file_systems(n, "is offline", "are offline"));
        let inline = lines(&|fs| fs.mds.inline_data_enabled.then(|| "keeps small files in their inodes".into()));
        add("FS_INLINE_DATA_DEPRECATED", Severity::Warn, inline, &|n| {
            file_systems(n, "uses inline_data, which is deprecated", "use inline_data, which is deprecated")
        });
        let missing = |fs: &Filesystem| {
            let have = map.standbys.len() + fs.mds.count_in(MdsState::STANDBY_REPLAY);
            (fs.mds.standby_count_wanted.max(0) as usize).saturating_sub(have)
        };
        let more = all.iter().map(|fs| missing(fs)).max().unwrap_or(0);
        let standby = (more > 0).then(|| format!("have {}; want {more} more", map.standbys.len()));
        add("MDS_INSUFFICIENT_STANDBY", Severity::Warn, standby.into_iter().collect(), &|_| "too few standby MDS daemons".into());
        self.metric_checks(out);
    }

    /// What servers said in their beacons.
    fn metric_checks(&self, out: &mut Checks) {
        for (gid, health) in &self.fs.health {
            let Some(info) = self.fs.map.daemon(*gid) else { continue };
            for metric in health.metrics.iter().filter(|m| m.kind != DUMMY) {
                let known = usize::from(metric.kind).checked_sub(1).and_then(|at| METRICS.get(at));
                let (code, what) = known.copied().unwrap_or(("MDS_UNKNOWN", "server(s) report what this monitor does not know"));
                let severity = if metric.severity == 0 { Severity::Error } else { Severity::Warn };
                let check =
                    out.entry(code.into()).or_insert_with(|| Check { severity, summary: String::new(), count: 0, detail: Vec::new() });
                let more: Vec<String> = metric.metadata.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                let line = format!("mds.{}(mds.{}): {} {}", info.name, info.rank, metric.message, more.join(", "));
                check.detail.push(line.trim_end().to_string());
                check.count = check.detail.len() as u64;
                check.summary = format!("{} {what}", check.detail.len());
            }
        }
    }
}
