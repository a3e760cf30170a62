//! What a command answers, and JSON as Ceph's formatters lay it out.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

/// The answer of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// The status text; the command line prints it to stderr.
    pub status: String,
    /// What the command line prints to stdout.
    pub data: Bytes,
    /// 0, or the (positive) error of a command that has something to show for it all the same.
    pub errno: i32,
}

impl Reply {
    pub fn status(text: impl Into<String>) -> Self {
        Self { status: text.into(), ..Self::default() }
    }
    pub fn data(data: impl Into<Bytes>) -> Self {
        Self { data: data.into(), ..Self::default() }
    }
    pub fn with_status(mut self, text: impl Into<String>) -> Self {
        self.status = text.into();
        self
    }
    /// The same, as an error.
    pub fn failed(mut self, errno: i32, text: impl Into<String>) -> Self {
        (self.errno, self.status) = (errno, text.into());
        self
    }
}

/// Compact JSON. The line break in front of it that people see is the command line's.
pub fn dump(value: &Value) -> String {
    format!("{value}\n")
}

/// JSON with four blanks a level.
pub fn pretty(value: &Value) -> String {
    let mut out = Vec::new();
    let mut ser = serde_json::Serializer::with_formatter(&mut out, serde_json::ser::PrettyFormatter::with_indent(b"    "));
    value.serialize(&mut ser).expect("a JSON value is serialisable");
    out.push(b'\n');
    String::from_utf8(out).expect("JSON is UTF-8")
}
