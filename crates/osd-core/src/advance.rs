//! How maps come in and what they change: each is applied, checked against its sender's crc, and shown to every group, epoch by epoch;
//! groups are created, split, merged and removed by it.

use crate::event::{Effect, Level};
use crate::osd::Osd;
use crate::pg::Pg;
use crate::pg::peering::{Mapping, OsdView, PeerOut, children, parent_seed};
use crate::shared::Cx;
use base::Clock;
use denc::Denc;
use maps::{Incremental, OsdMap};
use messages::{MOSDMap, MOSDPGCreate2};
use std::rc::Rc;
use store::StoreError;
use types::{Bytes, Epoch, OsdId, PastIntervals, PgHistory, PgId, PgInfo, SpgId, features};

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

impl Osd {
    /// Maps wait until nothing is on its way to the store; with a store in memory that is at the end of the turn.
    pub(crate) fn maps_came(&mut self, m: MOSDMap) {
        use crate::perf::C;
        self.sh.perf.inc(C::map_messages);
        self.sh.perf.add(C::map_message_epochs, (m.incrementals.len() + m.maps.len()) as u64);
        if !m.fsid.is_zero() && !self.cluster_fsid.is_zero() && m.fsid != self.cluster_fsid {
            return;
        }
        if m.range().is_some_and(|(_, last)| last <= self.sh.map.epoch) {
            self.sh.perf.add(C::map_message_epoch_dups, 1);
            return;
        }
        self.pending_maps.push_back(m);
    }

    /// Takes in every map that waits.
    pub(crate) fn take_maps(&mut self, clock: Clock, out: &mut Vec<Effect>) {
        let before = self.sh.map.epoch;
        while let Some(m) = self.pending_maps.pop_front() {
            if let Err(why) = self.take_message(&m, clock, out) {
                out.push(Effect::Log { level: Level::Error, text: format!("a map that doesn't fit: {why}; asking for a whole one") });
                out.push(Effect::SubscribeMaps { from: 0 });
            }
        }
        if self.sh.map.epoch == before {
            return;
        }
        self.sh.osd_features = self.sh.map.up_osd_features() & features::SUPPORTED;
        for pg in self.pgs.iter_mut().flatten() {
            pg.refresh_record(&mut Cx { sh: &mut self.sh, clock, out });
        }
        self.check_ourselves(clock, out);
        self.take_pending_creates(clock, out);
        self.activate_all(clock, out);
    }

    fn take_message(&mut self, m: &MOSDMap, clock: Clock, out: &mut Vec<Effect>) -> Result<(), String> {
        let Some((_, last)) = m.range() else { return Ok(()) };
        while self.sh.map.epoch < last {
            let next = self.sh.map.epoch + 1;
            if let (true, Some(bytes)) = (next > 1, m.incrementals.get(&next)) {
                let inc = Incremental::from_bytes(bytes).map_err(|e| format!("incremental {next}: {e}"))?;
                let mut map = (*self.sh.map).clone();
                let full = map.apply_and_encode(&inc).map_err(|e| format!("incremental {next}: {e}"))?;
                self.maps.put_inc(next, bytes.clone());
                self.new_map(map, full, clock, out);
            } else if let Some((epoch, bytes)) = m.maps.range(next..).next() {
                let map = OsdMap::from_bytes(bytes).map_err(|e| format!("map {epoch}: {e}"))?;
                if let Some(inc) = m.incrementals.get(epoch) {
                    self.maps.put_inc(*epoch, inc.clone());
                }
                self.new_map(map, bytes.clone(), clock, out);
            } else if let (0, Some(bytes)) = (self.sh.map.epoch, m.incrementals.get(&1)) {
                // The first change of all makes a map out of nothing.
                let inc = Incremental::from_bytes(bytes).map_err(|e| format!("incremental 1: {e}"))?;
                let mut map = OsdMap::default();
                let full = map.apply_and_encode(&inc).map_err(|e| format!("incremental 1: {e}"))?;
                self.new_map(map, full, clock, out);
            } else {
                // A gap: ask from where we stand.
                out.push(Effect::SubscribeMaps { from: if next == 1 { 0 } else { next } });
                return Ok(());
            }
        }
        Ok(())
    }

