//! The figures of the memory store: server CPU per operation and latency, beside stock memstore of 18.2 in the same run.
//!
//! A ratio is the median of interleaved pairs: ours, theirs, ours, theirs. Each side serves one pool of 32 groups from one OSD, size 1,
//! without authentication; the client is `rados bench` of 16.2.

use crate::clients::{Release, SHARED};
use crate::cluster::Cluster;
use crate::run::{run, until};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// One measured run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub iops: f64,
    pub latency_us: f64,
    pub cpu_us_per_op: f64,
}

/// User and system time of processes, seconds.
pub(super) fn cpu(pids: &[u32]) -> f64 {
    let ticks = |pid: &u32| -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2).filter_map(|f| f.parse::<u64>().ok()).sum()
    };
    pids.iter().map(ticks).sum::<u64>() as f64 / 100.0
}

pub(super) fn field(text: &str, name: &str) -> Result<f64> {
    let line =
        text.lines().find(|l| l.trim_start().starts_with(name)).with_context(|| format!("rados bench does not say {name}:\n{text}"))?;
    line.rsplit(|c: char| c.is_whitespace() || c == ':').next().unwrap_or_default().parse().with_context(|| format!("{line} is no number"))
}

/// `extra` are further options of `rados`.
fn sample_with(conf: &Path, pids: &[u32], kind: &str, depth: u32, seconds: u32, tag: &str, extra: &str) -> Result<Sample> {
    let mut args = format!("bench -p bench {seconds} {kind} -t {depth} --run-name fig-{tag}-{depth}");
    // Contents are not compared: the null responder has none, and it is the server that is measured.
    args += if kind == "write" { " -b 4096 --no-cleanup" } else { " --no-verify" };
    args += extra;
    let before = cpu(pids);
    let out = run(Release::Pacific.command(conf, "rados").args(args.split(' ')), Duration::from_secs(seconds as u64 + 60))?;
    let used = cpu(pids) - before;
    ensure!(out.ok(), "rados bench: {out:?}");
    let ops = field(&out.stdout, if kind == "write" { "Total writes made" } else { "Total reads made" })?;
    Ok(Sample {
        iops: ops / field(&out.stdout, "Total time run")?,
        latency_us: field(&out.stdout, "Average Latency(s)")? * 1e6,
        cpu_us_per_op: used * 1e6 / ops,
    })
}

fn sample(conf: &Path, pids: &[u32], kind: &str, depth: u32, seconds: u32, tag: &str) -> Result<Sample> {
    sample_with(conf, pids, kind, depth, seconds, tag, "")
}

/// Removes what a run of `rados bench` left in its pool.
pub(super) fn cleanup(conf: &Path, run_name: &str) -> Result<()> {
    let args = ["cleanup", "-p", "bench", "--run-name", run_name];
    run(Release::Pacific.command(conf, "rados").args(args), Duration::from_secs(300)).map(drop)
}

pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// As a figure is kept: two digits behind the point, none from 100 on.
pub(super) fn rounded(mut side: Value) -> Value {
    for (_, v) in side.as_object_mut().into_iter().flatten() {
        let n = v.as_f64().unwrap_or(0.0);
        *v = json!(if n >= 100.0 { n.round() } else { hundredths(n) });
    }
    side
}

pub(super) fn hundredths(n: f64) -> f64 {
    (n * 100.0).round() / 100.0
}

/// A stock cluster of 18.2: one monitor, one OSD.
pub(super) struct Stock {
    pub conf: PathBuf,
    daemons: Vec<Child>,
    pub osd: u32,
}

