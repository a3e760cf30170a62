//! Upstream's random workloads that check themselves: `ceph_test_rados` (objects beside a model of them), `ceph_test_librbd_fsx` (an image beside a
//! file) and `ceph_test_stress_watch`. Their arguments are those with which upstream's own suites, or people, run them; what they do not have
//! is cases, so each run of a program is one.

use super::gtest::Verdict;
use super::program::Outcome;
use super::{Manner, Run};
use crate::clients::Release;
use crate::cluster::Cluster;
use crate::run::{Output, run};
use anyhow::{Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

pub const NAME: &str = "model";

/// Small objects in a hurry: 16 KiB, 64 operations in flight. Each mix of operations has a name in upstream's manner and weights.
const SIZES: &str = "--objects 1024 --max-in-flight 64 --size 16384 --min-stride-size 1638 --max-stride-size 3276";
const MIXES: [(&str, &str); 3] = [
    ("mix A", "read 100 write 50 write_excl 50 delete 10 append 50 append_excl 50 copy_from 50"),
    ("mix B, attributes", "read 100 write 50 write_excl 50 delete 10 append 50 append_excl 50 setattr 25 rmattr 25"),
    (
        "mix D, snapshots",
        "read 100 write 50 write_excl 50 delete 50 snap_create 50 snap_remove 50 rollback 50 copy_from 50 setattr 25 rmattr 25",
    ),
];
const MIX_OPS: u32 = 50_000;
const FSX_SEEDS: u32 = 5;
const FSX_OPS: u32 = 1000;

/// One program's runs, as an outcome with a case for each.
struct Runs {
    outcome: Outcome,
    started: Instant,
}

impl Runs {
    fn new(program: &str) -> Self {
        let outcome = Outcome {
            program: program.into(),
            cases: BTreeMap::new(),
            left_out: BTreeMap::new(),
            expected: BTreeMap::new(),
            must_fail: BTreeSet::new(),
            took: Duration::ZERO,
        };
        Self { outcome, started: Instant::now() }
    }
    /// Notes a run that passed if nothing speaks against it.
    fn add(&mut self, case: String, took: Duration, against: Option<String>) {
        println!("{}: {case}: {}, {} s", self.outcome.program, against.as_deref().unwrap_or("passed"), took.as_secs());
        self.outcome.cases.insert(case, against.map_or(Verdict::Passed, Verdict::Failed));
    }
    fn end(mut self) -> Outcome {
        self.outcome.took = self.started.elapsed();
        self.outcome
    }
}

/// What speaks against a run that should have ended with 0 and said `word`.
fn against(out: &Output, word: &str) -> Option<String> {
    let said = [&out.stdout, &out.stderr].into_iter().any(|text| text.lines().any(|line| line.trim() == word));
    let last = || format!("{}{}", out.stdout, out.stderr).lines().next_back().unwrap_or_default().to_string();
    (!out.ok() || !said).then(|| format!("it ended with {}: {}", out.code, last()))
}

fn mixes(cluster: &Cluster, release: Release) -> Result<Outcome> {
    let mut runs = Runs::new("ceph_test_rados");
    for (i, (name, weights)) in MIXES.into_iter().enumerate() {
        cluster.must(release, &format!("ceph osd pool create mix{i} 16"))?;
        let weights: Vec<&str> = weights.split(' ').collect();
        let ops: String = weights.chunks(2).map(|op| format!(" --op {} {}", op[0], op[1])).collect();
        let line = format!("--pool mix{i} --max-ops {MIX_OPS} --max-seconds 3600 {SIZES}{ops}");
        let started = Instant::now();
        let mut cmd = release.command(&cluster.conf, "ceph_test_rados");
        let out = run(cmd.args(line.split(' ')), Duration::from_secs(3700))?;
        let took = started.elapsed();
        let done = out.stdout.lines().filter(|l| l.contains(": done (")).count();
        let case = format!("{name}: {MIX_OPS} operations, {:.0} a second", done as f64 / took.as_secs_f64());
        runs.add(case, took, against(&out, "0 errors."));
    }
    Ok(runs.end())
}

/// Runs for ever if nothing goes wrong.
fn watches(cluster: &Cluster, release: Release) -> Result<Outcome> {
    const SECONDS: u64 = 60;
    let mut runs = Runs::new("ceph_test_stress_watch");
    let mut cmd = release.command(&cluster.conf, "ceph_test_stress_watch");
    let out = run(&mut cmd, Duration::from_secs(SECONDS))?;
    let said = format!("{}{}", out.stdout, out.stderr);
    let turns = said.lines().filter(|l| l.contains("Iteration")).count();
    let last = said.lines().next_back().unwrap_or_default();
    let wrong = (out.code != 124 || turns < 2).then(|| format!("it ended with {} in turn {turns}: {last}", out.code));
    runs.add(format!("{SECONDS} s, {turns} turns"), Duration::from_secs(SECONDS), wrong);
    Ok(runs.end())
}

fn fsx(cluster: &Cluster, release: Release) -> Result<Outcome> {
    let mut runs = Runs::new("ceph_test_librbd_fsx");
    cluster.must(release, "ceph osd pool create rbd 16")?;
    cluster.must(release, "rbd pool init rbd")?;
    for seed in 1..=FSX_SEEDS {
        let dir = cluster.dir.join(format!("fsx{seed}"));
        std::fs::create_dir(&dir)?;
        let line =
            format!("-d -W -R -p 100 -P {} -r 1 -w 1 -t 1 -h 1 -l 250000000 -S {seed} -N {FSX_OPS} rbd image{seed}", dir.display());
        let started = Instant::now();
        let mut cmd = release.command(&cluster.conf, "ceph_test_librbd_fsx");
        let out = run(cmd.args(line.split(' ')), Duration::from_secs(1800))?;
        runs.add(format!("seed {seed}, {FSX_OPS} operations"), started.elapsed(), against(&out, "All operations completed A-OK!"));
    }
    Ok(runs.end())
}

/// All of them against one cluster.
pub fn model(release: Release, manner: Manner, chosen: &dyn Fn(&str) -> bool) -> Result<Run> {
    let started = Instant::now();
    let name = format!("conformance-{NAME}-{}-{}", release.version(), std::process::id());
    let mut cluster = Cluster::start(&name, &["--store", manner.store])?;
    let mut outcomes = Vec::new();
    let programs: [(&str, fn(&Cluster, Release) -> Result<Outcome>); 3] =
        [("ceph_test_rados", mixes), ("ceph_test_stress_watch", watches), ("ceph_test_librbd_fsx", fsx)];
    for (program, go) in programs.into_iter().filter(|(program, _)| chosen(program)) {
        outcomes.push(go(&cluster, release)?);
        ensure!(!cluster.ended(), "humboldt up ended under {program}; it said:\n{}", cluster.log());
    }
    let dir = cluster.dir.clone();
    cluster.stop()?;
    std::fs::remove_dir_all(&dir)?;
    Ok(Run { section: manner.section(NAME, release), outcomes, took: started.elapsed() })
}
