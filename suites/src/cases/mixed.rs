//! Stock OSDs of 18.2 and 20.2 and ours with the same groups: as members of one, each of them leading some, while upstream's random workload runs and members
//! die; and one after the other, with what radosgw made on the one read and changed on the other.
//!
//! A stock member checks ours: it ends by an assertion where a message says what no stock OSD would say.

use super::Case;
use super::radosgw::{ACCESS, SECRET, speak, told};
use super::scrub::all_scrubbed;
use crate::clients::Release::{self, Reef, Tentacle};
use crate::clients::reef_radosgw;
use crate::gateway::{Gateway, admin, objects_of_data};
use crate::run::{run, until};
use crate::share::turn;
use crate::stock::{Daemons, PATIENCE, Plane, stock_control_plane, stock_osd};
use crate::workload::{MIXES as WHOLE, Mix, SMALL, judge};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "stock_and_our_osds_in_one_group", needs: &[Reef], run: || mixed(Reef) },
    Case { name: "stock_and_our_osds_in_one_group_20.2", needs: &[Tentacle], run: || mixed(Tentacle) },
    Case { name: "stock_and_our_osds_take_a_bucket_in_turn", needs: &[Reef], run: bucket_in_turn },
    Case { name: "stock_and_our_osds_under_one_mix_by_turns", needs: &[Reef, Tentacle], run: mix_by_turns },
];

/// The whole mixes, one after the other, of each release and for each kind of leader.
pub const LONG: &[Case] = &[
    Case { name: "stock_and_our_osds_under_all_mixes", needs: &[Reef], run: || all_mixes(Reef) },
    Case { name: "stock_and_our_osds_under_all_mixes_20.2", needs: &[Tentacle], run: || all_mixes(Tentacle) },
];

/// Upstream's mix of operations with snapshots, on small objects. Its own limit in seconds is far beyond what the operations take.
const WORKLOAD: &str = "--max-seconds 240 --objects 128 --max-in-flight 16 --op read 100 --op write 50 --op append 50 --op delete 20 \
                        --op snap_create 5 --op snap_remove 5 --op rollback 10";
/// The rest of the mix, in two runs side by side. Stock's log does not say that a copy took an omap away, so that a stock member that was down keeps it:
/// among stock OSDs alone too. So no object is copied that another has an omap of.
const MIXES: [&str; 2] = ["--op copy_from 30", "--op setattr 25 --op rmattr 25"];
/// Operations of one run.
const OPS: u32 = 2500;

type Running = std::thread::JoinHandle<Result<()>>;

/// The whole mix, as two processes of that many operations.
pub(super) fn workloads(release: Release, d: &Daemons, ops: u32) -> [Running; 2] {
    MIXES.map(|mix| workload(release, d, mix, ops))
}
/// Their ends.
pub(super) fn ended_well(tests: [Running; 2]) -> Result<()> {
    for test in tests {
        test.join().ok().context("the workload's thread ended badly")??;
    }
    Ok(())
}
/// One of the two in a process of its own.
fn workload(release: Release, d: &Daemons, mix: &str, ops: u32) -> Running {
    let mut cmd = release.command(&d.conf, "ceph_test_rados");
    cmd.args(["--pool", "mixed", "--max-ops", &ops.to_string()])
        .args(SMALL.split_whitespace())
        .args(WORKLOAD.split_whitespace())
        .args(mix.split_whitespace());
    std::thread::spawn(move || judge(&run(&mut cmd, Duration::from_secs(300))?))
}
fn groups(d: &Daemons) -> Result<Vec<Value>> {
    Ok(d.json("ceph pg ls-by-pool mixed")?["pg_stats"].as_array().context("pg ls-by-pool")?.clone())
}
/// Waits until every group is clean on all three, by a map that every OSD that is up has.
pub(super) fn clean(d: &Daemons, what: &str) -> Result<()> {
    clean_with(d, 3, what)
}
/// The same of a pool of that many copies.
fn clean_with(d: &Daemons, copies: usize, what: &str) -> Result<()> {
    let epoch = d.json("ceph osd dump")?["epoch"].as_u64().context("an epoch")?;
    // A group that also trims snapshots has all its copies.
    let is_clean = |pg: &Value| {
        let is_new = pg["reported_epoch"].as_u64().is_some_and(|reported| reported >= epoch);
        let all_copies = pg["state"].as_str().is_some_and(|state| state.starts_with("active+clean"));
        is_new && all_copies && pg["acting"].as_array().is_some_and(|acting| acting.len() == copies)
    };
    // Each is looked at by itself: beside a workload that makes snapshots they may never all be reported at one moment.
    let mut seen = BTreeSet::new();
    let reached = until(PATIENCE, || {
        let found = groups(d).unwrap_or_default();
        seen.extend(found.iter().filter(|pg| is_clean(pg)).map(|pg| pg["pgid"].to_string()));
        seen.len() == 16
    });
    ensure!(reached, "{what} did not come:\n{}{}", d.must("ceph pg dump pgs_brief")?, d.last_words());
    nothing_ended(d)
}
/// All OSDs run on.
fn nothing_ended(d: &Daemons) -> Result<()> {
    let words = d.last_words();
    ensure!(words.is_empty(), "a daemon ended by itself:{words}");
    Ok(())
}

