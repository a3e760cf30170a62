//! fio: one job out of the load's settings, json+ output with mergeable bins.

use super::{BadOutput, Job, Op, Told, Tool, tail};
use crate::stats::Latency;
use crate::target::gluster;
use crate::value::Value;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::process::Command;

/// Milliseconds of one point of the curve.
const SLOT_MS: u64 = 200;

fn engine(tool: Tool) -> &'static str {
    match tool {
        Tool::FioRbd => "rbd",
        Tool::FioRados => "rados",
        Tool::FioPsync => "psync",
        Tool::FioGfapi => "gfapi",
        _ => "libaio",
    }
}

fn op(op: Op) -> &'static str {
    match op {
        Op::Write => "write",
        Op::RandWrite => "randwrite",
        Op::Read => "read",
        Op::RandRead => "randread",
        Op::Mix => "randrw",
    }
}

/// The image of a load: its name says its size, so that another size is another image.
fn image(job: &Job) -> String {
    format!("lab-{}", job.work.size)
}

fn base(job: &Job, rw: &str) -> Command {
    let work = job.work;
    let mut cmd = job.place.command("fio");
    if let Some(conf) = job.place.conf.as_ref().filter(|_| work.cache) {
        // librbd's write-back cache, from the first write on: a client of a file system that flushes gets just that.
        let own = std::fs::read_to_string(conf).unwrap_or_default();
        let path = job.dir.join("cached.conf");
        let text = own + "[client]\nrbd cache = true\nrbd cache writethrough until flush = false\nrbd cache policy = writeback\n";
        // If it can't be written, the load says so when it looks for it.
        let _ = std::fs::write(&path, text);
        cmd.env("CEPH_CONF", path);
    }
    cmd.args(["--name=lab", "--thread", "--output-format=json+", "--norandommap", "--randrepeat=1"]);
    cmd.arg(format!("--ioengine={}", engine(work.tool))).arg(format!("--rw={rw}")).arg(format!("--size={}", work.size));
    match work.tool {
        Tool::FioRbd => cmd.args(["--clientname=admin", "--pool=bench"]).arg(format!("--rbdname={}", image(job))),
        Tool::FioRados => cmd.args(["--clientname=admin", "--pool=bench"]),
        Tool::FioGfapi => cmd
            .arg(format!("--volume={}", gluster::VOLUME))
            .arg(format!("--brick={}", gluster::ADDRESS))
            .args(["--direct=1", "--filename=gfapi-data"]),
        _ => cmd.arg(format!("--filename={}", job.place.file.display())).arg("--direct=1"),
    };
    cmd
}

pub fn prepare(job: &Job) -> Vec<Command> {
    let work = job.work;
    let mut all = Vec::new();
    if work.tool == Tool::FioRbd {
        let mut create = job.place.command("rbd");
        create.args(["create", "--pool", "bench", "--size", &format!("{}B", work.size), "--image-feature", "layering", &image(job)]);
        all.push(create);
    }
    // Blocks that were never written are read without the device, and first writes are unlike later ones.
    if work.tool != Tool::FioRados {
        let mut fill = base(job, "write");
        fill.args(["--bs=1M", "--iodepth=16"]);
        all.push(fill);
    }
    all
}

pub fn command(job: &Job) -> Command {
    let work = job.work;
    let mut cmd = base(job, op(work.op));
    cmd.arg(format!("--bs={}", work.block)).arg(format!("--iodepth={}", work.depth)).arg(format!("--numjobs={}", work.jobs));
    cmd.args(["--time_based", "--group_reporting"]).arg(format!("--runtime={}s", job.seconds.ceil()));
    if work.op == Op::Mix {
        cmd.arg("--rwmixread=70");
    }
    cmd.arg(format!("--write_iops_log={}", job.dir.join("curve").display())).arg(format!("--log_avg_msec={SLOT_MS}"));
    cmd.args(work.options.iter().map(|(key, value)| format!("--{key}={value}")));
    cmd
}

/// The curve out of fio's log: `ms, IOPS, direction, block, …`; the jobs' and directions' rates of a slot are summed.
fn curve(job: &Job) -> Vec<u64> {
    let files = std::fs::read_dir(job.dir).into_iter().flatten().flatten();
    let logs = files.filter(|f| f.file_name().to_string_lossy().starts_with("curve_iops"));
    let mut slots = Vec::new();
    for text in logs.filter_map(|f| std::fs::read_to_string(f.path()).ok()) {
        for line in text.lines() {
            let mut words = line.split(',').map(|w| w.trim().parse::<u64>());
            let (Some(Ok(ms)), Some(Ok(iops))) = (words.next(), words.next()) else { continue };
            let slot = (ms.saturating_sub(1) / SLOT_MS) as usize;
            if slot < 1 << 20 {
                slots.resize(slots.len().max(slot + 1), 0);
                slots[slot] += iops * SLOT_MS / 1000;
            }
        }
    }
    slots
}

