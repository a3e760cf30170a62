//! A leaf as the index names it: the key that it begins with, where it lies, and what a look asks before it reads.
//!
//! ```text
//!   key length, key | id | block | 2 × blocks + 1 if it lies in pieces | rows | filter length, filter
//!     | the other pieces: how many, block, blocks …
//! ```
//! All are numbers of variable length. In memory entries lie as they are stored, one behind the other: a leaf takes some 40 bytes so, and
//! 250 if each were a node of a tree.

use super::space::Run;
use crate::rows::codec::{Corrupt, Get, Put};
use bytes::Bytes;
use smallvec::SmallVec;
use std::rc::Rc;

/// A leaf on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafRef {
    /// No two leaves of a store's life have the same.
    pub id: u64,
    /// The block of the metadata that it begins with, and how many it has.
    pub block: u64,
    pub blocks: u32,
    /// Where it goes on, if it lies in pieces.
    pub more: Option<Rc<[Run]>>,
    pub rows: u32,
}

impl LeafRef {
    /// A leaf on these blocks, of which there are some.
    pub fn new(id: u64, runs: &[Run], rows: u32) -> Self {
        let blocks = runs.iter().map(|run| run.1).sum::<u64>() as u32;
        let more = (runs.len() > 1).then(|| runs[1..].into());
        Self { id, block: runs[0].0, blocks, more, rows }
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
    /// Appends the entry of this leaf, which begins with this key.
    pub fn put(&self, first: &[u8], filter: &[u8], out: &mut Vec<u8>) {
        out.put_blob(first);
        out.put_var(self.id);
        out.put_var(self.block);
        out.put_var(2 * u64::from(self.blocks) + u64::from(self.more.is_some()));
        out.put_var(u64::from(self.rows));
        out.put_blob(filter);
        if let Some(more) = &self.more {
            out.put_var(more.len() as u64);
            for (block, blocks) in more.iter() {
                out.put_var(*block);
                out.put_var(*blocks);
            }
        }
    }
}

/// An entry as it lies in memory.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    pub id: u64,
    pub block: u64,
    pub blocks: u32,
    pub rows: u32,
    /// See [`super::leaf::may_have`].
    pub filter: &'a [u8],
    /// The other pieces' numbers, as they are stored, and how many pieces they are of.
    more: &'a [u8],
    more_len: usize,
}

/// Takes a number off the front of bytes that were checked.
fn var(bytes: &mut &[u8]) -> u64 {
    let (mut v, mut shift) = (0, 0);
    loop {
        let b = bytes[0];
        *bytes = &bytes[1..];
        v |= u64::from(b & 0x7f) << shift;
        if b < 0x80 {
            return v;
        }
        shift += 7;
    }
}
fn blob<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let len = var(bytes) as usize;
    let (blob, rest) = bytes.split_at(len);
    *bytes = rest;
    blob
}

/// The highest bit of each byte: a number ends with the first byte that has it not.
const HIGH: u128 = u128::from_le_bytes([0x80; 16]);

/// Bytes from an entry's id to its end, if its five numbers lie in so many, its filter is shorter than 128 bytes, and the leaf lies in one
/// piece: nearly always.
fn rest_len(bytes: &[u8]) -> Option<usize> {
    let front = bytes.first_chunk::<16>()?;
    let ends = !u128::from_le_bytes(*front) & HIGH;
    let but_lowest = |bits: u128| bits & bits.wrapping_sub(1);
    let second = but_lowest(ends);
    let fourth = but_lowest(but_lowest(second));
    let (blocks, filter) = (second.trailing_zeros() as usize / 8 + 1, fourth.trailing_zeros() as usize / 8 + 1);
    let (blocks, filter) = (*front.get(blocks)?, *front.get(filter)?);
    (blocks % 2 == 0 && filter < 0x80).then_some(fourth.trailing_zeros() as usize / 8 + 2 + filter as usize)
}

