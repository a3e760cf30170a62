//! A service (OSD, manager, monitor as a service): a peer that shows an authorizer is challenged, always, and then let in.
//!
//! An authorizer that was recorded and is shown again answers a challenge that was never asked, so it is refused.
//!
//! A ticket that has run out is refused, too, where 18.2 takes it as long as its secret is known (up to two lives more). Clients don't
//! notice: they renew at three quarters of a ticket's life by their own clock, so what they show is out of date only when they could not
//! reach a monitor for a quarter of it (15 minutes), or their clock runs that much slower than the service's.

use crate::proto::{Authorize, AuthorizeReply, AuthorizerHead, ServerChallenge, ServiceTicketInfo};
use crate::{AuthCapsInfo, CryptoKey, Entropy, Refusal, RotatingSecrets, Usage};
use bytes::Bytes;
use denc::{Decoder, Denc};
use std::fmt;
use types::{EntityKind, EntityText, UTime};

/// The secrets that tickets for a service may be sealed with.
pub trait ServiceKeys {
    fn service_key(&self, service: u32, secret_id: u64) -> Option<&CryptoKey>;
}

/// A daemon knows the secrets of its own kind only.
impl ServiceKeys for (EntityKind, &RotatingSecrets) {
    fn service_key(&self, service: u32, secret_id: u64) -> Option<&CryptoKey> {
        if service == u32::from(self.0.0) { self.1.get(secret_id) } else { None }
    }
}

/// The peer that was let in.
#[derive(Clone, PartialEq, Eq)]
pub struct Peer {
    pub name: EntityText,
    pub global_id: u64,
    pub caps: AuthCapsInfo,
    /// When its ticket runs out.
    pub expires: UTime,
    pub session_key: CryptoKey,
    /// Empty in crc mode.
    pub connection_secret: Bytes,
}

/// Without the secrets.
impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("name", &self.name)
            .field("global_id", &self.global_id)
            .field("caps", &self.caps)
            .finish_non_exhaustive()
    }
}

/// What a payload leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Send this; another authorizer must follow.
    Challenge(Bytes),
    /// Send this and let the peer in.
    Accept { reply: Bytes, peer: Box<Peer> },
}

/// The service as one connection sees it.
#[derive(Debug, Clone, Default)]
pub struct ServiceSession {
    challenge: Option<u64>,
}

impl ServiceSession {
    /// Looks at an authorizer. `secret_len` is how long a connection secret the connection's mode wants (0: none).
    pub fn handle(
        &mut self,
        keys: &dyn ServiceKeys,
        payload: &Bytes,
        secret_len: usize,
        now: UTime,
        entropy: &mut dyn Entropy,
    ) -> Result<Verdict, Refusal> {
        let (info, authorize) = open(keys, &mut Decoder::new(payload.clone()), now)?;
        // A challenge is good for one answer.
        let asked = self.challenge.take();
        let (Some(asked), Some(answer)) = (asked, authorize.challenge_plus_one) else {
            if asked.is_some() {
                return Err(Refusal::Challenge);
            }
            let challenge = entropy.u64();
            self.challenge = Some(challenge);
            return Ok(Verdict::Challenge(info.session_key.seal(Usage::AUTHORIZE_CHALLENGE, &ServerChallenge { challenge }, entropy)?));
        };
        if asked.wrapping_add(1) != answer {
            return Err(Refusal::Challenge);
        }
        let mut secret = vec![0; secret_len];
        entropy.fill(&mut secret);
        let connection_secret = Bytes::from(secret);
        let reply = AuthorizeReply { nonce_plus_one: authorize.nonce.wrapping_add(1), connection_secret: connection_secret.clone() };
        let mut e = denc::Encoder::new(0);
        info.session_key.seal_into(Usage::AUTHORIZE_REPLY, &reply, entropy, &mut e)?;
        let ServiceTicketInfo { ticket, session_key } = info;
        let peer = Peer {
            name: ticket.name,
            global_id: ticket.global_id,
            caps: ticket.caps,
            expires: ticket.expires,
            session_key,
            connection_secret,
        };
        Ok(Verdict::Accept { reply: e.finish(), peer: Box::new(peer) })
    }
}

/// Opens an authorizer: its ticket with a secret of the service, the rest with the ticket's session key.
pub(crate) fn open(keys: &dyn ServiceKeys, d: &mut Decoder, now: UTime) -> Result<(ServiceTicketInfo, Authorize), Refusal> {
    let head: AuthorizerHead = d.get()?;
    let secret = keys.service_key(head.service, head.ticket.secret_id).ok_or(Refusal::NoSecret(head.service))?;
    let info: ServiceTicketInfo = secret.open(Usage::TICKET_INFO, &head.ticket.blob)?;
    if !info.is_plausible() {
        return Err(Refusal::Tampered);
    }
    if info.ticket.global_id != head.global_id {
        return Err(Refusal::GlobalId { claimed: head.global_id, ticket: info.ticket.global_id });
    }
    if info.ticket.expires <= now {
        return Err(Refusal::Expired);
    }
    let authorize = info.session_key.open_from(Usage::AUTHORIZE, d)?;
    Ok((info, authorize))
}

/// The bytes of an authorizer.
pub(crate) fn build(head: &AuthorizerHead, key: &CryptoKey, authorize: &Authorize, entropy: &mut dyn Entropy) -> Result<Bytes, Refusal> {
    let mut e = denc::Encoder::new(0);
    head.encode(&mut e);
    key.seal_into(Usage::AUTHORIZE, authorize, entropy, &mut e)?;
    Ok(e.finish())
}
