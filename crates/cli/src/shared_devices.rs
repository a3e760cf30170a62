//! `humboldt osd devices`: which OSDs share a device, which pools may keep two copies on one, and a CRUSH map by which none does.
//!
//! Works with the cluster that a ceph.conf names, ours or stock: devices are those that OSDs tell of (`ceph osd metadata`), groups are
//! mapped here by the map as it is and as it would be. Absent: what a converted map is, which is [`maps::device::converted`]'.

use crate::args::OsdDevices;
use crate::members::command;
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use client::{Cluster, setup};
use denc::Denc;
use maps::{OsdMap, Placement, device};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use types::{OsdId, PgId};

/// How long the monitor may take.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn devices(args: &OsdDevices) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let cluster = Cluster::connect(setup::load(Some(&args.conf), &args.name)?, PATIENCE).await?;
        let done = run(&cluster, args).await;
        cluster.shutdown();
        done
    })
}

async fn run(cluster: &Cluster, args: &OsdDevices) -> Result<()> {
    cluster.wait_for_newest_map().await?;
    let map = cluster.map();
    let told = ask(cluster, json!({ "prefix": "osd metadata", "format": "json" })).await?;
    let named = named(&map, &told);
    let mut by_device: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for osd in map.osds() {
        let device = named.get(&osd).map_or("not told", String::as_str);
        by_device.entry(device).or_default().push(format!("osd.{osd}"));
    }
    for (device, osds) in &by_device {
        say::println!("{device}: {}", osds.join(" "));
    }
    let together = together(&map, &named);
    for (pool, (groups, all)) in &together {
        say::println!("pool '{}' keeps two copies on one device in {groups} of {all} groups", map.pool_name(*pool).unwrap_or_default());
    }
    let lie_together: usize = together.values().map(|(groups, _)| groups).sum();
    let shares = by_device.iter().any(|(device, osds)| *device != "not told" && osds.len() > 1);
    let by_osd = device::rules_by_osd(&map.crush);
    if !shares || by_osd.is_empty() {
        ensure!(
            lie_together == 0,
            "no rule chooses among OSDs, and yet copies lie on one device: OSDs moved, or `ceph osd pg-upmap-items` put them there"
        );
        say::println!("{}", if shares { "no rule chooses among OSDs" } else { "no two OSDs share a device" });
        return Ok(());
    }
    let new = with_crush(&map, device::converted(&map.crush, &named).context("a bucket for each device")?);
    let bytes = bytes_of(cluster).await?;
    let moved = moves(&map, &new, &bytes)?;
    say::println!("{moved}");
    if !is_ours(cluster).await? {
        say::println!("{}", for_stock_monitors(&map, &named));
    }
    if !args.yes_i_really_mean_it {
        bail!(
            "{lie_together} groups keep two copies on one device; nothing was changed: --yes-i-really-mean-it converts the CRUSH map, and the data move"
        );
    }
    let features = map.canonical_features();
    let set = json!({ "prefix": "osd setcrushmap", "prior_version": map.crush_version });
    command(cluster, set, new.crush.to_bytes(features)).await.context("the map was changed meanwhile, perhaps: run this again")?;
    say::println!("the rules choose among devices now; `ceph -s` shows how the data move");
    Ok(())
}

async fn ask(cluster: &Cluster, words: Value) -> Result<Value> {
    let text = command(cluster, words, Bytes::new()).await?;
    serde_json::from_slice(&text).context("the monitor's answer is no JSON")
}

/// True under a monitor that knows that a device stands below a host, whatever the types' numbers.
async fn is_ours(cluster: &Cluster) -> Result<bool> {
    let text = command(cluster, json!({ "prefix": "version", "format": "json" }), Bytes::new()).await?;
    Ok(String::from_utf8_lossy(&text).contains("humboldt"))
}

