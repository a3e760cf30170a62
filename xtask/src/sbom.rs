//! What the program is made of, as a bill of materials in CycloneDX's JSON: every crate that is linked, with its version, licence and checksum.
//!
//! Holds what of `cargo metadata` goes where. Crates that only build or test are left out, and so is time: the same sources give the same text.

use crate::arch::Arch;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use suites::oci::system::Packages;
use suites::run::root;

/// The program's package.
const PROGRAM: &str = "cli";

/// A crate of others that the program links.
pub struct Linked {
    pub name: String,
    pub version: String,
    pub licence: String,
    /// Its source.
    pub folder: PathBuf,
}

/// The bill of all crates that are locked now, and of packages of Debian beside them.
pub fn sbom_with(arch: Arch, packages: &Packages) -> Result<String> {
    let locked = std::fs::read_to_string(root().join("Cargo.lock"))?;
    let mut bill = bill(&metadata(arch)?, &checksums(&locked))?;
    let components = bill["components"].as_array_mut().context("a bill has components")?;
    for (name, version) in packages {
        let purl = format!("pkg:deb/debian/{name}@{version}?arch={}", arch.debian());
        components.push(json!({ "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl }));
    }
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

/// Crates of others that the program links, by name.
pub fn linked_crates(arch: Arch) -> Result<Vec<Linked>> {
    let metadata = metadata(arch)?;
    let linked = linked(&metadata)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists packages")?;
    let of = packages.iter().filter(|p| linked.contains_key(text(p, "id")) && !p["source"].is_null());
    let mut all: Vec<Linked> = of
        .map(|p| Linked {
            name: text(p, "name").into(),
            version: text(p, "version").into(),
            licence: text(p, "license").replace('/', " OR "),
            folder: Path::new(text(p, "manifest_path")).parent().unwrap_or(Path::new("/")).to_path_buf(),
        })
        .collect();
    all.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(all)
}

fn metadata(arch: Arch) -> Result<Value> {
    let args = ["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", arch.triple()];
    let out = Command::new("cargo").args(args).current_dir(root()).output().context("starting cargo")?;
    ensure!(out.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).context("cargo metadata is JSON")
}

/// SHA-256 by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |table: &str, key: &str| {
        let line = table.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(line.trim_matches('"').to_string())
    };
    let tables = lock.split("[[package]]").skip(1);
    tables.filter_map(|t| Some(((value(t, "name")?, value(t, "version")?), value(t, "checksum")?))).collect()
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of[key].as_str().unwrap_or_default()
}

/// Ids of what the program links, itself among them: the closure of what is no dependency of builds or tests alone.
fn linked(metadata: &Value) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo metadata resolves")?;
    let normal = |node: &Value| -> BTreeSet<String> {
        let is_linked = |dep: &&Value| dep["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()));
        node["deps"].as_array().into_iter().flatten().filter(is_linked).map(|dep| text(dep, "pkg").to_string()).collect()
    };
    let uses: BTreeMap<&str, &Value> = nodes.iter().map(|node| (text(node, "id"), node)).collect();
    let packages = metadata["packages"].as_array().context("cargo metadata lists packages")?;
    let program = packages.iter().find(|p| p["name"] == PROGRAM && p["source"].is_null()).context("the program's package")?;
    let (mut found, mut open) = (BTreeMap::new(), vec![text(program, "id").to_string()]);
    while let Some(id) = open.pop() {
        if !found.contains_key(&id) {
            let deps = normal(uses.get(id.as_str()).context("each package is resolved")?);
            open.extend(deps.iter().cloned());
            found.insert(id, deps);
        }
    }
    Ok(found)
}

fn bill(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Result<Value> {
    let linked = linked(metadata)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists packages")?;
    let by_id: BTreeMap<&str, &Value> = packages.iter().map(|p| (text(p, "id"), p)).collect();
    let reference = |id: &str| by_id.get(id).map(|p| format!("pkg:cargo/{}@{}", text(p, "name"), text(p, "version"))).unwrap_or_default();
    let component = |id: &str| {
        let p = by_id[id];
        let (name, version) = (text(p, "name").to_string(), text(p, "version").to_string());
        let mut of = json!({
            "type": "library", "bom-ref": reference(id), "name": name, "version": version, "purl": reference(id),
            "licenses": [{ "expression": text(p, "license").replace('/', " OR ") }],
        });
        if let Some(sum) = checksums.get(&(name, version)) {
            of["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        of
    };
    let program = linked.keys().find(|id| by_id[id.as_str()]["name"] == PROGRAM).context("the program is linked")?;
    let components: Vec<Value> = linked.keys().filter(|id| *id != program).map(|id| component(id)).collect();
    let dependencies: Vec<Value> = linked
        .iter()
        .map(|(id, deps)| json!({ "ref": reference(id), "dependsOn": deps.iter().map(|d| reference(d)).collect::<Vec<_>>() }))
        .collect();
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": {
            "type": "application", "bom-ref": reference(program), "name": "humboldt", "version": text(by_id[program.as_str()], "version"),
        } },
        "components": components,
        "dependencies": dependencies,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_that_is_linked_is_on_the_bill() {
        let bill: Value = serde_json::from_str(&sbom_with(Arch::Amd64, &Packages::new()).unwrap()).unwrap();
        let named = |name: &str| bill["components"].as_array().unwrap().iter().find(|c| c["name"] == name).cloned();
        let tokio = named("tokio").expect("the shells have it");
        assert!(tokio["hashes"][0]["content"].as_str().is_some_and(|sum| sum.len() == 64) && tokio["licenses"][0]["expression"] == "MIT");
        assert!(named("osd-core").is_some(), "our own crates are named, too");
        assert!(named("proptest").is_none() && named("cc").is_none(), "what only tests or builds is not linked");
        let known: BTreeSet<&str> = bill["dependencies"].as_array().unwrap().iter().map(|d| text(d, "ref")).collect();
        let used = bill["dependencies"].as_array().unwrap().iter().flat_map(|d| d["dependsOn"].as_array().unwrap());
        assert!(used.map(|d| d.as_str().unwrap()).all(|d| known.contains(d)));
        let beside = sbom_with(Arch::Amd64, &Packages::from([("radosgw".into(), "18.2.7".into())])).unwrap();
        assert!(beside.contains("\"pkg:deb/debian/radosgw@18.2.7?arch=amd64\"") && beside.contains("\"tokio\""));
    }
}
