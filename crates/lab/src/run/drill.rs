//! Drills: what is done to a target while a load runs, when, and what it took until everything was whole again.
//!
//! Acknowledged writes are held against a ledger that is kept outside of the cluster: small objects, written one after the other by stock's
//! `rados`, each noted when it was acknowledged, all read back when the cluster is whole.

use super::interrupt;
use crate::load::runner::chore;
use crate::study::file::Drill;
use crate::target::osds::{self, Action};
use crate::target::{Place, Target};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a cluster may take until it is whole.
const WHOLE: Duration = Duration::from_secs(180);
/// How often that is asked while a load runs, and afterwards.
const ASK: Duration = Duration::from_secs(1);
const ASK_OFTEN: Duration = Duration::from_millis(200);
/// Between two writes of the ledger.
const PACE: Duration = Duration::from_millis(100);
const WRITE: Duration = Duration::from_secs(120);

/// What drills came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Drilled {
    /// What was done, with the second of the load.
    pub done: Vec<(String, f64)>,
    /// The longest time without an answer.
    pub pause_ms: Option<f64>,
    /// From the drill that waits for it.
    pub clean_s: Option<f64>,
    /// Writes of the ledger that were acknowledged, and those of them that are gone.
    pub acknowledged: u64,
    pub lost: u64,
}

/// A load's drills, in their course.
pub struct Course {
    left: VecDeque<Drill>,
    begun: Option<Instant>,
    waits: Option<Instant>,
    asked: Instant,
    pub drilled: Drilled,
    /// Why it could not go on.
    pub failed: Option<String>,
}

impl Course {
    pub fn new<'a>(drills: impl Iterator<Item = &'a Drill>) -> Self {
        let mut left: Vec<Drill> = drills.cloned().collect();
        left.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        Self { left: left.into(), begun: None, waits: None, asked: Instant::now(), drilled: Drilled::default(), failed: None }
    }
    /// The load begins.
    pub fn begin(&mut self) {
        self.begun = Some(Instant::now());
    }
    /// Does what is due.
    pub fn look(&mut self, target: &mut dyn Target) {
        let Some(begun) = self.begun else { return };
        while self.failed.is_none()
            && let Some(drill) = self.left.pop_front_if(|d| begun.elapsed().as_secs_f64() >= d.at_s)
        {
            let at_s = begun.elapsed().as_secs_f64();
            if let Err(e) = act(target, &drill) {
                self.failed = Some(format!("{} of {}: {e:#}", drill.action, drill.what));
            }
            self.drilled.done.push((format!("{} {}", drill.action, drill.what), (at_s * 1000.0).round() / 1000.0));
            if drill.until.as_deref() == Some("active+clean") {
                self.waits = Some(Instant::now());
            }
        }
        if self.asked.elapsed() >= ASK {
            self.ask(target);
        }
    }
    fn ask(&mut self, target: &mut dyn Target) {
        self.asked = Instant::now();
        if let Some(since) = self.waits
            // A monitor that has no answer just now has one the next time.
            && target.is_clean().unwrap_or(false)
        {
            self.drilled.clean_s = Some((since.elapsed().as_secs_f64() * 1000.0).round() / 1000.0);
            self.waits = None;
        }
    }
    /// The load is over: waits for what is waited for, and makes the target whole.
    pub fn finish(&mut self, target: &mut dyn Target) -> Result<()> {
        let end = Instant::now() + WHOLE;
        while self.waits.is_some() && Instant::now() < end && !interrupt::asked() {
            std::thread::sleep(ASK_OFTEN);
            self.ask(target);
        }
        target.heal()?;
        let end = Instant::now() + WHOLE;
        while !target.is_clean().unwrap_or(false) {
            if interrupt::asked() || Instant::now() >= end {
                bail!("it is not whole again after {} s", WHOLE.as_secs());
            }
            std::thread::sleep(ASK_OFTEN);
        }
        match (&self.failed, self.left.front()) {
            (Some(why), _) => bail!("{why}"),
            (None, Some(drill)) => bail!("the load ended before {} of {} was due", drill.action, drill.what),
            (None, None) => Ok(()),
        }
    }
}

fn act(target: &mut dyn Target, drill: &Drill) -> Result<()> {
    let action = Action::parse(&drill.action).map_err(anyhow::Error::msg)?;
    target.drill(action, osds::number(&drill.what).map_err(anyhow::Error::msg)?)
}

/// Writes that are noted outside of the cluster.
pub struct Ledger {
    place: Place,
    dir: PathBuf,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u64>>,
}

fn object(n: u64) -> String {
    format!("lab-ledger-{n}")
}

fn rados(place: &Place, verb: &str, n: u64, file: &Path) -> Result<String> {
    chore(place.command("rados").args(["-p", "bench", verb, &object(n)]).arg(file), WRITE)
}

impl Ledger {
    pub fn start(place: &Place, dir: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (of_thread, of_place, note) = (stop.clone(), place.clone(), dir.join("ledger"));
        let thread = std::thread::spawn(move || {
            let (mut acknowledged, mut n) = (Vec::new(), 0u64);
            while !of_thread.load(Ordering::Relaxed) && !interrupt::asked() {
                let file = note.with_extension("put");
                // An error is no acknowledgement: nothing is owed for it.
                if fs::write(&file, n.to_string()).is_ok() && rados(&of_place, "put", n, &file).is_ok() {
                    acknowledged.push(n);
                }
                n += 1;
                std::thread::sleep(PACE);
            }
            let text: String = acknowledged.iter().map(|n| format!("{n}\n")).collect();
            let _ = fs::write(note, text);
            acknowledged
        });
        Self { place: place.clone(), dir: dir.into(), stop, thread }
    }
    /// Reads back what was acknowledged; how many that are, and how many of them are gone or other than they were.
    pub fn settle(self) -> Result<(u64, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        let acknowledged = self.thread.join().ok().context("the ledger's writer panicked")?;
        let file = self.dir.join("ledger.get");
        let mut lost = 0;
        for n in &acknowledged {
            let _ = fs::remove_file(&file);
            let there = rados(&self.place, "get", *n, &file).is_ok() && fs::read_to_string(&file).is_ok_and(|t| t == n.to_string());
            lost += u64::from(!there);
            if interrupt::asked() {
                bail!("interrupted");
            }
        }
        Ok((acknowledged.len() as u64, lost))
    }
}
