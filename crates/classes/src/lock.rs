//! Class `lock`: named advisory locks on an object, each an attribute `lock.NAME`.
//!
//! A lock has a type, a tag that all holders share, and holders: a client and a cookie, with an optional time at which it ends. Holders'
//! addresses are stored as legacy ones: a client is the same whichever protocol it speaks to this OSD.
//!
//! Source of the encodings, errnos and rules: Ceph 18.2 `src/cls/lock/*`.

use crate::registry::{Class, METHOD_PROMOTE, METHOD_RD, METHOD_WR, Method};
use crate::rest::{Rest, kept};
use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, errno};
use denc::{ByteStr, Bytes, Denc, denc_struct};
use std::collections::BTreeMap;
use types::errno::{EBUSY, EEXIST, EINVAL, EIO, ENODATA, ENOENT};
use types::{AddrType, EntityAddr, EntityName, UTime};

pub static CLASS: Class = Class {
    name: "lock",
    families: &[&[
        Method { name: "lock", flags: METHOD_RD | METHOD_WR | METHOD_PROMOTE, call: lock },
        Method { name: "unlock", flags: METHOD_RD | METHOD_WR | METHOD_PROMOTE, call: unlock },
        Method { name: "break_lock", flags: METHOD_RD | METHOD_WR, call: break_lock },
        Method { name: "get_info", flags: METHOD_RD, call: get_info },
        Method { name: "list_locks", flags: METHOD_RD, call: list_locks },
        Method { name: "assert_locked", flags: METHOD_RD | METHOD_PROMOTE, call: assert_locked },
        Method { name: "set_cookie", flags: METHOD_RD | METHOD_WR | METHOD_PROMOTE, call: set_cookie },
    ]],
};

/// Types of a lock on the wire.
const EXCLUSIVE: u8 = 1;
const SHARED: u8 = 2;
/// Exclusive, and the object goes with the lock.
const EPHEMERAL: u8 = 3;

/// A holder renews it instead of failing.
const FLAG_MAY_RENEW: u8 = 1;
/// Only a holder gets it.
const FLAG_MUST_RENEW: u8 = 2;

const PREFIX: &[u8] = b"lock.";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
struct LockerId {
    locker: EntityName,
    cookie: ByteStr,
    pub rest: Rest,
}
kept!(LockerId, v 1, compat 1, { locker, cookie });

impl LockerId {
    fn new(locker: EntityName, cookie: ByteStr) -> Self {
        Self { locker, cookie, rest: Rest::default() }
    }
}

#[derive(Debug, Clone, Default)]
struct LockerInfo {
    expiration: UTime,
    addr: EntityAddr,
    description: ByteStr,
    pub rest: Rest,
}
kept!(LockerInfo, v 1, compat 1, { expiration, addr, description });

/// What the attribute holds, and what `get_info` answers.
#[derive(Debug, Clone, Default)]
struct LockInfo {
    lockers: BTreeMap<LockerId, LockerInfo>,
    kind: u8,
    tag: ByteStr,
    pub rest: Rest,
}
kept!(LockInfo, v 1, compat 1, { lockers, kind, tag });

struct LockOp {
    name: ByteStr,
    kind: u8,
    cookie: ByteStr,
    tag: ByteStr,
    description: ByteStr,
    duration: UTime,
    flags: u8,
}
denc_struct!(LockOp, v 1, compat 1, { name, kind, cookie, tag, description, duration, flags });

struct UnlockOp {
    name: ByteStr,
    cookie: ByteStr,
}
denc_struct!(UnlockOp, v 1, compat 1, { name, cookie });

struct BreakOp {
    name: ByteStr,
    locker: EntityName,
    cookie: ByteStr,
}
denc_struct!(BreakOp, v 1, compat 1, { name, locker, cookie });

struct GetInfoOp {
    name: ByteStr,
}
denc_struct!(GetInfoOp, v 1, compat 1, { name });

struct ListReply {
    locks: Vec<ByteStr>,
}
denc_struct!(ListReply, v 1, compat 1, { locks });

struct AssertOp {
    name: ByteStr,
    kind: u8,
    cookie: ByteStr,
    tag: ByteStr,
}
denc_struct!(AssertOp, v 1, compat 1, { name, kind, cookie, tag });

struct SetCookieOp {
    name: ByteStr,
    kind: u8,
    cookie: ByteStr,
    tag: ByteStr,
    new_cookie: ByteStr,
}
denc_struct!(SetCookieOp, v 1, compat 1, { name, kind, cookie, tag, new_cookie });

fn attribute(name: &ByteStr) -> Vec<u8> {
    [PREFIX, name.as_slice()].concat()
}

