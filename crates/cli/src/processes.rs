//! `humboldt up --processes`: the same daemons, each a process of its own, kept by this one.

use crate::again::Again;
use crate::args::Up;
use crate::folder::Folder;
use crate::{kept, regroup, signals, stores, up};
use anyhow::{Context, Result, bail};
use osd::StoreConfig;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A daemon that ends when this process does in order; its first line says that it serves.
struct Daemon {
    name: String,
    cmd: Command,
    child: Child,
    line: String,
    /// What it says behind its first line, until that is passed on.
    more: Option<BufReader<ChildStdout>>,
    again: Again,
}

/// Starts a process, and waits for its first line.
fn spawn(name: &str, cmd: &mut Command) -> Result<(Child, String, BufReader<ChildStdout>)> {
    let mut child = cmd.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().with_context(|| format!("starting {name}"))?;
    let mut lines = BufReader::new(child.stdout.take().context("its output is piped")?);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    if line.is_empty() {
        let status = child.wait()?;
        bail!("{name} ended with {status} before it served");
    }
    Ok((child, line, lines))
}

impl Daemon {
    fn start(name: String, mut cmd: Command, now: Duration) -> Result<Self> {
        kept::keep(&mut cmd);
        let (child, line, more) = spawn(&name, &mut cmd)?;
        Ok(Self { name, cmd, child, line, more: Some(more), again: Again::started(now) })
    }
    /// Passes on what it says further, as long as something reads us.
    fn pass_on(&mut self) {
        if let Some(more) = self.more.take() {
            std::thread::spawn(move || more.lines().map_while(Result::ok).try_for_each(|line| writeln!(std::io::stdout(), "{line}")));
        }
    }
    fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
    /// Says when it has ended, and starts it when its pause is over.
    fn keep(&mut self, now: Duration) -> Result<()> {
        if let Again::Pauses { .. } = self.again {
            if self.again.is_due(now) {
                // It may wait for the map to show it; others are looked after meanwhile.
                self.child =
                    self.cmd.stdin(Stdio::null()).stdout(Stdio::null()).spawn().with_context(|| format!("starting {}", self.name))?;
            }
        } else if self.ended() {
            let status = self.child.wait()?;
            say::eprintln!("{} ended with {status}; it is started again in {} s", self.name, self.again.ended(now).as_secs());
        }
        Ok(())
    }
    /// SIGTERM, so that it ends in order.
    fn ask_to_end(&mut self) {
        // The number of one that has ended may be another process's by now.
        if !self.ended() {
            let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn monitor_command(program: &Path, args: &Up, folder: &Folder, osds: u32) -> Command {
    let mut cmd = Command::new(program);
    cmd.arg("mon").arg("--dir").arg(&folder.dir);
    cmd.args(["--auth", args.auth.mode().name(), "--key-type", args.key_type.name(), "--listen", &args.listen.to_string()]);
    cmd.args(["--port", &args.port.to_string(), "--osds", &osds.to_string()]);
    cmd.args(args.web.words());
    if let Some(token) = &args.web.http_token {
        cmd.env("HUMBOLDT_HTTP_TOKEN", token);
    }
    cmd
}

fn osd_command(program: &Path, args: &Up, folder: &Folder, id: u32, store: &stores::OsdStore) -> Command {
    let mut cmd = Command::new(program);
    cmd.arg("osd").arg("--conf").arg(folder.dir.join("ceph.conf")).args(["--id", &id.to_string(), "--listen", &args.listen.to_string()]);
    if let Some(made) = &store.made {
        let keyring = folder.dir.join(format!("osd.{id}.keyring"));
        cmd.arg("--register").arg("--osd-data").arg(&made.path).arg("--keyring").arg(keyring);
    } else {
        cmd.args(["--store", "mem"]);
    }
    let memory = match store.config {
        StoreConfig::Mem { capacity } => capacity,
        StoreConfig::Block { memory, .. } => memory,
    };
    cmd.args(["--memory", &memory.to_string(), "--spin-us", &args.spin_us.to_string()]);
    if args.null {
        cmd.arg("--null");
    }
    cmd
}

/// Asks all to end and waits: OSDs first, while there is a monitor to tell; it stands last.
fn end_all(daemons: &mut [Daemon]) {
    let count = daemons.len();
    for part in [0..count - 1, count - 1..count] {
        daemons[part.clone()].iter_mut().for_each(Daemon::ask_to_end);
        for daemon in &mut daemons[part] {
            let end = Instant::now() + Duration::from_secs(8);
            while !daemon.ended() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

pub fn up(args: &Up, folder: &Folder, started: Instant) -> Result<()> {
    let is_new = !folder.dir.join("mon.redb").exists();
    let program = std::env::current_exe().context("this program's own path")?;
    let osd_count = stores::osd_count(args, &folder.dir);
    let cmd = monitor_command(&program, args, folder, osd_count);
    let mut mon = Daemon::start("the monitor".into(), cmd, started.elapsed())?;
    let addr = mon.line.rsplit(' ').next().unwrap_or_default().trim().parse().context("the monitor says where it serves")?;
    let conf_path = folder.dir.join("ceph.conf");
    let conf =
        objecter::conf::Conf::parse(&std::fs::read_to_string(&conf_path)?, types::EntityText::new(types::EntityKind::CLIENT, "admin"))?;
    let fsid = conf.get("fsid").and_then(|f| types::Uuid::parse(&f)).context("the monitor's ceph.conf has an fsid")?;
    let stores = stores::find_or_make(args, osd_count, &folder.dir, fsid)?;
    let kept = stores.iter().all(|s| s.config.is_durable());
    let mut daemons = Vec::new();
    for (id, store) in (0..osd_count).zip(stores) {
        let cmd = osd_command(&program, args, folder, id, &store);
        daemons.push(Daemon::start(format!("osd.{id}"), cmd, started.elapsed())?);
    }
    if !is_new && !kept {
        regroup::start_empty(&folder.dir.join("ceph.conf"))?;
    }
    up::announce(started.elapsed(), &folder.dir, addr, args, osd_count, kept);
    // Our own line comes first.
    mon.pass_on();
    daemons.iter_mut().for_each(Daemon::pass_on);
    // Where others serve on, one that ends is started again. Objects in memory ended with it: copies on others fill it anew, and groups
    // without one wait, as `ceph -s` shows.
    let goes_on = osd_count > 1;
    let mut failed = None;
    let asked = signals::wait(|| {
        for osd in &mut daemons {
            if !goes_on && osd.ended() {
                failed = Some(osd.name.clone());
            } else if let Err(e) = osd.keep(started.elapsed()) {
                say::eprintln!("{e:#}");
            }
        }
        if mon.ended() {
            failed = Some(mon.name.clone());
        }
        failed.is_some()
    })?;
    daemons.push(mon);
    end_all(&mut daemons);
    match failed {
        Some(name) if !asked => bail!("{name} ended; everything else was stopped"),
        _ => Ok(()),
    }
}
