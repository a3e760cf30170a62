//! Running a plan: each visit in its order, each result on the disk before the next begins, everything of ours gone at the end.

mod base;
pub mod drill;
pub mod folder;
pub mod interrupt;
pub mod judge;
mod length;
mod logs;
pub mod visit;

use crate::plan::{Cell, Mode, Plan, Setup, Step, room};
use crate::results;
use crate::study::Study;
use crate::study::file::{Device, Drill};
use crate::target::{self, Target};
use crate::{leftovers, machine, sys};
use anyhow::{Context, Result, bail};
use folder::{Folder, Line, write, write_json};
use judge::State;
use length::Length;
use logs::Logs;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use visit::{Stat, Visit};

/// How a run is asked for.
pub struct Options {
    /// What the study's file is called, for errors.
    pub file: String,
    pub out: PathBuf,
    pub resume: bool,
    /// Where targets keep what they store; below the results unless given.
    pub scratch: Option<PathBuf>,
    /// Our own program.
    pub program: PathBuf,
    /// What it was built from.
    pub commit: &'static str,
    /// Devices whose contents may be lost.
    pub may_destroy: Vec<PathBuf>,
    /// Stands before each line of progress.
    pub prefix: &'static str,
}

/// How it ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub valid: usize,
    pub invalid: usize,
    pub failed: usize,
    pub skipped: usize,
    pub interrupted: bool,
}

/// The longest path that leaves room for a socket's name: the kernel takes 107 bytes in all.
const SCRATCH_MAX: usize = 60;

/// How long a load goes on after the last drill, seconds.
const DRILL_AFTER_S: f64 = 3.0;

/// Targets that were made, by their setup.
struct Fleet<'a> {
    devices: Vec<Device>,
    scratch: PathBuf,
    program: &'a Path,
    targets: BTreeMap<Setup, Box<dyn Target>>,
    /// Cells whose load has what it reads.
    prepared: BTreeSet<(Setup, String)>,
}

impl Fleet<'_> {
    fn get(&mut self, setup: &Setup, number: usize) -> Result<&mut dyn Target> {
        if !self.targets.contains_key(setup) {
            let target = target::make(setup, &self.devices, &self.scratch.join(format!("t{number}")), self.program)?;
            self.targets.insert(setup.clone(), target);
        }
        let target = self.targets.get_mut(setup).expect("just made");
        if !target.alive() {
            self.prepared.retain(|(of, _)| of != setup);
        }
        Ok(target.as_mut())
    }
    fn stop_others(&mut self, setup: &Setup) {
        self.targets.iter_mut().filter(|(s, _)| *s != setup).for_each(|(_, t)| t.stop());
    }
}

