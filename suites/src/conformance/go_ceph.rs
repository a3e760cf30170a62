//! The tests of go-ceph, the Go bindings, with a release's librados, librbd and libradosstriper.
//!
//! They are a checkout that is given (`--go-ceph DIR`: repository `ceph/go-ceph`, in which `go mod vendor` has run: nothing is fetched here), built in
//! the release's chroot. Tests of packages that need a manager's modules or a second cluster are not run.

use super::gtest::Verdict;
use super::kept::{Files, names};
use super::program::Outcome;
use super::runs::Runs;
use super::server::Server;
use super::{Manner, Run};
use crate::clients::{Release, go};
use crate::run::{quietly, run};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub const NAME: &str = "go-ceph";
const PACKAGES: [&str; 3] = ["rados", "rados/striper", "rbd"];
const BUILD: Duration = Duration::from_secs(1800);
const LIMIT: Duration = Duration::from_secs(1800);
/// What was built is kept in the chroot.
const BUILT: &str = "/var/cache/humboldt-go-build";

/// The reason, if that test fails on our cluster.
fn expected(package: &str, case: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(of, names, _)| *of == package && names.split(' ').any(|name| case == name)).map(|(_, _, why)| *why)
}

const KNOWN: &[(&str, &str, &str)] = &[(
    "rados",
    "TestRadosTestSuite TestRadosTestSuite/TestMgrCommand TestRadosTestSuite/TestMgrCommandWithInputBuffer",
    "asks modules of the manager, which a stock manager has",
)];

/// How each test ended, by what `-test.v` prints; and, of those that failed, the first error.
fn read(out: &str) -> BTreeMap<String, Verdict> {
    let (mut found, mut errors, mut current) = (BTreeMap::new(), BTreeMap::<String, String>::new(), String::new());
    for line in out.lines().map(str::trim) {
        let begins = ["=== RUN ", "=== CONT ", "=== NAME "].iter().find_map(|mark| line.strip_prefix(mark));
        if let Some(name) = begins {
            current = name.trim().to_string();
            let unfinished = || Verdict::Failed("it did not end".into());
            if line.starts_with("=== RUN") {
                found.entry(current.clone()).or_insert_with(unfinished);
            }
        } else if let Some(error) = line.strip_prefix("Error:").or_else(|| line.strip_prefix("panic:")) {
            errors.entry(current.clone()).or_insert_with(|| error.trim().to_string());
        } else if let Some(rest) = line.strip_prefix("--- ") {
            let Some((verdict, name)) = rest.split_once(": ") else { continue };
            let name = name.split(" (").next().unwrap_or_default().to_string();
            let verdict = match verdict {
                "PASS" => Verdict::Passed,
                "SKIP" => Verdict::Skipped,
                _ => Verdict::Failed(errors.get(&name).cloned().unwrap_or_else(|| "failed".into())),
            };
            found.insert(name, verdict);
        }
    }
    found
}

fn package(release: Release, manner: Manner, server: &Server, package: &str) -> Result<Outcome> {
    let mut runs = Runs::new(package);
    let dir = server.dir().join("go-ceph");
    let script = format!(
        "cd {} && go test -c -mod=vendor -buildvcs=false -tags {},ceph_preview -o /tmp/go-ceph.test ./{package}",
        dir.display(),
        if release == Release::Tentacle { "tentacle" } else { "reef" }
    );
    let mut build = release.command(server.conf(), "/bin/sh");
    build.args(["-c", &script]).env("GOCACHE", BUILT).env("HOME", "/root").env("GOTOOLCHAIN", "local").env("GOFLAGS", "-mod=vendor");
    build.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("TMPDIR", "/tmp");
    let out = run(&mut build, BUILD)?;
    ensure!(out.ok(), "building {package}: {}{}", out.stdout, out.stderr);
    let mut tests = release.command(server.conf(), "/bin/sh");
    tests.args(["-c", &format!("cd {}/{package} && /tmp/go-ceph.test -test.v -test.timeout 15m", dir.display())]);
    let out = run(&mut tests, LIMIT)?;
    let found = read(&out.stdout);
    ensure!(found.len() > 1, "{package} ran nothing; it ended with {}:\n{}{}", out.code, out.stdout, out.stderr);
    if manner.stock.is_none() {
        runs.outcome.expected = found.keys().filter_map(|name| Some((name.clone(), expected(package, name)?))).collect();
        runs.outcome.must_fail = runs.outcome.expected.keys().cloned().collect();
    }
    if found.iter().any(|(name, verdict)| matches!(verdict, Verdict::Failed(_)) && !runs.outcome.expected.contains_key(name)) {
        println!("    {package} failed; kept in {}", names(&Files::new(package)?.keep("go test", &out)?));
    }
    runs.outcome.cases = found;
    let outcome = runs.end();
    println!("{} {}", release.version(), outcome.line());
    for text in outcome.unexpected() {
        println!("    {text}");
    }
    Ok(outcome)
}

/// All of them against one cluster.
pub fn go_ceph(release: Release, manner: Manner, checkout: &Path) -> Result<Run> {
    ensure!(checkout.join("rados").is_dir(), "{} is no checkout of ceph/go-ceph: it has no rados", checkout.display());
    ensure!(checkout.join("vendor").is_dir(), "{} has no folder `vendor`: run `go mod vendor` there first", checkout.display());
    go(release)?;
    let started = Instant::now();
    let mut server = Server::start(&format!("conformance-{NAME}-{}", std::process::id()), manner, None)?;
    // Where the chroot sees it.
    quietly(Command::new("cp").arg("-r").arg(checkout).arg(server.dir().join("go-ceph"))).context("copying the checkout")?;
    let mut outcomes = Vec::new();
    for name in PACKAGES {
        outcomes.push(package(release, manner, &server, name)?);
        server.stands(name)?;
    }
    server.stop()?;
    Ok(Run { section: manner.section(NAME, release), outcomes, took: started.elapsed() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_says_is_read() {
        let out = "\
=== RUN   TestA
--- PASS: TestA (0.01s)
=== RUN   TestB
=== RUN   TestB/first
=== RUN   TestB/second
    x_test.go:1: 
        	Error Trace:	x_test.go:1
        	Error:      	Not equal
--- FAIL: TestB (0.10s)
    --- PASS: TestB/first (0.00s)
    --- FAIL: TestB/second (0.00s)
=== RUN   TestC
    c_test.go:2: no
--- SKIP: TestC (0.00s)
=== RUN   TestD
";
        let failed = |why: &str| Verdict::Failed(why.into());
        let due = [
            ("TestA", Verdict::Passed),
            ("TestB", failed("failed")),
            ("TestB/first", Verdict::Passed),
            ("TestB/second", failed("Not equal")),
            ("TestC", Verdict::Skipped),
            ("TestD", failed("it did not end")),
        ];
        assert_eq!(read(out), due.map(|(name, verdict)| (name.to_string(), verdict)).into());
    }
}
