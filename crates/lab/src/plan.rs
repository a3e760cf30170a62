//! From a study to what will be done on this machine: cells, rows that compare them, the order of their rounds, and what can't run and why.

pub mod lacks;
pub mod room;
mod settle;
#[cfg(test)]
mod tests;
mod times;

pub use lacks::{lacks_here, packages};
pub use settle::Setup;
pub use times::Times;

use crate::load::{Tool, Work};
use crate::stats::order;
use crate::study::axes;
use crate::study::file::{Device, Load, RuleSet, Study};
use crate::target::Kind;
use crate::value::{Filter, Point, Value, show};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One thing to measure: a target under a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Over everything that is settled: two runs' cells are the same if their hashes are.
    pub hash: String,
    pub setup: Setup,
    pub work: Work,
    /// Why it won't run here.
    pub skipped: Option<String>,
}

/// Cells that are compared: one load at one point, by target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub load: String,
    pub point: Point,
    /// Indexes of cells; the control's stands last if there is one.
    pub cells: Vec<usize>,
}

impl Row {
    pub fn title(&self) -> String {
        if self.point.is_empty() { self.load.clone() } else { format!("{}: {}", self.load, show(&self.point)) }
    }
}

/// What a visit is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[default]
    Figures,
    /// Each request of the devices, recorded; no figures.
    Trace,
    /// Where the servers' CPU goes; no figures.
    Profile,
}

/// One visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub round: u32,
    pub cell: usize,
    #[serde(default)]
    pub mode: Mode,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub study: String,
    pub quick: bool,
    pub rules: RuleSet,
    pub seed: u64,
    /// All targets run all the time; else one after the other.
    pub all_up: bool,
    pub cells: Vec<Cell>,
    pub rows: Vec<Row>,
    pub steps: Vec<Step>,
    /// The study asks for profiles, whether or not they can be had here.
    #[serde(default)]
    pub wants_profiles: bool,
}

/// What the machine has, as far as plans depend on it.
pub struct Machine {
    pub memory_bytes: u64,
    /// Why a cell can't run, if it can't.
    pub lacks: Box<dyn Fn(&Setup, &Work, &[Device]) -> Option<String>>,
}

impl Machine {
    /// One that has everything: what its plans skip, this version lacks.
    pub fn with_everything() -> Self {
        Self { memory_bytes: 1 << 40, lacks: Box::new(|_, _, _| None) }
    }
}

/// A load as it stands in rows: once, or once for each share of the base load.
struct Name {
    row: String,
    load: String,
    base: Option<u32>,
}

fn names(study: &Study) -> Vec<Name> {
    let mut names: Vec<Name> = Vec::new();
    for load in study.loads.iter().map(|l| l.get_ref()) {
        let name = load.name.clone().unwrap_or_else(|| load.tool.clone());
        if names.iter().any(|n| n.load == name) {
            continue;
        }
        match study.base.as_ref().filter(|_| load.under.as_deref() == Some("base")) {
            None => names.push(Name { row: name.clone(), load: name, base: None }),
            Some(base) => names.extend(base.get_ref().share.iter().map(|share| Name {
                row: format!("{name}: {:.0} % of the capacity", share * 100.0),
                load: name.clone(),
                base: Some((share * 1000.0).round() as u32),
            })),
        }
    }
    names
}

fn hash(setup: &Setup, work: &Work, devices: &[Device]) -> String {
    let used: Vec<&Device> = devices.iter().filter(|d| setup.uses(&d.name)).collect();
    let text = if used.is_empty() { serde_json::to_string(&(setup, work)) } else { serde_json::to_string(&(setup, work, used)) };
    let text = text.expect("plain data");
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    digest.as_ref()[..6].iter().map(|b| format!("{b:02x}")).collect()
}

