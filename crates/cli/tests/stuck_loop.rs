//! An OSD whose loop really stands: health says so from the monitor, then the watchdog ends the OSD's process with a line that says where; as a
//! thread it has the monitor mark it down, which goes on, and it comes up when its loop turns again.
//!
//! The loop is made to stand from outside, as a debugger does it: ptrace(2) stops that one thread, and the program under test has no switch for it.

mod up;

use libc::{PTRACE_DETACH, PTRACE_INTERRUPT, PTRACE_SEIZE, c_void};
use std::io::{Read, Write};
use std::path::Path;
use std::ptr::null_mut;
use std::time::{Duration, Instant};
use up::{Errors, How, PATIENCE, Up, fresh, wait_for};

/// `osd_op_thread_suicide_timeout`: health takes an OSD for slow when it has said nothing for 15 s.
const END_S: u64 = 24;

/// Thread ids of that name.
fn threads(pid: u32, name: &str) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let ids = tasks.flatten().filter_map(|t| t.file_name().to_str()?.parse().ok());
    ids.filter(|tid: &i32| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).is_ok_and(|n| n.trim() == name)).collect()
}

/// Stops the thread for good: it stands wherever it is.
fn stop(tid: i32) {
    let request = |what| {
        // SAFETY: neither request reads or writes memory of ours.
        let done = unsafe { libc::ptrace(what, tid, null_mut::<c_void>(), null_mut::<c_void>()) };
        assert_eq!(done, 0, "ptrace of a child: {} (a container may forbid it)", std::io::Error::last_os_error());
    };
    request(PTRACE_SEIZE);
    request(PTRACE_INTERRUPT);
    // SAFETY: no status is asked for.
    assert_eq!(unsafe { libc::waitpid(tid, null_mut(), libc::__WALL) }, tid, "the thread stops");
}

