//! What happens to daemons within a map of file systems: they come, get a rank, follow one, lose it, go.
//!
//! Each step keeps the map whole ([`FsMap::check`]) and marks what it changed with the map's epoch. Who is to get which rank when, and what has
//! to be fenced before, is the monitor's to decide.

use crate::fs_map::{Filesystem, FsMap};
use crate::mds_map::{FsId, MdsGid, MdsInfo, MdsMap, MdsRank, MdsState, NO_FS, NO_RANK, mds_flags};
use types::{CompatSet, Epoch, UTime};

impl Filesystem {
    /// True if its features may grow by a daemon that has more: no other daemon can be surprised by them.
    pub fn is_upgradeable(&self) -> bool {
        let (ranks, replay) = (self.mds.in_ranks.len(), self.mds.has(mds_flags::ALLOW_STANDBY_REPLAY));
        ranks == 0 || (!replay && (ranks == 1 || self.mds.up.is_empty()))
    }
    /// True if a daemon may serve it.
    fn fits(&self, compat: &CompatSet) -> bool {
        compat.writeable(&self.mds.compat) && (self.is_upgradeable() || self.mds.compat.writeable(compat))
    }
}

impl FsMap {
    pub fn by_name(&self, name: &str) -> Option<&Filesystem> {
        self.filesystems.values().find(|fs| fs.mds.fs_name == name)
    }
    /// A daemon, wherever it is.
    pub fn daemon(&self, gid: MdsGid) -> Option<&MdsInfo> {
        match *self.roles.get(&gid)? {
            NO_FS => self.standbys.get(&gid),
            fscid => self.filesystems.get(&fscid)?.mds.info.get(&gid),
        }
    }
    pub fn daemon_by_name(&self, name: &str) -> Option<&MdsInfo> {
        self.daemons().find(|i| i.name == name)
    }
    /// Standbys first, then those of each file system.
    pub fn daemons(&self) -> impl Iterator<Item = &MdsInfo> {
        self.standbys.values().chain(self.filesystems.values().flat_map(|fs| fs.mds.info.values()))
    }
    /// The file system that a daemon serves or follows.
    pub fn filesystem_of(&self, gid: MdsGid) -> Option<&Filesystem> {
        self.filesystems.get(self.roles.get(&gid)?)
    }
    pub fn uses_pool(&self, pool: i64) -> bool {
        self.filesystems.values().any(|fs| fs.mds.uses(pool))
    }

    /// Changes a file system; false if there is none of that number.
    pub fn modify(&mut self, fscid: FsId, change: impl FnOnce(&mut Filesystem)) -> bool {
        let Some(fs) = self.filesystems.get_mut(&fscid) else { return false };
        change(fs);
        fs.mds.epoch = self.epoch;
        true
    }
    /// Changes a daemon's entry; false if there is none of that number.
    pub fn modify_daemon(&mut self, gid: MdsGid, change: impl FnOnce(&mut MdsInfo)) -> bool {
        let Some(fscid) = self.roles.get(&gid) else { return false };
        if *fscid == NO_FS {
            change(self.standbys.get_mut(&gid).expect("a daemon without a file system stands by"));
            self.standby_epochs.insert(gid, self.epoch);
        } else {
            let fs = self.filesystems.get_mut(fscid).expect("a daemon's file system exists");
            change(fs.mds.info.get_mut(&gid).expect("a file system knows its daemons"));
            fs.mds.epoch = self.epoch;
        }
        true
    }

    /// Adds a file system without daemons; the first one is the one that clients get that don't name any.
    pub fn create(&mut self, name: &str, metadata_pool: i64, data_pool: i64, fscid: Option<FsId>, recover: bool, now: UTime) -> FsId {
        let fscid = fscid.unwrap_or(self.next_filesystem_id as FsId);
        self.next_filesystem_id = self.next_filesystem_id.max(fscid as u64) + u64::from(fscid as u64 >= self.next_filesystem_id);
        let mut mds = MdsMap {
            epoch: self.epoch,
            fs_name: name.into(),
            data_pools: vec![data_pool],
            metadata_pool,
            compat: self.default_compat.clone(),
            created: now,
            modified: now,
            enabled: true,
            ..MdsMap::default()
        };
        if recover {
            // Rank 0 is there and waits to be replayed, once daemons may join.
            mds.in_ranks.insert(0);
            mds.failed.insert(0);
            mds.flags |= mds_flags::NOT_JOINABLE;
        }
        self.filesystems.insert(fscid, Filesystem { fscid, mds, ..Filesystem::default() });
        if self.filesystems.len() == 1 {
            self.legacy_client_fscid = fscid;
        }
        fscid
    }
    /// Makes a file system anew on its pools: one rank, which has failed.
    pub fn reset(&mut self, fscid: FsId, now: UTime) {
        let Some(fs) = self.filesystems.get_mut(&fscid) else { return };
        let old = &fs.mds;
        let mut stopped = &old.in_ranks | &old.stopped;
        stopped.remove(&0);
        fs.mds = MdsMap {
            in_ranks: [0].into(),
            failed: [0].into(),
            stopped,
            inline_data_enabled: old.inline_data_enabled,
            data_pools: old.data_pools.clone(),
            metadata_pool: old.metadata_pool,
            cas_pool: old.cas_pool,
            fs_name: old.fs_name.clone(),
            compat: self.default_compat.clone(),
            created: now,
            modified: now,
            standby_count_wanted: old.standby_count_wanted,
            enabled: true,
            ..MdsMap::default()
        };
        fs.mirror = Default::default();
    }
    /// Removes a file system that no daemon serves.
    pub fn remove(&mut self, fscid: FsId) {
        self.filesystems.remove(&fscid);
        if self.legacy_client_fscid == fscid {
            self.legacy_client_fscid = NO_FS;
        }
        let joiners: Vec<MdsGid> = self.daemons().filter(|i| i.join_fscid == fscid).map(|i| i.gid).collect();
        for gid in joiners {
            self.modify_daemon(gid, |i| i.join_fscid = NO_FS);
        }
    }

