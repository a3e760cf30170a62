//! Merging: the leaves that frozen rows belong to are read, some ahead, and made anew with them, some at a time.
//!
//! ```text
//!   read_ahead ──> leaves come, neighbours together ──> merge_leaf: rows of the old leaf and changes, ascending ──> builder
//!     ──> emit: a page, in the cache and in the index ──> send_made: neighbours in one write
//! ```
//! Leaves without a change stay as they are, and so do damaged ones: their changes go beside them ([`crate::check::damaged`]). Where room for
//! metadata gets scarce, each checkpoint also packs a stretch of neighbouring leaves of objects, half as many as it has rows: those that
//! change one by one are parted in halves, and full by two thirds in the long run.

use super::{Checkpoint, PAGES_MAX};
use crate::data::io::{LeavesHere, Purpose};
use crate::open::layout::{BLOCK, ON_DATA};
use crate::rows::key;
use crate::rows::meta::entry::LeafRef;
use crate::rows::meta::index::Index;
use crate::rows::meta::layer::{Key, Layer, Val};
use crate::rows::meta::leaf::{Leaf, LeafBuilder};
use crate::rows::meta::space::Runs;
use crate::state::Core;
use bytes::Bytes;
use std::ops::{Bound, Range};

/// Leaves that are written in one step.
const STEP_LEAVES: usize = if cfg!(test) { 8 } else { 32 };
/// Leaves that are looked at, and asked for, together before they are merged; the next ones when fewer of them are left.
const AHEAD: usize = if cfg!(test) { 8 } else { 128 };
/// Leaves that go unread in one step, since all of their rows were removed, while something else is under way that the next step comes with.
const STEP_GONE: usize = if cfg!(test) { 4 } else { 1024 };
/// Blocks of one read of neighbouring leaves, and of one write.
const READ_BLOCKS: u64 = 16;
const WRITE_BLOCKS: u64 = 128;
// What a step makes may be under way together, and is asked for before it is merged.
const _: () = assert!(STEP_LEAVES as u64 * (crate::rows::meta::leaf::TARGET as u64 / BLOCK) <= PAGES_MAX && AHEAD >= STEP_LEAVES);

/// True if nothing of the leaf from `start` to `end` is needed for what comes from `cursor` on: removals cover all of it.
fn is_gone(frozen: &Layer, cursor: &Key, start: &Key, end: Option<&Key>) -> bool {
    start >= cursor && end.is_some_and(|end| frozen.covers_all(start, end))
}

/// The first key from `at` on whose leaf is made anew: something changes there, or it is of the stretch that is packed.
fn next_change<'a>(frozen: &'a Layer, at: &'a Key, (first, last): &'a (Key, Key)) -> Option<&'a Key> {
    let change = frozen.first_change_from(at).map(|change| change.max(at));
    let packed = Some(at.max(first)).filter(|packed| *packed < last);
    change.into_iter().chain(packed).min()
}

/// Where room for metadata gets scarce: the next stretch of objects' leaves that is packed. Around the keys it goes, from checkpoint to
/// checkpoint.
pub(super) fn begin_packing(core: &mut Core) {
    let room = core.room();
    if room.promised < (room.own + room.lent + room.data_empty) / 4 * 3 {
        return;
    }
    let (objects, behind) = (Key::from(&[key::OBJECT][..]), Key::from(key::kind_end(key::OBJECT)));
    let from = core.generations.packed().clone().max(objects.clone());
    let leaves = (core.generations.checkpoint().rows / 2).max(STEP_LEAVES);
    let end = core.table.index().leaves_from(&from).nth(leaves).map(|(start, _)| Key::from(start)).filter(|end| *end < behind);
    core.generations.set_packed(end.clone().unwrap_or(objects));
    core.generations.checkpoint().pack = (from, end.unwrap_or(behind));
}
/// Room for a page. Those of one block lie in a row, as far as there is one: they are one write then.
fn take_page(core: &mut Core, blocks: u64) -> Option<Runs> {
    let c = core.generations.checkpoint();
    if blocks == 1 {
        if c.row.1 == 0 {
            c.row = core.space.take_row(c.budget as u64 + 1).unwrap_or_default();
        }
        if c.row.1 > 0 {
            let block = c.row.0;
            c.row = (block + 1, c.row.1 - 1);
            return Some(Runs::from_elem((block, 1), 1));
        }
    }
    // A page that needs more has all that there is.
    core.space.give_back(std::mem::take(&mut core.generations.checkpoint().row));
    let may_lend = core.chunks_to_lend();
    core.space.take(blocks, &mut core.alloc, may_lend)
}

