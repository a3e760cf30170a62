//! What a placement group reports of itself, and how its objects are counted anew.

use super::peering::Copies;
use crate::op::{ObjectContext, Source, load_object};
use crate::pg::group::Group;
use crate::pg::work::Jobs;
use crate::shared::Cx;
use std::collections::BTreeMap;
use store::ObjectStore;
use types::{CollId, Epoch, GHObject, ObjectStatSum, PgStat, SpgId, UTime, oi_flag, pg_state};

/// Objects looked at in one step of counting.
const PAGE: usize = 1024;

/// What one object adds to its group's statistics. Clones' bytes are with their head, which knows what they share.
pub(in crate::pg) fn contribution(ctx: &ObjectContext, sum: &mut ObjectStatSum) {
    sum.num_objects += 1;
    sum.num_objects_dirty += ctx.info.has(oi_flag::DIRTY) as i64;
    sum.num_objects_omap += ctx.info.is_omap() as i64;
    sum.num_whiteouts += ctx.info.is_whiteout() as i64;
    if ctx.hobj().is_head() {
        let clones: u64 = ctx.snapset.clones.iter().map(|c| ctx.snapset.clone_bytes(*c)).sum();
        sum.num_bytes += (ctx.info.size + clones) as i64;
    } else {
        sum.num_object_clones += 1;
    }
}

/// Counts a group's objects by the groups that they are to be in, if there are no more than `max` and all of them can be read at once. What recovery keeps
/// beside them under names of its own is none.
pub(crate) fn count_apart(
    store: &dyn ObjectStore,
    pgid: SpgId,
    max: usize,
    group: impl Fn(u32) -> u32,
) -> Option<BTreeMap<u32, ObjectStatSum>> {
    let (coll, mut sums, mut at, mut seen) = (CollId::Pg(pgid), BTreeMap::<u32, ObjectStatSum>::new(), GHObject::min(), 0);
    loop {
        let page = store.list(coll, &at, &GHObject::max(), PAGE).ok()?;
        seen += page.objects.len();
        if seen > max {
            return None;
        }
        for obj in page.objects.iter().filter(|obj| obj.hobj.pool == pgid.pgid.pool) {
            contribution(&load_object(Source::new(store, coll), &obj.hobj).ok()?, sums.entry(group(obj.hobj.hash)).or_default());
        }
        match page.next {
            Some(next) => at = next,
            None => return Some(sums),
        }
    }
}

/// Intervals of purged snapshots that a report names (stock's default of `osd_max_snap_prune_intervals_per_epoch`). Only reports name them: a stock
/// OSD that finds some in the statistics of its own record ends by an assertion when it adds those of the record.
const PURGED_TOLD: usize = 512;

impl Group {
    /// The report to the manager. Only a primary makes one.
    pub fn report(&mut self, work: &Jobs, cx: &Cx<'_>) -> PgStat {
        let now: UTime = cx.now();
        let bits = work.state_bits(self);
        // Not the OSD's: what a group says that waits for a merge is of before it.
        let epoch: Epoch = self.epoch;
        let (log_size, log_dups, tail) = (self.record.log().len() as i64, self.record.log().dups_len() as i64, self.record.log().tail());
        let m = &self.members.peering.mapping;
        let copies = (m.size as i64).max(m.serving() as i64).max(self.members.peering.up().count() as i64);
        let Copies { degraded, misplaced, whole } = self.members.peering.copies(&self.record);
        let lacking = self.members.peering.lacking(&self.record, work.unfound_len());
        let (history, last_update) = (self.record.info().history, self.record.info().last_update);
        let s = self.record.stats_mut();
        const SERVING: u64 = pg_state::ACTIVE | pg_state::PEERED;
        if s.state != bits {
            s.last_change = now;
            if bits & pg_state::ACTIVE != 0 && s.state & pg_state::ACTIVE == 0 {
                s.last_became_active = now;
            }
            if bits & SERVING != 0 && s.state & SERVING == 0 {
                s.last_became_peered = now;
            }
            s.state = bits;
        }
        s.reported_epoch = epoch;
        s.reported_seq += 1;
        s.last_fresh = now;
        s.last_unstale = now;
        if bits & pg_state::CLEAN != 0 {
            s.last_clean = now;
        }
        if bits & pg_state::ACTIVE != 0 {
            s.last_active = now;
        }
        if bits & SERVING != 0 {
            s.last_peered = now;
        }
        if bits & pg_state::DEGRADED == 0 {
            s.last_undegraded = now;
        }
        if bits & pg_state::UNDERSIZED == 0 {
            s.last_fullsized = now;
        }
        s.version = last_update;
        s.created = history.epoch_created;
        (s.last_scrub, s.last_scrub_stamp) = (history.last_scrub, history.last_scrub_stamp);
        (s.last_deep_scrub, s.last_deep_scrub_stamp) = (history.last_deep_scrub, history.last_deep_scrub_stamp);
        s.last_clean_scrub_stamp = history.last_clean_scrub_stamp;
        s.last_epoch_clean = history.last_epoch_clean;
        (s.log_size, s.ondisk_log_size, s.log_dups_size) = (log_size, log_size, log_dups);
        (s.log_start, s.ondisk_log_start) = (tail, tail);
        s.snaptrimq_len = work.trims().queue().size() as u32;
        s.blocked_by = self.members.peering.blocked_by.iter().map(|member| member.osd).collect();
        let sum = &mut s.stats.sum;
        sum.num_object_copies = sum.num_objects * copies;
        let serving = i64::from(bits & SERVING != 0);
        sum.num_objects_degraded = serving * degraded;
        sum.num_objects_misplaced = serving * misplaced;
        sum.num_objects_missing_on_primary = lacking.on_primary as i64;
        sum.num_objects_unfound = lacking.unfound as i64;
        s.avail_no_missing.clear();
        s.object_location_counts.clear();
        if bits & SERVING != 0 && bits & pg_state::CLEAN == 0 {
            s.avail_no_missing.extend(whole);
            if sum.num_objects > 0 {
                s.object_location_counts.insert(self.members.peering.acting().collect(), sum.num_objects as i32);
            }
        }
        s.scrub_sched_status.sched_status = 3;
        s.scrub_sched_status.scheduled_at = UTime { sec: history.last_scrub_stamp.sec.saturating_add(86400), nsec: 0 };
        let mut told = s.clone();
        told.purged_snaps = self.record.info().purged_snaps.iter().take(PURGED_TOLD).collect();
        told
    }
}
