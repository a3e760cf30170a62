//! `cargo xtask arm64`: the program for arm64 is built by cross compilation, and tried under emulation: the unit tests of crates that
//! know no kernel, and one small cluster.
//!
//! Absent: its packages (`cargo xtask release --arch arm64`), and any figure: emulation says nothing of speed.

use crate::arch::Arch;
use crate::release;
use anyhow::{Context, Result, ensure};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use suites::clients::Release;
use suites::cluster::{Cluster, target};
use suites::folders;
use suites::run::{must, root, run};

/// Crates that compute alone: bytes, placement, classes of objects, the memory store.
const CRATES: [&str; 7] = ["base", "denc", "types", "crush", "msgr", "classes", "store-mem"];

/// Builds and tries it.
pub fn arm64() -> Result<()> {
    let arch = Arch::Arm64;
    arch.install()?;
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root()).args(["test", "--locked", "--lib", "--tests"]).args(CRATES.iter().flat_map(|name| ["--package", name]));
    cargo.env("CARGO_TARGET_DIR", target().join("arm64"));
    arch.prepare(&mut cargo);
    must(&mut cargo).context("unit tests under emulation")?;
    let program = release::program(arch, "static")?;
    let kind = run(arch.tool("readelf").arg("-h").arg(&program), Duration::from_secs(30))?;
    ensure!(kind.ok() && kind.stdout.contains("AArch64"), "{}: {kind:?}", program.display());
    serves(arch, &program)
}

/// A cluster under emulation takes an object of a stock client and gives it back. Its OSD is in memory: QEMU has no io_uring.
fn serves(arch: Arch, program: &Path) -> Result<()> {
    let dir = folders::fresh("arm64")?;
    // A cluster is started as one program.
    let script = dir.join("humboldt");
    let line = arch.command(program);
    let words = [line.get_program()].into_iter().chain(line.get_args()).map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>();
    fs::write(&script, format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" ")))?;
    fs::set_permissions(&script, Permissions::from_mode(0o755))?;
    let release = Release::Pacific;
    release.install()?;
    let cluster = Cluster::start_program(&script, dir.join("data"), &["--store", "mem"])?;
    let (sent, back) = (root().join("README.md"), dir.join("back"));
    cluster.must(release, "ceph osd pool create p 8")?;
    cluster.must(release, &format!("rados -p p put a {}", sent.display()))?;
    cluster.must(release, &format!("rados -p p get a {}", back.display()))?;
    ensure!(fs::read(&sent)? == fs::read(&back)?, "the object came back changed");
    cluster.must(release, "ceph tell osd.0 bench 1048576 4096")?;
    let health = cluster.must(release, "ceph health")?;
    println!("arm64: the unit tests of {} pass; a cluster serves {}: {}", CRATES.join(", "), release.version(), health.trim());
    cluster.stop()
}
