//! Where the leaves are: their first keys in memory, and as they are stored with each checkpoint.
//!
//! A leaf's key is the front of its first row's, as short as tells it from the rows in front of it: most are of some fifteen bytes,
//! whatever objects are called. (Former versions of this program put whole keys here. Both say the same: where the keys begin that are the
//! leaf's.)
//!
//! To find, to put in and to take out a leaf takes steps in proportion to the logarithm of how many there are. **Memory, and what each
//! checkpoint and each start do, grow with the number of leaves**: about 250 bytes in memory and 50 on the device for each, one for some
//! seventeen objects of 4 KiB.

use super::layer::Key;
use super::space::Run;
use crate::codec::{Corrupt, Get, Put};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A leaf on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafRef {
    /// No two leaves of a store's life have the same.
    pub id: u64,
    /// The block of the metadata that it begins with, and how many it has.
    pub block: u64,
    pub blocks: u32,
    /// Where it goes on, if it lies in pieces.
    pub more: Option<std::rc::Rc<[Run]>>,
    pub rows: u32,
    /// See [`super::leaf::may_have`].
    pub filter: std::rc::Rc<[u8]>,
}

impl LeafRef {
    /// A leaf on these blocks, of which there are some.
    pub fn new(id: u64, runs: &[Run], rows: u32, filter: std::rc::Rc<[u8]>) -> Self {
        let blocks = runs.iter().map(|run| run.1).sum::<u64>() as u32;
        let more = (runs.len() > 1).then(|| runs[1..].into());
        Self { id, block: runs[0].0, blocks, more, rows, filter }
    }
    /// Its blocks, in their order.
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        let more = self.more.as_deref().unwrap_or_default();
        let first = u64::from(self.blocks) - more.iter().map(|run| run.1).sum::<u64>();
        std::iter::once((self.block, first)).chain(more.iter().copied())
    }
    pub fn pieces(&self) -> usize {
        1 + self.more.as_ref().map_or(0, |more| more.len())
    }
    /// True if the other leaf begins where this one ends, on the device too.
    pub fn is_before(&self, next: &Self) -> bool {
        self.more.is_none() && next.more.is_none() && self.block + u64::from(self.blocks) == next.block
    }
}

/// A leaf has the keys from its first one to before the next leaf's.
#[derive(Debug, Default)]
pub struct Index {
    leaves: BTreeMap<Key, LeafRef>,
    /// What its leaves take when it is stored.
    stored: usize,
}

/// An index on its way to the device, some leaves at a time: it must not change meanwhile.
#[derive(Debug, Default)]
pub struct Encoding {
    /// What is encoded and was not taken.
    out: Vec<u8>,
    begun: bool,
    /// The leaf encoded last.
    last: Option<Key>,
    done: bool,
}

impl Encoding {
    /// The next `n` bytes, if they are there; the last ones may be fewer.
    pub fn take(&mut self, n: usize) -> Option<Vec<u8>> {
        if self.out.len() < n && !self.done {
            return None;
        }
        let rest = self.out.split_off(n.min(self.out.len()));
        Some(std::mem::replace(&mut self.out, rest))
    }
}

/// Bytes of a number of variable length.
fn var_len(v: u64) -> usize {
    (64 - (v | 1).leading_zeros() as usize).div_ceil(7)
}
fn stored_len(first: &[u8], leaf: &LeafRef) -> usize {
    let numbers = [first.len() as u64, leaf.id, leaf.block, 2 * u64::from(leaf.blocks), u64::from(leaf.rows), leaf.filter.len() as u64];
    let more = leaf.more.as_deref().map_or(0, |more| {
        var_len(more.len() as u64) + more.iter().map(|(block, blocks)| var_len(*block) + var_len(*blocks)).sum::<usize>()
    });
    first.len() + leaf.filter.len() + numbers.into_iter().map(var_len).sum::<usize>() + more
}

/// Of an index whose leaves may lie in pieces: the lowest bit of a leaf's blocks says so.
const MAGIC: u32 = u32::from_le_bytes(*b"HIX3");
/// Of an index whose leaves are one piece each: of versions 1 and 2 of the layout.
const MAGIC_WHOLE: u32 = u32::from_le_bytes(*b"HIDX");
/// Pieces of a leaf, at most: no leaf has more blocks.
const PIECES_MAX: u64 = 1 << 16;
const HEADER: usize = 20;

/// Where a leaf of so many blocks goes on.
fn pieces(get: &mut Get, blocks: u64) -> Result<std::rc::Rc<[Run]>, Corrupt> {
    let n = get.var()?;
    if n > blocks.min(PIECES_MAX) {
        return Err(Corrupt("a leaf has more pieces than blocks"));
    }
    let more = (0..n).map(|_| Ok((get.var()?, get.var()?))).collect::<Result<Vec<Run>, Corrupt>>()?;
    let all = more.iter().try_fold(0u64, |sum, run| sum.checked_add(run.1));
    if all.is_none_or(|all| all >= blocks) {
        return Err(Corrupt("the pieces of a leaf have more blocks than it"));
    }
    Ok(more.into())
}

