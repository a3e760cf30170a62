//! What a file system owes its callers: pjdfstest and fsx on a mount by stock ceph-fuse of 18.2, with a stock ceph-mds, on our OSDs.
//!
//! Both are sources that are given (`--pjdfstest DIR`: repository `pjd/pjdfstest`; `--xfstests DIR`: `kdave/xfstests`, of which fsx is one file) and
//! are built here. Each check of pjdfstest is a case.

use super::gtest::Verdict;
use super::kept::{Files, names};
use super::program::Outcome;
use super::runs::{Runs, against};
use super::server::Server;
use super::{Manner, Run};
use crate::clients::{Release, apt};
use crate::mds::Mount;
use crate::run::{quietly, run};
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub const NAME: &str = "posix";

const FSX_SEEDS: u32 = 5;
const FSX_OPS: u32 = 5000;
/// One script of pjdfstest; the longest has 2,353 checks.
const SCRIPT: Duration = Duration::from_secs(900);

/// What this machine's headers have of what pjdfstest asks for.
const PJD_HAS: &[&str] = &[
    "SYS_SYSMACROS_H",
    "FACCESSAT",
    "FCHMODAT",
    "FCHOWNAT",
    "FSTATAT",
    "LINKAT",
    "MKDIRAT",
    "MKFIFOAT",
    "MKNODAT",
    "OPENAT",
    "POSIX_FALLOCATE",
    "READLINKAT",
    "RENAMEAT",
    "SYMLINKAT",
    "UTIMENSAT",
    "STRUCT_STAT_ST_ATIM",
    "STRUCT_STAT_ST_CTIM",
    "STRUCT_STAT_ST_MTIM",
];
/// The same for fsx.
const FSX_HAS: &[&str] = &[
    "SYS_TYPES_H",
    "UNISTD_H",
    "FCNTL_H",
    "SYS_STAT_H",
    "STRINGS_H",
    "STRING_H",
    "SYS_STATVFS_H",
    "SYS_PARAM_H",
    "STDLIB_H",
    "ERRNO_H",
    "SYS_IOCTL_H",
    "SYS_WAIT_H",
    "MALLOC_H",
    "SYS_FILE_H",
    "LINUX_FALLOC_H",
    "FALLOCATE",
];

/// Checks that fail on a stock 18.2 cluster, too: the script, and which of its checks.
const FAIL_ON_STOCK: &[(&str, &[(u32, u32)], &str)] = &[
    ("ftruncate/00", &[(24, 24)], "stock 18.2 on stock OSDs fails the same check"),
    ("open/06", &[(78, 78), (82, 82), (86, 86), (88, 110)], "stock 18.2 on stock OSDs fails the same checks of FIFOs"),
    (
        "rename/09",
        &[(2266, 2269), (2271, 2276), (2279, 2279), (2281, 2281), (2286, 2289), (2291, 2296), (2299, 2299), (2301, 2301)],
        "stock 18.2 on stock OSDs fails the same checks of sticky directories",
    ),
    ("rename/24", &[(8, 8)], "stock 18.2 on stock OSDs fails the same check"),
    ("utimensat/09", &[(5, 5)], "stock 18.2 on stock OSDs fails the same check"),
];

/// Why a check fails on stock, too. `open/06` names every second one of its last.
fn fails_on_stock(script: &str, check: u32) -> Option<&'static str> {
    let (_, ranges, why) = FAIL_ON_STOCK.iter().find(|(name, ..)| *name == script)?;
    let (_, last) = ranges.iter().find(|(first, last)| (*first..=*last).contains(&check))?;
    (script != "open/06" || (last - check) % 2 == 0).then_some(why)
}

/// What a script in TAP said of each of its checks; those that it planned and did not come to have failed.
fn checks(out: &str) -> Vec<(u32, Result<(), String>)> {
    let mut found = Vec::new();
    let mut planned = 0;
    for line in out.lines() {
        if let Some(n) = line.strip_prefix("1..") {
            planned = n.trim().parse().unwrap_or(planned);
        }
        let (rest, good) = match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
            (Some(rest), _) => (rest, true),
            (_, Some(rest)) => (rest, false),
            _ => continue,
        };
        let (number, why) = rest.split_once(' ').unwrap_or((rest, ""));
        let Ok(number) = number.parse::<u32>() else { continue };
        // What its authors know not to hold counts as passed, as the tools that read TAP have it.
        let good = good || why.contains("# TODO");
        found.push((number, if good { Ok(()) } else { Err(why.trim_start_matches("- ").to_string()) }));
    }
    let missing = (1..=planned).filter(|n| found.iter().all(|(f, _)| f != n));
    let missing: Vec<_> = missing.map(|n| (n, Err("the script ended before it".into()))).collect();
    found.extend(missing);
    found
}

fn cc(cmd: &mut Command, has: &[&str], source: &Path, out: &Path) -> Result<()> {
    cmd.args(["-O1", "-w", "-D_GNU_SOURCE"]).args(has.iter().map(|name| format!("-DHAVE_{name}"))).arg(source).arg("-o").arg(out);
    quietly(cmd)
}

/// A copy of the checkout beside the cluster, with the program in it: its scripts look for it above themselves.
fn build_pjdfstest(server: &Server, checkout: &Path) -> Result<PathBuf> {
    ensure!(checkout.join("pjdfstest.c").exists(), "{} is no checkout of pjd/pjdfstest: it has no pjdfstest.c", checkout.display());
    let copy = server.dir().join("pjdfstest");
    quietly(Command::new("cp").arg("-r").arg(checkout).arg(&copy))?;
    std::fs::write(copy.join("config.h"), "")?;
    let out = copy.join("pjdfstest");
    cc(Command::new("cc").arg("-I").arg(&copy), PJD_HAS, &copy.join("pjdfstest.c"), &out)?;
    Ok(copy)
}

