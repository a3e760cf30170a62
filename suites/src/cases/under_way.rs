//! What clients have under way costs the server no more than its budget and a slot for each connection, whatever they send, keep back or don't
//! read; and a good client beside them is answered all the while.
//!
//! Holds the load and the bounds. The wire is [`super::wire`]'s. The same with sockets of our own, and with the budget switched off on purpose, is
//! in `crates/net/src/tests`.

use super::Case;
use super::wire::Target;
use crate::clients::Release::Pacific;
use crate::cluster::Cluster;
use crate::run::{root, until};
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[Case { name: "memory_of_what_is_under_way", needs: &[Pacific], run: memory }];

const MIB: u64 = 1 << 20;
/// `osd_client_message_size_cap`.
const BUDGET: u64 = 64 * MIB;
/// Bytes of the writes: one for each lane of the budget.
const LENS: [usize; 3] = [80 << 20, 4 << 20, 60 << 10];
/// The object that is read, more than any cache keeps of it, and how much each request asks for.
const OBJECT: u64 = 120 * MIB;
const ASKED: u64 = 4 * MIB;
/// A connection may have a read buffer and as much in its queue, whatever the others have: 64 KiB each, and the session itself.
const SLOT: u64 = 160 << 10;
/// One that only has its session.
const IDLE_SLOT: u64 = 32 << 10;
/// What the allocator keeps between, and logs and caches of the good client's load.
const SLACK: u64 = 24 * MIB;
const CROWDS: [usize; 3] = [20, 200, 1000];
/// How long each crowd is looked at.
const WATCHED: Duration = Duration::from_secs(4);
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a connection looks whether it is over, and a deaf one asks again.
const TURN: Duration = Duration::from_secs(1);

/// What the connections of a crowd do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Half of a large write, or all but its last byte.
    SendsHalves,
    SendsNothing,
    /// Asks for whole objects and takes no answer.
    ReadsNothing,
}

impl Kind {
    /// What a crowd of so many may add to the server's memory.
    fn bound(self, count: usize) -> u64 {
        let (budget, slot) = match self {
            // Each lane takes one message whatever its length, so the longest may come beside the rest.
            Self::SendsHalves => (BUDGET + LENS[0] as u64, SLOT),
            Self::SendsNothing => (0, IDLE_SLOT),
            // Answers have half of the budget; those whose length was not known are seen once as much is there.
            Self::ReadsNothing => (BUDGET, SLOT),
        };
        budget + count as u64 * slot + SLACK
    }
}

/// A stock client that goes on all the time, and what its slowest answer took.
struct Good {
    child: Child,
    slowest_us: std::sync::Arc<AtomicU64>,
    answers: std::sync::Arc<AtomicU64>,
}

impl Good {
    fn start(c: &Cluster) -> Result<Self> {
        let mut cmd = Pacific.command(&c.conf, "/usr/bin/python3");
        cmd.arg(root().join("suites/src/cases/timed.py")).arg(&c.conf).arg("p");
        let mut child = cmd.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("starting a good client")?;
        let lines = BufReader::new(child.stdout.take().context("piped")?).lines();
        let good = Self { child, slowest_us: Default::default(), answers: Default::default() };
        let (slowest, answers) = (good.slowest_us.clone(), good.answers.clone());
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                slowest.fetch_max((line.parse::<f64>().unwrap_or(f64::MAX) * 1e6) as u64, Relaxed);
                answers.fetch_add(1, Relaxed);
            }
        });
        ensure!(until(PATIENCE, || good.answers.load(Relaxed) > 10), "the good client gets no answers");
        Ok(good)
    }
    /// The slowest answer since this was asked last. Waits for those that are still out.
    fn slowest(&self) -> Result<Duration> {
        let before = self.answers.load(Relaxed);
        ensure!(until(PATIENCE, || self.answers.load(Relaxed) > before + 2), "the good client gets no answers any more");
        Ok(Duration::from_micros(self.slowest_us.swap(0, Relaxed)))
    }
}

