//! `ObjectCleanRegions`: what of an object a log entry left untouched, so that recovery copies only the rest.

use crate::IntervalSet;
use denc::{Decoder, Denc, DencError, Encoder};

/// At most so many ranges are written down or sent (`osd_object_clean_region_max_num_intervals`); the shortest are forgotten.
const INTERVALS_MAX: usize = 10;
/// At most so many ranges of several entries together are remembered, so that an object that changed in many places is not sent whole.
const MERGED_MAX: usize = 512;

/// Clean means: as it was before the entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectCleanRegions {
    pub clean_offsets: IntervalSet,
    pub clean_omap: bool,
    pub new_object: bool,
}

/// Nothing was touched.
impl Default for ObjectCleanRegions {
    fn default() -> Self {
        Self { clean_offsets: IntervalSet::of(0, u64::MAX), clean_omap: true, new_object: false }
    }
}

impl ObjectCleanRegions {
    /// Everything may have been touched.
    pub fn fully_dirty() -> Self {
        Self { clean_offsets: IntervalSet::new(), clean_omap: false, new_object: true }
    }
    pub fn mark_data_dirty(&mut self, offset: u64, len: u64) {
        self.clean_offsets.erase(offset, len);
        self.trim(INTERVALS_MAX);
    }
    pub fn mark_omap_dirty(&mut self) {
        self.clean_omap = false;
    }
    pub fn mark_new(&mut self) {
        self.new_object = true;
    }
    pub fn mark_fully_dirty(&mut self) {
        *self = Self::fully_dirty();
    }
    /// What is clean in this and in a later entry. It has more ranges than an entry may have: those are for the process that merged them, and what
    /// is encoded has as many as an entry.
    pub fn merge(&mut self, later: &Self) {
        self.clean_offsets = self.clean_offsets.intersection(&later.clean_offsets);
        self.clean_omap &= later.clean_omap;
        self.trim(MERGED_MAX);
    }
    pub fn dirty_regions(&self) -> IntervalSet {
        let mut dirty = IntervalSet::of(0, u64::MAX);
        dirty.subtract(&self.clean_offsets);
        dirty
    }
    fn trim(&mut self, max: usize) {
        while self.clean_offsets.num_intervals() > max {
            let ranges = self.clean_offsets.as_slice();
            let shortest = (0..ranges.len()).min_by_key(|i| ranges[*i].1).expect("there are ranges");
            self.clean_offsets.remove_interval(shortest);
        }
    }
}

impl Denc for ObjectCleanRegions {
    fn encode(&self, e: &mut Encoder) {
        let mut short;
        let clean = if self.clean_offsets.num_intervals() > INTERVALS_MAX {
            short = self.clone();
            short.trim(INTERVALS_MAX);
            &short.clean_offsets
        } else {
            &self.clean_offsets
        };
        e.frame(1, 1, |e| {
            clean.encode(e);
            e.bool(self.clean_omap);
            e.bool(self.new_object);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("ObjectCleanRegions", 1, |d, _| Ok(Self { clean_offsets: d.get()?, clean_omap: d.bool()?, new_object: d.bool()? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_entries_together_name_each_range_and_the_wire_ten() {
        let (mut all, mut dirty) = (ObjectCleanRegions::default(), IntervalSet::new());
        for i in 0..40 {
            let mut one = ObjectCleanRegions::default();
            one.mark_data_dirty(i * 100_000, 1024);
            dirty.insert(i * 100_000, 1024);
            all.merge(&one);
        }
        assert_eq!(all.dirty_regions(), dirty);
        let sent = ObjectCleanRegions::from_bytes(&all.to_bytes(0)).unwrap();
        assert_eq!(sent.clean_offsets.num_intervals(), 10);
        // What was forgotten counts as changed.
        assert_eq!(sent.clean_offsets.intersection(&all.clean_offsets), sent.clean_offsets);
        for i in 0..2000 {
            let mut one = ObjectCleanRegions::default();
            one.mark_data_dirty(i * 9000, 10);
            all.merge(&one);
        }
        assert_eq!(all.clean_offsets.num_intervals(), MERGED_MAX);
    }
}
