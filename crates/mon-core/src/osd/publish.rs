//! Giving out OSDMaps: full or step by step, in the encoding that the receiver understands.
//!
//! An epoch is found in steps in proportion to the logarithm of how many are kept, and encoded once for each set of features. A new one
//! takes a look at each session, and a message to each that wants it.

use super::OsdService;
use crate::Mon;
use crate::planted::{Bug, planted};
use crate::session::{ConnId, Sub};
use crate::subs::Served;
use bytes::Bytes;
use denc::Denc;
use maps::{Incremental, OsdMap};
use messages::{MMonGetOSDMap, MOSDMap};
use types::{EntityKind, Epoch, features};

/// Epochs in one message: more follow behind it.
const PER_MESSAGE: Epoch = 40;
/// Re-encoded maps that are kept at a time.
const REENCODED_MAX: usize = 256;

impl OsdService {
    /// An epoch's encoding for a peer with `features`: the canonical one if the peer understands it.
    fn encoded(&mut self, epoch: Epoch, full: bool, features: u64) -> Option<Bytes> {
        let canonical = if full { self.fulls.get(&epoch)? } else { self.incs.get(&epoch)? }.clone();
        let wanted = self.map.features_for_peer(features) & features::MAP_ENCODING;
        if wanted == self.map.canonical_features() & features::MAP_ENCODING {
            return Some(canonical);
        }
        if let Some(bytes) = self.reencoded.get(&(epoch, wanted, full)) {
            return Some(bytes.clone());
        }
        let bytes = if full {
            OsdMap::from_bytes(&canonical).ok()?.encode_with(wanted).0
        } else {
            let mut inc = Incremental::from_bytes(&canonical).ok()?;
            if !inc.crush.is_empty() {
                inc.crush = maps::CrushMap::from_bytes(&inc.crush).ok()?.to_bytes(wanted);
            }
            inc.encode_with(wanted).0
        };
        if self.reencoded.len() >= REENCODED_MAX {
            self.reencoded.clear();
        }
        self.reencoded.insert((epoch, wanted, full), bytes.clone());
        Some(bytes)
    }

    fn message(&self) -> MOSDMap {
        MOSDMap { fsid: self.map.fsid, trim_lower_bound: self.first, newest: self.map.epoch, ..MOSDMap::default() }
    }
    /// The newest full map.
    fn latest(&mut self, features: u64) -> MOSDMap {
        let mut m = self.message();
        let epoch = self.map.epoch;
        m.maps.extend(self.encoded(epoch, true, features).map(|bytes| (epoch, bytes)));
        m
    }
    /// What was asked for, as far as it is there and one message holds it.
    fn asked(&mut self, m: &MMonGetOSDMap, features: u64) -> MOSDMap {
        let mut reply = self.message();
        let (first, last) = (self.first, self.map.epoch);
        let epochs = |from: Epoch, to: Epoch| from.max(first).max(1)..=to.min(last);
        for epoch in epochs(m.full_first, m.full_last).take(PER_MESSAGE as usize) {
            reply.maps.extend(self.encoded(epoch, true, features).map(|bytes| (epoch, bytes)));
        }
        let left = PER_MESSAGE as usize - reply.maps.len();
        for epoch in epochs(m.inc_first, m.inc_last).take(left) {
            reply.incrementals.extend(self.encoded(epoch, false, features).map(|bytes| (epoch, bytes)));
        }
        reply
    }
    /// The next step for a session that wants epochs from `first` on; the epoch to go on with.
    fn step(&mut self, first: Epoch, features: u64) -> (MOSDMap, Epoch) {
        let mut m = self.message();
        let mut next = first;
        if next < self.first.max(1) || !self.incs.contains_key(&next) {
            // Trimmed, or the first epoch of all, which was made whole: begin with a full map.
            next = next.max(self.first);
            if next <= 1 || !planted(Bug::NoWholeMap) {
                m.maps.extend(self.encoded(next, true, features).map(|bytes| (next, bytes)));
            }
            next += 1;
        }
        let last = self.map.epoch.min(next.saturating_add(PER_MESSAGE - 1));
        while next <= last {
            m.incrementals.extend(self.encoded(next, false, features).map(|bytes| (next, bytes)));
            next += 1;
        }
        (m, next)
    }
}

