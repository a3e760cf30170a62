//! A stock cluster of one monitor and its OSDs: 16.2 from the machine itself, later releases from chroots as `humboldt lab setup` makes them.

pub mod chroot;
mod conf;

use super::device::Backing;
use super::files::Files;
use super::osds::{self, Action, Empty, Osds};
use super::process::Daemon;
use super::{Counted, Place, Target, cephfs, reach, volume};
use crate::cgroup::Group;
use crate::load::runner::chore;
use crate::plan::Setup;
use crate::study::file::Device;
use crate::sys;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const COMMAND: Duration = Duration::from_secs(60);
const READY: Duration = Duration::from_secs(90);
/// Placement groups of the pool.
const PGS: u64 = 32;
/// The count was 69323 bytes short after some ten thousand writes: this is for many more, and little memory.
const BALLAST_BYTES: u64 = 4 << 20;
const BALLAST_OBJECTS: u64 = 32;
/// A file store's file system where no device is named: a sparse file.
const FILE_STORE_BYTES: u64 = 8 << 30;

/// Why this stock cluster can't be had here, if it can't.
pub fn lacks(setup: &Setup) -> Option<String> {
    let release = setup.release.as_deref().unwrap_or_default();
    let root = chroot::root(release).unwrap_or_else(|| "/".into());
    let missing = ["ceph-mon", "ceph-osd", "ceph"].into_iter().find(|program| !root.join("usr/bin").join(program).exists());
    match setup.fs.as_deref() {
        _ if setup.store == "file" && release != "16.2" => Some(format!("needs a file store, which {release} does not have")),
        _ if !sys::is_root() => Some("needs root, for stock daemons".into()),
        _ if missing.is_some() => missing.map(|program| format!("needs {program} of {release} (humboldt lab setup STUDY)")),
        _ if setup.store == "file" && !Path::new("/usr/sbin/mkfs.xfs").exists() => {
            Some("needs package xfsprogs (humboldt lab setup STUDY)".into())
        }
        Some("cephfs") => cephfs::lacks(&root),
        Some(_) => volume::lacks(),
        None => None,
    }
}

