//! The monitor's side of a login, and of what is asked later over the same connection.
//!
//! ```text
//! client                                   monitor
//! MonLogin(name, global_id)      ->
//!                                <-        ServerChallenge
//! Authenticate(proof, ...)       ->
//!                                <-        auth ticket, connection secret, tickets of other services
//! ... later, in MAuth messages: tickets anew, a service's rotating secrets
//! ```
//!
//! The ticket that buys other tickets remembers the key that it was given for: when that is no longer the entity's, after `auth rotate` or because
//! another entity has the name now, it buys none. Stock lets it, for as long as it lasts.
//!
//! Claiming a global_id back takes the old ticket (CVE-2021-20288): there is no setting that would allow it without.

use crate::proto::{
    AuthTicket, Authenticate, AuthorizerHead, GET_AUTH_SESSION_KEY, GET_PRINCIPAL_SESSION_KEY, GET_ROTATING_KEY, ResponseHeader,
    ServerChallenge, ServiceTicket, ServiceTicketInfo, ServiceTicketRequest, TicketBlob,
};
use crate::rotating::{TicketLife, add};
use crate::service::{self, ServiceKeys};
use crate::{AuthCapsInfo, Authorizer, CryptoKey, EntityAuth, Entropy, KeyError, KeyType, Refusal, RotatingSecrets, Usage};
use bytes::Bytes;
use denc::{Decoder, Denc, Encoder};
use std::fmt;
use std::time::Duration;
use types::{EntityKind, EntityText, UTime};

/// What a login needs to know of the monitor's auth database.
pub trait AuthDb {
    fn entity(&self, name: &EntityText) -> Option<&EntityAuth>;
    /// The rotating secrets of a service, by the bit of its kind.
    fn rotating(&self, service: u32) -> Option<&RotatingSecrets>;
    fn ticket_life(&self) -> TicketLife {
        TicketLife::default()
    }
}

/// How far the peer has come in showing that its global_id is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GlobalId {
    NewPending,
    ReclaimPending,
    /// Proven once; from here on each renewal brings the old ticket.
    Held,
}

/// One connection to a monitor.
#[derive(Debug, Clone)]
pub struct ServerSession {
    name: EntityText,
    global_id: u64,
    challenge: u64,
    status: GlobalId,
}

/// What an answered request gives besides its answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Granted {
    pub session_key: CryptoKey,
    /// Empty in crc mode.
    pub connection_secret: Bytes,
    /// The entity's capabilities on the monitor.
    pub caps: AuthCapsInfo,
}

/// Without the secrets.
impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Granted").field("caps", &self.caps).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub payload: Bytes,
    /// True for a login or its renewal.
    pub granted: Option<Granted>,
    /// The peer proved that it has its new key: the monitor makes it the key.
    pub used_pending_key: bool,
}

impl ServerSession {
    /// Starts a login; the bytes are the challenge to send. `is_new` says that `global_id` was given just now and not claimed.
    pub fn start(name: EntityText, global_id: u64, is_new: bool, entropy: &mut dyn Entropy) -> (Self, Bytes) {
        let challenge = entropy.u64().max(1);
        let status = if is_new { GlobalId::NewPending } else { GlobalId::ReclaimPending };
        (Self { name, global_id, challenge, status }, ServerChallenge { challenge }.to_bytes(0))
    }
    pub fn name(&self) -> &EntityText {
        &self.name
    }
    pub fn global_id(&self) -> u64 {
        self.global_id
    }

