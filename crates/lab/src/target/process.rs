//! A daemon of a target: its process, its log, and its end.

use crate::run::interrupt;
use crate::sys;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long an end may take before it is made one.
const END: Duration = Duration::from_secs(15);

pub struct Daemon {
    child: Child,
    log: PathBuf,
    ended: bool,
}

impl Daemon {
    /// Starts it with its output going to `log`, behind what is there.
    pub fn start(cmd: &mut Command, log: &Path) -> Result<Self> {
        let open = || -> Result<File> { Ok(File::options().create(true).append(true).open(log)?) };
        let shown = format!("{cmd:?}");
        let child = sys::ends_with_us(cmd).stdin(Stdio::null()).stdout(open()?).stderr(open()?).spawn();
        Ok(Self { child: child.with_context(|| format!("starting {shown}"))?, log: log.into(), ended: false })
    }
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
    pub fn alive(&mut self) -> bool {
        self.ended |= !matches!(self.child.try_wait(), Ok(None));
        !self.ended
    }
    /// A signal to it and its children, as a drill has it.
    pub fn signal(&mut self, signal: i32) {
        if self.alive() {
            sys::signal_group(self.pid(), signal);
        }
    }
    /// What it said last.
    pub fn said(&self) -> String {
        crate::load::tail(&std::fs::read_to_string(&self.log).unwrap_or_default())
    }
    /// Waits until `ready`; an error if it ends before, or takes too long.
    pub fn wait(&mut self, limit: Duration, mut ready: impl FnMut() -> bool) -> Result<()> {
        let end = Instant::now() + limit;
        while !ready() {
            if !self.alive() {
                bail!("it ended while starting; it said: {}", self.said());
            }
            if interrupt::asked() {
                bail!("interrupted");
            }
            if Instant::now() >= end {
                bail!("it does not get ready within {} s; it said: {}", limit.as_secs(), self.said());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
    /// SIGTERM, and SIGKILL if that is not heeded.
    pub fn stop(&mut self) {
        let end = Instant::now() + END;
        if self.alive() {
            sys::signal_group(self.pid(), libc::SIGTERM);
            // One that a drill stopped hears it only then.
            sys::signal_group(self.pid(), libc::SIGCONT);
        }
        while self.alive() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.kill();
    }
    pub fn kill(&mut self) {
        if self.alive() {
            sys::signal_group(self.pid(), libc::SIGKILL);
            let _ = self.child.wait();
            self.ended = true;
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}
