//! Glue between the messenger's authentication traits and `cephx`: how we dial with an [`Identity`], and a service's side.
//!
//! Holds no monitor's side: that one gives out global_ids and looks entities up, so it is the monitor's own.

use crate::modes::{Modes, SharedModes};
use bytes::Bytes;
use cephx::identity::Identity;
use cephx::none::NoneAuthorizer;
use cephx::{AuthCapsInfo, Authorizer, FromFn, Refusal, RotatingSecrets, Secrets, ServiceSession, Verdict, mode};
use denc::Denc;
use msgr::{AuthClient, AuthClients, AuthExchange, AuthPeer, AuthServer, AuthStart, AuthStep, Authenticated, ClientAuthenticated, ConMode};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use types::{EntityKind, EntityText, UTime, errno};

/// Bytes from the operating system.
pub fn entropy() -> FromFn<impl FnMut(&mut [u8])> {
    FromFn(|out: &mut [u8]| aws_lc_rs::rand::fill(out).expect("the system has random bytes"))
}

/// The wall clock.
pub fn now() -> UTime {
    UTime::from_wall_ns(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64))
}

/// Our identity, shared between what logs in, renews and dials.
pub type SharedIdentity = Rc<RefCell<Identity>>;

/// Dials monitors with a login and services with what the login brought.
#[derive(Clone)]
pub struct Dialer {
    pub identity: SharedIdentity,
    /// What we are ourselves: by that the modes are chosen.
    pub us: EntityKind,
    pub modes: SharedModes,
    /// The positive errno with which a monitor refused our last login; 0 if none did.
    pub refused: Rc<Cell<i32>>,
}

impl Dialer {
    /// A client with Ceph's default modes: secure to monitors and managers, crc to others, and either if the other side insists.
    pub fn new(identity: SharedIdentity) -> Self {
        Self::with(identity, EntityKind::CLIENT, Modes::default().shared())
    }
    /// One of this kind, with modes of its own.
    pub fn with(identity: SharedIdentity, us: EntityKind, modes: SharedModes) -> Self {
        Self { identity, us, modes, refused: Rc::default() }
    }
}

impl AuthClients for Dialer {
    fn exchange(&self, peer: EntityKind) -> Box<dyn AuthClient> {
        Box::new(Dial { of: self.clone(), peer, authorizer: None })
    }
}

struct Dial {
    of: Dialer,
    peer: EntityKind,
    authorizer: Option<Authorizer>,
}

impl AuthClient for Dial {
    fn start(&mut self) -> Result<AuthStart, i32> {
        let mut identity = self.of.identity.borrow_mut();
        let method = identity.method();
        let modes = match method {
            // Without keys there is nothing to encrypt with.
            mode::METHOD_NONE => vec![ConMode::CRC],
            _ => self.of.modes.borrow().between(self.of.us, self.peer).to_vec(),
        };
        let payload = match self.peer {
            EntityKind::MON => identity.login(),
            service => {
                let (payload, authorizer) = identity.authorizer(service, now(), &mut entropy()).map_err(errno_of)?.ok_or(errno::EACCES)?;
                self.authorizer = authorizer;
                payload
            }
        };
        Ok(AuthStart { method, modes, payload })
    }
    fn bad_method(&mut self, _: u32, result: i32, methods: &[u32], _: &[ConMode]) -> Result<AuthStart, i32> {
        if self.peer == EntityKind::MON {
            // A monitor that wants another method answers EOPNOTSUPP: to the caller it is a refusal like any other.
            let offered = methods.contains(&self.of.identity.borrow().method());
            let errno = if offered { result.abs() } else { errno::EOPNOTSUPP };
            self.of.refused.set(errno);
            return Err(errno);
        }
        // Its secrets may have been made anew.
        self.of.identity.borrow_mut().doubt(self.peer);
        Err(result.abs())
    }
    fn reply_more(&mut self, payload: Bytes) -> Result<Bytes, i32> {
        match (&self.authorizer, self.peer) {
            (_, EntityKind::MON) => self.of.identity.borrow_mut().handle_challenge(&payload, now(), &mut entropy()),
            (Some(authorizer), _) => authorizer.answer(&payload, &mut entropy()),
            (None, _) => Err(Refusal::Protocol("a challenge without cephx")),
        }
        .map_err(errno_of)
    }
    fn done(&mut self, global_id: u64, _: ConMode, payload: Bytes) -> Result<ClientAuthenticated, i32> {
        let secrets = match (&self.authorizer, self.peer) {
            (_, EntityKind::MON) => self.of.identity.borrow_mut().handle_done(global_id, &payload, now()),
            (Some(authorizer), _) => authorizer.verify(&payload),
            (None, _) => Ok(Secrets::default()),
        };
        let secrets = secrets.map_err(errno_of)?;
        if self.peer == EntityKind::MON {
            self.of.refused.set(0);
        }
        Ok(ClientAuthenticated { session_key: secrets.session_key.secret.into(), connection_secret: secrets.connection_secret })
    }
}

