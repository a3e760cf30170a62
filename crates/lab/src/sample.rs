//! What the machine and the servers have used at a moment: CPU, memory, sectors, and what other processes take.
//!
//! A measurement is the difference of two samples.

use crate::sys;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Counters of a block device: /sys/block/NAME/stat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sectors {
    pub reads: u64,
    pub read: u64,
    pub writes: u64,
    /// Of 512 bytes, whatever the device's own are.
    pub written: u64,
    pub flushes: u64,
    /// Milliseconds in which a request was under way.
    #[serde(default)]
    pub busy_ms: u64,
}

impl Sectors {
    /// Reads a file of that form. Kernels before 5.5 have no flushes in it.
    pub fn read(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let fields: Vec<u64> = text.split_whitespace().map_while(|f| f.parse().ok()).collect();
        let at = |i: usize| fields.get(i).copied();
        Some(Self { reads: at(0)?, read: at(2)?, writes: at(4)?, written: at(6)?, flushes: at(15).unwrap_or(0), busy_ms: at(9)? })
    }
    pub fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            read: self.read.saturating_sub(before.read),
            writes: self.writes.saturating_sub(before.writes),
            written: self.written.saturating_sub(before.written),
            flushes: self.flushes.saturating_sub(before.flushes),
            busy_ms: self.busy_ms.saturating_sub(before.busy_ms),
        }
    }
    fn plus(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            read: self.read + other.read,
            writes: self.writes + other.writes,
            written: self.written + other.written,
            flushes: self.flushes + other.flushes,
            busy_ms: self.busy_ms + other.busy_ms,
        }
    }
}

/// Whom a sample is of.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    pub servers: Vec<u32>,
    /// The load, while it runs.
    pub client: Option<u32>,
    /// What works for it outside of its own processes.
    pub helpers: Vec<u32>,
    /// The stat files of the devices that only the servers use.
    pub devices: Vec<PathBuf>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub monotonic_ns: u64,
    pub real_ns: u64,
    pub server_cpu_ns: u64,
    pub client_cpu_ns: u64,
    /// Bytes that the servers made the kernel write: /proc/PID/io.
    pub server_written: Option<u64>,
    pub sectors: Option<Sectors>,
    pub rss_bytes: u64,
    /// Jiffies of all CPUs: busy, stolen by the hypervisor, and all.
    pub busy: u64,
    pub steal: u64,
    pub total: u64,
    /// Jiffies of processes that are neither ours nor the kernel's; looked up only where it is asked for.
    pub foreign: u64,
    /// Microseconds in which some task waited for a CPU: /proc/pressure/cpu.
    pub psi_some_us: Option<u64>,
}

impl Subject {
    pub fn sample(&self, foreign: bool) -> Sample {
        let servers = tree(&self.servers);
        let cpu = |pids: &BTreeSet<u32>| pids.iter().filter_map(|pid| sys::process_cpu_ns(*pid)).sum();
        let roots: Vec<u32> = self.client.into_iter().chain(self.helpers.iter().copied()).collect();
        let client = tree(&roots);
        let written: Vec<u64> = servers.iter().filter_map(|pid| io_field(*pid, "write_bytes")).collect();
        let (busy, steal, total) = machine_cpu();
        let sectors: Vec<Sectors> = self.devices.iter().filter_map(|d| Sectors::read(d)).collect();
        let whole = sectors.len() == self.devices.len() && !sectors.is_empty();
        Sample {
            monotonic_ns: sys::monotonic_ns(),
            real_ns: sys::real_ns(),
            server_cpu_ns: cpu(&servers),
            client_cpu_ns: cpu(&client) + sys::children_cpu_ns(),
            server_written: (!written.is_empty()).then(|| written.iter().sum()),
            sectors: whole.then(|| sectors.into_iter().fold(Sectors::default(), Sectors::plus)),
            rss_bytes: servers.iter().map(|pid| rss(*pid)).sum(),
            busy,
            steal,
            total,
            foreign: if foreign { foreign_jiffies(&servers) } else { 0 },
            psi_some_us: psi(),
        }
    }
}

/// User and system jiffies, the parent, and whether it is the kernel's own, of /proc/PID/stat.
fn stat(pid: u32) -> Option<(u64, u32, bool)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything but ends at the last bracket.
    let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
    let number = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok());
    let parent = number(1)? as u32;
    Some((number(11)? + number(12)?, parent, parent == 2 || pid == 2))
}

fn pids() -> Vec<u32> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

/// The processes and everything that they started, as far as it has not lost its parent.
pub fn tree(roots: &[u32]) -> BTreeSet<u32> {
    let mut all: BTreeSet<u32> = roots.iter().copied().filter(|pid| *pid != 0).collect();
    let mut next: Vec<u32> = all.iter().copied().collect();
    while let Some(pid) = next.pop() {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            next.extend(children.split_whitespace().filter_map(|c| c.parse().ok()).filter(|c| all.insert(*c)));
        }
    }
    all
}