impl Drop for Good {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How long the machine itself keeps a thread waiting that wants to run: the longest over-sleep since this was asked last.
struct Machine {
    slowest_us: std::sync::Arc<AtomicU64>,
}

impl Machine {
    fn watch() -> Self {
        let slowest_us = std::sync::Arc::new(AtomicU64::new(0));
        let slowest = std::sync::Arc::downgrade(&slowest_us);
        std::thread::spawn(move || {
            while let Some(slowest) = slowest.upgrade() {
                let (nap, begun) = (Duration::from_millis(5), Instant::now());
                std::thread::sleep(nap);
                slowest.fetch_max((begun.elapsed() - nap).as_micros() as u64, Relaxed);
            }
        });
        Self { slowest_us }
    }
    fn slowest(&self) -> Duration {
        Duration::from_micros(self.slowest_us.swap(0, Relaxed))
    }
}

/// Threads that an answer passes: the client's three, the server's loop and its disks, and back.
const HOPS: u32 = 8;

/// Shared by the connections of a crowd.
struct Crowd {
    kind: Kind,
    target: Target,
    zeros: Vec<u8>,
    over: AtomicBool,
    opened: AtomicU64,
    cut: AtomicU64,
    /// Why a session did not open, the last time.
    refused: Mutex<String>,
}

impl Crowd {
    /// One client: comes again whenever it is cut.
    fn client(&self, n: usize) {
        let mut is_first = true;
        while !self.over.load(Relaxed) {
            let mut socket = match self.target.dial(10_000 + n as u64, PATIENCE) {
                Ok(socket) => socket,
                Err(e) => {
                    *self.refused.lock().expect("no holder panics") = format!("{e:#}");
                    std::thread::sleep(Duration::from_millis(200));
                    continue;
                }
            };
            self.opened.fetch_add(u64::from(std::mem::take(&mut is_first)), Relaxed);
            let set = socket.set_read_timeout(Some(TURN)).and(socket.set_write_timeout(Some(TURN)));
            set.expect("a second is a time");
            match self.kind {
                Kind::SendsHalves => {
                    let len = LENS[n % LENS.len()];
                    let part = if n % 2 == 0 { len / 2 } else { len - 1 };
                    if self.push(&mut socket, &self.target.write_head(1, len)) && self.push(&mut socket, &self.zeros[..part]) {
                        self.listen(&mut socket);
                    }
                }
                Kind::SendsNothing => self.listen(&mut socket),
                Kind::ReadsNothing => {
                    for number in 1.. {
                        // Others than the last: what is answered twice from one memory costs nothing.
                        let offset = (number * 7 + n as u64 * 11) * ASKED % OBJECT;
                        if !self.push(&mut socket, &self.target.read(number, offset, ASKED)) {
                            break;
                        }
                        if number >= 16 {
                            std::thread::sleep(TURN);
                        }
                    }
                }
            }
            self.cut.fetch_add(u64::from(!self.over.load(Relaxed)), Relaxed);
        }
    }
    /// Writes it, however long the server takes; false if it is over.
    fn push(&self, socket: &mut TcpStream, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() && !self.over.load(Relaxed) {
            match socket.write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
                Err(_) => return false,
            }
        }
        bytes.is_empty()
    }
    /// Until the server ends the connection, or it is over.
    fn listen(&self, socket: &mut TcpStream) {
        let mut sink = [0; 4096];
        while !self.over.load(Relaxed) {
            match socket.read(&mut sink) {
                Ok(n) if n > 0 => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
                _ => return,
            }
        }
    }
}

