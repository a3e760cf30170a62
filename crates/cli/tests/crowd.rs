//! Ten thousand connections on the monitor's port and as many on the OSD's, half of them through the whole handshake before they break; service keys
//! that change while a client is at work; and connections without a key that stop half-way, more of them than places. How long a good client takes
//! beside those is measured by `cargo xtask crowd`.

mod hostile_peer;
mod up;

#[path = "crowd/half_open.rs"]
mod half_open;

use hostile_peer::{Cluster, Evil, Recorder};
use mon::AuthMode;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use types::{EntityKind, EntityText};

const EACH: usize = 10_000;
/// What may be left of a crowd, bytes.
const GROWTH: u64 = 64 << 20;

/// Of this process: servers, the good client and the crowd together.
fn rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}

#[test]
fn ten_thousand_connections_on_each_port() {
    let cluster = Cluster::start(AuthMode::Cephx);
    let admin = Recorder::new(EntityText::parse("client.admin").unwrap(), cluster.key("client.admin"));
    drop(Evil::dial(&cluster, EntityKind::MON, admin.live()).expect("admin logs in"));
    // What buffers and tables grow to once is there before the counting starts.
    let crowd = |at: EntityKind, count: usize| {
        let target = cluster.addr(at);
        for n in 0..count {
            if n % 2 == 0 {
                let mut evil = Evil::dial(&cluster, at, admin.live()).expect("whoever has a ticket comes in");
                // Gone in the middle of a frame, or at once.
                if n % 4 == 0 {
                    evil.raw(&[17, 1, 0xff, 0x7f]);
                }
            } else {
                let mut socket = TcpStream::connect(target).unwrap();
                let _ = socket
                    .write_all(&b"ceph v2\n\x10\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x01"[..n % 29]);
            }
            admin.said.borrow_mut().clear();
        }
        cluster.check("a crowd");
    };
    crowd(EntityKind::MON, EACH / 20);
    crowd(EntityKind::OSD, EACH / 20);
    let before = rss_bytes();
    crowd(EntityKind::MON, EACH);
    crowd(EntityKind::OSD, EACH);
    let start = Instant::now();
    while rss_bytes() > before + GROWTH {
        assert!(start.elapsed() < Duration::from_secs(120), "grown by {} MiB", (rss_bytes() - before) >> 20);
        std::thread::sleep(Duration::from_millis(100));
    }
    cluster.stop();
}

/// Secrets of the OSDs live two seconds here: a client that stays, one that comes anew each time, and the OSD itself see several of them.
#[test]
fn service_keys_change_under_a_working_client() {
    let cluster = Cluster::start(AuthMode::Cephx);
    let key = cluster.key("client.admin");
    let command = |json: &str| cluster.command(json);
    command(r#"{"prefix":"config set","who":"mon","name":"auth_service_ticket_ttl","value":"3"}"#);
    // All tickets and secrets so far are void: the good client, the OSD and the monitor find together again.
    command(r#"{"prefix":"auth wipe-rotating-service-keys"}"#);
    let first = Instant::now();
    let mut opened = 0;
    // Ten seconds, and as long as a slow machine needs for twenty tickets.
    while first.elapsed() < Duration::from_secs(10) || opened <= 20 {
        assert!(first.elapsed() < Duration::from_secs(200), "the OSD accepted new tickets {opened} times in 200 seconds");
        cluster.check("a change of secrets");
        // A client whose ticket is newer than the OSD's secrets tries again, as stock clients do.
        let admin = Recorder::new(EntityText::parse("client.admin").unwrap(), key.clone());
        drop(Evil::dial(&cluster, EntityKind::MON, admin.live()).expect("admin logs in"));
        opened += usize::from(Evil::dial(&cluster, EntityKind::OSD, admin.live()).is_some());
        std::thread::sleep(Duration::from_millis(100));
    }
    cluster.stop();
}
