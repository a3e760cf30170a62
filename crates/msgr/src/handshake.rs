//! From the banner to the session's idents.

use crate::accept::Ident;
use crate::auth::{AuthPeer, AuthStart, AuthStep, Authenticated, method};
use crate::connection::{Auth, Connection, State, Up};
use crate::control::{
    AuthBadMethod, AuthDone, AuthReplyMore, AuthRequest, AuthRequestMore, AuthSignature, ClientIdent, CompressionDone, CompressionRequest,
    Control, FLAG_LOSSY, Hello, IdentMissingFeatures, Reconnect, ReconnectOk, Reset, Retry, RetryGlobal, ServerIdent,
};
use crate::local::{COMPRESSION, REVISION_1};
use crate::planted::{Bug, planted};
use crate::secure::Cipher;
use crate::{ConMode, Frame, MsgrError, Peer, Tag};
use aws_lc_rs::{constant_time, hmac};
use bytes::{Buf, Bytes, BytesMut};
use types::{EntityKind, EntityName};

const PREFIX: &[u8; 8] = b"ceph v2\n";
const PREFIX_V1: &[u8; 6] = b"ceph v";
/// Prefix, length and the two feature words.
pub(crate) const BANNER: usize = 26;
/// Newer releases may say more; none says this much.
const BANNER_PAYLOAD_MAX: usize = 1024;
const AUTH_ATTEMPTS: u32 = 16;
const TRANSCRIPT_MAX: usize = 256 << 10;
const EACCES: i32 = 13;
const EOPNOTSUPP: i32 = 95;

impl Connection {
    /// Banner and HELLO, in one go: neither depends on what the peer says.
    pub(crate) fn greet(&mut self) {
        let mut banner = Vec::with_capacity(BANNER);
        banner.extend_from_slice(PREFIX);
        banner.extend_from_slice(&16u16.to_le_bytes());
        banner.extend_from_slice(&self.local.msgr_features.to_le_bytes());
        banner.extend_from_slice(&REVISION_1.to_le_bytes());
        self.writer.queue.put(&banner);
        self.transcript.recording = true;
        self.transcript.tx.extend_from_slice(&banner);
        self.put(&Hello { kind: self.local.kind.0, you: self.peer.target });
        self.enter(State::Banner);
    }

    /// True once the peer's banner is read.
    pub(crate) fn banner(&mut self, buf: &mut BytesMut) -> Result<bool, MsgrError> {
        let seen = buf.len().min(PREFIX.len());
        if buf[..seen] != PREFIX[..seen] {
            let msgr1 = seen >= PREFIX_V1.len() && buf[..6] == *PREFIX_V1 && seen > 6 && buf[6] == b'0';
            return Err(if msgr1 { MsgrError::Msgr1 } else { MsgrError::Banner });
        }
        if buf.len() < BANNER {
            return Ok(false);
        }
        let len = u16::from_le_bytes([buf[8], buf[9]]) as usize;
        if !(16..=BANNER_PAYLOAD_MAX).contains(&len) {
            return Err(MsgrError::Banner);
        }
        if buf.len() < 10 + len {
            return Ok(false);
        }
        let mut banner = buf.split_to(10 + len);
        self.transcript.rx.extend_from_slice(&banner);
        banner.advance(10);
        let (supported, required) = (banner.get_u64_le(), banner.get_u64_le());
        if supported & REVISION_1 == 0 || required & !self.local.msgr_features != 0 {
            return Err(MsgrError::BannerFeatures { supported, required });
        }
        self.peer_msgr_features = supported;
        self.enter(State::Hello);
        Ok(true)
    }

