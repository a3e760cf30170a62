//! A peer that has logged in as it should, and then makes each frame by hand: any tag, any lengths, any contents, sealed as its session demands.
//!
//! Holds the login, the frames, and how the other side ends it. Absent: bits turned under a right tag of secure mode, which nobody without the session's
//! key can send: what is wrong here was wrong before it was sealed.

use super::{Cluster, PATIENCE};
use base::{Rng, crc32c};
use bytes::{Bytes, BytesMut};
use messages::RawMessage;
use msgr::frame::{BLOCK, COMPLETE, CRC_EPILOGUE, GCM_TAG, INLINE, PREAMBLE, SECURE_EPILOGUE, padded};
use msgr::{
    AuthClient, AuthClients, AuthStart, Cipher, ClientAuthenticated, ConMode, Connection, Header, Local, Policy, Preamble, State, Tag, Up,
};
use std::cell::RefCell;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::rc::Rc;
use std::time::Instant;
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind};

/// A frame as it is said, which need not be what it is.
#[derive(Clone)]
pub struct Forged {
    pub preamble: [u8; PREAMBLE],
    pub segments: Vec<Vec<u8>>,
    /// `late_status`, if there are several segments.
    pub status: u8,
    /// Of which segment the crc is wrong, in crc mode.
    pub wrong_crc: Option<usize>,
}

impl Forged {
    /// An honest frame of these segments.
    pub fn new(tag: Tag, mut segments: Vec<Vec<u8>>) -> Self {
        while segments.len() > 1 && segments.last().is_some_and(Vec::is_empty) {
            segments.pop();
        }
        let lens = std::array::from_fn(|n| segments.get(n).map_or(0, |s| s.len() as u32));
        Self { preamble: Preamble::new(tag, lens).encode(), segments, status: COMPLETE, wrong_crc: None }
    }
    /// An honest frame of a message.
    pub fn message(header: &Header, message: &RawMessage) -> Self {
        let data = message.data.iter().flat_map(|piece| piece.iter().copied()).collect();
        Self::new(Tag::Message, vec![header.encode().to_vec(), message.front.to_vec(), message.middle.to_vec(), data])
    }
    /// Changes the preamble, and makes its crc right again.
    pub fn say(&mut self, change: impl FnOnce(&mut [u8; PREAMBLE])) {
        change(&mut self.preamble);
        let crc = crc32c(0, &self.preamble[..PREAMBLE - 4]);
        self.preamble[PREAMBLE - 4..].copy_from_slice(&crc.to_le_bytes());
    }
    fn plain(&self) -> Vec<u8> {
        let crc = |n: usize| crc32c(u32::MAX, &self.segments[n]) ^ u32::from(self.wrong_crc == Some(n));
        let mut out = self.preamble.to_vec();
        if !self.segments[0].is_empty() {
            out.extend_from_slice(&self.segments[0]);
            out.extend_from_slice(&crc(0).to_le_bytes());
        }
        if self.segments.len() > 1 {
            self.segments[1..].iter().for_each(|s| out.extend_from_slice(s));
            let mut epilogue = [0; CRC_EPILOGUE];
            epilogue[0] = self.status;
            for n in 1..self.segments.len().min(4) {
                epilogue[4 * n - 3..4 * n + 1].copy_from_slice(&crc(n).to_le_bytes());
            }
            out.extend_from_slice(&epilogue);
        }
        out
    }
    fn sealed(&self, cipher: &mut Cipher) -> Vec<u8> {
        let mut out = self.preamble.to_vec();
        let (inline, rest) = self.segments[0].split_at(self.segments[0].len().min(INLINE));
        out.extend_from_slice(inline);
        out.resize(PREAMBLE + INLINE, 0);
        cipher.seal(&mut out, 0).unwrap();
        if !rest.is_empty() {
            let from = out.len();
            out.extend_from_slice(rest);
            out.resize(from + padded(rest.len()), 0);
            cipher.seal(&mut out, from).unwrap();
        }
        if self.segments.len() > 1 {
            let from = out.len();
            for segment in &self.segments[1..] {
                out.extend_from_slice(segment);
                out.resize(from + (out.len() - from).next_multiple_of(BLOCK), 0);
            }
            out.push(self.status);
            out.extend_from_slice(&[0; SECURE_EPILOGUE - 1]);
            cipher.seal(&mut out, from).unwrap();
        }
        out
    }
}

/// The secret that a login brought.
struct Tap {
    inner: Rc<dyn AuthClients>,
    secret: Rc<RefCell<Bytes>>,
}
struct TapExchange {
    inner: Box<dyn AuthClient>,
    secret: Rc<RefCell<Bytes>>,
}
impl AuthClients for Tap {
    fn exchange(&self, peer: EntityKind) -> Box<dyn AuthClient> {
        Box::new(TapExchange { inner: self.inner.exchange(peer), secret: self.secret.clone() })
    }
}
impl AuthClient for TapExchange {
    fn start(&mut self) -> Result<AuthStart, i32> {
        self.inner.start()
    }
    fn reply_more(&mut self, payload: Bytes) -> Result<Bytes, i32> {
        self.inner.reply_more(payload)
    }
    fn done(&mut self, global_id: u64, mode: ConMode, payload: Bytes) -> Result<ClientAuthenticated, i32> {
        let got = self.inner.done(global_id, mode, payload)?;
        *self.secret.borrow_mut() = got.connection_secret.clone();
        Ok(got)
    }
}

