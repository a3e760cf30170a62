//! The guide's page on troubleshooting has every health code and every line with which our daemons refuse, warn or end: held against the code.
//!
//! Holds only the test.

#![cfg(test)]

use crate::run::root;
use regex_lite::Regex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where health codes are named.
const HEALTH: [&str; 2] = ["crates/mon-core/src/health.rs", "crates/mon-core/src/fs/checks.rs"];
/// Where lines for operators are written: the daemons' shells, and the errors of stores and devices.
const LINES: [&str; 5] =
    ["crates/cli/src", "crates/osd/src", "crates/mon/src", "crates/disk/src/error.rs", "crates/store-block/src/open/recover.rs"];
/// Of these, what is no daemon's: tools that tell their user at once.
const TOOLS: [&str; 12] = [
    "bench.rs",
    "store_bench",
    "store_tool",
    "lab.rs",
    "args.rs",
    "networks.rs",
    "src/ceph/",
    "src/rados/",
    "src/top/",
    "connect.rs",
    "progress.rs",
    "replace.rs",
];

fn sources(path: &Path, out: &mut Vec<PathBuf>) {
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| sources(&entry.unwrap().path(), out));
    } else if path.extension().is_some_and(|e| e == "rs") && !TOOLS.iter().any(|tool| path.to_string_lossy().contains(tool)) {
        out.push(path.to_path_buf());
    }
}

/// Code without its tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    text.split("#[cfg(test)]").next().unwrap().to_string()
}

/// What stands in a message whatever it is about: `…` for each value, one line, no quotes of code.
fn form(message: &str) -> String {
    let unwrapped = Regex::new(r"\\\n\s*").unwrap().replace_all(message, "").into_owned();
    Regex::new(r"\{[^}]*\}").unwrap().replace_all(&unwrapped, "…").replace(['`', '\''], "")
}

#[test]
fn every_health_code_has_its_row() {
    let page = std::fs::read_to_string(root().join("docs/src/troubleshooting.md")).unwrap();
    let code_of = Regex::new(r#""([A-Z]+(?:_[A-Z0-9]+)+)""#).unwrap();
    let named = |text: &str| -> BTreeSet<String> { code_of.captures_iter(text).map(|c| c[1].to_string()).collect() };
    let codes: BTreeSet<String> =
        HEALTH.iter().flat_map(|file| named(&code(&root().join(file)))).filter(|c| !c.starts_with("HEALTH_")).collect();
    assert!(codes.len() > 30, "codes are not found any more: {codes:?}");
    let missing: Vec<_> = codes.iter().filter(|code| !page.contains(&format!("`{code}`"))).collect();
    assert!(missing.is_empty(), "docs/src/troubleshooting.md has no row for {missing:?}");
    let rows = Regex::new(r"`([A-Z]+(?:_[A-Z0-9]+)+)`").unwrap();
    let stale: Vec<String> = page
        .lines()
        .filter(|l| l.starts_with("| `"))
        .flat_map(|l| rows.captures_iter(l.split(" | ").next().unwrap()).map(|c| c[1].to_string()).collect::<Vec<_>>())
        .filter(|code| !codes.contains(code))
        .collect();
    assert!(stale.is_empty(), "docs/src/troubleshooting.md has rows of codes that are gone: {stale:?}");
}

#[test]
fn every_line_of_a_daemon_has_its_row() {
    let page = std::fs::read_to_string(root().join("docs/src/troubleshooting.md")).unwrap().replace(['`', '\''], "");
    let mut files = Vec::new();
    LINES.iter().for_each(|path| sources(&root().join(path), &mut files));
    let said = Regex::new(r#"(?:bail!|ensure!|anyhow!|eprintln!|#\[error)\s*\((?:[^"();{}]*[(),][^"();{}]*)*\s*"((?:[^"\\]|\\[\s\S])*)""#)
        .unwrap();
    let (mut missing, mut count) = (Vec::new(), 0);
    for file in &files {
        for found in said.captures_iter(&code(file)) {
            let form = form(&found[1]);
            // What only hands on what another said.
            if form.chars().filter(|c| c.is_alphabetic()).count() < 4 {
                continue;
            }
            count += 1;
            let start: String = form.chars().take(70).collect();
            if !page.contains(start.trim()) {
                missing.push(format!("{}: {form}", file.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(count > 50, "lines are not found any more: {count}");
    assert!(missing.is_empty(), "docs/src/troubleshooting.md has no row for\n{}", missing.join("\n"));
}
