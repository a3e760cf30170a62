//! After a start: what the store remembers becomes an OSD again.
//!
//! Read in this order: superblock, maps, groups' records; then each group is made by the map that it had taken in, and shown every map since,
//! as if it had lived through them: past intervals, splits and merges follow from that. A store that must fetch what is read ([`StoreError::Wait`])
//! is asked again when it has it, and nothing is read twice. An empty store gets its superblock.
//!
//! A group whose record is damaged is left out, and the others are served; unless it has copies on other OSDs: those serve it once this OSD is down, so
//! the OSD ends. A map that can't be read is fetched anew: the newest one that can be is the OSD's, and a group whose record names a newer one is made
//! when that has come.

use crate::event::{BootInfo, Effect, Level};
use crate::joint::ToShard;
use crate::op::ANY_TICKET;
use crate::osd::Osd;
use crate::persist::{back_to, confirmed, gone_back, make_meta, map_object, map_of, stayed, superblock};
use crate::shard::raise::Loaded;
use crate::shared::EventCx;
use crate::way_back::WayBack;
use crate::work::{For, Status, Work};
use denc::Denc;
use maps::OsdMap;
use std::collections::VecDeque;
use std::rc::Rc;
use store::StoreError;
use types::{Bytes, CollId, Epoch, GHObject, OsdSuperblock, SpgId};

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
    /// The last run said that this one goes back.
    back: Option<WayBack>,
}

