//! Where the leaves are: their first keys in memory, and as they are stored with each checkpoint.

use super::layer::Key;
use crate::codec::{Corrupt, Get, Put};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A leaf on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafRef {
    /// No two leaves of a store's life have the same.
    pub id: u64,
    /// Blocks of the meta device.
    pub block: u64,
    pub blocks: u32,
    pub rows: u32,
    /// See [`super::leaf::may_have`].
    pub filter: std::rc::Rc<[u8]>,
}

/// A leaf has the keys from its first one to before the next leaf's.
#[derive(Debug, Default)]
pub struct Index {
    leaves: BTreeMap<Key, LeafRef>,
}

const MAGIC: u32 = u32::from_le_bytes(*b"HIDX");
const HEADER: usize = 20;

impl Index {
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &LeafRef)> {
        self.leaves.iter().map(|(k, l)| (&**k, l))
    }
    pub fn leaf_of(&self, key: &[u8]) -> Option<(&[u8], &LeafRef)> {
        self.leaves.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back().map(|(k, l)| (&**k, l))
    }
    pub fn leaf_of_key(&self, key: &Key) -> Option<&LeafRef> {
        self.leaves.range::<Key, _>((Bound::Unbounded, Bound::Included(key))).next_back().map(|(_, l)| l)
    }
    /// The leaf of `key` and those behind it.
    pub fn leaves_from(&self, key: &[u8]) -> impl Iterator<Item = (&[u8], &LeafRef)> {
        let start: &[u8] = self.leaf_of(key).map_or(b"", |(k, _)| k);
        self.leaves.range::<[u8], _>((Bound::Included(start), Bound::Unbounded)).map(|(k, l)| (&**k, l))
    }
    /// The first key of the leaf behind the one that begins with `start`.
    pub fn end_of(&self, start: &[u8]) -> Option<&[u8]> {
        self.leaves.range::<[u8], _>((Bound::Excluded(start), Bound::Unbounded)).next().map(|(k, _)| &**k)
    }
    pub fn insert(&mut self, first: &[u8], leaf: LeafRef) {
        let old = self.leaves.insert(first.into(), leaf);
        assert!(old.is_none(), "a leaf is taken out before another takes its place");
    }
    pub fn remove(&mut self, first: &[u8]) -> Option<LeafRef> {
        self.leaves.remove(first)
    }
    /// Bytes of memory, roughly.
    pub fn memory(&self) -> usize {
        self.leaves.len() * 250
    }

    pub fn encode(&self, seed: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + self.leaves.len() * 160);
        out.put_u32(0);
        out.put_u32(MAGIC);
        out.put_u64(self.leaves.len() as u64);
        out.put_u32(0);
        for (first, leaf) in &self.leaves {
            out.put_blob(first);
            out.put_var(leaf.id);
            out.put_var(leaf.block);
            out.put_var(u64::from(leaf.blocks));
            out.put_var(u64::from(leaf.rows));
            out.put_blob(&leaf.filter);
        }
        let crc = base::crc32c(seed, &out[4..]);
        out[..4].copy_from_slice(&crc.to_le_bytes());
        out
    }
    pub fn decode(bytes: Bytes, seed: u32) -> Result<Self, Corrupt> {
        let mut get = Get::new(bytes.clone());
        let (crc, magic, n) = (get.u32()?, get.u32()?, get.u64()?);
        get.u32()?;
        if magic != MAGIC || base::crc32c(seed, &bytes[4..]) != crc {
            return Err(Corrupt("the index has not its magic and crc"));
        }
        let mut leaves = BTreeMap::new();
        for _ in 0..n {
            let first = get.blob()?;
            let leaf = LeafRef {
                id: get.var()?,
                block: get.var()?,
                blocks: get.var()? as u32,
                rows: get.var()? as u32,
                filter: (*get.blob()?).into(),
            };
            leaves.insert(first[..].into(), leaf);
        }
        Ok(Self { leaves })
    }
}
