//! Core against core: handshakes byte by byte, broken input, and worlds of two peers with sockets that break.

mod direct;
mod framing;
mod handshake;
mod hostile;
mod names;
mod world;

use crate::*;
use bytes::{Bytes, BytesMut};
use messages::RawMessage;
use std::rc::Rc;
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityText};

pub(crate) fn addr(n: u16) -> EntityAddr {
    EntityAddr::parse(&format!("v2:127.0.0.1:{n}/{n}"), AddrType::MSGR2).unwrap()
}

/// A method with keys, so that signatures and secure mode are exercised: both sides know the secret beforehand.
pub(crate) struct Keyed {
    pub mode: ConMode,
    pub key: &'static [u8],
    pub rounds: usize,
    /// In its ticket.
    pub name: EntityText,
}
const SECRET_BYTES: [u8; SECRET] = *b"0123456789abcdefABCDEFGHIJKLmnopqrstuvwxyz!?................1234";

impl AuthServer for Keyed {
    fn methods(&self, _: EntityKind) -> Vec<u32> {
        vec![method::CEPHX]
    }
    fn modes(&self, _: EntityKind, _: u32) -> Vec<ConMode> {
        vec![ConMode::SECURE, ConMode::CRC]
    }
    fn begin(&self, _: AuthPeer) -> Result<Box<dyn AuthExchange>, i32> {
        Ok(Box::new(KeyedExchange { left: self.rounds, name: None }))
    }
}
struct KeyedExchange {
    left: usize,
    name: Option<EntityText>,
}
impl AuthExchange for KeyedExchange {
    fn request(&mut self, payload: Bytes) -> AuthStep {
        let said = std::str::from_utf8(&payload).expect("text");
        let (left, name) = said.split_once(' ').map_or((said, None), |(left, name)| (left, EntityText::parse(name)));
        self.name = name.or(self.name.take());
        if left != self.left.to_string() {
            return AuthStep::Bad(13);
        }
        if self.left > 0 {
            self.left -= 1;
            return AuthStep::More(self.left.to_string().into());
        }
        AuthStep::Done(Box::new(Authenticated {
            payload: Bytes::from_static(b"welcome"),
            global_id: 77,
            name: self.name.take().expect("said with the first payload"),
            session_key: Bytes::from_static(b"key"),
            connection_secret: Bytes::from_static(&SECRET_BYTES),
            user: None,
        }))
    }
}
impl AuthClients for Keyed {
    fn exchange(&self, _: EntityKind) -> Box<dyn AuthClient> {
        Box::new(Keyed { mode: self.mode, key: self.key, rounds: self.rounds, name: self.name.clone() })
    }
}
impl AuthClient for Keyed {
    fn start(&mut self) -> Result<AuthStart, i32> {
        Ok(AuthStart { method: method::CEPHX, modes: vec![self.mode], payload: format!("{} {}", self.rounds, self.name).into() })
    }
    fn reply_more(&mut self, payload: Bytes) -> Result<Bytes, i32> {
        Ok(payload)
    }
    fn done(&mut self, _: u64, _: ConMode, payload: Bytes) -> Result<ClientAuthenticated, i32> {
        assert_eq!(payload, "welcome");
        Ok(ClientAuthenticated { session_key: Bytes::from_static(self.key), connection_secret: Bytes::from_static(&SECRET_BYTES) })
    }
}

pub(crate) fn keyed_local(kind: EntityKind, n: u16, mode: ConMode, policy: fn(EntityKind) -> Policy) -> Local {
    let id = if kind == EntityKind::OSD { n.to_string() } else { "x".into() };
    let auth = Rc::new(Keyed { mode, key: b"key", rounds: 2, name: EntityText::new(kind, id) });
    let mut local = Local::new(kind, n.into(), EntityAddrVec::one(addr(n)), auth.clone(), n.into());
    local.auth_server = Some(auth);
    local.accept_policy = policy;
    local
}

pub(crate) fn none_local(kind: EntityKind, n: u16) -> Local {
    let clients = AuthNoneClient { name: EntityText::new(kind, "a"), global_id: Default::default() };
    let mut local = Local::new(kind, n.into(), EntityAddrVec::one(addr(n)), Rc::new(clients), n.into());
    local.auth_server = Some(Rc::new(AuthNone { next_global_id: Some(Rc::new(|| 4242)) }));
    local
}

/// A client's connection and the server's, freshly dialled.
pub(crate) fn pair(client: Local, server: Local, policy: Policy) -> (Connection, Connection) {
    let target = server.addrs.borrow().clone();
    let mut a = Connection::dial(Rc::new(client), policy, server.kind, target);
    a.start();
    (a, Connection::accept(Rc::new(server), addr(1)))
}

/// Moves bytes both ways, at most `step` at a time, until nothing moves. What came up at both sides.
pub(crate) fn settle(a: &mut Connection, b: &mut Connection, step: usize) -> Result<(Vec<Up>, Vec<Up>), MsgrError> {
    let mut bufs = (BytesMut::new(), BytesMut::new());
    let mut ups = (Vec::new(), Vec::new());
    loop {
        let (to_b, to_a) = (a.out().take_flat(), b.out().take_flat());
        if to_a.is_empty() && to_b.is_empty() {
            return Ok(ups);
        }
        feed(a, &mut bufs.0, &to_a, step, &mut ups.0)?;
        feed(b, &mut bufs.1, &to_b, step, &mut ups.1)?;
    }
}

pub(crate) fn feed(c: &mut Connection, buf: &mut BytesMut, bytes: &[u8], step: usize, ups: &mut Vec<Up>) -> Result<(), MsgrError> {
    for chunk in bytes.chunks(step.max(1)) {
        buf.extend_from_slice(chunk);
        while let Some(up) = c.next(buf)? {
            if matches!(up, Up::Identified) {
                c.decide(None)?;
            }
            ups.push(up);
        }
    }
    while let Some(up) = c.next(buf)? {
        ups.push(up);
    }
    Ok(())
}

pub(crate) fn message(tid: u64, front: usize, middle: usize, data: &[usize]) -> RawMessage {
    let bytes = |n: usize| Bytes::from((0..n).map(|i| (i as u64 * 7 + tid) as u8).collect::<Vec<_>>());
    RawMessage {
        kind: 42,
        version: 8,
        compat: 3,
        priority: 63,
        tid,
        data_off: 0,
        front: bytes(front),
        middle: bytes(middle),
        data: data.iter().map(|n| bytes(*n)).collect(),
        data_crc: None,
    }
}
