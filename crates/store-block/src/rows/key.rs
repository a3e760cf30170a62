//! Keys of the metadata's rows: bytes that sort as what they name.
//!
//! ```text
//! A <page>                       a page of the allocator                   S                  counters
//! C <collection>                 a collection's bits                       R <place>          how many share a chunk
//! O <family> <object>            an object                                 P <pg>             a group's info
//! M <nid> 0 | M <nid> 1 <key>    an object's omap header, omap key         K <nid>            a layer: see `layers`
//! M <nid> 2 <key>                an omap key over a layer's                L <pg> <version>   an entry of its log
//! D <pg> <number>                a dup                                     Q <pg> <object>    a missing object
//! Z 0 <key>                      a copy of a collection's or group's row, in a leaf of its own
//! Z 1 <key>                      keys from there on, to before its value, have no row, whatever a damaged leaf has
//! Z 2 <key>                      a row in place of a damaged leaf's: 1 and the row, or 0 if there is none
//! ```
//! An object's key carries no placement group: splitting one moves nothing. Numbers are big-endian.

use crate::rows::codec::Corrupt;
use denc::ByteStr;
use types::{CollId, EVersion, GHObject, HObject, SpgId};

pub const ALLOC: u8 = b'A';
pub const COLL: u8 = b'C';
pub const DUP: u8 = b'D';
pub const LAYER: u8 = b'K';
pub const LOG: u8 = b'L';
pub const OMAP: u8 = b'M';
pub const OBJECT: u8 = b'O';
pub const PG: u8 = b'P';
pub const MISSING: u8 = b'Q';
pub const REFS: u8 = b'R';
pub const COUNTERS: u8 = b'S';
/// What helps over damaged leaves, behind all other kinds.
pub const SPARE: u8 = b'Z';
pub const SPARE_COPY: u8 = 0;
pub const SPARE_RANGE: u8 = 1;
pub const SPARE_ROW: u8 = 2;

/// The key that a spare row about this key has.
pub fn spare(what: u8, key: &[u8]) -> Vec<u8> {
    [&[SPARE, what], key].concat()
}
/// Keys of different classes never share a leaf that is made, so that no block has a row and what helps over its loss: free space and collections,
/// objects and what is about them, groups and counters, copies of rows, what lies beside damaged leaves. (Leaves of former versions of this
/// program may have several of the first three.)
pub fn class(key: &[u8]) -> u8 {
    match key {
        [SPARE, SPARE_COPY, ..] => 3,
        [SPARE, ..] => 4,
        [kind, ..] if *kind >= PG => 2,
        [kind, ..] if *kind >= DUP => 1,
        _ => 0,
    }
}
/// True for keys that no leaf has together with keys of another class, whichever version made it.
pub fn is_apart(key: &[u8]) -> bool {
    key.first() == Some(&SPARE)
}

/// Objects of different families never meet, whatever their names.
pub fn family(coll: CollId) -> u8 {
    match coll {
        CollId::Meta => 0,
        CollId::Pg(_) => 1,
        CollId::PgTemp(_) => 2,
    }
}

/// The pool of a pool's temporary objects.
pub fn temp_pool(pool: i64) -> i64 {
    -2 - pool
}

/// True if the object's place is in the collection, whose objects have `bits` of their hash in common.
pub fn belongs(coll: CollId, bits: u32, obj: &GHObject) -> bool {
    let Some(pg) = coll.pg() else { return !obj.max };
    let mask = if bits >= 32 { u32::MAX } else { (1 << bits) - 1 };
    let pool = obj.hobj.pool == pg.pgid.pool || obj.hobj.pool == temp_pool(pg.pgid.pool);
    pool && !obj.max && obj.shard == pg.shard && (obj.hobj.hash ^ pg.pgid.seed) & mask == 0
}

/// A string whose end sorts before everything that goes on.
fn put_str(out: &mut Vec<u8>, s: &[u8]) {
    if s.contains(&0) {
        for b in s {
            out.push(*b);
            if *b == 0 {
                out.push(0xff);
            }
        }
    } else {
        out.extend_from_slice(s);
    }
    out.extend_from_slice(&[0, 1]);
}

fn put_place(out: &mut Vec<u8>, shard: i8, pool: i64) {
    out.push(shard as u8 ^ 0x80);
    out.extend_from_slice(&(pool as u64 ^ 1 << 63).to_be_bytes());
}

