//! Where the time goes: builds by crate, test programs with their longest tests, cases. Slowest first, printed at the end of a run; whole in
//! `target/test-times.txt`, and in `target/test-times.json` for the next run, which begins with the longest.
//!
//! Holds the budgets, too: what a run may take on two cores.

use crate::units::program;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use suites::cases::order;
use suites::cluster::target;

/// Seconds that `cargo xtask test` may take on two cores with everything built. A new capability may add a minute; what needs more is a verb of its own,
/// or makes something else cheaper.
pub const SHORT_BUDGET_S: u64 = 12 * 60;
/// The same in a fresh clone, builds included.
pub const FRESH_BUDGET_S: u64 = 25 * 60;
/// Seconds that `cargo xtask test --all` may take, builds included. A new capability may add three minutes.
pub const ALL_BUDGET_S: u64 = 45 * 60;

/// Rows of each part that are printed; the file has all.
const PRINTED: usize = 15;
/// Tests of each program in the file.
const TESTS_OF_EACH: usize = 10;
/// Tests that are printed took this long.
const PRINTED_TEST_S: f64 = 2.0;

/// The table of a run, as it grows.
#[derive(Default)]
pub struct Times {
    /// Seconds by crate and profile.
    builds: Vec<(String, f64)>,
    /// Seconds, seconds of processor time, and tests.
    programs: Vec<ProgramRow>,
    cases: Vec<(String, f64, bool)>,
    /// The parts of the run and what they took.
    phases: Vec<(String, Duration)>,
}

struct ProgramRow {
    name: String,
    took_s: f64,
    cpu_s: f64,
    tests: Vec<(String, f64)>,
    failed: bool,
}

/// What the last runs on this machine took, by name.
#[derive(Default)]
pub struct Known {
    pub programs: BTreeMap<String, f64>,
    pub cases: BTreeMap<String, f64>,
}

/// The table that earlier runs left; an empty one if there is none.
pub fn known() -> Known {
    let text = std::fs::read_to_string(target().join("test-times.json")).unwrap_or_default();
    let all: Value = serde_json::from_str(&text).unwrap_or_default();
    let part = |name: &str| {
        let rows = all[name].as_object().into_iter().flatten();
        rows.filter_map(|(name, s)| Some((name.clone(), s.as_f64()?))).collect()
    };
    Known { programs: part("programs"), cases: part("cases") }
}

impl Times {
    pub fn builds(&mut self, profile: &str, crates: BTreeMap<String, f64>) {
        // What was fresh took nothing.
        self.builds.extend(crates.into_iter().filter(|(_, s)| *s > 0.0).map(|(name, s)| (format!("{name} ({profile})"), s)));
    }
    pub fn program(&mut self, ran: &program::Ran) {
        self.programs.push(ProgramRow {
            name: ran.name.clone(),
            took_s: ran.took.as_secs_f64(),
            cpu_s: ran.cpu_s,
            tests: ran.tests.iter().take(TESTS_OF_EACH).cloned().collect(),
            failed: ran.failure.is_some(),
        });
    }
    pub fn case(&mut self, ran: &order::Ran) {
        self.cases.push((ran.name.to_string(), ran.took.as_secs_f64(), ran.result.is_err()));
    }
    pub fn phase(&mut self, name: &str, took: Duration) {
        self.phases.push((name.into(), took));
    }

