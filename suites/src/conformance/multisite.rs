//! Two zones of a zonegroup, each a cluster with a stock radosgw: what is put, changed and removed at either is at the other, also when gateways and
//! clusters are killed with -9 in the middle.
//!
//! Two pairs: ours and a stock cluster, ours and ours; with a stock cluster asked for, two stock ones. `cases/s3.py` is the client.

use super::runs::Runs;
use super::server::Server;
use super::{Manner, Run};
use crate::cases::{ACCESS, SECRET};
use crate::clients::{Release, radosgw};
use crate::gateway::{Gateway, admin_of};
use crate::run::{Output, ended, root, run, until};
use crate::stock::free_ports;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub const NAME: &str = "multisite";
/// How long the other zone may take: a gateway that was killed holds its leases for a while.
const PATIENCE: Duration = Duration::from_secs(240);
const STEP: Duration = Duration::from_secs(300);
/// Objects that must be acknowledged between two kills.
const BETWEEN: usize = 10;
/// Quick looks at the other zone, and few shards of the logs: each costs both clusters something all the time.
const OPTIONS: &str = "--rgw-data-log-num-shards=8 --rgw-md-log-max-shards=8 --rgw-data-sync-poll-interval=2 --rgw-meta-sync-poll-interval=2 \
                       --rgw-sync-lease-period=10 --rgw-data-log-window=2";
/// The user by whom zones ask each other.
const SYSTEM: &str = "--access-key=systemaccess --secret=systemsecret";

/// A cluster and its gateway.
struct Zone {
    name: &'static str,
    of: &'static str,
    release: Release,
    server: Server,
    port: u16,
    gateway: Option<Gateway>,
}

impl Zone {
    fn start(name: &'static str, release: Release, manner: Manner) -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let folder = format!("multisite-{}-{}-{name}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let of = if manner.stock.is_some() { "stock" } else { "ours" };
        let [port] = free_ports()?;
        Ok(Self { name, of, release, server: Server::start(&folder, manner, None)?, port, gateway: None })
    }
    fn admin(&self, line: &str) -> Result<String> {
        admin_of(self.release, self.server.conf(), &format!("{line} {OPTIONS}"))
    }
    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
    fn serve(&mut self) -> Result<()> {
        let zone = format!("--rgw-zone={}", self.name);
        let options: Vec<&str> = OPTIONS.split_whitespace().chain([zone.as_str()]).collect();
        self.gateway = Some(Gateway::start_of(self.release, self.server.conf(), self.port, &options)?);
        Ok(())
    }
    fn gateway(&self) -> &Gateway {
        self.gateway.as_ref().expect("it serves from the start on")
    }
    /// `s3.py` with that step.
    fn client(&self, step: &str) -> Command {
        let mut cmd = Command::new("python3");
        cmd.arg(root().join("suites/src/cases/s3.py")).arg(format!("127.0.0.1:{}", self.port)).args([ACCESS, SECRET, step]);
        cmd
    }
    /// What it prints.
    fn says(&self, cmd: &mut Command) -> Result<String> {
        let out = run(cmd, STEP)?;
        ensure!(out.ok(), "at {}: {cmd:?}: {}{}; radosgw: {}", self.name, out.stdout, out.stderr, self.gateway().last_words());
        Ok(out.stdout)
    }
    fn step(&self, step: &str) -> Result<()> {
        self.says(&mut self.client(step)).map(drop)
    }
    /// Waits until a look at it pleases.
    fn comes(&self, look: impl Fn(&Self) -> Result<()>) -> Result<()> {
        let mut last = Ok(());
        until(PATIENCE, || {
            last = look(self);
            last.is_ok()
        });
        last.with_context(|| format!("zone {} has not caught up: {}", self.name, self.admin("sync status").unwrap_or_default()))
    }
}

struct Zones {
    zones: [Zone; 2],
}

