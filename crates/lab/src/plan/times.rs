//! How long a plan will take: what its loads measure, which the study sets, and what starts and visits take beyond that. The latter is known
//! by the last runs on this machine, and guessed for what was not run here yet. Absent: the order of visits.

use super::{Cell, Mode, Plan, Setup, Step};
use crate::load::{Op, Tool, rados};
use crate::run::drill_s;
use crate::run::folder::{Line, read_json, write_json};
use crate::run::judge::State;
use crate::run::visit::Stat;
use crate::study::Study;
use crate::target::Kind;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Version of the file.
const SCHEMA: u32 = 1;
/// Before the first visit and behind the last.
const MARGIN_S: f64 = 3.0;
/// How often a visit is made again because it was not steady or disturbed: what was not steady once begins with the longer time from there on.
const GUESSED_AGAIN: f64 = 0.4;
/// And what all its attempts together measure, in multiples of the seconds of the rules, where they may be prolonged.
const GUESSED_TIMES: f64 = 2.1;

/// Means of the last run that had the like.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    schema: u32,
    /// Seconds of a start, by what is started.
    starts: BTreeMap<String, f64>,
    /// Seconds of a visit beyond its start and what its load measures.
    visits: BTreeMap<String, f64>,
    /// Further attempts of a visit, where the rules allow them.
    again: BTreeMap<String, f64>,
    /// What all its attempts together measure, in multiples of the seconds of the rules.
    #[serde(default)]
    times: BTreeMap<String, f64>,
}

/// Sum and number.
#[derive(Default)]
struct Means(BTreeMap<String, (f64, u32)>);

impl Means {
    fn add(&mut self, key: String, value: f64) {
        let (sum, n) = self.0.entry(key).or_default();
        *sum += value;
        *n += 1;
    }
    fn into(self, of: &mut BTreeMap<String, f64>) {
        of.extend(self.0.into_iter().map(|(key, (sum, n))| (key, sum / f64::from(n))));
    }
}

/// What a start depends on: not the name, and not which of two names is the control.
fn start_key(setup: &Setup) -> String {
    let text = |t: &Option<String>| t.clone().unwrap_or_default();
    let Setup { kind, release, store, osds, replicas, data, fs, .. } = setup;
    format!("{kind:?} {} {store} on {} {}: {osds} OSDs, {replicas} copies", text(release), text(data), text(fs))
}

/// What a visit of `seconds` depends on.
fn visit_key(cell: &Cell, mode: Mode, seconds: f64) -> String {
    let (start, work) = (start_key(&cell.setup), &cell.work);
    let beside = work.under.as_deref().unwrap_or("nothing");
    // The more was written, the more is to be removed.
    let long = if work.tool == Tool::RadosBench { format!(" for {seconds} s") } else { String::new() };
    format!("{start}: {} {} {} x {}{long} beside {beside}, {mode:?}", work.tool.name(), work.op.name(), work.block, work.depth)
}

/// How long a start took on other machines.
fn guessed_start_s(setup: &Setup) -> f64 {
    match setup.kind {
        Kind::Ceph => 2.0 + 5.0 * f64::from(setup.osds) + if setup.fs.is_some() { 8.0 } else { 0.0 },
        Kind::Glusterfs => 8.0,
        Kind::Humboldt if setup.fs.is_some() => 4.0,
        Kind::Existing => 6.0,
        Kind::Humboldt => 2.0,
        _ => 0.5,
    }
}

/// And a visit, beyond `seconds`.
fn guessed_beyond_s(cell: &Cell, seconds: f64) -> f64 {
    let tools = match cell.work.tool {
        Tool::HumboldtBench | Tool::Fake => 0.6,
        Tool::FioRbd if cell.setup.data.is_some() => 1.7,
        Tool::FioRbd => 0.7,
        Tool::RadosBench if cell.work.op != Op::Write => 4.0 + 1.5 * rados::fill_s(cell.work.op, seconds) as f64,
        Tool::RadosBench if cell.work.depth > 1 => 2.5 + 0.5 * seconds,
        Tool::RadosBench => 2.5,
        // With the work itself, for those that have an amount of it.
        _ => 2.0,
    };
    // Until its devices are quiet.
    let quiet = if cell.setup.store == "block" && !cell.work.op.reads() { 0.8 } else { 0.0 };
    // The base load's own images, and the capacity where it is not known yet.
    let base = if cell.work.base.is_some() { 3.5 } else { 0.0 };
    // Until all copies are there again; a course may take minutes on a slow store.
    let mending = match cell.setup.kind {
        _ if !cell.work.is_drill() => 0.0,
        Kind::Ceph => 12.0,
        _ => 10.0,
    };
    tools + quiet + base + mending
}

