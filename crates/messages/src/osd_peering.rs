//! Peering between OSDs: what each has, logs, and reservations for recovery and backfill.
//!
//! Source of the facts: Ceph 18.2 `src/messages/{MOSDPGNotify2,MOSDPGInfo2,MOSDPGQuery2,MOSDPGLog,MOSDPGTrim,MOSDPGRemove,
//! MBackfillReserve,MRecoveryReserve}.h`, `src/osd/osd_types.cc`.

use crate::macros::{front, open, too_old};
use crate::raw::priority;
use crate::{Message, PgLease, PgLeaseAck, RawMessage};
use denc::{DencError, denc_struct};
use types::{EVersion, Epoch, PastIntervals, PgHistory, PgId, PgInfo, PgLog, PgMissing, SpgId};

/// `pg_notify_t`: a member tells the primary what it has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PgNotify {
    pub query_epoch: Epoch,
    pub epoch_sent: Epoch,
    pub info: PgInfo,
    /// Shards, -1 in replicated pools.
    pub to: i8,
    pub from: i8,
    pub past_intervals: PastIntervals,
}
denc_struct!(PgNotify, v 3, compat 2, { query_epoch, epoch_sent, info, to, from, [since 3] past_intervals });

/// `pg_query_t::type`.
pub mod query_kind {
    pub const INFO: i32 = 0;
    pub const LOG: i32 = 1;
    pub const MISSING: i32 = 4;
    pub const FULLLOG: i32 = 5;
}

/// `pg_query_t`: the primary asks a member.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PgQuery {
    /// [`query_kind`].
    pub kind: i32,
    /// For a log: from here on.
    pub since: EVersion,
    pub history: PgHistory,
    pub epoch_sent: Epoch,
    pub to: i8,
    pub from: i8,
}
denc_struct!(PgQuery, v 3, compat 3, { kind, since, history, epoch_sent, to, from });

