//! Transactions that wait for bytes, and the order they keep.
//!
//! ```text
//!   submit ──> everything in memory ──> made, into the open record
//!      └────> something must be read ──> the queue ──(it has come)──> made
//! ```
//! Nothing overtakes in the queue. What reads an object that a waiting transaction names waits too: what was submitted is visible. Here is the order,
//! what was promised to those that wait, and how far the first one is; [`make`] makes them, [`growth`] counts what they add.
//!
//! However many wait, to put one in, to take one out, and to say what the largest piece of all is takes one step; whether an object is
//! named is one look into a table, into which each that waits is entered once, and only if something asks while it waits.

pub mod growth;
mod make;

use crate::data::overlay::Numbers;
use crate::open::layout::CHUNK_BLOCKS;
use crate::rows::meta::leaf::key_hash;
use crate::state::Core;
use growth::Growth;
use std::collections::VecDeque;
use store::{LogDelta, StoreError, StoreResult};
use types::{GHObject, Transaction, TxKind};

/// A transaction that waits.
#[derive(Debug)]
pub struct Queued {
    txn: Transaction,
    /// What changes in groups' memory, each of one group, as far as it is not made.
    log: VecDeque<LogDelta>,
    token: u64,
    growth: Growth,
    /// Some change is of a collection, not of an object in it.
    of_coll: bool,
    /// The queue's table has the names of its objects.
    is_named: bool,
    made: Made,
    /// Blocks of data that it took so far.
    taken_blocks: u64,
}

/// How far a transaction is made.
#[derive(Debug, Default)]
struct Made {
    /// Changes before this one are made, and so many parts of this one.
    next: usize,
    part: usize,
    /// Of a change that goes over keys of an omap: the key that it goes on with.
    key: Option<Vec<u8>>,
    /// Images of the open record that are others', and the change for which it was decided last whether it has images.
    images: u64,
    decided: Option<(usize, bool)>,
    /// They stay while the transaction is half made: nothing leaves memory then.
    slots: Slots,
    /// The first number that it gave to an object.
    first_new: u64,
}

/// The slots of a transaction's objects, found once.
#[derive(Debug, Default)]
struct Slots(Vec<Option<u32>>);

impl Queued {
    fn new(txn: Transaction, log: Option<LogDelta>, token: u64, growth: Growth) -> Self {
        let of_coll = txn.ops().iter().any(|op| of_coll(&op.kind));
        Self {
            txn,
            log: log.into_iter().flat_map(LogDelta::apart).collect(),
            token,
            growth,
            of_coll,
            is_named: false,
            made: Made::default(),
            taken_blocks: 0,
        }
    }
    /// A part of it is made. A transaction that takes more than it was promised takes the room of others, which were accepted too: a store
    /// that is nearly full stops then. One with room beside goes on, so this ends none that people use.
    fn has_taken(&mut self, blocks: u64) {
        self.taken_blocks += blocks;
        let (taken, growth) = (self.taken_blocks, self.growth);
        debug_assert!(taken <= growth.blocks(), "{taken} blocks were taken, and {growth:?} promised: {:?}", self.txn);
    }
    fn names(&self) -> impl Iterator<Item = u64> {
        self.txn.objects().map(name_hash)
    }
}

/// A name in the queue's table. Two that share a number wait for each other's changes, which harms neither.
fn name_hash(obj: &GHObject) -> u64 {
    let name = &obj.hobj;
    key_hash(name.oid.as_slice()) ^ u64::from(name.hash).rotate_left(32) ^ name.snap.rotate_left(16) ^ name.pool as u64 ^ obj.generation
}

/// An object that transactions which wait name.
#[derive(Debug, Default)]
struct Waits {
    /// How many name it.
    count: u32,
    /// Blocks of the largest place that one of them may leave it. It stays while any waits.
    blocks: u64,
}

/// How many of the transactions that wait name an object, and how many a collection.
#[derive(Debug, Default)]
struct Named {
    objects: Numbers<Waits>,
    colls: usize,
}

impl Named {
    fn add(&mut self, queued: &Queued) {
        self.colls += usize::from(queued.of_coll);
        queued.names().for_each(|name| self.objects.entry(name).or_default().count += 1);
        for op in queued.txn.ops() {
            let (obj, blocks) = growth::leaves(op);
            if blocks > 0 {
                let waits = self.objects.get_mut(&name_hash(queued.txn.object(obj))).expect("a transaction names its objects");
                waits.blocks = waits.blocks.max(blocks);
            }
        }
    }
    fn take(&mut self, queued: &Queued) {
        self.colls -= usize::from(queued.of_coll);
        for name in queued.names() {
            let waits = self.objects.get_mut(&name).expect("a name that is taken out was put in");
            waits.count -= 1;
            if waits.count == 0 {
                self.objects.remove(&name);
            }
        }
    }
}