/// Lets it go on.
fn go_on(tid: i32) {
    // SAFETY: the request reads and writes no memory of ours.
    let done = unsafe { libc::ptrace(PTRACE_DETACH, tid, null_mut::<c_void>(), null_mut::<c_void>()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Takes what is left of the thread when its process has ended, as its tracer must before the process can be waited for.
fn reap(tid: i32) {
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(tid, null_mut(), libc::__WALL) };
}

fn ceph(dir: &Path, what: &str) -> serde_json::Value {
    let conf = {
        let text = std::fs::read_to_string(dir.join("ceph.conf")).expect("its conf");
        objecter::Conf::parse(&text, types::EntityText::parse("client.admin").unwrap()).expect("a conf")
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let cluster = client::Cluster::connect(conf, PATIENCE).await.expect("the monitor answers");
        let reply = cluster.mon_command(what, bytes::Bytes::new()).await.expect("an answer");
        cluster.shutdown();
        assert_eq!(reply.result, 0, "{what}: {}", reply.status);
        serde_json::from_slice(&reply.output).unwrap_or_default()
    })
}

/// A setting as the OSD has it, by its admin socket: a command that ends in a zero, answered with its length and JSON. An OSD that has
/// ended shows none, whatever the map still says.
fn shown(dir: &Path, name: &str) -> Option<String> {
    let mut socket = std::os::unix::net::UnixStream::connect(dir.join("osd.0.asok")).ok()?;
    write!(socket, r#"{{"prefix":"config get","var":"{name}"}}"#).and_then(|()| socket.write_all(&[0])).ok()?;
    let mut said = Vec::new();
    socket.read_to_end(&mut said).ok()?;
    let json: serde_json::Value = serde_json::from_slice(said.get(4..)?).ok()?;
    json[name].as_str().map(String::from)
}

/// A cluster, and the thread of it that stands.
struct Stuck {
    up: Up,
    stopped: Option<i32>,
}
impl Drop for Stuck {
    fn drop(&mut self) {
        let _ = self.up.child.kill();
        self.stopped.take().into_iter().for_each(reap);
    }
}

impl Stuck {
    /// A cluster whose OSD's watchdog waits for a few seconds.
    fn start(dir: &Path, form: &[&str]) -> Self {
        let how = How { errors: Errors::Kept, ..How::default() };
        let up = Up::start(up::up(dir, &[&["--size", "256M", "--http", "none"], form].concat()), how);
        for (name, seconds) in [("osd_op_thread_timeout", 3), ("osd_op_thread_suicide_timeout", END_S), ("osd_op_complaint_time", 2)] {
            ceph(dir, &format!(r#"{{"prefix":"config set","who":"osd","name":"{name}","value":"{seconds}"}}"#));
        }
        // The OSD has the settings when it shows them.
        wait_for("the OSD's settings", || shown(dir, "osd_op_thread_suicide_timeout") == Some(END_S.to_string()));
        Self { up, stopped: None }
    }
    fn said(&self) -> String {
        self.up.said()
    }
    /// Stops the loop of osd.0, in that process.
    fn stop_loop(&mut self, pid: u32) {
        // In a process of its own, the OSD's thread has its name all the same.
        let found = threads(pid, "osd.0");
        let [tid] = found[..] else { panic!("the loop of osd.0 is one thread: {found:?}") };
        stop(tid);
        self.stopped = Some(tid);
    }
}

fn slow(dir: &Path) -> Option<String> {
    let health = ceph(dir, r#"{"prefix":"health","format":"json"}"#);
    health["checks"]["SLOW_OPS"]["summary"]["message"].as_str().map(String::from)
}
fn is_up(dir: &Path) -> bool {
    ceph(dir, r#"{"prefix":"osd stat","format":"json"}"#)["num_up_osds"] == 1
}
fn folder(name: &str) -> std::path::PathBuf {
    fresh(&format!("stuck-loop-{name}"))
}

#[test]
fn a_thread_that_stands_is_marked_down_and_the_monitor_beside_it_goes_on() {
    let dir = folder("thread");
    let mut up = Stuck::start(&dir, &[]);
    assert_eq!(slow(&dir), None);
    let pid = up.up.pid();
    up.stop_loop(pid);
    let stopped = Instant::now();
    let said = loop {
        if let Some(said) = slow(&dir) {
            break said;
        }
        assert!(stopped.elapsed() < Duration::from_secs(END_S), "health says nothing of a loop that stands");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(said.starts_with("1 slow ops") && said.ends_with("osd.0 has slow ops"), "{said}");
    wait_for("the map that has it down", || !is_up(&dir));
    assert!(stopped.elapsed() > Duration::from_secs(END_S - 2), "not before its time: {:?}", stopped.elapsed());
    wait_for("why", || {
        let health = ceph(&dir, r#"{"prefix":"health","detail":"detail","format":"json"}"#);
        health["checks"]["OSD_DOWN"]["detail"][0]["message"].as_str().is_some_and(|text| text.contains("its loop stands: "))
    });
    assert!(up.said().contains("osd.0: the loop has not turned for 3 s: it is "), "{}", up.said());
    assert!(up.up.runs(), "the process goes on: {}", up.said());
    go_on(up.stopped.take().unwrap());
    wait_for("osd.0, whose loop turns again", || is_up(&dir));
    drop(up);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_watchdog_ends_a_process_of_its_own_and_it_is_started_again() {
    let dir = folder("process");
    let mut up = Stuck::start(&dir, &["--processes"]);
    let pid = up.up.pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let is_osd = |pid: &u32| String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).contains("--id");
    let osd = children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(is_osd).expect("osd.0 runs");
    up.stop_loop(osd);
    let end = format!("osd.0: the loop has not turned for {END_S} s (osd_op_thread_suicide_timeout): it is ");
    wait_for("the watchdog's line", || up.said().contains(&end) && up.said().contains("; the process ends"));
    up.stopped.take().into_iter().for_each(reap);
    wait_for("its end", || up.said().contains("osd.0 ended: signal: 6"));
    wait_for("another osd.0", || is_up(&dir) && shown(&dir, "osd_op_thread_suicide_timeout") == Some(END_S.to_string()));
    assert!(up.up.runs(), "the rest goes on: {}", up.said());
    drop(up);
    std::fs::remove_dir_all(&dir).unwrap();
}
