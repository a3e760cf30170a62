//! What maps change: each is shown to every group, epoch by epoch; groups are created, split, merged and removed by it.

use super::Shard;
use super::catch_up::Advance;
use crate::event::{Effect, Level};
use crate::joint::NextMap;
use crate::pg::Pg;
use crate::pg::members::peering::{Mapping, OsdView, PeerOut, children, parent_seed};
use crate::pg::members::stats::count_apart;
use crate::pg::record::Record;
use crate::pg::split::{COUNT_MAX, Reshape, tells_of_merges};
use crate::shared::EventCx;
use maps::OsdMap;
use messages::{MOSDAlive, MOSDPGCreate2, MOSDPGTemp, Message, Paxos};
use std::collections::BTreeMap;
use std::rc::Rc;
use store::StoreError;
use types::{CollId, EVersion, Epoch, HObject, NO_SHARD, OsdId, PastIntervals, PgHistory, PgId, PgInfo, PgLogEntry, SpgId, features};

/// As what a group is made of which another member told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Primary,
    Replica,
}

impl OsdView for OsdMap {
    fn is_up(&self, osd: OsdId) -> bool {
        OsdMap::is_up(self, osd)
    }
    fn exists(&self, osd: OsdId) -> bool {
        OsdMap::exists(self, osd)
    }
    fn up_thru(&self, osd: OsdId) -> Epoch {
        self.osd_info.get(osd as usize).map_or(0, |i| i.up_thru)
    }
    fn up_from(&self, osd: OsdId) -> Epoch {
        self.osd_info.get(osd as usize).map_or(0, |i| i.up_from)
    }
    fn lost_at(&self, osd: OsdId) -> Epoch {
        self.osd_info.get(osd as usize).map_or(0, |i| i.lost_at)
    }
}

/// What groups want of the monitor.
pub(super) fn tell_mon(epoch: Epoch, up_thru: Epoch, pg_temp: BTreeMap<PgId, Vec<OsdId>>, cx: &mut EventCx<'_>) {
    let paxos = Paxos::at(epoch.into());
    if up_thru > 0 {
        let msg = MOSDAlive { paxos, want: up_thru };
        cx.out.push(Effect::SendMon(msg.encode(features::SUPPORTED)));
    }
    if !pg_temp.is_empty() {
        let msg = MOSDPGTemp { paxos, map_epoch: epoch, pg_temp, forced: false };
        cx.out.push(Effect::SendMon(msg.encode(features::SUPPORTED)));
    }
}

impl Shard {
    /// One map further, whatever is in flight.
    pub(super) fn take_map(&mut self, next: NextMap, cx: &mut EventCx<'_>) {
        let NextMap { old, new, cluster_fsid, keep } = next;
        self.sh.map = new.clone();
        self.sh.cluster_fsid = cluster_fsid;
        if let Some(txn) = keep {
            self.keep_own(txn, cx);
        }
        self.raise_waiting(cx);
        if old.epoch == 0 {
            self.sh.wishes.found_no_group = self.sh.store.pgs().is_ok_and(|pgs| pgs.is_empty());
            return;
        }
        self.close_sessions_of_the_dead(&old, &new, cx);
        self.advance_groups(&old, &new, cx);
        self.create_by_map(&old, &new, cx);
        if old.blocklist != new.blocklist || old.range_blocklist != new.range_blocklist {
            for pg in self.pgs.iter_mut().flatten() {
                pg.end_blocklisted_watches(&mut cx.with(&mut self.sh));
            }
        }
        self.copy_map(cx);
    }
    /// Gives the store a change that belongs to the newest map.
    pub(super) fn keep_own(&mut self, txn: types::Transaction, cx: &mut EventCx<'_>) {
        match self.keep(txn) {
            Ok(()) => {}
            // Kept in memory only: what is missing after a restart is asked for again.
            Err(StoreError::Full) => self.sh.wishes.store_refused = true,
            Err(error) => cx.out.push(Effect::Stop { why: Some(format!("map {}: {error}", self.sh.map.epoch)) }),
        }
    }
    /// No other map is next.
    pub(super) fn maps_end(&mut self, cx: &mut EventCx<'_>) {
        let map = self.sh.map.clone();
        self.sh.osd_features = map.up_osd_features() & features::SUPPORTED;
        self.sh.clocks.retain(|osd| map.is_up(osd));
        self.refresh_records(crate::map_cache::FULLS_MAX as Epoch / 2, cx);
        self.end_for_the_others(cx);
    }
    /// Records that name a map more than `lag` epochs old are written anew. One of a group that is behind names the group's own map.
    pub(super) fn refresh_records(&mut self, lag: Epoch, cx: &mut EventCx<'_>) {
        for (slot, pg) in self.pgs.iter_mut().enumerate().filter_map(|(slot, pg)| Some((slot, pg.as_mut()?))) {
            if !self.behind.has(slot) {
                pg.refresh_record(lag, &mut cx.with(&mut self.sh));
            }
        }
    }
    /// After maps.
    pub(super) fn go_on(&mut self, cx: &mut EventCx<'_>) {
        self.take_pending_creates(cx);
        self.activate_all(cx);
        self.replay_waiting(cx);
        // Either group of a merge may lie elsewhere now.
        self.sh.wishes.merge_soon |= self.sh.map.pools.values().any(|pool| pool.pg_num_pending < pool.pg_num);
    }

