//! Stock ceph-mds of 18.2 on a `humboldt up`: files through libcephfs and ceph-fuse, snapshots, and a standby that takes over.

use super::Case;
use crate::clients::{Release::Reef, reef_mds};
use crate::cluster::Cluster;
use crate::run::{root, run, until};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "cephfs_18.2", needs: &[Reef], run: || files(&["--store", "mem"]) },
    Case { name: "cephfs_18.2_block", needs: &[Reef], run: || files(&["--store", "block"]) },
];

/// A first start makes the journal and the root; a takeover waits for `mds_beacon_grace`, 15 s.
const READY: Duration = Duration::from_secs(120);
const SCRIPT: Duration = Duration::from_secs(300);
/// Files that are written while the server is killed.
const FILES: usize = 300;

/// A ceph-mds that ends with this value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(c: &Cluster, name: &str) -> Result<Server> {
    let keyring = c.dir.join(format!("ceph.mds.{name}.keyring"));
    let caps = "mon 'allow profile mds' osd 'allow rwx' mds 'allow *' mgr 'allow profile mds'";
    c.must(Reef, &format!("ceph auth get-or-create mds.{name} {caps} -o {}", keyring.display()))?;
    let log = std::fs::File::create(c.dir.join(format!("mds.{name}.log")))?;
    let mut cmd = Reef.command(&c.conf, "ceph-mds");
    cmd.args(["-f", "-i", name]);
    Ok(Server(cmd.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?))
}

/// Waits until a server serves rank 0.
fn await_active(c: &Cluster, name: &str) -> Result<()> {
    let mut last = Value::Null;
    let serves = until(READY, || {
        last = map(c).unwrap_or_default();
        let infos = last["filesystems"][0]["mdsmap"]["info"].as_object().cloned().unwrap_or_default();
        infos.values().any(|i| i["name"] == name && i["state"] == "up:active")
    });
    let log = std::fs::read_to_string(c.dir.join(format!("mds.{name}.log"))).unwrap_or_default();
    let end: Vec<&str> = log.lines().rev().take(10).collect();
    ensure!(serves, "mds.{name} is not active: {last}\n{}", end.join("\n"));
    Ok(())
}

fn map(c: &Cluster) -> Result<Value> {
    serde_json::from_str(&c.must(Reef, "ceph fs dump -f json")?).context("fs dump")
}

/// A client that runs steps of `cephfs.py`.
fn client(c: &Cluster, steps: &[&str]) -> Result<Command> {
    // Its own name is the library's, which it imports.
    let script = c.dir.join("files.py");
    std::fs::copy(root().join("xtask/src/suites/cephfs.py"), &script)?;
    let mut cmd = Reef.command(&c.conf, "python3");
    cmd.arg(script).args(steps);
    Ok(cmd)
}
fn speak(c: &Cluster, steps: &[&str]) -> Result<()> {
    let out = run(&mut client(c, steps)?, SCRIPT)?;
    ensure!(out.ok() && out.stdout.trim().ends_with("ok"), "cephfs.py {steps:?}: {}{}", out.stdout, out.stderr);
    Ok(())
}

/// Writes files and kills a server with -9 in the midst of it; the client goes on with the other.
fn write_across_a_kill(c: &Cluster, mut killed: Server) -> Result<()> {
    let n = FILES.to_string();
    let mut writer = client(c, &["write", "/w", &n])?.stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(writer.stdout.take().expect("piped")).lines();
    for line in lines.by_ref().take(FILES / 3) {
        line?;
    }
    killed.0.kill()?;
    killed.0.wait()?;
    let rest = lines.map_while(Result::ok).last();
    ensure!(writer.wait()?.success() && rest.as_deref() == Some("ok"), "the writer ended with {rest:?}");
    speak(c, &["read", "/w", &n])
}

fn files(store: &[&str]) -> Result<()> {
    reef_mds()?;
    let mut c = Cluster::start(&format!("cephfs-{}", store[1]), store)?;
    for pool in ["meta", "data"] {
        c.must(Reef, &format!("ceph osd pool create {pool} 8"))?;
    }
    c.must(Reef, "ceph fs new one meta data")?;
    let a = start(&c, "a")?;
    await_active(&c, "a")?;
    let b = start(&c, "b")?;
    let stands_by = until(READY, || map(&c).is_ok_and(|m| m["standbys"][0]["name"] == "b"));
    ensure!(stands_by, "mds.b does not stand by: {}", map(&c)?);
    speak(&c, &["make", "check"])?;
    let status = c.must(Reef, "ceph -s")?;
    ensure!(status.contains("mds: 1/1 daemons up, 1 standby") && status.contains("volumes: 1/1 healthy"), "{status}");
    let said = c.must(Reef, "ceph tell mds.a status")?;
    ensure!(said.contains("up:active"), "{said}");

    write_across_a_kill(&c, a)?;
    await_active(&c, "b")?;
    let fenced = c.must(Reef, "ceph osd blocklist ls -f json")?;
    ensure!(fenced.contains("addr"), "nobody is on the blocklist: {fenced}");
    speak(&c, &["check"])?;
    let health = c.must(Reef, "ceph health -f json")?;
    ensure!(health.contains("MDS_INSUFFICIENT_STANDBY") && !health.contains("FS_DEGRADED"), "{health}");

    if store[1] == "block" {
        // What serves all of it is killed, too; the server waits for it.
        c.kill_and_restart(store)?;
        await_active(&c, "b")?;
        speak(&c, &["check", "read", "/w", &FILES.to_string()])?;
    }
    // A client that may use one directory only.
    c.must(Reef, "ceph fs authorize one client.d /a r")?;
    c.must(Reef, "ceph fs fail one")?;
    c.must_fail(Reef, "ceph fs rm one", 1)?;
    c.must(Reef, "ceph fs rm one --yes-i-really-mean-it")?;
    drop(b);
    c.stop()
}
