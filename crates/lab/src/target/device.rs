//! Devices: files, loop devices on files or on RAM, given paths, each as it is, throttled or modelled; file systems on them; and the target
//! that is a bare one.
//!
//! A loop device is detached as soon as it is in use: the kernel removes it when its last user ends, however we end ourselves. Mounts are in
//! the lab's own mount namespace, and go with it.

use super::process::Daemon;
use super::{Counted, Place, Target};
use crate::cgroup::{self, Group};
use crate::load::runner::chore;
use crate::model::{self, fuse};
use crate::plan::Setup;
use crate::study::file::Device;
use crate::sys;
use crate::value::parse_size;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const CHORE: Duration = Duration::from_secs(60);
/// tmpfs that every Linux has.
pub const RAM: &str = "/dev/shm";
/// How long a model's process may take until its file is there.
const MODEL_READY: Duration = Duration::from_secs(10);

/// What a device can be to its target.
pub const ROLES: [&str; 4] = ["data", "log", "metadata", "brick"];

/// A device on its way to be used.
pub struct Backing {
    device: Device,
    file: PathBuf,
    size: Option<u64>,
    /// While it is attached.
    node: Option<PathBuf>,
    /// Held so that a detached loop device stays until its user has it.
    held: Option<File>,
    /// The process that behaves as the modelled device, and where its file is.
    model: Option<(Daemon, PathBuf)>,
    /// Where its file system is mounted.
    mounted: Option<PathBuf>,
}