/// The server's memory with a crowd of `count`: what it grew by at most, beside the good client. `most_before`: the most that it has had without a
/// crowd; caches give some of that back meanwhile, and take it again.
fn measure(c: &mut Cluster, (good, machine): (&Good, &Machine), crowd: &Crowd, count: usize, most_before: &mut u64) -> Result<()> {
    *most_before = c.rss_bytes().max(*most_before);
    let before = *most_before;
    good.slowest()?;
    machine.slowest();
    let mut most = 0;
    std::thread::scope(|scope| -> Result<()> {
        let begun = Instant::now();
        for n in 0..count {
            std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, move || crowd.client(n))?;
        }
        let mut is_there = None;
        while is_there.is_none_or(|since: Instant| since.elapsed() < WATCHED) && begun.elapsed() < 2 * PATIENCE {
            most = most.max(c.rss_bytes());
            if is_there.is_none() && crowd.opened.load(Relaxed) == count as u64 {
                is_there = Some(Instant::now());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        crowd.over.store(true, Relaxed);
        let (opened, why) = (crowd.opened.load(Relaxed), crowd.refused.lock().expect("no holder panics").clone());
        ensure!(is_there.is_some(), "{opened} of {count} connections were opened; {why}");
        Ok(())
    })?;
    let (slowest, delay) = (good.slowest()?, machine.slowest());
    ensure!(!c.ended(), "humboldt ended; it said:\n{}", c.log());
    let (grown, bound) = (most.saturating_sub(before), crowd.kind.bound(count));
    let left = || c.rss_bytes().saturating_sub(before);
    let is_back = until(PATIENCE, || left() < SLACK + count as u64 * (4 << 10));
    println!(
        "  {:>4} clients, {:?}: {} MiB before, {} more at most (bound {}), {} more when they are gone; {} were cut; the good client waited {} ms at most (a thread: {})",
        count,
        crowd.kind,
        before / MIB,
        grown / MIB,
        bound / MIB,
        left() / MIB,
        crowd.cut.load(Relaxed),
        slowest.as_millis(),
        delay.as_millis()
    );
    ensure!(grown <= bound, "{count} clients, {:?}: {grown} bytes more, where {bound} is the bound", crowd.kind);
    ensure!(is_back, "{count} clients, {:?}: {} bytes more stay when they are gone", crowd.kind, left());
    // A client that is shut out waits for as long as the others stay, however fast the machine is.
    let patience = Duration::from_secs(5) + HOPS * delay;
    ensure!(slowest < patience, "{count} clients, {:?}: the good client waited {slowest:?}", crowd.kind);
    Ok(())
}

/// A read whose answer is taken: what the deaf ones send is a good request.
fn is_answered(target: &Target) -> Result<()> {
    let mut socket = target.dial(9_999, PATIENCE)?;
    socket.write_all(&target.read(1, OBJECT - ASKED, ASKED))?;
    let mut answer = vec![0; ASKED as usize];
    socket.read_exact(&mut answer)?;
    let sevens = answer.iter().filter(|b| **b == 7).count();
    ensure!(sevens > answer.len() - 4096, "{sevens} bytes of the object came");
    Ok(())
}

fn memory() -> Result<()> {
    // A socket for each client: shells often allow 1,024 files.
    let _ = Command::new("prlimit").args(["--pid", &std::process::id().to_string(), "--nofile=4096:"]).stderr(Stdio::null()).status();
    let mut c = Cluster::start("under_way", &["--auth", "none", "--osds", "1", "--size", "1G"])?;
    c.must(Pacific, &format!("ceph config set osd osd_client_message_size_cap {BUDGET}"))?;
    c.must(Pacific, "ceph osd pool create p 8")?;
    // What logs, buffers and caches grow to once is there before the counting starts.
    let big = c.dir.join("big");
    std::fs::write(&big, vec![7; OBJECT as usize])?;
    c.must(Pacific, &format!("rados -p p put big {}", big.display()))?;
    c.must(Pacific, "rados -p p bench 2 write -b 4096 -t 16")?;
    c.must(Pacific, &format!("rados -p p get big {}", big.display()))?;
    let (good, machine) = (Good::start(&c)?, Machine::watch());
    let target = Target::find(&c.must(Pacific, "ceph osd dump -f json")?, &c.must(Pacific, "ceph osd map p big -f json")?)?;
    is_answered(&target).context("a request by hand")?;
    let mut most_before = 0;
    for kind in [Kind::SendsNothing, Kind::SendsHalves, Kind::ReadsNothing] {
        for count in CROWDS {
            let (over, opened, cut, refused) = Default::default();
            let crowd = Crowd { kind, target: target.clone(), zeros: vec![0; LENS[0]], over, opened, cut, refused };
            measure(&mut c, (&good, &machine), &crowd, count, &mut most_before)?;
        }
    }
    drop(good);
    c.stop()
}
