//! Servers of Ceph beside the cluster of `up`: radosgw for S3, ceph-mds for files. Started, watched, and started again when they end.
//!
//! ```text
//!   Prepares ───────▶ Starts ───────▶ Serves ── its process ended ──▶ Pauses
//!    keys, pools       process, then    ▲                               │ the pause is over
//!      │               user, buckets    └──────────── Starts ◀──────────┘
//!      └── an error, or an end before it served: a new cluster ends with it,
//!          an older one serves without, and it is tried again after a pause
//! ```
//! Absent: what a server needs, how it is started and when it serves, which are [`s3`]'s and [`fs`]'s.

pub mod args;
mod certificate;
mod credentials;
mod environment;
mod fs;
mod hello;
mod programs;
mod s3;
mod sign;

use crate::again::{Again, Cause};
use crate::args::Up;
use anyhow::{Context, Error, Result, anyhow};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a server may take to end in order.
const END_PATIENCE: Duration = Duration::from_secs(8);
/// Between two looks at what ends.
const GLANCE: Duration = Duration::from_millis(20);
/// A server that does not serve for so long is told of, once.
const NOTICE_AFTER: Duration = Duration::from_secs(60);

/// One kind of server. Its methods may wait for the cluster: they run on a thread of their own, and look at `over` while they wait.
trait Service: Send + Sync {
    /// As its log line names it.
    fn name(&self) -> &'static str;
    /// Makes what the server needs before it starts; what is there stays.
    fn prepare(&self) -> Result<()>;
    fn command(&self) -> Result<Command>;
    /// Waits until the server serves, makes what it is to serve, and says how it is reached. `None`: it was over before.
    fn furnish(&self, over: &AtomicBool) -> Result<Option<String>>;
    /// The file that has the server's own words.
    fn log(&self) -> &Path;
}

/// The start of a server's command line: in the foreground, under this name, with this key, its words to `log` alone.
fn server_command(program: &Path, name: &str, conf: &Path, keyring: &Path, log: &Path) -> Result<Command> {
    // The log may name what clients ask for.
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(log).with_context(|| log.display().to_string())?;
    let mut command = Command::new(program);
    command.args(["-f", "-n", name, "-c"]).arg(conf).arg("--keyring").arg(keyring);
    command.args(["--log-file=", "--log-to-stderr=true", "--err-to-stderr=true"]);
    // The default socket is one for all clusters of this machine. Where the folder's path is too long for one, there is none.
    let socket = mon::admin_socket(&conf.with_file_name(""), name);
    command.arg(format!("--admin-socket={}", socket.unwrap_or_default().display()));
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    Ok(command)
}

/// Work on a thread of its own. `over` asks it to end; nothing waits for that.
struct Job<T> {
    thread: JoinHandle<Result<T>>,
    over: Arc<AtomicBool>,
}

