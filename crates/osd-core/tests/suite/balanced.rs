//! Reads that a client sends to a member that follows: served while the primary may serve, of objects that are there and at rest; else the client is sent
//! to the primary.

use crate::cluster::{Cluster, POOL};
use crate::world::{received, watch, write_full};
use bytes::Bytes;
use denc::Denc;
use maps::map_flags;
use messages::{InOp, MOSDOp, MOSDPGPCT, Message};
use osd_core::{ConnId, Event};
use types::errno::{EAGAIN, ENOENT};
use types::osd_op::{OpCode, PglsArgs, osd_flag, watch_op};
use types::{HObject, OsdOp, PgId, SpgId, features};

const PG: PgId = PgId { pool: POOL, seed: 0 };

fn read() -> Vec<InOp> {
    vec![InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new())]
}
fn hold(c: &Cluster, osd: usize, holds: bool) {
    c.nodes[osd].as_ref().unwrap().store.borrow_mut().holds_commits = holds;
}
/// All that happens without time passing.
fn quiet(c: &mut Cluster) {
    while c.step() {}
}
fn ask(c: &mut Cluster, osd: usize, m: &MOSDOp) -> Option<(i32, Bytes)> {
    c.feed(osd, Event::Message { conn: ConnId(1), msg: received(&m.encode(features::SUPPORTED)) });
    let at = c.replies.iter().position(|r| r.tid == m.tid)?;
    let reply = c.replies.remove(at);
    Some((reply.result, reply.ops.first().map(|op| op.outdata.clone()).unwrap_or_default()))
}
fn balanced(c: &mut Cluster, osd: usize, name: &str, flag: u32) -> Option<(i32, Bytes)> {
    let mut m = c.request(name, read());
    m.flags |= flag;
    ask(c, osd, &m)
}
fn served(c: &mut Cluster, osd: usize, name: &str) -> Result<Bytes, i32> {
    let (result, data) = balanced(c, osd, name, osd_flag::BALANCE_READS).expect("a balanced read is answered");
    if result < 0 { Err(-result) } else { Ok(data) }
}
/// Three members, the primary first; and an object "a" that is written and at rest.
fn group(seed: u64) -> (Cluster, Vec<usize>) {
    let mut c = Cluster::new(seed, 3, 3, 2, 1);
    let primary = c.primary(PG) as usize;
    let members = std::iter::once(primary).chain((0..3).filter(|osd| *osd != primary)).collect();
    for name in ["a", "b", "rest"] {
        assert_eq!(c.one(name, vec![write_full(b"1")]).unwrap().result, 0);
    }
    c.synchronise();
    (c, members)
}

#[test]
fn a_member_that_follows_serves_what_is_at_rest() {
    let (mut c, members) = group(3);
    for member in &members[1..] {
        for flag in [osd_flag::BALANCE_READS, osd_flag::LOCALIZE_READS] {
            assert_eq!(balanced(&mut c, *member, "a", flag), Some((0, Bytes::from_static(b"1"))));
        }
        assert_eq!(balanced(&mut c, *member, "a", 0), None, "a read that is not balanced belongs to the primary");
        assert_eq!(served(&mut c, *member, "nothing"), Err(ENOENT));
        // What does more than to read.
        let start = HObject::min().to_bytes(0);
        let lists = InOp::new(OsdOp::with_pgls(OpCode::PGNLS, PglsArgs { count: 10, start_epoch: 0 }), start);
        let watchers = InOp::new(OsdOp::new(OpCode::LIST_WATCHERS), Bytes::new());
        let others = [
            vec![write_full(b"2")],
            vec![watch(watch_op::WATCH, 1)],
            vec![watchers],
            vec![lists],
            [read(), vec![write_full(b"2")]].concat(),
        ];
        for ops in others {
            let mut m = c.request("a", ops);
            m.flags |= osd_flag::BALANCE_READS;
            assert_eq!(ask(&mut c, *member, &m).map(|(result, _)| result), Some(-EAGAIN), "{:?}", m.ops[0].op.code);
        }
        // Sent by a map of before the interval: its client sends it again.
        let mut m = c.request("a", read());
        m.flags |= osd_flag::BALANCE_READS;
        m.map_epoch = 1;
        assert_eq!(ask(&mut c, *member, &m), None);
    }
    // The primary serves it like any other.
    assert_eq!(served(&mut c, members[0], "a"), Ok(Bytes::from_static(b"1")));
    assert_eq!(c.errors, [""; 0]);
}