impl Index {
    pub fn len(&self) -> usize {
        self.leaves.len()
    }
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &LeafRef)> {
        self.leaves.iter().map(|(k, l)| (&**k, l))
    }
    pub fn leaf_of(&self, key: &[u8]) -> Option<(&[u8], &LeafRef)> {
        self.leaves.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back().map(|(k, l)| (&**k, l))
    }
    /// The leaf that rows with this key belong to, which is the first one if they are before it: where it begins, and where it ends if another
    /// follows.
    pub fn leaf_for(&self, key: &Key) -> Option<(&Key, &LeafRef, Option<&Key>)> {
        let leaf = self.leaves.range::<Key, _>((Bound::Unbounded, Bound::Included(key))).next_back();
        let (start, leaf) = leaf.or_else(|| self.leaves.first_key_value())?;
        Some((start, leaf, self.leaves.range::<Key, _>((Bound::Excluded(start), Bound::Unbounded)).next().map(|(end, _)| end)))
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
        self.stored += stored_len(first, &leaf);
        let old = self.leaves.insert(first.into(), leaf);
        assert!(old.is_none(), "a leaf is taken out before another takes its place");
    }
    pub fn remove(&mut self, first: &Key) -> Option<LeafRef> {
        let old = self.leaves.remove(first)?;
        self.stored -= stored_len(first, &old);
        Some(old)
    }
    /// Bytes of memory, roughly.
    pub fn memory(&self) -> usize {
        self.leaves.len() * 250
    }

    /// Bytes of it as it is stored.
    pub fn stored_len(&self) -> usize {
        HEADER + self.stored
    }
    /// Encodes until `len` bytes can be taken, or all is encoded. The header's crc is left out: see [`Index::seal`].
    pub fn encode_some(&self, to: &mut Encoding, len: usize) {
        let out = &mut to.out;
        if !std::mem::replace(&mut to.begun, true) {
            out.put_u32(0);
            out.put_u32(MAGIC);
            out.put_u64(self.leaves.len() as u64);
            out.put_u32(0);
        }
        let from = to.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut last = None;
        let mut leaves = self.leaves.range::<Key, _>((from, Bound::Unbounded));
        while out.len() < len {
            let Some((first, leaf)) = leaves.next() else {
                to.done = true;
                break;
            };
            out.put_blob(first);
            out.put_var(leaf.id);
            out.put_var(leaf.block);
            out.put_var(2 * u64::from(leaf.blocks) + u64::from(leaf.more.is_some()));
            out.put_var(u64::from(leaf.rows));
            out.put_blob(&leaf.filter);
            if let Some(more) = &leaf.more {
                out.put_var(more.len() as u64);
                for (block, blocks) in more.iter() {
                    out.put_var(*block);
                    out.put_var(*blocks);
                }
            }
            last = Some(first);
        }
        if let Some(last) = last.cloned() {
            to.last = Some(last);
        }
    }
    /// The crc of the index when `bytes` come behind what has this one; what has none is the front, whose place for the crc is left out.
    pub fn crc(before: Option<u32>, seed: u32, bytes: &[u8]) -> u32 {
        match before {
            Some(crc) => base::crc32c(crc, bytes),
            None => base::crc32c(seed, &bytes[4..]),
        }
    }
    /// Puts the crc of everything into its front.
    pub fn seal(front: &mut [u8], crc: u32) {
        front[..4].copy_from_slice(&crc.to_le_bytes());
    }
    /// All of it at once.
    pub fn encode(&self, seed: u32) -> Vec<u8> {
        let mut encoding = Encoding::default();
        self.encode_some(&mut encoding, usize::MAX);
        let mut out = encoding.out;
        let crc = Self::crc(None, seed, &out);
        Self::seal(&mut out, crc);
        out
    }
    pub fn decode(bytes: Bytes, seed: u32) -> Result<Self, Corrupt> {
        let mut get = Get::new(bytes.clone());
        let (crc, magic, n) = (get.u32()?, get.u32()?, get.u64()?);
        get.u32()?;
        if !matches!(magic, MAGIC | MAGIC_WHOLE) || base::crc32c(seed, &bytes[4..]) != crc {
            return Err(Corrupt("the index has not its magic and crc"));
        }
        let mut index = Self::default();
        for _ in 0..n {
            let first = get.blob()?;
            let (id, block, blocks) = (get.var()?, get.var()?, get.var()?);
            let (blocks, has_more) = if magic == MAGIC { (blocks / 2, blocks % 2 == 1) } else { (blocks, false) };
            let (rows, filter) = (get.var()? as u32, (*get.blob()?).into());
            let more = has_more.then(|| pieces(&mut get, blocks)).transpose()?;
            let leaf = LeafRef { id, block, blocks: blocks as u32, more, rows, filter };
            index.stored += stored_len(&first, &leaf);
            if index.leaves.insert(first[..].into(), leaf).is_some() {
                return Err(Corrupt("the index has two leaves with one key"));
            }
        }
        Ok(index)
    }
}
