//! Whose log goes on, and which members serve by it.
//!
//! A member whose log ends where that one does has all that it has; any other is left out for now: the monitor is asked for a pg_temp without it.

use super::{OsdView, PeerOut, Peering, State};
use base::Stamp;
use std::cmp::Reverse;
use types::{EVersion, OsdId, PgInfo, PgShard};

impl Peering {
    fn info_of<'a>(&'a self, member: PgShard, ours: &'a PgInfo) -> Option<&'a PgInfo> {
        if member == self.whoami { Some(ours) } else { self.peers.get(&member).map(|peer| &peer.info) }
    }

    /// The member with the log that goes on. What was acknowledged is in every log that the last active interval left, and in the shortest of them;
    /// of those that have as much the newest update counts, then the longer log, then ours. `None` if no log has as much.
    fn find_best(&self, ours: &PgInfo) -> Option<PgShard> {
        let all = || std::iter::once((self.whoami, ours)).chain(self.peers.iter().map(|(m, p)| (*m, &p.info)));
        let started = |i: &PgInfo| if i.is_incomplete() { 0 } else { i.last_epoch_started };
        let newest = all().map(|(_, i)| i.history.last_epoch_started.max(started(i))).max()?;
        let least: EVersion = all().filter(|(_, i)| started(i) >= newest).map(|(_, i)| i.last_update).min()?;
        let usable = all().filter(|(_, i)| !i.is_incomplete() && i.last_update >= least);
        usable.max_by_key(|(m, i)| (i.last_update, Reverse(i.log_tail), *m == self.whoami, Reverse(*m))).map(|(m, _)| m)
    }

    /// The OSDs that are to serve, the primary first: those that the map chose, then those that serve now, then others that have the group.
    fn wanted(&self, best: PgShard, ours: &PgInfo, map: &dyn OsdView) -> Vec<OsdId> {
        let head = self.info_of(best, ours).expect("it was chosen by its info").last_update;
        let has_all = |osd: OsdId| self.info_of(self.member(osd), ours).is_some_and(|i| i.last_update == head && !i.is_incomplete());
        let primary = if has_all(self.mapping.up_primary) { self.mapping.up_primary } else { best.osd };
        let mut wanted = vec![primary];
        for osd in &self.mapping.up {
            if !wanted.contains(osd) && has_all(*osd) {
                wanted.push(*osd);
            }
        }
        let strays = self.peers.iter().filter(|(m, p)| map.is_up(m.osd) && !p.info.dne()).map(|(m, _)| m.osd);
        for osd in self.mapping.acting.iter().copied().chain(strays) {
            if wanted.len() < self.mapping.size as usize && !wanted.contains(&osd) && has_all(osd) {
                wanted.push(osd);
            }
        }
        wanted
    }

    /// Chooses the members; the monitor is asked if the map has others.
    pub(super) fn choose(&mut self, info: &PgInfo, map: &dyn OsdView, now: Stamp, out: &mut Vec<PeerOut>) {
        let Some(best) = self.find_best(info) else { return self.enter(State::Incomplete, now) };
        let wanted = self.wanted(best, info, map);
        if wanted == self.mapping.acting {
            self.asked_pg_temp = None;
            self.members = wanted.iter().map(|osd| self.member(*osd)).collect();
            return self.enter(State::GetMissing, now);
        }
        let ask = if wanted == self.mapping.up { Vec::new() } else { wanted };
        if self.asked_pg_temp.as_ref() != Some(&ask) {
            self.asked_pg_temp = Some(ask.clone());
            out.push(PeerOut::PgTemp(ask));
        }
    }
}
