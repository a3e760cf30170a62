//! The structures of CephX, field by field. Most start with a version byte and have no length, so they can't grow.

use crate::CryptoKey;
use bytes::Bytes;
use denc::{Decoder, Denc, DencError, Encoder};
use std::fmt;
use types::{EntityText, UTime};

/// Requests to a monitor, in the header of what follows the challenge.
pub const GET_AUTH_SESSION_KEY: u16 = 0x0100;
pub const GET_PRINCIPAL_SESSION_KEY: u16 = 0x0200;
pub const GET_ROTATING_KEY: u16 = 0x0400;

/// What an absent owner number is encoded as.
const NO_AUID: u64 = u64::MAX;

/// A struct behind a version byte that is written but, when read, not asked about.
macro_rules! versioned {
    ($name:ident, $v:literal, { $($field:ident),* $(,)? }) => {
        impl Denc for $name {
            fn encode(&self, e: &mut Encoder) { e.u8($v); $( Denc::encode(&self.$field, e); )* }
            fn decode(d: &mut Decoder) -> Result<Self, DencError> { d.u8()?; Ok(Self { $( $field: Denc::decode(d)? ),* }) }
        }
    };
}
pub(crate) use versioned;

/// What a service knows of a peer's rights: everything, or a capability text inside a buffer (length, then a counted string).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthCapsInfo {
    pub allow_all: bool,
    /// The encoded string; empty if the entity has no capability for the service.
    pub caps: Bytes,
}
versioned!(AuthCapsInfo, 1, { allow_all, caps });

impl AuthCapsInfo {
    pub fn all() -> Self {
        Self { allow_all: true, caps: Bytes::new() }
    }
    pub fn from_text(text: &str) -> Self {
        Self { allow_all: false, caps: text.to_string().to_bytes(0) }
    }
    /// The capability text; None if there is none or it can't be read.
    pub fn text(&self) -> Option<String> {
        if self.caps.is_empty() {
            return None;
        }
        String::from_bytes(&self.caps).ok()
    }
}

/// The holder of a ticket, and what it is for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthTicket {
    pub name: EntityText,
    pub global_id: u64,
    pub created: UTime,
    pub expires: UTime,
    pub caps: AuthCapsInfo,
    pub flags: u32,
}
/// How far apart a ticket and its session key may have been made.
const MADE_TOGETHER_S: u64 = 300;

impl ServiceTicketInfo {
    /// False for what no monitor puts into a ticket: then what is sealed without a tag was changed (`aes`, CVE-2025-30156). Flipped
    /// bits make noise of a block before the one that they change, and every field of that block but names is held against something
    /// here: monitors never give everything by a flag, nothing stands behind a capability, clocks are in order, and the session key is
    /// as old as the ticket.
    pub fn is_plausible(&self) -> bool {
        let AuthTicket { created, expires, caps, .. } = &self.ticket;
        let whole_caps = caps.caps.is_empty() || {
            let mut d = Decoder::new(caps.caps.clone());
            d.get::<String>().is_ok() && d.is_empty()
        };
        let clocks = [created, expires, &self.session_key.created].iter().all(|t| t.nsec <= 1_000_000_000);
        let together = self.session_key.created.wall_ns().abs_diff(created.wall_ns()) <= MADE_TOGETHER_S * 1_000_000_000;
        !caps.allow_all && whole_caps && clocks && together && created <= expires
    }
}

impl Denc for AuthTicket {
    fn encode(&self, e: &mut Encoder) {
        e.u8(2);
        self.name.encode(e);
        e.u64(self.global_id);
        e.u64(NO_AUID);
        self.created.encode(e);
        self.expires.encode(e);
        self.caps.encode(e);
        e.u32(self.flags);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let v = d.u8()?;
        let (name, global_id) = (d.get()?, d.u64()?);
        if v >= 2 && d.u64()? != NO_AUID {
            return Err(d.invalid("a ticket has no owner number"));
        }
        Ok(Self { name, global_id, created: d.get()?, expires: d.get()?, caps: d.get()?, flags: d.u32()? })
    }
}

/// A ticket sealed for a service: opaque to its bearer. `secret_id` says with which of the service's rotating secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TicketBlob {
    pub secret_id: u64,
    pub blob: Bytes,
}
versioned!(TicketBlob, 1, { secret_id, blob });

