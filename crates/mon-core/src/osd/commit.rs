//! Making an epoch: the pending change completed, applied, encoded, kept, and what follows from it.

use super::OsdService;
use crate::Mon;
use crate::kv::Batch;
use crate::planted::{Bug, planted};
use base::Clock;
use bytes::Bytes;
use denc::Denc;
use maps::{Incremental, OsdMap, PgPool, osd_state, pool_flags};
use messages::log_level;
use types::{Epoch, OsdId, PgId, PoolId, UTime};

/// Epochs that are trimmed in one go.
const TRIM_MAX: Epoch = 2000;

impl Mon {
    /// Turns the pending change into the next epoch. One that can't be is dropped: a command hears of it in its answer, anything else (a message of a
    /// peer) is said in the log.
    pub(crate) fn commit_osdmap(&mut self, clock: Clock) {
        let now = UTime::from_wall_ns(clock.wall_ns);
        if let Err(why) = self.osd.try_pending(now) {
            self.say(clock, log_level::ERROR, format!("a change of the OSDMap was dropped: {why}"));
            return;
        }
        let before = self.osd.map.clone();
        self.osd.commit(&mut self.batch);
        let after = &self.osd.map;

        let mut lines = Vec::new();
        for osd in 0..after.max_osd.max(before.max_osd) {
            let addr = || after.client_addrs.get(osd as usize).map(ToString::to_string).unwrap_or_default();
            match (before.is_up(osd), after.is_up(osd)) {
                (false, true) => lines.push((log_level::INFO, format!("osd.{osd} {} boot", addr()))),
                (true, false) => lines.push((log_level::INFO, format!("osd.{osd} marked down"))),
                _ => {}
            }
        }
        let (up_before, up_after) = (before.num_up(), after.num_up());
        let (in_before, in_after) = (before.num_in(), after.num_in());
        if (up_before, in_before, before.num_osds()) != (up_after, in_after, after.num_osds()) {
            let text = format!("osdmap e{}: {} total, {up_after} up, {in_after} in", after.epoch, after.num_osds());
            lines.push((log_level::DEBUG, text));
        }
        for (level, line) in lines {
            self.say(clock, level, line);
        }
        self.osd.note_states(clock);
        for osd in 0..before.max_osd {
            if before.exists(osd) && !self.osd.map.exists(osd) {
                self.manager.pgs.forget_osd(osd);
                self.osd.set_metadata(osd, None, &mut self.batch);
            }
        }
        let map = &self.osd.map;
        if before.pools.len() != map.pools.len()
            || map.pools.iter().any(|(id, p)| before.pools.get(id).is_none_or(|b| b.pg_num != p.pg_num))
        {
            self.manager.pgs.sync_pools(&self.osd.pg_nums());
        }
        if up_before > up_after {
            let map = &self.osd.map;
            self.manager.pgs.mark_stale(|osd| map.is_up(osd), now);
        }
        self.osd.advance_creating(&before, now, &mut self.batch);
    }
}

/// An epoch that is made and not yet the map.
#[derive(Debug)]
pub(super) struct Tried {
    inc: Incremental,
    next: OsdMap,
    full: Bytes,
    encoded: Bytes,
}

impl OsdService {
    /// Makes the pending change's epoch on a copy. One that can't be an epoch is dropped, and the reason comes back: the map, its history and
    /// OSDs never see it.
    pub fn try_pending(&mut self, now: UTime) -> Result<(), String> {
        let Some(inc) = &self.pending else { return Ok(()) };
        if self.tried.is_some() {
            return Ok(());
        }
        match tried(inc.clone(), &self.map, now) {
            Ok(tried) => self.tried = Some(Box::new(tried)),
            Err(why) => {
                self.pending = None;
                return Err(why);
            }
        }
        Ok(())
    }

    /// Takes over what was tried.
    fn commit(&mut self, batch: &mut Batch) {
        self.pending = None;
        let Some(tried) = self.tried.take() else { return };
        let Tried { inc, next, full, encoded } = *tried;
        let epoch = inc.epoch;
        batch.put(format!("osdmap/full/{epoch:010}"), full.clone());
        batch.put(format!("osdmap/inc/{epoch:010}"), encoded.clone());
        if !inc.new_purged_snaps.is_empty() {
            batch.put(format!("osdmap/purged/{epoch:010}"), inc.new_purged_snaps.to_bytes(0));
            self.purged.insert(epoch, inc.new_purged_snaps.clone());
        }
        self.fulls.insert(epoch, full);
        self.incs.insert(epoch, encoded);
        self.reencoded.retain(|(e, _, _), _| *e + 4 > epoch);
        self.map = next;
    }

