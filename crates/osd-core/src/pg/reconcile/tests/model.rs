//! The model: what every entry did, what an object is after any history, and a member that is compared with that.

use super::super::member::Member;
use super::super::merge::{self, Merged};
use super::super::missing::Missing;
use super::super::{LogError, PeerLog, common_point, part};
use super::{entry, object};
use crate::pg::backend::layout::Layout;
use crate::pg::record::log::Log;
use base::Rng;
use std::collections::{BTreeMap, BTreeSet};
use store::PgRecord;
use types::{EVersion, HObject, LogOp, PgInfo, PgLog, PgLogEntry, PgMissingItem, SpgId};

const BLOCKS: usize = 4;
const BLOCK: u64 = 4096;
/// Duplicates are told of so many versions: of all.
const TRACKED: u64 = 1 << 20;

/// An object: which entry wrote each of its parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    pub version: EVersion,
    blocks: [EVersion; BLOCKS],
    omap: EVersion,
}
pub type Objects = BTreeMap<HObject, Content>;

/// What an entry did.
#[derive(Debug, Clone)]
enum Change {
    Write { blocks: [bool; BLOCKS], omap: bool },
    Delete,
    CloneOf(HObject),
    Nothing,
}

/// Every entry that was ever written, in any history.
#[derive(Default)]
pub struct World {
    /// Writes can be undone in place.
    is_undoable: bool,
    entries: BTreeMap<EVersion, (PgLogEntry, Change)>,
    snaps: u64,
}

/// Versions from the first entry on.
pub type History = Vec<EVersion>;

impl World {
    /// A world whose writes can be undone in place, or not.
    pub fn of(is_undoable: bool) -> Self {
        Self { is_undoable, ..Self::default() }
    }
    pub fn entry(&self, version: EVersion) -> &PgLogEntry {
        &self.entries[&version].0
    }
    pub fn apply(&self, version: EVersion, objects: &mut Objects) {
        let (e, change) = &self.entries[&version];
        match change {
            Change::Nothing => {}
            Change::Delete => drop(objects.remove(&e.soid)),
            Change::CloneOf(head) => {
                let content = Content { version, ..objects[head].clone() };
                objects.insert(e.soid.clone(), content);
            }
            Change::Write { blocks, omap } => {
                let content = objects.entry(e.soid.clone()).or_default();
                content.version = version;
                content.blocks.iter_mut().zip(blocks).filter(|(_, dirty)| **dirty).for_each(|(b, _)| *b = version);
                if *omap {
                    content.omap = version;
                }
            }
        }
    }
    /// Every object after this history.
    pub fn truth(&self, history: &History) -> Objects {
        let mut objects = Objects::new();
        history.iter().for_each(|v| self.apply(*v, &mut objects));
        objects
    }
    /// Draws an entry that can follow in a history after which these are the objects.
    pub fn draw(&mut self, rng: &mut Rng, objects: &Objects, count: u64, version: EVersion) -> EVersion {
        let head = object(rng.below(count));
        let there = objects.get(&head);
        let prior = there.map_or(EVersion::ZERO, |c| c.version);
        let clones: Vec<_> = objects.iter().filter(|(o, _)| !o.is_head()).collect();
        let (mut e, change) = match rng.below(16) {
            0 => (entry(LogOp::ERROR, head, version, EVersion::ZERO), Change::Nothing),
            1..=3 if there.is_some() => (entry(LogOp::DELETE, head, version, prior), Change::Delete),
            4 if there.is_some() => (entry(LogOp::LOST_DELETE, head, version, prior), Change::Delete),
            5 if there.is_some() => {
                // Its clean regions say nothing of what it did.
                let all = Change::Write { blocks: [true; BLOCKS], omap: true };
                (entry(LogOp::LOST_REVERT, head, version, prior), all)
            }
            6..=7 if there.is_some() => {
                self.snaps += 1;
                (entry(LogOp::CLONE, head.at_snap(self.snaps), version, prior), Change::CloneOf(head))
            }
            8 if !clones.is_empty() => {
                let (clone, content) = clones[rng.below(clones.len() as u64) as usize];
                (entry(LogOp::DELETE, clone.clone(), version, content.version), Change::Delete)
            }
            _ => {
                let blocks = std::array::from_fn(|_| rng.chance(1, 3));
                (entry(LogOp::MODIFY, head, version, prior), Change::Write { blocks, omap: rng.chance(1, 4) })
            }
        };
        if let (Change::Write { blocks, omap }, LogOp::MODIFY) = (&change, e.op) {
            e.clean_regions = types::ObjectCleanRegions::default();
            let dirty = blocks.iter().enumerate().filter(|(_, dirty)| **dirty);
            dirty.for_each(|(n, _)| e.clean_regions.mark_data_dirty(n as u64 * BLOCK, BLOCK));
            if *omap {
                e.clean_regions.mark_omap_dirty();
            }
        }
        e.mod_desc.can_local_rollback = self.is_undoable && !matches!(e.op, LogOp::LOST_DELETE | LogOp::LOST_REVERT);
        self.entries.insert(version, (e, change));
        version
    }
}

