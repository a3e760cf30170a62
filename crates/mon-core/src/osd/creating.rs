//! Placement groups that were decided on but not yet made: they are named to their primaries until those say that they exist.
//!
//! One that is made is marked in the store, which takes one step however many wait: what waits is written anew once half of it is made, and
//! with a map that changes it. A map takes one step for each that waits, and so does a primary that asks.

use super::OsdService;
use crate::Mon;
use crate::kv::{Batch, Snapshot};
use crate::mon::LoadError;
use crate::session::{ConnId, Sub};
use crate::subs::Served;
use bytes::Bytes;
use denc::{Denc, denc_struct};
use maps::{OsdMap, Placement, UpActing, pool_flags};
use messages::MOSDPGCreate2;
use std::collections::{BTreeMap, BTreeSet};
use types::past_intervals::PgInterval;
use types::{Epoch, OsdId, PastIntervals, PgHistory, PgId, SpgId, UTime};

/// A group to be made, with its history so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CreatingPg {
    pub created: Epoch,
    pub stamp: UTime,
    pub up: Vec<OsdId>,
    pub up_primary: OsdId,
    pub acting: Vec<OsdId>,
    pub acting_primary: OsdId,
    pub history: PgHistory,
    pub past_intervals: PastIntervals,
    /// Since when its present primary is to be told.
    pub told_since: Epoch,
}
denc_struct!(CreatingPg, v 1, compat 1, {
    created, stamp, up, up_primary, acting, acting_primary, history, past_intervals, told_since
});

/// All groups to be made.
#[derive(Debug, Default)]
pub struct CreatingPgs {
    pub pgs: BTreeMap<PgId, CreatingPg>,
    /// Pools whose groups have been queued: they are queued once.
    pools: BTreeSet<i64>,
    /// Groups that are to be made anew with the next epoch.
    forced: Vec<PgId>,
    /// Groups that are made since all were stored: the store has a mark for each.
    marked: Vec<PgId>,
    /// The checksum of what was stored, which its marks name: those of an older one are none.
    stored: u32,
    version: u64,
}

/// In front of the marks of groups that are made.
const MARKS: &str = "osd/created/";

fn mark(pg: PgId) -> String {
    format!("{MARKS}{}/{}", pg.pool, pg.seed)
}

impl CreatingPgs {
    pub(super) fn load(snapshot: &Snapshot) -> Result<Self, LoadError> {
        let damaged = |error| LoadError::Damaged { what: "the groups in creation", error };
        let mut out = Self::default();
        if let Some(bytes) = snapshot.get("osd/creating") {
            (out.pgs, out.pools) = Denc::from_bytes(bytes).map_err(damaged)?;
            out.stored = base::crc32c(0, bytes);
        }
        for (key, of) in snapshot.below(MARKS) {
            let Some((pool, seed)) = key.split_once('/') else { continue };
            let (Ok(pool), Ok(seed)) = (pool.parse(), seed.parse()) else { continue };
            let pg = PgId::new(pool, seed);
            out.marked.push(pg);
            if of[..] == out.stored.to_le_bytes() {
                out.pgs.remove(&pg);
            }
        }
        Ok(out)
    }
    fn store(&mut self, batch: &mut Batch) {
        for pg in self.marked.drain(..) {
            batch.remove(mark(pg));
        }
        let bytes = (self.pgs.clone(), self.pools.clone()).to_bytes(denc::ALL_FEATURES);
        self.stored = base::crc32c(0, &bytes);
        batch.put("osd/creating", bytes);
    }
    /// Counts changes that a session is to be told of.
    pub fn version(&self) -> u64 {
        self.version
    }
    pub fn is_creating(&self, pool: i64) -> bool {
        self.pgs.range(PgId::new(pool, 0)..=PgId::new(pool, u32::MAX)).next().is_some()
    }
}

impl OsdService {
    /// Follows a new map: queues groups of new pools, moves the history of those that wait, forgets those of pools that are gone.
    pub(super) fn advance_creating(&mut self, before: &OsdMap, now: UTime, batch: &mut Batch) {
        let (map, creating) = (&self.map, &mut self.creating);
        let mut changed = false;
        let mut work = Placement::default();
        let count = creating.pgs.len();
        creating.pgs.retain(|pg, _| map.pools.get(&pg.pool).is_some_and(|p| pg.seed < p.pg_num));
        changed |= creating.pgs.len() != count;
        creating.pools.retain(|pool| map.pools.contains_key(pool));

        for (pg, entry) in &mut creating.pgs {
            changed |= entry.follow(*pg, before, map, &mut work);
        }
        for (id, pool) in &map.pools {
            if !pool.has(pool_flags::CREATING) || !creating.pools.insert(*id) {
                continue;
            }
            for seed in 0..pool.pg_num {
                let pg = PgId::new(*id, seed);
                creating.pgs.insert(pg, CreatingPg::new(map.epoch, now, map.pg_to_up_acting(pg, &mut work)));
            }
            changed = true;
        }
        for pg in std::mem::take(&mut creating.forced) {
            if map.pools.get(&pg.pool).is_some_and(|p| pg.seed < p.pg_num) {
                creating.pgs.insert(pg, CreatingPg::new(map.epoch, now, map.pg_to_up_acting(pg, &mut work)));
                changed = true;
            }
        }
        if changed {
            creating.version += 1;
            creating.store(batch);
        }
    }

