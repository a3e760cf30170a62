//! Orders of a group's places by hand, and random histories of a whole group beside stock members and under a stock primary.

use super::*;
use crate::planted;
use std::panic::{AssertUnwindSafe, catch_unwind};

mod leader;
mod member;
mod world;

const A: PgShard = PgShard::whole(1);
const B: PgShard = PgShard::whole(2);

fn done(f: impl FnOnce(&mut Vec<Do>)) -> Vec<Do> {
    let mut out = Vec::new();
    f(&mut out);
    out
}

#[test]
fn places_are_asked_for_one_after_the_other_and_given_back() {
    let mut r = Reservation::default();
    assert_eq!(done(|out| r.want(Kind::Backfill, 100, vec![B, A], out)), [Do::AskOurs(100)]);
    assert_eq!(done(|out| r.granted(A, out)), [], "nobody was asked");
    assert_eq!(done(|out| r.local_granted(out)), [Do::Ask(A, Kind::Backfill, 100)]);
    assert_eq!(done(|out| r.granted(B, out)), [], "another one was asked");
    assert_eq!(done(|out| r.granted(A, out)), [Do::Ask(B, Kind::Backfill, 100)]);
    assert_eq!(done(|out| r.granted(B, out)), []);
    assert!(r.holds(Kind::Backfill));
    let [a, b] = [A, B].map(|member| Do::GiveBack(member, Kind::Backfill));
    assert_eq!(done(|out| r.revoked(B, None, out)), [a, b, Do::GiveOursBack, Do::AskOurs(100)], "it keeps its place for us until then");
    assert_eq!(done(|out| r.local_granted(out)), [Do::Ask(A, Kind::Backfill, 100)]);
    assert_eq!(done(|out| r.revoked(A, None, out)), [], "it says so of the place that it gave before");
    assert_eq!(done(|out| r.refused(A, Stamp(5), out)), [Do::GiveOursBack]);
    assert_eq!(r.state(), State::Refused(Kind::Backfill, Stamp(5)));
    assert_eq!(done(|out| r.pass(Stamp(4), out)), []);
    assert_eq!(done(|out| r.pass(Stamp(5), out)), [Do::AskOurs(100)]);
    r.local_granted(&mut Vec::new());
    r.granted(A, &mut Vec::new());
    r.granted(B, &mut Vec::new());
    assert_eq!(done(|out| r.preempted(out)), [a, b, Do::AskOurs(100)]);
    assert_eq!(done(|out| r.end_interval(out)), [Do::GiveOursBack]);
    assert_eq!(done(|out| r.release(out)), []);
}

#[test]
fn a_place_that_is_not_granted_yet_is_given_back_when_it_is() {
    let mut r = Reservation::default();
    let begun = |r: &mut Reservation, kind| {
        r.want(kind, 180, vec![A], &mut Vec::new());
        done(|out| r.local_granted(out))
    };
    assert_eq!(begun(&mut r, Kind::Recovery), [Do::Ask(A, Kind::Recovery, 180)]);
    assert_eq!(done(|out| r.release(out)), [Do::GiveOursBack], "it would ignore that its place is not needed");
    // Needed again: the grant that is owed counts.
    assert_eq!(begun(&mut r, Kind::Recovery), [], "it would end if it were asked twice");
    assert_eq!(done(|out| r.granted(A, out)), []);
    assert!(r.holds(Kind::Recovery));
    assert_eq!(done(|out| r.release(out)), [Do::GiveBack(A, Kind::Recovery), Do::GiveOursBack]);
    // Not needed when it comes.
    assert_eq!(begun(&mut r, Kind::Recovery), [Do::Ask(A, Kind::Recovery, 180)]);
    r.release(&mut Vec::new());
    assert_eq!(done(|out| r.granted(A, out)), [Do::GiveBack(A, Kind::Recovery)]);
    assert_eq!(done(|out| r.granted(A, out)), []);
    // Another kind is needed by then.
    assert_eq!(begun(&mut r, Kind::Recovery), [Do::Ask(A, Kind::Recovery, 180)]);
    assert_eq!(begun(&mut r, Kind::Backfill), []);
    assert_eq!(done(|out| r.granted(A, out)), [Do::GiveBack(A, Kind::Recovery), Do::Ask(A, Kind::Backfill, 180)]);
    assert_eq!(done(|out| r.granted(A, out)), []);
    assert!(r.holds(Kind::Backfill));
}

#[test]
fn priorities_are_ceph_s() {
    let u = Urgency { is_forced: false, is_degraded: false, serving: 3, size: 3, min_size: 2, pool: 0 };
    let of = |kind, u| priority(kind, &u);
    assert_eq!((of(Kind::Backfill, u), of(Kind::Recovery, u)), (100, 180));
    assert_eq!(of(Kind::Backfill, Urgency { is_degraded: true, ..u }), 140);
    assert_eq!(of(Kind::Backfill, Urgency { serving: 2, is_degraded: true, ..u }), 141);
    assert_eq!(of(Kind::Backfill, Urgency { serving: 1, ..u }), 221);
    assert_eq!(of(Kind::Recovery, Urgency { serving: 1, is_degraded: true, ..u }), 221);
    assert_eq!(of(Kind::Recovery, Urgency { serving: 1, ..u }), 180);
    assert_eq!((of(Kind::Backfill, Urgency { pool: 10, ..u }), of(Kind::Backfill, Urgency { pool: -10, ..u })), (110, 90));
    let forced = Urgency { is_forced: true, pool: -10, ..u };
    assert_eq!((of(Kind::Backfill, forced), of(Kind::Recovery, forced)), (254, 255));
}

#[test]
fn members_are_asked_as_a_stock_one_takes_it_and_places_come_and_go() {
    (0..2000).for_each(world::run);
}

#[test]
fn planted_bugs_of_places_are_found() {
    for bug in [Bug::KeepRevoked, Bug::AskTwice, Bug::RevokeUngranted] {
        let found = (0..2000).any(|seed| planted::with(bug, || catch_unwind(AssertUnwindSafe(|| world::run(seed)))).is_err());
        assert!(found, "{bug:?} is not noticed");
    }
}
