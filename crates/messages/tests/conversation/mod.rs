//! Conversations of stock daemons, message by message, for the tests that have one side of them said again to a core of ours.
//!
//! `fixtures/osd-core/README.md` says how a record looks.

#[path = "../record/mod.rs"]
mod record;

use bytes::Bytes;
use messages::RawMessage;

/// One message, in the order in which they were on the wire.
pub struct Said {
    /// Twice the connection's number, and one more if the daemon that dialled says it.
    pub who: u8,
    /// Since the first.
    pub at_ms: u64,
    pub raw: RawMessage,
}

/// Reads a file below `fixtures`.
pub fn read(file: &str) -> Vec<Said> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(file);
    let bytes = Bytes::from(std::fs::read(path).unwrap());
    let (mut said, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let (who, at_ms) = (bytes[at], u32::from_le_bytes(bytes[at + 1..at + 5].try_into().unwrap()).into());
        let (raw, end) = record::message_at(&bytes, at + 5);
        said.push(Said { who, at_ms, raw });
        at = end;
    }
    said
}
