//! A folder as an archive that depends on its content alone: names in order, one owner, one time, two modes.
//!
//! GNU tar and gzip make it, sha256sum its digest. Absent: the folder's content.

use crate::run::{quietly, run};
use anyhow::{Context, Result, ensure};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

/// Reading a few hundred megabytes takes seconds.
const PATIENCE: Duration = Duration::from_secs(600);
/// Of a folder in which each user may make files that others can't remove.
const STICKY: u32 = 0o1000;

/// Gives all below `dir` one time, and a package's modes whatever its maker's umask was: 0755 for a folder or a program, 0644 for others.
pub fn even(dir: &Path, time: u64) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        let meta = fs::symlink_metadata(&path)?;
        // A link has no mode, and tar writes the time.
        if meta.is_symlink() {
            continue;
        }
        if meta.is_dir() {
            even(&path, time)?;
        }
        let mode = match meta.permissions().mode() {
            mode if meta.is_dir() && mode & STICKY != 0 => 0o1777,
            mode if meta.is_dir() || mode & 0o100 != 0 => 0o755,
            _ => 0o644,
        };
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        fs::File::open(&path)?.set_modified(UNIX_EPOCH + Duration::from_secs(time))?;
    }
    Ok(())
}

/// Packs what `dir` holds into `archive`.
pub fn pack(dir: &Path, time: u64, archive: &Path) -> Result<()> {
    let mut names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    names.sort();
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(dir).args(["--sort=name", "--format=gnu", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{time}")).arg("-cf").arg(archive).arg("--").args(names);
    quietly(tar.env("LC_ALL", "C"))
}

/// Packs a file by gzip, without a name and a time in it; the new file's path. The old one is gone.
pub fn squeeze(file: &Path) -> Result<PathBuf> {
    quietly(Command::new("gzip").args(["-6nf"]).arg(file))?;
    let mut name = file.as_os_str().to_owned();
    name.push(".gz");
    Ok(name.into())
}

/// SHA-256 of a file, in hexadecimal.
pub fn digest(file: &Path) -> Result<String> {
    let out = run(Command::new("sha256sum").arg("-b").arg(file), PATIENCE)?;
    let sum = out.stdout.split_whitespace().next().unwrap_or_default().trim_start_matches('\\').to_string();
    ensure!(out.ok() && sum.len() == 64, "sha256sum {}: {out:?}", file.display());
    Ok(sum)
}

/// Bytes of all files below a folder.
pub fn bytes(dir: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let meta = fs::symlink_metadata(&path)?;
        sum += if meta.is_dir() { bytes(&path)? } else { meta.len() };
    }
    Ok(sum)
}

/// Copies a folder with all that is in it, modes too.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    quietly(Command::new("cp").arg("-R").arg("--").arg(from.join(".")).arg(to))
}
