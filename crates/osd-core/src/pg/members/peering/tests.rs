//! The states by hand: which members are asked, which serve, and what follows what.

use super::*;
use crate::pg::backend::layout::HOLE;
use crate::pg::backend::positions::Positions;
use crate::pg::members::said::Said;
use crate::pg::work::recovery::host::Part;
use crate::pg::work::recovery::wire::Envelope;
use types::{EVersion, PgId};

/// Both kinds of back ends, as a group of one member has them: what is so for every kind is seen with each.
const BOTH: [Layout; 2] = [Layout::Copies, Layout::Positions(Positions { k: 1, n: 1 })];

struct Map {
    up: Vec<OsdId>,
    up_thru: Epoch,
    up_from: Epoch,
}
impl OsdView for Map {
    fn is_up(&self, osd: OsdId) -> bool {
        self.up.contains(&osd)
    }
    fn exists(&self, _: OsdId) -> bool {
        true
    }
    fn up_thru(&self, _: OsdId) -> Epoch {
        self.up_thru
    }
    fn up_from(&self, _: OsdId) -> Epoch {
        self.up_from
    }
    fn lost_at(&self, _: OsdId) -> Epoch {
        0
    }
}
fn mapping(epoch: Epoch, acting: &[OsdId]) -> Mapping {
    let primary = acting.first().copied().unwrap_or(-1);
    Mapping {
        epoch,
        up: acting.into(),
        acting: acting.into(),
        up_primary: primary,
        acting_primary: primary,
        size: 1,
        min_size: 1,
        pg_num: 8,
        pg_num_pending: 8,
    }
}
fn fresh(whoami: OsdId, epoch: Epoch) -> (Peering, Record) {
    fresh_of(Layout::Copies, whoami, epoch)
}
/// The first position, where there are several.
fn fresh_of(layout: Layout, whoami: OsdId, epoch: Epoch) -> (Peering, Record) {
    let pgid = SpgId { pgid: PgId::new(1, 3), shard: layout.member(whoami, 0).shard };
    let mut info = PgInfo::new(pgid);
    info.history = types::PgHistory::created(epoch, types::UTime::ZERO);
    (Peering::new(pgid, layout, whoami, mapping(epoch, &[0]), PastIntervals::default(), true, Stamp(0)), Record::new(info))
}

#[test]
fn a_new_group_of_one_gets_active_once_up_thru_shows() {
    BOTH.into_iter().for_each(group_of_one);
}
fn group_of_one(layout: Layout) {
    let (mut p, mut record) = fresh_of(layout, 0, 10);
    let (mut map, mut out) = (Map { up: vec![0], up_thru: 5, up_from: 1 }, Vec::new());
    p.step(&mut record, false, &map, Stamp(1), &mut out);
    assert_eq!((p.state(), out.as_slice()), (State::WaitUpThru, &[PeerOut::UpThru(10)][..]));
    map.up_thru = 10;
    p.keep_interval(mapping(11, &[0]));
    p.step(&mut record, false, &map, Stamp(2), &mut out);
    assert_eq!(out[1], PeerOut::Activate);
    assert!(p.activated(p.whoami(), &mut record, Stamp(3)) && !p.is_clean());
    p.recovered(&mut record);
    assert!(p.is_clean() && p.bits() == pg_state::ACTIVE | pg_state::CLEAN);
    assert_eq!(record.info().history.last_epoch_clean, 11);
}

#[test]
fn the_old_member_is_asked_and_serves_on() {
    BOTH.into_iter().for_each(old_member);
}
fn old_member(layout: Layout) {
    let old = layout.member(0, 0);
    let (mut p, mut record) = fresh_of(layout, 1, 10);
    p.keep_interval(mapping(10, &[0]));
    let map = Map { up: vec![0, 1], up_thru: 10, up_from: 1 };
    p.start_interval(&mut record, mapping(20, &[1]), &map, Stamp(0));
    let mut out = Vec::new();
    p.step(&mut record, false, &map, Stamp(1), &mut out);
    assert_eq!((p.state(), out.as_slice()), (State::GetInfo, &[PeerOut::Query(old)][..]));
    let mut theirs = record.info().clone();
    // Its log does not reach back to what we have, which is nothing.
    (theirs.last_update, theirs.log_tail) = (EVersion::new(12, 7), EVersion::new(12, 3));
    theirs.last_epoch_started = 12;
    p.heard(old, theirs, &mut record, Stamp(1));
    p.step(&mut record, false, &map, Stamp(2), &mut out);
    assert_eq!(out[1], PeerOut::PgTemp(vec![0]));
    assert!(!p.is_active());
    // With no member of that interval there, nothing is served.
    p.start_interval(&mut record, mapping(21, &[1]), &map, Stamp(3));
    p.step(&mut record, false, &Map { up: vec![1], up_thru: 30, up_from: 1 }, Stamp(4), &mut out);
    assert_eq!(p.state(), State::Down);
}

