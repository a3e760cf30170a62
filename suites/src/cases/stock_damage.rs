//! Damage in groups that stock and our OSDs share: whichever kind of OSD leads the group and whichever holds the damaged copy, a deep
//! scrub says of it what stock OSDs alone say of the same damage in the same cluster; and a repair by either kind restores it.
//!
//! Three pools of one group each, by `pg-upmap`: one on stock OSDs alone, which says what is due, one that ours leads, and one that a
//! stock OSD leads. Copies are damaged while their OSDs are stopped, by `ceph-objectstore-tool` and by `humboldt store`.

use super::Case;
use super::rot::store;
use crate::clients::Release::{self, Reef, Tentacle};
use crate::run::until;
use crate::stock::{Daemons, PATIENCE, Plane, stock_control_plane, stock_osd};
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "stock_and_our_osds_find_the_same_damage", needs: &[Reef], run: || damage(Reef) },
    Case { name: "stock_and_our_osds_find_the_same_damage_20.2", needs: &[Tentacle], run: || damage(Tentacle) },
];

const OURS: u32 = 3;
const STOCK: [u32; 3] = [0, 1, 2];
/// A pool, and the OSDs of its group: the one that leads, the one whose copies of `*-replica` are damaged, and a third.
const POOLS: [(&str, [u32; 3]); 3] = [("among_stock", [0, 1, 2]), ("ours_leads", [OURS, 0, 1]), ("stock_leads", [0, OURS, 1])];
const KINDS: [&str; 8] = ["bytes", "size", "attr", "info", "omap", "snapset", "removed", "clone"];
const ROLES: [&str; 3] = ["primary", "replica", "third"];
/// Of each object before and after it was damaged; no other number of its record is that one.
const SIZE: usize = 3001;
const CUT: usize = 2001;
/// A stock tool on a stopped OSD's store.
const TOOL: Duration = Duration::from_secs(60);

/// Fields that name a time, a version or a place: they differ from pool to pool.
const OF_THE_POOL: [&str; 9] =
    ["epoch", "version", "prior_version", "last_reqid", "user_version", "mtime", "local_mtime", "pool", "primary"];

/// Findings that a stock primary does not mend: it takes its own copy for the right one where no record decides, and repairs no attribute.
const STOCK_LEAVES: [&str; 5] = ["omap-primary", "clone-primary", "clone-replica", "attr-primary", "attr-replica"];

struct Group<'a> {
    d: &'a Daemons,
    pool: &'static str,
    osds: [u32; 3],
    pgid: String,
}

