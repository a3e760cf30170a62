//! How objects lie on members: what follows from that alone, as values.
//!
//! Each method is one `match` over the kinds, which are all there are. Holds no state of a group, no store and no message: callers bring
//! what there is.

use super::copies::acting;
use super::copies::compare::compare;
use super::copies::cut::{self, Chunk, CutStop};
use super::copies::rewind::{self, Rewound};
use super::copies::subset::{self, Neighbours};
#[cfg(test)]
use super::positions::Positions;
use crate::pg::reconcile::choose::{self, Best, Infos, Placement, Serving};
use crate::pg::reconcile::missing::Missing;
use crate::pg::work::scrub::found::{Comparing, Found};
use maps::PgPool;
use messages::{ObjectRecoveryInfo, ObjectRecoveryProgress, PullOp, PushOp};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use store::{ObjectStore, StoreError};
use types::{CollId, EVersion, HObject, NO_SHARD, ObjectInfo, OsdId, PgLogEntry, PgMissingItem, PgShard, ScrubMap, ScrubObject};

/// A place of up or acting without an OSD, as placement leaves it.
pub const HOLE: OsdId = 0x7fff_ffff;

/// How many members up or acting has.
pub fn there(osds: &[OsdId]) -> usize {
    osds.iter().filter(|osd| **osd != HOLE).count()
}

/// The kinds of back ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Every member has all of each object.
    #[default]
    Copies,
    /// For tests.
    #[cfg(test)]
    Positions(Positions),
}

impl Layout {
    /// A pool's. Groups of erasure-coded pools are not made here.
    pub fn of(_: &PgPool) -> Self {
        Self::Copies
    }

    /// The member that an OSD is at this place of up or acting.
    pub fn member(self, osd: OsdId, place: usize) -> PgShard {
        let shard = if self.has_places() { place as i8 } else { NO_SHARD };
        PgShard::new(osd, shard)
    }
    /// The members of up or acting. A place may have none.
    pub fn members(self, osds: &[OsdId]) -> impl Iterator<Item = PgShard> {
        let there = osds.iter().enumerate().filter(|(_, osd)| **osd != HOLE);
        there.map(move |(place, osd)| self.member(*osd, place))
    }
    /// The member that an OSD is in up or acting, the first one if it is several.
    pub fn member_of(self, osd: OsdId, osds: &[OsdId]) -> PgShard {
        self.member(osd, osds.iter().position(|other| *other == osd).unwrap_or_default())
    }
    /// True if the place in acting says which part of an object a member has.
    pub fn has_places(self) -> bool {
        match self {
            Self::Copies => false,
            #[cfg(test)]
            Self::Positions(_) => true,
        }
    }

    /// True if an object can be had from these members together, each of which has its part of it.
    pub fn is_recoverable(self, mut having: impl Iterator<Item = PgShard>) -> bool {
        match self {
            Self::Copies => having.next().is_some(),
            #[cfg(test)]
            Self::Positions(positions) => positions.has_enough(having),
        }
    }
    /// True if an object can be read here. `has_own`: our part of it is here.
    pub fn is_readable(self, has_own: bool) -> bool {
        match self {
            Self::Copies => has_own,
            #[cfg(test)]
            Self::Positions(_) => has_own,
        }
    }
    /// True if so many members could have served clients: an interval that is over is judged by it.
    pub fn might_have_served(self, members: usize, min_size: usize) -> bool {
        match self {
            Self::Copies => members > 0 && members >= min_size,
            #[cfg(test)]
            Self::Positions(positions) => members >= positions.k.max(min_size),
        }
    }

