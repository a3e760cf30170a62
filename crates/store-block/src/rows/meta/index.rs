//! Where the leaves are, in memory; as it is stored, see [`super::parts`].
//!
//! A leaf's key is the front of its first row's, as short as tells it from the rows in front of it: most are of some fifteen bytes,
//! whatever objects are called. (Former versions of this program put whole keys here. Both say the same: where the keys begin that are the
//! leaf's.)
//!
//! ```text
//!   first key ──> group: entries of neighbouring leaves, as they are stored ([`super::entry`])
//! ```
//! To find, to put in and to take out a leaf takes steps in proportion to the logarithm of how many there are, and a look at each leaf of a
//! group. **Memory, and what a start does, grow with the number of leaves**: some 45 bytes for each.

use super::entry::{Entry, LeafRef};
use super::layer::Key;
use super::parts::Parts;
use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::ops::Bound;

/// Bytes of a group, at most, unless it is of one leaf; and those with which it joins the next one.
pub const GROUP_MAX: usize = if cfg!(test) { 192 } else { 1024 };
pub const GROUP_MIN: usize = GROUP_MAX / 4;
/// Bytes of a group's own in memory: its place in the tree, and what an allocation wastes.
const GROUP_BYTES: usize = 160;

/// A leaf has the keys from its first one to before the next leaf's.
#[derive(Debug, Default)]
pub struct Index {
    /// By the first key of each: some entries, ascending.
    groups: BTreeMap<Key, Vec<u8>>,
    leaves: usize,
    /// Bytes of all entries.
    stored: usize,
    parts: Parts,
}

/// Leaves in their order, each with its first key.
#[derive(Debug, Clone)]
pub struct Leaves<'a> {
    rest: &'a [u8],
    groups: Range<'a, Key, Vec<u8>>,
}

impl<'a> Iterator for Leaves<'a> {
    type Item = (&'a [u8], Entry<'a>);
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            self.rest = self.groups.next()?.1;
        }
        Some(Entry::take(&mut self.rest))
    }
}

/// Where an entry begins that has this key or a later one, and where it ends if it has this one.
fn seat(group: &[u8], key: &[u8]) -> (usize, Option<usize>) {
    let mut rest = group;
    while !rest.is_empty() {
        let at = group.len() - rest.len();
        let first = Entry::pass(&mut rest);
        if first >= key {
            return (at, (first == key).then(|| group.len() - rest.len()));
        }
    }
    (group.len(), None)
}
/// Where the last entry begins that has this key or an earlier one.
fn seat_of(group: &[u8], key: &[u8]) -> usize {
    let (mut rest, mut last) = (group, 0);
    while !rest.is_empty() {
        let at = group.len() - rest.len();
        if Entry::pass(&mut rest) > key {
            break;
        }
        last = at;
    }
    last
}
/// Where a group that is too large is parted: between two entries, near its middle.
fn middle(group: &[u8]) -> Option<usize> {
    let (mut rest, mut last) = (group, None);
    while !rest.is_empty() {
        Entry::pass(&mut rest);
        let at = group.len() - rest.len();
        if at < group.len() && (last.is_none() || at <= group.len() / 2) {
            last = Some(at);
        }
    }
    last
}

/// Puts an entry in front of what begins here. A group whose leaf was taken out just now has room for the next one.
fn put_at(group: &mut Vec<u8>, at: usize, entry: &[u8]) {
    let len = group.len();
    group.reserve_exact(entry.len());
    group.extend_from_slice(entry);
    group.copy_within(at..len, at + entry.len());
    group[at..at + entry.len()].copy_from_slice(entry);
}

