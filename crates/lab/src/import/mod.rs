//! CBT's YAML and its ceph.conf as a study.
//!
//! Holds what its keys mean here. What can't mean anything (other hosts, partition labels, ssh) is named, never dropped silently; what a
//! study would need and this version lacks is an error that says so.

mod conf;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A study's text, and what had no meaning here.
pub struct Imported {
    pub study: String,
    pub named: Vec<String>,
}

/// Keys of `cluster` that say where, by which account, and how devices are found: here it is this machine.
const ELSEWHERE: &[&str] = &[
    "user",
    "head",
    "clients",
    "osds",
    "mons",
    "mgrs",
    "mdss",
    "rgws",
    "osds_per_node",
    "tmp_dir",
    "clusterid",
    "fs",
    "mkfs_opts",
    "mount_opts",
    "conf_file",
    "ceph-osd_cmd",
    "ceph-mon_cmd",
    "rados_cmd",
    "rbd_cmd",
    "ceph_cmd",
    "use_existing",
    "rebuild_every_test",
    "osd_ra",
    "crush_profiles",
    "version",
];

/// What a benchmark of CBT becomes.
struct Load {
    tool: &'static str,
    axes: BTreeMap<&'static str, Vec<String>>,
    size: Option<String>,
    seconds: f64,
    warm_s: f64,
}

/// All values of a key: CBT tries each value of a list.
fn all(of: &Map<String, Value>, key: &str) -> Vec<String> {
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), String::from);
    match of.get(key) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(values)) => values.iter().map(text).collect(),
        Some(value) => vec![text(value)],
    }
}

fn number(of: &Map<String, Value>, key: &str) -> Result<Option<f64>> {
    match all(of, key).as_slice() {
        [] => Ok(None),
        [one] => one.parse().map(Some).with_context(|| format!("{key} = {one}: a number is wanted")),
        _ => bail!("{key}: a list of lengths is not in this version: make one study for each"),
    }
}

fn flag(of: &Map<String, Value>, key: &str) -> bool {
    all(of, key).first().is_some_and(|v| v.eq_ignore_ascii_case("true"))
}

fn radosbench(of: &Map<String, Value>, named: &mut Vec<String>) -> Result<Load> {
    let read = if all(of, "readmode").first().is_some_and(|m| m == "rand") { "randread" } else { "read" };
    let ops = match (flag(of, "write_only"), flag(of, "read_only")) {
        (true, _) => vec!["write".to_string()],
        (_, true) => vec![read.into()],
        _ => vec!["write".into(), read.into()],
    };
    let meant = ["time", "write_time", "read_time", "op_size", "concurrent_ops", "concurrent_procs", "readmode", "write_only", "read_only"];
    for key in of.keys().filter(|k| !meant.contains(&k.as_str())) {
        named.push(format!("radosbench.{key} has no meaning here"));
    }
    ensure!(
        all(of, "concurrent_procs").iter().all(|p| p == "1"),
        "radosbench.concurrent_procs: several processes at once are not in this version"
    );
    let seconds = number(of, "time")?.or(number(of, "write_time")?).or(number(of, "read_time")?).unwrap_or(300.0);
    let axes = [("op", ops), ("block", all(of, "op_size")), ("depth", all(of, "concurrent_ops"))];
    Ok(Load { tool: "rados bench", axes: axes.into(), size: None, seconds, warm_s: 0.0 })
}

