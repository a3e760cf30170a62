//! `interval_set<T>`: disjoint ranges of 64-bit numbers (offsets, snapshots), kept merged and sorted.

use denc::{Decoder, Denc, DencError, Encoder};
use std::fmt;

/// Sorted, disjoint, non-adjacent ranges, each a start and a length above 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct IntervalSet {
    ranges: Vec<(u64, u64)>,
}

impl IntervalSet {
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }
    /// One range; the empty set if `len` is 0.
    pub fn of(start: u64, len: u64) -> Self {
        let mut set = Self::new();
        set.insert(start, len);
        set
    }
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
    /// How many ranges there are.
    pub fn num_intervals(&self) -> usize {
        self.ranges.len()
    }
    /// How many numbers are in the set.
    pub fn size(&self) -> u64 {
        self.ranges.iter().map(|r| r.1).sum()
    }
    /// Ranges as (start, length), ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + ExactSizeIterator + '_ {
        self.ranges.iter().copied()
    }
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.ranges
    }
    /// The lowest number.
    pub fn start(&self) -> Option<u64> {
        self.ranges.first().map(|r| r.0)
    }
    /// One behind the highest number.
    pub fn end(&self) -> Option<u64> {
        self.ranges.last().map(|r| r.0 + r.1)
    }
    pub fn clear(&mut self) {
        self.ranges.clear();
    }
    /// The first range that ends above `at`.
    fn first_ending_above(&self, at: u64) -> usize {
        self.ranges.partition_point(|r| r.0 + r.1 <= at)
    }
    /// True if the whole range is in the set; an empty range always is.
    pub fn contains(&self, start: u64, len: u64) -> bool {
        if len == 0 {
            return true;
        }
        let end = start.saturating_add(len);
        self.ranges.get(self.first_ending_above(start)).is_some_and(|r| r.0 <= start && end <= r.0 + r.1)
    }
    pub fn contains_point(&self, at: u64) -> bool {
        self.ranges.get(self.first_ending_above(at)).is_some_and(|r| r.0 <= at)
    }
    pub fn intersects(&self, start: u64, len: u64) -> bool {
        let end = start.saturating_add(len);
        len > 0 && self.ranges.get(self.first_ending_above(start)).is_some_and(|r| r.0 < end)
    }
    /// Adds a range; what is already there stays. Cut at `u64::MAX`.
    pub fn insert(&mut self, start: u64, len: u64) {
        let end = start.saturating_add(len);
        if end == start {
            return;
        }
        // Ranges that touch the new one become one with it.
        let from = self.ranges.partition_point(|r| r.0 + r.1 < start);
        let to = from + self.ranges[from..].partition_point(|r| r.0 <= end);
        if from == to {
            self.ranges.insert(from, (start, end - start));
            return;
        }
        let (first, last) = (self.ranges[from], self.ranges[to - 1]);
        let (start, end) = (start.min(first.0), end.max(last.0 + last.1));
        self.ranges[from] = (start, end - start);
        self.ranges.drain(from + 1..to);
    }
    /// Removes what of the range is in the set.
    pub fn erase(&mut self, start: u64, len: u64) {
        let end = start.saturating_add(len);
        if end == start {
            return;
        }
        let from = self.first_ending_above(start);
        let to = from + self.ranges[from..].partition_point(|r| r.0 < end);
        if from == to {
            return;
        }
        let (first, last) = (self.ranges[from], self.ranges[to - 1]);
        let left = (first.0, start.saturating_sub(first.0));
        let right = (end, (last.0 + last.1).saturating_sub(end));
        let keep = [left, right].into_iter().filter(|r| r.1 > 0);
        self.ranges.splice(from..to, keep);
    }
    /// Adds every range of `other`.
    pub fn union_with(&mut self, other: &Self) {
        for (start, len) in other.iter() {
            self.insert(start, len);
        }
    }
    /// Removes every range of `other`.
    pub fn subtract(&mut self, other: &Self) {
        for (start, len) in other.iter() {
            self.erase(start, len);
        }
    }
    /// What is in both.
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut i, mut j) = (0, 0);
        let mut out = Vec::new();
        while let (Some(a), Some(b)) = (self.ranges.get(i), other.ranges.get(j)) {
            let (start, end) = (a.0.max(b.0), (a.0 + a.1).min(b.0 + b.1));
            if start < end {
                out.push((start, end - start));
            }
            if a.0 + a.1 <= b.0 + b.1 { i += 1 } else { j += 1 }
        }
        Self { ranges: out }
    }
    /// Drops the range at `index` of [`IntervalSet::as_slice`].
    pub fn remove_interval(&mut self, index: usize) {
        self.ranges.remove(index);
    }
}

