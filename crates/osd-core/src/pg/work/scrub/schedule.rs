//! When a group is due for a scrub, and which scrub it is to be.
//!
//! A group is due `osd_scrub_min_interval` after its last scrub and a share of that more, which its name and that scrub's time decide, so that
//! groups don't all come at once; a deep one after `osd_deep_scrub_interval`. Pools have intervals of their own. The flags `noscrub` and `nodeep-scrub`
//! keep away what no operator asked for. Absent: hours and days of the week, and the machine's load.

use super::order::Order;
use super::room::Room;
use crate::pg::group::Group;
use crate::shared::Cx;
use base::Rng;
use maps::pool_opts::OptKey;
use maps::{PgPool, map_flags, pool_flags};
use types::{PgHistory, PgId, UTime};

/// The facts by which a group is due.
struct Calendar<'a> {
    pgid: PgId,
    pool: &'a PgPool,
    history: &'a PgHistory,
    /// When the group was first seen here, for one that was never scrubbed.
    known_since_s: u32,
}

impl Calendar<'_> {
    /// What comes by itself, if it is time.
    fn scheduled(&self, cx: &Cx<'_>) -> Option<Order> {
        let flag = |map: u32, pool: u64| cx.sh.map.has_flag(map) || self.pool.has(pool);
        let (no_scrub, no_deep) = (flag(map_flags::NOSCRUB, pool_flags::NOSCRUB), flag(map_flags::NODEEP_SCRUB, pool_flags::NODEEP_SCRUB));
        let now = f64::from(cx.now().sec);
        let is_deep_due = !no_deep && now >= self.deep_scrub_due(cx);
        if !is_deep_due && (no_scrub || now < self.scrub_due(cx)) {
            return None;
        }
        let repairs = cx.sh.config.get("osd_scrub_auto_repair") == Some("true");
        Some(Order {
            deep: is_deep_due,
            repair: repairs && is_deep_due,
            is_auto: repairs,
            deep_on_error: repairs && !is_deep_due,
            ..Order::default()
        })
    }
    fn last(&self, stamp: UTime) -> f64 {
        f64::from(if stamp.is_zero() { self.known_since_s } else { stamp.sec })
    }
    fn interval(&self, key: OptKey, name: &str, cx: &Cx<'_>) -> f64 {
        self.pool.opts.double(key).filter(|set| *set > 0.0).unwrap_or_else(|| cx.sh.config.num(name))
    }
    /// A number from 0 to 1 that stays the same until the next scrub.
    fn share(&self, stamp: UTime) -> f64 {
        let seed = u64::from(self.pgid.seed) << 32 ^ (self.pgid.pool as u64) << 48 ^ u64::from(stamp.sec);
        Rng::new(seed).below(1000) as f64 / 1000.0
    }
    /// The second from which on a shallow scrub is due.
    fn scrub_due(&self, cx: &Cx<'_>) -> f64 {
        let stamp = self.history.last_scrub_stamp;
        let min = self.interval(OptKey::SCRUB_MIN_INTERVAL, "osd_scrub_min_interval", cx);
        let max = self.interval(OptKey::SCRUB_MAX_INTERVAL, "osd_scrub_max_interval", cx).max(min);
        let spread = cx.sh.config.num("osd_scrub_interval_randomize_ratio").max(0.0);
        self.last(stamp) + (min * (1.0 + spread * self.share(stamp))).min(max)
    }
    fn deep_scrub_due(&self, cx: &Cx<'_>) -> f64 {
        let stamp = self.history.last_deep_scrub_stamp;
        let interval = self.interval(OptKey::DEEP_SCRUB_INTERVAL, "osd_deep_scrub_interval", cx);
        let spread = cx.sh.config.num("osd_deep_scrub_randomize_ratio").max(0.0);
        self.last(stamp) + interval * (1.0 + spread * self.share(stamp))
    }
}

impl Room {
    /// What is to be begun now.
    pub(super) fn due(&mut self, group: &Group, cx: &mut Cx<'_>) -> Option<Order> {
        if self.known_since_s == 0 {
            self.known_since_s = cx.now().sec;
        }
        let is_ready = group.members.peering.is_primary()
            && group.members.peering.is_active()
            && group.members.peering.is_clean()
            && !group.members.peering.is_lacking(&group.record);
        if !is_ready || cx.clock.mono < self.not_before {
            return None;
        }
        let during_recovery = cx.sh.config.get("osd_scrub_during_recovery") == Some("true");
        if !during_recovery && cx.sh.bounds.recovery_slots.is_used() {
            return None;
        }
        let (history, known_since_s) = (&group.record.info().history, self.known_since_s);
        self.wanted.or_else(|| Calendar { pgid: group.pgid.pgid, pool: &group.pool, history, known_since_s }.scheduled(cx))
    }
}
