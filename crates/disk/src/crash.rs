//! Every state that a power cut could have left: a recording of what was written, and the states at each of its moments.
//!
//! At a moment (a number of events of the recording), a write is
//! - **certain** if it was durable and had completed while the process lived, or if a flush of its device has succeeded that was queued after it completed;
//! - **open** if it was queued before the moment, and is not certain: it may have landed, or not, or in part, and each open write for itself.
//!
//! A state is the certain writes and a choice for each open one. The image of what is certain advances with the moments and is shared; a
//! state is only what lies over it, so a state costs what its open writes cost, whatever the size of the devices.
//!
//! Where only the last moment matters, the recording goes along with it ([`Recording::of_the_end`]). It keeps the open writes then, and
//! the newest ones, however long it goes on.

use crate::BLOCK_BYTES;
use crate::disks::{Dev, Durability};
use crate::mem::{Block, Blocks, Image, MemDisks};
use base::Rng;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a device writes whole or not at all, in bytes.
const SECTOR_BYTES: usize = 512;

/// What was done to a set of devices, in order.
#[derive(Debug)]
pub struct Recording {
    start: Moment,
    /// Operations before the start, and those since.
    before: usize,
    ops: Vec<Op>,
    events: Vec<Event>,
    /// Bytes of the writes since the start, and how many there may be before the start moves on.
    bytes: u64,
    bytes_max: u64,
}

#[derive(Debug)]
enum Op {
    Write { dev: Dev, offset: u64, bufs: Vec<Bytes>, durable: bool },
    Flush { dev: Dev },
}

/// One moment's step. Numbers are those of operations, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A write or flush was queued.
    Queued(usize),
    Done(usize),
    /// The device has the write, and the process that waited for it is gone: a durable one may be in the cache only.
    Landed(usize),
    Failed(usize),
    /// The test's own mark.
    Note(u64),
}

impl Recording {
    pub(crate) fn new(start: Arc<Image>) -> Self {
        Self { start: Moment::new(start), before: 0, ops: Vec::new(), events: Vec::new(), bytes: 0, bytes_max: u64::MAX }
    }
    /// The same, for its last moment alone: earlier ones are not kept beyond so many bytes of writes.
    pub(crate) fn of_the_end(start: Arc<Image>, bytes_max: u64) -> Self {
        Self { bytes_max, ..Self::new(start) }
    }
    pub(crate) fn write(&mut self, dev: Dev, offset: u64, bufs: &[Bytes], durability: Durability) -> usize {
        self.bytes += bufs.iter().map(|b| b.len() as u64).sum::<u64>();
        if self.bytes > self.bytes_max {
            self.go_on();
        }
        self.push(Op::Write { dev, offset, bufs: bufs.to_vec(), durable: durability == Durability::Durable })
    }
    /// The start moves to the end.
    fn go_on(&mut self) {
        for event in self.events.drain(..) {
            self.start.step(event, self.before, &self.ops);
        }
        self.before += self.ops.len();
        self.ops.clear();
        self.bytes = 0;
    }
    pub(crate) fn flush(&mut self, dev: Dev) -> usize {
        self.push(Op::Flush { dev })
    }
    fn push(&mut self, op: Op) -> usize {
        let number = self.before + self.ops.len();
        self.ops.push(op);
        self.events.push(Event::Queued(number));
        number
    }
    pub(crate) fn done(&mut self, op: usize, ok: bool) {
        self.events.push(if ok { Event::Done(op) } else { Event::Failed(op) });
    }
    pub(crate) fn landed(&mut self, op: usize) {
        self.events.push(Event::Landed(op));
    }
    pub(crate) fn note(&mut self, mark: u64) {
        self.events.push(Event::Note(mark));
    }
    pub fn events(&self) -> &[Event] {
        &self.events
    }
    /// Where what was written lies in memory, ascending: nothing else can be there, and nothing there changes, while the recording lives.
    pub fn memory(&self) -> Vec<std::ops::Range<*const u8>> {
        let bufs = self.ops.iter().flat_map(|op| match op {
            Op::Write { bufs, .. } => &bufs[..],
            Op::Flush { .. } => &[],
        });
        let mut all: Vec<_> = bufs.map(|buf| buf.as_ptr_range()).collect();
        all.sort_unstable_by_key(|range| range.start);
        // The same zeros may have been written more than once.
        all.dedup();
        all
    }
    /// Bytes of all writes.
    pub fn written_bytes(&self) -> u64 {
        let len = |op: &Op| match op {
            Op::Write { bufs, .. } => bufs.iter().map(|b| b.len() as u64).sum(),
            Op::Flush { .. } => 0,
        };
        self.ops.iter().map(len).sum()
    }
}

