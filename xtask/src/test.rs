//! What `cargo xtask test` runs: the workspace's own tests, and the cases with stock programs.
//!
//! Holds which of them a run has, what is counted, and the verbs that run a part. A case that can't run says why and fails the command unless skips are
//! allowed. Absent: the cases (`suites`).

use crate::work::{self, Done, Look, Work};
use crate::{lint, times, units};
use anyhow::{Result, bail, ensure};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use suites::cases::{Case, cases, mixed, order, stock_faults};
use suites::clients::Release;
use suites::cluster::Build;
use suites::lanes::Queue;
use suites::run::{must, root};
use suites::share::{self, Share};
use suites::{cluster, conformance, folders, load, programs};

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

/// Everything that CI runs: the workspace's test programs and the cases, in one set of lanes; in the short form a part of both.
pub fn test(asked: Asked) -> Result<()> {
    let _load = asked.beside_load.then(load::Load::begin);
    let chosen = Chosen::of(asked)?;
    println!("{}", chosen.says);
    if !asked.all && asked.only.is_none() {
        cluster::take(Build::Tests);
    }
    let budget = asked.only.is_none().then_some(asked.all);
    all_of(chosen, budget, asked.allow_skips)
}

/// Builds and runs what was chosen. `budget` is held beside the run: that of `--all`, or of the short form.
fn all_of(chosen: Chosen, budget: Option<bool>, allow_skips: bool) -> Result<()> {
    let started = Instant::now();
    if !chosen.cases.is_empty() {
        folders::room()?;
    }
    let (mut done, builds) = work::run(chosen.share, |queue, done| feed(chosen, queue, done));
    let builds = builds?;
    done.times.phase("until all was built", builds);
    done.times.phase("everything", started.elapsed());
    done.times.keep()?;
    print!("{}", done.times.text(false));
    println!("the whole table: {}", cluster::target().join("test-times.txt").display());
    if let Some(all) = budget {
        print!("{}", times::budget(all, builds, started.elapsed()));
    }
    let unsettled = conformance::end_of_run();
    for name in &done.failed_programs {
        println!("FAILED {name}");
    }
    println!("{}", done.counts.line());
    let work::Counts { failed, skipped, .. } = done.counts;
    if failed > 0 || (skipped > 0 && !allow_skips) {
        bail!("{failed} failed, {skipped} could not run");
    }
    unsettled
}

/// Builds, installs, and gives the lanes what is ready for them. The value is how long there was something to build.
fn feed(chosen: Chosen, queue: &Queue<Work>, done: &Mutex<Done>) -> Result<Duration> {
    let (started, known) = (Instant::now(), times::known());
    let releases = chosen.releases();
    let has_cases = !chosen.cases.is_empty();
    let missing = std::thread::scope(|scope| -> Result<_> {
        let stock =
            scope.spawn(|| releases.into_iter().filter_map(|release| Some((release, release.install().err()?))).collect::<Vec<_>>());
        // An optimised build ends in one thread that links; the tests' build fills the other core. Profiles have build folders of their own.
        let server = scope.spawn(|| if has_cases { cluster::build() } else { Ok(()) });
        if let Some(packages) = &chosen.packages {
            let programs = programs::programs(packages)?;
            done.lock().expect("no holder panics").times.builds("dev", programs::timings());
            queue.add(programs.into_iter().map(|program| units::job(program, &known.programs).map(Work::Program)));
            queue.add(chosen.looks.iter().copied().map(work::look));
        }
        server.join().expect("a build does not panic")?;
        Ok(stock.join().expect("installing does not panic"))
    })?;
    let builds = started.elapsed();
    let lacks = |case: &Case| missing.iter().find(|(release, _)| case.needs.contains(release));
    for case in chosen.cases {
        match lacks(&case) {
            None => queue.add([order::job(case, &known.cases).map(Work::Case)]),
            Some((release, why)) => {
                println!("SKIPPED {}: no clients of {}: {why:#}", case.name, release.version());
                done.lock().expect("no holder panics").counts.skipped += 1;
            }
        }
    }
    Ok(builds)
}

/// What `--all` looks at beside tests.
const LOOKS: &[Look] = &[Look { name: "clippy over the cores", run: lint::cores }, Look { name: "the examples", run: lint::examples }];

/// What a run does of all there is.
struct Chosen {
    /// Packages whose test programs run: all, if it is empty; none at all without.
    packages: Option<Vec<String>>,
    cases: Vec<Case>,
    looks: &'static [Look],
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
            return Ok(Self { packages, cases, looks: &[], share, says });
        }
        if asked.all {
            return Ok(Self { packages: Some(Vec::new()), cases: cases(), looks: LOOKS, share: None, says: "everything".into() });
        }
        let (share, from) = share::of_this_run(asked.share);
        let (all, cases) = (cases().len(), order::short(cases(), share));
        let left: String = order::ONLY_ALL.iter().chain(order::ONLY_ALL_ELSE).map(|(what, why)| format!("\n  {what}: {why}")).collect();
        let says = format!(
            "the short form, share {} of {} ({from}; `--share {}` repeats it): all unit tests, a sixth of seeds and crash states, {} of {all} cases.\n\
             The other cases come with the next two shares, the long ones with the next five. `--all` does all of it; it alone does:{left}",
            share.number(),
            share::PARTS,
            share.number(),
            cases.len(),
        );
        Ok(Self { packages: Some(Vec::new()), cases, looks: &[], share: Some(share), says })
    }
    /// Cases alone.
    fn cases(cases: Vec<Case>) -> Self {
        Self { packages: None, cases, looks: &[], share: None, says: String::new() }
    }
    fn releases(&self) -> Vec<Release> {
        Release::ALL.into_iter().filter(|release| self.cases.iter().any(|case| case.needs.contains(release))).collect()
    }
}

/// The cases with stock clients, on a program that is built here.
pub fn clients(allow_skips: bool, only: Option<&str>) -> Result<()> {
    all_of(Chosen::cases(cases().into_iter().filter(|c| only.is_none_or(|o| c.name.contains(o))).collect()), None, allow_skips)
}

/// Those among stock daemons; with `long` those too that take longer than CI has.
pub fn stock_daemons(long: bool, only: Option<&str>) -> Result<()> {
    let more = if long { [stock_faults::LONG, mixed::LONG].concat() } else { Vec::new() };
    let among = |c: &Case| c.name.starts_with("stock_") && only.is_none_or(|o| c.name.contains(o));
    all_of(Chosen::cases(cases().into_iter().chain(more).filter(among).collect()), None, false)
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
    fn one_word_chooses_what_it_names_and_nothing_else() {
        let only = |word| Chosen::of(Asked { only: Some(word), ..Asked::default() });
        let kills = only("kill9").unwrap();
        assert!(kills.packages.is_none() && kills.cases.iter().all(|c| c.name.contains("kill9")) && !kills.cases.is_empty());
        let denc = only("denc").unwrap();
        assert!(denc.packages == Some(vec!["denc".to_string()]) && denc.cases.is_empty() && denc.releases().is_empty());
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
