//! Numbers that name things: epochs, OSDs, pools, snapshots, placement groups.

use denc::{Decoder, Denc, DencError, Encoder, Row, denc_struct};
use std::fmt;

/// The number of a map. 0 is before the first.
pub type Epoch = u32;
/// An OSD's number; -1 is CRUSH_ITEM_NONE's stand-in on the wire for "no primary".
pub type OsdId = i32;
/// A pool's number. Negative ones are not pools of the map.
pub type PoolId = i64;
/// A snapshot's number.
pub type SnapId = u64;

/// The head of an object: what a client without a snapshot reads.
pub const CEPH_NOSNAP: SnapId = u64::MAX - 1;
/// The set of an object's snapshots; listing snapshots asks for it.
pub const CEPH_SNAPDIR: SnapId = u64::MAX;
/// The highest number that a snapshot can have.
pub const CEPH_MAXSNAP: SnapId = u64::MAX - 2;

/// A placement group as clients name it: a pool and a hash seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PgId {
    pub pool: PoolId,
    pub seed: u32,
}

impl PgId {
    pub const fn new(pool: PoolId, seed: u32) -> Self {
        Self { pool, seed }
    }
    /// Parses `3.1f`.
    pub fn parse(s: &str) -> Option<Self> {
        let (pool, seed) = s.split_once('.')?;
        Some(Self { pool: pool.parse().ok()?, seed: u32::from_str_radix(seed, 16).ok()? })
    }
}

impl fmt::Display for PgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.pool, self.seed)
    }
}

/// `pg_t`: version byte 1, pool, seed, and a preferred OSD that is -1 since Luminous.
impl Denc for PgId {
    fn encode(&self, e: &mut Encoder) {
        Row::<17>::new().put_u8(1).put_i64(self.pool).put_u32(self.seed).put_i32(-1).encode(e);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let mut row = d.row::<17>()?;
        if row.u8() != 1 {
            return Err(d.invalid("a pg_t has version 1"));
        }
        Ok(Self { pool: row.i64(), seed: row.u32() })
    }
}

/// A placement group, or one shard of it in an erasure-coded pool (shard -1: the whole group, as in replicated pools).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpgId {
    pub pgid: PgId,
    pub shard: i8,
}

impl SpgId {
    pub const fn whole(pgid: PgId) -> Self {
        Self { pgid, shard: -1 }
    }
}
impl Default for SpgId {
    fn default() -> Self {
        Self::whole(PgId::default())
    }
}
impl fmt::Display for SpgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shard < 0 { self.pgid.fmt(f) } else { write!(f, "{}s{}", self.pgid, self.shard) }
    }
}
denc_struct!(SpgId, v 1, compat 1, { pgid, shard });

/// 16 bytes that name a cluster, an OSD's disk or the like.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// A random (version 4) uuid out of 16 random bytes.
    pub fn from_random(mut b: [u8; 16]) -> Self {
        b[6] = b[6] & 0x0f | 0x40;
        b[8] = b[8] & 0x3f | 0x80;
        Self(b)
    }
    pub fn parse(s: &str) -> Option<Self> {
        let hex: Vec<u8> = s.bytes().filter(|c| *c != b'-').collect();
        if hex.len() != 32 || s.len() != 36 {
            return None;
        }
        let mut out = [0; 16];
        for (byte, pair) in out.iter_mut().zip(hex.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(out))
    }
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }
}
impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}
impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl Denc for Uuid {
    fn encode(&self, e: &mut Encoder) {
        e.raw(&self.0);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Ok(Self(Denc::decode(d)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_as_ceph_prints_them() {
        assert_eq!(PgId::new(3, 0x1f).to_string(), "3.1f");
        assert_eq!(PgId::parse("3.1f"), Some(PgId::new(3, 0x1f)));
        let text = "6b29fc40-ca47-1067-b31d-00dd010662da";
        assert_eq!(Uuid::parse(text).unwrap().to_string(), text);
        assert_eq!(Uuid::parse("6b29"), None);
    }
}
