//! The figures beside stock that README and the guide show: `humboldt lab` measures them, and what it found is put into the kept ones.
//!
//! Absent: measuring. The studies are `humboldt-mem` and `humboldt-block`; the laboratory tests its instrument (`humboldt lab selftest`).

use crate::args::FiguresArgs;
use crate::figures::keep;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use suites::cluster::{Build, binary, build, take};
use suites::run::root;

/// Rows of a study by their titles, and what the kept figures call them.
const BLOCK: [(&str, &str); 11] = [
    ("objects: block=4 KiB, depth=256, op=write", "new 4 KiB objects, depth 256"),
    ("objects: block=4 KiB, depth=256, op=randread", "reads of them, depth 256"),
    ("objects: block=4 KiB, depth=1, op=write", "new 4 KiB objects, depth 1"),
    ("objects: block=4 KiB, depth=1, op=randread", "reads of them, depth 1"),
    ("objects: block=64 KiB, depth=16, op=write", "new 64 KiB objects, depth 16"),
    ("image: block=4 KiB, depth=1, op=randwrite", "fio 4 KiB randwrite, depth 1"),
    ("image: block=4 KiB, depth=1, op=randread", "fio 4 KiB randread, depth 1"),
    ("image: block=4 KiB, depth=64, op=randwrite", "fio 4 KiB randwrite, depth 64"),
    ("image: block=4 KiB, depth=64, op=randread", "fio 4 KiB randread, depth 64"),
    ("image: block=64 KiB, depth=16, op=write", "fio 64 KiB write, depth 16"),
    ("image: block=64 KiB, depth=16, op=read", "fio 64 KiB read, depth 16"),
];
const MEMORY: [(&str, &str); 6] = [
    ("4 KiB: depth=1, op=write", "write, depth 1"),
    ("4 KiB: depth=1, op=randread", "read, depth 1"),
    ("4 KiB: depth=16, op=write", "write, depth 16"),
    ("4 KiB: depth=16, op=randread", "read, depth 16"),
    ("4 KiB: depth=256, op=write", "write, depth 256"),
    ("4 KiB: depth=256, op=randread", "read, depth 256"),
];
/// The target that is stock's.
const STOCK: &str = "ceph-18.2";

/// Two digits behind the point, none from 100 on.
fn rounded(n: f64) -> f64 {
    if n >= 100.0 { n.round() } else { (n * 100.0).round() / 100.0 }
}

fn median(cell: &Value, metric: &str) -> Option<f64> {
    cell["metrics"][metric]["median"].as_f64()
}

/// A target's figures, without what its client did not say.
fn side(cell: &Value) -> Value {
    let tail_us = cell["percentiles"]["p99.99"].as_f64().map(|ns| ns / 1e3);
    let all = [
        ("cpu_us", median(cell, "server_cpu_us")),
        ("latency_us", median(cell, "mean_us")),
        ("amplification", median(cell, "amplification")),
        ("tail_us", tail_us),
    ];
    all.into_iter().filter_map(|(name, n)| Some((name.to_string(), json!(rounded(n?))))).collect()
}

/// The rows of results.json as they are kept. An error names what was not measured.
fn rows(results: &Value, names: &[(&str, &str)]) -> Result<Vec<Value>> {
    ensure!(results["complete"] == true && results["quick"] == false, "only a whole run with --full is kept");
    let row = |(title, name): &(&str, &str)| {
        let cells = results["rows"].as_array().into_iter().flatten().find(|row| row["title"] == *title).map(|row| &row["cells"]);
        let cells = cells.and_then(Value::as_array).with_context(|| format!("the study has no row {title}"))?;
        let find = |target: &str| cells.iter().find(|c| c["target"] == target);
        let valid = |target: &str| match find(target) {
            Some(cell) if cell["state"] == "valid" => Ok(cell),
            Some(cell) => bail!("{title}: {target} is {}: {}", cell["state"], cell["reason"]),
            None => bail!("{title}: {target} was not measured"),
        };
        let (ours, stock) = (valid("humboldt")?, valid(STOCK)?);
        // The study's ratios are to ours.
        let ratio = |metric: &str| stock["verdicts"][metric]["ratio"]["median"].as_f64().map(|r| rounded(1.0 / r));
        let mut row = json!({
            "load": name, "ours": side(ours), "stock": side(stock),
            "cpu_ratio": ratio("server_cpu_us"), "latency_ratio": ratio("mean_us"),
        });
        if let Some(null) = find("null") {
            row["null"] = side(null);
        }
        Ok(row)
    };
    names.iter().map(row).collect()
}

/// Runs the study, shows its report's place, and keeps its figures if that is asked for.
pub fn figures(args: &FiguresArgs) -> Result<()> {
    take(Build::Shipped);
    build()?;
    let (study, kept, names) = match args.store.as_str() {
        "block" => ("humboldt-block", "block", &BLOCK[..]),
        _ => ("humboldt-mem", "memory", &MEMORY[..]),
    };
    let form = if args.quick { "--quick" } else { "--full" };
    let out = root().join("target/figures").join(study);
    if out.exists() {
        std::fs::remove_dir_all(&out)?;
    }
    let lab = |words: &[&str]| -> Result<()> {
        let status = Command::new(binary()).arg("lab").args(words).status()?;
        ensure!(status.success(), "humboldt lab {} ended with {status}", words.join(" "));
        Ok(())
    };
    lab(&["setup", study])?;
    lab(&["run", study, form, "--out", &out.display().to_string()])?;
    if args.keep {
        keep(kept, &format!("humboldt lab run {study}"), rows(&read(&out)?, names)?)?;
    }
    Ok(())
}

fn read(out: &Path) -> Result<Value> {
    let path = out.join("results.json");
    serde_json::from_slice(&std::fs::read(&path).with_context(|| path.display().to_string())?).context("results.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(target: &str, us: f64) -> Value {
        let figures = json!({ "server_cpu_us": { "median": us }, "mean_us": { "median": us * 100.0 } });
        let against = json!({ "server_cpu_us": { "ratio": { "median": us / 13.0 } }, "mean_us": { "ratio": { "median": us / 13.0 } } });
        json!({ "target": target, "state": "valid", "metrics": figures, "percentiles": {}, "verdicts": against })
    }

    #[test]
    fn a_study_becomes_rows_and_half_of_one_is_refused() {
        let one = |title: &str| json!({ "title": title, "cells": [cell("humboldt", 13.0), cell(STOCK, 52.0), cell("null", 2.0)] });
        let all: Vec<Value> = MEMORY.iter().map(|(title, _)| one(title)).collect();
        let mut results = json!({ "complete": true, "quick": false, "rows": all });
        let kept = rows(&results, &MEMORY).unwrap();
        assert_eq!(
            (&kept[0]["load"], &kept[0]["ours"]["cpu_us"], &kept[0]["cpu_ratio"]),
            (&json!("write, depth 1"), &json!(13.0), &json!(0.25))
        );
        assert_eq!((&kept[5]["null"]["latency_us"], &kept[5]["stock"]["cpu_us"]), (&json!(200.0), &json!(52.0)));
        results["rows"][2]["cells"][1]["state"] = json!("FAILED");
        assert!(rows(&results, &MEMORY).unwrap_err().to_string().contains("depth=16, op=write: ceph-18.2"));
        results["quick"] = json!(true);
        assert!(rows(&results, &MEMORY).is_err());
    }
}
