//! For tests: n positions, each with a part of every object, of which any k make the whole. A part is as good as a copy here, so that stores need no
//! code; all else is as erasure codes have it.
//!
//! Absent: arithmetic, stripes, messages.

use crate::pg::backend::copies::rewind::{Rewound, rewind};
use crate::pg::backend::layout::HOLE;
use crate::pg::reconcile::choose::{Infos, Placement, Serving};
use crate::pg::reconcile::missing::Missing;
use messages::PushOp;
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, HObject, OsdId, PgLogEntry, PgShard};

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Positions {
    pub k: usize,
    pub n: usize,
}

impl Positions {
    /// True if these members have enough positions among them.
    pub fn has_enough(self, members: impl Iterator<Item = PgShard>) -> bool {
        members.map(|member| member.shard).collect::<BTreeSet<i8>>().len() >= self.k
    }
    /// So many positions as make the whole, each from one member; none if there are too few.
    pub fn sources(self, having: &[PgShard], spread: u32) -> BTreeSet<PgShard> {
        if !self.has_enough(having.iter().copied()) {
            return BTreeSet::new();
        }
        let mut by_position = BTreeMap::new();
        let first = spread as usize % having.len();
        for member in having[first..].iter().chain(&having[..first]) {
            by_position.entry(member.shard).or_insert(*member);
        }
        by_position.into_values().take(self.k).collect()
    }
    /// Each byte of a part is had from another position, in turn: answers of too few, or of several versions, make another object.
    pub fn join(self, answers: &BTreeMap<PgShard, PushOp>) -> Result<PushOp, String> {
        let all: Vec<&PushOp> = answers.values().collect();
        assert!(all.len() == self.k && self.has_enough(answers.keys().copied()), "{} positions make an object", self.k);
        let first = all[0];
        if let Some(other) = all.iter().find(|push| push.data.len() != first.data.len() || push.after_progress != first.after_progress) {
            return Err(format!("parts of {} and {} bytes", first.data.len(), other.data.len()));
        }
        let data: Vec<u8> = (0..first.data.len()).map(|at| all[at % self.k].data[at]).collect();
        Ok(PushOp { data: data.into(), ..first.clone() })
    }
    /// Each position by itself: up if its log goes on from the one that counts, else acting, else a stray of that position, else none.
    pub fn choose_acting(self, infos: &Infos, best: PgShard, place: &Placement<'_>) -> Serving {
        let tail = infos[&best].log_tail;
        let meets = |member: &PgShard| infos.get(member).is_some_and(|info| !info.is_incomplete() && info.last_update >= tail);
        let at = |osds: &[OsdId], n: usize| osds.get(n).filter(|osd| **osd != HOLE).map(|osd| PgShard::new(*osd, n as i8));
        let mut out = Serving::default();
        for n in 0..self.n {
            let up = at(place.up, n);
            let stray =
                || infos.keys().copied().find(|member| usize::try_from(member.shard) == Ok(n) && meets(member) && !place.only_placed);
            let serves = up.filter(meets).or_else(|| at(place.acting, n).filter(meets)).or_else(stray);
            out.backfill.extend(up.filter(|up| serves != Some(*up)));
            out.acting_backfill.extend(up.into_iter().chain(serves));
            out.acting.push(serves.map_or(HOLE, |member| member.osd));
        }
        out
    }
    /// An object of which each divergent entry can be undone in place is as it was then, and not missing; any other goes as copies do.
    pub fn take_back<'a>(
        self,
        entries: impl IntoIterator<Item = &'a PgLogEntry>,
        forward: EVersion,
        last_backfill: &HObject,
        missing: &mut Missing,
    ) -> Rewound {
        let entries: Vec<&PgLogEntry> = entries.into_iter().filter(|entry| !entry.is_error()).collect();
        let is_lost =
            |entry: &&&PgLogEntry| entry.version <= forward || !entry.mod_desc.can_local_rollback || missing.contains(&entry.soid);
        let lost: BTreeSet<&HObject> = entries.iter().filter(is_lost).map(|entry| &entry.soid).collect();
        let undone = entries.iter().map(|entry| &entry.soid).filter(|obj| *obj <= last_backfill && !lost.contains(obj)).cloned().collect();
        let rewound = rewind(entries.iter().copied().filter(|entry| lost.contains(&entry.soid)), last_backfill, missing);
        Rewound { undone, ..rewound }
    }
}