    /// One frame before the session is open.
    pub(crate) fn handshake(&mut self, frame: &Frame) -> Result<Option<Up>, MsgrError> {
        if self.transcript.recording {
            self.transcript.rx.extend_from_slice(frame.on_wire());
            let len = self.transcript.rx.len();
            if len > TRANSCRIPT_MAX {
                return Err(MsgrError::TooLong { what: "a handshake", len: len as u64, max: TRANSCRIPT_MAX as u64 });
            }
        }
        let payload = frame.segment(0);
        match (self.state, self.dialled, frame.tag) {
            (State::Hello, _, Tag::Hello) => self.hello(Hello::parse(payload)?)?,
            (State::Auth, false, Tag::AuthRequest) => self.auth_request(AuthRequest::parse(payload)?)?,
            (State::Auth, false, Tag::AuthRequestMore) => self.auth_more(AuthRequestMore::parse(payload)?.payload, frame.tag)?,
            (State::Auth, true, Tag::AuthBadMethod) => self.auth_bad_method(AuthBadMethod::parse(payload)?)?,
            (State::Auth, true, Tag::AuthReplyMore) => self.auth_reply_more(AuthReplyMore::parse(payload)?.payload)?,
            (State::Auth, true, Tag::AuthDone) => self.auth_done(AuthDone::parse(payload)?)?,
            (State::AuthSign, _, Tag::AuthSignature) => self.signature(AuthSignature::parse(payload)?)?,
            (State::Compression, false, Tag::CompressionRequest) => {
                CompressionRequest::parse(payload)?;
                self.put(&CompressionDone { compress: false, method: 0 });
                self.enter(State::Session);
            }
            (State::Compression, true, Tag::CompressionDone) => {
                if CompressionDone::parse(payload)?.compress {
                    return Err(MsgrError::Compressed);
                }
                self.ask_for_session();
            }
            (State::Session, false, Tag::ClientIdent) => return self.client_ident(ClientIdent::parse(payload)?),
            (State::Session, false, Tag::SessionReconnect) => return self.reconnect(Reconnect::parse(payload)?),
            (State::Session, true, tag) => return self.session_answer(tag, payload),
            (state, _, tag) => return Err(MsgrError::Unexpected { tag, state }),
        }
        Ok(None)
    }

    fn hello(&mut self, hello: Hello) -> Result<(), MsgrError> {
        let kind = EntityKind(hello.kind);
        self.enter(State::Auth);
        if !self.dialled {
            self.peer.kind = kind;
            self.policy = (self.local.accept_policy)(kind);
            self.auth = Auth::Server { exchange: None, attempts: 0, method: 0 };
            return Ok(());
        }
        if kind != self.peer.kind {
            return Err(MsgrError::PeerKind { want: self.peer.kind.name(), got: kind.name() });
        }
        self.local.learn(hello.you);
        let mut exchange = self.local.auth_clients.exchange(kind);
        let start = exchange.start().map_err(MsgrError::Auth)?;
        self.auth = Auth::Client { exchange, attempts: 1, modes: Vec::new() };
        self.auth_start(start);
        Ok(())
    }

    // ---- authentication, dialling

    fn auth_start(&mut self, start: AuthStart) {
        self.put(&AuthRequest { method: start.method, modes: start.modes.iter().map(|m| m.0).collect(), payload: start.payload });
        if let Auth::Client { modes, .. } = &mut self.auth {
            *modes = start.modes;
        }
    }
    fn auth_bad_method(&mut self, bad: AuthBadMethod) -> Result<(), MsgrError> {
        let Auth::Client { exchange, attempts, modes: ours } = &mut self.auth else { return Err(MsgrError::Auth(bad.result)) };
        *attempts += 1;
        if *attempts > AUTH_ATTEMPTS {
            return Err(MsgrError::AuthAttempts(AUTH_ATTEMPTS));
        }
        let modes: Vec<ConMode> = bad.modes.iter().map(|m| ConMode(*m)).collect();
        let is_met = !bad.methods.contains(&bad.method) || ours.iter().any(|mode| modes.contains(mode));
        let start = exchange.bad_method(bad.method, bad.result, &bad.methods, &modes).map_err(|errno| match errno {
            EOPNOTSUPP if !is_met => MsgrError::NoMode { ours: ConMode::names(ours), theirs: ConMode::names(&modes) },
            errno => MsgrError::Auth(errno),
        })?;
        self.auth_start(start);
        Ok(())
    }
    fn auth_reply_more(&mut self, payload: Bytes) -> Result<(), MsgrError> {
        let Auth::Client { exchange, .. } = &mut self.auth else { return Err(MsgrError::Auth(0)) };
        let payload = exchange.reply_more(payload).map_err(MsgrError::Auth)?;
        self.put(&AuthRequestMore { payload });
        Ok(())
    }
    fn auth_done(&mut self, done: AuthDone) -> Result<(), MsgrError> {
        let Auth::Client { exchange, modes, .. } = &mut self.auth else { return Err(MsgrError::Auth(0)) };
        let mode = ConMode(done.mode);
        if !modes.contains(&mode) {
            return Err(MsgrError::ConMode(done.mode));
        }
        let keys = exchange.done(done.global_id, mode, done.payload).map_err(MsgrError::Auth)?;
        self.peer.global_id = done.global_id;
        self.protect(mode, keys.session_key, &keys.connection_secret)
    }

    // ---- authentication, accepting

