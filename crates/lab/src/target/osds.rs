//! OSDs as processes of the lab's own, which drills kill, stop and start again.
//!
//! ```text
//!   Runs ── kill -9 ──▶ Killed ── restart ──▶ Runs
//!     │                 │    ▲
//!     │                 └────┘ empty
//!     └──── hang ─────▶ Hung ──── resume ───▶ Runs        `heal` takes each back to Runs
//! ```

use super::Place;
use super::process::Daemon;
use crate::load::runner::chore;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

const COMMAND: Duration = Duration::from_secs(60);

/// What a drill does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Kill,
    /// What it stored is gone; it is the same OSD, with the same key.
    Empty,
    Hang,
    Resume,
    Restart,
    MarkOut,
    MarkIn,
}

impl Action {
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "kill -9" => Self::Kill,
            "empty" => Self::Empty,
            "hang" => Self::Hang,
            "resume" => Self::Resume,
            "restart" => Self::Restart,
            "mark out" => Self::MarkOut,
            "mark in" => Self::MarkIn,
            _ => return Err(format!("do = {text}: one of kill -9, empty, hang, resume, restart, mark out, mark in is wanted")),
        })
    }
}

/// The number of `osd.N`.
pub fn number(what: &str) -> Result<u32, String> {
    what.strip_prefix("osd.").and_then(|n| n.parse().ok()).ok_or_else(|| format!("what = {what}: osd.N is wanted"))
}

/// The uuid by which the monitor knows an OSD.
pub fn uuid(place: &Place, id: u32) -> Result<String> {
    let dump: Value = serde_json::from_str(&chore(place.command("ceph").args(["osd", "dump", "-f", "json"]), COMMAND)?)?;
    let all = dump.get("osds").and_then(Value::as_array).context("osd dump has no osds")?;
    let one = all.iter().find(|osd| osd.get("osd").and_then(Value::as_u64) == Some(id.into()));
    let uuid = one.and_then(|osd| osd.get("uuid")).and_then(Value::as_str);
    uuid.map(String::from).with_context(|| format!("osd dump has no uuid of osd.{id}"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    Killed,
    Hung,
}

type Start = Box<dyn Fn() -> Result<Daemon>>;
/// Takes away what a killed OSD stored, and makes it anew.
pub type Empty = Box<dyn Fn() -> Result<()>>;

struct One {
    daemon: Daemon,
    start: Start,
    empty: Empty,
    state: State,
    socket: PathBuf,
}

#[derive(Default)]
pub struct Osds(Vec<One>);

impl Osds {
    /// Starts one; its number is as many as there are. `socket` is its admin socket.
    pub fn add(&mut self, socket: PathBuf, start: Start, empty: Empty) -> Result<&mut Daemon> {
        let daemon = start()?;
        self.0.push(One { daemon, start, empty, state: State::Runs, socket });
        Ok(&mut self.0.last_mut().expect("just pushed").daemon)
    }
    pub fn len(&self) -> usize {
        self.0.len()
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().map(|o| o.daemon.pid())
    }
    /// Admin sockets of those that answer.
    pub fn sockets(&self) -> Vec<PathBuf> {
        self.0.iter().filter(|o| o.state == State::Runs).map(|o| o.socket.clone()).collect()
    }
    /// True if each runs but those that a drill hurt.
    pub fn alive(&mut self) -> bool {
        self.0.iter_mut().all(|o| o.state != State::Runs || o.daemon.alive())
    }
    pub fn drill(&mut self, action: Action, id: u32) -> Result<()> {
        let one = self.0.get_mut(id as usize).with_context(|| format!("there is no osd.{id}"))?;
        one.state = match (action, one.state) {
            (Action::Kill, State::Runs | State::Hung) => {
                one.daemon.kill();
                State::Killed
            }
            (Action::Empty, State::Killed) => {
                (one.empty)()?;
                State::Killed
            }
            (Action::Hang, State::Runs) => {
                one.daemon.signal(libc::SIGSTOP);
                State::Hung
            }
            (Action::Resume, State::Hung) => {
                one.daemon.signal(libc::SIGCONT);
                State::Runs
            }
            (Action::Restart, State::Killed) => {
                one.daemon = (one.start)()?;
                State::Runs
            }
            (action, state) => bail!("osd.{id} can't {action:?}: it is {state:?}"),
        };
        Ok(())
    }
    /// Undoes what drills did, as far as it is a process's.
    pub fn heal(&mut self) -> Result<()> {
        for id in 0..self.0.len() {
            match self.0[id].state {
                State::Runs => ensure!(self.0[id].daemon.alive(), "osd.{id} ended; it said: {}", self.0[id].daemon.said()),
                State::Killed => self.drill(Action::Restart, id as u32)?,
                State::Hung => self.drill(Action::Resume, id as u32)?,
            }
        }
        Ok(())
    }
    pub fn stop(&mut self) {
        std::mem::take(&mut self.0).into_iter().for_each(|mut o| o.daemon.stop());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn osds() -> Osds {
        let mut osds = Osds::default();
        let log = std::env::temp_dir().join(format!("lab-osds-{}", std::process::id()));
        let start = move || Daemon::start(Command::new("sleep").arg("60"), &log);
        osds.add("none".into(), Box::new(start), Box::new(|| bail!("its disk is gone"))).unwrap();
        osds
    }

    #[test]
    fn one_that_a_drill_killed_is_not_dead_until_it_should_run() {
        let mut osds = osds();
        let first = osds.pids().next();
        osds.drill(Action::Kill, 0).unwrap();
        assert!(osds.alive() && osds.sockets().is_empty());
        assert!(osds.drill(Action::Hang, 0).is_err() && osds.drill(Action::Kill, 1).is_err());
        assert_eq!(osds.drill(Action::Empty, 0).unwrap_err().to_string(), "its disk is gone");
        osds.heal().unwrap();
        assert!(osds.alive() && osds.pids().next() != first);
        // One that runs is not emptied.
        assert!(osds.drill(Action::Empty, 0).unwrap_err().to_string().contains("can't Empty"));
        // One that ends by itself is dead.
        osds.0[0].daemon.kill();
        assert!(!osds.alive() && osds.heal().is_err());
    }

    #[test]
    fn one_that_hangs_goes_on() {
        let mut osds = osds();
        osds.drill(Action::Hang, 0).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", osds.pids().next().unwrap())).unwrap();
        while !state().contains(") T ") {
            std::thread::yield_now();
        }
        assert!(osds.sockets().is_empty());
        osds.drill(Action::Resume, 0).unwrap();
        assert_eq!(osds.sockets().len(), 1);
        osds.stop();
    }
}
