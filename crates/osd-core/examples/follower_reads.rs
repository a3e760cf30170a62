//! Prints what a 4 KiB read costs from an OSD's entry to its reply, of a group's primary and of a member that follows it, over block stores on
//! disks in memory: nothing of sockets, frames and devices is in it.
//!
//! `cargo run --release -p osd-core --example follower_reads [OBJECTS [OPS [primary|follower [MEMORY_MIB]]]]`; to count instructions, of one of
//! them only, under `valgrind --tool=callgrind --toggle-collect='*measured*'`. With little memory the bytes come from the device.

#[path = "../tests/cluster/mod.rs"]
mod cluster;
#[path = "../tests/world/mod.rs"]
mod world;

use base::Rng;
use bytes::Bytes;
use cluster::{Cluster, POOL};
use disk::{MemDisks, Order};
use messages::{InOp, Message, RawMessage};
use osd_core::{ConnId, Effect, Event};
use store_block::{BlockStore, Config};
use types::osd_op::osd_flag;
use types::{OpCode, OsdOp, PgId, features};
use world::received;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const OBJECT: u64 = 1 << 20;
const BLOCK: u64 = 4096;
/// Requests that one read of a socket brings.
const BATCH: usize = 14;

/// CPU time of this thread: a machine that others use too does not count against it.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}
fn name(object: u64) -> String {
    format!("rbd_data.10226b8b4567.{object:016x}")
}

#[inline(never)]
fn measured(c: &mut Cluster, osd: usize, batch: Vec<RawMessage>, out: &mut Vec<Effect>) {
    let (wanted, clock) = (batch.len(), c.clock());
    let osd = &mut c.nodes[osd].as_mut().expect("it runs").osd;
    for msg in batch {
        osd.handle(Event::Message { conn: ConnId(1), msg }, clock, out);
    }
    while out.iter().filter(|effect| matches!(effect, Effect::Send { .. })).count() < wanted {
        osd.handle(Event::TurnEnd, clock, out);
    }
}

fn run(c: &mut Cluster, what: &str, osd: usize, objects: u64, ops: u64, seed: u64) {
    let (mut rng, mut ns, mut done) = (Rng::new(seed), 0, 0);
    while done < ops {
        let batch: Vec<RawMessage> = (0..BATCH)
            .map(|_| {
                let (object, at) = (rng.below(objects), rng.below(OBJECT / BLOCK) * BLOCK);
                let mut m = c.request(&name(object), vec![InOp::new(OsdOp::range(OpCode::READ, at, BLOCK), Bytes::new())]);
                m.flags |= osd_flag::BALANCE_READS;
                received(&m.encode(features::SUPPORTED))
            })
            .collect();
        let (mut out, was) = (Vec::new(), cpu_ns());
        measured(c, osd, batch, &mut out);
        ns += cpu_ns() - was;
        done += BATCH as u64;
        let bytes = out.iter().map(|effect| if let Effect::Send { msg, .. } = effect { msg.data_len() as u64 } else { 0 });
        assert_eq!(bytes.sum::<u64>(), BATCH as u64 * BLOCK, "each request has its answer");
    }
    println!("{what:10} {:6.0} ns of CPU a read", ns as f64 / done as f64);
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default| args.get(i).map_or(default, |a| a.parse().expect("a number"));
    let (objects, ops, memory) = (number(0, 40), number(1, 100_000), number(3, 16) << 20);
    let only = args.get(2).map(String::as_str);
    let mut c = Cluster::over(1, 3, 3, 2, 1, move || {
        let disks = MemDisks::new(&[256 << 20, 32 << 20, 64 << 20]);
        BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
        disks.set_order(Order::AtOnce, 1);
        Box::new(BlockStore::open(Config { memory: memory as usize, ..Config::default() }, Box::new(disks)).expect("it opens"))
    });
    let mut rng = Rng::new(1);
    // That every member has the last write is told with the next one.
    for object in 0..=objects {
        let mut data = vec![0; OBJECT as usize];
        rng.fill(&mut data);
        let op = InOp::new(OsdOp::range(OpCode::WRITE, 0, OBJECT), Bytes::from(data));
        assert_eq!(c.one(&name(object), vec![op]).expect("an answer").result, 0);
    }
    c.synchronise();
    let primary = c.primary(PgId::new(POOL, 0)) as usize;
    // In turns: what the machine does besides meets both.
    for round in 0..if only.is_none() { 4 } else { 1 } {
        for (what, osd) in [("primary", primary), ("follower", (primary + 1) % 3)] {
            if only.is_none_or(|only| only == what) {
                run(&mut c, what, osd, objects, ops, round);
            }
        }
    }
}
