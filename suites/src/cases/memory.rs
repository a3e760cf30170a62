//! Memory that an OSD takes at most in seven scenes: its start, many small objects, second copies of all of them, objects that a member lacks
//! by its log, peering with full logs, a crowd of clients, and large writes. Ours has a limit, and a scene that goes beyond it is an error;
//! stock daemons have none. The test has a part of everything, and a smaller limit.
//!
//! Peaks are the kernel's (VmHWM), set back at the start of each scene. Absent: clients that send beyond their budget (`under_way`).

use super::Case;
use super::copies::kill;
use crate::clients::Release::Reef;
use crate::cluster::{Cluster, binary};
use crate::run::{run, until};
use crate::stock::{Daemons, Plane, stock_control_plane, stock_osd};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub const CASES: &[Case] = &[Case { name: "memory_stays_below_its_limit", needs: &[], run: in_little }];

const MIB: u64 = 1 << 20;
const OSDS: usize = 2;
/// Of `humboldt up`, for the monitor's process.
const MONITOR_MIB: u64 = 32;
const GROUPS: u32 = 64;
const COMMAND: Duration = Duration::from_secs(60);
/// Loads and recovery on a machine that is three times as slow.
const LOAD: Duration = Duration::from_secs(3600);

/// How much there is of everything.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Memory of an OSD of ours.
    limit_mib: u64,
    /// Of an OSD's store of ours. Files with holes: so much is not taken.
    size: &'static str,
    objects: u64,
    clients: u32,
    seconds: u32,
    /// Entries that the logs of an OSD have in the end, at the least; as many objects are lacked by a member.
    entries: u64,
}

/// The test has this part of what the verb has.
const PART: u64 = 100;

impl Scale {
    const WHOLE: Self = Self { limit_mib: 512, size: "16G", objects: 1_000_000, clients: 1000, seconds: 10, entries: 290_000 };
    /// A limit that is low for what the program takes by itself, so that caches and requests have to give way.
    const PART: Self = Self {
        limit_mib: 128,
        size: "6G",
        objects: Self::WHOLE.objects / PART,
        clients: Self::WHOLE.clients / PART as u32,
        seconds: 1,
        entries: Self::WHOLE.entries / PART,
    };
}

/// A server under test.
trait Server {
    fn conf(&self) -> &Path;
    /// Its daemons, each with a name.
    fn pids(&self) -> Vec<(String, u32)>;
    /// Kills osd.1 with -9, and has it start again.
    fn lose_one(&mut self) -> Result<()>;
    /// Kills its OSDs with -9, and has them up again.
    fn start_again(&mut self) -> Result<()>;
    /// Bytes that each OSD may take.
    fn limit(&self) -> Option<u64>;
}

struct Ours {
    cluster: Cluster,
    limit_mib: u64,
}

impl Ours {
    fn start(scale: &Scale) -> Result<Self> {
        let limit = format!("{}M", MONITOR_MIB + OSDS as u64 * scale.limit_mib);
        let args = ["--osds", &OSDS.to_string(), "--size", scale.size, "--processes", "--memory-limit", &limit];
        Ok(Self { cluster: Cluster::start("memory", &args)?, limit_mib: scale.limit_mib })
    }
}

impl Server for Ours {
    fn conf(&self) -> &Path {
        &self.cluster.conf
    }
    fn pids(&self) -> Vec<(String, u32)> {
        (0..OSDS).filter_map(|osd| Some((format!("osd.{osd}"), self.cluster.pid_of_osd(osd)?))).collect()
    }
    fn lose_one(&mut self) -> Result<()> {
        // `up` starts what was killed.
        kill(&self.cluster, &[1])
    }
    fn start_again(&mut self) -> Result<()> {
        let before = self.pids();
        kill(&self.cluster, &[0, 1])?;
        let is_new = |daemon: &(String, u32)| !before.contains(daemon);
        let all = || self.pids().len() == OSDS && self.pids().iter().all(is_new);
        ensure!(until(COMMAND, all), "OSDs that were killed are not started again:\n{}", self.cluster.log());
        Ok(())
    }
    fn limit(&self) -> Option<u64> {
        Some(self.limit_mib * MIB)
    }
}

/// Two OSDs of 18.2, whose caches have as little as that release takes, below a monitor and a manager.
struct Stock(Daemons);

