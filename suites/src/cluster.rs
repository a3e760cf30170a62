//! A `humboldt up` of our own under test, on a free port and in a folder that is thrown away.

use crate::clients::Release;
use crate::folders;
use crate::netns::Net;
use crate::run::{Output, must, process, root, run, until, words};
use crate::story;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub struct Cluster {
    pub dir: PathBuf,
    pub conf: PathBuf,
    child: Child,
    log: Arc<Mutex<String>>,
    /// The network namespace that it and its clients run in, if not this machine's own.
    namespace: Option<String>,
    /// Where it finds programs, if not where we do.
    path: Option<OsString>,
    /// The program itself.
    program: PathBuf,
    /// From exec to the line that says it serves.
    pub ready_after: Duration,
}

/// How long a start may take; on a machine at rest it is a fraction of a second.
const READY: Duration = Duration::from_secs(60);

/// The folder that cargo builds in.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Which build of the program is under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// `release`, optimised as one program: packages and figures are of it.
    Shipped,
    /// `ci`: optimised, and built in a third of the time. Verbs take it, and a run of all tests.
    Quick,
    /// The one that the test programs start. It is there when they are built, checks its sums and its debug assertions, and costs a quarter more processor
    /// time an operation: the short run of all tests takes it.
    Tests,
}

static BUILD: Mutex<Build> = Mutex::new(Build::Quick);

/// From here on this build is meant.
pub fn take(build: Build) {
    *BUILD.lock().unwrap_or_else(|e| e.into_inner()) = build;
}

/// True in a short run, which takes the tests' build: a case that is long may do a part of itself there, by turns.
pub fn is_short_run() -> bool {
    *BUILD.lock().unwrap_or_else(|e| e.into_inner()) == Build::Tests
}

/// The folder of the build below [`target`].
fn folder() -> &'static str {
    match *BUILD.lock().unwrap_or_else(|e| e.into_inner()) {
        Build::Shipped => "release",
        Build::Quick => "ci",
        Build::Tests => "debug",
    }
}

/// The program under test: `HUMBOLDT_BINARY` if it is set, a build of ours otherwise.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("HUMBOLDT_BINARY") {
        return path.into();
    }
    target().join(folder()).join("humboldt")
}

/// Builds the program under test, unless it was given, or was built with the test programs.
pub fn build() -> Result<()> {
    if std::env::var_os("HUMBOLDT_BINARY").is_some() || folder() == "debug" {
        return Ok(());
    }
    must(Command::new("cargo").current_dir(root()).args(["build", "--profile", folder(), "--locked", "--quiet", "--package", "cli"]))
}

/// Resident memory of a process; 0 if there is none.
pub fn rss_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

/// The command in that namespace.
fn placed(namespace: Option<&str>, cmd: Command) -> Command {
    match namespace {
        Some(namespace) => Net::inside(namespace, &cmd),
        None => cmd,
    }
}

/// True if the program's `up` has the option: an older one may be measured beside this tree's.
fn knows(program: &Path, option: &str) -> Result<bool> {
    let help = run(Command::new(program).args(["up", "--help"]), Duration::from_secs(20))?;
    Ok(help.stdout.split_whitespace().any(|word| word == option))
}

impl Cluster {
    /// Starts `humboldt up` with `args` in a fresh folder `name`.
    pub fn start(name: &str, args: &[&str]) -> Result<Self> {
        Self::start_in(folders::fresh(name)?, args)
    }

    /// The same, it and its clients in that network namespace.
    pub fn start_inside(name: &str, namespace: &str, args: &[&str]) -> Result<Self> {
        Self::start_all(binary(), folders::fresh(name)?, "0", args, Some(namespace), None)
    }

    /// Starts it on a folder that may hold a cluster already.
    pub fn start_in(dir: PathBuf, args: &[&str]) -> Result<Self> {
        Self::start_at(dir, "0", args)
    }

    /// The same, with its monitor at this port.
    pub fn start_at(dir: PathBuf, port: &str, args: &[&str]) -> Result<Self> {
        Self::start_all(binary(), dir, port, args, None, None)
    }

    /// Starts it where programs are found in this folder first.
    pub fn start_beside(programs: &Path, dir: PathBuf, args: &[&str]) -> Result<Self> {
        let usual = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([programs.to_path_buf()].into_iter().chain(std::env::split_paths(&usual)))?;
        Self::start_all(binary(), dir, "0", args, None, Some(path))
    }

    /// Starts another program than the one under test.
    pub fn start_program(program: &Path, dir: PathBuf, args: &[&str]) -> Result<Self> {
        Self::start_all(program.to_path_buf(), dir, "0", args, None, None)
    }

