//! What goes wrong with keys, and why an entity is not let in.

use denc::DencError;
use thiserror::Error;

/// A key that can't be read or can't be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    #[error("a key is not valid base64")]
    Base64,
    #[error("a key is malformed: {0}")]
    Malformed(#[from] DencError),
    #[error("a key of type {kind} has {have} bytes instead of {need} or more")]
    Short { kind: &'static str, have: usize, need: usize },
    #[error("a key of unknown type {0}")]
    UnknownType(u16),
    #[error("an empty key")]
    Empty,
    /// The wrong key, or bytes that were changed.
    #[error("what was encrypted can't be decrypted with this key")]
    Decrypt,
    #[error("line {line}: {what}")]
    Keyring { line: usize, what: String },
}

/// Why an exchange ends. [`Refusal::errno`] is what the peer is told; the text is for our log only.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    #[error("malformed payload: {0}")]
    Malformed(#[from] DencError),
    #[error("{0}")]
    Key(#[from] KeyError),
    #[error("no such entity: {0}")]
    UnknownEntity(String),
    #[error("the proof was made with another key")]
    WrongKey,
    #[error("{0}")]
    OldTicket(&'static str),
    #[error("no capability for this service")]
    NoCaps,
    #[error("there is no rotating secret for service {0}")]
    NoSecret(u32),
    #[error("the ticket was changed")]
    Tampered,
    #[error("the ticket has expired")]
    Expired,
    #[error("the ticket was made for global_id {ticket}, not {claimed}")]
    GlobalId { claimed: u64, ticket: u64 },
    #[error("a wrong answer to the challenge")]
    Challenge,
    #[error("request type {0:#x} is unknown here")]
    UnknownRequest(u16),
    #[error("{0}")]
    Protocol(&'static str),
}

impl Refusal {
    /// The positive errno that the peer is told.
    pub fn errno(&self) -> i32 {
        const EPERM: i32 = 1;
        const EIO: i32 = 5;
        const EACCES: i32 = 13;
        const EINVAL: i32 = 22;
        match self {
            Self::Malformed(_) => EPERM,
            Self::UnknownRequest(_) => EINVAL,
            Self::OldTicket("superfluous ticket") => EINVAL,
            Self::NoSecret(_) => EIO,
            _ => EACCES,
        }
    }
}
