//! How objects lie on the members of a group, and the writes that are on their way to them.

pub(super) mod at_store;
pub(super) mod followed;
pub mod in_flight;

use crate::pg::members::said::Acknowledgement;
use at_store::AtStore;
use followed::Followed;
use in_flight::Replication;
use std::collections::VecDeque;
use types::SpgId;

/// Writes on their way.
pub(super) struct Backend {
    pub(in crate::pg) inflight: Replication,
    pub(in crate::pg) at_store: AtStore,
    /// Writes of the primary that our store has and that are not acknowledged to it, in the order of their submission.
    pub(in crate::pg) to_acknowledge: VecDeque<Acknowledgement>,
    /// Writes of the primary that not every member may have.
    pub(in crate::pg) followed: Followed,
}

impl Backend {
    pub fn new(pgid: SpgId, slot: u32) -> Self {
        Self {
            inflight: Replication::default(),
            at_store: AtStore::new(pgid, slot),
            to_acknowledge: VecDeque::new(),
            followed: Followed::default(),
        }
    }
}
