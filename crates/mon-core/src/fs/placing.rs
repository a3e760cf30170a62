//! Who serves what: ranks without a holder get one, file systems grow and shrink to the number of ranks that they shall have, followers are found.

use super::named;
use crate::Mon;
use base::Clock;
use maps::mds_map::{NO_FS, mds_flags};
use maps::{FsId, MdsGid, MdsState};
use messages::log_level;

impl Mon {
    /// Grows or shrinks each file system by a rank at most, and finds holders and followers for ranks.
    pub(super) fn place_mds(&mut self, clock: Clock) {
        let all: Vec<FsId> = self.fs.view().filesystems.keys().copied().collect();
        for fscid in &all {
            self.resize(*fscid, clock);
        }
        for fscid in all {
            self.take_over_failed(fscid, clock);
            self.find_followers(fscid);
        }
    }

    fn resize(&mut self, fscid: FsId, clock: Clock) {
        // What changes in this epoch must be seen before the next step.
        let settled = |fs: Option<&maps::Filesystem>| fs.is_some_and(|fs| fs.mds.is_resizeable());
        if !settled(self.fs.map.filesystems.get(&fscid)) || !settled(self.fs.view().filesystems.get(&fscid)) {
            return;
        }
        let map = self.fs.view();
        let fs = &map.filesystems[&fscid];
        let (mds, ranks) = (&fs.mds, fs.mds.in_ranks.len() as i64);
        if ranks < i64::from(mds.max_mds) && !mds.has(mds_flags::NOT_JOINABLE) {
            let rank = (0..).find(|rank| !mds.up.contains_key(rank) && !mds.failed.contains(rank)).expect("ranks are finite");
            let Some(info) = map.replacement_for(fs, rank).cloned() else { return };
            let (name, now) = (mds.fs_name.clone(), ranks + 1);
            let text = format!("{} assigned to filesystem {name} as rank {rank} (now has {now} ranks)", named(&info));
            self.say(clock, log_level::INFO, text);
            self.fs.pending().promote(info.gid, fscid, rank);
        } else if ranks > i64::from(mds.max_mds)
            && let Some(info) = mds.holder(ranks as i32 - 1).filter(|i| i.state == MdsState::ACTIVE).cloned()
        {
            self.say(clock, log_level::INFO, format!("stopping {}", named(&info)));
            self.fs.pending().modify_daemon(info.gid, |i| i.state = MdsState::STOPPING);
        }
    }

    fn take_over_failed(&mut self, fscid: FsId, clock: Clock) {
        let fs = &self.fs.view().filesystems[&fscid];
        if fs.mds.has(mds_flags::NOT_JOINABLE) {
            return;
        }
        for rank in fs.mds.failed.clone() {
            let map = self.fs.view();
            let fs = &map.filesystems[&fscid];
            let Some(info) = map.replacement_for(fs, rank).cloned() else { continue };
            let text = format!("Standby {} assigned to filesystem {} as rank {rank}", named(&info), fs.mds.fs_name);
            self.say(clock, log_level::INFO, text);
            self.fs.pending().promote(info.gid, fscid, rank);
        }
    }

    /// Lets standbys follow ranks, where that is wanted and nothing else is wrong.
    fn find_followers(&mut self, fscid: FsId) {
        loop {
            let map = self.fs.view();
            let fs = &map.filesystems[&fscid];
            let wanted = fs.mds.has(mds_flags::ALLOW_STANDBY_REPLAY) && !fs.mds.has(mds_flags::NOT_JOINABLE) && fs.mds.is_resizeable();
            let Some(standby) = map.available_standby(fs).filter(|_| wanted).map(|i| i.gid) else { return };
            let alone = |rank: &&i32| fs.mds.holder(**rank).is_some() && fs.mds.follower(**rank).is_none();
            let Some(rank) = fs.mds.in_ranks.iter().find(alone).copied() else { return };
            self.fs.pending().follow(standby, fscid, rank);
        }
    }

    /// Replaces one server of each file system that another would rather serve.
    pub(super) fn heed_affinity(&mut self, clock: Clock) {
        let all: Vec<FsId> = self.fs.view().filesystems.keys().copied().collect();
        for fscid in all {
            let Some((old, new)) = self.better_server(fscid) else { continue };
            let Some(info) = self.fs.view().daemon(old).cloned() else { continue };
            let text = format!("Dropping low affinity {} in favor of higher affinity standby", named(&info));
            self.say(clock, log_level::INFO, text);
            if info.state == MdsState::STANDBY_REPLAY {
                self.fail_mds(old, clock);
            } else {
                self.replace_mds(old, Some(new), clock);
            }
        }
    }
    /// A server of a file system, and the standby that wants to serve it more.
    fn better_server(&self, fscid: FsId) -> Option<(MdsGid, MdsGid)> {
        let map = self.fs.view();
        let fs = &map.filesystems[&fscid];
        if fs.mds.has(mds_flags::NOT_JOINABLE) || !fs.mds.is_resizeable() {
            return None;
        }
        fs.mds.info.values().filter(|i| i.join_fscid != fscid).find_map(|info| {
            let standby = match info.state {
                MdsState::STANDBY_REPLAY => map.available_standby(fs),
                _ => map.replacement_for(fs, info.rank),
            }?;
            let better = standby.join_fscid == fscid || (info.join_fscid != NO_FS && standby.join_fscid == NO_FS);
            better.then_some((info.gid, standby.gid))
        })
    }

    /// Ends a daemon, and gives its rank to another at once if there is one. A rank that no daemon could take keeps its holder.
    /// True if the daemon is gone.
    pub(super) fn replace_mds(&mut self, gid: MdsGid, by: Option<MdsGid>, clock: Clock) -> bool {
        let map = self.fs.view();
        let Some(info) = map.daemon(gid).filter(|i| !i.is_frozen()).cloned() else { return false };
        if matches!(info.state, MdsState::STANDBY | MdsState::STANDBY_REPLAY) {
            self.fail_mds(gid, clock);
            return true;
        }
        let Some((fscid, by)) = map
            .filesystem_of(gid)
            .filter(|fs| !fs.mds.has(mds_flags::NOT_JOINABLE))
            .map(|fs| fs.fscid)
            .zip(by.and_then(|by| map.daemon(by)))
        else {
            return false;
        };
        let (text, by) = (format!("Replacing {} as rank {} with standby {}", named(&info), info.rank, named(by)), by.gid);
        self.say(clock, log_level::WARN, text);
        self.fail_mds(gid, clock);
        self.fs.pending().promote(by, fscid, info.rank);
        true
    }
}
