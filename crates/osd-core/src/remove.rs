//! Groups that are over: their objects go a page a turn, so that nobody waits for it, and their record goes last. An OSD that dies meanwhile
//! goes on with it when it starts again, because the record is still there.

use crate::event::{Effect, Level};
use crate::osd::Osd;
use crate::persist::OWN_SLOT;
use store::{LogDelta, StoreError};
use types::{CollId, GHObject, SpgId, Transaction};

/// Objects removed in one turn.
const PAGE: usize = 256;

/// Groups on their way out.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    groups: Vec<SpgId>,
    /// The store fetches, or has no room.
    waits: bool,
}

impl Removals {
    pub fn wants_turns(&self) -> bool {
        !self.groups.is_empty() && !self.waits
    }
    pub fn has(&self, pgid: SpgId) -> bool {
        self.groups.contains(&pgid)
    }
    /// The store has news.
    pub fn wake(&mut self) {
        self.waits = false;
    }
}

impl Osd {
    /// What the store has of a group goes.
    pub(crate) fn remove_rest(&mut self, pgid: SpgId) {
        self.removals.groups.push(pgid);
        self.sh.turns_wanted = true;
    }

    /// One page of it.
    pub(crate) fn remove_some(&mut self, out: &mut Vec<Effect>) {
        let Some(pgid) = self.removals.groups.first().copied().filter(|_| !self.removals.waits) else { return };
        match self.remove_page(pgid) {
            Ok(true) => drop(self.removals.groups.remove(0)),
            Ok(false) => {}
            Err(StoreError::Wait(_) | StoreError::Full) => self.removals.waits = true,
            Err(StoreError::Stopped(why)) => out.push(Effect::Stop { why: Some(why) }),
            Err(error) => {
                // Space that can't be had back is no reason not to serve.
                self.removals.groups.remove(0);
                out.push(Effect::ClusterLog { level: Level::Error, text: format!("{pgid} can't be removed: {error}") });
            }
        }
    }

    /// True if it was the last.
    fn remove_page(&mut self, pgid: SpgId) -> Result<bool, StoreError> {
        let coll = CollId::Pg(pgid);
        let mut txn = Transaction::new(coll);
        if self.sh.store.collection_bits(coll)?.is_some() {
            let page = self.sh.store.list(coll, &GHObject::min(), &GHObject::max(), PAGE)?;
            page.objects.iter().for_each(|o| txn.remove(o));
            if page.next.is_some() {
                self.sh.store.submit(txn, None, OWN_SLOT << 40)?;
                return Ok(false);
            }
            txn.remove_collection(coll);
        }
        let pool = pgid.pgid.pool;
        if self.sh.map.pool(pool).is_none() {
            txn.append(crate::pg::snaps::forget_pool(pool));
        }
        self.sh.store.submit(txn, Some(LogDelta::forget(pgid)), OWN_SLOT << 40)?;
        Ok(true)
    }
}
