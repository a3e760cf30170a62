//! Clusters that mix stock daemons of 18.2 or 20.2 with ours: each daemon a process that is killed and started again by its name.
//!
//! Holds the monitors, managers and OSDs, what is asked of them, and the network between them. What must come of it is the suites'.

use crate::clients::{self, Release, Release::Reef, pacific_manager};
use crate::cluster::binary;
use crate::folders;
use crate::netns::{self, Net};
use crate::persistent_client::PersistentClient;
use crate::run::{root, run, until, words};
use anyhow::{Context, Result, bail, ensure};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// How long any state may take to come; under load stock daemons are slow.
pub const PATIENCE: Duration = Duration::from_secs(90);
pub const COMMAND: Duration = Duration::from_secs(90);
/// How long one look at a state may take. A stock client that comes while the monitors elect can hang for good: the next one doesn't.
pub const LOOK: Duration = Duration::from_secs(15);

/// How long objects that are large may take.
const LARGE: Duration = Duration::from_secs(300);

/// Daemons of one cluster, each with the way to start it again.
pub struct Daemons {
    pub dir: PathBuf,
    pub conf: PathBuf,
    /// Of stock daemons where none is named, and of the clients that ask.
    release: Release,
    running: BTreeMap<String, Child>,
    /// How each daemon that ever ran is started.
    ways: BTreeMap<String, Command>,
    /// Where they run, if not in this machine's own network.
    pub net: Option<Net>,
    /// The client that answers what waits for a state, once there is one.
    persistent_client: RefCell<Option<PersistentClient>>,
}

