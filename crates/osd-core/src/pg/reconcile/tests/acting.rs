//! Whose log counts and which members serve: infos by hand.

use super::super::choose::{Infos, Placement, ask_best_since};
use super::super::member::{Ask, Bring, Member, ask};
use super::v;
use crate::pg::backend::layout::Layout;
use std::collections::BTreeSet;
use types::{EVersion, HObject, PgInfo, PgShard, SpgId};

fn osd(n: i32) -> PgShard {
    PgShard::whole(n)
}
/// A complete member that was last active in `started`, with a log of epoch 5.
fn info(started: u32, tail: u64, head: u64) -> PgInfo {
    let mut info = PgInfo::new(SpgId::default());
    (info.last_epoch_started, info.history.last_epoch_started) = (started, started);
    (info.log_tail, info.last_update, info.last_complete) = (v(5, tail), v(5, head), v(5, head));
    info
}
fn infos(of: &[PgInfo]) -> Infos {
    of.iter().enumerate().map(|(n, info)| (osd(n as i32), info.clone())).collect()
}
fn best(of: &[PgInfo]) -> Option<i32> {
    Layout::Copies.find_best(&infos(of), osd(1), None, false).member.map(|s| s.osd)
}

#[test]
fn the_log_that_counts() {
    assert_eq!(best(&[info(5, 1, 10), info(5, 1, 12)]), Some(1), "the longest");
    assert_eq!(best(&[info(6, 1, 10), info(5, 1, 12)]), Some(0), "of those that were active last");
    assert_eq!(best(&[info(5, 1, 10), info(5, 3, 10)]), Some(0), "that reaches back further");
    let missing = PgInfo { last_complete: v(5, 3), ..info(5, 1, 10) };
    assert_eq!(best(&[info(5, 1, 10), missing.clone()]), Some(0), "whose objects are there");
    assert_eq!(best(&[info(5, 1, 10), info(5, 1, 10), info(5, 1, 10)]), Some(1), "ours");
    assert_eq!(best(&[info(5, 1, 10), missing, info(5, 1, 10)]), Some(0), "the first");
    let filling = PgInfo { last_backfill: HObject::min(), ..info(6, 1, 12) };
    assert_eq!(best(&[info(6, 1, 10), filling.clone()]), Some(0), "not of one that is being filled");
    // What it took part in is known to others as well, and then only such a one will do.
    assert_eq!(best(&[info(5, 1, 10), filling]), None, "the only one of the last active interval is being filled");
    assert_eq!(best(&[]), None);

    let mut heard = info(5, 1, 10);
    heard.history.last_epoch_started = 6;
    let found = Layout::Copies.find_best(&infos(&[heard.clone()]), osd(1), None, false);
    assert_eq!((found.member, found.heard_only), (None, true));
    let found = Layout::Copies.find_best(&infos(&[heard]), osd(1), None, true);
    assert_eq!((found.member, found.heard_only), (Some(osd(0)), false));
    let among = BTreeSet::from([osd(0)]);
    let found = Layout::Copies.find_best(&infos(&[info(5, 1, 10), info(5, 1, 12)]), osd(1), Some(&among), false);
    assert_eq!(found.member, Some(osd(0)), "shorter than another's, but nothing acknowledged is lost");
}

const PLACE: Placement<'_> = Placement { up: &[0, 1, 2], acting: &[0, 1, 2], up_primary: 0, size: 3, behind_max: 100, only_placed: false };

fn shards(of: impl IntoIterator<Item = i32>) -> BTreeSet<PgShard> {
    of.into_iter().map(osd).collect()
}

