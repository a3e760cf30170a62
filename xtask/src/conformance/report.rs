//! COMPATIBILITY.md: per suite and release a section, which a later run of that suite and release replaces.

use super::Run;
use super::gtest::Verdict;
use super::program::Outcome;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "\
# Compatibility

Ceph comes with programs that test a cluster through its clients. This page counts which of their cases pass on Humboldt. `cargo xtask conformance` runs the programs
and writes the page; nothing here is written by hand.

- A row of the summary is one suite of one release's package `ceph-test` against a fresh `humboldt up` with one OSD and cephx. The sections below have each program.
- *Among stock daemons* means two OSDs of Humboldt under three stock monitors of 18.2 and a stock manager of 16.2, all in secure mode.
- *Skipped*: the program itself does not run the case here. *Left out*: [the reasons](#why-cases-are-left-out). *Unsettled*: a case failed, and passed alone on a fresh
  cluster.
- Suite `luks` has the cases of encrypted images. Suite `model` has random workloads that check themselves; each run of one is a case.
- Suites `rgw` and `s3` run on stock radosgw of 18.2; of upstream's own selection of s3-tests, 566 cases, stock passes 557. Suites `cephfs`, `posix` and `workunits` run on
  stock ceph-mds of 18.2. The sources are given by `--s3-tests`, `--pjdfstest`, `--xfstests` and `--ceph-source`.
";

const KERNELS: &str = "
## Linux kernel clients

Case `linux_kernel_client` of `cargo xtask test`, in QEMU without any program of Ceph's:

| kernel | map, crc | map, secure | ext4 | discard | snapshot | clone | lock hand-over | capabilities | split under load | kill -9 under writes |
|---|---|---|---|---|---|---|---|---|---|---|
| 6.1 (Debian 12) | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ |

Kernels speak msgr2 from 5.11 on, and older ones can't connect. They ask for msgr1 unless a mode is named: `rbd map -o ms_mode=prefer-crc` (or `crc`,
`prefer-secure`, `secure`), or `rbd_default_map_options` in the configuration.
";

const WHY: &str = "Why cases are left out";
/// Headings that are no section of a run.
const OWN: [&str; 3] = ["Summary", "Linux kernel clients", WHY];

/// `401 passed of 402`, and what else there is to say.
pub fn totals(outcomes: &[Outcome]) -> String {
    let sum = |f: &dyn Fn(&Outcome) -> usize| outcomes.iter().map(f).sum::<usize>();
    let (passed, skipped) = (sum(&Outcome::passed), sum(&Outcome::skipped));
    let (failed, left_out) = (sum(&|o| o.failed().count()), sum(&|o| o.left_out.len()));
    format!("{passed} of {} cases passed, {failed} failed, {skipped} skipped, {left_out} left out", passed + failed + skipped + left_out)
}

/// Cases of one reason in one line.
fn by_reason<'a>(cases: impl Iterator<Item = (&'a String, &'a str)>) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (case, why) in cases {
        reasons.entry(why).or_default().push(case);
    }
    reasons
}

