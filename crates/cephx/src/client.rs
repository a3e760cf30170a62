//! The side that logs in to a monitor: our clients and our OSDs.

use crate::mode::METHOD_CEPHX;
use crate::proto::{
    Authenticate, Authorize, AuthorizeReply, AuthorizerHead, GET_AUTH_SESSION_KEY, GET_PRINCIPAL_SESSION_KEY, GET_ROTATING_KEY, MonLogin,
    ResponseHeader, ServerChallenge, ServiceTicket, ServiceTicketRequest, TicketBlob,
};
use crate::rotating::add;
use crate::{CryptoKey, Entropy, Refusal, RotatingSecrets, Usage, service};
use bytes::Bytes;
use denc::{Decoder, Denc, Encoder};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use types::{EntityKind, EntityText, UTime};

const AUTH: u32 = EntityKind::AUTH.0 as u32;
const MGR: u32 = EntityKind::MGR.0 as u32;

/// A ticket that we hold.
#[derive(Debug, Clone, Default)]
struct Held {
    session_key: CryptoKey,
    blob: TicketBlob,
    renew_after: UTime,
    expires: UTime,
    /// Cleared when a new login starts.
    valid: bool,
}

impl Held {
    fn usable(&self, now: UTime) -> bool {
        self.valid && now < self.expires
    }
    fn due(&self, now: UTime) -> bool {
        !self.valid || now >= self.renew_after
    }
}

/// What a finished login gives to the connection.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    pub session_key: CryptoKey,
    /// Empty in crc mode.
    pub connection_secret: Bytes,
}

/// Without the secrets.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// What an answer in a MAuthReply leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Nothing more to ask now.
    Done,
    /// Send this in another MAuth.
    Ask(Bytes),
    /// The secrets of our own service.
    Rotating(RotatingSecrets),
}

/// One identity: its key, its number and the tickets that it holds. Outlives connections, so that the number can be claimed back.
#[derive(Debug, Clone)]
pub struct ClientAuth {
    name: EntityText,
    key: CryptoKey,
    want: u32,
    global_id: u64,
    challenge: Option<u64>,
    tickets: BTreeMap<u32, Held>,
}

impl ClientAuth {
    /// `want`: the services whose tickets are needed, besides the monitors'.
    pub fn new(name: EntityText, key: CryptoKey, want: &[EntityKind]) -> Self {
        let want = want.iter().fold(AUTH, |set, kind| set | u32::from(kind.0));
        Self { name, key, want, global_id: 0, challenge: None, tickets: BTreeMap::new() }
    }
    pub fn method(&self) -> u32 {
        METHOD_CEPHX
    }
    pub fn name(&self) -> &EntityText {
        &self.name
    }
    /// 0 before the first login.
    pub fn global_id(&self) -> u64 {
        self.global_id
    }
    /// Forgets number and tickets: for a monitor that no longer accepts the old ticket.
    pub fn forget(&mut self) {
        self.global_id = 0;
        self.challenge = None;
        self.tickets.clear();
    }

    /// The first payload of a login.
    pub fn login(&mut self) -> Bytes {
        self.challenge = None;
        MonLogin { name: self.name.clone(), global_id: self.global_id }.to_bytes(0)
    }
    /// The monitor's challenge came; the answer to it.
    pub fn handle_challenge(&mut self, payload: &Bytes, now: UTime, entropy: &mut dyn Entropy) -> Result<Bytes, Refusal> {
        if self.challenge.is_some() {
            return Err(Refusal::Protocol("a second challenge in one login"));
        }
        self.challenge = Some(ServerChallenge::from_bytes(payload)?.challenge);
        if let Some(ticket) = self.tickets.get_mut(&AUTH) {
            ticket.valid = false;
        }
        self.authenticate(self.needed(now), entropy)
    }
    /// The login is over: the monitor gave `global_id` and its answer.
    pub fn handle_done(&mut self, global_id: u64, payload: &Bytes, now: UTime) -> Result<Secrets, Refusal> {
        let mut d = Decoder::new(payload.clone());
        let header: ResponseHeader = d.get()?;
        if header.request_type != GET_AUTH_SESSION_KEY || self.challenge.is_none() {
            return Err(Refusal::Protocol("a login that ends with something else"));
        }
        self.global_id = global_id;
        self.open_login(&mut d, now)
    }

