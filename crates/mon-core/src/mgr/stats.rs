//! How full the cluster and its pools are, for clients that ask by message (`rados df`, `statvfs`).

use crate::Mon;
use crate::session::ConnId;
use messages::{MGetPoolStats, MGetPoolStatsReply, MStatfs, MStatfsReply, Paxos};
use types::PoolId;

impl Mon {
    pub(crate) fn on_statfs(&mut self, conn: ConnId, m: &MStatfs) {
        if m.fsid != self.options.fsid {
            return;
        }
        let pgs = &self.manager.pgs;
        let reply = match m.data_pool {
            Some(pool) => {
                let sum = pgs.pool_sum(pool);
                let avail = self.pool_avail(pool);
                let used = sum.num_bytes.max(0) as u64;
                (used + avail, used, avail, sum.num_objects)
            }
            None => {
                let fs = pgs.statfs();
                (fs.total, fs.used_raw(), fs.available, pgs.total().stats.num_objects)
            }
        };
        let (total, used, avail, objects) = reply;
        let reply = MStatfsReply {
            tid: m.tid,
            fsid: m.fsid,
            version: pgs.version,
            total_kib: total / 1024,
            used_kib: used / 1024,
            avail_kib: avail / 1024,
            objects: objects.max(0) as u64,
        };
        self.send(conn, m.tid, &reply);
    }

    pub(crate) fn on_pool_stats(&mut self, conn: ConnId, m: &MGetPoolStats) {
        if m.fsid != self.options.fsid {
            return;
        }
        let map = &self.osd.map;
        let known = m.pools.iter().filter_map(|name| Some((name.clone(), map.pool_by_name(name)?)));
        let stats = known.map(|(name, id)| (name, self.manager.pgs.pool_stat(id))).collect();
        let per_pool = self.stores_count_by_pool();
        let version = self.manager.pgs.version;
        let reply = MGetPoolStatsReply { tid: m.tid, paxos: Paxos::at(version), fsid: m.fsid, stats, per_pool };
        self.send(conn, m.tid, &reply);
    }

    /// True if every store says what of it belongs to which pool.
    pub fn stores_count_by_pool(&self) -> bool {
        if let Some(d) = &self.manager.pgs.digest {
            return d.osd_sum.num_osds == d.osd_sum.num_per_pool_osds;
        }
        let osds = &self.manager.pgs.osds;
        !osds.is_empty() && osds.values().all(|o| o.num_per_pool_osds >= o.num_osds.max(1))
    }

    /// Bytes that a pool can still take before the first of its OSDs is full: each OSD gets its share of what is written.
    pub fn pool_avail(&self, pool: PoolId) -> u64 {
        let map = &self.osd.map;
        let Some(p) = map.pools.get(&pool) else { return 0 };
        let raw = self.rule_avail(u32::from(p.crush_rule));
        raw / u64::from(p.size.max(1))
    }
    /// The same for a rule, copies not yet counted.
    pub fn rule_avail(&self, rule: u32) -> u64 {
        if let Some(d) = &self.manager.pgs.digest {
            return d.avail_space_by_rule.get(&(rule as i32)).map_or(0, |n| (*n).max(0) as u64);
        }
        let map = &self.osd.map;
        let mut weights = std::collections::BTreeMap::new();
        for root in map.crush.rule_takes(rule) {
            for (osd, weight) in map.crush.devices_below(root) {
                let reweight = u64::from(map.weight(osd));
                *weights.entry(osd).or_insert(0u64) += (u64::from(weight) * reweight) >> 16;
            }
        }
        let sum: u64 = weights.values().sum();
        if sum == 0 {
            return 0;
        }
        let full_ratio = f64::from(if map.full_ratio > 0.0 { map.full_ratio } else { 1.0 });
        let room = |osd: &i32| {
            let fs = self.manager.pgs.osds.get(osd).map(|o| o.statfs)?;
            let reserve = (fs.total as f64 * (1.0 - full_ratio)) as u64;
            Some(fs.available.saturating_sub(reserve))
        };
        let shares = weights.iter().filter(|(_, w)| **w > 0).filter_map(|(osd, w)| {
            let share = *w as f64 / sum as f64;
            Some((room(osd)? as f64 / share) as u64)
        });
        shares.min().unwrap_or(0)
    }
}