    /// Answers a request. `secret_len` is how long a connection secret the connection's mode wants during a login, None when the
    /// request came in a MAuth message.
    pub fn handle(
        &mut self,
        db: &dyn AuthDb,
        payload: &Bytes,
        secret_len: Option<usize>,
        now: UTime,
        entropy: &mut dyn Entropy,
    ) -> Result<Reply, Refusal> {
        let mut d = Decoder::new(payload.clone());
        let mut e = Encoder::new(0);
        let request = d.u16()?;
        if request != GET_AUTH_SESSION_KEY && self.status != GlobalId::Held {
            return Err(Refusal::Protocol("a request before the login"));
        }
        let (granted, used_pending_key) = match request {
            GET_AUTH_SESSION_KEY => {
                let (granted, pending) = self.login(db, &d.get()?, secret_len, now, entropy, &mut e)?;
                (Some(granted), pending)
            }
            GET_PRINCIPAL_SESSION_KEY => {
                self.service_tickets(db, &mut d, now, entropy, &mut e)?;
                (None, false)
            }
            GET_ROTATING_KEY => {
                ResponseHeader { request_type: request, status: 0 }.encode(&mut e);
                let entity = db.entity(&self.name).ok_or_else(|| Refusal::UnknownEntity(self.name.to_string()))?;
                let service = u32::from(self.name.kind.0);
                let daemon = [EntityKind::OSD, EntityKind::MDS, EntityKind::MGR, EntityKind::MON].contains(&self.name.kind);
                let secrets = db.rotating(service).filter(|_| daemon).ok_or(Refusal::NoCaps)?;
                entity.key.seal_into(Usage::ROTATING_SECRET, secrets, entropy, &mut e)?;
                (None, false)
            }
            other => return Err(Refusal::UnknownRequest(other)),
        };
        Ok(Reply { payload: e.finish(), granted, used_pending_key })
    }

    fn login(
        &mut self,
        db: &dyn AuthDb,
        req: &Authenticate,
        secret_len: Option<usize>,
        now: UTime,
        entropy: &mut dyn Entropy,
        e: &mut Encoder,
    ) -> Result<(Granted, bool), Refusal> {
        let entity = db.entity(&self.name).ok_or_else(|| Refusal::UnknownEntity(self.name.to_string()))?;
        let proves = |key: &CryptoKey| Ok::<_, KeyError>(key.proof(self.challenge, req.client_challenge)? == req.proof);
        let (key, pending) = if proves(&entity.key)? {
            (&entity.key, false)
        } else if !entity.pending_key.is_empty() && proves(&entity.pending_key)? {
            (&entity.pending_key, true)
        } else {
            return Err(Refusal::WrongKey);
        };
        let old_session_key = self.check_old_ticket(db, req)?;
        let caps = match entity.caps.get("mon") {
            Some(text) if !text.is_empty() => AuthCapsInfo::from_text(text),
            _ => return Err(Refusal::NoCaps),
        };

        // The ticket for coming back to a monitor carries no capabilities: those are looked up. In their place is a mark of the key.
        let parent = AuthTicket { name: self.name.clone(), global_id: self.global_id, ..AuthTicket::default() };
        let grant = Grant::new(db, u32::from(EntityKind::AUTH.0), &parent, mark(key)?, key.kind, now, entropy)?;
        let session_key = grant.info.session_key.clone();
        ResponseHeader { request_type: GET_AUTH_SESSION_KEY, status: 0 }.encode(e);
        encode_tickets(&[grant], key, old_session_key.as_ref(), entropy, e)?;

        let mut connection_secret = Bytes::new();
        if req.other_keys != 0 {
            if let Some(len) = secret_len {
                let mut secret = vec![0; len];
                entropy.fill(&mut secret);
                connection_secret = secret.into();
                let mut sealed = Encoder::new(0);
                session_key.seal_into(Usage::AUTH_CONNECTION_SECRET, &connection_secret, entropy, &mut sealed)?;
                e.blob(sealed.as_slice());
            } else {
                e.blob(&[]);
            }
            let grants = grants(db, req.other_keys, &parent, key.kind, now, entropy);
            let mut extra = Encoder::new(0);
            if !grants.is_empty() {
                encode_tickets(&grants, &session_key, None, entropy, &mut extra)?;
            }
            e.blob(extra.as_slice());
        }
        self.status = GlobalId::Held;
        Ok((Granted { session_key, connection_secret, caps }, pending))
    }

