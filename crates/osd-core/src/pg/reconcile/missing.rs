//! The objects that a member has in its log but not, or not at that version, in its store.
//!
//! Holds the set, ordered by object and by the version that is needed, and how it follows a log entry by entry. A delete that isn't done yet is
//! missing like any other change. Holds no word of where an object could be had: that is recovery's.

use crate::pg::short_name::ShortName;
use crate::planted::{Bug, planted};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, Epoch, HObject, LogOp, ObjectCleanRegions, PgLogEntry, PgMissing, PgMissingItem};

/// Missing objects of one member. Grows with the log only: at most one item an object that the log names. The groups of an OSD may lack
/// hundreds of thousands together, and a primary keeps the same of each member: an item takes about 240 bytes with its name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Missing {
    items: BTreeMap<ShortName, Item>,
    by_need: BTreeSet<(EVersion, ShortName)>,
}

/// A [`PgMissingItem`], with its fields as close as they can lie.
#[derive(Debug, Clone, PartialEq)]
struct Item {
    need_version: u64,
    have_version: u64,
    need_epoch: Epoch,
    have_epoch: Epoch,
    clean_offsets: Box<[(u64, u64)]>,
    delete: bool,
    clean_omap: bool,
    new_object: bool,
}

const _: () = assert!(size_of::<Item>() <= 48);

impl Item {
    fn of(item: &PgMissingItem) -> Self {
        let PgMissingItem { need, have, delete, clean_regions } = item;
        Self {
            need_version: need.version,
            have_version: have.version,
            need_epoch: need.epoch,
            have_epoch: have.epoch,
            clean_offsets: clean_regions.clean_offsets.as_slice().into(),
            delete: *delete,
            clean_omap: clean_regions.clean_omap,
            new_object: clean_regions.new_object,
        }
    }
    fn need(&self) -> EVersion {
        EVersion { version: self.need_version, epoch: self.need_epoch }
    }
    fn whole(&self) -> PgMissingItem {
        let clean_offsets = self.clean_offsets.iter().copied().collect();
        PgMissingItem {
            need: self.need(),
            have: EVersion { version: self.have_version, epoch: self.have_epoch },
            delete: self.delete,
            clean_regions: ObjectCleanRegions { clean_offsets, clean_omap: self.clean_omap, new_object: self.new_object },
        }
    }
}

