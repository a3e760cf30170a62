//! Which members serve copies: any that have the log, the primary first.

use crate::pg::reconcile::choose::{Infos, Placement, Serving};
use std::cmp::Reverse;
use types::{OsdId, PgInfo, PgShard};

/// Chooses members to serve, where `best` has the log that counts: first the primary, then members of `up`, of `acting` and strays whose log meets
/// that one. Members of `up` whose log doesn't are to be backfilled. Every member of up and acting has an info.
pub fn choose_acting(infos: &Infos, best: PgShard, place: &Placement<'_>) -> Serving {
    let info = |shard: PgShard| infos.get(&shard).expect("members of up and acting have told what they have");
    let leader = choose_leader(infos, best, place);
    // The best log is asked for as far back as any member needs.
    let oldest = info(leader).log_tail.min(info(best).log_tail);
    let meets = |i: &PgInfo| !i.is_incomplete() && i.last_update >= oldest;

    let mut out = Serving { acting: vec![leader.osd], ..Serving::default() };
    out.acting_backfill.insert(leader);
    for shard in place.up.iter().map(|osd| PgShard::whole(*osd)).filter(|s| *s != leader) {
        out.acting_backfill.insert(shard);
        if meets(info(shard)) {
            out.acting.push(shard.osd);
        } else {
            out.backfill.insert(shard);
        }
    }
    let placed = |osd: OsdId| place.up.contains(&osd) || osd == leader.osd;
    let acting = place.acting.iter().map(|osd| PgShard::whole(*osd)).filter(|s| !placed(s.osd)).collect();
    let strays = infos.keys().filter(|s| !placed(s.osd) && !place.acting.contains(&s.osd) && !place.only_placed).copied().collect();
    for candidates in [acting, strays] {
        let mut candidates: Vec<PgShard> = candidates;
        candidates.retain(|s| meets(info(*s)));
        candidates.sort_by_key(|s| Reverse(info(*s).last_update));
        for shard in candidates.into_iter().take(place.size.saturating_sub(out.acting.len())) {
            out.acting.push(shard.osd);
            out.acting_backfill.insert(shard);
        }
    }
    // The leader came from outside of a full up: the last one is recovered without serving.
    out.acting.truncate(place.size.max(1));
    out
}

/// The first of up leads, unless it has too much to catch up with.
fn choose_leader(infos: &Infos, best: PgShard, place: &Placement<'_>) -> PgShard {
    let first = PgShard::whole(place.up_primary);
    let (Some(i), Some(b)) = (infos.get(&first).filter(|_| !place.up.is_empty()), infos.get(&best)) else { return best };
    let missing = u64::try_from(i.stats.stats.sum.num_objects_missing).unwrap_or(0);
    let behind = missing.saturating_add(b.last_update.version.abs_diff(i.last_update.version));
    let leads = !i.is_incomplete() && i.last_update >= b.log_tail && behind <= place.behind_max;
    if leads { first } else { best }
}
