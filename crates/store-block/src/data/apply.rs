//! What each change of a record does to the state: the same when it happens and when it is replayed.
//!
//! A replayed change can be wrong only if we wrote it wrong or the log lies: that is an error, not a panic.

use crate::data::ops::{self, Op};
use crate::data::overlay::Overlay;
use crate::place::alloc::Alloc;
use crate::planted::{Bug, planted};
use crate::rows::attr_cells::Large;
use crate::rows::codec::{Corrupt, Get};
use crate::rows::colls;
use crate::rows::key;
use crate::rows::layers::over;
use crate::rows::meta::layer::Val;
use crate::rows::onode::{Chunk, Hint, Onode, Usage, get_unwritten};
use crate::state::Core;
use bytes::Bytes;
use smallvec::SmallVec;

/// Where in a record the changes are.
#[derive(Debug, Clone, Copy)]
pub struct At {
    pub seq: u64,
    /// The object that changes are to.
    pub slot: u32,
    /// Images before this change.
    pub images: u32,
    /// For directly written blocks: the run and its block, while the record is open; `None` when it is replayed.
    pub run: Option<(u32, u32)>,
}

const NOT_OWN: Corrupt = Corrupt("a block is written that is not the object's own");
const GONE: Corrupt = Corrupt("a change is to an object that is not there");

/// A place is an object's from now on.
fn give(alloc: &mut Alloc, overlay: &mut Overlay, place: u64, slots: u64) -> Result<(), Corrupt> {
    if !alloc.is_free(place, slots) {
        return Err(Corrupt("a place is given to a second object"));
    }
    alloc.take(place, slots);
    if !planted(Bug::KeepFreedImage) {
        overlay.drop_blocks(place, slots);
    }
    Ok(())
}

impl Core {
    /// The object's node, to be changed.
    fn node_mut(&mut self, slot: u32) -> Result<&mut Onode, Corrupt> {
        self.touch(slot);
        self.objects.get_mut(slot).node.as_deref_mut().ok_or(GONE)
    }

    /// Places are not the object's any more.
    fn let_go(&mut self, seq: u64, slot: u32, gone: &[Chunk]) {
        for chunk in gone {
            let (place, slots) = (chunk.place, chunk.slots());
            if chunk.shared && !self.refs.release(place) {
                self.count_again(slot, -(slots as i64));
                continue;
            }
            if !planted(Bug::KeepFreedImage) {
                self.overlay.drop_blocks(place, slots);
            }
            self.alloc.free(seq, place, slots);
            if planted(Bug::ReuseFreedEarly) {
                self.alloc.release(u64::MAX, |_, _| false);
            }
        }
    }
    /// All of an object's chunks and rows go.
    fn remove_node(&mut self, seq: u64, slot: u32) {
        self.touch(slot);
        if let Some(node) = self.objects.get_mut(slot).node.take() {
            self.let_go(seq, slot, &node.chunks);
            self.remove_omap(&node);
        }
    }
    /// The rows of an omap go, and it stands on nothing any more.
    fn remove_omap(&mut self, node: &Onode) {
        if node.omap {
            self.table.remove_range(&key::omap(node.nid), &key::omap_end(node.nid));
        }
        if node.base() != 0 {
            for gone in self.layers.release(node.base()) {
                self.table.remove_range(&key::omap(gone), &key::omap_end(gone));
            }
        }
    }

