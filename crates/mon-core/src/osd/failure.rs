//! OSDs that others report, and how many reports it takes.
//!
//! A report that comes before its time takes a few steps for each reporter of that OSD. One that may tell, and each tick, takes one for
//! each OSD.

use super::Report;
use crate::Mon;
use crate::planted::{Bug, planted};
use crate::session::ConnId;
use base::{Clock, Stamp};
use cephx::caps::Perm;
use maps::{Incremental, map_flags, osd_state};
use messages::{MOSDFailure, failure_flag, log_level};
use std::collections::BTreeSet;
use std::time::Duration;
use types::{OsdId, UTime};

impl Mon {
    /// How long an OSD must have been silent.
    fn grace(&self) -> Duration {
        Duration::from_secs_f64(self.config.mon_number("osd_heartbeat_grace").clamp(1.0, 86_400.0))
    }
    pub(crate) fn on_failure(&mut self, conn: ConnId, reporter: OsdId, m: &MOSDFailure, clock: Clock) {
        let target = m.target_osd;
        let map = &self.osd.map;
        let known = m.fsid == self.options.fsid && map.is_up(target) && map.is_up(reporter) && self.may(conn, "osd", Perm::X);
        if !known || m.target_addrs.msgr2() != map.client_addrs[target as usize].msgr2() {
            return;
        }
        // Said of an earlier life. The addresses for clients do not tell: an OSD that was wrongly marked down keeps them, and its former port on
        // the OSDs' network refuses.
        if m.epoch < map.osd_info[target as usize].up_from && !planted(Bug::BelieveOldReport) {
            return;
        }
        if m.flags & failure_flag::FAILED == 0 {
            if let Some(reports) = self.osd.failures.get_mut(&target) {
                reports.reporters.remove(&reporter);
            }
            return;
        }
        // A port that refuses is evidence, not proof: one host with a wrong firewall would take everybody down. The target's own silence
        // makes it proof; until then the report counts as one that has waited long enough, and it takes as many as others do.
        let refused = m.flags & failure_flag::IMMEDIATE != 0;
        let silent = if refused { self.grace() } else { Duration::from_secs(m.failed_for_s.max(0) as u64) };
        let since = clock.mono - silent;
        let reports = self.osd.failures.entry(target).or_default();
        reports.reporters.insert(reporter, Report { since, conn, refused });
        self.check_failure(target, clock);
    }
    /// Its port refuses and it is silent: the process is gone, and its peers needn't wait for leases that it might still hold.
    fn mark_gone(&mut self, target: OsdId, reporter: OsdId, clock: Clock) {
        self.say(clock, log_level::INFO, format!("osd.{target} reported immediately failed by osd.{reporter}"));
        let mut xinfo = self.osd.map.osd_xinfo[target as usize];
        xinfo.dead_epoch = self.osd.map.epoch + 1;
        let inc = self.osd.pending();
        inc.new_state.insert(target, osd_state::UP);
        inc.new_xinfo.insert(target, xinfo);
    }