    /// The session key of the old ticket, if there must be one and it is this peer's: the new ticket is sealed with it.
    fn check_old_ticket(&self, db: &dyn AuthDb, req: &Authenticate) -> Result<Option<CryptoKey>, Refusal> {
        if self.status == GlobalId::NewPending {
            return if req.old_ticket.blob.is_empty() { Ok(None) } else { Err(Refusal::OldTicket("superfluous ticket")) };
        }
        if req.old_ticket.blob.is_empty() {
            return Err(Refusal::OldTicket("a global_id claimed without its ticket"));
        }
        let secrets = db.rotating(u32::from(EntityKind::AUTH.0));
        let secret = secrets.and_then(|s| s.get(req.old_ticket.secret_id)).ok_or(Refusal::OldTicket("a ticket of a lost secret"))?;
        let old: ServiceTicketInfo =
            secret.open(Usage::TICKET_INFO, &req.old_ticket.blob).map_err(|_| Refusal::OldTicket("a ticket that can't be read"))?;
        if !old.is_plausible() {
            return Err(Refusal::OldTicket("a ticket that was changed"));
        }
        if old.ticket.global_id != self.global_id || old.ticket.name != self.name {
            return Err(Refusal::OldTicket("a ticket of somebody else"));
        }
        // A ticket that has run out proves no less whose the number is, as long as its secret is still known.
        Ok(Some(old.session_key))
    }

    fn service_tickets(
        &self,
        db: &dyn AuthDb,
        d: &mut Decoder,
        now: UTime,
        entropy: &mut dyn Entropy,
        e: &mut Encoder,
    ) -> Result<(), Refusal> {
        let (info, _) = service::open(&AuthKeys(db), d, now)?;
        if info.ticket.name != self.name || info.ticket.global_id != self.global_id {
            return Err(Refusal::OldTicket("a ticket of somebody else"));
        }
        let entity = db.entity(&self.name).ok_or_else(|| Refusal::UnknownEntity(self.name.to_string()))?;
        if !is_of_its_key(&info.ticket, entity, now) {
            return Err(Refusal::OldTicket("a ticket that was given for another key"));
        }
        let ServiceTicketRequest { keys } = d.get()?;
        let grants = grants(db, keys, &info.ticket, info.session_key.kind, now, entropy);
        let wanted = keys & !u32::from(EntityKind::AUTH.0);
        let status = if grants.is_empty() && wanted != 0 { -Refusal::NoCaps.errno() } else { 0 };
        ResponseHeader { request_type: GET_PRINCIPAL_SESSION_KEY, status }.encode(e);
        encode_tickets(&grants, &info.session_key, None, entropy, e)
    }
}

/// What a ticket remembers of the key that it was given for. It is sealed with a secret that only monitors have.
fn mark(key: &CryptoKey) -> Result<AuthCapsInfo, KeyError> {
    const MARK: u64 = u64::from_le_bytes(*b"of a key");
    Ok(AuthCapsInfo::from_text(&format!("{:016x}", key.proof(MARK, MARK)?)))
}
/// True if a ticket was given for a key that the entity has now. One of an older monitor has no mark: it must be younger than the key.
fn is_of_its_key(ticket: &AuthTicket, entity: &EntityAuth, now: UTime) -> bool {
    if ticket.caps.caps.is_empty() {
        let made = entity.key.created;
        return made <= ticket.created || made > now;
    }
    [&entity.key, &entity.pending_key].into_iter().any(|key| mark(key).is_ok_and(|mark| mark == ticket.caps))
}

/// Only tickets for the monitors' own auth service buy other tickets.
struct AuthKeys<'a>(&'a dyn AuthDb);
impl ServiceKeys for AuthKeys<'_> {
    fn service_key(&self, service: u32, secret_id: u64) -> Option<&CryptoKey> {
        if service != u32::from(EntityKind::AUTH.0) {
            return None;
        }
        self.0.rotating(service)?.get(secret_id)
    }
}

/// A monitor that is asked as a service (`ceph tell mon.a` with a ticket) reads tickets with the secrets of its database.
pub struct MonKeys<'a>(pub &'a dyn AuthDb);
impl ServiceKeys for MonKeys<'_> {
    fn service_key(&self, service: u32, secret_id: u64) -> Option<&CryptoKey> {
        if service != u32::from(EntityKind::MON.0) {
            return None;
        }
        self.0.rotating(service)?.get(secret_id)
    }
}

