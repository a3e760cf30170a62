//! An object's attributes in one piece of memory: few, short, overwritten often, and read together.
//!
//! ```text
//! name length u32 | value length u32 | name | value | …        ascending by name
//! ```

/// Attributes by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attrs {
    bytes: Vec<u8>,
}

const HEADER: usize = 8;

/// Where an attribute lies.
#[derive(Debug, Clone, Copy)]
struct At {
    start: usize,
    value: usize,
    end: usize,
}

impl Attrs {
    fn at(&self, start: usize) -> At {
        let len = |at: usize| u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes")) as usize;
        let value = start + HEADER + len(start);
        At { start, value, end: value + len(start + 4) }
    }
    fn all(&self) -> impl Iterator<Item = At> {
        let mut start = 0;
        std::iter::from_fn(move || {
            let at = (start < self.bytes.len()).then(|| self.at(start))?;
            start = at.end;
            Some(at)
        })
    }
    fn name(&self, at: At) -> &[u8] {
        &self.bytes[at.start + HEADER..at.value]
    }
    /// Where the name is, or where it would begin.
    fn find(&self, name: &[u8]) -> Result<At, usize> {
        match self.all().find(|at| self.name(*at) >= name) {
            Some(at) if self.name(at) == name => Ok(at),
            Some(at) => Err(at.start),
            None => Err(self.bytes.len()),
        }
    }
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.find(name).ok().map(|at| &self.bytes[at.value..at.end])
    }
    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut [u8]> {
        self.find(name).ok().map(|at| &mut self.bytes[at.value..at.end])
    }
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        let start = match self.find(name) {
            Ok(at) if at.end - at.value == value.len() => return self.bytes[at.value..at.end].copy_from_slice(value),
            Ok(at) => {
                self.bytes.drain(at.start..at.end);
                at.start
            }
            Err(start) => start,
        };
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("an attribute is shorter than 4 GiB").to_le_bytes();
        let (names, values) = (len(name), len(value));
        self.bytes.reserve_exact(HEADER + name.len() + value.len());
        let end = self.bytes.len();
        [&names[..], &values, name, value].into_iter().for_each(|piece| self.bytes.extend_from_slice(piece));
        if start < end {
            self.bytes[start..].rotate_left(end - start);
        }
    }
    pub fn remove(&mut self, name: &[u8]) {
        if let Ok(at) = self.find(name) {
            self.bytes.drain(at.start..at.end);
        }
    }
    pub fn clear(&mut self) {
        self.bytes.clear();
    }
    pub fn len(&self) -> usize {
        self.all().count()
    }
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.all().map(|at| (self.name(at), &self.bytes[at.value..at.end]))
    }
    /// All of them, as they lie in memory.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
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
        }
    }
}
