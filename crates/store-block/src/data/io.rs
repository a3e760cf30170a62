//! Input and output that is under way: what each token is for, and which tickets wait for what is read (`reads` has what came).
//!
//! One step for each operation and for each ticket that waits for it; which one is the oldest, a watchdog finds by a look at all that are
//! under way.

use crate::data::overlay::Numbers;
use crate::open::layout::{BLOCK, DATA, META, WAL, meta_place};
use crate::rows::meta::space::Run;
use bytes::Bytes;
use disk::{Completion, Dev, Disks, Durability};
use smallvec::SmallVec;
use std::collections::hash_map::Entry;
use std::time::Duration;

/// Ids of neighbouring leaves, each with its blocks: one, nearly always.
pub type LeavesHere = SmallVec<[(u64, u32); 1]>;

/// What an operation is for.
#[derive(Debug)]
pub enum Purpose {
    Record {
        seq: u64,
    },
    /// Neighbouring runs of a record, by number.
    Direct {
        seq: u64,
        runs: std::ops::Range<usize>,
    },
    /// Changes beside a record.
    Spill {
        seq: u64,
    },
    /// Images to their places: each with the record that it is of.
    InPlace(Vec<(u64, u64)>),
    Read(Extent),
    /// An image that is in the log only, on its way to its place.
    ReplayImage {
        place: u64,
        seq: u64,
        crc: Option<u32>,
    },
    /// A leaf, or this piece of it.
    Leaf {
        id: u64,
        piece: usize,
    },
    /// Neighbouring leaves that a checkpoint reads: ids and blocks, from this block of the metadata on.
    Leaves {
        block: u64,
        leaves: LeavesHere,
    },
    /// Pages of a checkpoint, together so many blocks: leaves with these ids, or a piece of the index.
    Pages {
        ids: std::ops::Range<u64>,
        blocks: u64,
    },
    /// Zeros in front of the log's end.
    Zeros,
    Flush,
    Superblock,
    /// These chunks of the data device are given back to it.
    Discard(std::ops::Range<u64>),
}

/// Neighbouring blocks of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    pub dev: Dev,
    pub block: u64,
    pub blocks: u32,
}

/// A read of a block or a part of one: where it is, the crc it should have, and what of it was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub extent: Extent,
    pub crc: u32,
    pub from: u32,
    pub to: u32,
}

/// What a ticket waits for.
#[derive(Debug, Default)]
struct Waiting {
    /// So much has not come.
    left: u32,
    /// All that it waits for, if that is so little.
    asked: Option<Asked>,
}

/// Reads that a ticket waits for. A ticket is ready when all that it waits for has come; ticket 0 is the store's own, and never told.
#[derive(Debug, Default)]
pub struct Tickets {
    last: u64,
    waiting: Numbers<Waiting>,
    ready: Vec<u64>,
    /// Of those that are ready and were for a block, what they asked for.
    came: Vec<(u64, Asked)>,
    /// Of those that the owner was given last, ascending.
    given: Vec<(u64, Asked)>,
}

impl Tickets {
    pub fn make(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
    pub fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }
    pub fn await_one(&mut self, ticket: u64) {
        if ticket > 0 {
            self.waiting.entry(ticket).or_default().left += 1;
        }
    }
    /// All that the ticket waits for is a block.
    pub fn asked(&mut self, ticket: u64, asked: Asked) {
        if let Some(waiting) = self.waiting.get_mut(&ticket).filter(|waiting| waiting.left == 1) {
            waiting.asked = Some(asked);
        }
    }
    /// All that the ticket waits for is a block, or a part of one.
    pub fn is_for_one(&self, ticket: u64) -> bool {
        self.waiting.get(&ticket).is_some_and(|waiting| waiting.asked.is_some())
    }
    /// Gives tickets that are ready to their owner.
    pub fn give(&mut self, tickets: &mut Vec<u64>) {
        tickets.append(&mut self.ready);
        std::mem::swap(&mut self.given, &mut self.came);
        self.came.clear();
        self.given.sort_unstable_by_key(|(ticket, _)| *ticket);
    }
    /// What one of those that were given last asked for.
    pub fn given(&self, ticket: u64) -> Option<Asked> {
        self.given.binary_search_by_key(&ticket, |(ticket, _)| *ticket).ok().map(|at| self.given[at].1)
    }
    /// All tickets are ready: nothing is waited for any more.
    pub fn wake_all(&mut self) {
        self.ready.extend(std::mem::take(&mut self.waiting).into_keys());
    }
    /// These tickets are ready, which waited for no read.
    pub fn wake(&mut self, tickets: Vec<u64>) {
        self.ready.extend(tickets);
    }
    /// For tools, which look themselves whether what they wait for has come: no ticket is told.
    pub fn tell_none(&mut self) {
        self.ready.clear();
    }
    pub fn arrived(&mut self, tickets: impl IntoIterator<Item = u64>) {
        for ticket in tickets {
            let Entry::Occupied(mut waiting) = self.waiting.entry(ticket) else { continue };
            waiting.get_mut().left -= 1;
            if waiting.get().left == 0 {
                self.came.extend(waiting.remove().asked.map(|asked| (ticket, asked)));
                self.ready.push(ticket);
            }
        }
    }
}