/// What a monitor named `name` shows to a service that it dials itself: it has the service's secrets, and makes its own ticket, with number 0.
pub fn own_authorizer(
    db: &dyn AuthDb,
    name: &EntityText,
    service: EntityKind,
    now: UTime,
    entropy: &mut dyn Entropy,
) -> Result<Authorizer, Refusal> {
    let parent = AuthTicket { name: name.clone(), ..AuthTicket::default() };
    let caps =
        db.entity(name).and_then(|e| e.caps.get(service.name())).map_or_else(AuthCapsInfo::default, |text| AuthCapsInfo::from_text(text));
    let grant = Grant::new(db, service.0.into(), &parent, caps, KeyType::AES256K, now, entropy)?;
    let ticket = TicketBlob { secret_id: grant.secret_id, blob: grant.secret.seal(Usage::TICKET_INFO, &grant.info, entropy)? };
    Authorizer::new(AuthorizerHead { global_id: 0, service: service.0.into(), ticket }, grant.info.session_key, entropy)
}

/// A ticket about to be handed out.
struct Grant<'a> {
    service: u32,
    secret_id: u64,
    secret: &'a CryptoKey,
    info: ServiceTicketInfo,
    validity: Duration,
}

impl<'a> Grant<'a> {
    fn new(
        db: &'a dyn AuthDb,
        service: u32,
        parent: &AuthTicket,
        caps: AuthCapsInfo,
        holder: KeyType,
        now: UTime,
        entropy: &mut dyn Entropy,
    ) -> Result<Self, Refusal> {
        let secrets = db.rotating(service).ok_or(Refusal::NoSecret(service))?;
        let (secret_id, secret, validity) = secrets.for_new_ticket(now, db.ticket_life().of(service)).ok_or(Refusal::NoSecret(service))?;
        // Both must be able to use it: the holder, and the service, whose daemons may be of an older release.
        let kind = if holder == KeyType::AES256K && secret.kind == KeyType::AES256K { KeyType::AES256K } else { KeyType::AES };
        let session_key = CryptoKey::generate_of(kind, now, entropy);
        let ticket = AuthTicket { created: now, expires: add(now, validity), caps, ..parent.clone() };
        Ok(Self { service, secret_id, secret, info: ServiceTicketInfo { ticket, session_key }, validity })
    }
}

/// Tickets for the services in `wanted`, without those that have no secret.
fn grants<'a>(
    db: &'a dyn AuthDb,
    wanted: u32,
    parent: &AuthTicket,
    holder: KeyType,
    now: UTime,
    entropy: &mut dyn Entropy,
) -> Vec<Grant<'a>> {
    let mut out = Vec::new();
    for bit in 0..32 {
        let service = 1 << bit;
        if wanted & service == 0 || service == u32::from(EntityKind::AUTH.0) || db.rotating(service).is_none() {
            continue;
        }
        let name = EntityKind(service as u8).name();
        // A monitor looks its peers' capabilities up, so their ticket carries none.
        let caps = match db.entity(&parent.name) {
            None => continue,
            Some(_) if service == u32::from(EntityKind::MON.0) => AuthCapsInfo::default(),
            Some(entity) => entity.caps.get(name).map_or_else(AuthCapsInfo::default, |text| AuthCapsInfo::from_text(text)),
        };
        out.extend(Grant::new(db, service, parent, caps, holder, now, entropy).ok());
    }
    out
}

/// A list of tickets: for each the holder's part sealed with `holder`, and the service's part, which is sealed with the service's
/// secret and once more with `outer` if that is given.
fn encode_tickets(
    grants: &[Grant<'_>],
    holder: &CryptoKey,
    outer: Option<&CryptoKey>,
    entropy: &mut dyn Entropy,
    e: &mut Encoder,
) -> Result<(), Refusal> {
    e.u8(1);
    e.count(grants.len());
    for grant in grants {
        e.u32(grant.service);
        e.u8(1);
        let validity = UTime::from_wall_ns(grant.validity.as_nanos() as u64);
        let ours = ServiceTicket { session_key: grant.info.session_key.clone(), validity };
        holder.seal_into(Usage::TICKET_SESSION_KEY, &ours, entropy, e)?;
        let blob = TicketBlob { secret_id: grant.secret_id, blob: grant.secret.seal(Usage::TICKET_INFO, &grant.info, entropy)? };
        let blob = blob.to_bytes(0);
        e.bool(outer.is_some());
        match outer {
            // What is sealed is a buffer, so it has its length inside.
            Some(outer) => outer.seal_into(Usage::TICKET_BLOB, &blob, entropy, e)?,
            None => e.blob(&blob),
        }
    }
    Ok(())
}
