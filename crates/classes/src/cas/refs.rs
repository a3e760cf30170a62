//! References to a chunk, as exactly as there was room for: by object, by the objects' hashes, by pool, or only their number.
//!
//! We write what we read: coarser forms come from clients that counted elsewhere. What has no references is by object again.

use crate::rest::{Rest, keeps};
use denc::{Decoder, Denc, DencError, Encoder};
use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};
use types::{HObject, PoolId};

/// The references of `chunk_refs_t`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refs {
    /// Sorted; an object may refer more than once.
    ByObject(Vec<HObject>),
    /// So many low bits of each hash are kept.
    ByHash {
        total: u64,
        bits: u32,
        hashes: BTreeMap<(PoolId, u32), u64>,
    },
    ByPool {
        total: u64,
        pools: BTreeMap<PoolId, u64>,
    },
    Count(u64),
}

impl Default for Refs {
    fn default() -> Self {
        Self::ByObject(Vec::new())
    }
}

fn masked(hash: u32, bits: u32) -> u32 {
    hash & u32::MAX >> (32 - bits)
}

/// One more under a key.
fn one_more<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(1);
}

/// One less under a key; false if there is none.
fn take<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) -> bool {
    let Some(count) = counts.get_mut(&key) else { return false };
    *count = count.saturating_sub(1);
    if *count == 0 {
        counts.remove(&key);
    }
    true
}

impl Refs {
    pub fn is_empty(&self) -> bool {
        match self {
            Self::ByObject(objects) => objects.is_empty(),
            Self::ByHash { hashes, .. } => hashes.is_empty(),
            Self::ByPool { pools, .. } => pools.is_empty(),
            Self::Count(total) => *total == 0,
        }
    }
    pub fn add(&mut self, source: HObject) {
        match self {
            Self::ByObject(objects) => objects.insert(objects.partition_point(|o| *o <= source), source),
            Self::ByHash { total, bits, hashes } => {
                one_more(hashes, (source.pool, masked(source.hash, *bits)));
                *total = total.saturating_add(1);
            }
            Self::ByPool { total, pools } => {
                one_more(pools, source.pool);
                *total = total.saturating_add(1);
            }
            Self::Count(total) => *total = total.saturating_add(1),
        }
    }
    /// False if there is no reference of that object.
    pub fn remove(&mut self, source: &HObject) -> bool {
        let found = match self {
            Self::ByObject(objects) => match objects.binary_search(source) {
                Ok(at) => {
                    objects.remove(at);
                    true
                }
                Err(_) => false,
            },
            Self::ByHash { total, bits, hashes } => {
                let found = take(hashes, (source.pool, masked(source.hash, *bits)));
                *total = total.saturating_sub(found.into());
                found
            }
            Self::ByPool { total, pools } => {
                let found = take(pools, source.pool);
                *total = total.saturating_sub(found.into());
                found
            }
            Self::Count(total) => {
                let found = *total > 0;
                *total = total.saturating_sub(1);
                found
            }
        };
        if self.is_empty() {
            *self = Self::default();
        }
        found
    }
}

/// The sign in the lowest bit. `i64::MIN`, the pool of an object that names none, has a magnitude of one bit too many: that bit falls off
/// here as it does in 18.2, and a zero with a sign is left, which no other number is written as.
fn put_signed(e: &mut Encoder, v: i64) {
    e.varint(v.unsigned_abs() << 1 | u64::from(v < 0));
}
fn signed(d: &mut Decoder) -> Result<i64, DencError> {
    let v = d.varint()?;
    let magnitude = (v >> 1) as i64;
    Ok(match (v & 1, magnitude) {
        (0, _) => magnitude,
        (_, 0) => i64::MIN,
        _ => -magnitude,
    })
}

/// `chunk_refs_t`: what the attribute holds.
#[derive(Debug, Default)]
pub struct Record {
    pub refs: Refs,
    rest: Rest,
    /// Of the form's own frame, as long as the references are of that form.
    of_form: Option<(Discriminant<Refs>, Rest)>,
}

impl Denc for Record {
    fn encode(&self, e: &mut Encoder) {
        let none = Rest::default();
        let of_form = self.of_form.as_ref().filter(|(form, _)| *form == discriminant(&self.refs)).map_or(&none, |(_, rest)| rest);
        self.rest.frame(e, 1, 1, |e| self.refs.put(e, of_form));
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let ((refs, of_form), rest) = Rest::read(d, "chunk_refs_t", 1, |d, _| Refs::get(d))?;
        let of_form = Some((discriminant(&refs), of_form));
        Ok(Self { refs, rest, of_form })
    }
}
keeps!(Record, Record::default());

