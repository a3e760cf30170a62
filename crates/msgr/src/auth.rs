//! Authentication as the messenger sees it: payloads to and fro, and what is known at the end. Also the method `none`.
//!
//! Holds no keys and no tickets: those are `cephx`'s, which shells put behind these traits.
//!
//! Source of the facts: Ceph 18.2 `src/auth/Auth.h`, `src/auth/none/` and `src/mon/MonClient.cc`.

use bytes::Bytes;
use denc::{Decoder, Denc, Encoder};
use std::any::Any;
use std::fmt;
use std::rc::Rc;
use types::{EntityKind, EntityText};

/// Numbers of the methods.
pub mod method {
    pub const NONE: u32 = 1;
    pub const CEPHX: u32 = 2;
}

/// First byte of a request to a monitor that also opens a session.
pub const MODE_MON: u8 = 10;
/// First byte of a request with an authorizer, to all others.
pub const MODE_AUTHORIZER: u8 = 1;

const EACCES: i32 = 13;
const EOPNOTSUPP: i32 = 95;

/// How frames are protected once authentication is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ConMode(pub u32);

impl ConMode {
    pub const CRC: Self = Self(1);
    pub const SECURE: Self = Self(2);

    /// As options name them.
    pub fn names(modes: &[Self]) -> String {
        let name = |mode: &Self| match *mode {
            Self::CRC => "crc".to_string(),
            Self::SECURE => "secure".to_string(),
            Self(other) => other.to_string(),
        };
        modes.iter().map(name).collect::<Vec<_>>().join(" or ")
    }
}

/// What a server knows of a peer that authenticated.
#[derive(Clone, Default)]
pub struct Authenticated {
    /// The answer's payload.
    pub payload: Bytes,
    pub global_id: u64,
    pub name: EntityText,
    /// Empty without one (`none`): then the handshake isn't signed.
    pub session_key: Bytes,
    /// At least 40 bytes if the mode is secure.
    pub connection_secret: Bytes,
    /// Capabilities and whatever else the daemon wants to find on the connection.
    pub user: Option<Rc<dyn Any>>,
}

/// Without the secrets.
impl fmt::Debug for Authenticated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticated").field("global_id", &self.global_id).field("name", &self.name).finish_non_exhaustive()
    }
}

/// A server's answer to one request.
#[derive(Debug)]
pub enum AuthStep {
    Done(Box<Authenticated>),
    /// Ask for more.
    More(Bytes),
    /// Refused, with a positive errno; the peer may try another method.
    Bad(i32),
    /// Not to be had now: the connection is dropped and the peer comes back.
    Busy,
    /// The answer comes by [`crate::Connection::auth_answer`].
    Later,
}

/// What an exchange is about.
#[derive(Debug, Clone, Copy)]
pub struct AuthPeer {
    /// What the peer says it is; not proven.
    pub kind: EntityKind,
    pub method: u32,
    pub mode: ConMode,
}

/// The listening side's methods.
pub trait AuthServer {
    /// Methods that a peer of this kind may use.
    fn methods(&self, kind: EntityKind) -> Vec<u32>;
    /// Modes that this method allows.
    fn modes(&self, kind: EntityKind, method: u32) -> Vec<ConMode>;
    /// An exchange with one peer, or a positive errno.
    fn begin(&self, peer: AuthPeer) -> Result<Box<dyn AuthExchange>, i32>;
}

/// One peer's authentication.
pub trait AuthExchange {
    /// A request's payload: the first time AUTH_REQUEST's, then AUTH_REQUEST_MORE's.
    fn request(&mut self, payload: Bytes) -> AuthStep;
}

/// A client's first word.
#[derive(Debug, Clone)]
pub struct AuthStart {
    pub method: u32,
    /// Best first.
    pub modes: Vec<ConMode>,
    pub payload: Bytes,
}

/// What a client has in the end.
#[derive(Clone, Default)]
pub struct ClientAuthenticated {
    pub session_key: Bytes,
    pub connection_secret: Bytes,
}

/// Without the secrets.
impl fmt::Debug for ClientAuthenticated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAuthenticated").finish_non_exhaustive()
    }
}

/// The dialling side's methods: makes an exchange for each connection, anew after each cut.
pub trait AuthClients {
    fn exchange(&self, peer: EntityKind) -> Box<dyn AuthClient>;
}

