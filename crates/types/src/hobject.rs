//! Names of objects inside a store: `hobject_t` and, with generation and shard, `ghobject_t`.
//!
//! Sorted as Ceph lists them: by the hash with its bits reversed, so that a split placement group is two ranges.

use crate::{CEPH_NOSNAP, PgId, PoolId, SnapId};
use denc::{ByteStr, Decoder, Denc, DencError, Encoder};
use std::cmp::Ordering;
use std::fmt;

/// No generation: every object of a replicated pool.
pub const NO_GEN: u64 = u64::MAX;
/// No shard: every object of a replicated pool.
pub const NO_SHARD: i8 = -1;

/// `hobject_t`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HObject {
    pub oid: ByteStr,
    /// The locator key, unless it equals the name.
    pub key: ByteStr,
    pub snap: SnapId,
    pub hash: u32,
    pub nspace: ByteStr,
    pub pool: PoolId,
    /// Sorts behind everything; the other fields are empty then.
    pub max: bool,
}

/// What the minimum has for a pool.
const POOL_MIN: PoolId = i64::MIN;

impl HObject {
    /// Sorts before everything.
    pub const fn min() -> Self {
        Self { oid: ByteStr::new(), key: ByteStr::new(), snap: 0, hash: 0, nspace: ByteStr::new(), pool: POOL_MIN, max: false }
    }
    /// Sorts behind everything.
    pub fn max() -> Self {
        Self { max: true, ..Self::min() }
    }
    pub fn is_min(&self) -> bool {
        self.pool == POOL_MIN && self.hash == 0 && self.snap == 0 && !self.max && self.oid.is_empty()
    }
    /// The first possible object of a placement group: what holds the group's own records.
    pub fn pgmeta(pgid: PgId) -> Self {
        Self { hash: pgid.seed, pool: pgid.pool, ..Self::min() }
    }
    pub fn is_head(&self) -> bool {
        self.snap == CEPH_NOSNAP
    }
    pub fn head(&self) -> Self {
        self.at_snap(CEPH_NOSNAP)
    }
    pub fn at_snap(&self, snap: SnapId) -> Self {
        Self { snap, ..self.clone() }
    }
    /// What the hash is taken of.
    pub fn effective_key(&self) -> &ByteStr {
        if self.key.is_empty() { &self.oid } else { &self.key }
    }
    /// With its strings in storage of their own; see [`ByteStr::detach`].
    pub fn detach(&self) -> Self {
        Self { oid: self.oid.detach(), key: self.key.detach(), nspace: self.nspace.detach(), ..*self }
    }
    /// The hash as it sorts.
    pub fn bitwise_key(&self) -> u32 {
        self.hash.reverse_bits()
    }
}

impl Default for HObject {
    fn default() -> Self {
        Self::min()
    }
}

impl Ord for HObject {
    fn cmp(&self, other: &Self) -> Ordering {
        self.max
            .cmp(&other.max)
            .then_with(|| self.pool.cmp(&other.pool))
            .then_with(|| self.bitwise_key().cmp(&other.bitwise_key()))
            .then_with(|| self.nspace.cmp(&other.nspace))
            .then_with(|| {
                if self.key.is_empty() && other.key.is_empty() { Ordering::Equal } else { self.effective_key().cmp(other.effective_key()) }
            })
            .then_with(|| self.oid.cmp(&other.oid))
            .then_with(|| self.snap.cmp(&other.snap))
    }
}
impl PartialOrd for HObject {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Denc for HObject {
    fn encode(&self, e: &mut Encoder) {
        e.frame(4, 3, |e| self.encode_fields(e));
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("hobject_t", 4, |d, v| {
            if v < 4 {
                return Err(DencError::TooOld { what: "hobject_t", version: v, oldest: 4 });
            }
            Self::decode_fields(d)
        })
    }
}

impl HObject {
    fn encode_fields(&self, e: &mut Encoder) {
        self.key.encode(e);
        self.oid.encode(e);
        e.u64(self.snap);
        e.u32(self.hash);
        e.bool(self.max);
        self.nspace.encode(e);
        e.i64(self.pool);
    }
    fn decode_fields(d: &mut Decoder) -> Result<Self, DencError> {
        let (key, oid) = (d.bytestr()?, d.bytestr()?);
        let (snap, hash, max) = (d.u64()?, d.u32()?, d.bool()?);
        let (nspace, mut pool) = (d.bytestr()?, d.i64()?);
        // Older releases wrote the minimum with pool -1.
        if pool == -1 && snap == 0 && hash == 0 && !max && oid.is_empty() {
            pool = POOL_MIN;
        }
        Ok(Self { oid, key, snap, hash, nspace, pool, max })
    }
}

impl fmt::Display for HObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.max {
            return f.write_str("MAX");
        }
        if self.is_min() {
            return f.write_str("MIN");
        }
        write!(f, "{}:{:08x}:{}:{}:{}:", self.pool, self.bitwise_key(), self.nspace, self.key, self.oid)?;
        match self.snap {
            CEPH_NOSNAP => f.write_str("head"),
            snap => write!(f, "{snap:x}"),
        }
    }
}
impl fmt::Debug for HObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `ghobject_t`: how a store names an object.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct GHObject {
    pub hobj: HObject,
    pub generation: u64,
    pub shard: i8,
    pub max: bool,
}

impl GHObject {
    /// An object of a replicated pool.
    pub fn plain(hobj: HObject) -> Self {
        Self { max: hobj.max, hobj, generation: NO_GEN, shard: NO_SHARD }
    }
    pub fn min() -> Self {
        Self::plain(HObject::min())
    }
    pub fn max() -> Self {
        Self::plain(HObject::max())
    }
}
impl Default for GHObject {
    fn default() -> Self {
        Self::min()
    }
}
impl From<HObject> for GHObject {
    fn from(hobj: HObject) -> Self {
        Self::plain(hobj)
    }
}
impl Ord for GHObject {
    fn cmp(&self, other: &Self) -> Ordering {
        self.max
            .cmp(&other.max)
            .then_with(|| self.shard.cmp(&other.shard))
            .then_with(|| self.hobj.cmp(&other.hobj))
            .then_with(|| self.generation.cmp(&other.generation))
    }
}
impl PartialOrd for GHObject {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Denc for GHObject {
    fn encode(&self, e: &mut Encoder) {
        e.frame(6, 3, |e| {
            self.hobj.encode_fields(e);
            e.u64(self.generation);
            e.i8(self.shard);
            e.bool(self.max);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("ghobject_t", 6, |d, v| {
            if v < 6 {
                return Err(DencError::TooOld { what: "ghobject_t", version: v, oldest: 6 });
            }
            Ok(Self { hobj: HObject::decode_fields(d)?, generation: d.u64()?, shard: d.i8()?, max: d.bool()? })
        })
    }
}
impl fmt::Display for GHObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hobj.fmt(f)?;
        if self.shard != NO_SHARD || self.generation != NO_GEN {
            write!(f, "#{}#{:x}", self.shard, self.generation)?;
        }
        Ok(())
    }
}
impl fmt::Debug for GHObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
