//! Time as a value. Cores never ask what time it is: every event carries a [`Clock`].

use std::ops::{Add, Sub};
use std::time::Duration;

/// Monotonic time: nanoseconds since some start that is the same for one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(pub u64);

impl Stamp {
    pub fn since(self, earlier: Stamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
impl Add<Duration> for Stamp {
    type Output = Stamp;
    fn add(self, d: Duration) -> Stamp {
        Stamp(self.0.saturating_add(d.as_nanos() as u64))
    }
}
impl Sub<Duration> for Stamp {
    type Output = Stamp;
    fn sub(self, d: Duration) -> Stamp {
        Stamp(self.0.saturating_sub(d.as_nanos() as u64))
    }
}

/// The two times that an event happens at: `mono` to measure spans, `wall` (nanoseconds since 1970) to write down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clock {
    pub mono: Stamp,
    pub wall_ns: u64,
}
