//! Connections without a key, by the hundred a second, that stop half-way: a good client goes on beside them, and every OSD stays up.
//!
//! Holds the order of the run, what is measured and what must come of it; `crowd.py` is the crowd and the good clients. Stretches without the crowd and
//! with it take turns, so that both see the same machine.

use crate::clients::Release::Pacific;
use crate::cluster::Cluster;
use crate::run::{root, until};
use crate::script::Script;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const POOL: &str = "crowd";
const OSDS: usize = 3;
/// Stretches of each kind.
const TURNS: u64 = 2;
/// How many times longer the good client may take.
const TIMES_MAX: f64 = 5.0;
/// What the crowd may take of memory at each port, bytes: 1,024 handshakes, each with a buffer and what goes round it.
const GROWTH_MAX: u64 = 1024 * (8 << 10);

/// Microseconds of each operation, and what failed.
#[derive(Default)]
struct Spans {
    us: Vec<u64>,
    errors: Vec<String>,
}

impl Spans {
    fn add(&mut self, answer: &Value) {
        self.us.extend(answer["took"].as_array().into_iter().flatten().filter_map(Value::as_u64));
        self.errors.extend(answer["errors"].as_array().into_iter().flatten().map(Value::to_string));
        self.us.sort_unstable();
    }
    /// Of a thousand, how many are shorter: 990 is p99.
    fn per_mille(&self, n: usize) -> u64 {
        self.us.get((self.us.len() * n / 1000).min(self.us.len().saturating_sub(1))).copied().unwrap_or(0)
    }
    fn line(&self, name: &str) -> String {
        let [p50, p99, max] = [500, 990, 1000].map(|n| self.per_mille(n));
        format!("{name}: {} times, p50 {p50} us, p99 {p99} us, longest {max} us, {} failed", self.us.len(), self.errors.len())
    }
}

/// `host:port` of the monitor, the manager endpoint and each address of each OSD.
fn targets(c: &Cluster) -> Result<Vec<String>> {
    let json = |line: &str| -> Result<Value> { Ok(serde_json::from_str(c.must(Pacific, &format!("{line} -f json"))?.trim())?) };
    let (mon, mgr, osds) = (json("ceph mon dump")?, json("ceph mgr dump")?, json("ceph osd dump")?);
    let mut vecs = vec![&mon["mons"][0]["public_addrs"], &mgr["active_addrs"]];
    for osd in osds["osds"].as_array().context("OSDs")? {
        vecs.extend(["public_addrs", "cluster_addrs", "heartbeat_back_addrs", "heartbeat_front_addrs"].map(|name| &osd[name]));
    }
    let mut found: Vec<String> = vecs.iter().filter_map(|v| v["addrvec"][0]["addr"].as_str().map(String::from)).collect();
    found.sort();
    found.dedup();
    Ok(found)
}

/// Of each OSD: whether it is up, and since when.
fn ups(c: &Cluster) -> Result<Vec<(bool, u64)>> {
    let dump: Value = serde_json::from_str(c.must(Pacific, "ceph osd dump -f json")?.trim())?;
    let osds = dump["osds"].as_array().context("OSDs")?;
    Ok(osds.iter().map(|osd| (osd["up"] == 1, osd["up_from"].as_u64().unwrap_or(0))).collect())
}

fn open_files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

fn script(conf: &Path, args: &[&str]) -> Result<Script> {
    Script::start(Command::new("/usr/bin/python3").arg(root().join("suites/src/crowd/crowd.py")).args(args).env("CEPH_CONF", conf))
}

/// The good clients and the crowd, and what came of them.
struct Run {
    ops: Script,
    comes: Script,
    attack: Script,
    /// Operations and logins, without the crowd and with it.
    spans: [[Spans; 2]; 2],
}

impl Run {
    /// One stretch. So many connections of the crowd were opened, refused, and held at its end.
    fn stretch(&mut self, seconds: u64, with: bool) -> Result<[u64; 3]> {
        let line = seconds.to_string();
        if with {
            self.attack.tell(&line)?;
        }
        self.ops.tell(&line)?;
        self.comes.tell(&line)?;
        let limit = Duration::from_secs(seconds + 120);
        let [ops, comes] = &mut self.spans[usize::from(with)];
        ops.add(&self.ops.answer(limit)?);
        comes.add(&self.comes.answer(limit)?);
        let came = if with { self.attack.answer(limit)? } else { Value::Null };
        Ok(["opened", "refused", "held"].map(|name| came[name].as_u64().unwrap_or(0)))
    }
}

