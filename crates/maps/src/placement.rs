//! Where things lie: an object's placement group, and a placement group's OSDs.
//!
//! CRUSH gives a raw set; upmaps change it; OSDs that are down are taken out (or leave a hole where a place has a meaning): the up set.
//! The acting set is the up set unless pg_temp says otherwise. Source of the facts: Ceph 18.2 `src/osd/OSDMap.cc`.

use crate::osd_map::ONE;
use crate::{OsdMap, PgPool};
use crush::{ITEM_NONE, Scratch, hash32_2};
use types::{ObjectLocator, OsdId, PgId};

/// Vectors kept between mappings. One an OSD thread is enough.
#[derive(Debug, Default)]
pub struct Placement {
    scratch: Scratch,
}

/// Which OSDs should serve a placement group and which do. Holes of erasure-coded pools are [`crush::ITEM_NONE`]; no primary is -1.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpActing {
    pub up: Vec<OsdId>,
    pub up_primary: OsdId,
    pub acting: Vec<OsdId>,
    pub acting_primary: OsdId,
}

impl UpActing {
    fn nobody() -> Self {
        Self { up: Vec::new(), up_primary: -1, acting: Vec::new(), acting_primary: -1 }
    }
}

impl OsdMap {
    /// The raw placement group (its seed is the whole hash) of an object; none if there is no such pool.
    pub fn object_to_raw_pg(&self, name: &[u8], loc: &ObjectLocator) -> Option<PgId> {
        let pool = self.pool(loc.pool)?;
        if loc.hash >= 0 {
            return Some(PgId::new(loc.pool, loc.hash as u32));
        }
        let key = if loc.key.is_empty() { name } else { loc.key.as_slice() };
        Some(PgId::new(loc.pool, pool.hash_key(key, loc.nspace.as_slice())))
    }
    /// The placement group of an object.
    pub fn object_to_pg(&self, name: &[u8], loc: &ObjectLocator) -> Option<PgId> {
        let raw = self.object_to_raw_pg(name, loc)?;
        Some(self.pool(raw.pool)?.raw_pg_to_pg(raw))
    }

    /// Up and acting set of a placement group. A raw one is folded; no OSD has a group of a pool that isn't there.
    pub fn pg_to_up_acting(&self, pg: PgId, work: &mut Placement) -> UpActing {
        let Some(pool) = self.pool(pg.pool) else { return UpActing::nobody() };
        let pg = pool.raw_pg_to_pg(pg);
        let (up, up_primary) = self.pg_to_up(pool, pg, work);
        let (temp, temp_primary) = self.temp(pool, pg);
        if temp.is_empty() {
            let acting_primary = if temp_primary == -1 { up_primary } else { temp_primary };
            return UpActing { acting: up.clone(), up, up_primary, acting_primary };
        }
        UpActing { up, up_primary, acting: temp, acting_primary: temp_primary }
    }
    /// The OSD that a client sends to; -1: none.
    pub fn pg_primary(&self, pg: PgId, work: &mut Placement) -> OsdId {
        self.pg_to_up_acting(pg, work).acting_primary
    }
    /// CRUSH's choice, less OSDs that don't exist.
    pub fn pg_to_raw(&self, pg: PgId, work: &mut Placement) -> Vec<OsdId> {
        self.pool(pg.pool).map(|pool| self.raw(pool, pg, work)).unwrap_or_default()
    }

    fn raw(&self, pool: &PgPool, pg: PgId, work: &mut Placement) -> Vec<OsdId> {
        let seed = pool.placement_seed(pg);
        let mut osds = self.crush.do_rule(pool.crush_rule.into(), seed, pool.size.into(), &self.osd_weight, pg.pool, &mut work.scratch);
        self.take_out(pool, &mut osds, |osd| self.exists(osd));
        osds
    }
    /// Closes the gaps of what isn't `kept`, or leaves holes.
    fn take_out(&self, pool: &PgPool, osds: &mut Vec<OsdId>, kept: impl Fn(OsdId) -> bool) {
        if pool.can_shift_osds() {
            osds.retain(|osd| kept(*osd));
        } else {
            for osd in osds {
                if !kept(*osd) {
                    *osd = ITEM_NONE;
                }
            }
        }
    }

    fn pg_to_up(&self, pool: &PgPool, pg: PgId, work: &mut Placement) -> (Vec<OsdId>, OsdId) {
        let mut osds = self.raw(pool, pg, work);
        self.apply_upmap(pg, &mut osds);
        self.take_out(pool, &mut osds, |osd| self.is_up(osd));
        let primary = first(&osds);
        let primary = self.apply_primary_affinity(pool, pool.placement_seed(pg), &mut osds).unwrap_or(primary);
        (osds, primary)
    }

    /// True if an upmap may lead to `osd`: it is not an OSD that is marked out. (What is no OSD at all is taken out later.)
    fn may_target(&self, osd: OsdId) -> bool {
        self.osd_weight.get(osd as usize).is_none_or(|weight| *weight != 0)
    }

    fn apply_upmap(&self, pg: PgId, raw: &mut Vec<OsdId>) {
        if let Some(osds) = self.pg_upmap.get(&pg) {
            // A mapping to an OSD that is out is void, and whatever else is mapped for the group with it.
            if !osds.iter().all(|osd| self.may_target(*osd)) {
                return;
            }
            raw.clone_from(osds);
        }
        for (from, to) in self.pg_upmap_items.get(&pg).into_iter().flatten() {
            if raw.contains(to) || !self.may_target(*to) {
                continue;
            }
            if let Some(osd) = raw.iter_mut().find(|osd| *osd == from) {
                *osd = *to;
            }
        }
        if let Some(primary) = self.pg_upmap_primaries.get(&pg)
            && self.weight(*primary) != 0
            && let Some(at) = raw.iter().skip(1).position(|osd| osd == primary)
        {
            raw.swap(0, at + 1);
        }
    }

    /// The primary by affinity, if some OSD of the set has one other than the default. In replicated pools it moves to the front.
    fn apply_primary_affinity(&self, pool: &PgPool, seed: u32, osds: &mut [OsdId]) -> Option<OsdId> {
        if osds.iter().all(|osd| *osd == ITEM_NONE || self.primary_affinity(*osd) == ONE) {
            return None;
        }
        // An OSD passes up the role in some of its groups, drawn by seed and number; the first that doesn't has it, else the first.
        let keeps = |osd: OsdId| {
            let affinity = self.primary_affinity(osd);
            affinity >= ONE || hash32_2(seed, osd as u32) >> 16 < affinity
        };
        let there = |osd: &OsdId| *osd != ITEM_NONE;
        let at = osds.iter().position(|osd| there(osd) && keeps(*osd)).or_else(|| osds.iter().position(there))?;
        let primary = osds[at];
        if pool.can_shift_osds() {
            osds[..=at].rotate_right(1);
        }
        Some(primary)
    }

    /// The acting set and primary that stand in for the up set's; empty and -1 if none do.
    fn temp(&self, pool: &PgPool, pg: PgId) -> (Vec<OsdId>, OsdId) {
        let mut osds = self.pg_temp.get(&pg).cloned().unwrap_or_default();
        self.take_out(pool, &mut osds, |osd| self.is_up(osd));
        let primary = self.primary_temp.get(&pg).copied().unwrap_or_else(|| first(&osds));
        (osds, primary)
    }
}

/// The first OSD that is one; -1 if none.
fn first(osds: &[OsdId]) -> OsdId {
    osds.iter().copied().find(|osd| *osd != ITEM_NONE).unwrap_or(-1)
}
