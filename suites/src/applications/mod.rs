//! Applications that nobody here wrote, on a cluster of three OSDs: while each works, an OSD is killed, the server is killed, and a disk is lost and
//! replaced; after each, what the application was told is done must be there, by its own means of checking.
//!
//! Holds the list of them and the order of events. Absent: each application (`s3`, `postgres`, `files`) and what is done to the cluster (`faults`).

mod faults;
mod files;
mod postgres;
mod s3;
mod tree;

use crate::clients::apt;
use crate::cluster::Cluster;
use crate::share;
use anyhow::{Context, Result, anyhow, bail, ensure};
use faults::Fault;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Instant;

/// An application, before it runs.
pub struct Application {
    pub name: &'static str,
    /// Debian's packages that it is of, each with a file that tells that it is here.
    packages: &'static [(&'static str, &'static str)],
    start: fn(&Cluster) -> Result<Box<dyn Works>>,
}

/// An application that has its place on the cluster.
pub(crate) trait Works {
    /// Does some work and waits until it is acknowledged. In the midst of it `midst` is called, once: something happens to the cluster from then on.
    fn work(&mut self, round: usize, midst: &dyn Fn()) -> Result<()>;
    /// Everything that was acknowledged so far is there, and whole.
    fn check(&mut self) -> Result<()>;
}

/// All of them.
pub const ALL: &[Application] = &[
    Application { name: "restic", packages: &[("restic", "/usr/bin/restic")], start: s3::restic },
    Application { name: "postgres", packages: postgres::PACKAGES, start: postgres::start },
    Application { name: "sqlite", packages: &[("sqlite3", "/usr/bin/sqlite3")], start: files::sqlite },
    Application { name: "rclone", packages: &[("rclone", "/usr/bin/rclone")], start: s3::rclone },
    Application { name: "git", packages: &[("git", "/usr/bin/git")], start: files::git },
    Application { name: "s3cmd", packages: &[("s3cmd", "/usr/bin/s3cmd")], start: s3::s3cmd },
    Application { name: "tar", packages: &[], start: files::tar },
    Application { name: "s3fs", packages: &[("s3fs", "/usr/bin/s3fs"), ("s3cmd", "/usr/bin/s3cmd")], start: s3::s3fs },
    Application { name: "boto3", packages: &[("python3-boto3", "/usr/lib/python3/dist-packages/boto3")], start: s3::boto3 },
];

const ARGS: &[&str] = &["--processes", "--osds", "3", "--size", "3G"];

/// The verb: all of them, or the one of that name.
pub fn applications(only: Option<&str>) -> Result<()> {
    let chosen: Vec<&Application> = ALL.iter().filter(|app| only.is_none_or(|name| name == app.name)).collect();
    if chosen.is_empty() {
        bail!("no application is called so: there are {}", ALL.iter().map(|app| app.name).collect::<Vec<_>>().join(", "));
    }
    crate::clients::Release::Reef.install()?;
    let mut failed = Vec::new();
    for app in chosen {
        if let Err(e) = one(app) {
            println!("FAILED {}: {e:#}", app.name);
            failed.push(app.name);
        }
    }
    ensure!(failed.is_empty(), "these failed: {}", failed.join(", "));
    Ok(())
}

/// The case: the one whose turn it is in this run.
pub fn by_turns() -> Result<()> {
    one(&ALL[(share::turn() % ALL.len() as u64) as usize])
}

fn one(app: &Application) -> Result<()> {
    let started = Instant::now();
    install(app.packages)?;
    let mut c = Cluster::start(&format!("app-{}", app.name), ARGS)?;
    let mut it = (app.start)(&c).with_context(|| format!("starting {}", app.name))?;
    for (round, fault) in Fault::ALL.into_iter().enumerate() {
        under(&mut c, it.as_mut(), round, fault).with_context(|| format!("{}, {fault:?}:\n{}", app.name, c.log()))?;
        it.check().with_context(|| format!("{}, after {fault:?}", app.name))?;
    }
    // Nothing of what is compared last is in a cache of the server's.
    c.kill_and_restart(ARGS)?;
    it.check().with_context(|| format!("{}, after all", app.name))?;
    drop(it);
    println!("  {}: {} faults, {:.0} s", app.name, Fault::ALL.len(), started.elapsed().as_secs_f64());
    c.stop()
}

/// One round of work, and what happens in its midst.
fn under(c: &mut Cluster, it: &mut dyn Works, round: usize, fault: Fault) -> Result<()> {
    let (go, wait) = channel();
    let below = &mut *c;
    std::thread::scope(|scope| {
        // Work that fails before its midst sends nothing.
        let happens = scope.spawn(move || wait.recv().map_or(Ok(()), |()| fault.happens(below, ARGS)));
        let worked = it.work(round, &|| {
            let _ = go.send(());
        });
        drop(go);
        let happened = happens.join().map_err(|_| anyhow!("the fault's thread panicked"))?;
        worked.and(happened)
    })?;
    faults::await_whole(c)
}

fn install(packages: &[(&str, &str)]) -> Result<()> {
    let missing: Vec<&str> = packages.iter().filter(|(_, file)| !Path::new(file).exists()).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("installing {}", missing.join(", "));
    apt(&[&["install", "-y", "-q", "--no-install-recommends"], &missing[..]].concat())
}
