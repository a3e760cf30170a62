//! `humboldt bench`: our own load generator, as a process of its own, so that its CPU is the client's. One line of JSON tells everything.

use super::{BadOutput, Job, Op, Told, tail};
use crate::stats::Latency;
use serde_json::Value;
use std::process::Command;

pub fn command(job: &Job) -> Command {
    let work = job.work;
    let mode = if work.op == Op::Write {
        "write"
    } else if work.op == Op::Read {
        "seq"
    } else {
        "rand"
    };
    let mut cmd = Command::new(job.program);
    cmd.args(["bench", mode, "--json", "--marks", "--pool", "bench"]);
    if let Some(conf) = &job.place.conf {
        cmd.arg("--conf").arg(conf);
    }
    // Reads meet each block of `size`; writes make new objects as long as there is room for them.
    let objects = (work.size / work.block.max(1)).max(1);
    cmd.args(["--objects", &objects.to_string()]);
    cmd.args(["--block", &work.block.to_string(), "--depth", &work.depth.to_string()]);
    if work.is_drill() {
        // What a drill hurts must be there until all copies of it are made again.
        cmd.arg("--keep");
    }
    cmd.args(["--seconds", &job.seconds.to_string(), "--warm", &job.warm_s.to_string()]);
    cmd
}

/// Reads the last line.
pub fn read(code: i32, out: &str, err: &str) -> Result<Told, BadOutput> {
    let line = out.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or_default();
    let parsed: Result<Value, _> = serde_json::from_str(line);
    if code != 0 {
        let said = parsed.ok().and_then(|v| v.get("error").and_then(Value::as_str).map(String::from)).unwrap_or_else(|| tail(err));
        let full = ["no room", "full", "quota", "ENOSPC"].iter().any(|w| said.contains(w));
        let said = format!("code {code}: {said}");
        return Err(if full { BadOutput::Full(said) } else { BadOutput::Failed(said) });
    }
    let cut = |what: &str| BadOutput::CutOff(format!("{what} is missing in `{}`", line.chars().take(120).collect::<String>()));
    let value = parsed.map_err(|_| cut("the line of results"))?;
    let number = |key: &str| value.get(key).and_then(Value::as_f64).ok_or_else(|| cut(key));
    let bins: Vec<(u64, u64)> =
        value.get("histogram_ns").and_then(|v| serde_json::from_value(v.clone()).ok()).ok_or_else(|| cut("histogram_ns"))?;
    let slots = value.get("slots").and_then(|v| serde_json::from_value(v.clone()).ok()).ok_or_else(|| cut("slots"))?;
    Ok(Told {
        ops: number("ops")? as u64,
        errors: number("errors")? as u64,
        seconds: number("seconds")?,
        mean_ns: value.pointer("/latency_us/avg").and_then(Value::as_f64).ok_or_else(|| cut("latency_us"))? * 1000.0,
        latency: Some(Latency::of(bins)),
        slots,
        slot_ms: number("slot_ms")? as u64,
        gap_ms: Some(number("gap_us")? / 1000.0),
        bytes: None,
        write_share: if value.get("mode").and_then(Value::as_str) == Some("write") { 1.0 } else { 0.0 },
    })
}
