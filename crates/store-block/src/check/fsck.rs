//! Does everything that a store has agree? And what of it can be put right.
//!
//! Objects own blocks, omap rows and a part of the counters; what is kept about them apart from them (allocator, shares, layers, counters) must say the
//! same. Differences there are repaired from the objects; two owners of a block or bytes without their checksum are not: nothing tells which is
//! right. Waits for its reads: for tools and tests, not for a store that serves.

use crate::data::read::AHEAD;
use crate::data::write::Target;
use crate::open::layout::{BLOCK, CHUNK_BLOCKS, META_FIRST};
use crate::rows::attr_cells;
use crate::rows::counters;
use crate::rows::key;
use crate::rows::meta::Row;
use crate::rows::meta::blocks::Blocks;
use crate::rows::onode::{Onode, Usage};
use crate::rows::pg::PG_KINDS;
use crate::rows::pg_row::PgRow;
use crate::state::{Core, ask};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use store::{ReadData, StoreError};
use types::{CollId, GHObject, SpgId};

/// What a check has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FsckReport {
    /// What is wrong, one sentence each; at most [`ERRORS_MAX`] are kept.
    pub errors: Vec<String>,
    pub errors_total: u64,
    pub objects: u64,
    /// Blocks of data that objects own.
    pub blocks: u64,
    /// Chunks that more than one object may have.
    pub shared_chunks: u64,
    pub omap_rows: u64,
    pub leaves: u64,
    /// Blocks that have no owner and are not free.
    pub leaked_blocks: u64,
    /// Blocks that are owned twice, or owned and free.
    pub doubly_used_blocks: u64,
    /// Bytes of data that were read and compared with their checksums.
    pub data_bytes: u64,
    /// What was put right.
    pub repaired: Vec<String>,
    /// What damage has taken, and a repair left out.
    pub lost: Vec<String>,
}

/// Sentences that a report keeps at most.
pub const ERRORS_MAX: usize = 1000;
/// Objects whose data are read in one step.
const PAGE_ROWS: usize = 512;
/// Bytes of data that are read in one step.
const PIECE: u64 = 1 << 20;

impl FsckReport {
    fn error(&mut self, what: String) {
        self.errors_total += 1;
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(what);
        }
    }
    pub fn is_clean(&self) -> bool {
        self.errors_total == 0
    }
}

/// Reads the values of an object's large attributes.
fn check_attrs(core: &mut Core, coll: CollId, name: &GHObject, node: &Onode, report: &mut FsckReport) {
    for large in node.large() {
        let mut tries = 0;
        loop {
            let value = core.slot(coll, name, &mut ask()).and_then(|slot| {
                core.objects.look(slot);
                attr_cells::get(core, coll, slot, large.name())
            });
            match value {
                Ok(value) => break report.data_bytes += value.map_or(0, |value| value.len()) as u64,
                Err(StoreError::Wait(_)) if tries < 1000 && !core.is_stopped() => {
                    tries += 1;
                    core.io.wait();
                    core.poll();
                }
                Err(e) => break report.error(format!("{name}, a large attribute: {e}")),
            }
        }
    }
}

/// The blocks of metadata that are in use, which a start takes as they were stored, are those of leaves and index.
fn check_blocks(core: &Core, report: &mut FsckReport) {
    if core.generations.is_under_way() {
        return;
    }
    let chunks = core.alloc.chunks();
    let mut owned = Blocks::new(core.space.own_blocks(), chunks);
    for (_, leaf) in core.table.index().iter() {
        if let Some((block, _)) = leaf.runs().into_iter().find(|run| !owned.take(*run)) {
            report.error(format!("leaf {}: block {block} of the metadata is another's too, or not there", leaf.id));
        }
    }
    if let Some((block, _)) = core.sb.index.iter().chain(&core.sb.list).find(|run| !owned.take(**run)) {
        report.error(format!("the index: block {block} of the metadata is another's too, or not there"));
    }
    match owned.differs(&core.space.kept(chunks)) {
        None => {}
        Some((block, true)) => report.error(format!("block {block} of the metadata is in use and free to be given to another")),
        Some((block, false)) => report.error(format!("block {block} of the metadata is nobody's and not free")),
    }
}

