//! The project's chores. `cargo xtask` lists them.
//!
//! Holds the run of all tests with its table of times, packages, the book, kept figures, and the verbs of the suites. Knows our server only as a program:
//! it uses none of its crates. Absent: cases with stock programs (`suites`).

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a shell: it has clocks, files and threads

mod arch;
mod args;
mod arm64;
mod crash;
mod docs;
mod drift;
mod drift_page;
mod figures;
mod licences;
mod lint;
mod measure;
mod package;
mod release;
mod samples;
mod sbom;
mod shared;
mod test;
mod times;
mod units;
mod work;

use anyhow::Result;
use args::{Args, Chore};
use clap::Parser;
use crash::Look;
use suites::{applications, cases, clients, cluster, compare, conformance, crowd, loaded_reads, run, shared_group, vectors};

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
        Chore::Test(a) => test::test(test::Asked {
            all: a.all,
            share: a.share,
            only: a.only.as_deref(),
            allow_skips: a.allow_skips,
            beside_load: a.beside_load,
        }),
        Chore::Lint => lint::cores(),
        Chore::Clients(a) => test::clients(a.allow_skips, a.only.as_deref()),
        Chore::StockDaemons { long, only } => test::stock_daemons(long, only.as_deref()),
        Chore::RecordCommands { conf, out } => compare::record(&conf, &out),
        Chore::RecordCaps { conf, out } => cases::record_caps(&conf, &out),
        Chore::Conformance(a) if a.rewrite => conformance::rewrite(&run::root()),
        Chore::Conformance(a) => {
            let mut manner = conformance::Manner::default();
            manner.features = a.features.as_deref().unwrap_or(manner.features);
            manner.store = a.store.as_deref().unwrap_or(manner.store);
            (manner.among_stock, manner.copies) = (a.among_stock, a.copies);
            let releases = clients::Release::WITH_TESTS;
            manner.daemons = releases.into_iter().find(|r| r.is_called(&a.daemons)).unwrap_or(manner.daemons);
            manner.stock = a.stock.then_some(clients::Release::Reef);
            let sources = conformance::Sources {
                s3_tests: a.s3_tests.as_deref(),
                s3_whole: a.s3_whole,
                pjdfstest: a.pjdfstest.as_deref(),
                xfstests: a.xfstests.as_deref(),
                ceph: a.ceph_source.as_deref(),
                go_ceph: a.go_ceph.as_deref(),
                failovers: a.failovers,
            };
            conformance::conformance(a.suite.as_deref(), a.release.as_deref(), a.only.as_deref(), manner, sources)
        }
        Chore::Fuzz { seconds } => test::fuzz(seconds),
        Chore::Rogue { samples } => test::rogue(samples),
        Chore::LiveFuzz { times } => test::live_fuzz(times),
        Chore::Applications { only } => built(|| applications::applications(only.as_deref())),
        Chore::Crowd { seconds, rate } => built(|| crowd::crowd(seconds, rate)),
        Chore::LoadedReads { runs } => built(|| loaded_reads::loaded_reads(runs)),
        Chore::CrashStates { from, count, bugs, faults } => match (bugs, faults) {
            (true, _) => crash::states(Look::Bugs, 0, 0),
            (_, true) => crash::states(Look::Faults, from.unwrap_or(0), count.unwrap_or(20)),
            _ => crash::states(Look::States, from.unwrap_or(1000), count.unwrap_or(1_000_000)),
        },
        Chore::Vectors(a) => vectors::vectors(a.ours.as_deref(), &a.stock, a.count, a.seed, a.senders),
        Chore::Sim { args } => crash::sim(&args.iter().map(String::as_str).collect::<Vec<_>>()),
        Chore::KillLoop { cycles } => built(|| cases::kill_loop(cycles)),
        Chore::KillInTurns { rounds } => built(|| cases::kill_in_turns(rounds)),
        Chore::Memory { stock, objects } => built(|| cases::memory(stock, objects)),
        Chore::KillCopies { cycles } => built(|| cases::kill_copies(cycles)),
        Chore::Thrash { mixes, ops, seed, count, only_kills } => built(|| cases::thrash(&mixes, ops, seed..seed + count, only_kills)),
        Chore::RotMatrix { count, servers } => built(|| cases::rot_matrix(count, !servers)),
        Chore::ImageCheck { copies } => built(|| cases::image_check(copies)),
        Chore::Package { install: false } => package::package().map(drop),
        Chore::Package { install: true } => package::package().and_then(|deb| cases::package_installs(&deb)),
        Chore::Release { arch, again } => release::release(arch, again),
        Chore::Arm64 => arm64::arm64(),
        Chore::Samples { count, seed } => samples::samples(count, seed),
        Chore::Docs { update, only, allow_skips } => docs::docs(update, only.as_deref(), allow_skips),
        Chore::Figures(args::FiguresArgs { against: Some(against), rounds, seconds, keep, quick, .. }) => drift::against(&drift::Asked {
            against,
            rounds: if quick { 1 } else { rounds as usize },
            seconds: if quick { 1.0 } else { seconds },
            keep,
        }),
        Chore::Figures(a) if a.draw => figures::draw(),
        Chore::Figures(a) if a.shared_group => shared::figures(&a),
        Chore::SharedStall { program } => built(|| shared_group::stall::stalls(&program)),
        Chore::GatewayFigures(a) => cases::figures_gateways(a.pairs, a.seconds, a.idle, a.only.as_deref()),
        Chore::Figures(a) => measure::figures(&a),
    }
}

/// A chore that needs the program under test.
fn built(chore: impl FnOnce() -> Result<()>) -> Result<()> {
    cluster::build()?;
    chore()
}
