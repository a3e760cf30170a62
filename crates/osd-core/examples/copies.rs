//! Prints what a 4 KiB operation costs all OSDs of a group together, from the primary's entry to the last member's word: one and three
//! copies, over stores in memory and on devices in memory, one operation at a time and 256.
//!
//! `cargo run --release -p osd-core --example copies [COPIES STORE DEPTH OPERATION]`; to count instructions, of one row,
//! under `valgrind --tool=callgrind --toggle-collect='*measured*'`: they are those between two counts of operations, divided by the
//! difference. The variable `OPERATIONS` says how many there are.

#[path = "../tests/cluster/mod.rs"]
mod cluster;
#[path = "../tests/copies/mod.rs"]
mod copies;
#[path = "../tests/world/mod.rs"]
mod world;

use copies::{Copies, Kept};
use types::OpCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// CPU time of this thread: a machine that others use too does not count against it.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn main() {
    let only: Vec<String> = std::env::args().skip(1).collect();
    let operations: usize = std::env::var("OPERATIONS").map_or(5120, |n| n.parse().expect("a number"));
    for copies in [1, 3] {
        for kept in [Kept::Memory, Kept::Block] {
            for depth in [1, 256] {
                for (what, code) in [("write", OpCode::WRITE), ("read", OpCode::READ)] {
                    let row = [copies.to_string(), format!("{kept:?}").to_lowercase(), depth.to_string(), what.to_string()];
                    if !only.is_empty() && only != row {
                        continue;
                    }
                    let mut group = Copies::new(copies, kept);
                    let batches = group.batches(code, depth, operations.div_ceil(depth));
                    let was = cpu_ns();
                    group.go(batches);
                    println!("{:30} {:6.0} ns of CPU", row.join(" "), (cpu_ns() - was) as f64 / operations as f64);
                }
            }
        }
    }
}