impl<'a> Group<'a> {
    fn of(d: &'a Daemons, pool: &'static str, osds: [u32; 3]) -> Result<Self> {
        let pools = d.json("ceph osd lspools")?;
        let number = pools.as_array().and_then(|all| all.iter().find(|one| one["poolname"] == pool)).context(pool)?["poolnum"].clone();
        Ok(Self { d, pool, osds, pgid: format!("{number}.0") })
    }
    fn now(&self) -> Result<Value> {
        let listed = self.d.json(&format!("ceph pg ls-by-pool {}", self.pool))?;
        listed["pg_stats"][0].as_object().map(|pg| pg.clone().into()).context("a group")
    }
    /// Waits until it is where it belongs, and nothing is under way in it.
    fn settle(&self, what: &str) -> Result<()> {
        let is_settled = |pg: &Value| {
            let state = pg["state"].as_str().unwrap_or_default();
            state.starts_with("active+clean") && !state.contains("scrubbing") && pg["acting"] == json!(self.osds)
        };
        let settled = until(PATIENCE, || self.now().is_ok_and(|pg| is_settled(&pg)));
        ensure!(settled, "{}, {what}: {:?}{}", self.pool, self.now(), self.d.last_words());
        Ok(())
    }
    fn scrub(&self, verb: &str) -> Result<()> {
        let before = self.now()?["last_deep_scrub_stamp"].clone();
        self.d.must(&format!("ceph pg {verb} {}", self.pgid))?;
        let done = until(PATIENCE, || self.now().is_ok_and(|pg| pg["last_deep_scrub_stamp"] != before));
        ensure!(done, "{}: {verb} did not end: {:?}{}", self.pool, self.now(), self.d.last_words());
        self.settle(verb)
    }
    /// Findings of the last deep scrub by object, without what names this pool.
    fn found(&self, what: &str) -> Result<Map<String, Value>> {
        let text = self.d.must(&format!("rados list-inconsistent-{what} {} --format=json", self.pgid))?;
        let all: Value = serde_json::from_str(&text)?;
        let name = |found: &Value| {
            let of = if found["object"].is_object() { &found["object"] } else { found };
            format!("{} {}", of["name"].as_str().unwrap_or_default(), of["snap"])
        };
        Ok(all["inconsistents"].as_array().into_iter().flatten().map(|found| (name(found), self.plain(found))).collect())
    }
    /// The value with roles in place of OSDs, lists of words in order, and without what is the pool's own.
    fn plain(&self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let kept = fields.iter().filter(|(name, _)| !OF_THE_POOL.contains(&name.as_str()));
                let field = |(name, value): (&String, &Value)| {
                    let role = self.osds.iter().position(|osd| name == "osd" && *value == json!(osd));
                    (name.clone(), role.map_or_else(|| self.plain(value), |role| ROLES[role].into()))
                };
                Value::Object(kept.map(field).collect())
            }
            Value::Array(items) => {
                let mut items: Vec<Value> = items.iter().map(|item| self.plain(item)).collect();
                items.sort_by_key(|item| item.get("osd").or(item.get("name")).unwrap_or(item).to_string());
                items.into()
            }
            other => other.clone(),
        }
    }
    /// Bytes, attribute and omap of that object, as a client reads them.
    fn read(&self, name: &str) -> Result<[String; 3]> {
        let rados = |line: &str| self.d.must(&format!("rados -p {} {line}", self.pool));
        let file = self.d.dir.join("read");
        rados(&format!("get {name} {}", file.display()))?;
        let bytes = std::fs::read_to_string(&file)?;
        Ok([bytes, rados(&format!("getxattr {name} color"))?, rados(&format!("listomapvals {name}"))?])
    }
}

fn names() -> impl Iterator<Item = (&'static str, String)> {
    KINDS.into_iter().flat_map(|kind| ROLES[..2].iter().map(move |role| (kind, format!("{kind}-{role}"))))
}

/// The pools with their objects, each group where it belongs.
fn filled(d: &Daemons) -> Result<Vec<Group<'_>>> {
    let file = d.dir.join("right");
    std::fs::write(&file, "a".repeat(SIZE))?;
    d.must("ceph osd crush rule create-replicated any default osd")?;
    let mut groups = Vec::new();
    for (pool, osds) in POOLS {
        for line in [
            format!("ceph osd pool create {pool} 1 1 replicated any"),
            format!("ceph osd pool application enable {pool} test"),
            format!("ceph osd pool set {pool} size 3"),
            format!("ceph osd pool set {pool} min_size 2"),
        ] {
            d.must(&line)?;
        }
        let group = Group::of(d, pool, osds)?;
        d.must(&format!("ceph osd pg-upmap {} {}", group.pgid, osds.map(|osd| osd.to_string()).join(" ")))?;
        group.settle("at first")?;
        for (kind, name) in names() {
            let put = || d.must(&format!("rados -p {pool} put {name} {}", file.display()));
            put()?;
            if kind == "clone" {
                d.must(&format!("rados -p {pool} mksnap {name}"))?;
                put()?;
            }
            d.must(&format!("rados -p {pool} setxattr {name} color blue"))?;
            d.must(&format!("rados -p {pool} setomapval {name} key value"))?;
        }
        groups.push(group);
    }
    Ok(groups)
}

/// `ceph-objectstore-tool` on a head of a stopped stock OSD.
fn stock_tool(release: Release, d: &Daemons, osd: u32, pgid: &str, words: &[&str]) -> Result<String> {
    let (conf, data) = (d.dir.join(format!("osd.{osd}.conf")), d.dir.join(format!("osd.{osd}")).display().to_string());
    let args = [&["--no-mon-config", "--data-path", &data, "--pgid", pgid, "--head"], words].concat();
    let out = release.run(&conf, "ceph-objectstore-tool", &args, TOOL)?;
    ensure!(out.ok(), "ceph-objectstore-tool {words:?} on osd.{osd} ended with {}: {}{}", out.code, out.stdout, out.stderr);
    Ok(out.stdout)
}

