//! What one OSD has asked us to hold back.

use messages::MOSDBackoff;
use std::collections::BTreeMap;
use types::{HObject, SpgId};

/// A range of objects of one placement group whose requests wait. Equal ends stand for that one object.
#[derive(Debug, Clone)]
struct Backoff {
    pgid: SpgId,
    begin: HObject,
    end: HObject,
}

impl Backoff {
    fn covers(&self, pgid: SpgId, object: &HObject) -> bool {
        self.pgid == pgid && (*object == self.begin || self.begin <= *object && *object < self.end)
    }
}

/// The connection to one OSD.
#[derive(Debug, Default)]
pub struct Session {
    /// By the number that the OSD gave.
    backoffs: BTreeMap<u64, Backoff>,
}

impl Session {
    pub fn block(&mut self, m: &MOSDBackoff) {
        self.backoffs.insert(m.id, Backoff { pgid: m.pgid, begin: m.begin.detach(), end: m.end.detach() });
    }
    /// True if there was such a one.
    pub fn unblock(&mut self, id: u64) -> bool {
        self.backoffs.remove(&id).is_some()
    }
    pub fn holds(&self, pgid: SpgId, object: &HObject) -> bool {
        !self.backoffs.is_empty() && self.backoffs.values().any(|b| b.covers(pgid, object))
    }
}