/// The scripts under a folder, in order, as `FOLDER/NAME`.
fn scripts(tests: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in std::fs::read_dir(tests)? {
        let folder = folder?.path();
        for script in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = script.path();
            let relative = path.strip_prefix(tests).expect("below it");
            found.extend((path.extension().is_some_and(|e| e == "t")).then(|| relative.with_extension("").display().to_string()));
        }
    }
    found.sort();
    Ok(found)
}

fn pjdfstest(server: &Server, mount: &Mount, checkout: &Path) -> Result<Outcome> {
    let mut runs = Runs::new("pjdfstest");
    let tests = build_pjdfstest(server, checkout)?.join("tests");
    let here = mount.outside.join("pjdfstest");
    std::fs::create_dir(&here)?;
    for script in scripts(&tests)? {
        let out = run(Command::new("sh").current_dir(&here).arg(tests.join(format!("{script}.t"))), SCRIPT)?;
        let found = checks(&out.stdout);
        ensure!(!found.is_empty() || out.stdout.contains("1..0"), "{script} checks nothing: {}{}", out.stdout, out.stderr);
        let mut surprise = false;
        for (number, result) in found {
            let case = format!("{script}:{number}");
            if let Some(why) = fails_on_stock(&script, number) {
                runs.outcome.expected.insert(case.clone(), why);
                runs.outcome.must_fail.insert(case.clone());
            } else {
                surprise |= result.is_err();
            }
            runs.outcome.cases.insert(case, result.map_or_else(Verdict::Failed, |()| Verdict::Passed));
        }
        if surprise {
            println!("    pjdfstest {script} failed; kept in {}", names(&Files::new("pjdfstest")?.keep(&script, &out)?));
        }
    }
    Ok(runs.end())
}

fn fsx(server: &Server, mount: &Mount, checkout: &Path) -> Result<Outcome> {
    let mut runs = Runs::new("fsx");
    let source = checkout.join("ltp/fsx.c");
    ensure!(source.exists(), "{} is no checkout of kdave/xfstests: it has no ltp/fsx.c", checkout.display());
    if !Path::new("/usr/include/xfs/xfs.h").exists() || !Path::new("/usr/include/libaio.h").exists() {
        apt(&["install", "-y", "-q", "--no-install-recommends", "xfslibs-dev", "libaio-dev", "liburing-dev"])?;
    }
    let made = server.dir().join("fsx");
    std::fs::create_dir(&made)?;
    // Its own build would have made this one; what it says is said below.
    std::fs::write(made.join("config.h"), "")?;
    let program = made.join("fsx");
    let mut cmd = Command::new("cc");
    cmd.args(["-include", "getopt.h", "-include", "assert.h", "-DAIO", "-DFALLOCATE", "-Wl,--no-as-needed", "-laio", "-I"]);
    cc(cmd.arg(&made).arg("-I").arg(checkout.join("src")), FSX_HAS, &source, &program)?;
    for seed in 1..=FSX_SEEDS {
        let started = Instant::now();
        let mut cmd = Command::new(&program);
        cmd.current_dir(&made).args(["-q", "-z", "-S", &seed.to_string(), "-N", &FSX_OPS.to_string(), "-l", "1048576"]);
        let out = run(cmd.arg(mount.outside.join(format!("fsx.{seed}"))), SCRIPT)?;
        let word = format!("All {FSX_OPS} operations completed A-OK!");
        runs.add(format!("seed {seed}, {FSX_OPS} operations"), started.elapsed(), against(&out, &word), &out);
    }
    Ok(runs.end())
}

/// Those of the two that are given, on one mount.
pub fn posix(manner: Manner, pjd: Option<&Path>, xfstests: Option<&Path>) -> Result<Run> {
    let started = Instant::now();
    let mut server = Server::start(&format!("conformance-{NAME}-{}", std::process::id()), manner, Some(Release::Reef))?;
    let mount = Mount::new(server.conf())?;
    let mut outcomes = Vec::new();
    if let Some(checkout) = pjd {
        outcomes.push(pjdfstest(&server, &mount, checkout)?);
    }
    if let Some(checkout) = xfstests {
        outcomes.push(fsx(&server, &mount, checkout)?);
    }
    drop(mount);
    server.stands(NAME)?;
    server.stop()?;
    Ok(Run { section: manner.section(NAME, Release::Reef), outcomes, took: started.elapsed() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tap_is_read() {
        let found = checks("1..5\nok 1\nnot ok 2 - tried 'x', expected 0, got EPERM\nnot ok 3 # TODO a known one\nnoise\nok 4 # skip\n");
        let bad: Vec<_> = found.iter().filter_map(|(n, r)| r.as_ref().err().map(|why| (*n, why.as_str()))).collect();
        assert_eq!(found.len(), 5);
        assert_eq!(bad, [(2, "tried 'x', expected 0, got EPERM"), (5, "the script ended before it")]);
    }

    #[test]
    fn forty_two_checks_fail_on_stock() {
        let all = FAIL_ON_STOCK.iter().flat_map(|(script, ..)| (1..3000).filter_map(|n| fails_on_stock(script, n)));
        assert_eq!(all.count(), 42);
        assert!(fails_on_stock("open/06", 88).is_some() && fails_on_stock("open/06", 89).is_none());
        assert!(fails_on_stock("chmod/00", 1).is_none());
    }
}
