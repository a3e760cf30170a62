//! How a recorded message lies in the files below `fixtures`: all that the wire's header says and what came behind it. `fixtures/messages/README.md`
//! has the table.

use bytes::Bytes;
use messages::RawMessage;

/// Numbers in front of the payload, in bytes.
const HEADER: usize = 30;

/// The message that begins there, and where it ends.
pub fn message_at(bytes: &Bytes, start: usize) -> (RawMessage, usize) {
    let u16_at = |at: usize| u16::from_le_bytes(bytes[start + at..start + at + 2].try_into().unwrap());
    let u32_at = |at: usize| u32::from_le_bytes(bytes[start + at..start + at + 4].try_into().unwrap()) as usize;
    let (front, middle, data) = (u32_at(18), u32_at(22), u32_at(26));
    let piece = |at: usize, len: usize| bytes.slice(start + at..start + at + len);
    let raw = RawMessage {
        kind: u16_at(0),
        version: u16_at(2),
        compat: u16_at(4),
        priority: u16_at(6),
        tid: u64::from_le_bytes(bytes[start + 8..start + 16].try_into().unwrap()),
        data_off: u16_at(16),
        front: piece(HEADER, front),
        middle: piece(HEADER + front, middle),
        data: if data == 0 { vec![] } else { vec![piece(HEADER + front + middle, data)] },
        data_crc: None,
    };
    (raw, start + HEADER + front + middle + data)
}