/// A session whose frames are made by hand from here on.
pub struct ByHand {
    socket: TcpStream,
    /// Reads what the other side says; what it would send is thrown away.
    conn: Connection,
    buf: BytesMut,
    cipher: Option<Cipher>,
    /// Of the last message.
    pub seq: u64,
}

impl ByHand {
    /// `None`: not let in.
    pub fn open(cluster: &Cluster, at: EntityKind, auth: Rc<dyn AuthClients>, rng: &mut Rng) -> Option<Self> {
        let secret: Rc<RefCell<Bytes>> = Rc::default();
        let tap = Rc::new(Tap { inner: auth, secret: secret.clone() });
        let target = match at {
            EntityKind::OSD => cluster.map().client_addrs[0].clone(),
            EntityKind::MGR => EntityAddrVec::one(EntityAddr::msgr2(cluster.addr(at), cluster.mgr_nonce)),
            _ => EntityAddrVec::one(EntityAddr::msgr2(cluster.addr(at), 0)),
        };
        let seed = rng.u64();
        let own = EntityAddr { kind: AddrType::MSGR2, nonce: seed as u32, ..EntityAddr::default() };
        let local = Local::new(EntityKind::CLIENT, 666, own.into(), tap, seed);
        let mut conn = Connection::dial(Rc::new(local), Policy::lossy_client(), at, target);
        conn.start();
        let socket = TcpStream::connect(cluster.addr(at)).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut peer = Self { socket, conn, buf: BytesMut::new(), cipher: None, seq: 0 };
        // What goes out once there is a secret is sealed.
        let mut sealed = Vec::new();
        loop {
            let out = peer.conn.out().take_flat();
            if !secret.borrow().is_empty() {
                sealed.extend_from_slice(&out);
            }
            peer.socket.write_all(&out).ok()?;
            if peer.conn.state() == State::Ready {
                break;
            }
            peer.read()?;
        }
        if peer.conn.peer().mode == ConMode::SECURE {
            peer.cipher = Some(behind(&secret.borrow(), &sealed));
        }
        Some(peer)
    }
    pub fn is_secure(&self) -> bool {
        self.cipher.is_some()
    }
    /// The bytes of a frame; each may be asked for once, and all of them are to be sent in order.
    pub fn bytes(&mut self, frame: &Forged) -> Vec<u8> {
        match &mut self.cipher {
            Some(cipher) => frame.sealed(cipher),
            None => frame.plain(),
        }
    }
    /// Sends bytes. A side that has hung up is noticed when reading.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }
    /// The header of the next message.
    pub fn header(&mut self, message: &RawMessage) -> Header {
        self.seq += 1;
        let RawMessage { kind, version, compat, priority, tid, data_off, .. } = *message;
        Header { seq: self.seq, tid, kind, priority, version, data_off, ack_seq: 0, compat }
    }
    /// Messages of one read. `None`: hung up.
    fn read(&mut self) -> Option<Vec<RawMessage>> {
        let mut chunk = [0; 65536];
        let n = match self.socket.read(&mut chunk) {
            Ok(0) => return None,
            Ok(n) => n,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("neither an answer nor the end of the connection")
            }
            Err(_) => return None,
        };
        self.buf.extend_from_slice(&chunk[..n]);
        let mut out = Vec::new();
        loop {
            match self.conn.next(&mut self.buf) {
                Ok(Some(Up::Message(message))) => out.push(message),
                Ok(Some(_)) => {}
                Ok(None) => return Some(out),
                Err(_) => return None,
            }
        }
    }
    /// Sends a message that is answered in any case, and reads up to the answer. False: hung up on.
    pub fn is_answered(&mut self, question: RawMessage, is_answer: impl Fn(&RawMessage) -> bool) -> bool {
        let header = self.header(&question);
        let bytes = self.bytes(&Forged::message(&header, &question));
        self.send(&bytes);
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            match self.read() {
                None => return false,
                Some(messages) if messages.iter().any(&is_answer) => return true,
                Some(_) => {}
            }
        }
        panic!("other answers without end")
    }
    /// Says that nothing more comes, and reads until the other side has closed, which it must.
    pub fn end(mut self) {
        let _ = self.socket.shutdown(Shutdown::Write);
        let start = Instant::now();
        let mut chunk = [0; 65536];
        loop {
            assert!(start.elapsed() < PATIENCE, "a connection that has ended is not closed");
            match self.socket.read(&mut chunk) {
                Ok(0) => return,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    panic!("a connection that has ended is not closed")
                }
                Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

/// The cipher of the side that dialled, as far as these frames of it have used it.
fn behind(secret: &[u8], mut sealed: &[u8]) -> Cipher {
    let (mut cipher, _) = Cipher::pair(secret, false).unwrap();
    let mut open = |len: usize| {
        let (part, rest) = sealed.split_at(len);
        let mut part = part.to_vec();
        sealed = rest;
        cipher.open(&mut part).expect("our own frames");
        (part, sealed.is_empty())
    };
    loop {
        let (head, is_last) = open(PREAMBLE + INLINE + GCM_TAG);
        let (rest, others) = Preamble::decode(head[..PREAMBLE].try_into().unwrap()).unwrap().secure_lens();
        let mut is_over = is_last;
        for len in [rest, others].into_iter().filter(|len| *len > 0) {
            is_over = open(len).1;
        }
        if is_over {
            return cipher;
        }
    }
}
