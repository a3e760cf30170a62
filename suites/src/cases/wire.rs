//! A client that speaks msgr2.1 by hand, for what no stock client does: messages that end half-way, answers that are not read.
//!
//! Holds the handshake of a cluster without authentication, in crc mode, and requests on one object. Absent: reading anything but the length of
//! what the server says while the session opens.
//!
//! Source of the facts: Ceph 18.2 `doc/dev/msgr2.rst`, `src/msg/async/frames_v2.h`, `src/include/{msgr,rados}.h`, `src/messages/MOSDOp.h`.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::time::Duration;

const PREAMBLE: usize = 32;
/// Tags of frames.
const HELLO: u8 = 1;
const AUTH_REQUEST: u8 = 2;
const AUTH_SIGNATURE: u8 = 7;
const CLIENT_IDENT: u8 = 8;
const SERVER_IDENT: u8 = 9;
const MESSAGE: u8 = 17;

/// `CEPH_MSG_OSD_OP`, and the codes and flags of what it asks for.
const OSD_OP: u16 = 42;
const READ: u16 = 0x1201;
const WRITE: u16 = 0x2201;
const FLAG_READ: u32 = 0x10;
const FLAG_WRITE: u32 = 0x24;

/// CRC-32C without inversions, as Ceph has it: from 0 for a preamble, from -1 for segments.
fn crc32c(from: u32, bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(from, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 }))
}

/// Little-endian fields, one behind the other.
#[derive(Default)]
struct Fields(Vec<u8>);
impl Fields {
    fn u8(mut self, n: u8) -> Self {
        self.0.push(n);
        self
    }
    fn u16(mut self, n: u16) -> Self {
        self.0.extend(n.to_le_bytes());
        self
    }
    fn u32(mut self, n: u32) -> Self {
        self.0.extend(n.to_le_bytes());
        self
    }
    fn u64(mut self, n: u64) -> Self {
        self.0.extend(n.to_le_bytes());
        self
    }
    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }
    /// With the length in front.
    fn blob(self, bytes: &[u8]) -> Self {
        self.u32(bytes.len() as u32).raw(bytes)
    }
    /// A versioned structure.
    fn frame(self, version: u8, compat: u8, inside: Fields) -> Self {
        self.u8(version).u8(compat).blob(&inside.0)
    }
}

/// `entity_addr_t` of an address with msgr2.
fn address(at: SocketAddrV4, nonce: u32) -> Fields {
    let sockaddr = Fields::default().u16(2).raw(&at.port().to_be_bytes()).raw(&at.ip().octets()).raw(&[0; 8]);
    Fields::default().u8(1).frame(1, 1, Fields::default().u32(2).u32(nonce).blob(&sockaddr.0))
}

fn preamble(tag: u8, lens: &[usize]) -> Vec<u8> {
    let mut out = Fields::default().u8(tag).u8(lens.len() as u8);
    for len in lens {
        out = out.u32(*len as u32).u16(8);
    }
    out.0.resize(PREAMBLE - 4, 0);
    let crc = crc32c(0, &out.0);
    out.u32(crc).0
}

fn control(tag: u8, payload: &Fields) -> Vec<u8> {
    let crc = crc32c(u32::MAX, &payload.0);
    [preamble(tag, &[payload.0.len()]), payload.0.clone(), crc.to_le_bytes().to_vec()].concat()
}

/// An object of a cluster, and the OSD that has it.
#[derive(Debug, Clone)]
pub struct Target {
    osd: SocketAddrV4,
    nonce: u32,
    epoch: u32,
    pool: u64,
    /// Of the object's name.
    hash: u32,
    /// Of the placement group.
    seed: u32,
    name: String,
}

impl Target {
    /// From `ceph osd dump` and `ceph osd map POOL NAME`, both as JSON.
    pub fn find(dump: &str, map: &str) -> Result<Self> {
        let (dump, map): (Value, Value) = (serde_json::from_str(dump.trim())?, serde_json::from_str(map.trim())?);
        let addr = &dump["osds"][0]["public_addrs"]["addrvec"][0];
        let number = |v: &Value, what| v.as_u64().with_context(|| format!("{what} is a number"));
        let hash_of = |text: &Value| {
            let text = text.as_str().context("a group's id is text")?;
            u32::from_str_radix(text.rsplit('.').next().unwrap_or_default(), 16).with_context(|| format!("{text} is a group's id"))
        };
        Ok(Self {
            osd: addr["addr"].as_str().unwrap_or_default().parse().context("osd.0 has an address")?,
            nonce: number(&addr["nonce"], "a nonce")? as u32,
            epoch: number(&map["epoch"], "an epoch")? as u32,
            pool: number(&map["pool_id"], "a pool")?,
            hash: hash_of(&map["raw_pgid"])?,
            seed: hash_of(&map["pgid"])?,
            name: map["objname"].as_str().unwrap_or_default().into(),
        })
    }

