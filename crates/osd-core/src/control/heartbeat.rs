//! Pings between OSDs, on both networks: answered always, sent to members of our groups and to so many others that they are a few at least.
//!
//! ```text
//!  every osd_heartbeat_interval: PING to hb_front and to hb_back of each peer
//!  nothing heard on one of them for osd_heartbeat_grace ──▶ MOSDFailure to the monitor at that moment, again each interval
//!  its connection is cut ──▶ PING at once, and after growing waits (see [`super::cut`])
//!  its port, or that for members' messages, refuses ──▶ MOSDFailure, immediate, again each interval
//!  heard on both again ──▶ MOSDFailure that takes it back
//! ```
//! Two OSDs that can't hear each other must not be marked down by the same map, again and again: each would find no other up, boot, and both would begin
//! to wait for the other at the same moment. So of two that never heard each other in their present lives the one with the lower number reports first.
//! It stays up; the other one is marked down before it reports, and stays away until it hears it.
//!
//! An OSD that was marked down and lives pings too, and reports no other: it wants to know whether it is heard (see [`super::boot`]).

use super::cut::Cut;
use crate::control::Control;
use crate::event::{ConnId, Effect, HbNet, Level};
use crate::joint::ToShard;
use crate::planted::{Bug, planted};
use crate::shared::EventCx;
use base::{Clock, Stamp};
use maps::OsdMap;
use messages::osd_mon::failure_flag;
use messages::osd_ping::{SpanNs, ping_op};
use messages::{MOSDFailure, MOSDPing, Message, Paxos, RawMessage};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use types::{EntityAddrVec, EntityKind, EntityName, Epoch, OsdId, PeerPings, PingTimes, UTime, features};

/// When we last heard of each peer.
#[derive(Debug, Default)]
pub struct Heartbeats {
    peers: BTreeMap<OsdId, Heard>,
    last_sent: Option<Stamp>,
    /// When the peers' silence was last looked at.
    looked: Option<Stamp>,
    /// When the next peer will have been silent for too long, as far as was known when it was last looked at: an answer puts it off. Asked for after
    /// each event, so it is kept.
    due: Option<Stamp>,
    /// When the next peer whose connection was cut is dialled again.
    dial_at: Option<Stamp>,
}

/// Pings kept for their times: a quarter of an hour's at the usual pace.
const TIMES_MAX: usize = 256;
/// Of what the times are told, seconds.
const WINDOWS_S: [u64; 3] = [60, 300, 900];

/// What came back over one network.
#[derive(Debug)]
struct Answers {
    last: Stamp,
    /// When, and after how many microseconds; the newest last.
    took: VecDeque<(Stamp, u32)>,
}

impl Answers {
    fn new(now: Stamp) -> Self {
        Self { last: now, took: VecDeque::new() }
    }
    fn note(&mut self, now: Stamp, us: u32) {
        self.last = now;
        if self.took.len() == TIMES_MAX {
            self.took.pop_front();
        }
        self.took.push_back((now, us));
    }
    fn times(&self, now: Stamp) -> PingTimes {
        let mut times = PingTimes { last_us: self.took.back().map_or(0, |t| t.1), ..PingTimes::default() };
        for (i, window) in WINDOWS_S.into_iter().enumerate() {
            let within = || self.took.iter().filter(|(at, _)| now.since(*at) <= Duration::from_secs(window)).map(|t| t.1);
            let (n, sum) = within().fold((0_u64, 0_u64), |(n, sum), us| (n + 1, sum + u64::from(us)));
            times.avg_us[i] = sum.checked_div(n).unwrap_or(0) as u32;
            times.min_us[i] = within().min().unwrap_or(0);
            times.max_us[i] = within().max().unwrap_or(0);
        }
        times
    }
}

/// One peer: a change of its `up_from` makes it another.
#[derive(Debug)]
struct Heard {
    up_from: Epoch,
    front: Answers,
    back: Answers,
    reported: bool,
    /// When it was reported as refusing connections.
    refused: Option<Stamp>,
    cut: Cut,
    /// Seconds since 1970 of the last answer; 0: none yet.
    last_s: u32,
}

