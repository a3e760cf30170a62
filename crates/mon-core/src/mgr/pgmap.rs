//! What OSDs reported of their placement groups and of themselves, and sums over it.
//!
//! Holds the last report of each group and OSD, sums by pool that are kept up as reports come, and a short history of them for rates.
//! A stock manager's sums, if it is the active one, go before all that: the caller needn't know which of them counted.
//! Nothing here is persisted: a manager learns it anew.
//!
//! A report takes a few steps for each group and pool that it names, whatever else is known; a change of the pools, one for each group.
//! Sums and rates take one for each pool; counts by state or OSD, one for each group: health asks for them once a second, and commands do.

use crate::planted::{Bug, planted};
use base::Stamp;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::interval_set::IntervalSet;
use types::object_stat::ObjectStatSum;
use types::osd_stat::{OsdStat, StoreStatfs};
use types::pg_stat::{PgStat, PoolStat, pg_state};
use types::{Epoch, OsdId, PgId, PgMapDigest, PoolId, UTime};

/// Rates are taken over about this long.
const RATE_SPAN: Duration = Duration::from_secs(10);
/// Samples further apart than this say nothing about now.
const RATE_SAMPLES_MAX: usize = 16;

/// The sums of one pool, or of all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sums {
    pub stats: ObjectStatSum,
    pub log_size: i64,
    pub ondisk_log_size: i64,
    /// Members of up and acting sets.
    pub up: i32,
    pub acting: i32,
    pub pgs: u32,
}

impl Sums {
    fn add(&mut self, pg: &PgStat) {
        self.stats += &pg.stats.sum;
        self.log_size += pg.log_size;
        self.ondisk_log_size += pg.ondisk_log_size;
        self.up += pg.up.len() as i32;
        self.acting += pg.acting.len() as i32;
        self.pgs += 1;
    }
    fn sub(&mut self, pg: &PgStat) {
        self.stats -= &pg.stats.sum;
        self.log_size -= pg.log_size;
        self.ondisk_log_size -= pg.ondisk_log_size;
        self.up -= pg.up.len() as i32;
        self.acting -= pg.acting.len() as i32;
        self.pgs -= 1;
    }
}

/// What happened per second, lately.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub read_ops: u64,
    pub write_ops: u64,
    pub recovering_objects: u64,
    pub recovering_bytes: u64,
    pub recovering_keys: u64,
}

impl Rates {
    /// Of what changed in a span.
    fn of(delta: &ObjectStatSum, span_s: f64) -> Self {
        if span_s <= 0.0 {
            return Self::default();
        }
        let rate = |change: i64, scale: f64| (change.max(0) as f64 * scale / span_s) as u64;
        Self {
            read_bytes: rate(delta.num_rd_kb, 1024.0),
            write_bytes: rate(delta.num_wr_kb, 1024.0),
            read_ops: rate(delta.num_rd, 1.0),
            write_ops: rate(delta.num_wr, 1.0),
            recovering_objects: rate(delta.num_objects_recovered, 1.0),
            recovering_bytes: rate(delta.num_bytes_recovered, 1.0),
            recovering_keys: rate(delta.num_keys_recovered, 1.0),
        }
    }
}

/// All reports.
#[derive(Debug, Default)]
pub struct PgMap {
    /// Counts changes.
    pub version: u64,
    pub stamp: UTime,
    pub pgs: BTreeMap<PgId, PgStat>,
    pub osds: BTreeMap<OsdId, OsdStat>,
    /// What of each store belongs to which pool.
    pub pool_statfs: BTreeMap<(PoolId, OsdId), StoreStatfs>,
    /// The pools in there, by OSD.
    pools_of: BTreeMap<OsdId, Vec<PoolId>>,
    pub pools: BTreeMap<PoolId, Sums>,
    /// What a stock manager counted.
    pub digest: Option<Box<PgMapDigest>>,
    /// What groups did since this manager began, by pool.
    done: BTreeMap<PoolId, ObjectStatSum>,
    history: VecDeque<Sample>,
}

