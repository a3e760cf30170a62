//! Bytes of what a store has allocated for an object that nothing was written to: holes that end within a block or a buffer.
//!
//! Stores allocate in units of their own and fill the rest with zeros. Which of these zeros were written is no matter for a read, but a sparse read
//! and a copy tell holes to the byte, as BlueStore does: clients' tests and `rbd` go by that. Each byte that is named here is a zero, so a store may
//! forget any of them: the hole is told as data then. Holds no data and no unit of any store.

use std::ops::Range;
use types::IntervalSet;

/// Holes that are kept of one object. Of more, the shortest are told as data.
pub const UNWRITTEN_MAX: usize = 16;

/// The holes within an object's allocated units. Most objects have none: then it is one word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unwritten(Option<Box<IntervalSet>>);

impl Unwritten {
    /// Those of a record. The set may have any number of ranges.
    pub fn of(ranges: IntervalSet) -> Self {
        Self((!ranges.is_empty()).then(|| Box::new(ranges)))
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.0.as_deref().map_or(&[][..], IntervalSet::as_slice).iter().copied()
    }
    /// What was written, of what is allocated.
    pub fn written(&self, mut allocated: IntervalSet) -> IntervalSet {
        if let Some(holes) = &self.0 {
            allocated.subtract(holes);
        }
        allocated
    }
    /// True if one of them lies in the range, or a part of one.
    pub fn touches(&self, area: &Range<u64>) -> bool {
        self.0.as_deref().is_some_and(|holes| holes.intersects(area.start, area.end - area.start))
    }
    /// Notes a change within `area`: what is allocated there now, and what of it was written. Nothing else is allocated there.
    pub fn note(&mut self, area: Range<u64>, mut allocated: IntervalSet, written: &IntervalSet) {
        allocated.subtract(written);
        if self.is_empty() && allocated.is_empty() {
            return;
        }
        let holes = self.0.get_or_insert_default();
        holes.erase(area.start, area.end - area.start);
        holes.union_with(&allocated);
        keep_longest(holes);
        if holes.is_empty() {
            self.0 = None;
        }
    }
    /// What [`Unwritten::note`] makes of it.
    #[must_use]
    pub fn after(&self, area: Range<u64>, allocated: IntervalSet, written: &IntervalSet) -> Self {
        let mut after = self.clone();
        after.note(area, allocated, written);
        after
    }
}

fn keep_longest(holes: &mut IntervalSet) {
    while holes.num_intervals() > UNWRITTEN_MAX {
        let shortest = holes.as_slice().iter().enumerate().min_by_key(|(_, (_, len))| *len);
        holes.remove_interval(shortest.expect("there are some").0);
    }
}

/// What holds something after a change, by what did before: `written` was written, or else `zeroed` was made a hole.
#[derive(Debug, Clone, Copy)]
pub enum Written {
    Data { offset: u64, len: u64 },
    Zeros { offset: u64, len: u64 },
}

impl Written {
    pub fn apply(self, before: &mut IntervalSet) {
        match self {
            Self::Data { offset, len } => before.insert(offset, len),
            Self::Zeros { offset, len } => before.erase(offset, len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allocated_and_not_written_is_a_hole_until_it_is_written() {
        let none = Unwritten::default();
        // A byte in each of two places of one block.
        let first = none.after(0..4096, IntervalSet::of(0, 4096), &IntervalSet::of(1, 1));
        let mut written = first.written(IntervalSet::of(0, 4096));
        assert_eq!(written.as_slice(), [(1, 1)]);
        Written::Data { offset: 3, len: 1 }.apply(&mut written);
        let second = first.after(0..4096, IntervalSet::of(0, 4096), &written);
        assert_eq!(second.iter().collect::<Vec<_>>(), [(0, 1), (2, 1), (4, 4092)]);
        Written::Zeros { offset: 0, len: 3 }.apply(&mut written);
        assert_eq!(written.as_slice(), [(3, 1)]);
        // All of it is written, or nothing of it is allocated any more.
        assert!(second.after(0..4096, IntervalSet::of(0, 4096), &IntervalSet::of(0, 4096)).is_empty());
        assert!(second.after(0..4096, IntervalSet::new(), &IntervalSet::new()).is_empty());
    }

    #[test]
    fn of_too_many_the_shortest_are_told_as_data() {
        let allocated = IntervalSet::of(0, 1 << 20);
        let mut written = allocated.clone();
        (1..=UNWRITTEN_MAX as u64 + 1).for_each(|n| written.erase(n * 1000, n));
        let holes = Unwritten::default().after(0..1 << 20, allocated.clone(), &written);
        assert_eq!(holes.iter().len(), UNWRITTEN_MAX);
        let mut told = written.clone();
        told.insert(1000, 1);
        assert_eq!(holes.written(allocated), told);
    }
}
