//! What an OSD remembers of one connection.

use crate::event::Peer;
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
    /// The newest map that we sent it or that it showed to have.
    pub map_epoch: Epoch,
    pub backoffs: Vec<Backoff>,
    /// Its capability allows nothing, whatever is asked.
    pub is_powerless: bool,
    backoff_ids: u64,
}

impl Session {
    pub fn new(mut peer: Peer) -> Self {
        // Not even asked for each request.
        peer.cap = peer.cap.filter(|cap| !cap.allows_all());
        let is_powerless = peer.cap.as_ref().is_some_and(|cap| cap.allows_nothing(&peer.addr));
        Self { peer, map_epoch: 0, backoffs: Vec::new(), is_powerless, backoff_ids: 0 }
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
