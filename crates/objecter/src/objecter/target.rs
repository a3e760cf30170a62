//! Where an object's requests go: the placement group, its OSDs, and the properties whose change makes a new interval.

use maps::{OsdMap, Placement};
use std::collections::BTreeMap;
use std::rc::Rc;
use types::{OsdId, PgId, PoolId, SpgId};

/// What is known of a placement group in one map. Two that are equal are of the same interval as far as a client can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgTarget {
    pub spgid: SpgId,
    pub up: Vec<OsdId>,
    pub up_primary: OsdId,
    pub acting: Vec<OsdId>,
    /// The OSD to send to; -1: none.
    pub acting_primary: OsdId,
    size: u8,
    min_size: u8,
    pg_num: u32,
    pg_num_pending: u32,
    /// The epoch from which on everything is resent.
    force_resend: u32,
}

/// Placement groups looked up in the present map.
#[derive(Default)]
pub struct Targets {
    pools: BTreeMap<PoolId, Vec<Option<Rc<PgTarget>>>>,
    work: Placement,
}

impl Targets {
    /// The map has changed.
    pub fn clear(&mut self) {
        self.pools.clear();
    }
    /// `pg` as it is in `map`; None if its pool does not exist. A raw one is folded.
    pub fn get(&mut self, map: &OsdMap, pg: PgId) -> Option<Rc<PgTarget>> {
        let pool = map.pool(pg.pool)?;
        let pg = pool.raw_pg_to_pg(pg);
        let groups = self.pools.entry(pg.pool).or_insert_with(|| vec![None; pool.pg_num as usize]);
        // A seed is below pg_num once it is folded; a map that says otherwise has no such group.
        let slot = groups.get_mut(pg.seed as usize)?;
        if let Some(known) = slot {
            return Some(known.clone());
        }
        let set = map.pg_to_up_acting(pg, &mut self.work);
        let shard = match pool.is_erasure() {
            true => set.acting.iter().position(|osd| *osd == set.acting_primary).map_or(-1, |i| i as i8),
            false => -1,
        };
        let target = Rc::new(PgTarget {
            spgid: SpgId { pgid: pg, shard },
            up: set.up,
            up_primary: set.up_primary,
            acting: set.acting,
            acting_primary: if set.acting_primary >= 0 && map.is_up(set.acting_primary) { set.acting_primary } else { -1 },
            size: pool.size,
            min_size: pool.min_size,
            pg_num: pool.pg_num,
            pg_num_pending: pool.pg_num_pending,
            force_resend: pool.last_force_op_resend,
        });
        *slot = Some(target.clone());
        Some(target)
    }
}
