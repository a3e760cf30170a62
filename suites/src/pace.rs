//! How slow this machine is now: by a known piece of work, timed when a bound of time has passed, so that no case depends on the machine's speed.
//!
//! A bound is written for a machine at rest, and many times longer than what is waited for usually takes there. When it has passed, the machine does
//! the known work: if that takes N times as long as at rest, the bound is N times as long.

use crate::clients::SHARED;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What the work takes at rest: the slower of the machines that this was written on, rounded up.
const COMPUTING_MS: f64 = 25.0;
const WRITING_MS: f64 = 10.0;

/// A machine that is slower than this by load alone is of no use; a bound must end, too.
const TIMES_MAX: f64 = 10.0;

/// An old measurement says nothing of now.
const FRESH: Duration = Duration::from_secs(10);

/// True when `limit` has passed since `started`, as this machine goes.
pub fn is_over(started: Instant, limit: Duration) -> bool {
    let passed = started.elapsed();
    passed >= limit && passed.as_secs_f64() >= limit.as_secs_f64() * times()
}

/// What a second of a machine at rest is on this one: for what must come soon, not only at some time.
pub fn as_at_rest(limit: Duration) -> Duration {
    limit.mul_f64(times())
}

/// How many times slower than at rest it is now; 1 at least. Measured once for all who ask at the same time.
fn times() -> f64 {
    static LAST: Mutex<Option<(Instant, f64)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(|e| e.into_inner());
    match *last {
        Some((at, times)) if at.elapsed() < FRESH => times,
        _ => {
            let times = (computing_ms() / COMPUTING_MS).max(writing_ms() / WRITING_MS).clamp(1.0, TIMES_MAX);
            *last = Some((Instant::now(), times));
            times
        }
    }
}

/// The same work each time, in a build of any kind: a chain of multiplications that no compiler shortens.
fn computing_ms() -> f64 {
    let started = Instant::now();
    let mut x = std::hint::black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..COMPUTING_STEPS {
        x = std::hint::black_box(x.wrapping_mul(0xd134_2543_de82_ef95).rotate_left(29));
    }
    std::hint::black_box(x);
    started.elapsed().as_secs_f64() * 1000.0
}

const COMPUTING_STEPS: u32 = 4_000_000;

/// A write that must have reached the disk. A disk that cannot be written to slows nothing down.
fn writing_ms() -> f64 {
    let file = std::path::Path::new(SHARED).join(format!("pace-{}", std::process::id()));
    let started = Instant::now();
    let written = std::fs::File::create(&file).and_then(|mut f| f.write_all(&[0x5a; 4096]).and_then(|()| f.sync_all()));
    let took = started.elapsed().as_secs_f64() * 1000.0;
    let _ = std::fs::remove_file(&file);
    if written.is_ok() { took } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_ends_on_any_machine_and_never_before_its_time() {
        let started = Instant::now();
        assert!(!is_over(started, Duration::from_secs(3600)));
        let long_ago = started.checked_sub(Duration::from_secs(100)).expect("the machine is up for longer");
        assert!(is_over(long_ago, Duration::from_secs(10)), "ten times is the most");
        assert!((1.0..=TIMES_MAX).contains(&times()));
    }
}
