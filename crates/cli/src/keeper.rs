//! The OSDs of `up`, threads or processes: started, watched, told of, and started again.
//!
//! ```text
//!              its store is there                     it ended: the monitor is told
//!   Absent ──────────────────────────▶ Runs ──────────────────────────────────────▶ Pauses
//!     ▲  ▲   the folder is looked at    │  ▲                 the pause is over         │
//!     │  │   once a second              │  └──────────────────────────────────────────┤
//!     │  └──────────────────────────────┼───────── its store is not there any more ───┘
//!     │    `osd replace` holds it       ▼
//!     └────────────────────────────── Held   asked to end, and not started before it is let go
//! ```
//! One that `ceph osd stop` ended stays down (Stopped) until `up` is started again, as a service manager leaves it under stock Ceph.
//!
//! One that can't run keeps no other from serving: it is named here, and by the monitor's health with the same words. Whether it is there is
//! [`Stores`]' to say. Absent: how a daemon is started, which is [`Form`]'s.

use crate::again::{Again, Cause};
use crate::members::{self, Members, News};
use crate::stores::{OsdStore, Stores};
use anyhow::Result;
use osd::Stands;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use types::OsdId;

/// How often an OSD that is absent or held is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Between two looks at what starts.
const GLANCE: Duration = Duration::from_millis(5);
/// How long an OSD may take to end in order.
const END_PATIENCE: Duration = Duration::from_secs(8);

/// How a daemon ended.
#[derive(Debug)]
pub struct Ended {
    pub why: anyhow::Error,
    pub cause: Cause,
    pub is_failure: bool,
}

/// A running OSD.
pub trait Daemon {
    /// True once the map has shown it up.
    fn is_up(&mut self) -> bool;
    /// How it ended, if it has.
    fn ended(&mut self) -> Option<Ended>;
    /// Why it neither serves nor ends, told once.
    fn stands(&mut self) -> Option<Stands>;
    /// Asks it to end in order.
    fn ask_to_end(&mut self);
}

/// How OSDs are started: as threads or as processes.
pub trait Form {
    type Daemon: Daemon;
    fn start(&self, id: OsdId, store: OsdStore) -> Result<Self::Daemon>;
}

enum State<D> {
    Runs(D),
    Pauses,
    /// It can't be started.
    Absent,
    /// `ceph osd stop` ended it.
    Stopped,
    /// `osd replace` has it; the daemon until it has ended.
    Held(Option<D>),
}

struct Kept<D> {
    id: OsdId,
    state: State<D>,
    again: Again,
    /// Why it does not run, as it was said last, and the error itself.
    said: String,
    error: Option<anyhow::Error>,
    /// What the monitor has not heard yet.
    news: Option<News>,
    looked: Duration,
    /// It has left the cluster and waits for its disk: `osd replace` need not wait for its end.
    hangs: bool,
}

/// All OSDs of this `up`.
pub struct Keeper<'a, F: Form> {
    form: F,
    stores: Stores<'a>,
    conf: PathBuf,
    members: Members,
    osds: Vec<Kept<F::Daemon>>,
    /// Nothing is said before it is known whether the rest serves.
    is_serving: bool,
}

/// The file by which `osd replace` holds an OSD: the number of its process is in it.
pub fn hold_file(dir: &Path, id: OsdId) -> PathBuf {
    dir.join(format!("osd.{id}.hold"))
}

/// The file by which `up` says that it has seen that.
pub fn held_file(dir: &Path, id: OsdId) -> PathBuf {
    dir.join(format!("osd.{id}.held"))
}

/// True while a process that lives holds the OSD.
fn is_held(dir: &Path, id: OsdId) -> bool {
    let path = hold_file(dir, id);
    let Ok(pid) = std::fs::read_to_string(&path) else { return false };
    let lives = pid.trim().parse::<u32>().is_ok_and(|pid| Path::new(&format!("/proc/{pid}")).exists());
    if !lives {
        let _ = std::fs::remove_file(&path);
    }
    lives
}

impl<'a, F: Form> Keeper<'a, F> {
    /// Starts all whose stores are there, or can be made.
    pub fn start(form: F, stores: Stores<'a>, conf: PathBuf, ids: &[OsdId], members: Members, now: Duration) -> Self {
        let mut keeper = Self { form, stores, conf, members, osds: Vec::new(), is_serving: false };
        for id in ids {
            let again = Again::started(now);
            keeper.osds.push(Kept {
                id: *id,
                state: State::Absent,
                again,
                said: String::new(),
                error: None,
                news: None,
                looked: now,
                hangs: false,
            });
            let n = keeper.osds.len() - 1;
            keeper.start_one(n);
        }
        keeper
    }

    /// Starts one if its store is there; says why not, once.
    fn start_one(&mut self, n: usize) {
        let kept = &mut self.osds[n];
        kept.hangs = false;
        let store = self.stores.of(kept.id, self.members.get(&kept.id));
        match store.and_then(|store| self.form.start(kept.id, store)) {
            Ok(daemon) => {
                kept.state = State::Runs(daemon);
                kept.news = None;
            }
            Err(e) => {
                kept.state = State::Absent;
                kept.does_not_run(e, false, self.is_serving);
            }
        }
    }