impl Heard {
    fn new(up_from: Epoch, now: Stamp) -> Self {
        let (front, back) = (Answers::new(now), Answers::new(now));
        Self { up_from, front, back, reported: false, refused: None, cut: Cut::default(), last_s: 0 }
    }
    /// How long one of the networks has been silent.
    fn silent(&self, now: Stamp) -> Duration {
        now.since(self.silent_since())
    }
    fn silent_since(&self) -> Stamp {
        self.front.last.min(self.back.last)
    }
    /// True once it answered on both networks.
    fn is_known(&self) -> bool {
        !self.front.took.is_empty() && !self.back.took.is_empty()
    }
    /// When its silence is reported. `goes_first`: it may report ours before, as its number is the lower one. Half a grace is more than the monitors
    /// take for a map.
    fn due_at(&self, grace: Duration, goes_first: bool) -> Stamp {
        let more = if goes_first && !self.is_known() { grace / 2 } else { Duration::ZERO };
        self.silent_since() + grace + more + Duration::from_nanos(1)
    }
}

/// True if the map has this OSD up, and in this life: what is down, or another life by now, is neither dialled nor reported for the sake of this one.
fn is_that_life(map: &OsdMap, osd: OsdId, up_from: Epoch) -> bool {
    map.is_up(osd) && map.osd_info[osd as usize].up_from == up_from
}

impl Heartbeats {
    pub fn peers(&self) -> Vec<OsdId> {
        self.peers.keys().copied().collect()
    }
    fn note_dials(&mut self) {
        self.dial_at = self.peers.values().filter_map(|h| h.cut.due_at()).min();
    }
    /// How long pings took of late, for the OSD's statistics.
    pub fn times(&self, now: Stamp) -> BTreeMap<OsdId, PeerPings> {
        let times = |h: &Heard| PeerPings { last_update_s: h.last_s, back: h.back.times(now), front: h.front.times(now) };
        self.peers.iter().filter(|(_, h)| h.last_s != 0).map(|(osd, h)| (*osd, times(h))).collect()
    }
}

impl Control {
    /// A message on a connection of one of the heartbeat networks.
    pub(crate) fn heartbeat(&mut self, conn: ConnId, peer: EntityName, net: HbNet, raw: &RawMessage, cx: &mut EventCx<'_>) {
        match MOSDPing::decode(raw) {
            Ok(m) => self.ping(conn, peer, net, &m, cx),
            Err(error) => {
                cx.out.push(Effect::Log { level: Level::Warn, text: format!("{peer}: a ping that can't be read: {error}") });
                cx.out.push(Effect::Close(conn));
            }
        }
    }

    /// Another OSD asks whether we live, or says that it does.
    pub(super) fn ping(&mut self, conn: ConnId, peer: EntityName, net: HbNet, m: &MOSDPing, cx: &mut EventCx<'_>) {
        if !self.cluster_fsid.is_zero() && m.fsid != self.cluster_fsid {
            return;
        }
        if peer.kind == EntityKind::OSD {
            if m.map_epoch > self.map.epoch {
                self.want_maps(cx);
            }
            self.share_maps(peer.num as OsdId, m.map_epoch, cx);
        }
        match m.op {
            ping_op::PING => {
                let from = peer.num as OsdId;
                if peer.kind == EntityKind::OSD {
                    self.heard_clock(from, m, cx.clock.mono);
                }
                let mut reply = MOSDPing {
                    fsid: self.cluster_fsid,
                    map_epoch: self.map.epoch,
                    op: ping_op::PING_REPLY,
                    ping_stamp: m.ping_stamp,
                    up_from: self.boot.up_from,
                    mono_ping_stamp: m.mono_ping_stamp,
                    mono_send_stamp: SpanNs(cx.clock.mono.0 as i64),
                    delta_ub: self.clocks.ours_ahead(from, m.up_from),
                    ..MOSDPing::default()
                };
                reply.pad_to(m.min_message_size());
                cx.out.push(Effect::Send { conn, msg: reply.encode(features::SUPPORTED) });
                let map = &self.map;
                let down_at = map.osd_info.get(from as usize).map_or(Epoch::MAX, |i| i.down_at);
                if peer.kind == EntityKind::OSD && map.epoch > 0 && !map.is_up(from) && down_at > m.map_epoch {
                    // It doesn't know yet that the map has it down.
                    let died = MOSDPing { op: ping_op::YOU_DIED, ..reply };
                    cx.out.push(Effect::Send { conn, msg: died.encode(features::SUPPORTED) });
                }
            }
            ping_op::PING_REPLY if peer.kind == EntityKind::OSD => self.pong(peer.num as OsdId, net, m, cx),
            // The map will say so too, and why.
            ping_op::YOU_DIED => self.want_maps(cx),
            _ => {}
        }
    }

