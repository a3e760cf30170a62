//! Damage in the stores of three OSDs that are processes of their own: a deep scrub tells stock's clients of it in stock's words, no client reads any of
//! it, and a repair mends it.

use super::Case;
use super::rot::store;
use crate::clients::Release::{self, Reef};
use crate::cluster::Cluster;
use crate::run::{root, until};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

pub const CASES: &[Case] = &[Case { name: "scrub_finds_damage_and_repair_mends_it", needs: &[Reef], run: damage_of_each_kind }];

const R: Release = Reef;
const ARGS: &[&str] = &["--store", "block", "--size", "512M", "--osds", "3", "--processes"];
const LIMIT: Duration = Duration::from_secs(90);
/// As in `fixtures/scrub`, but for those that stock's tool does otherwise.
const KINDS: &[&str] = &["bytes", "attr", "info", "omap", "snapset", "removed"];
const ROLES: &[&str] = &["primary", "replica"];

fn names() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    KINDS.iter().flat_map(|kind| ROLES.iter().map(move |role| (*kind, *role, format!("{kind}-{role}"))))
}
fn json(c: &Cluster, line: &str) -> Result<Value> {
    let text = c.must(R, line)?;
    serde_json::from_str(&text).with_context(|| format!("{line}: {text}"))
}
/// The pool's one group, as the manager has it.
fn group(c: &Cluster) -> Result<Value> {
    let dump = json(c, "ceph pg ls-by-pool p -f json")?;
    dump["pg_stats"][0].as_object().map(|pg| Value::Object(pg.clone())).context("a group")
}
fn is_clean(pg: &Value) -> bool {
    let state = pg["state"].as_str().unwrap_or_default();
    state.starts_with("active+clean") && !state.contains("scrubbing") && pg["acting"].as_array().is_some_and(|acting| acting.len() == 3)
}
fn settle(c: &Cluster, what: &str) -> Result<()> {
    let clean = until(LIMIT, || group(c).is_ok_and(|pg| is_clean(&pg)));
    ensure!(clean, "{what}: not clean: {:?}\n{}", group(c), c.log());
    Ok(())
}
/// Has the group looked at, and waits until it was.
fn scrub(c: &Cluster, verb: &str) -> Result<()> {
    let pg = group(c)?;
    let (id, before) = (pg["pgid"].as_str().context("a name")?, pg["last_deep_scrub_stamp"].clone());
    c.must(R, &format!("ceph pg {verb} {id}"))?;
    let done = until(LIMIT, || group(c).is_ok_and(|pg| pg["last_deep_scrub_stamp"] != before && is_clean(&pg)));
    ensure!(done, "{verb}: {:?}\n{}", group(c), c.log());
    Ok(())
}

/// Starts deep scrubs and waits until each of these groups has had one. False if that takes longer.
pub fn all_scrubbed(limit: Duration, groups: impl Fn() -> Result<Vec<Value>>, start: impl FnOnce() -> Result<()>) -> Result<bool> {
    let stamps = || -> Result<Vec<String>> { Ok(groups()?.iter().map(|pg| pg["last_deep_scrub_stamp"].to_string()).collect()) };
    let before = stamps()?;
    start()?;
    Ok(until(limit, || stamps().is_ok_and(|now| now.iter().zip(&before).all(|(now, before)| now != before))))
}

/// What is wrong with each object: with the object, with all of its copies, and with the copy of each role.
type Findings = BTreeMap<String, (Value, Value, BTreeMap<String, Value>)>;

fn findings(found: &Value, primary: &Value, replica: &Value) -> Findings {
    let role = |osd: &Value| match () {
        _ if osd == primary => "primary",
        _ if osd == replica => "replica",
        _ => "third",
    };
    let sorted = |errors: &Value| {
        let mut texts: Vec<String> = errors.as_array().into_iter().flatten().map(ToString::to_string).collect();
        texts.sort();
        Value::from(texts)
    };
    let objects = found["inconsistents"].as_array().into_iter().flatten();
    let one = |object: &Value| {
        let shards = object["shards"].as_array().into_iter().flatten();
        let shards = shards.map(|shard| (role(&shard["osd"]).to_string(), sorted(&shard["errors"]))).collect();
        (
            object["object"]["name"].as_str().unwrap_or_default().to_string(),
            (sorted(&object["errors"]), sorted(&object["union_shard_errors"]), shards),
        )
    };
    objects.map(one).filter(|(name, _)| names().any(|(_, _, wanted)| wanted == *name)).collect()
}
fn recorded() -> Result<Findings> {
    let text = std::fs::read_to_string(root().join("fixtures/scrub/deep-obj.json"))?;
    Ok(findings(&serde_json::from_str(&text)?, &Value::from(1), &Value::from(2)))
}