impl FromIterator<(u64, u64)> for IntervalSet {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(ranges: I) -> Self {
        let mut set = Self::new();
        for (start, len) in ranges {
            set.insert(start, len);
        }
        set
    }
}

/// As a map of starts to lengths. Ranges that overlap or come out of order are refused; adjacent ones are merged.
impl Denc for IntervalSet {
    fn encode(&self, e: &mut Encoder) {
        self.ranges.encode(e);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let n = d.count(16)?;
        let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(n);
        for _ in 0..n {
            let (start, len) = (d.u64()?, d.u64()?);
            if len == 0 || start.checked_add(len).is_none() {
                return Err(d.invalid("a range of an interval_set is empty or passes the end of numbers"));
            }
            match ranges.last_mut() {
                Some(last) if last.0 + last.1 > start => return Err(d.invalid("ranges of an interval_set overlap")),
                Some(last) if last.0 + last.1 == start => last.1 += len,
                _ => ranges.push((start, len)),
            }
        }
        Ok(Self { ranges })
    }
}

/// `[0~10,20~5]`, numbers in hexadecimal, as Ceph prints it.
impl fmt::Display for IntervalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, (start, len)) in self.iter().enumerate() {
            write!(f, "{}{start:x}~{len:x}", if i > 0 { "," } else { "" })?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    const SPACE: u64 = 64;

    fn bits(set: &IntervalSet) -> u64 {
        (0..SPACE).filter(|at| set.contains_point(*at)).fold(0, |bits, at| bits | 1 << at)
    }
    fn mask(start: u64, len: u64) -> u64 {
        (start..(start + len).min(SPACE)).fold(0, |bits, at| bits | 1 << at)
    }

    /// Against a word whose bits are the numbers.
    #[test]
    fn equals_a_bitmap() {
        let mut rng = Rng::new(1);
        for _ in 0..300 {
            let (mut a, mut b) = (IntervalSet::new(), IntervalSet::new());
            let (mut abits, mut bbits) = (0, 0);
            for _ in 0..20 {
                let start = rng.below(SPACE);
                let len = rng.below(SPACE - start).min(rng.below(20));
                let (set, word) = if rng.chance(1, 2) { (&mut a, &mut abits) } else { (&mut b, &mut bbits) };
                if rng.chance(2, 3) {
                    set.insert(start, len);
                    *word |= mask(start, len);
                } else {
                    set.erase(start, len);
                    *word &= !mask(start, len);
                }
                assert_eq!(bits(set), *word);
                assert_eq!(set.size(), u64::from(word.count_ones()));
                assert!(set.as_slice().windows(2).all(|w| w[0].0 + w[0].1 < w[1].0), "{set}");
                let (start, len) = (rng.below(SPACE - 8), rng.below(8));
                assert_eq!(set.contains(start, len), *word & mask(start, len) == mask(start, len));
                assert_eq!(set.intersects(start, len), *word & mask(start, len) != 0);
            }
            assert_eq!(bits(&a.intersection(&b)), abits & bbits);
            let mut both = a.clone();
            both.union_with(&b);
            assert_eq!(bits(&both), abits | bbits);
            both.subtract(&b);
            assert_eq!(bits(&both), abits & !bbits);
            assert_eq!(IntervalSet::from_bytes(&a.to_bytes(0)).unwrap(), a);
        }
    }

    #[test]
    fn the_whole_space_fits() {
        let mut set = IntervalSet::of(0, u64::MAX);
        set.erase(4096, 4096);
        assert_eq!(set.as_slice(), [(0, 4096), (8192, u64::MAX - 8192)]);
        assert_eq!(set.to_string(), "[0~1000,2000~ffffffffffffdfff]");
        let mut e = Encoder::new(0);
        vec![(5_u64, 10_u64), (10, 3)].encode(&mut e);
        assert!(IntervalSet::from_bytes(&e.finish()).is_err());
    }
}
