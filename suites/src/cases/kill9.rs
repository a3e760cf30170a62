//! `humboldt up --store block` is killed with -9 again and again under three loads: `rados bench`, fio that verifies, and a writer that keeps a
//! ledger of what was acknowledged, in another process. Then everything is read back and compared.

use super::Case;
use super::rados::Background;
use crate::clients::Release::{self, Pacific};
use crate::cluster::Cluster;
use crate::run::{root, run, until};
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[
    Case { name: "kill9_short", needs: &[Pacific], run: || kill_loop(3) },
    Case { name: "restart_in_order", needs: &[Pacific], run: in_order },
    Case { name: "wrong_folders_are_refused", needs: &[Pacific], run: wrong_folders },
];

const CLIENTS: Release = Pacific;
const SIZE: &str = "2G";
/// How long a client may stand still after a restart: the server is there in a second, 16.2's clients look for a monitor every three.
const STILL: Duration = Duration::from_secs(40);
/// Where a bench's client answers what it waits for.
const BENCH_SOCKET: &str = "bench.asok";

pub fn command(conf: &Path, program: &str, line: &str) -> Command {
    let mut cmd = CLIENTS.command(conf, program);
    cmd.args(line.split_whitespace());
    cmd
}
/// A client whose output goes to a file beside the cluster's ceph.conf.
pub fn background(conf: &Path, program: &str, line: &str, log: &str) -> Result<Background> {
    let dir = conf.parent().context("ceph.conf is in the cluster's folder")?;
    let file = File::create(dir.join(log))?;
    let mut cmd = command(conf, program, line);
    Ok(Background(cmd.current_dir(dir).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?))
}
/// Waits for a client to end well.
pub fn finish(mut client: Background, what: &str, conf: &Path, log: &str, limit: Duration) -> Result<String> {
    let mut status = None;
    until(limit, || {
        status = client.0.try_wait().ok().flatten();
        status.is_some()
    });
    let text = std::fs::read_to_string(conf.with_file_name(log)).unwrap_or_default();
    let tail = || text.lines().rev().take(20).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n");
    match status {
        Some(status) if status.success() => Ok(text),
        Some(status) => bail!("{what} ended with {status}:\n{}", tail()),
        None => bail!("{what} does not end:\n{}\n{}", tail(), stand(conf)),
    }
}

/// What the cluster and a bench's client say of themselves while a client waits for ever.
fn stand(conf: &Path) -> String {
    let socket = conf.with_file_name(BENCH_SOCKET);
    let asked = [
        "health detail".to_string(),
        "osd dump".into(),
        "tell osd.0 dump_ops_in_flight".into(),
        format!("--admin-daemon {} objecter_requests", socket.display()),
    ];
    let mut out = String::new();
    for line in asked {
        let text = match run(&mut command(conf, "ceph", &line), Duration::from_secs(20)) {
            Ok(o) => format!("{}{}", o.stdout, o.stderr),
            Err(e) => format!("{e:#}"),
        };
        let lines: Vec<&str> = text.lines().take(40).collect();
        out += &format!("--- ceph {line}\n{}\n", lines.join("\n"));
    }
    out
}

/// A writer with a ledger.
pub struct Writer {
    child: Background,
    book: PathBuf,
}

impl Writer {
    /// Ends it, and everything that it was told is there.
    pub fn finish(self, c: &Cluster) -> Result<String> {
        std::fs::write(self.book.with_extension("stop"), "")?;
        finish(self.child, "the ledger's writer", &c.conf, "writer.log", STILL)?;
        check_ledger(c, &self.book)
    }
}

