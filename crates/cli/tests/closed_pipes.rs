//! A pipe that has lost its reader, or whose reader stands still, costs what is said and nothing else: daemons serve on, loads clean up behind them. A
//! full disk is an error.

mod up;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use up::{Errors, How, Up, fresh, wait_for};

/// A cluster of whose output the first line is read, and nothing more.
fn start(name: &str, errors: Option<Stdio>) -> Up {
    let dir = fresh(name);
    let mut cmd = up::up(&dir, &["--store", "mem", "--auth", "none"]);
    let to = if errors.is_some() { Errors::AsTold } else { Errors::Unread };
    cmd.stderr(errors.unwrap_or_else(Stdio::piped));
    Up::start(cmd, How { is_read: false, errors: to, ..How::default() }).with_folder(dir)
}
fn conf(up: &Up) -> PathBuf {
    up.dir().join("ceph.conf")
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
    let conf = conf(up);
    run("ceph", &conf, &["osd", "down", "0"]);
    wait_for("osd.0", || is_up(&conf));
    assert!(up.runs(), "the cluster has ended");
}

#[test]
fn a_reader_that_stands_still_holds_nothing_up() {
    let (_reader, mut writer) = std::io::pipe().expect("a pipe");
    let errors = writer.try_clone().expect("a descriptor");
    // Filled to the brim: the thread gets no further.
    std::thread::spawn(move || while writer.write_all(b"a line that was there before\n").is_ok() {});
    let mut up = start("still-pipe", Some(errors.into()));
    comes_back(&mut up);
    up.stop();
}

#[test]
fn what_nobody_reads_ends_nothing() {
    let mut up = start("closed-pipes", None);
    let conf = conf(&up);
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
