//! The objects that a member has in its log but not, or not at that version, in its store.
//!
//! Holds the set, ordered by object and by the version that is needed, and how it follows a log entry by entry. A delete that isn't done yet is
//! missing like any other change. Holds no word of where an object could be had: that is recovery's.

use crate::planted::{Bug, planted};
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, HObject, LogOp, ObjectCleanRegions, PgLogEntry, PgMissing, PgMissingItem};

/// Missing objects of one member. Grows with the log only: at most one item an object that the log names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Missing {
    items: BTreeMap<HObject, PgMissingItem>,
    by_need: BTreeSet<(EVersion, HObject)>,
}

impl Missing {
    pub fn len(&self) -> usize {
        self.items.len()
    }
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    pub fn get(&self, obj: &HObject) -> Option<&PgMissingItem> {
        self.items.get(obj)
    }
    pub fn contains(&self, obj: &HObject) -> bool {
        self.items.contains_key(obj)
    }
    /// True if this version of the object, or an older one that would do for it, isn't in the store.
    pub fn lacks(&self, obj: &HObject, version: EVersion) -> bool {
        self.items.get(obj).is_some_and(|item| item.need <= version)
    }
    /// By object.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&HObject, &PgMissingItem)> {
        self.items.iter()
    }
    /// Those of this head's name: clones first.
    pub fn of_name(&self, head: &HObject) -> impl Iterator<Item = &HObject> {
        self.items.range(head.at_snap(0)..=head.clone()).map(|(obj, _)| obj)
    }
    /// The order of recovery: the oldest version first.
    pub fn by_need(&self) -> impl Iterator<Item = (EVersion, &HObject)> {
        self.by_need.iter().map(|(need, obj)| (*need, obj))
    }
    /// Everything before this version is in the store.
    pub fn oldest_need(&self) -> Option<EVersion> {
        self.by_need.first().map(|(need, _)| *need)
    }
    pub fn newest_need(&self) -> Option<EVersion> {
        self.by_need.last().map(|(need, _)| *need)
    }

    /// Puts an item in place of what was there.
    pub fn insert(&mut self, obj: &HObject, item: PgMissingItem) {
        let need = item.need;
        match self.items.get_mut(obj) {
            Some(old) => {
                let was = self.by_need.take(&(old.need, obj.clone()));
                let (_, obj) = was.expect("each item stands in both orders");
                *old = item;
                self.by_need.insert((need, obj));
            }
            None => {
                // The name is cut from a message's frame, which must not live as long as the item.
                let obj = obj.detach();
                self.by_need.insert((need, obj.clone()));
                self.items.insert(obj, item);
            }
        }
    }
    /// The object isn't missing any more, whatever version was needed.
    pub fn remove(&mut self, obj: &HObject) -> Option<PgMissingItem> {
        let (obj, item) = self.items.remove_entry(obj)?;
        assert!(self.by_need.remove(&(item.need, obj)), "each item stands in both orders");
        Some(item)
    }
    /// The store has the object at this version. False, and nothing changes, if the object isn't missing or a newer version is needed. A delete
    /// is done whatever version it is told with.
    pub fn got(&mut self, obj: &HObject, version: EVersion) -> bool {
        let done = self.items.get(obj).is_some_and(|item| item.need <= version || item.delete);
        done && self.remove(obj).is_some()
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
        let old = self.items.get(&e.soid);
        if let Some(old) = old {
            assert!(old.need < e.version, "{} is missing at {}, which the log has before {}", e.soid, old.need, e.version);
        }
        match old {
            _ if is_new => item.clean_regions.mark_fully_dirty(),
            Some(old) => {
                item.have = old.have;
                item.clean_regions = old.clean_regions.clone();
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
        self.insert(&e.soid, item);
    }
    /// Another version is needed, all of it: its object was written in a history that does not count.
    pub(in crate::pg) fn revise_need(&mut self, obj: &HObject, need: EVersion) {
        let have = self.get(obj).map_or(EVersion::ZERO, |item| item.have);
        self.insert(obj, PgMissingItem { need, have, delete: false, clean_regions: ObjectCleanRegions::fully_dirty() });
    }
    /// Nothing that the member has of the object is to be relied on.
    pub(super) fn forget_have(&mut self, obj: &HObject) {
        if let Some(item) = self.items.get_mut(obj) {
            (item.have, item.clean_regions) = (EVersion::ZERO, ObjectCleanRegions::fully_dirty());
        }
    }

    /// Splits off what belongs to another group, by the objects' hashes.
    pub fn split_off(&mut self, mut goes: impl FnMut(u32) -> bool) -> Self {
        let (theirs, ours): (BTreeMap<_, _>, _) = std::mem::take(&mut self.items).into_iter().partition(|(obj, _)| goes(obj.hash));
        *self = Self::from(ours);
        Self::from(theirs)
    }
    /// Takes in another group's.
    pub fn append(&mut self, other: Self) {
        self.items.extend(other.items);
        self.by_need.extend(other.by_need);
        assert_eq!(self.items.len(), self.by_need.len(), "two groups have no object in common");
    }
    /// All items, as the store's record has them.
    pub fn to_record(&self) -> Vec<(HObject, Option<PgMissingItem>)> {
        self.iter().map(|(obj, item)| (obj.clone(), Some(item.clone()))).collect()
    }
    /// As a message has it.
    pub fn to_wire(&self) -> PgMissing {
        PgMissing { missing: self.items.clone(), may_include_deletes: true }
    }
}

/// As the store has them.
impl From<BTreeMap<HObject, PgMissingItem>> for Missing {
    fn from(items: BTreeMap<HObject, PgMissingItem>) -> Self {
        let by_need = items.iter().map(|(obj, item)| (item.need, obj.clone())).collect();
        Self { items, by_need }
    }
}
/// As a message has it. A sender whose set has no deletes has done them at once: that is the same as deletes that are no longer missing.
impl From<PgMissing> for Missing {
    fn from(wire: PgMissing) -> Self {
        Self::from(wire.missing.into_iter().map(|(obj, item)| (obj.detach(), item)).collect::<BTreeMap<_, _>>())
    }
}
