//! `msgr` on TCP: sockets, timers and one task a connection, all on one thread.
//!
//! Holds the listener, dialling and redialling, reading and writing in batches, and the callbacks by which daemons hear of it
//! ([`Dispatcher`]); beside that the glue to `cephx` and to the monitor client, and the null responder. The messenger itself knows no
//! message but by its kind, and authentication only through the [`msgr::Local`] that it is given.
//!
//! How a turn goes: a connection's task reads what the socket has, every whole frame in it is dispatched at once, and what was sent on the
//! connection meanwhile goes out with one vectored write. What is sent from elsewhere (a timer, a commit, another connection) wakes
//! the task once, and leaves with everything else that the same turn of the loop sends there.
//!
//! Bounds: half-open handshakes ([`Config::half_open_max`], shared by source; 2 s for the banner, 10 s for the rest); bytes that wait to be sent on a connection, above which nothing
//! is read from it ([`Config::out_max`]), so that a peer that doesn't take its answers can't ask for more; a read buffer of 64 KiB a
//! connection, or of one message's size; for clients' messages and answers one budget a daemon ([`Messenger::set_budget`]); for large data one piece of the memory that the daemon gives for them ([`msgr::direct`]), if it has any left.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a shell: it has clocks, files and threads
#![forbid(unsafe_code)]

pub mod admin_socket;
pub mod auth_cephx;
mod conn;
mod dispatch;
mod drive;
mod gate;
pub mod half_open;
pub mod host;
mod listen;
mod messenger;
pub mod modes;
pub mod mon_session;
pub mod null;
mod planted;
mod pump;
mod socket;
#[cfg(test)]
mod tests {
    mod budget;
    mod pump;
}

pub use conn::{Conn, ConnId};
pub use dispatch::Dispatcher;
pub use drive::DialError;
pub use listen::listen;
pub use messenger::{Config, Messenger};
