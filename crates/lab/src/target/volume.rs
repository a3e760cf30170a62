//! A file system on an RBD image without kernel module or virtual machine: `qemu-storage-daemon` shows the image as a file (FUSE), a loop
//! device lies on that file, and an ordinary file system on the loop device.
//!
//! ```text
//!   mnt ── xfs ── loop device (direct I/O, flushes pass) ── rbd.img ── qemu-storage-daemon ── librbd ── the cluster
//! ```

use super::Place;
use super::device::{loop_device, make_and_mount};
use super::process::Daemon;
use crate::load::runner::chore;
use crate::sys;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const CHORE: Duration = Duration::from_secs(60);
const READY: Duration = Duration::from_secs(20);
const IMAGE: &str = "lab-volume";
/// The image's size: more than any study writes.
const BYTES: u64 = 2 << 30;

pub struct Volume {
    daemon: Daemon,
    file: PathBuf,
    mnt: PathBuf,
}

/// Why there can be none, if there can't.
pub fn lacks() -> Option<String> {
    let has = |paths: &[&str]| paths.iter().any(|p| Path::new(p).exists());
    let plugin = || {
        let dirs = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|d| d.path().join("qemu"));
        dirs.chain([PathBuf::from("/usr/lib/qemu")]).any(|d| d.join("block-rbd.so").exists())
    };
    match () {
        () if !sys::is_root() => Some("needs root, for mounts".into()),
        () if !has(&["/usr/bin/qemu-storage-daemon"]) => Some("needs package qemu-system-common (humboldt lab setup STUDY)".into()),
        () if !plugin() => Some("needs package qemu-block-extra (humboldt lab setup STUDY)".into()),
        () if !Path::new("/dev/fuse").exists() => Some("needs /dev/fuse".into()),
        () => None,
    }
}

impl Volume {
    /// Makes the image in pool `bench` and mounts it below `dir`.
    pub fn start(place: &Place, fs: &str, dir: &Path) -> Result<Self> {
        let conf = place.conf.as_ref().context("a volume is a cluster's")?;
        let mut create = place.command("rbd");
        create.args(["create", "--pool", "bench", "--size", &format!("{BYTES}B"), "--image-feature", "layering", IMAGE]);
        match chore(&mut create, CHORE) {
            Err(e) if !e.to_string().contains("File exists") => return Err(e.context("making an image")),
            _ => {}
        }
        let (file, mnt) = (dir.join("rbd.img"), dir.join("mnt"));
        File::create(&file)?;
        let mut cmd = Command::new("qemu-storage-daemon");
        let (conf, at) = (conf.display(), file.display());
        cmd.arg("--blockdev")
            .arg(format!("driver=rbd,node-name=r,pool=bench,image={IMAGE},conf={conf},user=admin,cache.direct=on,discard=unmap"));
        cmd.arg("--export").arg(format!("type=fuse,id=e,node-name=r,mountpoint={at},writable=on"));
        let mut daemon = Daemon::start(&mut cmd, &dir.join("volume.log"))?;
        // The image lies over the empty file.
        let shown = || file.metadata().is_ok_and(|m| m.len() == BYTES);
        daemon.wait(READY, shown).context("showing the image as a file")?;
        let (node, held) = loop_device(&file)?;
        make_and_mount(&node, fs, &mnt)?;
        drop(held);
        ensure!(daemon.alive(), "qemu-storage-daemon ended: {}", daemon.said());
        Ok(Self { daemon, file, mnt })
    }
    pub fn dir(&self) -> &Path {
        &self.mnt
    }
    /// The client's side of it.
    pub fn pid(&self) -> u32 {
        self.daemon.pid()
    }
    pub fn alive(&mut self) -> bool {
        self.daemon.alive()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        sys::unmount(&self.mnt);
        sys::unmount(&self.file);
        self.daemon.stop();
    }
}
