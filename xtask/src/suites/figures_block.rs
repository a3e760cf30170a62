//! The block store's figures: server CPU per operation, latency, bytes written per byte of the client's, beside stock BlueStore of 18.2.
//!
//! Like those of the memory store ([`super::figures`]), with each store on loop devices of its own: an image that both fill before the first pair,
//! then, pair after pair, `rados bench` and fio's rbd engine without librbd's cache, what was made being removed again. What is written counts
//! until the store is idle, ours until it has made a checkpoint. Beside each stand what the wire costs (the null responder) and, before each pair, one durable write of the disk below.

use super::figures::{Sample, Stock, cleanup, cpu, field, hundredths, median, rounded};
use crate::clients::{Release, SHARED};
use crate::cluster::{Cluster, rss_bytes};
use crate::loops::Loop;
use crate::run::{run, until};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A load, and what is asked of us as shares of stock's CPU and latency, and as bytes written.
#[derive(Clone, Copy)]
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
/// New 64 KiB objects in a second, and new 4 KiB objects, for which there is room: a machine that makes more ends its load early.
const LARGE_PER_SECOND: u64 = 10_000;
const SMALL_PER_SECOND: u64 = 50_000;
const WAL_MIB: u64 = 256;
const META_MIB: u64 = 1024;
const CEILING_MIB: u64 = 64;
/// The devices' images have no holes: with this many seconds they are 20 GiB.
const SECONDS_MAX: u32 = 10;

/// A device for data: the image, what the load that makes most brings in so many seconds, or a quarter of the image to overwrite it with, and some
/// that stays free.
fn data_mib(loads: &[Load], seconds: u32) -> u64 {
    let made = |load: &Load| match load.what {
        What::Bench("write", size) => size * objects_per_second(size),
        _ => 0,
    };
    let most = loads.iter().map(made).max().unwrap_or(0);
    (IMAGE_MIB + ((most * u64::from(seconds)) >> 20).max(IMAGE_MIB / 4)) * 17 / 16
}

fn objects_per_second(size: u64) -> u64 {
    if size > 4096 { LARGE_PER_SECOND } else { SMALL_PER_SECOND }
}

impl Load {
    /// As the kept figures call it.
    fn kept_name(&self) -> String {
        let name = self.name.replace("their reads", "reads of them").replace("4k", "4 KiB").replace("64k", "64 KiB");
        format!("{name}, depth {}", self.depth)
    }
    fn label(&self) -> String {
        format!("{} {}", self.name, self.depth)
    }
}

/// A load that makes objects, and those that read them.
fn groups(loads: &[Load]) -> impl Iterator<Item = &[Load]> {
    loads.chunk_by(|_, next| matches!(next.what, What::Bench("rand", _)))
}

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

