//! Checkpoints: recent changes go into leaves, so that the log can be forgotten up to where the checkpoint began.
//!
//! ```text
//!   freeze (between two records) ──> drain: images of older records to their places ──> flush data
//!     ──> merge: frozen rows into leaves, some at a time ──> index, in pieces ──> flush meta
//!     ──> (records begun before the end of the drain are durable) ──> superblock ──> free what it replaced, trim the log
//! ```
//! The checkpoint is the exact state at its record: an object that changes again before it was written is put aside as it was
//! ([`Core::touch`]). The superblock waits for the records of the drain because those may have ended the need for an older image.
//!
//! Its work is in proportion to the rows that changed, each with a leaf; in a store before version 10, to the number of leaves too: the index
//! is written whole there ([`crate::rows::meta::parts`]). With a whole index the blocks that leaves have are written, in one step: some
//! 5 KiB for 128 MiB of metadata. The step
//! that freezes writes the allocator's pages that changed (4 KiB for 128 MiB of the device) and the groups that did.

mod generations;
mod merge;

pub use generations::Generations;

use crate::data::io::Purpose;
use crate::data::wal::Ring;
use crate::open::layout::{BLOCK, DATA, META, ON_DATA};
use crate::open::superblock::{EXTENTS_MAX, Superblock, encode_list};
use crate::place::give_back;
use crate::planted::{Bug, planted};
use crate::rows::key;
use crate::rows::meta::entry::LeafRef;
use crate::rows::meta::index::Index;
use crate::rows::meta::layer::{Key, Val};
use crate::rows::meta::parts::{Encoding, Form};
use crate::state::Core;
use bytes::Bytes;
use disk::Durability;
use std::collections::{BTreeMap, VecDeque};

/// In their order: each is entered from the one before it, and through [`Checkpoint::enter`] alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Drain,
    FlushData,
    Merge,
    Index,
    Pages,
    FlushPages,
    FlushMeta,
    Barrier,
    Superblock,
}

impl Stage {
    const ALL: [Self; 9] = [
        Self::Drain,
        Self::FlushData,
        Self::Merge,
        Self::Index,
        Self::Pages,
        Self::FlushPages,
        Self::FlushMeta,
        Self::Barrier,
        Self::Superblock,
    ];
    fn next(self) -> Option<Self> {
        Self::ALL.get(self as usize + 1).copied()
    }
}

#[derive(Debug)]
pub struct Checkpoint {
    stage: Stage,
    /// The first record that is not in it, and where that one begins.
    seq: u64,
    at: u64,
    next_nid: u64,
    /// Records up to this must be durable before the superblock.
    barrier: u64,
    /// Rows before this are merged.
    cursor: Key,
    /// Blocks of pages that are under way.
    pages: u64,
    /// Leaves that were asked for and are not merged yet, in their order, and where those begin that were not asked for.
    asked: VecDeque<u64>,
    /// Blocks of those.
    asked_blocks: u64,
    ahead: Key,
    /// Leaves in front of that which were looked up and are not merged yet: where each begins, and where it ends.
    seen: VecDeque<(Key, LeafRef, Option<Key>)>,
    /// Leaves from the first of these keys to before the second are made anew, whatever changes.
    pack: (Key, Key),
    /// Blocks in a row that this step has taken, and that no leaf has yet: the first, and how many.
    row: (u64, u64),
    /// Leaves that this step has made, and that go out with its end: id, block, bytes.
    made: Vec<(u64, u64, Bytes)>,
    /// A part of the index on its way: where it is not encoded yet, the pieces of all parts, blocks of those in front of it, blocks of each
    /// piece, and the crc of all that went out.
    encoding: Encoding,
    index: Vec<(u64, u64)>,
    kept: u64,
    /// Where the list of these places is, if the superblock has no room for them, and its bytes.
    list: Vec<(u64, u64)>,
    list_len: usize,
    piece: u64,
    index_crc: Option<u32>,
    /// Its first piece, which has the crc of all in front, waits for the others.
    front: Option<(u64, Vec<u8>)>,
    flush_done: bool,
    /// Some pages went to the data device: it is flushed before the meta device is.
    on_data: bool,
    /// Leaves in pieces: how many are not written yet.
    in_pieces: BTreeMap<u64, usize>,
    /// Leaves that this step may still write.
    budget: usize,
    /// Frozen rows that there are, and that are merged.
    rows: usize,
    merged: usize,
}

