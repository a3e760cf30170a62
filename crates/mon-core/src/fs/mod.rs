//! The FSMap's keeper: file systems, the metadata servers that serve them, and those that stand by.
//!
//! ```text
//!          boot                rank without holder               replayed, rejoined
//!  nobody ──────▶ standby ───────────────────────────▶ replay … ─────────────────────▶ active ──▶ stopping ──▶ gone
//!                    │ ▲                                  │ creating, starting ───────────▶│
//!                    └─┴── follows a rank                 └────────── silent, failed by command, damaged: fenced, gone
//! ```
//!
//! A daemon that held a rank is on the OSDs' blocklist before another gets that rank: the entry is part of the same commit, and the map names
//! the osdmap epoch that a replaying server must have seen. [`FsMap`]'s own steps keep the map whole; this service decides which are taken.

mod beacon;
mod checks;
mod fence;
mod placing;
mod planted;
mod publish;
pub(crate) use publish::visible;
#[cfg(test)]
mod tests;
mod tick;

use crate::kv::{Batch, Snapshot};
use crate::mon::LoadError;
use base::Stamp;
use bytes::Bytes;
use denc::Denc;
use maps::{FsId, FsMap, MdsGid, MdsInfo};
use messages::MdsHealth;
use std::collections::BTreeMap;
use types::{Epoch, UTime, features};

const MAP: &str = "fsmap/";
const TIME: &str = "fsmap-time/";
const METADATA: &str = "mds/metadata/";
const HEALTH: &str = "mds/health/";

fn map_key(epoch: Epoch) -> String {
    format!("{MAP}{epoch:010}")
}
fn time_key(epoch: Epoch) -> String {
    format!("{TIME}{epoch:010}")
}

/// The map, and what is known of metadata servers beside it.
#[derive(Debug)]
pub struct FsService {
    /// As it was committed last.
    pub map: FsMap,
    /// What the event at hand makes of it.
    pending: Option<FsMap>,
    /// Encodings of the epochs that are kept.
    fulls: BTreeMap<Epoch, Bytes>,
    /// When those epochs began. One that a program of before committed has none.
    times: BTreeMap<Epoch, UTime>,
    /// What servers run on.
    pub metadata: BTreeMap<MdsGid, BTreeMap<String, String>>,
    /// What servers find wrong with themselves and their clients.
    pub health: BTreeMap<MdsGid, MdsHealth>,
    /// When each server was last heard of.
    beacons: BTreeMap<MdsGid, Stamp>,
    /// When time was last looked at.
    last_tick: Option<Stamp>,
}

impl FsService {
    pub fn load(snapshot: &Snapshot) -> Result<Self, LoadError> {
        let damaged = |what| move |error| LoadError::Damaged { what, error };
        let fulls: BTreeMap<Epoch, Bytes> =
            snapshot.below(MAP).filter_map(|(epoch, bytes)| Some((epoch.parse().ok()?, bytes.clone()))).collect();
        let mut map = match fulls.last_key_value() {
            Some((_, bytes)) => FsMap::from_bytes(bytes).map_err(damaged("the FSMap"))?,
            None => FsMap::default(),
        };
        map.settle();
        let mut service = Self {
            map,
            pending: None,
            fulls,
            times: snapshot.below(TIME).filter_map(|(epoch, value)| Some((epoch.parse().ok()?, UTime::from_bytes(value).ok()?))).collect(),
            metadata: BTreeMap::new(),
            health: BTreeMap::new(),
            beacons: BTreeMap::new(),
            last_tick: None,
        };
        for (gid, value) in snapshot.below(METADATA) {
            service.metadata.insert(gid.parse().unwrap_or(0), Denc::from_bytes(value).map_err(damaged("a metadata server's metadata"))?);
        }
        for (gid, value) in snapshot.below(HEALTH) {
            service.health.insert(gid.parse().unwrap_or(0), Denc::from_bytes(value).map_err(damaged("a metadata server's health"))?);
        }
        if service.fulls.is_empty() {
            service.fulls.insert(service.map.epoch, service.map.to_bytes(features::SUPPORTED));
        }
        Ok(service)
    }

