//! The list of heeded options and the code that reads options agree: what is read has a row, and what has a row is read.

mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use tree::{root, sources};

/// Crates in which options are read.
const READERS: [&str; 8] = ["mon-core", "osd-core", "osd", "mon", "net", "client", "objecter", "cli"];
/// Files with names of options that they don't read: lists of defaults, of what is shown or set, of what stays in a file.
const LISTS: [&str; 6] = [
    "osd-core/src/config.rs",
    "mon/src/files.rs",
    "osd/src/metadata.rs",
    "osd/src/parts.rs",
    "mon-core/src/cmd/mon_map.rs",
    "cli/src/lab.rs",
];
/// Words that are names of options and, where they stand, mean something else.
const WORDS: [&str; 9] = ["host", "key", "fsid", "keyring", "monmap", "cluster_addr", "public_addr", "container_image", "crush_location"];
/// Known by name only: kept in a file, or settled with the store.
const NOT_READ: [&str; 4] = ["mon_host_override", "mon_initial_members", "log_file", "rbd_cache"];

/// Texts between quotes, with blanks and dashes as underscores.
fn literals(text: &str) -> impl Iterator<Item = String> {
    text.split('"').skip(1).step_by(2).map(|word| word.replace([' ', '-'], "_"))
}

#[test]
fn what_is_read_has_a_row_and_what_has_a_row_is_read() {
    let table = fs::read_to_string(root().join("crates/options/src/options.txt")).unwrap();
    let known: BTreeSet<&str> = table.lines().filter(|l| !l.starts_with('#')).map(|l| l.split('|').next().unwrap()).collect();
    let list = fs::read_to_string(root().join("crates/options/src/heeded.rs")).unwrap();
    let heeded: BTreeSet<String> =
        list.lines().filter_map(|l| l.trim().strip_prefix("row(\"")).map(|l| l.split('"').next().unwrap().to_string()).collect();
    assert!(heeded.len() > 100, "rows are not found any more");
    let mut read: BTreeMap<String, String> = BTreeMap::new();
    let mut named: BTreeSet<String> = BTreeSet::new();
    for name in READERS {
        let mut files = Vec::new();
        sources(&root().join("crates").join(name).join("src"), &mut files);
        for file in files.iter().filter(|f| !f.to_string_lossy().contains("tests")) {
            let text = fs::read_to_string(file).unwrap();
            // Tests come last; a counter for them may stand between other methods.
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
            for word in literals(code).filter(|w| known.contains(w.as_str())) {
                named.insert(word.clone());
                if !LISTS.iter().any(|list| file.ends_with(list)) && !WORDS.contains(&word.as_str()) && !NOT_READ.contains(&word.as_str()) {
                    read.insert(word, file.display().to_string());
                }
            }
        }
    }
    let without: Vec<_> = read.iter().filter(|(name, _)| !heeded.contains(*name)).collect();
    assert!(without.is_empty(), "crates/options/src/heeded.rs has no row for {without:?}");
    // Networks and methods are put together of `public` and `cluster`, and of `service`.
    let made = |name: &str| ["_network", "_addr", "_required"].iter().any(|end| name.ends_with(end));
    let idle: Vec<_> = heeded.iter().filter(|name| !named.contains(*name) && !made(name)).collect();
    assert!(idle.is_empty(), "crates/options/src/heeded.rs has rows that nothing reads: {idle:?}");
}
