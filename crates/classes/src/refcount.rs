//! Class `refcount`: tags that keep an object alive, in the attribute `refcount`. The object goes with the last one.
//!
//! Source of the encodings, errnos and rules: Ceph 18.2 `src/cls/refcount/*`.

use crate::registry::{Class, Method};
use crate::rest::{Rest, kept};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, encode, errno, reply, stored};
use denc::{ByteStr, Bytes, denc_struct};
use std::collections::{BTreeMap, BTreeSet};
use types::errno::{EINVAL, ENODATA};

pub static CLASS: Class = Class {
    name: "refcount",
    families: &[&[Method::writes("get", get), Method::writes("put", put), Method::writes("set", set), Method::reads("read", read)]],
};

const ATTRIBUTE: &[u8] = b"refcount";

/// The reference that an object without any has, if the caller assumes one: that of the writer of the object before it was counted.
const IMPLICIT: ByteStr = ByteStr::new();

/// `obj_refcount`: what the attribute holds.
#[derive(Default)]
struct Refs {
    /// Each tag; the flag is always true.
    held: BTreeMap<ByteStr, bool>,
    /// Tags that were put once: putting them again changes nothing.
    retired: BTreeSet<ByteStr>,
    pub rest: Rest,
}
kept!(Refs, v 2, compat 1, { held, [since 2] retired });

/// The input of `get` and of `put`.
struct TagOp {
    tag: ByteStr,
    implicit: bool,
}
denc_struct!(TagOp, v 1, compat 1, { tag, implicit });

struct SetOp {
    tags: Vec<ByteStr>,
}
denc_struct!(SetOp, v 1, compat 1, { tags });

struct ReadOp {
    implicit: bool,
}
denc_struct!(ReadOp, v 1, compat 1, { implicit });

struct ReadReply {
    tags: Vec<ByteStr>,
}
denc_struct!(ReadReply, v 1, compat 1, { tags });

fn load(obj: &mut dyn ObjectView, implicit: bool) -> ClsResult<Refs> {
    match obj.getxattr(ATTRIBUTE) {
        Err(e) if e.is(ENODATA) => {
            let held = if implicit { BTreeMap::from([(IMPLICIT, true)]) } else { BTreeMap::new() };
            Ok(Refs { held, ..Refs::default() })
        }
        other => stored(&other?),
    }
}

fn get(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: TagOp = decode(&input)?;
    let mut refs = load(obj, op.implicit)?;
    refs.held.insert(op.tag, true);
    obj.setxattr(ATTRIBUTE, encode(&refs))?;
    done()
}

fn put(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: TagOp = decode(&input)?;
    let mut refs = load(obj, op.implicit)?;
    if refs.held.is_empty() {
        return errno(EINVAL);
    }
    let held = if refs.held.contains_key(&op.tag) {
        Some(op.tag.clone())
    } else {
        (op.implicit && refs.held.contains_key(&IMPLICIT)).then_some(IMPLICIT)
    };
    let Some(held) = held.filter(|_| !refs.retired.contains(&op.tag)) else { return done() };
    refs.held.remove(&held);
    refs.retired.insert(op.tag);
    if refs.held.is_empty() {
        obj.remove()?
    } else {
        obj.setxattr(ATTRIBUTE, encode(&refs))?
    }
    done()
}

fn set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: SetOp = decode(&input)?;
    if op.tags.is_empty() {
        obj.remove()?;
    } else {
        let refs = Refs { held: op.tags.into_iter().map(|tag| (tag, true)).collect(), ..Refs::default() };
        obj.setxattr(ATTRIBUTE, encode(&refs))?;
    }
    done()
}

fn read(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ReadOp = decode(&input)?;
    let refs = load(obj, op.implicit)?;
    reply(&ReadReply { tags: refs.held.into_keys().collect() })
}
