//! Among stock daemons of 18.2: our OSDs under their monitors and manager, their OSDs under our monitor. Everything with cephx, and in secure
//! mode between daemons.
//!
//! Each daemon is killed and started again; what was answered is there afterwards, unless its only copy was in memory. (18.2's manager loads
//! no Python module in these chroots; what it does itself, splits and merges above all, is what is looked at.)

use super::Case;
use crate::clients::{Release::Reef, SHARED, reef_daemons};
use crate::cluster::binary;
use crate::run::{run, until, words};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "stock_daemons_with_our_osds", needs: &[Reef], run: our_osds },
    Case { name: "stock_daemons_under_our_monitor", needs: &[Reef], run: their_osds },
];

/// How long any state may take to come; under load stock daemons are slow.
const PATIENCE: Duration = Duration::from_secs(90);
const COMMAND: Duration = Duration::from_secs(90);
/// How long one look at a state may take. A stock client that comes while the monitors elect can hang for good: the next one doesn't.
const LOOK: Duration = Duration::from_secs(15);

/// Daemons of one cluster, each with the way to start it again.
struct Daemons {
    dir: PathBuf,
    conf: PathBuf,
    running: BTreeMap<String, Child>,
}

impl Daemons {
    fn new(name: &str) -> Result<Self> {
        reef_daemons()?;
        let dir = Path::new(SHARED).join(name);
        let _ = std::fs::remove_dir_all(&dir);
        for sub in ["log", "run"] {
            std::fs::create_dir_all(dir.join(sub))?;
        }
        Ok(Self { conf: dir.join("ceph.conf"), dir, running: BTreeMap::new() })
    }
    fn spawn(&mut self, name: &str, mut cmd: Command) -> Result<()> {
        let log = || std::fs::OpenOptions::new().create(true).append(true).open(self.dir.join("log").join(format!("{name}.out")));
        let child = cmd.stdin(Stdio::null()).stdout(log()?).stderr(log()?).spawn().with_context(|| format!("starting {name}"))?;
        self.running.insert(name.into(), child);
        Ok(())
    }
    /// `mon.a`, `mgr.x` or `osd.1` of stock.
    fn stock(&mut self, name: &str, conf: &Path) -> Result<()> {
        let (kind, id) = name.split_once('.').context("a daemon's name")?;
        let mut cmd = Reef.command(conf, &format!("ceph-{kind}"));
        cmd.args(["-f", "-i", id]);
        self.spawn(name, cmd)
    }
    fn ours(&mut self, id: u32, args: &[&str]) -> Result<()> {
        let mut cmd = Command::new(binary());
        cmd.arg("osd").arg("--conf").arg(&self.conf).args(["--id", &id.to_string()]).args(args);
        self.spawn(&format!("osd.{id}"), cmd)
    }
    fn kill(&mut self, name: &str) -> Result<()> {
        let mut child = self.running.remove(name).with_context(|| format!("{name} does not run"))?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }
    /// SIGTERM, and it must end well.
    fn end(&mut self, name: &str) -> Result<()> {
        let mut child = self.running.remove(name).with_context(|| format!("{name} does not run"))?;
        Command::new("kill").arg(child.id().to_string()).status()?;
        if !until(Duration::from_secs(20), || matches!(child.try_wait(), Ok(Some(_)))) {
            let _ = child.kill();
            bail!("{name} did not end within 20 s of SIGTERM");
        }
        ensure!(child.wait()?.success(), "{name} ended badly after SIGTERM");
        Ok(())
    }
    fn said(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.join("log").join(format!("{name}.out"))).unwrap_or_default()
    }

    /// A command line of a client of 18.2 that must succeed; its standard output.
    fn must(&self, line: &str) -> Result<String> {
        self.must_within(line, COMMAND)
    }
    fn must_within(&self, line: &str, limit: Duration) -> Result<String> {
        let words = words(line);
        let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let out = Reef.run(&self.conf, &words[0], &args, limit)?;
        ensure!(out.ok(), "`{line}` ended with {}:\n{}{}", out.code, out.stdout, out.stderr);
        Ok(out.stdout)
    }
    fn json(&self, line: &str) -> Result<serde_json::Value> {
        serde_json::from_str(&self.must(&format!("{line} -f json"))?).with_context(|| line.to_string())
    }
    /// Waits until the output of a command pleases; an error shows the last one.
    fn wait(&self, line: &str, what: &str, good: impl Fn(&str) -> bool) -> Result<()> {
        let mut last = String::new();
        let found = until(PATIENCE, || {
            last = self.must_within(line, LOOK).unwrap_or_else(|e| format!("{e:#}"));
            good(&last)
        });
        ensure!(found, "{what} did not come; `{line}` says:\n{last}{}", self.last_words());
        Ok(())
    }
    /// What daemons that ended by themselves said last.
    fn last_words(&self) -> String {
        let ended = |child: &Child| !Path::new(&format!("/proc/{}/exe", child.id())).exists();
        let words = |name: &String| format!("\n{name} ended: {}", self.said(name).lines().last().unwrap_or_default());
        self.running.iter().filter(|(_, child)| ended(child)).map(|(name, _)| words(name)).collect()
    }
    fn wait_pgs(&self, n: usize) -> Result<()> {
        let want = format!("{n} pgs: {n} active+clean;");
        self.wait("ceph pg stat", &want, |out| out.trim_start().starts_with(&want))
    }
    fn wait_up(&self, n: usize) -> Result<()> {
        let want = format!(": {n} up ");
        self.wait("ceph osd stat", &format!("{n} OSDs up"), |out| out.contains(&want))
    }
    /// Writes objects named after `tag`, each with its own content.
    fn write(&self, pool: &str, tag: &str, count: usize) -> Result<()> {
        for i in 0..count {
            let file = self.dir.join("object");
            std::fs::write(&file, content(tag, i))?;
            self.must(&format!("rados -p {pool} put {tag}-{i} {}", file.display()))?;
        }
        Ok(())
    }
    fn verify(&self, pool: &str, tag: &str, count: usize) -> Result<()> {
        for i in 0..count {
            let file = self.dir.join("object");
            self.must(&format!("rados -p {pool} get {tag}-{i} {}", file.display()))?;
            ensure!(std::fs::read(&file)? == content(tag, i), "{pool}/{tag}-{i} is not what was written");
        }
        Ok(())
    }
    /// A pool of one copy on the OSDs of a device class.
    fn pool_on(&self, class: &str, pool: &str, pg_num: u32) -> Result<()> {
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

fn content(tag: &str, i: usize) -> Vec<u8> {
    format!("{tag} {i} ").repeat(500 + i * 37).into_bytes()
}

/// Ports that nobody listens on now. Below those that the kernel gives by itself: whoever connects meanwhile doesn't take one.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let first = 10_000 + u16::try_from(std::process::id() % 20_000).expect("small");
    let mut free = (first..32_000).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    let mut ports = [0; N];
    for port in &mut ports {
        *port = free.next().context("no port is free")?;
    }
    Ok(ports)
}

