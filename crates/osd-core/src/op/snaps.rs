//! Snapshots: a clone before the first change after one, LIST_SNAPS, ROLLBACK.
//!
//! Source of the facts: Ceph 18.2 `src/osd/PrimaryLogPG.cc` (`make_writeable`, `_rollback_to`) and `osd_types.h` (`obj_list_snap_response_t`).

use super::context::{AtSnap, load_object, resolve_snap};
use super::exec::{Answer, Exec, Step, Stop, answer, done, fail};
use super::mods::Mod;
use super::plan::{ObjectContext, PlanStop, SnapIndexChange};
use crate::planted::{Bug, planted};
use denc::{Denc, Encoder};
use types::errno::{EBUSY, EFBIG, EINVAL};
use types::object_info::{OI_ATTR, SS_ATTR, oi_flag};
use types::{ByteStr, CEPH_NOSNAP, EVersion, IntervalSet, LogOp, ObjectInfo, OsdOp, PgLogEntry, SnapId, SnapSet, Transaction};

/// Ranges that a clone's overlap with its successor has. Source: ours; stock has no limit, and what is written byte by byte makes of 4 MiB
/// an attribute of 32.
const OVERLAP_MAX: usize = 2048;
/// What an overlap of more ranges is held to: no part of one of these, bytes, is shared, only all of it.
const OVERLAP_GRANULE: u64 = 64 << 10;
/// Bytes of an object's list of clones: thousands of them. Source: ours; stock has no limit.
const SNAPSET_MAX_BYTES: usize = 1 << 20;

/// As many bytes as the attribute takes, roughly.
fn snapset_bytes(set: &SnapSet) -> usize {
    let ranges: usize = set.clone_overlap.values().map(IntervalSet::num_intervals).sum();
    let snaps: usize = set.clone_snaps.values().map(Vec::len).sum();
    64 * set.clones.len() + 16 * ranges + 8 * snaps
}

/// `modified` and all else of `overlap` that does not fill a granule once `modified` is gone.
fn coarse(overlap: &IntervalSet, modified: IntervalSet) -> IntervalSet {
    let mut left = overlap.clone();
    left.subtract(&modified);
    let mut kept = IntervalSet::new();
    for (start, len) in left.iter() {
        let from = start.next_multiple_of(OVERLAP_GRANULE);
        let to = (start + len) / OVERLAP_GRANULE * OVERLAP_GRANULE;
        if from < to {
            kept.insert(from, to - from);
        }
    }
    let mut gone = overlap.clone();
    gone.subtract(&kept);
    gone
}

