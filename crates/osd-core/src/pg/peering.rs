//! Peering: how a placement group finds out, after each change of its members, who has what, before it serves again.
//!
//! ```text
//!            map changes the members                  every answer is in      nobody knows more than we do
//!  (any) ───────────────────────────▶ Reset ──▶ GetInfo ───────────────▶ GetLog ───────────────▶ GetMissing
//!                                       │           │                       │                        │ up_thru not yet ours
//!                                       ▼           ▼                       ▼                        ▼
//!                                     Stray        Down              (ask for pg_temp)          WaitUpThru
//!                                                                                                    │ the map shows it
//!          Active ◀── the activation is durable, min_size is there ── Activating ◀───────────────────┘
//!          Peered ◀── the same, but too few members, or the group is about to be merged
//! ```
//!
//! Holds the states and the rules by which they follow each other; all of it moves through [`Peering::enter`]. Holds no message: what it wants
//! sent comes out as [`PeerOut`]. Groups whose acting set has members besides us wait as undersized and peered: replication is not here yet.

use base::Stamp;
use std::collections::{BTreeMap, BTreeSet};
use types::{Epoch, OsdId, PastIntervals, PgInfo, PgInterval, PgShard, SpgId, pg_state};

/// Where a group stands; see the picture above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Reset,
    GetInfo,
    GetLog,
    GetMissing,
    WaitUpThru,
    Activating,
    Active,
    Peered,
    Down,
    Stray,
}

/// The edges of the picture above. [`State::Reset`] follows every state: a new interval begins.
const EDGES: [(State, State); 14] = {
    use State::*;
    [
        (Reset, GetInfo),
        (Reset, Stray),
        (Reset, Down),
        (Down, GetInfo),
        (GetInfo, GetLog),
        (GetLog, GetMissing),
        // Another member turned up late and may know more.
        (GetMissing, GetLog),
        (WaitUpThru, GetLog),
        (GetMissing, WaitUpThru),
        (GetMissing, Activating),
        (WaitUpThru, Activating),
        // Members besides us: replication is not here yet.
        (GetMissing, Peered),
        (Activating, Active),
        (Activating, Peered),
    ]
};

/// A group's part in a merge: the source is over after it, the target has the objects of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeRole {
    Source,
    Target,
}

/// What one map says of one group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mapping {
    pub epoch: Epoch,
    pub up: Vec<OsdId>,
    pub acting: Vec<OsdId>,
    pub up_primary: OsdId,
    pub acting_primary: OsdId,
    /// Of the pool.
    pub size: u32,
    pub min_size: u32,
    pub pg_num: u32,
    pub pg_num_pending: u32,
}

/// What a map says of OSDs.
pub trait OsdView {
    fn is_up(&self, osd: OsdId) -> bool;
    fn exists(&self, osd: OsdId) -> bool;
    /// The epoch up to which it may have been active.
    fn up_thru(&self, osd: OsdId) -> Epoch;
    fn up_from(&self, osd: OsdId) -> Epoch;
    /// An administrator gave up what it had before this epoch.
    fn lost_at(&self, osd: OsdId) -> Epoch;
}

/// What peering wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerOut {
    /// Ask that member for its info.
    Query(PgShard),
    /// Tell that member, the primary, that we have some of the group.
    Notify(PgShard),
    /// Ask the monitor to let these serve instead; empty: let go of what was asked before.
    PgTemp(Vec<OsdId>),
    /// Tell the monitor that we are to be active in this epoch.
    UpThru(Epoch),
    /// Persist the info; [`Peering::activated`] when that is durable.
    Activate,
}

