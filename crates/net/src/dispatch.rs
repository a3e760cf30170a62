//! What a daemon hears of its connections.

use crate::{Conn, DialError};
use messages::RawMessage;

/// Called on the reactor's thread, from the connection's own task: never from inside `send`, `close` or `connect`, which take effect
/// after the callback that called them. Callbacks don't block.
#[allow(unused_variables)]
pub trait Dispatcher {
    /// A message. Its segments share the buffer that it was read into: a dispatcher that keeps a small part for long copies it out.
    fn on_message(&self, conn: &Conn, message: RawMessage);
    /// True if a client's message takes a slot of the budget's requests until its permit is dropped.
    fn is_request(&self, message: &RawMessage) -> bool {
        true
    }
    /// About how many bytes the answer to this message will have. Asked only while answers use most of what they may.
    fn answer_bytes(&self, message: &RawMessage) -> u64 {
        0
    }
    /// All messages of one read have been given to [`Dispatcher::on_message`]; what is sent now is in the same write.
    fn on_batch(&self, conn: &Conn) {}
    /// A session that we dialled is open, for the first time or again.
    fn on_connect(&self, conn: &Conn) {}
    /// A session that the peer dialled is open, for the first time or again.
    fn on_accept(&self, conn: &Conn) {}
    /// A session is over and was not ended by [`Conn::close`]: a lossy one was cut.
    fn on_reset(&self, conn: &Conn) {}
    /// The peer of a lossless session has lost it; the connection goes on with a new one, without the messages that were under way.
    fn on_remote_reset(&self, conn: &Conn) {}
    /// A dial failed, for this reason and for the `attempts`th time in a row; it is tried again until [`Conn::close`].
    fn on_dial_failed(&self, conn: &Conn, why: &DialError, attempts: u32) {}
}
