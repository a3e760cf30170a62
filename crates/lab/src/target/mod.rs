//! Targets: what is measured. Each is started, watched, hurt and stopped here; its bytes are counted by itself (`reach`).

pub mod ceph;
pub mod cephfs;
pub mod device;
pub mod existing;
pub mod fake;
pub mod files;
pub mod gluster;
pub mod humboldt;
pub mod osds;
pub mod process;
pub mod reach;
pub mod volume;

use crate::plan::Setup;
use crate::study::file::Device;
use anyhow::{Result, bail};
use osds::Action;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub use reach::Counted;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Humboldt,
    Ceph,
    Glusterfs,
    Device,
    /// Answers each request from the frame decoder and keeps nothing.
    Null,
    Existing,
    /// The self-test's own.
    Fake,
}

impl Kind {
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "humboldt" => Self::Humboldt,
            "ceph" => Self::Ceph,
            "glusterfs" => Self::Glusterfs,
            "device" => Self::Device,
            "null" => Self::Null,
            "existing" => Self::Existing,
            "fake" => Self::Fake,
            _ => return Err(format!("unknown kind `{text}`, expected one of humboldt, ceph, glusterfs, device, null, existing")),
        })
    }
    pub fn name(self) -> &'static str {
        match self {
            Self::Humboldt => "humboldt",
            Self::Ceph => "ceph",
            Self::Glusterfs => "glusterfs",
            Self::Device => "device",
            Self::Null => "null",
            Self::Existing => "existing",
            Self::Fake => "fake",
        }
    }
    /// True for what RADOS clients reach.
    pub fn is_cluster(self) -> bool {
        matches!(self, Self::Humboldt | Self::Ceph | Self::Null | Self::Existing)
    }
    /// True if the servers are processes of ours, whose CPU is theirs alone.
    pub fn has_servers(self) -> bool {
        !matches!(self, Self::Device | Self::Existing)
    }
}

/// Where a load goes to.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// A cluster's.
    pub conf: Option<PathBuf>,
    /// A device's or socket's path; the file that takes a device's place where there are files.
    pub file: PathBuf,
    /// Where files go, if the target has such.
    pub dir: Option<PathBuf>,
    /// The chroot that the client's programs are taken from.
    pub chroot: Option<PathBuf>,
    /// The control group that bounds what it asks of devices: its file of processes.
    pub group: Option<PathBuf>,
    /// A process whose network the client must be in.
    pub net: Option<u32>,
}

impl Place {
    /// A client's program, told where the cluster is.
    pub fn command(&self, program: &str) -> Command {
        let mut cmd = match (&self.chroot, self.net) {
            (Some(root), _) => {
                let mut cmd = Command::new("chroot");
                cmd.arg(root).arg(program);
                cmd
            }
            (None, Some(pid)) => {
                let mut cmd = Command::new("nsenter");
                cmd.arg(format!("--net=/proc/{pid}/ns/net")).arg(program);
                cmd
            }
            (None, None) => Command::new(program),
        };
        if let Some(procs) = &self.group
            && let Err(e) = crate::sys::in_group(&mut cmd, procs)
        {
            // A path with a zero byte: no study makes one.
            unreachable!("{}: {e}", procs.display());
        }
        if let Some(conf) = &self.conf {
            cmd.env("CEPH_CONF", conf).env_remove("CEPH_ARGS");
        }
        cmd.env("LC_ALL", "C.UTF-8");
        cmd
    }
}

/// One that can be measured.
pub trait Target {
    /// Starts it if it doesn't run, and waits until it serves.
    fn start(&mut self) -> Result<()>;
    /// Ends everything of it; what it stored may stay.
    fn stop(&mut self);
    /// Ends it for good and removes what it stored.
    fn remove(&mut self);
    /// True while everything of it runs.
    fn alive(&mut self) -> bool;
    fn place(&self) -> Place;
    /// The folder that is its own, where its daemons write their logs; none if nothing of it is ours.
    fn home(&self) -> Option<PathBuf> {
        None
    }
    /// Processes that serve; those that they start count, too.
    fn servers(&self) -> Vec<u32>;
    /// Stat files of the devices that are its alone.
    fn devices(&self) -> Vec<PathBuf> {
        Vec::new()
    }
    /// What it says that clients sent and got; none if it doesn't count.
    fn counted(&mut self) -> Result<Option<Counted>>;
    /// True if what it acknowledged must be on a device.
    fn durable(&self) -> bool;
    /// What it is, for the results: version, command line.
    fn describe(&self) -> serde_json::Value;
    /// Processes that work for the client outside of its own: what shows a cluster as files.
    fn helpers(&self) -> Vec<u32> {
        Vec::new()
    }
    /// How late its counters may be.
    fn counts_late(&self) -> Duration {
        Duration::ZERO
    }
    /// Hurts one of its OSDs, or ends that.
    fn drill(&mut self, _: Action, _: u32) -> Result<()> {
        bail!("it has no drills")
    }
    /// True if everything has all its copies.
    fn is_clean(&mut self) -> Result<bool> {
        bail!("it has no drills")
    }
    /// Ends whatever drills did to it.
    fn heal(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Makes a target's value; nothing runs yet. `dir` is its own.
pub fn make(setup: &Setup, devices: &[Device], dir: &Path, program: &Path) -> Result<Box<dyn Target>> {
    Ok(match setup.kind {
        Kind::Humboldt | Kind::Null => Box::new(humboldt::Humboldt::new(setup, devices, dir, program)?),
        Kind::Ceph => Box::new(ceph::Ceph::new(setup, devices, dir)?),
        Kind::Device => Box::new(device::Bare::new(setup, devices, dir)?),
        Kind::Fake => Box::new(fake::Fake::new(setup, dir, program)),
        Kind::Glusterfs => Box::new(gluster::Gluster::new(setup, devices, dir)?),
        Kind::Existing => Box::new(existing::Existing::new(setup)?),
    })
}