    /// One map further.
    fn new_map(&mut self, map: OsdMap, full: Bytes, clock: Clock, out: &mut Vec<Effect>) {
        self.maps.put_full(map.epoch, full);
        if self.cluster_fsid.is_zero() {
            self.cluster_fsid = map.fsid;
            self.superblock.cluster_fsid = map.fsid;
        }
        let old = std::mem::replace(&mut self.sh.map, Rc::new(map));
        let new = self.sh.map.clone();
        match self.save_maps() {
            Ok(()) => {}
            // Kept in memory only: what is missing after a restart is asked for again.
            Err(StoreError::Full) => self.sh.fullness.refused(),
            Err(error) => out.push(Effect::Stop { why: Some(format!("map {}: {error}", new.epoch)) }),
        }
        if old.epoch == 0 {
            let me = self.sh.whoami as usize;
            let was_up = new.osd_info.get(me).is_some_and(|i| i.up_from > 0) && new.osd_uuid.get(me) == Some(&self.superblock.osd_fsid);
            self.store_was_lost = was_up && self.sh.store.kind() == "memstore" && self.sh.store.pgs().is_ok_and(|pgs| pgs.is_empty());
            return;
        }
        self.advance_groups(&old, &new, clock, out);
        self.create_by_map(&old, &new, clock, out);
        if old.blocklist != new.blocklist || old.range_blocklist != new.range_blocklist {
            for pg in self.pgs.iter_mut().flatten().filter(|pg| pg.has_watches()) {
                pg.end_blocklisted_watches(&mut Cx { sh: &mut self.sh, clock, out });
            }
        }
    }

