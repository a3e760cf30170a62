//! `humboldt up` as a program: how it starts, what it leaves, how it ends.

use super::Case;
use crate::clients::Release::{self, Pacific};
use crate::cluster::{Cluster, binary};
use crate::pace::as_at_rest;
use crate::run::{run, until};
use anyhow::{Result, ensure};
use std::process::Command;
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "up_starts_and_ends", needs: &[Pacific], run: up_starts_and_ends },
    Case { name: "up_again_on_the_same_folder", needs: &[Pacific], run: up_again },
    Case { name: "up_as_processes", needs: &[Pacific], run: up_as_processes },
    Case { name: "several_osds", needs: &[Pacific], run: several_osds },
    Case { name: "own_bench", needs: &[], run: own_bench },
];

fn up_starts_and_ends() -> Result<()> {
    let c = Cluster::start("basics", &[])?;
    ensure!(c.ready_after < as_at_rest(Duration::from_secs(1)), "it took {:?} to get ready", c.ready_after);
    ensure!(c.rss_bytes() < 100 << 20, "it takes {} MiB of memory", c.rss_bytes() >> 20);
    for file in ["ceph.conf", "ceph.client.admin.keyring"] {
        ensure!(c.dir.join(file).exists(), "{file} is missing");
    }
    let status = c.must(Pacific, &format!("ceph -c {}/ceph.conf -s", c.dir.display()))?;
    ensure!(status.contains("osd: 1 osds: 1 up") && status.contains("mgr: x(active"), "ceph -s says:\n{status}");
    // A kernel maps images by a protocol that is served: the cluster says so, and an operator may say otherwise.
    let mode = |c: &Cluster| c.must(Pacific, "ceph config get client rbd_default_map_options").map(|text| text.trim().to_string());
    ensure!(mode(&c)? == "ms_mode=prefer-crc", "kernels are told {}", mode(&c)?);
    ensure!(std::fs::read_to_string(c.dir.join("ceph.conf"))?.contains("ms_mode=prefer-crc"), "ceph.conf does not speak of kernels");
    c.must(Pacific, "ceph config set global rbd_default_map_options ms_mode=secure")?;
    ensure!(mode(&c)? == "ms_mode=secure", "kernels are told {}", mode(&c)?);
    // A second one on the same folder says which process holds it, and harms nothing.
    let second = run(Command::new(binary()).args(["up", "--port", "0", "--dir"]).arg(&c.dir), Duration::from_secs(10))?;
    ensure!(second.code != 0 && second.stderr.contains(&c.pid().to_string()), "a second up said: {second:?}");
    c.must(Pacific, "ceph osd stat")?;
    c.stop()
}

/// A memory store does not outlive its process: the OSD starts as a new one, empty, and says so.
fn up_again() -> Result<()> {
    let c = Cluster::start("again", &["--store", "mem"])?;
    c.must(Pacific, "ceph osd pool create p 8")?;
    let fsid = c.must(Pacific, "ceph fsid")?;
    let uuid = |c: &Cluster| -> Result<String> {
        let dump: serde_json::Value = serde_json::from_str(&c.must(Pacific, "ceph osd dump -f json")?)?;
        Ok(dump["osds"][0]["uuid"].to_string())
    };
    let before = uuid(&c)?;
    c.must(Pacific, "rados -p p put a /etc/hostname")?;
    let dir = c.dir.clone();
    c.stop()?;
    let c = Cluster::start_in(dir, &["--store", "mem"])?;
    ensure!(c.must(Pacific, "ceph fsid")? == fsid, "another fsid after a restart");
    ensure!(uuid(&c)? != before, "an OSD whose store is gone came back as the old one");
    ensure!(c.log().contains("osd.0") && c.log().contains("new"), "nothing says that osd.0 starts as a new one:\n{}", c.log());
    let back = until(Duration::from_secs(20), || c.client(Pacific, "rados -p p put b /etc/hostname").is_ok_and(|o| o.ok()));
    ensure!(back, "the pool does not take writes after a restart");
    c.stop()
}

fn up_as_processes() -> Result<()> {
    let c = Cluster::start("processes", &["--processes", "--osds", "2"])?;
    c.must(Pacific, "ceph osd pool create p 8")?;
    for name in ["a", "b", "c", "d"] {
        c.must(Pacific, &format!("rados -p p put {name} /etc/hostname"))?;
    }
    let dir = c.dir.clone();
    c.stop()?;
    let c = Cluster::start_in(dir, &["--processes"])?;
    let hostname = std::fs::read_to_string("/etc/hostname")?;
    for name in ["a", "b", "c", "d"] {
        ensure!(c.must(Pacific, &format!("rados -p p get {name} -"))? == hostname, "object {name} is not what it was before the restart");
    }
    c.stop()
}

