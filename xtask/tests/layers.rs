//! The crate graph points down, as DESIGN's table has it; the map in ARCHITECTURE.md names every crate; every module says what it holds.
//! A new arrow that does not fit is a change of the design, not a typo.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Bottom first. A crate may use only what stands in an earlier row (and `denc` its derive macros). Layer 4 has two rows: an OSD is a client of its
/// monitor and of other OSDs, so `objecter` stands below `osd-core`.
const LAYERS: &[&[&str]] = &[
    &["base", "denc", "denc-derive"],
    &["types", "crush", "disk", "options"],
    &["cephx", "messages", "maps", "store", "classes"],
    &["msgr", "objecter", "store-mem", "store-block", "store-file"],
    &["osd-core", "mon-core"],
    &["net", "sim"],
    &["osd", "mon", "client"],
    &["lab"],
    &["cli"],
];
/// The only crates that may name a runtime, a socket or a clock.
const SHELLS: &[&str] = &["net", "osd", "mon", "client", "lab", "cli"];
/// The only crate below the shells that may name files and the kernel's rings: the disks themselves.
const DISKS: &[&str] = &["disk"];
/// What a core must not have among its dependencies.
const EDGES: &[&str] = &["tokio", "socket2", "libc", "redb", "io-uring", "getrandom", "rand"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// Each crate's folder and the names that its `[dependencies]` hold.
fn crates() -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let dir = entry.unwrap().path();
        let name = dir.file_name().unwrap().to_str().unwrap().to_string();
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}: the folder is the package's name");
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name} takes the workspace's lints");
        let section = manifest.split_once("\n[dependencies]").map_or("", |(_, rest)| rest.split("\n[").next().unwrap());
        let uses = section
            .lines()
            .map(|l| l.split(['=', '.', ' ']).next().unwrap().trim().to_string())
            .filter(|l| !l.is_empty() && !l.starts_with('#'))
            .collect();
        found.push((name, uses));
    }
    found.sort();
    found
}

#[test]
fn the_crate_graph_points_down() {
    let layer_of: BTreeMap<&str, usize> =
        LAYERS.iter().enumerate().flat_map(|(layer, crates)| crates.iter().map(move |name| (*name, layer))).collect();
    for (name, uses) in crates() {
        let layer = *layer_of.get(name.as_str()).unwrap_or_else(|| panic!("{name} stands in no layer"));
        for used in &uses {
            let disks_own = DISKS.contains(&name.as_str()) && ["io-uring", "libc"].contains(&used.as_str());
            assert!(
                !EDGES.contains(&used.as_str()) || SHELLS.contains(&name.as_str()) || disks_own,
                "{name} is a core: it must not use {used}"
            );
            if let Some(used_layer) = layer_of.get(used.as_str()) {
                assert!(*used_layer < layer, "{name} must not use {used}, which is not in an earlier layer");
            }
        }
    }
}

#[test]
fn the_map_names_every_crate_and_what_each_lacks() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let names: Vec<String> = crates().into_iter().map(|(name, _)| name).collect();
    for name in &names {
        let mut paragraphs = map.lines().filter(|l| l.starts_with(&format!("- **`{name}`**")));
        let paragraph = paragraphs.next().unwrap_or_else(|| panic!("ARCHITECTURE.md has no paragraph for {name}"));
        assert!(paragraphs.next().is_none(), "ARCHITECTURE.md: {name} has one paragraph");
        assert!(paragraph.contains("Absent:"), "ARCHITECTURE.md: the paragraph of {name} ends in what is deliberately absent");
    }
    for line in map.lines().filter_map(|l| l.strip_prefix("- **`")) {
        let name = line.split('`').next().unwrap();
        assert!(name == "xtask" || names.iter().any(|n| n == name), "ARCHITECTURE.md describes {name}, which is not there");
    }
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

#[test]
fn every_module_says_what_it_holds() {
    let mut files = Vec::new();
    for (name, _) in crates() {
        sources(&root().join("crates").join(name).join("src"), &mut files);
    }
    sources(&root().join("xtask/src"), &mut files);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let tests_only = file.file_name().is_some_and(|n| n == "tests.rs");
        assert!(tests_only || text.starts_with("//!"), "{} does not open with //!", file.display());
    }
}

/// Where a core may name what `clippy.toml` bans: the maps whose hasher is named, and their encoding.
const NAMED: &[&str] = &["base/src/fixed.rs", "denc/src/impls.rs"];

#[test]
fn no_core_allows_what_clippy_toml_bans() {
    let config = fs::read_to_string(root().join("clippy.toml")).unwrap();
    for word in ["HashMap", "HashSet", "Instant", "SystemTime", "std::thread::spawn", "std::fs::File", "TcpStream"] {
        assert!(config.contains(word), "clippy.toml bans {word}");
    }
    for (name, _) in crates() {
        let dir = root().join("crates").join(&name);
        assert!(!dir.join("clippy.toml").exists(), "{name}: one clippy.toml for all cores");
        if SHELLS.contains(&name.as_str()) || DISKS.contains(&name.as_str()) {
            continue;
        }
        let mut files = Vec::new();
        sources(&dir.join("src"), &mut files);
        for file in files.iter().filter(|f| !NAMED.iter().any(|named| f.ends_with(named))) {
            let text = fs::read_to_string(file).unwrap();
            for lint in ["disallowed_types", "disallowed_methods", "clippy::all", "clippy::style"] {
                assert!(!text.contains(lint), "{}: a core allows {lint}", file.display());
            }
        }
    }
}

#[test]
fn nothing_names_a_machine_or_a_registry() {
    let mut files =
        vec![root().join("Cargo.toml"), root().join("README.md"), root().join("ARCHITECTURE.md"), root().join("CONTRIBUTING.md")];
    for (name, _) in crates() {
        sources(&root().join("crates").join(name), &mut files);
    }
    // Spelled apart, so that this file does not name them either.
    let words = [["/wo", "rk/"].concat(), ["/tmp/ceph", "-src"].concat(), ["crates", ".io/"].concat(), ["deb.deb", "ian.org"].concat()];
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for word in &words {
            assert!(!text.contains(word.as_str()), "{} names {word}", file.display());
        }
    }
}
