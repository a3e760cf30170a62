//! The place of this OSD that a group lends to its primary: the other side of [`super::want`].
//!
//! ```text
//!            asked             our OSD has one
//!   None ───────────▶ Asked ────────────────────▶ Held
//!    ▲  ╲               ▲ │                         │
//!    │   ╲ asked ──▶ Waiting: full, for recovery     │
//!    └──────────────────┴─┴─────────────────────────┘
//!     given back, refused, taken back, or the interval is over
//! ```
//!
//! Each request has one answer: a stock primary that was granted a place twice ends by an assertion, and it waits for ever for a place that is taken
//! back before it is granted. Holds no message: what is to be done comes out as [`Do`].
//!
//! Source of the facts: Ceph 18.2 `src/osd/PeeringState.h` and `.cc`.

use super::want::Kind;
use crate::planted::{Bug, planted};
use crate::reserver::News;

/// Ours, in `shard_num_bytes` of a refusal or of a place that is taken back from a target that is too full: the target lists its objects
/// all the same. Stock has 0 there, and looks at it in a request alone.
pub const LISTS_WHEN_FULL: i64 = -0x4c49_5354;

/// True if a refusal says that its target lists all the same.
pub fn lists(shard_num_bytes: i64) -> bool {
    shard_num_bytes == LISTS_WHEN_FULL
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    None,
    /// For recovery, by a primary that has no word for a store that is too full: it waits for its answer until there is room.
    Waiting(u32),
    Asked(Kind, u32),
    Held(Kind),
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Do {
    /// Ask our OSD for a place of this priority.
    AskOurs(u32),
    GiveOursBack,
    Grant(Kind),
    /// The place that was granted is taken back.
    Revoke(Kind),
    /// The store is too full for what was asked.
    Refuse,
    /// The place that was granted is taken back, as the store is too full.
    RevokeTooFull,
}

/// A group's place for its primary.
#[derive(Debug)]
pub struct Lender {
    state: State,
}

impl Default for Lender {
    fn default() -> Self {
        Self { state: State::None }
    }
}

impl Lender {
    /// The primary asks.
    pub fn asked(&mut self, kind: Kind, priority: u32, is_too_full: bool, out: &mut Vec<Do>) {
        self.release(out);
        match kind {
            Kind::Backfill if is_too_full => return out.push(Do::Refuse),
            Kind::Recovery if is_too_full => {
                self.state = State::Waiting(priority);
                return;
            }
            _ => {}
        }
        self.state = State::Asked(kind, priority);
        out.push(Do::AskOurs(priority));
    }
    /// The primary needs it no longer, or the interval is over.
    pub fn release(&mut self, out: &mut Vec<Do>) {
        match std::mem::replace(&mut self.state, State::None) {
            State::None | State::Waiting(_) => {}
            State::Asked(..) | State::Held(_) => out.push(Do::GiveOursBack),
        }
    }
    /// Our OSD has a place, or takes it back. A place that was not granted yet is asked for again.
    pub fn news(&mut self, news: News, out: &mut Vec<Do>) {
        match (self.state, news) {
            (State::Asked(kind, _), News::Granted) => {
                self.state = State::Held(kind);
                out.push(Do::Grant(kind));
            }
            (State::Asked(kind, _), News::Preempted) if planted(Bug::RevokeUngranted) => {
                self.state = State::None;
                out.push(Do::Revoke(kind));
            }
            (State::Asked(_, priority), News::Preempted) => out.push(Do::AskOurs(priority)),
            (State::Held(kind), News::Preempted) => {
                self.state = State::None;
                out.push(Do::Revoke(kind));
            }
            (State::Held(_), News::Granted) | (State::None | State::Waiting(_), _) => {}
        }
    }
    /// The store is full: recovery has no place here until there is room again.
    pub fn full(&mut self, out: &mut Vec<Do>) {
        match self.state {
            State::Asked(Kind::Recovery, priority) => {
                self.release(out);
                self.state = State::Waiting(priority);
            }
            State::Held(Kind::Recovery) => {
                self.release(out);
                out.push(Do::Revoke(Kind::Recovery));
            }
            _ => {}
        }
    }
    /// It is not full any more.
    pub fn has_room(&mut self, out: &mut Vec<Do>) {
        if let State::Waiting(priority) = self.state {
            self.state = State::Asked(Kind::Recovery, priority);
            out.push(Do::AskOurs(priority));
        }
    }
    /// The store is too full to be filled further.
    pub fn too_full(&mut self, out: &mut Vec<Do>) {
        let answer = match self.state {
            State::Asked(Kind::Backfill, _) => Do::Refuse,
            State::Held(Kind::Backfill) => Do::RevokeTooFull,
            _ => return,
        };
        self.release(out);
        out.push(answer);
    }
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.state == State::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_one_answer() {
        let mut lender = Lender::default();
        let mut done = |does: &dyn Fn(&mut Lender, &mut Vec<Do>)| {
            let mut out = Vec::new();
            does(&mut lender, &mut out);
            out
        };
        // Its place was another group's before it was told of it: it waits on, and its primary with it.
        assert_eq!(done(&|lender, out| lender.asked(Kind::Recovery, 180, false, out)), [Do::AskOurs(180)]);
        assert_eq!(done(&|lender, out| lender.news(News::Preempted, out)), [Do::AskOurs(180)]);
        assert_eq!(done(&|lender, out| lender.news(News::Granted, out)), [Do::Grant(Kind::Recovery)]);
        assert_eq!(done(&|lender, out| lender.news(News::Granted, out)), [], "a second one would end a stock primary");
        assert_eq!(done(&|lender, out| lender.news(News::Preempted, out)), [Do::Revoke(Kind::Recovery)]);
        assert_eq!(done(&Lender::release), [], "it is given back twice");
        assert_eq!(done(&|lender, out| lender.asked(Kind::Backfill, 140, true, out)), [Do::Refuse]);
        assert_eq!(done(&Lender::too_full), [], "nothing is lent");
        assert_eq!(done(&|lender, out| lender.asked(Kind::Backfill, 140, false, out)), [Do::AskOurs(140)]);
        assert_eq!(done(&Lender::too_full), [Do::GiveOursBack, Do::Refuse]);
        assert_eq!(done(&|lender, out| lender.asked(Kind::Backfill, 140, false, out)), [Do::AskOurs(140)]);
        assert_eq!(done(&|lender, out| lender.news(News::Granted, out)), [Do::Grant(Kind::Backfill)]);
        assert_eq!(done(&Lender::too_full), [Do::GiveOursBack, Do::RevokeTooFull]);
        assert_eq!(done(&Lender::release), []);
        // Recovery has no word for a store that is full: the answer comes when there is room.
        assert_eq!(done(&|lender, out| lender.asked(Kind::Recovery, 180, true, out)), []);
        assert_eq!(done(&Lender::full), []);
        assert_eq!(done(&Lender::has_room), [Do::AskOurs(180)]);
        assert_eq!(done(&Lender::has_room), []);
        assert_eq!(done(&Lender::full), [Do::GiveOursBack]);
        assert_eq!(done(&Lender::has_room), [Do::AskOurs(180)]);
        assert_eq!(done(&|lender, out| lender.news(News::Granted, out)), [Do::Grant(Kind::Recovery)]);
        assert_eq!(done(&Lender::full), [Do::GiveOursBack, Do::Revoke(Kind::Recovery)]);
        assert_eq!(done(&Lender::release), []);
        assert_eq!(done(&|lender, out| lender.asked(Kind::Recovery, 180, true, out)), []);
        assert_eq!(done(&Lender::release), [], "it had no place yet");
    }
}