impl Refs {
    fn put(&self, e: &mut Encoder, rest: &Rest) {
        match self {
            Self::ByObject(objects) => {
                e.u8(1);
                rest.frame(e, 1, 1, |e| objects.encode(e));
            }
            Self::ByHash { total, bits, hashes } => {
                e.u8(2);
                rest.frame(e, 1, 1, |e| {
                    e.varint(*total);
                    e.varint((*bits).into());
                    e.varint(hashes.len() as u64);
                    for (&(pool, hash), &count) in hashes {
                        put_signed(e, pool);
                        e.raw(&hash.to_le_bytes()[..bits.div_ceil(8) as usize]);
                        e.varint(count);
                    }
                });
            }
            Self::ByPool { total, pools } => {
                e.u8(4);
                rest.frame(e, 1, 1, |e| {
                    e.varint(*total);
                    e.varint(pools.len() as u64);
                    for (&pool, &count) in pools {
                        put_signed(e, pool);
                        e.varint(count);
                    }
                });
            }
            Self::Count(total) => {
                e.u8(5);
                rest.frame(e, 1, 1, |e| e.u64(*total));
            }
        }
    }
    fn get(d: &mut Decoder) -> Result<(Self, Rest), DencError> {
        match d.u8()? {
            1 => Rest::read(d, "chunk_refs_by_object_t", 1, |d, _| {
                let mut objects: Vec<HObject> = d.get()?;
                objects.sort();
                Ok(Self::ByObject(objects))
            }),
            2 => Rest::read(d, "chunk_refs_by_hash_t", 1, |d, _| {
                let (total, bits) = (d.varint()?, d.varint()?);
                if !(1..=32).contains(&bits) {
                    return Err(d.invalid("bits of a hash"));
                }
                let mut hashes = BTreeMap::new();
                for _ in 0..d.varint()? {
                    let pool = signed(d)?;
                    let mut hash = [0; 4];
                    d.read_exact(&mut hash[..bits.div_ceil(8) as usize])?;
                    hashes.insert((pool, u32::from_le_bytes(hash)), d.varint()?);
                }
                Ok(Self::ByHash { total, bits: bits as u32, hashes })
            }),
            4 => Rest::read(d, "chunk_refs_by_pool_t", 1, |d, _| {
                let total = d.varint()?;
                let mut pools = BTreeMap::new();
                for _ in 0..d.varint()? {
                    pools.insert(signed(d)?, d.varint()?);
                }
                Ok(Self::ByPool { total, pools })
            }),
            5 => Rest::read(d, "chunk_refs_count_t", 1, |d, _| Ok(Self::Count(d.u64()?))),
            _ => Err(d.invalid("a kind of references")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::encode;

    fn object(name: &'static str, hash: u32, pool: PoolId) -> HObject {
        HObject { oid: name.into(), hash, pool, ..HObject::min() }
    }

    fn again(refs: &Refs) -> Refs {
        let record = Record { refs: refs.clone(), ..Record::default() };
        Record::from_bytes(&encode(&record)).unwrap().refs
    }

    #[test]
    fn every_form_counts_and_comes_back() {
        let forms = [
            Refs::default(),
            Refs::ByHash { total: 0, bits: 12, hashes: BTreeMap::new() },
            Refs::ByPool { total: 0, pools: BTreeMap::new() },
            Refs::Count(0),
        ];
        for mut refs in forms {
            let (a, b) = (object("a", 0xfeed_f00d, 3), object("b", 77, -5));
            for source in [&a, &b, &a] {
                refs.add(source.clone());
                assert_eq!(again(&refs), refs);
            }
            assert!(refs.remove(&a) && refs.remove(&b) && !refs.is_empty());
            assert!(refs.remove(&a) && refs == Refs::default() && !refs.remove(&a));
        }
    }

    #[test]
    fn numbers_are_as_ceph_writes_them() {
        let mut e = Encoder::new(0);
        for v in [0, 127, 128, u64::MAX] {
            e.varint(v);
        }
        put_signed(&mut e, -1);
        put_signed(&mut e, 64);
        let extremes = [i64::MIN, i64::MIN + 1, i64::MAX, 1 << 62, -(1 << 62), 0];
        for v in extremes {
            put_signed(&mut e, v);
        }
        assert_eq!(e.as_slice()[..4], [0, 0x7f, 0x80, 1]);
        let mut d = Decoder::new(e.finish());
        assert_eq!([(); 4].map(|()| d.varint().unwrap()), [0, 127, 128, u64::MAX]);
        assert_eq!([(); 2].map(|()| signed(&mut d).unwrap()), [-1, 64]);
        assert_eq!(extremes.map(|_| signed(&mut d).unwrap()), extremes);
    }

    #[test]
    fn a_source_without_a_pool_stays_counted_when_the_references_are_read_again() {
        let source = object("a", 0xfeed_f00d, i64::MIN);
        for mut refs in [Refs::ByHash { total: 0, bits: 12, hashes: BTreeMap::new() }, Refs::ByPool { total: 0, pools: BTreeMap::new() }] {
            refs.add(source.clone());
            let mut read = again(&refs);
            assert!(read.remove(&source), "{read:?}");
        }
    }
}