    /// Gives two file systems, which no daemon serves, each other's numbers.
    pub fn swap_ids(&mut self, one: FsId, other: FsId) {
        let (Some(mut a), Some(mut b)) = (self.filesystems.remove(&one), self.filesystems.remove(&other)) else { return };
        (a.fscid, b.fscid) = (other, one);
        (a.mds.epoch, b.mds.epoch) = (self.epoch, self.epoch);
        self.filesystems.extend([(other, a), (one, b)]);
    }

    /// A daemon that came: it stands by.
    pub fn insert(&mut self, mut info: MdsInfo) {
        assert!(info.state == MdsState::STANDBY && info.rank == NO_RANK, "a daemon that comes has no rank");
        if info.compat.is_empty() {
            info.compat = CompatSet::mds_unsaid();
        }
        info.compat.add_inline();
        self.roles.insert(info.gid, NO_FS);
        self.standby_epochs.insert(info.gid, self.epoch);
        self.standbys.insert(info.gid, info);
    }
    /// Gives a rank to a standby, or to its follower.
    pub fn promote(&mut self, gid: MdsGid, fscid: FsId, rank: MdsRank) {
        let follows = self.roles.get(&gid).is_some_and(|fs| *fs != NO_FS);
        let fs = self.filesystems.get_mut(&fscid).expect("the file system exists");
        if follows {
            assert!(fs.mds.info.get(&gid).is_some_and(|i| i.state == MdsState::STANDBY_REPLAY && i.rank == rank), "it follows that rank");
        } else {
            let info = self.standbys.remove(&gid).expect("a daemon that is promoted stands by");
            self.standby_epochs.remove(&gid);
            fs.mds.info.insert(gid, info);
        }
        assert!(!fs.mds.up.contains_key(&rank), "the rank has no holder");
        let upgradeable = fs.is_upgradeable();
        let info = fs.mds.info.get_mut(&gid).expect("it was put there");
        if !fs.mds.compat.writeable(&info.compat) {
            assert!(upgradeable, "features grow only where that is safe");
            fs.mds.compat.merge(&info.compat);
        }
        info.state = if fs.mds.stopped.remove(&rank) {
            MdsState::STARTING
        } else if fs.mds.failed.remove(&rank) {
            MdsState::REPLAY
        } else {
            MdsState::CREATING
        };
        (info.rank, info.inc) = (rank, self.epoch as i32);
        fs.mds.in_ranks.insert(rank);
        fs.mds.up.insert(rank, gid);
        fs.mds.epoch = self.epoch;
        self.roles.insert(gid, fscid);
    }
    /// Lets a standby follow the journal of a rank.
    pub fn follow(&mut self, gid: MdsGid, fscid: FsId, rank: MdsRank) {
        let mut info = self.standbys.remove(&gid).expect("a daemon that is to follow stands by");
        self.standby_epochs.remove(&gid);
        (info.rank, info.state) = (rank, MdsState::STANDBY_REPLAY);
        self.modify(fscid, |fs| drop(fs.mds.info.insert(gid, info)));
        self.roles.insert(gid, fscid);
    }
    /// Forgets a daemon. Its rank has failed, or never was if it was still being made. `fenced_at`: the osdmap epoch that fences it.
    pub fn erase(&mut self, gid: MdsGid, fenced_at: Epoch) {
        let Some(fscid) = self.roles.remove(&gid) else { return };
        if fscid == NO_FS {
            self.standbys.remove(&gid);
            self.standby_epochs.remove(&gid);
            return;
        }
        self.modify(fscid, |fs| {
            let info = fs.mds.info.remove(&gid).expect("a file system knows its daemons");
            if info.state != MdsState::STANDBY_REPLAY {
                if info.state == MdsState::CREATING {
                    fs.mds.in_ranks.remove(&info.rank);
                } else {
                    fs.mds.failed.insert(info.rank);
                }
                fs.mds.up.remove(&info.rank);
            }
            fs.mds.last_failure_osd_epoch = fenced_at;
        });
    }
    /// Forgets the holder of a rank that can't be served any more before it is repaired.
    pub fn damaged(&mut self, gid: MdsGid, fenced_at: Epoch) {
        let Some((fscid, rank)) = self.filesystem_of(gid).map(|fs| (fs.fscid, fs.mds.info[&gid].rank)) else { return };
        self.erase(gid, fenced_at);
        self.modify(fscid, |fs| {
            fs.mds.failed.remove(&rank);
            fs.mds.in_ranks.insert(rank);
            fs.mds.damaged.insert(rank);
        });
    }
    /// Marks a damaged rank as one that merely failed; false if it isn't damaged.
    pub fn repaired(&mut self, fscid: FsId, rank: MdsRank) -> bool {
        let Some(fs) = self.filesystems.get_mut(&fscid) else { return false };
        if !fs.mds.damaged.remove(&rank) {
            return false;
        }
        fs.mds.failed.insert(rank);
        fs.mds.epoch = self.epoch;
        true
    }
    /// A rank that emptied itself: it is no more, its daemon and those that followed it are gone. All of those.
    pub fn stop(&mut self, gid: MdsGid) -> Vec<MdsGid> {
        let Some(fscid) = self.filesystem_of(gid).map(|fs| fs.fscid) else { return Vec::new() };
        let mut gone = Vec::new();
        self.modify(fscid, |fs| {
            let rank = fs.mds.info[&gid].rank;
            gone = fs.mds.info.values().filter(|i| i.rank == rank).map(|i| i.gid).collect();
            fs.mds.info.retain(|_, i| i.rank != rank);
            fs.mds.up.remove(&rank);
            fs.mds.in_ranks.remove(&rank);
            fs.mds.stopped.insert(rank);
        });
        self.roles.retain(|other, _| !gone.contains(other));
        gone
    }

