//! What damage has taken goes: rows of damaged leaves, objects that are lost, the part of a group's log in front of a gap. Each is named, as far as it
//! can be known.
//!
//! An object's name stands in its row, so those of a damaged leaf are known by the keys between which they were, and by the groups' logs. For
//! tools: waits for its reads, and nothing else may use the store.

use crate::check::damaged::own_objects;
use crate::check::fsck::FsckReport;
use crate::data::read::AHEAD;
use crate::rows::key;
use crate::rows::meta::Row;
use crate::rows::meta::entry::LeafRef;
use crate::rows::meta::layer::{Key, Val};
use crate::rows::onode::Onode;
use crate::rows::pg_row::PgRow;
use crate::state::{Core, ask};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use store::{LogDelta, StoreError};
use types::{CollId, EVersion, SpgId};

/// The keys of a leaf that goes.
struct Gap {
    first: Key,
    last: Key,
}

impl Gap {
    fn has(&self, key: &[u8]) -> bool {
        key >= &self.first[..] && key < &self.last[..]
    }
    fn meets(&self, first: &[u8], last: &[u8]) -> bool {
        first < &self.last[..] && last > &self.first[..]
    }
}

impl Core {
    /// Takes what damaged leaves had out of the store, and says what that was. True if there was any.
    pub fn drop_damaged(&mut self, report: &mut FsckReport) -> bool {
        report.lost.append(&mut self.salvage.take_left_out());
        report.repaired.append(&mut self.salvage.take_made_good());
        let has_made_good = !report.repaired.is_empty();
        self.settle();
        self.salvage.puts_bare_rows();
        let gaps = self.take_bad_leaves(report);
        let beside = (key::spare(key::SPARE_RANGE, b""), key::kind_end(key::SPARE));
        let (first, last) = (Key::default(), Key::from(beside.0.clone()));
        self.table.settle_beside(&first, &last);
        self.table.remove_range(&beside.0, &beside.1);
        if !gaps.is_empty() {
            self.renew_copied();
        }
        let objects = self.drop_lost(report);
        self.name_by_logs(&gaps, report);
        self.name_by_omap(&gaps, report);
        self.close_logs(&gaps, report);
        has_made_good || !gaps.is_empty() || objects > 0 || !report.lost.is_empty()
    }
    /// Waits until nothing is under way.
    fn settle(&mut self) {
        while !self.is_stopped() && (self.generations.is_under_way() || self.io.in_flight() > 0) {
            self.poll();
            if self.io.in_flight() > 0 {
                self.io.wait();
            }
        }
    }
    /// Reads all leaves, and takes those out of the index that are damaged.
    fn take_bad_leaves(&mut self, report: &mut FsckReport) -> Vec<Gap> {
        let mut unread: Vec<LeafRef> = self.table.index().iter().map(|(_, leaf)| leaf.leaf()).collect();
        unread.retain(|leaf| self.table.leaf(leaf.id).is_none());
        for part in unread.chunks(AHEAD) {
            for leaf in part {
                // Whether it comes or not is seen below.
                let _ = self.want_leaf(leaf, CollId::Meta, &mut ask());
            }
            while self.leaves.is_any_read() && !self.is_stopped() {
                self.io.wait();
                self.poll();
                self.tickets.tell_none();
            }
        }
        self.settle();
        let all: Vec<(Key, LeafRef)> = self.table.index().iter().map(|(start, leaf)| (start.into(), leaf.leaf())).collect();
        let mut gaps = Vec::new();
        let ends: Vec<Key> = all.iter().skip(1).map(|(start, _)| start.clone()).chain([Key::from(&[u8::MAX][..])]).collect();
        for ((start, leaf), end) in all.into_iter().zip(ends) {
            let Some(why) = self.leaves.forget_bad(leaf.id) else { continue };
            self.table.drop_leaf(&start);
            leaf.runs().for_each(|run| self.space.put_aside(run));
            report.repaired.push(format!("a leaf of metadata with {} rows is left out ({why})", leaf.rows));
            report.lost.push(format!("up to {} rows: {}", leaf.rows, describe(&start, &end)));
            gaps.push(Gap { first: start, last: end });
        }
        gaps
    }
    /// Rows that have copies, and the copies, are written once more: either may have been in a leaf that went.
    fn renew_copied(&mut self) {
        self.salvage.set_copies(false);
        let (first, last) = own_objects();
        let mut rows = Vec::new();
        self.all_rows(&first, &last, &mut |key, row| {
            // Those in memory have changed, and are copied with the next checkpoint.
            if let Row::Bytes(row) = row {
                rows.push((key.to_vec(), bytes::Bytes::copy_from_slice(row)));
            }
        });
        rows.into_iter().for_each(|(key, row)| self.table.put(&key::spare(key::SPARE_COPY, &key), Val::Row(row)));
    }
    /// Objects whose rows say nothing go.
    fn drop_lost(&mut self, report: &mut FsckReport) -> u64 {
        let mut lost = Vec::new();
        self.all_rows(&[key::OBJECT], &key::kind_end(key::OBJECT), &mut |key, row| {
            if let Row::Bytes(row) = row
                && let Err(e) = Onode::decode(row)
            {
                lost.push((Key::from(key), e));
            }
        });
        for (key, e) in &lost {
            let name = key::parse_object(key).map_or_else(|_| format!("{key:?}"), |(_, name)| name.to_string());
            report.lost.push(format!("object {name}: {e}"));
            self.table.put(key, Val::Del);
        }
        lost.len() as u64
    }
    /// Objects that the groups' logs name, that would be in a gap, and that are not there.
    fn name_by_logs(&mut self, gaps: &[Gap], report: &mut FsckReport) {
        let (first, last) = ([key::OBJECT], key::kind_end(key::OBJECT));
        if !gaps.iter().any(|gap| gap.meets(&first, &last)) {
            return;
        }
        let mut named: BTreeMap<Vec<u8>, bool> = BTreeMap::new();
        self.all_rows(&[key::LOG], &key::kind_end(key::LOG), &mut |_, row| {
            let Row::Bytes(row) = row else { return };
            if let Ok(PgRow::Log(entry)) = PgRow::decode(key::LOG, row) {
                let mut key = Vec::new();
                key::object(key::family(CollId::Pg(SpgId::default())), &entry.soid.clone().into(), &mut key);
                named.insert(key, entry.is_delete());
            }
        });
        for (key, is_gone) in named {
            let is_absent = matches!(self.table.get(&key[..].into()), crate::rows::meta::Found::Absent);
            if !is_gone && is_absent && gaps.iter().any(|gap| gap.has(&key)) {
                let name = key::parse_object(&key).map_or_else(|_| "?".to_string(), |(_, name)| name.to_string());
                report.lost.push(format!("object {name}, by its group's log"));
            }
        }
    }
    /// Objects that may have lost keys of their omap.
    fn name_by_omap(&mut self, gaps: &[Gap], report: &mut FsckReport) {
        let gaps: Vec<&Gap> = gaps.iter().filter(|gap| gap.meets(&[key::OMAP], &key::kind_end(key::OMAP))).collect();
        if gaps.is_empty() {
            return;
        }
        let mut names = Vec::new();
        let meets = |nid: u64| gaps.iter().any(|gap| gap.meets(&key::omap(nid), &key::omap_end(nid)));
        let met: BTreeSet<u64> = self.layers.iter().filter(|(id, ..)| meets(*id)).map(|(id, ..)| id).collect();
        let below: BTreeSet<u64> =
            self.layers.iter().filter(|(id, ..)| self.layers.from(*id).any(|id| met.contains(&id))).map(|(id, ..)| id).collect();
        let is_met = |node: &Onode| node.omap && meets(node.nid) || below.contains(&node.base());
        let mut slots = Vec::new();
        self.all_rows(&[key::OBJECT], &key::kind_end(key::OBJECT), &mut |key, row| match row {
            Row::Bytes(row) => {
                if let (Ok(node), Ok((_, name))) = (Onode::decode(row), key::parse_object(key))
                    && is_met(&node)
                {
                    names.push(name);
                }
            }
            Row::Obj(slot) => slots.push(slot),
        });
        for slot in slots {
            if self.objects.copy(slot).is_some_and(|node| is_met(&node)) {
                names.extend(self.objects.name(slot));
            }
        }
        report.lost.extend(names.into_iter().map(|name| format!("keys of the omap of {name}, or all of them")));
    }
    /// A group's log goes on behind what is left of a gap: its tail is there.
    fn close_logs(&mut self, gaps: &[Gap], report: &mut FsckReport) {
        let groups: Vec<SpgId> = self.groups.ids().collect();
        for id in groups {
            let (first, last) = (key::pg(key::LOG, id), key::pg_end(key::LOG, id));
            let Some(gap) = gaps.iter().rev().find(|gap| gap.meets(&first, &last)) else { continue };
            let mut next: Option<EVersion> = None;
            self.all_rows(&gap.last.clone().max(Key::from(first)), &last, &mut |_, row| {
                if let (None, Row::Bytes(row)) = (next, row)
                    && let Ok(PgRow::Log(entry)) = PgRow::decode(key::LOG, row)
                {
                    next = Some(entry.version);
                }
            });
            let Some(Ok(info)) = self.groups.get(id).map(|pg| pg.info()) else { continue };
            let tail = match next {
                Some(v) => EVersion { version: v.version - 1, ..v },
                None => info.last_update,
            };
            if tail > info.log_tail {
                let mut delta = LogDelta::new(id);
                delta.trim_to = Some(tail);
                match self.log_delta(&delta) {
                    Ok(()) => report.repaired.push(format!("group {id}: its log begins behind {tail}")),
                    Err(e) => report.lost.push(format!("group {id}: its log: {e}")),
                }
            }
        }
    }
    /// Shows rows that can be read, each once.
    fn all_rows(&mut self, first: &[u8], last: &[u8], visit: &mut dyn FnMut(&[u8], Row<'_>)) {
        let mut from = first.to_vec();
        loop {
            let mut seen: Option<Vec<u8>> = None;
            let shown = self.table.scan(&from, last, AHEAD, &mut |key, row| {
                visit(key, row);
                seen = Some(key.to_vec());
                ControlFlow::Continue(())
            });
            if let Some(mut seen) = seen {
                seen.push(0);
                from = seen;
            }
            let Err(missing) = shown else { return };
            if !matches!(self.want_leaves(&missing, CollId::Meta, &mut ask()), StoreError::Wait(_)) {
                return;
            }
            self.io.wait();
            self.poll();
            self.tickets.tell_none();
            if self.is_stopped() {
                return;
            }
        }
    }
}

/// What rows with keys from `first` to `last` are about.
fn describe(first: &Key, last: &Key) -> String {
    let kinds: [(u8, &str); 10] = [
        (key::ALLOC, "the allocator (made anew)"),
        (key::COLL, "collections (from copies)"),
        (key::DUP, "dups"),
        (key::LAYER, "shared omaps (from copies)"),
        (key::LOG, "logs"),
        (key::OMAP, "omap"),
        (key::OBJECT, "objects"),
        (key::PG, "groups (from copies)"),
        (key::MISSING, "missing objects"),
        (key::REFS, "shared chunks (made anew)"),
    ];
    let met = kinds.iter().filter(|(kind, _)| &[*kind][..] < &last[..] && &key::kind_end(*kind)[..] > &first[..]);
    let mut what: Vec<String> = met.map(|(_, name)| (*name).to_string()).collect();
    let front = |key: &Key, otherwise: &str| key::describe_front(key).unwrap_or_else(|| otherwise.to_string());
    let name = |key: &Key, otherwise: &str| key::parse_object(key).map_or_else(|_| front(key, otherwise), |(_, name)| name.to_string());
    if let Some(objects) = what.iter_mut().find(|what| *what == "objects") {
        *objects = format!("objects from {} to before {}", name(first, "the first"), name(last, "the end"));
    }
    if what.is_empty() {
        what.push("counters or copies (made anew)".into());
    }
    what.join(", ")
}
