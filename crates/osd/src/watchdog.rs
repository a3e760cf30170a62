//! A thread that watches the OSD's loop: a loop that stands can neither say so nor end.
//!
//! Holds the decision (a line early, the end late) and the thread. The loop leaves a [`Breadcrumb`]; the time is counted here, in looks of a
//! second each, so a process that was stopped or a machine that slept is not taken for a loop that stands. Absent: the health check: the
//! manager endpoint sees that an OSD with an open session reports nothing.
//!
//! ```text
//!   Turning ── no turn for osd_op_thread_timeout ──> Standing: one line ── osd_op_thread_suicide_timeout ──> the process ends (SIGABRT),
//!      ^───────────────── a turn: one line ──────────────┘                                                    or its keeper is told
//! ```
//! A thread can't be ended from outside, so the process is, if it is this OSD's alone: what was acknowledged is durable as after any kill, and what
//! started it starts it again. Beside a monitor and other OSDs (`humboldt up`) it stays, and its keeper hears of it as [`Standing`]: that has the
//! monitor mark the OSD down, so that others serve. A loop that turns again finds itself down in the map, and comes up anew.

use base::breadcrumb::Breadcrumb;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Between two looks.
pub(crate) const LOOK: Duration = Duration::from_secs(1);
/// What one look counts at most, milliseconds: a look that came late says nothing of the loop.
const LOOK_MAX_MS: u64 = 2000;

/// What a look leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Nothing,
    /// It stands for so many milliseconds.
    Stands(u64),
    /// It turns again, after so many milliseconds.
    TurnsAgain(u64),
    /// It stands for too long.
    End(u64),
}

/// Something that is to move on, and how long it has not.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    at: Option<u64>,
    stands_ms: u64,
    told: bool,
    ended: bool,
}

/// What keeps an OSD from serving and from ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stands {
    /// Its loop does not turn: where it is.
    Loop(String),
    /// It has left the cluster, and waits for an operation that its disk does not answer.
    Disk(String),
}

/// An OSD that stands: put there once each time, and taken by its keeper.
#[derive(Debug, Default)]
pub struct Standing(Mutex<Option<Stands>>);

impl Standing {
    pub(crate) fn put(&self, what: Stands) {
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = Some(what);
    }
    pub fn take(&self) -> Option<Stands> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).take()
    }
}

impl Watch {
    /// `passed_ms` after the last look. `at` is another each time that it has moved on, and `None` if there is nothing that could stand.
    pub(crate) fn look(&mut self, at: Option<u64>, passed_ms: u64, (warn_ms, end_ms): (u64, u64)) -> Verdict {
        if at.is_none() || at != self.at {
            let stood = std::mem::replace(self, Self { at, ..Self::default() });
            return if stood.told { Verdict::TurnsAgain(stood.stands_ms) } else { Verdict::Nothing };
        }
        self.stands_ms += passed_ms.min(LOOK_MAX_MS);
        if end_ms > 0 && self.stands_ms >= end_ms && !std::mem::replace(&mut self.ended, true) {
            self.told = true;
            return Verdict::End(self.stands_ms);
        }
        if warn_ms > 0 && self.stands_ms >= warn_ms && !std::mem::replace(&mut self.told, true) {
            return Verdict::Stands(self.stands_ms);
        }
        Verdict::Nothing
    }
}

/// Watches until it is dropped.
pub struct Watchdog(Arc<AtomicBool>);

impl Watchdog {
    /// `keeper`: what hears of a loop that stands; none: the process ends.
    pub fn start(osd: i32, crumb: &Arc<Breadcrumb>, keeper: Option<Arc<Standing>>) -> std::io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let (told, crumb) = (over.clone(), Arc::downgrade(crumb));
        std::thread::Builder::new().name(format!("watch.{osd}")).spawn(move || watch(osd, &crumb, &told, keeper.as_deref()))?;
        Ok(Self(over))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn watch(osd: i32, crumb: &Weak<Breadcrumb>, over: &AtomicBool, keeper: Option<&Standing>) {
    let mut watch = Watch::default();
    let mut last = Instant::now();
    loop {
        std::thread::sleep(LOOK);
        let Some(crumb) = crumb.upgrade().filter(|_| !over.load(Ordering::Relaxed)) else { return };
        let passed_ms = last.elapsed().as_millis() as u64;
        last = Instant::now();
        let place = || osd_core::crumb_text(&crumb);
        match watch.look(Some(crumb.turns()), passed_ms, crumb.limits()) {
            Verdict::Nothing => {}
            Verdict::Stands(ms) => say::eprintln!("osd.{osd}: the loop has not turned for {} s: {}", ms / 1000, place()),
            Verdict::TurnsAgain(ms) => say::eprintln!("osd.{osd}: the loop turns again, after {} s", ms / 1000),
            Verdict::End(ms) => {
                let text = format!("the loop has not turned for {} s (osd_op_thread_suicide_timeout): {}", ms / 1000, place());
                match keeper {
                    Some(keeper) => keeper.put(Stands::Loop(text)),
                    None => {
                        say::eprintln!("osd.{osd}: {text}; the process ends");
                        say::flush();
                        std::process::abort();
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_early_the_end_late_and_a_late_look_is_no_evidence() {
        let limits = (15_000, 150_000);
        let mut watch = Watch::default();
        assert_eq!(watch.look(Some(1), 1000, limits), Verdict::Nothing);
        let verdicts: Vec<Verdict> = (0..150).map(|_| watch.look(Some(1), 1000, limits)).collect();
        let told: Vec<usize> = (0..150).filter(|i| verdicts[*i] != Verdict::Nothing).collect();
        assert_eq!((told, &verdicts[14], &verdicts[149]), (vec![14, 149], &Verdict::Stands(15_000), &Verdict::End(150_000)));
        // Where the process goes on, it is said once.
        assert_eq!(watch.look(Some(1), 1000, limits), Verdict::Nothing);
        assert_eq!(watch.look(Some(2), 1000, limits), Verdict::TurnsAgain(151_000));
        // The machine slept for a day.
        assert_eq!(watch.look(Some(2), 86_400_000, limits), Verdict::Nothing);
        assert_eq!(watch.look(Some(3), 1000, limits), Verdict::Nothing);
        // Nothing is there that could stand.
        assert!((0..1000).all(|_| watch.look(None, 1000, limits) == Verdict::Nothing));
        // Switched off.
        assert!((0..1000).all(|_| watch.look(Some(3), 1000, (0, 0)) == Verdict::Nothing));
    }
}