impl Backing {
    /// By its name in the study; `dir` is its user's.
    pub fn new(name: &str, devices: &[Device], dir: &Path) -> Result<Self> {
        let device = devices.iter().find(|d| d.name == name).with_context(|| format!("no device is called {name}"))?;
        Self::of(device.clone(), dir)
    }
    /// A loop device on a file in `dir` that no study names.
    pub fn plain(name: &str, bytes: u64, dir: &Path) -> Result<Self> {
        Self::of(Device { name: name.into(), kind: "loop".into(), size: Some(format!("{bytes}")), ..Device::default() }, dir)
    }
    /// One of another role beside a named one, of the same kind: none beside a given path, which is one device and no more.
    pub fn beside(name: &str, role: &str, bytes: u64, devices: &[Device], dir: &Path) -> Result<Option<Self>> {
        let device = devices.iter().find(|d| d.name == name).with_context(|| format!("no device is called {name}"))?;
        if device.kind == "path" {
            return Ok(None);
        }
        Self::of(Device { name: format!("{name}-{role}"), size: Some(bytes.to_string()), ..device.clone() }, dir).map(Some)
    }
    fn of(device: Device, dir: &Path) -> Result<Self> {
        let size = device.size.as_deref().map(parse_size).transpose().map_err(anyhow::Error::msg)?;
        let name = &device.name;
        let file = match (device.kind.as_str(), &device.path) {
            ("path", Some(path)) => path.into(),
            ("ram", _) => {
                // Two users of one device of the study have a file each.
                let user = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Path::new(RAM).join(format!("humboldt-lab-{}-{user}-{name}", std::process::id()))
            }
            (_, Some(path)) => Path::new(path).join(format!("humboldt-lab-{}-{name}", std::process::id())),
            (_, None) => dir.join(format!("device-{name}")),
        };
        Ok(Self { device, file, size, node: None, held: None, model: None, mounted: None })
    }
    /// Makes it ready for use; its path.
    pub fn attach(&mut self) -> Result<PathBuf> {
        if self.device.kind == "path" {
            if !self.device.may_destroy {
                refuse_if_in_use(&self.file)?;
            }
            return Ok(self.file.clone());
        }
        let size = self.size.context("checked with the study")?;
        self.file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let file = File::options().create(true).truncate(false).write(true).open(&self.file);
        let file = file.with_context(|| self.file.display().to_string())?;
        if file.metadata()?.len() < size {
            file.set_len(size)?;
        }
        let below = if self.device.model.is_some() { self.start_model()? } else { self.file.clone() };
        if self.device.kind == "file" {
            return Ok(below);
        }
        let (node, held) = loop_device(&below)?;
        (self.held, self.node) = (Some(held), Some(node.clone()));
        Ok(node)
    }
    /// The file that behaves as the model says.
    fn start_model(&mut self) -> Result<PathBuf> {
        let m = self.device.model.clone().unwrap_or_default();
        let dir = PathBuf::from(format!("{}.model", self.file.display()));
        std::fs::create_dir_all(&dir)?;
        let mut cmd = Command::new(std::env::current_exe().context("finding our own program")?);
        cmd.args(model::COMMAND).arg("--dir").arg(&dir).arg("--file").arg(&self.file);
        let values = [
            ("--seek-us", m.seek_us),
            ("--seek-min-us", m.seek_min_us),
            ("--rpm", m.rpm),
            ("--mib-s", m.mib_s),
            ("--flush-us", m.flush_us),
            ("--cache-mib", m.cache_mib),
            ("--cache-mib-s", m.cache_mib_s),
            ("--discard-us", m.discard_us),
            ("--disks", m.disks),
            ("--stripe-kib", m.stripe_kib),
        ];
        for (option, value) in values.into_iter().filter_map(|(option, value)| Some((option, value?))) {
            cmd.arg(option).arg(value.to_string());
        }
        let mut daemon = Daemon::start(&mut cmd, &dir.with_extension("log"))?;
        let disk = dir.join(fuse::NAME);
        daemon.wait(MODEL_READY, || disk.exists()).with_context(|| format!("the model of device {}", self.device.name))?;
        self.model = Some((daemon, dir));
        Ok(disk)
    }
    /// Makes a file system on it and mounts that.
    pub fn mount(&mut self, fs: &str, dir: &Path) -> Result<()> {
        let node = self.attach()?;
        make_and_mount(&node, fs, dir)?;
        self.mounted = Some(dir.into());
        self.taken();
        Ok(())
    }
    /// Its user has it open.
    pub fn taken(&mut self) {
        self.held = None;
    }
    pub fn release(&mut self) {
        if let Some(dir) = self.mounted.take() {
            sys::unmount(&dir);
        }
        self.held = None;
        self.node = None;
        if let Some((mut daemon, dir)) = self.model.take() {
            sys::unmount(&dir);
            daemon.kill();
            let _ = std::fs::remove_dir(&dir);
        }
    }
    pub fn remove(&mut self) {
        self.release();
        if self.device.kind != "path" {
            let _ = std::fs::remove_file(&self.file);
        }
    }
    fn block(&self) -> Option<&PathBuf> {
        self.node.as_ref().or((self.device.kind == "path").then_some(&self.file))
    }
    /// Where the kernel counts its sectors, if no other process uses it.
    pub fn stat(&self) -> Option<PathBuf> {
        let stat = Path::new("/sys/class/block").join(self.block()?.file_name()?).join("stat");
        stat.exists().then_some(stat)
    }
    pub fn is_throttled(&self) -> bool {
        self.device.throttle.is_some()
    }
    /// Bounds what the processes of a group may ask of it. It must be attached.
    pub fn bound(&self, group: &Group) -> Result<()> {
        match (&self.device.throttle, self.block()) {
            (Some(throttle), Some(node)) => group.limit(node, throttle).with_context(|| format!("throttling device {}", self.device.name)),
            _ => Ok(()),
        }
    }
    /// For the results: what it is to its user, which of the kernel's it is while it is attached, and what was made up about it.
    pub fn describe(&self, role: &str) -> Value {
        assert!(ROLES.contains(&role));
        let dev = self.block().and_then(|node| std::fs::metadata(node).ok()).map(|m| m.rdev());
        json!({
            "role": role,
            "number": dev.map(|dev| format!("{},{}", libc::major(dev), libc::minor(dev))),
            "kind": self.device.kind,
            "bytes": self.size,
            "disk": dev.filter(|_| self.device.kind == "path").map(crate::machine::disk),
            "modelled": self.device.model,
            "throttled": self.device.throttle,
        })
    }
}

/// A loop device on a file, gone with its last user; held by what is returned with it.
pub fn loop_device(file: &Path) -> Result<(PathBuf, File)> {
    let mut losetup = Command::new("losetup");
    losetup.args(["--find", "--show", "--direct-io=on"]).arg(file);
    let node = PathBuf::from(chore(&mut losetup, CHORE)?.trim());
    ensure!(node.starts_with("/dev"), "losetup names no device");
    let held = File::open(&node);
    // It has a user now: it goes with its last one.
    chore(Command::new("losetup").arg("--detach").arg(&node), CHORE)?;
    Ok((node, held?))
}

pub fn make_and_mount(node: &Path, fs: &str, dir: &Path) -> Result<()> {
    let mut mkfs = Command::new(format!("mkfs.{fs}"));
    // File stores keep attributes in inodes.
    mkfs.args(if fs == "xfs" { &["-q", "-f", "-i", "size=2048"][..] } else { &["-q", "-F"] }).arg(node);
    chore(&mut mkfs, CHORE)?;
    std::fs::create_dir_all(dir)?;
    let above = std::fs::metadata(dir)?.dev();
    let options = if fs == "xfs" { "noatime,inode64" } else { "noatime" };
    chore(Command::new("mount").args(["-o", options]).arg(node).arg(dir), CHORE)?;
    // A mount that failed would make the host's disk look like the fastest store.
    ensure!(std::fs::metadata(dir)?.dev() != above, "{} is no mount", dir.display());
    Ok(())
}