/// Peering of one group on one OSD.
#[derive(Debug)]
pub struct Peering {
    pub pgid: SpgId,
    whoami: PgShard,
    state: State,
    pub mapping: Mapping,
    /// Answers to messages of before this epoch don't count any more.
    pub last_peering_reset: Epoch,
    pub past: PastIntervals,
    /// Whom we asked and have no answer of.
    waiting: BTreeSet<PgShard>,
    /// What others have.
    peer_info: BTreeMap<PgShard, PgInfo>,
    /// Members without which we may lose writes.
    pub blocked_by: BTreeSet<PgShard>,
    asked_pg_temp: Vec<OsdId>,
    creating: bool,
    /// States with the time they were entered, newest last; for `pg query` and for reading after the fact. The last dozen.
    pub history: Vec<(State, Stamp)>,
}

impl Peering {
    pub fn new(pgid: SpgId, whoami: OsdId, mapping: Mapping, past: PastIntervals, creating: bool, now: Stamp) -> Self {
        Self {
            pgid,
            whoami: PgShard::new(whoami, pgid.shard),
            state: State::Reset,
            last_peering_reset: mapping.epoch,
            mapping,
            past,
            waiting: BTreeSet::new(),
            peer_info: BTreeMap::new(),
            blocked_by: BTreeSet::new(),
            asked_pg_temp: Vec::new(),
            creating,
            history: vec![(State::Reset, now)],
        }
    }
    pub fn state(&self) -> State {
        self.state
    }
    /// We, as a member.
    pub fn whoami(&self) -> PgShard {
        self.whoami
    }
    /// This OSD as a member of the group.
    fn member(&self, osd: OsdId) -> PgShard {
        PgShard::new(osd, self.pgid.shard)
    }
    /// Members that serve the group by the present map.
    pub fn acting(&self) -> impl Iterator<Item = PgShard> {
        self.mapping.acting.iter().map(|osd| self.member(*osd))
    }
    fn serves_alone(&self) -> bool {
        self.mapping.acting == [self.whoami.osd]
    }
    pub fn is_primary(&self) -> bool {
        self.mapping.acting_primary == self.whoami.osd
    }
    /// Serves clients.
    pub fn is_active(&self) -> bool {
        self.state == State::Active
    }
    /// Peered, but may not serve.
    pub fn is_peered_only(&self) -> bool {
        self.state == State::Peered
    }
    pub fn is_clean(&self) -> bool {
        (self.is_active() || self.is_premerge())
            && self.mapping.acting.len() == self.mapping.size as usize
            && self.mapping.acting == self.mapping.up
    }
    /// What the group is to be in a merge that the map announces; it stays quiet until then.
    pub fn pending_merge(&self) -> Option<MergeRole> {
        let (seed, m) = (self.pgid.pgid.seed, &self.mapping);
        match () {
            _ if m.pg_num_pending == 0 || m.pg_num_pending >= m.pg_num || seed >= m.pg_num => None,
            _ if seed >= m.pg_num_pending => Some(MergeRole::Source),
            _ if (m.pg_num_pending..m.pg_num).any(|s| parent_seed(s) == seed) => Some(MergeRole::Target),
            _ => None,
        }
    }
    /// Peered and quiet, waiting for a merge.
    pub fn is_premerge(&self) -> bool {
        self.state == State::Peered && self.pending_merge().is_some()
    }

    /// `PG_STATE_*` bits without those that depend on objects.
    pub fn bits(&self) -> u64 {
        use pg_state::*;
        let mut bits = match self.state {
            State::Reset | State::GetInfo | State::GetLog | State::GetMissing | State::WaitUpThru => PEERING,
            State::Down => DOWN | PEERING,
            State::Activating => ACTIVATING,
            State::Active => ACTIVE,
            State::Peered => PEERED,
            State::Stray => 0,
        };
        if self.creating && self.state != State::Active {
            bits |= CREATING;
        }
        if self.is_clean() {
            bits |= CLEAN;
        }
        if self.is_premerge() {
            bits |= PREMERGE;
        }
        if matches!(self.state, State::Active | State::Peered | State::Activating)
            && (self.mapping.acting.len() < self.mapping.size as usize || !self.serves_alone())
        {
            bits |= UNDERSIZED;
        }
        if self.mapping.up != self.mapping.acting {
            bits |= REMAPPED;
        }
        bits
    }

