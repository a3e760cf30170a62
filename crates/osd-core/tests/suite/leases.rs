//! Leases between OSDs that are joined by queues: a primary that was stopped and goes on serves nothing, and the next one waits for it.

use crate::cluster;
use crate::cluster::{Cluster, POOL};
use crate::world::{received, write_full};
use bytes::Bytes;
use maps::osd_state;
use messages::osd_mon::failure_flag;
use messages::{InOp, MOSDFailure, Message};
use osd_core::{ConnId, Effect, Event, HbNet};
use std::time::Duration;
use types::osd_op::OpCode;
use types::{OsdOp, PgId, features, pg_state};

const PG: PgId = PgId { pool: POOL, seed: 0 };

fn bits(c: &Cluster, osd: usize) -> u64 {
    c.nodes[osd].as_ref().unwrap().osd.pgs().next().unwrap().state_bits()
}
fn read() -> InOp {
    InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new())
}
/// All that happens without time passing.
fn quiet(c: &mut Cluster) {
    while c.step() {}
}

#[test]
fn a_stopped_primary_serves_nothing_and_the_next_one_waits_for_its_lease() {
    let mut c = Cluster::new(3, 3, 3, 2, 1);
    assert_eq!(c.one("a", vec![write_full(b"1")]).map(|r| r.result), Some(0));
    let old = c.primary(PG) as usize;
    let stale = c.request("a", vec![read()]);
    let stopped = c.nodes[old].take();
    // Down, but nothing says that it is dead.
    c.publish(|m| {
        m.osd_state[old] &= !osd_state::UP;
        m.osd_info[old].down_at = m.epoch;
    });
    quiet(&mut c);
    let next = c.primary(PG) as usize;
    let write = c.request("a", vec![write_full(b"2")]);
    c.give(&write);
    quiet(&mut c);
    assert!(bits(&c, next) & (pg_state::ACTIVE | pg_state::WAIT) == pg_state::ACTIVE | pg_state::WAIT, "{:?}", c.states());
    assert!(c.replies.is_empty());
    let mut waited_s = 0;
    while bits(&c, next) & pg_state::WAIT != 0 {
        c.tick();
        quiet(&mut c);
        waited_s += 1;
        assert!(waited_s <= 17, "a lease lasts 16 s");
    }
    assert!(waited_s > 1 && c.replies.iter().any(|r| r.tid == write.tid && r.result == 0));
    // It goes on where it stood, and knows nothing of all that.
    c.nodes[old] = stopped;
    let answered = c.replies.len();
    c.feed(old, Event::Message { conn: ConnId(1), msg: received(&stale.encode(features::SUPPORTED)) });
    c.feed(old, Event::TurnEnd);
    quiet(&mut c);
    assert_eq!(c.replies.len(), answered, "a stale read");
    assert_eq!(c.read("a").unwrap(), b"2");
}

