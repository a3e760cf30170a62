//! What upstream's programs run against: a `humboldt up`, OSDs of ours under stock monitors and a stock manager, or stock alone.
//!
//! Among stock daemons a case that fails where it passes under our monitor is a fault of our OSD, or a private habit of our monitor. Stock alone says
//! what of a suite a cluster can pass at all here.

use super::Manner;
use crate::clients::{Release, stock_osds};
use crate::cluster::Cluster;
use crate::mds;
use crate::run::words;
use crate::stock::{Daemons, Plane, stock_control_plane, stock_osd_of};
use anyhow::{Result, ensure};
use std::path::Path;
use std::time::Duration;

pub struct Server {
    /// Ends before what it stands on.
    files: Option<mds::Server>,
    plane: Kind,
}

enum Kind {
    /// With the arguments that it is started with.
    Up(Cluster, Vec<String>),
    AmongStock(Daemons),
    Stock(Daemons),
}
use Kind::{AmongStock, Stock, Up};

/// The manager beside monitors of that release: 18.2's own loads no module in these chroots.
fn manager_of(release: Release) -> Release {
    if release == Release::Reef { Release::Pacific } else { release }
}

/// OSDs of ours under stock monitors: pools of one copy lie on both.
const OSDS: u32 = 2;
/// Programs that run side by side have more groups than two OSDs should; and the monitors need not take a second for each pool.
const CONF: &str = "mon max pg per osd = 2000\npaxos propose interval = 0.1\nmemstore device bytes = 4294967296\n";

impl Server {
    /// A fresh one, in a folder of its own; with `files`, a file system that a stock server of that release serves.
    pub fn start(name: &str, manner: Manner, files: Option<Release>) -> Result<Self> {
        let mut server = Self { files: None, plane: Self::plane(name, manner)? };
        if let Some(release) = files {
            server.files = Some(mds::serve_by(release, server.conf())?);
        }
        Ok(server)
    }
    fn plane(name: &str, manner: Manner) -> Result<Kind> {
        if let Some(release) = manner.stock {
            return Self::stock(name, release, manner.store).map(Stock);
        }
        if !manner.among_stock {
            let osds = manner.copies.to_string();
            let several: &[&str] = if manner.copies > 1 { &["--osds", &osds, "--processes"] } else { &[] };
            let args = [&["--store", manner.store], several].concat();
            return Ok(Up(Cluster::start(name, &args)?, args.iter().map(ToString::to_string).collect()));
        }
        let plane = Plane { release: manner.daemons, manager: manager_of(manner.daemons), brisk: false, conf: CONF, ..Plane::default() };
        let mut daemons = stock_control_plane(name, &plane)?;
        for id in 0..OSDS {
            let in_memory = manner.store == "mem" || manner.store == "both" && id == 0;
            daemons.new_ours(id, "ours", if in_memory { &["--store", "mem"] } else { &["--store", "block", "--size", "8G"] })?;
        }
        daemons.wait_up(OSDS as usize)?;
        daemons.wait("ceph status -f json", "the manager", |out| out.contains("\"available\":true"))?;
        Ok(AmongStock(daemons))
    }
    /// One stock OSD of that release under a stock monitor of 18.2.
    fn stock(name: &str, release: Release, store: &str) -> Result<Daemons> {
        stock_osds(release)?;
        let plane = Plane { monitors: 1, manager: Release::Pacific, secure: false, conf: CONF, ..Plane::default() };
        let mut daemons = stock_control_plane(name, &plane)?;
        stock_osd_of(release, &mut daemons, 0, if store == "mem" { "memstore" } else { "bluestore" })?;
        daemons.wait_up(1)?;
        daemons.wait("ceph status -f json", "the manager", |out| out.contains("\"available\":true"))?;
        Ok(daemons)
    }
    /// Kills with -9 what keeps objects, and starts it again: all of ours, or the stock OSD.
    pub fn kill_and_restart(&mut self) -> Result<()> {
        match &mut self.plane {
            Up(cluster, args) => cluster.kill_and_restart(&args.iter().map(String::as_str).collect::<Vec<_>>()),
            AmongStock(daemons) | Stock(daemons) => {
                daemons.kill("osd.0")?;
                daemons.start("osd.0")
            }
        }
    }
    pub fn is_among_stock(&self) -> bool {
        matches!(self.plane, AmongStock(_))
    }
    pub fn conf(&self) -> &Path {
        match &self.plane {
            Up(cluster, _) => &cluster.conf,
            AmongStock(daemons) | Stock(daemons) => &daemons.conf,
        }
    }
    pub fn dir(&self) -> &Path {
        match &self.plane {
            Up(cluster, _) => &cluster.dir,
            AmongStock(daemons) | Stock(daemons) => &daemons.dir,
        }
    }
    /// A client's command line that must succeed.
    pub fn must(&self, release: Release, line: &str) -> Result<String> {
        let words = words(line);
        let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let out = release.run(self.conf(), &words[0], &args, Duration::from_secs(120))?;
        ensure!(out.ok(), "`{line}` ended with {}:\n{}{}", out.code, out.stdout, out.stderr);
        Ok(out.stdout)
    }
    /// An error with what a daemon said last if one ended by itself while `what` ran.
    pub fn stands(&mut self, what: &str) -> Result<()> {
        match &mut self.plane {
            Up(cluster, _) => ensure!(!cluster.ended(), "humboldt up ended under {what}; it said:\n{}", cluster.log()),
            AmongStock(daemons) | Stock(daemons) => {
                let words = daemons.last_words();
                ensure!(words.is_empty(), "under {what}{words}");
            }
        }
        Ok(())
    }
    /// Ends it, in order, and removes its folder. Groups among stock daemons must all be clean, whatever the programs did.
    pub fn stop(self) -> Result<()> {
        let dir = self.dir().to_path_buf();
        drop(self.files);
        match self.plane {
            Up(cluster, _) => cluster.stop()?,
            Stock(daemons) => drop(daemons),
            AmongStock(mut daemons) => {
                daemons.wait("ceph pg stat", "clean groups", |out| {
                    let (pgs, rest) = out.trim().split_once(" pgs: ").unwrap_or_default();
                    pgs == "0" || rest.starts_with(&format!("{pgs} active+clean;"))
                })?;
                (0..OSDS).try_for_each(|id| daemons.end(&format!("osd.{id}")))?;
            }
        }
        std::fs::remove_dir_all(&dir)?;
        Ok(())
    }
}
