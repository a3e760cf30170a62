//! Recovery and backfill between OSDs: pushes, pulls, scans, deletes.
//!
//! Source of the facts: Ceph 18.2 `src/messages/{MOSDPGPush,MOSDPGPushReply,MOSDPGPull,MOSDPGScan,MOSDPGBackfill,MOSDPGBackfillRemove,
//! MOSDPGRecoveryDelete,MOSDPGRecoveryDeleteReply}.h`, `src/osd/osd_types.cc`.

use crate::macros::{front, open, too_old};
use crate::{Message, RawMessage};
use bytes::Bytes;
use denc::{ByteStr, Denc, DencError, denc_struct};
use std::collections::BTreeMap;
use types::{EVersion, Epoch, HObject, IntervalSet, ObjectInfo, ObjectStatCollection, PgShard, PgStat, SnapSet, SpgId};

/// `ObjectRecoveryInfo`: the object as it shall be, and which bytes to fetch or clone.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ObjectRecoveryInfo {
    pub soid: HObject,
    pub version: EVersion,
    pub size: u64,
    pub oi: ObjectInfo,
    /// Only for clones.
    pub ss: SnapSet,
    pub copy_subset: IntervalSet,
    pub clone_subset: BTreeMap<HObject, IntervalSet>,
    pub object_exist: bool,
}
denc_struct!(ObjectRecoveryInfo, v 3, compat 1, {
    soid, version, size, oi, ss, copy_subset, clone_subset, [since 3] object_exist
});

/// `ObjectRecoveryProgress`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ObjectRecoveryProgress {
    pub first: bool,
    pub data_complete: bool,
    pub data_recovered_to: u64,
    pub omap_recovered_to: ByteStr,
    pub omap_complete: bool,
}
denc_struct!(ObjectRecoveryProgress, v 1, compat 1, { first, data_complete, data_recovered_to, omap_recovered_to, omap_complete });

/// `PushOp`: part of an object.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PushOp {
    pub soid: HObject,
    pub version: EVersion,
    pub data: Bytes,
    pub data_included: IntervalSet,
    pub omap_header: Bytes,
    pub omap_entries: BTreeMap<ByteStr, Bytes>,
    pub attrs: BTreeMap<ByteStr, Bytes>,
    pub recovery_info: ObjectRecoveryInfo,
    pub after_progress: ObjectRecoveryProgress,
    pub before_progress: ObjectRecoveryProgress,
}
denc_struct!(PushOp, v 1, compat 1, {
    soid, version, data, data_included, omap_header, omap_entries, attrs, recovery_info, after_progress, before_progress
});

/// `PushReplyOp`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PushReplyOp {
    pub soid: HObject,
}
denc_struct!(PushReplyOp, v 1, compat 1, { soid });

/// `PullOp`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PullOp {
    pub soid: HObject,
    pub recovery_info: ObjectRecoveryInfo,
    pub recovery_progress: ObjectRecoveryProgress,
}
denc_struct!(PullOp, v 1, compat 1, { soid, recovery_info, recovery_progress });

/// Declares the three messages of pushes and pulls, which differ in their list and tail.
macro_rules! transfers {
    ($( $(#[$doc:meta])* $name:ident = $kind:literal, v $v:literal, list $list:ident: $op:ty $(, $tail:ident: $t:ty)?; )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name {
            pub pgid: SpgId,
            pub map_epoch: Epoch,
            pub $list: Vec<$op>,
            /// Bytes by which the receiver schedules.
            pub cost: u64,
            pub from: PgShard,
            pub min_epoch: Epoch,
            $( pub $tail: $t, )?
        }
        impl Message for $name {
            const KIND: u16 = $kind;
            fn encode(&self, features: u64) -> RawMessage {
                front(Self::KIND, $v, 2, features, |e| {
                    e.put(&self.pgid.pgid);
                    e.u32(self.map_epoch);
                    e.put(&self.$list);
                    e.u64(self.cost);
                    e.i8(self.pgid.shard);
                    e.put(&self.from);
                    e.u32(self.min_epoch);
                    $( e.put(&self.$tail); )?
                })
            }
            fn decode(raw: &RawMessage) -> Result<Self, DencError> {
                let d = &mut open(raw, stringify!($name), $v)?;
                if raw.version < $v {
                    return Err(too_old(stringify!($name), raw.version, $v));
                }
                let (pgid, map_epoch, $list, cost) = (Denc::decode(d)?, d.u32()?, d.get()?, d.u64()?);
                let pgid = SpgId { pgid, shard: d.i8()? };
                Ok(Self { pgid, map_epoch, $list, cost, from: d.get()?, min_epoch: d.u32()?, $( $tail: d.get()?, )? })
            }
        }
    )* };
}
transfers! {
    /// Parts of objects for a member that lacks them.
    MOSDPGPush = 105, v 4, list pushes: PushOp, is_repair: bool;
    /// The answer to a [`MOSDPGPush`].
    MOSDPGPushReply = 107, v 3, list replies: PushReplyOp;
    /// A primary asks for objects that it lacks.
    MOSDPGPull = 106, v 3, list pulls: PullOp;
}