/// Both members that had acknowledged the lease are killed and come back, while the primary that had it is stopped and nothing says that it is dead.
#[test]
fn members_that_restart_have_not_forgotten_the_lease() {
    // In an interval of their own, of which all are left, they may have waited for it before.
    [false, true].into_iter().for_each(restarts_within_a_lease);
}
fn restarts_within_a_lease(waited_before: bool) {
    let mut c = Cluster::new(6, 3, 3, 2, 1);
    assert_eq!(c.one("a", vec![write_full(b"1")]).map(|r| r.result), Some(0));
    let old = c.primary(PG) as usize;
    let stopped = c.nodes[old].take();
    let rest: Vec<usize> = (0..3).filter(|osd| *osd != old).collect();
    let is_lost = |c: &mut Cluster| {
        c.publish(|m| {
            m.osd_state[old] &= !osd_state::UP;
            m.osd_info[old].down_at = m.epoch;
        });
    };
    if waited_before {
        is_lost(&mut c);
        quiet(&mut c);
        let next = c.primary(PG) as usize;
        assert!(bits(&c, next) & (pg_state::ACTIVE | pg_state::WAIT) == pg_state::ACTIVE | pg_state::WAIT, "{:?}", c.states());
    }
    rest.iter().for_each(|osd| c.kill(*osd));
    rest.iter().for_each(|osd| c.mark_down(*osd));
    if !waited_before {
        is_lost(&mut c);
    }
    rest.iter().for_each(|osd| c.start(*osd));
    let mut waited_s = 0;
    let next = loop {
        quiet(&mut c);
        let next = c.primary(PG);
        if next >= 0 && bits(&c, next as usize) & pg_state::ACTIVE != 0 {
            break next as usize;
        }
        c.tick();
        waited_s += 1;
        assert!(waited_s < 10, "{:?}", c.states());
    };
    let write = c.request("a", vec![write_full(b"2")]);
    c.give(&write);
    quiet(&mut c);
    assert!(bits(&c, next) & pg_state::WAIT != 0 && c.replies.is_empty(), "waited before: {waited_before}: {:?}", c.states());
    // The primary goes on within its lease: what it says is still true.
    c.nodes[old] = stopped;
    while bits(&c, next) & pg_state::WAIT != 0 {
        c.tick();
        quiet(&mut c);
        waited_s += 1;
        assert!(waited_s <= 17, "a lease lasts 16 s");
    }
    assert!(c.replies.iter().any(|r| r.tid == write.tid && r.result == 0));
    // When all are back and say so, nothing waits.
    (0..3).filter(|osd| *osd != old).for_each(|osd| c.kill(osd));
    rest.iter().for_each(|osd| c.mark_down(*osd));
    rest.iter().for_each(|osd| c.start(*osd));
    c.settle();
    assert!(bits(&c, c.primary(PG) as usize) & pg_state::WAIT == 0, "{:?}", c.states());
}

/// A group that is laggy, since one of its replicas stands still: its primary, that replica, and what stands still.
fn with_a_silent_replica(seed: u64) -> (Cluster, usize, usize, Option<cluster::Node>) {
    let mut c = Cluster::new(seed, 3, 3, 2, 1);
    assert_eq!(c.one("a", vec![write_full(b"1")]).map(|r| r.result), Some(0));
    let primary = c.primary(PG) as usize;
    let silent = (primary + 1) % 3;
    let stopped = c.nodes[silent].take();
    for _ in 0..20 {
        c.tick();
        quiet(&mut c);
    }
    assert!(bits(&c, primary) & pg_state::LAGGY != 0, "{:?}", c.states());
    (c, primary, silent, stopped)
}

/// A replica hangs, and nothing says that it is dead. The other one has acknowledged leases ever since, which were of no use to the primary.
#[test]
fn a_primary_that_loses_a_silent_replica_serves_at_once() {
    let (mut c, primary, silent, stopped) = with_a_silent_replica(3);
    let write = c.request("a", vec![write_full(b"2")]);
    c.give(&write);
    c.publish(|m| {
        m.osd_state[silent] &= !osd_state::UP;
        m.osd_info[silent].down_at = m.epoch;
    });
    quiet(&mut c);
    assert_eq!(c.primary(PG) as usize, primary);
    assert!(bits(&c, primary) & (pg_state::ACTIVE | pg_state::WAIT) == pg_state::ACTIVE, "{:?}", c.states());
    assert!(c.replies.iter().any(|r| r.tid == write.tid && r.result == 0), "answered with no time passing");
    drop(stopped);
}

