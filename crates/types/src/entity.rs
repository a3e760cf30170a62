//! Who takes part: `osd.3`, `client.4123` on the wire, `client.admin` in keyrings.

use crate::EntityAddr;
use denc::{Decoder, Denc, DencError, Encoder, denc_struct};
use std::fmt;

/// The kind of a participant, as the bit that Ceph gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityKind(pub u8);

impl EntityKind {
    pub const NONE: Self = Self(0);
    pub const MON: Self = Self(1);
    pub const MDS: Self = Self(2);
    pub const OSD: Self = Self(4);
    pub const CLIENT: Self = Self(8);
    pub const MGR: Self = Self(16);
    pub const AUTH: Self = Self(32);

    pub fn name(self) -> &'static str {
        match self {
            Self::MON => "mon",
            Self::MDS => "mds",
            Self::OSD => "osd",
            Self::CLIENT => "client",
            Self::MGR => "mgr",
            Self::AUTH => "auth",
            _ => "unknown",
        }
    }
    pub fn parse(s: &str) -> Option<Self> {
        [Self::MON, Self::MDS, Self::OSD, Self::CLIENT, Self::MGR, Self::AUTH].into_iter().find(|k| k.name() == s)
    }
}

/// `entity_name_t`: a kind and a number. A client's number is the global_id that its monitor gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityName {
    pub kind: EntityKind,
    pub num: i64,
}

impl EntityName {
    pub const fn osd(num: i64) -> Self {
        Self { kind: EntityKind::OSD, num }
    }
    pub const fn client(num: i64) -> Self {
        Self { kind: EntityKind::CLIENT, num }
    }
    pub const fn mon(num: i64) -> Self {
        Self { kind: EntityKind::MON, num }
    }
    pub const fn mgr(num: i64) -> Self {
        Self { kind: EntityKind::MGR, num }
    }
}
impl fmt::Display for EntityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.num < 0 { write!(f, "{}.?", self.kind.name()) } else { write!(f, "{}.{}", self.kind.name(), self.num) }
    }
}
impl Denc for EntityName {
    fn encode(&self, e: &mut Encoder) {
        e.u8(self.kind.0);
        e.i64(self.num);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Ok(Self { kind: EntityKind(d.u8()?), num: d.i64()? })
    }
}

/// C++'s `EntityName`: a kind (32 bits wide here) and a text, as keyrings and the auth database have it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityText {
    pub kind: EntityKind,
    pub id: String,
}

impl EntityText {
    pub fn new(kind: EntityKind, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }
    /// Parses `client.admin`.
    pub fn parse(s: &str) -> Option<Self> {
        let (kind, id) = s.split_once('.')?;
        Some(Self { kind: EntityKind::parse(kind)?, id: id.into() })
    }
}
impl fmt::Display for EntityText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind.name(), self.id)
    }
}
impl Denc for EntityText {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.kind.0.into());
        self.id.encode(e);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let kind = u8::try_from(d.u32()?).map_err(|_| d.invalid("an entity's kind is a byte"))?;
        Ok(Self { kind: EntityKind(kind), id: d.string()? })
    }
}

/// `entity_inst_t`: a name and where it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityInst {
    pub name: EntityName,
    pub addr: EntityAddr,
}
denc_struct!(EntityInst, bare, { name, addr });

impl fmt::Display for EntityInst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.addr)
    }
}
