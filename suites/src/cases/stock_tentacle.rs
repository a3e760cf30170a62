//! A cluster of 20.2: its monitors, manager and OSDs, and OSDs of ours that join it, with groups that both have. Everything with cephx, and
//! in secure mode.
//!
//! Our OSDs must count as OSDs of the cluster's version, and no stock daemon's log may complain of one. 19.2 can't be had as packages: a
//! cluster of 20.2 that requires OSDs of 19.2 is run in its place.

use super::Case;
use super::mixed::{clean, copies_agree, ended_well, three_copies, workloads};
use super::scrub::all_scrubbed;
use super::stock_logs::no_complaint;
use crate::clients::Release::{Reef, Tentacle};
use crate::clients::daemons;
use crate::run::until;
use crate::stock::{Daemons, PATIENCE, Plane, stock_control_plane, stock_osd};
use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub const CASES: &[Case] = &[
    Case { name: "stock_daemons_of_20.2_with_our_osds", needs: &[Tentacle], run: our_osds },
    Case { name: "stock_daemons_upgraded_to_20.2", needs: &[Reef, Tentacle], run: upgraded },
];

/// Pools with erasure codes on stock OSDs; the last has a CRUSH rule that retries over several steps.
const CODED: [&str; 3] = ["plain", "optimised", "msr"];

fn groups(d: &Daemons) -> Result<Vec<Value>> {
    Ok(d.json("ceph pg ls-by-pool both")?["pg_stats"].as_array().context("pg ls-by-pool")?.clone())
}

/// Each group is whole on three OSDs.
fn whole(d: &Daemons, what: &str) -> Result<()> {
    let is_whole = |pg: &Value| pg["state"] == "active+clean" && pg["acting"].as_array().is_some_and(|acting| acting.len() == 3);
    let reached = until(PATIENCE, || groups(d).is_ok_and(|all| all.len() == 16 && all.iter().all(is_whole)));
    ensure!(reached, "{what}: not every group is whole:\n{}{}", d.must("ceph pg dump pgs_brief")?, d.last_words());
    Ok(())
}

/// Operators and their tools find one version everywhere, and in a field beside it that an OSD is ours.
fn one_version(d: &Daemons) -> Result<()> {
    let versions = d.json("ceph versions")?;
    let overall = versions["overall"].as_object().context("versions")?;
    ensure!(overall.len() == 1 && overall.keys().all(|version| version.contains(" tentacle ")), "{versions}");
    let [ours, theirs] = [0, 2].map(|osd| d.json(&format!("ceph osd metadata {osd}")));
    let (ours, theirs) = (ours?, theirs?);
    for field in ["ceph_release", "ceph_version", "ceph_version_short"] {
        ensure!(ours[field] == theirs[field] && ours[field].is_string(), "{field}: {} and {}", ours[field], theirs[field]);
    }
    ensure!(ours["humboldt_version"].is_string() && theirs["humboldt_version"].is_null(), "{ours}");
    ensure!(d.must("ceph tell osd.0 version")?.contains("tentacle"), "tell");
    let health = d.must("ceph health detail")?;
    ensure!(!health.contains("DAEMON_OLD_VERSION"), "{health}");
    Ok(())
}

/// Pools that are coded, without the optimisations of 20.2 and with them, and by a rule of 20.2's kind, on stock OSDs alone: by the class
/// of their devices.
fn coded_pools_of_stock(d: &Daemons) -> Result<()> {
    for id in 0..5 {
        d.must(&format!("ceph osd crush rm-device-class osd.{id}"))?;
        d.must(&format!("ceph osd crush set-device-class {} osd.{id}", if id < 2 { "ours" } else { "theirs" }))?;
    }
    d.must("ceph osd erasure-code-profile set theirs k=2 m=1 crush-failure-domain=osd crush-device-class=theirs")?;
    d.must(
        "ceph osd erasure-code-profile set several k=2 m=1 crush-failure-domain=host crush-num-failure-domains=1 \
         crush-osds-per-failure-domain=3 crush-device-class=theirs",
    )?;
    // Clients before 19.2 don't know such a rule.
    d.must("ceph osd set-require-min-compat-client squid --yes-i-really-mean-it")?;
    for pool in CODED {
        let profile = if pool == "msr" { "several" } else { "theirs" };
        d.must(&format!("ceph osd pool create {pool} 4 4 erasure {profile}"))?;
        d.must(&format!("ceph osd pool application enable {pool} test"))?;
    }
    let rule = d.must("ceph osd crush rule dump msr")?;
    ensure!(rule.contains("msr"), "not a rule of that kind: {rule}");
    d.must("ceph osd pool set optimised allow_ec_overwrites true")?;
    d.must("ceph osd pool set optimised allow_ec_optimizations true")?;
    for pool in CODED {
        d.write(pool, "coded", 10)?;
    }
    Ok(())
}

