//! A message as the messenger carries it: what of its header matters above the messenger, and three segments.

use bytes::Bytes;
use denc::DencError;

/// Priorities as Ceph uses them: higher goes first.
pub mod priority {
    pub const LOW: u16 = 64;
    pub const DEFAULT: u16 = 127;
    pub const HIGH: u16 = 196;
    pub const HIGHEST: u16 = 255;
}

/// `ceph_msg_header2` less what the messenger fills in by itself (sequence numbers, lengths), and the segments.
#[derive(Debug, Clone, Default)]
pub struct RawMessage {
    /// `CEPH_MSG_*` / `MSG_*`.
    pub kind: u16,
    pub version: u16,
    /// The oldest reader that can make sense of it.
    pub compat: u16,
    pub priority: u16,
    /// The sender's number for a request; replies carry the request's.
    pub tid: u64,
    /// Where the data would be put in a page: a hint for alignment, only its low bits matter.
    pub data_off: u16,
    pub front: Bytes,
    pub middle: Bytes,
    /// The data segment, in pieces that are sent one behind the other. What is received is one piece or none.
    pub data: Vec<Bytes>,
    /// The data segment's crc32c from `u32::MAX` on, where it is known: the sender has it from where the bytes come from, a receiver in crc mode from
    /// the frame that it checked.
    pub data_crc: Option<u32>,
}

impl RawMessage {
    pub fn data_len(&self) -> usize {
        self.data.iter().map(Bytes::len).sum()
    }
    /// The data in one piece: free for none or one, a copy otherwise.
    pub fn data_flat(&self) -> Bytes {
        match &self.data[..] {
            [] => Bytes::new(),
            [one] => one.clone(),
            many => many.concat().into(),
        }
    }
    /// Bytes of all segments.
    pub fn len(&self) -> usize {
        self.front.len() + self.middle.len() + self.data_len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A message that has a struct of its own.
pub trait Message: Sized {
    /// `CEPH_MSG_*` / `MSG_*`.
    const KIND: u16;
    /// Encodes for a peer with `features`. The `tid` is left 0 for the sender to set unless the struct has one.
    fn encode(&self, features: u64) -> RawMessage;
    /// Decodes; `raw.kind` is [`Message::KIND`], which is the caller's to have looked at.
    fn decode(raw: &RawMessage) -> Result<Self, DencError>;
}
