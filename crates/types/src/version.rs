//! Versions of placement groups, and the ids of client requests.

use crate::{EntityKind, EntityName, Epoch};
use denc::{Decoder, Denc, DencError, Encoder, Row};
use std::fmt;

/// `eversion_t`: sorts by epoch, then by version; the wire has the version first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EVersion {
    pub version: u64,
    pub epoch: Epoch,
}
impl Denc for EVersion {
    fn encode(&self, e: &mut Encoder) {
        Row::<12>::new().put_u64(self.version).put_u32(self.epoch).encode(e);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let mut row = d.row::<12>()?;
        Ok(Self { version: row.u64(), epoch: row.u32() })
    }
}

impl EVersion {
    pub const ZERO: EVersion = EVersion { version: 0, epoch: 0 };
    pub const MAX: EVersion = EVersion { version: u64::MAX, epoch: u32::MAX };
    pub const fn new(epoch: Epoch, version: u64) -> Self {
        Self { version, epoch }
    }
}
impl Ord for EVersion {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.epoch, self.version).cmp(&(other.epoch, other.version))
    }
}
impl PartialOrd for EVersion {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl fmt::Display for EVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}'{}", self.epoch, self.version)
    }
}

/// `osd_reqid_t`: the sender, the incarnation of the session, and the client's number for the request. The same for each resend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReqId {
    pub name: EntityName,
    pub tid: u64,
    pub inc: i32,
}
impl Denc for ReqId {
    fn encode(&self, e: &mut Encoder) {
        let frame = Row::<27>::new().put_u8(2).put_u8(2).put_u32(21);
        frame.put_u8(self.name.kind.0).put_i64(self.name.num).put_u64(self.tid).put_i32(self.inc).encode(e);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("osd_reqid_t", 2, |d, _| {
            let mut row = d.row::<21>()?;
            let name = EntityName { kind: EntityKind(row.u8()), num: row.i64() };
            Ok(Self { name, tid: row.u64(), inc: row.i32() })
        })
    }
}

impl fmt::Display for ReqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}:{}", self.name, self.inc, self.tid)
    }
}
