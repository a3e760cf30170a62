//! How a group becomes active: each member starts the interval, and says so when that is durable there.

use super::{Bring, PeerOut, Peering, State};
use crate::map_cache::FULLS_MAX;
use crate::pg::backend::layout::there;
use crate::pg::record::Record;
use base::Stamp;
use types::{EVersion, Epoch, PgShard};

/// Maps after which the word to start is said again. Every member keeps the maps of so many epochs and can place a word of any of them.
const AGAIN_AFTER: Epoch = FULLS_MAX as Epoch;

impl Peering {
    /// Starts the interval as its primary.
    pub(super) fn activate(&mut self, record: &mut Record, now: Stamp, out: &mut Vec<PeerOut>) {
        assert!(self.members.contains(&self.whoami), "{}: a primary is a member", self.pgid);
        self.start_serving(record, self.mapping.epoch);
        self.activating = self.members.iter().copied().collect();
        self.told_by = self.mapping.epoch;
        self.enter(State::Activating, now);
        out.push(PeerOut::Activate);
    }
    /// Starts the interval as a replica, at the primary's word: by the epoch at which that has started it.
    pub fn activate_replica(&mut self, record: &mut Record, started: Epoch, now: Stamp) {
        self.start_serving(record, started);
        self.enter(State::ReplicaActive, now);
    }
    /// The group was made in the midst of an interval that began with this map: messages of all of it count.
    pub fn follow_since(&mut self, since: Epoch) {
        self.last_peering_reset = self.last_peering_reset.min(since);
    }
    fn start_serving(&self, record: &mut Record, started: Epoch) {
        if self.mapping.may_serve() {
            record.start_interval(started);
        }
    }

    /// A member's activation is durable. True with the last of them: the group serves, or has too few members to.
    pub fn activated(&mut self, from: PgShard, record: &mut Record, now: Stamp) -> bool {
        if self.state != State::Activating || !self.activating.remove(&from) || !self.activating.is_empty() {
            return false;
        }
        if !self.mapping.may_serve() {
            self.enter(State::Peered, now);
            return true;
        }
        self.enter(if self.pending_merge().is_some() { State::Peered } else { State::Active }, now);
        self.creating = false;
        record.started_everywhere();
        true
    }
    /// No member lacks an object any more.
    pub fn recovered(&mut self, record: &mut Record) {
        self.is_recovered = true;
        if self.is_clean() {
            let history = record.history_mut();
            history.last_epoch_clean = self.mapping.epoch;
            history.last_interval_clean = history.same_interval_since;
            self.past.clear();
        }
    }
    /// The monitor's exception for the group is over where the members that placement wants have every object, or the one that is to lead has: it
    /// lets the rest follow by its log. True if the monitor is to be told so. Where placement finds too few members, others stand in for them; if none
    /// does, too few of them may serve by the exception, and enough without it.
    pub fn gives_back_pg_temp(&mut self) -> bool {
        let m = &self.mapping;
        let has = |member: PgShard| self.members.contains(&member);
        let may_lead = m.up_primary != m.acting_primary && has(self.layout.member_of(m.up_primary, &m.up));
        let all_have = m.up != m.acting && self.up().all(has);
        let none_stands_in = there(&m.up) >= m.size as usize || self.acting().all(|member| self.up().any(|up| up == member));
        let is_over = self.is_recovered && self.serves_members() && none_stands_in && (may_lead || all_have);
        if is_over {
            self.asked_pg_temp = Some(Vec::new());
        }
        is_over
    }
    /// Members whose activation the group waits for.
    pub fn activating(&self) -> impl Iterator<Item = PgShard> {
        self.activating.iter().copied()
    }

    /// Other members that have not activated, and what each was sent, if that was sent by a map that a member may not keep any more.
    pub fn told_by_older_map(&self) -> Vec<(PgShard, Bring)> {
        if self.state != State::Activating || self.mapping.epoch < self.told_by + AGAIN_AFTER {
            return Vec::new();
        }
        self.activating().filter_map(|member| Some((member, self.peers.get(&member)?.brought?))).collect()
    }
    /// They were told again.
    pub fn told_again(&mut self) {
        self.told_by = self.mapping.epoch;
    }

    /// A member has everything up to this version on disk.
    pub fn complete_on_disk(&mut self, from: PgShard, version: EVersion) {
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.complete_on_disk = peer.complete_on_disk.max(version);
        }
    }
    /// What every member has on disk, if we have `ours`.
    pub fn complete_everywhere(&self, ours: EVersion) -> EVersion {
        let of = |member: PgShard| self.peers.get(&member).map_or(EVersion::ZERO, |peer| peer.complete_on_disk);
        self.others().map(of).min().map_or(ours, |least| least.min(ours))
    }

    /// What the primary says of the group's past.
    pub fn take_history(&mut self, theirs: &types::PgHistory, record: &mut Record) {
        let history = record.history_mut();
        history.merge(theirs);
        if history.last_epoch_clean >= history.same_interval_since {
            self.past.clear();
        }
    }
}