fn damage_stock(release: Release, d: &Daemons, osd: u32, pgid: &str, kind: &str, name: &str) -> Result<()> {
    let file = |name: &str, content: String| -> Result<String> {
        let path = d.dir.join(name);
        std::fs::write(&path, content)?;
        Ok(path.display().to_string())
    };
    let (other, cut) = (file("other", "b".repeat(SIZE))?, file("cut", "a".repeat(CUT))?);
    let (red, value) = (file("red", "red".into())?, file("value", "other".into())?);
    let words: &[&str] = match kind {
        "bytes" => &["set-bytes", &other],
        "size" => &["set-bytes", &cut],
        "attr" => &["set-attr", "_color", &red],
        "info" => &["rm-attr", "_"],
        "omap" => &["set-omap", "key", &value],
        "snapset" => &["rm-attr", "snapset"],
        "clone" => &["clear-snapset", "clones"],
        _ => &["remove"],
    };
    stock_tool(release, d, osd, pgid, &[&[name], words].concat()).map(drop)
}

/// A record of the object as the stock OSD beside ours has it, whose copy is whole.
fn record(release: Release, d: &Daemons, pgid: &str, name: &str, attr: &str) -> Result<Vec<u8>> {
    let (conf, data) = (d.dir.join("osd.1.conf"), d.dir.join("osd.1").display().to_string());
    let file = d.dir.join("record");
    // The tool prints the bytes as they are, which are no text.
    let line = format!(
        "CEPH_CONF={} ceph-objectstore-tool --no-mon-config --data-path {data} --pgid {pgid} --head {name} get-attr {attr} > {}",
        conf.display(),
        file.display()
    );
    let out = release.run(&conf, "/bin/sh", &["-c", &line], TOOL)?;
    ensure!(out.ok(), "{line}: {}{}", out.stdout, out.stderr);
    Ok(std::fs::read(&file)?)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn damage_ours(release: Release, d: &Daemons, group: &Group<'_>, kind: &str, name: &str, listed: &str) -> Result<()> {
    // Other pools have objects of that name, too.
    let is_it = |line: &&str| line.starts_with(&format!("{}_", group.pgid)) && line.contains(&format!(":{name}:head"));
    let object = listed.lines().find(is_it).and_then(|line| line.split('\t').nth(2)).with_context(|| format!("{name} in:\n{listed}"))?;
    let folder = d.dir.join(format!("osd.{OURS}"));
    let change = |words: &[&str]| -> Result<()> {
        let out = store(&folder, &[&["damage", object], words].concat())?;
        ensure!(out.ok(), "{name}: {}{}", out.stdout, out.stderr);
        Ok(())
    };
    match kind {
        "bytes" => change(&["bytes", "0", &"b".repeat(SIZE)]),
        "size" => change(&["size", &CUT.to_string()]),
        "attr" => change(&["attr", "_color", "red"]),
        "info" => change(&["attr", "_"]),
        "omap" => change(&["omap", "key", "other"]),
        "snapset" => change(&["attr", "snapset"]),
        // A set of snapshots that names no clone: as that of an object without one, after the same snapshot.
        "clone" => change(&["raw-attr", "snapset", &hex(&without_clones(&record(release, d, &group.pgid, name, "snapset")?)?)]),
        _ => change(&["remove"]),
    }
}

/// An encoded set of snapshots that names no clone any more. Source of the fields: Ceph 18.2 `src/osd/osd_types.cc`, `SnapSet::encode`,
/// version 3: after the frame of 6 bytes come seq, a byte, the snapshots, the clones, their overlaps, sizes and snapshots.
fn without_clones(encoded: &[u8]) -> Result<Vec<u8>> {
    let count = |at: usize| -> Result<usize> {
        let bytes = encoded.get(at..at + 4).context("a set of snapshots ends early")?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four")) as usize)
    };
    let (frame, front) = (6, 8 + 1);
    let clones_at = frame + front + 4 + 8 * count(frame + front)?;
    let mut body = encoded.get(frame..clones_at).context("a set of snapshots ends early")?.to_vec();
    body.extend([0; 4 * 4]);
    let mut out = encoded[..2].to_vec();
    out.extend(u32::try_from(body.len())?.to_le_bytes());
    out.extend(body);
    Ok(out)
}

/// Damages each object's copy of its role in each pool while no OSD runs.
fn damage_all(release: Release, d: &mut Daemons) -> Result<()> {
    let folder = d.dir.join(format!("osd.{OURS}"));
    let all = STOCK.into_iter().chain([OURS]);
    for osd in all.clone() {
        d.end(&format!("osd.{osd}"))?;
    }
    let listed = store(&folder, &["list"])?;
    ensure!(listed.ok(), "{}", listed.stderr);
    {
        let d = &*d;
        for (pool, osds) in POOLS {
            let group = Group::of(d, pool, osds)?;
            for (kind, name) in names() {
                let osd = osds[usize::from(name.ends_with("replica"))];
                match osd {
                    OURS => damage_ours(release, d, &group, kind, &name, &listed.stdout)?,
                    _ => damage_stock(release, d, osd, &group.pgid, kind, &name)?,
                }
            }
        }
    }
    for osd in all {
        d.start(&format!("osd.{osd}"))?;
    }
    d.wait_up(4)
}

/// Each finding of stock's in the group, and no other.
fn as_stock_finds(what: &str, group: &Group<'_>, due: &Map<String, Value>) -> Result<()> {
    let found = group.found(what)?;
    let differs = |name: &&String| found.get(*name) != due.get(*name);
    let names: std::collections::BTreeSet<&String> = found.keys().chain(due.keys()).collect();
    let shown = |name: &String| {
        let side = |of: &Map<String, Value>| of.get(name).map_or("nothing".into(), |value| format!("{value:#}"));
        format!("{name}: {}\nstock among themselves: {}", side(&found), side(due))
    };
    let wrong: Vec<String> = names.into_iter().filter(differs).map(shown).collect();
    ensure!(wrong.is_empty(), "{}: {} of {} findings of {what} differ:\n{}", group.pool, wrong.len(), due.len(), wrong.join("\n"));
    Ok(())
}

fn damage(release: Release) -> Result<()> {
    let plane = Plane { monitors: 1, release, manager: release, conf: "osd scrub auto repair = false\n", ..Plane::default() };
    let mut d = stock_control_plane(&format!("stock-damage-{}", release.version()), &plane)?;
    for osd in STOCK {
        stock_osd(&mut d, osd, "bluestore")?;
    }
    d.new_ours(OURS, "ssd", &["--store", "block", "--size", "2G"])?;
    d.wait_up(4)?;
    for line in ["ceph osd set noout", "ceph osd set noscrub", "ceph osd set nodeep-scrub"] {
        d.must(line)?;
    }
    drop(filled(&d)?);
    damage_all(release, &mut d)?;
    let groups = POOLS.into_iter().map(|(pool, osds)| Group::of(&d, pool, osds)).collect::<Result<Vec<_>>>()?;
    for group in &groups {
        group.settle("with damage")?;
        group.scrub("deep-scrub")?;
    }
    let [among_stock, mixed @ ..] = &groups[..] else { unreachable!("three pools") };
    for what in ["obj", "snapset"] {
        let due = among_stock.found(what)?;
        ensure!(due.len() >= 2, "stock finds only {due:?}");
        mixed.iter().try_for_each(|group| as_stock_finds(what, group, &due))?;
    }
    restored(mixed)
}

/// A repair, and another look: what is left is what stock leaves where it leads.
fn restored(groups: &[Group<'_>]) -> Result<()> {
    let right = ["a".repeat(SIZE), "blue".to_string()];
    for group in groups {
        group.scrub("repair")?;
        group.scrub("deep-scrub")?;
        let left = group.found("obj")?;
        let leaves = |name: &str| group.pool == "stock_leads" && STOCK_LEAVES.contains(&name);
        let wrong: Vec<_> = left.keys().filter(|name| !leaves(name.split(' ').next().unwrap_or_default())).collect();
        ensure!(wrong.is_empty(), "{}: after the repair there is still {wrong:?}: {left:#?}", group.pool);
        for (_, name) in names().filter(|(_, name)| !leaves(name)) {
            let [bytes, color, omap] = group.read(&name)?;
            ensure!(bytes == right[0] && color.trim() == right[1] && omap.contains("value"), "{}: {name} is {color} {omap}", group.pool);
        }
    }
    Ok(())
}