impl Zones {
    /// A realm with both zones, and a user.
    fn start(release: Release, [a, b]: [Manner; 2]) -> Result<Self> {
        let mut zones = [Zone::start("a", release, a)?, Zone::start("b", release, b)?];
        let [a, b] = &mut zones;
        a.admin("realm create --rgw-realm=r --default")?;
        a.admin(&format!("zonegroup create --rgw-zonegroup=g --endpoints={} --rgw-realm=r --master --default", a.url()))?;
        a.admin(&format!("zone create --rgw-zonegroup=g --rgw-zone=a --endpoints={} --master --default {SYSTEM}", a.url()))?;
        a.admin(&format!("user create --uid=zones --display-name=zones --system {SYSTEM} --rgw-zone=a"))?;
        a.admin("period update --commit")?;
        a.serve()?;
        b.admin(&format!("realm pull --url={} {SYSTEM} --default", a.url()))?;
        b.admin(&format!("zone create --rgw-zonegroup=g --rgw-zone=b --endpoints={} --default {SYSTEM}", b.url()))?;
        b.admin("period update --commit")?;
        b.serve()?;
        a.admin(&format!("user create --uid=t --display-name=T --access-key={ACCESS} --secret-key={SECRET}"))?;
        b.comes(|b| b.admin("user info --uid=t").map(drop))?;
        Ok(Self { zones })
    }
    /// A bucket with some of everything, made at the one zone, is the same at the other: keys, versions, marks of deletion, bytes.
    fn same(&self) -> Result<()> {
        let [a, b] = &self.zones;
        let tell = |zone: &Zone| -> Result<String> {
            let said = zone.says(&mut zone.client("tell"))?;
            // Uploads under way are the zone's own.
            Ok(said.lines().map(|line| line.split(" uploads ").next().unwrap_or_default()).collect::<Vec<_>>().join("\n"))
        };
        b.comes(|b| {
            let (one, other) = (tell(a)?, tell(b)?);
            ensure!(one == other, "at a:\n{one}\nat b:\n{other}");
            Ok(())
        })
    }
    fn everything(&mut self) -> Result<()> {
        self.zones[0].step("versioned")?;
        self.same()
    }
    fn more(&mut self) -> Result<()> {
        self.zones[0].step("grow")?;
        self.same()
    }
    /// What is made at the second zone, where no bucket can be made without the first.
    fn back(&mut self) -> Result<()> {
        self.zones[1].step("kept")?;
        self.zones[0].comes(|a| a.step("check"))
    }
    /// Changed at the one, what the other made.
    fn changed(&mut self) -> Result<()> {
        self.zones[0].step("halve")?;
        self.zones[1].comes(|b| b.step("halved"))
    }
    /// Gateways and clusters are killed with -9 in turns while objects are put at the first zone.
    fn killed(&mut self) -> Result<()> {
        let dir = self.zones[0].server.dir().to_path_buf();
        let mut writer = Writer::start(self.zones[0].client("stream"), dir.join("stream.log"), dir.join("stream.stop"))?;
        for kill in 0..4 {
            writer.goes_on().with_context(|| format!("before kill {kill}"))?;
            let zone = &mut self.zones[1 - kill % 2];
            if kill < 2 {
                let gateway = zone.gateway.take().expect("it serves");
                zone.gateway = Some(gateway.kill_and_restart()?);
            } else {
                zone.server.kill_and_restart()?;
            }
        }
        writer.goes_on().context("after the last kill")?;
        let count = writer.finish()?.to_string();
        for zone in &self.zones {
            zone.comes(|zone| zone.says(zone.client("streamed").env("COUNT", &count)).map(drop))?;
        }
        Ok(())
    }
    /// Neither gateway has anything left to fetch.
    fn caught_up(&mut self) -> Result<()> {
        self.zones.iter().try_for_each(|zone| {
            zone.comes(|zone| {
                let status = zone.admin("sync status")?;
                let metadata = status.contains("metadata is caught up with master") || status.contains("no sync (zone is master)");
                ensure!(metadata && status.contains("data is caught up with source"), "{status}");
                ensure!(!status.contains("behind") && !status.contains("error"), "{status}");
                Ok(())
            })
        })
    }
}

