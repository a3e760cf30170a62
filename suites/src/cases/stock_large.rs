//! Large objects on their way between stock and our OSDs: an omap of 30 MiB, attributes of 64 KiB, writes as large as
//! `osd_max_write_size`, and clones of all of them. As writes to a member, as recovery by the log, and as backfill, each kind to the
//! other: no member refuses what the other kind sends.

use super::Case;
use super::scrub::all_scrubbed;
use crate::clients::Release::{self, Reef, Tentacle};
use crate::run::until;
use crate::stock::{Daemons, PATIENCE, Plane, stock_control_plane, stock_osd};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

pub const CASES: &[Case] = &[
    Case { name: "stock_and_our_osds_send_what_is_large", needs: &[Reef], run: || large(Reef) },
    Case { name: "stock_and_our_osds_send_what_is_large_20.2", needs: &[Tentacle], run: || large(Tentacle) },
];

const POOL: &str = "large";

fn group(d: &Daemons) -> Result<Value> {
    let listed = d.json(&format!("ceph pg ls-by-pool {POOL}"))?;
    listed["pg_stats"][0].as_object().map(|pg| pg.clone().into()).context("a group")
}

/// The group lies on these OSDs, the first of them leads, by `pg-upmap`, and it is whole.
fn lies_on(d: &Daemons, osds: [u32; 3]) -> Result<()> {
    let pgid = group(d)?["pgid"].as_str().context("a name")?.to_string();
    d.must(&format!("ceph osd pg-upmap {pgid} {}", osds.map(|osd| osd.to_string()).join(" ")))?;
    whole(d, osds)
}
fn whole(d: &Daemons, osds: [u32; 3]) -> Result<()> {
    let is_there = |pg: &Value| pg["acting"] == json!(osds) && pg["state"].as_str().is_some_and(|state| state.starts_with("active+clean"));
    let came = until(PATIENCE * 2, || group(d).is_ok_and(|pg| is_there(&pg)));
    ensure!(came, "not whole on {osds:?}: {:?}{}", group(d), d.last_words());
    let words = d.last_words();
    ensure!(words.is_empty(), "a daemon ended by itself:{words}");
    Ok(())
}

/// No copy differs from the others.
fn copies_agree(d: &Daemons) -> Result<()> {
    let scrubbed = all_scrubbed(PATIENCE * 2, || Ok(vec![group(d)?]), || d.must(&format!("ceph osd pool deep-scrub {POOL}")).map(drop))?;
    ensure!(scrubbed, "the group was not scrubbed: {}", group(d)?);
    let found = d.must(&format!("rados list-inconsistent-obj {} --format=json", group(d)?["pgid"].as_str().unwrap_or_default()))?;
    let found: Value = serde_json::from_str(&found)?;
    ensure!(found["inconsistents"].as_array().is_some_and(Vec::is_empty), "copies differ: {found:#}");
    Ok(())
}

/// The pool of one group, led by a stock OSD with a member of each kind; ours are 2 and 3.
fn large(release: Release) -> Result<()> {
    let plane = Plane { monitors: 1, release, manager: release, ..Plane::default() };
    let mut d = stock_control_plane(&format!("stock-large-{}", release.version()), &plane)?;
    stock_osd(&mut d, 0, "bluestore")?;
    stock_osd(&mut d, 1, "bluestore")?;
    d.new_ours(2, "ssd", &["--store", "block", "--size", "2G"])?;
    d.new_ours(3, "ssd", &["--store", "block", "--size", "2G"])?;
    d.wait_up(4)?;
    for line in [
        "ceph osd set noout",
        "ceph osd crush rule create-replicated any default osd",
        "ceph osd pool create large 1 1 replicated any",
        "ceph osd pool application enable large test",
        "ceph osd pool set large size 3",
        "ceph osd pool set large min_size 2",
    ] {
        d.must(line)?;
    }
    let by_stock = [0, 1, 2];
    lies_on(&d, by_stock)?;
    d.large_objects("large", POOL)?;
    whole(&d, by_stock)?;
    // A stock primary pushes what ours missed, and beside it the clones.
    d.kill("osd.2")?;
    d.wait_up(3)?;
    d.large_objects("changed", POOL)?;
    d.start("osd.2")?;
    d.wait_up(4)?;
    whole(&d, by_stock)?;
    copies_agree(&d)?;
    // It fills one of ours that has nothing yet; then ours leads, and clients read its copies.
    lies_on(&d, [0, 3, 2])?;
    let by_ours = [3, 2, 0];
    lies_on(&d, by_ours)?;
    d.large_objects("whole", POOL)?;
    copies_agree(&d)?;
    // Ours fills a stock OSD, and pushes what another missed.
    lies_on(&d, [3, 1, 0])?;
    d.kill("osd.1")?;
    d.wait_up(3)?;
    d.large_objects("large", POOL)?;
    d.must(&format!("rados -p {POOL} rmsnap before"))?;
    d.large_objects("changed", POOL)?;
    d.start("osd.1")?;
    d.wait_up(4)?;
    whole(&d, [3, 1, 0])?;
    copies_agree(&d)?;
    lies_on(&d, [1, 3, 0])?;
    d.large_objects("whole", POOL)?;
    d.end("osd.2")?;
    d.end("osd.3")
}
