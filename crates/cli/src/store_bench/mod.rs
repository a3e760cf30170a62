//! `humboldt bench --store`: loads a store without network, OSD or client: what is measured is the store's own cost.
//!
//! One thread does what an OSD's reactor does: submits what there is room for, ends the turn, takes what has become durable, and sleeps until
//! the devices have something to say. `work` has what is submitted, `driven` the stores, `turns` how long turns are.

mod driven;
mod turns;
mod work;

use crate::args::{Bench, StoreKind};
use anyhow::{Context, Result, bail};
use client::bench::Report;
use driven::Driven;
use hdrhistogram::Histogram;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};
use store::StoreError;
use turns::Turns;
use work::{Spot, Work};

/// The longest latency that is told apart, nanoseconds.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
/// Bytes that the load works on unless told otherwise, at most.
const SPAN_MAX: u64 = 1 << 30;
/// Bytes of a store unless told otherwise.
const SIZE: u64 = 4 << 30;
/// Bytes of an object that is read or overwritten in parts unless told otherwise.
const OBJECT: u64 = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// One new object after the other.
    Write,
    /// Blocks by chance of objects that are there, written or read; or read one after the other.
    Overwrite,
    Rand,
    Seq,
}

pub fn bench(args: &Bench, kind: StoreKind) -> Result<()> {
    let mode = match args.mode.as_str() {
        "write" => Mode::Write,
        "overwrite" => Mode::Overwrite,
        "rand" => Mode::Rand,
        "seq" => Mode::Seq,
        other => bail!("{other}: the mode is write, overwrite, rand or seq"),
    };
    let object = match args.object_size {
        0 if mode == Mode::Write => args.block,
        0 => OBJECT.next_multiple_of(args.block.max(1)),
        given => given,
    };
    if args.block == 0 || args.depth == 0 || !object.is_multiple_of(args.block) {
        bail!("give --block and --depth above 0, and an --object-size that is a multiple of the block");
    }
    let size = args.devices.parts.size.unwrap_or(SIZE);
    let span = args.span.unwrap_or(if mode == Mode::Write { size / 2 } else { (size / 2).min(SPAN_MAX) });
    let work = Work::new(args.block, object, span / object);
    if work.objects() == 0 {
        bail!("an object of {object} bytes is more than the span of {span} bytes");
    }
    let mut driven = Driven::make(args, kind, size)?;
    let mut load = Load::new(&mut driven, work);
    load.prepare(mode)?;
    let told = load.measure(mode, args.depth, Duration::from_secs_f64(args.seconds))?;
    if args.json {
        say::println!("{}", told.report.json(&crate::bench::settings(args)));
    } else {
        say::print!("{told}");
    }
    driven.remove(args.keep)
}

/// CPU that this process has used, in user and kernel mode, threads that ended included.
fn cpu() -> Result<Duration> {
    const TICK_MS: u64 = 10; // of USER_HZ, which is 100 on every Linux
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name in parentheses may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')').context("/proc/self/stat")?.1.split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok()).context("/proc/self/stat");
    Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * TICK_MS))
}

/// Resident memory of this process, bytes.
fn rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap_or("0");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

/// What was measured.
struct Told {
    report: Report,
    /// CPU of the operations, and with what the store still did until it was at rest.
    cpu: Duration,
    cpu_at_rest: Duration,
    /// Bytes that clients wrote, and that the store wrote: log, beside the log, to their places, metadata.
    client_bytes: u64,
    wrote: Option<[u64; 4]>,
    turns: Turns,
    rss: u64,
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.report)?;
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / self.report.ops.max(1) as f64;
        writeln!(f, "CPU us/op    {:.2}  with what is left to do {:.2}", each(self.cpu), each(self.cpu_at_rest))?;
        if let Some(wrote) = self.wrote.filter(|_| self.client_bytes > 0) {
            let part = |bytes: u64| bytes as f64 / self.client_bytes as f64;
            writeln!(f, "written      {:.3} bytes for each of the client's, until idle and checkpointed:", part(wrote.iter().sum()))?;
            let [log, direct, in_place, meta] = wrote.map(part);
            writeln!(f, "             log {log:.3}  beside the log {direct:.3}  to their places {in_place:.3}  metadata {meta:.3}")?;
        }
        write!(f, "{}", self.turns)?;
        writeln!(f, "RSS MiB      {}", self.rss >> 20)
    }
}

/// One load on one store.
struct Load<'a> {
    driven: &'a mut Driven,
    work: Work,
    last: u64,
    /// Submitted and not durable: the token, and when.
    writes: VecDeque<(u64, Instant)>,
    /// Reads that wait, by ticket.
    reads: HashMap<u64, (Spot, Instant)>,
    times: Histogram<u64>,
    turns: Turns,
    ops: u64,
}

