//! The block store's figures: server CPU per operation, latency, bytes written per byte of the client's, beside stock BlueStore of 18.2.
//!
//! Like those of the memory store ([`super::figures`]), with each store on loop devices of its own: an image that both fill before the first pair,
//! then, pair after pair, `rados bench` and fio's rbd engine without librbd's cache, what was made being removed again. What is written counts until the store is idle, ours until it has
//! made a checkpoint. Beside each stand what the wire costs (the null responder) and what one durable write of the device does.

use super::figures::{Sample, Stock, cleanup, cpu, field, median};
use crate::clients::{Release, SHARED};
use crate::cluster::{Cluster, rss_bytes};
use crate::loops::Loop;
use crate::run::{run, until};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A load, and what is asked of us as shares of stock's CPU and latency, and as bytes written.
struct Load {
    name: &'static str,
    what: What,
    depth: u32,
    cpu: f64,
    latency: Option<f64>,
    amplification: Option<f64>,
}

#[derive(Clone, Copy)]
enum What {
    /// `rados bench`: `write` or `rand`, bytes.
    Bench(&'static str, u64),
    /// fio on the image: its `rw`, bytes.
    Fio(&'static str, u64),
}

const fn load(name: &'static str, what: What, depth: u32, cpu: f64, latency: Option<f64>, amplification: Option<f64>) -> Load {
    Load { name, what, depth, cpu, latency, amplification }
}

const LOADS: [Load; 11] = [
    load("new 4k objects", What::Bench("write", 4096), 256, 0.15, None, Some(2.5)),
    load("their reads", What::Bench("rand", 4096), 256, 0.16, None, None),
    load("new 4k objects", What::Bench("write", 4096), 1, 0.30, Some(0.60), Some(2.5)),
    load("their reads", What::Bench("rand", 4096), 1, 0.30, Some(0.75), None),
    load("new 64k objects", What::Bench("write", 65536), 16, 0.25, None, Some(1.1)),
    load("fio 4k randwrite", What::Fio("randwrite", 4096), 1, 0.30, Some(0.60), Some(3.2)),
    load("fio 4k randread", What::Fio("randread", 4096), 1, 0.30, Some(0.75), None),
    load("fio 4k randwrite", What::Fio("randwrite", 4096), 64, 0.17, None, Some(2.2)),
    load("fio 4k randread", What::Fio("randread", 4096), 64, 0.16, None, None),
    load("fio 64k write", What::Fio("write", 65536), 16, 0.25, None, Some(1.1)),
    load("fio 64k read", What::Fio("read", 65536), 16, 0.25, None, None),
];

const IMAGE_MIB: u64 = 2048;
/// Room for the image, and for what 64 KiB objects bring in so many seconds.
const DEVICE_MIB: u64 = 8 << 10;
const SECONDS_MAX: u32 = 5;

/// A server and its devices.
struct Side<'a> {
    conf: PathBuf,
    pid: u32,
    loops: &'a [Loop],
    is_ours: bool,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    sample: Sample,
    /// 99.99 % of operations were faster; 0 if the client does not say.
    tail_us: f64,
    /// Bytes written for each of the client's, for writes.
    amplification: f64,
}

/// What `rados bench` calls the objects of a pair.
fn run_name(tag: &str, size: u64, depth: u32) -> String {
    format!("{tag}-{size}-{depth}")
}

/// Of one load: both sides' runs, and the null responder's.
#[derive(Default)]
struct Rows {
    sides: [Vec<Run>; 2],
    null: Vec<Run>,
}

/// What clients are given: librbd's cache off.
fn client_conf(conf: &Path) -> Result<PathBuf> {
    let path = conf.with_file_name("figures.conf");
    std::fs::write(&path, std::fs::read_to_string(conf)? + "\n[client]\nrbd cache = false\n")?;
    Ok(path)
}

fn ceph(conf: &Path, line: &str) -> Result<()> {
    let words = crate::run::words(line);
    let out = run(Release::Pacific.command(conf, &words[0]).args(&words[1..]), Duration::from_secs(120))?;
    ensure!(out.ok(), "{line}: {out:?}");
    Ok(())
}

impl Side<'_> {
    fn written(&self) -> u64 {
        self.loops.iter().map(Loop::written).sum()
    }
    /// Waits until nothing has been written for a second and a half.
    fn settle(&self) -> Result<()> {
        if self.is_ours {
            ceph(&self.conf, "ceph tell osd.0 compact")?;
        }
        let (mut last, mut since) = (self.written(), Instant::now());
        until(Duration::from_secs(30), || {
            let now = self.written();
            if now != last {
                (last, since) = (now, Instant::now());
            }
            since.elapsed() > Duration::from_millis(1500)
        });
        Ok(())
    }
    fn fio(&self, args: &str) -> Result<serde_json::Value> {
        let common = "--ioengine=rbd --clientname=admin --pool=rbd --rbdname=figures --direct=1 --name=figures --output-format=json";
        let out = run(
            Release::Pacific.command(&self.conf, "fio").args(common.split(' ')).arg(format!("--size={IMAGE_MIB}M")).args(args.split(' ')),
            Duration::from_secs(900),
        )?;
        ensure!(out.ok(), "fio {args}: {out:?}");
        let json = out.stdout.find('{').map_or("", |at| &out.stdout[at..]);
        serde_json::from_str(json).with_context(|| format!("fio says {}", out.stdout))
    }
    /// Removes what the loads of a group made: each pair meets stores that hold as little as the first one did.
    fn clean(&self, group: &[Load], tag: &str) -> Result<()> {
        let Some(What::Bench(_, size)) = group.first().map(|load| load.what) else { return Ok(()) };
        cleanup(&self.conf, &run_name(tag, size, group[0].depth))?;
        self.settle()
    }
    fn prepare(&self) -> Result<()> {
        ceph(&self.conf, "ceph osd pool create bench 32 32")?;
        ceph(&self.conf, "ceph osd pool create rbd 32 32")?;
        ceph(&self.conf, "rbd pool init rbd")?;
        ceph(&self.conf, &format!("rbd create --size {IMAGE_MIB}M rbd/figures"))?;
        self.fio("--rw=write --bs=4M --iodepth=8")?;
        self.settle()
    }
    fn run(&self, load: &Load, seconds: u32, tag: &str) -> Result<Run> {
        let (before, cpu_before) = (self.written(), cpu(&[self.pid]));
        let (ops, iops, latency_us, tail_us, bytes, is_write) = match load.what {
            What::Bench(kind, size) => {
                let mut args = format!("bench -p bench {seconds} {kind} -t {} --run-name {}", load.depth, run_name(tag, size, load.depth));
                args += &if kind == "write" { format!(" -b {size} --no-cleanup") } else { " --no-verify".to_string() };
                let limit = Duration::from_secs(u64::from(seconds) + 60);
                let out = run(Release::Pacific.command(&self.conf, "rados").args(args.split(' ')), limit)?;
                ensure!(out.ok(), "rados {args}: {out:?}");
                let ops = field(&out.stdout, if kind == "write" { "Total writes made" } else { "Total reads made" })?;
                let (time, latency) = (field(&out.stdout, "Total time run")?, field(&out.stdout, "Average Latency(s)")?);
                (ops, ops / time, latency * 1e6, 0.0, size, kind == "write")
            }
            What::Fio(rw, size) => {
                let json = self.fio(&format!("--rw={rw} --bs={size} --iodepth={} --runtime={seconds} --time_based", load.depth))?;
                let job = &json["jobs"][0][if rw.contains("write") { "write" } else { "read" }];
                let number = |v: &serde_json::Value| v.as_f64().with_context(|| format!("fio's result lacks a number: {job}"));
                let tail = number(&job["clat_ns"]["percentile"]["99.990000"])? / 1e3;
                let (ops, iops, mean) = (number(&job["total_ios"])?, number(&job["iops"])?, number(&job["lat_ns"]["mean"])?);
                (ops, iops, mean / 1e3, tail, size, rw.contains("write"))
            }
        };
        let cpu_us_per_op = (cpu(&[self.pid]) - cpu_before) * 1e6 / ops;
        let mut amplification = 0.0;
        if is_write {
            self.settle()?;
            amplification = (self.written() - before) as f64 / (ops * bytes as f64);
        }
        Ok(Run { sample: Sample { iops, latency_us, cpu_us_per_op }, tail_us, amplification })
    }
}

