//! What a lone request may allocate between its decoding and its answer, over a store that allocates for itself too: the bounds are what was
//! measured, and only go down.

mod cluster;
mod world;

#[path = "../../base/tests/fuzzing/mod.rs"]
mod fuzzing;

use bytes::Bytes;
use cluster::{Cluster, POOL};
use fuzzing::allocations_of;
use messages::{InOp, MOSDOp, Message, RawMessage};
use osd_core::{ConnId, Effect, Event};
use types::osd_op::{OpCode, osd_flag};
use types::{OsdOp, PgId, features};
use world::{Kind, World, received};

const BLOCK: u64 = 4096;

fn raw(m: &MOSDOp) -> RawMessage {
    received(&m.encode(features::SUPPORTED))
}
fn write(w: &mut World, name: &str) -> RawMessage {
    let op = InOp::new(OsdOp::range(OpCode::WRITE, 0, BLOCK), Bytes::from(vec![7; BLOCK as usize]));
    raw(&w.request(name, vec![op]))
}
fn read(w: &mut World, name: &str) -> RawMessage {
    raw(&w.request(name, vec![InOp::new(OsdOp::range(OpCode::READ, 0, BLOCK), Bytes::new())]))
}

/// Allocations from a request's arrival to its answer, on average over `requests`.
fn average(w: &mut World, requests: Vec<RawMessage>) -> f64 {
    let clock = w.clock();
    w.out.clear();
    w.out.reserve(16);
    let n = requests.len();
    let (allocations, ()) = allocations_of(|| {
        for msg in requests {
            w.osd.handle(Event::Message { conn: ConnId(1), msg }, clock, &mut w.out);
            w.osd.handle(Event::TurnEnd, clock, &mut w.out);
            while w.store.borrow().is_fetching() {
                w.osd.handle(Event::TurnEnd, clock, &mut w.out);
            }
            assert!(matches!(w.out[..], [Effect::Send { .. }]), "one answer");
            w.out.clear();
        }
    });
    allocations as f64 / n as f64
}

#[test]
fn lone_requests_allocate_no_more_than_they_did() {
    let mut over = Vec::new();
    for (kind, bounds) in [(Kind::Memory, [9.2, 26.5, 9.1, 22.0]), (Kind::Fetching(1), [9.2, 33.5, 9.5, 37.0])] {
        let mut w = World::new(kind, 8);
        let name = |i: u64| format!("benchmark_data_host_4711_object{i}");
        for i in 0..2000 {
            let msg = write(&mut w, &name(i));
            average(&mut w, vec![msg]);
        }
        let again: Vec<_> = (0..500).map(|_| write(&mut w, &name(1))).collect();
        let new: Vec<_> = (5000..5500).map(|i| write(&mut w, &name(i))).collect();
        let read_again: Vec<_> = (0..500).map(|_| read(&mut w, &name(1))).collect();
        let read_once: Vec<_> = (0..500).map(|i| read(&mut w, &name(i))).collect();
        let of = [again, new, read_again, read_once].map(|requests| average(&mut w, requests));
        println!("{kind:?}: {of:?}");
        over.extend(of.iter().zip(bounds).filter(|(n, bound)| **n > *bound).map(|(n, bound)| format!("{kind:?}: {n} > {bound}")));
    }
    assert!(over.is_empty(), "{over:?}");
}

/// A read that a member serves which follows, beside the same read of its primary: all of an OSD's event counts, with what the store is asked.
#[test]
fn a_read_of_a_follower_allocates_what_one_of_its_primary_does() {
    let mut c = Cluster::new(1, 3, 3, 2, 1);
    let primary = c.primary(PgId::new(POOL, 0)) as usize;
    let name = |i: u64| format!("benchmark_data_host_4711_object{i}");
    // That every member has the last write is told with the next one.
    for i in 0..21 {
        let op = InOp::new(OsdOp::range(OpCode::WRITE, 0, BLOCK), Bytes::from(vec![7; BLOCK as usize]));
        assert_eq!(c.one(&name(i), vec![op]).expect("an answer").result, 0);
    }
    c.synchronise();
    let mut of = |osd: usize, rounds: u64| {
        let requests: Vec<RawMessage> = (0..20 * rounds)
            .map(|n| {
                let mut m = c.request(&name(n / rounds), vec![InOp::new(OsdOp::range(OpCode::READ, 0, BLOCK), Bytes::new())]);
                m.flags |= osd_flag::BALANCE_READS;
                raw(&m)
            })
            .collect();
        let n = requests.len();
        let (allocations, ()) = allocations_of(|| {
            for msg in requests {
                c.feed(osd, Event::Message { conn: ConnId(1), msg });
            }
        });
        assert!(c.replies.drain(..).filter(|reply| reply.result == 0).count() == n, "each is answered");
        allocations as f64 / n as f64
    };
    let follower = (primary + 1) % 3;
    // Objects that were read before are at hand.
    let [(_, theirs), (_, ours)] = [primary, follower].map(|osd| (of(osd, 2), of(osd, 10)));
    println!("the primary takes {theirs} allocations a read, a follower {ours}");
    assert!(ours <= theirs * 1.05, "{ours} > {theirs}");
}
