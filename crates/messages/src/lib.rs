//! The messages of Ceph's protocol: bytes in, structs out. One file a family.
//!
//! Holds no connection, no map type and no behaviour. A map inside a message stays the encoded bytes that it came as.

#![forbid(unsafe_code)]

#[macro_use]
mod macros;
mod kind;
pub mod mds;
pub mod mgr;
pub mod mon_client;
pub mod opaque;
pub mod osd_client;
pub mod osd_mon;
pub mod osd_peering;
pub mod osd_ping;
pub mod osd_recovery;
pub mod osd_replica;
pub mod paxos;
pub mod raw;
mod senders;

pub use kind::kind_name;
pub use mds::*;
pub use mgr::*;
pub use mon_client::*;
pub use opaque::{Framed, Rest};
pub use osd_client::*;
pub use osd_mon::*;
pub use osd_peering::*;
pub use osd_ping::*;
pub use osd_recovery::*;
pub use osd_replica::*;
pub use paxos::Paxos;
pub use raw::{Message, RawMessage, priority};
pub use senders::{At, By, Senders, senders};
/// What vectors of ops are kept in.
pub use smallvec::{SmallVec, smallvec};
