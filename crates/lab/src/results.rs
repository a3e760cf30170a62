//! results.json: figures, verdicts and claims out of a results folder. The same folder gives the same bytes.

use crate::claims::{self, ClaimResult};
use crate::lasting;
use crate::metric::Metric;
use crate::plan::{Cell, Mode, Plan, Row};
use crate::run::folder::{self, Line, journal, read_json};
use crate::run::judge::{self, State};
use crate::run::visit::{SCHEMA, Stat};
use crate::stats::{Latency, Ratio, Verdict};
use crate::study::Study;
use crate::target::Kind;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// One finished round of a cell, the attempt that counts.
#[derive(Debug, Clone)]
pub struct Round {
    pub round: u32,
    pub attempts: u32,
    /// Bytes of an operation.
    pub block: u64,
    /// What is acknowledged must be on a device; what others write there (a monitor's store) says nothing about them.
    pub durable: bool,
    pub stat: Stat,
}

impl Round {
    /// What the round says of a metric; none if it doesn't count or can't tell.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        if self.stat.state != Some(State::Valid) {
            return None;
        }
        // Counters of processes that a drill ended and began anew don't add up.
        if self.stat.drill.is_some() && matches!(metric, Metric::ServerCpuUs | Metric::LastCpuUs | Metric::Amplification) {
            return None;
        }
        let (told, used) = (self.stat.told.as_ref()?, &self.stat.used);
        let (ops, latency) = (told.ops as f64, told.latency.as_ref());
        let us = |ns: u64| ns as f64 / 1e3;
        // Operations in the time that our own samples are of.
        let seen = judge::seen_ops(told, used);
        match metric {
            Metric::Iops => Some(ops / told.seconds),
            Metric::MbS => Some(told.bytes.map_or(ops * self.block as f64, |b| b as f64) / 1e6 / told.seconds),
            Metric::MeanUs => Some(told.mean_ns / 1e3),
            Metric::P99Us => latency?.percentile_ns(99.0).map(us),
            Metric::P9999Us => latency?.percentile_ns(99.99).map(us),
            Metric::ServerCpuUs => (used.server_cpu_ns > 0).then(|| us(used.server_cpu_ns) / seen),
            Metric::ClientCpuUs => (used.client_cpu_ns > 0).then(|| us(used.client_cpu_ns) / seen),
            Metric::Amplification => {
                let sent = told.write_share * seen * self.block as f64;
                used.written_bytes.filter(|_| self.durable && sent > 0.0).map(|w| w as f64 / sent).filter(|a| *a > 0.0)
            }
            Metric::DevicesBusy => used.sectors.map(|s| s.busy_ms as f64 / 1e3 / used.seconds),
            Metric::CpuWait => used.psi,
            Metric::PauseMs => self.stat.drill.as_ref()?.pause_ms,
            Metric::CleanS => self.stat.drill.as_ref()?.clean_s,
            Metric::MendMbS => {
                let drill = self.stat.drill.as_ref()?;
                Some(drill.mended.as_ref()?.sent_bytes as f64 / 1e6 / drill.clean_s.filter(|s| *s > 0.0)?)
            }
            Metric::MendCpuUs => {
                let mended = self.stat.drill.as_ref()?.mended.as_ref()?;
                Some(us(mended.server_cpu_ns) / (mended.sent_bytes.max(1) as f64 / 1e6))
            }
            Metric::MendWritten => {
                let mended = self.stat.drill.as_ref()?.mended.as_ref()?;
                Some(mended.written_bytes? as f64 / mended.sent_bytes.max(1) as f64)
            }
            Metric::LastIops => lasting::Course::of(told).map(|course| course.last_iops),
            Metric::LastCpuUs => lasting::last_cpu_ns(told, &self.stat.tenths).map(|ns| ns / 1e3),
            Metric::Kept => lasting::Course::of(told)?.kept(),
            Metric::SlowestShare => lasting::Course::of(told).map(|course| course.slowest_share),
            Metric::RssMib => (used.rss_bytes > 0).then(|| used.rss_bytes as f64 / (1 << 20) as f64),
        }
    }
}

/// A folder, read.
pub struct Run {
    pub study: Study,
    pub plan: Plan,
    pub rounds: BTreeMap<String, Vec<Round>>,
    /// Rounds that looked closer, by mode and cell.
    pub looks: BTreeMap<(Mode, String), Stat>,
}

