//! The log of a placement group, as it is sent and stored: entries, remembered duplicates, and the whole.
//!
//! Holds no index and no trimming; those are behaviour of the group.
//! Source of the facts: Ceph 18.2 `src/osd/osd_types.cc` (`pg_log_entry_t` v14, `pg_log_dup_t` v2, `pg_log_t` v7).

use crate::{EVersion, HObject, ObjectCleanRegions, ReqId, UTime};
use denc::{Bytes, Decoder, Denc, DencError, Encoder, denc_struct};
use std::collections::BTreeMap;

/// What an entry did to its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LogOp(pub i32);

impl LogOp {
    pub const MODIFY: Self = Self(1);
    pub const CLONE: Self = Self(2);
    pub const DELETE: Self = Self(3);
    pub const LOST_REVERT: Self = Self(5);
    pub const LOST_DELETE: Self = Self(6);
    pub const LOST_MARK: Self = Self(7);
    pub const PROMOTE: Self = Self(8);
    pub const CLEAN: Self = Self(9);
    /// A write that was answered with an error: remembered for its reqid, changes nothing.
    pub const ERROR: Self = Self(10);

    pub fn name(self) -> &'static str {
        match self {
            Self::MODIFY => "modify",
            Self::CLONE => "clone",
            Self::DELETE => "delete",
            Self::LOST_REVERT => "l_revert",
            Self::LOST_DELETE => "l_delete",
            Self::LOST_MARK => "l_mark",
            Self::PROMOTE => "promote",
            Self::CLEAN => "clean",
            Self::ERROR => "error",
            _ => "unknown",
        }
    }
}
impl Denc for LogOp {
    fn encode(&self, e: &mut Encoder) {
        e.i32(self.0);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Ok(Self(d.i32()?))
    }
}

/// `ObjectModDesc`: how an entry of an erasure-coded pool can be rolled back. Kept as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModDesc {
    /// The frame's version and compat: what its reader must know.
    pub required_version: u8,
    pub can_local_rollback: bool,
    pub rollback_info_completed: bool,
    pub bl: Bytes,
}

impl Default for ModDesc {
    fn default() -> Self {
        Self { required_version: 1, can_local_rollback: true, rollback_info_completed: false, bl: Bytes::new() }
    }
}
impl ModDesc {
    /// What every entry of a replicated pool has.
    pub fn unrollbackable() -> Self {
        Self { can_local_rollback: false, ..Self::default() }
    }
}
impl Denc for ModDesc {
    fn encode(&self, e: &mut Encoder) {
        e.frame(self.required_version, self.required_version, |e| {
            e.bool(self.can_local_rollback);
            e.bool(self.rollback_info_completed);
            self.bl.encode(e);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("ObjectModDesc", 2, |d, v| {
            Ok(Self { required_version: v, can_local_rollback: d.bool()?, rollback_info_completed: d.bool()?, bl: d.blob()? })
        })
    }
}

/// `pg_log_op_return_item_t`: what one op of a vector returned, kept for a resend.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpReturn {
    pub rval: i32,
    pub bl: Bytes,
}
denc_struct!(OpReturn, bare, { rval, bl });

/// `pg_log_entry_t`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PgLogEntry {
    pub op: LogOp,
    pub soid: HObject,
    pub version: EVersion,
    pub prior_version: EVersion,
    /// Only for [`LogOp::LOST_REVERT`].
    pub reverting_to: EVersion,
    pub reqid: ReqId,
    /// The user's.
    pub mtime: UTime,
    /// For [`LogOp::CLONE`]: an encoded `vector<snapid_t>`.
    pub snaps: Bytes,
    pub user_version: u64,
    pub mod_desc: ModDesc,
    /// Requests that came with the object (copy, promote), each with its user version.
    pub extra_reqids: Vec<(ReqId, u64)>,
    /// By index into `extra_reqids`.
    pub extra_reqid_return_codes: BTreeMap<u32, i32>,
    pub clean_regions: ObjectCleanRegions,
    pub return_code: i32,
    pub op_returns: Vec<OpReturn>,
}

