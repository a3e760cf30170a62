//! OSDs come up, say that they live, want things noted, and go.

use crate::Mon;
use crate::planted::{Bug, planted};
use crate::session::ConnId;
use base::Clock;
use denc::DencError;
use maps::map_flags;
use maps::osd_state;
use messages::*;
use types::{Epoch, OsdId, UTime, features};

/// A weight of one.
const IN: u32 = 0x1_0000;

impl Mon {
    pub(crate) fn dispatch_osd(&mut self, conn: ConnId, raw: &RawMessage, clock: Clock) -> Result<(), DencError> {
        let Some(osd) = self.sessions.get(&conn).and_then(|s| s.osd()) else { return Ok(()) };
        match raw.kind {
            MOSDBoot::KIND => self.on_boot(conn, osd, MOSDBoot::decode(raw)?, clock),
            MOSDAlive::KIND => self.on_alive(conn, osd, &MOSDAlive::decode(raw)?),
            MOSDBeacon::KIND => self.on_beacon(conn, osd, &MOSDBeacon::decode(raw)?, clock),
            MOSDFailure::KIND => self.on_failure(conn, osd, &MOSDFailure::decode(raw)?, clock),
            MOSDMarkMeDown::KIND => self.on_mark_me_down(conn, osd, MOSDMarkMeDown::decode(raw)?, clock),
            MOSDMarkMeDead::KIND => self.on_mark_me_dead(osd, &MOSDMarkMeDead::decode(raw)?),
            MOSDFull::KIND => self.on_full(conn, osd, &MOSDFull::decode(raw)?),
            MOSDPGTemp::KIND => self.on_pg_temp(conn, osd, MOSDPGTemp::decode(raw)?),
            MOSDPGCreated::KIND => self.osd.pg_created(MOSDPGCreated::decode(raw)?.pgid, &mut self.batch),
            MOSDPGReadyToMerge::KIND => self.on_ready_to_merge(&MOSDPGReadyToMerge::decode(raw)?),
            _ => {}
        }
        Ok(())
    }

    /// True if the sender is the daemon that the map knows as up, not an earlier one of that number.
    fn is_current(&self, conn: ConnId, osd: OsdId) -> bool {
        let Some(session) = self.sessions.get(&conn) else { return false };
        self.osd.map.is_up(osd) && same_daemon(&self.osd.map.client_addrs[osd as usize], &session.peer.addrs)
    }

    fn on_boot(&mut self, conn: ConnId, osd: OsdId, m: MOSDBoot, clock: Clock) {
        let sb = &m.superblock;
        let addrs = match self.sessions.get(&conn) {
            Some(s) => s.peer.addrs.clone(),
            None => return,
        };
        if sb.cluster_fsid != self.options.fsid || addrs.front().is_blank_ip() {
            return;
        }
        let map = &self.osd.map;
        if osd >= map.max_osd || !map.exists(osd) {
            self.say(clock, log_level::WARN, format!("ignoring boot of osd.{osd}, which is not in the map (see `ceph osd new`)"));
            return;
        }
        if sb.newest_map > map.epoch {
            // Epochs would come to mean two things.
            let text = format!(
                "ignoring boot of osd.{osd}: it has maps up to epoch {}, the monitor's newest is {}: this monitor's store is older than the OSD (was \
                 a copy put back?)",
                sb.newest_map, map.epoch
            );
            self.say(clock, log_level::ERROR, text);
            return;
        }
        if !features::has(m.osd_features, features::SERVER_PACIFIC) {
            self.say(clock, log_level::INFO, format!("ignoring boot of osd.{osd}: its release is older than Pacific"));
            return;
        }
        let known = map.osd_uuid[osd as usize];
        if !known.is_zero() && known != sb.osd_fsid {
            let text = format!("ignoring boot of osd.{osd} with uuid {}: the map knows it with {known}", sb.osd_fsid);
            self.say(clock, log_level::WARN, text);
            return;
        }
        if map.is_up(osd) {
            let i = osd as usize;
            if same_daemon(&map.client_addrs[i], &addrs) && same_daemon(&map.cluster_addrs[i], &m.cluster_addrs) {
                // It is up already; it only has to learn that.
                self.send_latest(conn, sb.current_epoch + 1);
                return;
            }
            // Another incarnation: the former one goes down first, in an epoch of its own.
            self.osd.pending().new_state.insert(osd, osd_state::UP);
            self.commit_osdmap(clock);
        }
        let map = &self.osd.map;
        let (i, state) = (osd as usize, map.state(osd));
        let info = map.osd_info[i];
        if info.up_from > m.paxos.version as Epoch && m.paxos.version != 0 && same_daemon(&map.client_addrs[i], &addrs) {
            self.send_latest(conn, sb.current_epoch + 1);
            return;
        }
        if map.has_flag(map_flags::NOUP) || state & osd_state::NOUP != 0 {
            self.send_latest(conn, sb.current_epoch + 1);
            return;
        }
        self.mark_up(osd, addrs, m);
        self.osd.note_beacon(osd, clock.mono, 0);
    }

