//! After a start: what the store remembers of its OSD is read, superblock, maps, groups' records, and told to Control.
//!
//! A store that must fetch what is read ([`StoreError::Wait`]) is asked again when it has it, and nothing is read twice. An empty store
//! gets its superblock. A group whose record is damaged is left out; a map that can't be read is fetched anew. Absent: what becomes of all that, see
//! [`crate::load`] and [`super::raise`].

use crate::found::Found;
use crate::op::ANY_TICKET;
use crate::persist::{OWN_SLOT, back_to, check_ours, confirmed, make_meta, map_object, map_of, stayed, superblock};
use crate::pg::record::log::Log;
use crate::planted::{Bug, planted};
use crate::timed_store::TimedStore;
use crate::way_back::WayBack;
use crate::work::{For, Status, Work};
use denc::Denc;
use std::collections::{BTreeMap, VecDeque};
use store::{PgRecord, StoreError};
use types::{Bytes, CollId, Epoch, GHObject, HObject, OsdSuperblock, PastIntervals, PgInfo, PgMissingItem, SpgId, Transaction};

/// Objects of `meta` in one page of its listing.
const PAGE: usize = 1024;

/// One group's memory.
pub(super) struct Loaded {
    pub pgid: SpgId,
    pub epoch: Epoch,
    pub info: PgInfo,
    pub past: PastIntervals,
    pub log: Log,
    pub missing: BTreeMap<HObject, PgMissingItem>,
    /// The record names another map than the one that the group begins with: it is written anew.
    pub is_stale: bool,
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
        let PgRecord { epoch, info, past_intervals: past, log, dups, missing, rolled_forward_to } = record;
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
        let log = Log::load(info.last_update, info.log_tail, dups, log).with_forward(rolled_forward_to);
        Ok(Self { pgid, epoch, info, past, log, missing, is_stale: false })
    }
}

/// How far reading has come.
#[derive(Default)]
pub(super) struct Loading {
    /// The OSD that the store is to be of, once that was told.
    ours: Option<OsdSuperblock>,
    has_superblock: bool,
    maps: Option<VecDeque<(Epoch, bool)>>,
    groups: Option<VecDeque<SpgId>>,
    /// Groups' records, oldest map first when all are read.
    pub loaded: Vec<Loaded>,
    /// Groups whose records are damaged.
    pub damaged_groups: Vec<SpgId>,
    pub found: Found,
}

impl Loading {
    pub fn status(&self) -> Status {
        let left = self.groups.as_ref().map_or("maps".into(), |groups| format!("records of {} groups", groups.len()));
        Status { what: "load", pgid: None, work: Work::Waiting(For::Store(ANY_TICKET)), progress: format!("{left} are left to be read") }
    }
    /// The OSD that the store is to be of.
    pub fn begin(&mut self, ours: OsdSuperblock) {
        self.ours = Some(ours);
    }
    /// Reads as far as the store gives. `None`: it must fetch something first, or nothing is to be read yet.
    pub fn go_on(&mut self, store: &mut TimedStore) -> Option<Result<(), String>> {
        let ours = self.ours.take()?;
        let result = self.step(&ours, store);
        self.ours = Some(ours);
        match result {
            Ok(()) => {
                self.loaded.sort_by_key(|l| l.epoch);
                self.found.oldest = self.loaded.first().map(|l| l.epoch);
                Some(Ok(()))
            }
            Err(Stop::Wait) => None,
            Err(Stop::Failed(why)) => Some(Err(match store.damage() {
                Some(damage) => format!("{why}; {damage}"),
                None => why,
            })),
        }
    }
    fn step(&mut self, ours: &OsdSuperblock, store: &mut TimedStore) -> Result<(), Stop> {
        if !self.has_superblock {
            if store.collection_bits(CollId::Meta)?.is_none() {
                if !store.pgs()?.is_empty() {
                    return Err(Stop::Failed("it has placement groups and no superblock".into()));
                }
                return Ok(keep(store, make_meta(ours))?);
            }
            self.load_superblock(ours, store)?;
            self.has_superblock = true;
        }
        self.load_maps(store)?;
        if self.groups.is_none() {
            self.groups = Some(store.pgs()?.into());
        }
        let groups = self.groups.as_mut().expect("set above");
        while let Some(pgid) = groups.front() {
            match store.load_pg(*pgid) {
                Ok(record) => self.loaded.extend(record.map(|record| Loaded::of(*pgid, record)).transpose().map_err(Stop::Failed)?),
                // The others are served; this one is neither loaded nor made anew until the store is repaired.
                Err(StoreError::Damaged { what, .. }) => {
                    self.damaged_groups.push(*pgid);
                    self.found.damaged.push(format!("group {pgid} can't be loaded: {what}"));
                }
                Err(e) => return Err(e.into()),
            }
            groups.pop_front();
        }
        self.leave_out(store)
    }