impl PgLogEntry {
    pub fn is_error(&self) -> bool {
        self.op == LogOp::ERROR
    }
    pub fn is_delete(&self) -> bool {
        self.op == LogOp::DELETE || self.op == LogOp::LOST_DELETE
    }
    /// True if the object has this version afterwards.
    pub fn is_update(&self) -> bool {
        matches!(self.op, LogOp::MODIFY | LogOp::CLONE | LogOp::PROMOTE | LogOp::LOST_REVERT | LogOp::LOST_MARK | LogOp::CLEAN)
    }
    /// True if a resend of its request must find it.
    pub fn reqid_is_indexed(&self) -> bool {
        self.reqid != ReqId::default()
            && (self.op == LogOp::MODIFY || self.op == LogOp::DELETE || self.op == LogOp::ERROR || self.op == LogOp::CLEAN)
    }
    /// What stays of it when it is trimmed.
    pub fn to_dup(&self) -> PgLogDup {
        PgLogDup {
            reqid: self.reqid,
            version: self.version,
            user_version: self.user_version,
            return_code: self.return_code,
            op_returns: self.op_returns.clone(),
        }
    }
    /// The snapshots of a clone.
    pub fn clone_snaps(&self) -> Result<Vec<u64>, DencError> {
        if self.snaps.is_empty() { Ok(Vec::new()) } else { Denc::from_bytes(&self.snaps) }
    }
}

impl Denc for PgLogEntry {
    fn encode(&self, e: &mut Encoder) {
        e.frame(14, 4, |e| {
            let revert = self.op == LogOp::LOST_REVERT;
            self.op.encode(e);
            self.soid.encode(e);
            self.version.encode(e);
            if revert {
                self.reverting_to.encode(e)
            } else {
                self.prior_version.encode(e)
            }
            self.reqid.encode(e);
            self.mtime.encode(e);
            if revert {
                self.prior_version.encode(e);
            }
            self.snaps.encode(e);
            e.u64(self.user_version);
            self.mod_desc.encode(e);
            self.extra_reqids.encode(e);
            if self.is_error() {
                e.i32(self.return_code);
            }
            if !self.extra_reqids.is_empty() {
                self.extra_reqid_return_codes.encode(e);
            }
            self.clean_regions.encode(e);
            if !self.is_error() {
                e.i32(self.return_code);
            }
            self.op_returns.encode(e);
        });
    }

    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("pg_log_entry_t", 14, |d, v| {
            if v < 9 {
                return Err(DencError::TooOld { what: "pg_log_entry_t", version: v, oldest: 9 });
            }
            let mut entry = Self { op: d.get()?, soid: d.get()?, version: d.get()?, ..Self::default() };
            let revert = entry.op == LogOp::LOST_REVERT;
            if revert {
                entry.reverting_to = d.get()?
            } else {
                entry.prior_version = d.get()?
            }
            (entry.reqid, entry.mtime) = (d.get()?, d.get()?);
            if revert {
                entry.prior_version = d.get()?;
            }
            (entry.snaps, entry.user_version, entry.mod_desc) = (d.blob()?, d.u64()?, d.get()?);
            if v >= 10 {
                entry.extra_reqids = d.get()?;
            }
            if v >= 11 && entry.is_error() {
                entry.return_code = d.i32()?;
            }
            if v >= 12 && !entry.extra_reqids.is_empty() {
                entry.extra_reqid_return_codes = d.get()?;
            }
            entry.clean_regions = if v >= 13 { d.get()? } else { ObjectCleanRegions::fully_dirty() };
            if v >= 14 {
                if !entry.is_error() {
                    entry.return_code = d.i32()?;
                }
                entry.op_returns = d.get()?;
            }
            Ok(entry)
        })
    }
}

/// `pg_log_dup_t`: a request whose entry was trimmed, so that its resend is still known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PgLogDup {
    pub reqid: ReqId,
    pub version: EVersion,
    pub user_version: u64,
    pub return_code: i32,
    pub op_returns: Vec<OpReturn>,
}
denc_struct!(PgLogDup, v 2, compat 1, { reqid, version, user_version, return_code, [since 2] op_returns });

/// `pg_log_t`: entries (tail, head], and duplicates from before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PgLog {
    pub head: EVersion,
    pub tail: EVersion,
    pub log: Vec<PgLogEntry>,
    pub can_rollback_to: EVersion,
    pub rollback_info_trimmed_to: EVersion,
    pub dups: Vec<PgLogDup>,
}
denc_struct!(PgLog, v 7, compat 3, {
    head, tail, log, [since 5] can_rollback_to, [since 6] rollback_info_trimmed_to, [since 7] dups
});
