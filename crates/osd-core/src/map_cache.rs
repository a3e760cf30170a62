//! Maps by epoch, encoded as they came: sent to clients and peers that lag behind, and kept by the store.

use denc::Denc;
use maps::{Incremental, OsdMap};
use messages::{MOSDMap, Message, RawMessage};
use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use types::{Bytes, Epoch, Uuid, features};

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

/// A client, as a reader of maps: one of before 20.2 can't read the pools of a cluster that requires OSDs of 20.2, and is sent another
/// encoding.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    /// Its features, if maps must be encoded anew for it.
    lacking: Option<u64>,
}

impl Reader {
    /// A client with these features, where that is the newest map.
    pub fn of(client: u64, newest: &OsdMap) -> Self {
        let is_apart = features::has(newest.canonical_features(), features::SERVER_TENTACLE);
        Self { lacking: (is_apart && !features::has(client, features::SERVER_TENTACLE)).then_some(client) }
    }
    fn inc(self, bytes: &Bytes) -> Option<Bytes> {
        let Some(client) = self.lacking else { return Some(bytes.clone()) };
        Incremental::from_bytes(bytes).ok()?.encode_for_peer(client).ok()
    }
    fn full(self, bytes: &Bytes) -> Option<Bytes> {
        let Some(client) = self.lacking else { return Some(bytes.clone()) };
        let map = OsdMap::from_bytes(bytes).ok()?;
        Some(map.encode_with(map.features_for_peer(client)).0)
    }
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

    /// What leads a client from `have` towards `newest`, and the epoch that it gets to.
    pub fn message(&self, fsid: Uuid, have: Epoch, newest: Epoch, reader: Reader) -> Option<(RawMessage, Epoch)> {
        let mut m = MOSDMap { fsid, trim_lower_bound: self.oldest(), newest, ..MOSDMap::default() };
        let upto = newest.min(have.saturating_add(MESSAGE_MAX));
        let reached = if have > 0 && (have + 1..=upto).all(|e| self.inc.contains_key(&e)) {
            m.incrementals = (have + 1..=upto).map(|e| Some((e, reader.inc(&self.inc[&e])?))).collect::<Option<_>>()?;
            upto
        } else {
            m.maps.insert(newest, reader.full(self.full.get(&newest)?)?);
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

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{PgPool, Release};

    /// A client of 18.2 reads the maps of a cluster that requires OSDs of 20.2, and is sent as they are those of a cluster that does not.
    #[test]
    fn a_client_is_sent_what_it_can_read() {
        for (release, is_apart) in [(Release::TENTACLE, true), (Release::SQUID, false)] {
            let map = OsdMap { epoch: 2, require_osd_release: release, pools: [(3, PgPool::default())].into(), ..OsdMap::default() };
            let inc =
                Incremental { epoch: 2, encode_features: map.canonical_features(), new_pools: map.pools.clone(), ..Incremental::default() };
            let (full, inc) = (map.encode_canonical().0, inc.encode_with(map.canonical_features()).0);
            let mut cache = MapCache::default();
            cache.put_full(2, full.clone());
            cache.put_inc(2, inc.clone());
            for (client, is_old) in [(features::SUPPORTED, true), (features::OSD_SUPPORTED, false)] {
                let sent = |have| {
                    let (raw, reached) = cache.message(Uuid::default(), have, 2, Reader::of(client, &map)).unwrap();
                    assert_eq!(reached, 2);
                    MOSDMap::decode(&raw).unwrap()
                };
                let (whole, step) = (sent(0).maps[&2].clone(), sent(1).incrementals[&2].clone());
                assert_eq!((whole != full, step != inc), (is_apart && is_old, is_apart && is_old), "{release}");
                assert_eq!(OsdMap::from_bytes(&whole).unwrap().pools, map.pools);
                assert_eq!(Incremental::from_bytes(&step).unwrap().new_pools, map.pools);
                // The version and compat of the first pool.
                let pool = |v: u8| whole.windows(2).any(|w| w == [v, 5]);
                assert_eq!((pool(32), pool(29)), (is_apart && !is_old, !(is_apart && !is_old)), "{release}");
            }
        }
    }
}
