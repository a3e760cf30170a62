//! No two OSDs serve one object at the same time, whatever each of them knows.
//!
//! Asked of each primary is whether it would answer a read if one came now; a primary that is paused is asked as well, as it may go on at any moment.
//! A client need not be there to see it. Groups that were split on one OSD and not yet on another are compared by the objects that they have in common.

use crate::osd::OsdProcess;
use std::collections::BTreeMap;
use types::hash::{bins_mask, stable_mod};
use types::{OsdId, PoolId, SpgId};

/// A group that an OSD would serve now, and into how many its pool is split there.
type Served = (OsdId, SpgId, u32);

/// What was looked at last and was right: mostly the same is served again.
#[derive(Debug, Default)]
pub struct Serving {
    last: Vec<Served>,
    now: Vec<Served>,
}

impl Serving {
    /// Looks at all OSDs.
    ///
    /// # Errors
    /// Two that serve the same.
    pub fn look(&mut self, osds: &[Option<OsdProcess>], now_ns: u64) -> Result<(), String> {
        self.now.clear();
        for osd in osds.iter().flatten() {
            self.now.extend(osd.served(now_ns).map(|pg| (osd.id(), pg.pgid, pg.pool().pg_num)));
        }
        if self.now != self.last {
            check(&self.now)?;
            std::mem::swap(&mut self.now, &mut self.last);
        }
        Ok(())
    }
}

fn check(served: &[Served]) -> Result<(), String> {
    let mut least: BTreeMap<PoolId, u32> = BTreeMap::new();
    for (_, pgid, pg_num) in served {
        let least = least.entry(pgid.pgid.pool).or_insert(*pg_num);
        *least = (*least).min(*pg_num);
    }
    let fold = |seed: u32, pg_num: u32| stable_mod(seed, pg_num, bins_mask(pg_num));
    let mut by: BTreeMap<(PoolId, u32), Vec<Served>> = BTreeMap::new();
    for one in served.iter().copied() {
        let (osd, pgid, pg_num) = one;
        let same = by.entry((pgid.pgid.pool, fold(pgid.pgid.seed, least[&pgid.pgid.pool]))).or_default();
        let meets = |(other, pg, count): &&Served| {
            let fewer = pg_num.min(*count);
            *other != osd && fold(pg.pgid.seed, fewer) == fold(pgid.pgid.seed, fewer)
        };
        if let Some((other, pg, _)) = same.iter().find(meets) {
            return Err(format!("osd.{other} serves {pg} while osd.{osd} serves {pgid}"));
        }
        same.push(one);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::PgId;

    #[test]
    fn two_that_serve_the_same_are_told_apart_from_two_that_do_not() {
        let one = |osd, seed, pg_num| (osd, SpgId::whole(PgId::new(1, seed)), pg_num);
        assert_eq!(check(&[one(0, 1, 4), one(1, 2, 4), one(0, 3, 4)]), Ok(()));
        assert!(check(&[one(0, 1, 4), one(1, 1, 4)]).is_err());
        // Split on one of them: what was one group is several.
        assert!(check(&[one(0, 1, 4), one(1, 5, 8)]).is_err());
        assert_eq!(check(&[one(0, 2, 4), one(1, 5, 8)]), Ok(()));
    }
}
