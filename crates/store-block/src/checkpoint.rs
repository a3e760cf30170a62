//! Checkpoints: recent changes go into leaves, so that the log can be forgotten up to where the checkpoint began.
//!
//! ```text
//!   freeze (between two records) ──> drain: images of older records to their places ──> flush data
//!     ──> merge: frozen rows into leaves, some at a time ──> index, in pieces ──> flush meta
//!     ──> (records begun before the end of the drain are durable) ──> superblock ──> free what it replaced, trim the log
//! ```
//! The checkpoint is the exact state at its record: an object that changes again before it was written is put aside as it was
//! ([`Core::touch`]). The superblock waits for the records of the drain because those may have ended the need for an older image.

use crate::codec::Put;
use crate::io::Purpose;
use crate::key;
use crate::layout::{BLOCK, DATA, META};
use crate::meta::index::{Encoding, Index, LeafRef};
use crate::meta::layer::{Layer, Val};
use crate::meta::leaf::{Leaf, LeafBuilder};
use crate::planted::{Bug, planted};
use crate::state::{Core, LeafRead};
use crate::superblock::{EXTENTS_MAX, Superblock};
use bytes::Bytes;
use disk::Durability;
use std::collections::VecDeque;
use std::ops::{Bound, Range};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Drain,
    FlushData,
    Merge,
    Index,
    Pages,
    FlushMeta,
    Barrier,
    Superblock,
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
    cursor: Vec<u8>,
    /// Blocks of pages that are under way.
    pages: u64,
    /// Leaves that were asked for and are not merged yet, in their order, and where those begin that were not asked for.
    asked: VecDeque<u64>,
    ahead: Vec<u8>,
    /// Leaves that this step has made, and that go out with its end: id, block, bytes.
    made: Vec<(u64, u64, Bytes)>,
    /// The index on its way: what is not encoded yet, where its pieces are, bytes of all of it, of each piece, and the crc of what went out.
    encoding: Encoding,
    index: Vec<(u64, u64)>,
    index_len: usize,
    piece: u64,
    index_crc: Option<u32>,
    /// Its first piece, which has the crc of all in front, waits for the others.
    front: Option<(u64, Vec<u8>)>,
    flush_done: bool,
    /// Leaves that this step may still write.
    budget: usize,
    /// Frozen rows that there are, and that are merged.
    rows: usize,
    merged: usize,
}

/// Leaves that are written in one step, and blocks of pages that may be under way.
const STEP_LEAVES: usize = if cfg!(test) { 8 } else { 32 };
const PAGES_MAX: u64 = if cfg!(test) { 64 } else { 1024 };
/// Leaves that are looked at, and asked for, together before they are merged; the next ones when fewer of them are left.
const AHEAD: usize = if cfg!(test) { 8 } else { 128 };
/// Blocks of one read of neighbouring leaves, and of one write.
const READ_BLOCKS: u64 = 16;
const WRITE_BLOCKS: u64 = 128;
/// The index is stored in pieces of at least this many blocks.
const PIECE_BLOCKS: u64 = if cfg!(test) { 1 } else { 64 };

/// True if nothing of the leaf from `start` to `end` is needed for what comes from `cursor` on: removals cover all of it.
fn is_gone(frozen: &Layer, cursor: &[u8], start: &[u8], end: Option<&[u8]>) -> bool {
    start >= cursor && end.is_some_and(|end| frozen.covers_all(start, end))
}

impl Core {
    /// The record that the checkpoint waits for to be drained, if it does.
    pub fn drain_to(&self) -> Option<u64> {
        self.checkpoint.as_ref().filter(|c| c.stage == Stage::Drain).map(|c| c.seq - 1)
    }
    fn is_due(&self) -> bool {
        self.checkpoint_wanted
            || self.ring.used() > self.ring.blocks() / 2
            || self.ring.used() + 5 * self.record_max() > self.ring.blocks()
            || self.table.active.bytes + self.changed_bytes > self.cfg.recent_max()
    }