/// What the objects say.
#[derive(Default)]
struct Owned {
    /// Blocks with an owner, by chunk.
    used: Vec<u16>,
    /// Places that objects say they share: slots and owners.
    shared: BTreeMap<u64, (u64, u32)>,
    /// Number of an object or a layer: does it have omap?
    nids: BTreeMap<u64, bool>,
    /// How many stand on each layer.
    layers: BTreeMap<u64, u32>,
    usage: BTreeMap<i64, Usage>,
    /// Numbers that have omap rows and no object that knows.
    orphans: BTreeSet<u64>,
    /// Some rows could not be read: what they own is not known.
    incomplete: bool,
}

impl Core {
    /// Checks everything; with `deep`, all data are read too.
    pub fn fsck(&mut self, deep: bool) -> FsckReport {
        let mut report = FsckReport::default();
        self.examine(deep, &mut report);
        report
    }

    fn examine(&mut self, deep: bool, report: &mut FsckReport) -> Owned {
        let mut owned = Owned { used: vec![0; self.alloc.used_map().len()], ..Owned::default() };
        if let Some(why) = self.stopped.why() {
            report.error(format!("the store has stopped: {why}"));
            owned.incomplete = true;
            return owned;
        }
        self.check_objects(deep, report, &mut owned);
        self.check_space(report, &owned);
        self.check_shares(report, &owned);
        self.check_layers(report, &mut owned);
        self.check_omap(report, &mut owned);
        self.check_groups(report, &mut owned);
        self.check_counters(report, &owned);
        self.check_meta(report);
        owned
    }

