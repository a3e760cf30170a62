//! CephFS: stock's metadata server beside the target's OSDs, and `ceph-fuse` as its client.

use super::Place;
use super::process::Daemon;
use crate::load::runner::chore;
use crate::sys;
use anyhow::{Context, Result, ensure};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const CHORE: Duration = Duration::from_secs(60);
const READY: Duration = Duration::from_secs(90);

/// What the file system says that it has room for, bytes.
const SPACE: u64 = 1 << 40;

pub struct CephFs {
    mds: Daemon,
    client: Daemon,
    mnt: PathBuf,
}

/// Why there can be none with the programs of a release, if there can't.
pub fn lacks(root: &Path) -> Option<String> {
    match () {
        () if !sys::is_root() => Some("needs root, for mounts".into()),
        () if !root.join("usr/bin/ceph-mds").exists() => Some("needs package ceph-mds (humboldt lab setup STUDY)".into()),
        () if !Path::new("/usr/bin/ceph-fuse").exists() => Some("needs package ceph-fuse (humboldt lab setup STUDY)".into()),
        () => None,
    }
}

impl CephFs {
    /// Makes a file system of two pools and mounts it at `dir`/mnt. `servers` is where the metadata server's program is; the client's is the
    /// machine's own.
    pub fn start(clients: &Place, servers: &Place, auth: &str, copies: u32, dir: &Path) -> Result<Self> {
        let ceph = |args: &[&str]| chore(clients.command("ceph").args(args), CHORE);
        let (home, mnt) = (dir.join("mds.a"), dir.join("mnt"));
        std::fs::create_dir_all(&home)?;
        std::fs::create_dir_all(&mnt)?;
        for pool in ["cephfs-meta", "cephfs-data"] {
            ceph(&["osd", "pool", "create", pool, "16", "16"])?;
            ceph(&["osd", "pool", "set", pool, "size", &copies.to_string(), "--yes-i-really-mean-it"])?;
        }
        ceph(&["fs", "new", "lab", "cephfs-meta", "cephfs-data"])?;
        let keyring = home.join("keyring");
        if auth == "cephx" {
            let caps = ["mon", "allow profile mds", "osd", "allow rwx", "mds", "allow *"];
            ceph(&[&["auth", "get-or-create", "mds.a"][..], &caps, &["-o", &keyring.display().to_string()]].concat())?;
        }
        let mut cmd = servers.command("ceph-mds");
        let d = home.display();
        cmd.args(["-f", "-i", "a", "--keyring", &keyring.display().to_string(), "--mds-data", &home.display().to_string()]);
        cmd.args([format!("--log-file={d}/log"), format!("--run-dir={d}"), format!("--admin-socket={d}/asok"), format!("--crash-dir={d}")]);
        let mut mds = Daemon::start(&mut cmd, &dir.join("mds.out"))?;
        let active = || ceph(&["mds", "stat"]).is_ok_and(|out| out.contains("up:active"));
        mds.wait(READY, active).context("the metadata server")?;
        let above = std::fs::metadata(&mnt)?.dev();
        let mut cmd = Command::new("ceph-fuse");
        cmd.arg("-f").arg("-c").arg(clients.conf.as_ref().context("a cluster has one")?).args(["--name", "client.admin"]).arg(&mnt);
        cmd.args([format!("--log-file={d}/fuse.log"), format!("--admin-socket={d}/fuse.asok")]);
        let mut client = Daemon::start(&mut cmd, &dir.join("ceph-fuse.out"))?;
        client.wait(READY, || std::fs::metadata(&mnt).is_ok_and(|m| m.dev() != above)).context("ceph-fuse")?;
        // Without a manager a stock cluster tells no free space, and fs_mark writes nothing where there is none: a quota's rest is told instead.
        sys::set_xattr(&mnt, "ceph.quota.max_bytes", &SPACE.to_string()).context("a quota for the file system")?;
        ensure!(mds.alive(), "the metadata server ended: {}", mds.said());
        Ok(Self { mds, client, mnt })
    }
    pub fn dir(&self) -> &Path {
        &self.mnt
    }
    pub fn server(&self) -> u32 {
        self.mds.pid()
    }
    pub fn client(&self) -> u32 {
        self.client.pid()
    }
    pub fn alive(&mut self) -> bool {
        self.mds.alive() && self.client.alive()
    }
}

impl Drop for CephFs {
    fn drop(&mut self) {
        sys::unmount(&self.mnt);
        self.client.stop();
        self.mds.stop();
    }
}
