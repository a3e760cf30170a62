//! The costs of a member of ours in a group that it shares with stock OSDs of 20.2, beside a stock member in the same role of a group of
//! stock OSDs alone: processor time a write, a write's latency at depth 1, and how fast an empty member is filled.
//!
//! The three pools are loaded in turns, so that a drift of the machine falls on all alike. A figure is the median of the rounds.

use super::{POOLS, Shared, cluster, make_pool, put, settle};
use crate::stock::Daemons;
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};

/// Clients' writes at a time where processor time counts.
const DEPTH: u32 = 16;
/// Of the objects that fill a member; 64 at a time are written.
const FILL_BYTES: u32 = 65_536;
/// For one member that is filled.
const FILLED: Duration = Duration::from_secs(1200);
/// A pool of one copy that goes to and fro between two OSDs.
const FILLS: [(&str, [u32; 2]); 2] = [("fill_stock", [0, 1]), ("fill_mixed", [3, 1])];

/// A request to measure.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub rounds: usize,
    /// Of each load.
    pub seconds: u32,
    /// Objects that fill a member.
    pub objects: u32,
}

/// Ours beside stock in one row; microseconds, or objects a second.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub load: String,
    pub metric: Metric,
    pub ours: f64,
    pub stock: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Of one member.
    Cpu,
    /// As the client sees it.
    Latency,
    Filled,
}

/// One load on one pool.
#[derive(Debug, Clone)]
struct Measured {
    /// Of each member, the one that leads first, for each write, microseconds.
    cpu_us: [f64; 3],
    latency_us: f64,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Processor time that an OSD has had, seconds: the scheduler's account of each of its threads.
fn cpu_s(d: &Daemons, osd: u32) -> Result<f64> {
    let pid = d.pid(&format!("osd.{osd}")).with_context(|| format!("osd.{osd} has ended"))?;
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).with_context(|| format!("osd.{osd} has ended"))?;
    let of = |text: String| text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    let ns: u64 = threads.flatten().map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).map_or(0, of)).sum();
    Ok(ns as f64 / 1e9)
}

/// A number behind these words in what `rados bench` prints.
fn told(text: &str, words: &str) -> Result<f64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(words));
    line.and_then(|rest| rest.trim().parse().ok()).with_context(|| format!("`rados bench` has no `{words}`:\n{text}"))
}

fn write(d: &Daemons, shared: Shared, depth: u32, seconds: u32) -> Result<Measured> {
    let Shared { pool, osds } = shared;
    let all = || -> Result<Vec<f64>> { osds.iter().map(|osd| cpu_s(d, *osd)).collect() };
    let before = all()?;
    let text = d.must_within(
        &format!("rados bench -p {pool} {seconds} write -b 4096 -t {depth} --no-cleanup"),
        Duration::from_secs(u64::from(seconds) + 60),
    )?;
    let after = all()?;
    let writes = told(&text, "Total writes made:")?;
    ensure!(writes > 0.0, "no write was made in {pool}");
    let cpu_us = |member: usize| (after[member] - before[member]) * 1e6 / writes;
    Ok(Measured { cpu_us: [cpu_us(0), cpu_us(1), cpu_us(2)], latency_us: told(&text, "Average Latency(s):")? * 1e6 })
}

/// Objects a second that come to the other OSD.
fn fill(d: &Daemons, pool: &str, to: u32, objects: u32) -> Result<f64> {
    let begin = Instant::now();
    put(d, pool, &[to])?;
    settle(d, pool, &[to], FILLED)?;
    Ok(f64::from(objects) / begin.elapsed().as_secs_f64())
}

/// Of each pool, in the order of [`POOLS`], the runs of all rounds.
type Rounds = [Vec<Measured>; 3];

fn of_pools(deep: &Rounds, one: &Rounds) -> Vec<Row> {
    let cpu = |pool: usize, members: &[usize]| {
        let mean = |run: &Measured| members.iter().map(|m| run.cpu_us[*m]).sum::<f64>() / members.len() as f64;
        median(deep[pool].iter().map(mean).collect())
    };
    let latency = |pool: usize| median(one[pool].iter().map(|run| run.latency_us).collect());
    let row = |load: &str, metric, ours, stock| Row { load: load.into(), metric, ours, stock };
    vec![
        row(&format!("4 KiB writes, depth {DEPTH}: the member that leads"), Metric::Cpu, cpu(1, &[0]), cpu(0, &[0])),
        row(&format!("4 KiB writes, depth {DEPTH}: a member that follows"), Metric::Cpu, cpu(2, &[1, 2]), cpu(0, &[1, 2])),
        row("4 KiB writes, depth 1: ours leads two of stock", Metric::Latency, latency(1), latency(0)),
        row("4 KiB writes, depth 1: stock leads two of ours", Metric::Latency, latency(2), latency(0)),
    ]
}

