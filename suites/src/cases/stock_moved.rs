//! A cluster of three stock OSDs becomes one of ours and stock's again, one OSD at a time, under load: each is drained before it goes,
//! every copy is compared in between, and nothing that was written is lost.
//!
//! The load is upstream's random workload and, with 20.2, the clients of `moved_data`. No daemon's log may complain of another.

use super::Case;
use super::mixed::{clean, ended_well, is_damaged, three_copies, workloads};
use super::moved_data::Residents;
use super::scrub::all_scrubbed;
use super::stock_logs::no_complaint;
use crate::clients::{self, Release, Release::Reef, Release::Tentacle};
use crate::run::until;
use crate::stock::{Daemons, PATIENCE, Plane, stock_control_plane, stock_osd};
use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub const CASES: &[Case] = &[
    Case { name: "stock_osds_become_ours_and_stock_again", needs: &[Reef], run: || there_and_back(Reef) },
    Case { name: "stock_osds_become_ours_and_stock_again_20.2", needs: &[Tentacle], run: || there_and_back(Tentacle) },
];

/// Operations of each workload in each direction.
const OPS: u32 = 1500;
const STOCK: [u32; 3] = [0, 1, 2];
const OURS: [u32; 3] = [3, 4, 5];

/// An OSD that is made beside the others takes the place of one, which goes when no group needs it.
fn replaced(d: &mut Daemons, old: u32, new: u32, is_ours: bool) -> Result<()> {
    if is_ours {
        d.new_ours(new, "ssd", &["--store", "block", "--size", "2G"])?;
    } else {
        stock_osd(d, new, "bluestore")?;
    }
    d.wait_up(4)?;
    d.must(&format!("ceph osd crush reweight osd.{new} 1"))?;
    d.must(&format!("ceph osd out {old}"))?;
    clean(d, &format!("clean groups with osd.{new} in the place of osd.{old}"))?;
    let is_free = || d.must(&format!("ceph osd safe-to-destroy {old}")).is_ok();
    ensure!(until(PATIENCE, is_free), "osd.{old} is still needed: {}", d.must("ceph pg dump pgs_brief")?);
    d.end(&format!("osd.{old}"))?;
    d.must(&format!("ceph osd purge {old} --yes-i-really-mean-it"))?;
    std::fs::remove_dir_all(d.dir.join(format!("osd.{old}")))?;
    d.wait_up(3)
}

/// Pools of gateways and file systems have three copies, too, and few groups. A group that rests is reported by each new
/// map: without that a stock OSD says nothing for 500 of them, and the newest state is not to be seen.
const CONF: &str = "osd pool default size = 3\nosd pool default min size = 2\nosd pool default pg num = 4\nosd pool default pgp num = 4\n\
    osd pg stat report interval max = 0\nosd pg stat report interval max epochs = 0\n";

/// Deep scrubs of every pool find no copy that differs.
fn every_copy_agrees(d: &Daemons) -> Result<()> {
    let groups = || -> Result<Vec<Value>> { Ok(d.json("ceph pg dump pgs")?["pg_stats"].as_array().context("pg dump")?.clone()) };
    let pools = d.must("ceph osd pool ls")?;
    let scrub = || pools.lines().try_for_each(|pool| d.must(&format!("ceph osd pool deep-scrub {pool}")).map(drop));
    ensure!(all_scrubbed(2 * PATIENCE, groups, scrub)?, "not every group was scrubbed: {}", d.must("ceph pg dump pgs")?);
    let found = groups()?;
    let damaged: Vec<String> = found.iter().filter(|pg| is_damaged(pg)).map(|pg| pg["pgid"].to_string().replace('"', "")).collect();
    let differences: Result<Vec<String>> =
        damaged.iter().map(|pgid| d.must(&format!("rados list-inconsistent-obj {pgid} --format=json"))).collect();
    ensure!(damaged.is_empty(), "copies differ in {damaged:?}: {differences:?}");
    Ok(())
}

/// All of one kind give way to the other, while upstream's workload runs.
fn moved(release: Release, d: &mut Daemons, pairs: impl Iterator<Item = (u32, u32)>, is_ours: bool) -> Result<()> {
    let tests = workloads(release, d, OPS);
    for (old, new) in pairs {
        replaced(d, old, new, is_ours)?;
        d.verify("mixed", "first", 40)?;
    }
    ended_well(tests)?;
    clean(d, "clean groups when all have moved")?;
    every_copy_agrees(d)
}

/// With 18.2 the load is upstream's workload alone.
fn there_and_back(release: Release) -> Result<()> {
    release.install_tests()?;
    let has_residents = release == Tentacle;
    if has_residents {
        clients::radosgw(release)?;
        clients::mds(release)?;
    }
    let plane = Plane { monitors: 1, release, manager: release, conf: CONF, ..Plane::default() };
    let mut d = stock_control_plane(&format!("stock-moved-{}", release.version()), &plane)?;
    for osd in STOCK {
        stock_osd(&mut d, osd, "bluestore")?;
    }
    d.wait_up(3)?;
    three_copies(&d)?;
    d.write("mixed", "first", 40)?;
    let mut residents = if has_residents { Some(Residents::new(release, &d.conf)?) } else { None };
    moved(release, &mut d, STOCK.into_iter().zip(OURS), true)?;
    let done = residents.as_mut().map_or(Ok([0; 3]), |residents| residents.are_well([0; 3], "on ours"))?;
    d.write("mixed", "on-ours", 20)?;
    residents.as_mut().map_or(Ok(()), Residents::change)?;
    moved(release, &mut d, OURS.into_iter().zip(STOCK), false)?;
    if let Some(mut residents) = residents {
        residents.are_well(done, "back on stock")?;
        println!("  {}", residents.end()?);
    }
    for (tag, count) in [("first", 40), ("on-ours", 20)] {
        d.verify("mixed", tag, count)?;
    }
    no_complaint(&d)
}
