//! An object's attributes in one piece of memory: few, short, overwritten often, and read together.
//!
//! ```text
//! name length u32 | value length u32 | name | value | …        ascending by name
//! ```
//!
//! Attributes that nobody asks for may be packed: the records of two objects of one kind differ in a few of some hundred bytes, and those alone are
//! kept, as [`ops::runs`] has them.

use crate::codec::{Corrupt, Get, Put};
use crate::ops;
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::Arc;

/// Attributes by name.
#[derive(Debug, Clone, Default)]
pub struct Attrs {
    /// As above; if there is something that they are like, what is different.
    bytes: Box<[u8]>,
    like: Option<Arc<Vec<u8>>>,
}

/// All attributes of an object, to be read.
#[derive(Debug)]
pub struct Plain<'a>(Cow<'a, [u8]>);

/// Attributes of other objects, one for each of some lengths, that those of the same length are held against.
#[derive(Debug)]
pub struct Likes {
    by_len: Vec<Like>,
}

#[derive(Debug, Clone, Default)]
struct Like {
    bytes: Arc<Vec<u8>>,
    /// How many of its length in a row were not like it.
    unlike: u8,
}

const LIKES: usize = 64;
/// After so many that are not like it, another takes its place.
const UNLIKE_MAX: u8 = 8;
/// What is longer is not packed.
const PACKED_MAX: usize = 4096;
const HEADER: usize = 8;

/// Where an attribute lies.
#[derive(Debug, Clone, Copy)]
struct At {
    start: usize,
    value: usize,
    end: usize,
}

fn at(bytes: &[u8], start: usize) -> At {
    let len = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    let value = start + HEADER + len(start);
    At { start, value, end: value + len(start + 4) }
}
fn all(bytes: &[u8]) -> impl Iterator<Item = At> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let at = (start < bytes.len()).then(|| at(bytes, start))?;
        start = at.end;
        Some(at)
    })
}
fn name(bytes: &[u8], at: At) -> &[u8] {
    &bytes[at.start + HEADER..at.value]
}
/// Where the name is, or where it would begin.
fn find(bytes: &[u8], wanted: &[u8]) -> Result<At, usize> {
    match all(bytes).find(|at| name(bytes, *at) >= wanted) {
        Some(at) if name(bytes, at) == wanted => Ok(at),
        Some(at) => Err(at.start),
        None => Err(bytes.len()),
    }
}

fn length(piece: &[u8]) -> [u8; 4] {
    u32::try_from(piece.len()).expect("an attribute is shorter than 4 GiB").to_le_bytes()
}

fn apply(like: &[u8], runs: &[u8]) -> Vec<u8> {
    let mut out = like.to_vec();
    ops::patch(&mut out, runs).expect("what was packed can be unpacked");
    out
}

impl Plain<'_> {
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        find(&self.0, name).ok().map(|at| &self.0[at.value..at.end])
    }
    pub fn len(&self) -> usize {
        all(&self.0).count()
    }
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        all(&self.0).map(|at| (name(&self.0, at), &self.0[at.value..at.end]))
    }
}

impl Attrs {
    /// As a row has them.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let plain = self.plain();
        out.put_var(plain.len() as u64);
        for (name, value) in plain.iter() {
            out.put_blob(name);
            out.put_blob(value);
        }
    }
    pub fn decode<B: AsRef<[u8]>>(get: &mut Get<B>) -> Result<Self, Corrupt> {
        let count = get.count(2)?;
        // Most of an object's row are its attributes.
        let mut bytes = Vec::with_capacity(get.remaining() + count * HEADER);
        let mut before: Option<At> = None;
        for _ in 0..count {
            let front = bytes.len();
            bytes.extend_from_slice(&[0; HEADER]);
            for i in [0, 4] {
                let slice = get.slice()?;
                bytes[front + i..front + i + 4].copy_from_slice(&length(slice));
                bytes.extend_from_slice(slice);
            }
            let this = at(&bytes, front);
            if before.is_some_and(|before| name(&bytes, before) >= name(&bytes, this)) {
                return Err(Corrupt("an object's attributes are not in order"));
            }
            before = Some(this);
        }
        Ok(Self { bytes: bytes.into(), like: None })
    }
    /// All of them.
    pub fn plain(&self) -> Plain<'_> {
        Plain(match &self.like {
            None => Cow::Borrowed(&self.bytes),
            Some(like) => Cow::Owned(apply(like, &self.bytes)),
        })
    }
    /// Two of them, in memory of their own.
    pub fn two(&self, names: [&[u8]; 2]) -> [Option<Bytes>; 2] {
        match self.plain().0 {
            Cow::Borrowed(bytes) => names.map(|name| find(bytes, name).ok().map(|at| Bytes::copy_from_slice(&bytes[at.value..at.end]))),
            Cow::Owned(bytes) => {
                let bytes = Bytes::from(bytes);
                names.map(|name| find(&bytes, name).ok().map(|at| bytes.slice(at.value..at.end)))
            }
        }
    }
    /// As they are written.
    fn unpacked(&mut self) -> &mut [u8] {
        if let Some(like) = self.like.take() {
            self.bytes = apply(&like, &self.bytes).into();
        }
        &mut self.bytes
    }
    /// Packs them, if there are some like them; false if nothing is won by it.
    pub fn pack(&mut self, likes: &mut Likes) -> bool {
        if self.like.is_some() || !(LIKES..=PACKED_MAX).contains(&self.bytes.len()) {
            return false;
        }
        let entry = &mut likes.by_len[self.bytes.len() % LIKES];
        if entry.bytes.len() == self.bytes.len() {
            let mut runs = Vec::new();
            if ops::runs(&entry.bytes, &self.bytes, &mut runs).is_some() {
                (self.bytes, self.like) = (runs.as_slice().into(), Some(entry.bytes.clone()));
                entry.unlike = 0;
                return true;
            }
        }
        entry.unlike += 1;
        if entry.bytes.is_empty() || entry.unlike >= UNLIKE_MAX {
            *entry = Like { bytes: Arc::new(self.bytes.to_vec()), unlike: 0 };
        }
        false
    }
    pub fn get(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        match &self.like {
            None => find(&self.bytes, name).ok().map(|at| Cow::Borrowed(&self.bytes[at.value..at.end])),
            Some(_) => self.plain().get(name).map(|value| Cow::Owned(value.to_vec())),
        }
    }
    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut [u8]> {
        let bytes = self.unpacked();
        find(bytes, name).ok().map(|at| &mut bytes[at.value..at.end])
    }
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        let bytes = self.unpacked();
        let (start, gone) = match find(bytes, name) {
            Ok(at) if at.end - at.value == value.len() => return bytes[at.value..at.end].copy_from_slice(value),
            Ok(at) => (at.start, at.end - at.start),
            Err(start) => (start, 0),
        };
        let mut bytes = Vec::from(std::mem::take(&mut self.bytes));
        bytes.drain(start..start + gone);
        let (names, values) = (length(name), length(value));
        bytes.reserve_exact(HEADER + name.len() + value.len());
        let end = bytes.len();
        [&names[..], &values, name, value].into_iter().for_each(|piece| bytes.extend_from_slice(piece));
        if start < end {
            bytes[start..].rotate_left(end - start);
        }
        self.bytes = bytes.into();
    }
    pub fn remove(&mut self, name: &[u8]) {
        let bytes = self.unpacked();
        if let Ok(at) = find(bytes, name) {
            self.bytes = [&bytes[..at.start], &bytes[at.end..]].concat().into();
        }
    }
    pub fn clear(&mut self) {
        *self = Self::default();
    }
    /// What lies in memory for them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.bytes.len()
    }
}

