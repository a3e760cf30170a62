//! An account's users, roles, groups and so on: each under its name in small letters, their number in the header.

use super::LIST_MAX;
use crate::registry::Method;
use crate::rest::{Rest, kept};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, encode, errno, reply, stored};
use denc::{ByteStr, Bytes, denc_struct};
use types::errno::{EEXIST, ENOENT, EUSERS};

pub const METHODS: &[Method] = &[
    Method::writes("account_resource_add", add),
    Method::reads("account_resource_get", get),
    Method::writes("account_resource_rm", remove),
    Method::reads("account_resource_list", list),
];

/// `cls_user_account_resource`.
#[derive(Default)]
struct Resource {
    name: ByteStr,
    path: ByteStr,
    /// Of the kind of resource.
    metadata: Bytes,
    pub rest: Rest,
}
kept!(Resource, v 1, compat 1, { name, path, metadata });

/// `cls_user_account_header`: the omap's header.
#[derive(Default)]
struct Header {
    count: u32,
    pub rest: Rest,
}
kept!(Header, v 1, compat 1, { count });

struct AddOp {
    resource: Resource,
    exclusive: bool,
    /// So many may be there.
    limit: u32,
}
denc_struct!(AddOp, v 1, compat 1, { resource, exclusive, limit });

/// The input of `get` and `rm`.
struct NameOp {
    name: ByteStr,
}
denc_struct!(NameOp, v 1, compat 1, { name });

struct GetReply {
    resource: Resource,
}
denc_struct!(GetReply, v 1, compat 1, { resource });

struct ListOp {
    marker: ByteStr,
    path_prefix: ByteStr,
    entries_max: u32,
}
denc_struct!(ListOp, v 1, compat 1, { marker, path_prefix, entries_max });

struct ListReply {
    resources: Vec<Resource>,
    truncated: bool,
    marker: ByteStr,
}
denc_struct!(ListReply, v 1, compat 1, { resources, truncated, marker });

fn key(name: &ByteStr) -> ByteStr {
    name.as_slice().to_ascii_lowercase().into()
}

fn header(obj: &mut dyn ObjectView) -> ClsResult<Header> {
    let bytes = obj.omap_header()?;
    if bytes.is_empty() { Ok(Header::default()) } else { stored(&bytes) }
}

fn exists(obj: &mut dyn ObjectView, key: &ByteStr) -> ClsResult<bool> {
    match obj.omap_val(key.as_slice()) {
        Err(e) if e.is(ENOENT) => Ok(false),
        other => other.map(|_| true),
    }
}

fn add(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: AddOp = decode(&input)?;
    let key = key(&op.resource.name);
    if !exists(obj, &key)? {
        let mut header = header(obj)?;
        if header.count >= op.limit {
            return errno(EUSERS);
        }
        header.count += 1;
        obj.omap_set_header(encode(&header))?;
    } else if op.exclusive {
        return errno(EEXIST);
    }
    obj.omap_set(vec![(key, encode(&op.resource))])?;
    done()
}

fn get(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: NameOp = decode(&input)?;
    let value = obj.omap_val(key(&op.name).as_slice())?;
    reply(&GetReply { resource: stored(&value)? })
}

fn remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: NameOp = decode(&input)?;
    let key = key(&op.name);
    if !exists(obj, &key)? {
        return errno(ENOENT);
    }
    obj.omap_remove(vec![key])?;
    let mut header = header(obj)?;
    header.count = header.count.saturating_sub(1);
    obj.omap_set_header(encode(&header))?;
    done()
}

/// Resources whose path starts with a prefix. A page may show fewer than it went through.
fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ListOp = decode(&input)?;
    let (page, truncated) = obj.omap_vals(op.marker.as_slice(), b"", LIST_MAX.min(op.entries_max.into()))?;
    let mut answer = ListReply { resources: Vec::new(), truncated, marker: ByteStr::new() };
    for (name, value) in page {
        let resource: Resource = stored(&value)?;
        if resource.path.as_slice().starts_with(op.path_prefix.as_slice()) {
            answer.resources.push(resource);
        }
        answer.marker = name;
    }
    reply(&answer)
}
