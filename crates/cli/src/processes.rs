//! `humboldt up --processes`: the same daemons, each a process of its own, kept by this one.

use crate::again::Cause;
use crate::args::Up;
use crate::folder::Folder;
use crate::keeper::{Daemon, Ended, Form};
use crate::osd_daemon::{STORE_DAMAGED, STORE_FAILED};
use crate::ready::Health;
use crate::spread::Spread;
use crate::stores::OsdStore;
use crate::{kept, services, signals, stores, up};
use anyhow::{Context, Result, anyhow, bail};
use osd::{HANGS, Stands, StoreConfig};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use types::OsdId;

/// How long the monitor may take to serve, and to end in order.
const START_PATIENCE: Duration = Duration::from_secs(60);
const END_PATIENCE: Duration = Duration::from_secs(8);
/// How long the kernel may take to end a process that was killed.
const KILL_PATIENCE: Duration = Duration::from_secs(2);
/// How long the last words of one that ended may take to come through its pipe: a child of its own may hold that open.
const WORDS_PATIENCE: Duration = Duration::from_secs(2);

/// A daemon that ends when this process does in order; its first line says that it serves.
struct Process {
    child: Child,
    /// Its first line.
    line: Receiver<String>,
    serves: bool,
    /// While it is there, what it says behind its first line waits.
    holds_back: Option<mpsc::Sender<()>>,
    /// What it said last on standard error.
    last_words: Arc<Mutex<Words>>,
    /// Disconnected once all that it said on standard error was passed on.
    heard_out: Receiver<()>,
}

/// What is kept of a daemon's standard error.
#[derive(Default)]
struct Words {
    last: String,
    /// The line that says that its disk hangs, until it is told.
    hangs: Option<String>,
}

impl Process {
    fn start(name: &str, mut cmd: Command) -> Result<Self> {
        kept::keep(&mut cmd);
        let cmd = cmd.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = cmd.spawn().with_context(|| format!("starting {name}"))?;
        let (first, line) = mpsc::channel();
        let (holds_back, go_on) = mpsc::channel();
        let (out, err) = (child.stdout.take().context("its output is piped")?, child.stderr.take().context("its errors are piped")?);
        let last_words = Arc::new(Mutex::new(Words::default()));
        let kept = last_words.clone();
        std::thread::spawn(move || pass_on(out, &first, &go_on));
        let (still_says, heard_out) = mpsc::channel();
        std::thread::spawn(move || {
            pass_on_errors(err, &kept);
            drop(still_says);
        });
        Ok(Self { child, line, serves: false, holds_back: Some(holds_back), last_words, heard_out })
    }
    /// How it ended, if it has.
    fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
    /// For one that has ended: its end is seen before the thread beside us has read its last line.
    fn last_words(&self) -> String {
        let _ = self.heard_out.recv_timeout(WORDS_PATIENCE);
        self.last_words.lock().unwrap_or_else(|e| e.into_inner()).last.clone()
    }
}

/// Passes on what it says behind its first line, as long as something reads us.
fn pass_on(out: ChildStdout, first: &mpsc::Sender<String>, go_on: &Receiver<()>) {
    let mut lines = BufReader::new(out).lines().map_while(Result::ok);
    // Nothing is passed on of one that ended without a word: who waits for its first line hears that at once, since this thread is over.
    let Some(line) = lines.next() else { return };
    // Nothing waits for it the second time.
    let _ = first.send(line);
    // It ends when the other side lets go.
    let _ = go_on.recv();
    let _ = lines.try_for_each(|line| writeln!(std::io::stdout(), "{line}"));
}

/// Passes on its errors, and keeps the last one: why it ended.
fn pass_on_errors(err: ChildStderr, kept: &Mutex<Words>) {
    for line in BufReader::new(err).lines().map_while(Result::ok) {
        say::eprintln!("{line}");
        let mut kept = kept.lock().unwrap_or_else(|e| e.into_inner());
        if line.ends_with(HANGS) {
            // Whose it is stands in front of it in any case.
            kept.hangs = Some(line.split_once(": ").map_or(&*line, |(_, text)| text).to_string());
        }
        kept.last = line;
    }
}

