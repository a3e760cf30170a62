//! Reports to the manager: our name and metadata, counters, the state of our groups.

use crate::config::Config;
use crate::control::Control;
use crate::event::Effect;
use crate::figures::{Counters, GroupStats, Slow};
use crate::joint::ToShard;
use crate::perf::{self, BIN_PRIORITY, BINS, COUNTERS, HISTOGRAMS, Kind, Perf};
use crate::shared::EventCx;
use base::{Clock, Stamp};
use denc::Encoder;
use messages::mgr::perf_counter;
use messages::{DaemonHealthMetric, MMgrConfigure, MMgrOpen, MMgrReport, MPGStats, Message, PerfCounterType, RawMessage};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;
use types::{Bytes, OsdStat, StorePerfStat, UTime, features};

/// The alert of a store that gave errors instead of data: a health check of this name.
const READ_ERRORS: &str = "BLUESTORE_SPURIOUS_READ_ERRORS";

/// The session with the active manager.
#[derive(Debug)]
pub struct MgrSession {
    connected: bool,
    /// How often to report; None until the manager has said it in this session.
    period: Option<Duration>,
    /// Counters below this priority are not reported.
    threshold: u32,
    /// True once the manager had a report.
    reported: bool,
    /// What counters the manager knows of, by their number: their values are in each report.
    declared: BTreeSet<usize>,
    last_report: Stamp,
    /// Of reports of statistics since the boot.
    seq: u32,
    /// The configuration as the manager was told it last.
    config_told: Bytes,
}

impl Default for MgrSession {
    fn default() -> Self {
        Self {
            connected: false,
            period: None,
            threshold: 5,
            reported: false,
            declared: BTreeSet::new(),
            last_report: Stamp(0),
            seq: 0,
            config_told: Bytes::new(),
        }
    }
}

/// All that a manager may be told of, in the order of the paths: values go in it.
static REPORTED: LazyLock<Vec<Reported>> = LazyLock::new(|| {
    let counters = (0..COUNTERS.len()).map(Reported::counter);
    let mut all: Vec<Reported> = counters.chain((0..BINS * HISTOGRAMS.len()).map(Reported::bin)).collect();
    all.sort_by(|a, b| a.about.path.cmp(&b.about.path));
    all
});

/// A counter, or a bin of a histogram, as managers know it. Bins are numbered behind the counters.
struct Reported {
    number: usize,
    about: PerfCounterType,
}

impl Reported {
    fn counter(i: usize) -> Self {
        let (name, kind, unit, priority, nick, description) = COUNTERS[i];
        let about = PerfCounterType {
            path: format!("osd.{name}"),
            description: description.into(),
            nick: nick.into(),
            kind: kind.bits(),
            priority,
            unit: if unit == 1 { perf_counter::UNIT_BYTES } else { perf_counter::UNIT_NONE },
        };
        Self { number: i, about }
    }
    fn bin(i: usize) -> Self {
        let about = PerfCounterType {
            path: format!("osd.{}", perf::bin_name(i / BINS, i % BINS)),
            kind: Kind::Counter.bits(),
            priority: BIN_PRIORITY,
            unit: perf_counter::UNIT_NONE,
            ..PerfCounterType::default()
        };
        Self { number: COUNTERS.len() + i, about }
    }
    /// The value, and the count of a mean.
    fn value(&self, perf: &Perf) -> (u64, u64) {
        match self.number.checked_sub(COUNTERS.len()) {
            None => perf.at(self.number),
            Some(i) => (perf.bin(i / BINS, i % BINS), 0),
        }
    }
}

impl Control {
    /// The shell has a session with the active manager.
    pub(crate) fn mgr_connected(&mut self, cx: &mut EventCx<'_>) {
        self.mgr.connected = true;
        self.mgr.period = None;
        self.mgr.reported = false;
        self.mgr.declared.clear();
        let mut defaults = Encoder::new(features::SUPPORTED);
        Config::encode_defaults(&mut defaults);
        let config = self.config_for_mgr();
        self.mgr.config_told = config.clone();
        let open = MMgrOpen { daemon_name: self.whoami.to_string(), config, config_defaults: defaults.finish(), ..MMgrOpen::default() };
        cx.out.push(Effect::SendMgr(open.encode(features::SUPPORTED)));
    }

    /// How often to report, and what. True if the manager says so for the first time: it is to have a report at once.
    #[must_use]
    pub(crate) fn configure_reports(&mut self, m: MMgrConfigure) -> bool {
        let is_first = self.mgr.period.is_none();
        self.mgr.period = Some(Duration::from_secs(m.stats_period_s.clamp(1, 3600).into()));
        self.mgr.threshold = m.stats_threshold;
        self.to_shard.push(ToShard::PerfQueries(m.osd_perf_queries));
        is_first
    }

