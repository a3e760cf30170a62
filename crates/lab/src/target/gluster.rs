//! GlusterFS of one or three bricks in namespaces of its own: its command refuses 127.0.0.1, and its daemons part from the process that
//! started them.
//!
//! ```text
//!   lab ── unshare (network, processes) ── keeper, process 1 of the namespace: with it all of them end
//!     ├─ nsenter ── glusterd ── bricks (daemons, children of the keeper)         servers
//!     └─ nsenter (network only) ── glusterfs ── FUSE mount in the lab's mounts   the client's side
//! ```

use super::device::Backing;
use super::process::Daemon;
use super::{Counted, Place, Target};
use crate::load::runner::chore;
use crate::plan::Setup;
use crate::sample::{self, tree};
use crate::study::file::Device;
use crate::sys;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const COMMAND: Duration = Duration::from_secs(60);
const READY: Duration = Duration::from_secs(30);
/// The servers', in their namespace.
pub const ADDRESS: &str = "10.36.0.1";
/// The volume's name.
pub const VOLUME: &str = "lab";
/// A brick's file system where no device is named: a sparse file.
const BRICK_BYTES: u64 = 4 << 30;

/// Why there can be none here, if there can't.
pub fn lacks() -> Option<String> {
    let has = |program: &str| ["/usr/sbin", "/usr/bin", "/sbin"].iter().any(|d| Path::new(d).join(program).exists());
    match () {
        () if !sys::is_root() => Some("needs root, for namespaces and mounts".into()),
        () if !has("glusterd") || !has("glusterfs") => Some("needs package glusterfs-server (humboldt lab setup STUDY)".into()),
        () if !has("ip") => Some("needs package iproute2 (humboldt lab setup STUDY)".into()),
        () => None,
    }
}

pub struct Gluster {
    setup: Setup,
    dir: PathBuf,
    bricks: Vec<Backing>,
    keeper: Option<Daemon>,
    glusterd: Option<Daemon>,
    client: Option<Daemon>,
}

