//! Objects that are in memory, by name: those that changed since the last checkpoint took them, and others as long as there is room.
//!
//! That a name has no object is remembered too: the next thing that happens to such a name is often that it gets one.

use crate::attrs::Likes;
use crate::key;
use crate::onode::Onode;
use smallvec::SmallVec;
use std::hint::black_box;
use types::{GHObject, HObject, NO_GEN};

/// What is known of one name. Small: whoever looks for an object reads a table, one of these, and the key.
#[derive(Debug)]
pub struct Slot {
    /// The name, as the key of its row; see [`key::object`].
    pub key: Box<[u8]>,
    /// `None`: there is no such object.
    pub node: Option<Box<Onode>>,
    /// The generation of the checkpoint that will have its last change; 0 if it did not change in memory.
    pub changed: u32,
    /// As counted in `Objects::bytes`.
    bytes: u32,
    used: bool,
}

impl Slot {
    pub fn family(&self) -> u8 {
        key::family_of(&self.key)
    }
    pub fn pool(&self) -> i64 {
        key::pool_of(&self.key)
    }
    pub fn name(&self) -> GHObject {
        key::parse_object(&self.key).expect("a slot's key names an object").1
    }
    /// Bytes of memory, roughly.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + ALLOCATIONS + self.key.len() + self.node.as_ref().map_or(0, |o| size_of::<Onode>() + o.memory())
    }
}

/// What the allocator adds to a slot's key, node and attributes.
const ALLOCATIONS: usize = 64;
const NONE: u32 = u32::MAX;
/// Bytes of a line of the processor's cache.
const LINE: usize = 64;

/// Slots of a page. Pages stay where they are: what grows is the list of them, never one piece of memory that is copied whole.
const PAGE: usize = 128;
/// Tables that names are spread over: each grows alone, so that no name pays for moving all of them.
const TABLES: usize = 64;
/// Slots that are looked at when there are too many: a used one is looked at twice, and many have changed too lately.
const LOOKS: usize = 256;
const LOOKS_PER_NAME: usize = 8;
/// Names that one look makes room for: others come later.
const NAMES_AT_ONCE: usize = 512;

/// Slots, and tables of their numbers by the hash of their names (linear probing, half full at most).
#[derive(Debug)]
pub struct Objects {
    pages: Vec<Vec<Option<Slot>>>,
    free: Vec<u32>,
    tables: Vec<Names>,
    len: usize,
    hand: usize,
    bytes: usize,
    /// Names since the last look for what can go.
    came: usize,
    /// The key of the name that was looked for last.
    sought: Vec<u8>,
    /// What the attributes of those that nobody asks for are packed by.
    likes: Likes,
}

/// A slot's number, and the hash of its key: most that is looked at on the way to another slot needs no other memory.
#[derive(Debug, Clone, Copy)]
struct Entry {
    slot: u32,
    hash: u32,
}

const EMPTY: Entry = Entry { slot: NONE, hash: 0 };

/// As many entries as a power of two, or none.
#[derive(Debug, Default)]
struct Names {
    entries: Vec<Entry>,
    len: usize,
}

