//! Among stock daemons of 18.2: our OSDs under their monitors and manager, their OSDs under our monitor. Everything with cephx, and in secure
//! mode between daemons.
//!
//! Each daemon is killed and started again; what was answered is there afterwards, unless its only copy was in memory. (18.2's manager loads
//! no Python module in these chroots; what it does itself, splits and merges above all, is what is looked at.)

use super::Case;
use crate::clients::Release::Reef;
use crate::cluster::binary;
use crate::run::until;
use crate::stock::{COMMAND, Daemons, PATIENCE, Plane, free_ports, register, stock_control_plane};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

pub const CASES: &[Case] = &[
    Case { name: "stock_daemons_with_our_osds", needs: &[Reef], run: our_osds },
    Case { name: "stock_daemons_under_our_monitor", needs: &[Reef], run: their_osds },
];

/// What operators see of our OSDs.
fn seen_by_operators(d: &Daemons) -> Result<()> {
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
    // Files lie on no device of their own.
    for id in [0, 1] {
        ensure!(d.must(&format!("ceph tell osd.{id} smart"))?.trim() == "{}", "smart");
        ensure!(d.must(&format!("ceph tell osd.{id} list_devices"))?.trim() == "[]", "list_devices");
    }
    d.must("ceph config set osd osd_op_history_size 33")?;
    d.wait("ceph config show osd.0 osd_op_history_size", "the monitors' configuration", |out| out.trim() == "33")?;
    ensure!(d.must("ceph tell osd.1 config get osd_op_history_size")?.contains("33"), "config get");
    Ok(())
}

/// Pools come, grow, shrink and go.
fn pools_come_and_go(d: &Daemons) -> Result<()> {
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
    Ok(())
}

fn our_osds() -> Result<()> {
    let mut d = stock_control_plane("stock-control-plane", &Plane::default())?;
    let conf = d.conf.clone();
    for (id, class, store) in [(0, "ssd", &["--store", "mem"][..]), (1, "nvme", &["--store", "block", "--size", "2G"])] {
        d.new_ours(id, class, store)?;
    }
    d.wait_up(2)?;

    seen_by_operators(&d)?;
    pools_come_and_go(&d)?;

    // A quorum that loses its leader, and a manager that dies.
    let leader = d.json("ceph quorum_status")?["quorum_leader_name"].as_str().context("a leader")?.to_string();
    d.kill(&format!("mon.{leader}"))?;
    d.write("a", "second", 5)?;
    d.write("b", "second", 5)?;
    d.pool_on("hdd-none", "never", 1).err().context("a class that no OSD has")?;
    d.must("ceph osd pool create c 2 2 replicated on-ssd")?;
    d.wait_pgs(13)?;
    d.stock(&format!("mon.{leader}"), &conf)?;
    d.kill("mgr.x")?;
    d.write("b", "third", 5)?;
    d.stock("mgr.x", &conf)?;
    d.wait("ceph status -f json", "the manager", |out| out.contains("\"available\":true"))?;
    d.verify("a", "second", 5)?;
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

/// Makes a stock OSD's data; gives its configuration.
fn make_stock(d: &Daemons, id: u32, store: &str) -> Result<PathBuf> {
    let data = d.dir.join(format!("osd.{id}"));
    let uuid = register(d, id, &data)?;
    let (at, conf) = (d.dir.display().to_string(), d.dir.join(format!("osd.{id}.conf")));
    let ours = std::fs::read_to_string(&d.conf)?;
    std::fs::write(
        &conf,
        format!(
            "{}\nosd data = {at}/osd.$id\nrun dir = {at}/run\nadmin socket = {at}/run/$name.asok\nlog file = {at}/log/$name.log\ncrash dir = {at}\n\
             osd objectstore = {store}\nmemstore device bytes = 1073741824\nbluestore block size = 2147483648\nms cluster mode = secure\n\
             [osd]\nkeyring = {}/keyring\n",
            ours.trim_end(),
            data.display()
        ),
    )?;
    let out = Reef.run(&conf, "ceph-osd", &["--mkfs", "-i", &id.to_string(), "--osd-uuid", &uuid], COMMAND)?;
    ensure!(out.ok(), "ceph-osd --mkfs: {out:?}");
    Ok(conf)
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
    d.ours(0, &["--store", "mem", "--memory", "1073741824"])?;
    d.wait_up(1)?;
    for (id, store) in [(1, "bluestore"), (2, "memstore")] {
        let conf = make_stock(&d, id, store)?;
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
