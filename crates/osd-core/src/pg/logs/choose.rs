//! Whose log counts, and which members are to serve, decided by what each tells of itself ([`PgInfo`]).
//!
//! Holds no log and no map: infos of a prior set are in already, and what is chosen is asked for elsewhere.

use crate::pg::backend::layout::Layout;
use crate::planted::{Bug, planted};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, OsdId, PgInfo, PgShard};

pub type Infos = BTreeMap<PgShard, PgInfo>;

/// Which member has the log that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Best {
    /// `None`: no member that is left took part in the last active interval with all of its objects. The group is incomplete.
    pub member: Option<PgShard>,
    /// No member that took part itself was seen, only one that has heard of it: what we have may be too old.
    pub heard_only: bool,
}

/// Chooses the log that counts. `us` is preferred among equals. `ignore_heard`: an administrator gave up what was only heard of
/// (`osd_find_best_info_ignore_history_les`). `among`: no other member is chosen.
pub fn find_best(layout: Layout, infos: &Infos, us: PgShard, among: Option<&BTreeSet<PgShard>>, ignore_heard: bool) -> Best {
    // The last interval that was active. Members that are not filled count what they have heard of, not what they took part in.
    let heard = infos.values().map(|i| i.history.last_epoch_started).max().filter(|_| !ignore_heard).unwrap_or(0);
    let taken_part = infos.values().filter(|i| !i.is_incomplete()).map(|i| i.last_epoch_started).max().unwrap_or(0);
    let mut started = heard.max(taken_part);
    let heard_only = heard > taken_part;
    if planted(Bug::IgnoreLastStarted) {
        started = 0;
    }
    // Every member that took part then has all that was acknowledged, so any log that ends no earlier than one of theirs would do.
    let floor = infos.values().filter(|i| i.last_epoch_started >= started).map(|i| i.last_update).min();
    let may_count = |(shard, i): &(&PgShard, &PgInfo)| {
        floor.is_some_and(|floor| i.last_update >= floor)
            && i.last_epoch_started >= started
            && !i.is_incomplete()
            && among.is_none_or(|among| among.contains(shard))
    };
    let rank = |(shard, i): &(&PgShard, &PgInfo)| {
        // An equal log is worth more if it reaches back further, if its objects are there, and if it needn't be asked for.
        (Reverse(i.log_tail), !i.has_missing(), **shard == us, Reverse(**shard))
    };
    let order = |a: &(&PgShard, &PgInfo), b: &(&PgShard, &PgInfo)| {
        layout.counts_by_end(a.1.last_update, b.1.last_update).then_with(|| rank(a).cmp(&rank(b)))
    };
    let member = infos.iter().filter(may_count).max_by(order).map(|(shard, _)| *shard);
    Best { member, heard_only }
}

/// What the map says, and what limits the choice.
#[derive(Debug, Clone)]
pub struct Placement<'a> {
    pub up: &'a [OsdId],
    pub acting: &'a [OsdId],
    pub up_primary: OsdId,
    /// Of the pool.
    pub size: usize,
    /// A first member that lacks more than so many objects does not lead (`osd_force_auth_primary_missing_objects`).
    pub behind_max: u64,
    /// Members outside of up and acting are not chosen.
    pub only_placed: bool,
}

/// Members that are to serve.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Serving {
    /// The primary first. If it isn't the map's acting set, the monitor is to be asked for it.
    pub acting: Vec<OsdId>,
    /// Of these every object is to be copied; no log reaches back to what they have.
    pub backfill: BTreeSet<PgShard>,
    /// Those that a write must reach: `acting` and `backfill`.
    pub acting_backfill: BTreeSet<PgShard>,
}

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

/// From which version on `us` asks `best` for its log, so that every member of `all` can be sent what it lacks.
pub fn ask_best_since(infos: &Infos, us: PgShard, best: PgShard, all: &BTreeSet<PgShard>) -> EVersion {
    let (ours, best) = (&infos[&us], &infos[&best]);
    let reach = |i: &&PgInfo| i.last_update < ours.log_tail && i.last_update >= best.log_tail;
    let others = all.iter().filter(|s| **s != us).map(|s| &infos[s]).filter(reach);
    others.map(|i| i.last_update).min().unwrap_or(ours.last_update).min(ours.last_update)
}
