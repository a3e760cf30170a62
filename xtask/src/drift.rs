//! `cargo xtask figures --against`: this tree's server beside an older one, in turns on this machine, so that slow drifts show.
//!
//! Holds the rows, the older program's build, the loads and the ratios. One client, this tree's `humboldt bench`, loads both servers.
//! Absent: stock Ceph, beside which the laboratory measures; the kept table's form (`drift_page`).

use crate::drift_page;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use suites::cluster::{Build, Cluster, binary, build, take, target};
use suites::run::{must, root};

/// A request to measure.
#[derive(Debug)]
pub struct Asked {
    /// A commit, or the path of a program.
    pub against: String,
    pub rounds: usize,
    /// Of each load.
    pub seconds: f64,
    /// Put the table into the repository.
    pub keep: bool,
}

/// A server's options, and the loads on it, one after the other: the reads find what the write before them made.
struct Group {
    name: &'static str,
    args: &'static [&'static str],
    loads: &'static [Load],
}

struct Load {
    mode: &'static str,
    block: &'static str,
    depth: &'static str,
}

const SMALL: [Load; 4] = [
    Load { mode: "write", block: "4096", depth: "256" },
    Load { mode: "rand", block: "4096", depth: "256" },
    Load { mode: "write", block: "4096", depth: "1" },
    Load { mode: "rand", block: "4096", depth: "1" },
];

/// Nine rows: two stores at two depths, and three copies.
const GROUPS: [Group; 3] = [
    Group { name: "memory", args: &["--store", "mem", "--memory", "4G"], loads: &SMALL },
    Group { name: "block", args: &["--store", "block", "--size", "8G"], loads: &SMALL },
    Group {
        name: "block, 3 copies",
        args: &["--store", "block", "--size", "4G", "--osds", "3"],
        loads: &[Load { mode: "write", block: "4096", depth: "64" }],
    },
];

/// One measured load.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Of the server's processes, for each operation, microseconds.
    pub cpu_us: f64,
    /// As the client saw it, microseconds.
    pub mean_us: f64,
}

/// One row: what it is called, and pairs of (this tree, the other).
#[derive(Debug)]
pub struct Row {
    pub name: String,
    pub pairs: Vec<(Measured, Measured)>,
}

/// The program of a commit, built as ours is, in a folder of its own; a path of a program is taken as it is.
fn program(against: &str) -> Result<(PathBuf, String)> {
    let path = PathBuf::from(against);
    if path.is_file() {
        return Ok((path.canonicalize()?, "a program".into()));
    }
    let (tree, built) = (target().join("against/tree"), target().join("against/build"));
    let git = |dir: &Path, words: &[&str]| -> Result<String> {
        let out = Command::new("git").arg("-C").arg(dir).args(words).output().context("git")?;
        ensure!(out.status.success(), "git {}: {}", words.join(" "), String::from_utf8_lossy(&out.stderr).trim());
        Ok(String::from_utf8_lossy(&out.stdout).trim().to_string())
    };
    let commit = git(&root(), &["rev-parse", "--verify", "--short", &format!("{against}^{{commit}}")])
        .with_context(|| format!("{against} is neither a program nor a commit"))?;
    git(&root(), &["worktree", "prune"])?;
    if tree.exists() {
        git(&tree, &["checkout", "--quiet", "--detach", &commit])?;
    } else {
        git(&root(), &["worktree", "add", "--quiet", "--force", "--detach", &tree.display().to_string(), &commit])?;
    }
    println!("building {commit}");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&tree).env("CARGO_TARGET_DIR", &built);
    // As this tree's profile `ci` is: an older tree may have none, or another one.
    for setting in ["inherits='release'", "lto='off'", "codegen-units=8", "debug='line-tables-only'"] {
        cargo.arg("--config").arg(format!("profile.ci.{setting}"));
    }
    must(cargo.args(["build", "--profile", "ci", "--locked", "--quiet", "--package", "cli"]))?;
    Ok((built.join("ci/humboldt"), commit))
}

/// Processor time of a process so far, microseconds: user's and system's, all threads.
fn cpu_us(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("the server has ended")?;
    // The program's name may have blanks; behind its parenthesis the first word is field 3.
    let words: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = |field: usize| words.get(field - 3).and_then(|w| w.parse::<f64>().ok()).context("/proc/PID/stat");
    // Linux counts in hundredths of a second for its users, whatever the kernel's own tick.
    Ok((ticks(14)? + ticks(15)?) * 10_000.0)
}

