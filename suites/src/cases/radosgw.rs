//! Stock radosgw of 18.2 on a `humboldt up`: S3 and Swift through it, and what its administrator sees of it. One of 20.2 in short.

use super::Case;
use crate::clients::{Release::Reef, Release::Tentacle, radosgw, reef_radosgw};
use crate::cluster::Cluster;
use crate::gateway::{self, Gateway, objects_of_data};
use crate::run::{root, run};
use crate::stock::free_ports;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "radosgw_18.2", needs: &[Reef], run: || s3(&["--store", "mem"]) },
    Case { name: "radosgw_18.2_block", needs: &[Reef], run: || s3(&["--store", "block"]) },
    Case { name: "radosgw_20.2", needs: &[Reef, Tentacle], run: of_tentacle },
];

const SCRIPT: Duration = Duration::from_secs(300);
pub const ACCESS: &str = "accesskeyoftest";
pub const SECRET: &str = "secretkeyoftest";

/// Runs steps of `s3.py`.
pub fn speak(gateway: &Gateway, steps: &[&str]) -> Result<()> {
    let said = ask(gateway, steps)?;
    ensure!(said.is_empty(), "s3.py: {said}");
    Ok(())
}
/// What a step of it prints.
pub fn told(gateway: &Gateway, step: &str) -> Result<String> {
    let said = ask(gateway, &[step])?;
    ensure!(!said.is_empty(), "s3.py {step} says nothing");
    Ok(said)
}
fn ask(gateway: &Gateway, steps: &[&str]) -> Result<String> {
    steps_of(gateway.port, steps).with_context(|| gateway.last_words())
}
/// Runs steps of `s3.py` at a port of this machine; all that they print.
pub fn steps_of(port: u16, steps: &[&str]) -> Result<String> {
    steps_by(Command::new("python3"), port, steps)
}
/// The same by this Python, which may be started where that port is.
pub fn steps_by(mut cmd: Command, port: u16, steps: &[&str]) -> Result<String> {
    cmd.arg(root().join("suites/src/cases/s3.py")).arg(format!("127.0.0.1:{port}")).args([ACCESS, SECRET]).args(steps);
    let out = run(&mut cmd, SCRIPT)?;
    let said = out.stdout.trim_end().strip_suffix("ok").filter(|said| out.ok() && (said.is_empty() || said.ends_with('\n')));
    Ok(said.with_context(|| format!("s3.py: {}{}", out.stdout, out.stderr))?.to_string())
}

/// What its administrator asks of the index: sums that are right, more shards, what waits to be removed, what has no owner.
fn look_after(c: &Cluster, gateway: &Gateway) -> Result<()> {
    let admin = |line: &str| gateway::admin(&c.conf, line);
    let json = |line: &str| -> Result<Value> { serde_json::from_str(&admin(line)?).with_context(|| line.to_string()) };
    let stats = json("bucket stats --bucket=kept")?;
    let sums = &stats["usage"]["rgw.main"];
    ensure!(sums["num_objects"] == 30 && sums["size_actual"] == 30 * 4096, "{stats}");
    let whole = || -> Result<()> {
        let check = json("bucket check --bucket=kept")?["check_result"].take();
        ensure!(check["existing_header"].is_object() && check["existing_header"] == check["calculated_header"], "{check}");
        Ok(())
    };
    whole()?;
    // It may be asked to mend what is not wrong.
    admin("bucket check --bucket=kept --fix --check-objects")?;
    whole()?;
    let limits = json("bucket limit check --uid=t")?;
    let kept = limits[0]["buckets"].as_array().and_then(|all| all.iter().find(|b| b["bucket"] == "kept")).context("bucket limit check")?;
    ensure!(kept["num_objects"] == 30 && kept["num_shards"] == 11 && kept["fill_status"] == "OK", "{limits}");
    // The index moves from 11 shards to more, by command and by the queue, and the bucket is the same.
    admin("bucket reshard --bucket=kept --num-shards=13")?;
    speak(gateway, &["check"])?;
    admin("reshard add --bucket=kept --num-shards=17")?;
    ensure!(json("reshard list")?[0]["bucket_name"] == "kept", "the queue of buckets to be resharded is empty");
    admin("reshard process")?;
    ensure!(
        json("reshard list")?.as_array().is_some_and(Vec::is_empty) && json("bucket stats --bucket=kept")?["num_shards"] == 17,
        "reshard process"
    );
    speak(gateway, &["check"])?;
    // What was removed goes for good, and nothing else does.
    admin("gc process --include-all")?;
    ensure!(json("gc list --include-all")?.as_array().is_some_and(Vec::is_empty), "garbage is left");
    ensure!(objects_of_data(&c.conf)? == 30, "{} objects of data", objects_of_data(&c.conf)?);
    admin("lc process")?;
    // An object that no bucket has is found by comparison, as upstream's `rgw-orphan-list` does it.
    c.must(Reef, "rados -p default.rgw.buckets.data create orphan")?;
    let owned = admin("bucket radoslist")?;
    let owned: BTreeSet<&str> = owned.lines().collect();
    let there = c.must(Reef, "rados -p default.rgw.buckets.data ls")?;
    let orphans: Vec<&str> = there.lines().filter(|name| !owned.contains(name)).collect();
    ensure!(orphans == ["orphan"], "orphans: {orphans:?}");
    c.must(Reef, "rados -p default.rgw.buckets.data rm orphan")?;
    Ok(())
}

