//! A connection: one session and the transport that it has at the moment.

use crate::accept::Ident;
use crate::auth::{AuthClient, AuthExchange, ConMode};
use crate::control::{Ack, Control, Keepalive2, Keepalive2Ack};
use crate::planted::{Bug, planted};
use crate::session::Session;
use crate::{Frame, Header, Local, MsgrError, Policy, ReadTarget, Reader, SendQueue, Tag, Writer};
use bytes::BytesMut;
use messages::RawMessage;
use std::any::Any;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, EntityKind, EntityName, EntityText};

/// Where a connection is; the picture is in the crate's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// No transport; one is to be dialled.
    Idle,
    Banner,
    Hello,
    Auth,
    /// The server's decision is pending.
    AuthLater,
    AuthSign,
    Compression,
    Session,
    /// The shell is to look for a session with the same peer.
    Deciding,
    Ready,
    /// No transport, and none needed until there is something to send.
    Standby,
    /// Told to wait for the peer's own dial.
    Wait,
    Closed,
}

impl State {
    /// The arrows of the picture. A cut and the end may come at any time.
    fn leads_to(self, to: State) -> bool {
        use State::*;
        match (self, to) {
            (_, Closed) => true,
            (Closed, _) => false,
            (_, Idle | Standby) => true,
            _ => matches!(
                (self, to),
                (Idle, Banner)
                    | (Banner, Hello)
                    | (Hello, Auth)
                    | (Auth, AuthLater | AuthSign)
                    | (AuthLater, Auth)
                    | (AuthSign, Compression | Session)
                    | (Compression, Session)
                    | (Session, Deciding | Wait | Ready)
                    | (Deciding, Session)
            ),
        }
    }
}

/// The peer at the other end.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    pub kind: EntityKind,
    /// Kind and number. Where [`Peer::proven`] says so they are the ticket's: an OSD's number is its name's, a client's its global_id.
    pub name: EntityName,
    /// As it authenticated: `client.admin`. Known to the accepting side only.
    pub auth_name: EntityText,
    /// [`Peer::auth_name`] was shown with a key, and not only said.
    pub proven: bool,
    pub global_id: u64,
    /// What the peer says its addresses are.
    pub addrs: EntityAddrVec,
    /// The other end of the socket, whatever the peer says.
    pub from: EntityAddr,
    /// Where it is dialled, or from where its socket came.
    pub target: EntityAddr,
    /// Bits that both sides have.
    pub features: u64,
    /// Bits that it has, also those that we lack.
    pub supported: u64,
    pub mode: ConMode,
    /// What the [`crate::AuthServer`] attached: capabilities.
    pub user: Option<Rc<dyn Any>>,
}

/// What happened, for the layers above.
#[derive(Debug)]
pub enum Up {
    Message(RawMessage),
    /// The session is open, for the first time or again.
    Ready,
    /// Call [`Connection::decide`] with the lossless connection to [`Peer::addrs`], if there is one.
    Identified,
    /// The peer lost its side of the session; messages that were under way are gone.
    RemoteReset,
}

/// What a cut transport leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The session is over.
    Closed,
    /// Wait until there is something to send, or the peer dials.
    Standby,
    /// Dial again after this time, unless the peer is faster.
    Redial(Duration),
}

/// First pause between dials, and the longest; it doubles in between.
const BACKOFF_FIRST: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(15);
const _: () = assert!(BACKOFF_FIRST.as_millis() < BACKOFF_MAX.as_millis());
/// A lossless receiver says what it has after this many messages or bytes, at the latest; see [`Connection::ack`].
const ACK_MESSAGES: u32 = 16;
const ACK_BYTES: usize = 1 << 20;

/// Where authentication is.
pub(crate) enum Auth {
    None,
    Server { exchange: Option<Box<dyn AuthExchange>>, attempts: u32, method: u32 },
    Client { exchange: Box<dyn AuthClient>, attempts: u32, modes: Vec<ConMode> },
}

/// Both directions of a handshake, for its signatures.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    pub recording: bool,
    pub rx: Vec<u8>,
    pub tx: Vec<u8>,
}

/// One end of a connection.
pub struct Connection {
    pub(crate) local: Rc<Local>,
    pub(crate) policy: Policy,
    pub(crate) state: State,
    /// On the present transport we are the end that dialled.
    pub(crate) dialled: bool,
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) transcript: Transcript,
    pub(crate) auth: Auth,
    pub(crate) session_key: bytes::Bytes,
    pub(crate) peer: Peer,
    pub(crate) peer_msgr_features: u64,
    pub(crate) session: Session,
    /// The accepting side's: what the peer wants, while [`State::Deciding`].
    pub(crate) ident: Option<Ident>,
    pub(crate) pending: VecDeque<Up>,
    pub(crate) broken: Option<MsgrError>,
    backoff: Duration,
    last_keepalive_ack: Option<(u32, u32)>,
}

