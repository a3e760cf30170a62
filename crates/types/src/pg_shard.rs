//! `pg_shard_t`: a member of a placement group.

use crate::{NO_SHARD, OsdId};
use denc::denc_struct;
use std::fmt;

/// An OSD and, in erasure-coded pools, which shard it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PgShard {
    pub osd: OsdId,
    pub shard: i8,
}
denc_struct!(PgShard, v 1, compat 1, { osd, shard });

impl PgShard {
    /// A member of a replicated group.
    pub const fn whole(osd: OsdId) -> Self {
        Self { osd, shard: NO_SHARD }
    }
    pub const fn new(osd: OsdId, shard: i8) -> Self {
        Self { osd, shard }
    }
}
impl Default for PgShard {
    fn default() -> Self {
        Self::whole(-1)
    }
}
impl fmt::Display for PgShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.osd, self.shard) {
            (-1, _) => f.write_str("?"),
            (osd, NO_SHARD) => write!(f, "{osd}"),
            (osd, shard) => write!(f, "{osd}({shard})"),
        }
    }
}
