//! Devices: files, loop devices on files or on RAM, given paths; and the target that is a bare one.
//!
//! A loop device is detached as soon as it is in use: the kernel removes it when its last user ends, however we end ourselves.

use super::{Counted, Place, Target};
use crate::load::runner::chore;
use crate::plan::Setup;
use crate::study::file::Device;
use crate::sys;
use crate::value::parse_size;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const CHORE: Duration = Duration::from_secs(60);
/// tmpfs that every Linux has.
const RAM: &str = "/dev/shm";

/// A device on its way to be used.
#[derive(Debug)]
pub struct Backing {
    kind: String,
    file: PathBuf,
    size: Option<u64>,
    /// While it is attached.
    node: Option<PathBuf>,
    /// Held so that a detached loop device stays until its user has it.
    held: Option<File>,
}

impl Backing {
    /// By its name in the study; `dir` is its user's.
    pub fn new(name: &str, devices: &[Device], dir: &Path) -> Result<Self> {
        let device = devices.iter().find(|d| d.name == name).with_context(|| format!("no device is called {name}"))?;
        ensure!(device.model.is_none(), "modelled devices are not in this version");
        let size = device.size.as_deref().map(parse_size).transpose().map_err(anyhow::Error::msg)?;
        let file = match (device.kind.as_str(), &device.path) {
            ("path", Some(path)) => path.into(),
            ("ram", _) => Path::new(RAM).join(format!("humboldt-lab-{}-{name}", std::process::id())),
            (_, Some(path)) => Path::new(path).join(format!("humboldt-lab-{name}")),
            (_, None) => dir.join(format!("device-{name}")),
        };
        Ok(Self { kind: device.kind.clone(), file, size, node: None, held: None })
    }
    /// Makes it ready for use; its path.
    pub fn attach(&mut self) -> Result<PathBuf> {
        if self.kind == "path" {
            refuse_if_in_use(&self.file)?;
            return Ok(self.file.clone());
        }
        let size = self.size.context("checked with the study")?;
        self.file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let file = File::options().create(true).truncate(false).write(true).open(&self.file);
        let file = file.with_context(|| self.file.display().to_string())?;
        if file.metadata()?.len() < size {
            file.set_len(size)?;
        }
        if self.kind == "file" {
            return Ok(self.file.clone());
        }
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show", "--direct-io=on"]).arg(&self.file);
        let node = PathBuf::from(chore(&mut losetup, CHORE)?.trim());
        ensure!(node.starts_with("/dev"), "losetup names no device");
        self.held = Some(File::open(&node)?);
        // It has a user now: it goes with its last one.
        chore(Command::new("losetup").arg("--detach").arg(&node), CHORE)?;
        self.node = Some(node.clone());
        Ok(node)
    }
    /// Its user has it open.
    pub fn taken(&mut self) {
        self.held = None;
    }
    pub fn release(&mut self) {
        self.held = None;
        self.node = None;
    }
    pub fn remove(&mut self) {
        self.release();
        if self.kind != "path" {
            let _ = std::fs::remove_file(&self.file);
        }
    }
    /// Where the kernel counts its sectors, if no other process uses it.
    pub fn stat(&self) -> Option<PathBuf> {
        let node = self.node.as_ref().or((self.kind == "path").then_some(&self.file))?;
        let stat = Path::new("/sys/class/block").join(node.file_name()?).join("stat");
        stat.exists().then_some(stat)
    }
}

/// A device that holds something is not ours to destroy.
fn refuse_if_in_use(path: &Path) -> Result<()> {
    let name = path.display();
    ensure!(path.exists(), "{name} is not there");
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let first = |l: &str| l.split(' ').next().unwrap_or_default() == path.to_string_lossy();
    ensure!(!mounts.lines().any(first), "{name} is mounted");
    let signs = chore(Command::new("wipefs").arg("--noheadings").arg(path), CHORE).with_context(|| format!("looking at {name}"))?;
    ensure!(signs.trim().is_empty(), "{name} holds data ({}): empty it yourself (wipefs) if it may be destroyed", signs.trim());
    Ok(())
}

/// Why a device can't be had on this machine, if it can't.
pub fn lacks(device: &Device) -> Option<String> {
    match device.kind.as_str() {
        _ if device.model.is_some() => Some("needs modelled devices".into()),
        "loop" | "ram" if !sys::is_root() => Some("needs root, for a loop device".into()),
        "loop" | "ram" if !Path::new("/dev/loop-control").exists() => Some("needs loop devices".into()),
        "path" if device.path.as_deref().is_some_and(|p| !Path::new(p).exists()) => {
            Some(format!("needs {}", device.path.as_deref().unwrap_or_default()))
        }
        _ => None,
    }
}

/// The device itself, with nothing in front of it: the ceiling.
pub struct Bare {
    backing: Backing,
    path: Option<PathBuf>,
    /// The bytes that its own counters have; loads that the kernel's cache answers don't show there.
    counts: bool,
}

impl Bare {
    pub fn new(setup: &Setup, devices: &[Device], dir: &Path) -> Result<Self> {
        ensure!(setup.fs.is_none(), "file systems on devices are not in this version");
        let backing = Backing::new(setup.data.as_deref().context("checked with the study")?, devices, dir)?;
        Ok(Self { counts: backing.kind != "file", backing, path: None })
    }
}

impl Target for Bare {
    fn start(&mut self) -> Result<()> {
        if self.path.is_none() {
            self.path = Some(self.backing.attach()?);
        }
        Ok(())
    }
    fn stop(&mut self) {
        self.path = None;
        self.backing.release();
    }
    fn remove(&mut self) {
        self.stop();
        self.backing.remove();
    }
    fn alive(&mut self) -> bool {
        self.path.as_ref().is_some_and(|p| p.exists())
    }
    fn place(&self) -> Place {
        Place { file: self.path.clone().unwrap_or_default(), ..Place::default() }
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
        json!({ "kind": self.backing.kind, "bytes": self.backing.size })
    }
}
