//! What a command answers, and JSON as Ceph's formatters lay it out; XML is in `xml`.

use super::xml;
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

/// Commands whose compact answer has no line feed at its end, as 18.2 has it. (The command line adds one for people.)
const WITHOUT_LINE_FEED: &[&str] = &[
    "auth export",
    "auth get",
    "auth get-key",
    "auth get-or-create",
    "auth get-or-create-key",
    "auth list",
    "auth ls",
    "auth print-key",
    "auth print_key",
    "auth rotate",
    "config dump",
    "config get",
    "config help",
    "config log",
    "config ls",
    "features",
    "fsid",
    "log last",
    "mgr dump",
    "mgr metadata",
    "mgr module ls",
    "mgr services",
    "mgr stat",
    "mgr versions",
    "osd blacklist ls",
    "osd blocklist ls",
    "osd count-metadata",
    "osd crush class ls",
    "osd crush class ls-osd",
    "osd crush get-device-class",
    "osd crush ls",
    "osd crush rule list",
    "osd crush rule ls",
    "osd crush rule ls-by-class",
    "osd crush tree",
    "osd crush weight-set dump",
    "osd crush weight-set ls",
    "osd getmaxosd",
    "osd map",
    "osd numa-status",
    "osd pool application get",
    "osd pool get",
    "osd pool ls",
    "osd stat",
    "osd utilization",
    "osd versions",
    "pg map",
    "report",
    "time-sync-status",
    "versions",
];

/// An answer in the form that was asked for; None for text.
pub fn formatted(format: &str, prefix: &str, value: &Value) -> Option<String> {
    let ends = !WITHOUT_LINE_FEED.contains(&prefix);
    Some(match format {
        "json" => format!("{value}{}", if ends { "\n" } else { "" }),
        "json-pretty" => pretty(value),
        "xml" => xml::dump(prefix, value, false) + if ends { "\n" } else { "" },
        "xml-pretty" => xml::dump(prefix, value, true) + if ends { "" } else { "\n" },
        _ => return None,
    })
}

/// Compact JSON, with a line feed.
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
