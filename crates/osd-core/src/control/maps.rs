//! How maps come in: each is applied and checked against its sender's crc, in the order of epochs, and kept; shards are shown it one by one.
//!
//! The monitor's are believed. Another OSD's are taken one after the other, from an OSD that is where the map has it, and no further than
//! [`UNCONFIRMED_MAX`] beyond the newest that the monitor has named ([`Control::confirm`]): peers are rightly ahead of a monitor that one OSD does not
//! hear for a while, and a peer that makes maps up must not lead this OSD where no monitor ever goes. How far it was confirmed is kept in the store,
//! and the maps from there on, too, so that there is a way back; see [`super::boot`].

use super::Control;
use crate::event::{Effect, Level};
use crate::joint::{NextMap, ToShard};
use crate::perf::C;
use crate::persist;
use crate::planted::{Bug, planted};
use crate::shared::EventCx;
use ::maps::{Incremental, OsdMap};
use denc::Denc;
use messages::{MMonGetOSDMap, MOSDMap, Message};
use std::rc::Rc;
use types::{Bytes, EntityAddr, EntityAddrVec, Epoch, OsdId, Transaction, features};

/// Epochs that other OSDs may lead us beyond the newest one that the monitor has named. A monitor makes some ten a minute where much happens, so this
/// is a cut of many minutes from the monitor alone; and all of them are kept, which a way back needs.
pub const UNCONFIRMED_MAX: Epoch = 256;
const _: () = assert!((UNCONFIRMED_MAX as usize) < crate::map_cache::NEEDED_MAX);

/// Whose word a map is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Monitor,
    /// Another OSD.
    Peer,
}

impl Control {
    /// Maps of the monitor have come. False if there is nothing new in them.
    pub fn maps_came(&mut self, m: MOSDMap) -> bool {
        if self.is_another_clusters(&m) {
            return false;
        }
        self.confirm(m.range().map_or(0, |(_, last)| last));
        self.maps_wait(m, Source::Monitor)
    }
    /// The same of another OSD, which has this address by its own word; `None`: it is known to be there. What is not taken of it is asked of the monitor.
    pub fn peer_maps_came(&mut self, osd: OsdId, at: Option<&EntityAddr>, m: MOSDMap, cx: &mut EventCx<'_>) -> bool {
        if self.is_another_clusters(&m) {
            return false;
        }
        let has = |addrs: &[EntityAddrVec]| {
            usize::try_from(osd).ok().and_then(|osd| addrs.get(osd)).is_some_and(|a| at.is_some_and(|at| a.0.contains(at)))
        };
        let is_there = at.is_none() || has(&self.map.cluster_addrs) || has(&self.map.client_addrs);
        if !is_there && !planted(Bug::BelieveAddress) {
            if m.range().is_some_and(|(_, last)| last > self.map.epoch) {
                self.want_maps(cx);
            }
            return false;
        }
        self.maps_wait(m, if planted(Bug::FollowPeers) { Source::Monitor } else { Source::Peer })
    }
    fn is_another_clusters(&mut self, m: &MOSDMap) -> bool {
        self.to_shard.push(ToShard::Count(C::map_messages, 1));
        self.to_shard.push(ToShard::Count(C::map_message_epochs, (m.incrementals.len() + m.maps.len()) as u64));
        !m.fsid.is_zero() && !self.cluster_fsid.is_zero() && m.fsid != self.cluster_fsid
    }
    fn maps_wait(&mut self, m: MOSDMap, from: Source) -> bool {
        if m.range().is_some_and(|(_, last)| last <= self.map.epoch) {
            self.to_shard.push(ToShard::Count(C::map_message_epoch_dups, 1));
            return false;
        }
        self.pending_maps.push_back((m, from));
        true
    }
    /// The monitor has maps up to this one.
    pub fn confirm(&mut self, newest: Epoch) {
        if newest <= self.confirmed {
            return;
        }
        self.confirmed = newest;
        // A map that comes with it is kept with it; what other OSDs told before stands in the store without it.
        if newest <= self.map.epoch && self.map.epoch > 0 {
            self.to_shard.push(ToShard::Keep(persist::keep_confirmed(newest)));
        }
    }
    pub fn has_pending_maps(&self) -> bool {
        !self.pending_maps.is_empty()
    }

