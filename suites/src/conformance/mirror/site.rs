//! A cluster with its rbd-mirror: both are killed with -9 and started again, and asked by clients of the daemon's release.

use crate::clients::Release;
use crate::conformance::Manner;
use crate::conformance::server::Server;
use crate::run::{Output, ended, root, run, until, words};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The pool that is mirrored.
pub const POOL: &str = "mirrored";
/// How long a state may take to come: a lock of a daemon that was killed is broken when its watch, 30 s, has timed out.
pub const PATIENCE: Duration = Duration::from_secs(240);
const COMMAND: Duration = Duration::from_secs(90);
/// Looks of the daemon at what changed; the defaults are 30 s for most.
const PACE: [&str; 4] = [
    "--rbd-mirror-pool-replayers-refresh-interval=5",
    "--rbd-mirror-image-state-check-interval=5",
    "--rbd-mirror-journal-poll-age=1",
    "--rbd-mirror-sync-point-update-age=5",
];

pub struct Site {
    /// `a` or `b`: the site's name to the other.
    pub name: &'static str,
    /// The maker of its cluster, in cases' names.
    pub of: &'static str,
    release: Release,
    server: Server,
    daemon: Option<Daemon>,
}

/// An rbd-mirror that ends with this value.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Site {
    pub fn start(name: &'static str, release: Release, manner: Manner) -> Result<Self> {
        let of = if manner.stock.is_some() { "stock" } else { "ours" };
        // Of a pair that failed the folders stay.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let server = Server::start(&format!("mirror-{}-{number}-{name}", std::process::id()), manner, None)?;
        std::fs::copy(root().join("suites/src/conformance/mirror/images.py"), server.dir().join("images.py"))?;
        let site = Self { name, of, release, server, daemon: None };
        site.must(&format!("ceph osd pool create {POOL} 8 8"))?;
        site.must(&format!("rbd pool init {POOL}"))?;
        site.must(&format!("rbd mirror pool enable --site-name {name} {POOL} image"))?;
        let keyring = site.keyring();
        site.must(&format!("ceph auth get-or-create client.m mon 'profile rbd-mirror' osd 'profile rbd' -o {}", keyring.display()))?;
        Ok(site)
    }
    pub fn dir(&self) -> &Path {
        self.server.dir()
    }
    fn keyring(&self) -> PathBuf {
        self.dir().join("ceph.client.m.keyring")
    }
    /// A command line that must succeed; its standard output.
    pub fn must(&self, line: &str) -> Result<String> {
        let out = self.ask(line)?;
        ensure!(out.ok(), "at {}: `{line}` ended with {}: {}{}", self.name, out.code, out.stdout, out.stderr);
        Ok(out.stdout)
    }
    fn ask(&self, line: &str) -> Result<Output> {
        let words = words(line);
        let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        self.release.run(self.server.conf(), &words[0], &args, COMMAND)
    }
    /// The same again until it succeeds: the other site's word takes its time to come.
    pub fn insist(&self, line: &str) -> Result<()> {
        let mut last = String::new();
        let done = until(PATIENCE, || match self.ask(line) {
            Ok(out) => {
                last = format!("{}: {}{}", out.code, out.stdout, out.stderr);
                out.ok()
            }
            Err(e) => {
                last = format!("{e:#}");
                false
            }
        });
        ensure!(done, "at {}: `{line}` does not succeed: {last}", self.name);
        Ok(())
    }
    pub fn json(&self, line: &str) -> Result<Value> {
        serde_json::from_str(&self.must(&format!("{line} --format json"))?).with_context(|| line.to_string())
    }
    /// images.py with these words.
    pub fn images(&self, words: &[&str]) -> Command {
        let mut cmd = self.release.command(self.server.conf(), "/usr/bin/python3");
        cmd.arg(self.dir().join("images.py")).args(words);
        cmd
    }
    /// What it prints.
    pub fn images_say(&self, words: &[&str]) -> Result<String> {
        let out = run(&mut self.images(words), COMMAND)?;
        ensure!(out.ok(), "at {}: images.py {words:?} ended with {}: {}", self.name, out.code, out.stderr);
        Ok(out.stdout.trim().to_string())
    }

    pub fn start_daemon(&mut self) -> Result<()> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.dir().join("rbd-mirror.out"))?;
        let mut cmd = self.release.command(self.server.conf(), "rbd-mirror");
        cmd.args(["-f", "-n", "client.m", "--keyring"]).arg(self.keyring()).args(PACE);
        // The default paths are the same for all clusters of this machine.
        cmd.arg(format!("--admin-socket={}", self.dir().join("rbd-mirror.asok").display()));
        cmd.arg(format!("--log-file={}", self.dir().join("rbd-mirror.log").display()));
        self.daemon = Some(Daemon(cmd.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?));
        Ok(())
    }
    pub fn kill_daemon(&mut self) -> Result<()> {
        let Some(mut daemon) = self.daemon.take() else { bail!("rbd-mirror of {} does not run", self.name) };
        ensure!(!ended(&mut daemon.0), "rbd-mirror of {} ended by itself: see {}", self.name, self.dir().display());
        Ok(())
    }
    /// Kills the cluster with -9 and starts it again.
    pub fn kill_cluster(&mut self) -> Result<()> {
        self.server.kill_and_restart()
    }
    pub fn stop(mut self) -> Result<()> {
        self.kill_daemon()?;
        self.server.stands("mirroring")?;
        // What is killed needs no clean groups.
        self.server.stop()
    }
}