/// Bytes of each placement group.
async fn bytes_of(cluster: &Cluster) -> Result<BTreeMap<PgId, u64>> {
    let dump = json!({ "prefix": "pg dump", "dumpcontents": ["pgs"], "format": "json" });
    let answer = cluster.mgr_command(&dump.to_string(), Bytes::new()).await.context("pg dump")?;
    ensure!(answer.result >= 0, "pg dump: {}", answer.status);
    let json: Value = serde_json::from_slice(&answer.output).context("the answer to pg dump")?;
    let rows = json["pg_stats"].as_array().or(json.as_array()).cloned().unwrap_or_default();
    let row = |row: &Value| Some((PgId::parse(row["pgid"].as_str()?)?, row["stat_sum"]["num_bytes"].as_u64().unwrap_or(0)));
    Ok(rows.iter().filter_map(row).collect())
}

/// The bucket of each OSD's device: the one that the map has, or one by the name of the host and what its OSDs tell of the device.
fn named(map: &OsdMap, told: &Value) -> BTreeMap<OsdId, String> {
    let mut groups: BTreeMap<(String, String), Vec<(OsdId, String)>> = BTreeMap::new();
    for about in told.as_array().into_iter().flatten() {
        let text = |name: &str| about[name].as_str().unwrap_or_default().to_string();
        let Some(osd) = about["id"].as_i64().map(|id| id as OsdId).filter(|osd| map.exists(*osd)) else { continue };
        // Kernel names are the same for stock OSDs and ours on one device; ours tell a lasting name, too, and one of a file's device.
        let (physical, own) = (text("bluestore_bdev_devices"), text("humboldt_device"));
        let physical = if physical.is_empty() { text("devices") } else { physical };
        let key = if physical.is_empty() { own.clone() } else { physical };
        if !key.is_empty() {
            groups.entry((text("hostname"), key)).or_default().push((osd, own));
        }
    }
    let mut out = BTreeMap::new();
    for ((host, key), osds) in groups {
        let kept = osds.iter().find_map(|(osd, _)| map.crush.item_name(device::above(&map.crush, *osd)?));
        let own = osds.iter().find(|(_, name)| !name.is_empty()).map_or(key.as_str(), |(_, name)| name);
        let name = kept.map_or_else(|| plain(&format!("{host}-{own}")), str::to_owned);
        out.extend(osds.into_iter().map(|(osd, _)| (osd, name.clone())));
    }
    out
}

/// As a name in the CRUSH map.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect()
}

fn groups(map: &OsdMap) -> impl Iterator<Item = PgId> {
    map.pools.iter().flat_map(|(id, pool)| (0..pool.pg_num).map(|seed| PgId::new(*id, seed)))
}

/// For each pool that has any: groups with two members on one device, and how many groups there are.
fn together(map: &OsdMap, named: &BTreeMap<OsdId, String>) -> BTreeMap<i64, (usize, u32)> {
    let mut work = Placement::default();
    let mut out = BTreeMap::new();
    for pg in groups(map) {
        let up = map.pg_to_up_acting(pg, &mut work).up;
        let on: Vec<&String> = up.iter().filter_map(|osd| named.get(osd)).collect();
        if on.iter().collect::<BTreeSet<_>>().len() < on.len() {
            out.entry(pg.pool).or_insert((0, map.pools[&pg.pool].pg_num)).0 += 1;
        }
    }
    out
}

fn with_crush(map: &OsdMap, crush: maps::CrushMap) -> OsdMap {
    OsdMap { crush: Arc::new(crush), ..map.clone() }
}

/// The copies that move from one map to the other, for people. An error names a pool that would have fewer members.
fn moves(old: &OsdMap, new: &OsdMap, bytes: &BTreeMap<PgId, u64>) -> Result<String> {
    let mut work = Placement::default();
    let (mut all, mut moved, mut copies, mut sum) = (0, 0, 0, 0);
    for pg in groups(old) {
        let (before, after) = (old.pg_to_up_acting(pg, &mut work).up, new.pg_to_up_acting(pg, &mut work).up);
        let (pool, name) = (&old.pools[&pg.pool], old.pool_name(pg.pool).unwrap_or_default());
        let count = |up: &[OsdId]| up.iter().filter(|osd| **osd != i32::MAX).count();
        ensure!(
            count(&after) >= count(&before),
            "pool '{name}' keeps {} copies, and would find {} devices: give it fewer (`ceph osd pool set {name} size {}`), or add a device",
            pool.size,
            count(&after),
            count(&after)
        );
        let gains = after.iter().filter(|osd| **osd != i32::MAX && !before.contains(osd)).count() as u64;
        // A piece of a coded object is one of those that the object takes.
        let pieces = if pool.is_erasure() { u64::from(pool.min_size).saturating_sub(1).max(1) } else { 1 };
        (all, moved, copies) = (all + 1, moved + u64::from(gains > 0), copies + gains);
        sum += gains * bytes.get(&pg).copied().unwrap_or(0) / pieces;
    }
    Ok(format!("with rules by device {copies} copies of {moved} of {all} groups move: {} MiB", sum.div_ceil(1 << 20)))
}

