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
//! Members are asked one after the other, in the order of their numbers, so that two groups never wait for each other. A stock member ignores that a
//! place for recovery is given back before it has granted it, and ends by an assertion when it is asked for a second one: such a place is given
//! back when it is granted, and until then its member is not asked again. Holds no message: what is to be done comes out as [`Do`].
//!
//! Source of the facts: Ceph 18.2 `src/osd/PeeringState.cc`, `osd_types.h` (priorities).

use base::Stamp;
use std::collections::BTreeSet;
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
    /// Members that were asked for a place for recovery and have not granted it, needed or not.
    owed: BTreeSet<PgShard>,
}

impl Default for Reservation {
    fn default() -> Self {
        Self { state: State::None, priority: 0, members: Vec::new(), asked: 0, owed: BTreeSet::new() }
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
    pub fn want(&mut self, kind: Kind, priority: u32, mut members: Vec<PgShard>, out: &mut Vec<Do>) {
        self.release(out);
        members.sort_unstable();
        (self.members, self.asked, self.priority) = (members, 0, priority);
        self.ask_ours(kind, out);
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
                if !self.owed.contains(&member) {
                    self.ask(member, kind, out);
                }
            }
            None => self.state = State::Held(kind),
        }
    }
    fn ask(&mut self, member: PgShard, kind: Kind, out: &mut Vec<Do>) {
        if kind == Kind::Recovery {
            self.owed.insert(member);
        }
        out.push(Do::Ask(member, kind, self.priority));
    }
    /// A member has a place. What comes twice, or of a member that is not waited for, changes nothing.
    pub fn granted(&mut self, from: PgShard, out: &mut Vec<Do>) {
        let was_owed = self.owed.remove(&from);
        match self.state {
            State::Remote(kind) if self.asked.checked_sub(1).and_then(|at| self.members.get(at)) == Some(&from) => {
                if was_owed && kind != Kind::Recovery {
                    out.push(Do::GiveBack(from, Kind::Recovery));
                    return self.ask(from, kind, out);
                }
                self.ask_next(kind, out);
            }
            _ if was_owed => out.push(Do::GiveBack(from, Kind::Recovery)),
            _ => {}
        }
    }
    /// Our own OSD takes its place back.
    pub fn preempted(&mut self, out: &mut Vec<Do>) {
        let Some(kind) = self.kind() else { return };
        self.release_remotes(kind, None, out);
        self.ask_ours(kind, out);
    }
    /// A member takes its place back, or has none; if it is too full, it is asked again at that time.
    pub fn revoked(&mut self, from: PgShard, again: Option<Stamp>, out: &mut Vec<Do>) {
        let (State::Remote(kind) | State::Held(kind)) = self.state else { return };
        if !self.members[..self.asked].contains(&from) {
            return;
        }
        self.release_remotes(kind, Some(from), out);
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
    /// A member is too full to be begun with: nothing is asked before then.
    pub fn refuse(&mut self, kind: Kind, at: Stamp, out: &mut Vec<Do>) {
        self.release(out);
        self.state = State::Refused(kind, at);
    }
    /// No place is needed any more.
    pub fn release(&mut self, out: &mut Vec<Do>) {
        if let Some(kind) = self.kind() {
            self.release_remotes(kind, None, out);
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
    fn release_remotes(&mut self, kind: Kind, but: Option<PgShard>, out: &mut Vec<Do>) {
        let held = self.members.iter().take(self.asked).filter(|member| Some(**member) != but && !self.owed.contains(member));
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
mod tests {
    use super::*;

    const A: PgShard = PgShard::whole(1);
    const B: PgShard = PgShard::whole(2);

    fn done(f: impl FnOnce(&mut Vec<Do>)) -> Vec<Do> {
        let mut out = Vec::new();
        f(&mut out);
        out
    }

    #[test]
    fn places_are_asked_for_one_after_the_other_and_given_back() {
        let mut r = Reservation::default();
        assert_eq!(done(|out| r.want(Kind::Backfill, 100, vec![B, A], out)), [Do::AskOurs(100)]);
        assert_eq!(done(|out| r.granted(A, out)), [], "nobody was asked");
        assert_eq!(done(|out| r.local_granted(out)), [Do::Ask(A, Kind::Backfill, 100)]);
        assert_eq!(done(|out| r.granted(B, out)), [], "another one was asked");
        assert_eq!(done(|out| r.granted(A, out)), [Do::Ask(B, Kind::Backfill, 100)]);
        assert_eq!(done(|out| r.granted(B, out)), []);
        assert!(r.holds(Kind::Backfill));
        let again = [Do::GiveBack(A, Kind::Backfill), Do::GiveOursBack, Do::AskOurs(100)];
        assert_eq!(done(|out| r.revoked(B, None, out)), again);
        assert_eq!(done(|out| r.local_granted(out)), [Do::Ask(A, Kind::Backfill, 100)]);
        assert_eq!(done(|out| r.revoked(A, Some(Stamp(5)), out)), [Do::GiveOursBack]);
        assert_eq!(r.state(), State::Refused(Kind::Backfill, Stamp(5)));
        assert_eq!(done(|out| r.pass(Stamp(4), out)), []);
        assert_eq!(done(|out| r.pass(Stamp(5), out)), [Do::AskOurs(100)]);
        r.local_granted(&mut Vec::new());
        r.granted(A, &mut Vec::new());
        r.granted(B, &mut Vec::new());
        let preempted = [Do::GiveBack(A, Kind::Backfill), Do::GiveBack(B, Kind::Backfill), Do::AskOurs(100)];
        assert_eq!(done(|out| r.preempted(out)), preempted);
        assert_eq!(done(|out| r.end_interval(out)), [Do::GiveOursBack]);
        assert_eq!(done(|out| r.release(out)), []);
    }

    #[test]
    fn a_place_for_recovery_that_is_not_granted_yet_is_given_back_when_it_is() {
        let mut r = Reservation::default();
        let begun = |r: &mut Reservation, kind| {
            r.want(kind, 180, vec![A], &mut Vec::new());
            done(|out| r.local_granted(out))
        };
        assert_eq!(begun(&mut r, Kind::Recovery), [Do::Ask(A, Kind::Recovery, 180)]);
        assert_eq!(done(|out| r.release(out)), [Do::GiveOursBack], "it would ignore that its place is not needed");
        // Needed again: the grant that is owed counts.
        assert_eq!(begun(&mut r, Kind::Recovery), [], "it would end if it were asked twice");
        assert_eq!(done(|out| r.granted(A, out)), []);
        assert!(r.holds(Kind::Recovery));
        assert_eq!(done(|out| r.release(out)), [Do::GiveBack(A, Kind::Recovery), Do::GiveOursBack]);
        // Not needed when it comes.
        assert_eq!(begun(&mut r, Kind::Recovery), [Do::Ask(A, Kind::Recovery, 180)]);
        r.release(&mut Vec::new());
        assert_eq!(done(|out| r.granted(A, out)), [Do::GiveBack(A, Kind::Recovery)]);
        assert_eq!(done(|out| r.granted(A, out)), []);
        // Another kind is needed by then.
        assert_eq!(begun(&mut r, Kind::Recovery), [Do::Ask(A, Kind::Recovery, 180)]);
        assert_eq!(begun(&mut r, Kind::Backfill), []);
        assert_eq!(done(|out| r.granted(A, out)), [Do::GiveBack(A, Kind::Recovery), Do::Ask(A, Kind::Backfill, 180)]);
        assert_eq!(done(|out| r.granted(A, out)), []);
        assert!(r.holds(Kind::Backfill));
    }

    #[test]
    fn priorities_are_ceph_s() {
        let u = Urgency { is_forced: false, is_degraded: false, serving: 3, size: 3, min_size: 2, pool: 0 };
        let of = |kind, u| priority(kind, &u);
        assert_eq!((of(Kind::Backfill, u), of(Kind::Recovery, u)), (100, 180));
        assert_eq!(of(Kind::Backfill, Urgency { is_degraded: true, ..u }), 140);
        assert_eq!(of(Kind::Backfill, Urgency { serving: 2, is_degraded: true, ..u }), 141);
        assert_eq!(of(Kind::Backfill, Urgency { serving: 1, ..u }), 221);
        assert_eq!(of(Kind::Recovery, Urgency { serving: 1, is_degraded: true, ..u }), 221);
        assert_eq!(of(Kind::Recovery, Urgency { serving: 1, ..u }), 180);
        assert_eq!((of(Kind::Backfill, Urgency { pool: 10, ..u }), of(Kind::Backfill, Urgency { pool: -10, ..u })), (110, 90));
        let forced = Urgency { is_forced: true, pool: -10, ..u };
        assert_eq!((of(Kind::Backfill, forced), of(Kind::Recovery, forced)), (254, 255));
    }
}