impl Checkpoint {
    /// The leaf that a change belongs to, and where that ends: as it was looked up when it was asked for, unless the merge has come to leaves
    /// that it made itself.
    fn leaf_of(&mut self, change: &Key, index: &Index) -> (Option<(Key, LeafRef)>, Option<Key>) {
        while self.seen.front().is_some_and(|(_, _, end)| end.as_ref().is_some_and(|end| end <= change)) {
            self.seen.pop_front();
        }
        let found = match self.seen.front().is_some_and(|(start, ..)| start <= change) {
            true => self.seen.pop_front(),
            false => index.leaf_for(change),
        };
        // The first leaf of all has also what is in front of it. If it is merged in several steps, others take its place.
        if let Some((_, leaf, _)) = &found {
            self.seen.pop_front_if(|(_, seen, _)| seen.id == leaf.id);
        }
        debug_assert!(found.as_ref().map(|(_, leaf, _)| leaf.id) == index.leaf_for(change).map(|(_, leaf, _)| leaf.id));
        found.map_or((None, None), |(start, leaf, end)| (Some((start, leaf)), end))
    }
}

impl Core {
    /// Merges some frozen rows into leaves; true when all are.
    pub(super) fn merge_some(&mut self) -> bool {
        let mut frozen = self.table.take_frozen();
        let mut cursor = std::mem::take(&mut self.generations.checkpoint().cursor);
        let mut builder = LeafBuilder::default();
        self.generations.checkpoint().budget = STEP_LEAVES;
        self.read_ahead(&frozen, &cursor);
        let mut gone = 0;
        let all = loop {
            let Some(change) = next_change(&frozen, &cursor, &self.generations.checkpoint().pack).cloned() else { break true };
            let Self { generations, table, .. } = self;
            let (leaf, end) = generations.checkpoint().leaf_of(&change, table.index());
            let is_long = gone >= STEP_GONE && self.io.in_flight() > 0;
            let c = self.generations.checkpoint();
            let (spent, busy) = (c.budget == 0 || is_long, c.pages >= PAGES_MAX);
            // Rows that were gathered go on only into a neighbour that is merged at once: until then no look would find them.
            if spent || leaf.as_ref().is_some_and(|(start, _)| *start > cursor) {
                self.emit_all(&mut builder);
            }
            if spent || busy || self.is_stopped() {
                break false;
            }
            if let Some((start, _)) = &leaf {
                self.table.come_from_beside(&mut frozen, start, end.as_ref());
            }
            let is_needed = |(start, _): &&(Key, LeafRef)| !is_gone(&frozen, &cursor, start, end.as_ref());
            if let Some((start, _)) = leaf.as_ref().filter(|(_, at)| self.leaves.is_bad(at.id)).filter(is_needed) {
                self.emit_all(&mut builder);
                match self.merge_round(&mut frozen, &cursor, &change, (start, end.as_ref()), &mut builder) {
                    Some(key) => cursor = key,
                    None => break true,
                }
                continue;
            }
            let old = match &leaf {
                Some((start, at)) if !is_gone(&frozen, &cursor, start, end.as_ref()) => match self.table.leaf(at.id) {
                    Some(old) => Some(old.clone()),
                    None => {
                        if !self.leaves.is_reading(at.id) {
                            // It came, and had to leave again: from here on once more.
                            let c = self.generations.checkpoint();
                            c.asked.clear();
                            c.asked_blocks = 0;
                            c.ahead = Key::default();
                            c.seen.clear();
                            self.read_ahead(&frozen, &change);
                        }
                        break false;
                    }
                },
                _ => None,
            };
            gone += usize::from(leaf.is_some() && old.is_none());
            if let Some((start, at)) = &leaf {
                self.table.drop_leaf(start);
                self.leaves.replaced(at.id);
                at.runs().for_each(|run| self.space.put_aside(run));
                let c = self.generations.checkpoint();
                if c.asked.pop_front_if(|id| *id == at.id).is_some() {
                    c.asked_blocks -= u64::from(at.blocks);
                }
            }
            // Only the first leaf has changes in front of it, and none there is in front of those.
            builder.begin(leaf.as_ref().map_or(&[][..], |(start, _)| &start.min(&change)[..]));
            let stopped = self.merge_leaf(&frozen, old.as_ref(), &cursor, end.as_ref(), &mut builder);
            if self.is_stopped() {
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
        self.table.put_frozen(frozen);
        self.generations.checkpoint().cursor = cursor;
        all && !self.is_stopped()
    }
    /// Asks for leaves that changes from `from` on belong to, unless enough were asked for: neighbours on the device together.
    fn read_ahead(&mut self, frozen: &Layer, from: &Key) {
        let c = self.generations.checkpoint();
        // They must find room together, with those that are made: how many of a block or two that are at most; of larger ones blocks count.
        let (ahead, room) = (AHEAD.min(self.budget.leaves_max() >> 14), self.budget.leaves_max() as u64 / BLOCK / 2);
        if c.asked.len() >= ahead || c.asked_blocks >= room || c.seen.len() >= 2 * ahead {
            return;
        }
        let mut wanted: Vec<LeafRef> = Vec::new();
        let mut at = from.max(&c.ahead).clone();
        for _ in 0..ahead {
            let next = next_change(frozen, &at, &c.pack);
            let Some((start, leaf, end)) = next.and_then(|next| self.table.index().leaf_for(next)) else { break };
            if c.asked_blocks >= room {
                break;
            }
            let is_known = self.table.leaf(leaf.id).is_some() || self.leaves.is_bad(leaf.id);
            if !is_known && !is_gone(frozen, from, &start, end.as_ref()) && !self.leaves.is_reading(leaf.id) {
                c.asked.push_back(leaf.id);
                c.asked_blocks += u64::from(leaf.blocks);
                wanted.push(leaf.clone());
            }
            // Behind everything that there is, at the end.
            at = end.clone().unwrap_or_else(|| vec![u8::MAX].into());
            c.seen.push_back((start, leaf, end));
        }
        c.ahead = at;
        let mut wanted = wanted.into_iter().peekable();
        while let Some(first) = wanted.next() {
            if first.more.is_some() {
                self.read_leaf(&first, Vec::new());
                continue;
            }
            let mut leaves = LeavesHere::from_elem((first.id, first.blocks), 1);
            let (mut blocks, mut last) = (u64::from(first.blocks), first.clone());
            while let Some(next) = wanted.next_if(|l| last.is_before(l) && blocks + u64::from(l.blocks) <= READ_BLOCKS) {
                leaves.push((next.id, next.blocks));
                blocks += u64::from(next.blocks);
                last = next;
            }
            for (id, _) in &leaves {
                self.leaves.begin(*id, Vec::new(), 1);
            }
            self.io.read_meta(Purpose::Leaves { block: first.block, leaves }, (first.block, blocks));
        }
    }
    /// Leaves have come together, or not.
    pub fn leaves_here(&mut self, mut block: u64, leaves: LeavesHere, result: Result<Bytes, String>) {
        let mut at = 0;
        for (id, blocks) in &leaves {
            let len = *blocks as usize * BLOCK as usize;
            match &result {
                Ok(bytes) => self.leaf_here(*id, 0, Ok(bytes.slice(at..at + len))),
                Err(why) if leaves.len() == 1 => self.leaf_here(*id, 0, Err(why.clone())),
                // One of them is to blame.
                Err(_) => self.io.read_meta(Purpose::Leaf { id: *id, piece: 0 }, (block, u64::from(*blocks))),
            }
            (at, block) = (at + len, block + u64::from(*blocks));
        }
    }

    /// Merges the rows of a leaf and those of the frozen layer from `from` to before `end`. If that are more than fit into a step, the leaf's
    /// rest becomes a leaf again, and the key is returned where to go on.
    fn merge_leaf(&mut self, frozen: &Layer, old: Option<&Leaf>, from: &Key, end: Option<&Key>, builder: &mut LeafBuilder) -> Option<Key> {
        let old_rows = old.map_or(0, Leaf::rows);
        let mut changes = frozen.rows().range::<Key, _>((Bound::Included(from), end.map_or(Bound::Unbounded, Bound::Excluded)));
        // Most leaves are in no range of removals.
        let is_cut = frozen.next_range(from).is_some_and(|(first, _)| end.is_none_or(|end| first < end));
        let mut row = 0;
        let mut scratch = Vec::new();
        while !self.is_stopped() {
            let change = changes.next();
            if let Some(l) = old {
                let upto = change.map_or(old_rows, |(key, _)| l.lower_bound_from(row, key));
                for row in row..upto {
                    // What stands before `from` was merged already: a row there may be newer than the range that covers it.
                    if !is_cut || l.key(row) < &from[..] || !frozen.covers(l.key(row)) {
                        self.keep(builder, l, row);
                    }
                }
                row = upto;
            }
            let (key, val) = change?;
            if self.generations.checkpoint().budget == 0 {
                self.emit_all(builder);
                for row in row..old_rows {
                    self.keep(builder, old.expect("the row is a leaf's"), row);
                }
                self.emit_all(builder);
                return Some(key.clone());
            }
            self.generations.checkpoint().merged += 1;
            if old.is_some_and(|l| row < old_rows && l.key(row) == &**key) {
                row += 1;
            }
            match val {
                Val::Del => {}
                Val::Row(bytes) => self.add(builder, key, bytes),
                Val::Obj(slot) => {
                    scratch.clear();
                    if self.objects.encode(*slot, &mut scratch) {
                        self.add(builder, key, &scratch);
                    }
                }
            }
        }
        None
    }
    /// Goes round a damaged leaf, from its first key to before `end`: what changed in it goes beside it, what lies in front of it or behind it into
    /// leaves of its own. Returns where to go on, if there is more.
    fn merge_round(
        &mut self,
        frozen: &mut Layer,
        cursor: &Key,
        change: &Key,
        (start, end): (&Key, Option<&Key>),
        builder: &mut LeafBuilder,
    ) -> Option<Key> {
        if let Some((id, blocks)) = self.table.index().leaf_of_key(start).map(|(_, leaf)| (leaf.id, leaf.blocks)) {
            let c = self.generations.checkpoint();
            if c.asked.pop_front_if(|asked| *asked == id).is_some() {
                c.asked_blocks -= u64::from(blocks);
            }
        }
        // Where the rows begin that say what lies beside damaged leaves: those are in memory whole.
        let beside = Key::from(key::spare(key::SPARE_RANGE, b""));
        let behind = end.map_or(&beside, |end| end.min(&beside)).clone();
        if change < start {
            // Only of the first leaf.
            builder.begin(change);
            return Some(self.merge_leaf(frozen, None, cursor, Some(start), builder).unwrap_or_else(|| start.clone()));
        }
        if start >= &beside {
            // The leaf is made anew.
            self.table.put_spare_rows(frozen);
            let leaf = self.table.drop_leaf(start).expect("it was found in the index");
            self.leaves.replaced(leaf.id);
            leaf.runs().for_each(|run| self.space.put_aside(run));
            return Some(start.clone());
        }
        if change >= &behind {
            builder.begin(change);
            return self.merge_leaf(frozen, None, change, end, builder).or_else(|| end.cloned());
        }
        let c = self.generations.checkpoint();
        c.budget = c.budget.saturating_sub(1);
        self.table.go_beside(frozen, start, &behind, &mut self.objects);
        Some(behind)
    }

    /// A row of a leaf stays as it is.
    fn keep(&mut self, builder: &mut LeafBuilder, leaf: &Leaf, row: usize) {
        self.part_classes(builder, leaf.key(row));
        builder.push_stored(leaf.key(row), leaf.stored(row));
        while builder.is_full() && !self.is_stopped() {
            self.emit(builder);
        }
    }
    /// Keys of different classes go into different leaves.
    fn part_classes(&mut self, builder: &mut LeafBuilder, key: &[u8]) {
        if builder.last_key().is_some_and(|last| key::class(last) != key::class(key)) {
            self.emit_all(builder);
        }
    }
    fn add(&mut self, builder: &mut LeafBuilder, key: &[u8], value: &[u8]) {
        self.part_classes(builder, key);
        builder.push(key, value);
        while builder.is_full() && !self.is_stopped() {
            self.emit(builder);
        }
    }
    /// Everything that was gathered goes out.
    fn emit_all(&mut self, builder: &mut LeafBuilder) {
        while !builder.is_empty() && !self.is_stopped() {
            self.emit(builder);
        }
    }
    /// A leaf goes to the device, and into the index.
    fn emit(&mut self, builder: &mut LeafBuilder) {
        let c = self.generations.checkpoint();
        c.budget = c.budget.saturating_sub(1);
        let id = self.generations.make_leaf();
        let page = builder.cut(self.seed, id);
        let blocks = page.bytes.len() as u64 / BLOCK;
        let Some(runs) = take_page(self, blocks) else {
            return self.stop(self.no_room());
        };
        let c = self.generations.checkpoint();
        c.pages += blocks;
        c.on_data |= runs.iter().any(|run| run.0 >= ON_DATA);
        if runs.len() > 1 {
            c.in_pieces.insert(id, runs.len());
        }
        let mut at = 0;
        for (block, n) in &runs {
            let end = at + (n * BLOCK) as usize;
            c.made.push((id, *block, page.bytes.slice(at..end)));
            at = end;
        }
        let leaf = Leaf::made(&page);
        self.table.add_leaf(&page.start, &LeafRef::new(id, &runs, page.rows), &page.filter, leaf);
    }
    /// Sends off the leaves that were made: neighbours on the device, which follow each other in their numbers too, in one write.
    fn send_made(&mut self) {
        self.space.give_back(std::mem::take(&mut self.generations.checkpoint().row));
        let mut made = std::mem::take(&mut self.generations.checkpoint().made).into_iter().peekable();
        while let Some((id, block, bytes)) = made.next() {
            let mut blocks = bytes.len() as u64 / BLOCK;
            let (mut bufs, mut last) = (vec![bytes], id);
            while let Some((id, _, bytes)) = made.next_if(|(id, at, _)| *id == last + 1 && *at == block + blocks && blocks < WRITE_BLOCKS) {
                blocks += bytes.len() as u64 / BLOCK;
                bufs.push(bytes);
                last = id;
            }
            self.io.write_pages(id..last + 1, block, bufs);
        }
    }
    pub fn pages_written(&mut self, ids: Range<u64>, blocks: u64) {
        let c = self.generations.checkpoint();
        c.pages -= blocks;
        for id in ids {
            // Of a leaf in pieces each is a write.
            if let Some(left) = c.in_pieces.get_mut(&id) {
                *left -= 1;
                if *left > 0 {
                    continue;
                }
                c.in_pieces.remove(&id);
            }
            self.table.leaf_written(id);
        }
    }
}