/// A member, as the code under test has it, with the history that it should have.
#[derive(Clone, Debug)]
pub struct Node {
    layout: Layout,
    /// Each object as it was before the entries above the mark of roll-forward.
    undo: Vec<(EVersion, HObject, Option<Content>)>,
    pub info: PgInfo,
    pub record: PgRecord,
    pub missing: Missing,
    pub store: Objects,
    pub history: History,
    /// Requests that it should know.
    pub known: BTreeSet<EVersion>,
}

impl Node {
    pub fn new() -> Self {
        Self::of(Layout::Copies)
    }
    pub fn of(layout: Layout) -> Self {
        let info = PgInfo::new(SpgId::default());
        Self {
            layout,
            undo: Vec::new(),
            record: PgRecord { info: info.clone(), rolled_forward_to: layout.roll_forward(EVersion::ZERO), ..PgRecord::default() },
            info,
            missing: Missing::default(),
            store: Objects::new(),
            history: History::new(),
            known: BTreeSet::new(),
        }
    }
    /// The log's short form, from the store's record.
    pub fn log(&self) -> Log {
        let (dups, entries) = (self.record.dups.iter().cloned(), self.record.log.iter().cloned());
        Log::load(self.info.last_update, self.info.log_tail, dups, entries).with_forward(self.record.rolled_forward_to)
    }
    pub fn whole(&self) -> PgLog {
        part::whole(&self.log(), &self.record.log)
    }
    pub fn part(&self, since: EVersion) -> PgLog {
        part::after(&self.log(), &self.record.log, since, TRACKED)
    }
    pub fn newest(&self, max: usize) -> PgLog {
        part::newest(&self.log(), &self.record.log, max, TRACKED)
    }

    /// A write arrives: its entry, and its change where the object is in the part that the member has.
    pub fn write(&mut self, world: &World, version: EVersion) {
        let e = world.entry(version);
        assert!(!self.missing.contains(&e.soid), "writes wait for recovery");
        self.record.log.push_back(e.clone());
        self.history.push(version);
        self.known.insert(version);
        (self.info.last_update, self.info.last_complete) = (version, version);
        self.info.last_user_version = version.version;
        if e.soid <= self.info.last_backfill {
            self.undo.push((version, e.soid.clone(), self.store.get(&e.soid).cloned()));
            world.apply(version, &mut self.store);
        }
        self.complete();
    }
    /// Entries up to here can't be undone from now on.
    pub fn roll_forward(&mut self, to: EVersion) {
        let mut log = self.log();
        if let Some(to) = self.layout.roll_forward(to) {
            log.roll_forward_to(to);
        }
        self.record.rolled_forward_to = log.forward();
        self.undo.retain(|(version, ..)| *version > to);
    }
    pub fn complete(&mut self) {
        self.info.last_complete = super::super::last_complete(&self.log(), &self.missing);
    }
    pub fn trim(&mut self, to: EVersion, dups_max: usize) {
        self.roll_forward(to);
        let mut log = self.log();
        log.trim(to, dups_max);
        self.record.log.retain(|e| e.version > to);
        self.record.dups = log.all_dups().into();
        self.info.log_tail = log.tail();
        let dups: BTreeSet<_> = self.record.dups.iter().map(|d| d.version).collect();
        self.known.retain(|v| *v > to || dups.contains(v));
        self.complete();
    }

