//! The metadata: rows sorted by key. Recent changes are in memory, in layers; the rest is in leaves on the device, found through an index in
//! memory and read on demand through a cache.
//!
//! ```text
//!   get ──> active ──> frozen (while a checkpoint writes it) ──> beside (damaged leaves' changes) ──> index ──> leaf (cache, or a read)
//! ```
//! Holds no row's meaning, and starts no input or output: it says which leaf it needs.
//!
//! To find a row takes steps in proportion to the logarithm of how many there are. A scan takes one for each row that it shows, and one for
//! each that was removed alone; what a range of removals covers, rows and leaves, it passes over at once. Where what is removed alone is
//! always what comes first, as in a queue, a scan that stepped over many leaves a range in their place ([`Passed`]).

pub mod blocks;
mod cache;
pub mod entry;
pub mod index;
pub mod layer;
pub mod leaf;
mod own;
pub mod parts;
pub mod space;

use crate::open::layout::BLOCK;
use crate::planted::{Bug, planted};
use crate::rows::counter::Steps;
use crate::rows::key;
use bytes::Bytes;
use cache::LeafCache;
use entry::{Entry, LeafRef};
use index::Index;
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

/// Rows that a scan stepped over in front of the first one that it showed.
#[derive(Debug, Default)]
pub struct Passed {
    /// Rows that were removed one by one.
    rows: usize,
    /// Where they are many: the key of the first row that was shown; `None`: none was.
    first: Option<Key>,
    has_shown: bool,
}

impl Passed {
    /// A row is shown, or is not, since it was removed.
    fn note(&mut self, key: &[u8], is_shown: bool) {
        if self.has_shown {
            return;
        }
        self.has_shown = is_shown;
        if is_shown {
            self.first = (self.rows >= SWEEP_ROWS).then(|| key.into());
        } else {
            self.rows += 1;
        }
    }
}

/// A scan that has stepped over so many rows is to make a range of them.
const SWEEP_ROWS: usize = if cfg!(test) { 2 } else { 64 };

#[derive(Debug)]
pub struct Table {
    /// Changes since the last checkpoint began.
    active: Layer,
    /// What a checkpoint writes.
    frozen: Option<Layer>,
    /// Changes to rows of damaged leaves, which no checkpoint could merge: see [`crate::check::damaged`]. No objects in memory.
    beside: Layer,
    /// Every leaf; those that are in memory are in the cache.
    index: Index,
    cache: LeafCache,
    /// Rows and leaves that scans looked at.
    steps: Steps,
}

/// Leaves that a scan asks for at a time, bytes: no more than the smallest cache has room for.
const AHEAD_MAX_BYTES: u64 = 1 << 20;
const _: () = assert!(AHEAD_MAX_BYTES <= crate::open::config::LEAVES_MIN as u64);

/// A source of a scan, at its next row.
type LayerIter<'a> = std::iter::Peekable<std::collections::btree_map::Range<'a, Key, Val>>;

impl Table {
    pub fn new() -> Self {
        Self {
            active: Layer::default(),
            frozen: None,
            beside: Layer::default(),
            index: Index::default(),
            cache: LeafCache::default(),
            steps: Steps::default(),
        }
    }
    #[cfg(test)]
    pub fn take_steps(&self) -> u64 {
        self.steps.take() + self.active.take_steps()
    }