fn librbdfio(of: &Map<String, Value>, named: &mut Vec<String>) -> Result<Load> {
    ensure!(!of.contains_key("workloads"), "librbdfio.workloads is not in this version");
    let ops = all(of, "mode").iter().map(|m| if m == "randrw" || m == "rw" { "mix".into() } else { m.clone() }).collect();
    let meant = ["time", "ramp", "op_size", "iodepth", "numjobs", "mode", "vol_size", "prefill"];
    for key in of.keys().filter(|k| !meant.contains(&k.as_str())) {
        named.push(format!("librbdfio.{key} has no meaning here"));
    }
    let axes = [("op", ops), ("block", all(of, "op_size")), ("depth", all(of, "iodepth")), ("jobs", all(of, "numjobs"))];
    // Megabytes, which CBT hands to rbd as MiB.
    let size = number(of, "vol_size")?.map(|mb| format!("{mb:.0} MiB"));
    let seconds = number(of, "time")?.unwrap_or(300.0);
    Ok(Load { tool: "fio rbd", axes: axes.into(), size, seconds, warm_s: number(of, "ramp")?.unwrap_or(0.0) })
}

/// Pools have one copy here, and their groups are the target's affair.
fn pools(cluster: &Map<String, Value>, named: &mut Vec<String>) -> Result<()> {
    for (name, profile) in cluster.get("pool_profiles").and_then(Value::as_object).into_iter().flatten() {
        let copies = profile.get("replication").map(Value::to_string);
        let alone = copies.as_deref().is_none_or(|copies| copies.trim_matches('"') == "1");
        ensure!(alone, "cluster.pool_profiles.{name}.replication = {}: needs replication", copies.unwrap_or_default());
        named.push(format!("cluster.pool_profiles.{name}: pools have one copy and 32 groups here"));
    }
    Ok(())
}

fn toml(text: &str) -> String {
    ::toml::Value::String(text.into()).to_string()
}

