//! The cache of a disk with heads: it knows where its bytes belong, and gives them to the medium in the order of their places.
//!
//! A place that is written again before it left is written once. Absent: when the medium is asked ([`super::Device`]).

use std::collections::BTreeMap;

/// The medium takes no more at a time, so that what is asked meanwhile does not wait long.
const PIECE: u64 = 1 << 20;

/// Ranges of bytes that the medium lacks; no two touch.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// End by begin.
    ranges: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Places {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
    pub fn put(&mut self, at: u64, len: u64) {
        let (mut from, mut to) = (at, at.saturating_add(len));
        while let Some((begin, end)) =
            self.ranges.range(..=to).next_back().map(|(begin, end)| (*begin, *end)).filter(|(_, end)| *end >= from)
        {
            self.ranges.remove(&begin);
            self.bytes -= end - begin;
            (from, to) = (from.min(begin), to.max(end));
        }
        if to > from {
            self.ranges.insert(from, to);
            self.bytes += to - from;
        }
    }
    /// The next piece for a head at that byte: the first in front of it, or the first of all.
    pub fn take(&mut self, head: u64) -> Option<(u64, u64)> {
        let (begin, end) = self.ranges.range(head..).next().or_else(|| self.ranges.iter().next()).map(|(begin, end)| (*begin, *end))?;
        self.ranges.remove(&begin);
        let len = (end - begin).min(PIECE);
        if begin + len < end {
            self.ranges.insert(begin + len, end);
        }
        self.bytes -= len;
        Some((begin, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_the_order_of_their_places_and_each_once() {
        let mut places = Places::default();
        for at in [8192, 0, 1 << 30, 4096, 8192] {
            places.put(at, 4096);
        }
        assert_eq!(places.bytes(), 4 * 4096);
        assert_eq!(places.take(1 << 20), Some((1 << 30, 4096)));
        assert_eq!(places.take(1 << 31), Some((0, 3 * 4096)), "neighbours are one piece");
        assert!(places.take(0).is_none() && places.is_empty() && places.bytes() == 0);
        places.put(0, 3 << 20);
        places.put(1 << 20, 4096);
        assert_eq!((places.take(0), places.bytes()), (Some((0, PIECE)), 2 << 20));
        assert_eq!(places.take(PIECE), Some((PIECE, PIECE)));
    }
}
