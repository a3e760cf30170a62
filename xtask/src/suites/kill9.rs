//! `humboldt up --store block` is killed with -9 again and again under three loads: `rados bench`, fio that verifies, and a writer that keeps a
//! ledger of what was acknowledged, in another process. Then everything is read back and compared.

use super::Case;
use super::rados::Background;
use crate::clients::Release::{self, Pacific};
use crate::cluster::Cluster;
use crate::run::{root, run, until};
use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[
    Case { name: "kill9_short", needs: &[Pacific], run: || kill_loop(3) },
    Case { name: "restart_in_order", needs: &[Pacific], run: in_order },
    Case { name: "wrong_folders_are_refused", needs: &[Pacific], run: wrong_folders },
];

const CLIENTS: Release = Pacific;
const SIZE: &str = "2G";

fn command(c: &Cluster, program: &str, line: &str) -> Command {
    let mut cmd = CLIENTS.command(&c.conf, program);
    cmd.args(line.split_whitespace());
    cmd
}
/// A client whose output goes to a file in the cluster's folder.
fn background(c: &Cluster, program: &str, line: &str, log: &str) -> Result<Background> {
    let file = File::create(c.dir.join(log))?;
    let mut cmd = command(c, program, line);
    Ok(Background(cmd.current_dir(&c.dir).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?))
}
/// Waits for a client to end well.
fn finish(mut client: Background, what: &str, log: PathBuf, limit: Duration) -> Result<String> {
    let mut status = None;
    until(limit, || {
        status = client.0.try_wait().ok().flatten();
        status.is_some()
    });
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    let tail = || text.lines().rev().take(20).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n");
    match status {
        Some(status) if status.success() => Ok(text),
        Some(status) => bail!("{what} ended with {status}:\n{}", tail()),
        None => bail!("{what} does not end:\n{}", tail()),
    }
}

/// The monitor's port: clients know it, so the next start takes the same one.
fn port(c: &Cluster) -> Result<String> {
    let conf = std::fs::read_to_string(&c.conf)?;
    let line = conf.lines().find(|l| l.starts_with("mon host")).context("ceph.conf names the monitor")?;
    Ok(line.trim_end_matches(']').rsplit(':').next().unwrap_or_default().to_string())
}

