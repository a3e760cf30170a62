//! The MonMap's keeper: one monitor, whose address may change between starts.

use crate::kv::{Batch, Snapshot};
use crate::mon::LoadError;
use bytes::Bytes;
use denc::Denc;
use maps::MonMap;
use types::{EntityAddrVec, UTime};

/// The name of the only monitor.
pub const NAME: &str = "a";

#[derive(Debug)]
pub struct MonMapService {
    pub map: MonMap,
}

impl MonMapService {
    pub fn load(snapshot: &Snapshot) -> Result<Self, LoadError> {
        let bytes = snapshot.get("monmap").ok_or(LoadError::Missing("the MonMap"))?;
        Ok(Self { map: MonMap::from_bytes(bytes).map_err(|error| LoadError::Damaged { what: "the MonMap", error })? })
    }
    /// Where the monitor listens now: a new epoch if that is elsewhere than before.
    pub fn set_addrs(&mut self, addrs: &EntityAddrVec, now: UTime, batch: &mut Batch) {
        let Some(mon) = self.map.mons.get_mut(NAME) else { return };
        if mon.public_addrs != *addrs {
            mon.public_addrs = addrs.clone();
            self.map.epoch += 1;
            self.map.last_changed = now;
            batch.put("monmap", self.map.to_bytes(types::features::SUPPORTED));
        }
    }
    pub fn encoded(&self, features: u64) -> Bytes {
        self.map.to_bytes(features)
    }
}
