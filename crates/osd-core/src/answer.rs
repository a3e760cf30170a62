//! What a command is answered with.

use serde_json::Value;

/// A positive errno or 0, a line, and output.
pub(crate) type Answer = (i32, String, Vec<u8>);

pub(crate) fn ok(value: Value) -> Answer {
    (0, String::new(), pretty(&value))
}

/// Pretty as stock prints: four spaces, a newline at the end.
pub(crate) fn pretty(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut ser = serde_json::Serializer::with_formatter(&mut out, formatter);
    serde::Serialize::serialize(value, &mut ser).expect("a value can be written to memory");
    out.push(b'\n');
    out
}
