//! Objects that are in memory, by name: those that changed since the last checkpoint took them, and others as long as there is room.
//!
//! That a name has no object is remembered too: the next thing that happens to such a name is often that it gets one.
//!
//! ```text
//!        insert                  unused, or new                      unused, in a leaf
//!   ──────────────> as it is ─────────────────────────> packed ─────────────────────────> gone
//!                      ^   to change it: unpack           │ to read it: look, at an unpacked copy
//!                      └──────────────────────────────────┘
//! ```
//! To find a name and to put one in takes a few steps, however many are known: names are in tables that grow one by one (`names`). A turn
//! looks at a bounded number of slots, at the more the more names have come.

use crate::open::layout::{CHUNK_BLOCKS, SPOILED};
use crate::rows::key;
use crate::rows::names::Names;
use crate::rows::onode::{Onode, Usage};
use crate::rows::packed::{self, PLAIN, PatternId, Patterns};
use smallvec::SmallVec;
use std::hint::black_box;
use types::{GHObject, HObject, NO_GEN};

/// What is known of one name. Small: a look for an object reads a table, one of these, and the key.
#[derive(Debug)]
pub struct Slot {
    /// The name, as the key of its row; see [`key::object`]. Of an object that is packed, all of it; see [`packed`].
    bytes: Box<[u8]>,
    /// `None`: there is no such object, or it is packed.
    pub node: Option<Box<Onode>>,
    hash: u32,
    /// The generation of the checkpoint that will have its last change; 0 if it did not change in memory.
    changed: u32,
    /// As counted in `Objects::bytes`.
    counted: u32,
    /// What it is packed by.
    pattern: PatternId,
    used: bool,
}
const _: () = assert!(size_of::<Slot>() <= 40);

impl Slot {
    fn is_packed(&self) -> bool {
        self.pattern != PLAIN
    }
    fn is_there(&self) -> bool {
        self.node.is_some() || self.is_packed()
    }
    /// The name of one that is not packed; see [`Objects::unpack`].
    pub fn key(&self) -> &[u8] {
        assert!(!self.is_packed(), "what is packed is not asked for its name");
        &self.bytes
    }
    pub fn family(&self) -> u8 {
        key::family_of(self.key())
    }
    pub fn pool(&self) -> i64 {
        key::pool_of(self.key())
    }
    /// The generation of the checkpoint that will have its last change; 0 if it did not change in memory.
    pub fn changed(&self) -> u32 {
        self.changed
    }
    pub fn set_changed(&mut self, generation: u32) {
        self.changed = generation;
    }
    /// Bytes of memory besides its own, roughly.
    pub fn memory(&self) -> usize {
        let node = self.node.as_ref().map_or(0, |o| size_of::<Onode>() + o.memory() + ALLOCATIONS);
        ALLOCATIONS + self.bytes.len() + node
    }
}

/// A copy of the packed object that was looked at last, unpacked.
#[derive(Debug)]
struct Unpacked {
    slot: u32,
    record: Vec<u8>,
    node: Option<Onode>,
}
impl Unpacked {
    fn turn(&mut self, n: u32, slot: &Slot, patterns: &Patterns) {
        if self.slot != n {
            patterns.unpack(slot.pattern, &slot.bytes, &mut self.record);
            (self.slot, self.node) = (n, None);
        }
    }
}

/// What the allocator adds to a slot's bytes, or to a node and its attributes.
const ALLOCATIONS: usize = 16;
const NONE: u32 = u32::MAX;
/// Bytes of a line of the processor's cache.
const LINE: usize = 64;

/// Slots of a page. Pages stay where they are: what grows is the list of them, never one piece of memory that is copied whole. So many are 40 KiB,
/// which an allocator has without waste.
const PAGE: usize = if cfg!(test) { 16 } else { 1024 };
/// Slots that are looked at when there are too many: a used one is looked at twice, and many have changed too lately.
const LOOKS: usize = 256;
const LOOKS_PER_NAME: usize = 8;
/// Slots that are looked at while there are not too many.
const IDLE_LOOKS: usize = 16;
/// Names that one look makes room for: others come later.
const NAMES_AT_ONCE: usize = 512;

