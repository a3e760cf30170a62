//! Object classes: named methods that run inside the OSD on one object.
//!
//! Holds the view of an object that a method gets ([`ObjectView`]), the table of methods ([`Registry`]) and the classes themselves. It
//! knows no placement group, store or connection: a method reads and writes through the view, and what it wrote joins the operation's
//! transaction or vanishes with it.

#![forbid(unsafe_code)]

mod cas;
mod cephfs;
mod cmpomap;
mod fifo;
mod hello;
mod journal;
mod lock;
mod log;
mod numops;
mod otp;
mod pass;
mod queue;
mod rbd;
mod refcount;
mod registry;
mod remote_reads;
mod rest;
mod rgw;
mod sdk;
mod sem_set;
mod time_key;
mod timeindex;
mod two_phase_queue;
mod user;
mod version;
mod view;
mod wire;

pub use cephfs::InodeTag;
pub use registry::{ATTRIBUTE_FILTERS, BUILTIN, Class, METHOD_PROMOTE, METHOD_RD, METHOD_WR, Method, MethodFn, Registry};
pub use rgw::encoded_again;
pub use view::{ClsError, ClsReply, ClsResult, Kept, KeyPage, ObjectView, ValPage, Watcher};
