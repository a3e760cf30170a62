//! What Cargo.lock may hold: crates of one registry with their checksums, each in one version but for those that `deny.toml` lists, and only with
//! licences that it allows. Asks cargo and no network.

mod tree;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use tree::root;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The quoted words of a list in `deny.toml` that begins behind `from`; of tables in it, those behind `name`.
fn listed(from: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("deny.toml")).unwrap();
    let list = text.split_once(from).unwrap_or_else(|| panic!("deny.toml has no {from}")).1;
    let list = list.split("\n]").next().unwrap().split("]\n").next().unwrap();
    let words = |line: &str| line.split('"').skip(1).step_by(2).map(String::from).collect::<Vec<_>>();
    match list.contains("name =") {
        true => list.lines().filter(|l| l.contains("name =")).map(|l| words(l).swap_remove(0)).collect(),
        false => words(list),
    }
}

/// The tables `[[package]]` of Cargo.lock.
fn locked() -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let package = |table: &str| {
        let pairs = table.lines().filter_map(|l| l.split_once(" = "));
        pairs.map(|(key, value)| (key.to_string(), value.trim_matches('"').to_string())).collect()
    };
    text.split("[[package]]").skip(1).map(package).collect()
}

#[test]
fn every_crate_is_the_registrys_with_its_checksum() {
    let own: Vec<String> = fs::read_dir(root().join("crates")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    let packages = locked();
    assert!(packages.len() > 100, "packages are not found any more");
    for package in &packages {
        let name = &package["name"];
        match package.get("source") {
            Some(source) => {
                assert_eq!(source, REGISTRY, "{name}");
                assert_eq!(package.get("checksum").map(String::len), Some(64), "{name} has no checksum");
            }
            None => assert!(own.contains(name) || ["suites", "xtask"].contains(&name.as_str()), "{name} comes from nowhere"),
        }
    }
}

#[test]
fn a_crate_has_one_version_unless_it_is_listed() {
    let mut versions = BTreeMap::<String, usize>::new();
    locked().into_iter().for_each(|package| *versions.entry(package["name"].clone()).or_default() += 1);
    let double: Vec<String> = versions.into_iter().filter(|(_, n)| *n > 1).map(|(name, _)| name).collect();
    assert_eq!(double, listed("skip = ["), "deny.toml lists the crates of several versions, with the reason");
}

/// True if the expression can be met by licences that are allowed: `/` is an old form of OR.
fn is_met(expression: &str, allowed: &[String]) -> bool {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut at = 0;
    let met = any(&words, &mut at, allowed);
    assert_eq!(at, words.len(), "{expression}");
    met
}
fn any(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut met = all(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all(words, at, allowed);
    }
    met
}
fn all(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut met = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at, allowed);
    }
    met
}
fn one(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let word = words[*at];
    *at += 1;
    if word != "(" {
        return allowed.iter().any(|a| a == word);
    }
    let met = any(words, at, allowed);
    assert_eq!(words.get(*at), Some(&")"));
    *at += 1;
    met
}

#[test]
fn every_licence_is_allowed() {
    let allowed = listed("allow = [");
    assert!(is_met("ISC AND (Apache-2.0 OR GPL-3.0)", &allowed) && is_met("MIT/X", &allowed) && !is_met("MIT AND GPL-3.0", &allowed));
    let args = ["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"];
    let out = Command::new(env!("CARGO")).args(args).current_dir(root()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let packages = json["packages"].as_array().unwrap();
    assert!(packages.len() > 100);
    for package in packages {
        let licence = package["license"].as_str().unwrap_or_else(|| panic!("{} has no licence", package["name"]));
        assert!(is_met(licence, &allowed), "{} has {licence}, which deny.toml does not allow", package["name"]);
    }
}
