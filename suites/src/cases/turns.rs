//! The active ceph-mds, `humboldt` itself and radosgw are killed with -9 in turns, while a client of each interface writes: what was acknowledged is
//! there at the end, whole, and nothing else.

use super::Case;
use super::radosgw::{ACCESS, SECRET};
use crate::clients::{Release::Reef, reef_mds, reef_radosgw};
use crate::cluster::Cluster;
use crate::gateway::{self, Gateway};
use crate::mds::{self, Server};
use crate::run::{root, run, until};
use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[Case { name: "gateways_killed_in_turns", needs: &[Reef], run: || kill_in_turns(3) }];

const STORE: &[&str] = &["--store", "block", "--size", "4G"];
/// How long a client may stand still: a standby takes over when `mds_beacon_grace`, 15 s, are over, and replays.
const STILL: Duration = Duration::from_secs(90);
const CHECK: Duration = Duration::from_secs(600);
/// What each client writes between two kills.
const BETWEEN: usize = 10;

/// A client that prints the number of each thing that was acknowledged, and ends when a file is there.
pub(super) struct Writer {
    child: Child,
    name: &'static str,
    log: PathBuf,
}

impl Writer {
    /// Starts one of a cluster that has that folder.
    pub fn start(dir: &Path, name: &'static str, mut cmd: Command) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let file = File::create(&log)?;
        let child = cmd.env("STOP", Self::stop_file(dir)).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
        Ok(Self { child, name, log })
    }
    /// The file that ends all of that cluster.
    pub fn stop_file(dir: &Path) -> PathBuf {
        dir.join("stop")
    }
    /// How many were acknowledged.
    pub fn count(&self) -> usize {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().filter(|line| line.parse::<usize>().is_ok()).count()
    }
    /// Waits until more are.
    fn goes_on(&mut self, than: usize) -> Result<()> {
        let mut ended = false;
        let goes = until(STILL, || {
            ended = matches!(self.child.try_wait(), Ok(Some(_)));
            ended || self.count() >= than + BETWEEN
        });
        if ended || !goes {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            let end: Vec<&str> = text.lines().rev().take(5).collect();
            bail!("{} does not go on: {end:?}", self.name);
        }
        Ok(())
    }
    /// Waits for its end; how many were acknowledged in all.
    pub fn finish(mut self) -> Result<usize> {
        let mut status = None;
        until(STILL, || {
            status = self.child.try_wait().ok().flatten();
            status.is_some()
        });
        ensure!(status.is_some_and(|s| s.success()), "{} ended with {status:?}", self.name);
        Ok(self.count())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn s3(gateway: &Gateway, step: &str) -> Command {
    let mut cmd = Command::new("python3");
    cmd.arg(root().join("suites/src/cases/s3.py")).arg(format!("127.0.0.1:{}", gateway.port)).args([ACCESS, SECRET, step]);
    cmd
}

fn files(conf: &Path, step: &str, count: usize) -> Result<Command> {
    // Its own name is the library's, which it imports.
    let script = conf.with_file_name("files.py");
    std::fs::copy(root().join("suites/src/cases/cephfs.py"), &script)?;
    let mut cmd = Reef.command(conf, "python3");
    cmd.arg(script).args([step, "/turns", &count.to_string()]);
    Ok(cmd)
}

/// Kills the server of rank 0, waits for the other to serve, and lets it stand by. Servers as they are then, and how long none served.
fn kill_active([active, standby]: [Server; 2]) -> Result<([Server; 2], Duration)> {
    let (conf, name) = (active.conf.clone(), active.name.clone());
    standby.await_standby()?;
    let killed = Instant::now();
    active.kill()?;
    standby.await_active()?;
    let took = killed.elapsed();
    let again = Server::start(&conf, &name)?;
    again.await_standby()?;
    Ok(([standby, again], took))
}

/// So many kills, one after the other.
pub fn kill_in_turns(rounds: u32) -> Result<()> {
    reef_mds()?;
    reef_radosgw()?;
    let mut c = Cluster::start("turns", STORE)?;
    let first = mds::serve(&c.conf)?;
    let mut servers = [first, Server::start(&c.conf, "b")?];
    let mut gateway = Gateway::start(&c.conf, &[])?;
    gateway::admin(&c.conf, &format!("user create --uid=t --display-name=T --access-key={ACCESS} --secret-key={SECRET}"))?;
    let mut objects = Writer::start(&c.dir, "objects", s3(&gateway, "stream"))?;
    let mut written = Writer::start(&c.dir, "files", files(&c.conf, "write", usize::MAX >> 1)?)?;
    let mut slowest = Duration::ZERO;
    for round in 0..rounds {
        let before = (objects.count(), written.count());
        let goes_on = |objects: &mut Writer, written: &mut Writer| objects.goes_on(before.0).and_then(|()| written.goes_on(before.1));
        goes_on(&mut objects, &mut written).with_context(|| format!("before kill {round}: {}", c.log()))?;
        match round % 3 {
            0 => {
                let took;
                (servers, took) = kill_active(servers)?;
                slowest = slowest.max(took);
            }
            1 => c.kill_and_restart(STORE)?,
            _ => gateway = gateway.kill_and_restart()?,
        }
    }
    let before = (objects.count(), written.count());
    objects.goes_on(before.0)?;
    written.goes_on(before.1)?;
    std::fs::write(Writer::stop_file(&c.dir), "")?;
    let (objects, written) = (objects.finish()?, written.finish()?);
    // Nothing of what is compared now is in memory.
    c.kill_and_restart(STORE)?;
    servers[0].await_active()?;
    let out = run(s3(&gateway, "streamed").env("COUNT", objects.to_string()), CHECK)?;
    ensure!(out.ok(), "objects: {}{}", out.stdout, out.stderr);
    let out = run(&mut files(&c.conf, "read", written)?, CHECK)?;
    ensure!(out.ok(), "files: {}{}", out.stdout, out.stderr);
    println!(
        "  {rounds} kills, {objects} objects and {written} files acknowledged, all there; longest time without an active ceph-mds {:.1} s",
        slowest.as_secs_f64()
    );
    drop(gateway);
    drop(servers);
    c.stop()
}
