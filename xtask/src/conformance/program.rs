//! One test program, run until every case of it has a verdict: where it dies or hangs, it runs again without that case.

use super::gtest::{Verdict, listed, verdicts};
use super::known::{Known, known};
use crate::clients::Release;
use crate::run::{Output, run};
use anyhow::{Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

pub struct Program {
    pub name: String,
    pub release: Release,
    pub env: Vec<(String, String)>,
    /// Cases a process.
    pub slice: usize,
    /// Processes at a time.
    pub jobs: usize,
    pub limit: Duration,
    /// When its suite's time is over: what has not run by then has failed.
    pub end: Instant,
    /// Our OSDs are under stock monitors.
    pub among_stock: bool,
    /// Which of its cases belong to the suite.
    pub belongs: fn(&str) -> bool,
}

/// What became of a program's cases.
pub struct Outcome {
    pub program: String,
    pub cases: BTreeMap<String, Verdict>,
    /// Cases that were not tried, with the reason.
    pub left_out: BTreeMap<String, &'static str>,
    /// Cases that may fail, with the reason.
    pub expected: BTreeMap<String, &'static str>,
    /// Those of them that must.
    pub must_fail: BTreeSet<String>,
    pub took: Duration,
}

impl Program {
    pub fn is_there(&self) -> bool {
        self.release.has(&format!("/usr/bin/{}", self.name))
    }

    fn start(&self, conf: &Path, args: &[String]) -> Result<Output> {
        let mut cmd = self.release.command(conf, &self.name);
        cmd.args(args).envs(self.env.iter().map(|(k, v)| (k, v)));
        run(&mut cmd, self.limit.min(self.end.saturating_duration_since(Instant::now())))
    }

    pub fn run(&self, conf: &Path) -> Result<Outcome> {
        let started = Instant::now();
        let mut outcome = Outcome {
            program: self.name.clone(),
            cases: BTreeMap::new(),
            left_out: BTreeMap::new(),
            expected: BTreeMap::new(),
            must_fail: BTreeSet::new(),
            took: Duration::ZERO,
        };
        let list = self.start(conf, &["--gtest_list_tests".into()])?;
        let mut names = listed(&list.stdout);
        ensure!(!names.is_empty(), "{} lists no cases; it ended with {}:\n{}{}", self.name, list.code, list.stdout, list.stderr);
        names.retain(|name| (self.belongs)(name));
        let mut todo = Vec::new();
        for name in names {
            match known(&self.name, &name, self.among_stock) {
                Some(Known::LeftOut(why)) => drop(outcome.left_out.insert(name, why)),
                Some(Known::Fails(why)) => {
                    outcome.expected.insert(name.clone(), why);
                    outcome.must_fail.insert(name.clone());
                    todo.push(name);
                }
                Some(Known::Unsettled(why)) => {
                    outcome.expected.insert(name.clone(), why);
                    todo.push(name);
                }
                None => todo.push(name),
            }
        }
        outcome.cases = self.run_cases(conf, &todo)?;
        outcome.took = started.elapsed();
        Ok(outcome)
    }

    /// Runs cases slice by slice, some slices side by side.
    fn run_cases(&self, conf: &Path, cases: &[String]) -> Result<BTreeMap<String, Verdict>> {
        let started = Instant::now();
        let slices = Mutex::new(cases.chunks(self.slice.min(cases.len()).max(1)));
        let found = Mutex::new(BTreeMap::new());
        let work = || -> Result<()> {
            loop {
                let Some(slice) = slices.lock().expect("no holder panics").next() else { return Ok(()) };
                let new = self.run_slice(conf, slice)?;
                let mut found = found.lock().expect("no holder panics");
                found.extend(new);
                if slice.len() < cases.len() {
                    println!("{}: {} of {} cases, {} s", self.name, found.len(), cases.len(), started.elapsed().as_secs());
                }
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.jobs).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
        })?;
        Ok(found.into_inner().expect("no holder panics"))
    }

    /// Runs cases in one process, and in further ones those behind a case that it did not get past.
    fn run_slice(&self, conf: &Path, cases: &[String]) -> Result<BTreeMap<String, Verdict>> {
        let (mut found, mut todo) = (BTreeMap::new(), cases.to_vec());
        while !todo.is_empty() {
            if Instant::now() >= self.end {
                found.extend(todo.drain(..).map(|name| (name, Verdict::Failed("the suite's time was over before it began".into()))));
                break;
            }
            let out = self.start(conf, &[format!("--gtest_filter={}", todo.join(":"))])?;
            let mut new = verdicts(&out.stdout);
            if new.is_empty() {
                // It does not even begin: nothing is gained by more attempts.
                let said = format!("{}{}", out.stdout, out.stderr);
                let why = format!("the program ended with {}: {}", out.code, said.lines().next_back().unwrap_or_default());
                new = todo.iter().map(|name| (name.clone(), Verdict::Failed(why.clone()))).collect();
            }
            let before = todo.len();
            todo.retain(|name| !new.contains_key(name));
            ensure!(todo.len() < before, "{} runs other cases than those that it was asked for", self.name);
            found.extend(new);
        }
        Ok(found)
    }
}

impl Outcome {
    pub fn passed(&self) -> usize {
        self.cases.values().filter(|v| **v == Verdict::Passed).count()
    }
    pub fn skipped(&self) -> usize {
        self.cases.values().filter(|v| **v == Verdict::Skipped).count()
    }
    pub fn failed(&self) -> impl Iterator<Item = (&String, &String)> {
        self.cases.iter().filter_map(|(name, verdict)| match verdict {
            Verdict::Failed(why) => Some((name, why)),
            _ => None,
        })
    }
    /// Cases that failed and may not, and those that passed although they can't.
    pub fn unexpected(&self) -> Vec<String> {
        let failed = self.failed().filter(|(name, _)| !self.expected.contains_key(*name));
        let mut texts: Vec<String> = failed.map(|(name, why)| format!("{} {name} failed: {why}", self.program)).collect();
        let passed = self.must_fail.iter().filter(|name| self.cases.get(*name) == Some(&Verdict::Passed));
        texts.extend(passed.map(|name| format!("{} {name} passes, and is listed as failing", self.program)));
        texts
    }
    pub fn surprises(&self) -> usize {
        self.unexpected().len()
    }
    pub fn line(&self) -> String {
        let failed = self.failed().count();
        let (passed, skipped, left_out) = (self.passed(), self.skipped(), self.left_out.len());
        format!("{}: {passed} passed, {failed} failed, {skipped} skipped, {left_out} left out, {} s", self.program, self.took.as_secs())
    }
}
