//! How long the store keeps its thread: CPU time from the end of one turn to the end of the next. While the thread sleeps none passes.

use hdrhistogram::Histogram;

/// The longest turn that is told apart, nanoseconds.
const TURN_MAX_NS: u64 = 60_000_000_000;
/// What a reactor's clients begin to feel, nanoseconds.
const LONG_NS: u64 = 10_000_000;

/// CPU time of this thread, nanoseconds.
#[allow(unsafe_code)]
fn thread_cpu_ns() -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct is ours, and the kernel fills it in.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut at) };
    assert_eq!(result, 0, "every Linux has this clock");
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

/// The turns of one load.
#[derive(Debug)]
pub struct Turns {
    ended_ns: u64,
    times: Histogram<u64>,
}

impl Turns {
    /// A turn begins.
    pub fn new() -> Self {
        let times = Histogram::new_with_bounds(1, TURN_MAX_NS, 3).expect("the bounds are constants that fit");
        Self { ended_ns: thread_cpu_ns(), times }
    }
    /// A turn has ended, and the next one begins.
    pub fn end(&mut self) {
        let now = thread_cpu_ns();
        self.times.saturating_record((now - self.ended_ns).clamp(1, TURN_MAX_NS));
        self.ended_ns = now;
    }
}

impl std::fmt::Display for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |ns: u64| ns as f64 / 1e6;
        writeln!(
            f,
            "turns        longest {:.2} ms of CPU, 99.99 % below {:.2} ms, {} of {} above {} ms",
            ms(self.times.max()),
            ms(self.times.value_at_quantile(0.9999)),
            self.times.len() - self.times.count_between(0, LONG_NS),
            self.times.len(),
            LONG_NS / 1_000_000
        )
    }
}
