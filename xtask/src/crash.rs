//! The block store's crash states for as long as one likes: by seed, so that a run goes on where the last one ended.

use crate::run::root;
use anyhow::{Context, Result, bail};
use std::process::Command;

/// `count` states of the seeds from `from` on; or, with `bugs`, the planted bugs, each of which must be noticed.
pub fn states(from: u64, count: u64, bugs: bool) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--profile", "proof", "-p", "store-block", "--lib", "--"]).current_dir(root());
    match bugs {
        true => cargo.args(["crash::bugs", "--nocapture"]),
        false => cargo.args(["crash::many_crash_states", "--ignored", "--nocapture"]),
    };
    // Memory that goes back to the system comes again as pages to be cleared.
    cargo.env("MIMALLOC_PURGE_DELAY", "-1");
    cargo.env("CRASH_FROM", from.to_string()).env("CRASH_COUNT", count.to_string());
    if !cargo.status().context("starting cargo")?.success() {
        bail!(
            "a crash state came up wrong, or a planted bug was not noticed; one seed again: CRASH_SEED=N cargo test --profile proof -p store-block --lib crash::one_seed -- --nocapture"
        );
    }
    Ok(())
}
