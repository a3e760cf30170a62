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

/// Slots, and a table of their numbers by the hash of their names (linear probing, half full at most).
#[derive(Debug)]
pub struct Objects {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    table: Vec<u32>,
    len: usize,
    hand: usize,
    bytes: usize,
}

fn hash(family: u8, name: &GHObject) -> usize {
    let h = &name.hobj;
    // The name's own hash is a good one; clones and pools share it.
    let v = u64::from(h.hash) ^ h.snap.rotate_left(32) ^ (h.pool as u64).rotate_left(48) ^ u64::from(family) << 40 ^ name.generation;
    (v.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize
}

impl Objects {
    pub fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), table: vec![NONE; 1024], len: 0, hand: 0, bytes: 0 }
    }
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    pub fn get(&self, slot: u32) -> &Slot {
        self.slots[slot as usize].as_ref().expect("a slot that is named is in use")
    }
    pub fn get_mut(&mut self, slot: u32) -> &mut Slot {
        self.slots[slot as usize].as_mut().expect("a slot that is named is in use")
    }
    pub fn node(&self, slot: u32) -> Option<&Onode> {
        self.get(slot).node.as_deref()
    }
    pub fn find(&mut self, family: u8, name: &GHObject) -> Option<u32> {
        let mask = self.table.len() - 1;
        let mut at = hash(family, name) & mask;
        loop {
            let n = self.table[at];
            if n == NONE {
                return None;
            }
            let slot = self.slots[n as usize].as_mut().expect("the table names slots in use");
            // The hash first: what it tells needs no other memory.
            if slot.name.hobj.hash == name.hobj.hash && slot.family == family && slot.name == *name {
                slot.used = true;
                return Some(n);
            }
            at = (at + 1) & mask;
        }
    }
    fn enter(&mut self, n: u32) {
        let mask = self.table.len() - 1;
        let slot = self.get(n);
        let mut at = hash(slot.family, &slot.name) & mask;
        while self.table[at] != NONE {
            at = (at + 1) & mask;
        }
        self.table[at] = n;
    }
    /// Puts in a name that is not there.
    pub fn insert(&mut self, family: u8, name: &GHObject, key: Key, node: Option<Onode>) -> u32 {
        if (self.len + 1) * 2 > self.table.len() {
            self.table = vec![NONE; self.table.len() * 2];
            let all: Vec<u32> = (0..self.slots.len() as u32).filter(|n| self.slots[*n as usize].is_some()).collect();
            all.into_iter().for_each(|n| self.enter(n));
        }
        // The name is cut from a request's frame, which must not live as long as the slot.
        let name = GHObject { hobj: name.hobj.detach(), ..*name };
        let slot = Slot { family, name, key, node: node.map(Box::new), changed: 0, used: true, bytes: 0 };
        let n = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[n as usize] = Some(slot);
        self.len += 1;
        self.enter(n);
        self.account(n);
        n
    }
    /// Counts a slot's memory again.
    pub fn account(&mut self, n: u32) {
        let slot = self.slots[n as usize].as_mut().expect("a slot that is named is in use");
        // Names, keys and attributes are allocations of their own.
        let now = size_of::<Slot>() + slot.key.len() + 250 + slot.node.as_ref().map_or(0, |o| size_of::<Onode>() + o.memory());
        self.bytes = self.bytes + now - slot.bytes;
        slot.bytes = now;
    }
    fn remove(&mut self, n: u32) {
        let mask = self.table.len() - 1;
        let slot = self.slots[n as usize].take().expect("a slot that is removed is in use");
        self.bytes -= slot.bytes;
        let mut at = hash(slot.family, &slot.name) & mask;
        while self.table[at] != n {
            at = (at + 1) & mask;
        }
        // What probed past the gap moves up.
        let mut gap = at;
        loop {
            at = (at + 1) & mask;
            let next = self.table[at];
            if next == NONE {
                break;
            }
            let other = self.get(next);
            let home = hash(other.family, &other.name) & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.table[gap] = next;
                gap = at;
            }
        }
        self.table[gap] = NONE;
        self.free.push(n);
        self.len -= 1;
    }
    /// Lets go what was not used lately and is in no generation after `saved`, until there are at most `max` bytes; looks at so many slots.
    pub fn shrink(&mut self, max: usize, saved: u32, mut looks: usize) {
        while self.bytes > max && looks > 0 && !self.slots.is_empty() {
            looks -= 1;
            self.hand = (self.hand + 1) % self.slots.len();
            match &mut self.slots[self.hand] {
                Some(slot) if slot.used => slot.used = false,
                Some(slot) if slot.changed <= saved => self.remove(self.hand as u32),
                _ => {}
            }
        }
    }
    pub fn key_of(family: u8, name: &GHObject) -> Key {
        let mut out = Vec::new();
        key::object(family, name, &mut out);
        out.into()
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
        o.shrink(0, 0, 100_000);
        assert_eq!((o.len, o.bytes), (0, 0));
    }
}