impl Run {
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path.join("study.toml"))
            .with_context(|| format!("{} is no results folder, as `humboldt lab run --out` makes one", path.display()))?;
        let study = Study::parse("study.toml", &text)?;
        let plan: Plan = read_json(&path.join("plan.json"))?;
        let lines = journal(path)?;
        let mut rounds: BTreeMap<String, Vec<Round>> = BTreeMap::new();
        let mut looks = BTreeMap::new();
        for line in lines.iter().filter(|l| l.last) {
            let stat: Stat = folder::stat(path, line)?;
            ensure!(stat.schema == SCHEMA, "{}: schema {} is another version's", line.dir(), stat.schema);
            let cell =
                plan.cells.iter().find(|c| c.hash == line.cell).with_context(|| format!("{}: a cell that was not planned", line.dir()))?;
            if line.mode != Mode::Figures {
                looks.insert((line.mode, line.cell.clone()), stat);
                continue;
            }
            let attempts =
                lines.iter().filter(|l: &&Line| l.mode == line.mode && l.round == line.round && l.cell == line.cell).count() as u32;
            let durable =
                matches!(cell.setup.kind, Kind::Device | Kind::Glusterfs) || matches!(cell.setup.store.as_str(), "block" | "file");
            rounds.entry(line.cell.clone()).or_default().push(Round { round: line.round, attempts, block: cell.work.block, durable, stat });
        }
        rounds.values_mut().for_each(|r| r.sort_by_key(|r| r.round));
        Ok(Self { study, plan, rounds, looks })
    }
    pub fn of(&self, cell: usize) -> &[Round] {
        self.rounds.get(&self.plan.cells[cell].hash).map_or(&[], Vec::as_slice)
    }
    /// The same rounds of two cells.
    pub fn pairs(&self, a: usize, b: usize, metric: Metric) -> Vec<(f64, f64)> {
        let other = |round: u32| self.of(b).iter().find(|r| r.round == round)?.value(metric);
        self.of(a).iter().filter_map(|r| Some((r.value(metric)?, other(r.round)?))).collect()
    }
    pub fn ratio(&self, a: usize, b: usize, metric: Metric) -> Option<Ratio> {
        Ratio::of(&self.pairs(a, b, metric), self.plan.seed)
    }
    /// A cell's median over its rounds.
    pub fn value(&self, cell: usize, metric: Metric) -> Option<Ratio> {
        Ratio::of_values(&self.of(cell).iter().filter_map(|r| r.value(metric)).collect::<Vec<_>>(), self.plan.seed)
    }
    /// The round of a cell that looked closer, if there is one.
    pub fn look(&self, mode: Mode, cell: usize) -> Option<&Stat> {
        self.looks.get(&(mode, self.plan.cells[cell].hash.clone()))
    }
    /// The cells that were looked at closer in this way, with what was seen.
    pub fn looks_of(&self, mode: Mode) -> impl Iterator<Item = (&Cell, &Stat)> {
        self.plan.cells.iter().enumerate().filter_map(move |(at, cell)| Some((cell, self.look(mode, at)?)))
    }
    /// What a row's ratios are to: the control's target if there is one, else the first.
    pub fn reference(&self, row: &Row) -> Option<usize> {
        let named = self.study.rules.control.as_ref().map(|c| c.get_ref().as_str());
        let ours = |cell: &&usize| Some(self.plan.cells[**cell].setup.target.as_str()) == named && !self.plan.cells[**cell].setup.control;
        row.cells.iter().find(ours).or_else(|| row.cells.iter().find(|c| self.plan.cells[**c].skipped.is_none())).copied()
    }
    /// The reference against itself.
    pub fn control(&self, row: &Row, metric: Metric) -> Option<Ratio> {
        let control = row.cells.iter().find(|c| self.plan.cells[**c].setup.control)?;
        self.ratio(*control, self.reference(row)?, metric)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub schema: u32,
    pub study: String,
    pub quick: bool,
    pub seed: u64,
    /// True if each planned round is there.
    pub complete: bool,
    pub rows: Vec<RowResult>,
    pub claims: Vec<ClaimResult>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowResult {
    pub title: String,
    pub cells: Vec<CellResult>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    pub target: String,
    pub control: bool,
    pub hash: String,
    /// `valid`, `INVALID`, `FAILED`, `SKIPPED` or `missing`.
    pub state: String,
    pub reason: Option<String>,
    /// Valid rounds of all.
    pub rounds: (usize, usize),
    pub marks: Vec<String>,
    /// Each metric's median over the rounds, with its interval.
    pub metrics: BTreeMap<Metric, Ratio>,
    /// Of all rounds' operations together, ns.
    pub percentiles: BTreeMap<String, u64>,
    pub max_ns: Option<u64>,
    pub longest_gap_ms: Option<f64>,
    /// Against the row's reference.
    pub verdicts: BTreeMap<Metric, Verdict>,
}

fn state(run: &Run, cell: usize) -> (String, Option<String>) {
    if let Some(reason) = &run.plan.cells[cell].skipped {
        return ("SKIPPED".into(), Some(reason.clone()));
    }
    let rounds = run.of(cell);
    let valid = rounds.iter().any(|r| r.stat.state == Some(State::Valid));
    let bad = rounds.iter().rev().find_map(|r| match &r.stat.state {
        Some(State::Invalid(why)) => Some(("INVALID".to_string(), Some(why.clone()))),
        Some(State::Failed(why)) => Some(("FAILED".to_string(), Some(why.clone()))),
        _ => None,
    });
    match (rounds.is_empty(), valid, bad) {
        (true, ..) => ("missing".into(), None),
        (_, true, bad) => ("valid".into(), bad.and_then(|(state, why)| Some(format!("{state} in some rounds: {}", why?)))),
        (_, false, Some(bad)) => bad,
        (_, false, None) => ("missing".into(), None),
    }
}

fn cell_result(run: &Run, row: &Row, cell: usize) -> CellResult {
    let (state, reason) = state(run, cell);
    let rounds = run.of(cell);
    let valid: Vec<&Round> = rounds.iter().filter(|r| r.stat.state == Some(State::Valid)).collect();
    let mut all = Latency::default();
    valid.iter().filter_map(|r| r.stat.told.as_ref()?.latency.as_ref()).for_each(|l| all.merge(l));
    let reference = run.reference(row).filter(|r| *r != cell);
    let verdict = |metric: Metric| {
        let ratio = run.ratio(cell, reference?, metric)?;
        Some(match run.plan.cells[cell].setup.control {
            true => Verdict::of_control(ratio, metric.better(), run.study.margin()),
            false => Verdict::of(ratio, metric.better(), run.study.margin(), run.control(row, metric)),
        })
    };
    let marks: Vec<String> = rounds.iter().flat_map(|r| r.stat.marks.iter().map(move |m| format!("round {}: {m}", r.round + 1))).collect();
    let gaps = valid.iter().filter_map(|r| r.stat.told.as_ref()?.gap_ms);
    CellResult {
        target: run.plan.cells[cell].setup.show(),
        control: run.plan.cells[cell].setup.control,
        hash: run.plan.cells[cell].hash.clone(),
        state,
        reason,
        rounds: (valid.len(), rounds.len()),
        marks,
        metrics: Metric::ALL.into_iter().filter_map(|m| Some((m, run.value(cell, m)?))).collect(),
        percentiles: all.ladder(),
        max_ns: all.max_ns(),
        longest_gap_ms: gaps.fold(None, |max, gap| Some(max.map_or(gap, |m: f64| m.max(gap)))),
        verdicts: Metric::ALL.into_iter().filter_map(|m| Some((m, verdict(m)?))).collect(),
    }
}

impl Results {
    pub fn of(run: &Run) -> Self {
        let row = |row: &Row| RowResult { title: row.title(), cells: row.cells.iter().map(|c| cell_result(run, row, *c)).collect() };
        let there = |s: &crate::plan::Step| match s.mode {
            Mode::Figures => run.of(s.cell).iter().any(|r| r.round == s.round),
            mode => run.look(mode, s.cell).is_some(),
        };
        Self {
            schema: SCHEMA,
            study: run.plan.study.clone(),
            quick: run.plan.quick,
            seed: run.plan.seed,
            complete: run.plan.steps.iter().all(there),
            rows: run.plan.rows.iter().map(row).collect(),
            claims: claims::answer(run),
        }
    }
}

/// Writes results.json and the sums over everything.
pub fn write(path: &Path) -> Result<Results> {
    let results = Results::of(&Run::load(path)?);
    folder::write_json(&path.join("results.json"), &results)?;
    folder::sums(path)?;
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Machine;
    use crate::value::Filter;

    #[test]
    fn what_is_made_up_about_devices_is_always_shown() {
        let device = |name: &str, more: &str| {
            format!(
                "[[device]]\nname = \"{name}\"\nkind = \"loop\"\nsize = \"1 GiB\"\n{more}\n[[target]]\nname = \"{name}\"\nkind = \"device\"\ndata = \"{name}\"\n"
            )
        };
        let all = [("plain", ""), ("disk", "model = { seek_us = 8000 }"), ("slow", "throttle = { write_iops = 9 }")];
        let devices: String = all.iter().map(|(name, more)| device(name, more)).collect();
        let text = format!("lab = 1\nname = \"t\"\n{devices}[[load]]\ntool = \"fio libaio\"\n");
        let study = Study::parse("t", &text).unwrap();
        let machine = Machine::with_everything();
        let plan = Plan::new(&study, true, &Filter::default(), &machine);
        let results = Results::of(&Run { study, plan, rounds: BTreeMap::new(), looks: BTreeMap::new() });
        let shown: Vec<String> = results.rows[0].cells.iter().map(|c| c.target.clone()).collect();
        assert_eq!(shown, ["plain", "disk (modelled)", "slow (throttled)"]);
        let text = crate::report::text::verdicts(&results);
        assert!(shown.iter().all(|name| text.contains(name)), "{text}");
    }
}
