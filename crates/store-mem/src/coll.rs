//! A collection: its objects in listing order.
//!
//! Objects stay where they are in memory when they change their bucket or collection.

#![allow(clippy::vec_box)]

use crate::object::{Object, Usage};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use types::GHObject;

/// What sorts objects first, in one number, as small as it can be so that a search touches little memory: maximum, shard, pool,
/// bit-reversed hash. Pools too far from zero for it share one place below all others and one above.
type Place = u64;

/// Bits for the pool; the hash has the 32 below.
const POOL_BITS: u32 = 22;

fn place(obj: &GHObject) -> Place {
    // Signed numbers sort as unsigned ones with their highest bit turned.
    let shard = u64::from(obj.shard as u8 ^ 0x80);
    // Where pools share a place, hashes must not sort before them.
    const FAR: i64 = (1 << (POOL_BITS - 1)) - 1;
    let pool = obj.hobj.pool.clamp(-FAR, FAR);
    let hash = if pool.abs() < FAR { obj.hobj.bitwise_key() } else { 0 };
    u64::from(obj.max) << 63 | shard << 55 | u64::from(obj.hobj.max) << 54 | ((pool + FAR) as u64) << 32 | u64::from(hash)
}

/// An object with its name, in one piece of memory.
#[derive(Debug)]
pub struct Entry {
    name: GHObject,
    object: Object,
}

impl Entry {
    /// The name is cut from a request's frame, which must not live as long as the object.
    fn new(name: &GHObject, object: Object) -> Box<Self> {
        Box::new(Self { name: GHObject { hobj: name.hobj.detach(), ..*name }, object })
    }
}

/// Objects that share a place: mostly one; a head with its clones; seldom others. Ascending.
#[derive(Debug)]
enum Bucket {
    One(Box<Entry>),
    Many(Vec<Box<Entry>>),
}

impl Bucket {
    fn as_slice(&self) -> &[Box<Entry>] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
    fn find(&self, name: &GHObject) -> Result<usize, usize> {
        match self {
            Self::One(one) if one.name == *name => Ok(0),
            _ => self.as_slice().binary_search_by(|e| e.name.cmp(name)),
        }
    }
    fn get_mut(&mut self, name: &GHObject) -> Option<&mut Object> {
        let i = self.find(name).ok()?;
        match self {
            Self::One(one) => Some(&mut one.object),
            Self::Many(many) => Some(&mut many[i].object),
        }
    }
    /// Puts in an entry whose name is not there.
    fn insert(&mut self, entry: Box<Entry>) {
        let i = self.find(&entry.name).expect_err("the name is new");
        let mut many = match std::mem::replace(self, Self::Many(Vec::new())) {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        };
        many.insert(i, entry);
        *self = Self::Many(many);
    }
    /// Takes out what `wanted` picks; true if nothing is left.
    fn drain(&mut self, mut wanted: impl FnMut(&GHObject) -> bool, out: &mut Vec<Box<Entry>>) -> bool {
        let all = match std::mem::replace(self, Self::Many(Vec::new())) {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        };
        let (mut go, mut stay): (Vec<_>, Vec<_>) = all.into_iter().partition(|e| wanted(&e.name));
        out.append(&mut go);
        let empty = stay.is_empty();
        *self = if stay.len() == 1 { Self::One(stay.remove(0)) } else { Self::Many(stay) };
        empty
    }
}

#[derive(Debug, Default)]
pub struct Coll {
    pub bits: u32,
    pub usage: Usage,
    buckets: BTreeMap<Place, Bucket>,
    len: usize,
}