    /// What a map says of one group.
    pub(crate) fn mapping(&mut self, map: &OsdMap, pgid: PgId) -> Option<Mapping> {
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

    pub(crate) fn advance_groups(&mut self, old: &OsdMap, new: &OsdMap, clock: Clock, out: &mut Vec<Effect>) {
        for slot in 0..self.pgs.len() {
            let Some(pg) = &self.pgs[slot] else { continue };
            let pgid = pg.pgid;
            let Some(pool) = new.pool(pgid.pgid.pool) else {
                self.remove(slot, out);
                continue;
            };
            if pgid.pgid.seed >= pool.pg_num {
                self.merge(slot, new, clock, out);
                continue;
            }
            let (old_num, new_num) = (pg.peering.mapping.pg_num, pool.pg_num);
            let (pool, name) = (Rc::new(pool.clone()), new.pool_name(pgid.pgid.pool).unwrap_or_default().into());
            let mapping = self.mapping(new, pgid.pgid).expect("the pool is there");
            let pg = self.pgs[slot].as_mut().expect("looked at above");
            pg.advance(pool, name, mapping, old, &mut Cx { sh: &mut self.sh, clock, out });
            for seed in children(pgid.pgid.seed, old_num, new_num) {
                let child = PgId::new(pgid.pgid.pool, seed);
                let mapping = self.mapping(new, child).expect("the pool is there");
                let place = self.pgs.len() as u32;
                let pg = self.pgs[slot].as_mut().expect("looked at above");
                let child = pg.split_off(place, child, mapping, &mut Cx { sh: &mut self.sh, clock, out });
                self.insert(child);
            }
        }
    }

    /// The group is over: its objects go to the one that it was once split from, if that is here.
    fn merge(&mut self, slot: usize, new: &OsdMap, clock: Clock, out: &mut Vec<Effect>) {
        let pg = self.pgs[slot].as_ref().expect("called for a group that is here");
        let (pgid, pg_num) = (pg.pgid, new.pool(pg.pgid.pgid.pool).map_or(1, |p| p.pg_num));
        let mut seed = pgid.pgid.seed;
        while seed >= pg_num {
            seed = parent_seed(seed);
        }
        let target = SpgId { pgid: PgId::new(pgid.pgid.pool, seed), shard: pgid.shard };
        let Some(target) = self.index.get(&target).copied() else {
            let text = format!("{pgid} can't be merged: {target} is not here; its objects stay until it is");
            out.push(Effect::ClusterLog { level: Level::Error, text });
            return;
        };
        let source = *self.pgs[slot].take().expect("looked at above");
        self.index.remove(&pgid);
        let target = self.pgs[target as usize].as_mut().expect("the index names groups that are here");
        target.merge(source, &mut Cx { sh: &mut self.sh, clock, out });
        self.sh.num_pgs -= 1;
    }

    fn remove(&mut self, slot: usize, out: &mut Vec<Effect>) {
        let Some(pg) = self.pgs[slot].take() else { return };
        self.index.remove(&pg.pgid);
        self.sh.num_pgs -= 1;
        self.remove_rest(pg.pgid);
        self.remove_some(out);
        for session in self.sh.sessions.values_mut() {
            session.backoffs.retain(|b| b.pgid != pg.pgid);
        }
    }

    pub(crate) fn insert(&mut self, pg: Pg) {
        self.index.insert(pg.pgid, pg.slot);
        assert_eq!(pg.slot as usize, self.pgs.len(), "places are given in order");
        self.pgs.push(Some(Box::new(pg)));
        self.sh.num_pgs += 1;
    }

    /// Makes a group that has never had an object.
    pub(crate) fn create(
        &mut self,
        pgid: SpgId,
        history: PgHistory,
        past: PastIntervals,
        fresh: bool,
        clock: Clock,
        out: &mut Vec<Effect>,
    ) -> bool {
        let map = self.sh.map.clone();
        if self.index.contains_key(&pgid) || self.removals.has(pgid) || self.damaged_groups.contains(&pgid) {
            return false;
        }
        let (Some(pool), Some(mapping)) = (map.pool(pgid.pgid.pool), self.mapping(&map, pgid.pgid)) else { return false };
        // What we can't code we don't make.
        if pgid.pgid.seed >= pool.pg_num || pool.is_erasure() {
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
        let mut cx = Cx { sh: &mut self.sh, clock, out };
        let place = self.pgs.len() as u32;
        let mut pg = Pg::new(place, pgid, Rc::new(pool.clone()), name, info, past, mapping, fresh, &cx);
        pg.create_in_store(&mut cx);
        self.insert(pg);
        true
    }

    /// Groups of pools that this very map makes: nothing can have been written to them, so whoever is primary makes them, and need not
    /// wait for the monitor's word.
    fn create_by_map(&mut self, old: &OsdMap, new: &OsdMap, clock: Clock, out: &mut Vec<Effect>) {
        if new.epoch != old.epoch + 1 {
            return;
        }
        for (id, pool) in new.pools.iter().filter(|(id, p)| !old.pools.contains_key(id) && p.is_replicated()) {
            for seed in 0..pool.pg_num {
                let pgid = PgId::new(*id, seed);
                if new.pg_to_up_acting(pgid, &mut self.placement).acting_primary == self.sh.whoami {
                    let stamp = types::UTime::from_wall_ns(clock.wall_ns);
                    self.create(SpgId::whole(pgid), PgHistory::created(new.epoch, stamp), PastIntervals::default(), true, clock, out);
                }
            }
        }
    }

    /// The monitor wants groups made.
    pub(crate) fn creates_came(&mut self, m: MOSDPGCreate2, clock: Clock, out: &mut Vec<Effect>) {
        self.pending_creates.push(m);
        self.take_pending_creates(clock, out);
        self.activate_all(clock, out);
        self.replay_waiting(clock, out);
    }

    pub(crate) fn take_pending_creates(&mut self, clock: Clock, out: &mut Vec<Effect>) {
        for m in std::mem::take(&mut self.pending_creates) {
            if m.epoch > self.sh.map.epoch {
                self.want_maps(out);
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
                self.create(*pgid, history, past, true, clock, out);
            }
        }
    }

    /// Every group peers as far as it goes.
    pub(crate) fn activate_all(&mut self, clock: Clock, out: &mut Vec<Effect>) {
        let (mut up_thru, mut pg_temp) = (0, std::collections::BTreeMap::new());
        for slot in 0..self.pgs.len() {
            self.activate_one(slot, &mut up_thru, &mut pg_temp, clock, out);
        }
        self.tell_mon(up_thru, pg_temp, out);
    }

    pub(crate) fn activate_one(
        &mut self,
        slot: usize,
        up_thru: &mut Epoch,
        pg_temp: &mut std::collections::BTreeMap<PgId, Vec<OsdId>>,
        clock: Clock,
        out: &mut Vec<Effect>,
    ) {
        if !self.boot.is_active() {
            return;
        }
        let Some(pg) = &mut self.pgs[slot] else { return };
        let outs = pg.activate_map(&mut Cx { sh: &mut self.sh, clock, out });
        for one in outs {
            match one {
                PeerOut::UpThru(want) => *up_thru = (*up_thru).max(want),
                PeerOut::PgTemp(want) => drop(pg_temp.insert(pg.pgid.pgid, want)),
                PeerOut::Query(osd) => out.extend(crate::peers::query(pg, osd, &self.sh)),
                PeerOut::Notify(osd) => out.extend(crate::peers::notify(pg, osd, 0, &self.sh)),
                PeerOut::Activate => {}
            }
        }
    }

    /// What groups want of the monitor, once more.
    pub(crate) fn ask_again(&mut self, out: &mut Vec<Effect>) {
        let (mut up_thru, mut pg_temp) = (0, std::collections::BTreeMap::new());
        for pg in self.pgs() {
            match pg.peering.asks() {
                Some(PeerOut::UpThru(want)) => up_thru = up_thru.max(want),
                Some(PeerOut::PgTemp(want)) => drop(pg_temp.insert(pg.pgid.pgid, want)),
                _ => {}
            }
        }
        self.tell_mon(up_thru, pg_temp, out);
    }

    pub(crate) fn tell_mon(&mut self, up_thru: Epoch, pg_temp: std::collections::BTreeMap<PgId, Vec<OsdId>>, out: &mut Vec<Effect>) {
        use messages::{MOSDAlive, MOSDPGTemp, Message, Paxos};
        let paxos = Paxos::at(self.sh.map.epoch.into());
        if up_thru > 0 {
            let msg = MOSDAlive { paxos, want: up_thru };
            out.push(Effect::SendMon(msg.encode(features::SUPPORTED)));
        }
        if !pg_temp.is_empty() {
            let msg = MOSDPGTemp { paxos, map_epoch: self.sh.map.epoch, pg_temp, forced: false };
            out.push(Effect::SendMon(msg.encode(features::SUPPORTED)));
        }
    }
}
