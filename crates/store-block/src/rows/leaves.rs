//! Leaves on their way from the device, those that can't be read, and what they may have of memory beyond their share while reads need several together.
//!
//! ```text
//!   want ──> being read, in pieces ──(all have come)──> the cache of the table; what waited is asked again
//!                                   └──(one can't be read, or the crc is wrong)──> damaged: see [`crate::check::damaged`]
//! ```
//! Holds no leaf: those that are in memory are the table's ([`crate::rows::meta`]).
//! One step for each piece that comes and each ticket that waits for it.

use crate::data::io::Purpose;
use crate::data::overlay::Numbers;
use crate::rows::meta::entry::LeafRef;
use crate::rows::meta::leaf::Leaf;
use crate::state::Core;
use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use store::StoreError;
use types::CollId;

/// A leaf that is being read.
#[derive(Debug)]
struct LeafRead {
    tickets: Vec<u64>,
    /// What has come of its pieces, and how many have not.
    pieces: SmallVec<[Bytes; 1]>,
    left: usize,
    /// The index has another in its place by now.
    is_gone: bool,
}

#[derive(Debug, Default)]
pub struct Leaves {
    reads: Numbers<LeafRead>,
    /// Leaves that could not be read, and why.
    bad: BTreeMap<u64, String>,
    held: Held,
}

/// Bytes of leaves that reads need together, and turns for which they have room.
#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    turns: u32,
}

/// More than one request may read, bytes: what reads may need together has a bound, as what one answer holds has.
const HELD_MAX: usize = 256 << 20;
/// Turns in which nothing is being read, after which no room is held any more.
const HELD_TURNS: u32 = 64;

impl Leaves {
    pub fn is_reading(&self, id: u64) -> bool {
        self.reads.contains_key(&id)
    }
    pub fn is_any_read(&self) -> bool {
        !self.reads.is_empty()
    }
    /// A leaf is being read from now on, in so many pieces.
    pub fn begin(&mut self, id: u64, tickets: Vec<u64>, pieces: usize) {
        self.reads.insert(id, LeafRead { tickets, pieces: SmallVec::from_elem(Bytes::new(), pieces), left: pieces, is_gone: false });
    }
    /// Another ticket waits for it; false if it is not being read.
    fn join(&mut self, id: u64, ticket: u64) -> bool {
        let Some(read) = self.reads.get_mut(&id) else { return false };
        read.tickets.extend((ticket > 0).then_some(ticket));
        true
    }
    /// A piece has come, or not: all of the leaf, and the read of it, once that is known.
    fn came(&mut self, id: u64, piece: usize, result: Result<Bytes, String>) -> Option<(Result<Bytes, String>, LeafRead)> {
        let read = self.reads.get_mut(&id)?;
        let result = match result {
            Ok(bytes) => {
                // Of an older read of the same leaf, which failed, a piece may come late: each counts once.
                let is_first = read.pieces.get(piece).is_some_and(Bytes::is_empty);
                if is_first {
                    read.pieces[piece] = bytes;
                    read.left -= 1;
                }
                if !is_first || read.left > 0 {
                    return None;
                }
                Ok(if read.pieces.len() == 1 { read.pieces.remove(0) } else { read.pieces.concat().into() })
            }
            Err(why) => Err(why),
        };
        let read = self.reads.remove(&id).expect("it was there");
        Some((result, read))
    }

    pub fn is_bad(&self, id: u64) -> bool {
        self.bad.contains_key(&id)
    }
    pub fn has_bad(&self) -> bool {
        !self.bad.is_empty()
    }
    /// It can't be read.
    pub fn put_bad(&mut self, id: u64, why: String) {
        self.bad.insert(id, why);
    }
    /// It is gone, or is made anew: why it could not be read.
    pub fn forget_bad(&mut self, id: u64) -> Option<String> {
        self.bad.remove(&id)
    }
    /// A checkpoint has made others in its place: should it be on its way, nothing looks for it any more.
    pub fn replaced(&mut self, id: u64) {
        self.bad.remove(&id);
        if let Some(read) = self.reads.get_mut(&id) {
            read.is_gone = true;
        }
    }

    /// Reads need leaves of so many bytes together, and begin anew after each wait.
    pub fn hold(&mut self, bytes: usize) {
        self.held = Held { bytes: self.held.bytes.max(bytes.min(HELD_MAX)), turns: HELD_TURNS };
    }
    /// A turn ends: what leaves may have beyond their share.
    pub fn take_turn(&mut self) -> usize {
        let bytes = self.held.bytes;
        match self.held.turns {
            0 => self.held = Held::default(),
            _ => self.held.turns -= u32::from(self.reads.is_empty()),
        }
        bytes
    }
}

impl Core {
    /// A question needs this leaf.
    pub fn want_leaf(&mut self, leaf: &LeafRef, coll: CollId, ticket: &mut u64) -> StoreError {
        if let Some(why) = self.leaves.bad.get(&leaf.id) {
            return StoreError::Damaged { coll, what: format!("metadata: {why}") };
        }
        let ticket = self.ticket(ticket);
        self.tickets.await_one(ticket);
        if !self.leaves.join(leaf.id, ticket) {
            self.read_leaf(leaf, (ticket > 0).then_some(ticket).into_iter().collect());
        }
        StoreError::Wait(ticket)
    }
    /// A leaf is read, in its pieces.
    pub fn read_leaf(&mut self, leaf: &LeafRef, tickets: Vec<u64>) {
        self.leaves.begin(leaf.id, tickets, leaf.pieces());
        for (piece, run) in leaf.runs().enumerate() {
            self.io.read_meta(Purpose::Leaf { id: leaf.id, piece }, run);
        }
    }
    /// A piece of a leaf has come, or not.
    pub fn leaf_here(&mut self, id: u64, piece: usize, result: Result<Bytes, String>) {
        let Some((result, read)) = self.leaves.came(id, piece, result) else { return };
        match result.and_then(|bytes| Leaf::open(bytes, self.seed, id).map_err(|e| e.to_string())) {
            // Nothing looks for one that was replaced while it was read.
            _ if read.is_gone => {}
            Ok(leaf) => self.table.leaf_came(id, leaf),
            Err(why) => self.leaves.put_bad(id, why),
        }
        self.tickets.arrived(read.tickets);
    }
    /// A read or a copy needs leaves of so many bytes together, and begins anew after each wait: they stay until all have come. Several reads of one
    /// request begin anew together, so what was looked at in this turn stays too.
    pub fn hold_leaves(&mut self, bytes: usize) {
        self.leaves.hold(bytes + self.table.leaves().seen());
    }
}