/// Of all processes that are not ours, not our parents', and not the kernel's threads.
fn foreign_jiffies(servers: &BTreeSet<u32>) -> u64 {
    let own = tree(&[std::process::id()]);
    let of = |pid: u32| match stat(pid) {
        Some((jiffies, _, false)) if !own.contains(&pid) && !servers.contains(&pid) => jiffies,
        _ => 0,
    };
    pids().into_iter().map(of).sum()
}

fn machine_cpu() -> (u64, u64, u64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<u64> = text.lines().next().unwrap_or_default().split_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
    let at = |i: usize| fields.get(i).copied().unwrap_or(0);
    // user nice system idle iowait irq softirq steal; guests' time is in the user's already.
    let total = (0..8).map(at).sum();
    (total - at(3) - at(4) - at(7), at(7), total)
}

fn psi() -> Option<u64> {
    let text = fs::read_to_string("/proc/pressure/cpu").ok()?;
    text.lines().find(|l| l.starts_with("some"))?.rsplit('=').next()?.trim().parse().ok()
}

/// A field of /proc/PID/io.
pub fn io_field(pid: u32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(": ")?.parse().ok())
}

/// Resident bytes of a process; 0 if it is gone.
pub fn rss(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

/// What there is of memory, bytes: available now, and all.
pub fn memory() -> (u64, u64) {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let fields: BTreeMap<&str, u64> =
        text.lines().filter_map(|l| l.split_once(':')).filter_map(|(k, v)| Some((k, v.split_whitespace().next()?.parse().ok()?))).collect();
    let at = |key| fields.get(key).copied().unwrap_or(0) * 1024;
    (at("MemAvailable"), at("MemTotal"))
}

/// What happened between two samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// By a clock that is never set, seconds.
    pub seconds: f64,
    /// By the time of day.
    pub real_seconds: f64,
    pub server_cpu_ns: u64,
    pub client_cpu_ns: u64,
    /// Sectors of devices of the servers' own if there are such, else what the kernel counts for their processes.
    pub written_bytes: Option<u64>,
    pub sectors: Option<Sectors>,
    pub rss_bytes: u64,
    /// Shares of the whole machine.
    pub foreign: f64,
    pub steal: f64,
    pub kernel_rest: f64,
    /// The share of the time in which some task waited for a CPU.
    pub psi: Option<f64>,
}

impl Used {
    pub fn between(a: &Sample, b: &Sample) -> Self {
        let total = (b.total.saturating_sub(a.total)).max(1) as f64;
        let seconds = b.monotonic_ns.saturating_sub(a.monotonic_ns) as f64 / 1e9;
        let sectors = a.sectors.zip(b.sectors).map(|(a, b)| b.since(&a));
        let server_cpu_ns = b.server_cpu_ns.saturating_sub(a.server_cpu_ns);
        let client_cpu_ns = b.client_cpu_ns.saturating_sub(a.client_cpu_ns);
        let foreign = b.foreign.saturating_sub(a.foreign) as f64 / total;
        // Jiffies of /proc/stat are a hundredth of a second for every program on Linux (USER_HZ).
        let ours = (server_cpu_ns + client_cpu_ns) as f64 / 1e7 / total;
        let busy = b.busy.saturating_sub(a.busy) as f64 / total;
        Self {
            seconds,
            real_seconds: (b.real_ns as i128 - a.real_ns as i128) as f64 / 1e9,
            server_cpu_ns,
            client_cpu_ns,
            written_bytes: sectors.map(|s| s.written * 512).or(a.server_written.zip(b.server_written).map(|(a, b)| b.saturating_sub(a))),
            sectors,
            rss_bytes: a.rss_bytes.max(b.rss_bytes),
            foreign,
            steal: b.steal.saturating_sub(a.steal) as f64 / total,
            kernel_rest: (busy - ours - foreign).max(0.0),
            psi: a.psi_some_us.zip(b.psi_some_us).map(|(a, b)| b.saturating_sub(a) as f64 / 1e6 / seconds.max(1e-9)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_of_a_process_is_counted_to_the_nanosecond() {
        let subject = Subject { servers: vec![std::process::id()], ..Subject::default() };
        let (before, thread) = (subject.sample(false), sys::thread_cpu_ns());
        while sys::thread_cpu_ns() < thread + 50_000_000 {}
        let used = Used::between(&before, &subject.sample(false));
        // Other tests run in this process, too.
        assert!(used.server_cpu_ns >= 50_000_000, "{used:?}");
        assert!(used.seconds >= 0.05 && used.rss_bytes > 1 << 20);
    }

    #[test]
    fn a_devices_file_is_read_by_its_fields() {
        let path = std::env::temp_dir().join(format!("lab-stat-{}", std::process::id()));
        fs::write(&path, " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n").unwrap();
        assert_eq!(Sectors::read(&path), Some(Sectors { reads: 1, read: 3, writes: 5, written: 7, flushes: 16, busy_ms: 10 }));
        fs::write(&path, "1 2 3 4 5 6 7 8 9 10 11").unwrap();
        assert_eq!(Sectors::read(&path).map(|s| s.flushes), Some(0));
        fs::write(&path, "1 2 x").unwrap();
        assert_eq!(Sectors::read(&path), None);
        fs::remove_file(&path).unwrap();
    }
}
