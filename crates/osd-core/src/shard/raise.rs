//! How groups become what the store remembers, after a start: each is made by the map that it had taken in, and shown every map since.

use super::Shard;
use super::read_store::Loaded;
use crate::event::Effect;
use crate::joint::ToControl;
use crate::persist::OWN_SLOT;
use crate::pg::Pg;
use crate::pg::range::split_bits;
use crate::pg::record::Record;
use crate::shared::EventCx;
use maps::OsdMap;
use std::rc::Rc;
use store::{ObjectStore, StoreError};
use types::{CollId, OsdSuperblock, SpgId, Transaction, Uuid};

/// A number of groups by which this one has the objects that its collection takes. Nothing if the store can't say.
fn pg_num_of(store: &dyn ObjectStore, pgid: SpgId) -> Option<u32> {
    let bits = store.collection_bits(CollId::Pg(pgid)).ok()??;
    1_u32.checked_shl(bits).filter(|pg_num| pgid.pgid.seed < *pg_num)
}

impl Shard {
    /// The store is read as far as it gives; told until Control has heard that it is read.
    pub(super) fn load(&mut self, ours: Option<Box<OsdSuperblock>>) {
        if let (Some(loading), Some(ours)) = (&mut self.loading, ours) {
            loading.begin(*ours);
        }
        self.load_on();
    }
    /// The store may have fetched what was to be read.
    #[cold]
    pub(super) fn load_on(&mut self) {
        let Some(result) = self.loading.as_mut().and_then(|loading| loading.go_on(&mut self.sh.store)) else { return };
        let loading = self.loading.take().expect("it has read");
        self.damaged_groups.extend(loading.damaged_groups);
        self.raising = loading.loaded.into();
        self.sh.wishes.tell(ToControl::Loaded(Box::new(result.map(|()| loading.found))));
    }
    /// Gives the store a change of the OSD's own objects.
    pub(super) fn keep(&mut self, txn: Transaction) -> Result<(), StoreError> {
        self.sh.store.submit(txn, None, OWN_SLOT << 40)
    }
    /// Groups are raised to this map: those that are behind it are shown it, and those are made whose records name it.
    pub(super) fn raise_to(&mut self, map: Rc<OsdMap>, cluster_fsid: Uuid, cx: &mut EventCx<'_>) {
        let old = std::mem::replace(&mut self.sh.map, map.clone());
        self.sh.cluster_fsid = cluster_fsid;
        if old.epoch > 0 {
            self.advance_groups(&old, &map, cx);
        }
        while self.raising.front().is_some_and(|l| l.epoch <= map.epoch) {
            let one = self.raising.pop_front().expect("looked at above");
            self.raise_group(one, cx);
        }
        self.raise_late(cx);
    }
    /// All groups have the newest map that is here. Records that name others wait: nothing is known of their groups until those come.
    pub(super) fn raised(&mut self, cx: &mut EventCx<'_>) {
        if self.sh.map.epoch > 0 {
            for pg in self.pgs.iter_mut().flatten() {
                pg.resume_lease(&cx.with(&mut self.sh));
            }
            self.sh.osd_features = self.sh.map.up_osd_features() & types::features::SUPPORTED;
            self.end_for_the_others(cx);
        }
        self.unraised.extend(self.raising.drain(..));
    }
    /// Ends the OSD if a group can't be loaded that has other members, which would wait for it. The map says which have.
    pub(super) fn end_for_the_others(&mut self, cx: &mut EventCx<'_>) {
        let has_others = |pg: &&SpgId| self.sh.map.pool(pg.pgid.pool).is_some_and(|pool| pool.size > 1);
        let Some(pgid) = self.damaged_groups.iter().find(has_others) else { return };
        let why = self.sh.why_it_ends(*pgid, "can't be loaded");
        self.sh.wishes.unusable = true;
        cx.out.push(Effect::Stop { why: Some(why) });
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
    fn raise_late(&mut self, cx: &mut EventCx<'_>) {
        if std::mem::take(&mut self.is_late) {
            let new = self.sh.map.clone();
            let old = Rc::new(OsdMap { epoch: new.epoch - 1, ..(*new).clone() });
            self.advance_groups(&old, &new, cx);
        }
    }

    /// Makes a group as it was by the map that is in force.
    fn raise_group(&mut self, l: Loaded, cx: &mut EventCx<'_>) {
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
        let record = Record::load(l.info, l.log, (&l.missing).into(), if l.is_stale { 0 } else { l.epoch });
        let mut pg = Pg::new(place, l.pgid, Rc::new(pool), name, record, l.past, mapping.clone(), false, &cx);
        if gap {
            pg.start_after_gap(mapping, &map, &cx);
        }
        self.insert(pg);
    }
}
