//! The crate graph points down, as the layers of ARCHITECTURE.md ("Crates, bottom first") have it; that map names every crate; every module says what
//! it holds. A new arrow that does not fit is a change of the design, not a typo.

mod tree;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tree::{root, sources};

/// The only crates that may name a runtime, a socket or a clock.
const SHELLS: &[&str] = &["say", "net", "osd", "mon", "client", "lab", "cli"];
/// The only crate below the shells that may name files and the kernel's rings: the disks themselves.
const DISKS: &[&str] = &["disk"];
/// What a core must not have among its dependencies.
const EDGES: &[&str] = &["tokio", "socket2", "libc", "redb", "io-uring", "getrandom", "rand", "say"];

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

/// The layer of each crate, bottom first: a line of ARCHITECTURE.md that begins with `Layer` opens one, and the paragraphs behind it are its crates'.
fn layers(map: &str) -> BTreeMap<&str, usize> {
    let (mut found, mut layer) = (BTreeMap::new(), 0);
    for line in map.lines().skip_while(|l| *l != "## Crates, bottom first").take_while(|l| !l.starts_with("Beside the layers")) {
        layer += usize::from(line.starts_with("Layer "));
        if let Some(name) = line.strip_prefix("- **`").and_then(|l| l.split('`').next()) {
            found.insert(name, layer);
        }
    }
    assert!(layer >= 8 && !found.values().any(|layer| *layer == 0), "ARCHITECTURE.md has the layers");
    found
}

/// A crate may use only what stands in an earlier layer.
#[test]
fn the_crate_graph_points_down() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let layer_of = layers(&map);
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
        assert!(
            ["xtask", "suites"].contains(&name) || names.iter().any(|n| n == name),
            "ARCHITECTURE.md describes {name}, which is not there"
        );
    }
}

/// A file or folder as the map names it: by its path, or by its crate and its place in the crate's `src`, or by its name alone.
fn find(named: &str, all: &[PathBuf]) -> Option<PathBuf> {
    let (first, rest) = named.split_once('/').unwrap_or((".", named));
    let in_crate = root().join("crates").join(first).join("src").join(rest);
    let by_path = [in_crate, root().join(named)].into_iter().find(|path| path.exists());
    by_path.or_else(|| all.iter().flat_map(|file| file.ancestors().take(3)).find(|path| path.ends_with(named)).map(Path::to_path_buf))
}

/// The names in code quotes that stand in parentheses right behind a file: its functions.
fn functions_behind(text: &str) -> Vec<String> {
    let Some(inside) =
        text.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')')).filter(|(inside, _)| inside.starts_with('`'))
    else {
        return Vec::new();
    };
    let quoted = inside.0.split('`').skip(1).step_by(2);
    quoted.filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':')).map(String::from).collect()
}

#[test]
fn files_and_functions_that_the_map_names_exist() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut all = Vec::new();
    sources(&root().join("crates"), &mut all);
    sources(&root().join("xtask"), &mut all);
    sources(&root().join("suites"), &mut all);
    let (mut files, mut functions) = (0, 0);
    let parts: Vec<&str> = map.split('`').collect();
    for (n, name) in parts.iter().enumerate().skip(1).step_by(2).filter(|(_, word)| word.ends_with(".rs") || word.ends_with('/')) {
        let path = find(name, &all).unwrap_or_else(|| panic!("ARCHITECTURE.md names {name}, which is not there"));
        files += 1;
        for function in functions_behind(&parts[n + 1..].join("`")).iter().filter(|_| path.is_file()) {
            let last = function.rsplit("::").next().unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert!(
                text.contains(&format!("fn {last}(")) || text.contains(&format!("fn {last}<")),
                "ARCHITECTURE.md: {name} has no function {last}"
            );
            functions += 1;
        }
    }
    assert!(files > 60 && functions > 15, "the map names {files} files, {functions} functions");
    for walk in ["## The life of a write", "## The life of a map", "## The life of a command"] {
        assert!(map.contains(walk), "ARCHITECTURE.md has {walk}");
    }
}

#[test]
fn the_picture_has_every_crate() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let picture = map.split_once("## Bird's eye").and_then(|(_, rest)| rest.split_once("A **core** is a value")).expect("a picture").0;
    let words: Vec<&str> = picture.split(|c: char| !c.is_alphanumeric() && c != '-').collect();
    for (name, _) in crates() {
        assert!(words.contains(&name.as_str()), "the picture lacks {name}");
    }
}

#[test]
fn every_module_says_what_it_holds() {
    let mut files = Vec::new();
    for (name, _) in crates() {
        sources(&root().join("crates").join(name).join("src"), &mut files);
    }
    sources(&root().join("xtask/src"), &mut files);
    sources(&root().join("suites/src"), &mut files);
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

/// The standard library's macros panic when a pipe has lost its reader, and a daemon would end with the program that reads its log.
#[test]
fn shells_print_by_the_crate_say() {
    let mut looked = 0;
    for name in SHELLS.iter().chain(DISKS).filter(|name| **name != "say") {
        let mut files = Vec::new();
        sources(&root().join("crates").join(name).join("src"), &mut files);
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for (n, line) in text.lines().enumerate() {
                for word in ["print!(", "println!("] {
                    for (at, _) in line.match_indices(word) {
                        let before = line[..at].strip_suffix('e').unwrap_or(&line[..at]);
                        assert!(before.ends_with("say::"), "{}:{}: say::{word}…)", file.display(), n + 1);
                        looked += 1;
                    }
                }
            }
        }
    }
    assert!(looked > 50, "{looked} lines print");
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
            // A folder of that name inside of a path is ours.
            let names = |(at, _): (usize, &str)| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            assert!(!text.match_indices(word.as_str()).any(names), "{} names {word}", file.display());
        }
    }
}
