//! Drills: what is done to a target while a load runs, when, and what it took until everything was whole again.
//!
//! Acknowledged writes are held against a ledger that is kept outside of the cluster: small objects, written one after the other by stock's
//! `rados`, each noted when it was acknowledged, all read back when the cluster is whole.

use super::interrupt;
use crate::load::runner::chore;
use crate::sample::{Sample, Subject, Used};
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
const WHOLE: Duration = Duration::from_secs(900);
/// How often that is asked while a load runs, and afterwards.
const ASK: Duration = Duration::from_secs(1);
const ASK_OFTEN: Duration = Duration::from_millis(200);
/// Between two looks at what is due when the load is over.
const SLEEP: Duration = Duration::from_millis(20);
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
    /// What that took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mended: Option<Mended>,
    /// Writes of the ledger that were acknowledged, and those of them that are gone.
    pub acknowledged: u64,
    pub lost: u64,
}

/// What passed from the drill that waits until everything was whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Mended {
    /// Over the loopback interface of the whole machine: daemons among each other, and clients.
    pub sent_bytes: u64,
    pub server_cpu_ns: u64,
    /// By the servers, to their devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
}

/// The moment from which a cluster is waited for.
struct Wait {
    since: Instant,
    sample: Sample,
    sent_bytes: u64,
}

/// Bytes that the loopback interface has carried: /proc/net/dev.
fn loopback_bytes() -> u64 {
    let text = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let line = text.lines().find_map(|l| l.trim().strip_prefix("lo:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A load's drills, in their course.
pub struct Course {
    left: VecDeque<Drill>,
    begun: Option<Instant>,
    ended: Option<Instant>,
    waits: Option<Wait>,
    asked: Instant,
    pub drilled: Drilled,
    /// Why it could not go on.
    pub failed: Option<String>,
}

impl Course {
    pub fn new<'a>(drills: impl Iterator<Item = &'a Drill>) -> Self {
        let mut left: Vec<Drill> = drills.cloned().collect();
        left.sort_by(|a, b| a.after.cmp(&b.after).then(a.at_s.total_cmp(&b.at_s)));
        Self { left: left.into(), begun: None, ended: None, waits: None, asked: Instant::now(), drilled: Drilled::default(), failed: None }
    }
    /// The load begins.
    pub fn begin(&mut self) {
        self.begun = Some(Instant::now());
    }
    /// Does what is due.
    pub fn look(&mut self, target: &mut dyn Target, subject: &mut Subject) {
        let (Some(begun), ended) = (self.begun, self.ended) else { return };
        let due = |drill: &mut Drill| {
            let from = if drill.after { ended } else { Some(begun) };
            from.is_some_and(|from| from.elapsed().as_secs_f64() >= drill.at_s)
        };
        while self.failed.is_none()
            && let Some(drill) = self.left.pop_front_if(due)
        {
            let at_s = begun.elapsed().as_secs_f64();
            if let Err(e) = act(target, &drill) {
                self.failed = Some(format!("{} of {}: {e:#}", drill.action, drill.what));
            }
            self.drilled.done.push((format!("{} {}", drill.action, drill.what), (at_s * 1000.0).round() / 1000.0));
            // A process that was started again is another one.
            subject.servers = target.servers();
            if drill.until.as_deref() == Some("active+clean") {
                self.waits = Some(Wait { since: Instant::now(), sample: subject.sample(false), sent_bytes: loopback_bytes() });
            }
        }
        let pace = if self.ended.is_some() { ASK_OFTEN } else { ASK };
        if self.asked.elapsed() >= pace {
            self.ask(target, subject);
        }
    }
    fn ask(&mut self, target: &mut dyn Target, subject: &Subject) {
        self.asked = Instant::now();
        // A monitor that has no answer just now has one the next time.
        if self.waits.is_some() && target.is_clean().unwrap_or(false) {
            let wait = self.waits.take().expect("just seen");
            self.drilled.clean_s = Some((wait.since.elapsed().as_secs_f64() * 1000.0).round() / 1000.0);
            let used = Used::between(&wait.sample, &subject.sample(false));
            self.drilled.mended = Some(Mended {
                sent_bytes: loopback_bytes().saturating_sub(wait.sent_bytes),
                server_cpu_ns: used.server_cpu_ns,
                written_bytes: used.written_bytes,
            });
        }
    }
    /// The load is over: does what comes after it, waits for what is waited for, and makes the target whole.
    pub fn finish(&mut self, target: &mut dyn Target, subject: &mut Subject) -> Result<()> {
        self.ended = Some(Instant::now());
        let end = Instant::now() + WHOLE;
        let comes = |left: &VecDeque<Drill>| left.front().is_some_and(|d| d.after);
        while self.failed.is_none() && (self.waits.is_some() || comes(&self.left)) && Instant::now() < end && !interrupt::asked() {
            std::thread::sleep(SLEEP);
            self.look(target, subject);
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
    /// The load is over: nothing more is written.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
    /// Reads back what was acknowledged; how many that are, and how many of them are gone or other than they were.
    pub fn settle(self) -> Result<(u64, u64)> {
        self.stop();
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
