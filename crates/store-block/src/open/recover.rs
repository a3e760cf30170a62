//! Making a store, and opening one: superblock, index, what is always in memory, then the records behind the checkpoint.
//!
//! A record counts if a later one says that it was durable, or, at the end of the log, if its directly written data are found at their places. Images are not written to their places now: they stay in the log until a checkpoint needs its room, and
//! reads find them there. So opening takes as long as reading the log and changing the metadata in memory does, and as reading the index.
//! No leaf is looked at to know which blocks are free: they are stored with the index ([`crate::rows::meta::blocks`]).

use crate::check::damaged::LOST;
use crate::check::salvage::Salvage;
use crate::data::io::Io;
use crate::data::ops::Op;
use crate::open::config::Config;
use crate::open::layout::*;
use crate::open::log_reader::{LogReader, WINDOW_BLOCKS, WINDOW_MAX, Whole};
use crate::open::superblock::{Label, Superblock, label, read_label};
use crate::planted::{Bug, planted};
use crate::rows::codec::{Corrupt, Get};
use crate::rows::key;
use crate::rows::meta::Found;
use crate::rows::meta::blocks::Blocks;
use crate::rows::meta::entry::LeafRef;
use crate::rows::meta::index::Index;
use crate::rows::meta::layer::{Key, Val};
use crate::rows::meta::leaf::Leaf;
use crate::rows::meta::parts::StoredBlocks;
use crate::rows::meta::space::Run;
use crate::rows::onode::Onode;
use crate::rows::pg::PgMem;
use crate::state::Core;
use bytes::Bytes;
use disk::{DiskError, Disks};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use thiserror::Error;

