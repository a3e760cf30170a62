//! Is a round to be believed? What the tool told is held against what the lab saw itself: its own clocks, the target's counters, the
//! devices.

use crate::load::{BadOutput, Told, Work};
use crate::sample::Used;
use crate::stats::steady::Steady;
use crate::target::Counted;
use serde::{Deserialize, Serialize};

/// What a round is worth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "reason", rename_all = "lowercase")]
pub enum State {
    Valid,
    /// The figures can't be true, or are of something else: they never count.
    Invalid(String),
    /// There are none.
    Failed(String),
}

/// The part of what a client sent that must show in the target's counters.
const REACH_MIN: f64 = 0.98;
/// The part that must show on the devices of a store that keeps what it acknowledged.
const STORED_MIN: f64 = 0.95;
/// How far the tool's clock and ours may differ, as a share and in seconds.
const CLOCK_SHARE: f64 = 0.1;
const CLOCK_S: f64 = 0.5;
/// The part of its time that a load must wait on operations for their latency to be the target's.
const WAITED_MIN: f64 = 0.5;
/// How late our first look may be.
const LATE_S: f64 = 0.25;
/// How far the time of day may move against the clock that is never set.
const JUMP_S: f64 = 0.25;

/// What the lab saw of a round.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub used: Used,
    pub wanted_s: f64,
    /// Objects that were there to be read.
    pub there: Option<u64>,
    /// What the target counted meanwhile, if it counts.
    pub counted: Option<Counted>,
    /// How long it counted, from our first question to the load's end.
    pub counted_s: Option<f64>,
    /// True if what it acknowledged must be on a device.
    pub durable: bool,
    /// How often it must be there.
    pub copies: u32,
    pub target_died: bool,
    pub marked: bool,
    pub code: i32,
    /// Of a drill's ledger: writes that were acknowledged, and how many are gone.
    pub ledger: Option<(u64, u64)>,
}

/// The verdict on one run of a load.
pub fn judge(work: &Work, told: &Result<Told, BadOutput>, seen: &Seen) -> State {
    if seen.target_died {
        return State::Failed("the target died in mid-round".into());
    }
    if let Some((acknowledged, lost)) = seen.ledger.filter(|(_, lost)| *lost > 0) {
        return State::Invalid(format!("{lost} of {acknowledged} writes that were acknowledged are gone"));
    }
    if seen.code == 124 {
        return State::Failed("the load did not end within its time limit".into());
    }
    let told = match told {
        Ok(told) => told,
        Err(bad @ BadOutput::CutOff(_)) => return State::Invalid(bad.to_string()),
        Err(bad) => return State::Failed(bad.to_string()),
    };
    let lies = [own_words(work, told, seen), clocks(work, told, seen), reach(work, told, seen), stored(work, told, seen)];
    lies.into_iter().flatten().next().map_or(State::Valid, State::Invalid)
}

/// What contradicts itself.
fn own_words(work: &Work, told: &Told, seen: &Seen) -> Option<String> {
    if told.ops == 0 {
        return Some("not one operation was done".into());
    }
    if told.errors > 0 {
        return Some(format!("{} of {} operations failed", told.errors, told.ops + told.errors));
    }
    if !seen.marked {
        return Some("the tool did not say when it began and ended".into());
    }
    if let Some(latency) = &told.latency
        && latency.count() != told.ops
    {
        return Some(format!("{} operations, but latencies of {}", told.ops, latency.count()));
    }
    // Little's law: so many at a time, for so long, make no more than that; what was under way at the start counts whole.
    let spent_s = told.mean_ns / 1e9 * told.ops as f64;
    let longest = told.latency.as_ref().and_then(|l| l.max_ns()).unwrap_or(0) as f64 / 1e9;
    let room_s = work.under_way() as f64 * (told.seconds.max(seen.used.seconds) * 1.05 + longest + 0.05);
    (spent_s > room_s).then(|| {
        format!(
            "{} operations of {:.0} us each don't fit into {:.1} s at depth {}",
            told.ops,
            told.mean_ns / 1e3,
            told.seconds,
            work.under_way()
        )
    })
}

fn clocks(work: &Work, told: &Told, seen: &Seen) -> Option<String> {
    let used = &seen.used;
    if (used.real_seconds - used.seconds).abs() > JUMP_S {
        return Some(format!("the clock jumped: the time of day moved by {:.2} s in {:.2} s", used.real_seconds, used.seconds));
    }
    // A reader that has read all that was there is at its end, however early.
    let read_all = work.may_run_out() && seen.there.is_some_and(|there| told.ops >= there);
    let least = if read_all { 0.0 } else { 1.0 - CLOCK_SHARE };
    if work.tool.is_timed() && told.seconds < seen.wanted_s * least {
        return Some(format!("the tool ended early: after {:.2} s of {:.2}", told.seconds, seen.wanted_s));
    }
    // A tool without marks starts and clears up within what we saw: so it may tell less than we saw, but not more.
    let over = told.seconds - used.seconds;
    (over > CLOCK_S + used.seconds * CLOCK_SHARE)
        .then(|| format!("the tool says that it measured for {:.2} s; it ran for {:.2} s", told.seconds, used.seconds))
        .or_else(|| {
            (work.tool.is_timed() && used.seconds < seen.wanted_s * least - LATE_S)
                .then(|| format!("the tool ran for {:.2} s of {:.2}", used.seconds, seen.wanted_s))
        })
}