/// A scrub found copies that differ.
pub(super) fn is_damaged(pg: &Value) -> bool {
    pg["state"].as_str().is_some_and(|state| state.contains("inconsistent"))
}

/// A pool of three copies, on three OSDs that weigh the same.
pub(super) fn three_copies(d: &Daemons) -> Result<()> {
    for line in [
        "ceph osd crush reweight osd.0 1",
        "ceph osd crush reweight osd.1 1",
        "ceph osd crush reweight osd.2 1",
        "ceph osd crush rule create-replicated any default osd",
        "ceph osd pool create mixed 16 16 replicated any",
        "ceph osd pool application enable mixed test",
        "ceph osd pool set mixed size 3",
        "ceph osd pool set mixed min_size 2",
    ] {
        d.must(line)?;
    }
    clean(d, "clean groups of three")
}

/// Every copy is what the others are, by the word of the one that leads.
pub(super) fn copies_agree(d: &Daemons) -> Result<()> {
    copies_agree_with(d, 3)
}
fn copies_agree_with(d: &Daemons, copies: usize) -> Result<()> {
    let scrubbed = all_scrubbed(PATIENCE, || groups(d), || d.must("ceph osd pool deep-scrub mixed").map(drop))?;
    ensure!(scrubbed, "not every group was scrubbed: {}", d.must("ceph pg dump pgs_brief")?);
    let damaged: Vec<String> = groups(d)?.iter().filter(|pg| is_damaged(pg)).map(|pg| pg["pgid"].to_string().replace('"', "")).collect();
    let differences: Result<Vec<String>> =
        damaged.iter().map(|pgid| d.must(&format!("rados list-inconsistent-obj {pgid} --format=json"))).collect();
    ensure!(damaged.is_empty(), "copies differ in {damaged:?}: {differences:?}");
    clean_with(d, copies, "clean groups after the scrub")
}

fn mixed(release: Release) -> Result<()> {
    release.install_tests()?;
    let plane = Plane { monitors: 1, release, manager: release, ..Plane::default() };
    let mut d = stock_control_plane(&format!("mixed-groups-{}", release.version()), &plane)?;
    // No stock memstore: a clone that recovery builds there by copying a whole, shorter clone into it ends where that one ends, among stock OSDs alone too.
    stock_osd(&mut d, 0, "bluestore")?;
    stock_osd(&mut d, 1, "bluestore")?;
    d.new_ours(2, "ssd", &["--store", "block", "--size", "2G"])?;
    d.wait_up(3)?;
    three_copies(&d)?;
    let leaders: Vec<Option<u64>> = groups(&d)?.iter().map(|pg| pg["acting_primary"].as_u64()).collect();
    ensure!((0..3).all(|osd| leaders.contains(&Some(osd))), "of 16 groups each OSD leads some: {leaders:?}");

    // Each dies once under the workload, ours without a warning, and comes back.
    let tests = workloads(release, &d, OPS);
    for victim in ["osd.2", "osd.1", "osd.2"] {
        d.kill(victim)?;
        d.wait_up(2)?;
        d.start(victim)?;
        d.wait_up(3)?;
        clean(&d, &format!("clean groups after the death of {victim}"))?;
    }
    ended_well(tests)?;
    clean(&d, "clean groups at the end")?;
    copies_agree(&d)
}

