//! `humboldt up` as a process of its own, and the null responder, which is the same program. For drills its daemons are processes that the
//! lab keeps itself, as it keeps stock's: an OSD that was killed stays dead until the drill starts it again.

use super::device::Backing;
use super::files::Files;
use super::osds::{self, Action, Empty, Osds};
use super::process::Daemon;
use super::{Counted, Kind, Place, Target, reach};
use crate::cgroup::Group;
use crate::load::runner::chore;
use crate::plan::Setup;
use crate::study::file::Device;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const READY: Duration = Duration::from_secs(60);
/// Devices beside a named one for data, of each OSD.
const WAL_BYTES: u64 = 256 << 20;
const META_BYTES: u64 = 512 << 20;
/// Data, log and metadata.
const ROLES: usize = 3;
/// What an OSD keeps in memory unless the study says.
const MEMORY: u64 = 128 << 20;

pub struct Humboldt {
    setup: Setup,
    dir: PathBuf,
    program: PathBuf,
    /// With the options that take them.
    backings: Vec<(&'static str, Backing)>,
    group: Option<Group>,
    /// `humboldt up`, or the monitor alone where OSDs are apart.
    daemon: Option<Daemon>,
    osds: Osds,
    files: Option<Files>,
}

impl Humboldt {
    pub fn new(setup: &Setup, devices: &[Device], dir: &Path, program: &Path) -> Result<Self> {
        let mut backings = Vec::new();
        for (option, name) in [("--data", &setup.data), ("--wal", &setup.wal), ("--meta", &setup.meta)] {
            if let Some(name) = name {
                backings.push((option, Backing::new(name, devices, dir)?));
            }
        }
        // A log that is not named would lie in the OSD's folder, on a disk that was not asked for and whose sectors are not counted.
        for (option, role, named, bytes) in [("--wal", "wal", &setup.wal, WAL_BYTES), ("--meta", "meta", &setup.meta, META_BYTES)] {
            if let (Some(data), None) = (&setup.data, named)
                && let Some(backing) = Backing::beside(data, role, bytes * u64::from(setup.osds), devices, dir)?
            {
                backings.push((option, backing));
            }
        }
        let (setup, program) = (setup.clone(), program.into());
        Ok(Self { setup, dir: dir.into(), program, backings, group: None, daemon: None, osds: Osds::default(), files: None })
    }
    fn cluster(&self) -> PathBuf {
        self.dir.join("cluster")
    }
    /// Our own program, bound as the study wants it.
    fn program(&self) -> Result<Command> {
        let mut cmd = Command::new(&self.program);
        if let Some(group) = &self.group {
            crate::sys::in_group(&mut cmd, &group.procs())?;
        }
        Ok(cmd)
    }
    fn up(&mut self) -> Result<Command> {
        let mut devices = Vec::new();
        for (option, backing) in &mut self.backings {
            devices.push((*option, backing.attach()?));
        }
        if self.backings.iter().any(|(_, b)| b.is_throttled()) {
            let group = Group::new(&self.dir.file_name().unwrap_or_default().to_string_lossy())?;
            self.backings.iter().try_for_each(|(_, b)| b.bound(&group))?;
            self.group = Some(group);
        }
        let mut cmd = self.program()?;
        cmd.arg("up").arg("--dir").arg(self.cluster()).args(["--port", "0", "--auth", &self.setup.auth]);
        cmd.args(["--osds", &self.setup.osds.to_string()]);
        if self.setup.kind == Kind::Null {
            cmd.args(["--null", "--store", "mem"]);
        } else {
            cmd.args(["--store", &self.setup.store]);
            if let Some(memory) = self.setup.memory {
                cmd.args(["--memory", &memory.to_string()]);
            }
        }
        for (option, path) in devices {
            cmd.arg(option).arg(path);
        }
        cmd.args(&self.setup.args);
        Ok(cmd)
    }
    /// Starts `up` and waits until it serves.
    fn run_up(&mut self) -> Result<Daemon> {
        let log = self.dir.join("log");
        // What former starts said doesn't count.
        let before = std::fs::metadata(&log).map_or(0, |m| m.len()) as usize;
        let mut cmd = self.up()?;
        let mut daemon = Daemon::start(&mut cmd, &log)?;
        let ready = || std::fs::read(&log).is_ok_and(|text| String::from_utf8_lossy(&text[before.min(text.len())..]).contains("ready in"));
        daemon.wait(READY, ready)?;
        Ok(daemon)
    }
    /// Makes the cluster by `up`, and then starts its daemons one by one.
    fn run_apart(&mut self) -> Result<()> {
        if !self.cluster().join("ceph.conf").exists() {
            self.run_up()?.stop();
        }
        let cluster = self.cluster();
        let mut mon = self.program()?;
        mon.arg("mon").arg("--dir").arg(&cluster).args(["--auth", &self.setup.auth, "--key-type", "aes", "--listen", "127.0.0.1"]);
        mon.args(["--port", "0", "--osds", &self.setup.osds.to_string()]);
        let log = self.dir.join("mon.log");
        let before = std::fs::metadata(&log).map_or(0, |m| m.len());
        let mut mon = Daemon::start(&mut mon, &log)?;
        // Its first line says that it serves.
        mon.wait(READY, || std::fs::metadata(&log).is_ok_and(|m| m.len() > before)).context("the monitor")?;
        self.daemon = Some(mon);
        for id in 0..self.setup.osds {
            let (program, cluster, memory) = (self.program.clone(), cluster.clone(), self.setup.memory.unwrap_or(MEMORY));
            let log = self.dir.join(format!("osd.{id}.log"));
            let of_start = log.clone();
            let start = move || {
                let mut cmd = Command::new(&program);
                cmd.arg("osd").arg("--conf").arg(cluster.join("ceph.conf")).args(["--id", &id.to_string(), "--listen", "127.0.0.1"]);
                cmd.arg("--register").arg("--osd-data").arg(cluster.join(format!("osd.{id}")));
                cmd.arg("--keyring").arg(cluster.join(format!("osd.{id}.keyring"))).args(["--memory", &memory.to_string()]);
                Daemon::start(&mut cmd, &of_start)
            };
            let before = std::fs::metadata(&log).map_or(0, |m| m.len());
            let socket = self.cluster().join(format!("osd.{id}.asok"));
            let osd = self.osds.add(socket, Box::new(start), self.emptying(id))?;
            osd.wait(READY, || std::fs::metadata(&log).is_ok_and(|m| m.len() > before)).with_context(|| format!("osd.{id}"))?;
        }
        Ok(())
    }
    /// Makes an OSD's store anew, under the uuid that the monitor knows it by.
    fn emptying(&self, id: u32) -> Empty {
        let (program, cluster, place, store) = (self.program.clone(), self.cluster(), self.place(), self.setup.store.clone());
        let in_folder = self.backings.is_empty();
        Box::new(move || {
            ensure!(in_folder, "its store lies on devices of the study, which keep what they hold");
            let uuid = osds::uuid(&place, id)?;
            let (conf, data) = (cluster.join("ceph.conf"), cluster.join(format!("osd.{id}")));
            std::fs::remove_dir_all(&data).with_context(|| data.display().to_string())?;
            let mut cmd = Command::new(&program);
            cmd.arg("osd").arg("--conf").arg(&conf).args(["--id", &id.to_string(), "--mkfs", "--osd-uuid", &uuid, "--store", &store]);
            chore(cmd.arg("--osd-data").arg(&data), READY).map(drop)
        })
    }
    /// The cluster's own, with librbd's cache off, which would answer in the server's place; and the study's lines.
    fn client_conf(&self) -> Result<()> {
        let own = std::fs::read_to_string(self.cluster().join("ceph.conf"))?;
        let lines: String = self.setup.conf.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        Ok(std::fs::write(self.dir.join("client.conf"), own + "[client]\nrbd cache = false\n" + &lines)?)
    }
    fn sockets(&self) -> Vec<PathBuf> {
        match self.setup.apart {
            true => self.osds.sockets(),
            false => (0..self.setup.osds).map(|id| self.cluster().join(format!("osd.{id}.asok"))).collect(),
        }
    }
    fn ceph(&self, args: &[&str]) -> Result<String> {
        chore(self.place().command("ceph").args(args), READY)
    }
}

/// What a device of that option holds.
fn role(option: &str) -> &'static str {
    match option {
        "--wal" => "log",
        "--meta" => "metadata",
        _ => "data",
    }
}

