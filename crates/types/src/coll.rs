//! `coll_t`: a store's collections. One a placement group, and one for the OSD's own records.

use crate::{CEPH_NOSNAP, PgId, SnapId, SpgId};
use denc::{Decoder, Denc, DencError, Encoder};
use std::fmt;

/// The variants sort as Ceph's collections do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum CollId {
    /// The OSD's own: superblock, maps.
    #[default]
    Meta,
    Pg(SpgId),
    /// Objects on their way into the group.
    PgTemp(SpgId),
}

impl CollId {
    /// The group that the collection belongs to.
    pub fn pg(self) -> Option<SpgId> {
        match self {
            Self::Meta => None,
            Self::Pg(pg) | Self::PgTemp(pg) => Some(pg),
        }
    }
    /// Parses `meta`, `3.1f_head`, `3.1fs2_TEMP`.
    pub fn parse(s: &str) -> Option<Self> {
        let spg = |s: &str| {
            let (pgid, shard) = match s.split_once('s') {
                Some((pgid, shard)) => (pgid, shard.parse().ok()?),
                None => (s, -1),
            };
            Some(SpgId { pgid: PgId::parse(pgid)?, shard })
        };
        match s {
            "meta" => Some(Self::Meta),
            _ if s.ends_with("_head") => spg(&s[..s.len() - 5]).map(Self::Pg),
            _ if s.ends_with("_TEMP") => spg(&s[..s.len() - 5]).map(Self::PgTemp),
            _ => None,
        }
    }
}

impl fmt::Display for CollId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Meta => f.write_str("meta"),
            Self::Pg(pg) => write!(f, "{pg}_head"),
            Self::PgTemp(pg) => write!(f, "{pg}_TEMP"),
        }
    }
}

/// A version byte and fields; 3 is the form with a text, which only temporary collections need.
impl Denc for CollId {
    fn encode(&self, e: &mut Encoder) {
        let (kind, pg) = match self {
            Self::Meta => (0, SpgId { pgid: PgId::default(), shard: -1 }),
            Self::Pg(pg) => (2, *pg),
            Self::PgTemp(_) => {
                e.u8(3);
                return self.to_string().encode(e);
            }
        };
        e.u8(2);
        e.u8(kind);
        pg.encode(e);
        e.u64(CEPH_NOSNAP);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        match d.u8()? {
            2 => {
                let (kind, pg) = (d.u8()?, d.get()?);
                d.ignore::<SnapId>()?;
                match kind {
                    0 => Ok(Self::Meta),
                    2 => Ok(Self::Pg(pg)),
                    3 => Ok(Self::PgTemp(pg)),
                    _ => Err(d.invalid("a collection's type is 0, 2 or 3")),
                }
            }
            3 => Self::parse(&d.string()?).ok_or_else(|| d.invalid("no collection's name")),
            _ => Err(d.invalid("a coll_t has version 2 or 3")),
        }
    }
}
