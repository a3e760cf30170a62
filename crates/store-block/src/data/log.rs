//! The log of an open store: the record that is being filled, those on their way to the device, and where in the ring they go.
//!
//! ```text
//!   open ──(next)──> sent: under way, in parts ──(part_done)──> durable, in the order of their numbers ──> commits
//!   ring: tail ─────────────── records that the next start needs ──────────────── head        (trim, once a checkpoint is durable)
//! ```
//! Holds no device: [`crate::data::commit`] writes what goes out, and decides when. Holds no change: [`crate::data::write`] puts them into
//! the open record.
//!
//! A record takes the same steps wherever the log stands and however much it has; how much that may be for the next start is `replay`'s to
//! say.

use crate::data::load::Load;
use crate::data::ops::Op;
use crate::data::wal::{Ahead, Batch, Ring};
use crate::open::layout::{BLOCK, WAL_FIRST};
use crate::open::superblock::Superblock;
use crate::planted::{Bug, planted};
use std::collections::VecDeque;

/// A record on its way.
#[derive(Debug)]
struct UnderWay {
    seq: u64,
    /// Its position in the ring.
    at: u64,
    /// Writes that have not completed: of the record, and of data beside it.
    parts: usize,
    tokens: Vec<u64>,
}

#[derive(Debug)]
pub struct Log {
    ring: Ring,
    ahead: Ahead,
    open: Batch,
    /// The object that the open record's last change was to.
    named: Option<u32>,
    /// Bytes of the record before, as a guess for the next one, and its transactions.
    like: usize,
    txns: usize,
    under_way: VecDeque<UnderWay>,
    durable: u64,
    commits: Vec<u64>,
    /// Where a change is encoded on its way into the open record.
    scratch: Vec<u8>,
}

