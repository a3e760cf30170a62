//! What programs built with GoogleTest say: the list of their cases, and how each ended.

use std::collections::BTreeMap;

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// The program itself chose not to run it.
    Skipped,
    /// With the first thing that it complained about.
    Failed(String),
}

/// The names that `--gtest_list_tests` prints, in order; without disabled ones.
pub fn listed(out: &str) -> Vec<String> {
    let (mut names, mut suite) = (Vec::new(), String::new());
    for line in out.lines() {
        let word = line.split_whitespace().next().unwrap_or_default();
        if line.starts_with("  ") {
            if !suite.is_empty() && !word.is_empty() {
                names.push(format!("{suite}{word}"));
            }
        } else if word.ends_with('.') {
            suite = word.into();
        }
    }
    names.retain(|name| !name.split(['.', '/']).any(|part| part.starts_with("DISABLED_")));
    names
}

/// How each case that began ended, by what the program printed. The one that began and did not end, too: the program died or hung in it.
pub fn verdicts(out: &str) -> BTreeMap<String, Verdict> {
    let mut found = BTreeMap::new();
    let (mut current, mut complaint, mut before) = (None::<String>, String::new(), Vec::new());
    for line in out.lines() {
        if let Some(name) = line.strip_prefix("[ RUN      ] ") {
            complaint.clear();
            current = Some(name.trim().into());
            before.clear();
            continue;
        }
        let Some(name) = &current else { continue };
        // A case's own output may stand in front of what GoogleTest says of it.
        let ended = |mark: &str| line.split_once(mark).is_some_and(|(_, rest)| rest.split([' ', ',']).next() == Some(name.as_str()));
        let verdict = if ended("[       OK ] ") {
            Verdict::Passed
        } else if ended("[  SKIPPED ] ") {
            Verdict::Skipped
        } else if ended("[  FAILED  ] ") {
            Verdict::Failed(std::mem::take(&mut complaint))
        } else {
            note(&mut complaint, line, &before);
            before.push(line);
            continue;
        };
        found.insert(name.clone(), verdict);
        current = None;
    }
    if let Some(name) = current {
        let last = out.lines().next_back().unwrap_or_default();
        found.insert(
            name,
            Verdict::Failed(if complaint.is_empty() { format!("the program did not get past it: {last}") } else { complaint }),
        );
    }
    found
}

/// What one case printed: the lines from its beginning to its end, or to the program's.
pub fn part(out: &str, case: &str) -> String {
    let of_it = |line: &&str| line.strip_prefix("[ RUN      ] ").is_none_or(|name| name.trim() == case);
    let mut lines = out.lines().skip_while(|line| line.strip_prefix("[ RUN      ] ").map(str::trim) != Some(case)).take_while(of_it);
    let mut text = String::new();
    for line in &mut lines {
        text.push_str(line);
        text.push('\n');
        let ends = ["[       OK ] ", "[  SKIPPED ] ", "[  FAILED  ] "];
        if ends.iter().any(|mark| line.split_once(mark).is_some_and(|(_, rest)| rest.split([' ', ',']).next() == Some(case))) {
            break;
        }
    }
    text
}

/// Keeps the first complaint, in one line: GoogleTest's stand behind a line that names a place in the source. What the case itself said
/// just before often tells more.
fn note(complaint: &mut String, line: &str, before: &[&str]) {
    const LINES: usize = 8;
    const LINES_BEFORE: usize = 12;
    let starts = line.contains(": Failure") || line.contains("unknown file") || line.contains("C++ exception");
    if complaint.is_empty() && starts {
        let place = line.trim_end_matches(": Failure").trim();
        complaint.push_str(place.rsplit('/').next().unwrap_or(place));
        complaint.push(':');
        let before: Vec<&str> =
            before[before.len().saturating_sub(LINES_BEFORE)..].iter().map(|l| l.trim()).filter(|l| !l.is_empty()).collect();
        if !before.is_empty() {
            complaint.push_str(&format!(" behind \"{}\":", before.join("; ")));
        }
    } else if !complaint.is_empty() && complaint.matches(';').count() < LINES && !line.trim().is_empty() {
        complaint.push(' ');
        complaint.push_str(line.trim());
        complaint.push(';');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let out = "noise\nClsHello.\n  SayHello\n  Filter\nPools/ClsX.  # TypeParam = int\n  A/0  # GetParam() = 1\nDISABLED_Y.\n  B\nZ.\n  DISABLED_C\n";
        assert_eq!(listed(out), ["ClsHello.SayHello", "ClsHello.Filter", "Pools/ClsX.A/0"]);
    }

    #[test]
    fn verdicts_are_read() {
        let out = "\
[ RUN      ] A.One
0
[       OK ] A.One (3 ms)
[ RUN      ] A.Two
block 4 differs
./src/test/x.cc:12: Failure
Expected equality of these values:
  0
some output[  FAILED  ] A.Two, where GetParam() = 4 (1 ms)
[ RUN      ] A.Three
[  SKIPPED ] A.Three (0 ms)
[  FAILED  ] A.Two, where GetParam() = 4
[ RUN      ] A.Four
terminate called
";
        let found = verdicts(out);
        assert_eq!(found["A.One"], Verdict::Passed);
        assert_eq!(found["A.Two"], Verdict::Failed("x.cc:12: behind \"block 4 differs\": Expected equality of these values:; 0;".into()));
        assert_eq!(found["A.Three"], Verdict::Skipped);
        assert_eq!(found["A.Four"], Verdict::Failed("the program did not get past it: terminate called".into()));
        assert_eq!(found.len(), 4);
        let two = part(out, "A.Two");
        assert!(two.starts_with("[ RUN      ] A.Two\nblock 4 differs\n") && two.ends_with("GetParam() = 4 (1 ms)\n"), "{two}");
        assert_eq!(part(out, "A.Four"), "[ RUN      ] A.Four\nterminate called\n");
        assert_eq!(part(out, "A.Five"), "");
    }
}
