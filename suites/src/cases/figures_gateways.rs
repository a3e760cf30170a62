//! What radosgw and ceph-mds of 18.2 cost the OSD under them: CPU per request of S3 and per operation on files, ours beside stock memstore.
//!
//! Each side is one OSD with objects in memory under a stock monitor and manager of its own, cephx, pools of one copy, with a stock radosgw and
//! ceph-mds. OSD, server and client are processes of their own, so the CPU of each is told apart. A ratio is the median of interleaved pairs.

use super::radosgw::{ACCESS, SECRET};
use crate::clients::{Release, reef_daemons, reef_mds, reef_radosgw};
use crate::gateway::{Gateway, admin};
use crate::mds::{self, Mount, Server};
use crate::run::{root, run};
use crate::stock::{Daemons, Plane, stock_control_plane, stock_osd};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn hundredths(n: f64) -> f64 {
    (n * 100.0).round() / 100.0
}

/// Through which server a load goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Gateway,
    Files,
}

/// A load, how many operations it has in a second of its length, and what is asked of us as a share of stock's CPU.
struct Load {
    name: &'static str,
    by: By,
    what: What,
    per_second: u32,
    asked: f64,
}

#[derive(Clone, Copy)]
enum What {
    /// New objects of so many bytes.
    Put(u32),
    /// Those of the load before.
    Get,
    /// fio on one file, with these arguments.
    Fio(&'static str),
    /// New files, until their metadata have left the journal.
    Create,
}

const LOADS: [Load; 7] = [
    Load { name: "S3 PUT 4 KiB", by: By::Gateway, what: What::Put(4096), per_second: 500, asked: 0.25 },
    Load { name: "S3 GET 4 KiB", by: By::Gateway, what: What::Get, per_second: 500, asked: 0.25 },
    Load { name: "S3 PUT 4 MiB", by: By::Gateway, what: What::Put(4 << 20), per_second: 25, asked: 0.4 },
    Load { name: "CephFS 4 MiB write", by: By::Files, what: What::Fio("--rw=write --bs=4M --end_fsync=1"), per_second: 32, asked: 0.6 },
    Load {
        name: "CephFS 4 KiB randwrite, fsync",
        by: By::Files,
        what: What::Fio("--rw=randwrite --bs=4k --fsync=1"),
        per_second: 500,
        asked: 0.2,
    },
    Load {
        name: "CephFS 4 KiB direct randread",
        by: By::Files,
        what: What::Fio("--rw=randread --bs=4k --direct=1"),
        per_second: 1000,
        asked: 0.2,
    },
    Load { name: "CephFS file created", by: By::Files, what: What::Create, per_second: 1000, asked: 0.35 },
];

/// Small pools, and nothing that daemons would log.
const CONF: &str = "osd pool default pg num = 8\nosd pool default pgp num = 8\nmon max pg per osd = 2000\nmemstore device bytes = 8589934592\n\
                    debug ms = 0/0\ndebug osd = 0/0\ndebug mon = 0/0\ndebug paxos = 0/0\ndebug auth = 0/0\ndebug monc = 0/0\ndebug rgw = 0/0\n\
                    debug mds = 0/0\ndebug objecter = 0/0\ndebug rocksdb = 0/0\n";
const LIMIT: Duration = Duration::from_secs(900);
/// Until pools have come to rest and the manager has seen them.
const SETTLE: Duration = Duration::from_secs(3);

/// One cluster.
struct Side {
    daemons: Daemons,
    osd: u32,
    bucket: usize,
}

/// One run of a load: microseconds per operation.
#[derive(Clone, Copy)]
struct Run {
    osd_us: f64,
    server_us: f64,
    per_second: f64,
}

/// What a process has had of the processor, by the scheduler's account of each of its threads, seconds. Daemons keep their threads.
fn cpu(pid: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |path: &Path| -> u64 {
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
    };
    threads.map(|thread| of(&thread.path())).sum::<u64>() as f64 / 1e9
}

impl Side {
    fn start(ours: bool) -> Result<Self> {
        let plane = Plane { monitors: 1, manager: Release::Pacific, brisk: false, secure: false, conf: CONF, ..Plane::default() };
        let mut daemons = stock_control_plane(if ours { "figures-gateways-ours" } else { "figures-gateways-stock" }, &plane)?;
        if ours {
            daemons.new_ours(0, "ssd", &["--store", "mem"])?;
        } else {
            stock_osd(&mut daemons, 0, "memstore")?;
        }
        daemons.wait_up(1)?;
        let osd = daemons.pid("osd.0").context("it was just started")?;
        Ok(Self { daemons, osd, bucket: 0 })
    }
    /// Starts a gateway with a user.
    fn gateway(&self) -> Result<Gateway> {
        let gateway = Gateway::start(&self.daemons.conf, &[])?;
        admin(&self.daemons.conf, &format!("user create --uid=t --display-name=T --access-key={ACCESS} --secret-key={SECRET}"))?;
        Ok(gateway)
    }
    /// Its monitor serves a file system, and that is mounted. A mount ends before its server does.
    fn files(&self) -> Result<(Mount, Server)> {
        let server = mds::serve(&self.daemons.conf)?;
        let mount = Mount::new(&self.daemons.conf)?;
        Ok((mount, server))
    }
    /// Runs `body`, which says in how many seconds of its own it did `ops`.
    fn measured(&self, server: u32, ops: u32, body: impl FnOnce() -> Result<f64>) -> Result<Run> {
        let (osd, of_server) = (cpu(self.osd), cpu(server));
        let took_s = body()?;
        let us = |before: f64, pid| (cpu(pid) - before) * 1e6 / f64::from(ops);
        let run = Run { osd_us: us(osd, self.osd), server_us: us(of_server, server), per_second: f64::from(ops) / took_s };
        ensure!(run.osd_us > 0.0 && self.daemons.last_words().is_empty(), "a daemon ended:{}", self.daemons.last_words());
        Ok(run)
    }
    fn presigned(&self, gateway: &Gateway, what: &str, count: u32, number: u32) -> Result<f64> {
        let mut cmd = Command::new("python3");
        cmd.arg(root().join("suites/src/cases/presigned.py")).arg(format!("127.0.0.1:{}", gateway.port)).args([ACCESS, SECRET, what]);
        let out = run(cmd.arg(format!("bucket{}", self.bucket)).args([count.to_string(), number.to_string()]), LIMIT)?;
        ensure!(out.ok(), "presigned.py {what}: {}{}{}", out.stdout, out.stderr, gateway.last_words());
        Ok(out.stdout.trim().parse().unwrap_or(0.0))
    }
    /// A new bucket in place of the last one.
    fn next_bucket(&mut self, gateway: &Gateway) -> Result<()> {
        self.forget_bucket()?;
        self.bucket += 1;
        self.presigned(gateway, "make", 0, 0).map(drop)
    }
    /// The bucket goes with all that is in it, so that each load meets a store that holds as little as the first one did.
    fn forget_bucket(&self) -> Result<()> {
        if self.bucket > 0 {
            admin(&self.daemons.conf, &format!("bucket rm --bucket=bucket{} --purge-objects --bypass-gc", self.bucket))?;
        }
        Ok(())
    }
}

/// fio with as many operations on a file of that name.
fn fio(mount: &Mount, args: &str, ops: u32) -> Result<f64> {
    let mut cmd = Command::new("fio");
    cmd.arg(format!("--filename={}", mount.outside.join("file").display())).args(args.split(' '));
    cmd.args(["--name=figures", "--ioengine=psync", "--output-format=json", "--size=1G", "--overwrite=1", &format!("--number_ios={ops}")]);
    let out = run(&mut cmd, LIMIT)?;
    let json = out.stdout.find('{').map_or("", |at| &out.stdout[at..]);
    let said: serde_json::Value = serde_json::from_str(json).with_context(|| format!("fio says {out:?}"))?;
    let job = &said["jobs"][0];
    let done = ["read", "write"].map(|way| job[way]["total_ios"].as_u64().unwrap_or(0));
    ensure!(out.ok() && done.iter().sum::<u64>() == u64::from(ops), "fio did {done:?} of {ops}: {}", out.stderr);
    Ok(job["job_runtime"].as_f64().context("fio's result lacks the time")? / 1e3)
}

/// New files in a folder of their own.
fn create(side: &Side, mount: &Mount, ops: u32, tag: usize) -> Result<f64> {
    let (folder, began) = (mount.outside.join(format!("created{tag}")), Instant::now());
    std::fs::create_dir(&folder)?;
    for n in 0..ops {
        std::fs::File::create_new(folder.join(n.to_string())).with_context(|| format!("file {n}"))?;
    }
    let took = began.elapsed();
    mds::client(&side.daemons.conf, "ceph tell mds.a flush journal")?;
    Ok(took.as_secs_f64())
}

/// The runs of both sides, pair by pair.
type Rows = [Vec<Run>; 2];

fn through_gateways(sides: &mut [Side; 2], loads: &[&Load], pairs: usize, seconds: u32, idle_s: u32) -> Result<Vec<Rows>> {
    let alone = still(sides, idle_s);
    let gateways = [sides[0].gateway()?, sides[1].gateway()?];
    std::thread::sleep(SETTLE);
    let beside = still(sides, idle_s);
    for (n, name) in ["humboldt", "stock"].into_iter().enumerate().filter(|_| idle_s > 0) {
        println!(
            "{name}: {:.2} % of a core with an idle radosgw, {:.2} % without, over {idle_s} s (1 % asked)",
            beside[n] * 100.0,
            alone[n] * 100.0
        );
    }
    let mut all: Vec<Rows> = loads.iter().map(|_| Rows::default()).collect();
    for pair in 0..pairs {
        // What is to be read; the size of the bucket.
        let mut there = 0;
        for (load, rows) in loads.iter().zip(&mut all) {
            let ops = load.per_second * seconds;
            for (n, (side, gateway)) in sides.iter_mut().zip(&gateways).enumerate() {
                let (what, number) = match load.what {
                    What::Put(bytes) => {
                        side.next_bucket(gateway)?;
                        std::thread::sleep(SETTLE);
                        ("put", bytes)
                    }
                    _ if there == 0 => {
                        side.next_bucket(gateway)?;
                        side.presigned(gateway, "put", ops, 4096)?;
                        ("get", ops)
                    }
                    _ => ("get", there),
                };
                rows[n].push(side.measured(gateway.pid(), ops, || side.presigned(gateway, what, ops, number))?);
            }
            there = if matches!(load.what, What::Put(4096)) { ops } else { 0 };
        }
        say(pair, loads, &all);
    }
    sides.iter().try_for_each(Side::forget_bucket)?;
    Ok(all)
}

/// The share of a core that each OSD took while nothing was asked.
fn still(sides: &[Side; 2], seconds: u32) -> [f64; 2] {
    let used = || [0, 1].map(|n: usize| cpu(sides[n].osd));
    let before = used();
    std::thread::sleep(Duration::from_secs(seconds.into()));
    let after = used();
    [0, 1].map(|n| (after[n] - before[n]) / f64::from(seconds.max(1)))
}

fn through_files(sides: &[Side; 2], loads: &[&Load], pairs: usize, seconds: u32) -> Result<Vec<Rows>> {
    let mounts = [sides[0].files()?, sides[1].files()?];
    let mut all: Vec<Rows> = loads.iter().map(|_| Rows::default()).collect();
    for (mount, _) in &mounts {
        fio(mount, "--rw=write --bs=4M --end_fsync=1", 256)?;
    }
    for pair in 0..pairs {
        for (load, rows) in loads.iter().zip(&mut all) {
            let ops = load.per_second * seconds;
            for (n, (side, (mount, server))) in sides.iter().zip(&mounts).enumerate() {
                rows[n].push(side.measured(server.pid(), ops, || match load.what {
                    What::Fio(args) => fio(mount, args, ops),
                    _ => create(side, mount, ops, pair),
                })?);
            }
        }
        say(pair, loads, &all);
    }
    Ok(all)
}

/// What is known so far, should the rest not come.
fn say(pair: usize, loads: &[&Load], all: &[Rows]) {
    let known = |(load, rows): (&&Load, &Rows)| format!("{}: {:.2}", load.name, rows[0][pair].osd_us / rows[1][pair].osd_us);
    let known: Vec<String> = loads.iter().zip(all).map(known).collect();
    eprintln!("pair {}: CPU of the OSD {}", pair + 1, known.join(", "));
}

/// Prints a table: per load the medians of both sides, and the median of the pairs' ratios beside what is asked. `only`: loads with this in their name.
pub fn figures_gateways(pairs: usize, seconds: u32, idle_s: u32, only: Option<&str>) -> Result<()> {
    ensure!(pairs > 0 && seconds > 0, "a figure needs at least one pair of at least one second");
    let chosen = |by: By| -> Vec<&Load> { LOADS.iter().filter(|l| l.by == by && only.is_none_or(|word| l.name.contains(word))).collect() };
    let (of_gateways, of_files) = (chosen(By::Gateway), chosen(By::Files));
    ensure!(!of_gateways.is_empty() || !of_files.is_empty(), "no load has {} in its name", only.unwrap_or_default());
    crate::cluster::take(crate::cluster::Build::Shipped);
    crate::cluster::build()?;
    Release::Pacific.install()?;
    reef_daemons()?;
    reef_radosgw()?;
    reef_mds()?;
    let mut sides = [Side::start(true)?, Side::start(false)?];
    let mut found: Vec<(&Load, Rows)> = Vec::new();
    if !of_gateways.is_empty() {
        let rows = through_gateways(&mut sides, &of_gateways, pairs, seconds, idle_s)?;
        found.extend(of_gateways.into_iter().zip(rows));
    }
    if !of_files.is_empty() {
        let rows = through_files(&sides, &of_files, pairs, seconds)?;
        found.extend(of_files.into_iter().zip(rows));
    }
    println!(
        "{:<32}{:>20}{:>20}{:>18}   radosgw or ceph-mds, us/op; operations a second",
        "OSD's CPU, us/op", "humboldt", "stock 18.2 memstore", "ratio (asked)"
    );
    for (load, rows) in &found {
        let of = |n: usize, f: fn(&Run) -> f64| median(rows[n].iter().map(f).collect());
        let ratio = median(rows[0].iter().zip(&rows[1]).map(|(a, b)| a.osd_us / b.osd_us).collect());
        println!(
            "{:<32}{:>20.1}{:>20.1}{:>18}   {:.0} beside {:.0}; {:.0} beside {:.0}",
            load.name,
            of(0, |r| r.osd_us),
            of(1, |r| r.osd_us),
            format!("{:.2} ({:.2})", hundredths(ratio), load.asked),
            of(0, |r| r.server_us),
            of(1, |r| r.server_us),
            of(0, |r| r.per_second),
            of(1, |r| r.per_second),
        );
    }
    // In order: a mount that lost its monitors does not end.
    let [ours, stock] = sides;
    drop(stock);
    let mut ours = ours.daemons;
    ours.end("osd.0")
}
