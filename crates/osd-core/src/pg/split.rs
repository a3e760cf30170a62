//! A placement group becomes several when its pool's pg_num grows, and one with another when it shrinks.
//!
//! Every object goes to the group that its hash folds to by the new number; the log and what is missing go with the objects, duplicates go to
//! both. Nothing of the group may be on its way to the store meanwhile: see `catch_up`.

use super::Pg;
use super::logs::missing::Missing;
use super::peering::Mapping;
use super::range::split_bits;
use super::stats::count;
use super::submit::Submitted;
use crate::shared::Cx;
use store::{InfoChange, LogDelta};
use types::{CollId, HObject, ObjectStatSum, PgId, PgInfo, PgLogEntry, SpgId, Transaction};

/// Objects counted at once when a group is split: more would keep clients waiting.
const COUNT_MAX: usize = 20_000;

impl Pg {
    /// Splits one child off, which is to have this place among the OSD's groups. The parent has taken in the map already. `entries` is the
    /// parent's log, as the store has it; what goes to the child is taken out of it.
    pub fn split_off(&mut self, slot: u32, child: PgId, mapping: Mapping, entries: &mut Vec<PgLogEntry>, cx: &mut Cx<'_>) -> Pg {
        assert!(self.inflight.is_empty(), "a map that splits a group begins an interval");
        let child = SpgId { pgid: child, shard: self.pgid.shard };
        let bits = split_bits(child.pgid.seed, self.pool.pg_num);
        let mut txn = Transaction::new(self.coll);
        txn.create_collection(CollId::Pg(child), bits);
        txn.split_collection(self.coll, bits, child.pgid.seed, CollId::Pg(child));
        txn.collection_set_bits(self.coll, split_bits(self.pgid.pgid.seed, self.pool.pg_num));

        let mut info = PgInfo::new(child);
        info.history = self.info.history;
        info.history.epoch_created = mapping.epoch;
        if mapping.acting_primary != self.peering.mapping.acting_primary {
            info.history.same_primary_since = mapping.epoch;
        }
        info.purged_snaps = self.info.purged_snaps.clone();
        info.last_user_version = self.info.last_user_version;
        info.last_epoch_started = self.info.last_epoch_started;
        info.last_interval_started = self.info.last_interval_started;
        info.stats.parent_split_bits = bits;
        let (past, pool, name) = (self.peering.past.clone(), self.pool.clone(), self.pool_name.clone());
        let mut pg = Pg::new(slot, child, pool, name, info, past, mapping, false, cx);

        let goes = |hash: u32| self.pool.fold(hash) == child.pgid.seed;
        pg.log = self.log.split_off(goes);
        for (info, log) in [(&mut pg.info, &pg.log), (&mut self.info, &self.log)] {
            info.last_update = log.head();
            info.log_tail = log.tail();
        }
        let (theirs, ours): (Vec<_>, Vec<_>) = std::mem::take(entries).into_iter().partition(|e| goes(e.soid.hash));
        pg.missing = self.missing.split_off(goes);
        if self.info.is_incomplete() {
            // A backfill begins anew in both: what is missing is so of objects before its end.
            for pg in [&mut pg, &mut *self] {
                pg.info.last_backfill = HObject::min();
                pg.missing = Missing::default();
            }
        }
        for pg in [&mut pg, &mut *self] {
            pg.note_complete();
        }
        let delta = pg.whole_record(theirs);
        pg.to_store(txn, Some(delta), Submitted::Record, cx);
        // What the child has is counted in the store; the parent keeps the rest, and what was read and written so far. Where counting takes
        // too long, half of it is a guess, and the next scrub knows.
        let sum = count(&*cx.sh.store, pg.coll, COUNT_MAX).unwrap_or_else(|| {
            (pg.info.stats.stats_invalid, self.info.stats.stats_invalid) = (true, true);
            let mut half = ObjectStatSum::default();
            let all = &self.info.stats.stats.sum;
            (half.num_objects, half.num_bytes, half.num_object_clones) =
                (all.num_objects / 2, all.num_bytes / 2, all.num_object_clones / 2);
            half
        });
        pg.info.stats.stats.sum = sum;
        self.info.stats.stats.sum -= &sum;
        let delta = self.whole_record(ours.clone());
        self.to_store(Transaction::new(self.coll), Some(delta), Submitted::Record, cx);
        *entries = ours;
        (pg.info_dirty, self.info_dirty) = (true, true);
        pg
    }

    /// All that the store is to remember of the group, in place of what it does. `entries` are those of the log.
    pub(super) fn whole_record(&self, entries: Vec<PgLogEntry>) -> LogDelta {
        LogDelta {
            reset: true,
            epoch: Some(self.peering.mapping.epoch),
            info: InfoChange::Full(Box::new(self.info.clone())),
            past_intervals: Some(self.peering.past.clone()),
            entries,
            trim_to: Some(self.log.tail()),
            dups: self.log.all_dups(),
            missing: self.missing.to_record(),
            ..LogDelta::new(self.pgid)
        }
    }

    /// Takes in the objects of another group, which is over then. This one has taken in the map already.
    pub fn merge(&mut self, mut source: Pg, cx: &mut Cx<'_>) {
        assert!(self.inflight.is_empty() && source.is_settled(), "groups are merged when nothing of them is on its way");
        source.release_backoffs(cx);
        let mut txn = Transaction::new(source.coll);
        txn.merge_collection(source.coll, self.coll, split_bits(self.pgid.pgid.seed, self.pool.pg_num));
        let forget = LogDelta::forget(source.pgid);
        source.to_store(txn, Some(forget), Submitted::Record, cx);
        let sum = std::mem::take(&mut source.info.stats.stats.sum);
        self.info.stats.stats.sum += &sum;
        self.log.merge(source.log);
        self.info.last_update = self.log.head();
        self.missing.append(std::mem::take(&mut source.missing));
        if self.info.is_incomplete() || source.info.is_incomplete() {
            self.info.last_backfill = HObject::min();
            self.missing = Missing::default();
        }
        self.note_complete();
        self.info.log_tail = self.log.tail();
        self.info.last_user_version = self.info.last_user_version.max(source.info.last_user_version);
        // Requests of before the merge are known as duplicates; entries of two logs don't make one.
        let delta = self.whole_record(Vec::new());
        self.to_store(Transaction::new(self.coll), Some(delta), Submitted::Record, cx);
        self.info_dirty = true;
        // What is at hand of an object may be older than the merge.
        self.requeue();
        if self.peering.is_active() {
            for op in std::mem::take(&mut self.waiting_active) {
                self.client_op(op, cx);
            }
        }
    }

    /// Makes the group's collection in the store: it is new.
    pub fn create_in_store(&mut self, cx: &mut Cx<'_>) {
        let mut txn = Transaction::new(self.coll);
        txn.create_collection(self.coll, split_bits(self.pgid.pgid.seed, self.pool.pg_num));
        let delta = LogDelta {
            epoch: Some(self.peering.mapping.epoch),
            info: InfoChange::Full(Box::new(self.info.clone())),
            past_intervals: Some(self.peering.past.clone()),
            ..LogDelta::new(self.pgid)
        };
        self.to_store(txn, Some(delta), Submitted::Record, cx);
        self.info_dirty = false;
        self.saved_epoch = self.peering.mapping.epoch;
    }
}
