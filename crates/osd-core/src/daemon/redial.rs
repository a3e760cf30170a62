//! When an address is dialled again.
//!
//! ```text
//!   a dial failed      200 ms, twice as long each time, up to 15 s, give or take a quarter: many OSDs must not come back in step
//!   a session was cut  after 1 s
//! ```

use base::{Rng, Stamp};
use std::time::Duration;

/// Ceph's `ms_initial_backoff` and `ms_max_backoff`.
const FIRST: Duration = Duration::from_millis(200);
const MAX: Duration = Duration::from_secs(15);
/// After a session that was open.
const AFTER_CUT: Duration = Duration::from_secs(1);
const _: () = assert!(FIRST.as_millis() < AFTER_CUT.as_millis() && AFTER_CUT.as_millis() < MAX.as_millis());

/// The state of one address.
#[derive(Debug, Default)]
pub(super) struct Redial {
    pause: Duration,
    at: Option<Stamp>,
}

impl Redial {
    /// When the next dial is due, if one is.
    pub fn at(&self) -> Option<Stamp> {
        self.at
    }
    /// True once when the time has come.
    pub fn is_due(&mut self, now: Stamp) -> bool {
        self.at.take_if(|at| *at <= now).is_some()
    }
    /// Another address, or a session: the next failure is the first.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
    pub fn failed(&mut self, now: Stamp, rng: &mut Rng) {
        self.pause = (self.pause * 2).clamp(FIRST, MAX);
        let quarter = self.pause.as_nanos() as u64 / 4;
        self.at = Some(now + self.pause - Duration::from_nanos(quarter) + Duration::from_nanos(rng.below(2 * quarter + 1)));
    }
    pub fn was_cut(&mut self, now: Stamp) {
        *self = Self { pause: Duration::ZERO, at: Some(now + AFTER_CUT) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound_and_begin_anew_after_a_session() {
        let (mut redial, mut rng, mut now) = (Redial::default(), Rng::new(1), Stamp(0));
        let mut pauses = Vec::new();
        for _ in 0..12 {
            redial.failed(now, &mut rng);
            let at = redial.at().unwrap();
            assert!(!redial.is_due(at - Duration::from_nanos(1)));
            assert!(redial.is_due(at) && !redial.is_due(at), "due once");
            pauses.push(at.since(now).as_millis());
            now = at;
        }
        assert!((150..=250).contains(&pauses[0]), "{pauses:?}");
        assert!(pauses[4] > 4 * pauses[0], "{pauses:?}");
        assert!(pauses[8..].iter().all(|p| (11_250..=18_750).contains(p)), "{pauses:?}");
        redial.was_cut(now);
        assert_eq!(redial.at(), Some(now + AFTER_CUT));
        redial.failed(now, &mut rng);
        assert!(redial.at().unwrap().since(now) < Duration::from_millis(300));
    }
}