impl Exec<'_> {
    pub fn op_list_snaps(&mut self) -> Step<Answer> {
        self.num_read += 1;
        self.stats.num_rd += 1;
        let set: &SnapSet = &self.snapset;
        let mut e = Encoder::new(0);
        let head = !self.info.is_whiteout() && self.exists;
        let known = |clone: &SnapId| {
            set.clone_snaps.contains_key(clone) && set.clone_overlap.contains_key(clone) && set.clone_size.contains_key(clone)
        };
        if !set.clones.iter().all(known) {
            return fail(EINVAL);
        }
        e.frame(2, 1, |e| {
            e.count(set.clones.len() + usize::from(head));
            for clone in &set.clones {
                e.frame(1, 1, |e| {
                    e.u64(*clone);
                    let ascending: Vec<SnapId> = set.clone_snaps[clone].iter().rev().copied().collect();
                    e.put(&ascending);
                    e.put(&set.clone_overlap[clone].as_slice().to_vec());
                    e.u64(set.clone_size[clone]);
                });
            }
            if head {
                e.frame(1, 1, |e| {
                    e.u64(CEPH_NOSNAP);
                    e.count(0);
                    e.count(0);
                    e.u64(self.info.size);
                });
            }
            e.u64(set.seq);
        });
        answer(e.finish())
    }

    pub fn op_rollback(&mut self, op: &OsdOp) -> Step<Answer> {
        self.rollback(op.snap().snapid)
    }

    /// The head becomes what the snapshot has; it is deleted if the object did not exist then.
    pub fn rollback(&mut self, snap: SnapId) -> Step<Answer> {
        self.num_write += 1;
        let source = match resolve_snap(&self.snapset, snap, self.ctx.snap_removed) {
            AtSnap::Head => {
                // The head is what the snapshot has; a clone is all that is needed. What this vector made was not there then.
                if self.obj.visible() && self.visible() {
                    self.modify = true;
                    return done();
                }
                None
            }
            AtSnap::Nothing => None,
            AtSnap::Clone(clone) => {
                let name = self.obj.hobj().at_snap(clone);
                let context = load_object(self.source, &name)?;
                context.visible().then_some(context)
            }
        };
        match source {
            Some(source) => self.rollback_to(snap, &source),
            None if !self.obj.info.watchers.is_empty() => fail(EBUSY),
            // The result of the removal does not matter: nothing is what was wanted.
            None => match self.remove() {
                Err(Stop::Code(_)) => done(),
                other => other,
            },
        }
    }

    fn rollback_to(&mut self, snap: SnapId, source: &ObjectContext) -> Step<Answer> {
        let from = self.source.name(source.hobj().clone());
        if self.exists {
            self.txn.remove(&self.gobj);
        }
        self.recreated = true;
        self.attr_sizes = None;
        self.omap_removed = false;
        self.txn.clone_object(&from, &self.gobj);
        self.mods.note(|| Mod::CloneOf(from));
        // The newest clone goes on sharing with the head what all clones from the source on share.
        let size = self.info.size;
        if self.tracks_ranges && size > 0 && !planted(Bug::RollbackKeepsOverlap) {
            let mut overlaps = self.snapset.clone_overlap.range(snap..).map(|(_, overlap)| overlap);
            let mut shared = overlaps.next().cloned().unwrap_or_default();
            for overlap in overlaps {
                shared = shared.intersection(overlap);
            }
            let mut unshared = IntervalSet::of(0, size);
            unshared.subtract(&shared);
            self.modified.union_with(&unshared);
        }
        if !self.exists {
            self.exists = true;
            self.stats.num_objects += 1;
        } else if self.info.is_whiteout() {
            self.info_mut().unset(oi_flag::WHITEOUT);
            self.stats.num_whiteouts -= 1;
        }
        self.dirty_data(0, size.max(source.info.size));
        self.dirty_omap();
        self.stats.num_bytes += source.info.size as i64 - size as i64;
        let info = self.info_mut();
        const TAKEN: u32 = oi_flag::DATA_DIGEST | oi_flag::OMAP_DIGEST | oi_flag::OMAP;
        info.size = source.info.size;
        info.flags = info.flags & !TAKEN | source.info.flags & TAKEN;
        info.data_digest = source.info.data_digest;
        info.omap_digest = source.info.omap_digest;
        done()
    }

    /// A snapshot needs the object as it was.
    fn must_clone(&self) -> bool {
        !planted(Bug::SkipClone)
            && self.obj.hobj().is_head()
            && self.obj.visible()
            && self.ctx.snapc.snaps.first().is_some_and(|newest| *newest > self.snapset.seq)
    }
    /// EFBIG if the object can't be cloned though a snapshot needs it: it has so many clones that its list of them, an attribute that is written with
    /// each, would be too long.
    pub fn check_clone(&mut self) -> Result<(), PlanStop> {
        if self.must_clone() && snapset_bytes(&self.snapset) + 8 * self.ctx.snapc.snaps.len() > SNAPSET_MAX_BYTES {
            return Err(PlanStop::Reply(EFBIG));
        }
        Ok(())
    }
    /// Keeps the object's former state in a clone if a snapshot needs it, and brings the snapset up to date. Returns the clone's context,
    /// its log entry and its place in the index of snapshots.
    pub fn make_writeable(&mut self, version: EVersion) -> Option<(ObjectContext, PgLogEntry, SnapIndexChange)> {
        self.mark_dirty();
        let (snapc, seq) = (self.ctx.snapc, self.snapset.seq);
        let cloned = self.must_clone().then(|| self.clone_head(version));
        if let Some((&last, _)) = self.snapset.clone_overlap.last_key_value() {
            let overlap = &self.snapset.clone_overlap[&last];
            let mut modified = self.modified.intersection(overlap);
            if overlap.num_intervals() + modified.num_intervals() > OVERLAP_MAX {
                modified = coarse(overlap, modified);
            }
            if !modified.is_empty() {
                // The clone alone holds these bytes from now on.
                self.stats.num_bytes += modified.size() as i64;
                self.snapset.to_mut().clone_overlap.get_mut(&last).expect("it was there").subtract(&modified);
            }
        }
        if snapc.seq > seq {
            let snapset = self.snapset.to_mut();
            snapset.seq = snapc.seq;
            snapset.snaps.clear();
        }
        cloned
    }

    /// Flags and statistics that follow from the object being changed.
    fn mark_dirty(&mut self) {
        let was_dirty = self.obj.info.has(oi_flag::DIRTY);
        if !self.exists {
            if was_dirty {
                self.info_mut().unset(oi_flag::DIRTY);
                self.stats.num_objects_dirty -= 1;
            }
        } else if self.undirty && was_dirty {
            self.info_mut().unset(oi_flag::DIRTY);
            self.stats.num_objects_dirty -= 1;
        } else if !was_dirty && !self.undirty {
            self.info_mut().set(oi_flag::DIRTY);
            self.stats.num_objects_dirty += 1;
        }
        let omap = |exists: bool, info: &ObjectInfo| i64::from(exists && info.is_omap());
        let more = omap(self.exists, &self.info) - omap(self.obj.exists, &self.obj.info);
        self.stats.num_objects_omap += more;
    }

    fn clone_head(&mut self, version: EVersion) -> (ObjectContext, PgLogEntry, SnapIndexChange) {
        let (old, snapc, seq) = (&self.obj.info, self.ctx.snapc, self.snapset.seq);
        let hobj = self.obj.hobj().at_snap(snapc.seq);
        let gclone = self.source.name(hobj.clone());
        let snaps: Vec<SnapId> = snapc.snaps.iter().copied().take_while(|snap| *snap > seq).collect();
        let info = ObjectInfo {
            version,
            prior_version: old.version,
            user_version: old.user_version,
            last_reqid: old.last_reqid,
            size: old.size,
            mtime: old.mtime,
            local_mtime: old.local_mtime,
            flags: old.flags,
            truncate_seq: old.truncate_seq,
            truncate_size: old.truncate_size,
            data_digest: old.data_digest,
            omap_digest: old.omap_digest,
            ..ObjectInfo::new(hobj.clone())
        };
        // The clone is made of the object as it was: before everything else that the transaction does.
        let mut first = Transaction::new(self.source.coll());
        first.clone_object(&self.gobj, &gclone);
        first.set_attr(&gclone, ByteStr::from_static(OI_ATTR), info.to_bytes(self.ctx.osd_features));
        first.rm_attr(&gclone, ByteStr::from_static(SS_ATTR));
        first.append(std::mem::take(&mut self.txn));
        self.txn = first;
        let stats = &mut self.stats;
        stats.num_objects += 1;
        stats.num_object_clones += 1;
        stats.num_objects_dirty += i64::from(info.has(oi_flag::DIRTY));
        stats.num_objects_omap += i64::from(info.is_omap());
        let snapset = self.snapset.to_mut();
        snapset.clones.push(hobj.snap);
        snapset.clone_size.insert(hobj.snap, old.size);
        snapset.clone_overlap.insert(hobj.snap, IntervalSet::of(0, old.size));
        snapset.clone_snaps.insert(hobj.snap, snaps.clone());
        let entry = PgLogEntry {
            op: LogOp::CLONE,
            soid: hobj.clone(),
            version,
            prior_version: old.version,
            user_version: old.user_version,
            mtime: self.info.mtime,
            snaps: snaps.to_bytes(0),
            ..PgLogEntry::default()
        };
        let index = SnapIndexChange { clone: hobj, old: Vec::new(), new: snaps };
        (ObjectContext { exists: true, info, snapset: SnapSet::default() }, entry, index)
    }
}

impl From<PlanStop> for Stop {
    fn from(stop: PlanStop) -> Self {
        Self::Plan(stop)
    }
}
