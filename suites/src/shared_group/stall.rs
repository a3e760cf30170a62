//! How long clients of a shared group stand still when a member is killed, ended in order, stopped and continued, each time beside what
//! befell the same role of a group of stock OSDs alone, in the same cluster.
//!
//! The watcher is a program of its own, which names each pause and every answer that is stale, wrong or missing. It waits for deeds by
//! files: it makes one at its event, and the deed is done here, where the daemons are known.

use super::{OURS, POOLS, STOCK, Shared, cluster, settle};
use crate::stock::{Daemons, PATIENCE};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Seconds from the watcher's start, and what happens then to the one member.
const DEEDS: [(u32, Deed); 6] =
    [(6, Deed::Kill), (16, Deed::Start), (28, Deed::Term), (38, Deed::Start), (50, Deed::Stop), (85, Deed::Cont)];
/// The watcher's time.
const SECONDS: u32 = 100;
/// Until the watcher has ended beside that.
const PATIENCE_END: Duration = Duration::from_secs(120);
/// Of pauses that are compared: a shorter one is the machine's.
const SHORT_MS: f64 = 250.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Kill,
    Start,
    Term,
    Stop,
    Cont,
}

impl Deed {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "SIGKILL",
            Self::Start => "start",
            Self::Term => "SIGTERM",
            Self::Stop => "SIGSTOP",
            Self::Cont => "SIGCONT",
        }
    }
    fn done(self, d: &mut Daemons, osd: &str) -> Result<()> {
        match self {
            Self::Kill => d.kill(osd),
            Self::Start => d.start(osd),
            Self::Term => d.end(osd),
            Self::Stop => d.signal(osd, "STOP"),
            Self::Cont => d.signal(osd, "CONT"),
        }
    }
}

/// The longest pause after each deed to one member, in ms: writes, reads.
type Pauses = [[f64; 2]; DEEDS.len()];

/// The watcher on that pool; each event makes a file, and its command ends when that is gone again.
fn watcher(d: &Daemons, program: &Path, pool: &str) -> Result<Child> {
    let script = d.dir.join("stall.py");
    std::fs::copy(program, &script).with_context(|| program.display().to_string())?;
    let mut cmd = clients_python(d);
    cmd.arg(&script).arg(&d.conf).args(["--pool", pool, "--seconds", &SECONDS.to_string(), "--writers", "16"]);
    cmd.arg("--json").arg(d.dir.join("stall.json"));
    for (n, (at, _)) in DEEDS.iter().enumerate() {
        let file = d.dir.join(format!("deed-{n}"));
        cmd.args(["--at", &at.to_string(), &format!("touch {0}; while test -e {0}; do sleep 0.01; done", file.display())]);
    }
    let log = std::fs::File::create(d.dir.join("log").join(format!("stall-{pool}.txt")))?;
    cmd.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn().context("the watcher")
}

/// Python with the release's bindings.
fn clients_python(d: &Daemons) -> Command {
    d.place("client", crate::clients::Release::Tentacle.command(&d.conf, "/usr/bin/python3"))
}

/// All deeds to one member of a pool, under the watcher's eyes. An error names what was stale, wrong, failed or without an answer.
fn watched(d: &mut Daemons, program: &Path, shared: Shared, osd: u32) -> Result<Pauses> {
    let Shared { pool, osds } = shared;
    let name = format!("osd.{osd}");
    let mut watcher = watcher(d, program, pool)?;
    for (n, (at, deed)) in DEEDS.iter().enumerate() {
        let file = d.dir.join(format!("deed-{n}"));
        let due = Duration::from_secs(u64::from(*at)) + PATIENCE;
        let seen = crate::run::until(due, || file.exists() || crate::run::ended(&mut watcher));
        ensure!(seen && file.exists(), "the watcher of {pool} ended before {}: {}", deed.name(), told(d, pool));
        if matches!(deed, Deed::Term | Deed::Stop) {
            // One that still starts dies of a signal, or is missed by no other.
            d.wait_up(STOCK.len() + OURS.len())?;
        }
        deed.done(d, &name)?;
        std::fs::remove_file(&file)?;
    }
    let over = crate::run::until(Duration::from_secs(u64::from(SECONDS)) + PATIENCE_END, || crate::run::ended(&mut watcher));
    ensure!(over, "the watcher of {pool} did not end: {}", told(d, pool));
    ensure!(watcher.wait()?.success(), "{pool}, {name}: {}", told(d, pool));
    let found: Value = serde_json::from_slice(&std::fs::read(d.dir.join("stall.json"))?)?;
    settle(d, pool, &osds, 2 * PATIENCE)?;
    pauses(&found)
}

