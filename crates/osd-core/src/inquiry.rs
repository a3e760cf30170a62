//! Commands to the OSD that a shard has a part in: the question, [`crate::joint::ToShard::Inquire`], and the shard's part.
//!
//! The command travels with the question and comes back with the answer: Control remembers none meanwhile, and an answer may be late
//! ([`crate::late`]). Parts of several shards are to be joined before one becomes an answer.

use crate::answer::Answer;
use crate::event::ConnId;
use crate::figures::GroupStats;
use crate::history::History;
use crate::perf::Perf;
use crate::work::Status;
use base::Clock;
use serde_json::{Map, Value};

/// One command that came, and on which connection.
pub(crate) struct Asked {
    pub conn: ConnId,
    pub tid: u64,
    pub cmd: Map<String, Value>,
}

impl Asked {
    /// An argument, if it is a text.
    pub fn given(&self, name: &str) -> Option<&str> {
        self.cmd.get(name).and_then(Value::as_str)
    }
    /// The same, empty if it isn't there.
    pub fn text(&self, name: &str) -> &str {
        self.given(name).unwrap_or_default()
    }
}

/// A command, and what a shard is to say or do of it.
pub(crate) struct Inquiry {
    pub asked: Asked,
    pub wanted: Wanted,
}

/// See [`Inquiry`].
pub(crate) enum Wanted {
    /// A group is asked, or told.
    Pg {
        verb: String,
    },
    /// The store is measured.
    Bench,
    /// The state of groups, sent to the manager now.
    Stats,
    /// Counters; `pinged`: how many other OSDs are pinged.
    Counters {
        pinged: usize,
    },
    ResetPerf,
    NumPgs,
    /// Rows of work beside requests.
    Work,
    /// Requests without an answer.
    Ops,
    /// The same, of those that are older than this.
    BlockedOps {
        late_s: f64,
    },
    /// Requests that were answered, in the form that a command shows them.
    History(fn(&History, Clock) -> Value),
    Memory,
    PeeringTimes,
    Places,
    Scrubs,
}

/// A shard's answer, with the command.
pub(crate) struct Said {
    pub asked: Asked,
    pub part: Part,
}

/// See [`Said`].
pub(crate) enum Part {
    /// The command is answered when it is done.
    Later,
    Answer(Answer),
    Shown(Value),
    Stats(Box<GroupStats>),
    Counters(Box<Perf>),
    NumPgs(usize),
    Work(Vec<Status>),
}
