//! What `cargo xtask test` runs: the workspace's own tests, then stock clients against a release build.
//!
//! A case that can't run says why and fails the command unless skips are allowed.

mod basics;
mod caps;
mod commands;
mod daemons;
mod failures;
mod figures;
mod figures_block;
mod hostile;
mod kill9;
mod manager;
mod maps;
mod python;
mod qemu;
mod rados;
mod rbd;
mod rbd_more;
mod rot;
mod security;
mod stock;
mod stock_duties;
mod stock_faults;

pub use caps::record as record_caps;
pub use failures::image_check;
pub use figures::figures;
pub use figures_block::figures_block;
pub use kill9::kill_loop;
pub use rot::rot_matrix;

use crate::clients::Release;
use crate::cluster;
use crate::conformance;
use crate::run::{must, root};
use anyhow::{Result, bail};
use std::process::Command;
use std::time::Instant;

/// One test with real programs. `needs` are the releases whose clients it runs.
pub struct Case {
    pub name: &'static str,
    pub needs: &'static [Release],
    pub run: fn() -> Result<()>,
}

/// Upstream's own test programs, those that are quick; `cargo xtask conformance` runs all.
const CONFORMANCE: &[Case] = &[
    Case { name: "upstreams_test_programs", needs: &[Release::Reef], run: conformance::fast },
    Case {
        name: "stock_daemons_and_upstreams_test_programs",
        needs: &[Release::Reef, Release::Pacific],
        run: conformance::fast_among_stock,
    },
];

fn cases() -> Vec<Case> {
    [
        basics::CASES,
        rados::CASES,
        rbd::CASES,
        rbd_more::CASES,
        python::CASES,
        qemu::CASES,
        security::CASES,
        caps::CASES,
        commands::CASES,
        daemons::CASES,
        maps::CASES,
        hostile::CASES,
        stock::CASES,
        stock_duties::CASES,
        stock_faults::CASES,
        manager::CASES,
        kill9::CASES,
        failures::CASES,
        CONFORMANCE,
    ]
    .into_iter()
    .flatten()
    .map(|c| Case { ..*c })
    .collect()
}

/// Everything that CI runs.
pub fn test(allow_skips: bool, only: Option<&str>) -> Result<()> {
    let started = Instant::now();
    must(Command::new("cargo").current_dir(root()).args(["test", "--workspace", "--quiet"]))?;
    clients(allow_skips, only)?;
    println!("all of it took {} s", started.elapsed().as_secs());
    Ok(())
}

/// The cases with stock clients.
pub fn clients(allow_skips: bool, only: Option<&str>) -> Result<()> {
    run_cases(cases(), allow_skips, only)
}

/// Those among stock daemons; with `long` those too that take longer than CI has.
pub fn stock_daemons(long: bool, only: Option<&str>) -> Result<()> {
    let more = if long { stock_faults::LONG } else { &[] };
    let among = |c: &Case| c.name.starts_with("stock_");
    run_cases(cases().into_iter().filter(among).chain(more.iter().map(|c| Case { ..*c })).collect(), false, only)
}

fn run_cases(cases: Vec<Case>, allow_skips: bool, only: Option<&str>) -> Result<()> {
    cluster::build()?;
    let cases: Vec<Case> = cases.into_iter().filter(|c| only.is_none_or(|o| c.name.contains(o))).collect();
    let mut missing = Vec::new();
    for release in Release::ALL {
        if cases.iter().any(|c| c.needs.contains(&release))
            && let Err(e) = release.install()
        {
            missing.push((release, format!("{e:#}")));
        }
    }
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for case in &cases {
        if let Some((release, why)) = missing.iter().find(|(r, _)| case.needs.contains(r)) {
            println!("SKIPPED {}: no clients of {}: {why}", case.name, release.version());
            skipped += 1;
            continue;
        }
        let started = Instant::now();
        match (case.run)() {
            Ok(()) => {
                println!("ok {} ({:.1} s)", case.name, started.elapsed().as_secs_f64());
                passed += 1;
            }
            Err(e) => {
                println!("FAILED {} ({:.1} s): {e:#}", case.name, started.elapsed().as_secs_f64());
                failed += 1;
            }
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 || (skipped > 0 && !allow_skips) {
        bail!("{failed} failed, {skipped} could not run");
    }
    Ok(())
}

/// The crates whose decoders read what peers send; each has a test called `fuzz_...`.
const FUZZED: [&str; 7] = ["denc", "types", "messages", "maps", "msgr", "cephx", "classes"];

/// Runs the decoders' fuzz tests for longer, `seconds` each: they read their budget from the environment. The dev build checks arithmetic, too.
pub fn fuzz(seconds: u64) -> Result<()> {
    must(
        Command::new("cargo")
            .current_dir(root())
            .args(["test", "--no-fail-fast", "--tests"])
            .args(FUZZED.iter().flat_map(|name| ["-p", name]))
            .args(["fuzz", "--", "--nocapture"])
            .env("HUMBOLDT_FUZZ_SECONDS", seconds.to_string()),
    )
}