    /// Takes in the next map of those that wait. False if none is left.
    pub fn next_map(&mut self, cx: &mut EventCx<'_>) -> bool {
        while let Some((m, from)) = self.pending_maps.pop_front() {
            match self.next_of(&m, from, cx) {
                Ok(true) => {
                    self.pending_maps.push_front((m, from));
                    return true;
                }
                Ok(false) => {}
                Err(why) => {
                    let text = format!("a map that doesn't fit: {why}; asking for a whole one");
                    cx.out.push(Effect::Log { level: Level::Error, text });
                    self.ask_whole(cx);
                }
            }
        }
        false
    }
    /// The next map of a message. False if it has none.
    fn next_of(&mut self, m: &MOSDMap, from: Source, cx: &mut EventCx<'_>) -> Result<bool, String> {
        if m.range().is_none_or(|(_, last)| self.map.epoch >= last) {
            return Ok(false);
        }
        let next = self.map.epoch + 1;
        if from == Source::Peer && next > self.confirmed.saturating_add(UNCONFIRMED_MAX) {
            self.want_maps(cx);
            return Ok(false);
        }
        // A map that came as a whole counts, rather than the change beside it.
        if let (true, Some(bytes), None) = (next > 1, m.incrementals.get(&next), m.maps.get(&next)) {
            let inc = Incremental::from_bytes(bytes).map_err(|e| format!("incremental {next}: {e}"))?;
            if from == Source::Peer && inc.full_crc == 0 {
                return Err(format!("incremental {next}: another OSD's without a crc"));
            }
            let mut map = (*self.map).clone();
            let full = map.apply_and_encode(&inc).map_err(|e| format!("incremental {next}: {e}"))?;
            // A change may be a whole map.
            if map.epoch != next {
                return Err(format!("incremental {next} makes a map of epoch {}", map.epoch));
            }
            self.maps.borrow_mut().put_inc(next, bytes.clone());
            self.new_map(map, full);
        } else if let Some((epoch, bytes)) = m.maps.range(next..).next().filter(|(epoch, _)| self.may_jump(**epoch, m, from)) {
            let map = OsdMap::from_bytes(bytes).map_err(|e| format!("map {epoch}: {e}"))?;
            if let Some(inc) = m.incrementals.get(epoch) {
                self.maps.borrow_mut().put_inc(*epoch, inc.clone());
            }
            self.new_map(map, bytes.clone());
        } else if let (0, Some(bytes), Source::Monitor) = (self.map.epoch, m.incrementals.get(&1), from) {
            // The first change of all makes a map out of nothing.
            let inc = Incremental::from_bytes(bytes).map_err(|e| format!("incremental 1: {e}"))?;
            let mut map = OsdMap::default();
            let full = map.apply_and_encode(&inc).map_err(|e| format!("incremental 1: {e}"))?;
            self.new_map(map, full);
        } else {
            // A gap: ask from where we stand.
            cx.out.push(Effect::SubscribeMaps { from: if next == 1 { 0 } else { next } });
            return Ok(false);
        }
        Ok(true)
    }
    /// Asks for the next map as a whole, and for what follows it. No epoch is left out: an OSD that leaves one out and another that does not see
    /// other intervals of one group, and then neither answers to what the other says.
    fn ask_whole(&self, cx: &mut EventCx<'_>) {
        let next = self.map.epoch + 1;
        let msg = MMonGetOSDMap { full_first: next, full_last: next, ..MMonGetOSDMap::default() };
        cx.out.push(Effect::SendMon(msg.encode(features::SUPPORTED)));
        cx.out.push(Effect::SubscribeMaps { from: next + 1 });
    }
    /// True if a whole map of this epoch may be next. Intervals begin in maps between, so none is left out that the monitor has.
    fn may_jump(&self, epoch: Epoch, m: &MOSDMap, from: Source) -> bool {
        let next = self.map.epoch + 1;
        let is_over_a_gap = next == 1 || m.trim_lower_bound > next && !planted(Bug::WaitForTrimmed);
        if from == Source::Monitor { epoch == next || is_over_a_gap } else { epoch == next && next > 1 }
    }

    /// One map further.
    fn new_map(&mut self, map: OsdMap, full: Bytes) {
        self.maps.borrow_mut().put_full(map.epoch, full);
        if self.cluster_fsid.is_zero() {
            self.cluster_fsid = map.fsid;
            self.superblock.cluster_fsid = map.fsid;
        }
        let new = Rc::new(map);
        let old = std::mem::replace(&mut self.map, new.clone());
        if old.epoch == 0 {
            let me = self.whoami as usize;
            self.was_up_before =
                new.osd_info.get(me).is_some_and(|i| i.up_from > 0) && new.osd_uuid.get(me) == Some(&self.superblock.osd_fsid);
        }
        let keep = self.keep_maps();
        self.to_shard.push(ToShard::Map(Box::new(NextMap { old, new, cluster_fsid: self.cluster_fsid, keep })));
    }

    /// The change that keeps what came since the last time.
    fn keep_maps(&mut self) -> Option<Transaction> {
        let mut maps = self.maps.borrow_mut();
        let changes = maps.take_changes();
        if changes.is_empty() {
            return None;
        }
        self.superblock.oldest_map = maps.oldest();
        self.superblock.newest_map = self.map.epoch;
        self.superblock.current_epoch = self.map.epoch;
        let confirmed = self.confirmed.min(self.superblock.newest_map);
        Some(persist::keep_maps(changes, &self.superblock, confirmed))
    }

    pub(super) fn want_maps(&mut self, cx: &mut EventCx<'_>) {
        let from = self.map.epoch + 1;
        if self.asked_maps_from != from {
            self.asked_maps_from = from;
            cx.out.push(Effect::SubscribeMaps { from });
        }
    }
}
