//! Maps by epoch, encoded as they came: what clients and peers that lag behind are sent.

use messages::{MOSDMap, Message, RawMessage};
use std::collections::BTreeMap;
use types::{Bytes, Epoch, Uuid};

/// Incrementals and full maps kept, in number and bytes: more than any client lags behind in practice. Whoever lags more gets a full map.
const INCREMENTALS_MAX: usize = 500;
const FULLS_MAX: usize = 50;
const BYTES_MAX: usize = 16 << 20;
/// Maps in one message (`osd_map_message_max`).
const MESSAGE_MAX: u32 = 40;

/// The newest maps, encoded.
#[derive(Debug, Default)]
pub struct MapCache {
    full: BTreeMap<Epoch, Bytes>,
    inc: BTreeMap<Epoch, Bytes>,
    bytes: usize,
    /// The oldest epoch that was ever here.
    pub first: Epoch,
}

impl MapCache {
    pub fn put_full(&mut self, epoch: Epoch, map: Bytes) {
        // Messages are slices of receive buffers: keep only what is meant.
        self.bytes += map.len();
        if let Some(old) = self.full.insert(epoch, Bytes::copy_from_slice(&map)) {
            self.bytes -= old.len();
        }
        self.first = if self.first == 0 { epoch } else { self.first };
        self.trim();
    }
    pub fn put_inc(&mut self, epoch: Epoch, inc: Bytes) {
        self.bytes += inc.len();
        if let Some(old) = self.inc.insert(epoch, Bytes::copy_from_slice(&inc)) {
            self.bytes -= old.len();
        }
        self.trim();
    }
    /// The oldest full map that is kept.
    pub fn oldest(&self) -> Epoch {
        self.full.keys().next().copied().unwrap_or(0)
    }
    fn trim(&mut self) {
        // The newest full map always stays.
        while self.full.len() > FULLS_MAX || (self.bytes > BYTES_MAX && self.full.len() > 1) {
            self.bytes -= self.full.pop_first().map_or(0, |m| m.1.len());
        }
        while self.inc.len() > INCREMENTALS_MAX || (self.bytes > BYTES_MAX && !self.inc.is_empty()) {
            self.bytes -= self.inc.pop_first().map_or(0, |m| m.1.len());
        }
    }

    /// What leads somebody from `have` towards `newest`, and the epoch that it gets to.
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
}
