//! Stock ceph-mds of 18.2 on a `humboldt up`: files through libcephfs and ceph-fuse, snapshots, and a standby that takes over.
//! Two of 20.2 in short.

use super::Case;
use crate::clients::{Release, Release::Reef, Release::Tentacle, reef_mds};
use crate::cluster::Cluster;
use crate::mds::{self, Server};
use crate::run::{root, run};
use anyhow::{Result, ensure};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "cephfs_18.2", needs: &[Reef], run: || files(&["--store", "mem"]) },
    Case { name: "cephfs_18.2_block", needs: &[Reef], run: || files(&["--store", "block"]) },
    Case { name: "cephfs_18.2_recovered", needs: &[Reef], run: recovered },
    Case { name: "cephfs_20.2", needs: &[Reef, Tentacle], run: of_tentacle },
];

const SCRIPT: Duration = Duration::from_secs(300);
/// Files that are written while the server is killed.
const FILES: usize = 300;

/// A client of that release that runs steps of `cephfs.py`.
fn client_of(release: Release, c: &Cluster, steps: &[&str]) -> Result<Command> {
    // Its own name is the library's, which it imports.
    let script = c.dir.join("files.py");
    std::fs::copy(root().join("suites/src/cases/cephfs.py"), &script)?;
    let mut cmd = release.command(&c.conf, "python3");
    cmd.arg(script).args(steps);
    Ok(cmd)
}
fn client(c: &Cluster, steps: &[&str]) -> Result<Command> {
    client_of(Reef, c, steps)
}
fn speak(c: &Cluster, steps: &[&str]) -> Result<()> {
    speak_of(Reef, c, steps)
}
fn speak_of(release: Release, c: &Cluster, steps: &[&str]) -> Result<()> {
    let out = run(&mut client_of(release, c, steps)?, SCRIPT)?;
    ensure!(out.ok() && out.stdout.trim().ends_with("ok"), "cephfs.py {steps:?}: {}{}", out.stdout, out.stderr);
    Ok(())
}

/// Writes files and kills a server with -9 in the midst of it; the client goes on with the other.
fn write_across_a_kill(c: &Cluster, killed: Server) -> Result<()> {
    let n = FILES.to_string();
    let mut writer = client(c, &["write", "/w", &n])?.stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(writer.stdout.take().expect("piped")).lines();
    for line in lines.by_ref().take(FILES / 3) {
        line?;
    }
    killed.kill()?;
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
    let a = Server::start(&c.conf, "a")?;
    a.await_active()?;
    let b = Server::start(&c.conf, "b")?;
    b.await_standby()?;
    speak(&c, &["make", "check"])?;
    let status = c.must(Reef, "ceph -s")?;
    ensure!(status.contains("mds: 1/1 daemons up, 1 standby") && status.contains("volumes: 1/1 healthy"), "{status}");
    let said = c.must(Reef, "ceph tell mds.a status")?;
    ensure!(said.contains("up:active"), "{said}");

    write_across_a_kill(&c, a)?;
    b.await_active()?;
    let fenced = c.must(Reef, "ceph osd blocklist ls -f json")?;
    ensure!(fenced.contains("addr"), "no client is on the blocklist: {fenced}");
    speak(&c, &["check"])?;
    let health = c.must(Reef, "ceph health -f json")?;
    ensure!(health.contains("MDS_INSUFFICIENT_STANDBY") && !health.contains("FS_DEGRADED"), "{health}");

    if store[1] == "block" {
        // What serves all of it is killed, too; the server waits for it.
        c.kill_and_restart(store)?;
        b.await_active()?;
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

/// The metadata pool is emptied; upstream's tools make it anew of what data objects say of their files.
fn recovered() -> Result<()> {
    reef_mds()?;
    let c = Cluster::start("cephfs-recovered", &["--store", "mem"])?;
    let server = mds::serve(&c.conf)?;
    let n = FILES.to_string();
    speak(&c, &["write", "/one/two", &n])?;
    c.must(Reef, "ceph tell mds.a flush journal")?;
    server.kill()?;
    c.must(Reef, "ceph fs fail cephfs")?;
    c.must(Reef, "rados purge cephfs_metadata --yes-i-really-really-mean-it")?;
    ensure!(c.must(Reef, "rados -p cephfs_metadata ls --all")?.is_empty(), "metadata are left");
    c.must(Reef, "ceph fs reset cephfs --yes-i-really-mean-it")?;
    for line in [
        "cephfs-table-tool cephfs:0 reset session",
        "cephfs-table-tool cephfs:0 reset snap",
        "cephfs-table-tool cephfs:0 reset inode",
        "cephfs-journal-tool --rank=cephfs:0 journal reset --force --yes-i-really-really-mean-it",
        "cephfs-data-scan init --force-init",
        // The first calls the class, the others list by its filter.
        "cephfs-data-scan scan_extents cephfs_data",
        "cephfs-data-scan scan_inodes cephfs_data",
        "cephfs-data-scan scan_links",
        "cephfs-data-scan cleanup cephfs_data",
    ] {
        c.must(Reef, line)?;
    }
    let server = Server::start(&c.conf, "a")?;
    server.await_active()?;
    speak(&c, &["read", "/one/two", &n])?;
    let health = c.must(Reef, "ceph health detail")?;
    ensure!(health.trim() == "HEALTH_OK", "{health}");
    drop(server);
    c.stop()
}

/// Servers and a client of 20.2: files, and a standby that takes over from one that is killed.
fn of_tentacle() -> Result<()> {
    let c = Cluster::start("cephfs-20.2", &["--store", "block"])?;
    let a = mds::serve_by(Tentacle, &c.conf)?;
    let b = Server::start_of(Tentacle, &c.conf, "b")?;
    b.await_standby()?;
    speak_of(Tentacle, &c, &["make", "check"])?;
    a.kill()?;
    b.await_active()?;
    speak_of(Tentacle, &c, &["check"])?;
    drop(b);
    c.stop()
}