/// Sizes stand as text in a study, numbers as numbers.
fn values(axis: &str, values: &[String]) -> String {
    let one = |v: &String| match axis {
        "depth" | "jobs" => v.clone(),
        _ => toml(v),
    };
    values.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// `file` is for errors and the study's name.
pub fn cbt(file: &str, text: &str, conf: Option<&str>) -> Result<Imported> {
    let root: Value = serde_saphyr::from_str(text).with_context(|| format!("{file} is no YAML document"))?;
    let part = |key: &str| root.get(key).and_then(Value::as_object);
    let mut named = Vec::new();
    let cluster = part("cluster").with_context(|| format!("{file}: `cluster` is missing: is it CBT's?"))?;
    for (key, value) in cluster.iter().filter(|(k, _)| !matches!(k.as_str(), "iterations" | "pool_profiles")) {
        let what = if ELSEWHERE.contains(&key.as_str()) { "this machine takes its place" } else { "has no meaning here" };
        named.push(format!("cluster.{key} = {value}: {what}"));
    }
    pools(cluster, &mut named)?;
    let benchmarks = part("benchmarks").with_context(|| format!("{file}: `benchmarks` is missing"))?;
    let (name, settings) = match benchmarks.iter().collect::<Vec<_>>().as_slice() {
        [one] => *one,
        several => bail!("{file}: {} benchmarks: a study is made of one", several.len()),
    };
    let settings = settings.as_object().with_context(|| format!("{file}: {name} is no mapping"))?;
    let load = match name.as_str() {
        "radosbench" => radosbench(settings, &mut named)?,
        "librbdfio" => librbdfio(settings, &mut named)?,
        other => bail!("{file}: benchmark {other} is not in this version (radosbench and librbdfio are)"),
    };
    let rounds = number(cluster, "iterations")?.unwrap_or(1.0).max(1.0) as u32;
    if rounds < 5 {
        named.push(format!("cluster.iterations = {rounds}: with fewer than five rounds only large differences can be told"));
    }
    let conf = conf.map(|text| conf::read(text, &mut named)).transpose()?.unwrap_or_default();
    let stem = std::path::Path::new(file).file_stem().unwrap_or_default().to_string_lossy().to_string();
    let study_name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' }).collect();
    let study = write(&study_name, &load, rounds, &conf);
    crate::study::Study::parse("the study made of it", &study)?;
    Ok(Imported { study, named })
}

fn write(name: &str, load: &Load, rounds: u32, conf: &conf::Conf) -> String {
    let mut out = format!("lab = 1\nname = {}\ntitle = {}\n\n[axes]\n", toml(name), toml(&format!("{name}, out of CBT's YAML")));
    for (axis, of) in load.axes.iter().filter(|(_, v)| !v.is_empty()) {
        let _ = writeln!(out, "{axis} = [{}]", values(axis, of));
    }
    let (store, auth) = (toml(conf.store), toml(conf.auth));
    for (target, kind, release) in [("humboldt", "humboldt", ""), ("ceph-16.2", "ceph", "release = \"16.2\"\n")] {
        let _ = write!(out, "\n[[target]]\nname = \"{target}\"\nkind = \"{kind}\"\n{release}store = {store}\nauth = {auth}\n");
        if kind == "ceph" && !conf.lines.is_empty() {
            let lines: Vec<String> = conf.lines.iter().map(|(k, v)| format!("{} = {}", toml(k), toml(v))).collect();
            let _ = writeln!(out, "conf = {{ {} }}", lines.join(", "));
        }
    }
    let _ = write!(out, "\n[[load]]\ntool = {}\n", toml(load.tool));
    if let Some(size) = &load.size {
        let _ = writeln!(out, "size = {}", toml(size));
    }
    let (seconds, warm) = (load.seconds, load.warm_s);
    let _ = write!(
        out,
        "\n[rules]\ncontrol = \"humboldt\"\nfull = {{ rounds = {rounds}, seconds = {seconds:?}, warm_s = {warm:?}, prolong = 0, repeats = 2 }}\n\
         quick = {{ rounds = 3, seconds = 3.0, warm_s = 1.0 }}\n"
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "cluster:\n  user: me\n  head: \"a\"\n  osds: [\"b\"]\n  iterations: 3\nbenchmarks:\n  radosbench:\n    op_size: [4096]\n    time: 30\n    concurrent_ops: [1, 256]\n    concurrent_procs: 1\n    osd_ra: [4096]\n";
    const CONF: &str = "[global]\n  fsid = x\n  auth client required = none\n  osd op threads = 8 ; comment\n  memstore_device_bytes = 17179869184\n[osd]\n  osd objectstore = memstore\n  osd data = /srv/osd\n[mon]\n mon host = a\n";

    #[test]
    fn a_cbt_file_becomes_a_study_and_names_what_it_drops() {
        let imported = cbt("old.yaml", YAML, Some(CONF)).unwrap();
        let study = crate::study::Study::parse("t", &imported.study).unwrap();
        assert_eq!(crate::study::axes::points(&study).len(), 4);
        let rules = study.rules(false);
        assert_eq!((rules.rounds, rules.seconds), (3, 30.0));
        let target = study.targets[1].get_ref();
        assert_eq!((target.store.as_deref(), target.auth.as_deref()), (Some("mem"), Some("none")));
        assert_eq!(target.conf.keys().map(String::as_str).collect::<Vec<_>>(), ["memstore_device_bytes", "osd op threads"]);
        for word in ["cluster.user", "cluster.osds", "radosbench.osd_ra", "fsid", "osd data", "mon host"] {
            assert!(imported.named.iter().any(|n| n.contains(word)), "{word} is not named: {:?}", imported.named);
        }
    }

    #[test]
    fn what_is_not_here_is_an_error_that_names_it() {
        for (from, to, word) in [
            ("radosbench", "getput", "getput"),
            ("concurrent_procs: 1", "concurrent_procs: 4", "concurrent_procs"),
            ("time: 30", "time: [30, 60]", "list of lengths"),
            ("  iterations: 3", "  iterations: 3\n  pool_profiles:\n    p:\n      replication: 3", "needs replication"),
            ("cluster", "clutser", "`cluster` is missing"),
        ] {
            let error = cbt("old.yaml", &YAML.replace(from, to), None).err().map(|e| format!("{e:#}")).unwrap_or_default();
            assert!(error.contains(word), "{to}: {error}");
        }
    }
}
