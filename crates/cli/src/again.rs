//! When a daemon that ended by itself is started again: after a pause that grows while it does not last.
//!
//! ```text
//!   Runs ── it ended ──▶ Pauses(1 s, 2 s, 4 s ... 30 s) ── the pause is over ──▶ Runs
//!     └── it has lasted for a minute: the next pause is short again
//! ```
//! Holds no daemon and no clock: `up` asks once a second, with the time.

use std::time::Duration;

/// The first pause, and the longest.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A daemon that ran this long has lasted.
const LASTED: Duration = Duration::from_secs(60);

/// One daemon, as what starts it again sees it. Times are since the start of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    Runs { since: Duration, pause: Duration },
    Pauses { until: Duration, pause: Duration },
}

impl Again {
    pub fn started(now: Duration) -> Self {
        Self::Runs { since: now, pause: PAUSE_FIRST }
    }
    /// It ended by itself: how long until it is to be started again.
    pub fn ended(&mut self, now: Duration) -> Duration {
        let (Self::Runs { since, pause } | Self::Pauses { until: since, pause }) = *self;
        let pause = if now.saturating_sub(since) >= LASTED { PAUSE_FIRST } else { pause };
        *self = Self::Pauses { until: now + pause, pause: (2 * pause).min(PAUSE_MAX) };
        pause
    }
    /// True if it is to be started now; from then on it runs.
    pub fn is_due(&mut self, now: Duration) -> bool {
        match *self {
            Self::Pauses { until, pause } if now >= until => {
                *self = Self::Runs { since: now, pause };
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

    #[test]
    fn pauses_grow_until_it_lasts() {
        let (mut again, mut now, mut pauses) = (Again::started(s(0)), s(10), Vec::new());
        for _ in 0..7 {
            let pause = again.ended(now);
            pauses.push(pause.as_secs());
            assert!(!again.is_due(now + pause - s(1)) && again.is_due(now + pause) && !again.is_due(now + pause));
            now += pause + s(3);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(again.ended(now + s(60)), s(1));
    }
}