    /// What a map says of one group.
    pub(super) fn mapping(&mut self, map: &OsdMap, pgid: PgId) -> Option<Mapping> {
        let pool = map.pool(pgid.pool)?;
        let at = map.pg_to_up_acting(pgid, &mut self.placement);
        Some(Mapping {
            epoch: map.epoch,
            up: at.up,
            acting: at.acting,
            up_primary: at.up_primary,
            acting_primary: at.acting_primary,
            size: pool.size.into(),
            min_size: pool.min_size.into(),
            pg_num: pool.pg_num,
            pg_num_pending: pool.pg_num_pending,
        })
    }

    /// Shows a map to every group. Those that can't take it in now are behind.
    pub(super) fn advance_groups(&mut self, old: &Rc<OsdMap>, new: &Rc<OsdMap>, cx: &mut EventCx<'_>) {
        for slot in 0..self.pgs.len() {
            if !self.behind.has(slot) {
                self.advance_group(slot, old, new, cx);
            }
        }
        self.behind.note_maps(old, new);
    }

    /// Shows a map to one group, which has the one before it.
    pub(super) fn advance_group(&mut self, slot: usize, old: &OsdMap, new: &OsdMap, cx: &mut EventCx<'_>) -> Advance {
        let Some(pg) = &mut self.pgs[slot] else { return Advance::Done };
        // Split off, or merged, while this map was shown to others.
        if pg.epoch() >= new.epoch {
            return Advance::Done;
        }
        let pgid = pg.pgid;
        let Some(pool) = new.pool(pgid.pgid.pool) else {
            self.remove(slot, cx);
            return Advance::Done;
        };
        if pgid.pgid.seed >= pool.pg_num {
            return self.await_merge(slot, old, new, cx);
        }
        let (old_num, new_num) = (pg.peering().mapping.pg_num, pool.pg_num);
        let merged = children(pgid.pgid.seed, new_num, old_num);
        let sources: Vec<usize> = merged
            .iter()
            .filter_map(|seed| self.index.get(&SpgId { pgid: PgId::new(pgid.pgid.pool, *seed), shard: pgid.shard }))
            .map(|slot| *slot as usize)
            .collect();
        let seeds = children(pgid.pgid.seed, old_num, new_num);
        // What is left of one that was removed would be the merged group's objects, or those of one that is split off.
        let is_removed = |seed: &u32| self.removals.has(SpgId { pgid: PgId::new(pgid.pgid.pool, *seed), shard: pgid.shard });
        let is_free = !merged.iter().chain(&seeds).any(is_removed);
        let log = if is_free { self.ready_to_change(slot, &sources, !seeds.is_empty(), old, cx) } else { None };
        let Some(log) = log else {
            self.behind.put(slot);
            sources.iter().for_each(|source| self.behind.put(*source));
            return Advance::Waits;
        };
        let (pool, name) = (Rc::new(pool.clone()), new.pool_name(pgid.pgid.pool).unwrap_or_default().into());
        let sums = if seeds.is_empty() { None } else { count_apart(&*self.sh.store, pgid, COUNT_MAX, |hash| pool.fold(hash)) };
        let mapping = self.mapping(new, pgid.pgid).expect("the pool is there");
        let pg = self.pgs[slot].as_mut().expect("looked at above");
        pg.advance(pool, name, mapping, old, &mut cx.with(&mut self.sh));
        let is_short = sources.len() < merged.len() && tells_of_merges(pg.pool());
        if is_short {
            pg.record_mut().lacks_another();
        }
        if seeds.is_empty() && merged.is_empty() {
            return Advance::Done;
        }
        let (mut log, mut reshape) = (log, Reshape::new(CollId::Pg(pgid)));
        if sources.is_empty() && seeds.is_empty() {
            // The groups that it takes in are not here, but their objects may come.
            reshape.spread(pg);
            if !is_short {
                pg.reshaped(reshape, None, &mut cx.with(&mut self.sh));
                return Advance::Done;
            }
        }
        for seed in seeds {
            let child = PgId::new(pgid.pgid.pool, seed);
            let mapping = self.mapping(new, child).expect("the pool is there");
            let place = self.pgs.len();
            let pg = self.pgs[slot].as_mut().expect("looked at above");
            let sum = sums.as_ref().map(|sums| sums.get(&seed).copied().unwrap_or_default());
            let cx = &mut cx.with(&mut self.sh);
            let child = pg.split_off(place as u32, child, mapping, &mut log, sum, &mut reshape, cx);
            self.insert(child);
            // The rest of the maps, if its parent was behind.
            if new.epoch < self.sh.map.epoch {
                self.behind.put(place);
            }
        }
        for source in &sources {
            self.merge(*source, slot, &mut reshape, cx);
        }
        // Requests of before a merge are known as duplicates; entries of two logs don't make one.
        let entries = if merged.is_empty() { log } else { Vec::new() };
        let (pg, cx) = (self.pgs[slot].as_mut().expect("looked at above"), &mut cx.with(&mut self.sh));
        pg.reshaped(reshape, Some(entries), cx);
        if !sources.is_empty() {
            pg.go_on_merged(cx);
        }
        Advance::Done
    }