impl Mon {
    pub(crate) fn serve_osdmap(&mut self, conn: ConnId, sub: Sub) -> Served {
        let epoch = self.osd.epoch();
        if sub.next > u64::from(epoch) {
            return Served::Nothing;
        }
        let features = self.features(conn);
        if sub.next == 0 {
            self.send_newest(conn, features);
        } else {
            self.send_maps_from(conn, sub.next as Epoch, sub.onetime);
        }
        Served::Up(u64::from(epoch) + 1)
    }

    /// An OSD whose map is not what a change was made for asks for that epoch as a whole.
    pub(crate) fn on_get_osdmap(&mut self, conn: ConnId, m: &MMonGetOSDMap) {
        let features = self.features(conn);
        let reply = self.osd.asked(m, features);
        self.send(conn, 0, &reply);
    }

    /// Sends all epochs from `first` on; only one message of them if `once`.
    pub(crate) fn send_maps_from(&mut self, conn: ConnId, first: Epoch, once: bool) {
        let features = self.features(conn);
        let mut next = first.max(1);
        while next <= self.osd.epoch() {
            let (m, after) = self.osd.step(next, features);
            self.send(conn, 0, &m);
            next = after;
            if once {
                break;
            }
        }
        self.note_sent(conn, next.saturating_sub(1));
    }
    fn send_newest(&mut self, conn: ConnId, features: u64) {
        let m = self.osd.latest(features);
        self.send(conn, 0, &m);
        self.note_sent(conn, m.newest);
    }
    fn note_sent(&mut self, conn: ConnId, epoch: Epoch) {
        if let Some(session) = self.sessions.get_mut(&conn) {
            session.osd_epoch = epoch.max(session.osd_epoch);
        }
    }
    /// OSDs ask for maps one time and not again while they are up: they count on being told by the monitor or by each other.
    pub(crate) fn tell_osds(&mut self) {
        let epoch = self.osd.epoch();
        let behind = |s: &crate::session::Session| s.osd().is_some() && s.osd_epoch > 0 && s.osd_epoch < epoch;
        let told: Vec<_> = self.sessions.iter().filter(|(_, s)| behind(s)).map(|(c, s)| (*c, s.osd_epoch + 1)).collect();
        for (conn, first) in told {
            self.send_maps_from(conn, first, false);
        }
    }
    /// Clients ask for the next map one time, when an OSD's connection breaks; a restart makes several. One that asked and got the first of them
    /// would go on dialling where the other OSDs were: requests that time out before `objecter_timeout` never make it ask again. So whatever client
    /// was sent maps is told of OSDs that came up since.
    pub(crate) fn tell_clients_of_boots(&mut self) {
        let up_from = self.osd.map.osd_info.iter().map(|info| info.up_from).max().unwrap_or(0);
        let behind = |s: &crate::session::Session| {
            s.peer.entity.kind == EntityKind::CLIENT && (1..up_from).contains(&s.osd_epoch) && !s.subs.contains_key("osdmap")
        };
        let told: Vec<_> = self.sessions.iter().filter(|(_, s)| behind(s)).map(|(c, s)| (*c, s.osd_epoch + 1)).collect();
        for (conn, first) in told {
            self.send_maps_from(conn, first, false);
        }
    }
    /// Answers a message of an OSD whose map is old, or whose wish is already fulfilled: what it lacks from `first` on, or the newest.
    pub(crate) fn send_latest(&mut self, conn: ConnId, first: Epoch) {
        let sent = self.sessions.get(&conn).map_or(0, |s| s.osd_epoch);
        if first == 0 {
            let features = self.features(conn);
            self.send_newest(conn, features);
        } else if first.max(sent + 1) <= self.osd.epoch() {
            self.send_maps_from(conn, first.max(sent + 1), false);
        }
    }
}
