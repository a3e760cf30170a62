//! Random vectors of operations sent to two clusters by one kind of client, and what both say and hold compared.
//!
//! Holds the comparison, the shrinking of what differs, and the list of differences that are meant to be. [`case`] makes the
//! vectors of [`ops`] and [`calls`], `send.py` sends them, [`settle`] takes out of answers what can't be alike. Several
//! senders have cases under way at a time, each on objects of its own: an answer takes a client longer to wait for than to make.

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
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

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
    (
        "20.2 says EIO where a class goes over keys of an object that the vector makes; 18.2 says that it is not there",
        Case::snapshots_of_what_it_makes,
    ),
    ("stock leaves an object its sign of an omap when it is removed, so clearing none is a change", Case::clears_what_was_removed),
    (
        "BlueStore removes the range's keys that were stored when the vector began, not those that the vector sets",
        Case::removes_keys_that_it_sets,
    ),
    ("of an index' header that is another class', 18.2 looks at none where 20.2 does", Case::index_with_anothers_header),
];

/// What sends vectors to both.
struct Sender {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Sender {
    fn start(confs: &[&Path]) -> Result<Self> {
        let mut cmd = Command::new("python3");
        cmd.arg(root().join("suites/src/vectors/send.py")).arg(POOL).args(confs);
        let mut child = cmd.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("starting python3")?;
        let (stdin, stdout) = (child.stdin.take().context("piped")?, child.stdout.take().context("piped")?);
        let mut sender = Self { child, stdin, stdout: BufReader::new(stdout) };
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
        static OBJECTS: AtomicU64 = AtomicU64::new(0);
        let object = u64::from(std::process::id()) << 32 | OBJECTS.fetch_add(1, Ordering::Relaxed);
        let mut line = Map::new();
        line.insert("object".into(), format!("o{object:x}").into());
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

/// The outcome so far, over all senders.
#[derive(Default)]
struct Found {
    accepted: BTreeMap<&'static str, u64>,
    wrong: usize,
}

/// The cases of a run, dealt out one by one.
struct Cases {
    seed: u64,
    count: u64,
    next: AtomicU64,
    found: Mutex<Found>,
}

impl Cases {
    fn found(&self) -> std::sync::MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The next one's seed, until all are dealt or enough differ.
    fn deal(&self) -> Option<u64> {
        if self.found().wrong >= SHOWN_MAX {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number > 0 && number < self.count && number.is_multiple_of(TOLD_EVERY) {
            println!("{number} cases so far");
        }
        (number < self.count).then(|| self.seed.wrapping_add(number))
    }
    /// Sends cases until none is left.
    fn send(&self, mut sender: Sender) -> Result<()> {
        while let Some(seed) = self.deal() {
            let case = Case::new(seed);
            if differs(&mut sender, &case)?.is_none() {
                continue;
            }
            if let Some((reason, _)) = ACCEPTED.iter().find(|(_, of)| of(&case)) {
                *self.found().accepted.entry(*reason).or_default() += 1;
                continue;
            }
            let case = shrink(&mut sender, case)?;
            let still = differs(&mut sender, &case)?;
            // Held while it prints: texts of two cases don't mix.
            let mut found = self.found();
            found.wrong += 1;
            println!("seed {seed}: {}", case.json());
            match still {
                Some((one, other)) => println!("  ours  {one}\n  stock {other}"),
                None => println!("  differed, and does no more"),
            }
        }
        Ok(())
    }
}

/// Sends `count` cases by so many senders; fails if any answers differ for no accepted reason. Without `ours`, a cluster is started.
pub fn vectors(ours: Option<&Path>, stock: &Path, count: u64, seed: u64, senders: usize) -> Result<()> {
    ensure!(senders > 0, "vectors need a sender");
    let started = match ours {
        Some(_) => None,
        None => {
            cluster::build()?;
            Some(Cluster::start("vectors", &[])?)
        }
    };
    let ours = ours.or(started.as_ref().map(|cluster| cluster.conf.as_path())).context("a ceph.conf")?;
    // All before the first case: each writes the objects that are copied from.
    let senders: Vec<Sender> = (0..senders).map(|_| Sender::start(&[ours, stock])).collect::<Result<_>>()?;
    let cases = Cases { seed, count, next: AtomicU64::new(0), found: Mutex::default() };
    std::thread::scope(|scope| {
        let sending: Vec<_> = senders.into_iter().map(|sender| scope.spawn(|| cases.send(sender))).collect();
        sending.into_iter().try_for_each(|one| one.join().expect("a sender's thread returns its errors"))
    })?;
    let found = cases.found();
    for (reason, times) in &found.accepted {
        println!("{times} differ as they are meant to: {reason}");
    }
    if found.wrong > 0 {
        bail!("{} of {count} cases differ", found.wrong);
    }
    println!("{count} cases are answered alike");
    Ok(())
}
