//! `humboldt up --processes`: the same daemons, each a process of its own, kept by this one.

use crate::args::Up;
use crate::folder::{Folder, half_of_memory};
use crate::{regroup, signals, up};
use anyhow::{Context, Result, bail};
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
    let (port, osds, listen) = (args.port.to_string(), args.osds.to_string(), args.listen.to_string());
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
    let memory = (args.memory.unwrap_or_else(half_of_memory) / u64::from(args.osds)).to_string();
    let mut daemons = Vec::new();
    for id in 0..args.osds {
        let mut cmd = Command::new(&program);
        cmd.arg("osd").arg("--conf").arg(folder.dir.join("ceph.conf")).args(["--id", &id.to_string(), "--listen", &listen]);
        cmd.args(["--memory", &memory, "--spin-us", &args.spin_us.to_string()]);
        if args.null {
            cmd.arg("--null");
        }
        daemons.push(Daemon::start(format!("osd.{id}"), &mut cmd)?);
    }
    daemons.push(mon);
    if !is_new {
        regroup::start_empty(&folder.dir.join("ceph.conf"))?;
    }
    up::announce(started.elapsed(), &folder.dir, addr, args);
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
