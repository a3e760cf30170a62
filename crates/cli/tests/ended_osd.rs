//! `humboldt up` with several OSDs goes on when one of them ends: it says so, starts it again, and the map shows it up.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

/// Ends its processes with the test.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = Command::new("kill").arg(self.0.id().to_string()).status();
            let _ = self.0.wait();
        }
    }
}

/// The process that is `osd --id N` below this one.
fn osd_process(up: u32, id: u32) -> Option<u32> {
    let words = |pid: u32| -> Vec<String> {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect()
    };
    let children = std::fs::read_to_string(format!("/proc/{up}/task/{up}/children")).ok()?;
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(|pid| {
        let words = words(*pid);
        words.get(1).is_some_and(|w| w == "osd") && words.windows(2).any(|w| w[0] == "--id" && w[1] == id.to_string())
    })
}

/// Waits for a line with this text.
fn says(lines: &mut BufReader<ChildStderr>, text: &str) -> String {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert!(lines.read_line(&mut line).expect("its errors are text") > 0, "it ended without saying {text:?}");
    }
    line
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Writes to every group: each is there only if its OSD is.
fn serves(dir: &Path) -> bool {
    let mut cmd = Command::new(env!("CARGO_BIN_EXE_humboldt"));
    cmd.arg("bench").arg("-c").arg(dir.join("ceph.conf")).args(["write", "--seconds", "1", "--depth", "16"]);
    cmd.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// A cluster of three OSDs in a folder of its own, which serves.
fn start(name: &str) -> (std::path::PathBuf, Up) {
    let dir = std::env::temp_dir().join(format!("humboldt-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let mut cmd = Command::new(env!("CARGO_BIN_EXE_humboldt"));
    cmd.arg("up").arg("--dir").arg(&dir).args(["--port", "0", "--size", "256M", "--osds", "3", "--processes", "--auth", "none"]);
    let mut up = Up(cmd.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program is there"));
    let mut line = String::new();
    BufReader::new(up.0.stdout.take().expect("it is piped")).read_line(&mut line).expect("a line");
    assert!(line.contains("ready"), "{line:?}");
    (dir, up)
}

#[test]
fn a_killed_keeper_leaves_no_daemon_behind() {
    let (dir, mut up) = start("kept-osds");
    let osds: Vec<u32> = (0..3).map(|id| osd_process(up.0.id(), id).expect("it runs")).collect();
    up.0.kill().expect("it runs");
    up.0.wait().expect("it ends");
    let is_gone = |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).map_or(true, |line| line.is_empty());
    wait_for("the end of each OSD", || osds.iter().all(is_gone));
    let _ = std::fs::remove_dir_all(&dir);
}

#[test]
fn a_killed_osd_is_started_again() {
    let (dir, mut up) = start("ended-osd");
    let mut errors = BufReader::new(up.0.stderr.take().expect("it is piped"));
    let before = osd_process(up.0.id(), 1).expect("osd.1 runs");
    assert!(Command::new("kill").args(["-9", &before.to_string()]).status().expect("kill runs").success());
    let said = says(&mut errors, "osd.1 ended");
    assert!(said.contains("signal: 9") && said.contains("started again in 1 s"), "{said}");
    // What it says later must find room.
    std::thread::spawn(move || errors.lines().for_each(drop));
    wait_for("another process", || osd_process(up.0.id(), 1).is_some_and(|pid| pid != before));
    wait_for("an answer of each group", || serves(&dir));
    assert!(up.0.try_wait().expect("it is ours").is_none(), "the rest goes on");
    assert!(Command::new("kill").arg(up.0.id().to_string()).status().expect("kill runs").success());
    assert!(up.0.wait().expect("it ends").success());
    let _ = std::fs::remove_dir_all(&dir);
}

#[test]
fn an_osd_that_is_told_to_stop_stays_down_until_the_next_start() {
    let (dir, mut up) = start("stopped-osd");
    let ceph = |words: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_humboldt")).arg("ceph").args(words).env("CEPH_CONF", dir.join("ceph.conf")).output();
        String::from_utf8_lossy(&out.expect("it runs").stdout).into_owned()
    };
    let mut errors = BufReader::new(up.0.stderr.take().expect("it is piped"));
    ceph(&["osd", "stop", "1"]);
    says(&mut errors, "osd.1 stays down: `ceph osd stop` ended it");
    std::thread::spawn(move || errors.lines().for_each(drop));
    assert_eq!(osd_process(up.0.id(), 1), None, "nothing has started it");
    wait_for("health that says why", || ceph(&["health", "detail"]).lines().any(|l| l.contains("osd.1 ") && l.contains("osd stop")));
    drop(up);
    let mut cmd = Command::new(env!("CARGO_BIN_EXE_humboldt"));
    cmd.arg("up").arg("--dir").arg(&dir).args(["--port", "0", "--processes", "--auth", "none", "--http", "none"]).stdin(Stdio::null());
    let mut up = Up(cmd.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("the program is there"));
    // Its ceph.conf says where the monitor is now.
    let mut line = String::new();
    BufReader::new(up.0.stdout.take().expect("it is piped")).read_line(&mut line).expect("a line");
    assert!(line.contains("3 OSDs on disk"), "{line:?}");
    wait_for("all three", || ceph(&["osd", "stat"]).contains("3 up"));
    drop(up);
    let _ = std::fs::remove_dir_all(&dir);
}
