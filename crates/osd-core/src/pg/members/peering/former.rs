//! Former members: what no member has may still be with one of them. They are asked for their logs when an object is not found.
//!
//! What a former member says makes it a source of objects, not a member.

use super::{OsdView, Peering, State};
use types::PgShard;

/// What is known of a former member that may have what is not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Former {
    /// It said what it lacks.
    Told,
    Asked,
    /// Not asked.
    Silent,
    Down,
}

impl Former {
    /// It may yet say that it has what is not found. One that is down may never.
    pub fn may_have_more(self) -> bool {
        matches!(self, Self::Asked | Self::Silent | Self::Down)
    }
    /// As `list_unfound` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Told => "already probed",
            Self::Asked => "querying",
            Self::Silent => "not queried",
            Self::Down => "osd is down",
        }
    }
}

impl Peering {
    /// True while members may be asked for objects beside those that writes go to.
    pub(super) fn serves_members(&self) -> bool {
        matches!(self.state, State::Active | State::Peered)
    }
    /// Former members that were not asked yet for their logs: from now on they are.
    pub fn ask_former(&mut self, map: &dyn OsdView) -> Vec<PgShard> {
        if !self.serves_members() {
            return Vec::new();
        }
        let silent = self.former(map).into_iter().filter(|(_, state)| *state == Former::Silent);
        silent.map(|(member, _)| member).filter(|member| self.asked_logs.insert(*member)).collect()
    }
    /// Every OSD that served the group since it was clean, is no member now, and was not given up by an administrator.
    pub fn former(&self, map: &dyn OsdView) -> Vec<(PgShard, Former)> {
        let served = self.past.may_be_rw_back_to(0).flat_map(|interval| interval.acting.iter().copied());
        let mut former: Vec<PgShard> = served.chain(self.peers.keys().copied()).collect();
        former.retain(|member| *member != self.whoami && !self.members.contains(member) && map.exists(member.osd));
        former.retain(|member| map.lost_at(member.osd) <= map.up_from(member.osd));
        former.sort_unstable();
        former.dedup();
        let state = |member: &PgShard| match self.peers.get(member) {
            _ if !map.is_up(member.osd) => Former::Down,
            Some(peer) if peer.is_judged || peer.member.info.is_empty() => Former::Told,
            Some(_) if self.asked_logs.contains(member) => Former::Asked,
            _ => Former::Silent,
        };
        former.into_iter().map(|member| (member, state(&member))).collect()
    }
}
