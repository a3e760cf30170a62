//! The answers of an OSD of ours to those that look after OSDs, beside a stock OSD of the same cluster: answers to commands have the same
//! keys with values of the same kinds, its metadata have what stock's have, and what stock's exporter reads is there for both. (The
//! exporter itself is in no package.)

use super::Case;
use crate::clients::Release::{self, Reef, Tentacle};
use crate::stock::{Daemons, Plane, stock_control_plane, stock_osd};
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

pub const CASES: &[Case] = &[
    Case { name: "stock_and_our_osds_tell_alike", needs: &[Reef], run: || alike(Reef) },
    Case { name: "stock_and_our_osds_tell_alike_20.2", needs: &[Tentacle], run: || alike(Tentacle) },
];

const OURS: &str = "osd.0";
const THEIRS: &str = "osd.1";

/// Commands whose answers have the same shape on both.
const COMMANDS: [&str; 6] = [
    "dump_historic_ops",
    "dump_historic_ops_by_duration",
    "dump_historic_slow_ops",
    "dump_recovery_reservations",
    "dump_ops_in_flight",
    "dump_scrubs",
];

/// Keys of stock's metadata that ours lacks, by how they begin, each with the reason.
const METADATA_LEFT_OUT: &[(&str, &str)] = &[
    ("bluestore_allocat", "of BlueStore's own allocator"),
    ("bluestore_onode_segmentation", "of BlueStore's own code"),
    ("bluestore_write_mode", "the same"),
    ("ceph_version_when_created", "an OSD's folder does not keep it"),
    ("container_", "of the environment that the stock daemon was started in"),
    ("created_at", "an OSD's folder does not keep it"),
    ("objectstore_numa_", "the store is bound to no node"),
];

/// A value with the kinds of its leaves in place of them, and one element of a list in place of all.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect()),
        Value::Array(items) => Value::Array(items.first().map(shape).into_iter().collect()),
        Value::String(_) => "text".into(),
        Value::Number(_) => "number".into(),
        Value::Bool(_) => "truth".into(),
        Value::Null => Value::Null,
    }
}

/// Fields of `theirs` that `ours` lacks or has of another kind.
fn lacking(path: &str, ours: &Value, theirs: &Value, out: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (name, value) in theirs {
                let path = format!("{path}.{name}");
                match ours.get(name) {
                    Some(own) => lacking(&path, own, value, out),
                    None => out.push(path),
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            // A list that is empty on either side says nothing of its elements.
            for (own, value) in ours.iter().zip(theirs) {
                lacking(&format!("{path}[]"), own, value, out);
            }
        }
        (ours, theirs) if ours != theirs => out.push(format!("{path} is {ours} where stock's is {theirs}")),
        _ => {}
    }
}

fn tell(d: &Daemons, osd: &str, command: &str) -> Result<Value> {
    let text = d.must(&format!("ceph tell {osd} {command}"))?;
    serde_json::from_str(&text).with_context(|| format!("{osd} {command}: {text}"))
}

fn same_shapes(d: &Daemons) -> Result<()> {
    let mut wrong = Vec::new();
    for command in COMMANDS {
        let (ours, theirs) = (tell(d, OURS, command)?, tell(d, THEIRS, command)?);
        lacking(command, &shape(&ours), &shape(&theirs), &mut wrong);
    }
    ensure!(wrong.is_empty(), "our OSD's answers lack {wrong:#?}");
    Ok(())
}

/// Counters of the group `osd`, as `counter dump` or `counter schema` have them.
fn counters(d: &Daemons, osd: &str, what: &str) -> Result<Map<String, Value>> {
    let all = tell(d, osd, &format!("counter {what}"))?;
    let one = all["osd"].as_array().filter(|sets| sets.len() == 1).with_context(|| format!("{osd}, counter {what}: {all:#}"))?;
    ensure!(one[0]["labels"].as_object().is_some_and(Map::is_empty), "{osd} has labels: {:#}", one[0]);
    Ok(one[0]["counters"].as_object().context("counters")?.clone())
}

