//! Stock ceph-mds beside a cluster under test, and file systems mounted by ceph-fuse.
//!
//! Knows the cluster by its ceph.conf, in whose folder keyrings, logs and mounts lie.

use crate::clients::{self, Release, Release::Reef};
use crate::run::{ended, run, until, words};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A first start makes the journal and the root; a takeover waits for `mds_beacon_grace`, 15 s.
const READY: Duration = Duration::from_secs(120);
const COMMAND: Duration = Duration::from_secs(120);
/// A client's leave of its servers, after which it is killed.
const LEAVE: Duration = Duration::from_secs(30);

/// A ceph-mds that ends with this value.
pub struct Server {
    child: Child,
    release: Release,
    pub conf: PathBuf,
    pub name: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Gives a server of 18.2 of that name its key, and starts it.
    pub fn start(conf: &Path, name: &str) -> Result<Self> {
        Self::start_of(Reef, conf, name)
    }
    pub fn start_of(release: Release, conf: &Path, name: &str) -> Result<Self> {
        let keyring = conf.with_file_name(format!("ceph.mds.{name}.keyring"));
        let caps = "mon 'allow profile mds' osd 'allow rwx' mds 'allow *' mgr 'allow profile mds'";
        client_of(release, conf, &format!("ceph auth get-or-create mds.{name} {caps} -o {}", keyring.display()))?;
        let path = log(conf, name);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&path)?;
        let mut cmd = release.command(conf, "ceph-mds");
        cmd.args(["-f", "-i", name, "--keyring"]).arg(keyring);
        // The default paths are for all clusters of this machine, and a server without its socket answers no command.
        cmd.arg(format!("--admin-socket={}", conf.with_file_name(format!("mds.{name}.asok")).display()));
        cmd.arg(format!("--log-file={}", path.display()));
        let child = cmd.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        Ok(Self { child, release, conf: conf.to_path_buf(), name: name.into() })
    }
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
    /// Waits until it serves rank 0.
    pub fn await_active(&self) -> Result<()> {
        let mut last = Value::Null;
        let serves = until(READY, || {
            last = map(self.release, &self.conf).unwrap_or_default();
            let infos = last["filesystems"][0]["mdsmap"]["info"].as_object().cloned().unwrap_or_default();
            infos.values().any(|i| i["name"] == self.name.as_str() && i["state"] == "up:active")
        });
        let text = std::fs::read_to_string(log(&self.conf, &self.name)).unwrap_or_default();
        let end: Vec<&str> = text.lines().rev().take(10).collect();
        ensure!(serves, "mds.{} is not active: {last}\n{}", self.name, end.join("\n"));
        Ok(())
    }
    /// Waits until it stands by.
    pub fn await_standby(&self) -> Result<()> {
        let mut last = Value::Null;
        let stands_by = until(READY, || {
            last = map(self.release, &self.conf).unwrap_or_default();
            last["standbys"].as_array().is_some_and(|all| all.iter().any(|s| s["name"] == self.name.as_str()))
        });
        ensure!(stands_by, "mds.{} does not stand by: {last}", self.name);
        Ok(())
    }
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

fn log(conf: &Path, name: &str) -> PathBuf {
    conf.with_file_name(format!("mds.{name}.log"))
}

/// The map of file systems, by a client of that release.
fn map(release: Release, conf: &Path) -> Result<Value> {
    serde_json::from_str(&client_of(release, conf, "ceph fs dump -f json")?).context("fs dump")
}

/// A command line of a client of 18.2 that must succeed; its standard output.
pub fn client(conf: &Path, line: &str) -> Result<String> {
    client_of(Reef, conf, line)
}
/// The same of that release: one of 18.2 reads no key of a cluster that 20.2 made.
fn client_of(release: Release, conf: &Path, line: &str) -> Result<String> {
    let words = words(line);
    let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let out = run(release.command(conf, &words[0]).args(args), COMMAND)?;
    ensure!(out.ok(), "`{line}` ended with {}:\n{}{}", out.code, out.stdout, out.stderr);
    Ok(out.stdout)
}

/// Makes a file system `cephfs` on pools of its own and a server of 18.2 for it. Plain users may make files at its root.
pub fn serve(conf: &Path) -> Result<Server> {
    serve_by(Reef, conf)
}