impl Daemons {
    pub fn new(name: &str) -> Result<Self> {
        Self::of(Reef, name)
    }
    pub fn of(release: Release, name: &str) -> Result<Self> {
        clients::daemons(release)?;
        let dir = folders::fresh(name)?;
        for sub in ["log", "run"] {
            std::fs::create_dir_all(dir.join(sub))?;
        }
        Ok(Self {
            conf: dir.join("ceph.conf"),
            dir,
            release,
            running: BTreeMap::new(),
            ways: BTreeMap::new(),
            net: None,
            persistent_client: RefCell::default(),
        })
    }
    pub fn spawn(&mut self, name: &str, cmd: Command) -> Result<()> {
        self.ways.insert(name.into(), cmd);
        self.start(name)
    }
    /// Starts one that ran before, in the same way.
    pub fn start(&mut self, name: &str) -> Result<()> {
        let log = || std::fs::OpenOptions::new().create(true).append(true).open(self.dir.join("log").join(format!("{name}.out")));
        let (out, err) = (log()?, log()?);
        let cmd = self.ways.get_mut(name).with_context(|| format!("{name} never ran"))?;
        let child = cmd.stdin(Stdio::null()).stdout(out).stderr(err).spawn().with_context(|| format!("starting {name}"))?;
        self.running.insert(name.into(), child);
        Ok(())
    }
    pub fn pid(&self, name: &str) -> Option<u32> {
        self.running.get(name).map(Child::id)
    }
    /// The command where this daemon, or client, lives.
    pub fn place(&self, name: &str, cmd: Command) -> Command {
        let Some(net) = &self.net else { return cmd };
        match name.strip_prefix("osd.").and_then(|id| id.parse().ok()) {
            Some(node) => Net::inside(&net.node(node), &cmd),
            None => Net::inside(&net.hub(), &cmd),
        }
    }
    /// `mon.a`, `mgr.x` or `osd.1` of stock.
    pub fn stock(&mut self, name: &str, conf: &Path) -> Result<()> {
        self.stock_of(self.release, name, conf)
    }
    pub fn stock_of(&mut self, release: Release, name: &str, conf: &Path) -> Result<()> {
        let (kind, id) = name.split_once('.').context("a daemon's name")?;
        let mut cmd = release.command(conf, &format!("ceph-{kind}"));
        cmd.args(["-f", "-i", id]);
        self.spawn(name, self.place(name, cmd))
    }
    /// Makes an OSD of ours and starts it.
    pub fn new_ours(&mut self, id: u32, class: &str, store: &[&str]) -> Result<()> {
        let data = self.dir.join(format!("osd.{id}"));
        let uuid = register(self, id, &data)?;
        let mut mkfs = Command::new(binary());
        mkfs.arg("osd").arg("--conf").arg(&self.conf).args([
            "--id",
            &id.to_string(),
            "--mkfs",
            "--osd-uuid",
            &uuid,
            "--device-class",
            class,
        ]);
        mkfs.args(store);
        let out = run(&mut self.place(&format!("osd.{id}"), mkfs), COMMAND)?;
        ensure!(out.ok(), "mkfs: {out:?}");
        self.ours(id, &[])
    }
    pub fn ours(&mut self, id: u32, args: &[&str]) -> Result<()> {
        let mut cmd = Command::new(binary());
        cmd.arg("osd").arg("--conf").arg(&self.conf).args(["--id", &id.to_string()]).args(args);
        let name = format!("osd.{id}");
        self.spawn(&name, self.place(&name, cmd))
    }
    /// `STOP`, `CONT` and the like.
    pub fn signal(&self, name: &str, signal: &str) -> Result<()> {
        let pid = self.pid(name).with_context(|| format!("{name} does not run"))?;
        ensure!(Command::new("kill").arg(format!("-{signal}")).arg(pid.to_string()).status()?.success(), "kill -{signal} {name}");
        Ok(())
    }
    pub fn kill(&mut self, name: &str) -> Result<()> {
        let mut child = self.running.remove(name).with_context(|| format!("{name} does not run"))?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }
    /// SIGTERM, and it must end well.
    pub fn end(&mut self, name: &str) -> Result<()> {
        let mut child = self.running.remove(name).with_context(|| format!("{name} does not run"))?;
        Command::new("kill").arg(child.id().to_string()).status()?;
        if !until(Duration::from_secs(20), || matches!(child.try_wait(), Ok(Some(_)))) {
            let _ = child.kill();
            bail!("{name} did not end within 20 s of SIGTERM");
        }
        ensure!(child.wait()?.success(), "{name} ended badly after SIGTERM");
        Ok(())
    }
    pub fn said(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.join("log").join(format!("{name}.out"))).unwrap_or_default()
    }

    /// A command line of a client of the cluster's release that must succeed; its standard output.
    pub fn must(&self, line: &str) -> Result<String> {
        self.must_within(line, COMMAND)
    }
    pub fn must_within(&self, line: &str, limit: Duration) -> Result<String> {
        let words = words(line);
        let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let mut cmd = self.release.command(&self.conf, &words[0]);
        cmd.args(args);
        let out = run(&mut self.place("client", cmd), limit)?;
        ensure!(out.ok(), "`{line}` ended with {}:\n{}{}", out.code, out.stdout, out.stderr);
        Ok(out.stdout)
    }
    /// The same for a look at a state, `ceph …`: by a client that is there already.
    fn look(&self, line: &str, limit: Duration) -> Result<String> {
        if !line.starts_with("ceph ") || line.starts_with("ceph tell ") {
            return self.must_within(line, limit);
        }
        let mut persistent_client = self.persistent_client.borrow_mut();
        if persistent_client.is_none() {
            *persistent_client = Some(PersistentClient::start(self.stay("ask"))?);
        }
        match persistent_client.as_mut().and_then(|l| l.ask(line, limit)) {
            Some(answer) => answer,
            None => {
                *persistent_client = None;
                bail!("`{line}` is not answered within {} s", limit.as_secs())
            }
        }
    }
    /// What stay.py does with these words.
    fn stay(&self, args: &str) -> Command {
        let script = self.dir.join("stay.py");
        // Where the release's Python sees it, too.
        if !script.exists() {
            std::fs::copy(root().join("suites/src/stay.py"), &script).expect("a folder of ours");
        }
        let mut cmd = self.release.command(&self.conf, "/usr/bin/python3");
        cmd.arg(script).args(args.split(' '));
        self.place("client", cmd)
    }
    pub fn json(&self, line: &str) -> Result<serde_json::Value> {
        serde_json::from_str(&self.look(&format!("{line} -f json"), COMMAND)?).with_context(|| line.to_string())
    }
    /// Waits until the output of a command pleases; an error shows the last one.
    pub fn wait(&self, line: &str, what: &str, good: impl Fn(&str) -> bool) -> Result<()> {
        let mut last = String::new();
        let found = until(PATIENCE, || {
            last = self.look(line, LOOK).unwrap_or_else(|e| format!("{e:#}"));
            good(&last)
        });
        ensure!(found, "{what} did not come; `{line}` says:\n{last}{}", self.last_words());
        Ok(())
    }
    /// What daemons that ended by themselves said last.
    pub fn last_words(&self) -> String {
        let ended = |child: &Child| !Path::new(&format!("/proc/{}/exe", child.id())).exists();
        let words = |name: &String| format!("\n{name} ended: {}", self.said(name).lines().last().unwrap_or_default());
        self.running.iter().filter(|(_, child)| ended(child)).map(|(name, _)| words(name)).collect()
    }
    pub fn wait_pgs(&self, n: usize) -> Result<()> {
        let want = format!("{n} pgs: {n} active+clean;");
        self.wait("ceph pg stat", &want, |out| out.trim_start().starts_with(&want))
    }
    pub fn wait_up(&self, n: usize) -> Result<()> {
        let want = format!(": {n} up ");
        self.wait("ceph osd stat", &format!("{n} OSDs up"), |out| out.contains(&want))
    }
    /// Writes objects named after `tag`, each with its own content.
    pub fn write(&self, pool: &str, tag: &str, count: usize) -> Result<()> {
        self.objects("write", pool, tag, count)
    }
    pub fn verify(&self, pool: &str, tag: &str, count: usize) -> Result<()> {
        self.objects("verify", pool, tag, count)
    }
    /// Objects that are large in each way: `large` makes them, `changed` changes them beside a snapshot, `whole` reads them and the
    /// snapshot.
    pub fn large_objects(&self, verb: &str, pool: &str) -> Result<()> {
        let out = run(&mut self.stay(&format!("{verb} {pool}")), LARGE)?;
        ensure!(out.ok(), "{verb} in {pool} ended with {}: {}", out.code, out.stderr);
        Ok(())
    }
    fn objects(&self, verb: &str, pool: &str, tag: &str, count: usize) -> Result<()> {
        let out = run(&mut self.stay(&format!("{verb} {pool} {tag} {count}")), COMMAND)?;
        ensure!(out.ok(), "{verb} of {pool}/{tag} ended with {}: {}", out.code, out.stderr);
        Ok(())
    }
    /// A pool of one copy on the OSDs of a device class.
    pub fn pool_on(&self, class: &str, pool: &str, pg_num: u32) -> Result<()> {
        self.must(&format!("ceph osd crush rule create-replicated on-{class} default osd {class}"))?;
        self.must(&format!("ceph osd pool create {pool} {pg_num} {pg_num} replicated on-{class}"))?;
        self.must(&format!("ceph osd pool application enable {pool} test"))?;
        Ok(())
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for child in self.running.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Ports that no program listens on now. Below those that the kernel gives by itself: one that connects meanwhile doesn't take one.
pub fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // Each is given once: the daemon that got it may not listen yet.
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + u16::try_from(std::process::id() % 20_000).expect("small");
    let next = std::iter::repeat_with(|| first + GIVEN.fetch_add(1, Ordering::Relaxed));
    let mut free = next.take_while(|port| *port < 32_000).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    let mut ports = [0; N];
    for port in &mut ports {
        *port = free.next().context("no port is free")?;
    }
    Ok(ports)
}

