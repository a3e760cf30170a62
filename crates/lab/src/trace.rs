//! Block traces: each request that a target's devices were given, by the kernel's own tracepoints (tracefs; no blktrace), and what a trace
//! comes to. A traced round does not count as a figure.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const ROOT: &str = "/sys/kernel/tracing";
const PREFIX: &str = "humboldt-lab-";
/// Of each CPU.
const BUFFER_KIB: &str = "16384";
/// Points of a picture.
const POINTS_MAX: usize = 1500;
const SECTOR: u64 = 512;
/// Overlaps are looked for by blocks of this.
const BLOCK: u64 = 4096;

/// Why there can be none, if there can't.
pub fn lacks() -> Option<String> {
    let known = fs::read_to_string("/proc/filesystems").is_ok_and(|f| f.contains("tracefs"));
    match () {
        () if !crate::sys::is_root() => Some("needs root, for traces".into()),
        () if !known => Some("needs a kernel with tracefs".into()),
        () => None,
    }
}

/// An instance of the kernel's tracing, ours alone; it records until it is dropped.
pub struct Tracing {
    dir: PathBuf,
}

fn instances() -> PathBuf {
    Path::new(ROOT).join("instances")
}

impl Tracing {
    /// Of block devices, by their stat files in sysfs.
    pub fn start(stats: &[PathBuf]) -> Result<Self> {
        if !instances().exists() {
            // In the lab's own mounts: the machine's stay as they are.
            crate::load::runner::chore(Command::new("mount").args(["-t", "tracefs", "tracefs", ROOT]), Duration::from_secs(10))?;
        }
        let dir = instances().join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let this = Self { dir };
        let numbers = stats.iter().map(|stat| device_number(stat)).collect::<Result<Vec<_>>>()?;
        let filter = numbers.iter().map(|(major, minor)| format!("dev == {}", (major << 20) | minor)).collect::<Vec<_>>().join(" || ");
        this.write("buffer_size_kb", BUFFER_KIB)?;
        this.write("trace_clock", "mono")?;
        this.write("events/block/block_rq_issue/filter", &filter)?;
        this.write("events/block/block_rq_issue/enable", "1")?;
        this.write("tracing_on", "1")?;
        Ok(this)
    }
    fn write(&self, file: &str, text: &str) -> Result<()> {
        fs::write(self.dir.join(file), text).with_context(|| format!("tracefs: {file} = {text}"))
    }
    /// Everything that was recorded, and how many events were lost.
    pub fn finish(self) -> Result<(String, u64)> {
        self.write("tracing_on", "0")?;
        let text = fs::read(self.dir.join("trace"))?;
        let cpus = fs::read_dir(self.dir.join("per_cpu"))?.flatten();
        let stats = cpus.filter_map(|cpu| fs::read_to_string(cpu.path().join("stats")).ok());
        let lost =
            stats.flat_map(|s| s.lines().filter_map(|l| l.strip_prefix("overrun:")?.trim().parse::<u64>().ok()).collect::<Vec<_>>()).sum();
        Ok((String::from_utf8_lossy(&text).into_owned(), lost))
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        let _ = fs::write(self.dir.join("events/enable"), "0");
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Removes the instances of labs that are gone.
pub fn sweep() {
    for entry in fs::read_dir(instances()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if crate::leftovers::owner(&name, PREFIX).is_some_and(|pid| !crate::leftovers::lives(pid)) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn device_number(stat: &Path) -> Result<(u32, u32)> {
    let name = stat.parent().and_then(Path::file_name).context("a stat file has a device")?;
    let rdev = fs::metadata(Path::new("/dev").join(name)).with_context(|| format!("{}", name.display()))?.rdev();
    Ok((libc::major(rdev), libc::minor(rdev)))
}

/// One request, as it was given to its device.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub at_s: f64,
    pub device: String,
    /// As blktrace has it: R or W, F for a flush in front, S for a synchronous one, and more.
    pub rwbs: String,
    pub sector: u64,
    pub sectors: u64,
    pub task: String,
}

/// A line such as `fio-77 [001] ..... 12.345678: block_rq_issue: 7,0 WS 4096 () 2048 + 8 none,0,0 [fio]`.
fn request(line: &str) -> Option<Request> {
    let (head, tail) = line.split_once(": block_rq_issue: ")?;
    let at_s = head.split_whitespace().last()?.parse().ok()?;
    let mut words = tail.split_whitespace();
    let (device, rwbs) = (words.next()?.to_string(), words.next()?.to_string());
    let mut numbers = words.skip_while(|w| !w.ends_with(')')).skip(1);
    let sector = numbers.next()?.parse().ok()?;
    let sectors = numbers.nth(1)?.parse().ok()?;
    let task = tail.rsplit_once('[')?.1.trim_end_matches(']').into();
    Some(Request { at_s, device, rwbs, sector, sectors, task })
}

pub fn requests(text: &str) -> Vec<Request> {
    text.lines().filter_map(request).collect()
}

/// What a device was given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub device: String,
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    /// Requests by bytes.
    pub lengths: BTreeMap<u64, u64>,
    /// Shares of the reads and writes: begins where the last one of its kind ended; of writes, over blocks that were written before; marked
    /// synchronous.
    pub sequential: f64,
    pub overlapping: f64,
    pub synchronous: f64,
    /// Seconds from the first, byte, bytes, and whether it writes: evenly chosen where there are too many.
    pub points: Vec<(f64, u64, u64, bool)>,
    /// Requests by the task that gave them.
    pub tasks: BTreeMap<String, u64>,
}

/// By device.
pub fn summaries(requests: &[Request]) -> Vec<Summary> {
    let mut by: BTreeMap<&str, Vec<&Request>> = BTreeMap::new();
    requests.iter().for_each(|r| by.entry(&r.device).or_default().push(r));
    by.into_iter().map(|(device, of)| summary(device, &of)).collect()
}

fn summary(device: &str, of: &[&Request]) -> Summary {
    let mut s = Summary { device: device.into(), ..Summary::default() };
    let (mut ends, mut seen) = ([None; 2], std::collections::BTreeSet::new());
    let (mut sequential, mut overlapping, mut synchronous) = (0u64, 0u64, 0u64);
    let moves: Vec<&&Request> = of.iter().filter(|r| r.sectors > 0 && r.rwbs.contains(['R', 'W'])).collect();
    s.flushes = of.iter().filter(|r| r.rwbs.starts_with('F')).count() as u64;
    let first = moves.first().map_or(0.0, |r| r.at_s);
    let step = moves.len().div_ceil(POINTS_MAX).max(1);
    for (n, r) in moves.iter().enumerate() {
        let is_write = r.rwbs.contains('W');
        let (from, bytes) = (r.sector * SECTOR, r.sectors * SECTOR);
        if is_write {
            s.writes += 1
        } else {
            s.reads += 1
        }
        *s.lengths.entry(bytes).or_default() += 1;
        *s.tasks.entry(r.task.clone()).or_default() += 1;
        let end = &mut ends[usize::from(is_write)];
        sequential += u64::from(*end == Some(from));
        *end = Some(from + bytes);
        synchronous += u64::from(r.rwbs.trim_start_matches('F').contains(['S', 'F']));
        if is_write {
            let blocks = from / BLOCK..(from + bytes).div_ceil(BLOCK);
            let again = blocks.fold(false, |again, block| !seen.insert(block) || again);
            overlapping += u64::from(again);
        }
        if n.is_multiple_of(step) {
            s.points.push((((r.at_s - first) * 1e4).round() / 1e4, from, bytes, is_write));
        }
    }
    let share = |n: u64, of: u64| n as f64 / of.max(1) as f64;
    s.sequential = share(sequential, moves.len() as u64);
    s.synchronous = share(synchronous, moves.len() as u64);
    s.overlapping = share(overlapping, s.writes);
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# tracer: nop\n#\n     fio-77  [001] .....    12.000000: block_rq_issue: 7,0 WS 4096 () 2048 + 8 none,0,0 [fio]\n\
        fio-77 [001] ..... 12.000100: block_rq_issue: 7,0 WS 4096 () 2056 + 8 none,0,0 [fio]\n\
        kworker/u4:1-9 [000] ..... 12.000200: block_rq_issue: 7,0 FF 0 () 0 + 0 none,0,0 [kworker/u4:1]\n\
        fio-77 [001] ..... 12.000300: block_rq_issue: 7,0 W 8192 () 2048 + 16 none,0,0 [fio]\n\
        fio-77 [001] ..... 12.000400: block_rq_issue: 7,1 R 4096 () 0 + 8 none,0,0 [tp_osd_tp]\n";

    #[test]
    fn a_trace_says_what_is_sequential_overlapping_and_synchronous() {
        let all = summaries(&requests(TEXT));
        assert_eq!(all.iter().map(|s| s.device.as_str()).collect::<Vec<_>>(), ["7,0", "7,1"]);
        let s = &all[0];
        assert_eq!((s.reads, s.writes, s.flushes), (0, 3, 1));
        assert_eq!(s.lengths, [(4096, 2), (8192, 1)].into());
        assert!(
            (s.sequential - 1.0 / 3.0).abs() < 1e-9 && (s.overlapping - 1.0 / 3.0).abs() < 1e-9 && (s.synchronous - 2.0 / 3.0).abs() < 1e-9,
            "{s:?}"
        );
        assert_eq!(s.points[1], (0.0001, 2056 * 512, 4096, true));
        assert_eq!((all[1].reads, all[1].tasks.get("tp_osd_tp")), (1, Some(&1)));
    }
}