    /// The map as the event at hand leaves it.
    pub fn view(&self) -> &FsMap {
        self.pending.as_ref().unwrap_or(&self.map)
    }
    /// The next epoch, to be changed.
    pub fn pending(&mut self) -> &mut FsMap {
        self.pending.get_or_insert_with(|| FsMap { epoch: self.map.epoch + 1, ..self.map.clone() })
    }
    /// The oldest epoch that is kept.
    pub fn first_epoch(&self) -> Epoch {
        self.fulls.first_key_value().map_or(self.map.epoch, |(epoch, _)| *epoch)
    }
    /// A map of the past, if it is still kept.
    pub fn map_at(&self, epoch: Epoch) -> Option<FsMap> {
        let mut map = FsMap::from_bytes(self.fulls.get(&epoch)?).ok()?;
        map.settle();
        Some(map)
    }
    /// The epochs that are kept, newest first.
    pub fn kept_epochs(&self) -> impl Iterator<Item = Epoch> {
        self.fulls.keys().rev().copied()
    }
    /// When that epoch was over: the time of the next one, or of the next that has one. `None` for the newest, and where no time is known.
    pub fn ended(&self, epoch: Epoch) -> Option<UTime> {
        self.times.range(epoch + 1..).next().map(|(_, time)| *time)
    }
    /// A file system's number by name, as the event at hand leaves it.
    pub fn fscid(&self, name: &str) -> Option<FsId> {
        self.view().by_name(name).map(|fs| fs.fscid)
    }

    /// Makes the pending change an epoch. All but the newest `kept` epochs are dropped.
    pub(crate) fn commit(&mut self, now: UTime, kept: Epoch, batch: &mut Batch) {
        let Some(mut next) = self.pending.take() else { return };
        next.check();
        for fs in next.filesystems.values_mut().filter(|fs| fs.mds.epoch == next.epoch) {
            fs.mds.modified = now;
        }
        let bytes = next.to_bytes(features::SUPPORTED);
        batch.put(map_key(next.epoch), bytes.clone());
        self.fulls.insert(next.epoch, bytes);
        batch.put(time_key(next.epoch), now.to_bytes(0));
        self.times.insert(next.epoch, now);
        let floor = next.epoch.saturating_sub(kept.max(1));
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.fulls).into_iter().partition(|(epoch, _)| *epoch > floor);
        for epoch in gone.keys() {
            batch.remove(map_key(*epoch));
            if self.times.remove(epoch).is_some() {
                batch.remove(time_key(*epoch));
            }
        }
        self.fulls = kept;
        next.settle();
        self.map = next;
        let map = &self.map;
        self.beacons.retain(|gid, _| map.roles.contains_key(gid));
        drop_unknown(&mut self.metadata, map, METADATA, batch);
        drop_unknown(&mut self.health, map, HEALTH, batch);
    }

    fn set_metadata(&mut self, gid: MdsGid, metadata: BTreeMap<String, String>, batch: &mut Batch) {
        if !metadata.is_empty() {
            batch.put(format!("{METADATA}{gid}"), metadata.to_bytes(0));
            self.metadata.insert(gid, metadata);
        }
    }
    fn set_health(&mut self, gid: MdsGid, health: MdsHealth, batch: &mut Batch) {
        batch.put(format!("{HEALTH}{gid}"), health.to_bytes(0));
        self.health.insert(gid, health);
    }
    /// The epoch that a daemon must have seen to know what it is.
    fn epoch_for(&self, gid: MdsGid) -> Epoch {
        let map = self.view();
        match map.filesystem_of(gid) {
            Some(fs) => fs.mds.epoch,
            None => map.standby_epochs.get(&gid).copied().unwrap_or(map.epoch),
        }
    }
}

/// Drops what is kept of daemons that are in the map no more.
fn drop_unknown<T>(kept: &mut BTreeMap<MdsGid, T>, map: &FsMap, prefix: &str, batch: &mut Batch) {
    kept.retain(|gid, _| {
        let known = map.roles.contains_key(gid);
        if !known {
            batch.remove(format!("{prefix}{gid}"));
        }
        known
    });
}

/// A daemon as the cluster log calls it.
fn named(info: &MdsInfo) -> String {
    format!("daemon mds.{}", info.name)
}
