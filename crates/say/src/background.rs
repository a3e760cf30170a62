//! Lines for standard error that a thread of its own writes: what reads them may stand still, and the process does not.
//!
//! Holds [`LINES_MAX`] lines that wait for their reader at most. More are lost and counted.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// Lines that wait for a reader at most.
const LINES_MAX: usize = 1000;
/// How long the end of a process waits for a reader.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Waiting {
    lines: VecDeque<String>,
    /// Lines that found no room since the last one that did.
    lost: u64,
    /// The thread is about to write, or waits for the reader.
    writing: bool,
}

impl Waiting {
    fn add(&mut self, line: String) {
        if self.lines.len() < LINES_MAX {
            self.lines.push_back(line);
        } else {
            self.lost += 1;
        }
    }
    /// What is to be written now.
    fn take(&mut self) -> String {
        let mut text: String = self.lines.drain(..).collect();
        match std::mem::take(&mut self.lost) {
            0 => {}
            n => text += &format!("{n} lines are lost: more than {LINES_MAX} waited for what reads them\n"),
        }
        text
    }
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.lost == 0
    }
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

/// There once the thread runs.
static QUEUE: OnceLock<Queue> = OnceLock::new();

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no holder panics")
    }
    /// Writes what comes, for ever.
    fn write(&self) {
        loop {
            let mut waiting = self.changed.wait_while(self.lock(), |w| w.is_empty()).expect("no holder panics");
            waiting.writing = true;
            let text = waiting.take();
            drop(waiting);
            // A failure is lost: here is where it would be told.
            let _ = io::stderr().write_all(text.as_bytes());
            self.lock().writing = false;
            self.changed.notify_all();
        }
    }
}

/// Writes a line, its end included.
pub(crate) fn line(line: String) {
    match QUEUE.get() {
        Some(queue) => {
            queue.lock().add(line);
            queue.changed.notify_all();
        }
        // One write a line: lines of several processes stay whole.
        None => {
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }
}

/// From now on a thread writes to standard error, panics' messages too, and nothing else waits for what reads it. For daemons. Before such a
/// process ends, it calls [`flush`].
pub fn in_background() {
    // Without a thread, lines are written as before.
    let started = std::thread::Builder::new().name("say".into()).spawn(|| QUEUE.get_or_init(Queue::default).write());
    if started.is_ok() {
        QUEUE.get_or_init(Queue::default);
        std::panic::set_hook(Box::new(|panic| {
            let trace = std::backtrace::Backtrace::capture();
            let trace = if trace.status() == std::backtrace::BacktraceStatus::Captured { format!("\n{trace}") } else { String::new() };
            line(format!("thread {:?}: {panic}{trace}\n", std::thread::current().name().unwrap_or("without a name")));
            flush();
        }));
    }
}

/// Waits until standard error has all lines, a second at most.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        let unwritten = |waiting: &mut Waiting| waiting.writing || !waiting.is_empty();
        let _ = queue.changed.wait_timeout_while(queue.lock(), LAST_WORDS, unwritten);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_bound_are_counted_and_told_of() {
        let mut waiting = Waiting::default();
        (0..LINES_MAX + 3).for_each(|n| waiting.add(format!("{n}\n")));
        let text = waiting.take();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[LINES_MAX - 1]), (LINES_MAX + 1, "0", "999"));
        assert!(lines[LINES_MAX].starts_with("3 lines are lost"), "{}", lines[LINES_MAX]);
        assert!(waiting.is_empty());
        waiting.add("next\n".into());
        assert_eq!(waiting.take(), "next\n");
    }
}