fn uuid() -> Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_string())
}

/// What an operator does for an OSD before its mkfs: number and key known to the cluster, keyring in the data folder. Its uuid.
fn register(d: &Daemons, id: u32, data: &Path) -> Result<String> {
    let (uuid, key) = (uuid()?, d.must("ceph-authtool --gen-print-key")?);
    let key = key.trim();
    let secrets = d.dir.join("new.json");
    std::fs::write(&secrets, format!("{{\"cephx_secret\": \"{key}\"}}"))?;
    d.must(&format!("ceph osd new {uuid} {id} -i {}", secrets.display()))?;
    std::fs::create_dir_all(data)?;
    std::fs::write(data.join("keyring"), format!("[osd.{id}]\n\tkey = {key}\n"))?;
    Ok(uuid)
}

/// Three stock monitors and a stock manager.
fn stock_control_plane(name: &str) -> Result<Daemons> {
    let mut d = Daemons::new(name)?;
    let (at, fsid) = (d.dir.display().to_string(), uuid()?);
    let ports = free_ports::<3>()?;
    let hosts: Vec<String> = ports.iter().map(|p| format!("[v2:127.0.0.1:{p}]")).collect();
    let modes: String = ["cluster", "service", "client", "mon cluster", "mon service", "mon client"]
        .iter()
        .map(|m| format!("ms {m} mode = secure\n"))
        .collect();
    let auth: String = ["cluster", "service", "client"].iter().map(|s| format!("auth {s} required = cephx\n")).collect();
    std::fs::write(
        &d.conf,
        format!(
            "[global]\nfsid = {fsid}\nmon host = {}\npublic network = 127.0.0.0/8\ncluster network = 127.0.0.0/8\n{auth}{modes}keyring = {at}/keyring\n\
             run dir = {at}/run\nadmin socket = {at}/run/$name.asok\nlog file = {at}/log/$name.log\nmon cluster log file = {at}/log/cluster.log\n\
             mon data = {at}/mon/$id\nmgr data = {at}/mgr/$id\nosd data = {at}/osd.$id\ncrash dir = {at}\nosd pool default size = 1\n\
             osd pool default min size = 1\nosd pool default pg autoscale mode = off\nosd crush chooseleaf type = 0\nmon allow pool size one = true\n\
             mon allow pool delete = true\nmon warn on pool no redundancy = false\nauth allow insecure global id reclaim = false\n\
             memstore device bytes = 1073741824\n",
            hosts.join(",")
        ),
    )?;
    d.must(&format!("ceph-authtool --create-keyring {at}/keyring --gen-key -n mon. --cap mon 'allow *'"))?;
    for (who, caps) in [
        ("client.admin", "--cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'"),
        ("mgr.x", "--cap mon 'allow profile mgr' --cap osd 'allow *'"),
    ] {
        d.must(&format!("ceph-authtool {at}/keyring --gen-key -n {who} {caps}"))?;
    }
    let names: String = ["a", "b", "c"].iter().zip(&hosts).map(|(m, host)| format!(" --addv {m} {host}")).collect();
    d.must(&format!("monmaptool --create --fsid {fsid}{names} {at}/monmap"))?;
    std::fs::create_dir_all(d.dir.join("mgr/x"))?;
    for m in ["a", "b", "c"] {
        std::fs::create_dir_all(d.dir.join("mon").join(m))?;
        d.must(&format!("ceph-mon --mkfs -i {m} --monmap {at}/monmap --keyring {at}/keyring"))?;
    }
    let conf = d.conf.clone();
    for daemon in ["mon.a", "mon.b", "mon.c", "mgr.x"] {
        d.stock(daemon, &conf)?;
    }
    d.wait("ceph quorum_status", "a quorum of three", |out| out.contains("\"quorum\":[0,1,2]"))?;
    Ok(d)
}