    /// Opens a session as the client of that number.
    pub fn dial(&self, number: u64, patience: Duration) -> Result<TcpStream> {
        let mut socket = TcpStream::connect_timeout(&self.osd.into(), patience)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(patience))?;
        let own = SocketAddrV4::new([127, 0, 0, 1].into(), 0);
        let banner = Fields::default().raw(b"ceph v2\n").u16(16).u64(1).u64(0);
        let hello = control(HELLO, &Fields::default().u8(8).raw(&address(self.osd, self.nonce).0));
        // Method `none`, mode crc; its payload is an authorizer.
        let who = Fields::default().u8(1).u32(8).blob(b"admin").u64(number);
        let auth = control(AUTH_REQUEST, &Fields::default().u32(1).u32(1).u32(1).blob(&who.0));
        let signature = control(AUTH_SIGNATURE, &Fields::default().raw(&[0; 32]));
        let ident = Fields::default().u8(2).u32(1).raw(&address(own, number as u32).0).raw(&address(self.osd, self.nonce).0);
        let ident = ident.u64(number).u64(1).u64(u64::MAX).u64(0).u64(1).u64(0);
        socket.write_all(&[banner.0, hello, auth, signature, control(CLIENT_IDENT, &ident)].concat())?;
        let mut said = [0; 26];
        socket.read_exact(&mut said)?;
        ensure!(said.starts_with(b"ceph v2\n"), "{said:?} is no banner");
        loop {
            let mut head = [0; PREAMBLE];
            socket.read_exact(&mut head)?;
            let len = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
            ensure!(head[1] == 1 && len <= 4096, "frame {} of {len} bytes while the session opens", head[0]);
            socket.read_exact(&mut vec![0; if len > 0 { len + 4 } else { 0 }])?;
            if head[0] == SERVER_IDENT {
                return Ok(socket);
            }
        }
    }

    fn message(&self, number: u64, code: u16, flags: u32, (offset, len): (u64, u64), data: usize) -> (Vec<u8>, Vec<u8>) {
        let pg = Fields::default().u8(1).u64(self.pool).u32(self.seed).u32(u32::MAX);
        let front = Fields::default().frame(1, 1, pg.u8(u8::MAX)).u32(self.hash).u32(self.epoch).u32(flags);
        let front = front.frame(2, 2, Fields::default().raw(&[0; 21])).raw(&[0; 24]).u32(0).u64(0);
        let place = Fields::default().u64(self.pool).u32(u32::MAX).u32(0).u32(0).u64(u64::MAX);
        let front = front.frame(6, 3, place).blob(self.name.as_bytes());
        // One operation: offset, length, no truncation.
        let front = front.u16(1).u16(code).u32(0).u64(offset).u64(len).raw(&[0; 12]).u32(data as u32);
        // The head, no snapshots, the first attempt, the connection's features.
        let front = front.u64(u64::MAX - 1).u64(0).u32(0).u32(0).u64(0).0;
        let header = Fields::default().u64(number).u64(number).u16(OSD_OP).u16(63).u16(8).u32(0).u16(0).u64(0).u8(0).u16(3).u16(0).0;
        let lens = [header.len(), front.len(), 0, data];
        let lens = if data == 0 { &lens[..2] } else { &lens[..] };
        let crc = crc32c(u32::MAX, &header).to_le_bytes().to_vec();
        let tail = Fields::default().u8(0x0e).u32(crc32c(u32::MAX, &front)).u32(u32::MAX).u32(u32::MAX).0;
        ([preamble(MESSAGE, lens), header, crc, front].concat(), tail)
    }
    /// What stands in front of a write's data. `number` goes up by one with each message of a session, from 1.
    pub fn write_head(&self, number: u64, data: usize) -> Vec<u8> {
        self.message(number, WRITE, FLAG_WRITE, (0, data as u64), data).0
    }
    /// A whole request for `len` bytes from `offset`.
    pub fn read(&self, number: u64, offset: u64, len: u64) -> Vec<u8> {
        let (head, tail) = self.message(number, READ, FLAG_READ, (offset, len), 0);
        [head, tail].concat()
    }
}