impl<T: Send + 'static> Job<T> {
    fn start(name: &str, work: impl FnOnce(&AtomicBool) -> Result<T> + Send + 'static) -> Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let shared = over.clone();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || work(&shared))?;
        Ok(Self { thread, over })
    }
    fn is_done(&self) -> bool {
        self.thread.is_finished()
    }
    fn result(self) -> Result<T> {
        self.thread.join().unwrap_or_else(|_| Err(anyhow!("its thread panicked")))
    }
    fn leave(self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

enum State {
    Prepares(Job<()>),
    Starts(Child, Job<Option<String>>),
    Serves(Child),
    Pauses,
}

struct Kept {
    service: Arc<dyn Service>,
    state: State,
    again: Again,
    has_served: bool,
    /// When it began not to serve; `None` once that was told.
    waits_since: Option<Duration>,
}

impl Kept {
    fn begin(service: Arc<dyn Service>, now: Duration) -> Result<Self> {
        let state = prepares(&service)?;
        Ok(Self { service, state, again: Again::started(now), has_served: false, waits_since: Some(now) })
    }

    /// One look. An error: it did not come to serve.
    fn keep(&mut self, now: Duration) -> Result<()> {
        self.state = match std::mem::replace(&mut self.state, State::Pauses) {
            State::Prepares(job) if job.is_done() => match job.result().and_then(|()| self.spawn()) {
                Ok(state) => state,
                Err(e) => return self.pause(now, e),
            },
            State::Starts(mut child, job) => match child.try_wait()? {
                Some(status) => {
                    job.leave();
                    return self.pause(now, self.ended(status));
                }
                None if job.is_done() => match job.result() {
                    Ok(line) => self.serves(child, line),
                    Err(e) => {
                        end(&mut child);
                        return self.pause(now, e);
                    }
                },
                None => State::Starts(child, job),
            },
            State::Serves(mut child) => match child.try_wait()? {
                Some(status) => {
                    self.waits_since = Some(now);
                    return self.pause(now, self.ended(status));
                }
                None => State::Serves(child),
            },
            State::Pauses if self.again.is_due(now) => prepares(&self.service)?,
            state => state,
        };
        if !matches!(self.state, State::Serves(_)) && self.waits_since.is_some_and(|since| now.saturating_sub(since) >= NOTICE_AFTER) {
            self.waits_since = None;
            let (name, log) = (self.service.name(), self.service.log().display());
            say::eprintln!("{name} does not serve yet: it waits for the cluster, see `ceph health detail` and {log}");
        }
        Ok(())
    }

    fn spawn(&self) -> Result<State> {
        let service = self.service.clone();
        let mut command = service.command()?;
        // This thread lives as long as the process: the kernel ends the server with it.
        let mut child = crate::kept::end_with_us(&mut command).spawn().with_context(|| format!("starting {}", service.name()))?;
        match Job::start(service.name(), move |over| service.furnish(over)) {
            Ok(job) => Ok(State::Starts(child, job)),
            Err(e) => {
                end(&mut child);
                Err(e)
            }
        }
    }

    fn serves(&mut self, child: Child, line: Option<String>) -> State {
        match line {
            Some(line) if !self.has_served => say::println!("{line}"),
            _ => say::eprintln!("{} serves again", self.service.name()),
        }
        self.has_served = true;
        self.waits_since = None;
        State::Serves(child)
    }

    /// Says why it does not serve, and tries again later. It is an error if it never served.
    fn pause(&mut self, now: Duration, why: Error) -> Result<()> {
        let pause = self.again.ended(now, Cause::Itself);
        self.state = State::Pauses;
        if !self.has_served {
            return Err(why.context(format!("{} does not serve", self.service.name())));
        }
        say::eprintln!("{} does not serve: {why:#}; it is started again in {} s", self.service.name(), pause.as_secs());
        Ok(())
    }

    fn ended(&self, status: ExitStatus) -> Error {
        let log = self.service.log();
        // A process that a signal ended has not said why.
        if let Some(signal) = status.signal() {
            return anyhow!("it was ended by signal {signal}; its log: {}", log.display());
        }
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        anyhow!("it ended with {status}: {}; its log: {}", last.trim(), log.display())
    }
}

fn prepares(service: &Arc<dyn Service>) -> Result<State> {
    let shared = service.clone();
    Ok(State::Prepares(Job::start(service.name(), move |_| shared.prepare())?))
}

/// Asks a process to end in order.
fn ask_to_end(child: &mut Child) {
    // The number of one that has ended may be another process's by now.
    if child.try_wait().is_ok_and(|status| status.is_none()) {
        crate::kept::terminate(child.id());
    }
}

/// Ends a process, in order if it heeds that in time.
fn end(child: &mut Child) {
    ask_to_end(child);
    let end = Instant::now() + END_PATIENCE;
    while child.try_wait().is_ok_and(|status| status.is_none()) {
        if Instant::now() >= end {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        std::thread::sleep(GLANCE);
    }
}

/// The services that `up` was asked for, checked as far as that can be without the cluster.
#[derive(Debug)]
pub struct Asked {
    s3: Option<s3::Plan>,
    fs: Option<fs::Plan>,
}

impl Asked {
    /// Looks at values, programs and files. Changes nothing.
    pub fn check(up: &Up) -> Result<Self> {
        let s3 = up.services.s3.then(|| s3::Plan::check(&up.services, up.listen)).transpose()?;
        let fs = up.services.fs.then(fs::Plan::check).transpose()?;
        Ok(Self { s3, fs })
    }

    /// Looks whether ports are free. A server of an `up` that was just killed is about to give its own back.
    pub fn check_ports(&self) -> Result<()> {
        self.s3.as_ref().map_or(Ok(()), s3::Plan::check_port)
    }

    /// Begins to start them. `is_new`: the cluster was made by this `up`.
    pub fn start(self, dir: &Path, is_new: bool, now: Duration) -> Result<Services> {
        let mut all: Vec<Arc<dyn Service>> = Vec::new();
        if let Some(plan) = self.s3 {
            all.push(Arc::new(plan.service(dir)?));
        }
        if let Some(plan) = self.fs {
            all.push(Arc::new(plan.service(dir)));
        }
        let kept = all.into_iter().map(|service| Kept::begin(service, now)).collect::<Result<_>>()?;
        Ok(Services { kept, is_new, error: None })
    }
}

/// The servers of one `up`.
pub struct Services {
    kept: Vec<Kept>,
    is_new: bool,
    error: Option<Error>,
}

impl Services {
    /// A look at all of them; often. True: one of a new cluster can't serve, and `up` is to end.
    pub fn keep(&mut self, now: Duration) -> bool {
        for kept in &mut self.kept {
            match kept.keep(now) {
                Err(e) if self.is_new => self.error = Some(e),
                Err(e) => say::eprintln!("{e:#}; it is tried again"),
                Ok(()) => {}
            }
        }
        self.error.is_some()
    }

    /// The first that does not serve now.
    pub fn missing(&self) -> Option<&'static str> {
        self.kept.iter().find(|kept| !matches!(kept.state, State::Serves(_))).map(|kept| kept.service.name())
    }

    /// Ends all in order, at once, while the cluster serves. The error that ended `up`, if one did.
    pub fn end(self) -> Result<()> {
        let mut children: Vec<Child> = Vec::new();
        for kept in self.kept {
            match kept.state {
                State::Serves(child) => children.push(child),
                State::Starts(child, job) => {
                    job.leave();
                    children.push(child);
                }
                State::Prepares(job) => job.leave(),
                State::Pauses => {}
            }
        }
        children.iter_mut().for_each(ask_to_end);
        children.iter_mut().for_each(end);
        self.error.map_or(Ok(()), Err)
    }
}
