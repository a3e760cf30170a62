//! `humboldt up` as a process of its own, and the null responder, which is the same program.

use super::device::Backing;
use super::process::Daemon;
use super::{Counted, Kind, Place, Target, reach};
use crate::load::runner::chore;
use crate::plan::Setup;
use crate::study::file::Device;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const READY: Duration = Duration::from_secs(60);

pub struct Humboldt {
    setup: Setup,
    dir: PathBuf,
    program: PathBuf,
    /// With the options that take them.
    backings: Vec<(&'static str, Backing)>,
    daemon: Option<Daemon>,
}

impl Humboldt {
    pub fn new(setup: &Setup, devices: &[Device], dir: &Path, program: &Path) -> Result<Self> {
        let mut backings = Vec::new();
        for (option, name) in [("--data", &setup.data), ("--wal", &setup.wal), ("--meta", &setup.meta)] {
            if let Some(name) = name {
                backings.push((option, Backing::new(name, devices, dir)?));
            }
        }
        Ok(Self { setup: setup.clone(), dir: dir.into(), program: program.into(), backings, daemon: None })
    }
    fn command(&mut self) -> Result<Command> {
        let mut cmd = Command::new(&self.program);
        cmd.arg("up").arg("--dir").arg(self.dir.join("cluster")).args(["--port", "0", "--auth", &self.setup.auth]);
        cmd.args(["--osds", &self.setup.osds.to_string()]);
        if self.setup.kind == Kind::Null {
            cmd.args(["--null", "--store", "mem"]);
        } else {
            cmd.args(["--store", &self.setup.store]);
            if let Some(memory) = self.setup.memory {
                cmd.args(["--memory", &memory.to_string()]);
            }
        }
        for (option, backing) in &mut self.backings {
            cmd.arg(*option).arg(backing.attach()?);
        }
        cmd.args(&self.setup.args);
        Ok(cmd)
    }
    /// The cluster's own, with librbd's cache off: it would answer in the server's place.
    fn client_conf(&self) -> Result<()> {
        let own = std::fs::read_to_string(self.dir.join("cluster/ceph.conf"))?;
        Ok(std::fs::write(self.dir.join("client.conf"), own + "[client]\nrbd cache = false\n")?)
    }
    fn sockets(&self) -> Vec<PathBuf> {
        (0..self.setup.osds).map(|id| self.dir.join(format!("cluster/osd.{id}.asok"))).collect()
    }
}

impl Target for Humboldt {
    fn start(&mut self) -> Result<()> {
        if self.alive() {
            return Ok(());
        }
        self.stop();
        std::fs::create_dir_all(&self.dir)?;
        let log = self.dir.join("log");
        // What former starts said doesn't count.
        let before = std::fs::metadata(&log).map_or(0, |m| m.len()) as usize;
        let mut cmd = self.command()?;
        let mut daemon = Daemon::start(&mut cmd, &log)?;
        let ready = || std::fs::read(&log).is_ok_and(|text| String::from_utf8_lossy(&text[before.min(text.len())..]).contains("ready in"));
        daemon.wait(READY, ready).with_context(|| format!("starting {}", self.setup.show()))?;
        self.backings.iter_mut().for_each(|(_, b)| b.taken());
        self.daemon = Some(daemon);
        self.client_conf()?;
        // Makes the pool; its figures are not used.
        let mut first = Command::new(&self.program);
        first.args(["bench", "write", "--seconds", "0.2", "--json", "--conf"]).arg(self.dir.join("client.conf"));
        first.args(["--replicas", &self.setup.replicas.to_string()]);
        chore(&mut first, READY).context("a first load").map(drop)
    }
    fn stop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.stop();
        }
        self.backings.iter_mut().for_each(|(_, b)| b.release());
    }
    fn remove(&mut self) {
        self.stop();
        self.backings.iter_mut().for_each(|(_, b)| b.remove());
        let _ = std::fs::remove_dir_all(&self.dir);
    }
    fn alive(&mut self) -> bool {
        self.daemon.as_mut().is_some_and(Daemon::alive)
    }
    fn place(&self) -> Place {
        Place { conf: Some(self.dir.join("client.conf")), ..Place::default() }
    }
    fn servers(&self) -> Vec<u32> {
        self.daemon.iter().map(Daemon::pid).collect()
    }
    fn devices(&self) -> Vec<PathBuf> {
        let stats: Vec<PathBuf> = self.backings.iter().filter_map(|(_, b)| b.stat()).collect();
        // Sectors tell all that was written only if all of the store lies on devices of its own.
        if stats.len() == self.backings.len() { stats } else { Vec::new() }
    }
    fn counted(&mut self) -> Result<Option<Counted>> {
        if self.setup.kind == Kind::Null {
            return Ok(None);
        }
        reach::counted(self.sockets().iter().map(PathBuf::as_path)).map(Some)
    }
    fn durable(&self) -> bool {
        self.setup.kind == Kind::Humboldt && self.setup.store != "mem"
    }
    fn describe(&self) -> Value {
        json!({ "program": "humboldt", "version": env!("CARGO_PKG_VERSION") })
    }
}