    /// A group that is over with this map: the group that takes its objects in asks for it. With none here, one is made that knows that it has not all.
    fn await_merge(&mut self, slot: usize, old: &OsdMap, new: &OsdMap, cx: &mut EventCx<'_>) -> Advance {
        let pg = self.pgs[slot].as_mut().expect("called for a group that is here");
        let (pgid, pg_num) = (pg.pgid, new.pool(pg.pgid.pgid.pool).map_or(1, |p| p.pg_num));
        let mut seed = pgid.pgid.seed;
        while seed >= pg_num {
            seed = parent_seed(seed);
        }
        let target = SpgId { pgid: PgId::new(pgid.pgid.pool, seed), shard: pgid.shard };
        if let Some(target) = self.index.get(&target).map(|slot| *slot as usize) {
            return self.merge_late(slot, target, new, cx);
        }
        if new.pool(pgid.pgid.pool).is_some_and(tells_of_merges) {
            return self.make_room_for_merge(slot, target, old, new, cx);
        }
        pg.hold_for_merge(new.epoch, &mut cx.with(&mut self.sh));
        let text = format!("{pgid} can't be merged: {target} is not here; its objects stay until it is");
        cx.out.push(Effect::ClusterLog { level: Level::Error, text });
        Advance::Done
    }