/// Kills and starts again `cycles` times.
pub fn kill_loop(cycles: u32) -> Result<()> {
    let mut c = Cluster::start("kill9", &["--store", "block", "--size", SIZE])?;
    let port = port(&c)?;
    for line in ["ceph osd pool create ledger 8", "ceph osd pool create bench 8", "ceph osd pool create rbd 8", "rbd pool init rbd"] {
        c.must(CLIENTS, line)?;
    }
    c.must(CLIENTS, "rbd create --size 32M img")?;
    let fsid = c.must(CLIENTS, "ceph fsid")?;
    let (ledger, script) = (c.dir.join("ledger"), root().join("xtask/src/suites/ledger.py"));
    let python = |what: &str| format!("{} {what} {} ledger {}", script.display(), c.conf.display(), ledger.display());
    let (write, check) = (python("write"), python("check"));
    let bench_s = 5 * cycles;
    let writer = background(&c, "/usr/bin/python3", &write, "writer.log")?;
    let bench = background(&c, "rados", &format!("-p bench bench {bench_s} write -t 8 -b 16384 --no-cleanup"), "bench.log")?;
    let ops = cycles * 2000;
    let fio = format!(
        "--ioengine=rbd --clientname=admin --pool=rbd --rbdname=img --direct=1 --name=v --size=32M --rw=randwrite --bs=4k --iodepth=8 \
         --rate_iops=400 --number_ios={ops} --norandommap --verify=crc32c --verify_fatal=1 --do_verify=1 --verify_backlog=512 --randseed=7"
    );
    let fio = background(&c, "fio", &fio, "fio.log")?;

    let (mut slowest, mut acked) = (Duration::ZERO, 0);
    for cycle in 1..=cycles {
        // Until the ledger has grown, and then for a time that differs from cycle to cycle.
        let lines = || std::fs::read_to_string(&ledger).map_or(0, |t| t.lines().filter(|l| l.starts_with('!')).count());
        let before = lines();
        ensure!(until(Duration::from_secs(60), || lines() > before + 20), "cycle {cycle}: nothing is acknowledged any more:\n{}", c.log());
        std::thread::sleep(Duration::from_millis(u64::from(cycle * 337 % 1500)));
        acked = lines();
        let dir = c.dir.clone();
        drop(c); // SIGKILL
        let started = Instant::now();
        c = Cluster::start_at(dir, &port, &[]).with_context(|| format!("cycle {cycle}"))?;
        slowest = slowest.max(started.elapsed());
    }
    std::fs::write(ledger.with_extension("stop"), "")?;
    let log = |name: &str| c.dir.join(name);
    finish(writer, "the ledger's writer", log("writer.log"), Duration::from_secs(60))?;
    finish(bench, "rados bench", log("bench.log"), Duration::from_secs(u64::from(bench_s) + 60))?;
    let fio = finish(fio, "fio", log("fio.log"), Duration::from_secs(120 + u64::from(ops) / 100))?;
    ensure!(fio.contains("err= 0"), "fio:\n{fio}");
    // Nothing of what is compared now is in memory.
    let dir = c.dir.clone();
    drop(c);
    let c = Cluster::start_at(dir, &port, &[])?;
    ensure!(c.must(CLIENTS, "ceph fsid")? == fsid, "another cluster");
    let out = run(&mut command(&c, "/usr/bin/python3", &check), Duration::from_secs(120))?;
    ensure!(out.ok(), "the ledger:\n{}{}", out.stdout, out.stderr);
    let seq = run(&mut command(&c, "rados", "-p bench bench 60 seq -t 8"), Duration::from_secs(120))?;
    ensure!(seq.ok() && !seq.stdout.contains("not correct"), "rados bench seq:\n{}{}", seq.stdout, seq.stderr);
    let scrubbed = scrub(&c)?;
    println!(
        "  {cycles} kills, {acked} acknowledged writes when the last came; {}, {scrubbed} groups scrubbed clean; slowest start {:.2} s",
        out.stdout.trim(),
        slowest.as_secs_f64()
    );
    c.stop()
}

/// Deep scrubs of everything find nothing.
fn scrub(c: &Cluster) -> Result<usize> {
    let dump: serde_json::Value = serde_json::from_str(&c.must(CLIENTS, "ceph pg dump pgs -f json")?)?;
    for pg in dump["pg_stats"].as_array().context("pg dump")? {
        c.must(CLIENTS, &format!("ceph pg deep-scrub {}", pg["pgid"].as_str().context("a pgid")?))?;
    }
    let stamps = || -> Result<Vec<String>> {
        let dump: serde_json::Value = serde_json::from_str(&c.must(CLIENTS, "ceph pg dump pgs -f json")?)?;
        let pgs = dump["pg_stats"].as_array().context("pg dump")?.clone();
        ensure!(pgs.iter().all(|pg| pg["stat_sum"]["num_scrub_errors"] == 0), "a scrub found errors:\n{}", c.log());
        Ok(pgs.iter().map(|pg| pg["last_deep_scrub_stamp"].to_string()).collect())
    };
    let all = || stamps().is_ok_and(|s| !s.is_empty() && s.iter().all(|s| !s.starts_with("\"0.0") && !s.starts_with("\"1970")));
    let done = until(Duration::from_secs(60), all);
    let stamps = stamps()?;
    ensure!(done, "groups are not scrubbed: {stamps:?}");
    Ok(stamps.len())
}

