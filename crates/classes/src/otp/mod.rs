//! Class `otp`: time-based one-time passwords that radosgw checks; the secrets and the last attempts stand in an object's omap.
//!
//! Checking is two calls: `otp_check` writes what came out, `otp_get_result` reads it, since a call that fails writes nothing and one that
//! writes answers nothing.
//!
//! Source of the encodings, errnos and rules: Ceph 18.2 `src/cls/otp/*`; of the passwords, RFC 6238 and RFC 4226.

mod records;
mod sha1;
mod totp;

use crate::registry::{Class, Method};
use crate::rest::{Rest, kept};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{NoArgs, decode, done, encode, errno, reply, stored};
use denc::{ByteStr, Bytes, denc_struct};
use records::{Attempt, Instance, Secret};
use std::collections::BTreeSet;
use types::UTime;
use types::errno::{EINVAL, ENOENT};

pub static CLASS: Class = Class {
    name: "otp",
    families: &[&[
        Method::writes("otp_set", set),
        Method::reads("otp_get", get),
        Method::writes("otp_check", check),
        Method::reads("otp_get_result", result),
        Method::writes("otp_remove", remove),
        Method::reads("get_current_time", current_time),
    ]],
};

/// Under this key stands the set of all ids.
const IDS: &[u8] = b"header";

#[derive(Default)]
struct Ids {
    ids: BTreeSet<ByteStr>,
    pub rest: Rest,
}
kept!(Ids, v 1, compat 1, { ids });

struct SetOp {
    secrets: Vec<Secret>,
}
denc_struct!(SetOp, v 1, compat 1, { secrets });

struct GetOp {
    all: bool,
    ids: Vec<ByteStr>,
}
denc_struct!(GetOp, v 1, compat 1, { all, ids });

/// The input of `otp_check` and `otp_get_result`; the token names the attempt.
struct CheckOp {
    id: ByteStr,
    password: ByteStr,
    token: ByteStr,
}
denc_struct!(CheckOp, v 1, compat 1, { id, password, token });

struct RemoveOp {
    ids: Vec<ByteStr>,
}
denc_struct!(RemoveOp, v 1, compat 1, { ids });

struct ResultReply {
    attempt: Attempt,
}
denc_struct!(ResultReply, v 1, compat 1, { attempt });

struct TimeReply {
    time: UTime,
}
denc_struct!(TimeReply, v 1, compat 1, { time });

fn key(id: &ByteStr) -> Vec<u8> {
    [b"otp/", id.as_slice()].concat()
}

fn ids(obj: &mut dyn ObjectView) -> ClsResult<BTreeSet<ByteStr>> {
    match obj.omap_val(IDS) {
        Err(e) if e.is(ENOENT) => Ok(BTreeSet::new()),
        other => match other? {
            bytes if bytes.is_empty() => Ok(BTreeSet::new()),
            bytes => Ok(stored::<Ids>(&bytes)?.ids),
        },
    }
}

fn save_ids(obj: &mut dyn ObjectView, ids: BTreeSet<ByteStr>) -> ClsResult<()> {
    obj.omap_set(vec![(IDS.into(), encode(&Ids { ids, rest: Rest::default() }))])
}

fn load(obj: &mut dyn ObjectView, id: &ByteStr) -> ClsResult<Instance> {
    stored(&obj.omap_val(&key(id))?)
}

fn save(obj: &mut dyn ObjectView, instance: &Instance) -> ClsResult<()> {
    obj.omap_set(vec![(key(&instance.secret.id).into(), encode(instance))])
}

/// A secret that is there already keeps its attempts.
fn set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: SetOp = decode(&input)?;
    let mut ids = ids(obj)?;
    for mut secret in op.secrets {
        let Some(bytes) = secret.parsed() else { return errno(EINVAL) };
        if secret.step_s == 0 {
            return errno(EINVAL);
        }
        secret.bytes = bytes.into();
        ids.insert(secret.id.clone());
        let instance = match load(obj, &secret.id) {
            Err(e) if e.is(ENOENT) => Instance { secret, attempts: Vec::new(), last_success: 0, rest: Rest::default() },
            other => Instance { secret, ..other? },
        };
        save(obj, &instance)?;
    }
    save_ids(obj, ids)?;
    done()
}

/// Ids that are not there are passed over.
fn get(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: GetOp = decode(&input)?;
    let known = ids(obj)?;
    let wanted = if op.all { known.iter().cloned().collect() } else { op.ids };
    let mut secrets = Vec::new();
    for id in wanted.iter().filter(|id| known.contains(*id)) {
        secrets.push(load(obj, id)?.secret);
    }
    reply(&SetOp { secrets })
}

fn check(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: CheckOp = decode(&input)?;
    let mut instance = load(obj, &op.id)?;
    if instance.attempt(obj.now(), op.token, op.password.as_slice()) {
        save(obj, &instance)?;
    }
    done()
}

fn result(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: CheckOp = decode(&input)?;
    let instance = load(obj, &op.id)?;
    reply(&ResultReply { attempt: instance.outcome(obj.now(), op.token) })
}

fn remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: RemoveOp = decode(&input)?;
    let mut ids = ids(obj)?;
    let gone: Vec<ByteStr> = op.ids.into_iter().filter(|id| ids.remove(id)).map(|id| key(&id).into()).collect();
    if !gone.is_empty() {
        obj.omap_remove(gone)?;
        save_ids(obj, ids)?;
    }
    done()
}

fn current_time(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    decode::<NoArgs>(&input)?;
    reply(&TimeReply { time: obj.now() })
}
