//! How much is discarded at a time, and when next: a share of the time that no percentile of interest sees.
//!
//! ```text
//!   a discard took t ──> rest for BUSY x t ──> the next     changes under way take twice as long beside one: the rest doubles
//!                        (IDLE x t while nothing else is asked of the devices)
//! ```
//! A cheap device answers nothing while it discards. Of the time, one part in [`BUSY`] goes to that, so of operations about as many meet
//! one, and those of a 99th percentile do not. How long a discard takes is learned from those before: a run grows while it is quick, and
//! shrinks when it is not.
//!
//! Holds no clock: times are told, each later than the one before, and as fine as they are told.

use std::time::Duration;

/// A rest is so many times as long as the discard before it.
const BUSY: u32 = 512;
const IDLE: u32 = 2;
/// No change is slow enough for more.
const BUSY_MAX: u32 = 16 * BUSY;
/// The devices are idle when nothing was asked of them for so long.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// And while they are, a checkpoint is asked for no more often.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);
/// A run that took less may be longer the next time, and one that took more shorter.
const QUICK: Duration = Duration::from_millis(4);
const SLOW: Duration = Duration::from_millis(16);
/// Chunks of a run: from a MiB to 64.
pub const RUN_MIN: u64 = if cfg!(test) { 1 } else { 16 };
pub const RUN_MAX: u64 = 1024;
/// At most so many at first, and after slow ones: on some devices, a discard of any length takes the same time.
const RUN_FIRST: u64 = 64;
/// A mean has a sample's difference by one part in so many.
const SMOOTH: u32 = 8;
/// Differences below this are no stall.
const STALL_MIN: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub struct Pace {
    now: Duration,
    run_max: u64,
    busy: u32,
    began: Option<Duration>,
    /// Chunks of one that has ended, at a time that is not told yet.
    ended: Option<u64>,
    /// When the last one ended, and how long it took.
    last: (Duration, Duration),
    /// Operations that were asked of the devices until now, and when that changed.
    asked: u64,
    asked_at: Duration,
    /// A checkpoint may be asked for from here on.
    checkpoint_at: Duration,
    /// A record that is timed, since when, and whether a discard was beside it.
    timed: Option<(u64, Duration, bool)>,
    /// How long records took, without one and beside one.
    calm: Option<Duration>,
    beside: Option<Duration>,
}

impl Default for Pace {
    fn default() -> Self {
        let zero = Duration::ZERO;
        Self {
            now: zero,
            run_max: RUN_FIRST,
            busy: BUSY,
            began: None,
            ended: None,
            last: (zero, zero),
            asked: 0,
            asked_at: zero,
            checkpoint_at: zero,
            timed: None,
            calm: None,
            beside: None,
        }
    }
}

fn smoothed(mean: Option<Duration>, sample: Duration) -> Duration {
    mean.map_or(sample, |mean| (mean * (SMOOTH - 1) + sample) / SMOOTH)
}