/// What is inside a [`TicketBlob`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceTicketInfo {
    pub ticket: AuthTicket,
    pub session_key: CryptoKey,
}
versioned!(ServiceTicketInfo, 1, { ticket, session_key });

/// What the holder of a ticket is told about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceTicket {
    pub session_key: CryptoKey,
    /// How long the ticket is good for, from now.
    pub validity: UTime,
}
versioned!(ServiceTicket, 1, { session_key, validity });

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerChallenge {
    pub challenge: u64,
}
versioned!(ServerChallenge, 1, { challenge });

/// The answer to a monitor's challenge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Authenticate {
    pub client_challenge: u64,
    pub proof: u64,
    pub old_ticket: TicketBlob,
    /// Services whose tickets are wanted in the same answer, as a set of entity kinds. Since version 2 (Nautilus).
    pub other_keys: u32,
    /// Clients older than version 3 may leave out the old ticket when they reconnect.
    pub legacy: bool,
}
impl Denc for Authenticate {
    fn encode(&self, e: &mut Encoder) {
        e.u8(3);
        e.u64(self.client_challenge);
        e.u64(self.proof);
        self.old_ticket.encode(e);
        e.u32(self.other_keys);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let v = d.u8()?;
        Ok(Self {
            client_challenge: d.u64()?,
            proof: d.u64()?,
            old_ticket: d.get()?,
            other_keys: if v >= 2 { d.u32()? } else { 0 },
            legacy: v < 3,
        })
    }
}

/// Which services' tickets are wanted, as a set of entity kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceTicketRequest {
    pub keys: u32,
}
versioned!(ServiceTicketRequest, 1, { keys });

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHeader {
    pub request_type: u16,
    pub status: i32,
}
denc::denc_struct!(ResponseHeader, bare, { request_type, status });

/// The open part of an authorizer; a sealed [`Authorize`] follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizerHead {
    pub global_id: u64,
    pub service: u32,
    pub ticket: TicketBlob,
}
versioned!(AuthorizerHead, 1, { global_id, service, ticket });

/// The sealed part of an authorizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Authorize {
    pub nonce: u64,
    /// The service's challenge and one, once there was a challenge.
    pub challenge_plus_one: Option<u64>,
}
impl Denc for Authorize {
    fn encode(&self, e: &mut Encoder) {
        e.u8(2);
        e.u64(self.nonce);
        e.bool(self.challenge_plus_one.is_some());
        e.u64(self.challenge_plus_one.unwrap_or(0));
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let v = d.u8()?;
        let nonce = d.u64()?;
        if v < 2 {
            return Ok(Self { nonce, challenge_plus_one: None });
        }
        let have = d.bool()?;
        let plus_one = d.u64()?;
        Ok(Self { nonce, challenge_plus_one: have.then_some(plus_one) })
    }
}

/// A service's proof that it could read the ticket, and the secret of the connection if it has one.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AuthorizeReply {
    pub nonce_plus_one: u64,
    pub connection_secret: Bytes,
}

/// Without the secrets.
impl fmt::Debug for AuthorizeReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizeReply").field("nonce_plus_one", &self.nonce_plus_one).finish_non_exhaustive()
    }
}
impl Denc for AuthorizeReply {
    fn encode(&self, e: &mut Encoder) {
        e.u8(if self.connection_secret.is_empty() { 1 } else { 2 });
        e.u64(self.nonce_plus_one);
        if !self.connection_secret.is_empty() {
            self.connection_secret.encode(e);
        }
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let v = d.u8()?;
        Ok(Self { nonce_plus_one: d.u64()?, connection_secret: if v >= 2 { d.blob()? } else { Bytes::new() } })
    }
}

/// The start of a login to a monitor: mode byte, name, and the global_id that is claimed back (0: none).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonLogin {
    pub name: EntityText,
    pub global_id: u64,
}
impl Denc for MonLogin {
    fn encode(&self, e: &mut Encoder) {
        e.u8(crate::mode::AUTH_MODE_MON);
        self.name.encode(e);
        e.u64(self.global_id);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        if !(crate::mode::AUTH_MODE_MON..=crate::mode::AUTH_MODE_MON_MAX).contains(&d.u8()?) {
            return Err(d.invalid("a login to a monitor starts with its mode"));
        }
        Ok(Self { name: d.get()?, global_id: d.u64()? })
    }
}
