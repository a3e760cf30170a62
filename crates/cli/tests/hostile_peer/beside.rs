//! Beside a crowd of connections: what the good client still gets when it is much, and what is held for connections that have gone.

use super::{Cluster, Evil, PATIENCE};
use bytes::Bytes;
use messages::RawMessage;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of the object by which [`Cluster::check_large`] looks.
const LARGE: usize = 4 << 20;

/// What daemons of this process panicked with. One in a connection's task ends neither the thread nor anything that a client sees, and the program as it is
/// shipped ends at it.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// From here on panics of daemons are kept.
pub fn watch_panics() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let thread = std::thread::current();
            if let Some(name) = thread.name().filter(|name| *name == "mon" || name.starts_with("osd.")) {
                PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{name}: {info}"));
            }
            usual(info);
        }));
    });
}

/// No daemon of this process has panicked.
pub fn check_no_panic(after: &str) {
    let panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(panics.is_empty(), "after {after}: {panics:?}");
}

impl Cluster {
    /// As [`Cluster::check`], with an object of 4 MiB.
    pub fn check_large(&self, after: &str) {
        let data = Bytes::from(vec![self.checks.get() as u8; LARGE]);
        self.block_on(async {
            let pool = self.good().pool("p").unwrap();
            pool.write_full("large", data.clone()).await.unwrap_or_else(|e| panic!("after {after}: {e}"));
            assert!(pool.read("large", 0, LARGE as u64).await.unwrap() == data, "after {after}");
        });
    }
    /// Bytes and requests that the OSD holds for clients, and operations that it says are under way.
    pub fn held(&self) -> [u64; 3] {
        let json = |prefix: &str| -> serde_json::Value {
            serde_json::from_slice(&self.osd_command(&format!(r#"{{"prefix": "{prefix}"}}"#))).unwrap()
        };
        let (perf, ops) = (json("perf dump"), json("dump_ops_in_flight"));
        let of = |name: &str| perf[name]["val"].as_u64().expect("a throttle of the OSD's");
        [of("throttle-osd_client_bytes"), of("throttle-osd_client_messages"), ops["num_ops"].as_u64().expect("a count")]
    }
    /// What clients have under way at the OSD gets to nothing. The question itself counts while it is answered.
    pub fn check_nothing_held(&self, after: &str) {
        let start = Instant::now();
        loop {
            let [bytes, requests, ops] = self.held();
            if bytes < 4096 && requests == 0 && ops == 0 {
                return;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "after {after}: {bytes} bytes, {requests} requests and {ops} operations are held for nobody"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Evil {
    /// Queues these messages, and sends as much of what is queued as the socket takes now.
    pub fn throw(&mut self, messages: impl IntoIterator<Item = RawMessage>) {
        messages.into_iter().for_each(|message| self.conn.send(message));
        self.socket.set_nonblocking(true).unwrap();
        loop {
            let mut slices = [IoSlice::new(&[]); 64];
            let n = self.conn.out().slices(&mut slices);
            match self.socket.write_vectored(&slices[..n]) {
                // Nothing left, no room, or hung up.
                Ok(0) | Err(_) => break,
                Ok(n) => self.conn.out().advance(n),
            }
        }
        self.socket.set_nonblocking(false).unwrap();
    }
    /// Takes what has come, unread. False: hung up on.
    pub fn swallow(&mut self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let mut chunk = vec![0; 256 << 10];
        let is_open = loop {
            match self.socket.read(&mut chunk) {
                Ok(0) => break false,
                Ok(_) => {}
                Err(e) => break e.kind() == ErrorKind::WouldBlock,
            }
        };
        self.socket.set_nonblocking(false).unwrap();
        is_open
    }
}
