//! Random vectors of operations sent to two clusters by one client, and what both say and hold compared.
//!
//! Holds the comparison, the shrinking of what differs, and the list of differences that are meant to be. [`case`] makes the
//! vectors of [`ops`] and [`calls`], `send.py` sends them, [`settle`] takes out of answers what can't be alike.

mod calls;
mod case;
mod draw;
mod ops;
mod settle;

use crate::cluster::{self, Cluster};
use crate::run::root;
use anyhow::{Context, Result, bail, ensure};
use case::Case;
use serde_json::{Map, Value};
use settle::settled;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The pool that both get.
const POOL: &str = "vectors-1";
/// How often a case is made smaller at most.
const SHRINKS_MAX: usize = 400;
/// A long run says after so many cases that it goes on.
const TOLD_EVERY: u64 = 10_000;
/// Different cases that are shown.
const SHOWN_MAX: usize = 20;

/// A difference that is meant to be: the reason, and of which cases.
type Accepted = (&'static str, fn(&Case) -> bool);

/// Stock is 18.2 and 20.2 unless said otherwise.
const ACCEPTED: &[Accepted] = &[
    ("stock keeps an object, or its attributes, that one vector removes or rolls back, changes and removes again", Case::removes_twice),
    ("stock leaves an object its sign of an omap when it is removed, so clearing none is a change", Case::clears_what_was_removed),
    ("of an index' header that is another class', 18.2 looks at none where 20.2 does", Case::index_with_anothers_header),
];

/// What sends vectors to both.
struct Sender {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    objects: u64,
}

impl Sender {
    fn start(confs: &[&Path]) -> Result<Self> {
        let mut cmd = Command::new("python3");
        cmd.arg(root().join("suites/src/vectors/send.py")).arg(POOL).args(confs);
        let mut child = cmd.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("starting python3")?;
        let (stdin, stdout) = (child.stdin.take().context("piped")?, child.stdout.take().context("piped")?);
        let mut sender = Self { child, stdin, stdout: BufReader::new(stdout), objects: u64::from(std::process::id()) << 32 };
        let ready = sender.line()?;
        ensure!(ready["ready"] == confs.len(), "the sender says {ready}");
        Ok(sender)
    }
    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        ensure!(self.stdout.read_line(&mut line)? > 0, "the sender has ended; librados and python3 are needed, and clusters that serve");
        serde_json::from_str(&line).with_context(|| line)
    }
    /// What each cluster answers to a case, on an object that it never had.
    fn send(&mut self, case: &Case) -> Result<(Value, Value)> {
        self.objects += 1;
        let mut line = Map::new();
        line.insert("object".into(), format!("o{:x}", self.objects).into());
        line.insert("steps".into(), case.json());
        writeln!(self.stdin, "{}", Value::Object(line))?;
        let mut answers = self.line()?;
        let [one, other] = [0_usize, 1].map(|at| settled(answers[at].take(), case));
        Ok((one, other))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn differs(sender: &mut Sender, case: &Case) -> Result<Option<(Value, Value)>> {
    let (one, other) = sender.send(case)?;
    Ok((one != other).then_some((one, other)))
}

/// The smallest case that still differs, by taking away what is not needed.
fn shrink(sender: &mut Sender, mut case: Case) -> Result<Case> {
    let mut left = SHRINKS_MAX;
    'smaller: loop {
        for candidate in case.smaller() {
            if left == 0 {
                return Ok(case);
            }
            left -= 1;
            // What differs for an accepted reason is another difference.
            if ACCEPTED.iter().all(|(_, of)| !of(&candidate)) && differs(sender, &candidate)?.is_some() {
                case = candidate;
                continue 'smaller;
            }
        }
        return Ok(case);
    }
}

/// Sends `count` cases; fails if any answers differ for no accepted reason. Without `ours`, a cluster is started.
pub fn vectors(ours: Option<&Path>, stock: &Path, count: u64, seed: u64) -> Result<()> {
    let started = match ours {
        Some(_) => None,
        None => {
            cluster::build()?;
            Some(Cluster::start("vectors", &[])?)
        }
    };
    let ours = ours.or(started.as_ref().map(|cluster| cluster.conf.as_path())).context("a ceph.conf")?;
    let mut sender = Sender::start(&[ours, stock])?;
    let mut accepted: BTreeMap<&str, u64> = BTreeMap::new();
    let mut wrong = 0;
    for number in 0..count {
        if number > 0 && number.is_multiple_of(TOLD_EVERY) {
            println!("{number} cases so far");
        }
        let case = Case::new(seed.wrapping_add(number));
        if differs(&mut sender, &case)?.is_none() {
            continue;
        }
        if let Some((reason, _)) = ACCEPTED.iter().find(|(_, of)| of(&case)) {
            *accepted.entry(*reason).or_default() += 1;
            continue;
        }
        wrong += 1;
        let case = shrink(&mut sender, case)?;
        println!("seed {}: {}", seed.wrapping_add(number), case.json());
        match differs(&mut sender, &case)? {
            Some((one, other)) => println!("  ours  {one}\n  stock {other}"),
            None => println!("  differed, and does no more"),
        }
        if wrong == SHOWN_MAX {
            break;
        }
    }
    for (reason, times) in accepted {
        println!("{times} differ as they are meant to: {reason}");
    }
    if wrong > 0 {
        bail!("{wrong} of {count} cases differ");
    }
    println!("{count} cases are answered alike");
    Ok(())
}