fn our_osds() -> Result<()> {
    let mut d = stock_control_plane("stock-control-plane")?;
    let conf = d.conf.clone();
    for (id, class, store) in [(0, "ssd", &["--store", "mem"][..]), (1, "nvme", &["--store", "block", "--size", "2G"])] {
        let data = d.dir.join(format!("osd.{id}"));
        let uuid = register(&d, id, &data)?;
        let mut mkfs = Command::new(binary());
        mkfs.arg("osd").arg("--conf").arg(&conf).args(["--id", &id.to_string(), "--mkfs", "--osd-uuid", &uuid, "--device-class", class]);
        mkfs.args(store);
        let out = run(&mut mkfs, COMMAND)?;
        ensure!(out.ok(), "mkfs: {out:?}");
        d.ours(id, &[])?;
    }
    d.wait_up(2)?;

    // What operators see of them.
    let tree = d.json("ceph osd tree")?;
    let nodes = tree["nodes"].as_array().context("nodes")?;
    for (id, class) in [(0, "ssd"), (1, "nvme")] {
        let node = nodes.iter().find(|n| n["id"] == id).with_context(|| format!("osd.{id} is not in the tree"))?;
        ensure!(node["device_class"] == class && node["status"] == "up" && node["reweight"] == 1.0, "{node}");
        ensure!(nodes.iter().any(|n| n["type"] == "host" && n["children"].as_array().is_some_and(|c| c.contains(&node["id"]))), "{tree}");
    }
    let metadata = d.json("ceph osd metadata 0")?;
    ensure!(metadata["ceph_release"] == "reef" && metadata["osd_objectstore"] == "memstore", "{metadata}");
    let addrs = ["front_addr", "back_addr", "hb_front_addr", "hb_back_addr"].map(|a| metadata[a].to_string());
    ensure!(addrs.iter().all(|a| a.contains("v2:127.0.0.1:") && addrs.iter().filter(|b| *b == a).count() == 1), "{addrs:?}");
    ensure!(d.must("ceph tell osd.0 version")?.contains("18.2"), "tell");
    d.must("ceph config set osd osd_op_history_size 33")?;
    d.wait("ceph config show osd.0 osd_op_history_size", "the monitors' configuration", |out| out.trim() == "33")?;
    ensure!(d.must("ceph tell osd.1 config get osd_op_history_size")?.contains("33"), "config get");

    // Pools come, grow, shrink and go.
    d.pool_on("ssd", "a", 4)?;
    d.pool_on("nvme", "b", 4)?;
    d.wait_pgs(8)?;
    d.write("a", "first", 20)?;
    d.write("b", "first", 20)?;
    d.must("rados bench -p b 1 write -b 4096 -t 8")?;
    d.must("ceph osd pool set a pg_num 8")?;
    d.must("ceph osd pool set a pgp_num 8")?;
    d.wait_pgs(12)?;
    d.verify("a", "first", 20)?;
    d.must("ceph osd pool set a pg_num 7")?;
    d.wait("ceph osd pool get a pg_num", "the merge", |out| out.trim() == "pg_num: 7")?;
    d.wait_pgs(11)?;
    d.verify("a", "first", 20)?;
    let df = d.json("ceph osd df")?;
    ensure!(df["nodes"].as_array().is_some_and(|n| n.len() == 2 && n.iter().all(|o| o["kb_used"].as_u64() > Some(0))), "{df}");
    ensure!(d.must("ceph osd perf")?.lines().count() == 3, "osd perf");

    // A quorum that loses its leader, and a manager that dies.
    let leader = d.json("ceph quorum_status")?["quorum_leader_name"].as_str().context("a leader")?.to_string();
    d.kill(&format!("mon.{leader}"))?;
    d.write("b", "second", 5)?;
    d.pool_on("hdd-none", "never", 1).err().context("a class that nobody has")?;
    d.must("ceph osd pool create c 2 2 replicated on-ssd")?;
    d.wait_pgs(13)?;
    d.stock(&format!("mon.{leader}"), &conf)?;
    d.kill("mgr.x")?;
    d.write("b", "third", 5)?;
    d.stock("mgr.x", &conf)?;
    d.wait("ceph status -f json", "the manager", |out| out.contains("\"available\":true"))?;
    d.must("ceph osd pool rm c c --yes-i-really-really-mean-it")?;
    d.wait_pgs(11)?;

    // An OSD that dies is noticed by the other one; one that is asked to end says so itself. Its objects were in memory.
    d.kill("osd.0")?;
    d.wait_up(1)?;
    d.ours(0, &["--start-empty"])?;
    d.wait_up(2)?;
    d.wait_pgs(11)?;
    d.wait("rados -p a ls", "an empty pool", str::is_empty)?;
    d.write("a", "again", 5)?;
    d.end("osd.0")?;
    d.wait_up(1)?;
    // The one with a block store keeps what it acknowledged.
    d.ours(0, &["--start-empty"])?;
    d.wait_up(2)?;
    d.write("b", "last", 5)?;
    d.kill("osd.1")?;
    d.wait_up(1)?;
    d.ours(1, &[])?;
    d.wait_up(2)?;
    d.wait_pgs(11)?;
    d.verify("b", "last", 5)?;
    d.verify("b", "first", 20)?;
    d.verify("b", "second", 5)?;
    d.verify("b", "third", 5)?;
    d.end("osd.0")?;
    d.end("osd.1")
}