#[test]
fn nothing_waits_for_a_primary_that_ended_in_order() {
    let mut c = Cluster::new(3, 3, 3, 2, 1);
    assert_eq!(c.one("a", vec![write_full(b"1")]).map(|r| r.result), Some(0));
    let old = c.primary(PG) as usize;
    let stale = c.request("a", vec![read()]);
    c.feed(old, Event::Shutdown);
    // It is up in the map that it has, and says nothing any more.
    c.feed(old, Event::Message { conn: ConnId(1), msg: received(&stale.encode(features::SUPPORTED)) });
    c.feed(old, Event::TurnEnd);
    assert!(c.replies.is_empty());
    quiet(&mut c);
    let next = c.primary(PG) as usize;
    assert!(next != old);
    let write = c.request("a", vec![write_full(b"2")]);
    c.give(&write);
    quiet(&mut c);
    assert!(bits(&c, next) & (pg_state::ACTIVE | pg_state::WAIT) == pg_state::ACTIVE, "{:?}", c.states());
    assert!(c.replies.iter().any(|r| r.tid == write.tid && r.result == 0), "answered with no time passing");
    c.feed(old, Event::Message { conn: ConnId(1), msg: received(&stale.encode(features::SUPPORTED)) });
    c.feed(old, Event::TurnEnd);
    assert!(c.replies.iter().all(|r| r.tid != stale.tid), "a stale read");
}

#[test]
fn a_member_that_is_silent_makes_the_group_laggy() {
    let (mut c, primary, silent, stopped) = with_a_silent_replica(4);
    let m = c.request("a", vec![read()]);
    c.give(&m);
    quiet(&mut c);
    assert!(c.replies.is_empty());
    c.nodes[silent] = stopped;
    for _ in 0..10 {
        c.tick();
        quiet(&mut c);
    }
    assert!(bits(&c, primary) & pg_state::LAGGY == 0, "{:?}", c.states());
    assert!(c.replies.iter().any(|r| r.tid == m.tid && r.result == 0), "what waited is answered");
}

#[test]
fn a_cut_heartbeat_is_tried_again_and_a_refused_one_reported() {
    let mut c = Cluster::new(5, 3, 3, 2, 1);
    c.settle();
    let addrs = c.map.hb_back_addrs[1].clone();
    let cut_at = c.clock();
    let osd = &mut c.nodes[0].as_mut().unwrap().osd;
    let mut clock = cut_at;
    let mut out = Vec::new();
    osd.handle(Event::HeartbeatCut { net: HbNet::Back, addrs: addrs.clone() }, clock, &mut out);
    assert!(matches!(&out[..], [Effect::SendHeartbeat { net: HbNet::Back, addrs: to, .. }] if *to == addrs), "at once: {out:?}");
    // That dial meets the socket of a process that is about to be gone.
    out.clear();
    osd.handle(Event::HeartbeatCut { net: HbNet::Back, addrs: addrs.clone() }, clock, &mut out);
    assert!(out.is_empty(), "{out:?}");
    clock.mono = osd.due_at().expect("it is dialled again");
    assert_eq!(clock.mono, cut_at.mono + Duration::from_millis(10));
    osd.handle(Event::Due, clock, &mut out);
    assert!(matches!(&out[..], [Effect::SendHeartbeat { net: HbNet::Back, addrs: to, .. }] if *to == addrs), "{out:?}");
    let mut heard = |event, after_s| {
        let (mut clock, mut out) = (clock, Vec::new());
        clock.mono = clock.mono + Duration::from_secs(after_s);
        osd.handle(event, clock, &mut out);
        out
    };
    let is_reported = |out: Vec<Effect>| {
        let [Effect::SendMon(msg)] = &out[..] else { panic!("{out:?}") };
        let m = MOSDFailure::decode(&received(msg)).unwrap();
        assert_eq!((m.target_osd, m.flags), (1, failure_flag::FAILED | failure_flag::IMMEDIATE));
    };
    is_reported(heard(Event::PeerRefused { addrs: addrs.clone() }, 0));
    // What members say to each other goes to another port; one report is enough.
    let out = heard(Event::PeerRefused { addrs: c.map.cluster_addrs[2].clone() }, 0);
    assert!(matches!(&out[..], [Effect::SendMon(_)]), "{out:?}");
    assert!(heard(Event::PeerRefused { addrs: c.map.cluster_addrs[1].clone() }, 5).is_empty());
    // The monitors may have lost it in an election: the next ping is refused, too.
    is_reported(heard(Event::PeerRefused { addrs }, 6));
}
