//! Work: what an OSD does by itself, beside requests. One shape for all of it: scrub, trimming of snapshots, removal of groups, reading the store at
//! the start, copies, merges, the bench.
//!
//! ```text
//!               something to do                   the ticket came, or a tick
//!     Idle ─────────────────────▶ Busy ◀───────────────────────────────── Waiting
//!       ▲                         │ │ │                                      ▲
//!       └── nothing left for now ─┘ │ └── the store fetches, or has no room ─┘
//!                                   └──▶ Done
//! ```
//!
//! Busy work gets a turn of the loop now and then, so that clients have theirs in between: [`Turns`] asks the shell for one. Holds no work itself.

use crate::op::{ANY_TICKET, PlanStop};
use serde_json::{Value, json};
use store::StoreError;
use types::SpgId;

/// What a piece of work can do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// The next turn.
    Busy,
    /// Nothing until then.
    Waiting(For),
    /// Nothing, until there is something to do.
    Idle,
    /// Nothing any more: its owner forgets it.
    Done,
}

/// What work waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// The store fetches; [`ANY_TICKET`] for whatever it has news of, such as room.
    Store(u64),
    /// Another OSD or the monitor, whose answer is an event of its own.
    Peer,
}

impl Work {
    pub fn is_busy(self) -> bool {
        self == Self::Busy
    }
    /// What becomes of work that the store stopped. With an error that no news ends, it is tried again now and then.
    pub fn stopped(error: &StoreError) -> Self {
        Self::Waiting(For::Store(if let StoreError::Wait(ticket) = error { *ticket } else { ANY_TICKET }))
    }
    /// The same for an object that could not be loaded.
    pub fn not_loaded(stop: &PlanStop) -> Self {
        Self::Waiting(For::Store(if let PlanStop::Wait(ticket) = stop { *ticket } else { ANY_TICKET }))
    }
    /// The store has what these tickets (ascending) stand for.
    pub fn store_ready(&mut self, tickets: &[u64]) {
        if let Self::Waiting(For::Store(ticket)) = self
            && (*ticket == ANY_TICKET || tickets.binary_search(ticket).is_ok())
        {
            *self = Self::Busy;
        }
    }
    /// What waits for the store is tried now and then in any case.
    pub fn tick(&mut self) {
        if let Self::Waiting(For::Store(_)) = self {
            *self = Self::Busy;
        }
    }
    fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Waiting(For::Store(_)) => "waiting for the store",
            Self::Waiting(For::Peer) => "waiting for a peer",
            Self::Idle => "idle",
            Self::Done => "done",
        }
    }
}

/// Turns of the loop that work wants.
#[derive(Debug, Default)]
pub struct Turns {
    wanted: bool,
    asked: bool,
}

impl Turns {
    /// Busy work wants a turn.
    pub fn want(&mut self, work: Work) {
        self.wanted |= work.is_busy();
    }
    /// True if the shell is to be asked for a turn: one is wanted, and none is asked for.
    #[must_use]
    pub fn ask(&mut self) -> bool {
        self.wanted && !std::mem::replace(&mut self.asked, true)
    }
    /// The turn has come.
    pub fn begin(&mut self) {
        *self = Self::default();
    }
}

/// One row of `dump_background_work`.
#[derive(Debug)]
pub struct Status {
    pub what: &'static str,
    /// The group that it is about.
    pub pgid: Option<SpgId>,
    pub work: Work,
    /// How far it has come, for people.
    pub progress: String,
}

impl Status {
    pub fn json(self) -> Value {
        let pgid = self.pgid.map(|pgid| pgid.to_string());
        json!({ "work": self.what, "pgid": pgid, "state": self.work.name(), "progress": self.progress })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_waits_goes_on_with_its_ticket_or_a_tick() {
        let mut work = Work::stopped(&StoreError::Wait(7));
        work.store_ready(&[3, 8]);
        assert_eq!(work, Work::Waiting(For::Store(7)));
        work.store_ready(&[3, 7]);
        assert_eq!(work, Work::Busy);
        for mut work in [Work::stopped(&StoreError::Wait(9)), Work::stopped(&StoreError::Full)] {
            work.tick();
            assert_eq!(work, Work::Busy);
        }
        let mut full = Work::stopped(&StoreError::Full);
        full.store_ready(&[1]);
        assert_eq!(full, Work::Busy);
        for mut other in [Work::Idle, Work::Waiting(For::Peer)] {
            let before = other;
            other.tick();
            other.store_ready(&[ANY_TICKET]);
            assert_eq!(other, before);
        }
    }

    #[test]
    fn a_turn_is_asked_for_once() {
        let mut turns = Turns::default();
        turns.want(Work::Idle);
        turns.want(Work::Waiting(For::Peer));
        assert!(!turns.ask());
        turns.want(Work::Busy);
        assert!(turns.ask() && !turns.ask());
        turns.begin();
        assert!(!turns.ask());
        turns.want(Work::Busy);
        assert!(turns.ask());
    }
}
