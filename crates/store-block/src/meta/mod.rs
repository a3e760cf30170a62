//! The metadata: rows sorted by key. Recent changes are in memory, in layers; the rest is in leaves on the device, found through an index in
//! memory and read on demand through a cache.
//!
//! ```text
//!   get ──> active ──> frozen (while a checkpoint writes it) ──> beside (damaged leaves' changes) ──> index ──> leaf (cache, or a read)
//! ```
//! Holds no row's meaning, and starts no input or output: it says which leaf it needs.

pub mod index;
pub mod layer;
pub mod leaf;
pub mod space;

use crate::layout::BLOCK;
use crate::overlay::{NumberBuild, Numbers};
use base::fixed::HashSet;
use bytes::Bytes;
use index::{Index, LeafRef};
use layer::{Key, Layer, Val};
use leaf::Leaf;
use smallvec::SmallVec;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};

/// What is known of a key without reading.
#[derive(Debug)]
pub enum Found {
    Absent,
    Row(Bytes),
    /// It is an object in memory.
    Obj,
    /// This leaf must be read first.
    Read(LeafRef),
}

/// A row of a scan.
#[derive(Debug, Clone, Copy)]
pub enum Row<'a> {
    Bytes(&'a [u8]),
    Obj(u32),
}

#[derive(Debug)]
struct Cached {
    leaf: Leaf,
    used: Cell<bool>,
    /// The turn in which it was looked at last.
    turn: Cell<u32>,
}

/// Leaves in memory; those that were used since they were looked at last stay longer.
#[derive(Debug, Default)]
pub struct LeafCache {
    leaves: Numbers<Cached>,
    order: VecDeque<u64>,
    bytes: usize,
    /// Not on the device yet.
    pinned: HashSet<u64, NumberBuild>,
    turn: u32,
    /// Bytes of the leaves that were looked at in this turn.
    seen: Cell<usize>,
}

impl LeafCache {
    /// The leaf stays until it is unpinned.
    pub fn pin(&mut self, id: u64) {
        self.pinned.insert(id);
    }
    pub fn unpin(&mut self, id: u64) {
        self.pinned.remove(&id);
    }
    pub fn get(&self, id: u64) -> Option<&Leaf> {
        let cached = self.leaves.get(&id)?;
        cached.used.set(true);
        if cached.turn.replace(self.turn) != self.turn {
            self.seen.set(self.seen.get() + cached.leaf.memory());
        }
        Some(&cached.leaf)
    }
    /// Bytes of the leaves that were looked at since the last [`LeafCache::shrink`].
    pub fn seen(&self) -> usize {
        self.seen.get()
    }
    pub fn put(&mut self, id: u64, leaf: Leaf) {
        self.bytes += leaf.memory();
        if let Some(old) = self.leaves.insert(id, Cached { leaf, used: Cell::new(true), turn: Cell::new(self.turn.wrapping_sub(1)) }) {
            self.bytes -= old.leaf.memory();
        } else {
            self.order.push_back(id);
        }
    }
    pub fn remove(&mut self, id: u64) {
        if let Some(old) = self.leaves.remove(&id) {
            self.bytes -= old.leaf.memory();
        }
    }
    /// Lets leaves go until there are at most so many bytes. A turn ends.
    pub fn shrink(&mut self, max: usize) {
        self.turn = self.turn.wrapping_add(1);
        self.seen.set(0);
        let mut looks = self.order.len() * 2;
        // The last two stay, however large: something waits for them, and a scan goes on from the end of one to the next.
        while self.bytes > max && looks > 0 && self.leaves.len() > 2 {
            looks -= 1;
            let Some(id) = self.order.pop_front() else { break };
            match self.leaves.get(&id) {
                Some(_) if self.pinned.contains(&id) => self.order.push_back(id),
                Some(cached) if cached.used.replace(false) => self.order.push_back(id),
                Some(_) => self.remove(id),
                None => {}
            }
        }
    }
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    #[cfg(test)]
    pub fn assert_counts(&self) {
        assert_eq!(self.bytes, self.leaves.values().map(|cached| cached.leaf.memory()).sum::<usize>());
    }
}

#[derive(Debug)]
pub struct Table {
    pub active: Layer,
    pub frozen: Option<Layer>,
    /// Changes to rows of damaged leaves, which no checkpoint could merge: see [`crate::damaged`]. No objects in memory.
    pub beside: Layer,
    pub index: Index,
    pub cache: LeafCache,
}

/// Leaves that a scan asks for at a time, bytes: no more than the smallest cache has room for.
const AHEAD_MAX_BYTES: u64 = 1 << 20;
const _: () = assert!(AHEAD_MAX_BYTES <= crate::config::LEAVES_MIN as u64);

/// A source of a scan, at its next row.
type LayerIter<'a> = std::iter::Peekable<std::collections::btree_map::Range<'a, Key, Val>>;

impl Table {
    pub fn new() -> Self {
        Self { active: Layer::default(), frozen: None, beside: Layer::default(), index: Index::default(), cache: LeafCache::default() }
    }
    /// Bytes of the rows that are in no leaf yet.
    pub fn recent_bytes(&self) -> usize {
        self.active.bytes + self.frozen.as_ref().map_or(0, |frozen| frozen.bytes)
    }