impl<'a> Load<'a> {
    fn new(driven: &'a mut Driven, work: Work) -> Self {
        let times = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("the bounds are constants that fit");
        Self { driven, work, last: 0, writes: VecDeque::new(), reads: HashMap::new(), times, turns: Turns::new(), ops: 0 }
    }
    fn submit(&mut self, (txn, delta): (types::Transaction, store::LogDelta)) -> Result<()> {
        self.last += 1;
        match self.driven.store().submit(txn, Some(delta), self.last) {
            Ok(()) => self.writes.push_back((self.last, Instant::now())),
            Err(StoreError::Full) => bail!("the store is full: give it more --size, or the load less --span"),
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }
    fn time(&mut self, since: Instant) {
        self.ops += 1;
        self.times.saturating_record((since.elapsed().as_nanos() as u64).clamp(1, LATENCY_MAX_NS));
    }
    /// Ends the turn, and takes what has come; if nothing has, sleeps until something does, and takes that.
    fn turn(&mut self) -> Result<()> {
        for sleeps in [true, false] {
            let before = self.ops;
            self.driven.store().turn_end();
            let mut tokens = Vec::new();
            self.driven.store().take_commits(&mut tokens);
            for token in tokens {
                let (wanted, since) = self.writes.pop_front().context("something is durable that was never submitted")?;
                if token != wanted {
                    bail!("{token} became durable before {wanted}");
                }
                self.time(since);
            }
            let mut ready = Vec::new();
            self.driven.store().take_ready(&mut ready);
            for (spot, since) in ready.into_iter().filter_map(|ticket| self.reads.remove(&ticket)).collect::<Vec<_>>() {
                self.read(spot, since)?;
            }
            self.turns.end();
            if self.ops > before || self.writes.is_empty() && self.reads.is_empty() {
                break;
            }
            self.driven.check()?;
            if sleeps {
                self.driven.wait();
            }
        }
        Ok(())
    }
    fn read(&mut self, spot: Spot, since: Instant) -> Result<()> {
        let (coll, object, offset, len) = self.work.place(spot);
        match self.driven.store().read(coll, &object, offset, len) {
            Ok(data) if data.len() as u64 == len => self.time(since),
            Ok(data) => bail!("{} bytes of {len} were read at {offset} of {object}", data.len()),
            Err(StoreError::Wait(ticket)) => drop(self.reads.insert(ticket, (spot, since))),
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }
    fn under_way(&self) -> usize {
        self.writes.len() + self.reads.len()
    }
    fn settle(&mut self) -> Result<()> {
        while self.under_way() > 0 {
            self.turn()?;
        }
        Ok(())
    }
    /// Collections, and what is there before the first operation that counts.
    fn prepare(&mut self, mode: Mode) -> Result<()> {
        for made in self.work.collections() {
            self.submit(made)?;
        }
        self.settle()?;
        if mode != Mode::Write {
            say::println!("filling {} objects of {} bytes", self.work.objects(), self.work.object_bytes());
            for n in 0..self.work.objects() {
                let txn = self.work.fill(n);
                self.submit(txn)?;
                while self.under_way() >= 4 {
                    self.turn()?;
                }
            }
            self.settle()?;
        }
        self.driven.come_to_rest()
    }
    fn measure(&mut self, mode: Mode, depth: usize, long: Duration) -> Result<Told> {
        (self.ops, self.times, self.turns) = (0, Histogram::new_from(&self.times), Turns::new());
        let (wrote, cpu_before, began) = (self.driven.wrote(), cpu()?, Instant::now());
        let mut n = 0;
        while began.elapsed() < long {
            while self.under_way() < depth {
                let spot = match mode {
                    Mode::Write | Mode::Seq => self.work.next(n),
                    Mode::Overwrite | Mode::Rand => self.work.any(),
                };
                n += 1;
                match mode {
                    Mode::Write | Mode::Overwrite => {
                        let txn = self.work.write(spot);
                        self.submit(txn)?;
                    }
                    Mode::Rand | Mode::Seq => {
                        self.read(spot, Instant::now())?;
                        // What is in memory is read at once, and the clock must be looked at all the same.
                        if self.reads.is_empty() && n.is_multiple_of(depth as u64) {
                            break;
                        }
                    }
                }
            }
            self.turn()?;
        }
        self.settle()?;
        let (took, used) = (began.elapsed(), cpu()? - cpu_before);
        self.driven.come_to_rest()?;
        let client_bytes = if matches!(mode, Mode::Write | Mode::Overwrite) { self.ops * self.work.block_bytes() } else { 0 };
        let before = wrote.unwrap_or_default();
        Ok(Told {
            report: Report::new(&self.times, 0, self.work.block_bytes(), took),
            turns: std::mem::replace(&mut self.turns, Turns::new()),
            cpu: used,
            cpu_at_rest: cpu()? - cpu_before,
            client_bytes,
            wrote: self.driven.wrote().map(|after| std::array::from_fn(|i| after[i] - before[i])),
            rss: rss(),
        })
    }
}
