//! Reports to the manager: who we are, counters, the state of our groups.

use crate::config::Config;
use crate::event::{Effect, Level};
use crate::osd::Osd;
use crate::perf::{self, BIN_PRIORITY, BINS, C, COUNTERS, HISTOGRAMS, Kind, Perf};
use crate::shared::EventCx;
use base::{Clock, Stamp};
use denc::Encoder;
use messages::mgr::perf_counter;
use messages::{
    DaemonHealthMetric, MCommand, MMgrConfigure, MMgrOpen, MMgrReport, MOSDForceRecovery, MOSDScrub2, MPGStats, Message, PerfCounterType,
    RawMessage,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{Bytes, OsdStat, PgId, UTime, features};

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

impl Osd {
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
        let open = MMgrOpen { daemon_name: self.sh.whoami.to_string(), config, config_defaults: defaults.finish(), ..MMgrOpen::default() };
        cx.out.push(Effect::SendMgr(open.encode(features::SUPPORTED)));
    }

    pub(crate) fn mgr_message(&mut self, msg: &RawMessage, cx: &mut EventCx<'_>) {
        let result = match msg.kind {
            MMgrConfigure::KIND => MMgrConfigure::decode(msg).map(|m| {
                let first = self.mgr.period.is_none();
                self.mgr.period = Some(Duration::from_secs(m.stats_period_s.clamp(1, 3600).into()));
                self.mgr.threshold = m.stats_threshold;
                self.sh.perf_queries.set(&m.osd_perf_queries);
                if first {
                    self.report_now(cx);
                }
            }),
            MOSDScrub2::KIND => MOSDScrub2::decode(msg).map(|m| self.scrub_wanted(&m)),
            MOSDForceRecovery::KIND => MOSDForceRecovery::decode(msg).map(|m| self.force_recovery(&m, cx)),
            MCommand::KIND => MCommand::decode(msg).map(|m| self.command(None, &m, cx)),
            _ => Ok(()),
        };
        if let Err(error) = result {
            let text = format!("manager: {} that can't be read: {error}", messages::kind_name(msg.kind));
            cx.out.push(Effect::Log { level: Level::Warn, text });
        }
    }

    pub(crate) fn mgr_tick(&mut self, cx: &mut EventCx<'_>) {
        // A manager's period is in seconds, and so is the tick: half of one is early enough.
        let Some(period) = self.mgr.period.filter(|_| self.mgr.connected) else { return };
        let due = cx.clock.mono.since(self.mgr.last_report) + Duration::from_millis(500) >= period;
        if due || std::mem::take(&mut self.sh.report_soon) {
            self.report_now(cx);
        }
    }

    fn report_now(&mut self, cx: &mut EventCx<'_>) {
        self.mgr.last_report = cx.clock.mono;
        self.refresh_gauges();
        let report = self.counters_report(cx.clock);
        cx.out.push(Effect::SendMgr(report.encode(features::SUPPORTED)));
        self.stats_now(cx);
    }

    /// Tells the state of our groups, whatever the time is (`flush_pg_stats`); the number of the report.
    pub(crate) fn stats_now(&mut self, cx: &mut EventCx<'_>) -> u64 {
        let (stats, seq) = self.stats_report(cx);
        cx.out.push(Effect::SendMgr(stats));
        seq
    }

    pub(crate) fn refresh_gauges(&mut self) {
        let primary = self.pgs().filter(|pg| pg.peering.is_primary()).count() as u64;
        let all = self.sh.num_pgs as u64;
        let fs = self.sh.store.statfs();
        let perf = &mut self.sh.perf;
        for (c, v) in [
            (C::numpg, all),
            (C::numpg_primary, primary),
            (C::numpg_stray, all - primary),
            (C::heartbeat_to_peers, self.heartbeats.peers().len() as u64),
            (C::stat_bytes, fs.total),
            (C::stat_bytes_used, fs.used()),
            (C::stat_bytes_avail, fs.available),
        ] {
            perf.set(c, v);
        }
    }

    fn counters_report(&mut self, clock: Clock) -> MMgrReport {
        let threshold = self.mgr.threshold;
        let all: Vec<Reported> =
            (0..COUNTERS.len()).map(Reported::counter).chain((0..BINS * HISTOGRAMS.len()).map(Reported::bin)).collect();
        let wanted = |r: &Reported| u32::from(r.about.priority) >= threshold;
        // Values go in the order of their paths.
        let mut order: Vec<&Reported> = all.iter().filter(|r| wanted(r)).collect();
        order.sort_by(|a, b| a.about.path.cmp(&b.about.path));
        let told = std::mem::replace(&mut self.mgr.declared, order.iter().map(|r| r.number).collect());
        let again = std::mem::replace(&mut self.mgr.reported, true);
        let mut m = MMgrReport {
            daemon_name: self.sh.whoami.to_string(),
            declare: order.iter().filter(|r| !told.contains(&r.number)).map(|r| r.about.clone()).collect(),
            // No tasks of ours are shown to the manager; it hears so once.
            task_status: (!again).then(BTreeMap::new),
            // The manager reads values of all that it knows of: what is left out is taken back first.
            undeclare: all.iter().filter(|r| told.contains(&r.number) && !wanted(r)).map(|r| r.about.path.clone()).collect(),
            ..MMgrReport::default()
        };
        let mut e = Encoder::new(features::SUPPORTED);
        e.frame(1, 1, |e| {
            for reported in &order {
                let (value, count) = reported.value(&self.sh.perf);
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
        m.health = self.health(clock);
        m.metric_report = Some(self.sh.perf_queries.report());
        m
    }

    fn config_for_mgr(&self) -> Bytes {
        let mut e = Encoder::new(features::SUPPORTED);
        self.sh.config.encode_changed(&mut e);
        e.finish()
    }

    /// Requests that take too long.
    fn health(&self, clock: Clock) -> Vec<DaemonHealthMetric> {
        let late = Duration::from_secs_f64(self.sh.config.num("osd_op_complaint_time").max(1.0));
        let (mut slow, mut oldest) = (0_u64, Duration::ZERO);
        for (.., received, _) in self.pgs().flat_map(|pg| pg.unanswered()) {
            let age = clock.mono.since(received);
            if age > late {
                slow += 1;
                oldest = oldest.max(age);
            }
        }
        vec![DaemonHealthMetric { kind: 0, value: oldest.as_secs() << 32 | slow }, DaemonHealthMetric { kind: 1, value: 0 }]
    }

    fn stats_report(&mut self, cx: &mut EventCx<'_>) -> (RawMessage, u64) {
        self.mgr.seq += 1;
        let seq = u64::from(self.boot.up_from) << 32 | u64::from(self.mgr.seq);
        let mut osd_stat = OsdStat {
            statfs: self.sh.store.statfs(),
            hb_peers: self.heartbeats.peers(),
            hb_pingtime: self.heartbeats.times(cx.clock.mono),
            up_from: self.boot.up_from,
            seq,
            num_pgs: self.sh.num_pgs as u32,
            num_osds: 1,
            num_per_pool_osds: 1,
            num_per_pool_omap_osds: 1,
            ..OsdStat::default()
        };
        let mut found = Vec::new();
        if self.sh.damaged > 0 {
            found.push(format!("{} reads found damage since it started; see the cluster log, and scrub deeply", self.sh.damaged));
        }
        found.extend(self.sh.store.damage());
        if !self.damaged_groups.is_empty() {
            let groups: Vec<String> = self.damaged_groups.iter().map(|pg| pg.to_string()).collect();
            found.push(format!(
                "groups that can't be loaded and are not served until the OSD is stopped and `humboldt store repair` has left out what is damaged: {}",
                groups.join(" ")
            ));
        }
        if !found.is_empty() {
            osd_stat.os_alerts.insert(self.sh.whoami, [(READ_ERRORS.to_string(), found.join("; "))].into());
        }
        let mut pg_stat = BTreeMap::new();
        for pg in self.pgs.iter_mut().flatten().filter(|pg| pg.peering.is_primary()) {
            let stat = pg.report(&cx.with(&mut self.sh));
            osd_stat.snap_trim_queue_len += stat.snaptrimq_len as i32;
            pg_stat.insert(pg.pgid.pgid, stat);
        }
        let pools: BTreeSet<i64> = self.pgs().map(|pg| pg.pgid.pgid.pool).collect();
        let pool_stat = pools.into_iter().map(|id| (id, self.sh.store.pool_statfs(id))).collect();
        let m: MPGStats = MPGStats {
            fsid: self.cluster_fsid,
            osd_stat,
            pg_stat: pg_stat as BTreeMap<PgId, _>,
            epoch: self.sh.map.epoch,
            had_map_for: UTime::ZERO,
            pool_stat,
            ..MPGStats::default()
        };
        (m.encode(features::SUPPORTED), seq)
    }
}