/// What was known at one time.
#[derive(Debug)]
struct Sample {
    at: Stamp,
    sums: BTreeMap<PoolId, ObjectStatSum>,
    done: BTreeMap<PoolId, ObjectStatSum>,
}

/// What a group did between two reports. Its counters are its whole life's, and another primary, another interval or a start begins from
/// what it knows of them, which may be less than others knew: none of that was done just now.
fn done_between(old: &PgStat, new: &PgStat) -> Option<ObjectStatSum> {
    let serves = |s: &PgStat| s.state & pg_state::ACTIVE != 0 && s.state & pg_state::STALE == 0;
    let goes_on = (old.acting_primary, old.mapping_epoch) == (new.acting_primary, new.mapping_epoch);
    if !serves(old) || !serves(new) || !goes_on {
        return None;
    }
    let mut done = new.stats.sum;
    done -= &old.stats.sum;
    let is_back = [done.num_rd, done.num_wr, done.num_rd_kb, done.num_wr_kb].iter().any(|n| *n < 0);
    (!is_back).then_some(done)
}

impl PgMap {
    /// Takes one group's report; older ones than the last are dropped. True if it may be the last that the purge of a snapshot waits for.
    pub fn report_pg(&mut self, pgid: PgId, stat: PgStat) -> bool {
        let sums = self.pools.entry(pgid.pool).or_default();
        let mut may_purge = true;
        if let Some(old) = self.pgs.get(&pgid) {
            if (old.reported_epoch, old.reported_seq) > (stat.reported_epoch, stat.reported_seq) {
                return false;
            }
            may_purge = old.state == 0 || old.reported_epoch != stat.reported_epoch || old.purged_snaps != stat.purged_snaps;
            sums.sub(old);
            if let Some(done) = done_between(old, &stat) {
                *self.done.entry(pgid.pool).or_default() += &done;
            }
        }
        sums.add(&stat);
        self.pgs.insert(pgid, stat);
        self.version += 1;
        may_purge
    }
    pub fn report_osd(&mut self, osd: OsdId, stat: OsdStat, pools: impl Iterator<Item = (PoolId, StoreStatfs)>) {
        self.forget_osd(osd);
        self.osds.insert(osd, stat);
        let of = self.pools_of.entry(osd).or_default();
        for (pool, fs) in pools {
            of.push(pool);
            self.pool_statfs.insert((pool, osd), fs);
        }
        self.version += 1;
    }
    /// Forgets an OSD that is gone; how many rows of pools that were.
    pub fn forget_osd(&mut self, osd: OsdId) -> usize {
        self.osds.remove(&osd);
        let pools = self.pools_of.remove(&osd).unwrap_or_default();
        for pool in &pools {
            self.pool_statfs.remove(&(*pool, osd));
        }
        pools.len()
    }
    /// Brings the table in line with the map's pools: groups of pools that are gone go, those of new pools appear as unknown.
    pub fn sync_pools(&mut self, pools: &BTreeMap<PoolId, u32>) {
        let gone: Vec<_> = self.pgs.keys().filter(|pg| pools.get(&pg.pool).is_none_or(|n| pg.seed >= *n)).copied().collect();
        for pg in gone {
            if let Some(stat) = self.pgs.remove(&pg)
                && let Some(sums) = self.pools.get_mut(&pg.pool)
            {
                sums.sub(&stat);
            }
        }
        self.pools.retain(|id, _| pools.contains_key(id));
        self.done.retain(|id, _| pools.contains_key(id));
        self.pool_statfs.retain(|(id, _), _| pools.contains_key(id));
        for (pool, pg_num) in pools {
            for seed in 0..*pg_num {
                let pgid = PgId::new(*pool, seed);
                if !self.pgs.contains_key(&pgid) {
                    let stat = PgStat::default();
                    self.pools.entry(*pool).or_default().add(&stat);
                    self.pgs.insert(pgid, stat);
                }
            }
        }
        self.version += 1;
    }
    /// Marks groups whose primary is down: no OSD reports them any more.
    pub fn mark_stale(&mut self, is_up: impl Fn(OsdId) -> bool, now: UTime) {
        for stat in self.pgs.values_mut() {
            if stat.state != 0 && stat.state & pg_state::STALE == 0 && stat.acting_primary >= 0 && !is_up(stat.acting_primary) {
                stat.state |= pg_state::STALE;
                stat.last_unstale = now;
                self.version += 1;
            }
        }
    }

