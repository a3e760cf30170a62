//! Connections without a key that say nothing, half a banner or half a HELLO, and stay: as many as a port has places, and new ones all the time, at the
//! monitor, the manager endpoint and an OSD of a `humboldt up`.

use crate::up::{How, PATIENCE, Up, fresh, up};
use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// More than a messenger has places for handshakes.
const HELD: usize = 1100;
/// At each port, between two looks at what must go on.
const AT_ONCE: usize = 60;
/// As many come at least, and as long: 200 a second.
const OPENED: usize = 2000;
const COMES_FOR: Duration = Duration::from_secs(10);
/// What they may take of memory, bytes.
const GROWTH: u64 = 64 << 20;

/// A cluster, and what is asked of it.
struct Asked(Up);

impl Asked {
    fn start() -> Self {
        let dir = fresh("crowd");
        Self(Up::start(up(&dir, &["--store", "mem", "--osds", "3"]), How::default()).with_folder(dir))
    }
    fn program(&self, words: &[&str]) -> Command {
        let mut cmd = Command::new(env!("CARGO_BIN_EXE_humboldt"));
        cmd.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).env("CEPH_CONF", self.0.dir().join("ceph.conf"));
        cmd
    }
    /// A new client that asks one thing: its output.
    fn ask(&self, words: &str) -> String {
        let Output { status, stdout, stderr } = self.program(&words.split(' ').collect::<Vec<_>>()).output().expect("it runs");
        assert!(status.success(), "`{words}` ended with {status}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).expect("text")
    }
    fn json(&self, words: &str) -> serde_json::Value {
        serde_json::from_str(&self.ask(&format!("{words} -f json"))).expect("JSON")
    }
    /// Of each OSD: whether it is up, and since when.
    fn ups(&self) -> Vec<(bool, u64)> {
        let dump = self.json("ceph osd dump");
        let osds = dump["osds"].as_array().expect("OSDs").clone();
        osds.iter().map(|osd| (osd["up"] == 1, osd["up_from"].as_u64().expect("an epoch"))).collect()
    }
    fn rss(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.pid())).expect("it runs");
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("memory");
        line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") * 1024
    }
    fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.0.pid())).expect("it runs").count()
    }
    /// A client that writes for so long, and must end well.
    fn load(&self, seconds: u64) -> Child {
        let seconds = seconds.to_string();
        self.program(&["bench", "-p", "p", "write", "--seconds", &seconds, "--depth", "4", "--objects", "64"]).spawn().expect("it runs")
    }
}

/// As many descriptors as are allowed: the crowd is this process.
#[allow(unsafe_code)]
fn raise_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write only the structure that they are given.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}

/// Sockets at one port, the oldest first.
struct Crowd {
    at: SocketAddr,
    held: VecDeque<TcpStream>,
    opened: usize,
}

impl Crowd {
    fn new(addr: &serde_json::Value) -> Self {
        Self { at: addr["addrvec"][0]["addr"].as_str().expect("an address").parse().expect("it parses"), held: VecDeque::new(), opened: 0 }
    }
    fn come(&mut self, count: usize) {
        const BANNER: &[u8] = b"ceph v2\n\x10\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\x01\x20\0";
        for _ in 0..count {
            let mut socket = TcpStream::connect(self.at).expect("the port takes connections");
            // Most have begun: those stay the longest.
            let said = [0, 11, BANNER.len(), BANNER.len(), BANNER.len(), BANNER.len()][self.opened % 6];
            let _ = socket.write_all(&BANNER[..said]);
            self.held.push_back(socket);
            self.opened += 1;
            if self.held.len() > HELD {
                self.held.pop_front();
            }
        }
    }
}

#[test]
fn half_handshakes_take_nobodys_place() {
    raise_limit();
    let mut up = Asked::start();
    up.ask("ceph osd pool create p 1");
    assert!(up.load(2).wait_with_output().expect("it ends").status.success(), "the load by itself");
    let (before, rss, files) = (up.ups(), up.rss(), up.open_files());
    assert!(before.len() == 3 && before.iter().all(|(up, _)| *up), "{before:?}");
    let (mon, mgr, osd) = (up.json("ceph mon dump"), up.json("ceph mgr dump"), up.json("ceph osd dump"));
    let mut crowds = [&mon["mons"][0]["public_addrs"], &mgr["active_addrs"], &osd["osds"][0]["public_addrs"]].map(Crowd::new);
    crowds.iter_mut().for_each(|crowd| crowd.come(HELD));
    let load = up.load(COMES_FOR.as_secs());
    up.ask("ceph osd down 1");
    let (start, mut goes_on) = (Instant::now(), true);
    while goes_on {
        crowds.iter_mut().for_each(|crowd| crowd.come(AT_ONCE));
        // A new client each time; and the OSD that has to log in and find its peers anew among all these.
        let now = up.ups();
        let opened: usize = crowds.iter().map(|crowd| crowd.opened).sum();
        assert!(start.elapsed() < PATIENCE, "osd.1 does not come back: {now:?}");
        goes_on = start.elapsed() < COMES_FOR || opened < OPENED || !now[1].0;
    }
    let ended = load.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "the client that was there: {}", String::from_utf8_lossy(&ended.stderr));
    let after = up.ups();
    assert!(after[0] == before[0] && after[2] == before[2] && after[1].0, "{before:?}, then {after:?}");
    assert!(up.0.runs(), "it goes on");
    let grown = up.rss().saturating_sub(rss);
    assert!(grown < GROWTH, "grown by {} MiB", grown >> 20);
    // The crowd is still there, and is given up.
    let (start, held) = (Instant::now(), crowds.iter().map(|crowd| crowd.held.len()).sum::<usize>());
    while up.open_files() > files + 30 {
        assert!(start.elapsed() < PATIENCE, "{} files are open for {held} peers that say nothing, {files} before", up.open_files());
        std::thread::sleep(Duration::from_millis(100));
    }
}