/// A device that holds something is not ours to destroy.
pub fn refuse_if_in_use(path: &Path) -> Result<()> {
    let name = path.display();
    ensure!(path.exists(), "{name} is not there");
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let first = |l: &str| l.split(' ').next().unwrap_or_default() == path.to_string_lossy();
    ensure!(!mounts.lines().any(first), "{name} is mounted");
    let name_only = path.file_name().unwrap_or_default();
    let holders = Path::new("/sys/class/block").join(name_only).join("holders");
    ensure!(std::fs::read_dir(holders).map_or(true, |mut h| h.next().is_none()), "{name} is in use (LVM, RAID or the like)");
    let signs = chore(Command::new("wipefs").arg("--noheadings").arg(path), CHORE).with_context(|| format!("looking at {name}"))?;
    ensure!(signs.trim().is_empty(), "{name} holds data ({}): name it in --may-destroy if that may be lost", signs.trim());
    Ok(())
}

/// Why a device can't be had on this machine, if it can't.
pub fn lacks(device: &Device) -> Option<String> {
    match device.kind.as_str() {
        _ if device.model.is_some() && !Path::new("/dev/fuse").exists() => Some("needs /dev/fuse, for a modelled device".into()),
        "loop" | "ram" if !sys::is_root() => Some("needs root, for a loop device".into()),
        "loop" | "ram" if !Path::new("/dev/loop-control").exists() => Some("needs loop devices".into()),
        "path" if device.path.as_deref().is_some_and(|p| !Path::new(p).exists()) => {
            Some(format!("needs {}", device.path.as_deref().unwrap_or_default()))
        }
        _ if device.throttle.is_some() => cgroup::lacks(),
        _ => None,
    }
}

/// The device itself, with nothing in front of it, or a file system on it: the ceiling.
pub struct Bare {
    setup: Setup,
    dir: PathBuf,
    backing: Backing,
    path: Option<PathBuf>,
    group: Option<Group>,
    /// The bytes that its own counters have; loads that the kernel's cache answers don't show there.
    counts: bool,
}

impl Bare {
    pub fn new(setup: &Setup, devices: &[Device], dir: &Path) -> Result<Self> {
        let backing = Backing::new(setup.data.as_deref().context("checked with the study")?, devices, dir)?;
        let counts = backing.device.kind != "file" || setup.fs.is_some();
        Ok(Self { setup: setup.clone(), dir: dir.into(), counts, backing, path: None, group: None })
    }
    fn mount_point(&self) -> PathBuf {
        self.dir.join("mnt")
    }
}

impl Target for Bare {
    fn start(&mut self) -> Result<()> {
        if self.path.is_some() {
            return Ok(());
        }
        let path = match &self.setup.fs {
            None => self.backing.attach()?,
            Some(fs) => {
                self.backing.mount(fs, &self.dir.join("mnt"))?;
                self.mount_point().join("data")
            }
        };
        if self.backing.is_throttled() {
            let group = Group::new(&self.dir.file_name().unwrap_or_default().to_string_lossy())?;
            self.backing.bound(&group)?;
            self.group = Some(group);
        }
        self.path = Some(path);
        Ok(())
    }
    fn stop(&mut self) {
        self.path = None;
        self.backing.release();
        self.group = None;
    }
    fn remove(&mut self) {
        self.stop();
        self.backing.remove();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
    fn alive(&mut self) -> bool {
        self.path.as_ref().is_some_and(|p| if self.setup.fs.is_some() { self.mount_point().exists() } else { p.exists() })
            && self.backing.model.as_mut().is_none_or(|(daemon, _)| daemon.alive())
    }
    fn place(&self) -> Place {
        let dir = self.setup.fs.is_some().then(|| self.mount_point());
        Place { file: self.path.clone().unwrap_or_default(), dir, group: self.group.as_ref().map(Group::procs), ..Place::default() }
    }
    fn servers(&self) -> Vec<u32> {
        Vec::new()
    }
    fn devices(&self) -> Vec<PathBuf> {
        self.backing.stat().into_iter().collect()
    }
    fn counted(&mut self) -> Result<Option<Counted>> {
        let sectors = self.backing.stat().and_then(|s| crate::sample::Sectors::read(&s)).filter(|_| self.counts);
        Ok(sectors.map(|s| Counted { ops: s.reads + s.writes, bytes_in: s.written * 512, bytes_out: s.read * 512 }))
    }
    fn durable(&self) -> bool {
        self.counts
    }
    fn describe(&self) -> Value {
        json!({ "devices": [self.backing.describe("data")] })
    }
}