impl Stock {
    /// In a new folder below `SHARED`; `store` are lines of ceph.conf that say which store.
    pub fn start(dir: &Path, port: u16, store: &str) -> Result<Self> {
        let _ = std::fs::remove_dir_all(dir);
        for sub in ["mon", "osd", "run", "log"] {
            std::fs::create_dir_all(dir.join(sub))?;
        }
        let d = dir.display();
        let fsid = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_string();
        let conf = dir.join("ceph.conf");
        let debug: String = ["ms", "osd", "mon", "paxos", "auth", "monc", "rocksdb", "bluestore", "bluefs", "bdev"]
            .iter()
            .map(|s| format!("debug {s} = 0/0\n"))
            .collect();
        std::fs::write(
            &conf,
            format!(
                "[global]\nfsid = {fsid}\nmon host = [v2:127.0.0.1:{port}]\npublic network = 127.0.0.0/8\nauth cluster required = none\n\
                 auth service required = none\nauth client required = none\nkeyring = {d}/keyring\nrun dir = {d}/run\n\
                 admin socket = {d}/run/$name.asok\nlog file = {d}/log/$name.log\nmon data = {d}/mon\nosd data = {d}/osd\n\
                 osd pool default size = 1\nosd pool default min size = 1\nosd pool default pg autoscale mode = off\nosd crush chooseleaf type = 0\n\
                 {store}\nmon allow pool size one = true\nmon data avail crit = 1\nmon data avail warn = 2\n{debug}"
            ),
        )?;
        let tool = |program: &str, args: &str| -> Result<()> {
            let words = crate::run::words(args);
            let out = run(Release::Reef.command(&conf, program).args(&words), Duration::from_secs(60))?;
            ensure!(out.ok(), "{program} {args}: {out:?}");
            Ok(())
        };
        tool("ceph-authtool", &format!("--create-keyring {d}/keyring --gen-key -n mon. --cap mon 'allow *'"))?;
        tool("ceph-authtool", &format!("{d}/keyring --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *'"))?;
        tool("monmaptool", &format!("--create --fsid {fsid} --addv a [v2:127.0.0.1:{port}] {d}/monmap"))?;
        tool("ceph-mon", &format!("--mkfs -i a --monmap {d}/monmap --keyring {d}/keyring"))?;
        let mut stock = Self { conf: conf.clone(), daemons: Vec::new(), osd: 0 };
        stock.daemon("ceph-mon", "-f -i a")?;
        let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_string();
        tool("ceph", &format!("osd new {uuid}"))?;
        tool("ceph-osd", &format!("-i 0 --mkfs --osd-uuid {uuid}"))?;
        stock.daemon("ceph-osd", "-f -i 0")?;
        stock.osd = stock.daemons.last().expect("just started").id();
        let up = || {
            run(Release::Reef.command(&conf, "ceph").args(["osd", "stat"]), Duration::from_secs(30))
                .is_ok_and(|o| o.stdout.contains("1 up"))
        };
        if !until(Duration::from_secs(60), up) {
            bail!("the stock OSD does not come up; see {d}/log");
        }
        Ok(stock)
    }

