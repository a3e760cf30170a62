//! What members of a group say to each other, as values: between the message that brings it and the group that takes it, or waits for its store.

use crate::pg::members::peering::Peering;
use crate::pg::reconcile::LogError;
use crate::pg::work::places::want::Kind;
use crate::pg::work::recovery::host::Part;
use crate::pg::work::recovery::wire::Envelope;
use messages::{
    MOSDPGInfo2, MOSDPGLease, MOSDPGLog, MOSDPGUpdateLogMissing, MOSDRepOp, MOSDRepScrub, MOSDRepScrubMap, MOSDScrubReserve, PgLeaseAck,
    PgQuery,
};
use store::StoreError;
use types::{EVersion, Epoch, PgInfo, PgShard, ReqId};

/// What another member says.
#[derive(Debug)]
pub(crate) enum Said {
    /// What may have to wait for our own log, and what comes behind such a message.
    InOrder(InOrder),
    /// A write of ours is durable there.
    Durable {
        sent: Epoch,
        number: u64,
        complete: EVersion,
    },
    /// What it has of the group.
    Has {
        query_epoch: Epoch,
        info: Box<PgInfo>,
    },
    /// The primary: every member has what is in the log up to a version.
    Settled {
        sent: Epoch,
        upto: EVersion,
    },
    Lease(MOSDPGLease),
    LeaseAck {
        sent: Epoch,
        ack: PgLeaseAck,
    },
    ScrubSlot(MOSDScrubReserve),
    ScrubMap(Box<MOSDRepScrubMap>),
    /// About a place for recovery or backfill.
    Place {
        sent: Epoch,
        word: Word,
    },
    /// About objects.
    Parts(Envelope, Vec<Part>),
}

impl Said {
    /// The member that says it, of those that an OSD is. Some messages name the OSD that they come from, and not which member that is.
    pub fn sender(&self, named: PgShard, peering: &Peering) -> PgShard {
        match self {
            Self::Lease(_) | Self::Place { .. } | Self::InOrder(InOrder::Scrub(_)) => peering.member_on(named.osd),
            Self::Parts(envelope, parts) if envelope.from.osd < 0 => {
                let is_of_target = parts.iter().any(Part::is_of_target);
                let target = peering.targets().iter().copied().find(|target| is_of_target && target.osd == named.osd);
                target.unwrap_or_else(|| peering.member_on(named.osd))
            }
            _ => named,
        }
    }
}

/// What is taken in the order in which it came.
#[derive(Debug)]
pub(crate) enum InOrder {
    Query(Box<PgQuery>),
    Info(Box<MOSDPGInfo2>),
    Log(Box<MOSDPGLog>),
    Write(Box<MOSDRepOp>),
    Entries(Box<MOSDPGUpdateLogMissing>),
    Scrub(Box<MOSDRepScrub>),
}

/// Why a message goes no further.
#[derive(Debug)]
pub(in crate::pg) enum Stop {
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
    /// Refused, as its store is too full. `lists`: the member tells all the same what it has.
    Refuse {
        lists: bool,
    },
    /// Taken back, as its store is too full.
    RevokeTooFull {
        lists: bool,
    },
}

/// A write of the primary that our store has: what the primary is told when it is durable.
#[derive(Debug)]
pub(in crate::pg) struct Acknowledgement {
    /// The interval that it belongs to.
    pub(in crate::pg) since: Epoch,
    pub(in crate::pg) number: u64,
    pub(in crate::pg) reqid: ReqId,
    /// Everything up to here is in our store with it.
    pub(in crate::pg) complete: EVersion,
    /// It was entries alone.
    pub(in crate::pg) is_bare: bool,
}
