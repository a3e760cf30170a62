//! How the comments read: three habits of STYLE.md that a machine can count, in each crate. A count may only fall.
//!
//! Absent: spelling, and whether a comment says why. Those are a reviewer's.

mod tree;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use tree::{root, sources};

/// Columns of a line of comment, indentation and slashes included.
const COLUMNS_MAX: usize = 140;
/// A count may be so far below its bound before the bound must follow.
const SLACK: usize = 12;

/// Counts of one crate.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Habits {
    /// Sentences of comments that begin with "What".
    what: usize,
    /// Lines of comments over `COLUMNS_MAX`.
    long: usize,
    /// Lines of comments with "who", "whoever" or "nobody". People may be meant: the bound is what a reader left.
    who: usize,
}

/// Bounds by crate: what, long, who. A crate that is not named has none of them.
const BOUNDS: &[(&str, usize, usize, usize)] = &[
    ("base", 11, 14, 1),
    ("cephx", 35, 2, 7),
    ("classes", 60, 33, 10),
    ("cli", 71, 63, 6),
    ("client", 20, 3, 3),
    ("crush", 8, 3, 0),
    ("denc", 8, 0, 0),
    ("disk", 38, 44, 2),
    ("lab", 126, 20, 0),
    ("maps", 19, 3, 5),
    ("messages", 22, 7, 1),
    ("mon", 18, 19, 2),
    ("mon-core", 156, 46, 40),
    ("msgr", 34, 13, 2),
    ("net", 23, 25, 5),
    ("objecter", 13, 5, 1),
    ("options", 2, 3, 0),
    ("osd", 24, 22, 4),
    ("osd-core", 499, 326, 16),
    ("say", 5, 5, 1),
    ("sim", 129, 111, 17),
    ("store", 52, 51, 1),
    ("store-block", 175, 148, 9),
    ("store-mem", 20, 2, 0),
    ("suites", 146, 126, 13),
    ("types", 27, 1, 3),
    ("xtask", 23, 22, 3),
];

/// The words of a line that is a comment, without its slashes.
fn comment(line: &str) -> Option<&str> {
    let words = line.trim_start().strip_prefix("//")?;
    Some(words.trim_start_matches(['/', '!']).trim())
}

fn is_who(word: &str) -> bool {
    matches!(word.trim_matches(|c: char| !c.is_alphanumeric()).to_ascii_lowercase().as_str(), "who" | "whoever" | "nobody")
}

/// Sentences of a comment's line that begin with "What". A line that goes on with a sentence begins in lower case.
fn whats(words: &str) -> usize {
    usize::from(words.starts_with("What "))
        + [". What ", ": What ", "; What "].iter().map(|mark| words.matches(mark).count()).sum::<usize>()
}

fn habits(text: &str) -> Habits {
    let mut found = Habits::default();
    for line in text.lines() {
        let Some(words) = comment(line) else { continue };
        found.what += whats(words);
        found.long += usize::from(line.chars().count() > COLUMNS_MAX);
        found.who += usize::from(words.split_whitespace().any(is_who));
    }
    found
}

/// All of the repository's crates, by the names of their folders.
fn crates() -> BTreeMap<String, Habits> {
    let mut folders: Vec<PathBuf> = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.extend([root().join("suites"), root().join("xtask")]);
    folders.retain(|folder| folder.is_dir());
    let of = |folder: &PathBuf| {
        let mut files = Vec::new();
        sources(folder, &mut files);
        let mut sum = Habits::default();
        for file in files {
            let Habits { what, long, who } = habits(&fs::read_to_string(file).unwrap());
            sum = Habits { what: sum.what + what, long: sum.long + long, who: sum.who + who };
        }
        (folder.file_name().unwrap().to_str().unwrap().to_string(), sum)
    };
    folders.iter().map(of).collect()
}

#[test]
fn habits_of_comments_only_fall() {
    let found = crates();
    let mut wrong = Vec::new();
    for (name, habits) in &found {
        let bound = BOUNDS.iter().find(|row| row.0 == name).map_or((0, 0, 0), |row| (row.1, row.2, row.3));
        let Habits { what, long, who } = *habits;
        let all = [(what, bound.0), (long, bound.1), (who, bound.2)];
        let (grew, fell) = (all.iter().any(|(n, bound)| n > bound), all.iter().any(|(n, bound)| n + SLACK < *bound));
        if grew || fell {
            let next = if grew { "see STYLE.md: write the new comments otherwise" } else { "fewer: lower the bound" };
            wrong.push(format!("(\"{name}\", {what}, {long}, {who}), // {next}; the bound is {bound:?}"));
        }
    }
    wrong.extend(BOUNDS.iter().filter(|row| !found.contains_key(row.0)).map(|row| format!("{} is no crate", row.0)));
    assert!(wrong.is_empty(), "what, long lines, who:\n{}", wrong.join("\n"));
}

#[test]
fn each_habit_is_counted() {
    let text = "//! What it holds. What it lacks.\nlet what = 1; // not a comment's line\n/// Nobody asks, somebody who answers.\n// whose and whoa\n";
    assert_eq!(habits(text), Habits { what: 2, long: 0, who: 1 });
    let long = format!("    // {}\n    {}\n", "a".repeat(COLUMNS_MAX), "b".repeat(COLUMNS_MAX));
    assert_eq!(habits(&long), Habits { what: 0, long: 1, who: 0 });
}
