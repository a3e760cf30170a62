//! What happened, as a hash of all of it and as the last lines of text.

use messages::RawMessage;
use std::collections::VecDeque;
use std::fmt::Debug;

/// Lines that are kept.
const KEPT: usize = 4000;

/// Every event goes in; the same run has the same hash.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    events: u64,
    /// The time and the text of each.
    lines: VecDeque<(u64, String)>,
    /// Write each line to standard error as well.
    pub loud: bool,
    /// The hash covers every byte of every message, and every effect of the OSDs; else what happens, to which process and when.
    pub deep: bool,
}

impl Default for Trace {
    fn default() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, events: 0, lines: VecDeque::new(), loud: false, deep: false }
    }
}

impl Trace {
    fn word(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.hash = (self.hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    /// One event at this virtual time.
    pub fn event(&mut self, at_ns: u64, line: String) {
        self.events += 1;
        self.word(&at_ns.to_le_bytes());
        self.word(line.as_bytes());
        if self.loud {
            eprintln!("{:>12.6} {line}", at_ns as f64 / 1e9);
        }
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back((at_ns, line));
    }
    /// A message that is sent.
    pub fn message(&mut self, msg: &RawMessage) {
        if self.deep {
            self.word(&msg.kind.to_le_bytes());
            for part in [&msg.front, &msg.middle].into_iter().chain(&msg.data) {
                self.word(&part.len().to_le_bytes());
                self.word(part);
            }
        }
    }
    /// Something else that a core wants.
    pub fn effect(&mut self, effect: &dyn Debug) {
        if self.deep {
            self.word(format!("{effect:?}").as_bytes());
        }
    }
    pub fn hash(&self) -> u64 {
        self.hash
    }
    pub fn events(&self) -> u64 {
        self.events
    }
    /// The last lines in which one of these words stands; all of them where there is no word.
    pub fn last(&self, words: &[String], count: usize) -> Vec<String> {
        let found = self.lines.iter().rev().filter(|(_, l)| words.is_empty() || words.iter().any(|w| l.contains(w.as_str())));
        let mut lines: Vec<String> = found.take(count).map(|(at_ns, line)| format!("{:>12.6} {line}", *at_ns as f64 / 1e9)).collect();
        lines.reverse();
        lines
    }
}
