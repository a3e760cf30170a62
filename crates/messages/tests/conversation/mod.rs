//! Conversations of stock daemons, message by message, for the tests that have one side of them said again to a core of ours.
//!
//! `fixtures/osd-core/README.md` says how a record looks.

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
        let u16_at = |i: usize| u16::from_le_bytes(bytes[at + i..at + i + 2].try_into().unwrap());
        let u32_at = |i: usize| u32::from_le_bytes(bytes[at + i..at + i + 4].try_into().unwrap());
        let (front, middle, data) = (u32_at(23) as usize, u32_at(27) as usize, u32_at(31) as usize);
        let piece = |i: usize, len: usize| bytes.slice(at + i..at + i + len);
        let raw = RawMessage {
            kind: u16_at(5),
            version: u16_at(7),
            compat: u16_at(9),
            priority: u16_at(11),
            tid: u64::from_le_bytes(bytes[at + 13..at + 21].try_into().unwrap()),
            data_off: u16_at(21),
            front: piece(35, front),
            middle: piece(35 + front, middle),
            data: if data == 0 { Vec::new() } else { vec![piece(35 + front + middle, data)] },
        };
        said.push(Said { who: bytes[at], at_ms: u32_at(1).into(), raw });
        at += 35 + front + middle + data;
    }
    said
}