    fn auth_request(&mut self, request: AuthRequest) -> Result<(), MsgrError> {
        let Some(server) = self.local.auth_server.clone() else { return Err(MsgrError::Auth(EOPNOTSUPP)) };
        let Auth::Server { exchange, attempts, method } = &mut self.auth else { return Err(MsgrError::Auth(EOPNOTSUPP)) };
        *attempts += 1;
        if *attempts > AUTH_ATTEMPTS {
            return Err(MsgrError::AuthAttempts(AUTH_ATTEMPTS));
        }
        *method = request.method;
        *exchange = None;
        let kind = self.peer.kind;
        if !server.methods(kind).contains(&request.method) {
            self.refuse(EOPNOTSUPP);
            return Ok(());
        }
        let ours = server.modes(kind, request.method);
        let Some(mode) = request.modes.iter().map(|m| ConMode(*m)).find(|m| ours.contains(m)) else {
            self.refuse(EOPNOTSUPP);
            return Ok(());
        };
        match server.begin(AuthPeer { kind, method: request.method, mode }) {
            Err(errno) => {
                self.refuse(errno);
                Ok(())
            }
            Ok(begun) => {
                *exchange = Some(begun);
                self.peer.mode = mode;
                self.auth_more(request.payload, Tag::AuthRequest)
            }
        }
    }
    fn auth_more(&mut self, payload: Bytes, tag: Tag) -> Result<(), MsgrError> {
        let Auth::Server { exchange: Some(exchange), .. } = &mut self.auth else {
            return Err(MsgrError::Unexpected { tag, state: self.state });
        };
        let step = exchange.request(payload);
        self.auth_step(step)
    }
    /// The answer that [`AuthStep::Later`] put off.
    pub fn auth_answer(&mut self, step: AuthStep) {
        if self.state == State::AuthLater {
            self.enter(State::Auth);
            if let Err(error) = self.auth_step(step) {
                self.broken.get_or_insert(error);
            }
        }
    }
    fn auth_step(&mut self, step: AuthStep) -> Result<(), MsgrError> {
        match step {
            AuthStep::More(payload) => self.put(&AuthReplyMore { payload }),
            AuthStep::Bad(errno) => self.refuse(errno),
            AuthStep::Busy => return Err(MsgrError::Auth(16)),
            AuthStep::Later => self.enter(State::AuthLater),
            AuthStep::Done(done) => {
                let Authenticated { payload, global_id, name, session_key, connection_secret, user } = *done;
                let proven = matches!(self.auth, Auth::Server { method, .. } if method != method::NONE);
                // Daemons' own clients say that they are clients, whatever their name: a client's kind gives no rights. Every other kind does.
                let is_claimed = self.peer.kind != EntityKind::CLIENT && self.peer.kind != name.kind;
                if proven && is_claimed && !planted(Bug::BelieveHello) {
                    self.refuse(EACCES);
                    return Ok(());
                }
                let mode = self.peer.mode;
                self.peer.proven = proven;
                self.peer.global_id = global_id;
                self.peer.auth_name = name;
                self.peer.user = user;
                self.put(&AuthDone { global_id, mode: mode.0, payload });
                self.protect(mode, session_key, &connection_secret)?;
            }
        }
        Ok(())
    }
    fn refuse(&mut self, errno: i32) {
        let Some(server) = self.local.auth_server.clone() else { return };
        let Auth::Server { exchange, method, .. } = &mut self.auth else { return };
        *exchange = None;
        let method = *method;
        let kind = self.peer.kind;
        let methods = server.methods(kind);
        let mut modes: Vec<u32> = methods.iter().flat_map(|m| server.modes(kind, *m)).map(|m| m.0).collect();
        modes.sort_unstable();
        modes.dedup();
        self.put(&AuthBadMethod { method, result: -errno.abs(), methods, modes });
    }

    // ---- what both do once keys are known

