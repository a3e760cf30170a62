//! A replica as its primary sees it: what to ask it, what its log and its missing objects mean beside the log that counts, what to send it.
//!
//! The primary reckons what the replica will do by itself when it gets the log: take back its divergent entries, then take in what it lacks
//! (see [`super::merge`]). Holds no message and no state of peering.

use super::missing::Missing;
use super::{LogError, PeerLog, common_point};
use crate::pg::backend::layout::Layout;
use crate::pg::record::log::Log;
use crate::planted::{Bug, planted};
use std::collections::BTreeSet;
use types::{EVersion, HObject, ObjectStatCollection, PgInfo, PgLogEntry};

/// What the primary has to ask a replica before it knows what that misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// It has the same log and misses nothing, or it has nothing that counts: see [`Member::unasked`].
    Nothing,
    /// Its missing objects and its log from here on.
    Since(EVersion),
    /// Its missing objects and all of its log.
    Whole,
}

/// What to ask a replica with this info, when `ours` is the info of the merged log.
pub fn ask(ours: &PgInfo, theirs: &PgInfo) -> Ask {
    let same = theirs.last_update == ours.last_update && !theirs.has_missing();
    if theirs.is_empty() || theirs.last_update < ours.log_tail || theirs.last_backfill.is_min() || same {
        return Ask::Nothing;
    }
    // What diverges was most likely written since the replica was last active. It may be older, if the activation was not finished anywhere
    // else: then the part that comes is unanchored.
    let since = EVersion::new(theirs.last_epoch_started, 0);
    if theirs.log_tail <= since { Ask::Since(since) } else { Ask::Whole }
}

/// How a replica comes to the state that the group goes on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bring {
    /// The primary's info: the replica rewinds to it if it has more.
    Info,
    /// The primary's info and its log above this.
    Log(EVersion),
    /// Of its log the newest part, with an info that says that no object is there: a backfill begins.
    Backfill,
}

/// A replica whose log is, up to its `last_update`, part of the log that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub info: PgInfo,
    pub missing: Missing,
    /// Objects that it wrote in a history that does not count.
    pub(in crate::pg) rewound: BTreeSet<HObject>,
}

impl Member {
    /// A replica that [`ask`] has no question for; also the one whose log counts, which then gets its missing objects.
    pub fn unasked(info: PgInfo) -> Self {
        Self { info, missing: Missing::default(), rewound: BTreeSet::new() }
    }

    /// A replica that has told its info, its log (or the part that was asked for) and its missing objects, beside the log that counts. If the
    /// part is [`LogError::Unanchored`], [`Ask::Whole`] is asked.
    pub fn judge(layout: Layout, log: &Log, mut info: PgInfo, theirs: &PeerLog, mut missing: Missing) -> Result<Self, LogError> {
        if theirs.head() != info.last_update {
            return Err(LogError::Info { log: theirs.head(), info: info.last_update });
        }
        if theirs.head() < log.tail() {
            return Ok(Self { info, missing, rewound: BTreeSet::new() });
        }
        let tail = theirs.tail();
        if tail > log.tail() && tail != info.log_tail && log.last_up_to(tail) != Some(tail) {
            return Err(LogError::Unanchored(tail));
        }
        let common = common_point(log, theirs)?;
        let (kept, divergent) = theirs.entries().split_at(theirs.entries().partition_point(|e| e.version <= common));
        let mut rewound = BTreeSet::new();
        if !planted(Bug::TrustMissing) {
            rewound.extend(layout.take_back(divergent, theirs.can_rollback_to(), &info.last_backfill, &mut missing).touched);
        }
        if let Some(need) = missing.newest_need().filter(|need| *need > common && !planted(Bug::TrustMissing)) {
            return Err(LogError::Missing { need, head: common });
        }
        info.last_update = common;
        info.last_complete = match missing.oldest_need() {
            None => common,
            Some(need) => kept.iter().rev().map(|e| e.version).find(|v| *v < need).unwrap_or(EVersion::ZERO),
        };
        Ok(Self { info, missing, rewound })
    }

    /// What to send, when `ours` is the info of the log that counts. `backfills`: the replica was chosen to be backfilled.
    pub fn bring(&self, ours: &PgInfo, backfills: bool) -> Bring {
        let theirs = &self.info;
        if theirs.last_update == ours.last_update {
            return match theirs {
                // A group that is not there yet is made by a log, also by an empty one.
                _ if theirs.is_empty() => Bring::Log(theirs.last_update),
                // Groups that were merged unlike here end at the version of those elsewhere,
                // and don't know the requests of what they lack.
                _ if theirs.last_backfill.is_min() => Bring::Backfill,
                _ => Bring::Info,
            };
        }
        // A complete replica is backfilled if its log met ours only, not the one that counts.
        if theirs.last_update < ours.log_tail || theirs.last_backfill.is_min() || (backfills && !theirs.is_incomplete()) {
            Bring::Backfill
        } else {
            Bring::Log(theirs.last_update)
        }
    }

    /// The replica is sent these entries, all of the log that counts above its `last_update`.
    pub fn send_log<'a>(&mut self, entries: impl IntoIterator<Item = &'a PgLogEntry>, ours: &PgInfo) {
        for e in entries.into_iter().filter(|e| e.version > self.info.last_update && e.soid <= self.info.last_backfill) {
            self.missing.next_event(e);
            // A replica of another make removes what it wrote although it still has the version before: it is sent all of the object.
            if self.rewound.contains(&e.soid) {
                self.missing.forget_have(&e.soid);
            }
        }
        self.info.last_update = ours.last_update;
        if self.missing.is_empty() {
            self.info.last_complete = ours.last_update;
        }
    }

    /// The replica is sent the log above `log_tail` and begins a backfill: nothing that it has counts. Its info is what it is sent.
    pub fn send_backfill(&mut self, log_tail: EVersion, ours: &PgInfo) {
        let info = &mut self.info;
        (info.last_update, info.last_complete, info.log_tail) = (ours.last_update, ours.last_update, log_tail);
        info.last_backfill = HObject::min();
        (info.last_epoch_started, info.last_interval_started) = (ours.last_epoch_started, ours.last_interval_started);
        (info.history, info.hit_set) = (ours.history, ours.hit_set.clone());
        info.purged_snaps = ours.purged_snaps.clone();
        let bytes = info.stats.stats.sum.num_bytes.max(0);
        info.stats.stats = ObjectStatCollection::default();
        info.stats.stats.sum.num_bytes = bytes;
        (self.missing, self.rewound) = (Missing::default(), BTreeSet::new());
    }
}
