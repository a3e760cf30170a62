//! What is done to the cluster under an application, and the wait until it is whole again.

use crate::cluster::{Cluster, binary};
use crate::run::{quietly, run, until};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    OsdKilled,
    ServerKilled,
    /// Its folder goes while it runs; then the OSD is killed, and `osd replace` puts a new store in.
    DiskLost,
}

/// How long a cluster of a few hundred MiB may take to have all of its copies.
const WHOLE: Duration = Duration::from_secs(180);

impl Fault {
    pub const ALL: [Self; 3] = [Self::OsdKilled, Self::ServerKilled, Self::DiskLost];

    pub fn happens(self, c: &mut Cluster, args: &[&str]) -> Result<()> {
        match self {
            Self::OsdKilled => kill(osd(c, 1)?),
            Self::ServerKilled => c.kill_and_restart(args),
            Self::DiskLost => {
                let pid = osd(c, 2)?;
                std::fs::remove_dir_all(c.dir.join("osd.2"))?;
                kill(pid)?;
                let named = || ours(c, &["ceph", "health", "detail"]).is_ok_and(|text| text.contains("osd replace 2"));
                ensure!(until(WHOLE, named), "health does not name the disk that is gone:\n{}", c.log());
                ours(c, &["osd", "replace", "2", "--size", "3G", "--dir", &c.dir.display().to_string()]).map(drop)
            }
        }
    }
}

/// A command of our program that must succeed; what it prints.
fn ours(c: &Cluster, words: &[&str]) -> Result<String> {
    let out = run(Command::new(binary()).args(words).env("CEPH_CONF", &c.conf), WHOLE)?;
    ensure!(out.ok(), "{words:?} ended with {}:\n{}{}", out.code, out.stdout, out.stderr);
    Ok(out.stdout)
}

/// The process of an OSD.
fn osd(c: &Cluster, id: usize) -> Result<u32> {
    let mut found = None;
    until(Duration::from_secs(30), || {
        found = c.pid_of_osd(id);
        found.is_some()
    });
    found.with_context(|| format!("osd.{id} is no process of `up`:\n{}", c.log()))
}

fn kill(pid: u32) -> Result<()> {
    quietly(Command::new("kill").args(["-9", &pid.to_string()]))
}

/// Waits until all three OSDs are up and each group has all of its copies.
pub fn await_whole(c: &Cluster) -> Result<()> {
    let mut last = String::new();
    let is_whole = || {
        last = ours(c, &["ceph", "status", "-f", "json"]).unwrap_or_default();
        let status: Value = serde_json::from_str(&last).unwrap_or_default();
        let states = status["pgmap"]["pgs_by_state"].as_array().cloned().unwrap_or_default();
        let clean = |state: &Value| state["state_name"].as_str().is_some_and(|name| name.starts_with("active+clean"));
        status["osdmap"]["num_up_osds"] == 3 && !states.is_empty() && states.iter().all(clean)
    };
    ensure!(until(WHOLE, is_whole), "the cluster does not become whole: {last}\n{}", c.log());
    Ok(())
}