/// Measures all rows, and prints each round.
pub fn measure(asked: Asked) -> Result<Vec<Row>> {
    let d = cluster("shared-group")?;
    let (mut deep, mut one) = (Rounds::default(), Rounds::default());
    for round in 0..asked.rounds {
        for (depth, kept) in [(DEPTH, &mut deep), (1, &mut one)] {
            for n in 0..POOLS.len() {
                // Each pool is the first in its turn.
                let at = (n + round) % POOLS.len();
                let run = write(&d, POOLS[at], depth, asked.seconds)?;
                let [leads, follows, other] = run.cpu_us.map(|us| us.round());
                println!(
                    "round {}, {}, depth {depth}: {:.0} us; CPU us/write {leads}, {follows}, {other}",
                    round + 1,
                    POOLS[at].pool,
                    run.latency_us
                );
                kept[at].push(run);
            }
        }
    }
    let mut rows = of_pools(&deep, &one);
    rows.extend(fills(&d, asked)?);
    Ok(rows)
}

fn fills(d: &Daemons, asked: Asked) -> Result<Vec<Row>> {
    for (pool, [from, _]) in FILLS {
        make_pool(d, pool, &[from])?;
        // The bench ends by its count of objects long before its time.
        d.must_within(
            &format!("rados bench -p {pool} 600 write -b {FILL_BYTES} -t 64 --max-objects {} --no-cleanup", asked.objects),
            Duration::from_secs(660),
        )?;
    }
    let mut rates: [[Vec<f64>; 2]; 2] = Default::default();
    for round in 0..asked.rounds.div_ceil(2) {
        for direction in 0..2 {
            for (n, (pool, osds)) in FILLS.into_iter().enumerate() {
                let rate = fill(d, pool, osds[1 - direction], asked.objects)?;
                println!("round {}, osd.{} to osd.{}: {rate:.0} objects/s", round + 1, osds[direction], osds[1 - direction]);
                rates[n][direction].push(rate);
            }
        }
    }
    let [[there, back], [from_ours, to_ours]] = rates;
    let stock = median(there.into_iter().chain(back).collect());
    let row = |load: &str, rates: Vec<f64>| Row { load: load.into(), metric: Metric::Filled, ours: median(rates), stock };
    Ok(vec![row("objects of 64 KiB, ours fills stock", from_ours), row("objects of 64 KiB, stock fills ours", to_ours)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_what_the_bench_prints() {
        let text =
            "Total time run:         3.01\nTotal writes made:      1520\nAverage Latency(s):     0.00197\nStddev Latency(s):      0.001\n";
        assert_eq!((told(text, "Total writes made:").unwrap(), told(text, "Average Latency(s):").unwrap()), (1520.0, 0.00197));
        assert!(told("Total writes made: many", "Total writes made:").is_err() && told("", "Total writes made:").is_err());
    }

    #[test]
    fn a_role_of_ours_stands_beside_the_same_role_of_stock() {
        let run = |cpu_us, latency_us| Measured { cpu_us, latency_us };
        let stock = || vec![run([100.0, 40.0, 60.0], 900.0), run([300.0, 50.0, 70.0], 800.0), run([90.0, 45.0, 65.0], 1000.0)];
        let rounds: Rounds =
            [stock(), vec![run([20.0, 41.0, 61.0], 700.0); 3], vec![run([110.0, 8.0, 12.0], 950.0), run([110.0, 8.0, 14.0], 850.0)]];
        let rows = of_pools(&rounds, &rounds);
        let pairs: Vec<(f64, f64)> = rows.iter().map(|row| (row.ours, row.stock)).collect();
        assert_eq!(pairs, [(20.0, 100.0), (11.0, 55.0), (700.0, 900.0), (950.0, 900.0)]);
    }
}
