//! Pools on their way to another number of placement groups: what a manager does step by step, done by the endpoint while no stock manager is
//! active.
//!
//! A pool's targets are the operator's; `pg_num`, `pg_num_pending` and `pgp_num` are where it stands:
//!
//! ```text
//! pgp_num ──▶ min(pgp_num_target, pg_num_pending)   a few at a time, while no group is inactive, unknown or degraded
//! pg_num  ──▶ pg_num_target, upwards                at once, when all groups are active
//! pg_num  ──▶ pg_num_target, downwards              one at a time: pgp_num goes below it first; then both groups of the merge must be clean
//!                                                   and with the same OSDs; pg_num_pending makes them quiet, and their OSD's word that they
//!                                                   are ends the step
//! ```
//! Absent: the wish for another number (`cmd::osd_pool_set`), and the end of a step (`boot`).

use crate::Mon;
use base::Clock;
use maps::{PgPool, pool_flags};
use messages::log_level;
use types::pg_stat::pg_state;
use types::{PgId, PoolId};

/// Of all object copies, how many may be misplaced before placement groups are sent elsewhere (`target_max_misplaced_ratio`).
const MISPLACED: &str = "target_max_misplaced_ratio";
/// Placement may run so many groups ahead of merges that it is made for.
const AHEAD_OF_MERGES: u32 = 1;

/// A step of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// `pg_num` and `pg_num_pending` become this.
    Split(u32),
    /// `pg_num_pending` becomes this: the last group is to be merged.
    Merge(u32),
    /// `pgp_num` becomes this.
    Place(u32),
}

/// The group that the group of this seed came from, and is merged into.
fn parent(seed: u32) -> u32 {
    if seed == 0 { 0 } else { seed & !(1 << seed.ilog2()) }
}

impl Mon {
    /// One step for each pool that is not where it is to be.
    pub(crate) fn drive_pg_nums(&mut self, clock: Clock) {
        let wanting = |p: &PgPool| p.pg_num != p.pg_num_target || p.pgp_num != p.pgp_num_target;
        let pools: Vec<PoolId> =
            self.osd.map.pools.iter().filter(|(_, p)| wanting(p) && !p.has(pool_flags::CREATING)).map(|(id, _)| *id).collect();
        self.manager.blocked_merges.retain(|pg| pools.contains(&pg.pool));
        for id in pools {
            if let Some(step) = self.pg_num_step(id, clock) {
                self.take_pg_num_step(id, step);
            }
        }
    }

    fn take_pg_num_step(&mut self, id: PoolId, step: Step) {
        let epoch = self.osd.epoch() + 1;
        let pool = self.osd.pool_mut(id).expect("we looked");
        match step {
            Step::Split(n) => (pool.pg_num, pool.pg_num_pending) = (n, n),
            Step::Merge(n) => pool.pg_num_pending = n,
            Step::Place(n) => pool.pgp_num = n,
        }
        if !matches!(step, Step::Place(_)) {
            // Clients of before Nautilus don't know that a changed pg_num means to send again.
            pool.last_force_op_resend_prenautilus = epoch;
        }
        pool.last_change = epoch;
    }

    fn pg_num_step(&mut self, id: PoolId, clock: Clock) -> Option<Step> {
        let p = self.osd.map.pools[&id].clone();
        if p.pg_num_target < p.pg_num && p.pg_num == p.pg_num_pending && p.pgp_num < p.pg_num {
            if let Some(why) = self.merge_obstacle(id, p.pg_num - 1) {
                let source = PgId::new(id, p.pg_num - 1);
                if let Some(text) = why
                    && self.manager.blocked_merges.insert(source)
                {
                    self.say(clock, log_level::WARN, text);
                }
            } else {
                return Some(Step::Merge(p.pg_num - 1));
            }
        }
        let pgs = || self.manager.pgs.pgs.range(PgId::new(id, 0)..=PgId::new(id, u32::MAX)).map(|(_, stat)| stat);
        if p.pg_num_target > p.pg_num && p.pg_num == p.pg_num_pending {
            let all_active = pgs().count() == p.pg_num as usize && pgs().all(|s| s.state & (pg_state::ACTIVE | pg_state::PEERED) != 0);
            if all_active {
                return Some(Step::Split(p.pg_num_target));
            }
        }
        self.next_pgp_num(&p).map(Step::Place)
    }

    /// Why the last group can't be merged now; with a line if time alone won't help.
    fn merge_obstacle(&self, id: PoolId, seed: u32) -> Option<Option<String>> {
        let (source, target) = (PgId::new(id, seed), PgId::new(id, parent(seed)));
        let stat = |pg| self.manager.pgs.pgs.get(&pg);
        let (Some(from), Some(to)) = (stat(source), stat(target)) else { return Some(None) };
        if from.acting != to.acting {
            let text = format!(
                "{source} waits to be merged into {target}: its OSDs are {:?}, those of {target} {:?}; it can be when both are on the same",
                from.acting, to.acting
            );
            return Some(Some(text));
        }
        let clean = pg_state::ACTIVE | pg_state::CLEAN;
        (from.state & clean != clean || to.state & clean != clean).then_some(None)
    }

    fn next_pgp_num(&self, p: &PgPool) -> Option<u32> {
        let end = p.pgp_num_target.min(p.pg_num_pending);
        let sums = self.manager.pgs.total();
        let unsettled = self.manager.pgs.pgs.values().any(|s| s.state & (pg_state::ACTIVE | pg_state::PEERED) == 0);
        if end == p.pgp_num || unsettled || sums.stats.num_objects_degraded > 0 {
            // Merges wait for placement even where its own target is reached.
            return None;
        }
        let most = self.config.mgr_number(MISPLACED);
        let misplaced = sums.stats.num_objects_misplaced as f64 / sums.stats.num_object_copies.max(1) as f64;
        if misplaced > most {
            return None;
        }
        let step = (f64::from(p.pg_num) * (most - misplaced).min(most / 2.0)).max(1.0) as u32;
        let next = end.clamp(p.pgp_num.saturating_sub(step), p.pgp_num.saturating_add(step));
        let merging = p.pgp_num_target == p.pg_num_target && p.pg_num_target < p.pg_num;
        let next = if merging { next.max(p.pg_num - AHEAD_OF_MERGES) } else { next };
        (next != p.pgp_num && (next < p.pgp_num) == (end < p.pgp_num)).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::parent;

    #[test]
    fn a_group_is_merged_into_the_one_that_it_came_from() {
        assert_eq!([1, 2, 3, 4, 5, 6, 7, 8, 12].map(parent), [0, 0, 1, 0, 1, 2, 3, 0, 4]);
    }
}
