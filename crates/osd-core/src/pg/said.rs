//! What members of a group say to each other, as values: between the message that brings it and the group that takes it, or waits for its store.

use super::logs::LogError;
use super::reserve::Kind;
use messages::{MOSDPGInfo2, MOSDPGLog, MOSDPGUpdateLogMissing, MOSDRepOp, MOSDRepScrub, PgQuery};
use store::StoreError;
use types::{EVersion, Epoch, ReqId};

/// What another member says.
#[derive(Debug)]
pub(crate) enum Said {
    Query(Box<PgQuery>),
    Info(Box<MOSDPGInfo2>),
    Log(Box<MOSDPGLog>),
    Write(Box<MOSDRepOp>),
    Entries(Box<MOSDPGUpdateLogMissing>),
    Scrub(Box<MOSDRepScrub>),
}

/// Why a message goes no further.
#[derive(Debug)]
pub(super) enum Stop {
    /// The store fetches.
    Wait,
    /// Another member's mistake, or damage of ours.
    Bad(String),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        if let StoreError::Wait(_) = error { Self::Wait } else { Self::Bad(error.to_string()) }
    }
}
impl From<LogError> for Stop {
    fn from(error: LogError) -> Self {
        Self::Bad(error.to_string())
    }
}
impl From<String> for Stop {
    fn from(what: String) -> Self {
        Self::Bad(what)
    }
}

/// What another member says of a place.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Word {
    Request {
        kind: Kind,
        priority: u32,
        bytes: i64,
    },
    Grant,
    Release,
    Revoke,
    /// Refused, as its store is too full.
    Refuse,
    /// Taken back, as its store is too full.
    RevokeTooFull,
}

/// A write of the primary that our store has: what the primary is told when it is durable.
#[derive(Debug)]
pub(super) struct Acknowledgement {
    /// The interval that it belongs to.
    pub(super) since: Epoch,
    pub(super) number: u64,
    pub(super) reqid: ReqId,
    /// Everything up to here is in our store with it.
    pub(super) complete: EVersion,
    /// It was entries alone.
    pub(super) is_bare: bool,
}