    /// True if `new` begins another interval: writes of before it and after it may have different members behind them.
    pub fn is_new_interval(&self, new: &Mapping) -> bool {
        let (old, seed) = (&self.mapping, self.pgid.pgid.seed);
        (old.acting_primary, &old.acting, old.up_primary, &old.up) != (new.acting_primary, &new.acting, new.up_primary, &new.up)
            || (old.size, old.min_size) != (new.size, new.min_size)
            || splits(seed, old.pg_num, new.pg_num)
            || merges(seed, old.pg_num, new.pg_num)
            || merges(seed, old.pg_num_pending, new.pg_num_pending)
            || merges(seed, new.pg_num_pending, old.pg_num_pending)
    }

    /// Ends the interval that was and begins the one of `new`. `before` is the map that was in force.
    pub fn start_interval(&mut self, info: &mut PgInfo, new: Mapping, before: &dyn OsdView, now: Stamp) {
        let old = std::mem::replace(&mut self.mapping, new);
        let new = &self.mapping;
        let first = info.history.same_interval_since;
        let last = new.epoch.saturating_sub(1);
        if first > 0 && last >= first && last > self.past.last {
            let served = old.acting_primary >= 0 && !old.acting.is_empty() && old.acting.len() >= old.min_size as usize;
            let maybe_went_rw = served
                && ((before.up_thru(old.acting_primary) >= first && before.up_from(old.acting_primary) <= first)
                    || (first..=last).contains(&info.history.last_epoch_clean));
            let interval = PgInterval {
                first,
                last,
                up: old.up.clone(),
                acting: old.acting.clone(),
                maybe_went_rw,
                primary: old.acting_primary,
                up_primary: old.up_primary,
            };
            self.past.add(false, &interval);
        }
        info.history.same_interval_since = new.epoch;
        if splits(self.pgid.pgid.seed, old.pg_num, new.pg_num) {
            info.history.last_epoch_split = new.epoch;
        }
        if (old.up_primary, &old.up) != (new.up_primary, &new.up) {
            info.history.same_up_since = new.epoch;
        }
        if old.acting_primary != new.acting_primary {
            info.history.same_primary_since = new.epoch;
        }
        self.last_peering_reset = new.epoch;
        self.enter(State::Reset, now);
    }

    /// The map changed, the interval didn't.
    pub fn keep_interval(&mut self, new: Mapping) {
        self.mapping = new;
    }

    /// The one door to another state.
    fn enter(&mut self, to: State, now: Stamp) {
        if to == State::Reset {
            self.waiting.clear();
            self.peer_info.clear();
            self.blocked_by.clear();
            self.asked_pg_temp.clear();
        }
        let is_edge = to == State::Reset || EDGES.contains(&(self.state, to));
        assert!(is_edge, "{}: {:?} does not follow {:?}", self.pgid, to, self.state);
        self.state = to;
        if self.history.len() == 12 {
            self.history.remove(0);
        }
        self.history.push((to, now));
    }

    /// Goes as far as it can with what is known.
    pub fn step(&mut self, info: &mut PgInfo, map: &dyn OsdView, now: Stamp, out: &mut Vec<PeerOut>) {
        loop {
            let before = self.state;
            match self.state {
                State::Reset if self.is_primary() => self.ask_prior(info, map, now, out),
                State::Reset => {
                    self.enter(State::Stray, now);
                    if self.mapping.acting_primary >= 0 && !info.dne() {
                        out.push(PeerOut::Notify(self.member(self.mapping.acting_primary)));
                    }
                }
                // Somebody came back or was given up: look again.
                State::Down => {
                    let mut found = Vec::new();
                    self.waiting.clear();
                    self.ask_prior(info, map, now, &mut found);
                    if self.state != State::Down {
                        out.append(&mut found);
                    }
                }
                State::GetInfo => {
                    self.waiting.retain(|member| map.is_up(member.osd));
                    if self.waiting.is_empty() {
                        self.enter(State::GetLog, now);
                    }
                }
                State::GetLog => self.choose(info, now, out),
                State::GetMissing => {
                    if !self.serves_alone() {
                        self.enter(State::Peered, now);
                    } else if map.up_thru(self.whoami.osd) < info.history.same_interval_since {
                        out.push(PeerOut::UpThru(info.history.same_interval_since));
                        self.enter(State::WaitUpThru, now);
                    } else {
                        self.activate(info, now, out);
                    }
                }
                State::WaitUpThru if map.up_thru(self.whoami.osd) >= info.history.same_interval_since => self.activate(info, now, out),
                _ => {}
            }
            if self.state == before {
                return;
            }
        }
    }

