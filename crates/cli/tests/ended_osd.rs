//! `humboldt up` with several OSDs goes on when one of them ends: it says so, starts it again, and the map shows it up.

mod up;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use up::{Errors, How, Up, fresh, is_gone, signal, wait_for};

const HOW: How = How { ready: "ready in", is_read: true, errors: Errors::Kept, by_term: true };

/// Writes to every group: each is there only if its OSD is.
fn serves(dir: &Path) -> bool {
    let mut cmd = Command::new(env!("CARGO_BIN_EXE_humboldt"));
    cmd.arg("bench").arg("-c").arg(dir.join("ceph.conf")).args(["write", "--seconds", "1", "--depth", "16"]);
    cmd.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// A cluster of three OSDs in a folder of its own, which serves.
fn start(name: &str) -> (PathBuf, Up) {
    let dir = fresh(name);
    let up = Up::start(up::up(&dir, &["--size", "256M", "--osds", "3", "--processes", "--auth", "none"]), HOW);
    (dir, up)
}

#[test]
fn a_killed_keeper_leaves_no_daemon_behind() {
    let (dir, mut up) = start("kept-osds");
    let osds: Vec<u32> = (0..3).map(|id| up.osd(id).expect("it runs")).collect();
    up.child.kill().expect("it runs");
    up.child.wait().expect("it ends");
    wait_for("the end of each OSD", || osds.iter().all(|pid| is_gone(*pid)));
    let _ = std::fs::remove_dir_all(&dir);
}

#[test]
fn a_killed_osd_is_started_again() {
    let (dir, mut up) = start("ended-osd");
    let before = up.osd(1).expect("osd.1 runs");
    assert!(signal(before, "KILL"));
    let said = up.says("osd.1 ended");
    assert!(said.contains("signal: 9") && said.contains("started again in 1 s"), "{said}");
    wait_for("another process", || up.osd(1).is_some_and(|pid| pid != before));
    wait_for("an answer of each group", || serves(&dir));
    assert!(up.runs(), "the rest goes on");
    up.stop();
    let _ = std::fs::remove_dir_all(&dir);
}

#[test]
fn an_osd_that_is_told_to_stop_stays_down_until_the_next_start() {
    let (dir, up) = start("stopped-osd");
    let ceph = |words: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_humboldt")).arg("ceph").args(words).env("CEPH_CONF", dir.join("ceph.conf")).output();
        String::from_utf8_lossy(&out.expect("it runs").stdout).into_owned()
    };
    ceph(&["osd", "stop", "1"]);
    up.says("osd.1 stays down: `ceph osd stop` ended it");
    assert_eq!(up.osd(1), None, "nothing has started it");
    wait_for("health that says why", || ceph(&["health", "detail"]).lines().any(|l| l.contains("osd.1 ") && l.contains("osd stop")));
    drop(up);
    // Its ceph.conf says where the monitor is now.
    let up = Up::start(up::up(&dir, &["--processes", "--auth", "none", "--http", "none"]), How { errors: Errors::Shown, ..HOW });
    assert!(up.ready.contains("3 OSDs on disk"), "{:?}", up.ready);
    wait_for("all three", || ceph(&["osd", "stat"]).contains("3 up"));
    drop(up);
    let _ = std::fs::remove_dir_all(&dir);
}