fn script(what: &str, conf: &Path, book: &Path) -> String {
    format!("{} {what} {} ledger {}", root().join("suites/src/cases/ledger.py").display(), conf.display(), book.display())
}
/// Starts a writer on the pool `ledger`; and what counts the writes that were acknowledged.
pub fn ledger(c: &Cluster, book: &Path) -> Result<(Writer, impl Fn() -> usize + use<>)> {
    for old in [book.to_path_buf(), book.with_extension("stop")] {
        let _ = std::fs::remove_file(old);
    }
    let child = background(&c.conf, "/usr/bin/python3", &script("write", &c.conf, book), "writer.log")?;
    let counted = book.to_path_buf();
    let lines = move || std::fs::read_to_string(&counted).map_or(0, |t| t.lines().filter(|l| l.starts_with('!')).count());
    Ok((Writer { child, book: book.to_path_buf() }, lines))
}
/// Compares the cluster with a ledger; what the check says.
pub fn check_ledger(c: &Cluster, book: &Path) -> Result<String> {
    let out = run(&mut command(&c.conf, "/usr/bin/python3", &script("check", &c.conf, book)), Duration::from_secs(120))?;
    ensure!(out.ok(), "the ledger:\n{}{}", out.stdout, out.stderr);
    Ok(out.stdout.trim().to_string())
}

/// `rados bench` in rounds for as long as kills come: each writes, reads all of it back and removes it, so that the store never fills up,
/// however long it takes. A full pool makes a bench wait for ever, here as in Ceph. The last round's objects stay.
struct Rounds {
    conf: PathBuf,
    ended: AtomicBool,
    /// Benches that have ended.
    done: AtomicU32,
}

impl Rounds {
    const WRITE_S: u64 = 10;