/// Tickets that wait for a read: one, nearly always.
pub type Waiters = SmallVec<[u64; 2]>;

/// An operation on a device.
struct UnderWay {
    purpose: Purpose,
    dev: Dev,
    does: Does,
}

#[derive(Debug, Clone, Copy)]
enum Does {
    Read,
    Write,
    Flush,
    Discard,
}

/// The devices, and what is under way on them.
pub struct Io {
    disks: Box<dyn Disks>,
    under_way: Numbers<UnderWay>,
    last: u64,
    discards: u64,
    wrote: Wrote,
    /// Memory for what has completed.
    done: Vec<Completion>,
}

/// Blocks that were queued for writing, by what they were written for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wrote {
    pub log: u64,
    pub direct: u64,
    pub in_place: u64,
    pub meta: u64,
    /// Of the log, ahead of its first use.
    pub zeros: u64,
    pub flushes: u64,
    pub reads: u64,
    pub discarded: u64,
}

impl Io {
    pub fn new(disks: Box<dyn Disks>) -> Self {
        Self { disks, under_way: Numbers::default(), last: 0, discards: 0, wrote: Wrote::default(), done: Vec::new() }
    }
    fn token(&mut self, purpose: Purpose, dev: Dev, does: Does) -> u64 {
        self.last += 1;
        self.under_way.insert(self.last, UnderWay { purpose, dev, does });
        self.last
    }
    /// What was started first of all that is under way, but for discards, which nothing waits for. It looks at each, and so is for a
    /// watchdog: on a way that is gone often it has no place.
    pub fn oldest(&self) -> Option<u64> {
        self.oldest_of(|under_way| !matches!(under_way.does, Does::Discard))
    }
    /// The oldest read of a device; it looks at all that is under way.
    pub fn oldest_read(&self, dev: Dev) -> Option<u64> {
        self.oldest_of(|under_way| matches!(under_way.does, Does::Read) && under_way.dev == dev)
    }
    fn oldest_of(&self, is_one: impl Fn(&UnderWay) -> bool) -> Option<u64> {
        self.under_way.iter().filter(|(_, under_way)| is_one(under_way)).map(|(token, _)| *token).min()
    }
    /// The number of the operation that was started last.
    pub fn last(&self) -> u64 {
        self.last
    }
    /// Operations that were started, but for discards.
    pub fn asked(&self) -> u64 {
        self.last - self.discards
    }
    /// What that operation does, and on which device.
    pub fn describe(&self, token: u64) -> Option<(&'static str, Dev)> {
        let UnderWay { dev, does, .. } = self.under_way.get(&token)?;
        let does = match does {
            Does::Read => "reading",
            Does::Write => "writing",
            Does::Flush => "flushing",
            Does::Discard => "discarding",
        };
        Some((does, *dev))
    }
    /// Blocks written since the store was opened.
    pub fn wrote(&self) -> Wrote {
        self.wrote
    }
    pub fn into_disks(self) -> Box<dyn Disks> {
        self.disks
    }
    pub fn blocks(&self, dev: Dev) -> u64 {
        self.disks.len_bytes(dev) / BLOCK
    }
    pub fn event_fd(&self) -> Option<std::os::fd::RawFd> {
        self.disks.event_fd()
    }
    pub fn in_flight(&self) -> usize {
        self.disks.in_flight()
    }
    pub fn wait(&mut self) {
        self.disks.wait();
    }
    pub fn linger(&mut self, limit: Duration) -> bool {
        self.disks.linger(limit)
    }
    pub fn kick(&mut self) {
        self.disks.kick();
    }
    pub fn read(&mut self, purpose: Purpose, dev: Dev, block: u64, blocks: u64) {
        self.wrote.reads += blocks;
        let token = self.token(purpose, dev, Does::Read);
        self.disks.read(token, dev, block * BLOCK, (blocks * BLOCK) as usize);
    }
    pub fn write(&mut self, purpose: Purpose, dev: Dev, block: u64, bufs: Vec<Bytes>, durability: Durability) {
        let blocks = bufs.iter().map(|b| b.len() as u64).sum::<u64>() / BLOCK;
        match (&purpose, dev) {
            (Purpose::Zeros, _) => self.wrote.zeros += blocks,
            (_, WAL) => self.wrote.log += blocks,
            (Purpose::Direct { .. } | Purpose::Spill { .. }, DATA) => self.wrote.direct += blocks,
            (Purpose::Pages { .. }, _) => self.wrote.meta += blocks,
            (_, DATA) => self.wrote.in_place += blocks,
            (_, META) => self.wrote.meta += blocks,
            _ => {}
        }
        let token = self.token(purpose, dev, Does::Write);
        self.disks.write(token, dev, block * BLOCK, bufs, durability);
    }
    /// Reads blocks of the metadata.
    pub fn read_meta(&mut self, purpose: Purpose, (block, blocks): Run) {
        let (dev, block) = meta_place(block);
        self.read(purpose, dev, block, blocks);
    }
    /// Writes pages of the metadata.
    pub fn write_pages(&mut self, ids: std::ops::Range<u64>, block: u64, bufs: Vec<Bytes>) {
        let blocks = bufs.iter().map(|b| b.len() as u64).sum::<u64>() / BLOCK;
        let (dev, block) = meta_place(block);
        self.write(Purpose::Pages { ids, blocks }, dev, block, bufs, Durability::Volatile);
    }
    pub fn flush(&mut self, dev: Dev) {
        self.wrote.flushes += 1;
        let token = self.token(Purpose::Flush, dev, Does::Flush);
        self.disks.flush(token, dev);
    }
    pub fn discard(&mut self, purpose: Purpose, dev: Dev, block: u64, blocks: u64) {
        self.wrote.discarded += blocks;
        self.discards += 1;
        let token = self.token(purpose, dev, Does::Discard);
        self.disks.discard(token, dev, block * BLOCK, (blocks * BLOCK) as usize);
    }
    /// Memory for what has completed, empty, which is to be put back.
    pub fn take_done(&mut self) -> Vec<Completion> {
        std::mem::take(&mut self.done)
    }
    pub fn put_done(&mut self, done: Vec<Completion>) {
        self.done = done;
    }
    /// What has completed; [`Io::purpose`] says what it was for.
    pub fn poll(&mut self, out: &mut Vec<Completion>) {
        self.disks.poll(out);
    }
    pub fn purpose(&mut self, token: u64) -> Purpose {
        self.under_way.remove(&token).expect("a completion is of something that was started").purpose
    }
    /// Reads blocks and waits for them: for opening a store and for tools, when nothing else is under way.
    pub fn read_now(&mut self, dev: Dev, block: u64, blocks: u64) -> Result<Bytes, disk::DiskError> {
        self.last += 1;
        let token = self.last;
        self.disks.read(token, dev, block * BLOCK, (blocks * BLOCK) as usize);
        self.wait_for(token).map(|buf| buf.expect("a read gives bytes").to_keep().freeze())
    }
    /// The same for several at once: a device does in parallel what it is asked together.
    pub fn reads_now(&mut self, extents: &[(Dev, u64, u64)]) -> Result<Vec<Bytes>, disk::DiskError> {
        let first = self.last + 1;
        for (dev, block, blocks) in extents {
            self.last += 1;
            self.disks.read(self.last, *dev, block * BLOCK, (blocks * BLOCK) as usize);
        }
        let (mut found, mut failed, mut done) = (vec![Bytes::new(); extents.len()], None, Vec::new());
        let mut missing = extents.len();
        while missing > 0 {
            self.disks.wait();
            self.disks.poll(&mut done);
            missing -= done.len();
            for c in done.drain(..) {
                assert!(c.token >= first, "nothing else is under way");
                match c.result {
                    Ok(buf) => found[(c.token - first) as usize] = buf.expect("a read gives bytes").to_keep().freeze(),
                    Err(e) => failed = Some(e),
                }
            }
        }
        failed.map_or(Ok(found), Err)
    }
    /// Pages of the metadata, each of these pieces in their order.
    pub fn pages_now(&mut self, pages: &[Vec<Run>]) -> Result<Vec<Bytes>, disk::DiskError> {
        let place = |run: &Run| {
            let (dev, block) = meta_place(run.0);
            (dev, block, run.1)
        };
        let extents: Vec<_> = pages.iter().flatten().map(place).collect();
        let mut found = self.reads_now(&extents)?.into_iter();
        let join = |page: &Vec<Run>| match page.len() {
            1 => found.next().expect("one for each piece"),
            n => found.by_ref().take(n).collect::<Vec<Bytes>>().concat().into(),
        };
        Ok(pages.iter().map(join).collect())
    }
    pub fn write_now(&mut self, dev: Dev, block: u64, bytes: Bytes) -> Result<(), disk::DiskError> {
        self.last += 1;
        let token = self.last;
        self.disks.write(token, dev, block * BLOCK, vec![bytes], Durability::Durable);
        self.wait_for(token).map(drop)
    }
    /// What was written to the device lasts, by whichever process.
    pub fn flush_now(&mut self, dev: Dev) -> Result<(), disk::DiskError> {
        self.last += 1;
        let token = self.last;
        self.disks.flush(token, dev);
        self.wait_for(token).map(drop)
    }
    fn wait_for(&mut self, token: u64) -> Result<Option<disk::AlignedBuf>, disk::DiskError> {
        let mut done = Vec::new();
        loop {
            self.disks.wait();
            self.disks.poll(&mut done);
            if let Some(i) = done.iter().position(|c| c.token == token) {
                assert_eq!(done.len(), 1, "nothing else is under way");
                return done.swap_remove(i).result;
            }
            assert!(done.is_empty(), "nothing else is under way");
        }
    }
}

impl std::fmt::Debug for Io {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Io").field("under_way", &self.under_way.len()).finish()
    }
}
