//! After a start: what the store remembers becomes an OSD again.
//!
//! The shard reads (`shard/read_store.rs`), in this order: superblock, maps, groups' records. Control takes the maps that the shard found.
//! Then each group is made by the map that it had taken in, and shown every map since, as if it had lived through them: past intervals,
//! splits and merges follow.
//!
//! A group whose record is damaged is left out, and the others are served; unless it has copies on other OSDs: those serve it once this OSD is down, so
//! the OSD ends. A map that can't be read is fetched anew: the newest one that can be is the OSD's, and a group whose record names a newer one is made
//! when that has come.

use crate::event::{BootInfo, Effect, Level};
use crate::found::Found;
use crate::joint::ToShard;
use crate::osd::Osd;
use crate::persist::gone_back;
use crate::shared::EventCx;
use crate::way_back::WayBack;
use crate::work::{Status, Work};
use denc::Denc;
use maps::OsdMap;
use std::rc::Rc;
use types::Epoch;

/// An OSD whose groups are not there yet, or never will be.
#[derive(Default)]
pub(crate) struct Loading {
    /// The shell was ready before we were.
    pub boot: Option<Box<BootInfo>>,
    /// The shard knows which OSD its store is to be of.
    is_told: bool,
    failed: bool,
}

impl Loading {
    pub fn has_failed(&self) -> bool {
        self.failed
    }
    /// Reading has a row of the shard's.
    pub fn status(&self) -> Option<Status> {
        let progress = "what the store keeps can't be used".into();
        self.failed.then_some(Status { what: "load", pgid: None, work: Work::Done, progress })
    }
}

impl Osd {
    /// The shard reads as far as the store gives; told until it is through.
    pub(crate) fn load_some(&mut self, cx: &mut EventCx<'_>) {
        if !self.is_unusable() {
            let is_first = self.loading.as_mut().is_some_and(|loading| !std::mem::replace(&mut loading.is_told, true));
            let ours = is_first.then(|| Box::new(self.control.superblock().clone()));
            self.tell_shard(ToShard::Load(ours), cx);
        }
    }
    /// The shard has read the store.
    pub(crate) fn loaded(&mut self, result: Result<Found, String>, cx: &mut EventCx<'_>) {
        let found = match result {
            Ok(found) => found,
            Err(why) => return self.end_unusable(Some(why), cx),
        };
        let Some(loading) = self.loading.take() else { return };
        if let Some(superblock) = found.superblock {
            self.control.take_superblock(superblock);
        }
        self.control.take_confirmed(found.confirmed);
        for (epoch, full, bytes) in found.maps {
            self.control.take_map_bytes(epoch, full, bytes);
        }
        if let Some(back) = &found.back {
            self.control.go_back(back.to);
        }
        for what in found.damaged {
            cx.out.push(Effect::ClusterLog { level: Level::Error, text: format!("{}: {what}", self.control.whoami()) });
        }
        if found.has_lost_maps {
            self.control.lost_maps();
        }
        self.raise_groups(found.oldest, cx);
        if let Some(back) = &found.back {
            self.forget_beyond(back, cx);
        }
        if let Some(info) = loading.boot {
            self.start_boot(*info, cx);
        }
    }
    /// The store can't be used: another start finds the same. The reason, if none was given yet.
    pub(crate) fn end_unusable(&mut self, why: Option<String>, cx: &mut EventCx<'_>) {
        self.loading = Some(Loading { failed: true, ..Loading::default() });
        if let Some(why) = why {
            cx.out.push(Effect::Stop { why: Some(format!("what the store keeps of this OSD can't be used: {why}")) });
        }
    }

    /// Groups have begun there: the store forgets what was beyond. The mark goes last.
    fn forget_beyond(&mut self, back: &WayBack, cx: &mut EventCx<'_>) {
        self.tell_shard(ToShard::RefreshRecords { lag: 0 }, cx);
        let txn = gone_back(&back.beyond, self.control.superblock());
        self.tell_shard(ToShard::Keep(txn), cx);
    }
    /// Has the shard make its groups, oldest map first; `oldest`: the oldest map that a record names.
    fn raise_groups(&mut self, oldest: Option<Epoch>, cx: &mut EventCx<'_>) {
        let newest = self.control.superblock().newest_map;
        if newest > 0
            && let Err(why) = self.raise_by_maps(oldest, newest, cx)
        {
            self.end_unusable(Some(why), cx);
        }
        self.tell_shard(ToShard::Raised, cx);
    }
    fn raise_by_maps(&mut self, oldest: Option<Epoch>, newest: Epoch, cx: &mut EventCx<'_>) -> Result<(), String> {
        // A record that names a map of before the oldest one that is kept goes on with that one.
        let known = |osd: &Self, epoch: Epoch| osd.control.maps().next_full(epoch).unwrap_or(newest).min(newest);
        let mut epoch = oldest.filter(|epoch| *epoch <= newest).map_or(newest, |epoch| known(self, epoch));
        loop {
            let bytes = self.control.maps().full(epoch).cloned().ok_or_else(|| format!("map {epoch} is missing"))?;
            let map = OsdMap::from_bytes(&bytes).map(Rc::new).map_err(|e| format!("map {epoch}: {e}"))?;
            self.control.resume_at(map.clone());
            self.tell_shard(ToShard::Raise { map, cluster_fsid: self.control.cluster_fsid() }, cx);
            if epoch == newest {
                return Ok(());
            }
            epoch = known(self, epoch + 1);
        }
    }
}
