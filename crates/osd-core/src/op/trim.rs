//! Removing a snapshot from a clone that serves it: the clone goes, or serves the others alone.
//!
//! Source of the facts: Ceph 18.2 `src/osd/PrimaryLogPG.cc` (`trim_object`).

use super::plan::{ObjectContext, Plan, PlanKind, SnapIndexChange};
use crate::pg::backend::name::name;
use crate::planted::{Bug, planted};
use denc::Denc;
use types::object_info::{OI_ATTR, SS_ATTR, oi_flag};
use types::{
    ByteStr, CollId, EVersion, GHObject, HObject, LogOp, ObjectInfo, ObjectStatSum, PgLogEntry, SnapId, SnapSet, SpgId, Transaction, UTime,
};

/// What trimming needs to know besides the objects.
pub struct TrimCtx<'a> {
    pub pgid: SpgId,
    pub at_version: EVersion,
    /// The snapshot that goes.
    pub snap: SnapId,
    /// Whether the map's removed_snaps_queue of this pool has a snapshot.
    pub snap_removed: &'a dyn Fn(SnapId) -> bool,
    /// See [`super::PlanCtx::osd_features`].
    pub osd_features: u64,
}

/// Plans the trim of one clone. None if the records don't have the clone, or not for this snapshot: then it is not there to be trimmed.
pub fn plan_trim(ctx: &TrimCtx<'_>, clone: &ObjectContext, head: &ObjectContext) -> Option<Plan> {
    let id = clone.hobj().snap;
    let old = head.snapset.clone_snaps.get(&id)?.clone();
    // The index may still have a snapshot that the clone no longer serves: it was trimmed while this OSD was away, and came by recovery.
    if !clone.exists || !head.exists || !head.snapset.clones.contains(&id) || !old.contains(&ctx.snap) {
        return None;
    }
    let new: Vec<SnapId> = old.iter().copied().filter(|snap| *snap != ctx.snap && !(ctx.snap_removed)(*snap)).collect();
    let mut trim = Trim {
        ctx,
        version: ctx.at_version,
        txn: Transaction::new(CollId::Pg(ctx.pgid)),
        stats: ObjectStatSum::default(),
        log: Vec::new(),
        snapset: head.snapset.clone(),
    };
    let clone_after =
        if new.is_empty() || planted(Bug::TrimSharedClone) { trim.remove_clone(clone) } else { trim.shrink_clone(clone, &new) };
    let head_after = trim.update_head(head);
    Some(Plan {
        kind: PlanKind::Write,
        result: 0,
        ops: Default::default(),
        reply_version: ctx.at_version,
        reply_user_version: 0,
        data_off: 0,
        txn: trim.txn,
        log: trim.log,
        changed: [clone_after, head_after].map(Box::new).into_iter().collect(),
        snap_index: vec![SnapIndexChange { clone: clone.hobj().clone(), old, new }],
        stats: trim.stats,
        effects: Vec::new(),
    })
}

struct Trim<'a> {
    ctx: &'a TrimCtx<'a>,
    version: EVersion,
    txn: Transaction,
    stats: ObjectStatSum,
    log: Vec<PgLogEntry>,
    snapset: SnapSet,
}

impl Trim<'_> {
    /// An object's name in the store.
    fn name(&self, obj: &HObject) -> GHObject {
        name(CollId::Pg(self.ctx.pgid), obj.clone())
    }
    fn record(&mut self, op: LogOp, soid: &HObject, prior_version: EVersion, snaps: &[SnapId]) {
        self.log.push(PgLogEntry {
            op,
            soid: soid.clone(),
            version: self.version,
            prior_version,
            mtime: UTime::ZERO,
            snaps: if snaps.is_empty() { Default::default() } else { snaps.to_vec().to_bytes(0) },
            ..PgLogEntry::default()
        });
        self.version.version += 1;
    }

    fn forget(&mut self, info: &ObjectInfo) {
        let stats = &mut self.stats;
        stats.num_objects -= 1;
        stats.num_objects_dirty -= i64::from(info.has(oi_flag::DIRTY));
        stats.num_objects_omap -= i64::from(info.is_omap());
        stats.num_whiteouts -= i64::from(info.is_whiteout());
        stats.num_objects_pinned -= i64::from(info.has(oi_flag::CACHE_PIN));
        stats.num_objects_manifest -= i64::from(info.has(oi_flag::MANIFEST));
    }

    fn remove_clone(&mut self, clone: &ObjectContext) -> ObjectContext {
        let id = clone.hobj().snap;
        let set = &mut self.snapset;
        let place = set.clones.iter().position(|c| *c == id).expect("looked at before");
        self.stats.num_bytes -= set.clone_bytes(id) as i64;
        if place > 0 {
            // The next older clone shares with the next newer what both shared with this one.
            let older = set.clones[place - 1];
            self.stats.num_bytes -= set.clone_bytes(older) as i64;
            let overlap = set.clone_overlap.get(&id).cloned().unwrap_or_default();
            if let Some(shared) = set.clone_overlap.get_mut(&older) {
                *shared = shared.intersection(&overlap);
            }
            self.stats.num_bytes += set.clone_bytes(older) as i64;
        }
        set.clones.remove(place);
        set.clone_overlap.remove(&id);
        set.clone_size.remove(&id);
        set.clone_snaps.remove(&id);
        self.forget(&clone.info);
        self.stats.num_object_clones -= 1;
        self.record(LogOp::DELETE, clone.hobj(), clone.info.version, &[]);
        let name = self.name(clone.hobj());
        self.txn.remove(&name);
        ObjectContext::absent(clone.hobj().clone())
    }

    fn shrink_clone(&mut self, clone: &ObjectContext, snaps: &[SnapId]) -> ObjectContext {
        self.snapset.clone_snaps.insert(clone.hobj().snap, snaps.to_vec());
        let mut after = clone.clone();
        self.rewrite(&mut after.info, None);
        self.record(LogOp::MODIFY, clone.hobj(), clone.info.version, snaps);
        after
    }

    /// A whiteout without clones is no longer needed.
    fn update_head(&mut self, head: &ObjectContext) -> ObjectContext {
        if self.snapset.clones.is_empty() && head.info.is_whiteout() && !head.info.has(oi_flag::CACHE_PIN) {
            self.forget(&head.info);
            self.record(LogOp::DELETE, head.hobj(), head.info.version, &[]);
            let name = self.name(head.hobj());
            self.txn.remove(&name);
            return ObjectContext::absent(head.hobj().clone());
        }
        self.snapset.snaps.clear();
        let mut info = head.info.clone();
        let snapset = std::mem::take(&mut self.snapset);
        self.rewrite(&mut info, Some(&snapset));
        self.record(LogOp::MODIFY, head.hobj(), head.info.version, &[]);
        ObjectContext { exists: true, info, snapset }
    }

    fn rewrite(&mut self, info: &mut ObjectInfo, snapset: Option<&SnapSet>) {
        info.prior_version = info.version;
        info.version = self.version;
        let gobj = self.name(&info.soid);
        let features = self.ctx.osd_features;
        let mut attrs = vec![(ByteStr::from_static(OI_ATTR), info.to_bytes(features))];
        attrs.extend(snapset.map(|set| (ByteStr::from_static(SS_ATTR), set.to_bytes(features))));
        self.txn.set_attrs(&gobj, attrs);
    }
}