    fn daemon(&mut self, program: &str, args: &str) -> Result<()> {
        let mut cmd = Release::Reef.command(&self.conf, program);
        cmd.args(args.split(' ')).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push(cmd.spawn().with_context(|| format!("starting stock {program}"))?);
        Ok(())
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        for child in &mut self.daemons {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Prints a table: per test the medians of both sides and the ratios' median over the pairs. `keep`: into the kept figures, too.
pub fn figures(pairs: usize, seconds: u32, keep: bool) -> Result<()> {
    ensure!(pairs > 0, "a figure needs at least one pair");
    crate::cluster::build()?;
    Release::Pacific.install()?;
    crate::clients::reef_daemons()?;
    let ours = Cluster::start("figures", &["--auth", "none", "--store", "mem"])?;
    let null = Cluster::start("figures-null", &["--auth", "none", "--null"])?;
    let stock = Stock::start(&Path::new(SHARED).join("stock"), 3371, "osd objectstore = memstore\nmemstore device bytes = 8589934592")?;
    let sides: [(&str, &Path, Vec<u32>); 3] =
        [("humboldt", &ours.conf, vec![ours.pid()]), ("stock", &stock.conf, vec![stock.osd]), ("null", &null.conf, vec![null.pid()])];
    for (_, conf, _) in &sides {
        run(Release::Pacific.command(conf, "ceph").args(["osd", "pool", "create", "bench", "32", "32"]), Duration::from_secs(60))?;
        run(Release::Pacific.command(conf, "rados").args("bench -p bench 1 write -b 4096 -t 16".split(' ')), Duration::from_secs(60))?;
    }
    std::thread::sleep(Duration::from_secs(3));
    let idle = ours.cpu();
    std::thread::sleep(Duration::from_secs(10));
    println!(
        "humboldt up: ready after {:?}, {} MiB of memory, {:.2} % of a core when idle",
        ours.ready_after,
        ours.rss_bytes() >> 20,
        (ours.cpu() - idle).as_secs_f64() * 10.0
    );
    println!(
        "{:<16} {:>22} {:>22} {:>22}  {:>9} {:>9}",
        "rados bench 4 KiB", "humboldt", "stock 18.2 memstore", "null responder", "CPU", "latency"
    );
    println!(
        "{:<16} {:>22} {:>22} {:>22}  {:>9} {:>9}",
        "", "CPU us/op, latency us", "CPU us/op, latency us", "CPU us/op, latency us", "ratio", "ratio"
    );
    let mut kept = Vec::new();
    for (kind, depth) in [("write", 1), ("rand", 1), ("write", 16), ("rand", 16), ("write", 256), ("rand", 256)] {
        let mut rows: [Vec<Sample>; 3] = [Vec::new(), Vec::new(), Vec::new()];
        for pair in 0..pairs {
            for (row, (_, conf, pids)) in rows.iter_mut().zip(&sides) {
                if kind == "rand" {
                    // What is read must be there: a short write run of the same name, not measured.
                    sample(conf, pids, "write", depth, 2, &format!("r{pair}"))?;
                }
                let tag = if kind == "rand" { format!("r{pair}") } else { format!("w{pair}") };
                row.push(sample(conf, pids, kind, depth, seconds, &tag)?);
                // Each pair meets stores that hold as little as the first one did, in memory that the machine has touched before.
                cleanup(conf, &format!("fig-{tag}-{depth}"))?;
            }
        }
        let of = |row: &[Sample], f: fn(&Sample) -> f64| median(row.iter().map(f).collect());
        let ratio = |f: fn(&Sample) -> f64| median(rows[0].iter().zip(&rows[1]).map(|(a, b)| f(a) / f(b)).collect());
        let cell = |row: &[Sample]| {
            if row.is_empty() { "-".to_string() } else { format!("{:.1}, {:.0}", of(row, |s| s.cpu_us_per_op), of(row, |s| s.latency_us)) }
        };
        println!(
            "{:<16} {:>22} {:>22} {:>22}  {:>9.2} {:>9.2}   ({:.0} IOPS beside {:.0})",
            format!("{kind} depth {depth}"),
            cell(&rows[0]),
            cell(&rows[1]),
            cell(&rows[2]),
            ratio(|s| s.cpu_us_per_op),
            ratio(|s| s.latency_us),
            of(&rows[0], |s| s.iops),
            of(&rows[1], |s| s.iops)
        );
        let side = |n: usize| json!({ "cpu_us": of(&rows[n], |s| s.cpu_us_per_op), "latency_us": of(&rows[n], |s| s.latency_us) });
        kept.push(json!({
            "load": format!("{}, depth {depth}", if kind == "rand" { "read" } else { kind }),
            "ours": rounded(side(0)), "stock": rounded(side(1)), "null": rounded(side(2)),
            "cpu_ratio": hundredths(ratio(|s| s.cpu_us_per_op)), "latency_ratio": hundredths(ratio(|s| s.latency_us)),
        }));
    }
    if keep {
        crate::figures::keep("memory", &format!("cargo xtask figures --pairs {pairs} --seconds {seconds}"), kept)?;
    }
    secure_mode(pairs, seconds)
}

/// What secure mode costs more than crc mode: one cluster with cephx, the client's choice of mode alternating.
fn secure_mode(pairs: usize, seconds: u32) -> Result<()> {
    let c = Cluster::start("figures-secure", &["--auth", "cephx", "--store", "mem"])?;
    c.must(Release::Pacific, "ceph osd pool create bench 32 32")?;
    for kind in ["write", "rand"] {
        let mut rows: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        for pair in 0..pairs {
            for (row, mode) in rows.iter_mut().zip(["crc", "secure"]) {
                let tag = format!("{mode}{pair}");
                if kind == "rand" {
                    sample(&c.conf, &[c.pid()], "write", 256, 2, &tag)?;
                }
                row.push(sample_with(&c.conf, &[c.pid()], kind, 256, seconds, &tag, &format!(" --ms_client_mode={mode}"))?.cpu_us_per_op);
                cleanup(&c.conf, &format!("fig-{tag}-256"))?;
            }
        }
        let more = median(rows[0].iter().zip(&rows[1]).map(|(crc, secure)| secure - crc).collect());
        let [crc, secure] = rows.map(median);
        println!(
            "{kind} depth 256 with cephx: {crc:.1} CPU us/op in crc mode, {secure:.1} in secure mode, {more:+.1} (median of {pairs} pairs)"
        );
    }
    c.stop()
}