/// A pool that is coded is refused by name, and goes without a trace.
fn coded_pool(d: &Daemons) -> Result<()> {
    d.must("ceph osd erasure-code-profile set three k=2 m=1 crush-failure-domain=osd")?;
    d.must("ceph osd pool create coded 4 4 erasure three")?;
    d.wait("ceph log last 50 warn cluster", "the refusal", |out| out.contains("pool 'coded' has erasure codes"))?;
    d.must("ceph osd pool rm coded coded --yes-i-really-really-mean-it")?;
    d.must("ceph osd erasure-code-profile rm three")?;
    Ok(())
}

/// Waits until every group is whole where the map puts it: the manager shows a group as it was reported last,
/// and that may be of before the move.
fn moved(d: &Daemons, what: &str) -> Result<()> {
    let is_there = |pg: &Value| {
        let due = d.json(&format!("ceph pg map {}", pg["pgid"].as_str().unwrap_or_default()));
        due.is_ok_and(|due| due["up"] == pg["acting"] && due["acting"] == pg["acting"])
    };
    let all_there = until(PATIENCE, || groups(d).is_ok_and(|all| all.iter().all(is_there)));
    ensure!(all_there, "{what}: {:?}", groups(d));
    whole(d, what)
}

/// No copy differs by the word of the OSD that leads it.
fn scrubbed(d: &Daemons) -> Result<()> {
    ensure!(
        all_scrubbed(PATIENCE, || groups(d), || d.must("ceph osd pool deep-scrub both").map(drop))?,
        "not every group was scrubbed: {}",
        d.must("ceph pg dump pgs_brief")?
    );
    let damaged = |pg: &Value| pg["state"].as_str().is_some_and(|state| state.contains("inconsistent"));
    let found: Vec<String> = groups(d)?.iter().filter(|pg| damaged(pg)).map(|pg| pg["pgid"].to_string()).collect();
    ensure!(found.is_empty(), "copies differ in {found:?}");
    Ok(())
}

/// The cluster requires OSDs of that release.
fn requires(d: &Daemons, release: &str) -> Result<()> {
    let dump = d.json("ceph osd dump")?;
    ensure!(dump["require_osd_release"] == release, "{} instead of {release}", dump["require_osd_release"]);
    Ok(())
}

/// A cluster that requires OSDs of 18.2 requires later ones step by step: the monitors agree only if every OSD has their features.
fn raised(d: &Daemons) -> Result<()> {
    for release in ["squid", "tentacle"] {
        d.must(&format!("ceph osd require-osd-release {release}"))?;
        requires(d, release)?;
        d.write("both", release, 20)?;
        whole(d, &format!("with OSDs of {release} required"))?;
    }
    Ok(())
}

