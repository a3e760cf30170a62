//! `humboldt`: a Ceph cluster in one program. Parses the command line and hands over; see `args` for what there is.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a shell: it has clocks, files and threads
#![deny(unsafe_code)]

mod advice;
mod again;
mod allocator;
mod args;
mod bench;
mod buckets;
mod ceph;
mod connect;
mod daemons;
mod files_limit;
mod folder;
mod help_files;
mod keeper;
mod kept;
mod lab;
mod members;
mod memory;
mod networks;
mod osd_daemon;
mod pinned;
mod processes;
mod progress;
mod rados;
mod ready;
mod regroup;
mod replace;
mod services;
mod shared_devices;
mod signals;
mod spread;
mod store_bench;
mod store_tool;
mod stores;
mod top;
mod up;

use args::{Args, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    allocator::tune();
    files_limit::raise();
    kept::end_with_keeper();
    let command = Args::parse().command;
    // What a daemon is for is not what it prints.
    let is_daemon = matches!(command, Command::Up(_) | Command::Mon(_) | Command::Osd(_));
    if is_daemon {
        kept::close_memory();
        say::in_background();
    }
    let code = run(command);
    say::flush();
    match say::heard() {
        Err(e) if !is_daemon => {
            say::eprintln!("humboldt: standard output: {e}");
            ExitCode::FAILURE
        }
        _ => code,
    }
}

fn run(command: Command) -> ExitCode {
    let is_osd = matches!(command, Command::Osd(_));
    let result = match command {
        Command::Up(args) => up::up(&args),
        Command::Mon(args) => daemons::mon(&args),
        Command::Osd(args) => osd_daemon::osd(&args),
        Command::Bench(args) => match args.store {
            Some(kind) => store_bench::bench(&args, kind),
            None => bench::bench(&args),
        },
        Command::Ceph(args) => return ceph::run(&args.words),
        Command::Rados(args) => return rados::run(&args.words),
        Command::Ready(args) => ready::ready(&args),
        Command::Top(args) => top::top(&args),
        Command::Lab(args) => return lab::run(&args),
        Command::Store(args) => store_tool::run(&args),
        Command::RestoreMon(args) => daemons::restore_mon(&args.dir),
        Command::Completions { shell } => help_files::completions(shell),
        Command::ManPages { dir } => help_files::man_pages(&dir),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say::eprintln!("humboldt: {e:#}");
            advice::print(&e);
            match &e {
                e if osd::is_of_disk(e) => ExitCode::from(osd_daemon::STORE_FAILED),
                e if osd::is_of_damage(e) && is_osd => ExitCode::from(osd_daemon::STORE_DAMAGED),
                _ => ExitCode::FAILURE,
            }
        }
    }
}
