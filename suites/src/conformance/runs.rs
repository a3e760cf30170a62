//! What came of a program that has no list of cases of GoogleTest's: its runs, or checks, are noted one by one.

use super::gtest::Verdict;
use super::kept::{Files, names};
use super::program::Outcome;
use crate::run::Output;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// One program's runs, as an outcome with a case for each.
pub struct Runs {
    pub outcome: Outcome,
    started: Instant,
}

impl Runs {
    pub fn new(program: &str) -> Self {
        let outcome = Outcome {
            program: program.into(),
            cases: BTreeMap::new(),
            left_out: BTreeMap::new(),
            expected: BTreeMap::new(),
            must_fail: BTreeSet::new(),
            unsettled: BTreeMap::new(),
            took: Duration::ZERO,
        };
        Self { outcome, started: Instant::now() }
    }
    /// Notes a run that passed if nothing speaks against it; what it printed is kept otherwise.
    pub fn add(&mut self, case: String, took: Duration, against: Option<String>, out: &Output) {
        println!("{}: {case}: {}, {} s", self.outcome.program, against.as_deref().unwrap_or("passed"), took.as_secs());
        if against.is_some() {
            let kept = Files::new(&self.outcome.program).and_then(|files| files.keep(&case, out));
            println!("    kept in {}", kept.map_or_else(|e| format!("no file: {e:#}"), |files| names(&files)));
        }
        self.outcome.cases.insert(case, against.map_or(Verdict::Passed, Verdict::Failed));
    }
    pub fn end(mut self) -> Outcome {
        self.outcome.took = self.started.elapsed();
        self.outcome
    }
}

/// What speaks against a run that should have ended with 0 and said `word`.
pub fn against(out: &Output, word: &str) -> Option<String> {
    let said = [&out.stdout, &out.stderr].into_iter().any(|text| text.lines().any(|line| line.trim() == word));
    let last = || format!("{}{}", out.stdout, out.stderr).lines().next_back().unwrap_or_default().to_string();
    (!out.ok() || !said).then(|| format!("it ended with {}: {}", out.code, last()))
}