    fn authenticate(&self, need: u32, entropy: &mut dyn Entropy) -> Result<Bytes, Refusal> {
        let server_challenge = self.challenge.ok_or(Refusal::Protocol("a login without a challenge"))?;
        let client_challenge = entropy.u64();
        let old_ticket = match self.tickets.get(&AUTH) {
            Some(held) if self.global_id != 0 => held.blob.clone(),
            _ => TicketBlob::default(),
        };
        let proof = self.key.proof(server_challenge, client_challenge)?;
        let mut e = Encoder::new(0);
        e.u16(GET_AUTH_SESSION_KEY);
        Authenticate { client_challenge, proof, old_ticket, other_keys: need, legacy: false }.encode(&mut e);
        Ok(e.finish())
    }
    fn open_login(&mut self, d: &mut Decoder, now: UTime) -> Result<Secrets, Refusal> {
        let key = self.key.clone();
        self.open_tickets(&key, d, now)?;
        let session_key =
            self.tickets.get(&AUTH).filter(|t| t.valid).ok_or(Refusal::Protocol("a login without a ticket"))?.session_key.clone();
        let mut secrets = Secrets { session_key, connection_secret: Bytes::new() };
        if !d.is_empty() {
            let (sealed, extra) = (d.blob()?, d.blob()?);
            if !sealed.is_empty() {
                secrets.connection_secret = secrets.session_key.open_from(Usage::AUTH_CONNECTION_SECRET, &mut Decoder::new(sealed))?;
            }
            if !extra.is_empty() {
                let key = secrets.session_key.clone();
                self.open_tickets(&key, &mut Decoder::new(extra), now)?;
            }
        }
        Ok(secrets)
    }
    fn open_tickets(&mut self, key: &CryptoKey, d: &mut Decoder, now: UTime) -> Result<(), Refusal> {
        d.u8()?;
        for _ in 0..d.count(8)? {
            let service = d.u32()?;
            let held = self.tickets.entry(service).or_default();
            d.u8()?;
            let ours: ServiceTicket = key.open_from(Usage::TICKET_SESSION_KEY, d)?;
            let blob: Bytes = if d.bool()? { held.session_key.open_from(Usage::TICKET_BLOB, d)? } else { d.blob()? };
            held.blob = TicketBlob::from_bytes(&blob)?;
            held.session_key = ours.session_key;
            let validity = Duration::from_nanos(ours.validity.wall_ns());
            held.expires = add(now, validity);
            held.renew_after = add(now, validity - Duration::from_secs(validity.as_secs() / 4));
            held.valid = true;
        }
        Ok(())
    }