    /// Drops epochs that are not needed any more. `needed` is the oldest that a placement group may still ask for; the last `kept` are kept whatever
    /// else, so that OSDs that were away for a moment get them one by one.
    pub(crate) fn trim(&mut self, needed: Epoch, kept: Epoch, batch: &mut Batch) {
        let floor = needed.min(self.map.epoch.saturating_sub(kept)).min(self.first + TRIM_MAX);
        while self.first < floor {
            batch.remove(format!("osdmap/full/{:010}", self.first));
            batch.remove(format!("osdmap/inc/{:010}", self.first));
            self.fulls.remove(&self.first);
            self.incs.remove(&self.first);
            self.first += 1;
        }
    }

    /// Starts and stops the clocks of OSDs that went down or came up.
    fn note_states(&mut self, clock: Clock) {
        for osd in 0..self.map.max_osd {
            if !self.map.exists(osd) {
                self.down_since.remove(&osd);
                self.beacons.remove(&osd);
                self.failures.remove(&osd);
            } else if self.map.is_up(osd) {
                self.down_since.remove(&osd);
                self.beacons.entry(osd).or_insert((clock.mono, 0));
            } else {
                self.down_since.entry(osd).or_insert(clock.mono);
                self.beacons.remove(&osd);
                self.failures.remove(&osd);
            }
        }
    }
}

/// The epoch that a change makes of a map, or why it can't.
fn tried(mut inc: Incremental, map: &OsdMap, now: UTime) -> Result<Tried, String> {
    inc.modified = now;
    inc.epoch = map.epoch.checked_add(1).ok_or("there is no further epoch")?;
    inc.fsid = map.fsid;
    complete(&mut inc, map, now);
    follow_bases(&mut inc, map);
    mark_full_pools(&mut inc, map);

    let mut next = map.clone();
    next.apply(&inc).map_err(|e| format!("the change does not fit the map: {e}"))?;
    let stale = stale_temps(&next);
    if !stale.is_empty() && !planted(Bug::KeepStaleTemp) {
        inc.new_pg_temp.extend(stale.into_iter().map(|pg| (pg, Vec::new())));
        next = map.clone();
        next.apply(&inc).map_err(|e| format!("the change does not fit the map: {e}"))?;
    }
    let features = next.canonical_features();
    // The map is what receivers read, and what we read after a restart: one that came back otherwise than it was sent would have a crc that
    // is never theirs.
    let mut next = OsdMap::from_bytes(&next.encode_with(features).0).map_err(|e| format!("the changed map can't be read back: {e}"))?;
    let (full, crc) = next.encode_with(features);
    next.crc = crc;
    inc.full_crc = crc;
    inc.encode_features = features;
    let (encoded, _) = inc.encode_with(features);
    Incremental::from_bytes(&encoded).map_err(|e| format!("the change can't be read back: {e}"))?;
    Ok(Tried { inc, next, full, encoded })
}

/// Groups whose temporary mapping is what they have without one, has nobody up, or that are there no more.
fn stale_temps(map: &OsdMap) -> Vec<PgId> {
    let mut work = maps::Placement::default();
    let mut is_stale = |pg: PgId, temp: &[OsdId]| {
        let is_there = map.pools.get(&pg.pool).is_some_and(|pool| pg.seed < pool.pg_num);
        let mut same = || !map.primary_temp.contains_key(&pg) && map.pg_to_up_acting(pg, &mut work).up == temp;
        !is_there || !temp.iter().any(|osd| map.is_up(*osd)) || same()
    };
    map.pg_temp.iter().filter(|(pg, temp)| is_stale(**pg, temp)).map(|(pg, _)| *pg).collect()
}