    /// This OSD has a group that is to be merged into one that it does not have: what other members have in both is more. The one that is absent is made as
    /// it would be by `old`, without an object, and takes the other in: it is a member like any other then, to be filled or to be removed.
    fn make_room_for_merge(&mut self, slot: usize, target: SpgId, old: &OsdMap, new: &OsdMap, cx: &mut EventCx<'_>) -> Advance {
        if self.removals.has(target) {
            self.behind.put(slot);
            return Advance::Waits;
        }
        let Some((pool, mapping)) = old.pool(target.pgid.pool).cloned().zip(self.mapping(old, target.pgid)) else { return Advance::Done };
        let name = old.pool_name(target.pgid.pool).unwrap_or_default().into();
        let source = &self.pgs[slot].as_ref().expect("called for a group that is here");
        let (mut info, past) = (PgInfo::new(target), source.peering().past.clone());
        info.history = source.record().info().history;
        info.last_epoch_started = source.record().info().last_epoch_started;
        info.last_interval_started = source.record().info().last_interval_started;
        info.last_backfill = HObject::min();
        let (place, group_cx) = (self.pgs.len(), &mut cx.with(&mut self.sh));
        let mut pg = Pg::new(place as u32, target, Rc::new(pool), name, Record::new(info), past, mapping, false, group_cx);
        pg.create_in_store(group_cx);
        self.insert(pg);
        self.advance_group(place, old, new, cx)
    }

    /// The group that takes this one in is here. With the same number of groups it asks for it when it takes in the map; otherwise this one was
    /// left over by an earlier map, and goes to it now.
    fn merge_late(&mut self, slot: usize, target: usize, new: &OsdMap, cx: &mut EventCx<'_>) -> Advance {
        let group = |slot: usize| self.pgs[slot].as_ref().expect("called for groups that are here");
        if group(slot).peering().mapping.pg_num == group(target).peering().mapping.pg_num {
            return Advance::Waits;
        }
        if group(target).epoch() < new.epoch || ![slot, target].iter().all(|slot| group(*slot).is_quiet()) {
            self.behind.put(slot);
            return Advance::Waits;
        }
        let mut reshape = Reshape::new(CollId::Pg(group(target).pgid));
        self.merge(slot, target, &mut reshape, cx);
        let (pg, cx) = (self.pgs[target].as_mut().expect("called for groups that are here"), &mut cx.with(&mut self.sh));
        pg.reshaped(reshape, Some(Vec::new()), cx);
        pg.go_on_merged(cx);
        Advance::Done
    }

    /// Whether a group can be split, or take in `sources`: each of them has the map `old`, its store has all that it was given, and, for a split,
    /// the log is at hand. The log, if it is; empty if nothing of the kind is to happen.
    fn ready_to_change(
        &mut self,
        slot: usize,
        sources: &[usize],
        splits: bool,
        old: &OsdMap,
        cx: &mut EventCx<'_>,
    ) -> Option<Vec<PgLogEntry>> {
        if sources.is_empty() && !splits {
            return Some(Vec::new());
        }
        let is_ready = |slot: &usize| self.pgs[*slot].as_ref().is_some_and(|pg| pg.is_settled() && pg.epoch() >= old.epoch);
        if !is_ready(&slot) || !sources.iter().all(is_ready) {
            return None;
        }
        if !splits {
            return Some(Vec::new());
        }
        let pg = self.pgs[slot].as_mut().expect("looked at above");
        match self.sh.store.pg_log(pg.pgid, EVersion::ZERO, usize::MAX) {
            Ok(log) => Some(log),
            Err(StoreError::Wait(_)) => None,
            Err(StoreError::Stopped(why)) => {
                cx.out.push(Effect::Stop { why: Some(why) });
                None
            }
            Err(error) => {
                // Objects are whole. Requests stay known as duplicates, and what can't be read is no longer in the log's range.
                self.sh.counters.damaged += 1;
                let text = format!("{} is split without its log, which can't be read: {error}", pg.pgid);
                cx.out.push(Effect::ClusterLog { level: Level::Error, text });
                pg.record_mut().forget_entries();
                Some(Vec::new())
            }
        }
    }

    /// The group is over: its objects go to the one that it was once split from, which has taken in the map already.
    fn merge(&mut self, source: usize, target: usize, reshape: &mut Reshape, cx: &mut EventCx<'_>) {
        let mut source = *self.pgs[source].take().expect("the index names groups that are here");
        source.end_places(&mut self.sh);
        self.index.remove(&source.pgid);
        let target = self.pgs[target].as_mut().expect("the index names groups that are here");
        target.merge(source, reshape, &mut cx.with(&mut self.sh));
        self.sh.bounds.num_pgs -= 1;
    }

