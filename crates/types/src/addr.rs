//! Addresses: `v2:127.0.0.1:3300/123`, alone and in vectors.
//!
//! Source of the encodings: Ceph 18.2 `src/msg/msg_types.{h,cc}` (a first byte 0 is the form before Nautilus, 1 the versioned one,
//! 2 a vector; the form depends on the peer's MSG_ADDR2).

use crate::features;
use denc::{Decoder, Denc, DencError, Encoder};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AddrType(pub u32);

impl AddrType {
    pub const NONE: Self = Self(0);
    /// msgr1.
    pub const LEGACY: Self = Self(1);
    pub const MSGR2: Self = Self(2);
    /// Either protocol: what blocklists and watchers hold.
    pub const ANY: Self = Self(3);
    /// A network: `nonce` is the prefix length.
    pub const CIDR: Self = Self(4);

    pub fn name(self) -> &'static str {
        match self {
            Self::NONE => "none",
            Self::LEGACY => "v1",
            Self::MSGR2 => "v2",
            Self::ANY => "any",
            Self::CIDR => "cidr",
            _ => "???",
        }
    }
}

/// `entity_addr_t`. Sorts as Ceph sorts it, by the bytes of the struct in memory: maps with addresses as keys are encoded in that order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EntityAddr {
    pub kind: AddrType,
    pub ip: Option<IpAddr>,
    pub port: u16,
    pub nonce: u32,
}

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// sockaddr_in6, the longest that Ceph sends in the versioned form.
const SOCKADDR_MAX: usize = 28;
const SOCKADDR_STORAGE: usize = 128;

impl EntityAddr {
    pub fn new(kind: AddrType, addr: SocketAddr, nonce: u32) -> Self {
        Self { kind, ip: Some(addr.ip()), port: addr.port(), nonce }
    }
    pub fn msgr2(addr: SocketAddr, nonce: u32) -> Self {
        Self::new(AddrType::MSGR2, addr, nonce)
    }
    pub fn is_blank_ip(&self) -> bool {
        self.ip.is_none_or(|ip| ip.is_unspecified())
    }
    pub fn socket(&self) -> Option<SocketAddr> {
        self.ip.map(|ip| SocketAddr::new(ip, self.port))
    }
    pub fn with_kind(self, kind: AddrType) -> Self {
        Self { kind, ..self }
    }

    /// `v2:1.2.3.4:5/6`, `any:…`, `-` as `ceph` prints and takes them; without a prefix: `default_kind`.
    pub fn parse(s: &str, default_kind: AddrType) -> Option<Self> {
        if s == "-" {
            return Some(Self::default());
        }
        let (kind, rest) = match s.split_once(':') {
            Some(("v1", rest)) => (AddrType::LEGACY, rest),
            Some(("v2", rest)) => (AddrType::MSGR2, rest),
            Some(("any", rest)) => (AddrType::ANY, rest),
            _ => (default_kind, s),
        };
        let (host, nonce) = match rest.split_once('/') {
            Some((host, nonce)) => (host, nonce.parse().ok()?),
            None => (rest, 0),
        };
        let addr = match host.parse::<SocketAddr>() {
            Ok(addr) => addr,
            Err(_) => SocketAddr::new(host.trim_start_matches('[').trim_end_matches(']').parse().ok()?, 0),
        };
        Some(Self::new(kind, addr, nonce))
    }

    /// The address without its type, as `1.2.3.4:5/6`.
    pub fn host_port_nonce(&self) -> String {
        match self.socket() {
            Some(addr) => format!("{addr}/{}", self.nonce),
            None => format!(":/{}", self.nonce),
        }
    }

    fn encode_sockaddr(&self, e: &mut Encoder) -> usize {
        // Family little-endian, port and address as the network has them.
        match self.ip {
            Some(IpAddr::V4(ip)) => {
                e.raw(&self.port.to_be_bytes());
                e.raw(&ip.octets());
                e.raw(&[0; 8]);
                14
            }
            Some(IpAddr::V6(ip)) => {
                e.raw(&self.port.to_be_bytes());
                e.raw(&[0; 4]);
                e.raw(&ip.octets());
                e.raw(&[0; 4]);
                26
            }
            None => {
                e.raw(&[0; SOCKADDR_MAX - 2]);
                SOCKADDR_MAX - 2
            }
        }
    }
    fn family(&self) -> u16 {
        match self.ip {
            Some(IpAddr::V4(_)) => AF_INET,
            Some(IpAddr::V6(_)) => AF_INET6,
            None => 0,
        }
    }
    fn decode_sockaddr(family: u16, data: &[u8]) -> Option<(Option<IpAddr>, u16)> {
        let port = |data: &[u8]| Some(u16::from_be_bytes(data.get(..2)?.try_into().ok()?));
        match family {
            AF_INET => {
                let ip: [u8; 4] = data.get(2..6)?.try_into().ok()?;
                Some((Some(Ipv4Addr::from(ip).into()), port(data)?))
            }
            AF_INET6 => {
                let ip: [u8; 16] = data.get(6..22)?.try_into().ok()?;
                Some((Some(Ipv6Addr::from(ip).into()), port(data)?))
            }
            _ => Some((None, 0)),
        }
    }