/// Why a store can't be made or opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("there is no store on these devices")]
    NoStore,
    #[error("the store has version {0} of the layout, this program knows versions {OLDEST} to {VERSION}: use a program of that version")]
    Version(u32),
    #[error("the {0} device is not of this store")]
    Foreign(&'static str),
    #[error("the {role} device has {is} blocks of 4 KiB, the store needs {needs}: give a larger size or another device")]
    Size { role: &'static str, is: u64, needs: u64 },
    /// What is damaged, and the sentence that says what to do.
    #[error("{what}; nothing was changed: {next}")]
    Damaged { what: String, next: String },
}

impl From<Corrupt> for OpenError {
    fn from(e: Corrupt) -> Self {
        damaged(format!("the metadata are damaged: {e}"))
    }
}

/// For damage that no tool makes good.
fn damaged(what: impl std::fmt::Display) -> OpenError {
    OpenError::Damaged { what: what.to_string(), next: "restore this OSD from an export, or let it be filled anew".into() }
}

/// Makes an empty store of this version and name on devices data, wal and meta, whatever they hold.
pub fn mkfs(disks: Box<dyn Disks>, uuid: [u8; 16], version: u32) -> Result<Box<dyn Disks>, OpenError> {
    let mut io = Io::new(disks);
    for (dev, role, min) in [(DATA, "data", DATA_MIN), (WAL, "wal", WAL_MIN), (META, "meta", META_MIN)] {
        if io.blocks(dev) * BLOCK < min {
            return Err(OpenError::Size { role, is: io.blocks(dev), needs: min / BLOCK });
        }
    }
    let (data_blocks, wal_blocks, meta_blocks) = (io.blocks(DATA), io.blocks(WAL), io.blocks(META));
    // No store until all is there.
    io.write_now(META, 0, disk::AlignedBuf::zeroed(2 * BLOCK as usize).freeze())?;
    io.write_now(DATA, 0, label(DATA.0, &uuid))?;
    io.write_now(WAL, 0, label(WAL.0, &uuid))?;
    let index = Index::default().encode(crc_seed(&uuid));
    io.write_now(META, META_FIRST, disk::AlignedBuf::padded(&index).freeze())?;
    let sb = Superblock {
        uuid,
        version,
        generation: 1,
        data_blocks,
        wal_blocks,
        meta_blocks,
        epoch: 1,
        epoch_seq: 1,
        wal_seq: 1,
        wal_at: 0,
        next_nid: 1,
        next_leaf: 1,
        index: vec![(META_FIRST, 1)],
        index_len: index.len() as u64,
        ..Superblock::default()
    };
    io.write_now(META, 1, sb.encode())?;
    Ok(io.into_disks())
}

/// Records that are gathered before they are replayed, and their blocks.
const GATHERED: usize = if cfg!(test) { 4 } else { 256 };
const GATHERED_BLOCKS: u64 = WINDOW_MAX;
/// Leaves that are read together.
const LEAVES_AT_ONCE: usize = if cfg!(test) { 3 } else { 128 };

/// The superblocks, the newest one first.
pub fn superblock(io: &mut Io) -> Result<Vec<Superblock>, OpenError> {
    // One that can't be read is as one that is torn: the other has all that is needed while the log reaches back to it.
    let mut slots: Vec<_> = (0..2).map(|slot| io.read_now(META, slot, 1)).collect();
    if slots.iter().all(Result::is_err) {
        return Err(slots.swap_remove(0).expect_err("looked at above").into());
    }
    let mut found: Vec<Superblock> = Vec::new();
    let mut version = None;
    for slot in slots.into_iter().flatten() {
        match Superblock::decode(&slot) {
            Label::Ours(sb) => found.push(sb),
            Label::Version(v) => version = Some(v),
            Label::None => {}
        }
    }
    if let Some(v) = version {
        return Err(OpenError::Version(v));
    }
    found.sort_unstable_by_key(|sb| std::cmp::Reverse(sb.generation));
    let sb = found.first().ok_or(OpenError::NoStore)?;
    for (dev, role, needs) in [(DATA, "data", sb.data_blocks), (WAL, "wal", sb.wal_blocks), (META, "meta", sb.meta_blocks)] {
        if io.blocks(dev) < needs {
            return Err(OpenError::Size { role, is: io.blocks(dev), needs });
        }
    }
    for (dev, role) in [(DATA, "data"), (WAL, "wal")] {
        match read_label(&io.read_now(dev, 0, 1)?, dev.0) {
            Label::Ours(uuid) if uuid == sb.uuid => {}
            Label::Version(v) => return Err(OpenError::Version(v)),
            _ => return Err(OpenError::Foreign(role)),
        }
    }
    Ok(found)
}

/// Opens a store: reads what must be in memory, replays the log, and begins a new epoch.
pub fn open(cfg: Config, disks: Box<dyn Disks>) -> Result<Core, OpenError> {
    let (mut limit, mut disks) = (u64::MAX, disks);
    let mut core = loop {
        let mut core = load(cfg.clone(), disks)?;
        match core.replay(limit)? {
            None => break core,
            Some(first) => (limit, disks) = (first, core.io.into_disks()),
        }
    };
    if let Some(chunk) = core.space.lent().find(|chunk| !core.alloc.is_free(chunk * CHUNK_BLOCKS, CHUNK_BLOCKS)) {
        return Err(damaged(format!("chunk {chunk} of the data device has metadata and data")));
    }
    let Core { space, alloc, .. } = &mut core;
    space.lent().for_each(|chunk| assert!(alloc.lend_this(chunk), "it is free: see above"));
    // What is there now is promised from now on, and if a process was killed, the last of it may be in the devices' caches only.
    for dev in [WAL, DATA].into_iter().filter(|_| !planted(Bug::TrustCaches)) {
        core.io.flush_now(dev)?;
    }
    // Whatever is behind the end of the log is never taken for what comes there now. A superblock that is lost may have been of the next epoch; and
    // that no lost one is ever of a later one, the two are never more than one epoch apart.
    let epochs = 1 + u32::from(core.salvage.is_root_alone());
    core.sb.epoch += if planted(Bug::KeepEpoch) { 0 } else { epochs };
    core.sb.epoch_seq = core.log.seq();
    for _ in 0..epochs {
        core.sb.generation += 1;
        let (slot, block) = (core.sb.generation % 2, core.sb.encode());
        core.io.write_now(META, slot, block)?;
    }
    // A full log is trimmed before anything is added.
    core.begin_checkpoint();
    Ok(core)
}

/// The state at the last checkpoint, without the log.
pub fn load(cfg: Config, disks: Box<dyn Disks>) -> Result<Core, OpenError> {
    let mut io = Io::new(disks);
    let (mut found, mut left_out) = (superblock(&mut io)?, Vec::new());
    let is_root_alone = found.len() < 2;
    let (newest, mut reach) = (found.remove(0), 0);
    let mut newest = newest;
    let (sb, (index, blocks)) = match read_index(&mut io, &mut newest) {
        Ok(index) => (newest, index),
        Err(e) => {
            // What the checkpoint before it had, with a longer log, is the same state if all of it is still there.
            let before = found.pop().and_then(|mut sb| read_index(&mut io, &mut sb).ok().map(|index| (sb, index)));
            match before {
                Some((sb, index)) if cfg.salvage => {
                    left_out.push(format!("{e}: the checkpoint before it is taken, and the log from there on"));
                    reach = newest.wal_seq;
                    let Superblock { generation, epoch, epoch_seq, next_leaf, version, .. } = newest;
                    (Superblock { generation, epoch, epoch_seq, next_leaf, version, ..sb }, index)
                }
                Some(_) => return Err(OpenError::Damaged { what: e.to_string(), next: cfg.command("repair") }),
                None => return Err(damaged(e)),
            }
        }
    };
    let mut core = Core::new(cfg, io, sb);
    if core.sb.has_places() {
        core.alloc.take_in_pieces();
    }
    core.table.load_index(index);
    core.salvage = Salvage::new(left_out, reach, is_root_alone);
    load_space(&mut core, blocks)?;
    core.load_beside()?;
    core.load_rows()?;
    core.share_memory();
    Ok(core)
}
/// None, of a store's devices.
fn no_blocks(sb: &Superblock) -> Blocks {
    Blocks::new(sb.meta_blocks, sb.data_blocks / CHUNK_BLOCKS)
}
/// The index, and the blocks that leaves have if they are stored.
fn read_index(io: &mut Io, sb: &mut Superblock) -> Result<(Index, StoredBlocks), Corrupt> {
    if !sb.list.is_empty() {
        let list = io.pages_now(std::slice::from_ref(&sb.list)).map_err(|_| Corrupt("the list of the index's pieces can't be read"))?;
        sb.take_list(list.into_iter().next().unwrap_or_default(), crc_seed(&sb.uuid))?;
    }
    let pages = io.pages_now(std::slice::from_ref(&sb.index)).map_err(|_| Corrupt("the index of the metadata can't be read"))?;
    let index = pages.into_iter().next().unwrap_or_default();
    Index::decode(index.slice(..index.len().min(sb.index_len as usize)), crc_seed(&sb.uuid), sb.index_crc, no_blocks(sb))
}

/// How the blocks that are stored are wrong, if they are.
fn wrong_block(stored: &Blocks, leaves: &Blocks) -> Option<String> {
    let (block, is_stored) = stored.differs(leaves)?;
    Some(format!("block {block} was stored as {}", if is_stored { "a leaf's, and is not" } else { "free, and is a leaf's" }))
}
/// Which blocks of metadata are in use. The leaves are asked if nothing else says so, and by a tool that is to put right what is not.
fn load_space(core: &mut Core, stored: StoredBlocks) -> Result<(), OpenError> {
    let twice = |block: &u64| format!("block {block} of the metadata is used twice, or not there");
    let no_use = |core: &Core, what: String| OpenError::Damaged { what, next: core.cfg.command("repair") };
    let is_taken = stored.is_some() && !core.cfg.salvage;
    let mut blocks = match stored {
        Some(stored) if is_taken => stored.map_err(|e| no_use(core, format!("free room of the metadata is stored wrong: {e}")))?,
        stored => {
            let leaves = no_blocks(&core.sb).of_leaves(core.table.index()).map_err(|block| damaged(twice(&block)))?;
            let wrong = stored.and_then(|stored| stored.map_or_else(|e| Some(e.to_string()), |stored| wrong_block(&stored, &leaves)));
            if let Some(what) = wrong {
                core.salvage.make_good(format!("free room of the metadata is taken from the leaves: {what}"));
                core.table.index_mut().parts().forget();
            }
            leaves
        }
    };
    if let Some((block, _)) = core.sb.index.iter().chain(&core.sb.list).find(|run| !blocks.take(**run)) {
        return Err(if is_taken { no_use(core, twice(block)) } else { damaged(twice(block)) });
    }
    core.space.load(&blocks);
    Ok(())
}

/// An object's key as a record has it.
fn object_key(key: &[u8]) -> Result<Key, Corrupt> {
    key::check_object(key)?;
    Ok(key.into())
}

impl Core {
    /// Shows rows as they were at the checkpoint, in any order, reading what is needed. False if a damaged leaf may have more of them.
    pub fn rows_now(
        &mut self,
        first: &[u8],
        last: &[u8],
        visit: &mut dyn FnMut(&mut Self, &[u8], Bytes) -> Result<(), OpenError>,
    ) -> Result<bool, OpenError> {
        // A leaf that begins with a key of another class has none of these rows, though its range reaches over them.
        let leaves = self.table.index().leaves_from(first).take_while(|(k, _)| *k < last);
        let leaves: Vec<_> =
            leaves.filter(|(k, _)| !key::is_apart(first) || key::class(k) == key::class(first)).map(|(_, l)| l.leaf()).collect();
        let mut whole = true;
        for (n, at) in leaves.iter().enumerate() {
            if n % LEAVES_AT_ONCE == 0 {
                self.leaves_now(&leaves[n..leaves.len().min(n + LEAVES_AT_ONCE)]);
            }
            let Some(leaf) = self.leaf_now(at) else {
                whole = false;
                continue;
            };
            for row in leaf.lower_bound(first)..leaf.rows() {
                if leaf.key(row) >= last {
                    break;
                }
                if self.table.beside().is_empty() || self.table.beside().get(&leaf.key(row).into()).is_none() {
                    visit(self, leaf.key(row), leaf.value(row))?;
                }
            }
            self.table.shrink_leaves(self.budget.leaves_max());
        }
        let beside = self.table.beside().rows().range::<[u8], _>((Bound::Included(first), Bound::Excluded(last)));
        let beside: Vec<(Key, Val)> = beside.map(|(key, val)| (key.clone(), val.clone())).collect();
        for (key, val) in beside {
            if let Val::Row(row) = val {
                visit(self, &key, row)?;
            }
        }
        Ok(whole)
    }
    /// A leaf, unless it is damaged.
    fn leaf_now(&mut self, leaf: &LeafRef) -> Option<Leaf> {
        if self.table.leaf(leaf.id).is_none() {
            self.leaves_now(std::slice::from_ref(leaf));
        }
        self.table.leaf(leaf.id).cloned()
    }

    /// Reads those of the leaves that are not in memory, together. Those that are damaged are known to be from then on.
    fn leaves_now(&mut self, leaves: &[LeafRef]) {
        let missing: Vec<&LeafRef> = leaves.iter().filter(|l| self.table.leaf(l.id).is_none() && !self.leaves.is_bad(l.id)).collect();
        let pages: Vec<Vec<Run>> = missing.iter().map(|l| l.runs().collect()).collect();
        let all = self.io.pages_now(&pages).ok();
        for (n, at) in missing.into_iter().enumerate() {
            let bytes = match &all {
                Some(all) => Ok(all[n].clone()),
                // One of them is to blame.
                None => self.io.pages_now(&pages[n..=n]).map(|mut page| page.remove(0)).map_err(|e| e.to_string()),
            };
            match bytes.and_then(|bytes| Leaf::open(bytes, self.seed, at.id).map_err(|e| e.to_string())) {
                Ok(leaf) => self.table.leaf_came(at.id, leaf),
                Err(why) => self.leaves.put_bad(at.id, why),
            }
        }
    }

    fn load_rows(&mut self) -> Result<(), OpenError> {
        let kind = |k: u8| (vec![k], key::kind_end(k));
        let (first, last) = (key::spare(key::SPARE_COPY, b""), key::spare(key::SPARE_COPY, &[0]));
        let mut copied = false;
        self.rows_now(&first, &last, &mut |_, _, _| {
            copied = true;
            Ok(())
        })?;
        self.salvage.set_copies(copied);
        let (first, last) = kind(key::ALLOC);
        let mut whole = self.rows_now(&first, &last, &mut |core, k, row| Ok(core.alloc.load(key::parse_numbered(k)?, &row)?))?;
        self.alloc.loaded();
        let mut coll = |core: &mut Self, k: &[u8], row: Bytes| Ok(core.colls.load(k, row)?);
        let (first, last) = kind(key::COLL);
        if !self.rows_now(&first, &last, &mut coll)? {
            self.rows_of_copies(key::COLL, &mut coll)?;
        }
        let mut group = |core: &mut Self, _: &[u8], row: Bytes| {
            let pg = PgMem::decode(Bytes::copy_from_slice(&row))?;
            core.groups.load(pg);
            Ok(())
        };
        let (first, last) = kind(key::PG);
        if !self.rows_now(&first, &last, &mut group)? {
            self.rows_of_copies(key::PG, &mut group)?;
        }
        let mut layer = |core: &mut Self, k: &[u8], row: Bytes| Ok(core.layers.load(k, row)?);
        let (first, last) = kind(key::LAYER);
        if !self.rows_now(&first, &last, &mut layer)? {
            self.rows_of_copies(key::LAYER, &mut layer)?;
        }
        let (first, last) = kind(key::REFS);
        whole &= self.rows_now(&first, &last, &mut |core, k, row| {
            core.refs.load(key::parse_numbered(k)?, Get::new(row).u32()?);
            Ok(())
        })?;
        let (first, last) = kind(key::COUNTERS);
        whole &= self.rows_now(&first, &last, &mut |core, _, row| Ok(core.counters.load(row)?))?;
        if !whole {
            self.rebuild()?;
        } else if !self.counters.knows_again() && self.refs.iter().next().is_some() {
            self.count_shared()?;
        }
        self.load_own_objects()
    }

    /// The slot of an object, read if need be; `None` if only a damaged leaf knows, or it is lost already.
    fn slot_now(&mut self, key: &[u8]) -> Result<Option<u32>, OpenError> {
        let row_key = object_key(key)?;
        if let Some(slot) = self.objects.find_key(key) {
            self.objects.unpack(slot);
            return Ok(Some(slot));
        }
        loop {
            let node = match self.table.get(&row_key) {
                Found::Absent => None,
                Found::Row(row) if row[..] == *LOST => return Ok(None),
                Found::Row(row) => Some(Onode::decode(row)?),
                Found::Obj => unreachable!("a changed object is found by its name"),
                Found::Read(leaf) if self.leaf_now(&leaf).is_some() => continue,
                Found::Read(_) => return Ok(None),
            };
            return Ok(Some(self.objects.insert(key, node)));
        }
    }
    /// A change of an object that only a damaged leaf knows. Its slot, if it is known from here on: it was not there before, or is not any more.
    fn replay_lost(&mut self, seq: u64, key: &Key, op: &Op<Bytes>) -> Result<Option<u32>, OpenError> {
        self.salvage.puts_bare_rows();
        match op {
            // What is made was not there. What is removed leaves its blocks to the next repair.
            Op::Create { .. } | Op::Remove => return Ok(Some(self.objects.insert(key, None))),
            // Its clone is as lost as it is. Numbers that were given are not given again.
            Op::CloneTo { key: to, .. } | Op::ShareTo { key: to, .. } | Op::RenameTo(to) => {
                if let Op::CloneTo { nid, .. } | Op::ShareTo { nid, .. } = op {
                    let own = if let Op::ShareTo { own, .. } = op { *own } else { 0 };
                    self.objects.gave_nid(*nid.max(&own));
                }
                if let Some(slot) = self.slot_now(to)? {
                    let at = crate::data::apply::At { seq, slot, images: 0, run: None };
                    self.apply::<Bytes>(at, &Op::Remove)?;
                    self.objects.let_go(slot);
                }
                self.table.put(to, Val::Row(Bytes::from_static(LOST)));
                if matches!(op, Op::RenameTo(_)) {
                    self.table.put_key(key.clone(), Val::Del);
                    return Ok(None);
                }
            }
            Op::Map { place, slots, .. } | Op::Part { place, slots, .. } if self.alloc.is_free(*place, *slots) => {
                self.alloc.take(*place, *slots);
            }
            _ => {}
        }
        self.table.put_key(key.clone(), Val::Row(Bytes::from_static(LOST)));
        Ok(None)
    }

    /// Replays the records behind the checkpoint, and before `limit`. If one turns out not to count, says which: the state is of no use then, and
    /// everything is to be loaded and replayed again up to that one.
    ///
    /// Whether a record counts that no later one vouches for is told by the data that were written beside it. But data of a record that was
    /// durable can be gone from their places again: images of later records went there, or the place was freed and has another's data. So
    /// such records are replayed on trust, and then those blocks are looked at that the final state has from them.
    fn replay(&mut self, limit: u64) -> Result<Option<u64>, OpenError> {
        let mut log = LogReader::new(self.sb.wal_blocks - WAL_FIRST);
        let mut pending: VecDeque<Whole> = VecDeque::new();
        let (mut at, mut seq, mut epoch) = (self.sb.wal_at, self.sb.wal_seq, 0);
        let mut applied_end = at;
        let (mut gathered, mut last_durable) = (0, 0);
        loop {
            let floor = if seq >= self.sb.epoch_seq { self.sb.epoch.max(epoch) } else { epoch };
            let Some(found) = log.record(self, at, seq, floor)? else { break };
            epoch = found.header.epoch;
            let durable = found.header.durable;
            at = found.at + found.header.blocks();
            seq += 1;
            gathered += found.header.blocks();
            pending.push_back(found);
            if gathered >= GATHERED_BLOCKS || pending.len() >= GATHERED {
                gathered = 0;
                applied_end = self.replay_some(&mut pending, durable, false)?.unwrap_or(applied_end);
            }
            last_durable = durable;
        }
        applied_end = self.replay_some(&mut pending, last_durable, false)?.unwrap_or(applied_end);
        // Of those that no later one vouches for, the first whose changes are not beside it is the end.
        let mut limit = limit;
        for record in pending.iter().filter(|r| r.header.seq < limit) {
            if !self.has_spilled(&record.ops)? {
                limit = record.header.seq;
                break;
            }
        }
        applied_end = self.replay_some(&mut pending, limit - 1, true)?.unwrap_or(applied_end);
        if let Some(first) = self.first_without_data()? {
            return Ok(Some(first));
        }
        let end = self.log.seq();
        log.look_for_later(self, applied_end, end)?;
        // The next record may be far off: until then, these places would be doubted again.
        for block in log.unread().filter(|_| self.cfg.cut_log) {
            self.io.write_now(WAL, WAL_FIRST + block, disk::AlignedBuf::zeroed(BLOCK as usize).freeze())?;
        }
        if end < self.salvage.reach() && !self.cfg.cut_log {
            let what = format!(
                "the log of an older checkpoint ends with record {}, before the newer one's first, {}",
                end - 1,
                self.salvage.reach()
            );
            return Err(self.cfg.log_damaged(what));
        }
        assert_eq!(end, self.log.seq(), "the log ends with the last record that was applied");
        self.log.found_all(applied_end);
        self.alloc.release(self.log.durable(), |_, _| false);
        self.overlay.forget();
        Ok(None)
    }
    /// Replays the first of these records, up to `upto`, when the leaves are there that they need; the position behind the last one.
    fn replay_some(&mut self, records: &mut VecDeque<Whole>, upto: u64, on_trust: bool) -> Result<Option<u64>, OpenError> {
        let (mut end, mut ready) = (None, 0);
        while records.front().is_some_and(|f| f.header.seq <= upto) {
            if ready == 0 {
                ready = self.fetch_for(records.iter().take_while(|f| f.header.seq <= upto))?;
            }
            ready -= 1;
            let found = records.pop_front().expect("looked at above");
            end = Some(found.at + found.header.blocks());
            self.replay_one(found, on_trust)?;
            if ready == 0 {
                self.table.shrink_leaves(self.budget.leaves_max());
            }
        }
        Ok(end)
    }
    /// Reads the leaves that records will look into, together; for so many of the records, one at least.
    fn fetch_for<'a>(&mut self, records: impl Iterator<Item = &'a Whole>) -> Result<usize, OpenError> {
        let (mut wanted, mut ready): (BTreeMap<u64, LeafRef>, usize) = (BTreeMap::new(), 0);
        for record in records {
            for op in &record.ops {
                let (Op::Object(key) | Op::CloneTo { key, .. } | Op::ShareTo { key, .. } | Op::RenameTo(key)) = op else { continue };
                let row_key = object_key(key)?;
                if self.objects.find_key(key).is_none()
                    && let Found::Read(leaf) = self.table.get(&row_key)
                {
                    wanted.insert(leaf.id, leaf);
                }
            }
            ready += 1;
            if wanted.len() >= LEAVES_AT_ONCE {
                break;
            }
        }
        let wanted: Vec<LeafRef> = wanted.into_values().collect();
        self.leaves_now(&wanted);
        Ok(ready)
    }
    /// The first of the records replayed on trust whose data are not at their places, of all that the state has from them.
    fn first_without_data(&mut self) -> Result<Option<u64>, OpenError> {
        let mut first: Option<u64> = None;
        for group in self.overlay.take_expected().chunk_by(|a, b| a.0 + 1 == b.0) {
            for part in group.chunks(WINDOW_BLOCKS as usize) {
                let whole = self.io.read_now(DATA, part[0].0, part.len() as u64);
                for (n, (at, seq, crc)) in part.iter().enumerate() {
                    let block = match &whole {
                        Ok(all) => Ok(all.slice(n * BLOCK as usize..(n + 1) * BLOCK as usize)),
                        Err(_) => self.io.read_now(DATA, *at, 1),
                    };
                    // A block that can't be read may be what it should be: it is damaged, the record is not.
                    if block.is_ok_and(|block| block_crc(&block) != *crc)
                        && !planted(Bug::TakeMissingRun)
                        && !(n + 1 == part.len() && planted(Bug::TakeShortRun))
                    {
                        first = Some(first.map_or(*seq, |f| f.min(*seq)));
                    }
                }
            }
        }
        Ok(first)
    }
    /// The changes that lie beside a record of the log.
    fn replay_spill(&mut self, seq: u64, len: u64, crc: u32, chunks: &[u8]) -> Result<Bytes, OpenError> {
        let Some(changes) = self.read_spill(len, crc, chunks)? else {
            return Err(self
                .cfg
                .log_damaged(format!("the log is damaged: the changes that lie beside record {seq} have not their checksum")));
        };
        self.spills.hold(seq, len, chunks, &mut self.alloc)?;
        self.replay.beside(changes.len());
        Ok(changes)
    }
    /// Data that a record wrote directly are to have their checksums when they are read.
    fn expect_direct(&mut self, seq: u64, op: &Op<Bytes>) {
        let Op::Direct { at: place, crcs, .. } = op else { return };
        for (block, crc) in (*place..).zip(crcs.chunks_exact(4)) {
            self.overlay.expect(block, seq, u32::from_le_bytes(crc.try_into().expect("four bytes")));
        }
    }
    fn replay_one(&mut self, found: Whole, on_trust: bool) -> Result<(), OpenError> {
        let (seq, at_block) = (found.header.seq, found.at);
        self.replay.record(found.header.blocks(), found.header.meta_len as usize);
        // What earlier records freed could be given again: they were durable when it was.
        self.alloc.release(seq - 1, |_, _| false);
        let mut at = crate::data::apply::At { seq, slot: u32::MAX, images: 0, run: None };
        let (mut places, mut crcs, mut changed) = (Vec::new(), Vec::new(), Vec::new());
        let mut lost: Option<Key> = None;
        let mut ops: VecDeque<Op<Bytes>> = found.ops.into();
        let mut beside = Get::new(Bytes::new());
        loop {
            let op = match beside.is_empty() {
                false => Op::decode(&mut beside).map_err(|e| damaged(format!("changes beside record {seq} of the log: {e}")))?,
                true => match ops.pop_front() {
                    Some(Op::Spill { len, crc, chunks, .. }) => {
                        beside = Get::new(self.replay_spill(seq, len, crc, &chunks)?);
                        continue;
                    }
                    Some(op) => op,
                    None => break,
                },
            };
            let op = &op;
            if let Op::Object(key) = op {
                let slot = self.slot_now(key)?;
                lost = slot.is_none().then(|| Key::from(&key[..]));
                at.slot = slot.unwrap_or(u32::MAX);
                changed.extend(slot);
                continue;
            }
            let is_of_object = !matches!(op, Op::MkColl { .. } | Op::RmColl { .. } | Op::Log(_));
            if let (Some(key), true) = (&lost, is_of_object) {
                match self.replay_lost(seq, key, op)? {
                    Some(slot) => {
                        (at.slot, lost) = (slot, None);
                        changed.push(slot);
                    }
                    None => {
                        changed.retain(|slot| self.objects.is_slot(*slot));
                        if let Op::Image { at: place, crc, .. } = op {
                            // The log has it, and nothing is read from there.
                            places.push(*place);
                            crcs.push(*crc);
                            at.images += 1;
                        }
                        continue;
                    }
                }
            }
            if let Op::CloneTo { key, .. } | Op::ShareTo { key, .. } | Op::RenameTo(key) = op {
                // What it was before does not matter.
                let slot = match self.slot_now(key)? {
                    Some(slot) => slot,
                    None => self.objects.insert(key, None),
                };
                changed.push(slot);
            }
            if is_of_object && at.slot == u32::MAX {
                return Err(damaged("a record of the log changes no object"));
            }
            self.apply(at, op).map_err(|e| damaged(format!("record {seq} of the log can't be applied: {e}")))?;
            if on_trust {
                self.expect_direct(seq, op);
            }
            if let Op::Image { at: place, crc, .. } = op {
                places.push(*place);
                crcs.push(*crc);
                at.images += 1;
            }
        }
        for slot in changed {
            self.objects.pack(slot);
            self.recount(slot);
        }
        self.overlay.found(seq, self.log.ring().block(at_block), places, crcs);
        self.log.found(seq);
        Ok(())
    }
}