    fn mark_up(&mut self, osd: OsdId, addrs: types::EntityAddrVec, m: MOSDBoot) {
        let sb = &m.superblock;
        let (epoch, i) = (self.osd.map.epoch, osd as usize);
        let (state, info, known) = (self.osd.map.state(osd), self.osd.map.osd_info[i], self.osd.map.osd_uuid[i]);
        let noin = self.osd.map.has_flag(map_flags::NOIN) || state & osd_state::NOIN != 0;
        let mut xinfo = self.osd.map.osd_xinfo[i];
        let inc = self.osd.pending();
        inc.new_up_client.insert(osd, addrs);
        inc.new_up_cluster.insert(osd, m.cluster_addrs);
        inc.new_hb_back_up.insert(osd, m.hb_back_addrs);
        inc.new_hb_front_up.insert(osd, m.hb_front_addrs);
        if known != sb.osd_fsid {
            inc.new_uuid.insert(osd, sb.osd_fsid);
        }
        if sb.newest_map == 0 && info.up_from > info.lost_at {
            // It comes back without anything: what it had is lost.
            inc.new_lost.insert(osd, epoch);
        }
        if (sb.mounted, sb.clean_thru) > (info.last_clean_begin, info.last_clean_end) {
            inc.new_last_clean_interval.insert(osd, (sb.mounted, sb.clean_thru));
        }
        xinfo.features = m.osd_features;
        let comes_in = state & (osd_state::AUTOOUT | osd_state::NEW) != 0;
        if comes_in && !noin {
            let weight = if xinfo.old_weight > 0 { xinfo.old_weight } else { IN };
            xinfo.old_weight = 0;
            inc.new_weight.insert(osd, weight);
        }
        inc.new_xinfo.insert(osd, xinfo);
        let mut metadata = m.metadata;
        let front = self.osd.peek_pending().expect("just made").new_up_client[&osd].to_string();
        metadata.entry("front_addr".into()).or_insert(front);
        self.osd.set_metadata(osd, Some(metadata), &mut self.batch);
    }

    fn on_alive(&mut self, conn: ConnId, osd: OsdId, m: &MOSDAlive) {
        if !self.is_current(conn, osd) {
            return;
        }
        if self.osd.map.osd_info[osd as usize].up_thru >= m.want {
            self.send_latest(conn, m.paxos.version as Epoch + 1);
            return;
        }
        self.raise_up_thru(osd, m.paxos.version as Epoch);
    }
    fn raise_up_thru(&mut self, osd: OsdId, epoch: Epoch) {
        let epoch = if planted(Bug::UpThruAhead) { self.osd.map.epoch + 1 } else { epoch.min(self.osd.map.epoch) };
        if self.osd.map.osd_info[osd as usize].up_thru < epoch {
            let slot = self.osd.pending().new_up_thru.entry(osd).or_default();
            *slot = epoch.max(*slot);
        }
    }

    fn on_beacon(&mut self, conn: ConnId, osd: OsdId, m: &MOSDBeacon, clock: Clock) {
        if !self.is_current(conn, osd) {
            // It thinks that it is up and isn't: it must hear of that.
            self.send_latest(conn, m.paxos.version as Epoch + 1);
            return;
        }
        self.osd.note_beacon(osd, clock.mono, m.min_last_epoch_clean);
        let known = self.osd.map.osd_xinfo[osd as usize];
        if m.last_purged_snaps_scrub != UTime::ZERO && known.last_purged_snaps_scrub != m.last_purged_snaps_scrub {
            let mut xinfo = known;
            xinfo.last_purged_snaps_scrub = m.last_purged_snaps_scrub;
            self.osd.pending().new_xinfo.insert(osd, xinfo);
        }
    }

