//! What was read of the devices lately, for callers that asked and come back: bounded, and as much as there is room while few ask at a time.
//!
//! ```text
//!         start               done                    used                   shrink
//!   ──────────────> under way ────> fresh ─────────────────────────> free ─────────────> gone
//!                                     │  a transaction's: waiting ──> free (let_go)        ^
//!                                     └─ taken, and not worth keeping ─────────────────────┘
//! ```
//! Whether blocks are worth keeping is seen from how many of those that are asked for are here. Where few are (a reader of far more than
//! there is room for), most pass through: to keep a block costs more than it brings then. Some are kept even so, by which it is seen when
//! that has changed. Holds no device and no ticket.
//!
//! One step to find a block, to put one in and to take one out. To let some go takes one for each that goes, and for each that must stay.

use crate::data::io::{Extent, Waiters};
use crate::data::load::{Load, Readers};
use crate::data::overlay::NumberBuild;
use crate::open::layout::BLOCK;
use crate::planted::{Bug, planted};
use crate::state::OWN;
use base::fixed::HashMap;
use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};

/// Blocks that were read, or are being.
#[derive(Debug)]
enum Fetched {
    UnderWay {
        tickets: Waiters,
    },
    /// With the crc of each block.
    Here {
        bytes: Bytes,
        crcs: SmallVec<[u32; 2]>,
    },
    Failed(String),
}

/// A read, and how often the same content was looked for in vain before.
#[derive(Debug)]
struct Read {
    fetched: Fetched,
    tries: u8,
    /// Of the crcs that the blocks should have: see [`mark`].
    wanted: u32,
    /// Whether it must stay.
    hold: Hold,
    /// It is not worth keeping: the caller that takes it has it alone.
    passes: bool,
    /// When it came.
    stamp: u64,
}

/// What is known of blocks, of which the crcs are told.
#[derive(Debug)]
pub enum Known<'a> {
    Here(&'a Bytes),
    /// They can't be read, or not with these crcs.
    Damaged(String),
    /// Nothing that could be relied on: they are to be read.
    Unread,
}

/// Why something that was read stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// No reader has come for it yet.
    Fresh,
    /// The transaction whose turn it is needs it, and waits for more.
    Waiting,
    /// It does not: as long as there is room.
    Free,
}

/// What was read lately, for callers that asked and come back. Bounded; the oldest goes first.
#[derive(Debug, Default)]
pub struct Reads {
    map: HashMap<Extent, Read, NumberBuild>,
    /// Those that were read in vain as often as is tried: what is known of them is a verdict, and nothing reads them again.
    damaged: BTreeSet<Extent>,
    /// As they came. What was read again since has a later stamp, and counts for nothing here.
    order: VecDeque<(Extent, u64)>,
    stamp: u64,
    bytes: usize,
    /// Held for the transaction that waits.
    held: Vec<Extent>,
    /// It is asking just now.
    is_turn: bool,
    /// Bytes of the largest request of late, and the stamp when it came.
    largest: (usize, u64),
    readers: Readers,
    /// Looks for blocks since the window began, and those that found them; and whether too few did in the one before.
    looks: u32,
    hits: u32,
    choosy: bool,
}

/// Blocks of a read that is worth keeping for what asks for the same again, while few ask.
const KEPT_BLOCKS: u32 = 4;
/// Looks of a window. One of `WORTH` must find its block: a block that is kept is memory taken (of the system, while there is more and more of it),
/// copied to, and let go again: 5 us of 45, measured, for what spares 20 when it is found.
const WINDOW: u32 = if cfg!(test) { 64 } else { 1024 };
const WORTH: u32 = 8;
/// One block of so many is kept even so.
const SAMPLE: u64 = 4;
// A hash's lowest bits choose the samples; a window tells whether one of so many is found.
const _: () = assert!(SAMPLE.is_power_of_two() && WINDOW > WORTH);

/// Reads in vain, for the same contents, behind which they are damaged.
const TRIES: u8 = 2;

/// A hash of the crcs that blocks should have.
fn mark(wanted: &[u32]) -> u32 {
    wanted.iter().fold(0, |hash: u32, crc| hash.rotate_left(5) ^ crc)
}