/// The interval that is seen first behind a gap in the maps began within the gap: its members may have written there, whatever up_thru says of the
/// epoch that we count it from.
#[test]
fn members_of_the_first_map_behind_a_gap_may_have_written_before_it() {
    BOTH.into_iter().for_each(behind_a_gap);
}
fn behind_a_gap(layout: Layout) {
    let (mut p, mut record) = fresh_of(layout, 2, 10);
    p.keep_interval(mapping(10, &[0]));
    // up_thru of the primary lies in the gap: 15.
    let map = Map { up: vec![0, 1, 2], up_thru: 15, up_from: 1 };
    p.start_interval(&mut record, mapping(20, &[1]), &map, Stamp(0));
    let spans = |p: &Peering| p.past.intervals.iter().map(|i| (i.first, i.last)).collect::<Vec<_>>();
    assert_eq!((spans(&p), record.info().history.same_interval_since), (vec![(10, 10), (11, 19)], 20));
    // Maps without a gap: up_thru decides. osd.1 is asked.
    p.start_interval(&mut record, mapping(21, &[2]), &map, Stamp(1));
    assert_eq!(spans(&p), [(10, 10), (11, 19)]);
    let mut out = Vec::new();
    p.step(&mut record, false, &map, Stamp(2), &mut out);
    assert_eq!((p.state(), out.as_slice()), (State::GetInfo, &[0, 1].map(|osd| PeerOut::Query(layout.member(osd, 0)))[..]));
}

#[test]
fn a_group_that_is_to_be_merged_gets_quiet_and_clean() {
    for (seed, pending, role) in [(7, 7, Some(MergeRole::Source)), (3, 7, Some(MergeRole::Target)), (2, 7, None), (3, 8, None)] {
        let pgid = SpgId::whole(PgId::new(1, seed));
        let mut info = PgInfo::new(pgid);
        info.history = types::PgHistory::created(10, types::UTime::ZERO);
        let mut record = Record::new(info);
        let at = Mapping { pg_num_pending: pending, ..mapping(20, &[0]) };
        let mut p = Peering::new(pgid, Layout::Copies, 0, mapping(10, &[0]), PastIntervals::default(), false, Stamp(0));
        assert_eq!(p.is_new_interval(&at), role.is_some());
        let map = Map { up: vec![0], up_thru: 30, up_from: 1 };
        p.start_interval(&mut record, at, &map, Stamp(0));
        p.step(&mut record, false, &map, Stamp(1), &mut Vec::new());
        p.activated(p.whoami(), &mut record, Stamp(2));
        p.recovered(&mut record);
        assert_eq!((p.pending_merge(), p.is_premerge(), p.is_active()), (role, role.is_some(), role.is_none()));
        assert!(p.is_clean() && record.info().history.last_epoch_clean == 20);
    }
}

#[test]
fn children_of_a_split() {
    assert_eq!(children(0, 4, 8), vec![4]);
    assert_eq!(children(1, 1, 4), Vec::<u32>::new());
    assert_eq!(children(0, 1, 4), vec![1, 2, 3]);
    assert_eq!(children(2, 6, 8), vec![6]);
    assert_eq!(children(2, 3, 8), vec![6]);
    assert_eq!(parent_seed(6), 2);
}

#[test]
fn a_better_log_is_fetched_and_members_are_judged_beside_it() {
    let mut at = mapping(20, &[1, 0]);
    (at.size, at.min_size) = (2, 1);
    let (mut p, mut record) = fresh(1, 10);
    p.keep_interval(mapping(10, &[0]));
    let map = Map { up: vec![0, 1], up_thru: 30, up_from: 1 };
    p.start_interval(&mut record, at, &map, Stamp(0));
    let mut out = Vec::new();
    p.step(&mut record, false, &map, Stamp(1), &mut out);
    let mut theirs = record.info().clone();
    (theirs.last_update, theirs.last_complete, theirs.last_epoch_started) = (EVersion::new(12, 7), EVersion::new(12, 7), 12);
    p.heard(PgShard::whole(0), theirs.clone(), &mut record, Stamp(1));
    p.step(&mut record, false, &map, Stamp(1), &mut out);
    let asked = PeerOut::QueryLog(PgShard::whole(0), Some(EVersion::ZERO));
    assert_eq!(
        (p.state(), p.best(), out.as_slice()),
        (State::GetLog, Some(PgShard::whole(0)), &[PeerOut::Query(PgShard::whole(0)), asked][..])
    );
    record = Record::new(PgInfo { last_update: theirs.last_update, last_epoch_started: 12, ..record.info().clone() });
    p.merged(theirs, Default::default(), Stamp(2));
    p.step(&mut record, false, &map, Stamp(2), &mut out);
    assert_eq!((p.state(), out.last()), (State::Activating, Some(&PeerOut::Activate)));
    assert!(!p.activated(p.whoami(), &mut record, Stamp(3)) && p.activated(PgShard::whole(0), &mut record, Stamp(3)) && p.is_active());
    // Writes go to members, and to no former one.
    let (former, sent) = (PgShard::whole(5), EVersion::new(20, 8));
    p.judged(former, Member::unasked(PgInfo { last_update: EVersion::new(9, 1), ..record.info().clone() }));
    p.sent_to_members(sent);
    let known = |member| p.judged_member(member).map(|known| known.info.last_update);
    assert_eq!((known(PgShard::whole(0)), known(former)), (Some(sent), Some(EVersion::new(9, 1))));
}