/// How an object's name is told from its locator key.
const NAME_BELOW: u8 = 0;
const NAME_SAME: u8 = 1;
const NAME_ABOVE: u8 = 2;

/// The key of an object. The maximum has none; use the end of a range.
pub fn object(family: u8, obj: &GHObject, out: &mut Vec<u8>) {
    let h = &obj.hobj;
    out.reserve(48 + h.oid.len() + h.nspace.len() + h.key.len());
    out.extend_from_slice(&[OBJECT, family]);
    put_place(out, obj.shard, h.pool);
    out.extend_from_slice(&h.bitwise_key().to_be_bytes());
    put_str(out, h.nspace.as_slice());
    let key = h.effective_key();
    put_str(out, key.as_slice());
    match h.oid.cmp(key) {
        std::cmp::Ordering::Equal => out.push(NAME_SAME),
        order => {
            out.push(if order.is_lt() { NAME_BELOW } else { NAME_ABOVE });
            put_str(out, h.oid.as_slice());
        }
    }
    out.extend_from_slice(&h.snap.to_be_bytes());
    out.extend_from_slice(&obj.generation.to_be_bytes());
}

/// Where an object's key has what it is found by: the bytes in front of the names, and those behind.
const PLACE: usize = 3;
const HASH: usize = PLACE + 8;
const TAIL: usize = 16;

fn eight(key: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(key[at..at + 8].try_into().expect("eight bytes"))
}
/// The family of an object's key.
pub fn family_of(key: &[u8]) -> u8 {
    key[1]
}
/// The pool of an object's key.
pub fn pool_of(key: &[u8]) -> i64 {
    (eight(key, PLACE) ^ 1 << 63) as i64
}
/// The hash of an object's key, its bits reversed.
pub fn hash_of(key: &[u8]) -> u32 {
    u32::from_be_bytes(key[HASH..HASH + 4].try_into().expect("four bytes"))
}
/// The last bytes of the name in an object's key, with what ends it: they tell apart objects that a locator puts in one place.
pub fn name_end_of(key: &[u8]) -> u64 {
    eight(key, key.len() - TAIL - 8)
}
/// The same of a name.
pub fn name_end(name: &HObject) -> u64 {
    let ends: &[u8] = if name.oid == *name.effective_key() { &[0, 1, NAME_SAME] } else { &[0, 1] };
    let oid = name.oid.as_slice();
    let Some(at) = (oid.len() + ends.len()).checked_sub(8) else {
        let mut key = Vec::new();
        object(0, &GHObject::plain(name.clone()), &mut key);
        return name_end_of(&key);
    };
    let mut end = [0; 8];
    let (name, behind) = end.split_at_mut(8 - ends.len());
    name.copy_from_slice(&oid[at..]);
    behind.copy_from_slice(ends);
    u64::from_be_bytes(end)
}
/// The snap of an object's key.
pub fn snap_of(key: &[u8]) -> u64 {
    eight(key, key.len() - TAIL)
}
/// The generation of an object's key.
pub fn generation_of(key: &[u8]) -> u64 {
    eight(key, key.len() - TAIL + 8)
}

/// For people: where the front of an object's key stands among others, if it has as much as the pool.
pub fn describe_front(key: &[u8]) -> Option<String> {
    if key.first() != Some(&OBJECT) || key.len() < HASH {
        return None;
    }
    let mut hash = [0; 4];
    let known = &key[HASH..key.len().min(HASH + 4)];
    hash[..known.len()].copy_from_slice(known);
    Some(format!("reversed hash {:08x} of pool {}", u32::from_be_bytes(hash), pool_of(key)))
}

struct Parts<'a>(&'a [u8]);

const BAD: Corrupt = Corrupt("a key of the metadata is malformed");

impl Parts<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        let (now, rest) = self.0.split_at_checked(N).ok_or(BAD)?;
        self.0 = rest;
        Ok(now.try_into().expect("as many bytes as were split off"))
    }
    fn pass_string(&mut self) -> Result<(), Corrupt> {
        loop {
            let end = self.0.iter().position(|b| *b == 0).ok_or(BAD)?;
            self.0 = &self.0[end + 1..];
            match self.take::<1>()?[0] {
                1 => return Ok(()),
                0xff => {}
                _ => return Err(BAD),
            }
        }
    }
    fn string(&mut self) -> Result<ByteStr, Corrupt> {
        let mut out = Vec::new();
        loop {
            match self.take::<1>()?[0] {
                0 => match self.take::<1>()?[0] {
                    1 => return Ok(out.into()),
                    0xff => out.push(0),
                    _ => return Err(BAD),
                },
                b => out.push(b),
            }
        }
    }
}