    /// From here on frames are protected; the first says what we had received before.
    fn protect(&mut self, mode: ConMode, session_key: Bytes, secret: &[u8]) -> Result<(), MsgrError> {
        if mode == ConMode::SECURE {
            let (rx, tx) = Cipher::pair(secret, self.dialled)?;
            self.reader.encrypt(rx);
            self.writer.encrypt(tx);
        }
        self.peer.mode = mode;
        self.session_key = session_key;
        self.transcript.recording = false;
        let digest = self.digest(&self.transcript.rx);
        self.put(&AuthSignature { digest });
        self.auth = Auth::None;
        self.enter(State::AuthSign);
        Ok(())
    }
    fn digest(&self, transcript: &[u8]) -> [u8; 32] {
        if self.session_key.is_empty() {
            return [0; 32];
        }
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.session_key), transcript);
        tag.as_ref().try_into().expect("sha256 has 32 bytes")
    }
    fn signature(&mut self, signature: AuthSignature) -> Result<(), MsgrError> {
        let ours = self.digest(&self.transcript.tx);
        constant_time::verify_slices_are_equal(&ours, &signature.digest).map_err(|_| MsgrError::Signature)?;
        self.transcript = Default::default();
        self.session_key = Bytes::new();
        let compression = self.peer_msgr_features & self.local.msgr_features & COMPRESSION != 0;
        match (compression, self.dialled) {
            (true, true) => {
                self.enter(State::Compression);
                self.put(&CompressionRequest { compress: false, methods: Vec::new() });
            }
            (true, false) => self.enter(State::Compression),
            (false, true) => self.ask_for_session(),
            (false, false) => self.enter(State::Session),
        }
        Ok(())
    }

    // ---- the session, dialling

    fn ask_for_session(&mut self) {
        self.enter(State::Session);
        if self.session.server_cookie == 0 { self.send_client_ident() } else { self.send_reconnect() }
    }
    fn send_client_ident(&mut self) {
        if !self.policy.lossy && self.session.client_cookie == 0 {
            self.session.client_cookie = self.local.cookie();
        }
        let addrs = self.local.addrs.borrow().clone();
        self.put(&ClientIdent {
            addrs,
            target: self.peer.target,
            num: self.local.num.get(),
            global_seq: self.session.global_seq,
            supported: self.local.supported,
            required: self.policy.required,
            flags: if self.policy.lossy { FLAG_LOSSY } else { 0 },
            cookie: self.session.client_cookie,
        });
    }
    fn send_reconnect(&mut self) {
        let addrs = self.local.addrs.borrow().clone();
        let s = &self.session;
        let reconnect = Reconnect {
            addrs,
            client_cookie: s.client_cookie,
            server_cookie: s.server_cookie,
            global_seq: s.global_seq,
            connect_seq: s.connect_seq,
            msg_seq: s.in_seq,
        };
        self.put(&reconnect);
    }
    fn session_answer(&mut self, tag: Tag, payload: Bytes) -> Result<Option<Up>, MsgrError> {
        let reconnecting = self.session.server_cookie != 0;
        match tag {
            Tag::ServerIdent if !reconnecting => self.server_ident(ServerIdent::parse(payload)?)?,
            Tag::IdentMissingFeatures if !reconnecting => {
                return Err(MsgrError::MissingFeatures(IdentMissingFeatures::parse(payload)?.features));
            }
            Tag::SessionReconnectOk if reconnecting => {
                let ok = ReconnectOk::parse(payload)?;
                if !planted(Bug::KeepDuplicate) {
                    self.session.acked(ok.msg_seq);
                }
                self.ready();
            }
            Tag::SessionReset if reconnecting => {
                let full = Reset::parse(payload)?.full;
                self.forget_session(full);
                self.send_client_ident();
            }
            Tag::SessionRetry if reconnecting => {
                self.session.connect_seq = Retry::parse(payload)?.connect_seq.saturating_add(1);
                self.send_reconnect();
            }
            Tag::SessionRetryGlobal if reconnecting => {
                self.session.global_seq = self.local.next_global_seq(RetryGlobal::parse(payload)?.global_seq);
                self.send_reconnect();
            }
            Tag::Wait => {
                self.enter(State::Wait);
                return Err(MsgrError::Waiting);
            }
            tag => return Err(MsgrError::Unexpected { tag, state: self.state }),
        }
        Ok(self.pending.pop_front())
    }
    /// `full`: what is queued belonged to a peer that is no more. Otherwise it is sent in the session to come.
    pub(crate) fn forget_session(&mut self, full: bool) {
        let s = &mut self.session;
        s.renumber();
        s.server_cookie = 0;
        s.connect_seq = 0;
        if full {
            s.client_cookie = 0;
            s.peer_global_seq = 0;
            s.queue.clear();
            self.pending.push_back(Up::RemoteReset);
        }
    }
    fn server_ident(&mut self, ident: ServerIdent) -> Result<(), MsgrError> {
        let target = self.peer.target;
        if !ident.addrs.0.contains(&target) {
            return Err(MsgrError::WrongPeer);
        }
        let wanted = self.peer.name;
        if wanted.kind == EntityKind::OSD && wanted.num >= 0 && wanted.num != ident.num {
            return Err(MsgrError::WrongPeer);
        }
        let missing = ident.required & !self.local.supported;
        if missing != 0 {
            return Err(MsgrError::MissingFeatures(missing));
        }
        self.session.renumber();
        self.session.server_cookie = ident.cookie;
        self.session.peer_global_seq = ident.global_seq;
        self.peer.addrs = ident.addrs;
        self.peer.name = EntityName { kind: self.peer.kind, num: ident.num };
        self.peer.features = ident.supported & self.local.supported;
        self.peer.supported = ident.supported;
        // The server has the last word: one that keeps no sessions makes this one lossy.
        self.policy.lossy = ident.flags & FLAG_LOSSY != 0;
        self.ready();
        Ok(())
    }

    // ---- the session, accepting

    fn client_ident(&mut self, ident: ClientIdent) -> Result<Option<Up>, MsgrError> {
        if ident.addrs.is_empty() || ident.addrs.front() == Default::default() {
            return Err(MsgrError::NoAddress);
        }
        if !self.local.addrs.borrow().0.contains(&ident.target) {
            return Err(MsgrError::NotUs);
        }
        self.identify(&ident.addrs, ident.global_seq);
        self.peer.name = EntityName { kind: self.peer.kind, num: self.number(Some(ident.num))? };
        self.session.client_cookie = ident.cookie;
        let missing = self.policy.required & !ident.supported;
        if missing != 0 {
            self.put(&IdentMissingFeatures { features: missing });
            return Ok(None);
        }
        self.peer.features = ident.supported & self.local.supported;
        self.peer.supported = ident.supported;
        if self.policy.server && self.policy.lossy {
            self.send_server_ident();
            return Ok(self.pending.pop_front());
        }
        self.ident = Some(Ident::New);
        self.enter(State::Deciding);
        Ok(Some(Up::Identified))
    }
    fn reconnect(&mut self, reconnect: Reconnect) -> Result<Option<Up>, MsgrError> {
        if reconnect.addrs.is_empty() {
            return Err(MsgrError::NoAddress);
        }
        self.identify(&reconnect.addrs, reconnect.global_seq);
        self.peer.name = EntityName { kind: self.peer.kind, num: self.number(None)? };
        self.ident = Some(Ident::Again(reconnect));
        self.enter(State::Deciding);
        Ok(Some(Up::Identified))
    }
    /// The number of a peer that says this one: the ticket's, where there is a ticket that has one. -1: not known.
    fn number(&self, said: Option<i64>) -> Result<i64, MsgrError> {
        let Peer { kind, auth_name, global_id, proven, .. } = &self.peer;
        let of_ticket = match *kind {
            _ if !proven => None,
            EntityKind::OSD => Some(auth_name.id.parse().unwrap_or(-1)),
            EntityKind::CLIENT => Some(*global_id as i64),
            _ => None,
        };
        match (of_ticket, said) {
            (Some(_), Some(said)) if planted(Bug::BelieveNumber) => Ok(said),
            (Some(num), Some(said)) if *kind == EntityKind::OSD && num != said => {
                Err(MsgrError::NotItsNumber { said, name: auth_name.to_string() })
            }
            (Some(num), _) => Ok(num),
            (None, said) => Ok(said.unwrap_or(-1)),
        }
    }
    fn identify(&mut self, addrs: &types::EntityAddrVec, global_seq: u64) {
        self.peer.addrs = addrs.clone();
        self.peer.target = addrs.msgr2().unwrap_or_else(|| addrs.front());
        self.session.peer_global_seq = global_seq;
    }
    pub(crate) fn send_server_ident(&mut self) {
        self.session.renumber();
        if !self.policy.lossy {
            self.session.server_cookie = self.local.cookie();
        }
        let addrs = self.local.addrs.borrow().clone();
        self.put(&ServerIdent {
            addrs,
            num: self.local.num.get(),
            global_seq: self.local.next_global_seq(0),
            supported: self.local.supported,
            required: self.policy.required,
            flags: if self.policy.lossy { FLAG_LOSSY } else { 0 },
            cookie: self.session.server_cookie,
        });
        self.ready();
    }
    pub(crate) fn send_reconnect_ok(&mut self, msg_seq: u64) {
        if !planted(Bug::KeepDuplicate) {
            self.session.acked(msg_seq);
        }
        let msg_seq = self.session.in_seq;
        self.put(&ReconnectOk { msg_seq });
        self.ready();
    }
}
