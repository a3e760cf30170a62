//! Versions of placement groups, and the ids of client requests.

use crate::{EntityName, Epoch};
use denc::{denc_struct};
use std::fmt;

/// `eversion_t`: sorts by epoch, then by version; the wire has the version first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EVersion {
    pub version: u64,
    pub epoch: Epoch,
}
denc_struct!(EVersion, bare, { version, epoch });

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

/// `osd_reqid_t`: who asked, the incarnation of the session, and the client's number for the request. The same for each resend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReqId {
    pub name: EntityName,
    pub tid: u64,
    pub inc: i32,
}
denc_struct!(ReqId, v 2, compat 2, { name, tid, inc });

impl fmt::Display for ReqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}:{}", self.name, self.inc, self.tid)
    }
}
