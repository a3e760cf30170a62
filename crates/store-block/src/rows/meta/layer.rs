//! Recent changes of the metadata's rows, in memory: what was put, what was removed, one by one and by range.
//!
//! To find a row, the range over it, or the next change takes steps in proportion to the logarithm of how many there are; so does to put
//! one. To remove a range takes a step for each row and range in it besides: those are gone then, so each is paid for once.

use crate::rows::counter::Steps;
use bytes::Bytes;
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::collections::btree_map::{Entry, IntoIter};
use std::ops::Bound;

/// A key with its first 16 bytes as a number: most comparisons need no more. Those of log entries, which share more than that, are short enough to
/// lie within: other memory is touched for long names only.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    // Before the bytes: compared first. Zeros behind a short key's end sort as the end does, or equal.
    prefix: u128,
    bytes: SmallVec<[u8; 32]>,
}

impl From<&[u8]> for Key {
    fn from(key: &[u8]) -> Self {
        let mut prefix = [0; 16];
        let n = key.len().min(16);
        prefix[..n].copy_from_slice(&key[..n]);
        Self { prefix: u128::from_be_bytes(prefix), bytes: SmallVec::from_slice(key) }
    }
}
impl From<Vec<u8>> for Key {
    fn from(key: Vec<u8>) -> Self {
        key[..].into()
    }
}
impl std::ops::Deref for Key {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}
impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
/// Keys sort as their bytes do.
impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.bytes
    }
}
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.bytes.escape_ascii())
    }
}

/// What a layer says of a key.
#[derive(Debug, Clone)]
pub enum Val {
    /// It is not there, whatever lies below.
    Del,
    Row(Bytes),
    /// It is what the object table has in this slot.
    Obj(u32),
}

/// Bytes of memory that a row costs besides its own.
const ROW_BYTES: usize = 128;

#[derive(Debug, Default)]
pub struct Layer {
    rows: BTreeMap<Key, Val>,
    /// Removed from what lies below: first (in), last (out). They don't touch each other.
    ranges: BTreeMap<Key, Key>,
    /// Of memory, roughly; of objects only their keys.
    bytes: usize,
    /// Rows and ranges that removals looked at.
    steps: Steps,
}

