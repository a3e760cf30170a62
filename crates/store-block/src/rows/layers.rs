//! Omaps that clones share. To clone an object with a large omap, its rows are frozen as a *layer*; object and clone go on with rows of their own on top
//! of it, and read through to it.
//!
//! ```text
//!   head ──> rows of its own (nid 9) ─┐
//!                                     ├─> layer 5 (parent 2) ──> layer 2 (no parent)
//!   clone ─> rows of its own (nid 8) ─┘        ^
//!   older clone ─> rows of its own (nid 6) ─> layer 2
//! ```
//! - Rows of what has something below it carry a byte in front: 1 and the value, or 0 where the key is removed. The topmost row of a key decides.
//! - A layer never changes. It counts what stands on it, objects and layers; when the last one goes, its rows go, as one removal of a range.
//! - A clone and a removal cost the same whatever the omap's size. A read asks as many layers as there are, a listing merges them, so their number is
//!   bounded ([`DEPTH_MAX`]): the clone that would pass it also copies the head's rows into a layer of their own, a step at a time. To remove a range
//!   of keys from an omap with layers is to remove each, since what lies below may have any.
//! - Small omaps are copied ([`SHARE_MIN`]): to read one through layers costs more than its rows.
//!
//! Layers are in memory whole, and rows of a checkpoint ([`key::LAYER`]) that have copies as those of groups have: only they know what stands on what.
//!
//! To find one takes steps in proportion to the logarithm of how many there are, a question about an omap as many as it has layers,
//! [`DEPTH_MAX`] at most.

use crate::open::layout::BLOCK;
use crate::planted::{Bug, planted};
use crate::rows::codec::{Corrupt, Get, Put};
use crate::rows::key;
use crate::rows::meta::Row;
use crate::rows::meta::layer::Val;
use crate::rows::onode::Onode;
use crate::state::Core;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use store::{StoreError, StoreResult};
use types::{ByteStr, CollId};

/// Bytes of an omap that is shared by its clone; a smaller one is copied.
pub const SHARE_MIN: u64 = if cfg!(test) { 100 } else { 64 << 10 };
/// Layers below an object, at most one more than this.
pub const DEPTH_MAX: usize = if cfg!(test) { 3 } else { 64 };

/// Rows, and bytes of them, that a merge takes from a layer at a time.
const PAGE_ROWS: usize = if cfg!(test) { 3 } else { 256 };
const PAGE_BYTES: usize = 256 << 10;
/// Leaves of one layer that a merge asks for together.
const AHEAD: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layer {
    /// What it stands on; 0: nothing.
    parent: u64,
    /// Objects and layers that stand on it.
    users: u32,
}

/// All layers, by number.
#[derive(Debug, Default)]
pub struct Layers {
    all: BTreeMap<u64, Layer>,
    /// Changed since the last checkpoint took them.
    dirty: BTreeSet<u64>,
}

