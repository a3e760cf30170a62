//! When a group is due for a scrub, and which scrub it is to be.
//!
//! A group is due `osd_scrub_min_interval` after its last scrub and a share of that more, which its name and that scrub's time decide, so that
//! groups don't all come at once; a deep one after `osd_deep_scrub_interval`. Pools have intervals of their own. The flags `noscrub` and `nodeep-scrub`
//! keep away what no operator asked for. Absent: hours and days of the week, and the machine's load.
//!
//! Source of the fields of `dump_scrubs`: Ceph 18.2 `src/osd/scrubber/osd_scrub_sched.cc`, and a 20.2 OSD's answer.

use super::agenda::Agenda;
use super::order::Order;
use crate::pg::group::Group;
use crate::shared::{Cx, Shared};
use base::Rng;
use maps::pool_opts::OptKey;
use maps::{PgPool, map_flags, pool_flags};
use serde_json::{Value, json};
use types::{PgHistory, PgId, SpgId, UTime};

/// A group's next scrub, for people.
pub(crate) struct Planned {
    pub pgid: SpgId,
    /// From when on it may begin, in seconds since 1970.
    pub at: u32,
    /// When the group's last scrub is older than an operator wants.
    deadline: u32,
    is_deep: bool,
    is_requested: bool,
    /// The time has come.
    is_due: bool,
    /// Why it would not begin now, by stock's words.
    issue: &'static str,
}

impl Planned {
    /// As `dump_scrubs` shows it.
    pub fn json(&self) -> Value {
        let time = |sec: u32| UTime { sec, ..UTime::default() }.to_string();
        json!({
            "pgid": self.pgid.to_string(),
            "sched_time": time(self.at),
            "orig_sched_time": time(self.at),
            "deadline": time(self.deadline),
            "forced": self.is_requested,
            "level": if self.is_deep { "deep" } else { "shallow" },
            "urgency": if self.is_requested { "operator-requested" } else { "periodic-regular" },
            "eligible": self.is_due,
            "last_issue": self.issue,
        })
    }
}

/// The facts by which a group is due.
struct Calendar<'a> {
    pgid: PgId,
    pool: &'a PgPool,
    history: &'a PgHistory,
    /// When the group was first seen here, for one that was never scrubbed.
    known_since_s: u32,
}

impl Calendar<'_> {
    /// Whether flags keep scrubs away, and deep ones.
    fn kept_away(&self, sh: &Shared) -> (bool, bool) {
        let flag = |map: u32, pool: u64| sh.map.has_flag(map) || self.pool.has(pool);
        (flag(map_flags::NOSCRUB, pool_flags::NOSCRUB), flag(map_flags::NODEEP_SCRUB, pool_flags::NODEEP_SCRUB))
    }
    /// What comes by itself, if it is time.
    fn scheduled(&self, cx: &Cx<'_>) -> Option<Order> {
        let (no_scrub, no_deep) = self.kept_away(cx.sh);
        let now = f64::from(cx.now().sec);
        let is_deep_due = !no_deep && now >= self.deep_scrub_due(cx.sh);
        if !is_deep_due && (no_scrub || now < self.scrub_due(cx.sh)) {
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
    fn interval(&self, key: OptKey, name: &str, sh: &Shared) -> f64 {
        self.pool.opts.double(key).filter(|set| *set > 0.0).unwrap_or_else(|| sh.config.num(name))
    }
    /// A number from 0 to 1 that stays the same until the next scrub.
    fn share(&self, stamp: UTime) -> f64 {
        let seed = u64::from(self.pgid.seed) << 32 ^ (self.pgid.pool as u64) << 48 ^ u64::from(stamp.sec);
        Rng::new(seed).below(1000) as f64 / 1000.0
    }
    /// The second from which on a shallow scrub is due.
    fn scrub_due(&self, sh: &Shared) -> f64 {
        let stamp = self.history.last_scrub_stamp;
        let min = self.interval(OptKey::SCRUB_MIN_INTERVAL, "osd_scrub_min_interval", sh);
        let spread = sh.config.num("osd_scrub_interval_randomize_ratio").max(0.0);
        self.last(stamp) + (min * (1.0 + spread * self.share(stamp))).min(self.longest(sh))
    }
    /// The longest time between two scrubs that an operator wants, in seconds.
    fn longest(&self, sh: &Shared) -> f64 {
        let min = self.interval(OptKey::SCRUB_MIN_INTERVAL, "osd_scrub_min_interval", sh);
        self.interval(OptKey::SCRUB_MAX_INTERVAL, "osd_scrub_max_interval", sh).max(min)
    }
    fn deep_scrub_due(&self, sh: &Shared) -> f64 {
        let stamp = self.history.last_deep_scrub_stamp;
        let interval = self.interval(OptKey::DEEP_SCRUB_INTERVAL, "osd_deep_scrub_interval", sh);
        let spread = sh.config.num("osd_deep_scrub_randomize_ratio").max(0.0);
        self.last(stamp) + interval * (1.0 + spread * self.share(stamp))
    }
}

impl Agenda {
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
        self.wanted.or_else(|| self.calendar(group).scheduled(cx))
    }
    fn calendar<'a>(&self, group: &'a Group) -> Calendar<'a> {
        let history = &group.record.info().history;
        Calendar { pgid: group.pgid.pgid, pool: &group.pool, history, known_since_s: self.known_since_s }
    }
    /// The next scrub, if the group is this OSD's to scrub and has been looked at.
    pub(in crate::pg) fn planned(&self, group: &Group, now: UTime, sh: &Shared) -> Option<Planned> {
        if !group.members.peering.is_primary() || self.known_since_s == 0 {
            return None;
        }
        let calendar = self.calendar(group);
        let (shallow, deep) = (calendar.scrub_due(sh), calendar.deep_scrub_due(sh));
        let deadline = calendar.last(calendar.history.last_scrub_stamp) + calendar.longest(sh);
        let at = self.wanted.map_or(shallow.min(deep), |_| 0.0);
        let is_deep = self.wanted.map_or(deep <= shallow, |order| order.deep);
        let (no_scrub, no_deep) = calendar.kept_away(sh);
        let is_clean = group.members.peering.is_active() && group.members.peering.is_clean();
        let is_requested = self.wanted.is_some();
        let issue = match () {
            () if !is_clean => "pg-state",
            () if !is_requested && if is_deep { no_deep } else { no_scrub } => "flags",
            () => "ok",
        };
        // Later than a clock can say is never.
        let (at, deadline) = (at as u32, deadline as u32);
        Some(Planned { pgid: group.pgid, at, deadline, is_deep, is_requested, is_due: at <= now.sec, issue })
    }
}