    /// Whether the map may come to show `osd` down: no flag is against it, and enough others stay up. What is reported meanwhile is kept, and
    /// looked at again.
    pub(crate) fn can_go_down(&self, osd: OsdId) -> bool {
        let map = &self.osd.map;
        let is_held = map.has_flag(map_flags::NODOWN) || map.state(osd) & osd_state::NODOWN != 0;
        !is_held
            && self.osd.share_that_stays(|o| map.is_up(o), |inc, o| inc.new_state.get(&o).is_some_and(|s| s & osd_state::UP != 0))
                >= self.config.mon_number("mon_osd_min_up_ratio")
    }
    /// Marks an OSD down if its port refuses and it is silent, or enough others have missed it for long enough.
    pub(crate) fn check_failure(&mut self, target: OsdId, clock: Clock) {
        let Some(reports) = self.osd.failures.get(&target) else { return };
        if !self.can_go_down(target) {
            return;
        }
        if let Some((reporter, _)) = reports.reporters.iter().find(|(_, report)| report.refused)
            && self.osd.fell_silent(target)
        {
            return self.mark_gone(target, *reporter, clock);
        }
        let since = reports.reporters.values().map(|report| report.since).max().unwrap_or(clock.mono);
        if clock.mono.since(since) < self.grace() {
            return;
        }
        let level = self.config.mon_value("mon_osd_reporter_subtree_level");
        let crush = &self.osd.map.crush;
        let kind = crush.type_id(level).unwrap_or(1);
        let subtree = |osd: OsdId| crush.ancestor_of_type(osd, kind).unwrap_or(osd);
        let reporters: BTreeSet<i32> = reports.reporters.keys().map(|osd| subtree(*osd)).collect();
        // Of a cluster on one host no two subtrees can report: there every OSD counts.
        let all: BTreeSet<i32> = self.osd.map.osds().filter(|o| self.osd.map.is_up(*o) && *o != target).map(subtree).collect();
        let count = if all.len() <= 1 { reports.reporters.len() } else { reporters.len() };
        let possible = if all.len() <= 1 { self.osd.map.num_up().saturating_sub(1) } else { all.len() };
        let needed = (self.config.mon_number("mon_osd_min_down_reporters") as usize).min(possible).max(1);
        if count >= needed {
            let text = format!("osd.{target} failed ({count} reporters after {:.1} s)", clock.mono.since(since).as_secs_f64());
            self.say(clock, log_level::INFO, text);
            if planted(Bug::DeadWithoutProof) {
                return self.mark_gone(target, target, clock);
            }
            self.osd.pending().new_state.insert(target, osd_state::UP);
        }
    }
}

impl super::OsdService {
    /// Of all OSDs in the map, the share that `is` holds for and that the change being made does not take from it by `goes`.
    pub(crate) fn share_that_stays(&self, is: impl Fn(OsdId) -> bool, goes: impl Fn(&Incremental, OsdId) -> bool) -> f64 {
        let stays = |osd: &OsdId| is(*osd) && !self.peek_pending().is_some_and(|inc| goes(inc, *osd));
        self.map.osds().filter(stays).count() as f64 / self.map.num_osds().max(1) as f64
    }
    /// A session of this OSD has begun.
    pub(crate) fn note_came(&mut self, osd: OsdId) {
        *self.here.entry(osd).or_default() += 1;
    }
    /// A session of this OSD has ended.
    pub(crate) fn note_left(&mut self, osd: OsdId) {
        self.left.insert(osd);
        if let Some(sessions) = self.here.get_mut(&osd) {
            *sessions -= 1;
            if *sessions == 0 {
                self.here.remove(&osd);
            }
        }
    }
    /// True if it talked to us and does not any more. A monitor that has just started has heard nothing of those that live, either.
    fn fell_silent(&self, osd: OsdId) -> bool {
        self.left.contains(&osd) && !self.here.contains_key(&osd)
    }
    pub(crate) fn note_beacon(&mut self, osd: OsdId, now: Stamp, needed: types::Epoch) {
        self.beacons.insert(osd, (now, needed));
    }
    /// Marks an OSD out by the monitor's own decision: it comes back in by itself.
    pub(crate) fn mark_auto_out(&mut self, osd: OsdId) {
        let mut xinfo = self.map.osd_xinfo[osd as usize];
        xinfo.old_weight = self.map.weight(osd);
        let state = self.map.state(osd);
        let inc = self.pending();
        inc.new_weight.insert(osd, 0);
        inc.new_xinfo.insert(osd, xinfo);
        if state & osd_state::AUTOOUT == 0 {
            *inc.new_state.entry(osd).or_default() ^= osd_state::AUTOOUT;
        }
    }
    /// Entries of the blocklist that have run out.
    pub(crate) fn expire_blocklist(&mut self, now: UTime) {
        let now = if planted(Bug::ExpireEarly) { UTime { sec: now.sec + 3, ..now } } else { now };
        let old: Vec<_> = self.map.blocklist.iter().filter(|(_, until)| **until < now).map(|(a, _)| *a).collect();
        let old_ranges: Vec<_> = self.map.range_blocklist.iter().filter(|(_, until)| **until < now).map(|(a, _)| *a).collect();
        if !old.is_empty() || !old_ranges.is_empty() {
            let inc = self.pending();
            inc.old_blocklist.extend(old);
            inc.old_range_blocklist.extend(old_ranges);
        }
    }
}
