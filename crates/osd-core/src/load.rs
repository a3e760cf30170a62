//! After a start: what the store remembers becomes an OSD again.
//!
//! Read in this order: superblock, maps, groups' records; then each group is made by the map that it had taken in, and shown every map since,
//! as if it had lived through them: past intervals, splits and merges follow from that. A store that must fetch what is read ([`StoreError::Wait`])
//! is asked again when it has it, and nothing is read twice. An empty store gets its superblock.
//!
//! A group whose record is damaged is left out, and the others are served; unless it has copies on other OSDs: those serve it once this OSD is down, so
//! the OSD ends. A map that can't be read is fetched anew: the newest one that can be is
//! the OSD's. Without any, damage in what an OSD keeps of itself ends it: it can't know what it has.

use crate::event::{BootInfo, Effect, Level};
use crate::op::ANY_TICKET;
use crate::osd::Osd;
use crate::persist::{map_object, map_of, superblock};
use crate::pg::Pg;
use crate::pg::log::Log;
use crate::shared::EventCx;
use crate::work::{For, Status, Work};
use denc::Denc;
use maps::OsdMap;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use store::{PgRecord, StoreError};
use types::{Bytes, CollId, Epoch, GHObject, HObject, OsdSuperblock, PastIntervals, PgInfo, PgMissingItem, SpgId};

/// Objects of `meta` in one page of its listing.
const PAGE: usize = 1024;

/// How far reading has come.
#[derive(Default)]
pub(crate) struct Loading {
    superblock: bool,
    maps: Option<VecDeque<(Epoch, bool)>>,
    groups: Option<VecDeque<SpgId>>,
    loaded: Vec<Loaded>,
    /// What can't be read, for the cluster log.
    damaged: Vec<String>,
    /// Then the newest map is the newest one that was read.
    has_lost_maps: bool,
    /// The shell was ready before we were.
    pub boot: Option<Box<BootInfo>>,
    failed: bool,
}

impl Loading {
    pub fn status(&self) -> Status {
        let work = if self.failed { Work::Done } else { Work::Waiting(For::Store(ANY_TICKET)) };
        let left = self.groups.as_ref().map_or("maps".into(), |groups| format!("records of {} groups", groups.len()));
        let progress = if self.failed { "what the store keeps can't be used".into() } else { format!("{left} are left to be read") };
        Status { what: "load", pgid: None, work, progress }
    }
}

/// One group's memory.
struct Loaded {
    pgid: SpgId,
    epoch: Epoch,
    info: PgInfo,
    past: PastIntervals,
    log: Log,
    missing: BTreeMap<HObject, PgMissingItem>,
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

impl Loaded {
    fn of(pgid: SpgId, record: PgRecord) -> Result<Self, Stop> {
        let failed = |what: &str| Err(Stop::Failed(format!("{pgid}: {what}")));
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
        Ok(Self { pgid, epoch, info, past, log, missing })
    }
}

impl Osd {
    /// Reads as far as the store gives; called until it is through.
    pub(crate) fn load_some(&mut self, cx: &mut EventCx<'_>) {
        let Some(mut loading) = self.loading.take() else { return };
        if loading.failed {
            self.loading = Some(loading);
            return;
        }
        match self.load_step(&mut loading) {
            Ok(()) => {
                for what in loading.damaged.drain(..) {
                    cx.out.push(Effect::ClusterLog { level: Level::Error, text: format!("{}: {what}", self.sh.whoami) });
                }
                if loading.has_lost_maps {
                    self.superblock.newest_map = self.maps.newest_full();
                }
                self.raise_groups(std::mem::take(&mut loading.loaded), cx);
                if let Some(info) = loading.boot {
                    self.start_boot(*info, cx);
                }
            }
            Err(Stop::Wait) => self.loading = Some(loading),
            Err(Stop::Failed(mut why)) => {
                if let Some(damage) = self.sh.store.damage() {
                    why = format!("{why}; {damage}");
                }
                loading.failed = true;
                self.loading = Some(loading);
                cx.out.push(Effect::Stop { why: Some(format!("what the store keeps of this OSD can't be used: {why}")) });
            }
        }
    }