fn their_osds() -> Result<()> {
    let mut d = Daemons::new("stock-osds")?;
    let [port] = free_ports::<1>()?;
    let monitor = |dir: &Path| {
        let mut cmd = Command::new(binary());
        cmd.arg("mon").arg("--dir").arg(dir).args(["--port", &port.to_string(), "--osds", "1"]);
        cmd
    };
    d.spawn("mon", monitor(&d.dir))?;
    ensure!(until(PATIENCE, || d.conf.exists() && d.said("mon").contains("serves")), "the monitor does not start: {}", d.said("mon"));
    d.ours(0, &["--memory", "1073741824"])?;
    d.wait_up(1)?;
    for (id, store) in [(1, "bluestore"), (2, "memstore")] {
        let data = d.dir.join(format!("osd.{id}"));
        let uuid = register(&d, id, &data)?;
        let (at, conf) = (d.dir.display().to_string(), d.dir.join(format!("osd.{id}.conf")));
        let ours = std::fs::read_to_string(&d.conf)?;
        let ours: Vec<&str> = ours.lines().filter(|l| !l.starts_with("log file")).collect();
        std::fs::write(
            &conf,
            format!(
                "{}\nosd data = {at}/osd.$id\nrun dir = {at}/run\nadmin socket = {at}/run/$name.asok\nlog file = {at}/log/$name.log\ncrash dir = {at}\n\
                 osd objectstore = {store}\nmemstore device bytes = 1073741824\nbluestore block size = 2147483648\nms cluster mode = secure\n\
                 [osd]\nkeyring = {}/keyring\n",
                ours.join("\n"),
                data.display()
            ),
        )?;
        let out = Reef.run(&conf, "ceph-osd", &["--mkfs", "-i", &id.to_string(), "--osd-uuid", &uuid], COMMAND)?;
        ensure!(out.ok(), "ceph-osd --mkfs: {out:?}");
        d.stock(&format!("osd.{id}"), &conf)?;
    }
    d.wait_up(3)?;
    // Each with groups of its own.
    for (id, class) in [(0, "ours"), (1, "blue"), (2, "mem")] {
        d.must(&format!("ceph osd crush rm-device-class osd.{id}"))?;
        d.must(&format!("ceph osd crush set-device-class {class} osd.{id}"))?;
        d.pool_on(class, class, 8)?;
    }
    d.wait_pgs(24)?;
    for pool in ["ours", "blue", "mem"] {
        d.must(&format!("rados bench -p {pool} 1 write -b 4096 -t 8"))?;
        d.write(pool, "first", 10)?;
    }
    // A pool that lies on all three.
    d.must("ceph osd pool create all 32")?;
    d.wait_pgs(56)?;
    d.must("rados bench -p all 1 write -b 4096 -t 8 --no-cleanup")?;
    let df = d.json("ceph osd df")?;
    ensure!(df["nodes"].as_array().is_some_and(|n| n.len() == 3 && n.iter().all(|o| o["pgs"].as_u64() > Some(8))), "{df}");
    ensure!(d.must("ceph tell osd.1 version")?.contains("18.2"), "tell");
    d.must("ceph osd pool set blue pg_num 16")?;
    d.wait_pgs(64)?;

    // Each of them dies once.
    let conf = d.dir.join("osd.1.conf");
    d.kill("osd.1")?;
    d.wait_up(2)?;
    d.stock("osd.1", &conf)?;
    d.wait_up(3)?;
    d.wait_pgs(64)?;
    d.verify("blue", "first", 10)?;
    d.kill("mon")?;
    d.spawn("mon", monitor(&d.dir))?;
    d.write("blue", "second", 5)?;
    d.write("ours", "second", 5)?;
    d.must("ceph osd pool create late 4 4 replicated on-mem")?;
    d.wait_pgs(68)?;
    for pool in ["ours", "blue", "mem"] {
        d.verify(pool, "first", 10)?;
    }
    d.verify("blue", "second", 5)?;
    // Our maps are theirs, bit for bit.
    for id in [1, 2] {
        let log = std::fs::read_to_string(d.dir.join(format!("log/osd.{id}.log")))?;
        ensure!(log.contains("state: booting -> active"), "osd.{id} logs nothing");
        if let Some(line) = log.lines().find(|l| l.contains("with expected crc") || l.contains("failed to encode")) {
            bail!("osd.{id}: {line}");
        }
    }
    Ok(())
}
