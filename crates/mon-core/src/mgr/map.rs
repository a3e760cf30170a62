//! The MgrMap's keeper: we are the active manager, named `x`, unless a stock one asks to be.

use crate::kv::{Batch, Snapshot};
use crate::mon::{LoadError, MonOptions};
use denc::Denc;
use maps::MgrMap;
use types::{UTime, features};

/// The name of the manager endpoint.
pub const NAME: &str = "x";

#[derive(Debug)]
pub struct MgrMapService {
    pub map: MgrMap,
}

impl MgrMapService {
    pub fn load(snapshot: &Snapshot) -> Result<Self, LoadError> {
        let bytes = snapshot.get("mgrmap").ok_or(LoadError::Missing("the MgrMap"))?;
        Ok(Self { map: MgrMap::from_bytes(bytes).map_err(|error| LoadError::Damaged { what: "the MgrMap", error })? })
    }
    /// Makes this process's endpoint the active manager: each start is another one, with a number of its own.
    pub fn activate(&mut self, gid: u64, options: &MonOptions, now: UTime, batch: &mut Batch) {
        let map = &mut self.map;
        map.epoch += 1;
        map.active_gid = gid;
        map.active_name = NAME.into();
        map.active_addrs = options.mgr_addrs.clone();
        map.active_change = now;
        map.active_mgr_features = features::SUPPORTED;
        map.available = true;
        self.store(batch);
    }
    pub fn store(&self, batch: &mut Batch) {
        batch.put("mgrmap", self.map.to_bytes(features::SUPPORTED));
    }
}
