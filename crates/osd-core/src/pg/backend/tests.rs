//! A second back end, so that what the group asks of one is asked of two before the real second one comes; and what both answer.

use super::layout::{HOLE, Layout};
use super::positions::Positions;
use crate::pg::reconcile::choose::{Infos, Placement};
use std::collections::BTreeSet;
use types::{EVersion, OsdId, PgInfo, PgShard, SpgId};

const TWO_OF_THREE: Layout = Layout::Positions(Positions { k: 2, n: 3 });

fn at(osd: OsdId, shard: i8) -> PgShard {
    PgShard::new(osd, shard)
}
/// A complete member that was last active in epoch 5, with a log from 1 to this version.
fn info(head: u64) -> PgInfo {
    let mut info = PgInfo::new(SpgId::default());
    (info.last_epoch_started, info.history.last_epoch_started) = (5, 5);
    (info.log_tail, info.last_update, info.last_complete) = (EVersion::new(5, 1), EVersion::new(5, head), EVersion::new(5, head));
    info
}

#[test]
fn members_by_their_places() {
    let osds = [4, HOLE, 7];
    assert_eq!(Layout::Copies.members(&[4, 7]).collect::<Vec<_>>(), [PgShard::whole(4), PgShard::whole(7)]);
    assert_eq!(TWO_OF_THREE.members(&osds).collect::<Vec<_>>(), [at(4, 0), at(7, 2)]);
    assert_eq!((Layout::Copies.member_of(7, &osds), TWO_OF_THREE.member_of(7, &osds)), (PgShard::whole(7), at(7, 2)));
}

#[test]
fn one_copy_is_enough_and_so_are_k_positions() {
    assert!(Layout::Copies.is_recoverable([PgShard::whole(3)].into_iter()));
    assert!(!Layout::Copies.is_recoverable([].into_iter()));
    assert!(!TWO_OF_THREE.is_recoverable([at(3, 1), at(4, 1)].into_iter()), "one position on two OSDs");
    assert!(TWO_OF_THREE.is_recoverable([at(3, 1), at(3, 2)].into_iter()), "two positions on one OSD");
    assert!(!TWO_OF_THREE.might_have_served(1, 1) && TWO_OF_THREE.might_have_served(2, 2) && !TWO_OF_THREE.might_have_served(2, 3));
}

#[test]
fn the_newest_copy_counts_and_the_oldest_position() {
    let copies: Infos = [(PgShard::whole(0), info(10)), (PgShard::whole(1), info(12)), (PgShard::whole(2), info(11))].into();
    assert_eq!(Layout::Copies.find_best(&copies, PgShard::whole(0), None, false).member, Some(PgShard::whole(1)));
    let positions: Infos = [(at(0, 0), info(11)), (at(1, 1), info(12)), (at(2, 2), info(10))].into();
    assert_eq!(TWO_OF_THREE.find_best(&positions, at(0, 0), None, false).member, Some(at(2, 2)));
    // A shorter log of an interval before is none of those that count.
    let mut old = positions.clone();
    old.get_mut(&at(2, 2)).unwrap().last_epoch_started = 4;
    assert_eq!(TWO_OF_THREE.find_best(&old, at(0, 0), None, false).member, Some(at(0, 0)));
}

#[test]
fn a_position_is_served_by_up_or_acting_or_a_stray_of_it_or_not_at_all() {
    let place = Placement { up: &[0, 1, 2], acting: &[0, 1, 2], up_primary: 0, size: 3, behind_max: 100, only_placed: false };
    let all: Infos = [(at(0, 0), info(10)), (at(1, 1), info(12)), (at(2, 2), info(11))].into();
    let choose = |infos: &Infos, place: &Placement<'_>| TWO_OF_THREE.choose_acting(infos, at(0, 0), place);
    let out = choose(&all, &place);
    assert_eq!((out.acting, out.backfill), (vec![0, 1, 2], BTreeSet::new()), "those that are ahead roll back");
    // Position 1 is filled; another OSD's copy of position 2 does not stand in for it.
    let mut gap = all.clone();
    *gap.get_mut(&at(1, 1)).unwrap() = PgInfo::new(SpgId::default());
    gap.insert(at(5, 2), info(12));
    let out = choose(&gap, &place);
    assert_eq!((out.acting, out.backfill), (vec![0, HOLE, 2], [at(1, 1)].into()));
    assert_eq!(out.acting_backfill, [at(0, 0), at(1, 1), at(2, 2)].into());
    // A stray of that position does.
    gap.insert(at(5, 1), info(12));
    assert_eq!(choose(&gap, &place).acting, [0, 5, 2]);
    assert_eq!(choose(&gap, &Placement { only_placed: true, ..place.clone() }).acting, [0, HOLE, 2]);
    // So does the one that serves now.
    gap.insert(at(6, 1), info(12));
    assert_eq!(choose(&gap, &Placement { acting: &[0, 6, 2], ..place }).acting, [0, 6, 2]);
}