impl Target for Humboldt {
    fn start(&mut self) -> Result<()> {
        if self.alive() {
            return Ok(());
        }
        self.stop();
        std::fs::create_dir_all(&self.dir)?;
        match self.setup.apart {
            true => self.run_apart(),
            false => self.run_up().map(|daemon| self.daemon = Some(daemon)),
        }
        .with_context(|| format!("starting {}", self.setup.show()))?;
        self.backings.iter_mut().for_each(|(_, b)| b.taken());
        self.client_conf()?;
        // Makes the pool; its figures are not used.
        let mut first = Command::new(&self.program);
        first.args(["bench", "write", "--seconds", "0.2", "--json", "--conf"]).arg(self.dir.join("client.conf"));
        first.args(["--replicas", &self.setup.replicas.to_string()]);
        chore(&mut first, READY).context("a first load")?;
        self.files = Files::start(&self.setup, &self.place(), &self.place(), &self.dir)?;
        Ok(())
    }
    fn stop(&mut self) {
        self.files = None;
        self.osds.stop();
        if let Some(mut daemon) = self.daemon.take() {
            daemon.stop();
        }
        self.backings.iter_mut().for_each(|(_, b)| b.release());
        self.group = None;
    }
    fn remove(&mut self) {
        self.stop();
        self.backings.iter_mut().for_each(|(_, b)| b.remove());
        let _ = std::fs::remove_dir_all(&self.dir);
    }
    fn alive(&mut self) -> bool {
        self.daemon.as_mut().is_some_and(Daemon::alive) && self.osds.alive() && self.files.as_mut().is_none_or(Files::alive)
    }
    fn home(&self) -> Option<PathBuf> {
        Some(self.dir.clone())
    }
    fn place(&self) -> Place {
        let dir = self.files.as_ref().map(|f| f.dir().to_path_buf());
        let file = dir.as_ref().map(|d| d.join("data")).unwrap_or_default();
        Place { conf: Some(self.dir.join("client.conf")), dir, file, ..Place::default() }
    }
    fn servers(&self) -> Vec<u32> {
        self.daemon.iter().map(Daemon::pid).chain(self.osds.pids()).chain(self.files.as_ref().and_then(Files::servers)).collect()
    }
    fn helpers(&self) -> Vec<u32> {
        self.files.iter().map(Files::client).collect()
    }
    fn devices(&self) -> Vec<PathBuf> {
        let stats: Vec<PathBuf> = self.backings.iter().filter_map(|(_, b)| b.stat()).collect();
        // Sectors tell all that was written only if all of the store lies on devices of its own.
        if stats.len() == ROLES { stats } else { Vec::new() }
    }
    fn counted(&mut self) -> Result<Option<Counted>> {
        if self.setup.kind == Kind::Null {
            return Ok(None);
        }
        reach::counted(self.sockets().iter().map(PathBuf::as_path)).map(Some)
    }
    fn durable(&self) -> bool {
        self.setup.kind == Kind::Humboldt && self.setup.store != "mem"
    }
    fn describe(&self) -> Value {
        let devices: Vec<Value> = self.backings.iter().map(|(option, b)| b.describe(role(option))).collect();
        json!({ "program": "humboldt", "version": env!("CARGO_PKG_VERSION"), "devices": devices })
    }
    fn drill(&mut self, action: Action, osd: u32) -> Result<()> {
        ensure!(self.setup.apart, "its OSDs are no processes of their own");
        let id = osd.to_string();
        match action {
            Action::MarkOut => self.ceph(&["osd", "out", &id]).map(drop),
            Action::MarkIn => self.ceph(&["osd", "in", &id]).map(drop),
            action => self.osds.drill(action, osd),
        }
    }
    fn is_clean(&mut self) -> Result<bool> {
        let stat: Value = serde_json::from_str(&self.ceph(&["pg", "stat", "-f", "json"])?)?;
        // 16.2 tells it one level deeper than the monitor that answers.
        let stat = stat.get("pg_summary").unwrap_or(&stat);
        let all = stat.get("num_pgs").and_then(Value::as_u64).context("pg stat has no num_pgs")?;
        let states = stat.get("num_pg_by_state").and_then(Value::as_array).context("pg stat has no num_pg_by_state")?;
        let clean = states.iter().filter(|s| s.get("name").and_then(Value::as_str) == Some("active+clean"));
        Ok(clean.filter_map(|s| s.get("num")?.as_u64()).sum::<u64>() == all)
    }
    fn heal(&mut self) -> Result<()> {
        self.osds.heal()?;
        let ids: Vec<String> = (0..self.osds.len()).map(|id| id.to_string()).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        self.ceph(&[&["osd", "in"][..], &ids].concat()).map(drop)
    }
}
