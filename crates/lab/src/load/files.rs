//! Loads on files: fs_mark, dbench, and SQLite's insertions one by one.
//!
//! fs_mark and SQLite do an amount of work, not a time of it: `size` / `block` files or insertions. dbench runs for a time.

use super::{BadOutput, Job, Told, Tool, tail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// dbench's recorded load.
const CLIENT: &str = "/usr/share/dbench/client.txt";

fn dir(job: &Job) -> PathBuf {
    let base = job.place.dir.as_deref().unwrap_or(Path::new("/nonexistent"));
    base.join(job.tag)
}

fn count(job: &Job) -> u64 {
    (job.work.size / job.work.block.max(1)).max(1)
}

pub fn prepare(job: &Job) -> Vec<Command> {
    let mut mkdir = Command::new("mkdir");
    // Not with parents: a mount that is gone must not be replaced by a folder of the host's.
    mkdir.arg(dir(job));
    vec![mkdir]
}

pub fn clean(job: &Job) -> Vec<Command> {
    let mut rm = Command::new("rm");
    rm.arg("-rf").arg(dir(job));
    vec![rm]
}

pub fn command(job: &Job) -> Command {
    let (at, work) = (dir(job), job.work);
    match work.tool {
        Tool::FsMark => {
            let mut cmd = job.place.command("fs_mark");
            // It takes no path of 40 bytes or more. -S 1: each file is synced before it is closed.
            cmd.current_dir(at.parent().unwrap_or(Path::new("/"))).arg("-d").arg(job.tag).args([
                "-s",
                &work.block.to_string(),
                "-n",
                &(count(job) / u64::from(work.jobs)).max(1).to_string(),
            ]);
            cmd.args(["-t", &work.jobs.to_string(), "-S", "1", "-L", "1"]);
            cmd
        }
        Tool::Dbench => {
            let mut cmd = job.place.command("dbench");
            let seconds = job.seconds.ceil().max(1.0) as u64;
            cmd.arg("-D").arg(at).args(["-c", CLIENT, "-t", &seconds.to_string(), &work.jobs.to_string()]);
            cmd
        }
        _ => {
            let mut cmd = job.place.command("sh");
            let (db, rows) = (at.join("lab.db"), count(job));
            let now = "SELECT 'at', printf('%.6f', (julianday('now') - 2440587.5) * 86400.0);";
            let row = "INSERT INTO t VALUES(%.0f, 'a row of the laboratory, as long as a short sentence is');";
            // synchronous FULL is what makes an insertion durable before it is acknowledged.
            let script = format!(
                "{{ echo \"PRAGMA synchronous=FULL; CREATE TABLE t(n INTEGER, s TEXT); {now}\"; seq -f \"{row}\" 1 {rows}; \
                 echo \"{now} SELECT 'count', count(*) FROM t;\"; }} | sqlite3 -bail {}",
                db.display()
            );
            cmd.args(["-c", &script]);
            cmd
        }
    }
}

pub fn read(job: &Job, code: i32, out: &str, err: &str) -> Result<Told, BadOutput> {
    if code != 0 {
        let said = format!("code {code}: {}", tail(&format!("{out}\n{err}")));
        let full = ["No space", "database or disk is full", "ENOSPC"].iter().any(|w| said.contains(w));
        return Err(if full { BadOutput::Full(said) } else { BadOutput::Failed(said) });
    }
    match job.work.tool {
        Tool::FsMark => fs_mark(job, out),
        Tool::Dbench => dbench(job, out),
        _ => sqlite(job, out),
    }
}

fn cut(what: &str) -> BadOutput {
    BadOutput::CutOff(format!("{what} is missing"))
}

/// So many at a time, for so long.
fn told(job: &Job, ops: u64, seconds: f64, bytes: u64, write_share: f64) -> Told {
    let mean_ns = seconds * 1e9 * job.work.under_way() as f64 / ops.max(1) as f64;
    Told { ops, seconds, mean_ns, bytes: Some(bytes), write_share, ..Told::default() }
}

/// The table's only row: `FSUse% Count Size Files/sec App Overhead`.
fn fs_mark(job: &Job, out: &str) -> Result<Told, BadOutput> {
    let rows = out.lines().map(|l| l.split_whitespace().collect::<Vec<_>>()).filter(|w| w.len() >= 5 && w[1].parse::<u64>().is_ok());
    let row = rows.last().ok_or_else(|| cut("fs_mark's row"))?;
    let (Ok(files), Ok(rate)) = (row[1].parse::<u64>(), row[3].parse::<f64>()) else { return Err(cut("fs_mark's rate")) };
    if rate <= 0.0 {
        return Err(cut("fs_mark's rate"));
    }
    Ok(told(job, files, files as f64 / rate, files * job.work.block, 1.0))
}

/// `Throughput 812.3 MB/sec  48 clients …`, and a table of operations: name, count, mean and longest milliseconds.
fn dbench(job: &Job, out: &str) -> Result<Told, BadOutput> {
    let line = out.lines().find(|l| l.trim_start().starts_with("Throughput")).ok_or_else(|| cut("dbench's throughput"))?;
    let rate: f64 = line.split_whitespace().nth(1).and_then(|w| w.parse().ok()).ok_or_else(|| cut("dbench's throughput"))?;
    let table = out.lines().skip_while(|l| !l.contains("AvgLat")).skip(1).map(|l| l.split_whitespace().collect::<Vec<_>>());
    let rows: Vec<(f64, f64)> = table.filter(|w| w.len() == 4).filter_map(|w| Some((w[1].parse().ok()?, w[2].parse().ok()?))).collect();
    let ops: f64 = rows.iter().map(|(n, _)| n).sum();
    if ops == 0.0 {
        return Err(cut("dbench's table of operations"));
    }
    let mean_ms = rows.iter().map(|(n, ms)| n * ms).sum::<f64>() / ops;
    let seconds = job.seconds.ceil().max(1.0);
    let mut told = told(job, ops as u64, seconds, (rate * 1e6 * seconds) as u64, 1.0);
    told.mean_ns = mean_ms * 1e6;
    Ok(told)
}

/// Two times of day and a count.
fn sqlite(job: &Job, out: &str) -> Result<Told, BadOutput> {
    let of =
        |name: &str| -> Vec<f64> { out.lines().filter_map(|l| l.strip_prefix(name)?.strip_prefix('|')?.trim().parse().ok()).collect() };
    let (times, counts) = (of("at"), of("count"));
    let ([from, to], [rows]) = (times.as_slice(), counts.as_slice()) else { return Err(cut("SQLite's times and count")) };
    // The clock has steps of a millisecond.
    let seconds = (to - from).max(0.001);
    if *rows as u64 != count(job) {
        return Err(BadOutput::Failed(format!("{rows} rows where {} were inserted", count(job))));
    }
    Ok(told(job, *rows as u64, seconds, *rows as u64 * job.work.block, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Op, Work};
    use crate::target::Place;

    fn work(tool: Tool) -> Work {
        let (name, op) = ("w".into(), Op::Write);
        Work {
            name,
            tool,
            op,
            block: 1 << 20,
            depth: 1,
            jobs: 2,
            size: 64 << 20,
            cache: false,
            under: None,
            base: None,
            options: Default::default(),
        }
    }
    fn read(tool: Tool, code: i32, out: &str) -> Result<Told, BadOutput> {
        let (work, place) = (work(tool), Place::default());
        let job = Job { work: &work, place: &place, dir: Path::new("/"), seconds: 2.0, warm_s: 0.0, tag: "t", program: Path::new("/") };
        super::read(&job, code, out, "")
    }

    #[test]
    fn each_tools_own_words_are_read() {
        let out = "#  ./fs_mark  -d  /m\n\nFSUse%        Count         Size    Files/sec     App Overhead\n     3           64      1048576        128.0             5113\n";
        let told = read(Tool::FsMark, 0, out).unwrap();
        assert_eq!((told.ops, told.seconds, told.bytes), (64, 0.5, Some(64 << 20)));
        let out = " Operation      Count    AvgLat    MaxLat\n ----------------------------------------\n NTCreateX       1000     0.500     9.0\n Flush            100     5.000    80.1\n\nThroughput 21.5 MB/sec  2 clients  2 procs  max_latency=80.1 ms\n";
        let told = read(Tool::Dbench, 0, out).unwrap();
        assert_eq!((told.ops, told.bytes), (1100, Some(43_000_000)));
        assert!((told.mean_ns - 1e9 / 1100.0).abs() < 1.0);
        let told = read(Tool::Sqlite, 0, "at|1700000000.500000\nat|1700000002.500000\ncount|64\n").unwrap();
        assert_eq!((told.ops, told.seconds), (64, 2.0));
    }

    #[test]
    fn what_is_cut_off_or_full_is_no_result() {
        for tool in [Tool::FsMark, Tool::Dbench, Tool::Sqlite] {
            assert!(matches!(read(tool, 0, "half a li"), Err(BadOutput::CutOff(_))), "{tool:?}");
            assert!(matches!(read(tool, 1, "write: No space left on device"), Err(BadOutput::Full(_))), "{tool:?}");
        }
        assert!(matches!(read(Tool::Sqlite, 0, "at|1.0\nat|2.0\ncount|63\n"), Err(BadOutput::Failed(_))));
    }
}
