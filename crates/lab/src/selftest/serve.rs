//! The fake target: each operation takes a known time, a known amount of CPU, and writes a known number of sectors. It counts as an OSD
//! does, and can lie.

use super::words::Words;
use crate::sys;
use anyhow::{Context, Result};
use serde_json::json;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Bytes of a sector, as /sys/block/*/stat counts.
const SECTOR: u64 = 512;
/// Replies: 0 for done, else an errno.
pub const DONE: u8 = 0;

#[derive(Clone)]
struct Manner {
    latency: Duration,
    /// Each so manieth operation takes `slow` instead.
    slow: Duration,
    slow_every: u64,
    cpu_ns: u64,
    /// At this operation everything stands still for so long, once.
    stall_at: u64,
    stall: Duration,
    /// Bytes written for each byte that came.
    amplification: u64,
    lie: String,
}

#[derive(Default, Clone, Copy)]
struct Done {
    ops: u64,
    bytes: u64,
    sectors: u64,
}

struct Store {
    manner: Manner,
    /// Operations begun. Each has a number of its own: two that begin together must not pass the stall's number by.
    begun: AtomicU64,
    /// The lock is held while the file is written: what it says is of one moment, and never older than what it said before.
    done: Mutex<Done>,
    /// When a stall ends, in ns since `epoch`.
    stalled_until: AtomicU64,
    epoch: Instant,
    stat: File,
}

impl Store {
    fn stall(&self, n: u64) {
        let now = || self.epoch.elapsed().as_nanos() as u64;
        if n == self.manner.stall_at {
            self.stalled_until.store(now() + self.manner.stall.as_nanos() as u64, Ordering::Relaxed);
        }
        let until = self.stalled_until.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_nanos(until.saturating_sub(now())));
    }
    /// In the form of the kernel's file, each number as wide as any, so that a reader never meets half of it.
    fn tell(&self, done: &Done) {
        let mut fields = [0; 17];
        (fields[4], fields[6], fields[15]) = (done.ops, done.sectors, done.ops);
        let text: String = fields.iter().map(|f| format!("{f:>20} ")).collect();
        // A reader that finds nothing tries nothing else.
        let _ = self.stat.write_all_at(text.as_bytes(), 0);
    }
    fn count(&self, bytes: u64) {
        let mut done = self.done.lock().expect("no holder panics");
        done.ops += 1;
        done.bytes += bytes;
        if self.manner.lie != "keeps-nothing" {
            done.sectors += bytes * self.manner.amplification / SECTOR;
        }
        self.tell(&done);
    }
    /// One operation of `bytes`; the reply.
    fn operate(&self, bytes: u64, cpu: &mut Cpu) -> u8 {
        let (start, m) = (Instant::now(), &self.manner);
        let n = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        match m.lie.as_str() {
            "full" if n > 50 => return libc::ENOSPC as u8,
            "dies" if n > 100 => std::process::exit(1),
            // Half of them fail, and don't count.
            "fails" if cpu.seen.is_multiple_of(2) => {
                cpu.seen += 1;
                return libc::EIO as u8;
            }
            _ => {}
        }
        cpu.seen += 1;
        self.stall(n);
        cpu.burn(m.cpu_ns);
        let time = if m.slow_every > 0 && n.is_multiple_of(m.slow_every) { m.slow } else { m.latency };
        std::thread::sleep(time.saturating_sub(start.elapsed()));
        self.count(bytes);
        DONE
    }
    fn dump(&self) -> serde_json::Value {
        let done = *self.done.lock().expect("no holder panics");
        json!({ "osd": { "op": done.ops, "op_in_bytes": done.bytes, "op_out_bytes": 0 } })
    }
}

/// A thread's CPU, made exact: what an operation's reading and writing took is burnt less.
struct Cpu {
    due_ns: u64,
    seen: u64,
}

impl Cpu {
    fn burn(&mut self, ns: u64) {
        self.due_ns += ns;
        while sys::thread_cpu_ns() < self.due_ns {
            std::hint::spin_loop();
        }
    }
}

fn client(store: &Store, mut stream: UnixStream) -> std::io::Result<()> {
    let mut cpu = Cpu { due_ns: sys::thread_cpu_ns(), seen: 0 };
    let mut payload = Vec::new();
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        payload.resize(u32::from_le_bytes(length) as usize, 0);
        stream.read_exact(&mut payload)?;
        stream.write_all(&[store.operate(payload.len() as u64, &mut cpu)])?;
    }
}

fn admin(store: &Store, mut stream: UnixStream) -> std::io::Result<()> {
    let mut byte = [1];
    while byte[0] != 0 {
        stream.read_exact(&mut byte)?;
    }
    let text = store.dump().to_string();
    stream.write_all(&(text.len() as u32).to_be_bytes())?;
    stream.write_all(text.as_bytes())
}

pub fn serve(words: &Words) -> Result<()> {
    let dir = Path::new(words.text("dir").context("--dir is missing")?);
    let us = |name: &str| Duration::from_micros(words.number(name, 0.0) as u64);
    let manner = Manner {
        latency: us("latency-us"),
        slow: us("slow-us"),
        slow_every: words.number("slow-every", 0.0) as u64,
        cpu_ns: us("cpu-us").as_nanos() as u64,
        stall_at: words.number("stall-at", 0.0) as u64,
        stall: us("stall-us"),
        amplification: words.number("amplification", 1.0) as u64,
        lie: words.text("lie").unwrap_or_default().into(),
    };
    let stat = File::options().create(true).truncate(true).write(true).open(dir.join("stat"))?;
    let zero = || AtomicU64::new(0);
    let store = Arc::new(Store { manner, begun: zero(), done: Mutex::default(), stalled_until: zero(), epoch: Instant::now(), stat });
    store.tell(&Done::default());
    let listen = |name: &str| {
        let _ = std::fs::remove_file(dir.join(name));
        UnixListener::bind(dir.join(name)).with_context(|| dir.join(name).display().to_string())
    };
    let (sockets, asked) = (listen("fake.sock")?, listen("osd.0.asok")?);
    let of_admin = store.clone();
    std::thread::spawn(move || {
        for stream in asked.incoming().map_while(Result::ok) {
            // A client that goes away without reading has no use for the answer.
            let _ = admin(&of_admin, stream);
        }
    });
    for stream in sockets.incoming().map_while(Result::ok) {
        let store = store.clone();
        std::thread::spawn(move || client(&store, stream));
    }
    Ok(())
}
