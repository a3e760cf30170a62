//! Peering: how a placement group finds out, after each change of its members, which member has what, before it serves again.
//!
//! ```text
//!            map changes the members                  every answer is in      the members are chosen
//!  (any) ───────────────────────────▶ Reset ──▶ GetInfo ───────────────▶ GetLog ───────────────▶ GetMissing
//!                                       │        ▲  │                       │ │                      │ up_thru not yet ours
//!                                       │        │  ▼                       │ └▶ Incomplete          ▼
//!                                       │        Down              (ask for pg_temp)             WaitUpThru
//!                                       ▼                                                            │ the map shows it
//!                                     Stray ──▶ ReplicaActive                                        │
//!          Active ◀── the activation is durable everywhere, min_size is there ── Activating ◀────────┘
//!          Peered ◀── the same, but too few members, or the group is about to be merged
//! ```
//!
//! Holds the states and the rules by which they follow each other; all of it moves through [`Peering::enter`]. The rooms beside it: where a map
//! puts the group in [`mapping`], which members are asked in [`prior`], which ones serve in [`choose`], how it becomes active in [`activate`], what
//! members lack in [`lacking`], and which former members may have what no member has in [`former`].
//! Holds no message: what it wants sent comes out as [`PeerOut`]; the group sends it in `pg::members`.

mod activate;
mod choose;
mod former;
mod lacking;
mod mapping;
mod prior;

pub use former::Former;
pub use lacking::{Copies, Lacking};
pub use mapping::{Mapping, MergeRole, children, parent_seed};

use crate::pg::backend::in_flight::Members;
use crate::pg::backend::layout::Layout;
use crate::pg::reconcile::member::{Bring, Member};
use crate::pg::record::Record;
use crate::planted::{Bug, planted};
use base::Stamp;
use mapping::splits;
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, Epoch, OsdId, PastIntervals, PgInfo, PgShard, SpgId, pg_state};

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
    /// Members of a past interval that may have written are gone, and none of them can be asked.
    Down,
    /// No member that can be asked has a log that goes on.
    Incomplete,
    /// Not the primary, and not told by it to serve.
    Stray,
    /// A member that takes its primary's writes.
    ReplicaActive,
}

/// The edges of the picture above. [`State::Reset`] follows every state: a new interval begins.
pub const EDGES: [(State, State); 14] = {
    use State::*;
    [
        (Reset, GetInfo),
        (Reset, Stray),
        (GetInfo, Down),
        (Down, GetInfo),
        (GetInfo, GetLog),
        (GetLog, Incomplete),
        (GetLog, GetMissing),
        // Another member turned up late and may know more.
        (Incomplete, GetLog),
        (GetMissing, WaitUpThru),
        (GetMissing, Activating),
        (WaitUpThru, Activating),
        (Activating, Active),
        (Activating, Peered),
        (Stray, ReplicaActive),
    ]
};

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
    /// Ask that member for its missing objects and its log above a version; `None`: for all of its log.
    QueryLog(PgShard, Option<EVersion>),
    /// Tell that member, the primary, that we have some of the group.
    Notify(PgShard),
    /// Ask the monitor to let these serve instead; empty: let go of what was asked before.
    PgTemp(Vec<OsdId>),
    /// Tell the monitor that we are to be active in this epoch.
    UpThru(Epoch),
    /// Activate the members, and persist our own info; [`Peering::activated`] for each when that is durable there.
    Activate,
}

/// What the primary knows of another member.
#[derive(Debug, Clone)]
pub struct Peer {
    /// As it said, or as it will be once it has done what it was sent.
    pub member: Member,
    /// What it misses is known.
    is_judged: bool,
    /// Everything up to here is durable there.
    pub complete_on_disk: EVersion,
    /// What it was sent to start the interval.
    pub brought: Option<Bring>,
}

impl Peer {
    fn new(info: PgInfo) -> Self {
        Self { complete_on_disk: info.last_complete, member: Member::unasked(info), is_judged: false, brought: None }
    }
    fn judged(member: Member) -> Self {
        Self { complete_on_disk: member.info.last_complete, member, is_judged: true, brought: None }
    }
}