impl Connection {
    fn new(local: Rc<Local>, policy: Policy, peer: Peer, dialled: bool) -> Self {
        let reader = Reader::new(local.limits);
        Self {
            local,
            policy,
            state: State::Idle,
            dialled,
            reader,
            writer: Writer::default(),
            transcript: Transcript::default(),
            auth: Auth::None,
            session_key: bytes::Bytes::new(),
            peer,
            peer_msgr_features: 0,
            session: Session::default(),
            ident: None,
            pending: VecDeque::new(),
            broken: None,
            backoff: Duration::ZERO,
            last_keepalive_ack: None,
        }
    }
    /// One that is to be dialled at `addrs`' msgr2 address.
    pub fn dial(local: Rc<Local>, policy: Policy, kind: EntityKind, addrs: EntityAddrVec) -> Self {
        Self::dial_to(local, policy, EntityName { kind, num: -1 }, addrs)
    }
    /// As [`Connection::dial`], where the number is known that must be there; -1: any.
    pub fn dial_to(local: Rc<Local>, policy: Policy, name: EntityName, addrs: EntityAddrVec) -> Self {
        let target = addrs.msgr2().unwrap_or_else(|| addrs.front());
        let peer = Peer { kind: name.kind, target, from: target, addrs, name, ..Peer::default() };
        Self::new(local, policy, peer, true)
    }
    /// One whose socket was accepted from `from`.
    pub fn accept(local: Rc<Local>, from: EntityAddr) -> Self {
        let policy = Policy::stateless_server();
        let mut accepted = Self::new(local, policy, Peer { target: from, from, ..Peer::default() }, false);
        accepted.greet();
        accepted
    }
    /// A dial got through: the handshake starts.
    pub fn start(&mut self) {
        assert_eq!(self.state, State::Idle, "a connection is started when it has no transport");
        self.dialled = true;
        self.reset_transport();
        self.session.global_seq = self.local.next_global_seq(0);
        self.greet();
    }

