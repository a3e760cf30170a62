//! The self-test's target: a process whose latencies, CPU and writes are known, and which lies if it is told to.

use super::process::Daemon;
use super::{Counted, Place, Target, reach};
use crate::plan::Setup;
use anyhow::Result;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub struct Fake {
    setup: Setup,
    dir: PathBuf,
    program: PathBuf,
    daemon: Option<Daemon>,
}

impl Fake {
    pub fn new(setup: &Setup, dir: &Path, program: &Path) -> Self {
        Self { setup: setup.clone(), dir: dir.into(), program: program.into(), daemon: None }
    }
}

impl Target for Fake {
    fn start(&mut self) -> Result<()> {
        if self.alive() {
            return Ok(());
        }
        std::fs::create_dir_all(&self.dir)?;
        let socket = self.dir.join("fake.sock");
        let _ = std::fs::remove_file(&socket);
        let mut cmd = Command::new(&self.program);
        cmd.args(crate::selftest::FAKE).arg("serve").arg("--dir").arg(&self.dir).args(&self.setup.args);
        let mut daemon = Daemon::start(&mut cmd, &self.dir.join("log"))?;
        daemon.wait(Duration::from_secs(20), || std::os::unix::net::UnixStream::connect(&socket).is_ok())?;
        self.daemon = Some(daemon);
        Ok(())
    }
    fn stop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.stop();
        }
    }
    fn remove(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
    fn alive(&mut self) -> bool {
        self.daemon.as_mut().is_some_and(Daemon::alive)
    }
    fn place(&self) -> Place {
        Place { file: self.dir.join("fake.sock"), ..Place::default() }
    }
    fn servers(&self) -> Vec<u32> {
        self.daemon.iter().map(Daemon::pid).collect()
    }
    fn devices(&self) -> Vec<PathBuf> {
        vec![self.dir.join("stat")]
    }
    fn counted(&mut self) -> Result<Option<Counted>> {
        reach::counted([self.dir.join("osd.0.asok").as_path()]).map(Some)
    }
    fn durable(&self) -> bool {
        self.setup.store == "block"
    }
    fn describe(&self) -> Value {
        json!({ "program": "fake" })
    }
}