    /// Asks those who may have written since the group was last active.
    fn ask_prior(&mut self, info: &PgInfo, map: &dyn OsdView, now: Stamp, out: &mut Vec<PeerOut>) {
        self.blocked_by.clear();
        let mut probe: BTreeSet<PgShard> = self.mapping.acting.iter().chain(&self.mapping.up).map(|osd| self.member(*osd)).collect();
        let mut down = false;
        for interval in self.past.may_be_rw_back_to(info.history.last_epoch_started) {
            let (mut any_up, mut gone) = (false, Vec::new());
            for member in &interval.acting {
                if *member == self.whoami || map.is_up(member.osd) {
                    any_up = true;
                    probe.insert(*member);
                } else if map.exists(member.osd) && map.lost_at(member.osd) <= interval.first {
                    gone.push(*member);
                }
            }
            // If none of them can be asked, writes of that interval may be lost.
            if !any_up && !gone.is_empty() {
                down = true;
                self.blocked_by.extend(gone);
            }
        }
        if down {
            if self.state != State::Down {
                self.enter(State::Down, now);
            }
            return;
        }
        // Members of the acting set that were never written to need no asking until replication is here: only who may know more.
        let known = &self.past.all_participants;
        probe.retain(|member| *member != self.whoami && map.is_up(member.osd) && known.contains(member));
        out.extend(probe.iter().map(|member| PeerOut::Query(*member)));
        self.waiting = probe;
        self.enter(State::GetInfo, now);
    }

    /// Whose log goes on: the highest last_epoch_started, then the newest update, then ours.
    fn choose(&mut self, info: &PgInfo, now: Stamp, out: &mut Vec<PeerOut>) {
        let started = self.peer_info.values().map(|i| i.history.last_epoch_started.max(i.last_epoch_started)).max().unwrap_or(0);
        let started = started.max(info.history.last_epoch_started);
        let candidates = self.peer_info.iter().map(|(member, i)| (i.last_epoch_started >= started, i.last_update, *member));
        let ours = (info.last_epoch_started >= started, info.last_update, self.whoami);
        let best = candidates.fold(ours, |best, c| if (c.0, c.1) > (best.0, best.1) { c } else { best });
        if best.2 == self.whoami || best.1.version == 0 {
            return self.enter(State::GetMissing, now);
        }
        // Another has what we lack. Until we can fetch it, that one has to serve.
        if self.asked_pg_temp != [best.2.osd] {
            self.asked_pg_temp = vec![best.2.osd];
            out.push(PeerOut::PgTemp(self.asked_pg_temp.clone()));
        }
    }

    fn activate(&mut self, info: &mut PgInfo, now: Stamp, out: &mut Vec<PeerOut>) {
        if self.mapping.acting.len() >= self.mapping.min_size as usize {
            info.last_epoch_started = self.mapping.epoch;
            info.last_interval_started = info.history.same_interval_since;
        }
        self.enter(State::Activating, now);
        out.push(PeerOut::Activate);
    }