    /// Remembers the sums, for rates. To be called every second or so while reports come.
    pub fn sample(&mut self, now: Stamp, wall: UTime) {
        self.stamp = wall;
        let sums = self.pools.iter().map(|(id, s)| (*id, s.stats)).collect();
        self.history.push_back(Sample { at: now, sums, done: self.done.clone() });
        while self.history.len() > RATE_SAMPLES_MAX || self.history.get(1).is_some_and(|s| now.since(s.at) > RATE_SPAN) {
            self.history.pop_front();
        }
    }
    /// What changed over the samples that are kept, over all pools, and how long that took.
    pub fn delta(&self) -> (ObjectStatSum, Duration) {
        let mut delta = ObjectStatSum::default();
        let (Some(old), Some(new)) = (self.history.front(), self.history.back()) else { return (delta, Duration::ZERO) };
        new.sums.values().for_each(|s| delta += s);
        old.sums.values().for_each(|s| delta -= s);
        (delta, new.at.since(old.at))
    }
    /// Rates of one pool, or of all.
    pub fn rates(&self, pool: Option<PoolId>) -> Rates {
        if let Some(d) = &self.digest {
            let (delta, span) = match pool {
                Some(id) => d.per_pool_sum_delta.get(&id).copied().unwrap_or_default(),
                None => (d.pg_sum_delta, d.stamp_delta),
            };
            return Rates::of(&delta.stats.sum, span.as_secs_f64());
        }
        let (Some(old), Some(new)) = (self.history.front(), self.history.back()) else { return Rates::default() };
        let mut delta = ObjectStatSum::default();
        // A pool that is gone takes what it did with it.
        let wanted = |id: &PoolId| pool.is_none_or(|p| p == *id) && new.done.contains_key(id);
        new.done.iter().filter(|(id, _)| wanted(id)).for_each(|(_, s)| delta += s);
        old.done.iter().filter(|(id, _)| wanted(id)).for_each(|(_, s)| delta -= s);
        Rates::of(&delta, new.at.since(old.at).as_secs_f64())
    }
    /// Objects that recovery made whole since this manager began.
    pub fn recovered(&self) -> i64 {
        self.done.values().map(|done| done.num_objects_recovered).sum()
    }