    fn bench(&self, n: u32, what: &str) -> Result<()> {
        let socket = self.conf.with_file_name(BENCH_SOCKET);
        let line = format!("-p bench --admin-socket={} bench {} {what} -t 8 --run-name r{n}", socket.display(), Self::WRITE_S);
        let bench = background(&self.conf, "rados", &line, "bench.log")?;
        let text = finish(bench, &format!("rados bench {what}"), &self.conf, "bench.log", Duration::from_secs(Self::WRITE_S) + STILL)?;
        ensure!(!text.contains("not correct"), "rados bench {what}:\n{text}");
        self.done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    /// The number of rounds.
    fn run(&self) -> Result<u32> {
        for n in 1.. {
            self.bench(n, "write -b 16384 --no-cleanup")?;
            self.bench(n, "seq")?;
            if self.ended.load(Ordering::Relaxed) {
                return Ok(n);
            }
            let out =
                run(&mut command(&self.conf, "rados", &format!("-p bench cleanup --run-name r{n}")), Duration::from_secs(60) + STILL)?;
            ensure!(out.ok(), "rados cleanup:\n{}{}\n{}", out.stdout, out.stderr, stand(&self.conf));
        }
        unreachable!("the loop ends by itself")
    }
    /// Grows with each second in which something of a bench was answered.
    fn progress(&self) -> (u32, u64) {
        let text = std::fs::read_to_string(self.conf.with_file_name("bench.log")).unwrap_or_default();
        // sec, ops that wait, started, finished
        let finished = |l: &str| l.split_whitespace().nth(3).filter(|_| l.split_whitespace().count() == 8)?.parse().ok();
        (self.done.load(Ordering::Relaxed), text.lines().filter_map(finished).max().unwrap_or(0))
    }
}

/// Kills and starts again `cycles` times.
pub fn kill_loop(cycles: u32) -> Result<()> {
    let mut c = Cluster::start("kill9", &["--store", "block", "--size", SIZE])?;
    let port = c.port()?;
    for line in ["ceph osd pool create ledger 8", "ceph osd pool create bench 8", "ceph osd pool create rbd 8", "rbd pool init rbd"] {
        c.must(CLIENTS, line)?;
    }
    c.must(CLIENTS, "rbd create --size 32M img")?;
    let fsid = c.must(CLIENTS, "ceph fsid")?;
    let (conf, book) = (c.conf.clone(), c.dir.join("ledger"));
    let (writer, lines) = ledger(&c, &book)?;
    let rounds = Arc::new(Rounds { conf: conf.clone(), ended: AtomicBool::new(false), done: AtomicU32::new(0) });
    let benches = std::thread::spawn({
        let rounds = rounds.clone();
        move || rounds.run()
    });
    // About as long as the kills take; without a size of its own it would end with the image's.
    let ops = cycles * 1000;
    let fio = format!(
        "--ioengine=rbd --clientname=admin --pool=rbd --rbdname=img --direct=1 --name=v --size=32M --rw=randwrite --bs=4k --iodepth=8 \
         --rate_iops=400 --io_size={}k --norandommap --verify=crc32c --verify_fatal=1 --do_verify=1 --verify_backlog=512 --randseed=7",
        ops * 4
    );
    let fio = background(&conf, "fio", &fio, "fio.log")?;

    let (mut slowest, mut acked) = (Duration::ZERO, 0);
    for cycle in 1..=cycles {
        // Until every writer of the ledger and the bench went on, and then for a time that differs from cycle to cycle.
        let (before, bench) = (lines(), rounds.progress());
        let goes_on = || (lines() > before + 20 && rounds.progress() != bench) || benches.is_finished();
        ensure!(until(STILL, goes_on), "cycle {cycle}: a client is not answered any more:\n{}\n{}", c.log(), stand(&conf));
        if benches.is_finished() {
            // It failed: what it says is the reason.
            break;
        }
        std::thread::sleep(Duration::from_millis(u64::from(cycle * 337 % 1500)));
        acked = lines();
        let dir = c.dir.clone();
        drop(c); // SIGKILL
        let started = Instant::now();
        c = Cluster::start_at(dir, &port, &[]).with_context(|| format!("cycle {cycle}"))?;
        slowest = slowest.max(started.elapsed());
    }
    rounds.ended.store(true, Ordering::Relaxed);
    let benched = benches.join().map_err(|_| anyhow!("the thread of the benches panicked"))??;
    writer.finish(&c)?;
    let fio = finish(fio, "fio", &conf, "fio.log", Duration::from_secs(120 + u64::from(ops) / 100))?;
    ensure!(fio.contains("err= 0"), "fio:\n{fio}");
    // Nothing of what is compared now is in memory.
    let dir = c.dir.clone();
    drop(c);
    let c = Cluster::start_at(dir, &port, &[])?;
    ensure!(c.must(CLIENTS, "ceph fsid")? == fsid, "another cluster");
    let counted = check_ledger(&c, &book)?;
    rounds.bench(benched, "seq")?;
    let scrubbed = scrub(&c)?;
    println!(
        "  {cycles} kills, {acked} acknowledged writes when the last came; {counted}; {benched} rounds of bench; {scrubbed} groups scrubbed clean; slowest start {:.2} s",
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
    ensure!(
        until(Duration::from_secs(20), || c
            .must(CLIENTS, "ceph health")
            .is_ok_and(|h| h.starts_with("HEALTH_OK") || h.contains("POOL_APP") || h.contains("application"))),
        "health"
    );
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
    // The monitor serves, and says which OSD does not and why.
    let refused = |dir: &PathBuf, osds: &[u32], why: &str| {
        let c = Cluster::start_in(dir.clone(), &["--osds", "2"])?;
        let log = c.log();
        for osd in osds {
            let says = |line: &str| line.contains(&format!("osd.{osd} does not serve")) && line.contains(why);
            ensure!(log.lines().any(says), "a wrong folder is taken for osd.{osd}'s:\n{log}");
        }
        c.stop()
    };
    swap(dir.join("osd.0"), dir.join("osd.1"))?;
    refused(&dir, &[0, 1], "is that of osd")?;
    swap(dir.join("osd.0"), dir.join("osd.1"))?;
    swap(dir.join("osd.0"), other.join("osd.0"))?;
    refused(&dir, &[0], "cluster")?;
    swap(dir.join("osd.0"), other.join("osd.0"))?;
    // One OSD's devices under another's name.
    for name in ["data", "wal", "meta"] {
        swap(dir.join("osd.0").join(name), dir.join("osd.1").join(name))?;
    }
    // With no OSD that could serve, and no disk that may come back, the start fails.
    let Err(e) = Cluster::start_in(dir.clone(), &["--osds", "2"]) else { bail!("swapped devices are taken") };
    ensure!(format!("{e:#}").contains("is the store of osd.1"), "{e:#}");
    for name in ["data", "wal", "meta"] {
        swap(dir.join("osd.0").join(name), dir.join("osd.1").join(name))?;
    }
    let Err(e) = Cluster::start_in(dir.clone(), &["--store", "mem", "--size", "1G"]) else {
        bail!("a store in memory takes a device's size")
    };
    ensure!(format!("{e:#}").contains("a block store's"), "{e:#}");
    Cluster::start_in(dir, &["--osds", "2"])?.stop()
}