    /// What will be the log's tail when the checkpoint that is under way is done.
    pub fn checkpoint_at(&self) -> Option<u64> {
        self.checkpoint.as_ref().filter(|_| !planted(Bug::TrimEarly)).map(|c| c.at)
    }
    /// How much may have changed since the checkpoint that is under way began: the more, the farther it is, so that whoever changes more than it can
    /// take is slowed down all the time, and not stopped at its end. In bytes; `None`: none is under way.
    pub fn changes_max(&self) -> Option<usize> {
        let c = self.checkpoint.as_ref()?;
        let all = self.cfg.recent_max() * 3 / 2;
        let done = match c.stage {
            Stage::Drain | Stage::FlushData => 0,
            Stage::Merge => c.merged,
            Stage::Index | Stage::Pages | Stage::FlushMeta | Stage::Barrier | Stage::Superblock => c.rows,
        };
        Some(all / 4 + (all - all / 4) * done.min(c.rows) / c.rows.max(1))
    }
    /// True if the checkpoint waits for this record.
    pub fn is_barrier(&self, seq: u64) -> bool {
        self.checkpoint.as_ref().is_some_and(|c| c.stage != Stage::Drain && seq <= c.barrier)
    }
    /// Begins a checkpoint if one is due; only between two records.
    pub fn begin_checkpoint(&mut self) {
        if self.checkpoint.is_some() || !self.batch.is_empty() || !self.is_due() {
            return;
        }
        if self.ring.used() == 0 && self.table.active.is_empty() {
            self.checkpoint_wanted = false;
            return;
        }
        self.freeze();
    }

