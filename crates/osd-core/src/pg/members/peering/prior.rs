//! Which members are asked what they have: those that serve now, and those that may have written since the group was last active.

use super::{OsdView, PeerOut, Peering, State};
use crate::planted::{Bug, planted};
use base::Stamp;
use std::collections::BTreeSet;
use types::{PgInfo, PgShard};

/// The prior set.
struct Prior {
    /// Up, and to be asked.
    probe: BTreeSet<PgShard>,
    /// Not up, and of a past interval that may have written and of which no member can be asked.
    blocked_by: BTreeSet<PgShard>,
}

impl Peering {
    fn prior(&self, info: &PgInfo, map: &dyn OsdView) -> Prior {
        let mut probe: BTreeSet<PgShard> = self.acting().chain(self.up()).collect();
        let mut blocked_by = BTreeSet::new();
        for interval in self.past.may_be_rw_back_to(info.history.last_epoch_started).filter(|_| !planted(Bug::ForgetPast)) {
            let (mut there, mut gone) = (Vec::new(), Vec::new());
            for member in &interval.acting {
                if *member == self.whoami || map.is_up(member.osd) {
                    there.push(*member);
                } else if map.exists(member.osd) && map.lost_at(member.osd) <= interval.first {
                    gone.push(*member);
                }
            }
            // If those that can be asked have no whole object among them, writes of that interval may be lost.
            if !self.layout.is_recoverable(there.iter().copied()) && !planted(Bug::IgnoreDown) {
                blocked_by.extend(gone);
            }
            probe.extend(there);
        }
        probe.retain(|member| *member != self.whoami && map.is_up(member.osd));
        Prior { probe, blocked_by }
    }

    /// Asks all members that there are; when every answer is in, goes on. An answer may tell that the group was active later than we knew: then fewer
    /// have to be asked.
    pub(super) fn ask(&mut self, info: &PgInfo, map: &dyn OsdView, now: Stamp, out: &mut Vec<PeerOut>) {
        let prior = self.prior(info, map);
        let mut waits = false;
        for member in prior.probe {
            let up_from = map.up_from(member.osd);
            if self.asked.insert(member, up_from) != Some(up_from) {
                self.peers.remove(&member);
                out.push(PeerOut::Query(member));
            }
            waits |= !self.peers.contains_key(&member);
        }
        self.blocked_by = prior.blocked_by;
        if !waits {
            self.enter(if self.blocked_by.is_empty() { State::GetLog } else { State::Down }, now);
        }
    }

    /// True if a group that is down may be so no longer.
    pub(super) fn may_go_on(&self, info: &PgInfo, map: &dyn OsdView) -> bool {
        let prior = self.prior(info, map);
        prior.blocked_by != self.blocked_by || prior.probe.iter().any(|m| self.asked.get(m) != Some(&map.up_from(m.osd)))
    }
}