impl Pace {
    /// It is `now`, and so many operations were asked of the devices, discards not counted. `sent` is the newest record that is on its way,
    /// `durable` the newest that has arrived.
    pub fn look(&mut self, now: Duration, asked: u64, sent: u64, durable: u64) {
        self.now = self.now.max(now);
        if asked != self.asked {
            (self.asked, self.asked_at) = (asked, self.now);
        }
        match self.timed {
            Some((seq, since, beside)) if durable >= seq => {
                self.took(self.now - since, beside);
                self.timed = None;
            }
            Some((.., ref mut beside)) => *beside |= self.began.is_some(),
            None => {}
        }
        if self.timed.is_none() && sent > durable {
            self.timed = Some((sent, self.now, self.began.is_some()));
        }
        if let Some(chunks) = self.ended.take() {
            self.rest(chunks);
        }
    }
    /// A record took so long.
    fn took(&mut self, took: Duration, beside: bool) {
        if !beside {
            self.calm = Some(smoothed(self.calm, took));
            return;
        }
        self.beside = Some(smoothed(self.beside, took));
        let stalls = self.calm.is_some_and(|calm| took > calm * 2 + STALL_MIN);
        self.busy = if stalls { (self.busy * 2).min(BUSY_MAX) } else { (self.busy / 2).max(BUSY) };
    }
    /// Chunks of the run that may begin now; `None`: none may.
    pub fn may_begin(&self) -> Option<u64> {
        let ((ended_at, took), times) = (self.last, if self.is_idle() { IDLE } else { self.busy });
        (self.began.is_none() && self.now >= ended_at + took * times).then_some(self.run_max)
    }
    /// True, once in a while, if nothing is asked of the devices: a checkpoint would be in no one's way.
    pub fn may_want_checkpoint(&mut self) -> bool {
        let may = self.is_idle() && self.now >= self.checkpoint_at;
        if may {
            self.checkpoint_at = self.now + CHECKPOINT_EVERY;
        }
        may
    }
    fn is_idle(&self) -> bool {
        self.now - self.asked_at > IDLE_AFTER
    }
    pub fn began(&mut self) {
        self.began = Some(self.now);
    }
    /// A discard of so many chunks has ended; the time that is told next is when.
    pub fn ended(&mut self, chunks: u64) {
        self.ended = Some(chunks);
    }
    fn rest(&mut self, chunks: u64) {
        let Some(began) = self.began.take() else { return };
        let took = self.now - began;
        if took > SLOW {
            self.run_max = (self.run_max / 2).max(RUN_FIRST);
        } else if took < QUICK && chunks == self.run_max {
            self.run_max = (self.run_max * 2).min(RUN_MAX);
        }
        self.last = (self.now, took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_rest_is_long_while_others_ask_and_short_while_none_does() {
        let mut pace = Pace::default();
        pace.look(ms(1000), 1, 0, 0);
        assert_eq!(pace.may_begin(), Some(RUN_FIRST));
        pace.began();
        pace.look(ms(1005), 2, 0, 0);
        assert_eq!(pace.may_begin(), None, "one at a time");
        pace.ended(RUN_FIRST);
        pace.look(ms(1010), 2, 0, 0);
        pace.look(ms(1010 + 10 * u64::from(BUSY) - 1), 3, 0, 0);
        assert_eq!(pace.may_begin(), None);
        pace.look(ms(1010 + 10 * u64::from(BUSY)), 3, 0, 0);
        assert_eq!(pace.may_begin(), Some(RUN_FIRST));
        // Two seconds later nothing was asked.
        pace.look(ms(10_000), 3, 0, 0);
        pace.began();
        pace.ended(RUN_FIRST);
        pace.look(ms(10_010), 3, 0, 0);
        pace.look(ms(10_010 + 10 * u64::from(IDLE)), 3, 0, 0);
        assert!(pace.may_begin().is_some());
    }

    #[test]
    fn runs_grow_while_they_are_quick_and_shrink_when_not() {
        let mut pace = Pace::default();
        let mut now = 0;
        let mut one = |took: u64| {
            now += 10_000;
            pace.look(ms(now), 0, 0, 0);
            let chunks = pace.may_begin().expect("it rested");
            pace.began();
            now += took;
            pace.ended(chunks);
            pace.look(ms(now), 0, 0, 0);
            chunks
        };
        assert_eq!([1, 1, 10, 1, 1, 1, 1].map(&mut one), [64, 128, 256, 256, 512, 1024, 1024]);
        assert_eq!([100, 100, 10, 10].map(&mut one), [1024, 512, 256, 256]);
        (0..20).for_each(|_| _ = one(100));
        assert_eq!(one(10), RUN_FIRST);
    }

    #[test]
    fn stalls_make_rests_longer_until_there_are_none() {
        let mut pace = Pace::default();
        let mut now = 0;
        let mut seq = 0;
        let mut record = |pace: &mut Pace, took: u64| {
            seq += 1;
            pace.look(ms(now), seq, seq, seq - 1);
            now += took;
            pace.look(ms(now), seq, seq, seq);
        };
        (0..10).for_each(|_| record(&mut pace, 2));
        pace.began();
        record(&mut pace, 50);
        record(&mut pace, 50);
        assert_eq!(pace.busy, 4 * BUSY);
        pace.ended(RUN_MIN);
        record(&mut pace, 2);
        (0..10).for_each(|_| record(&mut pace, 2));
        pace.began();
        (0..10).for_each(|_| record(&mut pace, 2));
        assert_eq!(pace.busy, BUSY);
    }
}