    /// The activation is durable. False if that is no news.
    pub fn activated(&mut self, info: &mut PgInfo, now: Stamp) -> bool {
        if self.state != State::Activating {
            return false;
        }
        if self.mapping.acting.len() < self.mapping.min_size as usize {
            self.enter(State::Peered, now);
            return true;
        }
        self.enter(if self.pending_merge().is_some() { State::Peered } else { State::Active }, now);
        self.creating = false;
        info.history.last_epoch_started = info.last_epoch_started;
        info.history.last_interval_started = info.last_interval_started;
        if self.mapping.acting.len() == self.mapping.size as usize {
            info.history.last_epoch_clean = self.mapping.epoch;
            info.history.last_interval_clean = info.history.same_interval_since;
            self.past.clear();
        }
        true
    }

    /// What it waits for from the monitor.
    pub fn asks(&self) -> Option<PeerOut> {
        match self.state {
            State::WaitUpThru => Some(PeerOut::UpThru(self.last_peering_reset)),
            State::GetLog if !self.asked_pg_temp.is_empty() => Some(PeerOut::PgTemp(self.asked_pg_temp.clone())),
            _ => None,
        }
    }

    /// Another member says what it has of the group.
    pub fn heard(&mut self, from: PgShard, theirs: PgInfo, info: &mut PgInfo, now: Stamp) {
        info.history.merge(&theirs.history);
        self.waiting.remove(&from);
        if !theirs.dne() {
            self.peer_info.insert(from, theirs);
        }
        // A stray that turned up late may know more.
        if matches!(self.state, State::GetMissing | State::WaitUpThru) {
            self.enter(State::GetLog, now);
        }
    }
}

/// The parent of a group: the seed without its highest bit.
pub fn parent_seed(seed: u32) -> u32 {
    assert!(seed > 0, "the first group has no parent");
    seed & !(1 << (31 - seed.leading_zeros()))
}

/// The groups that a group splits into when pg_num grows, itself not among them.
pub fn children(seed: u32, old: u32, new: u32) -> Vec<u32> {
    if seed >= old || new <= old {
        return Vec::new();
    }
    // A child's seed, folded by the old number, is its parent's.
    (old..new).filter(|s| types::hash::stable_mod(*s, old, types::hash::bins_mask(old)) == seed).collect()
}

fn splits(seed: u32, old: u32, new: u32) -> bool {
    old > 0 && new > old && seed < old && !children(seed, old, new).is_empty()
}