    /// Shows the rows of a range, each once, until `visit` breaks; reads what must be read. Rows of damaged leaves are told and skipped. Returns
    /// where to go on if there may be more.
    fn each_row(
        &mut self,
        first: Vec<u8>,
        last: &[u8],
        report: &mut FsckReport,
        incomplete: &mut bool,
        visit: &mut dyn FnMut(&Self, &mut FsckReport, &[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Option<Vec<u8>> {
        let mut from = first;
        let mut seen: Vec<u8> = Vec::new();
        loop {
            let mut flow = ControlFlow::Continue(());
            let shown = self.table.scan(&from, last, AHEAD, &mut |key, row| {
                flow = visit(self, report, key, row);
                seen.clear();
                seen.extend_from_slice(key);
                flow
            });
            if !seen.is_empty() {
                from.clone_from(&seen);
                from.push(0);
            }
            let Err(mut missing) = shown else { return flow.is_break().then_some(from) };
            // No more than stay in memory together: large ones would push each other out for ever.
            let (mut room, most) = (0, self.budget.leaves_max() as u64 / crate::open::layout::BLOCK / 2);
            missing.retain(|leaf| {
                let first = room == 0;
                room += u64::from(leaf.blocks);
                first || room <= most
            });
            match self.want_leaves(&missing, CollId::Meta, &mut ask()) {
                StoreError::Wait(_) => {
                    self.io.wait();
                    self.poll();
                    self.tickets.tell_none();
                    if self.is_stopped() {
                        *incomplete = true;
                        report.error("the store stopped while it was checked".to_string());
                        return None;
                    }
                }
                e => {
                    // The first damaged leaf of the range is what stands in the way.
                    report.error(e.to_string());
                    *incomplete = true;
                    let bad = self.table.index().leaves_from(&from).find(|(_, l)| self.leaves.is_bad(l.id));
                    match bad.and_then(|(start, _)| self.table.index().end_of(start)).map(<[u8]>::to_vec) {
                        Some(end) if &end[..] < last && end > from => from = end,
                        _ => return None,
                    }
                }
            }
        }
    }

    fn check_objects(&mut self, deep: bool, report: &mut FsckReport, owned: &mut Owned) {
        let (first, last) = (vec![key::OBJECT], key::kind_end(key::OBJECT));
        let mut incomplete = false;
        let colls: Vec<(CollId, u32)> = self.colls.iter().collect();
        let mut from = Some(first);
        while let Some(first) = from {
            let mut to_read = Vec::new();
            from = self.each_row(first, &last, report, &mut incomplete, &mut |core, report, key, row| {
                if let Some(whole) = core.check_object(key, row, &colls, report, owned).filter(|_| deep) {
                    to_read.push(whole);
                }
                if to_read.len() < PAGE_ROWS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            for (coll, name, node) in to_read {
                self.check_data(coll, &name, &node, report);
                check_attrs(self, coll, &name, &node, report);
            }
        }
        owned.incomplete |= incomplete;
    }
    /// An object's row; returns what it says if data can be read by it.
    fn check_object(
        &self,
        key: &[u8],
        row: Row<'_>,
        colls: &[(CollId, u32)],
        report: &mut FsckReport,
        owned: &mut Owned,
    ) -> Option<(CollId, GHObject, Onode)> {
        let known = match row {
            Row::Obj(slot) => Ok(self.objects.copy(slot)?),
            Row::Bytes(row) => Onode::decode(bytes::Bytes::copy_from_slice(row)),
        };
        let (family, name) = match key::parse_object(key) {
            Ok(known) => known,
            Err(e) => {
                report.error(format!("an object's row: {e}"));
                return None;
            }
        };
        let node = match known {
            Ok(node) => node,
            Err(e) => {
                owned.incomplete = true;
                report.error(format!("{name}: {e}"));
                return None;
            }
        };
        report.objects += 1;
        self.check_node(family, &name, &node, report, owned);
        let home = colls.iter().find(|(c, bits)| key::family(*c) == family && key::belongs(*c, *bits, &name));
        if home.is_none() {
            report.error(format!("{name} belongs to no collection"));
        }
        home.map(|(coll, _)| (*coll, name, node))
    }

    fn check_node(&self, family: u8, name: &GHObject, node: &Onode, report: &mut FsckReport, owned: &mut Owned) {
        if owned.nids.insert(node.nid, node.omap).is_some() {
            report.error(format!("{name} has the number {} of another object", node.nid));
        }
        if node.base() != 0 {
            *owned.layers.entry(node.base()).or_default() += 1;
            if !self.layers.has(node.base()) {
                report.error(format!("the omap of {name} stands on layer {}, which is not there", node.base()));
            }
        }
        if node.nid >= self.objects.next_nid() {
            report.error(format!("{name} has the number {}, the next one to be given is {}", node.nid, self.objects.next_nid()));
        }
        let pool = counters::pool_of(family, name.hobj.pool);
        owned.usage.entry(pool).or_default().change(Usage::default(), node.usage());
        if node.blocks != node.chunks.iter().map(|c| c.slots()).sum::<u64>() {
            report.error(format!("{name} counts {} blocks and has others", node.blocks));
        }
        if !node.large().is_empty() && !self.sb.has_attr_cells() {
            report.error(format!("{name} has a large attribute in cells, in a store whose version has no such attributes"));
        }
        attr_cells::check(node).into_iter().for_each(|what| report.error(format!("{name}: {what}")));
        let (mut cell, mut here) = (None, 0u16);
        for chunk in &node.chunks {
            if cell.is_some_and(|before| before > chunk.cell) {
                report.error(format!("{name}: cells are out of order at {}", chunk.cell));
            }
            if cell == Some(chunk.cell) {
                if !self.sb.has_places() {
                    report.error(format!("{name}: cell {} has several places, in a store whose version has no such cells", chunk.cell));
                }
                if here & chunk.mask != 0 {
                    report.error(format!("{name}: a block of cell {} has two places", chunk.cell));
                }
            }
            here = chunk.mask | if cell == Some(chunk.cell) { here } else { 0 };
            cell = Some(chunk.cell);
            report.blocks += chunk.slots();
            if chunk.shared {
                let known = owned.shared.entry(chunk.place).or_insert((chunk.slots(), 0));
                known.1 += 1;
                if known.0 != chunk.slots() {
                    report.error(format!(
                        "{name}: the shared chunk at {} has {} blocks, and {} for others",
                        chunk.place,
                        chunk.slots(),
                        known.0
                    ));
                }
                if known.1 > 1 {
                    owned.usage.entry(pool).or_default().again += (chunk.slots() * BLOCK) as i64;
                    continue;
                }
            }
            for block in chunk.place..chunk.place + chunk.slots() {
                let (at, bit) = ((block / CHUNK_BLOCKS) as usize, 1u16 << (block % CHUNK_BLOCKS));
                match owned.used.get_mut(at) {
                    None => report.error(format!("{name}: block {block} is outside the device")),
                    Some(used) if *used & bit != 0 => {
                        report.doubly_used_blocks += 1;
                        report.error(format!("{name}: block {block} has another owner too"));
                    }
                    Some(used) => *used |= bit,
                }
            }
        }
    }

    fn check_data(&mut self, coll: CollId, name: &GHObject, node: &Onode, report: &mut FsckReport) {
        let mut at = 0;
        let mut tries = 0;
        while at < node.size {
            let slot = match self.slot(coll, name, &mut ask()) {
                Ok(slot) => slot,
                Err(StoreError::Wait(_)) => {
                    self.io.wait();
                    self.poll();
                    continue;
                }
                Err(e) => return report.error(format!("{name}: {e}")),
            };
            self.objects.look(slot);
            // Holes cost nothing: on to the next cell that has a place.
            let cell = node.chunks.iter().map(|c| c.cell * CHUNK_BLOCKS * BLOCK).find(|start| start + CHUNK_BLOCKS * BLOCK > at);
            let Some(start) = cell else { return };
            at = at.max(start);
            let mut data = ReadData::new();
            match self.collect(&mut Target { coll, slot, ticket: ask() }, at, PIECE, &mut data) {
                Ok(()) => {
                    report.data_bytes += data.len() as u64;
                    at += PIECE;
                    tries = 0;
                }
                Err(StoreError::Wait(_)) if tries < 1000 && !self.is_stopped() => {
                    tries += 1;
                    self.io.wait();
                    self.poll();
                }
                Err(e) => {
                    report.error(format!("{name}, the MiB from {at} on: {e}"));
                    at += PIECE;
                    tries = 0;
                }
            }
        }
    }

    /// The allocator's blocks, without those that are free as soon as they may be: when the record is durable that freed them, or their
    /// discard has ended.
    fn blocks_in_use(&self) -> Vec<u16> {
        let mut used = self.alloc.used_map().to_vec();
        for (place, blocks) in self.alloc.aside() {
            for block in place..place + blocks {
                used[(block / CHUNK_BLOCKS) as usize] &= !(1 << (block % CHUNK_BLOCKS));
            }
        }
        self.alloc.withheld().for_each(|chunk| used[chunk as usize] = 0);
        used
    }
    fn check_space(&self, report: &mut FsckReport, owned: &Owned) {
        let chunks = (self.sb.data_blocks / CHUNK_BLOCKS) as usize;
        let lent: BTreeSet<u64> = self.space.lent().chain(self.spills.chunks()).collect();
        // The first chunk is the label's.
        for (chunk, used) in self.blocks_in_use().into_iter().enumerate().take(chunks).skip(1) {
            let owner = owned.used[chunk];
            if lent.contains(&(chunk as u64)) {
                if owner != 0 || used != u16::MAX {
                    report.doubly_used_blocks += u64::from(owner.count_ones());
                    report.error(format!(
                        "chunk {chunk} has metadata or changes: blocks {owner:#06x} are an object's, {used:#06x} are in use"
                    ));
                }
                continue;
            }
            let (leaked, unguarded) = (used & !owner, owner & !used);
            if leaked != 0 && !owned.incomplete {
                report.leaked_blocks += u64::from(leaked.count_ones());
                report.error(format!("chunk {chunk}: blocks {leaked:#06x} are nobody's and not free"));
            }
            if unguarded != 0 {
                report.doubly_used_blocks += u64::from(unguarded.count_ones());
                report.error(format!("chunk {chunk}: blocks {unguarded:#06x} are an object's and free to be given to another"));
            }
        }
    }
    fn check_shares(&self, report: &mut FsckReport, owned: &Owned) {
        report.shared_chunks = owned.shared.len() as u64;
        for (place, (_, owners)) in &owned.shared {
            match self.refs.get(*place) {
                Some(count) if count == *owners => {}
                count => report.error(format!("{owners} objects have the shared chunk at {place}, {} are counted", count.unwrap_or(0))),
            }
        }
        for (place, _) in self.refs.iter().filter(|(p, _)| !owned.shared.contains_key(p) && !owned.incomplete) {
            report.error(format!("the chunk at {place} is counted as shared, and no object says so"));
        }
    }
    fn check_layers(&self, report: &mut FsckReport, owned: &mut Owned) {
        for (id, parent, _) in self.layers.iter() {
            if owned.nids.insert(id, true).is_some() || id >= self.objects.next_nid() {
                report.error(format!("layer {id} has the number of an object, or one that was not given"));
            }
            if parent != 0 {
                *owned.layers.entry(parent).or_default() += 1;
                if !self.layers.has(parent) {
                    report.error(format!("layer {id} stands on layer {parent}, which is not there"));
                }
            }
        }
        for (id, _, users) in self.layers.iter().filter(|_| !owned.incomplete) {
            let stand = owned.layers.get(&id).copied().unwrap_or(0);
            if users != stand {
                report.error(format!("{stand} omaps stand on layer {id}, {users} are counted"));
            }
        }
    }
    fn check_omap(&mut self, report: &mut FsckReport, owned: &mut Owned) {
        let (first, last) = (vec![key::OMAP], key::kind_end(key::OMAP));
        let mut incomplete = false;
        self.each_row(first, &last, report, &mut incomplete, &mut |_, report, key, _| {
            report.omap_rows += 1;
            let nid = key.get(1..9).map(|n| u64::from_be_bytes(n.try_into().expect("eight bytes")));
            match nid {
                Some(nid) if owned.nids.get(&nid) == Some(&true) => {}
                Some(nid) => drop(owned.orphans.insert(nid)),
                None => report.error("an omap row is nobody's".to_string()),
            }
            ControlFlow::Continue(())
        });
        owned.incomplete |= incomplete;
        if !owned.incomplete {
            owned.orphans.iter().for_each(|nid| report.error(format!("omap rows with the number {nid} are nobody's")));
        }
    }
    /// Rows of groups are of groups that are known, and what they should be; no log goes on behind its group's last update.
    fn check_groups(&mut self, report: &mut FsckReport, owned: &mut Owned) {
        let mut updates = BTreeMap::new();
        for (id, pg) in self.groups.iter() {
            match pg.info() {
                Ok(info) => drop(updates.insert(*id, info.last_update)),
                Err(e) => report.error(format!("group {id}: {e}")),
            }
        }
        for kind in PG_KINDS {
            let known: BTreeMap<Vec<u8>, SpgId> = self.groups.ids().map(|pg| (key::pg(kind, pg), pg)).collect();
            let prefix = key::pg(kind, Default::default()).len();
            let (mut strangers, mut behind, mut incomplete) = (0_u64, BTreeSet::new(), false);
            self.each_row(vec![kind], &key::kind_end(kind), report, &mut incomplete, &mut |_, report, key, row| {
                match (key.get(..prefix).and_then(|p| known.get(p)), row) {
                    (None, _) => strangers += 1,
                    (Some(_), Row::Obj(_)) => {}
                    (Some(id), Row::Bytes(row)) => match PgRow::decode(kind, row) {
                        Err(e) => report.error(format!("what group {id} remembers: {e}")),
                        Ok(PgRow::Log(entry)) if updates.get(id).is_some_and(|last| entry.version > *last) => drop(behind.insert(*id)),
                        Ok(_) => {}
                    },
                }
                ControlFlow::Continue(())
            });
            if strangers > 0 {
                report.error(format!("{strangers} rows of kind {} are of groups that are not known", char::from(kind)));
            }
            for id in behind {
                report.error(format!("group {id}: its log goes on behind its last update {}", updates[&id]));
            }
            owned.incomplete |= incomplete;
        }
    }
    fn check_counters(&self, report: &mut FsckReport, owned: &Owned) {
        if owned.incomplete {
            return;
        }
        let kept: BTreeMap<i64, Usage> = self.counters.iter().map(|(p, u)| (p, *u)).filter(|(_, u)| *u != Usage::default()).collect();
        let real: BTreeMap<i64, Usage> = owned.usage.iter().map(|(p, u)| (*p, *u)).filter(|(_, u)| *u != Usage::default()).collect();
        if kept != real {
            report.error(format!("the counters say {kept:?}, the objects {real:?}"));
        }
    }
    fn check_meta(&self, report: &mut FsckReport) {
        report.leaves = self.table.index().iter().count() as u64;
        let leaves: u64 = self.table.index().iter().map(|(_, l)| u64::from(l.blocks)).sum();
        let index: u64 = self.sb.index.iter().chain(&self.sb.list).map(|(_, n)| n).sum();
        let taken = self.space.taken();
        if !self.generations.is_under_way() && taken != META_FIRST + leaves + index {
            report.error(format!("{taken} blocks of metadata are taken, leaves and index have {}", META_FIRST + leaves + index));
        }
        if let Some((_, leaf)) = self.table.index().iter().find(|(_, l)| l.id >= self.generations.next_leaf()) {
            report.error(format!("leaf {} is there, the next one to be made is {}", leaf.id, self.generations.next_leaf()));
        }
        check_blocks(self, report);
    }

    /// Checks, and puts right what objects are the witness of. What is left is in the report's errors.
    pub fn repair(&mut self) -> FsckReport {
        let mut before = FsckReport::default();
        let has_dropped = self.drop_damaged(&mut before);
        let owned = self.examine(false, &mut before);
        if before.is_clean() && !has_dropped {
            return before;
        }
        if owned.incomplete || before.doubly_used_blocks > 0 && before.errors.iter().any(|e| e.contains("another owner")) {
            before.error("nothing was repaired: what objects own is not certain".to_string());
            return before;
        }
        let (mut repaired, lost) = (before.repaired, before.lost);
        let mut used = owned.used;
        used[0] = u16::MAX;
        self.space.lent().chain(self.spills.chunks()).for_each(|chunk| used[chunk as usize] = u16::MAX);
        used.iter_mut().skip((self.sb.data_blocks / CHUNK_BLOCKS) as usize).for_each(|c| *c = u16::MAX);
        let changed = self.alloc.set_all(&used);
        if changed > 0 {
            repaired.push(format!("{changed} chunks have the blocks in use that objects own"));
        }
        let shares: BTreeMap<u64, u32> = owned.shared.iter().map(|(place, (_, owners))| (*place, *owners)).collect();
        let counted = self.refs.recount(&shares);
        if counted > 0 {
            repaired.push(format!("{counted} shared chunks are counted again"));
        }
        // A layer that nothing stands on has stood on another.
        let mut users = owned.layers;
        let mut recounted = 0;
        loop {
            let unused = self.layers.iter().find(|(id, ..)| !users.contains_key(id));
            let Some((id, parent, _)) = unused else { break };
            if let Some(n) = users.get_mut(&parent) {
                *n -= 1;
                if *n == 0 {
                    users.remove(&parent);
                }
            }
            recounted += self.layers.forget(id);
            self.table.remove_range(&key::omap(id), &key::omap_end(id));
        }
        recounted += self.layers.recount(&users);
        if recounted > 0 {
            repaired.push(format!("{recounted} layers of omaps are counted again"));
        }
        for nid in &owned.orphans {
            self.table.remove_range(&key::omap(*nid), &key::omap_end(*nid));
            repaired.push(format!("omap rows with the number {nid} are removed"));
        }
        if self.counters.recount(owned.usage) {
            repaired.push("counters are taken from the objects".to_string());
        }
        // An empty change makes the checkpoint worth writing.
        self.table.put(&[key::COUNTERS], crate::rows::meta::layer::Val::Del);
        self.generations.want();
        while !self.is_stopped() && !self.generations.is_settled() {
            self.poll();
            self.io.wait();
        }
        self.poll();
        let mut after = FsckReport::default();
        self.examine(false, &mut after);
        FsckReport { repaired, lost, ..after }
    }
}
