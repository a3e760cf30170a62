//! COMPATIBILITY.md with the summary and the reasons, and a page for each suite in docs/conformance: a section for each run, which a later
//! run of that kind replaces.

use super::Run;
use super::gtest::Verdict;
use super::program::Outcome;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The page with the summary, and the folder of the others, below the repository's root.
const MAIN: &str = "COMPATIBILITY.md";
const RUNS: &str = "docs/conformance";

const HEAD: &str = "\
# Compatibility

Ceph comes with programs that test a cluster through its clients. This page counts which of their cases
pass on Humboldt. `cargo xtask conformance` runs the programs, and writes this page and those of the runs.
";

const NOTES: &str = "
## How to read this page

- A row of the summary is one suite of the package `ceph-test` of one release. Each run has a fresh
  cluster. The pages of the runs, named below the summary, have each program by itself.
- The first two columns are `humboldt up` with one OSD and keys (cephx); *3 copies*: with three OSDs.
- *Among stock daemons*: two OSDs of Humboldt under three stock monitors of 18.2 and a stock manager of
  16.2. All connections are encrypted (secure mode). *Mixed*: one OSD with each store. *In a cluster of
  20.2*: monitors and manager are of 20.2 (`--daemons 20.2`).
- *Skipped*: the program itself does not run the case here. *Unsettled*: the case failed once, and passed
  when it ran again alone on a fresh cluster. *Left out*: the case was not tried, for one of the
  [reasons below](#why-cases-fail-or-are-left-out).
- Suite `luks` has the cases of encrypted images. Suite `model` has random workloads that check
  themselves; each run of one counts as a case.
- Suites `rgw`, `s3` and `s3-whole` run on stock radosgw. With 18.2, `s3` has the 566 cases of
  s3-tests that upstream itself selects; stock passes 557. `s3-whole` has all 673; stock passes 597.
- Suites `cephfs`, `posix` and `workunits` run on stock ceph-mds, of 18.2 unless the row says otherwise.
- *Stock itself*: the same suite, by the same commands, on a stock OSD of that release under a stock monitor
  (`--stock`). Before it was measured so, the notes here say what stock passes.
- `python` has upstream's tests of the Python bindings, `go-ceph` those of the Go bindings, `workunits-rbd`
  upstream's shell tests of the tool `rbd`.
- `mirror` has stock rbd-mirror between ours and a stock cluster, each way, and between two of ours;
  `multisite` has a zone of stock radosgw before each. `nfs` and `smb` have NFS-Ganesha 4.3 and Samba 4.17,
  with libcephfs of 16.2. In all of these gateways and clusters are killed with -9.
";

const KERNELS: &str = "
## Linux kernel clients

Case `linux_kernel_client` of `cargo xtask test` boots a kernel in QEMU, without any program of Ceph's. On
6.1 (Debian 12) all of this passes: mapping an image in crc and in secure mode, ext4 on it, discard,
snapshots, clones, handing the exclusive lock over, capabilities, a split of placement groups under load,
and `kill -9` of the server under writes.

Kernels speak the protocol msgr2 from 5.11 on. Older ones can't connect. Newer ones ask for the old protocol
unless a mode is named: `rbd map -o ms_mode=prefer-crc` (or `crc`, `prefer-secure`, `secure`), or
`rbd_default_map_options` in the configuration.
";

const WHY: &str = "Why cases fail or are left out";
/// Headings that are no section of a run.
const OWN: [&str; 4] = ["Summary", "How to read this page", "Linux kernel clients", WHY];
/// What a line of a section says of cases, and how the section refers to lines that stand above.
const SAID: [(&str, &str); 2] = [("left out", "Left out:"), ("failed", "Failed:")];
/// Suites whose cases are few, and say what was done.
const FEW_CASES: [&str; 4] = [super::model::NAME, super::mirror::NAME, super::multisite::NAME, super::shares::NFS];
/// The end of the name of a section that has nothing of ours.
pub const ON_STOCK: &str = ", on stock";
/// Columns after which a line of a list goes on in the next.
const WIDTH: usize = 104;

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
        if FEW_CASES.iter().any(|suite| run.section.starts_with(suite)) && o.passed() > 0 {
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

/// Puts the run's section into its suite's page below `root`, in place of an older one of the same name.
pub fn write(root: &Path, run: &Run) -> Result<()> {
    let mut sections = parse(&read(root)?);
    sections.insert(run.section.clone(), format!("{}\n", section(run).trim()));
    put(root, &sections)
}

/// The same pages in this program's form.
pub fn rewrite(root: &Path) -> Result<()> {
    put(root, &parse(&read(root)?))
}

/// The pages that are there: by their paths below `root`, their texts.
fn read(root: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut pages = BTreeMap::from([(PathBuf::from(MAIN), std::fs::read_to_string(root.join(MAIN)).unwrap_or_default())]);
    for entry in std::fs::read_dir(root.join(RUNS)).into_iter().flatten() {
        let path = Path::new(RUNS).join(entry?.file_name());
        pages.insert(path.clone(), std::fs::read_to_string(root.join(&path)).with_context(|| path.display().to_string())?);
    }
    Ok(pages)
}

fn put(root: &Path, sections: &BTreeMap<String, String>) -> Result<()> {
    std::fs::create_dir_all(root.join(RUNS))?;
    for (path, text) in render(sections) {
        std::fs::write(root.join(&path), text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// The suite that a section is of.
fn suite_of(section: &str) -> &str {
    section.split(" with ").next().unwrap_or(section)
}

/// The path of a suite's page.
fn page_of(suite: &str) -> PathBuf {
    Path::new(RUNS).join(format!("{suite}.md"))
}

/// What a line of a section says of cases of one program: which of `SAID`, the program, the cases, the reason.
fn said(line: &str) -> Option<(&'static str, &str, &str, &str)> {
    let line = line.strip_prefix("- ")?;
    SAID.iter().find_map(|(what, _)| {
        let (program, rest) = line.split_once(&format!(", {what}: "))?;
        let (cases, reason) = rest.split_once(": ")?;
        Some((*what, program, cases, reason.trim_end_matches('.')))
    })
}

/// The line that `said` reads.
fn line_of(what: &str, program: &str, cases: &str, reason: &str) -> String {
    format!("- {program}, {what}: {cases}: {reason}{}", if what == "failed" { "" } else { "." })
}

/// Cases that are left out are counted where they are many; the number of each check that failed is kept.
fn shorten(line: &str) -> String {
    const FEW: usize = 3;
    let Some((what, program, cases, reason)) = said(line) else { return line.to_string() };
    let separator = if what == "failed" { ':' } else { '.' };
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for case in cases.split(", ") {
        let (group, name) = case.split_once(separator).unwrap_or((case, ""));
        match groups.last_mut() {
            Some((last, names)) if *last == group => names.push(name),
            _ => groups.push((group, vec![name])),
        }
    }
    let shown = groups.iter().map(|(group, names)| match (what, &names[..]) {
        (_, [""]) => (*group).to_string(),
        ("failed", names) if names.len() > FEW => format!("{group}:{}", names.join(",")),
        (_, names) if names.len() > FEW => format!("{} cases of {group}", names.len()),
        (_, names) => names.iter().map(|name| format!("{group}{separator}{name}")).collect::<Vec<_>>().join(", "),
    });
    line_of(what, program, &shown.collect::<Vec<_>>().join(", "), reason)
}

/// An item of a list over several lines, each but the first indented.
fn wrap(line: &str) -> String {
    if !line.starts_with("- ") {
        return line.to_string();
    }
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last_mut().expect("there is one");
        match () {
            () if last.is_empty() => last.push_str(word),
            () if last.chars().count() + 1 + word.chars().count() > WIDTH => lines.push(format!("  {word}")),
            () => last.extend([" ", word]),
        }
    }
    lines.join("\n")
}

/// Each item of a list in one line again.
fn unwrap(text: &str) -> String {
    text.replace("\n  ", " ")
}

/// Sections by name, each with its lines on cases written in full.
fn parse(pages: &BTreeMap<PathBuf, String>) -> BTreeMap<String, String> {
    let pages: Vec<String> = pages.values().map(|text| unwrap(text)).collect();
    let parts = || pages.iter().flat_map(|text| text.split("\n## ").skip(1)).map(|part| part.split_once('\n').unwrap_or((part, "")));
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    for (_, body) in parts().filter(|(name, _)| *name == WHY) {
        let (mut what, mut reason) = ("", "");
        for line in body.lines() {
            if let Some(heading) = line.strip_prefix("### ") {
                let label = |(_, label): &&(&str, &str)| heading.starts_with(*label);
                (what, reason) = SAID.iter().find(label).map_or(("", ""), |(what, label)| (*what, heading[label.len()..].trim()));
            }
            if let Some(((number, program), cases)) =
                line.strip_prefix("- [").and_then(|l| l.split_once(": ")).and_then(|(head, cases)| Some((head.split_once("] ")?, cases)))
            {
                known.insert(number, line_of(what, program, cases, reason));
            }
        }
    }
    let whole = |line: &str| match SAID.iter().find_map(|(_, label)| line.strip_prefix(label)) {
        Some(numbers) => {
            let lines = numbers.split_whitespace().filter_map(|n| known.get(n.trim_matches(['[', ']'])).cloned());
            lines.collect::<Vec<_>>().join("\n")
        }
        None => line.to_string(),
    };
    let own = |(name, body): (&str, &str)| {
        (name.trim().to_string(), format!("{}\n", body.trim().lines().map(whole).collect::<Vec<_>>().join("\n")))
    };
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
    const WAYS: [&str; 5] = ["", ", block store", ", among stock daemons", ", among stock daemons, block store", ON_STOCK];
    // One OSD with this store, the other with that.
    const BOTH: &str = ", among stock daemons, both stores";
    let mut rows: BTreeMap<&str, [Option<String>; 5]> = BTreeMap::new();
    for (name, body) in sections {
        if let Some(suite) = name.strip_suffix(BOTH) {
            let row = rows.entry(suite).or_default();
            for cell in &mut row[2..4] {
                *cell = cell.take().or_else(|| passed_of_run(body).map(|passed| format!("{passed}, mixed")));
            }
            continue;
        }
        let longest = |way: &usize| if name.ends_with(WAYS[*way]) { WAYS[*way].len() + 1 } else { 0 };
        let way = (0..WAYS.len()).max_by_key(longest).expect("there are ways");
        rows.entry(name.strip_suffix(WAYS[way]).expect("each name ends with nothing, at least")).or_default()[way] = passed_of_run(body);
    }
    let mut text = "\n## Summary\n\nCases that passed, of those that ran.\n\n".to_string();
    text +=
        "| suite | memory store | block store | memory store, among stock daemons | block store, among stock daemons | stock itself |\n";
    text += "|---|---|---|---|---|---|\n";
    for (name, cells) in rows {
        let _ = writeln!(text, "| {name} | {} |", cells.map(|cell| cell.unwrap_or_else(|| "–".into())).join(" | "));
    }
    text
}

/// Links to the pages of the runs.
fn contents(sections: &BTreeMap<String, String>) -> String {
    let suites: std::collections::BTreeSet<&str> = sections.keys().map(|name| suite_of(name)).collect();
    let links: Vec<String> = suites.into_iter().map(|suite| format!("[{suite}]({})", page_of(suite).display())).collect();
    format!("\nThe runs, program by program: {}.\n", links.join(", "))
}

/// The pages: one with a summary and each reason once, and one for the sections of each suite.
fn render(sections: &BTreeMap<String, String>) -> BTreeMap<PathBuf, String> {
    let mut text = HEAD.to_string();
    text += &summary(sections);
    text += &contents(sections);
    text += NOTES;
    text += KERNELS;
    let sections: BTreeMap<&String, String> =
        sections.iter().map(|(name, body)| (name, body.lines().map(shorten).collect::<Vec<_>>().join("\n"))).collect();
    // What failed in one section of ours alone stands there; and in that of stock's beside it, which says nothing new of ours.
    let of_ours = || sections.iter().filter(|(name, _)| !name.ends_with(ON_STOCK));
    let times = |line: &str| of_ours().filter(|(_, body)| body.lines().any(|l| l == line)).count();
    let mut reasons: BTreeMap<(usize, &str), BTreeMap<&str, usize>> = BTreeMap::new();
    for line in sections.values().flat_map(|body| body.lines()) {
        if let Some((what, _, _, reason)) = said(line)
            && (what != "failed" || times(line) > 1)
        {
            let order = SAID.iter().position(|(w, _)| *w == what).expect("it is one of them");
            reasons.entry((order, reason)).or_default().insert(line, 0);
        }
    }
    let _ = write!(text, "\n## {WHY}\n");
    let mut number = 0;
    for ((order, reason), lines) in &mut reasons {
        let _ = write!(text, "\n### {} {reason}\n\n", SAID[*order].1);
        for (line, own) in lines.iter_mut() {
            number += 1;
            *own = number;
            let (_, program, cases, _) = said(line).expect("it was one");
            let _ = writeln!(text, "{}", wrap(&format!("- [{number}] {program}: {cases}")));
        }
    }
    let number_of = |line: &str, label: usize| said(line).and_then(|(_, _, _, reason)| reasons.get(&(label, reason))?.get(line).copied());
    let mut pages = BTreeMap::from([(PathBuf::from(MAIN), text)]);
    for (name, body) in &sections {
        let suite = suite_of(name);
        let text = pages.entry(page_of(suite)).or_insert_with(|| {
            format!(
                "# Runs of suite {suite}\n\nNumbers in brackets are those of [COMPATIBILITY.md](../../COMPATIBILITY.md#{}).\n",
                anchor(WHY)
            )
        });
        let stands_above = |line: &str| (0..SAID.len()).any(|label| number_of(line, label).is_some());
        let others: Vec<String> = body.lines().filter(|line| !stands_above(line)).map(wrap).collect();
        let _ = write!(text, "\n## {name}\n\n{}\n", others.join("\n").trim());
        for (label, (_, words)) in SAID.iter().enumerate() {
            let numbers: Vec<String> = body.lines().filter_map(|line| number_of(line, label)).map(|n| format!("[{n}]")).collect();
            if !numbers.is_empty() {
                let _ = write!(text, "\n{words} {}\n", numbers.join(" "));
            }
        }
    }
    pages
}

/// A heading as links name it.
fn anchor(heading: &str) -> String {
    heading.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_stands_once_and_nothing_is_lost() {
        let row = "2 of 4 cases passed, 0 failed, 0 skipped, 2 left out, in 1 s.";
        let body = format!("{row}\n\n- `p`, left out: a, b: it is not there.\n- `q`, passed: x: 1.\n");
        let sections: BTreeMap<String, String> =
            [("one", &body), ("two", &body)].map(|(name, body)| (name.to_string(), body.clone())).into();
        let pages = render(&sections);
        let all = pages.values().map(String::as_str).collect::<String>();
        assert_eq!(all.matches("it is not there").count(), 1, "{all}");
        let (main, one) = (&pages[Path::new(MAIN)], &pages[&page_of("one")]);
        assert!(main.contains("| one | 2 of 2 | – | – | – | – |") && main.contains("[two](docs/conformance/two.md)"), "{main}");
        assert!(one.contains("\n## one\n") && one.contains("Left out: [1]") && !one.contains("\n## two\n"), "{one}");
        let lines = |body: &str| body.lines().filter(|l| !l.is_empty()).map(String::from).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(lines(&parse(&pages)["one"]), lines(&body));
        assert_eq!(render(&parse(&pages)), pages);
    }

    #[test]
    fn what_fails_everywhere_stands_once_and_many_cases_are_counted() {
        let left_out = "- `p`, left out: A.a, A.b, A.c, A.d, B.e: it is not there.";
        let failed = "- `p`, failed: f/00:24, open/06:1, open/06:2, open/06:3, open/06:4: stock fails: the same.";
        let body = format!("1 of 1 cases passed, 0 failed, 0 skipped, 0 left out, in 1 s.\n\n{left_out}\n{failed}\n");
        let once = "- `q`, failed: x:1: only here";
        let sections: BTreeMap<String, String> = [("one".into(), body.clone()), ("two".into(), format!("{body}{once}\n"))].into();
        let pages = render(&sections);
        let all = pages.values().map(String::as_str).collect::<String>();
        assert_eq!(all.matches("stock fails: the same").count(), 1, "{all}");
        assert!(all.contains("`p`: 4 cases of A, B.e") && all.contains("`p`: f/00:24, open/06:1,2,3,4"), "{all}");
        let two = &pages[&page_of("two")];
        assert!(two.contains(once) && two.contains("Left out: [1]") && two.contains("Failed: [2]"), "{two}");
        assert_eq!(render(&parse(&pages)), pages);
    }

    #[test]
    fn what_fails_here_and_on_stock_stands_beside_both() {
        let body = "0 of 1 cases passed, 1 failed, 0 skipped, 0 left out, in 1 s.\n\n- `q`, failed: x:1: fails on stock too\n";
        let sections: BTreeMap<String, String> =
            ["one with 20.2", "one with 20.2, on stock"].map(|name| (name.to_string(), body.to_string())).into();
        let pages = render(&sections);
        assert!(!pages[Path::new(MAIN)].contains("fails on stock too"), "{pages:?}");
        assert_eq!(pages[&page_of("one")].matches("- `q`, failed: x:1: fails on stock too").count(), 2, "{pages:?}");
        assert_eq!(render(&parse(&pages)), pages);
    }

    #[test]
    fn a_long_line_is_wrapped_and_whole_again() {
        let line = format!("- `p`, passed: {}.", vec!["mix of 10 operations;"; 30].join(" "));
        let wrapped = wrap(&line);
        assert!(wrapped.lines().count() > 5 && wrapped.lines().all(|l| l.chars().count() <= WIDTH), "{wrapped}");
        assert_eq!(unwrap(&wrapped), line);
    }

    #[test]
    fn the_ways_of_a_suite_share_a_row() {
        let body = |failed: usize| format!("{} of 9 cases passed, {failed} failed, 1 skipped, 1 left out, in 1 s.\n", 7 - failed);
        let names = ["cls with 18.2", "cls with 18.2, block store", "cls with 18.2, among stock daemons, block store"];
        let sections: BTreeMap<String, String> = names.iter().zip(1..).map(|(name, n)| ((*name).to_string(), body(n))).collect();
        assert!(summary(&sections).ends_with("| cls with 18.2 | 6 of 7 | 5 of 7 | – | 4 of 7 | – |\n"), "{}", summary(&sections));
        let both = BTreeMap::from([("cls with 18.2, among stock daemons, both stores".to_string(), body(1))]);
        let sections = both.into_iter().chain(sections).collect();
        assert!(
            summary(&sections).ends_with("| cls with 18.2 | 6 of 7 | 5 of 7 | 6 of 7, mixed | 4 of 7 | – |\n"),
            "{}",
            summary(&sections)
        );
    }

    #[test]
    fn the_pages_have_this_form_and_the_first_is_short() {
        let root = crate::run::root();
        let pages = read(&root).unwrap();
        assert!(
            render(&parse(&pages)) == pages,
            "COMPATIBILITY.md or docs/conformance is not in its form: cargo xtask conformance --rewrite"
        );
        assert!(pages.len() > 10 && pages[Path::new(MAIN)].len() < 10_000, "the runs have pages of their own");
    }
}