impl Coll {
    pub fn new(bits: u32) -> Self {
        Self { bits, ..Self::default() }
    }
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn get(&self, obj: &GHObject) -> Option<&Object> {
        let bucket = self.buckets.get(&place(obj))?;
        Some(&bucket.as_slice()[bucket.find(obj).ok()?].object)
    }
    /// Changes an object that is there, and what is used.
    pub fn change<T>(&mut self, obj: &GHObject, f: impl FnOnce(&mut Object) -> T) -> Option<T> {
        let object = self.buckets.get_mut(&place(obj))?.get_mut(obj)?;
        let before = object.usage();
        let out = f(object);
        self.usage.change(before, object.usage());
        Some(out)
    }
    /// Changes an object, made if it is not there, and what is used. One search of the index, also for a new object.
    pub fn change_or_make<T>(&mut self, obj: &GHObject, f: impl FnOnce(&mut Object) -> T) -> T {
        let mut slot = match self.buckets.entry(place(obj)) {
            Slot::Vacant(slot) => {
                let mut object = Object::default();
                let out = f(&mut object);
                self.usage.change(Usage::default(), object.usage());
                self.len += 1;
                slot.insert(Bucket::One(Entry::new(obj, object)));
                return out;
            }
            Slot::Occupied(slot) => slot,
        };
        if let Some(object) = slot.get_mut().get_mut(obj) {
            let before = object.usage();
            let out = f(object);
            self.usage.change(before, object.usage());
            return out;
        }
        let mut object = Object::default();
        let out = f(&mut object);
        self.usage.change(Usage::default(), object.usage());
        self.len += 1;
        slot.get_mut().insert(Entry::new(obj, object));
        out
    }
    fn insert(&mut self, entry: Box<Entry>) {
        self.usage.change(Usage::default(), entry.object.usage());
        self.len += 1;
        match self.buckets.entry(place(&entry.name)) {
            Slot::Vacant(slot) => drop(slot.insert(Bucket::One(entry))),
            Slot::Occupied(mut slot) => slot.get_mut().insert(entry),
        }
    }
    /// Puts an object in place of what is there.
    pub fn put(&mut self, obj: &GHObject, object: Object) {
        self.take(obj);
        self.insert(Entry::new(obj, object));
    }
    pub fn take(&mut self, obj: &GHObject) -> Option<Object> {
        let place = place(obj);
        let bucket = self.buckets.get_mut(&place)?;
        let mut out = Vec::new();
        if bucket.drain(|name| name == obj, &mut out) {
            self.buckets.remove(&place);
        }
        let entry = out.pop()?;
        self.usage.change(entry.object.usage(), Usage::default());
        self.len -= 1;
        Some(entry.object)
    }
    /// Objects from `start` on, ascending.
    pub fn from(&self, start: &GHObject) -> impl Iterator<Item = &GHObject> {
        let start = start.clone();
        let entries = self.buckets.range(place(&start)..).flat_map(|(_, bucket)| bucket.as_slice());
        entries.map(|e| &e.name).skip_while(move |name| **name < start)
    }
    /// Takes out every object that `wanted` picks.
    pub fn drain(&mut self, mut wanted: impl FnMut(&GHObject) -> bool) -> Vec<Box<Entry>> {
        let mut out = Vec::new();
        self.buckets.retain(|_, bucket| !bucket.drain(&mut wanted, &mut out));
        for entry in &out {
            self.usage.change(entry.object.usage(), Usage::default());
        }
        self.len -= out.len();
        out
    }
    /// Takes in what another collection gave, in place of what is there.
    pub fn fill(&mut self, entries: Vec<Box<Entry>>) {
        for entry in entries {
            self.take(&entry.name);
            self.insert(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{HObject, SnapId};

    #[test]
    fn places_are_in_the_order_of_names() {
        let mut names = Vec::new();
        for pool in [i64::MIN, -(1 << 40), -(1 << 21) - 1, -(1 << 21), -3, -1, 0, 1, 7, (1 << 21) - 1, 1 << 21, 1 << 40, i64::MAX] {
            for hash in [0, 1, 0x8000_0000, u32::MAX] {
                names.push(GHObject::plain(HObject { pool, hash, snap: SnapId::default(), ..HObject::default() }));
            }
        }
        names.sort();
        assert!(names.is_sorted_by_key(place));
        // A collection whose pools share places lists in order, and finds each.
        let mut coll = Coll::new(0);
        names.iter().rev().for_each(|name| coll.put(name, Object::default()));
        assert!(coll.from(&GHObject::plain(HObject::default())).is_sorted());
        assert!(coll.len() == names.len() && names.iter().all(|name| coll.get(name).is_some()));
    }
}
