//! The project's chores. `cargo xtask` lists them.
//!
//! Holds what installs stock clients, starts clusters and judges what the clients say. Knows our server only as a program: it uses
//! none of its crates.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a shell: it has clocks, files and threads

mod clients;
mod cluster;
mod commands;
mod compare;
mod conformance;
mod crash;
mod lint;
mod looker;
mod loops;
mod netns;
mod run;
mod stock;
mod suites;

use anyhow::{Result, bail};
use crash::Look;

const USAGE: &str = "\
cargo xtask test [--allow-skips] [--only WORD]   everything that CI runs
cargo xtask lint                                 what cores must not use (clippy.toml)
cargo xtask clients [--only WORD]                the stock-client suites alone, on target/release/humboldt
cargo xtask conformance [rados|cls|rbd|luks|model] [--release R] [--only WORD]   upstream's test programs; writes COMPATIBILITY.md
                        [--features N|unset]      RBD_FEATURES of suite rbd (61); unset: images of the old format
                        [--store mem|block]       what OSDs keep objects in (mem); among stock daemons `both`, too
                        [--among-stock]           our OSDs under stock monitors of 18.2 and a stock manager, instead of humboldt up
cargo xtask stock-daemons [--long] [--only WORD]  our OSDs under stock monitors and manager, stock OSDs under our monitor; cut networks, full
                                                 stores, deaths in any order
cargo xtask record-commands CEPH_CONF OUT        what a stock cluster answers to the script in xtask/src/commands.rs
cargo xtask record-caps CEPH_CONF OUT            what a stock cluster allows to whom: xtask/src/suites/caps.py
cargo xtask fuzz [SECONDS]                       decoders and handshakes under random input, for SECONDS (60)
cargo xtask crash-states [--from SEED] [--count N]   N (1,000,000) of the block store's crash states; a run goes on with the seed that the last one named
                         [--bugs] [--faults]      its planted bugs; faults at each operation of N (20) seeds' lives
cargo xtask rot-matrix [--count N] [--servers]    one block of a store or of the monitor's database damaged, N (50) times: the rest is served, and comes back;
                                                 first 20 N times on devices in memory, but for --servers
cargo xtask sim [--from SEED] [--count N]        the cluster simulator: N (1,000) seeds; a run goes on with the seed that the last one named
                [--seed SEED [--trace] [--shrink]]   one seed; all its events; with as few faults as it still fails with
cargo xtask kill-loop [--cycles N]                kill -9 under load, N (30) times, everything compared at the end
cargo xtask thrash [--cycles N]                   pools of three copies: one, two or three OSDs killed at a time, N (30) times, each copy compared
cargo xtask image-check [--copies N]              the device below the store copied while clients write, N (20) times: each copy comes up whole
cargo xtask figures [--pairs N] [--seconds S]    server CPU per op and latency beside stock memstore, interleaved pairs
cargo xtask figures --store block [--pairs N] [--seconds S] [--raw] [--only WORD]   the block store beside stock BlueStore, each on loop devices of its own
";

fn main() -> std::process::ExitCode {
    match chore() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn chore() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let option = |name: &str| args.iter().position(|a| *a == name).and_then(|i| args.get(i + 1)).copied();
    let flag = |name: &str| args.contains(&name);
    match args.first().copied() {
        Some("test") => suites::test(flag("--allow-skips"), option("--only")),
        Some("lint") => lint::cores(),
        Some("clients") => suites::clients(flag("--allow-skips"), option("--only")),
        Some("stock-daemons") => suites::stock_daemons(flag("--long"), option("--only")),
        Some("record-commands") => match args[1..] {
            [conf, out] => compare::record(conf, out),
            _ => bail!("{USAGE}"),
        },
        Some("conformance") => {
            let suite = args.get(1).copied().filter(|a| !a.starts_with("--"));
            let mut manner = conformance::Manner::default();
            manner.features = option("--features").unwrap_or(manner.features);
            manner.store = option("--store").unwrap_or(manner.store);
            manner.among_stock = flag("--among-stock");
            conformance::conformance(suite, option("--release"), option("--only"), manner)
        }
        Some("record-caps") => match args[1..] {
            [conf, out] => suites::record_caps(conf, out),
            _ => bail!("{USAGE}"),
        },
        Some("fuzz") => suites::fuzz(args.get(1).map_or(Ok(60), |s| s.parse())?),
        Some("crash-states") => {
            let number = |name: &str, default: u64| option(name).map_or(Ok(default), str::parse);
            match (flag("--bugs"), flag("--faults")) {
                (false, false) => crash::states(Look::States, number("--from", 1000)?, number("--count", 1_000_000)?),
                (true, _) => crash::states(Look::Bugs, 0, 0),
                (_, true) => crash::states(Look::Faults, number("--from", 0)?, number("--count", 20)?),
            }
        }
        Some("sim") => crash::sim(&args[1..]),
        Some("kill-loop") => {
            cluster::build()?;
            suites::kill_loop(option("--cycles").map_or(Ok(30), str::parse)?)
        }
        Some("thrash") => {
            cluster::build()?;
            suites::thrash(option("--cycles").map_or(Ok(30), str::parse)?)
        }
        Some("rot-matrix") => {
            cluster::build()?;
            suites::rot_matrix(option("--count").map_or(Ok(50), str::parse)?, !flag("--servers"))
        }
        Some("image-check") => {
            cluster::build()?;
            suites::image_check(option("--copies").map_or(Ok(20), str::parse)?)
        }
        Some("figures") if option("--store") == Some("block") => suites::figures_block(
            option("--pairs").map_or(Ok(5), str::parse)?,
            option("--seconds").map_or(Ok(4), str::parse)?,
            flag("--raw"),
            option("--only"),
        ),
        Some("figures") => suites::figures(option("--pairs").map_or(Ok(5), str::parse)?, option("--seconds").map_or(Ok(8), str::parse)?),
        _ => {
            print!("{USAGE}");
            Ok(())
        }
    }
}
