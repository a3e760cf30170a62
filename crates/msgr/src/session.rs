//! What of a session outlives its socket: sequence numbers, cookies, and messages that the peer may not have.

use crate::planted::{Bug, planted};
use messages::RawMessage;
use std::collections::VecDeque;

/// All zero before the first socket and after a full reset.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// The last message received, and the last that was given a number.
    pub in_seq: u64,
    pub out_seq: u64,
    /// Made by the end that dialled first, and by the one that answered. 0: no session yet.
    pub client_cookie: u64,
    pub server_cookie: u64,
    /// Counts this session's sockets; tells an old dial from a new one.
    pub connect_seq: u64,
    /// Ours and the peer's count of dials to any peer.
    pub global_seq: u64,
    pub peer_global_seq: u64,
    /// Without a number yet.
    pub queue: VecDeque<RawMessage>,
    /// Sent, with their numbers; kept until they are acknowledged. Always empty in lossy sessions.
    pub sent: VecDeque<(u64, RawMessage)>,
    /// Messages and bytes received since we last said which was the last.
    pub unacked: u32,
    pub unacked_bytes: usize,
}

impl Session {
    /// The peer has all messages up to `seq`.
    #[inline]
    pub fn acked(&mut self, seq: u64) {
        while self.sent.front().is_some_and(|(n, _)| *n <= seq) && !planted(Bug::IgnoreAck) {
            self.sent.pop_front();
        }
    }
    /// Numbers start again: what was sent is to be sent as if for the first time, before all else.
    pub fn renumber(&mut self) {
        while let Some((_, message)) = self.sent.pop_back() {
            self.queue.push_front(message);
        }
        self.out_seq = 0;
        self.in_seq = 0;
        self.unacked = 0;
        self.unacked_bytes = 0;
    }
    pub fn has_messages(&self) -> bool {
        !self.queue.is_empty() || !self.sent.is_empty()
    }
    /// Bytes of the messages that are kept.
    pub fn kept_bytes(&self) -> usize {
        self.queue.iter().chain(self.sent.iter().map(|(_, m)| m)).map(RawMessage::len).sum()
    }
}