    fn load_step(&mut self, l: &mut Loading) -> Result<(), Stop> {
        if !l.superblock {
            if self.sh.store.collection_bits(CollId::Meta)?.is_none() {
                if !self.sh.store.pgs()?.is_empty() {
                    return Err(Stop::Failed("it has placement groups and no superblock".into()));
                }
                return Ok(self.make_meta()?);
            }
            match self.own_bytes(&superblock()) {
                Ok(bytes) => {
                    let found = OsdSuperblock::from_bytes(&bytes).map_err(|e| Stop::Failed(format!("the superblock: {e}")))?;
                    self.check_superblock(&found)?;
                    self.superblock = found;
                }
                // Who the OSD is stands in its folder, too; what else is in it follows from the maps.
                Err(e @ (StoreError::Damaged { .. } | StoreError::NoObject(_))) => {
                    l.damaged.push(format!("the OSD's superblock is made anew: {e}"));
                    l.has_lost_maps = true;
                }
                Err(e) => return Err(e.into()),
            }
            l.superblock = true;
        }
        self.load_maps(l)?;
        if l.groups.is_none() {
            l.groups = Some(self.sh.store.pgs()?.into());
        }
        let groups = l.groups.as_mut().expect("set above");
        while let Some(pgid) = groups.front() {
            match self.sh.store.load_pg(*pgid) {
                Ok(record) => l.loaded.extend(record.map(|record| Loaded::of(*pgid, record)).transpose()?),
                // The others are served; this one is neither loaded nor made anew until the store is repaired.
                Err(StoreError::Damaged { what, .. }) => {
                    self.damaged_groups.insert(*pgid);
                    l.damaged.push(format!("group {pgid} can't be loaded: {what}"));
                }
                Err(e) => return Err(e.into()),
            }
            groups.pop_front();
        }
        if l.has_lost_maps && self.maps.newest_full() == 0 && !l.loaded.is_empty() {
            return Err(Stop::Failed(l.damaged.join("; ")));
        }
        Ok(())
    }

    fn check_superblock(&mut self, found: &OsdSuperblock) -> Result<(), Stop> {
        if found.whoami != self.sh.whoami {
            return Err(Stop::Failed(format!("it is the store of osd.{}", found.whoami)));
        }
        if found.osd_fsid != self.superblock.osd_fsid {
            let (found, ours) = (found.osd_fsid, self.superblock.osd_fsid);
            return Err(Stop::Failed(format!("it is the store of OSD {found}, not of {ours}")));
        }
        if self.cluster_fsid.is_zero() {
            self.cluster_fsid = found.cluster_fsid;
        } else if !found.cluster_fsid.is_zero() && found.cluster_fsid != self.cluster_fsid {
            let (found, ours) = (found.cluster_fsid, self.cluster_fsid);
            return Err(Stop::Failed(format!("it belongs to cluster {found}, not to {ours}")));
        }
        Ok(())
    }

    /// All bytes of one of the OSD's own objects.
    fn own_bytes(&self, obj: &GHObject) -> Result<Bytes, StoreError> {
        let size = self.sh.store.stat(CollId::Meta, obj)?.size;
        Ok(self.sh.store.read(CollId::Meta, obj, 0, size)?.flat())
    }
    fn load_maps(&mut self, l: &mut Loading) -> Result<(), Stop> {
        if l.maps.is_none() {
            let (mut maps, mut at) = (VecDeque::new(), GHObject::min());
            loop {
                let page = self.sh.store.list(CollId::Meta, &at, &GHObject::max(), PAGE)?;
                maps.extend(page.objects.iter().filter_map(map_of));
                match page.next {
                    Some(next) => at = next,
                    None => break,
                }
            }
            l.maps = Some(maps);
        }
        let maps = l.maps.as_mut().expect("set above");
        while let Some((epoch, full)) = maps.front() {
            match self.own_bytes(&map_object(*epoch, *full)) {
                Ok(bytes) => self.maps.insert(*epoch, *full, bytes),
                Err(e @ StoreError::Damaged { .. }) => {
                    l.damaged.push(format!("map {epoch} can't be read: {e}"));
                    l.has_lost_maps = true;
                }
                Err(e) => return Err(e.into()),
            }
            maps.pop_front();
        }
        Ok(())
    }

