//! Class `cas`: objects that are shared by content, each with the references to it in the attribute `chunk_refs`. The object goes with the
//! last one.
//!
//! Source of the encodings, errnos and rules: Ceph 18.2 `src/cls/cas/*`.

mod refs;

use crate::registry::{Class, Method};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, decode, done, encode, errno, stored};
use denc::{ByteStr, Bytes, denc_struct};
use refs::Record;
use types::HObject;
use types::errno::{ENODATA, ENOENT, ENOLINK, ENOMSG};

pub static CLASS: Class = Class {
    name: "cas",
    families: &[&[
        Method::writes("chunk_create_or_get_ref", create_or_get),
        Method::writes("chunk_get_ref", get),
        Method::writes("chunk_put_ref", put),
        Method::reads("references_chunk", references),
    ]],
};

const ATTRIBUTE: &[u8] = b"chunk_refs";

/// An object that is there must have the same content.
const FLAG_VERIFY: u64 = 1;

struct CreateOp {
    source: HObject,
    flags: u64,
    data: Bytes,
}
denc_struct!(CreateOp, v 1, compat 1, { source, flags, data });

/// The input of `chunk_get_ref` and `chunk_put_ref`.
struct RefOp {
    source: HObject,
}
denc_struct!(RefOp, v 1, compat 1, { source });

fn load(obj: &mut dyn ObjectView) -> ClsResult<Record> {
    match obj.getxattr(ATTRIBUTE) {
        Err(e) if e.is(ENODATA) => Ok(Record::default()),
        other => stored(&other?),
    }
}

fn add(obj: &mut dyn ObjectView, mut record: Record, source: HObject) -> ClsResult<ClsReply> {
    record.refs.add(source);
    obj.setxattr(ATTRIBUTE, encode(&record))?;
    done()
}

fn create_or_get(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: CreateOp = decode(&input)?;
    let refs = match load(obj) {
        Err(e) if e.is(ENOENT) => {
            obj.write_full(op.data)?;
            Record::default()
        }
        other => {
            let refs = other?;
            if op.flags & FLAG_VERIFY != 0 && obj.read(0, 0)? != op.data {
                return errno(ENOMSG);
            }
            refs
        }
    };
    add(obj, refs, op.source)
}

fn get(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: RefOp = decode(&input)?;
    let refs = load(obj)?;
    add(obj, refs, op.source)
}

fn put(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: RefOp = decode(&input)?;
    let mut record = load(obj)?;
    if !record.refs.remove(&op.source) {
        return errno(ENOLINK);
    }
    if record.refs.is_empty() {
        obj.remove()?
    } else {
        obj.setxattr(ATTRIBUTE, encode(&record))?
    }
    done()
}

/// Whether this object is made of pieces one of which is the named one: ENOLINK, since no object of ours is made of pieces
/// (that takes cache-tier pools and SET_CHUNK).
fn references(_: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    Input::new(&input).get::<ByteStr>()?;
    errno(ENOLINK)
}