#[derive(Debug)]
pub struct Objects {
    pages: Vec<Vec<Option<Slot>>>,
    free: Vec<u32>,
    /// Slots' numbers.
    names: Names,
    patterns: Patterns,
    unpacked: Unpacked,
    /// Where a record is packed.
    runs: Vec<u8>,
    len: usize,
    hand: usize,
    bytes: usize,
    /// Names since the last look for what can go.
    came: usize,
    /// Slots to be looked at until no name without an object can be among them, if none comes: looking is reading memory that nothing else reads.
    restless: usize,
    /// The key of the name that was looked for last.
    sought: Vec<u8>,
    /// The number that the next object, or layer of an omap, is given.
    next_nid: u64,
}

/// Of an object's key. The name's own hash, which is in it, is a good one; clones and pools share it, and so do all objects of one locator.
fn hash(key: &[u8]) -> u32 {
    mix(key::family_of(key), key::hash_of(key), key::snap_of(key), key::pool_of(key), key::generation_of(key), key::name_end_of(key))
}
/// The same of a name without generation. (Where a name has zeros at its end it may be another: then what is warmed is of no use.)
pub fn hash_of_head(family: u8, name: &HObject) -> u32 {
    mix(family, name.bitwise_key(), name.snap, name.pool, NO_GEN, key::name_end(name))
}
fn mix(family: u8, bitwise: u32, snap: u64, pool: i64, generation: u64, name_end: u64) -> u32 {
    let v = u64::from(bitwise) ^ snap.rotate_left(32) ^ (pool as u64).rotate_left(48) ^ u64::from(family) << 40 ^ generation;
    ((v ^ name_end.wrapping_mul(0xc2b2_ae3d_27d4_eb4f)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}
fn node_of(record: &[u8]) -> Onode {
    Onode::decode(&record[packed::row_at(record)..]).expect("what was packed can be unpacked")
}

impl Objects {
    pub fn new(next_nid: u64) -> Self {
        Self {
            pages: Vec::new(),
            free: Vec::new(),
            names: Names::new(),
            patterns: Patterns::new(),
            unpacked: Unpacked { slot: NONE, record: Vec::new(), node: None },
            runs: Vec::new(),
            len: 0,
            hand: 0,
            bytes: 0,
            came: 0,
            restless: 0,
            sought: Vec::new(),
            next_nid,
        }
    }
    /// The number that the next object, or layer of an omap, is given.
    pub fn next_nid(&self) -> u64 {
        self.next_nid
    }
    /// This number was given: no other one is given it again.
    pub fn gave_nid(&mut self, nid: u64) {
        self.next_nid = self.next_nid.max(nid + 1);
    }
    fn slot(&self, n: u32) -> Option<&Slot> {
        self.pages[n as usize / PAGE][n as usize % PAGE].as_ref()
    }
    fn slot_mut(&mut self, n: u32) -> &mut Option<Slot> {
        &mut self.pages[n as usize / PAGE][n as usize % PAGE]
    }
    /// Slots that there are, in use or not.
    fn slots(&self) -> usize {
        self.pages.last().map_or(0, |last| (self.pages.len() - 1) * PAGE + last.len())
    }
    pub fn bytes(&self) -> usize {
        self.bytes + self.pages.len() * PAGE * size_of::<Option<Slot>>() + self.patterns.memory() + self.names.memory()
    }
    pub fn get(&self, slot: u32) -> &Slot {
        self.slot(slot).expect("a slot that is named is in use")
    }
    pub fn get_mut(&mut self, slot: u32) -> &mut Slot {
        self.slot_mut(slot).as_mut().expect("a slot that is named is in use")
    }
    /// What is known of an object; one that is packed must have been looked at last.
    pub fn node(&self, slot: u32) -> Option<&Onode> {
        let entry = self.get(slot);
        if entry.is_packed() {
            assert_eq!(self.unpacked.slot, slot, "what is packed is looked at first");
            return self.unpacked.node.as_ref();
        }
        entry.node.as_deref()
    }
    /// What an object takes; nothing, if it is not there.
    pub fn usage(&self, slot: u32) -> Usage {
        self.node(slot).map_or(Usage::default(), Onode::usage)
    }
    pub fn size(&self, slot: u32) -> u64 {
        self.node(slot).map_or(0, |node| node.size)
    }
    /// True if this block of the object's data is damaged for good, and known to be.
    pub fn is_spoiled(&self, slot: u32, block: u64) -> bool {
        let (cell, within) = (block / CHUNK_BLOCKS, block % CHUNK_BLOCKS);
        self.node(slot).and_then(|node| node.holder(cell, within)).is_some_and(|chunk| chunk.crc(within) == SPOILED)
    }
    /// Makes an object's node known until another is looked for; false if there is no such object.
    pub fn look(&mut self, n: u32) -> bool {
        let Self { pages, unpacked, patterns, .. } = self;
        let slot = pages[n as usize / PAGE][n as usize % PAGE].as_ref().expect("a slot that is named is in use");
        if slot.is_packed() {
            unpacked.turn(n, slot, patterns);
            unpacked.node.get_or_insert_with(|| node_of(&unpacked.record));
        }
        slot.is_there()
    }
    /// Appends an object's row; false if there is no such object.
    pub fn encode(&mut self, n: u32, out: &mut Vec<u8>) -> bool {
        let Self { pages, unpacked, patterns, .. } = self;
        let slot = pages[n as usize / PAGE][n as usize % PAGE].as_ref().expect("a slot that is named is in use");
        if slot.is_packed() {
            unpacked.turn(n, slot, patterns);
            out.extend_from_slice(&unpacked.record[packed::row_at(&unpacked.record)..]);
        } else if let Some(node) = &slot.node {
            node.encode(out);
        }
        slot.is_there()
    }
    /// The name of an object; `None`: there is no such object.
    pub fn name(&self, n: u32) -> Option<GHObject> {
        let slot = self.get(n);
        let parse = |key: &[u8]| key::parse_object(key).expect("a slot's key names an object").1;
        match slot.is_packed() {
            true => Some(parse(packed::key(&self.record(slot)))),
            false => slot.is_there().then(|| parse(slot.key())),
        }
    }
    /// A copy of what is known of an object, for tools.
    pub fn copy(&self, n: u32) -> Option<Onode> {
        let slot = self.get(n);
        if slot.is_packed() { Some(node_of(&self.record(slot))) } else { slot.node.as_deref().cloned() }
    }
    /// Shows every object.
    #[cfg(test)]
    pub fn each(&self, show: &mut dyn FnMut(GHObject, &Onode)) {
        for n in (0..self.slots() as u32).filter(|n| self.is_slot(*n)) {
            if let Some(node) = self.copy(n) {
                show(self.name(n).expect("what has a node is there"), &node);
            }
        }
    }
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.len
    }
    #[cfg(test)]
    pub fn assert_counts(&self) {
        let all = || self.pages.iter().flatten().flatten();
        assert_eq!((self.len, self.bytes), (all().count(), all().map(|slot| slot.counted as usize).sum()));
        assert_eq!(self.free.len(), self.pages.iter().flatten().filter(|slot| slot.is_none()).count());
    }
    fn record(&self, slot: &Slot) -> Vec<u8> {
        let mut record = Vec::new();
        self.patterns.unpack(slot.pattern, &slot.bytes, &mut record);
        record
    }
    /// The object in the slot will change, perhaps.
    pub fn unpack(&mut self, n: u32) {
        if self.get(n).is_packed() {
            self.look(n);
            let node = self.unpacked.node.take().expect("it was looked at");
            self.unpacked.slot = NONE;
            let key = packed::key(&self.unpacked.record).into();
            let slot = self.get_mut(n);
            (slot.bytes, slot.node) = (key, Some(Box::new(node)));
            let pattern = std::mem::replace(&mut slot.pattern, PLAIN);
            self.patterns.drop(pattern);
            self.account(n);
        }
    }
    pub fn find(&mut self, family: u8, name: &GHObject) -> Option<u32> {
        let mut sought = std::mem::take(&mut self.sought);
        sought.clear();
        key::object(family, name, &mut sought);
        let found = self.find_key(&sought);
        self.sought = sought;
        found
    }
    /// The key of the name that [`Objects::find`] looked for last.
    pub fn sought(&self) -> &[u8] {
        &self.sought
    }
    /// The slot of an object's key, which must be well-formed.
    pub fn find_key(&mut self, key: &[u8]) -> Option<u32> {
        let Self { names, pages, patterns, unpacked, .. } = self;
        names.with(hash(key)).find(|n| {
            let slot = pages[*n as usize / PAGE][*n as usize % PAGE].as_mut().expect("names are those of slots in use");
            let is_it = match slot.is_packed() {
                true => {
                    unpacked.turn(*n, slot, patterns);
                    packed::key(&unpacked.record) == key
                }
                false => *slot.bytes == *key,
            };
            slot.used |= is_it;
            is_it
        })
    }
    /// Reads what finding these objects, by their hashes, and serving them will read: the same stage for all of them, so that the processor waits for
    /// memory once a stage and not once an object. Of 160,000 objects each is some eight lines of cache that were not read lately.
    pub fn warm(&self, hashes: &mut dyn Iterator<Item = u32>) {
        let hashes: SmallVec<[u32; 64]> = hashes.collect();
        let mut seen = hashes.iter().map(|hash| self.names.warm(*hash)).fold(0, usize::wrapping_add);
        let slots: SmallVec<[&Slot; 64]> = hashes.iter().filter_map(|hash| self.slot(self.names.with(*hash).next()?)).collect();
        for slot in &slots {
            seen = seen.wrapping_add(slot.bytes.len());
        }
        let nodes: SmallVec<[&Onode; 64]> = slots.iter().filter_map(|slot| slot.node.as_deref()).collect();
        for slot in &slots {
            seen = seen.wrapping_add(slot.bytes.iter().step_by(LINE).map(|b| *b as usize).sum());
        }
        for node in &nodes {
            seen = seen.wrapping_add(node.chunks.len() + node.size as usize + node.blocks as usize + node.attrs.bytes().len());
        }
        for node in &nodes {
            seen = seen.wrapping_add(node.attrs.bytes().iter().step_by(LINE).map(|b| *b as usize).sum());
        }
        black_box(seen);
    }
    /// Puts in an object's key that is not there.
    pub fn insert(&mut self, key: &[u8], node: Option<Onode>) -> u32 {
        let node = node.map(Box::new);
        let hash = hash(key);
        let slot = Slot { bytes: key.into(), node, hash, changed: 0, counted: 0, pattern: PLAIN, used: true };
        let n = self.free.pop().unwrap_or_else(|| {
            if self.pages.last().is_none_or(|last| last.len() == PAGE) {
                self.pages.push(Vec::with_capacity(PAGE));
            }
            self.pages.last_mut().expect("there is one").push(None);
            self.slots() as u32 - 1
        });
        *self.slot_mut(n) = Some(slot);
        self.len += 1;
        self.came += 1;
        self.names.insert(hash, n);
        self.account(n);
        n
    }
    /// Counts a slot's memory again; by how many bytes it has grown.
    pub fn account(&mut self, n: u32) -> usize {
        let slot = self.get_mut(n);
        let is_there = slot.is_there();
        let now = u32::try_from(slot.memory()).expect("an object's metadata are far smaller than 4 GiB");
        let before = std::mem::replace(&mut slot.counted, now);
        self.bytes = self.bytes + now as usize - before as usize;
        if !is_there {
            // The next round is to find it.
            self.restless = 2 * self.slots();
        }
        now.saturating_sub(before) as usize
    }
    /// The name is not known any more, whatever was in the slot.
    pub fn let_go(&mut self, n: u32) {
        self.remove(n);
    }
    /// True if the slot is a name's.
    pub fn is_slot(&self, n: u32) -> bool {
        self.pages.get(n as usize / PAGE).and_then(|page| page.get(n as usize % PAGE)).is_some_and(Option::is_some)
    }
    fn remove(&mut self, n: u32) {
        let slot = self.slot_mut(n).take().expect("a slot that is removed is in use");
        self.bytes -= slot.counted as usize;
        self.names.remove(slot.hash, n);
        if slot.is_packed() {
            self.patterns.drop(slot.pattern);
            self.unpacked.slot = NONE;
        }
        self.free.push(n);
        self.len -= 1;
    }
    /// Packs what was not used lately and is in no generation after `saved`, and lets go what was not used for longer, until there are at most `max`
    /// bytes; looks at some slots, and at the more the more names have come since. That a name has no object is not remembered for long.
    pub fn shrink(&mut self, max: usize, saved: u32) {
        let came = self.came.min(NAMES_AT_ONCE);
        self.came = if self.bytes() > max { self.came - came } else { 0 };
        let looks = LOOKS + came * LOOKS_PER_NAME;
        for look in 0..looks {
            let too_many = self.bytes() > max;
            if self.pages.is_empty() || !too_many && (look >= IDLE_LOOKS || self.restless == 0) {
                break;
            }
            self.restless = self.restless.saturating_sub(1);
            self.hand = (self.hand + 1) % self.slots();
            let hand = self.hand as u32;
            match self.slot_mut(hand) {
                Some(slot) if !too_many && slot.is_there() => {}
                Some(slot) if slot.used => slot.used = false,
                // Two that are packed are worth more than one that is not.
                Some(slot) if slot.is_packed() && look < looks / 2 => {}
                Some(slot) => {
                    let is_saved = slot.changed <= saved;
                    if !self.pack(hand) && is_saved {
                        self.remove(hand);
                    }
                }
                None => {}
            }
            if self.slot(hand).is_some_and(|slot| !slot.is_there()) {
                // Too new to go, or used a moment ago.
                self.restless = 2 * self.slots();
            }
        }
    }
    /// Packs an object, if it was not, and some are like it: it takes less than before.
    pub fn pack(&mut self, n: u32) -> bool {
        let Self { pages, unpacked, patterns, runs, .. } = self;
        let slot = pages[n as usize / PAGE][n as usize % PAGE].as_mut().expect("a slot that is named is in use");
        let Some(node) = slot.node.as_deref() else { return false };
        unpacked.slot = NONE;
        if node.memory() > packed::RECORD_MAX || !packed::begin(&slot.bytes, &mut unpacked.record) {
            return false;
        }
        node.encode(&mut unpacked.record);
        let Some(pattern) = patterns.pack(&unpacked.record, runs) else { return false };
        (slot.bytes, slot.node, slot.pattern) = (runs.as_slice().into(), None, pattern);
        self.account(n);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::HObject;

    #[test]
    fn names_are_found_while_others_come_and_go() {
        let mut rng = base::Rng::new(8);
        let mut o = Objects::new(1);
        let mut model = std::collections::BTreeSet::new();
        let name = |n: u64| GHObject::plain(HObject { oid: n.to_string().into(), hash: (n % 50) as u32, ..HObject::min() });
        for _ in 0..20_000 {
            let n = rng.below(3000);
            let found = o.find(1, &name(n));
            assert_eq!(found.is_some(), model.contains(&n));
            match found {
                Some(slot) if rng.chance(1, 2) => {
                    o.remove(slot);
                    model.remove(&n);
                }
                None => {
                    let key = o.sought().to_vec();
                    o.insert(&key, None);
                    model.insert(n);
                }
                _ => {}
            }
        }
        while o.len > 0 {
            o.shrink(0, 0);
        }
        assert_eq!((o.len, o.bytes), (0, 0));
    }

    /// Objects that a locator puts in one place are told apart: to find one, others' names are not looked at. And a name is warmed where it
    /// is.
    #[test]
    fn one_of_many_in_one_place_is_found_at_once() {
        let looks = |objects: u64| {
            let mut o = Objects::new(1);
            let name = |n: u64| {
                let hobj = HObject { oid: format!("object {n}").into(), key: "place".into(), hash: 77, pool: 3, ..HObject::min() };
                GHObject::plain(hobj)
            };
            for n in 0..objects {
                assert_eq!(o.find(1, &name(n)), None);
                let key = o.sought().to_vec();
                o.insert(&key, Some(Onode::new(n)));
            }
            o.names.take_steps();
            assert!((0..objects).all(|n| o.find(1, &name(n)).is_some()));
            o.names.take_steps()
        };
        assert!(looks(300) <= 301 && looks(3000) <= 3010);
        for (oid, locator, nspace) in
            [("a", "", ""), ("abcd", "", "n"), ("abcde", "x", ""), ("abcdefgh", "", "space"), ("abcdefgh", "abd", "")]
        {
            let hobj = HObject { oid: oid.into(), key: locator.into(), nspace: nspace.into(), hash: 5, pool: 2, ..HObject::min() };
            let mut key = Vec::new();
            key::object(1, &GHObject::plain(hobj.clone()), &mut key);
            assert_eq!(hash(&key), hash_of_head(1, &hobj), "{oid} {locator} {nspace}");
        }
    }

    /// Names without an object go when the checkpoint has them, among many that stay; then there are no more looks.
    #[test]
    fn names_without_an_object_go_soon() {
        let mut o = Objects::new(1);
        let mut key = Vec::new();
        let mut add = |o: &mut Objects, n: u64, node| {
            key.clear();
            key::object(1, &GHObject::plain(HObject { oid: n.to_string().into(), hash: n as u32, ..HObject::min() }), &mut key);
            o.insert(&key, node)
        };
        let gone: Vec<u32> = (0..200).map(|n| add(&mut o, n, (n % 2 == 0).then(|| Onode::new(n)))).collect::<Vec<_>>().split_off(180);
        for slot in gone {
            let slot = o.get_mut(slot);
            (slot.node, slot.changed) = (None, 7);
        }
        let rounds = |o: &mut Objects, saved| (0..100).for_each(|_| o.shrink(usize::MAX, saved));
        rounds(&mut o, 6);
        assert_eq!(o.len, 90 + 20, "those that changed stay until they are saved");
        rounds(&mut o, 7);
        assert_eq!((o.len, o.restless), (90, 0));
        add(&mut o, 1000, None);
        rounds(&mut o, 7);
        assert_eq!((o.len, o.restless), (90, 0));
    }

    /// Packed or not, an object has its name, its node and its row, and what it was packed by is gone when it is.
    #[test]
    fn packed_or_not_an_object_is_the_same() {
        let mut rng = base::Rng::new(9);
        let mut o = Objects::new(1);
        let name =
            |n: u64| GHObject::plain(HObject { oid: format!("an object {n:05}").into(), hash: n as u32 * 77, pool: 3, ..HObject::min() });
        let mut model: Vec<(u32, Onode)> = Vec::new();
        for n in 0..500 {
            let mut node = Onode::new(n);
            node.size = n * 4096;
            node.attrs.set(b"_", &[vec![7; 200], n.to_le_bytes().to_vec()].concat());
            assert_eq!(o.find(1, &name(n)), None);
            let key = o.sought().to_vec();
            model.push((o.insert(&key, Some(node.clone())), node));
        }
        let loose = o.bytes();
        let packed = |o: &Objects| model.iter().filter(|(slot, _)| o.get(*slot).is_packed()).count();
        for _ in 0..20_000 {
            let n = rng.below(500);
            let (slot, node) = &model[n as usize];
            match rng.below(6) {
                0 | 1 => drop(o.pack(*slot)),
                2 => o.unpack(*slot),
                3 => {
                    assert_eq!(o.find(1, &name(n)), Some(*slot));
                    assert!(o.look(*slot));
                    assert_eq!(o.node(*slot), Some(node));
                }
                4 => {
                    let (mut row, mut wanted) = (Vec::new(), Vec::new());
                    node.encode(&mut wanted);
                    assert!(o.encode(*slot, &mut row) && row == wanted);
                }
                _ => assert_eq!((o.name(*slot), o.copy(*slot).as_ref()), (Some(name(n)), Some(node))),
            }
        }
        assert!(packed(&o) > 200, "{} of 500", packed(&o));
        for (slot, _) in &model {
            o.pack(*slot);
        }
        assert!(packed(&o) > 490 && o.bytes() < loose / 2, "{} packed, {} bytes of {loose}", packed(&o), o.bytes());
        // There is room for all if they are packed: none goes.
        model.iter().for_each(|(slot, _)| o.unpack(*slot));
        (0..100).for_each(|_| o.shrink(loose * 2 / 3, 0));
        assert!(o.len == 500 && o.bytes() <= loose * 2 / 3);
        (0..100).for_each(|_| o.shrink(0, 0));
        assert_eq!((o.len, o.bytes), (0, 0));
    }
}
