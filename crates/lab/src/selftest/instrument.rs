//! The whole path on a process whose latencies, CPU, writes and stall are known: started, loaded, sampled, stored and read back.

use super::{Temp, run_fakes};
use crate::metric::Metric;
use crate::results::Run;
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// CPU of an operation, microseconds.
const CPU_US: f64 = 1500.0;
/// Two modes: one operation of ten takes 20 ms, the others 6.
const FAST_NS: u64 = 6_000_000;
const SLOW_NS: u64 = 20_000_000;
const STALL_MS: f64 = 300.0;
const AMPLIFICATION: f64 = 3.0;

const STUDY: &str = r#"
lab = 1
name = "instrument"
[[target]]
name = "known"
kind = "fake"
store = "block"
args = ["--latency-us", "6000", "--slow-us", "20000", "--slow-every", "10", "--cpu-us", "1500", "--amplification", "3",
        "--stall-at", "400", "--stall-us", "300000"]
[[load]]
tool = "fake"
depth = 2
block = "4 KiB"
[rules]
quick = { rounds = 1, seconds = 4.0, warm_s = 0.2 }
"#;

pub fn prove(program: &Path) -> Result<String> {
    let temp = Temp::new("i")?;
    let out = temp.0.join("r");
    let outcome = run_fakes(STUDY, program, &out, false)?;
    let run = Run::load(&out)?;
    let round = run.of(0).first().context("no round")?;
    ensure!(outcome.valid == 1, "the round is {:?}", round.stat.state);
    let (told, used) = (round.stat.told.as_ref().context("nothing told")?, &round.stat.used);
    let cpu = round.value(Metric::ServerCpuUs).context("no CPU")?;
    ensure!((cpu / CPU_US - 1.0).abs() < 0.03, "CPU: {cpu:.1} us an operation where {CPU_US} is right");
    // Sectors of whole operations, exactly: what was under way when the load began or ended stands on one side or the other, and a busy machine
    // reads the counters some operations late.
    let sectors = used.sectors.context("no sectors")?;
    let counted = round.stat.counted.context("not counted")?;
    ensure!(counted.ops.abs_diff(told.ops) <= 2 * 2 + told.ops / 50, "{} operations told, {} counted", told.ops, counted.ops);
    ensure!(
        sectors.written == sectors.writes * 4096 / 512 * AMPLIFICATION as u64,
        "{sectors:?} is not {AMPLIFICATION} times 4 KiB a write"
    );
    let amplification = round.value(Metric::Amplification).context("no amplification")?;
    ensure!((amplification / AMPLIFICATION - 1.0).abs() < 0.03, "amplification {amplification:.3} where {AMPLIFICATION} is right");
    let latency = told.latency.as_ref().context("no histogram")?;
    let (p50, p95) = (latency.percentile_ns(50.0).context("no median")?, latency.percentile_ns(95.0).context("no 95 %")?);
    // A busy machine wakes sleepers late; it never wakes them early.
    ensure!((FAST_NS..SLOW_NS).contains(&p50), "the median is {p50} ns where the fast mode is {FAST_NS}");
    ensure!(p95 >= SLOW_NS, "95 % is {p95} ns where the slow mode is {SLOW_NS}");
    let (gap, longest) = (told.gap_ms.context("no gap")?, latency.max_ns().unwrap_or(0) as f64 / 1e6);
    ensure!(gap >= STALL_MS * 0.95 && longest >= STALL_MS * 0.95, "the stall of {STALL_MS} ms is not seen: {gap} ms without an answer");
    // Such a gap covers a slot of 100 ms wholly, wherever it begins; two only by luck.
    let empty = told.slots.iter().filter(|n| **n == 0).count();
    ensure!(empty >= 1, "the curve shows no stall: {:?}", told.slots);
    Ok(format!(
        "        CPU {cpu:.1} us an operation (truth {CPU_US}), {} sectors of {} writes exact, stall of {gap:.0} ms (truth {STALL_MS}), {} operations",
        sectors.written, sectors.writes, told.ops
    ))
}