    /// A scan from `first` to before `last` passed over many removed rows: a removal of all of them is in their place from now on, which
    /// changes nothing of what is there. Not of objects: those in memory are found by their rows.
    pub fn sweep(&mut self, first: &[u8], last: &[u8], passed: &Passed) {
        if passed.rows < SWEEP_ROWS || first.first() == Some(&key::OBJECT) {
            return;
        }
        match &passed.first {
            Some(shown) if planted(Bug::SweepTooFar) => self.active.remove_range(first, &[&shown[..], &[0]].concat()),
            Some(shown) => self.active.remove_range(first, shown),
            None => self.active.remove_range(first, last),
        }
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
    /// The index, to say how it is stored.
    pub fn index_mut(&mut self) -> &mut Index {
        &mut self.index
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
    pub fn add_leaf(&mut self, first: &[u8], at: &LeafRef, filter: &[u8], leaf: Leaf) {
        self.cache.put(at.id, leaf);
        self.cache.pin(at.id);
        self.index.insert(first, at, filter);
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
        let Some((_, at)) = self.index.leaf_of_key(key) else { return Found::Absent };
        if !leaf::may_have(at.filter, leaf::key_hash(key)) {
            return Found::Absent;
        }
        match self.cache.get(at.id) {
            Some(leaf) => leaf.get(key).map_or(Found::Absent, Found::Row),
            None => Found::Read(at.leaf()),
        }
    }

    /// Of these leaves, the next ones that are not in memory: the first in any case, and others up to `ahead` of the usual size.
    fn missing<'a>(&self, leaves: impl Iterator<Item = Entry<'a>>, ahead: usize) -> Vec<LeafRef> {
        let (mut bytes, most) = (0, AHEAD_MAX_BYTES.min((ahead * leaf::TARGET) as u64));
        // Leaves of large rows ahead of the first would drive each other out of the cache, and the scan would ask for them for ever.
        let fits = |(n, at): &(usize, Entry)| {
            bytes += u64::from(at.blocks) * BLOCK;
            *n == 0 || bytes <= most
        };
        let missing = leaves.filter(|at| self.cache.get(at.id).is_none()).enumerate();
        missing.take_while(fits).map(|(_, at)| at.leaf()).collect()
    }

    /// The layers, the newest first, and the rows of a range that each of them has.
    fn layers(&self, first: &[u8], last: &[u8]) -> (Vec<LayerIter<'_>>, SmallVec<[&Layer; 3]>) {
        let beside = (!self.beside.is_empty()).then_some(&self.beside);
        let by_age: SmallVec<[&Layer; 3]> = std::iter::once(&self.active).chain(&self.frozen).chain(beside).collect();
        (by_age.iter().map(|layer| rows_of(layer, first, last)).collect(), by_age)
    }

    /// Shows the rows from `first` on and before `last`, ascending, until `visit` breaks, and says what it passed in front of them. If
    /// leaves must be read first, says which: the next ones that are missing, up to `ahead`; what was shown then is to be forgotten.
    pub fn scan(
        &self,
        first: &[u8],
        last: &[u8],
        ahead: usize,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<Passed, Vec<LeafRef>> {
        let mut passed = Passed::default();
        if first >= last {
            return Ok(passed);
        }
        let (mut layers, by_age) = self.layers(first, last);
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
                self.steps.add(1);
                // As far as it is asked for.
                let to = self.index.end_of(start).map_or(last, |end| end.min(last));
                if let Some(end) = gone_to(&by_age, start.max(first), to) {
                    // With all those behind it that end within the same removals.
                    if to < last {
                        leaves = self.index.leaves_from(end).peekable();
                    } else {
                        leaves.next();
                    }
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
                (None, None) => return Ok(passed),
                (Some(a), Some(b)) => a.min(b),
                (Some(k), None) | (None, Some(k)) => k,
            };
            self.steps.add(1);
            let said = newest(&mut layers, &by_age, key);
            let from_leaf = leaf.filter(|_| leaf_key == Some(key));
            let row = said.row(from_leaf);
            passed.note(key, row.is_some());
            if row.is_some_and(|row| visit(key, row).is_break()) {
                return Ok(passed);
            }
            if let Some((l, row)) = from_leaf {
                leaf = Some((l, row + 1));
            }
            if let Newest::Gone(end, below) = said {
                // All that is older and in the same removals.
                let to = (&**end).min(last);
                pass(&mut layers[below..], &by_age[below..], to, last);
                leaf = leaf.map(|(l, row)| (l, l.lower_bound_from(row, to)));
            }
        }
    }
}

fn rows_of<'a>(layer: &'a Layer, first: &[u8], last: &[u8]) -> LayerIter<'a> {
    layer.rows().range::<[u8], _>((Bound::Included(first), Bound::Excluded(last))).peekable()
}
/// The farthest end of removals that have all keys from `from` to before `to`.
fn gone_to<'a>(by_age: &[&'a Layer], from: &[u8], to: &[u8]) -> Option<&'a Key> {
    by_age.iter().filter_map(|layer| layer.covered_to(from)).filter(|end| ***end >= *to).max()
}

/// The newest word of the layers on a key.
#[derive(Debug, Clone, Copy)]
enum Newest<'a> {
    /// None of them says anything.
    Unknown,
    /// The highest that says something has this.
    Here(&'a Val),
    /// The highest that says something has a range of removals that ends here; from this one on, layers are older.
    Gone(&'a Key, usize),
}

impl<'a> Newest<'a> {
    /// The row, if there is one; `from_leaf`: the leaf's, if that has the key.
    fn row(self, from_leaf: Option<(&'a Leaf, usize)>) -> Option<Row<'a>> {
        match (self, from_leaf) {
            (Self::Here(Val::Row(row)), _) => Some(Row::Bytes(row)),
            (Self::Here(Val::Obj(slot)), _) => Some(Row::Obj(*slot)),
            (Self::Unknown, Some((leaf, row))) => Some(Row::Bytes(leaf.value_bytes(row))),
            _ => None,
        }
    }
}

/// Goes on with rows from `to` on.
fn pass<'a>(layers: &mut [LayerIter<'a>], by_age: &[&'a Layer], to: &[u8], last: &[u8]) {
    for (iter, layer) in layers.iter_mut().zip(by_age) {
        if iter.peek().is_some_and(|(k, _)| ***k < *to) {
            *iter = rows_of(layer, to, last);
        }
    }
}

/// Takes the word of the highest layer that has a key, or a range over it. All step over the key.
fn newest<'a>(layers: &mut [LayerIter<'a>], by_age: &[&'a Layer], key: &[u8]) -> Newest<'a> {
    let mut newest = Newest::Unknown;
    for (n, (iter, layer)) in layers.iter_mut().zip(by_age).enumerate() {
        let here = iter.next_if(|(k, _)| ***k == *key).map(|(_, val)| val);
        if matches!(newest, Newest::Unknown) {
            newest = match here {
                Some(val) => Newest::Here(val),
                None => layer.covered_to(key).map_or(Newest::Unknown, |end| Newest::Gone(end, n + 1)),
            };
        }
    }
    newest
}

#[cfg(test)]
mod tests;
