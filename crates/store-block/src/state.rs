//! The state of an open store, and what its parts have in common: finding objects, reading what is not in memory.

use crate::alloc::Alloc;
use crate::checkpoint::Generations;
use crate::config::Config;
use crate::io::{Extent, Io, Purpose, Tickets};
use crate::key;
use crate::layers::Layers;
use crate::layout::crc_seed;
use crate::leaves::Leaves;
use crate::log::Log;
use crate::meta::layer::{Key, Val};
use crate::meta::space::Space;
use crate::meta::{Found, Table};
use crate::objects::Objects;
use crate::onode::{Onode, Usage};
use crate::overlay::{NumberBuild, Numbers, Overlay};
use crate::pg::Groups;
use crate::planted::{Bug, planted};
use crate::queue::Queue;
use crate::reads::{Fetched, Reads};
use crate::spill::Spills;
use crate::superblock::Superblock;
use base::fixed::HashSet;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use store::{StoreError, StoreResult};
use types::{CollId, GHObject};

/// Stands for a ticket that is made when it turns out that somebody must wait.
pub fn ask() -> u64 {
    u64::MAX
}
/// Stands for the store itself, which looks at what came whenever something does.
pub const OWN: u64 = 0;

/// Who shares a chunk: how many objects by place. Places that nobody shares are not in it.
#[derive(Debug, Default)]
pub struct Refs {
    pub counts: Numbers<u32>,
    /// Changed since the last checkpoint took them.
    pub dirty: HashSet<u64, NumberBuild>,
}

#[derive(Debug)]
pub struct Core {
    /// `memory` is what is left of `memory_max`: see [`Core::share_memory`].
    pub cfg: Config,
    /// The setting, or what it was limited to since.
    pub memory_max: usize,
    /// The setting with which the store was opened.
    pub memory_given: usize,
    pub uuid: [u8; 16],
    pub seed: u32,
    /// Why it stopped.
    pub failed: Option<String>,
    /// It stopped at a change that needs what is damaged.
    pub stopped_at_damage: bool,

    pub io: Io,
    pub tickets: Tickets,
    pub reads: Reads,
    /// Leaves on their way, and damaged ones.
    pub leaves: Leaves,
    /// The rows of collections and groups have copies: see [`crate::damaged`].
    pub copied: bool,
    /// The log must be whole up to before this record: 0, unless an older checkpoint than the newest one had to be taken.
    pub reach: u64,
    /// Layers have rows of objects that are not in memory: after damage, some are put there as they are.
    pub has_bare_rows: bool,
    /// What opening had to leave out, a sentence each, if it was told to.
    pub left_out: Vec<String>,

    pub table: Table,
    pub space: Space,
    pub objects: Objects,
    pub alloc: Alloc,
    pub refs: Refs,
    /// Omaps that are shared.
    pub layers: Layers,
    pub overlay: Overlay,
    pub colls: BTreeMap<CollId, u32>,
    pub groups: Groups,
    /// By pool.
    pub usage: Vec<(i64, Usage)>,
    pub next_nid: u64,

    pub log: Log,
    /// Transactions that wait.
    pub queue: Queue,
    /// Changes that lie beside records.
    pub spills: Spills,

    pub sb: Superblock,
    pub generations: Generations,
    /// What is to come into the metadata: see [`crate::room`].
    pub inflow: crate::room::Inflow,
    pub in_place: usize,
    pub scratch: Vec<u8>,
    /// Where values are encoded on their way into a record.
    pub encode_buf: BytesMut,
    pub done: Vec<disk::Completion>,
}

