//! The end of a metadata server's time: what it could still write is kept from the OSDs before its rank goes to another.

use super::planted::{Bug, planted};
use crate::Mon;
use base::Clock;
use maps::{MdsGid, MdsState};
use types::{AddrType, EntityAddrVec, Epoch, UTime};

impl Mon {
    /// Forgets a daemon; one that holds a rank is fenced.
    pub(crate) fn fail_mds(&mut self, gid: MdsGid, clock: Clock) {
        let Some(info) = self.fs.view().daemon(gid).cloned() else { return };
        let holds = info.rank >= 0 && info.state != MdsState::STANDBY_REPLAY;
        let fenced_at = if holds { self.fence_mds(&info.addrs, clock) } else { 0 };
        self.fs.pending().erase(gid, fenced_at);
    }

    /// Marks the rank that a daemon holds or follows as damaged; its holder is fenced, its follower goes too.
    pub(super) fn damage_rank_of(&mut self, gid: MdsGid, clock: Clock) {
        let map = self.fs.view();
        let Some((fs, info)) = map.filesystem_of(gid).zip(map.daemon(gid)) else { return };
        let (fscid, rank) = (fs.fscid, info.rank);
        let (holder, follower) = (fs.mds.holder(rank).cloned(), fs.mds.follower(rank).map(|i| i.gid));
        if let Some(follower) = follower {
            self.fail_mds(follower, clock);
        }
        match holder {
            Some(holder) => {
                let fenced_at = self.fence_mds(&holder.addrs, clock);
                self.fs.pending().damaged(holder.gid, fenced_at);
            }
            None => {
                self.fs.pending().modify(fscid, |fs| {
                    fs.mds.failed.remove(&rank);
                    fs.mds.damaged.insert(rank);
                });
            }
        }
    }

    /// Puts a daemon's addresses on the blocklist. The osdmap epoch in which they stand there.
    fn fence_mds(&mut self, addrs: &EntityAddrVec, clock: Clock) -> Epoch {
        let seconds = self.config.mon_number("mon_mds_blocklist_interval").max(1.0);
        if planted(Bug::DontFence) {
            return self.osd.epoch();
        }
        let until = UTime::from_wall_ns(clock.wall_ns.saturating_add((seconds * 1e9) as u64));
        let inc = self.osd.pending();
        for addr in &addrs.0 {
            inc.new_blocklist.insert(addr.with_kind(AddrType::ANY), until);
        }
        if planted(Bug::NameNoEpoch) { 0 } else { self.osd.epoch() + 1 }
    }
}
