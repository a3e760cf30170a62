//! What an OSD remembers of one connection.

use crate::event::Peer;
use cephx::caps::OsdCap;
use types::{Epoch, HObject, SpgId};

/// A stop that we asked a client to keep, until the group serves again.
#[derive(Debug, Clone)]
pub struct Backoff {
    pub pgid: SpgId,
    pub id: u64,
    pub begin: HObject,
    pub end: HObject,
}

/// One peer's session.
#[derive(Debug)]
pub struct Session {
    pub peer: Peer,
    /// `None`: authentication is off, everything is allowed.
    pub cap: Option<OsdCap>,
    /// The newest map that we sent it or that it showed to have.
    pub map_epoch: Epoch,
    pub backoffs: Vec<Backoff>,
    backoff_ids: u64,
}

impl Session {
    /// A capability that can't be read allows nothing.
    pub fn new(peer: Peer) -> Self {
        let cap = peer.caps.as_ref().map(|text| OsdCap::parse(text).unwrap_or_default());
        Self { peer, cap, map_epoch: 0, backoffs: Vec::new(), backoff_ids: 0 }
    }
    pub fn has(&self, features: u64) -> bool {
        self.peer.features & features == features
    }
    pub fn next_backoff_id(&mut self) -> u64 {
        self.backoff_ids += 1;
        self.backoff_ids
    }
    pub fn holds_back(&self, pgid: SpgId) -> bool {
        self.backoffs.iter().any(|b| b.pgid == pgid)
    }
}
