//! `cargo xtask samples`: texts for users, drawn at random, to be read as a stranger would. Help of commands and verbs, health and errors of
//! the monitor, paragraphs of the guide. The same seed draws the same texts of the same tree.
//!
//! Absent: a judgement. Comments of the code are counted by `tests/words.rs`.

use anyhow::{Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use suites::run::root;

/// A text this short has nothing to misread.
const LETTERS_MIN: usize = 50;
/// Files with help texts as doc comments.
const HELP: [&str; 5] = [
    "crates/cli/src/args.rs",
    "crates/cli/src/services/args.rs",
    "crates/cli/src/store_tool/args.rs",
    "crates/cli/src/top/mod.rs",
    "xtask/src/args.rs",
];
/// Folders with health and error texts as literals.
const HEALTH: [&str; 2] = ["crates/mon-core/src", "crates/cli/src"];
const PAGES: [&str; 2] = ["docs/src", "."];
/// Pages for readers of the code, and results.
const OTHERS: [&str; 3] = ["ARCHITECTURE.md", "COMPATIBILITY.md", "STYLE.md"];

/// A text, and where it stands.
struct Text {
    at: String,
    text: String,
}

/// Numbers of chance that a seed names: splitmix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// Files below a folder with that ending, sorted; of the tree's root those that lie in it alone.
fn files(folder: &str, ending: &str, found: &mut Vec<PathBuf>) -> Result<()> {
    let mut entries: Vec<PathBuf> = fs::read_dir(root().join(folder))?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() && folder != "." {
            let below = path.strip_prefix(root())?.display().to_string();
            files(&below, ending, found)?;
        } else if path.extension().is_some_and(|e| e == ending) {
            found.push(path);
        }
    }
    Ok(())
}

fn place(path: &Path, line: usize) -> String {
    format!("{}:{}", path.strip_prefix(root()).unwrap_or(path).display(), line + 1)
}

/// Runs of lines that are `Some`, joined; each with the number of its first line. An item of a list is a run of its own.
fn runs(lines: impl Iterator<Item = Option<String>>) -> Vec<(usize, String)> {
    let (mut found, mut open) = (Vec::<(usize, String)>::new(), false);
    for (n, line) in lines.enumerate() {
        let is_open = line.is_some();
        match (line, found.last_mut()) {
            (Some(words), Some((_, last))) if open && !words.starts_with("- ") => {
                last.push(' ');
                last.push_str(&words);
            }
            (Some(words), _) => found.push((n, words)),
            (None, _) => {}
        }
        open = is_open;
    }
    found
}

fn help() -> Result<Vec<Text>> {
    let mut all = Vec::new();
    for name in HELP {
        let path = root().join(name);
        let text = fs::read_to_string(&path)?;
        let docs = text.lines().map(|line| line.trim_start().strip_prefix("/// ").map(|words| words.trim().to_string()));
        all.extend(runs(docs).into_iter().map(|(n, text)| Text { at: place(&path, n), text }));
    }
    Ok(all)
}

/// Literals with several words outside of tests.
fn health() -> Result<Vec<Text>> {
    let (mut all, mut paths) = (Vec::new(), Vec::new());
    HEALTH.iter().try_for_each(|folder| files(folder, "rs", &mut paths))?;
    for path in paths.iter().filter(|path| !path.to_string_lossy().contains("/tests")) {
        let text = fs::read_to_string(path)?;
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (n, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            let literals = line.split('"').skip(1).step_by(2).filter(|words| words.matches(' ').count() >= 6);
            all.extend(literals.map(|words| Text { at: place(path, n), text: words.trim().to_string() }));
        }
    }
    Ok(all)
}

/// Paragraphs and items of pages, without blocks and tables.
fn guide() -> Result<Vec<Text>> {
    let (mut all, mut paths) = (Vec::new(), Vec::new());
    PAGES.iter().try_for_each(|folder| files(folder, "md", &mut paths))?;
    for path in paths.iter().filter(|path| !OTHERS.iter().any(|other| path.ends_with(other))) {
        let (text, mut in_block) = (fs::read_to_string(path)?, false);
        let words = text.lines().map(|line| {
            let is_fence = line.starts_with("```");
            in_block ^= is_fence;
            let is_text = !is_fence && !in_block && !line.starts_with(['|', '#', '<']) && !line.trim().is_empty();
            is_text.then(|| line.trim().to_string())
        });
        all.extend(runs(words).into_iter().map(|(n, text)| Text { at: place(path, n), text }));
    }
    Ok(all)
}

/// Prints so many texts, of each kind in turn.
pub fn samples(count: usize, seed: u64) -> Result<()> {
    let mut kinds = [("help", help()?), ("text", health()?), ("page", guide()?)];
    for (name, texts) in &mut kinds {
        texts.retain(|text| text.text.len() >= LETTERS_MIN);
        ensure!(texts.len() > 40, "{} texts of kind {name} are found", texts.len());
    }
    let mut chance = Chance(seed);
    for n in 0..count {
        let (name, texts) = &mut kinds[n % 3];
        if texts.is_empty() {
            continue;
        }
        let Text { at, text } = texts.swap_remove(chance.below(texts.len()));
        println!("{:>3}  {name}  {at}\n     {text}", n + 1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_texts_and_a_seed_draws_the_same() {
        for (texts, known) in [
            (help().unwrap(), "Number of OSDs"),
            (health().unwrap(), "another process listens there"),
            (guide().unwrap(), "To remove the cluster"),
        ] {
            assert!(texts.iter().any(|text| text.text.contains(known)), "`{known}` is not among {} texts", texts.len());
        }
        let draw = |seed| (0..20).scan(Chance(seed), |chance, _| Some(chance.below(1000))).collect::<Vec<_>>();
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