impl Drop for Fleet<'_> {
    fn drop(&mut self) {
        self.targets.values_mut().for_each(|t| t.remove());
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// What a former run of this folder left in its scratch folder: processes ended with it, files did not.
fn scratch(options: &Options, folder: &Folder) -> Result<PathBuf> {
    let note = folder.path.join("scratch");
    if let Ok(former) = fs::read_to_string(&note) {
        let former = PathBuf::from(former.trim());
        if former.file_name().is_some_and(|n| n.to_string_lossy().starts_with("humboldt-lab-")) {
            let _ = fs::remove_dir_all(former);
        }
    }
    let base = options.scratch.clone().unwrap_or_else(|| folder.path.clone());
    let mut base = fs::canonicalize(&base).with_context(|| base.display().to_string())?;
    if base.as_os_str().len() > SCRATCH_MAX - 20 {
        anyhow::ensure!(options.scratch.is_none(), "--scratch {}: too long for the sockets that go below it", base.display());
        base = std::env::temp_dir();
    }
    let path = base.join(format!("humboldt-lab-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path)?;
    write(&note, path.display().to_string().as_bytes())?;
    Ok(path)
}

/// Runs what is left of a plan. `text` is the study's file.
pub fn run(study: &Study, text: &str, plan: &Plan, options: &Options) -> Result<Outcome> {
    room::check(study, text, plan, options)?;
    let mut folder = if options.resume {
        let folder = Folder::resume(&options.out, text)?;
        let theirs: Plan = folder::read_json(&folder.path.join("plan.json"))?;
        if theirs.steps != plan.steps || theirs.cells != plan.cells {
            bail!(
                "{} was planned otherwise (--quick, --only or what is installed): its results can't be gone on with",
                options.out.display()
            );
        }
        folder
    } else {
        let folder = Folder::create(&options.out)?;
        write(&folder.path.join("study.toml"), text.as_bytes())?;
        write_json(&folder.path.join("plan.json"), plan)?;
        folder
    };
    if sys::is_root() {
        // What is mounted for targets is ours alone, and gone with us.
        sys::own_mounts().context("mounts of our own")?;
    }
    leftovers::sweep();
    let (now, path) = (machine::describe(&folder.path, options), folder.path.join("machine.json"));
    if !path.exists() {
        write_json(&path, &now)?;
    } else if let Some(how) = machine::differs(&folder::read_json(&path)?, &now) {
        bail!("{} was begun on {how}: its rounds and new ones don't stand side by side; begin anew with --out", options.out.display());
    }
    let path = folder.path.join("ceilings.json");
    if !path.exists() {
        write_json(&path, &machine::ceilings(&folder.path))?;
    }
    let scratch = scratch(options, &folder)?;
    let devices = room::devices(study, &options.may_destroy);
    let mut fleet = Fleet { devices, scratch, program: &options.program, targets: BTreeMap::new(), prepared: BTreeSet::new() };
    let result = visits(study, plan, &mut fleet, &mut folder, options.prefix);
    drop(fleet);
    result?;
    let _ = fs::remove_file(folder.path.join("scratch"));
    let whole = plan.steps.iter().all(|s| folder.has(s.mode, s.round, &plan.cells[s.cell].hash));
    results::write(&folder.path)?;
    let mut outcome = Outcome { skipped: plan.skipped().count(), interrupted: !whole, ..Outcome::default() };
    for line in folder.lines.iter().filter(|l| l.last && l.mode == Mode::Figures) {
        match folder::stat::<Stat>(&folder.path, line)?.state {
            Some(State::Valid) => outcome.valid += 1,
            Some(State::Invalid(_)) => outcome.invalid += 1,
            _ => outcome.failed += 1,
        }
    }
    Ok(outcome)
}

fn visits(study: &Study, plan: &Plan, fleet: &mut Fleet, folder: &mut Folder, prefix: &str) -> Result<()> {
    let numbers: BTreeMap<Setup, usize> = plan.setups().into_iter().cloned().zip(0..).collect();
    let left: Vec<&Step> = plan.steps.iter().filter(|s| !folder.has(s.mode, s.round, &plan.cells[s.cell].hash)).collect();
    let (started, total, program) = (Instant::now(), left.len(), fleet.program);
    let drills: Vec<_> = study.drills.iter().map(|d| d.get_ref().clone()).collect();
    let capacities = RefCell::default();
    for (done, step) in left.into_iter().enumerate() {
        let cell = &plan.cells[step.cell];
        let counts = step.mode == Mode::Figures;
        let before = folder.before(step.mode, step.round, &cell.hash).map(|line| folder::stat::<Stat>(&folder.path, line)).transpose()?;
        let mut length = Length::first(&plan.rules, before.as_ref().filter(|_| counts));
        loop {
            if interrupt::asked() {
                return Ok(());
            }
            let begun = Instant::now();
            if !plan.all_up {
                fleet.stop_others(&cell.setup);
            }
            let attempt = folder.next_attempt(step.mode, step.round, &cell.hash);
            let number = numbers[&cell.setup];
            let starts = !fleet.get(&cell.setup, number)?.alive();
            let key = (cell.setup.clone(), cell.work.tool.name().to_string() + &cell.work.size.to_string());
            let prepare = starts || !fleet.prepared.contains(&key);
            let target = fleet.get(&cell.setup, number)?;
            let visit = Visit {
                cell,
                mode: step.mode,
                round: step.round,
                attempt,
                seconds: drill_s(cell, &drills).map_or(plan.rules.seconds * length.0, |s| s.max(plan.rules.seconds)),
                warm_s: plan.rules.warm_s,
                foreign_max: study.foreign_max(),
                program,
                begun,
                starts,
                prepare,
                drills: &drills,
                base: study.base.as_ref().map(|b| b.get_ref()),
                capacities: &capacities,
            };
            let logs = Logs::begin(target.home());
            let mut stat = visit.run(target, folder)?;
            if let Err(e) = logs.keep(&visit.dir(folder).join("logs")) {
                stat.marks.push(format!("its logs are not kept: {e:#}"));
            }
            let (asked_s, warm_s) = if cell.work.tool.is_timed() { (visit.seconds, visit.warm_s) } else { (0.0, 0.0) };
            stat.took.asked_s = asked_s;
            let measured_s = asked_s + warm_s;
            stat.took.beyond_s = (begun.elapsed().as_secs_f64() - stat.took.start_s.unwrap_or(0.0) - measured_s).max(0.0);
            if interrupt::asked() {
                // What a signal cut short is no result: the round runs again on --resume.
                return Ok(());
            }
            fleet.prepared.insert(key);
            let again = length.next(&plan.rules, &stat, attempt).filter(|_| counts);
            let last = again.is_none();
            let line = Line { round: step.round, cell: cell.hash.clone(), mode: step.mode, attempt, last, sha256: String::new() };
            folder.finish(line, &stat)?;
            progress(prefix, cell, step, &stat, (done + 1, total), started);
            match again {
                Some(next) => length = next,
                None => break,
            }
        }
    }
    Ok(())
}

/// How long a load under drills runs at least: until some time after the last of them.
pub fn drill_s(cell: &Cell, drills: &[Drill]) -> Option<f64> {
    let course = cell.work.under.as_deref().and_then(crate::load::course)?;
    let last = drills.iter().filter(|d| d.course == course && !d.after).map(|d| d.at_s).fold(0.0, f64::max);
    Some((last + DRILL_AFTER_S).ceil())
}

/// One line a visit: rewritten on a terminal, kept in a pipe.
fn progress(prefix: &str, cell: &Cell, step: &Step, stat: &Stat, (done, total): (usize, usize), started: Instant) {
    let left = (started.elapsed().as_secs_f64() / done as f64 * (total - done) as f64).round() as u64;
    let what = match (&stat.state, &stat.told) {
        (Some(State::Valid), Some(told)) => format!("{:.0} IOPS, {:.0} us", told.ops as f64 / told.seconds, told.mean_ns / 1e3),
        (Some(State::Invalid(why)), _) => format!("INVALID: {why}"),
        (Some(State::Failed(why)), _) => format!("FAILED: {why}"),
        _ => String::new(),
    };
    let line = format!(
        "{prefix}[{done}/{total}, {}:{:02} left] {} {}, {}: {what}",
        left / 60,
        left % 60,
        match step.mode {
            Mode::Figures => format!("round {}", step.round + 1),
            Mode::Trace => "trace".into(),
            Mode::Profile => "profile".into(),
        },
        cell.setup.show(),
        cell.work.show()
    );
    let mut out = std::io::stdout();
    let _ = match out.is_terminal() && stat.state == Some(State::Valid) && done < total {
        true => write!(out, "\r\x1b[K{}", line.chars().take(150).collect::<String>()),
        false if out.is_terminal() => writeln!(out, "\r\x1b[K{line}"),
        false => writeln!(out, "{line}"),
    };
    let _ = out.flush();
}

/// True if stock daemons and loop devices can be had.
pub fn is_root() -> bool {
    sys::is_root()
}