    /// Another OSD says which map it has, and is sent what it lacks. One that has none yet asks the monitors.
    fn share_maps(&mut self, osd: OsdId, has: Epoch, cx: &mut EventCx<'_>) {
        let (newest, now) = (self.map.epoch, cx.clock.mono);
        if has == 0 || has >= newest || !self.map.is_up(osd) || !self.boot.is_active() {
            return;
        }
        let have = self.shared_maps.reaches(osd, has, now, self.heartbeat_interval());
        if have >= newest {
            return;
        }
        let Some((msg, upto)) = self.maps.borrow().message_for_osd(self.cluster_fsid, have, newest) else { return };
        self.shared_maps.sent(osd, upto, now);
        let addrs = self.map.cluster_addrs[osd as usize].clone();
        cx.out.push(Effect::SendOsd { osd, addrs, msg });
    }

    /// How far another OSD's clock is: shards want it for leases.
    fn heard_clock(&mut self, osd: OsdId, m: &MOSDPing, now: Stamp) {
        let (up_from, sent) = (m.up_from, m.mono_send_stamp);
        self.clocks.heard(osd, up_from, sent, now);
        // A ping may be meant for an earlier life of ours; an answer is one to a ping of this life.
        let most = m.delta_ub.filter(|_| m.op == ping_op::PING_REPLY);
        self.to_shard.push(ToShard::Clock { osd, up_from, sent, most, now });
    }

    /// Another OSD lives.
    fn pong(&mut self, from: OsdId, net: HbNet, m: &MOSDPing, cx: &mut EventCx<'_>) {
        self.heard_clock(from, m, cx.clock.mono);
        let grace = self.heartbeat_grace();
        let Some(heard) = self.heartbeats.peers.get_mut(&from) else { return };
        let us = (cx.clock.mono.0 as i64).saturating_sub(m.mono_ping_stamp.0).clamp(0, i64::from(u32::MAX) * 1000) / 1000;
        heard.cut.heard();
        heard.last_s = UTime::from_wall_ns(cx.clock.wall_ns).sec;
        let answers = if net == HbNet::Front { &mut heard.front } else { &mut heard.back };
        answers.note(cx.clock.mono, us as u32);
        if heard.reported && heard.silent(cx.clock.mono) <= grace {
            (heard.reported, heard.refused) = (false, None);
            self.report_failure(from, failure_flag::ALIVE, 0, cx);
        }
        self.boot_if_healthy(cx);
    }

    /// How many of the OSDs that we ping answered on both networks since then, and how many there are.
    pub(super) fn heard_since(&self, since: Stamp) -> (usize, usize) {
        let peers = self.heartbeats.peers.values();
        (peers.filter(|h| h.front.last > since && h.back.last > since).count(), self.heartbeats.peers.len())
    }
    /// Nothing was heard, and all are pinged next.
    pub(super) fn forget_pings(&mut self) {
        self.heartbeats.peers.clear();
        self.heartbeats.last_sent = None;
    }

    fn heartbeat_grace(&self) -> Duration {
        Duration::from_secs(self.config.int("osd_heartbeat_grace").max(1))
    }

    fn report_failure(&self, osd: OsdId, flags: u8, failed_for_s: i32, cx: &mut EventCx<'_>) {
        let msg = MOSDFailure {
            paxos: Paxos::at(self.map.epoch.into()),
            fsid: self.cluster_fsid,
            target_osd: osd,
            target_addrs: self.map.client_addrs.get(osd as usize).cloned().unwrap_or_default(),
            epoch: self.map.epoch,
            flags,
            failed_for_s,
        };
        cx.out.push(Effect::SendMon(msg.encode(features::SUPPORTED)));
    }

    /// The OSD that we ping at this address.
    fn pinged_at(&self, addrs: &EntityAddrVec) -> Option<OsdId> {
        let map = &self.map;
        let at = |osd: &OsdId| {
            let i = *osd as usize;
            map.is_up(*osd) && (map.hb_back_addrs[i] == *addrs || map.hb_front_addrs[i] == *addrs)
        };
        self.heartbeats.peers.keys().find(|osd| at(osd)).copied()
    }