/// How finely open writes are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tear {
    /// A write lands whole or not at all.
    Never,
    /// Any of its blocks (4 KiB) land.
    Blocks,
    /// Any of its sectors (512 B) land.
    Sectors,
    /// A block is cut at any byte: worse than what devices promise.
    Bytes,
}

/// A write that may or may not have landed.
#[derive(Debug, Clone)]
struct OpenWrite {
    dev: Dev,
    /// Certain as soon as it has completed.
    durable: bool,
    /// Blocks that no later certain write has replaced.
    blocks: Vec<(u64, Block)>,
    done: bool,
    /// A flush that should have covered it failed, or it failed itself: no later flush covers it.
    doomed: bool,
}

/// The certain blocks of a moment, and its open writes.
#[derive(Debug, Clone)]
struct Moment {
    certain: Arc<Image>,
    /// Which operation each certain block is of.
    writer: Blocks<usize>,
    /// By operation.
    open: BTreeMap<usize, OpenWrite>,
    /// Flushes that are under way, and the writes that each covers.
    flushes: BTreeMap<usize, Vec<usize>>,
}

impl Moment {
    fn new(certain: Arc<Image>) -> Self {
        Self { certain, writer: Blocks::default(), open: BTreeMap::new(), flushes: BTreeMap::new() }
    }
    /// Goes one event on. The first of `ops` has the number `before`.
    fn step(&mut self, event: Event, before: usize, ops: &[Op]) {
        match event {
            Event::Note(_) => {}
            Event::Queued(n) => self.queued(n, &ops[n - before]),
            Event::Done(n) => self.done(n),
            Event::Landed(n) => self.open.get_mut(&n).into_iter().for_each(|w| w.done = true),
            Event::Failed(n) => self.failed(n),
        }
    }
    fn queued(&mut self, n: usize, op: &Op) {
        match op {
            Op::Write { dev, offset, bufs, durable } => {
                let pieces = bufs.iter().flat_map(Block::all_of);
                let blocks = (offset / BLOCK_BYTES as u64..).zip(pieces).collect();
                self.open.insert(n, OpenWrite { dev: *dev, durable: *durable, blocks, done: false, doomed: false });
            }
            Op::Flush { dev } => {
                let covered = self.open.iter().filter(|(_, w)| w.dev == *dev && w.done && !w.doomed).map(|(n, _)| *n).collect();
                self.flushes.insert(n, covered);
            }
        }
    }
    fn done(&mut self, n: usize) {
        if let Some(covered) = self.flushes.remove(&n) {
            for covered in covered {
                if self.open.get(&covered).is_some_and(|w| !w.doomed) {
                    self.settle(covered);
                }
            }
        } else if self.open.get(&n).is_some_and(|w| w.durable) {
            self.settle(n);
        } else {
            self.open.get_mut(&n).into_iter().for_each(|w| w.done = true);
        }
    }
    fn failed(&mut self, n: usize) {
        match self.flushes.remove(&n) {
            None => self.open.get_mut(&n).into_iter().for_each(|w| w.doomed = true),
            Some(covered) => {
                for covered in covered {
                    self.open.get_mut(&covered).into_iter().for_each(|w| w.doomed = true);
                }
            }
        }
    }
    /// A write becomes certain. What it replaces can't come back; what has replaced it stays.
    fn settle(&mut self, n: usize) {
        let Some(write) = self.open.remove(&n) else { return };
        let certain = Arc::make_mut(&mut self.certain);
        for (block, bytes) in write.blocks {
            let writer = self.writer.entry((write.dev, block)).or_insert(n);
            if *writer <= n {
                *writer = n;
                certain.set(write.dev, block, bytes);
                for (_, older) in self.open.range_mut(..n).filter(|(_, older)| older.dev == write.dev) {
                    older.blocks.retain(|(b, _)| *b != block);
                }
            }
        }
        self.open.retain(|_, w| !w.blocks.is_empty() || !w.done);
    }