#[test]
fn a_member_that_was_started_again_is_asked_for_its_log_anew() {
    BOTH.into_iter().for_each(started_again);
}
fn started_again(layout: Layout) {
    let (mut p, mut record) = fresh_of(layout, 1, 10);
    p.keep_interval(mapping(10, &[0]));
    let mut map = Map { up: vec![0, 1], up_thru: 30, up_from: 1 };
    p.start_interval(&mut record, mapping(20, &[1]), &map, Stamp(0));
    let (former, mut out) = (layout.member(0, 0), Vec::new());
    p.step(&mut record, false, &map, Stamp(1), &mut out);
    let theirs =
        PgInfo { last_update: EVersion::new(12, 7), last_complete: EVersion::new(12, 7), last_epoch_started: 12, ..record.info().clone() };
    p.heard(former, theirs, &mut record, Stamp(1));
    let mut asks = |p: &mut Peering, map: &Map| {
        let mut out = Vec::new();
        p.step(&mut record, false, map, Stamp(2), &mut out);
        out
    };
    let asked = [PeerOut::QueryLog(former, Some(EVersion::ZERO))];
    assert_eq!(asks(&mut p, &map), asked);
    assert_eq!((p.state(), p.best(), asks(&mut p, &map)), (State::GetLog, Some(former), Vec::new()), "once");
    // It went down and came up between two looks at the map.
    map.up_from = 22;
    assert_eq!(asks(&mut p, &map), asked);
    assert_eq!(asks(&mut p, &map), []);
}

#[test]
fn a_former_member_is_told_to_let_go_once_for_each_of_its_lives() {
    let (mut p, mut record) = fresh(0, 10);
    let mut map = Map { up: vec![0, 5], up_thru: 10, up_from: 1 };
    p.step(&mut record, false, &map, Stamp(1), &mut Vec::new());
    assert!(p.activated(p.whoami(), &mut record, Stamp(2)));
    p.recovered(&mut record);
    let (stray, theirs) = (PgShard::new(5, p.whoami().shard), PgInfo { last_update: EVersion::new(9, 1), ..record.info().clone() });
    let theirs = PgInfo { history: types::PgHistory::created(9, types::UTime::ZERO), ..theirs };
    let mut told = |p: &mut Peering, map: &Map| {
        p.heard(stray, theirs.clone(), &mut record, Stamp(3));
        p.take_strays(map)
    };
    assert_eq!(told(&mut p, &map), [stray]);
    assert_eq!(told(&mut p, &map), [], "it says so with each map");
    map.up_from = 12;
    assert_eq!(told(&mut p, &map), [stray], "it was started again before it let go");
    assert_eq!(told(&mut p, &map), []);
}

/// Two of three positions, of which osd.0 has the first; the pool serves with two.
fn positions(acting: &[OsdId]) -> (Peering, Record) {
    let layout = Layout::Positions(Positions { k: 2, n: 3 });
    let at = Mapping { size: 3, min_size: 2, ..mapping(10, acting) };
    let (_, record) = fresh_of(layout, 0, 10);
    (Peering::new(record.info().pgid, layout, 0, at, PastIntervals::default(), true, Stamp(0)), record)
}