    /// A connection was cut, or a dial failed without being refused: a ping dials again, at once or after a wait.
    pub(crate) fn heartbeat_cut(&mut self, net: HbNet, addrs: &EntityAddrVec, cx: &mut EventCx<'_>) {
        let Some(osd) = self.pinged_at(addrs) else { return };
        let heard = self.heartbeats.peers.get_mut(&osd).expect("found among them");
        if !self.boot.pings() || heard.reported {
            return;
        }
        if heard.cut.was_cut(net, cx.clock.mono) {
            let msg = self.ping_for(osd, cx.clock);
            cx.out.push(Effect::SendHeartbeat { osd, net, addrs: addrs.clone(), msg });
        }
        self.heartbeats.note_dials();
    }
    /// Dials those whose wait after a cut is over.
    pub(crate) fn dial_cut(&mut self, cx: &mut EventCx<'_>) {
        let now = cx.clock.mono;
        if self.heartbeats.dial_at.is_none_or(|at| at > now) {
            return;
        }
        let map = self.map.clone();
        let due = self.heartbeats.peers.iter_mut().filter_map(|(osd, h)| {
            let net = h.cut.take_due(now)?;
            (!h.reported && is_that_life(&map, *osd, h.up_from)).then_some((*osd, net))
        });
        let due: Vec<_> = due.collect();
        self.heartbeats.note_dials();
        for (osd, net) in due.into_iter().filter(|_| self.boot.pings()) {
            let at = if net == HbNet::Back { &map.hb_back_addrs } else { &map.hb_front_addrs };
            let msg = self.ping_for(osd, cx.clock);
            cx.out.push(Effect::SendHeartbeat { osd, net, addrs: at[osd as usize].clone(), msg });
        }
    }

    /// Nothing listens where the map says that an OSD hears other OSDs: it is dead, not just silent.
    pub(crate) fn peer_refused(&mut self, addrs: &EntityAddrVec, cx: &mut EventCx<'_>) {
        let map = &self.map;
        let is_at = |osd: usize| [&map.cluster_addrs, &map.hb_back_addrs, &map.hb_front_addrs].iter().any(|at| at[osd] == *addrs);
        let Some(osd) = map.osds().find(|osd| map.is_up(*osd) && is_at(*osd as usize)) else { return };
        let (up_from, interval) = (map.osd_info[osd as usize].up_from, self.heartbeat_interval());
        // One that was never pinged, or not in this life, may be gone all the same.
        let heard = self.heartbeats.peers.entry(osd).or_insert_with(|| Heard::new(up_from, cx.clock.mono));
        if heard.up_from != up_from {
            *heard = Heard::new(up_from, cx.clock.mono);
        }
        // Said again while it refuses: monitors that elect forget what they were about to commit, and by silence alone OSDs of one host
        // never suffice.
        let is_due = heard.refused.is_none_or(|at| cx.clock.mono.since(at) >= interval);
        if self.boot.is_active() && is_due {
            (heard.reported, heard.refused) = (true, Some(cx.clock.mono));
            self.report_failure(osd, failure_flag::FAILED | failure_flag::IMMEDIATE, 0, cx);
        }
    }

    fn ping_for(&self, osd: OsdId, clock: Clock) -> RawMessage {
        let map = &self.map;
        let mut ping = MOSDPing {
            fsid: self.cluster_fsid,
            map_epoch: map.epoch,
            op: ping_op::PING,
            ping_stamp: UTime::from_wall_ns(clock.wall_ns),
            up_from: self.boot.up_from,
            mono_ping_stamp: SpanNs(clock.mono.0 as i64),
            mono_send_stamp: SpanNs(clock.mono.0 as i64),
            delta_ub: self.clocks.ours_ahead(osd, map.osd_info[osd as usize].up_from),
            ..MOSDPing::default()
        };
        ping.pad_to(self.config.int("osd_heartbeat_min_size").min(1 << 16) as u32);
        ping.encode(features::SUPPORTED)
    }