    pub fn get(&self, key: &Key) -> Found {
        for layer in [Some(&self.active), self.frozen.as_ref()].into_iter().flatten() {
            match layer.get(key) {
                Some(Val::Del) => return Found::Absent,
                Some(Val::Row(row)) => return Found::Row(row.clone()),
                Some(Val::Obj(_)) => return Found::Obj,
                None => {}
            }
        }
        self.get_stored(key)
    }
    /// The same for a key that is in no layer: of an object that did not change since it is in the leaves.
    pub fn get_stored(&self, key: &Key) -> Found {
        debug_assert!(self.active.get(key).is_none() && self.frozen.as_ref().is_none_or(|f| f.get(key).is_none()));
        if !self.beside.is_empty() {
            match self.beside.get(key) {
                Some(Val::Row(row)) => return Found::Row(row.clone()),
                Some(Val::Del) => return Found::Absent,
                Some(Val::Obj(_)) => unreachable!("a checkpoint puts rows beside damaged leaves, not objects"),
                None => {}
            }
        }
        let Some(at) = self.index.leaf_of_key(key) else { return Found::Absent };
        if !leaf::may_have(&at.filter, leaf::key_hash(key)) {
            return Found::Absent;
        }
        match self.cache.get(at.id) {
            Some(leaf) => leaf.get(key).map_or(Found::Absent, Found::Row),
            None => Found::Read(at.clone()),
        }
    }

    /// Shows the rows from `first` on and before `last`, ascending, until `visit` breaks. If leaves must be read first, says which: the next
    /// ones that are missing, up to `ahead`; what was shown then is to be forgotten.
    pub fn scan(
        &self,
        first: &[u8],
        last: &[u8],
        ahead: usize,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<(), Vec<LeafRef>> {
        if first >= last {
            return Ok(());
        }
        let range = (Bound::Included(first), Bound::Excluded(last));
        let mut layers: Vec<LayerIter<'_>> = vec![self.active.rows().range::<[u8], _>(range).peekable()];
        layers.extend(self.frozen.as_ref().map(|l| l.rows().range::<[u8], _>(range).peekable()));
        // The order of the iterators above.
        let below = self.frozen.iter().chain((!self.beside.is_empty()).then_some(&self.beside));
        let by_age: SmallVec<[&Layer; 3]> = std::iter::once(&self.active).chain(below).collect();
        layers.extend((!self.beside.is_empty()).then(|| self.beside.rows().range::<[u8], _>(range).peekable()));
        let mut leaves = self.index.leaves_from(first).peekable();
        let mut leaf: Option<(&Leaf, usize)> = None;
        let mut started = false;
        loop {
            // The leaf with the next row.
            while leaf.is_none_or(|(l, row)| row >= l.rows()) {
                let Some((start, at)) = leaves.peek().copied().filter(|(start, _)| *start < last) else {
                    leaf = None;
                    break;
                };
                // A leaf that begins behind the next row of a layer is not needed yet.
                let next = layers.iter_mut().filter_map(|l| l.peek().map(|(k, _)| &***k)).min();
                if started && next.is_some_and(|k| k < start) {
                    leaf = None;
                    break;
                }
                // As far as it is asked for.
                let to = self.index.end_of(start).map_or(last, |end| end.min(last));
                let all_gone = |layer: &Layer| layer.covers_all(start.max(first), to);
                if by_age.iter().any(|layer| all_gone(layer)) {
                    leaves.next();
                    started = true;
                    continue;
                }
                let Some(l) = self.cache.get(at.id) else {
                    let missing = leaves.take_while(|(start, _)| *start < last).filter(|(_, at)| self.cache.get(at.id).is_none());
                    let mut bytes = 0;
                    // The first in any case; leaves of large rows ahead of it would drive each other out of the cache, and the scan would
                    // ask for them for ever.
                    let fits = |(n, (_, at)): &(usize, (_, &LeafRef))| {
                        bytes += u64::from(at.blocks) * BLOCK;
                        *n == 0 || bytes <= AHEAD_MAX_BYTES
                    };
                    let missing = missing.take(ahead.max(1)).enumerate().take_while(fits);
                    return Err(missing.map(|(_, (_, at))| at.clone()).collect());
                };
                leaves.next();
                started = true;
                leaf = Some((l, l.lower_bound(first)));
            }
            let leaf_key = leaf.map(|(l, row)| l.key(row)).filter(|k| *k < last);
            let layer_key = layers.iter_mut().filter_map(|l| l.peek().map(|(k, _)| &***k)).min();
            let key = match (leaf_key, layer_key) {
                (None, None) if leaf.is_none() && leaves.peek().is_some_and(|(start, _)| *start < last) => {
                    // The layers are at their end before the next leaf.
                    started = false;
                    continue;
                }
                (None, None) => return Ok(()),
                (Some(a), Some(b)) => a.min(b),
                (Some(k), None) | (None, Some(k)) => k,
            };
            // The highest layer that has the key or a range over it decides.
            let mut shown = None;
            let mut decided = false;
            for (iter, layer) in layers.iter_mut().zip(&by_age) {
                let here = iter.next_if(|(k, _)| ***k == *key).map(|(_, val)| val);
                if !decided && (here.is_some() || layer.covers(key)) {
                    decided = true;
                    shown = here;
                }
            }
            let from_leaf = leaf.filter(|_| leaf_key == Some(key));
            let flow = match (decided, shown, from_leaf) {
                (true, Some(Val::Row(row)), _) => visit(key, Row::Bytes(row)),
                (true, Some(Val::Obj(slot)), _) => visit(key, Row::Obj(*slot)),
                (false, _, Some((l, row))) => visit(key, Row::Bytes(l.value_bytes(row))),
                _ => ControlFlow::Continue(()),
            };
            if flow.is_break() {
                return Ok(());
            }
            if let Some((l, row)) = from_leaf {
                leaf = Some((l, row + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests;
