//! Which clones hold which snapshot: the index by which removed snapshots are trimmed.
//!
//! Kept in memory, built from the clones' heads when a group is loaded and kept up with each plan.

use crate::op::SnapIndexChange;
use std::collections::{BTreeMap, BTreeSet};
use types::{HObject, SnapId};

/// Clones by snapshot.
#[derive(Debug, Default)]
pub struct SnapIndex {
    by_snap: BTreeMap<SnapId, BTreeSet<HObject>>,
}

impl SnapIndex {
    pub fn change(&mut self, change: &SnapIndexChange) {
        for snap in &change.old {
            if let Some(clones) = self.by_snap.get_mut(snap) {
                clones.remove(&change.clone);
                if clones.is_empty() {
                    self.by_snap.remove(snap);
                }
            }
        }
        for snap in &change.new {
            self.by_snap.entry(*snap).or_default().insert(change.clone.detach());
        }
    }
    /// A clone that a snapshot still has.
    pub fn first(&self, snap: SnapId) -> Option<&HObject> {
        self.by_snap.get(&snap).and_then(|c| c.first())
    }
    /// A clone that turned out not to be there.
    pub fn forget(&mut self, snap: SnapId, clone: &HObject) {
        self.change(&SnapIndexChange { clone: clone.clone(), old: vec![snap], new: Vec::new() });
    }
    pub fn is_empty(&self) -> bool {
        self.by_snap.is_empty()
    }
    pub fn merge(&mut self, other: SnapIndex) {
        for (snap, clones) in other.by_snap {
            self.by_snap.entry(snap).or_default().extend(clones);
        }
    }
    /// Takes out what `goes` to another group.
    pub fn split_off(&mut self, mut goes: impl FnMut(u32) -> bool) -> SnapIndex {
        let mut child = SnapIndex::default();
        for (snap, clones) in std::mem::take(&mut self.by_snap) {
            let (there, here): (BTreeSet<_>, BTreeSet<_>) = clones.into_iter().partition(|c| goes(c.hash));
            if !there.is_empty() {
                child.by_snap.insert(snap, there);
            }
            if !here.is_empty() {
                self.by_snap.insert(snap, here);
            }
        }
        child
    }
}
