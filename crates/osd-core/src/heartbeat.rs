//! Pings between OSDs: answered always, sent to a few that are up.

use crate::event::{ConnId, Effect};
use crate::osd::Osd;
use base::{Clock, Stamp};
use messages::osd_ping::{SpanNs, ping_op};
use messages::{MOSDFailure, MOSDPing, Message, Paxos};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityKind, EntityName, OsdId, UTime, features};

/// Pings are padded to this (`osd_heartbeat_min_size`), so that networks that lose big frames are noticed.
const PING_SIZE: u32 = 2000;

/// When we last heard of whom.
#[derive(Debug, Default)]
pub struct Heartbeats {
    peers: BTreeMap<OsdId, Heard>,
    last_sent: Option<Stamp>,
}

#[derive(Debug, Clone, Copy)]
struct Heard {
    since: Stamp,
    reported: bool,
}

impl Heartbeats {
    pub fn peers(&self) -> Vec<OsdId> {
        self.peers.keys().copied().collect()
    }
}

impl Osd {
    /// Another OSD asks whether we live.
    pub(crate) fn ping(&mut self, conn: ConnId, peer: EntityName, m: &MOSDPing, clock: Clock, out: &mut Vec<Effect>) {
        match m.op {
            ping_op::PING => {
                let mut reply = MOSDPing {
                    fsid: self.cluster_fsid,
                    map_epoch: self.sh.map.epoch,
                    op: ping_op::PING_REPLY,
                    ping_stamp: m.ping_stamp,
                    up_from: self.boot.up_from,
                    mono_ping_stamp: m.mono_ping_stamp,
                    mono_send_stamp: SpanNs(clock.mono.0 as i64),
                    ..MOSDPing::default()
                };
                reply.pad_to(m.min_message_size());
                out.push(Effect::Send { conn, msg: reply.encode(features::SUPPORTED) });
                if m.map_epoch > self.sh.map.epoch {
                    self.want_maps(out);
                }
            }
            ping_op::PING_REPLY if peer.kind == EntityKind::OSD => self.pong(peer.num as OsdId, m, clock, out),
            // The map will say so too, and why.
            ping_op::YOU_DIED => self.want_maps(out),
            _ => {}
        }
    }

    /// Another OSD lives.
    pub(crate) fn pong(&mut self, from: OsdId, m: &MOSDPing, clock: Clock, out: &mut Vec<Effect>) {
        if m.op != ping_op::PING_REPLY {
            return;
        }
        if let Some(heard) = self.heartbeats.peers.get_mut(&from) {
            let was_reported = std::mem::replace(heard, Heard { since: clock.mono, reported: false }).reported;
            if was_reported {
                self.report_failure(from, messages::osd_mon::failure_flag::ALIVE, 0, out);
            }
        }
        if m.map_epoch > self.sh.map.epoch {
            self.want_maps(out);
        }
    }

    fn report_failure(&self, osd: OsdId, flags: u8, failed_for_s: i32, out: &mut Vec<Effect>) {
        let msg = MOSDFailure {
            paxos: Paxos::at(self.sh.map.epoch.into()),
            fsid: self.cluster_fsid,
            target_osd: osd,
            target_addrs: self.sh.map.client_addrs.get(osd as usize).cloned().unwrap_or_default(),
            epoch: self.sh.map.epoch,
            flags,
            failed_for_s,
        };
        out.push(Effect::SendMon(msg.encode(features::SUPPORTED)));
    }

    /// Sends pings when it is time, and tells the monitor of those that don't answer.
    pub(crate) fn heartbeat_tick(&mut self, clock: Clock, out: &mut Vec<Effect>) {
        let period = Duration::from_secs(self.sh.config.int("osd_heartbeat_interval").max(1));
        if !self.boot.is_active() || self.heartbeats.last_sent.is_some_and(|at| clock.mono.since(at) < period) {
            return;
        }
        self.heartbeats.last_sent = Some(clock.mono);
        let (map, me) = (self.sh.map.clone(), self.sh.whoami);
        let wanted: Vec<OsdId> = {
            // Neighbours by number, going round: with everybody doing so each is pinged by as many.
            let others: Vec<OsdId> = map.osds().filter(|osd| *osd != me && map.is_up(*osd)).collect();
            let first = others.partition_point(|osd| *osd < me);
            let n = (self.sh.config.int("osd_heartbeat_min_peers") as usize).min(others.len());
            (0..n).map(|i| others[(first + i) % others.len()]).collect()
        };
        self.heartbeats.peers.retain(|osd, _| wanted.contains(osd));
        let grace = Duration::from_secs(self.sh.config.int("osd_heartbeat_grace").max(1));
        for osd in wanted {
            let heard = *self.heartbeats.peers.entry(osd).or_insert(Heard { since: clock.mono, reported: false });
            let silent = clock.mono.since(heard.since);
            if silent > grace {
                self.heartbeats.peers.insert(osd, Heard { reported: true, ..heard });
                self.report_failure(osd, messages::osd_mon::failure_flag::FAILED, silent.as_secs() as i32, out);
            }
            let mut ping = MOSDPing {
                fsid: self.cluster_fsid,
                map_epoch: map.epoch,
                op: ping_op::PING,
                ping_stamp: UTime::from_wall_ns(clock.wall_ns),
                up_from: self.boot.up_from,
                mono_ping_stamp: SpanNs(clock.mono.0 as i64),
                mono_send_stamp: SpanNs(clock.mono.0 as i64),
                ..MOSDPing::default()
            };
            ping.pad_to(PING_SIZE);
            let addrs = map.hb_back_addrs[osd as usize].clone();
            out.push(Effect::SendHeartbeat { osd, addrs, msg: ping.encode(features::SUPPORTED) });
        }
    }
}