    fn on_mark_me_down(&mut self, conn: ConnId, osd: OsdId, m: MOSDMarkMeDown, clock: Clock) {
        let fits = m.fsid == self.options.fsid && m.target_osd == osd;
        if fits && self.is_current(conn, osd) && self.can_go_down(osd) {
            let dead_epoch = self.osd.map.epoch;
            let mut xinfo = self.osd.map.osd_xinfo[osd as usize];
            let inc = self.osd.pending();
            inc.new_state.insert(osd, osd_state::UP);
            if m.down_and_dead {
                xinfo.dead_epoch = dead_epoch;
                inc.new_xinfo.insert(osd, xinfo);
            }
            self.say(clock, log_level::INFO, format!("osd.{osd} marked itself down{}", if m.down_and_dead { " and dead" } else { "" }));
        }
        if m.request_ack {
            self.send(conn, 0, &MOSDMarkMeDown { request_ack: false, ..m });
        }
    }

    fn on_mark_me_dead(&mut self, osd: OsdId, m: &MOSDMarkMeDead) {
        if m.fsid != self.options.fsid || m.target_osd != osd || !self.osd.map.exists(osd) || self.osd.map.is_up(osd) {
            return;
        }
        let mut xinfo = self.osd.map.osd_xinfo[osd as usize];
        xinfo.dead_epoch = m.epoch;
        self.osd.pending().new_xinfo.insert(osd, xinfo);
    }

    fn on_full(&mut self, conn: ConnId, osd: OsdId, m: &MOSDFull) {
        const MASK: u32 = osd_state::FULL | osd_state::NEARFULL | osd_state::BACKFILLFULL;
        if !self.is_current(conn, osd) {
            return;
        }
        let change = (self.osd.map.state(osd) ^ m.state) & MASK;
        if change != 0 {
            *self.osd.pending().new_state.entry(osd).or_default() ^= change;
        } else {
            self.send_latest(conn, m.map_epoch + 1);
        }
    }

    fn on_pg_temp(&mut self, conn: ConnId, osd: OsdId, m: MOSDPGTemp) {
        if !self.is_current(conn, osd) {
            return;
        }
        let mut work = maps::Placement::default();
        let mut changed = false;
        for (pg, want) in m.pg_temp {
            let map = &self.osd.map;
            if !map.pools.contains_key(&pg.pool) || (!m.forced && map.pg_to_up_acting(pg, &mut work).acting_primary != osd) {
                continue;
            }
            let now = map.pg_temp.get(&pg);
            let has_primary = map.primary_temp.contains_key(&pg);
            if now.map_or(&[][..], |v| v) == want && !has_primary {
                continue;
            }
            let inc = self.osd.pending();
            inc.new_pg_temp.insert(pg, want);
            if has_primary {
                inc.new_primary_temp.insert(pg, -1);
            }
            changed = true;
        }
        if changed {
            self.raise_up_thru(osd, m.map_epoch);
        } else {
            self.send_latest(conn, m.map_epoch + 1);
        }
    }

    /// Half of a merge is quiet. Pools are not merged by this monitor's own decision yet, so this undoes a wish of another's.
    fn on_ready_to_merge(&mut self, m: &MOSDPGReadyToMerge) {
        let Some(pool) = self.osd.map.pools.get(&m.pgid.pool) else { return };
        if pool.pg_num_pending >= pool.pg_num || m.pgid.seed != pool.pg_num_pending {
            return;
        }
        // Said of an earlier attempt: groups may have served since, and be further.
        if m.paxos.version < u64::from(pool.last_force_op_resend_prenautilus) {
            return;
        }
        let epoch = self.osd.map.epoch;
        let pool = self.osd.pool_mut(m.pgid.pool).expect("we looked");
        if m.ready {
            pool.pg_num -= 1;
            pool.pgp_num = pool.pgp_num.min(pool.pg_num);
            pool.last_pg_merge_meta = maps::pool::MergeMeta {
                source_pgid: m.pgid,
                ready_epoch: epoch,
                last_epoch_started: m.last_epoch_started,
                last_epoch_clean: m.last_epoch_clean,
                source_version: m.source_version,
                target_version: m.target_version,
            };
        } else {
            pool.pg_num_pending = pool.pg_num;
        }
        pool.last_force_op_resend = epoch + 1;
        pool.last_force_op_resend_prenautilus = epoch + 1;
    }
}

/// True if both sets of addresses are one daemon's: the same msgr2 address, nonce included.
fn same_daemon(a: &types::EntityAddrVec, b: &types::EntityAddrVec) -> bool {
    a.msgr2() == b.msgr2() && !a.is_empty()
}
