//! What time does to metadata servers: silent ones are laggy, and are replaced when others can be heard.

use super::named;
use super::planted::{Bug, planted};
use crate::Mon;
use base::Clock;
use maps::{FsId, MdsGid, MdsState};
use messages::log_level;
use types::UTime;

impl Mon {
    pub(crate) fn tick_mds(&mut self, clock: Clock) {
        self.want_standbys();
        self.drop_silent_mds(clock);
        self.heed_affinity(clock);
        self.place_mds(clock);
        self.fs.last_tick = Some(clock.mono);
    }

    /// Once a file system had a standby it is missed when it goes, unless its operator said how many there shall be.
    fn want_standbys(&mut self) {
        let map = self.fs.view();
        let undecided = |fs: &&maps::Filesystem| {
            let spare = map.standbys.len() + fs.mds.count_in(MdsState::STANDBY_REPLAY);
            fs.mds.standby_count_wanted == -1 && fs.mds.count_in(MdsState::ACTIVE) > 0 && spare > 0
        };
        let all: Vec<FsId> = map.filesystems.values().filter(undecided).map(|fs| fs.fscid).collect();
        for fscid in all {
            if let Some(fs) = self.fs.pending().filesystems.get_mut(&fscid) {
                fs.mds.standby_count_wanted = 1;
            }
        }
    }

    fn drop_silent_mds(&mut self, clock: Clock) {
        let seconds = |name: &str, least: f64| self.config.mon_span(name, least);
        let (grace, interval) = (seconds("mds_beacon_grace", 1.0), seconds("mds_beacon_interval", 0.1));
        let grace = if planted(Bug::HaveNoGrace) { interval } else { grace };
        let service = &mut self.fs;
        // If it was we that didn't look, silence says nothing.
        let was_away = service.last_tick.is_none_or(|at| clock.mono.since(at) > grace.saturating_sub(interval));
        if was_away && !planted(Bug::CountOwnAbsence) {
            service.beacons.values_mut().for_each(|at| *at = clock.mono);
        }
        for gid in service.map.roles.keys() {
            // Whoever was there before this process started has the whole time.
            service.beacons.entry(*gid).or_insert(clock.mono);
        }
        let silent: Vec<MdsGid> = service.beacons.iter().filter(|(_, at)| clock.mono.since(**at) >= grace).map(|(gid, _)| *gid).collect();
        // When no server at all is heard, the fault may be ours.
        let newest = service.beacons.values().max().copied();
        let hears = newest.is_some_and(|at| clock.mono.since(at) < interval.max(grace / 2));
        for gid in silent {
            let Some(info) = self.fs.view().daemon(gid).cloned() else { continue };
            if !info.is_laggy() {
                let now = UTime::from_wall_ns(clock.wall_ns);
                self.fs.pending().modify_daemon(gid, |i| i.laggy_since = now);
            }
            if !hears {
                continue;
            }
            let map = self.fs.view();
            let by = map.filesystem_of(gid).and_then(|fs| map.replacement_for(fs, info.rank)).map(|i| i.gid);
            // Who follows a rank is no replacement for itself.
            if self.replace_mds(gid, by.filter(|by| *by != gid), clock) {
                self.say(clock, log_level::INFO, format!("{} was silent for {} s and is removed", named(&info), grace.as_secs()));
            }
        }
    }
}