/// Blocks of pages that may be under way.
const PAGES_MAX: u64 = if cfg!(test) { 64 } else { 1024 };
/// The index is stored in pieces of at least this many blocks.
const PIECE_BLOCKS: u64 = if cfg!(test) { 1 } else { 64 };
/// And in so many, if there is a run of blocks for each.
const PIECES: u64 = if cfg!(test) { 64 } else { EXTENTS_MAX as u64 / 2 };

impl Checkpoint {
    fn enter(&mut self, stage: Stage) {
        assert_eq!(self.stage.next(), Some(stage), "a checkpoint goes from one stage to the next");
        self.stage = stage;
    }
    /// How much may have changed since it began, of what may when it is done: the more, the farther it is, so that changes which come
    /// faster than it gets done are slowed down all the time, and not stopped at its end.
    pub fn allows(&self, all: u64) -> u64 {
        let done = match self.stage {
            Stage::Drain | Stage::FlushData => 0,
            Stage::Merge => self.merged.min(self.rows),
            Stage::Index | Stage::Pages | Stage::FlushPages | Stage::FlushMeta | Stage::Barrier | Stage::Superblock => self.rows,
        };
        let later = u128::from(all - all / 4) * done as u128 / self.rows.max(1) as u128;
        all / 4 + later as u64
    }
    /// Where it stands beside the open record and the log's (tail, head).
    pub fn assert_place(&self, open: u64, ring: &Ring) {
        assert!(self.seq <= open && (ring.tail..=ring.head).contains(&self.at), "a checkpoint is of a record that the log has: {self:?}");
        assert!(self.stage >= Stage::Merge || self.merged == 0, "rows are merged in their turn: {self:?}");
    }
}

impl Core {
    fn is_due(&self) -> bool {
        self.generations.is_wanted()
            || self.log.is_filling()
            || self.table.active().bytes() + self.generations.changed_bytes() > self.recent_max()
            || self.replay.is_due()
            || self.space.idle_chunks() > self.alloc.chunks() / 8
    }

    /// Begins a checkpoint if one is due; only between two records.
    pub fn begin_checkpoint(&mut self) {
        if self.generations.is_under_way() || !self.log.open().is_empty() || !self.is_due() {
            return;
        }
        if self.log.ring().used() == 0 && self.table.active().is_empty() && self.space.idle_chunks() == 0 {
            self.generations.want_none();
            return;
        }
        self.freeze();
    }

    pub fn checkpoint_step(&mut self) {
        self.begin_checkpoint();
        if !self.generations.is_under_way() || self.is_stopped() {
            return;
        }
        loop {
            let c = self.generations.checkpoint();
            match c.stage {
                Stage::Drain => {
                    let images = self.overlay.oldest().is_some_and(|seq| seq < c.seq) || self.overlay.writing() > 0;
                    if images && !planted(Bug::SkipDrain) {
                        return;
                    }
                    c.enter(Stage::FlushData);
                    c.flush_done = false;
                    c.barrier = if self.log.open().is_empty() { self.log.seq() - 1 } else { self.log.seq() };
                    if planted(Bug::SkipDataFlush) {
                        c.flush_done = true;
                        continue;
                    }
                    self.io.flush(DATA);
                }
                Stage::FlushData if c.flush_done => {
                    c.enter(Stage::Merge);
                    merge::begin_packing(self);
                }
                Stage::Merge => {
                    if !self.merge_some() {
                        return;
                    }
                    self.begin_index();
                }
                // A piece at a time: the next one when some page has come back.
                Stage::Index if c.pages < PAGES_MAX => {
                    self.write_index_piece();
                    if self.is_stopped() || self.generations.checkpoint().pages > 0 {
                        return;
                    }
                }
                Stage::Pages if c.pages == 0 => {
                    c.enter(Stage::FlushPages);
                    c.flush_done = !c.on_data || planted(Bug::SkipLentFlush);
                    if !c.flush_done {
                        self.io.flush(DATA);
                    }
                }
                Stage::FlushPages if c.flush_done => {
                    c.enter(Stage::FlushMeta);
                    c.flush_done = planted(Bug::SkipMetaFlush);
                    if !c.flush_done {
                        self.io.flush(META);
                    }
                }
                Stage::FlushMeta if c.flush_done => c.enter(Stage::Barrier),
                Stage::Barrier
                    if self.log.durable() >= c.barrier
                        || self.log.durable() + 1 == c.barrier && planted(Bug::SkipLastBarrier)
                        || planted(Bug::SkipBarrier) =>
                {
                    c.enter(Stage::Superblock);
                    let sb = self.next_superblock();
                    self.io.write(
                        Purpose::Superblock,
                        META,
                        if planted(Bug::SuperblockInPlace) { 0 } else { sb.generation % 2 },
                        vec![sb.encode()],
                        Durability::Durable,
                    );
                }
                _ => return,
            }
        }
    }