    /// One state of this moment, by chance: all open writes lost, all landed, or each its own way.
    fn state(&self, rng: &mut Rng, tear: Tear) -> MemDisks {
        let mut over = Blocks::default();
        let all = rng.below(6);
        for write in self.open.values() {
            let fate = match all {
                0 => 0,
                1 => 1,
                _ => rng.below(if tear == Tear::Never { 2 } else { 4 }),
            };
            match fate {
                0 => {}
                1 => write.blocks.iter().for_each(|(block, new)| drop(over.insert((write.dev, *block), new.clone()))),
                _ => self.tear(write, rng, tear, &mut over),
            }
        }
        MemDisks::of(self.certain.clone(), over)
    }
    /// What a block has that was not written yet in the state that is being made.
    fn before(&self, at: (Dev, u64), over: &Blocks<Block>) -> [u8; BLOCK_BYTES] {
        over.get(&at).or_else(|| self.certain.get(at.0, at.1)).map_or([0; BLOCK_BYTES], |old| *old.bytes())
    }
    /// A part of a write: a first part, or any parts.
    fn tear(&self, write: &OpenWrite, rng: &mut Rng, tear: Tear, over: &mut Blocks<Block>) {
        if tear == Tear::Bytes {
            return self.cut(write, rng, over);
        }
        let per_block = if tear == Tear::Sectors { BLOCK_BYTES / SECTOR_BYTES } else { 1 };
        let first_part = rng.chance(1, 2).then(|| rng.below((write.blocks.len() * per_block) as u64 + 1) as usize);
        let unit_bytes = BLOCK_BYTES / per_block;
        for (n, (block, new)) in write.blocks.iter().enumerate() {
            let mut landed = 0_u32;
            for unit in 0..per_block {
                let lands = first_part.map_or_else(|| rng.chance(1, 2), |end| n * per_block + unit < end);
                landed |= (lands as u32) << unit;
            }
            let key = (write.dev, *block);
            if landed == 0 {
                continue;
            }
            if landed.count_ones() as usize == per_block {
                over.insert(key, new.clone());
                continue;
            }
            let mut mixed = self.before(key, over);
            for unit in (0..per_block).filter(|unit| landed & (1 << unit) != 0) {
                let range = unit * unit_bytes..(unit + 1) * unit_bytes;
                mixed[range.clone()].copy_from_slice(&new.bytes()[range]);
            }
            over.insert(key, Block::of(&mixed));
        }
    }
    /// Of each block what is before, or behind, any of its bytes; or nothing of it, or all.
    fn cut(&self, write: &OpenWrite, rng: &mut Rng, over: &mut Blocks<Block>) {
        for (block, new) in &write.blocks {
            let at = rng.below(BLOCK_BYTES as u64) as usize;
            let range = match rng.below(4) {
                0 => continue,
                1 => 0..BLOCK_BYTES,
                // What matters is often in front.
                2 => 0..if rng.chance(1, 2) { at % 256 } else { at },
                _ => at..BLOCK_BYTES,
            };
            let key = (write.dev, *block);
            let mut mixed = self.before(key, over);
            mixed[range.clone()].copy_from_slice(&new.bytes()[range]);
            over.insert(key, Block::of(&mixed));
        }
    }
}

/// Walks through a recording's moments and makes states.
pub struct CrashStates<'a> {
    recording: &'a Recording,
    /// Events before the moment.
    at: usize,
    now: Moment,
}

impl<'a> CrashStates<'a> {
    /// At the moment before the first event.
    pub fn new(recording: &'a Recording) -> Self {
        Self { recording, at: 0, now: recording.start.clone() }
    }
    /// Goes one event on, and says which; `None` at the end.
    pub fn step(&mut self) -> Option<Event> {
        let event = *self.recording.events.get(self.at)?;
        self.at += 1;
        self.now.step(event, self.recording.before, &self.recording.ops);
        Some(event)
    }
    /// Events before the moment.
    pub fn at(&self) -> usize {
        self.at
    }
    /// Writes that may or may not have landed.
    pub fn open_writes(&self) -> usize {
        self.now.open.len()
    }
    /// One state of this moment, by chance: all open writes lost, all landed, or each its own way.
    pub fn state(&self, rng: &mut Rng, tear: Tear) -> MemDisks {
        self.now.state(rng, tear)
    }
}