pub fn uuid() -> Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_string())
}

/// What an operator does for an OSD before its mkfs: number and key known to the cluster, keyring in the data folder. Its uuid.
pub fn register(d: &Daemons, id: u32, data: &Path) -> Result<String> {
    let (uuid, key) = (uuid()?, d.must("ceph-authtool --gen-print-key")?);
    let key = key.trim();
    let secrets = d.dir.join("new.json");
    std::fs::write(&secrets, format!("{{\"cephx_secret\": \"{key}\"}}"))?;
    d.must(&format!("ceph osd new {uuid} {id} -i {}", secrets.display()))?;
    std::fs::create_dir_all(data)?;
    std::fs::write(data.join("keyring"), format!("[osd.{id}]\n\tkey = {key}\n"))?;
    Ok(uuid)
}

/// What a stock control plane is like.
pub struct Plane {
    pub monitors: usize,
    /// Of which release the monitors are, and OSDs and clients where no other is named.
    pub release: Release,
    /// Of which release the manager is; 18.2's has no Python modules here.
    pub manager: Release,
    /// Monitors and manager think and report each second, instead of each five: a case that waits for what they say waits less.
    pub brisk: bool,
    /// Connections of every kind in secure mode, instead of each as its kind has it by default.
    pub secure: bool,
    /// More lines for `[global]`.
    pub conf: &'static str,
    /// Networks of its own, with one for each of so many OSDs.
    pub nodes: usize,
}

impl Default for Plane {
    fn default() -> Self {
        Self { monitors: 3, release: Reef, manager: Reef, brisk: true, secure: true, conf: "", nodes: 0 }
    }
}

