//! A stock cluster of one monitor and its OSDs: 16.2 from the machine itself, later releases from chroots as `cargo xtask` makes them.

use super::device::Backing;
use super::process::Daemon;
use super::{Counted, Place, Target, reach};
use crate::load::runner::chore;
use crate::plan::Setup;
use crate::study::file::Device;
use crate::sys;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The chroots of later releases.
const CHROOTS: &str = "/var/cache/humboldt-clients";
/// The folder that host and chroots see at the same path.
const SHARED: &str = "/tmp/humboldt-test";
const COMMAND: Duration = Duration::from_secs(60);
const READY: Duration = Duration::from_secs(90);
/// Placement groups of the pool.
const PGS: &str = "32";

fn chroot(release: &str) -> Option<PathBuf> {
    match release {
        "18.2" => Some(Path::new(CHROOTS).join("trixie")),
        "20.2" => Some(Path::new(CHROOTS).join("sid")),
        _ => None,
    }
}

/// Why this stock cluster can't be had here, if it can't.
pub fn lacks(setup: &Setup) -> Option<String> {
    let release = setup.release.as_deref().unwrap_or_default();
    let root = chroot(release).unwrap_or_else(|| "/".into());
    let missing = ["ceph-mon", "ceph-osd", "ceph"].into_iter().find(|program| !root.join("usr/bin").join(program).exists());
    match () {
        () if setup.store == "file" && release != "16.2" => Some(format!("needs a file store, which {release} does not have")),
        () if setup.store == "file" => Some("needs stock file stores on XFS".into()),
        () if !sys::is_root() => Some("needs root, for stock daemons".into()),
        () => missing.map(|program| format!("needs {program} of {release} (cargo xtask clients installs it)")),
    }
}