impl Daemon for Process {
    fn is_up(&mut self) -> bool {
        self.serves = self.serves || self.line.try_recv().is_ok();
        self.serves
    }
    fn ended(&mut self) -> Option<Ended> {
        let status = self.status()?;
        let cause = match (status.code(), status.signal()) {
            (_, Some(libc::SIGKILL)) => Cause::Killed,
            (Some(code), _) if code == i32::from(STORE_FAILED) => Cause::Disk,
            (Some(code), _) if code == i32::from(STORE_DAMAGED) => Cause::Damage,
            _ => Cause::Itself,
        };
        let words = self.last_words();
        let why = match cause {
            Cause::Killed => anyhow!("{status}"),
            _ if words.is_empty() => anyhow!("{status}"),
            _ => anyhow!("{status}: {}", words.trim_start_matches("humboldt: ")),
        };
        // One that is asked to end before it is up ends by the signal itself.
        let is_failure = !status.success() && status.signal() != Some(libc::SIGTERM);
        Some(Ended { why, cause, is_failure })
    }
    /// Its own watchdog ends it if its loop stands. One whose disk hangs says so, and can't end before the kernel lets go of it.
    fn stands(&mut self) -> Option<Stands> {
        Some(Stands::Disk(self.last_words.lock().unwrap_or_else(|e| e.into_inner()).hangs.take()?))
    }
    /// SIGTERM, so that it ends in order.
    fn ask_to_end(&mut self) {
        // The number of one that has ended may be another process's by now.
        if self.status().is_none() {
            kept::terminate(self.child.id());
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // One that waits for a disk does not end before that answers: it is left behind.
        let end = Instant::now() + KILL_PATIENCE;
        while self.status().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn monitor_command(program: &Path, args: &Up, folder: &Folder, osds: u32, devices: Option<u32>) -> Command {
    let mut cmd = Command::new(program);
    cmd.arg("mon").arg("--dir").arg(&folder.dir);
    cmd.args(["--auth", args.auth.mode().name(), "--key-type", args.key_type.name(), "--listen", &args.listen.to_string()]);
    cmd.args(["--port", &args.port.to_string(), "--osds", &osds.to_string()]);
    if let Some(devices) = devices {
        cmd.args(["--devices", &devices.to_string()]);
    }
    cmd.args(args.web.words()).args(args.dev.then_some("--dev"));
    cmd.args(args.allow_insecure_network.then_some("--allow-insecure-network"));
    cmd.args(args.secure.then_some("--secure"));
    if let Some(token) = &args.web.http_token {
        cmd.env("HUMBOLDT_HTTP_TOKEN", token);
    }
    cmd
}

/// OSDs as processes below this one.
struct Processes<'a> {
    program: PathBuf,
    args: &'a Up,
    dir: &'a Path,
}

impl Form for Processes<'_> {
    type Daemon = Process;

    fn start(&self, id: OsdId, store: OsdStore) -> Result<Process> {
        let (args, dir) = (self.args, self.dir);
        let mut cmd = Command::new(&self.program);
        cmd.arg("osd").arg("--conf").arg(dir.join("ceph.conf")).args(["--id", &id.to_string(), "--listen", &args.listen.to_string()]);
        if let Some(made) = &store.made {
            let keyring = dir.join(format!("osd.{id}.keyring"));
            cmd.arg("--register").arg("--osd-data").arg(&made.path).arg("--keyring").arg(keyring);
        } else {
            cmd.args(["--store", "mem"]);
        }
        let memory = match store.config {
            StoreConfig::Mem { capacity } => capacity,
            StoreConfig::Block { memory, .. } => memory,
        };
        cmd.args(["--memory", &memory.to_string(), "--spin-us", &args.spin_us.to_string()]);
        if let Some(limit) = store.memory_limit {
            cmd.args(["--memory-limit", &limit.to_string()]);
        }
        if let Some(device) = &store.device {
            let place = format!("device={device} host={} root=default", client::setup::hostname());
            cmd.args(["--crush-location", &place]);
        }
        if let Some(cpus) = &store.cpus {
            cmd.args(["--cpus", cpus]);
        }
        if args.null {
            cmd.arg("--null");
        }
        Process::start(&format!("osd.{id}"), cmd)
    }
}

/// Starts the monitor, and waits for the line that says where it serves.
fn start_monitor(cmd: Command) -> Result<(Process, String)> {
    let mut mon = Process::start("the monitor", cmd)?;
    match mon.line.recv_timeout(START_PATIENCE) {
        Ok(line) => Ok((mon, line)),
        Err(RecvTimeoutError::Timeout) => bail!("the monitor does not serve after {} s", START_PATIENCE.as_secs()),
        // Its own line says why, and must be out before we end.
        Err(RecvTimeoutError::Disconnected) => {
            let status = mon.child.wait()?;
            mon.last_words();
            bail!("the monitor ended with {status} before it served")
        }
    }
}

pub fn up(args: &Up, folder: &Folder, spread: Option<Spread>, asked: services::Asked, health: &Health, started: Instant) -> Result<()> {
    let dir = &folder.dir;
    let is_new = !dir.join("mon.redb").exists();
    let program = std::env::current_exe().context("this program's own path")?;
    let (osds, devices) = (stores::osd_count(args, dir, spread.as_ref()), spread.as_ref().and_then(Spread::shared));
    let cmd = monitor_command(&program, args, folder, osds, devices);
    let (mut mon, line) = start_monitor(cmd)?;
    let addr = line.rsplit(' ').next().unwrap_or_default().trim().parse().context("the monitor says where it serves")?;
    let conf_path = dir.join("ceph.conf");
    let conf =
        objecter::conf::Conf::parse(&std::fs::read_to_string(&conf_path)?, types::EntityText::new(types::EntityKind::CLIENT, "admin"))?;
    let fsid = conf.get("fsid").and_then(|f| types::Uuid::parse(&f)).context("the monitor's ceph.conf has an fsid")?;
    let mon_ended = std::cell::RefCell::new(&mut mon);
    let form = Processes { program, args, dir };
    let begin = up::Begin { args, dir, cluster_fsid: fsid, is_new, spread, started };
    let begun = up::start_osds(begin, form, || mon_ended.borrow_mut().status().is_some());
    let (mut osds, kept) = begun?;
    folder.keep();
    up::announce(started.elapsed(), dir, addr, args, (osds.running(), osds.count()), kept);
    // Our own line comes first.
    mon.holds_back = None;
    health.announce();
    let mut services = asked.start(dir, is_new, started.elapsed())?;
    let is_asked = signals::wait(|| {
        osds.keep(started.elapsed());
        let is_over = services.keep(started.elapsed()) || mon.status().is_some();
        health.tell(osds.running(), services.missing());
        is_over
    })?;
    let is_mon_over = mon.status().is_some();
    let served = services.end();
    // OSDs first, while there is a monitor to tell.
    let errors = osds.end();
    mon.ask_to_end();
    let end = Instant::now() + END_PATIENCE;
    while mon.status().is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    served?;
    match is_asked {
        false if is_mon_over => bail!("the monitor ended; everything else was stopped"),
        _ if errors.is_empty() => Ok(()),
        _ => bail!(errors.join("; ")),
    }
}
