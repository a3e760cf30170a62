//! The state of an open store, and what its parts have in common: finding objects, reading what is not in memory.
//!
//! | owners | what they have |
//! |---|---|
//! | `Queue`, `Log`, `Replay` | transactions that wait and what was promised to them; records; the time that a start would need for those |
//! | `Overlay`, `Spills` | blocks that are not at their places; changes beside records |
//! | `Table`, `Space` | rows; where their leaves lie |
//! | `Objects`, `Layers` | objects in memory and the numbers that they are given; omaps that clones share |
//! | `Alloc`, `Refs`, `GiveBack` | the data device: what is in use, what of it is shared, and how room goes back to it |
//! | `Colls`, `Groups`, `Counters` | collections, what groups remember, what pools take |
//! | `Generations`, `Inflow` | the checkpoint and which changes are whose; what of them comes into the metadata |
//! | `Io`, `Tickets`, `Reads`, `Leaves` | what is under way on the devices, and what was read |
//! | `Budget`, `Stopped`, `Salvage` | the shares of memory; why nothing happens any more; what damage has left |
//!
//! A function that needs few owners takes them as arguments; one that joins many is a method of [`Core`] in the file of its subject.

use crate::check::salvage::Salvage;
use crate::check::stopped::Stopped;
use crate::data::io::{Extent, Io, Purpose, Tickets};
use crate::data::log::Log;
use crate::data::overlay::Overlay;
use crate::data::queue::Queue;
use crate::data::reads::{Known, Reads};
use crate::data::spill::Spills;
use crate::open::config::Config;
use crate::open::layout::crc_seed;
use crate::open::replay::Replay;
use crate::open::superblock::Superblock;
use crate::place::alloc::Alloc;
use crate::place::budget::Budget;
use crate::place::give_back::GiveBack;
use crate::place::refs::Refs;
use crate::place::room::Inflow;
use crate::rows::checkpoint::Generations;
use crate::rows::colls::Colls;
use crate::rows::counters::{self, Counters};
use crate::rows::key;
use crate::rows::layers::Layers;
use crate::rows::leaves::Leaves;
use crate::rows::meta::layer::{Key, Val};
use crate::rows::meta::space::Space;
use crate::rows::meta::{Found, Table};
use crate::rows::objects::Objects;
use crate::rows::onode::{Onode, Usage};
use crate::rows::pg::Groups;
use bytes::Bytes;
use store::{StoreError, StoreResult};
use types::{CollId, GHObject};

/// Stands for a ticket that is made when it turns out that a caller must wait.
pub fn ask() -> u64 {
    u64::MAX
}
/// Stands for the store itself, which looks at what came whenever something does.
pub const OWN: u64 = 0;

/// An open store: its owners, joined. Each keeps its fields to itself; what is here belongs to no single one of them.
#[derive(Debug)]
pub struct Core {
    /// As it was told when it was opened.
    pub(crate) cfg: Config,
    /// The last one that was written, but for sizes that have grown since, and for the index while a new one is made.
    pub(crate) sb: Superblock,
    /// Of the checksums of metadata.
    pub(crate) seed: u32,
    pub(crate) budget: Budget,
    pub(crate) stopped: Stopped,
    pub(crate) salvage: Salvage,

    pub(crate) io: Io,
    pub(crate) tickets: Tickets,
    pub(crate) reads: Reads,
    /// Leaves on their way, and damaged ones.
    pub(crate) leaves: Leaves,

    /// The rows of the metadata.
    pub(crate) table: Table,
    /// Where the leaves lie.
    pub(crate) space: Space,
    pub(crate) objects: Objects,
    /// Where objects' data lie.
    pub(crate) alloc: Alloc,
    pub(crate) refs: Refs,
    /// Room that goes back to the device.
    pub(crate) give_back: GiveBack,
    /// Omaps that are shared.
    pub(crate) layers: Layers,
    /// Blocks that are not at their places.
    pub(crate) overlay: Overlay,
    pub(crate) colls: Colls,
    pub(crate) groups: Groups,
    pub(crate) counters: Counters,

    pub(crate) log: Log,
    /// The time that the next start would need for the log.
    pub(crate) replay: Replay,
    /// Transactions that wait.
    pub(crate) queue: Queue,
    /// Changes that lie beside records.
    pub(crate) spills: Spills,
    pub(crate) generations: Generations,
    /// What is to come into the metadata.
    pub(crate) inflow: Inflow,
}

