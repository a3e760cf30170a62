//! Beacons of metadata servers: one comes, one says what it is now, one says that it can't go on.
//!
//! A server that is not in the map, or says what it may not, gets a map without itself: it starts over with another number.

use super::named;
use super::planted::{Bug, planted};
use crate::Mon;
use crate::session::ConnId;
use base::Clock;
use denc::Denc;
use maps::mds_map::NO_FS;
use maps::{FsId, MdsGid, MdsInfo, MdsMap, MdsState};
use messages::{MMDSBeacon, MMDSLoadTargets, MMDSMap, MdsHealth, Paxos, log_level};
use types::{EntityKind, Epoch, features};

impl Mon {
    pub(crate) fn on_mds_beacon(&mut self, conn: ConnId, m: MMDSBeacon, clock: Clock) {
        let Some(addrs) = self.sessions.get(&conn).map(|s| s.peer.addrs.clone()) else { return };
        // Nobody could reach, or fence, what has no port.
        if m.fsid != self.options.fsid || m.gid == 0 || addrs.front().port == 0 || !self.is_mds(conn, m.gid, &m.name) {
            return;
        }
        let state = MdsState(m.state);
        let Some(known) = self.fs.map.daemon(m.gid).cloned() else {
            if state == MdsState::BOOT {
                self.mds_boots(conn, m, clock);
            } else {
                self.send_null_mdsmap(conn);
            }
            return;
        };
        if state == MdsState::DNE {
            self.fail_mds(m.gid, clock);
            return self.send_null_mdsmap(conn);
        }
        // A beacon that was overtaken, or of one that hasn't heard that it is known.
        if m.seq < known.state_seq || state == MdsState::BOOT {
            return;
        }
        let epoch = self.fs.epoch_for(m.gid);
        self.fs.beacons.insert(m.gid, clock.mono);
        if m.paxos.version != u64::from(epoch) {
            // It speaks of what it was before.
            return self.answer_beacon(conn, &m, epoch);
        }
        if !m.compat.same_features(&known.compat) {
            self.say(clock, log_level::WARN, format!("{} changed its features while it ran", named(&known)));
            self.fail_mds(m.gid, clock);
            return self.send_null_mdsmap(conn);
        }
        if !known.state.may_become(state) && !planted(Bug::TakeAnyState) {
            let text = format!("{} may not go from {} to {}", named(&known), known.state.name(), state.name());
            self.say(clock, log_level::WARN, text);
            self.fail_mds(m.gid, clock);
            return self.send_null_mdsmap(conn);
        }
        self.note_mds_health(&known, &m.health, clock);
        match state {
            MdsState::STOPPED => {
                self.rank_stopped(&known, clock);
                return self.send_null_mdsmap(conn);
            }
            MdsState::DAMAGED => self.damage_rank_of(m.gid, clock),
            _ => self.take_beacon(&known, state, &m, clock),
        }
        let epoch = self.fs.view().epoch;
        self.answer_beacon(conn, &m, epoch);
    }

    /// True if a session is that server's: its key has the name, and a number that the map has for it; one that the map doesn't have is the
    /// session's own.
    fn is_mds(&self, conn: ConnId, gid: MdsGid, name: &str) -> bool {
        let Some(session) = self.sessions.get(&conn) else { return false };
        let is_own = match self.fs.view().daemon(gid) {
            Some(known) => known.name == name,
            None => session.peer.global_id == gid,
        };
        session.is_of(EntityKind::MDS, name) && is_own || planted(Bug::BelieveAnyBeacon)
    }

