//! Figures of groups and of the store, as a shard tells them to Control: plain values. Several shards' are to be summed.

use crate::perf::Perf;
use messages::Rest;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{EVersion, Epoch, OsdId, PgId, PgStat, StoreStatfs};

/// Control's questions to a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// OSDs that have a part in its groups.
    Members,
    /// Groups that it leads.
    Primaries,
    /// Groups that are quiet for a merge.
    Merges,
    /// How full its store is.
    Fullness,
    /// All that the manager is told; `pinged`: how many other OSDs are pinged.
    Report { pinged: usize },
    /// The oldest map that a group's record names: the group starts from there after a crash.
    OldestRecord,
}

/// A shard's answer.
pub(crate) enum Figures {
    Members(BTreeSet<OsdId>),
    Primaries(Primaries),
    Merges(Vec<Merge>),
    Fullness(StoreStatfs),
    Report(Counters, GroupStats),
    OldestRecord(Epoch),
}

impl Figures {
    /// True if they answer this question.
    pub fn answers(&self, question: Question) -> bool {
        match self {
            Self::Members(_) => question == Question::Members,
            Self::Primaries(_) => question == Question::Primaries,
            Self::Merges(_) => question == Question::Merges,
            Self::Fullness(_) => question == Question::Fullness,
            Self::Report(..) => matches!(question, Question::Report { .. }),
            Self::OldestRecord(_) => question == Question::OldestRecord,
        }
    }
}

/// Groups whose primary this OSD is.
pub(crate) struct Primaries {
    pub pgs: Vec<PgId>,
    pub min_last_epoch_clean: Option<Epoch>,
}

/// A group that is to be merged into another, and is quiet for that.
pub(crate) struct Merge {
    pub source: PgId,
    /// The map in which both groups were made quiet.
    pub quiet_since: Epoch,
    /// The versions of both, if they can be merged; otherwise they have to serve again first.
    pub ready: Option<Ready>,
}

/// Two groups that can be merged.
#[derive(Default)]
pub(crate) struct Ready {
    pub source_version: EVersion,
    pub target_version: EVersion,
    pub last_epoch_started: Epoch,
    pub last_epoch_clean: Epoch,
}

/// Requests that take too long.
#[derive(Clone, Copy, Default)]
pub(crate) struct Slow {
    pub count: u64,
    pub oldest: Duration,
}

/// Counters for the manager.
pub(crate) struct Counters {
    pub perf: Perf,
    /// Its queries' counts since the last report.
    pub queries: Rest,
    pub slow: Slow,
}

/// The state of groups and of the store.
pub(crate) struct GroupStats {
    pub statfs: StoreStatfs,
    pub num_pgs: usize,
    /// Of each whose primary this OSD is.
    pub pgs: BTreeMap<PgId, PgStat>,
    pub pools: BTreeMap<i64, StoreStatfs>,
    /// How long a change took to last, of late.
    pub commit_ns: u64,
    /// Damage, for people.
    pub damage: Vec<String>,
}
