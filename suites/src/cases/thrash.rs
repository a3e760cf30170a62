//! Upstream's random workload (`ceph_test_rados`, which compares all that it reads with a model of its own) on three copies, while OSDs die, hang, move
//! out and in, change weight and affinity, and the pool its groups, copies and places. Afterwards the cluster is clean within six minutes and a deep
//! scrub finds nothing.
//!
//! [`Deed`] is what may happen; a number draws the deeds and their targets, so that a run that failed is drawn again. When each comes is the machine's.

use super::Case;
use super::copies::{groups, kill};
use super::scrub::all_scrubbed;
use crate::clients::Release::{self, Pacific, Reef};
use crate::cluster::{self, Cluster};
use crate::pace;
use crate::run::{Output, meanwhile, run, until};
use crate::share;
use crate::workload::{self, MIXES, judge};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[Case {
    name: "three_copies_under_upstreams_workload",
    needs: &[Pacific, Reef],
    run: || thrash(mixes(), 15_000, 1, Plan::All).map(drop),
}];

/// All of them; in a short run half, by turns: the case is the longest of all, and comes with every third change.
fn mixes() -> &'static str {
    match (cluster::is_short_run(), share::turn() % 2) {
        (false, _) => "ABDE",
        (true, 0) => "AD",
        (true, _) => "BE",
    }
}

/// The `ceph` command that changes the cluster: 16.2's starts fastest.
const R: Release = Pacific;
const OSDS: u64 = 4;
const POOL: &str = "thrashed";
/// From the end of the faults until every group is clean.
const CLEAN: Duration = Duration::from_secs(360);
/// How long a run of the workload may take before it counts as hung.
const HUNG: Duration = Duration::from_secs(1800);

/// How many objects and their sizes: upstream's suites have both.
type Sizes = [&'static str; 2];
const SMALL: Sizes = ["--objects 256 --max-in-flight 32", workload::SMALL];
const BIG: Sizes = ["--objects 50 --max-in-flight 16", "--size 4000000 --min-stride-size 400000 --max-stride-size 800000"];

/// Numbers out of one: the same again for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Which deeds are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    All,
    /// One OSD is killed every 5 to 10 s, now and then two at once.
    Kills,
}

impl Plan {
    fn pause(self, dice: &mut Dice) -> Duration {
        Duration::from_millis(match self {
            Self::All => 1500 + dice.below(3000),
            Self::Kills => 5000 + dice.below(5000),
        })
    }
    fn deed(self, dice: &mut Dice) -> Deed {
        let osd = dice.below(OSDS);
        match self {
            Self::All => deed(dice, osd),
            Self::Kills if dice.below(8) == 0 => Deed::KillTwo { osd },
            Self::Kills => Deed::Kill { osd },
        }
    }
}

/// What happens to the cluster.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Kill {
        osd: u64,
    },
    KillTwo {
        osd: u64,
    },
    Terminate {
        osd: u64,
    },
    Hang {
        osd: u64,
        ms: u64,
    },
    OutAndIn {
        osd: u64,
        ms: u64,
    },
    Reweight {
        osd: u64,
        percent: u64,
    },
    Affinity {
        osd: u64,
        percent: u64,
    },
    Upmap {
        group: u64,
    },
    Groups {
        count: u64,
    },
    Copies {
        size: u64,
    },
    Full,
    Scrub {
        how: &'static str,
    },
    /// It hangs while the others get on without it, until the monitor has none of the maps that it lacks.
    MapGap {
        osd: u64,
    },
}

fn deed(dice: &mut Dice, osd: u64) -> Deed {
    match dice.below(20) {
        0..=4 => Deed::Kill { osd },
        5 => Deed::MapGap { osd },
        6 => Deed::KillTwo { osd },
        7 => Deed::Terminate { osd },
        8 => Deed::Hang { osd, ms: 500 + dice.below(9500) },
        9..=10 => Deed::OutAndIn { osd, ms: 3000 + dice.below(9000) },
        11..=12 => Deed::Reweight { osd, percent: 30 + dice.below(71) },
        13..=14 => Deed::Affinity { osd, percent: 50 * dice.below(3) },
        15..=16 => Deed::Upmap { group: dice.below(64) },
        17 => Deed::Groups { count: [4, 6, 8, 13, 16][dice.below(5) as usize] },
        18 => Deed::Copies { size: 2 + dice.below(2) },
        19 if dice.below(2) == 0 => Deed::Full,
        _ => Deed::Scrub { how: ["scrub", "deep-scrub"][dice.below(2) as usize] },
    }
}