pub struct Ceph {
    setup: Setup,
    dir: PathBuf,
    root: Option<PathBuf>,
    backings: Vec<(&'static str, Backing)>,
    mon: Option<Daemon>,
    osds: Vec<Daemon>,
    made: bool,
}

impl Ceph {
    pub fn new(setup: &Setup, devices: &[Device], dir: &Path) -> Result<Self> {
        let root = chroot(setup.release.as_deref().unwrap_or_default());
        let dir = match &root {
            // Its programs see this folder only.
            Some(_) => {
                Path::new(SHARED).join(format!("lab-{}-{}", std::process::id(), dir.file_name().unwrap_or_default().to_string_lossy()))
            }
            None => dir.to_path_buf(),
        };
        let mut backings = Vec::new();
        for (option, name) in
            [("bluestore block path", &setup.data), ("bluestore block wal path", &setup.wal), ("bluestore block db path", &setup.meta)]
        {
            if let Some(name) = name {
                backings.push((option, Backing::new(name, devices, &dir)?));
            }
        }
        Ok(Self { setup: setup.clone(), dir, root, backings, mon: None, osds: Vec::new(), made: false })
    }
    fn command(&self, program: &str) -> Command {
        Place { conf: Some(self.dir.join("ceph.conf")), chroot: self.root.clone(), ..Place::default() }.command(program)
    }
    fn tool(&self, program: &str, args: &[&str]) -> Result<String> {
        chore(self.command(program).args(args), COMMAND)
    }
    fn conf(&mut self, fsid: &str, port: u16) -> Result<String> {
        let d = self.dir.display().to_string();
        let mut lines = vec![
            format!(
                "[global]\nfsid = {fsid}\nmon host = [v2:127.0.0.1:{port}]\npublic network = 127.0.0.0/8\ncluster network = 127.0.0.0/8"
            ),
            format!("keyring = {d}/keyring\nrun dir = {d}/run\nadmin socket = {d}/run/$name.asok\nlog file = {d}/log/$name.log"),
            format!("mon data = {d}/mon\nosd data = {d}/osd.$id\ncrash dir = {d}\nmon cluster log file = {d}/log/cluster.log"),
            format!(
                "osd pool default size = {}\nosd pool default min size = 1\nosd pool default pg autoscale mode = off",
                self.setup.replicas
            ),
            "osd crush chooseleaf type = 0\nmon allow pool size one = true\nmon warn on pool no redundancy = false".into(),
            // Not of the cluster but of the disk that the monitor's small store lies on.
            "mon data avail crit = 1\nmon data avail warn = 2".into(),
            // On both sides: librbd would answer from it.
            "rbd cache = false".into(),
        ];
        lines.extend(["cluster", "service", "client"].map(|s| format!("auth {s} required = {}", self.setup.auth)));
        lines.extend(
            ["ms", "osd", "mon", "paxos", "auth", "monc", "rocksdb", "bluestore", "bluefs", "bdev"].map(|s| format!("debug {s} = 0/0")),
        );
        if self.setup.store == "mem" {
            lines.push(format!("osd objectstore = memstore\nmemstore device bytes = {}", self.setup.memory.unwrap_or(4 << 30)));
        } else {
            lines.push("osd objectstore = bluestore".into());
            if let Some(memory) = self.setup.memory {
                lines.push(format!("osd memory target = {memory}"));
            }
            if self.backings.is_empty() {
                lines.push("bluestore block size = 17179869184".into());
            }
        }
        for (option, backing) in &mut self.backings {
            lines.push(format!("{option} = {}", backing.attach()?.display()));
        }
        lines.extend(self.setup.conf.iter().map(|(key, value)| format!("{key} = {value}")));
        Ok(lines.join("\n") + "\n")
    }
    fn make(&mut self, fsid: &str, port: u16) -> Result<()> {
        let d = self.dir.display().to_string();
        let (keyring, monmap) = (format!("{d}/keyring"), format!("{d}/monmap"));
        self.tool("ceph-authtool", &["--create-keyring", &keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"])?;
        let admin = ["--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *"];
        self.tool("ceph-authtool", &[&[keyring.as_str(), "--gen-key", "-n", "client.admin"][..], &admin].concat())?;
        let addr = format!("[v2:127.0.0.1:{port}]");
        self.tool("monmaptool", &["--create", "--clobber", "--fsid", fsid, "--addv", "a", &addr, &monmap])?;
        self.tool("ceph-mon", &["--mkfs", "-i", "a", "--monmap", &monmap, "--keyring", &keyring]).map(drop)
    }
    fn run_mon(&mut self) -> Result<()> {
        let mut mon = Daemon::start(self.command("ceph-mon").args(["-f", "-i", "a"]), &self.dir.join("log/mon.out"))?;
        let ready = || chore(self.command("ceph").args(["--connect-timeout", "5", "mon", "stat"]), COMMAND).is_ok();
        mon.wait(READY, ready).context("the stock monitor")?;
        self.mon = Some(mon);
        Ok(())
    }
    /// Makes an OSD and starts it; its number is as many as there are.
    fn add_osd(&mut self) -> Result<()> {
        let id = self.osds.len().to_string();
        let home = self.dir.join(format!("osd.{id}"));
        std::fs::create_dir_all(&home)?;
        let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_string();
        let key = self.tool("ceph-authtool", &["--gen-print-key"])?.trim().to_string();
        let secrets = self.dir.join("new.json");
        std::fs::write(&secrets, json!({ "cephx_secret": key }).to_string())?;
        self.tool("ceph", &["osd", "new", &uuid, &id, "-i", &secrets.display().to_string()])?;
        std::fs::write(home.join("keyring"), format!("[osd.{id}]\n\tkey = {key}\n"))?;
        let keyring = home.join("keyring").display().to_string();
        self.tool("ceph-osd", &["-i", &id, "--mkfs", "--osd-uuid", &uuid, "--keyring", &keyring])?;
        let mut osd = Daemon::start(self.command("ceph-osd").args(["-f", "-i", &id]), &self.dir.join(format!("log/osd.{id}.out")))?;
        let up = format!("{} up", self.osds.len() + 1);
        let up = || chore(self.command("ceph").args(["osd", "stat"]), COMMAND).is_ok_and(|out| out.contains(&up));
        osd.wait(READY, up).with_context(|| format!("the stock osd.{id}"))?;
        self.osds.push(osd);
        Ok(())
    }
    fn start_new(&mut self) -> Result<()> {
        let _ = std::fs::remove_dir_all(&self.dir);
        for sub in ["mon", "run", "log"] {
            std::fs::create_dir_all(self.dir.join(sub))?;
        }
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let fsid = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_string();
        let conf = self.conf(&fsid, port)?;
        std::fs::write(self.dir.join("ceph.conf"), conf)?;
        self.make(&fsid, port)?;
        self.run_mon()?;
        for _ in 0..self.setup.osds {
            self.add_osd()?;
        }
        self.backings.iter_mut().for_each(|(_, b)| b.taken());
        self.tool("ceph", &["osd", "pool", "create", "bench", PGS, PGS])?;
        self.made = true;
        Ok(())
    }
}

impl Target for Ceph {
    fn start(&mut self) -> Result<()> {
        if self.alive() {
            return Ok(());
        }
        self.stop();
        // A store in memory is gone with its OSD, and a loop device has another name the next time.
        self.start_new().with_context(|| format!("starting {}", self.setup.show()))
    }
    fn stop(&mut self) {
        for mut daemon in std::mem::take(&mut self.osds).into_iter().chain(self.mon.take()) {
            daemon.stop();
        }
        self.backings.iter_mut().for_each(|(_, b)| b.release());
    }
    fn remove(&mut self) {
        self.stop();
        self.backings.iter_mut().for_each(|(_, b)| b.remove());
        let _ = std::fs::remove_dir_all(&self.dir);
    }
    fn alive(&mut self) -> bool {
        self.made && self.mon.as_mut().is_some_and(Daemon::alive) && self.osds.iter_mut().all(Daemon::alive)
    }
    fn place(&self) -> Place {
        Place { conf: Some(self.dir.join("ceph.conf")), ..Place::default() }
    }
    fn servers(&self) -> Vec<u32> {
        self.osds.iter().chain(&self.mon).map(Daemon::pid).collect()
    }
    fn devices(&self) -> Vec<PathBuf> {
        let stats: Vec<PathBuf> = self.backings.iter().filter_map(|(_, b)| b.stat()).collect();
        if stats.len() == self.backings.len() { stats } else { Vec::new() }
    }
    fn counted(&mut self) -> Result<Option<Counted>> {
        ensure!(self.alive(), "it does not run");
        let sockets: Vec<PathBuf> = (0..self.osds.len()).map(|id| self.dir.join(format!("run/osd.{id}.asok"))).collect();
        reach::counted(sockets.iter().map(PathBuf::as_path)).map(Some)
    }
    fn durable(&self) -> bool {
        self.setup.store != "mem"
    }
    fn describe(&self) -> Value {
        let version = chore(self.command("ceph").arg("--version"), COMMAND).unwrap_or_default();
        json!({ "program": "ceph", "version": version.trim() })
    }
}