    /// All of it, or what is worth a look.
    pub fn text(&mut self, whole: bool) -> String {
        let by = |a: f64, b: f64| b.total_cmp(&a);
        self.builds.sort_by(|a, b| by(a.1, b.1));
        self.programs.sort_by(|a, b| by(a.took_s, b.took_s));
        self.cases.sort_by(|a, b| by(a.1, b.1));
        let rows = if whole { usize::MAX } else { PRINTED };
        let mut lines = Vec::new();
        if !self.builds.is_empty() {
            let sum: f64 = self.builds.iter().map(|b| b.1).sum();
            lines.push(format!("builds, {sum:.0} s of compilers for {} crates, slowest first:", self.builds.len()));
            lines.extend(self.builds.iter().take(rows).map(|(name, s)| format!("{s:>8.1} s  {name}")));
        }
        if !self.programs.is_empty() {
            let (sum, cpu): (f64, f64) = self.programs.iter().fold((0.0, 0.0), |(a, b), p| (a + p.took_s, b + p.cpu_s));
            lines.push(format!("{} test programs, {sum:.0} s ({cpu:.0} s of processors), slowest first:", self.programs.len()));
            for p in self.programs.iter().take(rows) {
                let end = if p.failed { "  FAILED" } else { "" };
                lines.push(format!("{:>8.1} s  {} ({:.1} s of processors){end}", p.took_s, p.name, p.cpu_s));
                let shown = p.tests.iter().filter(|(_, s)| whole || *s >= PRINTED_TEST_S);
                lines.extend(shown.map(|(test, s)| format!("{s:>16.2} s  {test}")));
            }
        }
        if !self.cases.is_empty() {
            let sum: f64 = self.cases.iter().map(|c| c.1).sum();
            lines.push(format!("{} cases, {sum:.0} s, slowest first:", self.cases.len()));
            // Each case: there are few enough, and a contributor looks for his own.
            lines.extend(self.cases.iter().map(|(name, s, failed)| format!("{s:>8.1} s  {name}{}", if *failed { "  FAILED" } else { "" })));
        }
        lines.extend(self.phases.iter().map(|(name, took)| format!("{:>8.1} s in all: {name}", took.as_secs_f64())));
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Keeps it in the target folder, for the next run and for looking at.
    pub fn keep(&mut self) -> Result<()> {
        let old = known();
        let merged = |mut old: BTreeMap<String, f64>, new: Vec<(String, f64)>| {
            old.extend(new);
            old
        };
        let programs = merged(old.programs, self.programs.iter().map(|p| (p.name.clone(), p.took_s)).collect());
        let cases = merged(old.cases, self.cases.iter().map(|c| (c.0.clone(), c.1)).collect());
        let all = json!({"programs": programs, "cases": cases});
        std::fs::write(target().join("test-times.json"), serde_json::to_string_pretty(&all)?).context("target/test-times.json")?;
        std::fs::write(target().join("test-times.txt"), self.text(true)).context("target/test-times.txt")
    }
}

/// What a run took beside what it may take.
pub fn budget(all: bool, builds: Duration, whole: Duration) -> String {
    let (builds_s, whole_s) = (builds.as_secs(), whole.as_secs());
    let line = |name: &str, took_s: u64, budget_s: u64| {
        let over = if took_s > budget_s { ": OVER THE BUDGET, see xtask/src/times.rs" } else { "" };
        format!("{name}: {took_s} s of {budget_s} s that it may take on two cores{over}\n")
    };
    if all {
        line("all of it, with builds", whole_s, ALL_BUDGET_S)
    } else {
        line("the short form without builds", whole_s.saturating_sub(builds_s), SHORT_BUDGET_S)
            + &line("with builds", whole_s, FRESH_BUDGET_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times() -> Times {
        let mut times = Times::default();
        times.builds("dev", BTreeMap::from([("small".into(), 1.0), ("large".into(), 30.0), ("fresh".into(), 0.0)]));
        for (name, took_s) in [("a/lib", 5.0), ("b/lib", 50.0)] {
            let tests = vec![("slow".to_string(), 4.0), ("quick".into(), 0.1)];
            times.programs.push(ProgramRow { name: name.into(), took_s, cpu_s: 1.0, tests, failed: name == "a/lib" });
        }
        times.cases = vec![("quick".into(), 1.0, false), ("slow".into(), 90.0, true), ("middling".into(), 8.0, false)];
        times
    }

    #[test]
    fn each_part_is_slowest_first() {
        let text = times().text(false);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let place = |what: &str| lines.iter().position(|l| *l == what).unwrap_or_else(|| panic!("{what} is not in\n{text}"));
        assert!(place("30.0 s  large (dev)") < place("1.0 s  small (dev)"));
        assert!(place("50.0 s  b/lib (1.0 s of processors)") < place("5.0 s  a/lib (1.0 s of processors)  FAILED"));
        assert!(place("90.0 s  slow  FAILED") < place("8.0 s  middling") && place("8.0 s  middling") < place("1.0 s  quick"));
        assert!(!text.contains("fresh") && !text.contains("0.10 s  quick") && text.contains("4.00 s  slow"));
        assert!(times().text(true).contains("0.10 s  quick"), "the file has all");
    }

    #[test]
    fn what_takes_longer_than_it_may_is_said() {
        let s = Duration::from_secs;
        assert!(!budget(false, s(600), s(600 + SHORT_BUDGET_S)).contains("OVER"));
        assert!(budget(false, s(600), s(601 + SHORT_BUDGET_S)).contains("OVER"));
        assert!(budget(true, s(0), s(ALL_BUDGET_S + 1)).contains("OVER"));
    }
}
