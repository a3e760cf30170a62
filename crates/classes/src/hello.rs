//! Class `hello`: the field's example of a class, which clients' tests call to see what an OSD does with methods good and bad.
//!
//! Source of the texts, errnos and flags: Ceph 18.2 `src/cls/hello/cls_hello.cc`.

use crate::registry::{Class, METHOD_PROMOTE, METHOD_RD, METHOD_WR, Method};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{done, errno};
use bytes::Bytes;
use types::errno::{EEXIST, EINVAL, ENOENT};

pub static CLASS: Class = Class {
    name: "hello",
    families: &[&[
        Method::reads("say_hello", say_hello),
        Method { name: "record_hello", flags: METHOD_WR | METHOD_PROMOTE, call: record_hello },
        Method { name: "write_return_data", flags: METHOD_WR, call: write_return_data },
        // The name that clients before Octopus know.
        Method { name: "writes_dont_return_data", flags: METHOD_WR, call: write_return_data },
        Method { name: "write_too_much_return_data", flags: METHOD_WR, call: write_too_much_return_data },
        Method::reads("replay", replay),
        Method { name: "turn_it_to_11", flags: METHOD_RD | METHOD_WR | METHOD_PROMOTE, call: turn_it_to_11 },
        // These two break their word.
        Method { name: "bad_reader", flags: METHOD_WR, call: bad_reader },
        Method { name: "bad_writer", flags: METHOD_RD, call: bad_writer },
    ]],
};

/// Longer names are refused.
const NAME_MAX: usize = 100;
/// What is read of a greeting.
const GREETING_MAX: u64 = 1100;

fn greeting(name: &Bytes) -> ClsResult<Bytes> {
    if name.len() > NAME_MAX {
        return errno(EINVAL);
    }
    let name: &[u8] = if name.is_empty() { b"world" } else { name };
    Ok([b"Hello, ", name, b"!"].concat().into())
}

/// Notes the caller in an attribute.
fn sign(obj: &mut dyn ObjectView, attribute: &[u8]) -> ClsResult<()> {
    let who = obj.origin().to_string();
    obj.setxattr(attribute, who.into())
}

fn say_hello(_: &mut dyn ObjectView, name: Bytes) -> ClsResult<ClsReply> {
    Ok(greeting(&name)?.into())
}

fn record_hello(obj: &mut dyn ObjectView, name: Bytes) -> ClsResult<ClsReply> {
    let text = greeting(&name)?;
    match obj.stat() {
        Err(e) if e.is(ENOENT) => {}
        Err(e) => return Err(e),
        Ok(_) => return errno(EEXIST),
    }
    obj.write_full(text)?;
    sign(obj, b"said_by")?;
    done()
}

fn write_return_data(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    obj.setxattr(b"foo", Bytes::from_static(b"bar"))?;
    if input.is_empty() {
        Ok(ClsReply { code: 42, data: Bytes::from_static(b"you might see this") })
    } else {
        Ok(ClsReply { code: -EINVAL, data: Bytes::from_static(b"too much input data!") })
    }
}

fn write_too_much_return_data(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    obj.setxattr(b"foo", Bytes::from_static(b"bar"))?;
    Ok(ClsReply { code: 42, data: b"you should not see this because it is toooooo long. ".repeat(10).into() })
}

fn replay(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    Ok(obj.read(0, GREETING_MAX)?.into())
}

fn turn_it_to_11(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    if !input.is_empty() {
        return errno(EINVAL);
    }
    let text = obj.read(0, GREETING_MAX)?;
    obj.write_full(text.to_ascii_uppercase().into())?;
    sign(obj, b"amplified_by")?;
    done()
}

fn bad_reader(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    Ok(obj.read(0, 100)?.into())
}

fn bad_writer(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    obj.write_full(input)?;
    done()
}
