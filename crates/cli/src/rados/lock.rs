//! `lock list|info|get|break`: advisory locks on an object, by class `lock`.
//!
//! Source of the encodings: Ceph 18.2 `src/cls/lock/*`; of what is printed: the program of 16.2. Absent: unlocking, which that program does by `break`.

use super::objects::out;
use super::{Done, Failed, Options, failure, json_text, next_step, usage_of};
use crate::connect::errno_texts;
use bytes::Bytes;
use client::{ClientError, Pool};
use denc::{ByteStr, Denc, denc_struct};
use serde_json::json;
use std::collections::BTreeMap;
use types::{EntityAddr, EntityName, EntityText, UTime};

/// How `get` takes a lock, and whose lock `break` breaks.
#[derive(Debug, Default)]
pub struct How {
    pub tag: String,
    pub cookie: String,
    pub description: String,
    /// Seconds; 0 holds until it is broken.
    pub duration_s: u32,
    pub kind: Kind,
}

/// Whether it may have several holders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Exclusive = 1,
    Shared = 2,
}

impl How {
    /// Takes an option of these, by its name without dashes.
    pub fn take(&mut self, name: &str, text: String) -> anyhow::Result<()> {
        match name {
            "lock-tag" => self.tag = text,
            "lock-cookie" => self.cookie = text,
            "lock-description" => self.description = text,
            "lock-duration" => {
                self.duration_s = text.parse().map_err(|_| anyhow::anyhow!("--lock-duration: give whole seconds, not {text:?}"))?;
            }
            _ => {
                self.kind = match text.as_str() {
                    "exclusive" => Kind::Exclusive,
                    "shared" => Kind::Shared,
                    _ => anyhow::bail!("--lock-type: exclusive or shared, not {text:?}"),
                }
            }
        }
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LockerId {
    locker: EntityName,
    cookie: ByteStr,
}
denc_struct!(LockerId, v 1, compat 1, { locker, cookie });

struct LockerInfo {
    expiration: UTime,
    addr: EntityAddr,
    description: ByteStr,
}
denc_struct!(LockerInfo, v 1, compat 1, { expiration, addr, description });

struct LockInfo {
    lockers: BTreeMap<LockerId, LockerInfo>,
    kind: u8,
    tag: ByteStr,
}
denc_struct!(LockInfo, v 1, compat 1, { lockers, kind, tag });

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

fn kind_name(kind: u8) -> &'static str {
    match kind {
        0 => "none",
        1 => "exclusive",
        2 => "shared",
        3 => "exclusive-ephemeral",
        _ => "<unknown>",
    }
}

/// The command behind the word `lock`.
pub async fn run(pool: &Pool, o: &Options, words: &[&str]) -> Done {
    let format = o.json().unwrap_or("json");
    match *words {
        ["list", object] => {
            let reply: ListReply = ask(pool, object, "list_locks", &[], "rados_list_locks()").await?;
            let locks: Vec<_> = reply.locks.iter().map(|name| json!({ "name": name.to_lossy() })).collect();
            out(json_text(&json!({ "objname": object, "locks": locks }), format).as_bytes())
        }
        ["info", object, name] => {
            let op = GetInfoOp { name: name.into() }.to_bytes(0);
            let info: LockInfo = ask(pool, object, "get_info", &op, "rados_lock_get_lock_info()").await?;
            out(json_text(&shown(name, &info), format).as_bytes())
        }
        ["get", object, name] => {
            let how = &o.lock;
            let op = LockOp {
                name: name.into(),
                kind: how.kind as u8,
                cookie: how.cookie.as_str().into(),
                tag: how.tag.as_str().into(),
                description: how.description.as_str().into(),
                duration: UTime { sec: how.duration_s, nsec: 0 },
                flags: 0,
            };
            let done = pool.exec(object, "lock", "lock", &op.to_bytes(0), true).await;
            done.map(drop).map_err(|e| told("failed locking", &e))
        }
        ["break", object, name, locker] => {
            let locker = client_of(locker)
                .ok_or_else(|| Failed(format!("{locker:?} is no client: `lock info {object} {name}` names the holders, as client.4107")))?;
            let op = BreakOp { name: name.into(), locker, cookie: o.lock.cookie.as_str().into() };
            let done = pool.exec(object, "lock", "break_lock", &op.to_bytes(0), true).await;
            done.map(drop).map_err(|e| told("failed breaking lock", &e))
        }
        _ => Err(usage_of("-p POOL lock list OBJECT | info|get OBJECT LOCK | break OBJECT LOCK CLIENT")),
    }
}

/// `client.4107`.
fn client_of(text: &str) -> Option<EntityName> {
    let name = EntityText::parse(text)?;
    Some(EntityName { kind: name.kind, num: name.id.parse().ok()? })
}

/// The error twice, as that program has it.
fn told(what: &str, error: &ClientError) -> Failed {
    let Some(errno) = error.errno() else { return failure(format_args!("ERROR: {what}"), error) };
    let text = errno_texts(errno).1;
    let failed = Failed(format!("ERROR: {what}: ({errno}) {text}\nerror {errno}: ({errno}) {text}"));
    match next_step(error) {
        _ if errno == types::errno::EBUSY => failed.with_next(HELD_NEXT),
        Some(step) => failed.with_next(&step),
        None => failed,
    }
}

const HELD_NEXT: &str = "`lock info OBJECT LOCK` names the holders, `lock break OBJECT LOCK CLIENT` takes it from one";

async fn ask<T: Denc>(pool: &Pool, object: &str, method: &str, input: &[u8], what: &str) -> Result<T, Failed> {
    let answer: Bytes = pool.exec(object, "lock", method, input, false).await.map_err(|e| told(what, &e))?;
    T::from_bytes(&answer).map_err(|e| Failed(format!("ERROR: {what}: the answer is no record of class lock: {e}")))
}

fn shown(name: &str, info: &LockInfo) -> serde_json::Value {
    let lockers: Vec<_> = info
        .lockers
        .iter()
        .map(|(id, holder)| {
            json!({
                "name": id.locker.to_string(),
                "cookie": id.cookie.to_lossy(),
                "description": holder.description.to_lossy(),
                "expiration": holder.expiration.to_string(),
                "addr": holder.addr.host_port_nonce(),
            })
        })
        .collect();
    json!({ "name": name, "type": kind_name(info.kind), "tag": info.tag.to_lossy(), "lockers": lockers })
}
