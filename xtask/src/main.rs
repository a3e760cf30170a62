//! The project's chores. `cargo xtask` lists them.
//!
//! Holds what installs stock clients, starts clusters and judges what the clients say. Knows our server only as a program: it uses
//! none of its crates.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a shell: it has clocks, files and threads

mod args;
mod browser;
mod clients;
mod cluster;
mod commands;
mod compare;
mod conformance;
mod crash;
mod crowd;
mod docs;
mod figures;
mod folders;
mod gateway;
mod guide;
mod lanes;
mod lint;
mod load;
mod loaded_reads;
mod loops;
mod mds;
mod netns;
mod pace;
mod package;
mod persistent_client;
mod run;
mod sbom;
mod script;
mod share;
mod stock;
mod story;
mod suites;
mod times;
mod troubleshooting;
mod units;
mod vectors;
mod workload;

use anyhow::Result;
use args::{Args, Chore};
use clap::Parser;
use crash::Look;

fn main() -> std::process::ExitCode {
    match chore(Args::parse().chore) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn chore(chore: Chore) -> Result<()> {
    match chore {
        Chore::Test(a) => suites::test(suites::Asked {
            all: a.all,
            share: a.share,
            only: a.only.as_deref(),
            allow_skips: a.allow_skips,
            beside_load: a.beside_load,
        }),
        Chore::Lint => lint::cores(),
        Chore::Clients(a) => suites::clients(a.allow_skips, a.only.as_deref()),
        Chore::StockDaemons { long, only } => suites::stock_daemons(long, only.as_deref()),
        Chore::RecordCommands { conf, out } => compare::record(&conf, &out),
        Chore::RecordCaps { conf, out } => suites::record_caps(&conf, &out),
        Chore::Conformance(a) if a.rewrite => conformance::rewrite(&run::root().join("COMPATIBILITY.md")),
        Chore::Conformance(a) => {
            let mut manner = conformance::Manner::default();
            manner.features = a.features.as_deref().unwrap_or(manner.features);
            manner.store = a.store.as_deref().unwrap_or(manner.store);
            (manner.among_stock, manner.copies) = (a.among_stock, a.copies);
            let sources = conformance::Sources {
                s3_tests: a.s3_tests.as_deref(),
                s3_whole: a.s3_whole,
                pjdfstest: a.pjdfstest.as_deref(),
                xfstests: a.xfstests.as_deref(),
                ceph: a.ceph_source.as_deref(),
            };
            conformance::conformance(a.suite.as_deref(), a.release.as_deref(), a.only.as_deref(), manner, sources)
        }
        Chore::Fuzz { seconds } => suites::fuzz(seconds),
        Chore::Rogue { samples } => suites::rogue(samples),
        Chore::LiveFuzz { times } => suites::live_fuzz(times),
        Chore::Crowd { seconds, rate } => built(|| crowd::crowd(seconds, rate)),
        Chore::LoadedReads { runs } => built(|| loaded_reads::loaded_reads(runs)),
        Chore::CrashStates { from, count, bugs, faults } => match (bugs, faults) {
            (true, _) => crash::states(Look::Bugs, 0, 0),
            (_, true) => crash::states(Look::Faults, from.unwrap_or(0), count.unwrap_or(20)),
            _ => crash::states(Look::States, from.unwrap_or(1000), count.unwrap_or(1_000_000)),
        },
        Chore::Vectors(a) => vectors::vectors(a.ours.as_deref(), &a.stock, a.count, a.seed),
        Chore::Sim { args } => crash::sim(&args.iter().map(String::as_str).collect::<Vec<_>>()),
        Chore::KillLoop { cycles } => built(|| suites::kill_loop(cycles)),
        Chore::KillInTurns { rounds } => built(|| suites::kill_in_turns(rounds)),
        Chore::KillCopies { cycles } => built(|| suites::kill_copies(cycles)),
        Chore::Thrash { mixes, ops, seed, count, only_kills } => built(|| suites::thrash(&mixes, ops, seed..seed + count, only_kills)),
        Chore::RotMatrix { count, servers } => built(|| suites::rot_matrix(count, !servers)),
        Chore::ImageCheck { copies } => built(|| suites::image_check(copies)),
        Chore::Package { install: false } => package::package().map(drop),
        Chore::Package { install: true } => suites::package_installs(),
        Chore::Docs { update, only, allow_skips } => docs::docs(update, only.as_deref(), allow_skips),
        Chore::Figures(a) if a.draw => figures::draw(),
        Chore::GatewayFigures(a) => suites::figures_gateways(a.pairs, a.seconds, a.idle, a.only.as_deref()),
        Chore::Figures(a) => suites::figures(&a),
    }
}

/// A chore that needs the program under test.
fn built(chore: impl FnOnce() -> Result<()>) -> Result<()> {
    cluster::build()?;
    chore()
}
