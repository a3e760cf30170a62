//! Commands as daemons describe them (`get_command_descriptions`), and what a person's words mean by such a description.
//!
//! Holds the description (here), the types of its parameters (`kind`), the fitting of words to it (`fit`), the choice among many (`choose`) and
//! the text of `--help` (`help`). Nothing here knows a single command: a cluster of another release brings its own.
//!
//! Source of the facts: the answers of 16.2 to 20.2, and how their `ceph` program behaves.

mod choose;
mod fit;
mod help;
mod kind;
#[cfg(test)]
mod tests;

pub use choose::{Unmatched, choose};
pub use fit::{Misfit, Why};
pub use help::table;
pub use kind::Kind;

use serde_json::{Map, Value};

/// Bits of [`Description::flags`].
pub mod flag {
    pub const OBSOLETE: u64 = 2;
    pub const DEPRECATED: u64 = 4;
    /// The active manager answers it, not the monitor.
    pub const MGR: u64 = 8;
    /// Is to be sent again and again (`--period`).
    pub const POLL: u64 = 16;
    pub const HIDDEN: u64 = 32;
}

/// A parameter of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    pub name: String,
    pub kind: Kind,
    pub required: bool,
    /// Takes any number of values.
    pub many: bool,
    /// False: given by name only (`--key-type aes`).
    pub positional: bool,
}

/// A literal word or a parameter, in the order in which they are written.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Word(String),
    Param(Param),
}

/// A command.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    pub parts: Vec<Part>,
    pub help: String,
    pub flags: u64,
}

/// True for `false`, `"false"` and their kin: older releases write booleans as texts.
fn says_no(value: &Value) -> bool {
    matches!(value, Value::Bool(false)) || value.as_str().is_some_and(|s| s.eq_ignore_ascii_case("false"))
}

impl Param {
    fn of(fields: &Map<String, Value>) -> Option<Self> {
        let text = |key: &str| fields.get(key).and_then(Value::as_str);
        Some(Self {
            name: text("name")?.into(),
            kind: Kind::of(text("type")?, &text),
            required: !fields.get("req").is_some_and(says_no),
            many: text("n").is_some_and(|n| n.eq_ignore_ascii_case("n")),
            positional: !fields.get("positional").is_some_and(says_no),
        })
    }
}

impl Description {
    /// Of one row; `None` if it is none.
    fn of(row: &Value) -> Option<Self> {
        let part = |part: &Value| match part {
            Value::String(word) => Some(Part::Word(word.clone())),
            Value::Object(fields) => Param::of(fields).map(Part::Param),
            _ => None,
        };
        Some(Self {
            parts: row.get("sig")?.as_array()?.iter().map(part).collect::<Option<_>>()?,
            help: row.get("help").and_then(Value::as_str).unwrap_or_default().into(),
            flags: row.get("flags").and_then(Value::as_u64).unwrap_or(0),
        })
    }
    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
    /// The literal words, joined: a request's `prefix`.
    pub fn prefix(&self) -> String {
        let words = self.parts.iter().filter_map(|p| if let Part::Word(w) = p { Some(w.as_str()) } else { None });
        words.collect::<Vec<_>>().join(" ")
    }
    pub fn params(&self) -> impl Iterator<Item = &Param> {
        self.parts.iter().filter_map(|p| if let Part::Param(p) = p { Some(p) } else { None })
    }
    /// How many of its parts have to be given.
    pub fn required(&self) -> usize {
        self.parts.iter().filter(|p| !matches!(p, Part::Param(p) if !p.required)).count()
    }
}

/// Reads the answer to `get_command_descriptions`. Rows that can't be read are left out: a newer release may have forms that we don't know.
pub fn parse(json: &[u8]) -> Result<Vec<Description>, serde_json::Error> {
    let all: Map<String, Value> = serde_json::from_slice(json)?;
    let for_people = |row: &&Value| row.get("avail").and_then(Value::as_str).is_none_or(|avail| avail.contains("cli"));
    Ok(all.values().filter(for_people).filter_map(Description::of).collect())
}
