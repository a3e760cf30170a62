//! An object's attributes in one piece of memory: few, short, overwritten often, and read together.
//!
//! ```text
//! name length u32 | value length u32 | name | value | …        ascending by name
//! ```

use crate::rows::codec::{Corrupt, Get, Put};
use bytes::Bytes;

/// Attributes by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attrs(Box<[u8]>);

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

impl Attrs {
    /// As a row has them.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_var(self.len() as u64);
        for (name, value) in self.iter() {
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
        Ok(Self(bytes.into()))
    }
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        find(&self.0, name).ok().map(|at| &self.0[at.value..at.end])
    }
    pub fn len(&self) -> usize {
        all(&self.0).count()
    }
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        all(&self.0).map(|at| (name(&self.0, at), &self.0[at.value..at.end]))
    }
    /// Two of them, in memory of their own.
    pub fn two(&self, names: [&[u8]; 2]) -> [Option<Bytes>; 2] {
        names.map(|name| self.get(name).map(Bytes::copy_from_slice))
    }
    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut [u8]> {
        find(&self.0, name).ok().map(|at| &mut self.0[at.value..at.end])
    }
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        let (start, gone) = match find(&self.0, name) {
            Ok(at) if at.end - at.value == value.len() => return self.0[at.value..at.end].copy_from_slice(value),
            Ok(at) => (at.start, at.end - at.start),
            Err(start) => (start, 0),
        };
        let mut bytes = Vec::from(std::mem::take(&mut self.0));
        bytes.drain(start..start + gone);
        let (names, values) = (length(name), length(value));
        bytes.reserve_exact(HEADER + name.len() + value.len());
        let end = bytes.len();
        [&names[..], &values, name, value].into_iter().for_each(|piece| bytes.extend_from_slice(piece));
        if start < end {
            bytes[start..].rotate_left(end - start);
        }
        self.0 = bytes.into();
    }
    pub fn remove(&mut self, name: &[u8]) {
        if let Ok(at) = find(&self.0, name) {
            self.0 = [&self.0[..at.start], &self.0[at.end..]].concat().into();
        }
    }
    pub fn clear(&mut self) {
        *self = Self::default();
    }
    /// What lies in memory for them.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn they_are_what_a_map_would_have() {
        let mut rng = base::Rng::new(5);
        let (mut attrs, mut model) = (Attrs::default(), BTreeMap::new());
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
                _ => {
                    let mut value = vec![0; rng.below(3) as usize * 5];
                    rng.fill(&mut value);
                    attrs.set(&name, &value);
                    model.insert(name.clone(), value);
                }
            }
            assert_eq!(attrs.get(&name), model.get(&name).map(|v| &v[..]));
            assert!(attrs.iter().eq(model.iter().map(|(n, v)| (&n[..], &v[..]))) && attrs.len() == model.len());
            let mut row = Vec::new();
            attrs.encode(&mut row);
            assert_eq!(Attrs::decode(&mut Get::new(&row)), Ok(attrs.clone()));
            let two = attrs.two([&name, b"none"]);
            assert_eq!((two[0].as_deref(), &two[1]), (model.get(&name).map(|v| &v[..]), &None));
        }
    }
}