impl Reads {
    /// Blocks that were read, if they have these crcs.
    pub fn here(&self, extent: &Extent, wanted: &[u32]) -> Option<&Bytes> {
        match &self.map.get(extent)?.fetched {
            Fetched::Here { bytes, crcs } if crcs[..] == *wanted => Some(bytes),
            _ => None,
        }
    }
    /// The same, and what is wrong with them. Asked for while it changed, or damaged: a few tries tell.
    pub fn known(&self, extent: &Extent, wanted: &[u32]) -> Known<'_> {
        let Some(read) = self.map.get(extent) else { return Known::Unread };
        let is_certain = || read.tries >= TRIES && read.wanted == mark(wanted);
        match &read.fetched {
            Fetched::Here { bytes, crcs } if crcs[..] == *wanted || planted(Bug::ForgetDataCrc) => Known::Here(bytes),
            Fetched::Here { .. } if is_certain() => {
                Known::Damaged(format!("block {} of device {} has not its checksum", extent.block, extent.dev.0))
            }
            Fetched::Failed(why) if is_certain() => Known::Damaged(why.clone()),
            _ => Known::Unread,
        }
    }
    /// The reader that came for the extent got all that was asked for.
    pub fn used(&mut self, extent: &Extent) {
        let Some(read) = self.map.get_mut(extent) else { return };
        match read.hold {
            Hold::Fresh => read.hold = Hold::Free,
            Hold::Free => self.looked(true),
            Hold::Waiting => {}
        }
    }
    /// The same of a caller that came for this extent alone, and will not ask again.
    pub fn taken(&mut self, extent: &Extent) {
        let is_over = |read: &&Read| read.passes && read.hold == Hold::Fresh;
        let Some(stamp) = self.map.get(extent).filter(is_over).map(|read| read.stamp) else { return self.used(extent) };
        self.remove(extent);
        self.order.pop_back_if(|last| *last == (*extent, stamp));
    }
    /// It is no longer known.
    fn remove(&mut self, extent: &Extent) {
        if let Some(Read { fetched: Fetched::Here { bytes, .. }, .. }) = self.map.remove(extent) {
            self.bytes -= bytes.len();
        }
        if !self.damaged.is_empty() {
            self.damaged.remove(extent);
        }
    }
    /// A reader looked for a block, and it was here or not.
    fn looked(&mut self, is_here: bool) {
        self.looks += 1;
        self.hits += u32::from(is_here);
        if self.looks == WINDOW {
            self.choosy = self.hits * WORTH < WINDOW;
            (self.looks, self.hits) = (0, 0);
        }
    }
    /// What is read there for one caller need not stay once that has it.
    pub fn passes(&self, extent: &Extent) -> bool {
        let is_sample = extent.block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & (SAMPLE - 1) == 0;
        self.choosy && !self.load().is_many() && !is_sample
    }
    /// What waits for the extent, if it is one.
    pub fn waiter(&self, extent: &Extent) -> Option<u64> {
        match &self.map.get(extent)?.fetched {
            Fetched::UnderWay { tickets } if tickets.len() == 1 => Some(tickets[0]),
            _ => None,
        }
    }
    /// The transaction whose turn it is asks from now on: whatever it needs stays from when it is asked for until [`Reads::let_go`], however much
    /// that is. Else a transaction of many blocks would have them read again for ever, since those that came first go while it waits for the last.
    pub fn turn(&mut self, is_turn: bool) {
        self.is_turn = is_turn;
    }
    /// A transaction asks for the extent.
    pub fn hold(&mut self, extent: Extent) {
        if self.is_turn
            && let Some(read) = self.map.get_mut(&extent).filter(|read| read.hold != Hold::Waiting)
        {
            read.hold = Hold::Waiting;
            self.held.push(extent);
        }
    }
    /// The transaction is made.
    pub fn let_go(&mut self) {
        for extent in self.held.drain(..) {
            if let Some(read) = self.map.get_mut(&extent).filter(|read| read.hold == Hold::Waiting) {
                read.hold = Hold::Free;
            }
        }
    }
    /// What was read goes, unless a caller is to come for it; and every verdict on one of these blocks, however it was read: else what could not be read
    /// some times would be damaged for good, while another read, of more blocks at once, finds nothing wrong with it.
    pub fn forget(&mut self, extent: &Extent) {
        let may_go = |read: &Read| read.hold == Hold::Free && !matches!(read.fetched, Fetched::UnderWay { .. });
        if self.map.get(extent).is_some_and(may_go) {
            self.remove(extent);
        }
        if !self.damaged.is_empty() {
            let (from, end) = (extent.block, extent.block + u64::from(extent.blocks));
            let on_it = Extent { block: 0, blocks: 0, ..*extent }..Extent { block: end, blocks: 0, ..*extent };
            let touches = |other: &&Extent| other.block + u64::from(other.blocks) > from;
            let overlapping: Vec<Extent> = self.damaged.range(on_it).filter(touches).copied().collect();
            for extent in overlapping {
                self.remove(&extent);
            }
        }
    }
    /// A reader waits for the extent with these contents. True if it must be read.
    pub fn start(&mut self, extent: Extent, wanted: &[u32], ticket: u64) -> bool {
        let wanted = mark(wanted);
        let tickets: Waiters = (ticket > 0).then_some(ticket).into_iter().collect();
        let mut tries = 0;
        match self.map.get_mut(&extent) {
            Some(Read { fetched: Fetched::UnderWay { tickets: others }, .. }) => {
                others.extend(tickets);
                if ticket == OWN {
                    self.hold(extent);
                }
                return false;
            }
            Some(read) => {
                if read.wanted == wanted {
                    tries = read.tries.saturating_add(1);
                }
                self.remove(&extent);
            }
            None => {}
        }
        self.looked(false);
        self.map.insert(extent, Read { fetched: Fetched::UnderWay { tickets }, tries, wanted, hold: Hold::Fresh, passes: false, stamp: 0 });
        if ticket == OWN {
            self.hold(extent);
        }
        self.readers.begin();
        self.step();
        true
    }
    /// A read was started, or a record is on its way.
    pub fn step(&mut self) {
        if self.readers.step() && self.load().is_many() {
            (self.looks, self.hits, self.choosy) = (0, 0, false);
        }
    }
    /// How many ask at a time, and did lately.
    pub fn load(&self) -> Load {
        self.readers.load()
    }
    /// What is read there may stay for long.
    pub fn stays(&self, extent: &Extent) -> bool {
        !self.load().is_many() && extent.blocks <= KEPT_BLOCKS
    }
    /// A block is being written to its place, while few ask: the next read of it need not ask the device.
    pub fn wrote(&mut self, extent: Extent, block: &[u8]) {
        if self.passes(&extent) {
            return;
        }
        if self.map.get(&extent).is_some_and(|read| matches!(read.fetched, Fetched::UnderWay { .. })) {
            return;
        }
        self.remove(&extent);
        self.stamp += 1;
        self.bytes += block.len();
        self.order.push_back((extent, self.stamp));
        let fetched =
            Fetched::Here { bytes: Bytes::copy_from_slice(block), crcs: SmallVec::from_elem(crate::open::layout::block_crc(block), 1) };
        self.map.insert(extent, Read { fetched, tries: 0, wanted: 0, hold: Hold::Free, passes: false, stamp: self.stamp });
    }
    /// Takes what came, which goes when it is taken if it `passes`; returns the tickets that waited.
    pub fn done(&mut self, extent: Extent, result: Result<Bytes, String>, passes: bool) -> Waiters {
        let Some(read) = self.map.get_mut(&extent) else { return Waiters::new() };
        let Read { fetched: slot, hold, stamp, passes: slot_passes, tries, wanted } = read;
        if *hold == Hold::Free {
            *hold = Hold::Fresh;
        }
        *slot_passes = passes;
        self.stamp += 1;
        self.readers.end();
        *stamp = self.stamp;
        let fetched = match result {
            Ok(bytes) => {
                self.bytes += bytes.len();
                let crcs: SmallVec<[u32; 2]> = bytes.chunks_exact(BLOCK as usize).map(crate::open::layout::block_crc).collect();
                Fetched::Here { bytes, crcs }
            }
            Err(why) => Fetched::Failed(why),
        };
        let is_good = || matches!(&fetched, Fetched::Here { crcs, .. } if mark(crcs) == *wanted);
        if *tries >= TRIES && !is_good() {
            self.damaged.insert(extent);
        }
        self.order.push_back((extent, self.stamp));
        match std::mem::replace(slot, fetched) {
            Fetched::UnderWay { tickets } => tickets,
            _ => Waiters::new(),
        }
    }
    /// A reader asks for so many bytes at once: it must find all of them together.
    pub fn asked(&mut self, bytes: usize) {
        if bytes >= self.largest.0 || self.stamp - self.largest.1 > LARGEST_READS {
            self.largest = (bytes, self.stamp);
        }
    }
    #[cfg(test)]
    pub fn assert_counts(&self) {
        let of = |read: &Read| if let Fetched::Here { bytes, .. } = &read.fetched { bytes.len() } else { 0 };
        assert_eq!(self.bytes, self.map.values().map(of).sum::<usize>());
        assert!(self.damaged.iter().all(|extent| self.map.get(extent).is_some_and(|read| read.tries >= TRIES)));
        let under_way = self.map.values().filter(|read| matches!(read.fetched, Fetched::UnderWay { .. })).count();
        assert_eq!(self.readers.under_way(), under_way);
    }
    /// Bytes that are here.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Lets the oldest go until `max` bytes are left. What no caller has come for yet stays, since one that waits for several asks for all again, but
    /// not without end: `fresh` bytes more, or what the largest request of late needs, twice. What is held stays in any case.
    pub fn shrink(&mut self, max: usize, fresh: usize) {
        let fresh = fresh.max(2 * self.largest.0);
        let mut looks = self.order.len();
        while (self.bytes > max || self.order.len() > 65536) && looks > 0 {
            looks -= 1;
            let Some((extent, stamp)) = self.order.pop_front() else { break };
            let Some(read) = self.map.get(&extent).filter(|read| read.stamp == stamp) else { continue };
            let stays = match read.hold {
                Hold::Waiting => true,
                Hold::Fresh => self.bytes < max + fresh,
                Hold::Free => false,
            };
            if stays {
                self.order.push_back((extent, stamp));
                continue;
            }
            self.remove(&extent);
        }
    }
}

/// So many reads later a large request is forgotten.
const LARGEST_READS: u64 = 10_000;
