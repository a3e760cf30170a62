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

/// Looks at all OSDs.
///
/// # Errors
/// Two that serve the same.
pub fn check(osds: &[Option<OsdProcess>], now_ns: u64) -> Result<(), String> {
    let all = |osd: &OsdProcess| -> Vec<Served> { osd.served(now_ns).map(|pg| (osd.id(), pg.pgid, pg.pool.pg_num)).collect() };
    let served: Vec<Served> = osds.iter().flatten().flat_map(all).collect();
    let mut least: BTreeMap<PoolId, u32> = BTreeMap::new();
    for (_, pgid, pg_num) in &served {
        let least = least.entry(pgid.pgid.pool).or_insert(*pg_num);
        *least = (*least).min(*pg_num);
    }
    let fold = |seed: u32, pg_num: u32| stable_mod(seed, pg_num, bins_mask(pg_num));
    let mut by: BTreeMap<(PoolId, u32), Vec<Served>> = BTreeMap::new();
    for one in served {
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