/// Medians of one side, without what its client did not say.
fn kept_side(runs: &[Run]) -> Value {
    let of = |f: fn(&Run) -> f64| median(runs.iter().map(f).collect());
    let mut side = json!({ "cpu_us": of(|r| r.sample.cpu_us_per_op), "latency_us": of(|r| r.sample.latency_us) });
    for (name, v) in [("amplification", of(|r| r.amplification)), ("tail_us", of(|r| r.tail_us))] {
        if v > 0.0 {
            side[name] = json!(v);
        }
    }
    rounded(side)
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
                args += &match kind {
                    "write" => format!(" -b {size} --max-objects {} --no-cleanup", objects_per_second(size) * u64::from(seconds)),
                    _ => " --no-verify".to_string(),
                };
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

/// What one durable write of 4 KiB to this file or device takes, in microseconds.
fn durable_write_us(file: &Path) -> Result<f64> {
    let size = format!("--size={CEILING_MIB}M");
    let args = format!("--name=ceiling {size} --bs=4k --direct=1 --ioengine=psync --output-format=json");
    let fio = |more: &str| {
        run(
            Command::new("fio").arg(format!("--filename={}", file.display())).args(args.split(' ')).args(more.split(' ')),
            Duration::from_secs(120),
        )
    };
    ensure!(fio("--rw=write --bs=1M")?.ok(), "fio can't write {}", file.display());
    let out = fio("--rw=write --sync=dsync --runtime=3 --time_based")?;
    let json: serde_json::Value = serde_json::from_str(&out.stdout).with_context(|| format!("fio says {out:?}"))?;
    json["jobs"][0]["write"]["lat_ns"]["mean"].as_f64().map(|ns| ns / 1e3).context("fio's result lacks a mean")
}

/// Each group of loads on one side, then on the other, and on what answers without a store.
fn run_pair(tag: &str, loads: &[Load], seconds: u32, sides: &[Side<'_>], floor: &Side<'_>, all: &mut [Rows]) -> Result<()> {
    let mut rows = all.iter_mut();
    for group in groups(loads) {
        let mut rows: Vec<&mut Rows> = rows.by_ref().take(group.len()).collect();
        for (n, side) in sides.iter().enumerate() {
            for (load, rows) in group.iter().zip(&mut rows) {
                rows.sides[n].push(side.run(load, seconds, tag)?);
            }
            side.clean(group, tag)?;
        }
        for (load, rows) in group.iter().zip(&mut rows).filter(|(load, _)| matches!(load.what, What::Bench(..))) {
            rows.null.push(floor.run(load, seconds, tag)?);
        }
    }
    Ok(())
}

/// The table, and the rows as they are kept.
fn print_table(loads: &[Load], all: &[Rows]) -> Vec<serde_json::Value> {
    println!(
        "{:<21}{:>31}{:>31}{:>15}  {:>19}{:>15}",
        "", "ours: CPU, latency, tail us, amp", "BlueStore 18.2", "null", "CPU ratio (asked)", "latency"
    );
    let mut kept = Vec::new();
    for (load, Rows { sides: rows, null: null_rows }) in loads.iter().zip(all) {
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
            load.label(),
            cell(&rows[0]),
            cell(&rows[1]),
            null,
            format!("{:.2} ({:.2})", ratio(|r| r.sample.cpu_us_per_op), load.cpu),
            format!("{:.2}{}", ratio(|r| r.sample.latency_us), asked(load.latency)),
            load.amplification.map_or(String::new(), |v| format!("  amp asked {v}")),
            of(&rows[0], |r| r.sample.iops),
            of(&rows[1], |r| r.sample.iops)
        );
        kept.push(json!({
            "load": load.kept_name(), "ours": kept_side(&rows[0]), "stock": kept_side(&rows[1]),
            "cpu_ratio": hundredths(ratio(|r| r.sample.cpu_us_per_op)), "latency_ratio": hundredths(ratio(|r| r.sample.latency_us)),
        }));
    }
    kept
}

/// Prints a table: per load the medians of both sides, the ratios' median over the pairs, and what is asked for. `only`: loads with this in their name
/// or depth, and those that make what they read. `keep`: into the kept figures, too.
pub fn figures_block(pairs: usize, seconds: u32, raw: bool, only: Option<&str>, keep: bool) -> Result<()> {
    ensure!(pairs > 0, "a figure needs at least one pair");
    ensure!((1..=SECONDS_MAX).contains(&seconds), "a load takes 1 to {SECONDS_MAX} seconds");
    let is_asked = |load: &Load| only.is_none_or(|word| load.label().contains(word));
    let loads: Vec<Load> = groups(&LOADS).filter(|group| group.iter().any(is_asked)).flatten().copied().collect();
    ensure!(!loads.is_empty(), "no load has {} in its name", only.unwrap_or_default());
    crate::cluster::build()?;
    Release::Pacific.install()?;
    crate::clients::reef_daemons()?;
    let device_mib = data_mib(&loads, seconds) + WAL_MIB + META_MIB;
    let sizes: &[(&str, u64)] =
        if raw { &[("data", data_mib(&loads, seconds)), ("wal", WAL_MIB), ("meta", META_MIB)] } else { &[("ours", device_mib * 9 / 8)] };
    let stock_mib = sizes.iter().map(|(_, mib)| mib).sum();
    let (images, all_mib) = (Loop::folder()?, stock_mib * 2 + CEILING_MIB);
    let room = super::failures::free_mib(&images)?;
    ensure!(room > all_mib + 1024, "{} has {room} MiB left, and the devices' images take {all_mib}", images.display());
    let mut ours_loops = sizes.iter().map(|(name, mib)| Loop::new(name, *mib)).collect::<Result<Vec<_>>>()?;
    let mut stock_loops = vec![Loop::new("stock", stock_mib)?];
    let ceiling_loop = raw.then(|| Loop::new("ceiling", CEILING_MIB)).transpose()?;
    let mut args: Vec<String> = ["--auth", "none", "--store", "block"].map(String::from).to_vec();
    let (ours_dir, stock_dir) = if raw {
        for (role, device) in ["--data", "--wal", "--meta"].into_iter().zip(&ours_loops) {
            args.extend([role.to_string(), device.device.display().to_string()]);
        }
        (Path::new(SHARED).join("figures-ours"), Path::new(SHARED).join("figures-stock"))
    } else {
        args.extend(["--size".to_string(), format!("{device_mib}M")]);
        (ours_loops[0].mount("figures-ours")?.join("c"), stock_loops[0].mount("figures-stock")?.join("c"))
    };
    let _ = std::fs::remove_dir_all(&ours_dir);
    std::fs::create_dir_all(&ours_dir)?;
    // What the disk can do, in the minutes of each pair: on a device like theirs, or on our store's file system.
    let ceiling = ceiling_loop.as_ref().map_or_else(|| ours_dir.with_file_name("t"), |own| own.device.clone());
    let mut ceilings = Vec::new();
    let ours = Cluster::start_in(ours_dir, &args.iter().map(String::as_str).collect::<Vec<_>>())?;
    let null = Cluster::start("figures-null", &["--auth", "none", "--null"])?;
    let mut store = "osd objectstore = bluestore\n".to_string();
    store += &match raw {
        true => format!("bluestore block path = {}", stock_loops[0].device.display()),
        false => format!("bluestore block size = {}", (stock_mib << 20) / 8 * 7),
    };
    let stock = Stock::start(&stock_dir, 3372, &store)?;
    ceph(&null.conf, "ceph osd pool create bench 32 32")?;
    let side = |conf: &Path, pid, loops, is_ours| -> Result<Side> { Ok(Side { conf: client_conf(conf)?, pid, loops, is_ours }) };
    let sides = [side(&ours.conf, ours.pid(), &ours_loops[..], true)?, side(&stock.conf, stock.osd, &stock_loops[..], false)?];
    let floor = side(&null.conf, null.pid(), &[], false)?;
    sides.iter().try_for_each(Side::prepare)?;
    println!("humboldt up: ready after {:?}", ours.ready_after);
    let mut all: Vec<Rows> = loads.iter().map(|_| Rows::default()).collect();
    let mut memory = Vec::new();
    for pair in 0..pairs {
        ceilings.push(durable_write_us(&ceiling)?);
        run_pair(&format!("f{pair}"), &loads, seconds, &sides, &floor, &mut all)?;
        memory.push((rss_bytes(sides[0].pid) >> 20, rss_bytes(sides[1].pid) >> 20));
        // What is known so far, should the rest not come.
        let known = loads.iter().zip(&all).map(|(load, rows)| {
            let [a, b] = [0, 1].map(|n| rows.sides[n][pair]);
            format!("{}: {:.2}", load.label(), a.sample.cpu_us_per_op / b.sample.cpu_us_per_op)
        });
        eprintln!("pair {}: CPU {}; memory {:?} MiB", pair + 1, known.collect::<Vec<_>>().join(", "), memory[pair]);
    }
    let kept = print_table(&loads, &all);
    if keep {
        let raw = if raw { " --raw" } else { "" };
        crate::figures::keep("block", &format!("cargo xtask figures --store block{raw} --pairs {pairs} --seconds {seconds}"), kept)?;
    }
    let most = |of: fn(&(u64, u64)) -> u64| memory.iter().map(of).max().unwrap_or(0);
    println!("memory: {} MiB after the first pair, {} at most (256 asked), BlueStore {} MiB", memory[0].0, most(|m| m.0), most(|m| m.1));
    let (least, most) = ceilings.iter().fold((f64::MAX, 0f64), |(least, most), us| (least.min(*us), most.max(*us)));
    println!("one durable write of 4 KiB to the disk below: {:.0} us, {least:.0} to {most:.0} before each pair", median(ceilings));
    drop(sides);
    ours.stop()?;
    drop((stock, null));
    // No process has them any more.
    ours_loops.clear();
    stock_loops.clear();
    Ok(())
}
