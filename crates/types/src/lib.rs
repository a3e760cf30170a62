//! The nouns of RADOS, with the encodings that Ceph gives them.
//!
//! Holds plain data: names, addresses, ids, versions, objects, what a placement group remembers, `Transaction`, and the table of
//! feature bits. Holds no map (`maps`), no message (`messages`) and no behaviour beyond ordering, hashing and printing.

#![forbid(unsafe_code)]

pub mod addr;
pub mod clean_regions;
pub mod coll;
pub mod compat_set;
pub mod entity;
pub mod errno;
pub mod hash;
pub mod hobject;
pub mod ids;
pub mod interval_set;
pub mod listing;
pub mod locator;
pub mod manifest;
pub mod object_copy;
pub mod object_info;
pub mod object_stat;
pub mod osd_op;
pub mod osd_stat;
pub mod past_intervals;
pub mod pg_digest;
pub mod pg_info;
pub mod pg_log;
pub mod pg_missing;
pub mod pg_shard;
pub mod pg_stat;
pub mod scrub_map;
pub mod scrub_results;
pub mod snap;
pub mod superblock;
pub mod time;
pub mod transaction;
mod transaction_payloads;
mod transaction_wire;
pub mod version;

pub use addr::{AddrType, EntityAddr, EntityAddrVec};
pub use clean_regions::ObjectCleanRegions;
pub use coll::CollId;
pub use compat_set::{CompatSet, FeatureSet};
pub use denc::{ByteStr, Bytes, features};
pub use entity::{EntityInst, EntityKind, EntityName, EntityText};
pub use hobject::{GHObject, HObject, NO_GEN, NO_SHARD};
pub use ids::{CEPH_MAXSNAP, CEPH_NOSNAP, CEPH_SNAPDIR, Epoch, OsdId, PgId, PoolId, SnapId, SpgId, Uuid};
pub use interval_set::IntervalSet;
pub use listing::{CloneInfo, ListObject, ListSnaps, ListWatchers, NlsResponse, WatchItem};
pub use locator::ObjectLocator;
pub use manifest::ObjectManifest;
pub use object_copy::{CopyCursor, CopyData};
pub use object_info::{OI_ATTR, ObjectInfo, SS_ATTR, WatchInfo, oi_flag};
pub use object_stat::{ObjectStatCollection, ObjectStatSum};
pub use osd_op::{OpCode, OsdOp};
pub use osd_stat::{OsdStat, PeerPings, PingTimes, StorePerfStat, StoreStatfs};
pub use past_intervals::{PastIntervals, PgInterval};
pub use pg_digest::{PgCount, PgMapDigest};
pub use pg_info::{PgHistory, PgInfo};
pub use pg_log::{LogOp, ModDesc, OpReturn, PgLog, PgLogDup, PgLogEntry};
pub use pg_missing::{PgMissing, PgMissingItem};
pub use pg_shard::PgShard;
pub use pg_stat::{PgStat, PoolStat, pg_state};
pub use scrub_map::{ScrubMap, ScrubObject};
pub use snap::{SnapContext, SnapSet};
pub use superblock::OsdSuperblock;
pub use time::UTime;
pub use transaction::{Transaction, TxKind, TxOp};
pub use transaction_wire::Pieces;
pub use version::{EVersion, ReqId};