    pub fn merge(&mut self, theirs: PgLog, info: &PgInfo, history: &History) -> Result<(), LogError> {
        let told = theirs.log.iter().map(|e| e.version).chain(theirs.dups.iter().map(|d| d.version)).collect::<Vec<_>>();
        let theirs = PeerLog::check(theirs)?;
        let log = self.log();
        let common = common_point(&log, &theirs)?;
        let divergent: Vec<_> = self.record.log.iter().filter(|e| e.version > common).cloned().collect();
        let merged = merge::merge(self.layout, &log, &divergent, theirs, &self.info.last_backfill, &mut self.missing)?;
        self.history.clone_from(history);
        self.known.retain(|v| history.contains(v));
        self.known.extend(told);
        self.take(log, merged, info);
        Ok(())
    }
    pub fn rewind(&mut self, to: EVersion, info: &PgInfo) {
        let divergent: Vec<_> = self.record.log.iter().filter(|e| e.version > to).cloned().collect();
        let log = self.log();
        let rewound = merge::rewind(self.layout, &log, &divergent, to, &self.info.last_backfill, &mut self.missing).unwrap();
        self.history.retain(|v| *v <= to);
        self.known.retain(|v| *v <= to);
        self.take(log, rewound, info);
    }
    pub fn replace(&mut self, theirs: PgLog, info: &PgInfo, history: &History) {
        self.known = theirs.log.iter().map(|e| e.version).chain(theirs.dups.iter().map(|d| d.version)).collect();
        let (log, merged) = (self.log(), merge::replace(PeerLog::check(theirs).unwrap(), &mut self.missing));
        self.history.clone_from(history);
        self.info = info.clone();
        self.store.clear();
        self.undo.clear();
        self.take(log, merged, info);
    }
    fn take(&mut self, mut log: Log, merged: Merged, theirs: &PgInfo) {
        log.take_merge(&merged);
        merged.apply_to_info(&self.missing, theirs, &mut self.info);
        (self.info.last_update, self.info.log_tail) = (merged.head, merged.tail);
        self.info.last_complete = super::super::last_complete(&log, &self.missing);
        let undone = self.undo.partition_point(|(version, ..)| *version <= merged.rewind_to);
        for (_, obj, before) in self.undo.split_off(undone).into_iter().rev() {
            if merged.undone.contains(&obj) {
                match before {
                    Some(before) => self.store.insert(obj, before),
                    None => self.store.remove(&obj),
                };
            }
        }
        for obj in &merged.remove {
            self.store.remove(obj);
        }
        if merged.is_whole() {
            self.record.log = merged.entries(std::mem::take(&mut self.record.log)).into();
            self.record.dups = log.all_dups().into();
            self.record.missing = self.missing.iter().collect();
        } else {
            self.record.update(merged.delta(SpgId::default()));
        }
        let again = self.log();
        assert!(again.versions_after(EVersion::ZERO).eq(log.versions_after(EVersion::ZERO)), "the log in memory is that of the record");
        assert_eq!((again.head(), again.tail(), again.all_dups()), (log.head(), log.tail(), log.all_dups()));
        for e in self.record.log.iter().filter(|e| e.reqid_is_indexed()) {
            assert_eq!(log.find(&e.reqid).map(|i| i.version()), Some(e.version), "the index follows the log");
        }
    }