    fn freeze(&mut self) {
        assert!(self.log.open().is_empty(), "a checkpoint begins between two records");
        for (page, bytes) in self.alloc.take_dirty() {
            self.table.put(&key::numbered(key::ALLOC, page), Val::Row(bytes.into()));
        }
        for (key, val) in self.refs.take_dirty() {
            self.table.put(&key, val);
        }
        if !self.salvage.has_copies() {
            self.renew_rows();
        }
        for (key, val) in self.layers.take_dirty() {
            self.table.put(&key, val);
        }
        if let Err(e) = self.groups.save(&mut self.table) {
            return self.stop(format!("what groups remember can't be saved: {e}"));
        }
        self.copy_rows();
        self.table.put(&[key::COUNTERS], Val::Row(self.counters.encode()));
        self.freeze_inflow();
        if let Some(trim) = self.alloc.trim() {
            trim.freeze();
        }
        self.replay.freeze();
        self.table.freeze();
        self.generations.begin(Checkpoint {
            stage: Stage::Drain,
            seq: self.log.seq(),
            at: self.log.ring().head,
            next_nid: self.objects.next_nid(),
            barrier: 0,
            cursor: Key::default(),
            pages: 0,
            asked: VecDeque::new(),
            asked_blocks: 0,
            ahead: Key::default(),
            seen: VecDeque::new(),
            pack: <(Key, Key)>::default(),
            row: (0, 0),
            made: Vec::new(),
            encoding: Encoding::default(),
            index: Vec::new(),
            kept: 0,
            list: Vec::new(),
            list_len: 0,
            piece: 0,
            index_crc: None,
            front: None,
            flush_done: false,
            on_data: false,
            in_pieces: BTreeMap::new(),
            budget: 0,
            rows: self.table.frozen().map_or(0, |f| f.rows().len()),
            merged: 0,
        });
        if planted(Bug::DiscardBeforeCheckpoint) {
            give_back::discard_spills(self);
        }
        if planted(Bug::TrimEarly) {
            self.log.trim(self.log.ring().head);
        }
    }

    /// A piece of the index goes to the device.
    fn send_piece(&mut self, block: u64, bytes: &[u8]) {
        let bytes = disk::AlignedBuf::padded(bytes).freeze();
        let blocks = bytes.len() as u64 / BLOCK;
        let c = self.generations.checkpoint();
        c.pages += blocks;
        c.on_data |= block >= ON_DATA;
        self.io.write_pages(0..0, block, vec![bytes]);
    }