pub struct Ceph {
    setup: Setup,
    dir: PathBuf,
    root: Option<PathBuf>,
    /// With the option that names each.
    backings: Vec<(&'static str, Backing)>,
    /// File systems of file stores, by OSD.
    folders: Vec<Backing>,
    group: Option<Group>,
    mon: Option<Daemon>,
    osds: Osds,
    files: Option<Files>,
    made: bool,
}

impl Ceph {
    pub fn new(setup: &Setup, devices: &[Device], dir: &Path) -> Result<Self> {
        let root = chroot::root(setup.release.as_deref().unwrap_or_default());
        let dir = match &root {
            // Its programs see this folder only.
            Some(_) => Path::new(chroot::SHARED).join(format!(
                "lab-{}-{}",
                std::process::id(),
                dir.file_name().unwrap_or_default().to_string_lossy()
            )),
            None => dir.to_path_buf(),
        };
        let is_file = setup.store == "file";
        let wal = if is_file { "osd journal" } else { "bluestore block wal path" };
        let mut named = vec![(wal, &setup.wal), ("bluestore block db path", &setup.meta)];
        let mut folders = Vec::new();
        match &setup.data {
            Some(name) if is_file => folders.push(Backing::new(name, devices, &dir)?),
            None if is_file => {
                for id in 0..setup.osds {
                    folders.push(Backing::plain(&format!("osd.{id}"), FILE_STORE_BYTES, &dir)?);
                }
            }
            _ => named.push(("bluestore block path", &setup.data)),
        }
        let mut backings = Vec::new();
        for (option, name) in named {
            if let Some(name) = name {
                backings.push((option, Backing::new(name, devices, &dir)?));
            }
        }
        let (setup, osds) = (setup.clone(), Osds::default());
        Ok(Self { setup, dir, root, backings, folders, group: None, mon: None, osds, files: None, made: false })
    }
    fn server_place(&self) -> Place {
        let group = self.group.as_ref().map(Group::procs);
        Place { conf: Some(self.dir.join("ceph.conf")), chroot: self.root.clone(), group, ..Place::default() }
    }
    fn command(&self, program: &str) -> Command {
        Place { group: None, ..self.server_place() }.command(program)
    }
    fn tool(&self, program: &str, args: &[&str]) -> Result<String> {
        chore(self.command(program).args(args), COMMAND)
    }
    fn all_backings(&mut self) -> impl Iterator<Item = &mut Backing> {
        self.backings.iter_mut().map(|(_, b)| b).chain(&mut self.folders)
    }
    fn attach(&mut self) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for (option, backing) in &mut self.backings {
            lines.push(format!("{option} = {}", backing.attach()?.display()));
        }
        for (id, folder) in self.folders.iter_mut().enumerate() {
            folder.mount("xfs", &self.dir.join(format!("osd.{id}")))?;
        }
        if self.all_backings().any(|b| b.is_throttled()) {
            let group = Group::new(&self.dir.file_name().unwrap_or_default().to_string_lossy())?;
            self.all_backings().try_for_each(|b| b.bound(&group))?;
            self.group = Some(group);
        }
        Ok(lines)
    }
    /// 20.2 makes keys of a type that this machine's older clients don't know, and refuses the others unless told.
    fn key_type(&self) -> &'static [&'static str] {
        if self.setup.release.as_deref() == Some("20.2") { &["--key-type", "aes"] } else { &[] }
    }
    fn make(&mut self, fsid: &str, port: u16) -> Result<()> {
        let d = self.dir.display().to_string();
        let (keyring, monmap) = (format!("{d}/keyring"), format!("{d}/monmap"));
        let of_type = self.key_type();
        let mon = ["--create-keyring", &keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"];
        self.tool("ceph-authtool", &[of_type, &mon].concat())?;
        let admin = ["--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *", "--cap", "mds", "allow *"];
        self.tool("ceph-authtool", &[of_type, &[keyring.as_str(), "--gen-key", "-n", "client.admin"], &admin].concat())?;
        let addr = format!("[v2:127.0.0.1:{port}]");
        let ciphers = ["--auth-service-cipher", "aes", "--auth-allowed-ciphers", "aes,aes256k", "--auth-preferred-cipher", "aes"];
        let ciphers = if of_type.is_empty() { &[][..] } else { &ciphers };
        let map = ["--create", "--clobber", "--fsid", fsid, "--addv", "a", &addr, &monmap];
        self.tool("monmaptool", &[ciphers, &map].concat())?;
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
        let key = self.tool("ceph-authtool", &[self.key_type(), &["--gen-print-key"]].concat())?.trim().to_string();
        let secrets = self.dir.join("new.json");
        std::fs::write(&secrets, json!({ "cephx_secret": key }).to_string())?;
        self.tool("ceph", &["osd", "new", &uuid, &id, "-i", &secrets.display().to_string()])?;
        std::fs::write(home.join("keyring"), format!("[osd.{id}]\n\tkey = {key}\n"))?;
        let keyring = home.join("keyring").display().to_string();
        self.tool("ceph-osd", &["-i", &id, "--mkfs", "--osd-uuid", &uuid, "--keyring", &keyring])?;
        let (place, log) = (self.server_place(), self.dir.join(format!("log/osd.{id}.out")));
        let up = format!("{} up", self.osds.len() + 1);
        let status = Place { group: None, ..place.clone() };
        let up = || chore(status.command("ceph").args(["osd", "stat"]), COMMAND).is_ok_and(|out| out.contains(&up));
        let socket = self.dir.join(format!("run/osd.{id}.asok"));
        let of_start = id.clone();
        // ceph.conf names the keyring of clients. A store on disk knows its own key, one in memory does not.
        let start = move || Daemon::start(place.command("ceph-osd").args(["-f", "-i", &of_start, "--keyring", &keyring]), &log);
        let empty = self.emptying(self.osds.len() as u32);
        self.osds.add(socket, Box::new(start), empty)?.wait(READY, up).with_context(|| format!("the stock osd.{id}"))
    }
    /// Makes an OSD's store anew, under the uuid that the monitor knows it by, and with the key that it has.
    fn emptying(&self, id: u32) -> Empty {
        let (place, home) = (Place { group: None, ..self.server_place() }, self.dir.join(format!("osd.{id}")));
        let in_folder = self.backings.is_empty() && self.setup.data.is_none();
        Box::new(move || {
            ensure!(in_folder, "its store lies on devices of the study, which keep what they hold");
            let (uuid, keyring) = (osds::uuid(&place, id)?, home.join("keyring"));
            let key = std::fs::read(&keyring).with_context(|| keyring.display().to_string())?;
            // The folder stays: one of a store on files is a file system of its own.
            for entry in std::fs::read_dir(&home).with_context(|| home.display().to_string())? {
                let path = entry?.path();
                let removed = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
                removed.with_context(|| path.display().to_string())?;
            }
            std::fs::write(&keyring, key)?;
            let mut mkfs = place.command("ceph-osd");
            mkfs.args(["-i", &id.to_string(), "--mkfs", "--osd-uuid", &uuid, "--keyring", &keyring.display().to_string()]);
            chore(&mut mkfs, READY).map(drop)
        })
    }
    /// Objects that stay. Stock's store in memory miscounts its bytes: emptied, one of 16.2 had 18446744073709482293 in use, called itself full and
    /// took no write any more. These keep the count of each OSD well above 0.
    fn ballast(&self) -> Result<()> {
        let (bytes, objects) = (BALLAST_BYTES.to_string(), BALLAST_OBJECTS.to_string());
        let write = ["bench", "-p", "bench", "1", "write", "-b", &bytes, "-t", "4", "--max-objects", &objects];
        self.tool("rados", &[&write[..], &["--run-name", "ballast", "--no-cleanup"]].concat()).map(drop).context("objects that stay")
    }
    fn start_new(&mut self) -> Result<()> {
        if let Some(root) = &self.root {
            chroot::furnish(root)?;
        }
        let _ = std::fs::remove_dir_all(&self.dir);
        for sub in ["mon", "run", "log"] {
            std::fs::create_dir_all(self.dir.join(sub))?;
        }
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let fsid = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_string();
        let devices = self.attach()?;
        std::fs::write(self.dir.join("ceph.conf"), conf::text(&self.setup, &self.dir, &fsid, port, &devices))?;
        self.make(&fsid, port)?;
        self.run_mon()?;
        for _ in 0..self.setup.osds {
            self.add_osd()?;
        }
        self.all_backings().for_each(Backing::taken);
        let pgs = PGS.to_string();
        self.tool("ceph", &["osd", "pool", "create", "bench", &pgs, &pgs])?;
        if self.setup.store == "mem" {
            self.ballast()?;
        }
        self.files = Files::start(&self.setup, &self.place(), &self.server_place(), &self.dir)?;
        self.made = true;
        Ok(())
    }
}