impl Log {
    /// The log behind a checkpoint. Before its first lap, zeros are written ahead of it if it lies in a file with holes.
    pub fn new(sb: &Superblock, has_holes: bool) -> Self {
        let blocks = sb.wal_blocks - WAL_FIRST;
        Self {
            ring: Ring::new(blocks, sb.wal_at),
            ahead: Ahead::new(if has_holes { blocks } else { 0 }),
            open: Batch::new(sb.wal_seq, 0),
            named: None,
            like: 0,
            txns: 0,
            under_way: VecDeque::new(),
            durable: sb.wal_seq.saturating_sub(1),
            commits: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// The record that is being filled.
    pub fn open(&self) -> &Batch {
        &self.open
    }
    pub fn open_mut(&mut self) -> &mut Batch {
        &mut self.open
    }
    /// The open record's number.
    pub fn seq(&self) -> u64 {
        self.open.seq()
    }
    /// A change goes into the open record.
    pub fn put<B: AsRef<[u8]>>(&mut self, op: &Op<B>) {
        self.open.put(|out| op.encode(out));
    }
    /// The next change is to this object: true if the record must name it first.
    pub fn names(&mut self, slot: u32) -> bool {
        self.named.replace(slot) != Some(slot)
    }
    /// Memory in which a change is encoded on its way into the open record, and which is to be put back.
    pub fn take_scratch(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.scratch)
    }
    pub fn put_scratch(&mut self, scratch: Vec<u8>) {
        self.scratch = scratch;
    }
    /// How many wrote together, by the record before the open one.
    pub fn load_before(&self) -> Load {
        Load::of_record(self.txns)
    }

    pub fn ring(&self) -> &Ring {
        &self.ring
    }
    /// A checkpoint is durable: what lies in front of it is not needed any more.
    pub fn trim(&mut self, to: u64) {
        assert!((self.ring.tail..=self.ring.head).contains(&to) || planted(Bug::TrimEarly), "the log is trimmed within itself");
        self.ring.tail = to;
    }
    /// A record that was found in the ring, at a start: the next one has the number behind it.
    pub fn found(&mut self, seq: u64) {
        assert!(self.open.is_empty() && self.under_way.is_empty(), "nothing was written yet");
        self.open = Batch::new(seq + 1, 0);
    }
    /// All records were found: they end here, and are durable.
    pub fn found_all(&mut self, end: u64) {
        self.ring.head = end;
        self.durable = self.open.seq() - 1;
    }

    /// An open record is not grown when it has so many bytes, until it is sealed.
    pub fn batch_max(&self) -> usize {
        sizes::batch_bytes(self.ring.blocks()) as usize
    }
    /// Blocks that one transaction may put into its record: what is more lies beside it.
    pub fn txn_max(&self) -> u64 {
        sizes::txn(self.ring.blocks())
    }
    /// Images that one transaction puts into a record; blocks that are written in part move then.
    pub fn images_max(&self) -> u64 {
        self.txn_max() * 7 / 8
    }
    /// Blocks that a record may have.
    pub fn record_max(&self) -> u64 {
        sizes::record(self.ring.blocks())
    }
    /// How far behind a record, at most, the first one is that was sent when that one was durable. Those between were sent while it was under way,
    /// so the last of them begins within the span, and ends a record later; once on the way, less than a record in front of the ring's end may
    /// have been skipped.
    pub fn voucher_max(&self) -> u64 {
        sizes::voucher(self.ring.blocks())
    }
    /// True if so much of the ring is in use that a checkpoint is to begin.
    pub fn is_filling(&self) -> bool {
        let (used, blocks) = (self.ring.used(), self.ring.blocks());
        used > blocks / 2 || used + sizes::DUE * self.record_max() > blocks
    }

    /// Up to this record all are durable.
    pub fn durable(&self) -> u64 {
        self.durable
    }
    /// Records on their way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }
    /// True if nothing is on its way, and nothing is to be sent.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.open.is_empty()
    }
    /// True if a start could still find what says of the oldest record under way that it was durable, and if no zeros are being written where the open
    /// record goes: a moment, else.
    pub fn may_send(&self) -> bool {
        let n = self.open.blocks();
        assert!(n <= self.record_max(), "records have a bound");
        let is_near = self.under_way.front().is_none_or(|oldest| self.ring.head - oldest.at <= sizes::span(self.ring.blocks()));
        is_near && !self.ahead.is_in_the_way(self.ring.fit(self.ring.head, n), n)
    }
    /// Takes room for the open record: its position. A checkpoint needs the records up to its barrier: room for those is kept (two, as one may have to
    /// go to the ring's front). And behind a checkpoint that is under way, which will leave the log's tail at `tail`, room for its barrier, for the record
    /// that is open when it is done, and for what the next checkpoint keeps: that one begins between two records.
    pub fn take_room(&mut self, is_barrier: bool, tail: Option<u64>) -> Option<u64> {
        let (n, record) = (self.open.blocks(), self.record_max());
        if !is_barrier && tail.is_some_and(|tail| !self.ring.has_room(tail, n, sizes::BEHIND * record)) {
            return None;
        }
        let at = self.ring.take(n, if is_barrier { 0 } else { sizes::KEPT * record });
        assert!(at.is_some() || tail.is_some() || planted(Bug::TrimEarly), "the log is trimmed before it is full");
        at
    }
    /// The open record goes out, and another is open.
    pub fn next(&mut self) -> Batch {
        let next = self.open.after(self.like);
        self.named = None;
        std::mem::replace(&mut self.open, next)
    }
    /// What the record was like that went out; the memory of its changes is used again.
    pub fn went(&mut self, bytes: usize, txns: usize, changes: Vec<u8>) {
        const LIKE_MAX: usize = 1 << 20;
        (self.like, self.txns) = (bytes.min(LIKE_MAX), txns);
        self.open.reuse(changes);
    }
    /// A record was sent, in so many writes.
    pub fn sent(&mut self, seq: u64, at: u64, parts: usize, mut tokens: Vec<u64>) {
        if planted(Bug::AckBeforeDurable) || self.durable + 1 == seq && planted(Bug::AckOneEarly) {
            self.commits.append(&mut tokens);
        }
        self.under_way.push_back(UnderWay { seq, at, parts, tokens });
    }
    /// A write of a record has completed. True if more of the log is durable than before.
    pub fn part_done(&mut self, seq: u64) -> bool {
        let first = self.under_way.front().expect("a record whose part is done is under way").seq;
        let record = &mut self.under_way[(seq - first) as usize];
        record.parts -= 1;
        if planted(Bug::AckOutOfOrder) && record.parts == 0 {
            self.commits.append(&mut record.tokens);
        }
        let before = self.durable;
        while let Some(record) = self.under_way.pop_front_if(|r| r.parts == 0) {
            self.durable = record.seq;
            self.commits.extend(record.tokens);
        }
        self.durable > before
    }
    /// Transactions that have become durable.
    pub fn take_commits(&mut self, tokens: &mut Vec<u64>) {
        tokens.append(&mut self.commits);
    }

