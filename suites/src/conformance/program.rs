//! One test program, run until every case of it has a verdict: where it dies or hangs, it runs again without that case.

use super::gtest::{Verdict, listed, part, verdicts};
use super::kept::{Files, names};
use super::known::{Known, known};
use super::settle::{self, Attempt, Fate, excuse, settle};
use crate::clients::{Release, is_root};
use crate::run::{Output, run};
use anyhow::{Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Process ids of a program's runs: the first lists its cases. With some (16092 is one) `TestMigration.StressLive` of 18.2 fails, on a stock cluster, too:
/// where a discard leaves an object of a clone empty, a snapshot is taken and the image then shrinks below it, librbd does not copy that object.
const FIRST_PID: usize = 1000;
/// Programs name their pools after their process id, so no two processes have the same.
const PIDS_A_SLICE: usize = 100;

/// The program whose client's log is kept, too.
const LIBRBD: &str = "ceph_test_librbd";

pub struct Program<'a> {
    pub name: String,
    pub release: Release,
    pub env: Vec<(String, String)>,
    /// A cluster for a case that failed: runs `body` with its ceph.conf, and ends it.
    pub fresh: &'a (dyn Fn(&mut Body) -> Result<()> + Sync),
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
    /// It runs as a user without privileges: it asks what such a user may not.
    pub plain_user: bool,
}

/// What is done with a cluster's ceph.conf.
pub type Body<'a> = dyn FnMut(&Path) -> Result<()> + 'a;

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
    /// Cases that failed and then passed alone on a fresh cluster, with what they complained of first.
    pub unsettled: BTreeMap<String, String>,
    pub took: Duration,
}

