//! What a lone request may allocate between its decoding and its answer, over a store that allocates for itself too: the bounds are what was
//! measured, and only go down.

mod cluster;
mod copies;
mod world;

#[path = "../../base/tests/fuzzing/mod.rs"]
mod fuzzing;

use bytes::Bytes;
use cluster::{Cluster, POOL};
use copies::{Copies, Kept};
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

/// A read that a member serves which follows, beside the same read of its primary: all of an OSD's event counts, with what the store is
/// asked.
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

/// Allocations an operation of every member together, and of the queues between them: of one copy and of three, over stores in memory and
/// on devices, one operation at a time and 256. They are the same each time, so a bound is what was measured.
#[test]
fn copies_allocate_no_more_than_they_did() {
    // Copies, store, depth: a write, a read.
    const ROWS: [(usize, Kept, usize, [f64; 2]); 8] = [
        (1, Kept::Memory, 1, [16.1, 6.9]),
        (1, Kept::Memory, 256, [13.2, 4.0]),
        (1, Kept::Block, 1, [30.5, 6.9]),
        (1, Kept::Block, 256, [24.6, 4.0]),
        (3, Kept::Memory, 1, [99.3, 6.9]),
        (3, Kept::Memory, 256, [93.3, 4.0]),
        (3, Kept::Block, 1, [142.4, 6.9]),
        (3, Kept::Block, 256, [127.8, 4.0]),
    ];
    let mut over = Vec::new();
    for (copies, kept, depth, bounds) in ROWS {
        let mut group = Copies::new(copies, kept);
        for (code, bound) in [OpCode::WRITE, OpCode::READ].into_iter().zip(bounds) {
            // What is at hand afterwards is so before.
            group.run(code, depth, 512 / depth);
            let batches = group.batches(code, depth, 1024 / depth);
            let (allocations, ()) = allocations_of(|| group.go(batches));
            let each = allocations as f64 / 1024.0;
            println!("{copies} {kept:?} {depth} {code:?}: {each:.2}");
            if each > bound {
                over.push(format!("{copies} {kept:?} {depth} {code:?}: {each:.2} > {bound}"));
            }
        }
    }
    assert!(over.is_empty(), "{over:#?}");
}
