//! What a stock monitor and a stock manager said to a stock OSD, said to ours: what it tells the manager is what the stock one told.
//!
//! `fixtures/osd-core/README.md` says where the conversation is from.

use crate::conversation;
use crate::conversation::Said;
use crate::replay::{Player, To};
use denc::{Decoder, Denc};
use messages::*;
use osd_core::{Event, Osd};
use std::collections::BTreeMap;
use types::{PgStat, UTime};

// Who says it.
const MONITOR: u8 = 0;
const MANAGER: u8 = 2;
const OSD_TO_MANAGER: u8 = 3;

/// Options whose defaults are not stock's: those that no ceph.conf leaves at its default here, options of our own, fewer objects' contexts kept by
/// stock, classes, what clients may have under way.
const OTHER_DEFAULTS: [&str; 13] = [
    "auto_repair",
    "cluster",
    "fsid",
    "keyring",
    "log_file",
    "log_to_stderr",
    "osd_class_default_list",
    "osd_class_load_list",
    "osd_client_message_size_cap",
    "osd_data",
    "osd_mgr_stats_period",
    "osd_objectstore",
    "osd_pg_object_context_cache_count",
];
/// Counters of a stock OSD that ours doesn't have.
const LACKING_COUNTERS: [&str; 5] = [
    "osd.op_before_queue_op_lat",
    "osd.op_r_latency_out_bytes_histogram",
    "osd.op_rw_latency_in_bytes_histogram",
    "osd.op_rw_latency_out_bytes_histogram",
    "osd.op_w_latency_in_bytes_histogram",
];

/// What one of the two OSDs told the manager, and when.
#[derive(Default)]
struct Told(Vec<(u64, RawMessage)>);

impl Told {
    fn of<M: Message>(&self) -> Vec<M> {
        self.0.iter().filter(|(_, raw)| raw.kind == M::KIND).map(|(_, raw)| M::decode(raw).unwrap()).collect()
    }
    /// How many sessions it began.
    fn sessions(&self) -> usize {
        self.of::<MMgrOpen>().len()
    }
    /// Kinds in their order, each followed by another one.
    fn turns(&self) -> Vec<Vec<&'static str>> {
        let sessions = self.kinds();
        // A session, as its opening and the rounds behind it: all of them are the same.
        sessions
            .split(|kind| *kind == "MMgrOpen")
            .map(|rounds| {
                let mut rounds: Vec<&[&str]> = rounds.chunks(2).collect();
                rounds.dedup();
                rounds.concat()
            })
            .collect()
    }
    fn kinds(&self) -> Vec<&'static str> {
        self.0.iter().map(|(_, raw)| kind_name(raw.kind)).collect()
    }
    /// Counters of each session.
    fn counters(&self) -> Vec<Counters> {
        let mut all = Vec::new();
        for (_, raw) in &self.0 {
            match raw.kind {
                MMgrOpen::KIND => all.push(Counters::default()),
                MMgrReport::KIND => all.last_mut().expect("a session begins with its opening").take(&MMgrReport::decode(raw).unwrap()),
                _ => {}
            }
        }
        all
    }
}

/// Counters as a manager reads them, report by report.
#[derive(Default)]
struct Counters {
    types: BTreeMap<String, PerfCounterType>,
    /// Also those that were taken back.
    ever: BTreeMap<String, PerfCounterType>,
    /// How many a report had values of.
    known: Vec<usize>,
    /// The last values.
    values: BTreeMap<String, u64>,
}

impl Counters {
    fn take(&mut self, m: &MMgrReport) {
        for path in &m.undeclare {
            assert!(self.types.remove(path).is_some(), "{path} was never declared");
        }
        for t in &m.declare {
            self.ever.insert(t.path.clone(), t.clone());
            assert!(self.types.insert(t.path.clone(), t.clone()).is_none(), "{} is declared twice", t.path);
        }
        let d = &mut Decoder::new(m.packed.clone());
        d.frame("counters", 1, |d, _| {
            for (path, t) in &self.types {
                self.values.insert(path.clone(), d.u64()?);
                if t.kind & perf_counter::LONGRUNAVG != 0 {
                    let (before, after) = (d.u64()?, d.u64()?);
                    assert_eq!(before, after, "nobody counts meanwhile");
                }
            }
            assert!(d.is_empty(), "values of more counters than were declared");
            Ok(())
        })
        .unwrap();
        self.known.push(self.types.len());
    }
}