/// The steps before that, for people. Stock monitors order types by number: a device with a number above a host's would lose an OSD
/// that names its host at its next start, and one that is down would never be out.
fn for_stock_monitors(map: &OsdMap, named: &BTreeMap<OsdId, String>) -> String {
    let place = |osd: OsdId| format!("[osd.{osd}]\ncrush location = device={}\n", named.get(&osd).map_or("NAME", String::as_str));
    format!(
        "before that, put these lines into the ceph.conf of the OSDs' machines, since they would go back to their host at the next start:\n{}and \
         run `ceph config set mon mon_osd_down_out_subtree_limit none`: else no OSD is put out while all of its device is down",
        map.osds().map(place).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{CrushMap, PgPool, osd_state};

    /// Four OSDs by twos on a device, and a pool of two copies.
    fn map() -> OsdMap {
        let mut crush = CrushMap::new_cluster("osd");
        let at = [("host".to_string(), "a".to_string()), ("root".to_string(), "default".to_string())].into();
        for osd in 0..4 {
            crush.insert_item(osd, 0x1_0000, &format!("osd.{osd}"), &at).unwrap();
        }
        let mut map = OsdMap { crush: Arc::new(crush), ..OsdMap::default() };
        map.set_max_osd(4);
        for osd in 0..4 {
            map.osd_state[osd] = osd_state::EXISTS | osd_state::UP;
            map.osd_weight[osd] = 0x1_0000;
        }
        let pool = PgPool { size: 2, min_size: 1, pg_num: 64, pgp_num: 64, ..PgPool::default() };
        map.pools.insert(1, pool);
        map
    }

    #[test]
    fn a_conversion_is_counted_before_it_is_done() {
        let map = map();
        let about = |osd: usize| {
            let (kernel, own) = ([("sda", "S 1"), ("sdb", "S2")])[osd / 2];
            // One of them is stock, which tells no name of its own.
            let own = if osd == 1 { "" } else { own };
            json!({ "id": osd, "hostname": "a", "bluestore_bdev_devices": kernel, "humboldt_device": own })
        };
        let told: Value = (0..4).map(about).collect();
        let named = named(&map, &told);
        assert_eq!(named, [(0, "a-S-1"), (1, "a-S-1"), (2, "a-S2"), (3, "a-S2")].map(|(osd, name)| (osd, name.to_string())).into());
        let before = together(&map, &named);
        assert!((5..40).contains(&before[&1].0), "{before:?}");
        let new = with_crush(&map, device::converted(&map.crush, &named).unwrap());
        assert!(together(&new, &named).is_empty());
        let bytes: BTreeMap<PgId, u64> = groups(&map).map(|pg| (pg, 1 << 20)).collect();
        let said = moves(&map, &new, &bytes).unwrap();
        let numbers: Vec<u64> = said.split(|c: char| !c.is_ascii_digit()).filter_map(|w| w.parse().ok()).collect();
        let [copies, moved, all, mib] = numbers[..] else { panic!("{said}") };
        assert!(all == 64 && moved >= before[&1].0 as u64 && moved <= copies && mib == copies, "{said}");
        // Three copies have no third device.
        let mut three = map.clone();
        three.pools.get_mut(&1).unwrap().size = 3;
        let new = with_crush(&three, device::converted(&three.crush, &named).unwrap());
        assert!(moves(&three, &new, &bytes).unwrap_err().to_string().contains("would find 2 devices"));
    }
}