impl<'a> Entry<'a> {
    /// Takes an entry off the front as [`Entry::take`] does, without a look at what it says: where it begins.
    pub fn pass(bytes: &mut &'a [u8]) -> &'a [u8] {
        let all = *bytes;
        let first = blob(bytes);
        match rest_len(bytes) {
            Some(len) => *bytes = &bytes[len..],
            None => {
                *bytes = all;
                Self::take(bytes);
            }
        }
        first
    }
    /// Takes an entry off the front of some, which were checked: where it begins, and it.
    pub fn take(bytes: &mut &'a [u8]) -> (&'a [u8], Self) {
        let first = blob(bytes);
        let (id, block, blocks, rows) = (var(bytes), var(bytes), var(bytes), var(bytes) as u32);
        let filter = blob(bytes);
        let (mut more, mut more_len): (&[u8], usize) = (&[], 0);
        if blocks % 2 == 1 {
            more_len = var(bytes) as usize;
            let all = *bytes;
            for _ in 0..2 * more_len {
                var(bytes);
            }
            more = &all[..all.len() - bytes.len()];
        }
        (first, Self { id, block, blocks: (blocks / 2) as u32, rows, filter, more, more_len })
    }
    /// Its blocks, in their order.
    pub fn runs(&self) -> SmallVec<[Run; 1]> {
        let mut runs: SmallVec<[Run; 1]> = SmallVec::from_elem((self.block, u64::from(self.blocks)), 1);
        let mut more = self.more;
        for _ in 0..self.more_len {
            let run = (var(&mut more), var(&mut more));
            runs[0].1 -= run.1;
            runs.push(run);
        }
        runs
    }
    pub fn leaf(&self) -> LeafRef {
        LeafRef::new(self.id, &self.runs(), self.rows)
    }
}

/// Pieces of a leaf, at most: no leaf has more blocks.
const PIECES_MAX: u64 = 1 << 16;

/// Where a leaf of so many blocks goes on.
fn pieces(get: &mut Get, blocks: u64) -> Result<Rc<[Run]>, Corrupt> {
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

/// Reads an entry as it was stored, and checks it: the leaf, and its filter. Its key was read before. `is_whole`: it is of a version whose
/// leaves are one piece each.
pub fn read(get: &mut Get, is_whole: bool) -> Result<(LeafRef, Bytes), Corrupt> {
    let (id, block, blocks) = (get.var()?, get.var()?, get.var()?);
    let (blocks, has_more) = if is_whole { (blocks, false) } else { (blocks / 2, blocks % 2 == 1) };
    let (rows, filter) = (get.var()? as u32, get.blob()?);
    if blocks == 0 || blocks > u64::from(u32::MAX) {
        return Err(Corrupt("a leaf has no blocks, or too many"));
    }
    let more = has_more.then(|| pieces(get, blocks)).transpose()?;
    Ok((LeafRef { id, block, blocks: blocks as u32, more, rows }, filter))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever an entry has, to pass it is to take it.
    #[test]
    fn an_entry_is_passed_as_it_is_taken() {
        let (mut rng, mut all, mut count) = (base::Rng::new(4), Vec::new(), 0);
        let mut number = |bits: u64| rng.u64() >> (64 - bits.clamp(1, 63));
        for n in 0..4000 {
            let runs: Vec<Run> = (0..if n % 7 == 0 { 3 } else { 1 }).map(|_| (number(n % 50), 1 + number(n % 9))).collect();
            let (first, filter) = (vec![1; number(6) as usize], vec![2; number(if n % 11 == 0 { 9 } else { 5 }) as usize]);
            LeafRef::new(number(n % 60), &runs, number(n % 20) as u32).put(&first, &filter, &mut all);
            count += 1;
        }
        let (mut taken, mut passed, mut short) = (&all[..], &all[..], 0);
        while !taken.is_empty() {
            short += usize::from(
                rest_len({
                    let mut rest = passed;
                    blob(&mut rest);
                    rest
                })
                .is_some(),
            );
            assert_eq!(Entry::take(&mut taken).0, Entry::pass(&mut passed));
            assert_eq!(taken.len(), passed.len());
            count -= 1;
        }
        assert!(count == 0 && short > 1000 && short < 4000, "{short} of the short way");
    }
}
