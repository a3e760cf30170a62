//! What one request does to one object: from a vector of operations to a transaction, log entries and an answer.
//!
//! [`plan`] is a pure function: it reads the store and changes nothing. Order among requests, duplicates, capabilities, replication and the
//! sending of answers are the placement group's, which calls it. [`plan`] is made again from the start when the store had to fetch
//! something, unless that is the bytes of a plain read ([`answer_read`]).
//!
//! | module | holds |
//! |---|---|
//! | `plan` | the types at the border: [`PlanCtx`], [`Plan`], [`ObjectContext`] |
//! | `info` | what kind of request it is, before it runs |
//! | `context` | loading an object's record; which clone serves a snapshot |
//! | `exec`, `dispatch` | the state while a vector runs; which code is which operation |
//! | `read`, `write`, `attr`, `omap`, `watch`, `snaps`, `call` | the operations |
//! | `costs` | what all operations of a request may cost together |
//! | `mods` | what earlier operations of the vector changed, for later ones |
//! | `finish` | the object's new record, log entries and answer |
//! | `source` | the door by which all of them read objects |
//! | `fetch` | what a request wants of other objects, question by question |
//! | `copy` | what another object is: COPY_GET, COPY_FROM |
//! | `list` | listing a placement group |
//! | `trim` | removing a snapshot from a clone |

mod attr;
mod call;
mod checksum;
mod context;
pub mod copy;
mod costs;
mod dispatch;
mod exec;
pub mod fetch;
mod finish;
pub mod info;
mod list;
mod mods;
mod omap;
mod passes;
pub mod plan;
mod read;
mod snaps;
mod source;
mod tmap;
mod trim;
mod watch;
mod write;

pub use context::{AtSnap, load_object, resolve_clone, resolve_snap};
pub use finish::{answer_read, plan, plan_error};
pub use info::OpInfo;
pub use list::plan_pg;
pub use passes::Passes;
pub use plan::{
    ANY_TICKET, Awaited, CLASSES_BY_DEFAULT, ClassList, Limits, NEXT_TURN, ObjectContext, OpResult, OutData, Plan, PlanCtx, PlanKind,
    PlanStop, SnapIndexChange, WatchEffect,
};
pub use source::Source;
pub use trim::{TrimCtx, plan_trim};
pub(crate) use watch::notify_bytes;

#[cfg(test)]
mod tests;