/// The same with a server of that release.
pub fn serve_by(release: Release, conf: &Path) -> Result<Server> {
    let server = serve_on(release, conf, [16, 32])?;
    open_to_all(release, conf)?;
    Ok(server)
}

/// The same on pools of so many groups, for metadata and data; only root may make files at its root.
pub fn serve_on(release: Release, conf: &Path, [metadata, data]: [u32; 2]) -> Result<Server> {
    clients::mds(release)?;
    for line in [
        format!("osd pool create cephfs_metadata {metadata}"),
        format!("osd pool create cephfs_data {data}"),
        "fs new cephfs cephfs_metadata cephfs_data".into(),
    ] {
        client_of(release, conf, &format!("ceph {line}"))?;
    }
    let server = Server::start_of(release, conf, "a")?;
    server.await_active()?;
    Ok(server)
}

/// Lets plain users use the cluster's folder, the administrator's key and the root of its file system.
fn open_to_all(release: Release, conf: &Path) -> Result<()> {
    let dir = conf.parent().context("ceph.conf is in the cluster's folder")?;
    let mut keys = vec![];
    for entry in std::fs::read_dir(dir)? {
        keys.extend(Some(entry?.path()).filter(|path| path.ends_with("keyring") || path.extension().is_some_and(|e| e == "keyring")));
    }
    // Those that clients write to, where a cluster has them.
    let folders = [dir.to_path_buf(), dir.join("run"), dir.join("log")].into_iter().filter(|path| path.is_dir());
    let ok = Command::new("chmod").args(["a+rX", "--"]).args(keys).status()?.success();
    ensure!(ok && Command::new("chmod").arg("1777").args(folders).status()?.success(), "chmod in {}", dir.display());
    let script = "import cephfs, sys\nfs = cephfs.LibCephFS(conffile=sys.argv[1], auth_id='admin')\nfs.mount()\nfs.chmod('/', 0o1777)\nfs.unmount()\nfs.shutdown()\n";
    let out = run(release.command(conf, "python3").args(["-c", script]).arg(conf), COMMAND)?;
    ensure!(out.ok(), "chmod of the file system's root: {}{}", out.stdout, out.stderr);
    Ok(())
}

/// A mount by ceph-fuse; both end with this value, while servers are there to take the client's leave.
///
/// The program is a child of this one: one that goes to the background leaves the group of processes that a broken-off run is killed by, says that the mount
/// is gone before it has taken leave, and then dials servers that have ended for ever.
pub struct Mount {
    client: Child,
    /// As programs of 18.2 see it.
    pub inside: PathBuf,
    /// As those of this machine do.
    pub outside: PathBuf,
}

impl Mount {
    pub fn new(conf: &Path) -> Result<Self> {
        let inside = conf.with_file_name("mnt");
        std::fs::create_dir_all(&inside)?;
        // As the list of mounts names it, whatever leads there.
        let root = Reef.chroot().expect("18.2 lives in a chroot").canonicalize()?;
        let outside = root.join(inside.strip_prefix("/").expect("an absolute path"));
        let log = conf.with_file_name("ceph-fuse.log");
        let out = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
        let mut cmd = Reef.command(conf, "ceph-fuse");
        cmd.args(["-f", "-n", "client.admin"])
            .arg(format!("--log-file={}", log.display()))
            .arg(&inside)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out);
        // From here on whatever fails ends it.
        let mut mount = Self { client: cmd.spawn()?, inside, outside };
        let mounted = until(COMMAND, || mount.is_mounted() || ended(&mut mount.client)) && mount.is_mounted();
        // A look from outside has a time limit: it waits for an answer of the client.
        let serves = mounted && run(Command::new("stat").arg(&mount.outside), COMMAND)?.ok();
        ensure!(serves, "ceph-fuse mounts nothing: {}", std::fs::read_to_string(&log).unwrap_or_default());
        Ok(mount)
    }
    fn is_mounted(&self) -> bool {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        mounts.lines().any(|line| line.split(' ').nth(1).is_some_and(|at| Path::new(at) == self.outside))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let umount = |how: &[&str]| run(Command::new("umount").args(how).arg(&self.outside), COMMAND).is_ok_and(|out| out.ok());
        // With files open nothing is unmounted in order.
        if !(umount(&[]) && until(LEAVE, || ended(&mut self.client))) {
            let _ = self.client.kill();
            let _ = self.client.wait();
        }
        while self.is_mounted() && umount(&["-f", "-l"]) {}
    }
}