/// Runs one load, and tells what the server and the client took for an operation.
fn run_load(client: &Path, c: &Cluster, load: &Load, seconds: f64) -> Result<Measured> {
    let mut cmd = Command::new(client);
    cmd.args(["bench", load.mode, "--json", "--marks", "--keep", "--block", load.block, "--depth", load.depth]);
    cmd.args(["--seconds", &seconds.to_string(), "--warm", "0.5", "-c"]).arg(&c.conf);
    let mut child: Child = cmd.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("humboldt bench")?;
    let mut stdin = child.stdin.take().context("its input is piped")?;
    let (mut begin, mut end, mut result) = (None, None, None);
    for line in BufReader::new(child.stdout.take().context("its output is piped")?).lines() {
        let json: Value = serde_json::from_str(&line?).context("humboldt bench --json")?;
        match json["mark"].as_str() {
            Some("start") => begin = Some(cpu_us(c.pid())?),
            Some(_) => {
                end = Some(cpu_us(c.pid())?);
                // The client clears up once it hears this.
                let _ = stdin.write_all(b"\n");
            }
            None => result = Some(json),
        }
    }
    let status = child.wait()?;
    let (Some(begin), Some(end), Some(result)) = (begin, end, result) else { bail!("humboldt bench ended with {status} before its end") };
    ensure!(status.success() && result["error"].is_null(), "humboldt bench: {result}");
    let figure = |value: &Value| value.as_f64().with_context(|| format!("humboldt bench has other words: {result}"));
    let operations = figure(&result["ops"])?;
    ensure!(operations > 0.0 && figure(&result["errors"])? == 0.0, "humboldt bench: {result}");
    Ok(Measured { cpu_us: (end - begin) / operations, mean_us: figure(&result["latency_us"]["avg"])? })
}

/// All loads of a group on a fresh cluster of that program.
fn run_group(program: &Path, client: &Path, group: &Group, seconds: f64) -> Result<Vec<Measured>> {
    let dir = suites::folders::fresh("against")?;
    let c = Cluster::start_program(program, dir.clone(), group.args)?;
    let measured = group.loads.iter().map(|load| run_load(client, &c, load, seconds)).collect::<Result<Vec<_>>>()?;
    c.stop()?;
    std::fs::remove_dir_all(&dir)?;
    Ok(measured)
}

/// Builds both, runs them in turns, prints the table, and keeps it if that is asked for.
pub fn against(asked: &Asked) -> Result<()> {
    take(Build::Quick);
    build()?;
    let ours = binary();
    let (theirs, commit) = program(&asked.against)?;
    let mut rows: Vec<Row> =
        GROUPS.iter().flat_map(|group| group.loads.iter().map(|load| Row { name: name(group, load), pairs: Vec::new() })).collect();
    for round in 0..asked.rounds {
        let mut at = 0;
        for group in &GROUPS {
            // A drift of the machine falls on both alike.
            let ours_first = round % 2 == 0;
            let run = |program: &Path| {
                run_group(program, &ours, group, asked.seconds).with_context(|| format!("{}, {}", group.name, program.display()))
            };
            let (mine, other) = if ours_first {
                let mine = run(&ours)?;
                (mine, run(&theirs)?)
            } else {
                let other = run(&theirs)?;
                (run(&ours)?, other)
            };
            for pair in mine.into_iter().zip(other) {
                rows[at].pairs.push(pair);
                at += 1;
            }
        }
        println!("round {} of {}", round + 1, asked.rounds);
    }
    print!("{}", drift_page::table(&rows));
    if asked.keep {
        drift_page::keep(&commit, asked, &rows)?;
    }
    Ok(())
}

fn name(group: &Group, load: &Load) -> String {
    let what = if load.mode == "write" { "new objects of 4 KiB" } else { "reads of them" };
    format!("{}: {what}, depth {}", group.name, load.depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_of_a_process_is_read() {
        let before = cpu_us(std::process::id()).unwrap();
        let begin = std::time::Instant::now();
        // Until the counter has gone on: a tick is 10 ms.
        while cpu_us(std::process::id()).unwrap() <= before {
            assert!(begin.elapsed().as_secs() < 60, "a busy process takes no processor time");
        }
        assert!(cpu_us(u32::MAX).is_err());
    }

    #[test]
    fn what_is_no_commit_is_refused() {
        assert!(format!("{:#}", program("no-such-thing").unwrap_err()).contains("neither a program nor a commit"));
    }
}