fn section(run: &Run) -> String {
    let mut text = format!("{}, in {} s.\n\n", totals(&run.outcomes), run.took.as_secs());
    text.push_str("| program | passed | of | failed | skipped | left out | s |\n|---|---|---|---|---|---|---|\n");
    for o in &run.outcomes {
        let (passed, failed, skipped, left_out) = (o.passed(), o.failed().count(), o.skipped(), o.left_out.len());
        let all = passed + failed + skipped + left_out;
        let _ = writeln!(text, "| {} | {passed} | {all} | {failed} | {skipped} | {left_out} | {} |", o.program, o.took.as_secs());
    }
    for o in &run.outcomes {
        // Where cases are few, their names say what was done.
        if run.section.starts_with(super::model::NAME) && o.passed() > 0 {
            let passed = o.cases.iter().filter(|(_, verdict)| **verdict == Verdict::Passed).map(|(name, _)| name.as_str());
            let _ = write!(text, "\n- `{}`, passed: {}.", o.program, passed.collect::<Vec<_>>().join("; "));
        }
        let failed = o.failed().map(|(case, why)| (case, o.expected.get(case).copied().unwrap_or(why)));
        for (why, cases) in by_reason(failed) {
            let _ = write!(text, "\n- `{}`, failed: {}: {}", o.program, cases.join(", "), why.replace('|', "/"));
        }
        let unsettled = o.unsettled.iter().map(|(case, why)| (case, why.as_str()));
        for (why, cases) in by_reason(unsettled) {
            let _ = write!(
                text,
                "\n- `{}`, unsettled: {} failed, and passed alone on a fresh cluster: {}",
                o.program,
                cases.join(", "),
                why.replace('|', "/")
            );
        }
        for (why, cases) in by_reason(o.left_out.iter().map(|(case, why)| (case, *why))) {
            let whole = cases.len() == o.left_out.len() + o.cases.len();
            let which = if whole { "all cases".to_string() } else { cases.join(", ") };
            let _ = write!(text, "\n- `{}`, left out: {which}: {why}.", o.program);
        }
    }
    text.push('\n');
    text
}

/// Puts the run's section into the file, in place of an older one of the same name.
pub fn write(path: &Path, run: &Run) -> Result<()> {
    let mut sections = parse(&std::fs::read_to_string(path).unwrap_or_default());
    sections.insert(run.section.clone(), format!("{}\n", section(run).trim()));
    std::fs::write(path, render(&sections)).with_context(|| format!("writing {}", path.display()))
}

/// The same file in this program's form.
pub fn rewrite(path: &Path) -> Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    std::fs::write(path, render(&parse(&text))).with_context(|| format!("writing {}", path.display()))
}

/// A line of a section that says what of a program is left out: the program, the cases, the reason.
fn left_out(line: &str) -> Option<(&str, &str, &str)> {
    let (program, rest) = line.strip_prefix("- ")?.split_once(", left out: ")?;
    let (cases, reason) = rest.split_once(": ")?;
    Some((program, cases, reason.trim_end_matches('.')))
}

/// Sections by name, each with its lines of what is left out written in full.
fn parse(text: &str) -> BTreeMap<String, String> {
    let parts = || text.split("\n## ").skip(1).map(|part| part.split_once('\n').unwrap_or((part, "")));
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    for (_, body) in parts().filter(|(name, _)| *name == WHY) {
        let mut reason = "";
        for line in body.lines() {
            reason = line.strip_prefix("### ").unwrap_or(reason);
            if let Some(((number, program), cases)) =
                line.strip_prefix("- [").and_then(|l| l.split_once(": ")).and_then(|(head, cases)| Some((head.split_once("] ")?, cases)))
            {
                known.insert(number, format!("- {program}, left out: {cases}: {reason}."));
            }
        }
    }
    let whole = |line: &str| match line.strip_prefix("Left out: ") {
        Some(numbers) => {
            let lines = numbers.split_whitespace().filter_map(|n| known.get(n.trim_matches(['[', ']'])).cloned());
            lines.collect::<Vec<_>>().join("\n")
        }
        None => line.to_string(),
    };
    let own = |(name, body): (&str, &str)| (name.trim().to_string(), format!("{}\n", body.trim().lines().map(whole).collect::<Vec<_>>().join("\n")));
    parts().filter(|(name, _)| !OWN.contains(name)).map(own).collect()
}

/// The cases of a section that passed, and those that ran: neither skipped nor left out.
fn passed_of_run(body: &str) -> Option<String> {
    let numbers = body.lines().next()?.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty());
    match numbers.map_while(|n| n.parse().ok()).collect::<Vec<usize>>()[..] {
        [passed, _, failed, ..] => Some(format!("{passed} of {}", passed + failed)),
        _ => None,
    }
}

