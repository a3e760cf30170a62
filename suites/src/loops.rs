//! Devices of a test's own: loop devices over images that are all holes, raw or with a file system. Needs root. Absent: measurements, whose
//! devices are the laboratory's.

use crate::clients::SHARED;
use crate::run::{quietly, run, until};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A loop device, and where it is mounted. All of it goes with the value.
pub struct Loop {
    /// `/dev/loopN`.
    pub device: PathBuf,
    image: PathBuf,
    mounted: Vec<PathBuf>,
    /// The image is not ours to remove.
    keeps: bool,
}

impl Loop {
    /// Over a new image.
    pub fn sparse(name: &str, mib: u64) -> Result<Self> {
        std::fs::create_dir_all(SHARED)?;
        Self::sparse_in(Path::new(SHARED), name, mib)
    }
    /// Over a new image in this folder.
    pub fn sparse_in(folder: &Path, name: &str, mib: u64) -> Result<Self> {
        let image = folder.join(format!("{name}.image"));
        std::fs::File::create(&image).and_then(|f| f.set_len(mib << 20)).with_context(|| image.display().to_string())?;
        Self::attach(image)
    }
    /// Over a file that is another's, and stays when the device goes.
    pub fn over(file: &Path) -> Result<Self> {
        let mut device = Self::attach(file.to_path_buf())?;
        device.keeps = true;
        Ok(device)
    }
    /// Over a copy of this one's image, read piece by piece: with writes meanwhile it is a copy of many moments, which no power cut leaves.
    pub fn copy(&self, name: &str) -> Result<Self> {
        let image = Path::new(SHARED).join(format!("{name}.image"));
        quietly(Command::new("cp").args(["--sparse=always", "--reflink=never"]).arg(&self.image).arg(&image))?;
        Self::attach(image)
    }
    /// Over this one's image as it is at one moment, whatever is written to it: the file system below must be one that shares blocks between files.
    pub fn snapshot(&self, name: &str) -> Result<Self> {
        let image = self.image.with_file_name(format!("{name}.image"));
        quietly(Command::new("cp").arg("--reflink=always").arg(&self.image).arg(&image))?;
        Self::attach(image)
    }
    /// True if [`Loop::format_sharing`] can be asked for here.
    pub fn can_share() -> bool {
        let known = std::fs::read_to_string("/proc/filesystems").is_ok_and(|text| text.split_whitespace().any(|word| word == "xfs"));
        known && run(Command::new("mkfs.xfs").arg("-V"), Duration::from_secs(10)).is_ok_and(|out| out.ok())
    }
    /// Puts a file system on it that shares blocks between files.
    pub fn format_sharing(&self) -> Result<()> {
        quietly(Command::new("mkfs.xfs").args(["-q", "-f", "-m", "reflink=1"]).arg(&self.device))
    }
    fn attach(image: PathBuf) -> Result<Self> {
        let attach = |direct: bool| -> Result<String> {
            let mut cmd = Command::new("losetup");
            let out = run(cmd.args(direct.then_some("--direct-io=on")).args(["--find", "--show"]).arg(&image), Duration::from_secs(30))?;
            ensure!(out.ok(), "losetup: {}", out.stderr);
            Ok(out.stdout.trim().to_string())
        };
        // A file system in memory has no direct IO.
        let device = attach(true).or_else(|_| attach(false))?;
        Ok(Self { device: device.into(), image, mounted: Vec::new(), keeps: false })
    }
    pub fn format(&self) -> Result<()> {
        // A loop device over blocks that are shared has sectors of 4 KiB, and smaller blocks than that could not be mounted.
        let args = ["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        quietly(Command::new("mkfs.ext4").args(args).arg(&self.device))
    }
    /// Puts the file system that it has into `SHARED/name`, for clients of this machine.
    pub fn mount_here(&mut self, name: &str) -> Result<PathBuf> {
        let at = Path::new(SHARED).join(name);
        std::fs::create_dir_all(&at)?;
        quietly(Command::new("mount").arg(&self.device).arg(&at))?;
        self.mounted.push(at.clone());
        Ok(at)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        for place in self.mounted.iter().rev() {
            // Who was killed lets go of his files in the kernel's time.
            until(Duration::from_secs(10), || run(Command::new("umount").arg(place), Duration::from_secs(10)).is_ok_and(|out| out.ok()));
        }
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
        if !self.keeps {
            let _ = std::fs::remove_file(&self.image);
        }
    }
}
