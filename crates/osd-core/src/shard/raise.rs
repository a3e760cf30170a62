//! How groups become what the store remembers, after a start: each is made by the map that it had taken in, and shown every map since.

use super::Shard;
use crate::persist::OWN_SLOT;
use crate::pg::Pg;
use crate::pg::range::split_bits;
use crate::pg::record::Record;
use crate::pg::record::log::Log;
use crate::shared::EventCx;
use maps::OsdMap;
use std::collections::BTreeMap;
use std::rc::Rc;
use store::{ObjectStore, PgRecord, StoreError};
use types::{CollId, Epoch, HObject, PastIntervals, PgInfo, PgMissingItem, SpgId, Transaction, Uuid};

/// One group's memory.
pub(crate) struct Loaded {
    pub pgid: SpgId,
    pub epoch: Epoch,
    info: PgInfo,
    past: PastIntervals,
    log: Log,
    missing: BTreeMap<HObject, PgMissingItem>,
    /// The record names another map than the one that the group begins with: it is written anew.
    is_stale: bool,
}

impl Loaded {
    /// The newest epoch that its history has: in its log, or as an interval.
    pub fn newest_of_its_history(&self) -> Epoch {
        let (info, h) = (&self.info, &self.info.history);
        let past = if self.past.is_empty() { 0 } else { self.past.last };
        let of_log = self.missing.values().map(|item| item.need.epoch).chain([info.last_update.epoch, past]);
        let of_info = [info.last_epoch_started, info.last_interval_started, h.epoch_created, h.last_epoch_started, h.last_interval_started];
        let since = [
            h.last_epoch_clean,
            h.last_epoch_split,
            h.last_epoch_marked_full,
            h.same_up_since,
            h.same_interval_since,
            h.same_primary_since,
        ];
        of_log.chain(of_info).chain(since).max().unwrap_or(0)
    }
    /// It had not taken in a map beyond this one.
    pub fn begin_at(&mut self, epoch: Epoch) {
        if self.epoch > epoch {
            (self.epoch, self.is_stale) = (epoch, true);
        }
    }
    pub fn of(pgid: SpgId, record: PgRecord) -> Result<Self, String> {
        let failed = |what: &str| Err(format!("{pgid}: {what}"));
        let PgRecord { epoch, info, past_intervals: past, log, dups, missing } = record;
        if info.pgid != pgid {
            return failed("its info is another group's");
        }
        let mut last = info.log_tail;
        for entry in &log {
            if entry.version <= last || entry.version > info.last_update {
                return failed("its log is in disorder");
            }
            last = entry.version;
        }
        let log = Log::load(info.last_update, info.log_tail, dups, log);
        Ok(Self { pgid, epoch, info, past, log, missing, is_stale: false })
    }
}

/// A number of groups by which this one has the objects that its collection takes. Nothing if the store can't say.
fn pg_num_of(store: &dyn ObjectStore, pgid: SpgId) -> Option<u32> {
    let bits = store.collection_bits(CollId::Pg(pgid)).ok()??;
    1_u32.checked_shl(bits).filter(|pg_num| pgid.pgid.seed < *pg_num)
}

impl Shard {
    /// Gives the store a change of the OSD's own objects.
    pub fn keep(&mut self, txn: Transaction) -> Result<(), StoreError> {
        self.sh.store.submit(txn, None, OWN_SLOT << 40)
    }
    /// The record of a group can't be read.
    pub fn note_damaged(&mut self, pgid: SpgId) {
        self.damaged_groups.insert(pgid);
    }
    /// Why an OSD ends that can't say what it has of a group.
    pub fn why_it_ends(&self, pgid: SpgId) -> String {
        self.sh.why_it_ends(pgid, "can't be loaded")
    }
    /// Groups are raised by this map, the oldest that one of them names.
    pub fn start_at(&mut self, map: Rc<OsdMap>, cluster_fsid: Uuid) {
        self.sh.map = map;
        self.sh.cluster_fsid = cluster_fsid;
    }
    /// Groups that were raised are shown the next map.
    pub fn raise_to(&mut self, new: Rc<OsdMap>, cx: &mut EventCx<'_>) {
        let old = std::mem::replace(&mut self.sh.map, new.clone());
        self.advance_groups(&old, &new, cx);
    }
    /// All groups have the newest map.
    pub fn raised(&mut self, cx: &mut EventCx<'_>) {
        for pg in self.pgs.iter_mut().flatten() {
            pg.resume_lease(&cx.with(&mut self.sh));
        }
        self.sh.osd_features = self.sh.map.up_osd_features() & types::features::SUPPORTED;
    }