    pub fn apply<B: AsRef<[u8]>>(&mut self, at: At, op: &Op<B>) -> Result<(), Corrupt> {
        let slot = at.slot;
        match op {
            Op::Object(_) => {}
            Op::Create { nid } => {
                self.objects.gave_nid(*nid);
                self.touch(slot);
                let entry = self.objects.get_mut(slot);
                if entry.node.is_none() {
                    entry.node = Some(Box::new(Onode::new(*nid)));
                    self.count(slot, Usage::default());
                }
            }
            Op::Remove => {
                let before = self.objects.usage(slot);
                self.remove_node(at.seq, slot);
                self.count(slot, before);
            }
            Op::Size(size) => {
                let before = self.objects.usage(slot);
                self.node_mut(slot)?.size = *size;
                self.count(slot, before);
            }
            Op::Map { cell, place, slots } => {
                let before = self.objects.usage(slot);
                give(&mut self.alloc, &mut self.overlay, *place, *slots)?;
                let had = self.node_mut(slot)?.replace(*cell, Some(Chunk::new(*cell, *place, *slots)));
                self.let_go(at.seq, slot, &had);
                self.count(slot, before);
            }
            Op::Part { cell, first, place, slots } => {
                let before = self.objects.usage(slot);
                give(&mut self.alloc, &mut self.overlay, *place, *slots)?;
                self.node_mut(slot)?.add(Chunk::part(*cell, *first, *place, *slots));
                self.count(slot, before);
            }
            Op::Unmap { cell } => {
                let before = self.objects.usage(slot);
                let had = self.node_mut(slot)?.replace(*cell, None);
                self.let_go(at.seq, slot, &had);
                self.count(slot, before);
            }
            Op::Image { cell, block, at: place, crc } => {
                self.set_block(at.seq, slot, *cell, *block, *place, *crc)?;
                self.overlay.set_image(*place, at.seq, at.images);
            }
            Op::Direct { cell, block, at: place, crcs } => {
                for (i, crc) in crcs.as_ref().chunks_exact(4).enumerate() {
                    let crc = u32::from_le_bytes(crc.try_into().expect("four bytes"));
                    let here = place + i as u64;
                    self.set_block(at.seq, slot, *cell, block + i as u64, here, crc)?;
                    match at.run {
                        Some((run, first)) => self.overlay.set_run(here, at.seq, run, first + i as u32),
                        None if planted(Bug::KeepFreedImage) => {}
                        None => self.overlay.drop_blocks(here, 1),
                    }
                }
            }
            Op::Clear { cell, mask } => {
                let node = self.node_mut(slot)?;
                if node.find(*cell).is_empty() {
                    return Err(Corrupt("blocks are cleared in a cell without a place"));
                }
                let own = node.places(*cell).iter().filter(|chunk| !chunk.shared);
                let cleared = own.flat_map(|chunk| chunk.blocks().filter(|block| mask & 1 << block != 0).map(|block| chunk.at(block)));
                let cleared: SmallVec<[u64; 16]> = cleared.collect();
                cleared.into_iter().for_each(|block| self.overlay.drop_blocks(block, 1));
                self.clear_blocks(at.seq, slot, *cell, *mask, None)?;
            }
            Op::Spoil { cell, block } => {
                let node = self.node_mut(slot)?;
                let places = node.find(*cell);
                let own = |chunk: &&mut Chunk| !chunk.shared && chunk.blocks().contains(block);
                let holds = node.places(*cell).iter().position(|chunk| chunk.has(*block)).map(|n| places.start + n);
                let chunk = match holds {
                    Some(n) => node.chunks.get_mut(n).filter(own),
                    None => node.chunks[places].iter_mut().find(own),
                };
                chunk.ok_or(NOT_OWN)?.set(*block, crate::open::layout::SPOILED);
            }
            Op::Unshare { cell } | Op::UnsharePart { cell, .. } => {
                let is_it = |chunk: &&mut Chunk| !matches!(op, Op::UnsharePart { place, .. } if *place != chunk.place);
                let node = self.node_mut(slot)?;
                let places = node.find(*cell);
                let chunk = node.chunks[places].iter_mut().find(is_it).ok_or(Corrupt("a place is unshared that its cell has not"))?;
                chunk.shared = false;
                let place = chunk.place;
                if self.refs.unshare(place) != Some(1) {
                    return Err(Corrupt("a chunk is unshared that others share"));
                }
            }
            Op::Unwritten(ranges) => {
                let unwritten = get_unwritten(&mut Get::new(ranges.as_ref()))?;
                self.node_mut(slot)?.set_unwritten(unwritten);
            }
            Op::SetAttr { name, value } => {
                let node = self.node_mut(slot)?;
                node.attrs.set(name.as_ref(), value.as_ref());
                node.forget_large(name.as_ref());
            }
            Op::LargeAttr { name, index, len } => {
                let large = Large::new(name.as_ref(), *index, *len)?;
                let node = self.node_mut(slot)?;
                node.attrs.remove(name.as_ref());
                node.set_large(large);
            }
            Op::PatchAttr { name, runs } => {
                let node = self.node_mut(slot)?;
                let value = node.attrs.get_mut(name.as_ref()).ok_or(GONE)?;
                ops::patch(value, runs.as_ref())?;
            }
            Op::RmAttr { name } => {
                let node = self.node_mut(slot)?;
                node.attrs.remove(name.as_ref());
                node.forget_large(name.as_ref());
            }
            Op::RmAttrs => {
                let node = self.node_mut(slot)?;
                node.attrs.clear();
                node.forget_all_large();
            }
            Op::Hint { object_size, write_size, flags } => {
                self.node_mut(slot)?.set_hint(Hint { object_size: *object_size, write_size: *write_size, flags: *flags });
            }
            Op::OmapSet { key, value } => {
                let more = (key.as_ref().len() + value.as_ref().len()) as u64;
                let (nid, base) = self.omap_grows(slot, more)?;
                if base == 0 {
                    let row = Val::Row(Bytes::copy_from_slice(value.as_ref()));
                    self.table.put(&key::omap_key(nid, key.as_ref()), row);
                } else {
                    self.table.put(&key::omap_over(nid, key.as_ref()), Val::Row(over(Some(value.as_ref()))));
                }
            }
            Op::OmapHeader(header) => {
                let (nid, _) = self.omap_grows(slot, header.as_ref().len() as u64)?;
                self.table.put(&key::omap_header(nid), Val::Row(Bytes::copy_from_slice(header.as_ref())));
            }
            Op::OmapRm { key } => {
                let node = self.node_mut(slot)?;
                if node.base() == 0 {
                    let nid = node.nid;
                    self.table.put(&key::omap_key(nid, key.as_ref()), Val::Del);
                } else {
                    let (nid, _) = self.omap_grows(slot, key.as_ref().len() as u64)?;
                    self.table.put(&key::omap_over(nid, key.as_ref()), Val::Row(over(None)));
                }
            }
            Op::OmapRmRange { first, last } => {
                let node = self.node_mut(slot)?;
                if node.base() != 0 {
                    return Err(Corrupt("a range is removed from an omap that stands on a layer"));
                }
                let nid = node.nid;
                self.table.remove_range(&key::omap_key(nid, first.as_ref()), &key::omap_key(nid, last.as_ref()));
            }
            Op::OmapClear => {
                let before = self.objects.usage(slot);
                let node = self.node_mut(slot)?;
                let mut was = Onode::on(node.nid, node.base());
                was.omap = node.omap;
                (node.omap, node.omap_bytes) = (false, 0);
                node.set_base(0);
                self.remove_omap(&was);
                self.count(slot, before);
            }
            Op::CloneTo { key, nid } => {
                let to = self.slot_of_key(key.as_ref())?;
                self.clone_to(at.seq, slot, to, *nid)?;
            }
            Op::ShareTo { key, nid, own } => {
                let to = self.slot_of_key(key.as_ref())?;
                self.clone_to(at.seq, slot, to, *nid)?;
                self.share_omap(slot, to, *own)?;
            }
            Op::RenameTo(key) => {
                let to = self.slot_of_key(key.as_ref())?;
                let (before, before_to) = (self.objects.usage(slot), self.objects.usage(to));
                self.remove_node(at.seq, to);
                self.touch(slot);
                let node = self.objects.get_mut(slot).node.take().ok_or(GONE)?;
                self.objects.get_mut(to).node = Some(node);
                self.count(slot, before);
                self.count(to, before_to);
            }
            Op::MkColl { coll, bits } => {
                let coll = Bytes::copy_from_slice(coll.as_ref());
                self.colls.set(ops::parse_coll(&coll)?, *bits);
                self.table.put(&colls::row_key(&coll), colls::row(*bits));
            }
            Op::RmColl { coll } => {
                let coll = Bytes::copy_from_slice(coll.as_ref());
                self.colls.remove(ops::parse_coll(&coll)?);
                self.table.put(&colls::row_key(&coll), Val::Del);
            }
            Op::Spill { .. } => return Err(Corrupt("a record's changes are beside those that are beside it")),
            Op::Log(delta) => self.groups.apply(Bytes::copy_from_slice(delta.as_ref()), &mut self.table)?,
        }
        Ok(())
    }