fn several_osds() -> Result<()> {
    let c = Cluster::start("several", &["--osds", "3", "--auth", "none"])?;
    c.must(Pacific, "ceph osd pool create three 8")?;
    let pools = c.must(Pacific, "ceph osd pool ls detail")?;
    ensure!(pools.contains("'three' replicated size 3 min_size 2"), "a pool on three OSDs: {pools}");
    read_from_replicas(&c)?;
    c.must(Pacific, "ceph osd pool rm three three --yes-i-really-really-mean-it")?;
    // Groups of one copy have somewhere to go.
    c.must(Pacific, "ceph config set global osd_pool_default_size 1")?;
    c.must(Pacific, "ceph osd pool create p 32")?;
    c.must(Pacific, "rados -p p bench 1 write -b 4096 -t 16 --no-cleanup")?;
    let tree = c.must(Pacific, "ceph osd tree")?;
    ensure!((0..3).all(|i| tree.contains(&format!("osd.{i}"))), "ceph osd tree says:\n{tree}");
    let clean = until(Duration::from_secs(20), || c.must(Pacific, "ceph pg stat").is_ok_and(|s| s.contains("32 pgs: 32 active+clean")));
    ensure!(clean, "ceph pg stat says: {}", c.must(Pacific, "ceph pg stat")?);
    for release in [Release::Pacific] {
        ensure!(c.must(release, "rados df")?.contains('p'), "rados df lists the pool");
    }
    fewer_places_and_groups(&c)?;
    c.stop()
}

/// An image is read from any member, and from the nearest one: each read has its answer.
fn read_from_replicas(c: &Cluster) -> Result<()> {
    let clean = || c.must(Pacific, "ceph pg stat").is_ok_and(|s| s.contains("8 active+clean"));
    ensure!(until(Duration::from_secs(60), clean), "ceph pg stat says: {}", c.must(Pacific, "ceph pg stat")?);
    c.must(Pacific, "rbd create --size 16M three/image")?;
    c.must(Pacific, "rbd bench --io-type write --io-size 64K --io-total 16M three/image")?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    let at = format!("--crush_location host={}", host.trim().split('.').next().unwrap_or_default());
    for policy in ["balance", "localize"] {
        let how = format!("--rbd_read_from_replica_policy {policy} {at}");
        let said =
            c.must(Pacific, &format!("rbd bench {how} --io-type read --io-pattern rand --io-size 64K --io-total 16M three/image"))?;
        ensure!(said.contains("elapsed"), "{policy}: {said}");
    }
    c.must(Pacific, "rbd rm --no-progress three/image").map(drop)
}

/// Groups go from one OSD to another as pgp_num says, and become fewer: objects are where they belong each time.
fn fewer_places_and_groups(c: &Cluster) -> Result<()> {
    let content = "here and there\n".repeat(1000);
    std::fs::write(c.dir.join("content"), &content)?;
    for n in 0..24 {
        c.must(Pacific, &format!("rados -p p put moved{n} {}", c.dir.join("content").display()))?;
    }
    for (what, target, groups) in [("pgp_num", 26, 32), ("pg_num", 28, 28)] {
        c.must(Pacific, &format!("ceph osd pool set p {what} {target}"))?;
        let has = || -> Result<bool> {
            let is_set = c.must(Pacific, &format!("ceph osd pool get p {what}"))?.trim() == format!("{what}: {target}");
            Ok(is_set && c.must(Pacific, "ceph pg stat")?.contains(&format!("{groups} pgs: {groups} active+clean;")))
        };
        let came = until(Duration::from_secs(90), || has().unwrap_or(false));
        ensure!(came, "{what} {target} did not come: {}{}", c.must(Pacific, "ceph osd pool ls detail")?, c.must(Pacific, "ceph pg stat")?);
        for n in 0..24 {
            ensure!(c.must(Pacific, &format!("rados -p p get moved{n} -"))? == content, "moved{n} is another with {what} {target}");
        }
    }
    Ok(())
}

/// Without any stock client: our own load generator against our own server.
fn own_bench() -> Result<()> {
    let c = Cluster::start("ownbench", &[])?;
    for mode in ["write", "seq", "rand"] {
        let mut cmd = Command::new(binary());
        cmd.args(["bench", "--conf"]).arg(&c.conf).args(["--seconds", "1", "-b", "4096", "-t", "16", mode]);
        let out = run(&mut cmd, Duration::from_secs(60))?;
        ensure!(out.ok(), "humboldt bench {mode}: {out:?}");
        for word in ["IOPS", "MB/s", "99.99"] {
            ensure!(out.stdout.contains(word), "humboldt bench {mode} does not say {word}:\n{}", out.stdout);
        }
    }
    c.stop()
}