    fn start_all(
        program: PathBuf,
        dir: PathBuf,
        port: &str,
        args: &[&str],
        namespace: Option<&str>,
        path: Option<OsString>,
    ) -> Result<Self> {
        let started = Instant::now();
        let mut up = Command::new(&program);
        up.arg("up").arg("--dir").arg(&dir).args(["--port", port]).args(args);
        // Cases remove pools. Programs from before the option let everyone do that.
        if program == binary() || knows(&program, "--dev")? {
            up.arg("--dev");
        }
        if let Some(path) = &path {
            up.env("PATH", path);
        }
        let mut child = placed(namespace, up)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let log = Arc::new(Mutex::new(String::new()));
        let pipes: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(child.stdout.take().expect("piped")), Box::new(child.stderr.take().expect("piped"))];
        for pipe in pipes {
            let log = log.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    let mut log = log.lock().unwrap_or_else(|e| e.into_inner());
                    log.push_str(&line);
                    log.push('\n');
                }
            });
        }
        let namespace = namespace.map(String::from);
        let mut cluster = Self { conf: dir.join("ceph.conf"), dir, child, log, namespace, path, program, ready_after: Duration::ZERO };
        let ready = until(READY, || cluster.log().contains("ready in") || cluster.ended());
        if !ready || cluster.ended() {
            bail!("humboldt up did not get ready; it said:\n{}", cluster.log());
        }
        cluster.ready_after = started.elapsed();
        Ok(cluster)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
    /// Everything it printed so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
    pub fn ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
    /// The process of an OSD, if it runs and is one of its own.
    pub fn pid_of_osd(&self, osd: usize) -> Option<u32> {
        let (conf, osd) = (self.conf.display().to_string(), osd.to_string());
        process(|args| args.get(1) == Some(&"osd") && args.contains(&&*conf) && args.windows(2).any(|w| w[0] == "--id" && w[1] == osd))
    }
    /// The monitor's port: clients know it, so a start that is to go on with them takes the same one.
    pub fn port(&self) -> Result<String> {
        let conf = std::fs::read_to_string(&self.conf)?;
        let line = conf.lines().find(|l| l.starts_with("mon host")).context("ceph.conf names the monitor")?;
        Ok(line.trim_end_matches(']').rsplit(':').next().unwrap_or_default().to_string())
    }
    /// Runs a command line of a stock client against it: `rados -p p ls`.
    pub fn client(&self, release: Release, line: &str) -> Result<Output> {
        self.client_within(release, line, Duration::from_secs(120))
    }
    /// The same with a limit; code 124 if that was reached.
    pub fn client_within(&self, release: Release, line: &str, limit: Duration) -> Result<Output> {
        let words = words(line);
        let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let mut cmd = release.command(&self.conf, &words[0]);
        cmd.args(args);
        run(&mut placed(self.namespace.as_deref(), cmd), limit)
    }
    /// Kills it with -9 and starts it again on its folder, with its monitor where it was.
    pub fn kill_and_restart(&mut self, args: &[&str]) -> Result<()> {
        let (dir, port, namespace, path) = (self.dir.clone(), self.port()?, self.namespace.clone(), self.path.clone());
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid())).unwrap_or_default();
        self.child.kill()?;
        self.child.wait()?;
        // Daemons that are processes of their own hear of it, and hold their folders until then.
        let is_gone = |pid: &str| std::fs::read(format!("/proc/{pid}/cmdline")).map_or(true, |line| line.is_empty());
        until(READY, || children.split_whitespace().all(is_gone));
        *self = Self::start_all(self.program.clone(), dir, &port, args, namespace.as_deref(), path)?;
        Ok(())
    }
    /// The same, and it must succeed; gives its standard output.
    pub fn must(&self, release: Release, line: &str) -> Result<String> {
        let out = self.client(release, line)?;
        if !out.ok() {
            bail!("`{line}` ({}) ended with {}:\n{}{}", release.version(), out.code, out.stdout, out.stderr);
        }
        Ok(out.stdout)
    }
    /// The same, and it must fail with `code`.
    pub fn must_fail(&self, release: Release, line: &str, code: i32) -> Result<Output> {
        let out = self.client(release, line)?;
        if out.code != code {
            bail!("`{line}` ({}) ended with {} where {code} was due:\n{}{}", release.version(), out.code, out.stdout, out.stderr);
        }
        Ok(out)
    }
    /// Resident memory, bytes.
    pub fn rss_bytes(&self) -> u64 {
        rss_bytes(self.pid())
    }
    pub fn signal(&self, name: &str) {
        let _ = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
    }
    /// SIGTERM, and it must end with code 0.
    pub fn stop(mut self) -> Result<()> {
        self.signal("TERM");
        if !until(Duration::from_secs(10), || self.ended()) {
            bail!("humboldt up did not end within 10 s of SIGTERM; it said:\n{}", self.log());
        }
        let status = self.child.wait()?;
        if !status.success() {
            bail!("humboldt up ended with {status} after SIGTERM; it said:\n{}", self.log());
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        story::daemon(&format!("humboldt up --dir {}", self.dir.display()), &self.log());
    }
}