impl Gluster {
    pub fn new(setup: &Setup, devices: &[Device], dir: &Path) -> Result<Self> {
        ensure!(setup.data.is_none() || setup.replicas == 1, "bricks don't share a device: leave data out where replicas is more than 1");
        let mut bricks = Vec::new();
        for n in 0..setup.replicas {
            bricks.push(match &setup.data {
                Some(name) => Backing::new(name, devices, dir)?,
                None => Backing::plain(&format!("brick{n}"), BRICK_BYTES, dir)?,
            });
        }
        Ok(Self { setup: setup.clone(), dir: dir.into(), bricks, keeper: None, glusterd: None, client: None })
    }
    /// The keeper of the namespaces: the process that `unshare` started.
    fn kept(&self) -> Result<u32> {
        let unshare = self.keeper.as_ref().context("it does not run")?.pid();
        tree(&[unshare]).into_iter().find(|pid| *pid != unshare).context("the namespaces have no keeper")
    }
    fn within(&self, whole: bool) -> Result<Command> {
        let kept = self.kept()?;
        let mut cmd = Command::new("nsenter");
        cmd.arg(format!("--net=/proc/{kept}/ns/net"));
        if whole {
            cmd.arg(format!("--pid=/proc/{kept}/ns/pid")).arg(format!("--mount=/proc/{kept}/ns/mnt"));
        }
        Ok(cmd)
    }
    fn gluster(&self, args: &[&str]) -> Result<String> {
        let mut cmd = self.within(true)?;
        cmd.arg("gluster").arg(format!("--glusterd-sock={}", self.dir.join("run/gd.sock").display())).arg("--mode=script").args(args);
        chore(&mut cmd, COMMAND)
    }
    fn volfile(&self) -> Result<PathBuf> {
        let d = self.dir.display();
        let path = self.dir.join("glusterd.vol");
        let options = [
            format!("working-directory {d}/work"),
            "transport-type socket".into(),
            format!("transport.socket.bind-address {ADDRESS}"),
            "transport.address-family inet".into(),
            format!("run-directory {d}/run"),
            format!("glusterd-sockfile {d}/run/gd.sock"),
        ];
        let options: String = options.iter().map(|o| format!("    option {o}\n")).collect();
        std::fs::write(&path, format!("volume management\n    type mgmt/glusterd\n{options}end-volume\n"))?;
        Ok(path)
    }
    fn start_servers(&mut self) -> Result<()> {
        let dirs = self.bricks.iter_mut().enumerate().map(|(n, brick)| {
            let dir = self.dir.join(format!("brick{n}"));
            brick.mount("xfs", &dir)?;
            std::fs::create_dir_all(dir.join("b"))?;
            Ok(format!("{ADDRESS}:{}/b", dir.display()))
        });
        let bricks: Vec<String> = dirs.collect::<Result<_>>()?;
        for sub in ["work", "run", "log"] {
            std::fs::create_dir_all(self.dir.join(sub))?;
        }
        let mut cmd = Command::new("unshare");
        cmd.args(["--net", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child=SIGKILL", "sh", "-c"]);
        // Its logs and sockets have fixed places, which are the machine's: here they are ours.
        let (d, log) = (self.dir.display(), self.dir.join("log").display().to_string());
        cmd.arg(format!(
            "ip link set lo up && ip addr add {ADDRESS}/32 dev lo && mkdir -p /var/run/gluster /var/log/glusterfs && \
             mount --bind {d}/run /var/run/gluster && mount --bind {log} /var/log/glusterfs && touch {d}/kept && exec sleep infinity"
        ));
        let kept = self.dir.join("kept");
        let mut keeper = Daemon::start(&mut cmd, &self.dir.join("log/keeper"))?;
        keeper.wait(READY, || kept.exists()).context("the namespaces")?;
        self.keeper = Some(keeper);
        let volfile = self.volfile()?;
        let mut cmd = self.within(true)?;
        cmd.args(["glusterd", "-N", "-f"])
            .arg(volfile)
            .arg("-p")
            .arg(self.dir.join("run/glusterd.pid"))
            .arg("-l")
            .arg(self.dir.join("log/glusterd"));
        let mut glusterd = Daemon::start(&mut cmd, &self.dir.join("log/glusterd.out"))?;
        glusterd.wait(READY, || self.gluster(&["peer", "status"]).is_ok()).context("glusterd")?;
        self.glusterd = Some(glusterd);
        let copies = self.setup.replicas.to_string();
        let mut create = vec!["volume", "create", VOLUME];
        if self.setup.replicas > 1 {
            create.extend(["replica", &copies]);
        }
        create.extend(bricks.iter().map(String::as_str));
        create.push("force");
        self.gluster(&create)?;
        // On, it acknowledges what no brick has yet; off, unless the study says otherwise, since no other target here does that.
        let behind = self.setup.conf.get("performance.write-behind").map_or("off".to_string(), ToString::to_string);
        self.gluster(&["volume", "set", VOLUME, "performance.write-behind", &behind])?;
        for (key, value) in self.setup.conf.iter().filter(|(k, _)| *k != "performance.write-behind") {
            self.gluster(&["volume", "set", VOLUME, key, &value.to_string()])?;
        }
        self.gluster(&["volume", "start", VOLUME]).map(drop)
    }
    fn start_client(&mut self) -> Result<()> {
        let mnt = self.dir.join("mnt");
        std::fs::create_dir_all(&mnt)?;
        let above = std::fs::metadata(&mnt)?.dev();
        let mut cmd = self.within(false)?;
        cmd.args(["glusterfs", "-N", &format!("--volfile-server={ADDRESS}"), &format!("--volfile-id={VOLUME}")]);
        cmd.arg("--log-file").arg(self.dir.join("log/client")).arg(&mnt);
        let mut client = Daemon::start(&mut cmd, &self.dir.join("log/client.out"))?;
        client.wait(READY, || std::fs::metadata(&mnt).is_ok_and(|m| m.dev() != above)).context("the FUSE mount")?;
        self.client = Some(client);
        Ok(())
    }
    /// Every process of the servers; those that parted from glusterd are the keeper's.
    fn processes(&self) -> Vec<u32> {
        self.keeper.iter().chain(&self.glusterd).map(Daemon::pid).collect()
    }
}

impl Target for Gluster {
    fn start(&mut self) -> Result<()> {
        if self.alive() {
            return Ok(());
        }
        self.stop();
        let _ = std::fs::remove_dir_all(&self.dir);
        std::fs::create_dir_all(self.dir.join("log"))?;
        self.start_servers().and_then(|()| self.start_client()).with_context(|| format!("starting {}", self.setup.show()))
    }
    fn stop(&mut self) {
        sys::unmount(&self.dir.join("mnt"));
        for mut daemon in [self.client.take(), self.glusterd.take()].into_iter().flatten() {
            daemon.stop();
        }
        // With the keeper every process of its namespace ends.
        if let Some(mut keeper) = self.keeper.take() {
            keeper.kill();
        }
        self.bricks.iter_mut().for_each(Backing::release);
    }
    fn remove(&mut self) {
        self.stop();
        self.bricks.iter_mut().for_each(Backing::remove);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
    fn alive(&mut self) -> bool {
        [&mut self.keeper, &mut self.glusterd, &mut self.client].into_iter().all(|d| d.as_mut().is_some_and(Daemon::alive))
    }
    fn home(&self) -> Option<PathBuf> {
        Some(self.dir.clone())
    }
    fn place(&self) -> Place {
        let dir = self.dir.join("mnt");
        Place { file: dir.join("data"), dir: Some(dir), net: self.kept().ok(), ..Place::default() }
    }
    fn servers(&self) -> Vec<u32> {
        self.processes()
    }
    fn helpers(&self) -> Vec<u32> {
        self.client.iter().map(Daemon::pid).collect()
    }
    fn devices(&self) -> Vec<PathBuf> {
        self.bricks.iter().filter_map(Backing::stat).collect()
    }
    /// What the kernel counts of the servers' reads and writes, files and sockets alike: more than clients sent, never less.
    fn counted(&mut self) -> Result<Option<Counted>> {
        ensure!(self.alive(), "it does not run");
        let pids = tree(&self.processes());
        let sum = |name: &str| pids.iter().filter_map(|pid| sample::io_field(*pid, name)).sum::<u64>();
        Ok(Some(Counted { ops: sum("syscw"), bytes_in: sum("wchar"), bytes_out: sum("rchar") }))
    }
    fn durable(&self) -> bool {
        true
    }
    fn describe(&self) -> Value {
        let version = chore(Command::new("glusterfs").arg("--version"), COMMAND).unwrap_or_default();
        let bricks: Vec<Value> = self.bricks.iter().map(|b| b.describe("brick")).collect();
        json!({ "program": "glusterfs", "version": version.lines().next(), "conf": self.setup.conf, "devices": bricks })
    }
}
