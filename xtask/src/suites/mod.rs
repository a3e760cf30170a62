//! What `cargo xtask test` runs: the workspace's own tests, then stock clients against a release build.
//!
//! A case that can't run says why and fails the command unless skips are allowed.

mod basics;
mod caps;
mod cephfs;
mod commands;
mod copies;
mod daemons;
mod failures;
mod figures;
mod figures_gateways;
mod fills;
mod guide;
mod hostile;
mod kernel_client;
mod kernel_guest;
mod kill9;
mod lab;
mod manager;
mod maps;
mod mixed;
mod notify;
mod order;
mod own_programs;
mod package;
mod python;
mod qemu;
mod rados;
mod radosgw;
mod rbd;
mod rbd_more;
mod rot;
mod scrub;
mod security;
mod stale_read;
mod stock;
mod stock_duties;
mod stock_faults;
mod thrash;
mod turns;
mod under_way;
mod web;
mod wire;

pub use caps::record as record_caps;
pub use copies::kill_copies;
pub use failures::image_check;
pub use figures::figures;
pub use figures_gateways::figures_gateways;
pub use kill9::kill_loop;
pub use package::installs as package_installs;
pub use rot::rot_matrix;
pub use thrash::verb as thrash;
pub use turns::kill_in_turns;

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
        notify::CASES,
        rbd::CASES,
        rbd_more::CASES,
        python::CASES,
        qemu::CASES,
        radosgw::CASES,
        cephfs::CASES,
        turns::CASES,
        kernel_client::CASES,
        security::CASES,
        caps::CASES,
        commands::CASES,
        own_programs::CASES,
        web::CASES,
        daemons::CASES,
        maps::CASES,
        hostile::CASES,
        under_way::CASES,
        stock::CASES,
        stock_duties::CASES,
        stock_faults::CASES,
        manager::CASES,
        kill9::CASES,
        copies::CASES,
        thrash::CASES,
        stale_read::CASES,
        mixed::CASES,
        scrub::CASES,
        failures::CASES,
        fills::CASES,
        lab::CASES,
        guide::CASES,
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
    // A release build ends in one thread that links; the tests' build and run fill the other core. Profiles have build folders of their own.
    std::thread::scope(|scope| {
        let build = scope.spawn(cluster::build);
        // What fails here is said where a case needs it.
        scope.spawn(|| Release::ALL.into_iter().for_each(|release| drop(release.install())));
        let tests = must(Command::new("cargo").current_dir(root()).args(["test", "--workspace", "--quiet"]));
        let build = build.join().expect("a build does not panic");
        tests.and_then(|_| crate::lint::cores()).and(build)
    })?;
    println!("unit tests and builds took {} s", started.elapsed().as_secs());
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
    crate::folders::room()?;
    let cases: Vec<Case> = cases.into_iter().filter(|c| only.is_none_or(|o| c.name.contains(o))).collect();
    let mut missing = Vec::new();
    for release in Release::ALL {
        if cases.iter().any(|c| c.needs.contains(&release))
            && let Err(e) = release.install()
        {
            missing.push((release, format!("{e:#}")));
        }
    }
    let lacks = |case: &Case| missing.iter().find(|(release, _)| case.needs.contains(release));
    let (cases, lacking): (Vec<Case>, Vec<Case>) = cases.into_iter().partition(|case| lacks(case).is_none());
    for case in &lacking {
        if let Some((release, why)) = lacks(case) {
            println!("SKIPPED {}: no clients of {}: {why}", case.name, release.version());
        }
    }
    let started = Instant::now();
    let ran = order::run(cases);
    print!("{}", order::table(&ran, started.elapsed()));
    let (failed, skipped) = (ran.iter().filter(|r| r.result.is_err()).count(), lacking.len());
    println!("{} passed, {failed} failed, {skipped} skipped", ran.len() - failed);
    conformance::end_of_run()?;
    if failed > 0 || (skipped > 0 && !allow_skips) {
        bail!("{failed} failed, {skipped} could not run");
    }
    Ok(())
}

/// The crates whose decoders read what peers send; each has a test called `fuzz_...`.
const FUZZED: [&str; 8] = ["denc", "types", "messages", "maps", "msgr", "cephx", "classes", "osd-core"];

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