/// What one durable write of 4 KiB takes, in microseconds.
fn durable_write_us(file: &Path) -> Result<f64> {
    let args = "--name=ceiling --size=64M --bs=4k --direct=1 --ioengine=psync --output-format=json";
    let fio = |more: &str| {
        run(
            Command::new("fio").arg(format!("--filename={}", file.display())).args(args.split(' ')).args(more.split(' ')),
            Duration::from_secs(120),
        )
    };
    ensure!(fio("--rw=write --bs=1M")?.ok(), "fio can't write {}", file.display());
    let out = fio("--rw=write --sync=dsync --runtime=3 --time_based")?;
    let _ = std::fs::remove_file(file);
    let json: serde_json::Value = serde_json::from_str(&out.stdout).with_context(|| format!("fio says {out:?}"))?;
    json["jobs"][0]["write"]["lat_ns"]["mean"].as_f64().map(|ns| ns / 1e3).context("fio's result lacks a mean")
}

/// Prints a table: per load the medians of both sides, the ratios' median over the pairs, and what is asked for.
pub fn figures_block(pairs: usize, seconds: u32, raw: bool) -> Result<()> {
    ensure!(pairs > 0, "a figure needs at least one pair");
    ensure!(seconds <= SECONDS_MAX, "with more than {SECONDS_MAX} seconds a load the devices may be full");
    crate::cluster::build()?;
    Release::Pacific.install()?;
    crate::clients::reef_daemons()?;
    let sizes: &[(&str, u64)] = if raw { &[("data", DEVICE_MIB - 3072), ("wal", 256), ("meta", 2048)] } else { &[("ours", DEVICE_MIB)] };
    let mut ours_loops = sizes.iter().map(|(name, mib)| Loop::new(name, *mib)).collect::<Result<Vec<_>>>()?;
    let mut stock_loops = vec![Loop::new("stock", DEVICE_MIB)?];
    let mut args: Vec<String> = ["--auth", "none", "--store", "block"].map(String::from).to_vec();
    let (ours_dir, stock_dir) = if raw {
        for (role, device) in ["--data", "--wal", "--meta"].into_iter().zip(&ours_loops) {
            args.extend([role.to_string(), device.device.display().to_string()]);
        }
        (Path::new(SHARED).join("figures-ours"), Path::new(SHARED).join("figures-stock"))
    } else {
        args.extend(["--size".to_string(), format!("{}M", DEVICE_MIB * 7 / 10)]);
        (ours_loops[0].mount("figures-ours")?.join("c"), stock_loops[0].mount("figures-stock")?.join("c"))
    };
    let _ = std::fs::remove_dir_all(&ours_dir);
    std::fs::create_dir_all(&ours_dir)?;
    // On the devices while nothing else is: what they can do.
    let ceilings = if raw {
        None
    } else {
        Some((durable_write_us(&ours_dir.with_file_name("t"))?, durable_write_us(&stock_dir.with_file_name("t"))?))
    };
    let ours = Cluster::start_in(ours_dir, &args.iter().map(String::as_str).collect::<Vec<_>>())?;
    let null = Cluster::start("figures-null", &["--auth", "none", "--null"])?;
    let mut store = "osd objectstore = bluestore\n".to_string();
    store += &match raw {
        true => format!("bluestore block path = {}", stock_loops[0].device.display()),
        false => format!("bluestore block size = {}", (DEVICE_MIB << 20) / 10 * 8),
    };
    let stock = Stock::start(&stock_dir, 3372, &store)?;
    ceph(&null.conf, "ceph osd pool create bench 32 32")?;
    let side = |conf: &Path, pid, loops, is_ours| -> Result<Side> { Ok(Side { conf: client_conf(conf)?, pid, loops, is_ours }) };
    let sides = [side(&ours.conf, ours.pid(), &ours_loops[..], true)?, side(&stock.conf, stock.osd, &stock_loops[..], false)?];
    let floor = side(&null.conf, null.pid(), &[], false)?;
    sides.iter().try_for_each(Side::prepare)?;
    println!("humboldt up: ready after {:?}", ours.ready_after);
    let mut all: Vec<Rows> = LOADS.iter().map(|_| Rows::default()).collect();
    let mut memory = Vec::new();
    for pair in 0..pairs {
        let tag = format!("f{pair}");
        let mut rows = all.iter_mut();
        for group in LOADS.chunk_by(|_, next| matches!(next.what, What::Bench("rand", _))) {
            let mut rows: Vec<&mut Rows> = rows.by_ref().take(group.len()).collect();
            for (n, side) in sides.iter().enumerate() {
                for (load, rows) in group.iter().zip(&mut rows) {
                    rows.sides[n].push(side.run(load, seconds, &tag)?);
                }
                side.clean(group, &tag)?;
            }
            for (load, rows) in group.iter().zip(&mut rows).filter(|(load, _)| matches!(load.what, What::Bench(..))) {
                rows.null.push(floor.run(load, seconds, &tag)?);
            }
        }
        memory.push((rss_bytes(sides[0].pid) >> 20, rss_bytes(sides[1].pid) >> 20));
        // What is known so far, should the rest not come.
        let known = LOADS.iter().zip(&all).map(|(load, rows)| {
            let [a, b] = [0, 1].map(|n| rows.sides[n][pair]);
            format!("{} {}: {:.2}", load.name, load.depth, a.sample.cpu_us_per_op / b.sample.cpu_us_per_op)
        });
        eprintln!("pair {}: CPU {}; memory {:?} MiB", pair + 1, known.collect::<Vec<_>>().join(", "), memory[pair]);
    }
    println!(
        "{:<21}{:>31}{:>31}{:>15}  {:>19}{:>15}",
        "", "ours: CPU, latency, tail us, amp", "BlueStore 18.2", "null", "CPU ratio (asked)", "latency"
    );
    for (load, Rows { sides: rows, null: null_rows }) in LOADS.iter().zip(&all) {
        let of = |row: &[Run], f: fn(&Run) -> f64| median(row.iter().map(f).collect());
        let ratio = |f: fn(&Run) -> f64| median(rows[0].iter().zip(&rows[1]).map(|(a, b)| f(a) / f(b)).collect());
        let cell = |row: &[Run]| {
            let (tail, amp) = (of(row, |r| r.tail_us), of(row, |r| r.amplification));
            let text = |v: f64, digits: usize| if v > 0.0 { format!("{v:.digits$}") } else { "-".to_string() };
            format!(
                "{:.1}, {:.0}, {}, {}",
                of(row, |r| r.sample.cpu_us_per_op),
                of(row, |r| r.sample.latency_us),
                text(tail, 0),
                text(amp, 2)
            )
        };
        let null = if null_rows.is_empty() {
            "-".into()
        } else {
            format!("{:.1}, {:.0}", of(null_rows, |r| r.sample.cpu_us_per_op), of(null_rows, |r| r.sample.latency_us))
        };
        let asked = |v: Option<f64>| v.map_or(String::new(), |v| format!(" ({v:.2})"));
        println!(
            "{:<21}{:>31}{:>31}{:>15}  {:>19}{:>15}{}  {:.0} IOPS beside {:.0}",
            format!("{} {}", load.name, load.depth),
            cell(&rows[0]),
            cell(&rows[1]),
            null,
            format!("{:.2} ({:.2})", ratio(|r| r.sample.cpu_us_per_op), load.cpu),
            format!("{:.2}{}", ratio(|r| r.sample.latency_us), asked(load.latency)),
            load.amplification.map_or(String::new(), |v| format!("  amp asked {v}")),
            of(&rows[0], |r| r.sample.iops),
            of(&rows[1], |r| r.sample.iops)
        );
    }
    let most = |of: fn(&(u64, u64)) -> u64| memory.iter().map(of).max().unwrap_or(0);
    println!("memory: {} MiB after the first pair, {} at most (256 asked), BlueStore {} MiB", memory[0].0, most(|m| m.0), most(|m| m.1));
    if let Some((a, b)) = ceilings {
        println!("one durable write of 4 KiB: {a:.0} us on our device, {b:.0} us on stock's");
    }
    drop(sides);
    ours.stop()?;
    drop((stock, null));
    // Nobody has them any more.
    ours_loops.clear();
    stock_loops.clear();
    Ok(())
}
