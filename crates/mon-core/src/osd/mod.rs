//! The OSDMap's keeper: the map, its history, the change being made, and what is known of OSDs beside the map.
//!
//! Each event that changes something makes one epoch, at once: there is no quorum to wait for and no interval to fill. Epochs are kept
//! encoded, full and incremental, and trimmed behind what placement groups still need.

mod boot;
mod commit;
mod creating;
mod failure;
mod pg_num;
mod pools;
mod publish;
mod snaps;
mod tick;

pub use creating::{CreatingPg, CreatingPgs};
pub use pools::PoolSpec;

use crate::kv::{Batch, Snapshot};
use crate::mon::LoadError;
use crate::session::ConnId;
use base::{Clock, Stamp};
use bytes::Bytes;
use crush::CrushError;
use denc::Denc;
use maps::{Incremental, OsdMap, PgPool};
use std::collections::{BTreeMap, BTreeSet};
use types::interval_set::IntervalSet;
use types::{Epoch, OsdId, PoolId, UTime};

/// Reports that an OSD does not answer.
#[derive(Debug, Default)]
pub(crate) struct FailureReports {
    /// By reporter.
    reporters: BTreeMap<OsdId, Report>,
}

/// What one OSD says of another that it misses.
#[derive(Debug)]
struct Report {
    since: Stamp,
    /// The connection over which it said so.
    conn: ConnId,
    /// The missed one's port refuses.
    refused: bool,
}

/// Keeper of the OSDMap.
#[derive(Debug)]
pub struct OsdService {
    /// The map as it is: durable, or about to be before any session hears of it.
    pub map: OsdMap,
    /// The change being made.
    pending: Option<Incremental>,
    /// The epoch that it makes, if that was tried since it changed last.
    tried: Option<Box<commit::Tried>>,
    /// Encoded history: epochs from `first` to the map's.
    first: Epoch,
    fulls: BTreeMap<Epoch, Bytes>,
    incs: BTreeMap<Epoch, Bytes>,
    /// Encodings for peers that lack features of the canonical ones: (epoch, features, full).
    reencoded: BTreeMap<(Epoch, u64, bool), Bytes>,
    pub creating: CreatingPgs,
    /// What OSDs said of themselves when they booted.
    pub metadata: BTreeMap<OsdId, BTreeMap<String, String>>,
    /// Snapshots whose removal was finished, by epoch: kept for OSDs that missed it.
    purged: BTreeMap<Epoch, BTreeMap<PoolId, IntervalSet>>,
    /// The same over all time, by pool: a snapshot is removed once.
    all_purged: BTreeMap<PoolId, IntervalSet>,
    pub(crate) failures: BTreeMap<OsdId, FailureReports>,
    /// OSDs that had a session with this process, and it ended: only of these does silence mean anything.
    left: BTreeSet<OsdId>,
    /// How many sessions each OSD has that has any.
    here: BTreeMap<OsdId, usize>,
    /// Since when OSDs are down, to mark them out.
    down_since: BTreeMap<OsdId, Stamp>,
    /// The last sign of life, and the oldest epoch that it still needs.
    beacons: BTreeMap<OsdId, (Stamp, Epoch)>,
}

impl OsdService {
    pub fn load(snapshot: &Snapshot) -> Result<Self, LoadError> {
        let damaged = |what| move |error| LoadError::Damaged { what, error };
        let epochs =
            |prefix| -> BTreeMap<Epoch, Bytes> { snapshot.below(prefix).filter_map(|(k, v)| Some((k.parse().ok()?, v.clone()))).collect() };
        let (fulls, incs) = (epochs("osdmap/full/"), epochs("osdmap/inc/"));
        let (_, newest) = fulls.last_key_value().ok_or(LoadError::Missing("the OSDMap"))?;
        let map = OsdMap::from_bytes(newest).map_err(damaged("the OSDMap"))?;
        let mut metadata = BTreeMap::new();
        for (id, value) in snapshot.below("osd/metadata/") {
            if let Ok(id) = id.parse() {
                metadata.insert(id, Denc::from_bytes(value).map_err(damaged("an OSD's metadata"))?);
            }
        }
        let mut purged = BTreeMap::new();
        for (epoch, value) in snapshot.below("osdmap/purged/") {
            if let Ok(epoch) = epoch.parse() {
                purged.insert(epoch, Denc::from_bytes(value).map_err(damaged("purged snapshots"))?);
            }
        }
        let mut all_purged = BTreeMap::new();
        for (pool, value) in snapshot.below("osd/purged/") {
            if let Ok(pool) = pool.parse() {
                all_purged.insert(pool, Denc::from_bytes(value).map_err(damaged("purged snapshots"))?);
            }
        }
        Ok(Self {
            first: fulls.first_key_value().map_or(1, |(e, _)| *e),
            map,
            pending: None,
            tried: None,
            fulls,
            incs,
            reencoded: BTreeMap::new(),
            creating: CreatingPgs::load(snapshot)?,
            metadata,
            purged,
            all_purged,
            failures: BTreeMap::new(),
            left: BTreeSet::new(),
            here: BTreeMap::new(),
            down_since: BTreeMap::new(),
            beacons: BTreeMap::new(),
        })
    }