impl Core {
    pub fn new(cfg: Config, io: Io, sb: Superblock) -> Self {
        Self {
            memory_max: cfg.memory,
            memory_given: cfg.memory,
            uuid: sb.uuid,
            seed: crc_seed(&sb.uuid),
            failed: None,
            stopped_at_damage: false,
            tickets: Tickets::default(),
            reads: Reads::default(),
            leaves: Leaves::default(),
            copied: false,
            reach: 0,
            has_bare_rows: false,
            left_out: Vec::new(),
            table: Table::new(),
            space: Space::new(sb.meta_blocks, crate::layout::META_FIRST),
            objects: Objects::new(),
            alloc: Alloc::new(sb.data_blocks, cfg.data_has_holes),
            refs: Refs::default(),
            layers: Layers::default(),
            overlay: Overlay::default(),
            colls: BTreeMap::new(),
            groups: Groups::default(),
            usage: Vec::new(),
            next_nid: sb.next_nid,
            generations: Generations::new(sb.next_leaf),
            log: Log::new(&sb, cfg.zero_ahead),
            queue: Queue::default(),
            spills: Spills::default(),
            inflow: crate::room::Inflow::default(),
            in_place: 0,
            scratch: Vec::new(),
            encode_buf: BytesMut::new(),
            done: Vec::new(),
            cfg,
            io,
            sb,
        }
    }

    /// Bytes of what must be in memory whole, but for the index.
    pub fn whole(&self) -> usize {
        const COUNT_BYTES: usize = 20; // of a place and its count in a hash table
        self.alloc.memory()
            + self.space.memory()
            + self.spills.memory()
            + self.layers.memory()
            + self.refs.counts.capacity() * COUNT_BYTES
            + self.groups.memory()
    }
    /// What must be in memory whole comes off the setting; everything else shares the rest.
    pub fn share_memory(&mut self) {
        let whole = self.whole() + self.table.index.memory();
        self.cfg.memory = self.memory_max.saturating_sub(whole).max(self.memory_max / 4);
    }

    /// What nobody else has of the memory that may be taken, less what a checkpoint wants while there is one: it is let go when that begins.
    pub fn spare(&self) -> usize {
        let rows = self.table.recent_bytes();
        let checkpoint = if self.generations.is_under_way() { self.cfg.leaves_max() } else { 0 };
        let others = self.objects.bytes() + self.table.cache.bytes() + rows + self.overlay.memory() + checkpoint;
        self.cfg.memory.saturating_sub(others)
    }

    /// What objects may take: their share, and what others don't have of theirs, but for some into which they can grow at once.
    pub fn objects_max(&self) -> usize {
        let rows = self.table.recent_bytes();
        let others = self.cfg.leaves_max() + rows + self.overlay.memory() + self.reads.bytes();
        (self.cfg.memory - self.cfg.memory / 8).saturating_sub(others).max(self.cfg.objects_max())
    }

    pub fn alive(&self) -> StoreResult<()> {
        match &self.failed {
            None => Ok(()),
            Some(why) => Err(StoreError::Stopped(why.clone())),
        }
    }
    /// The store does nothing any more.
    pub fn stop(&mut self, why: String) {
        self.stop_as(why, false);
    }
    /// The same, for a change that needs what is damaged.
    pub fn stop_at_damage(&mut self, why: String) {
        self.stop_as(why, true);
    }
    fn stop_as(&mut self, why: String, at_damage: bool) {
        if self.failed.is_none() {
            self.stopped_at_damage = at_damage;
            // Whoever waits asks again, and hears why.
            let waiting: Vec<u64> = self.tickets.everyone();
            self.tickets.ready.extend(waiting);
            let queued = self.queue.take_tickets();
            self.tickets.ready.extend(queued);
            self.failed = Some(why);
        }
    }

    /// The collection is there, and the object's place is in it.
    pub fn coll_has(&self, coll: CollId, obj: &GHObject) -> StoreResult<bool> {
        let bits = *self.colls.get(&coll).ok_or(StoreError::NoCollection(coll))?;
        Ok(key::belongs(coll, bits, obj))
    }

