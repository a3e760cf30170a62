//! Upstream's tests of the Python bindings of librados, librbd and libcephfs, with a release's own bindings.
//!
//! They are given with Ceph's source (`--ceph-source DIR`, unpacked, of that release). Those of files run with a stock ceph-mds, as root.

use super::gtest::Verdict;
use super::kept::{Files, names};
use super::program::Outcome;
use super::pytest;
use super::runs::Runs;
use super::server::Server;
use super::{Manner, Run};
use crate::clients::{Release, python_tests};
use crate::run::{quietly, run};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub const NAME: &str = "python";
const LIMIT: Duration = Duration::from_secs(1800);

/// A file of tests, and the features of the images that it makes.
const FILES: [(&str, Option<&str>); 4] =
    [("test_rados.py", None), ("test_rbd.py", Some("61")), ("test_rbd.py", Some("125")), ("test_cephfs.py", None)];

/// The reason, if that test fails on our cluster.
fn expected(case: &str) -> Option<&'static str> {
    case.starts_with("TestIoctxEc.").then_some("pools with erasure codes are not there yet")
}

fn tests(release: Release, manner: Manner, server: &Server, file: &str, features: Option<&str>) -> Result<Outcome> {
    let program = features.map_or(file.to_string(), |features| format!("{file}, RBD_FEATURES={features}"));
    let mut runs = Runs::new(&program);
    let mut cmd = release.command(server.conf(), "/usr/bin/python3");
    cmd.args(["-m", "pytest"]).args(pytest::SAY).arg(server.dir().join("pybind").join(file));
    cmd.env("PYTHONDONTWRITEBYTECODE", "1").envs(features.map(|features| ("RBD_FEATURES", features)));
    let out = run(&mut cmd, LIMIT)?;
    let found = pytest::read(&out.stdout);
    ensure!(found.len() > 1 && out.code < 2, "pytest ended with {}:\n{}\n{}", out.code, pytest::last(&out), out.stderr);
    if manner.stock.is_none() {
        runs.outcome.expected = found.iter().filter_map(|(name, _)| Some((name.clone(), expected(name)?))).collect();
        runs.outcome.must_fail = runs.outcome.expected.keys().cloned().collect();
    }
    if found.iter().any(|(name, verdict)| matches!(verdict, Verdict::Failed(_)) && !runs.outcome.expected.contains_key(name)) {
        println!("    {program} failed; kept in {}", names(&Files::new(&program)?.keep("pytest", &out)?));
    }
    runs.outcome.cases = found.into_iter().collect();
    let outcome = runs.end();
    println!("{} {}", release.version(), outcome.line());
    for text in outcome.unexpected() {
        println!("    {text}");
    }
    Ok(outcome)
}

/// All of them against one cluster.
pub fn python(release: Release, manner: Manner, source: &Path) -> Result<Run> {
    let from = source.join("src/test/pybind");
    ensure!(from.join("test_rados.py").is_file(), "{} is no unpacked source of Ceph: it has no src/test/pybind", source.display());
    python_tests(release)?;
    let started = Instant::now();
    let mut server = Server::start(&format!("conformance-{NAME}-{}", std::process::id()), manner, Some(release))?;
    // Where the chroot sees it.
    quietly(Command::new("cp").arg("-r").arg(from).arg(server.dir().join("pybind")))?;
    // As upstream's own script has it.
    server.must(release, "ceph osd pool create rbd 8")?;
    let mut outcomes = Vec::new();
    for (file, features) in FILES {
        outcomes.push(tests(release, manner, &server, file, features)?);
        server.stands(file)?;
    }
    server.stop()?;
    Ok(Run { section: manner.section(NAME, release), outcomes, took: started.elapsed() })
}