    /// Makes a group anew, empty: for one whose data are lost with all its members.
    pub fn force_create(&mut self, pg: PgId) {
        self.creating.forced.push(pg);
        if let Some(pool) = self.pool_mut(pg.pool) {
            pool.flags |= pool_flags::CREATING;
        }
    }

    /// A primary says that a group exists.
    pub(crate) fn pg_created(&mut self, pg: PgId, batch: &mut Batch) {
        if self.creating.pgs.remove(&pg).is_none() {
            return;
        }
        let done = !self.creating.is_creating(pg.pool);
        batch.put(mark(pg), Bytes::copy_from_slice(&self.creating.stored.to_le_bytes()));
        self.creating.marked.push(pg);
        if done || self.creating.marked.len() > self.creating.pgs.len() {
            self.creating.store(batch);
        }
        if done && self.map.pools.get(&pg.pool).is_some_and(|p| p.has(pool_flags::CREATING)) {
            self.pool_mut(pg.pool).expect("we looked").flags &= !pool_flags::CREATING;
        }
    }

    /// Groups that `osd` is to make and has not been told of since `next`.
    fn creates_for(&self, osd: OsdId, next: Epoch) -> MOSDPGCreate2 {
        let mut m = MOSDPGCreate2 { epoch: self.map.epoch, ..MOSDPGCreate2::default() };
        for (pg, entry) in self.creating.pgs.iter().filter(|(_, e)| e.acting_primary == osd && e.told_since >= next) {
            let spg = SpgId::whole(*pg);
            m.pgs.insert(spg, (entry.created, entry.stamp));
            m.pg_extra.insert(spg, (entry.history, entry.past_intervals.clone()));
        }
        m
    }
}

impl CreatingPg {
    fn new(epoch: Epoch, stamp: UTime, at: UpActing) -> Self {
        let history = PgHistory {
            epoch_created: epoch,
            epoch_pool_created: epoch,
            same_up_since: epoch,
            same_interval_since: epoch,
            same_primary_since: epoch,
            last_scrub_stamp: stamp,
            last_deep_scrub_stamp: stamp,
            last_clean_scrub_stamp: stamp,
            ..PgHistory::default()
        };
        let UpActing { up, up_primary, acting, acting_primary } = at;
        let past_intervals = PastIntervals::default();
        Self { created: epoch, stamp, up, up_primary, acting, acting_primary, history, past_intervals, told_since: epoch }
    }

    /// Notes a new interval, if `map` begins one: its former members may have made the group and served it without our having heard.
    fn follow(&mut self, pg: PgId, before: &OsdMap, map: &OsdMap, work: &mut Placement) -> bool {
        let at = map.pg_to_up_acting(pg, work);
        let (Some(old), Some(new)) = (before.pools.get(&pg.pool), map.pools.get(&pg.pool)) else { return false };
        let same = (&self.up, self.up_primary, &self.acting, self.acting_primary) == (&at.up, at.up_primary, &at.acting, at.acting_primary)
            && (old.size, old.min_size, old.pg_num, old.pg_num_pending) == (new.size, new.min_size, new.pg_num, new.pg_num_pending)
            && (old.has(pool_flags::HASHPSPOOL), old.last_force_op_resend) == (new.has(pool_flags::HASHPSPOOL), new.last_force_op_resend);
        if same {
            return false;
        }
        let members = self.acting.iter().filter(|osd| before.exists(**osd)).count();
        let thru = before.osd_info.get(self.acting_primary.max(0) as usize).map_or(0, |i| i.up_thru);
        let first = self.history.same_interval_since;
        let maybe_went_rw = self.acting_primary >= 0 && members >= usize::from(old.min_size) && thru >= first;
        let interval = PgInterval {
            first,
            last: map.epoch - 1,
            up: self.up.clone(),
            acting: self.acting.clone(),
            maybe_went_rw,
            primary: self.acting_primary,
            up_primary: self.up_primary,
        };
        self.past_intervals.add(new.is_erasure(), &interval);
        self.history.same_interval_since = map.epoch;
        if self.up != at.up {
            self.history.same_up_since = map.epoch;
        }
        if self.acting_primary != at.acting_primary {
            self.history.same_primary_since = map.epoch;
        }
        if old.pg_num != new.pg_num {
            self.history.last_epoch_split = map.epoch;
        }
        UpActing { up: self.up, up_primary: self.up_primary, acting: self.acting, acting_primary: self.acting_primary } = at;
        self.told_since = map.epoch;
        true
    }
}

impl Mon {
    pub(crate) fn serve_pg_creates(&mut self, conn: ConnId, sub: Sub) -> Served {
        let Some(osd) = self.sessions.get(&conn).and_then(|s| s.osd()) else { return Served::Never };
        let m = self.osd.creates_for(osd, sub.next.min(u32::MAX.into()) as Epoch);
        if m.pgs.is_empty() {
            return Served::Nothing;
        }
        let next = u64::from(m.epoch) + 1;
        self.send(conn, 0, &m);
        Served::Up(next)
    }
}
