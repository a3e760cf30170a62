//! `rados bench`, the seed studies' own tool: mean and extremes of latency, no histogram.

use super::{BadOutput, Job, Op, Told, tail};
use std::process::Command;

/// How long what will be read is written at least, seconds.
const FILL_S: u64 = 2;
/// And by how many operations at once at least.
const FILL_DEPTH: u32 = 64;

/// By how many operations at once what was written is removed: 16 unless told, which takes longer than to write it did.
const CLEAN_DEPTH: &str = "128";

fn base(job: &Job) -> Command {
    let mut cmd = job.place.command("rados");
    cmd.args(["bench", "-p", "bench"]);
    cmd
}

fn write(job: &Job, seconds: u64, depth: u32) -> Command {
    let mut cmd = base(job);
    let (block, depth) = (job.work.block.to_string(), depth.to_string());
    cmd.args([&seconds.to_string(), "write", "-b", &block, "-t", &depth, "--run-name", job.tag, "--no-cleanup"]);
    cmd
}

fn whole(seconds: f64) -> u64 {
    (seconds.ceil() as u64).max(1)
}

/// How long what is read for so many seconds is written before. Read in order, each object is read once: as long, and where reads are faster
/// than writes, they are over before their time.
pub fn fill_s(op: Op, seconds: f64) -> u64 {
    if op == Op::Read { whole(seconds).max(FILL_S) } else { FILL_S }
}

pub fn prepare(job: &Job) -> Vec<Command> {
    if job.work.op == Op::Write { Vec::new() } else { vec![write(job, fill_s(job.work.op, job.seconds), job.work.depth.max(FILL_DEPTH))] }
}

pub fn command(job: &Job) -> Command {
    if job.work.op == Op::Write {
        return write(job, whole(job.seconds), job.work.depth);
    }
    let mut cmd = base(job);
    let kind = if job.work.op == Op::Read { "seq" } else { "rand" };
    // A null responder has no contents to compare, and it is the server that is measured.
    cmd.args([&whole(job.seconds).to_string(), kind, "-t", &job.work.depth.to_string(), "--run-name", job.tag, "--no-verify"]);
    cmd
}

pub fn warm_tag(job: &Job) -> String {
    format!("{}-warm", job.tag)
}

pub fn clean(job: &Job) -> Vec<Command> {
    let warmed = (job.work.op == Op::Write && job.warm_s > 0.0).then(|| warm_tag(job));
    let of = |tag: &str| {
        let mut cmd = job.place.command("rados");
        cmd.args(["cleanup", "-p", "bench", "--run-name", tag, "-t", CLEAN_DEPTH]);
        cmd
    };
    warmed.as_deref().into_iter().chain([job.tag]).map(of).collect()
}

/// The number behind a name in what it says at its end.
fn field(out: &str, name: &str) -> Result<f64, BadOutput> {
    let line = out.lines().find(|l| l.trim_start().starts_with(name));
    let value = line.and_then(|l| l.rsplit([' ', '\t', ':']).next()).and_then(|v| v.parse::<f64>().ok());
    value.ok_or_else(|| BadOutput::CutOff(format!("`{name}` is missing")))
}

/// Objects that a run made, by what it said.
pub fn made(out: &str) -> Option<u64> {
    field(out, "Total writes made").ok().map(|n| n as u64)
}

pub fn read(job: &Job, code: i32, out: &str, err: &str) -> Result<Told, BadOutput> {
    if code != 0 {
        let said = format!("code {code}: {}", tail(&format!("{out}\n{err}")));
        return Err(if err.contains("No space") || err.contains("(28)") { BadOutput::Full(said) } else { BadOutput::Failed(said) });
    }
    let field = |name: &str| field(out, name);
    let made = if job.work.op == Op::Write { "Total writes made" } else { "Total reads made" };
    // The table of seconds: `sec Cur ops started finished avg MB/s …`, once a second and with its heading again and again.
    let rows = out.lines().map(|l| l.split_whitespace().collect::<Vec<_>>()).filter(|w| w.len() >= 6 && w[0].parse::<u64>().is_ok());
    let finished: Vec<u64> = rows.filter_map(|w| w[3].parse().ok()).collect();
    Ok(Told {
        ops: field(made)? as u64,
        errors: 0,
        seconds: field("Total time run")?,
        mean_ns: field("Average Latency(s)")? * 1e9,
        latency: None,
        slots: finished.windows(2).map(|w| w[1].saturating_sub(w[0])).collect(),
        slot_ms: 1000,
        gap_ms: None,
        bytes: None,
        write_share: if job.work.op == Op::Write { 1.0 } else { 0.0 },
    })
}
