//! A store is filled with one kind of thing after the other: it says so in order and once, restarts at once, gives the room back, and grows.

use super::Case;
use super::rot::store;
use crate::clients::Release::Pacific;
use crate::cluster::Cluster;
use crate::run::{root, until};
use anyhow::{Context, Result, ensure};
use std::time::Duration;

pub const CASES: &[Case] = &[Case { name: "filled_with_anything", needs: &[Pacific], run: filled }];

const KINDS: [&str; 5] = ["omap", "attrs", "tiny", "clones", "large"];
const SIZE: &str = "192M";
const LARGER: &str = "512M";

fn script(c: &Cluster, verb: &str, kind: &str) -> Result<serde_json::Value> {
    let line = format!("/usr/bin/python3 {} {} {verb} {kind}", root().join("suites/src/cases/fills.py").display(), c.conf.display());
    let out = c.client_within(Pacific, &line, Duration::from_secs(240))?;
    ensure!(out.ok(), "{verb} {kind}: {}{}\n{}", out.stdout, out.stderr, c.log());
    serde_json::from_str(out.stdout.lines().last().unwrap_or_default()).with_context(|| out.stdout.clone())
}
fn states(of: &serde_json::Value) -> Vec<String> {
    of["states"].as_array().into_iter().flatten().filter_map(|s| s.as_str().map(String::from)).collect()
}

fn filled() -> Result<()> {
    for kind in KINDS {
        let c = Cluster::start("filled", &["--size", SIZE, "--auth", "none", "--osds", "1"])?;
        c.must(Pacific, "ceph osd pool create fill 8")?;
        let full = script(&c, "fill", kind)?;
        let seen = states(&full);
        let order = ["", "OSD_NEARFULL", "OSD_BACKFILLFULL", "OSD_FULL"];
        let ranks: Vec<_> = seen.iter().map(|s| order.iter().position(|o| o == s)).collect();
        ensure!(ranks.is_sorted() && seen.iter().any(|s| s == order[1]) && seen.last().is_some_and(|s| s == order[3]), "{kind}: {full}");
        // Killed and started again while it is full: it serves at once.
        let (dir, port) = (c.dir.clone(), c.port()?);
        c.signal("KILL");
        drop(c);
        let fsck = store(&dir.join("osd.0"), &["fsck"])?;
        ensure!(fsck.ok(), "{kind}, full: {}{}", fsck.stdout, fsck.stderr);
        let c = Cluster::start_at(dir.clone(), &port, &["--auth", "none"])?;
        let back = script(&c, "empty", kind)?;
        let seen = states(&back);
        ensure!(seen.last().is_some_and(String::is_empty) && seen.len() <= 4, "{kind}: {back}");
        println!("  {kind}: {full}, then {back}");
        if kind == KINDS[0] {
            // Full once more, and then larger.
            script(&c, "fill", kind)?;
            c.stop()?;
            let c = Cluster::start_at(dir.clone(), &port, &["--auth", "none", "--size", LARGER])?;
            let is_well = || c.client(Pacific, "ceph health detail").is_ok_and(|out| !out.stdout.contains("FULL"));
            ensure!(until(Duration::from_secs(30), is_well), "{}", c.must(Pacific, "ceph health detail")?);
            c.must(Pacific, "rados -p fill put more /etc/hostname")?;
            c.stop()?;
        } else {
            c.stop()?;
        }
        let fsck = store(&dir.join("osd.0"), &["fsck"])?;
        ensure!(fsck.ok(), "{kind}: {}{}", fsck.stdout, fsck.stderr);
    }
    Ok(())
}
