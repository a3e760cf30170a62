//! Logins: from a connection's first payload to its entity and capabilities.

use super::AuthService;
use crate::kv::Batch;
use bytes::Bytes;
use cephx::proto::MonLogin;
use cephx::{AuthCapsInfo, CryptoKey, Entropy, ServerSession, ServiceSession, Verdict, mode, none::NoneAuthorizer};
use denc::Denc;
use std::fmt;
use types::{EntityKind, EntityText, UTime, errno};

/// Which of our two endpoints a connection came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    Mon,
    /// The manager endpoint.
    Mgr,
}

/// What comes of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send this; another payload must follow.
    More(Bytes),
    /// Let the peer in.
    Done(Box<Login>),
    /// Refuse with this positive errno.
    Bad(i32),
}

/// A client that was let in.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The last payload of the handshake.
    pub reply: Bytes,
    pub name: EntityText,
    pub global_id: u64,
    pub caps: AuthCapsInfo,
    /// Signs and encrypts; empty with auth none.
    pub session_key: CryptoKey,
    /// Keys of secure mode; empty in crc mode.
    pub connection_secret: Bytes,
}

/// Without the secrets.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("name", &self.name)
            .field("global_id", &self.global_id)
            .field("caps", &self.caps)
            .finish_non_exhaustive()
    }
}

/// One connection's handshake. Kept with the session afterwards, for renewals in MAuth messages.
#[derive(Debug, Clone, Default)]
pub struct Handshake {
    login: Option<ServerSession>,
    service: ServiceSession,
}

impl Handshake {
    /// A request over an established session: tickets anew, rotating secrets. None where the session has no cephx login.
    pub fn renew(
        &mut self,
        auth: &AuthService,
        payload: &Bytes,
        now: UTime,
        entropy: &mut dyn Entropy,
    ) -> Option<Result<Bytes, cephx::Refusal>> {
        let login = self.login.as_mut()?;
        Some(login.handle(auth, payload, None, now, entropy).map(|reply| reply.payload))
    }
}

impl AuthService {
    /// Takes the next payload of a handshake at `endpoint`. `secret_len` is how long a connection secret the connection's mode wants (0 in
    /// crc mode). What lands in `batch` must be durable before the answer goes out.
    #[allow(clippy::too_many_arguments)]
    pub fn handshake(
        &mut self,
        endpoint: Endpoint,
        state: &mut Handshake,
        method: u32,
        payload: &Bytes,
        secret_len: usize,
        now: UTime,
        entropy: &mut dyn Entropy,
        batch: &mut Batch,
    ) -> Step {
        match (endpoint, method) {
            (Endpoint::Mon, mode::METHOD_NONE) => self.none_login(payload, batch),
            (Endpoint::Mgr, mode::METHOD_NONE) => match NoneAuthorizer::from_bytes(payload) {
                Ok(who) => granted(who.name, who.global_id, Bytes::new()),
                Err(_) => Step::Bad(errno::EPERM),
            },
            (Endpoint::Mon, mode::METHOD_CEPHX) if state.login.is_none() && mode::ask(payload) == Some(mode::Ask::Mon) => {
                self.cephx_start(state, payload, entropy, batch)
            }
            (Endpoint::Mon, mode::METHOD_CEPHX) if state.login.is_some() => {
                self.cephx_continue(state, payload, secret_len, now, entropy, batch)
            }
            (_, mode::METHOD_CEPHX) => self.authorizer(endpoint, state, payload, secret_len, now, entropy),
            _ => Step::Bad(errno::EOPNOTSUPP),
        }
    }

    fn none_login(&mut self, payload: &Bytes, batch: &mut Batch) -> Step {
        let Ok(MonLogin { name, global_id }) = MonLogin::from_bytes(payload) else { return Step::Bad(errno::EPERM) };
        let global_id = if global_id == 0 { self.global_id(batch) } else { global_id };
        granted(name, global_id, Bytes::new())
    }

    fn cephx_start(&mut self, state: &mut Handshake, payload: &Bytes, entropy: &mut dyn Entropy, batch: &mut Batch) -> Step {
        let Ok(MonLogin { name, global_id }) = MonLogin::from_bytes(payload) else { return Step::Bad(errno::EPERM) };
        // An unknown name is asked to prove its key like any other, and refused like a wrong one: names are not told by it.
        let is_new = global_id == 0;
        let global_id = if is_new { self.global_id(batch) } else { global_id };
        let (login, challenge) = ServerSession::start(name, global_id, is_new, entropy);
        state.login = Some(login);
        Step::More(challenge)
    }

    fn cephx_continue(
        &mut self,
        state: &mut Handshake,
        payload: &Bytes,
        secret_len: usize,
        now: UTime,
        entropy: &mut dyn Entropy,
        batch: &mut Batch,
    ) -> Step {
        let login = state.login.as_mut().expect("the caller looked");
        let reply = match login.handle(self, payload, Some(secret_len), now, entropy) {
            Ok(reply) => reply,
            Err(refusal) => return Step::Bad(refusal.errno()),
        };
        let (name, global_id) = (login.name().clone(), login.global_id());
        if reply.used_pending_key {
            self.commit_pending(&name, batch);
        }
        let Some(granted) = reply.granted else { return Step::Bad(errno::EACCES) };
        Step::Done(Box::new(Login {
            reply: reply.payload,
            name,
            global_id,
            caps: granted.caps,
            session_key: granted.session_key,
            connection_secret: granted.connection_secret,
        }))
    }

    /// A peer with a ticket: all of them at the manager's endpoint, few at the monitor's.
    fn authorizer(
        &self,
        endpoint: Endpoint,
        state: &mut Handshake,
        payload: &Bytes,
        secret_len: usize,
        now: UTime,
        entropy: &mut dyn Entropy,
    ) -> Step {
        let kind = if endpoint == Endpoint::Mon { EntityKind::MON } else { EntityKind::MGR };
        let Some(secrets) = self.rotating.services.get(&u32::from(kind.0)) else { return Step::Bad(errno::EACCES) };
        match state.service.handle(&(kind, secrets), payload, secret_len, now, entropy) {
            Ok(Verdict::Challenge(reply)) => Step::More(reply),
            Ok(Verdict::Accept { reply, peer }) => {
                let caps = match endpoint {
                    Endpoint::Mgr => peer.caps,
                    // Tickets for monitors carry no capabilities: they are looked up.
                    Endpoint::Mon => match self.entities.get(&peer.name).and_then(|e| e.caps.get("mon")) {
                        Some(text) => AuthCapsInfo::from_text(text),
                        None => return Step::Bad(errno::EACCES),
                    },
                };
                Step::Done(Box::new(Login {
                    reply,
                    name: peer.name,
                    global_id: peer.global_id,
                    caps,
                    session_key: peer.session_key,
                    connection_secret: peer.connection_secret,
                }))
            }
            Err(refusal) => Step::Bad(refusal.errno()),
        }
    }
}

fn granted(name: EntityText, global_id: u64, reply: Bytes) -> Step {
    let (session_key, connection_secret) = (CryptoKey::default(), Bytes::new());
    Step::Done(Box::new(Login { reply, name, global_id, caps: AuthCapsInfo::all(), session_key, connection_secret }))
}