#[test]
fn members_that_are_to_serve() {
    let all = [info(5, 10, 20), info(5, 10, 20), info(5, 10, 20), info(5, 5, 20), info(5, 5, 19)];
    let out = Layout::Copies.choose_acting(&infos(&all), osd(0), &PLACE);
    assert_eq!((out.acting, out.backfill), (vec![0, 1, 2], shards([])));

    // A member that the log doesn't reach is filled; another that is left serves meanwhile.
    let mut gap = all.clone();
    gap[2] = info(4, 1, 9);
    let out = Layout::Copies.choose_acting(&infos(&gap), osd(0), &PLACE);
    assert_eq!((out.acting, out.backfill, out.acting_backfill), (vec![0, 1, 3], shards([2]), shards([0, 1, 2, 3])));
    let out = Layout::Copies.choose_acting(&infos(&gap), osd(0), &Placement { only_placed: true, ..PLACE });
    assert_eq!((out.acting, out.backfill), (vec![0, 1], shards([2])));
    let out = Layout::Copies.choose_acting(&infos(&gap), osd(0), &Placement { acting: &[0, 1, 4], ..PLACE });
    assert_eq!(out.acting, [0, 1, 4], "who serves goes on");

    // The first of up lacks everything: the member that has the log leads.
    let mut empty = all.clone();
    empty[0] = PgInfo::new(SpgId::default());
    let out = Layout::Copies.choose_acting(&infos(&empty), osd(1), &PLACE);
    assert_eq!((out.acting, out.backfill), (vec![1, 2, 3], shards([0])));
    // It lacks little: it leads. Much: not.
    let mut behind = all.clone();
    behind[0] = info(5, 10, 15);
    assert_eq!(Layout::Copies.choose_acting(&infos(&behind), osd(1), &PLACE).acting, [0, 1, 2]);
    assert_eq!(Layout::Copies.choose_acting(&infos(&behind), osd(1), &Placement { behind_max: 4, ..PLACE }).acting, [1, 0, 2]);
    // The longest log is a stray's: it leads only if up is far behind, and then the last of up doesn't serve.
    let mut stray = all.clone();
    stray[3] = info(5, 5, 300);
    assert_eq!(Layout::Copies.choose_acting(&infos(&stray), osd(3), &PLACE).acting, [3, 0, 1]);

    // A member within reach of the best log, not of ours: the log is asked for from there on.
    let mut far = all.clone();
    (far[1], far[2]) = (info(5, 1, 21), info(5, 1, 7));
    let far = infos(&far);
    let out = Layout::Copies.choose_acting(&far, osd(1), &PLACE);
    assert_eq!((&out.acting[..], out.backfill), (&[0, 1, 2][..], shards([])));
    assert_eq!(ask_best_since(&far, osd(0), osd(1), &out.acting_backfill), v(5, 7));
    assert_eq!(ask_best_since(&infos(&all), osd(0), osd(1), &shards([0, 1, 2])), v(5, 20));
}

#[test]
fn what_a_replica_is_asked_and_sent() {
    let ours = info(5, 10, 20);
    let bring = |theirs: PgInfo, backfills| Member::unasked(theirs).bring(&ours, backfills);
    assert_eq!((ask(&ours, &ours), bring(ours.clone(), false)), (Ask::Nothing, Bring::Info));
    let missing = PgInfo { last_complete: v(5, 12), ..ours.clone() };
    assert_eq!((ask(&ours, &missing), bring(missing, false)), (Ask::Whole, Bring::Info));
    let unlike = PgInfo { last_backfill: HObject::min(), ..ours.clone() };
    assert_eq!(bring(unlike, true), Bring::Backfill, "its log ends where ours does, and is another one");
    let behind = info(5, 0, 15);
    assert_eq!((ask(&ours, &behind), bring(behind, false)), (Ask::Since(v(5, 0)), Bring::Log(v(5, 15))));
    let apart = info(5, 1, 9);
    assert_eq!((ask(&ours, &apart), bring(apart, true)), (Ask::Nothing, Bring::Backfill));
    let fresh = PgInfo::new(SpgId::default());
    assert_eq!((ask(&ours, &fresh), bring(fresh.clone(), true)), (Ask::Nothing, Bring::Backfill));
    assert_eq!(Member::unasked(fresh.clone()).bring(&fresh, false), Bring::Log(EVersion::ZERO), "it is made by an empty log");
    // A backfill goes on if the log reaches its member, from wherever it was.
    let half = PgInfo { last_backfill: super::object(3), ..info(5, 1, 15) };
    assert_eq!(bring(half, true), Bring::Log(v(5, 15)));
    let none = PgInfo { last_backfill: HObject::min(), ..info(5, 1, 15) };
    assert_eq!((ask(&ours, &none), bring(none, true)), (Ask::Nothing, Bring::Backfill));
    assert_eq!(bring(info(5, 1, 15), true), Bring::Backfill, "a log met it, but not the one that counts");
}
