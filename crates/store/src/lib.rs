//! What an object store is: the trait that every one implements, and the suite that judges them all.
//!
//! Holds no store. A store keeps collections of objects (data, attributes, omap) and, for each placement group, its log and info,
//! which travel beside the transactions as a [`LogDelta`].

#![forbid(unsafe_code)]

pub mod conformance;
mod error;
mod log_delta;
mod object_store;
mod read_data;

pub use error::{StoreError, StoreResult};
pub use log_delta::{FastInfo, InfoChange, LogDelta, PgRecord};
pub use object_store::{ListPage, ObjectStat, ObjectStore, OmapFrom, OmapPage, OmapQuery};
pub use read_data::ReadData;
pub use types::CollId;