impl Layers {
    pub fn memory(&self) -> usize {
        const ENTRY_BYTES: usize = 40;
        self.all.len() * ENTRY_BYTES
    }
    /// Layers from this one down; 0 is none.
    fn chain(&self, from: u64) -> impl Iterator<Item = (u64, Option<Layer>)> + '_ {
        let mut next = from;
        std::iter::from_fn(move || {
            let id = next;
            let layer = (id != 0).then(|| self.all.get(&id).copied());
            next = layer.flatten().map_or(0, |layer| layer.parent);
            layer.map(|layer| (id, layer))
        })
    }
    /// Numbers of the layers from this one down.
    pub fn from(&self, base: u64) -> impl Iterator<Item = u64> + '_ {
        self.chain(base).map(|(id, _)| id)
    }
    pub fn depth(&self, base: u64) -> usize {
        self.chain(base).count()
    }
    /// Each with what it stands on, and how many stand on it.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, u32)> + '_ {
        self.all.iter().map(|(id, layer)| (*id, layer.parent, layer.users))
    }
    pub fn has(&self, id: u64) -> bool {
        self.all.contains_key(&id)
    }
    /// One more stands on it.
    pub fn hold(&mut self, id: u64) -> Result<(), Corrupt> {
        self.all.get_mut(&id).ok_or(Corrupt("an omap stands on a layer that is not there"))?.users += 1;
        self.dirty.insert(id);
        Ok(())
    }
    /// Rows become a layer, on which two stand.
    pub fn freeze(&mut self, id: u64, parent: u64) {
        let old = self.all.insert(id, Layer { parent, users: 2 });
        assert!(old.is_none(), "layer {id} is made once");
        self.dirty.insert(id);
    }
    /// One less stands on it: the layers that nothing stands on then.
    pub fn release(&mut self, id: u64) -> Vec<u64> {
        let (mut gone, mut next) = (Vec::new(), id);
        while let Some(layer) = self.all.get_mut(&next) {
            self.dirty.insert(next);
            layer.users -= 1;
            if layer.users > 0 && !planted(Bug::DropSharedLayer) && !(layer.users == 1 && planted(Bug::DropAtTwo)) {
                break;
            }
            gone.push(next);
            next = self.all.remove(&next).expect("it was there").parent;
        }
        gone
    }
    /// Counts as they should be; how many were wrong.
    pub fn recount(&mut self, users: &BTreeMap<u64, u32>) -> usize {
        let mut wrong = 0;
        for (id, layer) in &mut self.all {
            if let Some(n) = users.get(id).filter(|n| **n != layer.users) {
                layer.users = *n;
                self.dirty.insert(*id);
                wrong += 1;
            }
        }
        wrong
    }
    /// Nothing stands on it; how many there were.
    pub fn forget(&mut self, id: u64) -> usize {
        self.dirty.insert(id);
        usize::from(self.all.remove(&id).is_some())
    }
    /// All of them are written with the next checkpoint.
    pub fn renew(&mut self) {
        self.dirty.extend(self.all.keys());
    }
    /// Rows of those that changed.
    pub fn take_dirty(&mut self) -> Vec<(Vec<u8>, Val)> {
        let dirty = std::mem::take(&mut self.dirty);
        let row = |id: u64| match self.all.get(&id) {
            Some(layer) => {
                let mut out = Vec::new();
                out.put_var(layer.parent);
                out.put_var(u64::from(layer.users));
                Val::Row(out.into())
            }
            None => Val::Del,
        };
        let forgets = planted(Bug::ForgetLayers);
        dirty.into_iter().filter(|id| !forgets || id % 2 == 0).map(|id| (key::numbered(key::LAYER, id), row(id))).collect()
    }
    pub fn load(&mut self, key: &[u8], row: Bytes) -> Result<(), Corrupt> {
        let (id, mut get) = (key::parse_numbered(key)?, Get::new(row));
        let layer = Layer { parent: get.var()?, users: get.var()? as u32 };
        // Numbers only grow: what is below was there before.
        if layer.parent >= id {
            return Err(Corrupt("a layer stands on a newer one"));
        }
        self.all.insert(id, layer);
        Ok(())
    }
}

/// Rows of an object or a layer.
#[derive(Debug, Clone, Copy)]
struct Rows {
    nid: u64,
    /// Something is below: rows have a byte in front.
    is_on: bool,
}

impl Rows {
    fn key(&self, key: &[u8]) -> Vec<u8> {
        if self.is_on { key::omap_over(self.nid, key) } else { key::omap_key(self.nid, key) }
    }
    fn end(&self) -> Vec<u8> {
        if self.is_on { key::omap_end(self.nid) } else { key::omap_keys_end(self.nid) }
    }
    fn value(&self, row: Bytes) -> Option<Bytes> {
        match (self.is_on, row.first()) {
            (false, _) => Some(row),
            (true, Some(1)) => Some(row.slice(1..)),
            (true, _) => None,
        }
    }
}
/// A row over others: the value, or that there is none.
pub fn over(value: Option<&[u8]>) -> Bytes {
    value.map_or_else(|| Bytes::from_static(&[0]), |value| [&[1], value].concat().into())
}

