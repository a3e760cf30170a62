//! What a store answers instead of what was asked.

use thiserror::Error;
use types::CollId;

/// Why a store does not do or give what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StoreError {
    #[error("no collection {0}")]
    NoCollection(CollId),
    /// The asker knows which: this answer is a common one and costs nothing.
    #[error("no such object in {0}")]
    NoObject(CollId),
    /// Bytes must be fetched first: the asker drops what it has and asks again when the ticket comes out of
    /// [`crate::ObjectStore::take_ready`].
    #[error("bytes are being fetched (ticket {0})")]
    Wait(u64),
    /// What is stored does not have its checksum, or can't be read.
    #[error("{coll}: {what}")]
    Damaged { coll: CollId, what: String },
    /// The transaction does not fit and has not happened.
    #[error("the store is full")]
    Full,
    /// The store has stopped, for this reason, and does nothing any more.
    #[error("the store has stopped: {0}")]
    Stopped(String),
}

pub type StoreResult<T> = Result<T, StoreError>;