impl Index {
    pub fn len(&self) -> usize {
        self.leaves
    }
    pub fn iter(&self) -> Leaves<'_> {
        Leaves { rest: &[], groups: self.groups.range::<Key, _>(..) }
    }
    /// The leaves from that of this key on; all, if it is before the first one.
    fn seek(&self, key: &Key) -> Leaves<'_> {
        match self.groups.range::<Key, _>((Bound::Unbounded, Bound::Included(key))).next_back() {
            None => self.iter(),
            Some((first, group)) => Leaves {
                rest: &group[seat_of(group, key)..],
                groups: self.groups.range::<Key, _>((Bound::Excluded(first), Bound::Unbounded)),
            },
        }
    }
    pub fn leaf_of(&self, key: &[u8]) -> Option<(&[u8], Entry<'_>)> {
        self.leaf_of_key(&key.into())
    }
    pub fn leaf_of_key(&self, key: &Key) -> Option<(&[u8], Entry<'_>)> {
        let (_, group) = self.groups.range::<Key, _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        Some(Entry::take(&mut &group[seat_of(group, key)..]))
    }
    /// The leaf that rows with this key belong to, which is the first one if they are before it: where it begins, and where it ends if another
    /// follows.
    pub fn leaf_for(&self, key: &Key) -> Option<(Key, LeafRef, Option<Key>)> {
        let mut leaves = self.seek(key);
        let (start, leaf) = leaves.next()?;
        Some((start.into(), leaf.leaf(), leaves.next().map(|(end, _)| end.into())))
    }
    /// The leaf of `key` and those behind it.
    pub fn leaves_from(&self, key: &[u8]) -> Leaves<'_> {
        self.seek(&key.into())
    }
    /// The first key of the leaf behind the one that begins with `start`.
    pub fn end_of(&self, start: &[u8]) -> Option<&[u8]> {
        self.leaves_from(start).map(|(first, _)| first).find(|first| *first > start)
    }

    fn put_group(&mut self, group: Vec<u8>) {
        let first = Key::from(Entry::pass(&mut &group[..]));
        self.groups.insert(first, group);
    }
    pub fn insert(&mut self, first: &[u8], leaf: &LeafRef, filter: &[u8]) {
        let mut entry = Vec::with_capacity(48 + first.len() + filter.len());
        leaf.put(first, filter, &mut entry);
        self.leaves += 1;
        self.stored += entry.len();
        self.parts.came(&entry, self.stored);
        let key = Key::from(first);
        let Some((_, group)) = self.groups.range_mut::<Key, _>((Bound::Unbounded, Bound::Included(&key))).next_back() else {
            // In front of all others.
            let group = self.groups.pop_first().map(|(_, group)| group).unwrap_or_default();
            return self.put_group([&entry[..], &group[..]].concat());
        };
        let (at, same) = seat(group, first);
        assert!(same.is_none(), "a leaf is taken out before another takes its place");
        put_at(group, at, &entry);
        if let Some(cut) = (group.len() > GROUP_MAX).then(|| middle(group)).flatten() {
            let behind = group[cut..].to_vec();
            group.truncate(cut);
            group.shrink_to_fit();
            self.put_group(behind);
        }
    }
    pub fn remove(&mut self, first: &Key) -> Option<LeafRef> {
        let (key, group) = self.groups.range_mut::<Key, _>((Bound::Unbounded, Bound::Included(first))).next_back()?;
        let (at, end) = seat(group, first);
        let end = end?;
        let leaf = Entry::take(&mut &group[at..]).1.leaf();
        self.leaves -= 1;
        self.stored -= end - at;
        self.parts.went(first, &leaf, self.stored);
        group.drain(at..end);
        if at > 0 && group.len() >= GROUP_MIN {
            // Another leaf comes in its place, nearly always.
            if group.capacity() > 2 * group.len() {
                group.shrink_to_fit();
            }
            return Some(leaf);
        }
        let key = key.clone();
        let mut rest = self.groups.remove(&key).expect("it was found");
        if rest.len() < GROUP_MIN
            && let Some((next, group)) = self.groups.range::<Key, _>((Bound::Excluded(&key), Bound::Unbounded)).next()
            && rest.len() + group.len() <= GROUP_MAX - GROUP_MIN
        {
            let next = next.clone();
            rest.extend_from_slice(group);
            self.groups.remove(&next);
        }
        if !rest.is_empty() {
            self.put_group(rest);
        }
        Some(leaf)
    }
    /// Bytes of memory, roughly.
    pub fn memory(&self) -> usize {
        self.stored + self.groups.len() * GROUP_BYTES
    }

    /// Bytes of all entries.
    pub fn stored(&self) -> usize {
        self.stored
    }
    /// Groups behind the one that begins here, each with where it does.
    pub fn groups_from(&self, from: Option<&Key>) -> impl Iterator<Item = (&Key, &[u8])> {
        let from = from.map_or(Bound::Unbounded, Bound::Excluded);
        self.groups.range::<Key, _>((from, Bound::Unbounded)).map(|(first, group)| (first, &group[..]))
    }
    /// Entries that follow all others, of so many leaves.
    pub fn append(&mut self, entries: Vec<u8>, leaves: usize) {
        self.stored += entries.len();
        self.leaves += leaves;
        if leaves > 0 {
            self.put_group(entries);
        }
    }
    pub fn parts(&mut self) -> &mut Parts {
        &mut self.parts
    }
}
