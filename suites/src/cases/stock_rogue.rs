//! The rogue of our own tests (`crates/cli/tests/rogue.rs`) among stock daemons: it speaks to our OSD under a monitor and a manager of 18.2, with keys
//! that the stock monitor made. What it says to stock daemons is a login, no more: those are not ours to judge.

use super::Case;
use crate::clients::Release::Reef;
use crate::programs;
use crate::run::{root, run};
use crate::stock::{Plane, stock_control_plane};
use anyhow::{Context, Result, ensure};
use std::process::Command;
use std::time::Duration;

pub const CASES: &[Case] = &[Case { name: "stock_daemons_and_a_rogue", needs: &[Reef], run: rogue }];

/// The rogue's own patience ends before.
const LIMIT: Duration = Duration::from_secs(300);

fn rogue() -> Result<()> {
    let program = programs::one("rogue")?;
    // The rogue speaks in both modes, and the monitor must take both.
    let mut d = stock_control_plane("stock-rogue", &Plane { monitors: 1, secure: false, ..Plane::default() })?;
    d.new_ours(0, "ssd", &["--store", "mem"])?;
    d.wait_up(1)?;
    // The rogue asks for these as well, and finds them: from then on the map stands still, as it is to do.
    for (pool, groups) in [("p", 1), ("mine", 4), ("others", 4)] {
        d.must(&format!("ceph osd pool create {pool} {groups} {groups}"))?;
        d.must(&format!("ceph osd pool application enable {pool} test"))?;
    }
    d.wait_pgs(9)?;
    let pid = d.pid("osd.0").context("osd.0 runs")?;
    let mut cmd = Command::new(&program.path);
    // One test at a time: each has its objects in the same pools.
    cmd.args(["--test-threads=1"]).current_dir(root()).env("HUMBOLDT_ROGUE_CONF", &d.conf).env("HUMBOLDT_ROGUE_OSD", pid.to_string());
    let out = run(&mut cmd, LIMIT)?;
    let passed = out.stdout.contains("test result: ok. 3 passed");
    ensure!(
        out.ok() && passed,
        "the rogue's program ended with {}:\n{}{}\nosd.0 said:\n{}",
        out.code,
        out.stdout,
        out.stderr,
        d.said("osd.0")
    );
    d.write("p", "after", 5)?;
    d.verify("p", "after", 5)?;
    d.end("osd.0")
}