/// Adds what follows from the rest of a change.
fn complete(inc: &mut Incremental, map: &OsdMap, now: UTime) {
    let goes_down = |state: &u32| *state == 0 || state & osd_state::UP != 0;
    if !inc.new_up_client.is_empty() || inc.new_state.values().any(goes_down) {
        inc.new_last_up_change = now;
    }
    let turns = |osd: &i32, weight: &u32| (*weight == 0) != (map.weight(*osd) == 0);
    if inc.new_weight.iter().any(|(osd, weight)| turns(osd, weight)) {
        inc.new_last_in_change = now;
    }
    // Temporary mappings that name an OSD which goes, or a pool that is gone, go too.
    for pool in &inc.old_pools {
        for pg in map.pg_temp.keys().filter(|pg| pg.pool == *pool) {
            inc.new_pg_temp.insert(*pg, Vec::new());
        }
        for pg in map.primary_temp.keys().filter(|pg| pg.pool == *pool) {
            inc.new_primary_temp.insert(*pg, -1);
        }
        inc.old_pg_upmap.extend(map.pg_upmap.keys().filter(|pg| pg.pool == *pool));
        inc.old_pg_upmap_items.extend(map.pg_upmap_items.keys().filter(|pg| pg.pool == *pool));
        inc.old_pg_upmap_primary.extend(map.pg_upmap_primaries.keys().filter(|pg| pg.pool == *pool));
        inc.new_pools.remove(pool);
        inc.new_pool_names.remove(pool);
        if let Some(queue) = map.removed_snaps_queue.get(pool) {
            inc.new_purged_snaps.insert(*pool, queue.clone());
        }
    }
}

/// A tier has its base's snapshots and applications: what changes there changes here. `propagate_base_properties_to_tiers` of 18.2.
fn follow_bases(inc: &mut Incremental, map: &OsdMap) {
    let bases: Vec<PgPool> = inc.new_pools.values().filter(|pool| !pool.tiers.is_empty()).cloned().collect();
    for base in bases {
        for tier in base.tiers.iter().map(|id| *id as PoolId) {
            let Some(there) = inc.new_pools.get(&tier).or(map.pools.get(&tier)) else { continue };
            let mut tier_pool = there.clone();
            (tier_pool.snap_seq, tier_pool.snap_epoch) = (base.snap_seq, base.snap_epoch);
            (tier_pool.snaps, tier_pool.removed_snaps) = (base.snaps.clone(), base.removed_snaps.clone());
            tier_pool.flags |= base.flags & (pool_flags::SELFMANAGED_SNAPS | pool_flags::POOL_SNAPS);
            tier_pool.application_metadata = base.application_metadata.clone();
            inc.new_pools.insert(tier, tier_pool);
        }
    }
}

/// Gives pools the flags that follow from how full their OSDs are: clients stop writing by the pool's flag.
fn mark_full_pools(inc: &mut Incremental, map: &OsdMap) {
    const OSD_BITS: u32 = osd_state::FULL | osd_state::BACKFILLFULL | osd_state::NEARFULL;
    const POOL_BITS: u64 = pool_flags::FULL | pool_flags::BACKFILLFULL | pool_flags::NEARFULL;
    let changes = inc.new_state.values().any(|bits| bits & OSD_BITS != 0)
        || inc.new_pools.values().any(|p| p.has(POOL_BITS | pool_flags::FULL_QUOTA));
    let there = map.osds().any(|o| map.state(o) & OSD_BITS != 0) || map.pools.values().any(|p| p.has(POOL_BITS));
    if !changes && !there {
        return;
    }
    let state = |osd: i32| map.state(osd) ^ inc.new_state.get(&osd).copied().filter(|_| map.exists(osd)).unwrap_or(0);
    let mut wanted = Vec::new();
    for (id, pool) in map.pools.iter().filter(|(id, _)| !inc.old_pools.contains(id)) {
        let pool = inc.new_pools.get(id).unwrap_or(pool);
        let roots = map.crush.rule_takes(u32::from(pool.crush_rule));
        let bits = roots.iter().flat_map(|root| map.crush.devices_below(*root)).fold(0, |all, (osd, _)| all | state(osd));
        // Of several the worst counts; a quota that is used up counts like a full OSD.
        let flag = if bits & osd_state::FULL != 0 || pool.has(pool_flags::FULL_QUOTA) {
            pool_flags::FULL
        } else if bits & osd_state::BACKFILLFULL != 0 {
            pool_flags::BACKFILLFULL
        } else if bits & osd_state::NEARFULL != 0 {
            pool_flags::NEARFULL
        } else {
            0
        };
        if pool.flags & POOL_BITS != flag {
            wanted.push((*id, pool.flags & !POOL_BITS | flag));
        }
    }
    for (id, flags) in wanted {
        inc.pool_mut(id, &map.pools[&id]).flags = flags;
    }
}
