//! An object's attributes in one piece of memory: few, read together, overwritten often.
//!
//! ```text
//! (u32 length of name, u32 length of value, name, value) ...      ascending by name
//! ```

use bytes::Bytes;
use types::ByteStr;

/// Bytes before a name.
const HEAD: usize = 8;

#[derive(Debug, Clone, Default)]
pub struct Attrs {
    packed: Vec<u8>,
    count: usize,
}

/// One attribute's place.
struct Found {
    /// Where its entry begins.
    start: usize,
    name_len: usize,
    value_len: usize,
}

impl Found {
    fn name_at(&self) -> usize {
        self.start + HEAD
    }
    fn value_at(&self) -> usize {
        self.name_at() + self.name_len
    }
    fn end(&self) -> usize {
        self.value_at() + self.value_len
    }
}

impl Attrs {
    /// Bytes of names and values.
    pub fn bytes(&self) -> u64 {
        (self.packed.len() - self.count * HEAD) as u64
    }
    fn entry(&self, start: usize) -> Option<Found> {
        let head = self.packed.get(start..start + HEAD)?;
        let name_len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let value_len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        Some(Found { start, name_len, value_len })
    }
    fn name(&self, at: &Found) -> &[u8] {
        &self.packed[at.name_at()..at.value_at()]
    }
    fn value(&self, at: &Found) -> &[u8] {
        &self.packed[at.value_at()..at.end()]
    }
    fn entries(&self) -> impl Iterator<Item = Found> + '_ {
        let mut start = 0;
        std::iter::from_fn(move || {
            let found = self.entry(start)?;
            start = found.end();
            Some(found)
        })
    }
    /// The attribute, or where it would be put.
    fn find(&self, name: &[u8]) -> Result<Found, usize> {
        for found in self.entries() {
            match self.name(&found).cmp(name) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Ok(found),
                std::cmp::Ordering::Greater => return Err(found.start),
            }
        }
        Err(self.packed.len())
    }
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        Some(self.value(&self.find(name).ok()?))
    }
    pub fn iter(&self) -> impl Iterator<Item = (ByteStr, Bytes)> + '_ {
        self.entries().map(|at| (ByteStr::from(self.name(&at)), Bytes::copy_from_slice(self.value(&at))))
    }
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        let value_len = u32::try_from(value.len()).expect("a message holds it");
        match self.find(name) {
            Ok(at) if at.value_len == value.len() => {
                let (from, to) = (at.value_at(), at.end());
                self.packed[from..to].copy_from_slice(value);
            }
            Ok(at) => {
                self.packed[at.start + 4..at.start + HEAD].copy_from_slice(&value_len.to_le_bytes());
                self.packed.splice(at.value_at()..at.end(), value.iter().copied());
            }
            Err(start) => {
                let name_len = u32::try_from(name.len()).expect("a message holds it");
                let entry = [&name_len.to_le_bytes()[..], &value_len.to_le_bytes(), name, value].concat();
                self.packed.splice(start..start, entry);
                self.count += 1;
            }
        }
    }
    pub fn remove(&mut self, name: &[u8]) {
        if let Ok(at) = self.find(name) {
            self.packed.drain(at.start..at.end());
            self.count -= 1;
        }
    }
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_a_sorted_map() {
        let mut attrs = Attrs::default();
        let mut model = std::collections::BTreeMap::new();
        for i in 0..2000_u32 {
            let roll = i.wrapping_mul(2_654_435_761) >> 7;
            let name = format!("{:0width$}", roll % 23, width = 1 + (roll % 3) as usize).into_bytes();
            if roll % 5 == 0 {
                attrs.remove(&name);
                model.remove(&name);
            } else {
                let value = vec![i as u8; (roll % 7) as usize * 9];
                attrs.set(&name, &value);
                model.insert(name, value);
            }
            let all: Vec<_> = attrs.iter().map(|(n, v)| (n.as_slice().to_vec(), v.to_vec())).collect();
            assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
            assert_eq!(attrs.bytes(), model.iter().map(|(n, v)| (n.len() + v.len()) as u64).sum::<u64>());
        }
        for (name, value) in &model {
            assert_eq!(attrs.get(name), Some(&value[..]));
        }
        assert_eq!(attrs.get(b"nobody's"), None);
    }
}