impl Missing {
    pub fn len(&self) -> usize {
        self.items.len()
    }
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    fn item(&self, obj: &HObject) -> Option<&Item> {
        // Mostly nothing is missing, and no name is to be made for that.
        if self.is_empty() { None } else { self.items.get(&ShortName::of(obj)) }
    }
    pub fn get(&self, obj: &HObject) -> Option<PgMissingItem> {
        self.item(obj).map(Item::whole)
    }
    pub fn contains(&self, obj: &HObject) -> bool {
        self.item(obj).is_some()
    }
    /// If the object is missing: whether what is missing is its removal.
    pub fn is_deletion(&self, name: &ShortName) -> Option<bool> {
        self.items.get(name).map(|item| item.delete)
    }
    /// True if this version of the object, or an older one that would do for it, isn't in the store.
    pub fn lacks(&self, obj: &HObject, version: EVersion) -> bool {
        self.item(obj).is_some_and(|item| item.need() <= version)
    }
    /// By object.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (HObject, PgMissingItem)> {
        self.items.iter().map(|(name, item)| (name.object(), item.whole()))
    }
    /// Those of this head's name: clones first.
    pub fn of_name(&self, head: &HObject) -> impl Iterator<Item = HObject> {
        let from_first = || ShortName::of(&head.at_snap(0))..=ShortName::of(head);
        let range = (!self.is_empty()).then(|| self.items.range(from_first()));
        range.into_iter().flatten().map(|(name, _)| name.object())
    }
    /// The order of recovery: the oldest version first.
    pub fn by_need(&self) -> impl Iterator<Item = (EVersion, &ShortName)> {
        self.by_need.iter().map(|(need, name)| (*need, name))
    }
    /// Everything before this version is in the store.
    pub fn oldest_need(&self) -> Option<EVersion> {
        self.by_need.first().map(|(need, _)| *need)
    }
    pub fn newest_need(&self) -> Option<EVersion> {
        self.by_need.last().map(|(need, _)| *need)
    }

    /// Puts an item in place of what was there.
    pub fn insert(&mut self, obj: &HObject, item: &PgMissingItem) {
        match self.items.entry(ShortName::of(obj)) {
            Entry::Occupied(mut old) => {
                let name = old.key().clone();
                let was = old.insert(Item::of(item)).need();
                assert!(self.by_need.remove(&(was, name)), "each item stands in both orders");
                self.by_need.insert((item.need, old.key().clone()));
            }
            Entry::Vacant(place) => {
                self.by_need.insert((item.need, place.key().clone()));
                place.insert(Item::of(item));
            }
        }
    }
    /// The object isn't missing any more, whatever version was needed. True if it was.
    pub fn remove(&mut self, obj: &HObject) -> bool {
        if self.is_empty() {
            return false;
        }
        let Some((name, item)) = self.items.remove_entry(&ShortName::of(obj)) else { return false };
        assert!(self.by_need.remove(&(item.need(), name)), "each item stands in both orders");
        true
    }
    /// The store has the object at this version. False, and nothing changes, if the object isn't missing or a newer version is needed. A delete
    /// is done whatever version it is told with.
    pub fn got(&mut self, obj: &HObject, version: EVersion) -> bool {
        let done = self.item(obj).is_some_and(|item| item.need() <= version || item.delete);
        done && self.remove(obj)
    }

    /// Takes in the next entry of the log: its change is not in the store. Entries come in the log's order, and the set is right up to the one
    /// before. An entry that changes nothing (an error) leaves no trace.
    pub fn next_event(&mut self, e: &PgLogEntry) {
        if e.is_error() || (planted(Bug::MissDelete) && e.is_delete()) {
            return;
        }
        let mut item = PgMissingItem { need: e.version, delete: e.is_delete(), ..PgMissingItem::default() };
        // What the store has of an object that is created anew has nothing to do with it.
        let is_new = e.prior_version == EVersion::ZERO || e.op == LogOp::CLONE;
        let old = self.get(&e.soid);
        if let Some(old) = &old {
            assert!(old.need < e.version, "{} is missing at {}, which the log has before {}", e.soid, old.need, e.version);
        }
        match old {
            _ if is_new => item.clean_regions.mark_fully_dirty(),
            Some(old) => {
                item.have = old.have;
                item.clean_regions = old.clean_regions;
                item.clean_regions.merge(&e.clean_regions);
            }
            None => {
                item.have = e.prior_version;
                item.clean_regions = e.clean_regions.clone();
            }
        }
        if e.op == LogOp::LOST_REVERT {
            item.clean_regions.mark_fully_dirty();
        }
        self.insert(&e.soid, &item);
    }
    /// Another version is needed, all of it: its object was written in a history that does not count.
    pub(in crate::pg) fn revise_need(&mut self, obj: &HObject, need: EVersion) {
        let have = self.get(obj).map_or(EVersion::ZERO, |item| item.have);
        self.insert(obj, &PgMissingItem { need, have, delete: false, clean_regions: ObjectCleanRegions::fully_dirty() });
    }
    /// Nothing that the member has of the object is to be relied on.
    pub(super) fn forget_have(&mut self, obj: &HObject) {
        if let Some(item) = self.get(obj) {
            self.insert(obj, &PgMissingItem { have: EVersion::ZERO, clean_regions: ObjectCleanRegions::fully_dirty(), ..item });
        }
    }

    /// Splits off what belongs to another group, by the objects' hashes.
    pub fn split_off(&mut self, mut goes: impl FnMut(u32) -> bool) -> Self {
        let (theirs, ours) = std::mem::take(&mut self.items).into_iter().partition(|(name, _)| goes(name.hash()));
        *self = Self::of(ours);
        Self::of(theirs)
    }
    fn of(items: BTreeMap<ShortName, Item>) -> Self {
        let by_need = items.iter().map(|(name, item)| (item.need(), name.clone())).collect();
        Self { items, by_need }
    }
    /// Takes in another group's.
    pub fn append(&mut self, other: Self) {
        self.items.extend(other.items);
        self.by_need.extend(other.by_need);
        assert_eq!(self.items.len(), self.by_need.len(), "two groups have no object in common");
    }
    /// All items, as the store's record has them.
    pub fn to_record(&self) -> Vec<(HObject, Option<PgMissingItem>)> {
        self.iter().map(|(obj, item)| (obj, Some(item))).collect()
    }
    /// As a message has it.
    pub fn to_wire(&self) -> PgMissing {
        PgMissing { missing: self.iter().collect(), may_include_deletes: true }
    }
}

/// As the store has them.
impl From<&BTreeMap<HObject, PgMissingItem>> for Missing {
    fn from(items: &BTreeMap<HObject, PgMissingItem>) -> Self {
        Self::of(items.iter().map(|(obj, item)| (ShortName::of(obj), Item::of(item))).collect())
    }
}
/// As a message has it. A sender whose set has no deletes has done them at once: that is the same as deletes that are no longer missing.
impl From<&PgMissing> for Missing {
    fn from(wire: &PgMissing) -> Self {
        Self::from(&wire.missing)
    }
}