    /// A server that is new: it stands by. Who had its name before is gone.
    fn mds_boots(&mut self, conn: ConnId, m: MMDSBeacon, clock: Clock) {
        let Some(addrs) = self.sessions.get(&conn).map(|s| s.peer.addrs.clone()) else { return };
        if self.config.mon_bool("mds_enforce_unique_name") {
            while let Some(old) = self.fs.view().daemon_by_name(&m.name).cloned() {
                self.say(clock, log_level::INFO, format!("{} restarted", named(&old)));
                self.fail_mds(old.gid, clock);
            }
        }
        let info = MdsInfo {
            gid: m.gid,
            name: m.name.clone(),
            addrs,
            mds_features: m.mds_features,
            state_seq: m.seq,
            compat: m.compat.clone(),
            join_fscid: self.wish(&m.fs),
            ..MdsInfo::default()
        };
        self.fs.pending().insert(info);
        self.fs.beacons.insert(m.gid, clock.mono);
        self.fs.set_metadata(m.gid, m.sys_info.clone(), &mut self.batch);
        self.fs.set_health(m.gid, m.health.clone(), &mut self.batch);
        let epoch = self.fs.view().epoch;
        self.answer_beacon(conn, &m, epoch);
    }

    /// What a known server says of itself, if it differs from what is known.
    fn take_beacon(&mut self, known: &MdsInfo, state: MdsState, m: &MMDSBeacon, clock: Clock) {
        let wish = self.wish(&m.fs);
        if (known.state, known.join_fscid, known.is_laggy()) == (state, wish, false) {
            return;
        }
        if known.state != MdsState::ACTIVE && state == MdsState::ACTIVE {
            let fs = self.fs.view().filesystem_of(m.gid).map(|fs| fs.mds.fs_name.clone()).unwrap_or_default();
            self.say(clock, log_level::INFO, format!("{} is now active in filesystem {fs} as rank {}", named(known), known.rank));
        }
        self.fs.pending().modify_daemon(m.gid, |info| {
            (info.state, info.state_seq, info.join_fscid, info.laggy_since) = (state, m.seq, wish, types::UTime::ZERO);
        });
    }

    fn rank_stopped(&mut self, known: &MdsInfo, clock: Clock) {
        if let Some(fs) = self.fs.view().filesystem_of(known.gid) {
            let (name, left) = (fs.mds.fs_name.clone(), fs.mds.in_ranks.len().saturating_sub(1));
            let text = format!("{} finished stopping rank {} in filesystem {name} (now has {left} ranks)", named(known), known.rank);
            self.say(clock, log_level::INFO, text);
        }
        self.fs.pending().stop(known.gid);
    }

    fn note_mds_health(&mut self, known: &MdsInfo, health: &MdsHealth, clock: Clock) {
        if self.fs.health.get(&known.gid) == Some(health) {
            return;
        }
        let old = self.fs.health.get(&known.gid).cloned().unwrap_or_default();
        for gone in old.metrics.iter().filter(|o| health.metrics.iter().all(|n| n.kind != o.kind)) {
            self.say(clock, log_level::INFO, format!("mds.{} is rid of: {}", known.name, gone.message));
        }
        self.fs.set_health(known.gid, health.clone(), &mut self.batch);
    }

    pub(crate) fn on_mds_load_targets(&mut self, conn: ConnId, m: MMDSLoadTargets) {
        let known = self.fs.map.daemon(m.gid);
        let holds = known.is_some_and(|i| i.rank >= 0 && i.export_targets != m.targets && self.is_mds(conn, m.gid, &i.name));
        if holds {
            self.fs.pending().modify_daemon(m.gid, |info| info.export_targets = m.targets);
        }
    }

    /// The file system that a server would rather serve.
    fn wish(&self, name: &str) -> FsId {
        self.fs.fscid(name).unwrap_or(NO_FS)
    }

    fn answer_beacon(&mut self, conn: ConnId, m: &MMDSBeacon, epoch: Epoch) {
        let answer = MMDSBeacon {
            paxos: Paxos::at(epoch.into()),
            fsid: self.options.fsid,
            gid: m.gid,
            state: m.state,
            seq: m.seq,
            name: m.name.clone(),
            mds_features: features::SUPPORTED,
            ..MMDSBeacon::default()
        };
        self.send(conn, 0, &answer);
    }

    fn send_null_mdsmap(&mut self, conn: ConnId) {
        let map = MdsMap::null();
        let message = MMDSMap { fsid: self.options.fsid, epoch: map.epoch, map: map.to_bytes(self.features(conn)), ..MMDSMap::default() };
        self.send(conn, 0, &message);
    }
}
