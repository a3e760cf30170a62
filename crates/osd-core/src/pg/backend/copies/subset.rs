//! Which bytes of an object are sent to a member that lacks it, and which that member copies from what it has.
//!
//! A member that has an earlier version gets what changed since. A member that has a neighbour of the object in the row of clones copies what the two
//! share. Holds no I/O: what there is comes as arguments.
//!
//! Source of the facts: Ceph 18.2 `src/osd/ReplicatedBackend.cc` (`calc_head_subsets`, `calc_clone_subsets`, `prepare_pull`).

use messages::{ObjectRecoveryInfo, ObjectRecoveryProgress};
use std::collections::BTreeMap;
use types::{HObject, IntervalSet, ObjectInfo, PgMissingItem, SnapSet};

/// A size that the puller does not know: the member that answers fills it in.
pub const SIZE_UNKNOWN: u64 = u64::MAX;

/// Where an object's bytes come from, on the member that lacks it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subsets {
    /// Sent, in bytes of the object.
    pub copied: IntervalSet,
    /// Copied from other objects that the member has, at the same offsets.
    pub cloned: BTreeMap<HObject, IntervalSet>,
}

/// What of a snapshot's row a member can copy from.
pub struct Neighbours<'a> {
    pub snapset: &'a SnapSet,
    /// Whether the member has this clone, whole.
    pub has: &'a dyn Fn(&HObject) -> bool,
    /// `osd_recover_clone_overlap_limit`: more ranges than this are sent instead; 0 with `osd_recover_clone_overlap` off.
    pub ranges_max: usize,
}

impl Neighbours<'_> {
    /// The nearest clone of `order` that the member has, with the bytes of `size` that all overlaps on the way to it share.
    fn nearest(&self, obj: &HObject, size: u64, order: impl Iterator<Item = (usize, usize)>) -> Option<(HObject, IntervalSet)> {
        let clones = &self.snapset.clones;
        let mut shared = IntervalSet::of(0, size);
        for (clone, overlap) in order {
            let overlap = self.snapset.clone_overlap.get(&clones[overlap]).cloned().unwrap_or_default();
            shared = shared.intersection(&overlap);
            if shared.is_empty() {
                return None;
            }
            let name = obj.at_snap(clones[clone]);
            if (self.has)(&name) {
                return Some((name, shared));
            }
        }
        None
    }
}

/// A head of `size` bytes of which `dirty` changed since the version that the member has.
pub fn of_head(head: &HObject, size: u64, dirty: &IntervalSet, near: &Neighbours<'_>) -> Subsets {
    let mut copied = IntervalSet::of(0, size).intersection(dirty);
    let older = (0..near.snapset.clones.len()).rev().map(|i| (i, i));
    let mut cloned = BTreeMap::new();
    if let Some((clone, shared)) = near.nearest(head, size, older) {
        let shared = shared.intersection(&copied);
        if !shared.is_empty() && shared.num_intervals() <= near.ranges_max {
            copied.subtract(&shared);
            cloned.insert(clone, shared);
        }
    }
    Subsets { copied, cloned }
}

/// A clone: whole, but for what its nearest neighbours on either side share with it.
pub fn of_clone(clone: &HObject, near: &Neighbours<'_>) -> Subsets {
    let set = near.snapset;
    let size = set.clone_size.get(&clone.snap).copied().unwrap_or(0);
    let mut copied = IntervalSet::of(0, size);
    let mut cloned = BTreeMap::new();
    if let Some(at) = set.clones.iter().position(|snap| *snap == clone.snap) {
        let older = near.nearest(clone, size, (0..at).rev().map(|i| (i, i)));
        let newer = near.nearest(clone, size, (at + 1..set.clones.len()).map(|i| (i, i - 1)));
        for (neighbour, mut shared) in older.into_iter().chain(newer) {
            // What both have comes from the first.
            shared = shared.intersection(&copied);
            copied.subtract(&shared);
            if !shared.is_empty() {
                cloned.insert(neighbour, shared);
            }
        }
    }
    if cloned.values().map(IntervalSet::num_intervals).sum::<usize>() > near.ranges_max {
        return Subsets { copied: IntervalSet::of(0, size), cloned: BTreeMap::new() };
    }
    Subsets { copied, cloned }
}

/// True if a member that lacks this version has an earlier one to build on.
fn has_earlier(item: &PgMissingItem) -> bool {
    !item.clean_regions.new_object && item.have != types::EVersion::ZERO
}

/// How a recovery begins, by what the member that lacks the object has of it.
fn begin(item: &PgMissingItem) -> ObjectRecoveryProgress {
    ObjectRecoveryProgress {
        first: true,
        omap_complete: has_earlier(item) && item.clean_regions.clean_omap,
        ..ObjectRecoveryProgress::default()
    }
}
/// What changed since the version that the member has.
fn dirty(item: &PgMissingItem) -> IntervalSet {
    if has_earlier(item) { item.clean_regions.dirty_regions() } else { IntervalSet::of(0, u64::MAX) }
}

