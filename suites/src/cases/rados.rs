//! The `rados` tool of each release.

use super::Case;
use crate::clients::Release::{self, Pacific, Reef, Tentacle};
use crate::cluster::Cluster;
use crate::run::until;
use anyhow::{Context, Result, ensure};
use std::process::{Child, Stdio};
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "rados_tool_16.2", needs: &[Pacific], run: || rados_tool(Pacific) },
    Case { name: "rados_tool_18.2", needs: &[Reef], run: || rados_tool(Reef) },
    Case { name: "rados_tool_20.2", needs: &[Tentacle], run: || rados_tool(Tentacle) },
    Case { name: "rados_bench_16.2", needs: &[Pacific], run: || rados_bench(Pacific) },
    Case { name: "rados_bench_18.2", needs: &[Reef], run: || rados_bench(Reef) },
    Case { name: "rados_bench_20.2", needs: &[Tentacle], run: || rados_bench(Tentacle) },
    Case { name: "rados_watch_notify", needs: &Release::ALL, run: watch_notify },
    Case { name: "rados_bench_with_cut_sockets", needs: &[Pacific], run: cut_sockets },
];

/// Ends a background client with the test.
pub struct Background(pub Child);
impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn rados_tool(release: Release) -> Result<()> {
    let c = Cluster::start(&format!("rados-{}", release.version()), &[])?;
    let dir = c.dir.display().to_string();
    let ok = |line: &str| c.must(release, line);
    let fails = |line: &str| c.must_fail(release, line, 1);
    ok("ceph osd pool create p 16")?;
    ensure!(ok("rados lspools")?.lines().any(|l| l == "p"), "lspools lists p");
    // Sizes from nothing to several stripes of what a client sends at once.
    for size in [0_usize, 1, 4095, 4096, 4097, 65536, 1 << 20, (4 << 20) + 17, 9 << 20] {
        let data: Vec<u8> = (0..size).map(|i| (i * 7 + i / 251) as u8).collect();
        std::fs::write(c.dir.join("in"), &data)?;
        ok(&format!("rados -p p put obj{size} {dir}/in"))?;
        ok(&format!("rados -p p get obj{size} {dir}/out"))?;
        ensure!(std::fs::read(c.dir.join("out"))? == data, "{size} bytes came back changed");
        ensure!(ok(&format!("rados -p p stat obj{size}"))?.trim().ends_with(&format!("size {size}")), "stat of {size} bytes");
    }
    std::fs::write(c.dir.join("abc"), "abc")?;
    ok(&format!("rados -p p put a {dir}/abc"))?;
    ok(&format!("rados -p p append a {dir}/abc"))?;
    ok(&format!("rados -p p put a {dir}/abc --offset 8"))?;
    ok(&format!("rados -p p get a {dir}/out"))?;
    ensure!(std::fs::read(c.dir.join("out"))? == b"abcabc\0\0abc", "append and a write at an offset behind the end");
    ok("rados -p p truncate a 4")?;
    ok(&format!("rados -p p get a {dir}/out"))?;
    ensure!(std::fs::read(c.dir.join("out"))? == b"abca", "truncate");
    ok("rados -p p cp a b")?;
    ok(&format!("rados -p p get b {dir}/out"))?;
    ensure!(std::fs::read(c.dir.join("out"))? == b"abca", "cp");
    ok("rados -p p rm b")?;
    ensure!(fails("rados -p p stat b")?.stderr.contains("No such file"), "stat of what is gone");
    fails(&format!("rados -p p get b {dir}/out"))?;
    fails("rados -p p rm b")?;
    fails("rados -p nosuch ls")?;
    ok("rados -p p create c")?;
    fails(&format!("rados -p p put {} {dir}/abc", "n".repeat(2049)))?;
    // Namespaces.
    ok(&format!("rados -p p -N ns put inside {dir}/abc"))?;
    ensure!(ok("rados -p p -N ns ls")?.trim() == "inside", "ls of a namespace");
    ensure!(!ok("rados -p p ls")?.contains("inside"), "a namespace's object shows in the default one");
    ensure!(ok("rados -p p --all ls")?.contains("ns\tinside"), "ls of all namespaces");
    // Attributes and omap.
    ok("rados -p p setxattr a k1 v1")?;
    ok("rados -p p setxattr a k2 v2")?;
    ensure!(ok("rados -p p getxattr a k1")?.trim_end() == "v1", "getxattr");
    ensure!(ok("rados -p p listxattr a")?.split_whitespace().collect::<Vec<_>>() == ["k1", "k2"], "listxattr");
    ok("rados -p p rmxattr a k1")?;
    fails("rados -p p getxattr a k1")?;
    ok("rados -p p setomapval a ok1 ov1")?;
    ok("rados -p p setomapval a ok2 ov2")?;
    ok("rados -p p setomapheader a head")?;
    ensure!(ok("rados -p p listomapkeys a")?.split_whitespace().collect::<Vec<_>>() == ["ok1", "ok2"], "listomapkeys");
    ensure!(ok("rados -p p listomapvals a")?.contains("ov2"), "listomapvals");
    ensure!(ok("rados -p p getomapval a ok1")?.contains("ov1"), "getomapval");
    ensure!(ok("rados -p p getomapheader a")?.contains("head"), "getomapheader");
    ok("rados -p p rmomapkey a ok1")?;
    ensure!(ok("rados -p p listomapkeys a")?.trim() == "ok2", "rmomapkey");
    ok("rados -p p clearomap a")?;
    ensure!(ok("rados -p p listomapkeys a")?.trim().is_empty(), "clearomap");
    // Locks.
    ok("rados -p p lock get a l1 --lock-cookie c1 --lock-type exclusive")?;
    ensure!(ok("rados -p p lock info a l1")?.contains("exclusive"), "lock info");
    fails("rados -p p lock get a l1 --lock-cookie c2 --lock-type exclusive")?;
    ensure!(ok("rados -p p lock list a")?.contains("l1"), "lock list");
    let info: serde_json::Value = serde_json::from_str(&ok("rados -p p lock info a l1 --format json")?)?;
    let locker = info["lockers"][0]["name"].as_str().context("a locker has a name")?.to_string();
    ok(&format!("rados -p p lock break a l1 {locker} --lock-cookie c1"))?;
    ensure!(!ok("rados -p p lock info a l1")?.contains("c1"), "lock break");
    // Listing.
    for i in 0..40 {
        ok(&format!("rados -p p create many{i}"))?;
    }
    let listed = ok("rados -p p ls")?;
    ensure!((0..40).all(|i| listed.lines().any(|l| l == format!("many{i}"))), "ls lists every object");
    ensure!(listed.lines().filter(|l| l.starts_with("many")).count() == 40, "ls lists an object twice");
    let df: serde_json::Value = serde_json::from_str(&ok("rados df --format json")?)?;
    ensure!(df["pools"].as_array().is_some_and(|p| p.iter().any(|p| p["name"] == "p")), "rados df lists the pool: {df}");
    c.stop()
}