/// Peering of one group on one OSD.
#[derive(Debug)]
pub struct Peering {
    pub pgid: SpgId,
    layout: Layout,
    whoami: PgShard,
    state: State,
    pub mapping: Mapping,
    /// Answers to messages of before this epoch don't count any more.
    pub last_peering_reset: Epoch,
    pub past: PastIntervals,
    /// Members that were asked for their infos, and since when each was up then: what an OSD said before it was started again means nothing.
    asked: BTreeMap<PgShard, Epoch>,
    /// What others have, as they said.
    peers: BTreeMap<PgShard, Peer>,
    /// Former members that were told to let go of the group in this interval, and since when each was up then. A stock OSD that is told twice
    /// ends by an assertion, and a former member says what it has with each map.
    let_go: BTreeMap<PgShard, Epoch>,
    /// The members that each write goes to, ourselves among them (stock's acting_recovery_backfill): chosen when every info is here.
    members: Members,
    /// Those of them that are being filled: no log reaches back to what they have.
    targets: BTreeSet<PgShard>,
    /// Members that were asked for their logs, whose answers are not here.
    asked_logs: BTreeSet<PgShard>,
    /// The member whose log is to be merged into ours, and the epoch since which its OSD was up when it was asked.
    best: Option<(PgShard, Epoch)>,
    /// The part of our own log above this version is needed before the members can be activated.
    pub wants_log: Option<EVersion>,
    /// No member lacks an object, and none is being filled.
    is_recovered: bool,
    /// Members that have not activated yet.
    activating: BTreeSet<PgShard>,
    /// The map by which they were told to, the last time.
    told_by: Epoch,
    /// Members without which we may lose writes.
    pub blocked_by: BTreeSet<PgShard>,
    asked_pg_temp: Option<Vec<OsdId>>,
    /// A map came, and we have something of a group that is served elsewhere. Its primary may have taken the group later than we first told it what we
    /// have, and then it did not listen.
    tells_again: bool,
    creating: bool,
    /// States with the time they were entered, newest last; for `pg query` and for reading after the fact. The last dozen.
    pub history: Vec<(State, Stamp)>,
}