    /// The services whose tickets are missing or due.
    fn needed(&self, now: UTime) -> u32 {
        (0..32).map(|bit| 1u32 << bit).filter(|s| self.want & s != 0 && self.tickets.get(s).is_none_or(|t| t.due(now))).sum()
    }
    pub fn has_ticket(&self, service: EntityKind, now: UTime) -> bool {
        self.tickets.get(&u32::from(service.0)).is_some_and(|t| t.usable(now))
    }
    /// A service did not take our ticket: it is due now.
    pub fn doubt(&mut self, service: EntityKind) {
        if let Some(held) = self.tickets.get_mut(&u32::from(service.0)) {
            held.renew_after = UTime::ZERO;
        }
    }
    /// When tickets are due next.
    pub fn renew_at(&self) -> Option<UTime> {
        self.tickets.values().map(|t| t.renew_after).min()
    }
    /// What to ask in a MAuth now, if anything is due. Asked no oftener than every few seconds by the caller.
    pub fn renewal(&self, now: UTime, entropy: &mut dyn Entropy) -> Result<Option<Bytes>, Refusal> {
        let need = self.needed(now);
        if need & AUTH != 0 {
            return self.authenticate(need, entropy).map(Some);
        }
        // A cluster without a manager has no tickets for one: that alone is not worth a question.
        if need == 0 || need == MGR {
            return Ok(None);
        }
        let mut e = Encoder::new(0);
        e.u16(GET_PRINCIPAL_SESSION_KEY);
        let authorizer = self.authorizer_for(AUTH, entropy)?.ok_or(Refusal::Protocol("no ticket to renew others with"))?;
        e.raw(&authorizer.payload);
        ServiceTicketRequest { keys: need }.encode(&mut e);
        Ok(Some(e.finish()))
    }
    /// What a daemon asks to learn its service's secrets.
    pub fn rotating_request(&self) -> Bytes {
        GET_ROTATING_KEY.to_bytes(0)
    }
    /// The answer to a MAuth.
    pub fn handle_reply(&mut self, payload: &Bytes, now: UTime, entropy: &mut dyn Entropy) -> Result<Progress, Refusal> {
        let mut d = Decoder::new(payload.clone());
        let header: ResponseHeader = d.get()?;
        match header.request_type {
            GET_AUTH_SESSION_KEY => {
                self.open_login(&mut d, now)?;
                Ok(self.renewal(now, entropy)?.map_or(Progress::Done, Progress::Ask))
            }
            GET_PRINCIPAL_SESSION_KEY => {
                let key = self.tickets.get(&AUTH).ok_or(Refusal::Protocol("tickets that were not asked for"))?.session_key.clone();
                self.open_tickets(&key, &mut d, now)?;
                Ok(Progress::Done)
            }
            GET_ROTATING_KEY => Ok(Progress::Rotating(self.key.open_from(Usage::ROTATING_SECRET, &mut d)?)),
            other => Err(Refusal::UnknownRequest(other)),
        }
    }

    /// What a service accepts; None without a ticket that is good now.
    pub fn authorizer(&self, service: EntityKind, now: UTime, entropy: &mut dyn Entropy) -> Result<Option<Authorizer>, Refusal> {
        if !self.has_ticket(service, now) {
            return Ok(None);
        }
        self.authorizer_for(service.0.into(), entropy)
    }
    fn authorizer_for(&self, service: u32, entropy: &mut dyn Entropy) -> Result<Option<Authorizer>, Refusal> {
        let Some(held) = self.tickets.get(&service) else { return Ok(None) };
        let head = AuthorizerHead { global_id: self.global_id, service, ticket: held.blob.clone() };
        Authorizer::new(head, held.session_key.clone(), entropy).map(Some)
    }
}

/// An authorizer on its way through one connection's handshake.
#[derive(Debug, Clone)]
pub struct Authorizer {
    head: AuthorizerHead,
    session_key: CryptoKey,
    nonce: u64,
    /// What to send first.
    pub payload: Bytes,
}

impl Authorizer {
    pub(crate) fn new(head: AuthorizerHead, session_key: CryptoKey, entropy: &mut dyn Entropy) -> Result<Self, Refusal> {
        let nonce = entropy.u64();
        let payload = service::build(&head, &session_key, &Authorize { nonce, challenge_plus_one: None }, entropy)?;
        Ok(Self { head, session_key, nonce, payload })
    }
    /// The service's challenge came; the authorizer that answers it.
    pub fn answer(&self, challenge: &Bytes, entropy: &mut dyn Entropy) -> Result<Bytes, Refusal> {
        let ServerChallenge { challenge } = self.session_key.open(Usage::AUTHORIZE_CHALLENGE, challenge)?;
        let authorize = Authorize { nonce: self.nonce, challenge_plus_one: Some(challenge.wrapping_add(1)) };
        service::build(&self.head, &self.session_key, &authorize, entropy)
    }
    /// The service let us in: proof that it is the service, and the connection's secret.
    pub fn verify(&self, reply: &Bytes) -> Result<Secrets, Refusal> {
        let reply: AuthorizeReply = self.session_key.open_from(Usage::AUTHORIZE_REPLY, &mut Decoder::new(reply.clone()))?;
        if reply.nonce_plus_one != self.nonce.wrapping_add(1) {
            return Err(Refusal::Challenge);
        }
        Ok(Secrets { session_key: self.session_key.clone(), connection_secret: reply.connection_secret })
    }
}