    /// A block of a cell has this content now, in that place of the cell's and in no other.
    fn set_block(&mut self, seq: u64, slot: u32, cell: u64, block: u64, place: u64, crc: u32) -> Result<(), Corrupt> {
        let node = self.node_mut(slot)?;
        let places = node.find(cell);
        let is_here = |chunk: &Chunk| !chunk.shared && chunk.blocks().contains(&block) && chunk.at(block) == place;
        let n = node.chunks[places.clone()].iter().position(is_here).ok_or(NOT_OWN)? + places.start;
        node.chunks[n].set(block, crc);
        if places.len() > 1 && !planted(Bug::KeepReplaced) && !(places.len() == 2 && planted(Bug::KeepLastReplaced)) {
            self.clear_blocks(seq, slot, cell, 1 << block, Some(n))?;
        }
        Ok(())
    }
    /// Blocks are in no place of their cell any more, but for the one with this number.
    fn clear_blocks(&mut self, seq: u64, slot: u32, cell: u64, mask: u16, but: Option<usize>) -> Result<(), Corrupt> {
        let before = self.objects.usage(slot);
        let gone = self.node_mut(slot)?.clear(cell, mask, but);
        if !gone.is_empty() {
            self.let_go(seq, slot, &gone);
            self.count(slot, before);
        }
        Ok(())
    }
    /// The number of the omap's own rows, and the layer that it stands on.
    fn omap_grows(&mut self, slot: u32, by: u64) -> Result<(u64, u64), Corrupt> {
        let before = self.objects.usage(slot);
        let node = self.node_mut(slot)?;
        node.omap = true;
        node.omap_bytes += by;
        let numbers = (node.nid, node.base());
        self.count(slot, before);
        Ok(numbers)
    }
    /// An object and its clone, which has none yet, share the object's omap.
    fn share_omap(&mut self, from: u32, to: u32, own: u64) -> Result<(), Corrupt> {
        self.objects.gave_nid(own);
        let before = self.objects.usage(to);
        let node = self.node_mut(from)?;
        let (nid, parent, bytes) = (node.nid, node.base(), node.omap_bytes);
        let base = if own == 0 {
            if node.omap {
                return Err(Corrupt("an omap is shared that is no layer"));
            }
            self.layers.hold(parent)?;
            parent
        } else {
            if own <= nid || parent >= nid {
                return Err(Corrupt("an omap is shared under an older number"));
            }
            node.omap = false;
            if !planted(Bug::WriteLayer) {
                node.nid = own;
            }
            node.set_base(nid);
            self.layers.freeze(nid, parent);
            nid
        };
        let copy = self.node_mut(to)?;
        copy.set_base(base);
        copy.omap_bytes = bytes;
        self.count(to, before);
        Ok(())
    }
    fn clone_to(&mut self, seq: u64, from: u32, to: u32, nid: u64) -> Result<(), Corrupt> {
        self.objects.gave_nid(nid);
        let before = self.objects.usage(to);
        self.remove_node(seq, to);
        let node = self.node_mut(from)?;
        node.chunks.iter_mut().for_each(|c| c.shared = !planted(Bug::WriteSharedInPlace));
        node.chunks.last_mut().into_iter().for_each(|c| c.shared = c.shared && !planted(Bug::WriteLastShared));
        let mut copy = node.clone();
        (copy.nid, copy.omap, copy.omap_bytes) = (nid, false, 0);
        copy.set_base(0);
        for chunk in &copy.chunks {
            self.refs.hold(chunk.place);
        }
        self.count_again(to, copy.blocks as i64);
        self.objects.get_mut(to).node = Some(Box::new(copy));
        self.count(to, before);
        Ok(())
    }
    /// The slot of an object that was made sure to be in memory.
    fn slot_of_key(&mut self, key: &[u8]) -> Result<u32, Corrupt> {
        key::check_object(key)?;
        self.objects.find_key(key).ok_or(Corrupt("an object is named before it is loaded"))
    }
}