    /// The OSD's superblock, and what stands beside it.
    fn load_superblock(&mut self, ours: &OsdSuperblock, store: &TimedStore) -> Result<(), Stop> {
        match own_bytes(store, &superblock()) {
            Ok(bytes) => {
                let found = OsdSuperblock::from_bytes(&bytes).map_err(|e| Stop::Failed(format!("the superblock: {e}")))?;
                self.found.superblock = Some(match planted(Bug::BelieveStore) {
                    true => OsdSuperblock { whoami: ours.whoami, osd_fsid: ours.osd_fsid, ..found },
                    false => check_ours(&found, ours).map(|()| found).map_err(Stop::Failed)?,
                });
            }
            // Who the OSD is stands in its folder, too; what else is in it follows from the maps.
            Err(e @ (StoreError::Damaged { .. } | StoreError::NoObject(_))) => {
                self.found.damaged = vec![format!("the OSD's superblock is made anew: {e}")];
                self.found.has_lost_maps = true;
            }
            Err(e) => return Err(e.into()),
        }
        self.found.confirmed = match own_bytes(store, &confirmed()) {
            Ok(bytes) => bytes.as_ref().try_into().ok().map(Epoch::from_le_bytes),
            Err(StoreError::NoObject(_) | StoreError::Damaged { .. }) => None,
            Err(e) => return Err(e.into()),
        };
        let newest_map = self.found.superblock.as_ref().map_or(ours.newest_map, |superblock| superblock.newest_map);
        self.found.back = read_way_back(store)?.filter(|back| back.to < newest_map);
        Ok(())
    }
    fn load_maps(&mut self, store: &TimedStore) -> Result<(), Stop> {
        if self.maps.is_none() {
            let (mut maps, mut at) = (VecDeque::new(), GHObject::min());
            loop {
                let page = store.list(CollId::Meta, &at, &GHObject::max(), PAGE)?;
                maps.extend(page.objects.iter().filter_map(map_of));
                match page.next {
                    Some(next) => at = next,
                    None => break,
                }
            }
            self.maps = Some(maps);
        }
        let maps = self.maps.as_mut().expect("set above");
        while let Some((epoch, full)) = maps.front() {
            if let Some(back) = self.found.back.as_mut().filter(|back| *epoch > back.to) {
                back.beyond.push((*epoch, *full));
                maps.pop_front();
                continue;
            }
            match own_bytes(store, &map_object(*epoch, *full)) {
                Ok(bytes) => self.found.maps.push((*epoch, *full, bytes)),
                Err(e @ StoreError::Damaged { .. }) => {
                    self.found.damaged.push(format!("map {epoch} can't be read: {e}"));
                    self.found.has_lost_maps = true;
                }
                Err(e) => return Err(e.into()),
            }
            maps.pop_front();
        }
        Ok(())
    }

    /// Maps and records are read: what is beyond the way back's map does not count.
    fn leave_out(&mut self, store: &mut TimedStore) -> Result<(), Stop> {
        let Some(to) = self.found.back.as_ref().map(|back| back.to) else { return Ok(()) };
        if !self.found.maps.iter().any(|(epoch, full, _)| (*epoch, *full) == (to, true)) {
            return Err(Stop::Failed(format!("it is to go back to the map of epoch {to}, and does not have it")));
        }
        let depends = |group: &Loaded| Some((group.pgid, group.newest_of_its_history())).filter(|(_, epoch)| *epoch > to);
        if let Some((pgid, epoch)) = self.loaded.iter().find_map(depends) {
            // The monitor may be one that knows, the next time.
            keep(store, stayed())?;
            return Err(Stop::Failed(format!(
                "the monitor's maps go up to epoch {to}, and group {pgid} has a history of epoch {epoch}: going back would forget it. Put a \
                 monitor's store back that has that epoch; or empty this OSD, if others have its groups"
            )));
        }
        self.loaded.iter_mut().for_each(|group| group.begin_at(to));
        Ok(())
    }
}

enum Stop {
    Wait,
    Failed(String),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Wait(_) => Self::Wait,
            other => Self::Failed(other.to_string()),
        }
    }
}

/// Gives the store a change of the OSD's own objects.
fn keep(store: &mut TimedStore, txn: Transaction) -> Result<(), StoreError> {
    store.submit(txn, None, OWN_SLOT << 40)
}
/// All bytes of one of the OSD's own objects.
fn own_bytes(store: &TimedStore, obj: &GHObject) -> Result<Bytes, StoreError> {
    let size = store.stat(CollId::Meta, obj)?.size;
    Ok(store.read(CollId::Meta, obj, 0, size)?.flat())
}
/// Whether the last run left the mark.
fn read_way_back(store: &TimedStore) -> Result<Option<WayBack>, Stop> {
    match own_bytes(store, &back_to()) {
        Ok(bytes) => Ok(bytes.as_ref().try_into().ok().map(|bytes| WayBack { to: Epoch::from_le_bytes(bytes), ..WayBack::default() })),
        Err(StoreError::NoObject(_)) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{EVersion, PgId};

    /// A group is loaded with the mark of roll-forward that its record has; without one, as copies and stores of before are, with its head.
    #[test]
    fn a_group_has_its_mark_of_roll_forward_again() {
        let pgid = SpgId::whole(PgId::new(1, 0));
        let version = |v| EVersion::new(3, v);
        for (kept, mark) in [(Some(version(1)), version(1)), (None, version(2))] {
            let log = [1, 2].map(|v| types::PgLogEntry { version: version(v), ..types::PgLogEntry::default() });
            let info = PgInfo { last_update: version(2), ..PgInfo::new(pgid) };
            let record = PgRecord { info, log: log.into(), rolled_forward_to: kept, ..PgRecord::default() };
            let loaded = Loaded::of(pgid, record).expect("it is in order");
            assert_eq!((loaded.log.can_rollback_to(), loaded.log.forward()), (mark, kept));
        }
    }
}
