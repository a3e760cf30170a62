//! Where one map puts one group, and which changes of it begin another interval.
//!
//! Holds the arithmetic of splits and merges. Holds no state of a group.

use crate::pg::backend::layout::{Layout, there};
use crate::planted::{Bug, planted};
use types::{Epoch, OsdId, PgInterval, PgStat};

/// A group's part in a merge: the source is over after it, the target has the objects of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeRole {
    Source,
    Target,
}

/// What one map says of one group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mapping {
    pub epoch: Epoch,
    pub up: Vec<OsdId>,
    pub acting: Vec<OsdId>,
    pub up_primary: OsdId,
    pub acting_primary: OsdId,
    /// Of the pool.
    pub size: u32,
    pub min_size: u32,
    pub pg_num: u32,
    pub pg_num_pending: u32,
}

impl Mapping {
    /// True if `new` begins another interval of the group with this seed: writes of before it and after it may have different members behind them.
    pub fn begins_interval(&self, seed: u32, new: &Mapping) -> bool {
        (self.acting_primary, &self.acting, self.up_primary, &self.up) != (new.acting_primary, &new.acting, new.up_primary, &new.up)
            || (self.size, self.min_size) != (new.size, new.min_size)
            || splits(seed, self.pg_num, new.pg_num)
            || merges(seed, self.pg_num, new.pg_num)
            || merges(seed, self.pg_num_pending, new.pg_num_pending)
            || merges(seed, new.pg_num_pending, self.pg_num_pending)
    }
    /// The group's statistics say where it lies.
    pub fn note_in(&self, s: &mut PgStat) {
        if s.up != self.up || s.acting != self.acting || s.up_primary != self.up_primary || s.acting_primary != self.acting_primary {
            s.up.clone_from(&self.up);
            s.acting.clone_from(&self.acting);
            (s.up_primary, s.acting_primary, s.mapping_epoch) = (self.up_primary, self.acting_primary, self.epoch);
        }
    }
    /// How many members serve.
    pub fn serving(&self) -> usize {
        there(&self.acting)
    }
    /// True if an interval with these members may serve clients.
    pub fn may_serve(&self) -> bool {
        self.serving() >= if planted(Bug::ActiveBelowMinSize) { 1 } else { self.min_size as usize }
    }
    /// True if these members could have served clients: an interval that is over is judged by it, the one that is by [`Mapping::may_serve`].
    pub(super) fn might_have_served(&self, layout: Layout) -> bool {
        self.acting_primary >= 0 && layout.might_have_served(self.serving(), self.min_size as usize)
    }
    /// These members as an interval of the past.
    pub(super) fn interval(&self, first: Epoch, last: Epoch, maybe_went_rw: bool) -> PgInterval {
        PgInterval {
            first,
            last,
            up: self.up.clone(),
            acting: self.acting.clone(),
            maybe_went_rw,
            primary: self.acting_primary,
            up_primary: self.up_primary,
        }
    }
    /// True if as many members serve as the pool wants, and just those that the map chose.
    pub fn is_whole(&self) -> bool {
        self.serving() == self.size as usize && self.acting == self.up
    }
}

/// The parent of a group: the seed without its highest bit.
pub fn parent_seed(seed: u32) -> u32 {
    assert!(seed > 0, "the first group has no parent");
    seed & !(1 << (31 - seed.leading_zeros()))
}

/// The groups that a group splits into when pg_num grows, itself not among them.
pub fn children(seed: u32, old: u32, new: u32) -> Vec<u32> {
    if seed >= old || new <= old {
        return Vec::new();
    }
    // A child's seed, folded by the old number, is its parent's.
    (old..new).filter(|s| types::hash::stable_mod(*s, old, types::hash::bins_mask(old)) == seed).collect()
}

pub(super) fn splits(seed: u32, old: u32, new: u32) -> bool {
    old > 0 && new > old && seed < old && !children(seed, old, new).is_empty()
}

/// True if the group is the source or the target of a merge when the number goes from `old` down to `new`.
fn merges(seed: u32, old: u32, new: u32) -> bool {
    if new == 0 || new >= old {
        return false;
    }
    (seed >= new && seed < old) || (seed < new && !children(seed, new, old).is_empty())
}
