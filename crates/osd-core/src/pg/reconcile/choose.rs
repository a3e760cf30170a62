//! Whose log counts, decided by what each member tells of itself ([`PgInfo`]), and the words in which it is said which members are to
//! serve.
//!
//! Holds no log and no map: infos of a prior set are in already, and what is chosen is asked for elsewhere. Which of two logs counts, and
//! which members serve, is the back end's to say ([`crate::pg::backend::layout`]).

use crate::planted::{Bug, planted};
use std::cmp::{Ordering, Reverse};
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
/// (`osd_find_best_info_ignore_history_les`). `among`: no other member is chosen. `by_end`: of two logs of the last interval, by where
/// they end, the greater one counts.
pub fn find_best(
    infos: &Infos,
    us: PgShard,
    among: Option<&BTreeSet<PgShard>>,
    ignore_heard: bool,
    by_end: impl Fn(EVersion, EVersion) -> Ordering,
) -> Best {
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
    let order =
        |a: &(&PgShard, &PgInfo), b: &(&PgShard, &PgInfo)| by_end(a.1.last_update, b.1.last_update).then_with(|| rank(a).cmp(&rank(b)));
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
    /// As a map has it: copies have their primary first, positions may have holes. If it isn't the map's acting set, the monitor is to be
    /// asked for it.
    pub acting: Vec<OsdId>,
    /// Of these every object is to be copied; no log reaches back to what they have.
    pub backfill: BTreeSet<PgShard>,
    /// Those that a write must reach: `acting` and `backfill`.
    pub acting_backfill: BTreeSet<PgShard>,
}

/// From which version on `us` asks `best` for its log, so that every member of `all` can be sent what it lacks.
pub fn ask_best_since(infos: &Infos, us: PgShard, best: PgShard, all: &BTreeSet<PgShard>) -> EVersion {
    let (ours, best) = (&infos[&us], &infos[&best]);
    let reach = |i: &&PgInfo| i.last_update < ours.log_tail && i.last_update >= best.log_tail;
    let others = all.iter().filter(|s| **s != us).map(|s| &infos[s]).filter(reach);
    others.map(|i| i.last_update).min().unwrap_or(ours.last_update).min(ours.last_update)
}
