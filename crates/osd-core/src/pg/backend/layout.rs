//! How objects lie on members: what follows from that alone, as values.
//!
//! Each method is one `match` over the kinds, which are all there are. Holds no state of a group, no store and no message: callers bring
//! what there is.

use super::copies::compare::compare;
use super::copies::cut::{self, Chunk, CutStop};
use super::copies::rewind::{self, Rewound};
use super::copies::subset::{self, Neighbours};
use crate::pg::logs::missing::Missing;
use crate::pg::work::scrub::found::{Comparing, Found};
use maps::PgPool;
use messages::{ObjectRecoveryInfo, ObjectRecoveryProgress, PullOp, PushOp};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use store::{ObjectStore, StoreError};
use types::{CollId, EVersion, HObject, ObjectInfo, PgLogEntry, PgMissingItem, PgShard, ScrubMap, ScrubObject};

/// The kinds of back ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Every member has all of each object.
    #[default]
    Copies,
}

impl Layout {
    /// A pool's. Groups of erasure-coded pools are not made here.
    pub fn of(_: &PgPool) -> Self {
        Self::Copies
    }

    /// True if an object can be had from these members together, each of which has its part of it.
    pub fn is_recoverable(self, mut having: impl Iterator<Item = PgShard>) -> bool {
        match self {
            Self::Copies => having.next().is_some(),
        }
    }
    /// True if an object can be read here. `has_own`: our part of it is here.
    pub fn is_readable(self, has_own: bool) -> bool {
        match self {
            Self::Copies => has_own,
        }
    }
    /// True if so many members could have served clients: an interval that is over is judged by it.
    pub fn might_have_served(self, members: usize, min_size: usize) -> bool {
        match self {
            Self::Copies => members > 0 && members >= min_size,
        }
    }

    /// Of two logs of the last interval, by where they end: the greater one counts.
    pub fn counts_by_end(self, a: EVersion, b: EVersion) -> Ordering {
        match self {
            // Any log of the last interval has all that was acknowledged: the longest keeps most.
            Self::Copies => a.cmp(&b),
        }
    }
    /// Makes entries say how they are taken back.
    #[inline]
    pub fn seal(self, entries: &mut [PgLogEntry]) {
        match self {
            Self::Copies => entries.iter_mut().for_each(|entry| entry.mod_desc.can_local_rollback = false),
        }
    }
    /// Takes divergent entries, oldest first, out of what is missing.
    pub fn take_back<'a>(
        self,
        entries: impl IntoIterator<Item = &'a PgLogEntry>,
        last_backfill: &HObject,
        missing: &mut Missing,
    ) -> Rewound {
        match self {
            Self::Copies => rewind::rewind(entries, last_backfill, missing),
        }
    }

    /// The member that recovery reads an object from, of those that have it; none if it can't be had of them. `spread` shares objects out
    /// among members.
    pub fn source(self, having: &[PgShard], spread: u32) -> Option<PgShard> {
        match self {
            Self::Copies if having.is_empty() => None,
            Self::Copies => Some(having[spread as usize % having.len()]),
        }
    }
    /// How an object that we lack is pulled. `near`: of a clone, whose head is here.
    pub fn pull(self, obj: &HObject, item: &PgMissingItem, near: Option<&Neighbours<'_>>) -> (ObjectRecoveryInfo, ObjectRecoveryProgress) {
        match self {
            Self::Copies => subset::pull_of(obj, item, near),
        }
    }
    /// How an object that we have is pushed to a member that lacks it. `near`: `None` if the head, which knows the clones, is not here.
    pub fn push(
        self,
        info: &ObjectInfo,
        item: &PgMissingItem,
        near: Option<&Neighbours<'_>>,
    ) -> (ObjectRecoveryInfo, ObjectRecoveryProgress) {
        match self {
            Self::Copies => subset::push_of(info, item, near),
        }
    }
    /// The next push of an object, which is complete if [`PushOp::after_progress`] says so.
    pub fn cut(
        self,
        store: &dyn ObjectStore,
        coll: CollId,
        info: &ObjectRecoveryInfo,
        from: &ObjectRecoveryProgress,
        chunk: &Chunk,
    ) -> Result<PushOp, CutStop> {
        match self {
            Self::Copies => cut::cut(store, coll, info, from, chunk),
        }
    }
    /// The answer to a pull, see [`cut::answer_pull`].
    pub fn answer_pull(
        self,
        store: &dyn ObjectStore,
        coll: CollId,
        pull: &PullOp,
        chunk: &Chunk,
    ) -> Result<(PushOp, Option<CutStop>), StoreError> {
        match self {
            Self::Copies => cut::answer_pull(store, coll, pull, chunk),
        }
    }

    /// Compares what members say of a range; the objects as the members that count have them are returned, too.
    pub fn compare(self, cx: &Comparing, maps: &BTreeMap<PgShard, ScrubMap>, found: &mut Found) -> BTreeMap<HObject, ScrubObject> {
        match self {
            Self::Copies => compare(cx, maps, found),
        }
    }
}