fn errno_of(refusal: Refusal) -> i32 {
    refusal.errno()
}

/// What a service leaves on the connection, as [`msgr::Peer::user`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerAuth {
    pub name: EntityText,
    pub global_id: u64,
    /// The peer's capabilities on this service; everything with method none.
    pub caps: AuthCapsInfo,
    /// How long the ticket lasts that let it in, from then on; `None` with method none.
    pub ticket_lasts: Option<Duration>,
}

/// An OSD or a manager, as it authenticates its peers.
pub struct ServiceAuth {
    pub kind: EntityKind,
    /// Methods for other daemons (`auth_cluster_required`).
    pub cluster_methods: Vec<u32>,
    /// Methods for clients (`auth_service_required`).
    pub client_methods: Vec<u32>,
    pub modes: SharedModes,
    /// The service's secrets, which the session with the monitor keeps fresh.
    pub secrets: Rc<RefCell<RotatingSecrets>>,
    /// Set when a client shows a ticket that is sealed with a newer secret than we have.
    pub missing: Rc<Cell<bool>>,
}

fn is_daemon(kind: EntityKind) -> bool {
    [EntityKind::MON, EntityKind::OSD, EntityKind::MDS, EntityKind::MGR].contains(&kind)
}

impl AuthServer for ServiceAuth {
    fn methods(&self, kind: EntityKind) -> Vec<u32> {
        if is_daemon(kind) { self.cluster_methods.clone() } else { self.client_methods.clone() }
    }
    fn modes(&self, kind: EntityKind, method: u32) -> Vec<ConMode> {
        if method == mode::METHOD_NONE { vec![ConMode::CRC] } else { self.modes.borrow().between(self.kind, kind).to_vec() }
    }
    fn begin(&self, peer: AuthPeer) -> Result<Box<dyn AuthExchange>, i32> {
        if !self.methods(peer.kind).contains(&peer.method) {
            return Err(errno::EOPNOTSUPP);
        }
        Ok(match peer.method {
            mode::METHOD_NONE => Box::new(AtNone),
            mode::METHOD_CEPHX => {
                let secret_len = if peer.mode == ConMode::SECURE { mode::SECURE_SECRET_LEN } else { 0 };
                Box::new(AtCephx {
                    kind: self.kind,
                    secrets: self.secrets.clone(),
                    missing: self.missing.clone(),
                    secret_len,
                    session: ServiceSession::default(),
                })
            }
            _ => return Err(errno::EOPNOTSUPP),
        })
    }
}

/// Every peer has the name that it gives.
struct AtNone;

impl AuthExchange for AtNone {
    fn request(&mut self, payload: Bytes) -> AuthStep {
        let Ok(NoneAuthorizer { name, global_id }) = NoneAuthorizer::from_bytes(&payload) else { return AuthStep::Bad(errno::EACCES) };
        let user = PeerAuth { name: name.clone(), global_id, caps: AuthCapsInfo::all(), ticket_lasts: None };
        AuthStep::Done(Box::new(Authenticated { global_id, name, user: Some(Rc::new(user)), ..Authenticated::default() }))
    }
}

struct AtCephx {
    kind: EntityKind,
    secrets: Rc<RefCell<RotatingSecrets>>,
    missing: Rc<Cell<bool>>,
    secret_len: usize,
    session: ServiceSession,
}

impl AuthExchange for AtCephx {
    fn request(&mut self, payload: Bytes) -> AuthStep {
        if mode::ask(&payload) != Some(mode::Ask::Authorizer) {
            return AuthStep::Bad(errno::EACCES);
        }
        let secrets = self.secrets.borrow();
        let now = now();
        match self.session.handle(&(self.kind, &*secrets), &payload, self.secret_len, now, &mut entropy()) {
            Ok(Verdict::Challenge(challenge)) => AuthStep::More(challenge),
            Ok(Verdict::Accept { reply, peer }) => {
                let ticket_lasts = Some(Duration::from_nanos(peer.expires.wall_ns().saturating_sub(now.wall_ns())));
                let user = PeerAuth { name: peer.name.clone(), global_id: peer.global_id, caps: peer.caps, ticket_lasts };
                AuthStep::Done(Box::new(Authenticated {
                    payload: reply,
                    global_id: peer.global_id,
                    name: peer.name,
                    session_key: peer.session_key.secret.into(),
                    connection_secret: peer.connection_secret,
                    user: Some(Rc::new(user)),
                }))
            }
            Err(refusal) => {
                if matches!(refusal, Refusal::NoSecret(_)) {
                    self.missing.set(true);
                }
                AuthStep::Bad(refusal.errno())
            }
        }
    }
}