/// The lock without holders whose time is over. An object without that lock has one without holders; no object is ENOENT.
fn load(obj: &mut dyn ObjectView, name: &ByteStr) -> ClsResult<LockInfo> {
    let bytes = match obj.getxattr(&attribute(name)) {
        Err(e) if e.is(ENODATA) => return Ok(LockInfo::default()),
        other => other?,
    };
    let mut info = LockInfo::from_bytes(&bytes).map_err(|_| ClsError::Errno(EIO))?;
    let now = obj.now();
    info.lockers.retain(|_, l| l.expiration.is_zero() || l.expiration >= now);
    Ok(info)
}

fn store(obj: &mut dyn ObjectView, name: &ByteStr, info: &LockInfo) -> ClsResult<()> {
    let bytes = info.to_bytes(obj.client_features());
    obj.setxattr(&attribute(name), bytes)
}

fn is_kind(kind: u8) -> bool {
    matches!(kind, EXCLUSIVE | SHARED | EPHEMERAL)
}

fn lock(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: LockOp = decode(&input)?;
    let (may_renew, must_renew) = (op.flags & FLAG_MAY_RENEW != 0, op.flags & FLAG_MUST_RENEW != 0);
    if !is_kind(op.kind) || op.name.is_empty() || (may_renew && must_renew) {
        return errno(EINVAL);
    }
    let mut info = match load(obj, &op.name) {
        Err(e) if e.is(ENOENT) => LockInfo::default(),
        other => other?,
    };
    let origin = obj.origin();
    let id = LockerId::new(origin.name, op.cookie);
    if !info.lockers.is_empty() && info.tag != op.tag {
        return errno(EBUSY);
    }
    match info.lockers.contains_key(&id) {
        true if !may_renew && !must_renew => return errno(EEXIST),
        false if must_renew => return errno(ENOENT),
        _ => info.lockers.remove(&id),
    };
    if !info.lockers.is_empty() && (op.kind != SHARED || info.kind != op.kind) {
        return errno(EBUSY);
    }
    info.kind = op.kind;
    info.tag = op.tag;
    let expiration =
        if op.duration.is_zero() { UTime::ZERO } else { UTime::from_wall_ns(obj.now().wall_ns().saturating_add(op.duration.wall_ns())) };
    let addr = origin.addr.with_kind(AddrType::LEGACY);
    info.lockers.insert(id, LockerInfo { expiration, addr, description: op.description, rest: Rest::default() });
    store(obj, &op.name, &info)?;
    Ok(().into())
}

fn remove(obj: &mut dyn ObjectView, name: &ByteStr, id: LockerId) -> ClsResult<ClsReply> {
    let mut info = load(obj, name)?;
    if info.lockers.remove(&id).is_none() {
        return errno(ENOENT);
    }
    if info.kind == EPHEMERAL {
        obj.remove()?
    } else {
        store(obj, name, &info)?
    }
    Ok(().into())
}

fn unlock(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: UnlockOp = decode(&input)?;
    let locker = obj.origin().name;
    remove(obj, &op.name, LockerId::new(locker, op.cookie))
}

fn break_lock(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: BreakOp = decode(&input)?;
    remove(obj, &op.name, LockerId::new(op.locker, op.cookie))
}

fn get_info(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: GetInfoOp = decode(&input)?;
    let info = load(obj, &op.name)?;
    Ok(info.to_bytes(obj.client_features()).into())
}

fn list_locks(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    let attrs = obj.getxattrs()?;
    let locks = attrs.iter().filter_map(|(name, _)| name.as_slice().strip_prefix(PREFIX)).map(ByteStr::from).collect();
    Ok(ListReply { locks }.to_bytes(obj.client_features()).into())
}

/// The lock, if the caller holds it with that type, tag and cookie; otherwise EBUSY.
fn held(obj: &mut dyn ObjectView, op: &AssertOp) -> ClsResult<(LockInfo, LockerId)> {
    if !is_kind(op.kind) || op.name.is_empty() {
        return errno(EINVAL);
    }
    let info = load(obj, &op.name)?;
    let id = LockerId::new(obj.origin().name, op.cookie.clone());
    if info.kind != op.kind || info.tag != op.tag || !info.lockers.contains_key(&id) {
        return errno(EBUSY);
    }
    Ok((info, id))
}

fn assert_locked(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: AssertOp = decode(&input)?;
    held(obj, &op)?;
    Ok(().into())
}

fn set_cookie(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: SetCookieOp = decode(&input)?;
    let claim = AssertOp { name: op.name, kind: op.kind, cookie: op.cookie, tag: op.tag };
    let (mut info, id) = held(obj, &claim)?;
    let renamed = LockerId { cookie: op.new_cookie, ..id.clone() };
    if info.lockers.contains_key(&renamed) {
        return errno(EBUSY);
    }
    if let Some(locker) = info.lockers.remove(&id) {
        info.lockers.insert(renamed, locker);
    }
    store(obj, &claim.name, &info)?;
    Ok(().into())
}