    pub(super) fn remove(&mut self, slot: usize, cx: &mut EventCx<'_>) {
        let Some(mut pg) = self.pgs[slot].take() else { return };
        pg.end_places(&mut self.sh);
        self.index.remove(&pg.pgid);
        self.sh.bounds.num_pgs -= 1;
        self.remove_rest(pg.pgid);
        self.remove_some(cx);
        for session in self.sh.sessions.values_mut() {
            session.backoffs.retain(|b| b.pgid != pg.pgid);
        }
    }

    pub(super) fn insert(&mut self, pg: Pg) {
        self.index.insert(pg.pgid, pg.slot);
        assert_eq!(pg.slot as usize, self.pgs.len(), "places are given in order");
        self.pgs.push(Some(Box::new(pg)));
        self.sh.bounds.num_pgs += 1;
    }

    /// Makes a group that has never had an object.
    pub(super) fn create(&mut self, pgid: SpgId, history: PgHistory, past: PastIntervals, fresh: bool, cx: &mut EventCx<'_>) -> bool {
        let map = self.sh.map.clone();
        if self.index.contains_key(&pgid) || self.is_in_the_way(pgid) || self.awaits_map(pgid) || self.is_unknown(pgid) {
            return false;
        }
        let (Some(pool), Some(mapping)) = (map.pool(pgid.pgid.pool), self.mapping(&map, pgid.pgid)) else { return false };
        // Copies have no places.
        if pgid.pgid.seed >= pool.pg_num || (pgid.shard != NO_SHARD && !pool.is_erasure()) {
            return false;
        }
        // A group that can't be coded here is not made: its shards on other OSDs stay as they are.
        if pool.is_erasure() {
            if self.coded_pools.insert(pgid.pgid.pool) {
                let name = map.pool_name(pgid.pgid.pool).unwrap_or_default();
                let text = format!(
                    "pool '{name}' has erasure codes, which this OSD does not serve: its groups stay on other OSDs; give the pool's CRUSH rule a device class \
                     that osd.{} does not have",
                    self.sh.whoami
                );
                cx.out.push(Effect::ClusterLog { level: Level::Warn, text });
            }
            return false;
        }
        let mut info = PgInfo::new(pgid);
        info.history = history;
        for since in [&mut info.history.same_interval_since, &mut info.history.same_up_since, &mut info.history.same_primary_since] {
            if *since == 0 {
                *since = map.epoch;
            }
        }
        let name = map.pool_name(pgid.pgid.pool).unwrap_or_default().into();
        let mut cx = cx.with(&mut self.sh);
        let place = self.pgs.len() as u32;
        let mut pg = Pg::new(place, pgid, Rc::new(pool.clone()), name, Record::new(info), past, mapping, fresh, &cx);
        pg.create_in_store(&mut cx);
        self.insert(pg);
        true
    }

