//! The monitor of a cluster of one machine, and its manager endpoint, as deterministic functions of what happens to them.
//!
//! Holds the services of a Ceph monitor (maps, auth, config, log, health), the command framework and the commands. Holds no socket, disk,
//! clock or entropy: [`Mon::handle`] gets events and time and returns effects, randomness is a value it was given.
//!
//! | module | what |
//! |---|---|
//! | [`mon`] | the event loop's one step: event in, effects out |
//! | [`osd`] | the OSDMap: boot, failure, pools, snapshots, groups to create, history |
//! | [`auth`] | entities, keys, tickets, the two endpoints |
//! | [`fs`] | the FSMap: metadata servers, ranks, standbys, fencing |
//! | [`mgr`] | the manager endpoint: reports of daemons, statistics |
//! | [`config`], [`config_key`], [`log`], [`health`], [`monmap`] | the smaller services |
//! | [`metrics`], [`view`] | the state of the whole, for Prometheus and for people who watch |
//! | [`cmd`] | the command framework, and a file for each family of commands |

#![forbid(unsafe_code)]
// `json!` with as many members as some answers have.
#![recursion_limit = "512"]

// What integration tests share names the crate from outside.
#[cfg(test)]
extern crate self as mon_core;

pub mod auth;
pub mod caps;
pub mod cmd;
pub mod config;
pub mod config_key;
mod dispatch;
pub mod fs;
pub mod health;
mod invariants;
pub mod kv;
pub mod log;
pub mod metrics;
pub mod mgr;
mod mkfs;
pub mod mon;
pub mod monmap;
pub mod osd;
pub mod planted;
pub mod session;
mod subs;
pub mod view;

pub use auth::{Endpoint, Handshake, Login, Step};
pub use kv::{Batch, Snapshot};
pub use mkfs::{Keys, NewCluster, OSD_CAPS, mkfs};
pub use mon::{Effect, Event, LOCAL, LoadError, Mon, MonOptions};
pub use monmap::NAME;
pub use session::{ConnId, PeerInfo};

/// The version that this cluster presents.
pub use options::{RELEASE as CEPH_RELEASE, VERSION as CEPH_VERSION_SHORT, VERSION_LONG as CEPH_VERSION};
