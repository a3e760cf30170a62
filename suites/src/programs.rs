//! Test programs as cargo builds them, and what each crate cost: from cargo's messages and its report of timings.

use crate::run::root;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One test program.
#[derive(Debug, Clone)]
pub struct Program {
    pub package: String,
    /// `crate/target`; `crate/lib` and `crate/bin` for those in the sources.
    pub name: String,
    pub path: PathBuf,
    /// The package's folder, where cargo would run it.
    pub folder: PathBuf,
}

/// Builds the test programs of these packages; of all, if none is named. No example is linked and no doc test is made.
pub fn programs(packages: &[String]) -> Result<Vec<Program>> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root()).args(["test", "--lib", "--bins", "--tests", "--no-run", "--quiet", "--timings"]);
    cargo.arg("--message-format=json-render-diagnostics");
    match packages {
        [] => drop(cargo.arg("--workspace")),
        some => drop(cargo.args(some.iter().flat_map(|name| ["--package", name]))),
    }
    made(&mut cargo)
}

/// Builds one test program of the whole workspace, with the features that all of it has: for a case that runs it.
pub fn one(target: &str) -> Result<Program> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root()).args(["test", "--workspace", "--test", target, "--no-run", "--quiet"]);
    cargo.arg("--message-format=json-render-diagnostics");
    let found = made(&mut cargo)?.into_iter().find(|program| program.name.ends_with(&format!("/{target}")));
    found.with_context(|| format!("no test program is called {target}"))
}

/// The test programs that this makes.
fn made(cargo: &mut Command) -> Result<Vec<Program>> {
    println!("+ {cargo:?}");
    let out = cargo.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("starting cargo")?;
    if !out.status.success() {
        bail!("the test programs do not build: {cargo:?} ended with {}", out.status);
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let found: Vec<Program> = text.lines().filter_map(|line| program(&serde_json::from_str(line).ok()?)).collect();
    if found.is_empty() {
        bail!("cargo names no test program");
    }
    Ok(found)
}

/// The test program that a message of cargo's tells of.
fn program(message: &Value) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let package = manifest_name(&folder)?;
    let kinds: Vec<&str> = message["target"]["kind"].as_array()?.iter().filter_map(Value::as_str).collect();
    let target = match kinds[..] {
        ["test"] => message["target"]["name"].as_str()?,
        ["bin"] => "bin",
        _ => "lib",
    };
    // A package may have several programs in its sources: only one is called as the package.
    let program = message["target"]["name"].as_str()?;
    let target = if target == "bin" && program != package { format!("bin-{program}") } else { target.into() };
    Some(Program { name: format!("{package}/{target}"), package, path, folder })
}

/// The name in the manifest of that folder: the folder's own, as `xtask/tests/layers.rs` holds.
fn manifest_name(folder: &Path) -> Option<String> {
    Some(folder.file_name()?.to_string_lossy().into_owned())
}

/// Seconds that cargo spent on each crate in its last build, from the report that `--timings` leaves. Empty if there is none, or it has another form.
pub fn timings() -> BTreeMap<String, f64> {
    let report = crate::cluster::target().join("cargo-timings/cargo-timing.html");
    std::fs::read_to_string(report).ok().and_then(|html| units(&html)).unwrap_or_default()
}

fn units(html: &str) -> Option<BTreeMap<String, f64>> {
    let (_, rest) = html.split_once("const UNIT_DATA = ")?;
    let (list, _) = rest.split_once("];")?;
    let list: Value = serde_json::from_str(&format!("{list}]")).ok()?;
    let mut sums = BTreeMap::new();
    for unit in list.as_array()? {
        let took = unit["duration"].as_f64()?;
        *sums.entry(unit["name"].as_str()?.to_string()).or_insert(0.0) += took;
    }
    Some(sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(kind: &str, target: &str, test: bool) -> Value {
        json!({"reason": "compiler-artifact", "manifest_path": "/w/crates/osd-core/Cargo.toml", "executable": "/t/x-1",
            "target": {"kind": [kind], "name": target}, "profile": {"test": test}})
    }

    #[test]
    fn test_programs_are_told_from_all_else_that_cargo_makes() {
        let name = |m: &Value| program(m).map(|p| p.name);
        assert_eq!(name(&message("test", "suite", true)).as_deref(), Some("osd-core/suite"));
        assert_eq!(name(&message("lib", "osd_core", true)).as_deref(), Some("osd-core/lib"));
        assert_eq!(name(&message("bin", "osd-core", true)).as_deref(), Some("osd-core/bin"));
        assert_eq!(name(&message("bin", "other", true)).as_deref(), Some("osd-core/bin-other"));
        assert_eq!(name(&message("lib", "osd_core", false)), None);
        assert_eq!(name(&json!({"reason": "build-finished", "success": true})), None);
    }

    #[test]
    fn a_crates_units_are_summed() {
        let html = "<script>\nconst UNIT_DATA = [\n{\"name\": \"a\", \"duration\": 1.5}, {\"name\": \"b\", \"duration\": 2},\n\
                    {\"name\": \"a\", \"duration\": 0.5}\n];\nconst CONCURRENCY_DATA = [];";
        assert_eq!(units(html), Some(BTreeMap::from([("a".into(), 2.0), ("b".into(), 2.0)])));
        assert_eq!(units("<html>"), None);
    }
}