    /// Makes a group of which another member told us by the map of `sent`, if it is ours to have and its interval is still that one. Otherwise it is
    /// told of again.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn create_for_peer(
        &mut self,
        pgid: SpgId,
        sent: Epoch,
        history: PgHistory,
        past: PastIntervals,
        part: Part,
        cx: &mut EventCx<'_>,
    ) {
        let map = self.sh.map.clone();
        let is_primary = self.mapping(&map, pgid.pgid).is_some_and(|at| at.acting_primary == self.sh.whoami);
        if is_primary != (part == Part::Primary) || history.same_interval_since > sent || !self.is_same_interval(pgid, sent) {
            return;
        }
        let since = history.same_interval_since;
        if !self.create(pgid, history, past, false, cx) {
            return;
        }
        if part == Part::Replica {
            let pg = self.pgs.last_mut().and_then(Option::as_mut).expect("made above");
            pg.follow_since(since);
        }
        // Their clients have no reason to send them again, and no map need come.
        for op in self.waiting_pg.remove(&pgid).unwrap_or_default().take_all() {
            self.place(op, cx);
        }
    }

    /// Groups of pools that this very map makes: nothing can have been written to them, so their primary makes them, and need not
    /// wait for the monitor's word.
    fn create_by_map(&mut self, old: &OsdMap, new: &OsdMap, cx: &mut EventCx<'_>) {
        if new.epoch != old.epoch + 1 {
            return;
        }
        for (id, pool) in new.pools.iter().filter(|(id, p)| !old.pools.contains_key(id) && p.is_replicated()) {
            for seed in 0..pool.pg_num {
                let pgid = PgId::new(*id, seed);
                if new.pg_to_up_acting(pgid, &mut self.placement).acting_primary == self.sh.whoami {
                    let stamp = types::UTime::from_wall_ns(cx.clock.wall_ns);
                    self.create(SpgId::whole(pgid), PgHistory::created(new.epoch, stamp), PastIntervals::default(), true, cx);
                }
            }
        }
    }

    /// The monitor wants groups made.
    pub(super) fn creates_came(&mut self, m: MOSDPGCreate2, cx: &mut EventCx<'_>) {
        self.pending_creates.push(m);
        self.take_pending_creates(cx);
        self.activate_all(cx);
        self.replay_waiting(cx);
    }

    pub(super) fn take_pending_creates(&mut self, cx: &mut EventCx<'_>) {
        for m in std::mem::take(&mut self.pending_creates) {
            if m.epoch > self.sh.map.epoch {
                self.sh.wishes.wants_maps = true;
                self.pending_creates.push(m);
                continue;
            }
            for (pgid, (created, stamp)) in &m.pgs {
                let map = self.sh.map.clone();
                if self.mapping(&map, pgid.pgid).is_none_or(|at| at.acting_primary != self.sh.whoami) {
                    continue;
                }
                let (history, past) =
                    m.pg_extra.get(pgid).cloned().unwrap_or_else(|| (PgHistory::created(*created, *stamp), PastIntervals::default()));
                self.create(*pgid, history, past, true, cx);
            }
        }
    }

    /// Every group peers as far as it goes.
    pub(super) fn activate_all(&mut self, cx: &mut EventCx<'_>) {
        let (mut up_thru, mut pg_temp) = (0, BTreeMap::new());
        for slot in 0..self.pgs.len() {
            self.activate_one(slot, &mut up_thru, &mut pg_temp, cx);
        }
        tell_mon(self.sh.map.epoch, up_thru, pg_temp, cx);
    }

    pub(super) fn activate_one(
        &mut self,
        slot: usize,
        up_thru: &mut Epoch,
        pg_temp: &mut BTreeMap<PgId, Vec<OsdId>>,
        cx: &mut EventCx<'_>,
    ) {
        if !self.sh.serves || self.behind.has(slot) {
            return;
        }
        let Some(pg) = &mut self.pgs[slot] else { return };
        let outs = pg.activate_map(&mut cx.with(&mut self.sh));
        for one in outs {
            match one {
                PeerOut::UpThru(want) => *up_thru = (*up_thru).max(want),
                PeerOut::PgTemp(want) => drop(pg_temp.insert(pg.pgid.pgid, want)),
                other => unreachable!("{other:?} is no word for the monitor"),
            }
        }
    }

    /// Groups whose peering waits for the store go on.
    pub(super) fn peer_waiting(&mut self, cx: &mut EventCx<'_>) {
        let (mut up_thru, mut pg_temp) = (0, BTreeMap::new());
        for slot in 0..self.pgs.len() {
            if self.pgs[slot].as_ref().is_some_and(|pg| pg.waits_for_log()) {
                self.activate_one(slot, &mut up_thru, &mut pg_temp, cx);
            }
        }
        tell_mon(self.sh.map.epoch, up_thru, pg_temp, cx);
    }

    /// What groups want of the monitor, once more.
    pub(super) fn ask_again(&mut self, cx: &mut EventCx<'_>) {
        let (mut up_thru, mut pg_temp) = (0, BTreeMap::new());
        for pg in self.pgs() {
            match pg.peering().asks() {
                Some(PeerOut::UpThru(want)) => up_thru = up_thru.max(want),
                Some(PeerOut::PgTemp(want)) => drop(pg_temp.insert(pg.pgid.pgid, want)),
                _ => {}
            }
        }
        tell_mon(self.sh.map.epoch, up_thru, pg_temp, cx);
    }
}
