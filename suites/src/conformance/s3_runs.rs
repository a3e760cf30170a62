//! Runs of pytest over s3-tests: several side by side, then what failed once more, alone.
//!
//! Tests of lifecycles and logs mostly sleep, and each run has buckets of a prefix of its own. One run has all tests that look at
//! what users share beyond buckets, such as the users of an account.

use super::gtest::Verdict;
use super::kept::{Files, names};
use super::pytest;
use super::settle::MOST_UNSETTLED;
use crate::run::{Output, run};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Runs at a time.
const HANDS: usize = 3;
const LIMIT: Duration = Duration::from_secs(3600);
/// For one test; those of lifecycles sleep up to 70 s.
const TEST_S: u32 = 180;
/// The file that most tests stand in, and words of those in it that use what its users share.
const MOST: &str = "/test_s3.py::";
const SHARING: [&str; 3] = ["account", "deny_self", "usage"];

pub struct Tests<'a> {
    pub pytest: &'a Path,
    pub checkout: &'a Path,
    /// The tests' configuration.
    pub conf: &'a Path,
    /// Their folder below the checkout.
    pub folder: &'a str,
    /// Options that select some.
    pub select: &'a [&'a str],
}

/// How each test ended, and where the output of those runs is that had a failure.
pub type Ended = (Vec<(String, Verdict)>, Vec<PathBuf>);

/// Deals tests out: what shares something to the first hand, each other to the one that has the fewest.
fn deal(tests: Vec<String>, hands: usize) -> Vec<Vec<String>> {
    let (mut dealt, mut others) = (vec![Vec::new(); hands], Vec::new());
    for test in tests {
        match test.contains(MOST) && !SHARING.iter().any(|word| test.contains(word)) {
            true => others.push(test),
            false => dealt[0].push(test),
        }
    }
    for test in others {
        dealt.iter_mut().min_by_key(|hand| hand.len()).expect("there are hands").push(test);
    }
    dealt
}

impl Tests<'_> {
    fn command(&self) -> Command {
        let mut cmd = Command::new(self.pytest);
        cmd.current_dir(self.checkout).env("S3TEST_CONF", self.conf).env("PYTHONDONTWRITEBYTECODE", "1");
        cmd
    }
    /// The tests that are meant, as pytest calls them.
    fn list(&self) -> Result<Vec<String>> {
        let mut cmd = self.command();
        cmd.args(["--collect-only", "-q", "-p", "no:warnings", "-p", "no:cacheprovider"]).args(self.select).arg(self.folder);
        let out = run(&mut cmd, LIMIT)?;
        let tests: Vec<String> = out.stdout.lines().filter(|line| line.contains(".py::")).map(str::to_string).collect();
        ensure!(out.ok() && !tests.is_empty(), "pytest lists no tests; it ended with {}:\n{}{}", out.code, out.stdout, out.stderr);
        Ok(tests)
    }
    fn some(&self, tests: &[String]) -> Result<Output> {
        let mut cmd = self.command();
        let out = run(cmd.args(pytest::SAY).arg(format!("--timeout={TEST_S}")).args(tests), LIMIT)?;
        // 1 says that some failed.
        ensure!(out.code < 2, "pytest ended with {}:\n{}{}", out.code, pytest::last(&out), out.stderr);
        Ok(out)
    }
    /// Runs all that are selected.
    pub fn run(&self, known: impl Fn(&str) -> bool) -> Result<Ended> {
        let hands = deal(self.list()?, HANDS);
        let outs: Vec<Output> = std::thread::scope(|scope| {
            let running: Vec<_> = hands.iter().filter(|hand| !hand.is_empty()).map(|hand| scope.spawn(|| self.some(hand))).collect();
            running.into_iter().map(|one| one.join().expect("a run returns its errors")).collect::<Result<_>>()
        })?;
        let (mut found, mut kept) = (Vec::new(), Vec::new());
        for out in &outs {
            let ended = pytest::read(&out.stdout);
            if ended.iter().any(|(name, verdict)| matches!(verdict, Verdict::Failed(_)) && !known(name)) {
                kept.extend(Files::new("s3-tests")?.keep("pytest", out)?);
            }
            found.extend(ended);
        }
        let silent: Vec<String> =
            hands.concat().iter().map(|test| pytest::name_of(test)).filter(|test| found.iter().all(|(name, _)| name != test)).collect();
        ensure!(silent.is_empty(), "pytest told nothing of {}", silent.join(", "));
        if !kept.is_empty() {
            println!("    s3-tests failed; kept in {}", names(&kept));
        }
        Ok((found, kept))
    }
    /// Those of the failed that pass alone. One more is tried at most than may be unsettled.
    pub fn alone(&self, failed: &[String]) -> Result<Vec<String>> {
        let all = self.list()?;
        let mut passed = Vec::new();
        for name in failed.iter().take(MOST_UNSETTLED + 1) {
            let test = all.iter().find(|test| pytest::name_of(test) == *name).with_context(|| format!("{name} is no test"))?;
            let out = self.some(std::slice::from_ref(test))?;
            if pytest::read(&out.stdout).iter().any(|(ended, verdict)| ended == name && *verdict == Verdict::Passed) {
                passed.push(name.clone());
            }
        }
        Ok(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_share_are_one_hands_and_the_others_are_even() {
        let of = |file: &str, name: &str| format!("s3tests/functional/{file}.py::{name}");
        let iam = (0..3).map(|n| of("test_iam", &format!("test_{n}")));
        let s3 = (0..8).map(|n| of("test_s3", &format!("test_{n}")));
        let all: Vec<String> = iam.chain(s3).chain([of("test_s3", "test_account_usage")]).collect();
        let dealt = deal(all.clone(), 3);
        assert_eq!(dealt.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 4]);
        assert!(dealt[0].iter().all(|test| !test.contains(MOST) || test.contains("account")), "{dealt:?}");
        let mut back = dealt.concat();
        back.sort();
        let mut due = all;
        due.sort();
        assert_eq!(back, due);
    }
}
