//! What an object store is: the trait that every one implements, the hints that make it faster, the suite that all pass, and, for the tests of
//! durable ones (feature `crash`), the judge of what comes up after a power cut.
//!
//! Holds no store. A store keeps collections of objects (data, attributes, omap) and, for each placement group, its log and info,
//! which travel beside the transactions as a [`LogDelta`].

#![forbid(unsafe_code)]

pub mod conformance;
#[cfg(feature = "crash")]
pub mod crash;
mod error;
mod hints;
mod log_delta;
mod object_store;
mod read_data;
mod unwritten;

pub use error::{StoreError, StoreResult};
pub use hints::StoreHints;
pub use log_delta::{FastInfo, InfoChange, LogDelta, PgRecord};
pub use object_store::{AttrsMax, ListPage, ObjectStat, ObjectStore, OmapFrom, OmapPage, OmapQuery};
pub use read_data::ReadData;
/// For [`forward_reads`], which is used in crates that need not name it.
#[doc(hidden)]
pub use types as __types;
pub use types::CollId;
pub use unwritten::{UNWRITTEN_MAX, Unwritten, Written};