pub fn read(job: &Job, code: i32, out: &str, err: &str) -> Result<Told, BadOutput> {
    // Libraries print before fio does.
    let json = out.find("{\n").map_or(out, |at| &out[at..]);
    let parsed: Result<Json, _> = serde_json::from_str(json);
    if code != 0 {
        let said = format!("code {code}: {}", tail(if err.trim().is_empty() { out } else { err }));
        return Err(if said.contains("No space") { BadOutput::Full(said) } else { BadOutput::Failed(said) });
    }
    let value = parsed.map_err(|e| BadOutput::CutOff(format!("fio's JSON: {e}")))?;
    let cut = |what: &str| BadOutput::CutOff(format!("fio's JSON has no {what}"));
    let report = value.pointer("/jobs/0").ok_or_else(|| cut("job"))?;
    let mut told = Told { slot_ms: SLOT_MS, slots: curve(job), ..Told::default() };
    let (mut latency, mut sum, mut writes) = (Latency::default(), 0.0, 0);
    for side in ["read", "write"] {
        let part = report.get(side).ok_or_else(|| cut(side))?;
        let ops = part.get("total_ios").and_then(Json::as_u64).ok_or_else(|| cut("total_ios"))?;
        if ops == 0 {
            continue;
        }
        let ms = part.get("runtime").and_then(Json::as_f64).ok_or_else(|| cut("runtime"))?;
        let mean = part.pointer("/clat_ns/mean").and_then(Json::as_f64).ok_or_else(|| cut("clat_ns"))?;
        let bins = part.pointer("/clat_ns/bins").and_then(Json::as_object).ok_or_else(|| cut("bins"))?;
        latency.merge(&Latency::of_fio(bins).ok_or_else(|| cut("readable bins"))?);
        told.ops += ops;
        told.seconds = told.seconds.max(ms / 1000.0);
        sum += mean * ops as f64;
        writes += if side == "write" { ops } else { 0 };
    }
    told.mean_ns = sum / told.ops.max(1) as f64;
    told.write_share = writes as f64 / told.ops.max(1) as f64;
    told.errors = report.get("total_err").and_then(Json::as_u64).unwrap_or_default();
    told.latency = Some(latency);
    Ok(told)
}

const BASE_BYTES: u64 = 64 << 20;
const BASE_IMAGE: &str = "lab-base";

fn base_command(job: &Job) -> Command {
    let mut cmd = job.place.command("fio");
    cmd.args(["--name=base", "--thread", "--output-format=json", "--ioengine=rbd", "--clientname=admin", "--pool=bench", "--direct=1"]);
    cmd.arg(format!("--rbdname={BASE_IMAGE}")).arg(format!("--size={BASE_BYTES}"));
    cmd
}

/// The base load: on an image of its own, so that nothing of it is the measured load's; at `rate` bytes a second each way, or as fast as it can.
pub fn base_load(job: &Job, options: &BTreeMap<String, Value>, rate: Option<u64>) -> [Command; 2] {
    let mut create = job.place.command("rbd");
    create.args(["create", "--pool", "bench", "--size", &format!("{BASE_BYTES}B"), "--image-feature", "layering", BASE_IMAGE]);
    let mut cmd = base_command(job);
    cmd.args(["--time_based", "--randrepeat=0"]).arg(format!("--runtime={}s", job.seconds.ceil()));
    // The rate is the share's, whatever the study's own was.
    cmd.args(options.iter().filter(|(key, _)| *key != "rate").map(|(key, value)| format!("--{key}={value}")));
    if let Some(rate) = rate {
        cmd.arg(format!("--rate={rate},{rate}"));
    }
    [create, cmd]
}

pub fn base_fill(job: &Job) -> Command {
    let mut cmd = base_command(job);
    cmd.args(["--rw=write", "--bs=4M", "--iodepth=4"]);
    cmd
}

/// Bytes a second of a base load that ran.
pub fn base_rate(out: &str) -> Option<f64> {
    let json: Json = serde_json::from_str(out.find("{\n").map_or(out, |at| &out[at..])).ok()?;
    let of = |side: &str| json.pointer(&format!("/jobs/0/{side}/bw_bytes")).and_then(Json::as_f64);
    Some(of("read")? + of("write")?).filter(|rate| *rate > 0.0)
}
