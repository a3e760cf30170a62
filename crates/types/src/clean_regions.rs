//! `ObjectCleanRegions`: what of an object a log entry left untouched, so that recovery copies only the rest.

use crate::IntervalSet;
use denc::{Decoder, Denc, DencError, Encoder};

/// At most so many ranges are remembered (`osd_object_clean_region_max_num_intervals`); the shortest are forgotten.
const INTERVALS_MAX: usize = 10;

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
        self.trim();
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
    /// What is clean in this and in a later entry.
    pub fn merge(&mut self, later: &Self) {
        self.clean_offsets = self.clean_offsets.intersection(&later.clean_offsets);
        self.clean_omap &= later.clean_omap;
        self.trim();
    }
    pub fn dirty_regions(&self) -> IntervalSet {
        let mut dirty = IntervalSet::of(0, u64::MAX);
        dirty.subtract(&self.clean_offsets);
        dirty
    }
    fn trim(&mut self) {
        while self.clean_offsets.num_intervals() > INTERVALS_MAX {
            let ranges = self.clean_offsets.as_slice();
            let shortest = (0..ranges.len()).min_by_key(|i| ranges[*i].1).expect("there are ranges");
            self.clean_offsets.remove_interval(shortest);
        }
    }
}

impl Denc for ObjectCleanRegions {
    fn encode(&self, e: &mut Encoder) {
        e.frame(1, 1, |e| {
            self.clean_offsets.encode(e);
            e.bool(self.clean_omap);
            e.bool(self.new_object);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("ObjectCleanRegions", 1, |d, _| Ok(Self { clean_offsets: d.get()?, clean_omap: d.bool()?, new_object: d.bool()? }))
    }
}