    fn begin_index(&mut self) {
        let form = self.sb.index_form();
        let (index, list) = (std::mem::take(&mut self.sb.index), std::mem::take(&mut self.sb.list));
        let is_whole = self.table.index_mut().parts().is_whole_due(form);
        let (gone, kept) = if is_whole { (index, Vec::new()) } else { (Vec::new(), index) };
        gone.into_iter().chain(list).for_each(|run| self.space.put_aside(run));
        // All leaves have their blocks, and of the new index none has: what is in use is the leaves'.
        let blocks = || self.space.kept(self.alloc.chunks()).encode();
        let encoding = self.table.index_mut().begin(form, blocks);
        let c = self.generations.checkpoint();
        // Half of them may be cut once before it needs a list.
        c.piece = PIECE_BLOCKS.max((encoding.len() as u64).div_ceil(BLOCK).div_ceil(PIECES));
        c.kept = kept.iter().map(|(_, n)| n).sum();
        (c.encoding, c.index) = (encoding, kept);
        c.enter(Stage::Index);
    }
    /// Encodes a part of the index and sends it to the device; behind the last, the first one.
    fn write_index_piece(&mut self) {
        let c = self.generations.checkpoint();
        let done = c.index.iter().map(|(_, n)| n).sum::<u64>() - c.kept;
        let blocks = (c.encoding.len() as u64).div_ceil(BLOCK);
        let left = blocks - done;
        let n = c.piece.min(left);
        let may_lend = self.chunks_to_lend();
        let Some(runs) = self.space.take(n, &mut self.alloc, may_lend) else {
            return self.stop(self.no_room());
        };
        let Self { table, generations, .. } = self;
        let c = generations.checkpoint();
        let len = (n * BLOCK) as usize;
        table.index().encode_some(&mut c.encoding, len);
        let part = c.encoding.take(len).expect("so much was encoded, or all");
        c.index_crc = Some(Index::crc(c.index_crc, self.seed, &part));
        c.index.extend_from_slice(&runs);
        let mut rest = &part[..];
        for (i, (block, n)) in runs.into_iter().enumerate() {
            let (piece, behind) = rest.split_at(rest.len().min((n * BLOCK) as usize));
            rest = behind;
            if done == 0 && i == 0 {
                self.generations.checkpoint().front = Some((block, piece.to_vec()));
            } else {
                self.send_piece(block, piece);
            }
        }
        if n < left {
            return;
        }
        let c = self.generations.checkpoint();
        c.enter(Stage::Pages);
        let (block, mut front) = c.front.take().expect("there is a first piece");
        let crc = c.index_crc.expect("pieces went out");
        Index::seal(&mut front, crc);
        self.table.index_mut().parts().stored(c.encoding.is_whole(), blocks, crc);
        self.send_piece(block, &front);
        self.write_list();
    }
    /// Where the superblock has no room for all places of the index, it names a list of them.
    fn write_list(&mut self) {
        let c = self.generations.checkpoint();
        if c.index.len() <= EXTENTS_MAX {
            return;
        }
        let index = std::mem::take(&mut c.index);
        let list = encode_list(&index, self.seed);
        let may_lend = self.chunks_to_lend();
        let Some(runs) = self.space.take((list.len() as u64).div_ceil(BLOCK), &mut self.alloc, may_lend) else {
            return self.stop(self.no_room());
        };
        if runs.len() > EXTENTS_MAX {
            return self.stop("the metadata are too scattered for a list of their index. Give the store more room and start again".into());
        }
        let mut rest = &list[..];
        for (block, n) in &runs {
            let (piece, behind) = rest.split_at(rest.len().min((n * BLOCK) as usize));
            rest = behind;
            self.send_piece(*block, piece);
        }
        let c = self.generations.checkpoint();
        (c.index, c.list, c.list_len) = (index, runs.to_vec(), list.len());
    }
    pub fn flushed(&mut self) {
        self.generations.checkpoint().flush_done = true;
    }
    fn next_superblock(&self) -> Superblock {
        let c = self.generations.under_way().expect("a checkpoint is under way");
        assert!(c.stage == Stage::Superblock && c.front.is_none(), "the index went out whole");
        Superblock {
            generation: self.sb.generation + 1,
            wal_seq: c.seq,
            wal_at: c.at,
            next_nid: c.next_nid,
            next_leaf: self.generations.next_leaf(),
            index: c.index.clone(),
            index_len: c.kept * BLOCK + c.encoding.len() as u64,
            index_crc: if self.sb.index_form() == Form::Alone { 0 } else { c.index_crc.unwrap_or(0) },
            list: c.list.clone(),
            list_len: c.list_len as u64,
            ..self.sb.clone()
        }
    }
    pub fn checkpoint_done(&mut self) {
        self.sb = self.next_superblock();
        let c = self.generations.done(self.table.take_frozen());
        self.space.release(&mut self.alloc);
        self.spills.free(c.seq, &mut self.alloc);
        self.inflow_merged();
        self.log.trim(c.at);
        give_back::durable(self);
        self.replay.done();
        self.share_memory();
    }
}
