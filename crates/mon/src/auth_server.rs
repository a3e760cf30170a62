//! `mon_core`'s handshakes behind `msgr`'s traits.

use crate::AuthMode;
use crate::run::Shared;
use bytes::Bytes;
use cephx::mode;
use mon_core::{Endpoint, Handshake, Step};
use msgr::{AuthExchange, AuthPeer, AuthServer, AuthStep, Authenticated, ConMode};
use std::cell::RefCell;
use std::rc::Rc;
use types::{EntityKind, errno};

/// One of the two listening sides.
pub struct EndpointAuth {
    pub shared: Rc<Shared>,
    pub endpoint: Endpoint,
}

/// What is left on the connection for when it is ready.
pub struct LoggedIn {
    pub login: mon_core::Login,
    pub handshake: RefCell<Handshake>,
}

impl AuthServer for EndpointAuth {
    fn methods(&self, _: EntityKind) -> Vec<u32> {
        match self.shared.auth {
            AuthMode::Cephx => vec![mode::METHOD_CEPHX],
            AuthMode::None => vec![mode::METHOD_NONE],
        }
    }
    fn modes(&self, kind: EntityKind, method: u32) -> Vec<ConMode> {
        if method == mode::METHOD_NONE { vec![ConMode::CRC] } else { self.shared.modes(self.endpoint, kind) }
    }
    fn begin(&self, peer: AuthPeer) -> Result<Box<dyn AuthExchange>, i32> {
        if !self.methods(peer.kind).contains(&peer.method) {
            return Err(errno::EOPNOTSUPP);
        }
        let secret_len = if peer.mode == ConMode::SECURE { mode::SECURE_SECRET_LEN } else { 0 };
        let (shared, endpoint) = (self.shared.clone(), self.endpoint);
        Ok(Box::new(Exchange { shared, endpoint, method: peer.method, secret_len, state: Handshake::default() }))
    }
}

struct Exchange {
    shared: Rc<Shared>,
    endpoint: Endpoint,
    method: u32,
    secret_len: usize,
    state: Handshake,
}

impl AuthExchange for Exchange {
    fn request(&mut self, payload: Bytes) -> AuthStep {
        match self.shared.handshake(self.endpoint, &mut self.state, self.method, &payload, self.secret_len) {
            Step::More(bytes) => AuthStep::More(bytes),
            Step::Bad(errno) => AuthStep::Bad(errno),
            Step::Done(login) => AuthStep::Done(Box::new(Authenticated {
                payload: login.reply.clone(),
                global_id: login.global_id,
                name: login.name.clone(),
                session_key: login.session_key.secret.clone().into(),
                connection_secret: login.connection_secret.clone(),
                user: Some(Rc::new(LoggedIn { login: *login, handshake: RefCell::new(std::mem::take(&mut self.state)) })),
            })),
        }
    }
}