impl Loading {
    pub fn has_failed(&self) -> bool {
        self.failed
    }
    pub fn status(&self) -> Status {
        let work = if self.failed { Work::Done } else { Work::Waiting(For::Store(ANY_TICKET)) };
        let left = self.groups.as_ref().map_or("maps".into(), |groups| format!("records of {} groups", groups.len()));
        let progress = if self.failed { "what the store keeps can't be used".into() } else { format!("{left} are left to be read") };
        Status { what: "load", pgid: None, work, progress }
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
                    cx.out.push(Effect::ClusterLog { level: Level::Error, text: format!("{}: {what}", self.control.whoami()) });
                }
                if loading.has_lost_maps {
                    self.control.lost_maps();
                }
                self.raise_groups(std::mem::take(&mut loading.loaded), cx);
                if let Some(back) = &loading.back {
                    self.forget_beyond(back, cx);
                }
                if let Some(info) = loading.boot {
                    self.start_boot(*info, cx);
                }
            }
            Err(Stop::Wait) => self.loading = Some(loading),
            Err(Stop::Failed(mut why)) => {
                if let Some(damage) = self.shard.store().damage() {
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
            if self.shard.store().collection_bits(CollId::Meta)?.is_none() {
                if !self.shard.store().pgs()?.is_empty() {
                    return Err(Stop::Failed("it has placement groups and no superblock".into()));
                }
                return Ok(self.shard.keep(make_meta(self.control.superblock()))?);
            }
            match self.own_bytes(&superblock()) {
                Ok(bytes) => {
                    let found = OsdSuperblock::from_bytes(&bytes).map_err(|e| Stop::Failed(format!("the superblock: {e}")))?;
                    self.control.take_superblock(found).map_err(Stop::Failed)?;
                }
                // Who the OSD is stands in its folder, too; what else is in it follows from the maps.
                Err(e @ (StoreError::Damaged { .. } | StoreError::NoObject(_))) => {
                    l.damaged.push(format!("the OSD's superblock is made anew: {e}"));
                    l.has_lost_maps = true;
                }
                Err(e) => return Err(e.into()),
            }
            match self.own_bytes(&confirmed()) {
                Ok(bytes) => self.control.take_confirmed(bytes.as_ref().try_into().ok().map(Epoch::from_le_bytes)),
                Err(StoreError::NoObject(_) | StoreError::Damaged { .. }) => self.control.take_confirmed(None),
                Err(e) => return Err(e.into()),
            }
            l.back = self.read_way_back()?.filter(|back| back.to < self.control.superblock().newest_map);
            l.superblock = true;
        }
        self.load_maps(l)?;
        if l.groups.is_none() {
            l.groups = Some(self.shard.store().pgs()?.into());
        }
        let groups = l.groups.as_mut().expect("set above");
        while let Some(pgid) = groups.front() {
            match self.shard.store().load_pg(*pgid) {
                Ok(record) => l.loaded.extend(record.map(|record| Loaded::of(*pgid, record)).transpose().map_err(Stop::Failed)?),
                // The others are served; this one is neither loaded nor made anew until the store is repaired.
                Err(StoreError::Damaged { what, .. }) => {
                    self.shard.note_damaged(*pgid);
                    l.damaged.push(format!("group {pgid} can't be loaded: {what}"));
                }
                Err(e) => return Err(e.into()),
            }
            groups.pop_front();
        }
        if let Some(back) = &l.back {
            self.leave_out(back, &mut l.loaded)?;
        }
        Ok(())
    }

    /// All bytes of one of the OSD's own objects.
    fn own_bytes(&self, obj: &GHObject) -> Result<Bytes, StoreError> {
        let size = self.shard.store().stat(CollId::Meta, obj)?.size;
        Ok(self.shard.store().read(CollId::Meta, obj, 0, size)?.flat())
    }
    fn load_maps(&mut self, l: &mut Loading) -> Result<(), Stop> {
        if l.maps.is_none() {
            let (mut maps, mut at) = (VecDeque::new(), GHObject::min());
            loop {
                let page = self.shard.store().list(CollId::Meta, &at, &GHObject::max(), PAGE)?;
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
            if let Some(back) = l.back.as_mut().filter(|back| *epoch > back.to) {
                back.beyond.push((*epoch, *full));
                maps.pop_front();
                continue;
            }
            match self.own_bytes(&map_object(*epoch, *full)) {
                Ok(bytes) => self.control.take_map_bytes(*epoch, *full, bytes),
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

    /// Whether the last run left the mark.
    fn read_way_back(&mut self) -> Result<Option<WayBack>, Stop> {
        match self.own_bytes(&back_to()) {
            Ok(bytes) => Ok(bytes.as_ref().try_into().ok().map(|bytes| WayBack { to: Epoch::from_le_bytes(bytes), ..WayBack::default() })),
            Err(StoreError::NoObject(_)) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
    /// Maps and records are read: what is beyond does not count.
    fn leave_out(&mut self, back: &WayBack, loaded: &mut [Loaded]) -> Result<(), Stop> {
        let to = back.to;
        if self.control.maps().full(to).is_none() {
            return Err(Stop::Failed(format!("it is to go back to the map of epoch {to}, and does not have it")));
        }
        let depends = |group: &Loaded| Some((group.pgid, group.newest_of_its_history())).filter(|(_, epoch)| *epoch > to);
        if let Some((pgid, epoch)) = loaded.iter().find_map(depends) {
            // The monitor may be one that knows, the next time.
            self.shard.keep(stayed())?;
            return Err(Stop::Failed(format!(
                "the monitor's maps go up to epoch {to}, and group {pgid} has a history of epoch {epoch}: going back would forget it. Put a \
                 monitor's store back that has that epoch; or empty this OSD, if others have its groups"
            )));
        }
        loaded.iter_mut().for_each(|group| group.begin_at(to));
        self.control.go_back(to);
        Ok(())
    }
    /// Groups have begun there: the store forgets what was beyond. The mark goes last.
    fn forget_beyond(&mut self, back: &WayBack, cx: &mut EventCx<'_>) {
        self.tell_shard(ToShard::RefreshRecords { lag: 0 }, cx);
        let txn = gone_back(&back.beyond, self.control.superblock());
        self.tell_shard(ToShard::Keep(txn), cx);
    }

    /// Makes the groups, oldest map first.
    fn raise_groups(&mut self, mut loaded: Vec<Loaded>, cx: &mut EventCx<'_>) {
        let newest = self.control.superblock().newest_map;
        loaded.sort_by_key(|l| l.epoch);
        let later = loaded.split_off(loaded.partition_point(|l| l.epoch <= newest));
        if newest == 0 {
            return self.shard.raise_later(later);
        }
        let map_at = |osd: &Self, epoch: Epoch| {
            let bytes = osd.control.maps().full(epoch).cloned().ok_or_else(|| format!("map {epoch} is missing"))?;
            OsdMap::from_bytes(&bytes).map(Rc::new).map_err(|e| format!("map {epoch}: {e}"))
        };
        // A record that names a map of before the oldest one that is kept goes on with that one.
        let known = |osd: &Self, epoch: Epoch| osd.control.maps().next_full(epoch).unwrap_or(newest).min(newest);
        let mut loaded = VecDeque::from(loaded);
        let mut epoch = loaded.front().map_or(newest, |l| known(self, l.epoch));
        let result = (|| {
            self.shard.start_at(map_at(self, epoch)?, self.control.cluster_fsid());
            loop {
                while loaded.front().is_some_and(|l| known(self, l.epoch) <= epoch) {
                    let one = loaded.pop_front().expect("looked at above");
                    self.shard.raise_group(one, cx);
                }
                self.shard.raise_late(cx);
                if epoch == newest {
                    return Ok(());
                }
                epoch = known(self, epoch + 1);
                self.shard.raise_to(map_at(self, epoch)?, cx);
            }
        })();
        if let Err(why) = result {
            let why: String = why;
            self.loading = Some(Loading { failed: true, ..Loading::default() });
            cx.out.push(Effect::Stop { why: Some(format!("what the store keeps of this OSD can't be used: {why}")) });
        }
        self.shard.raised(cx);
        self.control.resume_at(self.shard.map().clone());
        self.end_for_the_others(cx);
        self.shard.raise_later(later);
    }
    /// Ends if what it has of a group can't be said to the group's other members. Which groups have others, a map says.
    pub(crate) fn end_for_the_others(&mut self, cx: &mut EventCx<'_>) {
        let has_others = |pg: &&SpgId| self.shard.map().pool(pg.pgid.pool).is_some_and(|pool| pool.size > 1);
        let Some(pgid) = self.shard.told().damaged_groups().iter().find(has_others) else { return };
        let why = self.shard.why_it_ends(*pgid);
        self.loading = Some(Loading { failed: true, ..Loading::default() });
        cx.out.push(Effect::Stop { why: Some(why) });
    }
}
