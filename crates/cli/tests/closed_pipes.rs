//! A pipe that has lost its reader, or whose reader stands still, costs what is said and nothing else: daemons serve on, loads clean up behind them. A
//! full disk is an error.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A cluster in a folder of its own, which ends with the test.
struct Up {
    process: Child,
    dir: PathBuf,
}

impl Up {
    /// Starts it and reads that it is ready, and nothing more.
    fn start(name: &str, errors: Stdio) -> Self {
        let dir = std::env::temp_dir().join(format!("humboldt-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let mut cmd = Command::new(env!("CARGO_BIN_EXE_humboldt"));
        cmd.arg("up").arg("--dir").arg(&dir).args(["--port", "0", "--store", "mem", "--auth", "none"]);
        let mut process = cmd.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn().expect("the program is there");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("it is piped")).read_line(&mut line).expect("a line");
        assert!(line.contains("ready"), "{line:?}");
        drop(process.stderr.take());
        Self { process, dir }
    }
    fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may stand still: that is what is tested.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn command(tool: &str, conf: &Path, words: &[&str]) -> Command {
    let mut cmd = Command::new(env!("CARGO_BIN_EXE_humboldt"));
    cmd.arg(tool).arg("-c").arg(conf).args(words).stdin(Stdio::null());
    cmd
}

/// Runs a command that must succeed.
fn run(tool: &str, conf: &Path, words: &[&str]) -> Output {
    let output = command(tool, conf, words).output().expect("it runs");
    assert!(output.status.success(), "{tool} {words:?}: {output:?}");
    output
}

fn is_up(conf: &Path) -> bool {
    String::from_utf8_lossy(&run("ceph", conf, &["osd", "stat"]).stdout).contains("1 up")
}

/// Has the OSD say that the map is wrong about it. One that ended instead, or still wants to say it, stays down.
fn comes_back(up: &mut Up) {
    run("ceph", &up.conf(), &["osd", "down", "0"]);
    let end = Instant::now() + Duration::from_secs(60);
    while !is_up(&up.conf()) {
        assert!(Instant::now() < end, "osd.0 does not come back");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(up.process.try_wait().expect("it is our child").is_none(), "the cluster has ended");
}

#[test]
fn a_reader_that_stands_still_holds_nothing_up() {
    let (_reader, mut writer) = std::io::pipe().expect("a pipe");
    let errors = writer.try_clone().expect("a descriptor");
    // Filled to the brim: the thread gets no further.
    std::thread::spawn(move || while writer.write_all(b"a line that was there before\n").is_ok() {});
    let mut up = Up::start("still-pipe", errors.into());
    comes_back(&mut up);
    assert!(Command::new("kill").arg(up.process.id().to_string()).status().expect("kill runs").success());
    let status = up.process.wait().expect("it is our child");
    assert!(status.success(), "it ends as it should: {status}");
}

#[test]
fn what_nobody_reads_ends_nothing() {
    let mut up = Up::start("closed-pipes", Stdio::piped());
    let conf = up.conf();
    comes_back(&mut up);

    // A load whose reader has left before the first line.
    let mut load = command("bench", &conf, &["write", "--seconds", "1"]);
    let mut load = load.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
    drop(load.stdout.take());
    assert!(load.wait().expect("it ends").success(), "a load fails when nobody reads");
    let left = run("rados", &conf, &["-p", "bench", "ls"]).stdout;
    assert!(left.is_empty(), "objects are left: {}", String::from_utf8_lossy(&left));

    // `rados ls | head`: no word, and the code by which shells tell such an end.
    run("bench", &conf, &["write", "--seconds", "1", "--keep"]);
    let mut names = command("rados", &conf, &["-p", "bench", "ls"]);
    let mut names = names.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    drop(names.stdout.take());
    let end = names.wait_with_output().expect("it ends");
    assert!(end.stderr.is_empty() && matches!(end.status.code(), Some(0 | 141)), "{end:?}");

    // What can't be written must not look written.
    let full = || OpenOptions::new().write(true).open("/dev/full").expect("each Linux has it");
    for (tool, words) in [("ceph", ["osd", "dump"]), ("bench", ["write", "--seconds=1"])] {
        let output = command(tool, &conf, &words).stdout(full()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("standard output: No space left"), "{tool}: {output:?}");
    }
}