/// True if the group is the source or the target of a merge when the number goes from `old` down to `new`.
fn merges(seed: u32, old: u32, new: u32) -> bool {
    if new == 0 || new >= old {
        return false;
    }
    (seed >= new && seed < old) || (seed < new && !children(seed, new, old).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{EVersion, PgId};

    struct Map {
        up: Vec<OsdId>,
        up_thru: Epoch,
    }
    impl OsdView for Map {
        fn is_up(&self, osd: OsdId) -> bool {
            self.up.contains(&osd)
        }
        fn exists(&self, _: OsdId) -> bool {
            true
        }
        fn up_thru(&self, _: OsdId) -> Epoch {
            self.up_thru
        }
        fn up_from(&self, _: OsdId) -> Epoch {
            1
        }
        fn lost_at(&self, _: OsdId) -> Epoch {
            0
        }
    }
    fn mapping(epoch: Epoch, acting: &[OsdId]) -> Mapping {
        let primary = acting.first().copied().unwrap_or(-1);
        Mapping {
            epoch,
            up: acting.into(),
            acting: acting.into(),
            up_primary: primary,
            acting_primary: primary,
            size: 1,
            min_size: 1,
            pg_num: 8,
            pg_num_pending: 8,
        }
    }
    fn fresh(whoami: OsdId, epoch: Epoch) -> (Peering, PgInfo) {
        let pgid = SpgId::whole(PgId::new(1, 3));
        let mut info = PgInfo::new(pgid);
        info.history = types::PgHistory::created(epoch, types::UTime::ZERO);
        (Peering::new(pgid, whoami, mapping(epoch, &[0]), PastIntervals::default(), true, Stamp(0)), info)
    }

    #[test]
    fn a_new_group_of_one_gets_active_once_up_thru_shows() {
        let (mut p, mut info) = fresh(0, 10);
        let (mut map, mut out) = (Map { up: vec![0], up_thru: 5 }, Vec::new());
        p.step(&mut info, &map, Stamp(1), &mut out);
        assert_eq!((p.state(), out.as_slice()), (State::WaitUpThru, &[PeerOut::UpThru(10)][..]));
        map.up_thru = 10;
        p.keep_interval(mapping(11, &[0]));
        p.step(&mut info, &map, Stamp(2), &mut out);
        assert_eq!(out[1], PeerOut::Activate);
        p.activated(&mut info, Stamp(3));
        assert!(p.is_clean() && p.bits() == pg_state::ACTIVE | pg_state::CLEAN);
        assert_eq!(info.history.last_epoch_clean, 11);
    }

    #[test]
    fn the_old_member_is_asked_and_serves_on() {
        let (mut p, mut info) = fresh(1, 10);
        p.keep_interval(mapping(10, &[0]));
        let map = Map { up: vec![0, 1], up_thru: 10 };
        p.start_interval(&mut info, mapping(20, &[1]), &map, Stamp(0));
        let mut out = Vec::new();
        p.step(&mut info, &map, Stamp(1), &mut out);
        assert_eq!((p.state(), out.as_slice()), (State::GetInfo, &[PeerOut::Query(PgShard::whole(0))][..]));
        let mut theirs = info.clone();
        theirs.last_update = EVersion::new(12, 7);
        theirs.last_epoch_started = 12;
        p.heard(PgShard::whole(0), theirs, &mut info, Stamp(1));
        p.step(&mut info, &map, Stamp(2), &mut out);
        assert_eq!(out[1], PeerOut::PgTemp(vec![0]));
        assert!(!p.is_active());
        // With nobody of that interval there, nothing is served.
        p.start_interval(&mut info, mapping(21, &[1]), &map, Stamp(3));
        p.step(&mut info, &Map { up: vec![1], up_thru: 30 }, Stamp(4), &mut out);
        assert_eq!(p.state(), State::Down);
    }

    #[test]
    fn a_group_that_is_to_be_merged_gets_quiet_and_clean() {
        for (seed, pending, role) in [(7, 7, Some(MergeRole::Source)), (3, 7, Some(MergeRole::Target)), (2, 7, None), (3, 8, None)] {
            let pgid = SpgId::whole(PgId::new(1, seed));
            let mut info = PgInfo::new(pgid);
            info.history = types::PgHistory::created(10, types::UTime::ZERO);
            let at = Mapping { pg_num_pending: pending, ..mapping(20, &[0]) };
            let mut p = Peering::new(pgid, 0, mapping(10, &[0]), PastIntervals::default(), false, Stamp(0));
            assert_eq!(p.is_new_interval(&at), role.is_some());
            let map = Map { up: vec![0], up_thru: 30 };
            p.start_interval(&mut info, at, &map, Stamp(0));
            p.step(&mut info, &map, Stamp(1), &mut Vec::new());
            p.activated(&mut info, Stamp(2));
            assert_eq!((p.pending_merge(), p.is_premerge(), p.is_active()), (role, role.is_some(), role.is_none()));
            assert!(p.is_clean() && info.history.last_epoch_clean == 20);
        }
    }

    #[test]
    fn children_of_a_split() {
        assert_eq!(children(0, 4, 8), vec![4]);
        assert_eq!(children(1, 1, 4), Vec::<u32>::new());
        assert_eq!(children(0, 1, 4), vec![1, 2, 3]);
        assert_eq!(children(2, 6, 8), vec![6]);
        assert_eq!(children(2, 3, 8), vec![6]);
        assert_eq!(parent_seed(6), 2);
    }
}