impl Plan {
    /// How long it will take, seconds; its drills are the study's.
    pub fn seconds(&self, study: &Study, times: &Times) -> f64 {
        let rules = &self.rules;
        let starts = if self.all_up { 1.0 } else { f64::from(rules.rounds) };
        let start = |setup: &Setup| times.starts.get(&start_key(setup)).copied().unwrap_or_else(|| guessed_start_s(setup));
        let drills: Vec<_> = study.drills.iter().map(|d| d.get_ref().clone()).collect();
        let visit = |step: &Step| {
            let (cell, key) = (&self.cells[step.cell], visit_key(&self.cells[step.cell], step.mode, rules.seconds));
            let seconds = drill_s(cell, &drills).map_or(rules.seconds, |s| s.max(rules.seconds));
            // An amount of work takes what it takes.
            let (seconds, warm) = if cell.work.tool.is_timed() { (seconds, rules.warm_s) } else { (0.0, 0.0) };
            let beyond = times.visits.get(&key).copied().unwrap_or_else(|| guessed_beyond_s(cell, seconds));
            let may_repeat = step.mode == Mode::Figures && rules.prolong.max(rules.repeats) > 0;
            let again = if may_repeat { times.again.get(&key).copied().unwrap_or(GUESSED_AGAIN) } else { 0.0 };
            let guessed = if rules.prolong > 0 { GUESSED_TIMES } else { 1.0 + again };
            let measured = if may_repeat { times.times.get(&key).copied().unwrap_or(guessed) } else { 1.0 };
            (1.0 + again) * (beyond + warm) + measured * seconds
        };
        self.setups().into_iter().map(|s| start(s) * starts).sum::<f64>() + self.steps.iter().map(visit).sum::<f64>() + MARGIN_S
    }
}

impl Times {
    /// Where they are kept: in the user's cache. None for a user without a home.
    fn file() -> Option<PathBuf> {
        let named = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let cache = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?;
        Some(cache.join("humboldt/lab-times.json"))
    }
    /// Of this machine; nothing if none are kept, or another version's.
    pub fn here() -> Self {
        let kept: Option<Self> = Self::file().and_then(|file| read_json(&file).ok());
        kept.filter(|times| times.schema == SCHEMA).unwrap_or_default()
    }
    /// Keeps them for later plans.
    pub fn keep(&self) -> Result<()> {
        let Some(file) = Self::file() else { return Ok(()) };
        let dir = file.parent().expect("it has a name");
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        write_json(&file, &Self { schema: SCHEMA, ..self.clone() })
    }
    /// From the attempts of a run, in their order.
    pub fn learn(&mut self, plan: &Plan, attempts: &[(Line, Stat)]) {
        let (mut starts, mut visits, mut again, mut measured) = (Means::default(), Means::default(), Means::default(), Means::default());
        let mut so_far = 0.0;
        for (line, stat) in attempts {
            let Some(cell) = plan.cells.iter().find(|c| c.hash == line.cell) else { continue };
            let key = visit_key(cell, line.mode, plan.rules.seconds);
            // The attempts of a visit follow each other.
            so_far = if line.attempt > 0 { so_far } else { 0.0 }
                + if cell.work.is_drill() { 1.0 } else { stat.took.asked_s / plan.rules.seconds };
            // A start or a load that failed took as long as its limit.
            if stat.state != Some(State::Valid) {
                continue;
            }
            if let Some(s) = stat.took.start_s {
                starts.add(start_key(&cell.setup), s);
            }
            visits.add(key.clone(), stat.took.beyond_s);
            if line.last && plan.rules.prolong.max(plan.rules.repeats) > 0 {
                again.add(key.clone(), f64::from(line.attempt));
                measured.add(key, so_far);
            }
        }
        starts.into(&mut self.starts);
        visits.into(&mut self.visits);
        again.into(&mut self.again);
        measured.into(&mut self.times);
    }
}
