//! Upstream's shell tests of the tool `rbd`, with a release's own.
//!
//! They are given with Ceph's source (`--ceph-source DIR`, unpacked, of that release). The functions of `cli_generic.sh` are a case each: each removes
//! what it made. Those of them that ask the manager's module `rbd_support` run where a stock manager is.

use super::program::Outcome;
use super::runs::Runs;
use super::server::Server;
use super::{Manner, Run};
use crate::clients::{Release, rbd_shell_tests};
use crate::run::{Output, quietly, run};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub const NAME: &str = "workunits-rbd";
const LIMIT: Duration = Duration::from_secs(1200);

/// Scripts below `qa/workunits/rbd` that need neither a kernel's client nor what no package has.
const SCRIPTS: &[&str] = &[
    "cli_migration.sh",
    "diff.sh",
    "import_export.sh",
    "journal.sh",
    "rbd_groups.sh",
    "read-flags.sh",
    "test_lock_fence.sh",
    "verify_pool.sh",
];
/// Words in the names of functions that need the module.
const OF_MODULE: &[&str] = &["schedule", "perf_image", "tasks"];
const WHY_LEFT_OUT: &str = "it asks the manager's module `rbd_support`, which a stock manager has";

/// A line of bash in an empty folder of the cluster's.
fn bash(release: Release, server: &Server, line: &str) -> Result<Output> {
    let at = server.dir().join("cwd");
    std::fs::create_dir_all(&at)?;
    let mut cmd = release.command(server.conf(), "bash");
    // A folder of this machine's own is none in the chroot.
    cmd.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("TMPDIR", "/tmp");
    run(cmd.args(["-c", &format!("cd {} && {line}", at.display())]), LIMIT)
}

fn note(runs: &mut Runs, case: &str, started: Instant, out: &Output) {
    let last = || out.stderr.lines().chain(out.stdout.lines()).next_back().unwrap_or_default().to_string();
    let command = || out.stderr.lines().rev().find(|line| line.starts_with('+')).unwrap_or_default().to_string();
    let against = (!out.ok()).then(|| format!("it ended with {}: {}; after `{}`", out.code, last(), command()));
    runs.add(case.into(), started.elapsed(), against, out);
}

/// The functions that a script calls at its end, in order, each once for each value of `RBD_CREATE_ARGS` before it.
fn calls(script: &str) -> Vec<(String, String)> {
    let (mut found, mut args) = (Vec::new(), String::from("RBD_CREATE_ARGS="));
    for line in script.lines() {
        if line.starts_with("RBD_CREATE_ARGS=") {
            args = line.to_string();
        } else if line.starts_with("test_") && line.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit()) {
            found.push((line.to_string(), args.clone()));
        }
    }
    found
}

fn cli_generic(release: Release, manner: Manner, server: &Server, scripts: &Path) -> Result<Outcome> {
    let mut runs = Runs::new("cli_generic.sh");
    let path = scripts.join("cli_generic.sh");
    let script = std::fs::read_to_string(&path).context("cli_generic.sh")?;
    let all = calls(&script);
    ensure!(all.len() > 10, "cli_generic.sh calls {} functions", all.len());
    // The same without the calls.
    let body: Vec<&str> = script.lines().filter(|line| !all.iter().any(|(call, _)| call == line) && *line != "echo OK").collect();
    // In its place: it finds others by its own name.
    let one = scripts.join("cli_generic.one.sh");
    for (call, args) in all {
        let case = if args.ends_with("2\"") { format!("{call}, format 2") } else { call.clone() };
        if OF_MODULE.iter().any(|word| call.contains(word)) && manner.stock.is_none() {
            runs.outcome.left_out.insert(case, WHY_LEFT_OUT);
            continue;
        }
        std::fs::write(&one, format!("{}\n{args}\n{call}\n", body.join("\n")))?;
        empty_pool(release, server)?;
        let started = Instant::now();
        let out = bash(release, server, &format!("bash {}", one.display()))?;
        note(&mut runs, &case, started, &out);
    }
    Ok(runs.end())
}

/// The pool that each script wants empty: what failed before leaves images.
fn empty_pool(release: Release, server: &Server) -> Result<()> {
    server.must(release, "ceph osd pool rm rbd rbd --yes-i-really-really-mean-it")?;
    server.must(release, "ceph osd pool create rbd 8")?;
    server.must(release, "rbd pool init rbd").map(drop)
}

fn scripts(release: Release, server: &Server, scripts: &Path) -> Result<Outcome> {
    let mut runs = Runs::new("qa/workunits/rbd");
    for script in SCRIPTS {
        empty_pool(release, server)?;
        let started = Instant::now();
        let out = bash(release, server, &format!("bash {}", scripts.join(script).display()))?;
        note(&mut runs, script, started, &out);
    }
    Ok(runs.end())
}

/// All of them against one cluster.
pub fn workunits_rbd(release: Release, manner: Manner, source: &Path) -> Result<Run> {
    ensure!(source.join("qa/workunits/rbd").is_dir(), "{} is no unpacked source of Ceph: it has no qa/workunits/rbd", source.display());
    rbd_shell_tests(release)?;
    let started = Instant::now();
    let mut server = Server::start(&format!("conformance-{NAME}-{}", std::process::id()), manner, None)?;
    // Where the chroot sees it; scripts name each other by their places in the source.
    let copy = server.dir().join("source");
    for part in ["qa/workunits/rbd", "qa/standalone", "src/test/librbd", "src/test/pybind"] {
        let to: PathBuf = copy.join(part);
        std::fs::create_dir_all(to.parent().context("below the source")?)?;
        quietly(Command::new("cp").arg("-r").arg(source.join(part)).arg(&to))?;
    }
    server.must(release, "ceph osd pool create rbd 8")?;
    let at = copy.join("qa/workunits/rbd");
    let outcomes = vec![cli_generic(release, manner, &server, &at)?, scripts(release, &server, &at)?];
    server.stands(NAME)?;
    server.stop()?;
    Ok(Run { section: manner.section(NAME, release), outcomes, took: started.elapsed() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_a_script_are_found() {
        let script =
            "test_a() {\n    test_b\n}\ntest_a\nRBD_CREATE_ARGS=\"\"\ntest_b\nRBD_CREATE_ARGS=\"--image-format 2\"\ntest_b\necho OK\n";
        let found: Vec<String> = calls(script).into_iter().map(|(call, args)| format!("{args} {call}")).collect();
        assert_eq!(found, ["RBD_CREATE_ARGS= test_a", "RBD_CREATE_ARGS=\"\" test_b", "RBD_CREATE_ARGS=\"--image-format 2\" test_b"]);
    }
}
