//! An OSD whose loop really stands: health says so from the monitor's thread, then the watchdog ends the process with a line that says where.
//!
//! The loop is made to stand from outside, as a debugger does it: ptrace(2) stops that one thread, and the program under test has no switch for it.

use libc::{PTRACE_INTERRUPT, PTRACE_SEIZE, c_void};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
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

/// A setting as the OSD has it, by its admin socket: a command that ends in a zero, answered with its length and JSON.
fn shown(dir: &Path, name: &str) -> String {
    let mut socket = std::os::unix::net::UnixStream::connect(dir.join("osd.0.asok")).expect("its admin socket");
    write!(socket, r#"{{"prefix":"config get","var":"{name}"}}"#).and_then(|()| socket.write_all(&[0])).expect("it is sent");
    let mut said = Vec::new();
    socket.read_to_end(&mut said).expect("an answer");
    let json: serde_json::Value = serde_json::from_slice(&said[4..]).expect("JSON");
    json[name].as_str().unwrap_or_default().into()
}

struct Up {
    child: Child,
    stopped: Option<i32>,
}
impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        self.stopped.take().into_iter().for_each(reap);
        let _ = self.child.wait();
    }
}

#[test]
fn health_shows_a_loop_that_stands_and_the_watchdog_ends_it() {
    let dir = std::env::temp_dir().join(format!("humboldt-stuck-loop-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let mut cmd = Command::new(env!("CARGO_BIN_EXE_humboldt"));
    cmd.arg("up").arg("--dir").arg(&dir).args(["--port", "0", "--size", "256M"]);
    let child = cmd.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program is there");
    let mut up = Up { child, stopped: None };
    let mut line = String::new();
    BufReader::new(up.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("ready"), "{line:?}");
    for (name, seconds) in [("osd_op_thread_timeout", 3), ("osd_op_thread_suicide_timeout", END_S), ("osd_op_complaint_time", 2)] {
        ceph(&dir, &format!(r#"{{"prefix":"config set","who":"osd","name":"{name}","value":"{seconds}"}}"#));
    }
    // The OSD has the settings when it shows them.
    let begun = Instant::now();
    while shown(&dir, "osd_op_thread_suicide_timeout") != END_S.to_string() {
        assert!(begun.elapsed() < PATIENCE, "the OSD does not take its settings");
        std::thread::sleep(Duration::from_millis(200));
    }
    let slow = || {
        let health = ceph(&dir, r#"{"prefix":"health","format":"json"}"#);
        health["checks"]["SLOW_OPS"]["summary"]["message"].as_str().map(String::from)
    };
    assert_eq!(slow(), None);

    let found = threads(up.child.id(), "osd.0");
    let [tid] = found[..] else { panic!("the loop of osd.0 is one thread: {found:?}") };
    stop(tid);
    up.stopped = Some(tid);
    let stopped = Instant::now();
    let said = loop {
        if let Some(said) = slow() {
            break said;
        }
        assert!(stopped.elapsed() < Duration::from_secs(END_S), "health says nothing of a loop that stands");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(said.starts_with("1 slow ops") && said.ends_with("osd.0 has slow ops"), "{said}");
    up.stopped.take().into_iter().for_each(reap);
    let status = up.child.wait().expect("it ended");
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{status:?}");
    assert!(stopped.elapsed() > Duration::from_secs(END_S - 2), "not before its time: {:?}", stopped.elapsed());
    let mut text = String::new();
    up.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(text.contains("osd.0: the loop has not turned for 3 s: it is "), "{text}");
    let end = format!("osd.0: the loop has not turned for {END_S} s (osd_op_thread_suicide_timeout): it is ");
    assert!(text.contains(&end), "{text}");
    assert!(text.contains("; the process ends"), "{text}");
    std::fs::remove_dir_all(&dir).unwrap();
}