/// Says whether [`parse_object`] would take the key.
pub fn check_object(key: &[u8]) -> Result<(), Corrupt> {
    let mut p = Parts(key);
    let [OBJECT, _] = p.take::<2>()? else { return Err(BAD) };
    p.take::<13>()?;
    (p.pass_string()?, p.pass_string()?);
    match p.take::<1>()?[0] {
        NAME_SAME => {}
        NAME_BELOW | NAME_ABOVE => p.pass_string()?,
        _ => return Err(BAD),
    }
    if p.0.len() == TAIL { Ok(()) } else { Err(BAD) }
}

/// The object that a key names, and its family.
pub fn parse_object(key: &[u8]) -> Result<(u8, GHObject), Corrupt> {
    let mut p = Parts(key);
    let [OBJECT, family] = p.take::<2>()? else { return Err(BAD) };
    let shard = (p.take::<1>()?[0] ^ 0x80) as i8;
    let pool = (u64::from_be_bytes(p.take()?) ^ 1 << 63) as i64;
    let hash = u32::from_be_bytes(p.take()?).reverse_bits();
    let (nspace, key) = (p.string()?, p.string()?);
    let (oid, key) = match p.take::<1>()?[0] {
        NAME_SAME => (key, ByteStr::new()),
        NAME_BELOW | NAME_ABOVE => (p.string()?, key),
        _ => return Err(BAD),
    };
    let snap = u64::from_be_bytes(p.take()?);
    let generation = u64::from_be_bytes(p.take()?);
    if !p.0.is_empty() {
        return Err(BAD);
    }
    let hobj = HObject { oid, key, snap, hash, nspace, pool, max: false };
    Ok((family, GHObject { hobj, generation, shard, max: false }))
}

/// The ranges of keys (first in, last out) in which a collection's objects are, ascending.
pub fn coll_ranges(coll: CollId, bits: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let family = family(coll);
    let Some(pg) = coll.pg() else { return vec![(vec![OBJECT, family], vec![OBJECT, family + 1])] };
    let bits = bits.min(32);
    let mut pools = [temp_pool(pg.pgid.pool), pg.pgid.pool];
    pools.sort_unstable();
    let range = |pool: i64| {
        let start = |hash: u64| {
            let mut out = vec![OBJECT, family];
            put_place(&mut out, pg.shard, pool);
            match u32::try_from(hash) {
                Ok(hash) => out.extend_from_slice(&hash.to_be_bytes()),
                // Behind the last hash: behind everything of the pool.
                Err(_) => out.extend_from_slice(&[0xff; 5]),
            }
            out
        };
        let seed = if bits == 0 { 0 } else { u64::from(pg.pgid.seed.reverse_bits()) >> (32 - bits) << (32 - bits) };
        (start(seed), start(seed + (1 << (32 - bits))))
    };
    pools.into_iter().map(range).collect()
}

/// What all rows of an object's omap begin with.
pub fn omap(nid: u64) -> [u8; 9] {
    let mut out = [OMAP; 9];
    out[1..].copy_from_slice(&nid.to_be_bytes());
    out
}
pub fn omap_header(nid: u64) -> Vec<u8> {
    [&omap(nid)[..], &[0]].concat()
}
pub fn omap_key(nid: u64, key: &[u8]) -> Vec<u8> {
    [&omap(nid)[..], &[1], key].concat()
}
/// Where the keys of an omap end that stands on no layer.
pub fn omap_keys_end(nid: u64) -> Vec<u8> {
    [&omap(nid)[..], &[2]].concat()
}
/// A key of an omap that stands on a layer.
pub fn omap_over(nid: u64, key: &[u8]) -> Vec<u8> {
    [&omap(nid)[..], &[2], key].concat()
}
/// Where the rows of an object's omap end, for all kinds of them.
pub fn omap_end(nid: u64) -> Vec<u8> {
    [&omap(nid)[..], &[3]].concat()
}
/// How many bytes stand in front of an omap key.
pub const OMAP_PREFIX: usize = 10;