/// What a device of that option holds.
fn role(option: &str) -> &'static str {
    match option {
        "bluestore block wal path" | "osd journal" => "log",
        "bluestore block db path" => "metadata",
        _ => "data",
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
        self.files = None;
        self.osds.stop();
        self.mon.take().into_iter().for_each(|mut mon| mon.stop());
        self.all_backings().for_each(Backing::release);
        self.group = None;
    }
    fn remove(&mut self) {
        self.stop();
        self.all_backings().for_each(Backing::remove);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
    fn alive(&mut self) -> bool {
        self.made
            && self.mon.as_mut().is_some_and(Daemon::alive)
            && !self.osds.is_empty()
            && self.osds.alive()
            && self.files.as_mut().is_none_or(Files::alive)
    }
    fn home(&self) -> Option<PathBuf> {
        Some(self.dir.clone())
    }
    fn place(&self) -> Place {
        let dir = self.files.as_ref().map(|f| f.dir().to_path_buf());
        let file = dir.as_ref().map(|d| d.join("data")).unwrap_or_default();
        Place { conf: Some(self.dir.join("ceph.conf")), dir, file, ..Place::default() }
    }
    fn servers(&self) -> Vec<u32> {
        self.osds.pids().chain(self.mon.as_ref().map(Daemon::pid)).chain(self.files.as_ref().and_then(Files::servers)).collect()
    }
    fn helpers(&self) -> Vec<u32> {
        self.files.iter().map(Files::client).collect()
    }
    fn devices(&self) -> Vec<PathBuf> {
        let all = || self.backings.iter().map(|(_, b)| b).chain(&self.folders);
        let stats: Vec<PathBuf> = all().filter_map(Backing::stat).collect();
        if stats.len() == all().count() { stats } else { Vec::new() }
    }
    fn counted(&mut self) -> Result<Option<Counted>> {
        ensure!(self.alive(), "it does not run");
        reach::counted(self.osds.sockets().iter().map(PathBuf::as_path)).map(Some)
    }
    fn durable(&self) -> bool {
        self.setup.store != "mem"
    }
    fn describe(&self) -> Value {
        let version = chore(self.command("ceph").arg("--version"), COMMAND).unwrap_or_default();
        let named = self.backings.iter().map(|(option, b)| b.describe(role(option)));
        let devices: Vec<Value> = named.chain(self.folders.iter().map(|b| b.describe("data"))).collect();
        json!({ "program": "ceph", "version": version.trim(), "devices": devices })
    }
    fn drill(&mut self, action: Action, osd: u32) -> Result<()> {
        let id = osd.to_string();
        match action {
            Action::MarkOut => self.tool("ceph", &["osd", "out", &id]).map(drop),
            Action::MarkIn => self.tool("ceph", &["osd", "in", &id]).map(drop),
            action => self.osds.drill(action, osd),
        }
    }
    /// By what the primaries say of their groups: there is no manager that would collect it. That is old if an OSD has still to be marked
    /// up, or a primary has still to learn of it.
    fn is_clean(&mut self) -> Result<bool> {
        let stat: Value = serde_json::from_str(&self.tool("ceph", &["osd", "stat", "-f", "json"])?)?;
        let number = |of: &Value, name: &str| of.get(name).and_then(Value::as_u64).with_context(|| format!("no {name} in {of}"));
        let (epoch, sockets) = (number(&stat, "epoch")?, self.osds.sockets());
        if number(&stat, "num_up_osds")? < sockets.len() as u64 {
            return Ok(false);
        }
        let mut clean = 0;
        for socket in sockets {
            if number(&reach::ask(&socket, &json!({ "prefix": "status" }))?, "newest_map")? < epoch {
                return Ok(false);
            }
            let answer = reach::ask(&socket, &json!({ "prefix": "dump_pgstate_history" }))?;
            let Some(groups) = answer.get("pgs").and_then(Value::as_array).or(answer.as_array()) else {
                bail!("{}: an unknown form of dump_pgstate_history", socket.display());
            };
            let state = |pg: &Value| pg.get("currently").and_then(Value::as_str).is_some_and(|s| s.ends_with("Primary/Active/Clean"));
            clean += groups.iter().filter(|pg| state(pg)).count() as u64;
        }
        Ok(clean >= PGS)
    }
    fn heal(&mut self) -> Result<()> {
        self.osds.heal()?;
        let ids: Vec<String> = (0..self.osds.len()).map(|id| id.to_string()).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        self.tool("ceph", &[&["osd", "in"][..], &ids].concat()).map(drop)
    }
}
