//! What `cargo xtask test` runs: the workspace's own tests, then the cases with stock programs.
//!
//! Holds which of them a run has, what is counted, and the verbs that run a part. A case that can't run says why and fails the command unless skips are
//! allowed. Absent: the cases (`suites`).

use crate::times::{self, Known, Times};
use crate::{lint, units};
use anyhow::{Result, bail, ensure};
use std::process::Command;
use std::time::Instant;
use suites::cases::{Case, cases, order, stock_faults};
use suites::clients::Release;
use suites::cluster::Build;
use suites::run::{must, root};
use suites::share::{self, Share};
use suites::{cluster, conformance, folders, load};

/// What a run of everything is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    /// All there is; otherwise the short form.
    pub all: bool,
    /// The share of what rotates, in the short form.
    pub share: Option<u64>,
    /// Only cases with this in their name, and the test programs of the crate that is called so.
    pub only: Option<&'a str>,
    pub allow_skips: bool,
    /// Beside two busy loops and a writer to the disk.
    pub beside_load: bool,
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Counts {
    fn and(self, other: Self) -> Self {
        let (passed, failed) = (self.passed + other.passed, self.failed + other.failed);
        Self { passed, failed, skipped: self.skipped + other.skipped }
    }
    /// The last line of a run, which CI reads.
    fn line(self) -> String {
        format!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
    fn end(self, allow_skips: bool) -> Result<()> {
        println!("{}", self.line());
        if self.failed > 0 || (self.skipped > 0 && !allow_skips) {
            bail!("{} failed, {} could not run", self.failed, self.skipped);
        }
        Ok(())
    }
}

/// Everything that CI runs: the workspace's test programs, then the cases; in the short form a part of both.
pub fn test(asked: Asked) -> Result<()> {
    let started = Instant::now();
    let _load = asked.beside_load.then(load::Load::begin);
    let chosen = Chosen::of(asked)?;
    println!("{}", chosen.says);
    if !asked.all && asked.only.is_none() {
        cluster::take(Build::Tests);
    }
    let (mut times, known) = (Times::default(), times::known());
    // An optimised build ends in one thread that links; the tests' build fills the other core. Profiles have build folders of their own.
    let (programs, built) = std::thread::scope(|scope| -> Result<_> {
        let build = scope.spawn(|| if chosen.cases.is_empty() { Ok(()) } else { cluster::build() });
        // What fails here is said where a case needs it.
        scope.spawn(|| chosen.releases().for_each(|release| drop(release.install())));
        let programs = match &chosen.packages {
            Some(packages) => units::built(packages, &mut times)?,
            None => Vec::new(),
        };
        let programs_built = started.elapsed();
        // Beside the end of the other build, which links.
        let ran = units::run(programs, chosen.share, &known.programs);
        let ran_for = started.elapsed() - programs_built;
        times.phase("test programs", ran_for);
        build.join().expect("a build does not panic")?;
        Ok((ran, started.elapsed().saturating_sub(ran_for)))
    })?;
    times.phase("builds beside them", built);
    times.programs(&programs);
    let mut counts = counted(&programs);
    if asked.all && asked.only.is_none() {
        let lint_began = Instant::now();
        for (name, looked) in [("clippy over the cores", lint::cores()), ("the examples", lint::examples())] {
            match looked {
                Ok(()) => counts.passed += 1,
                Err(e) => {
                    println!("FAILED {name}: {e:#}");
                    counts.failed += 1;
                }
            }
        }
        times.phase("clippy and examples", lint_began.elapsed());
    }
    // Kept now: a run that is stopped among the cases has this much.
    times.keep()?;
    let counts = if chosen.cases.is_empty() { counts } else { counts.and(cases_of(&chosen.cases, &known, &mut times)?) };
    times.phase("everything", started.elapsed());
    times.keep()?;
    print!("{}", times.text(false));
    println!("the whole table: {}", cluster::target().join("test-times.txt").display());
    if asked.only.is_none() {
        print!("{}", times::budget(asked.all, built, started.elapsed()));
    }
    let unsettled = conformance::end_of_run();
    for ran in programs.iter().filter(|ran| ran.failure.is_some()) {
        println!("FAILED {}", ran.name);
    }
    counts.end(asked.allow_skips).and(unsettled)
}

fn counted(programs: &[units::program::Ran]) -> Counts {
    Counts { passed: programs.iter().map(|p| p.passed).sum(), failed: programs.iter().map(|p| p.failed).sum(), skipped: 0 }
}

/// What a run does of all there is.
struct Chosen {
    /// Packages whose test programs run: all, if it is empty; none at all without.
    packages: Option<Vec<String>>,
    cases: Vec<Case>,
    share: Option<Share>,
    /// A few lines for the contributor.
    says: String,
}

impl Chosen {
    fn of(asked: Asked) -> Result<Self> {
        if let Some(only) = asked.only {
            let cases: Vec<Case> = cases().into_iter().filter(|c| c.name.contains(only)).collect();
            let is_package = ["suites", "xtask"].contains(&only) || root().join("crates").join(only).join("Cargo.toml").exists();
            let packages = is_package.then(|| vec![only.to_string()]);
            ensure!(is_package || !cases.is_empty(), "no case has `{only}` in its name, and no crate is called so");
            let says = format!("only `{only}`: {} cases{}", cases.len(), if is_package { ", and that crate's tests" } else { "" });
            let share = asked.share.and_then(Share::new);
            return Ok(Self { packages, cases, share, says });
        }
        if asked.all {
            return Ok(Self { packages: Some(Vec::new()), cases: cases(), share: None, says: "everything".into() });
        }
        let (share, from) = share::of_this_run(asked.share);
        let (all, cases) = (cases().len(), order::short(cases(), share));
        let left: String = order::ONLY_ALL.iter().chain(order::ONLY_ALL_ELSE).map(|(what, why)| format!("\n  {what}: {why}")).collect();
        let says = format!(
            "the short form, share {} of {} ({from}; `--share {}` repeats it): all unit tests, a sixth of seeds and crash states, {} of {all} cases.\n\
             The other cases come with the next two shares. `--all` does all of it; it alone does:{left}",
            share.number(),
            share::PARTS,
            share.number(),
            cases.len(),
        );
        Ok(Self { packages: Some(Vec::new()), cases, share: Some(share), says })
    }
    fn releases(&self) -> impl Iterator<Item = Release> {
        Release::ALL.into_iter().filter(|release| self.cases.iter().any(|case| case.needs.contains(release)))
    }
}

/// The cases with stock clients, on a program that is built here.
pub fn clients(allow_skips: bool, only: Option<&str>) -> Result<()> {
    only_cases(cases().into_iter().filter(|c| only.is_none_or(|o| c.name.contains(o))).collect(), allow_skips)
}

/// Those among stock daemons; with `long` those too that take longer than CI has.
pub fn stock_daemons(long: bool, only: Option<&str>) -> Result<()> {
    let more = if long { stock_faults::LONG } else { &[] };
    let among = |c: &Case| c.name.starts_with("stock_") && only.is_none_or(|o| c.name.contains(o));
    only_cases(cases().into_iter().chain(more.iter().copied()).filter(among).collect(), false)
}

fn only_cases(cases: Vec<Case>, allow_skips: bool) -> Result<()> {
    cluster::build()?;
    let mut times = Times::default();
    let counts = cases_of(&cases, &times::known(), &mut times)?;
    times.keep()?;
    print!("{}", times.text(false));
    let unsettled = conformance::end_of_run();
    counts.end(allow_skips).and(unsettled)
}

/// Runs these, and puts their times into the table.
fn cases_of(cases: &[Case], known: &Known, times: &mut Times) -> Result<Counts> {
    folders::room()?;
    let mut missing = Vec::new();
    for release in Release::ALL {
        if cases.iter().any(|c| c.needs.contains(&release))
            && let Err(e) = release.install()
        {
            missing.push((release, format!("{e:#}")));
        }
    }
    let lacks = |case: &Case| missing.iter().find(|(release, _)| case.needs.contains(release));
    let (can, lacking): (Vec<Case>, Vec<Case>) = cases.iter().partition(|case| lacks(case).is_none());
    for case in &lacking {
        if let Some((release, why)) = lacks(case) {
            println!("SKIPPED {}: no clients of {}: {why}", case.name, release.version());
        }
    }
    let started = Instant::now();
    let ran = order::run(can, &known.cases);
    times.cases(&ran);
    times.phase("cases", started.elapsed());
    let failed = ran.iter().filter(|r| r.result.is_err()).count();
    Ok(Counts { passed: ran.len() - failed, failed, skipped: lacking.len() })
}

/// The crates whose decoders read what peers send; each has a test called `fuzz_...`.
const FUZZED: [&str; 8] = ["denc", "types", "messages", "maps", "msgr", "cephx", "classes", "osd-core"];

/// Runs the decoders' fuzz tests for longer, `seconds` each: they read their budget from the environment. The dev build checks arithmetic, too.
pub fn fuzz(seconds: u64) -> Result<()> {
    must(
        Command::new("cargo")
            .current_dir(root())
            .args(["test", "--no-fail-fast", "--tests"])
            .args(FUZZED.iter().flat_map(|name| ["-p", name]))
            .args(["fuzz", "--", "--nocapture"])
            .env("HUMBOLDT_FUZZ_SECONDS", seconds.to_string()),
    )
}

/// Runs the rogue (`crates/cli/tests/rogue.rs`), all of it, with so many samples by chance of each operation by each key.
pub fn rogue(samples: u64) -> Result<()> {
    must(
        Command::new("cargo")
            .current_dir(root())
            .args(["test", "--workspace", "--test", "rogue", "--", "--nocapture"])
            .env("HUMBOLDT_ROGUE", samples.to_string()),
    )
}

/// Runs the live fuzz (`crates/cli/tests/live_fuzz`) with so many times the inputs.
pub fn live_fuzz(times: u64) -> Result<()> {
    must(
        Command::new("cargo")
            .current_dir(root())
            .args(["test", "--workspace", "--test", "live_fuzz", "--", "--nocapture"])
            .env("HUMBOLDT_LIVE_FUZZ", times.to_string()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_sum_of_programs_and_cases() {
        let counts = Counts { passed: 5, failed: 1, skipped: 0 }.and(Counts { passed: 2, failed: 0, skipped: 3 });
        assert_eq!(counts.line(), "7 passed, 1 failed, 3 skipped");
        assert!(counts.end(true).is_err() && Counts { failed: 0, ..counts }.end(false).is_err());
        assert!(Counts { failed: 0, ..counts }.end(true).is_ok());
    }

    #[test]
    fn one_word_chooses_what_it_names_and_nothing_else() {
        let only = |word| Chosen::of(Asked { only: Some(word), ..Asked::default() });
        let kills = only("kill9").unwrap();
        assert!(kills.packages.is_none() && kills.cases.iter().all(|c| c.name.contains("kill9")) && !kills.cases.is_empty());
        let denc = only("denc").unwrap();
        assert!(denc.packages == Some(vec!["denc".to_string()]) && denc.cases.is_empty() && denc.releases().next().is_none());
        assert!(only("no_such_case").is_err());
    }

    #[test]
    fn a_short_run_says_what_it_leaves_and_how_to_repeat_it() {
        let short = Chosen::of(Asked { share: Some(2), ..Asked::default() }).unwrap();
        assert!(short.says.contains("--share 2") && order::ONLY_ALL.iter().all(|(name, _)| short.says.contains(name)), "{}", short.says);
        let all = Chosen::of(Asked { all: true, ..Asked::default() }).unwrap();
        assert!(all.share.is_none() && all.cases.len() == cases().len() && short.cases.len() < all.cases.len());
    }
}
