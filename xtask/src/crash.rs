//! Seeds for as long as one likes, so that a run goes on where the last one ended: crash states of the block store, and the cluster simulator.

use anyhow::{Context, Result, bail};
use std::process::Command;
use std::time::Instant;
use suites::run::root;

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Crash states.
    States,
    /// The planted bugs, each of which must be noticed.
    Bugs,
    /// Faults at each operation of each seed's life, of each kind, once and from then on.
    Faults,
}

/// `count` states of the seeds from `from` on; or `count` seeds' faults; or the planted bugs.
pub fn states(look: Look, from: u64, count: u64) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--profile", "proof", "-p", "store-block", "--lib", "--"]).current_dir(root());
    match look {
        Look::States => cargo.args(["crash::many_crash_states", "--ignored", "--nocapture"]),
        Look::Bugs => cargo.args(["crash::bugs", "--nocapture"]),
        Look::Faults => cargo.args(["crash::faults", "--nocapture"]),
    };
    // Memory that goes back to the system comes again as pages to be cleared.
    cargo.env("MIMALLOC_PURGE_DELAY", "-1");
    cargo.env("CRASH_FROM", from.to_string()).env("CRASH_COUNT", count.to_string());
    if look == Look::Faults {
        cargo.env("FAULT_FROM", from.to_string()).env("FAULT_SEEDS", count.to_string()).env("FAULT_STRIDE", "1");
    }
    if !cargo.status().context("starting cargo")?.success() {
        bail!(
            "a crash state came up wrong, a fault did harm, or a planted bug was not noticed; one seed again: CRASH_SEED=N cargo test --profile proof -p store-block --lib crash::one_seed -- --nocapture"
        );
    }
    Ok(())
}

/// The cluster simulator, with these arguments of its own. Its profile checks arithmetic and has planted bugs, as a dev build, and is fast.
pub fn sim(args: &[&str]) -> Result<()> {
    if args.first() == Some(&"--figure") {
        return sim_figure(args.get(1).map_or(Ok(20), |count| count.parse()).context("--figure takes a number of seeds")?);
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--profile", "sim", "-p", "sim", "--bin", "seeds", "--"]).args(args).current_dir(root());
    if args.is_empty() {
        cargo.args(["--count", "1000"]);
    }
    if !cargo.status().context("starting cargo")?.success() {
        bail!("a seed failed; one again, with all its events: cargo xtask sim --seed N --trace");
    }
    Ok(())
}

/// How many seeds of its figure the simulator does in a second on one core, with the memory store and with the block store under power cuts.
fn sim_figure(count: u32) -> Result<()> {
    let cargo = |verb: &str| {
        let mut cargo = Command::new("cargo");
        cargo.args([verb, "--quiet", "--profile", "sim", "-p", "sim", "--bin", "seeds"]).current_dir(root());
        cargo
    };
    if !cargo("build").status().context("starting cargo")?.success() {
        bail!("the simulator does not build");
    }
    for (store, aim) in [("memory", 10), ("block", 2)] {
        let begun = Instant::now();
        let done = cargo("run").args(["--", "--figure", store, "--count", &count.to_string()]).status().context("starting cargo")?;
        if !done.success() {
            bail!("a seed of the figure failed");
        }
        println!("{store}: {:.2} seeds/s (aim: {aim})", f64::from(count) / begun.elapsed().as_secs_f64());
    }
    Ok(())
}