    /// True if it is time for a report.
    #[must_use]
    pub(crate) fn mgr_tick(&mut self, now: Stamp) -> bool {
        // A manager's period is in seconds, and so is the tick: half of one is early enough.
        let Some(period) = self.mgr.period.filter(|_| self.mgr.connected) else { return false };
        let due = now.since(self.mgr.last_report) + Duration::from_millis(500) >= period;
        due || std::mem::take(&mut self.report_soon)
    }

    pub(crate) fn send_counters(&mut self, told: Counters, cx: &mut EventCx<'_>) {
        self.mgr.last_report = cx.clock.mono;
        let report = self.counters_report(told);
        cx.out.push(Effect::SendMgr(report.encode(features::SUPPORTED)));
    }

    /// Tells the state of our groups; the number of the report.
    pub(crate) fn send_stats(&mut self, told: GroupStats, cx: &mut EventCx<'_>) -> u64 {
        let (stats, seq) = self.stats_report(told, cx.clock);
        cx.out.push(Effect::SendMgr(stats));
        seq
    }

    fn counters_report(&mut self, told: Counters) -> MMgrReport {
        let threshold = self.mgr.threshold;
        let wanted = |r: &&Reported| u32::from(r.about.priority) >= threshold;
        let order = || REPORTED.iter().filter(wanted);
        let known = std::mem::replace(&mut self.mgr.declared, order().map(|r| r.number).collect());
        let again = std::mem::replace(&mut self.mgr.reported, true);
        let mut m = MMgrReport {
            daemon_name: self.whoami.to_string(),
            declare: order().filter(|r| !known.contains(&r.number)).map(|r| r.about.clone()).collect(),
            // No tasks of ours are shown to the manager; it hears so once.
            task_status: (!again).then(BTreeMap::new),
            // The manager reads values of all that it knows of: what is left out is taken back first.
            undeclare: REPORTED.iter().filter(|r| known.contains(&r.number) && !wanted(r)).map(|r| r.about.path.clone()).collect(),
            ..MMgrReport::default()
        };
        let mut e = Encoder::new(features::SUPPORTED);
        e.frame(1, 1, |e| {
            for reported in order() {
                let (value, count) = reported.value(&told.perf);
                e.u64(value);
                if reported.about.kind == Kind::TimeAvg.bits() {
                    e.u64(count);
                    e.u64(count);
                }
            }
        });
        m.packed = e.finish();
        let config = self.config_for_mgr();
        if config != self.mgr.config_told {
            self.mgr.config_told = config.clone();
            m.config = config;
        }
        m.health = health(told.slow);
        m.metric_report = Some(told.queries);
        m
    }

    fn config_for_mgr(&self) -> Bytes {
        let mut e = Encoder::new(features::SUPPORTED);
        self.config.encode_changed(&mut e);
        e.finish()
    }

    fn stats_report(&mut self, told: GroupStats, clock: Clock) -> (RawMessage, u64) {
        self.mgr.seq += 1;
        let seq = u64::from(self.boot.up_from) << 32 | u64::from(self.mgr.seq);
        let mut osd_stat = OsdStat {
            statfs: told.statfs,
            hb_peers: self.heartbeats.peers(),
            hb_pingtime: self.heartbeats.times(clock.mono),
            up_from: self.boot.up_from,
            seq,
            num_pgs: told.num_pgs as u32,
            snap_trim_queue_len: told.pgs.values().map(|stat| stat.snaptrimq_len as i32).sum(),
            num_osds: 1,
            num_per_pool_osds: 1,
            num_per_pool_omap_osds: 1,
            // Like BlueStore, this store has one moment for both.
            os_perf_stat: StorePerfStat { commit_latency_ns: told.commit_ns, apply_latency_ns: told.commit_ns },
            ..OsdStat::default()
        };
        if !told.damage.is_empty() {
            osd_stat.os_alerts.insert(self.whoami, [(READ_ERRORS.to_string(), told.damage.join("; "))].into());
        }
        let m = MPGStats {
            fsid: self.cluster_fsid,
            osd_stat,
            pg_stat: told.pgs,
            epoch: self.map.epoch,
            had_map_for: UTime::ZERO,
            pool_stat: told.pools,
            ..MPGStats::default()
        };
        (m.encode(features::SUPPORTED), seq)
    }
}

/// What the manager is told of requests that take too long.
fn health(slow: Slow) -> Vec<DaemonHealthMetric> {
    vec![DaemonHealthMetric { kind: 0, value: slow.oldest.as_secs() << 32 | slow.count }, DaemonHealthMetric { kind: 1, value: 0 }]
}
