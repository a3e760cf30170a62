//! The cluster's folder and its lock; half of the machine's memory.

use anyhow::{Context, Result, bail};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A folder that this process holds until it ends.
pub struct Folder {
    pub dir: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder if it is not there. An error names the process that holds it.
    pub fn hold(dir: &Path) -> Result<Self> {
        let is_new = !dir.exists();
        disk::create_dirs(dir).with_context(|| {
            format!("making the folder {} (a place for a folder is wanted: no file, and where you may write)", dir.display())
        })?;
        let dir = dir.canonicalize().with_context(|| format!("the folder {}", dir.display()))?;
        if is_new {
            // Keys and objects have modes of their own; which OSDs there are and what they said is no other user's, either.
            std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o750))
                .with_context(|| format!("the folder {}", dir.display()))?;
        }
        let path = dir.join("lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .with_context(|| path.display().to_string())?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                lock.read_to_string(&mut holder)?;
                bail!("{} is held by process {}: stop that one, or give another --dir", dir.display(), holder.trim());
            }
            Err(TryLockError::Error(e)) => return Err(e).with_context(|| format!("locking {}", path.display())),
        }
        lock.set_len(0)?;
        lock.rewind()?;
        writeln!(lock, "{}", std::process::id())?;
        Ok(Self { dir, _lock: lock })
    }
}

/// Half of the machine's memory, bytes.
pub fn half_of_memory() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:")).and_then(|l| l.trim().split(' ').next()?.parse::<u64>().ok());
    total.map_or(4 << 30, |kib| kib * 1024 / 2)
}