/// Stock monitors and a stock manager. Everything with cephx.
pub fn stock_control_plane(name: &str, plane: &Plane) -> Result<Daemons> {
    let mut d = Daemons::of(plane.release, name)?;
    if plane.manager == Release::Pacific {
        pacific_manager()?;
    }
    let (at, fsid) = (d.dir.display().to_string(), uuid()?);
    let ids = &["a", "b", "c"][..plane.monitors];
    let (hosts, networks): (Vec<String>, String) = if plane.nodes > 0 {
        d.net = Some(Net::new(plane.nodes)?);
        let networks = format!("public network = 10.77.0.0/16\ncluster network = 10.78.0.0/16\n[mgr]\npublic addr = {}\n", netns::MGR);
        (netns::MONS[..plane.monitors].iter().map(|ip| format!("[v2:{ip}:3300]")).collect(), networks)
    } else {
        let ports = free_ports::<3>()?;
        let networks = "public network = 127.0.0.0/8\ncluster network = 127.0.0.0/8\n".to_string();
        (ports[..plane.monitors].iter().map(|p| format!("[v2:127.0.0.1:{p}]")).collect(), networks)
    };
    let kinds = ["cluster", "service", "client", "mon cluster", "mon service", "mon client"].iter().filter(|_| plane.secure);
    let modes: String = kinds.map(|m| format!("ms {m} mode = secure\n")).collect();
    let auth: String = ["cluster", "service", "client"].iter().map(|s| format!("auth {s} required = cephx\n")).collect();
    let (pace, clients) = if plane.brisk {
        let daemons = "mgr stats period = 1\nmgr tick period = 1\nmon tick interval = 1\npaxos propose interval = 0.1\n";
        (daemons, "[client]\nmon client hunt interval = 1\n")
    } else {
        ("", "")
    };
    std::fs::write(
        &d.conf,
        format!(
            "[global]\nfsid = {fsid}\nmon host = {}\n{auth}{modes}keyring = {at}/keyring\n\
             run dir = {at}/run\nadmin socket = {at}/run/$name.asok\nlog file = {at}/log/$name.log\nmon cluster log file = {at}/log/cluster.log\n\
             mon data = {at}/mon/$id\nmgr data = {at}/mgr/$id\nosd data = {at}/osd.$id\ncrash dir = {at}\nosd pool default size = 1\n\
             osd pool default min size = 1\nosd pool default pg autoscale mode = off\nosd crush chooseleaf type = 0\nmon allow pool size one = true\n\
             mon allow pool delete = true\nmon warn on pool no redundancy = false\nauth allow insecure global id reclaim = false\n\
             memstore device bytes = 1073741824\nbluestore block size = 2147483648\nmon data avail crit = 1\nmon data avail warn = 2\n{pace}{}{networks}{clients}",
            hosts.join(","),
            plane.conf
        ),
    )?;
    d.must(&format!("ceph-authtool --create-keyring {at}/keyring --gen-key -n mon. --cap mon 'allow *'"))?;
    for (who, caps) in [
        ("client.admin", "--cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *' --cap mds 'allow *'"),
        ("mgr.x", "--cap mon 'allow profile mgr' --cap osd 'allow *'"),
    ] {
        d.must(&format!("ceph-authtool {at}/keyring --gen-key -n {who} {caps}"))?;
    }
    let names: String = ids.iter().zip(&hosts).map(|(m, host)| format!(" --addv {m} {host}")).collect();
    d.must(&format!("monmaptool --create --fsid {fsid}{names} {at}/monmap"))?;
    std::fs::create_dir_all(d.dir.join("mgr/x"))?;
    let conf = d.conf.clone();
    for m in ids {
        std::fs::create_dir_all(d.dir.join("mon").join(m))?;
        d.must(&format!("ceph-mon --mkfs -i {m} --monmap {at}/monmap --keyring {at}/keyring"))?;
        d.stock(&format!("mon.{m}"), &conf)?;
    }
    d.stock_of(plane.manager, "mgr.x", &conf)?;
    let quorum = format!("\"quorum\":[{}]", (0..ids.len()).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    d.wait("ceph quorum_status", "a quorum", |out| out.contains(&quorum))?;
    Ok(d)
}

/// Makes a stock OSD beside the others and starts it.
pub fn stock_osd(d: &mut Daemons, id: u32, store: &str) -> Result<()> {
    stock_osd_of(d.release, d, id, store)
}
/// The same of any release that the monitors' can have beside them.
pub fn stock_osd_of(release: Release, d: &mut Daemons, id: u32, store: &str) -> Result<()> {
    let data = d.dir.join(format!("osd.{id}"));
    let uuid = register(d, id, &data)?;
    let conf = d.dir.join(format!("osd.{id}.conf"));
    let theirs = std::fs::read_to_string(&d.conf)?;
    std::fs::write(&conf, format!("{theirs}\n[osd]\nosd objectstore = {store}\nkeyring = {}/keyring\n", data.display()))?;
    let out = release.run(&conf, "ceph-osd", &["--mkfs", "-i", &id.to_string(), "--osd-uuid", &uuid], COMMAND)?;
    ensure!(out.ok(), "ceph-osd --mkfs: {out:?}");
    d.stock_of(release, &format!("osd.{id}"), &conf)
}