impl Layer {
    #[cfg(test)]
    pub fn take_steps(&self) -> u64 {
        self.steps.take()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.ranges.is_empty()
    }
    /// Bytes of memory, roughly; of objects only their keys.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Bytes of its rows without what they cost in memory, roughly, and how many rows there are.
    pub fn stored(&self) -> (u64, u64) {
        let rows = self.rows.len() + self.ranges.len();
        (self.bytes.saturating_sub(rows * ROW_BYTES) as u64, rows as u64)
    }
    pub fn rows(&self) -> &BTreeMap<Key, Val> {
        &self.rows
    }
    /// True if a range of removals has the key.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.covered_to(key).is_some()
    }
    /// Where the range of removals ends that has the key.
    pub fn covered_to(&self, key: &[u8]) -> Option<&Key> {
        if self.ranges.is_empty() {
            return None;
        }
        let range = self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        range.map(|(_, last)| last).filter(|last| key < &***last)
    }
    /// True if one range of removals has all keys from `first` to before `last`.
    pub fn covers_all(&self, first: &[u8], last: &[u8]) -> bool {
        self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(first))).next_back().is_some_and(|(_, end)| last <= &**end)
    }
    /// The first range that ends behind `key`.
    pub fn next_range(&self, key: &Key) -> Option<(&Key, &Key)> {
        let before = self.ranges.range::<Key, _>((Bound::Unbounded, Bound::Included(key))).next_back().filter(|(_, last)| key < *last);
        before.or_else(|| self.ranges.range::<Key, _>((Bound::Excluded(key), Bound::Unbounded)).next())
    }
    /// What is known of the key here.
    pub fn get(&self, key: &Key) -> Option<&Val> {
        match self.rows.get(key) {
            Some(val) => Some(val),
            None if self.covers(key) => Some(&Val::Del),
            None => None,
        }
    }
    pub fn put(&mut self, key: &[u8], val: Val) {
        self.put_key(key.into(), val);
    }
    pub fn put_key(&mut self, key: Key, val: Val) {
        self.bytes += if let Val::Row(row) = &val { row.len() } else { 0 };
        match self.rows.entry(key) {
            Entry::Occupied(mut slot) => {
                if let Val::Row(old) = slot.insert(val) {
                    self.bytes = self.bytes.saturating_sub(old.len());
                }
            }
            Entry::Vacant(slot) => {
                self.bytes += slot.key().len() + ROW_BYTES;
                slot.insert(val);
            }
        }
    }
    /// Its rows, to be freed some at a time: nothing needs it any more.
    pub fn into_rows(self) -> IntoIter<Key, Val> {
        self.rows.into_iter()
    }
    /// Puts in what the key had when the layer was frozen, in place of the object that changes now.
    pub fn settle(&mut self, key: &Key, val: Val) {
        match self.rows.get_mut(key) {
            Some(slot) => *slot = val,
            None => unreachable!("a frozen object has its row"),
        }
    }
    /// Removes all rows from `first` to before `last`, here and below.
    pub fn remove_range(&mut self, first: &[u8], last: &[u8]) {
        if first >= last {
            return;
        }
        self.remove_rows(first, last);
        self.join_range(first.into(), last.into());
    }
    fn remove_rows(&mut self, first: &[u8], last: &[u8]) {
        let keys: Vec<Key> =
            self.rows.range::<[u8], _>((Bound::Included(first), Bound::Excluded(last))).map(|(key, _)| key.clone()).collect();
        self.steps.add(keys.len());
        for key in keys {
            let row = if let Some(Val::Row(row)) = self.rows.remove(&key) { row.len() } else { 0 };
            self.bytes = self.bytes.saturating_sub(row + key.len() + ROW_BYTES);
        }
    }
    /// A range more, below the rows that are here: one in place of all that it meets.
    fn join_range(&mut self, mut first: Key, mut last: Key) {
        if let Some((start, end)) = self.ranges.range::<Key, _>((Bound::Unbounded, Bound::Included(&first))).next_back()
            && *end >= first
        {
            (first, last) = (start.clone(), last.max(end.clone()));
        }
        let met: Vec<(Key, Key)> = self
            .ranges
            .range::<Key, _>((Bound::Included(&first), Bound::Included(&last)))
            .map(|(start, end)| (start.clone(), end.clone()))
            .collect();
        self.steps.add(met.len());
        for (start, end) in met {
            self.ranges.remove(&start);
            self.bytes = self.bytes.saturating_sub(start.len() + end.len() + ROW_BYTES);
            last = last.max(end);
        }
        self.bytes += first.len() + last.len() + ROW_BYTES;
        self.ranges.insert(first, last);
    }
    /// Ranges of removals within `first` (in) and `last` (out), cut at both.
    pub fn ranges_in(&self, first: &Key, last: &Key) -> Vec<(Key, Key)> {
        let before = self.ranges.range::<Key, _>((Bound::Unbounded, Bound::Excluded(first))).next_back();
        let within = self.ranges.range::<Key, _>((Bound::Included(first), Bound::Excluded(last)));
        let cut = |(from, to): (&Key, &Key)| (from.max(first).clone(), to.min(last).clone());
        before.filter(|(_, to)| *to > first).into_iter().chain(within).map(cut).collect()
    }
    /// True if the layer says something of a key within `first` (in) and `last` (out).
    pub fn has_any(&self, first: &Key, last: &Key) -> bool {
        self.rows.range::<Key, _>((Bound::Included(first), Bound::Excluded(last))).next().is_some()
            || self.next_range(first).is_some_and(|(from, _)| from < last)
    }
    /// Takes in what an older layer says of the keys from `first` (in) to `last` (out), as far as this one says nothing of them.
    pub fn underlay(&mut self, older: &Self, first: &Key, last: &Key) {
        for (key, val) in older.rows.range::<Key, _>((Bound::Included(first), Bound::Excluded(last))) {
            if self.get(key).is_none() {
                self.put_key(key.clone(), val.clone());
            }
        }
        for (from, to) in older.ranges_in(first, last) {
            self.join_range(from, to);
        }
    }
    /// Says nothing more of the keys from `first` (in) to `last` (out).
    pub fn forget(&mut self, first: &Key, last: &Key) {
        self.remove_rows(first, last);
        let met: Vec<(Key, Key)> = match self.ranges.range::<Key, _>((Bound::Unbounded, Bound::Excluded(first))).next_back() {
            Some((from, to)) if to > first => vec![(from.clone(), to.clone())],
            _ => Vec::new(),
        };
        let within = self.ranges.range::<Key, _>((Bound::Included(first), Bound::Excluded(last)));
        let met: Vec<(Key, Key)> = met.into_iter().chain(within.map(|(from, to)| (from.clone(), to.clone()))).collect();
        for (from, to) in met {
            self.ranges.remove(&from);
            self.bytes = self.bytes.saturating_sub(from.len() + to.len() + ROW_BYTES);
            for (from, to) in [(from.clone(), to.clone().min(first.clone())), (from.max(last.clone()), to)] {
                if from < to {
                    self.join_range(from, to);
                }
            }
        }
    }
    /// Keys that rows or ranges change, from `key` on: the first.
    pub fn first_change_from(&self, key: &Key) -> Option<&Key> {
        let row = self.rows.range::<Key, _>((Bound::Included(key), Bound::Unbounded)).next().map(|(k, _)| k);
        let range = self.next_range(key).map(|(first, _)| if first < key { None } else { Some(first) });
        match (row, range) {
            // The range reaches over `key` itself: the change is right there; the caller has the key.
            (_, Some(None)) => self.next_range(key).map(|(first, _)| first),
            (Some(row), Some(Some(first))) => Some(row.min(first)),
            (Some(row), None) => Some(row),
            (None, Some(first)) => first,
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_later_rows_stand_out() {
        let mut l = Layer::default();
        l.put(b"c", Val::Row(Bytes::from_static(b"1")));
        l.remove_range(b"b", b"d");
        l.remove_range(b"d", b"f");
        l.remove_range(b"x", b"z");
        l.remove_range(b"a", b"c");
        l.put(b"e", Val::Row(Bytes::from_static(b"2")));
        assert!(matches!(l.get(&b"c"[..].into()), Some(Val::Del)) && matches!(l.get(&b"e"[..].into()), Some(Val::Row(_))));
        assert!(l.get(&b"f"[..].into()).is_none() && l.get(&b"9"[..].into()).is_none() && l.covers(b"y"));
        assert_eq!(l.ranges.len(), 2);
        assert!(l.covers_all(b"a", b"f") && !l.covers_all(b"a", b"g"));
        let key = |k: &[u8]| Key::from(k);
        assert_eq!(l.ranges_in(&key(b"b"), &key(b"y")), [(key(b"b"), key(b"f")), (key(b"x"), key(b"y"))]);
        let mut newer = Layer::default();
        newer.put(b"e", Val::Row(Bytes::from_static(b"new")));
        newer.underlay(&l, &key(b"b"), &key(b"y"));
        assert!(matches!(newer.get(&key(b"e")), Some(Val::Row(row)) if row[..] == *b"new"));
        assert!(newer.covers(b"b") && newer.covers(b"x") && !newer.covers(b"a") && !newer.covers(b"y"));
        newer.forget(&key(b"c"), &key(b"xx"));
        assert_eq!(newer.ranges_in(&key(b"a"), &key(b"z")), [(key(b"b"), key(b"c")), (key(b"xx"), key(b"y"))]);
        assert!(newer.get(&key(b"e")).is_none() && !newer.has_any(&key(b"d"), &key(b"x")) && newer.has_any(&key(b"d"), &key(b"xy")));
        assert_eq!(l.next_range(&key(b"g")), Some((&key(b"x"), &key(b"z"))));
        assert_eq!(l.first_change_from(&key(b"f")), Some(&key(b"x")));
        assert_eq!(l.first_change_from(&key(b"b")), Some(&key(b"a")));
        l.remove_range(b"0", b"zz");
        assert_eq!((l.ranges.len(), l.rows.len()), (1, 0));
    }
}