impl Stock {
    fn start() -> Result<Self> {
        let conf = "osd memory target = 939524096\nbluestore block size = 8589934592\nosd pool default pg autoscale mode = off\n";
        let plane = Plane { monitors: 1, secure: false, conf, ..Plane::default() };
        let mut d = stock_control_plane("memory-stock", &plane)?;
        for id in 0..OSDS as u32 {
            stock_osd(&mut d, id, "bluestore")?;
        }
        d.wait_up(OSDS)?;
        Ok(Self(d))
    }
}

impl Server for Stock {
    fn conf(&self) -> &Path {
        &self.0.conf
    }
    fn pids(&self) -> Vec<(String, u32)> {
        let names = ["osd.0", "osd.1"];
        names.iter().filter_map(|name| Some(((*name).to_string(), self.0.pid(name)?))).collect()
    }
    fn lose_one(&mut self) -> Result<()> {
        self.0.kill("osd.1")?;
        self.0.start("osd.1")
    }
    fn start_again(&mut self) -> Result<()> {
        for name in ["osd.0", "osd.1"] {
            self.0.kill(name)?;
            self.0.start(name)?;
        }
        Ok(())
    }
    fn limit(&self) -> Option<u64> {
        None
    }
}

/// A number of the kernel's about a process, bytes; 0 if there is none.
fn status_bytes(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

fn ours(words: &[&str], conf: &Path, limit: Duration) -> Result<String> {
    let mut cmd = Command::new(binary());
    cmd.arg(words[0]).arg("-c").arg(conf).args(&words[1..]);
    let out = run(&mut cmd, limit)?;
    ensure!(out.ok(), "`{}` ended with {}:\n{}{}", words.join(" "), out.code, out.stdout, out.stderr);
    Ok(out.stdout)
}

fn ceph(server: &dyn Server, line: &str) -> Result<String> {
    let words: Vec<&str> = line.split(' ').collect();
    ours(&[&["ceph"][..], &words].concat(), server.conf(), COMMAND)
}

fn bench(server: &dyn Server, line: &str) -> Result<()> {
    let words: Vec<&str> = line.split(' ').collect();
    let said = ours(&[&["bench"][..], &words].concat(), server.conf(), LOAD)?;
    ensure!(said.contains(", 0 errors"), "bench {line}: {said}");
    Ok(())
}

fn pgs(server: &dyn Server) -> Result<Vec<Value>> {
    let dump: Value = serde_json::from_str(&ceph(server, "pg dump pgs -f json")?)?;
    Ok(dump["pg_stats"].as_array().cloned().unwrap_or_default())
}

/// Waits until each group is clean with so many copies, as reported since now.
fn clean(server: &dyn Server, copies: usize) -> Result<()> {
    let epoch = |server: &dyn Server| -> Result<u64> {
        let dump: Value = serde_json::from_str(&ceph(server, "osd dump -f json")?)?;
        dump["epoch"].as_u64().context("an epoch")
    };
    let since = epoch(server)?;
    let is_clean = |pg: &Value| {
        pg["state"] == "active+clean"
            && pg["acting"].as_array().is_some_and(|acting| acting.len() == copies)
            && pg["reported_epoch"].as_u64().is_some_and(|e| e >= since)
    };
    let all = || pgs(server).is_ok_and(|pgs| pgs.len() as u32 >= GROUPS && pgs.iter().all(is_clean));
    ensure!(until(LOAD, all), "the groups do not become clean:\n{}", ceph(server, "-s")?);
    Ok(())
}

/// Entries that the logs of all groups have together.
fn entries(server: &dyn Server) -> Result<u64> {
    Ok(pgs(server)?.iter().filter_map(|pg| pg["log_size"].as_u64()).sum())
}

/// Members of groups lack so many objects: osd.1 is down while they are written, and recovers them by its log.
fn lacking<S: Server>(s: &mut S, objects: u64) -> Result<()> {
    ceph(s, "osd set noup")?;
    s.lose_one()?;
    let is_down = || ceph(s, "osd dump").is_ok_and(|dump| dump.lines().any(|line| line.starts_with("osd.1 down")));
    ensure!(until(COMMAND, is_down), "osd.1 is not marked down:\n{}", ceph(s, "-s")?);
    bench(s, &format!("seq --objects {objects} -b 512 -t 64 -s 1 --keep"))?;
    ceph(s, "osd unset noup")?;
    clean(s, OSDS)
}

/// The peaks of each scene's daemons.
type Peaks = Vec<(&'static str, Vec<(String, u64)>)>;

/// Runs one scene, and takes the peaks.
fn scene<S: Server>(server: &mut S, name: &'static str, peaks: &mut Peaks, play: impl FnOnce(&mut S) -> Result<()>) -> Result<()> {
    for (_, pid) in server.pids() {
        // Without this the peak is that of its life, which the limit bounds, too.
        let _ = std::fs::write(format!("/proc/{pid}/clear_refs"), "5");
    }
    play(server).with_context(|| format!("scene `{name}`"))?;
    let now: Vec<(String, u64)> = server.pids().into_iter().map(|(daemon, pid)| (daemon, status_bytes(pid, "VmHWM"))).collect();
    let shown: Vec<String> = now.iter().map(|(daemon, bytes)| format!("{daemon} {}", bytes / MIB)).collect();
    println!("  {name:<28} MiB at most: {}", shown.join(", "));
    ensure!(now.len() == OSDS && now.iter().all(|(_, bytes)| *bytes > MIB), "an OSD tells no peak: {now:?}");
    if let Some(limit) = server.limit() {
        let over = now.iter().find(|(_, bytes)| *bytes > limit);
        ensure!(over.is_none(), "scene `{name}` took more than {} MiB: {}", limit / MIB, shown.join(", "));
    }
    peaks.push((name, now));
    Ok(())
}

fn play<S: Server>(scale: &Scale, server: &mut S) -> Result<Peaks> {
    let Scale { objects, clients, seconds, entries: least, .. } = *scale;
    let mut peaks = Peaks::new();
    scene(server, "start", &mut peaks, |s| {
        ceph(s, &format!("osd pool create bench {GROUPS}"))?;
        ceph(s, "osd pool set bench size 1 --yes-i-really-mean-it")?;
        clean(s, 1)
    })?;
    scene(server, "small objects", &mut peaks, |s| bench(s, &format!("seq --objects {objects} -b 512 -t 64 -s 1 --keep")))?;
    scene(server, "second copies of all of them", &mut peaks, |s| {
        // Without these the copies take most of an hour, on disks that wait for nothing.
        ceph(s, "config set osd osd_max_backfills 8")?;
        ceph(s, "config set osd osd_recovery_max_active 32")?;
        ceph(s, "osd pool set bench size 2")?;
        clean(s, 2)
    })?;
    scene(server, "objects that a member lacks", &mut peaks, |s| lacking(s, least))?;
    scene(server, "peering with full logs", &mut peaks, |s| {
        // Writes trim the logs to what an OSD has of them by now, with twice as many groups as before.
        bench(s, "write -b 512 -t 64 -s 2")?;
        let had = entries(s)?;
        ensure!(had >= least, "logs have {had} entries, {least} are wanted");
        s.start_again()?;
        clean(s, 2)
    })?;
    let depth = 2 * clients;
    scene(server, "clients", &mut peaks, |s| {
        bench(s, &format!("write --clients {clients} -t {depth} -b 4096 -s {seconds}"))?;
        bench(s, &format!("write --clients {clients} -t {depth} -b 262144 -s {seconds}"))
    })?;
    scene(server, "large writes", &mut peaks, |s| bench(s, "write --clients 16 -t 96 -b 4194304 -s 4"))?;
    Ok(peaks)
}

fn in_little() -> Result<()> {
    play(&Scale::PART, &mut Ours::start(&Scale::PART)?).map(drop)
}

/// `cargo xtask memory`: the whole scenes, ours or a stock cluster's.
pub fn memory(stock: bool, objects: Option<u64>) -> Result<()> {
    let mut scale = Scale::WHOLE;
    if let Some(objects) = objects {
        (scale.objects, scale.entries) = (objects, scale.entries.min(objects / 2));
    }
    let peaks = if stock {
        crate::clients::stock_osds(Reef)?;
        play(&scale, &mut Stock::start()?)?
    } else {
        play(&scale, &mut Ours::start(&scale)?)?
    };
    println!("\n| scene | MiB of an OSD at most |\n|---|---|");
    for (name, daemons) in peaks {
        println!("| {name} | {} |", daemons.iter().map(|(_, bytes)| bytes / MIB).max().unwrap_or_default());
    }
    Ok(())
}