fn told(d: &Daemons, pool: &str) -> String {
    std::fs::read_to_string(d.dir.join("log").join(format!("stall-{pool}.txt"))).unwrap_or_default()
}

/// The longest request after each deed. Requests before the first deed are left out.
fn pauses(found: &Value) -> Result<Pauses> {
    let events = found["events"].as_array().context("events")?;
    ensure!(events.len() == DEEDS.len() + 1, "{} events", events.len());
    let worst = |n: usize, kind: &str| events[n + 1][kind]["worst_ms"].as_f64().unwrap_or_default();
    Ok(std::array::from_fn(|n| [worst(n, "write"), worst(n, "read")]))
}

/// Each member's deeds in each pool, as a table; an error if a pause of a shared group is longer than stock's of the same role.
pub fn stalls(program: &Path) -> Result<()> {
    let mut d = cluster("shared-stall")?;
    let mut longer = Vec::new();
    println!("| role | deed | all stock, write / read ms | shared: the member is | write / read ms |\n|---|---|---|---|---|");
    for (role, name) in ["leads", "follows"].into_iter().enumerate() {
        let due = watched(&mut d, program, POOLS[0], POOLS[0].osds[role])?;
        for shared in &POOLS[1..] {
            let osd = shared.osds[role];
            let kind = if OURS.contains(&osd) { "ours" } else { "stock" };
            let found = watched(&mut d, program, *shared, osd)?;
            for (n, (_, deed)) in DEEDS.iter().enumerate() {
                let ([w, r], [dw, dr]) = (found[n], due[n]);
                println!("| {name} | {} | {dw} / {dr} | {kind}, in {} | {w} / {r} |", deed.name(), shared.pool);
                longer.extend(
                    is_longer(found[n], due[n]).then(|| format!("{} of the {kind} member that {name} in {}", deed.name(), shared.pool)),
                );
            }
        }
    }
    ensure!(longer.is_empty(), "pauses are longer than among stock OSDs alone: {}", longer.join(", "));
    Ok(())
}

fn is_longer(found: [f64; 2], due: [f64; 2]) -> bool {
    found.iter().zip(due).any(|(found, due)| *found > due.max(SHORT_MS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_longest_request_after_each_deed_is_found() {
        let mut events = vec![json!({ "event": "none", "write": { "worst_ms": 9.0 } })];
        events.extend((0..DEEDS.len()).map(|n| json!({ "write": { "worst_ms": n as f64 }, "read": { "worst_ms": 2.0 * n as f64 } })));
        assert_eq!(pauses(&json!({ "events": events })).unwrap()[5], [5.0, 10.0]);
        assert!(pauses(&json!({ "events": events[1..] })).is_err());
    }

    #[test]
    fn a_pause_is_compared_with_stocks_unless_both_are_short() {
        assert!(!is_longer([900.0, 100.0], [1000.0, 90.0]) && !is_longer([SHORT_MS, 0.0], [1.0, 0.0]));
        assert!(is_longer([900.0, 1100.0], [1000.0, 1000.0]) && is_longer([SHORT_MS + 1.0, 0.0], [100.0, 5000.0]));
    }

    #[test]
    fn a_member_that_ends_comes_back_and_one_that_hangs_goes_on() {
        let after = |deed| DEEDS.iter().position(|(_, d)| *d == deed).map(|at| DEEDS[at + 1].1);
        assert_eq!([Deed::Kill, Deed::Term, Deed::Stop].map(after), [Some(Deed::Start), Some(Deed::Start), Some(Deed::Cont)]);
        assert!(DEEDS.is_sorted_by_key(|(at, _)| *at) && DEEDS.iter().all(|(at, _)| *at < SECONDS));
    }
}