/// A row for each suite and release, a column for each way to run it.
fn summary(sections: &BTreeMap<String, String>) -> String {
    const WAYS: [&str; 4] = ["", ", block store", ", among stock daemons", ", among stock daemons, block store"];
    let mut rows: BTreeMap<&str, [Option<String>; 4]> = BTreeMap::new();
    for (name, body) in sections {
        let longest = |way: &usize| if name.ends_with(WAYS[*way]) { WAYS[*way].len() + 1 } else { 0 };
        let way = (0..WAYS.len()).max_by_key(longest).expect("there are ways");
        rows.entry(name.strip_suffix(WAYS[way]).expect("each name ends with nothing, at least")).or_default()[way] = passed_of_run(body);
    }
    let mut text = "\n## Summary\n\nCases that passed, of those that ran.\n\n".to_string();
    text += "| suite | memory store | block store | memory store, among stock daemons | block store, among stock daemons |\n|---|---|---|---|---|\n";
    for (name, cells) in rows {
        let _ = writeln!(text, "| {name} | {} |", cells.map(|cell| cell.unwrap_or_else(|| "–".into())).join(" | "));
    }
    text
}

/// The file: a summary, each reason once, then the sections.
fn render(sections: &BTreeMap<String, String>) -> String {
    let mut text = HEAD.to_string();
    text += &summary(sections);
    text += KERNELS;
    let mut reasons: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for line in sections.values().flat_map(|body| body.lines()) {
        if let Some((_, _, reason)) = left_out(line) {
            reasons.entry(reason).or_default().insert(line, 0);
        }
    }
    let _ = write!(text, "\n## {WHY}\n");
    let mut number = 0;
    for (reason, lines) in &mut reasons {
        let _ = write!(text, "\n### {reason}\n\n");
        for (line, own) in lines.iter_mut() {
            number += 1;
            *own = number;
            let (program, cases, _) = left_out(line).expect("it was one");
            let _ = writeln!(text, "- [{number}] {program}: {cases}");
        }
    }
    let number_of = |line: &str| left_out(line).map(|(_, _, reason)| reasons[reason][line]);
    for (name, body) in sections {
        let numbers: Vec<String> = body.lines().filter_map(number_of).map(|n| format!("[{n}]")).collect();
        let others: Vec<&str> = body.lines().filter(|line| number_of(line).is_none()).collect();
        let _ = write!(text, "\n## {name}\n\n{}\n", others.join("\n").trim());
        if !numbers.is_empty() {
            let _ = write!(text, "\nLeft out: {}\n", numbers.join(" "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_stands_once_and_nothing_is_lost() {
        let row = "2 of 4 cases passed, 0 failed, 0 skipped, 2 left out, in 1 s.";
        let body = format!("{row}\n\n- `p`, left out: a, b: it is not there.\n- `q`, passed: x: 1.\n");
        let sections: BTreeMap<String, String> = [("one", &body), ("two", &body)].map(|(name, body)| (name.to_string(), body.clone())).into();
        let text = render(&sections);
        assert_eq!(text.matches("it is not there").count(), 1, "{text}");
        assert!(text.contains("| one | 2 of 2 | – | – | – |") && text.contains("Left out: [1]"), "{text}");
        let lines = |body: &str| body.lines().filter(|l| !l.is_empty()).map(String::from).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(lines(&parse(&text)["one"]), lines(&body));
        assert_eq!(render(&parse(&text)), text);
    }

    #[test]
    fn the_ways_of_a_suite_share_a_row() {
        let body = |failed: usize| format!("{} of 9 cases passed, {failed} failed, 1 skipped, 1 left out, in 1 s.\n", 7 - failed);
        let names = ["cls with 18.2", "cls with 18.2, block store", "cls with 18.2, among stock daemons, block store"];
        let sections: BTreeMap<String, String> = names.iter().zip(1..).map(|(name, n)| ((*name).to_string(), body(n))).collect();
        assert!(summary(&sections).ends_with("| cls with 18.2 | 6 of 7 | 5 of 7 | – | 4 of 7 |\n"), "{}", summary(&sections));
    }

    #[test]
    fn the_file_has_this_form() {
        let path = crate::run::root().join("COMPATIBILITY.md");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(render(&parse(&text)) == text, "COMPATIBILITY.md is not in its form: cargo xtask conformance --rewrite");
    }
}