/// SIGTERM and a start: the same cluster, keys, pools, maps and data.
fn in_order() -> Result<()> {
    let c = Cluster::start("restart", &["--store", "block", "--size", SIZE, "--osds", "2"])?;
    c.must(CLIENTS, "ceph osd pool create p 16")?;
    std::fs::write(c.dir.join("in"), vec![7; 300_000])?;
    let dir = c.dir.clone();
    for i in 0..10 {
        c.must(CLIENTS, &format!("rados -p p put obj{i} {}/in", dir.display()))?;
    }
    c.must(CLIENTS, "rados -p p setxattr obj1 a b")?;
    c.must(CLIENTS, "rados -p p setomapval obj1 k v")?;
    let known = |c: &Cluster| -> Result<Vec<String>> {
        ["ceph fsid", "ceph auth get-key client.admin", "ceph osd pool ls", "rados -p p ls", "rados -p p getxattr obj1 a"]
            .iter()
            .map(|line| c.must(CLIENTS, line).map(|t| t.lines().map(String::from).collect::<std::collections::BTreeSet<_>>()))
            .map(|lines| lines.map(|l| l.into_iter().collect::<Vec<_>>().join("\n")))
            .collect()
    };
    let before = known(&c)?;
    c.stop()?;
    let c = Cluster::start_in(dir.clone(), &[])?;
    ensure!(known(&c)? == before, "{:?} where {before:?} was", known(&c)?);
    for i in 0..10 {
        c.must(CLIENTS, &format!("rados -p p get obj{i} {}/out", dir.display()))?;
        ensure!(std::fs::read(dir.join("out"))? == vec![7; 300_000], "obj{i}");
    }
    ensure!(c.must(CLIENTS, "rados -p p listomapvals obj1")?.contains("value (1 bytes)"), "omap");
    ensure!(until(Duration::from_secs(20), || c.must(CLIENTS, "ceph health").is_ok_and(|h| h.starts_with("HEALTH_OK") || h.contains("POOL_APP") || h.contains("application"))), "health");
    c.stop()
}

/// A folder's store in another OSD's place, and another cluster's folder.
fn wrong_folders() -> Result<()> {
    let args = ["--store", "block", "--size", "512M"];
    let (one, two) = (Cluster::start("folder-one", &[&args[..], &["--osds", "2"]].concat())?, Cluster::start("folder-two", &args)?);
    let (dir, other) = (one.dir.clone(), two.dir.clone());
    one.stop()?;
    two.stop()?;
    let swap = |a: PathBuf, b: PathBuf| -> Result<()> {
        let aside = a.with_extension("aside");
        std::fs::rename(&a, &aside)?;
        std::fs::rename(&b, &a)?;
        Ok(std::fs::rename(&aside, &b)?)
    };
    let refused = |dir: &PathBuf, why: &str| match Cluster::start_in(dir.clone(), &["--osds", "2"]) {
        Ok(_) => bail!("a wrong folder is taken"),
        Err(e) => {
            ensure!(format!("{e:#}").contains(why), "{e:#}");
            Ok(())
        }
    };
    swap(dir.join("osd.0"), dir.join("osd.1"))?;
    refused(&dir, "is that of osd.1")?;
    swap(dir.join("osd.0"), dir.join("osd.1"))?;
    swap(dir.join("osd.0"), other.join("osd.0"))?;
    refused(&dir, "belongs to cluster")?;
    swap(dir.join("osd.0"), other.join("osd.0"))?;
    // One OSD's devices under another's name.
    for name in ["data", "wal", "meta"] {
        swap(dir.join("osd.0").join(name), dir.join("osd.1").join(name))?;
    }
    refused(&dir, "is the store of osd.1")?;
    for name in ["data", "wal", "meta"] {
        swap(dir.join("osd.0").join(name), dir.join("osd.1").join(name))?;
    }
    let Err(e) = Cluster::start_in(dir.clone(), &["--store", "mem", "--size", "1G"]) else { bail!("a store in memory takes a device's size") };
    ensure!(format!("{e:#}").contains("a block store's"), "{e:#}");
    Cluster::start_in(dir, &["--osds", "2"])?.stop()
}