fn our_osds() -> Result<()> {
    let conf = "mon debug no require squid = true\nmon debug no require tentacle = true\n";
    let plane = Plane { monitors: 1, release: Tentacle, manager: Tentacle, conf, ..Plane::default() };
    let mut d = stock_control_plane("stock-tentacle", &plane)?;
    requires(&d, "reef")?;
    d.new_ours(0, "ssd", &["--store", "mem", "--memory", "1073741824"])?;
    d.new_ours(1, "ssd", &["--store", "block", "--size", "2G"])?;
    stock_osd(&mut d, 2, "bluestore")?;
    stock_osd(&mut d, 3, "bluestore")?;
    stock_osd(&mut d, 4, "bluestore")?;
    d.wait_up(5)?;
    one_version(&d)?;

    for id in 0..5 {
        d.must(&format!("ceph osd crush reweight osd.{id} 1"))?;
    }
    for line in [
        "ceph osd crush rule create-replicated any default osd",
        "ceph osd pool create both 16 16 replicated any",
        "ceph osd pool application enable both test",
        "ceph osd pool set both size 3",
        "ceph osd pool set both min_size 2",
    ] {
        d.must(line)?;
    }
    whole(&d, "at first")?;
    let leaders: Vec<Option<u64>> = groups(&d)?.iter().map(|pg| pg["acting_primary"].as_u64()).collect();
    ensure!([0, 1].iter().any(|osd| leaders.contains(&Some(*osd))), "none of ours leads a group: {leaders:?}");
    ensure!([2, 3, 4].iter().any(|osd| leaders.contains(&Some(*osd))), "no stock OSD leads a group: {leaders:?}");
    d.write("both", "first", 40)?;
    d.must("rados bench -p both 2 write -b 65536 -t 8 --no-cleanup")?;
    d.must("rados bench -p both 2 seq -t 8")?;
    raised(&d)?;
    coded_pool(&d)?;
    coded_pools_of_stock(&d)?;

    // One of each kind dies, and what it missed is recovered to it.
    for victim in ["osd.2", "osd.1"] {
        d.kill(victim)?;
        d.wait_up(4)?;
        d.write("both", victim, 20)?;
        d.start(victim)?;
        d.wait_up(5)?;
        whole(&d, &format!("after the death of {victim}"))?;
    }
    // Groups move away from a stock OSD and back.
    d.must("ceph osd out 3")?;
    moved(&d, "without osd.3")?;
    d.must("ceph osd in 3")?;
    moved(&d, "with osd.3 again")?;
    scrubbed(&d)?;
    for (tag, count) in [("first", 40), ("squid", 20), ("tentacle", 20), ("osd.2", 20), ("osd.1", 20)] {
        d.verify("both", tag, count)?;
    }
    for pool in CODED {
        d.verify(pool, "coded", 10)?;
    }
    // A group of the manager's own, too.
    d.wait_pgs(1 + 16 + 4 * CODED.len())?;
    no_complaint(&d)?;
    d.end("osd.0")?;
    d.end("osd.1")
}

/// Operations of each workload while the cluster is upgraded.
const OPS: u32 = 6000;

/// The release that the monitors have for an OSD.
fn release_of(d: &Daemons, osd: u32) -> Result<String> {
    Ok(d.json(&format!("ceph osd metadata {osd}"))?["ceph_release"].as_str().context("a release")?.into())
}

/// A cluster of 18.2 becomes one of 20.2 under load: each daemon ends and comes back, monitors first, and our OSDs last. Of these one
/// starts again and one is only marked down: both say the new version from their next boot on, and not before.
fn upgraded() -> Result<()> {
    Reef.install_tests()?;
    daemons(Tentacle)?;
    let mut d = stock_control_plane("stock-upgraded", &Plane::default())?;
    d.new_ours(0, "ssd", &["--store", "block", "--size", "2G"])?;
    d.new_ours(1, "ssd", &["--store", "block", "--size", "2G"])?;
    stock_osd(&mut d, 2, "bluestore")?;
    d.wait_up(3)?;
    three_copies(&d)?;
    let (conf, of_osd) = (d.conf.clone(), d.dir.join("osd.2.conf"));
    let tests = workloads(Reef, &d, OPS);
    for monitor in ["mon.a", "mon.b", "mon.c"] {
        d.kill(monitor)?;
        d.stock_of(Tentacle, monitor, &conf)?;
        d.wait("ceph quorum_status", "a quorum", |out| out.contains("\"quorum\":[0,1,2]"))?;
    }
    d.kill("mgr.x")?;
    d.stock_of(Tentacle, "mgr.x", &conf)?;
    d.wait("ceph status -f json", "the manager", |out| out.contains("\"available\":true"))?;
    d.kill("osd.2")?;
    d.wait_up(2)?;
    d.stock_of(Tentacle, "osd.2", &of_osd)?;
    d.wait_up(3)?;
    clean(&d, "clean groups with a stock OSD of 20.2")?;
    for ours in [0, 1] {
        let is_told = || d.said(&format!("osd.{ours}")).contains("the monitors are of 20.2.");
        ensure!(until(PATIENCE, is_told), "osd.{ours} does not know of the new release: {}", d.said(&format!("osd.{ours}")));
        ensure!(release_of(&d, ours)? == "reef", "osd.{ours} says another release than it booted with");
    }
    d.must("ceph osd down 0")?;
    d.wait("ceph osd metadata 0", "the new release of osd.0", |out| out.contains("\"tentacle\""))?;
    d.wait_up(3)?;
    clean(&d, "clean groups with osd.0 again")?;
    d.end("osd.1")?;
    d.wait_up(2)?;
    d.start("osd.1")?;
    d.wait_up(3)?;
    clean(&d, "clean groups with osd.1 again")?;
    one_version(&d)?;
    d.must("ceph osd require-osd-release tentacle")?;
    requires(&d, "tentacle")?;
    ended_well(tests)?;
    clean(&d, "clean groups at the end")?;
    copies_agree(&d)
}
