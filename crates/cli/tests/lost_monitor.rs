//! `humboldt up` on a folder whose monitor's store is gone, or older than its OSD, or another cluster's: refused with what lies there, and nothing
//! is written. And where an OSD listens after a restart, and what a bench says of a full pool.

mod up;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use up::{How, Up};

fn command(dir: &Path) -> Command {
    up::up(dir, &["--size", "256M"])
}
fn start(dir: &Path) -> Up {
    Up::start(command(dir), How::default())
}
fn bench(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_humboldt")).arg("bench").arg("-c").arg(dir.join("ceph.conf")).args(args).output().expect("it runs")
}
/// The error with which it refuses to start.
fn refused(dir: &Path) -> String {
    let out = command(dir).output().expect("the program runs");
    assert!(!out.status.success(), "{out:?}");
    String::from_utf8_lossy(&out.stderr).into_owned()
}
fn fresh(name: &str) -> PathBuf {
    up::fresh(&format!("lost-monitor-{name}"))
}

#[test]
fn an_osd_is_not_orphaned_by_a_new_cluster() {
    let dir = fresh("orphan");
    drop(start(&dir));
    let (mon, saved) = (dir.join("mon.redb"), dir.join("saved"));
    std::fs::copy(&mon, &saved).unwrap();
    let fsid = std::fs::read_to_string(dir.join("osd.0/ceph_fsid")).unwrap();
    // Gone.
    std::fs::remove_file(&mon).unwrap();
    let said = refused(&dir);
    assert!(said.contains("holds no cluster") && said.contains(fsid.trim()) && said.contains("export"), "{said}");
    assert!(!mon.exists(), "what refuses writes nothing");
    // There, and empty.
    std::fs::write(&mon, "").unwrap();
    assert!(refused(&dir).contains("holds no cluster"));
    // Another cluster's.
    let other = fresh("other");
    drop(start(&other));
    std::fs::copy(other.join("mon.redb"), &mon).unwrap();
    let said = refused(&dir);
    assert!(said.contains("of cluster") && said.contains(fsid.trim()) && said.contains("put the mon.redb"), "{said}");
    // Its own again.
    std::fs::copy(&saved, &mon).unwrap();
    drop(start(&dir));
    for dir in [dir, other] {
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

fn restore_mon(dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_humboldt")).args(["restore-mon", "--dir"]).arg(dir).output().expect("it runs")
}

/// Whatever was kill -9'd: the copy beside a damaged store has all of it, and the cluster goes on with the same objects.
#[test]
fn a_damaged_monitor_is_restored_from_its_copy() {
    let dir = fresh("damaged");
    let running = start(&dir);
    assert!(bench(&dir, &["write", "-s", "0.3", "-b", "4096", "--keep"]).status.success());
    drop(running);
    let mon = dir.join("mon.redb");
    let out = restore_mon(&dir);
    assert!(!out.status.success() && String::from_utf8_lossy(&out.stderr).contains("is whole"), "{out:?}");
    // A value that the database itself would not miss.
    let mut bytes = std::fs::read(&mon).unwrap();
    let fsid = std::fs::read_to_string(dir.join("osd.0/ceph_fsid")).unwrap();
    let at: Vec<usize> = (0..bytes.len() - 36).filter(|at| bytes[*at..].starts_with(fsid.trim().as_bytes())).collect();
    assert!(!at.is_empty(), "the fsid stands in it");
    at.iter().for_each(|at| bytes[*at] = b'x');
    std::fs::write(&mon, bytes).unwrap();
    let said = refused(&dir);
    assert!(said.contains("is damaged") && said.contains("humboldt restore-mon --dir"), "{said}");
    for gone in [false, true] {
        if gone {
            std::fs::remove_file(&mon).unwrap();
            let said = refused(&dir);
            assert!(said.contains("humboldt restore-mon --dir"), "{said}");
        }
        let out = restore_mon(&dir);
        assert!(out.status.success() && String::from_utf8_lossy(&out.stdout).contains("as of change"), "{out:?}");
        let running = start(&dir);
        let out = bench(&dir, &["rand", "-s", "0.3", "-b", "4096", "--json"]);
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        assert!(out.status.success() && json["errors"] == 0 && json["ops"].as_u64().unwrap() > 0, "{json}");
        drop(running);
    }
    assert!(dir.join("mon.redb.damaged").exists(), "what was damaged is kept");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_monitor_that_was_rolled_back_is_refused() {
    let dir = fresh("older");
    drop(start(&dir));
    let (mon, old, new) = (dir.join("mon.redb"), dir.join("old"), dir.join("new"));
    std::fs::copy(&mon, &old).unwrap();
    // Each start and the pool make epochs.
    for _ in 0..4 {
        let running = start(&dir);
        assert!(bench(&dir, &["write", "-s", "0.2"]).status.success());
        drop(running);
    }
    std::fs::rename(&mon, &new).unwrap();
    std::fs::copy(&old, &mon).unwrap();
    let said = refused(&dir);
    assert!(said.contains("the monitor's store is older"), "{said}");
    std::fs::rename(&new, &mon).unwrap();
    drop(start(&dir));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn an_osd_comes_back_where_it_was() {
    let dir = fresh("ports");
    let ports = || std::fs::read_to_string(dir.join("osd.0/ports")).expect("its ports");
    drop(start(&dir));
    let mut first = ports();
    assert_eq!(first.split_whitespace().count(), 4);
    // While nothing runs, the system may give one of the ports to a connection of any process here: not each time.
    let mut comes_back = || {
        drop(start(&dir));
        std::mem::replace(&mut first, ports()) == ports()
    };
    assert!((0..5).any(|_| comes_back()), "it listens elsewhere each time, last at {first}");
    // One of them is another's now.
    let keeps_the_others = || {
        drop(start(&dir));
        let before = ports();
        let port: u16 = before.split_whitespace().next().unwrap().parse().unwrap();
        let Ok(taken) = std::net::TcpListener::bind(("127.0.0.1", port)) else { return false };
        drop(start(&dir));
        drop(taken);
        let now = ports();
        assert!(now.split_whitespace().next() != before.split_whitespace().next(), "{before} became {now}");
        now.split_whitespace().skip(1).eq(before.split_whitespace().skip(1))
    };
    assert!((0..5).any(|_| keeps_the_others()), "all ports change when one is another's, last to {}", ports());
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_bench_on_a_full_store_says_so_and_ends() {
    let dir = fresh("full");
    let running = start(&dir);
    let out = bench(&dir, &["write", "-s", "0.5", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("one JSON object and nothing else");
    assert!(out.status.success() && json["ops"].as_u64().unwrap() > 0 && json["errors"] == 0, "{json}");
    assert!(json["latency_us"]["p99.9"].as_f64().unwrap() >= json["latency_us"]["p50"].as_f64().unwrap(), "{json}");
    for json in [false, true] {
        let mut args = vec!["write", "-s", "600", "-b", "1048576"];
        args.extend(json.then_some("--json"));
        let out = bench(&dir, &args);
        let said = String::from_utf8_lossy(if json { &out.stdout } else { &out.stderr }).into_owned();
        assert!(!out.status.success() && said.contains("full") && said.contains("ceph df"), "{out:?}");
    }
    drop(running);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn several_osds_share_one_file() {
    let dir = fresh("shares");
    let data = dir.with_extension("data");
    let _ = std::fs::remove_file(&data);
    let mut cmd = command(&dir);
    cmd.args(["--osds", "2", "--data"]).arg(&data);
    let running = Up::start(cmd, How::default());
    assert_eq!(std::fs::metadata(&data).unwrap().len(), 512 << 20, "--size is each one's");
    let window = |osd: u32| std::fs::read_to_string(dir.join(format!("osd.{osd}/data.window"))).expect("its share");
    assert_eq!([window(0), window(1)], [format!("0 {}\n", 256 << 20), format!("{} {}\n", 256 << 20, 256 << 20)]);
    assert!(bench(&dir, &["write", "-s", "0.5", "-b", "4096", "--keep"]).status.success());
    drop(running);
    let running = start(&dir);
    let out = bench(&dir, &["rand", "-s", "0.3", "-b", "4096", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert!(out.status.success() && json["errors"] == 0 && json["ops"].as_u64().unwrap() > 0, "{json}");
    drop(running);
    for osd in ["osd.0", "osd.1"] {
        let fsck = Command::new(env!("CARGO_BIN_EXE_humboldt"))
            .args(["store", "--dir"])
            .arg(dir.join(osd))
            .args(["fsck", "--deep"])
            .output()
            .unwrap();
        assert!(fsck.status.success() && String::from_utf8_lossy(&fsck.stdout).contains("no errors"), "{fsck:?}");
    }
    // A third one would need a part of what the others have.
    let mut child = command(&dir).args(["--osds", "3", "--data"]).arg(&data).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    child.kill().unwrap();
    let said = String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr).into_owned();
    assert!(ready.contains("2 of 3 OSDs") && said.contains("osd.2 does not serve") && said.contains("belongs to"), "{ready}{said}");
    drop(start(&dir));
    std::fs::remove_dir_all(&dir).unwrap();
    std::fs::remove_file(&data).unwrap();
}
