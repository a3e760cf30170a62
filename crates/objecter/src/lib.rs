//! The client's side of a cluster, without IO: the session with a monitor, the maps, and which OSD an operation goes to.
//!
//! Holds [`monc`] (the session with a monitor, for clients and OSDs), [`objecter`] (operations on objects, resent until they are
//! answered) and [`conf`] (the text of a ceph.conf). Holds no socket and no clock: shells carry the effects out.

#![forbid(unsafe_code)]

pub mod conf;
pub mod monc;
pub mod objecter;
pub mod ops;
pub mod planted;

pub use conf::Conf;
pub use monc::MonClient;
pub use objecter::Objecter;
