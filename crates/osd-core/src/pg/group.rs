//! The group apart from requests and from its own work: which group it is, its record, its members, and how objects lie on them.
//!
//! Requests and jobs take it as an argument. Holds no rule of its own.

use super::backend::Backend;
use super::backend::at_store::Submitted;
use super::backend::name::name;
use super::members::Members;
use super::members::tell::Tell;
use super::range;
use super::record::Record;
use crate::op::Source;
use crate::shared::{Cx, Shared};
use maps::PgPool;
use std::rc::Rc;
use types::{CollId, Epoch, GHObject, HObject, SnapContext, SpgId, Transaction};

/// See the module.
pub(super) struct Group {
    pub pgid: SpgId,
    pub coll: CollId,
    pub pool: Rc<PgPool>,
    pub pool_name: Rc<str>,
    pub pool_snapc: SnapContext,
    /// The newest map that the group has taken in. Behind the OSD's while a split or a merge waits for the group's store.
    pub epoch: Epoch,
    pub record: Record,
    pub members: Members,
    pub backend: Backend,
}

impl Group {
    /// Everything that the group gave to its own store is durable.
    pub(crate) fn is_settled(&self) -> bool {
        self.backend.is_committed()
    }
    /// The same, and nothing waits for another member.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_settled() && !self.backend.has_writes()
    }
    /// The group's objects in our store.
    pub(super) fn source<'a>(&self, sh: &'a Shared) -> Source<'a> {
        Source::new(&*sh.store, self.coll)
    }
    /// An object's name there.
    pub(super) fn name(&self, obj: &HObject) -> GHObject {
        name(self.coll, obj.clone())
    }
    /// The group as it speaks to other members.
    pub(crate) fn tell(&self) -> Tell<'_> {
        self.members.tell(&self.record)
    }
    /// Writes the whole info and the past intervals.
    pub(super) fn save_info(&mut self, cx: &mut Cx<'_>) {
        self.save_info_as(Submitted::Record, cx);
    }
    /// What there is no room for now is written by a later tick.
    pub(super) fn save_info_as(&mut self, what: Submitted, cx: &mut Cx<'_>) {
        let (backend, peering, txn) = (&mut self.backend, &self.members.peering, Transaction::new(self.coll));
        self.record.save(peering.mapping.epoch, &peering.past, what, |delta| backend.takes(txn, Some(delta), what, cx));
    }
    /// The record is written anew if it names a map more than `lag` epochs old.
    pub(crate) fn refresh_record(&mut self, lag: Epoch, cx: &mut Cx<'_>) {
        if self.record.saved_epoch().saturating_add(lag) < self.members.peering.mapping.epoch {
            self.save_info(cx);
        }
    }
    /// True if an object of this name lies in the group. A store ends at a change to any other, so it is asked of all that comes from outside.
    pub(in crate::pg) fn holds(&self, obj: &HObject) -> bool {
        range::holds(self.pgid.pgid, &self.pool, obj)
    }
    /// The same of everything that a transaction changes.
    pub(in crate::pg) fn holds_all(&self, txn: &Transaction) -> bool {
        txn.objects().all(|obj| !obj.max && obj.shard == self.pgid.shard && self.holds(&obj.hobj))
    }
}
