//! When a daemon that ended by itself is started again: at once if it served, after a pause that grows while it does not last.
//!
//! ```text
//!   Runs ── it ended ──▶ Pauses(1 s, 2 s, 4 s ... 30 s) ── the pause is over ──▶ Runs
//!     ├── it had served for ten seconds: no pause, and the next one is short again
//!     └── it was killed: no word about the daemon, so its pause does not grow
//!     ├── its disk failed for the third time within ten minutes of the time before: a pause of ten minutes
//!     └── what its store holds can't be used: the same at once, unless the store is repaired meanwhile
//! ```
//! Holds no daemon and no clock: `up` asks often, with the time.

use std::time::Duration;

/// The first pause, and the longest.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A daemon that ran this long has served.
const LASTED: Duration = Duration::from_secs(10);
/// So many ends by a failing disk, each within this time of the one before, and the daemon stays down for as long: it would come and go under its
/// clients.
const DISK_FAILURES_MAX: u32 = 3;
const DISK_FAILURES_WITHIN: Duration = Duration::from_secs(600);

/// How a daemon ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Something outside ended it: SIGKILL.
    Killed,
    /// Its store could not be read or written.
    Disk,
    /// What its store holds can't be used.
    Damage,
    /// Anything else.
    Itself,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Runs { since: Duration },
    Pauses { until: Duration },
}

/// One daemon, as what starts it again sees it. Times are since the start of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Again {
    state: State,
    /// The next one.
    pause: Duration,
    disk_failures: u32,
    last_disk_failure: Duration,
}

impl Again {
    pub fn started(now: Duration) -> Self {
        Self { state: State::Runs { since: now }, pause: PAUSE_FIRST, disk_failures: 0, last_disk_failure: Duration::ZERO }
    }
    /// True if its disk fails again and again.
    pub fn is_hopeless(&self) -> bool {
        self.disk_failures >= DISK_FAILURES_MAX
    }
    /// It ended by itself: how long until it is to be started again.
    pub fn ended(&mut self, now: Duration, cause: Cause) -> Duration {
        if cause == Cause::Disk {
            let is_next = self.disk_failures > 0 && now.saturating_sub(self.last_disk_failure) < DISK_FAILURES_WITHIN;
            self.disk_failures = if is_next { self.disk_failures + 1 } else { 1 };
            self.last_disk_failure = now;
        }
        let served = matches!(self.state, State::Runs { since } if now.saturating_sub(since) >= LASTED);
        if served {
            self.pause = PAUSE_FIRST;
        }
        let pause = match cause {
            Cause::Killed | Cause::Itself if served => Duration::ZERO,
            Cause::Killed => PAUSE_FIRST,
            Cause::Damage => DISK_FAILURES_WITHIN,
            Cause::Disk if self.is_hopeless() => DISK_FAILURES_WITHIN,
            Cause::Disk | Cause::Itself => {
                let next = (2 * self.pause).min(PAUSE_MAX);
                std::mem::replace(&mut self.pause, next)
            }
        };
        self.state = State::Pauses { until: now + pause };
        pause
    }
    /// Its pause is over: what it waited for has come.
    pub fn hurry(&mut self, now: Duration) {
        if let State::Pauses { until } = &mut self.state {
            *until = now;
        }
    }
    /// True if it is to be started now; from then on it runs.
    pub fn is_due(&mut self, now: Duration) -> bool {
        match self.state {
            State::Pauses { until } if now >= until => {
                self.state = State::Runs { since: now };
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// Each pause, seconds, of a daemon that runs so long and then ends so.
    fn pauses(ran: Duration, cause: Cause, times: usize) -> Vec<u64> {
        let (mut again, mut now) = (Again::started(s(0)), s(0));
        let one = |_| {
            now += ran;
            let pause = again.ended(now, cause);
            assert!(pause.is_zero() || !again.is_due(now + pause - s(1)));
            assert!(again.is_due(now + pause) && !again.is_due(now + pause));
            now += pause;
            pause.as_secs()
        };
        (0..times).map(one).collect()
    }

    #[test]
    fn pauses_grow_until_it_lasts() {
        assert_eq!(pauses(s(3), Cause::Itself, 7), [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(pauses(s(10), Cause::Itself, 3), [0, 0, 0]);
        let mut again = Again::started(s(0));
        for at in [1, 3] {
            again.ended(s(at), Cause::Itself);
            assert!(again.is_due(s(at + 2)));
        }
        assert_eq!(again.ended(s(60), Cause::Itself), s(0));
        assert!(again.is_due(s(60)));
        assert_eq!(again.ended(s(61), Cause::Itself), s(1), "what grew is forgotten");
    }

    #[test]
    fn kills_are_no_crash_loop() {
        assert_eq!(pauses(s(3), Cause::Killed, 9), [1; 9]);
        assert_eq!(pauses(s(11), Cause::Killed, 9), [0; 9]);
    }

    #[test]
    fn a_damaged_store_is_tried_again_once_it_is_repaired() {
        let mut again = Again::started(s(0));
        assert_eq!(again.ended(s(20), Cause::Damage), s(600), "the first time: the next start would find the same");
        assert!(!again.is_hopeless() && !again.is_due(s(30)));
        again.hurry(s(31));
        assert!(again.is_due(s(31)));
        again.hurry(s(32));
        assert!(!again.is_due(s(32)), "it runs");
    }

    #[test]
    fn a_disk_that_fails_again_and_again_stays_down_for_long() {
        let mut again = Again::started(s(0));
        assert_eq!(again.ended(s(100), Cause::Disk), s(1));
        assert!(again.is_due(s(101)));
        assert_eq!(again.ended(s(900), Cause::Disk), s(1), "long after: the first of its kind");
        assert!(again.is_due(s(901)));
        assert_eq!(again.ended(s(920), Cause::Disk), s(1));
        assert!(!again.is_hopeless() && again.is_due(s(930)));
        assert_eq!((again.ended(s(940), Cause::Disk), again.is_hopeless()), (s(600), true));
        // Room may have been made: it is tried once more.
        assert!(!again.is_due(s(1539)) && again.is_due(s(1540)));
    }
}