/// The cluster, and whether the thrashing is to end.
struct Thrasher<'a> {
    c: &'a Cluster,
    over: &'a AtomicBool,
    plan: Plan,
    dice: Dice,
    started: Instant,
    kills: u32,
    gaps: u32,
    deeds: u32,
    /// What was done when.
    course: String,
}

impl Thrasher<'_> {
    /// True if the workload went on for so long.
    fn wait(&self, limit: Duration) -> bool {
        !meanwhile(limit, || self.over.load(Ordering::Relaxed))
    }
    fn ceph(&self, line: &str) -> Result<String> {
        self.c.must(R, &format!("ceph {line}"))
    }
    /// OSDs that don't run are started again by `humboldt up`.
    fn wait_running(&self, what: &str) -> Result<()> {
        let all = until(Duration::from_secs(90), || (0..OSDS).all(|osd| self.c.pid_of_osd(osd as usize).is_some()));
        ensure!(all, "{what}: an OSD was not started again:\n{}", self.c.log());
        Ok(())
    }
    fn go_on(&mut self) -> Result<()> {
        loop {
            let pause = self.plan.pause(&mut self.dice);
            if !self.wait(pause) {
                return Ok(());
            }
            let deed = self.plan.deed(&mut self.dice);
            self.course += &format!("{:7.1} s: {deed:?}\n", self.started.elapsed().as_secs_f64());
            self.carry_out(deed).with_context(|| format!("{deed:?}"))?;
            self.deeds += 1;
        }
    }
    fn carry_out(&mut self, deed: Deed) -> Result<()> {
        match deed {
            Deed::Kill { osd } => {
                kill(self.c, &[osd as usize])?;
                self.kills += 1;
                self.wait_running("kill")?;
            }
            Deed::KillTwo { osd } => {
                kill(self.c, &[osd as usize, ((osd + 1) % OSDS) as usize])?;
                self.kills += 2;
                self.wait_running("kill of two")?;
            }
            Deed::Terminate { osd } => {
                let pid = self.c.pid_of_osd(osd as usize).context("it runs")?;
                signal(pid, "TERM")?;
                let gone = until(Duration::from_secs(30), || self.c.pid_of_osd(osd as usize) != Some(pid));
                ensure!(gone, "osd.{osd} does not end by SIGTERM:\n{}", self.c.log());
                self.wait_running("SIGTERM")?;
            }
            Deed::Hang { osd, ms } => {
                let pid = self.c.pid_of_osd(osd as usize).context("it runs")?;
                signal(pid, "STOP")?;
                self.wait(Duration::from_millis(ms));
                signal(pid, "CONT")?;
            }
            Deed::OutAndIn { osd, ms } => {
                self.ceph(&format!("osd out {osd}"))?;
                self.wait(Duration::from_millis(ms));
                self.ceph(&format!("osd in {osd}"))?;
            }
            Deed::Reweight { osd, percent } => drop(self.ceph(&format!("osd reweight {osd} {}", percent as f64 / 100.0))?),
            Deed::Affinity { osd, percent } => drop(self.ceph(&format!("osd primary-affinity {osd} {}", percent as f64 / 100.0))?),
            Deed::Upmap { group } => self.upmap(group)?,
            Deed::Groups { count } => {
                self.ceph(&format!("osd pool set {POOL} pg_num {count}"))?;
                self.ceph(&format!("osd pool set {POOL} pgp_num {count}"))?;
            }
            Deed::Copies { size } => drop(self.ceph(&format!("osd pool set {POOL} size {size}"))?),
            Deed::Full => {
                self.ceph("osd set-full-ratio 0.0001")?;
                self.wait(Duration::from_secs(1));
                self.ceph("osd set-full-ratio 0.95")?;
            }
            Deed::Scrub { how } => drop(self.ceph(&format!("osd pool {how} {POOL}"))?),
            Deed::MapGap { osd } => self.map_gap(osd)?,
        }
        Ok(())
    }
    fn map_gap(&mut self, osd: u64) -> Result<()> {
        let pid = self.c.pid_of_osd(osd as usize).context("it runs")?;
        signal(pid, "STOP")?;
        let known = self.report("osdmap_last_committed")?;
        let forgot = self.forget_maps(osd, known);
        // It is dead by its own will when it is let go: `humboldt up` starts it again, with the maps that it had.
        signal(pid, "KILL")?;
        self.kills += 1;
        self.gaps += u32::from(forgot?);
        self.wait_running("a gap in the maps")?;
        self.ceph(&format!("osd in {osd}"))?;
        Ok(())
    }
    /// Waits until the monitor's oldest map is newer than `known`. Maps are kept for groups that are not clean: the OSD is out meanwhile. False: the
    /// workload was over before.
    fn forget_maps(&self, osd: u64, known: u64) -> Result<bool> {
        self.ceph(&format!("osd down {osd}"))?;
        self.ceph(&format!("osd out {osd}"))?;
        let since = Instant::now();
        while self.report("osdmap_first_committed")? <= known {
            ensure!(
                !pace::is_over(since, CLEAN),
                "the monitor keeps maps up to {known}:\n{}\n{}",
                self.ceph("-s")?,
                self.ceph("pg dump pgs_brief")?
            );
            if !self.wait(Duration::from_millis(500)) {
                return Ok(false);
            }
            // Each is a map.
            self.ceph("osd set noscrub")?;
            self.ceph("osd unset noscrub")?;
        }
        Ok(true)
    }
    fn report(&self, field: &str) -> Result<u64> {
        let report: Value = serde_json::from_str(&self.ceph("report")?)?;
        report[field].as_u64().with_context(|| format!("`ceph report` tells no {field}"))
    }
    /// Moves one member of a group to an OSD that has none of it, or takes such a move back.
    fn upmap(&mut self, group: u64) -> Result<()> {
        let pgs = groups(self.c)?;
        let pg = &pgs[group as usize % pgs.len()];
        let (pgid, up) = (pg["pgid"].as_str().context("pgid")?, pg["up"].as_array().context("up")?);
        let up: Vec<u64> = up.iter().filter_map(Value::as_u64).collect();
        let Some(to) = (0..OSDS).find(|osd| !up.contains(osd)) else { return Ok(()) };
        let line = match self.dice.below(3) {
            0 => format!("osd rm-pg-upmap-items {pgid}"),
            _ => format!("osd pg-upmap-items {pgid} {} {to}", up[self.dice.below(up.len() as u64) as usize]),
        };
        // The group may be merged away by now.
        self.c.client(R, &format!("ceph {line}"))?;
        Ok(())
    }
    /// Takes back what keeps groups from being clean, and waits until all are.
    fn heal(&self) -> Result<()> {
        for osd in 0..OSDS {
            for line in [format!("osd in {osd}"), format!("osd reweight {osd} 1"), format!("osd primary-affinity {osd} 1")] {
                self.ceph(&line)?;
            }
        }
        self.ceph(&format!("osd pool set {POOL} size 3"))?;
        let healed = Instant::now();
        let clean = until(CLEAN, || self.is_clean().unwrap_or(false));
        ensure!(clean, "not clean:\n{}\n{}\n{}", self.ceph("-s")?, self.ceph("pg dump pgs_brief")?, self.c.log());
        println!("  clean {:.0} s after the last deed", healed.elapsed().as_secs_f64());
        Ok(())
    }
    fn is_clean(&self) -> Result<bool> {
        let map: Value = serde_json::from_str(&self.ceph("osd dump -f json")?)?;
        let epoch = map["epoch"].as_u64().context("an epoch")?;
        let up = map["osds"].as_array().context("osds")?.iter().filter(|osd| osd["up"] == 1).count();
        let is_clean = |pg: &Value| {
            let state = pg["state"].as_str().unwrap_or_default();
            let whole = pg["acting"].as_array().is_some_and(|acting| acting.len() == 3);
            pg["reported_epoch"].as_u64().is_some_and(|e| e >= epoch)
                && state.starts_with("active+clean")
                && !state.contains("wait")
                && whole
        };
        let pool = &map["pools"].as_array().context("pools")?[0];
        let settled = pool["pg_num"] == pool["pg_num_target"] && pool["pg_placement_num"] == pool["pg_placement_num_target"];
        let pgs = groups(self.c)?;
        Ok(up == OSDS as usize && settled && pool["pg_num"] == pgs.len() as u64 && pgs.iter().all(is_clean))
    }
    /// Every copy of every object is what the others are.
    fn scrub(&self) -> Result<()> {
        let done = all_scrubbed(CLEAN, || groups(self.c), || self.ceph(&format!("osd pool deep-scrub {POOL}")).map(drop))?;
        ensure!(done, "not every group was scrubbed:\n{}", self.ceph("pg dump pgs_brief")?);
        let health = self.ceph("health detail")?;
        ensure!(!health.contains("PG_DAMAGED") && !health.contains("SCRUB_ERRORS"), "the scrub found:\n{health}");
        Ok(())
    }
}