    /// Waits until each that was started is up or has ended, and no longer than `patience`; `is_hopeless` ends the wait. The first error of those
    /// that are not up.
    pub fn wait_up(&mut self, patience: Duration, now: impl Fn() -> Duration, is_hopeless: impl Fn() -> bool) -> Option<anyhow::Error> {
        let end = Instant::now() + patience;
        let mut up = vec![false; self.osds.len()];
        loop {
            let mut waits = false;
            for (kept, up) in self.osds.iter_mut().zip(&mut up) {
                let State::Runs(daemon) = &mut kept.state else { continue };
                *up = *up || daemon.is_up();
                if let Some(ended) = (!*up).then(|| daemon.ended()).flatten() {
                    let pause = kept.again.ended(now(), ended.cause);
                    let next = kept.next_step(ended.cause, pause, self.stores.dir);
                    kept.state = State::Pauses;
                    let why = if ended.cause == Cause::Damage { anyhow::anyhow!("{:#}; {next}", ended.why) } else { ended.why };
                    kept.does_not_run(why, true, false);
                } else {
                    waits |= !*up;
                }
            }
            if !waits || Instant::now() >= end || is_hopeless() {
                break;
            }
            std::thread::sleep(GLANCE);
        }
        for (kept, up) in self.osds.iter_mut().zip(up) {
            if !up && matches!(kept.state, State::Runs(_)) {
                let why = format!("it is not up {} s after its start: look at its disk, and at what it says", patience.as_secs());
                kept.error = Some(anyhow::anyhow!("osd.{} is not up after {} s", kept.id, patience.as_secs()));
                kept.news = Some(News { osd: kept.id, why, is_over: false });
            }
        }
        self.osds.iter_mut().find_map(|kept| kept.error.take())
    }
    /// The others serve: what does not run is said here and to the monitor.
    pub fn go_on(&mut self) {
        self.is_serving = true;
        for n in 0..self.osds.len() {
            let kept = &self.osds[n];
            match &kept.state {
                State::Runs(_) => {}
                _ => say::eprintln!("osd.{} does not serve: {}", kept.id, kept.said),
            }
            self.tell(n);
        }
    }

    pub fn count(&self) -> usize {
        self.osds.len()
    }
    pub fn running(&self) -> usize {
        self.osds.iter().filter(|kept| matches!(kept.state, State::Runs(_))).count()
    }
    /// True if one that the map knows has no store: the monitor is to serve, whatever else does, so that the disk can be replaced.
    pub fn lacks_a_disk(&self) -> bool {
        self.osds.iter().any(|kept| matches!(kept.state, State::Absent) && self.members.contains_key(&kept.id))
    }

    /// A look at all of them; often.
    pub fn keep(&mut self, now: Duration) {
        for n in 0..self.osds.len() {
            self.keep_one(n, now);
        }
    }
    fn keep_one(&mut self, n: usize, now: Duration) {
        let dir = self.stores.dir;
        let kept = &mut self.osds[n];
        let looks = now.saturating_sub(kept.looked) >= LOOK;
        if looks {
            kept.looked = now;
        }
        if let State::Runs(daemon) = &mut kept.state {
            if let Some(ended) = daemon.ended() {
                let pause = kept.again.ended(now, ended.cause);
                let next = kept.next_step(ended.cause, pause, dir);
                kept.state = State::Pauses;
                say::eprintln!("osd.{} ended: {:#}; {next}", kept.id, ended.why);
                kept.news = Some(News { osd: kept.id, why: format!("it ended: {:#}; {next}", ended.why), is_over: true });
            } else if let Some(stands) = daemon.stands() {
                let why = match stands {
                    // It may go on some day, and then finds itself down in the map: until then others serve.
                    Stands::Loop(place) => format!("its loop stands: {place}; look at its disk, then start `humboldt up` again"),
                    Stands::Disk(text) => {
                        kept.hangs = true;
                        format!(
                            "{text}; it is started again when its disk answers: look at the disk and its cables (dmesg); to go on without it, put a new disk in and run `humboldt osd replace {} --dir {}`",
                            kept.id,
                            dir.display()
                        )
                    }
                };
                say::eprintln!("osd.{} does not serve: {why}", kept.id);
                kept.news = Some(News { osd: kept.id, why, is_over: kept.hangs });
            }
        }
        if looks && is_held(dir, self.osds[n].id) {
            self.hold(n);
        }
        let kept = &mut self.osds[n];
        if looks && matches!(kept.state, State::Pauses) && osd::store::takes_repair(&dir.join(format!("osd.{}", kept.id))) {
            kept.again.hurry(now);
        }
        // What ended is told before it is started again: told later, the monitor would take it for the new one.
        let told = self.tell(n);
        let kept = &mut self.osds[n];
        match &mut kept.state {
            State::Pauses if told && kept.again.is_due(now) => {
                // It may have been destroyed meanwhile.
                self.look();
                if self.members.get(&self.osds[n].id).is_some_and(|known| known.is_stopped) {
                    self.leave_stopped(n);
                } else {
                    self.start_one(n);
                }
            }
            State::Absent if told && looks => self.look_again(n, now),
            State::Held(daemon) => {
                // One that hangs serves no more, and its files are not those of the new store.
                if daemon.as_mut().is_some_and(|daemon| daemon.ended().is_some()) || kept.hangs {
                    *daemon = None;
                }
                if looks && daemon.is_none() && !is_held(dir, kept.id) {
                    kept.said.clear();
                    kept.again = Again::started(now);
                    self.look();
                    self.start_one(n);
                }
            }
            _ => {}
        }
    }

