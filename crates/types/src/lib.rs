//! The nouns of RADOS, with the encodings that Ceph gives them.
//!
//! Holds plain data: names, addresses, ids, versions, objects, what a placement group remembers, `Transaction`, and the table of
//! feature bits. Holds no map (`maps`), no message (`messages`) and no behaviour beyond ordering, hashing and printing.

#![forbid(unsafe_code)]

pub mod addr;
pub mod entity;
pub mod errno;
pub mod features;
pub mod hash;
pub mod hobject;
pub mod ids;
pub mod locator;
pub mod osd_op;
pub mod snap;
pub mod time;
pub mod version;

pub use addr::{AddrType, EntityAddr, EntityAddrVec};
pub use denc::{ByteStr, Bytes};
pub use entity::{EntityInst, EntityKind, EntityName, EntityText};
pub use hobject::{GHObject, HObject, NO_GEN, NO_SHARD};
pub use ids::{Epoch, OsdId, PgId, PoolId, SnapId, SpgId, Uuid, CEPH_MAXSNAP, CEPH_NOSNAP, CEPH_SNAPDIR};
pub use locator::ObjectLocator;
pub use osd_op::{OpCode, OsdOp};
pub use snap::SnapContext;
pub use time::UTime;
pub use version::{EVersion, ReqId};
