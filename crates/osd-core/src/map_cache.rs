//! Maps by epoch, encoded as they came: what clients and peers that lag behind are sent, and what the store keeps.

use messages::{MOSDMap, Message, RawMessage};
use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use types::{Bytes, Epoch, Uuid};

/// Incrementals and full maps kept, in number and bytes: more than any client lags behind in practice. One that lags more gets a full map.
const INCREMENTALS_MAX: usize = 500;
pub const FULLS_MAX: usize = 50;
/// Full maps kept at most for groups whose records name old ones.
pub(crate) const NEEDED_MAX: usize = 500;
const BYTES_MAX: usize = 16 << 20;
/// Maps in one message (`osd_map_message_max`).
pub(crate) const MESSAGE_MAX: u32 = 40;
// A message of maps is cut from what is kept.
const _: () = assert!(MESSAGE_MAX as usize <= FULLS_MAX && FULLS_MAX <= INCREMENTALS_MAX);
/// Bytes of maps in one message to an OSD (`osd_map_message_max_bytes`).
const MESSAGE_BYTES_MAX: usize = 10 << 20;

/// What shards have of the cache: they read it, and Control alone writes it.
#[derive(Debug, Clone)]
pub(crate) struct Maps(Rc<RefCell<MapCache>>);

impl Maps {
    pub fn of(cache: &Rc<RefCell<MapCache>>) -> Self {
        Self(cache.clone())
    }
    /// For one look: it must not be held over anything that may reach Control.
    pub fn read(&self) -> Ref<'_, MapCache> {
        self.0.borrow()
    }
}

/// A map that came, or one too many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapChange {
    Put { epoch: Epoch, full: bool, bytes: Bytes },
    Drop { epoch: Epoch, full: bool },
}

/// The newest maps, encoded.
#[derive(Debug, Default)]
pub struct MapCache {
    full: BTreeMap<Epoch, Bytes>,
    inc: BTreeMap<Epoch, Bytes>,
    bytes: usize,
    /// What the store has not been told yet.
    changes: Vec<MapChange>,
    /// The oldest epoch that was ever here.
    pub first: Epoch,
    /// Groups start from this epoch after a crash: it and what follows stay.
    needed: Epoch,
}

impl MapCache {
    pub fn put_full(&mut self, epoch: Epoch, map: Bytes) {
        self.put(epoch, true, map);
    }
    pub fn put_inc(&mut self, epoch: Epoch, inc: Bytes) {
        self.put(epoch, false, inc);
    }
    fn put(&mut self, epoch: Epoch, full: bool, bytes: Bytes) {
        // Messages are slices of receive buffers: keep only what is meant.
        let bytes = Bytes::copy_from_slice(&bytes);
        self.insert(epoch, full, bytes.clone());
        self.changes.push(MapChange::Put { epoch, full, bytes });
        self.trim();
    }
    /// Takes in a map that the store has.
    pub fn insert(&mut self, epoch: Epoch, full: bool, bytes: Bytes) {
        self.bytes += bytes.len();
        let maps = if full { &mut self.full } else { &mut self.inc };
        if let Some(old) = maps.insert(epoch, bytes) {
            self.bytes -= old.len();
        }
        if full && (self.first == 0 || epoch < self.first) {
            self.first = epoch;
        }
    }
    /// What changed since the last time, in order.
    pub fn take_changes(&mut self) -> Vec<MapChange> {
        std::mem::take(&mut self.changes)
    }
    /// A full map.
    pub fn full(&self, epoch: Epoch) -> Option<&Bytes> {
        self.full.get(&epoch)
    }
    /// The first epoch from `epoch` on of which there is a full map.
    pub fn next_full(&self, epoch: Epoch) -> Option<Epoch> {
        self.full.range(epoch..).next().map(|(e, _)| *e)
    }
    /// The newest epoch that there is a full map of; 0 if there is none.
    pub fn newest_full(&self) -> Epoch {
        self.full.keys().next_back().copied().unwrap_or(0)
    }
    /// The oldest full map that is kept.
    pub fn oldest(&self) -> Epoch {
        self.full.keys().next().copied().unwrap_or(0)
    }
    /// Full maps that are kept.
    pub fn fulls(&self) -> Epoch {
        self.full.len() as Epoch
    }
    /// Groups start from this epoch after a crash.
    pub fn need_from(&mut self, epoch: Epoch) {
        self.needed = epoch;
    }
    /// True if there are more full maps, or more bytes, than are to be kept. The newest full map always stays.
    pub fn is_crowded(&self) -> bool {
        self.full.len() > FULLS_MAX || (self.bytes > BYTES_MAX && self.full.len() > 1)
    }
    fn trim(&mut self) {
        while self.is_crowded() && (self.oldest() < self.needed || self.full.len() > NEEDED_MAX) {
            let Some((epoch, map)) = self.full.pop_first() else { break };
            self.bytes -= map.len();
            self.changes.push(MapChange::Drop { epoch, full: true });
        }
        while self.inc.len() > INCREMENTALS_MAX || (self.bytes > BYTES_MAX && !self.inc.is_empty()) {
            let Some((epoch, inc)) = self.inc.pop_first() else { break };
            self.bytes -= inc.len();
            self.changes.push(MapChange::Drop { epoch, full: false });
        }
    }

    /// What leads a peer from `have` towards `newest`, and the epoch that it gets to.
    pub fn message(&self, fsid: Uuid, have: Epoch, newest: Epoch) -> Option<(RawMessage, Epoch)> {
        let mut m = MOSDMap { fsid, trim_lower_bound: self.oldest(), newest, ..MOSDMap::default() };
        let upto = newest.min(have.saturating_add(MESSAGE_MAX));
        let reached = if have > 0 && (have + 1..=upto).all(|e| self.inc.contains_key(&e)) {
            m.incrementals = (have + 1..=upto).map(|e| (e, self.inc[&e].clone())).collect();
            upto
        } else {
            m.maps.insert(newest, self.full.get(&newest)?.clone());
            newest
        };
        Some((m.encode(u64::MAX), reached))
    }

    /// What leads another OSD from `have` towards `newest`, and the epoch that it gets to. No epoch is left out, for an interval may begin in each.
    /// If the next one is not kept, the newest comes alone: the OSD sees the gap and asks the monitors.
    pub fn message_for_osd(&self, fsid: Uuid, have: Epoch, newest: Epoch) -> Option<(RawMessage, Epoch)> {
        let mut m = MOSDMap { fsid, newest, ..MOSDMap::default() };
        let (mut reached, mut room) = (have, MESSAGE_BYTES_MAX);
        for epoch in have + 1..=newest.min(have.saturating_add(MESSAGE_MAX)) {
            let (maps, map) = match (self.inc.get(&epoch), self.full.get(&epoch)) {
                (Some(inc), _) => (&mut m.incrementals, inc),
                (None, Some(full)) => (&mut m.maps, full),
                (None, None) => break,
            };
            if reached > have && map.len() > room {
                break;
            }
            maps.insert(epoch, map.clone());
            (reached, room) = (epoch, room.saturating_sub(map.len()));
        }
        if reached == have {
            m.maps.insert(newest, self.full.get(&newest)?.clone());
            reached = newest;
        }
        Some((m.encode(u64::MAX), reached))
    }
}