/// Operations of the time before our first look, which the tool measured and our samples did not: by its curve, and the most that the curve
/// may be wrong by.
fn before_our_look(told: &Told, looked_s: f64) -> (f64, f64) {
    let late_ms = ((told.seconds - looked_s) * 1e3).max(0.0);
    if late_ms == 0.0 || told.slot_ms == 0 || told.slots.is_empty() {
        return (told.ops as f64 * late_ms / 1e3 / told.seconds.max(1e-9), 0.0);
    }
    let whole = late_ms / told.slot_ms as f64;
    let upto = (whole.ceil() as usize).min(told.slots.len());
    let part = |(i, ops): (usize, &u64)| *ops as f64 * (whole - i as f64).min(1.0);
    let error = told.slots[..upto].last().copied().unwrap_or(0);
    (told.slots[..upto].iter().enumerate().map(part).sum(), error as f64)
}

/// Operations in the time that our samples are of.
pub fn seen_ops(told: &Told, used: &Used) -> f64 {
    (told.ops as f64 - before_our_look(told, used.seconds).0).max(1.0)
}

/// Bytes that must have been sent in the time of a look, but for what was under way at its ends.
fn due(work: &Work, told: &Told, looked_s: f64) -> f64 {
    let (before, error) = before_our_look(told, looked_s);
    (told.ops as f64 - before - error - work.under_way() as f64).max(0.0) * work.block as f64
}

fn reach(work: &Work, told: &Told, seen: &Seen) -> Option<String> {
    let counted = seen.counted?;
    if !work.reaches_whole() {
        let none = counted.bytes_in + counted.bytes_out == 0;
        return none.then(|| "reach: the target counted not one byte of the load's: it went somewhere else".into());
    }
    // By the moments when it was asked: on a busy machine our own samples are taken some time later.
    let bytes = due(work, told, seen.counted_s.unwrap_or(seen.used.seconds));
    let (sent, got) = (bytes * told.write_share, bytes * (1.0 - told.write_share));
    let side = |what: &str, claimed: f64, counted: u64| {
        ((counted as f64) < claimed * REACH_MIN).then(|| {
            format!("reach: the client {what} {claimed:.0} bytes, the target counted {counted}: the load went somewhere else, or failed")
        })
    };
    side("sent", sent, counted.bytes_in).or_else(|| side("got", got, counted.bytes_out))
}

fn stored(work: &Work, told: &Told, seen: &Seen) -> Option<String> {
    if !work.reaches_whole() {
        return None;
    }
    let sent = due(work, told, seen.used.seconds) * told.write_share;
    let copies = f64::from(seen.copies.max(1));
    let written = seen.used.written_bytes.filter(|_| seen.durable && sent > 0.0)?;
    ((written as f64) < sent * copies * STORED_MIN).then(|| {
        let each = if seen.copies > 1 { format!(", {} copies of each", seen.copies) } else { String::new() };
        format!("the client sent {sent:.0} bytes{each}, but only {written} were written: the target answers without storing")
    })
}

/// What is noted beside figures that count.
pub fn marks(work: &Work, told: &Told, used: &Used, foreign_max: f64) -> Vec<String> {
    let mut marks = Vec::new();
    let waited = told.mean_ns / 1e9 * told.ops as f64 / (told.seconds * work.under_way() as f64).max(1e-9);
    if waited < WAITED_MIN {
        marks.push(format!(
            "latencies are a cache's: operations took {:.0} % of the time, what was behind the cache the rest",
            waited * 100.0
        ));
    }
    if used.foreign + used.steal > foreign_max {
        marks.push(format!(
            "disturbed: other processes took {:.0} % of the machine, the hypervisor {:.0} %",
            used.foreign * 100.0,
            used.steal * 100.0
        ));
    }
    match Steady::of_curve(&told.slots) {
        Some(steady) if !steady.steady => {
            marks.push(format!("not steady: range {:.0} %, slope {:+.0} % over five windows", steady.range * 100.0, steady.slope * 100.0));
        }
        None => marks.push("too short to see a steady state".into()),
        _ => {}
    }
    marks
}

#[cfg(test)]
mod tests;
