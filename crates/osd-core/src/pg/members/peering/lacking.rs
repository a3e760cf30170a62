//! Objects that members lack, as their primary knows it, and how it stands with copies.
//!
//! Holds no object's way back, which is recovery's. What we lack ourselves is in the group's record, and is handed in.

use super::{OsdView, Peering};
use crate::pg::backend::layout::there;
use crate::pg::reconcile::missing::Missing;
use crate::pg::record::Record;
use types::{EVersion, HObject, PgMissingItem, PgShard};

/// How it stands with what members lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lacking {
    pub on_primary: u64,
    /// Copies that are not where they should be.
    pub copies: u64,
    pub unfound: u64,
}

/// How it stands with the copies of a group's objects.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// Copies that are not there.
    pub degraded: i64,
    /// Copies that are there, on an OSD that is not to have them.
    pub misplaced: i64,
    /// Members that lack nothing.
    pub whole: Vec<PgShard>,
}

impl Peering {
    /// What each other member that writes go to lacks.
    pub fn missing_elsewhere(&self) -> impl Iterator<Item = &Missing> {
        self.others().filter_map(|member| self.judged_member(member)).map(|known| &known.missing)
    }
    /// True if any member lacks something, or is being filled.
    pub fn is_lacking(&self, ours: &Record) -> bool {
        !self.targets().is_empty() || !ours.missing().is_empty() || self.missing_elsewhere().any(|missing| !missing.is_empty())
    }
    /// What a member lacks of an object: ours, or that of the first other member that lacks it.
    pub fn lacked(&self, ours: &Record, obj: &HObject) -> Option<PgMissingItem> {
        ours.missing().get(obj).or_else(|| self.missing_elsewhere().find_map(|missing| missing.get(obj)))
    }
    /// How it stands with copies that are not where they should be.
    pub fn lacking(&self, ours: &Record, unfound: u64) -> Lacking {
        let on_primary = ours.missing().len() as u64;
        // What a target lacks for now because it is under way is not lacking: backfill has not come so far.
        let counts = |member: &PgShard| !self.targets().contains(member);
        let others = self.others().filter(counts).filter_map(|member| self.judged_member(member));
        let others: u64 = others.map(|known| known.missing.len() as u64).sum();
        Lacking { on_primary, copies: on_primary + others, unfound }
    }
    /// Counts copies: what a member of up lacks is misplaced as far as a member beside up has it in its stead, else degraded. Source of
    /// the facts: Ceph 18.2 `src/osd/PeeringState.cc` (`update_calc_stats`).
    pub fn copies(&self, ours: &Record) -> Copies {
        let (m, mut copies) = (&self.mapping, Copies::default());
        let objects = ours.info().stats.stats.sum.num_objects.max(0);
        let (mut lacked, mut beside) = (Vec::new(), Vec::new());
        for member in self.members() {
            let lacks = match self.judged_member(*member) {
                _ if *member == self.whoami() => ours.missing().len() as i64,
                Some(known) if self.targets().contains(member) => (objects - known.info.stats.stats.sum.num_objects.max(0)).max(0),
                Some(known) => known.missing.len() as i64,
                None => 0,
            };
            if lacks == 0 && !self.targets().contains(member) {
                copies.whole.push(*member);
            }
            if self.up().any(|up| up == *member) { lacked.push(lacks) } else { beside.push(lacks) }
        }
        let up = there(&m.up) as i64;
        let absent = (m.size as i64).max(up) - up;
        lacked.extend((absent > 0).then_some(absent * objects));
        lacked.sort_unstable_by(|a, b| b.cmp(a));
        beside.sort_unstable();
        let mut beside = beside.into_iter();
        for lacks in lacked {
            // What the one beside lacks itself may be what is lacked here.
            let misplaced = beside.next().map_or(0, |theirs| (lacks - theirs).max(0));
            copies.misplaced += misplaced;
            copies.degraded += lacks - misplaced;
        }
        copies.misplaced += beside.map(|theirs| (objects - theirs).max(0)).sum::<i64>();
        copies
    }
    /// True if an object can be had at this version of those of these members that have it, and of former ones that have it or may yet say
    /// so: then what is damaged here is of no use to anyone, and what can be waited for is.
    pub fn may_be_had_elsewhere(&self, obj: &HObject, need: EVersion, members: &[PgShard], map: &dyn OsdView) -> bool {
        let has = |member: PgShard| {
            let known = self.judged_member(member);
            known.is_some_and(|k| k.info.last_update >= need && *obj < k.info.last_backfill && !k.missing.contains(obj))
        };
        let former = self.former(map);
        let may = former.iter().filter(|(member, state)| state.may_have_more() || has(*member)).map(|(member, _)| *member);
        self.layout.is_recoverable(members.iter().copied().filter(|member| has(*member)).chain(may))
    }
}