/// The other protocol, by a user's second key; it leaves nothing.
fn swift(c: &Cluster, gateway: &Gateway) -> Result<()> {
    gateway::admin(&c.conf, "subuser create --uid=t --subuser=t:swift --access=full --secret-key=swiftkey --key-type=swift")?;
    let mut cmd = Command::new("python3");
    cmd.arg(root().join("suites/src/cases/swift.py")).arg(format!("127.0.0.1:{}", gateway.port)).args(["t:swift", "swiftkey"]);
    let out = run(&mut cmd, SCRIPT)?;
    ensure!(out.ok() && out.stdout.trim() == "ok", "swift.py: {}{}{}", out.stdout, out.stderr, gateway.last_words());
    gateway::admin(&c.conf, "gc process --include-all")?;
    ensure!(objects_of_data(&c.conf)? == 30, "swift left objects: {} instead of 30", objects_of_data(&c.conf)?);
    Ok(())
}

fn s3(store: &[&str]) -> Result<()> {
    reef_radosgw()?;
    let c = Cluster::start(&format!("radosgw-{}", store[1]), store)?;
    let gateway = Gateway::start(&c.conf, &["--rgw-swift-versioning-enabled=true"])?;
    let admin = |line: &str| gateway::admin(&c.conf, line);
    admin(&format!("user create --uid=t --display-name=T --access-key={ACCESS} --secret-key={SECRET}"))?;
    speak(&gateway, &["plain", "versions", "uploads", "kept", "check"])?;

    look_after(&c, &gateway)?;
    swift(&c, &gateway)?;
    // Another radosgw finds all of it.
    let gateway = gateway.kill_and_restart()?;
    speak(&gateway, &["check"])?;
    admin("bucket rm --bucket=kept --purge-objects")?;
    admin("gc process --include-all")?;
    ensure!(objects_of_data(&c.conf)? == 0, "{} objects of data are left", objects_of_data(&c.conf)?);
    drop(gateway);
    c.stop()
}

/// A gateway of 20.2 in short: it calls methods that 18.2's does not, and reads in other vectors.
fn of_tentacle() -> Result<()> {
    radosgw(Tentacle)?;
    let c = Cluster::start("radosgw-20.2", &["--store", "block"])?;
    let [port] = free_ports()?;
    let gateway = Gateway::start_of(Tentacle, &c.conf, port, &[])?;
    gateway.admin(&format!("user create --uid=t --display-name=T --access-key={ACCESS} --secret-key={SECRET}"))?;
    speak(&gateway, &["plain", "versions", "uploads", "kept", "check"])?;
    let gateway = gateway.kill_and_restart()?;
    speak(&gateway, &["check"])?;
    gateway.admin("bucket rm --bucket=kept --purge-objects")?;
    gateway.admin("gc process --include-all")?;
    ensure!(objects_of_data(&c.conf)? == 0, "{} objects of data are left", objects_of_data(&c.conf)?);
    drop(gateway);
    c.stop()
}