    /// The standby that suits a file system best: one that wants to join it, then one without a wish, then one that wants another.
    pub fn available_standby(&self, fs: &Filesystem) -> Option<&MdsInfo> {
        let usable = self.standbys.values().filter(|i| !i.is_laggy() && !i.is_frozen() && fs.fits(&i.compat));
        let mut best: Option<&MdsInfo> = None;
        for info in usable {
            if info.join_fscid == fs.fscid {
                return Some(info);
            }
            let refuses = fs.mds.has(mds_flags::REFUSE_STANDBY_FOR_ANOTHER_FS);
            if info.join_fscid == NO_FS || (best.is_none() && !refuses) {
                best = Some(info);
            }
        }
        best
    }
    /// The daemon that would take over a rank: its follower, or else a standby. None if the follower is frozen.
    pub fn replacement_for<'a>(&'a self, fs: &'a Filesystem, rank: MdsRank) -> Option<&'a MdsInfo> {
        match fs.mds.follower(rank) {
            Some(follower) => (!follower.is_frozen()).then_some(follower),
            None => self.available_standby(fs),
        }
    }

    /// What stock monitors add when they read a map that was just made.
    pub fn settle(&mut self) {
        for fs in self.filesystems.values_mut() {
            fs.mds.compat.add_inline();
        }
    }

    /// Asserts that the map is whole: each daemon is in one place, each rank has one holder at most and is in one condition.
    pub fn check(&self) {
        assert!(self.legacy_client_fscid == NO_FS || self.filesystems.contains_key(&self.legacy_client_fscid), "the default exists");
        for (fscid, fs) in &self.filesystems {
            let mds = &fs.mds;
            assert_eq!(*fscid, fs.fscid, "a file system is kept by its number");
            for (gid, info) in &mds.info {
                assert!(
                    info.gid == *gid && info.rank != NO_RANK && self.roles.get(gid) == Some(fscid),
                    "a daemon of a file system has a rank"
                );
                assert!(!self.standbys.contains_key(gid), "and does not stand by");
                if info.state != MdsState::STANDBY_REPLAY {
                    assert_eq!(mds.up.get(&info.rank), Some(gid), "a rank has one holder");
                    assert!(!mds.failed.contains(&info.rank) && !mds.damaged.contains(&info.rank), "a rank that is held has not failed");
                }
                assert!(info.compat.writeable(&mds.compat), "a daemon may write its file system");
            }
            for (rank, gid) in &mds.up {
                assert!(mds.in_ranks.contains(rank) && mds.info.contains_key(gid), "a rank that is held exists, as does its holder");
            }
        }
        for (gid, info) in &self.standbys {
            assert!(info.gid == *gid && info.state == MdsState::STANDBY && info.rank == NO_RANK, "a standby has no rank");
            assert!(self.standby_epochs.contains_key(gid) && self.roles.get(gid) == Some(&NO_FS), "a standby is known as one");
        }
        assert_eq!(self.standbys.len(), self.standby_epochs.len(), "epochs are of standbys");
        for (gid, fscid) in &self.roles {
            let there = if *fscid == NO_FS {
                self.standbys.contains_key(gid)
            } else {
                self.filesystems.get(fscid).is_some_and(|fs| fs.mds.info.contains_key(gid))
            };
            assert!(there, "a role is some daemon's");
        }
    }
}