impl PartialEq for Attrs {
    fn eq(&self, other: &Self) -> bool {
        self.plain().0 == other.plain().0
    }
}
impl Eq for Attrs {}

impl Default for Likes {
    fn default() -> Self {
        Self { by_len: vec![Like::default(); LIKES] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Records of one kind take a part of their memory when they are packed, and are the same.
    #[test]
    fn what_is_alike_takes_little() {
        let mut rng = base::Rng::new(6);
        let mut likes = Likes::default();
        let (mut packed, mut bytes) = (0, 0);
        for n in 0..1000usize {
            // Some of each kind, none of which is like another; some are as long as others.
            let kind = n % 3;
            let mut value = vec![kind as u8 * 70 + 1; 270 + kind / 2];
            for _ in 0..rng.below(if kind == 0 { 20 } else { 3 }) {
                let at = rng.below(value.len() as u64) as usize;
                value[at] = rng.below(256) as u8;
            }
            let mut attrs = Attrs::default();
            attrs.set(b"_", &value);
            attrs.set(b"snapset", &[5; 30]);
            let whole = attrs.clone();
            packed += usize::from(attrs.pack(&mut likes));
            assert!(!attrs.pack(&mut likes) || attrs.like.is_some());
            bytes += attrs.memory();
            assert_eq!(attrs, whole);
            assert_eq!(attrs.plain().get(b"_"), Some(&value[..]));
            if rng.chance(1, 2) {
                value.push(7);
                attrs.set(b"_", &value);
                assert_eq!(attrs.plain().get(b"_"), Some(&value[..]));
            }
        }
        assert!(packed > 600 && bytes < 200_000, "{packed} packed, {bytes} bytes");
    }
    #[test]
    fn they_are_what_a_map_would_have() {
        let mut rng = base::Rng::new(5);
        let (mut attrs, mut model, mut likes) = (Attrs::default(), BTreeMap::new(), Likes::default());
        for _ in 0..5000 {
            let name = vec![b'a' + rng.below(5) as u8; rng.below(4) as usize];
            match rng.below(20) {
                0 => {
                    attrs.clear();
                    model.clear();
                }
                1..6 => {
                    attrs.remove(&name);
                    model.remove(&name);
                }
                6..9 => {
                    if let Some(value) = attrs.get_mut(&name) {
                        value.fill(7);
                    }
                    if let Some(value) = model.get_mut(&name) {
                        let value: &mut Vec<u8> = value;
                        value.fill(7);
                    }
                }
                9..12 => drop(attrs.pack(&mut likes)),
                _ => {
                    let mut value = vec![0; rng.below(3) as usize * 5];
                    rng.fill(&mut value);
                    attrs.set(&name, &value);
                    model.insert(name.clone(), value);
                }
            }
            let plain = attrs.plain();
            assert_eq!(plain.get(&name), model.get(&name).map(|v| &v[..]));
            assert!(plain.iter().eq(model.iter().map(|(n, v)| (&n[..], &v[..]))) && plain.len() == model.len());
            let two = attrs.two([&name, b"none"]);
            assert_eq!((two[0].as_deref(), &two[1]), (model.get(&name).map(|v| &v[..]), &None));
        }
    }
}