    /// These groups' records name maps that are not here: nothing is known of them until those come.
    pub fn raise_later(&mut self, groups: Vec<Loaded>) {
        self.unraised.extend(groups);
    }
    /// True if this group's record can't be read, or waits for the map that it names: what it has is not known.
    pub(super) fn is_unknown(&self, pgid: SpgId) -> bool {
        self.damaged_groups.contains(&pgid) || self.unraised.iter().any(|l| l.pgid == pgid)
    }
    /// A map has come: groups are made that waited for it.
    pub(super) fn raise_waiting(&mut self, cx: &mut EventCx<'_>) {
        let epoch = self.sh.map.epoch;
        if self.unraised.iter().all(|l| l.epoch > epoch) {
            return;
        }
        let (now, later) = std::mem::take(&mut self.unraised).into_iter().partition(|l| l.epoch <= epoch);
        self.unraised = later;
        let first = self.pgs.len();
        let now: Vec<Loaded> = now;
        for l in now {
            self.raise_group(l, cx);
        }
        for pg in self.pgs[first..].iter_mut().flatten() {
            pg.resume_lease(&cx.with(&mut self.sh));
        }
        self.raise_late(cx);
    }
    /// Groups that were raised with another number of groups than the map's are split and merged by it.
    pub fn raise_late(&mut self, cx: &mut EventCx<'_>) {
        if std::mem::take(&mut self.is_late) {
            let new = self.sh.map.clone();
            let old = Rc::new(OsdMap { epoch: new.epoch - 1, ..(*new).clone() });
            self.advance_groups(&old, &new, cx);
        }
    }

    /// Makes a group as it was by the map that is in force.
    pub fn raise_group(&mut self, l: Loaded, cx: &mut EventCx<'_>) {
        let map = self.sh.map.clone();
        let (Some(pool), Some(mapping)) = (map.pool(l.pgid.pgid.pool), self.mapping(&map, l.pgid.pgid)) else {
            // Its pool went, and it wasn't quite gone yet.
            self.remove_rest(l.pgid);
            return;
        };
        let name = map.pool_name(l.pgid.pgid.pool).unwrap_or_default().into();
        let gap = l.epoch < mapping.epoch;
        let (mut pool, mut mapping) = (pool.clone(), mapping);
        if let Some(pg_num) = pg_num_of(&*self.sh.store, l.pgid).filter(|_| gap) {
            let of = |pg_num| if l.pgid.pgid.seed < pg_num { Some(split_bits(l.pgid.pgid.seed, pg_num)) } else { None };
            if of(pg_num) != of(pool.pg_num) {
                // It was split or merged, or was to be, by a map that is gone. It begins before ours, and takes in the difference with ours.
                (pool.pg_num, mapping.pg_num, mapping.epoch) = (pg_num, pg_num, mapping.epoch - 1);
                self.is_late = true;
            }
        }
        let cx = cx.with(&mut self.sh);
        let place = self.pgs.len() as u32;
        let record = Record::load(l.info, l.log, l.missing.into(), if l.is_stale { 0 } else { l.epoch });
        let mut pg = Pg::new(place, l.pgid, Rc::new(pool), name, record, l.past, mapping.clone(), false, &cx);
        if gap {
            pg.start_after_gap(mapping, &map, &cx);
        }
        self.insert(pg);
    }
}