#[derive(Debug, Default)]
pub struct Queue {
    /// The first may be half done.
    waiting: VecDeque<Queued>,
    /// What they add together, at most.
    promised: Growth,
    promised_blocks: u64,
    /// How many of them have a largest piece of so many blocks.
    largest: [usize; CHUNK_BLOCKS as usize + 1],
    /// The objects of those that were here when something asked.
    named: Named,
    /// Waiters for what a waiting transaction names, and whether one was made since they were told last.
    tickets: Vec<u64>,
    has_moved: bool,
    /// True while the open record holds a part of a transaction.
    half: bool,
    /// Of the transaction that is being made: where in the open record's changes those begin that may be spilled next, and whether the change that is
    /// being made puts no images into the record.
    spill_from: usize,
    without_images: bool,
    /// Transactions that were looked at.
    #[cfg(test)]
    steps: u64,
}

/// A piece lies within one chunk.
fn piece(growth: &Growth) -> usize {
    growth.largest.min(CHUNK_BLOCKS) as usize
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
    /// True while the open record holds a part of a transaction.
    pub fn is_half(&self) -> bool {
        self.half
    }
    /// What those that wait add together, at most: chunks, and bytes of rows.
    pub fn promised_chunks(&self) -> u64 {
        self.promised.chunks()
    }
    /// The same in blocks, where their pieces share chunks.
    pub fn promised_blocks(&self) -> u64 {
        self.promised_blocks
    }
    pub fn promised_bytes(&self) -> u64 {
        self.promised.bytes
    }
    /// Blocks of the largest piece that one of them may need.
    pub fn largest(&self) -> u64 {
        self.largest.iter().rposition(|n| *n > 0).unwrap_or(0) as u64
    }
    fn push(&mut self, queued: Queued) {
        self.largest[piece(&queued.growth)] += 1;
        self.promised_blocks += queued.growth.blocks();
        self.promised.pieces += queued.growth.pieces;
        self.promised.spilled += queued.growth.spilled;
        self.promised.bytes += queued.growth.bytes;
        self.waiting.push_back(queued);
    }
    /// One that was taken out is made: what was promised to it is used.
    fn made(&mut self, queued: &Queued) {
        self.has_moved = true;
        self.largest[piece(&queued.growth)] -= 1;
        if queued.is_named {
            self.named.take(queued);
        }
        self.promised_blocks -= queued.growth.blocks();
        self.promised.pieces -= queued.growth.pieces;
        self.promised.spilled -= queued.growth.spilled;
        self.promised.bytes -= queued.growth.bytes;
    }
    /// True if one of them names the object; without one, if any waits.
    fn names(&mut self, obj: Option<&GHObject>) -> bool {
        let Some(obj) = obj else { return !self.waiting.is_empty() };
        self.name_all();
        self.named.colls > 0 || self.named.objects.contains_key(&name_hash(obj))
    }
    /// Blocks of the largest place that those which wait leave the object; `None` if none names it.
    fn leaves(&mut self, obj: &GHObject) -> Option<u64> {
        self.name_all();
        self.named.objects.get(&name_hash(obj)).map(|waits| waits.blocks)
    }
    /// The table has all that wait.
    fn name_all(&mut self) {
        let Self { waiting, named, .. } = self;
        // Those that came since are at the end.
        for queued in waiting.iter_mut().rev().take_while(|queued| !queued.is_named) {
            named.add(queued);
            queued.is_named = true;
            #[cfg(test)]
            {
                self.steps += 1;
            }
        }
    }
    /// Those that wait for the queue are to ask again.
    pub fn take_tickets(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.tickets)
    }
    /// The same, if one was made since, or none waits: else they would only ask again.
    pub fn take_hopeful(&mut self) -> Vec<u64> {
        let has_moved = std::mem::take(&mut self.has_moved);
        if has_moved || self.waiting.is_empty() { self.take_tickets() } else { Vec::new() }
    }

    /// Where in the open record's changes those begin that may be spilled next.
    pub fn spill_from(&self) -> usize {
        self.spill_from
    }
    pub fn set_spill_from(&mut self, at: usize) {
        self.spill_from = at;
    }
    /// True if the change that is being made puts no images into the record.
    pub fn is_without_images(&self) -> bool {
        self.without_images
    }

    pub fn assert_invariants(&self) {
        let Growth { pieces, bytes, spilled, .. } = self.promised;
        assert!((pieces, bytes, spilled) == (0, 0, 0) || !self.is_empty(), "promises are to transactions that wait");
        assert!(!self.half || !self.is_empty(), "what is half made waits in front");
    }
    #[cfg(test)]
    pub fn assert_counts(&self) {
        let sum = |of: fn(&Growth) -> u64| self.waiting.iter().map(|q| of(&q.growth)).sum::<u64>();
        assert_eq!(self.promised_blocks, sum(Growth::blocks), "and so many blocks");
        let Growth { pieces, bytes, spilled, .. } = self.promised;
        assert_eq!((pieces, bytes, spilled), (sum(|g| g.pieces), sum(|g| g.bytes), sum(|g| g.spilled)), "each was promised what it adds");
        assert_eq!(self.largest(), self.waiting.iter().map(|q| q.growth.largest).max().unwrap_or(0));
        let mut named = Named::default();
        self.waiting.iter().filter(|q| q.is_named).for_each(|q| named.add(q));
        let counts =
            |named: &Named| named.objects.iter().map(|(name, waits)| (*name, waits.count)).collect::<std::collections::BTreeMap<_, _>>();
        assert_eq!((named.colls, counts(&named)), (self.named.colls, counts(&self.named)), "each name is that of one that waits");
        let is_counted = |(name, waits): (&u64, &Waits)| self.named.objects[name].blocks >= waits.blocks;
        assert!(named.objects.iter().all(is_counted), "an object is not smaller than one that waits leaves it");
    }
}

