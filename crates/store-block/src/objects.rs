//! Objects that are in memory, by name: those that changed since the last checkpoint took them, and others as long as there is room.
//!
//! That a name has no object is remembered too: the next thing that happens to such a name is often that it gets one.

use crate::key;
use crate::meta::layer::Key;
use crate::onode::Onode;
use types::GHObject;

#[derive(Debug)]
pub struct Slot {
    pub family: u8,
    pub name: GHObject,
    pub key: Key,
    /// `None`: there is no such object.
    pub node: Option<Box<Onode>>,
    /// The generation of the checkpoint that will have its last change; 0 if it did not change in memory.
    pub changed: u32,
    used: bool,
    /// As counted in `Objects::bytes`.
    bytes: usize,
}

const NONE: u32 = u32::MAX;

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
}

/// Numbers of slots; as many as a power of two, or none.
#[derive(Debug, Default)]
struct Names {
    slots: Vec<u32>,
    len: usize,
}

fn hash(family: u8, name: &GHObject) -> usize {
    let h = &name.hobj;
    // The name's own hash is a good one; clones and pools share it.
    let v = u64::from(h.hash) ^ h.snap.rotate_left(32) ^ (h.pool as u64).rotate_left(48) ^ u64::from(family) << 40 ^ name.generation;
    (v.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize
}
/// Which table a hash belongs to: by other bits than those that say where in it.
fn table_of(hash: usize) -> usize {
    (hash >> 36) % TABLES
}

impl Objects {
    pub fn new() -> Self {
        let tables = (0..TABLES).map(|_| Names::default()).collect();
        Self { pages: Vec::new(), free: Vec::new(), tables, len: 0, hand: 0, bytes: 0, came: 0 }
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
        let hash = hash(family, name);
        let Self { tables, pages, .. } = self;
        let table = &tables[table_of(hash)].slots;
        let mask = table.len().checked_sub(1)?;
        let mut at = hash & mask;
        loop {
            let n = table[at];
            if n == NONE {
                return None;
            }
            let slot = pages[n as usize / PAGE][n as usize % PAGE].as_mut().expect("the table names slots in use");
            // The hash first: what it tells needs no other memory.
            if slot.name.hobj.hash == name.hobj.hash && slot.family == family && slot.name == *name {
                slot.used = true;
                return Some(n);
            }
            at = (at + 1) & mask;
        }
    }
    /// Puts in a name that is not there.
    pub fn insert(&mut self, family: u8, name: &GHObject, key: Key, node: Option<Onode>) -> u32 {
        // The name is cut from a request's frame, which must not live as long as the slot.
        let name = GHObject { hobj: name.hobj.detach(), ..*name };
        let hash = hash(family, &name);
        let slot = Slot { family, name, key, node: node.map(Box::new), changed: 0, used: true, bytes: 0 };
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
        let mut table = std::mem::take(&mut self.tables[table_of(hash)]);
        if (table.len + 1) * 2 > table.slots.len() {
            let larger = vec![NONE; (table.slots.len() * 2).max(16)];
            for n in std::mem::replace(&mut table.slots, larger).into_iter().filter(|n| *n != NONE) {
                let slot = self.get(n);
                table.enter(self::hash(slot.family, &slot.name), n);
            }
        }
        table.enter(hash, n);
        table.len += 1;
        self.tables[table_of(hash)] = table;
        self.account(n);
        n
    }
    /// Counts a slot's memory again.
    pub fn account(&mut self, n: u32) {
        let slot = self.get_mut(n);
        // Names, keys and attributes are allocations of their own.
        let now = size_of::<Slot>() + slot.key.len() + 250 + slot.node.as_ref().map_or(0, |o| size_of::<Onode>() + o.memory());
        let before = std::mem::replace(&mut slot.bytes, now);
        self.bytes = self.bytes + now - before;
    }
    fn remove(&mut self, n: u32) {
        let slot = self.slot_mut(n).take().expect("a slot that is removed is in use");
        self.bytes -= slot.bytes;
        let home = hash(slot.family, &slot.name);
        let mut names = std::mem::take(&mut self.tables[table_of(home)]);
        let mask = names.slots.len() - 1;
        let table = &mut names.slots;
        let mut at = home & mask;
        while table[at] != n {
            at = (at + 1) & mask;
        }
        // What probed past the gap moves up.
        let mut gap = at;
        loop {
            at = (at + 1) & mask;
            let next = table[at];
            if next == NONE {
                break;
            }
            let other = self.get(next);
            let home = hash(other.family, &other.name) & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                table[gap] = next;
                gap = at;
            }
        }
        table[gap] = NONE;
        names.len -= 1;
        self.tables[table_of(home)] = names;
        self.free.push(n);
        self.len -= 1;
    }
    /// Lets go what was not used lately and is in no generation after `saved`, until there are at most `max` bytes; looks at some slots, and at the
    /// more the more names have come since.
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
                Some(slot) if slot.changed <= saved => self.remove(hand),
                _ => {}
            }
        }
    }
    /// The key of an object's row.
    pub fn key_of(family: u8, name: &GHObject) -> Key {
        let mut out = Vec::new();
        key::object(family, name, &mut out);
        out.into()
    }
}

impl Names {
    /// There is room.
    fn enter(&mut self, hash: usize, n: u32) {
        let mask = self.slots.len() - 1;
        let mut at = hash & mask;
        while self.slots[at] != NONE {
            at = (at + 1) & mask;
        }
        self.slots[at] = n;
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
                    o.insert(1, &name(n), Objects::key_of(1, &name(n)), None);
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
