//! Our side of each messenger, and a method with keys that both sides know, so that handshakes are signed and secure mode is there.

use crate::monitor::Who;
use crate::net::{Life, Port, Proc};
use crate::plan::Wire;
use bytes::Bytes;
use msgr::{
    AuthClient, AuthClients, AuthExchange, AuthPeer, AuthServer, AuthStart, AuthStep, Authenticated, ClientAuthenticated, ConMode, Local,
    MODE_AUTHORIZER, NoneRequest, Policy, method,
};
use std::rc::Rc;
use types::{EntityKind, EntityText};

const KEY: &[u8] = b"the session key of the plan";
const SECRET: [u8; msgr::SECRET] = [0x5a; msgr::SECRET];

/// As the shells set it up: OSDs have lossless sessions with each other on their own network, everything else is lossy.
pub(super) fn local(who: &Who, life: Life, port: Port, mode: Wire, seed: u64) -> Local {
    let mode = if mode == Wire::Secure { ConMode::SECURE } else { ConMode::CRC };
    let (kind, num) = match (life.0, port) {
        (Proc::Osd(id), _) => (EntityKind::OSD, i64::from(id)),
        (Proc::Mon, Port::Mgr) => (EntityKind::MGR, 0),
        (Proc::Mon, _) => (EntityKind::MON, 0),
        (Proc::Client(_) | Proc::Guest(_), _) => (EntityKind::CLIENT, -1),
    };
    let keyed = Rc::new(Keyed { mode, name: who.entity.clone(), global_id: who.global_id });
    let mut local = Local::new(kind, num, who.addrs.clone(), keyed.clone(), seed);
    local.auth_server = Some(keyed);
    local.accept_policy = match port {
        Port::Cluster => |kind| if kind == EntityKind::OSD { Policy::lossless_peer() } else { Policy::stateless_server() },
        _ => |_| Policy::stateless_server(),
    };
    // Half of them answer the question about compression, with no.
    if seed & 1 != 0 {
        local.msgr_features |= msgr::COMPRESSION;
    }
    local
}

/// Both ends: what is said is method `none`'s, and the keys are known beforehand.
#[derive(Clone)]
struct Keyed {
    mode: ConMode,
    name: EntityText,
    global_id: u64,
}

impl AuthServer for Keyed {
    fn methods(&self, _: EntityKind) -> Vec<u32> {
        vec![method::NONE]
    }
    fn modes(&self, _: EntityKind, _: u32) -> Vec<ConMode> {
        vec![self.mode]
    }
    fn begin(&self, _: AuthPeer) -> Result<Box<dyn AuthExchange>, i32> {
        Ok(Box::new(Exchange))
    }
}

struct Exchange;
impl AuthExchange for Exchange {
    fn request(&mut self, payload: Bytes) -> AuthStep {
        let Some(said) = NoneRequest::parse(payload) else { return AuthStep::Bad(types::errno::EACCES) };
        AuthStep::Done(Box::new(Authenticated {
            global_id: said.global_id,
            name: said.name,
            session_key: Bytes::from_static(KEY),
            connection_secret: Bytes::from_static(&SECRET),
            ..Authenticated::default()
        }))
    }
}

impl AuthClients for Keyed {
    fn exchange(&self, _: EntityKind) -> Box<dyn AuthClient> {
        Box::new(self.clone())
    }
}
impl AuthClient for Keyed {
    fn start(&mut self) -> Result<AuthStart, i32> {
        let said = NoneRequest { mode: MODE_AUTHORIZER, name: self.name.clone(), global_id: self.global_id };
        Ok(AuthStart { method: method::NONE, modes: vec![self.mode], payload: said.payload() })
    }
    fn reply_more(&mut self, _: Bytes) -> Result<Bytes, i32> {
        Err(types::errno::EACCES)
    }
    fn done(&mut self, _: u64, _: ConMode, _: Bytes) -> Result<ClientAuthenticated, i32> {
        Ok(ClientAuthenticated { session_key: Bytes::from_static(KEY), connection_secret: Bytes::from_static(&SECRET) })
    }
}
