//! One record becomes two with a split, two become one with a merge.
//!
//! The log and what is missing go with the objects, duplicates go to both. What the collections become is [`crate::pg::split`]'s.

use super::Record;
use crate::pg::reconcile::missing::Missing;
use crate::planted::{Bug, planted};
use types::{HObject, ObjectStatSum, PgInfo, SpgId};

/// Half of what a group has: as much as is known of a part that was not counted.
fn half(all: &ObjectStatSum) -> ObjectStatSum {
    let (num_objects, num_bytes) = (all.num_objects / 2, all.num_bytes / 2);
    ObjectStatSum { num_objects, num_bytes, num_object_clones: all.num_object_clones / 2, ..ObjectStatSum::default() }
}

impl Record {
    /// Splits off what is of objects with hashes that go to this child. `bits` of a hash name it. `sum` is what it has, if it was counted: else it is a guess
    /// for both, and the next scrub knows.
    pub(in crate::pg) fn split_off(&mut self, child: SpgId, bits: u32, sum: Option<ObjectStatSum>, goes: impl Fn(u32) -> bool) -> Record {
        let mut info = PgInfo::new(child);
        info.history = self.info.history;
        info.purged_snaps = self.info.purged_snaps.clone();
        info.last_user_version = self.info.last_user_version;
        info.last_epoch_started = self.info.last_epoch_started;
        info.last_interval_started = self.info.last_interval_started;
        info.last_backfill = self.info.last_backfill.clone();
        info.stats.parent_split_bits = bits;
        // What is counted is what the store has; what is missing is no part of it.
        let is_guess = sum.is_none() || !self.missing.is_empty() || self.info.is_incomplete();
        info.stats.stats.sum = sum.unwrap_or_else(|| half(&self.info.stats.stats.sum));
        info.stats.stats_invalid = is_guess;
        self.info.stats.stats.sum -= &info.stats.stats.sum;
        self.info.stats.stats_invalid |= is_guess;

        let mut child = Record::new(info);
        child.log = self.log.split_off(&goes);
        child.missing = self.missing.split_off(&goes);
        let is_incomplete = self.info.is_incomplete();
        for record in [&mut child, self] {
            if is_incomplete {
                // A backfill begins anew in both: what is missing is so of objects before its end.
                record.lacks_a_part();
            }
            record.note_ends();
            record.note_complete();
            record.assert_agrees();
        }
        child
    }
    /// Takes in another group's. If either lacks what it had when they were found ready (`is_whole`), objects are lacked and it is not known which.
    pub(in crate::pg) fn take_in(&mut self, source: Record, is_whole: bool) {
        let Record { info: theirs, log, missing, .. } = source;
        self.info.stats.stats.sum += &theirs.stats.stats.sum;
        self.info.stats.stats_invalid |= theirs.stats.stats_invalid;
        self.log.merge(log);
        self.missing.append(missing);
        if !is_whole || self.info.is_incomplete() || theirs.is_incomplete() {
            self.lacks_a_part();
        }
        self.note_ends();
        self.note_complete();
        self.info.last_user_version = self.info.last_user_version.max(theirs.last_user_version);
        // What only one of them has purged is looked for again.
        match planted(Bug::MergePurged) {
            true => self.info.purged_snaps.union_with(&theirs.purged_snaps),
            false => self.info.purged_snaps = self.info.purged_snaps.intersection(&theirs.purged_snaps),
        }
        self.assert_agrees();
    }
    /// The group has not all objects that its log is of, and does not know which.
    fn lacks_a_part(&mut self) {
        self.info.last_backfill = HObject::min();
        self.missing = Missing::default();
    }
    /// A group that this one should take in is not here: its objects are elsewhere.
    pub(crate) fn lacks_another(&mut self) {
        self.log.forget_entries();
        self.lacks_a_part();
        self.note_ends();
        self.note_complete();
    }
    /// Entries can't be had from the store any more: see [`crate::pg::record::log::Log::forget_entries`].
    pub(crate) fn forget_entries(&mut self) {
        self.log.forget_entries();
        self.note_ends();
    }
}
