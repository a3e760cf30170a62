//! Stock tools of 18.2 read our maps.

use super::Case;
use crate::clients::Release::{Pacific, Reef};
use crate::cluster::Cluster;
use crate::run::until;
use anyhow::{Result, ensure};
use std::time::Duration;

pub const CASES: &[Case] = &[Case { name: "stock_tools_read_our_maps", needs: &[Pacific, Reef], run: read_our_maps }];

fn read_our_maps() -> Result<()> {
    let c = Cluster::start("maps", &["--osds", "3"])?;
    let dir = c.dir.display().to_string();
    c.must(Pacific, "ceph osd pool create p1 16")?;
    c.must(Pacific, "ceph osd crush rule create-replicated other default osd")?;
    c.must(Pacific, &format!("ceph osd getmap -o {dir}/osdmap"))?;
    c.must(Pacific, &format!("ceph osd getcrushmap -o {dir}/crush"))?;
    let print = c.must(Reef, &format!("osdmaptool --print {dir}/osdmap"))?;
    ensure!(print.contains("'p1' replicated size 3") && print.contains("max_osd 3"), "osdmaptool says:\n{print}");
    let text = c.must(Reef, &format!("crushtool -d {dir}/crush"))?;
    ensure!(text.contains("rule replicated_rule") && text.contains("rule other") && text.contains("item osd.2"), "crushtool says:\n{text}");
    // Their mapping of our map, and ours.
    let theirs = c.must(Reef, &format!("osdmaptool {dir}/osdmap --test-map-pgs-dump --pool 1"))?;
    // `pg dump` shows what OSDs reported, so it is complete some time after the map.
    let mut stats = Vec::new();
    let mut dump = String::new();
    until(Duration::from_secs(60), || {
        dump = c.must(Pacific, "ceph pg dump pgs_brief -f json").unwrap_or_else(|e| e.to_string());
        let ours: serde_json::Value = serde_json::from_str(&dump).unwrap_or_default();
        stats = ours["pg_stats"].as_array().cloned().unwrap_or_default();
        stats.len() == 16 && stats.iter().all(|pg| pg["state"] == "active+clean")
    });
    ensure!(stats.len() == 16, "pg dump does not list 16 groups that are active+clean:\n{dump}");
    for pg in &stats {
        let (id, up) = (pg["pgid"].as_str().unwrap_or_default(), pg["up"].to_string());
        ensure!(
            theirs.lines().any(|l| l.split_whitespace().collect::<Vec<_>>()[..].starts_with(&[id, up.as_str()])),
            "{id} is on {up}; osdmaptool says:\n{theirs}"
        );
    }
    c.stop()
}
