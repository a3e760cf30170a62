//! The fake load: so many operations at a time, told as `humboldt bench --json --marks` tells them; and its lies.

use super::serve::DONE;
use super::words::Words;
use crate::stats::Latency;
use anyhow::{Context, Result};
use serde_json::json;
use std::io::{BufRead, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const SLOT_MS: u64 = 100;

#[derive(Default)]
struct Tally {
    latency: Latency,
    errors: u64,
    errno: u8,
    slots: Vec<u64>,
    answers: Vec<Instant>,
}

impl Tally {
    fn count(&mut self, start: Instant, sent: Instant, now: Instant) {
        self.latency.record((now - sent).as_nanos() as u64);
        let slot = ((now - start).as_millis() as u64 / SLOT_MS) as usize;
        self.slots.resize(self.slots.len().max(slot + 1), 0);
        self.slots[slot] += 1;
        self.answers.push(now);
    }
    fn gap_us(&mut self, start: Instant) -> u64 {
        self.answers.push(start);
        self.answers.sort();
        self.answers.windows(2).map(|w| (w[1] - w[0]).as_micros() as u64).max().unwrap_or(0)
    }
}

/// One at a time on a connection of its own, until `end`.
fn slot(socket: &str, block: usize, (start, end): (Instant, Instant), lie: &str, tally: &Mutex<Tally>) -> Result<()> {
    let mut stream = UnixStream::connect(socket).with_context(|| socket.to_string())?;
    let mut request = (block as u32).to_le_bytes().to_vec();
    request.resize(4 + block, 7);
    while Instant::now() < end {
        let sent = Instant::now();
        let mut reply = [DONE];
        if lie == "elsewhere" {
            std::thread::sleep(Duration::from_millis(1));
        } else {
            stream.write_all(&request)?;
            stream.read_exact(&mut reply)?;
        }
        let (now, mut tally) = (Instant::now(), tally.lock().expect("no holder panics"));
        if now < start {
            continue;
        }
        match reply[0] {
            DONE => tally.count(start, sent, now),
            // A load that takes any answer for a good one.
            _ if lie == "deaf" => tally.count(start, sent, now),
            errno => {
                tally.errors += 1;
                tally.errno = errno;
                if i32::from(errno) == libc::ENOSPC {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

pub fn load(words: &Words) -> Result<()> {
    let socket = words.text("socket").context("--socket is missing")?.to_string();
    let lie = words.text("lie").unwrap_or_default().to_string();
    let (block, depth) = (words.number("block", 4096.0) as usize, words.number("depth", 1.0) as usize);
    let wanted = words.number("seconds", 1.0) * if lie == "early" { 0.5 } else { 1.0 };
    let start = Instant::now() + Duration::from_secs_f64(words.number("warm", 0.0));
    let end = start + Duration::from_secs_f64(wanted);
    let tally = Mutex::new(Tally::default());
    let failed = std::thread::scope(|scope| {
        let slots: Vec<_> = (0..depth).map(|_| scope.spawn(|| slot(&socket, block, (start, end), &lie, &tally))).collect();
        std::thread::sleep(start.saturating_duration_since(Instant::now()));
        say::println!("{{\"mark\":\"start\"}}");
        slots.into_iter().filter_map(|s| s.join().expect("a slot does not panic").err()).next()
    });
    let took = start.elapsed().as_secs_f64();
    say::println!("{{\"mark\":\"end\"}}");
    let _ = std::io::stdin().lock().read_line(&mut String::new());
    if let Some(error) = failed {
        return Err(error);
    }
    let mut t = tally.into_inner().expect("no holder panics");
    if i32::from(t.errno) == libc::ENOSPC {
        say::println!("{}", json!({ "mode": "write", "error": "the store has no room (ENOSPC)", "errno": t.errno }));
        anyhow::bail!("no room");
    }
    let gap_us = t.gap_us(start);
    let seconds = if lie == "clock" { took * 3.0 } else { took };
    let line = json!({
        "mode": "write", "ops": t.latency.count(), "errors": t.errors, "seconds": seconds, "latency_us": { "avg": t.latency.mean_ns() / 1e3 },
        "histogram_ns": t.latency.bins(), "slots": t.slots, "slot_ms": SLOT_MS, "gap_us": gap_us,
    })
    .to_string();
    match lie.as_str() {
        "cut" => say::print!("{}", &line[..line.len() / 2]),
        _ => say::println!("{line}"),
    }
    Ok(())
}