/// Each counter of ours that stock has is of the same kind there.
fn same_counters(d: &Daemons) -> Result<()> {
    for what in ["dump", "schema"] {
        let (ours, theirs) = (counters(d, OURS, what)?, counters(d, THEIRS, what)?);
        let mut wrong = Vec::new();
        let common: Vec<&String> = ours.keys().filter(|name| theirs.contains_key(*name)).collect();
        for name in &common {
            lacking(name, &shape(&ours[*name]), &shape(&theirs[*name]), &mut wrong);
            for field in ["type", "metric_type", "value_type"] {
                if ours[*name].get(field) != theirs[*name].get(field) {
                    wrong.push(format!("{name}: {field} is {} where stock's is {}", ours[*name][field], theirs[*name][field]));
                }
            }
        }
        ensure!(wrong.is_empty() && common.len() > 40, "counter {what}, {} in common: {wrong:#?}", common.len());
    }
    Ok(())
}

fn same_metadata(d: &Daemons) -> Result<()> {
    let of = |id: u32| -> Result<BTreeSet<String>> {
        let all = d.json(&format!("ceph osd metadata {id}"))?;
        Ok(all.as_object().context("metadata")?.keys().cloned().collect())
    };
    let (ours, theirs) = (of(0)?, of(1)?);
    let left_out = |name: &str| METADATA_LEFT_OUT.iter().any(|(front, _)| name.starts_with(front));
    let lacks: Vec<&String> = theirs.difference(&ours).filter(|name| !left_out(name)).collect();
    ensure!(lacks.is_empty(), "our OSD's metadata lack {lacks:?}");
    Ok(())
}

/// Counters that the dashboard's page of an OSD and Grafana's boards draw.
const DRAWN: [&str; 8] = ["op_r", "op_w", "op_r_out_bytes", "op_w_in_bytes", "op_r_latency", "op_w_latency", "numpg", "stat_bytes_used"];
/// Stock's exporter reads by the admin socket, and passes on counters of at least this priority.
const EXPORTED_FROM: u64 = 5;

/// Stock's exporter goes through the schema and takes each counter's value from the dump: all that are of interest are in both.
fn exported(d: &Daemons) -> Result<()> {
    let socket = |osd: &str, what: &str| -> Result<Value> {
        let text = d.must(&format!("ceph daemon {} counter {what}", d.dir.join(format!("run/{osd}.asok")).display()))?;
        serde_json::from_str(&text).with_context(|| format!("{osd} counter {what}: {text}"))
    };
    for osd in [OURS, THEIRS] {
        let (schema, dump) = (socket(osd, "schema")?, socket(osd, "dump")?);
        let priority = |name: &str| schema["osd"][0]["counters"][name]["priority"].as_u64();
        let quiet: Vec<_> = DRAWN.iter().filter(|name| priority(name).is_none_or(|priority| priority < EXPORTED_FROM)).collect();
        ensure!(quiet.is_empty(), "{osd}: an exporter passes over {quiet:?}");
        for (group, sets) in schema.as_object().context("groups")? {
            let described = sets[0]["counters"].as_object().with_context(|| format!("{osd}: {group}"))?;
            let lacking: Vec<_> = described.keys().filter(|name| dump[group][0]["counters"].get(*name).is_none()).collect();
            ensure!(lacking.is_empty(), "{osd}: {group} has no values of {lacking:?}");
        }
    }
    Ok(())
}

fn alike(release: Release) -> Result<()> {
    let conf = "osd op history slow op threshold = 0\n";
    let plane = Plane { monitors: 1, release, manager: release, conf, ..Plane::default() };
    let mut d = stock_control_plane(&format!("stock-alike-{}", release.version()), &plane)?;
    d.new_ours(0, "ours", &["--store", "block", "--size", "1G"])?;
    stock_osd(&mut d, 1, "bluestore")?;
    d.wait_up(2)?;
    d.must("ceph osd crush rm-device-class osd.1")?;
    d.must("ceph osd crush set-device-class theirs osd.1")?;
    for pool in ["ours", "theirs"] {
        d.pool_on(pool, pool, 4)?;
    }
    // A manager of 20.2 has a group of its own.
    d.wait("ceph pg stat", "clean groups", |out| {
        let (pgs, rest) = out.trim().split_once(" pgs: ").unwrap_or_default();
        pgs.parse::<u32>().is_ok_and(|n| n >= 8) && rest.starts_with(&format!("{pgs} active+clean;"))
    })?;
    for pool in ["ours", "theirs"] {
        d.write(pool, "first", 10)?;
        d.verify(pool, "first", 10)?;
    }
    same_metadata(&d)?;
    same_shapes(&d)?;
    same_counters(&d)?;
    exported(&d)?;
    d.end(OURS)
}