/// One authentication of ours. Errors are positive errnos and end the connection.
pub trait AuthClient {
    fn start(&mut self) -> Result<AuthStart, i32>;
    /// The server refused `method` and names what it allows: another start, or the end.
    fn bad_method(&mut self, _method: u32, result: i32, _methods: &[u32], _modes: &[ConMode]) -> Result<AuthStart, i32> {
        Err(result.abs())
    }
    fn reply_more(&mut self, payload: Bytes) -> Result<Bytes, i32>;
    fn done(&mut self, global_id: u64, mode: ConMode, payload: Bytes) -> Result<ClientAuthenticated, i32>;
}

/// Method `none`, listening: every peer has the name that it gives.
///
/// A monitor gives new clients their global_id by `next_global_id`; elsewhere the peer's own word stands.
#[derive(Default)]
pub struct AuthNone {
    pub next_global_id: Option<Rc<dyn Fn() -> u64>>,
}

impl AuthServer for AuthNone {
    fn methods(&self, _: EntityKind) -> Vec<u32> {
        vec![method::NONE]
    }
    fn modes(&self, _: EntityKind, _: u32) -> Vec<ConMode> {
        vec![ConMode::CRC]
    }
    fn begin(&self, peer: AuthPeer) -> Result<Box<dyn AuthExchange>, i32> {
        if peer.method != method::NONE {
            return Err(EOPNOTSUPP);
        }
        Ok(Box::new(NoneExchange { next_global_id: self.next_global_id.clone() }))
    }
}

struct NoneExchange {
    next_global_id: Option<Rc<dyn Fn() -> u64>>,
}

impl AuthExchange for NoneExchange {
    fn request(&mut self, payload: Bytes) -> AuthStep {
        let Some(said) = NoneRequest::parse(payload) else { return AuthStep::Bad(EACCES) };
        let global_id = match &self.next_global_id {
            Some(next) if said.mode == MODE_MON && said.global_id == 0 => next(),
            _ => said.global_id,
        };
        AuthStep::Done(Box::new(Authenticated { global_id, name: said.name, ..Default::default() }))
    }
}

/// What method `none` says: to a monitor (mode 10) and as an authorizer (mode 1) the same fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoneRequest {
    pub mode: u8,
    pub name: EntityText,
    /// 0: none yet.
    pub global_id: u64,
}

impl NoneRequest {
    pub fn parse(payload: Bytes) -> Option<Self> {
        let mut d = Decoder::new(payload);
        let mode = d.u8().ok()?;
        if !matches!(mode, MODE_AUTHORIZER..=19) {
            return None;
        }
        Some(Self { mode, name: d.get().ok()?, global_id: d.u64().ok()? })
    }
    pub fn payload(&self) -> Bytes {
        let mut e = Encoder::new(denc::ALL_FEATURES);
        e.u8(self.mode);
        self.name.encode(&mut e);
        e.u64(self.global_id);
        e.finish()
    }
}

/// Method `none`, dialling.
#[derive(Debug, Clone)]
pub struct AuthNoneClient {
    pub name: EntityText,
    /// What a monitor gave us, 0 before.
    pub global_id: Rc<std::cell::Cell<u64>>,
}

impl AuthClients for AuthNoneClient {
    fn exchange(&self, peer: EntityKind) -> Box<dyn AuthClient> {
        let mode = if peer == EntityKind::MON { MODE_MON } else { MODE_AUTHORIZER };
        Box::new(NoneClientExchange { of: self.clone(), mode })
    }
}

struct NoneClientExchange {
    of: AuthNoneClient,
    mode: u8,
}

impl AuthClient for NoneClientExchange {
    fn start(&mut self) -> Result<AuthStart, i32> {
        let request = NoneRequest { mode: self.mode, name: self.of.name.clone(), global_id: self.of.global_id.get() };
        Ok(AuthStart { method: method::NONE, modes: vec![ConMode::CRC], payload: request.payload() })
    }
    fn reply_more(&mut self, _: Bytes) -> Result<Bytes, i32> {
        Err(EACCES)
    }
    fn done(&mut self, global_id: u64, _: ConMode, _: Bytes) -> Result<ClientAuthenticated, i32> {
        if self.mode == MODE_MON {
            self.of.global_id.set(global_id);
        }
        Ok(ClientAuthenticated::default())
    }
}

impl std::fmt::Debug for dyn AuthServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuthServer")
    }
}