/// A client that prints a line for each object that was acknowledged, until it is told to stop.
struct Writer {
    child: Child,
    log: PathBuf,
    stop: PathBuf,
}

impl Writer {
    fn start(mut cmd: Command, log: PathBuf, stop: PathBuf) -> Result<Self> {
        let file = File::create(&log)?;
        let child = cmd.env("STOP", &stop).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
        Ok(Self { child, log, stop })
    }
    fn count(&self) -> usize {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().filter(|line| line.parse::<usize>().is_ok()).count()
    }
    fn said(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().rev().take(3).collect::<Vec<_>>().join("; ")
    }
    fn goes_on(&mut self) -> Result<()> {
        let due = self.count() + BETWEEN;
        let mut gone = false;
        let goes = until(PATIENCE, || {
            gone = ended(&mut self.child);
            gone || self.count() >= due
        });
        ensure!(goes && !gone, "objects are not put any more: {}", self.said());
        Ok(())
    }
    /// How many were acknowledged.
    fn finish(mut self) -> Result<usize> {
        std::fs::write(&self.stop, "")?;
        ensure!(until(PATIENCE, || ended(&mut self.child)) && self.child.wait()?.success(), "objects could not be put: {}", self.said());
        Ok(self.count())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

type Step = (&'static str, fn(&mut Zones) -> Result<()>);

const STEPS: [Step; 6] = [
    ("a bucket of everything, from the first zone", Zones::everything),
    ("its changes", Zones::more),
    ("a bucket from the second zone", Zones::back),
    ("changed and removed at the first", Zones::changed),
    ("kill -9 of both gateways and both clusters in the middle", Zones::killed),
    ("sync status says that all is caught up", Zones::caught_up),
];

fn run_pair(release: Release, manners: [Manner; 2], steps: &[Step]) -> Result<Runs> {
    let mut zones = Zones::start(release, manners)?;
    let mut runs = Runs::new(&format!("radosgw, zones {} and {}", zones.zones[0].of, zones.zones[1].of));
    let nothing = Output { code: 0, stdout: String::new(), stderr: String::new() };
    for (case, step) in steps {
        let started = Instant::now();
        let against = step(&mut zones).err().map(|e| format!("{e:#}").replace('\n', " "));
        runs.add((*case).into(), started.elapsed(), against, &nothing);
    }
    // Of zones that failed the folders are looked at.
    if runs.outcome.failed().count() == 0 {
        for mut zone in zones.zones {
            zone.server.stands("two zones")?;
            drop(zone.gateway);
            zone.server.stop()?;
        }
    }
    Ok(runs)
}

/// Both pairs, whole.
pub fn multisite(release: Release, manner: Manner) -> Result<Run> {
    radosgw(release)?;
    let started = Instant::now();
    // What is killed with -9 keeps its objects on a device.
    let manner = Manner { store: "block", ..manner };
    let stock = Manner { stock: Some(release), ..manner };
    let mut outcomes = vec![run_pair(release, [manner, stock], &STEPS)?.end()];
    if manner.stock.is_none() {
        outcomes.push(run_pair(release, [manner, manner], &STEPS)?.end());
    }
    Ok(Run { section: manner.section(NAME, release), outcomes, took: started.elapsed() })
}

/// What is put at one zone of two of ours is at the other, for the tests.
pub fn short() -> Result<()> {
    radosgw(Release::Reef)?;
    let manner = Manner { store: "block", ..Manner::default() };
    let bad = run_pair(Release::Reef, [manner, manner], &STEPS[..1])?.end().unexpected();
    ensure!(bad.is_empty(), "{}", bad.join("\n"));
    Ok(())
}
