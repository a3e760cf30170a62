//! Groups of three that stock OSDs of 20.2 and ours share, beside a group of stock OSDs alone, in one cluster: what a member of ours costs,
//! and how long clients stand still when members die, hang and come back.
//!
//! ```text
//!   pool          leads    follow
//!   all_stock     osd.0    osd.1 osd.2      stock: what is due
//!   ours_leads    osd.3    osd.1 osd.2      ours and two stock ones
//!   ours_follow   osd.0    osd.3 osd.4      stock and two of ours
//! ```
//! Every group lies there by `pg-upmap`, and each OSD has a CRUSH host of its own. Holds the cluster. Absent: the loads (`figures`,
//! `stall`), and the kept table (`xtask`).

pub mod figures;
pub mod stall;

use crate::clients::{self, Release::Tentacle};
use crate::run::until;
use crate::stock::{Daemons, PATIENCE, Plane, stock_control_plane, stock_osd};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;

/// A pool and the OSDs of its groups, the one that leads first.
#[derive(Debug, Clone, Copy)]
pub struct Shared {
    pub pool: &'static str,
    pub osds: [u32; 3],
}

pub const POOLS: [Shared; 3] = [
    Shared { pool: "all_stock", osds: [0, 1, 2] },
    Shared { pool: "ours_leads", osds: [3, 1, 2] },
    Shared { pool: "ours_follow", osds: [0, 3, 4] },
];
const STOCK: [u32; 3] = [0, 1, 2];
const OURS: [u32; 2] = [3, 4];
const GROUPS: usize = 8;

/// Nothing that daemons would log, and no autoscaler, balancer or start of an OSD that moves groups.
const CONF: &str = "osd crush update on start = false\nosd pool default pg num = 8\nosd pool default pgp num = 8\nmon max pg per osd = 2000\ndebug ms = 0/0\ndebug osd = 0/0\n\
                    debug mon = 0/0\ndebug paxos = 0/0\ndebug auth = 0/0\ndebug monc = 0/0\ndebug objecter = 0/0\ndebug rocksdb = 0/0\n\
                    debug bluestore = 0/0\ndebug bdev = 0/0\nbluestore block size = 8589934592\n";

/// The cluster, with its pools whole where they belong. Connections are checked and not encrypted, as they are by default.
pub fn cluster(name: &str) -> Result<Daemons> {
    clients::daemons(Tentacle)?;
    let plane = Plane { monitors: 1, release: Tentacle, manager: Tentacle, secure: false, conf: CONF, ..Plane::default() };
    let mut d = stock_control_plane(name, &plane)?;
    for osd in STOCK {
        stock_osd(&mut d, osd, "bluestore")?;
    }
    for osd in OURS {
        d.new_ours(osd, "ssd", &["--store", "block", "--size", "8G"])?;
    }
    d.wait_up(STOCK.len() + OURS.len())?;
    d.must("ceph balancer off")?;
    d.must("ceph osd set-require-min-compat-client reef --yes-i-really-mean-it")?;
    for osd in STOCK.into_iter().chain(OURS) {
        d.must(&format!("ceph osd crush set osd.{osd} 1 root=default host=h{osd}"))?;
    }
    d.must("ceph osd crush rule create-replicated any default host")?;
    for Shared { pool, osds } in POOLS {
        make_pool(&d, pool, &osds)?;
    }
    Ok(d)
}

/// A pool of as many copies as OSDs are named, whole on these.
fn make_pool(d: &Daemons, pool: &str, osds: &[u32]) -> Result<()> {
    for line in [
        format!("ceph osd pool create {pool} {GROUPS} {GROUPS} replicated any"),
        format!("ceph osd pool application enable {pool} test"),
        format!("ceph osd pool set {pool} size {} --yes-i-really-mean-it", osds.len()),
        format!("ceph osd pool set {pool} min_size {}", osds.len().div_ceil(2)),
    ] {
        d.must(&line)?;
    }
    put(d, pool, osds)?;
    settle(d, pool, osds, PATIENCE)
}

/// The pool's groups are to lie on these.
fn put(d: &Daemons, pool: &str, osds: &[u32]) -> Result<()> {
    let pools = d.json("ceph osd lspools")?;
    let found = pools.as_array().and_then(|all| all.iter().find(|one| one["poolname"] == pool));
    let number = found.and_then(|one| one["poolnum"].as_u64()).with_context(|| format!("pool {pool}"))?;
    let osds: Vec<String> = osds.iter().map(u32::to_string).collect();
    (0..GROUPS).try_for_each(|group| d.must(&format!("ceph osd pg-upmap {number}.{group:x} {}", osds.join(" "))).map(drop))
}

/// Waits until every group of a pool is whole there.
fn settle(d: &Daemons, pool: &str, osds: &[u32], limit: Duration) -> Result<()> {
    let groups = || d.json(&format!("ceph pg ls-by-pool {pool}"));
    let is_whole = |pg: &Value| pg["state"].as_str().is_some_and(|state| state.starts_with("active+clean")) && pg["acting"] == json!(osds);
    let all = |found: &Value| found["pg_stats"].as_array().is_some_and(|all| all.len() == GROUPS && all.iter().all(is_whole));
    let reached = until(limit, || groups().is_ok_and(|found| all(&found)));
    ensure!(reached, "pool {pool} is not whole on {osds:?}: {}{}", groups()?, d.last_words());
    Ok(())
}