/// Which kind of OSD leads the groups, as far as that kind is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leader {
    Ours,
    Stock,
}

/// Upstream's mix of that letter with so many operations on groups of two stock OSDs and one of ours, or one and two, while each OSD dies
/// once. `size` is the pool's number of copies.
fn under_mix(release: Release, mix: &Mix, leader: Leader, size: usize, ops: u32) -> Result<()> {
    release.install_tests()?;
    let plane = Plane { monitors: 1, release, manager: release, ..Plane::default() };
    let mut d = stock_control_plane(&format!("mix-{}-{}-{leader:?}-{size}", mix.letter, release.version()), &plane)?;
    stock_osd(&mut d, 0, "bluestore")?;
    match leader {
        Leader::Ours => d.new_ours(1, "ssd", &["--store", "block", "--size", "2G"])?,
        Leader::Stock => stock_osd(&mut d, 1, "bluestore")?,
    }
    d.new_ours(2, "ssd", &["--store", "block", "--size", "2G"])?;
    d.wait_up(3)?;
    three_copies(&d)?;
    let followers: &[u32] = if leader == Leader::Ours { &[0] } else { &[2] };
    for osd in followers {
        d.must(&format!("ceph osd primary-affinity {osd} 0"))?;
    }
    if size == 2 {
        d.must("ceph osd pool set mixed size 2")?;
        d.must("ceph osd pool set mixed min_size 1")?;
    }
    clean_with(&d, size, "clean groups before the mix")?;
    let led: Vec<Option<u64>> = groups(&d)?.iter().map(|pg| pg["acting_primary"].as_u64()).collect();
    // With two copies both may be a follower's.
    ensure!(size == 2 || followers.iter().all(|osd| !led.contains(&Some(u64::from(*osd)))), "{followers:?} lead: {led:?}");
    let objects = if mix.letter == 'E' {
        "--objects 50 --max-in-flight 16 --size 4000000 --min-stride-size 400000 --max-stride-size 800000"
    } else {
        SMALL
    };
    let mut cmd = release.command(&d.conf, "ceph_test_rados");
    cmd.args(["--pool", "mixed", "--max-ops", &ops.to_string(), "--max-seconds", "1200"]).args(objects.split_whitespace());
    if mix.letter != 'E' {
        cmd.args(["--objects", "256", "--max-in-flight", "32"]);
    }
    if mix.letter == 'D' {
        // It copies objects, too: see `MIXES`.
        cmd.arg("--no-omap");
    }
    cmd.args(mix.ops().split_whitespace());
    let test = std::thread::spawn(move || judge(&run(&mut cmd, Duration::from_secs(1500))?));
    for victim in ["osd.2", "osd.0", "osd.1"] {
        d.kill(victim)?;
        d.wait_up(2)?;
        d.start(victim)?;
        d.wait_up(3)?;
        clean_with(&d, size, &format!("clean groups after the death of {victim}"))?;
    }
    test.join().ok().context("the workload's thread ended badly")??;
    clean_with(&d, size, "clean groups at the end")?;
    copies_agree_with(&d, size)
}

/// A short run of one mix, of another with each change: of each release, with each kind of leader.
fn mix_by_turns() -> Result<()> {
    let turn = turn() as usize;
    let mix = &WHOLE[turn % WHOLE.len()];
    let (release, leader) = ([Reef, Tentacle][turn / 4 % 2], [Leader::Ours, Leader::Stock][turn / 8 % 2]);
    let ops = if mix.letter == 'E' { 300 } else { 2000 };
    println!("  mix {} of {}, led by {leader:?}", mix.letter, release.version());
    under_mix(release, mix, leader, 3, ops)
}

fn all_mixes(release: Release) -> Result<()> {
    for mix in &WHOLE {
        let ops = if mix.letter == 'E' { 4000 } else { 20_000 };
        for leader in [Leader::Ours, Leader::Stock] {
            for size in [3, 2] {
                under_mix(release, mix, leader, size, ops)
                    .with_context(|| format!("mix {} of {}, led by {leader:?}, {size} copies", mix.letter, release.version()))?;
            }
        }
    }
    Ok(())
}

