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

/// What a benchmark of CBT becomes: one load of the study; several have axes of their own, so each is a study's.
struct Load {
    name: String,
    tool: &'static str,
    axes: BTreeMap<&'static str, Vec<String>>,
    size: Option<String>,
    options: BTreeMap<String, String>,
    seconds: f64,
    warm_s: f64,
    /// Its targets are bare devices.
    device: bool,
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

/// Names the keys that mean nothing here.
fn name_rest(benchmark: &str, of: &Map<String, Value>, meant: &[&str], named: &mut Vec<String>) {
    for key in of.keys().filter(|k| !meant.contains(&k.as_str())) {
        named.push(format!("{benchmark}.{key} has no meaning here"));
    }
}

fn radosbench(of: &Map<String, Value>, named: &mut Vec<String>) -> Result<Load> {
    let read = if all(of, "readmode").first().is_some_and(|m| m == "rand") { "randread" } else { "read" };
    let ops = match (flag(of, "write_only"), flag(of, "read_only")) {
        (true, _) => vec!["write".to_string()],
        (_, true) => vec![read.into()],
        _ => vec!["write".into(), read.into()],
    };
    let meant = ["time", "write_time", "read_time", "op_size", "concurrent_ops", "concurrent_procs", "readmode", "write_only", "read_only"];
    name_rest("radosbench", of, &meant, named);
    let procs = all(of, "concurrent_procs");
    if let Some(several) = procs.iter().find(|p| *p != "1") {
        named.push(format!("radosbench.concurrent_procs = {several}: one process has the same operations under way here"));
    }
    let procs: u64 = procs.first().and_then(|p| p.parse().ok()).unwrap_or(1);
    let depths = all(of, "concurrent_ops").iter().map(|d| d.parse::<u64>().map_or(d.clone(), |d| (d * procs).to_string())).collect();
    let seconds = number(of, "time")?.or(number(of, "write_time")?).or(number(of, "read_time")?).unwrap_or(300.0);
    let axes = [("op", ops), ("block", all(of, "op_size")), ("depth", depths)].into();
    let (name, options) = ("radosbench".into(), BTreeMap::new());
    Ok(Load { name, tool: "rados bench", axes, size: None, options, seconds, warm_s: 0.0, device: false })
}

/// A benchmark that runs fio: its keys are alike.
fn fio(name: &str, tool: &'static str, of: &Map<String, Value>, named: &mut Vec<String>) -> Result<Load> {
    let mode = |m: &String| if m == "randrw" || m == "rw" { "mix".into() } else { m.clone() };
    let mut ops: Vec<String> = all(of, "mode").iter().map(mode).collect();
    let modes = ops.len();
    let mut seen = std::collections::BTreeSet::new();
    ops.retain(|op| seen.insert(op.clone()));
    if ops.len() < modes {
        named.push(format!("{name}.mode: rw and randrw are one here, by chance and 70 % reads"));
    }
    if let Some(mix) = number(of, "rwmixread")?.filter(|mix| *mix != 70.0 && ops.iter().any(|o| o == "mix")) {
        named.push(format!("{name}.rwmixread = {mix}: 70 here"));
    }
    let meant =
        ["time", "ramp", "op_size", "iodepth", "numjobs", "mode", "vol_size", "size", "prefill", "rwmixread", "workloads", "end_fsync"];
    name_rest(name, of, &meant, named);
    let jobs = all(of, "numjobs");
    let axes = [("op", ops), ("block", all(of, "op_size")), ("depth", all(of, "iodepth")), ("jobs", jobs)].into();
    // Megabytes, which CBT hands to rbd as MiB.
    let size = number(of, "vol_size")?.or(number(of, "size")?).map(|mb| format!("{mb:.0} MiB"));
    let seconds = number(of, "time")?.unwrap_or(300.0);
    let mut options = BTreeMap::new();
    if flag(of, "end_fsync") || all(of, "end_fsync").first().is_some_and(|v| v == "1") {
        options.insert("end_fsync".to_string(), "1".to_string());
    }
    let (name, warm_s, device) = (name.to_string(), number(of, "ramp")?.unwrap_or(0.0), tool == "fio libaio");
    Ok(Load { name, tool, axes, size, options, seconds, warm_s, device })
}

/// Each workload has its own settings over those of the benchmark; CBT runs them in their order, here each is a study.
fn workloads(of: &Map<String, Value>) -> Vec<(String, Map<String, Value>)> {
    let Some(workloads) = of.get("workloads").and_then(Value::as_object) else { return vec![(String::new(), of.clone())] };
    let one = |(name, own): (&String, &Value)| {
        let mut settings = of.clone();
        settings.remove("workloads");
        settings.extend(own.as_object().cloned().unwrap_or_default());
        (name.clone(), settings)
    };
    workloads.iter().map(one).collect()
}

/// What the clients of benchmark `fio` are given.
fn endpoints(root: &Value, of: &Map<String, Value>) -> Result<()> {
    let name = all(of, "client_endpoints").first().cloned().unwrap_or_default();
    let driver = root.pointer(&format!("/client_endpoints/{name}/driver")).and_then(Value::as_str).unwrap_or_default();
    ensure!(driver == "librbd", "client_endpoints.{name}.driver = {driver}: librbd is in this version");
    Ok(())
}

/// The loads of a benchmark.
fn loads(root: &Value, name: &str, of: &Map<String, Value>, named: &mut Vec<String>) -> Result<Vec<Load>> {
    let rbd = |named: &mut Vec<String>| -> Result<Vec<Load>> {
        let mut all = Vec::new();
        for (workload, settings) in workloads(of) {
            let mut load = fio(name, "fio rbd", &settings, named)?;
            if !workload.is_empty() {
                load.name = workload;
            }
            all.push(load);
        }
        Ok(all)
    };
    match name {
        "radosbench" => radosbench(of, named).map(|load| vec![load]),
        "librbdfio" => rbd(named),
        "fio" => endpoints(root, of).and_then(|()| rbd(named)),
        "rawfio" => fio(name, "fio libaio", of, named).map(|load| vec![load]),
        other => bail!("benchmark {other} is not in this version (radosbench, librbdfio, rawfio and fio are)"),
    }
}

/// How many copies pools have; their groups are the target's affair.
fn pools(cluster: &Map<String, Value>, used: &[String], named: &mut Vec<String>) -> Result<u32> {
    let mut copies = 1;
    for (name, profile) in cluster.get("pool_profiles").and_then(Value::as_object).into_iter().flatten() {
        if !used.is_empty() && !used.contains(name) {
            named.push(format!("cluster.pool_profiles.{name}: no benchmark uses it"));
            continue;
        }
        let given = profile.get("replication").map(|v| v.as_str().map_or_else(|| v.to_string(), String::from));
        match given.as_deref().map(|g| (g, g.parse::<u32>())) {
            None | Some(("replicated", _)) => copies = copies.max(3),
            Some((_, Ok(n))) => copies = copies.max(n),
            Some((other, Err(_))) => bail!("cluster.pool_profiles.{name}.replication = {other}: needs erasure-coded pools"),
        }
        named.push(format!("cluster.pool_profiles.{name}: pools have 32 groups here"));
    }
    Ok(copies)
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

/// `file` is for errors and the study's name; `part` names a benchmark or workload where there are several.
pub fn cbt(file: &str, text: &str, conf: Option<&str>, part: Option<&str>) -> Result<Imported> {
    let root: Value = serde_saphyr::from_str(text).with_context(|| format!("{file} is no YAML document (of several, each is a file's)"))?;
    let table = |key: &str| root.get(key).and_then(Value::as_object);
    let mut named = Vec::new();
    let cluster = table("cluster").with_context(|| format!("{file}: `cluster` is missing: is it CBT's?"))?;
    let own = ["iterations", "pool_profiles", "erasure_profiles"];
    for (key, value) in cluster.iter().filter(|(k, _)| !own.contains(&k.as_str())) {
        let here = ELSEWHERE.contains(&key.as_str()) || key.ends_with("_cmd");
        let what = if here { "this machine takes its place" } else { "has no meaning here" };
        named.push(format!("cluster.{key} = {value}: {what}"));
    }
    for key in
        root.as_object().into_iter().flat_map(Map::keys).filter(|k| !["cluster", "benchmarks", "client_endpoints"].contains(&k.as_str()))
    {
        named.push(format!("{key}: has no meaning here"));
    }
    let benchmarks = table("benchmarks").with_context(|| format!("{file}: `benchmarks` is missing"))?;
    let (mut all_loads, mut refused, mut used) = (Vec::new(), None, Vec::new());
    for (name, settings) in benchmarks {
        let settings = settings.as_object().with_context(|| format!("{file}: {name} is no mapping"))?;
        match loads(&root, name, settings, &mut named) {
            Ok(loads) => {
                used.extend(all(settings, "pool_profile"));
                let endpoint = all(settings, "client_endpoints").first().cloned().unwrap_or_default();
                let profile = root.pointer(&format!("/client_endpoints/{endpoint}/pool_profile"));
                used.extend(profile.and_then(Value::as_str).map(String::from));
                all_loads.extend(loads.into_iter().map(|load| (name.clone(), load)));
            }
            // Of several, one that is not here doesn't stand in the way of the others.
            Err(e) if benchmarks.len() > 1 => named.push(format!("{name} is left out: {e:#}")),
            Err(e) => refused = Some(e),
        }
    }
    if let Some(e) = refused {
        return Err(e.context(file.to_string()));
    }
    let names: Vec<String> = all_loads.iter().map(|(_, l)| l.name.clone()).collect();
    let load = match (part, all_loads.len()) {
        (None, 1) => all_loads.pop(),
        (Some(part), _) => all_loads.into_iter().find(|(benchmark, l)| l.name == part || benchmark == part),
        (None, _) => bail!("{file}: a study is made of one load, here are {}: name one with --part", names.join(", ")),
    };
    let (_, load) =
        load.with_context(|| format!("{file}: no load is called {}; here are {}", part.unwrap_or_default(), names.join(", ")))?;
    let copies = if load.device { 1 } else { pools(cluster, &used, &mut named)? };
    let rounds = number(cluster, "iterations")?.unwrap_or(1.0).max(1.0) as u32;
    if rounds < 5 {
        named.push(format!("cluster.iterations = {rounds}: with fewer than five rounds only large differences can be told"));
    }
    let conf = conf.map(|text| conf::read(text, &mut named)).transpose()?.unwrap_or_default();
    let stem = std::path::Path::new(file).file_stem().unwrap_or_default().to_string_lossy().to_string();
    let study_name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' }).collect();
    let study = write(&study_name, &load, rounds, copies, &conf);
    crate::study::Study::parse("the study made of it", &study)?;
    Ok(Imported { study, named })
}

fn targets(load: &Load, copies: u32, conf: &conf::Conf) -> String {
    if load.device {
        let size = load.size.as_deref().unwrap_or("1 GiB");
        // Named in CBT's own words it would be another machine's: here it is a file's loop device until the study names one.
        return format!(
            "\n[[device]]\nname = \"disk\"\nkind = \"loop\"\nsize = {}\n\n[[target]]\nname = \"device\"\nkind = \"device\"\ndata = \"disk\"\n",
            toml(size)
        );
    }
    let (store, auth) = (toml(conf.store), toml(conf.auth));
    let several = if copies > 1 { format!("osds = {copies}\nreplicas = {copies}\n") } else { String::new() };
    let mut out = String::new();
    for (target, kind, release) in [("humboldt", "humboldt", ""), ("ceph-16.2", "ceph", "release = \"16.2\"\n")] {
        let _ = write!(out, "\n[[target]]\nname = \"{target}\"\nkind = \"{kind}\"\n{release}store = {store}\nauth = {auth}\n{several}");
        // What it says of librbd is said of clients, which both have; the rest is of stock's servers.
        let meant = conf.lines.iter().filter(|(k, _)| kind == "ceph" || k.replace('_', " ").starts_with("rbd "));
        let lines: Vec<String> = meant.map(|(k, v)| format!("{} = {}", toml(k), toml(v))).collect();
        if !lines.is_empty() {
            let _ = writeln!(out, "conf = {{ {} }}", lines.join(", "));
        }
    }
    out
}

fn write(name: &str, load: &Load, rounds: u32, copies: u32, conf: &conf::Conf) -> String {
    let mut out = format!("lab = 1\nname = {}\ntitle = {}\n\n[axes]\n", toml(name), toml(&format!("{name}, out of CBT's YAML")));
    for (axis, of) in load.axes.iter().filter(|(_, v)| !v.is_empty()) {
        let _ = writeln!(out, "{axis} = [{}]", values(axis, of));
    }
    out += &targets(load, copies, conf);
    let _ = write!(out, "\n[[load]]\nname = {}\ntool = {}\n", toml(&load.name), toml(load.tool));
    if let Some(size) = &load.size {
        let _ = writeln!(out, "size = {}", toml(size));
    }
    if !load.options.is_empty() {
        let options: Vec<String> = load.options.iter().map(|(k, v)| format!("{k} = {}", toml(v))).collect();
        let _ = writeln!(out, "options = {{ {} }}", options.join(", "));
    }
    let (seconds, warm, control) = (load.seconds, load.warm_s, if load.device { "device" } else { "humboldt" });
    let _ = write!(
        out,
        "\n[rules]\ncontrol = \"{control}\"\nfull = {{ rounds = {rounds}, seconds = {seconds:?}, warm_s = {warm:?}, prolong = 0, repeats = 2 }}\n\
         quick = {{ rounds = 3, seconds = 3.0, warm_s = 1.0 }}\n"
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "cluster:\n  user: me\n  head: \"a\"\n  osds: [\"b\"]\n  iterations: 3\nbenchmarks:\n  radosbench:\n    op_size: [4096]\n    time: 30\n    concurrent_ops: [1, 256]\n    concurrent_procs: 1\n    osd_ra: [4096]\n";
    const CONF: &str = "[global]\n  fsid = x\n  auth client required = none\n  osd op threads = 8 ; comment\n  rbd cache = true\n  memstore_device_bytes = 17179869184\n[osd]\n  osd objectstore = memstore\n  osd data = /srv/osd\n[mon]\n mon host = a\n";

    #[test]
    fn a_cbt_file_becomes_a_study_and_names_what_it_drops() {
        let imported = cbt("old.yaml", YAML, Some(CONF), None).unwrap();
        let study = crate::study::Study::parse("t", &imported.study).unwrap();
        assert_eq!(crate::study::axes::points(&study).len(), 4);
        let rules = study.rules(false);
        assert_eq!((rules.rounds, rules.seconds), (3, 30.0));
        let target = study.targets[1].get_ref();
        assert_eq!((target.store.as_deref(), target.auth.as_deref()), (Some("mem"), Some("none")));
        assert_eq!(target.conf.keys().map(String::as_str).collect::<Vec<_>>(), ["memstore_device_bytes", "osd op threads", "rbd cache"]);
        let machine = crate::plan::Machine::with_everything();
        let plan = crate::plan::Plan::new(&study, true, &crate::value::Filter::default(), &machine);
        assert!(plan.skipped().next().is_none(), "{:?}", plan.skipped().next());
        // Of a client, which ours has, too.
        assert_eq!(study.targets[0].get_ref().conf.keys().collect::<Vec<_>>(), ["rbd cache"]);
        for word in ["cluster.user", "cluster.osds", "radosbench.osd_ra", "fsid", "osd data", "mon host"] {
            assert!(imported.named.iter().any(|n| n.contains(word)), "{word} is not named: {:?}", imported.named);
        }
    }

    #[test]
    fn what_is_not_here_is_an_error_that_names_it() {
        for (from, to, word) in [
            ("radosbench", "getput", "getput"),
            ("time: 30", "time: [30, 60]", "list of lengths"),
            ("  iterations: 3", "  iterations: 3\n  pool_profiles:\n    p:\n      replication: 'erasure'", "needs erasure-coded pools"),
            ("  radosbench:", "  librbdfio:\n    mode: write\n  radosbench:", "librbdfio, radosbench: name one with --part"),
            ("cluster", "clutser", "`cluster` is missing"),
        ] {
            let error = cbt("old.yaml", &YAML.replace(from, to), None, None).err().map(|e| format!("{e:#}")).unwrap_or_default();
            assert!(error.contains(word), "{to}: {error}");
        }
    }

    /// In the forms that CBT's own examples have.
    #[test]
    fn workloads_endpoints_raw_devices_and_copies_have_a_meaning() {
        let cluster = "cluster:\n  iterations: 5\n  pool_profiles:\n    rbd:\n      pg_size: 256\n      replication: 3\n";
        let rbd = "benchmarks:\n  librbdfio:\n    pool_profile: 'rbd'\n    vol_size: 64\n    op_size: [4096]\n    mode: 'randwrite'\n    iodepth: [1, 4]\n    prefill:\n      blocksize: '4M'\n\
            \x20   workloads:\n      precondition:\n        jobname: p\n      test1:\n        mode: 'randread'\n        iodepth: [16]\n";
        let of = |yaml: &str, part| cbt("x.yaml", yaml, None, part).map(|i| crate::study::Study::parse("t", &i.study).unwrap());
        assert!(of(&format!("{cluster}{rbd}"), None).is_err_and(|e| e.to_string().contains("precondition, test1")));
        let study = of(&format!("{cluster}{rbd}"), Some("test1")).unwrap();
        assert_eq!((study.targets[0].get_ref().osds, study.targets[0].get_ref().replicas), (Some(3), Some(3)));
        let points: Vec<String> = crate::study::axes::points(&study).iter().map(crate::value::show).collect();
        assert_eq!(points, ["block=4096, depth=16, op=randread"]);
        let raw = "benchmarks:\n  rawfio:\n    mode: [write]\n    op_size: [4096000]\n    vol_size: 1024\n    block_devices: [/dev/vdb]\n";
        assert_eq!(of(&format!("{cluster}{raw}"), None).unwrap().targets[0].get_ref().kind, "device");
        let fio = "client_endpoints:\n  e:\n    driver: 'librbd'\nbenchmarks:\n  fio:\n    client_endpoints: 'e'\n    size: 64\n    mode: ['randrw', 'rw']\n    op_size: [4096]\n";
        assert_eq!(of(&format!("{cluster}{fio}"), None).unwrap().loads[0].get_ref().tool, "fio rbd");
        assert!(of(&format!("{cluster}{}", fio.replace("librbd", "s3")), None).is_err_and(|e| format!("{e:#}").contains("driver = s3")));
    }
}