/// The crowd comes for so many seconds altogether, `rate` connections a second to all ports together.
pub fn crowd(seconds: u64, rate: u64) -> Result<()> {
    let count = OSDS.to_string();
    let mut c = Cluster::start("crowd", &["--store", "mem", "--osds", &count])?;
    c.must(Pacific, &format!("ceph osd pool create {POOL} 2"))?;
    let targets = targets(&c)?;
    ensure!(targets.len() >= 2 + OSDS, "ports: {targets:?}");
    let words: Vec<&str> = targets.iter().map(String::as_str).collect();
    let mut run = Run {
        ops: script(&c.conf, &["ops", POOL])?,
        comes: script(&c.conf, &["comes"])?,
        attack: script(&c.conf, &[&["attack", &rate.to_string()], &words[..]].concat())?,
        spans: Default::default(),
    };
    let up_before = ups(&c)?;
    ensure!(up_before.len() == OSDS && up_before.iter().all(|(up, _)| *up), "before: {up_before:?}");
    println!("{rate} connections a second to {} ports in turn, {seconds} s altogether", targets.len());
    let stretch = seconds.div_ceil(TURNS);
    // What the good client's writes leave in logs is there before the counting starts.
    run.stretch(stretch, false)?;
    run.spans = Default::default();
    let (rss, files) = (c.rss_bytes(), open_files(c.pid()));
    for turn in 1..=TURNS {
        run.stretch(stretch, false)?;
        let without = c.rss_bytes();
        let [opened, refused, held] = run.stretch(stretch, true)?;
        let with = c.rss_bytes();
        let mib = [rss, without, with].map(|bytes| bytes >> 20);
        println!(
            "turn {turn}: {opened} opened, {refused} refused, {held} held at the end; MiB of memory {} at first, {} without, {} with",
            mib[0], mib[1], mib[2]
        );
        ensure!(!c.ended(), "humboldt ended; it said:\n{}", c.log());
        ensure!(opened >= rate * stretch * 9 / 10, "the crowd was too small: {opened} opened, {refused} refused");
        ensure!(with < rss + GROWTH_MAX * targets.len() as u64, "memory grew by {} MiB", (with - rss) >> 20);
        // Its sockets are gone with it.
        ensure!(
            until(Duration::from_secs(20), || open_files(c.pid()) < files + 20),
            "{} files are open, {files} before",
            open_files(c.pid())
        );
    }
    let up_after = ups(&c)?;
    println!("RSS {} MiB before, {} MiB at the end; OSDs up since {up_before:?}, at the end {up_after:?}", rss >> 20, c.rss_bytes() >> 20);
    let mut slow = Vec::new();
    for (n, name) in ["operation", "login"].iter().enumerate() {
        let [without, with] = [&run.spans[0][n], &run.spans[1][n]];
        println!("{}\n{}", without.line(&format!("{name} without")), with.line(&format!("{name} with   ")));
        ensure!(without.errors.is_empty() && with.errors.is_empty(), "failed: {:?} {:?}", without.errors, with.errors);
        let times = with.per_mille(990) as f64 / without.per_mille(990).max(1) as f64;
        println!("{name}: p99 is {times:.2} times as long");
        if times > TIMES_MAX {
            slow.push(format!("{name}: {times:.1}"));
        }
    }
    ensure!(up_after == up_before, "an OSD was marked down: {up_before:?}, then {up_after:?}; it said:\n{}", c.log());
    ensure!(slow.is_empty(), "p99 is more than {TIMES_MAX} times as long: {slow:?}");
    c.stop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_99th_of_a_hundred() {
        let mut spans = Spans::default();
        spans.add(&serde_json::json!({ "took": (1..=100).rev().collect::<Vec<u64>>(), "errors": ["late"] }));
        assert_eq!((spans.per_mille(500), spans.per_mille(990), spans.per_mille(1000), spans.errors.len()), (51, 100, 100, 1));
        assert_eq!(Spans::default().per_mille(990), 0);
    }
}