    /// The form before Nautilus: 32 zero bits, nonce, a whole `sockaddr_storage` with a big-endian family.
    pub fn encode_legacy(&self, e: &mut Encoder) {
        e.u32(0);
        e.u32(self.nonce);
        e.raw(&self.family().to_be_bytes());
        let n = self.encode_sockaddr(e);
        e.raw(&[0; SOCKADDR_STORAGE - 2][n..]);
    }
    fn decode_behind_marker(marker: u8, d: &mut Decoder) -> Result<Self, DencError> {
        match marker {
            0 => {
                d.skip(3)?;
                let nonce = d.u32()?;
                let family = u16::from_be_bytes(Denc::decode(d)?);
                let data = d.raw(SOCKADDR_STORAGE - 2)?;
                let (ip, port) = Self::decode_sockaddr(family, &data).ok_or_else(|| d.invalid("a sockaddr is cut short"))?;
                Ok(Self { kind: AddrType::LEGACY, ip, port, nonce })
            }
            1 => d.frame("entity_addr_t", 1, |d, _| {
                let kind = AddrType(d.u32()?);
                let nonce = d.u32()?;
                let len = d.u32()? as usize;
                if len == 0 {
                    return Ok(Self { kind, ip: None, port: 0, nonce });
                }
                if !(2..=SOCKADDR_STORAGE).contains(&len) {
                    return Err(d.invalid("a sockaddr has 2 to 128 bytes"));
                }
                let family = d.u16()?;
                let data = d.raw(len - 2)?;
                let (ip, port) = Self::decode_sockaddr(family, &data).ok_or_else(|| d.invalid("a sockaddr is cut short"))?;
                Ok(Self { kind, ip, port, nonce })
            }),
            _ => Err(d.invalid("an address starts with 0 or 1")),
        }
    }
}

impl Ord for EntityAddr {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // Type, nonce and family are little-endian in memory, the port is big-endian.
        let key = |a: &Self| (a.kind.0.swap_bytes(), a.nonce.swap_bytes(), a.family().swap_bytes(), a.port, a.ip);
        key(self).cmp(&key(other))
    }
}
impl PartialOrd for EntityAddr {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Denc for EntityAddr {
    fn encode(&self, e: &mut Encoder) {
        if !e.has(features::MSG_ADDR2) {
            return self.encode_legacy(e);
        }
        e.u8(1);
        e.frame(1, 1, |e| {
            e.u32(self.kind.0);
            e.u32(self.nonce);
            e.sized(|e| {
                e.u16(self.family());
                self.encode_sockaddr(e);
            });
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let marker = d.u8()?;
        Self::decode_behind_marker(marker, d)
    }
}

impl fmt::Display for EntityAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == AddrType::NONE {
            return f.write_str("-");
        }
        if self.kind != AddrType::ANY {
            write!(f, "{}:", self.kind.name())?;
        }
        f.write_str(&self.host_port_nonce())
    }
}

/// `entity_addrvec_t`: the addresses of one daemon, msgr2 first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityAddrVec(pub Vec<EntityAddr>);

impl EntityAddrVec {
    pub fn one(addr: EntityAddr) -> Self {
        Self(vec![addr])
    }
    pub fn msgr2(&self) -> Option<EntityAddr> {
        self.0.iter().copied().find(|a| a.kind == AddrType::MSGR2)
    }
    pub fn legacy(&self) -> Option<EntityAddr> {
        self.0.iter().copied().find(|a| a.kind == AddrType::LEGACY)
    }
    /// What a peer that knows one address only is told: the msgr1 one, or the first as if it were one, or a blank.
    pub fn legacy_or_front(&self) -> EntityAddr {
        self.legacy().or_else(|| self.0.first().copied().filter(|a| a.kind == AddrType::ANY)).unwrap_or_default()
    }
    pub fn front(&self) -> EntityAddr {
        self.0.first().copied().unwrap_or_default()
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<EntityAddr> for EntityAddrVec {
    fn from(addr: EntityAddr) -> Self {
        Self(vec![addr])
    }
}

impl Denc for EntityAddrVec {
    fn encode(&self, e: &mut Encoder) {
        if !e.has(features::MSG_ADDR2) {
            return self.legacy_or_front().encode_legacy(e);
        }
        e.u8(2);
        e.list(self.0.iter());
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        match d.u8()? {
            2 => Ok(Self(Denc::decode(d)?)),
            marker => Ok(Self(vec![EntityAddr::decode_behind_marker(marker, d)?])),
        }
    }
}

/// One address alone prints as itself, several in brackets.
impl fmt::Display for EntityAddrVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [one] => one.fmt(f),
            many => {
                f.write_str("[")?;
                for (i, addr) in many.iter().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    addr.fmt(f)?;
                }
                f.write_str("]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_come_back() {
        let addr = EntityAddr::parse("v2:127.0.0.1:3300/77", AddrType::ANY).unwrap();
        assert_eq!(EntityAddr::from_bytes(&addr.to_bytes(denc::ALL_FEATURES)).unwrap(), addr);
        let six = EntityAddr::parse("[::1]:6800/1", AddrType::LEGACY).unwrap();
        assert_eq!(EntityAddr::from_bytes(&six.to_bytes(0)).unwrap(), six);
        assert_eq!(six.to_bytes(0).len(), 136);
        let vec = EntityAddrVec(vec![addr, six]);
        assert_eq!(vec.to_string(), "[v2:127.0.0.1:3300/77,v1:[::1]:6800/1]");
        assert_eq!(EntityAddrVec::from_bytes(&vec.to_bytes(denc::ALL_FEATURES)).unwrap(), vec);
        assert_eq!(EntityAddrVec::from_bytes(&vec.to_bytes(0)).unwrap(), EntityAddrVec(vec![six]));
    }

    #[test]
    fn a_length_beyond_a_sockaddr_is_refused() {
        let mut e = Encoder::new(denc::ALL_FEATURES);
        e.u8(1);
        e.frame(1, 1, |e| {
            e.u32(2);
            e.u32(0);
            e.u32(4000);
            e.raw(&[0; 4000]);
        });
        assert!(EntityAddr::from_bytes(&e.finish()).is_err());
    }
}
