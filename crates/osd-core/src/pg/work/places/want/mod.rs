//! The places that a group needs before it is recovered or filled: one of its own OSD's, then one of each other member's.
//!
//! ```text
//!         wanted               ours is there              each member's is there
//!   None ────────▶ Local ──────────────────▶ Remote ────────────────────────────▶ Held
//!    ▲               ▲ ▲                       │ │                                 │ │
//!    │               │ └─── a member, or our   │ │                                 │ │
//!    │               │      OSD, takes it back ┴─│─────────────────────────────────┘ │
//!    │               └── some time later ── Refused ◀── a member is too full ────────┘
//!    └── done, or the interval is over: all are given back
//! ```
//!
//! Members are asked one after the other, in the order of their numbers, so that two groups never wait for each other. A member that was asked owes an
//! answer, and is asked nothing else until that is here: a place that is needed no longer by then is given back when it is granted. A stock member
//! takes a request in one state alone, that of a member with no place, and ends by an assertion in each other one. Before its answer it may ignore
//! that the place is given back, and a place that it takes back stays its primary's until that gives it back. Holds no message: what is to be done
//! comes out as [`Do`]. The member's side is [`super::lend`].
//!
//! Source of the facts: Ceph 18.2 `src/osd/PeeringState.h` and `.cc`, `osd_types.h` (priorities).

use crate::planted::{Bug, planted};
use base::Stamp;
use std::collections::BTreeMap;
use types::PgShard;

/// What the places are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By the log.
    Recovery,
    Backfill,
}

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    None,
    Local(Kind),
    Remote(Kind),
    Held(Kind),
    /// A member is too full; it is asked again then.
    Refused(Kind, Stamp),
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Do {
    AskOurs(u32),
    GiveOursBack,
    Ask(PgShard, Kind, u32),
    GiveBack(PgShard, Kind),
}

/// A group's places, on its primary.
#[derive(Debug)]
pub struct Reservation {
    state: State,
    priority: u32,
    /// Members whose place is needed, in the order in which they are asked; those before `asked` were.
    members: Vec<PgShard>,
    asked: usize,
    /// Members that were asked for a place and have not answered, needed or not.
    owed: BTreeMap<PgShard, Kind>,
}

impl Default for Reservation {
    fn default() -> Self {
        Self { state: State::None, priority: 0, members: Vec::new(), asked: 0, owed: BTreeMap::new() }
    }
}

impl Reservation {
    pub fn state(&self) -> State {
        self.state
    }
    pub fn kind(&self) -> Option<Kind> {
        match self.state {
            State::None => None,
            State::Local(kind) | State::Remote(kind) | State::Held(kind) | State::Refused(kind, _) => Some(kind),
        }
    }
    pub fn holds(&self, kind: Kind) -> bool {
        self.state == State::Held(kind)
    }