/// A group's row of this kind.
pub fn pg(kind: u8, pg: SpgId) -> Vec<u8> {
    let mut out = Vec::with_capacity(26);
    out.push(kind);
    out.extend_from_slice(&(pg.pgid.pool as u64 ^ 1 << 63).to_be_bytes());
    out.extend_from_slice(&pg.pgid.seed.to_be_bytes());
    out.push(pg.shard as u8 ^ 0x80);
    out
}
/// Behind all rows of this kind of the group.
pub fn pg_end(kind: u8, of: SpgId) -> Vec<u8> {
    let mut out = pg(kind, of);
    out.extend_from_slice(&[0xff; 13]);
    out
}
/// An entry's row. Versions of a log sort by epoch, then number.
pub fn log(of: SpgId, version: EVersion) -> Vec<u8> {
    let mut out = pg(LOG, of);
    out.extend_from_slice(&version.epoch.to_be_bytes());
    out.extend_from_slice(&version.version.to_be_bytes());
    out
}

pub fn numbered(kind: u8, n: u64) -> Vec<u8> {
    [&[kind][..], &n.to_be_bytes()].concat()
}
/// The number of such a key.
pub fn parse_numbered(key: &[u8]) -> Result<u64, Corrupt> {
    Ok(u64::from_be_bytes(key.get(1..).and_then(|k| k.try_into().ok()).ok_or(BAD)?))
}

/// Behind everything that begins with this byte.
pub fn kind_end(kind: u8) -> Vec<u8> {
    vec![kind + 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{CEPH_NOSNAP, PgId};

    fn name(oid: &str, key: &str, ns: &str, hash: u32, pool: i64, snap: u64) -> GHObject {
        GHObject::plain(HObject { oid: oid.into(), key: key.into(), nspace: ns.into(), hash, pool, snap, max: false })
    }
    fn key_of(obj: &GHObject) -> Vec<u8> {
        let mut out = Vec::new();
        object(1, obj, &mut out);
        out
    }

    #[test]
    fn keys_sort_as_objects_do_and_come_back() {
        let mut all = Vec::new();
        for oid in ["", "a", "a\0b", "ab", "b", "z"] {
            for key in ["", "a\0", "b", "zz"] {
                for ns in ["", "n"] {
                    for (hash, pool, snap) in [(0, 1, CEPH_NOSNAP), (1, 1, 4), (u32::MAX, -3, 4), (7, 2, 0)] {
                        all.push(name(oid, key, ns, hash, pool, snap));
                    }
                }
            }
        }
        all.retain(|o| o.hobj.key != o.hobj.oid || o.hobj.key.is_empty());
        for a in &all {
            let key = key_of(a);
            assert_eq!(parse_object(&key).unwrap(), (1, a.clone()));
            assert!(check_object(&key).is_ok());
            for end in 0..key.len() {
                assert_eq!(check_object(&key[..end]).is_ok(), parse_object(&key[..end]).is_ok());
            }
            for at in 0..key.len() {
                let mut bad = key.clone();
                bad[at] ^= 1;
                assert_eq!(check_object(&bad).is_ok(), parse_object(&bad).is_ok(), "{at}");
            }
            assert_eq!((family_of(&key), pool_of(&key), hash_of(&key)), (1, a.hobj.pool, a.hobj.hash.reverse_bits()));
            assert_eq!((snap_of(&key), generation_of(&key)), (a.hobj.snap, a.generation));
            for b in &all {
                assert_eq!(key_of(a).cmp(&key_of(b)), a.cmp(b), "{a} {b}");
            }
        }
    }

    #[test]
    fn an_object_is_in_the_ranges_of_the_collections_that_it_belongs_to() {
        for bits in [0, 1, 3, 5, 32] {
            for seed in [0, 1, 5, 0x1f] {
                let coll = CollId::Pg(SpgId::whole(PgId::new(1, seed)));
                for hash in [0, 1, 5, 13, 0x1f, 0xffff_ffff, 0x8000_0000] {
                    for pool in [1, -3, 2] {
                        let o = name("x", "", "", hash, pool, 1);
                        let key = key_of(&o);
                        let within = coll_ranges(coll, bits).iter().any(|(first, last)| *first <= key && key < *last);
                        assert_eq!(within, belongs(coll, bits, &o), "{coll} {bits} {o}");
                    }
                }
            }
        }
    }
}