fn words<'a>(kind: &str, name: &'a str, other: &'a str) -> Vec<&'a str> {
    let mut words = vec!["damage", name];
    words.extend(match kind {
        "bytes" => vec!["bytes", "0", other],
        "attr" => vec!["attr", "_color", "red"],
        "info" => vec!["attr", "_"],
        "omap" => vec!["omap", "key", "other"],
        "snapset" => vec!["attr", "snapset"],
        _ => vec!["remove"],
    });
    words
}

fn damage_of_each_kind() -> Result<()> {
    let mut c = Cluster::start("scrub", ARGS)?;
    for line in [
        "ceph osd pool create p 1",
        "ceph osd pool set p size 3",
        "ceph osd pool set p min_size 2",
        "ceph osd pool application enable p rados",
    ] {
        c.must(R, line)?;
    }
    settle(&c, "at the start")?;
    let (file, other) = (c.dir.join("right"), "b".repeat(3000));
    std::fs::write(&file, "a".repeat(3000))?;
    for (_, _, name) in names() {
        c.must(R, &format!("rados -p p put {name} {}", file.display()))?;
        c.must(R, &format!("rados -p p setxattr {name} color blue"))?;
        c.must(R, &format!("rados -p p setomapval {name} key value"))?;
    }
    let acting = group(&c)?["acting"].clone();
    let dir = c.dir.clone();
    c.stop()?;
    for (kind, role, name) in names() {
        let osd = &acting[usize::from(role == "replica")];
        let out = store(&dir.join(format!("osd.{osd}")), &words(kind, &name, &other))?;
        ensure!(out.ok(), "{name}: {}{}", out.stdout, out.stderr);
    }
    c = Cluster::start_in(dir, ARGS)?;
    settle(&c, "started again")?;
    ensure!(group(&c)?["acting"] == acting, "other OSDs lead: {:?}", group(&c)?);
    scrub(&c, "deep-scrub")?;
    let pgid = group(&c)?["pgid"].as_str().context("a name")?.to_string();
    let found = json(&c, &format!("rados list-inconsistent-obj {pgid} --format=json"))?;
    let (ours, stocks) = (findings(&found, &acting[0], &acting[1]), recorded()?);
    for (_, _, name) in names() {
        ensure!(ours.get(&name) == stocks.get(&name), "{name}: {:#?}, stock: {:#?}", ours.get(&name), stocks.get(&name));
    }
    let listed = c.must(R, "rados list-inconsistent-pg p")?;
    ensure!(listed.contains(&pgid), "{listed}");
    let health = c.must(R, "ceph health detail")?;
    ensure!(health.contains("OSD_SCRUB_ERRORS") && health.contains("PG_DAMAGED"), "{health}");
    for (_, _, name) in names() {
        let text = c.must(R, &format!("rados -p p get {name} -"))?;
        ensure!(text == "a".repeat(3000), "{name} is read as {} bytes {:?}", text.len(), text.get(..9));
    }
    scrub(&c, "repair")?;
    let quiet = until(LIMIT, || group(&c).is_ok_and(|pg| pg["stat_sum"]["num_scrub_errors"] == 0 && pg["state"] == "active+clean"));
    ensure!(quiet, "after the repair: {:?}\n{}", group(&c), c.log());
    scrub(&c, "deep-scrub")?;
    let found = json(&c, &format!("rados list-inconsistent-obj {pgid} --format=json"))?;
    ensure!(found["inconsistents"].as_array().is_some_and(Vec::is_empty), "{found}");
    println!("  {} damages were found as stock finds them, read by no client, and repaired", names().count());
    c.stop()
}