/// Of an object's key. The name's own hash, which is in it, is a good one; clones and pools share it.
fn hash(key: &[u8]) -> u32 {
    mix(key::family_of(key), key::hash_of(key), key::snap_of(key), key::pool_of(key), key::generation_of(key))
}
/// The same of a name without generation.
pub fn hash_of_head(family: u8, name: &HObject) -> u32 {
    mix(family, name.bitwise_key(), name.snap, name.pool, NO_GEN)
}
fn mix(family: u8, bitwise: u32, snap: u64, pool: i64, generation: u64) -> u32 {
    let v = u64::from(bitwise) ^ snap.rotate_left(32) ^ (pool as u64).rotate_left(48) ^ u64::from(family) << 40 ^ generation;
    (v.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}
/// Which table a hash belongs to: by other bits than those that say where in it.
fn table_of(hash: u32) -> usize {
    hash as usize >> (u32::BITS - TABLES.ilog2())
}

impl Objects {
    pub fn new() -> Self {
        let tables = (0..TABLES).map(|_| Names::default()).collect();
        Self { pages: Vec::new(), free: Vec::new(), tables, len: 0, hand: 0, bytes: 0, came: 0, sought: Vec::new(), likes: Likes::default() }
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
        self.bytes
    }
    pub fn get(&self, slot: u32) -> &Slot {
        self.slot(slot).expect("a slot that is named is in use")
    }
    pub fn get_mut(&mut self, slot: u32) -> &mut Slot {
        self.slot_mut(slot).as_mut().expect("a slot that is named is in use")
    }
    pub fn node(&self, slot: u32) -> Option<&Onode> {
        self.get(slot).node.as_deref()
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
        let hash = hash(key);
        let Self { tables, pages, .. } = self;
        let table = &tables[table_of(hash)].entries;
        let mask = table.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let entry = table[at];
            if entry.slot == NONE {
                return None;
            }
            if entry.hash == hash {
                let slot = pages[entry.slot as usize / PAGE][entry.slot as usize % PAGE].as_mut().expect("the table names slots in use");
                if *slot.key == *key {
                    slot.used = true;
                    return Some(entry.slot);
                }
            }
            at = (at + 1) & mask;
        }
    }
    /// Reads what finding these objects, by their hashes, and serving them will read: the same stage for all of them, so that the processor waits for
    /// memory once a stage and not once an object. Of 160,000 objects each is some eight lines of cache that nobody has read lately.
    pub fn warm(&self, hashes: &mut dyn Iterator<Item = u32>) {
        let hashes: SmallVec<[u32; 64]> = hashes.collect();
        let mut seen = 0usize;
        for hash in &hashes {
            let table = &self.tables[table_of(*hash)].entries;
            seen = seen.wrapping_add(table.get(*hash as usize & table.len().wrapping_sub(1)).map_or(0, |entry| entry.slot as usize));
        }
        let slots: SmallVec<[&Slot; 64]> = hashes.iter().filter_map(|hash| self.slot(self.first_with(*hash)?)).collect();
        for slot in &slots {
            seen = seen.wrapping_add(slot.key.len());
        }
        let nodes: SmallVec<[&Onode; 64]> = slots.iter().filter_map(|slot| slot.node.as_deref()).collect();
        for slot in &slots {
            seen = seen.wrapping_add(slot.key.iter().step_by(LINE).map(|b| *b as usize).sum());
        }
        for node in &nodes {
            seen = seen.wrapping_add(node.chunks.len() + node.size as usize + node.blocks as usize + node.attrs.bytes().len());
        }
        for node in &nodes {
            seen = seen.wrapping_add(node.attrs.bytes().iter().step_by(LINE).map(|b| *b as usize).sum());
        }
        black_box(seen);
    }
    /// The first slot with that hash.
    fn first_with(&self, hash: u32) -> Option<u32> {
        let table = &self.tables[table_of(hash)].entries;
        let mask = table.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        while table[at].slot != NONE {
            if table[at].hash == hash {
                return Some(table[at].slot);
            }
            at = (at + 1) & mask;
        }
        None
    }
    /// Puts in an object's key that is not there.
    pub fn insert(&mut self, key: &[u8], node: Option<Onode>) -> u32 {
        let mut node = node.map(Box::new);
        if let Some(node) = &mut node {
            node.attrs.pack(&mut self.likes);
        }
        let slot = Slot { key: key.into(), node, changed: 0, bytes: 0, used: true };
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
        let hash = hash(key);
        self.tables[table_of(hash)].insert(Entry { slot: n, hash });
        self.account(n);
        n
    }
    /// Counts a slot's memory again; by how many bytes it has grown.
    pub fn account(&mut self, n: u32) -> usize {
        let slot = self.get_mut(n);
        let now = u32::try_from(slot.memory()).expect("an object's metadata are far smaller than 4 GiB");
        let before = std::mem::replace(&mut slot.bytes, now);
        self.bytes = self.bytes + now as usize - before as usize;
        now.saturating_sub(before) as usize
    }
    fn remove(&mut self, n: u32) {
        let slot = self.slot_mut(n).take().expect("a slot that is removed is in use");
        self.bytes -= slot.bytes as usize;
        let hash = hash(&slot.key);
        self.tables[table_of(hash)].remove(Entry { slot: n, hash });
        self.free.push(n);
        self.len -= 1;
    }
    /// Packs what was not used lately, and lets go what was not used for longer and is in no generation after `saved`, until there are at most `max`
    /// bytes; looks at some slots, and at the more the more names have come since.
    pub fn shrink(&mut self, max: usize, saved: u32) {
        let came = self.came.min(NAMES_AT_ONCE);
        self.came = if self.bytes > max { self.came - came } else { 0 };
        let mut looks = LOOKS + came * LOOKS_PER_NAME;
        while self.bytes > max && looks > 0 && !self.pages.is_empty() {
            looks -= 1;
            self.hand = (self.hand + 1) % self.slots();
            let hand = self.hand as u32;
            match self.slot_mut(hand) {
                Some(slot) if slot.used => slot.used = false,
                Some(slot) => {
                    let is_saved = slot.changed <= saved;
                    if self.pack(hand) {
                        self.account(hand);
                    } else if is_saved {
                        self.remove(hand);
                    }
                }
                None => {}
            }
        }
    }
    /// Keeps an object's attributes as what they differ in from others'; true if it takes less than before. See [`Objects::account`].
    pub fn pack(&mut self, n: u32) -> bool {
        let slot = self.pages[n as usize / PAGE][n as usize % PAGE].as_mut().expect("a slot that is named is in use");
        slot.node.as_mut().is_some_and(|node| node.attrs.pack(&mut self.likes))
    }
}

impl Names {
    fn insert(&mut self, entry: Entry) {
        if (self.len + 1) * 2 > self.entries.len() {
            let larger = vec![EMPTY; (self.entries.len() * 2).max(16)];
            let old = std::mem::replace(&mut self.entries, larger);
            old.into_iter().filter(|entry| entry.slot != NONE).for_each(|entry| self.enter(entry));
        }
        self.enter(entry);
        self.len += 1;
    }
    /// There is room.
    fn enter(&mut self, entry: Entry) {
        let mask = self.entries.len() - 1;
        let mut at = entry.hash as usize & mask;
        while self.entries[at].slot != NONE {
            at = (at + 1) & mask;
        }
        self.entries[at] = entry;
    }
    fn remove(&mut self, entry: Entry) {
        let (mask, table) = (self.entries.len() - 1, &mut self.entries);
        let mut at = entry.hash as usize & mask;
        while table[at].slot != entry.slot {
            at = (at + 1) & mask;
        }
        // What probed past the gap moves up.
        let mut gap = at;
        loop {
            at = (at + 1) & mask;
            let next = table[at];
            if next.slot == NONE {
                break;
            }
            let home = next.hash as usize & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                table[gap] = next;
                gap = at;
            }
        }
        table[gap] = EMPTY;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::HObject;

    #[test]
    fn names_are_found_while_others_come_and_go() {
        let mut rng = base::Rng::new(8);
        let mut o = Objects::new();
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
}