/// How an object that we have is pushed to a member that lacks it. `near`: `None` if the head, which knows the clones, is not here.
pub fn push_of(info: &ObjectInfo, item: &PgMissingItem, near: Option<&Neighbours<'_>>) -> (ObjectRecoveryInfo, ObjectRecoveryProgress) {
    let obj = &info.soid;
    let subsets = match near {
        Some(near) if obj.is_head() => of_head(obj, info.size, &dirty(item), near),
        Some(near) => of_clone(obj, near),
        None => Subsets { copied: IntervalSet::of(0, info.size), cloned: BTreeMap::new() },
    };
    let ss = near.filter(|_| !obj.is_head()).map(|near| near.snapset.clone()).unwrap_or_default();
    let info = ObjectRecoveryInfo {
        soid: obj.clone(),
        version: info.version,
        size: info.size,
        oi: info.clone(),
        ss,
        copy_subset: subsets.copied,
        clone_subset: subsets.cloned,
        object_exist: has_earlier(item),
    };
    (info, begin(item))
}

/// How an object that we lack is pulled. `near`: of a clone, whose head is here.
pub fn pull_of(obj: &HObject, item: &PgMissingItem, near: Option<&Neighbours<'_>>) -> (ObjectRecoveryInfo, ObjectRecoveryProgress) {
    let mut info = ObjectRecoveryInfo {
        soid: obj.clone(),
        version: item.need,
        object_exist: has_earlier(item),
        size: SIZE_UNKNOWN,
        copy_subset: dirty(item),
        ..ObjectRecoveryInfo::default()
    };
    if let Some(near) = near.filter(|near| near.snapset.clone_size.contains_key(&obj.snap)) {
        info.ss = near.snapset.clone();
        info.size = near.snapset.clone_size[&obj.snap];
        Subsets { copied: info.copy_subset, cloned: info.clone_subset } = of_clone(obj, near);
    }
    (info, begin(item))
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{CEPH_NOSNAP, ObjectCleanRegions};

    fn row() -> (HObject, SnapSet) {
        let head = HObject { oid: "a".into(), pool: 1, hash: 7, snap: CEPH_NOSNAP, ..HObject::min() };
        let mut set = SnapSet { seq: 8, clones: vec![2, 4, 8], ..SnapSet::default() };
        set.clone_size = [(2, 100), (4, 100), (8, 80)].into();
        // 2 shares all but 0~10 with 4, 4 shares 20~60 with 8, 8 shares 0~50 with the head.
        set.clone_overlap = [(2, IntervalSet::of(10, 90)), (4, IntervalSet::of(20, 60)), (8, IntervalSet::of(0, 50))].into();
        (head, set)
    }

    #[test]
    fn a_head_takes_from_the_newest_clone_that_is_there() {
        let (head, set) = row();
        let all = IntervalSet::of(0, u64::MAX);
        let of = |have: &[u64], dirty: &IntervalSet, ranges_max| {
            let has = |name: &HObject| have.contains(&name.snap);
            of_head(&head, 120, dirty, &Neighbours { snapset: &set, has: &has, ranges_max })
        };
        let one = |copied: &[(u64, u64)], cloned: Option<(u64, u64, u64)>| Subsets {
            copied: copied.iter().copied().collect(),
            cloned: cloned.into_iter().map(|(snap, at, len)| (head.at_snap(snap), IntervalSet::of(at, len))).collect(),
        };
        assert_eq!(of(&[], &all, 10), one(&[(0, 120)], None));
        assert_eq!(of(&[2, 4, 8], &all, 10), one(&[(50, 70)], Some((8, 0, 50))));
        assert_eq!(of(&[2], &all, 10), one(&[(0, 20), (50, 70)], Some((2, 20, 30))));
        assert_eq!(of(&[8], &all, 0), one(&[(0, 120)], None));
        assert_eq!(of(&[8], &IntervalSet::of(60, 10), 10), one(&[(60, 10)], None));
        assert_eq!(of(&[8], &IntervalSet::of(40, 20), 10), one(&[(50, 10)], Some((8, 40, 10))));
    }

    #[test]
    fn a_clone_takes_from_both_sides_and_each_byte_once() {
        let (head, set) = row();
        let of = |have: &[u64]| {
            let has = |name: &HObject| have.contains(&name.snap);
            of_clone(&head.at_snap(4), &Neighbours { snapset: &set, has: &has, ranges_max: 10 })
        };
        assert_eq!(of(&[]).copied, IntervalSet::of(0, 100));
        let both = of(&[2, 8]);
        assert_eq!((both.copied, both.cloned.len()), (IntervalSet::of(0, 10), 1));
        let newer = of(&[8]);
        assert_eq!(newer.copied, [(0, 20), (80, 20)].into_iter().collect());
        assert_eq!(newer.cloned, [(head.at_snap(8), IntervalSet::of(20, 60))].into());
    }

    #[test]
    fn what_has_no_earlier_version_is_taken_whole() {
        let (head, _) = row();
        let mut regions = ObjectCleanRegions::default();
        regions.mark_data_dirty(4096, 100);
        let mut item = PgMissingItem { need: types::EVersion::new(3, 9), clean_regions: regions, ..PgMissingItem::default() };
        let (info, progress) = pull_of(&head, &item, None);
        assert_eq!((info.object_exist, info.copy_subset, progress.omap_complete), (false, IntervalSet::of(0, u64::MAX), false));
        item.have = types::EVersion::new(3, 4);
        let (info, progress) = pull_of(&head, &item, None);
        assert_eq!((info.object_exist, info.copy_subset, progress.omap_complete), (true, IntervalSet::of(4096, 100), true));
    }
}
