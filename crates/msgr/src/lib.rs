//! msgr2.1, Ceph's wire protocol, as a state machine: bytes in, messages and bytes out.
//!
//! Holds framing (crc and secure mode), the handshake of both roles, sessions that survive their sockets, and the traits through which
//! authentication is asked. Holds no socket, clock or entropy (`net` has those), no keys (`cephx`) and no message's contents.
//!
//! ```text
//!   dialled:   Idle ─► Banner ─► Hello ─► Auth ─► AuthSign ─► [Compression] ─► Session ─► Ready
//!                                          (AUTH_BAD_METHOD, REPLY_MORE: stays)    │  ▲
//!                                                        SESSION_RESET, RETRY(_GLOBAL): asks again
//!                                                        WAIT: ─► Wait, until the peer's own dial arrives
//!   accepted:          Banner ─► Hello ─► Auth ⇄ AuthLater ─► AuthSign ─► [Compression] ─► Session ─► Ready
//!                                                                                            │  ▲
//!                                        CLIENT_IDENT or SESSION_RECONNECT: Deciding ────────┘  │
//!                                        (is there a session with this peer? whose socket stays?)
//!   a cut:     lossy:    ─► Closed
//!              lossless: ─► Standby (nothing to send) or Idle (dial again, after the backoff); messages without an ack are kept
//! ```
//!
//! In: [`Connection::next`] with what the socket gave, [`Connection::send`], [`Connection::fault`], [`Connection::start`] when a dial got
//! through, [`Connection::decide`] and [`Connection::auth_answer`]. Out: an [`Up`] at a time, and bytes in [`Connection::out`].
//!
//! Bounds: a handshake's frames are at most 64 KiB each and its transcript 256 KiB; a message at most 180 MiB.
//!
//! Source of the facts: Ceph 18.2 `doc/dev/msgr2.rst`, `src/msg/async/ProtocolV2.cc` (behaviour only).

#![forbid(unsafe_code)]

mod accept;
mod auth;
mod connection;
pub mod control;
pub mod direct;
mod error;
pub mod frame;
mod handshake;
mod header;
mod local;
pub mod planted;
mod policy;
mod read;
mod secure;
mod session;
mod write;

#[cfg(test)]
mod tests;

pub use accept::Decision;
pub use auth::{
    AuthClient, AuthClients, AuthExchange, AuthNone, AuthNoneClient, AuthPeer, AuthServer, AuthStart, AuthStep, Authenticated,
    ClientAuthenticated, ConMode, MODE_AUTHORIZER, MODE_MON, NoneRequest, method,
};
pub use connection::{Connection, Fault, Peer, State, Up};
pub use direct::{ReadTarget, ReceiveBuffer, ReceiveBuffers};
pub use error::MsgrError;
pub use frame::{Preamble, Tag};
pub use header::{HEADER, Header};
pub use local::{COMPRESSION, Local, REVISION_1};
pub use policy::Policy;
pub use read::{Frame, Limits, Reader};
pub use secure::{Cipher, SECRET};
pub use write::{SendQueue, Writer};
