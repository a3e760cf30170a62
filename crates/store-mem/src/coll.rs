//! A collection: its objects in listing order.

use crate::object::{Object, Usage};
use std::collections::BTreeMap;
use types::GHObject;

/// What sorts objects first, in one number: maximum, shard, pool, bit-reversed hash.
type Place = u128;

fn place(obj: &GHObject) -> Place {
    // Signed numbers sort as unsigned ones with their highest bit turned.
    let shard = u128::from(obj.shard as u8 ^ 0x80);
    let pool = u128::from(obj.hobj.pool as u64 ^ 1 << 63);
    u128::from(obj.max) << 105 | shard << 97 | u128::from(obj.hobj.max) << 96 | pool << 32 | u128::from(obj.hobj.bitwise_key())
}

/// Objects that share a place: a head with its clones, seldom others. Ascending.
type Bucket = Vec<(GHObject, Box<Object>)>;

#[derive(Debug, Default)]
pub struct Coll {
    pub bits: u32,
    pub usage: Usage,
    buckets: BTreeMap<Place, Bucket>,
    len: usize,
}

fn find(bucket: &Bucket, obj: &GHObject) -> Result<usize, usize> {
    match &bucket[..] {
        [(only, _)] if only == obj => Ok(0),
        many => many.binary_search_by(|(o, _)| o.cmp(obj)),
    }
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
        Some(&bucket[find(bucket, obj).ok()?].1)
    }
    /// Changes an object that is there, and what is used.
    pub fn change<T>(&mut self, obj: &GHObject, f: impl FnOnce(&mut Object) -> T) -> Option<T> {
        let bucket = self.buckets.get_mut(&place(obj))?;
        let i = find(bucket, obj).ok()?;
        let object = &mut bucket[i].1;
        let before = object.usage();
        let out = f(object);
        self.usage.change(before, object.usage());
        Some(out)
    }
    /// Changes an object, made if it is not there, and what is used.
    pub fn change_or_make<T>(&mut self, obj: &GHObject, f: impl FnOnce(&mut Object) -> T) -> T {
        let bucket = self.buckets.entry(place(obj)).or_default();
        let (i, before) = match find(bucket, obj) {
            Ok(i) => (i, bucket[i].1.usage()),
            Err(i) => {
                let name = GHObject { hobj: obj.hobj.detach(), ..*obj };
                bucket.insert(i, (name, Box::default()));
                self.len += 1;
                (i, Usage::default())
            }
        };
        let object = &mut bucket[i].1;
        let out = f(object);
        self.usage.change(before, object.usage());
        out
    }
    /// Puts an object in place of what is there.
    pub fn put(&mut self, obj: &GHObject, object: Box<Object>) {
        self.take(obj);
        let bucket = self.buckets.entry(place(obj)).or_default();
        let i = find(bucket, obj).expect_err("it was taken");
        self.usage.change(Usage::default(), object.usage());
        bucket.insert(i, (GHObject { hobj: obj.hobj.detach(), ..*obj }, object));
        self.len += 1;
    }
    pub fn take(&mut self, obj: &GHObject) -> Option<Box<Object>> {
        let place = place(obj);
        let bucket = self.buckets.get_mut(&place)?;
        let (_, object) = bucket.remove(find(bucket, obj).ok()?);
        if bucket.is_empty() {
            self.buckets.remove(&place);
        }
        self.usage.change(object.usage(), Usage::default());
        self.len -= 1;
        Some(object)
    }
    /// Objects from `start` on, ascending.
    pub fn from(&self, start: &GHObject) -> impl Iterator<Item = &GHObject> {
        let start = start.clone();
        self.buckets.range(place(&start)..).flat_map(|(_, bucket)| bucket).map(|(o, _)| o).skip_while(move |o| **o < start)
    }
    /// Takes out every object that `wanted` picks.
    pub fn drain(&mut self, mut wanted: impl FnMut(&GHObject) -> bool) -> Vec<(GHObject, Box<Object>)> {
        let mut out = Vec::new();
        let mut usage = self.usage;
        self.buckets.retain(|_, bucket| {
            for i in (0..bucket.len()).rev() {
                if wanted(&bucket[i].0) {
                    usage.change(bucket[i].1.usage(), Usage::default());
                    out.push(bucket.remove(i));
                }
            }
            !bucket.is_empty()
        });
        self.usage = usage;
        self.len -= out.len();
        out
    }
}
