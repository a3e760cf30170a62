//! The metadata: rows sorted by key. Recent changes are in memory, in layers; the rest is in leaves on the device, found through an index in
//! memory and read on demand through a cache.
//!
//! ```text
//!   get ──> active ──> frozen (while a checkpoint writes it) ──> beside (damaged leaves' changes) ──> index ──> leaf (cache, or a read)
//! ```
//! Holds no row's meaning, and starts no input or output: it says which leaf it needs.

mod cache;
pub mod index;
pub mod layer;
pub mod leaf;
mod own;
pub mod space;

use crate::layout::BLOCK;
use bytes::Bytes;
use cache::LeafCache;
use index::{Index, LeafRef};
use layer::{Key, Layer, Val};
use leaf::Leaf;
use smallvec::SmallVec;
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
pub struct Table {
    /// Changes since the last checkpoint began.
    active: Layer,
    /// What a checkpoint writes.
    frozen: Option<Layer>,
    /// Changes to rows of damaged leaves, which no checkpoint could merge: see [`crate::damaged`]. No objects in memory.
    beside: Layer,
    /// Every leaf; those that are in memory are in the cache.
    index: Index,
    cache: LeafCache,
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
        self.active.bytes() + self.frozen.as_ref().map_or(0, Layer::bytes)
    }

    /// Changes since the last checkpoint began.
    pub fn active(&self) -> &Layer {
        &self.active
    }
    pub fn put(&mut self, key: &[u8], val: Val) {
        self.active.put(key, val);
    }
    pub fn put_key(&mut self, key: Key, val: Val) {
        self.active.put_key(key, val);
    }
    pub fn remove_range(&mut self, first: &[u8], last: &[u8]) {
        self.active.remove_range(first, last);
    }

    /// A checkpoint begins: it writes what has changed, and changes from now on are the next one's.
    pub fn freeze(&mut self) {
        assert!(self.frozen.is_none(), "one checkpoint is under way at a time");
        self.frozen = Some(std::mem::take(&mut self.active));
    }
    /// What a checkpoint writes; not while [`Table::take_frozen`] has it.
    pub fn frozen(&self) -> Option<&Layer> {
        self.frozen.as_ref()
    }
    /// What a checkpoint writes, while some of it is merged; no row is looked for meanwhile. [`Table::put_frozen`] comes next, unless all is done.
    pub fn take_frozen(&mut self) -> Layer {
        self.frozen.take().expect("a checkpoint has frozen rows")
    }
    pub fn put_frozen(&mut self, frozen: Layer) {
        self.frozen = Some(frozen);
    }
    /// An object changes that the checkpoint has not written yet: it will want what the key had.
    pub fn settle(&mut self, key: &Key, val: Val) {
        if let Some(frozen) = &mut self.frozen {
            frozen.settle(key, val);
        }
    }

    /// Changes to rows of damaged leaves.
    pub fn beside(&self) -> &Layer {
        &self.beside
    }
    /// As it was at the last checkpoint.
    pub fn load_beside(&mut self, beside: Layer) {
        self.beside = beside;
    }
    pub fn put_beside(&mut self, key: Key, row: Option<Bytes>) {
        self.beside.put_key(key, row.map_or(Val::Del, Val::Row));
    }
    pub fn remove_beside(&mut self, first: &[u8], last: &[u8]) {
        self.beside.remove_range(first, last);
    }
    /// What lies beside a leaf from `start` to before `end` goes below the changes of this layer.
    pub fn underlay_beside(&mut self, above: &mut Layer, start: &Key, end: &Key) {
        above.underlay(&self.beside, start, end);
        self.beside.forget(start, end);
    }
    /// All that lies beside leaves becomes a change that is older than the others: the leaves are gone.
    pub fn settle_beside(&mut self, first: &Key, last: &Key) {
        if !self.beside.is_empty() {
            let lain = std::mem::take(&mut self.beside);
            self.active.underlay(&lain, first, last);
        }
    }

    pub fn index(&self) -> &Index {
        &self.index
    }
    pub fn load_index(&mut self, index: Index) {
        self.index = index;
    }
    /// A leaf, if it is in memory.
    pub fn leaf(&self, id: u64) -> Option<&Leaf> {
        self.cache.get(id)
    }
    pub fn leaves(&self) -> &LeafCache {
        &self.cache
    }
    /// A leaf was read.
    pub fn leaf_came(&mut self, id: u64, leaf: Leaf) {
        self.cache.put(id, leaf);
    }
    /// A leaf is made, and found from now on; it stays in memory until [`Table::leaf_written`].
    pub fn add_leaf(&mut self, first: &[u8], at: LeafRef, leaf: Leaf) {
        self.cache.put(at.id, leaf);
        self.cache.pin(at.id);
        self.index.insert(first, at);
    }
    pub fn leaf_written(&mut self, id: u64) {
        self.cache.unpin(id);
    }
    /// The leaf that begins here is not found any more.
    pub fn drop_leaf(&mut self, start: &Key) -> Option<LeafRef> {
        let leaf = self.index.remove(start)?;
        self.cache.remove(leaf.id);
        Some(leaf)
    }
    /// Lets leaves go until there are at most so many bytes. A turn ends.
    pub fn shrink_leaves(&mut self, max: usize) {
        self.cache.shrink(max);
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

    /// Of these leaves, the next ones that are not in memory: the first in any case, and others up to `ahead`.
    fn missing<'a>(&self, leaves: impl Iterator<Item = &'a LeafRef>, ahead: usize) -> Vec<LeafRef> {
        let mut bytes = 0;
        // Leaves of large rows ahead of the first would drive each other out of the cache, and the scan would ask for them for ever.
        let fits = |(n, at): &(usize, &LeafRef)| {
            bytes += u64::from(at.blocks) * BLOCK;
            *n == 0 || bytes <= AHEAD_MAX_BYTES
        };
        let missing = leaves.filter(|at| self.cache.get(at.id).is_none()).take(ahead.max(1)).enumerate();
        missing.take_while(fits).map(|(_, at)| at.clone()).collect()
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
                    return Err(self.missing(leaves.take_while(|(start, _)| *start < last).map(|(_, at)| at), ahead));
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
            let (decided, shown) = newest(&mut layers, &by_age, key);
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

/// What the layers have at a key, and whether one decides it: the highest that has the key, or a range over it. All step over the key.
fn newest<'a>(layers: &mut [LayerIter<'a>], by_age: &[&Layer], key: &[u8]) -> (bool, Option<&'a Val>) {
    let (mut decided, mut shown) = (false, None);
    for (iter, layer) in layers.iter_mut().zip(by_age) {
        let here = iter.next_if(|(k, _)| ***k == *key).map(|(_, val)| val);
        if !decided && (here.is_some() || layer.covers(key)) {
            (decided, shown) = (true, here);
        }
    }
    (decided, shown)
}

#[cfg(test)]
mod tests;
