//! Our identity towards monitors and services, with either method: what a monitor client and connections to services share.

use crate::client::{ClientAuth, Progress, Secrets};
use crate::proto::MonLogin;
use crate::{Authorizer, Entropy, Refusal, mode, none};
use bytes::Bytes;
use denc::Denc;
use types::{EntityKind, EntityText, UTime};

/// Our name and number, and with cephx our key and tickets.
#[derive(Debug, Clone)]
pub enum Identity {
    None { name: EntityText, global_id: u64 },
    Cephx(ClientAuth),
}

impl Identity {
    pub fn none(name: EntityText) -> Self {
        Self::None { name, global_id: 0 }
    }
    pub fn method(&self) -> u32 {
        match self {
            Self::None { .. } => mode::METHOD_NONE,
            Self::Cephx(_) => mode::METHOD_CEPHX,
        }
    }
    pub fn name(&self) -> &EntityText {
        match self {
            Self::None { name, .. } => name,
            Self::Cephx(auth) => auth.name(),
        }
    }
    /// 0 before the first login.
    pub fn global_id(&self) -> u64 {
        match self {
            Self::None { global_id, .. } => *global_id,
            Self::Cephx(auth) => auth.global_id(),
        }
    }
    /// Forgets number and tickets.
    pub fn forget(&mut self) {
        match self {
            Self::None { global_id, .. } => *global_id = 0,
            Self::Cephx(auth) => auth.forget(),
        }
    }
    /// The first payload to a monitor.
    pub fn login(&mut self) -> Bytes {
        match self {
            Self::None { name, global_id } => MonLogin { name: name.clone(), global_id: *global_id }.to_bytes(0),
            Self::Cephx(auth) => auth.login(),
        }
    }
    pub fn handle_challenge(&mut self, payload: &Bytes, now: UTime, entropy: &mut dyn Entropy) -> Result<Bytes, Refusal> {
        match self {
            Self::None { .. } => Err(Refusal::Protocol("a challenge without cephx")),
            Self::Cephx(auth) => auth.handle_challenge(payload, now, entropy),
        }
    }
    pub fn handle_done(&mut self, id: u64, payload: &Bytes, now: UTime) -> Result<Secrets, Refusal> {
        match self {
            Self::None { global_id, .. } => {
                *global_id = id;
                Ok(Secrets::default())
            }
            Self::Cephx(auth) => auth.handle_done(id, payload, now),
        }
    }
    /// True if a service of this kind can be dialled: always without cephx, with a ticket otherwise.
    pub fn can_dial(&self, service: EntityKind, now: UTime) -> bool {
        match self {
            Self::None { .. } => self.global_id() != 0,
            Self::Cephx(auth) => auth.has_ticket(service, now),
        }
    }
    /// The first payload to a service, and with cephx what the exchange goes on with.
    pub fn authorizer(
        &self,
        service: EntityKind,
        now: UTime,
        entropy: &mut dyn Entropy,
    ) -> Result<Option<(Bytes, Option<Authorizer>)>, Refusal> {
        match self {
            Self::None { name, global_id } => Ok(Some((none::authorizer(name, *global_id), None))),
            Self::Cephx(auth) => Ok(auth.authorizer(service, now, entropy)?.map(|a| (a.payload.clone(), Some(a)))),
        }
    }
    /// A service did not take our ticket: the next renewal brings another.
    pub fn doubt(&mut self, service: EntityKind) {
        if let Self::Cephx(auth) = self {
            auth.doubt(service);
        }
    }
    /// What to ask in a MAuth now, if any ticket is due.
    pub fn renewal(&self, now: UTime, entropy: &mut dyn Entropy) -> Result<Option<Bytes>, Refusal> {
        match self {
            Self::None { .. } => Ok(None),
            Self::Cephx(auth) => auth.renewal(now, entropy),
        }
    }
    /// What a daemon asks to learn its service's secrets.
    pub fn rotating_request(&self) -> Option<Bytes> {
        match self {
            Self::None { .. } => None,
            Self::Cephx(auth) => Some(auth.rotating_request()),
        }
    }
    pub fn handle_reply(&mut self, payload: &Bytes, now: UTime, entropy: &mut dyn Entropy) -> Result<Progress, Refusal> {
        match self {
            Self::None { .. } => Ok(Progress::Done),
            Self::Cephx(auth) => auth.handle_reply(payload, now, entropy),
        }
    }
}