/// A write that one member has and another has not is shown by none of them.
fn a_write_in_flight_is_not_shown() {
    let (mut c, members) = group(4);
    let (fast, slow) = (members[1], members[2]);
    hold(&c, slow, true);
    let write = c.request("a", vec![write_full(b"2")]);
    c.give(&write);
    quiet(&mut c);
    assert!(c.replies.is_empty());
    assert_eq!(served(&mut c, fast, "a"), Err(EAGAIN));
    assert_eq!(served(&mut c, slow, "a"), Err(EAGAIN));
    assert_eq!(served(&mut c, fast, "b"), Ok(Bytes::from_static(b"1")), "of other objects nothing is in flight");
    hold(&c, slow, false);
    c.feed(slow, Event::TurnEnd);
    quiet(&mut c);
    assert_eq!(c.replies.pop().map(|r| (r.tid, r.result)), Some((write.tid, 0)));
    // That every member has it is told with the next write.
    assert_eq!(c.one("rest", vec![write_full(b"2")]).unwrap().result, 0);
    assert_eq!(served(&mut c, fast, "a"), Ok(Bytes::from_static(b"2")));
    assert_eq!(served(&mut c, slow, "a"), Ok(Bytes::from_static(b"2")));
}

/// The primary is gone: its members serve no longer than it could have.
fn a_member_serves_no_longer_than_its_primary() {
    let (mut c, members) = group(5);
    assert_eq!(served(&mut c, members[1], "a"), Ok(Bytes::from_static(b"1")));
    let stopped = c.nodes[members[0]].take();
    let mut seconds = 0;
    while served(&mut c, members[1], "a").is_ok() {
        c.tick();
        quiet(&mut c);
        seconds += 1;
        assert!(seconds <= 16, "a lease lasts 16 s");
    }
    assert_eq!(served(&mut c, members[1], "a"), Err(EAGAIN));
    drop(stopped);
}

/// A member that lacks an object does not serve it, nor what it had of it before.
fn what_a_member_lacks_it_does_not_serve() {
    let (mut c, members) = group(6);
    let away = members[2];
    c.kill(away);
    c.mark_down(away);
    c.settle();
    assert_eq!(c.one("a", vec![write_full(b"2")]).unwrap().result, 0);
    c.publish(|m| m.flags |= map_flags::NORECOVER);
    c.start(away);
    c.settle();
    c.synchronise();
    assert_eq!(served(&mut c, away, "a"), Err(EAGAIN));
    assert_eq!(served(&mut c, away, "b"), Ok(Bytes::from_static(b"1")));
    c.publish(|m| m.flags &= !map_flags::NORECOVER);
    c.settle();
    c.synchronise();
    assert_eq!(served(&mut c, away, "a"), Ok(Bytes::from_static(b"2")));
}

/// An object that is read again and again is at hand, and shown as it was written last.
fn what_is_at_hand_is_what_was_written_last() {
    let (mut c, members) = group(7);
    for text in ["22", "333", ""] {
        let was = served(&mut c, members[1], "a");
        for member in [members[1], members[2], members[1], members[1]] {
            assert_eq!(served(&mut c, member, "a"), was);
        }
        assert_eq!(c.one("a", vec![write_full(text.as_bytes())]).unwrap().result, 0);
        assert_eq!(c.one("rest", vec![write_full(text.as_bytes())]).unwrap().result, 0);
        assert_eq!(served(&mut c, members[1], "a"), Ok(Bytes::from(text)));
    }
}

/// The object is written while its member's store fetches bytes for a read: the answer is one of both texts, or
/// that the primary is to be asked; the first one by what the store had fetched.
#[test]
fn bytes_that_come_are_those_that_were_asked_for() {
    let (mut by_ticket, mut first, mut second) = (0, 0, 0);
    for seed in 0..40 {
        let (mut c, members) = group(seed);
        let (member, mut m) = (members[1], c.request("a", read()));
        m.flags |= osd_flag::BALANCE_READS;
        let store = c.nodes[member].as_ref().unwrap().store.clone();
        store.borrow_mut().fetch(seed);
        store.borrow_mut().keeps_nothing = seed % 2 == 1;
        let msg = received(&m.encode(features::SUPPORTED));
        c.feed(member, Event::Message { conn: ConnId(1), msg });
        for name in ["a", "rest"] {
            assert_eq!(c.one(name, vec![write_full(b"22")]).unwrap().result, 0);
        }
        while !c.replies.iter().any(|reply| reply.tid == m.tid) {
            c.feed(member, Event::TurnEnd);
        }
        let reply = c.replies.iter().find(|reply| reply.tid == m.tid).expect("waited for");
        match (reply.result, reply.ops.first().map(|op| &op.outdata[..])) {
            (0, Some(b"1")) => first += 1,
            (0, Some(b"22")) => second += 1,
            (result, _) if result == -EAGAIN => {}
            other => panic!("seed {seed}: {other:?}"),
        }
        by_ticket += store.borrow().given_by_ticket.get();
    }
    println!("{first} and {second} answers, {by_ticket} by their tickets");
    assert!(by_ticket > 0 && first > 0, "{first} {second} {by_ticket}");
}