    /// Which member has the log that counts, see [`choose::find_best`].
    pub fn find_best(self, infos: &Infos, us: PgShard, among: Option<&BTreeSet<PgShard>>, ignore_heard: bool) -> Best {
        choose::find_best(infos, us, among, ignore_heard, |a, b| self.counts_by_end(a, b))
    }
    /// Chooses members to serve, where `best` has the log that counts. Every member of up and acting has an info.
    pub fn choose_acting(self, infos: &Infos, best: PgShard, place: &Placement<'_>) -> Serving {
        match self {
            Self::Copies => acting::choose_acting(infos, best, place),
            #[cfg(test)]
            Self::Positions(positions) => positions.choose_acting(infos, best, place),
        }
    }
    /// Of two logs of the last interval, by where they end: the greater one counts.
    fn counts_by_end(self, a: EVersion, b: EVersion) -> Ordering {
        match self {
            // Any log of the last interval has all that was acknowledged: the longest keeps most.
            Self::Copies => a.cmp(&b),
            #[cfg(test)]
            // Only that log has nothing that some member lacks.
            Self::Positions(_) => b.cmp(&a),
        }
    }
    /// Makes entries say how they are taken back.
    #[inline]
    pub fn seal(self, entries: &mut [PgLogEntry]) {
        match self {
            Self::Copies => entries.iter_mut().for_each(|entry| entry.mod_desc.can_local_rollback = false),
            #[cfg(test)]
            Self::Positions(_) => {}
        }
    }
    /// Up to where entries are not undone any more, once every member has the log up to `everywhere`; nothing if no entry ever is.
    #[inline]
    pub fn roll_forward(self, everywhere: EVersion) -> Option<EVersion> {
        match self {
            Self::Copies => {
                let _ = everywhere;
                None
            }
            #[cfg(test)]
            Self::Positions(_) => Some(everywhere),
        }
    }
    /// Takes divergent entries, oldest first, out of what is missing. `forward`: those up to here can't be undone in place.
    pub fn take_back<'a>(
        self,
        entries: impl IntoIterator<Item = &'a PgLogEntry>,
        forward: EVersion,
        last_backfill: &HObject,
        missing: &mut Missing,
    ) -> Rewound {
        match self {
            Self::Copies => {
                // No entry of copies says how it is undone, whatever its log says.
                let _ = forward;
                rewind::rewind(entries, last_backfill, missing)
            }
            #[cfg(test)]
            Self::Positions(positions) => positions.take_back(entries, forward, last_backfill, missing),
        }
    }
    /// Puts these objects back as they were before divergent entries, by what the entries say.
    pub fn undo(self, objects: &BTreeSet<HObject>) {
        match self {
            Self::Copies => assert!(objects.is_empty(), "no entry of copies can be undone in place"),
            #[cfg(test)]
            Self::Positions(_) => {}
        }
    }

    /// The members that recovery reads an object from, of those that have it; none if it can't be had of them. `spread` shares objects out
    /// among members.
    pub fn sources(self, having: &[PgShard], spread: u32) -> BTreeSet<PgShard> {
        match self {
            Self::Copies if having.is_empty() => BTreeSet::new(),
            Self::Copies => [having[spread as usize % having.len()]].into(),
            #[cfg(test)]
            Self::Positions(positions) => positions.sources(having, spread),
        }
    }
    /// The part of an object that its sources' answers to one pull make together.
    ///
    /// # Errors
    /// They don't fit each other.
    pub fn join(self, answers: &BTreeMap<PgShard, PushOp>) -> Result<PushOp, String> {
        match self {
            Self::Copies => Ok(answers.values().next().expect("a source has answered").clone()),
            #[cfg(test)]
            Self::Positions(positions) => positions.join(answers),
        }
    }
    /// How an object that we lack is pulled. `near`: of a clone, whose head is here.
    pub fn pull(self, obj: &HObject, item: &PgMissingItem, near: Option<&Neighbours<'_>>) -> (ObjectRecoveryInfo, ObjectRecoveryProgress) {
        match self {
            Self::Copies => subset::pull_of(obj, item, near),
            #[cfg(test)]
            Self::Positions(_) => subset::pull_of(obj, item, near),
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
            #[cfg(test)]
            Self::Positions(_) => subset::push_of(info, item, near),
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
            #[cfg(test)]
            Self::Positions(_) => cut::cut(store, coll, info, from, chunk),
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
            #[cfg(test)]
            Self::Positions(_) => cut::answer_pull(store, coll, pull, chunk),
        }
    }

    /// Compares what members say of a range; the objects as the members that count have them are returned, too.
    pub fn compare(self, cx: &Comparing, maps: &BTreeMap<PgShard, ScrubMap>, found: &mut Found) -> BTreeMap<HObject, ScrubObject> {
        match self {
            Self::Copies => compare(cx, maps, found),
            #[cfg(test)]
            Self::Positions(_) => compare(cx, maps, found),
        }
    }
}