    /// The slot of a name, whether there is such an object or not; it may be packed.
    pub fn slot(&mut self, coll: CollId, obj: &GHObject, ticket: &mut u64) -> StoreResult<u32> {
        let family = key::family(coll);
        if let Some(slot) = self.objects.find(family, obj) {
            return Ok(slot);
        }
        let key: Key = self.objects.sought().into();
        // What changed lately is in memory, and was found there.
        let found = if self.has_bare_rows { self.table.get(&key) } else { self.table.get_stored(&key) };
        match found {
            Found::Absent => Ok(self.objects.insert(&key, None)),
            Found::Row(row) => {
                let node = Onode::decode(row).map_err(|e| StoreError::Damaged { coll, what: format!("{obj}: {e}") })?;
                Ok(self.objects.insert(&key, Some(node)))
            }
            Found::Obj => unreachable!("leaves hold no objects in memory"),
            Found::Read(leaf) => Err(self.want_leaf(&leaf, coll, ticket)),
        }
    }
    /// The slot of an object that is there.
    pub fn object(&mut self, coll: CollId, obj: &GHObject) -> StoreResult<u32> {
        self.alive()?;
        self.busy(Some(obj))?;
        if !self.coll_has(coll, obj)? {
            return Err(StoreError::NoObject(coll));
        }
        let slot = self.slot(coll, obj, &mut ask())?;
        if !self.objects.look(slot) {
            return Err(StoreError::NoObject(coll));
        }
        Ok(slot)
    }

    /// The ticket, made if it is [`ask`].
    pub fn ticket(&mut self, ticket: &mut u64) -> u64 {
        if *ticket == ask() {
            *ticket = self.tickets.make();
        }
        *ticket
    }

    /// Blocks of a device that should have these crcs: from memory, or being read.
    pub fn fetch(&mut self, extent: Extent, wanted: &[u32], coll: CollId, ticket: &mut u64) -> StoreResult<Bytes> {
        let damaged = |what: String| StoreError::Damaged { coll, what };
        let mark = wanted.iter().fold(0u32, |h, crc| h.rotate_left(5) ^ crc);
        if let Some(read) = self.reads.get(&extent) {
            match &read.fetched {
                Fetched::Here { bytes, crcs } if crcs[..] == *wanted || planted(Bug::ForgetDataCrc) => return Ok(bytes.clone()),
                // Asked for while it changed, or damaged: a few tries tell.
                Fetched::Here { .. } if read.tries >= 2 && read.wanted == mark => {
                    return Err(damaged(format!("block {} of device {} has not its checksum", extent.block, extent.dev.0)));
                }
                Fetched::Failed(why) if read.tries >= 2 && read.wanted == mark => return Err(damaged(why.clone())),
                _ => {}
            }
        }
        let ticket = self.ticket(ticket);
        self.tickets.await_one(ticket);
        if self.reads.start(extent, mark, ticket) {
            self.io.read(Purpose::Read(extent), extent.dev, extent.block, u64::from(extent.blocks));
        }
        Err(StoreError::Wait(ticket))
    }

    /// The object in the slot is about to change.
    pub fn touch(&mut self, slot: u32) {
        let generation = self.generations.open();
        let entry = self.objects.get_mut(slot);
        if entry.changed == generation {
            return;
        }
        if entry.changed > self.generations.saved()
            && let Some(frozen) = &mut self.table.frozen
        {
            // The checkpoint will want it as it was.
            let val = match &entry.node {
                None => Val::Del,
                Some(node) => {
                    let mut out = Vec::new();
                    node.encode(&mut out);
                    Val::Row(out.into())
                }
            };
            frozen.settle(&entry.key().into(), val);
        }
        entry.changed = generation;
        self.table.active.put(entry.key(), Val::Obj(slot));
        self.objects.account(slot);
        self.generations.changed(self.objects.get(slot).memory());
    }
    /// The object in the slot has changed: what it takes now counts.
    pub fn recount(&mut self, slot: u32) {
        let grown = self.objects.account(slot);
        if self.objects.get(slot).changed == self.generations.open() {
            self.generations.changed(grown);
            self.inflow.grew(grown);
        }
    }

    /// Counts what an object took and takes.
    pub fn count(&mut self, slot: u32, before: Usage) {
        let entry = self.objects.get(slot);
        let after = entry.node.as_ref().map_or(Usage::default(), |o| o.usage());
        if before == after {
            return;
        }
        let pool = entry.pool();
        let pool = if entry.family() == 0 || pool >= -1 { pool } else { key::temp_pool(pool) };
        match self.usage.iter_mut().find(|(p, _)| *p == pool) {
            Some((_, usage)) => usage.change(before, after),
            None => {
                let mut usage = Usage::default();
                usage.change(before, after);
                self.usage.push((pool, usage));
            }
        }
    }
}