    /// What recovery makes of an object: only what is dirty is copied.
    fn recovered(&self, obj: &HObject, item: &PgMissingItem, source: Option<&Content>) -> Option<Content> {
        let source = source.cloned().filter(|_| !item.delete)?;
        let clean = &item.clean_regions;
        if item.have == EVersion::ZERO || clean.new_object {
            return Some(source);
        }
        let mut content = self.store.get(obj).expect("what the member has of it is in its store").clone();
        assert_eq!(content.version, item.have, "{obj} is there at the version that the missing item says");
        let dirty = (0..BLOCKS).filter(|n| !clean.clean_offsets.contains(*n as u64 * BLOCK, BLOCK));
        dirty.for_each(|n| content.blocks[n] = source.blocks[n]);
        if !clean.clean_omap {
            content.omap = source.omap;
        }
        Some(Content { version: source.version, ..content })
    }
    /// Recovers one object, if it is missing.
    pub fn recover(&mut self, obj: &HObject, truth: &Objects) {
        let Some(item) = self.missing.get(obj) else { return };
        let need = item.need;
        match self.recovered(obj, &item, truth.get(obj)) {
            Some(content) => drop(self.store.insert(obj.clone(), content)),
            None => drop(self.store.remove(obj)),
        }
        assert!(self.missing.got(obj, need));
        self.record.missing.remove(obj);
        self.complete();
    }

    /// The member agrees with the model: log, known requests, missing objects, objects.
    pub fn check(&self, world: &World) {
        let truth = world.truth(&self.history);
        let log = self.log();
        let expected: Vec<_> = self.history.iter().copied().filter(|v| *v > self.info.log_tail).collect();
        assert_eq!(log.versions_after(EVersion::ZERO).collect::<Vec<_>>(), expected, "the log is its history above its tail");
        assert_eq!(self.info.last_update, self.history.last().copied().unwrap_or_default());
        for (version, (e, _)) in &world.entries {
            if e.reqid_is_indexed() {
                let found = log.find(&e.reqid).map(|i| i.version());
                assert_eq!(found, self.known.contains(version).then_some(*version), "request of {version} is known or not");
            }
        }
        let mut newest = BTreeMap::new();
        for e in self.history.iter().map(|v| world.entry(*v)).filter(|e| !e.is_error()) {
            newest.insert(&e.soid, e);
        }
        let named: BTreeSet<&HObject> = world.entries.values().map(|(e, _)| &e.soid).filter(|o| **o <= self.info.last_backfill).collect();
        for (obj, content) in &self.store {
            assert!(named.contains(obj), "{obj} at {} is not in the part that the member has", content.version);
        }
        for obj in named {
            let Some(item) = self.missing.get(obj) else {
                assert_eq!(self.store.get(obj), truth.get(obj), "{obj} is not missing, so it is there");
                continue;
            };
            let e = newest.get(obj).expect("what is missing is in the log");
            assert_eq!((item.need, item.delete), (e.version, e.is_delete()), "{obj} is missing at the version that counts");
            assert_eq!(self.recovered(obj, &item, truth.get(obj)), truth.get(obj).cloned(), "{obj} is whole when what is dirty is copied");
        }
        assert!(self.missing.iter().all(|(obj, _)| obj <= self.info.last_backfill));
        assert_eq!(self.missing.iter().collect::<BTreeMap<_, _>>(), self.record.missing);
        assert!(self.missing.oldest_need().is_none_or(|need| self.info.last_complete < need));
        assert_eq!(self.info.has_missing(), !self.missing.is_empty());
    }
    /// What the primary reckons of the member is what it has become. Of an object that the primary takes for worse than it is, more is sent.
    pub fn check_view(&self, view: &Member) {
        assert_eq!(view.info.last_update, self.info.last_update);
        let short = |m: &Missing| m.iter().map(|(o, i)| (o, i.need, i.delete)).collect::<Vec<_>>();
        assert_eq!(short(&view.missing), short(&self.missing), "the primary knows what the member misses");
        for ((_, theirs), (obj, item)) in view.missing.iter().zip(self.missing.iter()) {
            assert!(theirs == item || theirs.clean_regions.new_object, "{obj}: the primary copies what is dirty");
        }
    }
}