#[test]
fn a_group_with_a_hole_is_active_and_undersized() {
    let (mut p, mut record) = positions(&[0, HOLE, 2]);
    let (map, mut out) = (Map { up: vec![0, 2], up_thru: 10, up_from: 1 }, Vec::new());
    let last = PgShard::new(2, 2);
    p.step(&mut record, false, &map, Stamp(1), &mut out);
    assert_eq!((p.state(), out.as_slice()), (State::GetInfo, &[PeerOut::Query(last)][..]));
    p.heard(last, record.info().clone(), &mut record, Stamp(1));
    p.step(&mut record, false, &map, Stamp(2), &mut out);
    assert_eq!((p.state(), p.members().as_slice()), (State::Activating, &[PgShard::new(0, 0), last][..]));
    assert!(!p.activated(p.whoami(), &mut record, Stamp(3)) && p.activated(last, &mut record, Stamp(3)) && p.is_active());
    p.recovered(&mut record);
    assert!(!p.is_clean() && p.bits() & pg_state::UNDERSIZED != 0);
    // Some messages name no place.
    assert_eq!([0, 2, 7].map(|osd| p.member_on(osd)), [p.whoami(), last, PgShard::new(7, 0)]);
}

/// An OSD is two members, one of which is filled: a target's answer names neither.
#[test]
fn the_answer_of_a_target_is_the_targets() {
    let layout = Layout::Positions(Positions { k: 2, n: 3 });
    let at = Mapping { size: 3, min_size: 2, up: [0, 2, 2].as_slice().into(), ..mapping(10, &[0, 2, HOLE]) };
    let (_, mut record) = fresh_of(layout, 0, 10);
    let mut p = Peering::new(record.info().pgid, layout, 0, at, PastIntervals::default(), true, Stamp(0));
    let (map, mut out) = (Map { up: vec![0, 2], up_thru: 10, up_from: 1 }, Vec::new());
    let (serves, target) = (PgShard::new(2, 1), PgShard::new(2, 2));
    p.step(&mut record, false, &map, Stamp(1), &mut out);
    p.heard(serves, record.info().clone(), &mut record, Stamp(1));
    p.heard(target, PgInfo { last_backfill: types::HObject::min(), ..record.info().clone() }, &mut record, Stamp(1));
    p.step(&mut record, false, &map, Stamp(2), &mut out);
    assert_eq!(p.targets().iter().collect::<Vec<_>>(), [&target]);
    let envelope = Envelope { pgid: record.info().pgid, from: PgShard::new(-1, 0), map_epoch: 10, min_epoch: 10 };
    let from = |part: Part| Said::Parts(envelope, vec![part]).sender(PgShard::new(2, 0), &p);
    assert_eq!(from(Part::Finished), target);
    assert_eq!(from(Part::Remove(Vec::new())), serves);
}

#[test]
fn positions_that_are_no_whole_together_are_waited_for() {
    let (mut p, mut record) = positions(&[0, 1, 2]);
    let map = |up: &[OsdId]| Map { up: up.into(), up_thru: 10, up_from: 1 };
    let at = |epoch, acting: &[OsdId]| Mapping { size: 3, min_size: 2, ..mapping(epoch, acting) };
    p.start_interval(&mut record, at(11, &[0, HOLE, HOLE]), &map(&[0, 1, 2]), Stamp(0));
    let mut out = Vec::new();
    p.step(&mut record, false, &map(&[0]), Stamp(1), &mut out);
    assert_eq!((p.state(), p.blocked_by.len()), (State::Down, 2), "one copy would be enough");
    // Another one is up, wherever the map has it now: it is asked, and two are a whole.
    p.step(&mut record, false, &map(&[0, 2]), Stamp(2), &mut out);
    assert_eq!((p.state(), out.last()), (State::GetInfo, Some(&PeerOut::Query(PgShard::new(2, 2)))));
    p.heard(PgShard::new(2, 2), record.info().clone(), &mut record, Stamp(2));
    p.step(&mut record, false, &map(&[0, 2]), Stamp(3), &mut out);
    assert_eq!((p.state(), out.last()), (State::GetLog, Some(&PeerOut::PgTemp(vec![0, HOLE, 2]))), "a stray stands in");
}

#[test]
fn a_primary_that_is_ahead_goes_back_to_the_oldest_position() {
    let (mut p, record) = positions(&[0, 1, 2]);
    let (map, mut out) = (Map { up: vec![0, 1, 2], up_thru: 10, up_from: 1 }, Vec::new());
    let ended = |head| {
        let head = EVersion::new(9, head);
        PgInfo { last_update: head, last_complete: head, last_epoch_started: 9, ..record.info().clone() }
    };
    let mut ours = Record::new(ended(8));
    p.step(&mut ours, false, &map, Stamp(1), &mut out);
    p.heard(PgShard::new(1, 1), ended(7), &mut ours, Stamp(1));
    p.heard(PgShard::new(2, 2), ended(6), &mut ours, Stamp(1));
    p.step(&mut ours, false, &map, Stamp(2), &mut out);
    assert_eq!((p.state(), p.best(), p.members().len()), (State::GetLog, Some(PgShard::new(2, 2)), 3));
}