impl Program<'_> {
    pub fn is_there(&self) -> bool {
        self.release.has(&format!("/usr/bin/{}", self.name))
    }

    /// Runs the program with that process id, which is the seed of its random numbers: what it does by chance is the same in every run.
    fn start(&self, conf: &Path, args: &[String], pid: usize, client_log: Option<&Path>) -> Result<Output> {
        let mut cmd = if self.plain_user { self.release.command_of_user(conf, &self.name) } else { self.release.command(conf, &self.name) };
        cmd.args(args).envs(self.env.iter().map(|(k, v)| (k, v)));
        if let Some(path) = client_log {
            cmd.env("CEPH_ARGS", format!("--debug-rbd=10 --log-to-stderr=false --log-file={}", path.display()));
        }
        // Programs that work on files name these after their process id, and several share a file system.
        let mut cmd = if is_root() && !self.plain_user { with_pid(&cmd, pid) } else { cmd };
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
            unsettled: BTreeMap::new(),
            took: Duration::ZERO,
        };
        let list = self.start(conf, &["--gtest_list_tests".into()], FIRST_PID, None)?;
        let mut names = listed(&list.stdout);
        ensure!(!names.is_empty(), "{} lists no cases; it ended with {}:\n{}{}", self.name, list.code, list.stdout, list.stderr);
        names.retain(|name| (self.belongs)(name));
        let mut todo = Vec::new();
        for name in names {
            match known(&self.name, self.release, &name, self.among_stock) {
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
        let attempts = self.run_cases(conf, &todo)?;
        self.settle(&mut outcome, attempts)?;
        outcome.took = started.elapsed();
        Ok(outcome)
    }

    /// Gives each case its verdict; those that failed and are not known to have what second attempt they may have.
    fn settle(&self, outcome: &mut Outcome, attempts: BTreeMap<String, Attempt>) -> Result<()> {
        outcome.cases = attempts.iter().map(|(case, attempt)| (case.clone(), attempt.verdict.clone())).collect();
        let failed = attempts.into_iter().filter(|(_, attempt)| matches!(attempt.verdict, Verdict::Failed(_)));
        let unknown = failed.filter(|(case, _)| !outcome.expected.contains_key(case)).collect();
        let features = self.env.iter().find(|(name, _)| name == "RBD_FEATURES").map(|(_, value)| value.as_str());
        let excuse = |case: &str, said: &str| excuse(&self.name, self.release, features, case, said);
        for (case, fate) in settle(unknown, excuse, |case, pid| self.alone(case, pid))? {
            match fate {
                Fate::Failed(why) => drop(outcome.cases.insert(case, Verdict::Failed(why))),
                Fate::Excused(why) => drop(outcome.expected.insert(case, why)),
                Fate::Unsettled { complaint, files } => {
                    settle::note(&self.name, &case, &complaint, &files);
                    outcome.cases.insert(case.clone(), Verdict::Passed);
                    outcome.unsettled.insert(case, complaint);
                }
            }
        }
        Ok(())
    }

    /// Runs one case that failed once more, alone, on a fresh cluster; its output is kept, however it ends.
    fn alone(&self, case: &str, pid: usize) -> Result<Attempt> {
        println!("{} {case}: once more, alone, on a fresh cluster", self.name);
        let mut found = None;
        (self.fresh)(&mut |conf: &Path| {
            found = self.attempt(conf, &[case.to_string()], pid, true)?.remove(case);
            Ok(())
        })?;
        let none =
            || Attempt { verdict: Verdict::Failed("the program did not begin it".into()), pid, said: String::new(), files: Vec::new() };
        Ok(found.unwrap_or_else(none))
    }

    /// One process with these cases: what came of those that it began. All of them failed if it began none.
    fn attempt(&self, conf: &Path, cases: &[String], pid: usize, always_kept: bool) -> Result<BTreeMap<String, Attempt>> {
        let files = Files::new(&format!("{}-{}", self.release.version(), self.name))?;
        let log = (self.name == LIBRBD).then(|| files.client_log());
        let filter = format!("--gtest_filter={}", cases.join(":"));
        let out = self.start(conf, std::slice::from_ref(&filter), pid, log.as_deref())?;
        let mut new = verdicts(&out.stdout);
        if new.is_empty() {
            // It does not even begin: nothing is gained by more attempts.
            let said = format!("{}{}", out.stdout, out.stderr);
            let why = format!("the program ended with {}: {}", out.code, said.lines().next_back().unwrap_or_default());
            new = cases.iter().map(|name| (name.clone(), Verdict::Failed(why.clone()))).collect();
        }
        let failed: Vec<&str> =
            new.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Failed(_))).map(|(name, _)| name.as_str()).collect();
        let kept = if failed.is_empty() && !always_kept {
            files.drop();
            Vec::new()
        } else {
            let kept = files.keep(&format!("{} {filter} (process {pid})", self.name), &out)?;
            let what = if failed.is_empty() { "passed alone".into() } else { format!("failed: {}", failed.join(", ")) };
            println!("    {} {what}; kept in {}", self.name, names(&kept));
            kept
        };
        let attempt = |name: String, verdict| {
            let said = if matches!(verdict, Verdict::Failed(_)) { part(&out.stdout, &name) } else { String::new() };
            (name, Attempt { verdict, pid, said, files: kept.clone() })
        };
        Ok(new.into_iter().map(|(name, verdict)| attempt(name, verdict)).collect())
    }

    /// Runs cases slice by slice, some slices side by side.
    fn run_cases(&self, conf: &Path, cases: &[String]) -> Result<BTreeMap<String, Attempt>> {
        let started = Instant::now();
        let slices = Mutex::new(cases.chunks(self.slice.min(cases.len()).max(1)).enumerate());
        let found = Mutex::new(BTreeMap::new());
        let work = || -> Result<()> {
            loop {
                let Some((place, slice)) = slices.lock().expect("no holder panics").next() else { return Ok(()) };
                let new = self.run_slice(conf, slice, FIRST_PID + (place + 1) * PIDS_A_SLICE)?;
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
    fn run_slice(&self, conf: &Path, cases: &[String], first_pid: usize) -> Result<BTreeMap<String, Attempt>> {
        let (mut found, mut todo) = (BTreeMap::new(), cases.to_vec());
        for pid in first_pid.. {
            if todo.is_empty() {
                break;
            }
            if Instant::now() >= self.end {
                let verdict = Verdict::Failed("the suite's time was over before it began".into());
                let late = Attempt { verdict, pid, said: String::new(), files: Vec::new() };
                found.extend(todo.drain(..).map(|name| (name, late.clone())));
                break;
            }
            let new = self.attempt(conf, &todo, pid, false)?;
            let before = todo.len();
            todo.retain(|name| !new.contains_key(name));
            ensure!(todo.len() < before, "{} runs other cases than those that it was asked for", self.name);
            found.extend(new);
        }
        Ok(found)
    }
}

/// The same command as a process of that id, in a namespace of its own.
fn with_pid(cmd: &Command, pid: usize) -> Command {
    let mut inner = Command::new("unshare");
    inner.args([
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
        "echo $(($1 - 1)) > /proc/sys/kernel/ns_last_pid; shift; \"$@\" & wait $!",
        "sh",
    ]);
    inner.arg(pid.to_string()).arg(cmd.get_program()).args(cmd.get_args());
    for (key, value) in cmd.get_envs() {
        match value {
            Some(value) => inner.env(key, value),
            None => inner.env_remove(key),
        };
    }
    inner
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
        let unsettled = if self.unsettled.is_empty() { String::new() } else { format!(" ({} unsettled)", self.unsettled.len()) };
        format!(
            "{}: {passed} passed{unsettled}, {failed} failed, {skipped} skipped, {left_out} left out, {} s",
            self.program,
            self.took.as_secs()
        )
    }
}