/// Every group moves to that one of two OSDs, and the other ends: it serves alone.
fn moved_to(d: &mut Daemons, to: u32, from: u32) -> Result<()> {
    d.must(&format!("ceph osd in {to}"))?;
    d.must(&format!("ceph osd out {from}"))?;
    let epoch = d.json("ceph osd dump")?["epoch"].as_u64().context("an epoch")?;
    let is_there = |pg: &Value| {
        let is_new = pg["reported_epoch"].as_u64().is_some_and(|reported| reported >= epoch);
        is_new && pg["state"] == "active+clean" && pg["acting"] == serde_json::json!([to])
    };
    let groups = || -> Result<Vec<Value>> { Ok(d.json("ceph pg dump pgs")?["pg_stats"].as_array().context("pg dump")?.clone()) };
    let moved = until(PATIENCE, || groups().is_ok_and(|pgs| !pgs.is_empty() && pgs.iter().all(is_there)));
    ensure!(moved, "not every group is on osd.{to}:\n{}{}", d.must("ceph pg dump pgs_brief")?, d.last_words());
    nothing_ended(d)?;
    d.kill(&format!("osd.{from}"))?;
    d.wait_up(1)
}

/// radosgw fills a bucket on a stock OSD; it is read and changed on ours after a move, and again on the stock one when it is back there.
fn bucket_in_turn() -> Result<()> {
    reef_radosgw()?;
    let plane = Plane { monitors: 1, conf: "osd pool default pg num = 8\nosd pool default pgp num = 8\n", ..Plane::default() };
    let mut d = stock_control_plane("mixed-bucket", &plane)?;
    stock_osd(&mut d, 0, "bluestore")?;
    d.wait_up(1)?;
    let gateway = Gateway::start(&d.conf, &[])?;
    let conf = d.conf.clone();
    admin(&conf, &format!("user create --uid=t --display-name=T --access-key={ACCESS} --secret-key={SECRET}"))?;
    speak(&gateway, &["kept", "mixed"])?;
    let is_whole = |objects: u64| -> Result<()> {
        speak(&gateway, &["check"])?;
        let check: Value = serde_json::from_str(&admin(&conf, "bucket check --bucket=mixed")?).context("bucket check")?;
        let check = &check["check_result"];
        let sums = &check["existing_header"]["usage"]["rgw.main"];
        ensure!(check["existing_header"] == check["calculated_header"] && sums["num_objects"] == objects, "{check}");
        Ok(())
    };
    is_whole(8)?;
    let at_first = told(&gateway, "tell")?;

    d.new_ours(1, "ssd", &["--store", "block", "--size", "2G"])?;
    d.wait_up(2)?;
    for osd in [0, 1] {
        d.must(&format!("ceph osd crush reweight osd.{osd} 1"))?;
    }
    moved_to(&mut d, 1, 0)?;
    is_whole(8)?;
    ensure!(told(&gateway, "tell")? == at_first, "on ours the bucket is another one, not:\n{at_first}\n{}", told(&gateway, "tell")?);
    // The index and its log go on where stock left them.
    speak(&gateway, &["grow", "plain", "versions", "uploads"])?;
    admin(&conf, "bucket reshard --bucket=kept --num-shards=13")?;
    is_whole(10)?;
    let on_ours = told(&gateway, "tell")?;
    ensure!(on_ours != at_first, "nothing has changed:\n{on_ours}");

    d.start("osd.0")?;
    d.wait_up(2)?;
    moved_to(&mut d, 0, 1)?;
    is_whole(10)?;
    ensure!(told(&gateway, "tell")? == on_ours, "back on stock the bucket is another one, not:\n{on_ours}\n{}", told(&gateway, "tell")?);
    speak(&gateway, &["plain", "versions", "uploads"])?;
    for bucket in ["kept", "mixed"] {
        admin(&conf, &format!("bucket rm --bucket={bucket} --purge-objects"))?;
    }
    admin(&conf, "gc process --include-all")?;
    ensure!(objects_of_data(&conf)? == 0, "{} objects of data are left", objects_of_data(&conf)?);
    nothing_ended(&d)
}