fn rados_bench(release: Release) -> Result<()> {
    let c = Cluster::start(&format!("bench-{}", release.version()), &["--auth", "none"])?;
    c.must(release, "ceph osd pool create bench 32")?;
    for (size, depth) in [(4096, 1), (4096, 128), (65536, 16), (1 << 20, 8)] {
        let run = format!("-p bench --run-name r{size}x{depth}");
        let write = c.must(release, &format!("rados bench {run} 1 write -b {size} -t {depth} --no-cleanup"))?;
        ensure!(write.contains("Total writes made"), "{write}");
        for mode in ["seq", "rand"] {
            let read = c.must(release, &format!("rados bench {run} 1 {mode} -t {depth}"))?;
            ensure!(read.contains("Total reads made"), "{read}");
        }
        c.must(release, &format!("rados {run} cleanup"))?;
    }
    // Attributes of 4 MiB.
    let write = c.must(release, "rados bench -p bench --run-name xattr 1 write -b 4194304 -t 2 --write-xattr --no-cleanup")?;
    ensure!(write.contains("Total writes made"), "{write}");
    c.must(release, "rados -p bench --run-name xattr cleanup")?;
    ensure!(c.must(release, "rados -p bench ls")?.trim().is_empty(), "cleanup leaves objects");
    c.stop()
}

/// Each release's watcher on an object of its own: a dead one is waited for as long as its watch may live, so all wait at once.
fn watch_notify() -> Result<()> {
    let c = Cluster::start("watch", &[])?;
    c.must(Pacific, "ceph osd pool create p 8")?;
    let watched = |release: Release| {
        c.must(release, &format!("rados -p p listwatchers w{}", release.version())).is_ok_and(|s| s.contains("watcher="))
    };
    let mut watchers = Vec::new();
    for release in Release::ALL {
        let object = format!("w{}", release.version());
        c.must(release, &format!("rados -p p create {object}"))?;
        let mut watcher = release.command(&c.conf, "rados");
        watcher.args(["-p", "p", "watch", &object]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        watchers.push(Background(watcher.spawn()?));
        ensure!(until(Duration::from_secs(20), || watched(release)), "the watcher of {} does not show", release.version());
        let notify = c.must(release, &format!("rados -p p notify {object} hello"))?;
        ensure!(notify.contains("reply") || notify.contains("REPLY"), "notify of {} says: {notify}", release.version());
    }
    drop(watchers);
    // Killed, not closed: they go when their timeout has passed, or at once when a socket's end is taken for it.
    for release in Release::ALL {
        ensure!(until(Duration::from_secs(60), || !watched(release)), "a dead watcher of {} stays", release.version());
    }
    c.stop()
}

/// Client sockets fail all the time; every op is still applied once and answered, and what was written reads back.
fn cut_sockets() -> Result<()> {
    let c = Cluster::start("cut", &["--auth", "none"])?;
    c.must(Pacific, "ceph osd pool create bench 32")?;
    let out = c.must(Pacific, "rados bench -p bench 5 write -b 4096 -t 64 --no-cleanup --ms_inject_socket_failures 2000")?;
    ensure!(out.contains("Total writes made"), "{out}");
    // `seq` compares each object with what was written.
    let out = c.must(Pacific, "rados bench -p bench 5 seq -t 64 --ms_inject_socket_failures 2000")?;
    ensure!(out.contains("Total reads made") && !out.contains("is not correct"), "{out}");
    c.stop()
}
