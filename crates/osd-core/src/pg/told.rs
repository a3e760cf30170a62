//! What others want to know of a group.

use super::Pg;
use super::members::lease::Lease;
use super::members::peering::Peering;
use super::record::Record;
use super::work::scrub::Planned;
use super::work::trim_queue::TrimQueue;
use crate::shared::{Cx, Shared};
use crate::work::{Status, Work};
use base::Stamp;
use maps::{OsdMap, PgPool};
use serde_json::Value;
use store::ObjectStore;
use types::{Epoch, HObject, PgMissingItem, PgStat, ReqId, UTime};

impl Pg {
    pub fn pool(&self) -> &PgPool {
        &self.group.pool
    }
    /// The newest map that the group has taken in. Behind the OSD's while a split or a merge waits for the group's store.
    pub(crate) fn epoch(&self) -> Epoch {
        self.group.epoch
    }
    pub fn record(&self) -> &Record {
        &self.group.record
    }
    pub fn peering(&self) -> &Peering {
        &self.group.members.peering
    }
    /// Until when the group may serve.
    pub fn lease(&self) -> &Lease {
        &self.group.members.lease
    }
    pub(crate) fn trims(&self) -> &TrimQueue {
        self.work.trims()
    }

    /// Everything that the group gave to its own store is durable.
    pub(crate) fn is_settled(&self) -> bool {
        self.group.is_settled()
    }
    /// The same, and nothing waits for another member.
    pub(crate) fn is_quiet(&self) -> bool {
        self.group.is_quiet()
    }
    /// True if peering waits for the store.
    pub(crate) fn waits_for_log(&self) -> bool {
        self.group.members.waits_for_log()
    }

    /// All state bits.
    pub fn state_bits(&self) -> u64 {
        self.work.state_bits(&self.group)
    }
    /// The report to the manager. Only a primary makes one.
    pub fn report(&mut self, cx: &Cx<'_>) -> PgStat {
        self.group.report(&self.work, cx)
    }
    /// What the group does by itself, all together.
    pub fn work(&self) -> Work {
        self.work.work(&self.requests, &self.group)
    }
    pub(crate) fn work_status(&self) -> impl Iterator<Item = Status> {
        self.work.work_status(&self.group)
    }
    /// Its next scrub, if this OSD leads it.
    pub(crate) fn planned_scrub(&self, now: UTime, sh: &Shared) -> Option<Planned> {
        self.work.scrubs().planned(&self.group, now, sh)
    }
    /// Objects of which no member is known to have a good copy, and what is lacked here of each.
    pub fn unfound(&self) -> impl Iterator<Item = (&HObject, Option<PgMissingItem>)> {
        self.work.unfound(&self.group)
    }
    /// What `list_unfound` shows: at most `max` objects behind `after`.
    pub(crate) fn list_unfound(&self, after: Option<&HObject>, max: usize, map: &OsdMap) -> Value {
        self.work.list_unfound(after, max, map, &self.group)
    }

    pub fn has_watches(&self) -> bool {
        self.requests.has_watches()
    }
    /// Requests that are not answered: what each is and what it waits for.
    pub fn unanswered(&self) -> impl Iterator<Item = (&ReqId, &HObject, Stamp, &'static str)> {
        let waiting = self.requests.waiting().chain(self.work.waiting());
        let inflight = self.group.backend.writes().filter_map(|f| Some((&f.reqid, f.obj.as_ref()?, f.received, "waiting for commit")));
        waiting.map(|op| (&op.reqid, &op.msg.hobj, op.received, op.waits_for)).chain(inflight)
    }

    /// Looks at everything that is always true of a group: see [`super::invariants`].
    ///
    /// # Panics
    /// When something does not agree: a broken invariant of ours.
    pub fn assert_whole(&self, store: &dyn ObjectStore, rots: bool) {
        self.group.assert_whole(store, rots);
    }
}