    /// Where zeros are to be written next, in front of the log's end: block and number of blocks.
    pub fn next_zeros(&mut self, is_calm: bool) -> Option<(u64, u64)> {
        let (at, blocks) = self.ahead.next(self.ring.head, is_calm)?;
        Some((self.ring.block(at), blocks))
    }
    pub fn zeros_done(&mut self) {
        self.ahead.done();
    }
    /// Zeros could not be written: records go where there are none.
    pub fn give_up_zeros(&mut self) {
        self.ahead.give_up();
    }

    /// Records are numbered without a gap: those that are durable, those on their way, the open one.
    pub fn assert_invariants(&self, tail: u64) {
        assert_eq!(self.durable + self.under_way.len() as u64 + 1, self.open.seq(), "each record is durable, on its way, or open");
        assert!(self.under_way.front().is_none_or(|r| r.seq == self.durable + 1), "records become durable in order");
        assert!(self.ring.used() <= self.ring.blocks(), "the log ends in front of what it still needs");
        assert!(self.ring.tail == tail || planted(Bug::TrimEarly), "the log begins where the superblock says");
    }
}

/// How much records may have, by the blocks of the ring, and how these sizes fit together.
mod sizes {
    use super::BLOCK;
    use crate::open::layout::{WAL_FIRST, WAL_MIN};

    /// Records that a checkpoint is begun in front of: it has its barrier to write, and others go on meanwhile.
    pub const DUE: u64 = 5;
    /// Records for which room is kept while no checkpoint is under way, and behind one that is.
    pub const KEPT: u64 = 2;
    pub const BEHIND: u64 = 6;

    const fn least(a: u64, b: u64) -> u64 {
        if a < b { a } else { b }
    }
    /// Bytes that an open record grows to.
    pub const fn batch_bytes(ring: u64) -> u64 {
        least(1 << 20, ring * BLOCK / 32)
    }
    /// Blocks that one transaction may put into a record.
    pub const fn txn(ring: u64) -> u64 {
        least(4096, ring / 8)
    }
    pub const fn record(ring: u64) -> u64 {
        batch_bytes(ring) / BLOCK + txn(ring) + 2
    }
    /// A record is sent while the log has at most so many blocks from the oldest one that is under way on.
    pub const fn span(ring: u64) -> u64 {
        least(2048, ring / 8)
    }
    pub const fn voucher(ring: u64) -> u64 {
        span(ring) + 2 * record(ring)
    }
    /// What a ring of this size must have room for.
    const fn fits(ring: u64) -> bool {
        let record = record(ring);
        // What is kept behind a checkpoint, with the record that asks for it; the span that a start looks through for one that vouches.
        (BEHIND + 1) * record <= ring + record && voucher(ring) < ring && DUE >= KEPT + 1 && BEHIND >= DUE + 1
    }
    const _: () = {
        // From the smallest ring on, and for all larger ones: sizes grow no faster than the ring does.
        let mut ring = WAL_MIN / BLOCK - WAL_FIRST;
        while ring < 1 << 40 {
            assert!(fits(ring), "a ring has room for what is kept of it");
            ring *= 2;
        }
    };
}
