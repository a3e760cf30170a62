//! Groups that are over: their objects go a page a turn, so that clients don't wait for it, and their record goes last. An OSD that dies meanwhile
//! goes on with it when it starts again, because the record is still there.

use crate::event::{Effect, Level};
use crate::osd::Osd;
use crate::persist::OWN_SLOT;
use crate::work::{Status, Work};
use store::{LogDelta, StoreError};
use types::{CollId, GHObject, SpgId, Transaction};

/// Objects removed in one turn.
const PAGE: usize = 256;

/// Groups on their way out, the first first.
#[derive(Debug)]
pub(crate) struct Removals {
    groups: Vec<SpgId>,
    pub work: Work,
}

impl Default for Removals {
    fn default() -> Self {
        Self { groups: Vec::new(), work: Work::Idle }
    }
}

impl Removals {
    pub fn has(&self, pgid: SpgId) -> bool {
        self.groups.contains(&pgid)
    }
    pub fn status(&self) -> impl Iterator<Item = Status> {
        let status = |(i, pgid): (usize, &SpgId)| {
            let (work, progress) =
                if i == 0 { (self.work, "objects go a page a turn".into()) } else { (Work::Idle, format!("behind {i} others")) };
            Status { what: "removal", pgid: Some(*pgid), work, progress }
        };
        self.groups.iter().enumerate().map(status)
    }
    /// The first is gone, or is left.
    fn next(&mut self) {
        self.groups.remove(0);
        self.work = if self.groups.is_empty() { Work::Idle } else { Work::Busy };
    }
}

impl Osd {
    /// What the store has of a group goes.
    pub(crate) fn remove_rest(&mut self, pgid: SpgId) {
        self.removals.groups.push(pgid);
        if self.removals.work == Work::Idle {
            self.removals.work = Work::Busy;
        }
        self.sh.turns.want(self.removals.work);
    }

    /// One page of it.
    pub(crate) fn remove_some(&mut self, out: &mut Vec<Effect>) {
        let Some(pgid) = self.removals.groups.first().copied().filter(|_| self.removals.work.is_busy()) else { return };
        match self.remove_page(pgid) {
            Ok(Work::Done) => self.removals.next(),
            Ok(work) => self.removals.work = work,
            Err(error @ (StoreError::Wait(_) | StoreError::Full)) => self.removals.work = Work::stopped(&error),
            Err(StoreError::Stopped(why)) => out.push(Effect::Stop { why: Some(why) }),
            Err(error) => {
                // Space that can't be had back is no reason not to serve.
                self.removals.next();
                out.push(Effect::ClusterLog { level: Level::Error, text: format!("{pgid} can't be removed: {error}") });
            }
        }
    }

    /// Done with the last.
    fn remove_page(&mut self, pgid: SpgId) -> Result<Work, StoreError> {
        let coll = CollId::Pg(pgid);
        let mut txn = Transaction::new(coll);
        if self.sh.store.collection_bits(coll)?.is_some() {
            let page = self.sh.store.list(coll, &GHObject::min(), &GHObject::max(), PAGE)?;
            page.objects.iter().for_each(|o| txn.remove(o));
            if page.next.is_some() {
                self.sh.store.submit(txn, None, OWN_SLOT << 40)?;
                return Ok(Work::Busy);
            }
            txn.remove_collection(coll);
        }
        let pool = pgid.pgid.pool;
        if self.sh.map.pool(pool).is_none() {
            txn.append(crate::pg::snaps::forget_pool(pool));
        }
        self.sh.store.submit(txn, Some(LogDelta::forget(pgid)), OWN_SLOT << 40)?;
        Ok(Work::Done)
    }
}
