//! `humboldt`: a Ceph cluster in one program. Parses the command line and hands over; see `args` for what there is.

#![forbid(unsafe_code)]

mod args;
mod bench;
mod daemons;
mod folder;
mod processes;
mod regroup;
mod signals;
mod up;

use args::{Args, Command};
use clap::Parser;
use std::process::ExitCode;

/// glibc's allocator took 30 % of a 4 KiB write's CPU at depth 256 (perf, rados bench of 16.2), growing its heap most of all.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Up(args) => up::up(&args),
        Command::Mon(args) => daemons::mon(&args),
        Command::Osd(args) => daemons::osd(&args),
        Command::Bench(args) => bench::bench(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("humboldt: {e:#}");
            ExitCode::FAILURE
        }
    }
}
