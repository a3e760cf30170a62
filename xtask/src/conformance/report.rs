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

What upstream's own test programs say of Humboldt: each section is one suite of one release's `ceph-test` package against a fresh
`humboldt up` (one OSD, memory store unless said, cephx), or \"among stock daemons\": against two OSDs of Humboldt under three stock monitors
of 18.2 and a stock manager of 16.2, all in secure mode. Written by `cargo xtask conformance [rados|cls|rbd|luks|model|rgw|cephfs] [--release R]
[--features N] [--store S] [--among-stock]`; not by hand. Suite `luks` is what suite `rbd` leaves of its program: the cases of encrypted images. Suite `model` has the random workloads that check
themselves: each run of one is a case.
Suites `rgw` and `s3` are about stock radosgw of 18.2 (s3-tests: upstream's own selection, of which stock 18.2 passes 557 of 566), `cephfs`, `posix` and `workunits` about
stock ceph-mds of 18.2; the sources of s3-tests, pjdfstest, fsx and workunits are given by `--s3-tests`, `--pjdfstest`, `--xfstests` and `--ceph-source`.
\"Skipped\" cases are those that the program itself does not run here. \"Unsettled\" cases failed and then passed alone on a fresh cluster.

Linux kernel clients (krbd) are a case of `cargo xtask test`, `linux_kernel_client`, in QEMU without any program of Ceph's:

| kernel | map, crc | map, secure | ext4 | discard | snapshot | clone | lock hand-over | capabilities | split under load | kill -9 under writes |
|---|---|---|---|---|---|---|---|---|---|---|
| 6.1 (Debian 12) | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ |

Kernels speak msgr2 from 5.11 on, and older ones can't connect. They ask for msgr1 unless a mode is named: `rbd map -o ms_mode=prefer-crc` (or `crc`,
`prefer-secure`, `secure`), or `rbd_default_map_options` in the configuration.
";

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
    let old = std::fs::read_to_string(path).unwrap_or_default();
    let mut sections: BTreeMap<String, String> = BTreeMap::new();
    for part in old.split("\n## ").skip(1) {
        let (name, body) = part.split_once('\n').unwrap_or((part, ""));
        sections.insert(name.trim().into(), format!("{}\n", body.trim()));
    }
    sections.insert(run.section.clone(), section(run));
    let mut text = HEAD.to_string();
    for (name, body) in &sections {
        let _ = write!(text, "\n## {name}\n\n{body}");
    }
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