    /// The sums over all pools.
    pub fn total(&self) -> Sums {
        let mut total = Sums::default();
        if let Some(d) = &self.digest {
            let s = &d.pg_sum;
            return Sums {
                stats: s.stats.sum,
                log_size: s.log_size,
                ondisk_log_size: s.ondisk_log_size,
                up: s.up,
                acting: s.acting,
                pgs: d.num_pg.max(0) as u32,
            };
        }
        for s in self.pools.values() {
            total.stats += &s.stats;
            total.log_size += s.log_size;
            total.ondisk_log_size += s.ondisk_log_size;
            total.up += s.up;
            total.acting += s.acting;
            total.pgs += s.pgs;
        }
        total
    }
    /// What a pool's objects add up to.
    pub fn pool_sum(&self, pool: PoolId) -> ObjectStatSum {
        match &self.digest {
            Some(_) => self.pool_stat(pool).stats.sum,
            None => self.pools.get(&pool).map(|s| s.stats).unwrap_or_default(),
        }
    }
    /// False while some of a pool's groups are unheard of: its sums say too little.
    pub fn is_counted(&self, pool: PoolId) -> bool {
        match &self.digest {
            Some(d) => i32::try_from(pool).is_ok_and(|id| d.pg_pool_sum.contains_key(&id)),
            None => self.pgs.range(PgId::new(pool, 0)..=PgId::new(pool, u32::MAX)).all(|(_, s)| s.state != 0),
        }
    }
    /// A pool's sums in the form that messages carry.
    pub fn pool_stat(&self, pool: PoolId) -> PoolStat {
        if let Some(d) = &self.digest {
            return i32::try_from(pool).ok().and_then(|id| d.pg_pool_sum.get(&id)).copied().unwrap_or_default();
        }
        let s = self.pools.get(&pool).copied().unwrap_or_default();
        let mut out =
            PoolStat { log_size: s.log_size, ondisk_log_size: s.ondisk_log_size, up: s.up, acting: s.acting, ..PoolStat::default() };
        out.stats.sum = s.stats;
        for (_, fs) in self.pool_statfs.range((pool, OsdId::MIN)..=(pool, OsdId::MAX)) {
            out.store_stats.add(fs);
            out.num_store_stats += 1;
        }
        out
    }
    /// What all stores hold together.
    pub fn statfs(&self) -> StoreStatfs {
        if let Some(d) = &self.digest {
            return d.osd_sum.statfs;
        }
        let mut total = StoreStatfs::default();
        for osd in self.osds.values() {
            total.add(&osd.statfs);
        }
        total
    }
    /// Groups by their state's text, most frequent first.
    pub fn states(&self) -> Vec<(String, u32)> {
        let mut by_bits: BTreeMap<u64, u32> = BTreeMap::new();
        match &self.digest {
            Some(d) => by_bits.extend(d.num_pg_by_state.iter().map(|(bits, n)| (*bits, (*n).max(0) as u32))),
            None => self.pgs.values().for_each(|stat| *by_bits.entry(stat.state).or_default() += 1),
        }
        let mut out: Vec<_> = by_bits.into_iter().map(|(bits, n)| (pg_state::to_text(bits), n)).collect();
        out.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        out
    }
    /// How many groups have any bit of `mask` (or, for 0, none at all).
    pub fn count_state(&self, mask: u64) -> u32 {
        let fits = |state: u64| if mask == 0 { state == 0 } else { state & mask != 0 };
        match &self.digest {
            Some(d) => d.num_pg_by_state.iter().filter(|(state, _)| fits(**state)).map(|(_, n)| (*n).max(0) as u32).sum(),
            None => self.pgs.values().filter(|s| fits(s.state)).count() as u32,
        }
    }
    /// How many groups there are.
    pub fn num_pgs(&self) -> usize {
        self.digest.as_ref().map_or(self.pgs.len(), |d| d.num_pg.max(0) as usize)
    }
    /// How many groups are known, and not active.
    pub fn num_inactive(&self) -> usize {
        let active = self.count_state(pg_state::ACTIVE) + self.count_state(0);
        self.num_pgs().saturating_sub(active as usize)
    }
    /// The number of an OSD's last report.
    pub fn last_seq(&self, osd: OsdId) -> u64 {
        match &self.digest {
            Some(d) => usize::try_from(osd).ok().and_then(|i| d.osd_last_seq.get(i)).copied().unwrap_or(0),
            None => self.osds.get(&osd).map_or(0, |o| o.seq),
        }
    }
    /// What stores hold together: all of them, or those of a device class (given with its OSDs).
    pub fn sum_of_stores(&self, class: Option<&str>, osds: impl Iterator<Item = OsdId>) -> OsdStat {
        if let Some(d) = &self.digest {
            return class.map_or_else(|| d.osd_sum.clone(), |c| d.osd_sum_by_class.get(c).cloned().unwrap_or_default());
        }
        let mut sum = OsdStat::default();
        for stat in osds.filter_map(|osd| self.osds.get(&osd)) {
            sum.statfs.add(&stat.statfs);
            sum.num_osds += 1;
            sum.num_per_pool_osds += stat.num_per_pool_osds;
            sum.num_per_pool_omap_osds += stat.num_per_pool_omap_osds;
        }
        sum
    }
    /// The oldest epoch that any group still needs to know its past from; `None` if there is no group, or a stock manager hears the reports
    /// (OSDs say it in their beacons too).
    pub fn min_last_epoch_clean(&self) -> Option<u32> {
        if self.digest.is_some() {
            return None;
        }
        // `last_epoch_clean` is where its interval was clean first: a group that is clean is so as of its report.
        let clean_as_of = |s: &PgStat| if s.state & pg_state::CLEAN != 0 { s.reported_epoch } else { s.last_epoch_clean };
        self.pgs.values().map(clean_as_of).min()
    }
    /// Snapshots that every group of a pool with so many groups has trimmed; `None` while one of them has not reported. `since` is when the pool got that
    /// number: what a group said before it took in another does not speak for that one's objects.
    pub fn purged_in_all(&self, pool: PoolId, pg_num: u32, since: Epoch) -> Option<IntervalSet> {
        if let Some(d) = &self.digest {
            return d.purged_snaps.get(&pool).cloned();
        }
        let mut pgs = self.pgs.range(PgId::new(pool, 0)..PgId::new(pool, pg_num)).map(|(_, s)| s);
        if pgs.clone().count() < pg_num as usize {
            // One that has just been split off.
            return None;
        }
        let is_told = |s: &PgStat| s.state != 0 && s.reported_epoch >= since;
        let mut all = pgs.next().filter(|s| is_told(s))?.purged_snaps.clone();
        for stat in pgs {
            if !is_told(stat) {
                return None;
            }
            if planted(Bug::PurgeEarly) {
                all.union_with(&stat.purged_snaps);
                continue;
            }
            all = all.intersection(&stat.purged_snaps);
            if all.is_empty() {
                break;
            }
        }
        Some(all)
    }
    /// How many groups have each OSD in their acting set, and as their primary.
    pub fn by_osd(&self) -> BTreeMap<OsdId, (u32, u32)> {
        let mut out: BTreeMap<OsdId, (u32, u32)> = BTreeMap::new();
        for stat in self.pgs.values() {
            for (n, osd) in stat.acting.iter().enumerate().filter(|(_, osd)| **osd >= 0) {
                // One that is named twice counts once.
                out.entry(*osd).or_default().0 += u32::from(!stat.acting[..n].contains(osd));
            }
            if stat.acting_primary >= 0 {
                out.entry(stat.acting_primary).or_default().1 += 1;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_follow_reports_and_pools() {
        let mut map = PgMap::default();
        map.sync_pools(&[(1, 2)].into());
        assert_eq!(map.states(), [("unknown".to_string(), 2)]);
        let mut stat = PgStat { state: pg_state::ACTIVE | pg_state::CLEAN, reported_seq: 1, ..PgStat::default() };
        stat.stats.sum.num_bytes = 10;
        map.report_pg(PgId::new(1, 0), stat.clone());
        map.report_pg(PgId::new(1, 0), stat.clone());
        assert_eq!((map.total().stats.num_bytes, map.total().pgs), (10, 2));
        stat.reported_seq = 0;
        stat.stats.sum.num_bytes = 99;
        map.report_pg(PgId::new(1, 0), stat);
        assert_eq!(map.total().stats.num_bytes, 10);
        map.sync_pools(&BTreeMap::new());
        assert_eq!((map.total().pgs, map.pgs.len()), (0, 0));
    }

    #[test]
    fn rates_are_taken_over_the_samples() {
        let mut map = PgMap::default();
        let second = |s: u64| Stamp(s * 1_000_000_000);
        for t in 0..5 {
            let mut stat = PgStat { reported_seq: t, state: pg_state::ACTIVE, ..PgStat::default() };
            stat.stats.sum.num_wr = 100 * t as i64;
            map.report_pg(PgId::new(1, 0), stat);
            map.sample(second(t), UTime::ZERO);
        }
        assert_eq!(map.rates(Some(1)).write_ops, 100);
        assert_eq!(map.rates(Some(2)).write_ops, 0);
    }

    /// Groups come back with the counters of their whole life, or with less: an idle cluster does nothing.
    #[test]
    fn what_was_done_long_ago_is_no_rate() {
        let report = |map: &mut PgMap, seq: u64, epoch: u32, primary: i32, state: u64, written_kb: i64| {
            let mut stat = PgStat {
                reported_seq: seq,
                state,
                mapping_epoch: epoch,
                acting_primary: primary,
                acting: vec![primary],
                ..PgStat::default()
            };
            stat.stats.sum.num_wr_kb = written_kb;
            map.report_pg(PgId::new(1, 0), stat);
        };
        let (active, peering) = (pg_state::ACTIVE | pg_state::CLEAN, pg_state::PEERING);
        // A monitor that starts, a primary that comes back by way of peering, one that comes back at once, another primary, counters from 0.
        let lives: [&[(u32, i32, u64, i64)]; 5] = [
            &[(5, 0, active, 9 << 20), (5, 0, active, 9 << 20)],
            &[(5, 0, active, 9 << 20), (6, 0, peering, 0), (6, 0, active, 9 << 20)],
            &[(5, 0, active, 1 << 20), (7, 0, active, 9 << 20)],
            &[(5, 0, active, 1 << 20), (5, 1, active, 9 << 20)],
            &[(5, 0, active, 9 << 20), (5, 0, active, 0), (5, 0, active, 1)],
        ];
        for life in lives {
            let mut map = PgMap::default();
            map.sync_pools(&[(1, 1)].into());
            let mut t = 0;
            map.sample(Stamp(0), UTime::ZERO);
            for (epoch, primary, state, written_kb) in life {
                t += 1;
                report(&mut map, t, *epoch, *primary, *state, *written_kb);
                map.sample(Stamp(t * 1_000_000_000), UTime::ZERO);
                assert!(map.rates(None).write_bytes <= 1024, "{life:?}: {:?}", map.rates(None));
            }
            // And what is done then counts.
            let (epoch, primary, _, written_kb) = life[life.len() - 1];
            report(&mut map, t + 1, epoch, primary, active, written_kb + 10_240);
            map.sample(Stamp((t + 1) * 1_000_000_000), UTime::ZERO);
            assert!(map.rates(None).write_bytes > 1 << 20);
        }
        // One whose primary was down is heard again.
        let mut map = PgMap::default();
        report(&mut map, 1, 5, 0, active, 0);
        map.sample(Stamp(0), UTime::ZERO);
        map.mark_stale(|_| false, UTime::ZERO);
        report(&mut map, 2, 5, 0, active, 9 << 20);
        map.sample(Stamp(1_000_000_000), UTime::ZERO);
        assert_eq!(map.rates(None), Rates::default());
    }

    /// A report of an OSD replaces its own rows, however many others have some.
    #[test]
    fn a_report_costs_what_it_names() {
        let looked_at = |osds: i32| {
            let mut map = PgMap::default();
            let pools = |used: i64| (1..=4).map(move |pool| (pool, StoreStatfs { allocated: used, ..StoreStatfs::default() }));
            (0..osds).for_each(|osd| map.report_osd(osd, OsdStat::default(), pools(1)));
            map.report_osd(5, OsdStat::default(), pools(7).take(2));
            assert_eq!(map.pool_statfs.len() as i32, 4 * osds - 2);
            assert_eq!(
                (map.pool_stat(1).store_stats.allocated, map.pool_stat(4).store_stats.allocated),
                (i64::from(osds) + 6, i64::from(osds) - 1)
            );
            (map.forget_osd(5), map.forget_osd(6), map.forget_osd(6))
        };
        assert_eq!((looked_at(20), looked_at(200)), ((2, 4, 0), (2, 4, 0)));
    }

    #[test]
    fn groups_are_counted_by_osd() {
        let mut map = PgMap::default();
        for (seed, acting) in [vec![0, 1], vec![1, 2], vec![2, -1], vec![1]].into_iter().enumerate() {
            let stat = PgStat { acting_primary: acting[0], acting, ..PgStat::default() };
            map.report_pg(PgId::new(1, seed as u32), stat);
        }
        assert_eq!(map.by_osd(), [(0, (1, 1)), (1, (3, 2)), (2, (2, 1))].into());
    }
}