    fn leave_stopped(&mut self, n: usize) {
        let kept = &mut self.osds[n];
        let why = "`ceph osd stop` ended it: it is started again with the next `humboldt up`".to_string();
        say::eprintln!("osd.{} stays down: {why}", kept.id);
        kept.state = State::Stopped;
        kept.news = Some(News { osd: kept.id, why, is_over: true });
    }

    fn hold(&mut self, n: usize) {
        let kept = &mut self.osds[n];
        if matches!(kept.state, State::Held(_)) {
            return;
        }
        let daemon = match std::mem::replace(&mut kept.state, State::Absent) {
            State::Runs(mut daemon) => {
                daemon.ask_to_end();
                Some(daemon)
            }
            _ => None,
        };
        kept.state = State::Held(daemon);
        kept.news = None;
        // Who holds it waits for this only as long as it likes.
        let _ = std::fs::write(held_file(self.stores.dir, kept.id), "");
        say::eprintln!("osd.{} is being replaced", kept.id);
    }

    /// Starts one that was absent, if its store is there now.
    fn look_again(&mut self, n: usize, now: Duration) {
        use osd::data_dir::{Found, look};
        // Without a folder there is nothing to ask the monitor about.
        if look(&self.stores.dir.join(format!("osd.{}", self.osds[n].id))) != Found::Made {
            return;
        }
        self.look();
        self.osds[n].again = Again::started(now);
        self.start_one(n);
        if let State::Runs(_) = self.osds[n].state {
            say::eprintln!("osd.{} is started: its store is there", self.osds[n].id);
        }
    }
    /// The map as it is now; as it was, if the monitor does not answer: an OSD that is started waits for it, too.
    fn look(&mut self) {
        if let Ok(members) = members::look(&self.conf) {
            self.members = members;
        }
    }

    /// Tells the monitor what it has not heard of one; false: it does not answer, and is to be asked again.
    fn tell(&mut self, n: usize) -> bool {
        let kept = &mut self.osds[n];
        let Some(news) = kept.news.clone() else { return true };
        match members::tell(&self.conf, news) {
            Ok(members) => self.members = members,
            Err(e) if members::is_refusal(&e) => say::eprintln!("the monitor does not hear of osd.{}: {e:#}", kept.id),
            Err(_) => return false,
        }
        self.osds[n].news = None;
        true
    }

    /// Ends all in order, at once; what ended with an error, by its words.
    pub fn end(mut self) -> Vec<String> {
        let mut last: Vec<(OsdId, F::Daemon)> = Vec::new();
        for kept in self.osds.drain(..) {
            if let State::Runs(daemon) | State::Held(Some(daemon)) = kept.state {
                last.push((kept.id, daemon));
            }
        }
        // Each waits for the monitor's word that it is down.
        last.iter_mut().for_each(|(_, daemon)| daemon.ask_to_end());
        let end = Instant::now() + END_PATIENCE;
        let mut errors = Vec::new();
        while !last.is_empty() && Instant::now() < end {
            last.retain_mut(|(id, daemon)| match daemon.ended() {
                Some(ended) if ended.is_failure => {
                    errors.push(format!("osd.{id}: {:#}", ended.why));
                    false
                }
                Some(_) => false,
                None => true,
            });
            std::thread::sleep(GLANCE);
        }
        errors.extend(last.iter().map(|(id, _)| format!("osd.{id} did not end within {} s", END_PATIENCE.as_secs())));
        errors
    }
}

impl<D> Kept<D> {
    /// What follows its end, for people.
    fn next_step(&self, cause: Cause, pause: Duration, dir: &Path) -> String {
        let (id, dir) = (self.id, dir.display());
        let next = format!("it is started again in {} s", pause.as_secs());
        let replace = format!("put a new disk in and run `humboldt osd replace {id} --dir {dir}`");
        match cause {
            Cause::Damage => format!("it stays down until `humboldt store --dir {dir}/osd.{id} repair` has ended; or {replace}"),
            _ if self.again.is_hopeless() => format!("{next}, since its disk fails: make room if its file system is full; else {replace}"),
            _ => next,
        }
    }
    /// Says why it does not run, unless that was said, and has the monitor hear of it.
    fn does_not_run(&mut self, error: anyhow::Error, is_over: bool, says: bool) {
        let why = format!("{error:#}");
        self.error = Some(error);
        if self.said == why {
            return;
        }
        if says {
            say::eprintln!("osd.{} does not serve: {why}", self.id);
        }
        self.news = Some(News { osd: self.id, why: why.clone(), is_over });
        self.said = why;
    }
}