    /// True if we dialled the present transport.
    pub fn dialled(&self) -> bool {
        self.dialled
    }
    pub fn state(&self) -> State {
        self.state
    }
    pub fn peer(&self) -> &Peer {
        &self.peer
    }
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
    /// Bytes for the socket.
    pub fn out(&mut self) -> &mut SendQueue {
        &mut self.writer.queue
    }
    /// Bytes that the receive buffer must hold before anything can happen.
    pub fn need(&self) -> usize {
        match self.state {
            State::Banner => crate::handshake::BANNER,
            _ => self.reader.need(),
        }
    }
    /// Bytes of the message that is being received, from the moment that its header says so until it is whole.
    #[inline]
    pub fn coming(&self) -> Option<u64> {
        self.reader.coming()
    }
    /// Where the next bytes of the stream belong, if not all of them to the end of `buf`; see [`crate::direct`]. After reading,
    /// [`Connection::received`] is to be told, then [`Connection::next`] called.
    #[inline]
    pub fn read_target(&mut self, buf: &mut BytesMut) -> Option<ReadTarget<'_>> {
        self.reader.read_target(self.local.receive_buffers.as_deref()?, buf)
    }
    /// So many bytes are in the target's data, perhaps none.
    pub fn received(&mut self, n: usize) {
        self.reader.received(n);
    }
    /// Bytes of messages that wait for a transport or an ack.
    pub fn kept_bytes(&self) -> usize {
        self.session.kept_bytes()
    }
    /// True if messages wait for a transport.
    pub fn has_queued(&self) -> bool {
        self.session.has_messages()
    }
    /// True if [`Connection::next`] has something to say without another byte.
    pub fn has_news(&self) -> bool {
        !self.pending.is_empty() || self.broken.is_some()
    }
    /// Where to dial: for an accepted session the address that its peer gave.
    pub fn target(&self) -> EntityAddr {
        self.peer.target
    }
    /// Time that the peer's last answer to a keepalive carried: seconds and nanoseconds of our clock.
    pub fn last_keepalive_ack(&self) -> Option<(u32, u32)> {
        self.last_keepalive_ack
    }

    /// What the next bytes mean. `None`: more bytes are needed, or the shell's decision. An error ends the transport.
    #[inline]
    pub fn next(&mut self, buf: &mut BytesMut) -> Result<Option<Up>, MsgrError> {
        loop {
            if self.broken.is_some() || !self.pending.is_empty() || self.state != State::Ready {
                if let Some(error) = self.broken.take() {
                    return Err(error);
                }
                if let Some(up) = self.pending.pop_front() {
                    return Ok(Some(up));
                }
                if self.state == State::Banner && self.banner(buf)? {
                    continue;
                }
                match self.state {
                    State::Banner | State::Deciding | State::AuthLater => return Ok(None),
                    State::Idle | State::Standby | State::Wait | State::Closed => return Ok(None),
                    _ => {}
                }
            }
            let Some(frame) = self.reader.next(buf)? else { return Ok(None) };
            let up = match (self.state, frame.tag) {
                (State::Ready, Tag::Message) => self.message(&frame)?,
                (State::Ready, _) => self.ready_control(&frame)?,
                _ => self.handshake(&frame)?,
            };
            if up.is_some() {
                return Ok(up);
            }
        }
    }

    #[inline]
    fn message(&mut self, frame: &Frame) -> Result<Option<Up>, MsgrError> {
        let header = Header::decode(frame.as_slice(0))?;
        let session = &mut self.session;
        if header.seq <= session.in_seq && !planted(Bug::KeepDuplicate) {
            return Ok(None); // Resent, although we had it: its ack was lost with the old socket.
        }
        session.in_seq = header.seq;
        let data = frame.segment(3);
        let message = RawMessage {
            kind: header.kind,
            version: header.version,
            compat: header.compat,
            priority: header.priority,
            tid: header.tid,
            data_off: header.data_off,
            front: frame.segment(1),
            middle: frame.segment(2),
            data: if data.is_empty() { Vec::new() } else { vec![data] },
            data_crc: frame.data_crc(),
        };
        if !self.policy.lossy {
            session.unacked += 1;
            session.unacked_bytes += message.len();
            session.acked(header.ack_seq);
        }
        Ok(Some(Up::Message(message)))
    }

    fn ready_control(&mut self, frame: &Frame) -> Result<Option<Up>, MsgrError> {
        match frame.tag {
            Tag::Ack => {
                let ack = Ack::parse(frame.segment(0))?;
                self.session.acked(ack.seq);
            }
            Tag::Keepalive2 => {
                let Keepalive2 { sec, nsec } = Keepalive2::parse(frame.segment(0))?;
                self.put(&Keepalive2Ack { sec, nsec });
            }
            Tag::Keepalive2Ack => {
                let Keepalive2Ack { sec, nsec } = Keepalive2Ack::parse(frame.segment(0))?;
                self.last_keepalive_ack = Some((sec, nsec));
            }
            tag => return Err(MsgrError::Unexpected { tag, state: self.state }),
        }
        Ok(None)
    }

    /// Takes a message. It goes out with [`Connection::out`] at once if the session is open, later otherwise, and nowhere if it is closed.
    #[inline]
    pub fn send(&mut self, message: RawMessage) {
        match self.state {
            State::Ready => {
                self.session.out_seq += 1;
                let seq = self.session.out_seq;
                self.frame(seq, &message);
                if !self.policy.lossy && (self.session.sent.len() <= 2 || !planted(Bug::ForgetToKeep)) {
                    self.session.sent.push_back((seq, message));
                }
            }
            State::Closed => {}
            _ => self.session.queue.push_back(message),
        }
    }
    #[inline]
    fn frame(&mut self, seq: u64, message: &RawMessage) {
        let header = Header {
            seq,
            tid: message.tid,
            kind: message.kind,
            priority: message.priority,
            version: message.version,
            data_off: message.data_off,
            ack_seq: self.session.in_seq,
            compat: message.compat,
        };
        self.session.unacked = 0;
        self.session.unacked_bytes = 0;
        if let Err(error) = self.writer.message(&header, message) {
            self.broken.get_or_insert(error);
        }
    }
    /// Says what was received, where no message of ours said it. Called at the end of a turn it does so only for long arrears;
    /// `now` (a timer of some 50 ms) for any. Lossy sessions have no acks: neither end keeps what it could free.
    pub fn ack(&mut self, now: bool) {
        let s = &mut self.session;
        if self.state != State::Ready || s.unacked == 0 || self.policy.lossy {
            return;
        }
        if now || s.unacked >= ACK_MESSAGES || s.unacked_bytes >= ACK_BYTES {
            s.unacked = 0;
            s.unacked_bytes = 0;
            let seq = s.in_seq;
            self.put(&Ack { seq });
        }
    }
    /// True if an ack is owed that [`Connection::ack`] has put off.
    pub fn owes_ack(&self) -> bool {
        self.session.unacked > 0 && !self.policy.lossy && self.state == State::Ready
    }
    /// Asks the peer for a sign of life; the answer brings back the time, which is our clock's.
    pub fn keepalive(&mut self, sec: u32, nsec: u32) {
        if self.state == State::Ready {
            self.put(&Keepalive2 { sec, nsec });
        }
    }
    /// The session ends here and now.
    pub fn close(&mut self) {
        self.enter(State::Closed);
        self.session = Session::default();
        self.reset_transport();
        self.pending.clear();
    }

    /// The transport is gone, or is to be given up after an error.
    pub fn fault(&mut self) -> Fault {
        let was = self.state;
        let dialling = self.dialled && !matches!(was, State::Ready | State::Standby | State::Closed);
        self.reset_transport();
        self.pending.clear();
        let over = match was {
            State::Closed => true,
            _ if self.policy.lossy => !dialling,
            // A socket that was accepted and never became a session's.
            State::Banner
            | State::Hello
            | State::Auth
            | State::AuthLater
            | State::AuthSign
            | State::Compression
            | State::Session
            | State::Deciding => !self.dialled,
            _ => false,
        };
        if over {
            self.close();
            return Fault::Closed;
        }
        if (self.policy.standby && !self.session.has_messages() && was != State::Wait) || self.policy.server {
            self.enter(State::Standby);
            return Fault::Standby;
        }
        if !self.session.sent.is_empty() && planted(Bug::TakeSentForReceived) {
            self.session.sent.clear();
        }
        self.enter(State::Idle);
        if self.session.server_cookie != 0 {
            self.session.connect_seq += 1;
        }
        self.backoff = match was {
            State::Wait => BACKOFF_MAX,
            State::Ready => Duration::ZERO,
            _ => (self.backoff * 2).clamp(BACKOFF_FIRST, BACKOFF_MAX),
        };
        Fault::Redial(self.backoff)
    }
    /// Out of [`State::Standby`]: there is something to send now.
    pub fn wake(&mut self) {
        if self.state == State::Standby && !self.policy.server {
            if self.session.server_cookie != 0 {
                self.session.connect_seq += 1;
            }
            self.enter(State::Idle);
        }
    }

    /// The only way to another state, but for [`Connection::adopt`].
    pub(crate) fn enter(&mut self, to: State) {
        assert!(self.state.leads_to(to), "from {:?} to {to:?}", self.state);
        self.state = to;
    }
    /// Another connection's transport is this one's now; it stands at the session.
    pub(crate) fn adopt(&mut self) {
        assert!(self.state != State::Closed, "what is closed takes no transport");
        self.state = State::Session;
    }
    pub(crate) fn reset_transport(&mut self) {
        self.reader = Reader::new(self.local.limits);
        self.writer = Writer::default();
        self.transcript = Transcript::default();
        self.auth = Auth::None;
        self.session_key = bytes::Bytes::new();
        self.ident = None;
        self.broken = None;
        self.session.unacked = 0;
        self.session.unacked_bytes = 0;
    }
    /// The session is open: what waited goes out.
    pub(crate) fn ready(&mut self) {
        self.enter(State::Ready);
        self.backoff = Duration::ZERO;
        self.reader.open();
        self.auth = Auth::None;
        self.transcript = Transcript::default();
        let sent = std::mem::take(&mut self.session.sent);
        let from = usize::from(!sent.is_empty() && planted(Bug::ReplayTooLate));
        for (seq, message) in sent.iter().skip(from) {
            self.frame(*seq, message);
        }
        self.session.sent = sent;
        for message in std::mem::take(&mut self.session.queue) {
            self.send(message);
        }
        self.pending.push_back(Up::Ready);
    }
    /// Puts a control frame into the queue.
    pub(crate) fn put<C: Control>(&mut self, control: &C) {
        let mark = self.writer.queue.mark();
        if let Err(error) = self.writer.control(C::TAG, &control.payload()) {
            self.broken.get_or_insert(error);
        }
        if self.transcript.recording {
            self.transcript.tx.extend_from_slice(self.writer.queue.since(mark));
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({:?}, {} {}, {:?})", self.state, self.peer.name, self.peer.addrs, self.policy)
    }
}
