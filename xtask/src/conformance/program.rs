//! One test program, run until every case of it has a verdict: where it dies or hangs, it runs again without that case.

use super::gtest::{Verdict, listed, verdicts};
use super::known::{Known, known};
use crate::clients::Release;
use crate::cluster::Cluster;
use crate::run::{Output, run};
use anyhow::{Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

pub struct Program {
    pub name: String,
    pub release: Release,
    pub env: Vec<(String, String)>,
    /// Cases a process.
    pub slice: usize,
    pub limit: Duration,
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

    fn start(&self, cluster: &Cluster, args: &[String]) -> Result<Output> {
        let mut cmd = self.release.command(&cluster.conf, &self.name);
        cmd.args(args).envs(self.env.iter().map(|(k, v)| (k, v)));
        run(&mut cmd, self.limit)
    }

    pub fn run(&self, cluster: &Cluster) -> Result<Outcome> {
        let started = Instant::now();
        let mut outcome = Outcome {
            program: self.name.clone(),
            cases: BTreeMap::new(),
            left_out: BTreeMap::new(),
            expected: BTreeMap::new(),
            must_fail: BTreeSet::new(),
            took: Duration::ZERO,
        };
        let list = self.start(cluster, &["--gtest_list_tests".into()])?;
        let names = listed(&list.stdout);
        ensure!(!names.is_empty(), "{} lists no cases; it ended with {}:\n{}{}", self.name, list.code, list.stdout, list.stderr);
        let mut todo = Vec::new();
        for name in names {
            match known(&self.name, &name) {
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
        let cases = todo.len();
        while !todo.is_empty() {
            let slice = &todo[..self.slice.min(todo.len())];
            let out = self.start(cluster, &[format!("--gtest_filter={}", slice.join(":"))])?;
            let mut new = verdicts(&out.stdout);
            if new.is_empty() {
                // It does not even begin: nothing is gained by more attempts.
                let said = format!("{}{}", out.stdout, out.stderr);
                let why = format!("the program ended with {}: {}", out.code, said.lines().next_back().unwrap_or_default());
                new = slice.iter().map(|name| (name.clone(), Verdict::Failed(why.clone()))).collect();
            }
            let before = todo.len();
            todo.retain(|name| !new.contains_key(name));
            outcome.cases.extend(new);
            ensure!(todo.len() < before, "{} runs other cases than those that it was asked for", self.name);
            if self.slice < cases {
                println!("{}: {} of {cases} cases, {} s", self.name, cases - todo.len(), started.elapsed().as_secs());
            }
        }
        outcome.took = started.elapsed();
        Ok(outcome)
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
