//! What can go wrong on a connection. All of it ends the transport; what becomes of the session is the policy's to say.

use crate::{State, Tag};
use denc::DencError;
use thiserror::Error;

/// Why a transport can't go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MsgrError {
    #[error("the peer's banner is not one of msgr2")]
    Banner,
    #[error("the peer speaks the old protocol, msgr1")]
    Msgr1,
    #[error("the peer's msgr2 features {supported:#x} (required {required:#x}) don't go with ours")]
    BannerFeatures { supported: u64, required: u64 },
    #[error("{what}: crc {got:#010x} where the sender says {said:#010x}")]
    Crc { what: &'static str, got: u32, said: u32 },
    #[error("a frame with the unknown tag {0}")]
    UnknownTag(u8),
    #[error("{tag:?} in state {state:?}")]
    Unexpected { tag: Tag, state: State },
    #[error("a frame of {0} segments")]
    Segments(u8),
    #[error("the last of several segments is empty")]
    LastSegmentEmpty,
    #[error("{what} of {len} bytes, {max} are allowed")]
    TooLong { what: &'static str, len: u64, max: u64 },
    #[error("a message header of {0} bytes instead of 41")]
    HeaderLength(usize),
    #[error("a compressed frame although none was agreed on")]
    Compressed,
    #[error("a frame's late status {0:#04x} is neither complete nor aborted")]
    LateStatus(u8),
    #[error("a frame's authentication tag is wrong")]
    Tampered,
    #[error("the nonces of this connection are used up")]
    NoncesUsedUp,
    #[error("the connection secret has {0} bytes, 40 are needed")]
    SecretTooShort(usize),
    #[error("the peer's signature of the handshake is wrong")]
    Signature,
    #[error("authentication failed (errno {0})")]
    Auth(i32),
    #[error("more than {0} attempts to authenticate")]
    AuthAttempts(u32),
    #[error("the peer takes {theirs} connections only, and {ours} was offered: see the options ms_..._mode")]
    NoMode { ours: String, theirs: String },
    #[error("connection mode {0} was not asked for")]
    ConMode(u32),
    #[error("the peer is a {got}, not a {want}")]
    PeerKind { want: &'static str, got: &'static str },
    #[error("the peer is not the one that was dialled, or not at that address")]
    WrongPeer,
    #[error("the peer says that it is number {said}, and its ticket is {name}'s")]
    NotItsNumber { said: i64, name: String },
    #[error("the session at this peer's address is another one's")]
    NotItsSession,
    #[error("the peer asks for an address that is not ours")]
    NotUs,
    #[error("the peer says no address of its own")]
    NoAddress,
    #[error("the peer demands features {0:#x} that we lack")]
    MissingFeatures(u64),
    #[error("a dial by the peer that it has given up since")]
    Stale,
    #[error("both sides dialled; the peer's connection is waited for")]
    Waiting,
    #[error("a control frame: {0}")]
    Decode(#[from] DencError),
}