impl Core {
    /// While transactions wait: a question about an object that one of them names waits too.
    pub fn busy(&mut self, obj: Option<&GHObject>) -> StoreResult<()> {
        if self.queue.is_empty() || !self.queue.names(obj) {
            return Ok(());
        }
        let ticket = self.tickets.make();
        self.queue.tickets.push(ticket);
        Err(StoreError::Wait(ticket))
    }
}

fn of_coll(kind: &TxKind) -> bool {
    matches!(
        kind,
        TxKind::Nop
            | TxKind::MkColl { .. }
            | TxKind::RmColl
            | TxKind::SplitColl { .. }
            | TxKind::MergeColl { .. }
            | TxKind::CollSetBits { .. }
            | TxKind::CollHint { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::conformance::{object_coll, object_name};

    fn transaction(n: u64) -> Queued {
        let mut txn = Transaction::new(object_coll(0));
        txn.touch(&object_name(n));
        txn.touch(&object_name(n + 1));
        let growth = Growth { pieces: 1, largest: n % (CHUNK_BLOCKS + 1), ..Growth::default() };
        Queued::new(txn, None, n, growth)
    }

    /// Each that waits is looked at once, however often something asks whether it must wait too, and nothing is forgotten when it is made.
    #[test]
    fn a_long_queue_is_asked_as_a_short_one() {
        let steps = |waiting: u64| {
            let mut queue = Queue::default();
            let (mut first, mut asked) = (0, 0);
            for n in 0..waiting {
                queue.push(transaction(n));
                // Reads come in between.
                for other in [first, n, n + 1, n + 2, n / 2, waiting + n + 2] {
                    let is_named = other <= n + 1 && other >= first;
                    assert_eq!(queue.names(Some(&object_name(other))), is_named, "{other} of {first} to {n}");
                    asked += 1;
                }
                if n % 3 == 2 {
                    let done = queue.waiting.pop_front().expect("it waits");
                    queue.made(&done);
                    first += 1;
                }
                if n % 64 == 0 {
                    queue.assert_counts();
                }
            }
            queue.assert_counts();
            assert!(queue.names(None) && queue.steps <= waiting && asked > 5 * waiting);
            while let Some(done) = queue.waiting.pop_front() {
                queue.made(&done);
            }
            queue.assert_counts();
            assert!(!queue.names(None) && queue.named.objects.is_empty() && queue.largest() == 0);
            queue.steps / waiting
        };
        assert_eq!((steps(300), steps(3000)), (1, 1));
    }

    /// Readers that wait are woken when something was made, or nothing waits: not by whatever else happens.
    #[test]
    fn readers_are_woken_when_the_queue_has_moved() {
        let mut queue = Queue::default();
        (0..3).for_each(|n| queue.push(transaction(n)));
        queue.tickets = vec![7, 8];
        assert!(queue.take_hopeful().is_empty());
        let done = queue.waiting.pop_front().expect("it waits");
        queue.made(&done);
        assert_eq!((queue.take_hopeful(), queue.take_hopeful()), (vec![7, 8], vec![]));
    }
}