impl Core {
    pub fn new(cfg: Config, io: Io, sb: Superblock) -> Self {
        Self {
            budget: Budget::new(cfg.memory),
            seed: crc_seed(&sb.uuid),
            stopped: Stopped::default(),
            salvage: Salvage::default(),
            tickets: Tickets::default(),
            reads: Reads::default(),
            leaves: Leaves::default(),
            table: Table::new(),
            space: Space::new(sb.meta_blocks, crate::open::layout::META_FIRST),
            objects: Objects::new(sb.next_nid),
            alloc: Alloc::new(sb.data_blocks, cfg.data_has_holes),
            refs: Refs::default(),
            give_back: GiveBack::default(),
            layers: Layers::default(),
            overlay: Overlay::default(),
            colls: Colls::default(),
            groups: Groups::default(),
            counters: Counters::default(),
            generations: Generations::new(sb.next_leaf),
            log: Log::new(&sb, cfg.zero_ahead),
            replay: Replay::new(cfg.replay_ms),
            queue: Queue::default(),
            spills: Spills::default(),
            inflow: Inflow::default(),
            cfg,
            io,
            sb,
        }
    }

    pub fn alive(&self) -> StoreResult<()> {
        self.stopped.alive()
    }
    pub fn is_stopped(&self) -> bool {
        self.stopped.why().is_some()
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
        if self.stopped.stop(why, at_damage) {
            // Whoever waits asks again, and hears why.
            self.tickets.wake_all();
            self.tickets.wake(self.queue.take_tickets());
        }
    }

    /// The slot of a name, whether there is such an object or not; it may be packed.
    pub fn slot(&mut self, coll: CollId, obj: &GHObject, ticket: &mut u64) -> StoreResult<u32> {
        let family = key::family(coll);
        if let Some(slot) = self.objects.find(family, obj) {
            return Ok(slot);
        }
        let key: Key = self.objects.sought().into();
        // What changed lately is in memory, and was found there.
        let found = if self.salvage.has_bare_rows() { self.table.get(&key) } else { self.table.get_stored(&key) };
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
        if !self.colls.has(coll, obj)? {
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
        match self.reads.known(&extent, wanted) {
            Known::Here(bytes) => return Ok(bytes.clone()),
            Known::Damaged(what) => return Err(StoreError::Damaged { coll, what }),
            Known::Unread => {}
        }
        let ticket = self.ticket(ticket);
        self.tickets.await_one(ticket);
        if self.reads.start(extent, wanted, ticket) {
            self.io.read(Purpose::Read(extent), extent.dev, extent.block, u64::from(extent.blocks));
        }
        Err(StoreError::Wait(ticket))
    }

    /// The object in the slot is about to change.
    pub fn touch(&mut self, slot: u32) {
        let generation = self.generations.open();
        let entry = self.objects.get_mut(slot);
        if entry.changed() == generation {
            return;
        }
        if entry.changed() <= self.generations.saved() && entry.node.is_some() {
            self.replay.object();
        }
        if entry.changed() > self.generations.saved() && self.table.frozen().is_some() {
            // The checkpoint will want it as it was.
            let val = match &entry.node {
                None => Val::Del,
                Some(node) => {
                    let mut out = Vec::new();
                    node.encode(&mut out);
                    Val::Row(out.into())
                }
            };
            self.table.settle(&entry.key().into(), val);
        }
        entry.set_changed(generation);
        self.table.put(entry.key(), Val::Obj(slot));
        self.objects.account(slot);
        self.generations.changed(self.objects.get(slot).memory());
    }
    /// The object in the slot has changed: what it takes now counts.
    pub fn recount(&mut self, slot: u32) {
        let grown = self.objects.account(slot);
        if self.objects.get(slot).changed() == self.generations.open() {
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
        let pool = counters::pool_of(entry.family(), entry.pool());
        self.counters.change(pool, before, after);
    }
    /// So many blocks that others have too are the object's from now on, or are not any more: they are there once.
    pub fn count_again(&mut self, slot: u32, blocks: i64) {
        let entry = self.objects.get(slot);
        let pool = counters::pool_of(entry.family(), entry.pool());
        self.counters.share(pool, blocks);
    }
}
