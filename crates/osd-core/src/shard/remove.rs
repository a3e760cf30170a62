//! Groups that are over: their objects go a page a turn, so that clients don't wait for it, and their record goes last. An OSD that dies meanwhile
//! goes on with it when it starts again, because the record is still there. The first page's transaction makes the record one of a group that lacks all:
//! a member again, it is filled, and nothing takes it for a copy.

use super::Shard;
use crate::event::{Effect, Level};
use crate::persist::OWN_SLOT;
use crate::shared::EventCx;
use crate::work::{Status, Work};
use std::collections::BTreeMap;
use store::{InfoChange, LogDelta, StoreError};
use types::{CollId, GHObject, HObject, PgInfo, SpgId, Transaction};

/// Objects removed in one turn.
const PAGE: usize = 256;

/// Groups on their way out, the first first.
#[derive(Debug)]
pub(crate) struct Removals {
    groups: Vec<SpgId>,
    /// The first one's record no longer says that its objects are here.
    is_first_disowned: bool,
    /// The first one's objects in front of this one are removed: a store would step over all of them to find the next page from the start.
    from: GHObject,
    /// Groups of which something is left that can't be removed, and whether this OSD was to be their member again.
    left: BTreeMap<SpgId, bool>,
    pub work: Work,
}

impl Default for Removals {
    fn default() -> Self {
        Self { groups: Vec::new(), is_first_disowned: false, from: GHObject::min(), left: BTreeMap::new(), work: Work::Idle }
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
        self.is_first_disowned = false;
        self.from = GHObject::min();
        self.work = if self.groups.is_empty() { Work::Idle } else { Work::Busy };
    }
}

impl Shard {
    /// What the store has of a group goes.
    pub(super) fn remove_rest(&mut self, pgid: SpgId) {
        self.removals.groups.push(pgid);
        if self.removals.work == Work::Idle {
            self.removals.work = Work::Busy;
        }
        self.sh.turns.want(self.removals.work);
    }

    /// One page of it.
    pub(super) fn remove_some(&mut self, cx: &mut EventCx<'_>) {
        let Some(pgid) = self.removals.groups.first().copied().filter(|_| self.removals.work.is_busy()) else { return };
        match self.remove_page(pgid) {
            Ok(Work::Done) => {
                self.removals.left.remove(&pgid);
                self.removals.next();
            }
            Ok(work) => self.removals.work = work,
            Err(error @ (StoreError::Wait(_) | StoreError::Full)) => self.removals.work = Work::stopped(&error),
            Err(StoreError::Stopped(why)) => cx.out.push(Effect::Stop { why: Some(why) }),
            Err(error) => {
                self.removals.next();
                cx.out.push(Effect::ClusterLog { level: Level::Error, text: format!("{pgid} can't be removed: {error}") });
                // Space that can't be had back is no reason not to serve, unless it is in the way.
                if !*self.removals.left.entry(pgid).or_default() {
                    return;
                }
                self.damaged_groups.insert(pgid);
                if self.sh.map.pool(pgid.pgid.pool).is_some_and(|pool| pool.size > 1) {
                    cx.out.push(Effect::Stop { why: Some(self.sh.why_it_ends(pgid, "can't be loaded")) });
                }
            }
        }
    }
    /// True if something of this group is left, which goes first. What could not be removed is tried once more: a device may have read it again.
    pub(super) fn is_in_the_way(&mut self, pgid: SpgId) -> bool {
        if let Some(is_wanted) = self.removals.left.get_mut(&pgid)
            && !std::mem::replace(is_wanted, true)
        {
            self.remove_rest(pgid);
        }
        self.removals.has(pgid)
    }

    /// The change after which the record of a group claims no object. None if there is no record, or none that can be read.
    fn disown(&self, pgid: SpgId) -> Result<Option<LogDelta>, StoreError> {
        let record = match self.sh.store.load_pg(pgid) {
            Ok(record) => record,
            Err(error @ (StoreError::Wait(_) | StoreError::Stopped(_))) => return Err(error),
            // Then a start can't take it for a copy either.
            Err(_) => None,
        };
        Ok(record.map(|record| {
            let info = PgInfo { last_backfill: HObject::min(), ..record.info };
            let missing = record.missing.into_keys().map(|object| (object, None)).collect();
            LogDelta { pg: pgid, info: InfoChange::Full(Box::new(info)), missing, ..LogDelta::default() }
        }))
    }

    /// Done with the last.
    fn remove_page(&mut self, pgid: SpgId) -> Result<Work, StoreError> {
        let coll = CollId::Pg(pgid);
        let mut txn = Transaction::new(coll);
        if self.sh.store.collection_bits(coll)?.is_some() {
            let page = self.sh.store.list(coll, &self.removals.from, &GHObject::max(), PAGE)?;
            page.objects.iter().for_each(|o| txn.remove(o));
            // Behind the last page comes one from the start: nothing may be left when the collection goes.
            if page.next.is_some() || self.removals.from != GHObject::min() {
                let disowns = if self.removals.is_first_disowned { None } else { self.disown(pgid)? };
                self.sh.store.submit(txn, disowns, OWN_SLOT << 40)?;
                self.removals.is_first_disowned = true;
                self.removals.from = page.next.unwrap_or_else(GHObject::min);
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
