//! Prints what a 4 KiB request costs from the OSD's entry to its reply, over the memory store: nothing of sockets and frames is in it.
//!
//! `cargo run --release -p osd-core --example small_ops [OBJECTS [OPS [read|write|create]]]`; to count instructions, in one kind of request only,
//! under `valgrind --tool=callgrind --toggle-collect='*measured*'`.

#[path = "../tests/world/mod.rs"]
mod world;

use base::Rng;
use bytes::BytesMut;
use messages::{InOp, Message, RawMessage};
use osd_core::{ConnId, Effect, Event, Osd};
use std::time::Instant;
use types::{OpCode, OsdOp, features};
use world::World;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BLOCK: usize = 4096;
const GROUPS: u32 = 32;
/// Requests that one read of a socket brings.
const BATCH: usize = 14;

/// What this thread has had of the processor: a machine that others use too does not count against it.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn request(w: &mut World, code: OpCode, object: u64) -> RawMessage {
    let data = if code == OpCode::READ { Vec::new() } else { vec![object as u8; BLOCK] };
    let op = InOp { indata: data.into(), ..InOp::new(OsdOp::range(code, 0, BLOCK as u64), Default::default()) };
    w.request(&format!("benchmark_data_host_4711_object{object}"), vec![op]).encode(features::SUPPORTED)
}

/// As they come out of a socket: all of a batch shares one buffer.
fn received(batch: &[RawMessage]) -> Vec<RawMessage> {
    let mut buf = BytesMut::with_capacity(64 << 10);
    batch.iter().for_each(|m| m.data.iter().chain([&m.front]).for_each(|piece| buf.extend_from_slice(piece)));
    let cut = |m: &RawMessage| {
        let data = m.data_len();
        let frame = buf.split_to(data + m.front.len()).freeze();
        let piece = if data > 0 { vec![frame.slice(..data)] } else { Vec::new() };
        RawMessage { data: piece, front: frame.slice(data..), ..m.clone() }
    };
    batch.iter().map(cut).collect()
}

#[inline(never)]
fn measured(w: &mut World, batch: Vec<RawMessage>, replies: &mut u64) {
    let clock = w.clock();
    for msg in batch {
        w.osd.handle(Event::Message { conn: ConnId(1), msg }, clock, &mut w.out);
    }
    w.osd.handle(Event::TurnEnd, clock, &mut w.out);
    *replies += w.out.drain(..).filter(|e| matches!(e, Effect::Send { .. })).count() as u64;
}

fn run(w: &mut World, what: &str, code: OpCode, objects: impl Iterator<Item = u64>) {
    let (mut ops, mut replies, mut ns, mut cpu) = (0, 0, 0, 0);
    let mut objects = objects.peekable();
    while objects.peek().is_some() {
        let batch: Vec<_> = objects.by_ref().take(BATCH).map(|o| request(w, code, o)).collect();
        let batch = received(&batch);
        ops += batch.len() as u64;
        let (start, was) = (Instant::now(), cpu_ns());
        measured(w, batch, &mut replies);
        ns += start.elapsed().as_nanos();
        cpu += cpu_ns() - was;
    }
    assert_eq!(ops, replies, "each request has its answer");
    println!("{what:48} {:6.0} ns, {:6.0} ns of CPU", ns as f64 / ops as f64, cpu as f64 / ops as f64);
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default| args.get(i).map_or(default, |a| a.parse().expect("a number"));
    let (objects, ops, only) = (number(0, 100_000), number(1, 300_000), args.get(2).map(String::as_str));
    let store = Box::new(store_mem::MemStore::new(objects * 16_384 + (1 << 30)));
    let osd = Osd::new(osd_core::OsdSetup { config: Vec::new(), ..world::setup() }, store);
    let mut w = World::with_osd(osd, Default::default(), GROUPS);
    if only.is_none_or(|o| o == "create") {
        run(&mut w, "create", OpCode::WRITE, 0..objects);
    } else {
        for object in 0..objects {
            let msg = request(&mut w, OpCode::WRITE, object);
            w.feed(Event::Message { conn: ConnId(1), msg });
            w.out.clear();
        }
    }
    let mut rng = Rng::new(1);
    if only.is_none_or(|o| o == "read") {
        run(&mut w, "random read", OpCode::READ, std::iter::repeat_with(|| rng.below(objects)).take(ops as usize));
    }
    if only.is_none_or(|o| o == "write") {
        run(&mut w, "random overwrite", OpCode::WRITE, std::iter::repeat_with(|| rng.below(objects)).take(ops as usize));
    }
}
