//! How far long work is, and when it will be done: a bar that is drawn anew on a terminal, plain lines now and then where standard error is none.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Pause between two drawings.
const DRAW: Duration = Duration::from_millis(200);
/// The same between two lines.
const LINE: Duration = Duration::from_secs(5);
/// Before this much of the time has passed nothing can be said of the rest.
const EARLY: Duration = Duration::from_millis(500);

/// The progress of one piece of work; says its end when it goes.
pub struct Progress {
    what: &'static str,
    total: u64,
    done: u64,
    began: Instant,
    shown: Option<Instant>,
    terminal: bool,
}

/// Bytes as people read them.
fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (0..UNITS.len() - 1).find(|i| n >> (10 * i) < 1024).unwrap_or(UNITS.len() - 1);
    format!("{:.1} {}", n as f64 / (1u64 << (10 * unit)) as f64, UNITS[unit])
}

/// `12 s`, `3 min`, `2.5 h`.
fn span(d: Duration) -> String {
    match d.as_secs() {
        s @ 0..90 => format!("{s} s"),
        s @ 90..5400 => format!("{} min", s / 60),
        s => format!("{:.1} h", s as f64 / 3600.0),
    }
}

impl Progress {
    /// Of `total` bytes; 0 if it is not known how many.
    pub fn new(what: &'static str, total: u64) -> Self {
        Self { what, total, done: 0, began: Instant::now(), shown: None, terminal: std::io::stderr().is_terminal() }
    }
    /// So many bytes more.
    pub fn add(&mut self, more: u64) {
        self.done += more;
        let pause = if self.terminal { DRAW } else { LINE };
        if self.shown.unwrap_or(self.began).elapsed() >= pause {
            self.shown = Some(Instant::now());
            self.show();
        }
    }
    /// What is to be said now.
    fn text(&self, took: Duration) -> String {
        let rate = bytes((self.done as f64 / took.as_secs_f64().max(0.001)) as u64);
        if self.total == 0 {
            return format!("{}: {}, {rate}/s", self.what, bytes(self.done));
        }
        // The total is an estimate, too: it may turn out too small.
        let part = (self.done as f64 / self.total as f64).min(1.0);
        let left = (took >= EARLY && part > 0.0).then(|| took.mul_f64((1.0 - part) / part));
        let left = left.map_or(String::new(), |left| format!(", about {} left", span(left)));
        format!("{}: {:.0} %, {} of {}, {rate}/s{left}", self.what, part * 100.0, bytes(self.done), bytes(self.total))
    }
    fn show(&self) {
        let text = self.text(self.began.elapsed());
        let mut err = std::io::stderr().lock();
        // Nothing depends on being read.
        let _ = if self.terminal { write!(err, "\r\x1b[K{} {text}", bar(self.done, self.total)) } else { writeln!(err, "{text}") };
        let _ = err.flush();
    }
}

fn bar(done: u64, total: u64) -> String {
    if total == 0 {
        return String::new();
    }
    let full = ((done as f64 / total as f64).min(1.0) * 24.0).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(24 - full))
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_none() {
            return;
        }
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "{}", if self.terminal { "\r\x1b[K" } else { "" });
        let _ = writeln!(err, "{}: {} in {}", self.what, bytes(self.done), span(self.began.elapsed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_estimated_from_what_was_done() {
        let mut p = Progress::new("export", 100 << 20);
        p.done = 25 << 20;
        assert_eq!(p.text(Duration::from_secs(10)), "export: 25 %, 25.0 MiB of 100.0 MiB, 2.5 MiB/s, about 30 s left");
        assert_eq!(p.text(Duration::from_millis(100)), "export: 25 %, 25.0 MiB of 100.0 MiB, 250.0 MiB/s");
        p.done = 200 << 20;
        assert!(p.text(Duration::from_secs(10)).ends_with("about 0 s left"));
        (p.total, p.done) = (0, 1024);
        assert_eq!(p.text(Duration::from_secs(1)), "export: 1.0 KiB, 1.0 KiB/s");
        assert_eq!(bar(12, 24), "████████████░░░░░░░░░░░░");
    }
}
