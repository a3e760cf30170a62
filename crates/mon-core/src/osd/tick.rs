//! What time does to OSDs: silent ones are marked down, those that stay down are marked out, blocklist entries run out, maps are trimmed.

use crate::Mon;
use crate::planted::{Bug, planted};
use base::Clock;
use maps::{map_flags, osd_state, pool_flags};
use messages::log_level;
use types::{Epoch, UTime};

impl Mon {
    pub(crate) fn tick_osds(&mut self, clock: Clock) {
        self.osd.expire_blocklist(UTime::from_wall_ns(clock.wall_ns));
        let reported: Vec<_> = self.osd.failures.keys().copied().collect();
        for osd in reported {
            self.check_failure(osd, clock);
        }
        let silent_after = self.config.mon_span("mon_osd_report_timeout", 1.0);
        let silent: Vec<_> = self.osd.beacons.iter().filter(|(_, (at, _))| clock.mono.since(*at) > silent_after).map(|(o, _)| *o).collect();
        for osd in silent {
            if self.osd.map.is_up(osd) && self.can_go_down(osd) {
                self.say(clock, log_level::INFO, format!("osd.{osd} marked down after no beacon for {} seconds", silent_after.as_secs()));
                self.osd.pending().new_state.insert(osd, osd_state::UP);
            }
        }
        if planted(Bug::EpochEachTick) {
            self.osd.pending();
        }
        self.mark_out_the_lost(clock);
        self.check_quotas(clock);
        self.purge_snaps();
        let oldest = self.osd.beacons.values().map(|(_, needed)| *needed).min().unwrap_or(0);
        let clean = self.manager.pgs.min_last_epoch_clean().unwrap_or(self.osd.epoch());
        let kept = self.config.mon_number("mon_min_osdmap_epochs").max(1.0) as Epoch;
        self.osd.trim(oldest.min(clean), kept, &mut self.batch);
    }

    fn mark_out_the_lost(&mut self, clock: Clock) {
        let after = self.config.mon_number("mon_osd_down_out_interval");
        if after <= 0.0 || self.osd.map.has_flag(map_flags::NOOUT) {
            return;
        }
        let least = self.config.mon_number("mon_osd_min_in_ratio");
        let after = if planted(Bug::OutEarly) { after / 2.0 } else { after };
        let long = |since| clock.mono.since(since).as_secs_f64() >= after;
        let lost: Vec<_> = self.osd.down_since.iter().filter(|(_, since)| long(**since)).map(|(o, _)| *o).collect();
        for osd in lost {
            let map = &self.osd.map;
            // Too few would be left to hold what they have.
            let ratio = self.osd.share_that_stays(|o| map.is_in(o), |inc, o| inc.new_weight.get(&o) == Some(&0));
            if map.is_up(osd) || !map.is_in(osd) || map.state(osd) & osd_state::NOOUT != 0 || ratio < least {
                continue;
            }
            self.say(clock, log_level::INFO, format!("Marking osd.{osd} out (has been down for {after:.0} seconds)"));
            self.osd.mark_auto_out(osd);
        }
    }

    /// Marks pools whose quota is used up, and unmarks those that have room again.
    fn check_quotas(&mut self, clock: Clock) {
        let mut changed = Vec::new();
        for (id, pool) in &self.osd.map.pools {
            if (pool.quota_max_bytes, pool.quota_max_objects) != (0, 0) && !self.manager.pgs.is_counted(*id) {
                continue;
            }
            let sum = self.manager.pgs.pool_sum(*id);
            let over = |limit: u64, used: i64| limit > 0 && used >= 0 && used as u64 >= limit;
            let used_up = over(pool.quota_max_bytes, sum.num_bytes) || over(pool.quota_max_objects, sum.num_objects);
            if used_up != pool.has(pool_flags::FULL_QUOTA) {
                changed.push((*id, used_up));
            }
        }
        for (id, used_up) in changed {
            let name = self.osd.map.pool_name(id).unwrap_or_default().to_string();
            let pool = self.osd.pool_mut(id).expect("we looked");
            if used_up {
                pool.flags |= pool_flags::FULL_QUOTA;
                self.say(clock, log_level::WARN, format!("pool '{name}' is full (reached quota)"));
            } else {
                pool.flags &= !pool_flags::FULL_QUOTA;
                self.say(clock, log_level::INFO, format!("pool '{name}' no longer out of quota; removing NO_QUOTA flag"));
            }
        }
    }
}