/// `MOSDPGScan::op`.
pub mod scan_op {
    pub const GET_DIGEST: u32 = 1;
    pub const DIGEST: u32 = 2;
}
/// `MOSDPGBackfill::op`.
pub mod backfill_op {
    pub const PROGRESS: u32 = 2;
    pub const FINISH: u32 = 3;
    pub const FINISH_ACK: u32 = 4;
}

/// Asks a backfill target what it has in a range, or answers: objects and versions, encoded in the data.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MOSDPGScan {
    /// [`scan_op`].
    pub op: u32,
    pub map_epoch: Epoch,
    pub query_epoch: Epoch,
    pub pgid: SpgId,
    pub begin: HObject,
    pub end: HObject,
    pub from: PgShard,
    pub data: Bytes,
}

impl Message for MOSDPGScan {
    const KIND: u16 = 94;
    fn encode(&self, features: u64) -> RawMessage {
        let raw = front(Self::KIND, 2, 2, features, |e| {
            e.u32(self.op);
            e.u32(self.map_epoch);
            e.u32(self.query_epoch);
            e.put(&self.pgid.pgid);
            e.put(&self.begin);
            e.put(&self.end);
            e.put(&self.from);
            e.i8(self.pgid.shard);
        });
        RawMessage { data: crate::macros::one_piece(&self.data), ..raw }
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MOSDPGScan", 2)?;
        let (op, map_epoch, query_epoch, pgid) = (d.u32()?, d.u32()?, d.u32()?, Denc::decode(d)?);
        let (begin, end, from) = (d.get()?, d.get()?, d.get()?);
        let pgid = SpgId { pgid, shard: d.i8()? };
        Ok(Self { op, map_epoch, query_epoch, pgid, begin, end, from, data: raw.data_flat() })
    }
}

/// How far a backfill is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MOSDPGBackfill {
    /// [`backfill_op`].
    pub op: u32,
    pub map_epoch: Epoch,
    pub query_epoch: Epoch,
    pub pgid: SpgId,
    pub last_backfill: HObject,
    pub stats: PgStat,
}

impl Message for MOSDPGBackfill {
    const KIND: u16 = 95;
    fn encode(&self, features: u64) -> RawMessage {
        front(Self::KIND, 3, 3, features, |e| {
            e.u32(self.op);
            e.u32(self.map_epoch);
            e.u32(self.query_epoch);
            e.put(&self.pgid.pgid);
            e.put(&self.last_backfill);
            // For releases that knew the sums only; then everything.
            e.put(&self.stats.stats);
            e.put(&self.stats);
            e.i8(self.pgid.shard);
        })
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MOSDPGBackfill", 3)?;
        let (op, map_epoch, query_epoch, pgid) = (d.u32()?, d.u32()?, d.u32()?, Denc::decode(d)?);
        let last_backfill = d.get()?;
        d.ignore::<ObjectStatCollection>()?;
        let stats = d.get()?;
        Ok(Self { op, map_epoch, query_epoch, pgid: SpgId { pgid, shard: d.i8()? }, last_backfill, stats })
    }
}

message! {
    /// A backfill target is to remove what the primary has not.
    MOSDPGBackfillRemove = 96, v 1, compat 1 {
        pgid: SpgId,
        map_epoch: Epoch,
        objects: Vec<(HObject, EVersion)>,
    }

    /// A member is to delete objects that it missed the deletion of.
    MOSDPGRecoveryDelete = 118, v 2, compat 1 {
        from: PgShard,
        pgid: SpgId,
        map_epoch: Epoch,
        min_epoch: Epoch,
        cost: u64,
        objects: Vec<(HObject, EVersion)>,
    }
}

/// The answer to a [`MOSDPGRecoveryDelete`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MOSDPGRecoveryDeleteReply {
    pub pgid: SpgId,
    pub map_epoch: Epoch,
    pub min_epoch: Epoch,
    pub objects: Vec<(HObject, EVersion)>,
    pub from: PgShard,
}

impl Message for MOSDPGRecoveryDeleteReply {
    const KIND: u16 = 119;
    fn encode(&self, features: u64) -> RawMessage {
        front(Self::KIND, 2, 1, features, |e| {
            e.put(&self.pgid.pgid);
            e.u32(self.map_epoch);
            e.u32(self.min_epoch);
            e.put(&self.objects);
            e.i8(self.pgid.shard);
            e.put(&self.from);
        })
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MOSDPGRecoveryDeleteReply", 2)?;
        let (pgid, map_epoch, min_epoch, objects) = (Denc::decode(d)?, d.u32()?, d.u32()?, d.get()?);
        Ok(Self { pgid: SpgId { pgid, shard: d.i8()? }, map_epoch, min_epoch, objects, from: d.get()? })
    }
}