impl Peering {
    pub fn new(pgid: SpgId, layout: Layout, whoami: OsdId, mapping: Mapping, past: PastIntervals, creating: bool, now: Stamp) -> Self {
        Self {
            pgid,
            layout,
            whoami: PgShard::new(whoami, pgid.shard),
            state: State::Reset,
            last_peering_reset: mapping.epoch,
            mapping,
            past,
            asked: BTreeMap::new(),
            peers: BTreeMap::new(),
            let_go: BTreeMap::new(),
            members: Members::new(),
            targets: BTreeSet::new(),
            asked_logs: BTreeSet::new(),
            best: None,
            wants_log: None,
            is_recovered: false,
            activating: BTreeSet::new(),
            told_by: 0,
            blocked_by: BTreeSet::new(),
            asked_pg_temp: None,
            tells_again: false,
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
    /// The members that placement chose.
    pub fn up(&self) -> impl Iterator<Item = PgShard> {
        self.layout.members(&self.mapping.up)
    }
    /// The members that serve by the present map.
    pub fn acting(&self) -> impl Iterator<Item = PgShard> {
        self.layout.members(&self.mapping.acting)
    }
    /// The primary by the present map.
    pub fn primary(&self) -> PgShard {
        self.layout.member_of(self.mapping.acting_primary, &self.mapping.acting)
    }
    /// The member that an OSD is, of several the one that leads or serves.
    pub fn member_on(&self, osd: OsdId) -> PgShard {
        let mut known = std::iter::once(self.primary()).chain(self.members.iter().copied()).chain(self.acting()).chain(self.up());
        known.find(|member| member.osd == osd).unwrap_or(PgShard::new(osd, self.whoami.shard))
    }
    /// Members that each write goes to, ourselves among them. None before they are chosen.
    pub fn members(&self) -> &Members {
        &self.members
    }
    /// The same without us.
    pub fn others(&self) -> impl Iterator<Item = PgShard> {
        self.members.iter().copied().filter(|member| *member != self.whoami)
    }
    /// Members that are being filled: those that [`Peering::filled`] has not been said of.
    pub fn targets(&self) -> &BTreeSet<PgShard> {
        &self.targets
    }
    /// What others said of themselves in this interval.
    pub fn peers(&self) -> &BTreeMap<PgShard, Peer> {
        &self.peers
    }
    fn is_mapped(&self, member: PgShard) -> bool {
        self.up().chain(self.acting()).any(|mapped| mapped == member)
    }
    pub fn is_primary(&self) -> bool {
        self.primary() == self.whoami
    }
    /// Serves clients.
    pub fn is_active(&self) -> bool {
        self.state == State::Active
    }
    /// Won't serve until another map comes.
    pub fn is_stuck(&self) -> bool {
        matches!(self.state, State::Peered | State::Down | State::Incomplete)
    }
    /// No member lacks an object, and none is being filled.
    pub fn is_recovered(&self) -> bool {
        self.is_recovered
    }
    /// Every copy is where it belongs.
    pub fn is_clean(&self) -> bool {
        (self.is_active() || self.is_premerge()) && self.is_recovered && self.mapping.is_whole()
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
            State::Incomplete => INCOMPLETE | PEERING,
            State::Activating => ACTIVATING,
            State::Active => ACTIVE,
            State::Peered => PEERED,
            State::Stray | State::ReplicaActive => 0,
        };
        if self.creating && self.state != State::Active {
            bits |= CREATING;
        }
        // As many members as the pool wants have everything: so it is called, be they others than those that placement chose.
        let is_full = self.is_active() && self.is_recovered && self.mapping.serving() == self.mapping.size as usize;
        if is_full || self.is_clean() {
            bits |= CLEAN;
        }
        if self.is_premerge() {
            bits |= PREMERGE;
        }
        if matches!(self.state, State::Active | State::Peered | State::Activating) && self.mapping.serving() < self.mapping.size as usize {
            bits |= UNDERSIZED;
        }
        if self.mapping.up != self.mapping.acting {
            bits |= REMAPPED;
        }
        bits
    }

    /// True if what was sent by this map belongs to a former interval, and means nothing any more.
    pub fn is_old(&self, sent: Epoch) -> bool {
        sent < self.last_peering_reset && !planted(Bug::AcceptOldInterval)
    }
    /// True for a message of the primary of this interval, sent in it, to another member.
    pub fn is_of_primary(&self, from: PgShard, sent: Epoch) -> bool {
        !self.is_old(sent) && from == self.primary() && !self.is_primary()
    }
    /// True if `new` begins another interval.
    pub fn is_new_interval(&self, new: &Mapping) -> bool {
        self.mapping.begins_interval(self.pgid.pgid.seed, new)
    }

    /// Ends the interval that was and begins the one of `new`. `before` is the map that was in force.
    pub fn start_interval(&mut self, record: &mut Record, new: Mapping, before: &dyn OsdView, now: Stamp) {
        let old = std::mem::replace(&mut self.mapping, new);
        let (new, history) = (&self.mapping, record.history_mut());
        let first = history.same_interval_since;
        let skipped = old.epoch + 1..=new.epoch.saturating_sub(1);
        let has_gap = old.epoch > 0 && !skipped.is_empty();
        let last = if has_gap { old.epoch } else { new.epoch.saturating_sub(1) };
        if first > 0 && last >= first && last > self.past.last {
            let is_written = (before.up_thru(old.acting_primary) >= first && before.up_from(old.acting_primary) <= first)
                || (first..=last).contains(&history.last_epoch_clean);
            self.past.add(self.layout.has_places(), &old.interval(first, last, old.might_have_served(self.layout) && is_written));
        }
        // Maps that we missed are trimmed: the new interval may be older than the map in which we first see it, and its members may have written. Of what was
        // before it nothing has to be known, as maps stay until every group was clean.
        if has_gap && first > 0 && *skipped.end() > self.past.last {
            self.past.add(self.layout.has_places(), &new.interval(*skipped.start(), *skipped.end(), new.might_have_served(self.layout)));
        }
        history.same_interval_since = new.epoch;
        if splits(self.pgid.pgid.seed, old.pg_num, new.pg_num) {
            history.last_epoch_split = new.epoch;
        }
        if (old.up_primary, &old.up) != (new.up_primary, &new.up) {
            history.same_up_since = new.epoch;
        }
        if old.acting_primary != new.acting_primary {
            history.same_primary_since = new.epoch;
        }
        self.last_peering_reset = new.epoch;
        self.enter(State::Reset, now);
    }

    /// The map changed, the interval didn't.
    pub fn keep_interval(&mut self, new: Mapping) {
        self.mapping = new;
        self.tells_again = self.state == State::Stray;
    }

    /// The only way to another state.
    fn enter(&mut self, to: State, now: Stamp) {
        if to == State::Reset {
            self.asked.clear();
            self.peers.clear();
            self.let_go.clear();
            self.members.clear();
            self.targets.clear();
            self.asked_logs.clear();
            (self.best, self.wants_log, self.is_recovered) = (None, None, false);
            self.activating.clear();
            self.blocked_by.clear();
            self.asked_pg_temp = None;
        }
        let is_edge = to == State::Reset || EDGES.contains(&(self.state, to));
        assert!(is_edge, "{}: {:?} does not follow {:?}", self.pgid, to, self.state);
        self.state = to;
        if self.history.len() == 12 {
            self.history.remove(0);
        }
        self.history.push((to, now));
    }

    /// Goes as far as it can with what is known. `has_log`: what [`Peering::wants_log`] asked for is at hand.
    pub fn step(&mut self, record: &mut Record, has_log: bool, map: &dyn OsdView, now: Stamp, out: &mut Vec<PeerOut>) {
        loop {
            let (before, info) = (self.state, record.info());
            match before {
                State::Reset if self.is_primary() => self.enter(State::GetInfo, now),
                State::Reset => {
                    self.enter(State::Stray, now);
                    if self.mapping.acting_primary >= 0 && !info.dne() {
                        out.push(PeerOut::Notify(self.primary()));
                    }
                }
                State::Stray if std::mem::take(&mut self.tells_again) && self.mapping.acting_primary >= 0 && !info.dne() => {
                    out.push(PeerOut::Notify(self.primary()));
                }
                State::GetInfo => self.ask(info, map, now, out),
                // A member came back, or was given up: look again.
                State::Down if self.may_go_on(info, map) => self.enter(State::GetInfo, now),
                // What a member said counts while it is there.
                State::GetLog if self.peers.keys().any(|member| !map.is_up(member.osd)) => self.enter(State::Reset, now),
                State::GetLog => self.choose(info, map, now, out),
                State::GetMissing if !self.has_judged_all(info, out) => {}
                State::GetMissing if map.up_thru(self.whoami.osd) < info.history.same_interval_since && !planted(Bug::SkipUpThru) => {
                    out.push(PeerOut::UpThru(info.history.same_interval_since));
                    self.enter(State::WaitUpThru, now);
                }
                State::WaitUpThru if map.up_thru(self.whoami.osd) < info.history.same_interval_since => {}
                State::GetMissing | State::WaitUpThru => {
                    self.wants_log = if has_log { None } else { self.behind(info) };
                    if self.wants_log.is_none() {
                        self.activate(record, now, out);
                    }
                }
                _ => {}
            }
            if self.state == before {
                return;
            }
        }
    }

    /// What it waits for from the monitor.
    pub fn asks(&self) -> Option<PeerOut> {
        match self.state {
            State::WaitUpThru => Some(PeerOut::UpThru(self.last_peering_reset)),
            State::GetLog if self.best.is_none() => self.asked_pg_temp.clone().map(PeerOut::PgTemp),
            State::Active | State::Peered => self.asked_pg_temp.clone().map(PeerOut::PgTemp),
            _ => None,
        }
    }

    /// Another member says what it has of the group. What a member that is served writes said before it was chosen stays as it is.
    pub fn heard(&mut self, from: PgShard, theirs: PgInfo, record: &mut Record, now: Stamp) {
        record.history_mut().merge(&theirs.history);
        let is_before = matches!(self.state, State::Reset | State::GetInfo | State::GetLog | State::Down | State::Incomplete);
        let is_chosen = !is_before && self.members.contains(&from);
        if from == self.whoami || is_chosen {
            return;
        }
        // What it was asked before it was started again, it does not answer.
        self.asked_logs.remove(&from);
        self.peers.insert(from, Peer::new(theirs));
        // What turns up late may know more. Once a log is chosen it can't: members that may have written were all asked before.
        if self.state == State::Incomplete {
            self.enter(State::GetLog, now);
        }
    }

    /// Members of past intervals that still have the group and are needed no longer. Each is given once in an interval, and once more for each
    /// time that its OSD was started since.
    pub fn take_strays(&mut self, map: &dyn OsdView) -> Vec<PgShard> {
        let mut strays: Vec<PgShard> =
            self.peers.iter().filter(|(m, p)| !self.is_mapped(**m) && !p.member.info.dne()).map(|(m, _)| *m).collect();
        strays.iter().for_each(|member| drop(self.peers.remove(member)));
        strays.retain(|stray| {
            let up_from = map.up_from(stray.osd);
            self.let_go.insert(*stray, up_from) != Some(up_from)
        });
        strays
    }
}

#[cfg(test)]
mod tests;
