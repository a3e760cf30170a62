//! `humboldt up --processes`: the same daemons, each a process of its own, kept by this one.

use crate::args::Up;
use crate::folder::Folder;
use crate::{regroup, signals, stores, up};
use anyhow::{Context, Result, bail};
use osd::StoreConfig;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// A daemon that ends when this process does in order; its first line says that it serves.
struct Daemon {
    name: String,
    child: Child,
    line: String,
}

impl Daemon {
    fn start(name: String, cmd: &mut Command) -> Result<Self> {
        let mut child = cmd.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().with_context(|| format!("starting {name}"))?;
        let mut lines = BufReader::new(child.stdout.take().context("its output is piped")?);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        if line.is_empty() {
            let status = child.wait()?;
            bail!("{name} ended with {status} before it served");
        }
        Ok(Self { name, child, line })
    }
    fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
    /// SIGTERM, so that it ends in order.
    fn ask_to_end(&self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn up(args: &Up, folder: &Folder, started: Instant) -> Result<()> {
    let is_new = !folder.dir.join("mon.redb").exists();
    let program = std::env::current_exe().context("this program's own path")?;
    let auth = args.auth.mode().name();
    let osd_count = stores::osd_count(args, &folder.dir);
    let (port, osds, listen) = (args.port.to_string(), osd_count.to_string(), args.listen.to_string());
    let mut cmd = Command::new(&program);
    cmd.arg("mon").arg("--dir").arg(&folder.dir).args([
        "--auth",
        auth,
        "--key-type",
        args.key_type.name(),
        "--listen",
        &listen,
        "--port",
        &port,
        "--osds",
        &osds,
    ]);
    let mon = Daemon::start("the monitor".into(), &mut cmd)?;
    let addr = mon.line.rsplit(' ').next().unwrap_or_default().trim().parse().context("the monitor says where it serves")?;
    let conf_path = folder.dir.join("ceph.conf");
    let conf =
        objecter::conf::Conf::parse(&std::fs::read_to_string(&conf_path)?, types::EntityText::new(types::EntityKind::CLIENT, "admin"))?;
    let fsid = conf.get("fsid").and_then(|f| types::Uuid::parse(&f)).context("the monitor's ceph.conf has an fsid")?;
    let stores = stores::find_or_make(args, osd_count, &folder.dir, fsid)?;
    let kept = stores.iter().all(|s| s.config.is_durable());
    let mut daemons = Vec::new();
    for (id, store) in (0..osd_count).zip(stores) {
        let mut cmd = Command::new(&program);
        cmd.arg("osd").arg("--conf").arg(folder.dir.join("ceph.conf")).args(["--id", &id.to_string(), "--listen", &listen]);
        if let Some(made) = &store.made {
            let keyring = folder.dir.join(format!("osd.{id}.keyring"));
            cmd.arg("--register").arg("--osd-data").arg(&made.path).arg("--keyring").arg(keyring);
        }
        let memory = match store.config {
            StoreConfig::Mem { capacity } => capacity,
            StoreConfig::Block { memory, .. } => memory,
        };
        cmd.args(["--memory", &memory.to_string(), "--spin-us", &args.spin_us.to_string()]);
        if args.null {
            cmd.arg("--null");
        }
        daemons.push(Daemon::start(format!("osd.{id}"), &mut cmd)?);
    }
    daemons.push(mon);
    if !is_new && !kept {
        regroup::start_empty(&folder.dir.join("ceph.conf"))?;
    }
    up::announce(started.elapsed(), &folder.dir, addr, args, osd_count, kept);
    let mut failed = None;
    let asked = signals::wait(|| {
        failed = daemons.iter_mut().find_map(|d| d.ended().then(|| d.name.clone()));
        failed.is_some()
    })?;
    // OSDs first, while there is a monitor to tell; it stands last.
    let count = daemons.len();
    for part in [0..count - 1, count - 1..count] {
        daemons[part.clone()].iter().for_each(Daemon::ask_to_end);
        for daemon in &mut daemons[part] {
            let end = Instant::now() + std::time::Duration::from_secs(8);
            while !daemon.ended() && Instant::now() < end {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }
    match failed {
        Some(name) if !asked => bail!("{name} ended; everything else was stopped"),
        _ => Ok(()),
    }
}