    pub fn checkpoint_step(&mut self) {
        self.begin_checkpoint();
        if self.checkpoint.is_none() || self.failed.is_some() {
            return;
        }
        loop {
            let c = self.checkpoint.as_mut().expect("a checkpoint is under way");
            match c.stage {
                Stage::Drain => {
                    let images = self.overlay.oldest().is_some_and(|seq| seq < c.seq) || self.overlay.writing() > 0;
                    if images && !planted(Bug::SkipDrain) {
                        return;
                    }
                    c.stage = Stage::FlushData;
                    c.flush_done = false;
                    c.barrier = if self.batch.is_empty() { self.batch.seq - 1 } else { self.batch.seq };
                    if planted(Bug::SkipDataFlush) {
                        c.flush_done = true;
                        continue;
                    }
                    self.io.flush(DATA);
                }
                Stage::FlushData if c.flush_done => c.stage = Stage::Merge,
                Stage::Merge => {
                    if !self.merge_some() {
                        return;
                    }
                    self.begin_index();
                }
                // A piece at a time: the next one when some page has come back.
                Stage::Index if c.pages < PAGES_MAX => {
                    self.write_index_piece();
                    if self.failed.is_some() || self.under_way_mut().pages > 0 {
                        return;
                    }
                }
                Stage::Pages if c.pages == 0 => {
                    c.stage = Stage::FlushMeta;
                    c.flush_done = planted(Bug::SkipMetaFlush);
                    if !c.flush_done {
                        self.io.flush(META);
                    }
                }
                Stage::FlushMeta if c.flush_done => c.stage = Stage::Barrier,
                Stage::Barrier if self.durable >= c.barrier || planted(Bug::SkipBarrier) => {
                    c.stage = Stage::Superblock;
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
        assert!(self.batch.is_empty() && self.table.frozen.is_none());
        for (page, bytes) in self.alloc.take_dirty() {
            self.table.active.put(&key::numbered(key::ALLOC, page), Val::Row(bytes.into()));
        }
        if planted(Bug::ForgetShares) {
            self.refs.dirty.clear();
        }
        for place in std::mem::take(&mut self.refs.dirty) {
            let val = match self.refs.counts.get(&place) {
                Some(count) => Val::Row(count.to_le_bytes().to_vec().into()),
                None => Val::Del,
            };
            self.table.active.put(&key::numbered(key::REFS, place), val);
        }
        if let Err(e) = self.save_pgs() {
            return self.stop(format!("what groups remember can't be saved: {e}"));
        }
        let mut out = Vec::new();
        out.put_var(self.usage.len() as u64);
        for (pool, usage) in &self.usage {
            for v in [*pool, usage.data, usage.stored, usage.omap, usage.objects] {
                out.put_zigzag(v);
            }
        }
        self.table.active.put(&[key::COUNTERS], Val::Row(out.into()));
        self.table.frozen = Some(std::mem::take(&mut self.table.active));
        self.generation += 1;
        self.changed_bytes = 0;
        self.checkpoint_wanted = false;
        self.checkpoint = Some(Checkpoint {
            stage: Stage::Drain,
            seq: self.batch.seq,
            at: self.ring.head,
            next_nid: self.next_nid,
            barrier: 0,
            cursor: Vec::new(),
            pages: 0,
            asked: VecDeque::new(),
            ahead: Vec::new(),
            made: Vec::new(),
            encoding: Encoding::default(),
            index: Vec::new(),
            index_len: 0,
            piece: 0,
            index_crc: None,
            front: None,
            flush_done: false,
            budget: 0,
            rows: self.table.frozen.as_ref().map_or(0, |f| f.rows().len()),
            merged: 0,
        });
        if planted(Bug::TrimEarly) {
            self.ring.tail = self.ring.head;
        }
    }

    /// Merges some frozen rows into leaves; true when all are.
    fn merge_some(&mut self) -> bool {
        let frozen = self.table.frozen.take().expect("a checkpoint has frozen rows");
        let mut cursor = std::mem::take(&mut self.under_way_mut().cursor);
        let mut builder = LeafBuilder::default();
        self.under_way_mut().budget = STEP_LEAVES;
        self.read_ahead(&frozen, &cursor);
        let all = loop {
            let Some(change) = frozen.first_change_from(&cursor).map(|k| k.max(&cursor[..]).to_vec()) else { break true };
            // The leaf that the change belongs to: that of its key, or else the first.
            let leaf = self.table.index.leaf_of(&change).or_else(|| self.table.index.iter().next());
            let leaf = leaf.map(|(start, at)| (start.to_vec(), at.clone()));
            let end = leaf.as_ref().and_then(|(start, _)| self.table.index.end_of(start).map(<[u8]>::to_vec));
            let c = self.under_way_mut();
            let (spent, busy) = (c.budget == 0, c.pages >= PAGES_MAX);
            // Rows that were gathered go on only into a neighbour that is merged at once: until then nobody would find them.
            if spent || leaf.as_ref().is_some_and(|(start, _)| *start > cursor) {
                self.emit_all(&mut builder);
            }
            if spent || busy || self.failed.is_some() {
                break false;
            }
            let old = match &leaf {
                Some((start, at)) if !is_gone(&frozen, &cursor, start, end.as_deref()) => match self.table.cache.get(at.id) {
                    Some(old) => Some(old.clone()),
                    None => {
                        if !self.leaf_reads.contains_key(&at.id) {
                            // It came, and had to leave again: from here on once more.
                            let c = self.under_way_mut();
                            c.asked.clear();
                            c.ahead.clear();
                            self.read_ahead(&frozen, &change);
                        }
                        break false;
                    }
                },
                _ => None,
            };
            if let Some((start, at)) = &leaf {
                self.table.index.remove(start);
                self.table.cache.remove(at.id);
                self.bad_leaves.remove(&at.id);
                self.space.put_aside(at.block, u64::from(at.blocks));
                self.under_way_mut().asked.pop_front_if(|id| *id == at.id);
            }
            let stopped = self.merge_leaf(&frozen, old.as_ref(), &cursor, end.as_deref(), &mut builder);
            if self.failed.is_some() {
                break false;
            }
            match (stopped, end) {
                (Some(key), _) => cursor = key,
                (None, Some(end)) => cursor = end,
                (None, None) => break true,
            }
        };
        self.emit_all(&mut builder);
        self.send_made();
        self.table.frozen = Some(frozen);
        self.under_way_mut().cursor = cursor;
        all && self.failed.is_none()
    }
    fn under_way_mut(&mut self) -> &mut Checkpoint {
        self.checkpoint.as_mut().expect("a checkpoint is under way")
    }
    /// Asks for leaves that changes from `from` on belong to, unless enough were asked for: neighbours on the device together.
    fn read_ahead(&mut self, frozen: &Layer, from: &[u8]) {
        let c = self.checkpoint.as_mut().expect("a checkpoint is under way");
        // They must find room together.
        let ahead = AHEAD.min(self.cfg.leaves_max() >> 16);
        if c.asked.len() >= ahead {
            return;
        }
        let mut wanted: Vec<LeafRef> = Vec::new();
        let mut at = from.max(&c.ahead[..]).to_vec();
        for _ in 0..ahead {
            let next = frozen.first_change_from(&at).map(|k| k.max(&at[..]).to_vec());
            let leaf = next.and_then(|next| self.table.index.leaf_of(&next).or_else(|| self.table.index.iter().next()));
            let Some((start, leaf)) = leaf else { break };
            let end = self.table.index.end_of(start);
            if !is_gone(frozen, from, start, end) && self.table.cache.get(leaf.id).is_none() && !self.leaf_reads.contains_key(&leaf.id) {
                c.asked.push_back(leaf.id);
                wanted.push(leaf.clone());
            }
            // Behind everything that there is, at the end.
            at = end.map_or_else(|| vec![u8::MAX], <[u8]>::to_vec);
        }
        c.ahead = at;
        let mut wanted = wanted.into_iter().peekable();
        while let Some(first) = wanted.next() {
            let mut leaves = vec![(first.id, first.blocks)];
            let mut blocks = u64::from(first.blocks);
            while let Some(next) = wanted.next_if(|l| l.block == first.block + blocks && blocks + u64::from(l.blocks) <= READ_BLOCKS) {
                leaves.push((next.id, next.blocks));
                blocks += u64::from(next.blocks);
            }
            for (id, _) in &leaves {
                if let Some(why) = self.bad_leaves.get(id) {
                    return self.stop(format!("metadata: {why}. The checkpoint can't go on: run `humboldt store fsck`"));
                }
                self.leaf_reads.insert(*id, LeafRead::default());
            }
            self.io.read(Purpose::Leaves { block: first.block, leaves }, META, first.block, blocks);
        }
    }
    /// Leaves have come together, or not.
    pub fn leaves_here(&mut self, mut block: u64, leaves: Vec<(u64, u32)>, result: Result<Bytes, String>) {
        let mut at = 0;
        for (id, blocks) in &leaves {
            let len = *blocks as usize * BLOCK as usize;
            match &result {
                Ok(bytes) => self.leaf_here(*id, Ok(bytes.slice(at..at + len))),
                Err(why) if leaves.len() == 1 => self.leaf_here(*id, Err(why.clone())),
                // One of them is to blame.
                Err(_) => self.io.read(Purpose::Leaf { id: *id }, META, block, u64::from(*blocks)),
            }
            (at, block) = (at + len, block + u64::from(*blocks));
        }
    }

    /// Merges the rows of a leaf and those of the frozen layer from `from` to before `end`. If that are more than fit into a step, the leaf's
    /// rest becomes a leaf again, and the key is returned where to go on.
    fn merge_leaf(
        &mut self,
        frozen: &Layer,
        old: Option<&Leaf>,
        from: &[u8],
        end: Option<&[u8]>,
        builder: &mut LeafBuilder,
    ) -> Option<Vec<u8>> {
        let old_rows = old.map_or(0, Leaf::rows);
        let mut changes = frozen.rows().range::<[u8], _>((Bound::Included(from), end.map_or(Bound::Unbounded, Bound::Excluded)));
        // Most leaves are in no range of removals.
        let is_cut = frozen.next_range(from).is_some_and(|(first, _)| end.is_none_or(|end| first < end));
        let mut row = 0;
        let mut scratch = Vec::new();
        while self.failed.is_none() {
            let change = changes.next();
            if let Some(l) = old {
                let upto = change.map_or(old_rows, |(key, _)| l.lower_bound_from(row, key));
                for row in row..upto {
                    // What stands before `from` was merged already: a row there may be newer than the range that covers it.
                    if !is_cut || l.key(row) < from || !frozen.covers(l.key(row)) {
                        self.keep(builder, l, row);
                    }
                }
                row = upto;
            }
            let (key, val) = change?;
            if self.under_way_mut().budget == 0 {
                self.emit_all(builder);
                for row in row..old_rows {
                    self.keep(builder, old.expect("the row is a leaf's"), row);
                }
                self.emit_all(builder);
                return Some(key.to_vec());
            }
            self.under_way_mut().merged += 1;
            if old.is_some_and(|l| row < old_rows && l.key(row) == &**key) {
                row += 1;
            }
            match val {
                Val::Del => {}
                Val::Row(bytes) => self.add(builder, key, bytes),
                Val::Obj(slot) => {
                    if let Some(node) = self.objects.node(*slot) {
                        scratch.clear();
                        node.encode(&mut scratch);
                        self.add(builder, key, &scratch);
                    }
                }
            }
        }
        None
    }
    /// A row of a leaf stays as it is.
    fn keep(&mut self, builder: &mut LeafBuilder, leaf: &Leaf, row: usize) {
        builder.push_stored(leaf.key(row), leaf.stored(row));
        while builder.is_full() && self.failed.is_none() {
            self.emit(builder);
        }
    }
    fn add(&mut self, builder: &mut LeafBuilder, key: &[u8], value: &[u8]) {
        builder.push(key, value);
        while builder.is_full() && self.failed.is_none() {
            self.emit(builder);
        }
    }
    /// Everything that was gathered goes out.
    fn emit_all(&mut self, builder: &mut LeafBuilder) {
        while !builder.is_empty() && self.failed.is_none() {
            self.emit(builder);
        }
    }
    /// A leaf goes to the device, and into the index.
    fn emit(&mut self, builder: &mut LeafBuilder) {
        let c = self.under_way_mut();
        c.budget = c.budget.saturating_sub(1);
        let id = self.next_leaf;
        self.next_leaf += 1;
        let page = builder.cut(self.seed, id);
        let blocks = page.bytes.len() as u64 / BLOCK;
        let Some(block) = self.space.take(blocks) else {
            return self.stop("the meta device is full. Nothing acknowledged is lost: give it more room and start again".into());
        };
        self.table.cache.put(id, Leaf::made(&page));
        self.table.cache.pin(id);
        self.table.index.insert(&page.first, LeafRef { id, block, blocks: blocks as u32, rows: page.rows, filter: page.filter.into() });
        let c = self.under_way_mut();
        c.pages += blocks;
        c.made.push((id, block, page.bytes));
    }
    /// Sends off the leaves that were made: neighbours on the device, which follow each other in their numbers too, in one write.
    fn send_made(&mut self) {
        let mut made = std::mem::take(&mut self.under_way_mut().made).into_iter().peekable();
        while let Some((id, block, bytes)) = made.next() {
            let mut blocks = bytes.len() as u64 / BLOCK;
            let mut bufs = vec![bytes];
            while let Some((_, _, bytes)) = made.next_if(|(_, at, _)| *at == block + blocks && blocks < WRITE_BLOCKS) {
                blocks += bytes.len() as u64 / BLOCK;
                bufs.push(bytes);
            }
            let ids = id..id + bufs.len() as u64;
            self.io.write(Purpose::Pages { ids, blocks }, META, block, bufs, Durability::Volatile);
        }
    }
    pub fn pages_written(&mut self, ids: Range<u64>, blocks: u64) {
        ids.for_each(|id| self.table.cache.unpin(id));
        self.checkpoint.as_mut().expect("pages are a checkpoint's").pages -= blocks;
    }
    /// A piece of the index goes to the device.
    fn send_piece(&mut self, block: u64, bytes: &[u8]) {
        let bytes = disk::AlignedBuf::padded(bytes).freeze();
        let blocks = bytes.len() as u64 / BLOCK;
        self.under_way_mut().pages += blocks;
        self.io.write(Purpose::Pages { ids: 0..0, blocks }, META, block, vec![bytes], Durability::Volatile);
    }

    fn begin_index(&mut self) {
        for (block, blocks) in std::mem::take(&mut self.sb.index) {
            self.space.put_aside(block, blocks);
        }
        let len = self.table.index.stored_len();
        let c = self.under_way_mut();
        c.piece = PIECE_BLOCKS.max((len as u64).div_ceil(BLOCK).div_ceil(EXTENTS_MAX as u64 / 2));
        (c.index_len, c.stage) = (len, Stage::Index);
    }
    /// Encodes a piece of the index and sends it to the device; behind the last, the first one.
    fn write_index_piece(&mut self) {
        let done = self.under_way_mut().index.iter().map(|(_, n)| n).sum::<u64>();
        let left = (self.under_way_mut().index_len as u64).div_ceil(BLOCK) - done;
        let (mut n, mut found) = (self.under_way_mut().piece.min(left), None);
        while found.is_none() {
            found = self.space.take(n);
            if found.is_none() && n == 1 {
                return self.stop("the meta device is full. Nothing acknowledged is lost: give it more room and start again".into());
            }
            // In smaller pieces, as long as the superblock has room for them.
            n = if found.is_some() { n } else { n.div_ceil(2) };
        }
        let block = found.expect("it was found above");
        let Self { table, checkpoint, .. } = self;
        let c = checkpoint.as_mut().expect("a checkpoint is under way");
        c.piece = c.piece.min(n);
        let len = (n * BLOCK) as usize;
        table.index.encode_some(&mut c.encoding, len);
        let part = c.encoding.take(len).expect("so much was encoded, or all");
        c.index_crc = Some(Index::crc(c.index_crc, self.seed, &part));
        c.index.push((block, n));
        if c.index.len() > EXTENTS_MAX {
            return self.stop("the meta device is too scattered for its index. Give it more room and start again".into());
        }
        match done {
            0 => c.front = Some((block, part)),
            _ => self.send_piece(block, &part),
        }
        if n < left {
            return;
        }
        let c = self.under_way_mut();
        c.stage = Stage::Pages;
        let (block, mut front) = c.front.take().expect("there is a first piece");
        Index::seal(&mut front, c.index_crc.expect("pieces went out"));
        self.send_piece(block, &front);
    }
    pub fn flushed(&mut self) {
        self.checkpoint.as_mut().expect("flushes are a checkpoint's").flush_done = true;
    }
    fn next_superblock(&self) -> Superblock {
        let c = self.checkpoint.as_ref().expect("it is under way");
        assert!(c.stage == Stage::Superblock && c.front.is_none(), "the index went out whole");
        Superblock {
            generation: self.sb.generation + 1,
            wal_seq: c.seq,
            wal_at: c.at,
            next_nid: c.next_nid,
            next_leaf: self.next_leaf,
            index: c.index.clone(),
            index_len: c.index_len as u64,
            ..self.sb.clone()
        }
    }
    pub fn checkpoint_done(&mut self) {
        self.sb = self.next_superblock();
        let c = self.checkpoint.take().expect("it is under way");
        self.taken.extend(self.table.frozen.take().map(Layer::into_rows));
        self.saved = self.generation - 1;
        self.space.release();
        self.ring.tail = c.at;
        self.share_memory();
    }
}