/// One of the rows that are merged: what was taken of it, and where the next page begins.
struct Source {
    rows: Rows,
    page: VecDeque<(Vec<u8>, Option<Bytes>)>,
    next: Option<Vec<u8>>,
}

impl Core {
    /// Rows of an omap, the topmost first.
    fn omap_sources(&self, node: &Onode, coll: CollId) -> StoreResult<Vec<Rows>> {
        let mut out = Vec::new();
        if node.omap {
            out.push(Rows { nid: node.nid, is_on: node.base() != 0 });
        }
        for (id, layer) in self.layers.chain(node.base()) {
            let layer = layer.ok_or_else(|| StoreError::Damaged { coll, what: format!("layer {id} of an omap is not there") })?;
            out.push(Rows { nid: id, is_on: layer.parent != 0 });
        }
        Ok(out)
    }
    /// The value of a key of an omap, or its header.
    pub fn omap_row(&mut self, slot: u32, key: Option<&[u8]>, coll: CollId, ticket: &mut u64) -> StoreResult<Option<Bytes>> {
        let Some(node) = self.objects.node(slot) else { return Ok(None) };
        for rows in self.omap_sources(node, coll)? {
            let found = match key {
                Some(key) => self.row_for(&rows.key(key), coll, ticket)?.map(|row| rows.value(row)),
                None => self.row_for(&key::omap_header(rows.nid), coll, ticket)?.map(Some),
            };
            if let Some(value) = found {
                return Ok(value);
            }
        }
        Ok(None)
    }
    /// Bytes of the leaves that may have these keys of an omap.
    pub fn omap_leaves(&self, slot: u32, keys: &[ByteStr]) -> usize {
        let Some(node) = self.objects.node(slot) else { return 0 };
        let all = self.omap_sources(node, CollId::Meta).unwrap_or_default();
        let leaf = |key: Vec<u8>| self.table.index().leaf_of(&key).map(|(_, leaf)| (leaf.id, leaf.blocks));
        let leaves: BTreeMap<u64, u32> = all.iter().flat_map(|rows| keys.iter().filter_map(|key| leaf(rows.key(key.as_slice())))).collect();
        leaves.values().map(|blocks| *blocks as usize * BLOCK as usize).sum()
    }
    /// Shows keys and values from `first` on, ascending, until `visit` breaks.
    pub fn omap_rows(
        &mut self,
        slot: u32,
        first: &[u8],
        coll: CollId,
        ticket: &mut u64,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        let Some(node) = self.objects.node(slot) else { return Ok(()) };
        let all = self.omap_sources(node, coll)?;
        if let [rows] = all[..]
            && !rows.is_on
        {
            return self.rows_for(&rows.key(first), &rows.end(), coll, ticket, &mut |key, row| match row {
                Row::Bytes(row) => visit(&key[key::OMAP_PREFIX..], row),
                Row::Obj(_) => ControlFlow::Continue(()),
            });
        }
        let source = |rows| Source { rows, page: VecDeque::new(), next: Some(first.to_vec()) };
        let mut sources: Vec<Source> = all.into_iter().map(source).collect();
        let mut taken = 0;
        loop {
            let mut missing = Ok(());
            for source in sources.iter_mut().filter(|source| source.page.is_empty()) {
                match self.omap_page(source, coll, ticket, &mut taken) {
                    // The others are asked for with it.
                    Err(StoreError::Wait(n)) => missing = Err(StoreError::Wait(n)),
                    other => other?,
                }
            }
            if missing.is_err() {
                // All begins anew then: what was read must be there still.
                self.hold_leaves(2 * taken + sources.len() * PAGE_BYTES);
                return missing;
            }
            let next = sources.iter().filter_map(|source| source.page.front().map(|(key, _)| key)).min().cloned();
            let Some(key) = next else { return Ok(()) };
            let mut shown: Option<Option<Bytes>> = None;
            for source in &mut sources {
                if let Some((_, value)) = source.page.pop_front_if(|(k, _)| *k == key) {
                    shown.get_or_insert(value);
                }
            }
            if let Some(Some(value)) = shown
                && visit(&key, &value).is_break()
            {
                return Ok(());
            }
        }
    }
    /// The next rows of one source, if it has any.
    fn omap_page(&mut self, source: &mut Source, coll: CollId, ticket: &mut u64, taken: &mut usize) -> StoreResult<()> {
        let Some(first) = &source.next else { return Ok(()) };
        let (rows, mut page, mut bytes) = (source.rows, VecDeque::new(), 0);
        self.rows_ahead(&rows.key(first), &rows.end(), AHEAD, coll, ticket, &mut |key, row| {
            let Row::Bytes(row) = row else { return ControlFlow::Continue(()) };
            bytes += key.len() + row.len();
            page.push_back((key[key::OMAP_PREFIX..].to_vec(), rows.value(Bytes::copy_from_slice(row))));
            if page.len() < PAGE_ROWS && bytes < PAGE_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let is_full = page.len() >= PAGE_ROWS || bytes >= PAGE_BYTES;
        source.next = page.back().filter(|_| is_full).map(|(key, _)| [key, &[0][..]].concat());
        source.page = page;
        *taken += bytes;
        Ok(())
    }
    /// Some keys and values from `first` on, and where to go on if there may be more.
    pub fn omap_some(&mut self, slot: u32, first: &[u8], coll: CollId, ticket: &mut u64) -> StoreResult<(Pairs, Option<Vec<u8>>)> {
        let (mut out, mut bytes) = (Pairs::new(), 0);
        self.omap_rows(slot, first, coll, ticket, &mut |key, value| {
            bytes += key.len() + value.len();
            out.push((key.to_vec(), Bytes::copy_from_slice(value)));
            if out.len() < PAGE_ROWS && bytes < PAGE_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let is_full = out.len() >= PAGE_ROWS || bytes >= PAGE_BYTES;
        let next = out.last().filter(|_| is_full).map(|(key, _)| [key, &[0][..]].concat());
        Ok((out, next))
    }
}

/// Keys with their values.
pub type Pairs = Vec<(Vec<u8>, Bytes)>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_goes_with_the_last_that_stands_on_it() {
        let mut layers = Layers::default();
        layers.freeze(2, 0);
        layers.freeze(5, 2);
        assert_eq!((layers.depth(5), layers.depth(2), layers.depth(0)), (2, 1, 0));
        layers.hold(2).expect("it is there");
        assert!(layers.hold(3).is_err());
        assert_eq!(layers.release(5), []);
        assert_eq!(layers.release(5), [5]);
        assert_eq!(layers.release(2), []);
        assert_eq!(layers.release(2), [2]);
        assert!(layers.iter().next().is_none() && layers.take_dirty().iter().all(|(_, val)| matches!(val, Val::Del)));
        // As they are stored.
        layers.freeze(7, 2);
        let mut again = Layers::default();
        for (key, val) in layers.take_dirty() {
            let Val::Row(row) = val else { panic!("it is there") };
            again.load(&key, row).expect("a row");
        }
        assert_eq!(again.all, layers.all);
        assert!(again.load(&key::numbered(key::LAYER, 2), Bytes::from_static(&[2, 1])).is_err(), "on itself");
        assert_eq!((again.recount(&BTreeMap::from([(7, 3)])), again.recount(&BTreeMap::from([(7, 3)])), again.forget(7)), (1, 0, 1));
    }
}