    /// Makes the groups, oldest map first.
    fn raise_groups(&mut self, mut loaded: Vec<Loaded>, cx: &mut EventCx<'_>) {
        let newest = self.superblock.newest_map;
        if newest == 0 {
            assert!(loaded.is_empty(), "a group's record follows the map that it names");
            return;
        }
        let map_at = |osd: &Self, epoch: Epoch| {
            let bytes = osd.maps.full(epoch).ok_or_else(|| format!("map {epoch} is missing"))?;
            OsdMap::from_bytes(bytes).map(Rc::new).map_err(|e| format!("map {epoch}: {e}"))
        };
        // A record that names a map of before the oldest one that is kept goes on with that one.
        let known = |osd: &Self, epoch: Epoch| osd.maps.next_full(epoch).unwrap_or(newest).min(newest);
        loaded.sort_by_key(|l| l.epoch);
        let mut loaded = VecDeque::from(loaded);
        let mut epoch = loaded.front().map_or(newest, |l| known(self, l.epoch));
        let result = (|| {
            self.sh.map = map_at(self, epoch)?;
            loop {
                while loaded.front().is_some_and(|l| known(self, l.epoch) <= epoch) {
                    let one = loaded.pop_front().expect("looked at above");
                    self.raise_group(one, cx);
                }
                if epoch == newest {
                    return Ok(());
                }
                epoch = known(self, epoch + 1);
                let new = map_at(self, epoch)?;
                let old = std::mem::replace(&mut self.sh.map, new.clone());
                self.advance_groups(&old, &new, cx);
            }
        })();
        if let Err(why) = result {
            let why: String = why;
            self.loading = Some(Loading { failed: true, ..Loading::default() });
            cx.out.push(Effect::Stop { why: Some(format!("what the store keeps of this OSD can't be used: {why}")) });
        }
        for pg in self.pgs.iter_mut().flatten() {
            pg.resume_lease(&cx.with(&mut self.sh));
        }
        self.sh.osd_features = self.sh.map.up_osd_features() & types::features::SUPPORTED;
        self.end_for_the_others(cx);
    }
    /// An OSD that is up and can't say what it has of a group keeps that group's other members waiting for ever.
    fn end_for_the_others(&mut self, cx: &mut EventCx<'_>) {
        let has_others = |pg: &&SpgId| self.sh.map.pool(pg.pgid.pool).is_some_and(|pool| pool.size > 1);
        let Some(pgid) = self.damaged_groups.iter().find(has_others) else { return };
        let how = self.sh.store.damage().unwrap_or_else(|| "run `humboldt store --dir DIR repair`".into());
        let why =
            format!("group {pgid} can't be loaded. OSDs with other copies of it serve while this one is down; {how}, and start it again");
        self.loading = Some(Loading { failed: true, ..Loading::default() });
        cx.out.push(Effect::Stop { why: Some(why) });
    }

    fn raise_group(&mut self, l: Loaded, cx: &mut EventCx<'_>) {
        let map = self.sh.map.clone();
        let (Some(pool), Some(mapping)) = (map.pool(l.pgid.pgid.pool), self.mapping(&map, l.pgid.pgid)) else {
            // Its pool went, and it wasn't quite gone yet.
            self.remove_rest(l.pgid);
            return;
        };
        let name = map.pool_name(l.pgid.pgid.pool).unwrap_or_default().into();
        let gap = l.epoch < mapping.epoch;
        let cx = cx.with(&mut self.sh);
        let place = self.pgs.len() as u32;
        let mut pg = Pg::new(place, l.pgid, Rc::new(pool.clone()), name, l.info, l.past, mapping.clone(), false, &cx);
        pg.take_record(l.log, l.missing.into(), l.epoch);
        if gap {
            // What happened in maps that nobody has any more can't be known: another interval begins.
            pg.peering.start_interval(&mut pg.info, mapping, &*map, cx.clock.mono);
        }
        self.insert(pg);
    }
}
