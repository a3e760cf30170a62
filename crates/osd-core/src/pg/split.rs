//! A placement group becomes several when its pool's pg_num grows, and one with another when it shrinks.
//!
//! Every object goes to the group that its hash folds to by the new number; the log and what is missing go with the objects, duplicates go to
//! both. Nothing of the group may be on its way to the store meanwhile: see `catch_up`. What the store is told is one transaction with the records of all
//! groups that take part ([`Reshape`]): a power cut leaves all of it or nothing, never objects in one group and their log in another.

use super::Pg;
use super::backend::at_store::Submitted;
use super::members::peering::Mapping;
use super::range::split_bits;
use super::requests::backoff;
use crate::event::Effect;
use crate::planted::{Bug, planted};
use crate::shared::Cx;
use maps::PgPool;
use store::LogDelta;
use types::{CollId, EVersion, ObjectStatSum, PgId, PgLogEntry, SpgId, Transaction};

/// Objects counted at once when a group is split: more would keep clients waiting.
pub(crate) const COUNT_MAX: usize = 20_000;

/// What the store is to be told of a split or a merge.
pub(crate) struct Reshape {
    txn: Transaction,
    /// Of the groups that come of a split, or are over with a merge.
    records: Vec<LogDelta>,
}

impl Reshape {
    pub fn new(coll: CollId) -> Self {
        Self { txn: Transaction::new(coll), records: Vec::new() }
    }
    /// The group's collection takes the objects that are the group's by the number of groups that there are now.
    pub fn spread(&mut self, pg: &Pg) {
        self.txn.collection_set_bits(pg.group.coll, split_bits(pg.pgid.pgid.seed, pg.group.pool.pg_num));
    }
}

/// True if both groups of a merge, at these versions, have all that there was when they were found ready, as the map says. An OSD that was away has less.
/// A map that names no merge is of a monitor with one OSD, which merges at once: there is nothing to compare. Source of the facts: Ceph 18.2
/// `src/osd/PeeringState.cc` (`merge_from`).
fn is_as_found_ready(pool: &PgPool, source: PgId, versions: (EVersion, EVersion)) -> bool {
    let meta = &pool.last_pg_merge_meta;
    meta.source_pgid == PgId::default()
        || (meta.source_pgid == source && (meta.source_version, meta.target_version) == versions)
        || planted(Bug::MergeUnlike)
}
/// True if the map says how far groups were when they were merged.
pub(crate) fn tells_of_merges(pool: &PgPool) -> bool {
    pool.last_pg_merge_meta.source_pgid != PgId::default()
}

impl Pg {
    /// Splits one child off, which is to have this place among the OSD's groups. The parent has taken in the map already. `entries` is the
    /// parent's log, as the store has it; what goes to the child is taken out of it. `sum` is what the child has, if it was counted: else it is
    /// a guess for both, and the next scrub knows.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn split_off(
        &mut self,
        slot: u32,
        child: PgId,
        mapping: Mapping,
        entries: &mut Vec<PgLogEntry>,
        sum: Option<ObjectStatSum>,
        reshape: &mut Reshape,
        cx: &mut Cx<'_>,
    ) -> Pg {
        assert!(!self.group.backend.has_writes(), "a map that splits a group begins an interval");
        let child = SpgId { pgid: child, shard: self.group.pgid.shard };
        let bits = split_bits(child.pgid.seed, self.group.pool.pg_num);
        let txn = &mut reshape.txn;
        txn.create_collection(CollId::Pg(child), bits);
        txn.split_collection(self.group.coll, bits, child.pgid.seed, CollId::Pg(child));
        reshape.spread(self);

        let pool = self.group.pool.clone();
        let goes = |hash: u32| pool.fold(hash) == child.pgid.seed;
        let mut record = self.group.record.split_off(child, bits, sum, goes);
        let (theirs, ours): (Vec<_>, Vec<_>) = std::mem::take(entries).into_iter().partition(|e| goes(e.soid.hash));
        *entries = ours;
        let (epoch, history) = (mapping.epoch, record.history_mut());
        history.epoch_created = epoch;
        if mapping.acting_primary != self.group.members.peering.mapping.acting_primary {
            history.same_primary_since = epoch;
        }
        let (past, name) = (self.group.members.peering.past.clone(), self.group.pool_name.clone());
        let mut pg = Pg::new(slot, child, pool, name, record, past, mapping, false, cx);
        pg.group.members.lease = self.group.members.lease.for_child();
        reshape.records.push(pg.group.record.whole(epoch, &pg.group.members.peering.past, theirs));
        pg.group.record.saved(epoch, true);
        pg
    }

    /// Gives a split or a merge to the store. `entries`: those of the log of this group, whose record is written with it: the parent's, or that of the group
    /// that took others in. With none its record stays as it is: there are fewer groups, and of those that go to this one none is here.
    pub(crate) fn reshaped(&mut self, reshape: Reshape, entries: Option<Vec<PgLogEntry>>, cx: &mut Cx<'_>) {
        let (record, peering) = (&mut self.group.record, &self.group.members.peering);
        let epoch = peering.mapping.epoch;
        let delta = entries.map(|entries| LogDelta { with: reshape.records, ..record.whole(epoch, &peering.past, entries) });
        let is_written = delta.is_some();
        if !self.group.backend.takes(reshape.txn, delta, Submitted::Record, cx) {
            let why = format!("{}: no room in the store for a split or a merge", self.pgid);
            cx.out.push(Effect::Stop { why: Some(why) });
        }
        if is_written {
            record.saved(epoch, true);
        }
    }

    /// Takes in the objects of another group, which is over then. This one has taken in the map already. If either lacks what it had when they were found
    /// ready, this OSD lacks objects without knowing which: all of them are looked at by a backfill.
    pub(crate) fn merge(&mut self, source: Pg, reshape: &mut Reshape, cx: &mut Cx<'_>) {
        assert!(!self.group.backend.has_writes() && source.is_settled(), "groups are merged when nothing of them is on its way");
        backoff::release(source.pgid, cx);
        reshape.txn.merge_collection(source.group.coll, self.group.coll, split_bits(self.group.pgid.pgid.seed, self.group.pool.pg_num));
        reshape.records.push(LogDelta::forget(source.pgid));
        let versions = (source.group.record.info().last_update, self.group.record.info().last_update);
        self.group.record.take_in(source.group.record, is_as_found_ready(&self.group.pool, source.pgid.pgid, versions));
    }
    /// After a merge: requests go on, and are looked at anew.
    pub(crate) fn go_on_merged(&mut self, cx: &mut Cx<'_>) {
        // What is at hand of an object may be older than the merge.
        self.requests.requeue(&mut self.work, &mut self.group);
        if self.group.members.peering.is_active() {
            self.requests.take_waiting(&mut self.work, &mut self.group, cx);
        }
    }

    /// Makes the group's collection in the store: it is new.
    pub fn create_in_store(&mut self, cx: &mut Cx<'_>) {
        let mut txn = Transaction::new(self.group.coll);
        txn.create_collection(self.group.coll, split_bits(self.group.pgid.pgid.seed, self.group.pool.pg_num));
        let epoch = self.group.members.peering.mapping.epoch;
        let delta = self.group.record.standing(epoch, &self.group.members.peering.past);
        self.group.backend.takes(txn, Some(delta), Submitted::Record, cx);
        self.group.record.saved(epoch, false);
    }
}