    /// True if it may say of another OSD that it is silent.
    fn may_report(&self) -> bool {
        self.boot.pings() && !self.boot.is_unhealthy()
    }
    /// When to look at the peers' silence, or to dial one again, if that is before the next ping.
    pub(crate) fn heartbeats_due_at(&self) -> Option<Stamp> {
        [self.heartbeats.due, self.heartbeats.dial_at].into_iter().flatten().min()
    }
    /// Tells the monitor of peers that have been silent for too long: of each once, and again if `again`.
    pub(crate) fn report_silent(&mut self, again: bool, cx: &mut EventCx<'_>) {
        let now = cx.clock.mono;
        let awake = self.heartbeat_interval() * 2;
        // Time in which this OSD stood still itself is no silence of others: their answers lie unread.
        let slept = self.heartbeats.looked.replace(now).map_or(Duration::ZERO, |at| now.since(at)).saturating_sub(awake);
        if !slept.is_zero() {
            for answers in self.heartbeats.peers.values_mut().flat_map(|h| [&mut h.front, &mut h.back]) {
                answers.last = answers.last + slept.min(now.since(answers.last));
            }
        }
        self.heartbeats.due = None;
        if !self.may_report() {
            return;
        }
        let (grace, map, me) = (self.heartbeat_grace(), &self.map, self.whoami);
        let due_at = |osd: OsdId, h: &Heard| h.due_at(grace, osd < me);
        let mut silent = Vec::new();
        for (osd, h) in self.heartbeats.peers.iter_mut().filter(|(osd, h)| due_at(**osd, h) <= now && (again || !h.reported)) {
            h.reported = true;
            if is_that_life(map, *osd, h.up_from) {
                silent.push((*osd, h.silent(now)));
            }
        }
        let unreported = self.heartbeats.peers.iter().filter(|(_, h)| !h.reported);
        self.heartbeats.due = unreported.map(|(osd, h)| due_at(*osd, h)).min();
        for (osd, silent) in silent {
            self.report_failure(osd, failure_flag::FAILED, silent.as_secs() as i32, cx);
        }
    }

    fn heartbeat_interval(&self) -> Duration {
        Duration::from_secs(self.config.int("osd_heartbeat_interval").max(1))
    }

    /// True if it is time for pings.
    pub(crate) fn wants_to_ping(&self, now: Stamp) -> bool {
        self.boot.pings()
            && self.heartbeats.last_sent.is_none_or(|at| now.since(at) >= self.heartbeat_interval() || planted(Bug::PingAlways))
    }
    /// Sends pings, to `members` of our groups and to some others, and tells the monitor of those that don't answer.
    pub(crate) fn send_pings(&mut self, members: BTreeSet<OsdId>, cx: &mut EventCx<'_>) {
        self.heartbeats.last_sent = Some(cx.clock.mono);
        let (map, me) = (self.map.clone(), self.whoami);
        let mut wanted = members;
        wanted.retain(|osd| *osd != me && map.is_up(*osd));
        // Neighbours by number, going round: where all do so each is pinged by as many.
        let others: Vec<OsdId> = map.osds().filter(|osd| *osd != me && map.is_up(*osd)).collect();
        let first = others.partition_point(|osd| *osd < me);
        let least = (self.config.int("osd_heartbeat_min_peers") as usize).min(others.len());
        let mut neighbours = others.iter().cycle().skip(first).take(others.len());
        while wanted.len() < least {
            wanted.insert(*neighbours.next().expect("there are as many"));
        }
        self.heartbeats.peers.retain(|osd, _| wanted.contains(osd));
        self.clocks.retain(|osd| map.is_up(osd));
        self.shared_maps.retain(|osd| map.is_up(osd));
        for osd in &wanted {
            let (osd, now) = (*osd, cx.clock.mono);
            let up_from = map.osd_info[osd as usize].up_from;
            let heard = self.heartbeats.peers.entry(osd).or_insert_with(|| Heard::new(up_from, now));
            if heard.up_from != up_from {
                *heard = Heard::new(up_from, now);
            }
        }
        self.report_silent(true, cx);
        for osd in wanted {
            let msg = self.ping_for(osd, cx.clock);
            for (net, addrs) in [(HbNet::Back, &map.hb_back_addrs), (HbNet::Front, &map.hb_front_addrs)] {
                let addrs = addrs[osd as usize].clone();
                if addrs.msgr2().is_some() {
                    cx.out.push(Effect::SendHeartbeat { osd, net, addrs, msg: msg.clone() });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_ping_is_not_the_average() {
        let at = |s: u64| Stamp(s * 1_000_000_000);
        let mut answers = Answers::new(at(0));
        for i in 0..400 {
            answers.note(at(i * 6), if i == 399 { 1_000_000 } else { 100 });
        }
        let times = answers.times(at(2394));
        assert_eq!((times.last_us, times.max_us, times.min_us), (1_000_000, [1_000_000; 3], [100; 3]));
        assert!(times.avg_us[0] < 100_000 && times.avg_us[2] < 7_000, "{times:?}");
        assert_eq!(answers.took.len(), TIMES_MAX);
    }
}