    /// Timers begin anew with the process.
    pub fn start(&mut self, clock: Clock) {
        for osd in self.map.osds() {
            if self.map.is_up(osd) {
                self.beacons.insert(osd, (clock.mono, 0));
            } else {
                self.down_since.insert(osd, clock.mono);
            }
        }
    }

    pub fn epoch(&self) -> Epoch {
        self.map.epoch
    }
    /// The oldest epoch that is kept.
    pub fn first_epoch(&self) -> Epoch {
        self.first
    }
    pub fn has_pending(&self) -> bool {
        self.pending.is_some()
    }
    /// The change being made. It becomes an epoch when the event at hand has been handled, whether or not it holds anything: ask for it
    /// only to change something.
    pub fn pending(&mut self) -> &mut Incremental {
        self.tried = None;
        let (fsid, epoch) = (self.map.fsid, self.map.epoch + 1);
        self.pending.get_or_insert_with(|| Incremental::new(fsid, epoch, UTime::ZERO))
    }
    /// Looks at the change being made, if there is one.
    pub fn peek_pending(&self) -> Option<&Incremental> {
        self.pending.as_ref()
    }
    /// A pool as the change being made leaves it, to be changed further.
    pub fn pool_mut(&mut self, id: PoolId) -> Option<&mut PgPool> {
        let base = self.map.pools.get(&id)?.clone();
        Some(self.pending().pool_mut(id, &base))
    }
    /// Changes flags of the map.
    pub fn set_flags(&mut self, set: u32, clear: u32) {
        let now = match self.peek_pending() {
            Some(inc) if inc.new_flags >= 0 => inc.new_flags as u32,
            _ => self.map.flags,
        };
        self.pending().new_flags = ((now | set) & !clear) as i32;
    }
    /// Changes the CRUSH map: a copy, with the changes already made in this event, is handed to `edit`; if it says so, and the result is one
    /// that can be encoded, it is taken over.
    pub fn edit_crush<E: From<CrushError>>(&mut self, edit: impl FnOnce(&mut maps::CrushMap) -> Result<bool, E>) -> Result<bool, E> {
        let mut crush = match self.peek_pending() {
            Some(inc) if !inc.crush.is_empty() => maps::CrushMap::from_bytes(&inc.crush).expect("we encoded it"),
            _ => (*self.map.crush).clone(),
        };
        let changed = edit(&mut crush)?;
        if changed {
            crush.check()?;
            let features = self.map.canonical_features();
            self.pending().crush = crush.to_bytes(features);
        }
        Ok(changed)
    }

    /// Number of groups by pool.
    pub fn pg_nums(&self) -> BTreeMap<PoolId, u32> {
        self.map.pools.iter().map(|(id, pool)| (*id, pool.pg_num)).collect()
    }
    /// An encoded full map of the past, if it is still kept.
    pub fn full(&self, epoch: Epoch) -> Option<&Bytes> {
        self.fulls.get(&epoch)
    }
    /// A map of the past, decoded; the present one for 0.
    pub fn map_at(&self, epoch: Epoch) -> Option<OsdMap> {
        if epoch == 0 || epoch == self.map.epoch {
            return Some(self.map.clone());
        }
        OsdMap::from_bytes(self.full(epoch)?).ok()
    }

    /// Keeps an OSD's metadata, or forgets it.
    pub(crate) fn set_metadata(&mut self, osd: OsdId, metadata: Option<BTreeMap<String, String>>, batch: &mut Batch) {
        let key = format!("osd/metadata/{osd}");
        match metadata {
            Some(metadata) => {
                batch.put(key, metadata.to_bytes(0));
                self.metadata.insert(osd, metadata);
            }
            None => {
                batch.remove(key);
                self.metadata.remove(&osd);
            }
        }
    }
    /// A reporter's connection is gone: so are its reports.
    pub(crate) fn forget_reporter(&mut self, conn: ConnId) {
        for reports in self.failures.values_mut() {
            reports.reporters.retain(|_, report| report.conn != conn);
        }
        self.failures.retain(|_, r| !r.reporters.is_empty());
    }
}