/// Declares messages of one group that go before others.
macro_rules! peering {
    ($( $(#[$doc:meta])* $name:ident = $kind:literal, v $v:literal, compat $c:literal, {
        $( $(#[$fdoc:meta])* $field:ident: $t:ty ),* $(,)?
    } )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name { $( $(#[$fdoc])* pub $field: $t, )* }
        impl Message for $name {
            const KIND: u16 = $kind;
            fn encode(&self, features: u64) -> RawMessage {
                let raw = front(Self::KIND, $v, $c, features, |e| { $( e.put(&self.$field); )* });
                RawMessage { priority: priority::HIGH, ..raw }
            }
            fn decode(raw: &RawMessage) -> Result<Self, DencError> {
                let d = &mut open(raw, stringify!($name), $v)?;
                if raw.version < $c {
                    return Err(too_old(stringify!($name), raw.version, $c));
                }
                Ok(Self { $( $field: d.get()?, )* })
            }
        }
    )* };
}

peering! {
    MOSDPGNotify2 = 130, v 1, compat 1, {
        pgid: SpgId,
        notify: PgNotify,
    }

    MOSDPGQuery2 = 131, v 1, compat 1, {
        pgid: SpgId,
        query: PgQuery,
    }

    /// A member's info: to activate a replica, and the replica's answer.
    MOSDPGInfo2 = 132, v 1, compat 1, {
        pgid: SpgId,
        epoch_sent: Epoch,
        min_epoch: Epoch,
        info: PgInfo,
        lease: Option<PgLease>,
        lease_ack: Option<PgLeaseAck>,
    }

    /// A log, or the part that the receiver lacks.
    MOSDPGLog = 83, v 6, compat 6, {
        epoch: Epoch,
        info: PgInfo,
        log: PgLog,
        missing: PgMissing,
        query_epoch: Epoch,
        past_intervals: PastIntervals,
        to: i8,
        from: i8,
        lease: Option<PgLease>,
    }
}

impl MOSDPGLog {
    /// The receiver's group.
    pub fn pgid(&self) -> SpgId {
        SpgId { pgid: self.info.pgid.pgid, shard: self.to }
    }
}

/// The log may be trimmed up to here (to a replica), or everything up to here is on disk (to the primary).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MOSDPGTrim {
    pub epoch: Epoch,
    pub pgid: SpgId,
    pub trim_to: EVersion,
}

impl Message for MOSDPGTrim {
    const KIND: u16 = 86;
    fn encode(&self, features: u64) -> RawMessage {
        front(Self::KIND, 2, 2, features, |e| {
            e.u32(self.epoch);
            e.put(&self.pgid.pgid);
            e.put(&self.trim_to);
            e.i8(self.pgid.shard);
        })
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MOSDPGTrim", 2)?;
        let (epoch, pgid, trim_to): (Epoch, PgId, EVersion) = (d.u32()?, d.get()?, d.get()?);
        Ok(Self { epoch, pgid: SpgId { pgid, shard: d.i8()? }, trim_to })
    }
}

message! {
    /// The receiver is no member of these groups any more: it may remove them.
    MOSDPGRemove = 84, v 3, compat 3 {
        epoch: Epoch,
        pgs: Vec<SpgId>,
    }
}

/// `MBackfillReserve::type`.
pub mod backfill_reserve {
    pub const REQUEST: u32 = 0;
    pub const GRANT: u32 = 1;
    pub const REJECT_TOOFULL: u32 = 2;
    pub const RELEASE: u32 = 3;
    pub const REVOKE_TOOFULL: u32 = 4;
    pub const REVOKE: u32 = 5;
}
/// `MRecoveryReserve::type`.
pub mod recovery_reserve {
    pub const REQUEST: u32 = 0;
    pub const GRANT: u32 = 1;
    pub const RELEASE: u32 = 2;
    pub const REVOKE: u32 = 3;
}

/// A slot for backfill on a target.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MBackfillReserve {
    pub pgid: SpgId,
    pub query_epoch: Epoch,
    /// [`backfill_reserve`].
    pub kind: u32,
    /// A higher one takes a slot from a lower one.
    pub priority: u32,
    pub primary_num_bytes: i64,
    pub shard_num_bytes: i64,
}

impl Message for MBackfillReserve {
    const KIND: u16 = 99;
    fn encode(&self, features: u64) -> RawMessage {
        front(Self::KIND, 5, 4, features, |e| {
            e.put(&self.pgid.pgid);
            e.u32(self.query_epoch);
            e.u32(self.kind);
            e.u32(self.priority);
            e.i8(self.pgid.shard);
            e.i64(self.primary_num_bytes);
            e.i64(self.shard_num_bytes);
        })
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MBackfillReserve", 5)?;
        let (pgid, query_epoch, kind, priority) = (d.get()?, d.u32()?, d.u32()?, d.u32()?);
        let mut m = Self { pgid: SpgId { pgid, shard: d.i8()? }, query_epoch, kind, priority, ..Self::default() };
        if raw.version >= 5 {
            (m.primary_num_bytes, m.shard_num_bytes) = (d.i64()?, d.i64()?);
        }
        Ok(m)
    }
}

/// A slot for recovery on a replica.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MRecoveryReserve {
    pub pgid: SpgId,
    pub query_epoch: Epoch,
    /// [`recovery_reserve`].
    pub kind: u32,
    pub priority: u32,
}

impl Message for MRecoveryReserve {
    const KIND: u16 = 150;
    fn encode(&self, features: u64) -> RawMessage {
        front(Self::KIND, 3, 2, features, |e| {
            e.put(&self.pgid.pgid);
            e.u32(self.query_epoch);
            e.u32(self.kind);
            e.i8(self.pgid.shard);
            e.u32(self.priority);
        })
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MRecoveryReserve", 3)?;
        let (pgid, query_epoch, kind) = (d.get()?, d.u32()?, d.u32()?);
        let pgid = SpgId { pgid, shard: d.i8()? };
        Ok(Self { pgid, query_epoch, kind, priority: if raw.version >= 3 { d.u32()? } else { 0 } })
    }
}
