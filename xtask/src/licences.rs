//! The licences of all crates that the program links: each text that lies in one of them, once, below the crates that have it.
//!
//! Beside them those of packages whose libraries a static program has in it. Absent: which licences are allowed (`deny.toml`), and those of
//! images' packages, which come with these.

use crate::arch::Arch;
use crate::sbom::{Linked, linked_crates};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use suites::oci::system::Packages;

/// How files with a licence begin, in small letters.
const BEGINNINGS: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];
/// Stands in no licence.
const LINE: &str = "#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=#=";

/// The texts in a crate's folder.
fn texts_of(one: &Linked) -> Result<BTreeSet<String>> {
    let mut texts = BTreeSet::new();
    for entry in fs::read_dir(&one.folder).with_context(|| one.folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_file() && BEGINNINGS.iter().any(|begins| name.starts_with(begins)) {
            let text = String::from_utf8_lossy(&fs::read(&path)?).replace("\r\n", "\n");
            texts.insert(text.trim().to_string());
        }
    }
    Ok(texts)
}

/// All of them as one text, behind those of `packages` of this machine.
pub fn texts(arch: Arch, packages: &Packages) -> Result<String> {
    let mut by_text: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut without = BTreeSet::new();
    for one in linked_crates(arch)? {
        let name = format!("{} {} ({})", one.name, one.version, one.licence);
        let texts = texts_of(&one)?;
        if texts.is_empty() {
            without.insert(name.clone());
        }
        for text in texts {
            by_text.entry(text).or_default().insert(name.clone());
        }
    }
    let mut all = String::from("Licences of all that humboldt links. Its own are MIT or Apache-2.0: LICENSE-MIT, LICENSE-APACHE.\n");
    for (name, version) in packages {
        let path = format!("/usr/share/doc/{name}/copyright");
        let text = fs::read_to_string(&path).with_context(|| path)?;
        let _ = write!(all, "\n{LINE}\n  {name} {version} (of Debian)\n\n{}\n", text.trim());
    }
    let list = |names: &BTreeSet<String>| names.iter().map(|name| format!("  {name}\n")).collect::<String>();
    for (text, names) in &by_text {
        let _ = write!(all, "\n{LINE}\n{}\n{text}\n", list(names));
    }
    if !without.is_empty() {
        let _ = write!(all, "\n{LINE}\nCrates that bring no text beside the name of their licence:\n\n{}", list(&without));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_of_others_is_named_and_each_text_stands_once() {
        let all = texts(Arch::Amd64, &Packages::from([("libc6".into(), "2.36".into())])).unwrap();
        assert!(all.contains("  libc6 2.36 (of Debian)\n") && all.contains("Lesser General Public"));
        for one in linked_crates(Arch::Amd64).unwrap() {
            assert!(all.contains(&format!("  {} {} (", one.name, one.version)), "{}", one.name);
        }
        assert!(all.contains("  tokio ") && !all.contains("  osd-core "), "our own crates have our own licence");
        let blocks: Vec<&str> = all.split(LINE).map(|block| block.split_once("\n\n").map_or("", |(_, text)| text)).collect();
        assert_eq!(blocks.iter().collect::<BTreeSet<_>>().len(), blocks.len());
        assert!(all.contains("Permission is hereby granted") && all.contains("Apache License"));
    }
}
