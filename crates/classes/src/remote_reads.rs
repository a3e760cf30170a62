//! Class `test_remote_reads`: the field's example of a method that reads other objects, which clients' tests call.
//!
//! Source of the facts: Ceph 18.2 `src/cls/test_remote_reads/cls_test_remote_reads.cc`.

use crate::registry::{Class, METHOD_RD, METHOD_WR, Method};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{done, errno};
use bytes::Bytes;
use serde_json::Value;
use types::ByteStr;
use types::errno::EBADMSG;

pub static CLASS: Class = Class {
    name: "test_remote_reads",
    families: &[&[Method::reads("test_read", test_read), Method { name: "test_gather", flags: METHOD_RD | METHOD_WR, call: test_gather }]],
};

/// All of the object.
fn test_read(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    Ok(obj.read(0, 0)?.into())
}

/// Calls a method on some objects and writes what they answer, one after the other in the order of their names, into this one.
fn test_gather(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let Ok(wish) = serde_json::from_slice::<Value>(&input) else { return errno(EBADMSG) };
    let text = |name: &str| wish[name].as_str();
    let (Some(class), Some(method), Some(pool)) = (text("cls"), text("method"), text("pool")) else { return errno(EBADMSG) };
    let Some(objects) = wish["src_objects"].as_array() else { return errno(EBADMSG) };
    let objects: Vec<ByteStr> = objects.iter().filter_map(Value::as_str).map(ByteStr::from).collect();
    let answers = obj.gather(pool, &objects, class.as_bytes(), method.as_bytes(), input.clone())?;
    let mut offset = 0;
    for data in answers.into_values() {
        let length = data.len() as u64;
        obj.write(offset, data)?;
        offset += length;
    }
    done()
}