/// Pairs of texts as MMgrOpen has them.
fn names(defaults: &types::Bytes) -> BTreeMap<String, String> {
    BTreeMap::from_bytes(defaults).unwrap()
}

/// Ours hears what the stock one heard, at the same times.
fn replay(said: &[Said]) -> (Osd, Told) {
    let mut ours = Player::boot(said, &[]);
    for s in said {
        ours.tick_until(s.at_ms);
        let event = match (s.who, s.raw.kind) {
            (MONITOR, _) => ours.of_monitor(&s.raw, &[MOSDPGCreate2::KIND, MConfig::KIND]),
            // It dials when the stock one did.
            (OSD_TO_MANAGER, MMgrOpen::KIND) => Some(Event::MgrConnected),
            (MANAGER, _) => Some(Event::Mgr(s.raw.clone())),
            // Said by the stock one.
            _ => None,
        };
        if let Some(event) = event {
            ours.hear(s.at_ms, event);
        }
    }
    let told = ours.told.into_iter().filter(|(_, to, _)| *to == To::Manager).map(|(ms, _, raw)| (ms, raw)).collect();
    (ours.osd, Told(told))
}

/// A group's statistics without what depends on when exactly something happened.
fn timeless(s: &PgStat) -> PgStat {
    let zero = UTime::ZERO;
    let mut out = PgStat {
        reported_seq: 0,
        reported_epoch: 0,
        last_scrub_stamp: zero,
        last_deep_scrub_stamp: zero,
        last_clean_scrub_stamp: zero,
        last_fresh: zero,
        last_change: zero,
        last_active: zero,
        last_peered: zero,
        last_clean: zero,
        last_unstale: zero,
        last_undegraded: zero,
        last_fullsized: zero,
        last_became_active: zero,
        last_became_peered: zero,
        last_scrub_duration_s: 0,
        scrub_duration_s: 0.0,
        ..s.clone()
    };
    out.scrub_sched_status.scheduled_at = zero;
    out
}

