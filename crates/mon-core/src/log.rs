//! The cluster log: lines that daemons and people write, kept for `ceph log last` and passed on to `ceph -w`.
//!
//! To add a line takes one step; to find those from a number on, steps in proportion to the logarithm of how many are kept.

use crate::kv::{Batch, Snapshot};
use bytes::Bytes;
use denc::Denc;
use messages::mon_client::{LogEntry, log_level};
use std::collections::VecDeque;
use types::{EntityAddrVec, EntityKind, EntityName, EntityText, UTime};

/// Lines that are kept, in memory and in the store.
const KEPT: usize = 1000;

/// Bytes of a line, and of the name of its channel.
const TEXT_MAX: usize = 8192;
const CHANNEL_MAX: usize = 64;

/// A text of at most so many bytes without control characters: those come as people write them (`\n`, `\u{1b}`).
fn plain(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max));
    for c in text.chars() {
        let start = out.len();
        if c.is_control() {
            out.extend(c.escape_default())
        } else {
            out.push(c)
        }
        if out.len() > max {
            out.truncate(start);
            break;
        }
    }
    out
}

/// The newest lines, with numbers that go on for ever.
#[derive(Debug, Default)]
pub struct ClusterLog {
    entries: VecDeque<(u64, LogEntry)>,
    /// The number of the newest line.
    last: u64,
    seq: u64,
}

impl ClusterLog {
    pub fn load(snapshot: &Snapshot) -> Self {
        let mut log = Self::default();
        for (key, value) in snapshot.below("log/") {
            if let (Ok(n), Ok(entry)) = (key.parse(), LogEntry::from_bytes(value)) {
                log.last = n;
                log.entries.push_back((n, entry));
            }
        }
        log
    }
    /// Keeps a line: one line of text that a terminal can be shown, of bounded length.
    pub fn add(&mut self, entry: LogEntry, batch: &mut Batch) {
        self.last += 1;
        // Made anew, so that the frame that brought it can go.
        let text = plain(&entry.text.to_lossy(), TEXT_MAX).into();
        let channel = plain(&entry.channel, CHANNEL_MAX);
        let entry = LogEntry { text, channel, ..entry };
        batch.put(format!("log/{:016}", self.last), entry.to_bytes(denc::ALL_FEATURES));
        self.entries.push_back((self.last, entry));
        while self.entries.len() > KEPT {
            let (old, _) = self.entries.pop_front().expect("there is more than one");
            batch.remove(format!("log/{old:016}"));
        }
    }
    /// A line of the monitor's own.
    pub fn say(&mut self, channel: &str, level: u16, text: String, now: UTime, batch: &mut Batch) {
        self.seq += 1;
        self.add(
            LogEntry {
                name: EntityText::new(EntityKind::MON, "a"),
                rank: EntityName::mon(0),
                addrs: EntityAddrVec::default(),
                stamp: now,
                seq: self.seq,
                level,
                text: text.into(),
                channel: channel.into(),
            },
            batch,
        );
    }
    pub fn last(&self) -> u64 {
        self.last
    }
    /// Lines from number `from` on.
    pub fn since(&self, from: u64) -> impl DoubleEndedIterator<Item = &LogEntry> {
        let skip = self.entries.partition_point(|(n, _)| *n < from);
        self.entries.range(skip..).map(|(_, e)| e)
    }
}

/// The level that a subscription (`log-info`) or a command names.
pub fn level_of(name: &str) -> Option<u16> {
    Some(match name {
        "debug" => log_level::DEBUG,
        "info" => log_level::INFO,
        "sec" => log_level::SEC,
        "warn" => log_level::WARN,
        "error" => log_level::ERROR,
        _ => return None,
    })
}

/// A line as the log file shows it.
pub fn format(entry: &LogEntry) -> String {
    let (tag, text) = (log_level::tag(entry.level), entry.text.to_lossy());
    format!("{} {} ({}) {} : {} {tag} {text}", entry.stamp, entry.name, entry.rank, entry.seq, entry.channel)
}

/// Text as bytes, for output.
pub fn lines<'a>(entries: impl Iterator<Item = &'a LogEntry>) -> Bytes {
    entries.map(|e| format(e) + "\n").collect::<String>().into()
}