impl Plan {
    /// Of a study that has been checked; `only` are the points that are wanted.
    pub fn new(study: &Study, quick: bool, only: &Filter, machine: &Machine) -> Self {
        let devices: Vec<Device> = study.devices.iter().map(|d| d.get_ref().clone()).collect();
        let control = study.rules.control.as_ref().map(|c| c.get_ref().as_str());
        let (mut cells, mut rows): (Vec<Cell>, Vec<Row>) = (Vec::new(), Vec::new());
        let mut add = |setup: Setup, work: Work| -> usize {
            let hash = hash(&setup, &work, &devices);
            if let Some(at) = cells.iter().position(|c: &Cell| c.hash == hash) {
                return at;
            }
            let skipped = lacks::unsupported(&setup, &work).or_else(|| (machine.lacks)(&setup, &work, &devices));
            cells.push(Cell { hash, setup, work, skipped });
            cells.len() - 1
        };
        let names = names(study);
        let rules = study.rules(quick);
        for point in axes::points(study).into_iter().filter(|point| only.allows(point)) {
            for Name { row: shown, load: name, base } in &names {
                let mut row = Row { load: shown.clone(), point: point.clone(), cells: Vec::new() };
                let mut control_cell = None;
                for target in study.targets.iter().map(|t| t.get_ref()) {
                    let mut whole = point.clone();
                    whole.insert("target".into(), Value::Text(target.name.clone()));
                    whole.insert("load".into(), Value::Text(name.clone()));
                    let wanted = Filter::parse(target.only.as_deref().unwrap_or_default()).is_ok_and(|f| f.allows(&whole));
                    let Ok(kind) = Kind::parse(&target.kind) else { continue };
                    let excluded = rules.exclude.iter().any(|part| axes::has(&whole, part));
                    if !wanted || excluded || !only.allows(&whole) {
                        continue;
                    }
                    let has_files = kind == Kind::Glusterfs || target.fs.is_some() || point.contains_key("fs");
                    let fits = |l: &&Load| {
                        let called = l.name.as_ref().unwrap_or(&l.tool) == name;
                        let there = Filter::parse(l.only.as_deref().unwrap_or_default()).is_ok_and(|f| f.allows(&whole));
                        called && there && Tool::parse(&l.tool).is_ok_and(|t| t.fits(kind, has_files))
                    };
                    let load = study.loads.iter().map(|l| l.get_ref()).find(fits);
                    let drilled = |load: &Load| load.under.as_deref().and_then(crate::load::course).is_some();
                    let made = load.and_then(|load| {
                        Some((settle::setup(target, kind, &point, drilled(load))?.on(&devices), settle::work(load, &point, shown, *base)?))
                    });
                    let Some((setup, work)) = made else { continue };
                    if control == Some(target.name.as_str()) {
                        control_cell = Some(add(Setup { control: true, ..setup.clone() }, work.clone()));
                    }
                    row.cells.push(add(setup, work));
                }
                row.cells.extend(control_cell);
                if !row.cells.is_empty() && !rows.contains(&row) {
                    rows.push(row);
                }
            }
        }
        let mut plan = Self {
            study: study.name().into(),
            quick,
            rules,
            seed: study.seed_number(),
            all_up: false,
            cells,
            rows,
            steps: Vec::new(),
            wants_profiles: study.rules.profile,
        };
        plan.all_up = plan.memory_bytes() <= machine.memory_bytes / 2;
        plan.steps = plan.schedule();
        plan.steps.extend(plan.looks(study.rules.trace, study.rules.profile));
        plan
    }

    /// The setups that will run, each once.
    pub fn setups(&self) -> Vec<&Setup> {
        self.running().map(|c| &c.setup).collect::<BTreeSet<_>>().into_iter().collect()
    }
    fn running(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|c| c.skipped.is_none())
    }
    /// What all targets together take.
    pub fn memory_bytes(&self) -> u64 {
        self.setups().iter().map(|s| s.memory_bytes()).sum()
    }
    /// The setup that takes most memory.
    fn largest(&self) -> Option<&Setup> {
        self.setups().into_iter().max_by_key(|s| s.memory_bytes())
    }
    /// What is taken at once: by all targets where they run together, else by the largest.
    pub fn memory_at_once_bytes(&self) -> u64 {
        if self.all_up { self.memory_bytes() } else { self.largest().map_or(0, Setup::memory_bytes) }
    }
    /// Rounds of visits. Where all targets run at once, each load goes round all of them before the next; else each target has all its loads.
    fn schedule(&self) -> Vec<Step> {
        let setups = self.setups();
        let mut works: Vec<&Work> = Vec::new();
        self.running().for_each(|c| {
            if !works.contains(&&c.work) {
                works.push(&c.work)
            }
        });
        let find = |setup: &Setup, work: &Work| self.cells.iter().position(|c| c.skipped.is_none() && c.setup == *setup && c.work == *work);
        let mut steps = Vec::new();
        for (round, order) in order::orders(setups.len(), self.rules.rounds as usize, self.seed).iter().enumerate() {
            let mut visit = |setup: usize, work: &Work| {
                steps.extend(find(setups[setup], work).map(|cell| Step { round: round as u32, cell, mode: Mode::Figures }));
            };
            if self.all_up {
                works.iter().for_each(|work| order.iter().for_each(|setup| visit(*setup, work)));
            } else {
                order.iter().for_each(|setup| works.iter().for_each(|work| visit(*setup, work)));
            }
        }
        steps
    }
    /// The visits that look closer, behind all that count: each target and load once.
    fn looks(&self, trace: bool, profile: bool) -> Vec<Step> {
        let mut steps = Vec::new();
        for (cell, of) in self.cells.iter().enumerate().filter(|(_, c)| c.skipped.is_none() && !c.setup.control && c.work.under.is_none()) {
            let has_devices = of.setup.data.is_some() || of.setup.kind == Kind::Glusterfs;
            let has_servers = matches!(of.setup.kind, Kind::Humboldt | Kind::Ceph | Kind::Glusterfs);
            if trace && has_devices && crate::trace::lacks().is_none() {
                steps.push(Step { round: 0, cell, mode: Mode::Trace });
            }
            if profile && has_servers && crate::profile::lacks().is_none() {
                steps.push(Step { round: 0, cell, mode: Mode::Profile });
            }
        }
        steps
    }
    /// The cells that won't run, with the reason.
    pub fn skipped(&self) -> impl Iterator<Item = (&Cell, &str)> {
        self.cells.iter().filter_map(|c| Some((c, c.skipped.as_deref()?)))
    }
}