fn signal(pid: u32, name: &str) -> Result<()> {
    ensure!(Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status()?.success(), "kill -{name} {pid}");
    Ok(())
}

/// One run of the workload.
fn workload(c: &Cluster, mix: char, ops: u64) -> Result<Output> {
    let ops_of = MIXES.iter().find(|known| known.letter == mix).with_context(|| format!("there is no mix {mix}"))?.ops();
    // Big objects have a twentieth of the operations.
    let (sizes, ops) = if mix == 'E' { (BIG, ops.div_ceil(20)) } else { (SMALL, ops) };
    // Reads of one mix go to any member, those of another to the nearest one.
    let reads = match mix {
        'B' => " --balance-reads",
        'D' => " --localize-reads",
        _ => "",
    };
    let line = format!("--pool {POOL} --max-ops {ops} --max-seconds {} {} {ops_of}{reads}", HUNG.as_secs(), sizes.join(" "));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").context("this machine's name")?;
    let at = format!("--crush_location=host={}", host.trim().split('.').next().unwrap_or_default());
    run(Reef.command(&c.conf, "ceph_test_rados").env("CEPH_ARGS", at).args(line.split(' ')), HUNG)
}

/// `ops` operations of each of these mixes; `seed` draws the deeds. How many kills there were.
fn thrash(mixes: &str, ops: u64, seed: u64, plan: Plan) -> Result<u32> {
    R.install()?;
    Reef.install_tests()?;
    let osds = OSDS.to_string();
    let c = Cluster::start("thrash", &["--store", "block", "--size", "4G", "--osds", &osds, "--processes"])?;
    for line in [
        // Short logs: a member that was away for long is filled by backfill, and places for it are refused now and then.
        "ceph config set osd osd_min_pg_log_entries 30",
        "ceph config set osd osd_max_pg_log_entries 100",
        "ceph config set osd osd_debug_reject_backfill_probability 0.3",
        "ceph config set osd osd_backfill_retry_interval 2",
        "ceph config set osd osd_recovery_retry_interval 2",
        "ceph config set osd osd_max_markdown_count 1000",
        // Few maps are kept: an OSD that was away for long finds those gone that it lacks.
        "ceph config set mon mon_min_osdmap_epochs 10",
        "ceph config set osd osd_beacon_report_interval 2",
        &format!("ceph osd pool create {POOL} 8"),
        &format!("ceph osd pool set {POOL} size 3"),
        &format!("ceph osd pool set {POOL} min_size 2"),
    ] {
        c.must(R, line)?;
    }
    let (mut deeds, mut kills, mut gaps) = (0, 0, 0);
    for (i, mix) in mixes.chars().enumerate() {
        let over = AtomicBool::new(false);
        let mut thrasher = Thrasher {
            c: &c,
            over: &over,
            plan,
            dice: Dice(seed + i as u64 * 1000),
            started: Instant::now(),
            kills: 0,
            gaps: 0,
            deeds: 0,
            course: String::new(),
        };
        let out = std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                let out = workload(&c, mix, ops);
                over.store(true, Ordering::Relaxed);
                out
            });
            let thrashed = thrasher.go_on();
            let out = load.join().expect("the load does not panic")?;
            thrashed.map(|()| out)
        })?;
        println!("  mix {mix}: {} deeds, {} kills in {:.0} s", thrasher.deeds, thrasher.kills, thrasher.started.elapsed().as_secs_f64());
        let told = c.dir.join(format!("mix-{mix}.txt"));
        std::fs::write(&told, [&*thrasher.course, &*c.log(), &*out.stdout, &*out.stderr].concat())?;
        judge(&out).with_context(|| format!("mix {mix}, seed {seed}, all of it in {}", told.display()))?;
        thrasher.heal().with_context(|| format!("mix {mix}, seed {seed}"))?;
        thrasher.scrub().with_context(|| format!("mix {mix}, seed {seed}"))?;
        (deeds, kills, gaps) = (deeds + thrasher.deeds, kills + thrasher.kills, gaps + thrasher.gaps);
    }
    println!(
        "  {ops} operations of each of {mixes}, {deeds} deeds, {kills} kills, {gaps} gaps in maps: 0 errors, clean, and no copy differs"
    );
    c.stop().map(|()| kills)
}

/// The verb: a cluster of its own for each of so many seeds.
pub fn verb(mixes: &str, ops: u64, seeds: std::ops::Range<u64>, only_kills: bool) -> Result<()> {
    let plan = if only_kills { Plan::Kills } else { Plan::All };
    let mut kills = 0;
    for seed in seeds {
        println!("seed {seed}");
        kills += thrash(mixes, ops, seed, plan)?;
        println!("  {kills} kills so far");
    }
    Ok(())
}