#[test]
fn what_a_stock_osd_tells_its_manager_ours_tells_it() {
    let said = conversation::read("osd-core/manager-18.2.7.msgs");
    let stock = Told(said.iter().filter(|s| s.who == OSD_TO_MANAGER).map(|s| (s.at_ms, s.raw.clone())).collect());
    let (osd, ours) = replay(&said);
    assert!(osd.is_up());

    // It says hello twice, and reports counters and groups by turns from when it is told how; ours also reports what has just changed.
    assert_eq!((ours.turns(), ours.sessions()), (stock.turns(), stock.sessions()));
    assert!(ours.0.len() >= stock.0.len(), "{:?} where stock says {:?}", ours.kinds(), stock.kinds());
    let openings = (stock.of::<MMgrOpen>(), ours.of::<MMgrOpen>());
    for (a, b) in openings.0.iter().zip(&openings.1) {
        assert_eq!((&b.daemon_name, &b.service_name, &b.service), (&a.daemon_name, &a.service_name, &a.service));
        let (theirs, mine) = (names(&a.config_defaults), names(&b.config_defaults));
        let other: Vec<&str> = mine.iter().filter(|(k, v)| theirs.get(*k) != Some(v)).map(|(k, _)| k.as_str()).collect();
        assert_eq!(other, OTHER_DEFAULTS);
    }

    // The counters that it has are stock's, and nothing of a stock OSD's own that is reported is missing.
    for (a, b) in stock.counters().iter().zip(&ours.counters()) {
        for (path, t) in &b.ever {
            assert_eq!(Some(t), a.ever.get(path), "{path}");
        }
        let lacking: Vec<&str> = a.ever.keys().filter(|p| p.starts_with("osd.") && !b.ever.contains_key(*p)).map(String::as_str).collect();
        assert_eq!(lacking, LACKING_COUNTERS.iter().copied().filter(|p| a.ever.contains_key(*p)).collect::<Vec<_>>());
        // A higher threshold takes most of them back.
        let fewer = |known: &[usize]| known.first() > known.last();
        assert_eq!(fewer(&b.known), fewer(&a.known), "{:?} where stock had {:?}", b.known, a.known);
        let low = b.types.values().filter(|t| t.priority < 8).count();
        assert_eq!(low > 0, a.types.values().any(|t| t.priority < 8));
    }
    assert!(stock.counters()[0].known.last() < stock.counters()[0].known.first(), "the threshold was raised");
    // Everything else in these reports.
    let told = (stock.of::<MMgrReport>(), ours.of::<MMgrReport>());
    for m in told.0.iter().chain(&told.1) {
        assert_eq!((m.daemon_name.as_str(), m.service_name.as_str(), &m.daemon_status), ("0", "", &None));
        assert!(m.osd_perf_reports.is_empty());
    }
    let (first, mine) = (&told.0[0], &told.1[0]);
    assert_eq!((&mine.health, &mine.task_status, &mine.metric_report), (&first.health, &first.task_status, &first.metric_report));
    // The option that the monitors changed is told once, after the manager has heard all options at the opening.
    let changed = |reports: &[MMgrReport]| reports.iter().filter(|m| !m.config.is_empty()).count();
    let has = |m: &MMgrReport| m.config.windows(19).any(|w| w == b"osd_op_history_size");
    assert_eq!((changed(&told.0), changed(&told.1)), (1, 1));
    assert!(told.0.iter().any(has) && told.1.iter().any(has));

    // Groups: the same ones in the same states, each with the same figures.
    let told = (stock.of::<MPGStats>(), ours.of::<MPGStats>());
    for (who, reports) in [("stock", &told.0), ("ours", &told.1)] {
        for (n, m) in reports.iter().enumerate() {
            let s = &m.osd_stat;
            assert_eq!((m.fsid, m.paxos, m.had_map_for), (told.0[0].fsid, told.0[0].paxos, UTime::ZERO), "{who}");
            assert_eq!((s.up_from, s.seq, s.num_osds), (5, 5 << 32 | (n as u64 + 1), 1), "{who}");
            assert_eq!(s.num_pgs as usize, m.pg_stat.len(), "{who}");
            assert_eq!((&s.hb_peers, s.snap_trim_queue_len, s.num_shards_repaired), (&Vec::new(), 0, 0), "{who}");
            assert!(s.os_alerts.values().all(BTreeMap::is_empty), "{who}: {:?}", s.os_alerts);
            // Only ours counts by pool: a memstore doesn't.
            assert_eq!(s.num_per_pool_osds as usize, usize::from(who == "ours"));
        }
    }
    let (first, mine) = (&told.0[0].pg_stat, &told.1[0].pg_stat);
    assert_eq!((mine.len(), mine.keys().collect::<Vec<_>>()), (12, first.keys().collect()));
    let (last, mine) = (told.0.last().unwrap(), told.1.last().unwrap());
    assert_eq!((mine.epoch, mine.pg_stat.len()), (last.epoch, 4));
    for (id, theirs) in &last.pg_stat {
        assert_eq!(timeless(&mine.pg_stat[id]), timeless(theirs), "{id}");
    }
    // What the manager wanted scrubbed was; stock's had not come to the end when the first pool went.
    let wanted =
        said.iter().find(|s| s.who == MANAGER && s.raw.kind == MOSDScrub2::KIND).map(|s| MOSDScrub2::decode(&s.raw).unwrap()).unwrap();
    let done = |reports: &[MPGStats]| {
        let scrubbed = |pg: &types::SpgId| {
            let stamps: Vec<UTime> = reports.iter().filter_map(|m| Some(m.pg_stat.get(&pg.pgid)?.last_scrub_stamp)).collect();
            stamps.first() < stamps.last()
        };
        wanted.pgs.iter().filter(|pg| scrubbed(pg)).count()
    };
    assert!(done(&told.0) > 0 && (wanted.pgs.len(), done(&told.1)) == (12, 12));
}