    /// Places are wanted at these members; what was held is given back first.
    pub fn want(&mut self, kind: Kind, priority: u32, members: Vec<PgShard>, out: &mut Vec<Do>) {
        self.plan(priority, members, out);
        self.ask_ours(kind, out);
    }
    /// The same, and a member is too full to be begun with: nothing is asked before that time.
    pub fn want_later(&mut self, kind: Kind, priority: u32, members: Vec<PgShard>, at: Stamp, out: &mut Vec<Do>) {
        self.plan(priority, members, out);
        self.state = State::Refused(kind, at);
    }
    fn plan(&mut self, priority: u32, mut members: Vec<PgShard>, out: &mut Vec<Do>) {
        self.release(out);
        members.sort_unstable();
        (self.members, self.asked, self.priority) = (members, 0, priority);
    }
    fn ask_ours(&mut self, kind: Kind, out: &mut Vec<Do>) {
        self.state = State::Local(kind);
        out.push(Do::AskOurs(self.priority));
    }
    /// The priority is another one.
    pub fn revalue(&mut self, priority: u32, out: &mut Vec<Do>) {
        if std::mem::replace(&mut self.priority, priority) != priority && matches!(self.state, State::Local(_) | State::Held(_)) {
            out.push(Do::AskOurs(priority));
        }
    }
    /// Our own OSD has a place.
    pub fn local_granted(&mut self, out: &mut Vec<Do>) {
        if let State::Local(kind) = self.state {
            self.ask_next(kind, out);
        }
    }
    fn ask_next(&mut self, kind: Kind, out: &mut Vec<Do>) {
        match self.members.get(self.asked) {
            Some(member) => {
                let member = *member;
                self.asked += 1;
                self.state = State::Remote(kind);
                if !self.owed.contains_key(&member) || planted(Bug::AskTwice) {
                    self.ask(member, kind, out);
                }
            }
            None => self.state = State::Held(kind),
        }
    }
    fn ask(&mut self, member: PgShard, kind: Kind, out: &mut Vec<Do>) {
        self.owed.insert(member, kind);
        out.push(Do::Ask(member, kind, self.priority));
    }
    /// The member that is waited for, and what for.
    fn awaited(&self) -> Option<(PgShard, Kind)> {
        let State::Remote(kind) = self.state else { return None };
        self.asked.checked_sub(1).and_then(|at| self.members.get(at)).map(|member| (*member, kind))
    }
    /// A member has a place. What was not asked for changes nothing.
    pub fn granted(&mut self, from: PgShard, out: &mut Vec<Do>) {
        let Some(asked) = self.owed.remove(&from) else { return };
        match self.awaited() {
            Some((member, kind)) if member == from && kind == asked => self.ask_next(kind, out),
            awaited => {
                out.push(Do::GiveBack(from, asked));
                self.ask_instead(from, awaited, out);
            }
        }
    }
    /// A member that was asked is too full: it is asked again at that time.
    pub fn refused(&mut self, from: PgShard, again: Stamp, out: &mut Vec<Do>) {
        let Some(asked) = self.owed.remove(&from) else { return };
        match self.awaited() {
            Some((member, kind)) if member == from && kind == asked => {
                self.asked -= 1;
                self.release_remotes(kind, out);
                out.push(Do::GiveOursBack);
                self.state = State::Refused(kind, again);
            }
            awaited => self.ask_instead(from, awaited, out),
        }
    }
    /// A member's answer is here, to what is not needed any more; it may be waited for with something else.
    fn ask_instead(&mut self, from: PgShard, awaited: Option<(PgShard, Kind)>, out: &mut Vec<Do>) {
        if let Some((member, kind)) = awaited
            && member == from
        {
            self.ask(from, kind, out);
        }
    }
    /// Our own OSD takes its place back.
    pub fn preempted(&mut self, out: &mut Vec<Do>) {
        let Some(kind) = self.kind() else { return };
        self.release_remotes(kind, out);
        self.ask_ours(kind, out);
    }
    /// A member takes back the place that it gave; if it is too full, it is asked again at that time. The place is given back to it like to all
    /// others. A member that owes an answer has no place to take back: what it says of one that it had before comes late.
    pub fn revoked(&mut self, from: PgShard, again: Option<Stamp>, out: &mut Vec<Do>) {
        let (State::Remote(kind) | State::Held(kind)) = self.state else { return };
        if !self.members[..self.asked].contains(&from) || self.owed.contains_key(&from) {
            return;
        }
        self.release_remotes(kind, out);
        if planted(Bug::KeepRevoked) {
            out.retain(|one| *one != Do::GiveBack(from, kind));
        }
        out.push(Do::GiveOursBack);
        match again {
            Some(at) => self.state = State::Refused(kind, at),
            None => self.ask_ours(kind, out),
        }
    }
    /// Time passes.
    pub fn pass(&mut self, now: Stamp, out: &mut Vec<Do>) {
        if let State::Refused(kind, at) = self.state
            && at <= now
        {
            self.ask_ours(kind, out);
        }
    }
    /// A member is too full to go on with: nothing is asked before then.
    pub fn refuse(&mut self, kind: Kind, at: Stamp, out: &mut Vec<Do>) {
        self.release(out);
        self.state = State::Refused(kind, at);
    }
    /// No place is needed any more.
    pub fn release(&mut self, out: &mut Vec<Do>) {
        if let Some(kind) = self.kind() {
            self.release_remotes(kind, out);
            out.push(Do::GiveOursBack);
        }
        self.state = State::None;
    }
    /// The interval is over: other members give their places back by themselves.
    pub fn end_interval(&mut self, out: &mut Vec<Do>) {
        self.asked = 0;
        self.owed.clear();
        self.release(out);
    }
    fn release_remotes(&mut self, kind: Kind, out: &mut Vec<Do>) {
        let held = self.members.iter().take(self.asked).filter(|member| !self.owed.contains_key(member));
        out.extend(held.map(|member| Do::GiveBack(*member, kind)));
        self.asked = 0;
    }
}

/// What decides on a group's priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Urgency {
    pub is_forced: bool,
    pub is_degraded: bool,
    /// Members that serve; for recovery, members that lack nothing.
    pub serving: u32,
    pub size: u32,
    pub min_size: u32,
    /// The pool's `recovery_priority`.
    pub pool: i64,
}

const BACKFILL: i64 = 100;
const BACKFILL_DEGRADED: i64 = 140;
const RECOVERY: i64 = 180;
const INACTIVE: i64 = 220;
const MAX: i64 = 253;
const BACKFILL_FORCED: u32 = 254;
const RECOVERY_FORCED: u32 = 255;
const _: () = assert!(BACKFILL < BACKFILL_DEGRADED && BACKFILL_DEGRADED < RECOVERY && RECOVERY < INACTIVE && INACTIVE < MAX);
const _: () = assert!(MAX < BACKFILL_FORCED as i64 && BACKFILL_FORCED < RECOVERY_FORCED);

/// A group's priority: a higher one goes first.
pub fn priority(kind: Kind, u: &Urgency) -> u32 {
    if u.is_forced {
        return if kind == Kind::Recovery { RECOVERY_FORCED } else { BACKFILL_FORCED };
    }
    let is_below = u.serving < u.min_size && (kind == Kind::Backfill || u.is_degraded);
    let (base, more, max) = match kind {
        _ if is_below => (INACTIVE, u.min_size - u.serving, MAX),
        Kind::Recovery => (RECOVERY, 0, INACTIVE - 1),
        Kind::Backfill if u.serving < u.size => (BACKFILL_DEGRADED, u.size - u.serving, RECOVERY - 1),
        Kind::Backfill if u.is_degraded => (BACKFILL_DEGRADED, 0, RECOVERY - 1),
        Kind::Backfill => (BACKFILL, 0, BACKFILL_DEGRADED - 1),
    };
    // A pool's priority has a bound of its own.
    (base + i64::from(more) + u.pool.clamp(-10, 10)).clamp(0, max) as u32
}

#[cfg(test)]
mod tests;
