//! A placement group becomes several when its pool's pg_num grows, and one with another when it shrinks.
//!
//! Every object goes to the group that its hash folds to by the new number; the log goes with the objects, duplicates go to
//! both. Nothing of the group may be on its way to the store meanwhile: the OSD takes a map only when nothing is.

use super::ops::split_bits;
use super::peering::Mapping;
use super::stats::count;
use super::{Pg, TOKEN_INFO};
use crate::shared::Cx;
use store::{InfoChange, LogDelta};
use types::{CollId, ObjectStatSum, PgId, PgInfo, SpgId, Transaction};

/// Objects counted at once when a group is split: more would keep clients waiting.
const COUNT_MAX: usize = 20_000;

impl Pg {
    /// Splits one child off, which is to have this place among the OSD's groups. The parent has taken in the map already.
    pub fn split_off(&mut self, slot: u32, child: PgId, mapping: Mapping, cx: &mut Cx<'_>) -> Pg {
        assert!(self.is_idle(), "a group is split when nothing of it is on its way");
        let child = SpgId { pgid: child, shard: self.pgid.shard };
        let bits = split_bits(child.pgid.seed, self.pool.pg_num);
        // Of a log that can't be had at once stays what resends are answered by.
        let record = cx.sh.store.load_pg(self.pgid).ok().flatten().unwrap_or_else(|| {
            self.log.merge(super::log::Log::default());
            store::PgRecord { dups: self.log.all_dups().into(), ..Default::default() }
        });
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
            info.last_complete = log.head();
            info.log_tail = log.tail();
        }
        let (theirs, ours): (Vec<_>, Vec<_>) = record.log.iter().cloned().partition(|e| goes(e.soid.hash));
        let rest = |pg: &Pg, entries| LogDelta {
            reset: true,
            epoch: Some(pg.peering.mapping.epoch),
            info: InfoChange::Full(Box::new(pg.info.clone())),
            past_intervals: Some(pg.peering.past.clone()),
            entries,
            trim_to: Some(pg.log.tail()),
            dups: record.dups.iter().cloned().collect(),
            ..LogDelta::new(pg.pgid)
        };
        self.to_store(txn, Some(rest(&pg, theirs)), pg.token(TOKEN_INFO), cx);
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
        self.to_store(Transaction::new(self.coll), Some(rest(self, ours)), self.token(TOKEN_INFO), cx);
        self.objects.clear();
        (pg.info_dirty, self.info_dirty) = (true, true);
        pg
    }

    /// Takes in the objects of another group, which is over then.
    pub fn merge(&mut self, mut source: Pg, cx: &mut Cx<'_>) {
        assert!(self.is_idle() && source.is_idle(), "groups are merged when nothing of them is on its way");
        source.release_backoffs(cx);
        let mut txn = Transaction::new(source.coll);
        txn.merge_collection(source.coll, self.coll, split_bits(self.pgid.pgid.seed, self.pool.pg_num));
        self.to_store(txn, Some(LogDelta::forget(source.pgid)), source.token(TOKEN_INFO), cx);
        let sum = std::mem::take(&mut source.info.stats.stats.sum);
        self.info.stats.stats.sum += &sum;
        self.log.merge(source.log);
        self.info.last_update = self.log.head();
        self.info.last_complete = self.log.head();
        self.info.log_tail = self.log.tail();
        self.info.last_user_version = self.info.last_user_version.max(source.info.last_user_version);
        self.objects.clear();
        // Requests of before the merge are known as duplicates; entries of two logs don't make one.
        let delta = LogDelta {
            reset: true,
            epoch: Some(self.peering.mapping.epoch),
            info: InfoChange::Full(Box::new(self.info.clone())),
            past_intervals: Some(self.peering.past.clone()),
            trim_to: Some(self.log.tail()),
            dups: self.log.all_dups(),
            ..LogDelta::new(self.pgid)
        };
        self.to_store(Transaction::new(self.coll), Some(delta), self.token(TOKEN_INFO), cx);
        self.info_dirty = true;
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
        self.to_store(txn, Some(delta), self.token(TOKEN_INFO), cx);
        self.info_dirty = false;
        self.saved_epoch = self.peering.mapping.epoch;
    }
}