/// As primaries of 19.2 and later do where no write follows soon.
#[test]
fn a_primary_may_say_without_a_write_what_every_member_has() {
    let (mut c, members) = group(8);
    let member = members[1];
    // Ours says it to no OSD of 18.2.
    c.publish(|m| members.iter().for_each(|osd| m.osd_xinfo[*osd].features = features::SUPPORTED));
    c.settle();
    assert_eq!(c.one("a", vec![write_full(b"2")]).unwrap().result, 0);
    assert_eq!(served(&mut c, member, "a"), Err(EAGAIN), "that every member has it is not told yet");
    let committed_to = c.nodes[members[0]].as_ref().unwrap().osd.pgs().next().unwrap().record().info().last_update;
    let (map_epoch, pgid) = (c.map.epoch, SpgId::whole(PG));
    let told = MOSDPGPCT { map_epoch, min_epoch: map_epoch, pgid, committed_to }.encode(features::SUPPORTED);
    c.feed(member, Event::Osd { osd: members[2] as i32, msg: received(&told) });
    assert_eq!(served(&mut c, member, "a"), Err(EAGAIN), "it is the primary's to say");
    c.feed(member, Event::Osd { osd: members[0] as i32, msg: received(&told) });
    assert_eq!(served(&mut c, member, "a"), Ok(Bytes::from_static(b"2")));
    assert_eq!(c.errors, [""; 0]);
}
/// With the next lease: the object that a group was given last is not the primary's for ever. An OSD of before 20.2 is not told.
#[test]
fn members_serve_what_was_written_last_though_no_write_follows() {
    let (mut c, members) = group(9);
    c.publish(|m| m.osd_xinfo[members[2]].features = features::SUPPORTED);
    c.settle();
    assert_eq!(c.one("a", vec![write_full(b"2")]).unwrap().result, 0);
    assert_eq!(served(&mut c, members[1], "a"), Err(EAGAIN), "that every member has it is not told yet");
    let mut seconds = 0;
    while served(&mut c, members[1], "a").is_err() {
        c.tick();
        quiet(&mut c);
        seconds += 1;
        assert!(seconds <= 9, "a lease is renewed each 8 s");
    }
    assert_eq!(served(&mut c, members[1], "a"), Ok(Bytes::from_static(b"2")));
    assert_eq!(served(&mut c, members[2], "a"), Err(EAGAIN), "18.2 does not know the message");
    assert_eq!(c.errors, [""; 0]);
}
#[test]
fn a_member_shows_nothing_that_may_be_undone() {
    a_write_in_flight_is_not_shown();
}
#[test]
fn a_lease_that_is_over_is_over_for_members() {
    a_member_serves_no_longer_than_its_primary();
}
#[test]
fn a_missing_object_is_the_primarys_to_serve() {
    what_a_member_lacks_it_does_not_serve();
}
#[test]
fn an_object_at_hand_is_as_it_was_written_last() {
    what_is_at_hand_is_what_was_written_last();
}

#[cfg(debug_assertions)]
#[test]
fn broken_promises_of_replicas_are_noticed() {
    use osd_core::planted::{Bug, plant};
    let cases: [(Bug, fn()); 4] = [
        (Bug::ReplicaReadsInFlight, a_write_in_flight_is_not_shown),
        (Bug::ReplicaReadsAfterLease, a_member_serves_no_longer_than_its_primary),
        (Bug::ReplicaReadsMissing, what_a_member_lacks_it_does_not_serve),
        (Bug::ReplicaKeepsContexts, what_is_at_hand_is_what_was_written_last),
    ];
    for (bug, case) in cases {
        plant(Some(bug));
        let noticed = std::panic::catch_unwind(case).is_err();
        plant(None);
        assert!(noticed, "{bug:?}");
    }
}
